// SPDX-License-Identifier: MIT OR Apache-2.0
// Jobs: messages that MPI works on for a network, from their posting to their end. Decides how long
// data is cut into messages of MPI, and in which order what came goes to the hub.

#include "mpi_network.h"

enum { MOST_AT_ONCE = 256 << 20 }; // bytes of one MPI message: its counts are ints

/// MPI may write to it after the network has gone.
mpi_job *kilni_mpi_job_create(size_t bytes)
{
    const kiln_env *env = kilni_mpi_env();
    size_t n_requests = 1 + (bytes + MOST_AT_ONCE - 1) / MOST_AT_ONCE;
    mpi_job *self = kiln_alloc(env, sizeof(*self) + n_requests * sizeof(self->requests[0]));
    if (self == NULL) {
        return NULL;
    }
    self->requests = (uint64_t *)(self + 1);
    if (bytes > 0) {
        const kiln_allocator *allocator = &env->allocator;
        self->data = allocator->alloc(allocator->user, bytes, /*alignment=*/64);
        if (self->data == NULL) {
            kiln_free(env, self);
            return NULL;
        }
    }
    return self;
}

void kilni_mpi_job_free(mpi_job *self)
{
    kiln_free(kilni_mpi_env(), self->data);
    kiln_free(kilni_mpi_env(), self);
}

void kilni_mpi_fail_own(mpi_network *net, kiln_status code, const char *what)
{
    kiln_error cause = KILN_ERROR_INIT;
    uint32_t rank = net->processes[net->self].first_rank;
    (void)kiln_error_set(&cause, code, KILN_FILE_NAME, __LINE__, "rank %u: %s: %s", rank,
                         net->mpi.name, what);
    kiln_coll_hub_propose(net->hub, rank, &cause);
}

static void post(mpi_network *net, mpi_job *self, void *data, size_t bytes, uint32_t peer, int tag)
{
    uint64_t *request = &self->requests[self->n_requests];
    tag += net->first_tag;
    kilni_mpi_lock();
    int code = self->is_receive ? net->mpi.irecv(data, (int)bytes, net->mpi.byte, (int)peer, tag,
                                                 net->mpi.world, request)
                                : net->mpi.isend(data, (int)bytes, net->mpi.byte, (int)peer, tag,
                                                 net->mpi.world, request);
    kilni_mpi_unlock();
    if (code != 0) {
        kilni_mpi_fail_own(net, KILN_STATUS_UNAVAILABLE, "a message could not be posted");
        return;
    }
    self->n_requests++;
}

/// Hands a job with its data to MPI.
void kilni_mpi_job_start(mpi_network *net, mpi_job *self, uint32_t peer, size_t bytes)
{
    if (!self->is_receive) {
        post(net, self, &self->head, sizeof(self->head), peer, KILNI_MPI_TAG_HEAD);
    }
    for (size_t done = 0; done < bytes; done += MOST_AT_ONCE) {
        size_t left = bytes - done;
        post(net, self, self->data + done, left < MOST_AT_ONCE ? left : MOST_AT_ONCE, peer,
             KILNI_MPI_TAG_DATA);
    }
    self->next = net->jobs;
    net->jobs = self;
}

mpi_job *kilni_mpi_send_head(mpi_network *net, uint32_t peer, const mpi_head *what)
{
    mpi_job *self = kilni_mpi_job_create(0);
    if (self == NULL) {
        kilni_mpi_fail_own(net, KILN_STATUS_RESOURCE_EXHAUSTED, "no memory for a message");
        return NULL;
    }
    self->head = *what;
    kilni_mpi_job_start(net, self, peer, 0);
    return self;
}

void kilni_mpi_send_to_all(mpi_network *net, const mpi_head *what)
{
    for (uint32_t i = 0; i < net->n_processes; i++) {
        if (i != net->self && !net->processes[i].said_bye) {
            (void)kilni_mpi_send_head(net, i, what);
        }
    }
}

int kilni_mpi_test(const mpi_network *net, uint64_t *request, int *out_flag)
{
    kilni_mpi_lock();
    int code = net->mpi.test(request, out_flag, net->mpi.status_ignore);
    kilni_mpi_unlock();
    return code;
}

/// Whether MPI is through with all parts of a job.
static bool is_through(mpi_network *net, mpi_job *self)
{
    while (self->n_requests > 0) {
        int flag = 0;
        if (kilni_mpi_test(net, &self->requests[self->n_requests - 1], &flag) != 0) {
            kilni_mpi_fail_own(net, KILN_STATUS_UNAVAILABLE, "a message was lost");
        } else if (flag == 0) {
            return false;
        }
        self->n_requests--;
    }
    return true;
}

/// Whether a receive that came before, from the same rank for the same one, is still on its way.
static bool must_wait(const mpi_network *net, const mpi_job *self)
{
    for (const mpi_job *other = net->jobs; other != self; other = other->next) {
        if (other->is_receive && !other->is_delivered &&
            other->message.sender == self->message.sender &&
            other->message.peer == self->message.peer) {
            return true;
        }
    }
    return false;
}

/// Jobs that have ended go; data that came is laid down in the hub, in the order of its heads.
bool kilni_mpi_tend_jobs(mpi_network *net)
{
    bool active = false;
    for (mpi_job **link = &net->jobs; *link != NULL;) {
        mpi_job *self = *link;
        bool ended = is_through(net, self);
        if (ended && self->is_receive && !self->is_delivered && !must_wait(net, self)) {
            kiln_coll_hub_deliver(net->hub, &self->message);
            self->is_delivered = true;
            active = true;
        }
        if (ended && self->is_receive) {
            ended = self->is_delivered && kiln_coll_hub_delivered(net->hub, &self->message);
        }
        if (!ended) {
            link = &self->next;
            continue;
        }
        for (uint32_t i = 0; i < net->n_processes; i++) {
            net->processes[i].beat = net->processes[i].beat == self ? NULL : net->processes[i].beat;
        }
        *link = self->next;
        kilni_mpi_job_free(self);
        active = true;
    }
    return active;
}
