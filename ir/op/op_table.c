// SPDX-License-Identifier: MIT OR Apache-2.0
// Turns ops.def and attrs.def into tables and lookups. Decides nothing: rows, numbers and names
// stand in the .def files; tools/gen_signatures reads the signatures. The reverse lookups by number
// are switches, so that a number used twice does not compile; a row whose functions are missing
// does not link.
#include <math.h>
#include <string.h>

#include "op_internal.h"

#include "op_signatures.inc"

// clang-format off
static const kiln_op_info op_rows[KILN_OP_COUNT] = {
#define KILN_OP(id, name, wire, since, cls, signature, n_out, accept, result, shape, tol, grad,    \
                doc)                                                                               \
    [KILN_OP_##id] = {#name, wire, since, KILN_CLASS_##cls, n_out, KILN_ACCEPT_##accept,           \
                      KILN_RESULT_##result, &signatures[SIGNATURE_OF_##id], shape,                 \
                      kiln_ref_##name, NULL, doc},
#define KILN_COMPOSITE(id, name, wire, since, cls, signature, n_out, accept, result, shape, tol,   \
                       grad, doc)                                                                  \
    [KILN_OP_##id] = {#name, wire, since, KILN_CLASS_##cls, n_out, KILN_ACCEPT_##accept,           \
                      KILN_RESULT_##result, &signatures[SIGNATURE_OF_##id], shape,                 \
                      kiln_ref_##name, kiln_decompose_##name, doc},
#include "ops.def"
#undef KILN_OP
};
// clang-format on

enum { ///< a row with a number that does not fit, or too many outputs, does not compile
#define KILN_OP(id, name, wire, since, cls, signature, n_out, accept, result, shape, tol, grad,    \
                doc)                                                                               \
    CHECK_##id = 1 / ((wire) > 0 && (wire) < 65536 && (since) > 0 && (n_out) <= KILN_MAX_OUTPUTS),
#include "ops.def"
#undef KILN_OP
};

const kiln_op_info *kiln_op_info_of(kiln_op op)
{
    return (unsigned)op < (unsigned)KILN_OP_COUNT ? &op_rows[op] : NULL;
}

kiln_op kiln_op_from_name(const char *name)
{
    for (unsigned i = 0; name != NULL && i < (unsigned)KILN_OP_COUNT; i++) {
        if (op_rows[i].name[0] == name[0] && strcmp(op_rows[i].name, name) == 0) {
            return (kiln_op)i;
        }
    }
    return KILN_OP_COUNT;
}

kiln_op kiln_op_from_wire(uint16_t number)
{
    switch (number) {
#define KILN_OP(id, name, wire, since, cls, signature, n_out, accept, result, shape, tol, grad,    \
                doc)                                                                               \
    case wire:                                                                                     \
        return KILN_OP_##id;
#include "ops.def"
#undef KILN_OP
    default:
        return KILN_OP_COUNT;
    }
}

const char *kiln_attr_name(kiln_attr_key key)
{
    switch (key) {
#define KILN_ATTR(id, name, number, type, doc)                                                     \
    case KILN_KEY_##id:                                                                            \
        return #name;
#include "attrs.def"
#undef KILN_ATTR
    default:
        return NULL;
    }
}

kiln_attr_type kiln_attr_type_of(kiln_attr_key key)
{
    switch (key) {
#define KILN_ATTR(id, name, number, type, doc)                                                     \
    case KILN_KEY_##id:                                                                            \
        return KILN_ATTR_##type;
#include "attrs.def"
#undef KILN_ATTR
    default:
        return KILN_ATTR_NONE;
    }
}

const char *kiln_attr_doc(kiln_attr_key key)
{
    switch (key) {
#define KILN_ATTR(id, name, number, type, doc)                                                     \
    case KILN_KEY_##id:                                                                            \
        return doc;
#include "attrs.def"
#undef KILN_ATTR
    default:
        return NULL;
    }
}

kiln_attr_key kiln_attr_from_name(const char *name)
{
#define KILN_ATTR(id, text, number, type, doc)                                                     \
    if (name != NULL && strcmp(name, #text) == 0) {                                                \
        return KILN_KEY_##id;                                                                      \
    }
#include "attrs.def"
#undef KILN_ATTR
    return KILN_KEY_NONE;
}

kiln_op_precision kiln_op_precision_of(kiln_op op)
{
    const kiln_op_info *info = kiln_op_info_of(op);
    switch (op) {
    case KILN_OP_MATMUL:
    case KILN_OP_CONV:
    case KILN_OP_CONV_TRANSPOSE:
    case KILN_OP_LINEAR:
    case KILN_OP_ATTENTION:
    case KILN_OP_EINSUM:
        return KILN_PRECISION_PRODUCT;
    case KILN_OP_SOFTMAX: // kernels that read and round once
    case KILN_OP_LOG_SOFTMAX:
    case KILN_OP_LAYER_NORM:
    case KILN_OP_RMS_NORM:
    case KILN_OP_IM2COL:
    case KILN_OP_MAX_POOL:
    case KILN_OP_AVG_POOL:
    case KILN_OP_INTERPOLATE:
        return KILN_PRECISION_FOLLOWS;
    case KILN_OP_GRID_SAMPLE: // their operands are places, too
    case KILN_OP_ROI_ALIGN:
    case KILN_OP_NMS:
        return KILN_PRECISION_WIDE;
    default:
        return info != NULL && (info->cls == KILN_CLASS_ELEMENTWISE ||
                                info->cls == KILN_CLASS_VIEW || info->cls == KILN_CLASS_GATHER)
                   ? KILN_PRECISION_FOLLOWS
                   : KILN_PRECISION_WIDE;
    }
}

const char *kilni_ir_op_name(const kiln_op_record *call)
{
    const kiln_op_info *info = kiln_op_info_of(call->op);
    return info != NULL ? info->name : "unknown operator";
}
