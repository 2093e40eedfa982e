// SPDX-License-Identifier: MIT OR Apache-2.0
// Opening a remote device: the address and the client's identity, a first session, and what the
// device is called here. One provider for each scheme; the rest of a device's life is
// rpc_client.c's.

#include "remote_grpc.h"
#include "rpc_ask.h"
#include "rpc_client.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void describe_device(kilni_rpc_client *self)
{
    snprintf(self->name, sizeof(self->name), "%s at %.60s", self->welcome.device_name,
             self->address.text);
    self->info = (kiln_device_info){
        .name = self->name,
        .vendor = "remote",
        .platform = self->welcome.server,
        .driver = self->welcome.driver,
        .extensions = "",
        .type = KILN_DEVICE_REMOTE,
        .features = KILN_FEATURE_OWN_VIEWS,
        .compute_units = 1,
        .memory_align = 128,
        .memory_bytes = self->welcome.max_bytes,
        .max_alloc_bytes = self->welcome.max_bytes,
    };
    self->info.fingerprint = kiln_hash_bytes(self->name, strlen(self->name));
}

/// Of servers that have equally much to do, clients begin at different ones.
static uint32_t any_server(const kilni_rpc_client *self)
{
    const uint64_t mine[] = {kiln_time_ns(), (uint64_t)getpid()};
    return self->servers.count > 0
               ? (uint32_t)(kiln_hash64(mine, sizeof(mine), 0) % self->servers.count)
               : 0;
}

static kiln_status open_client(const kiln_env *env, const char *address, kiln_backend **out_backend,
                               kiln_error *err, void *user)
{
    enum { USUAL_TIMEOUT_MS = 10000 };
    (void)user;
    kilni_rpc_client *self = kiln_alloc(env, sizeof(*self));
    if (self == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a remote device");
    }
    self->base = kilni_rpc_client_backend;
    self->base.env = env;
    pthread_mutex_init(&self->lock, NULL);
    self->env = env;
    self->timeout_ms = env->config != NULL
                           ? kiln_config_int(env->config, KILN_OPTION_REMOTE_TIMEOUT)
                           : USUAL_TIMEOUT_MS;
    self->inbox = kiln_alloc(env, sizeof(*self->inbox));
    kiln_status status =
        kilni_rpc_addresses_parse(kilni_rpc_address_or_default(env, address), &self->servers, err);
    if (status == KILN_STATUS_OK && self->inbox == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a remote device");
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_batch_create(env, &self->batch, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_identity_load(env, &self->identity, err);
    }
    if (status == KILN_STATUS_OK) {
        self->server = kilni_rpc_least_busy(env, &self->servers, &self->identity, any_server(self));
        status = kilni_rpc_client_open(self, err);
    }
    if (status != KILN_STATUS_OK) {
        kilni_rpc_client_end(self);
        return status;
    }
    describe_device(self);
    *out_backend = &self->base;
    return KILN_STATUS_OK;
}

const kiln_backend_provider *kiln_rpc_provider(void)
{
    static const kiln_backend_provider provider = {
        .struct_size = sizeof(provider),
        .scheme = "grpc",
        .open = open_client,
        .interface = KILN_BACKEND_INTERFACE,
    };
    return &provider;
}

const kiln_backend_provider *kiln_rpc_tls_provider(void)
{
    static const kiln_backend_provider provider = {
        .struct_size = sizeof(provider),
        .scheme = "grpcs",
        .open = open_client,
        .interface = KILN_BACKEND_INTERFACE,
    };
    return &provider;
}

const kiln_backend_provider *kiln_rpc_unix_provider(void)
{
    static const kiln_backend_provider provider = {
        .struct_size = sizeof(provider),
        .scheme = "unix",
        .open = open_client,
        .interface = KILN_BACKEND_INTERFACE,
    };
    return &provider;
}
