// SPDX-License-Identifier: MIT OR Apache-2.0
// What a server has, for who has no session with it: its devices by Info, its models by KServe's
// index. Both answers are read field by field; what is not known is skipped. A server without
// models answers that it has no such method.

#include "remote_grpc.h"
#include "rpc_ask.h"
#include "rpc_protocol.h"

#include <stdio.h>
#include <string.h>

enum { MOST_ROWS = 65536 };

struct kiln_rpc_listing {
    const kiln_env *env;
    kiln_arena texts;
    kilni_rpc_addresses servers;
    kilni_rpc_address address; ///< the one that answers
    const char *server;
    kiln_rpc_listed_device *devices;
    kiln_rpc_listed_model *models;
    size_t n_devices;
    size_t n_models;
};

// ---- rows ----

static size_t count_rows(kilni_wire_piece reply, uint32_t number)
{
    kilni_wire_field field;
    size_t count = 0;
    while (kilni_wire_take(&reply, &field)) {
        count += field.number == number && field.is_bytes && count < MOST_ROWS;
    }
    return count;
}

/// A terminated copy; NULL: no memory.
static const char *keep_text(kiln_rpc_listing *self, kilni_wire_piece from)
{
    char *copy = kiln_arena_alloc(&self->texts, from.length + 1);
    if (copy != NULL && from.length > 0) {
        memcpy(copy, from.bytes, from.length);
    }
    if (copy != NULL) {
        copy[from.length] = '\0';
    }
    return copy;
}

static const char *keep_address(kiln_rpc_listing *self, size_t device)
{
    char text[sizeof(self->address.text) + 16];
    bool is_file = strcmp(self->address.scheme, "unix") == 0;
    if (is_file) {
        snprintf(text, sizeof(text), "%s#%zu", self->address.target, device);
    } else {
        snprintf(text, sizeof(text), "%s://%s/%zu", self->address.scheme, self->address.target,
                 device);
    }
    return keep_text(self, (kilni_wire_piece){(unsigned char *)text, strlen(text)});
}

static bool read_device(kiln_rpc_listing *self, kilni_wire_piece row, size_t index)
{
    kilni_wire_field field;
    kiln_rpc_listed_device *device = &self->devices[index];
    *device = (kiln_rpc_listed_device){.address = keep_address(self, index),
                                       .name = keep_text(self, kilni_wire_get(row, 1)),
                                       .driver = keep_text(self, kilni_wire_get(row, 2))};
    while (kilni_wire_take(&row, &field)) {
        uint64_t *const numbers[] = {&device->memory_bytes, &device->storage_dtypes,
                                     &device->arithmetic_dtypes, &device->accelerated_dtypes};
        if (field.number == 3 && !field.is_bytes) {
            device->type = (kiln_device_type)field.value;
        } else if (field.number >= 4 && field.number <= 7 && !field.is_bytes) {
            *numbers[field.number - 4] = field.value;
        }
    }
    return device->address != NULL && device->name != NULL && device->driver != NULL;
}

static bool read_model(kiln_rpc_listing *self, kilni_wire_piece row, size_t index)
{
    kiln_rpc_listed_model *model = &self->models[index];
    *model = (kiln_rpc_listed_model){.name = keep_text(self, kilni_wire_get(row, 1)),
                                     .version = keep_text(self, kilni_wire_get(row, 2)),
                                     .state = keep_text(self, kilni_wire_get(row, 3)),
                                     .reason = keep_text(self, kilni_wire_get(row, 4))};
    return model->name != NULL && model->version != NULL && model->state != NULL &&
           model->reason != NULL;
}

/// Reads the rows under a number, `*out_count` of them. False: no memory.
static bool read_rows(kiln_rpc_listing *self, kilni_wire_piece reply, uint32_t number,
                      bool (*read)(kiln_rpc_listing *, kilni_wire_piece, size_t), size_t most,
                      size_t *out_count)
{
    kilni_wire_field field;
    while (*out_count < most && kilni_wire_take(&reply, &field)) {
        if (field.number == number && field.is_bytes && !read(self, field.bytes, (*out_count)++)) {
            return false;
        }
    }
    return true;
}

// ---- both answers ----

static kiln_status list_devices(kiln_rpc_listing *self, const kilni_rpc_identity *identity,
                                kiln_error *err)
{
    kilni_wire_piece reply = {NULL, 0};
    kiln_status status =
        kilni_rpc_ask(self->env, &self->address, identity, KILNI_RPC_INFO, &reply, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    size_t count = count_rows(reply, 4);
    self->server = keep_text(self, kilni_wire_get(reply, 3));
    self->devices = kiln_alloc_array(self->env, count + 1, sizeof(*self->devices));
    if (self->server == NULL || self->devices == NULL ||
        !read_rows(self, reply, 4, read_device, count, &self->n_devices)) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a list of devices");
    }
    kiln_free(self->env, (void *)(uintptr_t)reply.bytes);
    return status;
}

static kiln_status list_models(kiln_rpc_listing *self, const kilni_rpc_identity *identity,
                               kiln_error *err)
{
    kiln_error why = KILN_ERROR_INIT;
    kilni_wire_piece reply = {NULL, 0};
    kiln_status status =
        kilni_rpc_ask(self->env, &self->address, identity, KILNI_RPC_MODELS, &reply, &why);
    if (status == KILN_STATUS_UNIMPLEMENTED) {
        return KILN_STATUS_OK;
    }
    if (status != KILN_STATUS_OK) {
        *err = why;
        return status;
    }
    size_t count = count_rows(reply, 1);
    self->models = kiln_alloc_array(self->env, count + 1, sizeof(*self->models));
    if (self->models == NULL || !read_rows(self, reply, 1, read_model, count, &self->n_models)) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a list of models");
    }
    kiln_free(self->env, (void *)(uintptr_t)reply.bytes);
    return status;
}

kiln_status kiln_rpc_listing_create(kiln_context *context, const char *address,
                                    kiln_rpc_listing **out_listing, kiln_error *err)
{
    kilni_rpc_identity identity = {NULL, NULL, NULL, NULL};
    kiln_error own = KILN_ERROR_INIT;
    kiln_status listed = KILN_STATUS_OK;
    err = err != NULL ? err : &own;
    if (context == NULL || address == NULL || out_listing == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "context, address and out_listing must not be NULL");
    }
    *out_listing = NULL;
    const kiln_env *env = kiln_context_env(context);
    kiln_rpc_listing *self = kiln_alloc(env, sizeof(*self));
    if (self == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a listing");
    }
    self->env = env;
    kiln_arena_init(&self->texts, env);
    kiln_status status =
        kilni_rpc_addresses_parse(kilni_rpc_address_or_default(env, address), &self->servers, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_identity_load(env, &identity, err);
    }
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < self->servers.count; i++) {
        self->address = self->servers.each[i];
        listed = list_devices(self, &identity, err);
        if (listed != KILN_STATUS_UNAVAILABLE && listed != KILN_STATUS_DEADLINE_EXCEEDED) {
            break;
        }
    }
    status = status == KILN_STATUS_OK ? listed : status;
    if (status == KILN_STATUS_OK) {
        status = list_models(self, &identity, err);
    }
    kilni_rpc_identity_fini(env, &identity);
    if (status != KILN_STATUS_OK) {
        kiln_rpc_listing_destroy(self);
        return status;
    }
    *out_listing = self;
    return KILN_STATUS_OK;
}

void kiln_rpc_listing_destroy(kiln_rpc_listing *listing)
{
    if (listing != NULL) {
        kiln_arena_fini(&listing->texts);
        kiln_free(listing->env, listing->devices);
        kiln_free(listing->env, listing->models);
        kiln_free(listing->env, listing);
    }
}

const char *kiln_rpc_listing_server(const kiln_rpc_listing *listing)
{
    return listing != NULL ? listing->server : NULL;
}

const kiln_rpc_listed_device *kiln_rpc_listing_device(const kiln_rpc_listing *listing, size_t index)
{
    return listing != NULL && index < listing->n_devices ? &listing->devices[index] : NULL;
}

const kiln_rpc_listed_model *kiln_rpc_listing_model(const kiln_rpc_listing *listing, size_t index)
{
    return listing != NULL && index < listing->n_models ? &listing->models[index] : NULL;
}
