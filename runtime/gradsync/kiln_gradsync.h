// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_GRADSYNC_H
#define KILN_KILN_GRADSYNC_H

/// Gradient synchronisation: gradients averaged as they become ready. A job has one member for each
/// device. In each epoch a member registers the parameters that it will submit, submits their
/// gradients, and syncs. A parameter is reduced over the members that registered it in that epoch,
/// as soon as all members have registered and those have submitted; a mean divides by their number.
/// The first thing that goes wrong is the failure of the job: a member that is late, submits twice,
/// or submits something else than the others. Every member's calls then give it, with the member
/// and the cause.
///
/// Unless a function says otherwise: one thread at a time calls for a member, other calls come from
/// any thread; arguments are borrowed, and gradients are held until they are reduced. Errors of a
/// member's calls: FAILED_PRECONDITION without a job, with a closed one, or for a call out of
/// order; CANCELLED when the job is closed meanwhile; DEADLINE_EXCEEDED; INVALID_ARGUMENT; the
/// failure of the job. NULL where a pointer is needed is INVALID_ARGUMENT; a function without a
/// status then does nothing and gives 0.

#include "kiln_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_gradsync kiln_gradsync;

/// The identity of a parameter, on all devices and in all processes: a number of the program's
/// choosing; 0 is none. Equal numbers are the same parameter; eight bytes, little-endian, on a
/// wire.
typedef uint64_t kiln_param_id;

/// Says that a tensor stands for a parameter, or is a gradient of it. The id belongs to the tensor
/// and all references to it, and goes along with kiln_to_device; results of operations have none.
KILN_API void kiln_tensor_set_param(kiln_tensor *tensor, kiln_param_id id);

/// The parameter that the tensor stands for; 0: none.
KILN_API kiln_param_id kiln_tensor_param(const kiln_tensor *tensor);

/// Whether the tensor stands for a parameter.
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

/// Starts a job. The same name again gives the open job when devices and options are equal; a job
/// that was closed is replaced. Several jobs in a context do not know of each other. Over MPI all
/// processes meet here, and all their members register the same parameters in the same order. The
/// caller holds `*out_job` (kiln_gradsync_release). The job holds its devices until it is closed;
/// kiln_context_destroy ends what is left. Errors: INVALID_ARGUMENT, ALREADY_EXISTS when it runs
/// with other devices or options, RESOURCE_EXHAUSTED; over MPI also those of
/// kiln_collective_create_mpi.
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_start(kiln_context *context, const char *name,
                                                        kiln_device *const *devices, size_t count,
                                                        const kiln_gradsync_options *options,
                                                        kiln_gradsync **out_job, kiln_error *err);

/// Looks a job up, open or closed. The caller holds `*out_job`. Errors: NOT_FOUND,
/// INVALID_ARGUMENT.
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_find(kiln_context *context, const char *name,
                                                       kiln_gradsync **out_job, kiln_error *err);

/// Closes a job and cancels what is pending, in other processes too. It may be called again.
/// Errors: NOT_FOUND, INVALID_ARGUMENT.
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_close(kiln_context *context, const char *name,
                                                        kiln_error *err);

/// Closes a job, as kiln_gradsync_close, and removes its name. Errors: NOT_FOUND, INVALID_ARGUMENT.
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_remove(kiln_context *context, const char *name,
                                                         kiln_error *err);

/// Takes one more reference to the job and returns it. Takes NULL.
KILN_API kiln_gradsync *kiln_gradsync_retain(kiln_gradsync *job);

/// Gives up one reference to the job. The context has one until the job is removed or replaced.
/// With the last one, and when the context is destroyed, calls that have begun come to their end,
/// or to the job's deadline, so that members of other processes get their results; what has not
/// begun is cancelled. Takes NULL.
KILN_API void kiln_gradsync_release(kiln_gradsync *job);

/// Begins the member's next epoch and says which parameters it will submit, perhaps none. After
/// kiln_gradsync_finish it waits for the next round.
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_register(kiln_gradsync *job, uint32_t member,
                                                           const kiln_param_id *ids, size_t count,
                                                           kiln_error *err);

/// Gives the member's gradient of a parameter. What was accumulated for the parameter is added.
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_submit(kiln_gradsync *job, uint32_t member,
                                                         kiln_tensor *gradient, kiln_error *err);

/// Adds to a gradient of this member and sends nothing.
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_accumulate(kiln_gradsync *job, uint32_t member,
                                                             kiln_tensor *gradient,
                                                             kiln_error *err);

/// Says that the member has submitted all, and returns when the gradients of the others that it
/// needs are there. Its device then waits for the reductions, as with kiln_collective_resolve;
/// failures that come later belong to the gradients. Without a register before, it does nothing.
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_sync(kiln_gradsync *job, uint32_t member,
                                                       kiln_error *err);

/// Says that the member has no more batches in this round. Later epochs go on without it, until all
/// have finished and a new round begins.
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_finish(kiln_gradsync *job, uint32_t member,
                                                         kiln_error *err);

/// Whether kiln_gradsync_sync would return without waiting for another member.
KILN_API bool kiln_gradsync_ready(kiln_gradsync *job, uint32_t member);

/// The reduced gradient of a parameter, between sync and the member's next register. The caller
/// holds `*out_gradient`. Errors: NOT_FOUND, FAILED_PRECONDITION, the failure of the job.
KILN_NODISCARD KILN_API kiln_status kiln_gradsync_gradient(kiln_gradsync *job, uint32_t member,
                                                           kiln_param_id id,
                                                           kiln_tensor **out_gradient,
                                                           kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
