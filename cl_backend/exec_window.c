// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches conv2d.cl and pool2d.cl. Inputs that are not dense are copied first, that of conv2d with
// its padding as zeros, so that its kernel has no borders. Decides how many channels share a loaded
// vector and how the work is cut; the geometry of windows is ir's and arrives as output lengths.
#include "exec_internal.h"

enum { CHANNELS = 8, ITEM_WORK = 4096 };

typedef struct conv_shape { ///< kiln_conv2d_shape of the kernel
    int64_t batch;
    int64_t channels;
    int64_t height;
    int64_t width;
    int64_t groups;
    int64_t outputs;
    int64_t out_height;
    int64_t out_width;
    int64_t kernel[2];
    int64_t strides[2];
    int64_t dilations[2];
    int64_t start[4];
} conv_shape;

typedef struct pool_shape { ///< kiln_pool2d_shape of the kernel
    int64_t planes;
    int64_t height;
    int64_t width;
    int64_t out_height;
    int64_t out_width;
    int64_t each;
    int64_t kernel[2];
    int64_t strides[2];
    int64_t dilations[2];
    int64_t begin[2];
    int64_t end[2];
    int64_t start[2];
} pool_shape;

static void conv_shape_init(const kilni_exec *exec, conv_shape *s, const kiln_view views[3])
{
    const kiln_view *out = &exec->outputs[0];
    s->groups = kiln_op_attr_i64(exec->record, KILN_KEY_GROUPS);
    s->batch = views[0].dims[0];
    s->channels = views[1].dims[1];
    s->height = views[0].dims[2];
    s->width = views[0].dims[3];
    s->outputs = views[1].dims[0] / s->groups;
    s->out_height = out->dims[2];
    s->out_width = out->dims[3];
    for (uint32_t i = 0; i < 2; i++) {
        s->kernel[i] = views[1].dims[2 + i];
        s->strides[i] = kilni_exec_list(exec, KILN_KEY_STRIDES, i, 1);
        s->dilations[i] = kilni_exec_list(exec, KILN_KEY_DILATIONS, i, 1);
    }
    s->start[0] = kilni_exec_start(out);
    for (unsigned i = 0; i < exec->record->n_inputs; i++) {
        s->start[i + 1] = kilni_exec_start(&views[i]);
    }
}

/* The part of the input from `begin` on that windows reach, at its place among zeros. */
static kiln_status conv_surround(kilni_exec *exec, const kiln_view *input, const int64_t begin[2],
                                 kiln_view *out_padded)
{
    int64_t size = (int64_t)kiln_dtype_size(input->dtype);
    kiln_view part = *input;
    kiln_view place = *out_padded;
    for (uint32_t i = 0; i < 2; i++) {
        int64_t room = out_padded->dims[2 + i] - begin[i];
        part.dims[2 + i] = part.dims[2 + i] < room ? part.dims[2 + i] : room;
        place.dims[2 + i] = part.dims[2 + i];
        place.offset_bytes += begin[i] * place.strides[2 + i] * size;
    }
    kiln_status st = kilni_exec_fill(exec, 0, out_padded);
    if (st == KILN_STATUS_OK && kilni_exec_count(&part) > 0) {
        st = kilni_exec_copy(exec, &part, &place);
    }
    return st;
}

/* Makes `s` and `input` those of a convolution without padding, whose rows are long enough for
 * whole vectors. */
static kiln_status conv_without_borders(kilni_exec *exec, conv_shape *s, kiln_view *input,
                                        int64_t vector)
{
    const int64_t out[2] = {s->out_height, kilni_exec_ceil_div(s->out_width, vector) * vector};
    kiln_tensor_desc desc = {.dtype = input->dtype, .rank = 4};
    int64_t begin[2];
    bool fits = true;
    desc.dims[0] = input->dims[0];
    desc.dims[1] = input->dims[1];
    for (uint32_t i = 0; i < 2; i++) {
        begin[i] = kilni_exec_list(exec, KILN_KEY_PADDING, i, 0);
        desc.dims[2 + i] = (out[i] - 1) * s->strides[i] + (s->kernel[i] - 1) * s->dilations[i] + 1;
        fits = fits && begin[i] == 0 && desc.dims[2 + i] <= input->dims[2 + i];
    }
    if (fits) {
        return KILN_STATUS_OK;
    }
    kiln_view padded = kiln_view_dense(&desc, NULL);
    kiln_status st = kilni_exec_alloc(exec, kiln_desc_bytes(&desc), &padded.buffer);
    if (st == KILN_STATUS_OK && kilni_exec_count(&padded) > 0) {
        st = conv_surround(exec, input, begin, &padded);
    }
    *input = padded;
    s->height = padded.dims[2];
    s->width = padded.dims[3];
    s->start[1] = 0;
    return st;
}

/* A window of one element that visits everything: rows may be joined into one. */
static void conv_join_rows(const kilni_exec *exec, conv_shape *s, kiln_view *input)
{
    bool one = s->kernel[0] == 1 && s->kernel[1] == 1 && s->strides[0] == 1 && s->strides[1] == 1;
    for (uint32_t i = 0; i < 4; i++) {
        one = one && kilni_exec_list(exec, KILN_KEY_PADDING, i, 0) == 0;
    }
    if (one) {
        s->out_width = s->width = input->dims[3] = s->height * s->width;
        s->out_height = s->height = input->dims[2] = 1;
        input->strides[2] = input->dims[3];
    }
}

static int64_t channels_each(const kilni_exec *exec, const conv_shape *s)
{
    int64_t most = kilni_exec_is_block(exec) ? CHANNELS : CHANNELS / 2;
    while (most > 1 && most / 2 >= s->outputs) {
        most /= 2;
    }
    return most;
}

kiln_status kilni_exec_conv2d(kilni_exec *exec)
{
    conv_shape s = {.batch = 0};
    kiln_view views[3];
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    kiln_status st = KILN_STATUS_OK;
    unsigned n_inputs = exec->record->n_inputs;
    int64_t vector = kilni_exec_vector(exec, exec->outputs[0].dtype);
    for (unsigned i = 0; st == KILN_STATUS_OK && i < n_inputs; i++) {
        st = kilni_exec_dense(exec, &exec->inputs[i], &views[i]);
    }
    if (st != KILN_STATUS_OK) {
        return st;
    }
    conv_shape_init(exec, &s, views);
    conv_join_rows(exec, &s, &views[0]);
    st = conv_without_borders(exec, &s, &views[0], vector);
    if (st != KILN_STATUS_OK) {
        return st;
    }
    int64_t each = channels_each(exec, &s);
    kilni_exec_define_dtype(&options, "A", exec->outputs[0].dtype);
    kilni_exec_define(&options, "V", vector);
    kilni_exec_define(&options, "OB", each);
    kilni_exec_define(&options, "BIAS", n_inputs == 3 ? 1 : 0);
    kilni_exec_define(&options, "STEP1", s.strides[1] == 1 ? 1 : 0);
    st = kilni_exec_kernel(exec, "conv2d.cl", "kiln_conv2d", &options, &args);
    if (st != KILN_STATUS_OK) {
        return st;
    }
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    kilni_cl_push_buffer(&args, exec->outputs[0].buffer);
    for (unsigned i = 0; i < n_inputs; i++) {
        kilni_cl_push_buffer(&args, views[i].buffer);
    }
    int64_t items = s.batch * s.groups * kilni_exec_ceil_div(s.outputs, each) * s.out_height *
                    kilni_exec_ceil_div(s.out_width, vector);
    return kilni_exec_launch(exec, &args, items, 64);
}

static void pool_shape_init(const kilni_exec *exec, pool_shape *s, const kiln_view *input)
{
    const kiln_view *out = &exec->outputs[0];
    s->planes = out->dims[0] * out->dims[1];
    s->height = input->dims[2];
    s->width = input->dims[3];
    s->out_height = out->dims[2];
    s->out_width = out->dims[3];
    for (uint32_t i = 0; i < 2; i++) {
        s->kernel[i] = kilni_exec_list(exec, KILN_KEY_KERNEL, i, 1);
        s->strides[i] = kilni_exec_list(exec, KILN_KEY_STRIDES, i, 1);
        s->dilations[i] = kilni_exec_list(exec, KILN_KEY_DILATIONS, i, 1);
        s->begin[i] = kilni_exec_list(exec, KILN_KEY_PADDING, i, 0);
        s->end[i] = kilni_exec_list(exec, KILN_KEY_PADDING, 2 + i, 0);
    }
    s->start[0] = kilni_exec_start(out);
    s->start[1] = kilni_exec_start(input);
}

kiln_status kilni_exec_pool2d(kilni_exec *exec)
{
    pool_shape s = {.each = 1};
    kiln_view input;
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    bool block = kilni_exec_is_block(exec);
    bool mean = exec->record->op == KILN_OP_AVG_POOL2D;
    kiln_status st = kilni_exec_dense(exec, &exec->inputs[0], &input);
    if (st != KILN_STATUS_OK) {
        return st;
    }
    pool_shape_init(exec, &s, &input);
    int64_t rows = s.planes * s.out_height;
    if (block) {
        int64_t work = s.out_width * s.kernel[0] * s.kernel[1];
        int64_t fair = kilni_exec_ceil_div(rows, 4 * (int64_t)exec->backend->info.compute_units);
        s.each = ITEM_WORK / work + 1 < fair ? ITEM_WORK / work + 1 : fair;
    }
    bool include_pad = mean && kiln_op_attr_i64(exec->record, KILN_KEY_INCLUDE_PAD) != 0;
    kilni_exec_define_dtype(&options, "A", input.dtype);
    kilni_exec_define(&options, "MEAN", mean ? 1 : 0);
    kilni_exec_define(&options, "INCLUDE_PAD", include_pad ? 1 : 0);
    kilni_exec_define(&options, "ROWS", block ? 1 : 0);
    st = kilni_exec_kernel(exec, "pool2d.cl", "kiln_pool2d", &options, &args);
    if (st != KILN_STATUS_OK) {
        return st;
    }
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    kilni_cl_push_buffer(&args, exec->outputs[0].buffer);
    kilni_cl_push_buffer(&args, input.buffer);
    int64_t items = block ? kilni_exec_ceil_div(rows, s.each) : rows * s.out_width;
    return kilni_exec_launch(exec, &args, items, 256);
}
