// SPDX-License-Identifier: MIT OR Apache-2.0
// What may go into one block together: the block, taken as one node, must not depend on itself, be
// it through operations that run unfused or through blocks chosen before; and a drop goes in only
// when everything that reads the tensor is inside. Tensors are defined once, so nothing else can go
// wrong.
#include <string.h>

#include "position.h"

bool kilni_fuse_hazards_learn(kilni_fuse_hazards *hazards, const kilni_fuse_recorded *recorded,
                              uint32_t end)
{
    if (hazards->recorded != recorded || hazards->n_ops > end) {
        kilni_fuse_hazards_forget(hazards);
        hazards->recorded = recorded;
    }
    uint32_t n_tensors = end == 0 ? 0 : recorded->marks[end - 1].n_tensors;
    if (!kilni_fuse_grow(recorded->env, &hazards->definer, &hazards->definer_capacity, n_tensors,
                         sizeof(*hazards->definer)) ||
        !kilni_fuse_grow(recorded->env, &hazards->unit, &hazards->unit_capacity, end,
                         sizeof(*hazards->unit)) ||
        !kilni_fuse_grow(recorded->env, &hazards->reached, &hazards->reached_capacity, end,
                         sizeof(*hazards->reached)) ||
        !kilni_fuse_grow(recorded->env, &hazards->units, &hazards->units_capacity, end,
                         sizeof(*hazards->units))) {
        return false;
    }
    for (; hazards->n_tensors < n_tensors; hazards->n_tensors++) {
        hazards->definer[hazards->n_tensors] = KILNI_FUSE_NONE;
    }
    for (; hazards->n_ops < end; hazards->n_ops++) {
        const kiln_op_record *record = &recorded->ops[hazards->n_ops];
        const uint32_t *refs = recorded->marks[hazards->n_ops].refs;
        for (uint32_t i = 0; i < record->n_outputs; i++) {
            hazards->definer[refs[record->n_inputs + i]] = hazards->n_ops;
        }
    }
    for (uint32_t op = 0; op < end; op++) {
        hazards->unit[op] = KILNI_FUSE_NONE;
    }
    hazards->n_units = 0;
    hazards->feeds = 0;
    hazards->spent = false;
    hazards->counted_ns = kiln_time_ns(); // what the program did since then is not the search's
    return true;
}

void kilni_fuse_hazards_forget(kilni_fuse_hazards *hazards)
{
    hazards->recorded = NULL;
    hazards->n_ops = 0;
    hazards->n_tensors = 0;
    hazards->n_units = 0;
    hazards->feeds = 0;
    hazards->spent = false;
    hazards->taken_ns = 0;
    hazards->overdue = false;
}

void kilni_fuse_hazards_fini(kilni_fuse_hazards *hazards, const kiln_env *env)
{
    kiln_free(env, hazards->definer);
    kiln_free(env, hazards->unit);
    kiln_free(env, hazards->reached);
    kiln_free(env, hazards->units);
    *hazards = (kilni_fuse_hazards){0};
}

/// Does an operation read what one of these marks says?
static bool reads(const kilni_fuse_hazards *hazards, const uint8_t *marks, uint32_t op,
                  uint32_t wanted)
{
    const uint32_t *refs = hazards->recorded->marks[op].refs;
    for (uint32_t i = 0; i < hazards->recorded->ops[op].n_inputs; i++) {
        uint32_t definer = hazards->definer[refs[i]];
        if (definer != KILNI_FUSE_NONE && (marks[definer] & wanted) != 0) {
            return true;
        }
    }
    return false;
}

bool kilni_fuse_hazards_allow(const kilni_fuse_hazards *hazards, const kilni_fuse_trial *trial,
                              uint32_t op)
{
    return trial->marks[op] != KILNI_FUSE_BEHIND &&
           !reads(hazards, trial->marks, op, KILNI_FUSE_BEHIND);
}

void kilni_fuse_hazards_leave_out(const kilni_fuse_hazards *hazards, kilni_fuse_trial *trial,
                                  uint32_t op)
{
    if (reads(hazards, trial->marks, op, KILNI_FUSE_BEHIND | KILNI_FUSE_INSIDE)) {
        trial->marks[op] = KILNI_FUSE_BEHIND;
    }
}

void kilni_fuse_hazards_add(kilni_fuse_hazards *hazards, const uint32_t *ops, uint32_t n_ops)
{
    for (uint32_t i = 0; i < n_ops; i++) {
        hazards->unit[ops[i]] = hazards->n_units;
    }
    hazards->units[hazards->n_units++] = (kilni_fuse_unit){.first = ops[0], .last = ops[n_ops - 1]};
}

typedef struct span { ///< operations of the recorded segment, `end` not among them
    uint32_t begin;
    uint32_t end;
} span;

/// The operations that may lie on a way from the trial's block back to it: those that it was shown,
/// and, as ways go backwards only inside blocks chosen before, what such blocks reach across.
static span span_of(const kilni_fuse_hazards *hazards, const kilni_fuse_trial *trial)
{
    span range = {trial->view.ops[0], trial->scanned};
    bool changed = true;
    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < hazards->n_units; i++) {
            const kilni_fuse_unit *unit = &hazards->units[i];
            if (unit->last >= range.begin && unit->first < range.end &&
                (unit->first < range.begin || unit->last >= range.end)) {
                range.begin = unit->first < range.begin ? unit->first : range.begin;
                range.end = unit->last >= range.end ? unit->last + 1 : range.end;
                changed = true;
            }
        }
    }
    return range;
}

static bool reads_reached(const kilni_fuse_hazards *hazards, span range, uint32_t op,
                          uint32_t wanted)
{
    const uint32_t *refs = hazards->recorded->marks[op].refs;
    for (uint32_t i = 0; i < hazards->recorded->ops[op].n_inputs; i++) {
        uint32_t definer = hazards->definer[refs[i]];
        if (definer != KILNI_FUSE_NONE && definer >= range.begin &&
            (hazards->reached[definer] & wanted) != 0) {
            return true;
        }
    }
    return false;
}

/// Everything in the span that depends on the block, blocks chosen before as one node each.
static void reach_out(kilni_fuse_hazards *hazards, const kilni_fuse_trial *trial, span range)
{
    bool changed = true;
    for (uint32_t i = 0; i < hazards->n_units; i++) {
        hazards->units[i].reached = false;
    }
    for (uint32_t op = range.begin; op < range.end; op++) {
        bool inside = op < trial->scanned && trial->marks[op] == KILNI_FUSE_INSIDE;
        hazards->reached[op] = inside ? KILNI_FUSE_INSIDE : 0;
    }
    while (changed) {
        changed = false;
        for (uint32_t op = range.begin; op < range.end; op++) {
            uint32_t unit = hazards->unit[op];
            bool with_unit = unit != KILNI_FUSE_NONE && hazards->units[unit].reached;
            if (hazards->reached[op] != 0 ||
                (!with_unit &&
                 !reads_reached(hazards, range, op, KILNI_FUSE_BEHIND | KILNI_FUSE_INSIDE))) {
                continue;
            }
            hazards->reached[op] = KILNI_FUSE_BEHIND;
            changed = true;
            if (unit != KILNI_FUSE_NONE) {
                hazards->units[unit].reached = true;
            }
        }
    }
}

bool kilni_fuse_hazards_hold(kilni_fuse_hazards *hazards, kilni_fuse_trial *trial)
{
    if (hazards->n_units == 0) {
        return true; // recorded in order: what was left out before cannot depend on it
    }
    span range = span_of(hazards, trial);
    reach_out(hazards, trial, range);
    for (uint32_t i = 0; i < trial->view.n_ops; i++) {
        if (reads_reached(hazards, range, trial->view.ops[i], KILNI_FUSE_BEHIND)) {
            return false;
        }
    }
    for (uint32_t op = range.begin; op < range.end && op < trial->marks_capacity; op++) {
        if (hazards->unit[op] != KILNI_FUSE_NONE && hazards->reached[op] == KILNI_FUSE_BEHIND) {
            trial->marks[op] = KILNI_FUSE_BEHIND;
        }
    }
    return true;
}

bool kilni_fuse_hazards_drop(const kilni_fuse_hazards *hazards, const kilni_fuse_trial *trial,
                             uint32_t op)
{
    uint32_t tensor = hazards->recorded->marks[op].refs[0];
    if (kilni_fuse_block_tensor(&trial->view, tensor) == KILNI_FUSE_NONE) {
        return false;
    }
    for (uint32_t i = 0; i < op; i++) {
        const kiln_op_record *record = &hazards->recorded->ops[i];
        const uint32_t *refs = hazards->recorded->marks[i].refs;
        for (uint32_t k = 0; k < record->n_inputs; k++) {
            if (refs[k] == tensor && record->op != KILN_OP_DROP &&
                trial->marks[i] != KILNI_FUSE_INSIDE) {
                return false;
            }
        }
    }
    return true;
}
