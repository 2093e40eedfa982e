// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_OP_SIGNATURE_INTERNAL_H
#define KILN_OP_SIGNATURE_INTERNAL_H

/// How the files op_signature*.c write attributes: the name's end of KILN_KEY_, the role's end of
/// KILN_ROLE_, and the number that an absent one stands for.

#include "ir_op.h"

#define REQUIRED(id, kind)                                                                         \
    {                                                                                              \
        .key = KILN_KEY_##id, .role = KILN_ROLE_##kind                                             \
    }
#define OPTIONAL(id, kind, number)                                                                 \
    {                                                                                              \
        .key = KILN_KEY_##id, .role = KILN_ROLE_##kind, .optional = true, .fallback = (number)     \
    }

#endif
