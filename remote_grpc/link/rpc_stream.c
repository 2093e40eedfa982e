// SPDX-License-Identifier: MIT OR Apache-2.0
// A gRPC call as blocking send and receive on a completion queue of its own, for clients and
// servers. Knows nothing of frames. Traps it steps around: one outstanding message each way, a
// receive that stays armed when its time is over, queues drained before they are destroyed.

#include "rpc_grpc.h"

#include <grpc/support/log.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    STATUS_WAIT_MS = 2000,
    BULK_BYTES = 512 << 10 ///< of a message: part of something larger
};

// ---- batches ----

/// gRPC rounds up to the next millisecond, and would wait for what is now.
gpr_timespec kilni_grpc_after(int64_t ms)
{
    if (ms <= 0) {
        return gpr_inf_past(GPR_CLOCK_REALTIME);
    }
    return gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_millis(ms, GPR_TIMESPAN));
}

gpr_timespec kilni_grpc_forever(void)
{
    return gpr_inf_future(GPR_CLOCK_REALTIME);
}

bool kilni_grpc_wait_condition(pthread_cond_t *condition, pthread_mutex_t *lock,
                               gpr_timespec deadline)
{
    const struct timespec until = {.tv_sec = (time_t)deadline.tv_sec, .tv_nsec = deadline.tv_nsec};
    return gpr_time_cmp(deadline, kilni_grpc_forever()) == 0
               ? pthread_cond_wait(condition, lock) == 0
               : pthread_cond_timedwait(condition, lock, &until) == 0;
}

grpc_arg kilni_grpc_arg(const char *key, int value)
{
    grpc_arg arg = {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)key};
    arg.value.integer = value;
    return arg;
}

bool kilni_grpc_start(kilni_rpc_stream *stream, const grpc_op *ops, size_t count, int tag)
{
    return grpc_call_start_batch(stream->call, ops, count, &stream->tags[tag], NULL) ==
           GRPC_CALL_OK;
}

bool kilni_grpc_wait(kilni_rpc_stream *stream, int tag, gpr_timespec deadline)
{
    grpc_event event =
        grpc_completion_queue_pluck(stream->queue, &stream->tags[tag], deadline, NULL);
    return event.type == GRPC_OP_COMPLETE && event.success != 0;
}

bool kilni_grpc_run(kilni_rpc_stream *stream, const grpc_op *ops, size_t count, int tag)
{
    return kilni_grpc_start(stream, ops, count, tag) &&
           kilni_grpc_wait(stream, tag, kilni_grpc_forever());
}

void kilni_grpc_destroy_queue(grpc_completion_queue *queue, bool pluck)
{
    grpc_event event;
    grpc_completion_queue_shutdown(queue);
    do {
        event = pluck ? grpc_completion_queue_pluck(queue, NULL, kilni_grpc_forever(), NULL)
                      : grpc_completion_queue_next(queue, kilni_grpc_forever(), NULL);
    } while (event.type != GRPC_QUEUE_SHUTDOWN);
    grpc_completion_queue_destroy(queue);
}

static void say_nothing(gpr_log_func_args *args)
{
    (void)args;
}

/// The library does not print: what went wrong is in the status. GRPC_VERBOSITY, when it is set,
/// lets gRPC speak for itself.
static void silence(void)
{
    if (getenv("GRPC_VERBOSITY") == NULL) {
        gpr_set_log_function(say_nothing);
    }
}

/// What gRPC receives into comes from malloc and goes back with every message. glibc's gives the
/// pages to the system each time, and the system clears them anew, until it has seen a block of
/// some size freed; this one is never touched. A third of the time of a download.
static void keep_pages(const kiln_env *env)
{
    enum { BLOCK = 16 << 20 };
    static atomic_flag seen = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&seen)) {
        env->allocator.free(env->allocator.user,
                            env->allocator.alloc(env->allocator.user, BLOCK, 16));
    }
}

void kilni_grpc_init(const kiln_env *env)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, silence);
    keep_pages(env);
    grpc_init();
}

kilni_rpc_stream *kilni_grpc_stream_new(const kiln_env *env)
{
    kilni_rpc_stream *stream = kiln_alloc(env, sizeof(*stream));
    if (stream == NULL) {
        return NULL;
    }
    kilni_grpc_init(env);
    stream->env = env;
    stream->queue = grpc_completion_queue_create_for_pluck(NULL);
    stream->code_text = grpc_empty_slice();
    grpc_metadata_array_init(&stream->metadata);
    grpc_metadata_array_init(&stream->trailing);
    grpc_call_details_init(&stream->details);
    pthread_mutex_init(&stream->arrival_lock, NULL);
    pthread_cond_init(&stream->arrival, NULL);
    return stream;
}

void kilni_grpc_stream_free(kilni_rpc_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    atomic_uint *streams = stream->streams;
    if (stream->receiving && !stream->arrived) {
        (void)kilni_grpc_wait(stream, KILNI_TAG_RECEIVE, kilni_grpc_forever());
    }
    grpc_byte_buffer_destroy(stream->arriving);
    if (stream->leaving != NULL) { // the call was cancelled
        (void)kilni_grpc_wait(stream, KILNI_TAG_SEND, kilni_grpc_forever());
        grpc_byte_buffer_destroy(stream->leaving);
    }
    grpc_byte_buffer_destroy(stream->last);
    if (stream->call != NULL) {
        grpc_call_unref(stream->call);
    }
    if (stream->channel != NULL) {
        grpc_channel_destroy(stream->channel);
    }
    kilni_grpc_destroy_queue(stream->queue, /*pluck=*/true);
    grpc_metadata_array_destroy(&stream->metadata);
    grpc_metadata_array_destroy(&stream->trailing);
    grpc_call_details_destroy(&stream->details);
    grpc_slice_unref(stream->code_text);
    pthread_cond_destroy(&stream->arrival);
    pthread_mutex_destroy(&stream->arrival_lock);
    kiln_free(stream->env, stream);
    grpc_shutdown();
    if (streams != NULL) {
        atomic_fetch_sub(streams, 1);
    }
}

// ---- what arrives: under its lock ----

/// Starts the batch unless it was. False: the call has ended.
static bool arm(kilni_rpc_stream *stream)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &stream->arriving;
    stream->receiving = stream->receiving || kilni_grpc_start(stream, &op, 1, KILNI_TAG_RECEIVE);
    return stream->receiving;
}

/// False: the time is over. The lock is left meanwhile.
static bool await_batch(kilni_rpc_stream *stream, gpr_timespec deadline)
{
    stream->polled = true;
    pthread_mutex_unlock(&stream->arrival_lock);
    grpc_event event = grpc_completion_queue_pluck(stream->queue, &stream->tags[KILNI_TAG_RECEIVE],
                                                   deadline, NULL);
    pthread_mutex_lock(&stream->arrival_lock);
    stream->polled = false;
    if (event.type != GRPC_QUEUE_TIMEOUT) {
        stream->arrived = true;
        stream->arrived_good = event.success != 0;
        stream->arrivals++;
    }
    pthread_cond_broadcast(&stream->arrival); // or somebody else waits in gRPC from now on
    return event.type != GRPC_QUEUE_TIMEOUT;
}

/// Waits until something is there, or has been since `seen`, or the time is over.
static void await_arrival(kilni_rpc_stream *stream, gpr_timespec deadline, uint64_t seen)
{
    bool in_time = true;
    while (in_time && !stream->arrived && stream->arrivals == seen) {
        in_time = stream->polled
                      ? kilni_grpc_wait_condition(&stream->arrival, &stream->arrival_lock, deadline)
                      : await_batch(stream, deadline);
    }
}

/// Waits for the batch and takes its message; false: it has not completed. `*out_message` NULL: the
/// other side has finished, or the call has ended and `*out_good` is false.
static bool take_arrival(kilni_rpc_stream *stream, gpr_timespec deadline,
                         grpc_byte_buffer **out_message, bool *out_good)
{
    pthread_mutex_lock(&stream->arrival_lock);
    bool arrived = true;
    *out_message = NULL;
    *out_good = arm(stream);
    if (*out_good) {
        await_arrival(stream, deadline, stream->arrivals);
        arrived = stream->arrived;
    }
    if (*out_good && arrived) {
        *out_message = stream->arriving;
        *out_good = stream->arrived_good;
        stream->arriving = NULL;
        stream->arrived = stream->receiving = false;
    }
    pthread_mutex_unlock(&stream->arrival_lock);
    return arrived;
}

bool kilni_grpc_await_message(kilni_rpc_stream *stream, int64_t timeout_ms)
{
    pthread_mutex_lock(&stream->arrival_lock);
    if (arm(stream)) {
        await_arrival(stream, kilni_grpc_after(timeout_ms), stream->arrivals);
    }
    bool there = stream->arrived && stream->arrived_good && stream->arriving != NULL;
    pthread_mutex_unlock(&stream->arrival_lock);
    return there;
}

uint64_t kilni_rpc_stand_by(kilni_rpc_stream *stream)
{
    pthread_mutex_lock(&stream->arrival_lock);
    uint64_t seen = stream->arrivals;
    stream->bystanders++;
    pthread_mutex_unlock(&stream->arrival_lock);
    return seen;
}

void kilni_rpc_await(kilni_rpc_stream *stream, uint64_t seen)
{
    pthread_mutex_lock(&stream->arrival_lock);
    if (stream->arrivals == seen && arm(stream)) {
        await_arrival(stream, kilni_grpc_forever(), seen);
    }
    stream->bystanders--;
    pthread_cond_broadcast(&stream->arrival);
    pthread_mutex_unlock(&stream->arrival_lock);
}

/// Before the stream goes: the end of the call ends their wait.
static void dismiss_bystanders(kilni_rpc_stream *stream)
{
    pthread_mutex_lock(&stream->arrival_lock);
    if (stream->bystanders > 0) {
        kilni_rpc_cancel(stream);
    }
    while (stream->bystanders > 0) {
        pthread_cond_wait(&stream->arrival, &stream->arrival_lock);
    }
    pthread_mutex_unlock(&stream->arrival_lock);
}

// ---- the end of a call ----

/// The status comes behind the messages, and only when these have been taken. Of a client.
static void await_status(kilni_rpc_stream *stream)
{
    gpr_timespec deadline = kilni_grpc_after(STATUS_WAIT_MS);
    bool more = stream->status_pending;
    while (more) {
        grpc_byte_buffer *message = NULL;
        bool good = false;
        more = take_arrival(stream, deadline, &message, &good) && good && message != NULL;
        grpc_byte_buffer_destroy(message);
    }
    if (stream->status_pending && kilni_grpc_wait(stream, KILNI_TAG_STATUS, deadline)) {
        stream->status_pending = false;
    }
}

kiln_status kilni_grpc_broken(kilni_rpc_stream *stream, kiln_error *err)
{
    char text[160] = "the connection is gone";
    if (!atomic_exchange(&stream->broken, true) && stream->channel != NULL) {
        await_status(stream);
    }
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

bool kilni_rpc_is_broken(const kilni_rpc_stream *stream)
{
    return atomic_load(&stream->broken);
}

bool kilni_rpc_is_ended(kilni_rpc_stream *stream, int64_t timeout_ms)
{
    if (stream->status_pending &&
        kilni_grpc_wait(stream, KILNI_TAG_STATUS, kilni_grpc_after(timeout_ms))) {
        stream->status_pending = false;
    }
    return !stream->status_pending;
}

void kilni_rpc_cancel(kilni_rpc_stream *stream)
{
    (void)grpc_call_cancel(stream->call, NULL);
}

// ---- sending ----

static void release_hold(void *pointer)
{
    kilni_rpc_hold *hold = pointer;
    __tsan_acquire(hold);
    atomic_fetch_sub_explicit(&hold->refs, 1, memory_order_release);
}

void kilni_rpc_hold_drain(kilni_rpc_hold *hold)
{
    const struct timespec pause = {.tv_nsec = 100000};
    for (int i = 0; atomic_load_explicit(&hold->refs, memory_order_acquire) > 1; i++) {
        if (i < 100) {
            sched_yield();
        } else {
            (void)nanosleep(&pause, NULL);
        }
    }
}

/// What stands before the first message of an answer that was not begun; gives how many.
static size_t put_opening(kilni_rpc_stream *stream, grpc_op *ops)
{
    bool unopened = stream->unopened;
    if (unopened) {
        ops[0] = (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA};
        stream->unopened = false;
    }
    return unopened;
}

static kiln_status send_slices(kilni_rpc_stream *stream, grpc_slice *slices, size_t count,
                               kiln_error *err)
{
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(slices, count);
    grpc_op ops[2];
    size_t n_ops = put_opening(stream, ops);
    ops[n_ops] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE};
    ops[n_ops++].data.send_message.send_message = buffer;
    bool good = kilni_grpc_run(stream, ops, n_ops, KILNI_TAG_SEND);
    grpc_byte_buffer_destroy(buffer);
    for (size_t i = 0; i < count; i++) {
        grpc_slice_unref(slices[i]);
    }
    return good ? KILN_STATUS_OK : kilni_grpc_broken(stream, err);
}

kiln_status kilni_rpc_send(kilni_rpc_stream *stream, const kilni_rpc_parcel *parcel,
                           kiln_error *err)
{
    grpc_slice slices[2];
    size_t count = 1;
    if (kilni_rpc_is_broken(stream) || stream->finished) {
        return kilni_grpc_broken(stream, err);
    }
    slices[0] = grpc_slice_from_copied_buffer(parcel->head, parcel->head_length);
    if (parcel->hold != NULL) {
        atomic_fetch_add(&parcel->hold->refs, 1);
        __tsan_release(parcel->hold);
        slices[count++] = grpc_slice_new_with_user_data(
            (void *)(uintptr_t)parcel->data, parcel->data_length, release_hold, parcel->hold);
    }
    return send_slices(stream, slices, count, err);
}

kiln_status kilni_rpc_send_bytes(kilni_rpc_stream *stream, const void *bytes, size_t length,
                                 kiln_error *err)
{
    grpc_slice slice = grpc_slice_from_copied_buffer(bytes, length);
    if (kilni_rpc_is_broken(stream) || stream->finished) {
        grpc_slice_unref(slice);
        return kilni_grpc_broken(stream, err);
    }
    return send_slices(stream, &slice, 1, err);
}

void kilni_rpc_send_last(kilni_rpc_stream *stream, const kilni_wire_piece *pieces, size_t count)
{
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        length += pieces[i].length;
    }
    grpc_slice slice = grpc_slice_malloc(length);
    unsigned char *to = GRPC_SLICE_START_PTR(slice);
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].length > 0) {
            memcpy(to, pieces[i].bytes, pieces[i].length);
        }
        to += pieces[i].length;
    }
    stream->last = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
}

bool kilni_rpc_send_later(kilni_rpc_stream *stream, const void *bytes, size_t length)
{
    grpc_slice slice = grpc_slice_from_copied_buffer(bytes, length);
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};
    stream->leaving = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    op.data.send_message.send_message = stream->leaving;
    if (kilni_grpc_start(stream, &op, 1, KILNI_TAG_SEND)) {
        return true;
    }
    grpc_byte_buffer_destroy(stream->leaving);
    stream->leaving = NULL;
    return false;
}

bool kilni_rpc_is_sent(kilni_rpc_stream *stream)
{
    if (stream->leaving != NULL) {
        grpc_event event = grpc_completion_queue_pluck(stream->queue, &stream->tags[KILNI_TAG_SEND],
                                                       kilni_grpc_after(0), NULL);
        if (event.type == GRPC_QUEUE_TIMEOUT) {
            return false;
        }
        grpc_byte_buffer_destroy(stream->leaving);
        stream->leaving = NULL;
    }
    return true;
}

// ---- receiving ----

static kiln_status take_message(grpc_byte_buffer *buffer, kilni_rpc_message *out_message,
                                kiln_error *err)
{
    if (buffer->type != GRPC_BB_RAW || buffer->data.raw.compression != GRPC_COMPRESS_NONE) {
        grpc_byte_buffer_destroy(buffer);
        return kiln_fail(err, UNIMPLEMENTED, "compressed messages are not taken");
    }
    *out_message = (kilni_rpc_message){.buffer = buffer, .length = grpc_byte_buffer_length(buffer)};
    return KILN_STATUS_OK;
}

kiln_status kilni_rpc_receive(kilni_rpc_stream *stream, int64_t timeout_ms,
                              kilni_rpc_message *out_message, bool *out_end, kiln_error *err)
{
    grpc_byte_buffer *message = NULL;
    bool good = false;
    *out_end = false;
    if (kilni_rpc_is_broken(stream)) {
        return kilni_grpc_broken(stream, err);
    }
    if (!take_arrival(stream, timeout_ms < 0 ? kilni_grpc_forever() : kilni_grpc_after(timeout_ms),
                      &message, &good)) {
        return kiln_fail(err, DEADLINE_EXCEEDED, "the other side does not answer");
    }
    if (!good) {
        grpc_byte_buffer_destroy(message);
        return kilni_grpc_broken(stream, err);
    }
    if (message == NULL) {
        *out_end = true;
        return stream->channel != NULL ? kilni_grpc_broken(stream, err) : KILN_STATUS_OK;
    }
    return take_message(message, out_message, err);
}

void kilni_rpc_message_free(kilni_rpc_message *message)
{
    grpc_byte_buffer_destroy(message->buffer);
    *message = (kilni_rpc_message){0};
}

/// Gives the piece in which `offset` lies and turns it into an offset in the piece.
static const grpc_slice *find_piece(const kilni_rpc_message *message, size_t *offset,
                                    const grpc_slice **out_end)
{
    const grpc_byte_buffer *buffer = message->buffer;
    const grpc_slice *piece = buffer->data.raw.slice_buffer.slices;
    *out_end = piece + buffer->data.raw.slice_buffer.count;
    while (piece < *out_end && *offset >= GRPC_SLICE_LENGTH(*piece)) {
        *offset -= GRPC_SLICE_LENGTH(*piece);
        piece++;
    }
    return piece;
}

const void *kilni_rpc_message_peek(const kilni_rpc_message *message, size_t offset, size_t length)
{
    const grpc_slice *end = NULL;
    if (length == 0) {
        return "";
    }
    const grpc_slice *piece = find_piece(message, &offset, &end);
    if (piece == end || length > GRPC_SLICE_LENGTH(*piece) - offset) {
        return NULL;
    }
    return GRPC_SLICE_START_PTR(*piece) + offset;
}

void kilni_rpc_message_copy(const kilni_rpc_message *message, size_t offset, size_t length,
                            void *out_bytes)
{
    const grpc_slice *end = NULL;
    const grpc_slice *piece = find_piece(message, &offset, &end);
    bool bulk = length >= BULK_BYTES;
    for (char *to = out_bytes; length > 0 && piece < end; piece++) {
        size_t part = GRPC_SLICE_LENGTH(*piece) - offset;
        part = part < length ? part : length;
        if (bulk) {
            kiln_copy_past(to, GRPC_SLICE_START_PTR(*piece) + offset, part);
        } else {
            memcpy(to, GRPC_SLICE_START_PTR(*piece) + offset, part);
        }
        to += part;
        length -= part;
        offset = 0;
    }
}

// ---- end ----

static void finish_server(kilni_rpc_stream *stream, const kiln_error *status)
{
    bool failed = status != NULL && status->code != 0;
    grpc_slice text = grpc_slice_from_copied_string(failed ? status->message : "");
    grpc_op ops[3];
    size_t n_ops = put_opening(stream, ops); // without it gRPC keeps the status
    if (stream->last != NULL && !failed) {
        ops[n_ops] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE};
        ops[n_ops++].data.send_message.send_message = stream->last;
    }
    ops[n_ops] = (grpc_op){.op = GRPC_OP_SEND_STATUS_FROM_SERVER};
    ops[n_ops].data.send_status_from_server.status = failed && status->code <= 16
                                                         ? (grpc_status_code)status->code
                                                     : failed ? GRPC_STATUS_INTERNAL
                                                              : GRPC_STATUS_OK;
    ops[n_ops++].data.send_status_from_server.status_details = &text;
    (void)kilni_grpc_run(stream, ops, n_ops, KILNI_TAG_FINISH);
    grpc_slice_unref(text);
}

void kilni_rpc_finish_sending(kilni_rpc_stream *stream)
{
    grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
    if (!stream->finished && !kilni_rpc_is_broken(stream)) {
        stream->finished = true;
        (void)kilni_grpc_run(stream, &op, 1, KILNI_TAG_FINISH);
    }
}

void kilni_rpc_stream_close(kilni_rpc_stream *stream, const kiln_error *status)
{
    if (stream == NULL) {
        return;
    }
    dismiss_bystanders(stream);
    if (stream->call != NULL && stream->channel == NULL) {
        finish_server(stream, status);
    } else if (stream->call != NULL) {
        kilni_rpc_finish_sending(stream);
        if (!atomic_exchange(&stream->broken, true)) {
            await_status(stream);
        }
    }
    if (stream->status_pending) {
        (void)grpc_call_cancel(stream->call, NULL);
        (void)kilni_grpc_wait(stream, KILNI_TAG_STATUS, kilni_grpc_forever());
    }
    kilni_grpc_stream_free(stream);
}
