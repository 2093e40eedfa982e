// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_COLLECTIVE_H
#define KILN_KILN_COLLECTIVE_H

/// Collective calls over several devices.

#include "kiln_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_collective kiln_collective;

/// A group of devices of one context, of whatever platforms, one rank each in the order given.
/// `options` may be NULL; its `ranks` may be 0. collective.h says how a group fails, and offers
/// groups whose ranks are not driven from one thread. Ownership: `*out_collective` is the caller's
/// (kiln_collective_destroy, which waits for calls that were started: at most their deadline);
/// devices are held. Lifetime: until destroyed. Thread: any. Errors:
/// INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
struct kiln_coll_group_options;
KILN_NODISCARD KILN_API kiln_status kiln_collective_create(
    kiln_device *const *devices, size_t count, const struct kiln_coll_group_options *options,
    kiln_collective **out_collective, kiln_error *err);
KILN_API void kiln_collective_destroy(kiln_collective *collective);

/// As kiln_collective_create, over all processes that mpirun started, each of which calls this with
/// its devices: its ranks follow those of the processes before it. Calls below take the tensors of
/// this process's devices; roots are counted over all. Open MPI or MPICH is loaded here; once in a
/// process. Ownership: as kiln_collective_create. Lifetime: until destroyed, which waits for the
/// other processes to do so; after a failure leave the process by _exit. Thread: any. Errors: also
/// UNAVAILABLE (no MPI), FAILED_PRECONDITION (used before), DEADLINE_EXCEEDED (a process did not
/// come).
KILN_NODISCARD KILN_API kiln_status kiln_collective_create_mpi(
    kiln_device *const *devices, size_t count, const struct kiln_coll_group_options *options,
    kiln_collective **out_collective, kiln_error *err);

/// The first rank of this process, and how many ranks there are in all processes.
/// Ownership: values. Lifetime: n/a. Thread: any. Errors: none.
KILN_API uint32_t kiln_collective_rank(const kiln_collective *collective);
KILN_API uint32_t kiln_collective_ranks(const kiln_collective *collective);

/// The group's number among those of its context, never 0, for operations that name it:
/// kiln_all_reduce of kiln_ops.h, each member of which may be recorded by a thread of its own. All
/// devices must then get the parts of all groups in one order: a device that has resolved a result
/// waits for it before it begins its next part, and parts that so wait for each other, also those
/// of two ranks on one device, end at the deadline. Calls on a whole group begin all parts at once.
/// Ownership: a value. Lifetime: the group's. Thread: any. Errors: none.
KILN_API int64_t kiln_collective_id(const kiln_collective *collective);

/// Collective calls: inputs[i] is on device i, all of one shape and dtype; `op` is "sum", "mean",
/// "min", "max" or "prod", elementwise, f16 and bf16 combined in f32, the mean of integers their
/// wrapped sum divided towards zero, in an order that depends on
/// the group and the length alone, so that results have the same bits on every device and in every
/// run. All devices get the work that their inputs need before any is waited for. The calls return
/// at once: an out_tensors[i], on device i, is not ready until kiln_collective_resolve; every other
/// call refuses it, only kiln_release takes it. all_reduce: all inputs combined, on every device.
/// reduce: the same, on device `root` alone; the others get NULL. broadcast: the input of `root`,
/// whose shape the others give with theirs. all_gather: the inputs one after the other along axis
/// 0. reduce_scatter: of the combined elements in row-major order device i gets the i-th part, of
/// rank 1; the first count % devices parts have one element more. Ownership: inputs are borrowed;
/// each out_tensors[i] is the caller's hold. Lifetime: until released; inputs may be released
/// before the call has ended. Thread: any; the order of calls on a group is the order of their
/// starts. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED, FAILED_PRECONDITION for an input that is
/// not resolved; a rank's failure, after which the group gives it again until destroyed. A failure
/// while a call is under way comes with its resolve, the same for all.
KILN_NODISCARD KILN_API kiln_status kiln_collective_all_reduce(kiln_collective *collective,
                                                               kiln_tensor *const *inputs,
                                                               const char *op,
                                                               kiln_tensor **out_tensors,
                                                               kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_collective_reduce(kiln_collective *collective,
                                                           kiln_tensor *const *inputs,
                                                           const char *op, uint32_t root,
                                                           kiln_tensor **out_tensors,
                                                           kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_collective_broadcast(kiln_collective *collective,
                                                              kiln_tensor *const *inputs,
                                                              uint32_t root,
                                                              kiln_tensor **out_tensors,
                                                              kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_collective_all_gather(kiln_collective *collective,
                                                               kiln_tensor *const *inputs,
                                                               kiln_tensor **out_tensors,
                                                               kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_collective_reduce_scatter(kiln_collective *collective,
                                                                   kiln_tensor *const *inputs,
                                                                   const char *op,
                                                                   kiln_tensor **out_tensors,
                                                                   kiln_error *err);

/// As all_reduce, with the tensors' own memory for the result, where nobody else sees it: they are
/// the results from then on, to be resolved. A tensor whose part was refused keeps its value. Not
/// in a capture. Ownership: borrowed. Lifetime: n/a. Thread: any; nobody else uses the tensors
/// meanwhile. Errors: as above.
KILN_NODISCARD KILN_API kiln_status kiln_collective_all_reduce_in_place(kiln_collective *collective,
                                                                        kiln_tensor *const *tensors,
                                                                        const char *op,
                                                                        kiln_error *err);

/// Returns when every rank of the group has come here and all calls before have ended.
/// Ownership: n/a. Lifetime: n/a. Thread: any. Errors: a rank's failure.
KILN_NODISCARD KILN_API kiln_status kiln_collective_barrier(kiln_collective *collective,
                                                            kiln_error *err);

/// Makes the result of a collective call a tensor like any other: its device waits for the call
/// before it does anything else, the calling thread does not. (A device without a queue that can
/// wait, such as the reference, is waited for here.) A failure that is known is returned; one that
/// comes later is that of the tensor and of all that was computed from it: reading them gives it,
/// and so does kiln_sync. All of it ends by the group's deadline. A tensor that needs it not is
/// left as it is. `ended` says whether the call is over. In a capture, collective_sync of
/// kiln_ops.h is the same as an operation: its result is the resolved tensor. Ownership: borrowed.
/// Lifetime: n/a. Thread: any. Errors: the failure of the call; FAILED_PRECONDITION in a capture.
KILN_NODISCARD KILN_API kiln_status kiln_collective_resolve(kiln_tensor *tensor, kiln_error *err);
KILN_API bool kiln_collective_ended(const kiln_tensor *tensor);

/// Unsafe: takes the tensor for resolved, though its call may still write to it, or fail. For those
/// who order their work with the group's by other means. Ownership: borrowed. Lifetime: n/a.
/// Thread: any. Errors: none, also where there should be some.
KILN_API void kiln_collective_assume_resolved(kiln_tensor *tensor);

/// Changes the choice of algorithms, "all_reduce:tree", for calls that start later, in all
/// processes at the same point. collective.h has the grammar. Ownership: the text is copied.
/// Lifetime: n/a. Thread: any. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_collective_select(kiln_collective *collective,
                                                           const char *select, kiln_error *err);

/// OK, or the failure that ended the group, with the rank that caused it (`out_rank` may be NULL).
/// Ownership: values. Lifetime: n/a. Thread: any. Errors: the failure.
KILN_API kiln_status kiln_collective_status(kiln_collective *collective, int32_t *out_rank,
                                            kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
