// SPDX-License-Identifier: MIT OR Apache-2.0
// Collects what the search did: each block with its candidates, times and winner, for each
// operation left unfused what every fuser said about it, and which tensors are in memory when. Only
// reads what the plan kept; it decides nothing. How it looks is explain_text.c's and the command's.
#include <string.h>

#include "tournament.h"

typedef struct collector {
    kiln_fuse_engine *engine;
    const kiln_fuse_segment *segment;
    const kilni_fuse_plan *plan;
    kiln_explanation *out;
    kiln_arena *arena;
    kilni_fuse_map numbers; ///< token -> tensor
    uint32_t *block_of; ///< per operation
    kiln_explained_op *ops;
    kiln_explained_block *blocks;
    bool failed;
} collector;

static void *room(collector *c, size_t count, size_t bytes_each)
{
    void *made = kiln_arena_alloc(c->arena, (count + 1) * bytes_each);
    c->failed = c->failed || made == NULL;
    if (made != NULL) {
        memset(made, 0, (count + 1) * bytes_each);
    }
    return made;
}

static const char *keep(collector *c, const char *text, size_t length)
{
    char *copy = room(c, length, 1);
    if (copy != NULL && length > 0) {
        memcpy(copy, text, length);
    }
    return copy != NULL ? copy : "";
}

static const char *keep_text(collector *c, const char *text)
{
    return text != NULL ? keep(c, text, strlen(text)) : "";
}

// ---- candidates ----

/// A tournament of this run is newer than what the plan was made with.
static void take_measured(const kilni_fuse_tournament *tournament, uint32_t fuser,
                          kiln_explained_candidate *out)
{
    for (uint32_t i = 0; tournament != NULL && i < tournament->n_rivals; i++) {
        if (tournament->rivals[i].fuser == fuser && tournament->rivals[i].measured_ns > 0) {
            out->measured_ns = tournament->rivals[i].measured_ns;
        }
    }
}

static const kiln_explained_candidate *collect_verdicts(collector *c, uint32_t op,
                                                        const kilni_fuse_tournament *tournament,
                                                        uint32_t *out_count)
{
    const kilni_fuse_plan *plan = c->plan;
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->n_verdicts; i++) {
        count += plan->verdicts[i].first_op == op;
    }
    kiln_explained_candidate *all = room(c, count, sizeof(*all));
    for (uint32_t i = 0; all != NULL && i < plan->n_verdicts; i++) {
        const kilni_fuse_verdict *verdict = &plan->verdicts[i];
        const kilni_fuse_score *s = &verdict->score;
        if (verdict->first_op != op) {
            continue;
        }
        kiln_explained_candidate *out = &all[(*out_count)++];
        *out = (kiln_explained_candidate){.fuser = c->out->fusers[verdict->fuser],
                                          .name = keep_text(c, verdict->name),
                                          .reason = keep_text(c, verdict->reason),
                                          .ready = verdict->ready,
                                          .won = verdict->won,
                                          .measured_ns = verdict->measured_ns};
        if (verdict->ready) {
            out->n_ops = s->n_ops;
            out->n_launches = s->launches;
            out->claimed_ns = s->claimed_ns;
            out->trust = s->trust;
            out->floor_ns = s->floor_ns;
            out->predicted_ns = s->adjusted_ns;
            out->saved_ns = s->benefit_ns;
        }
        take_measured(tournament, verdict->fuser, out);
    }
    return all;
}

// ---- operations and blocks ----

static const uint32_t *collect_operands(collector *c, uint32_t op, size_t first, size_t count)
{
    uint32_t *refs = room(c, count, sizeof(*refs));
    for (size_t i = 0; refs != NULL && i < count; i++) {
        refs[i] = kilni_fuse_map_find(&c->numbers,
                                      (uint64_t)(uintptr_t)c->segment->operands[op][first + i]);
    }
    return refs;
}

static const char *class_name(kiln_op_class cls)
{
    static const char *const names[] = {[KILN_CLASS_ELEMENTWISE] = "elementwise",
                                        [KILN_CLASS_VIEW] = "view",
                                        [KILN_CLASS_REDUCE] = "reduce",
                                        [KILN_CLASS_CONTRACTION] = "contraction",
                                        [KILN_CLASS_GATHER] = "gather",
                                        [KILN_CLASS_WINDOW] = "window",
                                        [KILN_CLASS_ROW] = "row",
                                        [KILN_CLASS_CREATION] = "creation",
                                        [KILN_CLASS_CONTROL] = "control",
                                        [KILN_CLASS_COLLECTIVE] = "collective"};
    return (size_t)cls < sizeof(names) / sizeof(names[0]) && names[cls] != NULL ? names[cls] : "";
}

/// The tensors that `refs` names, numbered as the explanation lists them, from 0.
static const kiln_tensor_desc *numbered(collector *c, const kiln_tensor_desc *tensors,
                                        const uint32_t *refs, size_t count)
{
    kiln_tensor_desc *copies = room(c, count, sizeof(*copies));
    for (size_t i = 0; copies != NULL && refs != NULL && i < count; i++) {
        copies[i] = tensors[i];
        copies[i].id = refs[i] != KILNI_FUSE_NONE ? refs[i] : tensors[i].id;
    }
    return copies;
}

static void collect_op(collector *c, uint32_t op)
{
    const kiln_op_record *record = &c->segment->ops[op];
    const kiln_op_info *info = kiln_op_info_of(record->op);
    const uint32_t *inputs = collect_operands(c, op, 0, record->n_inputs);
    const uint32_t *outputs = collect_operands(c, op, record->n_inputs, record->n_outputs);
    kiln_op_record shown = *record;
    shown.inputs = numbered(c, record->inputs, inputs, record->n_inputs);
    shown.outputs = numbered(c, record->outputs, outputs, record->n_outputs);
    kiln_explained_op *out = &c->ops[op];
    kiln_string text;
    kiln_string_init(&text, c->engine->env);
    if (!c->failed) {
        kiln_ir_print_op(&shown, &text);
    }
    while (text.length > 0 && text.text[text.length - 1] == '\n') {
        text.length--;
    }
    *out = (kiln_explained_op){.name = keep_text(c, info->name),
                               .kind = class_name(info->cls),
                               .text = keep(c, text.text, text.length),
                               .block = c->block_of[op],
                               .step = KILNI_FUSE_NONE,
                               .n_inputs = record->n_inputs,
                               .n_outputs = record->n_outputs,
                               .inputs = inputs,
                               .outputs = outputs};
    c->failed = c->failed || text.failed;
    kiln_string_fini(&text);
    if (out->block == KILNI_FUSE_NONE && record->op != KILN_OP_DROP) {
        out->candidates = collect_verdicts(c, op, NULL, &out->n_candidates);
    }
}

/// What the program's numbers stand for.
static void collect_values(collector *c, const kiln_plan_block *block, kiln_explained_block *out)
{
    uint32_t *tensors = room(c, block->n_tensors, sizeof(*tensors));
    int64_t *symbols = room(c, block->n_symbols, sizeof(*symbols));
    kiln_attr *scalars = room(c, block->n_scalars, sizeof(*scalars));
    if (c->failed) {
        return;
    }
    memcpy(tensors, block->tensors, block->n_tensors * sizeof(*tensors));
    for (uint32_t i = 0; i < block->n_symbols; i++) {
        symbols[i] = c->segment->symbols[block->symbols[i]];
    }
    for (uint32_t i = 0; i < block->n_scalars; i++) {
        scalars[i] = c->segment->scalars[block->scalars[i]];
    }
    out->tensors = tensors;
    out->symbols = symbols;
    out->scalars = scalars;
}

static void collect_block(collector *c, uint32_t index)
{
    const kiln_plan_block *block = &c->plan->plan.blocks[index];
    const kilni_fuse_tournament *tournament =
        c->plan->tournaments != NULL ? &c->plan->tournaments[index] : NULL;
    const char *failure = kilni_fuse_program_failure(c->engine, block->program->key);
    uint32_t *ops = room(c, block->n_ops, sizeof(*ops));
    if (ops == NULL) {
        return;
    }
    memcpy(ops, block->ops, block->n_ops * sizeof(*ops));
    kiln_explained_block *out = &c->blocks[index];
    collect_values(c, block, out);
    *out = (kiln_explained_block){.tensors = out->tensors,
                                  .n_tensors = block->n_tensors,
                                  .symbols = out->symbols,
                                  .n_symbols = block->n_symbols,
                                  .scalars = out->scalars,
                                  .n_scalars = block->n_scalars,
                                  .fuser = keep_text(c, block->fuser),
                                  .ops = ops,
                                  .n_ops = block->n_ops,
                                  .predicted_ns = (double)block->predicted_ns,
                                  .baseline_ns = (double)block->baseline_ns,
                                  .unfused_ns = tournament != NULL ? tournament->unfused_ns : 0,
                                  .failure = failure != NULL ? keep_text(c, failure) : NULL,
                                  .program = block->program};
    out->candidates = collect_verdicts(c, block->ops[0], tournament, &out->n_candidates);
    for (uint32_t i = 0; i < block->n_ops; i++) {
        c->block_of[block->ops[i]] = index;
    }
}

// ---- memory ----

static void put_shape(kiln_string *out, const kiln_tensor_desc *desc)
{
    kiln_string_printf(out, "%s[", kiln_dtype_name(desc->dtype));
    for (uint32_t i = 0; i < desc->rank; i++) {
        kiln_string_printf(out, i == 0 ? "%lld" : ",%lld", (long long)desc->dims[i]);
    }
    kiln_string_append(out, "]", 1);
}

static void collect_tensor(collector *c, uint32_t index)
{
    const kiln_tensor_desc *desc = &c->segment->tensors[index];
    int64_t bytes = kiln_desc_bytes(desc);
    kiln_string text;
    kiln_string_init(&text, c->engine->env);
    put_shape(&text, desc);
    c->out->tensors[index] = (kiln_explained_tensor){.text = keep(c, text.text, text.length),
                                                     .bytes = bytes > 0 ? (uint64_t)bytes : 0,
                                                     .made_by = KILNI_FUSE_NONE,
                                                     .memory = KILNI_FUSE_NONE,
                                                     .first_step = KILNI_FUSE_NONE,
                                                     .last_step = KILNI_FUSE_NONE,
                                                     .input = KILNI_FUSE_NONE,
                                                     .output = KILNI_FUSE_NONE};
    c->failed = c->failed || text.failed;
    kiln_string_fini(&text);
}

static void touch(const collector *c, uint32_t tensor, uint32_t step)
{
    if (tensor != KILNI_FUSE_NONE && c->out->tensors[tensor].first_step == KILNI_FUSE_NONE) {
        c->out->tensors[tensor].first_step = step;
        c->out->tensors[tensor].memory = tensor;
    }
}

/// A view is in its input's memory.
static void touch_op(const collector *c, uint32_t op, uint32_t step)
{
    const kiln_explained_op *explained = &c->ops[op];
    for (uint32_t i = 0; i < explained->n_inputs; i++) {
        touch(c, explained->inputs[i], step);
    }
    for (uint32_t i = 0; i < explained->n_outputs; i++) {
        touch(c, explained->outputs[i], step);
    }
    if (kiln_op_info_of(c->segment->ops[op].op)->cls == KILN_CLASS_VIEW &&
        explained->n_outputs == 1 && explained->outputs[0] != KILNI_FUSE_NONE &&
        explained->inputs[0] != KILNI_FUSE_NONE) {
        c->out->tensors[explained->outputs[0]].memory =
            c->out->tensors[explained->inputs[0]].memory;
    }
}

static uint64_t bytes_of_temps(const collector *c, const kiln_plan_block *block)
{
    const kiln_program *program = block->program;
    int64_t values[KILNI_FUSE_MAX_EXTENTS];
    uint64_t sum = 0;
    uint32_t n =
        block->n_symbols < KILNI_FUSE_MAX_EXTENTS ? block->n_symbols : KILNI_FUSE_MAX_EXTENTS;
    for (uint32_t i = 0; i < n; i++) {
        values[i] = c->segment->symbols[block->symbols[i]];
    }
    for (uint32_t i = 0; i < program->n_temps; i++) {
        int64_t bytes = 0;
        bool known = kiln_formula_eval(&program->temps[i].bytes, values, n, c->engine->facts,
                                       KILN_FACT_COUNT, &bytes, NULL) == KILN_STATUS_OK;
        sum += known && bytes > 0 ? (uint64_t)bytes : 0;
    }
    return sum;
}

static void collect_step(collector *c, uint32_t index)
{
    const kiln_plan_step *step = &c->plan->plan.steps[index];
    kiln_explained_step *out = &c->out->steps[index];
    *out = (kiln_explained_step){.block = step->block, .op = KILNI_FUSE_NONE};
    if (step->kind == KILN_STEP_HOST_OP) {
        out->op = step->index;
        c->ops[step->index].step = index;
        touch_op(c, step->index, index);
        return;
    }
    const kiln_plan_block *block = &c->plan->plan.blocks[step->block];
    const kiln_program_launch *launch = &block->program->launches[step->index];
    out->kernel = keep_text(c, launch->kernel);
    out->live_bytes = bytes_of_temps(c, block);
    for (uint32_t i = 0; i < launch->n_args; i++) {
        if (launch->args[i].kind == KILN_ARG_TENSOR) {
            touch(c, block->tensors[launch->args[i].ref], index);
        }
    }
    for (uint32_t i = 0; i < block->n_ops; i++) {
        kiln_explained_op *op = &c->ops[block->ops[i]];
        if (op->step == KILNI_FUSE_NONE && c->segment->ops[block->ops[i]].op != KILN_OP_DROP) {
            op->step = index;
        }
    }
}

/// The memory of several tensors ends with the last of them.
static void collect_deaths(const collector *c, uint32_t *death)
{
    const kiln_plan *plan = &c->plan->plan;
    kiln_explained_tensor *tensors = c->out->tensors;
    memset(death, 0xFF, plan->n_tensors * sizeof(*death));
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        for (uint32_t k = 0; k < plan->steps[i].n_dies; k++) {
            death[plan->steps[i].dies[k]] = i;
        }
    }
    for (uint32_t i = 0; i < plan->n_tensors; i++) {
        tensors[i].last_step = death[i];
    }
    for (uint32_t i = 0; i < plan->n_tensors; i++) {
        uint32_t memory = tensors[i].memory;
        if (memory != KILNI_FUSE_NONE && memory != i) {
            uint32_t last = tensors[memory].last_step;
            tensors[memory].last_step = last == KILNI_FUSE_NONE || death[i] == KILNI_FUSE_NONE
                                            ? KILNI_FUSE_NONE
                                        : last > death[i] ? last
                                                          : death[i];
        }
    }
}

static void collect_memory(collector *c)
{
    kiln_explanation *out = c->out;
    for (uint32_t i = 0; i < out->n_ops; i++) {
        for (uint32_t k = 0; k < c->ops[i].n_outputs; k++) {
            if (c->ops[i].outputs[k] != KILNI_FUSE_NONE) {
                out->tensors[c->ops[i].outputs[k]].made_by = i;
            }
        }
    }
    for (uint32_t i = 0; i < out->n_tensors; i++) {
        kiln_explained_tensor *tensor = &out->tensors[i];
        bool own = tensor->memory == i;
        if (tensor->made_by == KILNI_FUSE_NONE) {
            tensor->last_step = KILNI_FUSE_NONE;
            out->resident_bytes += own ? tensor->bytes : 0;
            continue;
        }
        out->total_bytes += own ? tensor->bytes : 0;
        uint32_t last = tensor->last_step == KILNI_FUSE_NONE ? out->n_steps : tensor->last_step + 1;
        for (uint32_t step = tensor->first_step; own && step < last; step++) {
            out->steps[step].live_bytes += tensor->bytes;
        }
    }
    out->peak_bytes = out->resident_bytes;
    for (uint32_t i = 0; i < out->n_steps; i++) {
        out->steps[i].live_bytes += out->resident_bytes;
        uint64_t live = out->steps[i].live_bytes;
        out->peak_bytes = live > out->peak_bytes ? live : out->peak_bytes;
    }
}

// ---- all of it ----

static bool make_rooms(collector *c)
{
    const kiln_plan *plan = &c->plan->plan;
    kiln_explanation *out = c->out;
    const char **fusers = room(c, c->engine->n_fusers, sizeof(*fusers));
    for (uint32_t i = 0; fusers != NULL && i < c->engine->n_fusers; i++) {
        fusers[i] = keep_text(c, c->engine->fusers[i].name);
    }
    out->fusers = fusers;
    memcpy(out->facts, c->engine->facts, sizeof(out->facts));
    out->n_fusers = c->engine->n_fusers;
    out->n_ops = plan->n_ops;
    out->n_tensors = plan->n_tensors;
    out->n_steps = plan->n_steps;
    out->n_blocks = plan->n_blocks;
    c->block_of = room(c, plan->n_ops, sizeof(*c->block_of));
    c->ops = room(c, plan->n_ops, sizeof(*c->ops));
    c->blocks = room(c, plan->n_blocks, sizeof(*c->blocks));
    out->ops = c->ops;
    out->blocks = c->blocks;
    out->tensors = room(c, plan->n_tensors, sizeof(*out->tensors));
    out->steps = room(c, plan->n_steps, sizeof(*out->steps));
    c->failed =
        c->failed || !kilni_fuse_map_reserve(&c->numbers, c->engine->env, plan->n_tensors + 1);
    return !c->failed;
}

static void collect(collector *c)
{
    const kiln_plan *plan = &c->plan->plan;
    uint32_t *death = room(c, plan->n_tensors, sizeof(*death));
    memset(c->block_of, 0xFF, plan->n_ops * sizeof(*c->block_of));
    for (uint32_t i = 0; i < plan->n_tensors; i++) {
        uint64_t token = (uint64_t)(uintptr_t)c->segment->tokens[i];
        if (kilni_fuse_map_find(&c->numbers, token) == KILNI_FUSE_NONE) {
            kilni_fuse_map_put(&c->numbers, token, i);
        }
        collect_tensor(c, i);
    }
    for (uint32_t i = 0; i < plan->n_blocks; i++) {
        collect_block(c, i);
    }
    for (uint32_t i = 0; i < plan->n_ops; i++) {
        collect_op(c, i);
    }
    for (uint32_t i = 0; i < plan->n_steps && !c->failed; i++) {
        collect_step(c, i);
    }
    if (!c->failed) {
        collect_deaths(c, death);
        collect_memory(c);
    }
}

kiln_status kiln_fuse_explain_collect(kiln_fuse_engine *engine, const kiln_fuse_segment *segment,
                                      kiln_explanation *out, kiln_error *err)
{
    *out = (kiln_explanation){0};
    kiln_arena_init(&out->arena, engine->env);
    collector c = {.engine = engine,
                   .segment = segment,
                   .plan = (const kilni_fuse_plan *)segment->plan,
                   .out = out,
                   .arena = &out->arena};
    if (make_rooms(&c)) {
        collect(&c);
    }
    kilni_fuse_map_fini(&c.numbers, engine->env);
    if (c.failed) {
        kiln_explanation_fini(out);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an explanation");
    }
    return KILN_STATUS_OK;
}

void kiln_explanation_fini(kiln_explanation *explanation)
{
    if (explanation->arena.env != NULL) {
        kiln_arena_fini(&explanation->arena);
    }
    *explanation = (kiln_explanation){0};
}

kiln_status kiln_fuse_explain(kiln_fuse_engine *engine, const kiln_fuse_segment *segment,
                              uint32_t flags, kiln_string *out, kiln_error *err)
{
    kiln_explanation explanation;
    kiln_status status = kiln_fuse_explain_collect(engine, segment, &explanation, err);
    if (status == KILN_STATUS_OK) {
        kiln_explanation_print(&explanation, flags, out);
        kiln_explanation_fini(&explanation);
    }
    return status == KILN_STATUS_OK && out->failed
               ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an explanation")
               : status;
}
