// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_COLL_MEMORY_H
#define KILN_RUNTIME_COLL_MEMORY_H

/// A device as the memory of a rank of collective/, and what a call keeps of a rank's tensors while
/// it is under way.

#include "collective.h"
#include "runtime_internal.h"

typedef struct kilni_staging { ///< of the host, for a mapping
    void *data;
    size_t bytes;
    bool is_used;
    struct kilni_staging *next;
} kilni_staging;

typedef struct kilni_device_memory {
    kiln_coll_memory base;
    kiln_device *device; ///< held
    kilni_staging *staging; ///< the worker's, under the device's lock
    kiln_coll_memory *host; ///< arithmetic for dtypes that the device does not compute in
} kilni_device_memory;

/// Also after a failure, fini is due.
/// Ownership: holds the device. Lifetime: until fini. Thread: any. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_device_memory_init(kilni_device_memory *memory, kiln_device *device,
                                     kiln_error *err);
void kilni_device_memory_fini(kilni_device_memory *memory);

/// The event of a rank's call. Places share the buffers of input and output, so that both stay
/// whatever becomes of the tensors.
typedef struct kilni_rank_call {
    kilni_place input; ///< shares the input's buffer, or has a dense copy of it
    kilni_place output;
    kilni_arrival *arrival; ///< of the output; NULL: this rank has none
} kilni_rank_call;

/// Ends the arrival with `result`. Under the device's lock.
void kilni_rank_call_free(kiln_device *device, kilni_rank_call *call, const kiln_error *result);

#endif
