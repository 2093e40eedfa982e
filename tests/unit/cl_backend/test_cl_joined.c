// SPDX-License-Identifier: MIT OR Apache-2.0
// Products of the same rows by several quantised weights in one launch, on a device whose kernels
// take the form of a GPU: bits of each alone, and what is no such launch.
#include <stdlib.h>
#include <string.h>

#include "cl_trial.h"
#include "ir.h"

typedef struct product {
    kiln_tensor_desc descs[3]; ///< row, weight, result
    kiln_attr attrs[3];
    kiln_op_record record;
    kiln_view inputs[2];
    kiln_view result;
    kiln_view alone;
} product;

static kiln_buffer *make_buffer(cl_trial *t, size_t bytes, const void *data)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_buffer *buffer = NULL;
    kiln_backend *backend = t->f.base;
    KILN_CHECK_INT(backend->memory->alloc(backend, bytes, &buffer, &err), KILN_STATUS_OK);
    if (data != NULL) {
        KILN_CHECK_INT(backend->transfer->upload(backend, buffer, 0, data, bytes, &err),
                       KILN_STATUS_OK);
    }
    return buffer;
}

/// A weight of any bits, and scales that are numbers.
static kiln_buffer *make_weight(cl_trial *t, const kiln_tensor_desc *desc)
{
    kiln_quant_layout layout;
    uint32_t state = (uint32_t)desc->dims[0];
    KILN_CHECK(kiln_quant_layout_of(desc, &layout));
    uint8_t *bytes = calloc(1, (size_t)layout.bytes);
    for (int64_t i = 0; i < layout.bytes; i++) {
        state = state * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(state >> 24);
    }
    for (int64_t i = 0; i < layout.scales; i++) {
        float scale = (float)(i % 7 + 1) / 16;
        memcpy(bytes + layout.scales_at + i * 4, &scale, sizeof(scale));
    }
    if (layout.global_at >= 0) {
        float whole = (float)desc->dims[0] / 32;
        memcpy(bytes + layout.global_at, &whole, sizeof(whole));
    }
    kiln_buffer *buffer = make_buffer(t, (size_t)layout.bytes, bytes);
    free(bytes);
    return buffer;
}

static void make_product(cl_trial *t, product *p, kiln_buffer *row, int64_t m, int64_t k, int64_t n,
                         kiln_dtype dtype, bool global)
{
    const int64_t blocks[] = {1, 32};
    memset(p, 0, sizeof(*p));
    p->descs[0] = (kiln_tensor_desc){.id = 1, .dtype = KILN_DTYPE_F32, .rank = 2, .dims = {m, k}};
    p->descs[1] = (kiln_tensor_desc){.id = 2, .dtype = dtype, .rank = 2, .dims = {n, k}};
    p->descs[1].scheme = kiln_scheme_make(KILN_DTYPE_F32, global, blocks, 2);
    p->descs[2] = (kiln_tensor_desc){.id = 3, .dtype = KILN_DTYPE_F32, .rank = 2, .dims = {m, n}};
    p->attrs[0] = (kiln_attr){KILN_ATTR_DTYPE, 1, {.i = KILN_DTYPE_F32}};
    p->attrs[2] = (kiln_attr){KILN_ATTR_BOOL, 1, {.i = 1}}; // transpose_b
    p->record = (kiln_op_record){.op = KILN_OP_MATMUL_QUANTIZED,
                                 .n_inputs = 2,
                                 .n_outputs = 1,
                                 .inputs = p->descs,
                                 .outputs = &p->descs[2],
                                 .attrs = p->attrs,
                                 .n_attrs = 3};
    size_t bytes = (size_t)(m * n) * sizeof(float);
    p->inputs[0] = kiln_view_dense(&p->descs[0], row);
    p->inputs[1] = kiln_view_dense(&p->descs[1], make_weight(t, &p->descs[1]));
    p->result = kiln_view_dense(&p->descs[2], make_buffer(t, bytes, NULL));
    p->alone = kiln_view_dense(&p->descs[2], make_buffer(t, bytes, NULL));
}

static void free_product(cl_trial *t, const product *p)
{
    t->f.base->memory->free(t->f.base, p->inputs[1].buffer);
    t->f.base->memory->free(t->f.base, p->result.buffer);
    t->f.base->memory->free(t->f.base, p->alone.buffer);
}

static kiln_buffer *make_rows(cl_trial *t, int64_t count)
{
    float *data = malloc((size_t)count * sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        data[i] = (float)(i * 37 % 101) / 50 - 1;
    }
    kiln_buffer *buffer = make_buffer(t, (size_t)count * sizeof(float), data);
    free(data);
    return buffer;
}

static void compare(cl_trial *t, const product *p)
{
    kiln_backend *backend = t->f.base;
    kiln_error err = KILN_ERROR_INIT;
    size_t bytes = (size_t)kiln_desc_bytes(&p->descs[2]);
    void *one = calloc(1, bytes);
    void *two = calloc(1, bytes);
    KILN_CHECK_INT(backend->device->execute(backend, &p->record, p->inputs, &p->alone, &err),
                   KILN_STATUS_OK);
    KILN_CHECK_INT(backend->transfer->read(backend, p->result.buffer, 0, one, bytes, &err),
                   KILN_STATUS_OK);
    KILN_CHECK_INT(backend->transfer->read(backend, p->alone.buffer, 0, two, bytes, &err),
                   KILN_STATUS_OK);
    KILN_CHECK_MEM(one, two, bytes);
    free(one);
    free(two);
}

static void check_joined(cl_trial *t, int64_t m, int64_t k, kiln_dtype dtype, uint32_t n)
{
    static const int64_t widths[KILN_MAX_JOINED] = {37, 8, 130, 5, 64, 1, 16, 24};
    product products[KILN_MAX_JOINED];
    kiln_joined_op ops[KILN_MAX_JOINED];
    kiln_buffer *rows = make_rows(t, m * k);
    for (uint32_t i = 0; i < n; i++) {
        make_product(t, &products[i], rows, m, k, widths[i], dtype, i % 2 == 1);
        ops[i] = (kiln_joined_op){&products[i].record, products[i].inputs, &products[i].result};
    }
    uint64_t before = t->f.backend->stats.kernels_launched;
    KILN_CHECK(t->f.base->device->execute_joined(t->f.base, ops, n));
    KILN_CHECK_INT((int64_t)(t->f.backend->stats.kernels_launched - before), 1);
    for (uint32_t i = 0; i < n; i++) {
        compare(t, &products[i]);
        free_product(t, &products[i]);
    }
    t->f.base->memory->free(t->f.base, rows);
}

static void test_joined(void)
{
    cl_trial t;
    if (!cl_trial_open(&t, KILN_DEVICE_GPU)) {
        return;
    }
    check_joined(&t, 1, 256, KILN_DTYPE_Q4F, 2);
    check_joined(&t, 1, 4608, KILN_DTYPE_Q4F, 3);
    check_joined(&t, 1, 4608, KILN_DTYPE_Q8F, 8);
    check_joined(&t, 6, 256, KILN_DTYPE_Q8S, 5);
    cl_trial_close(&t);
}

/// As on a GPU whose tensor cores multiply bytes; PoCL computes what they would.
static void test_joined_tensor(void)
{
    cl_trial t;
    if (!cl_trial_open(&t, KILN_DEVICE_GPU)) {
        return;
    }
    t.f.backend->info.features |= KILN_FEATURE_WGMMA;
    t.f.backend->info.compute_units = 1000; // work-groups have as many columns as alone
    check_joined(&t, 1, 256, KILN_DTYPE_Q4F, 2);
    check_joined(&t, 1, 4640, KILN_DTYPE_Q8F, 3);
    check_joined(&t, 6, 256, KILN_DTYPE_Q8S, 2); // several rows are not for them
    cl_trial_close(&t);
}

/// `second` is no product of the launch of `first`: nothing is launched.
static void check_apart(cl_trial *t, const product *first, const product *second)
{
    const kiln_joined_op ops[] = {{&first->record, first->inputs, &first->result},
                                  {&second->record, second->inputs, &second->result}};
    uint64_t before = t->f.backend->stats.kernels_launched;
    KILN_CHECK(!t->f.base->device->execute_joined(t->f.base, ops, 2));
    KILN_CHECK(t->f.backend->stats.kernels_launched == before);
}

static void test_apart(void)
{
    cl_trial t;
    product p[4];
    if (!cl_trial_open(&t, KILN_DEVICE_GPU)) {
        return;
    }
    kiln_buffer *rows = make_rows(&t, 256);
    kiln_buffer *others = make_rows(&t, 256);
    make_product(&t, &p[0], rows, 1, 256, 16, KILN_DTYPE_Q8S, false);
    make_product(&t, &p[1], rows, 1, 256, 16, KILN_DTYPE_Q4S, false); // another width
    make_product(&t, &p[2], others, 1, 256, 16, KILN_DTYPE_Q8S, false); // other rows
    make_product(&t, &p[3], rows, 1, 256, 16, KILN_DTYPE_Q8S, false);
    check_apart(&t, &p[0], &p[1]);
    check_apart(&t, &p[0], &p[2]);
    p[3].attrs[2].v.i = 0; // not the transposed
    check_apart(&t, &p[0], &p[3]);
    p[3].attrs[2].v.i = 1;
    t.f.backend->info.type = KILN_DEVICE_CPU; // lays rows out first
    check_apart(&t, &p[0], &p[3]);
    t.f.backend->info.type = KILN_DEVICE_GPU;
    for (int i = 0; i < 4; i++) {
        free_product(&t, &p[i]);
    }
    t.f.base->memory->free(t.f.base, rows);
    t.f.base->memory->free(t.f.base, others);
    cl_trial_close(&t);
}

KILN_TEST_MAIN("unit/cl_backend/joined", KILN_TEST(test_joined), KILN_TEST(test_joined_tensor),
               KILN_TEST(test_apart))
