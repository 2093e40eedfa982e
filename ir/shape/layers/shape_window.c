// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of windows over one to three spatial axes: convolutions, pools, columns, and the backward
// operators, whose attributes are those of the forward one plus the shape that they give. Decides
// the window formulas: those of ONNX (Conv, MaxPool) and PyTorch, which agree; a last window that
// would start in the padding after the input is left out. The arithmetic of elements is in
// reference_window.c.
#include <inttypes.h>
#include <string.h>

#include "shape_internal.h"

// ---- windows ----

static kiln_status check_axes(const kiln_op_record *call, uint32_t axes, kiln_error *err)
{
    return axes >= 1 && axes <= KILNI_IR_SPATIAL
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT,
                           "%s: a tensor of rank %u has not 1 to 3 spatial axes",
                           kilni_ir_op_name(call), axes + 2);
}

/// The values of a list attribute, or `fallback` for all when it is absent; each at least `least`.
/// Right-aligned.
static kiln_status list_of(const kiln_op_record *call, kiln_attr_key key, uint32_t axes,
                           int64_t fallback, int64_t least, int64_t out_list[KILNI_IR_SPATIAL],
                           kiln_error *err)
{
    uint32_t count = 0;
    const int64_t *values = kilni_ir_ints(call, key, &count);
    uint32_t skipped = KILNI_IR_SPATIAL - axes;
    if (count != 0 && count != axes) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: %s has %u values, it needs %u",
                         kilni_ir_op_name(call), kiln_attr_name(key), count, axes);
    }
    for (uint32_t i = 0; i < KILNI_IR_SPATIAL; i++) {
        out_list[i] = i < skipped || count == 0 ? fallback : values[i - skipped];
        if (i >= skipped && out_list[i] < least) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s: %s %" PRId64 " is below %" PRId64,
                             kilni_ir_op_name(call), kiln_attr_name(key), out_list[i], least);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status padding_of(const kiln_op_record *call, kilni_ir_window *window, kiln_error *err)
{
    uint32_t count = 0;
    const int64_t *padding = kilni_ir_ints(call, KILN_KEY_PADDING, &count);
    uint32_t axes = window->axes;
    if (count != 0 && count != 2 * axes) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: padding has %u values, it needs %u",
                         kilni_ir_op_name(call), count, 2 * axes);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (padding[i] < 0) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s: padding %" PRId64 " is negative",
                             kilni_ir_op_name(call), padding[i]);
        }
        int64_t *side = i < axes ? window->begin : window->end;
        side[KILNI_IR_SPATIAL - axes + i % axes] = padding[i];
    }
    return KILN_STATUS_OK;
}

/// Everything but the lengths of input and output.
static kiln_status read_window(const kiln_op_record *call, uint32_t axes, const int64_t *kernel,
                               kilni_ir_window *window, kiln_error *err)
{
    *window =
        (kilni_ir_window){.axes = axes, .in = {1, 1, 1}, .kernel = {1, 1, 1}, .out = {1, 1, 1}};
    kiln_status status = check_axes(call, axes, err);
    for (uint32_t i = 0; kernel != NULL && status == KILN_STATUS_OK && i < axes; i++) {
        window->kernel[KILNI_IR_SPATIAL - axes + i] = kernel[i];
        if (kernel[i] < 1) {
            status = kiln_fail(err, INVALID_ARGUMENT, "%s: the kernel has no elements",
                               kilni_ir_op_name(call));
        }
    }
    if (kernel == NULL && status == KILN_STATUS_OK) {
        uint32_t count = 0;
        (void)kilni_ir_ints(call, KILN_KEY_KERNEL, &count);
        status = count == axes
                     ? list_of(call, KILN_KEY_KERNEL, axes, 1, 1, window->kernel, err)
                     : kiln_fail(err, INVALID_ARGUMENT, "%s: kernel has %u values, it needs %u",
                                 kilni_ir_op_name(call), count, axes);
    }
    if (status == KILN_STATUS_OK) {
        status = list_of(call, KILN_KEY_STRIDES, axes, 1, 1, window->strides, err);
    }
    if (status == KILN_STATUS_OK) {
        status = list_of(call, KILN_KEY_DILATIONS, axes, 1, 1, window->dilations, err);
    }
    return status == KILN_STATUS_OK ? padding_of(call, window, err) : status;
}

static kiln_status too_large(const kiln_op_record *call, kiln_error *err)
{
    return kiln_fail(err, OUT_OF_RANGE, "%s: the window exceeds 64-bit sizes",
                     kilni_ir_op_name(call));
}

static bool reach_of(const kilni_ir_window *window, uint32_t axis, int64_t *out_reach)
{
    return kilni_ir_mul(window->kernel[axis] - 1, window->dilations[axis], out_reach) &&
           kilni_ir_add(*out_reach, 1, out_reach);
}

static kiln_status window_count(const kiln_op_record *call, uint32_t axis, kilni_ir_window *window,
                                kiln_error *err)
{
    bool ceil_mode = kiln_op_attr_i64(call, KILN_KEY_CEIL_MODE) != 0;
    int64_t reach = 0;
    int64_t padded = 0;
    int64_t in = window->in[axis];
    int64_t stride = window->strides[axis];
    if (!reach_of(window, axis, &reach) || !kilni_ir_add(in, window->begin[axis], &padded) ||
        !kilni_ir_add(padded, window->end[axis], &padded)) {
        return too_large(call, err);
    }
    if (reach > padded) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s: a window of %" PRId64 " exceeds the padded length %" PRId64,
                         kilni_ir_op_name(call), reach, padded);
    }
    int64_t room = padded - reach;
    int64_t count = room / stride + 1;
    if (ceil_mode && room % stride != 0 && count <= (in + window->begin[axis] - 1) / stride) {
        count++;
    }
    window->out[axis] = count;
    return KILN_STATUS_OK;
}

kiln_status kilni_ir_window_of(const kiln_op_record *call, const int64_t *in, uint32_t axes,
                               const int64_t *kernel, kilni_ir_window *out_window, kiln_error *err)
{
    kilni_ir_window window;
    kiln_status status = read_window(call, axes, kernel, &window, err);
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < axes; i++) {
        uint32_t axis = KILNI_IR_SPATIAL - axes + i;
        window.in[axis] = in[i];
        status = in[i] < 0 ? too_large(call, err) : window_count(call, axis, &window, err);
    }
    if (status == KILN_STATUS_OK) {
        *out_window = window;
    }
    return status;
}

static kiln_status transposed_length(const kiln_op_record *call, uint32_t axis, int64_t more,
                                     kilni_ir_window *window, kiln_error *err)
{
    int64_t reach = 0;
    int64_t length = 0;
    bool ok = reach_of(window, axis, &reach) &&
              kilni_ir_mul(window->out[axis] - 1, window->strides[axis], &length) &&
              kilni_ir_add(length, reach, &length) && kilni_ir_add(length, more, &length) &&
              kilni_ir_sub(length, window->begin[axis], &length) &&
              kilni_ir_sub(length, window->end[axis], &length);
    if (!ok) {
        return too_large(call, err);
    }
    if (window->out[axis] < 1 || length < 0) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s: %" PRId64 " elements give a length of %" PRId64,
                         kilni_ir_op_name(call), window->out[axis], length);
    }
    window->in[axis] = length;
    return KILN_STATUS_OK;
}

kiln_status kilni_ir_window_transposed(const kiln_op_record *call, const int64_t *lengths,
                                       uint32_t axes, const int64_t *kernel,
                                       kilni_ir_window *out_window, kiln_error *err)
{
    kilni_ir_window window;
    int64_t more[KILNI_IR_SPATIAL] = {0};
    kiln_status status = read_window(call, axes, kernel, &window, err);
    if (status == KILN_STATUS_OK) {
        status = list_of(call, KILN_KEY_OUTPUT_PADDING, axes, 0, 0, more, err);
    }
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < axes; i++) {
        uint32_t axis = KILNI_IR_SPATIAL - axes + i;
        window.out[axis] = lengths[i];
        status = transposed_length(call, axis, more[axis], &window, err);
    }
    if (status == KILN_STATUS_OK) {
        *out_window = window;
    }
    return status;
}

kiln_status kilni_ir_window_adaptive(const kiln_op_record *call, const int64_t *in,
                                     const int64_t *out, uint32_t axes, kilni_ir_window *out_window,
                                     kiln_error *err)
{
    kilni_ir_window window = {.axes = axes, .in = {1, 1, 1}, .kernel = {1, 1, 1}, .out = {1, 1, 1}};
    kiln_status status = check_axes(call, axes, err);
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < axes; i++) {
        uint32_t axis = KILNI_IR_SPATIAL - axes + i;
        int64_t product = 0;
        window.in[axis] = in[i];
        window.out[axis] = out[i];
        if (out[i] < 0 || (in[i] < 1 && out[i] > 0) ||
            !kilni_ir_mul(in[i] + 1, out[i] + 1, &product)) {
            status = kiln_fail(err, INVALID_ARGUMENT,
                               "%s: %" PRId64 " windows over a length of %" PRId64,
                               kilni_ir_op_name(call), out[i], in[i]);
        }
    }
    if (status == KILN_STATUS_OK) {
        *out_window = window;
    }
    return status;
}

static int64_t product_of(const int64_t lengths[KILNI_IR_SPATIAL])
{
    return lengths[0] * lengths[1] * lengths[2];
}

int64_t kilni_ir_window_taps(const kilni_ir_window *window)
{
    return product_of(window->kernel);
}

int64_t kilni_ir_window_count(const kilni_ir_window *window)
{
    return product_of(window->out);
}

int64_t kilni_ir_window_plane(const kilni_ir_window *window)
{
    return product_of(window->in);
}

// ---- checks that several operators share ----

/// A tensor [n, c, spatial lengths of `window`].
static void set_planes(kiln_tensor_desc *desc, int64_t n, int64_t channels,
                       const int64_t spatial[KILNI_IR_SPATIAL], uint32_t axes)
{
    desc->rank = (uint8_t)(2 + axes);
    desc->dims[0] = n;
    desc->dims[1] = channels;
    memcpy(&desc->dims[2], &spatial[KILNI_IR_SPATIAL - axes], axes * sizeof(desc->dims[0]));
}

/// Says what does not fit with all inputs that the message has room for.
static kiln_status misfit(const kiln_op_record *call, const char *what, kiln_error *err)
{
    const kiln_op_signature *signature = kiln_op_info_of(call->op)->signature;
    char text[3][KILNI_IR_SHAPE_TEXT] = {"", "", ""};
    const char *names[3] = {"", "", ""};
    for (unsigned i = 0; i < 3 && i < call->n_inputs; i++) {
        names[i] = signature->inputs[i];
        kilni_ir_desc_text(&call->inputs[i], text[i]);
    }
    return kiln_fail(err, INVALID_ARGUMENT, "%s: %s %s %s %s %s %s: %s", kilni_ir_op_name(call),
                     names[0], text[0], names[1], text[1], names[2], text[2], what);
}

/// Attribute `shape` as a description with the rank that the other tensors have.
static kiln_status shape_of(const kiln_op_record *call, uint32_t rank, kiln_tensor_desc *out_shape,
                            kiln_error *err)
{
    uint32_t count = 0;
    const int64_t *lengths = kilni_ir_ints(call, KILN_KEY_SHAPE, &count);
    *out_shape = (kiln_tensor_desc){.dtype = KILN_DTYPE_I8, .rank = (uint8_t)rank};
    if (count != rank || rank < 3 || rank > 2 + KILNI_IR_SPATIAL) {
        return misfit(call, "the shape has another rank", err);
    }
    for (uint32_t i = 0; i < rank; i++) {
        out_shape->dims[i] = lengths[i];
        if (lengths[i] < 0) {
            return misfit(call, "the shape has a negative length", err);
        }
    }
    return kiln_desc_count(out_shape) >= 0 ? KILN_STATUS_OK : too_large(call, err);
}

static bool has_lengths(const kiln_tensor_desc *desc, const int64_t lengths[KILNI_IR_SPATIAL])
{
    uint32_t axes = desc->rank - 2u;
    return memcmp(&desc->dims[2], &lengths[KILNI_IR_SPATIAL - axes],
                  axes * sizeof(desc->dims[0])) == 0;
}

static kiln_status check_bias(const kiln_op_record *call, int64_t channels, kiln_error *err)
{
    return call->n_inputs < 3 || (call->inputs[2].rank == 1 && call->inputs[2].dims[0] == channels)
               ? KILN_STATUS_OK
               : misfit(call, "the bias must have one element for each channel", err);
}

/// Whether weight [o, c/groups, ..] takes x [n, c, ..], and gives [n, o, ..].
static kiln_status check_channels(const kiln_op_record *call, const kiln_tensor_desc *x,
                                  const kiln_tensor_desc *weight, kiln_error *err)
{
    int64_t groups = kiln_op_attr_i64(call, KILN_KEY_GROUPS);
    int64_t channels = 0;
    if (x->rank != weight->rank) {
        return misfit(call, "the ranks differ", err);
    }
    return x->rank >= 3 && groups >= 1 && weight->dims[0] % groups == 0 &&
                   kilni_ir_mul(weight->dims[1], groups, &channels) && channels == x->dims[1]
               ? KILN_STATUS_OK
               : misfit(call, "the channels do not fit", err);
}

// ---- convolutions ----

static kiln_status conv_shape(const kiln_op_record *call, kiln_tensor_desc *out, kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    const kiln_tensor_desc *weight = &call->inputs[1];
    kilni_ir_window window;
    kiln_status status = check_channels(call, x, weight, err);
    if (status == KILN_STATUS_OK) {
        status =
            kilni_ir_window_of(call, &x->dims[2], x->rank - 2u, &weight->dims[2], &window, err);
    }
    if (status == KILN_STATUS_OK) {
        set_planes(out, x->dims[0], weight->dims[0], window.out, window.axes);
    }
    return status;
}

kiln_status kiln_shape_conv(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    kiln_status status = conv_shape(call, &outputs[0], err);
    return status == KILN_STATUS_OK ? check_bias(call, call->inputs[1].dims[0], err) : status;
}

static bool is_zero_point(const kiln_tensor_desc *point, const kiln_tensor_desc *of,
                          int64_t channels)
{
    bool one_each = channels >= 0 && point->rank == 1 && point->dims[0] == channels;
    return point->dtype == of->dtype && (point->rank == 0 || one_each);
}

kiln_status kiln_shape_conv_integer(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                    kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (unsigned i = 0; status == KILN_STATUS_OK && i < 2; i++) {
        kiln_dtype dtype = call->inputs[i].dtype;
        if (dtype != KILN_DTYPE_I8 && dtype != KILN_DTYPE_U8) {
            status = misfit(call, "x and weight must be i8 or u8", err);
        }
    }
    status = status == KILN_STATUS_OK ? conv_shape(call, &outputs[0], err) : status;
    if (status == KILN_STATUS_OK &&
        ((call->n_inputs > 2 && !is_zero_point(&call->inputs[2], &call->inputs[0], -1)) ||
         (call->n_inputs > 3 &&
          !is_zero_point(&call->inputs[3], &call->inputs[1], call->inputs[1].dims[0])))) {
        status = misfit(call, "a zero point has another dtype, or is not one number", err);
    }
    outputs[0].dtype = KILN_DTYPE_I32;
    return status;
}

/// conv_transpose of x [n, c, ..] with weight [c, o/groups, ..]: it reads as a convolution writes.
kiln_status kiln_shape_conv_transpose(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                      kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    const kiln_tensor_desc *weight = &call->inputs[1];
    int64_t groups = kiln_op_attr_i64(call, KILN_KEY_GROUPS);
    int64_t channels = 0;
    kilni_ir_window window;
    if (x->rank != weight->rank || x->rank < 3) {
        return misfit(call, "the ranks differ", err);
    }
    if (groups < 1 || weight->dims[0] % groups != 0 || weight->dims[0] != x->dims[1] ||
        !kilni_ir_mul(weight->dims[1], groups, &channels)) {
        return misfit(call, "the channels do not fit", err);
    }
    kiln_status status =
        kilni_ir_window_transposed(call, &x->dims[2], x->rank - 2u, &weight->dims[2], &window, err);
    if (status == KILN_STATUS_OK) {
        set_planes(&outputs[0], x->dims[0], channels, window.in, window.axes);
        status = check_bias(call, channels, err);
    }
    return status;
}

/// The forward operator is conv of `x` with `weight`; its result has to be like `grad`.
static kiln_status check_forward(const kiln_op_record *call, const kiln_tensor_desc *x,
                                 const kiln_tensor_desc *weight, const kiln_tensor_desc *grad,
                                 kiln_error *err)
{
    kilni_ir_window window;
    kiln_status status = check_channels(call, x, weight, err);
    if (status == KILN_STATUS_OK) {
        status =
            kilni_ir_window_of(call, &x->dims[2], x->rank - 2u, &weight->dims[2], &window, err);
    }
    if (status == KILN_STATUS_OK &&
        (grad->rank != x->rank || grad->dims[0] != x->dims[0] || grad->dims[1] != weight->dims[0] ||
         !has_lengths(grad, window.out))) {
        status = misfit(call, "the forward operator gives another shape", err);
    }
    return status;
}

static kiln_status give_shape(kiln_status status, const kiln_tensor_desc *shape,
                              kiln_tensor_desc *out)
{
    if (status == KILN_STATUS_OK) {
        out->rank = shape->rank;
        memcpy(out->dims, shape->dims, sizeof(out->dims));
    }
    return status;
}

kiln_status kiln_shape_conv_x_backward(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                       kiln_error *err)
{
    kiln_tensor_desc x;
    kiln_status status = shape_of(call, call->inputs[0].rank, &x, err);
    status = status == KILN_STATUS_OK
                 ? check_forward(call, &x, &call->inputs[1], &call->inputs[0], err)
                 : status;
    return give_shape(status, &x, &outputs[0]);
}

kiln_status kiln_shape_conv_weight_backward(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                            kiln_error *err)
{
    kiln_tensor_desc weight;
    kiln_status status = shape_of(call, call->inputs[0].rank, &weight, err);
    status = status == KILN_STATUS_OK
                 ? check_forward(call, &call->inputs[0], &weight, &call->inputs[1], err)
                 : status;
    return give_shape(status, &weight, &outputs[0]);
}

/// conv_transpose turns a convolution round: `grad` is what that one reads, `x` what it writes.
/// With output padding it may have windows beyond x.
static kiln_status check_turned(const kiln_op_record *call, const kiln_tensor_desc *x,
                                const kiln_tensor_desc *weight, const kiln_tensor_desc *grad,
                                kiln_error *err)
{
    kilni_ir_window window;
    kiln_status status = check_channels(call, grad, weight, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_ir_window_of(call, &grad->dims[2], grad->rank - 2u, &weight->dims[2],
                                    &window, err);
    }
    bool fits = status == KILN_STATUS_OK && x->rank == grad->rank && x->dims[0] == grad->dims[0] &&
                x->dims[1] == weight->dims[0];
    for (uint32_t i = 0; fits && i < window.axes; i++) {
        fits = x->dims[2 + i] <= window.out[KILNI_IR_SPATIAL - window.axes + i];
    }
    return status != KILN_STATUS_OK || fits
               ? status
               : misfit(call, "the forward operator gives another shape", err);
}

kiln_status kiln_shape_conv_transpose_x_backward(const kiln_op_record *call,
                                                 kiln_tensor_desc *outputs, kiln_error *err)
{
    kiln_tensor_desc x;
    kiln_status status = shape_of(call, call->inputs[0].rank, &x, err);
    status = status == KILN_STATUS_OK
                 ? check_turned(call, &x, &call->inputs[1], &call->inputs[0], err)
                 : status;
    return give_shape(status, &x, &outputs[0]);
}

kiln_status kiln_shape_conv_transpose_weight_backward(const kiln_op_record *call,
                                                      kiln_tensor_desc *outputs, kiln_error *err)
{
    kiln_tensor_desc weight;
    kiln_status status = shape_of(call, call->inputs[0].rank, &weight, err);
    status = status == KILN_STATUS_OK
                 ? check_turned(call, &call->inputs[0], &weight, &call->inputs[1], err)
                 : status;
    return give_shape(status, &weight, &outputs[0]);
}

kiln_status kiln_shape_conv_bias_backward(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                          kiln_error *err)
{
    if (call->inputs[0].rank < 2) {
        return misfit(call, "the gradient has no channels", err);
    }
    outputs[0].rank = 1;
    outputs[0].dims[0] = call->inputs[0].dims[1];
    return KILN_STATUS_OK;
}

// ---- pools ----

kiln_status kiln_shape_pool(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    kilni_ir_window window;
    if (x->rank < 3) {
        return misfit(call, "it needs 1 to 3 spatial axes", err);
    }
    kiln_status status = kilni_ir_window_of(call, &x->dims[2], x->rank - 2u, NULL, &window, err);
    for (unsigned i = 0; status == KILN_STATUS_OK && i < call->n_outputs; i++) {
        set_planes(&outputs[i], x->dims[0], x->dims[1], window.out, window.axes);
    }
    return status;
}

kiln_status kiln_shape_pool_backward(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                     kiln_error *err)
{
    const kiln_tensor_desc *grad = &call->inputs[0];
    kilni_ir_window window;
    kiln_tensor_desc x;
    kiln_status status = shape_of(call, grad->rank, &x, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_ir_window_of(call, &x.dims[2], x.rank - 2u, NULL, &window, err);
    }
    if (status == KILN_STATUS_OK &&
        (grad->dims[0] != x.dims[0] || grad->dims[1] != x.dims[1] ||
         !has_lengths(grad, window.out) ||
         (call->n_inputs == 2 && !kiln_desc_same_shape(grad, &call->inputs[1])))) {
        status = misfit(call, "the forward operator gives another shape", err);
    }
    return give_shape(status, &x, &outputs[0]);
}

kiln_status kiln_shape_adaptive_pool(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                     kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    uint32_t count = 0;
    const int64_t *size = kilni_ir_ints(call, KILN_KEY_OUTPUT_SIZE, &count);
    kilni_ir_window window;
    if (x->rank < 3 || count != x->rank - 2u) {
        return misfit(call, "output_size needs a length for each of 1 to 3 spatial axes", err);
    }
    kiln_status status = kilni_ir_window_adaptive(call, &x->dims[2], size, count, &window, err);
    for (unsigned i = 0; status == KILN_STATUS_OK && i < call->n_outputs; i++) {
        set_planes(&outputs[i], x->dims[0], x->dims[1], window.out, window.axes);
    }
    return status;
}

kiln_status kiln_shape_adaptive_pool_backward(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                              kiln_error *err)
{
    const kiln_tensor_desc *grad = &call->inputs[0];
    kilni_ir_window window;
    kiln_tensor_desc x;
    kiln_status status = shape_of(call, grad->rank, &x, err);
    if (status == KILN_STATUS_OK && (grad->dims[0] != x.dims[0] || grad->dims[1] != x.dims[1])) {
        status = misfit(call, "the channels do not fit", err);
    }
    if (status == KILN_STATUS_OK) {
        status =
            kilni_ir_window_adaptive(call, &x.dims[2], &grad->dims[2], x.rank - 2u, &window, err);
    }
    return give_shape(status, &x, &outputs[0]);
}

kiln_status kiln_shape_max_unpool(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                  kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    kiln_tensor_desc shape;
    kiln_status status = shape_of(call, x->rank, &shape, err);
    if (status == KILN_STATUS_OK && (!kiln_desc_same_shape(x, &call->inputs[1]) ||
                                     shape.dims[0] != x->dims[0] || shape.dims[1] != x->dims[1])) {
        status = misfit(call, "the shapes do not fit", err);
    }
    return give_shape(status, &shape, &outputs[0]);
}

// ---- columns ----

static bool column_lengths(const kilni_ir_window *window, int64_t *out_taps, int64_t *out_count)
{
    bool fits = true;
    *out_taps = 1;
    *out_count = 1;
    for (uint32_t i = 0; i < KILNI_IR_SPATIAL; i++) {
        fits = fits && kilni_ir_mul(*out_taps, window->kernel[i], out_taps) &&
               kilni_ir_mul(*out_count, window->out[i], out_count);
    }
    return fits;
}

kiln_status kiln_shape_im2col(const kiln_op_record *call, kiln_tensor_desc *outputs,
                              kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    kilni_ir_window window;
    int64_t taps = 1;
    int64_t count = 1;
    if (x->rank < 3) {
        return misfit(call, "it needs 1 to 3 spatial axes", err);
    }
    kiln_status status = kilni_ir_window_of(call, &x->dims[2], x->rank - 2u, NULL, &window, err);
    if (status == KILN_STATUS_OK &&
        (!column_lengths(&window, &taps, &count) || !kilni_ir_mul(taps, x->dims[1], &taps))) {
        status = too_large(call, err);
    }
    if (status == KILN_STATUS_OK) {
        outputs[0].rank = 3;
        outputs[0].dims[0] = x->dims[0];
        outputs[0].dims[1] = taps;
        outputs[0].dims[2] = count;
    }
    return status;
}

kiln_status kiln_shape_col2im(const kiln_op_record *call, kiln_tensor_desc *outputs,
                              kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    uint32_t axes = 0;
    const int64_t *size = kilni_ir_ints(call, KILN_KEY_OUTPUT_SIZE, &axes);
    kilni_ir_window window;
    kiln_status status = kilni_ir_window_of(call, size, axes, NULL, &window, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    int64_t taps = 1;
    int64_t count = 1;
    if (!column_lengths(&window, &taps, &count) || x->rank != 3 || x->dims[2] != count ||
        x->dims[1] % taps != 0) {
        return misfit(call, "the columns do not fit the windows of output_size", err);
    }
    set_planes(&outputs[0], x->dims[0], x->dims[1] / taps, window.in, axes);
    return KILN_STATUS_OK;
}
