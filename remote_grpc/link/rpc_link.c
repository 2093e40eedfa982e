// SPDX-License-Identifier: MIT OR Apache-2.0
// A link numbers the frames of a session by counting them, each side its own, and keeps what it has
// sent until the other side says that it arrived. So a session may go on over another stream: both
// say how far they came, and send again what follows. Who reconnects, and when, is not decided
// here.

#include "rpc_link.h"

#include "rpc_protocol.h"

enum { TELL_FRAMES = 16, BREAK_MS = 50 };

void kilni_rpc_link_init(kilni_rpc_link *link, const kiln_env *env)
{
    *link = (kilni_rpc_link){.env = env};
    link->kept_end = &link->kept;
}

static void drop_first(kilni_rpc_link *link)
{
    kilni_rpc_parcel *first = link->kept;
    link->kept = first->next;
    if (link->kept == NULL) {
        link->kept_end = &link->kept;
    }
    link->kept_bytes -= first->head_length + first->data_length;
    kilni_rpc_parcel_free(link->env, first);
}

static kiln_status take_ack(kilni_rpc_link *link, uint64_t ack, kiln_error *err)
{
    if (ack > link->sent) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "the other side acknowledges frame %llu; %llu were sent",
                         (unsigned long long)ack, (unsigned long long)link->sent);
    }
    link->acked = ack > link->acked ? ack : link->acked;
    while (link->kept != NULL && link->kept->number <= link->acked) {
        drop_first(link);
    }
    return KILN_STATUS_OK;
}

void kilni_rpc_link_detach(kilni_rpc_link *link, const kiln_error *status)
{
    kilni_rpc_stream_close(link->stream, status);
    link->stream = NULL;
}

void kilni_rpc_link_fini(kilni_rpc_link *link, const kiln_error *status)
{
    while (link->kept != NULL) {
        drop_first(link);
    }
    kilni_rpc_link_detach(link, status);
}

/// A stream that breaks is noted, and no failure: what was passed on is kept.
static kiln_status pass(kilni_rpc_link *link, const kilni_rpc_parcel *parcel, kiln_error *err)
{
    if (link->stream == NULL || link->cut) {
        return KILN_STATUS_OK;
    }
    link->why = (kiln_error)KILN_ERROR_INIT;
    kiln_status status = kilni_rpc_send(link->stream, parcel, &link->why);
    link->cut = status != KILN_STATUS_OK;
    if (link->cut && !link->resumable) {
        if (err != NULL) {
            *err = link->why;
        }
        return status;
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_rpc_link_attach(kilni_rpc_link *link, kilni_rpc_stream *stream, uint64_t arrived,
                                  kiln_error *err)
{
    kilni_rpc_link_detach(link, NULL);
    link->stream = stream;
    link->cut = false;
    if (arrived < link->acked) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "the other side has %llu frames, but acknowledged %llu before",
                         (unsigned long long)arrived, (unsigned long long)link->acked);
    }
    kiln_status status = take_ack(link, arrived, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    link->told = link->received;
    link->untold_bytes = 0;
    for (kilni_rpc_parcel *each = link->kept; each != NULL && !link->cut; each = each->next) {
        (void)!pass(link, each, err);
    }
    return KILN_STATUS_OK;
}

static void keep(kilni_rpc_link *link, kilni_rpc_parcel *parcel)
{
    *link->kept_end = parcel;
    link->kept_end = &parcel->next;
    link->kept_bytes += parcel->head_length + parcel->data_length;
}

kiln_status kilni_rpc_link_send(kilni_rpc_link *link, kilni_rpc_frame *frame, kiln_error *err)
{
    kilni_rpc_parcel *parcel = NULL;
    frame->body.ack = link->resumable ? link->received : 0;
    kiln_status status = kilni_rpc_frame_encode(link->env, frame, &parcel, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    parcel->number = ++link->sent;
    link->told = link->received;
    link->untold_bytes = 0;
    if (link->resumable) {
        keep(link, parcel);
    }
    status = pass(link, parcel, err);
    if (!link->resumable) {
        kilni_rpc_parcel_free(link->env, parcel);
    }
    return status;
}

/// Acknowledges alone when much has arrived and nothing was sent.
static void tell(kilni_rpc_link *link)
{
    kilni_rpc_parcel *parcel = NULL;
    kiln_error ignored = KILN_ERROR_INIT;
    if (!link->resumable ||
        (link->received - link->told < TELL_FRAMES && link->untold_bytes < KILNI_RPC_TELL_BYTES)) {
        return;
    }
    kilni_rpc_frame frame = {0};
    frame.body.ack = link->received;
    if (kilni_rpc_frame_encode(link->env, &frame, &parcel, &ignored) == KILN_STATUS_OK) {
        (void)!pass(link, parcel, &ignored);
    }
    kilni_rpc_parcel_free(link->env, parcel);
    link->told = link->received;
    link->untold_bytes = 0;
}

/// The next frame, whatever it is.
static kiln_status receive_any(kilni_rpc_link *link, int64_t timeout_ms, kilni_rpc_inbox *out_inbox,
                               bool *out_end, bool *out_only_ack, kiln_error *err)
{
    *out_end = false;
    *out_only_ack = false;
    if (link->stream == NULL || link->cut) {
        link->cut = true;
        return kiln_fail(err, UNAVAILABLE, "the connection is gone");
    }
    link->why = (kiln_error)KILN_ERROR_INIT;
    kiln_status status =
        kilni_rpc_receive(link->stream, timeout_ms, &out_inbox->message, out_end, &link->why);
    link->cut = status != KILN_STATUS_OK && kilni_rpc_is_broken(link->stream);
    // A connection that breaks looks like a client that has finished, but for the end of the call.
    if (*out_end && link->resumable && kilni_rpc_is_ended(link->stream, BREAK_MS)) {
        *out_end = false;
        link->cut = true;
        status = kiln_fail(&link->why, UNAVAILABLE, "the connection is gone");
    }
    if (status != KILN_STATUS_OK && err != NULL) {
        *err = link->why;
    }
    if (status != KILN_STATUS_OK || *out_end) {
        return status;
    }
    status = kilni_rpc_inbox_decode(link->env, out_inbox, err);
    const kilni_rpc_frame *frame = &out_inbox->frame;
    if (status == KILN_STATUS_OK) {
        status = take_ack(link, frame->body.ack, err);
    }
    *out_only_ack = status == KILN_STATUS_OK && frame->body.which_body == 0 &&
                    frame->body.request == 0 && frame->body.ack > 0;
    return status;
}

kiln_status kilni_rpc_link_take(kilni_rpc_link *link, int64_t timeout_ms,
                                kilni_rpc_inbox *out_inbox, bool *out_end, bool *out_only_ack,
                                kiln_error *err)
{
    kilni_rpc_inbox_clear(link->env, out_inbox);
    kiln_status status = receive_any(link, timeout_ms, out_inbox, out_end, out_only_ack, err);
    if (status == KILN_STATUS_OK && !*out_end && !*out_only_ack) {
        link->received++;
        link->untold_bytes += out_inbox->message.length;
        tell(link);
    }
    return status;
}

kiln_status kilni_rpc_link_receive(kilni_rpc_link *link, int64_t timeout_ms,
                                   kilni_rpc_inbox *out_inbox, bool *out_end, kiln_error *err)
{
    bool only_ack = true;
    kiln_status status = KILN_STATUS_OK;
    while (status == KILN_STATUS_OK && only_ack) {
        status = kilni_rpc_link_take(link, timeout_ms, out_inbox, out_end, &only_ack, err);
    }
    return status;
}

kiln_status kilni_rpc_greet(const kiln_env *env, kilni_rpc_stream *stream, kilni_rpc_frame *frame,
                            kiln_error *err)
{
    kilni_rpc_parcel *parcel = NULL;
    kiln_status status = kilni_rpc_frame_encode(env, frame, &parcel, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_send(stream, parcel, err);
    }
    kilni_rpc_parcel_free(env, parcel);
    return status;
}

kiln_status kilni_rpc_greeted(const kiln_env *env, kilni_rpc_stream *stream,
                              kilni_rpc_inbox *out_inbox, kiln_error *err)
{
    bool end = false;
    kiln_status status =
        kilni_rpc_receive(stream, KILNI_RPC_GREETING_MS, &out_inbox->message, &end, err);
    if (status == KILN_STATUS_OK && end) {
        status = kiln_fail(err, INVALID_ARGUMENT, "a session begins with Hello");
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_inbox_decode(env, out_inbox, err);
    }
    return status;
}
