// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches conv.cl. Inputs that are not dense are copied first; for the direct
// form x is put among zeros, so that its kernel has no borders. Decides which form suits a
// convolution: with few channels in a group the direct one, on processors by planes where a group
// has one channel, else the product of the weight with columns. The geometry of windows is ir's and
// arrives as output lengths.
#include <string.h>

#include "exec_internal.h"
#include "product_args.h"

enum { DIRECT_CHANNELS = 8, ITEMS_EACH = 4, SIDE = 64, CONV_GROUP = 256 };
enum { PLANE_TAPS = 49, PLANE_BYTES = 512 * 1024, PLANE_ROWS = 4, PLANE_REACH = 64 };

/// Operands of a convolution, dense.
typedef struct operands {
    kiln_view x;
    kiln_view weight;
    kiln_view bias;
    bool has_bias;
} operands;

/// A window of one element that visits everything: the plane may be one row.
static void join_rows(kilni_exec_window *w)
{
    bool one = true;
    for (uint32_t i = 0; i < KILNI_EXEC_SPATIAL; i++) {
        one = one && w->taps[i] == 1 && w->strides[i] == 1 && w->begin[i] == 0 && w->end[i] == 0;
    }
    if (one) {
        w->in[2] = w->out[2] = kilni_exec_product(w->in);
        w->in[0] = w->in[1] = w->out[0] = w->out[1] = 1;
    }
}

// ---- the direct form ----

/// x as [n * c, depth, height, width] among zeros: the part from `begin` on that windows reach.
static kiln_status surround(kilni_exec *exec, const kiln_view *input, const int64_t *begin,
                            kiln_view *out_padded)
{
    int64_t size = (int64_t)kiln_dtype_size(input->dtype);
    kiln_view part = *input;
    kiln_view place = *out_padded;
    for (uint32_t i = 0; i < KILNI_EXEC_SPATIAL; i++) {
        int64_t room = out_padded->dims[1 + i] - begin[i];
        part.dims[1 + i] = part.dims[1 + i] < room ? part.dims[1 + i] : room > 0 ? room : 0;
        place.dims[1 + i] = part.dims[1 + i];
        place.offset_bytes += begin[i] * place.strides[1 + i] * size;
    }
    kiln_status status = kilni_exec_fill(exec, 0, out_padded);
    if (status == KILN_STATUS_OK && kilni_exec_count(&part) > 0) {
        status = kilni_exec_copy(exec, &part, &place);
    }
    return status;
}

/// Makes `s` and `input` those of a convolution without padding, whose rows are long enough for
/// whole vectors.
static kiln_status without_borders(kilni_exec *exec, kiln_conv_direct_shape *s,
                                   const kilni_exec_window *w, kiln_view *input, int64_t vector)
{
    kiln_tensor_desc desc = {.dtype = input->dtype, .rank = 1 + KILNI_EXEC_SPATIAL};
    bool fits = true;
    desc.dims[0] = s->batch * s->groups * s->channels;
    for (uint32_t i = 0; i < KILNI_EXEC_SPATIAL; i++) {
        int64_t out = i == 2 ? kilni_exec_ceil_div(w->out[i], vector) * vector : w->out[i];
        desc.dims[1 + i] = (out - 1) * w->strides[i] + (w->taps[i] - 1) * w->dilations[i] + 1;
        fits = fits && w->begin[i] == 0 && desc.dims[1 + i] <= w->in[i];
    }
    if (fits) {
        return KILN_STATUS_OK;
    }
    kiln_tensor_desc plain = desc;
    memcpy(&plain.dims[1], w->in, sizeof(w->in));
    kiln_view whole = kiln_view_dense(&plain, input->buffer);
    whole.offset_bytes = input->offset_bytes;
    kiln_view padded = kiln_view_dense(&desc, NULL);
    kiln_status status = kilni_exec_alloc(exec, kiln_desc_bytes(&desc), &padded.buffer);
    if (status == KILN_STATUS_OK && kilni_exec_count(&padded) > 0) {
        status = surround(exec, &whole, w->begin, &padded);
    }
    *input = padded;
    memcpy(s->in, &desc.dims[1], sizeof(s->in));
    s->start[1] = 0;
    return status;
}

static int64_t channels_each(const kilni_exec *exec, int64_t outputs)
{
    int64_t most = kilni_exec_is_block(exec) ? DIRECT_CHANNELS : DIRECT_CHANNELS / 2;
    while (most > 1 && most / 2 >= outputs) {
        most /= 2;
    }
    return most;
}

static kiln_status launch_direct(kilni_exec *exec, const kiln_conv_shape *c, const operands *with)
{
    int64_t vector = kilni_exec_vector(exec, exec->outputs[0].dtype);
    int64_t each = channels_each(exec, c->outputs);
    kiln_view input = with->x;
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    kiln_conv_direct_shape s = {.batch = c->images / c->groups,
                                .channels = c->channels,
                                .groups = c->groups,
                                .outputs = c->outputs};
    memcpy(s.in, c->w.in, sizeof(s.in));
    memcpy(s.out, c->w.out, sizeof(s.out));
    memcpy(s.taps, c->w.taps, sizeof(s.taps));
    memcpy(s.strides, c->w.strides, sizeof(s.strides));
    memcpy(s.dilations, c->w.dilations, sizeof(s.dilations));
    memcpy(s.start, c->start, sizeof(s.start));
    kiln_status status = without_borders(exec, &s, &c->w, &input, vector);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_exec_define_dtype(&options, "A", exec->outputs[0].dtype);
    kilni_exec_define(&options, "V", vector);
    kilni_exec_define(&options, "OB", each);
    kilni_exec_define(&options, "BIAS", with->has_bias ? 1 : 0);
    kilni_exec_define(&options, "STEP1", s.strides[2] == 1 ? 1 : 0);
    kilni_exec_define(&options, "DIRECT", 1);
    status = kilni_exec_kernel(exec, "conv.cl", "kiln_conv_direct", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    kilni_cl_push_buffer(&args, exec->outputs[0].buffer);
    kilni_cl_push_buffer(&args, input.buffer);
    kilni_cl_push_buffer(&args, with->weight.buffer);
    if (with->has_bias) {
        kilni_cl_push_buffer(&args, with->bias.buffer);
    }
    int64_t items = c->images * kilni_exec_ceil_div(s.outputs, each) * s.out[0] * s.out[1] *
                    kilni_exec_ceil_div(s.out[2], vector);
    return kilni_exec_launch(exec, &args, items, 64);
}

// ---- planes ----

static void plane_shape(const kilni_exec *exec, const kiln_conv_shape *c,
                        kiln_conv_plane_shape *out_shape)
{
    const kilni_exec_window *w = &c->w;
    int64_t vector = kilni_exec_vector(exec, exec->outputs[0].dtype);
    int64_t columns = kilni_exec_ceil_div(w->out[2], vector) * vector;
    int64_t wanted = ITEMS_EACH * (int64_t)exec->backend->info.compute_units;
    *out_shape = (kiln_conv_plane_shape){
        .images = c->images,
        .each = kilni_exec_ceil_div(c->images, wanted),
        .groups = c->groups,
        .outputs = c->outputs,
        .in = {w->in[1], w->in[2]},
        .out = {w->out[1], w->out[2]},
        .begin = {w->begin[1], w->begin[2]},
        .rows = (w->out[1] - 1) * w->strides[1] + (w->taps[1] - 1) * w->dilations[1] + 1,
        .part = columns + (w->taps[2] - 1) * w->dilations[2] / w->strides[2]};
    memcpy(out_shape->start, c->start, sizeof(out_shape->start));
}

/// Whether a channel fits the caches, among zeros, and there are enough of them.
static bool suits_planes(const kilni_exec *exec, const kiln_conv_shape *c)
{
    const kilni_exec_window *w = &c->w;
    kiln_conv_plane_shape s;
    plane_shape(exec, c, &s);
    int64_t size = (int64_t)kiln_dtype_size(kilni_exec_compute(exec->outputs[0].dtype));
    int64_t reach = PLANE_ROWS * w->strides[1] + (w->taps[1] - 1) * w->dilations[1];
    return kilni_exec_is_block(exec) && c->channels == 1 && kilni_exec_product(w->out) > 0 &&
           w->in[0] == 1 && w->out[0] == 1 && w->taps[0] == 1 && w->begin[0] == 0 &&
           kilni_exec_product(w->taps) <= PLANE_TAPS && reach <= PLANE_REACH &&
           c->images >= (int64_t)exec->backend->info.compute_units && s.begin[0] < s.rows &&
           s.begin[1] < s.part && s.rows < PLANE_BYTES &&
           s.rows * s.part * w->strides[2] * size <= PLANE_BYTES;
}

static kiln_status launch_planes(kilni_exec *exec, const kiln_conv_shape *c, const operands *with)
{
    kiln_dtype dtype = exec->outputs[0].dtype;
    kiln_buffer *scratch = NULL;
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    kiln_conv_plane_shape s;
    plane_shape(exec, c, &s);
    int64_t items = kilni_exec_ceil_div(s.images, s.each);
    int64_t size = (int64_t)kiln_dtype_size(kilni_exec_compute(dtype));
    kilni_exec_define_dtype(&options, "A", dtype);
    kilni_exec_define(&options, "V", kilni_exec_vector(exec, dtype));
    kilni_exec_define(&options, "BIAS", with->has_bias ? 1 : 0);
    kilni_exec_define(&options, "PLANE", 1);
    kilni_exec_define(&options, "KH", c->w.taps[1]);
    kilni_exec_define(&options, "KW", c->w.taps[2]);
    kilni_exec_define(&options, "SY", c->w.strides[1]);
    kilni_exec_define(&options, "SX", c->w.strides[2]);
    kilni_exec_define(&options, "DY", c->w.dilations[1]);
    kilni_exec_define(&options, "DX", c->w.dilations[2]);
    kilni_exec_define(&options, "ROWS", s.out[0] < PLANE_ROWS ? s.out[0] : PLANE_ROWS);
    kiln_status status =
        kilni_exec_alloc(exec, items * s.rows * s.part * c->w.strides[2] * size, &scratch);
    if (status == KILN_STATUS_OK) {
        status = kilni_exec_kernel(exec, "conv.cl", "kiln_conv_plane", &options, &args);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    kilni_cl_push_buffer(&args, exec->outputs[0].buffer);
    kilni_cl_push_buffer(&args, with->x.buffer);
    kilni_cl_push_buffer(&args, with->weight.buffer);
    kilni_cl_push_buffer(&args, scratch);
    if (with->has_bias) {
        kilni_cl_push_buffer(&args, with->bias.buffer);
    }
    return kilni_exec_launch(exec, &args, items, 64);
}

// ---- products with columns ----

/// Registers for sums: 16 of 32 with AVX-512, 12 of 16 with AVX, where a vector takes two. Blocks
/// of channels as equal as can be.
static void block_of(const kilni_exec *exec, int64_t outputs, int64_t *out_rows,
                     int64_t *out_vectors)
{
    bool wide = exec->backend->info.vector_bytes >= 64;
    int64_t most = wide ? 8 : 6;
    *out_vectors = wide ? 2 : 1;
    *out_rows = kilni_exec_ceil_div(outputs, kilni_exec_ceil_div(outputs, most));
}

/// Cuts the work for about four items a core: along tiles, and along channels when there are few.
static int64_t cut_work(const kilni_exec *exec, kiln_conv_shape *s, int64_t rows, int64_t tile)
{
    int64_t wanted = ITEMS_EACH * (int64_t)exec->backend->info.compute_units;
    s->tiles = kilni_exec_ceil_div(s->positions, tile);
    int64_t tiles = s->tiles * s->images;
    s->tiles_each = kilni_exec_ceil_div(tiles, tiles < wanted ? tiles : wanted);
    s->chunks = kilni_exec_ceil_div(tiles, s->tiles_each);
    int64_t blocks = kilni_exec_ceil_div(s->outputs, rows);
    int64_t splits = wanted / 2 / s->chunks;
    splits = splits < 1 ? 1 : splits > blocks ? blocks : splits;
    s->outputs_each = kilni_exec_ceil_div(blocks, splits) * rows;
    return s->chunks * kilni_exec_ceil_div(s->outputs, s->outputs_each);
}

static kiln_status launch_product(kilni_exec *exec, kiln_conv_shape *s, const operands *with)
{
    bool block = kilni_exec_is_block(exec);
    kiln_dtype dtype = exec->outputs[0].dtype;
    int64_t vector = kilni_exec_vector(exec, dtype);
    int64_t rows = 0;
    int64_t vectors = 0;
    kiln_buffer *scratch = NULL;
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    block_of(exec, s->outputs, &rows, &vectors);
    int64_t pieces =
        kilni_exec_ceil_div(s->positions, SIDE) * kilni_exec_ceil_div(s->outputs, SIDE) * s->images;
    int64_t items = block ? cut_work(exec, s, rows, vectors * vector) : pieces * CONV_GROUP;
    kiln_status status = KILN_STATUS_OK;
    if (block) {
        int64_t size = (int64_t)kiln_dtype_size(kilni_exec_compute(dtype));
        status = kilni_exec_alloc(exec, items * s->depth * vectors * vector * size, &scratch);
    }
    kilni_exec_define_dtype(&options, "A", dtype);
    kilni_exec_define(&options, "V", vector);
    kilni_exec_define(&options, "BIAS", with->has_bias ? 1 : 0);
    if (block) {
        kilni_exec_define(&options, "MR", rows);
        kilni_exec_define(&options, "NR", vectors);
    }
    kilni_exec_define(&options, block ? "BLOCK" : "TILE", 1);
    if (status == KILN_STATUS_OK) {
        status = kilni_exec_kernel(exec, "conv.cl", block ? "kiln_conv_block" : "kiln_conv_tile",
                                   &options, &args);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, s, sizeof(*s));
    kilni_cl_push_buffer(&args, exec->outputs[0].buffer);
    kilni_cl_push_buffer(&args, with->x.buffer);
    kilni_cl_push_buffer(&args, with->weight.buffer);
    if (block) {
        kilni_cl_push_buffer(&args, scratch);
    }
    if (with->has_bias) {
        kilni_cl_push_buffer(&args, with->bias.buffer);
    }
    return kilni_exec_launch(exec, &args, items, CONV_GROUP);
}

// ---- operators ----

static kiln_status run_conv(kilni_exec *exec, const operands *with)
{
    const kiln_view *out = &exec->outputs[0];
    kiln_conv_shape s = {.groups = kiln_op_attr_i64(exec->record, KILN_KEY_GROUPS)};
    kilni_exec_window_init(exec, &s.w, &with->x, out, &with->weight);
    join_rows(&s.w);
    s.start[0] = kilni_exec_start(out);
    s.start[1] = kilni_exec_start(&with->x);
    s.start[2] = kilni_exec_start(&with->weight);
    s.start[3] = with->has_bias ? kilni_exec_start(&with->bias) : 0;
    s.images = with->x.dims[0] * s.groups;
    s.channels = with->weight.dims[1];
    s.outputs = with->weight.dims[0] / s.groups;
    s.positions = kilni_exec_product(s.w.out);
    s.depth = s.channels * kilni_exec_product(s.w.taps);
    if (suits_planes(exec, &s)) {
        return launch_planes(exec, &s, with);
    }
    bool few = s.outputs < DIRECT_CHANNELS / (kilni_exec_is_block(exec) ? 2 : 1);
    return few || s.depth > INT32_MAX ? launch_direct(exec, &s, with)
                                      : launch_product(exec, &s, with);
}

kiln_status kilni_exec_conv(kilni_exec *exec)
{
    operands with = {.has_bias = exec->record->n_inputs == 3};
    kiln_status status = kilni_exec_dense(exec, &exec->inputs[0], &with.x);
    if (status == KILN_STATUS_OK) {
        status = kilni_exec_dense(exec, &exec->inputs[1], &with.weight);
    }
    if (status == KILN_STATUS_OK && with.has_bias) {
        status = kilni_exec_dense(exec, &exec->inputs[2], &with.bias);
    }
    return status == KILN_STATUS_OK ? run_conv(exec, &with) : status;
}

kiln_status kilni_exec_conv_integer(kilni_exec *exec)
{
    operands with = {.has_bias = false};
    kiln_status status = kilni_exec_shift(exec, 0, 0, &with.x);
    if (status == KILN_STATUS_OK) {
        status = kilni_exec_shift(exec, 1, 0, &with.weight);
    }
    return status == KILN_STATUS_OK ? run_conv(exec, &with) : status;
}
