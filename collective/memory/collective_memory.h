// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_MEMORY_H
#define KILN_COLLECTIVE_MEMORY_H

/// A rank's memory: the host's, or a table of functions that somebody brings for a device's. A user
/// of groups needs the host's alone. Any thread may call these functions. No pointer is NULL unless
/// a function takes it.

#include "base.h"
#include "collective_algorithm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_coll_memory kiln_coll_memory;

/// A buffer of a rank's memory: only the memory's own functions look into it.
typedef struct kiln_coll_buffer kiln_coll_buffer;

/// The memory of the host: a kiln_coll_buffer is the address of the first byte, cast. Reductions
/// run on the calling thread. Also what staging uses. `*out_memory` is the caller's
/// (kiln_coll_host_memory_destroy); `env` outlives it. Errors: RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_coll_host_memory_create(const kiln_env *env,
                                                                 kiln_coll_memory **out_memory,
                                                                 kiln_error *err);

/// Frees a memory whose members are gone. Takes NULL.
KILN_API void kiln_coll_host_memory_destroy(kiln_coll_memory *memory);

// =================================================================================================
// For those who bring a memory. Others can stop reading here.
// =================================================================================================

typedef enum kiln_coll_access {
    KILN_COLL_READ = 1,
    KILN_COLL_WRITE = 2 ///< everything mapped is written; what was there is not wanted
} kiln_coll_access;

/// Called once when the work is done, on any thread, with its status. It must not call back into
/// the memory.
typedef void (*kiln_coll_done_fn)(kiln_status status, void *user);

/// Elements that lie one after another in a buffer.
typedef struct kiln_coll_area {
    kiln_coll_buffer *buffer;
    uint64_t offset; ///< bytes
    kiln_dtype dtype;
    size_t count;
} kiln_coll_area;

static inline size_t kiln_coll_area_bytes(const kiln_coll_area *area)
{
    return area->count * kiln_dtype_size(area->dtype);
}

enum { KILN_COLL_STAGES = 6 };
/// What was begun and is waited for; the memory's own.
typedef struct kiln_coll_ticket kiln_coll_ticket;

/// A rank's memory, a whole table: no entry is NULL, and where a memory has nothing better it names
/// one of the defaults below. Calls come from the member's worker, `after` also from the thread
/// that starts; work takes effect in the order issued and may run later. Target and source have one
/// count, and are equal or apart.
typedef struct kiln_coll_memory_ops {
    uint32_t struct_size;
    /// What is received is given to `write`. Else the area is mapped for it.
    bool is_written;
    /// Destroying a member whose worker has not come back leaves the memory behind; memory and
    /// transport are used until `close`. Else that waits.
    bool is_left;
    const char *name;
    kiln_status (*alloc)(kiln_coll_memory *memory, size_t bytes, kiln_coll_buffer **out_buffer,
                         kiln_error *err);
    void (*free)(kiln_coll_memory *memory, kiln_coll_buffer *buffer);
    /// Both of one dtype.
    kiln_status (*copy)(kiln_coll_memory *memory, const kiln_coll_area *target,
                        const kiln_coll_area *source, kiln_error *err);
    /// target = source / divisor, rounded once where the dtypes differ: equal dtypes, or one is f16
    /// or bf16 and the other f32.
    kiln_status (*convert)(kiln_coll_memory *memory, const kiln_coll_area *target,
                           const kiln_coll_area *source, uint32_t divisor, kiln_error *err);
    /// target = op(left, right), elementwise, all of one dtype; never MEAN, never f16, bf16 or
    /// bool. The target may be `left` or `right`.
    kiln_status (*reduce)(kiln_coll_memory *memory, const kiln_coll_area *target,
                          const kiln_coll_area *left, const kiln_coll_area *right, kiln_coll_op op,
                          kiln_error *err);
    /// A host pointer to the area, after all work issued before. Several areas may be mapped at
    /// once; none of them is touched by other work until it is unmapped.
    kiln_status (*map)(kiln_coll_memory *memory, const kiln_coll_area *area,
                       kiln_coll_access access, void **out_pointer, kiln_error *err);
    /// Ends a mapping; what was written is seen by all later work.
    kiln_status (*unmap)(kiln_coll_memory *memory, const kiln_coll_area *area,
                         kiln_coll_access access, void *pointer, kiln_error *err);
    /// Copies bytes of the host over the area, before it returns or not at all.
    kiln_status (*write)(kiln_coll_memory *memory, const kiln_coll_area *area, const void *data,
                         kiln_error *err);
    /// Calls `done` when all work issued so far has ended. On an error it is not called.
    kiln_status (*after)(kiln_coll_memory *memory, kiln_coll_done_fn done, void *user,
                         kiln_error *err);
    /// As `after`, of the worker's own work, where that does not queue behind other work of the
    /// memory.
    kiln_status (*finish)(kiln_coll_memory *memory, kiln_coll_done_fn done, void *user,
                          kiln_error *err);
    /// The call that carried `event` has ended; `result` is the error, or has code 0.
    void (*signal)(kiln_coll_memory *memory, void *event, const kiln_error *result);
    /// The call that carried `event` has the result `result` although its worker has not come back
    /// from a function of this table; `signal` follows when it has, and nothing touches the call's
    /// buffers any more. On the group's guard, so it must not wait for anything.
    void (*give_up)(kiln_coll_memory *memory, void *event, const kiln_error *result);
    /// The member has gone: the memory's last call, on any thread.
    void (*close)(kiln_coll_memory *memory);
} kiln_coll_memory_ops;

/// For memory apart from the host's: long calls travel in chunks, out and in at the same time.
/// A whole table. Every ticket is waited for.
typedef struct kiln_coll_stream_ops {
    uint32_t struct_size;
    /// One of the first KILN_COLL_STAGES pieces of host memory, of `bytes`, from which every memory
    /// of the process copies fast. It is kept, and asked for with the same `bytes` each time.
    kiln_status (*stage)(kiln_coll_memory *memory, uint32_t index, size_t bytes, void **out_host,
                         kiln_error *err);
    /// Begins a copy of an area to such a piece, in parallel to all else. From a second thread.
    kiln_status (*fetch)(kiln_coll_memory *memory, const kiln_coll_area *area, void *host,
                         kiln_coll_ticket **out_ticket, kiln_error *err);
    /// Waits for a `fetch`, and takes its ticket. From the thread that fetches.
    kiln_status (*fetched)(kiln_coll_memory *memory, kiln_coll_ticket *ticket, kiln_error *err);
    /// Begins a copy from the host, in order with copy, convert and reduce. The source stays until
    /// a `mark` made afterwards is reached.
    kiln_status (*put)(kiln_coll_memory *memory, const kiln_coll_area *area, const void *host,
                       kiln_error *err);
    kiln_status (*mark)(kiln_coll_memory *memory, kiln_coll_ticket **out_ticket, kiln_error *err);
    /// Waits for a `mark`, and takes its ticket.
    kiln_status (*reached)(kiln_coll_memory *memory, kiln_coll_ticket *ticket, kiln_error *err);
} kiln_coll_stream_ops;

struct kiln_coll_memory { ///< first member of every memory
    const kiln_coll_memory_ops *ops;
    const kiln_coll_stream_ops *stream; ///< NULL: areas are mapped or written whole
};

/// Default of `write`, where it is not asked for: UNIMPLEMENTED.
KILN_API kiln_status kiln_coll_no_write(kiln_coll_memory *memory, const kiln_coll_area *area,
                                        const void *data, kiln_error *err);

/// Default of `finish`: `after`.
KILN_API kiln_status kiln_coll_finish_all(kiln_coll_memory *memory, kiln_coll_done_fn done,
                                          void *user, kiln_error *err);

/// Default of `give_up`: nothing; the result comes with `signal`.
KILN_API void kiln_coll_no_give_up(kiln_coll_memory *memory, void *event, const kiln_error *result);

/// Default of `close`: nothing.
KILN_API void kiln_coll_no_close(kiln_coll_memory *memory);

/// Checks that the tables of a memory are whole, as kiln_coll_member_create does. INVALID_ARGUMENT
/// names the table and the first entry that is NULL, or a table that was built with other headers.
KILN_API kiln_status kiln_coll_memory_check(const kiln_coll_memory *memory, kiln_error *err);

#ifdef __cplusplus
}
#endif
#endif
