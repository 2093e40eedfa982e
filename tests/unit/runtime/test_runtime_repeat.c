// SPDX-License-Identifier: MIT OR Apache-2.0
// Replays that only enqueue: their results are those of ordinary runs, with new inputs, results
// that are held, memory that went, and values that others hold.
#include "rt_block_programs.h"
#include "rt_device.h"
#include "runtime_fixture.h"

#include <pthread.h>
#include <string.h>

enum { LENGTH = 4, MANY = 24 };
static const int64_t one_axis[] = {LENGTH};
static const float start[] = {8, -4, 0, 1}, added[] = {1, 2, 3, -1}, scaled[] = {2, 1, -1, 0.5f};

static uint64_t repeated(const fixture *f)
{
    pthread_mutex_lock(&f->device->lock);
    uint64_t runs = f->device->counts.runs_repeated;
    pthread_mutex_unlock(&f->device->lock);
    return runs;
}

static void check_values(fixture *f, kiln_tensor *tensor, const float *expected)
{
    float back[LENGTH] = {0};
    FIXTURE_OK(f, kiln_read(tensor, back, sizeof(back), &f->err));
    KILN_CHECK_MEM(back, expected, sizeof(back));
}

/// x becomes x / 2 + y.
static kiln_graph *capture_carried(fixture *f, kiln_tensor *x, kiln_tensor *y)
{
    kiln_tensor *half = NULL, *next = NULL;
    kiln_tensor *const inputs[] = {x, y};
    kiln_graph *graph = NULL;
    FIXTURE_OK(f, kiln_graph_begin(f->device, inputs, 2, &f->err));
    FIXTURE_OK(f, kiln_mul_scalar(x, kiln_f64(0.5), &half, &f->err));
    FIXTURE_OK(f, kiln_add(half, y, &next, &f->err));
    kiln_release(half); // held until the end, it would be a value that wants memory of its own
    FIXTURE_OK(f, kiln_graph_carry(f->device, x, next, &f->err));
    FIXTURE_OK(f, kiln_graph_end(f->device, NULL, 0, &graph, &f->err));
    kiln_release(next);
    return graph;
}

typedef struct carried { ///< a graph that is repeated, and what its tensors hold
    kiln_graph *graph;
    kiln_tensor *tensors[2];
    float x[LENGTH];
    float y[LENGTH];
} carried;

static void step(fixture *f, carried *c)
{
    FIXTURE_OK(f, kiln_graph_advance(c->graph, c->tensors, 2, NULL, 0, &f->err));
    for (int i = 0; i < LENGTH; i++) {
        c->x[i] = c->x[i] / 2 + c->y[i];
    }
}

/// Runs until replays are repeated, which wants blocks that were seen to end, and the plan's memory
/// to be known. False: they are not, which fails the case.
static bool begin(fixture *f, carried *c)
{
    memcpy(c->x, start, sizeof(start));
    memcpy(c->y, added, sizeof(added));
    c->tensors[0] = fixture_f32(f, 1, one_axis, start);
    c->tensors[1] = fixture_f32(f, 1, one_axis, added);
    c->graph = capture_carried(f, c->tensors[0], c->tensors[1]);
    for (int i = 0; i < MANY && repeated(f) == 0; i++) {
        step(f, c);
        FIXTURE_OK(f, kiln_sync(f->device, &f->err));
    }
    KILN_CHECK(repeated(f) > 0);
    check_values(f, c->tensors[0], c->x);
    return repeated(f) > 0;
}

static void finish(carried *c)
{
    kiln_release(c->tensors[0]);
    kiln_release(c->tensors[1]);
    kiln_graph_destroy(c->graph);
}

static void step_and_check(fixture *f, carried *c, bool again)
{
    uint64_t before = repeated(f);
    step(f, c);
    KILN_CHECK_INT(repeated(f) - before, again ? 1 : 0);
    check_values(f, c->tensors[0], c->x);
    check_values(f, c->tensors[1], c->y);
}

/// Runs that are not repeated, and one that is again.
static void until_repeated(fixture *f, carried *c)
{
    uint64_t before = repeated(f);
    for (int i = 0; i < MANY && repeated(f) == before; i++) {
        step(f, c);
        check_values(f, c->tensors[0], c->x);
    }
    KILN_CHECK(repeated(f) > before);
}

static void new_input(fixture *f, carried *c, const float *values)
{
    kiln_release(c->tensors[1]);
    c->tensors[1] = fixture_f32(f, 1, one_axis, values);
    memcpy(c->y, values, sizeof(c->y));
}

static void test_new_inputs(void)
{
    fixture f;
    carried c;
    kiln_tensor *held[3] = {NULL};
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    if (begin(&f, &c)) {
        kiln_tensor *const same = c.tensors[0];
        kiln_device_stats before = KILN_DEVICE_STATS_INIT, after = KILN_DEVICE_STATS_INIT;
        kiln_device_stats_get(f.device, &before);
        for (int i = 0; i < 3; i++) { // in other memory, as the one before is held
            held[i] = kiln_retain(c.tensors[1]);
            new_input(&f, &c, i % 2 == 0 ? scaled : start);
            step_and_check(&f, &c, /*again=*/true);
            KILN_CHECK(c.tensors[0] == same);
        }
        step_and_check(&f, &c, /*again=*/true);
        kiln_device_stats_get(f.device, &after);
        KILN_CHECK_INT(after.backend.kernels_launched - before.backend.kernels_launched, 4);
        KILN_CHECK_INT(after.blocks_fused - before.blocks_fused, 4);
        for (int i = 0; i < 3; i++) {
            kiln_release(held[i]);
        }
    }
    finish(&c);
    fixture_close(&f);
}

/// What others hold or mention keeps its value, and so does what is given twice.
static void test_values_of_others(void)
{
    fixture f;
    carried c;
    const int64_t square[] = {2, 2};
    kiln_tensor *view = NULL, *twice = NULL;
    float kept[LENGTH];
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    if (begin(&f, &c)) {
        memcpy(kept, c.x, sizeof(kept));
        FIXTURE_OK(&f, kiln_reshape(c.tensors[0], square, 2, &view, &f.err));
        FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
        step_and_check(&f, &c, /*again=*/false);
        check_values(&f, view, kept);
        kiln_release(view);
        until_repeated(&f, &c);
        memcpy(kept, c.x, sizeof(kept));
        kiln_tensor *before = kiln_retain(c.tensors[0]);
        step_and_check(&f, &c, /*again=*/false);
        KILN_CHECK(c.tensors[0] != before);
        check_values(&f, before, kept);
        kiln_release(before);
        until_repeated(&f, &c);
        FIXTURE_OK(&f, kiln_add(c.tensors[0], c.tensors[0], &twice, &f.err));
        for (int i = 0; i < LENGTH; i++) {
            kept[i] = c.x[i] * 2;
        }
        step_and_check(&f, &c, /*again=*/false); // what is queued is of the value before
        check_values(&f, twice, kept);
        kiln_release(twice);
        until_repeated(&f, &c);
        kiln_tensor *twins[] = {c.tensors[0], kiln_retain(c.tensors[0])};
        memcpy(kept, c.x, sizeof(kept));
        uint64_t runs = repeated(&f);
        FIXTURE_OK(&f, kiln_graph_advance(c.graph, twins, 2, NULL, 0, &f.err));
        KILN_CHECK_INT(repeated(&f), runs);
        check_values(&f, twins[1], kept);
        for (int i = 0; i < LENGTH; i++) {
            kept[i] = kept[i] / 2 + kept[i];
        }
        check_values(&f, twins[0], kept);
        kiln_release(twins[1]);
        c.tensors[0] = twins[0];
    }
    finish(&c);
    fixture_close(&f);
}

static void test_memory_that_went(void)
{
    fixture f;
    carried c;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    if (begin(&f, &c)) {
        new_input(&f, &c, scaled);
        step_and_check(&f, &c, /*again=*/true);
        for (int i = 0; i < 4; i++) {
            FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
            kiln_release(c.tensors[1]);
            kiln_device_trim(f.device); // its memory goes, and what comes may be called as it was
            c.tensors[1] = fixture_f32(&f, 1, one_axis, i % 2 == 0 ? start : scaled);
            memcpy(c.y, i % 2 == 0 ? start : scaled, sizeof(c.y));
            step(&f, &c);
            check_values(&f, c.tensors[0], c.x);
            check_values(&f, c.tensors[1], c.y);
            until_repeated(&f, &c);
        }
        kiln_device_trim(f.device);
        step(&f, &c);
        check_values(&f, c.tensors[0], c.x);
    }
    finish(&c);
    fixture_close(&f);
}

/// Programs that are given up are built again, by a run that is not repeated.
static void test_programs_that_went(void)
{
    fixture f;
    carried c;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    if (begin(&f, &c)) {
        step_and_check(&f, &c, /*again=*/true);
        step(&f, &c); // under way, while its program goes
        pthread_mutex_lock(&f.device->lock);
        kilni_block_programs_free(f.device->execution.programs.oldest);
        pthread_mutex_unlock(&f.device->lock);
        step_and_check(&f, &c, /*again=*/false);
        until_repeated(&f, &c);
        step(&f, &c);
    }
    finish(&c); // a graph that goes with launches under way
    fixture_close(&f);
}

/// Two graphs write over the same tensor in turns, and each has tensors of its own, too.
static void test_graphs_in_turns(void)
{
    fixture f;
    carried c, d;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    if (begin(&f, &c)) {
        memcpy(&d, &c, sizeof(d));
        d.tensors[1] = fixture_f32(&f, 1, one_axis, scaled);
        memcpy(d.y, scaled, sizeof(d.y));
        d.graph = capture_carried(&f, d.tensors[0], d.tensors[1]);
        uint64_t before = repeated(&f);
        for (int i = 0; i < 2 * MANY; i++) {
            step(&f, &c);
            d.tensors[0] = c.tensors[0];
            memcpy(d.x, c.x, sizeof(d.x));
            step(&f, &d);
            c.tensors[0] = d.tensors[0];
            memcpy(c.x, d.x, sizeof(c.x));
        }
        check_values(&f, c.tensors[0], c.x);
        KILN_CHECK(repeated(&f) - before > 2 * MANY); // so it is both of them
        kiln_release(d.tensors[1]);
        kiln_graph_destroy(d.graph);
    }
    finish(&c);
    fixture_close(&f);
}

static uint32_t differing(const float *a, const float *b)
{
    uint32_t count = 0;
    for (int i = 0; i < LENGTH; i++) {
        count += a[i] != b[i];
    }
    return count;
}

/// Numbers drawn anew, and runs that are checked, are the business of ordinary runs.
static void test_draws_and_checks(void)
{
    fixture f;
    carried c;
    kiln_graph *graph = NULL;
    kiln_tensor *drawn = NULL, *sum = NULL;
    float before[LENGTH] = {0}, now[LENGTH];
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 1, one_axis, start);
    FIXTURE_OK(&f, kiln_graph_begin(f.device, &x, 1, &f.err));
    FIXTURE_OK(&f, kiln_random_uniform(f.device, one_axis, 1, KILN_DTYPE_F32, kiln_f64(0),
                                       kiln_f64(1), &drawn, &f.err));
    FIXTURE_OK(&f, kiln_add(x, drawn, &sum, &f.err));
    kiln_release(drawn);
    FIXTURE_OK(&f, kiln_graph_end(f.device, &sum, 1, &graph, &f.err));
    kiln_release(sum);
    for (int i = 0; i < MANY; i++) {
        FIXTURE_OK(&f, kiln_graph_run(graph, &x, 1, &sum, 1, &f.err));
        FIXTURE_OK(&f, kiln_read(sum, now, sizeof(now), &f.err));
        KILN_CHECK(differing(before, now) > 0);
        memcpy(before, now, sizeof(now));
        kiln_release(sum);
    }
    KILN_CHECK_INT(repeated(&f), 0);
    kiln_release(x);
    kiln_graph_destroy(graph);
    fixture_close(&f);
    if (fixture_open_with(&f, "opencl:0", "check", "first")) {
        memcpy(c.x, start, sizeof(start));
        memcpy(c.y, added, sizeof(added));
        c.tensors[0] = fixture_f32(&f, 1, one_axis, start);
        c.tensors[1] = fixture_f32(&f, 1, one_axis, added);
        c.graph = capture_carried(&f, c.tensors[0], c.tensors[1]);
        for (int i = 0; i < MANY; i++) {
            step_and_check(&f, &c, /*again=*/false);
        }
        finish(&c);
        fixture_close(&f);
    }
}

/// What a tournament found runs, and is repeated; a run with a tournament never is.
static void test_measured_blocks(void)
{
    fixture f;
    carried c;
    if (!fixture_open_with(&f, "opencl:0", "tune", "full")) {
        return;
    }
    if (begin(&f, &c)) {
        KILN_CHECK(f.device->counts.kernels_measuring > 0);
        for (int i = 0; i < MANY; i++) {
            step(&f, &c);
            check_values(&f, c.tensors[0], c.x);
        }
    }
    finish(&c);
    fixture_close(&f);
}

typedef struct neighbour { ///< who records and waits on the same device
    kiln_device *device;
    uint32_t failures;
} neighbour;

static void *work_beside(void *user)
{
    neighbour *self = user;
    for (int i = 0; i < 100; i++) {
        kiln_tensor *x = NULL, *sum = NULL;
        float back[LENGTH] = {0}, expected[LENGTH];
        kiln_error err = KILN_ERROR_INIT;
        bool fine =
            kiln_tensor_create(self->device, KILN_DTYPE_F32, 1, one_axis, start, &x, &err) == 0 &&
            kiln_add_scalar(x, kiln_f64(i), &sum, &err) == 0 &&
            kiln_read(sum, back, sizeof(back), &err) == 0;
        for (int k = 0; k < LENGTH; k++) {
            expected[k] = start[k] + (float)i;
        }
        self->failures += !fine || differing(back, expected) > 0;
        kiln_release(x);
        kiln_release(sum);
    }
    return NULL;
}

/// Another thread takes and gives back memory of the same device in between.
static void test_a_thread_beside(void)
{
    fixture f;
    carried c;
    pthread_t thread;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    if (begin(&f, &c)) {
        neighbour beside = {.device = f.device};
        uint64_t before = repeated(&f);
        KILN_CHECK_INT(pthread_create(&thread, NULL, work_beside, &beside), 0);
        for (int i = 0; i < 20 * MANY; i++) {
            new_input(&f, &c, i % 2 == 0 ? scaled : start);
            step(&f, &c);
        }
        pthread_join(thread, NULL);
        KILN_CHECK_INT(beside.failures, 0);
        check_values(&f, c.tensors[0], c.x);
        KILN_CHECK(repeated(&f) > before);
    }
    finish(&c);
    fixture_close(&f);
}

/// Two results, with values that die inside and a constant.
static kiln_graph *capture_results(fixture *f, kiln_tensor *x, kiln_tensor *w)
{
    const int64_t axis[] = {0};
    kiln_tensor *sum = NULL, *moved = NULL, *out[2] = {NULL};
    kiln_graph *graph = NULL;
    FIXTURE_OK(f, kiln_graph_begin(f->device, &x, 1, &f->err));
    FIXTURE_OK(f, kiln_mul(x, w, &moved, &f->err));
    FIXTURE_OK(f, kiln_sum(moved, axis, 1, true, &sum, &f->err));
    FIXTURE_OK(f, kiln_add(moved, sum, &out[0], &f->err));
    FIXTURE_OK(f, kiln_sub(x, sum, &out[1], &f->err));
    kiln_release(moved);
    kiln_release(sum);
    FIXTURE_OK(f, kiln_graph_end(f->device, out, 2, &graph, &f->err));
    kiln_release(out[0]);
    kiln_release(out[1]);
    return graph;
}

static void expect(const float *x, float out[2][LENGTH])
{
    float sum = 0;
    for (int i = 0; i < LENGTH; i++) {
        sum += x[i] * scaled[i];
    }
    for (int i = 0; i < LENGTH; i++) {
        out[0][i] = x[i] * scaled[i] + sum;
        out[1][i] = x[i] - sum;
    }
}

/// Results of many runs are held: each has memory of its own.
static void test_results_are_held(void)
{
    fixture f;
    kiln_tensor *held[2 * MANY] = {NULL}, *inputs[MANY] = {NULL};
    float expected[2][LENGTH], x[LENGTH];
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_tensor *w = fixture_f32(&f, 1, one_axis, scaled);
    for (int i = 0; i < MANY; i++) {
        for (int k = 0; k < LENGTH; k++) {
            x[k] = start[k] + (float)i;
        }
        inputs[i] = fixture_f32(&f, 1, one_axis, x);
    }
    kiln_graph *graph = capture_results(&f, inputs[0], w);
    kiln_release(w);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) {
            FIXTURE_OK(&f, kiln_graph_run(graph, &inputs[i], 1, &held[2 * i], 2, &f.err));
        }
        for (int i = 0; i < MANY; i++) {
            for (int k = 0; k < LENGTH; k++) {
                x[k] = start[k] + (float)i;
            }
            expect(x, expected);
            check_values(&f, held[2 * i], expected[0]);
            check_values(&f, held[2 * i + 1], expected[1]);
            kiln_release(held[2 * i]);
            kiln_release(held[2 * i + 1]);
        }
        if (round == 1) {
            kiln_device_trim(f.device);
        }
    }
    KILN_CHECK(repeated(&f) >= MANY);
    for (int i = 0; i < MANY; i++) {
        kiln_release(inputs[i]);
    }
    kiln_graph_destroy(graph);
    fixture_close(&f);
}

/// Results are held until there is no memory; when they go, runs are repeated again.
static void test_memory_that_is_short(void)
{
    enum { MOST = 512 };
    fixture f;
    kiln_tensor *held[2 * MOST] = {NULL};
    float expected[2][LENGTH];
    if (!fixture_open_with(&f, "opencl:0", "memory-budget", "65536")) {
        return;
    }
    kiln_tensor *w = fixture_f32(&f, 1, one_axis, scaled);
    kiln_tensor *x = fixture_f32(&f, 1, one_axis, start);
    kiln_graph *graph = capture_results(&f, x, w);
    kiln_release(w);
    expect(start, expected);
    for (int round = 0; round < 3; round++) {
        int count = 0;
        uint64_t before = repeated(&f);
        kiln_status status = KILN_STATUS_OK;
        while (status == KILN_STATUS_OK && count < MOST) {
            float back[LENGTH];
            kiln_error err = KILN_ERROR_INIT;
            status = kiln_graph_run(graph, &x, 1, &held[2 * count], 2, &err);
            if (status == KILN_STATUS_OK) {
                status = kiln_read(held[2 * count++], back, sizeof(back), &err);
            }
        }
        KILN_CHECK_INT(status, KILN_STATUS_RESOURCE_EXHAUSTED);
        KILN_CHECK(count > MANY);
        KILN_CHECK(repeated(&f) - before > MANY / 2);
        for (int i = 0; i < count; i++) {
            if (i < count - 1) { // the last one has none
                check_values(&f, held[2 * i], expected[0]);
                check_values(&f, held[2 * i + 1], expected[1]);
            }
            kiln_release(held[2 * i]);
            kiln_release(held[2 * i + 1]);
        }
        kiln_error err = KILN_ERROR_INIT;
        status = kiln_sync(f.device, &err); // says what failed, once
        KILN_CHECK(status == KILN_STATUS_OK || status == KILN_STATUS_RESOURCE_EXHAUSTED);
    }
    kiln_release(x);
    kiln_graph_destroy(graph);
    fixture_close(&f);
}

/// Other shapes in turn, and tensors that the graph does not take.
static void test_shapes_and_misuse(void)
{
    fixture f, g;
    carried c;
    const int64_t two[] = {2};
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    if (begin(&f, &c) && fixture_open(&g, "reference")) {
        kiln_tensor *small[] = {fixture_f32(&f, 1, two, start), fixture_f32(&f, 1, two, added)};
        float x[2] = {start[0], start[1]};
        for (int i = 0; i < MANY; i++) {
            float back[2] = {0};
            FIXTURE_OK(&f, kiln_graph_advance(c.graph, small, 2, NULL, 0, &f.err));
            x[0] = x[0] / 2 + added[0];
            x[1] = x[1] / 2 + added[1];
            FIXTURE_OK(&f, kiln_read(small[0], back, sizeof(back), &f.err));
            KILN_CHECK_MEM(back, x, sizeof(x));
            step(&f, &c);
            check_values(&f, c.tensors[0], c.x);
        }
        kiln_tensor *elsewhere = fixture_f32(&g, 1, one_axis, added), *integers = NULL;
        const int32_t whole[] = {1, 2, 3, 4};
        FIXTURE_OK(&f, kiln_tensor_create(f.device, KILN_DTYPE_I32, 1, one_axis, whole, &integers,
                                          &f.err));
        kiln_tensor *const wrong[] = {elsewhere, integers, NULL};
        for (int i = 0; i < 3; i++) {
            kiln_tensor *given[] = {c.tensors[0], wrong[i]};
            KILN_CHECK(kiln_graph_advance(c.graph, given, 2, NULL, 0, &f.err) != KILN_STATUS_OK);
            check_values(&f, c.tensors[0], c.x);
        }
        kiln_release(elsewhere);
        kiln_release(integers);
        kiln_release(small[0]);
        kiln_release(small[1]);
        fixture_close(&g);
    }
    finish(&c);
    fixture_close(&f);
}

/// y = relu(table[indices] + 1) * 2: an operation that runs unfused before a launch.
static void test_operations_between(void)
{
    fixture f;
    enum { ROWS = 3 };
    const int64_t table_dims[] = {ROWS, LENGTH}, index_dims[] = {1};
    float table[ROWS * LENGTH];
    kiln_tensor *out[MANY] = {NULL}, *row = NULL, *more = NULL, *result = NULL;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    for (int i = 0; i < ROWS * LENGTH; i++) {
        table[i] = (float)i - 5;
    }
    kiln_tensor *weights = fixture_f32(&f, 2, table_dims, table);
    kiln_tensor *indices[ROWS] = {NULL};
    for (int64_t i = 0; i < ROWS; i++) {
        FIXTURE_OK(&f, kiln_tensor_create(f.device, KILN_DTYPE_I64, 1, index_dims, &i, &indices[i],
                                          &f.err));
    }
    kiln_graph *graph = NULL;
    FIXTURE_OK(&f, kiln_graph_begin(f.device, indices, 1, &f.err));
    FIXTURE_OK(&f, kiln_embedding(weights, indices[0], &row, &f.err));
    FIXTURE_OK(&f, kiln_add_scalar(row, kiln_f64(1), &more, &f.err));
    kiln_release(row);
    FIXTURE_OK(&f, kiln_relu(more, &row, &f.err));
    FIXTURE_OK(&f, kiln_mul_scalar(row, kiln_f64(2), &result, &f.err));
    kiln_release(row);
    kiln_release(more);
    FIXTURE_OK(&f, kiln_graph_end(f.device, &result, 1, &graph, &f.err));
    kiln_release(result);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            FIXTURE_OK(&f, kiln_graph_run(graph, &indices[i % ROWS], 1, &out[i], 1, &f.err));
        }
        for (int i = 0; i < MANY; i++) {
            float expected[LENGTH];
            for (int k = 0; k < LENGTH; k++) {
                float value = table[i % ROWS * LENGTH + k] + 1;
                expected[k] = value > 0 ? value * 2 : 0;
            }
            check_values(&f, out[i], expected);
            kiln_release(out[i]);
        }
    }
    KILN_CHECK(repeated(&f) >= MANY);
    for (int i = 0; i < ROWS; i++) {
        kiln_release(indices[i]);
    }
    kiln_release(weights);
    kiln_graph_destroy(graph);
    fixture_close(&f);
}

/// A tensor of bytes is none of small floats, though both are stored alike.
static void test_small_floats_are_no_bytes(void)
{
    static const uint8_t codes[] = {0x38, 0x40, 0x44, 0x48};
    fixture f;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    const kiln_dtype dtypes[] = {KILN_DTYPE_F8E4M3FN, KILN_DTYPE_U8};
    kiln_tensor *given[2] = {NULL}, *wide = NULL, *y = NULL;
    kiln_graph *graph = NULL;
    for (int i = 0; i < 2; i++) {
        FIXTURE_OK(&f,
                   kiln_tensor_create(f.device, dtypes[i], 1, one_axis, codes, &given[i], &f.err));
    }
    FIXTURE_OK(&f, kiln_graph_begin(f.device, given, 1, &f.err));
    FIXTURE_OK(&f, kiln_cast(given[0], KILN_DTYPE_F32, &wide, &f.err));
    FIXTURE_OK(&f, kiln_add_scalar(wide, kiln_f64(1), &y, &f.err));
    kiln_release(wide);
    FIXTURE_OK(&f, kiln_graph_end(f.device, &y, 1, &graph, &f.err));
    kiln_release(y);
    for (int i = 0; i < MANY && repeated(&f) == 0; i++) {
        FIXTURE_OK(&f, kiln_graph_run(graph, given, 1, &y, 1, &f.err));
        FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
        kiln_release(y);
    }
    KILN_CHECK(repeated(&f) > 0);
    y = NULL;
    KILN_CHECK_INT(kiln_graph_run(graph, &given[1], 1, &y, 1, &f.err),
                   KILN_STATUS_INVALID_ARGUMENT);
    kiln_release(y);
    kiln_graph_destroy(graph);
    kiln_release(given[0]);
    kiln_release(given[1]);
    fixture_close(&f);
}

KILN_TEST_MAIN("unit/runtime/repeat", KILN_TEST(test_new_inputs), KILN_TEST(test_values_of_others),
               KILN_TEST(test_memory_that_went), KILN_TEST(test_programs_that_went),
               KILN_TEST(test_graphs_in_turns), KILN_TEST(test_measured_blocks),
               KILN_TEST(test_a_thread_beside), KILN_TEST(test_memory_that_is_short),
               KILN_TEST(test_draws_and_checks), KILN_TEST(test_results_are_held),
               KILN_TEST(test_operations_between), KILN_TEST(test_shapes_and_misuse),
               KILN_TEST(test_small_floats_are_no_bytes))
