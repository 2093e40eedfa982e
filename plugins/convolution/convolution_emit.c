// SPDX-License-Identifier: MIT OR Apache-2.0
// The text of one launch and its arguments, in the same order: sizes as defines where the kernel's
// loops need them, as arguments otherwise, so that layers of one kind share a kernel; the
// elementwise operators behind it as the function `finish` (convolution_finish.c); then a file of
// kernels/.
#include "convolution_form.h"

#include "kf_dot.h"

enum { SUM_TERMS = 256 }; // that are added up apart

static void output_params(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    const cv_place *place = &plan->places[step->output];
    const cv_value *value = &plan->region->values[step->output];
    uint32_t goes_on = step->kind == CV_CONCAT && plan->region->ops[step->op].onto != CV_NONE;
    uint32_t access = goes_on ? KF_ACCESS_READ_WRITE : KF_ACCESS_WRITE;
    cv_param_image(k, plan, step->output, "out", access, 0, 0);
    cv_param_int(k, "out_top", place->top);
    cv_param_int(k, "out_left", place->left);
    cv_param_int(k, "out_bottom", place->bottom);
    cv_param_int(k, "out_right", place->right);
    cv_param_int(k, "blocks", cv_plan_blocks(plan, step->output));
    cv_param_int(k, "channels", value->channels);
    cv_param_int(k, "height", value->height);
    cv_param_int(k, "width", value->width);
    cv_param_int(k, "rows", step->rows);
    cv_param_int(k, "chunks", step->chunks);
}

static void input_params(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    const cv_value *value = &plan->region->values[step->input];
    uint32_t reaches = cv_is_product(step->kind) && step->kind != CV_TURNED;
    const cv_window *w = reaches ? &plan->region->ops[step->op].window : NULL;
    cv_param_image(k, plan, step->input, "in", KF_ACCESS_READ, w != NULL ? w->begin[0] : 0,
                   w != NULL ? w->begin[1] : 0);
    cv_param_int(k, "in_blocks", cv_plan_depth(plan, step));
    cv_param_int(k, "in_channels", value->channels);
    cv_param_int(k, "in_height", value->height);
    cv_param_int(k, "in_width", value->width);
    if (step->kind == CV_CONV) {
        cv_param_int(k, "group_blocks",
                     cv_plan_blocks(plan, step->output) / plan->region->ops[step->op].groups);
    }
}

// ---- kernels ----

static void window_defines(kf_text *text, const cv_op *op)
{
    const cv_window *w = &op->window;
    cv_text_define(text, "KH", w->lengths[0]);
    cv_text_define(text, "KW", w->lengths[1]);
    cv_text_define(text, "SY", w->strides[0]);
    cv_text_define(text, "SX", w->strides[1]);
    cv_text_define(text, "DY", w->dilations[0]);
    cv_text_define(text, "DX", w->dilations[1]);
    if (op->kind == CV_TURNED) {
        cv_text_define(text, "PAD_TOP", w->begin[0]);
        cv_text_define(text, "PAD_LEFT", w->begin[1]);
    }
    if (op->kind == CV_POOL) {
        cv_text_define(text, "MAX", op->is_max);
        cv_text_define(text, "INCLUDE_PAD", op->include_pad);
        cv_text_define(text, "PAD_TOP", w->begin[0]);
        cv_text_define(text, "PAD_LEFT", w->begin[1]);
        cv_text_define(text, "PAD_BOTTOM", w->end[0]);
        cv_text_define(text, "PAD_RIGHT", w->end[1]);
    }
}

/// Elements of what is read and of what results.
static void types_text(kf_text *text, const cv_plan *plan, const cv_step *step)
{
    const cv_value *in = &plan->region->values[step->input];
    const cv_value *out = &plan->region->values[step->output];
    kf_text_addf(text, "#define IN %s\n",
                 step->kind == CV_IMPORT ? cv_type_dense(in) : cv_type_inside(plan, in));
    kf_text_addf(text, "#define OUT %s\n#define OUT16 %s16\n", cv_type_inside(plan, out),
                 cv_type_inside(plan, out));
}

/// DENSE16(p), KEEP16(p, v): 16 neighbours of a dense tensor as f32; DENSE(p), KEEP(p, v): one.
static void dense_text(kf_text *text, const cv_value *value)
{
    const char *name = kf_dtype_of(value->dtype).name;
    kf_text_addf(text, "#define TO %s\n", cv_type_dense(value));
    if (!cv_is_narrow(value->dtype)) {
        kf_text_add(text,
                    "#define DENSE16(p) LOAD_LOOSE(p)\n#define DENSE(p) (*(p))\n"
                    "#define KEEP16(p, v) STORE_LOOSE(p, v)\n#define KEEP(p, v) (*(p) = (v))\n");
        return;
    }
    cv_narrow_functions(text, value->dtype);
    kf_text_add(text, "typedef ushort16 __attribute__((aligned(2))) loose_bits;\n");
    kf_text_addf(text,
                 "#define DENSE16(p) values_%s(*(__global const loose_bits *)(p))\n"
                 "#define DENSE(p) value_%s(*(p))\n"
                 "#define KEEP16(p, v) (*(__global loose_bits *)(p) = bits_%s(v))\n"
                 "#define KEEP(p, v) (*(p) = bits_%s((float16)(v)).s0)\n",
                 name, name, name, name);
}

static void dense_param(cv_kernel *k, const cv_plan *plan, uint32_t value, const char *name,
                        uint32_t access)
{
    char type[40], offset[40];
    snprintf(type, sizeof(type), "__global %s%s *", access == KF_ACCESS_READ ? "const " : "",
             cv_type_dense(&plan->region->values[value]));
    snprintf(offset, sizeof(offset), "%s_offset", name);
    cv_param_add(k, (cv_param){.kind = CV_PARAM_TENSOR, .index = value, .access = access}, type,
                 name);
    cv_param_add(k, (cv_param){.kind = CV_PARAM_OFFSET, .index = value}, "const long ", offset);
}

static void emit_import(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    const cv_place *place = &plan->places[step->output];
    cv_text_define(&k->text, "IB", place->lanes);
    types_text(&k->text, plan, step);
    kf_text_add(&k->text, cv_common_text);
    dense_text(&k->text, &plan->region->values[step->input]);
    cv_params_begin(k);
    dense_param(k, plan, step->input, "in", KF_ACCESS_READ);
    output_params(k, plan, step);
    cv_params_end(k);
    kf_text_add(&k->text, "#define BORDER 0.0f\n");
    k->items = (int64_t)cv_plan_blocks(plan, step->output) * step->chunks;
    cv_kernel_close(k, cv_import_text, "import");
}

/// What stands around the result. The parameters are complete but for this.
static void border(cv_kernel *k, const cv_plan *plan, const cv_step *step, kf_text *later)
{
    const cv_value *out = &plan->region->values[step->output];
    const cv_place *place = &plan->places[step->output];
    char text[64] = "0";
    if (!cv_is_byte(out->dtype)) {
        kf_text_add(later, "#define BORDER 0.0f\n");
        return;
    }
    if (place->has_pad) {
        cv_param_number(k, &place->pad, KF_DTYPE_I32, "out_pad", text);
    }
    kf_text_addf(later, "#define BORDER ((uchar)(%s + %d))\n", text, (int)cv_value_flip(out));
}

/// The zero point and the scale of a product's image of 8 bits.
static void product_numbers(cv_kernel *k, const cv_plan *plan, const cv_step *step, kf_text *later)
{
    const cv_region *region = plan->region;
    cv_scaled image;
    char text[64] = "0";
    uint32_t of_bytes = plan->of_bytes[step->op];
    kf_text_addf(later, "#define SCALED %u\n", (unsigned)of_bytes);
    if (!of_bytes || !cv_scaled_of(region, region->ops[step->op].inputs[0], &image)) {
        return;
    }
    if (image.has_zero) {
        cv_param_number(k, &image.zero, KF_DTYPE_I32, "in_zero", text);
    }
    kf_text_addf(later, "#define IN_ZERO (%s + %d)\n", text,
                 (int)cv_value_flip(&region->values[image.value]));
    cv_param_number(k, &image.scale, KF_DTYPE_F32, "in_scale", text);
    kf_text_addf(later, "#define IN_SCALE %s\n", text);
    if (step->kind == CV_CONV) {
        kf_text_addf(later, "#define ZEROS %d\n", cv_plan_vectors(plan, step->op) > 3);
        kf_dot_functions(later, plan->device->features);
    }
}

static void add_later(cv_kernel *k, kf_text *later)
{
    if (later->ptr != NULL) {
        kf_text_bytes(&k->text, later->ptr, later->len);
    }
    k->failed |= later->failed;
    kf_text_free(later);
}

/// A dense tensor into blocks by what is behind the step.
static void emit_enter(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    const cv_value *in = &plan->region->values[step->input];
    kf_text later = {0};
    types_text(&k->text, plan, step);
    cv_text_define(&k->text, "IB", plan->places[step->output].lanes);
    cv_text_define(&k->text, "WORDS", cv_is_byte(plan->region->values[step->output].dtype));
    kf_text_addf(&k->text, "#define LOADED(x) %s(x)\n",
                 in->dtype == KF_DTYPE_F32 ? "" : "convert_int16");
    kf_text_add(&k->text, cv_common_text);
    cv_params_begin(k);
    dense_param(k, plan, step->input, "in", KF_ACCESS_READ);
    output_params(k, plan, step);
    border(k, plan, step, &later);
    cv_finish_params(k, plan, step);
    cv_params_end(k);
    add_later(k, &later);
    cv_finish_text(&k->text, plan, step);
    k->items = (int64_t)cv_plan_blocks(plan, step->output) * step->chunks;
    cv_kernel_close(k, cv_enter_text, "enter");
}

/// An image of 8 bits as a dense tensor.
static void emit_leave(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    const cv_value *value = &plan->region->values[step->input];
    cv_text_define(&k->text, "FLIP", cv_value_flip(value));
    cv_params_begin(k);
    cv_param_image(k, plan, step->input, "in", KF_ACCESS_READ, 0, 0);
    cv_param_add(
        k, (cv_param){.kind = CV_PARAM_TENSOR, .index = step->output, .access = KF_ACCESS_WRITE},
        "__global uchar *", "out");
    cv_param_add(k, (cv_param){.kind = CV_PARAM_OFFSET, .index = step->output}, "const long ",
                 "out_offset");
    cv_param_int(k, "blocks", cv_plan_blocks(plan, step->input));
    cv_param_int(k, "channels", value->channels);
    cv_param_int(k, "height", value->height);
    cv_param_int(k, "width", value->width);
    cv_params_end(k);
    k->items = cv_plan_blocks(plan, step->input);
    cv_kernel_close(k, cv_leave_text, "leave");
}

static void emit_export(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    const cv_value *value = &plan->region->values[step->input];
    types_text(&k->text, plan, step);
    kf_text_add(&k->text, cv_common_text);
    dense_text(&k->text, value);
    cv_params_begin(k);
    cv_param_image(k, plan, step->input, "in", KF_ACCESS_READ, 0, 0);
    dense_param(k, plan, step->output, "out", KF_ACCESS_WRITE);
    cv_param_int(k, "blocks", cv_plan_blocks(plan, step->input));
    cv_param_int(k, "channels", value->channels);
    cv_param_int(k, "height", value->height);
    cv_param_int(k, "width", value->width);
    cv_param_int(k, "rows", step->rows);
    cv_param_int(k, "chunks", step->chunks);
    cv_params_end(k);
    k->items = (int64_t)cv_plan_blocks(plan, step->input) * step->chunks;
    cv_kernel_close(k, cv_export_text, "export");
}

/// The function `spread`: for each of the groups in a block, its i-th channel in all its lanes.
static void spread_text(kf_text *text, int32_t inputs)
{
    kf_text_add(text, "static inline float16 spread(float16 v, int i)\n{\n    switch (i) {\n");
    for (int32_t i = 0; i < inputs; i++) {
        kf_text_addf(text, "    case %d: return v.s", (int)i);
        for (int32_t lane = 0; lane < CV_LANES; lane++) {
            kf_text_addf(text, "%x", (unsigned)(lane / inputs * inputs + i));
        }
        kf_text_add(text, ";\n");
    }
    kf_text_add(text, "    default: return v;\n    }\n}\n");
}

/// How many blocks of the image have about 256 terms of one sum, and whether there are no more.
static void part_defines(kf_text *text, const cv_plan *plan, const cv_step *step)
{
    const cv_window *w = &plan->region->ops[step->op].window;
    int32_t terms = w->lengths[0] * w->lengths[1] * plan->places[step->input].lanes;
    int32_t part = cv_most(SUM_TERMS / terms, 1);
    cv_text_define(text, "PART", part);
    cv_text_define(text, "ONE_PART", cv_plan_depth(plan, step) <= part);
    if (step->kind == CV_CONV) {
        cv_text_define(text, "HELD", step->held);
    }
}

static void group_defines(kf_text *text, const cv_region *region, const cv_op *op)
{
    int32_t inputs = region->values[op->inputs[0]].channels / op->groups;
    uint32_t spreads = cv_op_spreads(region, op);
    cv_text_define(text, "GI", inputs);
    cv_text_define(text, "GO", region->values[op->result].channels / op->groups);
    cv_text_define(text, "SPREAD", spreads);
    if (spreads) {
        spread_text(text, inputs);
    }
}

// ---- concatenations ----

static uint32_t pieces_of(const cv_op *op)
{
    return op->onto != CV_NONE ? op->n_inputs - 1u : op->n_inputs;
}

static void concat_params(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    const cv_op *op = &plan->region->ops[step->op];
    int32_t last = op->from;
    for (uint32_t i = 0; i < pieces_of(op); i++) {
        char name[16];
        snprintf(name, sizeof(name), "piece%u", (unsigned)i);
        cv_param_image(k, plan, cv_plan_input(plan, step->op, i), name, KF_ACCESS_READ, 0, 0);
        last += plan->region->values[op->inputs[i]].channels;
        snprintf(name, sizeof(name), "last%u", (unsigned)i);
        cv_param_int(k, name, last);
    }
    cv_param_int(k, "from_channel", op->from);
    cv_param_int(k, "first_block", op->from / CV_LANES);
    k->items = cv_share(last, CV_LANES) - op->from / CV_LANES;
    cv_param_int(k, "n_blocks", k->items);
}

static void source_text(kf_text *text, const cv_plan *plan, const cv_step *step)
{
    uint32_t n = pieces_of(&plan->region->ops[step->op]);
    kf_text_add(text, "#define SOURCE(c) { int p = c; if (p < from_channel) "
                      "{ from = result + lane; step = out_row; }");
    for (uint32_t i = 0; i < n; i++) {
        char before[16] = "from_channel";
        if (i > 0) {
            snprintf(before, sizeof(before), "last%u", (unsigned)i - 1);
        }
        kf_text_addf(text, " else if (p < last%u) { p -= %s; from = piece%u + n * piece%u_batch + ",
                     (unsigned)i, before, (unsigned)i, (unsigned)i);
        kf_text_addf(text, "piece%u_base + (long)(p / 16) * piece%u_plane + p %% 16; ", (unsigned)i,
                     (unsigned)i);
        kf_text_addf(text, "step = piece%u_row; }", (unsigned)i);
    }
    kf_text_add(text, " }\n");
}

static void emit_concat(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    kf_text later = {0};
    types_text(&k->text, plan, step);
    kf_text_add(&k->text, cv_common_text);
    cv_params_begin(k);
    output_params(k, plan, step);
    concat_params(k, plan, step);
    border(k, plan, step, &later);
    if (step->pack != CV_NONE) {
        cv_param_pack(k, plan, step, KF_ACCESS_READ);
    }
    cv_finish_params(k, plan, step);
    cv_params_end(k);
    add_later(k, &later);
    source_text(&k->text, plan, step);
    cv_finish_text(&k->text, plan, step);
    k->items *= step->chunks;
    cv_kernel_close(k, cv_concat_text, "concat");
}

// ---- what computes ----

static void winograd_params(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    const cv_value *out = &plan->region->values[step->output];
    cv_param_add(
        k, (cv_param){.kind = CV_PARAM_TEMP, .index = plan->scratch, .access = KF_ACCESS_WRITE},
        "__global float *", "scratch");
    cv_param_int(k, "scratch_each", cv_winograd_floats(plan, step));
    cv_param_int(k, "splits", step->splits);
    cv_param_int(k, "tiles_x", cv_share(out->width, 2));
    cv_param_int(k, "tiles", (int64_t)cv_share(out->height, 2) * cv_share(out->width, 2));
}

static void emit_computing(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    static const char *const roles[CV_TURNED + 1] = {
        [CV_CONV] = "conv", [CV_DEPTHWISE] = "depthwise", [CV_POOL] = "pool",    [CV_MEAN] = "mean",
        [CV_MAP] = "map",   [CV_GROUPED] = "grouped",     [CV_TURNED] = "turned"};
    static const char *const bodies[CV_TURNED + 1] = {
        [CV_CONV] = cv_conv_text,    [CV_DEPTHWISE] = cv_depthwise_text,
        [CV_POOL] = cv_pool_text,    [CV_MEAN] = cv_mean_text,
        [CV_MAP] = cv_map_text,      [CV_GROUPED] = cv_grouped_text,
        [CV_TURNED] = cv_turned_text};
    uint32_t is_product = cv_is_product(step->kind);
    uint32_t is_dot = step->kind == CV_CONV && plan->of_bytes[step->op];
    kf_text later = {0};
    if (step->op != CV_NONE && step->kind != CV_MEAN) {
        window_defines(&k->text, &plan->region->ops[step->op]);
    }
    if (is_product) {
        cv_text_define(&k->text, "VECTORS", step->n_vectors);
        cv_text_define(&k->text, "IB", plan->places[step->input].lanes);
        cv_text_define(&k->text, "TH", step->tile_rows);
        cv_text_define(&k->text, "TW", step->tile_columns);
        cv_text_define(&k->text, "ON", step->tile_blocks);
        cv_text_define(&k->text, "TN", step->tile_columns);
    }
    if ((step->kind == CV_CONV || step->kind == CV_TURNED) && !is_dot && !step->is_winograd) {
        part_defines(&k->text, plan, step);
    }
    uint32_t gate = step->op != CV_NONE ? plan->gates[step->op] : CV_NONE;
    cv_text_define(&k->text, "GATED", gate != CV_NONE);
    if (step->kind == CV_GROUPED) {
        group_defines(&k->text, plan->region, &plan->region->ops[step->op]);
    }
    types_text(&k->text, plan, step);
    kf_text_add(&k->text, cv_common_text);
    cv_params_begin(k);
    input_params(k, plan, step);
    output_params(k, plan, step);
    border(k, plan, step, &later);
    if (is_product) {
        product_numbers(k, plan, step, &later);
    }
    if (step->pack != CV_NONE) {
        cv_param_pack(k, plan, step, KF_ACCESS_READ);
    }
    if (step->is_winograd) {
        winograd_params(k, plan, step);
    }
    if (gate != CV_NONE) {
        cv_param_image(k, plan, gate, "gate", KF_ACCESS_READ, 0, 0);
    }
    cv_load_params(k, plan, step);
    cv_finish_params(k, plan, step);
    cv_params_end(k);
    add_later(k, &later);
    cv_load_text(&k->text, plan, step);
    cv_finish_text(&k->text, plan, step);
    int64_t shares = cv_plan_blocks(plan, step->output) / step->tile_blocks;
    k->items = (step->is_winograd ? step->splits : shares) * step->chunks;
    const char *body = is_dot              ? cv_dot_text
                       : step->is_winograd ? cv_winograd_text
                                           : bodies[step->kind];
    cv_kernel_close(k, body, is_dot ? "dot" : step->is_winograd ? "winograd" : roles[step->kind]);
}

void cv_blocks_emit_step(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    uint32_t is_float = cv_is_float(plan->region->values[step->output].dtype);
    if (step->kind == CV_IMPORT) {
        (is_float && step->n_behind == 0 ? emit_import : emit_enter)(k, plan, step);
        return;
    }
    if (step->kind == CV_EXPORT) {
        (is_float ? emit_export : emit_leave)(k, plan, step);
        return;
    }
    (step->kind == CV_CONCAT ? emit_concat : emit_computing)(k, plan, step);
}
