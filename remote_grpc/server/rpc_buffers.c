// SPDX-License-Identifier: MIT OR Apache-2.0
// The buffers of a session. Bytes that a client writes stay raw until an operation says what they
// are; memory for them is taken as they arrive. What a read sends stays in place until the client
// has it. Decides what counts against the session's quota.

#define _DEFAULT_SOURCE // madvise
#include "rpc_session.h"

#include <string.h>
#include <sys/mman.h>

enum {
    FIRST_STAGE = 8 << 20,
    PAGE = 4096,
    HUGE_FROM = 4 << 20,
    MOST_SPARE = 512 << 20,
    MAP_FROM = 256 << 10 ///< bytes of a tensor that are sent from where they lie
};

// ---- staging ----

static void advise_huge(char *bytes, size_t capacity)
{
    uintptr_t begin = ((uintptr_t)bytes + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    uintptr_t end = ((uintptr_t)bytes + capacity) & ~(uintptr_t)(PAGE - 1);
    if (capacity >= HUGE_FROM && end > begin) {
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
    }
}

/// Not a tensor's and not a file's memory, nor what became a tensor's.
static bool is_of_the_heap(const kilni_rpc_staging *staging)
{
    return staging->mapping == NULL && staging->file.bytes == NULL && staging->bytes != NULL;
}

void kilni_rpc_staging_free(const kiln_env *env, kilni_rpc_staging *staging)
{
    if (staging != NULL && staging->file.bytes != NULL) {
        kilni_rpc_vault_unmap(&staging->file);
    } else if (staging != NULL && staging->mapping != NULL) {
        kiln_mapping_release(staging->mapping);
    } else if (staging != NULL && is_of_the_heap(staging)) {
        env->allocator.free(env->allocator.user, staging->bytes);
    }
    kiln_free(env, staging);
}

/// Takes back what was lent and has been sent. The largest one is kept as the spare.
static void collect(kilni_rpc_session *session)
{
    kilni_rpc_staging **link = &session->lent;
    while (*link != NULL) {
        kilni_rpc_staging *each = *link;
        if (atomic_load_explicit(&each->hold.refs, memory_order_acquire) > 1) {
            link = &each->next;
            continue;
        }
        *link = each->next;
        if (!is_of_the_heap(each) || each->capacity > MOST_SPARE ||
            (session->spare != NULL && session->spare->capacity >= each->capacity)) {
            kilni_rpc_staging_free(session->env, each);
        } else {
            kilni_rpc_staging_free(session->env, session->spare);
            session->spare = each;
        }
    }
}

kilni_rpc_staging *kilni_rpc_staging_new(kilni_rpc_session *session, size_t bytes)
{
    const kiln_env *env = session->env;
    collect(session);
    kilni_rpc_staging *staging = session->spare;
    if (staging != NULL && staging->capacity >= bytes && staging->capacity / 8 <= bytes) {
        session->spare = NULL;
        return staging;
    }
    staging = kiln_alloc(env, sizeof(*staging));
    if (staging != NULL) {
        staging->capacity = bytes > 0 ? bytes : 1;
        // Not zeroed: what is read from it was written before.
        staging->bytes = env->allocator.alloc(env->allocator.user, staging->capacity, 64);
        atomic_init(&staging->hold.refs, 1);
    }
    if (staging != NULL && staging->bytes == NULL) {
        kiln_free(env, staging);
        return NULL;
    }
    if (staging != NULL) {
        advise_huge(staging->bytes, staging->capacity);
    }
    return staging;
}

/// A spare of the session may be larger than what was asked for: all of it counts.
static kiln_status charge_raw(const kilni_rpc_session *session, kilni_rpc_staging *staging,
                              kiln_error *err)
{
    const kilni_rpc_session_options *options = session->options;
    uint64_t held = atomic_fetch_add(options->raw_bytes, staging->capacity);
    if (held > options->max_raw_bytes || staging->capacity > options->max_raw_bytes - held) {
        atomic_fetch_sub(options->raw_bytes, staging->capacity);
        return kiln_fail(err, RESOURCE_EXHAUSTED,
                         "%zu bytes are more than the server takes: all sessions hold %llu of %llu "
                         "that no operation has used yet",
                         staging->capacity, (unsigned long long)held,
                         (unsigned long long)options->max_raw_bytes);
    }
    staging->charged = staging->capacity;
    return KILN_STATUS_OK;
}

kiln_status kilni_rpc_staging_raw(kilni_rpc_session *session, uint64_t bytes,
                                  kilni_rpc_staging **out_staging, kiln_error *err)
{
    kilni_rpc_staging *made =
        bytes <= SIZE_MAX ? kilni_rpc_staging_new(session, (size_t)bytes) : NULL;
    if (made == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %llu bytes",
                         (unsigned long long)bytes);
    }
    kiln_status status = charge_raw(session, made, err);
    if (status != KILN_STATUS_OK) {
        kilni_rpc_staging_free(session->env, made);
        return status;
    }
    *out_staging = made;
    return KILN_STATUS_OK;
}

kiln_status kilni_rpc_staging_adopt(kilni_rpc_session *session, const kilni_rpc_mapped *mapped,
                                    kilni_rpc_staging **out_staging, kiln_error *err)
{
    kilni_rpc_staging *made = kiln_alloc(session->env, sizeof(*made));
    if (made == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a buffer's record");
    }
    made->capacity = mapped->length;
    made->bytes = mapped->bytes;
    atomic_init(&made->hold.refs, 1);
    kiln_status status = charge_raw(session, made, err);
    if (status != KILN_STATUS_OK) {
        kiln_free(session->env, made);
        return status;
    }
    made->file = *mapped;
    *out_staging = made;
    return KILN_STATUS_OK;
}

void kilni_rpc_staging_release(kilni_rpc_session *session, kilni_rpc_staging *staging)
{
    if (staging != NULL) {
        atomic_fetch_sub(session->options->raw_bytes, staging->charged);
        staging->charged = 0;
        staging->next = session->lent;
        session->lent = staging;
        collect(session);
    }
}

// ---- entries ----

kilni_rpc_entry **kilni_rpc_entry_find(kilni_rpc_session *session, uint64_t id)
{
    kilni_rpc_entry **link = &session->buckets[id % KILNI_RPC_BUCKETS];
    while (*link != NULL && (*link)->id != id) {
        link = &(*link)->next;
    }
    return link;
}

kiln_status kilni_rpc_entry_need(kilni_rpc_session *session, uint64_t id,
                                 kilni_rpc_entry **out_entry, kiln_error *err)
{
    *out_entry = *kilni_rpc_entry_find(session, id);
    if (*out_entry == NULL) {
        return kiln_fail(err, NOT_FOUND, "there is no buffer %llu", (unsigned long long)id);
    }
    if ((*out_entry)->failed != NULL) {
        *err = *(*out_entry)->failed;
        return (kiln_status)err->code;
    }
    return KILN_STATUS_OK;
}

static void drop_raw(kilni_rpc_session *session, kilni_rpc_entry *entry)
{
    kilni_rpc_staging_release(session, entry->raw);
    entry->raw = NULL;
    entry->staged = 0;
}

/// One buffer at a time has a shadow, so that shadows need not count.
static void drop_shadow(kilni_rpc_session *session)
{
    if (session->shadowed != NULL) {
        kilni_rpc_staging_release(session, session->shadowed->shadow);
        session->shadowed->shadow = NULL;
        session->shadowed = NULL;
    }
}

static void clear_entry(kilni_rpc_session *session, kilni_rpc_entry *found)
{
    if (session->shadowed == found) {
        drop_shadow(session);
    }
    drop_raw(session, found);
    kiln_free(session->env, found->failed);
    kiln_release(found->tensor);
    found->failed = NULL;
    found->tensor = NULL;
    found->unfenced = false;
    kilni_rpc_session_let_go(session, found->bytes);
    found->offered = false;
    found->bytes = 0;
}

void kilni_rpc_entry_remove(kilni_rpc_session *session, uint64_t id)
{
    kilni_rpc_entry **link = kilni_rpc_entry_find(session, id);
    kilni_rpc_entry *found = *link;
    if (found != NULL) {
        *link = found->next;
        clear_entry(session, found);
        kiln_free(session->env, found);
        session->held_buffers--;
        collect(session);
    }
}

void kilni_rpc_entry_remove_all(kilni_rpc_session *session)
{
    for (size_t i = 0; i < KILNI_RPC_BUCKETS; i++) {
        while (session->buckets[i] != NULL) {
            kilni_rpc_entry_remove(session, session->buckets[i]->id);
        }
    }
}

kiln_status kilni_rpc_session_charge(kilni_rpc_session *session, uint64_t more, kiln_error *err)
{
    uint64_t exposed = atomic_load(&session->exposed_bytes);
    kiln_status status = kilni_rpc_check_bytes(&session->options->limits, exposed, more, err);
    // Both terms are at most `max_bytes`, so that a sum beyond 64 bits cannot be.
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_check_bytes(&session->options->limits, session->held_bytes,
                                       exposed + more, err);
    }
    return status == KILN_STATUS_OK
               ? kilni_rpc_party_charge(session->options->parties, session->party, more, err)
               : status;
}

void kilni_rpc_session_hold(kilni_rpc_session *session, uint64_t bytes)
{
    session->held_bytes += bytes;
    atomic_fetch_add(&session->party->bytes, bytes);
}

void kilni_rpc_session_let_go(kilni_rpc_session *session, uint64_t bytes)
{
    session->held_bytes -= bytes;
    atomic_fetch_sub(&session->party->bytes, bytes);
}

kiln_status kilni_rpc_entry_renew(kilni_rpc_session *session, uint64_t id, uint64_t bytes,
                                  kilni_rpc_entry **out_entry, kiln_error *err)
{
    kilni_rpc_entry **link = kilni_rpc_entry_find(session, id);
    kiln_status status = KILN_STATUS_OK;
    if (id == 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "buffer 0 is none; their numbers begin at 1");
    }
    if (*link == NULL) {
        status = kilni_rpc_check_buffers(&session->options->limits, session->held_buffers, err);
        kilni_rpc_entry *fresh =
            status == KILN_STATUS_OK ? kiln_alloc(session->env, sizeof(*fresh)) : NULL;
        if (status == KILN_STATUS_OK && fresh == NULL) {
            status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a buffer's record");
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
        fresh->id = id;
        *link = fresh;
        session->held_buffers++;
    } else {
        clear_entry(session, *link);
    }
    status = kilni_rpc_session_charge(session, bytes, err);
    if (status == KILN_STATUS_OK) {
        (*link)->bytes = bytes;
        kilni_rpc_session_hold(session, bytes);
        *out_entry = *link;
    }
    return status;
}

void kilni_rpc_entry_fail(kilni_rpc_session *session, uint64_t id, const kiln_error *cause)
{
    kiln_error ignored = KILN_ERROR_INIT;
    kilni_rpc_entry *target = NULL;
    if (kilni_rpc_entry_renew(session, id, 0, &target, &ignored) == KILN_STATUS_OK) {
        target->failed = kiln_alloc(session->env, sizeof(*target->failed));
    }
    if (target == NULL || target->failed == NULL) {
        kilni_rpc_entry_remove(session, id);
    } else {
        *target->failed = *cause;
    }
}

// ---- writing ----

bool kilni_rpc_staging_is_lent(const kilni_rpc_staging *staging)
{
    return atomic_load_explicit(&staging->hold.refs, memory_order_acquire) > 1;
}

/// Gives raw bytes memory for the first `needed`, which nobody else reads; what is there stays.
static kiln_status reserve(kilni_rpc_session *session, kilni_rpc_entry *target, uint64_t needed,
                           kiln_error *err)
{
    kilni_rpc_staging *old = target->raw;
    if (old != NULL && old->capacity >= needed && !kilni_rpc_staging_is_lent(old)) {
        return KILN_STATUS_OK;
    }
    uint64_t length = old != NULL ? 4 * (uint64_t)old->capacity : FIRST_STAGE;
    length = length < needed ? needed : length;
    if (length > target->bytes ||
        (session->spare != NULL && session->spare->capacity >= target->bytes)) {
        length = target->bytes;
    }
    kilni_rpc_staging *fresh = NULL;
    if (old != NULL) { // the new memory takes its place
        atomic_fetch_sub(session->options->raw_bytes, old->charged);
        old->charged = 0;
    }
    kiln_status status = kilni_rpc_staging_raw(session, length, &fresh, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (target->staged > 0) {
        memcpy(fresh->bytes, old->bytes, (size_t)target->staged);
    }
    kilni_rpc_staging_release(session, old);
    target->raw = fresh;
    return KILN_STATUS_OK;
}

static void fill_zeros(kilni_rpc_entry *target, uint64_t until)
{
    if (until > target->staged) {
        memset(target->raw->bytes + target->staged, 0, (size_t)(until - target->staged));
        target->staged = until;
    }
}

kiln_status kilni_rpc_entry_stage(kilni_rpc_session *session, kilni_rpc_entry *entry,
                                  kiln_error *err)
{
    if (entry->raw != NULL && entry->staged == entry->bytes) {
        return KILN_STATUS_OK;
    }
    kiln_status status = reserve(session, entry, entry->bytes, err);
    if (status == KILN_STATUS_OK) {
        fill_zeros(entry, entry->bytes);
    }
    return status;
}

/// A tensor that is written in part becomes raw bytes again.
static kiln_status unmake_tensor(kilni_rpc_session *session, kilni_rpc_entry *target,
                                 kiln_error *err)
{
    kiln_status status = reserve(session, target, target->bytes, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_read(target->tensor, target->raw->bytes, (size_t)target->bytes, err);
    }
    if (status == KILN_STATUS_OK) {
        if (session->shadowed == target) {
            drop_shadow(session);
        }
        target->staged = target->bytes;
        kiln_release(target->tensor);
        target->tensor = NULL;
        target->unfenced = false;
    }
    return status;
}

/// The buffer as raw bytes, `write->total` of them; what was in one of another size is gone.
static kiln_status open_raw(kilni_rpc_session *session, const kiln_v1_Write *write, uint64_t length,
                            kilni_rpc_entry **out_target, kiln_error *err)
{
    kilni_rpc_entry *target = *kilni_rpc_entry_find(session, write->buffer);
    if (target != NULL && target->failed != NULL && write->offset > 0) {
        return kilni_rpc_entry_need(session, write->buffer, &target, err);
    }
    bool whole = write->offset == 0 && length == write->total;
    bool fresh = target == NULL || target->failed != NULL || target->bytes != write->total ||
                 (target->tensor != NULL && whole);
    kiln_status status = KILN_STATUS_OK;
    if (fresh) {
        status = kilni_rpc_entry_renew(session, write->buffer, write->total, &target, err);
    } else if (target->tensor != NULL) {
        status = unmake_tensor(session, target, err);
    }
    *out_target = target;
    return status;
}

kiln_status kilni_rpc_entry_write(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                                  kiln_error *err)
{
    const kiln_v1_Write *write = &frame->body.body.write;
    uint64_t length = frame->data_length;
    kilni_rpc_entry *target = NULL;
    kiln_status status = kilni_rpc_check_range(write->offset, length, write->total, "a write", err);
    uint64_t most = write->shared != 0 ? KILNI_RPC_TOLD : session->options->limits.max_data_bytes;
    if (status == KILN_STATUS_OK && length > most) {
        status = kiln_fail(err, OUT_OF_RANGE, "%llu bytes of data in one frame; %llu are allowed",
                           (unsigned long long)length, (unsigned long long)most);
    }
    if (status == KILN_STATUS_OK) {
        status = open_raw(session, write, length, &target, err);
    }
    if (status == KILN_STATUS_OK) {
        // Who shares memory has it: its pages are taken as they are written to.
        uint64_t needed = write->shared != 0 ? write->total : write->offset + length;
        status = reserve(session, target, needed, err);
    }
    if (status == KILN_STATUS_OK && length > 0) {
        fill_zeros(target, write->offset);
        kilni_rpc_frame_data(frame, target->raw->bytes + write->offset);
        uint64_t end = write->offset + length;
        target->staged = target->staged > end ? target->staged : end;
    }
    if (status != KILN_STATUS_OK) {
        kilni_rpc_entry_fail(session, write->buffer, err);
    }
    return status;
}

/// All of a tensor where it lies, or in a copy.
static kiln_status stage_tensor(kilni_rpc_session *session, const kilni_rpc_entry *entry,
                                kilni_rpc_staging **out_staging, kiln_error *err)
{
    const kiln_device_info *info = kiln_device_info_of(session->device);
    const void *data = NULL;
    bool lies = entry->bytes >= MAP_FROM && (info->features & KILN_FEATURE_UNIFIED_MEMORY) != 0;
    kilni_rpc_staging *fresh = lies ? kiln_alloc(session->env, sizeof(*fresh))
                                    : kilni_rpc_staging_new(session, (size_t)entry->bytes);
    if (fresh == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %llu bytes",
                         (unsigned long long)entry->bytes);
    }
    kiln_status status = KILN_STATUS_OK;
    if (lies) {
        atomic_init(&fresh->hold.refs, 1);
        status = kiln_tensor_map(entry->tensor, &data, &fresh->mapping, err);
        fresh->bytes = (char *)(uintptr_t)data;
    } else {
        status = kiln_read(entry->tensor, fresh->bytes, (size_t)entry->bytes, err);
    }
    if (status != KILN_STATUS_OK) {
        kilni_rpc_staging_free(session->env, fresh);
        return status;
    }
    *out_staging = fresh;
    return KILN_STATUS_OK;
}

kiln_status kilni_rpc_entry_bytes(kilni_rpc_session *session, kilni_rpc_entry *entry, bool again,
                                  kilni_rpc_staging **out_staging, bool *out_owned, kiln_error *err)
{
    *out_owned = false;
    if (entry->tensor == NULL) {
        kiln_status status = kilni_rpc_entry_stage(session, entry, err);
        *out_staging = entry->raw;
        return status;
    }
    if (entry->shadow == NULL) {
        drop_shadow(session);
        kiln_status status = stage_tensor(session, entry, &entry->shadow, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        session->shadowed = entry;
    }
    *out_staging = entry->shadow;
    if (!again) {
        *out_owned = true;
        entry->shadow = NULL;
        session->shadowed = NULL;
    }
    return KILN_STATUS_OK;
}
