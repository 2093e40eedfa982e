// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_H
#define KILN_KILN_H

/// kiln: record tensor operations, run them fused on any OpenCL device.
///
/// A context holds configuration, fusers and devices; a device runs operations; a tensor is a
/// handle to a value on one device. Recording an operation returns at once with a handle to the
/// result; shapes and dtypes are checked there. Work is planned, fused and enqueued behind the
/// calls; only kiln_read and kiln_sync wait. kiln_release says that the caller is done with a
/// tensor: released early, an intermediate is never written to memory.
///
/// Every call returns a status and fills `err` when it is not NULL. All calls may come from any
/// thread, unless it says otherwise. The operators are in kiln_ops.h, generated from the operator
/// table.

#include "base.h"
#include "ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_context kiln_context;
typedef struct kiln_device kiln_device;
typedef struct kiln_tensor kiln_tensor;
typedef struct kiln_graph kiln_graph;
typedef struct kiln_collective kiln_collective;
typedef struct kiln_gradsync kiln_gradsync;
typedef struct kiln_stream kiln_stream;
typedef struct kiln_event kiln_event;

// ---- context ----

typedef struct kiln_context_options {
    uint32_t struct_size;
    uint32_t ignore_environment; ///< 1: knobs from the environment are not read
    const char *config_path; ///< file of knobs, or NULL
    const kiln_allocator *allocator; ///< NULL: the C library's
    kiln_log_fn log; ///< NULL: silence
    void *log_user;
} kiln_context_options;

#define KILN_CONTEXT_OPTIONS_INIT                                                                  \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_context_options)                                      \
    }

/// Makes a context: reads the configuration and opens the cache. Devices and fusers are opened when
/// first used. Ownership: `*out_context` is the caller's (kiln_context_destroy). Lifetime: devices
/// and tensors keep it alive. Thread: any. Errors: INVALID_ARGUMENT and NOT_FOUND from the
/// configuration, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_context_create(const kiln_context_options *options,
                                                        kiln_context **out_context,
                                                        kiln_error *err);

/// Gives up the caller's hold; the context ends with its last device. Takes NULL.
/// Ownership: ends the caller's. Lifetime: n/a. Thread: any. Errors: none.
KILN_API void kiln_context_destroy(kiln_context *context);

/// The user ends the process, by Ctrl-C for one: later ones do not hold it against the plugin that
/// is in a call now. Safe in a signal handler. Ownership: borrowed. Lifetime: n/a. Thread: any,
/// while none destroys the context. Errors: none.
KILN_API void kiln_context_interrupted(kiln_context *context);

/// Sets a knob by name, as a command-line flag does. Takes effect for what is opened afterwards;
/// log and cache-limit at once. Ownership: the text is copied. Lifetime: n/a. Thread: one at a
/// time, while others use the context. Errors: NOT_FOUND, INVALID_ARGUMENT.
KILN_NODISCARD KILN_API kiln_status kiln_context_set(kiln_context *context, const char *name,
                                                     const char *value, kiln_error *err);

/// The environment with allocator, log and configuration, for kiln_config_string and its like.
/// Ownership: borrowed. Lifetime: the context's. Thread: any. Errors: none.
KILN_API const kiln_env *kiln_context_env(const kiln_context *context);

/// The cache on disk, or NULL when it is off. Ownership: borrowed. Lifetime: the context's. Thread:
/// any. Errors: none.
KILN_API kiln_store *kiln_context_store(const kiln_context *context);

/// Adds a kind of backend, before a device of its scheme is opened. Built in: opencl, reference,
/// null. Ownership: the provider is borrowed. Lifetime: it must outlive the context. Thread: any.
/// Errors: ALREADY_EXISTS, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_context_add_provider(kiln_context *context,
                                                              const kiln_backend_provider *provider,
                                                              kiln_error *err);

// ---- fusers ----

typedef struct kiln_plugin_info {
    uint32_t struct_size;
    uint32_t n_fusers;
    const char *path;
    const char *id;
    const char *version;
    const char *vendor;
    const char *state; ///< "taken", "refused" or "off"
    const char *reason; ///< one line: why
    uint64_t load_ns;
    uint64_t n_operators;
} kiln_plugin_info;

#define KILN_PLUGIN_INFO_INIT                                                                      \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_plugin_info)                                          \
    }

/// Loads one more fuser by path, before the first device is opened. One that was taken stays; one
/// that was refused is judged again, as named; one of the same id from the plugin path goes.
/// Ownership: the path is copied. Lifetime: loaded for the process. Thread: any.
/// Errors: as the loader finds, with its reason; FAILED_PRECONDITION after a device was opened.
KILN_NODISCARD KILN_API kiln_status kiln_plugin_load(kiln_context *context, const char *path,
                                                     kiln_error *err);

/// Forgets what the cache holds against the plugin with this id, or against all when it is NULL: a
/// scan that failed, a process that ended in it, failures of its fusers. Counts for contexts made
/// afterwards. Ownership: borrowed. Lifetime: n/a. Thread: any. Errors: FAILED_PRECONDITION when
/// there is no cache.
KILN_NODISCARD KILN_API kiln_status kiln_plugin_reset(kiln_context *context, const char *id,
                                                      uint32_t *out_count, kiln_error *err);

/// Every file that was looked at, by index from 0, with what became of it.
/// Ownership: texts are borrowed. Lifetime: the context's. Thread: any. Errors: NOT_FOUND past the
/// last.
KILN_NODISCARD KILN_API kiln_status kiln_plugin_get(kiln_context *context, size_t index,
                                                    kiln_plugin_info *out_info, kiln_error *err);

// ---- devices ----

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

// ---- streams and events ----

/// A stream is a sequence of operations that are planned together. Each thread has one of its own
/// on each device; a program may make more, so that work that has nothing to do with each other is
/// not looked at together, or so that several threads add to one. Values cross streams freely: what
/// needs a value comes after what gives it. All streams of a device share its queue.
///
/// Ownership: `*out_stream` is the caller's hold (kiln_stream_release; what was recorded still
/// runs). Lifetime: until the last release; it keeps the device open. Thread: any. Errors:
/// INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_stream_create(kiln_device *device,
                                                       kiln_stream **out_stream, kiln_error *err);
KILN_API kiln_stream *kiln_stream_retain(kiln_stream *stream);
KILN_API void kiln_stream_release(kiln_stream *stream);

/// What the calling thread records on the device from now on goes to `stream`; NULL: to its own
/// again, as after the stream's last release. An open capture goes on. Like torch.cuda.set_stream.
/// Ownership: borrowed. Lifetime: n/a. Thread: any. Errors: INVALID_ARGUMENT for a stream of
/// another device, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_stream_set(kiln_device *device, kiln_stream *stream,
                                                    kiln_error *err);

/// An event stands for what the calling thread's stream has recorded so far. `kiln_stream_wait`:
/// what this thread's stream on `device` records from now on runs after that; the host does not
/// wait, unless the event is of another device. `kiln_event_wait` waits on the host; `poll` says
/// whether it would not have to. Both hand out what they wait for. Values need no events, they are
/// waited for anyway: events are for what Kiln does not see, such as memory that a program wrapped.
/// Ownership: `*out_event` is the caller's (kiln_event_destroy, which does not wait). Lifetime:
/// until destroyed; it keeps the device open. Thread: any. Errors: FAILED_PRECONDITION while this
/// thread captures; failures of planning and of the device; those of operations stay with their
/// results.
KILN_NODISCARD KILN_API kiln_status kiln_event_record(kiln_device *device, kiln_event **out_event,
                                                      kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_stream_wait(kiln_device *device, kiln_event *event,
                                                     kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_event_wait(kiln_event *event, kiln_error *err);
KILN_API bool kiln_event_poll(kiln_event *event);
KILN_API void kiln_event_destroy(kiln_event *event);

// ---- random numbers ----

/// Starts the device's random numbers anew: operations recorded from now on draw from `seed`; what
/// was recorded before is submitted first and keeps its numbers. Equal seeds give equal numbers on
/// every device, fused or not. Each thread draws from a stream of its own, numbered in the order in
/// which threads draw first; each operation is one draw, and each run of a graph draws anew. Before
/// the first call the seed is 0.
/// Ownership: n/a. Lifetime: n/a. Thread: any. Errors: whatever submitting gives; the seed is set.
KILN_NODISCARD KILN_API kiln_status kiln_seed(kiln_device *device, int64_t seed, kiln_error *err);

/// Lets the calling thread draw from stream `number`, from its beginning: for threads whose numbers
/// must not depend on which of them draws first. Holds until the next kiln_seed.
/// Ownership: n/a. Lifetime: n/a. Thread: any. Errors: RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_random_stream(kiln_device *device, uint32_t number,
                                                       kiln_error *err);

// ---- tensors ----

/// A tensor with a copy of `data`: dense, row-major, all of it; NULL: zeros. Rank 0 is one element.
/// Ownership: `data` is copied before return; `*out_tensor` is the caller's hold (kiln_release).
/// Lifetime: until the last release. Thread: any. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED,
/// UNIMPLEMENTED (dtype not stored on the device).
KILN_NODISCARD KILN_API kiln_status kiln_tensor_create(kiln_device *device, kiln_dtype dtype,
                                                       size_t rank, const int64_t *dims,
                                                       const void *data, kiln_tensor **out_tensor,
                                                       kiln_error *err);

/// A tensor of the device's default float or integer dtype from numbers, each rounded once; an
/// integer that the dtype has not is refused. Ownership: `numbers` are copied before return;
/// `*out_tensor` is the caller's hold. Lifetime: until the last release. Thread: any. Errors: as
/// kiln_tensor_create.
KILN_NODISCARD KILN_API kiln_status kiln_tensor_of_floats(kiln_device *device, size_t rank,
                                                          const int64_t *dims,
                                                          const double *numbers,
                                                          kiln_tensor **out_tensor,
                                                          kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_tensor_of_ints(kiln_device *device, size_t rank,
                                                        const int64_t *dims, const int64_t *numbers,
                                                        kiln_tensor **out_tensor, kiln_error *err);

/// A quantised tensor from its bytes as ir.h lays them out (kiln_quant_layout_of says how many);
/// kiln_read gives them back. Elsewhere quantised tensors come from kiln_quantize and
/// kiln_quantize_dynamic; operators that take none say so. `data` may be NULL without elements.
/// Ownership: as kiln_tensor_create. Lifetime: until the last release. Thread: any. Errors: as
/// kiln_tensor_create; INVALID_ARGUMENT for a scheme that does not fit.
KILN_NODISCARD KILN_API kiln_status kiln_tensor_create_quantised(
    kiln_device *device, kiln_dtype dtype, uint64_t scheme, size_t rank, const int64_t *dims,
    const void *data, kiln_tensor **out_tensor, kiln_error *err);

/// Marks a tensor as constant for as long as plans live (weights): fusers may prepare copies of it
/// once. Ownership: borrowed. Lifetime: n/a. Thread: any. Errors: none.
KILN_API void kiln_tensor_mark_constant(kiln_tensor *tensor);

/// One more hold, and one less; both take NULL. The last release records that the tensor is not
/// used any more. Ownership: as said. Lifetime: n/a. Thread: any. Errors: none.
KILN_API kiln_tensor *kiln_retain(kiln_tensor *tensor);
KILN_API void kiln_release(kiln_tensor *tensor);

/// Description of a tensor. Ownership: borrowed. Lifetime: the tensor's. Thread: any. Errors: none.
KILN_API kiln_dtype kiln_tensor_dtype(const kiln_tensor *tensor);
KILN_API size_t kiln_tensor_rank(const kiln_tensor *tensor);
KILN_API const int64_t *kiln_tensor_dims(const kiln_tensor *tensor);
KILN_API int64_t kiln_tensor_count(const kiln_tensor *tensor);
KILN_API size_t kiln_tensor_bytes(const kiln_tensor *tensor);
KILN_API uint64_t kiln_tensor_scheme(const kiln_tensor *tensor); ///< 0 when not quantised
KILN_API kiln_device *kiln_tensor_device(const kiln_tensor *tensor); ///< as it was made with

/// Runs what the tensor needs, waits, and copies all of it, dense and row-major, to `out_data`.
/// Ownership: the caller's memory. Lifetime: n/a. Thread: any. Errors: INVALID_ARGUMENT when
/// `bytes` is not kiln_tensor_bytes; the first cause when something that it depends on failed.
KILN_NODISCARD KILN_API kiln_status kiln_read(kiln_tensor *tensor, void *out_data, size_t bytes,
                                              kiln_error *err);

/// Reads of several tensors, of one device or of several, with one wait for each device. On failure
/// what `out_data` holds is not known.
/// Ownership: the caller's memory. Lifetime: n/a. Thread: any. Errors: as kiln_read, the first.
KILN_NODISCARD KILN_API kiln_status kiln_read_many(kiln_tensor *const *tensors,
                                                   void *const *out_data, const size_t *bytes,
                                                   size_t count, kiln_error *err);

/// A read that does not wait: its place in the order is that of this call, so the tensor may be
/// released at once. `poll` says whether `wait` would not have to wait for the device; `wait` waits
/// and gives the result, any number of times; after `cancel` nothing is written to `out_data` any
/// more and `wait` gives CANCELLED; `destroy` cancels what was not waited for.
/// Ownership: `out_data` stays the caller's, and must live until waited for or cancelled;
/// `*out_request` is the caller's (kiln_request_destroy). Lifetime: until destroyed; it keeps the
/// device open. Thread: any; one at a time for a request. Errors: as kiln_read.
typedef struct kiln_request kiln_request;
KILN_NODISCARD KILN_API kiln_status kiln_read_async(kiln_tensor *tensor, void *out_data,
                                                    size_t bytes, kiln_request **out_request,
                                                    kiln_error *err);
KILN_API bool kiln_request_poll(kiln_request *request);
KILN_NODISCARD KILN_API kiln_status kiln_request_wait(kiln_request *request, kiln_error *err);
KILN_API void kiln_request_cancel(kiln_request *request);
KILN_API void kiln_request_destroy(kiln_request *request);

/// Waits for a tensor's value and lets the caller look at it, dense and row-major: where it lies,
/// when the device shares the host's memory, otherwise in a copy.
/// Ownership: `*out_data` is borrowed and not to be written; `*out_mapping` is the caller's
/// (kiln_mapping_release). Lifetime: until released, also when the tensor is released before.
/// Thread: any. Errors: as kiln_read.
typedef struct kiln_mapping kiln_mapping;
KILN_NODISCARD KILN_API kiln_status kiln_tensor_map(kiln_tensor *tensor, const void **out_data,
                                                    kiln_mapping **out_mapping, kiln_error *err);
KILN_API void kiln_mapping_release(kiln_mapping *mapping);

/// A tensor in the caller's memory, dense and row-major, without a copy where the device shares
/// the host's memory and `memory` is aligned to its `memory_align`; otherwise a copy. Nothing is
/// ever written to it. `release` (may be NULL) is called once when the memory is not needed any
/// more: at once after a copy, else after the last use on the device, on any thread; it must not
/// call Kiln. On failure it is not called.
/// Ownership: `memory` stays the caller's; `*out_tensor` is the caller's hold. Lifetime: until the
/// last release. Thread: any. Errors: as kiln_tensor_create.
KILN_NODISCARD KILN_API kiln_status kiln_tensor_wrap(kiln_device *device, kiln_dtype dtype,
                                                     size_t rank, const int64_t *dims, void *memory,
                                                     void (*release)(void *user), void *user,
                                                     kiln_tensor **out_tensor, kiln_error *err);

/// Staging memory: host memory from which kiln_tensor_create and to which reads go without another
/// copy, at the speed of the link (pinned, where the device has memory of its own).
/// Ownership: `*out_memory` is the caller's (kiln_host_free, on the same device). Lifetime: until
/// freed; not longer than the device. Thread: any. Errors: RESOURCE_EXHAUSTED, DEVICE_LOST.
KILN_NODISCARD KILN_API kiln_status kiln_host_alloc(kiln_device *device, size_t bytes,
                                                    void **out_memory, kiln_error *err);
KILN_API void kiln_host_free(kiln_device *device, void *memory);

/// Between begin and end, what this thread creates and computes on the device gets memory of its
/// exact size, which does not come from the pool and does not go back to it: for weights. Scopes
/// may nest. Both submit what was recorded before.
/// Ownership: n/a. Lifetime: n/a. Thread: begin and end on one thread. Errors: FAILED_PRECONDITION
/// inside a capture or without begin; whatever submitting gives.
KILN_NODISCARD KILN_API kiln_status kiln_persistent_begin(kiln_device *device, kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_persistent_end(kiln_device *device, kiln_error *err);

/// A tensor's memory without the tensor, for who moves values between interpreters of operations
/// (a server, a router): a handle shares the memory, and a tensor made from it shares it again.
/// Making one runs what the tensor needs and does not wait. Kinds are told apart, so that a value
/// cannot come back as another: the wrong one is INVALID_ARGUMENT.
/// Ownership: `*out_handle` is the caller's (kiln_handle_release), `*out_tensor` the caller's hold;
/// the view is borrowed. Lifetime: until released; it keeps the device open. Thread: any. Errors:
/// INVALID_ARGUMENT for the wrong kind, RESOURCE_EXHAUSTED, the cause when the value failed.
typedef struct kiln_handle kiln_handle;
typedef enum kiln_handle_kind {
    KILN_HANDLE_FLOAT = 1,
    KILN_HANDLE_INT = 2,
    KILN_HANDLE_BOOL = 3,
    KILN_HANDLE_QUANTISED = 4
} kiln_handle_kind;
KILN_API kiln_handle_kind kiln_handle_kind_of(kiln_dtype dtype);
KILN_NODISCARD KILN_API kiln_status kiln_tensor_to_handle(kiln_tensor *tensor,
                                                          kiln_handle_kind kind,
                                                          kiln_handle **out_handle,
                                                          kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_tensor_from_handle(const kiln_handle *handle,
                                                            kiln_handle_kind kind,
                                                            kiln_tensor **out_tensor,
                                                            kiln_error *err);
KILN_API const kiln_view *kiln_handle_view(const kiln_handle *handle);
KILN_API void kiln_handle_release(kiln_handle *handle);

/// A copy on another device, of whatever platform; on the same device one more hold of the tensor
/// itself, or its cast (kiln_device_full_precision). Returns at once: bytes travel in chunks behind
/// the calls, and the first use of the copy waits for them. Ownership: `*out_tensor` is the
/// caller's hold. Lifetime: until released; the tensor itself may be released before. Thread: any.
/// Errors: as create; INVALID_ARGUMENT. A failure on the way comes with the first use of the copy.
KILN_NODISCARD KILN_API kiln_status kiln_to_device(kiln_tensor *tensor, kiln_device *device,
                                                   kiln_tensor **out_tensor, kiln_error *err);

// ---- operations by number ----

/// A scalar operand: kiln_f64(0.5) or kiln_i64(3). It is converted to the dtype of the operation.
typedef struct kiln_number {
    bool is_integer;
    union {
        int64_t i;
        double f;
    } v;
} kiln_number;

static inline kiln_number kiln_f64(double value)
{
    kiln_number number;
    number.is_integer = false;
    number.v.f = value;
    return number;
}

static inline kiln_number kiln_i64(int64_t value)
{
    kiln_number number;
    number.is_integer = true;
    number.v.i = value;
    return number;
}

/// Records any operator of the table; the functions of kiln_ops.h are this with names. `attrs` are
/// in the order of the operator's schema, KILN_ATTR_NONE for an absent optional one. `device` may
/// be NULL when there are inputs. Ownership: everything is copied; each out_tensors[i] is the
/// caller's hold. Lifetime: until released. Thread: any; operations of one thread on one device run
/// in the order of recording. Errors: INVALID_ARGUMENT with operator, shapes and values;
/// RESOURCE_EXHAUSTED; FAILED_PRECONDITION for inputs of different devices. Of KILN_OP_CUSTOM (see
/// kiln_custom) `out_tensors` has KILN_MAX_OUTPUTS places; NOT_FOUND where no plugin brings it.
KILN_NODISCARD KILN_API kiln_status kiln_record(kiln_device *device, kiln_op op,
                                                kiln_tensor *const *inputs, size_t n_inputs,
                                                const kiln_attr *attrs, size_t n_attrs,
                                                kiln_tensor **out_tensors, kiln_error *err);

/// Records a replayable stream (ir.h): its inputs, with the strides that they had, its operations
/// and drops; out_tensors[i] is the i-th output of its graph.
/// Ownership: the replay is borrowed; each out_tensors[i] is the caller's hold. Lifetime: until
/// released. Thread: any. Errors: INVALID_ARGUMENT for an input without data; those of
/// kiln_tensor_create and kiln_record.
KILN_NODISCARD KILN_API kiln_status kiln_replay_run(kiln_device *device, const kiln_replay *replay,
                                                    kiln_tensor **out_tensors, kiln_error *err);

// ---- operators of plugins ----

typedef struct kiln_custom_call {
    uint32_t struct_size;
    uint32_t version; ///< the newest that is not newer is taken; 0: the newest
    const char *name; ///< "domain::name"
    kiln_tensor *const *inputs;
    size_t n_inputs; ///< at least 1
    const kiln_custom_attr *attrs; ///< by name, in any order; what is left out has its default
    size_t n_attrs;
} kiln_custom_call;

#define KILN_CUSTOM_CALL_INIT                                                                      \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_custom_call)                                          \
    }

/// Records an operator that a plugin of the context brings. It runs by the kernel that the plugin
/// describes, in a fuser's block, or by its reference on the host where there is no kernel for the
/// device, dtypes or layout. On a remote device it runs there: the server needs the plugin as well.
/// `device` may be NULL. Ownership: everything is copied; each of the `n_outputs` results is the
/// caller's hold. Lifetime: until released. Thread: as kiln_record. Errors: NOT_FOUND where no
/// plugin brings the operator; INVALID_ARGUMENT for attributes, inputs or results that are not its
/// own, with its reason; INTERNAL when the operator fails; those of kiln_record.
KILN_NODISCARD KILN_API kiln_status kiln_custom(kiln_device *device, const kiln_custom_call *call,
                                                kiln_tensor **out_tensors, size_t n_outputs,
                                                kiln_error *err);

/// The operator that such a call would take: its parameters, how many inputs and outputs.
/// Ownership: borrowed. Lifetime: the device's. Thread: any. Errors: NOT_FOUND.
KILN_NODISCARD KILN_API kiln_status kiln_custom_find(kiln_device *device, const char *name,
                                                     uint32_t version,
                                                     const kiln_custom_op **out_op,
                                                     kiln_error *err);

/// Whether a custom operation that came from elsewhere is what the context's operator of its name
/// and version makes of its inputs and attributes. Ownership: borrowed. Lifetime: n/a. Thread: any.
/// Errors: NOT_FOUND, INVALID_ARGUMENT.
KILN_NODISCARD KILN_API kiln_status kiln_custom_check(kiln_device *device,
                                                      const kiln_op_record *record,
                                                      kiln_error *err);

/// Looks the custom operations of a graph up among the operators of the device's context
/// (kiln_ir_graph_look_up), so that a judge or another user of the reference functions can run it.
/// Ownership: borrowed. Lifetime: the graph must not be run by reference once the device is gone.
/// Thread: one at a time for a graph. Errors: NOT_FOUND, INVALID_ARGUMENT, with the operation.
KILN_NODISCARD KILN_API kiln_status kiln_custom_look_up(kiln_device *device, kiln_ir_graph *graph,
                                                        kiln_error *err);

/// Indices of the elements that are not 0, [count, rank], in row-major order, like NumPy's
/// argwhere. The result's length depends on contents: the call counts on the device and waits for
/// that one number, then records argwhere. Ownership: `x` is borrowed; `*out_tensor` is the
/// caller's hold. Lifetime: until released. Thread: any. Errors: those of kiln_record and
/// kiln_read; FAILED_PRECONDITION while this thread captures.
KILN_NODISCARD KILN_API kiln_status kiln_nonzero(kiln_tensor *x, kiln_tensor **out_tensor,
                                                 kiln_error *err);

// ---- graphs: record once, run often ----

/// Between begin and end, what this thread records on the device is kept and not run. `inputs` are
/// the tensors that later runs replace; other tensors from before are constants of the graph.
/// Reading a captured value or running a graph inside is an error; an input is given once.
/// Ownership: the graph holds what it uses. Lifetime: n/a. Thread: begin and end on one thread.
/// Errors: FAILED_PRECONDITION when this thread captures already.
KILN_NODISCARD KILN_API kiln_status kiln_graph_begin(kiln_device *device,
                                                     kiln_tensor *const *inputs, size_t n_inputs,
                                                     kiln_error *err);

/// Says within a capture what `input`, one of begin's, becomes with each kiln_graph_advance:
/// `next`, recorded in this capture, of its shape and dtype (an optimiser's step: parameters and
/// moments). It need not be an output besides. Ownership: the graph holds `next`. Lifetime: the
/// capture. Thread: that of begin. Errors: FAILED_PRECONDITION without begin, INVALID_ARGUMENT for
/// a tensor that is no input, has a next value already, or another shape; RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_graph_carry(kiln_device *device, kiln_tensor *input,
                                                     kiln_tensor *next, kiln_error *err);

/// Ends the capture; `outputs` are the tensors that each run produces. The captured tensors
/// themselves never get values. Ownership: `*out_graph` is the caller's (kiln_graph_destroy).
/// Lifetime: until destroyed. Thread: that of begin. Errors: FAILED_PRECONDITION without begin,
/// INVALID_ARGUMENT for an output that was not captured, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_graph_end(kiln_device *device, kiln_tensor *const *outputs,
                                                   size_t n_outputs, kiln_graph **out_graph,
                                                   kiln_error *err);

/// Says within a capture that what is recorded follows from the shapes of its inputs: the graph
/// runs with these shapes only, and refuses others instead of computing something else. An importer
/// says it. Nothing happens when this thread captures nothing. Ownership: n/a. Lifetime: n/a.
/// Thread: that of begin. Errors: none.
KILN_API void kiln_graph_fix_shapes(kiln_device *device);

/// Gives up a capture that was begun; nothing happens when there is none.
/// Ownership: n/a. Lifetime: n/a. Thread: that of begin. Errors: none.
KILN_API void kiln_graph_cancel(kiln_device *device);
KILN_API void kiln_graph_destroy(kiln_graph *graph);

/// Runs the graph on other inputs of the same dtypes. With other shapes the graph is bound again
/// first: slower once for each set of shapes, and an error when an attribute does not fit them.
/// Ownership: inputs are borrowed; each out_tensors[i] is the caller's hold. Lifetime: until
/// released. Thread: one at a time for a graph. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED. A
/// failure of queued work comes with the read.
KILN_NODISCARD KILN_API kiln_status kiln_graph_run(kiln_graph *graph, kiln_tensor *const *inputs,
                                                   size_t n_inputs, kiln_tensor **out_tensors,
                                                   size_t n_outputs, kiln_error *err);

/// kiln_graph_run, and puts the next value of each input that is carried in its place in `tensors`.
/// What nobody else holds, and no queued operation mentions, is written over where it lies; others
/// keep the value that they have. Ownership: a carried input's hold is taken and replaced by one on
/// its next value, on success only; other inputs are borrowed; each out_tensors[i] is the caller's
/// hold. Lifetime: until released. Thread: one at a time for a graph. Errors: as kiln_graph_run.
KILN_NODISCARD KILN_API kiln_status kiln_graph_advance(kiln_graph *graph, kiln_tensor **tensors,
                                                       size_t n_tensors, kiln_tensor **out_tensors,
                                                       size_t n_outputs, kiln_error *err);

typedef struct kiln_graph_info {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t ops; ///< operations, drops not counted
    uint64_t blocks; ///< fused blocks, without those that failed
    uint64_t ops_fused; ///< operations in them
    uint64_t steps; ///< what one run enqueues: launches and single operations
    uint64_t blocks_open; ///< fused blocks whose candidates were never measured for these shapes
    uint64_t blocks_failed; ///< run as single operations: a capture anew asks the next fuser
} kiln_graph_info;

#define KILN_GRAPH_INFO_INIT                                                                       \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_graph_info)                                           \
    }

/// What the graph became. Ownership: the caller's struct. Lifetime: n/a. Thread: one at a time for
/// a graph. Errors: none.
KILN_API void kiln_graph_info_get(const kiln_graph *graph, kiln_graph_info *out_info);

/// How the values of a graph share memory, for the shapes of its capture. What dies inside the
/// graph lies in the device's arena, one for all plans, or in a result that is not written yet; a
/// run asks the pool for its results alone. Inputs are not counted.
typedef struct kiln_graph_memory {
    uint32_t struct_size;
    uint32_t steps;
    uint32_t values; ///< what a run writes: results, intermediates, temporaries
    uint32_t values_planned; ///< of them without asking the pool
    uint32_t values_in_place; ///< of them in the memory of one that dies
    uint32_t reserved;
    uint64_t bound_bytes; ///< most that is alive at once: no assignment needs less
    uint64_t peak_bytes; ///< what a run holds: arena and results
    uint64_t arena_bytes;
    uint64_t result_bytes;
    uint64_t all_bytes; ///< the sum of all: what it would be without sharing
} kiln_graph_memory;

typedef enum kiln_memory_home {
    KILN_MEMORY_ARENA = 1, ///< at `offset_bytes`
    KILN_MEMORY_RESULT = 2, ///< a buffer of its own, for it outlives the run
    KILN_MEMORY_INSIDE = 3, ///< at the beginning of a result's buffer, before that is written
    KILN_MEMORY_POOL = 4 ///< a buffer of its own, given back when it dies
} kiln_memory_home;

typedef enum kiln_memory_kind {
    KILN_MEMORY_TENSOR = 1,
    KILN_MEMORY_TEMPORARY = 2, ///< of a fused program
    KILN_MEMORY_SCRATCH = 3 ///< of an operation alone: known after the first run
} kiln_memory_kind;

typedef struct kiln_graph_memory_value {
    uint32_t struct_size;
    kiln_memory_kind kind;
    kiln_memory_home home;
    uint32_t first_step; ///< that writes it
    uint32_t last_step; ///< that needs it; of a result the number of steps
    uint32_t in_place; ///< 1: it takes over the memory of a value that dies in its first step
    uint64_t bytes;
    uint64_t offset_bytes; ///< ARENA
    uint32_t tensor; ///< its number in kiln_graph_explained; UINT32_MAX: of no tensor
    uint32_t reserved;
} kiln_graph_memory_value;

typedef struct kiln_graph_memory_step {
    uint32_t struct_size;
    uint32_t block; ///< the fused block that it belongs to; UINT32_MAX: none
    const char *name; ///< operator, or kernel of a fused program
    uint64_t written_bytes; ///< of tensors that it makes
    uint64_t temporary_bytes; ///< alive during it
    uint64_t live_bytes; ///< alive during it, all together
} kiln_graph_memory_step;

#define KILN_GRAPH_MEMORY_INIT                                                                     \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_graph_memory)                                         \
    }
#define KILN_GRAPH_MEMORY_VALUE_INIT                                                               \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_graph_memory_value)                                   \
    }
#define KILN_GRAPH_MEMORY_STEP_INIT                                                                \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_graph_memory_step)                                    \
    }

/// The graph's memory: all of it, its values by number, in the order in which they are written, and
/// its steps. Known from the first run on.
/// Ownership: the caller's structs; names are borrowed. Lifetime: names live as long as the graph.
/// Thread: one at a time for a graph. Errors: FAILED_PRECONDITION before the first run, or where
/// the device's memory is not planned (remote devices plan on the server); NOT_FOUND past the last.
KILN_NODISCARD KILN_API kiln_status kiln_graph_memory_get(const kiln_graph *graph,
                                                          kiln_graph_memory *out_memory,
                                                          kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_graph_memory_value_get(const kiln_graph *graph,
                                                                uint32_t index,
                                                                kiln_graph_memory_value *out_value,
                                                                kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_graph_memory_step_get(const kiln_graph *graph,
                                                               uint32_t index,
                                                               kiln_graph_memory_step *out_step,
                                                               kiln_error *err);

enum {
    KILN_EXPLAIN_SOURCE = 1u, ///< with the kernels' source
    KILN_EXPLAIN_MEMORY = 2u ///< with the memory that the steps need
};

/// Writes what was decided for the graph and why: blocks, candidates, scores, winners, and the
/// reasons for operations left alone. `*out_text` is freed with kiln_text_free. Ownership: the
/// caller's text. Lifetime: until freed. Thread: one at a time for a graph. Errors:
/// RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_graph_explain(kiln_graph *graph, uint32_t flags,
                                                       char **out_text, kiln_error *err);

/// The same as data, for tools: ir.h describes it. After runs under a trace (kiln_trace_start) its
/// steps have their times. Programs in it are the graph's. Ownership: the caller's
/// (kiln_graph_explained_fini). Lifetime: within the graph's. Thread: one at a time for a graph.
/// Errors: RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_graph_explained(kiln_graph *graph,
                                                         kiln_explanation *out_explanation,
                                                         kiln_error *err);
KILN_API void kiln_graph_explained_fini(kiln_explanation *explanation);
KILN_API void kiln_text_free(kiln_context *context, char *text);

/// Builds a program of an explanation, or takes it from the cache, and gives `take` for each of its
/// sources the compiler's options and the device's binary. Ownership: what `take` gets is borrowed.
/// Lifetime: of that, the call of `take`. Thread: any; `take` may not call the device. Errors:
/// UNIMPLEMENTED by a device that takes no programs; of the build.
KILN_NODISCARD KILN_API kiln_status kiln_program_parts(kiln_device *device,
                                                       const kiln_program *program,
                                                       kiln_program_part_fn take, void *user,
                                                       kiln_error *err);

// ---- traces ----

/// Notes from now on what is recorded, planned, built and queued on the context's devices, and when
/// they run it. Devices then use queues that measure; without a trace nothing is noted and nothing
/// paid. The knob `trace` starts one with the first device and writes it when the context ends.
/// Ownership: the context's. Lifetime: the context's. Thread: any. Errors: RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_trace_start(kiln_context *context, kiln_error *err);

/// Waits for the devices and writes what was noted so far as JSON in Chrome's trace event format,
/// for Perfetto and chrome://tracing. Ownership: borrowed. Lifetime: n/a. Thread: any.
/// Errors: FAILED_PRECONDITION without a trace, UNAVAILABLE for the file, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_trace_write(kiln_context *context, const char *path,
                                                     kiln_error *err);

// ---- several devices ----

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
/// "min", "max" or "prod", elementwise, f16 and bf16 combined in f32, in an order that depends on
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

// ---- gradient synchronisation ----

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
/// each other. Over MPI all members of all processes register the same parameters in the same
/// order. Ownership: `*out_job` is the caller's hold (kiln_gradsync_release); devices are held
/// until closed. Lifetime: until closed; kiln_context_destroy closes what is left. Thread: any.
/// Errors: INVALID_ARGUMENT, ALREADY_EXISTS (it runs with other devices or options),
/// RESOURCE_EXHAUSTED.
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

/// Version of the library, such as "0.1.0". Ownership: static storage. Lifetime: the process.
/// Thread: any. Errors: none.
KILN_API const char *kiln_version(void);

#ifdef __cplusplus
}
#endif

#include "kiln_ops.h"

#endif
