// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_COLLECTIVE_H
#define KILN_KILN_COLLECTIVE_H

/// Collective calls over several devices. inputs[i] is on device i, and all have one shape and
/// dtype. Elements are combined one by one, f16 and bf16 in f32, in an order that depends on the
/// group and the length only: results have the same bits on every device and in every run. All
/// devices get the work that their inputs need before any is waited for. A call returns at once:
/// its result out_tensors[i], on device i, is not ready until kiln_collective_resolve. Every other
/// call refuses it; only kiln_release takes it. Inputs may be released before the call has ended.
///
/// Unless a function says otherwise: any thread may call it, and calls on a group are ordered by
/// their starts; its arguments are borrowed; the caller holds each out_tensors[i]. Errors:
/// INVALID_ARGUMENT, RESOURCE_EXHAUSTED, FAILED_PRECONDITION for an input that is not resolved, and
/// the failure of a rank, which the group then gives until it is destroyed. A failure while a call
/// is under way comes with its resolve, the same for all. NULL where a pointer is needed is
/// INVALID_ARGUMENT; a function without a status then does nothing and gives 0.

#include "kiln_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_collective kiln_collective;

struct kiln_coll_group_options; // collective.h

/// Makes a group of devices of one context, of whatever platforms, one rank each in the order
/// given. `options` may be NULL; its `ranks` may be 0. collective.h says how a group fails, and
/// offers groups whose ranks are not driven from one thread. The group holds its devices. The
/// caller owns `*out_collective` (kiln_collective_destroy).
KILN_NODISCARD KILN_API kiln_status kiln_collective_create(
    kiln_device *const *devices, size_t count, const struct kiln_coll_group_options *options,
    kiln_collective **out_collective, kiln_error *err);

/// Gives up a hold of the group; the last one frees it. It waits for calls that were started, at
/// most until their deadline. A group over MPI waits until the other processes destroy theirs.
/// Takes NULL.
KILN_API void kiln_collective_destroy(kiln_collective *collective);

/// Makes a group over all processes that mpirun started, each of which calls this with its devices.
/// Its ranks follow those of the processes before it. Collective calls take the tensors of this
/// process's devices; roots are counted over all. All processes make and destroy their groups over
/// MPI, and jobs over it (kiln_gradsync.h), in one order. Open MPI or MPICH is loaded here, and
/// ended when the process exits. After a failure leave the process by _exit. Errors: also
/// UNAVAILABLE without MPI, FAILED_PRECONDITION when others started it without threads,
/// DEADLINE_EXCEEDED when a process did not come.
KILN_NODISCARD KILN_API kiln_status kiln_collective_create_mpi(
    kiln_device *const *devices, size_t count, const struct kiln_coll_group_options *options,
    kiln_collective **out_collective, kiln_error *err);

/// Splits a group: ranks whose colours are equal make a group of their own, in the order of their
/// keys, and of their ranks where keys are equal. colours[i] and keys[i] are those of the i-th rank
/// of this process; a colour below 0 joins no group, `keys` may be NULL. out_parts[i] is the group
/// of that rank, or NULL. Ranks of one colour get the same one, and each of them a hold of it
/// (kiln_collective_destroy). A part takes the tensors of its own members, in the order of
/// kiln_collective_member; it has its parent's deadline and choice of algorithms, fails by itself,
/// and may outlive its parent. Over MPI all processes of the group split it at the same point of
/// their calls, the call waits for them, and parts of one split are destroyed in the order of their
/// colours. On failure all parts are NULL.
KILN_NODISCARD KILN_API kiln_status kiln_collective_split(kiln_collective *collective,
                                                          const int32_t *colours,
                                                          const int32_t *keys,
                                                          kiln_collective **out_parts,
                                                          kiln_error *err);

/// The device of the index-th rank of this process, in ascending order of ranks, which is borrowed;
/// NULL past the last. `out_rank` gets its rank among all; it may be NULL.
KILN_API kiln_device *kiln_collective_member(const kiln_collective *collective, size_t index,
                                             uint32_t *out_rank);

/// The first rank of this process.
KILN_API uint32_t kiln_collective_rank(const kiln_collective *collective);

/// How many ranks there are in all processes.
KILN_API uint32_t kiln_collective_ranks(const kiln_collective *collective);

/// The group's number among those of its context, never 0, for operations that name it, such as
/// kiln_all_reduce of kiln_ops.h. Each member of such an operation may be recorded by a thread of
/// its own; then all devices must get the parts of all groups in one order. A device that has
/// resolved a result waits for it before it begins its next part. Parts that so wait for each
/// other, also those of two ranks on one device, end at the deadline. Calls on a whole group begin
/// all parts at once.
KILN_API int64_t kiln_collective_id(const kiln_collective *collective);

/// Combines all inputs; every device gets the result. `op` is "sum", "mean", "min", "max" or
/// "prod". The mean of integers is their wrapped sum divided towards zero.
KILN_NODISCARD KILN_API kiln_status kiln_collective_all_reduce(kiln_collective *collective,
                                                               kiln_tensor *const *inputs,
                                                               const char *op,
                                                               kiln_tensor **out_tensors,
                                                               kiln_error *err);

/// Combines all inputs; device `root` gets the result, the others get NULL. `op` is as for
/// all_reduce.
KILN_NODISCARD KILN_API kiln_status kiln_collective_reduce(kiln_collective *collective,
                                                           kiln_tensor *const *inputs,
                                                           const char *op, uint32_t root,
                                                           kiln_tensor **out_tensors,
                                                           kiln_error *err);

/// Copies the input of `root` to every device. The other inputs give its shape.
KILN_NODISCARD KILN_API kiln_status kiln_collective_broadcast(kiln_collective *collective,
                                                              kiln_tensor *const *inputs,
                                                              uint32_t root,
                                                              kiln_tensor **out_tensors,
                                                              kiln_error *err);

/// Puts the inputs one after the other along axis 0; every device gets all of it.
KILN_NODISCARD KILN_API kiln_status kiln_collective_all_gather(kiln_collective *collective,
                                                               kiln_tensor *const *inputs,
                                                               kiln_tensor **out_tensors,
                                                               kiln_error *err);

/// Combines all inputs; device i gets part i of the elements in row-major order, as a tensor of
/// rank 1. The first count % devices parts have one element more. `op` is as for all_reduce.
KILN_NODISCARD KILN_API kiln_status kiln_collective_reduce_scatter(kiln_collective *collective,
                                                                   kiln_tensor *const *inputs,
                                                                   const char *op,
                                                                   kiln_tensor **out_tensors,
                                                                   kiln_error *err);

/// Puts the inputs one after the other along axis 0; device `root` gets all of it, the others get
/// NULL.
KILN_NODISCARD KILN_API kiln_status kiln_collective_gather(kiln_collective *collective,
                                                           kiln_tensor *const *inputs,
                                                           uint32_t root, kiln_tensor **out_tensors,
                                                           kiln_error *err);

/// Cuts the input of `root` along axis 0 into as many equal parts as there are ranks; device i gets
/// part i. The other inputs give its shape and are not read.
KILN_NODISCARD KILN_API kiln_status kiln_collective_scatter(kiln_collective *collective,
                                                            kiln_tensor *const *inputs,
                                                            uint32_t root,
                                                            kiln_tensor **out_tensors,
                                                            kiln_error *err);

/// Cuts every input along axis 0 into as many equal parts as there are ranks. Device i gets part i
/// of all inputs, in the order of ranks along axis 0.
KILN_NODISCARD KILN_API kiln_status kiln_collective_all_to_all(kiln_collective *collective,
                                                               kiln_tensor *const *inputs,
                                                               kiln_tensor **out_tensors,
                                                               kiln_error *err);

/// Sends a tensor of rank `from`, one of this process, to rank `to`, and returns at once. Only
/// these two ranks take part: other ranks, also those of other processes, need not call. Both order
/// it alike among their calls on the group. In one process a send ends when its receive has come,
/// so that two ranks which send to each other, and receive after that, end at the deadline. A
/// failure of the send is the group's.
KILN_NODISCARD KILN_API kiln_status kiln_collective_send(kiln_collective *collective,
                                                         kiln_tensor *tensor, uint32_t from,
                                                         uint32_t to, kiln_error *err);

/// Receives on rank `to`, one of this process, what rank `from` sends. `like`, on its device, gives
/// dtype and shape, which the sender's must be, and is not read. `*out_tensor` is a result like the
/// others, to be resolved.
KILN_NODISCARD KILN_API kiln_status kiln_collective_receive(kiln_collective *collective,
                                                            kiln_tensor *like, uint32_t from,
                                                            uint32_t to, kiln_tensor **out_tensor,
                                                            kiln_error *err);

/// Combines the tensors as all_reduce does, in their own memory where nobody else sees it. The
/// tensors themselves become the results and must be resolved; nobody else may use them meanwhile.
/// A tensor whose part was refused keeps its value. Errors: also FAILED_PRECONDITION in a capture.
KILN_NODISCARD KILN_API kiln_status kiln_collective_all_reduce_in_place(kiln_collective *collective,
                                                                        kiln_tensor *const *tensors,
                                                                        const char *op,
                                                                        kiln_error *err);

/// Returns when every rank of the group has come here and all calls before have ended.
KILN_NODISCARD KILN_API kiln_status kiln_collective_barrier(kiln_collective *collective,
                                                            kiln_error *err);

/// Makes the result of a collective call a tensor like any other. Its device waits for the call
/// before it does anything else; the calling thread does not, unless the device has no queue that
/// can wait, such as the reference. A failure that is known is returned. One that comes later
/// belongs to the tensor and to all that is computed from it: reading them gives it, and so does
/// kiln_sync. All of it ends by the group's deadline. A tensor that needs no resolve is left as it
/// is. In a capture, collective_sync of kiln_ops.h does the same as an operation. Errors: the
/// failure of the call; FAILED_PRECONDITION in a capture.
KILN_NODISCARD KILN_API kiln_status kiln_collective_resolve(kiln_tensor *tensor, kiln_error *err);

/// Whether the call that made the tensor is over; true for NULL.
KILN_API bool kiln_collective_ended(const kiln_tensor *tensor);

/// Unsafe: takes the tensor for resolved, though its call may still write to it, or fail. For
/// programs that order their work with the group's by other means.
KILN_API void kiln_collective_assume_resolved(kiln_tensor *tensor);

/// Changes the choice of algorithms, such as "all_reduce:tree", for calls that start later. All
/// processes do it at the same point. collective.h has the grammar.
KILN_NODISCARD KILN_API kiln_status kiln_collective_select(kiln_collective *collective,
                                                           const char *select, kiln_error *err);

/// OK, or the failure that ended the group, with the rank that caused it. `out_rank` may be NULL.
KILN_API kiln_status kiln_collective_status(kiln_collective *collective, int32_t *out_rank,
                                            kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
