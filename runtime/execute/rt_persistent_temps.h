// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_PERSISTENT_TEMPS_H
#define KILN_RUNTIME_PERSISTENT_TEMPS_H

/// Temporaries that plans keep from run to run (persistent_temps.c).

#include "rt_binding.h"
#include "rt_block_programs.h"

/// What the executor keeps from run to run. All under the device's lock.
typedef struct kilni_execution {
    kilni_binding **bindings; ///< of the segment that runs
    size_t bindings_capacity;
    struct kilni_persistent_temp *kept; ///< temporaries that plans keep
    kilni_block_programs programs;
    struct kilni_repeat *repeats; ///< runs that are kept to be repeated
} kilni_execution;

enum { KILNI_TEMP_SOURCES = 32 };

/// What a PERSISTENT temporary is made from: the memory of constants, and numbers. Equal in both,
/// equal in content.
typedef struct kilni_temp_origin {
    kiln_hash128 numbers; ///< of all that its launch sees beside memory, and of its own size
    uint32_t n_sources; ///< more than there is room for: not kept
    kilni_binding *sources[KILNI_TEMP_SOURCES];
} kilni_temp_origin;

/// A PERSISTENT temporary and the constants that it was made from. These are held, so that memory
/// at the same address is the same memory. All under the device's lock.
typedef struct kilni_persistent_temp {
    kilni_binding temp; ///< bound: there is one
    kiln_hash128 program; ///< whose temporary it is: other plans with this program share it
    uint32_t number; ///< of the temporary
    struct kilni_persistent_temp *next; ///< of the device's
    struct kilni_persistent_temp *before;
    kiln_hash128 numbers;
    kilni_binding sources[KILNI_TEMP_SOURCES];
    uint32_t n_sources;
} kilni_persistent_temp;

bool kilni_persistent_temp_serves(const kilni_persistent_temp *kept, const kilni_temp_origin *from);

/// What another plan with the same program keeps of the same constants, or NULL.
const kilni_persistent_temp *kilni_persistent_temp_find(const kiln_device *device,
                                                        kiln_hash128 program, uint32_t number,
                                                        const kilni_temp_origin *from);

/// Keeps the temporary instead of what was kept before; not with too many sources.
void kilni_persistent_temp_set(kiln_device *device, kilni_persistent_temp *kept,
                               const kilni_binding *temp, const kilni_temp_origin *from);
/// Lets the device give back the constants that the temporary was just made from: who still reads
/// them gets them again, and then they stay. In samples, whose memory goes anyway, they stay, too.
void kilni_persistent_temp_spare(kiln_device *device, const kilni_persistent_temp *kept);
void kilni_persistent_temp_clear(kiln_device *device, kilni_persistent_temp *kept);

/// Drops what was made from this memory, which nobody else holds any more.
void kilni_persistent_temp_forget(kiln_device *device, kilni_storage *source);

/// Drops everything; what is needed again is made again. False: there was nothing.
bool kilni_persistent_temp_drop(kiln_device *device);

#endif
