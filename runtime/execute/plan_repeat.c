// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs that repeat. A run of a plan notes its launches and the operations that the backend
// executed; when that was all, in memory that is the same at the next run or known to come from
// outside, the launches are prepared, and later runs enqueue them. Decides what can be repeated and
// when that ends.

#include "repeat_parts.h"
#include "rt_context.h"
#include "rt_trace.h"

#include <stdlib.h>

/// Whether each run is looked at by somebody else.
static bool is_watched(const kiln_device *device)
{
    return kilni_trace_of(device) != NULL || device->check.records != NULL ||
           device->check.mode != KILNI_CHECK_OFF;
}

// ---- noting ----

kilni_repeat *kilni_repeat_begin(kiln_device *device)
{
    if (device->backend->prepared == NULL || is_watched(device) || device->awaited != NULL) {
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

static bool tensor_stays(const kilni_run *run, uint32_t slot)
{
    const kilni_storage *storage = run->bindings[slot]->storage;
    return storage == NULL || storage->planned;
}

/// Whether an argument's memory is the same at each run: a layout's, or a temporary's that is kept.
static bool stays(const kilni_block_view *view, const kiln_program_arg *arg,
                  const kilni_temp_list *temps)
{
    if (arg->kind != KILN_ARG_TEMP) {
        return tensor_stays(view->run, kilni_plan_slot_of(view, arg->ref));
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
        !make_room(env, (void **)&repeat->launches, sizeof(kilni_noted_launch), repeat->n_launches,
                   repeat->n_launches + 1, &repeat->capacity) ||
        !make_room(env, (void **)&repeat->args, sizeof(kilni_noted_arg), first,
                   first + launch->n_args, &repeat->args_capacity)) {
        repeat->refused = true;
        return;
    }
    const kiln_program_launch *form = &view->block->program->launches[launch->launch];
    for (uint32_t i = 0; i < launch->n_args; i++) {
        bool buffer = launch->args[i].kind == KILN_VALUE_BUFFER;
        repeat->args[first + i] = (kilni_noted_arg){
            .value = launch->args[i], .stays = !buffer || stays(view, &form->args[i], temps)};
    }
    repeat->n_args += launch->n_args;
    repeat->launches[repeat->n_launches++] =
        (kilni_noted_launch){.state = view->block->state, .launch = *launch, .first = first};
}

void kilni_repeat_note_op(kilni_repeat *repeat, const kilni_run *run, const kiln_op_record *record,
                          const kiln_view *inputs, const kiln_view *outputs)
{
    const kiln_env *env = &repeat->device->context->env;
    uint32_t op = (uint32_t)(record - run->segment->ops);
    uint32_t first = repeat->n_args;
    uint32_t count = (uint32_t)record->n_inputs + (uint32_t)record->n_outputs;
    if (repeat->refused || op >= run->segment->plan->n_ops ||
        !make_room(env, (void **)&repeat->ops, sizeof(kilni_noted_op), repeat->n_ops,
                   repeat->n_ops + 1, &repeat->ops_capacity) ||
        !make_room(env, (void **)&repeat->args, sizeof(kilni_noted_arg), first, first + count,
                   &repeat->args_capacity) ||
        !make_room(env, (void **)&repeat->views, sizeof(kiln_view), repeat->n_views,
                   repeat->n_views + count, &repeat->views_capacity)) {
        repeat->refused = true;
        return;
    }
    repeat->ops[repeat->n_ops++] = (kilni_noted_op){.record = record,
                                                    .before = repeat->n_launches,
                                                    .first = first,
                                                    .first_view = repeat->n_views};
    for (uint32_t i = 0; i < count; i++) {
        const kiln_view *view = i < record->n_inputs ? &inputs[i] : &outputs[i - record->n_inputs];
        repeat->args[first + i] =
            (kilni_noted_arg){.value = {.kind = KILN_VALUE_BUFFER, .buffer = view->buffer},
                              .stays = tensor_stays(run, kilni_plan_operand_slot(run, op, i))};
        repeat->views[repeat->n_views + i] = *view;
    }
    repeat->n_args += count;
    repeat->n_views += count;
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
static bool find_number(const kilni_repeat *repeat, const kilni_noted_arg *arg,
                        const known_buffer *known, uint32_t count, uint32_t *out_number)
{
    const known_buffer key = {.buffer = arg->value.buffer};
    const known_buffer *found = NULL;
    if (arg->value.kind == KILN_VALUE_BUFFER && key.buffer != NULL) {
        found = bsearch(&key, known, count, sizeof(key), by_buffer);
    }
    *out_number = found != NULL && found->number != UINT32_MAX ? found->number : repeat->n_outside;
    return found != NULL || arg->stays;
}

/// The arguments of a launch, or of an operation, counted on behind the launches.
static uint32_t args_of(const kilni_repeat *repeat, uint32_t item, uint32_t *out_count)
{
    if (item < repeat->n_launches) {
        *out_count = repeat->launches[item].launch.n_args;
        return repeat->launches[item].first;
    }
    const kilni_noted_op *op = &repeat->ops[item - repeat->n_launches];
    *out_count = (uint32_t)op->record->n_inputs + (uint32_t)op->record->n_outputs;
    return op->first;
}

/// Lists the arguments of each number, in the order of numbers.
static bool list_places(kilni_repeat *repeat, const known_buffer *known, uint32_t count)
{
    uint32_t *first = repeat->first_place;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t item = 0; item < repeat->n_launches + repeat->n_ops; item++) {
            uint32_t n_args = 0;
            const kilni_noted_arg *args = &repeat->args[args_of(repeat, item, &n_args)];
            for (uint32_t i = 0; i < n_args; i++) {
                uint32_t number = 0;
                if (!find_number(repeat, &args[i], known, count, &number)) {
                    return false;
                }
                if (number < repeat->n_outside && pass == 0) {
                    first[number + 1]++;
                } else if (number < repeat->n_outside) {
                    repeat->places[first[number]++] = (kilni_noted_place){item, i};
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
    repeat->unbound = repeat->device->arena.unbound;
    for (uint32_t l = 0; l < repeat->n_launches; l++) {
        const kilni_noted_launch *noted = &repeat->launches[l];
        kiln_launch launch = noted->launch;
        kiln_launch_arg args[KILN_LAUNCH_ARGS_MAX];
        for (uint32_t i = 0; i < noted->launch.n_args; i++) {
            args[i] = repeat->args[noted->first + i].value;
        }
        launch.args = args;
        if (backend->prepared->prepare(backend, noted->state->built, &launch, &repeat->prepared[l],
                                       &err) != KILN_STATUS_OK) {
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
           (repeat->n_ops == 0 || repeat->unbound == device->arena.unbound) && !is_watched(device);
}

void kilni_repeat_replace(kilni_repeat *repeat, uint32_t outside, kiln_buffer *buffer)
{
    kiln_backend *backend = repeat->device->backend;
    if (repeat->outside[outside] == buffer) {
        return;
    }
    repeat->outside[outside] = buffer;
    for (uint32_t i = repeat->first_place[outside]; i < repeat->first_place[outside + 1]; i++) {
        const kilni_noted_place *at = &repeat->places[i];
        if (at->item < repeat->n_launches) {
            backend->prepared->replace(backend, repeat->prepared[at->item], at->arg, buffer);
        } else {
            const kilni_noted_op *op = &repeat->ops[at->item - repeat->n_launches];
            repeat->views[op->first_view + at->arg].buffer = buffer;
        }
    }
}

static void use_programs(const kilni_repeat *repeat)
{
    for (uint32_t i = 0; i < repeat->n_launches; i++) {
        if (i == 0 || repeat->launches[i].state != repeat->launches[i - 1].state) {
            kilni_block_programs_use(repeat->launches[i].state);
        }
    }
}

kiln_status kilni_repeat_run(kilni_repeat *repeat, bool *out_begun, kiln_error *err)
{
    kiln_device *device = repeat->device;
    kiln_backend *backend = device->backend;
    kiln_status status = KILN_STATUS_OK;
    uint32_t launch = 0;
    use_programs(repeat);
    for (uint32_t i = 0; i <= repeat->n_ops && status == KILN_STATUS_OK; i++) {
        const kilni_noted_op *op = i < repeat->n_ops ? &repeat->ops[i] : NULL;
        uint32_t until = op != NULL ? op->before : repeat->n_launches;
        uint32_t done = 0;
        if (launch < until) {
            status = backend->prepared->enqueue(backend, &repeat->prepared[launch], until - launch,
                                                &done, err);
            *out_begun = *out_begun || done > 0;
            launch = until;
        }
        if (op != NULL && status == KILN_STATUS_OK) {
            const kiln_view *views = &repeat->views[op->first_view];
            *out_begun = true;
            status = backend->device->execute(backend, op->record, views,
                                              views + op->record->n_inputs, err);
        }
    }
    if (status == KILN_STATUS_OK) {
        device->counts.runs_repeated++;
        device->counts.blocks_fused += repeat->each.blocks_fused;
        device->counts.ops_fused += repeat->each.ops_fused;
        device->counts.values_planned += repeat->each.values_planned;
    }
    return status;
}
