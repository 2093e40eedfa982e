// SPDX-License-Identifier: MIT OR Apache-2.0
// Level 2: the life of a plugin's objects: order of calls, and what they leave behind:
// memory, threads, signal handlers, text on standard output.

#include "plugin_check.h"

#include <dirent.h>
#include <fenv.h>
#include <locale.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static bool names_good(check *c)
{
    for (uint64_t i = 0; i < c->plugin->n_fusers; i++) {
        const kf_str *id = &c->plugin->fuser_ids[i];
        for (uint64_t k = 0; k < i; k++) {
            const kf_str *other = &c->plugin->fuser_ids[k];
            if (id->len == other->len && memcmp(id->ptr, other->ptr, id->len) == 0) {
                return check_fail(c, "two fusers are called %.*s", (int)id->len, id->ptr);
            }
        }
    }
    return true;
}

static void check_order(check *c)
{
    if (!check_load(c) || !names_good(c)) {
        return;
    }
    const kf_plugin *p = c->plugin;
    check_step(c, "init and deinit a second time");
    if (p->init() != KF_OK) {
        check_fail(c, "a second init fails: it is counted, two runtimes may share the library");
        return;
    }
    p->deinit();
    for (uint32_t i = 0; i < p->n_fusers; i++) {
        kf_fuser *fuser = check_fuser(c, i);
        if (fuser != NULL) {
            kf_builder *builder = NULL, *clone = NULL;
            check_step(c, "builder_create, clone and reset of fuser %u", i);
            if (p->builder_create(fuser, &builder) != KF_OK ||
                p->builder_clone(builder, &clone) != KF_OK || p->builder_reset(builder) != KF_OK) {
                check_fail(c, "an empty builder cannot be made, cloned or reset");
            }
            kf_state state = {.struct_size = (uint32_t)sizeof(state)};
            kf_opt *opt = NULL;
            if (p->builder_state(builder, &state) != KF_OK || state.ready || state.len != 0 ||
                state.status != KF_OPEN) {
                check_fail(c, "an empty builder is not open and without length");
            }
            check_step(c, "builder_finish of an empty builder");
            if (p->builder_finish(builder, &opt) == KF_OK || opt != NULL) {
                check_fail(c, "an empty builder can be finished");
            }
            p->builder_destroy(clone);
            p->builder_destroy(builder);
        }
        p->fuser_destroy(fuser);
    }
    if (p->n_fusers == 0) { // operators alone: there are no other functions
        check_step(c, "deinit");
        p->deinit();
        return;
    }
    kf_fuser *none = NULL;
    check_step(c, "fuser_create past the last fuser");
    if (p->fuser_create(&c->host, (uint32_t)p->n_fusers, &c->device, &none) == KF_OK ||
        none != NULL) {
        check_fail(c, "fuser_create past the last fuser succeeds");
    }
    check_step(c, "destroy of NULL");
    p->builder_destroy(NULL);
    p->opt_destroy(NULL);
    p->fuser_destroy(NULL);
    check_step(c, "deinit");
    p->deinit();
}

static void check_unknown(check *c)
{
    if (check_load(c)) {
        check_step(c, "extension");
        if (c->plugin->extension != NULL &&
            c->plugin->extension("com.example.nobody-has-this/9") != NULL) {
            check_fail(c, "an extension of an unknown id is not NULL");
        }
    }
}

/// One whole life: a stream of what it takes through builder, clone, optimization and back.
static bool live_once(check *c, uint32_t index, const stream *s)
{
    const kf_plugin *p = c->plugin;
    kf_fuser *fuser = check_fuser(c, index);
    kf_builder *builder = NULL, *clone = NULL;
    kf_opt *opt = NULL;
    kf_state state = {.struct_size = (uint32_t)sizeof(state)};
    stream_view *view = stream_view_create(s, NULL);
    bool good = fuser != NULL && p->builder_create(fuser, &builder) == KF_OK &&
                check_feed(c, builder, view, 0, s->n_ops, &state) == KF_OK &&
                p->builder_clone(builder, &clone) == KF_OK &&
                p->builder_finish(clone, &opt) == KF_OK;
    if (good) {
        kf_program program = {.struct_size = (uint32_t)sizeof(program)};
        good = p->opt_describe(opt, 0, &program) == KF_OK;
    }
    p->opt_destroy(opt);
    p->builder_destroy(clone);
    p->builder_destroy(builder);
    p->fuser_destroy(fuser);
    stream_view_destroy(view);
    return good;
}

/// Of any fuser; NULL when none takes anything.
static bool find_stream(check *c, stream *s, uint32_t *out_index)
{
    for (uint32_t i = 0; i < c->plugin->n_fusers; i++) {
        kf_fuser *fuser = check_fuser(c, i);
        for (uint64_t seed = c->seed; fuser != NULL && seed < c->seed + 40; seed++) {
            if (check_draw_stream(c, fuser, i, seed, s)) {
                c->plugin->fuser_destroy(fuser);
                *out_index = i;
                return true;
            }
        }
        c->plugin->fuser_destroy(fuser);
    }
    check_no_streams(c);
    return false;
}

static void check_leaks(check *c)
{
    stream s;
    uint32_t index;
    if (!check_load(c) || !find_stream(c, &s, &index)) {
        return;
    }
    size_t before = 0;
    for (int i = 0; i < 300; i++) {
        check_step(c, "life %d of all objects", i);
        if (!live_once(c, index, &s)) {
            check_fail(c, "a block that was whole before cannot be made again");
            return;
        }
        if (i == 99) {
            before = mallinfo2().uordblks;
        }
    }
    size_t after = mallinfo2().uordblks;
    if (c->host_blocks != 0) {
        check_fail(c, "keeps %llu %s of the host's memory", (unsigned long long)c->host_blocks,
                   kiln_plural(c->host_blocks, "block", "blocks"));
    } else if (after > before + 200 * 8) {
        check_fail(c, "200 lives leave %zu bytes behind", after - before);
    }
}

static void check_quiet(check *c)
{
    char path[] = "/tmp/kiln-quiet-XXXXXX";
    int fd = mkstemp(path);
    stream s;
    uint32_t index;
    if (fd < 0) {
        check_skip(c, "no temporary file");
        return;
    }
    unlink(path);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    if (check_load(c) && find_stream(c, &s, &index)) {
        (void)live_once(c, index, &s);
    }
    fflush(NULL);
    char text[80] = "";
    off_t size = lseek(fd, 0, SEEK_END);
    if (size > 0) {
        ssize_t got = pread(fd, text, sizeof(text) - 1, 0);
        text[got > 0 ? got : 0] = '\0';
        c->result->verdict = CHECK_PASSED; // more telling than a skip
        check_fail(c, "prints: %s", text);
    }
}

typedef struct surroundings {
    size_t threads;
    uint64_t environment;
    char locale[128];
    int rounding;
    struct sigaction signals[32];
} surroundings;

static size_t count_threads(void)
{
    size_t n = 0;
    DIR *folder = opendir("/proc/self/task");
    while (folder != NULL && readdir(folder) != NULL) {
        n++;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return n;
}

static void look_around(surroundings *s)
{
    memset(s, 0, sizeof(*s));
    s->threads = count_threads();
    for (char **e = environ; e != NULL && *e != NULL; e++) {
        for (const char *t = *e; *t != '\0'; t++) {
            s->environment = (s->environment ^ (unsigned char)*t) * 0x100000001b3u;
        }
    }
    snprintf(s->locale, sizeof(s->locale), "%s", setlocale(LC_ALL, NULL));
    s->rounding = fegetround();
    for (int i = 1; i < 32; i++) {
        sigaction(i, NULL, &s->signals[i]);
    }
}

static void check_traces(check *c)
{
    surroundings before, after;
    stream s;
    uint32_t index;
    look_around(&before);
    if (!check_load(c)) {
        return;
    }
    if (find_stream(c, &s, &index)) {
        (void)live_once(c, index, &s);
    }
    c->plugin->deinit();
    look_around(&after);
    c->result->verdict = CHECK_PASSED; // what is left behind is seen without a block, too
    c->result->text[0] = '\0';
    if (after.threads != before.threads) {
        check_fail(c, "leaves %zu %s running", after.threads - before.threads,
                   kiln_plural(after.threads - before.threads, "thread", "threads"));
    }
    if (after.environment != before.environment) {
        check_fail(c, "changes the environment");
    }
    if (strcmp(after.locale, before.locale) != 0 || after.rounding != before.rounding) {
        check_fail(c, "changes the locale or how floats are rounded");
    }
    for (int i = 1; i < 32; i++) {
        if (after.signals[i].sa_handler != before.signals[i].sa_handler) {
            check_fail(c, "installs a handler of signal %d", i);
        }
    }
}

const check_row check_life_rows[] = {
    {"order", 2, check_order, "objects are made, cloned, reset and destroyed in every order"},
    {"extension", 2, check_unknown, "an unknown extension is NULL"},
    {"leaks", 2, check_leaks, "whole lives of all objects leave no memory behind"},
    {"quiet", 2, check_quiet, "prints nothing"},
    {"traces", 2, check_traces, "no threads, signal handlers, environment, locale left behind"},
    {NULL, 0, NULL, NULL},
};
