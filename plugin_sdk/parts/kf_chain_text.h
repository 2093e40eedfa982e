// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_chain_text.h: a chain as OpenCL C, and its name. Part of kf_chain.h.
#ifndef KILN_PLUGIN_SDK_KF_CHAIN_TEXT_H
#define KILN_PLUGIN_SDK_KF_CHAIN_TEXT_H

#include "kf_chain_values.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- text of the computation ----

static inline void kf_chain_op_text(kf_text *text, const kf_chain *chain, const kf_chain_op *op,
                                    uint32_t width, const char *indent)
{
    char names[5][16] = {{0}, {0}, {0}, {0}, {0}};
    const char *operands[5];
    uint32_t result = chain->values[op->result].dtype, i;
    kf_dtype to = kf_dtype_of(result);
    for (i = 0; i < 5; i++) {
        operands[i] = names[i];
    }
    for (i = 0; i < op->n_inputs; i++) {
        snprintf(names[i], 16, "v%u", (unsigned)op->inputs[i]);
    }
    for (i = 0; i < op->n_numbers; i++) {
        snprintf(names[3 + i], 16, "s%u", (unsigned)op->numbers[i]);
    }
    kf_text_addf(text, "%sconst %s%u v%u = ", indent, to.compute, width, (unsigned)op->result);
    if (op->row == NULL) {
        kf_text_addf(text, "%s;\n", names[0]);
        return;
    }
    if (op->row->result == KF_EW_MASK) {
        // Narrowed as -1 or 0 first: oclgrind gives 255 for a mask of another width and 1.
        kf_text_addf(text, "as_uchar%u(convert_char%u(", width, width);
        kf_ew_template(text, kf_ew_text(op->row, op->dtype), op->dtype, width, operands);
        kf_text_addf(text, ")) & (uchar%u)(1);\n", width);
        return;
    }
    if (result == KF_DTYPE_F16 || result == KF_DTYPE_BF16) {
        kf_text_addf(text, "round_%s", to.name);
    }
    kf_text_add(text, "(");
    if (op->row->result == KF_EW_CAST) {
        kf_text_addf(text, "cast_%s_%s(%s)", kf_dtype_of(op->dtype).name, to.name, names[0]);
    } else {
        kf_ew_template(text, kf_ew_text(op->row, op->dtype), op->dtype, width, operands);
    }
    kf_text_add(text, ");\n");
}

/// How the kernel declares the argument of a number.
static inline const char *kf_chain_number_type(const kf_chain_number *number)
{
    kf_dtype dtype = kf_dtype_of(number->dtype);
    return dtype.kind == KF_KIND_FLOAT && dtype.bytes == 2 ? "ushort" : dtype.compute;
}

static inline void kf_chain_constant(kf_text *text, const kf_chain_number *number)
{
    double f = number->value.type == KF_TYPE_F64 ? number->value.v.f : (double)number->value.v.i;
    int64_t i = number->value.type == KF_TYPE_F64 ? (int64_t)number->value.v.f : number->value.v.i;
    kf_dtype dtype = kf_dtype_of(number->dtype);
    if (dtype.kind != KF_KIND_FLOAT) {
        kf_text_addf(text, "(%s)0x%llxul", dtype.compute, (unsigned long long)i);
    } else if (dtype.bytes == 8) {
        uint64_t bits;
        memcpy(&bits, &f, sizeof(bits));
        kf_text_addf(text, "as_double(0x%llxul)", (unsigned long long)bits);
    } else {
        float narrow = (float)f;
        uint32_t bits;
        memcpy(&bits, &narrow, sizeof(bits));
        kf_text_addf(text, "as_float(0x%xu)", bits);
    }
}

/// Declares s0, s1 ... from the arguments and constants.
static inline void kf_chain_numbers(kf_text *text, const kf_chain *chain, uint32_t width)
{
    uint32_t i;
    for (i = 0; i < chain->n_numbers; i++) {
        const kf_chain_number *number = &chain->numbers[i];
        kf_dtype dtype = kf_dtype_of(number->dtype);
        uint32_t narrow = dtype.kind == KF_KIND_FLOAT && dtype.bytes == 2;
        kf_text_addf(text, "    const %s%u s%u = ", dtype.compute, width, i);
        if (narrow && !number->is_scalar) {
            kf_text_addf(text, "round_%s", dtype.name);
        }
        kf_text_addf(text, "((%s%u)(", dtype.compute, width);
        if (!number->is_scalar) {
            kf_chain_constant(text, number);
        } else if (narrow) {
            kf_text_addf(text, "value_%s(a%u)", dtype.name, i);
        } else {
            kf_text_addf(text, dtype.kind == KF_KIND_BOOL ? "a%u != 0" : "a%u", i);
        }
        kf_text_add(text, "));\n");
    }
}

static inline void kf_chain_arithmetic(kf_text *text, const kf_chain *chain, uint32_t width)
{
    const kf_ew_helper *helper;
    uint32_t h, i, k;
    for (h = 0; (helper = kf_ew_helper_at(h)) != NULL; h++) {
        const char *written[16] = {NULL}; // computing types
        for (i = 0; i < chain->n_ops; i++) {
            const kf_chain_op *op = &chain->ops[i];
            const char *expression = op->row == NULL ? NULL : kf_ew_text(op->row, op->dtype);
            kf_dtype dtype = kf_dtype_of(op->dtype);
            if (expression == NULL ||
                strncmp(expression, helper->name, strlen(helper->name)) != 0 ||
                !kf_ew_helper_serves(helper, &dtype)) {
                continue;
            }
            for (k = 0; k < 15 && written[k] != NULL && strcmp(written[k], dtype.compute) != 0;) {
                k++;
            }
            if (written[k] == NULL) {
                written[k] = dtype.compute;
                kf_ew_template(text, helper->text, op->dtype, width, NULL);
            }
        }
    }
}

static inline void kf_chain_casts(kf_text *text, const kf_chain *chain, uint32_t width)
{
    uint32_t i, k;
    for (i = 0; i < chain->n_ops; i++) {
        const kf_chain_op *op = &chain->ops[i];
        uint32_t to = chain->values[op->result].dtype, again = 0;
        if (op->row == NULL || op->row->result != KF_EW_CAST) {
            continue;
        }
        for (k = 0; k < i && !again; k++) {
            const kf_chain_op *other = &chain->ops[k];
            again = other->row != NULL && other->row->result == KF_EW_CAST &&
                    other->dtype == op->dtype && chain->values[other->result].dtype == to;
        }
        if (!again) {
            kf_ew_cast(text, op->dtype, to, width);
        }
    }
}

/// Writes the start of a source: prelude, memory access for the dtypes in `read` and `written` (bit
/// KF_DTYPE_x), and the functions that the chain calls. The text uses `idx`, declared here.
static inline void kf_chain_functions(kf_text *text, const kf_chain *chain, uint32_t width,
                                      uint32_t wide, uint64_t read, uint64_t written,
                                      uint32_t stream)
{
    uint64_t used = read | written;
    uint32_t i;
    for (i = 0; i < chain->n_values; i++) {
        used |= 1ull << chain->values[i].dtype;
    }
    kf_cl_prelude(text, (uint32_t)(used >> KF_DTYPE_F64) & 1u);
    kf_text_addf(text, "typedef %s idx;\n", wide ? "long" : "int");
    if (stream) {
        kf_text_add(text, "#ifdef __has_builtin\n"
                          "#if __has_builtin(__builtin_nontemporal_store)\n"
                          "#define STREAM\n"
                          "#endif\n"
                          "#endif\n");
    }
    if ((used >> KF_DTYPE_F16) & 1u) {
        kf_ew_f16_functions(text, width);
    }
    if ((used >> KF_DTYPE_BF16) & 1u) {
        kf_ew_bf16_functions(text, width);
    }
    for (i = 1; i < 64; i++) {
        if (((read | written) >> i) & 1u) {
            kf_ew_vectors(text, i, width);
        }
        if ((read >> i) & 1u) {
            kf_ew_loads(text, i, width);
        }
        if ((written >> i) & 1u) {
            kf_ew_stores(text, i, width, stream);
        }
    }
    kf_chain_arithmetic(text, chain, width);
    kf_chain_casts(text, chain, width);
}

// ---- names ----

/// "reduce(mul,sum)": the first operations, as many as a name of at most 128 bytes holds, and how
/// many there are.
static inline void kf_chain_name(kf_text *name, const char *fuser, const char *const *ops,
                                 uint32_t n_ops)
{
    uint32_t i;
    kf_text_addf(name, "%s(", fuser);
    for (i = 0; i < n_ops && i < 8 && name->len + strlen(ops[i]) < 100; i++) {
        kf_text_addf(name, "%s%s", i == 0 ? "" : ",", ops[i]);
    }
    kf_text_addf(name, i < n_ops ? ",... %u)" : ")", n_ops);
}

#ifdef __cplusplus
}
#endif
#endif
