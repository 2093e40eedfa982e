// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of random numbers, and what their parameters have to be. The counter of the generator has
// 32 bits for the stream and 48 for the position (reference_random.c).
#include <inttypes.h>
#include <math.h>

#include "shape_internal.h"

static kiln_status check_place(const kiln_op_record *call, kiln_error *err)
{
    int64_t stream = kiln_op_attr_i64(call, KILN_KEY_STREAM);
    int64_t position = kiln_op_attr_i64(call, KILN_KEY_POSITION);
    if (stream < 0 || stream > UINT32_MAX) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: stream %" PRId64 " is not within 32 bits",
                         kilni_ir_op_name(call), stream);
    }
    if (position < 0 || position >> 48 != 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: position %" PRId64 " is not within 48 bits",
                         kilni_ir_op_name(call), position);
    }
    return KILN_STATUS_OK;
}

static kiln_status shape_and_place(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                   kiln_error *err)
{
    kiln_status status = kiln_shape_full(call, outputs, err);
    return status == KILN_STATUS_OK ? check_place(call, err) : status;
}

/// The bounds as the dtype holds them.
static void bounds(const kiln_op_record *call, kiln_dtype dtype, uint64_t out_bits[2])
{
    out_bits[0] = 0;
    out_bits[1] = 0;
    (void)kiln_number_store(kiln_op_attr(call, KILN_KEY_MIN), dtype, &out_bits[0]);
    (void)kiln_number_store(kiln_op_attr(call, KILN_KEY_MAX), dtype, &out_bits[1]);
}

kiln_status kiln_shape_random_uniform(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                      kiln_error *err)
{
    kiln_status status = shape_and_place(call, outputs, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    double low = kiln_op_attr_f64(call, KILN_KEY_MIN);
    double high = kiln_op_attr_f64(call, KILN_KEY_MAX);
    double range = outputs[0].dtype == KILN_DTYPE_F64 ? high - low : (float)high - (float)low;
    double top = outputs[0].dtype == KILN_DTYPE_F16 ? 65504 : INFINITY;
    if (!(low <= high) || !isfinite(range) || fabs(low) > top || fabs(high) > top) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: there is no range from %g to %g in %s",
                         kilni_ir_op_name(call), low, high, kiln_dtype_name(outputs[0].dtype));
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_random_int(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                  kiln_error *err)
{
    uint64_t bits[2];
    kiln_status status = shape_and_place(call, outputs, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_dtype dtype = outputs[0].dtype;
    bounds(call, dtype, bits);
    bool is_signed = kiln_dtype_kind_of(dtype) == KILN_KIND_INT;
    unsigned unused = 64 - 8 * (unsigned)kiln_dtype_size(dtype);
    int64_t low = (int64_t)(bits[0] << unused);
    int64_t high = (int64_t)(bits[1] << unused);
    if (is_signed ? low > high : bits[0] > bits[1]) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: min is above max", kilni_ir_op_name(call));
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_random_normal(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                     kiln_error *err)
{
    double mean = kiln_op_attr_f64(call, KILN_KEY_MEAN);
    double deviation = kiln_op_attr_f64(call, KILN_KEY_DEVIATION);
    if (!isfinite(mean) || !isfinite(deviation) || deviation < 0) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s: there is no normal distribution of mean %g and deviation %g",
                         kilni_ir_op_name(call), mean, deviation);
    }
    return shape_and_place(call, outputs, err);
}

kiln_status kiln_shape_random_bernoulli(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                        kiln_error *err)
{
    double probability = kiln_op_attr_f64(call, KILN_KEY_PROBABILITY);
    if (!(probability >= 0 && probability <= 1)) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: %g is no probability", kilni_ir_op_name(call),
                         probability);
    }
    return shape_and_place(call, outputs, err);
}

kiln_status kiln_shape_random_permutation(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                          kiln_error *err)
{
    int64_t count = kiln_op_attr_i64(call, KILN_KEY_COUNT);
    uint64_t bits = 0;
    const kiln_attr last = {KILN_ATTR_I64, 1, {.i = count > 0 ? count - 1 : 0}};
    if (count < 0 || !kiln_number_store(&last, outputs[0].dtype, &bits)) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: %s does not number %" PRId64 " elements",
                         kilni_ir_op_name(call), kiln_dtype_name(outputs[0].dtype), count);
    }
    outputs[0].rank = 1;
    outputs[0].dims[0] = count;
    return check_place(call, err);
}
