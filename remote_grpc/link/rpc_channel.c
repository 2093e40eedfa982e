// SPDX-License-Identifier: MIT OR Apache-2.0
// The client's side of gRPC: channels with or without TLS, and the start of a call. Decides what a
// token may be sent over; each connection is a channel of its own, and trying again is the
// caller's.

#include "rpc_grpc.h"
#include "rpc_limits.h"
#include "rpc_protocol.h"

#include <stdio.h>
#include <string.h>

static grpc_channel_credentials *make_credentials(const kilni_rpc_address *address,
                                                  const kilni_rpc_identity *identity)
{
    if (!kilni_rpc_address_is_tls(address)) {
        return grpc_insecure_credentials_create();
    }
    grpc_ssl_pem_key_cert_pair pair = {.private_key = identity->key,
                                       .cert_chain = identity->certificate};
    bool known = identity->key != NULL && identity->certificate != NULL;
    return grpc_ssl_credentials_create_ex(identity->authorities, known ? &pair : NULL, NULL, NULL);
}

/// The address as gRPC takes it, which is a URI: what a path may not hold there is escaped, and of
/// several slashes in front one stays, for two would begin an authority.
static void write_uri(const kilni_rpc_address *address, char *out_uri, size_t size)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/-._~";
    if (strcmp(address->scheme, "unix") != 0) {
        snprintf(out_uri, size, "%s", address->target);
        return;
    }
    const char *path = address->host;
    while (path[0] == '/' && path[1] == '/') {
        path++;
    }
    size_t length = (size_t)snprintf(out_uri, size, "unix:");
    for (; *path != '\0' && length < size; path++) {
        bool stays = strchr(plain, *path) != NULL;
        length += (size_t)snprintf(out_uri + length, size - length, stays ? "%c" : "%%%02X",
                                   (unsigned char)*path);
    }
}

static grpc_channel *make_channel(const kilni_rpc_address *address,
                                  const kilni_rpc_identity *identity)
{
    char uri[sizeof("unix:") + 3 * sizeof(address->host)];
    grpc_arg args[] = {
        kilni_grpc_arg(GRPC_ARG_ENABLE_RETRIES, 0),
        kilni_grpc_arg(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
        kilni_grpc_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, KILNI_RPC_MAX_MESSAGE),
        kilni_grpc_arg(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
        kilni_grpc_arg(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100),
        kilni_grpc_arg(GRPC_ARG_KEEPALIVE_TIME_MS, KILNI_PING_MS),
        kilni_grpc_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KILNI_PONG_MS),
        kilni_grpc_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        // As many pings without data as it takes: operations may take long.
        kilni_grpc_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        kilni_grpc_arg(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
        kilni_grpc_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1),
    };
    grpc_channel_args list = {sizeof(args) / sizeof(args[0]), args};
    grpc_channel_credentials *credentials = make_credentials(address, identity);
    if (credentials == NULL) {
        return NULL;
    }
    write_uri(address, uri, sizeof(uri));
    grpc_channel *channel = grpc_channel_create(uri, credentials, &list);
    grpc_channel_credentials_release(credentials);
    return channel;
}

/// UNAVAILABLE where nobody listens, DEADLINE_EXCEEDED where somebody does and is silent.
static kiln_status wait_ready(kilni_rpc_stream *stream, const kilni_rpc_address *address,
                              gpr_timespec deadline, kiln_error *err)
{
    const char *why =
        kilni_rpc_address_is_tls(address) ? " with a certificate that is trusted" : "";
    bool refused = false;
    for (;;) {
        grpc_connectivity_state state =
            grpc_channel_check_connectivity_state(stream->channel, /*try_to_connect=*/1);
        if (state == GRPC_CHANNEL_READY) {
            return KILN_STATUS_OK;
        }
        refused = refused || state == GRPC_CHANNEL_TRANSIENT_FAILURE;
        if (state == GRPC_CHANNEL_SHUTDOWN || refused ||
            gpr_time_cmp(gpr_now(GPR_CLOCK_REALTIME), deadline) >= 0) {
            return refused
                       ? kiln_fail(err, UNAVAILABLE, "nobody answers at %s%s", address->target, why)
                       : kiln_fail(err, DEADLINE_EXCEEDED, "no greeting from %s", address->target);
        }
        grpc_channel_watch_connectivity_state(stream->channel, state, deadline, stream->queue,
                                              &stream->tags[KILNI_TAG_START]);
        (void)kilni_grpc_wait(stream, KILNI_TAG_START, kilni_grpc_forever());
    }
}

/// The first batch is not waited for without end: a server may take the call and say nothing.
static bool run_first(kilni_rpc_stream *stream, const kilni_rpc_identity *identity,
                      gpr_timespec deadline)
{
    char value[512];
    grpc_metadata token = {.key = grpc_slice_from_static_string("authorization")};
    grpc_op first[2] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                        {.op = GRPC_OP_RECV_INITIAL_METADATA}};
    first[1].data.recv_initial_metadata.recv_initial_metadata = &stream->metadata;
    token.value = grpc_empty_slice();
    if (identity->token != NULL) {
        snprintf(value, sizeof(value), "Bearer %s", identity->token);
        token.value = grpc_slice_from_copied_string(value);
        first[0].data.send_initial_metadata.count = 1;
        first[0].data.send_initial_metadata.metadata = &token;
    }
    bool started = kilni_grpc_start(stream, first, 2, KILNI_TAG_START);
    bool good = started && kilni_grpc_wait(stream, KILNI_TAG_START, deadline);
    if (started && !good) {
        (void)grpc_call_cancel(stream->call, NULL);
        (void)kilni_grpc_wait(stream, KILNI_TAG_START, kilni_grpc_after(10));
    }
    grpc_slice_unref(token.value);
    return good;
}

static bool start_call(kilni_rpc_stream *stream, const char *method,
                       const kilni_rpc_identity *identity, gpr_timespec deadline)
{
    stream->call = grpc_channel_create_call(stream->channel, NULL, GRPC_PROPAGATE_DEFAULTS,
                                            stream->queue, grpc_slice_from_static_string(method),
                                            NULL, kilni_grpc_forever(), NULL);
    if (stream->call == NULL) {
        return false;
    }
    grpc_op status = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    status.data.recv_status_on_client.trailing_metadata = &stream->trailing;
    status.data.recv_status_on_client.status = &stream->code;
    status.data.recv_status_on_client.status_details = &stream->code_text;
    stream->status_pending = kilni_grpc_start(stream, &status, 1, KILNI_TAG_STATUS);
    return stream->status_pending && run_first(stream, identity, deadline);
}

kiln_status kilni_rpc_connect(const kiln_env *env, const kilni_rpc_address *address,
                              const kilni_rpc_identity *identity, const char *method,
                              int64_t timeout_ms, kilni_rpc_stream **out_stream, kiln_error *err)
{
    static const kilni_rpc_identity nobody;
    identity = identity != NULL ? identity : &nobody;
    if (identity->token != NULL && !kilni_rpc_address_is_tls(address) &&
        !kilni_rpc_is_loopback(address->target)) {
        return kiln_fail(err, PERMISSION_DENIED,
                         "a token is not sent in the clear to %s; use grpcs://", address->target);
    }
    kilni_rpc_stream *stream = kilni_grpc_stream_new(env);
    if (stream == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a connection");
    }
    gpr_timespec deadline = kilni_grpc_after(timeout_ms);
    stream->channel = make_channel(address, identity);
    kiln_status status = stream->channel != NULL
                             ? wait_ready(stream, address, deadline, err)
                             : kiln_fail(err, INVALID_ARGUMENT,
                                         "the certificates for %s cannot be used", address->target);
    if (status == KILN_STATUS_OK && !start_call(stream, method, identity, deadline)) {
        bool late = gpr_time_cmp(gpr_now(GPR_CLOCK_REALTIME), deadline) >= 0;
        status = late ? kiln_fail(err, DEADLINE_EXCEEDED, "no greeting from %s", address->target)
                      : kilni_grpc_broken(stream, err);
    }
    if (status != KILN_STATUS_OK) {
        atomic_store(&stream->broken, true);
        kilni_rpc_stream_close(stream, NULL);
        return status;
    }
    *out_stream = stream;
    return KILN_STATUS_OK;
}
