// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's operators whose result's length depends on contents. Each counts on the device, reads that
// one number, and goes on with it; a capture refuses the read, with the node's name. Decides that
// Unique is written with sort orders and counts of groups, and non-maximum suppression with one
// operator of fixed shape, whose unused places are dropped afterwards.
#include "onnx_import.h"

#include <string.h>

/// Indices [count, rank] of what is not 0.
static kilni_onnx_ref places_of(kilni_onnx_call *call, kilni_onnx_ref x)
{
    kilni_onnx_ref mask = kilni_onnx_cast(call, x, KILN_DTYPE_BOOL);
    kilni_onnx_ref ones = kilni_onnx_cast(call, mask, KILN_DTYPE_I64);
    kilni_onnx_ref total = kilni_onnx_reduce(call, KILN_OP_SUM, ones, NULL, 0, false);
    kiln_number count = kilni_onnx_value_number(call, total);
    const kiln_attr attr = kilni_attr_i64(count.v.i);
    return kilni_onnx_emit(call, KILN_OP_ARGWHERE, &mask, 1, &attr, 1);
}

/// The same of a list of flags, as indices of rank 1.
static kilni_onnx_ref flagged(kilni_onnx_call *call, kilni_onnx_ref flags)
{
    kilni_onnx_ref places = places_of(call, flags);
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    const int64_t dims[] = {places->desc.dims[0]};
    return kilni_onnx_reshape(call, places, dims, 1);
}

static kilni_onnx_ref flat(kilni_onnx_call *call, kilni_onnx_ref x)
{
    if (!kilni_onnx_ok(call) || x == NULL) {
        return NULL;
    }
    const int64_t dims[] = {kiln_desc_count(&x->desc)};
    return kilni_onnx_reshape(call, x, dims, 1);
}

void kilni_onnx_op_non_zero(kilni_onnx_call *call)
{
    static const int64_t swapped[] = {1, 0};
    kilni_onnx_ref places = places_of(call, kilni_onnx_in(call, 0));
    kilni_onnx_out(call, 0, kilni_onnx_permute(call, places, swapped, 2));
}

/// Without an axis of the flattened input; a condition that is shorter leaves the rest out.
void kilni_onnx_op_compress(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref condition = kilni_onnx_in(call, 1);
    bool whole = kilni_onnx_ok(call) && kilni_onnx_attr_find(call, "axis") == NULL;
    x = whole ? flat(call, x) : x;
    if (!kilni_onnx_ok(call)) {
        return;
    }
    uint32_t axis = kilni_onnx_axis(call, kilni_onnx_attr_int(call, "axis", 0), x->desc.rank);
    if (kilni_onnx_ok(call) &&
        (condition->desc.rank != 1 || condition->desc.dims[0] > x->desc.dims[axis])) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "a condition of rank %u and length %lld for %lld",
                        condition->desc.rank, (long long)condition->desc.dims[0],
                        (long long)x->desc.dims[axis]);
    }
    kilni_onnx_ref places = flagged(call, condition);
    kilni_onnx_out(call, 0, kilni_onnx_indexed(call, KILN_OP_SELECT, x, places, axis));
}

// ---- NonMaxSuppression ----

static double threshold(kilni_onnx_call *call, uint32_t input, double fallback)
{
    kilni_onnx_ref given = kilni_onnx_opt(call, input);
    return given == NULL ? fallback : kilni_onnx_value_number(call, given).v.f;
}

void kilni_onnx_op_non_max_suppression(kilni_onnx_call *call)
{
    kilni_onnx_ref boxes = kilni_onnx_in(call, 0);
    kilni_onnx_ref most = kilni_onnx_opt(call, 2);
    kilni_onnx_ref least = kilni_onnx_opt(call, 4);
    int64_t count = most == NULL ? 0 : kilni_onnx_value_number(call, most).v.i;
    bool center = kilni_onnx_attr_int(call, "center_point_box", 0) != 0;
    const kilni_onnx_ref inputs[] = {boxes, kilni_onnx_in(call, 1)};
    const kiln_attr attrs[] = {
        kilni_attr_i64(count < 0 ? 0 : count), kilni_attr_f64(threshold(call, 3, 0)),
        least == NULL ? kilni_attr_none() : kilni_attr_f64(threshold(call, 4, 0)),
        kilni_attr_bool(center)};
    kilni_onnx_ref chosen = kilni_onnx_emit(call, KILN_OP_NMS, inputs, 2, attrs, 4);
    kilni_onnx_ref used = kilni_onnx_scalar_int(call, KILN_OP_GREATER_EQUAL_SCALAR, chosen, 0);
    kilni_onnx_ref places = places_of(call, used);
    kilni_onnx_ref numbers = flat(call, chosen);
    kilni_onnx_ref kept =
        kilni_onnx_indexed(call, KILN_OP_SELECT, numbers, flagged(call, flat(call, used)), 0);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    const int64_t column[] = {places->desc.dims[0], 1};
    const kilni_onnx_ref parts[] = {kilni_onnx_slice_axis(call, places, 1, 0, 2, 1),
                                    kilni_onnx_reshape(call, kept, column, 2)};
    kilni_onnx_out(call, 0, kilni_onnx_concat(call, parts, 2, 1));
}

// ---- Unique ----

typedef struct groups { ///< of equal rows
    kilni_onnx_ref order; ///< rows in ascending order, equals as they came
    kilni_onnx_ref flags; ///< of the ordered rows: the first of each group
    kilni_onnx_ref starts; ///< where these are
    int64_t rows;
} groups;

static kilni_onnx_ref counting(kilni_onnx_call *call, int64_t count)
{
    return kilni_onnx_arange(call, KILN_DTYPE_I64, count, kiln_i64(0), kiln_i64(1));
}

static kilni_onnx_ref sort_order(kilni_onnx_call *call, kilni_onnx_ref x)
{
    const kiln_attr attrs[] = {kilni_attr_i64(0), kilni_attr_bool(false)};
    return kilni_onnx_emit(call, KILN_OP_ARGSORT, &x, 1, attrs, 2);
}

/// `values` put at `places` of as many zeros.
static kilni_onnx_ref put_back(kilni_onnx_call *call, kilni_onnx_ref values, kilni_onnx_ref places)
{
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    const kiln_attr attrs[] = {kilni_attr_i64(0),
                               {.type = KILN_ATTR_STRING, .count = 6, .v.text = "assign"}};
    const kilni_onnx_ref inputs[] = {
        kilni_onnx_full(call, KILN_DTYPE_I64, values->desc.dims, 1, kiln_i64(0)), values, places};
    return kilni_onnx_emit(call, KILN_OP_SCATTER, inputs, 3, attrs, 2);
}

static kilni_onnx_ref take(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref places)
{
    return kilni_onnx_indexed(call, KILN_OP_SELECT, x, places, 0);
}

/// Rows in lexicographic order: by the last column first, each sort keeping what the ones before
/// did.
static kilni_onnx_ref row_order(kilni_onnx_call *call, kilni_onnx_ref table)
{
    const int64_t line[] = {kilni_onnx_ok(call) ? table->desc.dims[0] : 0};
    kilni_onnx_ref order = NULL;
    for (int64_t i = kilni_onnx_ok(call) ? table->desc.dims[1] : 0; i-- > 0;) {
        kilni_onnx_ref column = kilni_onnx_slice_axis(call, table, 1, i, i + 1, 1);
        column = kilni_onnx_reshape(call, column, line, 1);
        kilni_onnx_ref next = sort_order(call, order == NULL ? column : take(call, column, order));
        order = order == NULL ? next : take(call, order, next);
    }
    return order != NULL ? order : counting(call, line[0]);
}

static groups group_rows(kilni_onnx_call *call, kilni_onnx_ref table)
{
    static const int64_t columns = 1;
    const int64_t one[] = {1};
    groups g = {.rows = kilni_onnx_ok(call) ? table->desc.dims[0] : 0};
    g.order = row_order(call, table);
    kilni_onnx_ref rows = take(call, table, g.order);
    kilni_onnx_ref differs = kilni_onnx_binary(
        call, KILN_OP_NOT_EQUAL, kilni_onnx_slice_axis(call, rows, 0, 1, g.rows, 1),
        kilni_onnx_slice_axis(call, rows, 0, 0, g.rows - 1, 1));
    const kilni_onnx_ref flags[] = {
        kilni_onnx_full(call, KILN_DTYPE_BOOL, one, 1, kiln_i64(1)),
        kilni_onnx_reduce(call, KILN_OP_ANY, differs, &columns, 1, false)};
    g.flags = kilni_onnx_ok(call) ? kilni_onnx_concat(call, flags, 2, 0) : NULL;
    g.starts = flagged(call, g.flags);
    return g;
}

/// The group of every row, in the order of the input.
static kilni_onnx_ref group_of_rows(kilni_onnx_call *call, const groups *g)
{
    const kiln_attr attrs[] = {kilni_attr_i64(0), kilni_attr_bool(false), kilni_attr_bool(false)};
    kilni_onnx_ref ones = kilni_onnx_cast(call, g->flags, KILN_DTYPE_I64);
    kilni_onnx_ref numbers = kilni_onnx_emit(call, KILN_OP_CUM_SUM, &ones, 1, attrs, 3);
    numbers = kilni_onnx_scalar_int(call, KILN_OP_SUB_SCALAR, numbers, 1);
    return put_back(call, numbers, g->order);
}

static kilni_onnx_ref group_sizes(kilni_onnx_call *call, const groups *g)
{
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    const kilni_onnx_ref ends[] = {
        kilni_onnx_slice_axis(call, g->starts, 0, 1, g->starts->desc.dims[0], 1),
        kilni_onnx_const_ints(call, &g->rows, 1)};
    return kilni_onnx_binary(call, KILN_OP_SUB, kilni_onnx_concat(call, ends, 2, 0), g->starts);
}

/// x as rows to compare: along an axis, or its elements. Without sorting of truth values.
static kilni_onnx_ref rows_to_compare(kilni_onnx_call *call, kilni_onnx_ref x, uint32_t axis)
{
    int64_t axes[KILN_MAX_RANK];
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    for (uint32_t i = 0; i < x->desc.rank; i++) {
        axes[i] = i == 0 ? axis : i <= axis ? i - 1 : i;
    }
    int64_t rows = x->desc.dims[axis];
    const int64_t dims[] = {rows, rows > 0 ? kiln_desc_count(&x->desc) / rows : 1};
    kilni_onnx_ref table = axis == 0 ? x : kilni_onnx_permute(call, x, axes, x->desc.rank);
    table = kilni_onnx_reshape(call, table, dims, 2);
    return x->desc.dtype == KILN_DTYPE_BOOL ? kilni_onnx_cast(call, table, KILN_DTYPE_U8) : table;
}

static void unique_of_nothing(kilni_onnx_call *call, kilni_onnx_ref x)
{
    static const int64_t none[] = {0};
    kilni_onnx_out(call, 0, x);
    for (uint32_t i = 1; i < 4; i++) {
        kilni_onnx_out(call, i, kilni_onnx_scratch(call, KILN_DTYPE_I64, 1, none));
    }
}

void kilni_onnx_op_unique(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    bool sorted = kilni_onnx_attr_int(call, "sorted", 1) != 0;
    bool whole = kilni_onnx_ok(call) && kilni_onnx_attr_find(call, "axis") == NULL;
    x = whole ? flat(call, x) : x;
    uint32_t axis = kilni_onnx_ok(call)
                        ? kilni_onnx_axis(call, kilni_onnx_attr_int(call, "axis", 0), x->desc.rank)
                        : 0;
    if (!kilni_onnx_ok(call) || x->desc.dims[axis] == 0) {
        if (kilni_onnx_ok(call)) {
            unique_of_nothing(call, x);
        }
        return;
    }
    groups g = group_rows(call, rows_to_compare(call, x, axis));
    kilni_onnx_ref first = take(call, g.order, g.starts);
    kilni_onnx_ref inverse = kilni_onnx_wants(call, 2) ? group_of_rows(call, &g) : NULL;
    kilni_onnx_ref sizes = kilni_onnx_wants(call, 3) ? group_sizes(call, &g) : NULL;
    if (!sorted) {
        kilni_onnx_ref order = sort_order(call, first);
        first = take(call, first, order);
        sizes = sizes == NULL ? NULL : take(call, sizes, order);
        if (inverse != NULL && kilni_onnx_ok(call)) {
            inverse =
                take(call, put_back(call, counting(call, order->desc.dims[0]), order), inverse);
        }
    }
    kilni_onnx_out(call, 0, kilni_onnx_indexed(call, KILN_OP_SELECT, x, first, axis));
    kilni_onnx_out(call, 1, first);
    kilni_onnx_out(call, 2, inverse);
    kilni_onnx_out(call, 3, sizes);
}
