// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's contractions and windows: matmul, Gemm, convolution and pools over one or two spatial
// axes. One axis is two with a first of length 1. Decides what auto_pad means in numbers.
#include "onnx_import.h"

#include <string.h>

enum { SPATIAL = 2 };

void kilni_onnx_op_matmul(kilni_onnx_call *call)
{
    kilni_onnx_ref a = kilni_onnx_in(call, 0);
    kilni_onnx_out(call, 0, kilni_onnx_matmul(call, a, kilni_onnx_in(call, 1), false, false));
}

static kilni_onnx_ref scaled(kilni_onnx_call *call, kilni_onnx_ref x, double factor)
{
    if (factor == 1.0 || !kilni_onnx_ok(call)) {
        return x;
    }
    return kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, x, factor);
}

void kilni_onnx_op_gemm(kilni_onnx_call *call)
{
    kilni_onnx_ref a = kilni_onnx_in(call, 0);
    kilni_onnx_ref b = kilni_onnx_in(call, 1);
    kilni_onnx_ref c = kilni_onnx_opt(call, 2);
    bool transpose_a = kilni_onnx_attr_int(call, "transA", 0) != 0;
    bool transpose_b = kilni_onnx_attr_int(call, "transB", 0) != 0;
    if (kilni_onnx_ok(call) && (a->desc.rank != 2 || b->desc.rank != 2)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "operands of rank %u and %u are no matrices",
                        a->desc.rank, b->desc.rank);
    }
    kilni_onnx_ref y = kilni_onnx_matmul(call, a, b, transpose_a, transpose_b);
    y = scaled(call, y, kilni_onnx_attr_float(call, "alpha", 1));
    if (c != NULL) {
        c = scaled(call, c, kilni_onnx_attr_float(call, "beta", 1));
        y = kilni_onnx_binary(call, KILN_OP_ADD, y, c);
    }
    kilni_onnx_out(call, 0, y);
}

// ---- windows ----------------------------------------------------------------

/* A window in numbers, always over two axes. */
typedef struct window {
    uint32_t spatial; ///< axes of the input: 1 or 2
    int64_t kernel[SPATIAL];
    int64_t strides[SPATIAL];
    int64_t dilations[SPATIAL];
    int64_t padding[2 * SPATIAL];
    bool ceil_mode;
} window;

/* Reads a list of one value for each axis; a missing axis in front gets `fallback`. */
static void read_pair(kilni_onnx_call *call, const char *name, uint32_t spatial, int64_t fallback,
                      int64_t out_pair[SPATIAL])
{
    kilni_onnx_ints list;
    out_pair[0] = fallback;
    out_pair[1] = fallback;
    if (!kilni_onnx_attr_ints(call, name, &list)) {
        return;
    }
    if (list.count != spatial) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute '%s' has %u values for %u axes", name,
                        list.count, spatial);
        return;
    }
    for (uint32_t i = 0; i < spatial; i++) {
        out_pair[SPATIAL - spatial + i] = list.v[i];
    }
}

static void read_padding(kilni_onnx_call *call, window *w)
{
    kilni_onnx_ints list;
    if (!kilni_onnx_attr_ints(call, "pads", &list)) {
        return;
    }
    if (list.count != 2 * w->spatial) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute 'pads' has %u values for %u axes",
                        list.count, w->spatial);
        return;
    }
    for (uint32_t i = 0; i < w->spatial; i++) {
        uint32_t axis = i + SPATIAL - w->spatial;
        w->padding[axis] = list.v[i];
        w->padding[SPATIAL + axis] = list.v[w->spatial + i];
    }
}

/* SAME: as many windows as input / stride, rounded up; an odd rest goes to the end or the
 * beginning. */
static void same_padding(window *w, const int64_t *lengths, bool upper)
{
    for (uint32_t i = 0; i < SPATIAL; i++) {
        int64_t windows = (lengths[i] + w->strides[i] - 1) / w->strides[i];
        int64_t reach = (w->kernel[i] - 1) * w->dilations[i] + 1;
        int64_t total = (windows - 1) * w->strides[i] + reach - lengths[i];
        total = total < 0 ? 0 : total;
        w->padding[i] = upper ? total / 2 : total - total / 2;
        w->padding[SPATIAL + i] = total - w->padding[i];
    }
}

static bool check_window(kilni_onnx_call *call, const window *w)
{
    for (uint32_t i = 0; i < SPATIAL; i++) {
        const int64_t most = 1 << 30;
        if (w->kernel[i] < 1 || w->strides[i] < 1 || w->dilations[i] < 1 || w->kernel[i] > most ||
            w->strides[i] > most || w->dilations[i] > most) {
            KILNI_ONNX_FAIL(
                call, INVALID_ARGUMENT, "window of %lld with stride %lld and dilation %lld",
                (long long)w->kernel[i], (long long)w->strides[i], (long long)w->dilations[i]);
            return false;
        }
    }
    return true;
}

/* `kernel` is what the weight says, or NULL; `lengths` are the input's two spatial ones. */
static void read_window(kilni_onnx_call *call, uint32_t spatial, const int64_t *kernel,
                        const int64_t *lengths, window *w)
{
    *w = (window){.spatial = spatial};
    read_pair(call, "kernel_shape", spatial, 1, w->kernel);
    if (kernel != NULL) {
        memcpy(w->kernel, kernel, sizeof(w->kernel));
    } else if (kilni_onnx_ok(call) && kilni_onnx_attr_find(call, "kernel_shape") == NULL) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute 'kernel_shape' is missing");
    }
    read_pair(call, "strides", spatial, 1, w->strides);
    read_pair(call, "dilations", spatial, 1, w->dilations);
    w->ceil_mode = kilni_onnx_attr_int(call, "ceil_mode", 0) != 0;
    const char *mode = kilni_onnx_attr_text(call, "auto_pad", "NOTSET");
    if (!kilni_onnx_ok(call) || !check_window(call, w)) {
        return;
    }
    if (strcmp(mode, "SAME_UPPER") == 0 || strcmp(mode, "SAME_LOWER") == 0) {
        same_padding(w, lengths, strcmp(mode, "SAME_UPPER") == 0);
    } else if (strcmp(mode, "NOTSET") == 0 || mode[0] == '\0') {
        read_padding(call, w);
    } else if (strcmp(mode, "VALID") != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "auto_pad '%s'", mode);
    }
}

static uint32_t spatial_axes(kilni_onnx_call *call, const kilni_onnx_value *x)
{
    if (kilni_onnx_ok(call) && (x->desc.rank < 3 || x->desc.rank > 4)) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "windows over %d axes are not supported",
                        (int)x->desc.rank - 2);
    }
    return kilni_onnx_ok(call) ? x->desc.rank - 2u : SPATIAL;
}

/* [n, c, l] as [n, c, 1, l] */
static kilni_onnx_ref as_planes(kilni_onnx_call *call, kilni_onnx_ref x)
{
    if (!kilni_onnx_ok(call) || x->desc.rank != 3) {
        return x;
    }
    const int64_t dims[] = {x->desc.dims[0], x->desc.dims[1], 1, x->desc.dims[2]};
    return kilni_onnx_reshape(call, x, dims, 4);
}

static void out_planes(kilni_onnx_call *call, const window *w, kilni_onnx_ref y)
{
    if (kilni_onnx_ok(call) && w->spatial == 1) {
        const int64_t dims[] = {y->desc.dims[0], y->desc.dims[1], y->desc.dims[3]};
        y = kilni_onnx_reshape(call, y, dims, 3);
    }
    kilni_onnx_out(call, 0, y);
}

void kilni_onnx_op_conv(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref weight = kilni_onnx_in(call, 1);
    kilni_onnx_ref bias = kilni_onnx_opt(call, 2);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    window w;
    uint32_t spatial = spatial_axes(call, x);
    if (kilni_onnx_ok(call) && weight->desc.rank != x->desc.rank) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "weight of rank %u for an input of rank %u",
                        weight->desc.rank, x->desc.rank);
    }
    x = as_planes(call, x);
    weight = as_planes(call, weight);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    read_window(call, spatial, &weight->desc.dims[2], &x->desc.dims[2], &w);
    const kiln_attr attrs[] = {kilni_onnx_a_ints(w.strides, 2), kilni_onnx_a_ints(w.padding, 4),
                               kilni_onnx_a_ints(w.dilations, 2),
                               kilni_onnx_a_i64(kilni_onnx_attr_int(call, "group", 1))};
    const kilni_onnx_ref inputs[] = {x, weight, bias};
    kilni_onnx_ref y =
        kilni_onnx_emit(call, KILN_OP_CONV2D, inputs, bias == NULL ? 2 : 3, attrs, 4);
    out_planes(call, &w, y);
}

static void pool(kilni_onnx_call *call, kiln_op op)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    uint32_t spatial = spatial_axes(call, x);
    window w;
    x = as_planes(call, x);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    read_window(call, spatial, NULL, &x->desc.dims[2], &w);
    const kiln_attr attrs[] = {
        kilni_onnx_a_ints(w.kernel, 2),
        kilni_onnx_a_ints(w.strides, 2),
        kilni_onnx_a_ints(w.padding, 4),
        kilni_onnx_a_ints(w.dilations, 2),
        kilni_onnx_a_bool(w.ceil_mode),
        kilni_onnx_a_bool(kilni_onnx_attr_int(call, "count_include_pad", 0) != 0)};
    uint32_t n_attrs = op == KILN_OP_AVG_POOL2D ? 6 : 5;
    out_planes(call, &w, kilni_onnx_emit(call, op, &x, 1, attrs, n_attrs));
}

void kilni_onnx_op_max_pool(kilni_onnx_call *call)
{
    pool(call, KILN_OP_MAX_POOL2D);
}

void kilni_onnx_op_average_pool(kilni_onnx_call *call)
{
    pool(call, KILN_OP_AVG_POOL2D);
}

static void global_pool(kilni_onnx_call *call, kiln_op op)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    int64_t axes[KILN_MAX_RANK];
    uint32_t count = 0;
    if (kilni_onnx_ok(call) && x->desc.rank < 3) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "rank %u has no spatial axis", x->desc.rank);
    }
    for (uint32_t i = 2; kilni_onnx_ok(call) && i < x->desc.rank; i++) {
        axes[count++] = i;
    }
    kilni_onnx_out(call, 0, kilni_onnx_reduce(call, op, x, axes, count, true));
}

void kilni_onnx_op_global_average_pool(kilni_onnx_call *call)
{
    global_pool(call, KILN_OP_MEAN);
}

void kilni_onnx_op_global_max_pool(kilni_onnx_call *call)
{
    global_pool(call, KILN_OP_MAX);
}
