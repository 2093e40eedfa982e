// SPDX-License-Identifier: MIT OR Apache-2.0
// A model file on a device: opens, captures, runs once. What its inputs are is model_inputs.c's;
// what is counted and told of runs, model_run.c's.

#include "cli_progress.h"
#include "model_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

kiln_status model_run_find_output(const kiln_onnx_model *model, const char *text, size_t place,
                                  size_t *out_index, const char **out_path, kiln_error *err)
{
    size_t count = 0;
    char names[MODEL_NAMES_ROOM];
    const kiln_onnx_value_info *infos = kiln_onnx_model_outputs(model, &count);
    const char *equals = strchr(text, '=');
    for (size_t i = 0; equals != NULL && i < count; i++) {
        size_t length = (size_t)(equals - text);
        if (strlen(infos[i].name) == length && strncmp(infos[i].name, text, length) == 0) {
            *out_index = i;
            *out_path = equals + 1;
            return KILN_STATUS_OK;
        }
    }
    if (equals != NULL) {
        return kiln_fail(err, NOT_FOUND, "the model has no output \"%.*s\"; its outputs are %s",
                         (int)(equals - text < 40 ? equals - text : 40), text,
                         model_names(infos, count, names));
    }
    if (place >= count) {
        return kiln_fail(err, NOT_FOUND,
                         "the model's outputs are %s; --output %.60s is one too many",
                         model_names(infos, count, names), text);
    }
    *out_index = place;
    *out_path = text;
    return KILN_STATUS_OK;
}

/// NumPy has no small floats: bytes are the bits of one where the model takes such.
static kiln_dtype input_dtype(const model_session *self, const char *name, kiln_dtype dtype)
{
    size_t count = 0;
    const kiln_onnx_value_info *infos = kiln_onnx_model_inputs(self->model, &count);
    for (size_t i = 0; dtype == KILN_DTYPE_U8 && i < count; i++) {
        if (strcmp(infos[i].name, name) == 0 &&
            kiln_dtype_kind_of(infos[i].dtype) == KILN_KIND_SMALL) {
            return infos[i].dtype;
        }
    }
    return dtype;
}

static void give_texts(model_session *self, size_t i)
{
    const kiln_npy *array = &self->arrays[i];
    self->texts[i] = (kiln_onnx_texts){.struct_size = (uint32_t)sizeof(self->texts[i]),
                                       .rank = (uint32_t)array->rank,
                                       .texts = array->texts};
    memcpy(self->texts[i].dims, array->dims, array->rank * sizeof(array->dims[0]));
    self->values[i] = (kiln_onnx_value){.kind = KILN_ONNX_KIND_TEXTS, .host = &self->texts[i]};
    self->inputs[i].value = &self->values[i];
    self->on_host = true;
}

static kiln_status upload_inputs(model_session *self, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < self->n_inputs && status == KILN_STATUS_OK; i++) {
        const kiln_npy *array = &self->arrays[i];
        if (array->texts != NULL) {
            give_texts(self, i);
            continue;
        }
        kiln_dtype dtype = input_dtype(self, self->inputs[i].name, array->dtype);
        status = kiln_tensor_create(self->device, dtype, array->rank, array->dims, array->data,
                                    &self->tensors[i], err);
        self->inputs[i].tensor = self->tensors[i];
    }
    return status;
}

/// Leaves `graph` NULL for a model that cannot be captured.
static kiln_status capture(model_session *self, kiln_error *err)
{
    kiln_tensor *outputs[MODEL_RUN_MAX_IO] = {NULL};
    if (self->on_host || self->n_devices > 1) {
        return KILN_STATUS_OK;
    }
    kiln_status status = kiln_graph_begin(self->device, self->tensors, self->n_inputs, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (self->with_nodes) {
        model_nodes_begin(&self->nodes, self->session, self->device);
    }
    status = kiln_onnx_session_run(self->session, self->inputs, self->n_inputs, outputs,
                                   self->n_outputs, err);
    if (self->with_nodes) {
        model_nodes_end(&self->nodes, self->session);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_graph_end(self->device, outputs, self->n_outputs, &self->graph, err);
    } else {
        kiln_graph_cancel(self->device);
        if (status == KILN_STATUS_FAILED_PRECONDITION) {
            status = KILN_STATUS_OK; // it reads values while recording: every run records
        }
    }
    for (size_t i = 0; i < self->n_outputs; i++) {
        kiln_release(outputs[i]);
    }
    return status;
}

/// At most: a step has one kernel, and steps may share it.
static void expect_kernels(const model_session *self)
{
    kiln_graph_info info = KILN_GRAPH_INFO_INIT;
    if (self->graph != NULL) {
        kiln_graph_info_get(self->graph, &info);
    }
    cli_progress_expect((unsigned)info.steps);
}

kiln_status model_session_open(model_session *self, const model_options *options, bool invent,
                               kiln_error *err)
{
    memset(self, 0, sizeof(*self));
    self->with_nodes = options->with_nodes;
    kiln_status status = cli_open_context(&options->device, &self->context, err);
    if (status == KILN_STATUS_OK) {
        status = cli_count_compiling(self->context, err);
    }
    if (status == KILN_STATUS_OK && options->trace != NULL) {
        status = kiln_trace_start(self->context, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_model_open(kiln_context_env(self->context), options->model, &self->model,
                                      err);
    }
    if (status == KILN_STATUS_OK) {
        const kiln_onnx_value_info *infos = kiln_onnx_model_outputs(self->model, &self->n_outputs);
        for (size_t i = 0; i < self->n_outputs; i++) {
            self->on_host = self->on_host || infos[i].kind != KILN_ONNX_KIND_TENSOR ||
                            infos[i].dtype == KILN_DTYPE_NONE;
        }
        if (self->n_outputs > MODEL_RUN_MAX_IO) {
            status = kiln_fail(err, UNIMPLEMENTED, "a model with %zu outputs", self->n_outputs);
        }
    }
    if (status == KILN_STATUS_OK) {
        status = model_inputs_load(self, options, invent || options->random, err);
    }
    if (status == KILN_STATUS_OK) {
        status =
            cli_open_devices(&options->device, self->context, self->devices, &self->n_devices, err);
        self->device = self->devices[0];
    }
    if (status == KILN_STATUS_OK) {
        status = upload_inputs(self, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_session_create_across(self->model, self->devices, self->n_devices,
                                                 &self->session, err);
    }
    if (status == KILN_STATUS_OK) {
        status = capture(self, err);
        expect_kernels(self);
    }
    return status;
}

kiln_status model_session_recapture(model_session *self, kiln_error *err)
{
    kiln_graph_destroy(self->graph);
    self->graph = NULL;
    return capture(self, err);
}

kiln_status model_session_run(model_session *self, kiln_tensor **out_tensors, kiln_error *err)
{
    if (self->graph != NULL) {
        return kiln_graph_run(self->graph, self->tensors, self->n_inputs, out_tensors,
                              self->n_outputs, err);
    }
    return kiln_onnx_session_run(self->session, self->inputs, self->n_inputs, out_tensors,
                                 self->n_outputs, err);
}

kiln_status model_session_run_values(model_session *self, kiln_onnx_value *out_values,
                                     kiln_error *err)
{
    return kiln_onnx_session_run_values(self->session, self->inputs, self->n_inputs, out_values,
                                        self->n_outputs, err);
}

/// What the host gets is computed then.
static kiln_status run_values_once(model_session *self, kiln_error *err)
{
    kiln_onnx_value values[MODEL_RUN_MAX_IO];
    kiln_status status = model_session_run_values(self, values, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_sync(self->device, err);
        kiln_onnx_values_free(kiln_context_env(self->context), values, self->n_outputs);
    }
    return status;
}

kiln_status model_session_run_once(model_session *self, kiln_error *err)
{
    if (self->on_host) {
        return run_values_once(self, err);
    }
    kiln_tensor *outputs[MODEL_RUN_MAX_IO] = {NULL};
    kiln_status status = model_session_run(self, outputs, err);
    for (size_t i = 0; i < self->n_devices && status == KILN_STATUS_OK; i++) {
        status = kiln_sync(self->devices[i], err); // while the results are held, so that they are
    }
    for (size_t i = 0; i < MODEL_RUN_MAX_IO; i++) {
        kiln_release(outputs[i]);
    }
    return status;
}

kiln_status model_session_meet(model_session *self, kiln_error *err)
{
    enum { MEETING_RUNS = 3 };
    kiln_status status = KILN_STATUS_OK;
    for (int i = 0; self->graph == NULL && i < MEETING_RUNS && status == KILN_STATUS_OK; i++) {
        status = model_session_run_once(self, err);
    }
    return status;
}

typedef struct naming {
    model_graph_fn fn;
    void *user;
} naming;

static void name_part(const kiln_onnx_graph_info *info, void *user)
{
    const naming *n = user;
    char name[160];
    snprintf(name, sizeof(name), "%.60s, nodes %u to %u of %u, from %.40s on",
             info->where[0] != '\0' ? info->where : "graph", info->first_node,
             info->first_node + info->n_nodes - 1, info->n_others, info->op_type);
    n->fn(name, info->graph, n->user);
}

void model_session_graphs(const model_session *self, model_graph_fn fn, void *user)
{
    naming n = {fn, user};
    if (self->graph != NULL) {
        fn("", self->graph, user);
    } else {
        kiln_onnx_session_graphs(self->session, name_part, &n);
    }
}

void model_session_close(model_session *self)
{
    model_nodes_free(&self->nodes);
    kiln_graph_destroy(self->graph);
    kiln_onnx_session_destroy(self->session);
    for (size_t i = 0; i < MODEL_RUN_MAX_IO; i++) {
        kiln_release(self->tensors[i]);
        kiln_npy_free(&self->arrays[i]);
    }
    kiln_onnx_model_close(self->model);
    for (size_t i = 0; i < self->n_devices; i++) {
        kiln_device_release(self->devices[i]);
    }
    cli_close_context(self->context);
    memset(self, 0, sizeof(*self));
}
