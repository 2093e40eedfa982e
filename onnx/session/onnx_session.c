// SPDX-License-Identifier: MIT OR Apache-2.0
// Sessions: a model on devices with its plans. Decides which operators the plans may name. How it
// is divided is onnx_split.c's, runs are onnx_io.c's.
#include "onnx_run.h"

/// A session without plans.
static kiln_status begin_session(const kiln_onnx_model *model, kiln_device *device,
                                 kiln_onnx_session **out_session, kiln_error *err)
{
    kiln_onnx_session *session = kiln_alloc(&model->env, sizeof(*session));
    if (session == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a session");
    }
    session->env = model->env;
    session->model = model;
    session->device = device;
    session->operators = &kilni_onnx_all_operators;
    kiln_arena_init(&session->arena, &session->env);
    const kiln_backend_provider *provider = kiln_ir_reference_provider();
    kiln_status status =
        provider->open(&session->env, "reference:0", &session->host, err, provider->user);
    if (status != KILN_STATUS_OK) {
        kiln_onnx_session_destroy(session);
        return status;
    }
    *out_session = session;
    return KILN_STATUS_OK;
}

kiln_status kiln_onnx_session_create_with(const kiln_onnx_model *model, kiln_device *const *devices,
                                          size_t n_devices,
                                          const kiln_onnx_session_options *options,
                                          kiln_onnx_session **out_session, kiln_error *err)
{
    if (out_session == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_session must not be NULL");
    }
    *out_session = NULL;
    if (model == NULL || devices == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "model and devices must not be NULL");
    }
    kiln_onnx_session *session = NULL;
    if (n_devices < 1 || n_devices > KILNI_ONNX_MAX_DEVICES) {
        return kiln_fail(err, INVALID_ARGUMENT, "%zu devices, a session takes 1 to %d", n_devices,
                         KILNI_ONNX_MAX_DEVICES);
    }
    for (size_t i = 0; i < n_devices; i++) {
        if (devices[i] == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "device %zu is NULL", i);
        }
    }
    kiln_status status = begin_session(model, devices[0], &session, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    session->spans = n_devices > 1;
    status = kilni_onnx_plan_model(session, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_onnx_choose_dtype(session, devices, n_devices, options, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_onnx_split(session, devices, (uint32_t)n_devices, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_onnx_settled_init(session, err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_onnx_session_destroy(session);
        return status;
    }
    *out_session = session;
    return KILN_STATUS_OK;
}

kiln_status kiln_onnx_session_create_across(const kiln_onnx_model *model,
                                            kiln_device *const *devices, size_t n_devices,
                                            kiln_onnx_session **out_session, kiln_error *err)
{
    return kiln_onnx_session_create_with(model, devices, n_devices, NULL, out_session, err);
}

kiln_status kiln_onnx_session_create(const kiln_onnx_model *model, kiln_device *device,
                                     kiln_onnx_session **out_session, kiln_error *err)
{
    return kiln_onnx_session_create_across(model, &device, 1, out_session, err);
}

kiln_status kiln_onnx_model_survey(const kiln_onnx_model *model, kiln_device *device,
                                   kiln_onnx_survey_fn fn, void *user, kiln_error *err)
{
    if (model == NULL || fn == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "model and fn must not be NULL");
    }
    kiln_onnx_session *session = NULL;
    kiln_status status = begin_session(model, device, &session, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_onnx_survey(session, fn, user, err);
    }
    kiln_onnx_session_destroy(session);
    return status;
}

void kiln_onnx_session_parts(const kiln_onnx_session *session, kiln_onnx_part_fn fn, void *user)
{
    if (session == NULL || fn == NULL) {
        return;
    }
    for (uint32_t i = 0; i < session->n_parts; i++) {
        const kilni_onnx_part *part = &session->parts[i];
        const kilni_onnx_node *first =
            part->begin < part->end ? session->main->steps[part->begin].node : NULL;
        const kiln_onnx_part_info info = {.struct_size = (uint32_t)sizeof(info),
                                          .device = part->device,
                                          .first_node = part->begin,
                                          .n_nodes = part->end - part->begin,
                                          .op_type = first != NULL ? first->op_type : "",
                                          .name = first != NULL ? first->name : "",
                                          .constant_bytes = part->bytes,
                                          .n_cut = part->n_cut};
        fn(&info, user);
    }
}

void kiln_onnx_session_destroy(kiln_onnx_session *session)
{
    if (session == NULL) {
        return;
    }
    kilni_onnx_segments_free(session);
    kilni_onnx_settled_forget(session);
    for (uint32_t i = 0; i < session->kept_size; i++) {
        kilni_onnx_release(&session->env, session->kept[i].value);
    }
    for (uint32_t i = 0; i < session->n_bindings; i++) {
        kilni_onnx_binding_drop(&session->bindings[i]);
    }
    kiln_env env = session->env;
    kilni_onnx_texts_free(session);
    kiln_free(&env, session->bindings);
    kiln_free(&env, session->kept);
    if (session->host != NULL) {
        session->host->device->close(session->host);
    }
    for (uint32_t i = 0; i < session->n_parts; i++) {
        kiln_device_release(session->parts[i].device);
    }
    kiln_arena_fini(&session->arena);
    kiln_free(&env, session);
}

void kiln_onnx_session_trace(kiln_onnx_session *session, kiln_onnx_trace_fn fn, void *user)
{
    if (session == NULL) {
        return;
    }
    session->trace = fn;
    session->trace_user = user;
}
