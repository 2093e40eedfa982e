// SPDX-License-Identifier: MIT OR Apache-2.0
// The text of one launch and its arguments, in the same order: sizes as defines where the kernel's
// loops need them, as arguments otherwise, so that layers of one kind share a kernel; the
// elementwise operators behind it as the function `finish` (convolution_finish.c); then a file of
// kernels/.
#include "convolution_emit.h"

#include "kf_dot.h"

enum { KEY_SEED = 7 };

// ---- parameters ----

void cv_param_add(cv_kernel *k, cv_param p, const char *declaration, const char *name)
{
    if (k->n_params == CV_MAX_PARAMS) {
        k->failed = 1;
        return;
    }
    kf_text_addf(&k->text, "%s\\\n    %s%s", k->n_params == 0 ? "" : ", ", declaration, name);
    k->params[k->n_params++] = p;
}

void cv_param_int(cv_kernel *k, const char *name, int64_t number)
{
    k->failed |= number > INT32_MAX;
    cv_param_add(k, (cv_param){.kind = CV_PARAM_INT, .number = number}, "const int ", name);
}

static void long_param(cv_kernel *k, const char *name, int64_t number)
{
    cv_param_add(k, (cv_param){.kind = CV_PARAM_INT, .index = 1, .number = number}, "const long ",
                 name);
}

static void named_int(cv_kernel *k, const char *image, const char *what, int64_t number)
{
    char name[40];
    snprintf(name, sizeof(name), "%s_%s", image, what);
    cv_param_int(k, name, number);
}

/// An image in a temporary. `top`, `left`: rows and columns before the image that the kernel's
/// first place is.
void cv_param_image(cv_kernel *k, const cv_plan *plan, uint32_t value, const char *name,
                    uint32_t access, uint32_t top, uint32_t left)
{
    const cv_place *place = &plan->places[value];
    cv_param p = {.kind = CV_PARAM_TEMP, .index = place->slot, .access = access};
    char batch[40];
    snprintf(batch, sizeof(batch), "%s_batch", name);
    char type[40];
    snprintf(type, sizeof(type), "__global %s%s *", access == KF_ACCESS_READ ? "const " : "",
             cv_type_in_blocks(&plan->region->values[value]));
    cv_param_add(k, p, type, name);
    named_int(k, name, "base",
              (int64_t)(place->top - top) * cv_plan_row(plan, value) +
                  (int64_t)(place->left - left) * place->lanes);
    named_int(k, name, "row", cv_plan_row(plan, value));
    named_int(k, name, "plane", cv_plan_plane(plan, value));
    long_param(k, batch, cv_plan_batch(plan, value));
}

static void output_params(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    const cv_place *place = &plan->places[step->output];
    const cv_value *value = &plan->region->values[step->output];
    cv_param_image(k, plan, step->output, "out", KF_ACCESS_WRITE, 0, 0);
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
    uint32_t product = step->kind == CV_CONV || step->kind == CV_DEPTHWISE;
    const cv_window *w = product ? &plan->region->ops[step->op].window : NULL;
    cv_param_image(k, plan, step->input, "in", KF_ACCESS_READ, w != NULL ? w->begin[0] : 0,
                   w != NULL ? w->begin[1] : 0);
    cv_param_int(k, "in_blocks", cv_plan_blocks(plan, step->input));
    cv_param_int(k, "in_channels", value->channels);
    cv_param_int(k, "in_height", value->height);
    cv_param_int(k, "in_width", value->width);
}

void cv_param_pack(cv_kernel *k, const cv_plan *plan, const cv_step *step, uint32_t access)
{
    cv_param p = {.kind = CV_PARAM_TEMP, .index = plan->n_slots + step->pack, .access = access};
    cv_param_add(k, p, access == KF_ACCESS_READ ? "__global const float *" : "__global float *",
                 "pack");
}

static void scalar_param(cv_kernel *k, uint32_t index, uint32_t dtype, const char *name)
{
    cv_param p = {.kind = CV_PARAM_SCALAR, .index = index, .number = dtype};
    cv_param_add(k, p, dtype == KF_DTYPE_F32 ? "const float " : "const int ", name);
}

void cv_param_scalars(cv_kernel *k, const cv_region *region, const cv_op *op, uint32_t number)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (op->numbers[i].is_scalar) {
            char name[24];
            snprintf(name, sizeof(name), "s%u_%u", (unsigned)number, (unsigned)i);
            scalar_param(k, op->numbers[i].index, region->values[op->result].dtype, name);
        }
    }
}

void cv_param_number(cv_kernel *k, const cv_number *number, uint32_t dtype, const char *name,
                     char text[64])
{
    if (number->is_scalar) {
        scalar_param(k, number->index, dtype, name);
        snprintf(text, 64, "%s", name);
    } else if (dtype == KF_DTYPE_F32) {
        cv_text_float(text, number->value);
    } else {
        snprintf(text, 64, "(%d)", (int)number->value);
    }
}

const char *cv_type_in_blocks(const cv_value *value)
{
    return cv_is_byte(value->dtype) ? "uchar" : cv_type_dense(value);
}

const char *cv_type_dense(const cv_value *value)
{
    return value->dtype == KF_DTYPE_U8    ? "uchar"
           : value->dtype == KF_DTYPE_I8  ? "char"
           : value->dtype == KF_DTYPE_I32 ? "int"
                                          : "float";
}

// ---- kernels ----

void cv_text_define(kf_text *text, const char *name, int64_t value)
{
    kf_text_addf(text, "#define %s %lld\n", name, (long long)value);
}

static void window_defines(kf_text *text, const cv_op *op)
{
    const cv_window *w = &op->window;
    cv_text_define(text, "KH", w->lengths[0]);
    cv_text_define(text, "KW", w->lengths[1]);
    cv_text_define(text, "SY", w->strides[0]);
    cv_text_define(text, "SX", w->strides[1]);
    cv_text_define(text, "DY", w->dilations[0]);
    cv_text_define(text, "DX", w->dilations[1]);
    if (op->kind == CV_POOL) {
        cv_text_define(text, "MAX", op->is_max);
        cv_text_define(text, "INCLUDE_PAD", op->include_pad);
        cv_text_define(text, "PAD_TOP", w->begin[0]);
        cv_text_define(text, "PAD_LEFT", w->begin[1]);
        cv_text_define(text, "PAD_BOTTOM", w->end[0]);
        cv_text_define(text, "PAD_RIGHT", w->end[1]);
    }
}

void cv_params_begin(cv_kernel *k)
{
    kf_text_add(&k->text, "#define PARAMS ");
}

void cv_params_end(cv_kernel *k)
{
    kf_text_add(&k->text, "\n");
}

/// Names the kernel by its text, so that the same text is the same program in every model.
void cv_kernel_close(cv_kernel *k, const char *body, const char *role)
{
    kf_text_add(&k->text, body);
    uint64_t hash = kf_hash(0xcbf29ce484222325ull + KEY_SEED, k->text.ptr, k->text.len);
    snprintf(k->name, sizeof(k->name), "%s_%016llx", role, (unsigned long long)hash);
    kf_text whole = {0};
    kf_text_addf(&whole, "#define KERNEL %s\n", k->name);
    if (k->text.ptr != NULL) {
        kf_text_bytes(&whole, k->text.ptr, k->text.len);
    }
    k->failed |= k->text.failed | whole.failed;
    kf_text_free(&k->text);
    k->text = whole;
}

/// Elements of what is read and of what results.
static void types_text(kf_text *text, const cv_plan *plan, const cv_step *step)
{
    const cv_value *in = &plan->region->values[step->input];
    const cv_value *out = &plan->region->values[step->output];
    kf_text_addf(text, "#define IN %s\n",
                 step->kind == CV_IMPORT ? cv_type_dense(in) : cv_type_in_blocks(in));
    kf_text_addf(text, "#define OUT %s\n#define OUT16 %s16\n", cv_type_in_blocks(out),
                 cv_type_in_blocks(out));
}

static void emit_import(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    const cv_place *place = &plan->places[step->output];
    cv_text_define(&k->text, "IB", place->lanes);
    types_text(&k->text, plan, step);
    kf_text_add(&k->text, cv_common_text);
    cv_params_begin(k);
    cv_param_add(
        k, (cv_param){.kind = CV_PARAM_TENSOR, .index = step->input, .access = KF_ACCESS_READ},
        "__global const float *", "in");
    cv_param_add(k, (cv_param){.kind = CV_PARAM_OFFSET, .index = step->input}, "const long ",
                 "in_offset");
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
    cv_param_add(
        k, (cv_param){.kind = CV_PARAM_TENSOR, .index = step->input, .access = KF_ACCESS_READ},
        in->dtype == KF_DTYPE_F32  ? "__global const float *"
        : in->dtype == KF_DTYPE_I8 ? "__global const char *"
        : in->dtype == KF_DTYPE_U8 ? "__global const uchar *"
                                   : "__global const int *",
        "in");
    cv_param_add(k, (cv_param){.kind = CV_PARAM_OFFSET, .index = step->input}, "const long ",
                 "in_offset");
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
    cv_params_begin(k);
    cv_param_image(k, plan, step->input, "in", KF_ACCESS_READ, 0, 0);
    cv_param_add(
        k, (cv_param){.kind = CV_PARAM_TENSOR, .index = step->output, .access = KF_ACCESS_WRITE},
        "__global float *", "out");
    cv_param_add(k, (cv_param){.kind = CV_PARAM_OFFSET, .index = step->output}, "const long ",
                 "out_offset");
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

static void emit_computing(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    static const char *const roles[] = {"", "conv", "depthwise", "pool", "mean", "map"};
    static const char *const bodies[] = {"",           cv_conv_text, cv_depthwise_text,
                                         cv_pool_text, cv_mean_text, cv_map_text};
    uint32_t is_product = step->kind == CV_CONV || step->kind == CV_DEPTHWISE;
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
    cv_load_params(k, plan, step);
    cv_finish_params(k, plan, step);
    cv_params_end(k);
    add_later(k, &later);
    cv_load_text(&k->text, plan, step);
    cv_finish_text(&k->text, plan, step);
    k->items = (int64_t)(cv_plan_blocks(plan, step->output) / step->tile_blocks) * step->chunks;
    cv_kernel_close(k, is_dot ? cv_dot_text : bodies[step->kind],
                    is_dot ? "dot" : roles[step->kind]);
}

void cv_emit_step(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    uint32_t is_float = plan->region->values[step->output].dtype == KF_DTYPE_F32;
    if (step->kind == CV_IMPORT) {
        (is_float && step->n_behind == 0 ? emit_import : emit_enter)(k, plan, step);
        return;
    }
    if (step->kind == CV_EXPORT) {
        (is_float ? emit_export : emit_leave)(k, plan, step);
        return;
    }
    emit_computing(k, plan, step);
}
