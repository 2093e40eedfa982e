// SPDX-License-Identifier: MIT OR Apache-2.0
// MPI's one life in a process. A thread of its own starts it and, when the process exits, ends it:
// the standard wants both from one thread, and allows neither a second time. So what is known here
// is the process's and not a context's; the library stays loaded.
#include "mpi_process.h"

#include "base_wait.h"

#include <pthread.h>
#include <stdlib.h>

typedef enum mpi_phase { MPI_UNUSED, MPI_STARTING, MPI_STARTED, MPI_REFUSED } mpi_phase;

static struct {
    pthread_mutex_t calls; ///< who has it may call MPI
    pthread_mutex_t lock; ///< guards what follows
    pthread_cond_t changed;
    mpi_phase phase;
    kiln_error error; ///< of starting
    kiln_env env;
    kilni_mpi_process process;
    pthread_t keeper;
    bool is_ours; ///< MPI was started here
    bool ends; ///< when the process exits
    bool exits;
    bool unsound;
    uint32_t users; ///< networks
    uint32_t next_part; ///< above the numbers of all parts that this process is in
} once = {
    .calls = PTHREAD_MUTEX_INITIALIZER,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

static kiln_status start_mpi(kilni_mpi_process *process, bool *out_is_ours, kiln_error *err)
{
    kilni_mpi *mpi = &process->mpi;
    int flag = 0;
    int provided = 0;
    int self = 0;
    int size = 0;
    kiln_status status = kilni_mpi_load(&once.env, mpi, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (mpi->initialized(&flag) != 0) {
        return kiln_fail(err, UNAVAILABLE, "%s cannot be asked", mpi->name);
    }
    if (flag != 0 && (mpi->query_thread(&provided) != 0 || provided < KILNI_MPI_THREAD_MULTIPLE)) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "MPI was started without MPI_THREAD_MULTIPLE, which Kiln's threads need");
    }
    *out_is_ours = flag == 0;
    if (flag == 0 && (mpi->init_thread(NULL, NULL, KILNI_MPI_THREAD_SERIALIZED, &provided) != 0 ||
                      provided < KILNI_MPI_THREAD_SERIALIZED)) {
        return kiln_fail(err, UNAVAILABLE, "%s does not start", mpi->name);
    }
    if (mpi->comm_set_errhandler(mpi->world, mpi->errors_return) != 0 ||
        mpi->comm_rank(mpi->world, &self) != 0 || mpi->comm_size(mpi->world, &size) != 0) {
        return kiln_fail(err, UNAVAILABLE, "%s tells no rank", mpi->name);
    }
    process->self = (uint32_t)self;
    process->count = (uint32_t)size;
    return KILN_STATUS_OK;
}

static void *keep(void *user)
{
    kilni_mpi_process process = {.network = 0};
    kiln_error err = KILN_ERROR_INIT;
    bool is_ours = false;
    (void)user;
    kiln_status status = start_mpi(&process, &is_ours, &err);
    pthread_mutex_lock(&once.lock);
    once.process = process;
    once.is_ours = is_ours;
    once.error = err;
    once.phase = status == KILN_STATUS_OK ? MPI_STARTED : MPI_REFUSED;
    pthread_cond_broadcast(&once.changed);
    while (status == KILN_STATUS_OK && !once.exits) {
        pthread_cond_wait(&once.changed, &once.lock);
    }
    bool ends = status == KILN_STATUS_OK && is_ours && once.users == 0 && !once.unsound;
    pthread_mutex_unlock(&once.lock);
    if (ends) {
        (void)process.mpi.finalize();
    }
    if (status != KILN_STATUS_OK) { // nobody waits for this thread
        pthread_detach(pthread_self());
    }
    return NULL;
}

static void end_with_process(void)
{
    pthread_mutex_lock(&once.lock);
    once.exits = true;
    pthread_cond_broadcast(&once.changed);
    pthread_mutex_unlock(&once.lock);
    pthread_join(once.keeper, NULL);
}

/// Under the lock.
static kiln_status start_keeper(kiln_error *err)
{
    once.env.allocator = kiln_allocator_default();
    kiln_cond_init(&once.changed);
    if (pthread_create(&once.keeper, NULL, keep, NULL) != 0) {
        pthread_cond_destroy(&once.changed);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for MPI");
    }
    once.phase = MPI_STARTING;
    return KILN_STATUS_OK;
}

/// MPI's own start cannot be stopped: past the deadline it goes on, and a later network may find it
/// done. Under the lock.
static kiln_status await_start(uint64_t deadline_ns, kiln_error *err)
{
    uint64_t end_ns = kiln_time_ns() + deadline_ns;
    while (once.phase == MPI_STARTING && kiln_time_ns() < end_ns) {
        (void)kiln_cond_wait_until(&once.changed, &once.lock, end_ns);
    }
    if (once.phase == MPI_STARTING) {
        return kiln_fail(err, DEADLINE_EXCEEDED, "MPI did not start before the deadline");
    }
    if (once.phase == MPI_REFUSED && err != NULL) {
        *err = once.error;
    }
    return (kiln_status)once.error.code;
}

kiln_status kilni_mpi_enter(uint64_t deadline_ns, kilni_mpi_process *out_process, kiln_error *err)
{
    pthread_mutex_lock(&once.lock);
    kiln_status status = KILN_STATUS_OK;
    if (once.phase == MPI_UNUSED) {
        status = start_keeper(err);
    }
    if (status == KILN_STATUS_OK) {
        status = await_start(deadline_ns, err);
    }
    if (status == KILN_STATUS_OK) {
        *out_process = once.process;
        once.process.network++;
        once.users++;
    }
    if (status == KILN_STATUS_OK && !once.ends) { // after MPI is loaded: before its own last steps
        once.ends = atexit(end_with_process) == 0;
    }
    pthread_mutex_unlock(&once.lock);
    return status;
}

void kilni_mpi_enter_part(uint32_t number, kilni_mpi_process *out_process)
{
    pthread_mutex_lock(&once.lock);
    *out_process = once.process;
    out_process->network = number;
    once.next_part = number >= once.next_part ? number + 1 : once.next_part;
    once.users++;
    pthread_mutex_unlock(&once.lock);
}

uint32_t kilni_mpi_next_part(void)
{
    pthread_mutex_lock(&once.lock);
    uint32_t number = once.next_part;
    pthread_mutex_unlock(&once.lock);
    return number;
}

void kilni_mpi_leave(bool sound)
{
    pthread_mutex_lock(&once.lock);
    once.users--;
    once.unsound = once.unsound || !sound;
    pthread_mutex_unlock(&once.lock);
}

void kilni_mpi_lock(void)
{
    pthread_mutex_lock(&once.calls);
}

void kilni_mpi_unlock(void)
{
    pthread_mutex_unlock(&once.calls);
}

const kiln_env *kilni_mpi_env(void)
{
    return &once.env;
}
