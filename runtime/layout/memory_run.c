// SPDX-License-Identifier: MIT OR Apache-2.0
// Layouts at work: found for the extents of a run, made when they are worth it, bound to the
// device's arena, and asked by plan_exec.c for the memory of each value. Where a layout has none,
// the pool gives it. Decides when the arena grows and goes.

#include "memory_internal.h"
#include "rt_arena.h"
#include "rt_binding.h"
#include "rt_context.h"
#include "rt_device.h"
#include "rt_layout.h"
#include "rt_memory_account.h"
#include "rt_run.h"

#include <string.h>

enum { KEPT_LAYOUTS = 8 }; ///< of one plan: those of the extents used last

/// What the executor keeps with a plan.
typedef struct plan_memory {
    kiln_device *device;
    kilni_layout *layouts; ///< used last first
    uint32_t count;
    uint32_t n_symbols;
    bool has_seen;
    int64_t *seen; ///< extents that came once and have no layout
} plan_memory;

// ---- the arena ----

static void unbind(kilni_layout *layout)
{
    kiln_device *device = layout->device;
    if (!layout->bound) {
        return;
    }
    for (uint32_t i = 0; i < layout->n_objects; i++) {
        kilni_object *object = &layout->objects[i];
        if (object->window != NULL && !object->shared) {
            device->backend->memory->free(device->backend, object->window);
        }
        object->window = NULL;
    }
    kilni_layout **link = &device->arena.bound;
    while (*link != layout) {
        link = &(*link)->next_bound;
    }
    *link = layout->next_bound;
    layout->bound = false;
    device->arena.unbound++;
}

bool kilni_arena_drop(kiln_device *device)
{
    kilni_arena *arena = &device->arena;
    if (arena->busy || arena->buffer == NULL) {
        return false;
    }
    while (arena->bound != NULL) {
        unbind(arena->bound);
    }
    device->backend->memory->free(device->backend, arena->buffer);
    device->memory.live -= arena->bytes;
    arena->buffer = NULL;
    arena->bytes = 0;
    return true;
}

static bool reserve_arena(kiln_device *device, uint64_t bytes)
{
    kilni_arena *arena = &device->arena;
    if (bytes <= arena->bytes) {
        return true;
    }
    kiln_error err = KILN_ERROR_INIT;
    if (bytes > kiln_device_info_of(device)->max_alloc_bytes) {
        return false;
    }
    (void)kilni_arena_drop(device);
    device->backend->memory->trim(device->backend); // what was idle is not held beside it
    kiln_status status =
        device->backend->arena->alloc(device->backend, bytes, &arena->buffer, &err);
    if (status != KILN_STATUS_OK) {
        arena->buffer = NULL;
        arena->off = status == KILN_STATUS_UNIMPLEMENTED;
        kiln_log_write(&device->context->env, KILN_LOG_DEBUG, "runtime",
                       "no arena, values come from the pool: %s", err.message);
        return false;
    }
    arena->bytes = bytes;
    kilni_count_live(&device->memory, bytes);
    return true;
}

static bool make_windows(kilni_layout *layout)
{
    kiln_device *device = layout->device;
    kiln_error err = KILN_ERROR_INIT;
    for (uint32_t i = 0; i < layout->n_objects; i++) {
        kilni_object *object = &layout->objects[i];
        if (object->home != KILNI_HOME_ARENA || layout->values[i].took || object->shared) {
            continue;
        }
        kiln_status status = device->backend->arena->sub_buffer(
            device->backend, device->arena.buffer, (size_t)object->offset, (size_t)object->bytes,
            &object->window, &err);
        if (status != KILN_STATUS_OK) {
            object->window = NULL;
            device->arena.off = device->arena.off || status == KILN_STATUS_UNIMPLEMENTED;
            return false;
        }
    }
    for (uint32_t i = 0; i < layout->n_objects; i++) {
        kilni_object *object = &layout->objects[i];
        object->window = object->shared ? layout->objects[object->host].window : object->window;
    }
    for (uint32_t i = 0; i < layout->n_values; i++) {
        layout->loans[i] = layout->objects[layout->values[i].object].window;
    }
    return true;
}

static bool bind(kilni_layout *layout)
{
    kilni_arena *arena = &layout->device->arena;
    if (layout->bound) {
        return true;
    }
    if (!reserve_arena(layout->device, layout->arena_bytes)) {
        return false;
    }
    layout->next_bound = arena->bound;
    arena->bound = layout;
    layout->bound = true;
    if (!make_windows(layout)) {
        unbind(layout);
        if (arena->off) {
            (void)kilni_arena_drop(layout->device);
        }
        return false;
    }
    return true;
}

// ---- layouts of a plan ----

static void destroy(kilni_layout *layout)
{
    const kiln_env *env = &layout->device->context->env;
    unbind(layout);
    kiln_free(env, layout->learned);
    kiln_arena_fini(&layout->memory);
    kiln_free(env, layout);
}

static void plan_memory_free(void *pointer)
{
    plan_memory *memory = pointer;
    const kiln_env *env = &memory->device->context->env;
    while (memory->layouts != NULL) {
        kilni_layout *layout = memory->layouts;
        memory->layouts = layout->next;
        destroy(layout);
    }
    kiln_free(env, memory->seen);
    kiln_free(env, memory);
}

static plan_memory *memory_of(const kilni_run *run)
{
    kiln_plan *plan = run->segment->plan;
    const kiln_env *env = &run->device->context->env;
    if (plan->memory == NULL) {
        plan_memory *memory = kiln_alloc(env, sizeof(*memory));
        int64_t *seen = kiln_alloc_array(env, (size_t)plan->n_symbols + 1, sizeof(*seen));
        if (memory == NULL || seen == NULL) {
            kiln_free(env, memory);
            kiln_free(env, seen);
            return NULL;
        }
        *memory = (plan_memory){.device = run->device, .n_symbols = plan->n_symbols, .seen = seen};
        plan->memory = memory;
        plan->memory_free = plan_memory_free;
    }
    return plan->memory;
}

/// The first extents of a plan get a layout at once; others when they come twice in a row, so that
/// a program whose extents never return does not make one at each run.
static bool is_worth_it(plan_memory *memory, const int64_t *symbols)
{
    size_t bytes = memory->n_symbols * sizeof(*symbols);
    if (memory->layouts == NULL ||
        (memory->has_seen && memcmp(memory->seen, symbols, bytes) == 0)) {
        memory->has_seen = false;
        return true;
    }
    memcpy(memory->seen, symbols, bytes);
    memory->has_seen = true;
    return false;
}

static void keep(plan_memory *memory, kilni_layout *layout)
{
    layout->next = memory->layouts;
    memory->layouts = layout;
    if (++memory->count <= KEPT_LAYOUTS) {
        return;
    }
    kilni_layout *before = layout;
    while (before->next->next != NULL) {
        before = before->next;
    }
    destroy(before->next);
    before->next = NULL;
    memory->count--;
}

const kilni_layout *kilni_layout_of(const kiln_plan *plan, const int64_t *symbols)
{
    const plan_memory *memory = plan->memory;
    const kilni_layout *layout = memory != NULL ? memory->layouts : NULL;
    while (layout != NULL &&
           memcmp(layout->symbols, symbols, memory->n_symbols * sizeof(*symbols)) != 0) {
        layout = layout->next;
    }
    return layout;
}

static kilni_layout *take_out(plan_memory *memory, const int64_t *symbols)
{
    kilni_layout **link = &memory->layouts;
    size_t bytes = memory->n_symbols * sizeof(*symbols);
    while (*link != NULL && memcmp((*link)->symbols, symbols, bytes) != 0) {
        link = &(*link)->next;
    }
    kilni_layout *layout = *link;
    if (layout != NULL) {
        *link = layout->next;
        memory->count--;
    }
    return layout;
}

kilni_layout *kilni_layout_find(const kilni_run *run)
{
    plan_memory *memory = memory_of(run);
    const int64_t *symbols = run->segment->symbols;
    if (memory == NULL) {
        return NULL;
    }
    kilni_layout *layout = memory->layouts;
    size_t bytes = memory->n_symbols * sizeof(*symbols);
    if (layout != NULL && layout->settled && memcmp(layout->symbols, symbols, bytes) == 0) {
        return layout;
    }
    layout = take_out(memory, symbols);
    if (layout == NULL && !is_worth_it(memory, symbols)) {
        return NULL;
    }
    if (layout == NULL || layout->n_learned > layout->n_known) {
        kilni_layout *made = kilni_layout_create(run, layout);
        if (made != NULL) {
            made->settled = layout != NULL;
        }
        if (layout != NULL) {
            destroy(layout);
            // What the pool gave before is idle now.
            run->device->backend->memory->trim(run->device->backend);
        }
        layout = made;
    }
    if (layout != NULL) {
        keep(memory, layout);
    }
    return layout;
}

// ---- a run ----

kilni_layout *kilni_layout_begin(const kilni_run *run)
{
    kilni_arena *arena = &run->device->arena;
    if (arena->off || arena->busy || run->device->samples.measuring) {
        return NULL;
    }
    kilni_layout *layout = kilni_layout_find(run);
    if (layout == NULL || (layout->idle && layout->settled) ||
        (layout->arena_bytes > 0 && !bind(layout))) {
        return NULL;
    }
    arena->busy = true;
    return layout;
}

void kilni_layout_end(const kilni_run *run)
{
    kilni_layout *layout = run->layout;
    for (uint32_t i = 0; i < layout->n_objects; i++) {
        if (layout->objects[i].held != NULL) {
            kilni_binding hold = {.bound = true, .storage = layout->objects[i].held};
            layout->objects[i].held = NULL;
            kilni_binding_clear(run->device, &hold);
        }
    }
    run->device->counts.values_planned += layout->n_planned;
    layout->settled = layout->settled || layout->n_learned == layout->n_known;
    run->device->arena.busy = false;
}

/// The buffer of a result, made before it is written, for what lies in it until then.
static kiln_buffer *buffer_of_host(const kilni_run *run, kilni_object *host)
{
    kilni_binding binding = {0};
    kiln_error err = KILN_ERROR_INIT;
    const kiln_tensor_desc desc = {
        .dtype = KILN_DTYPE_U8, .rank = 1, .dims = {(int64_t)host->bytes}};
    if (host->held == NULL &&
        kilni_binding_alloc(run->device, &desc, &binding, &err) == KILN_STATUS_OK) {
        host->held = binding.storage;
    }
    return host->held != NULL ? host->held->buffer : NULL;
}

static bool place_value(const kilni_run *run, kilni_value *value, const kiln_tensor_desc *desc,
                        kilni_binding *target)
{
    kilni_object *object = &run->layout->objects[value->object];
    kilni_storage *storage = &value->storage;
    if (object->home == KILNI_HOME_RESULT) {
        storage = object->held;
    } else if (object->home == KILNI_HOME_POOL || storage->refs != 0) {
        storage = NULL;
    } else {
        storage->buffer = object->home == KILNI_HOME_ARENA
                              ? object->window
                              : buffer_of_host(run, &run->layout->objects[object->host]);
        storage->planned = true;
        storage = storage->buffer != NULL ? storage : NULL;
    }
    if (storage == NULL) {
        return false;
    }
    storage->refs++;
    target->storage = storage;
    target->view = kiln_view_dense(desc, storage->buffer);
    target->bound = true;
    return true;
}

bool kilni_layout_place(const kilni_run *run, uint32_t slot, const kiln_tensor_desc *desc,
                        kilni_binding *target)
{
    uint32_t number = run->layout != NULL ? run->layout->value_of[slot] : KILNI_NO_VALUE;
    return number != KILNI_NO_VALUE && place_value(run, &run->layout->values[number], desc, target);
}

bool kilni_layout_place_temp(const kilni_run *run, uint32_t block, uint32_t temp,
                             const kiln_tensor_desc *desc, kilni_binding *target)
{
    uint32_t base = run->layout != NULL ? run->layout->temps_of[block] : KILNI_NO_VALUE;
    return base != KILNI_NO_VALUE &&
           run->layout->values[base + temp].bytes == (uint64_t)desc->dims[0] &&
           place_value(run, &run->layout->values[base + temp], desc, target);
}

void kilni_layout_note(const kilni_run *run, uint32_t slot, const kilni_binding *binding)
{
    uint32_t number = run->layout != NULL ? run->layout->value_of[slot] : KILNI_NO_VALUE;
    if (number == KILNI_NO_VALUE || binding->storage == NULL) {
        return;
    }
    kilni_object *object = &run->layout->objects[run->layout->values[number].object];
    if (object->home == KILNI_HOME_RESULT && object->held == NULL) {
        object->held = binding->storage;
        binding->storage->refs++;
    }
}

// ---- temporaries of unfused operations ----

void kilni_layout_lend(const kilni_run *run, uint32_t step)
{
    kilni_layout *layout = run->layout;
    uint32_t first = layout->scratch_of[step];
    uint32_t count = layout->scratch_of[step + 1] - first;
    if (count == 0) {
        return;
    }
    for (uint32_t i = first; i < first + count; i++) {
        const kilni_object *object = &layout->objects[layout->values[i].object];
        if (object->home == KILNI_HOME_INSIDE) {
            layout->loans[i] = buffer_of_host(run, &layout->objects[object->host]);
        }
    }
    run->device->backend->arena->lend(run->device->backend, &layout->loans[first], count);
}

/// In the first run only: the layout of the next one has room for them.
void kilni_layout_learn(const kilni_run *run, uint32_t step)
{
    kilni_layout *layout = run->layout;
    const uint64_t *bytes = NULL;
    uint32_t count =
        layout->settled ? 0 : run->device->backend->arena->asked(run->device->backend, &bytes);
    uint32_t wanted = layout->n_learned + count;
    if (wanted > layout->learned_capacity) {
        kilni_scratch *grown =
            kiln_realloc(&run->device->context->env, layout->learned,
                         layout->learned_capacity * sizeof(*grown), wanted * 2 * sizeof(*grown));
        if (grown == NULL) {
            return;
        }
        layout->learned = grown;
        layout->learned_capacity = wanted * 2;
    }
    for (uint32_t i = 0; i < count; i++) {
        layout->learned[layout->n_learned++] = (kilni_scratch){step, bytes[i]};
    }
}
