// SPDX-License-Identifier: MIT OR Apache-2.0
// Activations as simpler operations, elementwise, so that fusers see nothing else. Decides in which
// order they are rounded; f16 and bf16 are computed in f32.
#include "ir_internal.h"

/* x * 0.5 * (1 + erf(x / sqrt 2)), or with tanh(sqrt(2 / pi) * (x + 0.044715 x^3)) for erf. */
void kiln_decompose_gelu(kiln_expander *expander)
{
    kilni_value x = kilni_expand_wide(expander, kilni_expand_input(expander, 0));
    kilni_value inner = 0;
    if (kiln_op_attr_i64(kilni_expand_call(expander), KILN_KEY_APPROXIMATE) != 0) {
        kilni_value cube = kilni_expand_2(expander, KILN_OP_MUL, x, x);
        cube = kilni_expand_2(expander, KILN_OP_MUL, cube, x);
        inner = kilni_expand_scalar(expander, KILN_OP_MUL_SCALAR, cube, 0.044715);
        inner = kilni_expand_2(expander, KILN_OP_ADD, x, inner);
        inner = kilni_expand_scalar(expander, KILN_OP_MUL_SCALAR, inner, 0.7978845608028654);
        inner = kilni_expand_1(expander, KILN_OP_TANH, inner);
    } else {
        inner = kilni_expand_scalar(expander, KILN_OP_MUL_SCALAR, x, 0.7071067811865476);
        inner = kilni_expand_1(expander, KILN_OP_ERF, inner);
    }
    kilni_value gate = kilni_expand_scalar(expander, KILN_OP_ADD_SCALAR, inner, 1);
    kilni_value half = kilni_expand_scalar(expander, KILN_OP_MUL_SCALAR, x, 0.5);
    kilni_expand_output(expander, 0, kilni_expand_2(expander, KILN_OP_MUL, half, gate));
}
