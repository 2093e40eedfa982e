// SPDX-License-Identifier: MIT OR Apache-2.0
// Opening and closing: file, decoder, and the checks of the whole that need no operator knowledge
// (opsets named, outputs there). Running a model is onnx_session.c's.
#include "onnx_model.h"

#include <string.h>

enum { NEWEST_IR = 14, MAX_FUNCTIONS = 4096, BUDGET_FACTOR = 64, BUDGET_BASE = 1 << 20 };

struct kiln_onnx_tensor_file {
    kiln_onnx_model model; ///< only its file and arena are used
};

static void init_model(kiln_onnx_model *model, const kiln_env *env, kilni_onnx_mapping file)
{
    model->env = *env;
    model->file = file;
    size_t room = (SIZE_MAX - BUDGET_BASE) / BUDGET_FACTOR;
    model->budget_bytes = BUDGET_BASE + BUDGET_FACTOR * (file.bytes > room ? room : file.bytes);
    kiln_arena_init(&model->arena, &model->env);
}

static void fini_model(kiln_onnx_model *model)
{
    for (uint32_t i = 0; i < model->n_externals; i++) {
        kilni_onnx_unmap(&model->externals[i].mapping);
    }
    kilni_onnx_unmap(&model->file);
    kiln_arena_fini(&model->arena);
}

static bool has_initializer(const kilni_onnx_graph *graph, const char *name)
{
    for (uint32_t i = 0; i < graph->n_initializers; i++) {
        if (strcmp(graph->initializers[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/// Files before IR version 4 list their initialisers among the inputs.
static kiln_status list_true_inputs(kiln_onnx_model *model, kiln_error *err)
{
    const kilni_onnx_graph *graph = &model->graph;
    if (graph->n_inputs > 0 && graph->n_initializers > 100000 / graph->n_inputs * 1000) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "%u inputs and %u initialisers are too many",
                         graph->n_inputs, graph->n_initializers);
    }
    void *memory = NULL;
    kiln_status status =
        kilni_onnx_alloc(model, graph->n_inputs * sizeof(*graph->inputs), &memory, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_onnx_value_info *inputs = memory;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        if (!has_initializer(graph, graph->inputs[i].name)) {
            inputs[model->n_inputs++] = graph->inputs[i];
        }
    }
    model->inputs = inputs;
    return KILN_STATUS_OK;
}

static kiln_status check_model(kiln_onnx_model *model, kiln_error *err)
{
    const kilni_onnx_graph *graph = &model->graph;
    if (model->file.bytes == 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "the file is empty");
    }
    if (model->ir_version < 1 || model->n_opsets == 0 || graph->n_outputs == 0) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "not an ONNX model: IR version %lld, %u operator sets, %u outputs",
                         (long long)model->ir_version, model->n_opsets, graph->n_outputs);
    }
    if (model->ir_version > NEWEST_IR) {
        // What is new in it has a type or an attribute's kind that is refused where it is used.
        kiln_log_write(&model->env, KILN_LOG_WARN, "onnx",
                       "IR version %lld is newer than %d, which Kiln knows",
                       (long long)model->ir_version, NEWEST_IR);
    }
    if (model->n_functions > MAX_FUNCTIONS) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "model has %u functions, more than %d",
                         model->n_functions, MAX_FUNCTIONS);
    }
    if (model->n_training > 0) {
        kiln_log_write(&model->env, KILN_LOG_INFO, "onnx",
                       "the file says how to train the model: ignored, the model is only run");
    }
    return list_true_inputs(model, err);
}

static kiln_status decode_new(const kiln_env *env, kilni_onnx_mapping file, const char *folder,
                              kiln_onnx_model **out_model, kiln_error *err)
{
    kiln_onnx_model *model = kiln_alloc(env, sizeof(*model));
    if (model == NULL) {
        kilni_onnx_unmap(&file);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a model");
    }
    init_model(model, env, file);
    kiln_status status = KILN_STATUS_OK;
    if (folder != NULL) {
        model->folder = kiln_arena_copy(&model->arena, folder, strlen(folder) + 1);
        if (model->folder == NULL) {
            status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a path");
        }
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_onnx_decode_model(model, err);
    }
    if (status == KILN_STATUS_OK) {
        status = check_model(model, err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_onnx_model_close(model);
        return status;
    }
    *out_model = model;
    return KILN_STATUS_OK;
}

kiln_status kiln_onnx_model_open(const kiln_env *env, const char *path, kiln_onnx_model **out_model,
                                 kiln_error *err)
{
    if (out_model == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_model must not be NULL");
    }
    *out_model = NULL;
    if (env == NULL || path == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "env and path must not be NULL");
    }
    kilni_onnx_mapping file;
    kiln_status status = kilni_onnx_map(env, path, &file, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const char *slash = strrchr(path, '/');
    char *folder = kiln_strdup(env, slash == NULL ? "." : path);
    if (folder == NULL) {
        kilni_onnx_unmap(&file);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a path");
    }
    if (slash != NULL) {
        folder[slash == path ? 1 : slash - path] = '\0';
    }
    status = decode_new(env, file, folder, out_model, err);
    kiln_free(env, folder);
    return status == KILN_STATUS_OK ? status : kiln_error_context(err, "%s", path);
}

kiln_status kiln_onnx_model_open_memory(const kiln_env *env, const void *bytes, size_t length,
                                        const char *folder, kiln_onnx_model **out_model,
                                        kiln_error *err)
{
    if (out_model == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_model must not be NULL");
    }
    *out_model = NULL;
    if (env == NULL || bytes == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "env and bytes must not be NULL");
    }
    kilni_onnx_mapping file = {.data = bytes, .bytes = length};
    return decode_new(env, file, folder, out_model, err);
}

void kiln_onnx_model_close(kiln_onnx_model *model)
{
    if (model != NULL) {
        kiln_env env = model->env;
        fini_model(model);
        kiln_free(&env, model);
    }
}

const kiln_onnx_value_info *kiln_onnx_model_inputs(const kiln_onnx_model *model, size_t *out_count)
{
    if (out_count != NULL) {
        *out_count = model != NULL ? model->n_inputs : 0;
    }
    return model != NULL ? model->inputs : NULL;
}

const kiln_onnx_value_info *kiln_onnx_model_outputs(const kiln_onnx_model *model, size_t *out_count)
{
    if (out_count != NULL) {
        *out_count = model != NULL ? model->graph.n_outputs : 0;
    }
    return model != NULL ? model->graph.outputs : NULL;
}

int64_t kiln_onnx_model_opset(const kiln_onnx_model *model, const char *domain)
{
    if (model == NULL || domain == NULL) {
        return 0;
    }
    for (uint32_t i = 0; i < model->n_opsets; i++) {
        if (strcmp(model->opsets[i].domain, domain) == 0) {
            return model->opsets[i].version;
        }
    }
    return 0;
}

static kiln_status open_tensor_file(const kiln_env *env, const char *path,
                                    kiln_onnx_tensor_file **out_file, kiln_error *err)
{
    kilni_onnx_mapping mapping;
    kiln_status status = kilni_onnx_map(env, path, &mapping, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_onnx_tensor_file *file = kiln_alloc(env, sizeof(*file));
    if (file == NULL) {
        kilni_onnx_unmap(&mapping);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a tensor file");
    }
    init_model(&file->model, env, mapping);
    *out_file = file;
    return KILN_STATUS_OK;
}

static kiln_onnx_tensor_info info_of(const kilni_onnx_tensor *tensor)
{
    const char *type_name = kilni_onnx_type_name(tensor->onnx_type);
    kiln_onnx_tensor_info info = {.name = tensor->name,
                                  .dtype = tensor->dtype,
                                  .type_name = type_name == NULL ? "unknown" : type_name,
                                  .rank = tensor->rank,
                                  .data = tensor->data,
                                  .bytes = tensor->bytes};
    if (tensor->texts != NULL) {
        info.data = tensor->texts;
        info.bytes = (size_t)tensor->count * sizeof(*tensor->texts);
    }
    memcpy(info.dims, tensor->dims, sizeof(tensor->dims));
    return info;
}

static kiln_status decode_value(kiln_onnx_model *model, kiln_onnx_kind kind,
                                kiln_onnx_kind *out_kind, const kiln_onnx_tensor_info **out_items,
                                size_t *out_count, kiln_error *err)
{
    kilni_onnx_tensor one;
    const kilni_onnx_tensor *tensors = &one;
    uint32_t count = 1;
    void *memory = NULL;
    *out_kind = KILN_ONNX_KIND_TENSOR;
    kiln_status status =
        kind == KILN_ONNX_KIND_TENSOR
            ? kilni_onnx_decode_tensor_file(model, &one, err)
            : kilni_onnx_decode_value_file(model, kind, out_kind, &tensors, &count, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_onnx_alloc(model, count * sizeof(kiln_onnx_tensor_info), &memory, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_onnx_tensor_info *items = memory;
    for (uint32_t i = 0; i < count; i++) {
        items[i] = info_of(&tensors[i]);
    }
    *out_items = items;
    *out_count = count;
    return KILN_STATUS_OK;
}

kiln_status kiln_onnx_value_open(const kiln_env *env, const char *path, kiln_onnx_kind kind,
                                 kiln_onnx_tensor_file **out_file, kiln_onnx_kind *out_kind,
                                 const kiln_onnx_tensor_info **out_items, size_t *out_count,
                                 kiln_error *err)
{
    if (out_file == NULL || out_kind == NULL || out_items == NULL || out_count == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "no result may be NULL");
    }
    *out_file = NULL;
    if (env == NULL || path == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "env and path must not be NULL");
    }
    if (kind != KILN_ONNX_KIND_TENSOR && kind != KILN_ONNX_KIND_SEQUENCE &&
        kind != KILN_ONNX_KIND_OPTIONAL) {
        return kiln_fail(err, UNIMPLEMENTED, "%s: only tensors, sequences and optionals are read",
                         path);
    }
    kiln_onnx_tensor_file *file = NULL;
    kiln_status status = open_tensor_file(env, path, &file, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = decode_value(&file->model, kind, out_kind, out_items, out_count, err);
    if (status != KILN_STATUS_OK) {
        kiln_onnx_tensor_close(file);
        return kiln_error_context(err, "%s", path);
    }
    *out_file = file;
    return KILN_STATUS_OK;
}

void kiln_onnx_tensor_close(kiln_onnx_tensor_file *file)
{
    if (file != NULL) {
        kiln_env env = file->model.env;
        fini_model(&file->model);
        kiln_free(&env, file);
    }
}
