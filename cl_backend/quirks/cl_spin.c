// SPDX-License-Identifier: MIT OR Apache-2.0
// PoCL's workers sleep as soon as there is no work, between two launches of a queue, too. Waking
// one on another processor takes 10 us and more, so of short launches it misses its share. Here a
// worker that has nothing to do runs a function of Kiln's instead (clEnqueueNativeKernel), a
// *look*: it turns for some microseconds, queues itself again, and so the worker sees whether a
// launch has become ready. When nobody waits any more, a look *lingers*: it turns until the next
// command is queued, or 0.1 ms. docs/decisions/0110.

#define _GNU_SOURCE // clock_gettime

#include "cl_spin.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { MOST_LOOKS = 3, PAUSES = 16 };

static const uint64_t look_ns = 8000; ///< of one turn
static const uint64_t between_ns = 2000; ///< two turns, when the worker has no work
static const uint64_t rest_ns = 300000; ///< a worker that found no work for so long sleeps
static const uint64_t linger_ns = 100000; ///< another command often follows
static const uint64_t most_wait_ns = 10000000000u; ///< at the end, for a device that may be lost

enum { OFF, TURNING, LINGERING, STATES };

typedef struct look_at { ///< one look at a time
    kilni_cl_spin *spin;
    cl_command_queue queue; ///< its own
    atomic_uint word; ///< number of the look * STATES + its state
    _Atomic uint64_t left_ns; ///< when the last turn ended
    _Atomic uint64_t idle_ns; ///< since when its worker has found no work
} look_at;

struct kilni_cl_spin {
    const kiln_env *env;
    uint32_t count;
    look_at looks[MOST_LOOKS];
    atomic_uint waiting; ///< between begin and end
    _Atomic uint64_t busy_until_ns; ///< work was queued
    _Atomic uint64_t linger_until_ns;
    atomic_uint queued; ///< looks in the driver's hands
    atomic_bool stop;
};

typedef struct look { ///< what a turn is told
    look_at *at;
    unsigned int number;
} look;

/// Workers are the device's, whatever the context: what one backend queues ends another's
/// lingering.
static atomic_uint news, lingering;

static void CL_CALLBACK turn(void *argument);

// ---- from one turn to the next ----

static bool go(look_at *at, unsigned int number)
{
    look argument = {at, number};
    atomic_fetch_add(&at->spin->queued, 1);
    if (clEnqueueNativeKernel(at->queue, turn, &argument, sizeof(argument), 0, NULL, NULL, 0, NULL,
                              NULL) == CL_SUCCESS) {
        return true;
    }
    atomic_fetch_sub(&at->spin->queued, 1);
    return false;
}

static bool change(look_at *at, unsigned int number, unsigned int from, unsigned int to)
{
    unsigned int word = number * STATES + from;
    return atomic_compare_exchange_strong(&at->word, &word, number * STATES + to);
}

static uint64_t thread_ns(void)
{
    struct timespec used = {0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/// A step of a turn. It gives the processor away first: the thread that waits for this device may
/// be one that could run here.
static uint64_t step_ns(void)
{
    sched_yield();
    for (int i = 0; i < PAUSES; i++) {
        kiln_processor_pause();
    }
    return kiln_time_ns();
}

static bool is_busy(const kilni_cl_spin *spin, uint64_t now_ns)
{
    return atomic_load(&spin->waiting) > 0 || now_ns < atomic_load(&spin->busy_until_ns);
}

static void linger(look_at *at, unsigned int number)
{
    kilni_cl_spin *spin = at->spin;
    unsigned int seen = atomic_load(&news); // before anybody can see that it lingers
    if (!change(at, number, TURNING, LINGERING)) {
        return;
    }
    atomic_fetch_add(&lingering, 1);
    while (!atomic_load(&spin->stop) && atomic_load(&news) == seen &&
           atomic_load(&at->word) == number * STATES + LINGERING &&
           step_ns() < atomic_load(&spin->linger_until_ns)) {
    }
    atomic_fetch_sub(&lingering, 1);
    (void)change(at, number, LINGERING, OFF);
}

/// Whether to turn again.
static bool look_once(look_at *at, unsigned int number)
{
    uint64_t begin_ns = kiln_time_ns(), now_ns = begin_ns;
    if (begin_ns - atomic_load(&at->left_ns) > between_ns) { // it had work in between
        atomic_store(&at->idle_ns, begin_ns);
    }
    while (!atomic_load(&at->spin->stop) && is_busy(at->spin, now_ns)) {
        if (now_ns - atomic_load(&at->idle_ns) > rest_ns) {
            (void)change(at, number, TURNING, OFF);
            return false;
        }
        if (now_ns - begin_ns > look_ns) {
            return true;
        }
        now_ns = step_ns();
    }
    linger(at, number);
    return false;
}

static void CL_CALLBACK turn(void *argument)
{
    look own;
    memcpy(&own, argument, sizeof(own)); // the driver's copy may lie anywhere
    kilni_cl_spin *spin = own.at->spin;
    uint64_t begin_ns = thread_ns();
    bool again = look_once(own.at, own.number);
    kiln_awake_spent(thread_ns() - begin_ns);
    if (again && !go(own.at, own.number)) { // it turns again when this turn has ended
        (void)change(own.at, own.number, TURNING, OFF);
    }
    atomic_store(&own.at->left_ns, kiln_time_ns());
    atomic_fetch_sub(&spin->queued, 1); // behind it the memory may be gone
}

// ---- what the backend tells ----

/// Sees to it that there is a look: a new one where none turns. One that lingers leaves for it.
static void rouse(look_at *at)
{
    unsigned int word = atomic_load(&at->word);
    while (word % STATES != TURNING) {
        unsigned int number = word / STATES + 1;
        if (atomic_compare_exchange_weak(&at->word, &word, number * STATES + TURNING)) {
            atomic_store(&at->idle_ns, kiln_time_ns());
            if (!go(at, number)) {
                (void)change(at, number, TURNING, OFF);
            }
            return;
        }
    }
}

static void rouse_all(kilni_cl_spin *spin)
{
    for (uint32_t i = 0; i < spin->count && !atomic_load(&spin->stop); i++) {
        rouse(&spin->looks[i]);
    }
    if (atomic_load(&lingering) > 0) {
        atomic_fetch_add(&news, 1);
    }
}

void kilni_cl_spin_queued(kilni_cl_spin *spin)
{
    if (spin != NULL) {
        atomic_store(&spin->busy_until_ns, kiln_time_ns() + linger_ns);
        rouse_all(spin);
    }
}

void kilni_cl_spin_begin(kilni_cl_spin *spin)
{
    if (spin != NULL) {
        atomic_fetch_add(&spin->waiting, 1);
        rouse_all(spin);
    }
}

void kilni_cl_spin_end(kilni_cl_spin *spin)
{
    if (spin != NULL) {
        atomic_store(&spin->linger_until_ns, kiln_time_ns() + linger_ns);
        atomic_store(&spin->busy_until_ns, 0);
        atomic_fetch_sub(&spin->waiting, 1);
    }
}

// ---- its life ----

static bool runs_functions(cl_device_id device)
{
    cl_device_exec_capabilities can = 0;
    return clGetDeviceInfo(device, CL_DEVICE_EXECUTION_CAPABILITIES, sizeof(can), &can, NULL) ==
               CL_SUCCESS &&
           (can & CL_EXEC_NATIVE_KERNEL) != 0;
}

kilni_cl_spin *kilni_cl_spin_open(const kiln_env *env, cl_context context, cl_device_id device,
                                  uint32_t workers)
{
    if (workers < 2 || workers > MOST_LOOKS + 1 || !runs_functions(device)) {
        return NULL;
    }
    kilni_cl_spin *spin = kiln_alloc(env, sizeof(*spin));
    if (spin == NULL) {
        return NULL;
    }
    *spin = (kilni_cl_spin){.env = env, .count = workers - 1};
    for (uint32_t i = 0; i < spin->count; i++) {
        cl_int code = CL_SUCCESS;
        spin->looks[i] = (look_at){.spin = spin};
        spin->looks[i].queue = clCreateCommandQueue(context, device, 0, &code);
        if (code != CL_SUCCESS) {
            spin->count = i;
            kilni_cl_spin_close(spin);
            return NULL;
        }
    }
    return spin;
}

void kilni_cl_spin_stop(kilni_cl_spin *spin)
{
    if (spin != NULL) {
        atomic_store(&spin->stop, true);
    }
}

void kilni_cl_spin_close(kilni_cl_spin *spin)
{
    const struct timespec nap = {.tv_nsec = 20000};
    uint64_t give_up_ns = kiln_time_ns() + most_wait_ns;
    if (spin == NULL) {
        return;
    }
    kilni_cl_spin_stop(spin);
    for (uint32_t i = 0; i < spin->count; i++) {
        (void)clFinish(spin->looks[i].queue);
    }
    while (atomic_load(&spin->queued) > 0) {
        if (kiln_time_ns() > give_up_ns) {
            return; // what a lost driver may still run stays
        }
        nanosleep(&nap, NULL);
    }
    for (uint32_t i = 0; i < spin->count; i++) {
        clReleaseCommandQueue(spin->looks[i].queue);
    }
    kiln_free(spin->env, spin);
}
