// SPDX-License-Identifier: MIT OR Apache-2.0
// A random permutation as the order of random numbers: 64 bits for each element, so that equals,
// which would keep their order, do not happen in practice.
#include <math.h>

#include "decompose_internal.h"

void kiln_decompose_random_permutation(kiln_expander *expander)
{
    const kiln_op_record *call = kilni_expand_call(expander);
    const int64_t count = kiln_op_attr_i64(call, KILN_KEY_COUNT);
    const kiln_attr draw[] = {
        {.type = KILN_ATTR_I64_LIST, .count = 1, .v.ints = &count},
        {.type = KILN_ATTR_DTYPE, .count = 1, .v.i = KILN_DTYPE_U64},
        {.type = KILN_ATTR_F64, .count = 1, .v.f = -(double)INFINITY},
        {.type = KILN_ATTR_F64, .count = 1, .v.f = (double)INFINITY},
        call->attrs[2],
        call->attrs[3],
        call->attrs[4],
    };
    const kiln_attr along[2] = {{.type = KILN_ATTR_NONE}, {.type = KILN_ATTR_NONE}};
    kilni_value keys = 0;
    kilni_value order = 0;
    kilni_expand_op(expander, KILN_OP_RANDOM_INT, NULL, 0, draw, 7, &keys);
    kilni_expand_op(expander, KILN_OP_ARGSORT, &keys, 1, along, 2, &order);
    kilni_expand_output(expander, 0, order);
}
