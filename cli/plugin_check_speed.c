// SPDX-License-Identifier: MIT OR Apache-2.0
// Level 5, kernels under oclgrind, and level 8: fused streams of large tensors beside the same
// without fusion, and what the fuser claimed beside what was measured. Times are the shortest of
// several, taken in turns; a check that fails is measured again before it counts.

#include "plugin_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STREAMS = 6, REPEATS = 5, TURNS = 2, SEEDS = 40, LEAST_NS = 100000 };

// ---- oclgrind ----------------------------------------------------------------------------------

static bool in_path(const char *program)
{
    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        char name[4096];
        size_t length = strcspn(path, ":");
        snprintf(name, sizeof(name), "%.*s/%s", (int)length, path, program);
        if (access(name, X_OK) == 0) {
            return true;
        }
        path += length + (path[length] == ':' ? 1 : 0);
    }
    return false;
}

static void read_log(check *c, const char *log)
{
    char text[300] = "";
    FILE *file = fopen(log, "r");
    size_t got = file != NULL ? fread(text, 1, sizeof(text) - 1, file) : 0;
    text[got] = '\0';
    for (char *t = text; *t != '\0'; t++) {
        *t = *t == '\n' || *t == '\t' ? ' ' : *t;
    }
    if (got > 0) {
        check_fail(c, "oclgrind: %s", text);
    }
    if (file != NULL) {
        fclose(file);
    }
    unlink(log);
}

static void check_oclgrind(check *c)
{
    char log[] = "/tmp/kiln-oclgrind-XXXXXX", seed[32], seconds[32], self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[length > 0 ? length : 0] = '\0';
    int fd = in_path("oclgrind") ? mkstemp(log) : -1;
    if (fd < 0) {
        check_skip(c, "oclgrind is not installed");
        return;
    }
    close(fd);
    unlink(log); // oclgrind makes it when it has something to tell
    snprintf(seed, sizeof(seed), "%llu", (unsigned long long)c->seed);
    snprintf(seconds, sizeof(seconds), "%llu", // to be done in time itself
             (unsigned long long)((c->deadline - c->begin) / UINT64_C(1200000000)) + 1);
    check_step(c, "running streams under oclgrind");
    pid_t child = fork();
    if (child == 0) {
        execlp("oclgrind", "oclgrind", "--log", log, "--max-errors", "5", "--data-races", self,
               "plugin", "check", c->path, "--only", "results", "--seed", seed, "--timeout",
               seconds, "--streams", "6", "--run-only", (char *)NULL);
        _exit(127);
    }
    int status = 1;
    if (child > 0) {
        waitpid(child, &status, 0);
    }
    read_log(c, log);
    if (status != 0) {
        check_fail(c, "its streams do not run on oclgrind's device");
    }
}

// ---- speed -------------------------------------------------------------------------------------

typedef struct timing {
    stream s;
    uint64_t seed;
    stream_times fused;
    stream_times plain;
    double claimed_ns; ///< 0: it claims nothing
    bool ran_fused;
} timing;

static double claim(check *c, kf_fuser *fuser, const stream *s)
{
    kf_builder *builder = NULL;
    kf_state state = {.struct_size = (uint32_t)sizeof(state)};
    stream_view *view = stream_view_create(s, NULL);
    int64_t ns = 0;
    if (c->plugin->builder_create(fuser, &builder) != KF_OK ||
        check_feed(c, builder, view, 0, s->n_ops, &state) != KF_OK || !state.ready ||
        !check_formula(view, &c->device, state.est_ns, &ns)) {
        ns = 0;
    } else {
        ns = ns < 1 ? 1 : ns; // whoever claims less than nothing claims something
    }
    c->plugin->builder_destroy(builder);
    stream_view_destroy(view);
    return (double)ns;
}

static uint64_t blocks_of(kiln_device *device)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(device, &stats);
    return stats.blocks_fused;
}

static void keep_less(uint64_t *best, uint64_t now)
{
    *best = *best == 0 || now < *best ? now : *best;
}

/// Fused and not, in turns; the shortest times stay.
static bool measure(check *c, const check_bench *b, timing *t)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    check_step(c, "timing a stream, seed %llu", (unsigned long long)t->seed);
    for (int turn = 0; turn < 2 * TURNS && status == KILN_STATUS_OK; turn++) {
        bool fused = turn % 2 == 0;
        stream_times *best = fused ? &t->fused : &t->plain, now = {0, 0};
        uint64_t before = blocks_of(b->device);
        status = kiln_device_set_fusion(b->device, fused, &err);
        if (status == KILN_STATUS_OK) {
            status = stream_time(&t->s, b->device, t->seed, REPEATS, &now, &err);
        }
        keep_less(&best->wall_ns, now.wall_ns);
        keep_less(&best->cpu_ns, now.cpu_ns);
        t->ran_fused = t->ran_fused || blocks_of(b->device) > before;
    }
    return status == KILN_STATUS_OK ||
           check_fail(c, "seed %llu: %s", (unsigned long long)t->seed, err.message);
}

/// Streams of all fusers with large tensors that run fused, measured.
static uint32_t gather(check *c, const check_bench *b, timing *list)
{
    uint32_t n = 0;
    c->large = true;
    for (uint32_t f = 0; f < c->plugin->n_fusers && check_good(c); f++) {
        kf_fuser *fuser = check_fuser(c, f);
        uint32_t here = 0;
        for (uint64_t i = 0; i < SEEDS && fuser != NULL && here < STREAMS && check_good(c); i++) {
            timing *t = &list[n];
            memset(t, 0, sizeof(*t));
            t->seed = c->seed * 1000 + i;
            if (check_taste(c, fuser, f, t->seed, &t->s) && measure(c, b, t) && t->ran_fused &&
                t->plain.wall_ns > LEAST_NS) { // shorter ones tell of the host
                t->claimed_ns = claim(c, fuser, &t->s);
                here++;
                n++;
            }
            if (n == STREAMS * 4 || !check_has_time(c)) {
                break;
            }
        }
        c->plugin->fuser_destroy(fuser);
    }
    if (n == 0 && check_good(c)) {
        check_skip(c, "none of its streams of large tensors ran fused");
    }
    return n;
}

static timing *timings(check *c, check_bench *b, uint32_t *out_n)
{
    timing *list = calloc(STREAMS * 4 + 1, sizeof(*list));
    *out_n = 0;
    if (list == NULL || !check_load(c) || !check_bench_open(c, b)) {
        free(list);
        return NULL;
    }
    *out_n = gather(c, b, list);
    return list;
}

/// Fused to not fused, over all. Of time on the clock and of processors the better one: the clock
/// tells of other programs on a busy machine, processors nothing of a GPU.
static double ratio_of(const timing *list, uint32_t n, bool is_cpu)
{
    double wall[2] = {0, 0}, cpu[2] = {0, 0};
    for (uint32_t i = 0; i < n; i++) {
        wall[0] += (double)list[i].fused.wall_ns;
        wall[1] += (double)list[i].plain.wall_ns;
        cpu[0] += (double)list[i].fused.cpu_ns;
        cpu[1] += (double)list[i].plain.cpu_ns;
    }
    double by_wall = wall[1] > 0 ? wall[0] / wall[1] : 0;
    double by_cpu = cpu[1] > 0 ? cpu[0] / cpu[1] : 0;
    return is_cpu && by_cpu < by_wall ? by_cpu : by_wall;
}

/// The stream that loses most by fusion.
static const timing *worst_of(const timing *list, uint32_t n)
{
    const timing *worst = list;
    for (uint32_t i = 1; i < n; i++) {
        double lost = (double)list[i].fused.wall_ns - (double)list[i].plain.wall_ns;
        if (lost > (double)worst->fused.wall_ns - (double)worst->plain.wall_ns) {
            worst = &list[i];
        }
    }
    return worst;
}

static void check_speed(check *c)
{
    check_bench b;
    uint32_t n;
    timing *list = timings(c, &b, &n);
    if (list == NULL) {
        return;
    }
    bool is_cpu = kiln_device_info_of(b.device)->type == KILN_DEVICE_CPU;
    double ratio = ratio_of(list, n, is_cpu);
    for (int again = 0; again < 4 && ratio > 1.05; again++) {
        for (uint32_t i = 0; i < n && check_has_time(c); i++) {
            (void)measure(c, &b, &list[i]);
        }
        ratio = ratio_of(list, n, is_cpu);
    }
    if (ratio > 1.05) {
        char text[300];
        const timing *worst = worst_of(list, n);
        stream_print(&worst->s, text, sizeof(text));
        check_fail(c,
                   "%u streams take %.2f times as long fused as operation by operation; most is "
                   "lost with %.2f ms for %.2f, seed %llu: %s",
                   n, ratio, (double)worst->fused.wall_ns * 1e-6,
                   (double)worst->plain.wall_ns * 1e-6, (unsigned long long)worst->seed, text);
    }
    check_say(c, "%u streams take %.2f times as long fused as operation by operation", n, ratio);
    free(list);
    check_bench_close(&b);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/// Of two lists: the share of pairs that are in the same order.
static double agreement(const timing *list, uint32_t n)
{
    uint32_t same = 0, pairs = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < i; k++) {
            double claims = list[i].claimed_ns - list[k].claimed_ns;
            double times = (double)list[i].fused.wall_ns - (double)list[k].fused.wall_ns;
            if (claims != 0 && fabs(times) > 0.2 * (double)list[k].fused.wall_ns) {
                pairs++;
                same += claims * times > 0 ? 1 : 0;
            }
        }
    }
    return pairs == 0 ? 1 : (double)same / pairs;
}

/// A claim may be optimistic: nobody knows a machine that well. Thirty times too short is no
/// estimate.
static void check_honest(check *c)
{
    check_bench b;
    uint32_t n, claims = 0;
    double ratios[STREAMS * 4 + 1];
    timing *list = timings(c, &b, &n);
    if (list == NULL) {
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (list[i].claimed_ns > 0) {
            ratios[claims++] = (double)list[i].fused.wall_ns / list[i].claimed_ns;
        }
    }
    if (claims == 0) {
        check_skip(c, "it claims no times; the host takes its own roofline");
    } else {
        qsort(ratios, claims, sizeof(ratios[0]), by_value);
        double middle = ratios[claims / 2];
        if (middle > 100 || middle < 0.01) {
            check_fail(c, "measured times are %.3g times what it claims", middle);
        }
        check_say(c,
                  "measured times are %.2f times the claims (%.2f to %.2f); %.0f %% of pairs are "
                  "claimed in "
                  "the order measured",
                  middle, ratios[0], ratios[claims - 1], 100 * agreement(list, n));
    }
    free(list);
    check_bench_close(&b);
}

const check_row check_speed_rows[] = {
    {"oclgrind", 5, check_oclgrind, "oclgrind finds no access out of bounds and no race"},
    {"speed", 8, check_speed, "fused is not slower than operation by operation"},
    {"honest", 8, check_honest, "estimates are of the size of what is measured"},
    {NULL, 0, NULL, NULL},
};
