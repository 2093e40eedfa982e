// SPDX-License-Identifier: MIT OR Apache-2.0
// Level 5, kernels under oclgrind, and level 8: fused streams of large tensors beside the same
// without fusion, and what the fuser claimed beside what was measured. Other work on the machine
// must not decide: both sides are timed side by side, round after round, and a fuser is slow when
// the rounds' ratios say so with 95 % certainty.

#include "cli.h"
#include "plugin_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    STREAMS = 6,
    SEEDS = 40,
    LEAST_NS = 100000,
    REPEATS = 2,
    LEAST_ROUNDS = 6,
    MOST_ROUNDS = 24
};

static const double slow = 1.05; // fused to operation by operation: what is more is a fault

// ---- oclgrind ----

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
    if (WIFEXITED(status) && WEXITSTATUS(status) == CLI_INCONCLUSIVE) {
        check_skip(c, "none of its streams came to its end on oclgrind's device");
    } else if (status != 0) {
        check_fail(c, "its streams do not run on oclgrind's device");
    }
}

// ---- speed ----

typedef struct timing {
    stream s;
    uint64_t seed;
    stream_times fused; ///< the shortest
    stream_times plain;
    double lost_ns; ///< by fusion, over all rounds
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
        !stream_view_formula(view, &c->device, state.est_ns, &ns)) {
        ns = 0;
    } else {
        ns = ns < 1 ? 1 : ns; // whoever claims less than nothing claims something
    }
    c->plugin->builder_destroy(builder);
    stream_view_destroy(view);
    return (double)ns;
}

static void keep_less(uint64_t *best, uint64_t now)
{
    *best = *best == 0 || now < *best ? now : *best;
}

static bool time_one(check *c, const check_bench *b, timing *t, bool fused, stream_times *out)
{
    kiln_error err = KILN_ERROR_INIT;
    stream_times *best = fused ? &t->fused : &t->plain;
    uint64_t before = check_blocks_of(b->device);
    check_step(c, "timing a stream, seed %llu", (unsigned long long)t->seed);
    kiln_status status = kiln_device_set_fusion(b->device, fused, &err);
    if (status == KILN_STATUS_OK) {
        status = stream_time(&t->s, b->device, t->seed, REPEATS, out, &err);
    }
    if (status != KILN_STATUS_OK) {
        return check_fail(c, "seed %llu: %s", (unsigned long long)t->seed, err.message);
    }
    keep_less(&best->wall_ns, out->wall_ns);
    keep_less(&best->cpu_ns, out->cpu_ns);
    t->ran_fused = t->ran_fused || check_blocks_of(b->device) > before;
    return true;
}

/// Fused and not, one beside the other: which is first changes from round to round.
static bool measure(check *c, const check_bench *b, timing *t, uint32_t round, stream_times *fused,
                    stream_times *plain)
{
    bool fused_first = round % 2 == 0;
    return time_one(c, b, t, fused_first, fused_first ? fused : plain) &&
           time_one(c, b, t, !fused_first, fused_first ? plain : fused);
}

/// The first run of a stream compiles, which takes seconds on a busy machine and is no time of it.
static bool warm(check *c, const check_bench *b, timing *t)
{
    stream_times fused, plain;
    bool done = measure(c, b, t, 0, &fused, &plain);
    t->fused = t->plain = (stream_times){0, 0};
    return done;
}

/// Streams of all fusers with large tensors that run fused, measured.
static uint32_t gather(check *c, const check_bench *b, timing *list)
{
    uint32_t n = 0;
    uint64_t streams = 0;
    bool any_fused = false;
    c->large = true;
    for (uint32_t f = 0; f < c->plugin->n_fusers && check_good(c); f++) {
        kf_fuser *fuser = check_fuser(c, f);
        uint32_t here = 0;
        for (uint64_t i = 0; i < SEEDS && fuser != NULL && here < STREAMS && check_good(c); i++) {
            timing *t = &list[n];
            stream_times fused, plain;
            memset(t, 0, sizeof(*t));
            t->seed = c->seed * 1000 + i;
            bool measured = check_draw_stream(c, fuser, f, t->seed, &t->s) && warm(c, b, t) &&
                            measure(c, b, t, 0, &fused, &plain);
            streams += measured;
            any_fused = any_fused || t->ran_fused;
            if (measured && t->ran_fused && t->plain.wall_ns > LEAST_NS) { // shorter: of the host
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
    if (n == 0 && !check_has_time(c)) {
        check_leave_open(c,
                         "time for %" PRIu64 " streams, and none ran fused for long enough to be "
                         "timed (see --timeout)",
                         streams);
    } else if (check_good(c) && streams > 0 && !any_fused) {
        check_fail(c, "none of %" PRIu64 " streams of large tensors ran fused; the last: %s",
                   streams, c->decided);
    } else if (check_good(c) && n == 0) {
        check_skip(c, "no stream of large tensors ran fused for long enough to be timed");
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

/// All streams once; gives fused to not fused, 0: it failed. Of time on the clock and of processors
/// the better one: the clock tells of other programs on a busy machine, processors nothing of a
/// GPU.
static double play_round(check *c, const check_bench *b, timing *list, uint32_t n, uint32_t round)
{
    bool is_cpu = kiln_device_info_of(b->device)->type == KILN_DEVICE_CPU;
    double wall[2] = {0, 0}, cpu[2] = {0, 0};
    for (uint32_t i = 0; i < n; i++) {
        stream_times fused = {0, 0}, plain = {0, 0};
        if (!measure(c, b, &list[i], round + i, &fused, &plain)) {
            return 0;
        }
        wall[0] += (double)fused.wall_ns;
        wall[1] += (double)plain.wall_ns;
        cpu[0] += (double)fused.cpu_ns;
        cpu[1] += (double)plain.cpu_ns;
        list[i].lost_ns += (double)fused.wall_ns - (double)plain.wall_ns;
    }
    double by_wall = wall[1] > 0 ? wall[0] / wall[1] : 0;
    double by_cpu = cpu[1] > 0 ? cpu[0] / cpu[1] : 0;
    return is_cpu && by_cpu < by_wall ? by_cpu : by_wall;
}

/// Rounds until it is clear on which side of `slow` the fuser is, or there is no time for more.
static kiln_ratio play(check *c, const check_bench *b, timing *list, uint32_t n)
{
    double ratios[MOST_ROUNDS];
    kiln_ratio r = kiln_ratio_of(NULL, 0);
    for (uint32_t round = 0; round < MOST_ROUNDS && check_good(c) && check_has_time(c); round++) {
        ratios[round] = play_round(c, b, list, n, round);
        r = kiln_ratio_of(ratios, round + 1u);
        if (r.count >= LEAST_ROUNDS && (r.low > slow || r.high < slow)) {
            break;
        }
    }
    return r;
}

static void tell_slow(check *c, const timing *list, uint32_t n, const kiln_ratio *r)
{
    char text[300];
    const timing *worst = list;
    for (uint32_t i = 1; i < n; i++) {
        worst = list[i].lost_ns > worst->lost_ns ? &list[i] : worst;
    }
    stream_print(&worst->s, text, sizeof(text));
    check_fail(c,
               "%u streams take %.2f times as long fused as operation by operation (%.2f to %.2f "
               "with 95 %% certainty); most is lost with %.2f ms for %.2f, seed %llu: %s",
               n, r->median, r->low, r->high, (double)worst->fused.wall_ns * 1e-6,
               (double)worst->plain.wall_ns * 1e-6, (unsigned long long)worst->seed, text);
}

static void check_speed(check *c)
{
    check_bench b;
    uint32_t n;
    timing *list = timings(c, &b, &n);
    if (list == NULL) {
        return;
    }
    kiln_ratio r = n > 0 ? play(c, &b, list, n) : kiln_ratio_of(NULL, 0);
    if (n > 0 && r.count < LEAST_ROUNDS) {
        check_leave_open(c, "time for %zu rounds of %u streams: too few to tell (see --timeout)",
                         r.count, n);
    } else if (r.low > slow) {
        tell_slow(c, list, n, &r);
    }
    check_say(c,
              "%u streams take %.2f times as long fused as operation by operation (%.2f to %.2f "
              "with 95 %% certainty)",
              n, r.median, r.low, r.high);
    free(list);
    check_bench_close(&b);
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

static double of_claim(const timing *t)
{
    return t->claimed_ns > 0 ? (double)t->fused.wall_ns / t->claimed_ns : 1;
}

/// The stream that is farthest from what was claimed of it, for the author to run again.
static void tell_dishonest(check *c, const timing *list, uint32_t n, double middle)
{
    char text[300];
    const timing *worst = list;
    for (uint32_t i = 1; i < n; i++) {
        worst = fabs(log(of_claim(&list[i]))) > fabs(log(of_claim(worst))) ? &list[i] : worst;
    }
    stream_print(&worst->s, text, sizeof(text));
    check_fail(c,
               "measured times are %.3g times what it claims; farthest is %.3g ms for %.3g, seed "
               "%llu: %s",
               middle, (double)worst->fused.wall_ns * 1e-6, worst->claimed_ns * 1e-6,
               (unsigned long long)worst->seed, text);
}

/// A claim may be optimistic: nobody knows a machine that well. A hundred times too short is no
/// estimate. What is not worth fusing here is run as well.
static void check_honest(check *c)
{
    check_bench b;
    uint32_t n, claims = 0;
    double ratios[STREAMS * 4 + 1];
    setenv("KILN_FUSE_SLOWER", "1", 1);
    timing *list = timings(c, &b, &n);
    if (list == NULL) {
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (list[i].claimed_ns > 0) {
            ratios[claims++] = of_claim(&list[i]);
        }
    }
    if (claims == 0) {
        check_skip(c, "it claims no times; the host takes its own roofline");
    } else {
        double middle = kiln_quantile(ratios, claims, 0.5); // and they are in order
        if (middle > 100 || middle < 0.01) {
            tell_dishonest(c, list, n, middle);
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
