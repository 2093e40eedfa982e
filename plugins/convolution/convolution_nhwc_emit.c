// SPDX-License-Identifier: MIT OR Apache-2.0
// The text of launches of NHWC, and their arguments in the same order: sizes are arguments, so
// that layers of one kind share a kernel; the operators behind are `finish`, as on processors.
#include "convolution_nhwc.h"

enum {
    PRODUCT_ITEMS = 256, ///< of a work-group without tensor cores
    TEAM_ITEMS = 128, ///< of those that multiply 64 rows on tensor cores, and of those that copy
    TENSOR_ITEMS = CV_TILE_ROWS / 64 * TEAM_ITEMS + TEAM_ITEMS,
    LARGE_RING = 196608, ///< bytes of tiles in local memory, of one work-group on a unit
    SMALL_RING = 98304, ///< of one of two
    MOST_STAGES = 6
};

void cv_nhwc_begin(cv_kernel *k, const cv_plan *plan)
{
    kf_dtype dtype = kf_dtype_of(plan->region->element);
    if (plan->region->element == KF_DTYPE_F16) {
        kf_ew_f16_functions(&k->text, CV_ITEM_LANES);
    } else {
        kf_ew_bf16_functions(&k->text, CV_ITEM_LANES);
    }
    kf_text_addf(&k->text,
                 "#define VALUES(p) values_%s(as_ushort8(*(__global const uint4 *)(p)))\n"
                 "#define PIECE_VALUES(piece) values_%s(as_ushort8(piece))\n"
                 "#define BITS(v) bits_%s(v)\n"
                 "#define VALUE(x) value_%s(x)\n",
                 dtype.name, dtype.name, dtype.name, dtype.name);
    kf_text_add(&k->text, cv_nhwc_text);
}

static void buffer(cv_kernel *k, const cv_plan *plan, uint32_t value, const char *name,
                   uint32_t access)
{
    cv_param p = {.kind = CV_PARAM_TEMP, .index = plan->places[value].slot, .access = access};
    cv_param_add(k, p, access == KF_ACCESS_READ ? "__global const ushort *" : "__global ushort *",
                 name);
}

static void tensor(cv_kernel *k, uint32_t value, const char *name, uint32_t access)
{
    char offset[24];
    snprintf(offset, sizeof(offset), "%s_offset", name);
    cv_param_add(k, (cv_param){.kind = CV_PARAM_TENSOR, .index = value, .access = access},
                 access == KF_ACCESS_READ ? "__global const ushort *" : "__global ushort *", name);
    cv_param_add(k, (cv_param){.kind = CV_PARAM_OFFSET, .index = value}, "const long ", offset);
}

static void window_params(cv_kernel *k, const cv_window *w)
{
    cv_param_int(k, "kh", w->lengths[0]);
    cv_param_int(k, "kw", w->lengths[1]);
    cv_param_int(k, "sy", w->strides[0]);
    cv_param_int(k, "sx", w->strides[1]);
    cv_param_int(k, "dy", w->dilations[0]);
    cv_param_int(k, "dx", w->dilations[1]);
    cv_param_int(k, "top", w->begin[0]);
    cv_param_int(k, "left", w->begin[1]);
}

/// Sizes of the result, and of the vectors of constants in pieces.
static void result_params(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    const cv_value *out = &plan->region->values[step->output];
    cv_param_int(k, "channels", out->channels);
    cv_param_int(k, "blocks", 2 * (int64_t)cv_share(out->channels, CV_LANES));
    cv_param_int(k, "places", cv_nhwc_places(out));
    cv_param_int(k, "width", out->width);
}

static void image_params(cv_kernel *k, int32_t channels, int32_t height, int32_t width)
{
    cv_param_int(k, "in_channels", channels);
    cv_param_int(k, "in_height", height);
    cv_param_int(k, "in_width", width);
}

/// What `finish` reads, and the end of the parameters.
static void close_params(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    if (step->pack != CV_NONE) {
        cv_param_pack(k, plan, step, KF_ACCESS_READ);
    }
    cv_finish_params(k, plan, step);
    cv_params_end(k);
    kf_text_add(&k->text, "#define OUT16 float8\n");
    cv_finish_text(&k->text, plan, step);
}

static void groups_of(cv_kernel *k, int64_t items, uint32_t group)
{
    k->group = group;
    k->items = (items + group - 1) / group * group;
}

/// An image from outside or for outside, in pieces; `matrix`: by the step that reads it.
static void emit_turn(cv_kernel *k, const cv_plan *plan, const cv_step *step, const cv_step *reader)
{
    const cv_value *v = &plan->region->values[step->input];
    uint32_t out = step->kind == CV_EXPORT, matrix = reader != NULL;
    int64_t items = cv_nhwc_places(v) * plan->region->count * v->channels / CV_ITEM_LANES;
    cv_nhwc_begin(k, plan);
    cv_text_define(&k->text, "TURN", out ? 1 : matrix ? 2 : 0);
    if (matrix) { // dividing by constants is a tenth of the work
        const cv_window *w = &plan->region->ops[reader->op].window;
        cv_text_define(&k->text, "IN_CHANNELS", v->channels);
        cv_text_define(&k->text, "KH", w->lengths[0]);
        cv_text_define(&k->text, "KW", w->lengths[1]);
        cv_text_define(&k->text, "PIECES", cv_nhwc_terms(plan, reader) / CV_ITEM_LANES);
    }
    cv_params_begin(k);
    if (out) {
        buffer(k, plan, step->input, "in", KF_ACCESS_READ);
        tensor(k, step->output, "out", KF_ACCESS_WRITE);
    } else {
        tensor(k, step->input, "in", KF_ACCESS_READ);
        buffer(k, plan, step->output, "out", KF_ACCESS_WRITE);
    }
    image_params(k, v->channels, v->height, v->width);
    if (matrix) {
        const cv_value *of = &plan->region->values[reader->output];
        items = plan->places[step->output].matrix / CV_ITEM_LANES * plan->region->count;
        cv_param_int(k, "places", cv_nhwc_places(of));
        cv_param_int(k, "width", of->width);
        window_params(k, &plan->region->ops[reader->op].window);
    }
    cv_param_int(k, "items", items);
    cv_params_end(k);
    groups_of(k, items, CV_PASS_ITEMS);
    cv_kernel_close(k, cv_nhwc_turn_text, out ? "export" : "import");
}

/// Pools, means, and elementwise operators that nothing takes along.
static void emit_pass(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    const cv_value *in = &plan->region->values[step->input];
    const cv_value *out = &plan->region->values[step->output];
    const cv_op *op = step->op == CV_NONE ? NULL : &plan->region->ops[step->op];
    int64_t items = cv_nhwc_places(out) * plan->region->count * out->channels / CV_ITEM_LANES;
    cv_nhwc_begin(k, plan);
    cv_text_define(&k->text, "PASS", step->kind == CV_POOL ? 0 : step->kind == CV_MEAN ? 1 : 2);
    if (step->kind == CV_POOL) {
        cv_text_define(&k->text, "MAX", op->is_max);
        cv_text_define(&k->text, "INCLUDE_PAD", op->include_pad);
    }
    cv_params_begin(k);
    buffer(k, plan, step->input, "in", KF_ACCESS_READ);
    buffer(k, plan, step->output, "out", KF_ACCESS_WRITE);
    image_params(k, in->channels, in->height, in->width);
    result_params(k, plan, step);
    if (step->kind == CV_POOL) {
        window_params(k, &op->window);
        cv_param_int(k, "bottom", op->window.end[0]);
        cv_param_int(k, "right", op->window.end[1]);
    }
    cv_param_int(k, "items", items);
    close_params(k, plan, step);
    groups_of(k, items, CV_PASS_ITEMS);
    cv_kernel_close(k, cv_nhwc_pass_text,
                    step->kind == CV_POOL   ? "pool"
                    : step->kind == CV_MEAN ? "mean"
                                            : "map");
}

static void product_defines(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    int32_t stage = (CV_TILE_ROWS + step->tile_columns) * CV_LINE_BYTES;
    int32_t ring = step->tile_columns == CV_WIDE_COLUMNS ? LARGE_RING : SMALL_RING;
    k->on_tensor = cv_nhwc_on_tensor(plan->device);
    k->group = k->on_tensor ? TENSOR_ITEMS : PRODUCT_ITEMS;
    cv_text_define(&k->text, "TENSOR", k->on_tensor);
    cv_text_define(&k->text, "ITEMS", k->group);
    cv_text_define(&k->text, "COLUMNS", step->tile_columns);
    cv_text_define(&k->text, "STAGES", cv_least(ring / stage, MOST_STAGES));
    if (k->on_tensor) {
        cv_nhwc_tensor_text(&k->text, (uint32_t)step->tile_columns,
                            kf_dtype_of(plan->region->element).name);
    }
}

static void emit_product(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    static const cv_window one = {.lengths = {1, 1}, .strides = {1, 1}, .dilations = {1, 1}};
    const cv_value *in = &plan->region->values[step->input];
    const cv_value *out = &plan->region->values[step->output];
    uint32_t matrix = cv_nhwc_is_matrix(plan, step);
    int64_t rows = cv_nhwc_places(out) * plan->region->count;
    cv_nhwc_begin(k, plan);
    product_defines(k, plan, step);
    cv_params_begin(k);
    buffer(k, plan, step->input, "in", KF_ACCESS_READ);
    buffer(k, plan, step->output, "out", KF_ACCESS_WRITE);
    image_params(k, matrix ? cv_nhwc_terms(plan, step) : in->channels,
                 matrix ? out->height : in->height, matrix ? out->width : in->width);
    result_params(k, plan, step);
    window_params(k, matrix ? &one : &plan->region->ops[step->op].window);
    cv_param_int(k, "m", rows);
    cv_param_int(k, "weights",
                 step->n_vectors * (int64_t)cv_share(out->channels, CV_LANES) * CV_LANES);
    close_params(k, plan, step);
    k->items = (int64_t)cv_share(rows, CV_TILE_ROWS) * cv_share(out->channels, step->tile_columns) *
               k->group;
    cv_kernel_close(k, cv_nhwc_product_text, "conv");
}

/// The product that reads an image from outside as a matrix; NULL: it is no matrix.
static const cv_step *reader_of(const cv_plan *plan, uint32_t value)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        if (plan->steps[i].input == value && cv_nhwc_is_matrix(plan, &plan->steps[i])) {
            return &plan->steps[i];
        }
    }
    return NULL;
}

void cv_nhwc_emit_step(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    if (step->kind == CV_IMPORT || step->kind == CV_EXPORT) {
        emit_turn(k, plan, step, step->kind == CV_IMPORT ? reader_of(plan, step->input) : NULL);
    } else if (step->kind == CV_CONV) {
        emit_product(k, plan, step);
    } else {
        emit_pass(k, plan, step);
    }
}

void cv_nhwc_begin_pack(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    uint32_t product = step->kind == CV_CONV;
    int32_t channels = plan->region->values[step->output].channels;
    int32_t blocks = cv_share(channels, CV_LANES);
    cv_nhwc_begin(k, plan);
    cv_text_define(&k->text, "VECTORS", step->n_vectors);
    cv_text_define(&k->text, "WEIGHTS", product);
    k->items = (int64_t)blocks * CV_LANES;
    if (product) {
        const cv_window *w = &plan->region->ops[step->op].window;
        cv_text_define(&k->text, "TAPS", w->lengths[0] * w->lengths[1]);
        cv_text_define(&k->text, "COLUMNS", step->tile_columns);
        k->items = cv_nhwc_weights(plan, step) / 4; // a piece of 16 bytes each
    }
    cv_params_begin(k);
    cv_param_pack(k, plan, step, KF_ACCESS_WRITE);
    cv_param_int(k, "blocks", blocks);
    cv_param_int(k, "channels", channels);
    cv_param_int(k, "in_channels", plan->region->values[step->input].channels);
    cv_param_int(k, "steps", product ? cv_share(cv_nhwc_terms(plan, step), CV_STEP_TERMS) : 0);
    cv_param_int(k, "items", k->items);
    k->group = CV_PASS_ITEMS;
    k->items = (int64_t)cv_share(k->items, CV_PASS_ITEMS) * CV_PASS_ITEMS;
}

/// `n` is the place among those of all images, each of which has `y`.
void cv_nhwc_image_text(kf_text *text, const cv_plan *plan, const cv_step *step, uint32_t i,
                        uint32_t whole)
{
    (void)plan;
    (void)step;
    kf_text_addf(text, "    const float8 m%u = VALUES(image%u + %s * channels + block * 8);\n", i,
                 i, whole ? "n" : "n / y");
}
