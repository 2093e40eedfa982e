// SPDX-License-Identifier: MIT OR Apache-2.0
// What each frame does: check it against the limits, call the runtime, answer when asked. Work is
// not answered; the first error is kept and told with the next answer.

#include "rpc_pace.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST_UNTAKEN_FRAMES = 4096, ///< of answers that the client has not acknowledged
    LEAST_SHARE = 8 ///< a read of a smaller part of a buffer is a copy
};

// ---- shared memory ----

void kilni_rpc_session_unshare(kilni_rpc_session *session)
{
    for (size_t i = 0; i < KILNI_RPC_MEMORIES; i++) {
        kilni_rpc_memory_unmap(&session->memories[i]);
    }
}

char kilni_rpc_session_share(kilni_rpc_session *session, const kilni_rpc_memory_hello *hello,
                             const kilni_rpc_memory *memory)
{
    if (!kilni_rpc_same_secret(session->token, hello->token, KILNI_RPC_TOKEN) ||
        hello->number >= KILNI_RPC_MEMORIES) {
        return KILNI_RPC_MEMORY_REFUSED;
    }
    if (pthread_mutex_trylock(&session->memory_lock) != 0) {
        return KILNI_RPC_MEMORY_BUSY;
    }
    kilni_rpc_memory *target = &session->memories[hello->number];
    char answer = KILNI_RPC_MEMORY_TAKEN;
    if (memory->bytes == NULL) {
        kilni_rpc_session_unshare(session);
    } else if (target->bytes == NULL) {
        *target = *memory;
    } else {
        answer = KILNI_RPC_MEMORY_REFUSED;
    }
    pthread_mutex_unlock(&session->memory_lock);
    return answer;
}

static void handle_unshare(kilni_rpc_session *session, uint32_t number)
{
    if (number < KILNI_RPC_MEMORIES) {
        pthread_mutex_lock(&session->memory_lock);
        kilni_rpc_memory_unmap(&session->memories[number]);
        pthread_mutex_unlock(&session->memory_lock);
    }
}

/// The bytes at `place` - 1, `length` of them, under the lock of memory. Errors:
/// FAILED_PRECONDITION, OUT_OF_RANGE.
static kiln_status find_shared(kilni_rpc_session *session, uint32_t number, uint64_t place,
                               uint64_t length, char **out_bytes, kiln_error *err)
{
    if (number >= KILNI_RPC_MEMORIES || session->memories[number].bytes == NULL) {
        return kiln_fail(err, FAILED_PRECONDITION, "the session shares no memory %u", number);
    }
    const kilni_rpc_memory *memory = &session->memories[number];
    kiln_status status =
        kilni_rpc_check_range(place - 1, length, memory->length, "a part of shared memory", err);
    *out_bytes = status == KILN_STATUS_OK ? memory->bytes + (place - 1) : NULL;
    return status;
}

// ---- answers ----

/// Answers `request` with what is owed: the kept failure, or `cause`, or success.
static kiln_status answer(kilni_rpc_session *session, uint64_t request, const kiln_error *cause,
                          kiln_error *err)
{
    kilni_rpc_frame frame = {0};
    frame.body.request = request;
    frame.body.which_body = kiln_v1_Frame_answer_tag;
    if (cause != NULL && cause->code != 0) {
        kiln_v1_Answer *text = &frame.body.body.answer;
        text->code = (uint32_t)cause->code;
        text->frame = session->failed_frame;
        snprintf(text->message, sizeof(text->message), "%s", cause->message);
    }
    session->failed_frame = 0;
    return kilni_rpc_link_send(&session->link, &frame, err);
}

/// Takes the kept failure, or else `*cause`; its frame is told with the next answer.
static void take_failure(kilni_rpc_session *session, kiln_error *out_cause)
{
    *out_cause = session->failed;
    session->failed.code = 0;
    if (out_cause->code == 0) {
        session->failed_frame = session->link.received;
    }
}

/// Bytes that lie in place keep all of their buffer until they are acknowledged, also when the
/// client has freed it and it counts no more: so few of many are copied.
static kiln_status send_bytes(kilni_rpc_session *session, uint64_t request,
                              kilni_rpc_staging *staging, uint64_t whole, uint64_t offset,
                              uint64_t length, kiln_error *err)
{
    kilni_rpc_hold *hold = length >= whole / LEAST_SHARE ? &staging->hold : NULL;
    kiln_status status = KILN_STATUS_OK;
    for (uint64_t at = 0; status == KILN_STATUS_OK; at += KILNI_RPC_CHUNK) {
        bool last = length - at <= KILNI_RPC_CHUNK;
        kilni_rpc_frame frame = {.data = staging->bytes + offset + at,
                                 .data_length = last ? (size_t)(length - at) : KILNI_RPC_CHUNK,
                                 .hold = hold};
        frame.body.request = request;
        frame.body.which_body = last ? kiln_v1_Frame_answer_tag : 0;
        status = kilni_rpc_link_send(&session->link, &frame, err);
        if (last) {
            break;
        }
    }
    session->failed_frame = 0;
    return status;
}

/// The answer tells of this frame alone: a failure of work that is kept waits for another one.
static kiln_status answer_alone(kilni_rpc_session *session, uint64_t request,
                                const kiln_error *cause, kiln_error *err)
{
    uint64_t failed_frame = session->failed_frame;
    session->failed_frame = session->link.received;
    kiln_status status = answer(session, request, cause, err);
    session->failed_frame = failed_frame;
    return status;
}

/// To where the client has asked for them; then the answer is sent without data.
static kiln_status read_shared(kilni_rpc_session *session, const kiln_v1_Read *read,
                               const kilni_rpc_staging *staging, kiln_error *err)
{
    char *target = NULL;
    pthread_mutex_lock(&session->memory_lock);
    kiln_status status =
        find_shared(session, read->memory, read->shared, read->length, &target, err);
    if (status == KILN_STATUS_OK) {
        kiln_copy_wide(target, staging->bytes + read->offset, (size_t)read->length);
    }
    pthread_mutex_unlock(&session->memory_lock);
    return status;
}

/// Gives only failures of the connection; those of the read are answered.
static kiln_status handle_read(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                               kiln_error *err)
{
    const kiln_v1_Read *read = &frame->body.body.read;
    kiln_error cause;
    kilni_rpc_entry *source = NULL;
    kilni_rpc_staging *staging = NULL;
    bool owned = false;
    take_failure(session, &cause);
    if (cause.code == 0 &&
        kilni_rpc_entry_need(session, read->buffer, &source, &cause) == KILN_STATUS_OK &&
        kilni_rpc_check_range(read->offset, read->length, source->bytes, "a read", &cause) ==
            KILN_STATUS_OK) {
        bool again = read->offset + read->length < source->bytes;
        if (kilni_rpc_pace_enter(session, &cause) == KILN_STATUS_OK) {
            (void)!kilni_rpc_entry_bytes(session, source, again, &staging, &owned, &cause);
            kilni_rpc_pace_give(session);
        }
    }
    if (cause.code == 0 && read->shared != 0) {
        (void)!read_shared(session, read, staging, &cause);
    }
    kiln_status status = cause.code != 0 || read->shared != 0
                             ? answer(session, frame->body.request, &cause, err)
                             : send_bytes(session, frame->body.request, staging, source->bytes,
                                          read->offset, read->length, err);
    if (owned) {
        kilni_rpc_staging_release(session, staging);
    }
    return status;
}

// ---- fences ----

/// Waits for one element of the tensor, which tells whether its work failed.
static kiln_status probe(kiln_tensor *tensor, kiln_error *err)
{
    static const int64_t ones[KILN_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const int64_t zeros[KILN_MAX_RANK] = {0};
    size_t rank = kiln_tensor_rank(tensor);
    uint64_t element[2];
    kiln_tensor *first = NULL;
    if (kiln_tensor_bytes(tensor) == 0) {
        return KILN_STATUS_OK;
    }
    kiln_status status = kiln_slice(tensor, zeros, rank, ones, rank, NULL, 0, &first, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_read(first, element, kiln_tensor_bytes(first), err);
    }
    kiln_release(first);
    return status;
}

/// Waits for the session's own results. The device's own record of failures is not touched: it
/// tells of other sessions' too.
static void await_results(kilni_rpc_session *session, kiln_error *cause)
{
    (void)!kiln_flush(session->device, cause);
    for (size_t i = 0; i < KILNI_RPC_BUCKETS; i++) {
        for (kilni_rpc_entry *each = session->buckets[i]; each != NULL; each = each->next) {
            kiln_error own = KILN_ERROR_INIT;
            if (each->unfenced && probe(each->tensor, &own) != KILN_STATUS_OK && cause->code == 0) {
                *cause = own;
            }
            each->unfenced = false;
        }
    }
}

static kiln_status handle_fence(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                                kiln_error *err)
{
    kiln_error cause;
    take_failure(session, &cause);
    if (cause.code == 0 && kilni_rpc_pace_enter(session, &cause) == KILN_STATUS_OK) {
        await_results(session, &cause);
        kilni_rpc_pace_give(session);
    }
    return answer(session, frame->body.request, &cause, err);
}

// ---- weights ----

static kiln_status handle_offer(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                                kiln_error *err)
{
    kiln_error cause = KILN_ERROR_INIT;
    (void)!kilni_rpc_offer(session, &frame->body.body.offer, &cause);
    return answer_alone(session, frame->body.request, &cause, err);
}

/// The data of a Write, in the frame or in shared memory.
static kiln_status write_bytes(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                               kiln_error *err)
{
    const kiln_v1_Write *write = &frame->body.body.write;
    kilni_rpc_frame there = *frame;
    char *bytes = NULL;
    if (write->shared == 0) {
        return kilni_rpc_entry_write(session, frame, err);
    }
    pthread_mutex_lock(&session->memory_lock);
    kiln_status status =
        find_shared(session, write->memory, write->shared, write->shared_bytes, &bytes, err);
    if (status == KILN_STATUS_OK) {
        there.data = bytes;
        there.data_length = (size_t)write->shared_bytes;
        status = kilni_rpc_entry_write(session, &there, err);
    } else {
        kilni_rpc_entry_fail(session, write->buffer, err);
    }
    pthread_mutex_unlock(&session->memory_lock);
    return status;
}

static kiln_status handle_write(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                                kiln_error *err)
{
    kiln_status status = write_bytes(session, frame, err);
    return status == KILN_STATUS_OK
               ? kilni_rpc_offer_written(session, frame->body.body.write.buffer, err)
               : status;
}

static kiln_status handle_run(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                              kiln_error *err)
{
    kiln_status status = kilni_rpc_run(session, frame, err);
    return status == KILN_STATUS_OK ? kilni_rpc_offer_ran(session, frame, err) : status;
}

// ---- transfers ----

static kiln_status check_secret(size_t length, kiln_error *err)
{
    return length == KILNI_RPC_TOKEN
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT, "a secret has %d bytes, not %zu", KILNI_RPC_TOKEN,
                           length);
}

/// A copy of what the buffer holds now; the table owns it.
static kiln_status handle_expose(kilni_rpc_session *session, const kiln_v1_Expose *expose,
                                 kiln_error *err)
{
    const kiln_env *env = session->env;
    kilni_rpc_entry *source = NULL;
    kilni_rpc_staging *staging = NULL;
    bool owned = false;
    kilni_rpc_exposure draft = {.transfer = expose->transfer,
                                .owner = session,
                                .charged = &session->exposed_bytes,
                                .left = expose->count,
                                .bound = expose->fetcher.size > 0};
    kiln_status status = check_secret(expose->secret.size, err);
    if (status == KILN_STATUS_OK && draft.bound && expose->fetcher.size != sizeof(draft.fetcher)) {
        status = kiln_fail(err, INVALID_ARGUMENT, "a fetcher's key has %d bytes, not %u",
                           KILNI_RPC_PUBLIC_KEY, (unsigned)expose->fetcher.size);
    }
    if (status == KILN_STATUS_OK && (expose->count == 0 || expose->transfer == 0)) {
        status = kiln_fail(err, INVALID_ARGUMENT, "a transfer has a number and a count from 1");
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_entry_need(session, expose->buffer, &source, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_session_charge(session, source->bytes, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_entry_bytes(session, source, /*again=*/false, &staging, &owned, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    memcpy(draft.secret, expose->secret.bytes, KILNI_RPC_TOKEN);
    memcpy(draft.fetcher, expose->fetcher.bytes, sizeof(draft.fetcher));
    draft.length = (size_t)source->bytes;
    draft.expires_ns = kiln_time_ns() + UINT64_C(1000000) * expose->expiry_ms;
    draft.bytes = env->allocator.alloc(env->allocator.user, draft.length + 1, 64);
    if (draft.bytes != NULL) {
        memcpy(draft.bytes, staging->bytes, draft.length);
        status = kilni_rpc_expose(session->options->exposures, &draft, err);
    } else {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to expose %zu bytes", draft.length);
    }
    if (owned) {
        kilni_rpc_staging_release(session, staging);
    }
    return status;
}

/// Fills a buffer from another server; the failure is the buffer's, and answered.
static void obtain(kilni_rpc_session *session, const kiln_v1_Obtain *wanted, kiln_error *cause)
{
    const kilni_rpc_session_options *options = session->options;
    kilni_rpc_entry *target = NULL;
    kiln_status status = check_secret(wanted->secret.size, cause);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_party_may(options->parties, session->party, KILNI_RPC_THING_PEER,
                                     wanted->address, cause);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_entry_renew(session, wanted->buffer, wanted->total, &target, cause);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_staging_raw(session, wanted->total, &target->raw, cause);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_obtain(session->env, options->peers, options->exposures, wanted,
                                  target->raw->bytes, cause);
    }
    if (status == KILN_STATUS_OK) {
        target->staged = wanted->total;
    } else {
        kilni_rpc_entry_fail(session, wanted->buffer, cause);
    }
}

static kiln_status handle_obtain(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                                 kiln_error *err)
{
    kiln_error cause;
    take_failure(session, &cause);
    if (cause.code == 0) {
        obtain(session, &frame->body.body.obtain, &cause);
    } else {
        kilni_rpc_entry_fail(session, frame->body.body.obtain.buffer, &cause);
    }
    return answer(session, frame->body.request, &cause, err);
}

// ---- frames ----

/// A failure of work is kept for the next answer; only one of the connection or of the protocol
/// ends the session.
static void keep(kilni_rpc_session *session, kiln_status status, const kiln_error *cause)
{
    if (status != KILN_STATUS_OK && session->failed.code == 0) {
        session->failed = *cause;
        session->failed_frame = session->link.received;
    }
}

kiln_status kilni_rpc_session_handle(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                                     kiln_error *err)
{
    kiln_error cause = KILN_ERROR_INIT;
    const kiln_v1_Frame *body = &frame->body;
    const kilni_rpc_link *link = &session->link;
    if (link->kept_bytes > KILNI_RPC_UNTAKEN_BYTES ||
        (link->resumable && link->sent - link->acked > MOST_UNTAKEN_FRAMES)) {
        return kiln_fail(
            err, RESOURCE_EXHAUSTED, "%llu answers of %llu bytes are not acknowledged; send `ack`",
            (unsigned long long)(link->sent - link->acked), (unsigned long long)link->kept_bytes);
    }
    switch (body->which_body) {
    case kiln_v1_Frame_write_tag:
        keep(session, handle_write(session, frame, &cause), &cause);
        if (body->body.write.shared != 0) { // the client may use its memory again
            return answer_alone(session, body->request, NULL, err);
        }
        return KILN_STATUS_OK;
    case kiln_v1_Frame_run_tag:
        keep(session, handle_run(session, frame, &cause), &cause);
        return KILN_STATUS_OK;
    case kiln_v1_Frame_free_tag:
        for (pb_size_t i = 0; i < body->body.free.buffers_count; i++) {
            kilni_rpc_entry_remove(session, body->body.free.buffers[i]);
        }
        return KILN_STATUS_OK;
    case kiln_v1_Frame_forget_tag:
        for (pb_size_t i = 0; i < body->body.forget.graphs_count; i++) {
            kilni_rpc_graph_forget(session, body->body.forget.graphs[i]);
        }
        return KILN_STATUS_OK;
    case kiln_v1_Frame_expose_tag:
        keep(session, handle_expose(session, &body->body.expose, &cause), &cause);
        return KILN_STATUS_OK;
    case kiln_v1_Frame_withdraw_tag:
        if (body->body.withdraw.transfer != 0) {
            kilni_rpc_withdraw(session->options->exposures, session, body->body.withdraw.transfer);
        }
        return KILN_STATUS_OK;
    case kiln_v1_Frame_obtain_tag:
        return handle_obtain(session, frame, err);
    case kiln_v1_Frame_unshare_tag:
        handle_unshare(session, body->body.unshare.memory);
        return KILN_STATUS_OK;
    case kiln_v1_Frame_offer_tag:
        return handle_offer(session, frame, err);
    case kiln_v1_Frame_read_tag:
        return handle_read(session, frame, err);
    case kiln_v1_Frame_fence_tag:
        return handle_fence(session, frame, err);
    case kiln_v1_Frame_hello_tag:
        return kiln_fail(err, INVALID_ARGUMENT,
                         "a second Hello: a session has one, at its beginning");
    case kiln_v1_Frame_welcome_tag:
    case kiln_v1_Frame_answer_tag:
        return kiln_fail(err, INVALID_ARGUMENT, "a client sent %s, which is the server's to send",
                         body->which_body == kiln_v1_Frame_answer_tag ? "Answer" : "Welcome");
    default:
        return kiln_fail(err, INVALID_ARGUMENT,
                         "request %llu has body %d, which this server does not know; its features "
                         "are in Welcome",
                         (unsigned long long)body->request, (int)body->which_body);
    }
}
