// SPDX-License-Identifier: MIT OR Apache-2.0
// Helpers of the tests of ir. Leaves expectations to the tests: nothing here computes a result by
// itself.
#include "ir_support.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void *count_alloc(void *user, size_t bytes, size_t alignment)
{
    test_env *env = user;
    env->made++;
    if (env->fail_at != 0 && --env->fail_at == 0) {
        return NULL;
    }
    kiln_allocator plain = kiln_allocator_default();
    void *memory = plain.alloc(plain.user, bytes, alignment);
    env->live += memory != NULL ? 1 : 0;
    return memory;
}

static void count_free(void *user, void *pointer)
{
    test_env *env = user;
    kiln_allocator plain = kiln_allocator_default();
    env->live -= pointer != NULL ? 1 : 0;
    plain.free(plain.user, pointer);
}

void test_env_init(test_env *env)
{
    memset(env, 0, sizeof(*env));
    env->env.allocator = (kiln_allocator){count_alloc, count_free, env};
}

kiln_tensor_desc test_desc(kiln_dtype dtype, unsigned rank, ...)
{
    kiln_tensor_desc desc = {.id = 1, .dtype = dtype, .rank = (uint8_t)rank};
    va_list args;
    va_start(args, rank);
    for (unsigned i = 0; i < rank; i++) {
        desc.dims[i] = va_arg(args, int);
    }
    va_end(args);
    return desc;
}

kiln_attr test_i64(int64_t value)
{
    return (kiln_attr){KILN_ATTR_I64, 1, {.i = value}};
}

kiln_attr test_f64(double value)
{
    return (kiln_attr){KILN_ATTR_F64, 1, {.f = value}};
}

kiln_attr test_bool(bool value)
{
    return (kiln_attr){KILN_ATTR_BOOL, 1, {.i = value}};
}

kiln_attr test_dtype(kiln_dtype value)
{
    return (kiln_attr){KILN_ATTR_DTYPE, 1, {.i = value}};
}

kiln_attr test_text(const char *text)
{
    return (kiln_attr){KILN_ATTR_STRING, (uint32_t)strlen(text), {.text = text}};
}

kiln_attr test_none(void)
{
    return (kiln_attr){.type = KILN_ATTR_NONE};
}

kiln_attr test_ints(uint32_t count, const int64_t *values)
{
    return (kiln_attr){KILN_ATTR_I64_LIST, count, {.ints = values}};
}

static kiln_op_record record_of(kiln_op op, const kiln_tensor_desc *inputs, uint16_t n_inputs,
                                const kiln_attr *attrs, kiln_tensor_desc *outputs)
{
    const kiln_op_info *info = kiln_op_info_of(op);
    return (kiln_op_record){.op = op,
                            .n_inputs = n_inputs,
                            .n_outputs = info->n_outputs,
                            .n_attrs = info->signature->n_attrs,
                            .inputs = inputs,
                            .outputs = outputs,
                            .attrs = attrs};
}

kiln_status test_infer(kiln_op op, const kiln_tensor_desc *inputs, uint16_t n_inputs,
                       const kiln_attr *attrs, kiln_tensor_desc *out, kiln_error *err)
{
    memset(out, 0, sizeof(*out));
    kiln_op_record record = record_of(op, inputs, n_inputs, attrs, out);
    return kiln_ir_infer(&record, out, err);
}

bool test_shape_is(const kiln_tensor_desc *desc, const char *file, int line, unsigned rank, ...)
{
    va_list args;
    bool ok = desc->rank == rank;
    va_start(args, rank);
    for (unsigned i = 0; ok && i < rank; i++) {
        ok = desc->dims[i] == va_arg(args, int);
    }
    va_end(args);
    if (!ok) {
        kiln_test_fail(file, line, "the shape has rank %u: %lld %lld %lld %lld", desc->rank,
                       (long long)desc->dims[0], (long long)desc->dims[1], (long long)desc->dims[2],
                       (long long)desc->dims[3]);
    }
    return kiln_test_check(ok, file, line, "shape");
}

static kiln_status run_on(kiln_backend *backend, kiln_op_record *record, const void *const *data,
                          void *out_data, kiln_error *err)
{
    kiln_view views[KILN_MAX_INPUTS];
    kiln_buffer *buffers[KILN_MAX_INPUTS + 1] = {NULL};
    size_t out_bytes = (size_t)kiln_desc_bytes(&record->outputs[0]);
    kiln_status status = backend->memory->alloc(backend, out_bytes, &buffers[KILN_MAX_INPUTS], err);
    for (unsigned i = 0; status == KILN_STATUS_OK && i < record->n_inputs; i++) {
        size_t bytes = (size_t)kiln_desc_bytes(&record->inputs[i]);
        status = backend->memory->alloc(backend, bytes, &buffers[i], err);
        if (status == KILN_STATUS_OK) {
            status = backend->transfer->upload(backend, buffers[i], 0, data[i], bytes, err);
        }
        views[i] = kiln_view_dense(&record->inputs[i], buffers[i]);
    }
    if (status == KILN_STATUS_OK) {
        kiln_view out = kiln_view_dense(&record->outputs[0], buffers[KILN_MAX_INPUTS]);
        status = backend->device->execute(backend, record, views, &out, err);
    }
    if (status == KILN_STATUS_OK) {
        status =
            backend->transfer->read(backend, buffers[KILN_MAX_INPUTS], 0, out_data, out_bytes, err);
    }
    for (unsigned i = 0; i <= KILN_MAX_INPUTS; i++) {
        backend->memory->free(backend, buffers[i]);
    }
    return status;
}

int64_t test_run(kiln_op op, const kiln_tensor_desc *inputs, const void *const *data,
                 uint16_t n_inputs, const kiln_attr *attrs, void *out_data, const char *file,
                 int line)
{
    test_env env;
    kiln_tensor_desc out = {0};
    kiln_backend *backend = NULL;
    kiln_error err = KILN_ERROR_INIT;
    const kiln_backend_provider *provider = kiln_ir_reference_provider();
    test_env_init(&env);
    kiln_op_record record = record_of(op, inputs, n_inputs, attrs, &out);
    kiln_status status = kiln_ir_infer(&record, &out, &err);
    if (status == KILN_STATUS_OK) {
        status = provider->open(&env.env, "reference:", &backend, &err, provider->user);
    }
    if (status == KILN_STATUS_OK) {
        status = run_on(backend, &record, data, out_data, &err);
        backend->device->close(backend);
    }
    if (status != KILN_STATUS_OK || env.live != 0) {
        kiln_test_fail(file, line, "%s, %lu allocations left",
                       status != KILN_STATUS_OK ? err.message : "ok", env.live);
        return -1;
    }
    return kiln_desc_count(&out);
}

void test_expect_f32(kiln_op op, const kiln_tensor_desc *inputs, const void *const *data,
                     uint16_t n_inputs, const kiln_attr *attrs, size_t count, const float *expected,
                     double tolerance, const char *file, int line)
{
    float actual[4096] = {0};
    double scale = 0;
    int64_t got = test_run(op, inputs, data, n_inputs, attrs, actual, file, line);
    if (!kiln_test_check_int(got, (int64_t)count, file, line, "elements")) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        scale = isfinite(expected[i]) && fabs((double)expected[i]) > scale
                    ? fabs((double)expected[i])
                    : scale;
    }
    for (size_t i = 0; i < count; i++) {
        char text[48];
        snprintf(text, sizeof(text), "element %zu", i);
        kiln_test_check_near((double)actual[i], (double)expected[i], tolerance * scale, file, line,
                             text);
        if (tolerance == 0 && !isnan(expected[i])) {
            kiln_test_check(signbit(actual[i]) == signbit(expected[i]), file, line, text);
        }
    }
}
