// SPDX-License-Identifier: MIT OR Apache-2.0
// One small case of every kernel in cl_backend/kernels, in the block form and in that for GPUs,
// against the reference. Which kernels there are is read off the embedded sources; one that no case
// reaches fails the last test. Small because oclgrind runs it, with every access, race and
// uninitialised value watched. Elsewhere it is for the long form: conformance/opencl runs the same
// kernels on more samples.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl_trial.h"
#include "exec_internal.h"
#include "samples.h"

enum { MAX_KERNELS = 160, MOST_ELEMENTS = 320 };

typedef struct kernel_name {
    char file[32];
    char name[48];
    bool reached[CL_TRIAL_FORMS];
} kernel_name;

static kernel_name kernels[MAX_KERNELS];
static size_t n_kernels;
static bool covered[CL_TRIAL_FORMS];
static bool tensor_cores; ///< whether the device is said to have them

// ---- which kernels there are ----

static void list_file(const kilni_cl_source *source)
{
    const char *at = strstr(source->text, "__kernel");
    for (; at != NULL; at = strstr(at, "__kernel")) {
        at = strstr(at, "void");
        at += at != NULL ? strcspn(at, " \n") : 0;
        at += at != NULL ? strspn(at, " \n") : 0;
        if (!KILN_CHECK(at != NULL && n_kernels < MAX_KERNELS)) {
            return;
        }
        kernel_name *k = &kernels[n_kernels++];
        snprintf(k->file, sizeof(k->file), "%s", source->name);
        snprintf(k->name, sizeof(k->name), "%.*s", (int)strcspn(at, "("), at);
    }
}

static void list_kernels(void)
{
    if (n_kernels > 0) {
        return;
    }
    for (const kilni_cl_source *source = kilni_cl_sources; source->name != NULL; source++) {
        list_file(source);
    }
}

/* What the backend has made ready since it was opened, and so launched. */
static void note_reached(const kilni_cl_kernels *made, size_t form)
{
    for (uint32_t i = 0; i < made->capacity; i++) {
        if (made->slots[i].kernel == NULL) {
            continue;
        }
        const char *file = made->slots[i].texts;
        const char *defines = file + strlen(file) + 1;
        const char *name = defines + strlen(defines) + 1;
        for (size_t k = 0; k < n_kernels; k++) {
            bool same = strcmp(kernels[k].file, file) == 0 && strcmp(kernels[k].name, name) == 0;
            kernels[k].reached[form] |= same;
        }
    }
}

// ---- small samples ----

typedef struct choice { ///< the first sample, the largest and the smallest of the small ones
    size_t form;
    unsigned seen;
    int64_t elements[2];
    unsigned index[2];
} choice;

static int64_t elements_of(const kiln_op_record *record)
{
    int64_t in = 0;
    int64_t out = 0;
    for (unsigned i = 0; i < record->n_inputs; i++) {
        in += kiln_desc_count(&record->inputs[i]);
    }
    for (unsigned i = 0; record->outputs != NULL && i < record->n_outputs; i++) {
        out += kiln_desc_count(&record->outputs[i]);
    }
    return out > 0 ? in + out : 0;
}

static void weigh(const kiln_op_record *record, const void *const *data, void *user)
{
    choice *c = user;
    int64_t elements = elements_of(record);
    (void)data;
    if (elements > 0 && elements <= MOST_ELEMENTS) {
        for (unsigned i = 0; i < 2; i++) {
            bool better = i == 0 ? elements > c->elements[i] : elements < c->elements[i];
            if (c->elements[i] == 0 || better) {
                c->elements[i] = elements;
                c->index[i] = c->seen;
            }
        }
    }
    c->seen++;
}

/* A device of its own for each call: oclgrind takes memory that is given out again for what lay
 * there before. Calls that this form would have expanded reach no kernel of their operator. */
static void take_alone(size_t form, const kiln_op_record *record, const void *const *data)
{
    cl_trial t;
    if (cl_trial_open(&t, cl_trial_forms[form])) {
        t.f.backend->info.features |= tensor_cores ? KILN_FEATURE_WGMMA : 0;
        if (!kiln_ir_is_expanded(t.f.base, record)) {
            cl_trial_take(record, data, &t);
            note_reached(&t.f.backend->kernels, form);
        }
        cl_trial_close(&t);
    }
}

static void take_chosen(const kiln_op_record *record, const void *const *data, void *user)
{
    choice *c = user;
    if (c->seen == 0 || c->seen == c->index[0] || c->seen == c->index[1]) {
        take_alone(c->form, record, data);
    }
    c->seen++;
}

static kiln_dtype dtype_for(const kiln_op_info *info, kiln_op op)
{
    static const kiln_dtype order[] = {KILN_DTYPE_F32, KILN_DTYPE_I32, KILN_DTYPE_I64,
                                       KILN_DTYPE_U8, KILN_DTYPE_BOOL};
    size_t first = op == KILN_OP_MATMUL ? 1 : 0; // f32 is CLBlast's
    for (size_t i = first; i < sizeof(order) / sizeof(order[0]); i++) {
        if ((kiln_dtype_kind_of(order[i]) & info->accept) != 0) {
            return order[i];
        }
    }
    for (int d = 1; d < KILN_DTYPE_LIMIT; d++) {
        if ((kiln_dtype_kind_of((kiln_dtype)d) & info->accept) != 0) {
            return (kiln_dtype)d;
        }
    }
    return KILN_DTYPE_NONE;
}

/* Elementwise operators are formulas of one kernel: one of each signature is enough. */
static bool is_twin(kiln_op op)
{
    const kiln_op_info *info = kiln_op_info_of(op);
    for (int earlier = 0; earlier < (int)op; earlier++) {
        const kiln_op_info *other = kiln_op_info_of((kiln_op)earlier);
        if (info->cls == KILN_CLASS_ELEMENTWISE && other->cls == KILN_CLASS_ELEMENTWISE &&
            other->signature == info->signature) {
            return true;
        }
    }
    return false;
}

static void run_samples(size_t form, kiln_op op)
{
    const kiln_op_info *info = kiln_op_info_of(op);
    kiln_dtype dtype = dtype_for(info, op);
    kiln_env env = {.allocator = kiln_allocator_default()};
    choice c = {.form = form};
    kiln_sample_sink sink = {.env = &env, .take = weigh, .user = &c};
    kiln_samples_make(op, dtype, &sink);
    c.seen = 0;
    sink.take = take_chosen;
    kiln_samples_make(op, dtype, &sink);
}

// ---- what no small sample reaches ----

typedef struct call {
    kiln_op op;
    uint16_t n_inputs;
    kiln_tensor_desc inputs[3]; ///< of i64: indices of the first
    kiln_attr attr; ///< the first; the others are not given
} call;

#define TENSOR(of, n, ...)                                                                         \
    {                                                                                              \
        .id = 1, .dtype = KILN_DTYPE_##of, .rank = (n), .dims = { __VA_ARGS__ }                    \
    }

static const int64_t turned[] = {0, 2, 1};
static const int64_t first_axis[] = {0};

static const call calls[] = {
    {KILN_OP_PERMUTE, 1, {TENSOR(F32, 3, 2, 40, 36)}, {KILN_ATTR_I64_LIST, 3, {.ints = turned}}},
    {KILN_OP_SUM, 1, {TENSOR(F32, 2, 9, 70)}, {KILN_ATTR_I64_LIST, 1, {.ints = first_axis}}},
    {KILN_OP_CUM_SUM, 1, {TENSOR(I32, 2, 2, 300)}, {KILN_ATTR_NONE, 0, {.i = 0}}},
    {KILN_OP_SORT, 1, {TENSOR(F32, 1, 1100)}, {KILN_ATTR_NONE, 0, {.i = 0}}},
    {KILN_OP_FFT, 1, {TENSOR(F32, 2, 3, 32)}, {KILN_ATTR_NONE, 0, {.i = 0}}},
    {KILN_OP_FFT, 1, {TENSOR(F32, 2, 9, 32)}, {KILN_ATTR_NONE, 0, {.i = 0}}},
    {KILN_OP_FFT, 1, {TENSOR(F32, 2, 1, 131)}, {KILN_ATTR_NONE, 0, {.i = 0}}},
    {KILN_OP_CONV,
     2,
     {TENSOR(F32, 3, 1, 4, 30), TENSOR(F32, 3, 8, 4, 3)},
     {KILN_ATTR_NONE, 0, {.i = 0}}},
    {KILN_OP_CONV,
     2,
     {TENSOR(F32, 4, 16, 1, 5, 20), TENSOR(F32, 4, 1, 1, 3, 3)},
     {KILN_ATTR_NONE, 0, {.i = 0}}},
    {KILN_OP_SCATTER,
     3,
     {TENSOR(F32, 1, 40), TENSOR(F32, 1, 600), TENSOR(I64, 1, 600)},
     {KILN_ATTR_NONE, 0, {.i = 0}}},
};

/* Small whole numbers; indices that now and then point outside. */
static void *generate(const kiln_tensor_desc *desc, int64_t range)
{
    int64_t count = kiln_desc_count(desc);
    size_t size = kiln_dtype_size(desc->dtype);
    unsigned char *data = calloc((size_t)count, size);
    for (int64_t i = 0; data != NULL && i < count; i++) {
        int64_t index = i * 7 % (range + 3) - 1;
        float number = (float)(i * 13 % 23 - 11);
        int32_t whole = (int32_t)number;
        const void *from = desc->dtype == KILN_DTYPE_I64   ? (const void *)&index
                           : desc->dtype == KILN_DTYPE_F32 ? (const void *)&number
                                                           : (const void *)&whole;
        memcpy(data + (size_t)i * size, from, size);
    }
    return data;
}

static void run_call(size_t form, const call *c)
{
    kiln_tensor_desc outputs[KILN_MAX_OUTPUTS] = {{0}};
    kiln_attr attrs[KILN_MAX_ATTRS] = {c->attr};
    const kiln_op_info *info = kiln_op_info_of(c->op);
    void *data[3] = {NULL};
    kiln_error err = KILN_ERROR_INIT;
    kiln_op_record record = {.op = c->op,
                             .n_inputs = c->n_inputs,
                             .n_outputs = info->n_outputs,
                             .n_attrs = info->signature->n_attrs,
                             .inputs = c->inputs,
                             .outputs = outputs,
                             .attrs = attrs};
    if (!KILN_CHECK_INT(kiln_ir_infer(&record, outputs, &err), KILN_STATUS_OK)) {
        return;
    }
    for (unsigned i = 0; i < c->n_inputs; i++) {
        data[i] = generate(&c->inputs[i], c->inputs[0].dims[0]);
    }
    take_alone(form, &record, (const void *const *)data);
    for (unsigned i = 0; i < c->n_inputs; i++) {
        free(data[i]);
    }
}

// ---- weights as constants ----

static void origin_gone(void *user)
{
    (void)user; // its memory is freed at the end of the case
}

/* Memory behind a first element, so that a device does not use it where it lies. */
static kiln_buffer *constant_of(cl_trial *t, const kiln_tensor_desc *desc, const void *data,
                                float **out_memory)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_buffer *buffer = NULL;
    size_t bytes = (size_t)kiln_desc_bytes(desc);
    float *memory = malloc(bytes + sizeof(float));
    *out_memory = memory;
    if (KILN_CHECK(memory != NULL)) {
        memcpy(memory + 1, data, bytes);
        const kiln_host_origin origin = {.memory = memory + 1, .release = origin_gone};
        KILN_CHECK_INT(t->f.base->memory->alloc_from(t->f.base, &origin, bytes, &buffer, &err),
                       KILN_STATUS_OK);
    }
    return buffer;
}

static void compare_first(cl_trial *t, const kiln_op_record *record, const void *const *data,
                          kiln_buffer *result)
{
    kiln_error err = KILN_ERROR_INIT;
    void *expected[KILN_MAX_OUTPUTS] = {NULL};
    size_t bytes = (size_t)kiln_desc_bytes(&record->outputs[0]);
    float *values = malloc(bytes + 1);
    if (KILN_CHECK(values != NULL) &&
        KILN_CHECK_INT(t->f.base->transfer->read(t->f.base, result, 0, values, bytes, &err),
                       KILN_STATUS_OK) &&
        KILN_CHECK_INT(cl_trial_run(t->judge, record, data, expected, &err), KILN_STATUS_OK)) {
        for (size_t i = 0; i < bytes / sizeof(float); i++) {
            KILN_CHECK_NEAR(values[i], ((const float *)expected[0])[i], 1e-4);
        }
    }
    free(values);
    for (unsigned i = 0; i < KILN_MAX_OUTPUTS; i++) {
        free(expected[i]);
    }
}

/* The first sample of a recurrent layer, its weight and recurrence as constants: they are packed by
 * a kernel of their own. */
static void take_on_constants(const kiln_op_record *record, const void *const *data, void *user)
{
    bool *taken = user;
    kiln_view views[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS] = {0};
    float *memory[2] = {NULL, NULL};
    kiln_error err = KILN_ERROR_INIT;
    cl_trial t;
    if (*taken || elements_of(record) == 0 || !cl_trial_open(&t, cl_trial_forms[0])) {
        return;
    }
    *taken = true;
    size_t n_views = record->n_inputs + record->n_outputs;
    for (size_t i = 0; i < n_views; i++) {
        bool is_input = i < record->n_inputs;
        const kiln_tensor_desc *desc =
            is_input ? &record->inputs[i] : &record->outputs[i - record->n_inputs];
        kiln_buffer *buffer =
            i == 1 || i == 2
                ? constant_of(&t, desc, data[i], &memory[i - 1])
                : cl_fixture_buffer(&t.f, (size_t)kiln_desc_bytes(desc), is_input ? data[i] : NULL);
        views[i] = kiln_view_dense(desc, buffer);
    }
    if (KILN_CHECK_INT(
            t.f.base->device->execute(t.f.base, record, views, views + record->n_inputs, &err),
            KILN_STATUS_OK)) {
        compare_first(&t, record, data, views[record->n_inputs].buffer);
    }
    note_reached(&t.f.backend->kernels, 0);
    for (size_t i = 0; i < n_views; i++) {
        t.f.base->memory->free(t.f.base, views[i].buffer);
    }
    cl_trial_close(&t);
    free(memory[0]);
    free(memory[1]);
}

static void run_on_constants(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    bool taken = false;
    kiln_sample_sink sink = {.env = &env, .take = take_on_constants, .user = &taken};
    kiln_samples_make(KILN_OP_LSTM, KILN_DTYPE_F32, &sink);
    KILN_CHECK(taken);
}

// ---- the cases ----

static void run_form(size_t form)
{
    if (getenv("KILN_TEST_OCLGRIND") == NULL && !kiln_test_is_long()) {
        kiln_test_skip("without oclgrind only in the long form: set KILN_TEST_LONG");
        return;
    }
    list_kernels();
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        bool runs = kilni_exec_launcher((kiln_op)op) != NULL;
        bool control = kiln_op_info_of((kiln_op)op)->cls == KILN_CLASS_CONTROL;
        if (runs && !control && !is_twin((kiln_op)op)) {
            run_samples(form, (kiln_op)op);
        }
    }
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        run_call(form, &calls[i]);
    }
    covered[form] = true;
}

static void test_block_form(void)
{
    run_form(0);
    if (covered[0]) {
        run_on_constants();
    }
}

/// oclgrind 21.10 crashes while it watches this one for uninitialised values; it runs there without
/// that watch (quantised/test_cl_quant_tensor).
static bool crashes_oclgrind(const char *file)
{
    return getenv("KILN_TEST_OCLGRIND") != NULL && strcmp(file, "quant_tensor.cl") == 0;
}

static void test_gpu_form(void)
{
    run_form(1);
    if (covered[1] && !crashes_oclgrind("quant_tensor.cl")) {
        tensor_cores = true;
        run_samples(1, KILN_OP_MATMUL_QUANTIZED);
        tensor_cores = false;
    }
}

/* Last: a kernel that neither form launched has no case. */
static void test_all_were_reached(void)
{
    if (!covered[0] || !covered[1]) {
        kiln_test_skip("the cases of both forms have to run first");
        return;
    }
    KILN_CHECK(n_kernels > 50);
    for (size_t k = 0; k < n_kernels; k++) {
        if (!kernels[k].reached[0] && !kernels[k].reached[1] &&
            !crashes_oclgrind(kernels[k].file)) {
            KILN_FAIL("no case reaches %s of %s", kernels[k].name, kernels[k].file);
        }
    }
}

KILN_TEST_MAIN("unit/cl_backend/every_kernel", KILN_TEST(test_block_form), KILN_TEST(test_gpu_form),
               KILN_TEST(test_all_were_reached))
