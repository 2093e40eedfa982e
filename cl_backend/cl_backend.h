// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_CL_BACKEND_H
#define KILN_CL_BACKEND_H

/// cl_backend: OpenCL behind the backend interface of ir.h. Every platform and device that the ICD
/// loader shows; memory pool, program cache on disk, kernels for every operator, CLBlast for matrix
/// products. The only folder that sees OpenCL headers; none of its types leave it.
///
/// Unless a function says otherwise: any thread may call it under the backend's lock; its arguments
/// are borrowed for the call; it can fail with RESOURCE_EXHAUSTED or DEVICE_LOST. No pointer is
/// NULL unless a function takes it.

#include "ir.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Opens "opencl:N" (N counts all devices in the loader's order), "opencl:P/D" (device D of
/// platform P), "opencl:name=TEXT" (the first whose name contains TEXT) and "opencl:" (the first of
/// all), each with "#I/N" behind it for part I of N equal parts of that device. One context and one
/// queue for each opening. `describe` lists the devices. Errors of its `open`: NOT_FOUND saying how
/// many devices there are, INVALID_ARGUMENT, UNAVAILABLE.
KILN_API const kiln_backend_provider *kiln_cl_provider(void);

// =================================================================================================
// For runtime, collective and bench. All take a backend of this folder.
// =================================================================================================

typedef struct kiln_cl_counters { ///< beside kiln_backend_stats
    uint32_t struct_size;
    uint32_t programs_held; ///< in memory
    uint64_t cache_misses; ///< programs that the store did not have
    uint64_t cache_damaged; ///< entries that were refused and built again
    uint64_t cache_saved; ///< binaries written to the store
    uint64_t pool_hits; ///< allocations served from the pool
    uint64_t pool_creates; ///< and by the driver
    uint64_t transfer_bytes; ///< uploaded and read
    uint64_t host_waits;
    uint64_t packed; ///< launches whose arguments were one value
    uint64_t programs_ahead; ///< of those loaded: before they were asked for
    uint64_t programs_declared; ///< compiled without the driver's header of built-in functions
} kiln_cl_counters;

/// Whether `backend` is of this folder. Needs no lock.
KILN_API bool kiln_cl_is(const kiln_backend *backend);

/// Counts since the backend was opened.
KILN_API void kiln_cl_counters_get(kiln_backend *backend, kiln_cl_counters *out_counters);

/// Measures copy bandwidth and launch cost, puts them into the device's info and keeps them in the
/// store; takes some 50 ms. Opening uses what is stored; a GPU that was never measured is then, a
/// processor only with the option `tune`; else there is an estimate by the type of device. Figures
/// that no device has are not believed. While the runs behind a figure are more than 15 percent
/// apart, up to four processes measure it, and a newer one takes its place only where it is better
/// by half; all others read the same. Waits for the device.
KILN_NODISCARD KILN_API kiln_status kiln_cl_measure(kiln_backend *backend, kiln_error *err);

enum { KILN_CL_MAP_READ = KILN_MAP_READ, KILN_CL_MAP_WRITE = KILN_MAP_WRITE };

/// Gives a host pointer to bytes of a buffer, good until kiln_cl_unmap, and waits for the work
/// queued so far; on devices that share the host's memory nothing is copied. The buffer must not be
/// used in between. Errors: also OUT_OF_RANGE.
KILN_NODISCARD KILN_API kiln_status kiln_cl_map(kiln_backend *backend, kiln_buffer *buffer,
                                                size_t offset, size_t bytes, uint32_t access,
                                                void **out_pointer, kiln_error *err);

/// Ends a mapping: what was written is seen by work that is queued later.
KILN_NODISCARD KILN_API kiln_status kiln_cl_unmap(kiln_backend *backend, kiln_buffer *buffer,
                                                  void *pointer, kiln_error *err);

/// A point in a backend's queue, the caller's (kiln_cl_event_destroy). The backend must outlive it.
typedef kiln_event kiln_cl_event;

/// Makes a marker: reached when all work queued so far is done.
KILN_NODISCARD KILN_API kiln_status kiln_cl_mark(kiln_backend *backend, kiln_cl_event **out_event,
                                                 kiln_error *err);

/// Makes a user event: work queued later waits until kiln_cl_event_signal.
KILN_NODISCARD KILN_API kiln_status kiln_cl_gate(kiln_backend *backend, kiln_cl_event **out_event,
                                                 kiln_error *err);

/// Lets the work behind a user event go on; a status other than OK makes it fail, and the next read
/// or sync says so. Needs no lock.
KILN_API void kiln_cl_event_signal(kiln_cl_event *event, kiln_status status);

/// Frees a marker or a user event. Needs no lock.
KILN_API void kiln_cl_event_destroy(kiln_cl_event *event);

/// Calls `done` once when a marker is reached or its work failed, on a thread of the driver or of
/// the backend: it must be short and must not call this backend. After an error `done` is not
/// called.
KILN_NODISCARD KILN_API kiln_status kiln_cl_event_after(kiln_cl_event *event, kiln_event_fn done,
                                                        void *user, kiln_error *err);

/// Waits on the calling thread until a marker is reached. Needs no lock.
KILN_NODISCARD KILN_API kiln_status kiln_cl_event_wait(kiln_cl_event *event, kiln_error *err);

/// An auxiliary queue: another backend on the same device and context, with a queue, a memory pool
/// and kernels of its own, so that its work waits for nothing in the first one's queue. It takes
/// the first one's buffers wherever a call takes a buffer, but frees only its own; who uses both
/// orders them with markers and user events. Each has a lock of its own. `*out_lane` is the
/// caller's (its `close`); the backend outlives it.
KILN_NODISCARD KILN_API kiln_status kiln_cl_open_auxiliary(kiln_backend *backend,
                                                           kiln_backend **out_lane,
                                                           kiln_error *err);

/// Queues a copy of host memory into a buffer and does not wait: `source` must stay until a later
/// marker is reached. From pinned memory, of whatever backend of the process, it runs at the link's
/// speed. Errors: also OUT_OF_RANGE.
KILN_NODISCARD KILN_API kiln_status kiln_cl_write(kiln_backend *backend, kiln_buffer *buffer,
                                                  size_t offset, const void *source, size_t bytes,
                                                  kiln_error *err);

// A program's own OpenCL objects, passed as pointers. What is given is retained, what is lent is
// retained for the caller.

/// Opens a backend on a program's context and queue. Errors: also INVALID_ARGUMENT for a queue that
/// is out of order or of another context.
KILN_NODISCARD KILN_API kiln_status kiln_cl_open_queue(const kiln_env *env, void *context,
                                                       void *queue, kiln_backend **out_backend,
                                                       kiln_error *err);

/// Makes a buffer in a program's cl_mem; `ready`, a cl_event, is waited for before its first use,
/// or NULL. Errors: also INVALID_ARGUMENT for memory of another context or that is too small.
KILN_NODISCARD KILN_API kiln_status kiln_cl_buffer_wrap(kiln_backend *backend, void *mem,
                                                        size_t bytes, void *ready,
                                                        kiln_buffer **out_buffer, kiln_error *err);

/// Lends a buffer's cl_mem, with a cl_event that is complete when what was queued so far is done.
KILN_NODISCARD KILN_API kiln_status kiln_cl_buffer_lend(kiln_backend *backend, kiln_buffer *buffer,
                                                        void **out_mem, void **out_ready,
                                                        kiln_error *err);

/// Has the queue wait for a program's cl_event. Errors: also INVALID_ARGUMENT for one of another
/// context.
KILN_NODISCARD KILN_API kiln_status kiln_cl_wait_event(kiln_backend *backend, void *event,
                                                       kiln_error *err);

/// Replaces parameters of a CLBlast kernel ("Xgemm", "XgemmDirect", ...) for one dtype on this
/// device. They live as long as the process, or until the library's cache is cleared. Errors: also
/// INVALID_ARGUMENT for an unknown kernel or an incomplete list.
KILN_NODISCARD KILN_API kiln_status kiln_cl_blas_override(kiln_backend *backend, const char *kernel,
                                                          kiln_dtype dtype,
                                                          const char *const *names,
                                                          const size_t *values, size_t count,
                                                          kiln_error *err);

/// Says that the programs of this backend are compiled for other processes, so that the next one
/// does not load them when it starts.
KILN_API void kiln_cl_prepare_for_others(kiln_backend *backend);

typedef struct kiln_cl_blas_report { ///< what a search found; speeds in operations a second
    uint32_t struct_size;
    uint32_t tried; ///< sets of parameters
    uint32_t refused; ///< of them: they did not compile, or gave other results
    uint32_t border; ///< products of this length and more are large
    uint64_t searched_s; ///< since 1970
    double small_before; ///< with what ships, at 32 on processors and 128 elsewhere
    double small_after;
    double large_before; ///< at 512 and 2048
    double large_after;
} kiln_cl_blas_report;

/// Searches parameters of CLBlast for small and for large products of one dtype on this device, for
/// `budget_ns` at most but for the last try, and keeps the best in the store; they hold from now on
/// and in later processes. Each try compiles. `progress`, if any, is called after each with how far
/// it has come, from 0 to 1. Errors: also UNIMPLEMENTED where CLBlast does not run,
/// FAILED_PRECONDITION without a store.
KILN_NODISCARD KILN_API kiln_status kiln_cl_blas_search(kiln_backend *backend, kiln_dtype dtype,
                                                        uint64_t budget_ns,
                                                        void (*progress)(double done, void *user),
                                                        void *user, kiln_cl_blas_report *out_report,
                                                        kiln_error *err);

/// When this device's parameters were searched, in seconds since 1970, and whether they still
/// count as known; 0 when they never were.
KILN_API uint64_t kiln_cl_blas_searched(kiln_backend *backend, kiln_dtype dtype, bool *out_fresh);

/// Appends this device's parameters of f32 and f64 as lines of text; nothing where CLBlast has its
/// own. Errors: RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_cl_blas_export(kiln_backend *backend, kiln_string *out,
                                                        kiln_error *err);

/// Keeps the lines that are of this device, and counts them. Later processes use them. Errors: also
/// INVALID_ARGUMENT for what is no such text, FAILED_PRECONDITION without a store.
KILN_NODISCARD KILN_API kiln_status kiln_cl_blas_import(kiln_backend *backend, const char *text,
                                                        size_t length, uint32_t *out_lines,
                                                        kiln_error *err);

/// As the table's `alloc_persistent`, in a bank of the device's memory, counted from 0, where the
/// platform is one for FPGAs that has words for banks; elsewhere the bank means nothing. Errors:
/// also those of the driver for a bank that the board has not.
KILN_NODISCARD KILN_API kiln_status kiln_cl_alloc_bank(kiln_backend *backend, size_t bytes,
                                                       uint32_t bank, kiln_buffer **out_buffer,
                                                       kiln_error *err);

// What a device enqueued, as data, for bundles. Only a backend that was opened with the option
// `compiler` as `record` can tell: it keeps the source of every program that it makes, passes every
// buffer to kernels as an argument of its own, and has no sub-buffers.

typedef struct kiln_cl_recorded_program { ///< as the compiler got it
    const char *text; ///< with all that stands before it; terminated
    size_t length;
    const char *options; ///< without those for exact arithmetic, which depend on the device
    const char *label; ///< for people
    bool exact; ///< arithmetic is: the options for that are the device's
} kiln_cl_recorded_program;

typedef struct kiln_cl_recorded_buffer {
    kiln_buffer *buffer; ///< valid while nothing frees it
    uint64_t bytes;
    bool fresh; ///< given out since the recording began: nothing that matters was in it
} kiln_cl_recorded_buffer;

typedef struct kiln_cl_recorded_arg {
    enum { KILN_CL_ARG_BUFFER = 1, KILN_CL_ARG_BYTES = 2, KILN_CL_ARG_LOCAL = 3 } kind;
    uint32_t buffer; ///< BUFFER: its number; UINT32_MAX: a null pointer
    size_t bytes; ///< BYTES, LOCAL
    size_t at; ///< BYTES: place in the recording's bytes
} kiln_cl_recorded_arg;

typedef struct kiln_cl_recorded_step {
    enum { KILN_CL_STEP_LAUNCH = 1, KILN_CL_STEP_COPY = 2, KILN_CL_STEP_WRITE = 3 } kind;
    // LAUNCH
    uint32_t program;
    const char *kernel;
    uint32_t n_dims;
    size_t global[3];
    size_t local[3]; ///< local[0] == 0: the driver's choice
    uint64_t local_bytes; ///< of local memory, that of the kernel's text and of arguments
    uint32_t first_arg; ///< in the recording's arguments
    uint32_t n_args;
    // COPY, WRITE
    uint32_t source; ///< COPY: number of a buffer
    uint32_t target; ///< number of a buffer
    size_t source_offset; ///< WRITE: place in the recording's bytes
    size_t target_offset;
    size_t bytes;
} kiln_cl_recorded_step;

typedef struct kiln_cl_recording { ///< owned by its maker; texts are the backend's, while it lives
    const kiln_cl_recorded_program *programs; ///< all that the backend made so far
    uint32_t n_programs;
    const kiln_cl_recorded_buffer *buffers; ///< that the steps use
    uint32_t n_buffers;
    const kiln_cl_recorded_step *steps; ///< in the order of the queue
    uint32_t n_steps;
    const kiln_cl_recorded_arg *args;
    uint32_t n_args;
    const unsigned char *bytes;
    size_t n_bytes;
    uint32_t reads; ///< values that the host asked for meanwhile
} kiln_cl_recording;

/// From now on the backend plans for another device, as far as this one can run that: its kind,
/// speeds and preferences, the smaller of the two's sizes, and what both can do. Before anything
/// was planned. Errors: FAILED_PRECONDITION for a device that keeps no sources, INVALID_ARGUMENT
/// for a description with holes, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_cl_plan_for(kiln_backend *backend,
                                                     const kiln_device_info *there,
                                                     kiln_error *err);

/// Features that this device has and the one that it plans for lacks.
KILN_API uint32_t kiln_cl_hidden_features(kiln_backend *backend);

/// Begins anew. Errors: FAILED_PRECONDITION for a device that keeps no sources.
KILN_NODISCARD KILN_API kiln_status kiln_cl_record_begin(kiln_backend *backend, kiln_error *err);

/// Ends it. `*out_recording` is the backend's, until the next begin or the close. Errors:
/// RESOURCE_EXHAUSTED, UNIMPLEMENTED for a program that came without its source.
KILN_NODISCARD KILN_API kiln_status kiln_cl_record_end(kiln_backend *backend,
                                                       const kiln_cl_recording **out_recording,
                                                       kiln_error *err);

typedef struct kiln_cl_argument { ///< of a kernel; texts live during the call
    const char *kernel;
    uint32_t index;
    uint32_t count; ///< of the kernel's
    const char *type; ///< what stands before its name
    const char *name;
    bool read_only; ///< a pointer through which the kernel cannot write
} kiln_cl_argument;

typedef void (*kiln_cl_argument_fn)(const kiln_cl_argument *argument, void *user);

/// Compiles a text and tells the arguments of all its kernels, one kernel behind the other. Errors:
/// BUILD_FAILED; UNIMPLEMENTED where the driver does not tell; RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_cl_arguments(kiln_backend *backend, const char *text,
                                                      const char *options, bool exact,
                                                      kiln_cl_argument_fn take, void *user,
                                                      kiln_error *err);

#ifdef __cplusplus
}
#endif
#endif
