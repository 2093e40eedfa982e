// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_GRADSYNC_H
#define KILN_KILN_GRADSYNC_H

/// Gradient synchronisation: gradients averaged as they become ready.

#include "kiln_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_gradsync kiln_gradsync;

/// The identity of a parameter, on all devices and in all processes: a number of the program's
/// choosing; 0 is none. Equal numbers are the same parameter; eight bytes, little-endian, on a
/// wire.
typedef uint64_t kiln_param_id;

/// A tensor may stand for a parameter, or be a gradient of it. The id lies on the tensor, with all
/// holds of it, and goes along with kiln_to_device; results of operations have none.
/// Ownership: values. Lifetime: the tensor's. Thread: any. Errors: none.
KILN_API void kiln_tensor_set_param(kiln_tensor *tensor, kiln_param_id id);
KILN_API kiln_param_id kiln_tensor_param(const kiln_tensor *tensor);
KILN_API bool kiln_tensor_is_distributed(const kiln_tensor *tensor);

typedef struct kiln_gradsync_options {
    uint32_t struct_size;
    uint32_t over_mpi; ///< 1: with the members of all processes (kiln_collective_create_mpi)
    const char *op; ///< "sum" or "mean"; NULL: mean
    uint64_t deadline_ns; ///< of each wait; 0: 30 seconds
    uint64_t bucket_bytes; ///< parameters below this travel together, up to this; 0: 1 MiB
    const char *select; ///< algorithms for larger ones, as collective.h has it; NULL: the table's
} kiln_gradsync_options;

#define KILN_GRADSYNC_OPTIONS_INIT                                                                 \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_gradsync_options)                                     \
    }

/// Starts a job: one member for each device. The same name again gives the open job when devices
/// and options are equal; one that was closed is replaced. Several jobs in a context do not know of
/// each other. Over MPI all processes meet here, and all their members register the same parameters
/// in the same order. Ownership: `*out_job` is the caller's hold (kiln_gradsync_release); devices
/// are held until closed. Lifetime: until closed; kiln_context_destroy closes what is left. Thread:
/// any. Errors: INVALID_ARGUMENT, ALREADY_EXISTS (it runs with other devices or options),
/// RESOURCE_EXHAUSTED; over MPI also those of kiln_collective_create_mpi.
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_start(kiln_context *context, const char *name,
                                                        kiln_device *const *devices, size_t count,
                                                        const kiln_gradsync_options *options,
                                                        kiln_gradsync **out_job, kiln_error *err);

/// Looks a job up, open or closed; closes it, with everything pending cancelled, again as often as
/// one likes; removes its name, closing it before.
/// Ownership: `*out_job` is the caller's hold. Lifetime: as start. Thread: any; close not while
/// holding up a member's call. Errors: NOT_FOUND, INVALID_ARGUMENT.
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_find(kiln_context *context, const char *name,
                                                       kiln_gradsync **out_job, kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_close(kiln_context *context, const char *name,
                                                        kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_remove(kiln_context *context, const char *name,
                                                         kiln_error *err);
KILN_API kiln_gradsync *kiln_gradsync_retain(kiln_gradsync *job);
KILN_API void kiln_gradsync_release(kiln_gradsync *job);

/// What a member does in each epoch. `register` begins its next epoch and says which parameters it
/// will submit, perhaps none. `submit` gives a gradient, with what was accumulated for its
/// parameter added. `sync` says that it has submitted all, and returns when those of the others
/// that it needs are there: its device then waits for the reductions, as kiln_collective_resolve
/// does, with failures that come later; without a register before, it does nothing. A parameter is
/// reduced over the members that registered it in that epoch, as soon as all members have
/// registered and those have submitted; a mean divides by their number. `accumulate` adds to a
/// gradient of this member without sending anything. `finish` says that the member has no more
/// batches in this round: later epochs go on without it, until all have finished and a new round
/// begins; its next register waits for that. `ready` says whether sync would return without waiting
/// for another member. The first thing that goes wrong, a member that is late, submits twice or
/// something else than the others, is the failure of the job: every member's calls give it, with
/// the member and the cause. Ownership: gradients are borrowed, held until reduced. Lifetime: n/a.
/// Thread: one at a time per member. Errors: FAILED_PRECONDITION without a job or with a closed
/// one, or for a call out of order; CANCELLED when it is closed meanwhile; DEADLINE_EXCEEDED;
/// INVALID_ARGUMENT; the failure.
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_register(kiln_gradsync *job, uint32_t member,
                                                           const kiln_param_id *ids, size_t count,
                                                           kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_submit(kiln_gradsync *job, uint32_t member,
                                                         kiln_tensor *gradient, kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_accumulate(kiln_gradsync *job, uint32_t member,
                                                             kiln_tensor *gradient,
                                                             kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_sync(kiln_gradsync *job, uint32_t member,
                                                       kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_finish(kiln_gradsync *job, uint32_t member,
                                                         kiln_error *err);
KILN_API bool kiln_gradsync_ready(kiln_gradsync *job, uint32_t member);

/// The reduced gradient of a parameter, between sync and the member's next register.
/// Ownership: `*out_gradient` is the caller's hold. Lifetime: until released. Thread: as above.
/// Errors: NOT_FOUND, FAILED_PRECONDITION, the failure.
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_gradient(kiln_gradsync *job, uint32_t member,
                                                           kiln_param_id id,
                                                           kiln_tensor **out_gradient,
                                                           kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
