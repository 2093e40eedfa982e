// SPDX-License-Identifier: MIT OR Apache-2.0
// The gradients of ops.def's rows as a table. A row without one does not compile, a rule that is
// not written does not link.
#include "gradients.h"

enum { REFUSED_PLUGIN = 1, REFUSED_OPEN = 1 };
enum {
    REFUSED_LOGIC,
    REFUSED_INDEX = 0,
    REFUSED_INTEGER = 0,
    REFUSED_STEP = 0,
    REFUSED_CREATION = 0,
    REFUSED_STORED = 0,
    REFUSED_CONTROL = 0
};

#define IN(i) KILNI_KEEPS_INPUT(i)
#define OUT(i) KILNI_KEEPS_OUTPUT(i)
#define GRADIENT_BY(name, kept)                                                                    \
    {                                                                                              \
        kilni_gradient_##name, kept, 0, 0, NULL                                                    \
    }
#define GRADIENT_DERIVED                                                                           \
    {                                                                                              \
        NULL, KILNI_KEEPS_INPUTS, 1, 0, NULL                                                       \
    }
#define GRADIENT_NONE(why)                                                                         \
    {                                                                                              \
        NULL, 0, 0, REFUSED_##why, #why                                                            \
    }
static const kilni_gradient rows[KILN_OP_COUNT] = {
#define KILN_OP(id, name, wire, since, cls, signature, n_out, accept, result, shape, tol, grad,    \
                doc)                                                                               \
    [KILN_OP_##id] = GRADIENT_##grad,
#include "ops.def"
#undef KILN_OP
};
#undef IN
#undef OUT

const kilni_gradient *kilni_gradient_of(kiln_op op)
{
    return &rows[op];
}
