// SPDX-License-Identifier: MIT OR Apache-2.0
// Level 3: the rules of fusing (kiln_fuser.h, "Lifecycle"), on streams that the fusers take and on
// random ones. Every check goes over all fusers of the plugin and several seeds.

#include "plugin_check_rules.h"
#include "plugin_cli.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SNAPSHOT = 8192 };

kf_builder *rules_shown(subject *t, stream_view *view, uint32_t to, kf_state *state)
{
    kf_builder *builder = NULL;
    *state = (kf_state){.struct_size = (uint32_t)sizeof(*state)};
    check_step(t->c, "builder_fuse, seed %llu", (unsigned long long)t->seed);
    if (t->p->builder_create(t->fuser, &builder) != KF_OK) {
        check_fail(t->c, "builder_create fails");
    } else if (check_feed(t->c, builder, view, 0, to, state) != KF_OK) {
        check_fail(t->c, "builder_fuse fails, seed %llu", (unsigned long long)t->seed);
    }
    return builder;
}

bool rules_wrong(subject *t, const char *what)
{
    char text[300];
    stream_print(&t->s, text, sizeof(text));
    return check_fail(t->c, "%s; seed %llu: %s", what, (unsigned long long)t->seed, text);
}

/// Some blocks without an estimate are rarely meant: a formula that grew too long is absent, too.
static void say_streams(const subject *t, uint32_t tried)
{
    if (t->silent == 0) {
        check_say(t->c, "%u streams", tried);
    } else {
        check_say(t->c,
                  "%u streams; no est_ns in %" PRIu64 " of %" PRIu64
                  " ready states (a formula of more than %u instructions counts as none)",
                  tried, t->silent, t->offers, KF_MAX_EXPR);
    }
}

void rules_on_streams(check *c, rule_fn rule, bool random)
{
    uint32_t tried = 0;
    subject t = {.c = c};
    if (!check_load(c)) {
        return;
    }
    t.p = c->plugin;
    for (t.index = 0; t.index < t.p->n_fusers && check_good(c); t.index++) {
        t.fuser = check_fuser(c, t.index);
        for (uint32_t i = 0; i < c->streams && t.fuser != NULL && check_good(c); i++) {
            t.seed = c->seed * 1000 + i;
            if (random) {
                stream_init(&t.s, t.seed);
                for (int k = 0; k < 400 && t.s.n_ops < 12; k++) {
                    (void)stream_grow(&t.s, KILN_OP_COUNT);
                }
            } else if (!check_draw_stream(c, t.fuser, t.index, t.seed, &t.s)) {
                continue;
            }
            t.view = stream_view_create(&t.s, NULL);
            rule(&t);
            tried++;
            stream_view_destroy(t.view);
        }
        t.p->fuser_destroy(t.fuser);
    }
    if (tried == 0) {
        check_no_streams(c);
    } else {
        say_streams(&t, tried);
    }
}

// ---- states ----

static size_t add_expr(unsigned char *out, size_t n, kf_expr e)
{
    size_t bytes = e.n * sizeof(kf_ins);
    if (e.n > KF_MAX_EXPR || n + bytes + sizeof(e.n) > SNAPSHOT * 4) {
        return n;
    }
    memcpy(out + n, &e.n, sizeof(e.n));
    if (bytes > 0) {
        memcpy(out + n + sizeof(e.n), e.ins, bytes);
    }
    return n + sizeof(e.n) + bytes;
}

typedef struct snapshot { ///< all that a state says, formulas included
    unsigned char bytes[SNAPSHOT * 4];
    size_t n;
} snapshot;

static void snap(snapshot *out, const kf_state *state)
{
    const uint32_t plain[] = {state->status, state->ready, state->ready ? state->len : 0,
                              state->ready ? state->launches : 0,
                              state->ready ? state->confidence : 0};
    memcpy(out->bytes, plain, sizeof(plain));
    out->n = sizeof(plain);
    if (state->ready) {
        const kf_expr all[] = {state->est_ns, state->est_bytes_read, state->est_bytes_written,
                               state->est_flops, state->temp_bytes};
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
            out->n = add_expr(out->bytes, out->n, all[i]);
        }
    }
}

static bool same(const snapshot *a, const snapshot *b)
{
    return a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0;
}

/// FNV-1a of bytes behind `hash`.
static uint64_t hash_more(uint64_t hash, const void *bytes, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    }
    return hash;
}

static uint64_t hash_claims(uint64_t hash, const kf_opt_info *info)
{
    uint64_t n = info->variant_ns != NULL ? info->n_variant_ns : 0;
    for (uint64_t i = 1; i < n && i < RULES_MOST_VARIANTS; i++) {
        kf_expr one = info->variant_ns[i];
        hash = hash_more(hash, &one.n, sizeof(one.n));
        if (one.n <= KF_MAX_EXPR) {
            hash = hash_more(hash, one.ins, one.n * sizeof(kf_ins));
        }
    }
    return hash;
}

/// The key of what the builder finishes and what it claims of variants, hashed; 0: it does not
/// finish.
static uint64_t key_of(subject *t, const kf_builder *builder)
{
    kf_opt *opt = NULL;
    uint64_t hash = 0;
    check_step(t->c, "builder_finish and opt_info, seed %llu", (unsigned long long)t->seed);
    if (t->p->builder_finish((kf_builder *)(uintptr_t)builder, &opt) == KF_OK && opt != NULL) {
        kf_opt_info info = {.struct_size = (uint32_t)sizeof(info)};
        hash = 0xcbf29ce484222325u;
        if (t->p->opt_info(opt, &info) == KF_OK) {
            hash = hash_more(hash, info.key.ptr, info.key.len);
            hash = hash_claims(hash, &info);
        }
    }
    t->p->opt_destroy(opt);
    return hash;
}

// ---- the rules ----

void rules_estimate(subject *t, const char *name, kf_expr ns)
{
    int64_t value = 0;
    char text[120];
    if (!stream_view_formula(t->view, &t->c->device, ns, &value)) {
        snprintf(text, sizeof(text),
                 "%s has no value: it divides by zero, overflows or is no formula", name);
        rules_wrong(t, text);
    } else if (value < 0) {
        snprintf(text, sizeof(text), "%s is less than 0", name);
        rules_wrong(t, text);
    }
}

/// An estimate may be absent.
static void rule_estimate(subject *t, const kf_state *state)
{
    if (!state->ready) {
        return;
    }
    t->offers++;
    if (state->est_ns.n == 0) {
        t->silent++;
        return;
    }
    rules_estimate(t, "est_ns", state->est_ns);
}

static void rule_state(subject *t)
{
    kf_builder *builder = NULL;
    bool closed = false;
    (void)t->p->builder_create(t->fuser, &builder);
    for (uint32_t i = 0; i < t->s.n_ops && check_good(t->c); i++) {
        kf_state state = {0}, again = {.struct_size = (uint32_t)sizeof(again)};
        snapshot a, b;
        if (check_feed(t->c, builder, t->view, i, i + 1, &state) != KF_OK) {
            rules_wrong(t, "builder_fuse fails");
            break;
        }
        snap(&a, &state);
        if (state.len > i + 1) {
            rules_wrong(t, "len is above the number of operations shown");
        } else if (state.ready > 1 || state.status > KF_CLOSED) {
            rules_wrong(t, "ready or status has a value that does not exist");
        } else if (state.ready && state.len == 0) {
            rules_wrong(t, "ready without a length");
        } else if (closed && state.status == KF_OPEN) {
            rules_wrong(t, "open again after it was closed");
        } else if (t->p->builder_state(builder, &again) != KF_OK) {
            rules_wrong(t, "builder_state fails");
        } else {
            snap(&b, &again);
            if (!same(&a, &b)) {
                rules_wrong(t, "builder_state says something else than builder_fuse did");
            }
            rule_estimate(t, &again);
        }
        closed = state.status == KF_CLOSED;
    }
    t->p->builder_destroy(builder);
}

static void check_states(check *c)
{
    rules_on_streams(c, rule_state, /*random=*/false);
}

static void check_random(check *c)
{
    rules_on_streams(c, rule_state, /*random=*/true);
}

static void rule_batch(subject *t)
{
    const kf_op *ops[STREAM_OPS];
    kf_state one, all = {.struct_size = (uint32_t)sizeof(all)};
    snapshot a, b;
    kf_builder *single = rules_shown(t, t->view, t->s.n_ops, &one);
    kf_builder *batch = NULL;
    stream_view *view = stream_view_create(&t->s, NULL);
    snap(&a, &one);
    for (uint32_t i = 0; i < t->s.n_ops; i++) {
        ops[i] = stream_view_op(view, i);
    }
    if (t->p->builder_create(t->fuser, &batch) != KF_OK ||
        t->p->builder_fuse(batch, stream_view_block(view), ops, t->s.n_ops, &all) != KF_OK) {
        rules_wrong(t, "builder_fuse of several operations fails");
    } else {
        snap(&b, &all);
        if (!same(&a, &b)) {
            rules_wrong(t, "one by one and all at once give different answers");
        }
    }
    t->p->builder_destroy(single);
    t->p->builder_destroy(batch);
    stream_view_destroy(view);
}

static void check_batch(check *c)
{
    rules_on_streams(c, rule_batch, /*random=*/false);
}

static void rule_clone(subject *t)
{
    kf_state state, half, after = {.struct_size = (uint32_t)sizeof(after)};
    snapshot a, b;
    uint32_t middle = t->s.n_ops / 2;
    kf_builder *whole = rules_shown(t, t->view, t->s.n_ops, &state);
    uint64_t key = key_of(t, whole);
    stream_view *view = stream_view_create(&t->s, NULL);
    kf_builder *original = rules_shown(t, view, middle, &half), *clone = NULL;
    snap(&a, &half);
    check_step(t->c, "builder_clone, seed %llu", (unsigned long long)t->seed);
    if (t->p->builder_clone(original, &clone) != KF_OK ||
        check_feed(t->c, clone, view, middle, t->s.n_ops, &state) != KF_OK) {
        rules_wrong(t, "a clone cannot be made or shown more");
    } else if (key_of(t, clone) != key) {
        rules_wrong(t, "a clone that was shown the rest gives another key");
    } else if (middle > 0 && (t->p->builder_state(original, &after) != KF_OK ||
                              (snap(&b, &after), !same(&a, &b)))) {
        rules_wrong(t, "showing the clone operations changes the original");
    }
    t->p->builder_destroy(original);
    if (check_good(t->c) && key_of(t, clone) != key) {
        rules_wrong(t, "destroying the original changes the clone");
    }
    t->p->builder_destroy(clone);
    t->p->builder_destroy(whole);
    stream_view_destroy(view);
}

static void check_clone(check *c)
{
    rules_on_streams(c, rule_clone, /*random=*/false);
}

static void rule_reset(subject *t)
{
    kf_state first, second = {0};
    snapshot a, b;
    kf_builder *builder = rules_shown(t, t->view, t->s.n_ops, &first);
    uint64_t key = key_of(t, builder);
    snap(&a, &first);
    stream_view *view = stream_view_create(&t->s, NULL);
    check_step(t->c, "builder_reset, seed %llu", (unsigned long long)t->seed);
    if (t->p->builder_reset(builder) != KF_OK ||
        check_feed(t->c, builder, view, 0, t->s.n_ops, &second) != KF_OK) {
        rules_wrong(t, "a builder cannot be reset or shown more then");
    } else if (snap(&b, &second), !same(&a, &b) || key_of(t, builder) != key) {
        rules_wrong(t, "after a reset the same operations give another answer");
    }
    t->p->builder_destroy(builder);
    stream_view_destroy(view);
}

static void check_reset(check *c)
{
    rules_on_streams(c, rule_reset, /*random=*/false);
}

static void rule_closed(subject *t)
{
    kf_state state, more = {0};
    snapshot a, b;
    uint32_t end = t->s.n_ops;
    for (int i = 0; i < 4000 && t->s.n_ops < STREAM_OPS; i++) { // until something closes it
        stream longer = t->s;
        uint32_t from = longer.n_ops;
        if (!stream_grow(&longer, KILN_OP_COUNT)) {
            continue;
        }
        stream_view *view = stream_view_create(&longer, NULL);
        kf_builder *builder = rules_shown(t, view, from + 1, &state);
        if (state.status == KF_CLOSED && check_good(t->c)) {
            snap(&a, &state);
            t->s = longer;
            while (t->s.n_ops < from + 3 && i++ < 4000) {
                (void)stream_grow(&t->s, KILN_OP_COUNT);
            }
            stream_view_destroy(view);
            view = stream_view_create(&t->s, NULL);
            t->p->builder_destroy(builder);
            builder = rules_shown(t, view, from + 1, &state);
            if (check_feed(t->c, builder, view, from + 1, t->s.n_ops, &more) != KF_OK) {
                rules_wrong(t, "builder_fuse fails on a closed builder");
            } else if (t->s.n_ops > from + 1 && (snap(&b, &more), !same(&a, &b))) {
                rules_wrong(t, "operations shown to a closed builder change its answer");
            }
            i = 4000;
        }
        t->p->builder_destroy(builder);
        stream_view_destroy(view);
        t->s.n_ops = i >= 4000 ? t->s.n_ops : end;
    }
}

static void check_closed(check *c)
{
    rules_on_streams(c, rule_closed, /*random=*/false);
}

static void rule_finish(subject *t)
{
    kf_state state, after = {.struct_size = (uint32_t)sizeof(after)};
    snapshot a, b;
    kf_builder *builder = rules_shown(t, t->view, t->s.n_ops, &state);
    kf_opt *opt = NULL, *early = NULL;
    kf_opt_info info = {.struct_size = (uint32_t)sizeof(info)};
    snap(&a, &state);
    if (t->p->builder_finish(builder, &opt) != KF_OK || opt == NULL) {
        rules_wrong(t, "ready, but builder_finish fails");
    } else if (t->p->opt_info(opt, &info) != KF_OK || info.len != state.len) {
        rules_wrong(t, "opt_info.len is not the len that the builder promised");
    } else if (info.n_variants == 0 || info.name.len == 0 || info.key.len == 0) {
        rules_wrong(t, "opt_info has no variants, name or key");
    } else if (t->p->builder_state(builder, &after) != KF_OK || (snap(&b, &after), !same(&a, &b))) {
        rules_wrong(t, "builder_finish changes the builder");
    }
    t->p->opt_destroy(opt);
    t->p->builder_destroy(builder);
    for (uint32_t i = 0; i < t->s.n_ops && check_good(t->c); i++) {
        stream_view *view = stream_view_create(&t->s, NULL);
        builder = rules_shown(t, view, i, &state);
        if (!(i > 0 && state.ready) &&
            (t->p->builder_finish(builder, &early) == KF_OK || early != NULL)) {
            rules_wrong(t, "builder_finish gives something although the builder is not ready");
        }
        t->p->builder_destroy(builder);
        stream_view_destroy(view);
    }
}

static void check_finish(check *c)
{
    rules_on_streams(c, rule_finish, /*random=*/false);
}

// ---- what is newer than the plugin ----

typedef enum spoil {
    SPOIL_VERSION,
    SPOIL_OP_FLAG,
    SPOIL_ATTR,
    SPOIL_TENSOR_FLAG,
    SPOIL_SCHEME,
    SPOIL_OP_TAIL,
    SPOIL_TENSOR_TAIL,
    SPOIL_KIND,
    SPOIL_RESULT_FLAG,
    SPOIL_COUNT,
    SPOIL_HINT = SPOIL_COUNT, ///< this one and those that follow change nothing
    SPOIL_FACT,
    SPOIL_ALL
} spoil;

static const char *const spoil_texts[] = {
    "a newer version of an operator",
    "an unknown flag of an operation",
    "an unknown attribute that is no hint",
    "an unknown flag of an input",
    "a quantisation scheme",
    "a newer, non-zero field of an operation",
    "a newer, non-zero field of a tensor",
    "an unknown operator",
    "an unknown flag of a result",
    "an unknown hint",
    "an unknown fact of a tensor",
};

static void spoil_op(kf_op *op, spoil how)
{
    kf_tensor *in = (kf_tensor *)(uintptr_t)op->inputs[0];
    kf_attr *attrs = (kf_attr *)(uintptr_t)op->attrs;
    switch (how) {
    case SPOIL_VERSION:
        op->version += 100;
        break;
    case SPOIL_OP_FLAG:
        op->flags |= 1u << 30;
        break;
    case SPOIL_ATTR:
    case SPOIL_HINT:
        attrs[op->n_attrs++] = (kf_attr){.key = 65000,
                                         .type = KF_TYPE_I64,
                                         .flags = how == SPOIL_HINT ? KF_ATTR_FLAG_HINT : 0,
                                         .count = 1,
                                         .v.i = 1};
        break;
    case SPOIL_TENSOR_FLAG:
        in->flags |= 1u << 30;
        break;
    case SPOIL_SCHEME:
        in->scheme = 77;
        break;
    case SPOIL_OP_TAIL:
        ((unsigned char *)op)[sizeof(*op) + 3] = 1;
        break;
    case SPOIL_TENSOR_TAIL:
        ((unsigned char *)in)[sizeof(*in) + 3] = 1;
        break;
    case SPOIL_KIND:
        op->kind = 0x7fff0001u;
        break;
    case SPOIL_RESULT_FLAG:
        ((kf_tensor *)(uintptr_t)op->outputs[0])->flags |= 1u << 29;
        break;
    default:
        in->facts |= 1u << 30;
        break;
    }
}

static void spoil_one(subject *t, uint32_t at, spoil how)
{
    const stream_view_options newer = {.tail = 16};
    stream_view *view = stream_view_create(&t->s, &newer);
    kf_state clean, state = {0};
    char text[160];
    kf_builder *builder = rules_shown(t, view, at, &clean);
    kf_op *op = stream_view_op(view, at);
    const kf_op *shown_op = op;
    spoil_op(op, how);
    state.struct_size = (uint32_t)sizeof(state);
    check_step(t->c, "builder_fuse with %s, seed %llu", spoil_texts[how],
               (unsigned long long)t->seed);
    if (t->p->builder_fuse(builder, stream_view_block(view), &shown_op, 1, &state) != KF_OK) {
        snprintf(text, sizeof(text), "%s makes builder_fuse fail instead of close",
                 spoil_texts[how]);
        rules_wrong(t, text);
    } else if (how < SPOIL_COUNT &&
               (state.status != KF_CLOSED || (state.ready && state.len > at))) {
        snprintf(text, sizeof(text),
                 "%s does not close the builder (kf_op_understood has the check)",
                 spoil_texts[how]);
        rules_wrong(t, text);
    } else if (how >= SPOIL_COUNT &&
               check_feed(t->c, builder, view, at + 1, t->s.n_ops, &state) == KF_OK &&
               (!state.ready || state.len != t->s.n_ops)) {
        snprintf(text, sizeof(text), "%s must be ignored and is not", spoil_texts[how]);
        rules_wrong(t, text);
    }
    t->p->builder_destroy(builder);
    stream_view_destroy(view);
}

static void rule_newer(subject *t)
{
    for (uint32_t i = 0; i < t->s.n_ops; i++) {
        for (int how = 0; how < SPOIL_ALL && check_good(t->c); how++) {
            if (t->s.ops[i].op != KILN_OP_DROP) {
                spoil_one(t, i, (spoil)how);
            }
        }
    }
}

static void check_newer(check *c)
{
    rules_on_streams(c, rule_newer, /*random=*/false);
}

static void rule_unmapped(subject *t)
{
    const stream_view_options gone = {.unmap = true};
    kf_state state;
    stream_view *view = stream_view_create(&t->s, &gone);
    kf_builder *builder = rules_shown(t, view, t->s.n_ops, &state);
    (void)stream_view_op; // the last region is taken away with the view
    stream_view_destroy(view);
    check_step(t->c, "builder_finish after the operations' memory was taken away, seed %llu",
               (unsigned long long)t->seed);
    kf_opt *opt = NULL;
    kf_program program = {.struct_size = (uint32_t)sizeof(program)};
    if (t->p->builder_finish(builder, &opt) != KF_OK || opt == NULL ||
        t->p->opt_describe(opt, 0, &program) != KF_OK) {
        rules_wrong(t, "ready, but builder_finish or opt_describe fails");
    }
    t->p->opt_destroy(opt);
    t->p->builder_destroy(builder);
}

static void check_unmapped(check *c)
{
    rules_on_streams(c, rule_unmapped, /*random=*/false);
}

// ---- determinism and cost ----

/// All that the plugin says of the streams of a seed, as one number.
static uint64_t fingerprint(check *c)
{
    uint64_t hash = 0;
    for (uint32_t f = 0; f < c->plugin->n_fusers; f++) {
        subject t = {.c = c, .p = c->plugin, .fuser = check_fuser(c, f), .index = f};
        for (uint32_t i = 0; t.fuser != NULL && i < 10; i++) {
            static snapshot a;
            kf_state state;
            t.seed = c->seed * 1000 + i;
            if (!check_draw_stream(c, t.fuser, t.index, t.seed, &t.s)) {
                continue;
            }
            t.view = stream_view_create(&t.s, NULL);
            kf_builder *builder = rules_shown(&t, t.view, t.s.n_ops, &state);
            snap(&a, &state);
            hash = hash_more(hash, a.bytes, a.n);
            hash = hash * 31 + key_of(&t, builder);
            c->plugin->builder_destroy(builder);
            stream_view_destroy(t.view);
        }
        c->plugin->fuser_destroy(t.fuser);
    }
    return hash;
}

int plugin_fingerprint(int argc, char **argv)
{
    check_result result = {0};
    check c = {.result = &result, .streams = 1};
    if (argc != 4) {
        return CLI_USAGE;
    }
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    (void)check_corpus_open((int)strtol(argv[3], NULL, 10));
    c.path = argv[1];
    c.seed = strtoull(argv[2], NULL, 10);
    if (!check_load(&c)) {
        return CLI_FAILED;
    }
    printf("%016llx\n", (unsigned long long)fingerprint(&c));
    return check_good(&c) ? CLI_OK : CLI_FAILED;
}

/// The same in a process of other addresses, and another environment and time.
static bool elsewhere(check *c, uint64_t *out)
{
    int fds[2];
    char seed[32], file[16], text[64] = "";
    snprintf(seed, sizeof(seed), "%llu", (unsigned long long)c->seed);
    snprintf(file, sizeof(file), "%d", check_corpus_open(-1));
    if (pipe(fds) != 0) {
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        dup2(fds[1], STDOUT_FILENO);
        setenv("KILN_CHECK_ELSEWHERE", seed, 1);
        execl("/proc/self/exe", "kiln", "plugin", "fingerprint", c->path, seed, file, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    ssize_t got = child > 0 ? read(fds[0], text, sizeof(text) - 1) : -1;
    int status = 1;
    close(fds[0]);
    if (child > 0) {
        waitpid(child, &status, 0);
    }
    *out = strtoull(text, NULL, 16);
    return got > 0 && status == 0;
}

static void check_same(check *c)
{
    uint64_t here, there[2] = {0, 0};
    if (!check_load(c)) {
        return;
    }
    check_step(c, "the same streams in other processes");
    here = fingerprint(c);
    for (int i = 0; i < 2 && check_good(c); i++) {
        if (!elsewhere(c, &there[i])) {
            check_fail(c, "the same streams fail in another process");
        } else if (there[i] != here) {
            check_fail(c, "the same operations give other answers or keys in another process");
        }
    }
    if (check_good(c) && here == 0) {
        check_no_streams(c);
    }
}

static void rule_cost(subject *t)
{
    kf_state state;
    enum { ROUNDS = 20 };
    uint64_t begin = kiln_processor_ns();
    for (int i = 0; i < ROUNDS; i++) {
        stream_view *view = stream_view_create(&t->s, NULL);
        t->p->builder_destroy(rules_shown(t, view, t->s.n_ops, &state));
        stream_view_destroy(view);
    }
    double each = (double)(kiln_processor_ns() - begin) / ROUNDS / t->s.n_ops;
    if (each > 1e6) {
        rules_wrong(t, "showing one operation takes more than 1 ms");
    }
}

static void check_cost(check *c)
{
    rules_on_streams(c, rule_cost, /*random=*/false);
}

const check_row check_rules_rows[] = {
    {"states", 3, check_states, "answers keep the rules on streams that it takes"},
    {"any-stream", 3, check_random, "answers keep the rules on any stream"},
    {"batch", 3, check_batch, "all operations at once equal one by one"},
    {"clone", 3, check_clone, "a clone is an independent copy"},
    {"reset", 3, check_reset, "reset equals a fresh builder"},
    {"closed", 3, check_closed, "a closed builder stays as it is"},
    {"finish", 3, check_finish, "finish needs ready, covers len, and changes nothing"},
    {"newer", 3, check_newer, "what is newer than the plugin closes, hints are ignored"},
    {"unmapped", 3, check_unmapped, "keeps no pointer into operations that it was shown"},
    {"same", 3, check_same, "same operations, same answer, in any process"},
    {"cost", 3, check_cost, "showing an operation takes at most 1 ms of processor"},
    {NULL, 0, NULL, NULL},
};
