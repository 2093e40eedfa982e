// SPDX-License-Identifier: MIT OR Apache-2.0
// All-reduce over devices through the public calls: two PoCL devices with a context each, reference
// devices, and both kinds in one group; every operation, views as inputs, empty tensors, refusals.
#include <stdlib.h>
#include <string.h>

#include "collective.h"
#include "device_set.h"
#include "harness.h"

enum { MOST = 4, COUNT = 1003 };

typedef struct setting {
    uint32_t count;
    const char *addresses[MOST];
} setting;

static const setting references = {3, {"reference:0", "reference:1", "reference:2"}};
static const setting pair = {2, {"reference:0", "reference:1"}};
static const setting single = {1, {"reference:0"}};
#ifdef TEST_WITH_OPENCL
static const setting opencl = {2, {"opencl:0", "opencl:1"}};
static const setting four = {4, {"opencl:0", "opencl:1", "opencl:2", "opencl:3"}};
static const setting alone = {1, {"opencl:0"}};
static const setting twice = {2, {"opencl:0", "opencl:0"}}; ///< two ranks on one device
#ifdef TEST_WITH_REMOTE
static const setting remote = {3, {"opencl:0", "remote", "reference:0"}};
#endif
static const setting subdevices = {3, {"opencl:0#0/2", "opencl:0#1/2", "opencl:1"}};
static const setting mixed = {3, {"opencl:1", "reference:0", "opencl:0"}};
#endif

typedef struct scene {
    uint32_t count;
    device_set set;
    kiln_device **devices;
    kiln_collective *group;
} scene;

static bool scene_init(scene *self, const setting *what, const kiln_coll_group_options *options)
{
    kiln_error err = KILN_ERROR_INIT;
    *self = (scene){.count = what->count};
    self->devices = self->set.devices;
    bool ok = device_set_open(&self->set, what->addresses, what->count);
    if (ok && kiln_collective_create(self->devices, what->count, options, &self->group, &err) !=
                  KILN_STATUS_OK) {
        KILN_FAIL("%s", err.message);
        ok = false;
    }
    return ok;
}

static void scene_fini(scene *self)
{
    kiln_collective_destroy(self->group);
    device_set_close(&self->set);
}

static bool resolve_all(const scene *self, kiln_tensor **tensors)
{
    bool ok = true;
    for (uint32_t i = 0; i < self->count; i++) {
        kiln_error err = KILN_ERROR_INIT;
        if (tensors[i] != NULL && kiln_collective_resolve(tensors[i], &err) != KILN_STATUS_OK) {
            KILN_FAIL("rank %u: %s", i, err.message);
            ok = false;
        }
    }
    return ok;
}

static void release_all(const scene *self, kiln_tensor **tensors)
{
    for (uint32_t i = 0; i < self->count; i++) {
        kiln_release(tensors[i]);
        tensors[i] = NULL;
    }
}

/// A tensor per device: value(rank, i) of a small integer, exact in every dtype used here.
static int number_at(uint32_t rank, int64_t i)
{
    return (int)((i * 7 + rank * 3) % 11) - 4;
}

static bool make_inputs(const scene *self, kiln_dtype dtype, int64_t count, kiln_tensor **inputs)
{
    bool ok = true;
    for (uint32_t rank = 0; rank < self->count; rank++) {
        float floats[COUNT + 1];
        int32_t ints[COUNT + 1];
        uint16_t halves[COUNT + 1];
        int16_t shorts[COUNT + 1];
        for (int64_t i = 0; i < count; i++) {
            ints[i] = number_at(rank, i);
            floats[i] = (float)ints[i];
            halves[i] = kiln_f32_to_bf16(floats[i]);
            shorts[i] = (int16_t)ints[i];
        }
        const void *data = dtype == KILN_DTYPE_F32   ? (const void *)floats
                           : dtype == KILN_DTYPE_I32 ? (const void *)ints
                           : dtype == KILN_DTYPE_I16 ? (const void *)shorts
                                                     : (const void *)halves;
        ok = ok && KILN_CHECK_INT(kiln_tensor_create(self->devices[rank], dtype, 1, &count, data,
                                                     &inputs[rank], NULL),
                                  0);
    }
    return ok;
}

static double expected_at(const scene *self, const char *op, kiln_dtype dtype, int64_t i)
{
    double value = number_at(0, i);
    for (uint32_t rank = 1; rank < self->count; rank++) {
        double other = number_at(rank, i);
        if (strcmp(op, "min") == 0) {
            value = other < value ? other : value;
        } else if (strcmp(op, "max") == 0) {
            value = other > value ? other : value;
        } else {
            value = strcmp(op, "prod") == 0 ? value * other : value + other;
        }
    }
    if (strcmp(op, "mean") == 0 && dtype == KILN_DTYPE_I32) {
        int whole = (int)value / (int)self->count;
        return whole;
    }
    return strcmp(op, "mean") == 0 ? (double)((float)value / (float)self->count) : value;
}

static bool check_output(const scene *self, const char *op, kiln_tensor *tensor, int64_t count)
{
    kiln_dtype dtype = kiln_tensor_dtype(tensor);
    union {
        float f32[COUNT];
        int32_t i32[COUNT];
        uint16_t bf16[COUNT];
        int16_t i16[COUNT];
    } data;
    size_t bytes = (size_t)count * kiln_dtype_size(dtype);
    if (!KILN_CHECK_INT(kiln_read(tensor, &data, bytes, NULL), KILN_STATUS_OK)) {
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        double wanted = expected_at(self, op, dtype, i);
        double got = dtype == KILN_DTYPE_F32   ? (double)data.f32[i]
                     : dtype == KILN_DTYPE_I32 ? (double)data.i32[i]
                     : dtype == KILN_DTYPE_I16 ? (double)data.i16[i]
                                               : (double)kiln_bf16_to_f32(data.bf16[i]);
        if (dtype == KILN_DTYPE_BF16) {
            wanted = (double)kiln_bf16_to_f32(kiln_f32_to_bf16((float)wanted));
        }
        if (got != wanted) {
            KILN_FAIL("%s of %s at %lld: %g, not %g", op, kiln_dtype_name(dtype), (long long)i, got,
                      wanted);
            return false;
        }
    }
    return true;
}

static bool run_one(const scene *self, const char *op, kiln_dtype dtype, int64_t count)
{
    kiln_tensor *inputs[MOST] = {NULL};
    kiln_tensor *outputs[MOST] = {NULL};
    kiln_error err = KILN_ERROR_INIT;
    bool ok = make_inputs(self, dtype, count, inputs);
    if (ok && kiln_collective_all_reduce(self->group, inputs, op, outputs, &err) != 0) {
        KILN_FAIL("%s of %s: %s", op, kiln_dtype_name(dtype), err.message);
        ok = false;
    }
    ok = ok && resolve_all(self, outputs);
    for (uint32_t rank = 0; rank < self->count && ok; rank++) {
        ok = KILN_CHECK(kiln_tensor_device(outputs[rank]) == self->devices[rank]) &&
             check_output(self, op, outputs[rank], count);
    }
    release_all(self, outputs);
    release_all(self, inputs);
    return ok;
}

static void test_operations(void)
{
    static const char *const ops[] = {"sum", "mean", "min", "max", "prod"};
    static const char *const selects[] = {"all_reduce:ring", "all_reduce:centralised"};
    for (int s = 0; s < 2; s++) {
        kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
        scene self;
        options.select = selects[s];
        bool ok = scene_init(&self, kiln_test_param(), &options);
        for (int op = 0; op < 5 && ok; op++) {
            ok = run_one(&self, ops[op], KILN_DTYPE_F32, COUNT) &&
                 run_one(&self, ops[op], KILN_DTYPE_I32, COUNT);
        }
        if (ok) { // i16 is not computed by every device: then by the host
            run_one(&self, "mean", KILN_DTYPE_BF16, 55);
            run_one(&self, "max", KILN_DTYPE_I16, 77);
            run_one(&self, "sum", KILN_DTYPE_F32, 1);
            run_one(&self, "sum", KILN_DTYPE_F32, 0);
        }
        scene_fini(&self);
    }
}

/// What is reduced is the value of a recorded chain and of a strided view, and the result is a
/// tensor like any other.
static void test_in_a_program(void)
{
    enum { ROWS = 6, COLUMNS = 5 };
    scene self;
    float data[ROWS * COLUMNS];
    float sums[MOST][ROWS * COLUMNS];
    kiln_tensor *views[MOST] = {NULL};
    kiln_tensor *outputs[MOST] = {NULL};
    const int64_t dims[] = {ROWS, COLUMNS};
    const int64_t axes[] = {1, 0};
    bool ok = scene_init(&self, kiln_test_param(), NULL);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        data[i] = (float)i;
    }
    for (uint32_t rank = 0; rank < self.count && ok; rank++) {
        kiln_tensor *x = NULL;
        kiln_tensor *scaled = NULL;
        ok = KILN_CHECK_INT(
                 kiln_tensor_create(self.devices[rank], KILN_DTYPE_F32, 2, dims, data, &x, NULL),
                 0) &&
             KILN_CHECK_INT(kiln_mul_scalar(x, kiln_i64(rank + 1), &scaled, NULL), 0) &&
             KILN_CHECK_INT(kiln_permute(scaled, axes, 2, &views[rank], NULL), 0);
        kiln_release(x);
        kiln_release(scaled);
    }
    ok = ok &&
         KILN_CHECK_INT(kiln_collective_all_reduce(self.group, views, "sum", outputs, NULL), 0);
    release_all(&self, views); // the call keeps what it needs
    ok = ok && resolve_all(&self, outputs);
    for (uint32_t rank = 0; rank < self.count && ok; rank++) {
        kiln_tensor *more = NULL;
        ok = KILN_CHECK_INT(kiln_add_scalar(outputs[rank], kiln_i64(1), &more, NULL), 0) &&
             KILN_CHECK_INT(kiln_read(more, sums[rank], sizeof(sums[rank]), NULL), 0);
        kiln_release(more);
        for (int i = 0; i < ROWS * COLUMNS && ok; i++) {
            int row = i % ROWS;
            int column = i / ROWS;
            float value = data[row * COLUMNS + column];
            uint32_t factor = self.count * (self.count + 1) / 2; // 1 + 2 + ...
            ok = KILN_CHECK(sums[rank][i] == value * (float)factor + 1);
        }
    }
    release_all(&self, views);
    release_all(&self, outputs);
    scene_fini(&self);
}

// ---- the other collectives ----

/// `count` elements of a tensor are values[first], values[first + 1], ...
static bool holds(kiln_tensor *tensor, const float *values, int64_t count)
{
    float data[MOST * COUNT];
    return KILN_CHECK_INT(kiln_tensor_count(tensor), count) &&
           KILN_CHECK_INT(kiln_read(tensor, data, (size_t)count * sizeof(data[0]), NULL), 0) &&
           KILN_CHECK_MEM(data, values, (size_t)count * sizeof(data[0]));
}

static void check_one_root(const scene *self, kiln_tensor **inputs, const float *sums,
                           const float *all, uint32_t root)
{
    kiln_tensor *outputs[MOST] = {NULL};
    bool ok = KILN_CHECK_INT(
        kiln_collective_reduce(self->group, inputs, "sum", root, outputs, NULL), KILN_STATUS_OK);
    for (uint32_t rank = 0; rank < self->count && ok; rank++) {
        ok = KILN_CHECK((outputs[rank] != NULL) == (rank == root));
    }
    if (ok && resolve_all(self, outputs)) {
        holds(outputs[root], sums, COUNT);
    }
    release_all(self, outputs);
    ok = KILN_CHECK_INT(kiln_collective_broadcast(self->group, inputs, root, outputs, NULL), 0);
    for (uint32_t rank = 0; ok && rank < self->count && resolve_all(self, outputs); rank++) {
        holds(outputs[rank], all + root * COUNT, COUNT);
    }
    release_all(self, outputs);
}

/// Fewer elements than ranks: some get nothing.
static void check_short_scatter(const scene *self)
{
    kiln_tensor *inputs[MOST] = {NULL};
    kiln_tensor *outputs[MOST] = {NULL};
    bool ok = make_inputs(self, KILN_DTYPE_F32, 1, inputs) &&
              KILN_CHECK_INT(
                  kiln_collective_reduce_scatter(self->group, inputs, "max", outputs, NULL), 0) &&
              resolve_all(self, outputs);
    for (uint32_t rank = 0; rank < self->count && ok; rank++) {
        ok = KILN_CHECK_INT(kiln_tensor_count(outputs[rank]), rank == 0 ? 1 : 0);
    }
    release_all(self, inputs);
    release_all(self, outputs);
}

static void test_other_collectives(void)
{
    static float all[MOST * COUNT];
    static float sums[COUNT];
    scene self;
    kiln_tensor *inputs[MOST] = {NULL};
    kiln_tensor *outputs[MOST] = {NULL};
    bool ok = scene_init(&self, kiln_test_param(), NULL) &&
              make_inputs(&self, KILN_DTYPE_F32, COUNT, inputs);
    memset(sums, 0, sizeof(sums));
    for (uint32_t i = 0; i < self.count * COUNT; i++) {
        all[i] = (float)number_at(i / COUNT, i % COUNT);
        sums[i % COUNT] += all[i];
    }
    for (uint32_t root = 0; root < self.count && ok; root++) {
        check_one_root(&self, inputs, sums, all, root);
    }
    ok = ok && KILN_CHECK_INT(kiln_collective_all_gather(self.group, inputs, outputs, NULL), 0);
    for (uint32_t rank = 0; ok && rank < self.count && resolve_all(&self, outputs); rank++) {
        holds(outputs[rank], all, COUNT * self.count);
    }
    release_all(&self, outputs);
    ok = ok && KILN_CHECK_INT(
                   kiln_collective_reduce_scatter(self.group, inputs, "sum", outputs, NULL), 0);
    int64_t start = 0;
    for (uint32_t rank = 0; ok && rank < self.count && resolve_all(&self, outputs); rank++) {
        int64_t part = COUNT / self.count + (rank < COUNT % self.count);
        KILN_CHECK_INT(kiln_tensor_rank(outputs[rank]), 1);
        holds(outputs[rank], sums + start, part);
        start += part;
    }
    if (ok && KILN_CHECK_INT(kiln_collective_barrier(self.group, NULL), 0)) {
        check_short_scatter(&self);
    }
    release_all(&self, outputs);
    release_all(&self, inputs);
    scene_fini(&self);
}

/// Tensors without elements, and one of many rows of nothing, through every call, in place too.
static void test_nothing_to_send(void)
{
    static const int64_t shapes[][2] = {{0, 5}, {3, 0}, {INT64_C(1) << 62, 0}};
    scene self;
    bool ok = scene_init(&self, kiln_test_param(), NULL);
    for (int shape = 0; shape < 3 && ok; shape++) {
        kiln_tensor *inputs[MOST] = {NULL};
        kiln_tensor *outputs[MOST] = {NULL};
        kiln_error err = KILN_ERROR_INIT;
        for (uint32_t rank = 0; rank < self.count && ok; rank++) {
            ok = KILN_CHECK_INT(kiln_tensor_create(self.devices[rank], KILN_DTYPE_F16, 2,
                                                   shapes[shape], NULL, &inputs[rank], NULL),
                                0);
        }
        for (int call = 0; call < 5 && ok; call++) {
            bool fits = call != 2 || shapes[shape][0] <= INT64_MAX / self.count;
            kiln_status status =
                call == 0   ? kiln_collective_all_reduce(self.group, inputs, "mean", outputs, &err)
                : call == 1 ? kiln_collective_broadcast(self.group, inputs, 0, outputs, &err)
                : call == 2 ? kiln_collective_all_gather(self.group, inputs, outputs, &err)
                : call == 3
                    ? kiln_collective_reduce_scatter(self.group, inputs, "max", outputs, &err)
                    : kiln_collective_all_reduce_in_place(self.group, inputs, "sum", &err);
            ok = KILN_CHECK_INT(status, fits ? KILN_STATUS_OK : KILN_STATUS_OUT_OF_RANGE) &&
                 (!fits || resolve_all(&self, call == 4 ? inputs : outputs));
            for (uint32_t rank = 0; rank < self.count && ok && fits && call < 4; rank++) {
                ok = KILN_CHECK_INT(kiln_tensor_count(outputs[rank]), 0);
            }
            release_all(&self, outputs);
        }
        release_all(&self, inputs);
    }
    scene_fini(&self);
}

// ---- results that are not there yet ----

static void check_refused(kiln_status status, const kiln_error *err)
{
    KILN_CHECK_INT(status, KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK_CONTAINS(err->message, "kiln_collective_resolve");
}

/// Everything but release refuses a result before it is resolved, however long ago it came.
static void test_unresolved(void)
{
    scene self;
    kiln_tensor *inputs[MOST] = {NULL};
    kiln_tensor *sums[MOST] = {NULL};
    kiln_tensor *more[MOST] = {NULL};
    kiln_tensor *other = NULL;
    float data[8];
    kiln_error err = KILN_ERROR_INIT;
    bool ok = scene_init(&self, kiln_test_param(), NULL) &&
              make_inputs(&self, KILN_DTYPE_F32, 8, inputs) &&
              KILN_CHECK_INT(kiln_collective_all_reduce(self.group, inputs, "sum", sums, NULL), 0);
    while (ok && !kiln_collective_ended(sums[0])) {
        KILN_CHECK_INT(kiln_collective_barrier(self.group, NULL), 0);
    }
    if (ok) {
        check_refused(kiln_read(sums[0], data, sizeof(data), &err), &err);
        check_refused(kiln_add(sums[0], sums[0], &other, &err), &err);
        check_refused(kiln_to_device(sums[0], self.devices[1], &other, &err), &err);
        check_refused(kiln_graph_begin(self.devices[0], sums, 1, &err), &err);
        check_refused(kiln_collective_all_reduce(self.group, sums, "sum", more, &err), &err);
        KILN_CHECK(other == NULL && more[0] == NULL);
        KILN_CHECK_INT(kiln_collective_resolve(sums[0], NULL), KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_collective_resolve(sums[0], NULL), KILN_STATUS_OK); // no harm
        KILN_CHECK_INT(kiln_read(sums[0], data, sizeof(data), NULL), KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_collective_barrier(self.group, NULL), 0);
        kiln_collective_assume_resolved(sums[1]); // true after the barrier
        KILN_CHECK_INT(kiln_read(sums[1], data, sizeof(data), NULL), KILN_STATUS_OK);
    }
    release_all(&self, sums);
    release_all(&self, inputs);
    scene_fini(&self);
}

/// Results that nobody resolves, and a group that goes while they are under way.
static void test_let_go(void)
{
    scene self;
    kiln_tensor *inputs[MOST] = {NULL};
    kiln_tensor *sums[MOST] = {NULL};
    bool ok = scene_init(&self, kiln_test_param(), NULL) &&
              make_inputs(&self, KILN_DTYPE_F32, COUNT, inputs);
    for (int round = 0; round < 20 && ok; round++) {
        ok = KILN_CHECK_INT(kiln_collective_all_reduce(self.group, inputs, "sum", sums, NULL), 0);
        if (round < 19) {
            release_all(&self, sums);
        }
    }
    release_all(&self, inputs);
    kiln_collective_destroy(self.group);
    self.group = NULL;
    for (uint32_t rank = 0; rank < self.count && ok; rank++) {
        kiln_status status = kiln_collective_resolve(sums[rank], NULL);
        KILN_CHECK(status == KILN_STATUS_OK || status == KILN_STATUS_CANCELLED);
    }
    release_all(&self, sums);
    scene_fini(&self);
}

/// Device 1 fails at its n-th operation, read or upload of a call, for all n: all results give the
/// same error, which names it, or are whole; the group says so from then on.
static bool fail_once(int reads, int uploads, int executes)
{
    static const setting failing = {3, {"reference:0", "failing", "reference:1"}};
    scene self;
    kiln_tensor *inputs[MOST] = {NULL};
    kiln_tensor *sums[MOST] = {NULL};
    kiln_error first = KILN_ERROR_INIT;
    int failed = 0;
    device_set_fail_at(0, 0, 0);
    bool ok =
        scene_init(&self, &failing, NULL) && make_inputs(&self, KILN_DTYPE_F32, COUNT, inputs);
    device_set_fail_at(reads, uploads, executes);
    ok =
        ok && KILN_CHECK_INT(kiln_collective_all_reduce(self.group, inputs, "mean", sums, NULL), 0);
    for (uint32_t rank = 0; rank < self.count && ok; rank++) {
        kiln_error err = KILN_ERROR_INIT;
        if (kiln_collective_resolve(sums[rank], &err) != KILN_STATUS_OK) {
            first = failed++ == 0 ? err : first;
            KILN_CHECK_INT(err.code, KILN_STATUS_DEVICE_LOST);
            KILN_CHECK_CONTAINS(err.message, "rank 1: ");
            KILN_CHECK_STR(err.message, first.message);
        }
    }
    if (failed > 0) {
        int32_t rank = -1;
        KILN_CHECK_INT(kiln_collective_status(self.group, &rank, NULL), KILN_STATUS_DEVICE_LOST);
        KILN_CHECK_INT(rank, 1);
        release_all(&self, sums);
        KILN_CHECK_INT(kiln_collective_all_reduce(self.group, inputs, "mean", sums, NULL),
                       KILN_STATUS_DEVICE_LOST);
        KILN_CHECK(sums[0] == NULL);
    }
    release_all(&self, sums);
    release_all(&self, inputs);
    scene_fini(&self);
    return failed > 0;
}

static void test_failing_device(void)
{
    int reached[3] = {0};
    while (reached[0] < 50 && fail_once(reached[0] + 1, 0, 0)) {
        reached[0]++;
    }
    while (reached[1] < 50 && fail_once(0, reached[1] + 1, 0)) {
        reached[1]++;
    }
    while (reached[2] < 50 && fail_once(0, 0, reached[2] + 1)) {
        reached[2]++;
    }
    KILN_CHECK(reached[0] > 0 && reached[1] > 0 && reached[0] + reached[1] + reached[2] < 100);
}

static void test_refusals(void)
{
    scene self;
    kiln_tensor *inputs[MOST] = {NULL};
    kiln_tensor *outputs[MOST] = {NULL};
    kiln_error err = KILN_ERROR_INIT;
    if (scene_init(&self, &references, NULL) && make_inputs(&self, KILN_DTYPE_F32, 8, inputs)) {
        KILN_CHECK_INT(kiln_collective_all_reduce(self.group, inputs, "median", outputs, &err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(err.message, "median");
        kiln_tensor *swapped[MOST] = {inputs[1], inputs[0], inputs[2]};
        KILN_CHECK_INT(kiln_collective_all_reduce(self.group, swapped, "sum", outputs, &err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(err.message, "reference:0");
        const int64_t other = 9;
        kiln_release(inputs[2]);
        KILN_CHECK_INT(
            kiln_tensor_create(self.devices[2], KILN_DTYPE_F32, 1, &other, NULL, &inputs[2], NULL),
            0);
        KILN_CHECK_INT(kiln_collective_all_reduce(self.group, inputs, "sum", outputs, &err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(err.message, "rank 2");
        KILN_CHECK(outputs[0] == NULL);
        KILN_CHECK_INT(kiln_collective_status(self.group, NULL, NULL), KILN_STATUS_OK);
        kiln_collective *none = NULL;
        KILN_CHECK_INT(kiln_collective_create(self.devices, 0, NULL, &none, NULL),
                       KILN_STATUS_INVALID_ARGUMENT);
    }
    release_all(&self, inputs);
    scene_fini(&self);
    kiln_collective_destroy(NULL);
}

/// A call that is refused before any rank has begun it leaves the group as it was.
static void test_refused_dtypes(void)
{
    const int64_t count = 8;
    const unsigned char data[8] = {1, 0, 1};
    scene self;
    kiln_tensor *inputs[MOST] = {NULL};
    kiln_tensor *outputs[MOST] = {NULL};
    kiln_error err = KILN_ERROR_INIT;
    bool ok = scene_init(&self, &references, NULL);
    for (uint32_t i = 0; i < self.count && ok; i++) {
        ok = KILN_CHECK_INT(
            kiln_tensor_create(self.devices[i], KILN_DTYPE_BOOL, 1, &count, data, &inputs[i], NULL),
            0);
    }
    if (ok) {
        KILN_CHECK_INT(kiln_collective_all_reduce(self.group, inputs, "max", outputs, &err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(err.message, "bool");
        KILN_CHECK_INT(kiln_collective_all_reduce_in_place(self.group, inputs, "max", &err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(err.message, "all_reduce of bool");
        KILN_CHECK_INT(kiln_collective_broadcast(self.group, inputs, 0, outputs, &err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(err.message, "broadcast of bool");
        KILN_CHECK_INT(kiln_collective_status(self.group, NULL, NULL), KILN_STATUS_OK);
        run_one(&self, "max", KILN_DTYPE_I32, 8);
    }
    release_all(&self, inputs);
    scene_fini(&self);
}

/// docs/numerics.md: the mean of integers is their wrapped sum, divided towards zero.
static void test_integer_mean(void)
{
    enum { NUMBERS = 3 };
    static const int32_t parts[2][NUMBERS] = {{-7, 7, INT32_MAX}, {0, 0, 2}};
    static const int32_t means[NUMBERS] = {-3, 3, (INT32_MIN + 1) / 2};
    const int64_t count = NUMBERS;
    scene self;
    kiln_tensor *inputs[MOST] = {NULL};
    kiln_tensor *outputs[MOST] = {NULL};
    int32_t got[NUMBERS] = {0};
    bool ok = scene_init(&self, kiln_test_param(), NULL);
    for (uint32_t i = 0; i < self.count && ok; i++) {
        ok = KILN_CHECK_INT(kiln_tensor_create(self.devices[i], KILN_DTYPE_I32, 1, &count, parts[i],
                                               &inputs[i], NULL),
                            0);
    }
    ok = ok &&
         KILN_CHECK_INT(kiln_collective_all_reduce(self.group, inputs, "mean", outputs, NULL), 0) &&
         resolve_all(&self, outputs);
    for (uint32_t i = 0; i < self.count && ok; i++) {
        ok = KILN_CHECK_INT(kiln_read(outputs[i], got, sizeof(got), NULL), 0) &&
             KILN_CHECK_MEM(got, means, sizeof(means));
    }
    release_all(&self, outputs);
    release_all(&self, inputs);
    scene_fini(&self);
}

/// Nothing of a call stays on the devices.
static void test_nothing_stays(void)
{
    scene self;
    if (scene_init(&self, kiln_test_param(), NULL)) {
        for (int round = 0; round < 3; round++) {
            run_one(&self, "sum", KILN_DTYPE_F32, COUNT);
            for (uint32_t rank = 0; rank < self.count; rank++) {
                kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
                kiln_device_stats_get(self.devices[rank], &stats);
                KILN_CHECK_INT(stats.tensors_live, 0);
                KILN_CHECK_INT(stats.backend.bytes_used, 0);
            }
        }
    }
    scene_fini(&self);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        KILN_TEST_PARAM(test_operations, "operations, reference", &references),
        KILN_TEST_PARAM(test_in_a_program, "in a program, reference", &references),
        KILN_TEST_PARAM(test_nothing_stays, "nothing stays, reference", &references),
        KILN_TEST_PARAM(test_other_collectives, "other collectives, reference", &references),
        KILN_TEST_PARAM(test_nothing_to_send, "nothing to send, reference", &references),
        KILN_TEST_PARAM(test_operations, "operations, one reference", &single),
        KILN_TEST_PARAM(test_other_collectives, "other collectives, one reference", &single),
        KILN_TEST_PARAM(test_unresolved, "unresolved, reference", &references),
        KILN_TEST_PARAM(test_let_go, "let go, reference", &references),
        KILN_TEST_PARAM(test_integer_mean, "integer mean, reference", &pair),
        KILN_TEST(test_refusals),
        KILN_TEST(test_refused_dtypes),
        KILN_TEST(test_failing_device),
#ifdef TEST_WITH_OPENCL
        KILN_TEST_PARAM(test_operations, "operations, opencl", &opencl),
        KILN_TEST_PARAM(test_integer_mean, "integer mean, opencl", &opencl),
        KILN_TEST_PARAM(test_operations, "operations, mixed", &mixed),
        KILN_TEST_PARAM(test_operations, "operations, four", &four),
        KILN_TEST_PARAM(test_other_collectives, "other collectives, four", &four),
        KILN_TEST_PARAM(test_operations, "operations, alone", &alone),
        KILN_TEST_PARAM(test_other_collectives, "other collectives, alone", &alone),
        KILN_TEST_PARAM(test_operations, "operations, two ranks on a device", &twice),
        KILN_TEST_PARAM(test_other_collectives, "other collectives, two on a device", &twice),
        KILN_TEST_PARAM(test_nothing_to_send, "nothing to send, four", &four),
        KILN_TEST_PARAM(test_in_a_program, "in a program, opencl", &opencl),
        KILN_TEST_PARAM(test_in_a_program, "in a program, mixed", &mixed),
        KILN_TEST_PARAM(test_nothing_stays, "nothing stays, opencl", &opencl),
        KILN_TEST_PARAM(test_other_collectives, "other collectives, mixed", &mixed),
        KILN_TEST_PARAM(test_other_collectives, "other collectives, subdevices", &subdevices),
#ifdef TEST_WITH_REMOTE
        KILN_TEST_PARAM(test_operations, "operations, remote", &remote),
        KILN_TEST_PARAM(test_other_collectives, "other collectives, remote", &remote),
        KILN_TEST_PARAM(test_let_go, "let go, remote", &remote),
#endif
        KILN_TEST_PARAM(test_unresolved, "unresolved, opencl", &opencl),
        KILN_TEST_PARAM(test_let_go, "let go, opencl", &opencl),
#endif
    };
    setenv("POCL_DEVICES", "pthread pthread pthread pthread",
           1); // read once, before the first OpenCL call
    return kiln_test_run("collective/devices", cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
