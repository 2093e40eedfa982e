// SPDX-License-Identifier: MIT OR Apache-2.0
// What a plan's values need: who writes them, when they die, which take over the memory of others
// in place. Decides that from the plan and the extents alone, the way plan_exec.c runs it; where
// they lie is memory_pack.c's. A step's inputs are alive while its results are written. What
// others may hold for longer (inputs and results of collective calls) is left to the pool.

#include "memory_internal.h"
#include "rt_arena.h"
#include "rt_binding.h"
#include "rt_context.h"
#include "rt_device.h"
#include "rt_execute.h"
#include "rt_layout.h"
#include "rt_run.h"
#include "rt_tensor.h"

#include <string.h>

typedef struct maker {
    const kilni_run *run;
    const kiln_plan *plan;
    kilni_layout *layout;
    kiln_view *views; ///< per tensor, as far as `known`
    bool *known; ///< per tensor: it is there, or some step has made it
    uint32_t *death; ///< per tensor: step that it dies with
    uint32_t *root; ///< per tensor: the value whose memory it shows
    uint32_t capacity; ///< of values
} maker;

static uint32_t slot_of(const maker *m, uint32_t op, size_t operand)
{
    return ((const kiln_tensor *)m->run->segment->operands[op][operand])->slot;
}

static uint32_t add_value(maker *m, uint32_t slot, uint32_t step, uint64_t bytes)
{
    uint32_t number = m->layout->n_values++;
    m->layout->values[number] =
        (kilni_value){.object = number, .slot = slot, .first = step, .last = step, .bytes = bytes};
    return number;
}

static void define(maker *m, uint32_t slot, uint32_t step)
{
    const kiln_tensor_desc *desc = &m->run->segment->tensors[slot];
    m->root[slot] = add_value(m, slot, step, (uint64_t)kiln_desc_bytes(desc));
    m->layout->value_of[slot] = m->root[slot];
    m->views[slot] = kiln_view_dense(desc, NULL);
    m->known[slot] = true;
}

// ---- who writes what ----

static void give_to_pool(maker *m, uint32_t slot)
{
    if (m->root[slot] != KILNI_NO_VALUE) {
        m->layout->values[m->root[slot]].pool = true;
    }
}

static bool is_view(const maker *m, const kiln_op_record *record)
{
    return kiln_op_info_of(record->op)->cls == KILN_CLASS_VIEW &&
           (kiln_device_info_of(m->run->device)->features & KILN_FEATURE_OWN_VIEWS) == 0;
}

static void see_op(maker *m, uint32_t step, uint32_t op)
{
    const kiln_op_record *record = &m->run->segment->ops[op];
    if (kiln_op_info_of(record->op)->cls == KILN_CLASS_CONTROL) {
        return;
    }
    uint32_t source = record->n_inputs > 0 ? slot_of(m, op, 0) : 0;
    uint32_t first = slot_of(m, op, record->n_inputs);
    bool collective = kilni_collective_is(record);
    bool shares = record->op == KILN_OP_COLLECTIVE_SYNC;
    if (collective) {
        give_to_pool(m, source);
    }
    kiln_view view;
    if (is_view(m, record) && m->known[source] &&
        kiln_view_apply(record, &m->views[source], &view)) {
        m->views[first] = view;
        shares = true;
    }
    if (shares) {
        m->root[first] = m->root[source];
        m->known[first] = true;
        return;
    }
    for (size_t i = 0; i < record->n_outputs; i++) {
        uint32_t slot = slot_of(m, op, record->n_inputs + i);
        if (!m->known[slot]) {
            define(m, slot, step);
        }
        if (collective) {
            give_to_pool(m, slot);
        }
    }
}

static bool names_tensor(const kiln_program_arg *arg)
{
    return arg->kind == KILN_ARG_TENSOR || arg->kind == KILN_ARG_OFFSET ||
           arg->kind == KILN_ARG_STRIDE;
}

static void see_launch(maker *m, uint32_t step, const kiln_plan_block *block,
                       const kiln_program_launch *launch)
{
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (names_tensor(arg) && !m->known[block->tensors[arg->ref]]) {
            define(m, block->tensors[arg->ref], step);
        }
    }
}

static void see_steps(maker *m)
{
    for (uint32_t i = 0; i < m->plan->n_steps; i++) {
        const kiln_plan_step *step = &m->plan->steps[i];
        if (step->kind == KILN_STEP_HOST_OP) {
            see_op(m, i, step->index);
        } else {
            const kiln_plan_block *block = &m->plan->blocks[step->block];
            see_launch(m, i, block, &block->program->launches[step->index]);
        }
        for (uint32_t k = 0; k < step->n_dies; k++) {
            m->death[step->dies[k]] = i;
        }
    }
}

/// A value lives as long as the last of its views.
static void see_deaths(maker *m)
{
    for (uint32_t slot = 0; slot < m->plan->n_tensors; slot++) {
        if (m->root[slot] == KILNI_NO_VALUE) {
            continue;
        }
        kilni_value *value = &m->layout->values[m->root[slot]];
        if (m->death[slot] == KILNI_NO_VALUE) {
            value->lives = true;
        } else if (m->death[slot] > value->last) {
            value->last = m->death[slot];
        }
    }
}

// ---- in place ----

static bool same_elements(const kiln_view *view, const kiln_tensor_desc *desc)
{
    return view->offset_bytes == 0 && kiln_view_is_contiguous(view) && view->rank == desc->rank &&
           kiln_dtype_size(view->dtype) != 0 &&
           kiln_dtype_size(view->dtype) == kiln_dtype_size(desc->dtype) &&
           memcmp(view->dims, desc->dims, desc->rank * sizeof(desc->dims[0])) == 0;
}

/// Whether the value written to `target` may go on in the memory of `source`, which dies here.
static bool can_take(const maker *m, uint32_t step, uint32_t source, uint32_t target)
{
    if (m->root[source] == KILNI_NO_VALUE || m->death[source] != step) {
        return false;
    }
    const kilni_value *value = &m->layout->values[m->root[source]];
    return !value->pool && !value->lives && !value->taken && value->last == step &&
           value->first < step &&
           same_elements(&m->views[source], &m->run->segment->tensors[target]);
}

static void take(maker *m, uint32_t source, uint32_t target)
{
    kilni_value *from = &m->layout->values[m->root[source]];
    kilni_value *to = &m->layout->values[m->root[target]];
    from->taken = true;
    to->took = true;
    to->object = from->object;
    m->layout->n_in_place++;
}

static bool defined_here(const maker *m, uint32_t step, uint32_t slot)
{
    uint32_t number = m->layout->value_of[slot];
    return number != KILNI_NO_VALUE && m->layout->values[number].first == step &&
           !m->layout->values[number].pool && !m->layout->values[number].took;
}

static void join_op(maker *m, uint32_t step, uint32_t op)
{
    const kiln_op_record *record = &m->run->segment->ops[op];
    for (size_t o = 0; o < record->n_outputs; o++) {
        uint32_t target = slot_of(m, op, record->n_inputs + o);
        for (size_t i = 0; i < kiln_op_givers(record) && defined_here(m, step, target); i++) {
            uint32_t source = slot_of(m, op, i);
            bool alone = true;
            for (size_t k = 0; k < record->n_inputs; k++) {
                uint32_t other = slot_of(m, op, k);
                alone = alone && (other == source || m->root[other] != m->root[source]);
            }
            if (alone && can_take(m, step, source, target)) {
                take(m, source, target);
            }
        }
    }
}

/// The tensor that the program may overwrite with tensor `ref` of the block; KILNI_NO_VALUE: none.
static uint32_t find_source(const maker *m, uint32_t step, const kiln_plan_block *block,
                            const kiln_program_launch *launch, uint32_t ref)
{
    uint32_t target = block->tensors[ref];
    uint32_t group = kilni_arg_group(launch, ref);
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (!kilni_arg_gives_way(launch, i, group)) {
            continue;
        }
        uint32_t source = block->tensors[arg->ref];
        bool alone = true;
        for (uint32_t k = 0; k < launch->n_args; k++) {
            const kiln_program_arg *other = &launch->args[k];
            uint32_t slot = names_tensor(other) ? block->tensors[other->ref] : source;
            alone = alone && (slot == source || m->root[slot] != m->root[source]);
        }
        if (alone && can_take(m, step, source, target)) {
            return source;
        }
    }
    return KILNI_NO_VALUE;
}

static void join_launch(maker *m, uint32_t step, const kiln_plan_block *block,
                        const kiln_program_launch *launch)
{
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        uint32_t target = names_tensor(arg) ? block->tensors[arg->ref] : KILNI_NO_VALUE;
        if (target == KILNI_NO_VALUE || !defined_here(m, step, target)) {
            continue;
        }
        uint32_t source = find_source(m, step, block, launch, arg->ref);
        if (source != KILNI_NO_VALUE) {
            take(m, source, target);
        }
    }
}

static void join_steps(maker *m)
{
    for (uint32_t i = 0; i < m->plan->n_steps; i++) {
        const kiln_plan_step *step = &m->plan->steps[i];
        if (step->kind == KILN_STEP_HOST_OP) {
            join_op(m, i, step->index);
            continue;
        }
        const kiln_plan_block *block = &m->plan->blocks[step->block];
        if ((block->program->flags & KILN_PROGRAM_IN_PLACE_SAFE) != 0) {
            join_launch(m, i, block, &block->program->launches[step->index]);
        }
    }
}

// ---- temporaries ----

/// Whether a launch before the block's first step may write it.
static bool is_prepacked(const kiln_program *program, uint32_t temp)
{
    for (uint32_t i = 0; i < program->n_temps; i++) {
        if ((program->temps[i].flags & KILN_TEMP_PERSISTENT) == 0) {
            continue;
        }
        const kiln_program_launch *launch = &program->launches[program->temps[i].prepack_launch];
        for (uint32_t k = 0; k < launch->n_args; k++) {
            if (launch->args[k].kind == KILN_ARG_TEMP && launch->args[k].ref == temp) {
                return true;
            }
        }
    }
    return false;
}

/// A temporary is alive from the first launch that names it to the last.
static void add_temps(maker *m, uint32_t index, uint32_t first_step)
{
    const kiln_plan_block *block = &m->plan->blocks[index];
    kilni_layout *layout = m->layout;
    layout->temps_of[index] = layout->n_values;
    for (uint32_t i = 0; i < block->program->n_temps; i++) {
        const kiln_program_temp *temp = &block->program->temps[i];
        uint64_t bytes = kiln_fuse_temp_bytes(&m->run->device->context->env, m->run->device->facts,
                                              m->run->segment, block, i);
        uint32_t number = add_value(m, KILNI_NO_VALUE, first_step, bytes);
        layout->values[number].kept = (temp->flags & KILN_TEMP_PERSISTENT) != 0;
        layout->values[number].pool = (temp->flags & KILN_TEMP_PERSISTENT) != 0 || bytes == 0;
        layout->values[number].begun = is_prepacked(block->program, i);
    }
}

static void see_temps(maker *m)
{
    for (uint32_t i = 0; i < m->plan->n_steps; i++) {
        const kiln_plan_step *step = &m->plan->steps[i];
        if (step->block == UINT32_MAX) {
            continue;
        }
        const kiln_program *program = m->plan->blocks[step->block].program;
        if (m->layout->temps_of[step->block] == KILNI_NO_VALUE) {
            add_temps(m, step->block, i);
        }
        if (step->kind != KILN_STEP_LAUNCH) {
            continue;
        }
        const kiln_program_launch *launch = &program->launches[step->index];
        for (uint32_t k = 0; k < launch->n_args; k++) {
            if (launch->args[k].kind == KILN_ARG_TEMP) {
                kilni_value *value =
                    &m->layout->values[m->layout->temps_of[step->block] + launch->args[k].ref];
                value->first = value->begun ? value->first : i;
                value->begun = true;
                value->last = i;
            }
        }
    }
}

static void add_scratch(maker *m)
{
    kilni_layout *layout = m->layout;
    uint32_t at = 0;
    layout->n_known = layout->n_learned;
    for (uint32_t step = 0; step <= m->plan->n_steps; step++) {
        layout->scratch_of[step] = layout->n_values;
        for (; at < layout->n_learned && layout->learned[at].step == step; at++) {
            (void)add_value(m, KILNI_NO_VALUE, step, layout->learned[at].bytes);
        }
    }
}

// ---- objects ----

/// One object for each value that did not take over another's; numbered like the values.
static void make_objects(kilni_layout *layout)
{
    layout->n_objects = layout->n_values;
    for (uint32_t i = 0; i < layout->n_values; i++) {
        const kilni_value *value = &layout->values[i];
        kilni_object *object = &layout->objects[value->object];
        if (!value->took) {
            *object = (kilni_object){.home = KILNI_HOME_ARENA,
                                     .first = value->first,
                                     .last = value->last,
                                     .host = KILNI_NO_VALUE};
            layout->all_bytes += value->kept ? 0 : value->bytes;
        }
        object->bytes = value->bytes > object->bytes ? value->bytes : object->bytes;
        object->last = value->last > object->last ? value->last : object->last;
        if (value->pool || value->bytes == 0) {
            object->home = KILNI_HOME_POOL;
        } else if (value->lives) {
            object->home = KILNI_HOME_RESULT;
        }
        if (value->lives) {
            object->last = layout->n_steps;
        }
    }
}

static void count(kilni_layout *layout, uint64_t *live)
{
    for (uint32_t i = 0; i < layout->n_objects; i++) {
        const kilni_object *object = &layout->objects[i];
        if (layout->values[i].took || layout->values[i].kept) {
            continue;
        }
        layout->result_bytes += object->home == KILNI_HOME_RESULT ? object->bytes : 0;
        live[object->first] += object->bytes;
        live[object->last + 1] -= object->bytes;
    }
    uint64_t now = 0;
    for (uint32_t i = 0; i <= layout->n_steps; i++) {
        now += live[i];
        layout->bound_bytes = now > layout->bound_bytes ? now : layout->bound_bytes;
    }
    layout->idle = true;
    for (uint32_t i = 0; i < layout->n_values; i++) {
        kilni_home home = layout->objects[layout->values[i].object].home;
        bool planned =
            home != KILNI_HOME_POOL && (home != KILNI_HOME_RESULT || layout->values[i].took);
        layout->n_planned += planned;
        layout->idle = layout->idle && !planned;
    }
}

// ---- all of it ----

static uint32_t count_values(const kiln_plan *plan, const kilni_layout *layout)
{
    uint64_t values = (uint64_t)plan->n_tensors + layout->n_learned;
    for (uint32_t i = 0; i < plan->n_blocks; i++) {
        values += plan->blocks[i].program->n_temps;
    }
    return values < UINT32_MAX ? (uint32_t)values : UINT32_MAX - 1;
}

static bool reserve(maker *m, kiln_arena *scratch, uint64_t **out_live)
{
    kilni_layout *layout = m->layout;
    const kiln_plan *plan = m->plan;
    uint32_t n = plan->n_tensors;
    kiln_arena *kept = &layout->memory;
    m->capacity = count_values(plan, layout);
    size_t values = (size_t)m->capacity + 1;
    layout->values = kiln_arena_alloc(kept, values * sizeof(*layout->values));
    layout->objects = kiln_arena_alloc(kept, values * sizeof(*layout->objects));
    layout->loans = kiln_arena_alloc(kept, values * sizeof(*layout->loans));
    layout->value_of = kiln_arena_alloc(kept, (n + 1) * sizeof(*layout->value_of));
    layout->temps_of = kiln_arena_alloc(kept, (plan->n_blocks + 1) * sizeof(*layout->temps_of));
    layout->scratch_of = kiln_arena_alloc(kept, (plan->n_steps + 1) * sizeof(*layout->scratch_of));
    layout->symbols =
        kiln_arena_copy(kept, m->run->segment->symbols, plan->n_symbols * sizeof(*layout->symbols));
    m->views = kiln_arena_alloc(scratch, (n + 1) * sizeof(*m->views));
    m->known = kiln_arena_alloc(scratch, (n + 1) * sizeof(*m->known));
    m->death = kiln_arena_alloc(scratch, (n + 1) * sizeof(*m->death));
    m->root = kiln_arena_alloc(scratch, (n + 1) * sizeof(*m->root));
    *out_live = kiln_arena_alloc(scratch, (plan->n_steps + 2) * sizeof(**out_live));
    return layout->values != NULL && layout->objects != NULL && layout->loans != NULL &&
           layout->value_of != NULL && layout->temps_of != NULL && layout->scratch_of != NULL &&
           layout->symbols != NULL && m->views != NULL && m->known != NULL && m->death != NULL &&
           m->root != NULL && *out_live != NULL;
}

static void start(maker *m)
{
    for (uint32_t i = 0; i < m->plan->n_tensors; i++) {
        const kilni_binding *binding = m->run->bindings[i];
        m->death[i] = m->root[i] = m->layout->value_of[i] = KILNI_NO_VALUE;
        m->known[i] = binding->bound;
        m->views[i] = binding->bound && binding->fault == NULL
                          ? binding->view
                          : kiln_view_dense(&m->run->segment->tensors[i], NULL);
    }
    for (uint32_t i = 0; i < m->plan->n_blocks; i++) {
        m->layout->temps_of[i] = KILNI_NO_VALUE;
    }
}

kilni_layout *kilni_layout_create(const kilni_run *run, kilni_layout *before)
{
    const kiln_env *env = &run->device->context->env;
    kilni_layout *layout = kiln_alloc(env, sizeof(*layout));
    if (layout == NULL) {
        return NULL;
    }
    kiln_arena_init(&layout->memory, env);
    layout->device = run->device;
    layout->n_steps = run->segment->plan->n_steps;
    if (before != NULL) {
        layout->learned = before->learned;
        layout->n_learned = before->n_learned;
        layout->learned_capacity = before->learned_capacity;
        before->learned = NULL;
        before->n_learned = before->learned_capacity = 0;
    }
    kiln_arena scratch;
    kiln_arena_init(&scratch, env);
    maker m = {.run = run, .plan = run->segment->plan, .layout = layout};
    uint64_t *live = NULL;
    bool made = reserve(&m, &scratch, &live);
    if (made) {
        start(&m);
        see_steps(&m);
        see_deaths(&m);
        join_steps(&m);
        see_temps(&m);
        add_scratch(&m);
        make_objects(layout);
        count(layout, live);
        uint64_t align = kiln_device_info_of(run->device)->memory_align;
        made = kilni_layout_pack(layout, align > 0 ? align : 128);
    }
    kiln_arena_fini(&scratch);
    if (!made) {
        kiln_free(env, layout->learned);
        kiln_arena_fini(&layout->memory);
        kiln_free(env, layout);
        return NULL;
    }
    return layout;
}
