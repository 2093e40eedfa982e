// SPDX-License-Identifier: MIT OR Apache-2.0
// What is behind a step's first operation, as the function `finish` of its kernel: elementwise
// operators on the 16 channels of a place (of NHWC 8), with images and vectors of constants.
#include "convolution_form.h"

static const cv_form *form_of(const cv_plan *plan)
{
    return plan->device->form;
}

static const char *type_of(const cv_plan *plan, uint32_t dtype)
{
    return cv_is_float(dtype) ? form_of(plan)->floats : "int16";
}

static const char *value_type(const cv_plan *plan, uint32_t value)
{
    return type_of(plan, plan->region->values[value].dtype);
}

/// Is each result of the dtype rounded to it?
static uint32_t rounds_to(const cv_plan *plan, uint32_t dtype)
{
    return cv_is_narrow(dtype) && !form_of(plan)->keeps_narrow;
}

/// Opens the rounding to f16 or bf16; for others a parenthesis.
static void open_rounding(kf_text *text, const cv_plan *plan, uint32_t dtype)
{
    if (rounds_to(plan, dtype)) {
        kf_text_addf(text, "round_%s", kf_dtype_of(dtype).name);
    }
    kf_text_add(text, "(");
}

static void number_text(char text[64], const cv_plan *plan, const cv_op *op, uint32_t number,
                        uint32_t i)
{
    const cv_number *n = &op->numbers[i];
    uint32_t dtype = plan->region->values[op->result].dtype, rounds = rounds_to(plan, dtype);
    const char *type = type_of(plan, dtype), *name = kf_dtype_of(dtype).name;
    if (n->is_scalar && rounds) {
        snprintf(text, 64, "((%s)(value_%s(s%u_%u)))", type, name, (unsigned)number, (unsigned)i);
    } else if (n->is_scalar) {
        snprintf(text, 64, "((%s)(s%u_%u))", type, (unsigned)number, (unsigned)i);
    } else if (cv_is_float(dtype)) {
        char exact[32];
        cv_text_float(exact, n->value);
        snprintf(text, 64, "(%s%s((%s)(%s)))", rounds ? "round_" : "", rounds ? name : "", type,
                 exact);
    } else {
        snprintf(text, 64, "((int16)(%d))", (int)n->value);
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
            kf_ew_template(text, helper->text, KF_DTYPE_F32, form_of(plan)->lanes, NULL);
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
    } else if ((step->kind == CV_MAP || step->kind == CV_IMPORT) && value == step->input) {
        snprintf(name, 64, "v");
    } else {
        for (uint32_t i = 0; i < step->n_images; i++) {
            if (step->images[i] == value) {
                snprintf(name, 64, "m%u", (unsigned)i);
            }
        }
    }
}

/// Of a row of the table, operands given.
static void row_text(kf_text *text, const cv_plan *plan, const cv_op *op, uint32_t number,
                     char names[5][64])
{
    const cv_region *region = plan->region;
    const char *operands[5];
    uint32_t from = region->values[op->inputs[0]].dtype, to = region->values[op->result].dtype;
    for (uint32_t k = 0; k < 5; k++) {
        operands[k] = names[k];
    }
    if (op->row->op == KF_OP_CAST) {
        const char *range = to == KF_DTYPE_U8 ? "0.0f, 255.0f" : "-128.0f, 127.0f";
        if (cv_is_float(to) && cv_is_float(from)) {
            kf_text_add(text, names[0]); // rounded by who calls
        } else if (to == KF_DTYPE_F32) {
            kf_text_addf(text, "convert_float16(%s)", names[0]);
        } else if (from == KF_DTYPE_F32) {
            kf_text_addf(text, "to_whole(%s, %s)", names[0], range);
        } else {
            kf_text_add(text, names[0]); // of 8 bits, in 32 already
        }
        return;
    }
    for (uint32_t k = 0; k < op->row->scalars; k++) {
        number_text(names[3 + k], plan, op, number, k);
    }
    if (op->row->op == KF_OP_ROUND && form_of(plan)->rint != NULL) {
        kf_text_addf(text, "%s(%s)", form_of(plan)->rint, names[0]);
        return;
    }
    uint32_t is_float = cv_is_float(to);
    kf_ew_template(text, op->row->text[is_float ? 0 : 1], is_float ? KF_DTYPE_F32 : to,
                   form_of(plan)->lanes, operands);
}

static void operation(kf_text *text, const cv_plan *plan, const cv_step *step, uint32_t i,
                      uint32_t *vector)
{
    const cv_op *op = &plan->region->ops[step->behind[i]];
    char names[5][64] = {{0}};
    for (uint32_t k = 0; k < op->n_inputs && (op->kind == CV_MAP || k == 0); k++) {
        uint32_t value = op->inputs[k];
        operand(names[k], plan, step, value, vector);
        if (!plan->region->values[value].is_image) { // operands are names
            kf_text_addf(text, "    const %s k%u_%u = %s;\n", type_of(plan, KF_DTYPE_F32),
                         (unsigned)i, (unsigned)k, names[k]);
            snprintf(names[k], sizeof(names[k]), "k%u_%u", (unsigned)i, (unsigned)k);
        }
    }
    uint32_t dtype = plan->region->values[op->result].dtype;
    kf_text_addf(text, "    const %s e%u = ", type_of(plan, dtype), (unsigned)i);
    open_rounding(text, plan, dtype);
    if (op->kind == CV_NORM) {
        kf_text_addf(text, "%s * LOAD(pack, %u * blocks + block) + LOAD(pack, %u * blocks + block)",
                     names[0], (unsigned)*vector, (unsigned)*vector + 1);
        *vector += 2;
    } else {
        row_text(text, plan, op, i, names);
    }
    kf_text_add(text, ");\n");
}

// ---- what a step reads ----

enum { CHAIN = 8, FIRST_OF_CHAIN = 50 };

/// The operations that make the step's input of 8 bits what its first operation takes, in order.
static uint32_t chain_of(const cv_plan *plan, const cv_step *step, uint16_t chain[CHAIN])
{
    const cv_region *region = plan->region;
    uint32_t n = 0;
    if (step->kind != CV_POOL && step->kind != CV_MEAN) {
        return 0;
    }
    uint32_t value = region->ops[step->op].inputs[0];
    while (value != step->input && n < CHAIN) {
        chain[n++] = region->values[value].op;
        value = region->ops[chain[n - 1]].inputs[0];
    }
    for (uint32_t i = 0; i < n / 2; i++) {
        uint16_t other = chain[i];
        chain[i] = chain[n - 1 - i];
        chain[n - 1 - i] = other;
    }
    return n;
}

void cv_load_params(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    uint16_t chain[CHAIN];
    uint32_t n = chain_of(plan, step, chain);
    for (uint32_t i = 0; i < n; i++) {
        cv_param_scalars(k, plan, &plan->region->ops[chain[i]], FIRST_OF_CHAIN + i);
    }
}

static void chain_scalars(kf_text *text, const cv_plan *plan, const uint16_t *chain, uint32_t n,
                          uint32_t declared)
{
    for (uint32_t i = 0; i < n; i++) {
        const cv_op *op = &plan->region->ops[chain[i]];
        uint32_t is_float = cv_is_float(plan->region->values[op->result].dtype);
        if (op->numbers[0].is_scalar) {
            kf_text_addf(text, declared ? ", %s s%u_0" : ", %ss%u_0",
                         !declared  ? ""
                         : is_float ? "float"
                                    : "int",
                         (unsigned)FIRST_OF_CHAIN + i);
        }
    }
}

/// Of a largest element: bytes are in the order of the numbers that they stand for, or against it.
static void order_text(kf_text *text, const cv_plan *plan, const cv_step *step,
                       const uint16_t *chain, uint32_t n)
{
    const cv_op *op = &plan->region->ops[step->op];
    cv_scaled image;
    uint32_t ordered = n > 0 && op->is_max && cv_scaled_of(plan->region, op->inputs[0], &image) &&
                       image.value == step->input;
    const cv_op *last = &plan->region->ops[chain[n > 0 ? n - 1 : 0]];
    cv_text_define(text, "OF_BYTES", ordered);
    if (ordered && last->row->op == KF_OP_MUL_SCALAR && last->numbers[0].is_scalar) {
        kf_text_addf(text, "#define UNIT s%u_0\n", (unsigned)(FIRST_OF_CHAIN + n - 1));
    } else if (ordered) {
        char unit[32];
        cv_text_float(unit, image.scale.value);
        kf_text_addf(text, "#define UNIT %s\n", unit);
    }
}

/// A function that makes f32 of 8 bits.
static void chain_text(kf_text *text, const cv_plan *plan, const uint16_t *chain, uint32_t n)
{
    kf_text_add(text, "static inline float16 enter(int16 v");
    chain_scalars(text, plan, chain, n, /*declared=*/1);
    kf_text_add(text, ")\n{\n");
    for (uint32_t i = 0; i < n; i++) {
        const cv_op *op = &plan->region->ops[chain[i]];
        char names[5][64] = {{0}};
        snprintf(names[0], sizeof(names[0]), i == 0 ? "v" : "e%u", (unsigned)i - 1);
        kf_text_addf(text, "    const %s e%u = ", value_type(plan, op->result), (unsigned)i);
        row_text(text, plan, op, FIRST_OF_CHAIN + i, names);
        kf_text_add(text, ";\n");
    }
    kf_text_addf(text, "    return e%u;\n}\n", (unsigned)n - 1);
}

void cv_load_text(kf_text *text, const cv_plan *plan, const cv_step *step)
{
    const cv_value *in = &plan->region->values[step->input];
    uint16_t chain[CHAIN] = {0};
    uint32_t n = chain_of(plan, step, chain);
    if (n > 0) {
        chain_text(text, plan, chain, n);
    }
    if (step->kind == CV_POOL) {
        order_text(text, plan, step, chain, n);
    }
    uint32_t is_float = cv_is_float(in->dtype) || n > 0 || step->kind == CV_DEPTHWISE;
    kf_text_addf(text, "#define IN16 %s\n#define LOAD_IN(p, i) ", is_float ? "float16" : "int16");
    if (cv_is_float(in->dtype)) {
        kf_text_add(text, "LOAD(p, i)\n");
        return;
    }
    char bytes[96];
    snprintf(bytes, sizeof(bytes), "convert_int16(((__global const %s16 *)(p))[i])",
             cv_type_inside(plan, in));
    if (n > 0) {
        kf_text_addf(text, "ENTER(((__global const %s16 *)(p))[i])\n", cv_type_inside(plan, in));
        kf_text_addf(text, "#define ENTER(b) enter(convert_int16(b) - %d", (int)cv_value_flip(in));
        chain_scalars(text, plan, chain, n, /*declared=*/0);
        kf_text_add(text, ")\n");
    } else if (step->kind == CV_DEPTHWISE) {
        kf_text_addf(text, "convert_float16(%s - IN_ZERO)\n", bytes);
    } else {
        kf_text_addf(text, "(%s - %d)\n", bytes, (int)cv_value_flip(in));
    }
}

// ---- the function ----

/// The parameters that `finish` hands on, as their names.
void cv_finish_params(cv_kernel *k, const cv_plan *plan, const cv_step *step)
{
    for (uint32_t i = 0; i < step->n_images; i++) {
        char name[16];
        snprintf(name, sizeof(name), "image%u", (unsigned)i);
        cv_param_image(k, plan, step->images[i], name, KF_ACCESS_READ, 0, 0);
    }
    for (uint32_t i = 0; i < step->n_behind; i++) {
        cv_param_scalars(k, plan, &plan->region->ops[step->behind[i]], i);
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
                         ", __global const %s *image%u, int image%u_base, int image%u_row, int "
                         "image%u_plane, long image%u_batch",
                         cv_type_inside(plan, &plan->region->values[step->images[i]]), i, i, i, i,
                         i);
        } else {
            kf_text_addf(text, ", image%u, image%u_base, image%u_row, image%u_plane, image%u_batch",
                         i, i, i, i, i);
        }
    }
    for (uint32_t i = 0; i < step->n_behind; i++) {
        const cv_op *op = &plan->region->ops[step->behind[i]];
        for (uint32_t n = 0; n < 2; n++) {
            if (op->numbers[n].is_scalar) {
                kf_text_addf(text, ", %s s%u_%u", declared ? cv_scalar_type(plan, op) : "",
                             (unsigned)i, (unsigned)n);
            }
        }
    }
}

void cv_blocks_image_text(kf_text *text, const cv_plan *plan, const cv_step *step, uint32_t i,
                          uint32_t whole)
{
    const cv_value *image = &plan->region->values[step->images[i]];
    kf_text_addf(text, "    const %s m%u = %s(((__global const %s16 *)(",
                 value_type(plan, step->images[i]), i,
                 cv_is_float(image->dtype) ? "" : "convert_int16", cv_type_inside(plan, image));
    kf_text_addf(text, "image%u + n * image%u_batch + image%u_base + (long)block * image%u_plane",
                 i, i, i, i);
    if (whole) {
        kf_text_addf(text, " + (long)y * image%u_row + x * 16", i);
    }
    kf_text_add(text, "))[0])");
    if (cv_value_flip(image) != 0) {
        kf_text_addf(text, " - %d", (int)cv_value_flip(image));
    }
    kf_text_add(text, ";\n");
}

/// Image `i` at the place at hand.
static void image_text(kf_text *text, const cv_plan *plan, const cv_step *step, uint32_t i)
{
    const cv_value *image = &plan->region->values[step->images[i]];
    const cv_value *out = &plan->region->values[step->output];
    uint32_t whole = image->height == out->height && image->width == out->width;
    form_of(plan)->image_text(text, plan, step, i, whole);
}

/// The result as memory holds it. Lanes that are no channels are 0, of 8 bits anything.
static void return_text(kf_text *text, const cv_plan *plan, const cv_step *step, const char *last)
{
    const cv_value *out = &plan->region->values[step->output];
    uint32_t all_lanes =
        step->kind == CV_IMPORT || out->channels % (int32_t)form_of(plan)->lanes == 0;
    if (cv_is_byte(out->dtype)) {
        kf_text_addf(text, "    return convert_uchar16(%s + %d);\n}\n", last,
                     (int)cv_value_flip(out));
    } else if (cv_is_float(out->dtype) && !all_lanes) {
        kf_text_addf(text, "    return only_channels(%s, channels - block * 16);\n}\n", last);
    } else {
        kf_text_addf(text, "    return %s;\n}\n", last);
    }
}

/// Functions that round, of each narrow dtype that results in the step.
static void rounding_functions(kf_text *text, const cv_plan *plan, const cv_step *step)
{
    static const uint32_t dtypes[] = {KF_DTYPE_F16, KF_DTYPE_BF16};
    const cv_region *region = plan->region;
    for (uint32_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
        uint32_t results =
            step->op != CV_NONE && region->values[region->ops[step->op].result].dtype == dtypes[d];
        for (uint32_t i = 0; i < step->n_behind; i++) {
            results |= region->values[region->ops[step->behind[i]].result].dtype == dtypes[d];
        }
        if (results && rounds_to(plan, dtypes[d])) {
            cv_narrow_functions(text, dtypes[d]);
        }
    }
}

/// What the step itself computes, rounded to its dtype; a norm that it takes in comes before.
static void round_first(kf_text *text, const cv_plan *plan, const cv_step *step)
{
    uint32_t dtype = plan->region->values[plan->region->ops[step->op].result].dtype;
    if (rounds_to(plan, dtype)) {
        kf_text_addf(text, "    v = round_%s(v);\n", kf_dtype_of(dtype).name);
    }
}

void cv_finish_text(kf_text *text, const cv_plan *plan, const cv_step *step)
{
    uint32_t computes = step->kind != CV_MAP && step->kind != CV_IMPORT;
    uint32_t vector = computes ? cv_plan_vectors(plan, step->op) : 0;
    helpers(text, plan, step);
    rounding_functions(text, plan, step);
    kf_text_addf(text,
                 "static inline OUT16 finish(%s v, long n, int block, int y, int x, int blocks, "
                 "int channels",
                 computes ? type_of(plan, KF_DTYPE_F32) : value_type(plan, step->input));
    finish_arguments(text, plan, step, /*declared=*/1);
    kf_text_add(text, ")\n{\n");
    if (computes) {
        round_first(text, plan, step);
    }
    for (uint32_t i = 0; i < step->n_images; i++) {
        image_text(text, plan, step, i);
    }
    for (uint32_t i = 0; i < step->n_behind; i++) {
        operation(text, plan, step, i, &vector);
    }
    char last[16];
    snprintf(last, sizeof(last), step->n_behind > 0 ? "e%u" : "v", step->n_behind - 1u);
    return_text(text, plan, step, last);
    kf_text_add(text,
                "#define FINISH(v, n, block, y, x) finish(v, n, block, y, x, blocks, channels");
    finish_arguments(text, plan, step, /*declared=*/0);
    kf_text_add(text, ")\n");
}
