// SPDX-License-Identifier: MIT OR Apache-2.0
// Kernels that move, index, order and accumulate, in both of their forms (block and GPU) whatever
// the device is, against the reference evaluator: their samples, lines long enough to come in
// parts, tiles and runs, and indices of which none can be trusted.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl_trial.h"

/* In the form for GPUs only: tests/conformance covers the form of the device that is there. */
static void test_samples(void)
{
    static const kiln_op ops[] = {
        KILN_OP_GATHER_ND,     KILN_OP_SCATTER,           KILN_OP_SCATTER_ND,
        KILN_OP_SELECT_ASSIGN, KILN_OP_CUM_SUM,           KILN_OP_CUM_MAX,
        KILN_OP_SORT,          KILN_OP_SORT_WITH_INDICES, KILN_OP_TOP_K};
    static const kiln_dtype dtypes[] = {KILN_DTYPE_F32, KILN_DTYPE_I64};
    cl_trial t;
    if (!cl_trial_open(&t, KILN_DEVICE_GPU)) {
        return;
    }
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
            cl_trial_samples(&t, ops[i], dtypes[d]);
        }
    }
    KILN_CHECK(t.count > 100);
    cl_trial_close(&t);
}

// ---- long lines ----

typedef struct call { ///< one operation on generated data
    kiln_op op;
    kiln_dtype dtype;
    kiln_tensor_desc inputs[3];
    uint16_t n_inputs;
    kiln_attr attrs[3];
    uint8_t n_attrs;
    int64_t spread; ///< of indices
} call;

static kiln_attr integer(int64_t value)
{
    return (kiln_attr){.type = KILN_ATTR_I64, .count = 1, .v.i = value};
}

static kiln_attr truth(bool value)
{
    return (kiln_attr){.type = KILN_ATTR_BOOL, .count = 1, .v.i = value};
}

static kiln_tensor_desc shaped(kiln_dtype dtype, int64_t d0, int64_t d1)
{
    kiln_tensor_desc desc = {.id = 1, .dtype = dtype, .rank = d1 > 0 ? 2 : 1, .dims = {d0, d1}};
    return desc;
}

/* Numbers that repeat now and then, of both signs; small enough to be exact in sums of f32. */
static void *generate(const kiln_tensor_desc *desc, int64_t spread)
{
    int64_t count = kiln_desc_count(desc);
    size_t size = kiln_dtype_size(desc->dtype);
    unsigned char *data = calloc((size_t)count + 1, size);
    uint32_t state = 12345;
    for (int64_t i = 0; data != NULL && i < count; i++) {
        state = state * 1664525u + 1013904223u;
        int64_t value = (int64_t)(state >> 8) % (2 * spread + 5) - spread - 2;
        float narrow = (float)value;
        memcpy(data + (size_t)i * size,
               desc->dtype == KILN_DTYPE_F32 ? (const void *)&narrow : (const void *)&value, size);
    }
    return data;
}

static void check_long(cl_trial *t, const call *c)
{
    kiln_tensor_desc outputs[KILN_MAX_OUTPUTS] = {{0}};
    const void *data[3] = {NULL};
    kiln_error err = KILN_ERROR_INIT;
    kiln_op_record record = {.op = c->op,
                             .n_inputs = c->n_inputs,
                             .n_outputs = kiln_op_info_of(c->op)->n_outputs,
                             .n_attrs = c->n_attrs,
                             .inputs = c->inputs,
                             .outputs = outputs,
                             .attrs = c->attrs};
    if (!KILN_CHECK_INT(kiln_ir_infer(&record, outputs, &err), KILN_STATUS_OK)) {
        return;
    }
    for (unsigned i = 0; i < c->n_inputs; i++) {
        bool index = i + 1 == c->n_inputs && i > 0;
        data[i] = generate(&c->inputs[i], index ? c->spread : 900);
    }
    cl_trial_take(&record, data, t);
    for (unsigned i = 0; i < c->n_inputs; i++) {
        free((void *)(uintptr_t)data[i]);
    }
}

/* One open device for all calls of a case, in each form. */
static void in_both_forms(void (*calls)(cl_trial *t))
{
    for (size_t form = 0; form < CL_TRIAL_FORMS; form++) {
        cl_trial t;
        if (!cl_trial_open(&t, cl_trial_forms[form])) {
            return;
        }
        calls(&t);
        cl_trial_close(&t);
    }
}

static void long_sorts(cl_trial *t)
{
    static const kiln_dtype dtypes[] = {KILN_DTYPE_F32, KILN_DTYPE_I64};
    for (size_t i = 0; i < 2; i++) {
        check_long(t, &(call){.op = KILN_OP_SORT_WITH_INDICES,
                              .inputs = {shaped(dtypes[i], 100003, 0)},
                              .n_inputs = 1,
                              .attrs = {integer(0), truth(i == 1)},
                              .n_attrs = 2});
        check_long(t, &(call){.op = KILN_OP_SORT,
                              .inputs = {shaped(dtypes[i], 3, 40000)},
                              .n_inputs = 1,
                              .attrs = {integer(-1), truth(i == 0)},
                              .n_attrs = 2});
        check_long(t, &(call){.op = KILN_OP_ARGSORT,
                              .inputs = {shaped(dtypes[i], 1500, 7)},
                              .n_inputs = 1,
                              .attrs = {integer(0), truth(false)},
                              .n_attrs = 2});
    }
}

static void long_selections(cl_trial *t)
{
    static const int64_t counts[] = {1, 100, 1000};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        check_long(t, &(call){.op = KILN_OP_TOP_K,
                              .inputs = {shaped(KILN_DTYPE_F32, 150001, 0)},
                              .n_inputs = 1,
                              .attrs = {integer(counts[i]), integer(0), truth(i != 1)},
                              .n_attrs = 3});
        check_long(t, &(call){.op = KILN_OP_TOP_K,
                              .inputs = {shaped(KILN_DTYPE_I64, 3000, 5)},
                              .n_inputs = 1,
                              .attrs = {integer(counts[i]), integer(0), truth(i == 1)},
                              .n_attrs = 3});
    }
}

static void long_cumulatives(cl_trial *t)
{
    static const kiln_op ops[] = {KILN_OP_CUM_SUM, KILN_OP_CUM_MIN};
    static const int64_t shapes[][3] = {
        {200003, 0, 0}, {70001, 3, 0}, {40003, 37, 0}, {2, 70003, 1}};
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = i; k < sizeof(shapes) / sizeof(shapes[0]); k += i + 1) {
            for (int way = 0; way < 4; way += 3) {
                kiln_dtype dtype = way == 3 ? KILN_DTYPE_I8 : KILN_DTYPE_I32;
                check_long(t, &(call){.op = ops[i],
                                      .inputs = {shaped(dtype, shapes[k][0], shapes[k][1])},
                                      .n_inputs = 1,
                                      .attrs = {integer(shapes[k][2]), truth((way & 1) != 0),
                                                truth((way & 2) != 0)},
                                      .n_attrs = 3});
            }
        }
    }
}

/* Equal numbers, of which every addition rounds the same way: one after another they would be off
 * by thousands of the last places that the tolerance counts in. */
static void long_sums_of_columns(cl_trial *t)
{
    static const kiln_dtype dtypes[] = {KILN_DTYPE_F32, KILN_DTYPE_F64};
    for (size_t i = 0; i < 2; i++) {
        kiln_tensor_desc outputs[1] = {{0}};
        kiln_tensor_desc input = shaped(dtypes[i], 40000, 37);
        const kiln_attr attrs[] = {integer(0), truth(false), truth(false)};
        const kiln_op_record record = {.op = KILN_OP_CUM_SUM,
                                       .n_inputs = 1,
                                       .n_outputs = 1,
                                       .n_attrs = 3,
                                       .inputs = &input,
                                       .outputs = outputs,
                                       .attrs = attrs};
        kiln_error err = KILN_ERROR_INIT;
        int64_t count = kiln_desc_count(&input);
        double *data = calloc((size_t)count, sizeof(double));
        for (int64_t k = 0; data != NULL && k < count; k++) {
            if (i == 0) {
                ((float *)data)[k] = 0.1F;
            } else {
                data[k] = 0.1;
            }
        }
        const void *inputs[] = {data};
        if (KILN_CHECK(data != NULL) &&
            KILN_CHECK_INT(kiln_ir_infer(&record, outputs, &err), KILN_STATUS_OK)) {
            cl_trial_take(&record, inputs, t);
        }
        free(data);
    }
}

static void long_scatters(cl_trial *t)
{
    static const char *const modes[] = {"assign", "add", "max"};
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        const kiln_attr mode = {KILN_ATTR_STRING, 3 + (i == 0 ? 3 : 0), {.text = modes[i]}};
        check_long(
            t, &(call){.op = KILN_OP_SCATTER,
                       .inputs = {shaped(KILN_DTYPE_F32, 300, 0), shaped(KILN_DTYPE_F32, 5000, 0),
                                  shaped(KILN_DTYPE_I64, 5000, 0)},
                       .n_inputs = 3,
                       .attrs = {integer(0), mode},
                       .n_attrs = 2,
                       .spread = 300});
        check_long(
            t, &(call){.op = KILN_OP_SELECT_ASSIGN,
                       .inputs = {shaped(KILN_DTYPE_I32, 200, 9), shaped(KILN_DTYPE_I32, 2000, 9),
                                  shaped(KILN_DTYPE_I32, 2000, 0)},
                       .n_inputs = 3,
                       .attrs = {integer(0), mode},
                       .n_attrs = 2,
                       .spread = 200});
        check_long(
            t, &(call){.op = KILN_OP_SCATTER_ND,
                       .inputs = {shaped(KILN_DTYPE_I64, 30, 40), shaped(KILN_DTYPE_I64, 3000, 0),
                                  shaped(KILN_DTYPE_I64, 3000, 2)},
                       .n_inputs = 3,
                       .attrs = {mode},
                       .n_attrs = 1,
                       .spread = 40});
    }
}

/* Wide enough for whole vectors across results, with some left over. */
static void wide_columns(cl_trial *t)
{
    static const kiln_dtype dtypes[] = {KILN_DTYPE_F32, KILN_DTYPE_I64, KILN_DTYPE_U8};
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        for (int way = 0; way < 4; way++) {
            check_long(t, &(call){.op = way < 2 ? KILN_OP_ARGMAX : KILN_OP_ARGMIN,
                                  .inputs = {shaped(dtypes[i], 50, 150)},
                                  .n_inputs = 1,
                                  .attrs = {integer(way & 1), truth(false), truth(way == 3)},
                                  .n_attrs = 3});
        }
    }
    check_long(t, &(call){.op = KILN_OP_SOFTMAX,
                          .inputs = {shaped(KILN_DTYPE_F32, 40, 300)},
                          .n_inputs = 1,
                          .attrs = {integer(0)},
                          .n_attrs = 1});
}

/* Tiles, and what is left at both of their sides. */
static void large_transposes(cl_trial *t)
{
    static const kiln_dtype dtypes[] = {KILN_DTYPE_U8, KILN_DTYPE_BF16, KILN_DTYPE_F32,
                                        KILN_DTYPE_I64};
    static const int64_t turned[] = {0, 2, 1};
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        kiln_tensor_desc planes = {.id = 1, .dtype = dtypes[i], .rank = 3, .dims = {3, 150, 139}};
        check_long(t, &(call){.op = KILN_OP_PERMUTE,
                              .inputs = {planes},
                              .n_inputs = 1,
                              .attrs = {{KILN_ATTR_I64_LIST, 3, {.ints = turned}}},
                              .n_attrs = 1});
    }
}

static void test_wide_columns(void)
{
    in_both_forms(wide_columns);
}

static void test_large_transposes(void)
{
    in_both_forms(large_transposes);
}

static void test_long_sorts(void)
{
    in_both_forms(long_sorts);
}

static void test_long_selections(void)
{
    in_both_forms(long_selections);
}

static void test_long_cumulatives(void)
{
    in_both_forms(long_cumulatives);
}

static void test_long_sums_of_columns(void)
{
    in_both_forms(long_sums_of_columns);
}

static void test_long_scatters(void)
{
    in_both_forms(long_scatters);
}

// ---- indices ----

/* Every index is hostile: what is taken stays inside, what is put is dropped. */
static void test_hostile_indices(void)
{
    static const int64_t indices[8] = {0, 3, 4, -1, -4, -5, INT64_MAX, INT64_MIN};
    static const int32_t x[4] = {10, 11, 12, 13};
    static const int32_t values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    kiln_tensor_desc descs[4] = {shaped(KILN_DTYPE_I32, 4, 0), shaped(KILN_DTYPE_I32, 8, 0),
                                 shaped(KILN_DTYPE_I64, 8, 0), shaped(KILN_DTYPE_I64, 8, 1)};
    for (size_t form = 0; form < CL_TRIAL_FORMS; form++) {
        cl_trial t;
        if (!cl_trial_open(&t, cl_trial_forms[form])) {
            return;
        }
        static const kiln_op ops[] = {KILN_OP_SCATTER, KILN_OP_SELECT_ASSIGN, KILN_OP_SCATTER_ND};
        for (size_t i = 0; i < 3; i++) {
            bool nd = ops[i] == KILN_OP_SCATTER_ND;
            const kiln_tensor_desc inputs[] = {descs[0], descs[1], nd ? descs[3] : descs[2]};
            const kiln_attr attrs[] = {integer(0), {KILN_ATTR_STRING, 3, {.text = "add"}}};
            const void *data[] = {x, values, indices};
            kiln_tensor_desc out = descs[0];
            kiln_op_record record = {.op = ops[i],
                                     .n_inputs = 3,
                                     .n_outputs = 1,
                                     .n_attrs = nd ? 1 : 2,
                                     .inputs = inputs,
                                     .outputs = &out,
                                     .attrs = nd ? &attrs[1] : attrs};
            kiln_error err = KILN_ERROR_INIT;
            void *results[1] = {NULL};
            kiln_status status = cl_trial_run(t.f.base, &record, data, results, &err);
            const int32_t *result = results[0];
            if (KILN_CHECK_INT(status, KILN_STATUS_OK)) {
                KILN_CHECK_INT(result[0], 10 + 1 + 5);
                KILN_CHECK_INT(result[1], 11);
                KILN_CHECK_INT(result[2], 12);
                KILN_CHECK_INT(result[3], 13 + 2 + 4);
            }
            free(results[0]);
        }
        cl_trial_close(&t);
    }
}

KILN_TEST_MAIN("unit/cl_backend/data_kernels", KILN_TEST(test_samples), KILN_TEST(test_long_sorts),
               KILN_TEST(test_long_selections), KILN_TEST(test_long_cumulatives),
               KILN_TEST(test_long_sums_of_columns), KILN_TEST(test_long_scatters),
               KILN_TEST(test_wide_columns), KILN_TEST(test_large_transposes),
               KILN_TEST(test_hostile_indices))
