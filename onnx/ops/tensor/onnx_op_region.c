// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's operators on regions of images: crops and paddings about the middle, affine grids, and the
// largest elements of regions. Decides that the regions of MaxRoiPool are host numbers: they are
// read, and become slices.
#include "onnx_import.h"

#include <math.h>
#include <string.h>

// ---- CenterCropPad ----

/// An odd element more stands, or goes, at the end.
static kilni_onnx_ref fit_axis(kilni_onnx_call *call, kilni_onnx_ref x, uint32_t axis,
                               int64_t length)
{
    int64_t padding[2 * KILN_MAX_RANK] = {0};
    if (!kilni_onnx_ok(call) || length < 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "length %lld", (long long)length);
        return NULL;
    }
    int64_t own = x->desc.dims[axis];
    if (length <= own) {
        int64_t start = (own - length) / 2;
        return kilni_onnx_slice_axis(call, x, axis, start, start + length, 1);
    }
    padding[axis] = (length - own) / 2;
    padding[x->desc.rank + axis] = length - own - padding[axis];
    return kilni_onnx_pad(call, x, padding, "constant",
                          kilni_onnx_is_float(x) ? kiln_f64(0) : kiln_i64(0));
}

void kilni_onnx_op_center_crop_pad(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ints lengths = kilni_onnx_value_ints(call, kilni_onnx_in(call, 1));
    kilni_onnx_ints axes = {.count = 0};
    bool some = kilni_onnx_attr_ints(call, "axes", &axes);
    if (kilni_onnx_ok(call) && lengths.count != (some ? axes.count : x->desc.rank)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%u lengths for %u axes", lengths.count,
                        some ? axes.count : x->desc.rank);
    }
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < lengths.count; i++) {
        uint32_t axis = kilni_onnx_axis(call, some ? axes.v[i] : i, x->desc.rank);
        x = fit_axis(call, x, axis, lengths.v[i]);
    }
    kilni_onnx_out(call, 0, x);
}

// ---- AffineGrid ----

/// Positions between -1 and 1 along one axis, over all points: of the first and last element, or of
/// their middles.
static kilni_onnx_ref positions(kilni_onnx_call *call, kiln_dtype dtype, const int64_t *dims,
                                uint32_t rank, uint32_t axis, bool corners)
{
    int64_t line[KILN_MAX_RANK];
    int64_t length = dims[axis];
    double step = corners ? (length > 1 ? 2.0 / (double)(length - 1) : 0) : 2.0 / (double)length;
    double start = corners ? -1 : step / 2 - 1;
    for (uint32_t i = 0; i < rank; i++) {
        line[i] = i == axis ? length : 1;
    }
    kilni_onnx_ref places = kilni_onnx_arange(call, dtype, length, kiln_f64(start), kiln_f64(step));
    places = kilni_onnx_reshape(call, places, line, rank);
    places = kilni_onnx_expand(call, places, dims, rank);
    const int64_t column[] = {kilni_onnx_ok(call) ? kiln_desc_count(&places->desc) : 0, 1};
    return kilni_onnx_reshape(call, places, column, 2);
}

void kilni_onnx_op_affine_grid(kilni_onnx_call *call)
{
    kilni_onnx_ref theta = kilni_onnx_in(call, 0);
    kilni_onnx_ints size = kilni_onnx_value_ints(call, kilni_onnx_in(call, 1));
    bool corners = kilni_onnx_attr_int(call, "align_corners", 0) != 0;
    uint32_t rank = size.count - 2;
    bool fits = kilni_onnx_ok(call) && (rank == 2 || rank == 3) && theta->desc.rank == 3 &&
                theta->desc.dims[0] == size.v[0] && theta->desc.dims[1] == (int64_t)rank &&
                theta->desc.dims[2] == (int64_t)rank + 1 && kilni_onnx_is_float(theta);
    for (uint32_t i = 0; fits && i < rank; i++) {
        fits = size.v[2 + i] >= 1;
    }
    if (!fits) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "matrices do not fit a size of %u lengths",
                        size.count);
        return;
    }
    kilni_onnx_ref parts[4];
    for (uint32_t i = 0; i < rank; i++) { /* x goes first: it is the last axis */
        parts[i] = positions(call, theta->desc.dtype, size.v + 2, rank, rank - 1 - i, corners);
    }
    if (!kilni_onnx_ok(call)) {
        return;
    }
    parts[rank] = kilni_onnx_full(call, theta->desc.dtype, parts[0]->desc.dims, 2, kiln_f64(1));
    kilni_onnx_ref points = kilni_onnx_concat(call, parts, rank + 1, 1);
    int64_t dims[5] = {size.v[0]};
    memcpy(dims + 1, size.v + 2, rank * sizeof(dims[0]));
    dims[rank + 1] = rank;
    kilni_onnx_ref grid = kilni_onnx_matmul(call, points, theta, false, true);
    kilni_onnx_out(call, 0, kilni_onnx_reshape(call, grid, dims, rank + 2));
}

// ---- MaxRoiPool ----

typedef struct region { ///< of one image, rows then columns
    kilni_onnx_ref image;
    int64_t first[2];
    int64_t length[2];
    int64_t bins[2];
} region;

/// Where a bin begins and ends, cut off at the image's edges.
static void bin_of(const region *r, uint32_t axis, int64_t bin, int64_t out_ends[2])
{
    int64_t most = r->image->desc.dims[1 + axis];
    double each = (double)r->length[axis] / (double)r->bins[axis];
    out_ends[0] = (int64_t)floor((double)bin * each) + r->first[axis];
    out_ends[1] = (int64_t)ceil((double)(bin + 1) * each) + r->first[axis];
    for (int i = 0; i < 2; i++) {
        out_ends[i] = out_ends[i] < 0 ? 0 : out_ends[i] > most ? most : out_ends[i];
    }
}

/// Largest elements of the bins along one axis of [channels, ..], 0 where a bin is empty.
static kilni_onnx_ref pool_axis(kilni_onnx_call *call, const region *r, kilni_onnx_ref x,
                                uint32_t axis)
{
    const int64_t along[] = {1 + axis};
    int64_t dims[3];
    kilni_onnx_ref parts[KILN_MAX_INPUTS];
    for (int64_t i = 0; kilni_onnx_ok(call) && i < r->bins[axis]; i++) {
        int64_t ends[2];
        bin_of(r, axis, i, ends);
        memcpy(dims, x->desc.dims, sizeof(dims));
        dims[1 + axis] = 1;
        if (ends[1] <= ends[0]) {
            parts[i] = kilni_onnx_full(call, x->desc.dtype, dims, 3, kiln_f64(0));
        } else {
            parts[i] = kilni_onnx_slice_axis(call, x, 1 + axis, ends[0], ends[1], 1);
            parts[i] = kilni_onnx_reduce(call, KILN_OP_MAX, parts[i], along, 1, true);
        }
    }
    return kilni_onnx_ok(call) ? kilni_onnx_concat(call, parts, (uint32_t)r->bins[axis], 1 + axis)
                               : NULL;
}

static kilni_onnx_ref pool_region(kilni_onnx_call *call, kilni_onnx_ref x, const float roi[5],
                                  const kilni_onnx_ints *bins, double scale)
{
    region r = {.bins = {bins->v[0], bins->v[1]}};
    for (int i = 0; i < 5; i++) {
        if (!(fabs((double)roi[i] * (i == 0 ? 1 : scale)) < 1e9)) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "a region at %g", (double)roi[i]);
            return NULL;
        }
    }
    int64_t batch = (int64_t)roi[0];
    if (batch < 0 || batch >= x->desc.dims[0]) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "a region of image %lld of %lld", (long long)batch,
                        (long long)x->desc.dims[0]);
        return NULL;
    }
    for (int axis = 0; axis < 2; axis++) {
        int64_t last = (int64_t)floor((double)roi[4 - axis] * scale + 0.5);
        r.first[axis] = (int64_t)floor((double)roi[2 - axis] * scale + 0.5);
        r.length[axis] = last < r.first[axis] ? 1 : last - r.first[axis] + 1;
    }
    r.image = kilni_onnx_slice_axis(call, x, 0, batch, batch + 1, 1);
    r.image = kilni_onnx_reshape(call, r.image, x->desc.dims + 1, 3);
    kilni_onnx_ref rows = kilni_onnx_ok(call) ? pool_axis(call, &r, r.image, 0) : NULL;
    return kilni_onnx_ok(call) ? pool_axis(call, &r, rows, 1) : NULL;
}

void kilni_onnx_op_max_roi_pool(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref rois = kilni_onnx_cast(call, kilni_onnx_in(call, 1), KILN_DTYPE_F32);
    kilni_onnx_ints bins = {.count = 0};
    kilni_onnx_attr_ints(call, "pooled_shape", &bins);
    double scale = kilni_onnx_attr_float(call, "spatial_scale", 1);
    bool fits = kilni_onnx_ok(call) && x->desc.rank == 4 && rois->desc.rank == 2 &&
                rois->desc.dims[1] == 5 && bins.count == 2 && bins.v[0] > 0 && bins.v[1] > 0 &&
                bins.v[0] <= KILN_MAX_INPUTS && bins.v[1] <= KILN_MAX_INPUTS;
    if (!fits) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "regions and bins do not fit the images");
        return;
    }
    int64_t count = rois->desc.dims[0];
    const float *data = kilni_onnx_host(call, rois);
    const int64_t none[] = {0, x->desc.dims[1], bins.v[0], bins.v[1]};
    kilni_onnx_ref all = count == 0 ? kilni_onnx_scratch(call, x->desc.dtype, 4, none) : NULL;
    kilni_onnx_ref parts[KILN_MAX_INPUTS] = {NULL};
    uint32_t held = 0;
    for (int64_t i = 0; kilni_onnx_ok(call) && i < count; i++) {
        const int64_t dims[] = {1, x->desc.dims[1], bins.v[0], bins.v[1]};
        float roi[5];
        memcpy(roi, (const uint8_t *)data + (size_t)i * sizeof(roi), sizeof(roi));
        kilni_onnx_ref pooled = pool_region(call, x, roi, &bins, scale);
        parts[held++] = kilni_onnx_reshape(call, pooled, dims, 4);
        if (held == KILN_MAX_INPUTS || i + 1 == count) {
            all = kilni_onnx_concat(call, parts, held, 0);
            parts[0] = all;
            held = 1;
        }
    }
    kilni_onnx_out(call, 0, all);
}
