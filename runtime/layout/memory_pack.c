// SPDX-License-Identifier: MIT OR Apache-2.0
// Where what shares memory lies: every object of the arena gets an offset, so that those alive at
// once do not meet, or a place at the beginning of a result that is not written yet. Largest first,
// each into the smallest gap that takes it (as in Pisarchyk and Lee, "Efficient Memory Management
// for Deep Neural Net Inference", 2020); a second order is tried, and the shorter arena taken. Of
// very many objects only those alive at once are compared, in the order of time.

#include "memory_internal.h"
#include "rt_arena.h"
#include "rt_context.h"
#include "rt_device.h"

#include <stdlib.h>

enum {
    MANY_OBJECTS = 8192, ///< up to here the work may grow with their square
    MAX_HOSTS = 16 ///< results that others may lie in
};

typedef struct packing {
    kilni_object *objects;
    uint32_t *order; ///< numbers of the arena's objects
    uint32_t n_order;
    uint32_t *bound; ///< those that have an offset, by offset
    uint32_t n_bound;
    uint32_t *guests; ///< those inside results
    uint32_t n_guests;
    uint32_t hosts[MAX_HOSTS];
    uint32_t n_hosts;
    uint64_t align;
    uint64_t length;
} packing;

static uint64_t round_up(uint64_t bytes, uint64_t align)
{
    return (bytes + align - 1) / align * align;
}

static bool meet(const kilni_object *a, const kilni_object *b)
{
    return a->first <= b->last && b->first <= a->last;
}

// ---- inside results ----

static void choose_hosts(packing *p, uint32_t n_objects)
{
    for (uint32_t i = 0; i < n_objects; i++) {
        if (p->objects[i].home != KILNI_HOME_RESULT || p->objects[i].first == 0) {
            continue;
        }
        uint32_t at = p->n_hosts;
        if (at < MAX_HOSTS) {
            p->n_hosts++;
        } else if (p->objects[p->hosts[--at]].bytes >= p->objects[i].bytes) {
            continue; // no larger than the smallest of them
        }
        for (; at > 0 && p->objects[p->hosts[at - 1]].bytes < p->objects[i].bytes; at--) {
            p->hosts[at] = p->hosts[at - 1];
        }
        p->hosts[at] = i;
    }
}

static bool has_room(const packing *p, uint32_t host, const kilni_object *object)
{
    if (p->objects[host].bytes < object->bytes || object->last >= p->objects[host].first) {
        return false;
    }
    for (uint32_t i = 0; i < p->n_guests; i++) {
        const kilni_object *guest = &p->objects[p->guests[i]];
        if (guest->host == host && meet(guest, object)) {
            return false;
        }
    }
    return true;
}

static bool place_inside(packing *p, uint32_t number)
{
    kilni_object *object = &p->objects[number];
    for (uint32_t i = p->n_hosts; i-- > 0;) { // the smallest that is long enough
        if (has_room(p, p->hosts[i], object)) {
            object->home = KILNI_HOME_INSIDE;
            object->host = p->hosts[i];
            p->guests[p->n_guests++] = number;
            return true;
        }
    }
    return false;
}

// ---- in the arena ----

static void place_at_offset(packing *p, uint32_t number)
{
    kilni_object *object = &p->objects[number];
    uint64_t bytes = round_up(object->bytes, p->align);
    uint64_t end = 0, best = 0, best_gap = UINT64_MAX;
    for (uint32_t i = 0; i < p->n_bound; i++) {
        const kilni_object *other = &p->objects[p->bound[i]];
        if (!meet(object, other)) {
            continue;
        }
        uint64_t gap = other->offset > end ? other->offset - end : 0;
        if (gap >= bytes && gap < best_gap) {
            best_gap = gap;
            best = end;
        }
        uint64_t other_end = other->offset + round_up(other->bytes, p->align);
        end = other_end > end ? other_end : end;
    }
    object->offset = best_gap != UINT64_MAX ? best : end;
    p->length = object->offset + bytes > p->length ? object->offset + bytes : p->length;
    uint32_t at = p->n_bound++;
    for (; at > 0 && p->objects[p->bound[at - 1]].offset > object->offset; at--) {
        p->bound[at] = p->bound[at - 1];
    }
    p->bound[at] = number;
}

static void pack(packing *p, bool inside)
{
    p->n_bound = p->n_guests = 0;
    p->length = 0;
    for (uint32_t i = 0; i < p->n_order; i++) {
        kilni_object *object = &p->objects[p->order[i]];
        object->home = KILNI_HOME_ARENA;
        object->host = KILNI_NO_VALUE;
        if (!inside || !place_inside(p, p->order[i])) {
            place_at_offset(p, p->order[i]);
        }
    }
}

// ---- orders ----

typedef struct sort_key {
    uint64_t major; ///< descending
    uint32_t minor; ///< ascending
    uint32_t number;
} sort_key;

static int compare(const void *left, const void *right)
{
    const sort_key *a = left, *b = right;
    if (a->major != b->major) {
        return a->major > b->major ? -1 : 1;
    }
    return a->minor != b->minor ? (a->minor < b->minor ? -1 : 1) : (a->number < b->number ? -1 : 1);
}

enum { BY_SIZE, BY_TIME, BY_AREA, ORDERS };

static void sort(packing *p, sort_key *keys, int order)
{
    for (uint32_t i = 0; i < p->n_order; i++) {
        const kilni_object *object = &p->objects[p->order[i]];
        uint64_t bytes = round_up(object->bytes, p->align);
        uint64_t steps = (uint64_t)object->last - object->first + 1;
        keys[i] =
            (sort_key){.major = order == BY_SIZE   ? bytes
                                : order == BY_AREA ? bytes / p->align * steps
                                                   : UINT64_MAX - object->first,
                       .minor = order == BY_TIME ? UINT32_MAX - (uint32_t)steps : object->first,
                       .number = p->order[i]};
    }
    qsort(keys, p->n_order, sizeof(*keys), compare);
    for (uint32_t i = 0; i < p->n_order; i++) {
        p->order[i] = keys[i].number;
    }
}

static void pack_best(packing *p, sort_key *keys)
{
    uint64_t shortest = UINT64_MAX;
    int best = 0;
    for (int i = 0; i < 2 * ORDERS; i++) {
        sort(p, keys, i / 2);
        pack(p, i % 2 == 0);
        if (p->length < shortest) {
            shortest = p->length;
            best = i;
        }
    }
    sort(p, keys, best / 2);
    pack(p, best % 2 == 0);
}

/// Keeps of those with an offset the ones that are alive at the step or later.
static void pass_over(packing *p, uint32_t step)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->n_bound; i++) {
        if (p->objects[p->bound[i]].last >= step) {
            p->bound[kept++] = p->bound[i];
        }
    }
    p->n_bound = kept;
}

/// Each into a gap between those that live when it begins.
static void pack_in_time(packing *p, sort_key *keys)
{
    sort(p, keys, BY_TIME);
    for (uint32_t i = 0; i < p->n_order; i++) {
        kilni_object *object = &p->objects[p->order[i]];
        object->home = KILNI_HOME_ARENA;
        object->host = KILNI_NO_VALUE;
        pass_over(p, object->first);
        place_at_offset(p, p->order[i]);
    }
    for (uint32_t i = 0; i < p->n_order; i++) {
        const kilni_object *object = &p->objects[p->order[i]];
        keys[i] = (sort_key){.major = object->offset,
                             .minor = (uint32_t)(object->bytes / p->align),
                             .number = p->order[i]};
    }
    qsort(keys, p->n_order, sizeof(*keys), compare);
    for (p->n_bound = 0; p->n_bound < p->n_order; p->n_bound++) {
        p->bound[p->n_bound] = keys[p->n_bound].number;
    }
}

/// Objects at the same offset and as long share a window.
static void share_windows(packing *p)
{
    for (uint32_t i = 1; i < p->n_bound; i++) {
        for (uint32_t k = i; k-- > 0;) {
            const kilni_object *before = &p->objects[p->bound[k]];
            kilni_object *object = &p->objects[p->bound[i]];
            if (before->offset != object->offset) {
                break;
            }
            if (before->bytes == object->bytes) {
                object->shared = true;
                object->host = before->shared ? before->host : p->bound[k];
                break;
            }
        }
    }
}

bool kilni_layout_pack(kilni_layout *layout, uint64_t align)
{
    kiln_arena memory;
    packing p = {.objects = layout->objects, .align = align};
    size_t n = (size_t)layout->n_objects + 1;
    kiln_arena_init(&memory, &layout->device->context->env);
    p.order = kiln_arena_alloc(&memory, n * sizeof(*p.order));
    p.bound = kiln_arena_alloc(&memory, n * sizeof(*p.bound));
    p.guests = kiln_arena_alloc(&memory, n * sizeof(*p.guests));
    sort_key *keys = kiln_arena_alloc(&memory, n * sizeof(*keys));
    bool room = p.order != NULL && p.bound != NULL && p.guests != NULL && keys != NULL;
    for (uint32_t i = 0; room && i < layout->n_objects; i++) {
        if (layout->objects[i].home == KILNI_HOME_ARENA && !layout->values[i].took) {
            p.order[p.n_order++] = i;
        }
    }
    if (room && p.n_order > 0) {
        if (layout->n_objects <= MANY_OBJECTS) {
            choose_hosts(&p, layout->n_objects);
            pack_best(&p, keys);
        } else {
            pack_in_time(&p, keys);
        }
        share_windows(&p);
        layout->arena_bytes = p.length;
    }
    kiln_arena_fini(&memory);
    return room;
}
