// SPDX-License-Identifier: MIT OR Apache-2.0
// What is behind a step's first operation, as the function `finish` of its kernel: elementwise
// operators on the 16 channels of a place, with images and vectors of constants.
#include "convolution_emit.h"

/// A number exactly as f32 has it.
void cv_text_float(char text[32], double value)
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
        cv_text_float(exact, n->value);
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
void cv_finish_params(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    for (uint32_t i = 0; i < step->n_images; i++) {
        char name[16];
        snprintf(name, sizeof(name), "image%u", (unsigned)i);
        cv_param_image(k, plan, step->images[i], name, KF_ACCESS_READ, 0, 0);
    }
    for (uint32_t i = 0; i < step->n_behind; i++) {
        cv_param_scalars(k, &plan->region->ops[step->behind[i]], i);
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

void cv_finish_text(kf_text *text, const cv_plan *plan, const cv_step *step)
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
