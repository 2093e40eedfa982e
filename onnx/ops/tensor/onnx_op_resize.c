// SPDX-License-Identifier: MIT OR Apache-2.0
// Resize and Upsample as interpolate. Decides what scales, sizes, axes and the policies of aspect
// ratio mean in lengths. Elements that are no floats are taken by index (nearest) or go through
// f32; what tf_crop_and_resize sees outside the input is filled afterwards.
#include "ir_resample.h"
#include "onnx_import.h"

#include <math.h>
#include <string.h>

enum { MAX_LENGTH = 1 << 20, RESIZE_ATTRS = 8 };

typedef struct resize_plan {
    const char *mode;
    const char *coordinates;
    double cubic_a;
    bool exclude_outside;
    bool antialias;
    double extrapolation;
    uint32_t n_axes; ///< that scales, sizes and region speak of
    uint32_t axes[KILN_MAX_RANK];
    int64_t out[KILN_MAX_RANK]; ///< of all axes
    double scales[KILN_MAX_RANK];
    double region[2 * KILN_MAX_RANK];
} resize_plan;

/// The mode by our name: the rounding of nearest is part of it.
static const char *resize_mode(kilni_onnx_call *call, const char *rounding)
{
    static const char *const names[][2] = {{"round_prefer_floor", "nearest"},
                                           {"round_prefer_ceil", "nearest_up"},
                                           {"floor", "nearest_floor"},
                                           {"ceil", "nearest_ceil"}};
    const char *mode = kilni_onnx_attr_text(call, "mode", "nearest");
    if (strcmp(mode, "linear") == 0 || strcmp(mode, "bilinear") == 0) {
        return "linear";
    }
    for (size_t i = 0; strcmp(mode, "nearest") == 0 && i < 4; i++) {
        if (strcmp(rounding, names[i][0]) == 0) {
            return names[i][1];
        }
    }
    return mode; // "cubic", or a name that interpolate refuses
}

static void plan_init(kilni_onnx_call *call, const kiln_tensor_desc *x, resize_plan *plan)
{
    kilni_onnx_ints axes;
    *plan = (resize_plan){.n_axes = x->rank};
    bool given = kilni_onnx_attr_ints(call, "axes", &axes);
    plan->n_axes = given ? axes.count : x->rank;
    for (uint32_t i = 0; i < x->rank; i++) {
        plan->axes[i] = i;
        plan->out[i] = x->dims[i];
        plan->scales[i] = 1;
        plan->region[x->rank + i] = 1;
    }
    if (given && axes.count > x->rank) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%u axes for rank %u", axes.count, x->rank);
    }
    for (uint32_t i = 0; given && kilni_onnx_ok(call) && i < axes.count; i++) {
        plan->axes[i] = kilni_onnx_axis(call, axes.v[i], x->rank);
    }
}

/// Element i of a float input; f16, f32 and f64 are possible.
static double host_float(const void *values, kiln_dtype dtype, uint32_t i)
{
    const char *at = (const char *)values + i * kiln_dtype_size(dtype);
    double wide = 0;
    float narrow = 0;
    uint16_t half = 0;
    if (dtype == KILN_DTYPE_F64) {
        memcpy(&wide, at, sizeof(wide));
        return wide;
    }
    if (dtype == KILN_DTYPE_F32) {
        memcpy(&narrow, at, sizeof(narrow));
        return (double)narrow;
    }
    memcpy(&half, at, sizeof(half));
    return (double)kiln_f16_to_f32(half);
}

static bool read_floats(kilni_onnx_call *call, kilni_onnx_ref value, uint32_t count, double *out)
{
    const void *values = value == NULL ? NULL : kilni_onnx_host(call, value);
    if (values == NULL || kiln_desc_count(&value->desc) == 0) {
        return false;
    }
    if (!kilni_onnx_is_float(value) || kiln_desc_count(&value->desc) != count) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%lld numbers of %s where %u floats belong",
                        (long long)kiln_desc_count(&value->desc),
                        kiln_dtype_name(value->desc.dtype), count);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        out[i] = host_float(values, value->desc.dtype, i);
    }
    return kilni_onnx_ok(call);
}

static void set_scales(kilni_onnx_call *call, const kiln_tensor_desc *x, const double *scales,
                       resize_plan *plan)
{
    bool crop = strcmp(plan->coordinates, "tf_crop_and_resize") == 0;
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < plan->n_axes; i++) {
        uint32_t axis = plan->axes[i];
        double part = crop ? plan->region[x->rank + axis] - plan->region[axis] : 1;
        double length = floor((double)x->dims[axis] * part * scales[i]);
        plan->scales[axis] = scales[i];
        plan->out[axis] = length >= 0 && length <= MAX_LENGTH ? (int64_t)length : -1;
    }
}

/// Lengths as given, or with one scale for all axes: the smallest or the largest that they say.
static void set_sizes(kilni_onnx_call *call, const kiln_tensor_desc *x,
                      const kilni_onnx_ints *sizes, resize_plan *plan)
{
    const char *policy = kilni_onnx_attr_text(call, "keep_aspect_ratio_policy", "stretch");
    bool stretch = strcmp(policy, "stretch") == 0;
    bool larger = strcmp(policy, "not_smaller") == 0;
    double common = larger ? 0 : HUGE_VAL;
    if (kilni_onnx_ok(call) && sizes->count != plan->n_axes) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%u sizes for %u axes", sizes->count, plan->n_axes);
    }
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < plan->n_axes; i++) {
        double length = (double)x->dims[plan->axes[i]];
        double scale = length > 0 ? (double)sizes->v[i] / length : 0;
        common = larger ? fmax(common, scale) : fmin(common, scale);
        plan->out[plan->axes[i]] = sizes->v[i];
        plan->scales[plan->axes[i]] = scale;
    }
    for (uint32_t i = 0; !stretch && kilni_onnx_ok(call) && i < plan->n_axes; i++) {
        double length = floor(common * (double)x->dims[plan->axes[i]] + 0.5);
        plan->scales[plan->axes[i]] = common;
        plan->out[plan->axes[i]] = length <= MAX_LENGTH ? (int64_t)length : -1;
    }
}

static void plan_attrs(const resize_plan *plan, uint32_t rank, kiln_attr attrs[RESIZE_ATTRS])
{
    attrs[0] = kilni_attr_ints(plan->out, rank);
    attrs[1] = (kiln_attr){KILN_ATTR_STRING, (uint32_t)strlen(plan->mode), {.text = plan->mode}};
    attrs[2] = (kiln_attr){
        KILN_ATTR_STRING, (uint32_t)strlen(plan->coordinates), {.text = plan->coordinates}};
    attrs[3] = (kiln_attr){KILN_ATTR_F64_LIST, rank, {.floats = plan->scales}};
    attrs[4] = (kiln_attr){KILN_ATTR_F64_LIST, 2 * rank, {.floats = plan->region}};
    attrs[5] = kilni_attr_f64(plan->cubic_a);
    attrs[6] = kilni_attr_bool(plan->exclude_outside);
    attrs[7] = kilni_attr_bool(plan->antialias);
}

static bool read_axis(kilni_onnx_call *call, const kiln_attr *attrs, const kiln_tensor_desc *x,
                      const resize_plan *plan, uint32_t axis, kiln_resample *out_axis)
{
    const kiln_op_record record = {
        .op = KILN_OP_INTERPOLATE, .n_attrs = RESIZE_ATTRS, .attrs = attrs};
    if (kilni_onnx_ok(call)) {
        call->status = kiln_ir_resample(&record, x->rank, axis, x->dims[axis], plan->out[axis],
                                        out_axis, call->err);
    }
    return kilni_onnx_ok(call);
}

/// Elements of any type by their nearest places, axis after axis.
static kilni_onnx_ref take_nearest(kilni_onnx_call *call, kilni_onnx_ref x, const kiln_attr *attrs,
                                   const resize_plan *plan)
{
    const kiln_tensor_desc shape = x->desc;
    for (uint32_t axis = 0; axis < shape.rank; axis++) {
        kiln_resample r;
        if (!read_axis(call, attrs, &shape, plan, axis, &r) || r.identity) {
            continue;
        }
        kilni_onnx_ref indices = kilni_onnx_scratch(call, KILN_DTYPE_I64, 1, &r.out);
        int64_t *places = kilni_onnx_ok(call) ? indices->owned : NULL;
        for (int64_t i = 0; places != NULL && i < r.out; i++) {
            kiln_resample_taps taps;
            kiln_resample_begin(&r, i, &taps);
            (void)kiln_resample_tap(&r, &taps, 0, &places[i]);
        }
        x = kilni_onnx_indexed(call, KILN_OP_SELECT, x, indices, axis);
    }
    return x;
}

/// The value for what lies outside the input, along every axis.
static kilni_onnx_ref extrapolate(kilni_onnx_call *call, kilni_onnx_ref y, const kiln_attr *attrs,
                                  const kiln_tensor_desc *x, const resize_plan *plan)
{
    for (uint32_t axis = 0; kilni_onnx_ok(call) && axis < x->rank; axis++) {
        kiln_resample r;
        int64_t dims[KILN_MAX_RANK] = {plan->out[axis], 1, 1, 1, 1, 1, 1, 1};
        if (!read_axis(call, attrs, x, plan, axis, &r)) {
            break;
        }
        kilni_onnx_ref mask = kilni_onnx_scratch(call, KILN_DTYPE_BOOL, x->rank - axis, dims);
        uint8_t *outside = kilni_onnx_ok(call) ? mask->owned : NULL;
        bool any = false;
        for (int64_t i = 0; outside != NULL && i < r.out; i++) {
            double place = kiln_resample_place(&r, i);
            outside[i] = place < 0 || place > (double)(r.in - 1) ? 1 : 0;
            any = any || outside[i] != 0;
        }
        y = any ? kilni_onnx_mask_fill(call, y, mask, plan->extrapolation) : y;
    }
    return y;
}

static void resize(kilni_onnx_call *call, kilni_onnx_ref x, const resize_plan *plan)
{
    kiln_attr attrs[RESIZE_ATTRS];
    uint32_t rank = x->desc.rank;
    kilni_onnx_ref y = NULL;
    for (uint32_t i = 0; i < rank; i++) {
        if (plan->out[i] < 0 || plan->out[i] > MAX_LENGTH) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "length %lld from %lld",
                            (long long)plan->out[i], (long long)x->desc.dims[i]);
        }
    }
    plan_attrs(plan, rank, attrs);
    if (kilni_onnx_is_float(x)) {
        y = kilni_onnx_emit(call, KILN_OP_INTERPOLATE, &x, 1, attrs, RESIZE_ATTRS);
    } else if (strncmp(plan->mode, "nearest", 7) == 0) {
        y = take_nearest(call, x, attrs, plan);
    } else {
        y = kilni_onnx_cast(call, x, KILN_DTYPE_F32);
        y = kilni_onnx_emit(call, KILN_OP_INTERPOLATE, &y, 1, attrs, RESIZE_ATTRS);
        y = kilni_onnx_ok(call) ? kilni_onnx_cast(call, y, x->desc.dtype) : NULL;
    }
    if (kilni_onnx_ok(call) && strcmp(plan->coordinates, "tf_crop_and_resize") == 0) {
        y = extrapolate(call, y, attrs, &x->desc, plan);
    }
    kilni_onnx_out(call, 0, y);
}

void kilni_onnx_op_resize(kilni_onnx_call *call)
{
    bool old = call->version < 11;
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    resize_plan plan;
    double region[2 * KILN_MAX_RANK];
    double scales[KILN_MAX_RANK];
    if (!kilni_onnx_ok(call)) {
        return;
    }
    plan_init(call, &x->desc, &plan);
    plan.coordinates = kilni_onnx_attr_text(call, "coordinate_transformation_mode",
                                            old ? "asymmetric" : "half_pixel");
    plan.mode = resize_mode(
        call, kilni_onnx_attr_text(call, "nearest_mode", old ? "floor" : "round_prefer_floor"));
    plan.cubic_a = kilni_onnx_attr_float(call, "cubic_coeff_a", -0.75);
    plan.exclude_outside = kilni_onnx_attr_int(call, "exclude_outside", 0) != 0;
    plan.antialias = kilni_onnx_attr_int(call, "antialias", 0) != 0;
    plan.extrapolation = kilni_onnx_attr_float(call, "extrapolation_value", 0);
    bool crop = strcmp(plan.coordinates, "tf_crop_and_resize") == 0;
    if (kilni_onnx_ok(call) && crop &&
        read_floats(call, kilni_onnx_opt(call, 1), 2 * plan.n_axes, region)) {
        for (uint32_t i = 0; i < plan.n_axes; i++) {
            plan.region[plan.axes[i]] = region[i];
            plan.region[x->desc.rank + plan.axes[i]] = region[plan.n_axes + i];
        }
    }
    kilni_onnx_ref sizes = old ? NULL : kilni_onnx_opt(call, 3);
    kilni_onnx_ints lengths = kilni_onnx_value_ints(call, sizes);
    if (lengths.count > 0) {
        set_sizes(call, &x->desc, &lengths, &plan);
    } else if (read_floats(call, kilni_onnx_opt(call, old ? 1 : 2), plan.n_axes, scales)) {
        set_scales(call, &x->desc, scales, &plan);
    } else {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "neither scales nor sizes");
    }
    if (kilni_onnx_ok(call)) {
        resize(call, x, &plan);
    }
}

/// The older operator: scales only (attributes before version 9), from the corner.
void kilni_onnx_op_upsample(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    resize_plan plan;
    double scales[KILN_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    const kilni_onnx_attr *attr = kilni_onnx_attr_find(call, "scales");
    if (!kilni_onnx_ok(call)) {
        return;
    }
    plan_init(call, &x->desc, &plan);
    plan.coordinates = "asymmetric";
    plan.mode = resize_mode(call, "floor");
    plan.cubic_a = -0.75;
    if (call->version < 7 && x->desc.rank == 4) {
        scales[2] = kilni_onnx_attr_float(call, "height_scale", 1);
        scales[3] = kilni_onnx_attr_float(call, "width_scale", 1);
    } else if (attr != NULL && attr->type == KILNI_ONNX_ATTR_FLOATS &&
               attr->count == x->desc.rank) {
        for (uint32_t i = 0; i < attr->count; i++) {
            scales[i] = (double)attr->floats[i];
        }
    } else if (!read_floats(call, kilni_onnx_opt(call, 1), plan.n_axes, scales)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "no scales for rank %u", x->desc.rank);
    }
    if (kilni_onnx_ok(call)) {
        set_scales(call, &x->desc, scales, &plan);
        resize(call, x, &plan);
    }
}
