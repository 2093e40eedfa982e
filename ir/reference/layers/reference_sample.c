// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of grid_sample (as PyTorch's) and roi_align (He et al., Mask R-CNN, 2017; as
// ONNX's). Coordinates are computed in the arithmetic of the dtype, f16 and bf16 in f32, each step
// rounded: kernels do the same and so read the same elements. Sums are in double. A coordinate that
// is not a number counts as one before the first element.
#include <math.h>
#include <string.h>

#include "reference_internal.h"

/// In the arithmetic of the type; for + - * / rounding a double once gives the same.
static double rounded(double value, bool narrow)
{
    return narrow ? (double)(float)value : value;
}

// ---- grid_sample ----

typedef struct sampler {
    const char *mode;
    const char *padding;
    double cubic_a;
    bool align;
    bool narrow;
} sampler;

static double from_unit(const sampler *s, double g, int64_t length)
{
    double up = rounded(g + 1, s->narrow);
    if (s->align) {
        return rounded(rounded(up / 2, s->narrow) * (double)(length - 1), s->narrow);
    }
    return rounded(rounded(rounded(up * (double)length, s->narrow) - 1, s->narrow) / 2, s->narrow);
}

static double clipped(double x, int64_t length)
{
    double last = (double)(length - 1);
    return !(x >= 0) ? 0 : x > last ? last : x;
}

static double reflected(const sampler *s, double x, int64_t length)
{
    double low = s->align ? 0 : -0.5;
    double span = s->align ? (double)(length - 1) : (double)length;
    if (span == 0) {
        return 0;
    }
    x = fabs(rounded(x - low, s->narrow));
    double extra = fmod(x, span);
    double flips = floor(rounded(x / span, s->narrow));
    double y = fmod(flips, 2) == 0 ? extra : rounded(span - extra, s->narrow);
    return clipped(rounded(y + low, s->narrow), length);
}

static double padded(const sampler *s, double x, int64_t length)
{
    const double far = 16777216;
    if (s->padding[0] == 'b') {
        return clipped(x, length);
    }
    if (s->padding[0] == 'r') {
        return reflected(s, x, length);
    }
    return !(x >= -far) ? -far : x > far ? far : x;
}

typedef struct axis_taps {
    uint32_t count;
    int64_t places[4]; ///< -1: outside
    double weights[4];
} axis_taps;

static double cubic(double d, double a)
{
    d = fabs(d);
    return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

static int64_t inside(double x, int64_t length)
{
    return x >= 0 && x < (double)length ? (int64_t)x : -1;
}

static void taps_at(const sampler *s, double g, int64_t length, axis_taps *t)
{
    const double far = 16777216;
    double x = from_unit(s, g, length);
    *t = (axis_taps){.count = 1, .weights = {1}};
    if (s->mode[0] == 'c') {
        x = !(x >= -far) ? -far : x > far ? far : x;
        double base = floor(x);
        t->count = 4;
        for (int k = 0; k < 4; k++) {
            t->weights[k] = cubic(x - base + 1 - k, s->cubic_a);
            t->places[k] = inside(padded(s, rounded(base + k - 1, s->narrow), length), length);
        }
        return;
    }
    x = padded(s, x, length);
    if (s->mode[0] == 'n') {
        t->places[0] = inside(rint(x), length);
        return;
    }
    t->count = 2;
    t->places[0] = inside(floor(x), length);
    t->places[1] = inside(floor(x) + 1, length);
    t->weights[1] = x - floor(x);
    t->weights[0] = 1 - t->weights[1];
}

kiln_status kiln_ref_grid_sample(const kiln_op_record *call, const kiln_view *inputs,
                                 const kiln_view *outputs, kiln_error *err)
{
    kiln_view x = kilni_ref_planes(&inputs[0]);
    kiln_view y = kilni_ref_planes(&outputs[0]);
    const kiln_view *grid = &inputs[1];
    const sampler s = {.mode = kilni_ir_text(call, KILN_KEY_MODE),
                       .padding = kilni_ir_text(call, KILN_KEY_PADDING_MODE),
                       .cubic_a = kiln_op_attr_f64(call, KILN_KEY_CUBIC_A),
                       .align = kiln_op_attr_i64(call, KILN_KEY_ALIGN_CORNERS) != 0,
                       .narrow = x.dtype != KILN_DTYPE_F64};
    uint32_t axes = inputs[0].rank - 2;
    kilni_ref_walk walk;
    (void)err;
    kilni_ref_walk_init(&walk, y.dims, y.rank);
    kilni_ref_walk_add(&walk, &y);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        axis_taps taps[KILNI_IR_SPATIAL];
        double sum = 0;
        int64_t at[KILN_MAX_RANK] = {walk.index[0]};
        memcpy(&at[1], &walk.index[2 + KILNI_IR_SPATIAL - axes], axes * sizeof(at[0]));
        for (uint32_t i = 0; i < KILNI_IR_SPATIAL; i++) {
            taps[i] = (axis_taps){.count = 1, .weights = {1}};
            if (i >= KILNI_IR_SPATIAL - axes) {
                at[1 + axes] = KILNI_IR_SPATIAL - 1 - i;
                double g = kilni_ref_load(grid, kilni_ref_offset(grid, at)).f;
                taps_at(&s, g, x.dims[2 + i], &taps[i]);
            }
        }
        for (uint32_t k = 0; k < taps[0].count * taps[1].count * taps[2].count; k++) {
            const uint32_t j[] = {k / taps[2].count / taps[1].count,
                                  k / taps[2].count % taps[1].count, k % taps[2].count};
            const int64_t place[] = {taps[0].places[j[0]], taps[1].places[j[1]],
                                     taps[2].places[j[2]]};
            double weight = taps[0].weights[j[0]] * taps[1].weights[j[1]] * taps[2].weights[j[2]];
            if (weight != 0 && place[0] >= 0 && place[1] >= 0 && place[2] >= 0) {
                sum += weight * kilni_ref_at(&x, walk.index[0], walk.index[1], place);
            }
        }
        kilni_ref_store(&y, walk.at[0], kilni_ref_of_float(sum));
    }
    return KILN_STATUS_OK;
}

// ---- roi_align ----

typedef struct box_axis { ///< of one box along one axis
    double start;
    double bin;
    int64_t samples; ///< of a bin
} box_axis;

typedef struct aligner {
    double scale;
    int64_t ratio;
    bool half_pixel;
    bool max;
    bool narrow;
} aligner;

static box_axis box_axis_of(const aligner *a, double from, double to, int64_t bins, int64_t length)
{
    bool n = a->narrow;
    double offset = a->half_pixel ? 0.5 : 0;
    double start = rounded(rounded(from * a->scale, n) - offset, n);
    double end = rounded(rounded(to * a->scale, n) - offset, n);
    double size = rounded(end - start, n);
    if (!a->half_pixel && !(size >= 1)) {
        size = 1;
    }
    box_axis axis = {.start = start, .bin = rounded(size / (double)bins, n), .samples = a->ratio};
    if (a->ratio == 0) {
        double wanted = ceil(axis.bin);
        axis.samples = !(wanted > 0) ? 0 : wanted > (double)length ? length : (int64_t)wanted;
    }
    return axis;
}

/// The two elements around a sample and the weight of the second; false outside.
static bool around(const aligner *a, const box_axis *axis, int64_t bin, int64_t sample,
                   int64_t length, int64_t out_places[2], double *out_weight)
{
    bool n = a->narrow;
    double part = rounded(rounded((double)sample + 0.5, n) * axis->bin, n);
    part = rounded(part / (double)axis->samples, n);
    double at = rounded(rounded(axis->start + rounded((double)bin * axis->bin, n), n) + part, n);
    if (!(at >= -1) || at > (double)length) {
        return false;
    }
    at = at > 0 ? at : 0;
    out_places[0] = (int64_t)at;
    out_places[1] = out_places[0] + 1;
    *out_weight = at - (double)out_places[0];
    if (out_places[0] >= length - 1) {
        out_places[0] = out_places[1] = length - 1;
        *out_weight = 0;
    }
    return true;
}

/// Adds one sample: its sum of four weighted elements, or each of them to the largest.
static void add_sample(const aligner *a, const kiln_view *x, const int64_t *index, int64_t rows[2],
                       int64_t columns[2], double down, double along, double *value, bool *any)
{
    for (int k = 0; k < 4; k++) {
        const int64_t at[] = {index[0], index[1], rows[k / 2], columns[k % 2]};
        double weight = (k / 2 == 0 ? 1 - down : down) * (k % 2 == 0 ? 1 - along : along);
        double term = weight * kilni_ref_load(x, kilni_ref_offset(x, at)).f;
        if (!a->max) {
            *value += term;
        } else if (!*any || term > *value || isnan(term)) {
            *value = term;
            *any = true;
        }
    }
}

static double bin_value(const aligner *a, const kiln_view *x, const int64_t *index,
                        const box_axis axes[2], int64_t row, int64_t column)
{
    double value = 0;
    bool any = false;
    for (int64_t i = 0; i < axes[0].samples; i++) {
        for (int64_t j = 0; j < axes[1].samples; j++) {
            int64_t rows[2];
            int64_t columns[2];
            double down = 0;
            double along = 0;
            if (around(a, &axes[0], row, i, x->dims[2], rows, &down) &&
                around(a, &axes[1], column, j, x->dims[3], columns, &along)) {
                add_sample(a, x, index, rows, columns, down, along, &value, &any);
            } else if (a->max && (!any || value < 0)) {
                value = 0;
                any = true;
            }
        }
    }
    int64_t count = axes[0].samples * axes[1].samples;
    return a->max || count == 0 ? value : value / (double)count;
}

kiln_status kiln_ref_roi_align(const kiln_op_record *call, const kiln_view *inputs,
                               const kiln_view *outputs, kiln_error *err)
{
    const kiln_view *x = &inputs[0];
    const kiln_view *boxes = &inputs[1];
    const kiln_view *y = &outputs[0];
    bool narrow = x->dtype != KILN_DTYPE_F64;
    const aligner a = {
        .scale = rounded(kiln_op_attr_f64(call, KILN_KEY_SPATIAL_SCALE), narrow),
        .ratio = kiln_op_attr_i64(call, KILN_KEY_SAMPLING_RATIO),
        .half_pixel = kilni_ir_text(call, KILN_KEY_COORDINATES)[0] == 'h',
        .max = kilni_ir_text(call, KILN_KEY_MODE)[0] == 'm',
        .narrow = narrow,
    };
    kilni_ref_walk walk;
    (void)err;
    kilni_ref_walk_init(&walk, y->dims, 4);
    kilni_ref_walk_add(&walk, y);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        double box[4];
        int64_t n = kilni_ref_load(&inputs[2], walk.index[0] * inputs[2].strides[0]).i;
        for (int64_t k = 0; k < 4; k++) {
            const int64_t at[] = {walk.index[0], k};
            box[k] = kilni_ref_load(boxes, kilni_ref_offset(boxes, at)).f;
        }
        n = n < 0 ? 0 : n < x->dims[0] ? n : x->dims[0] - 1;
        const int64_t index[] = {n, walk.index[1]};
        const box_axis axes[] = {box_axis_of(&a, box[1], box[3], y->dims[2], x->dims[2]),
                                 box_axis_of(&a, box[0], box[2], y->dims[3], x->dims[3])};
        kilni_ref_store(
            y, walk.at[0],
            kilni_ref_of_float(bin_value(&a, x, index, axes, walk.index[2], walk.index[3])));
    }
    return KILN_STATUS_OK;
}
