// SPDX-License-Identifier: MIT OR Apache-2.0
// Streams: what was recorded, where it stands in the plan store, and what to hand out. A repeated
// program walks the store's tree and takes its plan without a call of a fuser and without an
// allocation; an unknown one is searched. Two recorded segments take turns: what a segment leaves
// over is written to the other one, with numbers from 0.
#include <string.h>

#include "fuse_plan.h"
#include "fuse_stream.h"
#include "tournament.h"

kiln_status kiln_fuse_stream_create(kiln_fuse_engine *engine, bool whole,
                                    kiln_fuse_stream **out_stream, kiln_error *err)
{
    *out_stream = NULL;
    kiln_fuse_stream *stream = kiln_alloc(engine->env, sizeof(*stream));
    if (stream == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a stream");
    }
    stream->engine = engine;
    stream->whole = whole;
    kilni_fuse_recorded_init(&stream->recorded[0], engine->env, engine->device.memory_align);
    kilni_fuse_recorded_init(&stream->recorded[1], engine->env, engine->device.memory_align);
    kilni_fuse_position_init(&stream->first);
    stream->node = engine->plans.root;
    stream->node->uses++;
    *out_stream = stream;
    return KILN_STATUS_OK;
}

void kiln_fuse_stream_destroy(kiln_fuse_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    kiln_fuse_engine *engine = stream->engine;
    if (stream->handed != NULL) {
        kilni_fuse_plan_store_release(&engine->plans, stream->handed);
    }
    kilni_fuse_position_fini(&stream->first, engine);
    kilni_fuse_plan_store_leave(&engine->plans, stream->node);
    kiln_free(engine->env, stream->values);
    kilni_fuse_recorded_fini(&stream->recorded[0]);
    kilni_fuse_recorded_fini(&stream->recorded[1]);
    kiln_free(engine->env, stream);
}

bool kiln_fuse_stream_vary(kiln_fuse_stream *stream, bool on)
{
    bool before = stream->varying;
    stream->varying = on;
    return before;
}

/// Between next and done the active recorded segment is being read, so what comes goes behind the
/// rest.
kiln_status kiln_fuse_stream_push(kiln_fuse_stream *stream, const kiln_op_record *record,
                                  void *const *tokens, kiln_error *err)
{
    bool running = stream->handed != NULL;
    const kilni_fuse_recorded *before = running ? &stream->recorded[stream->active] : NULL;
    kilni_fuse_recorded *recorded =
        &stream->recorded[running ? 1 - stream->active : stream->active];
    kiln_status status = kilni_fuse_recorded_push(recorded, record, tokens, before, err);
    if (status == KILN_STATUS_OK && record->op != KILN_OP_DROP) {
        stream->engine->stats.ops_recorded++;
    }
    return status;
}

size_t kiln_fuse_stream_pending(const kiln_fuse_stream *stream)
{
    bool running = stream->handed != NULL;
    return stream->recorded[running ? 1 - stream->active : stream->active].n_ops;
}

/// Nothing of the recorded segment has been looked at yet.
static void walk_anew(kiln_fuse_stream *stream, kiln_fuse_engine *engine)
{
    kilni_fuse_position_reset(&stream->first, stream->engine);
    kilni_fuse_plan_store_leave(&stream->engine->plans, stream->node);
    stream->engine = engine;
    stream->node = engine->plans.root;
    stream->node->uses++;
    stream->walked = 0;
}

/// Puts the stream back to the beginning, with the other recorded segment.
static void start_over(kiln_fuse_stream *stream)
{
    walk_anew(stream, stream->engine);
    kilni_fuse_recorded_clear(&stream->recorded[stream->active]);
    stream->active = 1 - stream->active;
}

void kiln_fuse_stream_move(kiln_fuse_stream *stream, kiln_fuse_engine *engine)
{
    if (stream->handed == NULL) {
        kilni_fuse_position_fini(&stream->first, stream->engine);
        kilni_fuse_position_init(&stream->first);
        walk_anew(stream, engine);
    }
}

void kiln_fuse_stream_discard(kiln_fuse_stream *stream, void (*each)(void *token, void *user),
                              void *user)
{
    const kilni_fuse_recorded *recorded = &stream->recorded[stream->active];
    if (stream->handed != NULL) {
        return;
    }
    for (uint32_t op = 0; op < recorded->n_ops; op++) {
        uint32_t operands = (uint32_t)recorded->ops[op].n_inputs + recorded->ops[op].n_outputs;
        for (uint32_t i = 0; i < operands; i++) {
            each(recorded->operands[op][i], user);
        }
    }
    kilni_fuse_recorded_clear(&stream->recorded[1 - stream->active]);
    start_over(stream);
}

static kiln_status walk(kiln_fuse_stream *stream, uint32_t end, kiln_error *err)
{
    const kilni_fuse_recorded *recorded = &stream->recorded[stream->active];
    while (stream->walked < end) {
        uint32_t n_words = 0;
        const uint32_t *words = kilni_fuse_recorded_words(recorded, stream->walked, &n_words);
        kiln_status status =
            kilni_fuse_plan_store_step(&stream->engine->plans, &stream->node, words, n_words, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        stream->walked++;
    }
    return KILN_STATUS_OK;
}

/// Without a drain a plan exists only once the fusers at the beginning are finished: before that
/// the disk is not asked.
static bool may_be_known(kiln_fuse_stream *stream, uint32_t end, bool full)
{
    const kilni_fuse_recorded *recorded = &stream->recorded[stream->active];
    kilni_fuse_position *first = &stream->first;
    uint32_t seed = 0;
    while (seed < end && recorded->ops[seed].op == KILN_OP_DROP) {
        seed++;
    }
    if (full || seed == end || stream->engine->store == NULL) {
        return full;
    }
    bool fed = kilni_fuse_hazards_learn(&first->hazards, recorded, end) &&
               kilni_fuse_position_feed(first, stream->engine, &first->hazards, seed, end, NULL) ==
                   KILN_STATUS_OK;
    kilni_fuse_set_late(stream->engine, 0);
    return fed && first->finished;
}

/// A segment that is cut for its length ends, if it can, where a block does: what the fusers had
/// only begun there goes to the next segment.
static kiln_status choose_blocks(kiln_fuse_stream *stream, uint32_t end, bool full,
                                 kiln_arena *arena, kilni_fuse_blocks *blocks, kiln_error *err)
{
    kiln_fuse_engine *engine = stream->engine;
    const kilni_fuse_recorded *recorded = &stream->recorded[stream->active];
    bool cut = full && !stream->whole && !stream->varying && end == engine->max_segment;
    kilni_fuse_cover cover = cut    ? KILNI_FUSE_COVER_FIRST
                             : full ? KILNI_FUSE_COVER_ALL
                                    : KILNI_FUSE_COVER_SETTLED;
    kiln_status status =
        kilni_fuse_search(engine, recorded, end, cover, &stream->first, arena, blocks, err);
    if (status == KILN_STATUS_OK && cut && blocks->n_covered == 0) {
        status = kilni_fuse_search(engine, recorded, end, KILNI_FUSE_COVER_ALL, &stream->first,
                                   arena, blocks, err);
    }
    return status;
}

/// A new plan for the first `end` operations and the sizes at hand; NULL when it is better to wait.
static kiln_status search(kiln_fuse_stream *stream, uint32_t end, bool full, uint64_t size_class,
                          kilni_fuse_plan **out_plan, kiln_error *err)
{
    kiln_fuse_engine *engine = stream->engine;
    const kilni_fuse_recorded *recorded = &stream->recorded[stream->active];
    kilni_fuse_blocks blocks = {0};
    kiln_arena arena;
    kiln_arena_init(&arena, engine->env);
    kiln_status status = KILN_STATUS_OK;
    bool loaded = may_be_known(stream, end, full) &&
                  kilni_fuse_disk_get(engine, recorded, end, full, size_class, &arena, &blocks);
    if (!loaded) {
        status = choose_blocks(stream, end, full, &arena, &blocks, err);
    }
    if (status == KILN_STATUS_OK && blocks.n_covered == 0) {
        stream->node->wait = KILNI_FUSE_WAIT_YES;
        stream->node->wait_epoch = atomic_load(&engine->registry->epoch);
    } else if (status == KILN_STATUS_OK) {
        kilni_fuse_recall(engine, recorded, &arena, &blocks);
        status = kilni_fuse_plan_build(engine, recorded, &blocks, &arena, out_plan, err);
    }
    if (*out_plan != NULL) {
        (*out_plan)->full = full;
        (*out_plan)->size_class = size_class;
        kilni_fuse_plan_store_insert(&engine->plans, stream->node, *out_plan);
        engine->stats.plans_searched += !loaded;
        engine->stats.plans_loaded += loaded;
        if (!loaded) {
            kilni_fuse_disk_put(engine, recorded, end, full, size_class, &blocks);
        }
    }
    kiln_arena_fini(&arena);
    kilni_fuse_blocks_fini(&blocks, engine->env);
    return status;
}

/// Writes what the plan leaves over to the other recorded segment; `done` then only switches.
static kiln_status keep_rest(kiln_fuse_stream *stream, uint32_t n_taken, kiln_error *err)
{
    const kilni_fuse_recorded *recorded = &stream->recorded[stream->active];
    kilni_fuse_recorded *rest = &stream->recorded[1 - stream->active];
    kilni_fuse_recorded_clear(rest);
    for (uint32_t i = n_taken; i < recorded->n_ops; i++) {
        kiln_status status =
            kilni_fuse_recorded_push(rest, &recorded->ops[i], recorded->operands[i], recorded, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return KILN_STATUS_OK;
}

static void hand_out(kiln_fuse_stream *stream, kilni_fuse_plan *plan)
{
    const kilni_fuse_recorded *recorded = &stream->recorded[stream->active];
    kiln_fuse_stats *stats = &stream->engine->stats;
    plan->users++;
    stream->handed = plan;
    stream->segment = (kiln_fuse_segment){
        .plan = &plan->plan,
        .ops = recorded->ops,
        .operands = recorded->operands,
        .tokens = recorded->tokens,
        .tensors = recorded->tensors,
        .symbols = stream->shared ? stream->values : recorded->symbols,
        .scalars = recorded->scalars,
    };
    stats->segments++;
    stats->blocks_fused += plan->plan.n_blocks;
    stats->ops_fused += plan->n_ops_fused;
}

/// Without fusers there is nothing to choose. Without measurements what was run before decides
/// nothing: each set of extents has its own choice then.
static uint64_t class_of(const kiln_fuse_engine *engine, const kilni_fuse_recorded *recorded,
                         uint32_t end)
{
    return engine->n_fusers == 0
               ? 0
               : kilni_fuse_size_class(recorded->symbols, recorded->marks[end - 1].n_symbols,
                                       engine->deterministic);
}

/// A plan for other lengths; the stream has its extents then.
static kilni_fuse_plan *find_shared(kiln_fuse_stream *stream, uint32_t end)
{
    const kilni_fuse_recorded *recorded = &stream->recorded[stream->active];
    if (stream->values == NULL) {
        stream->values =
            kiln_alloc_array(stream->engine->env, KILNI_FUSE_FORM_SYMBOLS, sizeof(*stream->values));
    }
    return stream->values == NULL ? NULL
                                  : kilni_fuse_plan_store_shared(&stream->engine->plans, recorded,
                                                                 end, stream->values);
}

static kiln_status find_or_search(kiln_fuse_stream *stream, uint32_t end, bool full,
                                  kilni_fuse_plan **out_plan, kiln_error *err)
{
    kiln_fuse_engine *engine = stream->engine;
    *out_plan = stream->varying ? find_shared(stream, end) : NULL;
    stream->shared = *out_plan != NULL;
    if (stream->shared) {
        engine->stats.plans_found++;
        return KILN_STATUS_OK;
    }
    kiln_status status = walk(stream, end, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_fuse_node *node = stream->node;
    if (!full && node->wait == KILNI_FUSE_WAIT_YES &&
        node->wait_epoch == atomic_load(&engine->registry->epoch)) {
        return KILN_STATUS_OK;
    }
    const kilni_fuse_recorded *recorded = &stream->recorded[stream->active];
    uint64_t size_class = class_of(engine, recorded, end);
    *out_plan = kilni_fuse_plan_store_find(&engine->plans, node, full, recorded, size_class);
    if (*out_plan != NULL) {
        engine->stats.plans_found++;
    } else {
        status = search(stream, end, full, size_class, out_plan, err);
    }
    if (stream->varying && *out_plan != NULL) {
        kilni_fuse_plan_store_share(&engine->plans, *out_plan, recorded, end);
    }
    return status;
}

kiln_status kiln_fuse_stream_next(kiln_fuse_stream *stream, bool drain,
                                  const kiln_fuse_segment **out_segment, kiln_error *err)
{
    *out_segment = NULL;
    if (stream->handed != NULL) {
        return kiln_fail(err, FAILED_PRECONDITION, "the segment before is not done");
    }
    uint32_t end = stream->recorded[stream->active].n_ops;
    bool whole = stream->whole || stream->varying;
    if (end == 0 || (whole && !drain)) {
        return KILN_STATUS_OK;
    }
    bool full = drain;
    if (!whole && end >= stream->engine->max_segment) {
        end = stream->engine->max_segment;
        full = true;
    }
    kilni_fuse_plan *plan = NULL;
    kiln_status status = find_or_search(stream, end, full, &plan, err);
    if (status != KILN_STATUS_OK || plan == NULL) {
        return status;
    }
    status = keep_rest(stream, plan->plan.n_ops, err);
    if (status == KILN_STATUS_OK) {
        hand_out(stream, plan);
        *out_segment = &stream->segment;
    }
    return status;
}

void kiln_fuse_stream_set_scalar(kiln_fuse_stream *stream, uint32_t op, uint32_t attr,
                                 const kiln_attr *value)
{
    kilni_fuse_recorded_set_scalar(&stream->recorded[stream->active], op, attr, value);
}

uint32_t kiln_fuse_stream_rename(kiln_fuse_stream *stream, uint32_t tensor, void *token)
{
    kilni_fuse_recorded *recorded = &stream->recorded[stream->active];
    const void *before = recorded->tokens[tensor];
    uint32_t count = 0;
    for (uint32_t op = 0; op < stream->handed->plan.n_ops; op++) {
        uint32_t operands = (uint32_t)recorded->ops[op].n_inputs + recorded->ops[op].n_outputs;
        void **tokens = (void **)recorded->operands[op]; // in the arena of what was recorded
        for (uint32_t i = 0; i < operands; i++) {
            count += tokens[i] == before;
            tokens[i] = tokens[i] == before ? token : tokens[i];
        }
    }
    recorded->tokens[tensor] = token;
    return count;
}

void kiln_fuse_stream_done(kiln_fuse_stream *stream, const kiln_fuse_segment *segment)
{
    kiln_fuse_engine *engine = stream->engine;
    if (segment == NULL || stream->handed == NULL) {
        return;
    }
    kilni_fuse_plan_store_release(&engine->plans, stream->handed);
    stream->handed = NULL;
    start_over(stream);
}

void kiln_fuse_stream_return(kiln_fuse_stream *stream, const kiln_fuse_segment *segment)
{
    kiln_fuse_engine *engine = stream->engine;
    if (segment == NULL || stream->handed == NULL) {
        return;
    }
    engine->stats.segments--;
    engine->stats.blocks_fused -= stream->handed->plan.n_blocks;
    engine->stats.ops_fused -= stream->handed->n_ops_fused;
    kilni_fuse_plan_store_release(&engine->plans, stream->handed);
    stream->handed = NULL;
    kilni_fuse_recorded_clear(&stream->recorded[1 - stream->active]);
    walk_anew(stream, engine);
}
