// SPDX-License-Identifier: MIT OR Apache-2.0
// Fused equals unfused, bit for bit: every elementwise operator in a chain with its neighbours, run
// through the runtime with the shipped fusers on and off, and compared as memory.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "kiln.h"
#include "kiln_ops.h"

enum { MAX_RESULTS = 200, ROWS = 24, COLUMNS = 29 };

static bool on_gpu;

typedef struct run_result {
    kiln_tensor *tensors[MAX_RESULTS];
    kiln_op ops[MAX_RESULTS];
    size_t count;
} run_result;

static const double specials[ROWS] = {
    0.0,   -0.0,  1.0,    -1.0, 0.5,  -0.5, 1.5,   2.5,      -2.5,      3.0, 1e-3,  -7.25,
    127.6, 255.5, 0.3333, 1e9,  -3e9, 1e19, 1e-30, INFINITY, -INFINITY, NAN, 100.0, 0.7853981};

static kiln_tensor *make(kiln_device *device, kiln_dtype dtype, unsigned seed)
{
    const int64_t dims[] = {ROWS, COLUMNS};
    double values[ROWS * COLUMNS];
    unsigned char bytes[sizeof(values)];
    kiln_tensor *tensor = NULL;
    kiln_error err = {0};
    for (unsigned i = 0; i < ROWS * COLUMNS; i++) {
        unsigned noise = (i * 2654435761u + seed * 40503u) >> 16;
        values[i] = i % 2 == 0 ? specials[(i / 2 + seed) % ROWS] : (double)noise / 6553.6 - 5;
        kiln_attr number = {.type = KILN_ATTR_F64, .count = 1, .v.f = values[i]};
        bool is_float = kiln_dtype_kind_of(dtype) == KILN_KIND_FLOAT;
        if (!is_float) {
            number.type = KILN_ATTR_I64;
            number.v.i = dtype == KILN_DTYPE_BOOL ? noise & 1u : (int64_t)noise - 32768;
        }
        KILN_CHECK(kiln_number_store(&number, dtype, bytes + i * kiln_dtype_size(dtype)));
    }
    KILN_CHECK_INT(kiln_tensor_create(device, dtype, 2, dims, bytes, &tensor, &err), 0);
    return tensor;
}

static kiln_attr attr_for(kiln_op op, kiln_attr_key key, kiln_dtype dtype, kiln_dtype cast_to)
{
    bool small = op == KILN_OP_ENCODE_SMALL || op == KILN_OP_DECODE_SMALL;
    double value = small ? KILN_DTYPE_F8E4M3FN : key == KILN_KEY_MIN ? -1 : 3;
    if (key == KILN_KEY_DTYPE) {
        return (kiln_attr){.type = KILN_ATTR_DTYPE, .count = 1, .v.i = cast_to};
    }
    if (kiln_dtype_kind_of(dtype) == KILN_KIND_FLOAT) {
        return (kiln_attr){.type = KILN_ATTR_F64, .count = 1, .v.f = value};
    }
    if (kiln_dtype_kind_of(dtype) != KILN_KIND_INT) {
        value = dtype == KILN_DTYPE_BOOL ? 1 : fabs(value);
    }
    return (kiln_attr){.type = KILN_ATTR_I64, .count = 1, .v.i = (int64_t)value};
}

/// Records `op` on a, b and the mask, and something after it that reads its result.
static void record(run_result *result, kiln_op op, kiln_dtype dtype, kiln_dtype cast_to,
                   kiln_tensor *const operands[3])
{
    const kiln_op_info *info = kiln_op_info_of(op);
    const kiln_op_signature *signature = info->signature;
    kiln_tensor *inputs[3] = {NULL};
    kiln_attr attrs[KILN_MAX_ATTRS];
    kiln_error err = {0};
    for (unsigned i = 0; i < signature->max_inputs && i < 3; i++) {
        inputs[i] = operands[(signature->mask_inputs >> i & 1u) != 0 ? 2 : i];
    }
    for (unsigned i = 0; i < signature->n_attrs; i++) {
        attrs[i] = signature->attrs[i].optional
                       ? (kiln_attr){.type = KILN_ATTR_NONE}
                       : attr_for(op, signature->attrs[i].key, dtype, cast_to);
    }
    kiln_tensor *out = NULL, *after = NULL;
    if (!KILN_CHECK_INT(kiln_record(NULL, op, inputs, signature->max_inputs, attrs,
                                    signature->n_attrs, &out, &err),
                        KILN_STATUS_OK)) {
        KILN_FAIL("%s: %s", info->name, err.message);
        return;
    }
    result->ops[result->count] = op;
    result->tensors[result->count++] = out;
    KILN_CHECK_INT(kiln_equal(out, out, &after, &err), KILN_STATUS_OK);
    result->ops[result->count] = op;
    result->tensors[result->count++] = after;
}

static void run(kiln_device *device, kiln_dtype dtype, bool fused, run_result *result)
{
    kiln_error err = {0};
    kiln_tensor *operands[3] = {make(device, dtype, 1), make(device, dtype, 7),
                                make(device, KILN_DTYPE_BOOL, 3)};
    KILN_CHECK_INT(kiln_device_set_fusion(device, fused, &err), KILN_STATUS_OK);
    result->count = 0;
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        if (info->cls == KILN_CLASS_ELEMENTWISE &&
            ((uint32_t)info->accept & kiln_dtype_kind_of(dtype)) != 0) {
            kiln_dtype to = dtype == KILN_DTYPE_F32 ? KILN_DTYPE_I32 : KILN_DTYPE_F32;
            record(result, (kiln_op)op, dtype, to, operands);
        }
    }
    if (kiln_sync(device, &err) != KILN_STATUS_OK) {
        KILN_FAIL("sync: %s", err.message);
    }
    for (unsigned i = 0; i < 3; i++) {
        kiln_release(operands[i]);
    }
}

/// Which NaN a conversion to half gives is the device's choice; PoCL's keeps the bits.
static bool both_nan(const kiln_tensor *tensor, const unsigned char *a, const unsigned char *b)
{
    uint16_t x = 0, y = 0;
    memcpy(&x, a, 2);
    memcpy(&y, b, 2);
    return kiln_tensor_dtype(tensor) == KILN_DTYPE_F16 && on_gpu && (x & 0x7fff) > 0x7c00 &&
           (y & 0x7fff) > 0x7c00;
}

static void compare(const run_result *fused, const run_result *plain)
{
    static unsigned char a[ROWS * COLUMNS * 8], b[ROWS * COLUMNS * 8];
    kiln_error err = {0};
    for (size_t i = 0; i < fused->count && i < plain->count; i++) {
        size_t bytes = kiln_tensor_bytes(fused->tensors[i]), at = 0;
        KILN_CHECK_INT(kiln_read(fused->tensors[i], a, bytes, &err), KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_read(plain->tensors[i], b, bytes, &err), KILN_STATUS_OK);
        size_t size = kiln_dtype_size(kiln_tensor_dtype(fused->tensors[i]));
        while (at < bytes &&
               (memcmp(a + at, b + at, size) == 0 || both_nan(fused->tensors[i], a + at, b + at))) {
            at += size;
        }
        if (at < bytes) {
            uint64_t x = 0, y = 0;
            memcpy(&x, a + at, size);
            memcpy(&y, b + at, size);
            KILN_FAIL("%s: element %zu is %llx fused, %llx unfused",
                      kiln_op_info_of(fused->ops[i])->name, at / size, (unsigned long long)x,
                      (unsigned long long)y);
        }
    }
}

static void test_bits(void)
{
    kiln_dtype dtype = *(const kiln_dtype *)kiln_test_param();
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_error err = {0};
    static run_result fused, plain;
    kiln_device_stats stats = {.struct_size = (uint32_t)sizeof(stats)};
    if (!KILN_CHECK_INT(kiln_context_create(&options, &context, &err), KILN_STATUS_OK)) {
        return;
    }
    if (kiln_device_open(context, kiln_test_address("opencl:0"), &device, &err) != KILN_STATUS_OK) {
        kiln_test_skip("no OpenCL device: %s", err.message);
        kiln_context_destroy(context);
        return;
    }
    on_gpu = kiln_device_info_of(device)->type == KILN_DEVICE_GPU;
    run(device, dtype, true, &fused);
    kiln_device_stats_get(device, &stats);
    KILN_CHECK(stats.ops_fused * 10 >= fused.count * 9); // else there is nothing to compare
    run(device, dtype, false, &plain);
    KILN_CHECK_INT(fused.count, plain.count);
    compare(&fused, &plain);
    for (size_t i = 0; i < fused.count; i++) {
        kiln_release(fused.tensors[i]);
        kiln_release(plain.tensors[i]);
    }
    kiln_device_release(device);
    kiln_context_destroy(context);
}

static const kiln_dtype f32 = KILN_DTYPE_F32;
static const kiln_dtype i32 = KILN_DTYPE_I32;
static const kiln_dtype boolean = KILN_DTYPE_BOOL;
static const kiln_dtype f16 = KILN_DTYPE_F16;

KILN_TEST_MAIN("unit/plugins/fused_bits", KILN_TEST_PARAM(test_bits, "f32", &f32),
               KILN_TEST_PARAM(test_bits, "i32", &i32),
               KILN_TEST_PARAM(test_bits, "bool", &boolean),
               KILN_TEST_PARAM(test_bits, "f16", &f16))
