// SPDX-License-Identifier: MIT OR Apache-2.0
// Info and health. Info tells what a client in any language needs before it opens a session:
// devices, and the operators of the table with their versions. Health is two bytes, while it lasts.
// Nothing here waits for a device: sessions may work there for long.

#include "rpc_services.h"

#include <pb_encode.h>
#include <stdio.h>
#include <string.h>

enum { LOAD_GROWS = 1024 };

// ---- Info ----

static bool put_submessage(pb_ostream_t *stream, const pb_field_t *field,
                           const pb_msgdesc_t *fields, const void *message)
{
    return pb_encode_tag_for_field(stream, field) && pb_encode_submessage(stream, fields, message);
}

static bool write_devices(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const kiln_rpc_server *server = *arg;
    for (uint32_t i = 0; i < server->session.n_devices; i++) {
        kiln_device *each = server->devices[i];
        const kiln_device_info *info = kiln_device_info_of(each);
        kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
        kiln_v1_InfoResponse_Device device = kiln_v1_InfoResponse_Device_init_zero;
        kiln_device_stats_peek(each, &stats);
        snprintf(device.name, sizeof(device.name), "%s", info->name);
        snprintf(device.driver, sizeof(device.driver), "%s", info->driver);
        device.type = (uint32_t)info->type;
        device.memory_bytes = info->memory_bytes;
        device.used_bytes = stats.bytes_live;
        device.storage_dtypes = server->dtypes[i].storage;
        device.arithmetic_dtypes = server->dtypes[i].arithmetic;
        device.accelerated_dtypes = server->dtypes[i].accelerated;
        if (!put_submessage(stream, field, kiln_v1_InfoResponse_Device_fields, &device)) {
            return false;
        }
    }
    return true;
}

static bool write_operator(pb_ostream_t *stream, const pb_field_t *field, const char *name,
                           uint32_t since, bool plugin)
{
    kiln_v1_InfoResponse_Operator row = kiln_v1_InfoResponse_Operator_init_zero;
    row.since = since;
    row.plugin = plugin;
    snprintf(row.name, sizeof(row.name), "%s", name);
    return put_submessage(stream, field, kiln_v1_InfoResponse_Operator_fields, &row);
}

/// Those of the table, then those of plugins.
static bool write_operators(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const kiln_rpc_server *server = *arg;
    const kiln_custom_op *own = NULL;
    bool good = true;
    for (int op = 0; op < KILN_OP_COUNT && good; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        good = write_operator(stream, field, info->name, info->since, false);
    }
    for (size_t i = 0; good && kiln_custom_get(server->devices[0], i, &own, NULL) == KILN_STATUS_OK;
         i++) {
        good = write_operator(stream, field, own->name, own->version, true);
    }
    return good;
}

static bool write_features(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const kiln_rpc_server *server = *arg;
    const char *name = NULL;
    for (size_t i = 0; (name = kilni_rpc_session_feature(&server->session, i)) != NULL; i++) {
        if (!pb_encode_tag_for_field(stream, field) ||
            !pb_encode_string(stream, (const pb_byte_t *)name, strlen(name))) {
            return false;
        }
    }
    return true;
}

static void fill_limits(kiln_rpc_server *server, kilni_rpc_party *party,
                        kiln_v1_InfoResponse_Limits *limits)
{
    const kilni_rpc_session_options *session = &server->session;
    uint64_t own = 0;
    limits->max_bytes = session->limits.max_bytes;
    limits->max_buffers = session->limits.max_buffers;
    limits->max_graphs = session->limits.max_graphs;
    limits->max_data_bytes = session->limits.max_data_bytes;
    limits->max_raw_bytes = session->max_raw_bytes;
    limits->max_sessions = server->max_sessions;
    limits->own_sessions = kilni_rpc_places(server, KILNI_RPC_KIND_SESSION, /*of_one=*/true);
    pthread_mutex_lock(&server->parties.lock);
    own = party->rules.sessions;
    pthread_mutex_unlock(&server->parties.lock);
    if (own > 0 && own < server->max_sessions) {
        limits->own_sessions = (uint32_t)own;
    }
}

static void fill_load(kiln_rpc_server *server, kiln_v1_InfoResponse_Load *load)
{
    pthread_mutex_lock(&server->lock);
    load->sessions = server->n_sessions;
    pthread_mutex_unlock(&server->lock);
    load->calls = atomic_load(&server->model_calls);
    load->raw_bytes = atomic_load(&server->raw_bytes);
    load->draining = atomic_load(&server->draining);
    load->operations = atomic_load(&server->operations);
}

static kiln_status send_info(kiln_rpc_server *server, kilni_rpc_party *party,
                             kilni_rpc_stream *stream, kiln_error *err)
{
    kiln_v1_InfoResponse reply = kiln_v1_InfoResponse_init_zero;
    size_t length = 0;
    reply.version = KILNI_RPC_VERSION;
    reply.instance = server->session.instance;
    snprintf(reply.server, sizeof(reply.server), "kiln %s", kiln_version());
    snprintf(reply.identity, sizeof(reply.identity), "%s", party->name);
    reply.devices.funcs.encode = write_devices;
    reply.devices.arg = server;
    reply.operators.funcs.encode = write_operators;
    reply.operators.arg = server;
    reply.features.funcs.encode = write_features;
    reply.features.arg = server;
    reply.has_limits = true;
    reply.has_load = true;
    fill_limits(server, party, &reply.limits);
    fill_load(server, &reply.load);
    if (!pb_get_encoded_size(&length, kiln_v1_InfoResponse_fields, &reply)) {
        return kiln_fail(err, INTERNAL, "a reply does not fit its schema");
    }
    length += LOAD_GROWS; // numbers of now may be larger a moment later
    pb_byte_t *bytes = kiln_alloc(server->env, length);
    if (bytes == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a reply");
    }
    pb_ostream_t out = pb_ostream_from_buffer(bytes, length);
    kiln_status status = pb_encode(&out, kiln_v1_InfoResponse_fields, &reply)
                             ? kilni_rpc_send_bytes(stream, bytes, out.bytes_written, err)
                             : kiln_fail(err, INTERNAL, "encoding: %s", PB_GET_ERROR(&out));
    kiln_free(server->env, bytes);
    return status;
}

void kilni_rpc_serve_info(kiln_rpc_server *server, kilni_rpc_party *party, kilni_rpc_stream *stream)
{
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_message message = {0};
    bool end = false;
    kiln_status status = kilni_rpc_receive(stream, KILNI_RPC_GREETING_MS, &message, &end, &err);
    kilni_rpc_message_free(&message);
    if (status == KILN_STATUS_OK) {
        status = send_info(server, party, stream, &err);
    }
    kilni_rpc_stream_close(stream, status != KILN_STATUS_OK ? &err : NULL);
}

// ---- health ----

/// Field 1 of the request is the service.
kiln_status kilni_rpc_receive_service(kilni_rpc_stream *stream, bool *out_known, kiln_error *err)
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

void kilni_rpc_serve_check(const atomic_int *state, kilni_rpc_stream *stream)
{
    kiln_error err = KILN_ERROR_INIT;
    bool known = false;
    kiln_status status = kilni_rpc_receive_service(stream, &known, &err);
    if (status == KILN_STATUS_OK) {
        status = known ? send_state(stream, atomic_load(state), &err)
                       : kiln_fail(&err, NOT_FOUND, "there is no such service");
    }
    kilni_rpc_stream_close(stream, status != KILN_STATUS_OK ? &err : NULL);
}
