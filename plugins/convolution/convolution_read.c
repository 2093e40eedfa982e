// SPDX-License-Identifier: MIT OR Apache-2.0
// What an operation is in a region: a convolution of an image with constant weights, or what lies
// between convolutions: batch norms, elementwise operators, pooling, means over an image.
// Everything but the number of images is asked for, so a plan belongs to one size of image.
#include "convolution_internal.h"

enum { MOST_TAPS = 16, MOST_PADDING = 64 };

uint32_t cv_decline(const cv_reader *r, uint32_t code, const char *why)
{
    return kf_decline(r->host, code, r->op->position, "%s", why);
}

int32_t cv_extent(const cv_reader *r, const kf_dim *dim)
{
    int64_t value = 0;
    if ((dim->flags & KF_DIM_VALUE) != 0) {
        value = dim->value;
    } else if (r->block->dim_value(r->block, dim->symbol, &value) != KF_OK) {
        return 0;
    }
    return value > 0 && value < INT32_MAX / 4 ? (int32_t)value : 0;
}

uint32_t cv_find(const cv_region *region, uint32_t id)
{
    for (uint32_t i = region->n_values; i-- > 0;) {
        if (region->values[i].id == id) {
            return i;
        }
    }
    return CV_NONE;
}

uint32_t cv_op_reads(const cv_op *op, uint32_t value)
{
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        if (op->inputs[i] == value) {
            return 1;
        }
    }
    return 0;
}

/// May images have floats of the dtype? In groups all have one, of 16 bits.
static uint32_t takes_float(const cv_reader *r, uint32_t dtype)
{
    if (!r->device->in_groups) {
        return cv_is_float(dtype);
    }
    return r->region->n_images > 0 ? dtype == r->region->element : cv_is_narrow(dtype);
}

static uint32_t may_be_image(const cv_reader *r, const kf_tensor *t)
{
    if (takes_float(r, t->dtype)) {
        return t->rank == 4 || (t->rank == 3 && !r->device->in_groups);
    }
    return (t->rank == 3 || t->rank == 4) && !r->device->in_groups &&
           (t->dtype == KF_DTYPE_I32 || cv_is_byte(t->dtype));
}

/// The same batch and rank as the region's, or the first.
uint32_t cv_read_image(const cv_reader *r, const kf_tensor *t, cv_value *out)
{
    if (!may_be_image(r, t)) {
        return 0;
    }
    *out = (cv_value){.id = t->id,
                      .batch = t->dims[0].symbol,
                      .channels = cv_extent(r, &t->dims[1]),
                      .height = t->rank == 4 ? cv_extent(r, &t->dims[2]) : 1,
                      .width = cv_extent(r, &t->dims[t->rank - 1]),
                      .rank = (uint8_t)t->rank,
                      .op = CV_NONE,
                      .dtype = (uint8_t)t->dtype,
                      .is_image = 1};
    int64_t plane = (int64_t)(out->height + MOST_PADDING) * (out->width + MOST_PADDING);
    return out->channels > 0 && out->height > 0 && out->width > 0 &&
           plane * (out->channels + CV_LANES) < INT32_MAX &&
           (r->region->n_images == 0 ||
            (out->batch == r->region->batch && out->rank == r->region->rank));
}

uint32_t cv_add_value(cv_region *region, const cv_value *value)
{
    region->n_outside += value->is_image && value->op == CV_NONE;
    if (value->is_image) {
        region->batch = value->batch;
        region->rank = value->rank;
        region->element = cv_is_narrow(value->dtype) ? value->dtype : KF_DTYPE_F32;
        region->n_images++;
    }
    region->values[region->n_values] = *value;
    return region->n_values++;
}

void cv_add_op(cv_reader *r)
{
    cv_region *region = r->region;
    r->result.op = (uint16_t)region->n_ops;
    r->made.result = (uint16_t)cv_add_value(region, &r->result);
    r->made.position = r->op->position;
    region->ops[region->n_ops++] = r->made;
}

uint32_t cv_read_input(cv_reader *r, uint32_t index)
{
    const kf_tensor *t = r->op->inputs[index];
    cv_value image;
    uint32_t known = cv_find(r->region, t->id);
    if (known != CV_NONE) {
        return r->region->values[known].is_image ? known : CV_NONE;
    }
    return cv_read_image(r, t, &image) && (t->facts & KF_FACT_CONTIGUOUS) != 0
               ? cv_add_value(r->region, &image)
               : CV_NONE;
}

static uint32_t float_input(cv_reader *r, uint32_t index)
{
    uint32_t image = cv_read_input(r, index);
    return image != CV_NONE && takes_float(r, r->region->values[image].dtype) ? image : CV_NONE;
}

uint32_t cv_read_constant(cv_reader *r, uint32_t index, uint32_t dtype)
{
    const kf_tensor *t = r->op->inputs[index];
    uint32_t wanted = KF_TENSOR_CONST | KF_TENSOR_EXTERNAL;
    uint32_t known = cv_find(r->region, t->id);
    if ((t->flags & wanted) != wanted || t->dtype != dtype ||
        (t->facts & KF_FACT_CONTIGUOUS) == 0) {
        return CV_NONE;
    }
    if (known != CV_NONE) {
        const cv_value *v = &r->region->values[known];
        return v->is_image || v->op != CV_NONE ? CV_NONE : known;
    }
    cv_value constant = {.id = t->id,
                         .op = CV_NONE,
                         .channels = 1,
                         .height = 1,
                         .width = 1,
                         .dtype = (uint8_t)dtype};
    for (uint32_t i = 0; i < t->rank; i++) {
        constant.channels *= cv_extent(r, &t->dims[i]);
    }
    return cv_add_value(r->region, &constant);
}

/// A constant with a number for each channel of an image, or one for all.
static uint32_t vector_of(cv_reader *r, uint32_t index, uint32_t axis_from_end, int32_t channels,
                          uint32_t dtype)
{
    const kf_tensor *t = r->op->inputs[index];
    for (uint32_t i = 0; i < t->rank; i++) {
        int32_t length = cv_extent(r, &t->dims[i]);
        if (length != 1 && (t->rank - i != axis_from_end || length != channels)) {
            return CV_NONE;
        }
    }
    return cv_read_constant(r, index, dtype);
}

static uint32_t vector_input(cv_reader *r, uint32_t index, uint32_t axis_from_end, int32_t channels)
{
    uint32_t dtype = r->op->inputs[index]->dtype;
    return takes_float(r, dtype) ? vector_of(r, index, axis_from_end, channels, dtype) : CV_NONE;
}

int32_t cv_list_at(const kf_op *op, uint32_t key, uint32_t i, int32_t otherwise)
{
    const kf_attr *attr = kf_op_attr(op, key);
    if (attr == NULL || (attr->type == KF_TYPE_I64S && attr->count == 0)) {
        return otherwise;
    }
    int64_t value = attr->type == KF_TYPE_I64S ? attr->v.iv[i < attr->count ? i : 0] : attr->v.i;
    return value >= 0 && value <= MOST_PADDING ? (int32_t)value : -1;
}

uint32_t cv_is_set(const kf_op *op, uint32_t key)
{
    const kf_attr *attr = kf_op_attr(op, key);
    return attr != NULL && attr->type == KF_TYPE_BOOL && attr->v.i != 0;
}

/// One axis of the window; `i`: which of the image's `axes`.
static uint32_t read_axis(cv_reader *r, uint32_t i, uint32_t axes, int32_t length)
{
    cv_window *w = &r->made.window;
    uint32_t at = i + 2 - axes; // a line has no rows
    int32_t stride = cv_list_at(r->op, KF_ATTR_STRIDES, i, 1);
    int32_t dilation = cv_list_at(r->op, KF_ATTR_DILATIONS, i, 1);
    int32_t begin = cv_list_at(r->op, KF_ATTR_PADDING, i, 0);
    int32_t end = cv_list_at(r->op, KF_ATTR_PADDING, i + axes, 0);
    if (length < 1 || stride < 1 || dilation < 1 || begin < 0 || end < 0 || length > MOST_TAPS ||
        (length - 1) * dilation >= MOST_PADDING) {
        return 0;
    }
    w->lengths[at] = (uint8_t)length;
    w->strides[at] = (uint8_t)stride;
    w->dilations[at] = (uint8_t)dilation;
    w->begin[at] = (uint8_t)begin;
    w->end[at] = (uint8_t)end;
    return 1;
}

uint32_t cv_read_window(cv_reader *r, const int32_t lengths[2])
{
    uint32_t axes = r->region->rank - 2u, good = 1;
    r->made.window = (cv_window){.lengths = {1, 1}, .strides = {1, 1}, .dilations = {1, 1}};
    for (uint32_t i = 0; i < axes; i++) {
        good &= read_axis(r, i, axes, lengths[i]);
    }
    return good;
}

// ---- operations ----

static const uint32_t window_keys[] = {
    KF_ATTR_STRIDES,   KF_ATTR_PADDING, KF_ATTR_DILATIONS,   KF_ATTR_GROUPS,   KF_ATTR_KERNEL,
    KF_ATTR_CEIL_MODE, KF_ATTR_AXES,    KF_ATTR_INCLUDE_PAD, KF_ATTR_KEEPDIMS, KF_ATTR_EPSILON};

static uint32_t understood(const cv_reader *r, const uint32_t *keys, uint32_t n_keys)
{
    return kf_op_understood(r->op, 1, keys, n_keys) && r->op->n_outputs == 1 &&
           r->op->n_inputs <= 5;
}

/// A constant of floats, or what the region has derived from one of 8 bits.
static uint32_t weights_input(cv_reader *r, uint32_t index)
{
    uint32_t dtype = r->op->inputs[index]->dtype;
    uint32_t known = cv_find(r->region, r->op->inputs[index]->id);
    cv_scaled weights;
    if (known != CV_NONE && r->region->values[known].op != CV_NONE) {
        return !r->region->values[known].is_image && cv_scaled_of(r->region, known, &weights)
                   ? known
                   : CV_NONE;
    }
    return takes_float(r, dtype) ? cv_read_constant(r, index, dtype) : CV_NONE;
}

static cv_kind kind_of(int32_t inputs, int32_t outputs, int32_t groups)
{
    if (groups == 1 || (inputs % CV_LANES == 0 && outputs % CV_LANES == 0)) {
        return CV_CONV;
    }
    return inputs == 1 && outputs == 1 ? CV_DEPTHWISE : CV_GROUPED;
}

static uint32_t read_conv(cv_reader *r)
{
    const kf_tensor *weight = r->op->inputs[1];
    const kf_attr *groups = kf_op_attr(r->op, KF_ATTR_GROUPS);
    int64_t n_groups = groups != NULL ? groups->v.i : 1;
    uint32_t x = float_input(r, 0), w = weights_input(r, 1);
    if (x == CV_NONE || w == CV_NONE || weight->rank != r->region->rank || r->op->n_inputs > 3) {
        return cv_decline(r, KF_CODE_SHAPE,
                          "not one or two axes of floats with constant, dense weights");
    }
    int32_t channels = r->region->values[x].channels;
    int32_t outputs = cv_extent(r, &weight->dims[0]);
    int32_t lengths[2] = {cv_extent(r, &weight->dims[2]),
                          cv_extent(r, &weight->dims[weight->rank - 1])};
    if (n_groups < 1 || channels % n_groups != 0 || outputs % n_groups != 0 ||
        !cv_read_window(r, lengths)) {
        return cv_decline(r, KF_CODE_SHAPE, "no whole groups, or a large window");
    }
    r->made.groups = (int32_t)n_groups;
    r->made.kind = kind_of(channels / r->made.groups, outputs / r->made.groups, r->made.groups);
    r->made.inputs[0] = (uint16_t)x;
    r->made.inputs[1] = (uint16_t)w;
    r->made.n_inputs = 2;
    if (r->op->n_inputs == 3) {
        uint32_t bias = vector_input(r, 2, 1, outputs);
        if (bias == CV_NONE) {
            return cv_decline(r, KF_CODE_SHAPE, "its bias is no constant");
        }
        r->made.inputs[r->made.n_inputs++] = (uint16_t)bias;
    }
    return 1;
}

static uint32_t read_pool(cv_reader *r)
{
    int32_t lengths[2] = {cv_list_at(r->op, KF_ATTR_KERNEL, 0, -1),
                          cv_list_at(r->op, KF_ATTR_KERNEL, 1, -1)};
    uint32_t x = float_input(r, 0);
    if (x == CV_NONE || r->region->values[x].op == CV_NONE || !cv_read_window(r, lengths)) {
        return cv_decline(r, KF_CODE_SHAPE, "not of what the region computes, or a large window");
    }
    r->made.kind = CV_POOL;
    r->made.inputs[0] = (uint16_t)x;
    r->made.n_inputs = 1;
    r->made.is_max = r->op->kind == KF_OP_MAX_POOL;
    r->made.include_pad = (uint8_t)cv_is_set(r->op, KF_ATTR_INCLUDE_PAD);
    return 1;
}

static uint32_t read_mean(cv_reader *r)
{
    const kf_attr *axes = kf_op_attr(r->op, KF_ATTR_AXES);
    uint32_t x = float_input(r, 0), seen = 0, rank = r->region->rank;
    for (uint32_t i = 0; axes != NULL && i < axes->count && axes->type == KF_TYPE_I64S; i++) {
        seen |= 1u << (uint32_t)(axes->v.iv[i] + rank) % rank;
    }
    if (x == CV_NONE || r->region->values[x].op == CV_NONE || seen != (1u << rank) - 4 ||
        !cv_is_set(r->op, KF_ATTR_KEEPDIMS)) {
        return cv_decline(r, KF_CODE_SHAPE, "not of the whole image, or axes are dropped");
    }
    r->made.kind = CV_MEAN;
    r->made.inputs[0] = (uint16_t)x;
    r->made.n_inputs = 1;
    return 1;
}

static uint32_t read_number(const kf_attr *attr, cv_number *out)
{
    *out = (cv_number){.is_scalar = attr->type == KF_TYPE_SCALAR, .index = (uint32_t)attr->v.i};
    if (attr->type == KF_TYPE_F64) {
        out->value = attr->v.f;
    } else if (attr->type == KF_TYPE_I64 || attr->type == KF_TYPE_BOOL) {
        out->value = (double)attr->v.i;
    }
    return attr->type == KF_TYPE_SCALAR || attr->type == KF_TYPE_F64 || attr->type == KF_TYPE_I64 ||
           attr->type == KF_TYPE_BOOL;
}

static uint32_t read_norm(cv_reader *r)
{
    const kf_attr *epsilon = kf_op_attr(r->op, KF_ATTR_EPSILON);
    uint32_t x = float_input(r, 0);
    if (x == CV_NONE || r->region->values[x].op == CV_NONE || r->op->n_inputs != 5) {
        return cv_decline(r, KF_CODE_SHAPE, "not of what the region computes");
    }
    r->made.kind = CV_NORM;
    r->made.inputs[0] = (uint16_t)x;
    r->made.n_inputs = 5;
    r->made.numbers[0] = (cv_number){.value = 1e-5};
    for (uint32_t i = 1; i < 5; i++) {
        uint32_t vector = vector_input(r, i, 1, r->region->values[x].channels);
        if (vector == CV_NONE) {
            return cv_decline(r, KF_CODE_SHAPE, "its numbers are no constants");
        }
        r->made.inputs[i] = (uint16_t)vector;
    }
    return epsilon == NULL || read_number(epsilon, &r->made.numbers[0]);
}

static uint32_t numbers_fit(cv_reader *r, const kf_ew_row *row)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->op->n_attrs; i++) {
        if ((r->op->attrs[i].flags & KF_ATTR_FLAG_HINT) != 0) {
            continue;
        }
        if (count == 2 || !read_number(&r->op->attrs[i], &r->made.numbers[count++])) {
            return 0;
        }
    }
    if (count == 0 && row->op == KF_OP_LEAKY_RELU) {
        r->made.numbers[count++] = (cv_number){.value = 0.01};
    }
    return count == row->scalars;
}

/// Of the result's shape, or one place for all, or a constant for each channel.
static uint32_t map_input(cv_reader *r, uint32_t index)
{
    const cv_value *result = &r->result;
    uint32_t axis_from_end = result->rank - 1u;
    uint32_t known = cv_find(r->region, r->op->inputs[index]->id);
    if (known != CV_NONE && r->region->values[known].passage == CV_VECTOR_AS_IMAGE) {
        const cv_value *vector = &r->region->values[known];
        return vector->channels == result->channels && r->op->inputs[index]->rank == result->rank
                   ? vector->of
                   : CV_NONE;
    }
    if (known == CV_NONE) {
        uint32_t vector = vector_input(r, index, axis_from_end, result->channels);
        if (vector != CV_NONE) {
            return vector;
        }
    }
    uint32_t image = cv_read_input(r, index);
    if (image == CV_NONE) {
        // a constant that is known already
        return vector_input(r, index, axis_from_end, result->channels);
    }
    const cv_value *v = &r->region->values[image];
    return v->channels == result->channels &&
                   ((v->height == result->height && v->width == result->width) ||
                    (v->height == 1 && v->width == 1))
               ? image
               : CV_NONE;
}

/// Casts between floats, and between f32 and 8 bits, by way of i32 in the one direction; there a
/// number is taken off.
static uint32_t dtypes_fit(const cv_reader *r)
{
    uint32_t to = r->result.dtype, from = r->region->values[r->made.inputs[0]].dtype;
    if (r->made.row->op == KF_OP_CAST) {
        return (cv_is_float(from) && cv_is_float(to)) || (from == KF_DTYPE_F32 && cv_is_byte(to)) ||
               (cv_is_byte(from) && to == KF_DTYPE_I32) ||
               (from == KF_DTYPE_I32 && to == KF_DTYPE_F32);
    }
    if (r->made.row->op == KF_OP_SUB_SCALAR && to == KF_DTYPE_I32) {
        return from == KF_DTYPE_I32;
    }
    for (uint32_t i = 0; i < r->made.n_inputs; i++) {
        if (r->region->values[r->made.inputs[i]].dtype != to) {
            return 0;
        }
    }
    return cv_is_float(to);
}

/// Images from outside come by convolutions and beside what the region has computed, except where
/// they are or become numbers of 8 bits.
static uint32_t may_begin(const cv_reader *r)
{
    const cv_value *image = &r->region->values[r->made.inputs[0]];
    return image->is_image && (cv_is_byte(image->dtype) ||
                               (image->dtype == KF_DTYPE_F32 && r->region->n_products == 0 &&
                                r->made.row->op == KF_OP_DIV_SCALAR));
}

/// Whether an operator is arithmetic or of an activation. What is dearer costs more than the passes
/// over memory that it saves, and runs no faster behind a convolution than alone.
static uint32_t is_cheap(const kf_ew_row *row)
{
    static const uint32_t activations[] = {KF_OP_EXP,     KF_OP_LOG,  KF_OP_ERF,  KF_OP_EXPM1,
                                           KF_OP_SIGMOID, KF_OP_TANH, KF_OP_LOG1P};
    uint32_t listed = 0;
    for (uint32_t i = 0; i < sizeof(activations) / sizeof(activations[0]); i++) {
        listed |= row->op == activations[i];
    }
    return listed || row->cost < 16;
}

/// What is elementwise, with its numbers, as a row of the table and `kind`; operands are missing.
static uint32_t read_row(cv_reader *r, cv_kind kind)
{
    static const uint32_t keys[] = {KF_ATTR_VALUE, KF_ATTR_MIN, KF_ATTR_MAX, KF_ATTR_SLOPE,
                                    KF_ATTR_DTYPE};
    const kf_ew_row *row = kf_ew_row_of(r->op->kind);
    uint32_t is_cast = r->op->kind == KF_OP_CAST;
    if (row == NULL || (row->result != KF_EW_SAME && !is_cast) || row->text[0] == NULL ||
        row->inputs != r->op->n_inputs || row->inputs == 0) {
        return cv_decline(r, KF_CODE_UNKNOWN_OP, "not an operator between convolutions");
    }
    if (!is_cheap(row)) {
        return cv_decline(r, KF_CODE_COST, "it costs more than the passes over memory it saves");
    }
    if (!understood(r, keys, sizeof(keys) / sizeof(keys[0])) ||
        (!is_cast && !numbers_fit(r, row))) {
        return cv_decline(r, KF_CODE_NOT_UNDERSTOOD, "a version, flag or attribute that is newer");
    }
    r->made.kind = kind;
    r->made.row = row;
    r->made.n_inputs = (uint8_t)row->inputs;
    return 1;
}

static uint32_t read_map(cv_reader *r)
{
    uint32_t follows = 0;
    if (!read_row(r, CV_MAP)) {
        return 0;
    }
    for (uint32_t i = 0; i < r->made.n_inputs; i++) {
        uint32_t value = map_input(r, i);
        if (value == CV_NONE) {
            return cv_decline(r, KF_CODE_SHAPE,
                              "an operand is neither an image nor one per channel");
        }
        follows |= r->region->values[value].op != CV_NONE;
        r->made.inputs[i] = (uint16_t)value;
    }
    if (!dtypes_fit(r)) {
        return cv_decline(r, KF_CODE_DTYPE, "not floats, nor on the way from or to 8 bits");
    }
    return follows || may_begin(r) ||
           cv_decline(r, KF_CODE_SHAPE, "it does not continue from a convolution");
}

// ---- weights of 8 bits ----

uint32_t cv_derives(const cv_reader *r)
{
    const kf_op *op = r->op;
    const kf_tensor *t = op->n_inputs > 0 ? op->inputs[0] : NULL;
    if (t == NULL || (t->rank != 3 && t->rank != 4) || op->n_outputs != 1 || op->n_inputs > 2) {
        return 0;
    }
    uint32_t known = cv_find(r->region, t->id);
    if (known != CV_NONE && r->region->values[known].op != CV_NONE) {
        return !r->region->values[known].is_image;
    }
    return op->kind == KF_OP_CAST && cv_is_byte(t->dtype) && (t->flags & KF_TENSOR_CONST) != 0;
}

/// A constant, or what was derived before.
static uint32_t derived_input(cv_reader *r)
{
    uint32_t known = cv_find(r->region, r->op->inputs[0]->id);
    return known != CV_NONE && r->region->values[known].op != CV_NONE
               ? known
               : cv_read_constant(r, 0, r->op->inputs[0]->dtype);
}

uint32_t cv_read_derived(cv_reader *r)
{
    const kf_tensor *t = r->op->outputs[0];
    uint32_t kind = r->op->kind, second = CV_NONE;
    if (kind != KF_OP_CAST && kind != KF_OP_SUB && kind != KF_OP_SUB_SCALAR && kind != KF_OP_MUL &&
        kind != KF_OP_MUL_SCALAR) {
        return cv_decline(r, KF_CODE_UNKNOWN_OP, "not a step from 8 bits to weights");
    }
    if (!read_row(r, CV_DERIVE)) {
        return 0;
    }
    uint32_t first = derived_input(r);
    r->result = (cv_value){.id = t->id,
                           .channels = cv_extent(r, &t->dims[0]),
                           .height = 1,
                           .width = 1,
                           .dtype = (uint8_t)t->dtype};
    if (r->made.n_inputs == 2) {
        second = vector_of(r, 1, t->rank, r->result.channels, t->dtype);
    }
    if (first == CV_NONE || (r->made.n_inputs == 2 && second == CV_NONE) ||
        (t->dtype != KF_DTYPE_F32 && t->dtype != KF_DTYPE_I32)) {
        return cv_decline(r, KF_CODE_SHAPE, "not one number for all or for each filter");
    }
    r->made.inputs[0] = (uint16_t)first;
    r->made.inputs[1] = (uint16_t)second;
    return 1;
}

uint32_t cv_read_op(cv_reader *r)
{
    uint32_t kind = r->op->kind;
    if (kind == KF_OP_CONV || kind == KF_OP_BATCH_NORM || kind == KF_OP_MAX_POOL ||
        kind == KF_OP_AVG_POOL || kind == KF_OP_MEAN) {
        if (!understood(r, window_keys, sizeof(window_keys) / sizeof(window_keys[0]))) {
            return cv_decline(r, KF_CODE_NOT_UNDERSTOOD,
                              "a version, flag or attribute that is newer");
        }
        return kind == KF_OP_CONV         ? read_conv(r)
               : kind == KF_OP_BATCH_NORM ? read_norm(r)
               : kind == KF_OP_MEAN       ? read_mean(r)
                                          : read_pool(r);
    }
    return read_map(r);
}
