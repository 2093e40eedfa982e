// SPDX-License-Identifier: MIT OR Apache-2.0
// Level 4: results. Streams that the fusers take run fused, with this plugin alone, and operation
// by operation; both must say the same. How far apart they may be follows from the dtype and from
// how far the result moves when its inputs move by a rounding: an element that then changes says
// nothing.

#include "cli.h"
#include "plugin_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MORE = 8 };

static void overhear(const kiln_log_record *record, void *user)
{
    check *c = user;
    if (record->level <= KILN_LOG_WARN && c->overheard[0] == '\0') {
        snprintf(c->overheard, sizeof(c->overheard), "%s", record->message);
    } else if (record->level > KILN_LOG_WARN && strncmp(record->message, "no block", 8) == 0) {
        snprintf(c->decided, sizeof(c->decided), "%s", record->message);
    }
}

void check_bench_close(check_bench *b)
{
    kiln_device_release(b->device);
    kiln_context_destroy(b->context);
}

/// The device that is there, as the fusers are told of it.
static void describe_device(check *c, kiln_device *device)
{
    const kiln_device_info *info = kiln_device_info_of(device);
    const char *name;
    (void)check_profile(info->type == KILN_DEVICE_GPU ? 1 : 0, &c->device, &name);
    c->device.mem_bytes_per_s = info->bytes_per_s;
    c->device.flops_f32 = info->flops_f32;
    c->device.launch_ns = info->launch_ns;
    c->device.compute_units = info->compute_units;
    c->device.vector_bytes = info->vector_bytes;
    c->fixed_device = true;
}

/// The device that KILN_DEVICE names, or the first. Where there is none the check is skipped; one
/// that is named and cannot be opened, and a setting that is refused, are failures.
static bool open_device(check *c, check_bench *b)
{
    kiln_error err = KILN_ERROR_INIT;
    char address[64], line[192];
    const char *named = getenv("KILN_DEVICE");
    if (kiln_device_open(b->context, NULL, &b->device, &err) == KILN_STATUS_OK) {
        if (strncmp(kiln_device_address(b->device), "opencl:", 7) == 0) {
            return true;
        }
        check_fail(c, "kernels are checked on OpenCL devices, not on %s",
                   kiln_device_address(b->device));
    } else if ((named == NULL || named[0] == '\0') &&
               kiln_device_describe(b->context, 0, address, line, NULL) != KILN_STATUS_OK) {
        check_skip(c, "no OpenCL device; Debian has one in pocl-opencl-icd");
    } else {
        check_fail(c, "%s", err.message);
    }
    return false;
}

bool check_bench_open(check *c, check_bench *b)
{
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    kiln_error err = KILN_ERROR_INIT;
    char id[128];
    *b = (check_bench){0};
    options.log = overhear;
    options.log_user = c;
    snprintf(id, sizeof(id), "%.*s", (int)c->plugin->id.len, c->plugin->id.ptr);
    setenv("KILN_PLUGINS", id, 1); // nobody else takes part, and nothing measured before counts
    setenv("KILN_CACHE_DIR", "off", 1);
    setenv("KILN_DETERMINISTIC", "1", 1);
    setenv("KILN_LOG", "warn,fusion_host=debug", 1); // heard here, printed nowhere
    setenv("KILN_WATCHDOG", "0", 1); // the check has a time limit, and may share its machine
    check_step(c, "opening the device");
    kiln_status status = kiln_context_create(&options, &b->context, &err);
    if (status == KILN_STATUS_OK) {
        status = kiln_plugin_load(b->context, c->path, &err);
        status = status == KILN_STATUS_ALREADY_EXISTS ? KILN_STATUS_OK : status;
    }
    if (status != KILN_STATUS_OK) {
        check_fail(c, "%s", err.message);
        check_bench_close(b);
        return false;
    }
    c->overheard[0] = '\0'; // of other plugins
    if (!open_device(c, b)) {
        check_bench_close(b);
        return false;
    }
    describe_device(c, b->device);
    return true;
}

// ---- comparing ----

double check_tolerance(kiln_dtype dtype)
{
    return dtype == KILN_DTYPE_F64    ? 1e-12
           : dtype == KILN_DTYPE_F32  ? 2e-5
           : dtype == KILN_DTYPE_BF16 ? 0.02
                                      : 3e-3;
}

static bool equal(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/// How far the result may be off where it is `x` and moves to `moved` with its inputs; negative: it
/// says nothing there.
static double room(const stream_tensor *t, double x, double moved, double most)
{
    if (kiln_dtype_kind_of(t->dtype) != KILN_KIND_FLOAT) {
        return equal(x, moved) ? 0 : -1;
    }
    if (!isfinite(x) || !isfinite(moved)) {
        return equal(x, moved) ? 0 : -1;
    }
    return check_tolerance(t->dtype) * most + 8 * fabs(x - moved);
}

typedef struct runs { ///< of one stream
    stream_values fused, plain, nudged;
} runs;

static void compare(check *c, const stream *s, uint64_t seed, uint32_t tensor, const runs *r)
{
    const stream_tensor *t = &s->tensors[tensor];
    int64_t count = (int64_t)(stream_bytes(t) / kiln_dtype_size(t->dtype));
    double most = 0;
    for (int64_t i = 0; i < count; i++) {
        double x = fabs(stream_element(t, r->plain.bytes[tensor], i));
        most = isfinite(x) && x > most ? x : most;
    }
    for (int64_t i = 0; i < count; i++) {
        double x = stream_element(t, r->plain.bytes[tensor], i);
        double y = stream_element(t, r->fused.bytes[tensor], i);
        double may = room(t, x, stream_element(t, r->nudged.bytes[tensor], i), most);
        if (may < 0 || equal(x, y) || fabs(x - y) <= may) {
            continue;
        }
        char text[300];
        stream_print(s, text, sizeof(text));
        check_fail(c,
                   "%%%u, element %" PRId64 ": %.9g, and %.9g without fusion; seed %" PRIu64 ": %s",
                   tensor, i, y, x, seed, text);
        return;
    }
}

static bool run_three(check *c, const check_bench *b, const stream *s, uint64_t seed, runs *r)
{
    kiln_error err = KILN_ERROR_INIT;
    memset(r, 0, sizeof(*r));
    check_step(c, "running a fused stream, seed %" PRIu64, seed);
    kiln_status status = stream_run(s, b->device, seed, false, &r->fused, &err);
    if (c->run_only) {
        return status == KILN_STATUS_OK || check_fail(c, "seed %" PRIu64 ": %s", seed, err.message);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_device_set_fusion(b->device, false, &err);
    }
    check_step(c, "running a stream without fusion, seed %" PRIu64, seed);
    if (status == KILN_STATUS_OK) {
        status = stream_run(s, b->device, seed, false, &r->plain, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = stream_run(s, b->device, seed, true, &r->nudged, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_device_set_fusion(b->device, true, &err);
    }
    return status == KILN_STATUS_OK || check_fail(c, "seed %" PRIu64 ": %s", seed, err.message);
}

uint64_t check_blocks_of(kiln_device *device)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(device, &stats);
    return stats.blocks_fused;
}

typedef struct trials { ///< what came of the streams so far
    uint64_t blocks, streams, fusers;
    bool in_pieces[KILN_OP_COUNT]; ///< composites that this device records as several operations
} trials;

static void note_pieces(trials *t, const stream *s, const stream_values *values)
{
    for (uint32_t i = 0; i < s->n_ops; i++) {
        if (values->in_pieces[i] && !cli_op_is_always_expanded(s->ops[i].op)) {
            t->in_pieces[s->ops[i].op] = true;
        }
    }
}

static void try_stream(check *c, const check_bench *b, const stream *s, uint64_t seed, trials *t)
{
    runs r;
    uint64_t before = check_blocks_of(b->device);
    if (run_three(c, b, s, seed, &r)) {
        for (uint32_t i = 0; i < s->n_tensors && check_good(c); i++) {
            if (r.fused.bytes[i] != NULL && r.plain.bytes[i] != NULL && r.nudged.bytes[i] != NULL) {
                compare(c, s, seed, i, &r);
            }
        }
    }
    note_pieces(t, s, &r.fused);
    stream_values_free(&r.fused);
    stream_values_free(&r.plain);
    stream_values_free(&r.nudged);
    t->blocks += check_blocks_of(b->device) - before;
    t->streams++;
}

bool check_has_time(const check *c)
{
    return kiln_time_ns() + (c->deadline - c->begin) / 2 < c->deadline;
}

static void judge_trials(check *c, const trials *t)
{
    char pieces[300];
    check_list_pieces(t->in_pieces, " on this device", pieces, sizeof(pieces));
    if (check_good(c) && t->fusers == 0) {
        check_skip(c, "its fusers decline the device that is here");
    } else if (check_good(c) && t->streams == 0) {
        check_no_streams(c);
    } else if (check_good(c) && t->blocks == 0 && pieces[0] != '\0') {
        check_fail(c, "none of %" PRIu64 " streams ran fused: %sname these operators instead",
                   t->streams, pieces);
    } else if (check_good(c) && t->blocks == 0) {
        check_fail(c, "none of %" PRIu64 " streams ran fused; the last: %s%s%s", t->streams,
                   c->decided[0] != '\0' ? c->decided
                                         : "its operations never reached the fuser as it names "
                                           "them (see the check corpus)",
                   c->overheard[0] != '\0' ? "; " : "", c->overheard);
    }
    check_say(c, "%s%" PRIu64 " fused %s of %" PRIu64 " %s", pieces, t->blocks,
              kiln_plural(t->blocks, "block", "blocks"), t->streams,
              kiln_plural(t->streams, "stream", "streams"));
}

/// The streams of all fusers, run and compared, whether they are worth fusing here or not; about
/// `most`, and for each fuser some, and more as long as none of them ran fused.
static void try_streams(check *c, uint64_t most)
{
    check_bench b;
    trials t = {0};
    setenv("KILN_FUSE_SLOWER", "1", 1);
    if (!check_load(c)) {
        return;
    }
    if (c->plugin->n_fusers == 0) {
        check_skip(c, "brings no fuser");
        return;
    }
    if (!check_bench_open(c, &b)) {
        return;
    }
    most = most / c->plugin->n_fusers < 3 ? 3 : most / c->plugin->n_fusers;
    for (uint32_t f = 0; f < c->plugin->n_fusers && check_good(c); f++) {
        kf_fuser *fuser = check_fuser(c, f);
        t.fusers += fuser != NULL;
        for (uint64_t i = 0; i < (t.blocks > 0 ? most : MORE * most) && fuser != NULL; i++) {
            if (!check_good(c) || !check_has_time(c)) {
                break;
            }
            stream s;
            uint64_t seed = c->seed * 1000 + i;
            if (check_draw_stream(c, fuser, f, seed, &s)) {
                try_stream(c, &b, &s, seed, &t);
            }
        }
        c->plugin->fuser_destroy(fuser);
    }
    judge_trials(c, &t);
    check_bench_close(&b);
}

static void check_results(check *c)
{
    try_streams(c, c->streams / 2);
}

/// The host's own watch: guard words around every result, each block beside its operations.
static void check_guards(check *c)
{
    setenv("KILN_CHECK", "always", 1);
    try_streams(c, c->streams / 4);
    if (c->overheard[0] != '\0') {
        c->result->verdict = CHECK_PASSED; // more telling than the difference alone
        check_fail(c, "%s", c->overheard);
    }
}

const check_row check_run_rows[] = {
    {"results", 4, check_results, "fused blocks give what their operations give"},
    {"guards", 4, check_guards, "the host's checked mode finds nothing: guard words, differences"},
    {NULL, 0, NULL, NULL},
};
