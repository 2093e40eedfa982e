// SPDX-License-Identifier: MIT OR Apache-2.0
// The backends "reference" and "null": memory, ranges, statistics, views that lie, programs of
// null.
#include <string.h>

#include "ir_support.h"

static test_env env;
static kiln_error err;

static kiln_backend *open_backend(const kiln_backend_provider *provider, const char *address)
{
    kiln_backend *backend = NULL;
    test_env_init(&env);
    KILN_CHECK_INT(provider->open(&env.env, address, &backend, &err, provider->user),
                   KILN_STATUS_OK);
    return backend;
}

static void memory(const kiln_backend_provider *provider, const char *address)
{
    kiln_backend *backend = open_backend(provider, address);
    kiln_buffer *a = NULL;
    kiln_buffer *b = NULL;
    kiln_backend_stats stats;
    char data[8] = "";
    KILN_CHECK_INT(backend->memory->alloc(backend, 16, &a, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(backend->memory->alloc(backend, 0, &b, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(backend->transfer->upload(backend, a, 4, "kiln", 5, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(backend->transfer->copy(backend, a, 4, a, 9, 5, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(backend->transfer->read(backend, a, 9, data, 5, &err), KILN_STATUS_OK);
    KILN_CHECK_STR(data, "kiln");
    KILN_CHECK_INT(backend->transfer->read(backend, a, 12, data, 5, &err),
                   KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_INT(backend->transfer->upload(backend, a, SIZE_MAX, data, 2, &err),
                   KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_INT(backend->transfer->copy(backend, a, 0, b, 0, 1, &err), KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_INT(backend->device->flush(backend, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(backend->device->sync(backend, &err), KILN_STATUS_OK);
    backend->device->stats(backend, &stats);
    KILN_CHECK_INT(stats.buffers_live, 2);
    KILN_CHECK_INT(stats.bytes_used, 16);
    backend->memory->free(backend, a);
    backend->memory->free(backend, b);
    backend->memory->free(backend, NULL);
    backend->memory->trim(backend);
    backend->device->stats(backend, &stats);
    KILN_CHECK_INT(stats.buffers_live, 0);
    KILN_CHECK_INT(stats.bytes_peak, 16);
    backend->device->close(backend);
    KILN_CHECK_INT(env.live, 0);
}

static void test_memory(void)
{
    memory(kiln_ir_reference_provider(), "reference:");
    memory(kiln_ir_null_provider(), "null:");
}

static void test_views_that_lie(void)
{
    kiln_backend *backend = open_backend(kiln_ir_reference_provider(), "reference:");
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 1, 4);
    kiln_tensor_desc y = x;
    kiln_buffer *buffer = NULL;
    kiln_op_record neg = {
        .op = KILN_OP_NEG, .n_inputs = 1, .n_outputs = 1, .inputs = &x, .outputs = &y};
    KILN_CHECK_INT(backend->memory->alloc(backend, 16, &buffer, &err), KILN_STATUS_OK);
    kiln_view good = kiln_view_dense(&x, buffer);
    KILN_CHECK_INT(backend->device->execute(backend, &neg, &good, &good, &err), KILN_STATUS_OK);
    kiln_view views[4] = {good, good, good, good};
    views[0].offset_bytes = 4;
    views[1].strides[0] = -1;
    views[2].buffer = NULL;
    views[3].dims[0] = 3;
    for (unsigned i = 0; i < 4; i++) {
        KILN_CHECK(backend->device->execute(backend, &neg, &views[i], &good, &err) !=
                   KILN_STATUS_OK);
        KILN_CHECK(backend->device->execute(backend, &neg, &good, &views[i], &err) !=
                   KILN_STATUS_OK);
    }
    kiln_op_record unknown = {.op = KILN_OP_COUNT};
    KILN_CHECK_INT(backend->device->execute(backend, &unknown, &good, &good, &err),
                   KILN_STATUS_UNIMPLEMENTED);
    backend->memory->free(backend, buffer);
    backend->device->close(backend);
    KILN_CHECK_INT(env.live, 0);
}

/* A result in the memory of an input that it reads in another order. */
static void test_shared_memory(void)
{
    const float values[4] = {1, 2, 3, 4};
    float out[4] = {0};
    kiln_backend *backend = open_backend(kiln_ir_reference_provider(), "reference:");
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 1, 4);
    kiln_attr axes = TEST_INTS(0);
    kiln_op_record flip = {.op = KILN_OP_FLIP,
                           .n_inputs = 1,
                           .n_outputs = 1,
                           .n_attrs = 1,
                           .inputs = &x,
                           .outputs = &x,
                           .attrs = &axes};
    kiln_buffer *buffer = NULL;
    KILN_CHECK_INT(backend->memory->alloc(backend, 16, &buffer, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(backend->transfer->upload(backend, buffer, 0, values, 16, &err), KILN_STATUS_OK);
    kiln_view view = kiln_view_dense(&x, buffer);
    KILN_CHECK_INT(backend->device->execute(backend, &flip, &view, &view, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(backend->transfer->read(backend, buffer, 0, out, 16, &err), KILN_STATUS_OK);
    KILN_CHECK_MEM(out, ((const float[]){4, 3, 2, 1}), 16);
    backend->memory->free(backend, buffer);
    backend->device->close(backend);
}

static void test_null_takes_programs(void)
{
    kiln_backend *backend = open_backend(kiln_ir_null_provider(), "null:");
    const kiln_program_launch one = {.kernel = "k", .n_dims = 1};
    const kiln_program program = {.launches = &one, .n_launches = 1};
    kiln_launch launch = {.n_dims = 1, .global = {64}};
    kiln_built *built = NULL;
    kiln_backend_stats stats;
    uint64_t ns = 1;
    KILN_CHECK((backend->device->info(backend)->features & KILN_FEATURE_PROGRAMS) != 0);
    KILN_CHECK_INT(backend->program->build(backend, &program, &built, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(backend->program->launch(backend, built, &launch, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(backend->program->time(backend, built, &launch, &ns, &err), KILN_STATUS_OK);
    launch.launch = 1;
    KILN_CHECK_INT(backend->program->launch(backend, built, &launch, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    backend->device->stats(backend, &stats);
    KILN_CHECK_INT(stats.kernels_launched, 2);
    KILN_CHECK_INT(stats.programs_built, 1);
    backend->program->free(backend, built);
    backend->device->close(backend);
    KILN_CHECK_INT(env.live, 0);
}

static void test_no_memory(void)
{
    const kiln_backend_provider *provider = kiln_ir_reference_provider();
    kiln_backend *backend = NULL;
    test_env_init(&env);
    env.fail_at = 1;
    KILN_CHECK_INT(provider->open(&env.env, "reference:", &backend, &err, NULL),
                   KILN_STATUS_RESOURCE_EXHAUSTED);
    KILN_CHECK(backend == NULL);
    backend = open_backend(provider, "reference:");
    for (unsigned k = 1; k <= 2; k++) {
        kiln_buffer *buffer = NULL;
        env.fail_at = k;
        KILN_CHECK_INT(backend->memory->alloc(backend, 8, &buffer, &err),
                       KILN_STATUS_RESOURCE_EXHAUSTED);
    }
    backend->device->close(backend);
    KILN_CHECK_INT(env.live, 0);
}

static void test_null_plans_for_another(void)
{
    kiln_device_info there = {.name = "there",
                              .driver = "1",
                              .extensions = "cl_x",
                              .type = KILN_DEVICE_GPU,
                              .features = KILN_FEATURE_WGMMA,
                              .compute_units = 132,
                              .vector_bytes = 16,
                              .max_parameter_bytes = 4352};
    char name[] = "there";
    kiln_backend *null = open_backend(kiln_ir_null_provider(), "null");
    kiln_hash128 here = null->device->info(null)->fingerprint;
    there.name = name;
    KILN_CHECK_INT(kiln_ir_null_plan_for(null, &there, &err), KILN_STATUS_OK);
    name[0] = 'x'; // texts are copied
    const kiln_device_info *info = null->device->info(null);
    KILN_CHECK_STR(info->name, "there");
    KILN_CHECK_INT(info->max_parameter_bytes, 4352);
    KILN_CHECK_INT(info->features,
                   KILN_FEATURE_WGMMA | KILN_FEATURE_COMPILER | KILN_FEATURE_PROGRAMS);
    KILN_CHECK(memcmp(&info->fingerprint, &here, sizeof(here)) != 0);
    here = info->fingerprint;
    there.name = "there";
    there.driver = "2";
    KILN_CHECK_INT(kiln_ir_null_plan_for(null, &there, &err), KILN_STATUS_OK);
    KILN_CHECK(memcmp(&null->device->info(null)->fingerprint, &here, sizeof(here)) != 0);
    there.vector_bytes = 8;
    KILN_CHECK_INT(kiln_ir_null_plan_for(null, &there, &err), KILN_STATUS_INVALID_ARGUMENT);
    null->device->close(null);
    KILN_CHECK_INT(env.live, 0);
    kiln_backend *other = open_backend(kiln_ir_reference_provider(), "reference:");
    KILN_CHECK_INT(kiln_ir_null_plan_for(other, &there, &err), KILN_STATUS_UNIMPLEMENTED);
    other->device->close(other);
}

KILN_TEST_MAIN("unit/ir/backend_host", KILN_TEST(test_memory), KILN_TEST(test_views_that_lie),
               KILN_TEST(test_shared_memory), KILN_TEST(test_null_takes_programs),
               KILN_TEST(test_no_memory), KILN_TEST(test_null_plans_for_another))
