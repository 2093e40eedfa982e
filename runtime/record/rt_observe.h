// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_OBSERVE_H
#define KILN_RUNTIME_OBSERVE_H

/// Watching what is recorded, for modules on top of the runtime. A tensor may have a mark; after an
/// operation with marked inputs the observers that the marks name learn of it, the last one to
/// begin first. Marks cost a call without them one comparison for each input.

#include "ir_op.h"
#include "kiln_tensor.h"

/// An operation as its caller gave it; all borrowed for the call.
typedef struct kilni_observed {
    kiln_op op;
    kiln_tensor *const *inputs;
    size_t n_inputs;
    const kiln_attr *attrs;
    size_t n_attrs;
    kiln_tensor *const *outputs; ///< NULL: an unused one
    size_t n_outputs;
} kilni_observed;

typedef struct kilni_observer {
    /// Called on the observer's thread without a lock. A failure becomes that of the operation.
    kiln_status (*recorded)(void *user, const kilni_observed *call, kiln_error *err);
    void *user;
    unsigned paused; ///< more than 0: its marks keep nobody else from watching
    // From here: the runtime's.
    uint32_t number; ///< of the device's observers; never 0
    uint64_t thread;
    struct kilni_observer *next;
} kilni_observer;

/// Begins and ends watching what this thread records on the device. The observer stays where it is
/// until then, and begins and ends on one thread.
void kilni_observe(kiln_device *device, kilni_observer *observer);
void kilni_unobserve(kiln_device *device, kilni_observer *observer);

/// A mark is the number of an observer above 32 bits of its own; 0: none.
static inline uint64_t kilni_mark_make(const kilni_observer *observer, uint32_t own)
{
    return (uint64_t)observer->number << 32 | own;
}
uint64_t kilni_mark_of(const kiln_tensor *tensor);
void kilni_mark_set(kiln_tensor *tensor, uint64_t mark);
/// Whether the observer that marked the tensor still is there.
bool kilni_is_observed(const kiln_tensor *tensor);
/// Whether it is, and not one of this thread that is paused.
bool kilni_is_watched(const kiln_tensor *tensor);

/// The tensor's value as another tensor without a mark, recorded as a view.
kiln_status kilni_unobserved(kiln_tensor *tensor, kiln_tensor **out_tensor, kiln_error *err);

/// The tensor's description; its dtype, rank and dims never change.
const kiln_tensor_desc *kilni_observed_desc(const kiln_tensor *tensor);

#endif
