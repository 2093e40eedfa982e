// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_GRAD_H
#define KILN_KILN_GRAD_H

/// Gradients by reverse mode. A tape watches what its thread records with tracked tensors;
/// kiln_backward goes through it backwards, and kiln_gradient gives the result. Calls of kiln.h
/// stay as they are. What backward records are operations like all others: they are fused, captured
/// in graphs, and run on remote devices.
///
/// A tape watches one device and the thread that made it, which alone uses it. Arguments are
/// borrowed for the call; the caller releases each tensor that it gets. Unless a function says
/// otherwise it can fail with INVALID_ARGUMENT or RESOURCE_EXHAUSTED. NULL where a pointer is
/// needed is INVALID_ARGUMENT; a function without a status then does nothing and gives 0.

#include "kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_tape kiln_tape;

/// Makes a tape without tracked tensors.
KILN_NODISCARD KILN_API kiln_status kiln_tape_create(kiln_device *device, kiln_tape **out_tape,
                                                     kiln_error *err);

/// Frees the tape with what it keeps. Tensors that it tracked stay, and are tracked no more. Takes
/// NULL.
KILN_API void kiln_tape_destroy(kiln_tape *tape);

/// Tracks a tensor: what is computed from it from now on is tracked, too, and backward gives it a
/// gradient (kiln_gradient). It must be of floats. A result that is tracked already, because it was
/// computed from tracked tensors, gets a gradient of its own and stays what it is.
KILN_NODISCARD KILN_API kiln_status kiln_tape_track(kiln_tape *tape, kiln_tensor *tensor,
                                                    kiln_error *err);

/// Whether the tape tracks the tensor, as one that was given or one that was computed from them.
KILN_API bool kiln_tape_tracks(const kiln_tape *tape, const kiln_tensor *tensor);

/// Until kiln_tape_resume nothing is recorded on the tape: results are not tracked, and to other
/// tapes of its thread its tensors are constants. The calls may be nested.
KILN_API void kiln_tape_pause(kiln_tape *tape);

/// Ends what the last kiln_tape_pause began.
KILN_API void kiln_tape_resume(kiln_tape *tape);

/// Gives the value of a tensor as one that no tape tracks: gradients stop there. It takes no copy.
KILN_NODISCARD KILN_API kiln_status kiln_detach(kiln_tensor *tensor, kiln_tensor **out_tensor,
                                                kiln_error *err);

/// Goes backwards from `loss`, a tracked tensor, and adds to the gradients of all tensors given to
/// kiln_tape_track. `seed` is the gradient of the loss and like it; NULL: 1, and the loss has one
/// element. Contributions are added in the order of recording, the last first, so the bits are the
/// same in every run. The tape forgets all operations and lets go of what it kept of them: what was
/// computed before is constant from then on, but for tensors given to kiln_tape_track. When a
/// gradient fails it forgets them, too. Errors: also UNIMPLEMENTED, naming the operator, where a
/// gradient is not written; with kiln_tape_join those of the job, which is to be closed after any.
KILN_NODISCARD KILN_API kiln_status kiln_backward(kiln_tape *tape, kiln_tensor *loss,
                                                  kiln_tensor *seed, kiln_error *err);

/// From now on kiln_backward averages gradients with the other members of a job: each leaf that
/// stands for a parameter (kiln_tensor_set_param, as those of kiln_params do) gives `job` its
/// gradient when its last contribution has arrived, beside the rest of backward, and backward ends
/// with kiln_gradsync_sync. kiln_gradient then gives what the job gave. Gradients that were found
/// before without a job go along with the first that it gets. `job` NULL: no more. The tape holds
/// the job; whoever calls for `member` otherwise does it between two backwards. Over MPI all
/// members record the same operations, for this is what registers parameters in one order.
KILN_NODISCARD KILN_API kiln_status kiln_tape_join(kiln_tape *tape, kiln_gradsync *job,
                                                   uint32_t member, kiln_error *err);

/// Takes the gradient of `leaf`, a tensor given to kiln_tape_track; both are borrowed.
typedef kiln_status (*kiln_leaf_fn)(void *user, kiln_tensor *leaf, kiln_tensor *gradient,
                                    kiln_error *err);

/// From now on kiln_backward gives `take` the gradient of each leaf that stands for a parameter
/// when its last contribution has arrived, beside the rest of backward, and forgets it:
/// kiln_gradient gives zeros. Gradients that were found before go along. `take` records what it
/// likes, which the tape does not watch; its failure is backward's. `take` NULL: no more. It takes
/// the place of a job, and a job its.
KILN_NODISCARD KILN_API kiln_status kiln_tape_hand(kiln_tape *tape, kiln_leaf_fn take, void *user,
                                                   kiln_error *err);

/// kiln_backward for several tapes of this thread, each with a loss of one element: those of
/// several members of a job, which would wait for each other. Errors: as kiln_backward, and those
/// of the job. After an error the job is to be closed.
KILN_NODISCARD KILN_API kiln_status kiln_backward_all(kiln_tape *const *tapes,
                                                      kiln_tensor *const *losses, size_t n_tapes,
                                                      kiln_error *err);

/// Gives the sum of the gradients that backward found for a tensor given to kiln_tape_track; zeros
/// when there was none.
KILN_NODISCARD KILN_API kiln_status kiln_gradient(kiln_tape *tape, kiln_tensor *tensor,
                                                  kiln_tensor **out_gradient, kiln_error *err);

/// Gives the gradients of `loss` for tracked tensors, in `out_gradients`. The tape keeps all, and
/// records how the gradients were computed: they are tracked, and have gradients themselves. What
/// kiln_gradient gives stays as it was. A part that backward computes again may call it. For `seed`
/// and errors see kiln_backward.
KILN_NODISCARD KILN_API kiln_status kiln_gradients(kiln_tape *tape, kiln_tensor *loss,
                                                   kiln_tensor *seed, kiln_tensor *const *tensors,
                                                   size_t n_tensors, kiln_tensor **out_gradients,
                                                   kiln_error *err);

/// A gradient in the caller's words: fills out_gradients[i] with the gradient for input i, which
/// the tape releases, or leaves NULL for 0. `gradients[i]` is that of output i; NULL: 0.
typedef kiln_status (*kiln_gradient_fn)(void *user, kiln_tensor *const *gradients,
                                        kiln_tensor **out_gradients, kiln_error *err);

/// Says that `outputs` were computed from `inputs`, and that `backward` is their gradient. Compute
/// them while the tape is paused. `drop_user`, if not NULL, is called with `user` when the tape
/// needs it no more, also when this call fails.
KILN_NODISCARD KILN_API kiln_status kiln_tape_custom(kiln_tape *tape, kiln_tensor *const *inputs,
                                                     size_t n_inputs, kiln_tensor *const *outputs,
                                                     size_t n_outputs, kiln_gradient_fn backward,
                                                     void (*drop_user)(void *user), void *user,
                                                     kiln_error *err);

/// A part of a computation: from `inputs` to `out_outputs`, which the caller releases. It may leave
/// outputs NULL, the same ones each time.
typedef kiln_status (*kiln_part_fn)(void *user, kiln_tensor *const *inputs,
                                    kiln_tensor **out_outputs, kiln_error *err);

/// Computes a part without keeping what lies inside it: backward computes the part again and goes
/// through that. `part` gets the same inputs both times and must do the same. It may use other
/// tracked tensors, such as parameters; `inputs` and these are what has gradients. Parts may stand
/// in parts. The tape is paused the first time: a part that takes gradients uses a tape of its own
/// then, and kiln_gradients of this one the second time. `drop_user` as for kiln_tape_custom.
/// Errors: also those of the part.
KILN_NODISCARD KILN_API kiln_status kiln_tape_checkpoint(kiln_tape *tape, kiln_part_fn part,
                                                         void (*drop_user)(void *user), void *user,
                                                         kiln_tensor *const *inputs,
                                                         size_t n_inputs, kiln_tensor **out_outputs,
                                                         size_t n_outputs, kiln_error *err);

/// Lets the tape hold about `bytes` of what was computed, beside tensors given to kiln_tape_track;
/// 0: all that its rules need. Beyond that it lets go of values that are cheap to have again, which
/// backward then computes once more from what is held: results of elementwise operations, views and
/// rows (softmax, norms), never those of products. Gradients have the same bits where such
/// operations do, fused or not. What cannot be had again stays, also beyond `bytes`. Errors: also
/// FAILED_PRECONDITION when the tape has operations.
KILN_NODISCARD KILN_API kiln_status kiln_tape_set_budget(kiln_tape *tape, uint64_t bytes,
                                                         kiln_error *err);

/// With a budget: the bytes that the tape holds, beside tensors given to kiln_tape_track. A view
/// counts as much as what it shows.
KILN_API uint64_t kiln_tape_held_bytes(const kiln_tape *tape);

/// Gives the gradient of a captured graph as a graph: its outputs are those of `graph`, then the
/// gradients of output 0, which has one element, for the inputs numbered in `wanted`. `inputs` are
/// tensors like those that it is to be run with, in these shapes; their contents do not matter. The
/// caller owns `*out_graph`. Errors: also those of kiln_graph_begin, kiln_backward and
/// kiln_graph_end.
KILN_NODISCARD KILN_API kiln_status kiln_graph_gradient(kiln_graph *graph,
                                                        kiln_tensor *const *inputs, size_t n_inputs,
                                                        const size_t *wanted, size_t n_wanted,
                                                        kiln_graph **out_graph, kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
