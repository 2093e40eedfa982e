// SPDX-License-Identifier: MIT OR Apache-2.0
// Opening devices by address. Decides which provider an address means, and that a device is opened
// once; what it is made of is assemble.c's.

#include "rt_assembly.h"
#include "rt_context.h"
#include "rt_device.h"
#include "rt_local.h"

#include <stdio.h>
#include <string.h>

static const kiln_backend_provider *find_provider(kiln_context *context, const char *address)
{
    for (size_t i = 0; i < context->n_providers; i++) {
        const char *scheme = context->providers[i]->scheme;
        size_t length = strlen(scheme);
        if (strncmp(address, scheme, length) == 0 &&
            (address[length] == ':' || address[length] == '\0')) {
            return context->providers[i];
        }
    }
    return NULL;
}

/// Remote devices are in a library of their own, so that programs without them do not pay for
/// loading gRPC.
static kiln_status load_remote(kiln_context *context, kiln_error *err)
{
    static const char *const symbols[] = {"kiln_rpc_provider", "kiln_rpc_tls_provider",
                                          "kiln_rpc_unix_provider"};
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]) && status == KILN_STATUS_OK; i++) {
        union {
            void *address;
            const kiln_backend_provider *(*get)(void);
        } found;
        status =
            kilni_library_symbol(context, kilni_remote_library(), symbols[i], &found.address, err);
        if (status == KILN_STATUS_OK) {
            status = kiln_context_add_provider(context, found.get(), err);
        }
        // Another thread may have been faster.
        status = status == KILN_STATUS_ALREADY_EXISTS ? KILN_STATUS_OK : status;
    }
    return status;
}

static bool is_remote(const char *address)
{
    static const char *const schemes[] = {"grpc", "grpcs", "unix"};
    size_t length = strcspn(address, ":");
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        if (strlen(schemes[i]) == length && strncmp(address, schemes[i], length) == 0) {
            return true;
        }
    }
    return false;
}

static kiln_device *find_open(kiln_context *context, const char *address)
{
    for (kiln_device *device = context->devices; device != NULL; device = device->next) {
        unsigned refs = atomic_load(&device->refs);
        while (strcmp(device->address, address) == 0 && refs > 0) {
            if (atomic_compare_exchange_weak(&device->refs, &refs, refs + 1)) {
                return device;
            }
        }
    }
    return NULL;
}

/// The address that number 0 of the first kind that lists its devices has. To ask it would load its
/// driver before the opening does, which has better things to do meanwhile.
static bool guess_first(kiln_context *context, char out_address[KILNI_ADDRESS_BYTES])
{
    const kiln_backend_provider *providers[KILNI_PROVIDERS];
    size_t n_providers = kilni_context_providers(context, providers);
    for (size_t i = 0; i < n_providers; i++) {
        if (providers[i]->describe != NULL) {
            snprintf(out_address, KILNI_ADDRESS_BYTES, "%s:0", providers[i]->scheme);
            return true;
        }
    }
    return false;
}

/// Lists a device that was just made. Gives the one that another thread has opened in the meantime,
/// or itself.
static kiln_device *list_add(kiln_context *context, kiln_device *device)
{
    pthread_mutex_lock(&context->lock);
    kiln_device *earlier = find_open(context, device->address);
    if (earlier == NULL) {
        device->next = context->devices;
        context->devices = device;
    }
    pthread_mutex_unlock(&context->lock);
    if (earlier != NULL) {
        kiln_device_release(device);
        return earlier;
    }
    return device;
}

static kiln_status set_defaults(kiln_device *device, const kiln_device_options *options,
                                kiln_error *err)
{
    const kiln_dtype given[] = {options->float_dtype, options->int_dtype};
    const unsigned kinds[] = {KILN_KIND_FLOAT, KILN_KIND_INT | KILN_KIND_UINT};
    for (size_t i = 0; i < 2; i++) {
        if (given[i] == KILN_DTYPE_NONE) {
            continue;
        }
        const char *name = kiln_dtype_name(given[i]);
        if ((kiln_dtype_kind_of(given[i]) & kinds[i]) == 0) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s cannot be the default of %s",
                             name != NULL ? name : "an unknown dtype",
                             i == 0 ? "floats" : "integers");
        }
        if ((device->backend->device->dtype_usage(device->backend, given[i]) &
             KILN_USAGE_STORAGE) == 0) {
            return kiln_fail(err, UNIMPLEMENTED, "%s does not store %s", device->address, name);
        }
        *(i == 0 ? &device->float_dtype : &device->int_dtype) = given[i];
    }
    return KILN_STATUS_OK;
}

/// An open device is nobody's to change: it is what the options say, or is refused.
static kiln_status check_open(kiln_device *device, const kiln_device_options *options,
                              kiln_error *err)
{
    if (options->plan_for != NULL) {
        kiln_status planned = kiln_fail(
            err, ALREADY_EXISTS, "%s is open already: what it plans for stays", device->address);
        kiln_device_release(device);
        return planned;
    }
    bool same =
        (options->float_dtype == KILN_DTYPE_NONE || options->float_dtype == device->float_dtype) &&
        (options->int_dtype == KILN_DTYPE_NONE || options->int_dtype == device->int_dtype);
    if (same) {
        return KILN_STATUS_OK;
    }
    kiln_status status = kiln_fail(
        err, ALREADY_EXISTS, "%s is open already, with %s and %s where no dtype is named",
        device->address, kiln_dtype_name(device->float_dtype), kiln_dtype_name(device->int_dtype));
    kiln_device_release(device);
    return status;
}

kiln_status kiln_device_open(kiln_context *context, const char *address, kiln_device **out_device,
                             kiln_error *err)
{
    return kiln_device_open_with(context, address, NULL, out_device, err);
}

static kiln_status open_at(kiln_context *context, const char *address,
                           const kiln_device_options *wanted, kiln_device **out_device,
                           kiln_error *err)
{
    pthread_mutex_lock(&context->lock);
    const kiln_backend_provider *provider = find_provider(context, address);
    kiln_device *device = find_open(context, address);
    pthread_mutex_unlock(&context->lock);
    if (device != NULL) {
        kiln_status status = check_open(device, wanted, err);
        *out_device = status == KILN_STATUS_OK ? device : NULL;
        return status;
    }
    if (provider == NULL && is_remote(address)) {
        kiln_status loaded = load_remote(context, err);
        if (loaded != KILN_STATUS_OK) {
            return kiln_error_context(err, "opening %s", address);
        }
        pthread_mutex_lock(&context->lock);
        provider = find_provider(context, address);
        pthread_mutex_unlock(&context->lock);
    }
    if (provider == NULL) {
        return kiln_fail(err, NOT_FOUND,
                         "no kind of device answers to \"%s\"; try opencl:0, grpc://HOST:PORT, "
                         "reference or null",
                         address);
    }
    kiln_status status =
        kilni_device_create(context, address, provider, wanted->plan_for, &device, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = set_defaults(device, wanted, err);
    if (status != KILN_STATUS_OK) {
        kilni_device_free(device);
        return status;
    }
    kiln_device *own = device;
    device = list_add(context, own);
    status = device != own ? check_open(device, wanted, err) : KILN_STATUS_OK;
    *out_device = status == KILN_STATUS_OK ? device : NULL;
    return status;
}

static kiln_status open_default(kiln_context *context, const kiln_device_options *wanted,
                                kiln_device **out_device, kiln_error *err)
{
    const char *configured = kiln_config_string(context->env.config, KILN_OPTION_DEVICE);
    char address[KILNI_ADDRESS_BYTES];
    char line[192];
    if (configured != NULL && configured[0] != '\0') {
        snprintf(address, sizeof(address), "%s", configured);
        return open_at(context, address, wanted, out_device, err);
    }
    if (guess_first(context, address)) {
        kiln_status status = open_at(context, address, wanted, out_device, err);
        if (status != KILN_STATUS_NOT_FOUND) {
            return status;
        }
    }
    kiln_status status = kiln_device_describe(context, 0, address, line, err);
    return status == KILN_STATUS_OK ? open_at(context, address, wanted, out_device, err) : status;
}

kiln_status kiln_device_open_with(kiln_context *context, const char *address,
                                  const kiln_device_options *options, kiln_device **out_device,
                                  kiln_error *err)
{
    if (out_device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_device must not be NULL");
    }
    kiln_device_options wanted = KILN_DEVICE_OPTIONS_INIT;
    char chosen[KILNI_ADDRESS_BYTES];
    *out_device = NULL;
    if (context == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "context must not be NULL");
    }
    if (options != NULL) {
        memcpy(&wanted, options,
               options->struct_size < sizeof(wanted) ? options->struct_size : sizeof(wanted));
    }
    if (address == NULL) {
        return open_default(context, &wanted, out_device, err);
    }
    if ((size_t)snprintf(chosen, sizeof(chosen), "%s", address) >= sizeof(chosen)) {
        return kiln_fail(err, INVALID_ARGUMENT, "device address \"%.40s...\" is too long", address);
    }
    return open_at(context, chosen, &wanted, out_device, err);
}
