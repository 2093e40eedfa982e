// SPDX-License-Identifier: MIT OR Apache-2.0
// The only file that calls gRPC: channels, listeners, and a bidirectional stream as blocking send
// and receive on a completion queue of its own. Knows nothing of frames. Traps it steps around: one
// outstanding message each way, retries and proxies off, queues drained before they are destroyed.

#include "remote_internal.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char *const session_method = "/kiln.v1.Kiln/Session";

// Tags of a stream's batches.
enum { TAG_START, TAG_SEND, TAG_RECEIVE, TAG_FINISH, TAG_STATUS, TAGS };

enum {
    ACCEPT_PAUSE_MS = 20, ///< after a session that could not be accepted
    PING_MS = 30000, ///< between pings of a quiet connection
    PONG_MS = 20000, ///< without an answer to one the connection is gone
    MIN_PING_MS = 10000 ///< a client that pings more often is sent away
};

struct kilni_rpc_stream {
    const kiln_env *env;
    grpc_channel *channel; ///< of a client
    grpc_completion_queue *queue;
    grpc_call *call;
    char tags[TAGS];
    grpc_metadata_array metadata;
    grpc_metadata_array trailing;
    grpc_call_details details;
    grpc_status_code code;
    grpc_slice code_text;
    int cancelled;
    bool status_pending; ///< the batch of TAG_STATUS has not completed
    bool broken; ///< a batch failed: nothing more can be sent
    bool timed_out; ///< the deadline passed: the call is cancelled
    gpr_timespec deadline; ///< of each batch
};

struct kilni_rpc_listener {
    const kiln_env *env;
    grpc_server *server;
    grpc_completion_queue *queue;
    atomic_bool down;
    bool shutdown_seen;
};

// ---- batches
// -------------------------------------------------------------------------------------

static gpr_timespec after_ms(int64_t ms)
{
    return gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_millis(ms, GPR_TIMESPAN));
}

static gpr_timespec forever(void)
{
    return gpr_inf_future(GPR_CLOCK_REALTIME);
}

static bool start(kilni_rpc_stream *stream, const grpc_op *ops, size_t count, int tag)
{
    return grpc_call_start_batch(stream->call, ops, count, &stream->tags[tag], NULL) ==
           GRPC_CALL_OK;
}

static bool wait_for(kilni_rpc_stream *stream, int tag, gpr_timespec deadline)
{
    grpc_event event =
        grpc_completion_queue_pluck(stream->queue, &stream->tags[tag], deadline, NULL);
    return event.type == GRPC_OP_COMPLETE && event.success != 0;
}

/// A batch that its deadline overtakes is ended by cancelling the call.
static bool run_batch(kilni_rpc_stream *stream, const grpc_op *ops, size_t count, int tag)
{
    if (!start(stream, ops, count, tag)) {
        return false;
    }
    grpc_event event =
        grpc_completion_queue_pluck(stream->queue, &stream->tags[tag], stream->deadline, NULL);
    if (event.type == GRPC_QUEUE_TIMEOUT) {
        stream->timed_out = true;
        (void)grpc_call_cancel(stream->call, NULL);
        (void)wait_for(stream, tag, forever());
        return false;
    }
    return event.type == GRPC_OP_COMPLETE && event.success != 0;
}

static void destroy_queue(grpc_completion_queue *queue, bool pluck)
{
    grpc_event event;
    grpc_completion_queue_shutdown(queue);
    do {
        event = pluck ? grpc_completion_queue_pluck(queue, NULL, forever(), NULL)
                      : grpc_completion_queue_next(queue, forever(), NULL);
    } while (event.type != GRPC_QUEUE_SHUTDOWN);
    grpc_completion_queue_destroy(queue);
}

static kilni_rpc_stream *stream_new(const kiln_env *env)
{
    kilni_rpc_stream *stream = kiln_alloc(env, sizeof(*stream));
    if (stream == NULL) {
        return NULL;
    }
    stream->env = env;
    stream->queue = grpc_completion_queue_create_for_pluck(NULL);
    stream->deadline = forever();
    stream->code_text = grpc_empty_slice();
    grpc_metadata_array_init(&stream->metadata);
    grpc_metadata_array_init(&stream->trailing);
    grpc_call_details_init(&stream->details);
    return stream;
}

static void stream_free(kilni_rpc_stream *stream)
{
    if (stream->call != NULL) {
        grpc_call_unref(stream->call);
    }
    if (stream->channel != NULL) {
        grpc_channel_destroy(stream->channel);
    }
    destroy_queue(stream->queue, /*pluck=*/true);
    grpc_metadata_array_destroy(&stream->metadata);
    grpc_metadata_array_destroy(&stream->trailing);
    grpc_call_details_destroy(&stream->details);
    grpc_slice_unref(stream->code_text);
    kiln_free(stream->env, stream);
}

/// Why the stream ended, in the peer's words when it left some.
static kiln_status broken(kilni_rpc_stream *stream, kiln_error *err)
{
    stream->broken = true;
    if (stream->channel != NULL && stream->status_pending &&
        wait_for(stream, TAG_STATUS, after_ms(2000))) {
        stream->status_pending = false;
    }
    if (stream->timed_out) {
        return kiln_fail(err, DEADLINE_EXCEEDED, "the other side does not answer");
    }
    char text[160] = "the connection is gone";
    if (stream->channel != NULL && !stream->status_pending) {
        size_t length = GRPC_SLICE_LENGTH(stream->code_text);
        length = length < sizeof(text) - 1 ? length : sizeof(text) - 1;
        if (length > 0) {
            memcpy(text, GRPC_SLICE_START_PTR(stream->code_text), length);
            text[length] = '\0';
        }
        if (stream->code != GRPC_STATUS_OK && kiln_status_name((kiln_status)stream->code) != NULL) {
            return kiln_error_set(err, (kiln_status)stream->code, KILN_FILE_NAME, __LINE__,
                                  "remote session ended: %s", text);
        }
    }
    return kiln_fail(err, UNAVAILABLE, "remote session ended: %s", text);
}

// ---- messages
// ------------------------------------------------------------------------------------

void kilni_rpc_set_deadline(kilni_rpc_stream *stream, int64_t timeout_ms)
{
    stream->deadline = timeout_ms >= 0 ? after_ms(timeout_ms) : forever();
}

kiln_status kilni_rpc_send(kilni_rpc_stream *stream, const void *message, size_t length,
                           kiln_error *err)
{
    if (stream->broken) {
        return broken(stream, err);
    }
    grpc_slice slice = grpc_slice_from_copied_buffer(message, length);
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};
    op.data.send_message.send_message = buffer;
    bool good = run_batch(stream, &op, 1, TAG_SEND);
    grpc_byte_buffer_destroy(buffer);
    grpc_slice_unref(slice);
    return good ? KILN_STATUS_OK : broken(stream, err);
}

static kiln_status take_message(kilni_rpc_stream *stream, grpc_byte_buffer *buffer,
                                kiln_blob *out_message, kiln_error *err)
{
    grpc_byte_buffer_reader reader;
    grpc_slice *piece = NULL;
    size_t length = grpc_byte_buffer_length(buffer);
    char *bytes = kiln_alloc(stream->env, length > 0 ? length : 1);
    if (bytes == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a message of %zu bytes", length);
    }
    size_t at = 0;
    if (grpc_byte_buffer_reader_init(&reader, buffer) == 0) {
        kiln_free(stream->env, bytes);
        return kiln_fail(err, DATA_LOSS, "a message cannot be read");
    }
    while (grpc_byte_buffer_reader_peek(&reader, &piece) != 0) {
        memcpy(bytes + at, GRPC_SLICE_START_PTR(*piece), GRPC_SLICE_LENGTH(*piece));
        at += GRPC_SLICE_LENGTH(*piece);
    }
    grpc_byte_buffer_reader_destroy(&reader);
    *out_message = (kiln_blob){.data = bytes, .length = at};
    return KILN_STATUS_OK;
}

kiln_status kilni_rpc_receive(kilni_rpc_stream *stream, kiln_blob *out_message, bool *out_end,
                              kiln_error *err)
{
    grpc_byte_buffer *buffer = NULL;
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &buffer;
    *out_end = false;
    if (stream->broken || !run_batch(stream, &op, 1, TAG_RECEIVE)) {
        grpc_byte_buffer_destroy(buffer);
        return broken(stream, err);
    }
    if (buffer == NULL) {
        *out_end = true;
        return stream->channel != NULL ? broken(stream, err) : KILN_STATUS_OK;
    }
    kiln_status status = take_message(stream, buffer, out_message, err);
    grpc_byte_buffer_destroy(buffer);
    return status;
}

// ---- client
// --------------------------------------------------------------------------------------

static grpc_channel *make_channel(const char *target)
{
    grpc_arg args[] = {
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_ENABLE_RETRIES},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_ENABLE_HTTP_PROXY},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_KEEPALIVE_TIME_MS},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_KEEPALIVE_TIMEOUT_MS},
        {.type = GRPC_ARG_INTEGER,
         .key = (char *)(uintptr_t)GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA},
    };
    args[2].value.integer = KILNI_RPC_MAX_MESSAGE;
    args[3].value.integer = 1;
    args[4].value.integer = 100;
    args[5].value.integer = PING_MS;
    args[6].value.integer = PONG_MS;
    args[7].value.integer = 1;
    args[8].value.integer = 0; // as many pings without data as it takes: operations may take long
    grpc_channel_args list = {sizeof(args) / sizeof(args[0]), args};
    grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create(target, credentials, &list);
    grpc_channel_credentials_release(credentials);
    return channel;
}

/// UNAVAILABLE where nobody listens, DEADLINE_EXCEEDED where somebody does and is silent.
static kiln_status wait_ready(kilni_rpc_stream *stream, const char *target, kiln_error *err)
{
    gpr_timespec deadline = stream->deadline;
    bool refused = false;
    for (;;) {
        grpc_connectivity_state state =
            grpc_channel_check_connectivity_state(stream->channel, /*try_to_connect=*/1);
        if (state == GRPC_CHANNEL_READY) {
            return KILN_STATUS_OK;
        }
        refused = refused || state == GRPC_CHANNEL_TRANSIENT_FAILURE;
        if (state == GRPC_CHANNEL_SHUTDOWN ||
            gpr_time_cmp(gpr_now(GPR_CLOCK_REALTIME), deadline) >= 0) {
            return refused ? kiln_fail(err, UNAVAILABLE, "nobody answers at %s", target)
                           : kiln_fail(err, DEADLINE_EXCEEDED, "no greeting from %s", target);
        }
        grpc_channel_watch_connectivity_state(stream->channel, state, deadline, stream->queue,
                                              &stream->tags[TAG_START]);
        (void)wait_for(stream, TAG_START, forever());
        if (state == GRPC_CHANNEL_TRANSIENT_FAILURE &&
            grpc_channel_check_connectivity_state(stream->channel, 0) ==
                GRPC_CHANNEL_TRANSIENT_FAILURE) {
            return kiln_fail(err, UNAVAILABLE, "nobody answers at %s", target);
        }
    }
}

static bool start_session(kilni_rpc_stream *stream)
{
    grpc_slice method = grpc_slice_from_static_string(session_method);
    stream->call = grpc_channel_create_call(stream->channel, NULL, GRPC_PROPAGATE_DEFAULTS,
                                            stream->queue, method, NULL, forever(), NULL);
    if (stream->call == NULL) {
        return false;
    }
    grpc_op first[2] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                        {.op = GRPC_OP_RECV_INITIAL_METADATA}};
    first[1].data.recv_initial_metadata.recv_initial_metadata = &stream->metadata;
    grpc_op status = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    status.data.recv_status_on_client.trailing_metadata = &stream->trailing;
    status.data.recv_status_on_client.status = &stream->code;
    status.data.recv_status_on_client.status_details = &stream->code_text;
    stream->status_pending = start(stream, &status, 1, TAG_STATUS);
    return stream->status_pending && run_batch(stream, first, 2, TAG_START);
}

kiln_status kilni_rpc_connect(const kiln_env *env, const char *target, int64_t timeout_ms,
                              kilni_rpc_stream **out_stream, kiln_error *err)
{
    grpc_init();
    kilni_rpc_stream *stream = stream_new(env);
    if (stream == NULL) {
        grpc_shutdown();
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a connection");
    }
    stream->channel = make_channel(target);
    kilni_rpc_set_deadline(stream, timeout_ms);
    kiln_status status = stream->channel != NULL
                             ? wait_ready(stream, target, err)
                             : kiln_fail(err, UNAVAILABLE, "no channel to %s", target);
    if (status == KILN_STATUS_OK && !start_session(stream)) {
        status = broken(stream, err);
    }
    kilni_rpc_set_deadline(stream, -1);
    if (status != KILN_STATUS_OK) {
        kilni_rpc_stream_close(stream, NULL);
        return status;
    }
    *out_stream = stream;
    return KILN_STATUS_OK;
}

// ---- server
// --------------------------------------------------------------------------------------

kiln_status kilni_rpc_listen(const kiln_env *env, const char *address,
                             kilni_rpc_listener **out_listener, int *out_port, kiln_error *err)
{
    kilni_rpc_listener *listener = kiln_alloc(env, sizeof(*listener));
    if (listener == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a server");
    }
    grpc_arg args[] = {
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_MAX_CONCURRENT_STREAMS},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_ALLOW_REUSEPORT},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_KEEPALIVE_TIME_MS},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_KEEPALIVE_TIMEOUT_MS},
        {.type = GRPC_ARG_INTEGER,
         .key = (char *)(uintptr_t)GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA},
        {.type = GRPC_ARG_INTEGER,
         .key = (char *)(uintptr_t)GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS},
    };
    args[0].value.integer = KILNI_RPC_MAX_MESSAGE;
    args[1].value.integer = 16;
    args[3].value.integer = PING_MS;
    args[4].value.integer = PONG_MS;
    args[5].value.integer = 1;
    args[6].value.integer = 0;
    args[7].value.integer = MIN_PING_MS;
    grpc_channel_args list = {sizeof(args) / sizeof(args[0]), args};
    grpc_init();
    listener->env = env;
    listener->server = grpc_server_create(&list, NULL);
    listener->queue = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(listener->server, listener->queue, NULL);
    grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();
    *out_port = grpc_server_add_http2_port(listener->server, address, credentials);
    grpc_server_credentials_release(credentials);
    // A server can only be destroyed after it has been started.
    grpc_server_start(listener->server);
    if (*out_port == 0) {
        kilni_rpc_listener_shutdown(listener);
        kilni_rpc_listener_close(listener);
        return kiln_fail(err, UNAVAILABLE, "cannot listen at %s", address);
    }
    *out_listener = listener;
    return KILN_STATUS_OK;
}

/// Answers the start of a session; the batch that tells of its end stays open.
static bool greet(kilni_rpc_stream *stream)
{
    grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    close.data.recv_close_on_server.cancelled = &stream->cancelled;
    grpc_op first = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    stream->status_pending = start(stream, &close, 1, TAG_STATUS);
    return stream->status_pending && run_batch(stream, &first, 1, TAG_START);
}

static void refuse_method(kilni_rpc_stream *stream)
{
    kiln_error err = KILN_ERROR_INIT;
    (void)kiln_fail(&err, UNIMPLEMENTED, "there is only %s", session_method);
    kilni_rpc_stream_close(stream, &err);
}

/// Waits for a call; NULL when there was none. Holds gRPC for the stream.
static kilni_rpc_stream *next_call(kilni_rpc_listener *listener)
{
    kilni_rpc_stream *stream = stream_new(listener->env);
    grpc_event event = {.type = GRPC_QUEUE_TIMEOUT};
    if (stream == NULL) {
        return NULL;
    }
    grpc_init();
    if (grpc_server_request_call(listener->server, &stream->call, &stream->details,
                                 &stream->metadata, stream->queue, listener->queue,
                                 stream) == GRPC_CALL_OK) {
        do {
            event = grpc_completion_queue_next(listener->queue, forever(), NULL);
            listener->shutdown_seen = listener->shutdown_seen || event.tag == listener;
        } while (event.type == GRPC_OP_COMPLETE && event.tag != stream);
    }
    if (event.type != GRPC_OP_COMPLETE || event.success == 0) {
        stream_free(stream);
        grpc_shutdown();
        return NULL;
    }
    return stream;
}

kilni_rpc_stream *kilni_rpc_accept(kilni_rpc_listener *listener)
{
    while (!atomic_load(&listener->down)) {
        kilni_rpc_stream *stream = next_call(listener);
        if (stream == NULL) {
            if (!atomic_load(&listener->down)) {
                kiln_log_write(listener->env, KILN_LOG_WARN, "remote",
                               "a session could not be accepted");
                gpr_sleep_until(after_ms(ACCEPT_PAUSE_MS));
            }
        } else if (!greet(stream)) {
            kilni_rpc_stream_close(stream, NULL);
        } else if (grpc_slice_str_cmp(stream->details.method, session_method) != 0) {
            refuse_method(stream);
        } else {
            return stream;
        }
    }
    return NULL;
}

void kilni_rpc_listener_shutdown(kilni_rpc_listener *listener)
{
    if (!atomic_exchange(&listener->down, true)) {
        grpc_server_shutdown_and_notify(listener->server, listener->queue, listener);
        grpc_server_cancel_all_calls(listener->server);
    }
}

void kilni_rpc_listener_close(kilni_rpc_listener *listener)
{
    while (!listener->shutdown_seen) {
        grpc_event event = grpc_completion_queue_next(listener->queue, forever(), NULL);
        listener->shutdown_seen = event.tag == listener || event.type == GRPC_QUEUE_SHUTDOWN;
    }
    grpc_server_destroy(listener->server);
    destroy_queue(listener->queue, /*pluck=*/false);
    kiln_free(listener->env, listener);
    grpc_shutdown();
}

// ---- end
// -----------------------------------------------------------------------------------------

static void finish_server(kilni_rpc_stream *stream, const kiln_error *status)
{
    bool failed = status != NULL && status->code != 0;
    grpc_slice text = grpc_slice_from_copied_string(failed ? status->message : "");
    grpc_op op = {.op = GRPC_OP_SEND_STATUS_FROM_SERVER};
    op.data.send_status_from_server.status = failed && status->code <= 16
                                                 ? (grpc_status_code)status->code
                                             : failed ? GRPC_STATUS_INTERNAL
                                                      : GRPC_STATUS_OK;
    op.data.send_status_from_server.status_details = &text;
    (void)run_batch(stream, &op, 1, TAG_FINISH);
    grpc_slice_unref(text);
}

void kilni_rpc_stream_close(kilni_rpc_stream *stream, const kiln_error *status)
{
    if (stream == NULL) {
        return;
    }
    if (stream->call != NULL && stream->channel == NULL) {
        finish_server(stream, status);
    } else if (stream->call != NULL) {
        grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
        kilni_rpc_set_deadline(stream, 2000);
        (void)run_batch(stream, &op, 1, TAG_FINISH);
        if (stream->status_pending && wait_for(stream, TAG_STATUS, after_ms(2000))) {
            stream->status_pending = false;
        }
    }
    if (stream->status_pending) {
        (void)grpc_call_cancel(stream->call, NULL);
        (void)wait_for(stream, TAG_STATUS, forever());
    }
    stream_free(stream);
    grpc_shutdown();
}
