// SPDX-License-Identifier: MIT OR Apache-2.0
// Transposed convolutions. They are recorded as products: weights and image as matrices, the
// product of both, and the sums of its columns at their places (decompose_window.c). What comes
// before the last of these operations is no work here, only a way to name what is multiplied: a
// passage.
#include "convolution_internal.h"

static const uint32_t passage_keys[] = {KF_ATTR_SHAPE, KF_ATTR_TRANSPOSE_A, KF_ATTR_TRANSPOSE_B};

uint32_t cv_passes(const cv_reader *r)
{
    return r->op->kind == KF_OP_RESHAPE || r->op->kind == KF_OP_MATMUL;
}

/// The lengths of all axes, as far as there are any; 0: too many axes, or one that is unknown.
static uint32_t lengths_of(const cv_reader *r, const kf_tensor *t, int32_t out[4])
{
    uint32_t known = t->rank <= 4;
    for (uint32_t i = 0; i < 4; i++) {
        out[i] = known && i < t->rank ? cv_extent(r, &t->dims[i]) : 1;
        known &= out[i] > 0;
    }
    return known;
}

static uint32_t passage_at(const cv_reader *r, uint32_t input, cv_passage passage)
{
    uint32_t value = cv_find(r->region, r->op->inputs[input]->id);
    return value != CV_NONE && r->region->values[value].passage == passage ? value : CV_NONE;
}

static uint32_t is_constant(const kf_tensor *t)
{
    return (t->flags & KF_TENSOR_CONST) != 0 && (t->flags & KF_TENSOR_EXTERNAL) != 0;
}

/// Constants: weights [c, o, ..] as [1, c, o * window], a bias [o] as [1, o, 1, ..].
static uint32_t read_constant_as(cv_reader *r, const int32_t to[4])
{
    const kf_tensor *in = r->op->inputs[0], *out = r->op->outputs[0];
    uint32_t value = cv_read_constant(r, 0, in->dtype);
    int32_t first = value == CV_NONE ? 0 : cv_extent(r, &in->dims[0]);
    if (in->rank == 0 || first == 0 || to[0] != 1 || to[1] != first) {
        return 0;
    }
    r->result.of = (uint16_t)value;
    r->result.channels = first;
    r->result.width = to[2];
    r->result.passage = in->rank == 1                     ? CV_VECTOR_AS_IMAGE
                        : in->rank >= 3 && out->rank == 3 ? CV_WEIGHTS_AS_MATRIX
                                                          : CV_NO_PASSAGE;
    return r->result.passage != CV_NO_PASSAGE;
}

/// An image [n, c, ..] as [n, 1, c, places].
static uint32_t read_image_as(cv_reader *r, const int32_t to[4])
{
    uint32_t value = cv_read_input(r, 0);
    const cv_value *image = value == CV_NONE ? NULL : &r->region->values[value];
    if (image == NULL || image->dtype != KF_DTYPE_F32 || r->op->outputs[0]->rank != 4 ||
        to[1] != 1 || to[2] != image->channels || to[3] != image->height * image->width) {
        return 0;
    }
    r->result.of = (uint16_t)value;
    r->result.passage = CV_IMAGE_AS_MATRIX;
    return 1;
}

static uint32_t read_reshape(cv_reader *r)
{
    const kf_tensor *in = r->op->inputs[0], *out = r->op->outputs[0];
    int32_t to[4];
    if (!lengths_of(r, out, to)) {
        return 0;
    }
    uint32_t columns = passage_at(r, 0, CV_COLUMNS_OF_GROUP);
    if (columns != CV_NONE) {
        r->result.of = r->region->values[columns].of;
        r->result.with = r->region->values[columns].with;
        r->result.passage = CV_COLUMNS;
        return out->rank == 3 && to[1] == r->region->values[r->result.with].width;
    }
    uint32_t known = cv_find(r->region, in->id);
    uint32_t is_image = known != CV_NONE && r->region->values[known].is_image;
    return is_constant(in) && !is_image ? read_constant_as(r, to) : read_image_as(r, to);
}

/// The weights' matrix transposed times the image's.
static uint32_t read_matmul(cv_reader *r)
{
    uint32_t weights = passage_at(r, 0, CV_WEIGHTS_AS_MATRIX);
    uint32_t image = r->op->n_inputs == 2 ? passage_at(r, 1, CV_IMAGE_AS_MATRIX) : CV_NONE;
    if (weights == CV_NONE || image == CV_NONE || !cv_is_set(r->op, KF_ATTR_TRANSPOSE_A) ||
        cv_is_set(r->op, KF_ATTR_TRANSPOSE_B)) {
        return 0;
    }
    r->result.of = r->region->values[image].of;
    r->result.with = (uint16_t)weights;
    r->result.passage = CV_COLUMNS_OF_GROUP;
    return 1;
}

uint32_t cv_read_passage(cv_reader *r)
{
    const kf_tensor *out = r->op->outputs[0];
    if (!kf_op_understood(r->op, 1, passage_keys, sizeof(passage_keys) / sizeof(passage_keys[0])) ||
        r->op->n_outputs != 1 || r->op->n_inputs < 1 || out->dtype != KF_DTYPE_F32) {
        return cv_decline(r, KF_CODE_NOT_UNDERSTOOD, "no part of a transposed convolution");
    }
    r->result = (cv_value){.id = out->id,
                           .op = CV_NONE,
                           .channels = 1,
                           .height = 1,
                           .width = 1,
                           .dtype = (uint8_t)out->dtype};
    if (!(r->op->kind == KF_OP_MATMUL ? read_matmul(r) : read_reshape(r))) {
        return cv_decline(r, KF_CODE_SHAPE, "no part of a transposed convolution");
    }
    (void)cv_add_value(r->region, &r->result);
    return 1;
}

uint32_t cv_region_is_passed(const cv_region *region)
{
    for (uint32_t i = 0; i < region->n_values; i++) {
        if (region->values[i].passage != CV_NO_PASSAGE && !region->values[i].dropped) {
            return 0;
        }
    }
    return 1;
}

// ---- the last operation ----

/// Would a convolution of the result with this window have the image's places?
static uint32_t window_fits(const cv_window *w, const cv_value *image, const cv_value *out)
{
    const int32_t in[] = {image->height, image->width}, of[] = {out->height, out->width};
    uint32_t fits = 1;
    for (uint32_t i = 0; i < 2; i++) {
        int32_t room = of[i] + w->begin[i] + w->end[i] - (w->lengths[i] - 1) * w->dilations[i] - 1;
        fits &= room >= 0 && room / w->strides[i] + 1 == in[i];
    }
    return fits;
}

uint32_t cv_read_turned(cv_reader *r)
{
    static const uint32_t keys[] = {KF_ATTR_OUTPUT_SIZE, KF_ATTR_KERNEL, KF_ATTR_STRIDES,
                                    KF_ATTR_PADDING, KF_ATTR_DILATIONS};
    uint32_t columns = passage_at(r, 0, CV_COLUMNS);
    if (!kf_op_understood(r->op, 1, keys, sizeof(keys) / sizeof(keys[0]))) {
        return cv_decline(r, KF_CODE_NOT_UNDERSTOOD, "a version, flag or attribute that is newer");
    }
    if (columns == CV_NONE || r->result.dtype != KF_DTYPE_F32) {
        return cv_decline(r, KF_CODE_SHAPE, "not of a product of weights and an image");
    }
    const cv_value *c = &r->region->values[columns];
    const cv_value *image = &r->region->values[c->of], *weights = &r->region->values[c->with];
    int32_t lengths[2] = {cv_list_at(r->op, KF_ATTR_KERNEL, 0, -1),
                          cv_list_at(r->op, KF_ATTR_KERNEL, 1, -1)};
    if (!cv_read_window(r, lengths) || !window_fits(&r->made.window, image, &r->result) ||
        weights->channels != image->channels ||
        weights->width !=
            r->result.channels * r->made.window.lengths[0] * r->made.window.lengths[1]) {
        return cv_decline(r, KF_CODE_SHAPE, "windows that are not the image's, or large ones");
    }
    r->made.kind = CV_TURNED;
    r->made.groups = 1;
    r->made.inputs[0] = c->of;
    r->made.inputs[1] = weights->of;
    r->made.n_inputs = 2;
    return 1;
}
