// SPDX-License-Identifier: MIT OR Apache-2.0
// Sets of named parameters. Decides what a name stands for: the id by which gradients of other
// devices are its own. First values are param_init.c's, files params_file.c's.
#include "train_internal.h"

#include <string.h>

kiln_status kiln_params_create(kiln_device *device, uint64_t seed, kiln_params **out_params,
                               kiln_error *err)
{
    if (out_params == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_params must not be NULL");
    }
    *out_params = NULL;
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    const kiln_env *env = kiln_context_env(kiln_device_context(device));
    kiln_params *params = kiln_alloc(env, sizeof(*params));
    if (params == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a set of parameters");
    }
    params->env = env;
    params->device = kiln_device_retain(device);
    params->seed = seed;
    *out_params = params;
    return KILN_STATUS_OK;
}

void kiln_params_destroy(kiln_params *params)
{
    if (params == NULL) {
        return;
    }
    kiln_device *device = params->device; // the environment lives as long as it is open
    for (size_t i = 0; i < params->count; i++) {
        kiln_release(params->all[i].value);
        kiln_free(params->env, params->all[i].name);
    }
    kiln_free(params->env, params->all);
    kiln_free(params->env, params);
    kiln_device_release(device);
}

// ---- adding ----

static kiln_status check_name(const kiln_params *params, const char *name, kiln_error *err)
{
    if (params == NULL || name == NULL || name[0] == '\0') {
        return kiln_fail(err, INVALID_ARGUMENT, "a parameter needs a set and a name");
    }
    if (kiln_params_find(params, name) < params->count) {
        return kiln_fail(err, ALREADY_EXISTS, "a parameter is named %.64s already", name);
    }
    return KILN_STATUS_OK;
}

/// 0 is no parameter.
static kiln_param_id id_of(const char *name)
{
    uint64_t id = kiln_hash64(name, strlen(name), 0);
    return id != 0 ? id : 1;
}

kiln_status kiln_params_add_tensor(kiln_params *params, const char *name, kiln_tensor *tensor,
                                   kiln_error *err)
{
    kiln_status status = check_name(params, name, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "parameter %.64s has no tensor", name);
    }
    size_t bytes = params->count * sizeof(*params->all);
    kilni_parameter *all =
        kiln_realloc(params->env, params->all, bytes, bytes + sizeof(*params->all));
    params->all = all != NULL ? all : params->all;
    char *own_name = all != NULL ? kiln_strdup(params->env, name) : NULL;
    if (own_name == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for parameter %.64s", name);
    }
    all[params->count] = (kilni_parameter){.name = own_name, .id = id_of(name)};
    kilni_params_replace(params, params->count++, kiln_retain(tensor));
    return KILN_STATUS_OK;
}

static kiln_status describe(const char *name, kiln_dtype dtype, size_t rank, const int64_t *dims,
                            kiln_tensor_desc *out_desc, kiln_error *err)
{
    int64_t bytes = (int64_t)kiln_dtype_size(dtype);
    *out_desc = (kiln_tensor_desc){.dtype = dtype, .rank = (uint8_t)rank};
    if (rank > KILN_MAX_RANK || (dims == NULL && rank > 0)) {
        return kiln_fail(err, INVALID_ARGUMENT, "parameter %.64s of rank %zu, the limit is %d",
                         name, rank, KILN_MAX_RANK);
    }
    for (size_t i = 0; i < rank; i++) {
        out_desc->dims[i] = dims[i];
        if (dims[i] < 0 || __builtin_mul_overflow(bytes, dims[i], &bytes)) {
            return kiln_fail(err, INVALID_ARGUMENT, "parameter %.64s: length %zu of it is %lld",
                             name, i, (long long)dims[i]);
        }
    }
    if (kiln_dtype_kind_of(dtype) != KILN_KIND_FLOAT) {
        const char *known = kiln_dtype_name(dtype);
        return kiln_fail(err, UNIMPLEMENTED, "parameter %.64s is %s; initial values are floats",
                         name, known != NULL ? known : "of no dtype");
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_params_add(kiln_params *params, const char *name, kiln_dtype dtype, size_t rank,
                            const int64_t *dims, const kiln_init_options *options, kiln_error *err)
{
    kiln_tensor_desc desc;
    kiln_tensor *tensor = NULL;
    void *data = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, check_name(params, name, err));
    KILN_TRY(out, status, describe(name, dtype, rank, dims, &desc, err));
    if (options != NULL && options->struct_size < sizeof(*options)) {
        status =
            kiln_fail(err, INVALID_ARGUMENT, "options of parameter %.64s without their size", name);
        goto out;
    }
    if (options != NULL) {
        data = kiln_alloc(params->env, (size_t)kiln_desc_bytes(&desc) + 1);
        if (data == NULL) {
            status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for parameter %.64s", name);
            goto out;
        }
        KILN_TRY(out, status,
                 kilni_init_fill(params->env, params->seed, name, options, &desc, data, err));
    }
    KILN_TRY(out, status,
             kiln_tensor_create(params->device, dtype, rank, dims, data, &tensor, err));
    KILN_TRY(out, status, kiln_params_add_tensor(params, name, tensor, err));
out:
    kiln_release(tensor);
    if (data != NULL) {
        kiln_free(params->env, data);
    }
    return status;
}

// ---- looking ----

size_t kiln_params_count(const kiln_params *params)
{
    if (params == NULL) {
        return 0;
    }
    return params->count;
}

const char *kiln_params_name(const kiln_params *params, size_t index)
{
    if (params == NULL) {
        return NULL;
    }
    return index < params->count ? params->all[index].name : NULL;
}

size_t kiln_params_find(const kiln_params *params, const char *name)
{
    size_t i = 0;
    size_t count = kiln_params_count(params);
    while (i < count && (name == NULL || strcmp(params->all[i].name, name) != 0)) {
        i++;
    }
    return i;
}

kiln_tensor *kiln_params_tensor(const kiln_params *params, size_t index)
{
    if (params == NULL || index >= params->count ||
        (params->bring != NULL && !params->bring(params->bringer, index))) {
        return NULL;
    }
    return params->all[index].value;
}

size_t kiln_params_bytes(const kiln_params *params)
{
    if (params == NULL) {
        return 0;
    }
    size_t bytes = 0;
    for (size_t i = 0; i < params->count; i++) {
        bytes += kiln_tensor_bytes(params->all[i].value);
    }
    return bytes;
}

// ---- replacing ----

void kilni_params_replace(kiln_params *params, size_t index, kiln_tensor *take_value)
{
    kilni_parameter *parameter = &params->all[index];
    kiln_tensor *old = parameter->value;
    kiln_tensor_set_param(take_value, parameter->id);
    parameter->value = take_value;
    kiln_release(old);
}

kiln_status kiln_params_set(kiln_params *params, size_t index, kiln_tensor *tensor, kiln_error *err)
{
    if (params == NULL || tensor == NULL || index >= params->count) {
        return kiln_fail(err, INVALID_ARGUMENT, "a value needs a tensor and a parameter");
    }
    const kiln_tensor *old = kiln_params_tensor(params, index); // else a late one came after it
    bool same = kiln_tensor_dtype(old) == kiln_tensor_dtype(tensor) &&
                kiln_tensor_rank(old) == kiln_tensor_rank(tensor);
    for (size_t i = 0; same && i < kiln_tensor_rank(old); i++) {
        same = kiln_tensor_dims(old)[i] == kiln_tensor_dims(tensor)[i];
    }
    if (!same) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "parameter %.64s: the new value has another shape or dtype",
                         params->all[index].name);
    }
    kilni_params_replace(params, index, kiln_retain(tensor));
    return KILN_STATUS_OK;
}
