// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches random.cl. Decides how many blocks of the generator a work-item takes and hands over the
// distribution's parameters in the kernel's terms; the numbers themselves are the kernel's.
#include <string.h>

#include "exec_internal.h"

enum { DRAW_GROUP = 256 }; ///< work-items on GPUs

typedef struct draw {
    int64_t kind; ///< KILN_DRAW
    int64_t per_block; ///< elements
    double numbers[3]; ///< min, max - min, max; or mean, deviation
    uint64_t bits[2]; ///< min and number of values; or threshold
} draw;

static double bound(const kilni_exec *exec, kiln_attr_key key, kiln_dtype dtype)
{
    uint64_t bits = 0;
    uint32_t bytes = 0;
    float narrow = 0;
    double wide = 0;
    if (kilni_exec_number(exec, key, dtype, false, &bits, &bytes) != KILN_STATUS_OK) {
        return 0; // infer has refused such a call
    }
    memcpy(&narrow, &bits, sizeof(narrow));
    memcpy(&wide, &bits, sizeof(wide));
    return bytes == 4 ? narrow : wide;
}

static void uniform(const kilni_exec *exec, kiln_dtype dtype, draw *out)
{
    double low = bound(exec, KILN_KEY_MIN, dtype);
    double high = bound(exec, KILN_KEY_MAX, dtype);
    out->kind = 1;
    out->per_block = dtype == KILN_DTYPE_F64 ? 2 : 4;
    out->numbers[0] = low;
    out->numbers[1] = dtype == KILN_DTYPE_F64 ? high - low : (float)high - (float)low;
    out->numbers[2] = high;
}

static void integers(const kilni_exec *exec, kiln_dtype dtype, draw *out)
{
    uint64_t high = 0;
    (void)kiln_number_store(kiln_op_attr(exec->record, KILN_KEY_MIN), dtype, &out->bits[0]);
    (void)kiln_number_store(kiln_op_attr(exec->record, KILN_KEY_MAX), dtype, &high);
    unsigned unused = 64 - 8 * (unsigned)kiln_dtype_size(dtype);
    out->kind = 2;
    out->per_block = unused == 0 ? 1 : 2;
    out->bits[1] = (((high - out->bits[0]) << unused) >> unused) + 1;
}

static draw draw_of(const kilni_exec *exec, kiln_dtype dtype)
{
    draw d = {.per_block = 4};
    switch (exec->record->op) {
    case KILN_OP_RANDOM_UNIFORM:
        uniform(exec, dtype, &d);
        break;
    case KILN_OP_RANDOM_INT:
        integers(exec, dtype, &d);
        break;
    case KILN_OP_RANDOM_NORMAL:
        d.kind = 3;
        d.per_block = dtype == KILN_DTYPE_F64 ? 2 : 4;
        d.numbers[0] = kiln_op_attr_f64(exec->record, KILN_KEY_MEAN);
        d.numbers[1] = kiln_op_attr_f64(exec->record, KILN_KEY_DEVIATION);
        break;
    default:
        d.kind = 4;
        d.bits[0] = (uint64_t)(kiln_op_attr_f64(exec->record, KILN_KEY_PROBABILITY) * 0x1p32 + 0.5);
        break;
    }
    return d;
}

static void push_number(kilni_cl_args *args, kiln_dtype compute, double value)
{
    const int64_t zero = 0;
    float narrow = (float)value;
    if (compute == KILN_DTYPE_F64) {
        kilni_cl_push_bytes(args, &value, sizeof(value));
    } else if (compute == KILN_DTYPE_F32) {
        kilni_cl_push_bytes(args, &narrow, sizeof(narrow));
    } else {
        kilni_cl_push_bytes(args, &zero, kiln_dtype_size(compute)); // integers do not look at it
    }
}

static void define_unit(kilni_exec_options *options, kiln_dtype dtype)
{
    int digits = dtype == KILN_DTYPE_F16 ? 11 : dtype == KILN_DTYPE_BF16 ? 8 : 24;
    kilni_exec_define(options, "DIGITS", digits);
    kilni_exec_define_text(options, "UNIT",
                           digits == 11  ? "0x1p-11f"
                           : digits == 8 ? "0x1p-8f"
                                         : "0x1p-24f");
}

kiln_status kilni_exec_random(kilni_exec *exec)
{
    const kiln_view *out = &exec->outputs[0];
    const draw d = draw_of(exec, out->dtype);
    kiln_dtype compute = kilni_exec_compute(out->dtype);
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    bool block_form = kilni_exec_is_block(exec);
    int64_t vector = block_form ? 16 : 2;
    int64_t count = kilni_exec_count(out);
    int64_t blocks = kilni_exec_ceil_div(count, d.per_block);
    int64_t each = block_form ? 1024 : 1;
    int64_t items = kilni_exec_ceil_div(blocks, block_form ? each : vector);
    kilni_exec_define_dtype(&options, "O", out->dtype);
    kilni_exec_define(&options, "DRAW", d.kind);
    kilni_exec_define(&options, "V", vector);
    define_unit(&options, out->dtype);
    kiln_status status = kilni_exec_kernel(exec, "random.cl", "kiln_random", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_buffer(&args, out->buffer);
    kilni_cl_push_i64(&args, kilni_exec_start(out));
    kilni_cl_push_i64(&args, count);
    kilni_cl_push_i64(&args, each);
    // On GPUs neighbours take neighbouring blocks, and their others a whole launch further.
    kilni_cl_push_i64(&args, block_form ? 1 : kilni_exec_ceil_div(items, DRAW_GROUP) * DRAW_GROUP);
    kilni_cl_push_i64(&args, kiln_op_attr_i64(exec->record, KILN_KEY_SEED));
    kilni_cl_push_i64(&args, kiln_op_attr_i64(exec->record, KILN_KEY_POSITION));
    kilni_cl_push_u32(&args, (uint32_t)kiln_op_attr_i64(exec->record, KILN_KEY_STREAM));
    for (int i = 0; i < 3; i++) {
        push_number(&args, compute, d.numbers[i]);
    }
    kilni_cl_push_i64(&args, (int64_t)d.bits[0]);
    kilni_cl_push_i64(&args, (int64_t)d.bits[1]);
    return kilni_exec_launch(exec, &args, items, DRAW_GROUP);
}
