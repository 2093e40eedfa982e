// SPDX-License-Identifier: MIT OR Apache-2.0
// A wait, with a deadline, for all work issued to a memory so far. The memory calls back from a
// thread of its own, perhaps long after the waiter has given up: whoever is second frees the
// marker.
#include "coll_marker.h"

#include "base_wait.h"

#include <pthread.h>

struct kilni_coll_marker {
    const kiln_env *env;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool fired;
    bool abandoned;
    kiln_status status;
};

static void marker_free(kilni_coll_marker *marker)
{
    pthread_cond_destroy(&marker->changed);
    pthread_mutex_destroy(&marker->mutex);
    kiln_free(marker->env, marker);
}

static void marker_fire(kiln_status status, void *user)
{
    kilni_coll_marker *marker = user;
    pthread_mutex_lock(&marker->mutex);
    bool last = marker->abandoned;
    marker->fired = true;
    marker->status = status;
    pthread_cond_signal(&marker->changed);
    pthread_mutex_unlock(&marker->mutex);
    if (last) {
        marker_free(marker);
    }
}

kiln_status kilni_coll_marker_set(const kiln_env *env, kiln_coll_memory *memory,
                                  kilni_coll_after_fn after, kilni_coll_marker **out_marker,
                                  kiln_error *err)
{
    *out_marker = NULL;
    kilni_coll_marker *marker = kiln_alloc(env, sizeof(*marker));
    if (marker == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to wait for a device");
    }
    marker->env = env;
    pthread_mutex_init(&marker->mutex, NULL);
    kiln_cond_init(&marker->changed);
    kiln_status status = after(memory, marker_fire, marker, err);
    if (status != KILN_STATUS_OK) {
        marker_free(marker);
        return status;
    }
    *out_marker = marker;
    return KILN_STATUS_OK;
}

kiln_status kilni_coll_marker_wait(kilni_coll_marker *marker, uint64_t deadline_ns, kiln_error *err)
{
    pthread_mutex_lock(&marker->mutex);
    while (!marker->fired && kiln_time_ns() < deadline_ns) {
        (void)kiln_cond_wait_until(&marker->changed, &marker->mutex, deadline_ns);
    }
    bool fired = marker->fired;
    kiln_status status = marker->status;
    marker->abandoned = true;
    pthread_mutex_unlock(&marker->mutex);
    if (!fired) {
        return kiln_fail(err, DEADLINE_EXCEEDED, "the device's work did not end in time");
    }
    marker_free(marker);
    if (status != KILN_STATUS_OK) {
        kiln_error_set(err, status, KILN_FILE_NAME, __LINE__, "the device's work failed: %s",
                       kiln_status_name(status));
    }
    return status;
}
