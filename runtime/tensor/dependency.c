// SPDX-License-Identifier: MIT OR Apache-2.0
// What values depend on: a value under way has one record, shared by who brings it and by who gets
// it, and memory remembers the set of those that its value was computed from. Pure data: decides
// only what a set has to remember. Who waits, and where, is future.c's.

#include "dependency_internal.h"
#include "rt_binding.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"

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

void kilni_user_event_complete(const kiln_backend_queue_ops *queues, kiln_event *event)
{
    queues->event_signal(event, KILN_STATUS_OK); // failures go by futures: they say whose it is
    queues->event_destroy(event);
}

void kilni_future_end(kilni_future *future, const kiln_error *result)
{
    pthread_mutex_lock(&future->lock);
    future->error = *result;
    future->ended = true;
    pthread_cond_broadcast(&future->changed);
    kiln_event *event = future->event;
    future->event = NULL;
    pthread_mutex_unlock(&future->lock);
    if (event != NULL) {
        kilni_user_event_complete(future->queues, event);
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

static kilni_dependencies *dependencies_create(const kiln_env *env, uint32_t capacity)
{
    kilni_dependencies *dependencies =
        kiln_alloc(env, sizeof(*dependencies) + capacity * sizeof(dependencies->futures[0]));
    if (dependencies != NULL) {
        atomic_init(&dependencies->refs, 1);
        dependencies->env = env;
    }
    return dependencies;
}

kilni_dependencies *kilni_dependencies_retain(kilni_dependencies *dependencies)
{
    if (dependencies != NULL) {
        atomic_fetch_add(&dependencies->refs, 1);
    }
    return dependencies;
}

void kilni_dependencies_release(kilni_dependencies *dependencies)
{
    if (dependencies == NULL || atomic_fetch_sub(&dependencies->refs, 1) != 1) {
        return;
    }
    for (uint32_t i = 0; i < dependencies->count; i++) {
        kilni_future_release(dependencies->futures[i]);
    }
    kiln_free(dependencies->env, dependencies);
}

kiln_status kilni_dependencies_status(const kilni_dependencies *dependencies, bool *out_open,
                                      kiln_error *err)
{
    bool open = false;
    kiln_error first = KILN_ERROR_INIT;
    for (uint32_t i = 0; dependencies != NULL && i < dependencies->count; i++) {
        kiln_error error = KILN_ERROR_INIT;
        bool ended = kilni_future_has_ended(dependencies->futures[i], &error);
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

static void append(kilni_dependencies *dependencies, kilni_future *future)
{
    kiln_error error = KILN_ERROR_INIT;
    for (uint32_t i = 0; i < dependencies->count; i++) {
        if (dependencies->futures[i] == future) {
            return;
        }
    }
    if (!kilni_future_has_ended(future, &error) || error.code != KILN_STATUS_OK) {
        dependencies->futures[dependencies->count++] = retain(future);
    }
}

bool kilni_dependencies_add(kilni_dependencies **dependencies, const kiln_env *env,
                            kilni_dependencies *more)
{
    bool open = false;
    if (more == NULL || more == *dependencies ||
        (kilni_dependencies_status(more, &open, NULL) == KILN_STATUS_OK && !open)) {
        return true;
    }
    if (*dependencies == NULL) {
        *dependencies = kilni_dependencies_retain(more);
        return true;
    }
    kilni_dependencies *both = dependencies_create(env, (*dependencies)->count + more->count);
    if (both == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < (*dependencies)->count; i++) {
        append(both, (*dependencies)->futures[i]);
    }
    for (uint32_t i = 0; i < more->count; i++) {
        append(both, more->futures[i]);
    }
    kilni_dependencies_release(*dependencies);
    *dependencies = both;
    return true;
}

bool kilni_storage_await(kilni_storage *storage, const kiln_env *env, kilni_dependencies *more)
{
    return storage == NULL || kilni_dependencies_add(&storage->dependencies, env, more);
}

bool kilni_storage_expect(kilni_storage *storage, kilni_future *future)
{
    kilni_dependencies *dependencies = dependencies_create(future->env, 1);
    if (dependencies == NULL) {
        return false;
    }
    dependencies->count = 1;
    dependencies->futures[0] = retain(future);
    bool done = kilni_storage_await(storage, future->env, dependencies);
    kilni_dependencies_release(dependencies);
    return done;
}

void kilni_storage_set_behind(kiln_device *device, kilni_storage *storage,
                              kilni_behind *take_behind)
{
    kilni_behind *before = storage->behind;
    storage->behind = take_behind;
    if (before != NULL) {
        before->free(device, before);
    }
}

kiln_status kilni_binding_status(const kilni_binding *binding, kiln_error *err)
{
    if (binding->fault != NULL) {
        if (err != NULL) {
            *err = binding->fault->error;
        }
        return (kiln_status)binding->fault->error.code;
    }
    return kilni_dependencies_status(kilni_binding_dependencies(binding), NULL, err);
}
