// SPDX-License-Identifier: MIT OR Apache-2.0
// Tensors of more than 2^31 elements on little memory: axes of stride 0 stand for lengths that no
// buffer of this device holds; how work is cut is looked at without running it. What exceeds the
// largest buffer is refused by size, limit and device. tests/big/big_tensors.c has the real ones.
#include <stdio.h>
#include <string.h>

#include "cl_trial.h"
#include "exec_internal.h"

static const int64_t big = ((int64_t)1 << 31) + 5;

typedef struct call {
    kiln_op op;
    kiln_dtype result;
    kiln_view input; ///< one element of it lies at the start of `memory`
    uint64_t memory;
    int64_t index; ///< of select
    kiln_attr attrs[3];
    uint8_t n_attrs;
} call;

static kiln_attr integer(int64_t value)
{
    return (kiln_attr){.type = KILN_ATTR_I64, .count = 1, .v.i = value};
}

static kiln_tensor_desc desc_of(const kiln_view *view)
{
    kiln_tensor_desc desc = {.id = 1, .dtype = view->dtype, .rank = (uint8_t)view->rank};
    memcpy(desc.dims, view->dims, sizeof(desc.dims));
    return desc;
}

/* Runs in the block form; the first 8 bytes of the result. */
static uint64_t run(const call *c, bool select)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    uint64_t result = 0;
    if (!cl_fixture_open(&f, NULL)) {
        return 0;
    }
    kiln_view views[2] = {c->input, {.dtype = KILN_DTYPE_I64, .rank = 1, .dims = {1}}};
    kiln_tensor_desc inputs[2] = {desc_of(&views[0]), desc_of(&views[1])};
    kiln_tensor_desc out = {.id = 2, .dtype = c->result, .rank = select ? 1 : 0, .dims = {select}};
    views[0].buffer = cl_fixture_buffer(&f, sizeof(c->memory), &c->memory);
    views[1].buffer = cl_fixture_buffer(&f, sizeof(c->index), &c->index);
    views[1].strides[0] = 1;
    kiln_view output = kiln_view_dense(&out, cl_fixture_buffer(&f, sizeof(result), &result));
    kiln_op_record record = {.op = c->op,
                             .n_inputs = select ? 2 : 1,
                             .n_outputs = 1,
                             .n_attrs = c->n_attrs,
                             .inputs = inputs,
                             .outputs = &out,
                             .attrs = c->attrs};
    KILN_CHECK_INT(f.base->device->execute(f.base, &record, views, &output, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(f.base->transfer->read(f.base, output.buffer, 0, &result, sizeof(result), &err),
                   KILN_STATUS_OK);
    f.base->memory->free(f.base, views[0].buffer);
    f.base->memory->free(f.base, views[1].buffer);
    f.base->memory->free(f.base, output.buffer);
    cl_fixture_close(&f);
    return result;
}

static void test_sum_of_a_broadcast(void)
{
    const call c = {.op = KILN_OP_SUM,
                    .result = KILN_DTYPE_I64,
                    .input = {.dtype = KILN_DTYPE_I64, .rank = 1, .dims = {big}},
                    .memory = 3,
                    .n_attrs = 2};
    KILN_CHECK_INT((int64_t)run(&c, false), 3 * big);
}

static void test_last_place_of_a_broadcast(void)
{
    const call c = {
        .op = KILN_OP_ARGMAX,
        .result = KILN_DTYPE_I64,
        .input = {.dtype = KILN_DTYPE_U8, .rank = 1, .dims = {big}},
        .memory = 7,
        .attrs = {integer(0), {KILN_ATTR_NONE, 0, {.i = 0}}, {KILN_ATTR_BOOL, 1, {.i = 1}}},
        .n_attrs = 3};
    KILN_CHECK_INT((int64_t)run(&c, false), big - 1);
}

static void test_select_behind_31_bits(void)
{
    const call c = {.op = KILN_OP_SELECT,
                    .result = KILN_DTYPE_I64,
                    .input = {.dtype = KILN_DTYPE_I64, .rank = 1, .dims = {big}},
                    .memory = 11,
                    .index = big - 1,
                    .attrs = {integer(0)},
                    .n_attrs = 1};
    KILN_CHECK_INT((int64_t)run(&c, true), 11);
}

// ---- how work is cut ----

static void check_cut(const cl_trial *t, const int64_t *dims, uint32_t rank, uint32_t vector)
{
    kilni_exec exec = {.backend = t->f.backend};
    kilni_exec_loops loops;
    kilni_exec_shape shape;
    kilni_exec_options options = {.length = 0};
    kiln_view view = {.dtype = KILN_DTYPE_U8, .rank = rank};
    int64_t count = 1;
    memcpy(view.dims, dims, rank * sizeof(dims[0]));
    for (uint32_t i = rank; i-- > 0;) {
        view.strides[i] = 2 * count; // nothing merges into dense runs
        count *= dims[i] + 1;
    }
    kilni_exec_loops_init(&loops, dims, rank);
    kilni_exec_loops_add(&loops, &view);
    kilni_exec_loops_add(&loops, &view);
    kilni_exec_shape_init(&exec, &shape, &loops, vector);
    kilni_exec_define_shape(&exec, &options, &shape, vector);
    int64_t rows = 1;
    for (int64_t i = 0; i < shape.rank; i++) {
        rows *= shape.dims[i];
    }
    KILN_CHECK_INT(shape.rows, rows);
    KILN_CHECK_INT(shape.inner * shape.rows, kilni_exec_count(&view));
    KILN_CHECK(shape.chunks * shape.chunk >= shape.inner);
    KILN_CHECK((shape.items / shape.chunks) * shape.rows_each >= shape.rows);
    bool wide = strstr(options.text, "-DKILN_IDX=ulong") != NULL;
    KILN_CHECK(wide == (shape.items > INT32_MAX || shape.rows > INT32_MAX));
}

static void test_cuts(void)
{
    const int64_t shapes[][3] = {{big, 1, 1},       {3, big, 1}, {big, 3, 1}, {1, 3, big},
                                 {65537, 3, 65539}, {big, 2, 3}, {7, 5, 3}};
    for (size_t form = 0; form < CL_TRIAL_FORMS; form++) {
        cl_trial t;
        if (!cl_trial_open(&t, cl_trial_forms[form])) {
            return;
        }
        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
            check_cut(&t, shapes[i], 3, 16);
            check_cut(&t, shapes[i], 3, 4);
        }
        cl_trial_close(&t);
    }
}

// ---- CLBlast counts in 32 bits ----

static bool library_takes(cl_fixture *f, int64_t offset, int64_t leading)
{
    const kiln_tensor_desc square = {.id = 1, .dtype = KILN_DTYPE_F32, .rank = 2, .dims = {2, 2}};
    const kiln_tensor_desc inputs[2] = {square, square};
    const kiln_attr attrs[2] = {{KILN_ATTR_NONE, 0, {.i = 0}}, {KILN_ATTR_NONE, 0, {.i = 0}}};
    const kiln_op_record record = {.op = KILN_OP_MATMUL,
                                   .n_inputs = 2,
                                   .n_outputs = 1,
                                   .n_attrs = 2,
                                   .inputs = inputs,
                                   .outputs = &square,
                                   .attrs = attrs};
    kiln_error err = KILN_ERROR_INIT;
    bool done = false;
    kiln_buffer *buffer = cl_fixture_buffer(f, 4096, NULL);
    kiln_view a = kiln_view_dense(&square, buffer);
    kiln_view views[2] = {a, a};
    a.offset_bytes = 1024;
    views[0].offset_bytes = 4 * offset;
    views[0].strides[0] = leading;
    // What is out of its reach it does not touch; what is not, is small enough to be there.
    KILN_CHECK_INT(kilni_cl_blas_matmul(f->backend, &record, views, &a, &done, &err),
                   KILN_STATUS_OK);
    f->base->memory->free(f->base, buffer);
    return done;
}

static void test_what_the_library_cannot_count(void)
{
    cl_fixture f;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    KILN_CHECK(library_takes(&f, 8, 4));
    KILN_CHECK(!library_takes(&f, big, 4));
    KILN_CHECK(!library_takes(&f, 8, big));
    KILN_CHECK(!library_takes(&f, INT32_MAX - 4, 4));
    cl_fixture_close(&f);
}

// ---- more than the largest buffer ----

static void check_refusal(cl_fixture *f, const kiln_error *err, int64_t bytes, const char *first)
{
    char size[32];
    char limit[32];
    snprintf(size, sizeof(size), "%lld bytes", (long long)bytes);
    snprintf(limit, sizeof(limit), "%llu bytes",
             (unsigned long long)f->backend->info.max_alloc_bytes);
    KILN_CHECK_INT(err->code, KILN_STATUS_RESOURCE_EXHAUSTED);
    if (strncmp(err->message, first, strlen(first)) != 0 || strstr(err->message, size) == NULL ||
        strstr(err->message, limit) == NULL ||
        strstr(err->message, f->backend->info.name) == NULL) {
        KILN_FAIL("%s", err->message);
    }
}

static void test_tensor_above_the_limit(void)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    kiln_buffer *buffer = NULL;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    int64_t bytes = (int64_t)f.backend->info.max_alloc_bytes + 1;
    KILN_CHECK_INT(f.base->memory->alloc(f.base, (size_t)bytes, &buffer, &err),
                   KILN_STATUS_RESOURCE_EXHAUSTED);
    check_refusal(&f, &err, bytes, "");
    KILN_CHECK(buffer == NULL);
    cl_fixture_close(&f);
}

/* The input is a view of one element, its dense copy would be above the limit. */
static void test_temporary_above_the_limit(void)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    int64_t length = (int64_t)f.backend->info.max_alloc_bytes / 8 + 1;
    kiln_view input = {.dtype = KILN_DTYPE_I64, .rank = 1, .dims = {length}};
    kiln_tensor_desc in = desc_of(&input);
    kiln_tensor_desc outputs[2] = {in, in};
    const kiln_attr attrs[] = {integer(2), integer(0), {KILN_ATTR_BOOL, 1, {.i = 1}}};
    input.buffer = cl_fixture_buffer(&f, 8, NULL);
    kiln_buffer *small = cl_fixture_buffer(&f, 32, NULL);
    outputs[0].dims[0] = outputs[1].dims[0] = 2;
    kiln_view views[2] = {kiln_view_dense(&outputs[0], small), kiln_view_dense(&outputs[1], small)};
    views[1].offset_bytes = 16;
    kiln_op_record record = {.op = KILN_OP_TOP_K,
                             .n_inputs = 1,
                             .n_outputs = 2,
                             .n_attrs = 3,
                             .inputs = &in,
                             .outputs = outputs,
                             .attrs = attrs};
    KILN_CHECK_INT(f.base->device->execute(f.base, &record, &input, views, &err),
                   KILN_STATUS_RESOURCE_EXHAUSTED);
    check_refusal(&f, &err, 8 * length, "temporary memory of top_k: ");
    f.base->memory->free(f.base, input.buffer);
    f.base->memory->free(f.base, small);
    cl_fixture_close(&f);
}

KILN_TEST_MAIN("unit/cl_backend/big", KILN_TEST(test_sum_of_a_broadcast),
               KILN_TEST(test_last_place_of_a_broadcast), KILN_TEST(test_select_behind_31_bits),
               KILN_TEST(test_cuts), KILN_TEST(test_what_the_library_cannot_count),
               KILN_TEST(test_tensor_above_the_limit), KILN_TEST(test_temporary_above_the_limit))
