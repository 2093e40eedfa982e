// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_GUARDS_H
#define KILN_RUNTIME_GUARDS_H

/// Guard words around memory that a checked program may write (guards.c).

#include "rt_memory_account.h"

typedef struct kilni_guards kilni_guards;

/// While a device has guards, what it allocates stands between words that nobody may write, and is
/// full of ones: a result that was not written is seen.
kilni_guards *kilni_guards_create(kiln_device *device);
void kilni_guards_destroy(kilni_guards *guards);

/// What allocates between guard words: an `allocator` of the device.
kilni_allocator *kilni_guards_allocator(kilni_guards *guards);

/// The first thing whose guard words were written, after a sync. False: none.
typedef struct kilni_guard_damage {
    const kilni_binding *binding;
    uint32_t number; ///< in the order of allocation
    bool before; ///< the bytes before it, not those behind it
    uint32_t distance_bytes; ///< of the nearest one
} kilni_guard_damage;

bool kilni_guards_damaged(kilni_guards *guards, kilni_guard_damage *out_damage);

#endif
