// SPDX-License-Identifier: MIT OR Apache-2.0
// Tells people what the search did: each block with its candidates, scores and winner, and for each
// operation left alone what every fuser said about it. Only reads what the plan kept; it decides
// nothing.
#include <string.h>

#include "fusion_host_internal.h"

enum { COLUMNS = 100 };

/* One line, cut at the margin. */
static void put_line(kiln_string *out, const kiln_string *line)
{
    if (line->length <= COLUMNS) {
        kiln_string_append(out, line->text, line->length);
    } else {
        size_t keep = COLUMNS - 3;
        while (keep > 0 && ((unsigned char)line->text[keep] & 0xC0) == 0x80) {
            keep--;
        }
        kiln_string_append(out, line->text, keep);
        kiln_string_append(out, "...", 3);
    }
    kiln_string_append(out, "\n", 1);
}

/* Several lines where one is too long, the later ones set in by `indent`. */
static void put_wrapped(kiln_string *out, const kiln_string *line, size_t indent)
{
    size_t at = 0;
    while (at < line->length) {
        size_t room = COLUMNS - (at == 0 ? 0 : indent), left = line->length - at;
        size_t take = left <= room ? left : room;
        size_t space = take;
        while (take < left && space > room / 2 && line->text[at + space] != ' ') {
            space--;
        }
        take = take < left && space > room / 2 ? space : take;
        while (take < left && ((unsigned char)line->text[at + take] & 0xC0) == 0x80) {
            take--;
        }
        kiln_string_printf(out, "%*s", at == 0 ? 0 : (int)indent, "");
        kiln_string_append(out, line->text + at, take);
        kiln_string_append(out, "\n", 1);
        at += take;
        at += at < line->length && line->text[at] == ' ';
    }
}

static void put_verdict(const kiln_fuse_engine *engine, const kilni_fuse_verdict *verdict,
                        kiln_string *out)
{
    const char *fuser = engine->fusers[verdict->fuser].name;
    const kilni_fuse_score *s = &verdict->score;
    kiln_string line;
    kiln_string_init(&line, engine->env);
    if (verdict->ready) {
        kiln_string_printf(&line, "    %-9s %s: %u ops, %u %s, %.1f us",
                           verdict->won ? "winner" : "candidate", fuser, s->len, s->launches,
                           s->launches == 1 ? "launch" : "launches", s->adjusted_ns / 1e3);
        if (s->adjusted_ns > s->claimed_ns * 1.01) {
            kiln_string_printf(&line, " (claims %.1f)", s->claimed_ns / 1e3);
        }
        if (verdict->measured_ns > 0) {
            kiln_string_printf(&line, ", measured %.1f us", verdict->measured_ns / 1e3);
        }
        kiln_string_printf(&line, ", saves %.1f us", s->benefit_ns / 1e3);
    } else {
        kiln_string_printf(&line, "    declined  %s: %s", fuser, verdict->reason);
    }
    if (verdict->ready && verdict->reason[0] != 0) {
        kiln_string_printf(&line, ": %s", verdict->reason);
    }
    put_wrapped(out, &line, 14);
    kiln_string_fini(&line);
}

static void put_verdicts(const kiln_fuse_engine *engine, const kilni_fuse_plan *plan, uint32_t op,
                         kiln_string *out)
{
    for (uint32_t i = 0; i < plan->n_verdicts; i++) {
        if (plan->verdicts[i].first_op == op) {
            put_verdict(engine, &plan->verdicts[i], out);
        }
    }
}

static void put_op(const kiln_fuse_engine *engine, const kiln_fuse_segment *segment, uint32_t op,
                   kiln_string *out)
{
    kiln_string line;
    kiln_string_init(&line, engine->env);
    kiln_string_printf(&line, "  [%u] ", op);
    kiln_ir_print_op(&segment->ops[op], &line);
    while (line.length > 0 && line.text[line.length - 1] == '\n') {
        line.text[--line.length] = 0;
    }
    put_line(out, &line);
    kiln_string_fini(&line);
}

static void put_sources(const kiln_program *program, kiln_string *out)
{
    for (uint32_t i = 0; i < program->n_sources; i++) {
        const kiln_program_source *source = &program->sources[i];
        if (source->format != KILN_SOURCE_OPENCL_C) {
            kiln_string_printf(out, "  source %u: %zu bytes, not text\n", i, source->length);
            continue;
        }
        kiln_string_printf(out, "  source %u:\n", i);
        for (uint32_t k = 0; k < source->n_defines; k++) {
            kiln_string_printf(out, "    #define %s\n", source->defines[k]);
        }
        const char *text = source->code;
        for (size_t at = 0; at < source->length;) {
            const char *end = memchr(text + at, '\n', source->length - at);
            size_t length = end == NULL ? source->length - at : (size_t)(end - text) - at;
            kiln_string_printf(out, "    ");
            kiln_string_append(out, text + at, length);
            kiln_string_append(out, "\n", 1);
            at += length + 1;
        }
    }
}

/* "operations 0 to 4", or those that a block has between others: "operations 0, 2 to 4". */
static void put_range(kiln_string *line, const uint32_t *ops, uint32_t n_ops)
{
    kiln_string_printf(line, "operation%s", n_ops == 1 ? "" : "s");
    for (uint32_t i = 0; i < n_ops;) {
        uint32_t end = i + 1;
        while (end < n_ops && ops[end] == ops[end - 1] + 1) {
            end++;
        }
        kiln_string_printf(line, end - i == 1 ? "%s %u" : "%s %u to %u", i == 0 ? "" : ",", ops[i],
                           ops[end - 1]);
        i = end;
    }
}

static void put_block(const kiln_fuse_engine *engine, const kiln_fuse_segment *segment,
                      uint32_t index, uint32_t flags, kiln_string *out)
{
    const kiln_plan_block *block = &segment->plan->blocks[index];
    const kilni_fuse_plan *plan = (const kilni_fuse_plan *)segment->plan;
    kiln_string line;
    kiln_string_init(&line, engine->env);
    kiln_string_printf(&line, "block %u: ", index);
    put_range(&line, block->ops, block->n_ops);
    kiln_string_printf(&line, " by %s, %.1f us instead of %.1f us", block->fuser,
                       (double)block->predicted_ns / 1e3, (double)block->baseline_ns / 1e3);
    put_wrapped(out, &line, 4);
    kiln_string_fini(&line);
    const char *failure = kilni_fuse_program_failure(engine, block->program->key);
    if (failure != NULL) {
        kiln_string_init(&line, engine->env);
        kiln_string_printf(&line, "  failed: its operations run one by one: %s", failure);
        put_wrapped(out, &line, 10);
        kiln_string_fini(&line);
    }
    for (uint32_t i = 0; i < block->n_ops; i++) {
        put_op(engine, segment, block->ops[i], out);
    }
    put_verdicts(engine, plan, block->ops[0], out);
    if ((flags & KILN_FUSE_EXPLAIN_SOURCE) != 0) {
        put_sources(block->program, out);
    }
}

/* The block that an operation is in, or NONE. */
static uint32_t block_of(const kiln_plan *plan, uint32_t op)
{
    for (uint32_t i = 0; i < plan->n_blocks; i++) {
        for (uint32_t k = 0; k < plan->blocks[i].n_ops; k++) {
            if (plan->blocks[i].ops[k] == op) {
                return i;
            }
        }
    }
    return KILNI_FUSE_NONE;
}

kiln_status kiln_fuse_explain(kiln_fuse_engine *engine, const kiln_fuse_segment *segment,
                              uint32_t flags, kiln_string *out, kiln_error *err)
{
    const kilni_fuse_plan *plan = (const kilni_fuse_plan *)segment->plan;
    for (uint32_t op = 0; op < plan->plan.n_ops; op++) {
        uint32_t block = block_of(&plan->plan, op);
        if (block != KILNI_FUSE_NONE && plan->plan.blocks[block].ops[0] == op) {
            put_block(engine, segment, block, flags, out);
        }
        if (block == KILNI_FUSE_NONE && segment->ops[op].op != KILN_OP_DROP) {
            kiln_string_printf(out, "alone: operation %u\n", op);
            put_op(engine, segment, op, out);
            put_verdicts(engine, plan, op, out);
        }
    }
    return out->failed ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an explanation")
                       : KILN_STATUS_OK;
}
