// SPDX-License-Identifier: MIT OR Apache-2.0
// An explanation as text for a terminal: which lines there are, what is cut at the margin and what
// goes on in another line. What is known, and from where, is explain.c's.
#include <math.h>
#include <string.h>

#include "fusers.h"

enum { COLUMNS = 100 };

/// One line, cut at the margin.
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

/// Several lines where one is too long, the later ones set in by `indent`.
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

static void put_candidate(const kiln_explained_candidate *candidate, kiln_string *out)
{
    const char *fuser = candidate->fuser;
    kiln_string line;
    kiln_string_init(&line, out->env);
    if (candidate->ready) {
        kiln_string_printf(
            &line, "    %-9s %s: %u %s, %u %s, %.1f us", candidate->won ? "winner" : "candidate",
            fuser, candidate->n_ops, kiln_plural(candidate->n_ops, "operation", "operations"),
            candidate->n_launches, kiln_plural(candidate->n_launches, "launch", "launches"),
            candidate->predicted_ns / 1e3);
        if (candidate->predicted_ns > candidate->claimed_ns * 1.01) {
            kiln_string_printf(&line, " (claims %.1f)", candidate->claimed_ns / 1e3);
        }
        if (candidate->measured_ns > 0) {
            kiln_string_printf(&line, ", measured %.1f us", candidate->measured_ns / 1e3);
        }
        double saved_ns = fabs(candidate->saved_ns) < 50 ? 0 : candidate->saved_ns; // no "-0.0"
        kiln_string_printf(&line, ", saves %.1f us", saved_ns / 1e3);
    } else {
        kiln_string_printf(&line, "    declined  %s: %s", fuser, candidate->reason);
    }
    if (candidate->ready && candidate->reason[0] != 0) {
        kiln_string_printf(&line, ": %s", candidate->reason);
    }
    put_wrapped(out, &line, 14);
    kiln_string_fini(&line);
}

static void put_op(const kiln_explanation *e, uint32_t op, kiln_string *out)
{
    kiln_string line;
    kiln_string_init(&line, e->arena.env);
    kiln_string_printf(&line, "  [%u] %s", op, e->ops[op].text);
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
        if (source->vendor_options != NULL) {
            kiln_string_printf(out, "    // compiler options: %s\n", source->vendor_options);
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

/// "3 operations (0 to 4)", or with others between them "(0, 2 to 4)": the count is without drops,
/// the numbers are those of the list, in which drops have numbers, too.
static void put_range(const kiln_explanation *e, kiln_string *line, const uint32_t *ops,
                      uint32_t n_ops)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n_ops; i++) {
        count += strcmp(e->ops[ops[i]].name, "drop") != 0;
    }
    kiln_string_printf(line, "%u %s", count, kiln_plural(count, "operation", "operations"));
    for (uint32_t i = 0; i < n_ops;) {
        uint32_t end = i + 1;
        while (end < n_ops && ops[end] == ops[end - 1] + 1) {
            end++;
        }
        kiln_string_printf(line, end - i == 1 ? "%s%u" : "%s%u to %u", i == 0 ? " (" : ", ", ops[i],
                           ops[end - 1]);
        i = end;
    }
    kiln_string_append(line, ")", 1);
}

/// What the steps of a block, or of an unfused operation, took; 0: not measured.
static double measured_ns(const kiln_explanation *e, uint32_t block, uint32_t op)
{
    double ns = 0;
    for (uint32_t i = 0; i < e->n_steps; i++) {
        const kiln_explained_step *step = &e->steps[i];
        ns += block != KILNI_FUSE_NONE ? (step->block == block ? step->measured_ns : 0)
              : step->op == op         ? step->measured_ns
                                       : 0;
    }
    return ns;
}

static void put_block(const kiln_explanation *e, uint32_t index, uint32_t flags, kiln_string *out)
{
    const kiln_explained_block *block = &e->blocks[index];
    double ns = measured_ns(e, index, KILNI_FUSE_NONE);
    kiln_string line;
    kiln_string_init(&line, e->arena.env);
    kiln_string_printf(&line, "block %u: ", index);
    put_range(e, &line, block->ops, block->n_ops);
    kiln_string_printf(&line, " by %s, %.1f us instead of %.1f us", block->fuser,
                       block->predicted_ns / 1e3, block->baseline_ns / 1e3);
    if (ns > 0) {
        kiln_string_printf(&line, ", took %.1f us", ns / 1e3);
    }
    if (e->ops[block->ops[0]].step == KILNI_FUSE_NONE) {
        kiln_string_printf(&line, ", not run: nobody uses its results");
    }
    put_wrapped(out, &line, 4);
    kiln_string_fini(&line);
    if (block->failure != NULL) {
        kiln_string_init(&line, e->arena.env);
        kiln_string_printf(&line, "  failed: its operations run one by one: %s", block->failure);
        put_wrapped(out, &line, 10);
        kiln_string_fini(&line);
    }
    for (uint32_t i = 0; i < block->n_ops; i++) {
        put_op(e, block->ops[i], out);
    }
    for (uint32_t i = 0; i < block->n_candidates; i++) {
        put_candidate(&block->candidates[i], out);
    }
    if ((flags & KILN_FUSE_EXPLAIN_SOURCE) != 0) {
        put_sources(block->program, out);
    }
}

static void put_alone(const kiln_explanation *e, uint32_t op, kiln_string *out)
{
    double ns = measured_ns(e, KILNI_FUSE_NONE, op);
    kiln_string_printf(out, "unfused: operation %u", op);
    if (ns > 0) {
        kiln_string_printf(out, ", took %.1f us", ns / 1e3);
    }
    if (e->ops[op].step == KILNI_FUSE_NONE) {
        kiln_string_printf(out, ", not run: nobody uses its results");
    }
    kiln_string_append(out, "\n", 1);
    put_op(e, op, out);
    for (uint32_t i = 0; i < e->ops[op].n_candidates; i++) {
        put_candidate(&e->ops[op].candidates[i], out);
    }
}

static void put_memory(const kiln_explanation *e, kiln_string *out)
{
    uint32_t step = 0;
    while (step < e->n_steps && e->steps[step].live_bytes != e->peak_bytes) {
        step++;
    }
    kiln_string_printf(out, "memory: %llu bytes at most", (unsigned long long)e->peak_bytes);
    if (step < e->n_steps) {
        kiln_string_printf(out, ", in step %u of %u", step, e->n_steps);
    }
    kiln_string_printf(out, "; %llu of inputs and constants; %llu of results in all\n",
                       (unsigned long long)e->resident_bytes, (unsigned long long)e->total_bytes);
}

void kiln_explanation_print(const kiln_explanation *e, uint32_t flags, kiln_string *out)
{
    for (uint32_t op = 0; op < e->n_ops; op++) {
        uint32_t block = e->ops[op].block;
        if (block != KILNI_FUSE_NONE && e->blocks[block].ops[0] == op) {
            put_block(e, block, flags, out);
        }
        if (block == KILNI_FUSE_NONE && strcmp(e->ops[op].name, "drop") != 0) {
            put_alone(e, op, out);
        }
    }
    if ((flags & KILN_FUSE_EXPLAIN_MEMORY) != 0) {
        put_memory(e, out);
    }
}
