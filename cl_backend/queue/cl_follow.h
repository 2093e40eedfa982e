// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_FOLLOW_H
#define KILNI_CL_FOLLOW_H

/// A thread that looks whether marks of a queue are passed, in place of the driver's callbacks.

#include "cl_opencl.h"
#include <pthread.h>
#include <stdbool.h>

typedef struct kilni_cl_followed kilni_cl_followed;
typedef void(CL_CALLBACK *kilni_cl_passed_fn)(cl_event event, cl_int code, void *user);

typedef struct kilni_cl_follower {
    pthread_mutex_t lock; ///< guards all of it
    pthread_cond_t changed;
    kilni_cl_followed *first; ///< in the order of the queue
    pthread_t thread;
    bool runs; ///< from the first mark on
    bool ends;
} kilni_cl_follower;

void kilni_cl_follow_init(kilni_cl_follower *follower);
/// As clSetEventCallback for CL_COMPLETE; marks are given in the order of the queue. Any thread.
cl_int kilni_cl_follow(kilni_cl_backend *backend, cl_event event, kilni_cl_passed_fn passed,
                       void *user);
/// What is not passed by now is not called any more.
void kilni_cl_follow_end(kilni_cl_backend *backend);

#endif
