// SPDX-License-Identifier: MIT OR Apache-2.0
// The launch that makes a step's pack: constants as its kernel reads them, vectors of one number
// for each channel first, then weights. A batch norm behind a product is taken into both.
#include "convolution_emit.h"

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
    cv_param_add(k, (cv_param){.kind = CV_PARAM_TENSOR, .index = value, .access = KF_ACCESS_READ},
                 "__global const float *", name);
    cv_param_add(k, (cv_param){.kind = CV_PARAM_OFFSET, .index = value}, "const long ", offset);
}

static void norm_params(cv_kernel *k, const cv_op *norm, uint32_t number)
{
    static const char *const parts[] = {"", "scale", "shift", "mean", "variance"};
    for (uint32_t i = 1; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof(name), "n%u_%s", (unsigned)number, parts[i]);
        constant_param(k, norm->inputs[i], name);
    }
    cv_param_scalars(k, norm, 100 + number);
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
    cv_text_define(&k->text, "VECTORS", step->n_vectors);
    cv_text_define(&k->text, "WEIGHTS",
                   step->kind == CV_CONV        ? 1
                   : step->kind == CV_DEPTHWISE ? 2
                                                : 0);
    cv_text_define(&k->text, "IB", plan->places[step->input].lanes);
    if (product) {
        cv_text_define(&k->text, "KH", plan->region->ops[step->op].window.lengths[0]);
        cv_text_define(&k->text, "KW", plan->region->ops[step->op].window.lengths[1]);
        kf_text_addf(&k->text, "#define SCALE(o) %s\n", step->norm == CV_NONE ? "1.0f" : "factor");
    }
    cv_params_begin(k);
    cv_param_pack(k, plan, step, KF_ACCESS_WRITE);
    cv_param_int(k, "blocks", cv_plan_blocks(plan, step->output));
    cv_param_int(k, "channels", plan->region->values[step->output].channels);
    cv_param_int(k, "in_blocks", cv_plan_blocks(plan, step->input));
    cv_param_int(k, "in_channels", plan->region->values[step->input].channels);
    if (product) {
        pack_product(k, &t, plan, step);
    }
    pack_behind(k, &t, plan, step);
    cv_params_end(k);
    kf_text_add(&k->text, "#define PACK_VECTORS ");
    if (t.stores.ptr != NULL) {
        kf_text_bytes(&k->text, t.stores.ptr, t.stores.len);
    }
    kf_text_add(&k->text, "\n");
    k->failed |= t.stores.failed;
    kf_text_free(&t.stores);
    k->items = cv_plan_blocks(plan, step->output);
    cv_kernel_close(k, cv_pack_text, "pack");
}
