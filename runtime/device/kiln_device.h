// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_DEVICE_H
#define KILN_KILN_DEVICE_H

/// A device: where tensors live and operations run.

#include "ir_device.h"
#include "kiln_context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_device kiln_device;

/// Address ("opencl:0") and a line of description of the n-th device of all providers, from 0.
/// Ownership: the caller's arrays. Lifetime: n/a. Thread: any. Errors: NOT_FOUND past the last,
/// UNAVAILABLE.
KILN_NODISCARD KILN_API kiln_status kiln_device_describe(kiln_context *context, size_t index,
                                                         char out_address[64], char out_line[192],
                                                         kiln_error *err);

/// Opens a device. NULL: the knob `device`, or the first OpenCL device. The same address gives the
/// same device. Ownership: `*out_device` is the caller's hold (kiln_device_release). Lifetime:
/// tensors keep it alive. Thread: any. Errors: NOT_FOUND (no such device, with how many there are),
/// UNAVAILABLE, INVALID_ARGUMENT.
KILN_NODISCARD KILN_API kiln_status kiln_device_open(kiln_context *context, const char *address,
                                                     kiln_device **out_device, kiln_error *err);

/// What operations make where the call names no dtype; 0: f32 and i64.
typedef struct kiln_device_options {
    uint32_t struct_size;
    kiln_dtype float_dtype;
    kiln_dtype int_dtype;
} kiln_device_options;

#define KILN_DEVICE_OPTIONS_INIT                                                                   \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_device_options)                                       \
    }

/// As kiln_device_open, with default dtypes. They stay as long as the device is open; `options` may
/// be NULL. Ownership: as kiln_device_open. Lifetime: as there. Thread: any. Errors: as
/// kiln_device_open; ALREADY_EXISTS when the device is open with others than those named,
/// UNIMPLEMENTED when it does not store them.
KILN_NODISCARD KILN_API kiln_status kiln_device_open_with(kiln_context *context,
                                                          const char *address,
                                                          const kiln_device_options *options,
                                                          kiln_device **out_device,
                                                          kiln_error *err);

/// One more hold, and one less; both take NULL. Every handle of a device holds all of it.
/// Ownership: as said. Lifetime: n/a. Thread: any. Errors: none.
KILN_API kiln_device *kiln_device_retain(kiln_device *device);
KILN_API void kiln_device_release(kiln_device *device);

/// What the device is. Ownership: borrowed. Lifetime: the device's. Thread: any. Errors: none.
KILN_API const kiln_device_info *kiln_device_info_of(const kiln_device *device);
KILN_API const char *kiln_device_address(const kiln_device *device);
KILN_API kiln_context *kiln_device_context(const kiln_device *device);

/// Kind of the backend, such as "opencl"; "fusion<opencl>" while operations are fused.
/// Ownership: borrowed. Lifetime: the device's. Thread: any. Errors: none.
KILN_API const char *kiln_device_name(kiln_device *device);

/// KILN_USAGE_* of a dtype on the device; whether it both stores it and computes in it; whether it
/// records operations for gradients: never.
/// Ownership: a value. Lifetime: n/a. Thread: any. Errors: none.
KILN_API uint32_t kiln_device_dtype_usage(kiln_device *device, kiln_dtype dtype);
KILN_API bool kiln_device_supports_dtype(kiln_device *device, kiln_dtype dtype);
KILN_API bool kiln_device_records_gradients(const kiln_device *device);

/// What is made on the device where the dtype is left open: of KILN_KIND_FLOAT, of KILN_KIND_INT
/// and KILN_KIND_UINT, and of KILN_KIND_BOOL always bool. Creation functions leave it open by
/// KILN_DTYPE_NONE; those that make floats and integers make integers of kiln_i64 alone.
/// Ownership: a value. Lifetime: n/a. Thread: any. Errors: KILN_DTYPE_NONE for other kinds.
KILN_API kiln_dtype kiln_device_default_dtype(const kiln_device *device, kiln_dtype_kind kind);

/// The same device with f32 as its default float: streams, plans, memory and random numbers are
/// shared, and tensors of both may be mixed. kiln_to_device from one to the other records a cast of
/// what has the one's default float dtype. A device whose default is f32 is given itself.
/// Ownership: `*out_device` is the caller's hold (kiln_device_release). Lifetime: the device's.
/// Thread: any. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_device_full_precision(kiln_device *device,
                                                               kiln_device **out_device,
                                                               kiln_error *err);

/// How many devices of a type there are to be opened, on this machine.
/// Ownership: a value. Lifetime: n/a. Thread: any. Errors: INVALID_ARGUMENT.
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
} kiln_device_stats;

#define KILN_DEVICE_STATS_INIT                                                                     \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_device_stats)                                         \
    }

/// Counters since the device was opened. Ownership: the caller's struct. Lifetime: n/a. Thread:
/// any. Errors: none.
KILN_API void kiln_device_stats_get(kiln_device *device, kiln_device_stats *out_stats);

/// The first failure of queued work on the device, or OK. A lost device stays lost until opened
/// again. Ownership: values. Lifetime: n/a. Thread: any. Errors: the failure.
KILN_API kiln_status kiln_device_status(kiln_device *device, kiln_error *err);

/// Turns fusion off or on for what is recorded from now on; results are the same. It is on at
/// first, where the device takes programs. Ownership: n/a. Lifetime: n/a. Thread: any. Errors:
/// whatever draining the queues gives.
KILN_NODISCARD KILN_API kiln_status kiln_device_set_fusion(kiln_device *device, bool on,
                                                           kiln_error *err);

/// `flush` enqueues what this thread has recorded and does not wait; `sync` does so for all threads
/// and waits. `trim` gives unused pooled memory back to the device. Ownership: n/a. Lifetime: n/a.
/// Thread: any. Errors: of flush, those of the planning; of sync, the first failure of queued work
/// since the last sync, also when a read has reported it.
KILN_NODISCARD KILN_API kiln_status kiln_flush(kiln_device *device, kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_sync(kiln_device *device, kiln_error *err);
KILN_API void kiln_device_trim(kiln_device *device);

/// Bytes that the device may hold from now on, pool and arena included; 0: what it has. At first
/// the knob `memory-budget`. Queues of collective calls may hold as much beside it, each for the
/// temporaries of its calls. What is held already stays. When queued results and what is held pass
/// seven eighths of it, queued work is run early if that frees what was released; an allocation
/// that does not fit takes idle memory back first, then fails. The device goes on after that:
/// release tensors and try again. Ownership: n/a. Lifetime: until the device closes. Thread: any.
/// Errors: UNIMPLEMENTED where the memory is somebody else's (remote devices).
KILN_NODISCARD KILN_API kiln_status kiln_device_set_memory_budget(kiln_device *device,
                                                                  uint64_t bytes, kiln_error *err);

/// Peaks in the device's statistics are what is held now, and count anew.
/// Ownership: n/a. Lifetime: n/a. Thread: any. Errors: none.
KILN_API void kiln_device_reset_peaks(kiln_device *device);

#ifdef __cplusplus
}
#endif

#endif
