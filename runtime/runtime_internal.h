// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_INTERNAL_H
#define KILN_RUNTIME_INTERNAL_H

/// What the files of runtime/ share: the objects behind kiln.h and the rules of their locks.
///
/// Locks: a context's lock guards its lists; a device's lock guards its streams, the placement of
/// its tensors and all calls of its backend. Order: context, device. Fields say which lock guards
/// them.

#include "fusion_host.h"
#include "kiln.h"
#include "kiln_explained.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

// ---- context ----

enum { KILNI_ADDRESS_BYTES = 256, KILNI_PROVIDERS = 16 };

typedef struct kilni_mover kilni_mover;
typedef struct kilni_trace kilni_trace;

struct kiln_context {
    atomic_uint refs; ///< the caller's one, and one for each device
    kiln_env env;
    pthread_mutex_t lock;
    kiln_store *store; ///< NULL: off
    kiln_fuse_registry *registry; ///< made when first needed (lock)
    const kiln_backend_provider *providers[KILNI_PROVIDERS]; ///< (lock)
    size_t n_providers;
    kiln_device *devices; ///< list through `next` (lock); not owned
    kilni_mover *mover; ///< made when first needed (lock)
    void (*mover_destroy)(kilni_mover *mover); ///< ends what was begun; there with the mover
    kilni_trace *trace; ///< NULL: none yet; once it is there it stays (lock)
    kiln_gradsync *jobs; ///< list through `next` (lock); each has one hold
    pthread_mutex_t groups_lock; ///< guards the next three; nothing else is locked under it
    pthread_cond_t groups_changed;
    kiln_collective *groups; ///< not owned
    int64_t last_group; ///< id
};

/// The providers that there are by now; how many.
size_t kilni_context_providers(kiln_context *context,
                               const kiln_backend_provider *out_providers[KILNI_PROVIDERS]);
kiln_status kilni_context_registry(kiln_context *context, kiln_fuse_registry **out_registry,
                                   kiln_error *err);
/// Path of a library that ships with Kiln. Errors: NOT_FOUND.
kiln_status kilni_library_beside(const char *name, char *out_path, size_t capacity,
                                 kiln_error *err);
/// A symbol of such a library, which stays loaded. Errors: NOT_FOUND, FAILED_PRECONDITION.
kiln_status kilni_library_symbol(kiln_context *context, const char *file, const char *symbol,
                                 void **out_address, kiln_error *err);
void kilni_gradsync_remove_all(kiln_context *context);
void kilni_context_retain(kiln_context *context);
void kilni_context_release(kiln_context *context);

// ---- memory of tensors ----

/// The cause of a failure, shared by everything that depended on it. Counted under the device's
/// lock.
typedef struct kilni_fault {
    uint32_t refs;
    kiln_error error;
} kilni_fault;

/// A value that comes from elsewhere: another device, or a collective call. Shared by what gets it
/// and by what brings it.
typedef struct kilni_arrival kilni_arrival;
/// The arrivals that a value depends on, of which some may still be under way.
typedef struct kilni_waits kilni_waits;
typedef struct kilni_guards kilni_guards;

/// A buffer shared by views. Counted under the device's lock.
typedef struct kilni_storage {
    uint32_t refs;
    uint32_t kept; ///< of these, those of temporaries made from it
    kiln_buffer *buffer;
    kilni_waits *waits; ///< of results of collective calls and what was computed from them; or NULL
    bool foreign; ///< others may see it too: never written over
    bool planned; ///< memory of a layout, which has this record too
    uint64_t bytes; ///< counted as live; 0: of a window, or somebody else's
} kilni_storage;

/// Where a tensor's elements are, once it is placed; with a fault there are none.
typedef struct kilni_place {
    bool placed;
    bool described; ///< the next two are known
    uint8_t flags; ///< of a record's tensor here: KILN_TENSOR_*
    uint8_t align_log2;
    kilni_storage *storage; ///< NULL for a tensor without elements
    kilni_fault *fault;
    kiln_view view;
} kilni_place;

// ---- streams and tensors ----

/// The operations of one thread on one device, of one capture, or of those threads that chose it.
/// Guarded by the device's lock.
typedef struct kilni_stream {
    uint64_t id; ///< never used again, so that a tensor may name a stream that has ended
    kiln_device *device;
    uint64_t thread; ///< 0: of no thread's own; kilni_thread says who records on it
    uint64_t recorded; ///< operations and drops so far
    bool named; ///< a kiln_stream stands for it
    kiln_fuse_engine *engine; ///< that plans it
    kiln_fuse_stream *queue;
    bool capturing; ///< nothing is handed out: a graph is being recorded
    bool fixed; ///< of a capture: its graph runs with the captured shapes only
    bool replaying; ///< belongs to a finished graph
    uint32_t persistent; ///< open scopes of persistent allocations
    kiln_tensor **inputs; ///< of a capture, held
    size_t n_inputs;
    kiln_tensor **carried; ///< per input its next value, held, or NULL; NULL: none has one
    struct kilni_stream *next;
} kilni_stream;

/// What a device remembers of a thread beside its stream.
typedef struct kilni_thread {
    uint64_t id; ///< 0: a free place of the table
    kilni_stream *chosen; ///< on which it records instead of its own, or NULL
    bool draws; ///< has a stream of random numbers
    uint32_t random_number; ///< of that stream
    int64_t random_position; ///< of its next draw
} kilni_thread;

/// By id, with open addressing. Threads of which there is nothing to remember go when it grows.
typedef struct kilni_threads {
    kilni_thread *places;
    size_t capacity; ///< 0 or a power of two
    size_t count;
} kilni_threads;

/// Recording is bound by the cache lines of tensors that it touches: what it looks at comes first.
struct kiln_tensor {
    atomic_uint refs; ///< the user's holds; while there are some, the device is held too
    // From here: the device's lock, save device and handle, which stay.
    uint32_t pins; ///< occurrences in queued operations
    kiln_device *device;
    kiln_device *handle; ///< of the device, with which the tensor was made; lives as long
    uint64_t stream; ///< id of the stream that queued it last; 0: none, or only a finished graph
    kilni_arrival *arrival; ///< of a move; NULL: the value is here, or will be computed here
    kiln_tensor *next_free;
    uint32_t slot; ///< number in the segment that runs now
    bool held; ///< the user's last release has not been seen under the lock
    bool shared; ///< queued on more than one stream: its last use is not known
    bool pending; ///< counted in the device's bytes_pending
    bool doomed; ///< counted in its bytes_doomed
    bool captured; ///< stands for a value of a graph: never placed itself
    bool unresolved; ///< the result of a collective call: refused until kiln_collective_resolve
    kiln_tensor_desc desc; ///< dtype, rank and dims never change, the id only with the value
    uint64_t bytes; ///< of its elements
    kiln_param_id param; ///< 0: stands for no parameter
    kilni_place place;
};

typedef struct kilni_random {
    int64_t seed;
    uint32_t next_number; ///< of a thread's stream, in the order in which threads draw first
} kilni_random;

/// A queue beside the device's own; its lock guards all calls of its backend.
typedef struct kilni_lane {
    kiln_backend *backend; ///< NULL: none; once it is there it stays
    pthread_mutex_t lock;
} kilni_lane;

/// One end of a move that is under way.
typedef struct kilni_moving {
    uint64_t number; ///< in the order in which moves from and to the device began
    struct kilni_moving *before;
    struct kilni_moving *next;
} kilni_moving;

/// Which values of a plan share memory (memory_internal.h).
typedef struct kilni_layout kilni_layout;

/// Memory in which the values lie that die in the plan that runs.
typedef struct kilni_arena {
    kiln_buffer *buffer;
    uint64_t bytes;
    bool busy; ///< a run has it
    bool off; ///< the backend makes no windows
    kilni_layout *bound; ///< layouts with windows in it, through `next_bound`
} kilni_arena;

/// What runs the operations that streams have queued: the executor, for those below it. Under the
/// lock.
typedef struct kilni_executor {
    /// Runs what is ready on a stream; with `drain`, all of it.
    kiln_status (*run)(kilni_stream *stream, bool drain, kiln_error *err);
    /// Runs what all threads have recorded.
    kiln_status (*drain)(kiln_device *device, kiln_error *err);
} kilni_executor;

/// Gives memory back that nothing uses now. False: there was nothing. Under the lock.
typedef bool (*kilni_reclaim_fn)(kiln_device *device);

/// Who keeps memory beside the tensors, for who allocates below them.
typedef struct kilni_reclaimers {
    const kilni_reclaim_fn *all; ///< asked in turn; ends with NULL
    /// Only temporaries that were made from the storage still share it.
    void (*forget)(kiln_device *device, kilni_storage *storage);
} kilni_reclaimers;

/// Gives memory to tensors instead of the backend's pool.
typedef struct kilni_allocator {
    kiln_status (*alloc)(struct kilni_allocator *self, size_t bytes, const kilni_place *place,
                         kiln_buffer **out_buffer, kiln_error *err);
} kilni_allocator;

/// What another thread has done with, and cannot give back without the device's lock.
typedef struct kilni_ended {
    struct kilni_ended *next;
    void (*free)(kiln_device *device, struct kilni_ended *self); ///< under the lock
} kilni_ended;

/// Memory that tensors have, and what more of it may come. All under the device's lock.
typedef struct kilni_memory_account {
    const kilni_reclaimers *reclaimers;
    kilni_allocator *allocator; ///< of what is allocated now, or NULL: the backend
    uint64_t live; ///< bytes of buffers that tensors and the arena hold
    uint64_t live_peak;
    uint64_t pending; ///< bytes of queued results that nobody has dropped yet
    uint64_t doomed; ///< bytes of tensors that only queued operations still hold
    uint64_t pressure; ///< live and pending bytes from which queues are run early; 0: never
    uint64_t early_runs;
    bool persistent; ///< what is allocated now lives long
} kilni_memory_account;

/// Moves begun and not ended, from and to a device. All under the device's lock.
typedef struct kilni_moves {
    kilni_moving *first;
    kilni_moving *last;
    uint64_t next_number;
} kilni_moves;

/// The streams of a device. All under the device's lock.
typedef struct kilni_stream_list {
    kilni_stream *first;
    size_t count;
    uint64_t last_id;
    kilni_stream *current; ///< the stream found last
    uint64_t current_thread; ///< and who records on it
} kilni_stream_list;

/// Records of tensors. All under the device's lock.
typedef struct kilni_tensor_pool {
    kiln_tensor *free;
    size_t n_free;
    uint64_t live;
    uint64_t held; ///< by the user; together they hold the device once
    uint64_t next_id; ///< of a tensor; those before end_id are this device's
    uint64_t end_id;
} kilni_tensor_pool;

/// Who plans for a device. All under the device's lock.
typedef struct kilni_engines {
    kiln_fuse_engine *fused; ///< with fusers
    kiln_fuse_engine *plain; ///< one operation at a time
    kiln_fuse_engine *former_fused; ///< these two from before the device refused to compile, or
    kiln_fuse_engine *former_plain; ///< NULL
    uint32_t planned_for; ///< features of the device that the engines know
    bool settled; ///< whether it compiles is known, or does not matter
    bool fusion;
} kilni_engines;

/// What a device has done. All under the device's lock.
typedef struct kilni_device_counts {
    uint64_t blocks_fused;
    uint64_t ops_fused;
    uint64_t values_planned; ///< values that a layout gave memory to
    uint64_t indices_outside;
} kilni_device_counts;

/// What is checked and written down. All under the device's lock.
typedef struct kilni_check_state {
    unsigned mode; ///< kilni_check_mode
    const char *records; ///< folder into which streams go, or NULL
    int64_t watchdog_ms; ///< knob `watchdog`
    uint64_t *recorded; ///< what has been written, sorted by nothing
    size_t n_recorded;
    uint64_t last_plan; ///< number given to a plan
    struct kilni_index_places *index_places; ///< looked at, or found to be outside; NULL: none
} kilni_check_state;

/// What is measured. All under the device's lock.
typedef struct kilni_sampling {
    unsigned tune; ///< kilni_tune
    bool measuring; ///< what runs now is a sample
    bool starved; ///< a sample had too little memory
    bool measured; ///< a block of the segment that runs: one is enough for a run
} kilni_sampling;

/// What the executor keeps from run to run. All under the device's lock.
typedef struct kilni_execution {
    kilni_place **places; ///< of the segment that runs
    size_t places_capacity;
    struct kilni_kept *kept; ///< temporaries that plans keep
} kilni_execution;

/// Failures of queued work. All under the device's lock.
typedef struct kilni_faults {
    kilni_fault *first;
    kilni_fault no_memory; ///< stands in when there is none for a fault's record
} kilni_faults;

/// What the next sweep gives back. Its lock guards it; nothing else is locked under it.
typedef struct kilni_ended_list {
    pthread_mutex_t lock;
    kilni_ended *first;
} kilni_ended_list;

struct kiln_device {
    kiln_device *core; ///< itself; of a light handle the device that it stands for
    kiln_dtype float_dtype; ///< what operations make where no dtype is named
    kiln_dtype int_dtype;
    // From here: of the core alone. These stay as they were made.
    atomic_uint refs;
    kiln_context *context;
    kiln_backend *backend;
    const kilni_executor *executor;
    const struct kilni_run_hooks *hooks;
    void (*close)(kiln_device *device); ///< when the last hold goes
    char address[KILNI_ADDRESS_BYTES];
    char plain_name[48];
    char fused_name[64];
    int64_t facts[KILN_FACT_COUNT];
    kiln_device *next; ///< the context's lock
    pthread_mutex_t lock;
    // Objects with locks of their own.
    kilni_lane in; ///< for collective calls: arithmetic, and what comes from the host
    kilni_lane out; ///< and what goes there
    kilni_ended_list ended;
    _Atomic(kilni_trace *) trace; ///< NULL: nothing is noted
    // From here: the device's lock.
    uint32_t trace_number; ///< of this device in it
    kiln_device *full; ///< the light handle whose floats are f32, or NULL
    kilni_stream_list streams;
    kilni_threads threads;
    kilni_tensor_pool tensors;
    kilni_memory_account memory;
    kilni_engines engines;
    kilni_execution execution;
    kilni_arena arena;
    kilni_sampling samples;
    kilni_check_state check;
    kilni_device_counts counts;
    kilni_faults faults;
    kilni_moves moves;
    pthread_cond_t arrived; ///< an arrival on this device has ended
    kilni_waits *gates; ///< what the queue waits or waited for since the last sync
    kilni_random random;
};

/// The device that a caller's handle stands for: what every function that takes one begins with.
static inline kiln_device *kilni_core(const kiln_device *device)
{
    return device != NULL ? device->core : NULL;
}

static inline kiln_fuse_engine *kilni_device_engine(const kiln_device *device)
{
    return device->engines.fusion ? device->engines.fused : device->engines.plain;
}

/// The live stream with this id, or NULL: it has ended, or belongs to a finished graph. Under the
/// lock.
kilni_stream *kilni_stream_find(const kiln_device *device, uint64_t id);

/// Whether this thread chose the stream or it is its own, captures included. Under the lock.
bool kilni_stream_is_mine(const kilni_stream *stream);
/// The stream that a thread records on instead of its own, or NULL. Under the lock.
kilni_stream *kilni_stream_chosen_by(const kiln_device *device, uint64_t thread);
/// The stream on which this thread records, made when needed. Under the lock.
kiln_status kilni_stream_current(kiln_device *device, kilni_stream **out_stream, kiln_error *err);
kiln_status kilni_stream_create(kiln_device *device, bool whole, kilni_stream **out_stream,
                                kiln_error *err);
void kilni_stream_destroy(kilni_stream *stream);
/// Lists a stream that was created, so that it is found and ends with the device. Under the lock.
void kilni_stream_enlist(kilni_stream *stream);
/// Ends the streams of threads that have nothing queued. Under the lock.
void kilni_streams_prune(kiln_device *device);

/// A queued result is counted, and no longer: it was placed, dropped, or will never be computed.
static inline void kilni_tensor_pend(kiln_tensor *tensor)
{
    tensor->pending = true;
    tensor->device->memory.pending += tensor->bytes;
}
static inline void kilni_tensor_unpend(kiln_tensor *tensor)
{
    if (tensor->pending) {
        tensor->pending = false;
        tensor->device->memory.pending -= tensor->bytes;
    }
}
/// A tensor with memory is dropped, and gone.
static inline void kilni_tensor_doom(kiln_tensor *tensor)
{
    if (!tensor->doomed && tensor->place.placed) {
        tensor->doomed = true;
        tensor->device->memory.doomed += tensor->bytes;
    }
}
static inline void kilni_tensor_undoom(kiln_tensor *tensor)
{
    if (tensor->doomed) {
        tensor->doomed = false;
        tensor->device->memory.doomed -= tensor->bytes;
    }
}

/// Takes back the pins that queueing the segment's operations gave.
void kilni_segment_unpin(const kiln_fuse_segment *segment);

// engines.c
kiln_status kilni_engines_create(kiln_device *device, kiln_error *err);
void kilni_engines_destroy(kiln_device *device);
/// Adds up what they have planned. Under the lock.
void kilni_engines_count(const kiln_device *device, kiln_device_stats *stats);
/// Gives the stream an engine that knows what the device has become. Under the lock.
kiln_status kilni_engines_follow(kilni_stream *stream, kiln_error *err);
/// Sees to it that the device does not first refuse to compile while the segment runs. False: it
/// has refused, and the segment is to be planned again. Under the lock.
bool kilni_engines_settled(const kilni_stream *stream, const kiln_fuse_segment *segment,
                           bool searched);

/// kiln_fuse_stream_next, for what the device is known to be; in a trace, finding a plan and
/// searching one are told apart.
kiln_status kilni_stream_next(kilni_stream *stream, bool drain,
                              const kiln_fuse_segment **out_segment, kiln_error *err);

/// Runs what is ready on a stream; with `drain`, all of it. Under the lock. Failures of the
/// operations stay with their tensors; what is returned is a failure of the planning itself.
kiln_status kilni_stream_run(kilni_stream *stream, bool drain, kiln_error *err);

/// What the device remembers of a thread, or NULL; made now, or NULL: no memory. Good until another
/// is made. Under the lock.
kilni_thread *kilni_thread_find(const kiln_device *device, uint64_t id);
kilni_thread *kilni_thread_get(kiln_device *device, uint64_t id);

/// Runs what all threads have recorded. Under the lock; errors as kilni_stream_run.
kiln_status kilni_device_drain(kiln_device *device, kiln_error *err);

static inline kiln_status kilni_run_queued(kilni_stream *stream, kiln_error *err)
{
    return stream->device->executor->run(stream, /*drain=*/true, err);
}
static inline kiln_status kilni_run_all_queued(kiln_device *device, kiln_error *err)
{
    return device->executor->drain(device, err);
}

/// Waits for all that the backend was given, without the lock, which is held again on return.
kiln_status kilni_device_wait(kiln_device *device, kiln_error *err);
/// Whether the calling thread has an open scope of persistent allocations. Under the lock.
bool kilni_device_persists(const kiln_device *device);
/// Leaves something to be given back by the next sweep. Any thread.
void kilni_device_put_ended(kiln_device *device, kilni_ended *ended);
/// Gives back what was left. Under the lock.
void kilni_device_sweep(kiln_device *device);
void kilni_device_set_names(kiln_device *device);
/// A device that is in no list of the context's.
kiln_status kilni_device_create(kiln_context *context, const char *address,
                                const kiln_backend_provider *provider, kiln_device **out_device,
                                kiln_error *err);
/// Ends a device that is in no list and that nobody holds.
void kilni_device_free(kiln_device *device);

kiln_status kilni_describe(kiln_dtype dtype, size_t rank, const int64_t *dims,
                           kiln_tensor_desc *out_desc, kiln_error *err);
/// A tensor whose elements lie in `buffer`, dense; takes it over on success. Under the lock.
kiln_status kilni_tensor_around(kiln_device *handle, const kiln_tensor_desc *desc,
                                kiln_buffer *buffer, int64_t offset_bytes, kiln_tensor **out_tensor,
                                kiln_error *err);

/// A tensor without a place, with one hold of the user. Under the lock. NULL: no memory.
kiln_tensor *kilni_tensor_new(kiln_device *handle, const kiln_tensor_desc *desc);
void kilni_tensor_pin(kiln_tensor *tensor, kilni_stream *stream);
void kilni_tensor_unpin(kiln_tensor *tensor);
/// The user's last hold is gone and no drop is recorded: freed now, or with the last pin. Under the
/// lock; the device's count is the caller's.
void kilni_tensor_disown(kiln_tensor *tensor);
/// Records the tensor's last use on the stream that queued it. Under the lock.
kiln_status kilni_tensor_drop(kiln_tensor *tensor, kilni_stream *stream, kiln_error *err);
/// Gives a tensor that nobody else mentions the value, or the fault, at `place`; `renew` makes it
/// another tensor in the same record.
void kilni_tensor_settle(kiln_tensor *tensor, const kilni_place *place);
void kilni_tensor_renew(kiln_tensor *tensor, const kilni_place *place);
/// One hold of the user's on a tensor is over, for who has the lock and holds the device otherwise.
void kilni_tensor_unhold(kiln_device *device);
/// kiln_release for who has the lock and holds the device otherwise.
void kilni_tensor_release(kiln_tensor *tensor);
/// The first of `count` ids that no other tensor of the process has. Any thread.
uint64_t kilni_tensor_ids(uint64_t count);

/// Runs what the tensor needs, so that it has a place. Its fault, when it has one. Under the lock.
kiln_status kilni_tensor_place(kiln_tensor *tensor, kiln_error *err);

/// A call of an operator.
typedef struct kilni_op_call {
    kiln_op op;
    uint32_t unwanted; ///< bit i: result i is not needed, and stays NULL where that spares work
    kiln_tensor *const *inputs;
    size_t n_inputs;
    const kiln_attr *attrs;
    size_t n_attrs;
} kilni_op_call;

/// Checks the operation, makes its results and queues it. Under the lock.
kiln_status kilni_stream_record(kilni_stream *stream, const kilni_op_call *call,
                                kiln_tensor **out_tensors, kiln_error *err);

/// The operator that the attributes of a custom operation name. Errors: NOT_FOUND.
kiln_status kilni_custom_find(kiln_device *device, const kiln_attr *attrs,
                              const kiln_custom_op **out_op, kiln_error *err);
/// Evaluates a custom operation that the device has no kernel for: reads its inputs, and writes its
/// outputs, which have memory, dense. Waits. Under the lock.
kiln_status kilni_custom_on_host(kiln_device *device, const kiln_op_record *record,
                                 const kiln_view *inputs, const kiln_view *outputs,
                                 kiln_error *err);

/// kiln_record for an operator with several results; a NULL in `outputs` says that this one is not
/// wanted. Not under the lock.
kiln_status kilni_record_several(kiln_device *device, kiln_op op, kiln_tensor *const *inputs,
                                 size_t n_inputs, const kiln_attr *attrs, size_t n_attrs,
                                 kiln_tensor **const *outputs, kiln_error *err);

// ---- dtypes that are not named ----

/// Fills in the dtype of a result that the call leaves open, from the handle's defaults: `*attrs`
/// becomes `scratch` then.
void kilni_name_dtype(const kiln_device *handle, kiln_op op, const kiln_attr **attrs,
                      kiln_attr scratch[KILN_MAX_ATTRS]);

// ---- random numbers (all under the lock) ----

/// Whether records of this operator have a seed, a stream and a position, and the place of the
/// first among its attributes; they follow one another.
bool kilni_random_draws(const kiln_op_info *info, uint32_t *out_attr);
/// The calling thread's next draw, as attributes in the order seed, stream, position.
kiln_status kilni_random_next(kiln_device *device, kiln_attr out_attrs[3], kiln_error *err);

// ---- places (all under the lock) ----

kiln_status kilni_place_alloc(kiln_device *device, const kiln_tensor_desc *desc, kilni_place *place,
                              kiln_error *err);
void kilni_place_share(kilni_place *place, const kilni_place *source, const kiln_view *view);
/// A dense copy of the elements at `place`, made on the device. Cleared by the caller, also on
/// failure.
kiln_status kilni_place_dense(kiln_device *device, const kiln_tensor_desc *desc,
                              const kilni_place *place, kilni_place *out_dense, kiln_error *err);
/// The elements of a place in row-major order; waits.
kiln_status kilni_place_read(kiln_device *device, const kiln_tensor_desc *desc,
                             const kilni_place *place, void *out_data, kiln_error *err);
/// Finds out what a record says of the memory: KILN_TENSOR_* and the alignment.
void kilni_place_describe(kilni_place *place);
void kilni_place_fail(kiln_device *device, kilni_place *place, kilni_fault *fault);
void kilni_place_clear(kiln_device *device, kilni_place *place);
/// Never NULL.
kilni_fault *kilni_fault_create(kiln_device *device, const kiln_error *cause);
void kilni_fault_release(kiln_device *device, kilni_fault *fault);

/// The tensor's description with the facts about its memory.
static inline void kilni_tensor_snapshot(kiln_tensor *tensor, kiln_tensor_desc *out_desc)
{
    *out_desc = tensor->desc;
    if (!tensor->place.placed) {
        return;
    }
    if (!tensor->place.described) {
        kilni_place_describe(&tensor->place);
    }
    out_desc->flags |= tensor->place.flags;
    out_desc->align_log2 = tensor->place.align_log2;
}

// ---- arrivals (all under the lock) ----

/// With two holds: the tensor's and the bringer's. NULL: no memory.
kilni_arrival *kilni_arrival_create(kiln_device *device);
/// Without the lock, as well: the bringer is done, and gives up its hold. Opens the gate that the
/// device's queue waits at. Who waits for a move needs `arrived` besides.
void kilni_arrival_end(kilni_arrival *arrival, const kiln_error *result);
void kilni_arrival_release(kilni_arrival *arrival);
/// Waits, giving the lock up meanwhile, until the tensors of this device are here; a failed arrival
/// becomes the tensor's fault. To be called before anything of the device is looked at.
/// Errors: FAILED_PRECONDITION for the result of a collective call that was not resolved.
kiln_status kilni_await_arrivals(kiln_device *device, kiln_tensor *const *tensors, size_t count,
                                 kiln_error *err);
/// Likewise, with a deadline on kiln_time_ns(), and DEADLINE_EXCEEDED.
kiln_status kilni_await_arrivals_until(kiln_device *device, kiln_tensor *const *tensors,
                                       size_t count, uint64_t deadline_ns, kiln_error *err);

/// Waits for the moves from and to the device that have begun by now, giving the lock up meanwhile.
void kilni_await_moves(kiln_device *device);

/// From now on the storage's value depends on what `more` (or NULL) stands for, or on `arrival`.
/// False: no memory.
bool kilni_waits_add(kilni_waits **waits, const kiln_env *env, kilni_waits *more);
bool kilni_storage_await(kilni_storage *storage, const kiln_env *env, kilni_waits *more);
bool kilni_storage_expect(kilni_storage *storage, kilni_arrival *arrival);
static inline kilni_waits *kilni_place_waits(const kilni_place *place)
{
    return place->storage != NULL ? place->storage->waits : NULL;
}
/// Both without the lock, as well.
kilni_waits *kilni_waits_retain(kilni_waits *waits);
void kilni_waits_release(kilni_waits *waits);
/// The first failure among those that have ended. `out_open` (or NULL): some have not.
kiln_status kilni_waits_status(const kilni_waits *waits, bool *out_open, kiln_error *err);
/// The place's fault, or the failure of what its value depends on, as far as it is known.
kiln_status kilni_place_status(const kilni_place *place, kiln_error *err);
/// Makes what is done on the device from now on wait for what the place's value depends on: by a
/// gate in its queue, or, on a device without (kilni_device_gates), here and now, with the lock
/// given up meanwhile.
kiln_status kilni_place_gate(kiln_device *device, const kilni_place *place, kiln_error *err);
/// Whether the device's queue can wait for what it does not run itself.
static inline bool kilni_device_gates(const kiln_device *device)
{
    return device->in.backend != NULL;
}

// ---- operations that several devices take part in (under the lock) ----

/// Runs this device's part of one; groups of one are left to the backend.
kiln_status kilni_collective_execute(kiln_device *device, const kiln_op_record *record,
                                     const kilni_place *input, kilni_place *output,
                                     kiln_error *err);
static inline bool kilni_collective_is(const kiln_op_record *record)
{
    return record->op == KILN_OP_COLLECTIVE_SYNC ||
           (record->op == KILN_OP_ALL_REDUCE && record->attrs[1].v.i != 0);
}
/// Whether the device's server is to run the operation: of a group that this process does not know.
bool kilni_collective_is_served(kiln_device *device, const kiln_op_record *record,
                                const kilni_place *input);
/// As destroy, but calls under way are cancelled. Takes NULL.
void kilni_collective_cancel(kiln_collective *collective);

// ---- lanes ----

/// Makes the device's lanes where it can have some. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_lanes_open(kiln_device *device, kiln_error *err);
void kilni_lanes_close(kiln_device *device);
/// What each may hold from now on. Without the device's lock.
void kilni_lanes_set_budget(kiln_device *device, uint64_t bytes);
/// Gives their unused memory back. False: there are none.
bool kilni_lanes_trim(kiln_device *device);

// ---- temporaries that a plan keeps ----

enum { KILNI_KEPT_SOURCES = 8 };

/// What a PERSISTENT temporary is made from: the memory of constants, and numbers. Equal in both,
/// equal in content.
typedef struct kilni_kept_from {
    kiln_hash128 numbers; ///< of all that its launch sees beside memory, and of its own size
    uint32_t n_sources; ///< more than there is room for: not kept
    kilni_place *sources[KILNI_KEPT_SOURCES];
} kilni_kept_from;

/// A PERSISTENT temporary and the constants that it was made from. These are held, so that memory
/// at the same address is the same memory. All under the device's lock.
typedef struct kilni_kept {
    kilni_place temp; ///< placed: there is one
    kiln_hash128 program; ///< whose temporary it is: other plans with this program share it
    uint32_t number; ///< of the temporary
    struct kilni_kept *next; ///< of the device's
    struct kilni_kept *before;
    kiln_hash128 numbers;
    kilni_place sources[KILNI_KEPT_SOURCES];
    uint32_t n_sources;
} kilni_kept;

bool kilni_kept_serves(const kilni_kept *kept, const kilni_kept_from *from);
/// What another plan with the same program keeps of the same constants, or NULL.
const kilni_kept *kilni_kept_find(const kiln_device *device, kiln_hash128 program, uint32_t number,
                                  const kilni_kept_from *from);
/// Keeps the temporary instead of what was kept before; not with too many sources.
void kilni_kept_set(kiln_device *device, kilni_kept *kept, const kilni_place *temp,
                    const kilni_kept_from *from);
void kilni_kept_clear(kiln_device *device, kilni_kept *kept);
/// Drops what was made from this memory, which nobody else holds any more.
void kilni_kept_forget(kiln_device *device, kilni_storage *source);
/// Drops everything; what is needed again is made again. False: there was nothing.
bool kilni_kept_drop(kiln_device *device);

// ---- executor ----

/// A segment with the places of its tensors, in the order of the plan's numbers.
typedef struct kilni_run {
    kiln_device *device;
    kiln_fuse_engine *engine;
    const kiln_fuse_segment *segment;
    kilni_place **places;
    kilni_layout *layout; ///< NULL: the pool gives all memory
} kilni_run;

// ---- when memory is short (memory_pressure.c; all under the lock)

enum { KILNI_RELIEF_PART = 16 }; ///< part of the budget that must come free

void kilni_pressure_init(kiln_device *device);
/// Whether memory is short and running queued work would free some. Work that would free none
/// waits: run early, it only makes what fusion would have left out.
static inline bool kilni_under_pressure(const kilni_memory_account *memory)
{
    return memory->pressure > 0 && memory->live + memory->pending > memory->pressure &&
           memory->doomed > memory->pressure / KILNI_RELIEF_PART;
}
/// Gives back what nothing uses now. False: there was nothing.
bool kilni_reclaim(kiln_device *device);
/// Runs what all threads have recorded, for memory.
void kilni_relieve(kiln_device *device);

// ---- memory of whole plans (memory_run.c; all under the lock)

/// The group of tensor `ref` among a launch's arguments: which inputs it may take the memory of.
static inline uint32_t kilni_arg_group(const kiln_program_launch *launch, uint32_t ref)
{
    for (uint32_t i = 0; i < launch->n_args; i++) {
        if (launch->args[i].kind == KILN_ARG_TENSOR && launch->args[i].ref == ref) {
            return launch->args[i].group;
        }
    }
    return 0;
}

/// Whether a result of `group` may be written over what argument `number` reads: another argument
/// may be the same tensor, and be read elsewhere.
static inline bool kilni_arg_gives_way(const kiln_program_launch *launch, uint32_t number,
                                       uint32_t group)
{
    const kiln_program_arg *arg = &launch->args[number];
    bool gives = arg->kind == KILN_ARG_TENSOR;
    for (uint32_t i = 0; i < launch->n_args && gives; i++) {
        const kiln_program_arg *same = &launch->args[i];
        gives = same->kind != KILN_ARG_TENSOR || same->ref != arg->ref ||
                (same->access == KILN_ACCESS_READ && same->group == group);
    }
    return gives;
}

/// The layout of a run, with the arena for it until `end`; NULL: there is none, or nothing to plan.
kilni_layout *kilni_layout_begin(const kilni_run *run);
void kilni_layout_end(const kilni_run *run);
/// The layout that the run's plan and extents have, made when it is worth it; or NULL.
kilni_layout *kilni_layout_find(const kilni_run *run);
/// Gives a value its memory. False: the pool has to, and `note` is told what it gave.
bool kilni_layout_place(const kilni_run *run, uint32_t slot, const kiln_tensor_desc *desc,
                        kilni_place *target);
bool kilni_layout_place_temp(const kilni_run *run, uint32_t block, uint32_t temp,
                             const kiln_tensor_desc *desc, kilni_place *target);
void kilni_layout_note(const kilni_run *run, uint32_t slot, const kilni_place *place);
/// Before and after an operation alone is executed, in a run with a layout.
void kilni_layout_lend(const kilni_run *run, uint32_t step);
void kilni_layout_learn(const kilni_run *run, uint32_t step);
/// A buffer that windows are cut from. Ownership: the caller's. Lifetime: until freed, after its
/// windows. Thread: the device's lock. Errors: of alloc.
KILN_NODISCARD kiln_status kilni_alloc_for_windows(kiln_backend *backend, size_t bytes,
                                                   kiln_buffer **out_buffer, kiln_error *err);
/// Gives the arena back; it comes again when it is needed. False: there is none, or a run has it.
bool kilni_arena_drop(kiln_device *device);
static inline void kilni_count_live(kilni_memory_account *memory, uint64_t bytes)
{
    memory->live += bytes;
    if (memory->live > memory->live_peak) {
        memory->live_peak = memory->live;
    }
}

typedef struct kilni_scores kilni_scores;
typedef struct kilni_check kilni_check;

/// What rooms above the executor do around its work. All under the lock.
typedef struct kilni_run_hooks {
    /// Only with knob `record`: writes down what is about to run.
    void (*before_run)(const kilni_run *run);
    /// Only with knob `tune`: measures who runs the block fastest. True: never to be asked again.
    bool (*before_block)(const kilni_run *run, uint32_t block, kilni_scores *scores);
    void (*scores_free)(kilni_scores *scores, const kiln_env *env);
    /// Only with knob `check`: runs the block's program in the shadow of its operations, which run
    /// one by one between the two. NULL: not now. `end` is false when the program is wrong.
    kilni_check *(*shadow_begin)(const kilni_run *run, uint32_t block);
    bool (*shadow_end)(kilni_check *check);
    /// Of blocks that nobody has seen end: a deadline for the launch, or 0. `after` is false when
    /// it did not end by then, and the device is lost.
    uint64_t (*before_launch)(const kilni_run *run, const kiln_plan_block *block);
    bool (*after_launch)(const kilni_run *run, const kiln_plan_block *block, const char *kernel,
                         uint64_t deadline_ns, kiln_error *err);
    /// Only with knob `check`: looks at the indices of an operation that runs alone.
    void (*before_op)(const kilni_run *run, uint32_t op);
    /// Operations that several devices take part in: whether the device's server runs it, for the
    /// group is not of this process; and this device's part of it.
    bool (*collective_is_served)(kiln_device *device, const kiln_op_record *record,
                                 const kilni_place *input);
    kiln_status (*collective)(kiln_device *device, const kiln_op_record *record,
                              const kilni_place *input, kilni_place *output, kiln_error *err);
} kilni_run_hooks;

/// Runs a plan: evaluates formulas, assigns buffers, enqueues. Failures stay with the places. Under
/// the lock.
void kilni_plan_run(const kilni_run *run);
/// The block's program could not be built or launched.
bool kilni_plan_block_failed(const kiln_plan_block *block);

typedef enum kilni_tune { ///< knob `tune`
    KILNI_TUNE_OFF = 0,
    KILNI_TUNE_LAZY = 1,
    KILNI_TUNE_FULL = 2
} kilni_tune;

kiln_status kilni_tune_mode(const kiln_context *context, kilni_tune *out_mode, kiln_error *err);

enum { KILNI_TUNE_ROUNDS = 256 };

/// Of one that takes part: what it took in each round, in which the others took theirs right
/// before and after.
typedef struct kilni_score {
    float ns[KILNI_TUNE_ROUNDS]; ///< of one run; 0: it took no part
    bool failed;
    bool out; ///< so much slower that it takes no part any more
} kilni_score;

/// A tournament as far as it has come; kept with its block from run to run.
typedef struct kilni_scores {
    uint32_t runs; ///< of the block, before
    uint32_t rounds; ///< that count
    uint32_t repeats; ///< runs of one sample; 0: not known yet
    kiln_hash128 extents; ///< for which they were played; others begin anew
    uint64_t spent_ns;
    uint32_t n_entries;
    kilni_score *entries; ///< the last is the operations alone; NULL: nothing was played
} kilni_scores;

bool kilni_scores_begin(kilni_scores *scores, const kiln_env *env, uint32_t n_entries);
void kilni_scores_fini(kilni_scores *scores, const kiln_env *env);

/// How many times as long `a` took as `b`, over the rounds that both played.
kiln_ratio kilni_score_ratio(const kilni_score *a, const kilni_score *b, uint32_t rounds);
/// Who is the fastest, by medians of pairs; `n_entries` when all failed.
uint32_t kilni_scores_fastest(const kilni_scores *scores);
/// Whether more rounds would change nothing: each of the others is slower than the fastest, or so
/// near that it does not matter.
bool kilni_scores_sure(const kilni_scores *scores);
/// Leaves out from now on who is much slower than the fastest.
void kilni_scores_leave_out(kilni_scores *scores);
/// The least time of the fastest, and of the others that times what they took longer; 0: failed.
void kilni_scores_times(const kilni_scores *scores, uint64_t *out_ns);

/// Measures the programs that may run a block against each other and against its operations alone,
/// on the tensors at hand, when it is time for that. Results go to memory of their own; inputs that
/// the block would overwrite are copied. With `lazy` a run plays a few rounds and later ones go on,
/// so that nobody waits long for the device. True when all is played or not wanted ever. Under the
/// lock.
bool kilni_tune_block(const kilni_run *run, uint32_t block, kilni_scores *scores);

// ---- traces ----

typedef enum kilni_span_kind {
    KILNI_SPAN_RECORD,
    KILNI_SPAN_PLAN, ///< found
    KILNI_SPAN_SEARCH, ///< planned
    KILNI_SPAN_BUILD,
    KILNI_SPAN_RUN, ///< a segment, or a graph
    KILNI_SPAN_ENQUEUE, ///< a step
    KILNI_SPAN_READ,
    KILNI_SPAN_WAIT,
    KILNI_SPAN_MEASURE ///< a tournament
} kilni_span_kind;

static inline kilni_trace *kilni_trace_of(const kiln_device *device)
{
    return atomic_load_explicit(&device->trace, memory_order_acquire);
}

/// The time when the device has a trace, else 0; and a span from such a time to now: nothing when
/// it is 0. Any thread.
uint64_t kilni_trace_now(const kiln_device *device);
void kilni_trace_span(kiln_device *device, kilni_span_kind kind, const char *name,
                      uint64_t start_ns);

/// Around each step of a plan; what is queued in between carries the step's number. Under the lock.
typedef struct kilni_step_mark {
    uint64_t tag;
    uint64_t start_ns; ///< 0: not noted
} kilni_step_mark;

kilni_step_mark kilni_trace_step_begin(const kilni_run *run);
void kilni_trace_step_end(const kilni_run *run, uint32_t index, kilni_step_mark mark);
static inline void kilni_trace_tag(kiln_device *device, uint64_t tag)
{
    if (device->backend->ops->trace_tag != NULL) {
        device->backend->ops->trace_tag(device->backend, tag);
    }
}

typedef struct kilni_step_time {
    uint64_t median_ns; ///< on the device, where that is known
    uint64_t start_ns; ///< of the last run
    uint64_t last_ns;
    uint32_t runs;
} kilni_step_time;

/// What the steps of a plan took. False without a trace. Waits. Under the lock.
bool kilni_trace_times(kiln_device *device, const kiln_plan *plan, kilni_step_time *out_times);

/// The context's trace, made now when the knob asks for one; NULL: none.
kilni_trace *kilni_context_trace(kiln_context *context);
/// From now on the device is part of it; no longer, when it closes. Under the lock.
void kilni_trace_join(kiln_device *device, kilni_trace *trace);
void kilni_trace_leave(kiln_device *device);
/// Writes the trace that the knob asked for, and forgets it.
void kilni_trace_end(kiln_context *context);
void kilni_trace_destroy(kilni_trace *trace);

// ---- samples: a block beside the run that it belongs to (under the lock) ----

typedef struct kilni_sample {
    const kilni_run *run;
    const kiln_plan_block *block;
    uint32_t index;
    const kiln_env *env;
    kilni_place **places; ///< per tensor of the segment: its own, or one of `scratch`
    kilni_place *scratch; ///< per tensor of the block
    bool *made; ///< per tensor of the block: a result
    bool *dying; ///< per tensor of the block: an input that the block may overwrite
    kilni_place *spare; ///< copies of dying inputs for further runs of a sample, set by set
    uint32_t n_spare; ///< sets
} kilni_sample;

typedef struct kilni_small_plan { ///< of one block, or of its operations one by one
    kiln_plan plan;
    kiln_plan_block block;
    kiln_plan_step *steps;
    uint32_t *dies; ///< of all steps
} kilni_small_plan;

kiln_status kilni_beside_init(kilni_sample *sample, const kilni_run *run, uint32_t block,
                              kiln_error *err);
void kilni_beside_fini(kilni_sample *sample);
/// The block's number of a tensor of the segment, or UINT32_MAX; and whether the block drops it.
uint32_t kilni_beside_number(const kilni_sample *sample, uint32_t slot);
bool kilni_beside_drops(const kilni_sample *sample, uint32_t slot);
/// A program's steps, inputs that the block may overwrite dying with the last of them; and the
/// operations alone. Both are freed by fini, also after a failure.
kiln_status kilni_beside_fused(const kilni_sample *sample, kilni_small_plan *small,
                               const kiln_program *program, kiln_error *err);
kiln_status kilni_beside_alone(const kilni_sample *sample, kilni_small_plan *small,
                               kiln_error *err);
void kilni_beside_plan_fini(const kilni_sample *sample, kilni_small_plan *small);
/// Copies what may be overwritten, and waits; runs, and waits; forgets the results.
kiln_status kilni_beside_copy_inputs(kilni_sample *sample, uint32_t runs, kiln_error *err);
/// Of what each run of a sample needs a copy.
int64_t kilni_beside_dying_bytes(const kilni_sample *sample);
kiln_status kilni_beside_run(kilni_sample *sample, kilni_small_plan *small, kiln_error *err);
void kilni_beside_clear(kilni_sample *sample);
/// The first failure of the results, or NULL.
const kilni_fault *kilni_beside_fault(const kilni_sample *sample);

// ---- checked mode (under the lock) ----

typedef enum kilni_check_mode { ///< knob `check`
    KILNI_CHECK_OFF = 0,
    KILNI_CHECK_FIRST = 1, ///< the first run of each block of each plan
    KILNI_CHECK_ALWAYS = 2
} kilni_check_mode;

kiln_status kilni_check_mode_of(const kiln_context *context, kilni_check_mode *out_mode,
                                kiln_error *err);

/// Runs the block's program on copies, with guard words around everything that it may write, and
/// keeps what came out. The caller then runs the operations one by one, and gives both to `end`,
/// which compares them. NULL: the block cannot be checked now. `end` gives false when the program
/// is wrong: it was told to the engine, reduced and written down. `end` frees the check.
kilni_check *kilni_check_begin(const kilni_run *run, uint32_t block);
bool kilni_check_end(kilni_check *check);

/// The deadline of launches that nobody has seen end yet. `begin` waits for what was queued before,
/// so that only the launch counts; 0: this one is not watched (it ships, the knob says so, or what
/// was queued before does not end soon). `wait` comes after the launch. False: it did not end, the
/// device is given up, the fuser put away; `err` says all of it.
uint64_t kilni_watchdog_begin(const kilni_run *run, const kiln_plan_block *block);
bool kilni_watchdog_wait(const kilni_run *run, const kiln_plan_block *block, const char *kernel,
                         uint64_t deadline_ns, kiln_error *err);

/// Says which index operands of an operation that is about to run alone have values outside their
/// range.
typedef struct kilni_index_places kilni_index_places;
void kilni_check_indices(const kilni_run *run, uint32_t op);

/// What the files of the check share.
typedef struct kilni_check_input { ///< the bytes of an input that the block must leave as they are
    const kilni_place *place;
    uint32_t slot;
    int64_t begin; ///< in its buffer
    size_t bytes;
    unsigned char *raw;
} kilni_check_input;

struct kilni_check {
    const kilni_run *run;
    const kiln_env *env;
    uint32_t index;
    const kiln_plan_block *block;
    kiln_arena arena;
    kilni_check_input *inputs;
    size_t n_inputs;
    uint32_t *outputs; ///< slots of the results that live on
    size_t n_outputs;
    void **fused; ///< their elements
    kiln_replay *stream; ///< the block with its inputs
    bool failed; ///< the program could not be launched
    char text[232]; ///< what is wrong; empty: nothing so far
};

/// The block as a stream with the data at hand, tensors numbered as the segment's, from 1.
kiln_status kilni_check_make_stream(kilni_check *check, kiln_error *err);
/// Runs a stream on the device with the engine of `run`, whatever blocks come of it, between guard
/// words; gives true when a result is not what the reference says, or a guard word is gone.
bool kilni_check_stream(const kilni_run *run, const kiln_replay *replay);
/// Writes what is about to run into the knob `record`'s folder, unless its like was written before.
void kilni_record_file(const kilni_run *run);
/// The program is wrong as check->text says: the smallest stream that shows it goes to a file, the
/// engine and the log are told.
void kilni_check_report(kilni_check *check);

/// What runs beside the program that the user waits for leaves no trace in the device's figures.
typedef struct kilni_aside {
    kilni_fault *fault;
    kilni_allocator *allocator;
    uint64_t blocks_fused;
    uint64_t ops_fused;
    bool measuring;
    bool measured;
} kilni_aside;
kilni_aside kilni_aside_begin(kiln_device *device, kilni_guards *guards);
void kilni_aside_end(kiln_device *device, const kilni_aside *aside);

/// An input of a replay in memory of the device, as it lay when it was recorded.
kiln_status kilni_replay_place(kiln_device *device, const kiln_tensor_desc *desc,
                               const kiln_replay_input *input, kilni_place *place, kiln_error *err);

/// While a device has guards, what it allocates stands between words that nobody may write, and is
/// full of ones: a result that was not written is seen.
kilni_guards *kilni_guards_create(kiln_device *device);
void kilni_guards_destroy(kilni_guards *guards);
/// What allocates between guard words: an `allocator` of the device.
kilni_allocator *kilni_guards_allocator(kilni_guards *guards);
/// The first thing whose guard words were written, after a sync. False: none.
typedef struct kilni_guard_damage {
    const kilni_place *place;
    uint32_t number; ///< in the order of allocation
    bool before; ///< the bytes before it, not those behind it
    uint32_t distance_bytes; ///< of the nearest one
} kilni_guard_damage;
bool kilni_guards_damaged(kilni_guards *guards, kilni_guard_damage *out_damage);

// ---- attributes for the builders ----

static inline kiln_attr kilni_attr_none(void)
{
    return (kiln_attr){.type = KILN_ATTR_NONE};
}

static inline kiln_attr kilni_attr_i64(int64_t value)
{
    return (kiln_attr){.type = KILN_ATTR_I64, .count = 1, .v.i = value};
}

static inline kiln_attr kilni_attr_f64(double value)
{
    return (kiln_attr){.type = KILN_ATTR_F64, .count = 1, .v.f = value};
}

static inline kiln_attr kilni_attr_bool(bool value)
{
    return (kiln_attr){.type = KILN_ATTR_BOOL, .count = 1, .v.i = value};
}

static inline kiln_attr kilni_attr_dtype(kiln_dtype value)
{
    return (kiln_attr){.type = KILN_ATTR_DTYPE, .count = 1, .v.i = (int64_t)value};
}

static inline kiln_attr kilni_attr_ints(const int64_t *values, size_t count)
{
    return (kiln_attr){.type = KILN_ATTR_I64_LIST, .count = (uint32_t)count, .v.ints = values};
}

static inline kiln_attr kilni_attr_floats(const double *values, size_t count)
{
    return (kiln_attr){.type = KILN_ATTR_F64_LIST, .count = (uint32_t)count, .v.floats = values};
}

static inline kiln_attr kilni_attr_text(const char *text)
{
    if (text == NULL) {
        return (kiln_attr){.type = KILN_ATTR_NONE};
    }
    return (kiln_attr){.type = KILN_ATTR_STRING, .count = (uint32_t)strlen(text), .v.text = text};
}

static inline kiln_attr kilni_attr_number(kiln_number number)
{
    return number.is_integer ? kilni_attr_i64(number.v.i) : kilni_attr_f64(number.v.f);
}

/// Inputs before the first NULL. Optional inputs are at the end.
static inline size_t kilni_count_present(kiln_tensor *const *inputs, size_t count)
{
    while (count > 0 && inputs[count - 1] == NULL) {
        count--;
    }
    return count;
}

#endif
