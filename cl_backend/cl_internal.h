// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_INTERNAL_H
#define KILNI_CL_INTERNAL_H

/// What the files of cl_backend share. A backend is one device with one context and one in-order
/// queue; its caller lets one thread in at a time (ir.h), so only cl_ahead.c locks. Kernels reach
/// the device through four steps: kilni_cl_kernel_get, kilni_cl_args_begin, kilni_cl_push_*,
/// kilni_cl_enqueue.

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <pthread.h>
#include <stdatomic.h>

#include "cl_backend.h"

// ---- memory (cl_pool.c) ----

typedef struct kilni_cl_slab { ///< shared virtual memory that small buffers are pieces of
    void *svm;
    size_t filled; ///< bytes that were made pieces
    uint32_t pieces; ///< not destroyed
    uint32_t in_use; ///< pieces that are given out
} kilni_cl_slab;

typedef struct kilni_cl_buffer { ///< what a kiln_buffer is here
    cl_mem mem;
    size_t bytes; ///< asked for
    size_t capacity; ///< of `mem`
    uint32_t size_class;
    bool window; ///< part of another buffer: in no account
    bool lent; ///< a window that an operation uses as its temporary
    void *svm; ///< what `mem` is made over, when windows need that
    kilni_cl_slab *slab; ///< what it is a piece of
    unsigned char *address; ///< on the device; NULL: not known
    void *shared; ///< the allocation that `address` lies in
    struct kilni_cl_buffer *next; ///< in its free list
} kilni_cl_buffer;

static inline kilni_cl_buffer *kilni_cl_buffer_of(kiln_buffer *buffer)
{
    return (kilni_cl_buffer *)(void *)buffer;
}

enum { KILNI_CL_CLASSES = 16 * 48 }; ///< sixteen for each power of two, from 256 bytes

/// What windows of a buffer are (cl_svm.c).
typedef enum kilni_cl_windows {
    KILNI_CL_SUB_BUFFERS,
    KILNI_CL_SVM_UNPROVEN, ///< shared virtual memory, of which nothing was tried yet
    KILNI_CL_SVM,
    KILNI_CL_NO_WINDOWS
} kilni_cl_windows;

typedef struct kilni_cl_pool {
    kilni_cl_buffer *idle[KILNI_CL_CLASSES];
    kilni_cl_slab *slab; ///< that new pieces are cut from
    kilni_cl_buffer *stranded; ///< freed while a kernel that does not end may use them
    uint64_t budget; ///< bytes that the pool may hold, used or not
    bool exact; ///< buffers as long as asked for, none kept: for tests with a memory checker
    uint64_t idle_bytes;
    uint64_t held_bytes; ///< used and idle
    uint64_t hits;
    uint64_t creates;
} kilni_cl_pool;

enum { KILNI_CL_ASKED = 32 };

/// Temporaries of the operation that is executed: how long they are, and what it was lent for them.
typedef struct kilni_cl_loan {
    bool executing;
    kiln_buffer *const *given; ///< borrowed until the operation is executed
    uint32_t n_given;
    uint32_t n_asked;
    uint64_t asked[KILNI_CL_ASKED];
} kilni_cl_loan;

// ---- programs and kernels (cl_program.c, cl_program_cache.c) ----

typedef struct kilni_cl_program kilni_cl_program;

enum { KILNI_CL_SHAPES = 8 };

typedef struct kilni_cl_kernel { ///< owned by its program; a built-in one is valid until the
                                 ///< backend closes
    cl_kernel kernel;
    kilni_cl_program *program;
    char *name;
    struct kilni_cl_kernel *next; ///< of the same program
    size_t required_local[3]; ///< reqd_work_group_size; 0: none
    cl_uint n_args;
    uint32_t n_shapes;
    uint64_t shapes[KILNI_CL_SHAPES]; ///< launch shapes seen, as PoCL compiles them apart
} kilni_cl_kernel;

/// A built-in kernel: `file` is an embedded source such as "elementwise.cl", `defines` compiler
/// options such as "-DKILN_T=float -DKILN_OP=add" ("" for none). Equal file and defines share one
/// program, so a file with several kernels compiles once. Before every built-in file stands
/// "prelude.cl", and before that FP_CONTRACT OFF (unless -DKILN_CONTRACT=1 is among the defines)
/// and fp64/fp16 enabled where the device has them.
typedef struct kilni_cl_kernel_key {
    const char *file;
    const char *defines;
    const char *kernel;
} kilni_cl_kernel_key;

typedef struct kilni_cl_source { ///< one embedded file; the table ends with a NULL name
    const char *name;
    const char *text;
    size_t length;
} kilni_cl_source;

extern const kilni_cl_source kilni_cl_sources[]; ///< written by the build from kernels/*.cl

typedef struct kilni_cl_kernel_slot { ///< from the three texts of a key to a kernel
    uint64_t hash;
    kilni_cl_kernel *kernel; ///< NULL: free
    char *texts; ///< file, defines and kernel, each terminated
    size_t length;
} kilni_cl_kernel_slot;

typedef struct kilni_cl_programs { ///< the programs and kernels that a backend has made ready
    kilni_cl_program *list; ///< most recently used first
    uint32_t count;
    kilni_cl_kernel_slot *slots; ///< built-in kernels, open addressing
    uint32_t capacity;
    uint32_t used;
    uint32_t dirty; ///< programs whose binaries the store lacks
    uint64_t last_dirty_ns;
} kilni_cl_programs;

// ---- programs that are loaded before they are asked for (cl_ahead.c) ----

enum { KILNI_CL_FIRST = 64, KILNI_CL_AHEAD_KEYS = 2 };

typedef struct kilni_cl_wish { ///< a program as a process asked for it
    kiln_hash128 key;
    char *options;
} kilni_cl_wish;

typedef struct kilni_cl_ahead kilni_cl_ahead;

// ---- transfers (cl_transfer.c) ----

enum {
    KILNI_CL_STAGES = 4,
    KILNI_CL_STAGE_SHARED = 256 * 1024, ///< per stage, where memory is the host's own
    KILNI_CL_STAGE_PINNED = 8 * 1024 * 1024 ///< 4 to 16 MiB reach the link's speed
};

typedef struct kilni_cl_stage { ///< one piece of host memory through which bytes travel
    cl_mem mem; ///< pinned memory; NULL where the host's own does
    unsigned char *host;
    size_t used;
    cl_event busy; ///< the last transfer that uses it
} kilni_cl_stage;

typedef struct kilni_cl_transfer {
    kilni_cl_stage stages[KILNI_CL_STAGES];
    size_t stage_bytes;
    uint32_t current;
    bool pinned;
} kilni_cl_transfer;

/// Large reads of a discrete device: a queue of their own, so that they neither wait for work that
/// was queued later nor hold up whoever queues more.
typedef struct kilni_cl_reader {
    pthread_mutex_t lock; ///< one read at a time; everything here
    cl_command_queue queue; ///< made at the first
    cl_mem mem[2]; ///< pinned
    unsigned char *host[2];
} kilni_cl_reader;

typedef struct kilni_cl_pinned { ///< host memory given out by host_alloc
    cl_mem mem;
    void *host;
    size_t bytes;
    struct kilni_cl_pinned *next;
} kilni_cl_pinned;

// ---- traces (cl_trace.c) ----

enum { KILNI_CL_MOST_SPANS = 1 << 20 };

typedef struct kilni_cl_noted kilni_cl_noted;

typedef struct kilni_cl_trace {
    bool on;
    uint64_t tag; ///< of commands from now on
    int64_t host_minus_device; ///< clocks, in ns
    kilni_cl_noted *noted; ///< commands that may still run
    size_t n_noted;
    size_t noted_capacity;
    kiln_device_span *spans; ///< those that are over
    size_t n_spans;
    size_t spans_capacity;
    size_t most_spans; ///< until somebody takes them: a forgotten trace ends somewhere
    uint64_t n_lost; ///< there was no room for them
} kilni_cl_trace;

// ---- the backend ----

enum {
    KILNI_CL_FLUSH = 32, ///< commands between two flushes
    KILNI_CL_WINDOW =
        512 ///< commands between two marks of the queue; at most three windows are in flight
};

typedef struct kilni_cl_backend {
    kiln_backend base; ///< first
    const kiln_env *env;
    cl_platform_id platform;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_command_queue timing_queue; ///< with profiling, made at the first timing
    kiln_device_info info;
    kiln_backend_stats stats;
    kilni_cl_pool pool;
    kilni_cl_loan loan;
    kilni_cl_programs programs;
    kilni_cl_ahead *ahead; ///< NULL: nothing is loaded ahead
    kilni_cl_wish wishes[KILNI_CL_FIRST]; ///< what was asked for first, for the next process
    uint32_t n_wishes;
    kilni_cl_transfer transfer;
    kilni_cl_reader reader;
    kilni_cl_trace trace;
    kilni_cl_pinned *pinned;
    kiln_store *store; ///< NULL when the cache is off
    const char *exact_options; ///< compiler options for strict arithmetic, with a space at the end
    bool pocl; ///< compiles for each local size at the first enqueue
    bool compiles; ///< source; else only what is stored
    bool compiled; ///< some source, well or not: it does have a compiler
    bool doubted; ///< it has none, as a process before noted
    bool blas_used;
    bool foreign_queue; ///< the program's own
    atomic_int gate_failed; ///< status that a gate was signalled with
    atomic_uint callbacks; ///< asked for and not yet over
    atomic_uint gates; ///< in the queue, and closed
    kilni_cl_windows windows;
    bool lost; ///< DEVICE_LOST until reopened
    cl_event tail; ///< of a queue that was given up: whether it has come back; NULL: it was not
    char lost_why[200]; ///< of that queue
    kiln_cl_counters counters;
    uint32_t since_mark;
    cl_event marks[2];
} kilni_cl_backend;

static inline kilni_cl_backend *kilni_cl_backend_of(kiln_backend *backend)
{
    return (kilni_cl_backend *)(void *)backend;
}

/// Finds or builds a built-in kernel. A hit costs a hash of the three texts. The same object is
/// given to everybody: set all arguments before each enqueue. Ownership: borrowed. Lifetime: until
/// the backend closes. Thread: the caller's lock. Errors: BUILD_FAILED with the compiler's log,
/// NOT_FOUND for an unknown file or kernel, RESOURCE_EXHAUSTED.
KILN_NODISCARD kiln_status kilni_cl_kernel_get(kilni_cl_backend *backend,
                                               const kilni_cl_kernel_key *key,
                                               kilni_cl_kernel **out_kernel, kiln_error *err);

/// Arguments in order; the first error sticks and is returned by kilni_cl_enqueue.
typedef struct kilni_cl_args {
    kilni_cl_backend *backend;
    kilni_cl_kernel *kernel;
    cl_uint index;
    cl_int code;
} kilni_cl_args;

kilni_cl_args kilni_cl_args_begin(kilni_cl_backend *backend, kilni_cl_kernel *kernel);
void kilni_cl_push_buffer(kilni_cl_args *args, kiln_buffer *buffer); ///< NULL passes a null pointer
void kilni_cl_push_bytes(kilni_cl_args *args, const void *value, size_t bytes); ///< also structs
void kilni_cl_push_i32(kilni_cl_args *args, int32_t value);
void kilni_cl_push_u32(kilni_cl_args *args, uint32_t value);
void kilni_cl_push_i64(kilni_cl_args *args, int64_t value);
void kilni_cl_push_f32(kilni_cl_args *args, float value);
void kilni_cl_push_local(kilni_cl_args *args, size_t bytes);

/// Queues the kernel. `local` NULL lets the driver choose: on PoCL each local size is compiled
/// apart, so name one, always the same, and round `global` up to it. Nothing waits. A global size
/// of 0 is no launch. Ownership: borrowed. Lifetime: n/a. Thread: the caller's lock. Errors: those
/// of the arguments, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, DEVICE_LOST.
KILN_NODISCARD kiln_status kilni_cl_enqueue(kilni_cl_args *args, cl_uint dims, const size_t *global,
                                            const size_t *local, kiln_error *err);

/// Memory from the pool; scratch for one kernel is freed right after its enqueue, the queue being
/// in order. Ownership: the caller's, back through free. Lifetime: until freed. Thread: the
/// caller's lock. Errors: RESOURCE_EXHAUSTED with the sizes, INVALID_ARGUMENT above the device's
/// largest allocation.
KILN_NODISCARD kiln_status kilni_cl_alloc(kilni_cl_backend *backend, size_t bytes,
                                          kiln_buffer **out_buffer, kiln_error *err);
void kilni_cl_free(kilni_cl_backend *backend, kiln_buffer *buffer);
/// Memory of exactly this size that does not come from the pool, nor goes to it.
KILN_NODISCARD kiln_status kilni_cl_alloc_persistent(kilni_cl_backend *backend, size_t bytes,
                                                     kiln_buffer **out_buffer, kiln_error *err);
/// As the backend's table says.
KILN_NODISCARD kiln_status kilni_cl_alloc_arena(kiln_backend *backend, size_t bytes,
                                                kiln_buffer **out_buffer, kiln_error *err);
KILN_NODISCARD kiln_status kilni_cl_window(kiln_backend *backend, kiln_buffer *parent,
                                           size_t offset, size_t bytes, kiln_buffer **out_buffer,
                                           kiln_error *err);
/// A buffer of OpenCL's over `memory`, shared virtual memory.
cl_mem kilni_cl_mem_over(kilni_cl_backend *backend, void *memory, size_t bytes, cl_int *code);
/// Sets `windows` for the device that was opened.
void kilni_cl_windows_init(kilni_cl_backend *backend);
/// `mem`, and `svm` where windows need it, of an arena of `capacity` bytes; a code of OpenCL's.
cl_int kilni_cl_arena_create(kilni_cl_backend *backend, kilni_cl_buffer *buffer);
/// Frees it when what is queued now has run.
void kilni_cl_svm_free(kilni_cl_backend *backend, void *svm);
/// Whether memory may be shared virtual memory with windows; asks the device the first time.
bool kilni_cl_shares(kilni_cl_backend *backend);
/// Makes `mem` of a small buffer a piece of a slab; false: it is none, and has to be on its own.
bool kilni_cl_slab_cut(kilni_cl_backend *backend, kilni_cl_buffer *buffer);
/// After `mem` was released.
void kilni_cl_slab_leave(kilni_cl_backend *backend, kilni_cl_slab *slab);
void kilni_cl_lend(kiln_backend *backend, kiln_buffer *const *buffers, uint32_t count);
uint32_t kilni_cl_asked(kiln_backend *backend, const uint64_t **out_bytes);
void kilni_cl_set_budget(kiln_backend *backend, uint64_t bytes);
void kilni_cl_reset_peaks(kiln_backend *backend);
/// A buffer around memory that somebody else has made; takes over one hold of `mem` on success.
KILN_NODISCARD kiln_status kilni_cl_buffer_adopt(kilni_cl_backend *backend, cl_mem mem,
                                                 size_t bytes, kiln_buffer **out_buffer,
                                                 kiln_error *err);

/// Runs any operator with Kiln's own kernels, matmul of every dtype included (exec_*.c).
/// Ownership: all borrowed. Lifetime: n/a. Thread: the caller's lock.
/// Errors: UNIMPLEMENTED naming operator and dtype, and those of the helpers above.
bool kilni_cl_has_kernel(kiln_op op);
/// Whether the kernel that there is beats the operator's decomposition.
bool kilni_cl_kernel_pays(const kilni_cl_backend *backend, const kiln_op_record *record);
KILN_NODISCARD kiln_status kilni_cl_execute_own(kilni_cl_backend *backend,
                                                const kiln_op_record *record,
                                                const kiln_view *inputs, const kiln_view *outputs,
                                                kiln_error *err);

/// One matrix product on the BLAS library: c[m,n] = a[m,k] b[k,n], row-major, `batch` times with
/// strides (in elements) from one to the next. A transposed operand is stored [k,m] or [n,k];
/// offsets and leading dimensions are in elements. `kilni_cl_blas_takes` says whether it may be
/// called: f32 or f64 with the device's support, a compiler, no length of 0. Ownership: borrowed.
/// Lifetime: n/a. Thread: the caller's lock. Errors: what the library's status says.
typedef struct kilni_cl_operand {
    kiln_buffer *buffer;
    int64_t offset;
    int64_t leading;
    int64_t batch_stride; ///< 0: the same for all
    bool transposed;
} kilni_cl_operand;

typedef struct kilni_cl_gemm {
    kiln_dtype dtype;
    int64_t m;
    int64_t n;
    int64_t k;
    int64_t batch;
    kilni_cl_operand a;
    kilni_cl_operand b;
    kilni_cl_operand c; ///< never transposed, batch_stride at least m * leading
} kilni_cl_gemm;

bool kilni_cl_blas_takes(const kilni_cl_backend *backend, const kilni_cl_gemm *gemm);
KILN_NODISCARD kiln_status kilni_cl_blas_gemm(kilni_cl_backend *backend, const kilni_cl_gemm *gemm,
                                              kiln_error *err);

/// The matmul operator on the BLAS library. Sets `*out_done` false when it is not for BLAS.
/// Ownership: borrowed. Lifetime: n/a. Thread: the caller's lock. Errors: those of gemm and of
/// copying.
KILN_NODISCARD kiln_status kilni_cl_blas_matmul(kilni_cl_backend *backend,
                                                const kiln_op_record *record,
                                                const kiln_view *inputs, const kiln_view *outputs,
                                                bool *out_done, kiln_error *err);
void kilni_cl_blas_close(kilni_cl_backend *backend);

// ---- for the files of this folder other than kernels ----

/// Name of a CL error code, such as "CL_OUT_OF_RESOURCES".
const char *kilni_cl_code_name(cl_int code);
bool kilni_cl_is_memory_code(cl_int code); ///< worth another try after a trim

/// Status for a CL error code, with "text: CL_NAME (number)" in `err`. Marks the backend (which may
/// be NULL) lost where the code says so; `_wait` is for codes that a wait gave, where more of them
/// say so.
kiln_status kilni_cl_fail_at(kilni_cl_backend *backend, kiln_error *err, bool waited, cl_int code,
                             const char *file, int line, const char *format, ...) KILN_PRINTF(7, 8);
#define kilni_cl_fail(backend, err, code, ...)                                                     \
    kilni_cl_fail_at((backend), (err), false, (code), KILN_FILE_NAME, __LINE__, __VA_ARGS__)
#define kilni_cl_fail_wait(backend, err, code, ...)                                                \
    kilni_cl_fail_at((backend), (err), true, (code), KILN_FILE_NAME, __LINE__, __VA_ARGS__)

// cl_queue.c

/// The table's `abandon`; and whether the queue that it was for is still at work.
void kilni_cl_abandon(kiln_backend *base, const char *why);
bool kilni_cl_is_stuck(const kilni_cl_backend *backend);
/// OK, or DEVICE_LOST when the device was lost before.
kiln_status kilni_cl_usable(const kilni_cl_backend *backend, kiln_error *err);

/// Waits for the queue and reports what failed since the last wait.
kiln_status kilni_cl_drain(kilni_cl_backend *backend, kiln_error *err);

/// The failure that a gate was signalled with, once; OK when there was none.
kiln_status kilni_cl_take_failure(kilni_cl_backend *backend, kiln_error *err);

/// Counts one enqueued command; flushes and bounds what is in flight.
kiln_status kilni_cl_queued(kilni_cl_backend *backend, kiln_error *err);

/// Queues on a given queue, with an optional event; the rest as kilni_cl_enqueue.
kiln_status kilni_cl_enqueue_on(kilni_cl_args *args, cl_command_queue queue, cl_uint dims,
                                const size_t *global, const size_t *local, cl_event *out_event,
                                kiln_error *err);
void kilni_cl_queue_close(kilni_cl_backend *backend);

// cl_workers.c
/// Before the first OpenCL call of the process: PoCL's workers are to be bound to processors, one
/// to each. Does nothing where POCL_AFFINITY is set, where the process may not use the whole
/// machine, and when called again. It changes the environment.
void kilni_cl_bind_workers(void);

// cl_device.c
kiln_status kilni_cl_device_find(const kiln_env *env, const char *address,
                                 cl_platform_id *out_platform, cl_device_id *out_device,
                                 kiln_error *err);
kiln_status kilni_cl_device_describe(const kiln_env *env, size_t index, char out_address[64],
                                     char out_line[192], kiln_error *err, void *user);
kiln_status kilni_cl_device_type_of(const kiln_env *env, size_t index, kiln_device_type *out_type,
                                    kiln_error *err, void *user);
kiln_status kilni_cl_device_info_read(kilni_cl_backend *backend, kiln_error *err);
void kilni_cl_device_info_free(kilni_cl_backend *backend);
/// What kiln_cl_measure stored, or measures where that is wanted.
void kilni_cl_device_calibrate(kilni_cl_backend *backend);
/// Where the store keeps a fact of this device. Ownership: a value. Lifetime: n/a. Thread: any.
/// Errors: none.
kiln_hash128 kilni_cl_device_key(const kilni_cl_backend *backend, const char *what);

// cl_pool.c
void kilni_cl_pool_init(kilni_cl_backend *backend);
void kilni_cl_pool_trim(kilni_cl_backend *backend);

// cl_program.c
typedef struct kilni_cl_build { ///< what a program is made from
    kiln_source_format format;
    const void *code;
    size_t length;
    const char *options; ///< all of them, for the compiler and for the key
    const char *label; ///< for people
    bool once; ///< what the next process does not ask for: not loaded ahead of time
} kilni_cl_build;

typedef struct kilni_cl_shape { ///< a way in which a kernel was launched, on drivers that compile
                                ///< it apart
    uint64_t kernel;
    uint64_t shape;
} kilni_cl_shape;

struct kilni_cl_program {
    kilni_cl_program *next; ///< in the list of the backend
    kiln_hash128 key;
    cl_program program;
    char *label;
    kilni_cl_kernel *kernels;
    kilni_cl_shape *shapes; ///< compiled in `program`, or in the stored binary
    uint32_t n_shapes;
    uint32_t shape_capacity;
    uint32_t users; ///< built-in kernels count as one for ever
    bool storable;
    bool dirty;
};

// ---- the compiler (cl_compiler.c) ----

/// Sets `compiles` and the features that follow, from the device and the knob `compiler`.
kiln_status kilni_cl_compiler_init(kilni_cl_backend *backend, kiln_error *err);
bool kilni_cl_compiler_refuses(cl_int code);
/// The device has refused: it has no compiler from now on, and the next process asks it first.
void kilni_cl_compiler_gone(kilni_cl_backend *backend);
/// Asks a device that refused in a process before, once the store is open.
void kilni_cl_compiler_recall(kilni_cl_backend *backend);
bool kilni_cl_compiles(kiln_backend *base, bool ask);
/// UNIMPLEMENTED, with what is missing and how to make it.
kiln_status kilni_cl_compiler_missing(const kilni_cl_backend *backend, const char *label,
                                      kiln_error *err);

kiln_status kilni_cl_program_get(kilni_cl_backend *backend, const kilni_cl_build *build,
                                 kilni_cl_program **out_program, kiln_error *err);
void kilni_cl_program_release(kilni_cl_backend *backend, kilni_cl_program *program);
kiln_status kilni_cl_program_kernel(kilni_cl_backend *backend, kilni_cl_program *program,
                                    const char *name, kilni_cl_kernel **out_kernel,
                                    kiln_error *err);
void kilni_cl_programs_close(kilni_cl_backend *backend);

enum { KILNI_CL_STORED_SHAPES = 64 }; ///< of a program, at most

typedef struct kilni_cl_entry { ///< of the store, borrowed from its bytes
    const unsigned char *shapes; ///< `n_shapes` kilni_cl_shape, unaligned
    uint64_t n_shapes;
    kiln_blob binary;
} kilni_cl_entry;

// cl_program_cache.c
/// False for a damaged entry. And the program of a binary, NULL when the driver refuses it: any
/// thread may call.
bool kilni_cl_entry_parse(const kiln_blob *entry, kilni_cl_entry *out_entry);
cl_program kilni_cl_binary_load(cl_context context, cl_device_id device, const kiln_blob *binary,
                                const char *options);
/// The entry of a program as it is now; false where the driver gives no binary. The caller's
/// (kiln_free).
bool kilni_cl_entry_make(kilni_cl_backend *backend, const kilni_cl_program *program,
                         kiln_blob *out_entry);
/// The device's binary of a program; `*out_bytes` is the caller's (kiln_free).
kiln_status kilni_cl_program_binary(kilni_cl_backend *backend, const kilni_cl_program *program,
                                    void **out_bytes, size_t *out_length, kiln_error *err);
kiln_hash128 kilni_cl_build_key(const kilni_cl_backend *backend, const kilni_cl_build *build);
/// Whether kilni_cl_program_get would find a program that needs no compiler, in memory or stored.
bool kilni_cl_program_known(kilni_cl_backend *backend, const kilni_cl_build *build);
bool kilni_cl_program_load(kilni_cl_backend *backend, const kilni_cl_build *build,
                           kilni_cl_program *program);
void kilni_cl_program_compiled(kilni_cl_backend *backend, kilni_cl_program *program);
void kilni_cl_program_ran(kilni_cl_backend *backend, kilni_cl_kernel *kernel, cl_uint dims,
                          const size_t *global, const size_t *local);
void kilni_cl_programs_save(kilni_cl_backend *backend);
void kilni_cl_programs_quiet(kilni_cl_backend *backend); ///< saves when no build was near

// cl_packed.c: launches with many buffers
/// Writes, behind a source of a program, kernels that take all arguments as one value.
void kilni_cl_packed_text(kilni_cl_backend *backend, const kiln_program *program, uint32_t source,
                          kiln_string *text);
/// The name of the kernel that launch `index` is packed for, in `name`; false: it is not.
bool kilni_cl_packed_name(kilni_cl_backend *backend, const kiln_program *program, uint32_t index,
                          kiln_string *name);
/// Sets the arguments of a kernel of packed_text. False: the driver has to be told each buffer.
bool kilni_cl_packed_args(kilni_cl_backend *backend, kilni_cl_kernel *packed,
                          const kiln_launch *launch, kilni_cl_args *out_args);

// cl_ahead.c
/// Before the driver is loaded: a thread opens the store of `folder` and reads what the last
/// process like this one began with. Then the backend takes the store, `go` lets the thread load
/// programs, and `stop` ends it. Without a thread all of these do nothing, and `store` gives false.
void kilni_cl_ahead_begin(kilni_cl_backend *backend, const char *address, const char *folder);
bool kilni_cl_ahead_store(kilni_cl_backend *backend, kiln_status *out_status, kiln_error *err);
void kilni_cl_ahead_go(kilni_cl_backend *backend);
void kilni_cl_ahead_stop(kilni_cl_backend *backend);
/// The entry of a program and, when the thread came that far, the program; the caller's. False: it
/// is not among what was read; then nothing more is loaded ahead, as this process does other
/// things.
bool kilni_cl_ahead_take(kilni_cl_backend *backend, kiln_hash128 key, kiln_blob *out_entry,
                         cl_program *out_program);
/// Remembers that a program was asked for; and writes it down for the next process, when it would
/// not have known.
void kilni_cl_ahead_wish(kilni_cl_backend *backend, kiln_hash128 key, const char *options);
void kilni_cl_ahead_save(kilni_cl_backend *backend);
void kilni_cl_ahead_close(kilni_cl_backend *backend);
/// For tests: programs that wait to be asked for; and where the list of this process is stored.
uint32_t kilni_cl_ahead_ready(kilni_cl_backend *backend);
void kilni_cl_ahead_keys(const char *address, kiln_hash128 out_keys[KILNI_CL_AHEAD_KEYS]);

// cl_touch.c
enum { KILNI_CL_TOUCH_PARTS = 16 };
typedef struct kilni_cl_touch {
    size_t libraries; ///< in the process at the last look; only later ones count
    size_t least_bytes; ///< of a part that is worth it
    uint32_t n_parts; ///< found and not yet touched
    struct {
        uintptr_t begin;
        size_t bytes;
    } parts[KILNI_CL_TOUCH_PARTS];
    size_t bytes; ///< touched
} kilni_cl_touch;
/// Looks for libraries that came since the last look. When there are none, brings the pages of
/// those before into memory that the loader is about to write. Thread: any.
void kilni_cl_touch_libraries(kilni_cl_touch *touch);

// cl_kernel.c: built-in kernels, cl_built.c: programs of fusers
void kilni_cl_kernels_close(kilni_cl_backend *backend);
kiln_status kilni_cl_built_ready(kiln_backend *backend, const kiln_program *program,
                                 kiln_error *err);
kiln_status kilni_cl_built_parts(kiln_backend *backend, const kiln_program *program,
                                 kiln_program_part_fn take, void *user, kiln_error *err);
kiln_status kilni_cl_built_create(kiln_backend *backend, const kiln_program *program,
                                  kiln_built **out_built, kiln_error *err);
void kilni_cl_built_free(kiln_backend *backend, kiln_built *built);
kiln_status kilni_cl_built_launch(kiln_backend *backend, kiln_built *built,
                                  const kiln_launch *launch, kiln_error *err);
kiln_status kilni_cl_built_time(kiln_backend *backend, kiln_built *built, const kiln_launch *launch,
                                uint64_t *out_ns, kiln_error *err);

// cl_transfer.c
kiln_status kilni_cl_upload(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                            const void *source, size_t bytes, kiln_error *err);
kiln_status kilni_cl_copy(kiln_backend *backend, kiln_buffer *source, size_t source_offset,
                          kiln_buffer *target, size_t target_offset, size_t bytes, kiln_error *err);
void kilni_cl_transfer_close(kilni_cl_backend *backend);
kiln_status kilni_cl_check_range(const kilni_cl_buffer *buffer, size_t offset, size_t bytes,
                                 kiln_error *err);
void kilni_cl_copy_wide(void *target, const void *source, size_t bytes); ///< by several threads

// cl_read.c
kiln_status kilni_cl_read_begin(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                                void *out_data, size_t bytes, kiln_pending **out_pending,
                                kiln_error *err);
bool kilni_cl_read_poll(kiln_pending *pending);
void kilni_cl_read_wait(kiln_pending *pending, bool cancel);
kiln_status kilni_cl_read_end(kiln_backend *backend, kiln_pending *pending, kiln_error *err);
kiln_status kilni_cl_map_shared(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                                size_t bytes, const void **out_data, kiln_error *err);
void kilni_cl_unmap_shared(kiln_backend *backend, kiln_buffer *buffer, const void *data);
void kilni_cl_reader_close(kilni_cl_backend *backend);

// cl_interop.c
kiln_status kilni_cl_take_queue(kilni_cl_backend *backend, void *context, void *queue,
                                kiln_error *err);

// cl_host.c
bool kilni_cl_is_pinned(const kilni_cl_backend *backend, const void *memory, size_t bytes);
kiln_status kilni_cl_host_alloc(kiln_backend *backend, size_t bytes, void **out_memory,
                                kiln_error *err);
void kilni_cl_host_free(kiln_backend *backend, void *memory);
kiln_status kilni_cl_wrap_host(kiln_backend *backend, void *memory, size_t bytes,
                               void (*release)(void *user), void *user, kiln_buffer **out_buffer,
                               kiln_error *err);
void kilni_cl_host_close(kilni_cl_backend *backend);

/// A command's event, whose hold goes to the trace; only while one is on. `trace_event` gives what
/// to pass to an enqueue: NULL when none is. Ownership: the name is copied. Lifetime: n/a.
/// Thread: the caller's lock. Errors: what cannot be kept is left out.
void kilni_cl_trace_note(kilni_cl_backend *backend, const char *name, cl_event event);
static inline cl_event *kilni_cl_trace_event(const kilni_cl_backend *backend, cl_event *event)
{
    *event = NULL;
    return backend->trace.on ? event : NULL;
}
static inline void kilni_cl_trace_end(kilni_cl_backend *backend, const char *name, cl_event event)
{
    if (event != NULL) {
        kilni_cl_trace_note(backend, name, event);
    }
}
KILN_NODISCARD kiln_status kilni_cl_trace_set(kiln_backend *base, bool on, kiln_error *err);
void kilni_cl_trace_tag(kiln_backend *base, uint64_t tag);
KILN_NODISCARD kiln_status kilni_cl_trace_take(kiln_backend *base,
                                               void (*take)(const kiln_device_span *span,
                                                            void *user),
                                               void *user, uint64_t *out_lost, kiln_error *err);
void kilni_cl_trace_close(kilni_cl_backend *backend);

#endif
