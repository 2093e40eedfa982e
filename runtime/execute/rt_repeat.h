// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_REPEAT_H
#define KILN_RUNTIME_REPEAT_H

/// What a run of a plan enqueued, prepared to be enqueued again (plan_repeat.c): a run that repeats
/// walks no plan and sets no arguments but those of buffers that are others now. All under the
/// device's lock.

#include "kiln_device.h"
#include "rt_run.h"

struct kilni_block_state;

/// Begins to note what the run does that gets this. NULL: the device prepares no launches, or there
/// is no memory.
kilni_repeat *kilni_repeat_begin(kiln_device *device);

/// The run did what the next one may not repeat. Takes NULL.
void kilni_repeat_refuse(kilni_repeat *repeat);

/// Prepares what was noted. `outside`: buffers that may be others in the next run, by number; NULL
/// ones are none. `constants`: buffers that will be the same. False: the run is not to be repeated.
bool kilni_repeat_end(kilni_repeat *repeat, kiln_buffer *const *outside, uint32_t n_outside,
                      kiln_buffer *const *constants, uint32_t n_constants);

/// Whether it may run again as things are.
bool kilni_repeat_holds(const kilni_repeat *repeat);

/// The buffer of number `outside` from now on.
void kilni_repeat_replace(kilni_repeat *repeat, uint32_t outside, kiln_buffer *buffer);

/// Enqueues it. `*out_begun`, false before, says whether any of it was, also on failure.
kiln_status kilni_repeat_run(kilni_repeat *repeat, bool *out_begun, kiln_error *err);
void kilni_repeat_free(kilni_repeat *repeat);

/// A block's program goes, or memory of a temporary that a plan kept: what repeats it ends.
void kilni_repeat_lose_block(kiln_device *device, const struct kilni_block_state *state);
void kilni_repeat_lose_buffer(kiln_device *device, const kiln_buffer *buffer);

#endif
