// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of quantised operators: every quantised dtype, scales of each type, blocks that end
// inside an axis, and the products that need them.
#include "ir_quant.h"
#include "samples_internal.h"

typedef struct form {
    int64_t dims[3];
    uint32_t rank;
    int64_t blocks[3];
    uint32_t n_blocks;
    kiln_dtype scale;
} form;

static const form forms[] = {
    {{0}, 0, {0}, 0, KILN_DTYPE_F32},         {{37}, 1, {0}, 0, KILN_DTYPE_F32},
    {{5, 7}, 2, {2, 4}, 2, KILN_DTYPE_F32},   {{3, 1, 40}, 3, {0, 1, 16}, 3, KILN_DTYPE_F16},
    {{4, 33}, 2, {1, 0}, 2, KILN_DTYPE_BF16}, {{2, 0}, 2, {0, 4}, 2, KILN_DTYPE_F32},
};
enum { N_FORMS = sizeof(forms) / sizeof(forms[0]) };

static const kiln_dtype quantised_dtypes[] = {KILN_DTYPE_Q8F, KILN_DTYPE_Q8S, KILN_DTYPE_Q4F,
                                              KILN_DTYPE_Q4S, KILN_DTYPE_Q2F, KILN_DTYPE_Q2S};
enum { N_DTYPES = sizeof(quantised_dtypes) / sizeof(quantised_dtypes[0]) };

static kilni_sample_tensor tensor_of(const form *f, kilni_fill fill)
{
    kilni_sample_tensor x = {.rank = (uint8_t)f->rank, .fill = fill};
    for (uint32_t i = 0; i < f->rank; i++) {
        x.dims[i] = f->dims[i];
    }
    return x;
}

static kilni_sample_tensor quantised(const form *f, bool global)
{
    kilni_sample_tensor x = tensor_of(f, KILNI_FILL_SMALL);
    x.scheme = kiln_scheme_make(f->scale, global, f->blocks, f->n_blocks);
    return x;
}

/// The shape of the scales.
static kilni_sample_tensor grid_of(const form *f)
{
    kilni_sample_tensor x = {
        .rank = (uint8_t)f->rank, .fill = KILNI_FILL_POSITIVE, .dtype = f->scale};
    for (uint32_t i = 0; i < f->rank; i++) {
        int64_t block = i < f->n_blocks ? f->blocks[i] : 0;
        x.dims[i] = block == 0 ? 1 : (f->dims[i] + block - 1) / block;
    }
    return x;
}

void kiln_samples_quantize(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < N_FORMS; i++) {
        for (unsigned d = 0; d < N_DTYPES; d++) {
            const kilni_sample_tensor inputs[3] = {
                tensor_of(&forms[i], d == 1 ? KILNI_FILL_SPECIAL : KILNI_FILL_SMALL),
                grid_of(&forms[i]),
                {.fill = KILNI_FILL_POSITIVE, .dtype = KILN_DTYPE_F32}};
            const kiln_attr attrs[2] = {kilni_attr_dtype(quantised_dtypes[d]),
                                        kilni_attr_ints(forms[i].blocks, forms[i].n_blocks)};
            kilni_sample_emit(sink, op, dtype, inputs, d % 2 == 0 ? 2 : 3, attrs);
        }
    }
}

void kiln_samples_dequantize(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const kiln_dtype floats[] = {KILN_DTYPE_F32, KILN_DTYPE_F16, KILN_DTYPE_BF16,
                                        KILN_DTYPE_F64};
    for (unsigned i = 0; i < N_FORMS; i++) {
        for (unsigned k = 0; k < 4; k++) {
            const kilni_sample_tensor x = quantised(&forms[i], k % 2 == 1);
            const kiln_attr attr = kilni_attr_dtype(floats[k]);
            kilni_sample_emit(sink, op, dtype, &x, 1, &attr);
        }
    }
}

void kiln_samples_quantize_dynamic(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < N_FORMS; i++) {
        for (unsigned d = 0; d < N_DTYPES; d++) {
            const kilni_sample_tensor x = tensor_of(&forms[i], KILNI_FILL_SMALL);
            const kiln_attr attrs[4] = {kilni_attr_dtype(quantised_dtypes[d]),
                                        kilni_attr_ints(forms[i].blocks, forms[i].n_blocks),
                                        kilni_attr_dtype(forms[i].scale),
                                        d % 3 == 0 ? kilni_attr_text("abs_mean")
                                                   : kilni_attr_none()};
            kilni_sample_emit(sink, op, dtype, &x, 1, attrs);
        }
    }
}

void kiln_samples_quantized_scales(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < N_FORMS; i++) {
        const kilni_sample_tensor x = quantised(&forms[i], i % 2 == 0);
        kilni_sample_emit(sink, op, dtype, &x, 1, NULL);
    }
}

static kilni_sample_tensor matrix(int64_t rows, int64_t columns, kiln_dtype dtype, uint64_t scheme)
{
    return (kilni_sample_tensor){.rank = 2,
                                 .dims = {rows, columns},
                                 .fill = KILNI_FILL_SMALL,
                                 .dtype = dtype,
                                 .scheme = scheme};
}

/// Few rows times a weight that lies along the sum, in whole steps of the kernel for those.
static void emit_long_sums(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        int64_t m, block;
        kiln_dtype scale;
        bool global;
    } cases[] = {{1, 32, KILN_DTYPE_F32, false},
                 {1, 16, KILN_DTYPE_F16, true},
                 {3, 64, KILN_DTYPE_BF16, false},
                 {6, 0, KILN_DTYPE_F32, true}};
    const kiln_attr attrs[3] = {kilni_attr_dtype(dtype), kilni_attr_none(), kilni_attr_bool(true)};
    const kilni_sample_tensor least[2] = {
        matrix(1, 64, KILN_DTYPE_NONE, 0),
        matrix(3, 64, KILN_DTYPE_Q8S, kiln_scheme_make(KILN_DTYPE_F32, false, NULL, 0))};
    kilni_sample_emit(sink, op, dtype, least, 2, attrs);
    for (unsigned d = 0; d < N_DTYPES; d++) {
        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            const int64_t blocks[] = {i == 3 ? 4 : 1, cases[i].block};
            uint64_t scheme = kiln_scheme_make(cases[i].scale, cases[i].global, blocks, 2);
            const kilni_sample_tensor pair[2] = {matrix(cases[i].m, 256, KILN_DTYPE_NONE, 0),
                                                 matrix(37, 256, quantised_dtypes[d], scheme)};
            kilni_sample_emit(sink, op, dtype, pair, 2, attrs);
        }
        const int64_t blocks[] = {1, 64}; // more of one row, and of several, than are kept nearby
        for (int64_t m = 1; m < 6 && d < 4; m += 4) {
            const kilni_sample_tensor pair[2] = {
                matrix(m, 4608, KILN_DTYPE_NONE, 0),
                matrix(3, 4608, quantised_dtypes[d],
                       kiln_scheme_make(KILN_DTYPE_F32, false, blocks, 2))};
            kilni_sample_emit(sink, op, dtype, pair, 2, attrs);
        }
    }
}

void kiln_samples_matmul_quantized(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const int64_t blocks[] = {8, 16};
    const uint64_t whole = kiln_scheme_make(KILN_DTYPE_F32, false, NULL, 0);
    const uint64_t parts = kiln_scheme_make(KILN_DTYPE_F16, true, blocks, 2);
    for (unsigned d = 0; d < N_DTYPES; d++) {
        for (unsigned turned = 0; turned < 2; turned++) {
            int64_t k = 19;
            int64_t n = 35;
            uint64_t scheme = d < 3 ? parts : whole;
            const kilni_sample_tensor b = turned != 0 ? matrix(n, k, quantised_dtypes[d], scheme)
                                                      : matrix(k, n, quantised_dtypes[d], scheme);
            const kilni_sample_tensor pairs[2][2] = {{matrix(3, k, KILN_DTYPE_NONE, 0), b},
                                                     {matrix(2, k, quantised_dtypes[d], whole), b}};
            const kiln_attr attrs[3] = {kilni_attr_dtype(dtype), kilni_attr_none(),
                                        kilni_attr_bool(turned != 0)};
            kilni_sample_emit(sink, op, dtype, pairs[0], 2, attrs);
            kilni_sample_emit(sink, op, dtype, pairs[1], 2, attrs);
        }
    }
    const kilni_sample_tensor tall[2] = {matrix(40, 16, KILN_DTYPE_NONE, 0),
                                         matrix(16, 8, KILN_DTYPE_Q8S, whole)};
    const kilni_sample_tensor none[2] = {matrix(2, 0, KILN_DTYPE_NONE, 0),
                                         matrix(0, 8, KILN_DTYPE_Q8S, whole)};
    const kiln_attr attrs[3] = {kilni_attr_dtype(dtype), kilni_attr_none(), kilni_attr_none()};
    kilni_sample_emit(sink, op, dtype, tall, 2, attrs);
    kilni_sample_emit(sink, op, dtype, none, 2, attrs);
    emit_long_sums(op, dtype, sink);
}

void kiln_samples_linear_quantized(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    const uint64_t whole = kiln_scheme_make(KILN_DTYPE_F32, false, NULL, 0);
    for (unsigned d = 0; d < N_DTYPES; d++) {
        const kilni_sample_tensor inputs[3] = {
            {.rank = 3, .dims = {2, 3, 12}, .fill = KILNI_FILL_SMALL},
            matrix(12, 20, quantised_dtypes[d], whole),
            {.rank = 1, .dims = {20}, .fill = KILNI_FILL_SMALL}};
        kilni_sample_emit(sink, op, dtype, inputs, d % 2 == 0 ? 3 : 2, NULL);
    }
}
