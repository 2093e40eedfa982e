// SPDX-License-Identifier: MIT OR Apache-2.0
// What operations' tensors are to a region: images, constants, windows. Everything but the number
// of images is asked for, so a plan belongs to one size of image.
#include "convolution_form.h"

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

uint32_t cv_takes_float(const cv_reader *r, uint32_t dtype)
{
    if (!r->device->form->one_narrow) {
        return cv_is_float(dtype);
    }
    return r->region->n_images > 0 ? dtype == r->region->element : cv_is_narrow(dtype);
}

static uint32_t may_be_image(const cv_reader *r, const kf_tensor *t)
{
    if (r->device->form->one_narrow) {
        return t->rank == 4 && cv_takes_float(r, t->dtype);
    }
    return (t->rank == 3 || t->rank == 4) &&
           (cv_takes_float(r, t->dtype) || t->dtype == KF_DTYPE_I32 || cv_is_byte(t->dtype));
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

uint32_t cv_read_vector(cv_reader *r, uint32_t index, uint32_t axis_from_end, int32_t channels,
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
