// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_SPIN_H
#define KILNI_CL_SPIN_H

/// PoCL's workers look for work before they sleep, while somebody waits for them or may soon. All
/// but one at most: the last one that works need not look.

#include "base.h"
#include "cl_opencl.h"

typedef struct kilni_cl_spin kilni_cl_spin;

/// For a device of PoCL's with so many workers, in one of its contexts. NULL where nothing is
/// gained: one worker, too many, a device that runs no functions of the host, no memory.
kilni_cl_spin *kilni_cl_spin_open(const kiln_env *env, cl_context context, cl_device_id device,
                                  uint32_t workers);

/// A command was queued: workers are to look for what comes behind it. The functions below take
/// NULL; those from here to the stop may be called by several threads.
void kilni_cl_spin_queued(kilni_cl_spin *spin);

/// Between begin and end somebody waits for what is queued.
void kilni_cl_spin_begin(kilni_cl_spin *spin);
void kilni_cl_spin_end(kilni_cl_spin *spin);

/// No worker looks any more. Returns at once; nothing is given back.
void kilni_cl_spin_stop(kilni_cl_spin *spin);

/// Stops, waits until all workers have left, and gives everything back.
void kilni_cl_spin_close(kilni_cl_spin *spin);

#endif
