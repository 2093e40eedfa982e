// SPDX-License-Identifier: MIT OR Apache-2.0
// Concatenations along channels. Of more images than one launch reads it is several operations:
// each writes its channels into the image that the one before has begun.
#include "convolution_internal.h"

enum { PIECES = 4, MOST_PIECES = 64 }; // of an operation; a fifth input is what it goes on

static uint32_t is_along_channels(const cv_reader *r)
{
    static const uint32_t keys[] = {KF_ATTR_AXIS};
    const kf_attr *axis = kf_op_attr(r->op, KF_ATTR_AXIS);
    return kf_op_understood(r->op, 1, keys, 1) && axis != NULL && axis->type == KF_TYPE_I64 &&
           (axis->v.i == 1 || axis->v.i == 1 - (int64_t)r->result.rank);
}

/// The images as values; 0: one is none, or none is of the region.
static uint32_t read_pieces(cv_reader *r, uint16_t pieces[MOST_PIECES])
{
    uint32_t follows = 0;
    for (uint32_t i = 0; i < r->op->n_inputs; i++) {
        uint32_t value = cv_read_input(r, i);
        if (value == CV_NONE || r->region->values[value].dtype != r->result.dtype) {
            return 0;
        }
        follows |= r->region->values[value].op != CV_NONE;
        pieces[i] = (uint16_t)value;
    }
    return follows;
}

/// Puts what there is of the concatenation into the region, and goes on with another operation.
static void end_part(cv_reader *r, int32_t next_channel)
{
    cv_value result = r->result;
    r->made.is_part = 1;
    r->result.id = UINT32_MAX - r->region->n_values; // nobody else's
    r->result.dropped = 1;
    cv_add_op(r);
    r->region->n_passes++;
    uint16_t onto = r->made.result;
    r->made = (cv_op){.kind = CV_CONCAT, .is_part = 1, .onto = onto, .from = next_channel};
    r->result = result;
}

static void close_op(cv_reader *r)
{
    if (r->made.onto != CV_NONE) {
        r->made.inputs[r->made.n_inputs++] = r->made.onto;
    }
}

uint32_t cv_read_concat(cv_reader *r)
{
    uint16_t pieces[MOST_PIECES];
    uint32_t n = r->op->n_inputs;
    if (n > MOST_PIECES || r->region->n_ops + n / PIECES + 2 > CV_MAX_OPS ||
        r->region->n_values + 2 * n + 8 > CV_MAX_VALUES) {
        return cv_decline(r, KF_CODE_LIMIT, "more images than a region takes");
    }
    if (!is_along_channels(r) || !cv_is_float(r->result.dtype) || !read_pieces(r, pieces)) {
        return cv_decline(r, KF_CODE_SHAPE,
                          "not along channels of floats that the region computes");
    }
    int32_t channel = 0;
    r->made = (cv_op){.kind = CV_CONCAT, .onto = CV_NONE};
    for (uint32_t i = 0; i < n; i++) {
        if (r->made.n_inputs == PIECES) {
            close_op(r);
            end_part(r, channel);
        }
        r->made.inputs[r->made.n_inputs++] = pieces[i];
        channel += r->region->values[pieces[i]].channels;
    }
    close_op(r);
    return 1;
}
