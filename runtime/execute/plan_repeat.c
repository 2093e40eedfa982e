// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs that repeat. A run of a plan notes its launches; when all that it did were launches of
// proven blocks, in memory that is the same at the next run or known to come from outside, they are
// prepared, and later runs enqueue them. Decides what can be repeated and when that ends.

#include "plan_internal.h"
#include "rt_context.h"
#include "rt_device.h"
#include "rt_repeat.h"
#include "rt_trace.h"

#include <stdlib.h>

typedef struct noted_launch {
    kilni_block_state *state;
    kiln_launch launch; ///< its arguments begin at number `first`
    uint32_t first;
} noted_launch;

typedef struct noted_arg {
    kiln_launch_arg value;
    bool stays; ///< a buffer that the next run has as well
} noted_arg;

typedef struct place { ///< an argument whose buffer comes from outside
    uint32_t launch;
    uint32_t arg;
} place;

struct kilni_repeat {
    kiln_device *device;
    kilni_repeat *next; ///< of the device's
    bool refused; ///< while it notes
    bool ready; ///< it can run
    noted_launch *launches;
    uint32_t n_launches;
    uint32_t capacity;
    noted_arg *args;
    uint32_t n_args;
    uint32_t args_capacity;
    kiln_prepared **prepared; ///< of each launch
    kiln_buffer **outside; ///< those that are set
    uint32_t n_outside;
    uint32_t *first_place; ///< per number, and one more
    place *places;
    uint64_t gone; ///< of the backend, when it was prepared
    kilni_device_counts before; ///< while it notes
    kilni_device_counts each; ///< what one run adds
};

// ---- noting ----

kilni_repeat *kilni_repeat_begin(kiln_device *device)
{
    if (device->backend->prepared == NULL || kilni_trace_of(device) != NULL ||
        device->check.records != NULL || device->check.mode == KILNI_CHECK_ALWAYS) {
        return NULL;
    }
    kilni_repeat *repeat = kiln_alloc(&device->context->env, sizeof(*repeat));
    if (repeat != NULL) {
        repeat->device = device;
        repeat->before = device->counts;
        repeat->next = device->execution.repeats;
        device->execution.repeats = repeat;
    }
    return repeat;
}

void kilni_repeat_refuse(kilni_repeat *repeat)
{
    if (repeat != NULL) {
        repeat->refused = true;
    }
}

/// Room for `wanted` items, of which there are `count`. False: no memory.
static bool make_room(const kiln_env *env, void **items, size_t each, uint32_t count,
                      uint32_t wanted, uint32_t *capacity)
{
    if (wanted <= *capacity) {
        return true;
    }
    void *grown = kiln_realloc(env, *items, count * each, (size_t)wanted * 2 * each);
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *capacity = wanted * 2;
    return true;
}

/// Whether what a temporary was made from are constants of the plan.
static bool is_of_constants(const kilni_block_view *view, uint32_t temp)
{
    const kiln_program *program = view->block->program;
    const kiln_program_launch *launch = &program->launches[program->temps[temp].prepack_launch];
    bool constants = true;
    for (uint32_t i = 0; i < launch->n_args && constants; i++) {
        uint32_t slot = launch->args[i].kind == KILN_ARG_TENSOR
                            ? kilni_plan_slot_of(view, launch->args[i].ref)
                            : UINT32_MAX;
        constants = slot == UINT32_MAX || (launch->args[i].access & KILN_ACCESS_READ) == 0 ||
                    view->run->bindings[slot] ==
                        &((const kiln_tensor *)view->run->segment->tokens[slot])->binding;
    }
    return constants;
}

/// Whether an argument's memory is the same at each run: a layout's, or a temporary's that is kept.
static bool stays(const kilni_block_view *view, const kiln_program_arg *arg,
                  const kilni_temp_list *temps)
{
    if (arg->kind != KILN_ARG_TEMP) {
        const kilni_binding *binding = view->run->bindings[kilni_plan_slot_of(view, arg->ref)];
        return binding->storage == NULL || binding->storage->planned;
    }
    const kilni_binding *temp = &temps->bindings[arg->ref];
    const kilni_block_state *state = view->block->state;
    return temp->storage->planned ||
           (state->kept != NULL && state->kept[arg->ref].temp.bound &&
            state->kept[arg->ref].temp.storage == temp->storage && is_of_constants(view, arg->ref));
}

void kilni_repeat_note(kilni_repeat *repeat, const kilni_block_view *view,
                       const kilni_temp_list *temps, const kiln_launch *launch)
{
    const kiln_env *env = &repeat->device->context->env;
    uint32_t first = repeat->n_args;
    if (repeat->refused ||
        !make_room(env, (void **)&repeat->launches, sizeof(noted_launch), repeat->n_launches,
                   repeat->n_launches + 1, &repeat->capacity) ||
        !make_room(env, (void **)&repeat->args, sizeof(noted_arg), first, first + launch->n_args,
                   &repeat->args_capacity)) {
        repeat->refused = true;
        return;
    }
    const kiln_program_launch *form = &view->block->program->launches[launch->launch];
    for (uint32_t i = 0; i < launch->n_args; i++) {
        bool buffer = launch->args[i].kind == KILN_VALUE_BUFFER;
        repeat->args[first + i] = (noted_arg){
            .value = launch->args[i], .stays = !buffer || stays(view, &form->args[i], temps)};
    }
    repeat->n_args += launch->n_args;
    repeat->launches[repeat->n_launches++] =
        (noted_launch){.state = view->block->state, .launch = *launch, .first = first};
}

// ---- preparing ----

typedef struct known_buffer {
    const kiln_buffer *buffer;
    uint32_t number; ///< UINT32_MAX: a constant
} known_buffer;

static int by_buffer(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const known_buffer *)a)->buffer;
    uintptr_t y = (uintptr_t)((const known_buffer *)b)->buffer;
    return x < y ? -1 : x > y;
}

/// Sorts what may come from outside. UINT32_MAX: a buffer has two numbers, so it is not known which
/// of them an argument follows.
static uint32_t sort_known(known_buffer *known, kiln_buffer *const *outside, uint32_t n_outside,
                           kiln_buffer *const *constants, uint32_t n_constants)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n_outside + n_constants; i++) {
        kiln_buffer *buffer = i < n_outside ? outside[i] : constants[i - n_outside];
        if (buffer != NULL) {
            known[count++] = (known_buffer){buffer, i < n_outside ? i : UINT32_MAX};
        }
    }
    qsort(known, count, sizeof(known[0]), by_buffer);
    for (uint32_t i = 1; i < count; i++) {
        if (known[i].buffer == known[i - 1].buffer && known[i].number != known[i - 1].number) {
            return UINT32_MAX;
        }
    }
    return count;
}

/// The number that a launch's argument follows; `n_outside`: none. False: its memory is another one
/// at the next run, and nobody knows which.
static bool find_number(const kilni_repeat *repeat, const noted_arg *arg, const known_buffer *known,
                        uint32_t count, uint32_t *out_number)
{
    const known_buffer key = {.buffer = arg->value.buffer};
    const known_buffer *found = NULL;
    if (arg->value.kind == KILN_VALUE_BUFFER && key.buffer != NULL) {
        found = bsearch(&key, known, count, sizeof(key), by_buffer);
    }
    *out_number = found != NULL && found->number != UINT32_MAX ? found->number : repeat->n_outside;
    return found != NULL || arg->stays;
}

/// Lists the arguments of each number, in the order of numbers.
static bool list_places(kilni_repeat *repeat, const known_buffer *known, uint32_t count)
{
    uint32_t *first = repeat->first_place;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t l = 0; l < repeat->n_launches; l++) {
            const noted_launch *noted = &repeat->launches[l];
            for (uint32_t i = 0; i < noted->launch.n_args; i++) {
                uint32_t number = 0;
                if (!find_number(repeat, &repeat->args[noted->first + i], known, count, &number)) {
                    return false;
                }
                if (number < repeat->n_outside && pass == 0) {
                    first[number + 1]++;
                } else if (number < repeat->n_outside) {
                    repeat->places[first[number]++] = (place){l, i};
                }
            }
        }
        for (uint32_t i = 1; i <= repeat->n_outside && pass == 0; i++) {
            first[i] += first[i - 1];
        }
    }
    for (uint32_t i = repeat->n_outside; i > 0; i--) { // each is where the next one begins
        first[i] = first[i - 1];
    }
    first[0] = 0;
    return true;
}

static bool blocks_are_settled(const kilni_repeat *repeat)
{
    bool settled = true;
    for (uint32_t l = 0; l < repeat->n_launches && settled; l++) {
        const kilni_block_state *state = repeat->launches[l].state;
        settled = !state->failed && state->built != NULL &&
                  (state->tuned || repeat->device->samples.tune == KILNI_TUNE_OFF);
    }
    return settled;
}

static bool prepare_all(kilni_repeat *repeat)
{
    kiln_backend *backend = repeat->device->backend;
    kiln_error err = KILN_ERROR_INIT;
    repeat->gone = backend->gone;
    for (uint32_t l = 0; l < repeat->n_launches; l++) {
        noted_launch *noted = &repeat->launches[l];
        kiln_launch_arg args[KILN_LAUNCH_ARGS_MAX];
        for (uint32_t i = 0; i < noted->launch.n_args; i++) {
            args[i] = repeat->args[noted->first + i].value;
        }
        noted->launch.args = args;
        if (backend->prepared->prepare(backend, noted->state->built, &noted->launch,
                                       &repeat->prepared[l], &err) != KILN_STATUS_OK) {
            return false;
        }
    }
    return true;
}

bool kilni_repeat_end(kilni_repeat *repeat, kiln_buffer *const *outside, uint32_t n_outside,
                      kiln_buffer *const *constants, uint32_t n_constants)
{
    const kiln_env *env = &repeat->device->context->env;
    if (repeat->refused || repeat->n_launches == 0 || !blocks_are_settled(repeat)) {
        return false;
    }
    repeat->each.blocks_fused = repeat->device->counts.blocks_fused - repeat->before.blocks_fused;
    repeat->each.ops_fused = repeat->device->counts.ops_fused - repeat->before.ops_fused;
    repeat->each.values_planned =
        repeat->device->counts.values_planned - repeat->before.values_planned;
    known_buffer *known =
        kiln_alloc_array(env, (size_t)n_outside + n_constants + 1, sizeof(*known));
    repeat->prepared = kiln_alloc_array(env, repeat->n_launches, sizeof(*repeat->prepared));
    repeat->outside = kiln_alloc_array(env, n_outside + 1u, sizeof(*repeat->outside));
    repeat->first_place = kiln_alloc_array(env, n_outside + 2u, sizeof(*repeat->first_place));
    repeat->places = kiln_alloc_array(env, repeat->n_args + 1u, sizeof(*repeat->places));
    if (known != NULL && repeat->prepared != NULL && repeat->outside != NULL &&
        repeat->first_place != NULL && repeat->places != NULL) {
        repeat->n_outside = n_outside;
        for (uint32_t i = 0; i < n_outside; i++) {
            repeat->outside[i] = outside[i];
        }
        uint32_t count = sort_known(known, outside, n_outside, constants, n_constants);
        repeat->ready =
            count != UINT32_MAX && list_places(repeat, known, count) && prepare_all(repeat);
    }
    kiln_free(env, known);
    return repeat->ready;
}

// ---- repeating ----

bool kilni_repeat_holds(const kilni_repeat *repeat)
{
    const kiln_device *device = repeat->device;
    return repeat->ready && repeat->gone == device->backend->gone &&
           kilni_trace_of(device) == NULL && device->check.records == NULL &&
           device->check.mode != KILNI_CHECK_ALWAYS;
}

void kilni_repeat_replace(kilni_repeat *repeat, uint32_t outside, kiln_buffer *buffer)
{
    kiln_backend *backend = repeat->device->backend;
    if (repeat->outside[outside] == buffer) {
        return;
    }
    repeat->outside[outside] = buffer;
    for (uint32_t i = repeat->first_place[outside]; i < repeat->first_place[outside + 1]; i++) {
        const place *at = &repeat->places[i];
        backend->prepared->replace(backend, repeat->prepared[at->launch], at->arg, buffer);
    }
}

kiln_status kilni_repeat_run(kilni_repeat *repeat, bool *out_begun, kiln_error *err)
{
    kiln_device *device = repeat->device;
    uint32_t done = 0;
    for (uint32_t i = 0; i < repeat->n_launches; i++) {
        if (i == 0 || repeat->launches[i].state != repeat->launches[i - 1].state) {
            kilni_block_programs_use(repeat->launches[i].state);
        }
    }
    kiln_status status = device->backend->prepared->enqueue(device->backend, repeat->prepared,
                                                            repeat->n_launches, &done, err);
    *out_begun = done > 0;
    if (status == KILN_STATUS_OK) {
        device->counts.runs_repeated++;
        device->counts.blocks_fused += repeat->each.blocks_fused;
        device->counts.ops_fused += repeat->each.ops_fused;
        device->counts.values_planned += repeat->each.values_planned;
    }
    return status;
}

// ---- the end ----

/// What it holds of the backend goes; the rest is its owner's.
static void end(kilni_repeat *repeat)
{
    kiln_backend *backend = repeat->device->backend;
    repeat->ready = false;
    repeat->refused = true;
    for (uint32_t l = 0; repeat->prepared != NULL && l < repeat->n_launches; l++) {
        backend->prepared->unprepare(backend, repeat->prepared[l]);
        repeat->prepared[l] = NULL;
    }
}

void kilni_repeat_free(kilni_repeat *repeat)
{
    if (repeat == NULL) {
        return;
    }
    const kiln_env *env = &repeat->device->context->env;
    kilni_repeat **link = &repeat->device->execution.repeats;
    end(repeat);
    while (*link != repeat) {
        link = &(*link)->next;
    }
    *link = repeat->next;
    kiln_free(env, repeat->launches);
    kiln_free(env, repeat->args);
    kiln_free(env, (void *)repeat->prepared);
    kiln_free(env, (void *)repeat->outside);
    kiln_free(env, repeat->first_place);
    kiln_free(env, repeat->places);
    kiln_free(env, repeat);
}

void kilni_repeat_lose_block(kiln_device *device, const kilni_block_state *state)
{
    for (kilni_repeat *repeat = device->execution.repeats; repeat != NULL; repeat = repeat->next) {
        bool has = false;
        for (uint32_t l = 0; l < repeat->n_launches && !has; l++) {
            has = repeat->launches[l].state == state;
        }
        if (has) {
            end(repeat);
        }
    }
}

void kilni_repeat_lose_buffer(kiln_device *device, const kiln_buffer *buffer)
{
    for (kilni_repeat *repeat = device->execution.repeats; repeat != NULL; repeat = repeat->next) {
        bool has = false;
        for (uint32_t i = 0; i < repeat->n_args && !has; i++) {
            has = repeat->args[i].value.kind == KILN_VALUE_BUFFER &&
                  repeat->args[i].value.buffer == buffer;
        }
        if (has) {
            end(repeat);
        }
    }
}
