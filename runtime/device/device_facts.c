// SPDX-License-Identifier: MIT OR Apache-2.0
// What can be asked of a device without touching its work: its name, what it does with a dtype and
// makes where none is named, how many there are of a type.

#include "rt_context.h"
#include "rt_device.h"

#include <stdio.h>

void kilni_device_set_names(kiln_device *device)
{
    const char *scheme = device->backend->scheme;
    snprintf(device->plain_name, sizeof(device->plain_name), "%.40s", scheme);
    snprintf(device->fused_name, sizeof(device->fused_name), "fusion<%.40s>", scheme);
}

const char *kiln_device_name(kiln_device *device)
{
    if (device == NULL) {
        return NULL;
    }
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    const char *name = device->engines.fusion ? device->fused_name : device->plain_name;
    pthread_mutex_unlock(&device->lock);
    return name;
}

uint32_t kiln_device_dtype_usage(kiln_device *device, kiln_dtype dtype)
{
    if (device == NULL) {
        return 0;
    }
    device = kilni_core(device);
    bool small = kiln_dtype_kind_of(dtype) == KILN_KIND_SMALL; // stored as u8
    pthread_mutex_lock(&device->lock);
    uint32_t usage =
        device->backend->device->dtype_usage(device->backend, small ? KILN_DTYPE_U8 : dtype);
    pthread_mutex_unlock(&device->lock);
    return small ? usage & KILN_USAGE_STORAGE : usage;
}

bool kiln_device_supports_dtype(kiln_device *device, kiln_dtype dtype)
{
    uint32_t both = KILN_USAGE_STORAGE | KILN_USAGE_ARITHMETIC;
    return (kiln_device_dtype_usage(device, dtype) & both) == both;
}

kiln_dtype kiln_device_default_dtype(const kiln_device *device, kiln_dtype_kind kind)
{
    switch (kind) {
    case KILN_KIND_FLOAT:
        return device->float_dtype;
    case KILN_KIND_INT:
    case KILN_KIND_UINT:
        return device->int_dtype;
    case KILN_KIND_BOOL:
        return KILN_DTYPE_BOOL;
    default:
        return KILN_DTYPE_NONE;
    }
}

bool kiln_device_records_gradients(const kiln_device *device)
{
    (void)device;
    return false;
}

kiln_status kiln_device_count(kiln_context *context, kiln_device_type type, size_t *out_count,
                              kiln_error *err)
{
    if (out_count == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_count must not be NULL");
    }
    const kiln_backend_provider *providers[KILNI_PROVIDERS];
    *out_count = 0;
    if (context == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "context must not be NULL");
    }
    size_t n_providers = kilni_context_providers(context, providers);
    for (size_t i = 0; i < n_providers; i++) {
        const kiln_backend_provider *provider = providers[i];
        kiln_device_type found = KILN_DEVICE_HOST;
        kiln_error last = KILN_ERROR_INIT;
        for (size_t k = 0;
             provider->type_of != NULL &&
             provider->type_of(&context->env, k, &found, &last, provider->user) == KILN_STATUS_OK;
             k++) {
            *out_count += found == type ? 1 : 0;
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_device_describe(kiln_context *context, size_t index, char out_address[64],
                                 char out_line[192], kiln_error *err)
{
    if (out_address == NULL || out_line == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_address and out_line must not be NULL");
    }
    if (context == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "context must not be NULL");
    }
    size_t seen = 0;
    const kiln_backend_provider *providers[KILNI_PROVIDERS];
    size_t n_providers = kilni_context_providers(context, providers);
    for (size_t i = 0; i < n_providers; i++) {
        const kiln_backend_provider *provider = providers[i];
        for (size_t k = 0; provider->describe != NULL; k++) {
            kiln_error local = KILN_ERROR_INIT;
            kiln_status status =
                provider->describe(&context->env, k, out_address, out_line, &local, provider->user);
            if (status != KILN_STATUS_OK) {
                break;
            }
            if (seen++ == index) {
                return KILN_STATUS_OK;
            }
        }
    }
    return kiln_fail(err, NOT_FOUND, "there are %zu devices; number %zu does not exist", seen,
                     index);
}
