// SPDX-License-Identifier: MIT OR Apache-2.0
// Default dtypes of a device, and the same device in full precision: what is made where no dtype is
// named, what is shared, and that a tensor goes from one to the other by a recorded cast.
#include <string.h>

#include "runtime_fixture.h"

static bool open_with(fixture *f, const char *address, kiln_dtype floats, kiln_dtype ints)
{
    kiln_device_options options = KILN_DEVICE_OPTIONS_INIT;
    kiln_device *plain = NULL;
    if (!fixture_open(f, address)) {
        return false;
    }
    options.float_dtype = floats;
    options.int_dtype = ints;
    plain = f->device;
    KILN_CHECK_INT(kiln_device_open_with(f->context, kiln_test_address(address), &options,
                                         &f->device, &f->err),
                   floats == KILN_DTYPE_NONE ? KILN_STATUS_OK : KILN_STATUS_ALREADY_EXISTS);
    kiln_device_release(plain); // closed: now it may be opened with others
    return f->device != NULL ||
           FIXTURE_OK(f, kiln_device_open_with(f->context, kiln_test_address(address), &options,
                                               &f->device, &f->err));
}

static kiln_dtype take_dtype(kiln_tensor *x)
{
    kiln_dtype dtype = x != NULL ? kiln_tensor_dtype(x) : KILN_DTYPE_NONE;
    kiln_release(x);
    return dtype;
}

/* Every operator that makes something of nothing, without a dtype. */
static void check_made(fixture *f, kiln_device *device, kiln_dtype floats, kiln_dtype ints)
{
    const kiln_dtype open = KILN_DTYPE_NONE;
    const int64_t dims[1] = {5};
    kiln_tensor *x = NULL;
    FIXTURE_OK(f, kiln_full(device, dims, 1, open, kiln_f64(1), &x, &f->err));
    KILN_CHECK_INT(take_dtype(x), floats);
    FIXTURE_OK(f, kiln_full(device, dims, 1, open, kiln_i64(1), &x, &f->err));
    KILN_CHECK_INT(take_dtype(x), ints);
    FIXTURE_OK(f, kiln_full(device, dims, 1, KILN_DTYPE_BOOL, kiln_i64(1), &x, &f->err));
    KILN_CHECK_INT(take_dtype(x), KILN_DTYPE_BOOL);
    FIXTURE_OK(f, kiln_arange(device, 5, open, kiln_i64(0), kiln_i64(1), &x, &f->err));
    KILN_CHECK_INT(take_dtype(x), ints);
    FIXTURE_OK(f, kiln_arange(device, 5, open, kiln_i64(0), kiln_f64(0.5), &x, &f->err));
    KILN_CHECK_INT(take_dtype(x), floats);
    FIXTURE_OK(f,
               kiln_random_uniform(device, dims, 1, open, kiln_i64(0), kiln_i64(1), &x, &f->err));
    KILN_CHECK_INT(take_dtype(x), floats);
    FIXTURE_OK(f, kiln_random_int(device, dims, 1, open, kiln_i64(0), kiln_i64(9), &x, &f->err));
    KILN_CHECK_INT(take_dtype(x), ints);
    FIXTURE_OK(f, kiln_random_normal(device, dims, 1, open, 0, 1, &x, &f->err));
    KILN_CHECK_INT(take_dtype(x), floats);
    FIXTURE_OK(f, kiln_random_bernoulli(device, dims, 1, open, 0.5, &x, &f->err));
    KILN_CHECK_INT(take_dtype(x), floats);
    FIXTURE_OK(f, kiln_random_permutation(device, 5, open, &x, &f->err));
    KILN_CHECK_INT(take_dtype(x), ints);
    const kiln_attr eye[] = {
        {.type = KILN_ATTR_I64_LIST, .count = 2, .v.ints = (const int64_t[]){3, 3}},
        {.type = KILN_ATTR_NONE},
        {.type = KILN_ATTR_NONE}};
    FIXTURE_OK(f, kiln_record(device, KILN_OP_EYE, NULL, 0, eye, 3, &x, &f->err));
    KILN_CHECK_INT(take_dtype(x), floats);
}

static void test_made_without_a_name(void)
{
    static const kiln_dtype defaults[][2] = {{KILN_DTYPE_NONE, KILN_DTYPE_NONE},
                                             {KILN_DTYPE_BF16, KILN_DTYPE_I32},
                                             {KILN_DTYPE_F64, KILN_DTYPE_U16}};
    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
        kiln_dtype floats = i == 0 ? KILN_DTYPE_F32 : defaults[i][0];
        kiln_dtype ints = i == 0 ? KILN_DTYPE_I64 : defaults[i][1];
        fixture f;
        if (!open_with(&f, "reference", defaults[i][0], defaults[i][1])) {
            return;
        }
        KILN_CHECK_INT(kiln_device_default_dtype(f.device, KILN_KIND_FLOAT), floats);
        KILN_CHECK_INT(kiln_device_default_dtype(f.device, KILN_KIND_INT), ints);
        KILN_CHECK_INT(kiln_device_default_dtype(f.device, KILN_KIND_UINT), ints);
        KILN_CHECK_INT(kiln_device_default_dtype(f.device, KILN_KIND_BOOL), KILN_DTYPE_BOOL);
        KILN_CHECK_INT(kiln_device_default_dtype(f.device, KILN_KIND_QUANT), KILN_DTYPE_NONE);
        check_made(&f, f.device, floats, ints);
        fixture_close(&f);
    }
}

static void test_refusals(void)
{
    fixture f;
    kiln_device *other = NULL;
    kiln_tensor *x = NULL;
    kiln_tensor *y = NULL;
    const int64_t dims[1] = {1};
    kiln_device_options options = KILN_DEVICE_OPTIONS_INIT;
    if (!open_with(&f, "reference", KILN_DTYPE_F16, KILN_DTYPE_U8)) {
        return;
    }
    static const kiln_dtype wrong[][2] = {{KILN_DTYPE_I32, KILN_DTYPE_NONE},
                                          {KILN_DTYPE_NONE, KILN_DTYPE_F32},
                                          {KILN_DTYPE_Q8S, KILN_DTYPE_NONE},
                                          {KILN_DTYPE_NONE, KILN_DTYPE_BOOL},
                                          {(kiln_dtype)99, KILN_DTYPE_NONE}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        options.float_dtype = wrong[i][0];
        options.int_dtype = wrong[i][1];
        KILN_CHECK_INT(kiln_device_open_with(f.context, "reference:7", &options, &other, &f.err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK(other == NULL);
    }
    options = (kiln_device_options)KILN_DEVICE_OPTIONS_INIT;
    options.float_dtype = KILN_DTYPE_F16; // what it is open with, as far as it is named
    FIXTURE_OK(&f, kiln_device_open_with(f.context, "reference", &options, &other, &f.err));
    KILN_CHECK(other == f.device);
    kiln_device_release(other);
    const int64_t numbers[2] = {255, 256};
    FIXTURE_OK(&f, kiln_tensor_of_ints(f.device, 1, dims, numbers, &x, &f.err));
    KILN_CHECK_INT(kiln_tensor_dtype(x), KILN_DTYPE_U8);
    KILN_CHECK_INT(kiln_tensor_of_ints(f.device, 1, dims, numbers + 1, &y, &f.err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(y == NULL);
    // A cast has no default, and neither has data.
    KILN_CHECK_INT(kiln_cast(x, KILN_DTYPE_NONE, &y, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kiln_tensor_create(f.device, KILN_DTYPE_NONE, 1, dims, numbers, &y, &f.err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kiln_device_full_precision(NULL, &other, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    kiln_release(x);
    fixture_close(&f);
}

/* 1 + 2^-12 is a number of f32 and none of f16 and bf16, whose neighbours 1 is. */
static const double fine = 1.000244140625;

static kiln_tensor *over(fixture *f, kiln_tensor *x, kiln_device *device)
{
    kiln_tensor *y = NULL;
    FIXTURE_OK(f, kiln_to_device(x, device, &y, &f->err));
    return y;
}

static uint64_t ops_recorded(kiln_device *device)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(device, &stats);
    return stats.ops_recorded;
}

static void check_casts(fixture *f, kiln_device *full, kiln_dtype floats)
{
    const int64_t dims[1] = {2};
    const double numbers[2] = {fine, -65504};
    uint64_t before = ops_recorded(f->device);
    kiln_tensor *narrow = NULL;
    kiln_tensor *exact = NULL;
    float values[2] = {0};
    FIXTURE_OK(f, kiln_tensor_of_floats(f->device, 1, dims, numbers, &narrow, &f->err));
    FIXTURE_OK(f, kiln_tensor_of_floats(full, 1, dims, numbers, &exact, &f->err));
    KILN_CHECK_INT(kiln_tensor_dtype(narrow), floats);
    KILN_CHECK_INT(kiln_tensor_dtype(exact), KILN_DTYPE_F32);
    KILN_CHECK(kiln_tensor_device(narrow) == f->device && kiln_tensor_device(exact) == full);
    kiln_tensor_set_param(narrow, 17); // as everywhere, kiln_to_device keeps it
    kiln_tensor *wider = over(f, narrow, full);
    kiln_tensor *rounded = over(f, exact, f->device);
    KILN_CHECK(kiln_tensor_param(wider) == 17 && kiln_tensor_param(rounded) == 0);
    KILN_CHECK_INT(ops_recorded(full) - before, 2);
    KILN_CHECK_INT(kiln_tensor_dtype(wider), KILN_DTYPE_F32);
    KILN_CHECK_INT(kiln_tensor_dtype(rounded), floats);
    KILN_CHECK(kiln_tensor_device(wider) == full && kiln_tensor_device(rounded) == f->device);
    FIXTURE_OK(f, kiln_read(wider, values, sizeof(values), &f->err));
    KILN_CHECK(values[0] == 1 && (floats == KILN_DTYPE_BF16 || values[1] == -65504));
    FIXTURE_OK(f, kiln_read(exact, values, sizeof(values), &f->err));
    KILN_CHECK(values[0] == (float)fine && values[1] == -65504);
    kiln_tensor *back = over(f, wider, f->device); // what was rounded once stays so
    uint16_t bits[2][2] = {{0}};
    FIXTURE_OK(f, kiln_read(back, bits[0], sizeof(bits[0]), &f->err));
    FIXTURE_OK(f, kiln_read(rounded, bits[1], sizeof(bits[1]), &f->err));
    KILN_CHECK_MEM(bits[0], bits[1], sizeof(bits[0]));
    kiln_tensor *const made[] = {narrow, exact, wider, rounded, back};
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        kiln_release(made[i]);
    }
}

/* What is no float of the default dtype is the tensor itself, and goes with tensors of both. */
static void check_others(fixture *f, kiln_device *full)
{
    static const kiln_dtype dtypes[] = {KILN_DTYPE_I64, KILN_DTYPE_BOOL, KILN_DTYPE_F32};
    const int64_t dims[1] = {2};
    kiln_tensor *y = NULL;
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        kiln_tensor *x = NULL;
        FIXTURE_OK(f, kiln_tensor_create(f->device, dtypes[i], 1, dims, NULL, &x, &f->err));
        kiln_tensor *same = over(f, x, full);
        KILN_CHECK(same == x);
        kiln_release(same);
        kiln_release(x);
    }
    kiln_tensor *indices = NULL;
    kiln_tensor *data = NULL;
    FIXTURE_OK(f, kiln_tensor_create(f->device, KILN_DTYPE_I64, 1, dims, NULL, &indices, &f->err));
    FIXTURE_OK(f, kiln_full(full, dims, 1, KILN_DTYPE_NONE, kiln_f64(fine), &data, &f->err));
    FIXTURE_OK(f, kiln_select(data, indices, 0, &y, &f->err));
    KILN_CHECK(kiln_tensor_device(y) == full);
    float values[2] = {0};
    FIXTURE_OK(f, kiln_read(y, values, sizeof(values), &f->err));
    KILN_CHECK(values[1] == (float)fine);
    kiln_release(indices);
    kiln_release(data);
    kiln_release(y);
}

/* A copy through the host would have to read a captured value, which is refused. */
static void check_capture(fixture *f, kiln_device *full, kiln_dtype floats)
{
    const double numbers[3] = {1, 2, 3};
    kiln_tensor *x = NULL;
    kiln_tensor *results[2] = {NULL};
    kiln_graph *graph = NULL;
    const int64_t two[1] = {2};
    const int64_t three[1] = {3};
    FIXTURE_OK(f, kiln_tensor_of_floats(f->device, 1, two, numbers, &x, &f->err));
    FIXTURE_OK(f, kiln_graph_begin(full, &x, 1, &f->err));
    kiln_tensor *wide = over(f, x, full);
    FIXTURE_OK(f, kiln_add_scalar(wide, kiln_f64(fine), &results[0], &f->err));
    results[1] = over(f, results[0], f->device);
    FIXTURE_OK(f, kiln_graph_end(f->device, results, 2, &graph, &f->err));
    kiln_release(wide);
    kiln_release(results[0]);
    kiln_release(results[1]);
    kiln_release(x);
    FIXTURE_OK(f, kiln_tensor_of_floats(f->device, 1, three, numbers, &x, &f->err));
    FIXTURE_OK(f, kiln_graph_run(graph, &x, 1, results, 2, &f->err)); // bound to another shape
    float values[3] = {0};
    KILN_CHECK(kiln_tensor_device(results[0]) == full && kiln_tensor_dtype(results[1]) == floats &&
               kiln_tensor_device(results[1]) == f->device);
    FIXTURE_OK(f, kiln_read(results[0], values, sizeof(values), &f->err));
    KILN_CHECK(values[0] == 1 + (float)fine && values[2] == 3 + (float)fine);
    kiln_release(results[0]);
    kiln_release(results[1]);
    kiln_release(x);
    kiln_graph_destroy(graph);
}

static void check_shared(fixture *f, kiln_device *full, kiln_dtype floats)
{
    const int64_t dims[1] = {64};
    kiln_tensor *x[2] = {NULL};
    float drawn[2][64];
    kiln_device *again = NULL;
    KILN_CHECK(full != f->device && kiln_device_info_of(full) == kiln_device_info_of(f->device));
    KILN_CHECK_STR(kiln_device_address(full), kiln_device_address(f->device));
    KILN_CHECK(kiln_device_context(full) == f->context);
    KILN_CHECK_INT(kiln_device_default_dtype(full, KILN_KIND_FLOAT), KILN_DTYPE_F32);
    FIXTURE_OK(f, kiln_device_full_precision(full, &again, &f->err));
    KILN_CHECK(again == full);
    kiln_device_release(again);
    FIXTURE_OK(f, kiln_device_open(f->context, kiln_device_address(full), &again, &f->err));
    KILN_CHECK(again == f->device);
    kiln_device_release(again);
    for (int i = 0; i < 2; i++) { // one stream of numbers: the second draw goes on
        FIXTURE_OK(f, kiln_seed(i == 0 ? full : f->device, 5, &f->err));
        for (int k = 0; k < 2; k++) {
            kiln_release(x[i]);
            x[i] = NULL;
            FIXTURE_OK(f, kiln_random_uniform(k == i ? f->device : full, dims, 1, KILN_DTYPE_F32,
                                              kiln_f64(0), kiln_f64(1), &x[i], &f->err));
        }
        FIXTURE_OK(f, kiln_read(x[i], drawn[i], sizeof(drawn[i]), &f->err));
        kiln_release(x[i]);
    }
    KILN_CHECK_MEM(drawn[0], drawn[1], sizeof(drawn[0]));
    check_made(f, full, KILN_DTYPE_F32, KILN_DTYPE_I64);
    check_made(f, f->device, floats, KILN_DTYPE_I64);
}

static void full_precision(const char *address, kiln_dtype floats)
{
    fixture f;
    kiln_device *full = NULL;
    if (!open_with(&f, address, floats, KILN_DTYPE_NONE)) {
        return;
    }
    FIXTURE_OK(&f, kiln_device_full_precision(f.device, &full, &f.err));
    check_shared(&f, full, floats);
    check_casts(&f, full, floats);
    check_others(&f, full);
    check_capture(&f, full, floats);
    // The handle holds the device: it is the last one here.
    FIXTURE_OK(&f, kiln_sync(full, &f.err));
    kiln_device_release(f.device);
    f.device = full;
    fixture_close(&f);
}

static void test_reference(void)
{
    full_precision("reference", KILN_DTYPE_F16);
    full_precision("reference", KILN_DTYPE_BF16);
}

static void test_opencl(void)
{
    full_precision("opencl:0", KILN_DTYPE_F16);
    full_precision("opencl:0", KILN_DTYPE_BF16);
}

static void test_already_full(void)
{
    fixture f;
    kiln_device *full = NULL;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    FIXTURE_OK(&f, kiln_device_full_precision(f.device, &full, &f.err));
    KILN_CHECK(full == f.device);
    kiln_device_release(full);
    fixture_close(&f);
}

KILN_TEST_MAIN("unit/runtime/dtypes", KILN_TEST(test_made_without_a_name), KILN_TEST(test_refusals),
               KILN_TEST(test_reference), KILN_TEST(test_opencl), KILN_TEST(test_already_full))
