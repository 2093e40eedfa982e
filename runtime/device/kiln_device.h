// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_DEVICE_H
#define KILN_KILN_DEVICE_H

/// A device: where tensors live and operations run.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; texts that it gives are borrowed and live as long as the device; it can fail with
/// INVALID_ARGUMENT or RESOURCE_EXHAUSTED. NULL where a pointer is needed is INVALID_ARGUMENT; a
/// function without a status then does nothing and gives 0.

#include "ir_device.h"
#include "kiln_context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_device kiln_device;

/// Writes the address, such as "opencl:0", and a line about the device with this index, counted
/// from 0 over all providers. Errors: NOT_FOUND past the last, UNAVAILABLE.
KILN_NODISCARD KILN_API kiln_status kiln_device_describe(kiln_context *context, size_t index,
                                                         char out_address[64], char out_line[192],
                                                         kiln_error *err);

/// Opens a device. NULL as address means the option `device`, or the first OpenCL device. The same
/// address gives the same device. The caller holds `*out_device` (kiln_device_release); tensors
/// keep it alive. Errors: NOT_FOUND, which says how many devices there are; UNAVAILABLE,
/// INVALID_ARGUMENT.
KILN_NODISCARD KILN_API kiln_status kiln_device_open(kiln_context *context, const char *address,
                                                     kiln_device **out_device, kiln_error *err);

/// The short way: makes a context with the configuration of the environment and opens a device of
/// it, as kiln_device_open does. `*out_device` is the caller's until kiln_close, which also ends
/// the context and every tensor, so that nothing has to be released before. As calls return 0 when
/// they succeed, `kiln_open(..) || kiln_add(..) || ..` stops at the first failure, which `err`
/// tells. Errors: as kiln_context_create and kiln_device_open.
KILN_NODISCARD KILN_API kiln_status kiln_open(const char *address, kiln_device **out_device,
                                              kiln_error *err);

/// Ends what kiln_open began: all tensors of the device, whoever holds them, the device, the
/// context. Graphs, models and requests of the device are destroyed before. Tensors may be released
/// before with kiln_release; one that is needed no more is then never written to memory. Takes
/// NULL.
KILN_API void kiln_close(kiln_device *device);

/// How a device is opened. Dtypes are those of what operations make where the call names none; 0:
/// f32 and i64. `plan_for` needs the option `compiler` as `record`, or the device `null`, which
/// runs nothing; NULL: plans are for the device itself.
typedef struct kiln_device_options {
    uint32_t struct_size;
    kiln_dtype float_dtype;
    kiln_dtype int_dtype;
    const kiln_device_info *plan_for; ///< another one (kiln_bundle_facts_read)
} kiln_device_options;

#define KILN_DEVICE_OPTIONS_INIT                                                                   \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_device_options)                                       \
    }

/// Opens a device with default dtypes, which stay as long as it is open. `options` may be NULL.
/// Errors: those of kiln_device_open; ALREADY_EXISTS when the device is open with other defaults
/// or plans, FAILED_PRECONDITION for plans of another device without that option,
/// UNIMPLEMENTED when it does not store them.
KILN_NODISCARD KILN_API kiln_status kiln_device_open_with(kiln_context *context,
                                                          const char *address,
                                                          const kiln_device_options *options,
                                                          kiln_device **out_device,
                                                          kiln_error *err);

/// Takes one more reference to the device and returns it. Takes NULL. Views of a device, such as
/// its full-precision one, hold all of it.
KILN_API kiln_device *kiln_device_retain(kiln_device *device);

/// Gives up one reference to the device. Takes NULL.
KILN_API void kiln_device_release(kiln_device *device);

/// What the device is: names, sizes, features.
KILN_API const kiln_device_info *kiln_device_info_of(const kiln_device *device);

/// The address by which the device was opened.
KILN_API const char *kiln_device_address(const kiln_device *device);

/// The context that the device belongs to.
KILN_API kiln_context *kiln_device_context(const kiln_device *device);

/// Kind of the backend, such as "opencl"; "fusion<opencl>" while operations are fused.
KILN_API const char *kiln_device_name(kiln_device *device);

/// What the device can do with a dtype, as KILN_USAGE_* bits.
KILN_API uint32_t kiln_device_dtype_usage(kiln_device *device, kiln_dtype dtype);

/// Whether the device both stores the dtype and computes in it.
KILN_API bool kiln_device_supports_dtype(kiln_device *device, kiln_dtype dtype);

/// Whether the device records operations for gradients. It never does.
KILN_API bool kiln_device_records_gradients(const kiln_device *device);

/// The dtype of what is made on the device where the call leaves it open by KILN_DTYPE_NONE. `kind`
/// is KILN_KIND_FLOAT, _INT, _UINT or _BOOL; other kinds give KILN_DTYPE_NONE. Functions that can
/// make floats and integers make integers of a kiln_i64 only.
KILN_API kiln_dtype kiln_device_default_dtype(const kiln_device *device, kiln_dtype_kind kind);

/// The same device with f32 as its default float dtype. Streams, plans, memory and random numbers
/// are shared, and tensors of both may be mixed. kiln_to_device between the two records a cast of
/// tensors that have the default float dtype of the first. A device whose default is f32 gives
/// itself. The caller holds `*out_device` (kiln_device_release).
KILN_NODISCARD KILN_API kiln_status kiln_device_full_precision(kiln_device *device,
                                                               kiln_device **out_device,
                                                               kiln_error *err);

/// How many devices of a type this machine has.
KILN_NODISCARD KILN_API kiln_status kiln_device_count(kiln_context *context, kiln_device_type type,
                                                      size_t *out_count, kiln_error *err);

typedef struct kiln_device_stats {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t ops_recorded; ///< operations, drops not counted
    uint64_t blocks_fused; ///< fused blocks that ran
    uint64_t ops_fused; ///< operations in them
    uint64_t plans_searched; ///< segments that fusers were asked about
    uint64_t plans_found; ///< segments whose plan was known
    uint64_t tensors_live;
    kiln_backend_stats backend;
    uint64_t bytes_live; ///< of buffers that tensors hold, and the arena
    uint64_t bytes_arena; ///< kept for what dies inside plans
    uint64_t bytes_pending; ///< of queued results that were not released
    uint64_t values_planned; ///< values whose memory was assigned with their plan
    uint64_t early_runs; ///< times that queued work was run for lack of memory
    uint64_t indices_outside; ///< index operands with values outside, found in checked mode
    uint64_t blocks_measured; ///< whose candidates have competed
    uint64_t kernels_measuring; ///< of backend.kernels_launched: those of tournaments
    uint64_t blas_measuring; ///< of backend.blas_calls: those of tournaments
    uint64_t measuring_ns; ///< that tournaments took, compiling included
    uint64_t bytes_uploaded; ///< of tensors made from memory; large constants of files not
    uint64_t bytes_read; ///< by the host
    uint64_t plans_kept; ///< in memory now
} kiln_device_stats;

#define KILN_DEVICE_STATS_INIT                                                                     \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_device_stats)                                         \
    }

/// Fills counters since the device was opened. Set `struct_size` before.
KILN_API void kiln_device_stats_get(kiln_device *device, kiln_device_stats *out_stats);

/// The same without waiting for threads that work on the device: while one does, the counters may
/// be those of a few milliseconds before the segment that it runs.
KILN_API void kiln_device_stats_peek(kiln_device *device, kiln_device_stats *out_stats);

/// DEVICE_LOST, the first failure of queued work on the device, or OK. A lost device stays lost
/// until it is opened again.
KILN_API kiln_status kiln_device_status(kiln_device *device, kiln_error *err);

/// Turns fusion off or on for what is recorded from now on. Results are the same. It is on at first
/// where the device takes programs. Errors: those of running what is queued.
KILN_NODISCARD KILN_API kiln_status kiln_device_set_fusion(kiln_device *device, bool on,
                                                           kiln_error *err);

/// Enqueues what this thread has recorded on the device, and does not wait. Errors: those of
/// planning.
KILN_NODISCARD KILN_API kiln_status kiln_flush(kiln_device *device, kiln_error *err);

/// Enqueues what all threads have recorded on the device, and waits for it. Errors: the first
/// failure of queued work since the last sync, also when a read has reported it.
KILN_NODISCARD KILN_API kiln_status kiln_sync(kiln_device *device, kiln_error *err);

/// Gives unused pooled memory back to the device.
KILN_API void kiln_device_trim(kiln_device *device);

/// Sets how many bytes the device may hold from now on, pool and arena included; 0: what it has.
/// The option `memory-budget` sets it at first. Memory that is held already stays. The queues of
/// collective calls may hold as much again for their temporaries. When queued results and held
/// memory pass seven eighths of the budget, queued work runs early if that frees memory. An
/// allocation that does not fit first takes idle memory back, then fails; the caller can release
/// tensors and try again. Errors: UNIMPLEMENTED on remote devices, whose memory is the server's.
KILN_NODISCARD KILN_API kiln_status kiln_device_set_memory_budget(kiln_device *device,
                                                                  uint64_t bytes, kiln_error *err);

/// Sets the peaks in the device's statistics to what is held now.
KILN_API void kiln_device_reset_peaks(kiln_device *device);

#ifdef __cplusplus
}
#endif

#endif
