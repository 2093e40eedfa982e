// SPDX-License-Identifier: MIT OR Apache-2.0
// A network over MPI: a thread stands in the hub for the ranks of the other processes. Networks of
// a process share MPI (mpi_process.c) and keep apart by their tags. What is said and heard is
// mpi_heads.c's, how messages go mpi_jobs.c's; this file has the thread's life, how processes meet,
// and the table. Everything is polled, so that a process that dies stops nobody.
#include "coll_mpi.h"
#include "mpi_network.h"

#include <time.h>

// Of networks one after another, and of parts of them; MPI has 32767 tags at least.
enum { FIRST_TAG = 7701, TAG_SETS = 4096, FIRST_PART_TAG = FIRST_TAG + KILNI_MPI_TAGS * TAG_SETS };
static const uint32_t protocol = 0x4b4c4e32;

typedef struct hello {
    uint32_t protocol;
    uint32_t local_ranks;
} hello;

// ---- the thread ----

static void rest(uint64_t ns)
{
    struct timespec pause = {.tv_nsec = (long)ns};
    nanosleep(&pause, NULL);
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
        idle = kilni_mpi_serve_once(net) ? 0 : idle + 1;
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
    (void)kilni_mpi_serve_once(net);
    for (uint32_t i = 0; i < net->n_processes; i++) {
        if (i != net->self && net->processes[i].local_ranks > 0) {
            (void)kilni_mpi_send_head(net, i, &(mpi_head){.kind = HEAD_BYE});
        }
    }
    while (sound && (!all_said_bye(net) || net->jobs != NULL)) {
        bool active = kilni_mpi_serve_once(net);
        sound = kiln_time_ns() < end_ns &&
                kiln_coll_hub_failure(net->hub, NULL, NULL) == KILN_STATUS_OK;
        if (!active) {
            rest(100000);
        }
    }
    for (int i = 0; i < 100 && !sound; i++) { // the last words may still go
        (void)kilni_mpi_serve_once(net);
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
    int tag = net->first_tag + KILNI_MPI_TAG_HELLO;
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
            code = kilni_mpi_test(net, &requests[i], &flag);
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
        mpi_job *next = net->jobs->next;
        if (net->jobs->n_requests == 0) { // MPI may still write to the others
            kilni_mpi_job_free(net->jobs);
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
    net->first_tag = first_tag + KILNI_MPI_TAGS * (int)(own->network % TAG_SETS);
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
        mpi_peer *of = &net->processes[owner];
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
