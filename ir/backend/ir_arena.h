// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_ARENA_H
#define KILN_IR_ARENA_H

/// Arenas of a backend: one large buffer in which the runtime gives the values of a plan their
/// places. A backend offers the whole table or none of it; without it the runtime plans no memory,
/// and every value is a buffer of its own.
///
/// Unless a function says otherwise, the runtime calls it under the backend's lock, and it does not
/// wait. Buffers belong to the caller, who gives them back by `free` of the memory table. Errors
/// are those of `alloc` there. No pointer is NULL unless a function takes it.

#include "ir_view.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_backend kiln_backend;

typedef struct kiln_backend_arena_ops {
    uint32_t struct_size;
    /// A buffer to be cut; where any buffer may be, the memory table's own `alloc`. UNIMPLEMENTED:
    /// this device cuts none, and is not asked again.
    kiln_status (*alloc)(kiln_backend *backend, size_t bytes, kiln_buffer **out_buffer,
                         kiln_error *err);
    /// `bytes` of such a buffer from `offset` on, a multiple of the device's `memory_align`, as a
    /// buffer in no statistics. It is freed before its parent. Sub-buffers may overlap: work in the
    /// queue sees what earlier work wrote. UNIMPLEMENTED: as for `alloc`.
    kiln_status (*sub_buffer)(kiln_backend *backend, kiln_buffer *parent, size_t offset,
                              size_t bytes, kiln_buffer **out_buffer, kiln_error *err);
    /// The next `execute` takes its temporaries from `buffers`, in order, where they are long
    /// enough. The array is the caller's and stays until then.
    void (*lend)(kiln_backend *backend, kiln_buffer *const *buffers, uint32_t count);
    /// How long the temporaries were that the last `execute` asked for, and how many. The array
    /// stays until the next `execute`.
    uint32_t (*asked)(kiln_backend *backend, const uint64_t **out_bytes);
} kiln_backend_arena_ops;

/// Default of `lend`, of a backend whose operations need no temporaries.
KILN_API void kiln_backend_no_lend(kiln_backend *backend, kiln_buffer *const *buffers,
                                   uint32_t count);

/// Default of `asked`: none.
KILN_API uint32_t kiln_backend_asked_none(kiln_backend *backend, const uint64_t **out_bytes);

#ifdef __cplusplus
}
#endif

#endif
