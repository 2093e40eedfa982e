// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_BACKEND_H
#define KILN_IR_BACKEND_H

/// The backend interface: for those who implement or decorate a backend. Users of Kiln do not need
/// it.
///
/// Any thread may call the functions below the tables; providers are static.

#include "ir_device.h"
#include "ir_program.h"
#include "ir_queue.h"
#include "ir_view.h"
#include "ir_view_apply.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_launch_arg { ///< a kernel argument with its value
    enum { KILN_VALUE_BUFFER = 1, KILN_VALUE_BYTES = 2, KILN_VALUE_LOCAL = 3 } kind;
    uint32_t length; ///< BYTES: 1 to 8
    kiln_buffer *buffer;
    uint64_t bytes; ///< BYTES: the value, in memory order; LOCAL: how many
} kiln_launch_arg;

typedef struct kiln_launch {
    uint32_t launch; ///< index in the program
    uint32_t n_dims;
    size_t global[3];
    size_t local[3]; ///< local[0] == 0: the driver chooses
    const kiln_launch_arg *args;
    uint32_t n_args;
} kiln_launch;

/// Bytes that one device offers to another of its kind, which fetches them itself.
typedef struct kiln_transfer {
    uint64_t id; ///< unique
    uint64_t bytes;
    uint8_t secret[32];
    char address[320]; ///< where to fetch them
} kiln_transfer;

/// When a command was on the device, in the clock of kiln_time_ns.
typedef struct kiln_device_span {
    uint64_t tag; ///< that stood when it was queued
    uint64_t queued_ns;
    uint64_t submit_ns;
    uint64_t start_ns;
    uint64_t end_ns;
    char name[64]; ///< kernel, or kind of transfer
} kiln_device_span;

typedef struct kiln_pending kiln_pending; ///< a read on its way; each backend defines its own
typedef struct kiln_built kiln_built; ///< a program made ready; each backend defines its own

/// A device behind a table of functions. All calls may come from any thread, one at a time for each
/// device (the caller's lock); all work is in order, as on one queue, so memory that is freed may
/// be given out again at once. Only `read` and `sync` wait. A failure of queued work is reported by
/// the next `read` or `sync`.
typedef struct kiln_backend_ops {
    uint32_t struct_size;
    const char *scheme;
    void (*close)(kiln_backend *backend);
    const kiln_device_info *(*info)(kiln_backend *backend);
    uint32_t (*dtype_usage)(kiln_backend *backend, kiln_dtype dtype); ///< KILN_USAGE_*
    void (*stats)(kiln_backend *backend, kiln_backend_stats *out_stats);
    kiln_status (*alloc)(kiln_backend *backend, size_t bytes, kiln_buffer **out_buffer,
                         kiln_error *err);
    void (*free)(kiln_backend *backend, kiln_buffer *buffer);
    void (*trim)(kiln_backend *backend); ///< gives pooled memory back to the device
    kiln_status (*upload)(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                          const void *source, size_t bytes, kiln_error *err);
    kiln_status (*read)(kiln_backend *backend, kiln_buffer *buffer, size_t offset, void *out_data,
                        size_t bytes, kiln_error *err);
    kiln_status (*copy)(kiln_backend *backend, kiln_buffer *source, size_t source_offset,
                        kiln_buffer *target, size_t target_offset, size_t bytes, kiln_error *err);
    /// Runs one operation on views; outputs have memory, dense. Of class ELEMENTWISE an output may
    /// be an input of equal shape and dtype that is dense too; other classes get memory of their
    /// own.
    kiln_status (*execute)(kiln_backend *backend, const kiln_op_record *record,
                           const kiln_view *inputs, const kiln_view *outputs, kiln_error *err);
    /// Whether `execute` runs this operation itself; a composite for which it does not is expanded.
    /// NULL: always.
    bool (*runs)(kiln_backend *backend, const kiln_op_record *record);
    kiln_status (*flush)(kiln_backend *backend, kiln_error *err);
    kiln_status (*sync)(kiln_backend *backend, kiln_error *err);
    // Optional from here: NULL where the backend has nothing better than the calls above.
    /// As alloc, of the exact size and beside the pool, for what lives long.
    kiln_status (*alloc_persistent)(kiln_backend *backend, size_t bytes, kiln_buffer **out_buffer,
                                    kiln_error *err);
    /// Host memory that travels without another copy; freed by host_free.
    kiln_status (*host_alloc)(kiln_backend *backend, size_t bytes, void **out_memory,
                              kiln_error *err);
    void (*host_free)(kiln_backend *backend, void *memory);
    /// A buffer in the caller's memory. `release` is called once when nothing uses it any more, on
    /// any thread, and must not call the backend. UNIMPLEMENTED: it has to be copied.
    kiln_status (*wrap_host)(kiln_backend *backend, void *memory, size_t bytes,
                             void (*release)(void *user), void *user, kiln_buffer **out_buffer,
                             kiln_error *err);
    /// The bytes of a buffer where they lie, for reading, without waiting for work queued after
    /// the last wait. UNIMPLEMENTED: they have to be copied.
    kiln_status (*map)(kiln_backend *backend, kiln_buffer *buffer, size_t offset, size_t bytes,
                       const void **out_data, kiln_error *err);
    void (*unmap)(kiln_backend *backend, kiln_buffer *buffer, const void *data);
    /// A read in four parts: `begin` takes its place in the order of the queue; `poll` (whether
    /// `wait` would return soon) and `wait` need no lock of the caller's; `end` gives the result
    /// and frees it. With `cancel`, wait only sees to it that `out_data` is not written any more.
    /// No bytes: a wait for everything queued before.
    kiln_status (*read_begin)(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                              void *out_data, size_t bytes, kiln_pending **out_pending,
                              kiln_error *err);
    bool (*read_poll)(kiln_pending *pending);
    void (*read_wait)(kiln_pending *pending, bool cancel);
    kiln_status (*read_end)(kiln_backend *backend, kiln_pending *pending, kiln_error *err);
    // Optional: NULL when the backend takes no programs.
    kiln_status (*program_build)(kiln_backend *backend, const kiln_program *program,
                                 kiln_built **out_built, kiln_error *err);
    void (*program_free)(kiln_backend *backend, kiln_built *built);
    kiln_status (*program_launch)(kiln_backend *backend, kiln_built *built,
                                  const kiln_launch *launch, kiln_error *err);
    /// As launch, but waits and gives the device's time. Drains the queue first.
    kiln_status (*program_time)(kiln_backend *backend, kiln_built *built, const kiln_launch *launch,
                                uint64_t *out_ns, kiln_error *err);
    /// Also optional, all three: a buffer goes to another device of this table's kind without
    /// passing through the host. `expose` offers what it holds now, once; `obtain` fills a buffer
    /// of as many bytes, and waits: PERMISSION_DENIED when that device may not be asked; `withdraw`
    /// ends an offer.
    kiln_status (*expose)(kiln_backend *backend, kiln_buffer *buffer, kiln_transfer *out_transfer,
                          kiln_error *err);
    void (*withdraw)(kiln_backend *backend, const kiln_transfer *transfer);
    kiln_status (*obtain)(kiln_backend *backend, kiln_buffer *buffer, const kiln_transfer *transfer,
                          kiln_error *err);
    /// Also optional, all three: when commands ran. `trace_set` waits for the queue and begins or
    /// ends noting; commands carry the number that `trace_tag` gave last; `trace_take` waits, and
    /// hands over what was noted since, in order, and how many there was no room for.
    kiln_status (*trace_set)(kiln_backend *backend, bool on, kiln_error *err);
    void (*trace_tag)(kiln_backend *backend, uint64_t tag);
    kiln_status (*trace_take)(kiln_backend *backend,
                              void (*take)(const kiln_device_span *span, void *user), void *user,
                              uint64_t *out_lost, kiln_error *err);
    /// Also optional, both: a buffer to be cut into windows, as alloc_persistent (NULL: any buffer
    /// is); and `bytes` of one from `offset` on, a multiple of the device's `memory_align`, as a
    /// buffer of its own, in no statistics. It goes before that one. Windows may overlap: work in
    /// the queue sees what earlier work wrote. UNIMPLEMENTED: this device has no windows.
    kiln_status (*alloc_arena)(kiln_backend *backend, size_t bytes, kiln_buffer **out_buffer,
                               kiln_error *err);
    kiln_status (*window)(kiln_backend *backend, kiln_buffer *parent, size_t offset, size_t bytes,
                          kiln_buffer **out_buffer, kiln_error *err);
    /// Also optional, both: the next `execute` takes its temporaries from `buffers`, in order,
    /// where they are long enough; how long those were that the last one asked for.
    void (*lend)(kiln_backend *backend, kiln_buffer *const *buffers, uint32_t count);
    uint32_t (*asked)(kiln_backend *backend, const uint64_t **out_bytes);
    /// Also optional: from now on the device holds at most so many bytes; 0: what it has. What is
    /// held already stays.
    void (*set_budget)(kiln_backend *backend, uint64_t bytes);
    void (*reset_peaks)(kiln_backend *backend); ///< also optional; in the statistics
    /// Also optional: whether program_build would find all that it needs, or compile it.
    /// UNIMPLEMENTED: the device has no compiler and there is no binary, with what to do.
    kiln_status (*program_ready)(kiln_backend *backend, const kiln_program *program,
                                 kiln_error *err);
    /// Also optional: what was queued last does not come back. From now on every call fails with
    /// DEVICE_LOST and this reason, and none waits, closing included; what the queue may still use
    /// is left to it.
    void (*abandon)(kiln_backend *backend, const char *why);
    /// Also optional: the parts of a program as the device has them.
    kiln_status (*program_parts)(kiln_backend *backend, const kiln_program *program,
                                 kiln_program_part_fn take, void *user, kiln_error *err);
    /// Also optional: whether the device has compiled anything. Some say that they do
    /// (KILN_FEATURE_COMPILER) and refuse; with `ask`, what had to be known is found out: a device
    /// that refuses loses the feature, and then gets KILN_FEATURE_PREPARED.
    bool (*compiles)(kiln_backend *backend, bool ask);
    /// Also optional: NULL where the host does all that is queued, or another host has the queues.
    const kiln_backend_queue_ops *queues;
} kiln_backend_ops;

struct kiln_backend { ///< first member of every backend
    const kiln_backend_ops *ops;
};

/// The queues of a backend; NULL where it has none, or was built before there were any.
static inline const kiln_backend_queue_ops *kiln_backend_queues(const kiln_backend *backend)
{
    bool has = backend->ops->struct_size > offsetof(kiln_backend_ops, queues);
    return has ? backend->ops->queues : NULL;
}

/// Whether this composite is recorded as simpler operations on this backend: always for class
/// ELEMENTWISE, so that fusers see them, and where the backend does not run it itself.
KILN_API bool kiln_ir_is_expanded(kiln_backend *backend, const kiln_op_record *record);

/// Opens backends whose address starts with `scheme` and a colon, such as "opencl:0".
typedef struct kiln_backend_provider {
    uint32_t struct_size;
    const char *scheme;
    kiln_status (*open)(const kiln_env *env, const char *address, kiln_backend **out_backend,
                        kiln_error *err, void *user);
    /// Describes the n-th device for `kiln devices`: its address and a line; NOT_FOUND past the
    /// last. May be NULL.
    kiln_status (*describe)(const kiln_env *env, size_t index, char out_address[64],
                            char out_line[192], kiln_error *err, void *user);
    void *user;
    /// Type of the n-th device, without opening it; NOT_FOUND past the last. May be NULL.
    kiln_status (*type_of)(const kiln_env *env, size_t index, kiln_device_type *out_type,
                           kiln_error *err, void *user);
} kiln_backend_provider;

/// The backend "reference", which runs every operator's reference function on the host.
KILN_API const kiln_backend_provider *kiln_ir_reference_provider(void);

/// The backend "null", which keeps memory and runs nothing, programs included, for measuring what a
/// host pays.
KILN_API const kiln_backend_provider *kiln_ir_null_provider(void);

#ifdef __cplusplus
}
#endif

#endif
