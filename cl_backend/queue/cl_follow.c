// SPDX-License-Identifier: MIT OR Apache-2.0
// Marks that a thread of Kiln looks at, where the driver's own callbacks come late: NVIDIA's come
// up to 20 ms after their mark. Of one queue, which is in order, so that only the first has to be
// looked at.

#include "cl_follow.h"
#include "base_wait.h"
#include "cl_state.h"

enum { LOOKS_NS = 30000 };

struct kilni_cl_followed {
    cl_event event; ///< held
    kilni_cl_passed_fn passed;
    void *user;
    kilni_cl_followed *next;
};

void kilni_cl_follow_init(kilni_cl_follower *follower)
{
    pthread_mutex_init(&follower->lock, NULL);
    kiln_cond_init(&follower->changed);
}

static bool is_passed(cl_event event, cl_int *out_code)
{
    cl_int code =
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(*out_code), out_code, NULL);
    if (code != CL_SUCCESS) {
        *out_code = code;
    }
    return *out_code <= CL_COMPLETE;
}

/// Takes the first mark out once it is passed. NULL: the thread ends. Under the lock.
static kilni_cl_followed *next_passed(kilni_cl_follower *follower, cl_int *out_code)
{
    while (!follower->ends) {
        kilni_cl_followed *first = follower->first;
        if (first == NULL) {
            pthread_cond_wait(&follower->changed, &follower->lock);
        } else if (is_passed(first->event, out_code)) {
            follower->first = first->next;
            return first;
        } else {
            (void)kiln_cond_wait_until(&follower->changed, &follower->lock,
                                       kiln_time_ns() + LOOKS_NS);
        }
    }
    return NULL;
}

static void *look(void *user)
{
    kilni_cl_backend *backend = user;
    kilni_cl_follower *follower = &backend->flight.follower;
    kilni_cl_followed *one = NULL;
    cl_int code = CL_COMPLETE;
    pthread_mutex_lock(&follower->lock);
    while ((one = next_passed(follower, &code)) != NULL) {
        pthread_mutex_unlock(&follower->lock);
        one->passed(one->event, code, one->user);
        clReleaseEvent(one->event);
        kiln_free(backend->env, one);
        pthread_mutex_lock(&follower->lock);
    }
    pthread_mutex_unlock(&follower->lock);
    return NULL;
}

static void append(kilni_cl_follower *follower, kilni_cl_followed *one)
{
    kilni_cl_followed **end = &follower->first;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = one;
    pthread_cond_signal(&follower->changed);
}

cl_int kilni_cl_follow(kilni_cl_backend *backend, cl_event event, kilni_cl_passed_fn passed,
                       void *user)
{
    kilni_cl_follower *follower = &backend->flight.follower;
    kilni_cl_followed *one = kiln_alloc(backend->env, sizeof(*one));
    if (one == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    *one = (kilni_cl_followed){.event = event, .passed = passed, .user = user};
    pthread_mutex_lock(&follower->lock);
    if (!follower->runs) {
        follower->runs = pthread_create(&follower->thread, NULL, look, backend) == 0;
    }
    bool runs = follower->runs;
    if (runs) {
        clRetainEvent(event);
        append(follower, one);
    }
    pthread_mutex_unlock(&follower->lock);
    if (!runs) {
        kiln_free(backend->env, one);
    }
    return runs ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}

void kilni_cl_follow_end(kilni_cl_backend *backend)
{
    kilni_cl_follower *follower = &backend->flight.follower;
    if (!follower->runs) {
        return;
    }
    pthread_mutex_lock(&follower->lock);
    follower->ends = true;
    pthread_cond_signal(&follower->changed);
    pthread_mutex_unlock(&follower->lock);
    pthread_join(follower->thread, NULL);
    follower->runs = false;
    while (follower->first != NULL) { // of a device that does not come back
        kilni_cl_followed *one = follower->first;
        follower->first = one->next;
        kiln_free(backend->env, one);
    }
}
