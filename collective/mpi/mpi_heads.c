// SPDX-License-Identifier: MIT OR Apache-2.0
// What a network says to the other processes and hears of them: heads, and the data behind them.
// Decides when a rank elsewhere arrives and leaves in the hub here, who decides on failures, and
// which process is missed.

#include "mpi_network.h"

#include <string.h>

static const uint64_t beat_ns = 100000000;
static const uint64_t grace_ns = 300000000; // the judge decides on failures, if it answers in time

// ---- what comes ----

/// Whether a rank belongs to the process that speaks in its name.
static bool is_of(const mpi_network *net, uint32_t rank, uint32_t owner)
{
    return rank < net->n_ranks && net->ranks[rank].process == owner;
}

/// Appends, so that what came first from a rank is delivered first.
static void expect_data(mpi_network *net, uint32_t from, const mpi_head *what)
{
    mpi_job *self = kilni_mpi_job_create((size_t)what->bytes);
    if (self == NULL) {
        kilni_mpi_fail_own(net, KILN_STATUS_RESOURCE_EXHAUSTED, "no memory for a message");
        return;
    }
    self->is_receive = true;
    self->message = (kiln_coll_message){.is_send = true,
                                        .sender = what->rank,
                                        .peer = what->peer,
                                        .sequence = what->sequence,
                                        .data = self->data,
                                        .bytes = (size_t)what->bytes};
    kilni_mpi_job_start(net, self, from, (size_t)what->bytes);
    mpi_job **link = &net->jobs;
    *link = self->next;
    self->next = NULL;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = self;
}

static void take_failure(mpi_network *net, const mpi_head *what)
{
    kiln_error cause = KILN_ERROR_INIT;
    (void)kiln_error_set(&cause, (kiln_status)what->code, KILN_FILE_NAME, __LINE__, "%.231s",
                         what->text);
    kiln_coll_hub_fail(net->hub, what->rank, &cause);
}

static void take_head(mpi_network *net, uint32_t from, const mpi_head *what)
{
    mpi_peer *sender = &net->processes[from];
    sender->heard_ns = kiln_time_ns();
    bool valid = is_of(net, what->rank, from);
    switch ((mpi_head_kind)what->kind) {
    case HEAD_ARRIVE:
        if (valid) {
            net->ranks[what->rank].told = what->sequence;
            net->ranks[what->rank].signatures[what->sequence % 2] = what->signature;
        }
        break;
    case HEAD_DATA:
        if (valid && is_of(net, what->peer, net->self)) {
            expect_data(net, from, what);
        }
        break;
    case HEAD_FAIL:
    case HEAD_PROPOSE:
        if (what->rank < net->n_ranks && what->code != KILN_STATUS_OK) {
            take_failure(net, what);
        }
        break;
    case HEAD_LEAVE:
        if (valid) {
            net->ranks[what->rank].left = true;
        }
        break;
    case HEAD_BYE:
        sender->said_bye = true;
        break;
    case HEAD_BEAT:
        break;
    }
}

/// The next head of a process, if one has come.
static bool receive_head(const mpi_network *net, uint32_t from, mpi_head *out_head)
{
    const kilni_mpi *mpi = &net->mpi;
    int tag = net->first_tag + KILNI_MPI_TAG_HEAD;
    int flag = 0;
    kilni_mpi_lock();
    bool came = mpi->iprobe((int)from, tag, mpi->world, &flag, mpi->status_ignore) == 0 &&
                flag != 0 &&
                mpi->recv(out_head, sizeof(*out_head), mpi->byte, (int)from, tag, mpi->world,
                          mpi->status_ignore) == 0;
    kilni_mpi_unlock();
    return came;
}

static bool take_heads(mpi_network *net)
{
    bool active = false;
    for (uint32_t i = 0; i < net->n_processes; i++) {
        mpi_head what;
        bool speaks = i != net->self && net->processes[i].local_ranks > 0;
        for (int n = 0; n < 64 && speaks && receive_head(net, i, &what); n++) {
            what.text[sizeof(what.text) - 1] = '\0';
            take_head(net, i, &what);
            active = true;
        }
    }
    return active;
}

static bool has_data_on_its_way(const mpi_network *net, uint32_t rank)
{
    for (const mpi_job *self = net->jobs; self != NULL; self = self->next) {
        if (self->is_receive && !self->is_delivered && self->message.sender == rank) {
            return true;
        }
    }
    return false;
}

/// A rank elsewhere may be a call ahead: it arrives in the hub when that call's time has come. It
/// leaves when its last call has begun and all that it sent is here.
static void act_for_others(mpi_network *net)
{
    for (uint32_t rank = 0; rank < net->n_ranks; rank++) {
        mpi_rank *state = &net->ranks[rank];
        kiln_coll_arrival now;
        if (state->process == net->self) {
            continue;
        }
        kiln_coll_hub_arrival(net->hub, rank, &now);
        uint64_t next = now.sequence + 1;
        if (state->told >= next && next == now.agreed + 1) {
            kiln_coll_hub_arrive(net->hub, rank, next, &state->signatures[next % 2]);
            now.sequence = next;
        }
        if (state->left && !now.left && now.sequence == state->told &&
            !has_data_on_its_way(net, rank)) {
            kiln_coll_hub_leave(net->hub, rank);
        }
    }
}

// ---- what goes ----

static bool tell_arrivals(mpi_network *net)
{
    bool active = false;
    for (uint32_t rank = 0; rank < net->n_ranks; rank++) {
        kiln_coll_arrival now;
        mpi_rank *state = &net->ranks[rank];
        if (state->process != net->self) {
            continue;
        }
        kiln_coll_hub_arrival(net->hub, rank, &now);
        while (state->told < now.sequence) {
            state->told++;
            const mpi_head what = {.kind = HEAD_ARRIVE,
                                   .rank = rank,
                                   .sequence = state->told,
                                   .signature = now.signatures[state->told % 2]};
            kilni_mpi_send_to_all(net, &what);
            active = true;
        }
        if (now.left && !state->left) {
            state->left = true;
            kilni_mpi_send_to_all(net, &(mpi_head){.kind = HEAD_LEAVE, .rank = rank});
            active = true;
        }
    }
    return active;
}

/// The bytes are copied, so that the sender need not wait for the network.
static void send_data(mpi_network *net, uint32_t owner, kiln_coll_message *message)
{
    mpi_job *self = kilni_mpi_job_create(message->bytes);
    if (self == NULL) {
        kilni_mpi_fail_own(net, KILN_STATUS_RESOURCE_EXHAUSTED, "no memory for a message");
        return;
    }
    self->head = (mpi_head){.kind = HEAD_DATA,
                            .rank = message->sender,
                            .peer = message->peer,
                            .sequence = message->sequence,
                            .bytes = message->bytes};
    memcpy(self->data, message->data, message->bytes);
    kilni_mpi_job_start(net, self, owner, message->bytes);
}

static bool send_waiting(mpi_network *net)
{
    bool active = false;
    for (uint32_t rank = 0; rank < net->n_ranks; rank++) {
        uint32_t owner = net->ranks[rank].process;
        kiln_coll_message *message = NULL;
        while (owner != net->self && (message = kiln_coll_hub_take(net->hub, rank)) != NULL) {
            send_data(net, owner, message);
            kiln_coll_hub_sent(net->hub, message);
            active = true;
        }
    }
    return active;
}

/// What went wrong becomes the group's failure when the process of rank 0 says so, which takes the
/// first that it hears of: so all report the same. Where it does not answer, it is what was found
/// here.
static void decide_failure(mpi_network *net)
{
    int32_t rank = -1;
    kiln_error error = KILN_ERROR_INIT;
    if (!kiln_coll_hub_proposal(net->hub, &rank, &error)) {
        return;
    }
    if (net->self == net->judge ||
        (net->proposed_ns != 0 && kiln_time_ns() > net->proposed_ns + grace_ns)) {
        kiln_coll_hub_fail(net->hub, (uint32_t)rank, &error);
    } else if (net->proposed_ns == 0) {
        mpi_head what = {.kind = HEAD_PROPOSE, .rank = (uint32_t)rank, .code = error.code};
        memcpy(what.text, error.message, sizeof(what.text));
        net->proposed_ns = kiln_time_ns();
        (void)kilni_mpi_send_head(net, net->judge, &what);
    }
}

static void tell_failure(mpi_network *net)
{
    int32_t rank = -1;
    kiln_error error = KILN_ERROR_INIT;
    if (net->told_failure || kiln_coll_hub_failure(net->hub, &rank, &error) == KILN_STATUS_OK) {
        return;
    }
    mpi_head what = {.kind = HEAD_FAIL, .rank = (uint32_t)rank, .code = error.code};
    memcpy(what.text, error.message, sizeof(what.text));
    net->told_failure = true;
    kilni_mpi_send_to_all(net, &what);
}

/// Tells the others that this process lives, and misses those who do not.
static void beat(mpi_network *net)
{
    uint64_t now = kiln_time_ns();
    if (now < net->next_beat_ns) {
        return;
    }
    net->next_beat_ns = now + beat_ns;
    for (uint32_t i = 0; i < net->n_processes; i++) {
        mpi_peer *other = &net->processes[i];
        if (i == net->self || other->said_bye) {
            continue;
        }
        if (other->beat == NULL) {
            other->beat = kilni_mpi_send_head(net, i, &(mpi_head){.kind = HEAD_BEAT});
        }
        if (now > other->heard_ns + net->silence_ns) {
            kiln_error cause = KILN_ERROR_INIT;
            (void)kiln_fail(&cause, UNAVAILABLE, "rank %u: its process is not heard of any more",
                            other->first_rank);
            kiln_coll_hub_propose(net->hub, other->first_rank, &cause);
        }
    }
}

// ---- all of it ----

bool kilni_mpi_serve_once(mpi_network *net)
{
    bool active = take_heads(net);
    active = tell_arrivals(net) || active;
    active = send_waiting(net) || active;
    active = kilni_mpi_tend_jobs(net) || active;
    act_for_others(net);
    decide_failure(net);
    tell_failure(net);
    beat(net);
    return active;
}
