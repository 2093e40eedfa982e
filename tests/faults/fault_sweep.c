// SPDX-License-Identifier: MIT OR Apache-2.0
// Which faults come, in which world, and what must hold behind each.
#include "fault_sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static char armed[64]; ///< which fault comes

static void arm(const fault_kind *kind, const char *when, uint64_t k, int32_t code, bool persistent)
{
    snprintf(armed, sizeof(armed), "%s:%llu:%d%s", when, (unsigned long long)k, (int)code,
             persistent ? ":on" : "");
    kind->arm(k, code, persistent);
}

static void disarm(const fault_kind *kind)
{
    kind->arm(0, 0, false);
}

/// The fault, for what is said of it.
static const char *told(const fault_kind *kind)
{
    static char text[128];
    snprintf(text, sizeof(text), "%s at %s", kind->name(), armed);
    return text;
}

static void close_world(const fault_kind *kind, world *w)
{
    world_close(w, told(kind));
    if (kind->check_end != NULL) {
        kind->check_end(told(kind));
    }
}

/// A block that could not be launched is not fused any more, and rounds otherwise.
static bool is_right(const float *out, size_t count, const wanted *want)
{
    bool right = count == want->count;
    for (size_t i = 0; i < count && right; i++) {
        right = fabsf(out[i] - want->values[i]) <= 1e-4f * fmaxf(1, fabsf(want->values[i]));
    }
    return right;
}

/// What the fault left: the tensor from before, and the next run.
static void check_after(const fault_kind *kind, world *w, const scene *s, const wanted *want)
{
    static float out[FAULT_MOST_RESULTS];
    const size_t bytes = FAULT_N * sizeof(float);
    size_t count = 0;
    kiln_status status = kiln_read(w->before, out, bytes, &w->err);
    if (status != KILN_STATUS_OK || memcmp(out, fault_data(), bytes) != 0) {
        KILN_FAIL("%s, %s: a tensor from before cannot be read: %s", s->name, told(kind),
                  w->err.message);
    }
    status = s->run(w, out, &count);
    if (status != KILN_STATUS_OK || !is_right(out, count, want)) {
        KILN_FAIL("%s, %s: the next run gives %s: %s", s->name, told(kind),
                  kiln_status_name(status), w->err.message);
    }
}

/// What the run itself gave: an error with its cause, or the right result.
static void check_run(const fault_kind *kind, const scene *s, const world *w, kiln_status status,
                      bool right)
{
    if (status == KILN_STATUS_OK && !right) {
        KILN_FAIL("%s, %s: all is well, and the result is wrong", s->name, told(kind));
    }
    bool has_cause = w->err.message[0] != '\0' && (kiln_status)w->err.code == status;
    if (status != KILN_STATUS_OK && (!has_cause || !kind->may_give(status))) {
        KILN_FAIL("%s, %s gives %s: %s", s->name, told(kind), kiln_status_name(status),
                  w->err.message);
    }
}

void fault_warm(const fault_kind *kind, world *w, const scene *s, const wanted *want, uint64_t k,
                int32_t code, bool persistent)
{
    static float out[FAULT_MOST_RESULTS];
    size_t count = 0;
    w->err = (kiln_error)KILN_ERROR_INIT;
    arm(kind, "warm", k, code, persistent);
    kiln_status status = s->run(w, out, &count);
    disarm(kind);
    check_run(kind, s, w, status, is_right(out, count, want));
    if (world_is_lost(w)) {
        close_world(kind, w);
        KILN_CHECK(world_open(w, s, kind->allocator));
    }
    check_after(kind, w, s, want);
}

void fault_cold(const fault_kind *kind, const scene *s, const wanted *want, uint64_t k,
                int32_t code, bool persistent)
{
    static float out[FAULT_MOST_RESULTS];
    size_t count = 0;
    world w;
    arm(kind, "cold", k, code, persistent);
    bool opened = world_open(&w, s, kind->allocator);
    kiln_status status = opened ? s->run(&w, out, &count) : (kiln_status)w.err.code;
    disarm(kind);
    check_run(kind, s, &w, status, is_right(out, count, want));
    if (!opened && status == KILN_STATUS_OK) {
        KILN_FAIL("%s, %s: nothing is opened, and no error is told", s->name, told(kind));
    }
    if (opened && !world_is_lost(&w)) {
        check_after(kind, &w, s, want);
    }
    close_world(kind, &w);
}

/// A world without a fault.
static void open_and_run(const fault_kind *kind, world *w, const scene *s, const wanted *want)
{
    static float out[FAULT_MOST_RESULTS];
    size_t count = 0;
    bool opened = world_open(w, s, kind->allocator);
    kiln_status status = opened ? s->run(w, out, &count) : (kiln_status)w->err.code;
    if (status != KILN_STATUS_OK || !is_right(out, count, want)) {
        KILN_FAIL("%s, %s: the next world gives %s: %s", s->name, told(kind),
                  kiln_status_name(status), w->err.message);
    }
}

void fault_closing(const fault_kind *kind, const scene *s, const wanted *want, uint64_t k,
                   int32_t code, bool persistent)
{
    world w;
    open_and_run(kind, &w, s, want);
    arm(kind, "close", k, code, persistent);
    world_close(&w, told(kind));
    disarm(kind);
    if (kind->check_end != NULL) {
        kind->check_end(told(kind));
    }
    open_and_run(kind, &w, s, want);
    close_world(kind, &w);
}

// ---- which of them come ----

/// The next one to fail: all of them, or about `few`, spread evenly.
static uint64_t next_of(uint64_t k, uint64_t count, uint64_t few)
{
    uint64_t step = kiln_test_is_long() || count <= few ? 1 : count / few;
    return k + step;
}

/// Runs of a warm world that fails nowhere: how many can fail in one.
static void learn_warm(const fault_kind *kind, world *w, const scene *s, const wanted *want)
{
    static float again[FAULT_MOST_RESULTS];
    size_t count = 0;
    for (int i = 0; i < 3; i++) {
        disarm(kind);
        KILN_CHECK_INT(s->run(w, again, &count), KILN_STATUS_OK);
        KILN_CHECK(is_right(again, count, want));
    }
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(w->devices[0], &stats);
    KILN_CHECK(!s->fuses || stats.blocks_fused > 0);
}

bool fault_learn(const fault_kind *kind, const scene *s, wanted *out_want, fault_counts *out_counts)
{
    world w;
    arm(kind, "none", 0, 0, false);
    kiln_error err = KILN_ERROR_INIT;
    if (s->ready != NULL && !s->ready(&err)) {
        kiln_test_skip("%s: %s", s->name, err.message);
        return false;
    }
    disarm(kind);
    bool opened = world_open(&w, s, kind->allocator);
    if (opened) {
        KILN_CHECK_INT(s->run(&w, out_want->values, &out_want->count), KILN_STATUS_OK);
        out_counts->cold = kind->seen();
        learn_warm(kind, &w, s, out_want);
        out_counts->warm = kind->seen();
        KILN_CHECK(out_counts->warm > 0);
    } else {
        kiln_test_skip("no OpenCL device: %s", w.err.message);
    }
    disarm(kind);
    close_world(kind, &w);
    out_counts->closing = kind->seen();
    return opened;
}

/// One fault, as a failure names it: warm, cold or close, its place, its code, and whether others
/// follow.
static void fail_only(const fault_kind *kind, const scene *s, const wanted *want, const char *fault)
{
    char when[8] = "", on[4] = "";
    unsigned long long k = 0;
    int code = 0;
    world w;
    int n = sscanf(fault, "%7[a-z]:%llu:%d:%3s", when, &k, &code, on);
    bool cold = strcmp(when, "cold") == 0, closing = strcmp(when, "close") == 0;
    if (!KILN_CHECK(n >= 3 && k > 0)) {
        return;
    }
    if (cold || closing) {
        (cold ? fault_cold : fault_closing)(kind, s, want, k, code, strcmp(on, "on") == 0);
    } else if (KILN_CHECK(world_open(&w, s, kind->allocator))) {
        learn_warm(kind, &w, s, want);
        fault_warm(kind, &w, s, want, k, code, strcmp(on, "on") == 0);
        close_world(kind, &w);
    }
}

static uint64_t sweep_warm(const fault_kind *kind, const scene *s, const wanted *want,
                           uint64_t count)
{
    uint64_t faults = 0, turn = 0;
    world w;
    if (!KILN_CHECK(world_open(&w, s, kind->allocator))) {
        return 0;
    }
    learn_warm(kind, &w, s, want);
    for (uint64_t k = 1; k <= count; k = next_of(k, count, kind->few_warm), faults += 2) {
        int32_t code = kind->codes[turn++ % kind->n_codes];
        fault_warm(kind, &w, s, want, k, code, false);
        fault_warm(kind, &w, s, want, k, code, true);
    }
    close_world(kind, &w);
    return faults;
}

typedef void fault_fn(const fault_kind *kind, const scene *s, const wanted *want, uint64_t k,
                      int32_t code, bool persistent);

/// A new world for each fault: either once or from then on in the short form, which is what takes
/// long; both in the long one.
static uint64_t sweep_new(const fault_kind *kind, const scene *s, const wanted *want,
                          uint64_t count, fault_fn *fail)
{
    uint64_t faults = 0, turn = 0;
    for (uint64_t k = 1; k <= count; k = next_of(k, count, kind->few_cold)) {
        int32_t code = kind->codes[turn++ % kind->n_codes];
        for (int persistent = 0; persistent < 2; persistent++) {
            if (kiln_test_is_long() || (uint64_t)persistent == turn % 2) {
                fail(kind, s, want, k, code, persistent != 0);
                faults++;
            }
        }
    }
    return faults;
}

void fault_sweep(const fault_kind *kind, const scene *s)
{
    static wanted want;
    fault_counts counts = {0};
    uint64_t faults = 0;
    const char *only = getenv("KILN_TEST_FAULT");
    bool learnt = fault_learn(kind, s, &want, &counts);
    if (learnt && only != NULL) {
        fail_only(kind, s, &want, only);
    } else if (learnt) {
        faults = sweep_warm(kind, s, &want, counts.warm);
        faults += sweep_new(kind, s, &want, counts.cold, fault_cold);
        faults += sweep_new(kind, s, &want, counts.closing, fault_closing);
        printf("    %s: %llu %s warm, %llu from the opening on, %llu at the end: %llu faults\n",
               s->name, (unsigned long long)counts.warm, kind->unit,
               (unsigned long long)counts.cold, (unsigned long long)counts.closing,
               (unsigned long long)faults);
        KILN_CHECK(faults >= 8);
    }
    if (s->done != NULL) {
        s->done();
    }
}
