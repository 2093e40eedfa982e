// SPDX-License-Identifier: MIT OR Apache-2.0
// Guard words: in checked mode, memory that a block may write lies between two pages of known
// words, as a part of a larger buffer. Decides where they are and finds the first that is gone; who
// wrote it is the check's to say.

#include "rt_binding.h"
#include "rt_context.h"
#include "rt_device.h"
#include "rt_guards.h"
#include "rt_layout.h"
#include "rt_memory_account.h"

enum { GUARD_BYTES = 4096 };

static const unsigned char word[4] = {0x4b, 0x69, 0x6c, 0x6e}; // "Kiln": no small number, no NaN

typedef struct guarded {
    kiln_buffer *whole;
    const kilni_binding *binding; ///< what it was allocated for
    size_t bytes;
    size_t front; ///< guard bytes before it
    struct guarded *next;
} guarded;

struct kilni_guards {
    kilni_allocator allocator; ///< comes first
    kiln_device *device;
    guarded *first;
    guarded **last;
    unsigned char pattern[GUARD_BYTES];
};

/// Ones: a NaN of every float, a number that no bool has.
static kiln_status fill(kiln_backend *backend, kiln_buffer *buffer, size_t at, size_t bytes,
                        kiln_error *err)
{
    static const unsigned char few[256] = {
#define ONES_8 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff
#define ONES_64 ONES_8, ONES_8, ONES_8, ONES_8, ONES_8, ONES_8, ONES_8, ONES_8
        ONES_64, ONES_64, ONES_64, ONES_64
#undef ONES_64
#undef ONES_8
    };
    kiln_status status = KILN_STATUS_OK;
    for (size_t done = 0; done < bytes && status == KILN_STATUS_OK;) {
        // The first words come from here, the rest is copied from what is there, twice as much
        // each time.
        size_t piece = done == 0 ? sizeof(few) : done;
        piece = piece < bytes - done ? piece : bytes - done;
        status = done == 0
                     ? backend->transfer->upload(backend, buffer, at, few, piece, err)
                     : backend->transfer->copy(backend, buffer, at, buffer, at + done, piece, err);
        done += piece;
    }
    return status;
}

static kiln_status write_words(kilni_guards *guards, const guarded *g, kiln_error *err)
{
    kiln_backend *backend = guards->device->backend;
    kiln_status status = fill(backend, g->whole, g->front, g->bytes, err);
    if (status == KILN_STATUS_OK && g->front > 0) {
        status = backend->transfer->upload(backend, g->whole, 0, guards->pattern, g->front, err);
    }
    if (status == KILN_STATUS_OK) {
        status = backend->transfer->upload(backend, g->whole, g->front + g->bytes, guards->pattern,
                                           GUARD_BYTES, err);
    }
    return status;
}

static kiln_status alloc_guarded(kilni_allocator *self, size_t bytes, const kilni_binding *binding,
                                 kiln_buffer **out_buffer, kiln_error *err)
{
    kilni_guards *guards = (kilni_guards *)self;
    kiln_backend *backend = guards->device->backend;
    *out_buffer = NULL;
    if (backend->arena == NULL) {
        return kiln_fail(err, UNIMPLEMENTED, "%s has no guard words", backend->scheme);
    }
    guarded *g = kiln_alloc(&guards->device->context->env, sizeof(*g));
    if (g == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for guard words");
    }
    *g = (guarded){.binding = binding, .bytes = bytes, .front = GUARD_BYTES};
    *guards->last = g;
    guards->last = &g->next;
    kiln_status status =
        backend->arena->alloc(backend, bytes + 2 * (size_t)GUARD_BYTES, &g->whole, err);
    if (status == KILN_STATUS_OK) {
        status = write_words(guards, g, err);
    }
    return status == KILN_STATUS_OK
               ? backend->arena->sub_buffer(backend, g->whole, g->front, bytes, out_buffer, err)
               : status;
}

kilni_guards *kilni_guards_create(kiln_device *device)
{
    kilni_guards *guards = kiln_alloc(&device->context->env, sizeof(*guards));
    if (guards != NULL) {
        guards->allocator.alloc = alloc_guarded;
        guards->device = device;
        guards->last = &guards->first;
        for (size_t i = 0; i < GUARD_BYTES; i++) {
            guards->pattern[i] = word[i % sizeof(word)];
        }
    }
    return guards;
}

void kilni_guards_destroy(kilni_guards *guards)
{
    if (guards == NULL) {
        return;
    }
    kiln_backend *backend = guards->device->backend;
    while (guards->first != NULL) {
        guarded *g = guards->first;
        guards->first = g->next;
        if (g->whole != NULL) {
            backend->memory->free(backend, g->whole);
        }
        kiln_free(&guards->device->context->env, g);
    }
    kiln_free(&guards->device->context->env, guards);
}

kilni_allocator *kilni_guards_allocator(kilni_guards *guards)
{
    return &guards->allocator;
}

/// The written byte that is nearest to the memory; false when all are as they were.
static bool find_damage(const kilni_guards *guards, const unsigned char *now, bool before,
                        uint32_t *out_distance)
{
    for (uint32_t i = 0; i < GUARD_BYTES; i++) {
        uint32_t at = before ? GUARD_BYTES - 1 - i : i;
        if (now[at] != guards->pattern[at]) {
            *out_distance = i;
            return true;
        }
    }
    return false;
}

/// What a guard has nowhere, for a read that leaves what was there.
static unsigned char unlike(const kilni_guards *guards, uint32_t at)
{
    return (unsigned char)(guards->pattern[at] ^ 0xFF);
}

static void spoil(const kilni_guards *guards, unsigned char bytes[GUARD_BYTES])
{
    for (uint32_t i = 0; i < GUARD_BYTES; i++) {
        bytes[i] = unlike(guards, i);
    }
}

static bool is_spoilt(const kilni_guards *guards, const unsigned char bytes[GUARD_BYTES])
{
    uint32_t i = 0;
    while (i < GUARD_BYTES && bytes[i] == unlike(guards, i)) {
        i++;
    }
    return i == GUARD_BYTES;
}

static bool is_damaged(const kilni_guards *guards, const guarded *g, bool before,
                       uint32_t *out_distance)
{
    kiln_backend *backend = guards->device->backend;
    size_t at = before ? 0 : g->front + g->bytes;
    unsigned char now[GUARD_BYTES];
    bool damaged = g->whole != NULL;
    for (int i = 0; i < 2 && damaged; i++) { // and again: a read may be wrong
        spoil(guards, now); // or leave what was there
        damaged = backend->transfer->read(backend, g->whole, at, now, sizeof(now), NULL) ==
                      KILN_STATUS_OK &&
                  find_damage(guards, now, before, out_distance);
    }
    return damaged && !is_spoilt(guards, now);
}

bool kilni_guards_damaged(kilni_guards *guards, kilni_guard_damage *out_damage)
{
    uint32_t number = 0;
    for (const guarded *g = guards->first; g != NULL; g = g->next, number++) {
        for (int side = 0; side < 2; side++) {
            uint32_t distance = 0;
            if (is_damaged(guards, g, side == 0, &distance)) {
                *out_damage = (kilni_guard_damage){g->binding, number, side == 0, distance};
                return true;
            }
        }
    }
    return false;
}
