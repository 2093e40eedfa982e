// SPDX-License-Identifier: MIT OR Apache-2.0
// Interpolation along one axis: which elements of the input an element of the result sums, and with
// which weights. Decides the coordinates and filters: those of ONNX's Resize, which include
// PyTorch's and TensorFlow's (ONNX operator documentation, version 19; cubic: Keys, 1981). An
// element of weight 0 is not read. The evaluator, the kernels' launcher and the importer use this.
#include <math.h>
#include <string.h>

#include "ir_resample.h"
#include "shape_internal.h"

enum { NEAREST_FLOOR, NEAREST_CEIL, NEAREST_DOWN, NEAREST_UP, LINEAR, CUBIC, LANCZOS };
static const char *const kind_names[] = {"nearest_floor", "nearest_ceil", "nearest", "nearest_up",
                                         "linear",        "cubic",        "lanczos3"};

enum {
    HALF_PIXEL,
    HALF_PIXEL_SYMMETRIC,
    PYTORCH_HALF_PIXEL,
    ALIGN_CORNERS,
    ASYMMETRIC,
    TF_HALF_PIXEL_FOR_NN,
    TF_CROP_AND_RESIZE
};
static const char *const coordinate_names[] = {
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
    "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};

static int find_name(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/// Value of a list that speaks of the last axes.
static double list_value(const kiln_op_record *call, kiln_attr_key key, uint32_t end, uint32_t axis,
                         uint32_t count_each, uint32_t which, double fallback)
{
    const kiln_attr *list = kiln_op_attr(call, key);
    uint32_t count = list->type == KILN_ATTR_F64_LIST ? list->count / count_each : 0;
    return axis + count < end ? fallback : list->v.floats[which * count + axis + count - end];
}

static double filter(const kiln_resample *r, double distance)
{
    const double pi = 3.14159265358979323846;
    double d = fabs(distance);
    double a = r->cubic_a;
    if (r->kind == LINEAR) {
        return d < 1 ? 1 - d : 0;
    }
    if (r->kind == CUBIC) {
        return d <= 1  ? ((a + 2) * d - (a + 3)) * d * d + 1
               : d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
                       : 0;
    }
    return d == 0 ? 1 : d < 3 ? 3 * sin(pi * d) * sin(pi * d / 3) / (pi * pi * d * d) : 0;
}

static void footprint(kiln_resample *r)
{
    static const double support[] = {0, 0, 0, 0, 1, 2, 3};
    r->stretch = r->antialias && r->scale < 1 ? r->scale : 1;
    r->first = 0;
    r->taps = 1;
    if (r->kind >= LINEAR && r->out > 0) { /* of no elements the scale may be anything */
        r->first = (int64_t)floor(-support[r->kind] / r->stretch) + 1;
        r->taps = 2 - 2 * r->first;
    }
}

kiln_status kiln_ir_resample(const kiln_op_record *call, uint32_t rank, uint32_t axis, int64_t in,
                             int64_t out, kiln_resample *out_axis, kiln_error *err)
{
    const double least = 1e-6;
    kiln_resample r = {.in = in, .out = out};
    r.kind = find_name(kilni_ir_text(call, KILN_KEY_MODE), kind_names,
                       sizeof(kind_names) / sizeof(kind_names[0]));
    r.coordinates = find_name(kilni_ir_text(call, KILN_KEY_COORDINATES), coordinate_names,
                              sizeof(coordinate_names) / sizeof(coordinate_names[0]));
    r.cubic_a = kiln_op_attr_f64(call, KILN_KEY_CUBIC_A);
    r.exclude_outside = kiln_op_attr_i64(call, KILN_KEY_EXCLUDE_OUTSIDE) != 0;
    r.antialias = kiln_op_attr_i64(call, KILN_KEY_ANTIALIAS) != 0;
    r.scale = list_value(call, KILN_KEY_SCALES, rank, axis, 1, 0, 0);
    r.start = list_value(call, KILN_KEY_REGION, rank, axis, 2, 0, 0);
    r.end = list_value(call, KILN_KEY_REGION, rank, axis, 2, 1, 1);
    if (r.kind < 0 || r.coordinates < 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: mode '%s' with coordinates '%s' is not known",
                         kilni_ir_op_name(call), kilni_ir_text(call, KILN_KEY_MODE),
                         kilni_ir_text(call, KILN_KEY_COORDINATES));
    }
    if (r.scale == 0 && in > 0) {
        r.scale = (double)out / (double)in;
    }
    if (out < 0 || (out > 0 && (in < 1 || !(r.scale >= least && r.scale <= 1 / least))) ||
        !isfinite(r.start) || !isfinite(r.end) || !isfinite(r.cubic_a)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s: a length of %lld from %lld with scale %g is not possible",
                         kilni_ir_op_name(call), (long long)out, (long long)in, r.scale);
    }
    r.identity = in == out && r.scale == 1 && r.coordinates < TF_HALF_PIXEL_FOR_NN;
    footprint(&r);
    *out_axis = r;
    return KILN_STATUS_OK;
}

double kiln_resample_place(const kiln_resample *r, int64_t i)
{
    double x = (double)i;
    double in = (double)r->in;
    double length = in * r->scale; // before it was rounded: ONNX's own cases have it so
    switch (r->coordinates) {
    case ASYMMETRIC:
        return x / r->scale;
    case ALIGN_CORNERS:
        return length <= 1 ? 0 : x * (in - 1) / (length - 1);
    case TF_HALF_PIXEL_FOR_NN:
        return (x + 0.5) / r->scale;
    case TF_CROP_AND_RESIZE:
        return r->out > 1
                   ? r->start * (in - 1) + x * (r->end - r->start) * (in - 1) / (double)(r->out - 1)
                   : 0.5 * (r->start + r->end) * (in - 1);
    case HALF_PIXEL_SYMMETRIC:
        return in / 2 * (1 - (double)r->out / length) + (x + 0.5) / r->scale - 0.5;
    case PYTORCH_HALF_PIXEL:
        return r->out > 1 ? (x + 0.5) / r->scale - 0.5 : 0;
    default:
        return (x + 0.5) / r->scale - 0.5;
    }
}

static int64_t nearest(const kiln_resample *r, double x, int64_t base, double part)
{
    switch (r->kind) {
    case NEAREST_FLOOR:
        return (int64_t)floor(x);
    case NEAREST_CEIL:
        return (int64_t)ceil(x);
    case NEAREST_DOWN:
        return part <= 0.5 ? base : base + 1;
    default:
        return part < 0.5 ? base : base + 1;
    }
}

static double weight_of(const kiln_resample *r, const kiln_resample_taps *t, int64_t k)
{
    int64_t place = t->first + k;
    bool outside = place < 0 || place >= r->in;
    return outside && r->exclude_outside
               ? 0
               : filter(r, ((double)(r->first + k) - t->part) * r->stretch);
}

void kiln_resample_begin(const kiln_resample *r, int64_t i, kiln_resample_taps *out_taps)
{
    // Beyond these places the edge is all that is seen, whatever the part.
    double reach = (double)r->taps + 1;
    double x = fmin(fmax(kiln_resample_place(r, i), -reach), (double)r->in + reach);
    int64_t base = (int64_t)ceil(x) - 1; // the left neighbour: part is in (0, 1]
    kiln_resample_taps t = {.part = x - (double)base, .first = base + r->first, .total = 1};
    if (r->kind < LINEAR) {
        t.first = nearest(r, x, base, t.part);
    } else if (r->exclude_outside || r->stretch < 1 || r->kind == LANCZOS) {
        double total = 0;
        for (int64_t k = 0; k < r->taps; k++) {
            total += weight_of(r, &t, k);
        }
        t.total = total != 0 ? total : 1;
    }
    *out_taps = t;
}

double kiln_resample_tap(const kiln_resample *r, const kiln_resample_taps *t, int64_t k,
                         int64_t *out_place)
{
    int64_t place = t->first + k;
    *out_place = place < 0 ? 0 : place < r->in ? place : r->in - 1;
    return r->kind < LINEAR ? 1 : weight_of(r, t, k) / t->total;
}

// ---- shapes ----

static bool list_fits(const kiln_op_record *call, kiln_attr_key key, uint32_t most, uint32_t each)
{
    const kiln_attr *list = kiln_op_attr(call, key);
    uint32_t count = list->type == KILN_ATTR_F64_LIST ? list->count : 0;
    return count % each == 0 && count / each <= most;
}

static kiln_status check_resized_axes(const kiln_op_record *call, const kiln_tensor_desc *x,
                                      const kiln_tensor_desc *y, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    if (!list_fits(call, KILN_KEY_SCALES, x->rank, 1) ||
        !list_fits(call, KILN_KEY_REGION, x->rank, 2)) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: scales or region for more than %u axes",
                         kilni_ir_op_name(call), x->rank);
    }
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < x->rank; i++) {
        kiln_resample axis;
        status = kiln_ir_resample(call, x->rank, i, x->dims[i], y->dims[i], &axis, err);
    }
    return status;
}

kiln_status kiln_shape_interpolate(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                   kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    uint32_t count = 0;
    const int64_t *size = kilni_ir_ints(call, KILN_KEY_OUTPUT_SIZE, &count);
    if (count > x->rank) {
        return kiln_fail(err, INVALID_ARGUMENT, "interpolate: %u lengths for a rank of %u", count,
                         x->rank);
    }
    outputs[0].rank = x->rank;
    memcpy(outputs[0].dims, x->dims, sizeof(x->dims));
    for (uint32_t i = 0; i < count; i++) {
        outputs[0].dims[x->rank - count + i] = size[i];
    }
    return check_resized_axes(call, x, &outputs[0], err);
}

kiln_status kiln_shape_interpolate_backward(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                            kiln_error *err)
{
    const kiln_tensor_desc *grad = &call->inputs[0];
    uint32_t count = 0;
    const int64_t *shape = kilni_ir_ints(call, KILN_KEY_SHAPE, &count);
    if (count != grad->rank) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "interpolate_backward: a shape of rank %u for a gradient of rank %u",
                         count, grad->rank);
    }
    outputs[0].rank = grad->rank;
    for (uint32_t i = 0; i < count; i++) {
        outputs[0].dims[i] = shape[i];
        if (shape[i] < 0) {
            return kiln_fail(err, INVALID_ARGUMENT, "interpolate_backward: a length is negative");
        }
    }
    return check_resized_axes(call, &outputs[0], grad, err);
}
