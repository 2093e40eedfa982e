// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's operators that put elements by index or go along an axis in order: scatters, top-k,
// cumulative sums and products, reversed sequences. Decides what the names of reductions are with
// us; the rest is one operator each.
#include "onnx_import.h"

#include <string.h>

/// Of ONNX's reductions; NULL after failing when there is none such.
static const char *scatter_mode(kilni_onnx_call *call)
{
    static const char *const names[][2] = {
        {"none", "assign"}, {"add", "add"}, {"mul", "mul"}, {"min", "min"}, {"max", "max"}};
    const char *given = kilni_onnx_attr_text(call, "reduction", "none");
    for (size_t i = 0; kilni_onnx_ok(call) && i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(given, names[i][0]) == 0) {
            return names[i][1];
        }
    }
    KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "the reduction '%.32s' is not known", given);
    return NULL;
}

static void scatter(kilni_onnx_call *call, kiln_op op)
{
    kilni_onnx_ref indices = kilni_onnx_in(call, 1);
    const char *mode = scatter_mode(call);
    kiln_attr attrs[2];
    uint32_t n_attrs = 0;
    if (!kilni_onnx_ok(call)) {
        return;
    }
    if (op == KILN_OP_SCATTER) {
        attrs[n_attrs++] = kilni_attr_i64(kilni_onnx_attr_int(call, "axis", 0));
    }
    attrs[n_attrs++] =
        (kiln_attr){.type = KILN_ATTR_STRING, .count = (uint32_t)strlen(mode), .v.text = mode};
    bool fits = indices->desc.dtype == KILN_DTYPE_I32;
    const kilni_onnx_ref inputs[] = {kilni_onnx_in(call, 0), kilni_onnx_in(call, 2),
                                     fits ? indices
                                          : kilni_onnx_cast(call, indices, KILN_DTYPE_I64)};
    kilni_onnx_out(call, 0, kilni_onnx_emit(call, op, inputs, 3, attrs, n_attrs));
}

void kilni_onnx_op_scatter_elements(kilni_onnx_call *call)
{
    scatter(call, KILN_OP_SCATTER);
}

void kilni_onnx_op_scatter_nd(kilni_onnx_call *call)
{
    scatter(call, KILN_OP_SCATTER_ND);
}

/// `sorted` = 0 asks for any order: ours is one.
void kilni_onnx_op_top_k(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    int64_t count = kilni_onnx_attr_int(call, "k", 0);
    if (call->version >= 10) {
        count = kilni_onnx_value_number(call, kilni_onnx_in(call, 1)).v.i;
    }
    const kiln_attr attrs[] = {kilni_attr_i64(count),
                               kilni_attr_i64(kilni_onnx_attr_int(call, "axis", -1)),
                               kilni_attr_bool(kilni_onnx_attr_int(call, "largest", 1) != 0)};
    kilni_onnx_ref results[2] = {NULL, NULL};
    kilni_onnx_emit_many(call, KILN_OP_TOP_K, &x, 1, attrs, 3, results);
    kilni_onnx_out(call, 0, results[0]);
    kilni_onnx_out(call, 1, results[1]);
}

static void cumulate(kilni_onnx_call *call, kiln_op op)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    int64_t axis = kilni_onnx_value_number(call, kilni_onnx_in(call, 1)).v.i;
    const kiln_attr attrs[] = {kilni_attr_i64(axis),
                               kilni_attr_bool(kilni_onnx_attr_int(call, "exclusive", 0) != 0),
                               kilni_attr_bool(kilni_onnx_attr_int(call, "reverse", 0) != 0)};
    kilni_onnx_out(call, 0, kilni_onnx_emit(call, op, &x, 1, attrs, 3));
}

void kilni_onnx_op_cum_sum(kilni_onnx_call *call)
{
    cumulate(call, KILN_OP_CUM_SUM);
}

void kilni_onnx_op_cum_prod(kilni_onnx_call *call)
{
    cumulate(call, KILN_OP_CUM_PROD);
}

void kilni_onnx_op_reverse_sequence(kilni_onnx_call *call)
{
    const kilni_onnx_ref inputs[] = {kilni_onnx_in(call, 0), kilni_onnx_in(call, 1)};
    const kiln_attr attrs[] = {kilni_attr_i64(kilni_onnx_attr_int(call, "time_axis", 0)),
                               kilni_attr_i64(kilni_onnx_attr_int(call, "batch_axis", 1))};
    kilni_onnx_out(call, 0, kilni_onnx_emit(call, KILN_OP_REVERSE_SEQUENCE, inputs, 2, attrs, 2));
}
