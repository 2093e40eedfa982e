// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_SHARDED_H
#define KILN_KILN_SHARDED_H

/// An optimiser over the members of a group, of which each keeps a part of the state: the gradients
/// of all members are averaged and each gets the part that is its own (reduce-scatter), makes the
/// step of that part, and gives it to the others (all-gather). Parameters of one dtype lie in rows,
/// the last ones of the set first; each row is cut into as many equal parts as there are members,
/// and travels when its gradients have come. The result is that of kiln_optimiser_step on every
/// member with the averaged gradients, up to the order in which sums are made.
///
/// Unless a function says otherwise: one thread at a time uses it, its sets and, for a step, its
/// group; arguments are borrowed for the call; it can fail with INVALID_ARGUMENT or
/// RESOURCE_EXHAUSTED, with the errors of recording, and with the group's failure. NULL where a
/// pointer is needed is INVALID_ARGUMENT; a function without a status then does nothing and gives
/// NULL.

#include "kiln_grad.h"
#include "kiln_optimiser.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_sharded kiln_sharded;

typedef struct kiln_sharded_options {
    uint32_t struct_size;
    uint32_t late; ///< 1: after a step values may be on their way still, see kiln_sharded_step
    uint64_t bucket_bytes; ///< parameters travel together until they have this; 0: a sixteenth of
                           ///< all, from 4 to 64 MiB
    const kiln_optimiser_options *optimiser; ///< copied; NULL: the defaults
} kiln_sharded_options;

#define KILN_SHARDED_OPTIONS_INIT                                                                  \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_sharded_options)                                      \
    }

/// Makes one of all parameters that the sets have now. sets[i] is of the group's device i in this
/// process (kiln_collective_member); all members, in all processes, have the same parameters in one
/// order, and the same values (kiln_params_broadcast). Group and sets outlive it; the sets get no
/// further parameters. `options` may be NULL. The caller owns `*out_sharded`
/// (kiln_sharded_destroy).
KILN_NODISCARD KILN_API kiln_status kiln_sharded_create(kiln_collective *group,
                                                        kiln_params *const *sets, size_t n_sets,
                                                        const kiln_sharded_options *options,
                                                        kiln_sharded **out_sharded,
                                                        kiln_error *err);

/// Frees it and its state; the parameters stay, with the values of the last step. Takes NULL.
KILN_API void kiln_sharded_destroy(kiln_sharded *sharded);

/// Gives the gradient that member `member` of this process has for a parameter, before the step
/// that it is for. A row that is complete is averaged at once, beside what the devices do. The
/// gradient is held until then. A failure that is not INVALID_ARGUMENT takes back all that was
/// submitted.
KILN_NODISCARD KILN_API kiln_status kiln_sharded_submit(kiln_sharded *sharded, size_t member,
                                                        size_t parameter, kiln_tensor *gradient,
                                                        kiln_error *err);

/// From now on kiln_backward on the tape submits the member's gradients (kiln_tape_hand). Each step
/// has tapes of its own, since it gives the parameters new values. Those of several members go
/// backwards on one thread (kiln_backward_all), while `sharded` exists.
KILN_NODISCARD KILN_API kiln_status kiln_sharded_join(kiln_sharded *sharded, size_t member,
                                                      kiln_tape *tape, kiln_error *err);

/// Makes a step on all members of this process; all processes make it at the same point of their
/// calls on the group. gradients[i * parameters + p], on the device of set i, is what member i has
/// for parameter p, as its backward pass gives it; NULL where it was submitted. `gradients` NULL
/// and 0: all were. The mean over the members is taken here, so they are not to be averaged before.
/// Wrong gradients change nothing; a step that fails on the way may have changed state, and the
/// parameters of some members. With scaling of the loss it waits until it knows whether the
/// gradients of all members are finite.
///
/// With options.late it returns while the new values travel: kiln_params_tensor then makes the
/// device wait for the row of the parameter that is asked for, behind what was recorded before. So
/// who asks for the parameters of a layer when it comes to that layer computes meanwhile. Ask
/// before a capture begins, not in it. A failure on the way is that of the values.
KILN_NODISCARD KILN_API kiln_status kiln_sharded_step(kiln_sharded *sharded,
                                                      kiln_tensor *const *gradients,
                                                      size_t n_gradients, kiln_error *err);

/// The optimiser of member i of this process, to ask for its rate and number of steps, to scale its
/// loss, and to save and load its part of the state (kiln_optimiser_save, a file for each member).
/// Parameters are saved from their set: what loads both goes on bit for bit, in a group of as many
/// members. Steps are made by kiln_sharded_step. NULL past the last. Lives as long as `sharded`.
KILN_API kiln_optimiser *kiln_sharded_optimiser(const kiln_sharded *sharded, size_t member);

#ifdef __cplusplus
}
#endif

#endif
