// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_SHARDED_H
#define KILN_KILN_SHARDED_H

/// An optimiser over the members of a group, of which each keeps a part of the state: the gradients
/// of all members are averaged and each gets the part that is its own (reduce-scatter), makes the
/// step of that part, and gives it to the others (all-gather). Parameters of one dtype are one row,
/// cut into as many equal parts as there are members, so that two collective calls serve them all.
/// The result is that of kiln_optimiser_step on every member with the averaged gradients, up to the
/// order in which sums are made.
///
/// Unless a function says otherwise: one thread at a time uses it, its sets and, for a step, its
/// group; arguments are borrowed for the call; it can fail with INVALID_ARGUMENT or
/// RESOURCE_EXHAUSTED, with the errors of recording, and with the group's failure. NULL where a
/// pointer is needed is INVALID_ARGUMENT; a function without a status then does nothing and gives
/// NULL.

#include "kiln_optimiser.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_sharded kiln_sharded;

/// Makes one of all parameters that the sets have now. sets[i] is of the group's device i in this
/// process (kiln_collective_member); all members, in all processes, have the same parameters in one
/// order, and the same values (kiln_params_broadcast). Group and sets outlive it; the sets get no
/// further parameters. `options` may be NULL. The caller owns `*out_sharded`
/// (kiln_sharded_destroy).
KILN_NODISCARD KILN_API kiln_status kiln_sharded_create(kiln_collective *group,
                                                        kiln_params *const *sets, size_t n_sets,
                                                        const kiln_optimiser_options *options,
                                                        kiln_sharded **out_sharded,
                                                        kiln_error *err);

/// Frees it and its state; the parameters stay. Takes NULL.
KILN_API void kiln_sharded_destroy(kiln_sharded *sharded);

/// Makes a step on all members of this process; all processes make it at the same point of their
/// calls on the group. gradients[i * parameters + p], on the device of set i, is what member i has
/// for parameter p, as its backward pass gives it; none is NULL. The mean over the members is taken
/// here, so they are not to be averaged before. Wrong gradients change nothing; a step that fails
/// on the way may have changed state, and the parameters of some members. With scaling of the loss
/// it waits until it knows whether the gradients of all members are finite.
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
