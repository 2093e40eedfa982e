// SPDX-License-Identifier: MIT OR Apache-2.0
// What values depend on: a value under way has one record, shared by who brings it and by who gets
// it, and memory remembers the set of those that its value was computed from. Pure data: decides
// only what a set has to remember. Who waits, and where, is arrival.c's.

#include "dependency_internal.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_place.h"

#ifdef KILN_RUNTIME_CL
#include "cl_backend.h"
#endif

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

void kilni_gate_open(struct kiln_cl_event *gate)
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
        kilni_gate_open(gate);
    }
    kilni_arrival_release(arrival);
}

bool kilni_arrival_has_ended(kilni_arrival *arrival, kiln_error *out_error)
{
    pthread_mutex_lock(&arrival->lock);
    bool ended = arrival->ended;
    *out_error = arrival->error;
    pthread_mutex_unlock(&arrival->lock);
    return ended;
}

// ---- what a value was computed from ----

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
        bool ended = kilni_arrival_has_ended(waits->arrivals[i], &error);
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

static void append(kilni_waits *waits, kilni_arrival *arrival)
{
    kiln_error error = KILN_ERROR_INIT;
    for (uint32_t i = 0; i < waits->count; i++) {
        if (waits->arrivals[i] == arrival) {
            return;
        }
    }
    if (!kilni_arrival_has_ended(arrival, &error) || error.code != KILN_STATUS_OK) {
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
