// SPDX-License-Identifier: MIT OR Apache-2.0
// One row times weights of 4 and 8 bits as tensor cores for bytes compute it, on a device that is
// said to have them: against sums of f64, with rows of every kind and sizes that fit nothing. The
// kernel's own text runs, but for the one instruction that no other device has.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cl_trial.h"
#include "ir.h"

typedef enum row_kind { ROW_PLAIN, ROW_WIDE, ROW_ZERO, ROW_BIG, ROW_INFINITE, ROW_NAN } row_kind;

typedef struct product {
    int64_t n, k, block;
    kiln_dtype dtype, scale;
    bool global;
    row_kind row;
} product;

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525U + 1013904223U;
    return *state >> 8;
}

static float *make_row(const product *p)
{
    float *row = malloc((size_t)p->k * sizeof(float));
    uint32_t state = 7;
    for (int64_t i = 0; i < p->k; i++) {
        float x = (float)next_random(&state) / (1 << 24) - 0.5F;
        int wide = (int)(next_random(&state) % 80) - 40;
        row[i] = p->row == ROW_WIDE   ? ldexpf(x, wide)
                 : p->row == ROW_ZERO ? 0.0F
                 : p->row == ROW_BIG  ? ldexpf(x, 127)
                                      : x;
    }
    if (p->row == ROW_INFINITE || p->row == ROW_NAN) {
        row[p->k / 3] = p->row == ROW_NAN ? NAN : INFINITY;
    }
    return row;
}

/// Scales are powers of 2, which f32, f16 and bf16 have.
static int exponent_of(int64_t scale)
{
    return (int)(scale % 5) - 3;
}

static uint8_t *make_weight(const kiln_tensor_desc *desc, const kiln_quant_layout *layout)
{
    uint8_t *bytes = calloc(1, (size_t)layout->bytes);
    kiln_dtype dtype = kiln_scheme_scale(desc->scheme);
    uint32_t state = 11;
    for (int64_t i = 0; i < layout->scales_at; i++) {
        bytes[i] = (uint8_t)(next_random(&state) >> 9);
    }
    for (int64_t i = 0; i < layout->scales; i++) {
        float scale = ldexpf(1.0F, exponent_of(i));
        uint16_t narrow = (uint16_t)(dtype == KILN_DTYPE_F16 ? (15 + exponent_of(i)) << 10
                                                             : (127 + exponent_of(i)) << 7);
        size_t size = kiln_dtype_size(dtype);
        memcpy(bytes + layout->scales_at + i * (int64_t)size,
               dtype == KILN_DTYPE_F32 ? (const void *)&scale : (const void *)&narrow, size);
    }
    if (layout->global_at >= 0) {
        const float whole = 0.25F;
        memcpy(bytes + layout->global_at, &whole, sizeof(whole));
    }
    return bytes;
}

static double weight_at(const product *p, const kiln_quant_layout *layout, const uint8_t *bytes,
                        int64_t column, int64_t i)
{
    int64_t at = column * p->k + i;
    int64_t block = p->block == 0 ? 0 : i / p->block;
    int value = kiln_quant_bits(p->dtype) == 8 ? (int8_t)bytes[at]
                                               : ((bytes[at / 2] >> (at % 2 * 4) & 15) ^ 8) - 8;
    double scale = ldexp(1.0, exponent_of(column * layout->blocks[1] + block));
    return value * scale * (p->global ? 0.25 : 1.0);
}

static void judge(const product *p, const kiln_quant_layout *layout, const uint8_t *bytes,
                  const float *row, const float *result)
{
    const double most = p->row == ROW_WIDE ? 1e-7 : 4e-8; // of the sum of sizes
    for (int64_t column = 0; column < p->n; column++) {
        double sum = 0;
        double sizes = 0;
        for (int64_t i = 0; i < p->k; i++) {
            double term = row[i] * weight_at(p, layout, bytes, column, i);
            sum += term;
            sizes += fabs(term);
        }
        float got = result[column];
        bool same = isnan(sum)           ? isnan(got)
                    : fabs(sum) > 3.5e38 ? !isfinite(got) // parts of either sign may be
                    : sizes > 1e38       ? true // a part of the sum may be too large
                                         : fabs(got - sum) <= most * sizes;
        if (!same) {
            KILN_FAIL("%lld of %lld by %lld, block %lld, dtype %d, row %d: %g instead of %g",
                      (long long)column, (long long)p->n, (long long)p->k, (long long)p->block,
                      (int)p->dtype, (int)p->row, (double)got, sum);
            return;
        }
    }
}

typedef struct operands {
    kiln_tensor_desc descs[3]; ///< row, weight, result
    kiln_attr attrs[3];
    kiln_op_record record;
    kiln_quant_layout layout;
} operands;

static void describe(operands *o, const product *p)
{
    const int64_t blocks[] = {1, p->block};
    memset(o, 0, sizeof(*o));
    o->descs[0] =
        (kiln_tensor_desc){.id = 1, .dtype = KILN_DTYPE_F32, .rank = 2, .dims = {1, p->k}};
    o->descs[1] = (kiln_tensor_desc){.id = 2, .dtype = p->dtype, .rank = 2, .dims = {p->n, p->k}};
    o->descs[1].scheme = kiln_scheme_make(p->scale, p->global, blocks, 2);
    o->descs[2] =
        (kiln_tensor_desc){.id = 3, .dtype = KILN_DTYPE_F32, .rank = 2, .dims = {1, p->n}};
    o->attrs[0] = (kiln_attr){KILN_ATTR_DTYPE, 1, {.i = KILN_DTYPE_F32}};
    o->attrs[2] = (kiln_attr){KILN_ATTR_BOOL, 1, {.i = 1}}; // transpose_b
    o->record = (kiln_op_record){.op = KILN_OP_MATMUL_QUANTIZED,
                                 .n_inputs = 2,
                                 .n_outputs = 1,
                                 .inputs = o->descs,
                                 .outputs = &o->descs[2],
                                 .attrs = o->attrs,
                                 .n_attrs = 3};
    KILN_CHECK(kiln_quant_layout_of(&o->descs[1], &o->layout));
}

static void check(cl_trial *t, const product *p)
{
    operands o;
    kiln_error err = KILN_ERROR_INIT;
    void *result = NULL;
    describe(&o, p);
    float *row = make_row(p);
    uint8_t *weight = make_weight(&o.descs[1], &o.layout);
    const void *data[] = {row, weight};
    if (KILN_CHECK_INT(cl_trial_run(t->f.base, &o.record, data, &result, &err), KILN_STATUS_OK)) {
        judge(p, &o.layout, weight, row, result);
    }
    free(result);
    free(weight);
    free(row);
}

/// The fewer compute units, the more columns of a work-group.
static bool open_tensor(cl_trial *t, uint32_t compute_units)
{
    if (!cl_trial_open(t, KILN_DEVICE_GPU)) {
        return false;
    }
    t->f.backend->info.features |= KILN_FEATURE_WGMMA;
    t->f.backend->info.compute_units = compute_units;
    return true;
}

static void test_rows(void)
{
    cl_trial t;
    if (!open_tensor(&t, 1000)) {
        return;
    }
    for (int row = ROW_PLAIN; row <= ROW_NAN; row++) {
        check(&t, &(product){37, 4640, 32, KILN_DTYPE_Q8F, KILN_DTYPE_F32, false, row});
        check(&t, &(product){37, 4640, 32, KILN_DTYPE_Q4F, KILN_DTYPE_F32, false, row});
    }
    cl_trial_close(&t);
}

static void test_sizes(void)
{
    static const product products[] = {
        {5, 48, 32, KILN_DTYPE_Q8F, KILN_DTYPE_F32, false, ROW_PLAIN}, // half of a block is left
        {1, 32, 32, KILN_DTYPE_Q4F, KILN_DTYPE_F32, false, ROW_PLAIN},
        {33, 9216, 32, KILN_DTYPE_Q4F, KILN_DTYPE_F32, false, ROW_PLAIN}, // three stretches
        {70, 8192, 32, KILN_DTYPE_Q8F, KILN_DTYPE_F32, false, ROW_PLAIN}, // two, and no rest
        {18, 4160, 128, KILN_DTYPE_Q8F, KILN_DTYPE_F16, true, ROW_PLAIN},
        {18, 4160, 64, KILN_DTYPE_Q4F, KILN_DTYPE_BF16, false, ROW_PLAIN},
        {16, 512, 0, KILN_DTYPE_Q8F, KILN_DTYPE_F32, true, ROW_PLAIN},
        {16, 512, 16, KILN_DTYPE_Q8F, KILN_DTYPE_F32, false, ROW_PLAIN}, // too short a block
    };
    cl_trial t;
    if (!open_tensor(&t, 1000)) {
        return;
    }
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
        check(&t, &products[i]);
    }
    cl_trial_close(&t);
}

static void test_tiles(void)
{
    cl_trial t;
    if (!open_tensor(&t, 1)) {
        return;
    }
    for (int64_t n = 50; n < 400; n *= 2) { // two, four and eight tiles
        check(&t, &(product){n, 4640, 32, KILN_DTYPE_Q8F, KILN_DTYPE_F32, false, ROW_PLAIN});
        check(&t, &(product){n, 4640, 32, KILN_DTYPE_Q4F, KILN_DTYPE_F32, false, ROW_PLAIN});
    }
    check(&t, &(product){200, 4640, 32, KILN_DTYPE_Q4F, KILN_DTYPE_F32, false, ROW_INFINITE});
    cl_trial_close(&t);
}

/// What is below 2^-30 of the largest of 32 neighbours is lost, unless products are strict.
static void test_lost(void)
{
    const product p = {1, 64, 0, KILN_DTYPE_Q8F, KILN_DTYPE_F32, false, ROW_PLAIN};
    operands o;
    cl_trial t;
    kiln_error err = KILN_ERROR_INIT;
    float row[64] = {1.0F, 0x1p-40F};
    if (!open_tensor(&t, 1000)) {
        return;
    }
    describe(&o, &p);
    uint8_t *weight = make_weight(&o.descs[1], &o.layout);
    memset(weight, 0, (size_t)p.k);
    weight[1] = 8; // times a scale of 1/8
    const void *data[] = {row, weight};
    for (int strict = 0; strict < 2; strict++) {
        void *result = NULL;
        t.f.backend->info.features |= strict != 0 ? KILN_FEATURE_STRICT : 0;
        if (KILN_CHECK_INT(cl_trial_run(t.f.base, &o.record, data, &result, &err),
                           KILN_STATUS_OK)) {
            KILN_CHECK(*(float *)result == (strict != 0 ? 0x1p-40F : 0.0F));
        }
        free(result);
    }
    free(weight);
    cl_trial_close(&t);
}

KILN_TEST_MAIN("unit/cl_backend/quantised/quant_tensor", KILN_TEST(test_rows),
               KILN_TEST(test_sizes), KILN_TEST(test_tiles), KILN_TEST(test_lost))
