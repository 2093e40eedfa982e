// SPDX-License-Identifier: MIT OR Apache-2.0
// The delayed transport: sleeps, copies, and then asks the one inside.
#include "coll_delayed.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static kiln_coll_transport *delay(kiln_coll_transport *transport)
{
    delayed_transport *self = (delayed_transport *)transport;
    uint64_t number = atomic_fetch_add(&self->steps, 0x9e3779b97f4a7c15u);
    uint64_t random = kiln_hash64(&number, sizeof(number), 0);
    struct timespec pause = {.tv_nsec = (long)(random % self->delay_us) * 1000};
    nanosleep(&pause, NULL);
    return self->inner;
}

static kiln_coll_transport *inner_of(kiln_coll_transport *transport)
{
    return ((delayed_transport *)transport)->inner;
}

/// The sender's own pointer comes back, for what it does next with it.
static void give_back(kiln_coll_message *message)
{
    if (message->is_send && message->handle != NULL) {
        free(message->data);
        message->data = message->handle;
        message->handle = NULL;
    }
}

static kiln_status delayed_agree(kiln_coll_transport *transport, uint64_t sequence,
                                 const kiln_coll_signature *signature, uint64_t deadline_ns,
                                 kiln_error *err)
{
    kiln_coll_transport *inner = delay(transport);
    return inner->ops->agree(inner, sequence, signature, deadline_ns, err);
}

static kiln_status delayed_post(kiln_coll_transport *transport, kiln_coll_message *message,
                                kiln_error *err)
{
    kiln_coll_transport *inner = delay(transport);
    if (message->is_send) {
        void *copy = malloc(message->bytes);
        if (copy == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a copy");
        }
        memcpy(copy, message->data, message->bytes);
        message->handle = message->data;
        message->data = copy;
    }
    kiln_status status = inner->ops->post(inner, message, err);
    if (status != KILN_STATUS_OK) {
        give_back(message);
    }
    return status;
}

static kiln_status delayed_wait(kiln_coll_transport *transport, kiln_coll_message *message,
                                uint64_t deadline_ns, kiln_error *err)
{
    kiln_coll_transport *inner = delay(transport);
    kiln_status status = inner->ops->wait(inner, message, deadline_ns, err);
    if (status == KILN_STATUS_OK) {
        give_back(message);
    }
    return status;
}

static void delayed_cancel(kiln_coll_transport *transport, kiln_coll_message *message)
{
    kiln_coll_transport *inner = inner_of(transport);
    inner->ops->cancel(inner, message);
    give_back(message);
}

static void delayed_abort(kiln_coll_transport *transport, const kiln_error *cause)
{
    kiln_coll_transport *inner = inner_of(transport);
    inner->ops->abort(inner, cause);
}

static kiln_status delayed_failure(kiln_coll_transport *transport, int32_t *out_rank,
                                   kiln_error *err)
{
    kiln_coll_transport *inner = inner_of(transport);
    return inner->ops->failure(inner, out_rank, err);
}

static void delayed_leave(kiln_coll_transport *transport)
{
    kiln_coll_transport *inner = inner_of(transport);
    inner->ops->leave(inner);
}

static kiln_status delayed_accept(kiln_coll_transport *transport, kiln_coll_message *message,
                                  uint64_t deadline_ns, kiln_error *err)
{
    kiln_coll_transport *inner = delay(transport);
    return inner->ops->accept(inner, message, deadline_ns, err);
}

static void delayed_release(kiln_coll_transport *transport, kiln_coll_message *message)
{
    kiln_coll_transport *inner = delay(transport);
    inner->ops->release(inner, message);
}

static const kiln_coll_transport_ops delayed_ops = {
    .struct_size = (uint32_t)sizeof(kiln_coll_transport_ops),
    .name = "delayed",
    .agree = delayed_agree,
    .post = delayed_post,
    .wait = delayed_wait,
    .cancel = delayed_cancel,
    .abort = delayed_abort,
    .failure = delayed_failure,
    .leave = delayed_leave,
    .accept = delayed_accept,
    .release = delayed_release,
};

void delayed_init(delayed_transport *transport, kiln_coll_transport *inner, uint32_t rank,
                  uint32_t delay_us)
{
    *transport = (delayed_transport){
        .base = {.ops = &delayed_ops}, .inner = inner, .steps = rank + 1, .delay_us = delay_us};
}
