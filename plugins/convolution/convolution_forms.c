// SPDX-License-Identifier: MIT OR Apache-2.0
// The two forms of a region as tables: what each can do, by which functions, and which operations
// join it. What they have in common is elsewhere.
#include "convolution_nhwc.h"

/// An operator's result is an image of the region's batch.
static uint32_t read_result(cv_reader *r)
{
    return (r->op->n_outputs == 1 && cv_read_image(r, r->op->outputs[0], &r->result)) ||
           cv_decline(r, KF_CODE_SHAPE, "its result is no image of the region's batch");
}

// ---- in blocks ----

/// A convolution, or what makes its operands of 8 bits.
static uint32_t blocks_leads(const cv_reader *r)
{
    uint32_t kind = r->op->kind, first = r->region->n_ops == 0;
    return kind == KF_OP_CONV || kind == KF_OP_CAST || kind == KF_OP_DIV_SCALAR || cv_derives(r) ||
           cv_passes(r) || kind == KF_OP_COL2IM ||
           (!first && (kind == KF_OP_ROUND || kind == KF_OP_ADD_SCALAR ||
                       kind == KF_OP_SUB_SCALAR || kind == KF_OP_MUL_SCALAR));
}

static uint32_t blocks_read(cv_reader *r)
{
    if (cv_derives(r)) {
        return cv_read_derived(r);
    }
    if (cv_passes(r)) {
        return cv_read_passage(r);
    }
    if (!read_result(r)) {
        return 0;
    }
    return r->op->kind == KF_OP_CONCAT   ? cv_read_concat(r)
           : r->op->kind == KF_OP_COL2IM ? cv_read_turned(r)
                                         : cv_read_op(r);
}

const cv_form cv_form_blocks = {
    .percent = {60, 60},
    .leads = blocks_leads,
    .read = blocks_read,
    .winograd = 1,
    .gates = 1,
    .lanes = CV_LANES,
    .shape = cv_blocks_shape,
    .cut = cv_blocks_cut,
    .weights = cv_blocks_weights,
    .floats = "float16",
    .rint = "rounded",
    .weight = "AT_w(i)",
    .pack_text = cv_pack_text,
    .begin_pack = cv_blocks_begin_pack,
    .emit_step = cv_blocks_emit_step,
    .image_text = cv_blocks_image_text,
};

// ---- channels innermost ----

static uint32_t nhwc_leads(const cv_reader *r)
{
    return r->op->kind == KF_OP_CONV;
}

static uint32_t nhwc_read(cv_reader *r)
{
    return read_result(r) && cv_read_op(r) && cv_nhwc_takes(r);
}

const cv_form cv_form_nhwc = {
    .least_items = 256,
    .least_local = 32768,
    .percent = {20, 250},
    .one_narrow = 1,
    .leads = nhwc_leads,
    .read = nhwc_read,
    .lanes = CV_ITEM_LANES,
    .keeps_narrow = 1,
    .shape = cv_nhwc_shape,
    .cut = cv_nhwc_cut,
    .weights = cv_nhwc_weights,
    .floats = "float8",
    .value = "VALUE",
    .weight = "w[w_offset + (i)]",
    .pack_text = cv_nhwc_pack_text,
    .begin_pack = cv_nhwc_begin_pack,
    .emit_step = cv_nhwc_emit_step,
    .image_text = cv_nhwc_image_text,
};
