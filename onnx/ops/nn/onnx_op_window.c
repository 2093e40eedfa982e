// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's contractions and windows: matmul, Gemm, convolutions and pools over one to three spatial
// axes. Decides what auto_pad and output_shape mean in numbers, and turns places in a plane into
// ONNX's flat indices and back.
#include "onnx_import.h"

#include <string.h>

enum { SPATIAL = 3 };

/// A product by a constant that a Transpose turned reads the constant itself: what fusers make of a
/// constant they keep, and a turned one is another tensor in every run.
static kilni_onnx_ref matmul(kilni_onnx_call *call, kilni_onnx_ref a, kilni_onnx_ref b)
{
    bool turned = kilni_onnx_ok(call) && b->turned != NULL;
    return kilni_onnx_matmul(call, a, turned ? b->turned : b, false, turned);
}

void kilni_onnx_op_matmul(kilni_onnx_call *call)
{
    kilni_onnx_ref a = kilni_onnx_in(call, 0);
    kilni_onnx_ref b = kilni_onnx_in(call, 1);
    kilni_onnx_ref y = kilni_onnx_matmul_few_rows(call, a, b);
    kilni_onnx_out(call, 0, y != NULL ? y : matmul(call, a, b));
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

// ---- windows ----

/// A window in numbers, over `axes` axes.
typedef struct op_window {
    uint32_t axes;
    int64_t kernel[SPATIAL];
    int64_t strides[SPATIAL];
    int64_t dilations[SPATIAL];
    int64_t padding[2 * SPATIAL];
    bool ceil_mode;
} op_window;

/// Reads a list of one value for each axis.
static void read_list(kilni_onnx_call *call, const char *name, uint32_t axes, int64_t fallback,
                      int64_t out_list[SPATIAL])
{
    kilni_onnx_ints list;
    for (uint32_t i = 0; i < axes; i++) {
        out_list[i] = fallback;
    }
    if (!kilni_onnx_attr_ints(call, name, &list)) {
        return;
    }
    if (list.count != axes) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute '%s' has %u values for %u axes", name,
                        list.count, axes);
        return;
    }
    memcpy(out_list, list.v, axes * sizeof(*out_list));
}

static void read_padding(kilni_onnx_call *call, op_window *w)
{
    kilni_onnx_ints list;
    if (!kilni_onnx_attr_ints(call, "pads", &list)) {
        return;
    }
    if (list.count != 2 * w->axes) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute 'pads' has %u values for %u axes",
                        list.count, w->axes);
        return;
    }
    memcpy(w->padding, list.v, list.count * sizeof(*w->padding));
}

/// An odd rest goes to the end or the beginning.
static void split_padding(op_window *w, uint32_t axis, int64_t total, bool upper)
{
    w->padding[axis] = upper ? total / 2 : total - total / 2;
    w->padding[w->axes + axis] = total - w->padding[axis];
}

/// SAME: as many windows as input / stride, rounded up.
static void same_padding(op_window *w, const int64_t *lengths, bool upper)
{
    for (uint32_t i = 0; i < w->axes; i++) {
        int64_t windows = (lengths[i] + w->strides[i] - 1) / w->strides[i];
        int64_t reach = (w->kernel[i] - 1) * w->dilations[i] + 1;
        int64_t total = (windows - 1) * w->strides[i] + reach - lengths[i];
        split_padding(w, i, total < 0 ? 0 : total, upper);
    }
}

static bool check_window(kilni_onnx_call *call, const op_window *w)
{
    for (uint32_t i = 0; i < w->axes; i++) {
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

/// Everything but the padding. `kernel` is what the weight says, or NULL.
static bool read_steps(kilni_onnx_call *call, uint32_t axes, const int64_t *kernel, op_window *w)
{
    *w = (op_window){.axes = axes};
    read_list(call, "kernel_shape", axes, 1, w->kernel);
    if (kernel != NULL) {
        memcpy(w->kernel, kernel, axes * sizeof(*kernel));
    } else if (kilni_onnx_ok(call) && kilni_onnx_attr_find(call, "kernel_shape") == NULL) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute 'kernel_shape' is missing");
    }
    read_list(call, "strides", axes, 1, w->strides);
    read_list(call, "dilations", axes, 1, w->dilations);
    w->ceil_mode = kilni_onnx_attr_int(call, "ceil_mode", 0) != 0;
    return kilni_onnx_ok(call) && check_window(call, w);
}

/// `lengths` are the input's spatial ones.
static void read_window(kilni_onnx_call *call, uint32_t axes, const int64_t *kernel,
                        const int64_t *lengths, op_window *w)
{
    const char *mode = kilni_onnx_attr_text(call, "auto_pad", "NOTSET");
    if (!read_steps(call, axes, kernel, w)) {
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
    if (kilni_onnx_ok(call) && (x->desc.rank < 3 || x->desc.rank > 2 + SPATIAL)) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "windows over %d axes are not supported",
                        (int)x->desc.rank - 2);
    }
    return kilni_onnx_ok(call) ? x->desc.rank - 2u : 1;
}

/// Input 1 as the weight of windows over input 0: its lengths are the kernel.
static const int64_t *weight_lengths(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref weight)
{
    if (kilni_onnx_ok(call) && weight->desc.rank != x->desc.rank) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "weight of rank %u for an input of rank %u",
                        weight->desc.rank, x->desc.rank);
    }
    return kilni_onnx_ok(call) ? &weight->desc.dims[2] : NULL;
}

// ---- convolutions ----

/// strides, padding, dilations, groups
static void conv_attrs(kilni_onnx_call *call, const op_window *w, kiln_attr out_attrs[4])
{
    out_attrs[0] = kilni_attr_ints(w->strides, w->axes);
    out_attrs[1] = kilni_attr_ints(w->padding, 2 * w->axes);
    out_attrs[2] = kilni_attr_ints(w->dilations, w->axes);
    out_attrs[3] = kilni_attr_i64(kilni_onnx_attr_int(call, "group", 1));
}

static kilni_onnx_ref conv(kilni_onnx_call *call, kiln_op op, const kilni_onnx_ref *inputs,
                           uint32_t n_inputs)
{
    op_window w;
    kiln_attr attrs[4];
    uint32_t axes = spatial_axes(call, inputs[0]);
    const int64_t *kernel = weight_lengths(call, inputs[0], inputs[1]);
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    read_window(call, axes, kernel, &inputs[0]->desc.dims[2], &w);
    conv_attrs(call, &w, attrs);
    return kilni_onnx_emit(call, op, inputs, n_inputs, attrs, 4);
}

void kilni_onnx_op_conv(kilni_onnx_call *call)
{
    const kilni_onnx_ref inputs[] = {kilni_onnx_in(call, 0), kilni_onnx_in(call, 1),
                                     kilni_onnx_opt(call, 2)};
    if (kilni_onnx_ok(call)) {
        kilni_onnx_ref y = conv(call, KILN_OP_CONV, inputs, inputs[2] == NULL ? 2 : 3);
        kilni_onnx_out(call, 0, y);
    }
}

/// A zero point of one element as a number; 0 of the dtype of `of` when it was left out.
static kilni_onnx_ref zero_point(kilni_onnx_call *call, kilni_onnx_ref zero, kilni_onnx_ref of)
{
    static const int8_t none;
    if (zero == NULL && kilni_onnx_ok(call)) {
        return kilni_onnx_const_data(call, of->desc.dtype, 0, NULL, &none);
    }
    bool one = kilni_onnx_ok(call) && kiln_desc_count(&zero->desc) == 1;
    return one ? kilni_onnx_reshape(call, zero, NULL, 0) : zero;
}

kilni_onnx_ref kilni_onnx_conv_integer(kilni_onnx_call *call, const kilni_onnx_ref given[4])
{
    kilni_onnx_ref inputs[] = {given[0], given[1], given[2], given[3]};
    if (kilni_onnx_ok(call)) {
        inputs[2] = zero_point(call, inputs[2], inputs[0]);
        inputs[3] = zero_point(call, inputs[3], inputs[1]);
    }
    return kilni_onnx_ok(call) ? conv(call, KILN_OP_CONV_INTEGER, inputs, 4) : NULL;
}

void kilni_onnx_op_conv_integer(kilni_onnx_call *call)
{
    const kilni_onnx_ref inputs[] = {kilni_onnx_in(call, 0), kilni_onnx_in(call, 1),
                                     kilni_onnx_opt(call, 2), kilni_onnx_opt(call, 3)};
    kilni_onnx_out(call, 0, kilni_onnx_conv_integer(call, inputs));
}

/// Padding that gives `length`; what is missing is appended.
static void padding_for(op_window *w, uint32_t axis, int64_t in, int64_t length, bool upper,
                        int64_t *more)
{
    int64_t reach = (w->kernel[axis] - 1) * w->dilations[axis] + 1;
    int64_t total = (in - 1) * w->strides[axis] + *more + reach - length;
    *more += total < 0 ? -total : 0;
    split_padding(w, axis, total < 0 ? 0 : total, upper);
}

/// Attributes output_shape and auto_pad, of which the first decides.
static void read_turned_padding(kilni_onnx_call *call, const int64_t *lengths, op_window *w,
                                int64_t more[SPATIAL])
{
    const char *mode = kilni_onnx_attr_text(call, "auto_pad", "NOTSET");
    bool upper = strcmp(mode, "SAME_UPPER") == 0;
    bool same = upper || strcmp(mode, "SAME_LOWER") == 0;
    kilni_onnx_ints shape;
    bool given = kilni_onnx_attr_ints(call, "output_shape", &shape) && shape.count >= w->axes;
    if (!same && !given) {
        if (strcmp(mode, "VALID") != 0) {
            read_padding(call, w);
        }
        return;
    }
    for (uint32_t i = 0; i < w->axes; i++) {
        const int64_t most = INT64_C(1) << 40;
        int64_t length = given ? shape.v[shape.count - w->axes + i] : lengths[i] * w->strides[i];
        if (length < 0 || length > most || lengths[i] > most >> 30) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "output length %lld", (long long)length);
            return;
        }
        padding_for(w, i, lengths[i], length, upper, &more[i]);
    }
}

void kilni_onnx_op_conv_transpose(kilni_onnx_call *call)
{
    const kilni_onnx_ref inputs[] = {kilni_onnx_in(call, 0), kilni_onnx_in(call, 1),
                                     kilni_onnx_opt(call, 2)};
    if (!kilni_onnx_ok(call)) {
        return;
    }
    op_window w;
    kiln_attr attrs[5];
    int64_t more[SPATIAL];
    uint32_t axes = spatial_axes(call, inputs[0]);
    const int64_t *kernel = weight_lengths(call, inputs[0], inputs[1]);
    read_list(call, "output_padding", axes, 0, more);
    if (!kilni_onnx_ok(call) || !read_steps(call, axes, kernel, &w)) {
        return;
    }
    read_turned_padding(call, &inputs[0]->desc.dims[2], &w, more);
    conv_attrs(call, &w, attrs);
    attrs[4] = kilni_attr_ints(more, axes);
    kilni_onnx_out(
        call, 0,
        kilni_onnx_emit(call, KILN_OP_CONV_TRANSPOSE, inputs, inputs[2] == NULL ? 2 : 3, attrs, 5));
}

/// The mask is 1 when only the bias is given.
void kilni_onnx_op_deform_conv(kilni_onnx_call *call)
{
    static const double one = 1;
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref weight = kilni_onnx_in(call, 1);
    kilni_onnx_ref inputs[] = {x, kilni_onnx_in(call, 2), weight, kilni_onnx_opt(call, 4),
                               kilni_onnx_opt(call, 3)};
    op_window w;
    kiln_attr attrs[5];
    if (kilni_onnx_ok(call) && x->desc.rank != 4) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "deformable windows over %d axes",
                        (int)x->desc.rank - 2);
    }
    const int64_t *kernel = weight_lengths(call, x, weight);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    read_window(call, 2, kernel, &x->desc.dims[2], &w);
    conv_attrs(call, &w, attrs);
    attrs[4] = kilni_attr_i64(kilni_onnx_attr_int(call, "offset_group", 1));
    if (inputs[3] == NULL && inputs[4] != NULL) {
        inputs[3] = kilni_onnx_const_data(call, KILN_DTYPE_F64, 0, NULL, &one);
        inputs[3] = kilni_onnx_cast(call, inputs[3], x->desc.dtype);
    }
    uint32_t count = inputs[4] != NULL ? 5 : inputs[3] != NULL ? 4 : 3;
    kilni_onnx_out(call, 0, kilni_onnx_emit(call, KILN_OP_DEFORM_CONV, inputs, count, attrs, 5));
}

/// Columns back to the image: image_shape and block_shape are inputs.
void kilni_onnx_op_col2im(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ints image = kilni_onnx_value_ints(call, kilni_onnx_in(call, 1));
    kilni_onnx_ints block = kilni_onnx_value_ints(call, kilni_onnx_in(call, 2));
    op_window w;
    if (kilni_onnx_ok(call) &&
        (image.count < 1 || image.count > SPATIAL || block.count != image.count)) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "columns of windows over %u axes", image.count);
    }
    if (!kilni_onnx_ok(call) || !read_steps(call, image.count, block.v, &w)) {
        return;
    }
    read_padding(call, &w);
    const kiln_attr attrs[] = {kilni_attr_ints(image.v, w.axes), kilni_attr_ints(w.kernel, w.axes),
                               kilni_attr_ints(w.strides, w.axes),
                               kilni_attr_ints(w.padding, 2 * w.axes),
                               kilni_attr_ints(w.dilations, w.axes)};
    kilni_onnx_out(call, 0, kilni_onnx_emit(call, KILN_OP_COL2IM, &x, 1, attrs, 5));
}

// ---- pools ----

/// Attributes of a pool in the order of its schema: `w` has to stay.
static void pool_attrs(const op_window *w, kiln_attr out_attrs[5])
{
    out_attrs[0] = kilni_attr_ints(w->kernel, w->axes);
    out_attrs[1] = kilni_attr_ints(w->strides, w->axes);
    out_attrs[2] = kilni_attr_ints(w->padding, 2 * w->axes);
    out_attrs[3] = kilni_attr_ints(w->dilations, w->axes);
    out_attrs[4] = kilni_attr_bool(w->ceil_mode);
}

static void pool(kilni_onnx_call *call, kiln_op op, const kiln_attr *last)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    uint32_t axes = spatial_axes(call, x);
    op_window w;
    kiln_attr attrs[6];
    if (!kilni_onnx_ok(call)) {
        return;
    }
    read_window(call, axes, NULL, &x->desc.dims[2], &w);
    pool_attrs(&w, attrs);
    if (last != NULL) {
        attrs[5] = *last;
    }
    kilni_onnx_out(call, 0, kilni_onnx_emit(call, op, &x, 1, attrs, last != NULL ? 6 : 5));
}

/// The exponent of an Lp norm: a float in version 1.
static double exponent_of(kilni_onnx_call *call)
{
    const kilni_onnx_attr *attr = kilni_onnx_attr_find(call, "p");
    if (attr != NULL && attr->type == KILNI_ONNX_ATTR_FLOAT) {
        return kilni_onnx_attr_float(call, "p", 2);
    }
    return (double)kilni_onnx_attr_int(call, "p", 2);
}

void kilni_onnx_op_average_pool(kilni_onnx_call *call)
{
    const kiln_attr include_pad =
        kilni_attr_bool(kilni_onnx_attr_int(call, "count_include_pad", 0) != 0);
    pool(call, KILN_OP_AVG_POOL, &include_pad);
}

void kilni_onnx_op_lp_pool(kilni_onnx_call *call)
{
    const kiln_attr p = kilni_attr_f64(exponent_of(call));
    pool(call, KILN_OP_LP_POOL, &p);
}

/// First index of each plane in the whole tensor: [n, c, 1, ..].
static kilni_onnx_ref plane_starts(kilni_onnx_call *call, const kiln_tensor_desc *whole)
{
    int64_t dims[KILN_MAX_RANK] = {whole->dims[0], whole->dims[1], 1, 1, 1, 1, 1, 1};
    int64_t plane = kilni_onnx_span_of(whole, 2, whole->rank);
    const kiln_number start = {.is_integer = true, .v.i = 0};
    const kiln_number step = {.is_integer = true, .v.i = plane};
    kilni_onnx_ref starts = kilni_onnx_arange(call, KILN_DTYPE_I64, dims[0] * dims[1], start, step);
    return kilni_onnx_reshape(call, starts, dims, whole->rank);
}

/// Places in a plane of row-major order as those of column-major order.
static kilni_onnx_ref column_major(kilni_onnx_call *call, kilni_onnx_ref places,
                                   const kiln_tensor_desc *whole)
{
    kilni_onnx_ref sum = NULL;
    for (uint32_t axis = whole->rank; kilni_onnx_ok(call) && axis-- > 2;) {
        int64_t step = kilni_onnx_span_of(whole, 2, axis);
        kilni_onnx_ref part =
            kilni_onnx_scalar_int(call, KILN_OP_REM_SCALAR, places, whole->dims[axis]);
        places = kilni_onnx_scalar_int(call, KILN_OP_DIV_SCALAR, places, whole->dims[axis]);
        part = kilni_onnx_scalar_int(call, KILN_OP_MUL_SCALAR, part, step);
        sum = sum == NULL ? part : kilni_onnx_binary(call, KILN_OP_ADD, sum, part);
    }
    return sum;
}

static void max_pool_with_indices(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    uint32_t axes = spatial_axes(call, x);
    kilni_onnx_ref results[2] = {NULL, NULL};
    op_window w;
    kiln_attr attrs[5];
    if (!kilni_onnx_ok(call)) {
        return;
    }
    read_window(call, axes, NULL, &x->desc.dims[2], &w);
    pool_attrs(&w, attrs);
    kilni_onnx_emit_many(call, KILN_OP_MAX_POOL_WITH_INDICES, &x, 1, attrs, 5, results);
    kilni_onnx_ref places = results[1];
    if (kilni_onnx_attr_int(call, "storage_order", 0) != 0) {
        places = column_major(call, places, &x->desc);
    }
    if (kilni_onnx_ok(call)) {
        places = kilni_onnx_binary(call, KILN_OP_ADD, places, plane_starts(call, &x->desc));
    }
    kilni_onnx_out(call, 0, results[0]);
    kilni_onnx_out(call, 1, places);
}

void kilni_onnx_op_max_pool(kilni_onnx_call *call)
{
    if (kilni_onnx_wants(call, 1)) {
        max_pool_with_indices(call);
    } else {
        pool(call, KILN_OP_MAX_POOL, NULL);
    }
}

/// Indices are those of the shape that the window says; a longer output_shape appends zeros.
void kilni_onnx_op_max_unpool(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref indices = kilni_onnx_in(call, 1);
    kilni_onnx_ref size = kilni_onnx_opt(call, 2);
    uint32_t axes = spatial_axes(call, x);
    op_window w;
    if (!kilni_onnx_ok(call) || !read_steps(call, axes, NULL, &w)) {
        return;
    }
    read_padding(call, &w);
    kiln_tensor_desc whole = x->desc;
    for (uint32_t i = 0; i < axes; i++) {
        whole.dims[2 + i] = (x->desc.dims[2 + i] - 1) * w.strides[i] + w.kernel[i] - w.padding[i] -
                            w.padding[axes + i];
    }
    const kiln_attr attr = kilni_attr_ints(whole.dims, whole.rank);
    indices = kilni_onnx_binary(call, KILN_OP_SUB, indices, plane_starts(call, &whole));
    const kilni_onnx_ref inputs[] = {x, indices};
    kilni_onnx_ref y = kilni_onnx_emit(call, KILN_OP_MAX_UNPOOL, inputs, 2, &attr, 1);
    if (size != NULL && kilni_onnx_ok(call)) {
        kilni_onnx_ints wanted = kilni_onnx_value_ints(call, size);
        int64_t padding[2 * KILN_MAX_RANK] = {0};
        if (wanted.count != whole.rank) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "output_shape has %u lengths", wanted.count);
        }
        for (uint32_t i = 2; kilni_onnx_ok(call) && i < whole.rank; i++) {
            padding[whole.rank + i] = wanted.v[i] - whole.dims[i];
        }
        y = kilni_onnx_pad(call, y, padding, "constant", (kiln_number){.is_integer = true});
    }
    kilni_onnx_out(call, 0, y);
}

static uint32_t spatial_list(kilni_onnx_call *call, kilni_onnx_ref x, int64_t axes[KILN_MAX_RANK])
{
    uint32_t count = 0;
    if (kilni_onnx_ok(call) && x->desc.rank < 3) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "rank %u has no spatial axis", x->desc.rank);
    }
    for (uint32_t i = 2; kilni_onnx_ok(call) && i < x->desc.rank; i++) {
        axes[count++] = i;
    }
    return count;
}

static void global_pool(kilni_onnx_call *call, kiln_op op)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    int64_t axes[KILN_MAX_RANK];
    uint32_t count = spatial_list(call, x, axes);
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

void kilni_onnx_op_global_lp_pool(kilni_onnx_call *call)
{
    call->in_f32 = true; // powers
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    double p = exponent_of(call);
    int64_t axes[KILN_MAX_RANK];
    uint32_t count = spatial_list(call, x, axes);
    kilni_onnx_ref y = kilni_onnx_ok(call) ? kilni_onnx_unary(call, KILN_OP_ABS, x) : NULL;
    y = kilni_onnx_scalar(call, KILN_OP_POW_SCALAR, y, p);
    y = kilni_onnx_reduce(call, KILN_OP_SUM, y, axes, count, true);
    kilni_onnx_out(call, 0, kilni_onnx_scalar(call, KILN_OP_POW_SCALAR, y, 1 / p));
}
