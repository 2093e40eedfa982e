// SPDX-License-Identifier: MIT OR Apache-2.0
// A network over MPI: a thread stands in the hub for the ranks of the other processes. Networks of
// a process share MPI (mpi_process.c) and keep apart by their tags. Every message is a head of
// fixed size; data follows its head. Everything is polled, so that a process that dies stops
// nobody: it is missed when nothing has been heard of it for half the deadline. What is agreed on
// and who is late is decided in the hub, by every process alike.
#include "coll_mpi.h"
#include "mpi_process.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { TAG_HELLO, TAG_HEAD, TAG_DATA, TAGS };
// Of networks one after another, and of parts of them; MPI has 32767 tags at least.
enum { FIRST_TAG = 7701, TAG_SETS = 4096, FIRST_PART_TAG = FIRST_TAG + TAGS * TAG_SETS };
enum { MOST_AT_ONCE = 256 << 20 }; // bytes of one MPI message: its counts are ints
static const uint64_t beat_ns = 100000000;
static const uint64_t grace_ns = 300000000; // the judge decides on failures, if it answers in time
static const uint32_t protocol = 0x4b4c4e32;

typedef enum head_kind {
    HEAD_ARRIVE,
    HEAD_DATA,
    HEAD_FAIL,
    HEAD_PROPOSE,
    HEAD_LEAVE,
    HEAD_BEAT,
    HEAD_BYE
} head_kind;

/// Both ends are of one build: memory order and sizes are the same.
typedef struct head {
    uint32_t kind;
    uint32_t rank; ///< in whose name
    uint32_t peer; ///< DATA: for whom
    int32_t code; ///< FAIL, PROPOSE
    uint64_t sequence; ///< ARRIVE, DATA
    uint64_t bytes; ///< DATA
    kiln_coll_signature signature; ///< ARRIVE
    char text[232]; ///< FAIL, PROPOSE
} head;

typedef struct hello {
    uint32_t protocol;
    uint32_t local_ranks;
} hello;

/// Something that MPI works on: a head with or without data to a process, or data from one.
typedef struct job {
    struct job *next;
    bool is_receive;
    bool is_delivered; ///< received, and in the hub
    kiln_coll_message message; ///< of a receive
    head head; ///< of a send
    unsigned char *data;
    size_t n_requests;
    uint64_t requests[]; ///< storage for MPI's
} job;

typedef struct process {
    uint32_t first_rank;
    uint32_t local_ranks; ///< 0: the process is none of a part's
    uint64_t heard_ns;
    bool said_bye; ///< or has nothing to say
    job *beat; ///< the last one, while it is on its way
} process;

/// What is known of a rank here or elsewhere.
typedef struct rank_state {
    uint32_t process;
    uint64_t told; ///< the last call that it said it came to, or, here, that the others know of
    bool left; ///< said or heard
    kiln_coll_signature signatures[2]; ///< elsewhere: call n at n % 2; it is at most two ahead
} rank_state;

typedef enum phase { PHASE_STARTING, PHASE_READY, PHASE_FAILED } phase;

typedef struct mpi_network {
    kiln_coll_network base;
    const kiln_env *env;
    kilni_mpi mpi;
    int first_tag;
    uint32_t local_ranks;
    uint32_t self; ///< process
    uint32_t judge; ///< the process of rank 0, which decides on failures
    bool is_part; ///< its processes know each other already
    uint32_t n_processes;
    process *processes;
    uint32_t n_ranks;
    rank_state *ranks;
    job *jobs;
    bool told_failure;
    uint64_t proposed_ns; ///< when the judge was asked to decide; 0: not
    uint64_t next_beat_ns;
    uint64_t silence_ns; ///< after which a process counts as dead
    uint64_t deadline_ns;
    pthread_t thread;
    pthread_mutex_t lock; ///< guards what follows
    pthread_cond_t changed;
    phase phase;
    kiln_error error; ///< of starting
    kiln_coll_hub *hub; ///< NULL until attached
    bool stops;
} mpi_network;

// ---- jobs ----

/// MPI may write to it after the network has gone.
static job *job_create(size_t bytes)
{
    const kiln_env *env = kilni_mpi_env();
    size_t n_requests = 1 + (bytes + MOST_AT_ONCE - 1) / MOST_AT_ONCE;
    job *self = kiln_alloc(env, sizeof(*self) + n_requests * sizeof(self->requests[0]));
    if (self == NULL) {
        return NULL;
    }
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

static void job_free(job *self)
{
    kiln_free(kilni_mpi_env(), self->data);
    kiln_free(kilni_mpi_env(), self);
}

static void fail_own(mpi_network *net, kiln_status code, const char *what)
{
    kiln_error cause = KILN_ERROR_INIT;
    uint32_t rank = net->processes[net->self].first_rank;
    (void)kiln_error_set(&cause, code, KILN_FILE_NAME, __LINE__, "rank %u: %s: %s", rank,
                         net->mpi.name, what);
    kiln_coll_hub_propose(net->hub, rank, &cause);
}

static void post(mpi_network *net, job *self, void *data, size_t bytes, uint32_t peer, int tag)
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
        fail_own(net, KILN_STATUS_UNAVAILABLE, "a message could not be posted");
        return;
    }
    self->n_requests++;
}

/// Hands a job with its data to MPI.
static void start(mpi_network *net, job *self, uint32_t peer, size_t bytes)
{
    if (!self->is_receive) {
        post(net, self, &self->head, sizeof(self->head), peer, TAG_HEAD);
    }
    for (size_t done = 0; done < bytes; done += MOST_AT_ONCE) {
        size_t left = bytes - done;
        post(net, self, self->data + done, left < MOST_AT_ONCE ? left : MOST_AT_ONCE, peer,
             TAG_DATA);
    }
    self->next = net->jobs;
    net->jobs = self;
}

static job *send_head(mpi_network *net, uint32_t peer, const head *what)
{
    job *self = job_create(0);
    if (self == NULL) {
        fail_own(net, KILN_STATUS_RESOURCE_EXHAUSTED, "no memory for a message");
        return NULL;
    }
    self->head = *what;
    start(net, self, peer, 0);
    return self;
}

static void send_to_all(mpi_network *net, const head *what)
{
    for (uint32_t i = 0; i < net->n_processes; i++) {
        if (i != net->self && !net->processes[i].said_bye) {
            (void)send_head(net, i, what);
        }
    }
}

static int test_request(const mpi_network *net, uint64_t *request, int *out_flag)
{
    kilni_mpi_lock();
    int code = net->mpi.test(request, out_flag, net->mpi.status_ignore);
    kilni_mpi_unlock();
    return code;
}

/// Whether MPI is through with all parts of a job.
static bool is_through(mpi_network *net, job *self)
{
    while (self->n_requests > 0) {
        int flag = 0;
        if (test_request(net, &self->requests[self->n_requests - 1], &flag) != 0) {
            fail_own(net, KILN_STATUS_UNAVAILABLE, "a message was lost");
        } else if (flag == 0) {
            return false;
        }
        self->n_requests--;
    }
    return true;
}

/// Whether a receive that came before, from the same rank for the same one, is still on its way.
static bool must_wait(const mpi_network *net, const job *self)
{
    for (const job *other = net->jobs; other != self; other = other->next) {
        if (other->is_receive && !other->is_delivered &&
            other->message.sender == self->message.sender &&
            other->message.peer == self->message.peer) {
            return true;
        }
    }
    return false;
}

/// Jobs that have ended go; data that came is laid down in the hub, in the order of its heads.
static bool tend_jobs(mpi_network *net)
{
    bool active = false;
    for (job **link = &net->jobs; *link != NULL;) {
        job *self = *link;
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
        job_free(self);
        active = true;
    }
    return active;
}

// ---- what comes ----

/// Whether a rank belongs to the process that speaks in its name.
static bool is_of(const mpi_network *net, uint32_t rank, uint32_t owner)
{
    return rank < net->n_ranks && net->ranks[rank].process == owner;
}

/// Appends, so that what came first from a rank is delivered first.
static void expect_data(mpi_network *net, uint32_t from, const head *what)
{
    job *self = job_create((size_t)what->bytes);
    if (self == NULL) {
        fail_own(net, KILN_STATUS_RESOURCE_EXHAUSTED, "no memory for a message");
        return;
    }
    self->is_receive = true;
    self->message = (kiln_coll_message){.is_send = true,
                                        .sender = what->rank,
                                        .peer = what->peer,
                                        .sequence = what->sequence,
                                        .data = self->data,
                                        .bytes = (size_t)what->bytes};
    start(net, self, from, (size_t)what->bytes);
    job **link = &net->jobs;
    *link = self->next;
    self->next = NULL;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = self;
}

static void take_failure(mpi_network *net, const head *what)
{
    kiln_error cause = KILN_ERROR_INIT;
    (void)kiln_error_set(&cause, (kiln_status)what->code, KILN_FILE_NAME, __LINE__, "%.231s",
                         what->text);
    kiln_coll_hub_fail(net->hub, what->rank, &cause);
}

static void take_head(mpi_network *net, uint32_t from, const head *what)
{
    process *sender = &net->processes[from];
    sender->heard_ns = kiln_time_ns();
    bool valid = is_of(net, what->rank, from);
    switch ((head_kind)what->kind) {
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
static bool receive_head(const mpi_network *net, uint32_t from, head *out_head)
{
    const kilni_mpi *mpi = &net->mpi;
    int tag = net->first_tag + TAG_HEAD;
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
        head what;
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
    for (const job *self = net->jobs; self != NULL; self = self->next) {
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
        rank_state *state = &net->ranks[rank];
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
        rank_state *state = &net->ranks[rank];
        if (state->process != net->self) {
            continue;
        }
        kiln_coll_hub_arrival(net->hub, rank, &now);
        while (state->told < now.sequence) {
            state->told++;
            const head what = {.kind = HEAD_ARRIVE,
                               .rank = rank,
                               .sequence = state->told,
                               .signature = now.signatures[state->told % 2]};
            send_to_all(net, &what);
            active = true;
        }
        if (now.left && !state->left) {
            state->left = true;
            send_to_all(net, &(head){.kind = HEAD_LEAVE, .rank = rank});
            active = true;
        }
    }
    return active;
}

/// The bytes are copied, so that the sender need not wait for the network.
static void send_data(mpi_network *net, uint32_t owner, kiln_coll_message *message)
{
    job *self = job_create(message->bytes);
    if (self == NULL) {
        fail_own(net, KILN_STATUS_RESOURCE_EXHAUSTED, "no memory for a message");
        return;
    }
    self->head = (head){.kind = HEAD_DATA,
                        .rank = message->sender,
                        .peer = message->peer,
                        .sequence = message->sequence,
                        .bytes = message->bytes};
    memcpy(self->data, message->data, message->bytes);
    start(net, self, owner, message->bytes);
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
        head what = {.kind = HEAD_PROPOSE, .rank = (uint32_t)rank, .code = error.code};
        memcpy(what.text, error.message, sizeof(what.text));
        net->proposed_ns = kiln_time_ns();
        (void)send_head(net, net->judge, &what);
    }
}

static void tell_failure(mpi_network *net)
{
    int32_t rank = -1;
    kiln_error error = KILN_ERROR_INIT;
    if (net->told_failure || kiln_coll_hub_failure(net->hub, &rank, &error) == KILN_STATUS_OK) {
        return;
    }
    head what = {.kind = HEAD_FAIL, .rank = (uint32_t)rank, .code = error.code};
    memcpy(what.text, error.message, sizeof(what.text));
    net->told_failure = true;
    send_to_all(net, &what);
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
        process *other = &net->processes[i];
        if (i == net->self || other->said_bye) {
            continue;
        }
        if (other->beat == NULL) {
            other->beat = send_head(net, i, &(head){.kind = HEAD_BEAT});
        }
        if (now > other->heard_ns + net->silence_ns) {
            kiln_error cause = KILN_ERROR_INIT;
            (void)kiln_fail(&cause, UNAVAILABLE, "rank %u: its process is not heard of any more",
                            other->first_rank);
            kiln_coll_hub_propose(net->hub, other->first_rank, &cause);
        }
    }
}

// ---- the thread ----

static void rest(uint64_t ns)
{
    struct timespec pause = {.tv_nsec = (long)ns};
    nanosleep(&pause, NULL);
}

static bool serve_once(mpi_network *net)
{
    bool active = take_heads(net);
    active = tell_arrivals(net) || active;
    active = send_waiting(net) || active;
    active = tend_jobs(net) || active;
    act_for_others(net);
    decide_failure(net);
    tell_failure(net);
    beat(net);
    return active;
}

static bool is_stopping(mpi_network *net)
{
    pthread_mutex_lock(&net->lock);
    bool stops = net->stops;
    pthread_mutex_unlock(&net->lock);
    return stops;
}

static void serve(mpi_network *net)
{
    uint32_t idle = 0;
    while (!is_stopping(net)) {
        idle = serve_once(net) ? 0 : idle + 1;
        if (idle > 1000) {
            rest(500000);
        } else if (idle > 20) {
            rest(20000);
        }
    }
}

static bool all_said_bye(const mpi_network *net)
{
    for (uint32_t i = 0; i < net->n_processes; i++) {
        if (i != net->self && !net->processes[i].said_bye) {
            return false;
        }
    }
    return true;
}

/// Says goodbye and waits for the others' and for what is still on its way. False: not all of it
/// came, and MPI must not be ended, since that waits for it.
static bool part(mpi_network *net)
{
    uint64_t end_ns = kiln_time_ns() + net->deadline_ns;
    bool sound = net->hub == NULL || kiln_coll_hub_failure(net->hub, NULL, NULL) == KILN_STATUS_OK;
    if (net->hub == NULL) {
        return false;
    }
    (void)serve_once(net);
    for (uint32_t i = 0; i < net->n_processes; i++) {
        if (i != net->self && net->processes[i].local_ranks > 0) {
            (void)send_head(net, i, &(head){.kind = HEAD_BYE});
        }
    }
    while (sound && (!all_said_bye(net) || net->jobs != NULL)) {
        bool active = serve_once(net);
        sound = kiln_time_ns() < end_ns &&
                kiln_coll_hub_failure(net->hub, NULL, NULL) == KILN_STATUS_OK;
        if (!active) {
            rest(100000);
        }
    }
    for (int i = 0; i < 100 && !sound; i++) { // the last words may still go
        (void)serve_once(net);
        rest(100000);
    }
    return sound;
}

// ---- starting ----

/// Every process learns how many ranks each other one has.
static kiln_status exchange_hellos(mpi_network *net, hello *hellos, uint64_t *requests,
                                   kiln_error *err)
{
    hello *own = &hellos[net->self];
    int tag = net->first_tag + TAG_HELLO;
    int code = 0;
    *own = (hello){.protocol = protocol, .local_ranks = net->local_ranks};
    for (uint32_t i = 0; i < net->n_processes; i++) {
        if (i != net->self) {
            kilni_mpi_lock();
            code |= net->mpi.irecv(&hellos[i], sizeof(hello), net->mpi.byte, (int)i, tag,
                                   net->mpi.world, &requests[2 * i]);
            code |= net->mpi.isend(own, sizeof(hello), net->mpi.byte, (int)i, tag, net->mpi.world,
                                   &requests[2 * i + 1]);
            kilni_mpi_unlock();
        }
    }
    uint64_t end_ns = kiln_time_ns() + net->deadline_ns;
    for (uint32_t i = 0; i < 2 * net->n_processes && code == 0; i++) {
        int flag = i / 2 == net->self;
        while (flag == 0 && code == 0) {
            code = test_request(net, &requests[i], &flag);
            if (flag == 0 && kiln_time_ns() > end_ns) {
                return kiln_fail(err, DEADLINE_EXCEEDED,
                                 "process %u did not open its group before the deadline", i / 2);
            }
            if (flag == 0) {
                rest(100000);
            }
        }
    }
    return code == 0 ? KILN_STATUS_OK
                     : kiln_fail(err, UNAVAILABLE, "%s cannot reach all processes", net->mpi.name);
}

static kiln_status number_ranks(mpi_network *net, const hello *hellos, kiln_error *err)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < net->n_processes; i++) {
        if (hellos[i].protocol != protocol || hellos[i].local_ranks > 65536) {
            return kiln_fail(err, FAILED_PRECONDITION, "process %u runs another version of Kiln",
                             i);
        }
        net->processes[i].first_rank = total;
        net->processes[i].local_ranks = hellos[i].local_ranks;
        total += hellos[i].local_ranks;
    }
    net->ranks = kiln_alloc_array(net->env, total, sizeof(*net->ranks));
    if (net->ranks == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a group of %u ranks", total);
    }
    net->n_ranks = total;
    for (uint32_t i = 0; i < net->n_processes; i++) {
        for (uint32_t k = 0; k < net->processes[i].local_ranks; k++) {
            net->ranks[net->processes[i].first_rank + k].process = i;
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status meet(mpi_network *net, kiln_error *err)
{
    const kiln_env *env = kilni_mpi_env();
    kiln_status status = KILN_STATUS_OK;
    hello *hellos = kiln_alloc_array(env, net->n_processes, sizeof(*hellos));
    uint64_t *requests = kiln_alloc_array(env, 2 * (size_t)net->n_processes, sizeof(*requests));
    net->processes = kiln_alloc_array(net->env, net->n_processes, sizeof(*net->processes));
    if (hellos == NULL || requests == NULL || net->processes == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %u processes", net->n_processes);
        goto out;
    }
    KILN_TRY(out, status, exchange_hellos(net, hellos, requests, err));
    KILN_TRY(out, status, number_ranks(net, hellos, err));
out:
    if (status != KILN_STATUS_DEADLINE_EXCEEDED) { // then MPI may still write to them
        kiln_free(env, hellos);
        kiln_free(env, requests);
    }
    return status;
}

static void network_free(mpi_network *net)
{
    const kiln_env *env = net->env;
    while (net->jobs != NULL) {
        job *next = net->jobs->next;
        if (net->jobs->n_requests == 0) { // MPI may still write to the others
            job_free(net->jobs);
        }
        net->jobs = next;
    }
    pthread_cond_destroy(&net->changed);
    pthread_mutex_destroy(&net->lock);
    kiln_free(env, net->processes);
    kiln_free(env, net->ranks);
    kiln_free(env, net);
}

/// Waits for the hub, or for the end.
static void await_hub(mpi_network *net)
{
    pthread_mutex_lock(&net->lock);
    while (net->hub == NULL && !net->stops) {
        pthread_cond_wait(&net->changed, &net->lock);
    }
    pthread_mutex_unlock(&net->lock);
    uint64_t now = kiln_time_ns();
    for (uint32_t i = 0; i < net->n_processes; i++) {
        net->processes[i].heard_ns = now + net->deadline_ns; // others may attach later than we do
    }
}

static void *run(void *user)
{
    mpi_network *net = user;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = net->is_part ? KILN_STATUS_OK : meet(net, &err);
    pthread_mutex_lock(&net->lock);
    net->phase = status == KILN_STATUS_OK ? PHASE_READY : PHASE_FAILED;
    net->error = err;
    pthread_cond_broadcast(&net->changed);
    pthread_mutex_unlock(&net->lock);
    bool sound = false;
    if (status == KILN_STATUS_OK) {
        await_hub(net);
        if (net->hub != NULL) {
            serve(net);
        }
        sound = part(net);
    }
    kilni_mpi_leave(sound);
    return NULL;
}

// ---- the table ----

static kiln_status network_attach(kiln_coll_network *network, kiln_coll_hub *hub,
                                  uint64_t deadline_ns, kiln_error *err)
{
    mpi_network *net = (mpi_network *)network;
    (void)err;
    pthread_mutex_lock(&net->lock);
    net->deadline_ns = deadline_ns;
    uint64_t least = deadline_ns < 1000000000 ? deadline_ns : 1000000000;
    net->silence_ns = deadline_ns / 2 > least ? deadline_ns / 2 : least;
    net->hub = hub;
    pthread_cond_broadcast(&net->changed);
    pthread_mutex_unlock(&net->lock);
    return KILN_STATUS_OK;
}

static void network_detach(kiln_coll_network *network)
{
    mpi_network *net = (mpi_network *)network;
    pthread_mutex_lock(&net->lock);
    net->stops = true;
    pthread_cond_broadcast(&net->changed);
    pthread_mutex_unlock(&net->lock);
    pthread_join(net->thread, NULL);
    network_free(net);
}

static uint32_t network_next_part(kiln_coll_network *network)
{
    (void)network;
    return kilni_mpi_next_part();
}

static kiln_status network_part(kiln_coll_network *network, const uint32_t *ranks, uint32_t count,
                                uint32_t number, kiln_coll_network **out_network, kiln_error *err);

static const kiln_coll_network_ops network_ops = {
    .struct_size = (uint32_t)sizeof(kiln_coll_network_ops),
    .name = "mpi",
    .attach = network_attach,
    .detach = network_detach,
    .next_part = network_next_part,
    .part = network_part,
};

static void network_init(mpi_network *net, const kiln_env *env, const kilni_mpi_process *own,
                         int first_tag)
{
    pthread_mutex_init(&net->lock, NULL);
    pthread_cond_init(&net->changed, NULL);
    net->base.ops = &network_ops;
    net->env = env;
    net->mpi = own->mpi;
    net->self = own->self;
    net->n_processes = own->count;
    net->first_tag = first_tag + TAGS * (int)(own->network % TAG_SETS);
}

/// On failure the network is freed.
static kiln_status start_network(mpi_network *net, kiln_error *err)
{
    if (pthread_create(&net->thread, NULL, run, net) != 0) {
        kilni_mpi_leave(/*sound=*/true);
        network_free(net);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for a network");
    }
    return KILN_STATUS_OK;
}

// ---- parts ----

/// Which of the processes are in the part, and with which ranks.
static void number_part(mpi_network *net, const mpi_network *whole, const uint32_t *ranks)
{
    for (uint32_t i = 0; i < net->n_ranks; i++) {
        uint32_t owner = whole->ranks[ranks[i]].process;
        process *of = &net->processes[owner];
        net->ranks[i].process = owner;
        of->first_rank = of->local_ranks == 0 ? i : of->first_rank;
        of->local_ranks++;
    }
    for (uint32_t i = 0; i < net->n_processes; i++) {
        net->processes[i].said_bye = net->processes[i].local_ranks == 0;
    }
    net->local_ranks = net->processes[net->self].local_ranks;
    net->judge = net->ranks[0].process;
}

static kiln_status network_part(kiln_coll_network *network, const uint32_t *ranks, uint32_t count,
                                uint32_t number, kiln_coll_network **out_network, kiln_error *err)
{
    const mpi_network *whole = (const mpi_network *)network;
    kilni_mpi_process own;
    mpi_network *net = kiln_alloc(whole->env, sizeof(*net));
    *out_network = NULL;
    if (net == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a network");
    }
    kilni_mpi_enter_part(number, &own);
    network_init(net, whole->env, &own, FIRST_PART_TAG);
    net->is_part = true;
    net->n_ranks = count;
    net->processes = kiln_alloc_array(net->env, net->n_processes, sizeof(*net->processes));
    net->ranks = kiln_alloc_array(net->env, count, sizeof(*net->ranks));
    if (net->processes == NULL || net->ranks == NULL) {
        kilni_mpi_leave(/*sound=*/true);
        network_free(net);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a group of %u ranks", count);
    }
    number_part(net, whole, ranks);
    kiln_status status = start_network(net, err);
    *out_network = status == KILN_STATUS_OK ? &net->base : NULL;
    return status;
}

/// Waits until all processes have met, or one has not come by the deadline.
static kiln_status await_ready(mpi_network *net, kiln_error *err)
{
    pthread_mutex_lock(&net->lock);
    while (net->phase == PHASE_STARTING) {
        pthread_cond_wait(&net->changed, &net->lock);
    }
    bool failed = net->phase == PHASE_FAILED;
    kiln_error error = net->error;
    pthread_mutex_unlock(&net->lock);
    if (failed) {
        pthread_join(net->thread, NULL);
        network_free(net);
        if (err != NULL) {
            *err = error;
        }
    }
    return failed ? (kiln_status)error.code : KILN_STATUS_OK;
}

static uint32_t common_ranks(const mpi_network *net)
{
    for (uint32_t i = 1; i < net->n_processes; i++) {
        if (net->processes[i].local_ranks != net->processes[0].local_ranks) {
            return 0;
        }
    }
    return net->processes[0].local_ranks;
}

KILN_API kiln_status kiln_coll_mpi_open(const kiln_env *env, uint32_t local_ranks,
                                        uint64_t deadline_ns, kiln_coll_network **out_network,
                                        kiln_coll_place *out_place, kiln_error *err)
{
    kilni_mpi_process own;
    *out_network = NULL;
    mpi_network *net = kiln_alloc(env, sizeof(*net));
    if (net == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a network");
    }
    kiln_status status = kilni_mpi_enter(deadline_ns, &own, err);
    if (status != KILN_STATUS_OK) {
        kiln_free(env, net);
        return status;
    }
    network_init(net, env, &own, FIRST_TAG);
    net->local_ranks = local_ranks;
    net->deadline_ns = deadline_ns;
    status = start_network(net, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = await_ready(net, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    *out_place = (kiln_coll_place){.first_rank = net->processes[net->self].first_rank,
                                   .ranks = net->n_ranks,
                                   .ranks_per_node = common_ranks(net)};
    *out_network = &net->base;
    return KILN_STATUS_OK;
}
