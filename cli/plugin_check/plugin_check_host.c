// SPDX-License-Identifier: MIT OR Apache-2.0
// Level 5, programs for devices that are not here, and levels 6 and 7: hosts that are newer, poorer
// or out of memory, states that were damaged, and many threads.

#include "plugin_check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 8, HOST_ROUNDS = 50, POISON = 0xA5 };

typedef struct life { ///< the objects of one block
    kf_fuser *fuser;
    kf_builder *builder;
    kf_opt *opt;
    stream_view *view;
} life;

static void life_end(check *c, life *l)
{
    c->plugin->opt_destroy(l->opt);
    c->plugin->builder_destroy(l->builder);
    c->plugin->fuser_destroy(l->fuser);
    stream_view_destroy(l->view);
}

/// False when a call fails; what there is then is destroyed by life_end all the same.
static bool life_begin(check *c, uint32_t index, const stream *s, life *l)
{
    kf_state state = {.struct_size = (uint32_t)sizeof(state)};
    *l = (life){.view = stream_view_create(s, NULL)};
    return c->plugin->fuser_create(&c->host, index, &c->device, &l->fuser) == KF_OK &&
           c->plugin->builder_create(l->fuser, &l->builder) == KF_OK &&
           check_feed(c, l->builder, l->view, 0, s->n_ops, &state) == KF_OK && state.ready &&
           c->plugin->builder_finish(l->builder, &l->opt) == KF_OK;
}

/// Streams of all fusers in turn; false when there are no more.
typedef struct walk {
    check *c;
    uint32_t index; ///< of the fuser that takes `s`
    uint32_t next;
    uint32_t seed;
    uint32_t found;
    stream s;
} walk;

static bool walk_next(walk *w)
{
    while (w->seed < w->c->streams && w->c->plugin->n_fusers > 0) {
        uint64_t seed = w->c->seed * 1000 + w->seed;
        w->index = w->next++;
        if (w->next == w->c->plugin->n_fusers) {
            w->next = 0;
            w->seed++;
        }
        kf_fuser *fuser = check_fuser(w->c, w->index);
        bool found = fuser != NULL && check_draw_stream(w->c, fuser, w->index, seed, &w->s);
        w->c->plugin->fuser_destroy(fuser);
        if (found) {
            w->found++;
            return check_good(w->c);
        }
    }
    if (w->found == 0 && !w->c->fixed_device) {
        check_no_streams(w->c);
    }
    return false;
}

// ---- 5: programs on other devices ----

/// What the argument takes of kf_device.max_param_bytes, counted as the host counts it.
static uint64_t argument_bytes(const kf_karg *a)
{
    bool is_pointer = a->kind == KF_ARG_TENSOR || a->kind == KF_ARG_TEMP || a->kind == KF_ARG_LOCAL;
    return is_pointer ? sizeof(uint64_t) : kiln_dtype_size((kiln_dtype)a->dtype);
}

static bool argument_good(check *c, const life *l, const kf_program *p, const kf_karg *a,
                          uint64_t *local)
{
    int64_t value = 0;
    switch (a->kind) {
    case KF_ARG_TENSOR:
    case KF_ARG_OFFSET:
    case KF_ARG_STRIDE:
        return stream_view_is_tensor(l->view, a->ref);
    case KF_ARG_TEMP:
        return a->ref < p->n_temps;
    case KF_ARG_DIM:
    case KF_ARG_SCALAR:
        return true;
    case KF_ARG_VALUE:
        return stream_view_formula(l->view, &c->device, a->value, &value);
    case KF_ARG_LOCAL:
        if (!stream_view_formula(l->view, &c->device, a->value, &value) || value <= 0) {
            return false;
        }
        *local += (uint64_t)value;
        return true;
    default:
        return false;
    }
}

static bool launch_good(check *c, const life *l, const kf_program *p, const kf_launch *k,
                        const char *on)
{
    uint64_t bytes = 0, local = 0, group = 1;
    if (k->source >= p->n_sources || k->kernel.len == 0 || k->dims < 1 || k->dims > 3) {
        return check_fail(c, "on %s: a launch without source, name or dimensions", on);
    }
    for (uint32_t d = 0; d < k->dims; d++) {
        int64_t global = 0, size = 1;
        if (!stream_view_formula(l->view, &c->device, k->global[d], &global) || global < 1) {
            return check_fail(c, "on %s: a launch of no work-items, or a formula without a value",
                              on);
        }
        if (k->local[d].n > 0 &&
            (!stream_view_formula(l->view, &c->device, k->local[d], &size) || size < 1 ||
             global % size != 0 || (uint64_t)size > c->device.max_group_dim[d])) {
            return check_fail(c, "on %s: %lld work-items in groups of %lld, at most %llu", on,
                              (long long)global, (long long)size,
                              (unsigned long long)c->device.max_group_dim[d]);
        }
        group *= (uint64_t)size;
    }
    for (uint32_t i = 0; i < k->n_args; i++) {
        bytes += argument_bytes(&k->args[i]);
        if (!argument_good(c, l, p, &k->args[i], &local)) {
            return check_fail(c, "on %s: argument %u of %.*s means nothing", on, i,
                              (int)k->kernel.len, k->kernel.ptr);
        }
    }
    if (group > c->device.max_group_size || local > c->device.local_bytes ||
        bytes > c->device.max_param_bytes) {
        return check_fail(
            c,
            "on %s: %llu work-items, %llu bytes of local memory, %llu of arguments: more than "
            "it has",
            on, (unsigned long long)group, (unsigned long long)local, (unsigned long long)bytes);
    }
    return true;
}

static void check_profiles(check *c)
{
    const char *on;
    if (!check_load(c)) {
        return;
    }
    uint32_t programs = 0, devices = 0;
    c->fixed_device = true;
    for (uint32_t d = 0; check_profile(d, &c->device, &on) && check_good(c); d++) {
        walk w = {.c = c};
        uint32_t before = programs;
        while (walk_next(&w)) {
            life l;
            kf_program p = {.struct_size = (uint32_t)sizeof(p)};
            check_step(c, "opt_describe for %s", on);
            if (!life_begin(c, w.index, &w.s, &l) ||
                c->plugin->opt_describe(l.opt, 0, &p) != KF_OK) {
                check_fail(c, "on %s: ready, but there is no program", on);
            }
            for (uint64_t i = 0; i < p.n_launches && check_good(c); i++) {
                (void)launch_good(c, &l, &p, p.launches[i], on);
            }
            life_end(c, &l);
            programs++;
        }
        devices += programs > before ? 1 : 0;
    }
    if (programs == 0) {
        check_no_streams(c);
    }
    check_say(c, "%u %s on %u %s", programs, kiln_plural(programs, "program", "programs"), devices,
              kiln_plural(devices, "device", "devices"));
}

// ---- 6: broken hosts and states ----

static void check_memory(check *c)
{
    walk w = {.c = c};
    life l;
    if (!check_load(c) || !walk_next(&w)) {
        return;
    }
    c->host_calls = 0;
    (void)life_begin(c, w.index, &w.s, &l);
    life_end(c, &l);
    uint64_t calls = c->host_calls;
    if (calls == 0) {
        check_skip(c, "it asks the host for no memory");
    }
    for (uint64_t n = 1; n <= calls && n <= 200 && check_good(c); n++) {
        c->host_calls = 0;
        c->fail_at = n;
        check_step(c, "a life in which call %llu for memory fails", (unsigned long long)n);
        (void)life_begin(c, w.index, &w.s, &l);
        c->fail_at = 0;
        life_end(c, &l);
        if (c->host_blocks != 0) {
            check_fail(c, "keeps memory when call %llu for it fails", (unsigned long long)n);
        }
    }
}

static void check_poor_host(check *c)
{
    walk w = {.c = c};
    if (!check_load(c)) {
        return;
    }
    c->host.alloc = NULL;
    c->host.free = NULL;
    c->host.cancelled = NULL;
    c->host.extension = NULL;
    while (walk_next(&w)) {
        life l;
        check_step(c, "a life with a host without optional services");
        if (!life_begin(c, w.index, &w.s, &l)) {
            check_fail(c, "cannot do without the host's optional services");
        }
        life_end(c, &l);
    }
}

typedef struct newer_host { ///< fields that this plugin cannot know
    kf_host host;
    unsigned char more[64];
} newer_host;

static void check_newer_host(check *c)
{
    walk w = {.c = c};
    newer_host newer;
    if (!check_load(c)) {
        return;
    }
    memset(&newer, POISON, sizeof(newer));
    newer.host = c->host;
    newer.host.struct_size = (uint32_t)sizeof(newer);
    newer.host.abi_minor = 40;
    while (walk_next(&w)) {
        life l = {.view = stream_view_create(&w.s, NULL)};
        kf_state state = {.struct_size = (uint32_t)sizeof(state)};
        check_step(c, "a life with a newer host");
        if (c->plugin->fuser_create(&newer.host, w.index, &c->device, &l.fuser) != KF_OK ||
            c->plugin->builder_create(l.fuser, &l.builder) != KF_OK ||
            check_feed(c, l.builder, l.view, 0, w.s.n_ops, &state) != KF_OK || !state.ready) {
            check_fail(c, "does not work with a host of a newer minor version");
        }
        life_end(c, &l);
    }
}

static bool untouched(const unsigned char *bytes, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (bytes[i] != POISON) {
            return false;
        }
    }
    return true;
}

/// Results go to structs of an older host: shorter, with something else behind.
static void check_older_host(check *c)
{
    walk w = {.c = c};
    if (!check_load(c)) {
        return;
    }
    while (walk_next(&w)) {
        union {
            kf_state state;
            kf_opt_info info;
            kf_program program;
            unsigned char bytes[256];
        } out;
        life l;
        bool whole = life_begin(c, w.index, &w.s, &l);
        check_step(c, "results into shorter structs");
        memset(&out, POISON, sizeof(out));
        out.state.struct_size = 24;
        if (!whole || c->plugin->builder_state(l.builder, &out.state) != KF_OK ||
            !untouched(out.bytes, 24, 256)) {
            check_fail(
                c,
                "builder_state writes past the end of a shorter struct: KF_OUT copies what fits");
        }
        memset(&out, POISON, sizeof(out));
        out.info.struct_size = 32;
        if (whole &&
            (c->plugin->opt_info(l.opt, &out.info) != KF_OK || !untouched(out.bytes, 32, 256))) {
            check_fail(c,
                       "opt_info writes past the end of a shorter struct: KF_OUT copies what fits");
        }
        memset(&out, POISON, sizeof(out));
        out.program.struct_size = 40;
        if (whole && (c->plugin->opt_describe(l.opt, 0, &out.program) != KF_OK ||
                      !untouched(out.bytes, 40, 256))) {
            check_fail(
                c, "opt_describe writes past the end of a shorter struct: KF_OUT copies what fits");
        }
        life_end(c, &l);
    }
}

static void try_state(check *c, const life *l, const unsigned char *bytes, uint64_t length)
{
    kf_opt *opt = NULL;
    kf_blob blob = {bytes, length};
    if (c->plugin->opt_from_state(l->fuser, blob, &opt) == KF_OK && opt != NULL) {
        kf_program p = {.struct_size = (uint32_t)sizeof(p)};
        (void)c->plugin->opt_describe(opt, 0, &p);
    }
    c->plugin->opt_destroy(opt);
}

static void damage_state(check *c, const life *l, kf_blob state)
{
    unsigned char *copy = malloc(state.len + 1);
    for (uint64_t n = 0; copy != NULL && n < state.len && n < 4096; n++) {
        memcpy(copy, state.ptr, state.len);
        check_step(c, "opt_from_state of the first %llu bytes", (unsigned long long)n);
        try_state(c, l, copy, n);
        copy[n] ^= (unsigned char)(1u << (n % 8));
        check_step(c, "opt_from_state with a flipped bit in byte %llu", (unsigned long long)n);
        try_state(c, l, copy, state.len);
    }
    free(copy);
}

static void check_damage(check *c)
{
    walk w = {.c = c};
    if (!check_load(c)) {
        return;
    }
    if (c->plugin->opt_to_state == NULL || c->plugin->opt_from_state == NULL) {
        check_skip(c, "it has no opt_to_state and opt_from_state");
        return;
    }
    for (int i = 0; i < 4 && walk_next(&w); i++) {
        life l;
        kf_blob state = {NULL, 0};
        kf_opt *back = NULL;
        kf_opt_info a = {.struct_size = (uint32_t)sizeof(a)}, b = a;
        if (life_begin(c, w.index, &w.s, &l) && c->plugin->opt_to_state(l.opt, &state) == KF_OK) {
            if (c->plugin->opt_from_state(l.fuser, state, &back) != KF_OK ||
                c->plugin->opt_info(l.opt, &a) != KF_OK || c->plugin->opt_info(back, &b) != KF_OK ||
                a.len != b.len || a.key.len != b.key.len ||
                memcmp(a.key.ptr, b.key.ptr, a.key.len) != 0) {
                check_fail(c, "what comes back from a state is not what went in");
            }
            c->plugin->opt_destroy(back);
            damage_state(c, &l, state);
        }
        life_end(c, &l);
    }
}

static uint64_t cancel_draws;

static uint32_t sometimes(const kf_host *host)
{
    (void)host;
    cancel_draws = cancel_draws * 6364136223846793005u + 1442695040888963407u;
    return cancel_draws >> 63 != 0;
}

static void check_cancel(check *c)
{
    walk w = {.c = c};
    if (!check_load(c)) {
        return;
    }
    c->host.cancelled = sometimes;
    while (walk_next(&w)) {
        life l;
        check_step(c, "a life that is cancelled at random points");
        (void)life_begin(c, w.index, &w.s, &l);
        life_end(c, &l);
    }
    if (cancel_draws == 0 && check_good(c)) {
        check_skip(c, "it never asks whether it was cancelled");
    }
}

// ---- 7: threads ----

typedef struct worker {
    check *c;
    const kf_fuser *fuser;
    const kf_opt *opt; ///< shared
    const stream *s;
    uint64_t want;
    clock_t end; ///< of the process's own time: on a busy machine threads seldom meet
    bool wrong;
} worker;

static uint64_t hash_of(check *c, const kf_opt *opt)
{
    uint64_t hash = 0xcbf29ce484222325u;
    kf_opt_info info = {.struct_size = (uint32_t)sizeof(info)};
    kf_program p = {.struct_size = (uint32_t)sizeof(p)};
    if (c->plugin->opt_info(opt, &info) != KF_OK || c->plugin->opt_describe(opt, 0, &p) != KF_OK) {
        return 0;
    }
    for (uint64_t i = 0; i < info.key.len; i++) {
        hash = (hash ^ ((const unsigned char *)info.key.ptr)[i]) * 0x100000001b3u;
    }
    for (uint64_t i = 0; i < p.n_sources; i++) {
        for (uint64_t k = 0; k < p.sources[i]->code.len; k++) {
            hash = (hash ^ ((const unsigned char *)p.sources[i]->code.ptr)[k]) * 0x100000001b3u;
        }
    }
    return hash;
}

static void *work(void *argument)
{
    worker *w = argument;
    for (int round = 0; (round < HOST_ROUNDS || clock() < w->end) && !w->wrong; round++) {
        const kf_plugin *p = w->c->plugin;
        kf_builder *builder = NULL, *clone = NULL;
        kf_opt *opt = NULL;
        kf_state state = {.struct_size = (uint32_t)sizeof(state)};
        stream_view *view = stream_view_create(w->s, NULL);
        bool good = p->builder_create(w->fuser, &builder) == KF_OK &&
                    check_feed(w->c, builder, view, 0, w->s->n_ops, &state) == KF_OK &&
                    p->builder_clone(builder, &clone) == KF_OK &&
                    p->builder_finish(clone, &opt) == KF_OK;
        w->wrong = !good || hash_of(w->c, opt) != w->want || hash_of(w->c, w->opt) != w->want;
        p->opt_destroy(opt);
        p->builder_destroy(clone);
        p->builder_destroy(builder);
        stream_view_destroy(view);
    }
    return NULL;
}

static void run_threads(check *c, const life *l, const stream *s)
{
    pthread_t threads[THREADS];
    worker workers[THREADS];
    clock_t end = clock() + CLOCKS_PER_SEC / 10;
    uint32_t n = 0;
    for (; n < THREADS; n++) {
        workers[n] = (worker){c, l->fuser, l->opt, s, hash_of(c, l->opt), end, false};
        if (pthread_create(&threads[n], NULL, work, &workers[n]) != 0) {
            break;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        if (workers[i].wrong) {
            check_fail(c, "with %d threads on one fuser a builder gives another program", THREADS);
        }
    }
}

#ifdef __SANITIZE_THREAD__
static atomic_bool raced;
void __tsan_on_report(void *report); // the sanitizer calls it
void __tsan_on_report(void *report)
{
    (void)report;
    raced = true;
}

static void tell_races(check *c)
{
    if (raced) {
        check_fail(c, "ThreadSanitizer reports a data race: --only threads --in-process shows it");
    }
}
#else
static void tell_races(check *c)
{
    check_say(c,
              "same programs on %d threads; a Kiln and a plugin built with -fsanitize=thread "
              "would show races that do no harm here",
              THREADS);
}
#endif

static void check_threads(check *c)
{
    walk w = {.c = c};
    if (!check_load(c)) {
        return;
    }
    for (uint64_t i = 0; i < 4 + 2 * c->plugin->n_fusers && walk_next(&w); i++) {
        life l;
        if (!life_begin(c, w.index, &w.s, &l)) {
            check_fail(c, "a block that was whole before cannot be made again");
        } else {
            check_step(c, "%d threads with builders of one fuser", THREADS);
            run_threads(c, &l, &w.s);
        }
        life_end(c, &l);
    }
    tell_races(c);
}

const check_row check_host_rows[] = {
    {"profiles", 5, check_profiles, "programs keep within the limits of CPUs, GPUs and an FPGA"},
    {"memory", 6, check_memory, "the host's memory may end at any call"},
    {"poor-host", 6, check_poor_host, "does without the host's optional services"},
    {"newer-host", 6, check_newer_host, "works with a host that knows more"},
    {"older-host", 6, check_older_host, "writes no further than the host's structs go"},
    {"saved", 6, check_damage, "saved states come back; damaged ones do no harm"},
    {"cancel", 6, check_cancel, "may be cancelled at any point"},
    {"threads", 7, check_threads, "many threads on one fuser, and one program for all"},
    {NULL, 0, NULL, NULL},
};
