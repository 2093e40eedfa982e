// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches scan.cl. Decides which loop suits the strides and whether few long lines are cut into
// parts whose totals are cumulated first. Reverse is the same along an axis that runs backwards.
#include <string.h>

#include "exec_internal.h"
#include "reduce_args.h"

typedef enum scan_form { SCAN_ROWS, SCAN_COLUMNS, SCAN_BY_GROUP } scan_form;

typedef struct scan {
    const char *op;
    kiln_view input;
    kiln_view output;
    uint32_t axis;
    bool exclusive;
} scan;

enum {
    SCAN_GROUP = 256,
    SCAN_RUN = 8,
    SCAN_COLUMN_VECTORS = 4,
    SCAN_ITEM_WORK = 8192,
    SCAN_PART_LEAST = 16384
};

static void scan_shape_init(kiln_scan_shape *s, const scan *c)
{
    kilni_exec_loops loops;
    kiln_view in = c->input;
    kiln_view out = c->output;
    in.dims[c->axis] = out.dims[c->axis] = 1;
    kilni_exec_loops_init(&loops, out.dims, out.rank);
    kilni_exec_loops_add(&loops, &out);
    kilni_exec_loops_add(&loops, &in);
    kilni_exec_loops_merge(&loops, 0, NULL);
    memset(s, 0, sizeof(*s));
    s->lines = kilni_exec_count(&out);
    s->length = c->input.dims[c->axis];
    s->in_stride = c->input.strides[c->axis];
    s->out_stride = c->output.strides[c->axis];
    s->in_start = kilni_exec_start(&c->input);
    s->out_start = kilni_exec_start(&c->output);
    s->columns = 1;
    s->rank = loops.rank;
    memcpy(s->dims, loops.dims, sizeof(s->dims));
    memcpy(s->out_strides, loops.strides[0], sizeof(s->out_strides));
    memcpy(s->in_strides, loops.strides[1], sizeof(s->in_strides));
}

static scan_form choose_scan_form(const kilni_exec *exec, const kiln_scan_shape *s, uint32_t vector)
{
    int64_t last = s->rank - 1;
    if (s->rank > 0 && s->in_strides[last] == 1 && s->out_strides[last] == 1 &&
        s->dims[last] >= vector && s->out_stride != 1) {
        return SCAN_COLUMNS;
    }
    return !kilni_exec_is_block(exec) && s->length >= SCAN_GROUP / 2 ? SCAN_BY_GROUP : SCAN_ROWS;
}

/// Work-items, or work-groups, for one part of all lines.
static int64_t cut_lines(const kilni_exec *exec, kiln_scan_shape *s, scan_form f, uint32_t vector)
{
    bool block = kilni_exec_is_block(exec);
    s->each = 1;
    if (f == SCAN_COLUMNS) {
        int64_t chunk = (int64_t)vector * (block ? SCAN_COLUMN_VECTORS : 1);
        s->columns = s->dims[--s->rank];
        s->column_chunks = kilni_exec_ceil_div(s->columns, chunk);
        return s->lines / s->columns * s->column_chunks;
    }
    if (f == SCAN_ROWS && block && s->length < SCAN_ITEM_WORK) {
        int64_t fair =
            kilni_exec_ceil_div(s->lines, 4 * (int64_t)exec->backend->info.compute_units);
        s->each = SCAN_ITEM_WORK / s->length < fair ? SCAN_ITEM_WORK / s->length : fair;
    }
    return kilni_exec_ceil_div(s->lines, s->each);
}

/// Parts that keep the device busy, each of whole tiles of a work-group.
static void cut_scan_parts(const kilni_exec *exec, kiln_scan_shape *s, scan_form f, int64_t items)
{
    int64_t units = (int64_t)exec->backend->info.compute_units;
    bool block = kilni_exec_is_block(exec);
    int64_t enough = block ? units : f == SCAN_BY_GROUP ? 8 * units : 1024 * units;
    int64_t least = block ? SCAN_PART_LEAST : f == SCAN_BY_GROUP ? SCAN_GROUP * SCAN_RUN : 64;
    int64_t parts = items < enough ? kilni_exec_ceil_div(enough, items) : 1;
    int64_t most = s->length / least;
    parts = parts < most ? parts : most;
    s->part_length = kilni_exec_ceil_div(s->length, parts > 1 ? parts : 1);
    s->part_length =
        kilni_exec_ceil_div(s->part_length, SCAN_GROUP * SCAN_RUN) * (SCAN_GROUP * SCAN_RUN);
    if (parts <= 1 || (f != SCAN_BY_GROUP && !block)) {
        s->part_length = kilni_exec_ceil_div(s->length, parts > 1 ? parts : 1);
    }
    s->parts = kilni_exec_ceil_div(s->length, s->part_length);
}

static kiln_status launch_scan(kilni_exec *exec, const scan *c, const kiln_scan_shape *s,
                               scan_form f, int64_t items, kiln_buffer *totals, kiln_buffer *carry)
{
    static const char *const kernels[] = {"kiln_scan_rows", "kiln_scan_columns", "kiln_scan_group"};
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    bool block = kilni_exec_is_block(exec);
    kilni_exec_define_operator(&options, "IS_", c->op);
    kilni_exec_define_dtype(&options, "A", c->input.dtype);
    kilni_exec_define_dtype(&options, "O", c->output.dtype);
    kilni_exec_define(&options, "V", kilni_exec_vector(exec, c->input.dtype));
    kilni_exec_define(&options, "EXCLUSIVE", c->exclusive ? 1 : 0);
    kilni_exec_define(&options, "TOTALS", totals != NULL ? 1 : 0);
    kilni_exec_define(&options, "CARRY", carry != NULL ? 1 : 0);
    if (f == SCAN_COLUMNS) {
        kilni_exec_define(&options, "COLUMNS", 1);
        kilni_exec_define(&options, "NC", block ? SCAN_COLUMN_VECTORS : 1);
    } else if (f == SCAN_BY_GROUP) {
        kilni_exec_define(&options, "GROUP", SCAN_GROUP);
        kilni_exec_define(&options, "RUN", SCAN_RUN);
    }
    kiln_status status = kilni_exec_kernel(exec, "scan.cl", kernels[f], &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, s, sizeof(*s));
    kilni_cl_push_buffer(&args, c->output.buffer);
    kilni_cl_push_buffer(&args, c->input.buffer);
    kilni_cl_push_buffer(&args, totals);
    kilni_cl_push_buffer(&args, carry);
    int64_t lanes = f == SCAN_BY_GROUP ? SCAN_GROUP : 1;
    return kilni_exec_launch(exec, &args, items * s->parts * lanes,
                             f == SCAN_BY_GROUP ? SCAN_GROUP : 64);
}

static kiln_status run_scan(kilni_exec *exec, const scan *c);

/// What each part begins with: the totals of those before it.
static kiln_status cumulate_totals(kilni_exec *exec, const scan *c, const kiln_scan_shape *s,
                                   kiln_buffer *totals, kiln_buffer **out_carry)
{
    kiln_tensor_desc desc = {.dtype = kilni_exec_compute(c->input.dtype), .rank = 2};
    desc.dims[0] = s->lines;
    desc.dims[1] = s->parts;
    scan join = {.op = c->op, .axis = 1, .exclusive = true};
    join.input = kiln_view_dense(&desc, totals);
    join.output = join.input;
    kiln_status status = kilni_exec_alloc(exec, kiln_desc_bytes(&desc), out_carry);
    join.output.buffer = *out_carry;
    return status == KILN_STATUS_OK ? run_scan(exec, &join) : status;
}

static kiln_status run_scan(kilni_exec *exec, const scan *c)
{
    kiln_scan_shape s;
    kiln_buffer *totals = NULL;
    kiln_buffer *carry = NULL;
    uint32_t vector = kilni_exec_vector(exec, c->input.dtype);
    scan_shape_init(&s, c);
    scan_form f = choose_scan_form(exec, &s, vector);
    int64_t items = cut_lines(exec, &s, f, vector);
    cut_scan_parts(exec, &s, f, items);
    kiln_status status = KILN_STATUS_OK;
    if (s.parts > 1) {
        int64_t size = (int64_t)kiln_dtype_size(kilni_exec_compute(c->input.dtype));
        status = kilni_exec_alloc(exec, s.lines * s.parts * size, &totals);
        if (status == KILN_STATUS_OK) {
            status = launch_scan(exec, c, &s, f, items, totals, NULL);
        }
        if (status == KILN_STATUS_OK) {
            status = cumulate_totals(exec, c, &s, totals, &carry);
        }
    }
    return status == KILN_STATUS_OK ? launch_scan(exec, c, &s, f, items, NULL, carry) : status;
}

static void run_backwards(kiln_view *view, uint32_t axis)
{
    int64_t size = (int64_t)kiln_dtype_size(view->dtype);
    view->offset_bytes += (view->dims[axis] - 1) * view->strides[axis] * size;
    view->strides[axis] = -view->strides[axis];
}

kiln_status kilni_exec_scan(kilni_exec *exec)
{
    static const char *const names[] = {"sum", "prod", "max", "min"};
    scan c = {.op = names[exec->record->op - KILN_OP_CUM_SUM],
              .input = exec->inputs[0],
              .output = exec->outputs[0],
              .axis = kilni_exec_axis(exec, exec->inputs[0].rank),
              .exclusive = kiln_op_attr_i64(exec->record, KILN_KEY_EXCLUSIVE) != 0};
    if (kiln_op_attr_i64(exec->record, KILN_KEY_REVERSE) != 0) {
        run_backwards(&c.input, c.axis);
        run_backwards(&c.output, c.axis);
    }
    return run_scan(exec, &c);
}
