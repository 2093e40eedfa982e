// SPDX-License-Identifier: MIT OR Apache-2.0
// What values depend on: a value under way has one record, shared by who brings it and by who gets
// it, and memory remembers the set of those that its value was computed from. Pure data: decides
// only what a set has to remember. Who waits, and where, is future.c's.

#include "dependency_internal.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_place.h"

#ifdef KILN_RUNTIME_CL
#include "cl_backend.h"
#endif

kilni_future *kilni_future_create(kiln_device *device)
{
    kilni_future *future = kiln_alloc(&device->context->env, sizeof(*future));
    if (future != NULL) {
        atomic_init(&future->refs, 2);
        future->env = &device->context->env;
        pthread_mutex_init(&future->lock, NULL);
        pthread_cond_init(&future->changed, NULL);
    }
    return future;
}

void kilni_future_release(kilni_future *future)
{
    if (future != NULL && atomic_fetch_sub(&future->refs, 1) == 1) {
        pthread_cond_destroy(&future->changed);
        pthread_mutex_destroy(&future->lock);
        kiln_free(future->env, future);
    }
}

static kilni_future *retain(kilni_future *future)
{
    atomic_fetch_add(&future->refs, 1);
    return future;
}

void kilni_gate_open(struct kiln_cl_event *gate)
{
#ifdef KILN_RUNTIME_CL
    kiln_cl_event_signal(gate, KILN_STATUS_OK); // failures go by futures: they say whose it is
    kiln_cl_event_destroy(gate);
#else
    (void)gate;
#endif
}

void kilni_future_end(kilni_future *future, const kiln_error *result)
{
    pthread_mutex_lock(&future->lock);
    future->error = *result;
    future->ended = true;
    pthread_cond_broadcast(&future->changed);
    struct kiln_cl_event *gate = future->gate;
    future->gate = NULL;
    pthread_mutex_unlock(&future->lock);
    if (gate != NULL) {
        kilni_gate_open(gate);
    }
    kilni_future_release(future);
}

bool kilni_future_has_ended(kilni_future *future, kiln_error *out_error)
{
    pthread_mutex_lock(&future->lock);
    bool ended = future->ended;
    *out_error = future->error;
    pthread_mutex_unlock(&future->lock);
    return ended;
}

// ---- what a value was computed from ----

static kilni_waits *waits_create(const kiln_env *env, uint32_t capacity)
{
    kilni_waits *waits = kiln_alloc(env, sizeof(*waits) + capacity * sizeof(waits->futures[0]));
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
        kilni_future_release(waits->futures[i]);
    }
    kiln_free(waits->env, waits);
}

kiln_status kilni_waits_status(const kilni_waits *waits, bool *out_open, kiln_error *err)
{
    bool open = false;
    kiln_error first = KILN_ERROR_INIT;
    for (uint32_t i = 0; waits != NULL && i < waits->count; i++) {
        kiln_error error = KILN_ERROR_INIT;
        bool ended = kilni_future_has_ended(waits->futures[i], &error);
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

static void append(kilni_waits *waits, kilni_future *future)
{
    kiln_error error = KILN_ERROR_INIT;
    for (uint32_t i = 0; i < waits->count; i++) {
        if (waits->futures[i] == future) {
            return;
        }
    }
    if (!kilni_future_has_ended(future, &error) || error.code != KILN_STATUS_OK) {
        waits->futures[waits->count++] = retain(future);
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
        append(both, (*waits)->futures[i]);
    }
    for (uint32_t i = 0; i < more->count; i++) {
        append(both, more->futures[i]);
    }
    kilni_waits_release(*waits);
    *waits = both;
    return true;
}

bool kilni_storage_await(kilni_storage *storage, const kiln_env *env, kilni_waits *more)
{
    return storage == NULL || kilni_waits_add(&storage->waits, env, more);
}

bool kilni_storage_expect(kilni_storage *storage, kilni_future *future)
{
    kilni_waits *waits = waits_create(future->env, 1);
    if (waits == NULL) {
        return false;
    }
    waits->count = 1;
    waits->futures[0] = retain(future);
    bool done = kilni_storage_await(storage, future->env, waits);
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
