// SPDX-License-Identifier: MIT OR Apache-2.0
// What an operation is in a region: a convolution of an image with constant weights, or what lies
// between convolutions: batch norms, elementwise operators, pooling, means over an image.
#include "convolution_internal.h"

static uint32_t float_input(cv_reader *r, uint32_t index)
{
    uint32_t image = cv_read_input(r, index);
    return image != CV_NONE && cv_takes_float(r, r->region->values[image].dtype) ? image : CV_NONE;
}

static uint32_t vector_input(cv_reader *r, uint32_t index, uint32_t axis_from_end, int32_t channels)
{
    uint32_t dtype = r->op->inputs[index]->dtype;
    return cv_takes_float(r, dtype) ? cv_read_vector(r, index, axis_from_end, channels, dtype)
                                    : CV_NONE;
}

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
    return cv_takes_float(r, dtype) ? cv_read_constant(r, index, dtype) : CV_NONE;
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
        second = cv_read_vector(r, 1, t->rank, r->result.channels, t->dtype);
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
