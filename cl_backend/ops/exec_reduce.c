// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches reduce.cl and argreduce.cl. Decides which loop suits the strides (along rows, across
// columns, a work-group for a row) and whether few long reductions are cut into parts that a second
// launch joins.
#include <string.h>

#include "exec_internal.h"
#include "reduce_args.h"

typedef enum reduce_form { REDUCE_ROWS, REDUCE_COLUMNS, REDUCE_BY_GROUP } reduce_form;

typedef struct reduction { ///< one launch
    const char *op;
    kiln_view input;
    kiln_view output; ///< of the whole operation
    uint32_t axes; ///< reduced ones, as bits
    bool mean;
    int64_t count; ///< elements of one result of the operation
} reduction;

enum {
    REDUCE_GROUP = 256,
    REDUCE_COLUMN_VECTORS = 4,
    REDUCE_PART_LEAST = 8192,
    REDUCE_ITEM_WORK = 8192
};

/// The reduced axis that runs inside: a dense one, else the last.
static uint32_t reduced_axis(const kilni_exec_loops *loops, uint32_t reduced)
{
    uint32_t best = KILN_MAX_RANK;
    for (uint32_t i = 0; i < loops->rank; i++) {
        bool better = best == KILN_MAX_RANK || loops->strides[0][best] != 1;
        if ((reduced >> i & 1u) != 0 && better) {
            best = i;
        }
    }
    return best;
}

static void reduce_shape_init(kiln_reduce_shape *s, const reduction *r)
{
    kilni_exec_loops loops;
    uint32_t reduced = 0;
    kilni_exec_loops_init(&loops, r->input.dims, r->input.rank);
    kilni_exec_loops_add(&loops, &r->input);
    kilni_exec_loops_merge(&loops, r->axes, &reduced);
    memset(s, 0, sizeof(*s));
    s->in_start = kilni_exec_start(&r->input);
    s->out_start = kilni_exec_start(&r->output);
    s->count = r->count;
    s->outputs = s->inner = s->outer = s->columns = s->inner_stride = 1;
    uint32_t inner = reduced_axis(&loops, reduced);
    for (uint32_t i = 0; i < loops.rank; i++) {
        if (i == inner) {
            s->inner = loops.dims[i];
            s->inner_stride = loops.strides[0][i];
        } else if ((reduced >> i & 1u) != 0) {
            s->outer_dims[s->outer_rank] = loops.dims[i];
            s->outer_strides[s->outer_rank++] = loops.strides[0][i];
            s->outer *= loops.dims[i];
        } else {
            s->kept_dims[s->kept_rank] = loops.dims[i];
            s->kept_strides[s->kept_rank++] = loops.strides[0][i];
            s->outputs *= loops.dims[i];
        }
    }
}

static reduce_form choose_reduce_form(const kilni_exec *exec, const kiln_reduce_shape *s,
                                      uint32_t vector)
{
    int64_t last = s->kept_rank - 1;
    bool across = s->kept_rank > 0 && s->kept_strides[last] == 1 && s->kept_dims[last] >= vector;
    if (across && s->inner_stride != 1) {
        return REDUCE_COLUMNS;
    }
    bool group = !kilni_exec_is_block(exec) && s->inner * s->outer >= REDUCE_GROUP / 4;
    return group ? REDUCE_BY_GROUP : REDUCE_ROWS;
}

/// Cuts the longer of the two reduced loops into `parts`.
static void cut_reduce_parts(kiln_reduce_shape *s, int64_t parts, int64_t vector)
{
    s->inner_chunk = s->inner > 0 ? s->inner : 1;
    s->outer_chunk = s->outer > 0 ? s->outer : 1;
    if (s->inner >= s->outer) {
        int64_t chunk = kilni_exec_ceil_div(s->inner_chunk, parts);
        s->inner_chunk = kilni_exec_ceil_div(chunk, vector) * vector;
        s->inner_parts = kilni_exec_ceil_div(s->inner > 0 ? s->inner : 1, s->inner_chunk);
        s->parts = s->inner_parts;
    } else {
        s->outer_chunk = kilni_exec_ceil_div(s->outer_chunk, parts);
        s->inner_parts = 1;
        s->parts = kilni_exec_ceil_div(s->outer, s->outer_chunk);
    }
}

/// Work-items that one part of all results takes.
static int64_t cut_outputs(const kilni_exec *exec, kiln_reduce_shape *s, reduce_form f,
                           uint32_t vector)
{
    int64_t length = s->inner * s->outer;
    s->each = 1;
    if (f == REDUCE_COLUMNS) {
        s->columns = s->kept_dims[--s->kept_rank];
        s->column_chunk =
            kilni_exec_is_block(exec) ? (int64_t)REDUCE_COLUMN_VECTORS * vector : vector;
        s->column_chunks = kilni_exec_ceil_div(s->columns, s->column_chunk);
        // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): a result without elements never comes
        return s->outputs / s->columns * s->column_chunks;
    }
    if (f == REDUCE_ROWS && length < REDUCE_ITEM_WORK) {
        int64_t units = 4 * (int64_t)exec->backend->info.compute_units;
        int64_t fair = kilni_exec_ceil_div(s->outputs, units);
        s->each = kilni_exec_is_block(exec) ? REDUCE_ITEM_WORK / (length > 0 ? length : 1) : 1;
        s->each = s->each < fair ? s->each : fair;
    }
    return kilni_exec_ceil_div(s->outputs, s->each);
}

/// Parts that keep the device busy: a core or a GPU's unit with work-groups, or a unit with
/// work-items.
static int64_t wanted_parts(const kilni_exec *exec, const kiln_reduce_shape *s, reduce_form f,
                            int64_t items)
{
    bool alone = !kilni_exec_is_block(exec) && f != REDUCE_BY_GROUP;
    int64_t units = (int64_t)exec->backend->info.compute_units;
    int64_t enough = kilni_exec_is_block(exec) ? 4 * units : alone ? 1024 * units : 8 * units;
    int64_t most =
        s->inner * s->outer / (alone ? REDUCE_PART_LEAST / REDUCE_GROUP : REDUCE_PART_LEAST);
    int64_t parts = items < enough ? kilni_exec_ceil_div(enough, items) : 1;
    parts = parts < most ? parts : most;
    return parts > 1 ? parts : 1;
}

static void define_reduce(const reduction *r, const kiln_reduce_shape *s, reduce_form f,
                          uint32_t vector, kiln_dtype result, kilni_exec_options *options)
{
    kilni_exec_define_operator(options, "IS_", r->op);
    kilni_exec_define_dtype(options, "A", r->input.dtype);
    kilni_exec_define_dtype(options, "O", result);
    kilni_exec_define(options, "V", vector);
    kilni_exec_define(options, "MA", s->inner_stride == 1 ? 1 : 2);
    kilni_exec_define(options, "MEAN", r->mean && s->parts == 1 ? 1 : 0);
    kilni_exec_define(options,
                      f == REDUCE_ROWS       ? "ROWS"
                      : f == REDUCE_BY_GROUP ? "GROUP"
                                             : "COLUMNS",
                      f == REDUCE_BY_GROUP ? REDUCE_GROUP : 1);
}

static kiln_status launch_reduce(kilni_exec *exec, const reduction *r, const kiln_reduce_shape *s,
                                 reduce_form f, uint32_t vector, int64_t items,
                                 const kiln_view *target)
{
    static const char *const kernels[] = {"kiln_reduce_rows", "kiln_reduce_columns",
                                          "kiln_reduce_group"};
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    define_reduce(r, s, f, vector, target->dtype, &options);
    if (f == REDUCE_COLUMNS) {
        kilni_exec_define(&options, "NC", kilni_exec_is_block(exec) ? REDUCE_COLUMN_VECTORS : 1);
    }
    kiln_status status = kilni_exec_kernel(exec, "reduce.cl", kernels[f], &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, s, sizeof(*s));
    kilni_cl_push_buffer(&args, target->buffer);
    kilni_cl_push_buffer(&args, r->input.buffer);
    int64_t lanes = f == REDUCE_BY_GROUP ? REDUCE_GROUP : 1;
    return kilni_exec_launch(exec, &args, items * s->parts * lanes,
                             f == REDUCE_BY_GROUP ? REDUCE_GROUP : 64);
}

static kiln_status reduce(kilni_exec *exec, const reduction *r);

/// Reduces the partial results, `parts` neighbours for each result.
static kiln_status join_parts(kilni_exec *exec, const reduction *r, const kiln_reduce_shape *s,
                              kiln_buffer *partial)
{
    reduction join = {.op = strcmp(r->op, "max_abs") == 0 ? "max" : r->op,
                      .output = r->output,
                      .axes = 2,
                      .mean = r->mean,
                      .count = r->count};
    kiln_tensor_desc desc = {.dtype = kilni_exec_compute(r->input.dtype), .rank = 2};
    desc.dims[0] = s->outputs;
    desc.dims[1] = s->parts;
    join.input = kiln_view_dense(&desc, partial);
    return reduce(exec, &join);
}

static kiln_status reduce(kilni_exec *exec, const reduction *r)
{
    kiln_reduce_shape s;
    uint32_t vector = kilni_exec_vector(exec, r->input.dtype);
    kiln_view target = r->output;
    reduce_shape_init(&s, r);
    reduce_form f = choose_reduce_form(exec, &s, vector);
    int64_t items = cut_outputs(exec, &s, f, vector);
    cut_reduce_parts(&s, wanted_parts(exec, &s, f, items), vector);
    if (s.parts > 1) {
        target.dtype = kilni_exec_compute(r->input.dtype);
        s.out_start = 0;
        int64_t bytes = s.outputs * s.parts * (int64_t)kiln_dtype_size(target.dtype);
        kiln_status status = kilni_exec_alloc(exec, bytes, &target.buffer);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    kiln_status status = launch_reduce(exec, r, &s, f, vector, items, &target);
    if (status == KILN_STATUS_OK && s.parts > 1) {
        status = join_parts(exec, r, &s, target.buffer);
    }
    return status;
}

kiln_status kilni_exec_reduce(kilni_exec *exec)
{
    bool mean = exec->record->op == KILN_OP_MEAN;
    reduction r = {.op = mean ? "sum" : kiln_op_info_of(exec->record->op)->name,
                   .input = exec->inputs[0],
                   .output = exec->outputs[0],
                   .mean = mean};
    r.axes = kilni_exec_axes(exec, r.input.rank);
    r.count = 1;
    for (uint32_t i = 0; i < r.input.rank; i++) {
        r.count *= (r.axes >> i & 1u) != 0 ? r.input.dims[i] : 1;
    }
    return reduce(exec, &r);
}

static void arg_shape_init(const kilni_exec *exec, kiln_argreduce_shape *s)
{
    const kiln_view *input = &exec->inputs[0];
    uint32_t axis = kilni_exec_axis(exec, input->rank);
    kilni_exec_loops loops;
    kiln_view kept = *input;
    kept.dims[axis] = 1;
    kilni_exec_loops_init(&loops, kept.dims, kept.rank);
    kilni_exec_loops_add(&loops, &kept);
    kilni_exec_loops_merge(&loops, 0, NULL);
    s->outputs = kilni_exec_count(&kept);
    s->length = input->dims[axis];
    s->stride = input->strides[axis];
    s->in_start = kilni_exec_start(input);
    s->out_start = kilni_exec_start(&exec->outputs[0]);
    s->rank = loops.rank;
    memcpy(s->dims, loops.dims, sizeof(s->dims));
    memcpy(s->strides, loops.strides[0], sizeof(s->strides));
}

/// Work-items of the forms without groups. On CPUs vectors run along the axis where it is dense,
/// else across results that are neighbours in the input; a lane's place has to fit 31 bits.
static int64_t arg_cut(const kilni_exec *exec, kiln_argreduce_shape *s, uint32_t vector,
                       kilni_exec_options *options)
{
    int64_t last = s->rank - 1;
    if (!kilni_exec_is_block(exec) || s->length >= INT32_MAX) {
        return s->outputs;
    }
    kilni_exec_define(options, "V", vector);
    if (s->stride != 1 && s->rank > 0 && s->strides[last] == 1 && s->dims[last] >= vector) {
        s->columns = s->dims[last];
        s->rank--;
        kilni_exec_define(options, "ACROSS", 1);
        kilni_exec_define(options, "NC", REDUCE_COLUMN_VECTORS);
        return s->outputs / s->columns *
               kilni_exec_ceil_div(s->columns, (int64_t)REDUCE_COLUMN_VECTORS * vector);
    }
    if (s->length < REDUCE_ITEM_WORK) {
        int64_t units = 4 * (int64_t)exec->backend->info.compute_units;
        int64_t fair = kilni_exec_ceil_div(s->outputs, units);
        s->each = REDUCE_ITEM_WORK / s->length < fair ? REDUCE_ITEM_WORK / s->length : fair;
    }
    if (s->stride == 1 && s->length >= 2 * (int64_t)vector) {
        kilni_exec_define(options, "ALONG", 1);
    }
    return kilni_exec_ceil_div(s->outputs, s->each);
}

kiln_status kilni_exec_argreduce(kilni_exec *exec)
{
    kiln_argreduce_shape s = {.each = 1};
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    kiln_dtype dtype = exec->inputs[0].dtype;
    arg_shape_init(exec, &s);
    bool group = !kilni_exec_is_block(exec) && s.length >= REDUCE_GROUP / 4;
    kilni_exec_define_dtype(&options, "A", dtype);
    kilni_exec_define(&options, "SMALLEST", exec->record->op == KILN_OP_ARGMIN ? 1 : 0);
    kilni_exec_define(&options, "LAST", kiln_op_attr_i64(exec->record, KILN_KEY_LAST) != 0 ? 1 : 0);
    kilni_exec_define(&options, "GROUP", group ? REDUCE_GROUP : 0);
    int64_t items = group ? s.outputs * REDUCE_GROUP
                          : arg_cut(exec, &s, kilni_exec_vector(exec, dtype), &options);
    kiln_status status = kilni_exec_kernel(exec, "argreduce.cl", "kiln_argreduce", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    kilni_cl_push_buffer(&args, exec->outputs[0].buffer);
    kilni_cl_push_buffer(&args, exec->inputs[0].buffer);
    return kilni_exec_launch(exec, &args, items, group ? REDUCE_GROUP : 64);
}
