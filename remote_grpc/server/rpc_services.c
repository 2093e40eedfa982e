// SPDX-License-Identifier: MIT OR Apache-2.0
// Info and health. Info tells what a client in any language needs before it opens a session:
// devices, and the operators of the table with their versions. Health is two bytes, while it lasts.

#include "rpc_services.h"

#include "rpc_session.h"

#include <pb_encode.h>
#include <stdio.h>
#include <string.h>

enum { WATCH_MS = 100 };

// ---- Info ----

typedef struct device_list {
    kiln_device *const *devices;
    uint32_t count;
} device_list;

static bool write_devices(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const device_list *list = *arg;
    for (uint32_t i = 0; i < list->count; i++) {
        const kiln_device_info *info = kiln_device_info_of(list->devices[i]);
        kiln_v1_InfoReply_Device device = kiln_v1_InfoReply_Device_init_zero;
        snprintf(device.name, sizeof(device.name), "%s", info->name);
        snprintf(device.driver, sizeof(device.driver), "%s", info->driver);
        device.type = (uint32_t)info->type;
        device.memory_bytes = info->memory_bytes;
        device.storage_dtypes = kilni_rpc_dtype_mask(list->devices[i], KILN_USAGE_STORAGE);
        device.arithmetic_dtypes = kilni_rpc_dtype_mask(list->devices[i], KILN_USAGE_ARITHMETIC);
        device.accelerated_dtypes = kilni_rpc_dtype_mask(list->devices[i], KILN_USAGE_ACCELERATED);
        if (!pb_encode_tag_for_field(stream, field) ||
            !pb_encode_submessage(stream, kiln_v1_InfoReply_Device_fields, &device)) {
            return false;
        }
    }
    return true;
}

static bool write_operators(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    (void)arg;
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        kiln_v1_InfoReply_Operator row = kiln_v1_InfoReply_Operator_init_zero;
        row.since = info->since;
        snprintf(row.name, sizeof(row.name), "%s", info->name);
        if (!pb_encode_tag_for_field(stream, field) ||
            !pb_encode_submessage(stream, kiln_v1_InfoReply_Operator_fields, &row)) {
            return false;
        }
    }
    return true;
}

static bool write_features(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    (void)arg;
    for (size_t i = 0; kilni_rpc_features[i] != NULL; i++) {
        const char *name = kilni_rpc_features[i];
        if (!pb_encode_tag_for_field(stream, field) ||
            !pb_encode_string(stream, (const pb_byte_t *)name, strlen(name))) {
            return false;
        }
    }
    return true;
}

static kiln_status send_info(const kiln_env *env, const device_list *list, uint64_t instance,
                             kilni_rpc_stream *stream, kiln_error *err)
{
    kiln_v1_InfoReply reply = kiln_v1_InfoReply_init_zero;
    size_t length = 0;
    reply.version = KILNI_RPC_VERSION;
    reply.instance = instance;
    snprintf(reply.server, sizeof(reply.server), "kiln %s", kiln_version());
    reply.devices.funcs.encode = write_devices;
    reply.devices.arg = (void *)(uintptr_t)list;
    reply.operators.funcs.encode = write_operators;
    reply.features.funcs.encode = write_features;
    if (!pb_get_encoded_size(&length, kiln_v1_InfoReply_fields, &reply)) {
        return kiln_fail(err, INTERNAL, "a reply does not fit its schema");
    }
    pb_byte_t *bytes = kiln_alloc(env, length);
    if (bytes == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a reply");
    }
    pb_ostream_t out = pb_ostream_from_buffer(bytes, length);
    kiln_status status = pb_encode(&out, kiln_v1_InfoReply_fields, &reply)
                             ? kilni_rpc_send_bytes(stream, bytes, out.bytes_written, err)
                             : kiln_fail(err, INTERNAL, "encoding: %s", PB_GET_ERROR(&out));
    kiln_free(env, bytes);
    return status;
}

void kilni_rpc_serve_info(const kiln_env *env, kiln_device *const *devices, uint32_t n_devices,
                          uint64_t instance, kilni_rpc_stream *stream)
{
    const device_list list = {.devices = devices, .count = n_devices};
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_message message = {0};
    bool end = false;
    kiln_status status = kilni_rpc_receive(stream, KILNI_RPC_GREETING_MS, &message, &end, &err);
    kilni_rpc_message_free(&message);
    if (status == KILN_STATUS_OK) {
        status = send_info(env, &list, instance, stream, &err);
    }
    kilni_rpc_stream_close(stream, status != KILN_STATUS_OK ? &err : NULL);
}

// ---- health ----

/// Field 1 of the request is the service; the whole server and the one service are known.
static kiln_status receive_service(kilni_rpc_stream *stream, bool *out_known, kiln_error *err)
{
    static const char own[] = "\x0a\x0fkiln.v1.Compute";
    char request[64] = "";
    kilni_rpc_message message = {0};
    bool end = false;
    kiln_status status = kilni_rpc_receive(stream, KILNI_RPC_GREETING_MS, &message, &end, err);
    *out_known = false;
    if (status == KILN_STATUS_OK && !end && message.length <= sizeof(request)) {
        kilni_rpc_message_copy(&message, 0, message.length, request);
        *out_known =
            message.length == 0 || (message.length == 2 && request[1] == 0) ||
            (message.length == sizeof(own) - 1 && memcmp(request, own, sizeof(own) - 1) == 0);
    }
    kilni_rpc_message_free(&message);
    return status;
}

static kiln_status send_state(kilni_rpc_stream *stream, int state, kiln_error *err)
{
    const char reply[] = {'\x08', (char)state};
    return kilni_rpc_send_bytes(stream, reply, sizeof(reply), err);
}

void kilni_rpc_serve_check(const kiln_env *env, const atomic_int *state, kilni_rpc_stream *stream)
{
    kiln_error err = KILN_ERROR_INIT;
    bool known = false;
    (void)env;
    kiln_status status = receive_service(stream, &known, &err);
    if (status == KILN_STATUS_OK) {
        status = known ? send_state(stream, atomic_load(state), &err)
                       : kiln_fail(&err, NOT_FOUND, "there is no such service");
    }
    kilni_rpc_stream_close(stream, status != KILN_STATUS_OK ? &err : NULL);
}

void kilni_rpc_serve_watch(const kiln_env *env, const atomic_int *state, const atomic_bool *stop,
                           kilni_rpc_stream *stream)
{
    enum { UNKNOWN_SERVICE = 3 };
    kiln_error err = KILN_ERROR_INIT;
    bool known = false;
    int told = -1;
    (void)env;
    kiln_status status = receive_service(stream, &known, &err);
    while (status == KILN_STATUS_OK && !kilni_rpc_is_ended(stream, told < 0 ? 0 : WATCH_MS)) {
        int now = known ? atomic_load(state) : UNKNOWN_SERVICE;
        if (now != told) {
            status = send_state(stream, now, &err);
            told = now;
        }
        if (atomic_load(stop)) {
            break;
        }
    }
    kilni_rpc_stream_close(stream, status != KILN_STATUS_OK ? &err : NULL);
}
