// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_MEMORY_ACCOUNT_H
#define KILN_RUNTIME_MEMORY_ACCOUNT_H

/// How much memory tensors have, and who gives some back when it is short.

#include "rt_binding.h"

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
    kiln_status (*alloc)(struct kilni_allocator *self, size_t bytes, const kilni_binding *binding,
                         kiln_buffer **out_buffer, kiln_error *err);
} kilni_allocator;

/// Memory that tensors have, and what more of it may come. All under the device's lock.
typedef struct kilni_memory_account {
    const kilni_reclaimers *reclaimers;
    kilni_allocator *allocator; ///< of what is allocated now, or NULL: the backend
    uint64_t live; ///< bytes of buffers that tensors and the arena hold
    uint64_t live_peak;
    uint64_t pending; ///< bytes of queued results that nobody has dropped yet
    uint64_t pending_free; ///< bytes of tensors that only queued operations still hold
    uint64_t pressure; ///< live and pending bytes from which queues are run early; 0: never
    uint64_t early_runs;
    bool persistent; ///< what is allocated now lives long
} kilni_memory_account;

enum { KILNI_PENDING_PART = 16 }; ///< part of the budget that must come free

void kilni_pressure_init(kiln_device *device);

/// Whether memory is short and running queued work would free some. Work that would free none
/// waits: run early, it only makes what fusion would have left out.
static inline bool kilni_under_pressure(const kilni_memory_account *memory)
{
    return memory->pressure > 0 && memory->live + memory->pending > memory->pressure &&
           memory->pending_free > memory->pressure / KILNI_PENDING_PART;
}

/// Gives back what nothing uses now. False: there was nothing.
bool kilni_reclaim(kiln_device *device);

/// Runs what all threads have recorded, for memory.
void kilni_run_for_memory(kiln_device *device);

static inline void kilni_count_live(kilni_memory_account *memory, uint64_t bytes)
{
    memory->live += bytes;
    if (memory->live > memory->live_peak) {
        memory->live_peak = memory->live;
    }
}

#endif
