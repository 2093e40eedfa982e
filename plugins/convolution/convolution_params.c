// SPDX-License-Identifier: MIT OR Apache-2.0
// A kernel while it is written: its parameters and, in the same order, its arguments; numbers as
// text; its name.
#include "convolution_form.h"

enum { KEY_SEED = 7 };

/// A number exactly as f32 has it.
void cv_text_float(char text[32], double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof(bits));
    snprintf(text, 32, "as_float(0x%xu)", (unsigned)bits);
}

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
             cv_type_inside(plan, &plan->region->values[value]));
    cv_param_add(k, p, type, name);
    named_int(k, name, "base",
              (int64_t)(place->top - top) * cv_plan_row(plan, value) +
                  (int64_t)(place->left - left) * place->lanes);
    named_int(k, name, "row", cv_plan_row(plan, value));
    named_int(k, name, "plane", cv_plan_plane(plan, value));
    long_param(k, batch, cv_plan_batch(plan, value));
}

void cv_param_pack(cv_kernel *k, const cv_plan *plan, const cv_step *step, uint32_t access)
{
    cv_param p = {.kind = CV_PARAM_TEMP, .index = plan->n_slots + step->pack, .access = access};
    cv_param_add(k, p, access == KF_ACCESS_READ ? "__global const float *" : "__global float *",
                 "pack");
}

const char *cv_scalar_name(uint32_t dtype)
{
    return cv_is_narrow(dtype) ? "ushort" : dtype == KF_DTYPE_F32 ? "float" : "int";
}

static void scalar_param(cv_kernel *k, uint32_t index, uint32_t dtype, const char *name)
{
    cv_param p = {.kind = CV_PARAM_SCALAR, .index = index, .number = dtype};
    char type[24];
    snprintf(type, sizeof(type), "const %s ", cv_scalar_name(dtype));
    cv_param_add(k, p, type, name);
}

/// What the operation computes in, which for a norm is f32.
static uint32_t scalar_dtype(const cv_plan *plan, const cv_op *op)
{
    uint32_t whole = op->kind == CV_NORM || plan->device->form->keeps_narrow;
    return whole ? KF_DTYPE_F32 : plan->region->values[op->result].dtype;
}

const char *cv_scalar_type(const cv_plan *plan, const cv_op *op)
{
    return cv_scalar_name(scalar_dtype(plan, op));
}

void cv_param_scalars(cv_kernel *k, const cv_plan *plan, const cv_op *op, uint32_t number)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (op->numbers[i].is_scalar) {
            char name[24];
            snprintf(name, sizeof(name), "s%u_%u", (unsigned)number, (unsigned)i);
            scalar_param(k, op->numbers[i].index, scalar_dtype(plan, op), name);
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

const char *cv_type_inside(const cv_plan *plan, const cv_value *value)
{
    uint32_t widened = cv_is_narrow(value->dtype) && !plan->device->form->keeps_narrow;
    return cv_is_byte(value->dtype) ? "uchar" : widened ? "float" : cv_type_dense(value);
}

const char *cv_type_dense(const cv_value *value)
{
    return value->dtype == KF_DTYPE_U8    ? "uchar"
           : value->dtype == KF_DTYPE_I8  ? "char"
           : value->dtype == KF_DTYPE_I32 ? "int"
           : cv_is_narrow(value->dtype)   ? "ushort"
                                          : "float";
}

void cv_narrow_functions(kf_text *text, uint32_t dtype)
{
    if (dtype == KF_DTYPE_F16) {
        kf_ew_f16_functions(text, CV_LANES);
    } else if (dtype == KF_DTYPE_BF16) {
        kf_ew_bf16_functions(text, CV_LANES);
    }
}

void cv_text_define(kf_text *text, const char *name, int64_t value)
{
    kf_text_addf(text, "#define %s %lld\n", name, (long long)value);
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
void cv_kernel_name(cv_kernel *k, const char *macro, const char *body, const char *role)
{
    kf_text_add(&k->text, body);
    uint64_t hash = kf_hash(0xcbf29ce484222325ull + KEY_SEED, k->text.ptr, k->text.len);
    snprintf(k->name, sizeof(k->name), "%s_%016llx", role, (unsigned long long)hash);
    kf_text whole = {0};
    kf_text_addf(&whole, "#define %s %s\n", macro, k->name);
    if (k->text.ptr != NULL) {
        kf_text_bytes(&whole, k->text.ptr, k->text.len);
    }
    k->failed |= k->text.failed | whole.failed;
    kf_text_free(&k->text);
    k->text = whole;
}

void cv_kernel_close(cv_kernel *k, const char *body, const char *role)
{
    cv_kernel_name(k, "KERNEL", body, role);
}
