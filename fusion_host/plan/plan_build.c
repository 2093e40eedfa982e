// SPDX-License-Identifier: MIT OR Apache-2.0
// Turns chosen blocks into a plan: the steps in order, and after which step each dropped tensor
// dies. What only makes values that nobody reads before they are dropped has no step. Every tensor
// whose drop the plan covers is in exactly one list. One that no step touches dies at a step of its
// own, the drop, when nothing before it could carry it. Which blocks there are was decided by
// search.c.
#include <string.h>

#include "fuse_plan.h"
#include "tournament.h"

typedef struct builder {
    const kilni_fuse_recorded *recorded;
    const kilni_fuse_blocks *blocks;
    kiln_arena *arena;
    const uint32_t *order; ///< as kilni_fuse_order gives it
    uint32_t n_order;
    bool *idle; ///< per entry of the order: nobody wants what it makes
    kiln_plan_step *steps;
    uint32_t n_steps;
    uint32_t *last_use; ///< per recorded tensor: step that uses it last, or NONE
    uint32_t *drop_step; ///< per recorded tensor: step current at its drop, or NONE when it is not
                         ///< dropped
} builder;

// ---- who is wanted ----

enum { DROPPED = 1, READ = 2 }; ///< of a tensor

/// Other devices wait for a collective operation. All others are pure, those of plugins too.
static bool is_wanted(const builder *b, uint32_t op, const uint8_t *tensors)
{
    const kiln_op_record *record = &b->recorded->ops[op];
    const uint32_t *outputs = b->recorded->marks[op].refs + record->n_inputs;
    if (record->op == KILN_OP_DROP) {
        return false;
    }
    bool wanted = record->n_outputs == 0 ||
                  kiln_op_info_of(record->op)->cls == KILN_CLASS_COLLECTIVE ||
                  kiln_op_info_of(record->op)->cls == KILN_CLASS_CONTROL;
    for (uint32_t i = 0; i < record->n_outputs; i++) {
        wanted = wanted || tensors[outputs[i]] != DROPPED;
    }
    return wanted;
}

static void mark_read(const builder *b, uint32_t op, uint8_t *tensors)
{
    for (uint32_t i = 0;
         b->recorded->ops[op].op != KILN_OP_DROP && i < b->recorded->ops[op].n_inputs; i++) {
        tensors[b->recorded->marks[op].refs[i]] |= READ;
    }
}

/// From the last to the first: who reads a value comes after who makes it.
static bool find_idle(builder *b, uint32_t n_tensors)
{
    uint8_t *tensors = kiln_alloc(b->recorded->env, n_tensors + 1);
    b->idle = kiln_arena_alloc(b->arena, b->n_order * sizeof(*b->idle));
    if (tensors == NULL || b->idle == NULL) {
        kiln_free(b->recorded->env, tensors);
        return false;
    }
    for (uint32_t op = 0; op < b->blocks->n_covered; op++) {
        if (b->recorded->ops[op].op == KILN_OP_DROP) {
            tensors[b->recorded->marks[op].refs[0]] = DROPPED;
        }
    }
    for (uint32_t i = b->n_order; i-- > 0;) {
        uint32_t single = b->order[i] & ~KILNI_FUSE_SINGLE;
        bool unfused = (b->order[i] & KILNI_FUSE_SINGLE) != 0;
        const uint32_t *ops = unfused ? &single : b->blocks->blocks[b->order[i]].ops;
        uint32_t n_ops = unfused ? 1 : b->blocks->blocks[b->order[i]].len;
        bool wanted = false;
        for (uint32_t k = 0; k < n_ops; k++) {
            wanted = wanted || is_wanted(b, ops[k], tensors);
        }
        for (uint32_t k = 0; wanted && k < n_ops; k++) {
            mark_read(b, ops[k], tensors);
        }
        b->idle[i] = !wanted;
    }
    kiln_free(b->recorded->env, tensors);
    return true;
}

// ---- steps ----

static uint32_t count_steps(const kilni_fuse_blocks *blocks)
{
    uint32_t count = blocks->n_covered + 1; // each operation unfused, or a drop
    for (uint32_t i = 0; i < blocks->n_blocks; i++) {
        count += blocks->blocks[i].program->n_steps;
    }
    return count;
}

static void use_operands(builder *b, uint32_t op, uint32_t step)
{
    const kiln_op_record *record = &b->recorded->ops[op];
    uint32_t operands = (uint32_t)record->n_inputs + record->n_outputs;
    for (uint32_t i = 0; i < operands; i++) {
        b->last_use[b->recorded->marks[op].refs[i]] = step;
    }
}

static void use_args(builder *b, const kilni_fuse_block *block, uint32_t launch, uint32_t step)
{
    const kiln_program_launch *l = &block->program->launches[launch];
    for (uint32_t i = 0; i < l->n_args; i++) {
        if (l->args[i].kind == KILN_ARG_TENSOR || l->args[i].kind == KILN_ARG_OFFSET ||
            l->args[i].kind == KILN_ARG_STRIDE) {
            b->last_use[block->tensors[l->args[i].ref]] = step;
        }
    }
}

static void add_host_op(builder *b, uint32_t op, uint32_t block)
{
    use_operands(b, op, b->n_steps);
    b->steps[b->n_steps++] =
        (kiln_plan_step){.kind = KILN_STEP_HOST_OP, .block = block, .index = op};
}

static void add_block(builder *b, uint32_t index)
{
    const kilni_fuse_block *block = &b->blocks->blocks[index];
    for (uint32_t i = 0; i < block->program->n_steps; i++) {
        const kiln_program_step *step = &block->program->steps[i];
        if (step->kind == KILN_STEP_HOST_OP) {
            add_host_op(b, block->ops[step->index], index);
            continue;
        }
        use_args(b, block, step->index, b->n_steps);
        b->steps[b->n_steps++] =
            (kiln_plan_step){.kind = KILN_STEP_LAUNCH, .block = index, .index = step->index};
    }
}

/// A dropped tensor that no step uses dies with the step before its drop, or with the drop itself.
static void add_drop(builder *b, uint32_t op)
{
    uint32_t tensor = b->recorded->marks[op].refs[0];
    if (b->n_steps == 0) {
        b->steps[b->n_steps++] =
            (kiln_plan_step){.kind = KILN_STEP_HOST_OP, .block = KILNI_FUSE_NONE, .index = op};
    }
    b->drop_step[tensor] = b->n_steps - 1;
}

/// The drops right behind an operation, and those before the first one.
static void add_drops(builder *b, uint32_t from)
{
    for (uint32_t op = from; op < b->blocks->n_covered && b->recorded->ops[op].op == KILN_OP_DROP;
         op++) {
        add_drop(b, op);
    }
}

static void add_steps(builder *b)
{
    add_drops(b, 0);
    for (uint32_t i = 0; i < b->n_order; i++) {
        if ((b->order[i] & KILNI_FUSE_SINGLE) != 0) {
            uint32_t op = b->order[i] & ~KILNI_FUSE_SINGLE;
            if (!b->idle[i]) {
                add_host_op(b, op, KILNI_FUSE_NONE);
            }
            add_drops(b, op + 1);
            continue;
        }
        const kilni_fuse_block *block = &b->blocks->blocks[b->order[i]];
        if (!b->idle[i]) {
            add_block(b, b->order[i]);
        }
        for (uint32_t k = 0; k < block->len; k++) {
            if (b->recorded->ops[block->ops[k]].op != KILN_OP_DROP) {
                add_drops(b, block->ops[k] + 1);
            }
        }
    }
}

static uint32_t death_of(const builder *b, uint32_t tensor)
{
    if (b->drop_step[tensor] == KILNI_FUSE_NONE) {
        return KILNI_FUSE_NONE;
    }
    uint32_t used = b->last_use[tensor];
    return used != KILNI_FUSE_NONE ? used : b->drop_step[tensor];
}

/// Two passes: how many die at each step, then who.
static bool add_deaths(builder *b, uint32_t n_tensors)
{
    uint32_t *all = kiln_arena_alloc(b->arena, n_tensors * sizeof(*all));
    if (all == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < n_tensors; i++) {
        uint32_t step = death_of(b, i);
        if (step != KILNI_FUSE_NONE) {
            b->steps[step].n_dies++;
        }
    }
    for (uint32_t i = 0; i < b->n_steps; i++) {
        b->steps[i].dies = all;
        all += b->steps[i].n_dies;
        b->steps[i].n_dies = 0;
    }
    for (uint32_t i = 0; i < n_tensors; i++) {
        uint32_t step = death_of(b, i);
        if (step != KILNI_FUSE_NONE) {
            uint32_t *dies = (uint32_t *)(uintptr_t)b->steps[step].dies;
            dies[b->steps[step].n_dies++] = i;
        }
    }
    return true;
}

/// A time that a fuser claimed or a file had may be any number.
static uint64_t whole_ns(double ns)
{
    const double most = 9e18;
    return ns > 0 ? (uint64_t)(ns < most ? ns : most) : 0;
}

static bool fill_block(kiln_arena *arena, const kiln_fuse_engine *engine,
                       const kilni_fuse_block *block, kiln_plan_block *out)
{
    *out = (kiln_plan_block){
        .program = block->program,
        .fuser = kiln_arena_copy(arena, engine->fusers[block->fuser].name,
                                 strlen(engine->fusers[block->fuser].name) + 1),
        .ops = block->ops,
        .n_ops = block->len,
        .tensors = block->tensors,
        .n_tensors = block->n_tensors,
        .symbols = block->symbols,
        .n_symbols = block->n_symbols,
        .scalars = block->scalars,
        .n_scalars = block->n_scalars,
        .predicted_ns = whole_ns(block->score.adjusted_ns),
        .baseline_ns = whole_ns(block->score.baseline_ns),
    };
    return out->fuser != NULL;
}

static bool fill_blocks(kilni_fuse_plan *plan, const kiln_fuse_engine *engine,
                        const kilni_fuse_recorded *recorded, const kilni_fuse_blocks *blocks,
                        kiln_arena *arena)
{
    uint32_t n = blocks->n_blocks;
    plan->plan.blocks = kiln_arena_alloc(arena, n * sizeof(*plan->plan.blocks));
    uint32_t *fusers = kiln_arena_alloc(arena, n * sizeof(*fusers));
    plan->guards = kiln_arena_copy(arena, blocks->guards, blocks->n_guards * sizeof(*plan->guards));
    plan->verdicts =
        kiln_arena_copy(arena, blocks->verdicts, blocks->n_verdicts * sizeof(*plan->verdicts));
    plan->tournaments = kiln_arena_alloc(arena, n * sizeof(*plan->tournaments));
    if (plan->plan.blocks == NULL || fusers == NULL || plan->guards == NULL ||
        plan->tournaments == NULL || plan->verdicts == NULL) {
        return false;
    }
    plan->block_fusers = fusers;
    plan->n_guards = blocks->n_guards;
    plan->n_verdicts = blocks->n_verdicts;
    plan->guarded = blocks->n_guards > 0;
    for (uint32_t i = 0; i < n; i++) {
        const kilni_fuse_block *block = &blocks->blocks[i];
        if (!fill_block(arena, engine, block, &plan->plan.blocks[i])) {
            return false;
        }
        plan->plan.n_blocks = i + 1;
        fusers[i] = block->fuser;
        plan->tournaments[i] = (kilni_fuse_tournament){block->rivals, block->n_rivals,
                                                       block->settled, block->unfused_ns};
        plan->guarded = plan->guarded || block->program->guard.count > 0;
        for (uint32_t op = 0; op < block->len; op++) {
            plan->n_ops_fused += recorded->ops[block->ops[op]].op != KILN_OP_DROP;
        }
    }
    return true;
}

static bool build_steps(kilni_fuse_plan *plan, const kilni_fuse_recorded *recorded,
                        const kilni_fuse_blocks *blocks, const uint32_t *order, uint32_t n_order,
                        kiln_arena *arena)
{
    uint32_t n_tensors = plan->plan.n_tensors;
    builder b = {
        .recorded = recorded, .blocks = blocks, .arena = arena, .order = order, .n_order = n_order};
    b.steps = kiln_arena_alloc(arena, count_steps(blocks) * sizeof(*b.steps));
    b.last_use = kiln_alloc_array(recorded->env, (size_t)n_tensors * 2 + 1, sizeof(*b.last_use));
    bool ok = b.steps != NULL && b.last_use != NULL;
    if (ok) {
        memset(b.last_use, 0xFF, (size_t)n_tensors * 2 * sizeof(*b.last_use));
        b.drop_step = b.last_use + n_tensors;
        ok = find_idle(&b, n_tensors);
    }
    if (ok) {
        add_steps(&b);
        ok = add_deaths(&b, n_tensors);
        plan->plan.steps = b.steps;
        plan->plan.n_steps = b.n_steps;
    }
    kiln_free(recorded->env, b.last_use);
    return ok;
}

kiln_status kilni_fuse_plan_build(const kiln_fuse_engine *engine,
                                  const kilni_fuse_recorded *recorded, kilni_fuse_blocks *blocks,
                                  kiln_arena *arena, kilni_fuse_plan **out_plan, kiln_error *err)
{
    uint32_t *order = kiln_arena_alloc(arena, blocks->n_covered * sizeof(*order));
    uint32_t n_order = 0;
    if (order != NULL) {
        kiln_status status = kilni_fuse_order(recorded, blocks, order, &n_order, err);
        if (status != KILN_STATUS_OK) {
            kiln_arena_fini(arena);
            return status;
        }
    }
    const kilni_fuse_mark *end = &recorded->marks[blocks->n_covered - 1];
    kilni_fuse_plan *plan = kiln_arena_alloc(arena, sizeof(*plan));
    bool ok = plan != NULL && order != NULL;
    if (ok) {
        plan->plan.n_ops = blocks->n_covered;
        plan->plan.n_tensors = end->n_tensors;
        plan->plan.n_symbols = end->n_symbols;
        plan->plan.n_scalars = end->n_scalars;
        ok = fill_blocks(plan, engine, recorded, blocks, arena) &&
             build_steps(plan, recorded, blocks, order, n_order, arena);
    }
    if (!ok) {
        kiln_arena_fini(arena);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a plan");
    }
    plan->arena = *arena;
    *arena = (kiln_arena){.env = recorded->env};
    *out_plan = plan;
    return KILN_STATUS_OK;
}
