// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_GRADIENTS_H
#define KILN_GRADIENTS_H

/// The gradients that ops.def names, as data.

#include "grad_rule.h"

/// Bits of kilni_gradient.keeps.
#define KILNI_KEEPS_INPUT(i) (1u << (i))
#define KILNI_KEEPS_OUTPUT(i) (1u << (16 + (i)))
#define KILNI_KEEPS_INPUTS 0xffffu

typedef struct kilni_gradient {
    void (*rule)(kilni_rule *rule); ///< NULL: derived, or none
    uint32_t keeps;
    bool derived; ///< from the decomposition
    bool refused; ///< it cannot be had, and is not 0 either
    const char *reason; ///< why there is none; NULL when there is one
} kilni_gradient;

// The rules that ops.def names.
#define GRADIENT_BY(name, keeps) void kilni_gradient_##name(kilni_rule *rule);
#define GRADIENT_DERIVED
#define GRADIENT_NONE(reason)
#define KILN_OP(id, name, wire, since, cls, signature, n_out, accept, result, shape, tol, grad,    \
                doc)                                                                               \
    GRADIENT_##grad
#include "ops.def"
#undef KILN_OP
#undef GRADIENT_BY
#undef GRADIENT_DERIVED
#undef GRADIENT_NONE

const kilni_gradient *kilni_gradient_of(kiln_op op);

#endif
