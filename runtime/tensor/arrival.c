// SPDX-License-Identifier: MIT OR Apache-2.0
// Values on their way: memory may be there before its value, which a mover or a collective call
// brings. Decides who waits, where, and who is refused; bringing is kiln_move.c's and
// coll_calls.c's. Three ways to wait: a tensor that was moved here is waited for by the host at its
// first use; the result of a collective call is refused until it is resolved, which puts a gate
// into the device's queue; and what was computed from it meanwhile remembers it, so that a failure
// that comes later reaches that too.

#include "runtime_internal.h"

#include <time.h>

#ifdef KILN_RUNTIME_CL
#include "cl_backend.h"
#endif

struct kilni_arrival {
    atomic_uint refs;
    const kiln_env *env;
    bool gated; ///< the device's queue waits for it already; the device's lock
    pthread_mutex_t lock; ///< guards what follows; nothing else is locked under it
    pthread_cond_t changed;
    bool ended;
    kiln_error error; ///< code 0: it is there
    struct kiln_cl_event *gate;
};

kilni_arrival *kilni_arrival_create(kiln_device *device)
{
    kilni_arrival *arrival = kiln_alloc(&device->context->env, sizeof(*arrival));
    if (arrival != NULL) {
        atomic_init(&arrival->refs, 2);
        arrival->env = &device->context->env;
        pthread_mutex_init(&arrival->lock, NULL);
        pthread_cond_init(&arrival->changed, NULL);
    }
    return arrival;
}

void kilni_arrival_release(kilni_arrival *arrival)
{
    if (arrival != NULL && atomic_fetch_sub(&arrival->refs, 1) == 1) {
        pthread_cond_destroy(&arrival->changed);
        pthread_mutex_destroy(&arrival->lock);
        kiln_free(arrival->env, arrival);
    }
}

static kilni_arrival *retain(kilni_arrival *arrival)
{
    atomic_fetch_add(&arrival->refs, 1);
    return arrival;
}

static void open_gate(struct kiln_cl_event *gate)
{
#ifdef KILN_RUNTIME_CL
    kiln_cl_event_signal(gate, KILN_STATUS_OK); // failures go by arrivals: they say whose it is
    kiln_cl_event_destroy(gate);
#else
    (void)gate;
#endif
}

void kilni_arrival_end(kilni_arrival *arrival, const kiln_error *result)
{
    pthread_mutex_lock(&arrival->lock);
    arrival->error = *result;
    arrival->ended = true;
    pthread_cond_broadcast(&arrival->changed);
    struct kiln_cl_event *gate = arrival->gate;
    arrival->gate = NULL;
    pthread_mutex_unlock(&arrival->lock);
    if (gate != NULL) {
        open_gate(gate);
    }
    kilni_arrival_release(arrival);
}

/// True when it has ended; `out_error` then gets its result.
static bool has_ended(kilni_arrival *arrival, kiln_error *out_error)
{
    pthread_mutex_lock(&arrival->lock);
    bool ended = arrival->ended;
    *out_error = arrival->error;
    pthread_mutex_unlock(&arrival->lock);
    return ended;
}

// ---- what a value was computed from ----

/// Never changes; shared by all memory that depends on the same arrivals.
struct kilni_waits {
    atomic_uint refs;
    const kiln_env *env;
    uint32_t count;
    kilni_arrival *arrivals[];
};

static kilni_waits *waits_create(const kiln_env *env, uint32_t capacity)
{
    kilni_waits *waits = kiln_alloc(env, sizeof(*waits) + capacity * sizeof(waits->arrivals[0]));
    if (waits != NULL) {
        atomic_init(&waits->refs, 1);
        waits->env = env;
    }
    return waits;
}

kilni_waits *kilni_waits_retain(kilni_waits *waits)
{
    if (waits != NULL) {
        atomic_fetch_add(&waits->refs, 1);
    }
    return waits;
}

void kilni_waits_release(kilni_waits *waits)
{
    if (waits == NULL || atomic_fetch_sub(&waits->refs, 1) != 1) {
        return;
    }
    for (uint32_t i = 0; i < waits->count; i++) {
        kilni_arrival_release(waits->arrivals[i]);
    }
    kiln_free(waits->env, waits);
}

kiln_status kilni_waits_status(const kilni_waits *waits, bool *out_open, kiln_error *err)
{
    bool open = false;
    kiln_error first = KILN_ERROR_INIT;
    for (uint32_t i = 0; waits != NULL && i < waits->count; i++) {
        kiln_error error = KILN_ERROR_INIT;
        bool ended = has_ended(waits->arrivals[i], &error);
        open = open || !ended;
        if (ended && first.code == KILN_STATUS_OK) {
            first = error;
        }
    }
    if (out_open != NULL) {
        *out_open = open;
    }
    if (first.code != KILN_STATUS_OK && err != NULL) {
        *err = first;
    }
    return (kiln_status)first.code;
}

static void await_end(kilni_arrival *arrival)
{
    pthread_mutex_lock(&arrival->lock);
    while (!arrival->ended) {
        pthread_cond_wait(&arrival->changed, &arrival->lock);
    }
    pthread_mutex_unlock(&arrival->lock);
}

static void append(kilni_waits *waits, kilni_arrival *arrival)
{
    kiln_error error = KILN_ERROR_INIT;
    for (uint32_t i = 0; i < waits->count; i++) {
        if (waits->arrivals[i] == arrival) {
            return;
        }
    }
    if (!has_ended(arrival, &error) || error.code != KILN_STATUS_OK) {
        waits->arrivals[waits->count++] = retain(arrival);
    }
}

bool kilni_waits_add(kilni_waits **waits, const kiln_env *env, kilni_waits *more)
{
    bool open = false;
    if (more == NULL || more == *waits ||
        (kilni_waits_status(more, &open, NULL) == KILN_STATUS_OK && !open)) {
        return true;
    }
    if (*waits == NULL) {
        *waits = kilni_waits_retain(more);
        return true;
    }
    kilni_waits *both = waits_create(env, (*waits)->count + more->count);
    if (both == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < (*waits)->count; i++) {
        append(both, (*waits)->arrivals[i]);
    }
    for (uint32_t i = 0; i < more->count; i++) {
        append(both, more->arrivals[i]);
    }
    kilni_waits_release(*waits);
    *waits = both;
    return true;
}

bool kilni_storage_await(kilni_storage *storage, const kiln_env *env, kilni_waits *more)
{
    return storage == NULL || kilni_waits_add(&storage->waits, env, more);
}

bool kilni_storage_expect(kilni_storage *storage, kilni_arrival *arrival)
{
    kilni_waits *waits = waits_create(arrival->env, 1);
    if (waits == NULL) {
        return false;
    }
    waits->count = 1;
    waits->arrivals[0] = retain(arrival);
    bool done = kilni_storage_await(storage, arrival->env, waits);
    kilni_waits_release(waits);
    return done;
}

kiln_status kilni_place_status(const kilni_place *place, kiln_error *err)
{
    if (place->fault != NULL) {
        if (err != NULL) {
            *err = place->fault->error;
        }
        return (kiln_status)place->fault->error.code;
    }
    return kilni_waits_status(kilni_place_waits(place), NULL, err);
}

// ---- waiting on the device ----

#ifdef KILN_RUNTIME_CL
/// Work queued from now on waits for the arrival.
static kiln_status gate_one(kiln_device *device, kilni_arrival *arrival, kiln_error *err)
{
    kiln_error error = KILN_ERROR_INIT;
    struct kiln_cl_event *gate = NULL;
    if (arrival->gated || has_ended(arrival, &error)) {
        return KILN_STATUS_OK;
    }
    kiln_status status = kiln_cl_gate(device->backend, &gate, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    arrival->gated = true;
    pthread_mutex_lock(&arrival->lock);
    bool late = arrival->ended;
    arrival->gate = late ? NULL : gate;
    pthread_mutex_unlock(&arrival->lock);
    if (late) {
        open_gate(gate);
    }
    return KILN_STATUS_OK;
}

static kiln_status gate_all(kiln_device *device, kilni_waits *waits, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < waits->count && status == KILN_STATUS_OK; i++) {
        status = gate_one(device, waits->arrivals[i], err);
    }
    if (status == KILN_STATUS_OK && !kilni_waits_add(&device->gates, waits->env, waits)) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to follow a call");
    }
    return status;
}
#endif

bool kilni_device_gates(const kiln_device *device)
{
    return device->in.backend != NULL;
}

kiln_status kilni_place_gate(kiln_device *device, const kilni_place *place, kiln_error *err)
{
    kilni_waits *waits = kilni_waits_retain(kilni_place_waits(place));
#ifdef KILN_RUNTIME_CL
    if (waits != NULL && kilni_device_gates(device)) {
        kiln_status status = gate_all(device, waits, err);
        kilni_waits_release(waits);
        return status;
    }
#endif
    (void)err;
    // A device whose work is done by the host waits where that is done. Others may use it
    // meanwhile.
    if (waits != NULL) {
        pthread_mutex_unlock(&device->lock);
        for (uint32_t i = 0; i < waits->count; i++) {
            await_end(waits->arrivals[i]);
        }
        pthread_mutex_lock(&device->lock);
        kilni_waits_release(waits);
    }
    return KILN_STATUS_OK;
}

// ---- tensors ----

/// Waits for the value of a tensor that was moved here. Another thread may be as far at the same
/// time. False: it did not come in time.
static bool await(kiln_tensor *tensor, uint64_t deadline_ns)
{
    if (tensor->arrival == NULL) {
        return true;
    }
    kiln_device *device = tensor->device;
    kiln_error error = KILN_ERROR_INIT;
    const struct timespec when = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                                  .tv_nsec = (long)(deadline_ns % 1000000000u)};
    while (tensor->arrival != NULL && !has_ended(tensor->arrival, &error)) {
        if (kiln_time_ns() >= deadline_ns) {
            return false;
        }
        pthread_cond_timedwait(&device->arrived, &device->lock, &when);
    }
    kilni_arrival *arrival = tensor->arrival;
    if (arrival == NULL) {
        return true;
    }
    tensor->arrival = NULL;
    if (error.code != KILN_STATUS_OK) {
        kilni_fault *fault = kilni_fault_create(device, &error);
        kilni_place_fail(device, &tensor->place, fault);
        kilni_fault_release(device, fault);
    }
    kilni_arrival_release(arrival);
    return true;
}

kiln_status kilni_await_arrivals(kiln_device *device, kiln_tensor *const *tensors, size_t count,
                                 kiln_error *err)
{
    return kilni_await_arrivals_until(device, tensors, count, INT64_MAX, err);
}

kiln_status kilni_await_arrivals_until(kiln_device *device, kiln_tensor *const *tensors,
                                       size_t count, uint64_t deadline_ns, kiln_error *err)
{
    for (size_t i = 0; i < count; i++) {
        kiln_tensor *tensor = tensors[i];
        if (tensor == NULL || tensor->device != device) {
            continue;
        }
        if (tensor->unresolved) {
            return kiln_fail(err, FAILED_PRECONDITION,
                             "the tensor is the result of a collective call; "
                             "call kiln_collective_resolve first");
        }
        if (!await(tensor, deadline_ns)) {
            return kiln_fail(err, DEADLINE_EXCEEDED,
                             "the tensor was still on its way to %s at the deadline",
                             device->address);
        }
    }
    return KILN_STATUS_OK;
}

// ---- results of collective calls ----

/// The call begins, if it only was recorded, and the device's queue waits for its end.
static kiln_status resolve_locked(kiln_tensor *tensor, kiln_error *err)
{
    if (tensor->captured) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "the tensor stands for a value of a graph; call kiln_collective_sync, "
                         "which records the wait");
    }
    kiln_status status = kilni_tensor_place(tensor, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_place_gate(tensor->device, &tensor->place, err);
    }
    return status == KILN_STATUS_OK ? kilni_place_status(&tensor->place, err) : status;
}

kiln_status kiln_collective_resolve(kiln_tensor *tensor, kiln_error *err)
{
    if (tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "tensor must not be NULL");
    }
    kiln_status status = KILN_STATUS_OK;
    pthread_mutex_lock(&tensor->device->lock);
    if (tensor->unresolved) {
        status = resolve_locked(tensor, err);
        // Else nothing waits for the value yet, and this call can be repeated.
        tensor->unresolved =
            status != KILN_STATUS_OK && kilni_place_status(&tensor->place, NULL) == KILN_STATUS_OK;
    } else if (tensor->place.placed) {
        status = kilni_place_status(&tensor->place, err);
    }
    pthread_mutex_unlock(&tensor->device->lock);
    return status;
}

bool kiln_collective_ended(const kiln_tensor *tensor)
{
    bool open = false;
    pthread_mutex_lock(&tensor->device->lock);
    if (tensor->place.placed) {
        (void)kilni_waits_status(kilni_place_waits(&tensor->place), &open, NULL);
    } else {
        open = tensor->unresolved;
    }
    pthread_mutex_unlock(&tensor->device->lock);
    return !open;
}

void kiln_collective_assume_resolved(kiln_tensor *tensor)
{
    pthread_mutex_lock(&tensor->device->lock);
    tensor->unresolved = false;
    pthread_mutex_unlock(&tensor->device->lock);
}
