// SPDX-License-Identifier: MIT OR Apache-2.0
// Normalisations with the sums before them, as ONNX Runtime's optimiser joins them: the sum is an
// output of its own, and the norm is the operator that plain exports become.
#include "onnx_parts.h"

static kilni_onnx_ref rows_normed(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref scale,
                                  kilni_onnx_ref bias)
{
    const kilni_onnx_ref inputs[] = {x, scale, bias};
    double epsilon = kilni_onnx_attr_float(call, "epsilon", (double)1e-12f);
    const kiln_attr attrs[] = {kilni_attr_i64(-1), kilni_attr_f64(epsilon)};
    return kilni_onnx_emit(call, KILN_OP_LAYER_NORM, inputs, bias == NULL ? 2 : 3, attrs, 2);
}

/// input + skip + bias: output 3 where it is asked for.
static kilni_onnx_ref skip_sum(kilni_onnx_call *call, kilni_onnx_ref bias)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref skip = kilni_onnx_in(call, 1);
    if (kilni_onnx_ok(call) && (x->desc.rank < 2 || skip->desc.rank > x->desc.rank)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "input of rank %u and skip of rank %u",
                        x->desc.rank, skip->desc.rank);
    }
    kilni_onnx_ref sum = kilni_onnx_binary(call, KILN_OP_ADD, x, skip);
    sum = bias == NULL ? sum : kilni_onnx_binary(call, KILN_OP_ADD, sum, bias);
    kilni_onnx_out(call, 3, sum);
    return sum;
}

void kilni_onnx_op_skip_layer_normalization(kilni_onnx_call *call)
{
    kilni_onnx_ref sum = skip_sum(call, kilni_onnx_opt(call, 4));
    kilni_onnx_out(call, 0,
                   rows_normed(call, sum, kilni_onnx_in(call, 2), kilni_onnx_opt(call, 3)));
}

void kilni_onnx_op_skip_rms_normalization(kilni_onnx_call *call)
{
    const kilni_onnx_ref inputs[] = {skip_sum(call, kilni_onnx_opt(call, 3)),
                                     kilni_onnx_in(call, 2)};
    double epsilon = kilni_onnx_attr_float(call, "epsilon", (double)1e-12f);
    const kiln_attr attrs[] = {kilni_attr_i64(-1), kilni_attr_f64(epsilon)};
    kilni_onnx_out(call, 0, kilni_onnx_emit(call, KILN_OP_RMS_NORM, inputs, 2, attrs, 2));
}

// ---- embeddings ----

typedef struct embedding {
    kilni_onnx_ref ids, segments, mask, positions;
    kilni_onnx_ref tables[3]; ///< of words, positions, segments
    kilni_onnx_ref units[3][2]; ///< of tables of bytes: scale and zero point
    kilni_onnx_ref scale, bias;
} embedding;

enum { WORDS, PLACES, SEGMENTS };

/// Rows of a table; of the first ones where `which` is NULL.
static kilni_onnx_ref rows_of(kilni_onnx_call *call, const embedding *e, int table,
                              kilni_onnx_ref which, int64_t count)
{
    kilni_onnx_ref rows = which != NULL
                              ? kilni_onnx_take(call, e->tables[table], which, 0)
                              : kilni_onnx_slice_axis(call, e->tables[table], 0, 0, count, 1);
    return e->units[table][0] == NULL
               ? rows
               : kilni_onnx_unquantised(call, rows, e->units[table][0], e->units[table][1]);
}

/// How many words each sample has; zeros without a mask.
static kilni_onnx_ref words_in(kilni_onnx_call *call, const embedding *e)
{
    static const int64_t row = 1;
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    if (e->mask == NULL) {
        return kilni_onnx_full(call, KILN_DTYPE_I32, e->ids->desc.dims, 1, kiln_i64(0));
    }
    kilni_onnx_ref seen = kilni_onnx_scalar_int(call, KILN_OP_EQUAL_SCALAR, e->mask, 1);
    seen = kilni_onnx_cast(call, seen, KILN_DTYPE_I32);
    return kilni_onnx_reduce(call, KILN_OP_SUM, seen, &row, 1, false);
}

static kilni_onnx_ref embedded(kilni_onnx_call *call, const embedding *e)
{
    if (kilni_onnx_ok(call) && (e->ids->desc.rank != 2 || e->tables[PLACES]->desc.rank != 2)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "input_ids of rank %u and position_embedding of rank %u, not 2",
                        e->ids->desc.rank, e->tables[PLACES]->desc.rank);
    }
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    int64_t rows = e->ids->desc.dims[1];
    if (e->positions == NULL && rows > e->tables[PLACES]->desc.dims[0]) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%lld words, position_embedding has %lld",
                        (long long)rows, (long long)e->tables[PLACES]->desc.dims[0]);
    }
    kilni_onnx_ref sum = kilni_onnx_binary(call, KILN_OP_ADD, rows_of(call, e, WORDS, e->ids, 0),
                                           rows_of(call, e, PLACES, e->positions, rows));
    if (e->segments == NULL || e->tables[SEGMENTS] == NULL) {
        return sum;
    }
    return kilni_onnx_binary(call, KILN_OP_ADD, sum, rows_of(call, e, SEGMENTS, e->segments, 0));
}

static kilni_onnx_ref embed(kilni_onnx_call *call, const embedding *e)
{
    kilni_onnx_ref sum = embedded(call, e);
    kilni_onnx_out(call, 0, rows_normed(call, sum, e->scale, e->bias));
    if (kilni_onnx_wants(call, 1)) {
        kilni_onnx_out(call, 1, words_in(call, e));
    }
    return sum;
}

void kilni_onnx_op_embed_layer_normalization(kilni_onnx_call *call)
{
    const embedding e = {
        .ids = kilni_onnx_in(call, 0),
        .segments = kilni_onnx_opt(call, 1),
        .mask = kilni_onnx_opt(call, 7),
        .positions = kilni_onnx_opt(call, 8),
        .tables = {kilni_onnx_in(call, 2), kilni_onnx_in(call, 3), kilni_onnx_opt(call, 4)},
        .scale = kilni_onnx_in(call, 5),
        .bias = kilni_onnx_in(call, 6)};
    kilni_onnx_out(call, 2, embed(call, &e));
}

/// Scales stand at input 8, zero points at 13, in the order of inputs 2 to 6.
void kilni_onnx_op_quantised_embed_layer_normalization(kilni_onnx_call *call)
{
    embedding e = {
        .ids = kilni_onnx_in(call, 0),
        .segments = kilni_onnx_opt(call, 1),
        .mask = kilni_onnx_opt(call, 7),
        .tables = {kilni_onnx_in(call, 2), kilni_onnx_in(call, 3), kilni_onnx_opt(call, 4)}};
    for (uint32_t i = 0; i < 3; i++) {
        if (e.tables[i] != NULL) {
            e.units[i][0] = kilni_onnx_in(call, 8 + i);
            e.units[i][1] = kilni_onnx_in(call, 13 + i);
        }
    }
    e.scale = kilni_onnx_unquantised(call, kilni_onnx_in(call, 5), kilni_onnx_in(call, 11),
                                     kilni_onnx_in(call, 16));
    e.bias = kilni_onnx_unquantised(call, kilni_onnx_in(call, 6), kilni_onnx_in(call, 12),
                                    kilni_onnx_in(call, 17));
    (void)embed(call, &e);
}
