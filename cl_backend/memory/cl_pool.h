// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_POOL_H
#define KILNI_CL_POOL_H

/// Device memory: the pool, and what an operation is lent for its temporaries. The pool holds at
/// most twice what was used at once lately, that is while it gave out the last 1024 to 2048
/// buffers, and 32 MiB in any case. At that bound an idle buffer of up to twice the size is given
/// out before a new one is made. What is too much goes when one is made, and after every 1024
/// buffers: first what nobody took lately, then the largest.

#include "cl_buffer.h"

enum { KILNI_CL_CLASSES = 16 * 48 }; ///< sixteen for each power of two, from 256 bytes

typedef struct kilni_cl_pool {
    kilni_cl_buffer *idle[KILNI_CL_CLASSES];
    kilni_cl_slab *slab; ///< that new pieces are cut from
    size_t next_slab; ///< bytes of the one after it; 0: as the first
    kilni_cl_buffer *stranded; ///< freed while a kernel that does not end may use them
    uint64_t budget; ///< bytes that the pool may hold, used or not
    bool exact; ///< buffers as long as asked for, none kept: for tests with a memory checker
    uint64_t idle_bytes;
    uint64_t held_bytes; ///< used and idle
    uint32_t given; ///< buffers, since the span began
    uint64_t span; ///< its number
    uint64_t peaks[2]; ///< most bytes used in the last span and in this one
    uint64_t leaving_bytes; ///< given back since the queue was last waited for, about
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

void kilni_cl_pool_init(kilni_cl_backend *backend);
/// Gives idle buffers back to the driver.
void kilni_cl_pool_trim(kilni_cl_backend *backend);

/// Memory from the pool, back through free; scratch for one kernel is freed right after its
/// enqueue, the queue being in order. Errors: RESOURCE_EXHAUSTED with the sizes, INVALID_ARGUMENT
/// above the device's largest allocation.
KILN_NODISCARD kiln_status kilni_cl_alloc(kilni_cl_backend *backend, size_t bytes,
                                          kiln_buffer **out_buffer, kiln_error *err);
void kilni_cl_free(kilni_cl_backend *backend, kiln_buffer *buffer);
/// Memory of exactly this size that does not come from the pool, nor goes to it.
KILN_NODISCARD kiln_status kilni_cl_alloc_persistent(kilni_cl_backend *backend, size_t bytes,
                                                     kiln_buffer **out_buffer, kiln_error *err);
/// The same in a bank of the device's memory, where the platform has banks.
KILN_NODISCARD kiln_status kilni_cl_alloc_bank(kilni_cl_backend *backend, size_t bytes,
                                               uint32_t bank, kiln_buffer **out_buffer,
                                               kiln_error *err);
/// A buffer around memory that somebody else has made; takes over one hold of `mem` on success.
KILN_NODISCARD kiln_status kilni_cl_buffer_adopt(kilni_cl_backend *backend, cl_mem mem,
                                                 size_t bytes, kiln_buffer **out_buffer,
                                                 kiln_error *err);
/// Counts memory beside the pool's own that is used from now on; false: the budget has no room.
bool kilni_cl_pool_hold(kilni_cl_backend *backend, size_t bytes);
/// The same memory is not used any more.
void kilni_cl_pool_leave(kilni_cl_backend *backend, size_t bytes);
/// RESOURCE_EXHAUSTED for more bytes than a buffer may have.
kiln_status kilni_cl_check_size(const kilni_cl_backend *backend, size_t bytes, kiln_error *err);
/// OUT_OF_RANGE for bytes that a buffer does not have.
kiln_status kilni_cl_check_range(const kilni_cl_buffer *buffer, size_t offset, size_t bytes,
                                 kiln_error *err);

/// As the backend's table says.
KILN_NODISCARD kiln_status kilni_cl_alloc_arena(kiln_backend *base, size_t bytes,
                                                kiln_buffer **out_buffer, kiln_error *err);
void kilni_cl_lend(kiln_backend *base, kiln_buffer *const *buffers, uint32_t count);
uint32_t kilni_cl_asked(kiln_backend *base, const uint64_t **out_bytes);
void kilni_cl_set_budget(kiln_backend *base, uint64_t bytes);
void kilni_cl_reset_peaks(kiln_backend *base);

#endif
