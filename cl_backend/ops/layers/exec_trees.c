// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches trees.cl. Decides how many rows a work-item has, and how many it takes down a tree side
// by side.
#include "exec_internal.h"
#include "search_args.h"

enum { X, THRESHOLDS, WEIGHTS, FEATURES, OTHERS, ROOTS, TARGETS, N_INPUTS };
enum { SIDE_BY_SIDE = 32, LONGEST_ROW = 1 << 24 };

/// Of processors parts that all have about the same, each in the cache with a tree. Few rows are
/// not worth the lanes of many.
static int64_t tree_rows(const kilni_exec *exec, int64_t rows)
{
    enum { MOST = 1024, FEW = 8 };
    if (!kilni_exec_is_block(exec) || rows < FEW) {
        return 1;
    }
    int64_t fair = kilni_exec_ceil_div(rows, 4 * (int64_t)exec->backend->info.compute_units);
    return fair < SIDE_BY_SIDE ? SIDE_BY_SIDE : fair < MOST ? fair : MOST;
}

static void define_trees(const kilni_exec *exec, int64_t side_by_side, kilni_exec_options *options)
{
    const kiln_attr *attr = kiln_op_attr(exec->record, KILN_KEY_MODE);
    const char *mode = attr->type == KILN_ATTR_STRING ? attr->v.text : "sum";
    kilni_exec_define_dtype(options, "A", exec->inputs[X].dtype);
    kilni_exec_define_dtype(options, "I", exec->inputs[FEATURES].dtype);
    kilni_exec_define(options, "ROWS", side_by_side);
    kilni_exec_define(options, "COLUMNS", exec->inputs[X].dims[1] > 0);
    kilni_exec_define(options, "MODE", mode[0] == 's' ? 0 : mode[1] == 'i' ? 1 : 2);
}

kiln_status kilni_exec_tree_ensemble(kilni_exec *exec)
{
    const kiln_view *out = &exec->outputs[0];
    const int64_t count = out->dims[1];
    const int64_t each = tree_rows(exec, out->dims[0]);
    const int64_t columns = exec->inputs[X].dims[1];
    const bool wide = kilni_exec_compute(out->dtype) != out->dtype || kilni_exec_start(out) != 0;
    const int64_t side_by_side = each > 1 && columns <= LONGEST_ROW ? SIDE_BY_SIDE : 1;
    kiln_view views[N_INPUTS];
    kiln_buffer *sums = out->buffer;
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    kiln_status status = KILN_STATUS_OK;
    if (exec->inputs[THRESHOLDS].dims[0] == 0) {
        return kilni_exec_fill(exec, 0, out);
    }
    KILN_TRY(out, status, kilni_exec_dense_inputs(exec, views));
    if (wide) {
        kiln_dtype dtype = kilni_exec_compute(out->dtype);
        int64_t bytes = out->dims[0] * count * (int64_t)kiln_dtype_size(dtype);
        KILN_TRY(out, status, kilni_exec_alloc(exec, bytes, &sums));
    }
    const kiln_trees_shape s = {.rows = out->dims[0],
                                .each = each,
                                .columns = columns,
                                .count = count,
                                .nodes = views[THRESHOLDS].dims[0],
                                .trees = views[ROOTS].dims[0],
                                .weights = views[WEIGHTS].dims[0],
                                .out_start = kilni_exec_start(out),
                                .x_start = kilni_exec_start(&views[X]),
                                .thresholds_start = kilni_exec_start(&views[THRESHOLDS]),
                                .weights_start = kilni_exec_start(&views[WEIGHTS]),
                                .features_start = kilni_exec_start(&views[FEATURES]),
                                .others_start = kilni_exec_start(&views[OTHERS]),
                                .roots_start = kilni_exec_start(&views[ROOTS]),
                                .targets_start = kilni_exec_start(&views[TARGETS])};
    define_trees(exec, side_by_side, &options);
    KILN_TRY(out, status, kilni_exec_kernel(exec, "trees.cl", "kiln_trees", &options, &args));
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    kilni_cl_push_buffer(&args, out->buffer);
    kilni_cl_push_buffer(&args, sums);
    for (unsigned i = 0; i < N_INPUTS; i++) {
        kilni_cl_push_buffer(&args, views[i].buffer);
    }
    KILN_TRY(out, status, kilni_exec_launch(exec, &args, kilni_exec_ceil_div(s.rows, each), 64));
out:
    return status;
}
