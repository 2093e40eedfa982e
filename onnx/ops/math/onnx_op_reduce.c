// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's reductions. Decides where the axes come from (attribute, or input of newer versions) and
// what no axes mean: all of them, unless noop_with_empty_axes. The composed ones are written with
// the primitive reductions.
#include "onnx_import.h"

typedef struct reduce_call {
    kilni_onnx_ref x;
    kilni_onnx_ints axes;
    bool keepdims;
    bool noop; ///< no axis is reduced
} reduce_call;

static reduce_call begin_reduction(kilni_onnx_call *call)
{
    reduce_call r = {.x = kilni_onnx_in(call, 0)};
    call->in_f32 = true; // squares and powers of what is summed, too
    r.keepdims = kilni_onnx_attr_int(call, "keepdims", 1) != 0;
    if (!kilni_onnx_attr_ints(call, "axes", &r.axes) && call->n_inputs > 1) {
        r.axes = kilni_onnx_value_ints(call, kilni_onnx_opt(call, 1));
    }
    r.noop = r.axes.count == 0 && kilni_onnx_attr_int(call, "noop_with_empty_axes", 0) != 0;
    return r;
}

static kilni_onnx_ref apply(kilni_onnx_call *call, const reduce_call *r, kiln_op op,
                            kilni_onnx_ref x)
{
    return r->noop ? x : kilni_onnx_reduce(call, op, x, r->axes.v, r->axes.count, r->keepdims);
}

static void single(kilni_onnx_call *call, kiln_op op)
{
    reduce_call r = begin_reduction(call);
    kilni_onnx_out(call, 0, apply(call, &r, op, r.x));
}

void kilni_onnx_op_reduce_sum(kilni_onnx_call *call)
{
    single(call, KILN_OP_SUM);
}

void kilni_onnx_op_reduce_max(kilni_onnx_call *call)
{
    reduce_call r = begin_reduction(call);
    bool is_bool = kilni_onnx_ok(call) && r.x->desc.dtype == KILN_DTYPE_BOOL;
    kilni_onnx_out(call, 0, apply(call, &r, is_bool ? KILN_OP_ANY : KILN_OP_MAX, r.x));
}

void kilni_onnx_op_reduce_min(kilni_onnx_call *call)
{
    reduce_call r = begin_reduction(call);
    bool is_bool = kilni_onnx_ok(call) && r.x->desc.dtype == KILN_DTYPE_BOOL;
    kilni_onnx_out(call, 0, apply(call, &r, is_bool ? KILN_OP_ALL : KILN_OP_MIN, r.x));
}

void kilni_onnx_op_reduce_prod(kilni_onnx_call *call)
{
    single(call, KILN_OP_PROD);
}

/// Of integers the sum divided by the count, rounded towards 0.
void kilni_onnx_op_reduce_mean(kilni_onnx_call *call)
{
    reduce_call r = begin_reduction(call);
    if (!kilni_onnx_ok(call) || kilni_onnx_is_float(r.x)) {
        kilni_onnx_out(call, 0, apply(call, &r, KILN_OP_MEAN, r.x));
        return;
    }
    kilni_onnx_ref sum = apply(call, &r, KILN_OP_SUM, r.x);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    int64_t results = kiln_desc_count(&sum->desc);
    int64_t each = results > 0 ? kiln_desc_count(&r.x->desc) / results : 1;
    kilni_onnx_out(call, 0, kilni_onnx_scalar_int(call, KILN_OP_DIV_SCALAR, sum, each));
}

void kilni_onnx_op_reduce_l1(kilni_onnx_call *call)
{
    reduce_call r = begin_reduction(call);
    kilni_onnx_ref sizes = kilni_onnx_unary(call, KILN_OP_ABS, r.x);
    kilni_onnx_out(call, 0, apply(call, &r, KILN_OP_SUM, sizes));
}

static kilni_onnx_ref sum_of_squares(kilni_onnx_call *call, const reduce_call *r)
{
    kilni_onnx_ref squares = kilni_onnx_binary(call, KILN_OP_MUL, r->x, r->x);
    return apply(call, r, KILN_OP_SUM, squares);
}

void kilni_onnx_op_reduce_sum_square(kilni_onnx_call *call)
{
    reduce_call r = begin_reduction(call);
    kilni_onnx_out(call, 0, sum_of_squares(call, &r));
}

void kilni_onnx_op_reduce_l2(kilni_onnx_call *call)
{
    reduce_call r = begin_reduction(call);
    kilni_onnx_out(call, 0, kilni_onnx_unary(call, KILN_OP_SQRT, sum_of_squares(call, &r)));
}

void kilni_onnx_op_reduce_log_sum(kilni_onnx_call *call)
{
    reduce_call r = begin_reduction(call);
    kilni_onnx_out(call, 0, kilni_onnx_unary(call, KILN_OP_LOG, apply(call, &r, KILN_OP_SUM, r.x)));
}

/// log(sum(exp(x - m))) + m with m the largest element, or 0 where that is infinite.
void kilni_onnx_op_reduce_log_sum_exp(kilni_onnx_call *call)
{
    reduce_call r = begin_reduction(call);
    reduce_call kept = r;
    kept.keepdims = true;
    kilni_onnx_ref largest = apply(call, &kept, KILN_OP_MAX, r.x);
    kilni_onnx_ref infinite = kilni_onnx_unary(call, KILN_OP_IS_INF, largest);
    largest = kilni_onnx_mask_fill(call, largest, infinite, 0);
    kilni_onnx_ref shifted = kilni_onnx_binary(call, KILN_OP_SUB, r.x, largest);
    kilni_onnx_ref sum = apply(call, &r, KILN_OP_SUM, kilni_onnx_unary(call, KILN_OP_EXP, shifted));
    kilni_onnx_ref result = kilni_onnx_unary(call, KILN_OP_LOG, sum);
    if (kilni_onnx_ok(call)) {
        largest = kilni_onnx_reshape(call, largest, sum->desc.dims, sum->desc.rank);
    }
    kilni_onnx_out(call, 0, kilni_onnx_binary(call, KILN_OP_ADD, result, largest));
}

static void arg_reduce(kilni_onnx_call *call, kiln_op op)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    int64_t axis = kilni_onnx_attr_int(call, "axis", 0);
    bool keepdims = kilni_onnx_attr_int(call, "keepdims", 1) != 0;
    bool last = kilni_onnx_attr_int(call, "select_last_index", 0) != 0;
    kilni_onnx_out(call, 0, kilni_onnx_argreduce(call, op, x, axis, keepdims, last));
}

void kilni_onnx_op_arg_max(kilni_onnx_call *call)
{
    arg_reduce(call, KILN_OP_ARGMAX);
}

void kilni_onnx_op_arg_min(kilni_onnx_call *call)
{
    arg_reduce(call, KILN_OP_ARGMIN);
}
