// SPDX-License-Identifier: MIT OR Apache-2.0
// Parameters in files: which format a name asks for, and that a set gets all of its new values or
// keeps the old ones. How a file looks is safetensors.c's, or NumPy's (base_npy.h).
#include "train_internal.h"

#include <stdio.h>
#include <string.h>

static bool is_npz(const char *path)
{
    size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, ".npz") == 0;
}

// ---- what is saved ----

kiln_status kilni_saving_init(const kiln_env *env, size_t room, kilni_saving *out_saving,
                              kiln_error *err)
{
    *out_saving = (kilni_saving){.env = env, .room = room};
    out_saving->tensors = kiln_alloc_array(env, room + 1, sizeof(*out_saving->tensors));
    out_saving->mappings = kiln_alloc_array(env, room + 1, sizeof(kiln_mapping *));
    out_saving->names = kiln_alloc_array(env, room + 1, sizeof(char *));
    if (out_saving->tensors == NULL || out_saving->mappings == NULL || out_saving->names == NULL) {
        kilni_saving_fini(out_saving);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to save %zu tensors", room);
    }
    return KILN_STATUS_OK;
}

void kilni_saving_fini(kilni_saving *saving)
{
    for (size_t i = 0; i < saving->count; i++) {
        kiln_mapping_release(saving->mappings[i]);
        kiln_free(saving->env, saving->names[i]);
    }
    kiln_free(saving->env, saving->tensors);
    kiln_free(saving->env, (void *)saving->mappings);
    kiln_free(saving->env, (void *)saving->names);
}

kiln_status kilni_saving_add(kilni_saving *saving, const char *prefix, const char *name,
                             kiln_tensor *tensor, kiln_error *err)
{
    size_t i = saving->count;
    kilni_saved *saved = &saving->tensors[i];
    size_t room = strlen(prefix) + strlen(name) + 1;
    char *own_name = kiln_alloc(saving->env, room);
    if (own_name == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to save %.64s", name);
    }
    snprintf(own_name, room, "%s%s", prefix, name);
    saving->names[i] = own_name;
    saving->count++; // what is below is undone with it
    *saved = (kilni_saved){.name = own_name,
                           .dtype = kiln_tensor_dtype(tensor),
                           .rank = kiln_tensor_rank(tensor),
                           .bytes = kiln_tensor_bytes(tensor)};
    for (size_t k = 0; k < saved->rank; k++) {
        saved->dims[k] = kiln_tensor_dims(tensor)[k];
    }
    kiln_status status = kiln_tensor_map(tensor, &saved->data, &saving->mappings[i], err);
    if (status != KILN_STATUS_OK) {
        (void)kiln_error_context(err, "saving %.64s", own_name);
    }
    return status;
}

static kiln_status write_npz(const kilni_saving *saving, const char *path, kiln_error *err)
{
    kiln_npy *arrays = kiln_alloc_array(saving->env, saving->count + 1, sizeof(*arrays));
    if (arrays == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to save %zu tensors", saving->count);
    }
    for (size_t i = 0; i < saving->count; i++) {
        const kilni_saved *saved = &saving->tensors[i];
        arrays[i] = (kiln_npy){.dtype = saved->dtype,
                               .rank = saved->rank,
                               .data = (void *)saved->data, // only read
                               .bytes = saved->bytes};
        memcpy(arrays[i].dims, saved->dims, saved->rank * sizeof(saved->dims[0]));
    }
    kiln_status status =
        kiln_npz_write(path, (const char *const *)saving->names, arrays, saving->count, err);
    kiln_free(saving->env, arrays);
    return status;
}

kiln_status kiln_params_save(const kiln_params *params, const char *path, kiln_error *err)
{
    kilni_saving saving;
    if (params == NULL || path == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "parameters and path must not be NULL");
    }
    kiln_status status = kilni_saving_init(params->env, params->count, &saving, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    for (size_t i = 0; i < params->count; i++) {
        KILN_TRY(
            out, status,
            kilni_saving_add(&saving, "", params->all[i].name, kiln_params_tensor(params, i), err));
    }
    status = is_npz(path) ? write_npz(&saving, path, err)
                          : kilni_safetensors_write(params->env, path, saving.tensors, saving.count,
                                                    NULL, 0, err);
out:
    kilni_saving_fini(&saving);
    return status;
}

// ---- a file of either format ----

typedef struct weights_file {
    const kiln_env *env;
    kilni_safetensors *safe; ///< NULL: a .npz
    kilni_saved *tensors; ///< of a .npz, with names and data of their own
    size_t count;
} weights_file;

static void weights_close(weights_file *file)
{
    kilni_safetensors_close(file->safe);
    for (size_t i = 0; i < file->count && file->tensors != NULL; i++) {
        kiln_npy array = {.data = (void *)file->tensors[i].data};
        kiln_npy_free(&array);
        kiln_free(file->env, (char *)file->tensors[i].name);
    }
    kiln_free(file->env, file->tensors);
}

static kiln_status take_array(weights_file *file, const char *name, const kiln_npy *array,
                              kiln_error *err)
{
    size_t bytes = file->count * sizeof(*file->tensors);
    kilni_saved *tensors =
        kiln_realloc(file->env, file->tensors, bytes, bytes + sizeof(*file->tensors));
    file->tensors = tensors != NULL ? tensors : file->tensors;
    char *own_name = tensors != NULL ? kiln_strdup(file->env, name) : NULL;
    if (own_name == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for array %.64s", name);
    }
    kilni_saved *saved = &tensors[file->count++];
    *saved = (kilni_saved){.name = own_name,
                           .dtype = array->dtype,
                           .rank = array->rank,
                           .data = array->data,
                           .bytes = array->bytes};
    memcpy(saved->dims, array->dims, array->rank * sizeof(array->dims[0]));
    return KILN_STATUS_OK;
}

static kiln_status read_npz(weights_file *file, const char *path, kiln_error *err)
{
    char name[KILN_NPZ_NAME_ROOM];
    kiln_error cause = KILN_ERROR_INIT;
    kiln_npy array = {.dtype = KILN_DTYPE_NONE};
    kiln_status status = KILN_STATUS_OK;
    size_t read = 0;
    while (status == KILN_STATUS_OK &&
           (status = kiln_npz_read(path, read, name, &array, &cause)) == KILN_STATUS_OK) {
        read++;
        bool is_text = array.texts != NULL; // which no parameter is
        status = is_text ? status : take_array(file, name, &array, &cause);
        if (is_text || status != KILN_STATUS_OK) {
            kiln_npy_free(&array);
        }
    }
    if (status == KILN_STATUS_NOT_FOUND && read > 0) { // past the last
        return KILN_STATUS_OK;
    }
    if (err != NULL) {
        *err = cause;
    }
    return status;
}

static kiln_status weights_open(const kiln_env *env, const char *path, weights_file *out_file,
                                kiln_error *err)
{
    *out_file = (weights_file){.env = env};
    kiln_status status = is_npz(path) ? read_npz(out_file, path, err)
                                      : kilni_safetensors_open(env, path, &out_file->safe, err);
    if (status != KILN_STATUS_OK) {
        weights_close(out_file);
    }
    return status;
}

static const kilni_saved *weights_all(const weights_file *file, size_t *out_count)
{
    if (file->safe != NULL) {
        return kilni_safetensors_all(file->safe, out_count);
    }
    *out_count = file->count;
    return file->tensors;
}

static const kilni_saved *weights_find(const weights_file *file, const char *name)
{
    size_t count = 0;
    const kilni_saved *all = weights_all(file, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(all[i].name, name) == 0) {
            return &all[i];
        }
    }
    return NULL;
}

// ---- what is loaded ----

/// Of bytes in a file, through memory of the host for this tensor alone.
static kiln_status tensor_of_file(kiln_device *device, const kilni_saved *saved,
                                  kiln_tensor **out_tensor, kiln_error *err)
{
    const kiln_env *env = kiln_context_env(kiln_device_context(device));
    void *bytes = kiln_alloc(env, saved->bytes + 1);
    if (bytes == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", saved->bytes);
    }
    kiln_status status = kilni_saved_read(saved, bytes, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_tensor_create(device, saved->dtype, saved->rank, saved->dims, bytes,
                                    out_tensor, err);
    }
    kiln_free(env, bytes);
    return status;
}

kiln_status kilni_saved_tensor(kiln_device *device, const kilni_saved *saved,
                               kiln_tensor **out_tensor, kiln_error *err)
{
    kiln_status status = saved->data == NULL
                             ? tensor_of_file(device, saved, out_tensor, err)
                             : kiln_tensor_create(device, saved->dtype, saved->rank, saved->dims,
                                                  saved->data, out_tensor, err);
    if (status != KILN_STATUS_OK) {
        (void)kiln_error_context(err, "tensor %.64s", saved->name);
    }
    return status;
}

kiln_status kilni_saved_like(const kilni_saved *saved, const char *prefix, const char *name,
                             const kiln_tensor *like, kiln_tensor **out_tensor, kiln_error *err)
{
    if (saved == NULL) {
        return kiln_fail(err, NOT_FOUND, "there is no tensor %s%.64s", prefix, name);
    }
    if (saved->dtype != kiln_tensor_dtype(like)) {
        return kiln_fail(err, INVALID_ARGUMENT, "tensor %.64s is %s, the parameter is %s",
                         saved->name, kiln_dtype_name(saved->dtype),
                         kiln_dtype_name(kiln_tensor_dtype(like)));
    }
    bool same = saved->rank == kiln_tensor_rank(like);
    for (size_t i = 0; same && i < saved->rank; i++) {
        same = saved->dims[i] == kiln_tensor_dims(like)[i];
    }
    if (!same) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "tensor %.64s has rank %zu and %zu bytes, another shape than the "
                         "parameter's of rank %zu and %zu bytes",
                         saved->name, saved->rank, saved->bytes, kiln_tensor_rank(like),
                         kiln_tensor_bytes(like));
    }
    return kilni_saved_tensor(kiln_tensor_device(like), saved, out_tensor, err);
}

kiln_status kiln_params_load(kiln_params *params, const char *path, kiln_error *err)
{
    weights_file file;
    if (params == NULL || path == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "parameters and path must not be NULL");
    }
    kiln_status status = weights_open(params->env, path, &file, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_tensor **values = kiln_alloc_array(params->env, params->count + 1, sizeof(kiln_tensor *));
    if (values == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to load %zu tensors", params->count);
        goto out;
    }
    for (size_t i = 0; i < params->count; i++) {
        const char *name = params->all[i].name;
        KILN_TRY(out, status,
                 kilni_saved_like(weights_find(&file, name), "", name,
                                  kiln_params_tensor(params, i), &values[i], err));
    }
    for (size_t i = 0; i < params->count; i++) {
        kilni_params_replace(params, i, values[i]);
        values[i] = NULL;
    }
out:
    for (size_t i = 0; i < params->count && values != NULL; i++) {
        kiln_release(values[i]);
    }
    kiln_free(params->env, (void *)values);
    weights_close(&file);
    if (status != KILN_STATUS_OK) {
        (void)kiln_error_context(err, "%s", path);
    }
    return status;
}

kiln_status kiln_params_add_file(kiln_params *params, const char *path, kiln_error *err)
{
    weights_file file;
    size_t count = 0;
    if (params == NULL || path == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "parameters and path must not be NULL");
    }
    kiln_status status = weights_open(params->env, path, &file, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const kilni_saved *all = weights_all(&file, &count);
    for (size_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        kiln_tensor *tensor = NULL;
        status = kilni_saved_tensor(params->device, &all[i], &tensor, err);
        if (status == KILN_STATUS_OK) {
            status = kiln_params_add_tensor(params, all[i].name, tensor, err);
        }
        kiln_release(tensor);
    }
    weights_close(&file);
    if (status != KILN_STATUS_OK) {
        (void)kiln_error_context(err, "%s", path);
    }
    return status;
}
