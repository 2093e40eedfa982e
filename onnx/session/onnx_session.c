// SPDX-License-Identifier: MIT OR Apache-2.0
// Sessions: a model on a device with its plans. Decides which operators the
// plans may name. Runs are onnx_io.c's.
#include "onnx_run.h"

/* Bytes of constants that the device has to hold: those that are read, but for what a device that
   shares the host's memory uses where it lies in the file. */
static uint64_t constant_bytes(const kiln_onnx_session *session)
{
    enum { ALIGNED = 128 };
    const kilni_onnx_plan *plan = session->main;
    bool shares =
        (kiln_device_info_of(session->device)->features & KILN_FEATURE_UNIFIED_MEMORY) != 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->graph->n_initializers; i++) {
        const kilni_onnx_tensor *tensor = &plan->graph->initializers[i];
        uint32_t slot = plan->initializers[i];
        bool in_file = shares && tensor->indices == NULL && (uintptr_t)tensor->data % ALIGNED == 0;
        if (slot != KILNI_ONNX_NO_SLOT && plan->uses[slot] > 0 && !in_file) {
            bytes += (uint64_t)tensor->count * kiln_dtype_size(tensor->dtype);
        }
    }
    return bytes;
}

/* A model whose constants alone are too much is refused before anything is copied. */
static kiln_status check_room(const kiln_onnx_session *session, kiln_error *err)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(session->device, &stats);
    uint64_t bytes = constant_bytes(session);
    if (stats.backend.bytes_budget == 0 || bytes <= stats.backend.bytes_budget) {
        return KILN_STATUS_OK;
    }
    return kiln_fail(err, RESOURCE_EXHAUSTED,
                     "the model's constants have %llu bytes (%llu MiB), %s may hold %llu (%llu "
                     "MiB): take a device with more memory, or weights of fewer bits",
                     (unsigned long long)bytes, (unsigned long long)(bytes >> 20),
                     kiln_device_address(session->device),
                     (unsigned long long)stats.backend.bytes_budget,
                     (unsigned long long)(stats.backend.bytes_budget >> 20));
}

kiln_status kiln_onnx_session_create(const kiln_onnx_model *model, kiln_device *device,
                                     kiln_onnx_session **out_session, kiln_error *err)
{
    *out_session = NULL;
    kiln_onnx_session *session = kiln_alloc(&model->env, sizeof(*session));
    if (session == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a session");
    }
    session->env = model->env;
    session->model = model;
    session->device = kiln_device_retain(device);
    session->operators = &kilni_onnx_all_operators;
    kiln_arena_init(&session->arena, &session->env);
    const kiln_backend_provider *provider = kiln_ir_reference_provider();
    kiln_status status =
        provider->open(&session->env, "reference:0", &session->host, err, provider->user);
    if (status == KILN_STATUS_OK) {
        status = kilni_onnx_plan_model(session, err);
    }
    if (status == KILN_STATUS_OK) {
        status = check_room(session, err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_onnx_session_destroy(session);
        return status;
    }
    *out_session = session;
    return KILN_STATUS_OK;
}

void kiln_onnx_session_destroy(kiln_onnx_session *session)
{
    if (session == NULL) {
        return;
    }
    kilni_onnx_segments_free(session);
    for (uint32_t i = 0; i < session->kept_size; i++) {
        kilni_onnx_release(&session->env, session->kept[i].value);
    }
    for (uint32_t i = 0; i < session->n_bindings; i++) {
        kilni_onnx_binding_drop(&session->bindings[i]);
    }
    kiln_env env = session->env;
    kiln_free(&env, session->bindings);
    kiln_free(&env, session->kept);
    kiln_arena_fini(&session->arena);
    if (session->host != NULL) {
        session->host->device->close(session->host);
    }
    kiln_device_release(session->device);
    kiln_free(&env, session);
}

void kiln_onnx_session_trace(kiln_onnx_session *session, kiln_onnx_trace_fn fn, void *user)
{
    session->trace = fn;
    session->trace_user = user;
}
