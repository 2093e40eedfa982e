// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's random operators. Numbers come from the device's generator, so they follow kiln_seed and
// differ from run to run; a node with a seed draws the same numbers in every run, as a node with
// the same seed does.
#include <string.h>

#include "onnx_import.h"

/// Seed, stream and position: open, or those of the node's own seed.
static void set_place(kilni_onnx_call *call, kiln_attr *attrs)
{
    const kilni_onnx_attr *seed = kilni_onnx_attr_find(call, "seed");
    memset(attrs, 0, 3 * sizeof(*attrs));
    if (seed != NULL) {
        uint32_t bits = 0;
        memcpy(&bits, &seed->f, sizeof(bits));
        attrs[0] = kilni_attr_i64(seed->type == KILNI_ONNX_ATTR_FLOAT ? bits : seed->i);
        attrs[1] = kilni_attr_i64(0);
        attrs[2] = kilni_attr_i64(0);
    }
}

static kilni_onnx_ref draw(kilni_onnx_call *call, kiln_op op, kiln_dtype dtype, const int64_t *dims,
                           uint32_t rank, double a, double b)
{
    kiln_attr attrs[7] = {
        {.type = KILN_ATTR_I64_LIST, .count = rank, .v.ints = dims},
        {.type = KILN_ATTR_DTYPE, .count = 1, .v.i = dtype},
        kilni_attr_f64(a),
        kilni_attr_f64(b),
    };
    uint32_t n_parameters = op == KILN_OP_RANDOM_BERNOULLI ? 1 : 2;
    set_place(call, &attrs[2 + n_parameters]);
    return kilni_onnx_emit(call, op, NULL, 0, attrs, 5 + n_parameters);
}

static void draw_out(kilni_onnx_call *call, kiln_op op, kiln_dtype dtype, const int64_t *dims,
                     uint32_t rank)
{
    bool normal = op == KILN_OP_RANDOM_NORMAL;
    double a = kilni_onnx_attr_float(call, normal ? "mean" : "low", 0);
    double b = kilni_onnx_attr_float(call, normal ? "scale" : "high", 1);
    kilni_onnx_out(call, 0, draw(call, op, dtype, dims, rank, a, b));
}

static void by_shape(kilni_onnx_call *call, kiln_op op)
{
    kilni_onnx_ints shape = {.count = 0};
    if (!kilni_onnx_attr_ints(call, "shape", &shape)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute shape is missing");
    }
    kiln_dtype dtype = kilni_onnx_attr_dtype(call, "dtype", KILN_DTYPE_F32);
    draw_out(call, op, dtype, shape.v, shape.count);
}

static void like(kilni_onnx_call *call, kiln_op op)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    if (kilni_onnx_ok(call)) {
        kiln_dtype dtype = kilni_onnx_attr_dtype(call, "dtype", x->desc.dtype);
        draw_out(call, op, dtype, x->desc.dims, x->desc.rank);
    }
}

void kilni_onnx_op_random_uniform(kilni_onnx_call *call)
{
    by_shape(call, KILN_OP_RANDOM_UNIFORM);
}

void kilni_onnx_op_random_normal(kilni_onnx_call *call)
{
    by_shape(call, KILN_OP_RANDOM_NORMAL);
}

void kilni_onnx_op_random_uniform_like(kilni_onnx_call *call)
{
    like(call, KILN_OP_RANDOM_UNIFORM);
}

void kilni_onnx_op_random_normal_like(kilni_onnx_call *call)
{
    like(call, KILN_OP_RANDOM_NORMAL);
}

/// 1 where a uniform number is below the element's probability.
void kilni_onnx_op_bernoulli(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    kiln_dtype dtype = kilni_onnx_attr_dtype(call, "dtype", x->desc.dtype);
    kiln_dtype wide = x->desc.dtype == KILN_DTYPE_F64 ? KILN_DTYPE_F64 : KILN_DTYPE_F32;
    kilni_onnx_ref u = draw(call, KILN_OP_RANDOM_UNIFORM, wide, x->desc.dims, x->desc.rank, 0, 1);
    kilni_onnx_ref hit = kilni_onnx_binary(call, KILN_OP_LESS, u, kilni_onnx_cast(call, x, wide));
    kilni_onnx_out(call, 0, kilni_onnx_cast(call, hit, dtype));
}

/// The class whose logarithm plus Gumbel noise is largest (Gumbel 1954; Maddison, Tarlow, Minka,
/// "A* sampling", 2014).
void kilni_onnx_op_multinomial(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    int64_t count = kilni_onnx_attr_int(call, "sample_size", 1);
    kiln_dtype dtype = kilni_onnx_attr_dtype(call, "dtype", KILN_DTYPE_I32);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    if (x->desc.rank != 2 || count < 0 || x->desc.dims[1] == 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "it takes rank 2 with at least one class, and a sample size of 0 or more");
        return;
    }
    const int64_t places[] = {x->desc.dims[0], count, x->desc.dims[1]};
    const int64_t rows[] = {x->desc.dims[0], 1, x->desc.dims[1]};
    kilni_onnx_ref noise = draw(call, KILN_OP_RANDOM_UNIFORM, KILN_DTYPE_F32, places, 3, 0, 1);
    for (int i = 0; i < 2; i++) {
        noise = kilni_onnx_unary(call, KILN_OP_LOG, noise);
        noise = kilni_onnx_unary(call, KILN_OP_NEG, noise);
    }
    x = kilni_onnx_reshape(call, kilni_onnx_cast(call, x, KILN_DTYPE_F32), rows, 3);
    x = kilni_onnx_binary(call, KILN_OP_ADD, noise, x);
    x = kilni_onnx_argreduce(call, KILN_OP_ARGMAX, x, 2, false, false);
    kilni_onnx_out(call, 0, kilni_onnx_cast(call, x, dtype));
}

/// Training: each element stays with probability 1 - rate, grown by as much.
static void drop_out(kilni_onnx_call *call, kilni_onnx_ref x, double rate)
{
    if (!(rate >= 0 && rate < 1)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "the ratio %g is not in [0, 1)", rate);
        return;
    }
    kilni_onnx_ref mask = draw(call, KILN_OP_RANDOM_BERNOULLI, KILN_DTYPE_BOOL, x->desc.dims,
                               x->desc.rank, 1 - rate, 0);
    kilni_onnx_ref grown = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, x, 1 / (1 - rate));
    kilni_onnx_ref zero = kilni_onnx_full(call, x->desc.dtype, NULL, 0, kiln_f64(0));
    kilni_onnx_out(call, 0, kilni_onnx_where(call, mask, grown, zero));
    if (kilni_onnx_wants(call, 1)) {
        kilni_onnx_out(call, 1, mask);
    }
}

/// Without training the identity; the mask is all true (before version 7 of x's type).
void kilni_onnx_op_dropout(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref ratio = kilni_onnx_opt(call, 1);
    kilni_onnx_ref training = kilni_onnx_opt(call, 2);
    bool trains = training != NULL && kilni_onnx_value_number(call, training).v.i != 0;
    if (trains && kilni_onnx_ok(call)) {
        kiln_number rate = ratio == NULL ? kiln_f64(0.5) : kilni_onnx_value_number(call, ratio);
        if (kilni_onnx_ok(call) && (rate.is_integer || rate.v.f != 0)) {
            drop_out(call, x, rate.is_integer ? (double)rate.v.i : rate.v.f);
            return;
        }
    }
    if (!kilni_onnx_ok(call)) {
        return;
    }
    kilni_onnx_out(call, 0, x);
    if (kilni_onnx_wants(call, 1)) {
        kiln_dtype dtype = call->version < 10 ? x->desc.dtype : KILN_DTYPE_BOOL;
        kilni_onnx_out(call, 1,
                       kilni_onnx_full(call, dtype, x->desc.dims, x->desc.rank, kiln_i64(1)));
    }
}
