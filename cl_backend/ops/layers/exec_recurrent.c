// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches recurrent.cl: the calls of lstm and gru that exec_pays.c leaves to it. Decides how rows
// and units are spread over work-items.
#include "cl_origin.h"
#include "cl_pool.h"
#include "exec.h"
#include "exec_internal.h"
#include "product_args.h"
#include "recurrent.h"

#include <string.h>

enum {
    UNITS = 16,
    ROW_GROUP = 4,
    LINES = 4,
    FEWEST_ROWS = 64,
    SIGN = 16, ///< numbers of a sign
    MOST_MEMBERS = 8,
    FEWEST_BYTES = 64 * 1024 ///< of the recurrence, for each member: less is read while it waits
};

enum {
    OF_X,
    OF_WEIGHT,
    OF_RECURRENCE,
    OF_BIAS,
    OF_H,
    OF_C,
    OF_VALUES,
    OF_LAST_H,
    OF_LAST_C,
    VIEWS
};

typedef struct recurrent_layer {
    kilni_recurrent r;
    kiln_recurrent_shape s;
    kiln_view views[VIEWS]; ///< dense; x where there is none
    int64_t pieces; ///< of the rows of x
    kiln_buffer *weight; ///< packed, by each piece for itself if it is not kept
    kiln_buffer *recurrence;
    kiln_buffer *projected;
    kiln_buffer *state;
    kiln_buffer *signs; ///< of the teams to their members
} recurrent_layer;

// ---- operands ----

/// Input `index` as `dims`, dense: one number may stand for all.
static kiln_status state_or_number(kilni_exec *exec, unsigned index, const int64_t *dims,
                                   uint32_t rank, kiln_view *out_view)
{
    kiln_view view = exec->inputs[index];
    if (view.rank == 0) {
        view.rank = rank;
        memcpy(view.dims, dims, rank * sizeof(dims[0]));
        memset(view.strides, 0, sizeof(view.strides));
    }
    return kilni_exec_dense(exec, &view, out_view);
}

static kiln_status recurrent_inputs(kilni_exec *exec, recurrent_layer *l)
{
    const kilni_recurrent *r = &l->r;
    const int64_t bias[] = {r->directions, 2 * r->gates * r->hidden};
    const int64_t state[] = {r->directions, r->batch, r->hidden};
    const unsigned optional[] = {r->bias, r->initial_h, r->initial_c};
    kiln_status status = KILN_STATUS_OK;
    for (unsigned i = OF_X; i <= OF_RECURRENCE && status == KILN_STATUS_OK; i++) {
        status = kilni_exec_dense(exec, &exec->inputs[i], &l->views[i]);
    }
    for (unsigned i = 0; i < 3 && status == KILN_STATUS_OK; i++) {
        l->s.has[i] = optional[i] != 0;
        l->views[OF_BIAS + i] = l->views[OF_X];
        if (optional[i] != 0) {
            status = state_or_number(exec, optional[i], i == 0 ? bias : state, i == 0 ? 2 : 3,
                                     &l->views[OF_BIAS + i]);
        }
    }
    return status;
}

static kiln_status recurrent_outputs(kilni_exec *exec, recurrent_layer *l)
{
    kiln_status status = KILN_STATUS_OK;
    l->views[OF_LAST_C] = l->views[OF_X];
    for (unsigned i = 0; i < exec->record->n_outputs && status == KILN_STATUS_OK; i++) {
        status = kilni_exec_result(exec, &exec->outputs[i], &l->views[OF_VALUES + i]);
    }
    return status;
}

static kiln_status recurrent_give(kilni_exec *exec, const recurrent_layer *l)
{
    kiln_status status = KILN_STATUS_OK;
    for (unsigned i = 0; i < exec->record->n_outputs && status == KILN_STATUS_OK; i++) {
        if (!kiln_view_is_contiguous(&exec->outputs[i])) {
            status = kilni_exec_copy(exec, &l->views[OF_VALUES + i], &exec->outputs[i]);
        }
    }
    return status;
}

/// Of `rows`, with `others` items for each: all units have work, and an item takes whole groups of
/// rows, so that what it reads serves a group.
static int64_t recurrent_rows_each(const kilni_exec *exec, int64_t rows, int64_t others)
{
    int64_t units = (int64_t)exec->backend->info.compute_units;
    int64_t pieces = kilni_exec_ceil_div(units > 0 ? units : 1, others);
    int64_t each = kilni_exec_ceil_div(rows > 0 ? rows : 1, pieces);
    return kilni_exec_ceil_div(each, ROW_GROUP) * ROW_GROUP;
}

/// Of a team. Only PoCL's processors are known to show members each other's writes while a kernel
/// runs.
static int64_t recurrent_members(const kilni_exec *exec, const recurrent_layer *l)
{
    const kiln_recurrent_shape *s = &l->s;
    const int64_t bytes = l->r.gates * s->hidden * s->hidden * (int64_t)sizeof(float);
    int64_t members = (int64_t)exec->backend->info.compute_units / (s->teams > 0 ? s->teams : 1);
    if (!exec->backend->pocl || exec->backend->elsewhere.is ||
        exec->backend->info.type != KILN_DEVICE_CPU) {
        return 1;
    }
    members = members < MOST_MEMBERS ? members : MOST_MEMBERS;
    members = members < bytes / FEWEST_BYTES ? members : bytes / FEWEST_BYTES;
    members = members < s->blocks ? members : s->blocks;
    return members > 1 ? members : 1;
}

static void recurrent_shape_init(const kilni_exec *exec, recurrent_layer *l)
{
    kiln_recurrent_shape *s = &l->s;
    s->steps = l->r.steps;
    s->batch = l->r.batch;
    s->inputs = l->r.inputs;
    s->hidden = l->r.hidden;
    s->directions = l->r.directions;
    s->reverse = l->r.reverse[0];
    s->blocks = kilni_exec_ceil_div(l->r.hidden, UNITS);
    s->rows_each = recurrent_rows_each(exec, s->steps * s->batch, s->directions * s->blocks);
    s->rows_each = s->rows_each < FEWEST_ROWS ? FEWEST_ROWS : s->rows_each; // each packs anew
    s->batch_each = recurrent_rows_each(exec, s->batch, s->directions);
    s->teams = kilni_exec_ceil_div(s->batch, s->batch_each) * s->directions;
    s->members = recurrent_members(exec, l);
    l->pieces = kilni_exec_ceil_div(s->steps * s->batch, s->rows_each);
    l->pieces = l->pieces > 0 ? l->pieces : 1; // one packs what the steps need
    for (unsigned i = 0; i < VIEWS; i++) {
        s->start[i] = kilni_exec_start(&l->views[i]);
    }
}

static kiln_status recurrent_scratch(kilni_exec *exec, recurrent_layer *l)
{
    const kiln_recurrent_shape *s = &l->s;
    const int64_t line = s->directions * s->blocks * UNITS * (int64_t)sizeof(float);
    const int64_t gates = line * l->r.gates;
    kiln_status status = KILN_STATUS_OK;
    if (!s->packed) {
        status = kilni_exec_alloc(exec, gates * s->inputs * l->pieces, &l->weight);
    }
    if (status == KILN_STATUS_OK && !s->packed) {
        status = kilni_exec_alloc(exec, gates * s->hidden, &l->recurrence);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_exec_alloc(exec, gates * s->steps * s->batch, &l->projected);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_exec_alloc(exec, line * s->batch * LINES, &l->state);
    }
    if (status == KILN_STATUS_OK) {
        const int64_t signs = 2 * s->teams * s->members * SIGN; // claimed, done
        status = kilni_exec_alloc(exec, signs * (int64_t)sizeof(int32_t), &l->signs);
    }
    return status;
}

// ---- launches ----

/// One launch of recurrent.cl over `groups` groups. The kernel takes the space, then the
/// buffers.
static kiln_status recurrent_launch(kilni_exec *exec, const recurrent_layer *l, const char *name,
                                    kiln_buffer *const *buffers, size_t count, int64_t groups)
{
    kilni_cl_args args;
    kilni_exec_options options = {.length = 0};
    kilni_exec_define(&options, "V", UNITS);
    kilni_exec_define(&options, "GATES", l->r.gates);
    kilni_exec_define(&options, "RESET_AFTER", l->r.reset_after ? 1 : 0);
    kilni_exec_define(&options, "TEAM", l->s.members > 1 ? 1 : 0);
    kiln_status status = kilni_exec_kernel(exec, "recurrent.cl", name, &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, &l->s, sizeof(l->s));
    for (size_t i = 0; i < count; i++) {
        kilni_cl_push_buffer(&args, buffers[i]);
    }
    return kilni_exec_launch(exec, &args, groups, 1);
}

// ---- weights that are packed once ----

/// What packing depends on, beside the bytes.
static kiln_hash128 recurrent_packing(const recurrent_layer *l, unsigned which)
{
    const struct {
        char what[16];
        int64_t gates, hidden, depth, directions, start;
    } as = {"recurrent",     l->r.gates,
            l->s.hidden,     which == OF_WEIGHT ? l->s.inputs : l->s.hidden,
            l->s.directions, l->s.start[which]};
    return kiln_hash_bytes(&as, sizeof(as));
}

static kiln_status recurrent_pack(kilni_exec *exec, const recurrent_layer *l)
{
    kiln_buffer *const buffers[] = {
        l->weight,
        l->recurrence,
        l->views[OF_WEIGHT].buffer,
        l->views[OF_RECURRENCE].buffer,
    };
    return recurrent_launch(exec, l, "kiln_recurrent_pack", buffers,
                            sizeof(buffers) / sizeof(buffers[0]), l->s.directions * l->s.blocks);
}

/// Packs two constants and keeps what comes of them.
static kiln_status recurrent_keep(kilni_exec *exec, recurrent_layer *l)
{
    const size_t line =
        (size_t)(l->s.directions * l->s.blocks * UNITS * l->r.gates) * sizeof(float);
    kiln_buffer *made[2] = {NULL, NULL};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(
        out, status,
        kilni_cl_alloc_persistent(exec->backend, line * (size_t)l->s.inputs, &made[0], exec->err));
    KILN_TRY(
        out, status,
        kilni_cl_alloc_persistent(exec->backend, line * (size_t)l->s.hidden, &made[1], exec->err));
    l->weight = made[0];
    l->recurrence = made[1];
    KILN_TRY(out, status, recurrent_pack(exec, l));
    for (unsigned i = 0; i < 2 && status == KILN_STATUS_OK; i++) {
        kiln_buffer *buffer = l->views[OF_WEIGHT + i].buffer;
        status = kilni_cl_origin_keep(exec->backend, buffer, recurrent_packing(l, OF_WEIGHT + i),
                                      made[i], exec->err);
        made[i] = NULL;
    }
out:
    kilni_cl_free(exec->backend, made[0]);
    kilni_cl_free(exec->backend, made[1]);
    return status;
}

/// Where both weights are constants, they are packed from here on.
static kiln_status recurrent_find_packed(kilni_exec *exec, recurrent_layer *l)
{
    kiln_buffer *weight = l->views[OF_WEIGHT].buffer, *recurrence = l->views[OF_RECURRENCE].buffer;
    kiln_status status = KILN_STATUS_OK;
    l->weight = kilni_cl_origin_made(weight, recurrent_packing(l, OF_WEIGHT));
    l->recurrence = kilni_cl_origin_made(recurrence, recurrent_packing(l, OF_RECURRENCE));
    bool found = l->weight != NULL && l->recurrence != NULL;
    bool keeps = !found && weight != recurrence && l->s.inputs > 0 && l->s.hidden > 0 &&
                 kilni_cl_origin_may_keep(weight) && kilni_cl_origin_may_keep(recurrence);
    if (keeps) {
        status = recurrent_keep(exec, l);
    }
    l->s.packed = found || keeps;
    return status;
}

static kiln_status recurrent_project(kilni_exec *exec, const recurrent_layer *l)
{
    kiln_buffer *const buffers[] = {
        l->projected,
        l->weight,
        l->recurrence,
        l->signs,
        l->views[OF_X].buffer, // what is packed need not be there
        l->s.packed ? l->weight : l->views[OF_WEIGHT].buffer,
        l->s.packed ? l->recurrence : l->views[OF_RECURRENCE].buffer,
        l->views[OF_BIAS].buffer,
    };
    return recurrent_launch(exec, l, "kiln_recurrent_inputs", buffers,
                            sizeof(buffers) / sizeof(buffers[0]),
                            l->pieces * l->s.directions * l->s.blocks);
}

static kiln_status recurrent_walk(kilni_exec *exec, const recurrent_layer *l)
{
    kiln_buffer *const buffers[] = {
        l->views[OF_VALUES].buffer,
        l->views[OF_LAST_H].buffer,
        l->views[OF_LAST_C].buffer,
        l->state,
        l->signs,
        l->projected,
        l->recurrence,
        l->views[OF_BIAS].buffer,
        l->views[OF_H].buffer,
        l->views[OF_C].buffer,
    };
    return recurrent_launch(exec, l, "kiln_recurrent_steps", buffers,
                            sizeof(buffers) / sizeof(buffers[0]), l->s.teams * l->s.members);
}

kiln_status kilni_exec_recurrent(kilni_exec *exec)
{
    recurrent_layer l = {.weight = NULL};
    kiln_status status = KILN_STATUS_OK;
    if (!kilni_cl_kernel_pays(exec->backend, exec->record)) {
        return kiln_fail(exec->err, UNIMPLEMENTED,
                         "%s: the OpenCL backend has no kernel for this call, record its expansion",
                         kiln_op_info_of(exec->record->op)->name);
    }
    KILN_TRY(out, status, kilni_ir_recurrent_of(exec->record, &l.r, exec->err));
    KILN_TRY(out, status, recurrent_inputs(exec, &l));
    KILN_TRY(out, status, recurrent_outputs(exec, &l));
    recurrent_shape_init(exec, &l);
    KILN_TRY(out, status, recurrent_find_packed(exec, &l));
    KILN_TRY(out, status, recurrent_scratch(exec, &l));
    KILN_TRY(out, status, recurrent_project(exec, &l));
    KILN_TRY(out, status, recurrent_walk(exec, &l));
    KILN_TRY(out, status, recurrent_give(exec, &l));
out:
    return status;
}
