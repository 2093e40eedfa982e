// SPDX-License-Identifier: MIT OR Apache-2.0
// One test case of ONNX: opens the model, loads each data set, runs it and has the outputs
// compared. Decides what is not run at all: types that Kiln has not.
#include "check_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_IO = 64, PATH_ROOM = 4096 };

typedef struct check_run {
    kiln_context *context;
    kiln_device *device;
    const kiln_onnx_model *model;
    kiln_onnx_session *session;
    uint32_t again; ///< 0 in the first run
    const check_how *how;
    check_counts *counts;
} check_run;

/// One data set of a case: what goes in, what comes out.
typedef struct check_set {
    kiln_onnx_tensor_file *files[MAX_IO];
    kiln_onnx_input inputs[MAX_IO];
    kiln_onnx_value values[MAX_IO];
    void *repeated[MAX_IO];
    kiln_onnx_texts texts[MAX_IO];
    kiln_onnx_value outputs[MAX_IO];
    size_t n_inputs;
} check_set;

// ---- what is run ----

static kiln_status check_kind(const kiln_onnx_value_info *info, kiln_error *err)
{
    static const char *const kinds[] = {"unknown", "tensor",   "sequence",
                                        "map",     "optional", "sparse tensor"};
    if (info->kind != KILN_ONNX_KIND_TENSOR && info->kind != KILN_ONNX_KIND_SEQUENCE &&
        info->kind != KILN_ONNX_KIND_OPTIONAL) {
        return kiln_fail(err, UNIMPLEMENTED, "values of kind %s are not supported",
                         kinds[info->kind]);
    }
    if (info->dtype == KILN_DTYPE_NONE && strcmp(info->type_name, "string") != 0) {
        return kiln_fail(err, UNIMPLEMENTED, "element type %s is not supported", info->type_name);
    }
    return KILN_STATUS_OK;
}

static kiln_status check_kinds(const kiln_onnx_value_info *infos, size_t count, kiln_error *err)
{
    kiln_status status =
        count > MAX_IO ? kiln_fail(err, UNIMPLEMENTED, "more than %d inputs or outputs", MAX_IO)
                       : KILN_STATUS_OK;
    for (size_t i = 0; status == KILN_STATUS_OK && i < count; i++) {
        status = check_kind(&infos[i], err);
    }
    return status;
}

static kiln_status check_io(const kiln_onnx_model *model, kiln_error *err)
{
    size_t count = 0;
    const kiln_onnx_value_info *infos = kiln_onnx_model_inputs(model, &count);
    kiln_status status = check_kinds(infos, count, err);
    if (status == KILN_STATUS_OK) {
        infos = kiln_onnx_model_outputs(model, &count);
        status = check_kinds(infos, count, err);
    }
    return status;
}

// ---- inputs ----

/// NumPy has no bfloat16: the cases' files hold its bits as uint16. The type's example of CastLike,
/// of which the model says another shape, is repeated to that shape.
static kiln_status fit_to_model(const check_run *run, const kiln_onnx_value_info *info,
                                kiln_onnx_tensor_info *tensor, void **out_repeated, kiln_error *err)
{
    if (info->dtype == KILN_DTYPE_BF16 && tensor->dtype == KILN_DTYPE_U16) {
        tensor->dtype = KILN_DTYPE_BF16;
    }
    size_t size = kiln_dtype_size(tensor->dtype);
    size_t bytes = size;
    bool other = info->has_shape && info->rank != tensor->rank;
    for (uint32_t i = 0; i < info->rank; i++) {
        other = other && info->dims[i].length > 0 && info->dims[i].length < 4096;
        bytes *= other ? (size_t)info->dims[i].length : 1;
    }
    if (!other || tensor->bytes != size || bytes > 65536) {
        return KILN_STATUS_OK;
    }
    char *copies = kiln_alloc(kiln_context_env(run->context), bytes);
    if (copies == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", bytes);
    }
    for (size_t i = 0; i < bytes; i += size) {
        memcpy(copies + i, tensor->data, size);
    }
    tensor->rank = info->rank;
    for (uint32_t i = 0; i < info->rank; i++) {
        tensor->dims[i] = info->dims[i].length;
    }
    tensor->data = copies;
    tensor->bytes = bytes;
    *out_repeated = copies;
    return KILN_STATUS_OK;
}

static kiln_status upload(check_run *run, const kiln_onnx_tensor_info *tensor,
                          kiln_onnx_value *out_value, kiln_error *err)
{
    out_value->kind = KILN_ONNX_KIND_TENSOR;
    out_value->host = run->again > 0 ? NULL : tensor->data;
    kiln_status status = kiln_tensor_create(run->device, tensor->dtype, tensor->rank, tensor->dims,
                                            tensor->data, &out_value->tensor, err);
    if (status == KILN_STATUS_UNIMPLEMENTED) {
        return kiln_fail(err, UNIMPLEMENTED, "element type %s is not supported by the device",
                         tensor->type_name);
    }
    return status;
}

static kiln_status upload_all(check_run *run, const kiln_onnx_tensor_info *items, size_t count,
                              kiln_onnx_value *out_value, kiln_error *err)
{
    out_value->items =
        kiln_alloc_array(kiln_context_env(run->context), count + 1, sizeof(*out_value->items));
    if (out_value->items == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu items", count);
    }
    kiln_status status = KILN_STATUS_OK;
    for (; status == KILN_STATUS_OK && out_value->n_items < count; out_value->n_items++) {
        status =
            upload(run, &items[out_value->n_items], &out_value->items[out_value->n_items], err);
    }
    return status;
}

static kiln_onnx_texts texts_of(const kiln_onnx_tensor_info *tensor)
{
    kiln_onnx_texts texts = {
        .struct_size = (uint32_t)sizeof(texts), .rank = tensor->rank, .texts = tensor->data};
    memcpy(texts.dims, tensor->dims, sizeof(texts.dims));
    return texts;
}

static kiln_status load_input(check_run *run, check_set *set, const char *folder,
                              const kiln_onnx_value_info *info, kiln_error *err)
{
    char path[PATH_ROOM];
    size_t i = set->n_inputs;
    kiln_onnx_value *value = &set->values[i];
    const kiln_onnx_tensor_info *items = NULL;
    size_t count = 0;
    snprintf(path, sizeof(path), "%s/input_%zu.pb", folder, i);
    kiln_status status = kiln_onnx_value_open(kiln_context_env(run->context), path, info->kind,
                                              &set->files[i], &value->kind, &items, &count, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (value->kind == KILN_ONNX_KIND_TENSOR && strcmp(items[0].type_name, "string") == 0) {
        set->texts[i] = texts_of(&items[0]);
        *value = (kiln_onnx_value){.kind = KILN_ONNX_KIND_TEXTS, .host = &set->texts[i]};
    } else if (value->kind == KILN_ONNX_KIND_TENSOR) {
        kiln_onnx_tensor_info tensor = items[0];
        status = fit_to_model(run, info, &tensor, &set->repeated[i], err);
        if (status == KILN_STATUS_OK) {
            status = upload(run, &tensor, value, err);
        }
    } else if (value->kind == KILN_ONNX_KIND_SEQUENCE) {
        status = upload_all(run, items, count, value, err);
    }
    set->inputs[i] = (kiln_onnx_input){.name = info->name, .value = value};
    set->n_inputs++;
    return status;
}

static void free_set(check_run *run, check_set *set)
{
    const kiln_env *env = kiln_context_env(run->context);
    for (size_t i = 0; i < MAX_IO; i++) {
        if (set->values[i].kind == KILN_ONNX_KIND_TEXTS) { // strings of the file
            set->values[i].kind = KILN_ONNX_KIND_NONE;
        }
    }
    kiln_onnx_values_free(env, set->values, MAX_IO);
    kiln_onnx_values_free(env, set->outputs, MAX_IO);
    for (size_t i = 0; i < MAX_IO; i++) {
        kiln_onnx_tensor_close(set->files[i]);
        kiln_free(env, set->repeated[i]);
    }
}

// ---- outputs ----

static kiln_status compare_value(check_run *run, const kiln_onnx_value_info *info,
                                 const kiln_onnx_value *actual, kiln_onnx_kind kind,
                                 const kiln_onnx_tensor_info *items, size_t count, kiln_error *err)
{
    bool is_sequence = kind == KILN_ONNX_KIND_SEQUENCE;
    if (kind == KILN_ONNX_KIND_TENSOR && actual->kind == KILN_ONNX_KIND_TEXTS) {
        return check_compare_texts(&items[0], actual, err);
    }
    if (actual->kind != kind || (is_sequence && actual->n_items != count)) {
        static const char *const names[] = {"nothing",     "a tensor",        "a sequence", "a map",
                                            "an optional", "a sparse tensor", "strings"};
        return kiln_fail(err, INTERNAL, "output '%s' is %s of %zu items, expected is %s of %zu",
                         info->name, names[actual->kind], actual->n_items, names[kind], count);
    }
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; status == KILN_STATUS_OK && i < count; i++) {
        if (is_sequence && actual->items[i].kind == KILN_ONNX_KIND_TEXTS) {
            status = check_compare_texts(&items[i], &actual->items[i], err);
            continue;
        }
        kiln_tensor *tensor = is_sequence ? actual->items[i].tensor : actual->tensor;
        status = check_compare(info, &items[i], tensor, run->how, err);
    }
    return status;
}

static kiln_status compare_output(check_run *run, const kiln_onnx_value_info *info,
                                  const kiln_onnx_value *actual, const char *path, kiln_error *err)
{
    kiln_onnx_tensor_file *file = NULL;
    kiln_onnx_kind kind = KILN_ONNX_KIND_NONE;
    const kiln_onnx_tensor_info *items = NULL;
    size_t count = 0;
    kiln_status status = kiln_onnx_value_open(kiln_context_env(run->context), path, info->kind,
                                              &file, &kind, &items, &count, err);
    if (status == KILN_STATUS_OK) {
        status = compare_value(run, info, actual, kind, items, count, err);
    }
    kiln_onnx_tensor_close(file);
    return status == KILN_STATUS_OK || status == KILN_STATUS_UNIMPLEMENTED
               ? status
               : kiln_error_context(err, "output '%s'", info->name);
}

// ---- runs ----

static void hear_node(const kiln_onnx_node_info *info, void *user)
{
    check_counts *counts = user;
    if (info->where != KILN_ONNX_ON_HOST) {
        return;
    }
    counts->host_nodes++;
    for (size_t i = 0; i < counts->n_host_ops; i++) {
        if (strcmp(counts->host_ops[i], info->op_type) == 0) {
            return;
        }
    }
    if (counts->n_host_ops < CHECK_MAX_HOST) {
        snprintf(counts->host_ops[counts->n_host_ops++], CHECK_NAME_ROOM, "%s", info->op_type);
    }
}

static uint64_t launched(check_run *run)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(run->device, &stats);
    return stats.backend.kernels_launched + stats.backend.blas_calls;
}

static kiln_status run_set(check_run *run, const char *folder, kiln_error *err)
{
    check_set set = {.n_inputs = 0};
    size_t n_inputs = 0;
    size_t n_outputs = 0;
    const kiln_onnx_value_info *wanted = kiln_onnx_model_inputs(run->model, &n_inputs);
    const kiln_onnx_value_info *given = kiln_onnx_model_outputs(run->model, &n_outputs);
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; status == KILN_STATUS_OK && i < n_inputs; i++) {
        status = load_input(run, &set, folder, &wanted[i], err);
    }
    uint64_t before = launched(run);
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_session_run_values(run->session, set.inputs, set.n_inputs, set.outputs,
                                              n_outputs, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_sync(run->device, err);
    }
    run->counts->kernels += launched(run) - before;
    for (size_t i = 0; status == KILN_STATUS_OK && i < n_outputs; i++) {
        char path[PATH_ROOM];
        snprintf(path, sizeof(path), "%s/output_%zu.pb", folder, i);
        status = compare_output(run, &given[i], &set.outputs[i], path, err);
    }
    free_set(run, &set);
    return status;
}

static kiln_status run_sets(check_run *run, const char *folder, kiln_error *err)
{
    for (size_t i = 0;; i++) {
        char path[PATH_ROOM];
        snprintf(path, sizeof(path), "%s/test_data_set_%zu", folder, i);
        if (access(path, F_OK) != 0) {
            return i > 0 ? KILN_STATUS_OK : kiln_fail(err, NOT_FOUND, "no folder test_data_set_0");
        }
        kiln_status status = run_set(run, path, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
}

/// The first runs of a session read what they need, meet a segment, capture it and replay it.
static kiln_status run_again(check_run *run, const char *folder, uint32_t times, kiln_error *err)
{
    check_counts ignored = {.kernels = 0};
    kiln_status status = KILN_STATUS_OK;
    run->counts = &ignored;
    kiln_onnx_session_trace(run->session, NULL, NULL);
    for (run->again = 1; status == KILN_STATUS_OK && run->again <= times; run->again++) {
        status = run_sets(run, folder, err);
        if (status != KILN_STATUS_OK) {
            kiln_error_context(err, "run %u", run->again + 1);
        }
    }
    return status;
}

kiln_status check_case_run(kiln_context *context, kiln_device *device, const char *folder,
                           check_how how, check_counts *out_counts, kiln_error *err)
{
    char path[PATH_ROOM];
    kiln_onnx_model *model = NULL;
    check_run run = {.context = context, .device = device, .how = &how, .counts = out_counts};
    *out_counts = (check_counts){.kernels = 0};
    snprintf(path, sizeof(path), "%s/model.onnx", folder);
    kiln_status status = kiln_onnx_model_open(kiln_context_env(context), path, &model, err);
    if (status == KILN_STATUS_OK) {
        status = check_io(model, err);
    }
    if (status == KILN_STATUS_OK) {
        run.model = model;
        status = kiln_onnx_session_create(model, device, &run.session, err);
    }
    if (status == KILN_STATUS_OK) {
        kiln_onnx_session_trace(run.session, hear_node, out_counts);
        status = run_sets(&run, folder, err);
    }
    if (status == KILN_STATUS_OK && how.again > 0) {
        status = run_again(&run, folder, how.again, err);
    }
    kiln_onnx_session_destroy(run.session);
    kiln_onnx_model_close(model);
    return status;
}
