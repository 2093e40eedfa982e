// SPDX-License-Identifier: MIT OR Apache-2.0
// Resize and Upsample. The three interpolations are separable: along each axis an output element is
// a sum of one, two or four input elements with weights, which the host computes from the scale. So
// an axis costs as many takes by index as there are taps, and nothing but existing operators.
#include "onnx_import.h"

#include <math.h>
#include <string.h>

enum { MAX_TAPS = 4, MAX_LENGTH = 1 << 20 };

typedef enum resize_kind { NEAREST, LINEAR, CUBIC } resize_kind;

typedef struct resize_plan {
    resize_kind kind;
    const char *coordinates; ///< coordinate_transformation_mode
    const char *rounding; ///< nearest_mode
    double cubic_a;
    bool exclude_outside;
} resize_plan;

typedef struct resize_axis {
    int64_t in;
    int64_t out;
    double scale;
} resize_axis;

/* Where the middle of output element i lies in the input. */
static double source_of(const resize_plan *plan, const resize_axis *axis, int64_t i)
{
    const char *mode = plan->coordinates;
    double x = (double)i;
    if (strcmp(mode, "asymmetric") == 0) {
        return x / axis->scale;
    }
    if (strcmp(mode, "align_corners") == 0) {
        /* The length before rounding down, as ONNX's own test cases have it. */
        double length = (double)axis->in * axis->scale;
        return length <= 1 ? 0 : x * (double)(axis->in - 1) / (length - 1);
    }
    if (strcmp(mode, "pytorch_half_pixel") == 0 && axis->out == 1) {
        return 0;
    }
    if (strcmp(mode, "tf_half_pixel_for_nn") == 0) {
        return (x + 0.5) / axis->scale;
    }
    return (x + 0.5) / axis->scale - 0.5;
}

static int64_t nearest_of(const resize_plan *plan, double x)
{
    if (strcmp(plan->rounding, "floor") == 0) {
        return (int64_t)floor(x);
    }
    if (strcmp(plan->rounding, "ceil") == 0) {
        return (int64_t)ceil(x);
    }
    bool prefers_ceil = strcmp(plan->rounding, "round_prefer_ceil") == 0;
    return (int64_t)(prefers_ceil ? floor(x + 0.5) : ceil(x - 0.5));
}

static double cubic_weight(double distance, double a)
{
    double d = fabs(distance);
    if (d <= 1) {
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    }
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* Input places, clamped to the edge, and weights of output element i. */
static uint32_t taps_of(const resize_plan *plan, const resize_axis *axis, int64_t i,
                        int64_t places[MAX_TAPS], double weights[MAX_TAPS])
{
    double x = source_of(plan, axis, i);
    int64_t base = (int64_t)floor(x);
    double part = x - (double)base;
    uint32_t count = plan->kind == NEAREST ? 1 : plan->kind == LINEAR ? 2 : 4;
    double total = 0;
    for (uint32_t k = 0; k < count; k++) {
        int64_t place = plan->kind == NEAREST  ? nearest_of(plan, x)
                        : plan->kind == LINEAR ? base + k
                                               : base - 1 + k;
        bool outside = place < 0 || place >= axis->in;
        weights[k] = plan->kind == NEAREST  ? 1
                     : plan->kind == LINEAR ? (k == 0 ? 1 - part : part)
                                            : cubic_weight(part + 1 - (double)k, plan->cubic_a);
        weights[k] = outside && plan->exclude_outside && plan->kind == CUBIC ? 0 : weights[k];
        places[k] = place < 0 ? 0 : place >= axis->in ? axis->in - 1 : place;
        total += weights[k];
    }
    for (uint32_t k = 0; k < count && plan->exclude_outside && total != 0; k++) {
        weights[k] /= total;
    }
    return count;
}

/* x resized along one axis. `indices` and `weights` have room for MAX_TAPS runs of axis->out. */
static kilni_onnx_ref take_taps(kilni_onnx_call *call, const resize_plan *plan, kilni_onnx_ref x,
                                uint32_t at, const resize_axis *axis, int64_t *indices,
                                float *weights)
{
    uint32_t count = 0;
    for (int64_t i = 0; i < axis->out; i++) {
        int64_t places[MAX_TAPS];
        double parts[MAX_TAPS];
        count = taps_of(plan, axis, i, places, parts);
        for (uint32_t k = 0; k < count; k++) {
            indices[k * axis->out + i] = places[k];
            weights[k * axis->out + i] = (float)parts[k];
        }
    }
    int64_t dims[KILN_MAX_RANK] = {axis->out};
    for (uint32_t i = 1; i < x->desc.rank - at; i++) {
        dims[i] = 1;
    }
    kilni_onnx_ref sum = NULL;
    for (uint32_t k = 0; kilni_onnx_ok(call) && k < count; k++) {
        const int64_t *run = indices + k * axis->out;
        kilni_onnx_ref part = kilni_onnx_indexed(
            call, KILN_OP_SELECT, x, kilni_onnx_const_ints(call, run, (uint32_t)axis->out), at);
        if (count > 1) {
            kilni_onnx_ref factor = kilni_onnx_const_data(call, KILN_DTYPE_F32, x->desc.rank - at,
                                                          dims, weights + k * axis->out);
            factor = kilni_onnx_cast(call, factor, x->desc.dtype);
            part = kilni_onnx_binary(call, KILN_OP_MUL, part, factor);
        }
        sum = sum == NULL ? part : kilni_onnx_binary(call, KILN_OP_ADD, sum, part);
    }
    return sum;
}

static kilni_onnx_ref resize_one(kilni_onnx_call *call, const resize_plan *plan, kilni_onnx_ref x,
                                 uint32_t at, const resize_axis *axis)
{
    if (!kilni_onnx_ok(call) || (axis->in == axis->out && axis->scale == 1.0)) {
        return x;
    }
    if (axis->out < 0 || axis->out > MAX_LENGTH || axis->in < 1 || !(axis->scale > 0)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "length %lld from %lld", (long long)axis->out,
                        (long long)axis->in);
        return NULL;
    }
    const int64_t dims[] = {MAX_TAPS, axis->out};
    kilni_onnx_ref indices = kilni_onnx_scratch(call, KILN_DTYPE_I64, 2, dims);
    kilni_onnx_ref weights = kilni_onnx_scratch(call, KILN_DTYPE_F32, 2, dims);
    if (axis->out == 0) {
        return kilni_onnx_slice_axis(call, x, at, 0, 0, 1);
    }
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    return take_taps(call, plan, x, at, axis, indices->owned, weights->owned);
}

// ---- the two operators ------------------------------------------------------

static resize_kind kind_of(kilni_onnx_call *call)
{
    const char *mode = kilni_onnx_attr_text(call, "mode", "nearest");
    if (strcmp(mode, "nearest") == 0) {
        return NEAREST;
    }
    if (strcmp(mode, "linear") == 0 || strcmp(mode, "bilinear") == 0) {
        return LINEAR;
    }
    if (strcmp(mode, "cubic") != 0) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "mode '%s' is not supported", mode);
    }
    return CUBIC;
}

/* Scales, or sizes, of all axes. */
static void resize_axes(kilni_onnx_call *call, const resize_plan *plan, kilni_onnx_ref x,
                        kilni_onnx_ref scales, const kilni_onnx_ints *sizes)
{
    uint32_t rank = x->desc.rank;
    const float *values = scales == NULL ? NULL : kilni_onnx_peek(call, scales);
    bool by_scale = values != NULL && sizes->count == 0;
    int64_t count = by_scale ? kiln_desc_count(&scales->desc) : sizes->count;
    if (!kilni_onnx_ok(call) || count != rank ||
        (by_scale && scales->desc.dtype != KILN_DTYPE_F32)) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "scales or sizes of %lld axes for rank %u",
                        (long long)count, rank);
        return;
    }
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < rank; i++) {
        resize_axis axis = {.in = x->desc.dims[i]};
        float scale = 0;
        if (by_scale) {
            memcpy(&scale, (const char *)values + i * sizeof(scale), sizeof(scale));
            axis.scale = (double)scale;
            double length = floor((double)axis.in * axis.scale);
            axis.out = length >= 0 && length <= MAX_LENGTH ? (int64_t)length : -1;
        } else {
            axis.out = sizes->v[i];
            axis.scale = axis.in > 0 ? (double)axis.out / (double)axis.in : 0;
        }
        x = resize_one(call, plan, x, i, &axis);
    }
    kilni_onnx_out(call, 0, x);
}

void kilni_onnx_op_resize(kilni_onnx_call *call)
{
    bool old = call->version < 11;
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    resize_plan plan = {.kind = kind_of(call)};
    plan.coordinates = kilni_onnx_attr_text(call, "coordinate_transformation_mode",
                                            old ? "asymmetric" : "half_pixel");
    plan.rounding =
        kilni_onnx_attr_text(call, "nearest_mode", old ? "floor" : "round_prefer_floor");
    plan.cubic_a = kilni_onnx_attr_float(call, "cubic_coeff_a", -0.75);
    plan.exclude_outside = kilni_onnx_attr_int(call, "exclude_outside", 0) != 0;
    static const char *const known[] = {"half_pixel", "pytorch_half_pixel", "align_corners",
                                        "asymmetric", "tf_half_pixel_for_nn"};
    bool supported = false;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        supported = supported || strcmp(plan.coordinates, known[i]) == 0;
    }
    if (!supported || kilni_onnx_attr_find(call, "axes") != NULL ||
        kilni_onnx_attr_int(call, "antialias", 0) != 0) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "mode '%s', axes or antialias is not supported",
                        plan.coordinates);
    }
    kilni_onnx_ref scales = kilni_onnx_opt(call, old ? 1 : 2);
    kilni_onnx_ints sizes = kilni_onnx_value_ints(call, kilni_onnx_opt(call, old ? UINT32_MAX : 3));
    if (kilni_onnx_ok(call)) {
        resize_axes(call, &plan, x, scales, &sizes);
    }
}

/* The older operator: scales only (an attribute before version 9, two before 7), from the corner.
 */
void kilni_onnx_op_upsample(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ints none = {.count = 0};
    resize_plan plan = {.kind = kind_of(call), .coordinates = "asymmetric", .rounding = "floor"};
    kilni_onnx_ref scales = kilni_onnx_opt(call, 1);
    const kilni_onnx_attr *attr = kilni_onnx_attr_find(call, "scales");
    if (scales == NULL && attr != NULL && attr->type == KILNI_ONNX_ATTR_FLOATS) {
        const int64_t dims[] = {attr->count};
        scales = kilni_onnx_const_data(call, KILN_DTYPE_F32, 1, dims, attr->floats);
    }
    if (call->version < 7) {
        const int64_t dims[] = {4};
        const float values[] = {1, 1, (float)kilni_onnx_attr_float(call, "height_scale", 1),
                                (float)kilni_onnx_attr_float(call, "width_scale", 1)};
        scales = kilni_onnx_const_data(call, KILN_DTYPE_F32, 1, dims, values);
    }
    if (kilni_onnx_ok(call)) {
        resize_axes(call, &plan, x, scales, &none);
    }
}
