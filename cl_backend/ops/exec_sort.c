// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches sort.cl: sort, argsort, sort_with_indices, top_k, and keys of others. Decides how long
// the pieces are that are sorted alone, and when the first k are found without sorting the rest.
// Lines that are not dense rows become such first.

#include "exec_internal.h"
#include "search_args.h"

enum {
    SORT_GROUP = 256,
    SORT_TILE = 1024, ///< keys in the local memory of a work-group
    SORT_RUN = 32768, ///< keys that a work-item sorts alone: they fit the second cache
    MERGE_BLOCK = 16384,
    MERGE_GPU = 16,
    SELECT_RUN = 65536,
    SELECT_MOST = 128 ///< more than these are found by sorting
};

typedef struct sort { ///< of dense lines
    const kiln_view *input; ///< NULL: of keys that are there
    bool indexed;
    bool descending;
    uint32_t bytes; ///< of a key
    kiln_buffer *keys; ///< the current ones
    kiln_buffer *spare; ///< as long
} sort;

static void define_sort(const kilni_exec *exec, const sort *c, bool from,
                        kilni_exec_options *options)
{
    kilni_exec_define(options, "BYTES", c->bytes);
    kilni_exec_define(options, "INDEXED", c->indexed ? 1 : 0);
    kilni_exec_define(options, "DESCENDING", c->descending ? 1 : 0);
    kilni_exec_define(options, "FROM", from ? 1 : 0);
    if (c->input != NULL) {
        kilni_exec_define_dtype(options, "A", c->input->dtype);
    }
    kilni_exec_define(options, "GROUP", kilni_exec_is_block(exec) ? 0 : SORT_GROUP);
    kilni_exec_define(options, "TILE", SORT_TILE);
}

/// Lines for each work-item, when they are short.
static int64_t lines_each(const kilni_exec *exec, int64_t lines, int64_t length, int64_t most)
{
    int64_t fair = kilni_exec_ceil_div(lines, 4 * (int64_t)exec->backend->info.compute_units);
    int64_t each = most / (length > 0 ? length : 1);
    each = each < fair ? each : fair;
    return each > 1 ? each : 1;
}

// ---- pieces alone ----

/// Tiles of a work-group: of all keys, or the first `keep` of each tile.
static kiln_status launch_tiles(kilni_exec *exec, const sort *c, kiln_sort_shape *s, bool from,
                                kiln_buffer *source, kiln_buffer *target)
{
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    define_sort(exec, c, from, &options);
    s->padded = 2;
    while (s->padded < SORT_TILE && s->padded < s->length) {
        s->padded *= 2;
    }
    bool selects = s->keep < s->tile;
    s->each = 2;
    while (s->each < s->keep) {
        s->each *= 2;
    }
    kilni_exec_define(&options, "SELECT", selects ? 1 : 0);
    kiln_status status = kilni_exec_kernel(exec, "sort.cl", "kiln_sort_tiles", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, s, sizeof(*s));
    kilni_cl_push_buffer(&args, target);
    kilni_cl_push_buffer(&args, source);
    int64_t groups = kilni_exec_ceil_div(s->lines, SORT_TILE / s->padded) * s->tiles;
    return kilni_exec_launch(exec, &args, groups * SORT_GROUP, SORT_GROUP);
}

static kiln_status launch_runs(kilni_exec *exec, const sort *c, kiln_sort_shape *s, bool from,
                               kiln_buffer *source)
{
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    define_sort(exec, c, from, &options);
    s->each = s->tiles == 1 ? lines_each(exec, s->lines, s->length, SORT_RUN) : 1;
    kiln_status status = kilni_exec_kernel(exec, "sort.cl", "kiln_sort_runs", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, s, sizeof(*s));
    kilni_cl_push_buffer(&args, c->keys);
    kilni_cl_push_buffer(&args, c->spare);
    kilni_cl_push_buffer(&args, source);
    return kilni_exec_launch(exec, &args, kilni_exec_ceil_div(s->lines, s->each) * s->tiles, 1);
}

static kiln_status launch_select(kilni_exec *exec, const sort *c, kiln_sort_shape *s, bool from,
                                 kiln_buffer *source, kiln_buffer *target)
{
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    define_sort(exec, c, from, &options);
    kilni_exec_define(&options, "SELECT", 1);
    s->each = s->tiles == 1 ? lines_each(exec, s->lines, s->length, SELECT_RUN) : 1;
    kiln_status status = kilni_exec_kernel(exec, "sort.cl", "kiln_sort_select", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, s, sizeof(*s));
    kilni_cl_push_buffer(&args, target);
    kilni_cl_push_buffer(&args, source);
    return kilni_exec_launch(exec, &args, kilni_exec_ceil_div(s->lines, s->each) * s->tiles, 1);
}

// ---- whole lines ----

static kiln_status launch_merge(kilni_exec *exec, const sort *c, kiln_sort_shape *s)
{
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    define_sort(exec, c, false, &options);
    s->each = kilni_exec_is_block(exec) ? MERGE_BLOCK : MERGE_GPU;
    kiln_status status = kilni_exec_kernel(exec, "sort.cl", "kiln_sort_merge", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, s, sizeof(*s));
    kilni_cl_push_buffer(&args, c->spare);
    kilni_cl_push_buffer(&args, c->keys);
    return kilni_exec_launch(exec, &args, s->lines * kilni_exec_ceil_div(s->length, s->each), 128);
}

/// Sorts elements, or keys that are there; leaves the keys in c->keys.
static kiln_status sort_lines(kilni_exec *exec, sort *c, kiln_sort_shape *s, kiln_buffer *source)
{
    bool block = kilni_exec_is_block(exec);
    bool from = c->input != NULL;
    s->tile = block ? SORT_RUN : SORT_TILE;
    s->tiles = kilni_exec_ceil_div(s->length, s->tile);
    s->keep = s->tile;
    kiln_status status = block ? launch_runs(exec, c, s, from, source)
                               : launch_tiles(exec, c, s, from, source, c->keys);
    for (; status == KILN_STATUS_OK && s->tile < s->length; s->tile *= 2) {
        status = launch_merge(exec, c, s);
        kiln_buffer *sorted = c->spare;
        c->spare = c->keys;
        c->keys = sorted;
    }
    return status;
}

kiln_status kilni_exec_sort_keys(kilni_exec *exec, kilni_exec_sorting *sorting)
{
    kiln_sort_shape s = {.lines = sorting->lines, .length = sorting->length};
    sort c = {.bytes = sorting->bytes, .keys = sorting->keys};
    int64_t bytes = s.lines * s.length * (int64_t)c.bytes;
    kiln_status status = kilni_exec_alloc(exec, bytes, &c.spare);
    if (status == KILN_STATUS_OK) {
        status = sort_lines(exec, &c, &s, sorting->keys);
    }
    sorting->keys = c.keys;
    return status;
}

/// The first `keep` keys of each line: those of each piece, then of what they left, and so on.
static kiln_status select_lines(kilni_exec *exec, sort *c, kiln_sort_shape *s, int64_t keep)
{
    bool block = kilni_exec_is_block(exec);
    kiln_buffer *source = c->input->buffer;
    kiln_buffer *others[2] = {NULL, NULL};
    bool from = true;
    kiln_status status = KILN_STATUS_OK;
    s->keep = keep;
    for (unsigned level = 0; status == KILN_STATUS_OK && (from || s->length > keep); level++) {
        s->tile = block ? SELECT_RUN : SORT_TILE;
        s->tiles = kilni_exec_ceil_div(s->length, s->tile);
        int64_t bytes = s->lines * s->tiles * keep * (int64_t)c->bytes;
        kiln_buffer **target = &others[level % 2];
        if (*target == NULL) {
            status = kilni_exec_alloc(exec, bytes, target);
        }
        if (status == KILN_STATUS_OK) {
            status = block ? launch_select(exec, c, s, from, source, *target)
                           : launch_tiles(exec, c, s, from, source, *target);
        }
        source = c->keys = *target;
        s->length = s->tiles * keep;
        s->start = 0;
        from = false;
    }
    return status;
}

// ---- operators ----

static kiln_status decode(kilni_exec *exec, const sort *c, const kiln_sort_shape *s, int64_t row,
                          const kiln_view *values, const kiln_view *indices)
{
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    kiln_sort_shape d = *s;
    d.each = kilni_exec_is_block(exec) ? 4096 : 1;
    d.start = kilni_exec_start(c->input);
    d.length = c->input->dims[c->input->rank - 1];
    define_sort(exec, c, false, &options);
    kilni_exec_define(&options, "VALUES", values != NULL ? 1 : 0);
    kilni_exec_define_dtype(&options, "RAW", kilni_exec_raw(c->input->dtype));
    kiln_status status = kilni_exec_kernel(exec, "sort.cl", "kiln_sort_decode", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, &d, sizeof(d));
    kilni_cl_push_buffer(&args, c->keys);
    kilni_cl_push_i64(&args, row);
    kilni_cl_push_buffer(&args, values != NULL ? values->buffer : NULL);
    kilni_cl_push_i64(&args, values != NULL ? kilni_exec_start(values) : 0);
    kilni_cl_push_buffer(&args, indices != NULL ? indices->buffer : NULL);
    kilni_cl_push_i64(&args, indices != NULL ? kilni_exec_start(indices) : 0);
    kilni_cl_push_buffer(&args, c->input->buffer);
    return kilni_exec_launch(exec, &args, kilni_exec_ceil_div(d.lines * d.keep, d.each), 256);
}

/// Keys of the first `keep` elements of each line in order; `*out_row` of each are there.
static kiln_status sort_keys(kilni_exec *exec, sort *c, kiln_sort_shape *s, int64_t keep,
                             int64_t *out_row)
{
    if (keep < s->length && keep <= SELECT_MOST) {
        kiln_status status = select_lines(exec, c, s, keep);
        *out_row = s->length;
        return status;
    }
    int64_t bytes = s->lines * s->length * (int64_t)c->bytes;
    kiln_status status = kilni_exec_alloc(exec, bytes, &c->keys);
    if (status == KILN_STATUS_OK) {
        status = kilni_exec_alloc(exec, bytes, &c->spare);
    }
    *out_row = s->length;
    return status == KILN_STATUS_OK ? sort_lines(exec, c, s, c->input->buffer) : status;
}

/// Either of `values` and `indices` may be NULL.
static kiln_status order(kilni_exec *exec, const kiln_view *values, const kiln_view *indices,
                         bool descending)
{
    uint32_t axis = kilni_exec_axis(exec, exec->inputs[0].rank);
    kiln_view turned = kilni_exec_axis_last(&exec->inputs[0], axis);
    kiln_view input;
    kiln_view to[2];
    kiln_view lines[2];
    const kiln_view *results[2] = {values, indices};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kilni_exec_dense(exec, &turned, &input));
    for (unsigned i = 0; i < 2; i++) {
        if (results[i] != NULL) {
            to[i] = kilni_exec_axis_last(results[i], axis);
            KILN_TRY(out, status, kilni_exec_result(exec, &to[i], &lines[i]));
        }
    }
    uint32_t wide = kiln_dtype_size(input.dtype) == 8 ? 2 : 1;
    sort c = {.input = &input,
              .indexed = indices != NULL,
              .descending = descending,
              .bytes = indices != NULL ? 8 * wide : 4 * wide};
    kiln_sort_shape s = {.length = input.dims[input.rank - 1], .start = kilni_exec_start(&input)};
    s.lines = kilni_exec_count(&input) / s.length;
    const kiln_view *result = indices != NULL ? indices : values;
    int64_t keep = result->dims[axis];
    int64_t row = 0;
    if (s.length >= UINT32_MAX) {
        return kiln_fail(exec->err, UNIMPLEMENTED, "%s: an axis of 2^32 elements or more",
                         kiln_op_info_of(exec->record->op)->name);
    }
    KILN_TRY(out, status, sort_keys(exec, &c, &s, keep, &row));
    s.keep = keep;
    KILN_TRY(out, status,
             decode(exec, &c, &s, row, values != NULL ? &lines[0] : NULL,
                    indices != NULL ? &lines[1] : NULL));
    for (unsigned i = 0; i < 2; i++) {
        if (results[i] != NULL && lines[i].buffer != results[i]->buffer) {
            KILN_TRY(out, status, kilni_exec_copy(exec, &lines[i], &to[i]));
        }
    }
out:
    return status;
}

kiln_status kilni_exec_sort(kilni_exec *exec)
{
    bool descending = kiln_op_attr_i64(exec->record, KILN_KEY_DESCENDING) != 0;
    switch (exec->record->op) {
    case KILN_OP_SORT:
        return order(exec, &exec->outputs[0], NULL, descending);
    case KILN_OP_ARGSORT:
        return order(exec, NULL, &exec->outputs[0], descending);
    default:
        return order(exec, &exec->outputs[0], &exec->outputs[1], descending);
    }
}
