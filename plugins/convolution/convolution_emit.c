// SPDX-License-Identifier: MIT OR Apache-2.0
// The text of one launch and its arguments, in the same order: sizes as defines where the kernel's
// loops need them, as arguments otherwise, so that layers of one kind share a kernel; the
// elementwise operators behind it as the function `finish`; then a file of kernels/.
#include "convolution_internal.h"

enum { KEY_SEED = 7 };

// ---- parameters ----

static void param(cv_kernel *k, cv_param p, const char *declaration, const char *name)
{
    if (k->n_params == CV_MAX_PARAMS) {
        k->failed = 1;
        return;
    }
    kf_text_addf(&k->text, "%s\\\n    %s%s", k->n_params == 0 ? "" : ", ", declaration, name);
    k->params[k->n_params++] = p;
}

static void int_param(cv_kernel *k, const char *name, int64_t number)
{
    k->failed |= number > INT32_MAX;
    param(k, (cv_param){.kind = CV_PARAM_INT, .number = number}, "const int ", name);
}

static void long_param(cv_kernel *k, const char *name, int64_t number)
{
    param(k, (cv_param){.kind = CV_PARAM_INT, .index = 1, .number = number}, "const long ", name);
}

static void named_int(cv_kernel *k, const char *image, const char *what, int64_t number)
{
    char name[40];
    snprintf(name, sizeof(name), "%s_%s", image, what);
    int_param(k, name, number);
}

/// An image in a temporary. `top`, `left`: rows and columns before the image that the kernel's
/// first place is.
static void image_param(cv_kernel *k, const cv_plan *plan, uint32_t value, const char *name,
                        uint32_t access, uint32_t top, uint32_t left)
{
    const cv_place *place = &plan->places[value];
    cv_param p = {.kind = CV_PARAM_TEMP, .index = place->slot, .access = access};
    char batch[40];
    snprintf(batch, sizeof(batch), "%s_batch", name);
    param(k, p, access == KF_ACCESS_READ ? "__global const float *" : "__global float *", name);
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
    image_param(k, plan, step->output, "out", KF_ACCESS_WRITE, 0, 0);
    int_param(k, "out_top", place->top);
    int_param(k, "out_left", place->left);
    int_param(k, "out_bottom", place->bottom);
    int_param(k, "out_right", place->right);
    int_param(k, "blocks", cv_plan_blocks(plan, step->output));
    int_param(k, "channels", value->channels);
    int_param(k, "height", value->height);
    int_param(k, "width", value->width);
    int_param(k, "rows", step->rows);
    int_param(k, "chunks", step->chunks);
}

static void input_params(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    const cv_value *value = &plan->region->values[step->input];
    uint32_t product = step->kind == CV_CONV || step->kind == CV_DEPTHWISE;
    const cv_window *w = product ? &plan->region->ops[step->op].window : NULL;
    image_param(k, plan, step->input, "in", KF_ACCESS_READ, w != NULL ? w->begin[0] : 0,
                w != NULL ? w->begin[1] : 0);
    int_param(k, "in_blocks", cv_plan_blocks(plan, step->input));
    int_param(k, "in_height", value->height);
    int_param(k, "in_width", value->width);
}

static void pack_param(cv_kernel *k, const cv_plan *plan, const cv_step *step, uint32_t access)
{
    cv_param p = {.kind = CV_PARAM_TEMP, .index = plan->n_slots + step->pack, .access = access};
    param(k, p, access == KF_ACCESS_READ ? "__global const float *" : "__global float *", "pack");
}

static void scalar_params(cv_kernel *k, const cv_op *op, uint32_t number)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (op->numbers[i].is_scalar) {
            char name[24];
            snprintf(name, sizeof(name), "s%u_%u", (unsigned)number, (unsigned)i);
            param(k, (cv_param){.kind = CV_PARAM_SCALAR, .index = op->numbers[i].index},
                  "const float ", name);
        }
    }
}

// ---- what is behind a step's first operation ----

/// A number exactly as f32 has it.
static void float_text(char text[32], double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof(bits));
    snprintf(text, 32, "as_float(0x%xu)", (unsigned)bits);
}

static void number_text(char text[64], const cv_op *op, uint32_t number, uint32_t i)
{
    const cv_number *n = &op->numbers[i];
    if (n->is_scalar) {
        snprintf(text, 64, "((float16)(s%u_%u))", (unsigned)number, (unsigned)i);
    } else {
        char exact[32];
        float_text(exact, n->value);
        snprintf(text, 64, "((float16)(%s))", exact);
    }
}

static void helpers(kf_text *text, const cv_plan *plan, const cv_step *step)
{
    const kf_ew_helper *helper;
    kf_dtype f32 = kf_dtype_of(KF_DTYPE_F32);
    for (uint32_t h = 0; (helper = kf_ew_helper_at(h)) != NULL; h++) {
        uint32_t called = 0;
        for (uint32_t i = 0; i < step->n_behind; i++) {
            const cv_op *op = &plan->region->ops[step->behind[i]];
            called |= op->row != NULL &&
                      strncmp(op->row->text[0], helper->name, strlen(helper->name)) == 0;
        }
        if (called && kf_ew_helper_serves(helper, &f32)) {
            kf_ew_template(text, helper->text, KF_DTYPE_F32, CV_LANES, NULL);
        }
    }
}

/// Name of an operand of the function: a value of the step, an image, or the next vector.
static void operand(char name[64], const cv_plan *plan, const cv_step *step, uint32_t value,
                    uint32_t *vector)
{
    const cv_region *region = plan->region;
    if (!region->values[value].is_image) {
        snprintf(name, 64, "LOAD(pack, %u * blocks + block)", (unsigned)(*vector)++);
    } else if (cv_step_makes(region, step, value)) {
        snprintf(name, 64, "v");
        for (uint32_t i = 0; i < step->n_behind; i++) {
            if (step->behind[i] == region->values[value].op) {
                snprintf(name, 64, "e%u", (unsigned)i);
            }
        }
    } else if (step->kind == CV_MAP && value == step->input) {
        snprintf(name, 64, "v");
    } else {
        for (uint32_t i = 0; i < step->n_images; i++) {
            if (step->images[i] == value) {
                snprintf(name, 64, "m%u", (unsigned)i);
            }
        }
    }
}

static void operation(kf_text *text, const cv_plan *plan, const cv_step *step, uint32_t i,
                      uint32_t *vector)
{
    const cv_op *op = &plan->region->ops[step->behind[i]];
    char names[5][64] = {{0}};
    const char *operands[5];
    for (uint32_t k = 0; k < 5; k++) {
        operands[k] = names[k];
    }
    for (uint32_t k = 0; k < op->n_inputs && (op->kind == CV_MAP || k == 0); k++) {
        uint32_t value = op->inputs[k];
        operand(names[k], plan, step, value, vector);
        if (!plan->region->values[value].is_image) { // operands are names
            kf_text_addf(text, "    const float16 k%u_%u = %s;\n", (unsigned)i, (unsigned)k,
                         names[k]);
            snprintf(names[k], sizeof(names[k]), "k%u_%u", (unsigned)i, (unsigned)k);
        }
    }
    kf_text_addf(text, "    const float16 e%u = (", (unsigned)i);
    if (op->kind == CV_NORM) {
        kf_text_addf(text, "%s * LOAD(pack, %u * blocks + block) + LOAD(pack, %u * blocks + block)",
                     names[0], (unsigned)*vector, (unsigned)*vector + 1);
        *vector += 2;
    } else {
        for (uint32_t k = 0; k < op->row->scalars; k++) {
            number_text(names[3 + k], op, i, k);
        }
        kf_ew_template(text, op->row->text[0], KF_DTYPE_F32, CV_LANES, operands);
    }
    kf_text_add(text, ");\n");
}

/// The parameters that `finish` hands on, as their names.
static void behind_params(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    for (uint32_t i = 0; i < step->n_images; i++) {
        char name[16];
        snprintf(name, sizeof(name), "image%u", (unsigned)i);
        image_param(k, plan, step->images[i], name, KF_ACCESS_READ, 0, 0);
    }
    for (uint32_t i = 0; i < step->n_behind; i++) {
        scalar_params(k, &plan->region->ops[step->behind[i]], i);
    }
}

static void finish_arguments(kf_text *text, const cv_plan *plan, const cv_step *step,
                             uint32_t declared)
{
    if (step->pack != CV_NONE) {
        kf_text_add(text, declared ? ", __global const float *pack" : ", pack");
    }
    for (uint32_t i = 0; i < step->n_images; i++) {
        if (declared) {
            kf_text_addf(text,
                         ", __global const float *image%u, int image%u_base, int image%u_row, int "
                         "image%u_plane, long image%u_batch",
                         i, i, i, i, i);
        } else {
            kf_text_addf(text, ", image%u, image%u_base, image%u_row, image%u_plane, image%u_batch",
                         i, i, i, i, i);
        }
    }
    for (uint32_t i = 0; i < step->n_behind; i++) {
        const cv_op *op = &plan->region->ops[step->behind[i]];
        for (uint32_t n = 0; n < 2; n++) {
            if (op->numbers[n].is_scalar) {
                kf_text_addf(text, declared ? ", float s%u_%u" : ", s%u_%u", i, n);
            }
        }
    }
}

static void finish_function(kf_text *text, const cv_plan *plan, const cv_step *step)
{
    const cv_region *region = plan->region;
    const cv_value *out = &region->values[step->output];
    uint32_t vector = step->kind == CV_CONV || step->kind == CV_DEPTHWISE;
    helpers(text, plan, step);
    kf_text_add(text, "static inline float16 finish(float16 v, long n, int block, int y, int x, "
                      "int blocks, int channels");
    finish_arguments(text, plan, step, /*declared=*/1);
    kf_text_add(text, ")\n{\n");
    for (uint32_t i = 0; i < step->n_images; i++) {
        const cv_value *image = &region->values[step->images[i]];
        uint32_t whole = image->height == out->height && image->width == out->width;
        kf_text_addf(text,
                     "    const float16 m%u = LOAD(image%u + n * image%u_batch + image%u_base + "
                     "(long)block * image%u_plane%s",
                     i, i, i, i, i, whole ? "" : ", 0);\n");
        if (whole) {
            kf_text_addf(text, " + (long)y * image%u_row + x * 16, 0);\n", i);
        }
    }
    for (uint32_t i = 0; i < step->n_behind; i++) {
        operation(text, plan, step, i, &vector);
    }
    char last[16];
    snprintf(last, sizeof(last), step->n_behind > 0 ? "e%u" : "v", step->n_behind - 1u);
    if (out->channels % CV_LANES != 0) {
        kf_text_addf(text, "    return only_channels(%s, channels - block * 16);\n}\n", last);
    } else {
        kf_text_addf(text, "    return %s;\n}\n", last);
    }
    kf_text_add(text,
                "#define FINISH(v, n, block, y, x) finish(v, n, block, y, x, blocks, channels");
    finish_arguments(text, plan, step, /*declared=*/0);
    kf_text_add(text, ")\n");
}

// ---- kernels ----

static void define(kf_text *text, const char *name, int64_t value)
{
    kf_text_addf(text, "#define %s %lld\n", name, (long long)value);
}

static void window_defines(kf_text *text, const cv_op *op)
{
    const cv_window *w = &op->window;
    define(text, "KH", w->lengths[0]);
    define(text, "KW", w->lengths[1]);
    define(text, "SY", w->strides[0]);
    define(text, "SX", w->strides[1]);
    define(text, "DY", w->dilations[0]);
    define(text, "DX", w->dilations[1]);
    if (op->kind == CV_POOL) {
        define(text, "MAX", op->is_max);
        define(text, "INCLUDE_PAD", op->include_pad);
        define(text, "PAD_TOP", w->begin[0]);
        define(text, "PAD_LEFT", w->begin[1]);
        define(text, "PAD_BOTTOM", w->end[0]);
        define(text, "PAD_RIGHT", w->end[1]);
    }
}

/// The text before parameters is complete: begins the list of them.
static void begin_params(cv_kernel *k)
{
    kf_text_add(&k->text, "#define PARAMS ");
}

static void end_params(cv_kernel *k)
{
    kf_text_add(&k->text, "\n");
}

/// Names the kernel by its text, so that the same text is the same program in every model.
static void close(cv_kernel *k, const char *body, const char *role)
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

static void emit_import(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    const cv_place *place = &plan->places[step->output];
    define(&k->text, "IB", place->lanes);
    kf_text_add(&k->text, cv_common_text);
    begin_params(k);
    param(k, (cv_param){.kind = CV_PARAM_TENSOR, .index = step->input, .access = KF_ACCESS_READ},
          "__global const float *", "in");
    param(k, (cv_param){.kind = CV_PARAM_OFFSET, .index = step->input}, "const long ", "in_offset");
    output_params(k, plan, step);
    end_params(k);
    k->items = (int64_t)cv_plan_blocks(plan, step->output) * step->chunks;
    close(k, cv_import_text, "import");
}

static void emit_export(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    const cv_value *value = &plan->region->values[step->input];
    kf_text_add(&k->text, cv_common_text);
    begin_params(k);
    image_param(k, plan, step->input, "in", KF_ACCESS_READ, 0, 0);
    param(k, (cv_param){.kind = CV_PARAM_TENSOR, .index = step->output, .access = KF_ACCESS_WRITE},
          "__global float *", "out");
    param(k, (cv_param){.kind = CV_PARAM_OFFSET, .index = step->output}, "const long ",
          "out_offset");
    int_param(k, "blocks", cv_plan_blocks(plan, step->input));
    int_param(k, "channels", value->channels);
    int_param(k, "height", value->height);
    int_param(k, "width", value->width);
    int_param(k, "rows", step->rows);
    int_param(k, "chunks", step->chunks);
    end_params(k);
    k->items = (int64_t)cv_plan_blocks(plan, step->input) * step->chunks;
    close(k, cv_export_text, "export");
}

void cv_emit_step(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    static const char *const roles[] = {"", "conv", "depthwise", "pool", "mean", "map"};
    static const char *const bodies[] = {"",           cv_conv_text, cv_depthwise_text,
                                         cv_pool_text, cv_mean_text, cv_map_text};
    if (step->kind == CV_IMPORT) {
        emit_import(k, plan, step);
        return;
    }
    if (step->kind == CV_EXPORT) {
        emit_export(k, plan, step);
        return;
    }
    if (step->op != CV_NONE && step->kind != CV_MEAN) {
        window_defines(&k->text, &plan->region->ops[step->op]);
    }
    if (step->kind == CV_CONV || step->kind == CV_DEPTHWISE) {
        define(&k->text, "VECTORS", step->n_vectors);
        define(&k->text, "IB", plan->places[step->input].lanes);
        define(&k->text, "TH", step->tile_rows);
        define(&k->text, "TW", step->tile_columns);
        define(&k->text, "ON", step->tile_blocks);
    }
    kf_text_add(&k->text, cv_common_text);
    begin_params(k);
    input_params(k, plan, step);
    output_params(k, plan, step);
    if (step->pack != CV_NONE) {
        pack_param(k, plan, step, KF_ACCESS_READ);
    }
    behind_params(k, plan, step);
    end_params(k);
    finish_function(&k->text, plan, step);
    k->items = (int64_t)(cv_plan_blocks(plan, step->output) / step->tile_blocks) * step->chunks;
    close(k, bodies[step->kind], roles[step->kind]);
}

// ---- packs ----

int64_t cv_pack_floats(const cv_plan *plan, const cv_step *step)
{
    int64_t blocks = cv_plan_blocks(plan, step->output), numbers = step->n_vectors;
    if (step->kind == CV_CONV || step->kind == CV_DEPTHWISE) {
        const cv_window *w = &plan->region->ops[step->op].window;
        int64_t inputs = step->kind == CV_CONV ? (int64_t)cv_plan_blocks(plan, step->input) *
                                                     plan->places[step->input].lanes
                                               : 1;
        numbers += inputs * w->lengths[0] * w->lengths[1];
    }
    return numbers * blocks * CV_LANES;
}

/// A constant of which the pack takes numbers: a pointer and where it begins.
static void constant_param(cv_kernel *k, uint32_t value, const char *name)
{
    char offset[40];
    snprintf(offset, sizeof(offset), "%s_offset", name);
    param(k, (cv_param){.kind = CV_PARAM_TENSOR, .index = value, .access = KF_ACCESS_READ},
          "__global const float *", name);
    param(k, (cv_param){.kind = CV_PARAM_OFFSET, .index = value}, "const long ", offset);
}

static void norm_params(cv_kernel *k, const cv_op *norm, uint32_t number)
{
    static const char *const parts[] = {"", "scale", "shift", "mean", "variance"};
    for (uint32_t i = 1; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof(name), "n%u_%s", (unsigned)number, parts[i]);
        constant_param(k, norm->inputs[i], name);
    }
    scalar_params(k, norm, 100 + number);
}

/// `n<number>`: factor and what is added, of channel `o`.
static void norm_text(kf_text *text, const cv_op *norm, uint32_t number, const char *of)
{
    char epsilon[32];
    const cv_number *e = &norm->numbers[0];
    if (e->is_scalar) {
        snprintf(epsilon, sizeof(epsilon), "s%u_0", 100 + (unsigned)number);
    } else {
        float_text(epsilon, e->value);
    }
    kf_text_addf(text,
                 "const float %s_scale = n%u_scale[n%u_scale_offset + o] / "
                 "sqrt(n%u_variance[n%u_variance_offset + o] + %s); ",
                 of, number, number, number, number, epsilon);
}

typedef struct pack_texts {
    kf_text stores;
    uint32_t vector;
} pack_texts;

static void store_vector(pack_texts *t, const char *value)
{
    kf_text_addf(&t->stores, "pack[((long)%u * blocks + block) * 16 + lane] = %s; ",
                 (unsigned)t->vector++, value);
}

/// The bias and the weights' factor, a batch norm behind the product taken in.
static void pack_product(cv_kernel *k, pack_texts *t, const cv_plan *plan, const cv_step *step)
{
    const cv_op *op = &plan->region->ops[step->op];
    constant_param(k, op->inputs[1], "w");
    if (op->n_inputs == 3) {
        constant_param(k, op->inputs[2], "bias");
    }
    const char *bias = op->n_inputs == 3 ? "bias[bias_offset + o]" : "0.0f";
    if (step->norm == CV_NONE) {
        kf_text_addf(&t->stores, "const float first = is_channel ? %s : 0.0f; ", bias);
    } else {
        const cv_op *norm = &plan->region->ops[step->norm];
        norm_params(k, norm, 99);
        kf_text_add(&t->stores, "float first = 0.0f, factor = 0.0f; if (is_channel) { ");
        norm_text(&t->stores, norm, 99, "own");
        kf_text_addf(&t->stores,
                     "factor = own_scale; first = (%s - n99_mean[n99_mean_offset + o]) * own_scale "
                     "+ n99_shift[n99_shift_offset + o]; } ",
                     bias);
    }
    store_vector(t, "first");
}

static void pack_behind(cv_kernel *k, pack_texts *t, const cv_plan *plan, const cv_step *step)
{
    for (uint32_t i = 0; i < step->n_behind; i++) {
        const cv_op *op = &plan->region->ops[step->behind[i]];
        char name[32], text[160];
        if (op->kind == CV_NORM) {
            norm_params(k, op, i);
            kf_text_add(&t->stores, "{ float a = 0.0f, b = 0.0f; if (is_channel) { ");
            norm_text(&t->stores, op, i, "own");
            kf_text_addf(&t->stores,
                         "a = own_scale; b = n%u_shift[n%u_shift_offset + o] - "
                         "n%u_mean[n%u_mean_offset + o] * own_scale; } ",
                         i, i, i, i);
            store_vector(t, "a");
            store_vector(t, "b");
            kf_text_add(&t->stores, "} ");
        }
        for (uint32_t n = 0; n < op->n_inputs && op->kind == CV_MAP; n++) {
            const cv_value *v = &plan->region->values[op->inputs[n]];
            if (!v->is_image) {
                snprintf(name, sizeof(name), "c%u_%u", (unsigned)i, (unsigned)n);
                constant_param(k, op->inputs[n], name);
                snprintf(text, sizeof(text), "is_channel ? %s[%s_offset + %s] : 0.0f", name, name,
                         v->channels == 1 ? "0" : "o");
                store_vector(t, text);
            }
        }
    }
}

void cv_emit_pack(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    uint32_t product = step->kind == CV_CONV || step->kind == CV_DEPTHWISE;
    pack_texts t = {.vector = 0};
    define(&k->text, "VECTORS", step->n_vectors);
    define(&k->text, "WEIGHTS", step->kind == CV_CONV ? 1 : step->kind == CV_DEPTHWISE ? 2 : 0);
    define(&k->text, "IB", plan->places[step->input].lanes);
    if (product) {
        define(&k->text, "KH", plan->region->ops[step->op].window.lengths[0]);
        define(&k->text, "KW", plan->region->ops[step->op].window.lengths[1]);
        kf_text_addf(&k->text, "#define SCALE(o) %s\n", step->norm == CV_NONE ? "1.0f" : "factor");
    }
    begin_params(k);
    pack_param(k, plan, step, KF_ACCESS_WRITE);
    int_param(k, "blocks", cv_plan_blocks(plan, step->output));
    int_param(k, "channels", plan->region->values[step->output].channels);
    int_param(k, "in_blocks", cv_plan_blocks(plan, step->input));
    int_param(k, "in_channels", plan->region->values[step->input].channels);
    if (product) {
        pack_product(k, &t, plan, step);
    }
    pack_behind(k, &t, plan, step);
    end_params(k);
    kf_text_add(&k->text, "#define PACK_VECTORS ");
    if (t.stores.ptr != NULL) {
        kf_text_bytes(&k->text, t.stores.ptr, t.stores.len);
    }
    kf_text_add(&k->text, "\n");
    k->failed |= t.stores.failed;
    kf_text_free(&t.stores);
    k->items = cv_plan_blocks(plan, step->output);
    close(k, cv_pack_text, "pack");
}
