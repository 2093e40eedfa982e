// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_AUX_QUEUES_H
#define KILN_RUNTIME_AUX_QUEUES_H

/// Queues beside a device's own (aux_queues.c).

#include "fusion_host.h"
#include "kiln.h"

#include <pthread.h>

/// A queue beside the device's own; its lock guards all calls of its backend.
typedef struct kilni_aux_queue {
    kiln_backend *backend; ///< NULL: none; once it is there it stays
    pthread_mutex_t lock;
    uint64_t steps; ///< of calls, as commands, so far
    uint64_t ended; ///< as many of them have surely ended
} kilni_aux_queue;

/// Makes the device's auxiliary queues where it can have some. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_aux_queues_open(kiln_device *device, kiln_error *err);
void kilni_aux_queues_close(kiln_device *device);

/// What each may hold from now on. Without the device's lock.
KILN_NODISCARD kiln_status kilni_aux_queues_set_budget(kiln_device *device, uint64_t bytes,
                                                       kiln_error *err);

/// Whether the driver lost one of them, with the reason.
bool kilni_aux_queues_lost(kiln_device *device, kiln_error *err);

/// Gives their unused memory back. False: there are none.
bool kilni_aux_queues_trim(kiln_device *device);

#endif
