// SPDX-License-Identifier: MIT OR Apache-2.0
// The launch that makes a step's pack: constants as its kernel reads them, vectors of one number
// for each channel first, then weights. A batch norm behind a product is taken into both.
#include "convolution_form.h"

static uint32_t is_dot(const cv_plan *plan, const cv_step *step)
{
    return step->kind == CV_CONV && plan->of_bytes[step->op];
}

int64_t cv_pack_floats(const cv_plan *plan, const cv_step *step)
{
    int64_t channels = plan->region->values[step->output].channels;
    return step->n_vectors * (int64_t)cv_share(channels, CV_LANES) * CV_LANES +
           plan->device->form->weights(plan, step);
}

int64_t cv_blocks_weights(const cv_plan *plan, const cv_step *step)
{
    if (!cv_is_product(step->kind)) {
        return 0;
    }
    const cv_op *op = &plan->region->ops[step->op];
    const cv_window *w = &op->window;
    int64_t inputs = plan->region->values[step->input].channels / op->groups;
    if (step->kind == CV_CONV || step->kind == CV_TURNED) {
        inputs = (int64_t)cv_plan_depth(plan, step) * plan->places[step->input].lanes;
    }
    inputs /= is_dot(plan, step) ? 4 : 1;
    return inputs * (step->is_winograd ? 16 : w->lengths[0] * w->lengths[1]) *
           cv_plan_blocks(plan, step->output) * CV_LANES;
}

/// A constant of which the pack takes numbers: a pointer and where it begins; AT_<name>(i) is the
/// i-th of them.
static void constant_param(cv_kernel *k, const cv_plan *plan, uint32_t value, const char *name)
{
    char offset[40], type[40];
    snprintf(type, sizeof(type), "__global const %s *",
             cv_type_dense(&plan->region->values[value]));
    snprintf(offset, sizeof(offset), "%s_offset", name);
    cv_param_add(k, (cv_param){.kind = CV_PARAM_TENSOR, .index = value, .access = KF_ACCESS_READ},
                 type, name);
    cv_param_add(k, (cv_param){.kind = CV_PARAM_OFFSET, .index = value}, "const long ", offset);
    uint32_t dtype = plan->region->values[value].dtype;
    const char *any = plan->device->form->value;
    char widen[24] = "";
    if (any != NULL) {
        snprintf(widen, sizeof(widen), "%s", any);
    } else if (cv_is_narrow(dtype)) {
        uint32_t which = dtype == KF_DTYPE_F16 ? 1 : 2;
        if ((k->widens & which) == 0) {
            cv_narrow_functions(&k->defines, dtype);
        }
        k->widens |= which;
        snprintf(widen, sizeof(widen), "value_%s", kf_dtype_of(dtype).name);
    }
    kf_text_addf(&k->defines, "#define AT_%s(i) %s(%s[%s + (i)])\n", name, widen, name, offset);
}

static void norm_params(cv_kernel *k, const cv_plan *plan, const cv_op *norm, uint32_t number)
{
    static const char *const parts[] = {"", "scale", "shift", "mean", "variance"};
    for (uint32_t i = 1; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof(name), "n%u_%s", (unsigned)number, parts[i]);
        constant_param(k, plan, norm->inputs[i], name);
    }
    cv_param_scalars(k, plan, norm, 100 + number);
}

/// `n<number>`: factor and what is added, of channel `o`.
static void norm_text(kf_text *text, const cv_op *norm, uint32_t number, const char *of)
{
    char epsilon[32];
    const cv_number *e = &norm->numbers[0];
    if (e->is_scalar) {
        snprintf(epsilon, sizeof(epsilon), "s%u_0", 100 + (unsigned)number);
    } else {
        cv_text_float(epsilon, e->value);
    }
    kf_text_addf(text, "const float %s_scale = AT_n%u_scale(o) / sqrt(AT_n%u_variance(o) + %s); ",
                 of, number, number, epsilon);
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

/// `name`: a constant, of one number or one for each channel, or a number.
static void number_param(cv_kernel *k, const cv_plan *plan, uint32_t constant,
                         const cv_number *number, uint32_t dtype, const char *name, char text[64])
{
    if (constant == CV_NONE) {
        cv_param_number(k, number, dtype, name, text);
        return;
    }
    constant_param(k, plan, constant, name);
    snprintf(text, 64, "AT_%s(%s)", name, plan->region->values[constant].channels == 1 ? "0" : "o");
}

/// WEIGHT(o, i): number `i` of the weights, which is one of channel `o`. Where the image is of 8
/// bits, it is the whole number, and UNIT(o) what it counts; WHOLE(i) and SHIFT(o) are the signed
/// byte and its zero point.
static void weights_params(cv_kernel *k, const cv_plan *plan, const cv_op *op)
{
    cv_scaled weights;
    char zero[64], scale[64];
    uint32_t of_bytes = plan->of_bytes[plan->region->values[op->result].op];
    kf_text *defines = &k->defines;
    if (!cv_scaled_of(plan->region, op->inputs[1], &weights)) {
        constant_param(k, plan, op->inputs[1], "w");
        kf_text_addf(defines, "#define WEIGHT(o, i) %s\n#define UNIT(o) 1.0f\n",
                     plan->device->form->weight);
        return;
    }
    constant_param(k, plan, weights.value, "w");
    snprintf(zero, sizeof(zero), "0");
    if (weights.has_zero) {
        number_param(k, plan, weights.zeros, &weights.zero, KF_DTYPE_I32, "w_zero", zero);
    }
    number_param(k, plan, weights.scales, &weights.scale, KF_DTYPE_F32, "w_scale", scale);
    int flip = plan->region->values[weights.value].dtype == KF_DTYPE_U8 ? 128 : 0;
    kf_text_addf(defines, "#define UNIT(o) %s\n#define WHOLE(i) (AT_w(i) - %d)\n", scale, flip);
    kf_text_addf(defines, "#define SHIFT(o) (%s - %d)\n", zero, flip);
    kf_text_addf(defines, "#define WEIGHT(o, i) ((float)(WHOLE(i) - SHIFT(o))%s)\n",
                 of_bytes ? "" : " * UNIT(o)");
}

/// The bias and the weights' factor, a batch norm behind the product taken in.
static void pack_product(cv_kernel *k, pack_texts *t, const cv_plan *plan, const cv_step *step)
{
    const cv_op *op = &plan->region->ops[step->op];
    weights_params(k, plan, op);
    if (op->n_inputs == 3) {
        constant_param(k, plan, op->inputs[2], "bias");
    }
    const char *bias = op->n_inputs == 3 ? "AT_bias(o)" : "0.0f";
    if (step->norm == CV_NONE) {
        kf_text_addf(&t->stores, "const float first = is_channel ? %s : 0.0f; ", bias);
    } else {
        const cv_op *norm = &plan->region->ops[step->norm];
        norm_params(k, plan, norm, 99);
        kf_text_add(&t->stores, "float first = 0.0f, factor = 0.0f; if (is_channel) { ");
        norm_text(&t->stores, norm, 99, "own");
        kf_text_addf(&t->stores,
                     "factor = own_scale; first = (%s - AT_n99_mean(o)) * own_scale + "
                     "AT_n99_shift(o); } ",
                     bias);
    }
    store_vector(t, "first");
    uint32_t vectors = cv_plan_vectors(plan, step->op);
    if (vectors > 1) {
        store_vector(t, "is_channel ? UNIT(o) : 0.0f");
    }
    if (vectors > 2) {
        store_vector(t, "as_float(sum_of_weights)");
    }
    if (vectors > 3) {
        store_vector(t, "as_float(is_channel ? SHIFT(o) : 0)");
    }
}

static void pack_behind(cv_kernel *k, pack_texts *t, const cv_plan *plan, const cv_step *step)
{
    for (uint32_t i = 0; i < step->n_behind; i++) {
        const cv_op *op = &plan->region->ops[step->behind[i]];
        char name[32], text[160];
        if (op->kind == CV_NORM) {
            norm_params(k, plan, op, i);
            kf_text_add(&t->stores, "{ float a = 0.0f, b = 0.0f; if (is_channel) { ");
            norm_text(&t->stores, op, i, "own");
            kf_text_addf(&t->stores,
                         "a = own_scale; b = AT_n%u_shift(o) - AT_n%u_mean(o) * own_scale; } ", i,
                         i);
            store_vector(t, "a");
            store_vector(t, "b");
            kf_text_add(&t->stores, "} ");
        }
        for (uint32_t n = 0; n < op->n_inputs && op->kind == CV_MAP; n++) {
            const cv_value *v = &plan->region->values[op->inputs[n]];
            if (!v->is_image) {
                snprintf(name, sizeof(name), "c%u_%u", (unsigned)i, (unsigned)n);
                constant_param(k, plan, op->inputs[n], name);
                snprintf(text, sizeof(text), "is_channel ? AT_%s(%s) : 0.0f", name,
                         v->channels == 1 ? "0" : "o");
                store_vector(t, text);
            }
        }
    }
}

void cv_blocks_begin_pack(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    uint32_t product = cv_is_product(step->kind);
    int32_t groups = product ? plan->region->ops[step->op].groups : 1;
    cv_text_define(&k->text, "VECTORS", step->n_vectors);
    cv_text_define(&k->text, "WEIGHTS",
                   is_dot(plan, step)           ? 3
                   : step->is_winograd          ? 5
                   : step->kind == CV_CONV      ? 1
                   : step->kind == CV_TURNED    ? 1
                   : step->kind == CV_DEPTHWISE ? 2
                   : step->kind == CV_GROUPED   ? 4
                                                : 0);
    cv_text_define(&k->text, "IB", plan->places[step->input].lanes);
    if (product) {
        cv_text_define(&k->text, "KH", plan->region->ops[step->op].window.lengths[0]);
        cv_text_define(&k->text, "KW", plan->region->ops[step->op].window.lengths[1]);
        kf_text_addf(&k->text, "#define SCALE(o) %s\n", step->norm == CV_NONE ? "1.0f" : "factor");
        kf_text_addf(&k->text, "#define PAIR(o, c) %s\n",
                     step->kind == CV_TURNED ? "((long)(c) * channels + (o))"
                                             : "((long)(o) * in_channels + (c))");
    }
    cv_params_begin(k);
    cv_param_pack(k, plan, step, KF_ACCESS_WRITE);
    cv_param_int(k, "blocks", cv_plan_blocks(plan, step->output));
    cv_param_int(k, "channels", plan->region->values[step->output].channels);
    cv_param_int(k, "in_blocks", cv_plan_depth(plan, step));
    cv_param_int(k, "in_channels", plan->region->values[step->input].channels / groups);
    k->items = cv_plan_blocks(plan, step->output);
}

void cv_emit_pack(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    pack_texts t = {.vector = 0};
    plan->device->form->begin_pack(k, plan, step);
    if (cv_is_product(step->kind)) {
        pack_product(k, &t, plan, step);
    }
    pack_behind(k, &t, plan, step);
    cv_params_end(k);
    if (k->defines.ptr != NULL) {
        kf_text_bytes(&k->text, k->defines.ptr, k->defines.len);
    }
    k->failed |= k->defines.failed;
    kf_text_free(&k->defines);
    kf_text_add(&k->text, "#define PACK_VECTORS ");
    if (t.stores.ptr != NULL) {
        kf_text_bytes(&k->text, t.stores.ptr, t.stores.len);
    }
    kf_text_add(&k->text, "\n");
    k->failed |= t.stores.failed;
    kf_text_free(&t.stores);
    cv_kernel_close(k, plan->device->form->pack_text, "pack");
}
