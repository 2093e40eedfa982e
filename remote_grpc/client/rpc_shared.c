// SPDX-License-Identifier: MIT OR Apache-2.0
// Large tensors to and from a server of this machine, by memory that both map. Decides the way:
// what lies in memory of host_alloc the server copies from there, and to there. Anything else goes
// to the server through slots: a frame says which slot to copy from, and its answer that the slot
// is free again; while the server copies one slot the client copies the next. From the server it
// goes through the socket, which is as fast as two copies.

#include "rpc_client.h"

#include <string.h>

enum { SHARED_FROM = 512 << 10 }; ///< bytes below which frames carry the data as fast

// ---- handing over ----

static kiln_status share(const kilni_rpc_client *self, uint32_t number, size_t bytes,
                         kilni_rpc_memory *out_memory, kiln_error *err)
{
    kilni_rpc_memory_hello hello = {
        .session = self->welcome.session, .bytes = bytes, .number = number};
    memcpy(hello.token, self->welcome.token.bytes, sizeof(hello.token));
    return kilni_rpc_memory_offer(self->address.host, &hello, out_memory, err);
}

bool kilni_rpc_shares(kilni_rpc_client *self, size_t bytes)
{
    const size_t room = (size_t)KILNI_RPC_SLOTS * KILNI_RPC_SLOT;
    bool may = self->is_open && self->takes_memory && bytes >= SHARED_FROM &&
               self->chunk >= KILNI_RPC_SLOT;
    if (may && !self->offered_memory) {
        kiln_error why = KILN_ERROR_INIT;
        self->offered_memory = true;
        if (share(self, 0, room, &self->slots, &why) != KILN_STATUS_OK) {
            kiln_log_write(self->env, KILN_LOG_INFO, "remote", "%s", why.message);
        }
    }
    return may && self->slots.bytes != NULL;
}

/// What a program has asked for and `bytes` at `from` lie in, when the server maps it; 0: nothing.
static uint32_t find_memory(const kilni_rpc_client *self, const char *from, size_t bytes)
{
    for (uint32_t i = 1; i < KILNI_RPC_MEMORIES; i++) {
        const kilni_rpc_memory *each = &self->memories[i];
        uintptr_t begin = (uintptr_t)each->bytes;
        if (each->bytes != NULL && self->shared_in[i] == self->epoch && (uintptr_t)from >= begin &&
            bytes <= each->length && (uintptr_t)from - begin <= each->length - bytes) {
            return i;
        }
    }
    return 0;
}

static bool alloc_shared(kilni_rpc_client *self, size_t bytes, void **out_memory)
{
    kiln_error ignored = KILN_ERROR_INIT;
    uint32_t number = 1;
    while (number < KILNI_RPC_MEMORIES && self->memories[number].bytes != NULL) {
        number++;
    }
    if (number == KILNI_RPC_MEMORIES || bytes > KILNI_RPC_MEMORY_MOST ||
        !kilni_rpc_shares(self, bytes) ||
        share(self, number, bytes, &self->memories[number], &ignored) != KILN_STATUS_OK) {
        return false;
    }
    self->shared_in[number] = self->epoch;
    *out_memory = self->memories[number].bytes;
    return true;
}

kiln_status kilni_rpc_host_alloc(kiln_backend *backend, size_t bytes, void **out_memory,
                                 kiln_error *err)
{
    kilni_rpc_client *self = kilni_rpc_client_of(backend);
    pthread_mutex_lock(&self->lock);
    bool shared = alloc_shared(self, bytes, out_memory);
    pthread_mutex_unlock(&self->lock);
    return shared ? KILN_STATUS_OK : kiln_backend_host_alloc(backend, bytes, out_memory, err);
}

static bool free_shared(kilni_rpc_client *self, const void *memory)
{
    uint32_t number = 1;
    while (number < KILNI_RPC_MEMORIES && self->memories[number].bytes != memory) {
        number++;
    }
    if (number == KILNI_RPC_MEMORIES) {
        return false;
    }
    if (self->is_open && self->shared_in[number] == self->epoch) {
        kilni_rpc_frame frame = {.data = NULL};
        kiln_error ignored = KILN_ERROR_INIT;
        frame.body.which_body = kiln_v1_Frame_unshare_tag;
        frame.body.body.unshare.memory = number;
        (void)!kilni_rpc_client_send(self, &frame, &ignored);
    }
    kilni_rpc_memory_unmap(&self->memories[number]);
    return true;
}

void kilni_rpc_host_free(kiln_backend *backend, void *memory)
{
    kilni_rpc_client *self = kilni_rpc_client_of(backend);
    if (memory == NULL) {
        return;
    }
    pthread_mutex_lock(&self->lock);
    bool shared = free_shared(self, memory);
    pthread_mutex_unlock(&self->lock);
    if (!shared) {
        kiln_backend_host_free(backend, memory);
    }
}

// ---- from the server ----

bool kilni_rpc_shared_target(const kilni_rpc_client *self, const void *out_data, size_t bytes,
                             kiln_v1_Read *inout_read)
{
    uint32_t number = bytes >= SHARED_FROM ? find_memory(self, out_data, bytes) : 0;
    if (number != 0) {
        inout_read->memory = number;
        inout_read->shared = 1 + (uint64_t)((const char *)out_data - self->memories[number].bytes);
    }
    return number != 0;
}

// ---- to the server ----

/// Waits until a piece has been copied. Errors: the session is lost, and the memory with it.
static kiln_status finish_part(kilni_rpc_client *self, kiln_pending **part, kiln_error *err)
{
    kiln_pending *pending = *part;
    *part = NULL;
    return pending != NULL ? kilni_rpc_pending_settle(self, pending, err) : KILN_STATUS_OK;
}

/// `write` says in which memory the bytes lie; 0: they go through the slot at `place`.
static kiln_status begin_part(kilni_rpc_client *self, const kiln_v1_Write *write, size_t place,
                              const char *source, kiln_pending **out_part, kiln_error *err)
{
    kilni_rpc_frame frame = {.data = NULL};
    if (write->memory == 0) {
        memcpy(self->slots.bytes + place, source, (size_t)write->shared_bytes);
    } else {
        place = (size_t)(source - self->memories[write->memory].bytes);
    }
    frame.body.which_body = kiln_v1_Frame_write_tag;
    frame.body.body.write = *write;
    frame.body.body.write.shared = 1 + (uint64_t)place;
    return kilni_rpc_pending_begin(self, &frame, NULL, 0, out_part, err);
}

/// After a failure all that is on its way is still waited for: the server reads there.
kiln_status kilni_rpc_shared_write(kilni_rpc_client *self, const kiln_buffer *buffer, size_t offset,
                                   const void *source, size_t bytes, kiln_error *err)
{
    kiln_pending *parts[KILNI_RPC_SLOTS] = {NULL};
    kiln_error ignored = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    kiln_v1_Write write = {
        .buffer = buffer->id, .total = buffer->bytes, .memory = find_memory(self, source, bytes)};
    const size_t piece = write.memory != 0 ? self->told : KILNI_RPC_SLOT;
    size_t next = 0;
    for (size_t at = 0; at < bytes && status == KILN_STATUS_OK; at += piece) {
        write.offset = offset + at;
        write.shared_bytes = bytes - at < piece ? bytes - at : piece;
        status = finish_part(self, &parts[next], err);
        if (status == KILN_STATUS_OK) {
            status = begin_part(self, &write, next * KILNI_RPC_SLOT, (const char *)source + at,
                                &parts[next], err);
        }
        next = (next + 1) % KILNI_RPC_SLOTS;
    }
    for (size_t i = 0; i < KILNI_RPC_SLOTS; i++) {
        kiln_status ended = finish_part(self, &parts[i], status == KILN_STATUS_OK ? err : &ignored);
        status = status == KILN_STATUS_OK ? ended : status;
    }
    return status;
}
