// SPDX-License-Identifier: MIT OR Apache-2.0
// A wait, with a deadline, for all work issued to a memory so far. The memory calls back from a
// thread of its own, perhaps long after the waiter has given up: whoever is second frees the gate.
#include "coll_gate.h"

#include <pthread.h>
#include <time.h>

struct kilni_coll_gate {
    const kiln_env *env;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool fired;
    bool abandoned;
    kiln_status status;
};

static void gate_free(kilni_coll_gate *gate)
{
    pthread_cond_destroy(&gate->changed);
    pthread_mutex_destroy(&gate->mutex);
    kiln_free(gate->env, gate);
}

static void gate_fire(kiln_status status, void *user)
{
    kilni_coll_gate *gate = user;
    pthread_mutex_lock(&gate->mutex);
    bool last = gate->abandoned;
    gate->fired = true;
    gate->status = status;
    pthread_cond_signal(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
    if (last) {
        gate_free(gate);
    }
}

kiln_status kilni_coll_gate_open(const kiln_env *env, kiln_coll_memory *memory,
                                 kilni_coll_after_fn after, kilni_coll_gate **out_gate,
                                 kiln_error *err)
{
    *out_gate = NULL;
    kilni_coll_gate *gate = kiln_alloc(env, sizeof(*gate));
    if (gate == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to wait for a device");
    }
    gate->env = env;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&gate->mutex, NULL);
    pthread_cond_init(&gate->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    kiln_status status = after(memory, gate_fire, gate, err);
    if (status != KILN_STATUS_OK) {
        gate_free(gate);
        return status;
    }
    *out_gate = gate;
    return KILN_STATUS_OK;
}

kiln_status kilni_coll_gate_wait(kilni_coll_gate *gate, uint64_t deadline_ns, kiln_error *err)
{
    struct timespec when = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                            .tv_nsec = (long)(deadline_ns % 1000000000u)};
    pthread_mutex_lock(&gate->mutex);
    while (!gate->fired && kiln_time_ns() < deadline_ns) {
        pthread_cond_timedwait(&gate->changed, &gate->mutex, &when);
    }
    bool fired = gate->fired;
    kiln_status status = gate->status;
    gate->abandoned = true;
    pthread_mutex_unlock(&gate->mutex);
    if (!fired) {
        return kiln_fail(err, DEADLINE_EXCEEDED, "the device's work did not end in time");
    }
    gate_free(gate);
    if (status != KILN_STATUS_OK) {
        kiln_error_set(err, status, KILN_FILE_NAME, __LINE__, "the device's work failed: %s",
                       kiln_status_name(status));
    }
    return status;
}
