// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_elementwise.h: the meaning of every elementwise operator as OpenCL C (kf_elementwise.def), for
// any fuser with an elementwise prologue or epilogue. The operators' own kernels are built from the
// same texts, so fused results equal theirs bit for bit.
//   kf_ew_row_of         the row of an operator: operands, cost, expression for each kind of dtype
//   kf_ew_template       writes an expression or helper for a dtype and a vector width
//   kf_ew_helper_at      functions that expressions call; kf_ew_cast writes one conversion
//   kf_ew_ahead_macro    a processor's prefetch
//   kf_ew_loads, _stores functions for memory of one dtype: one, load, part; keep, put
// Everything works on vectors of V elements, the ends of rows included: there the lanes past the
// end read as 1. sin, cos, tan and fmod of f64 go lane by lane: at vector width PoCL's depend on
// neighbours.
//
// Templates: $C element type of the computation, $T $U $M its vector, the unsigned and the mask
// vector, $V elements, $W bits, $X name of the element type, $S type in memory; $a $b $c operands,
// $s $t scalars, $0 $1 zero and one.
#ifndef KILN_PLUGIN_SDK_KF_ELEMENTWISE_H
#define KILN_PLUGIN_SDK_KF_ELEMENTWISE_H

#include "kf_ew_helpers.h"
#include "kf_ew_memory.h"
#include "kf_ew_text.h"

#ifdef __cplusplus
extern "C" {
#endif

// kf_ew_row.result
#define KF_EW_SAME 1u // the dtype of input 0
#define KF_EW_MASK 2u // bool; the expression is a comparison's -1 or 0
#define KF_EW_CAST 3u // the attribute dtype

typedef struct kf_ew_row { ///< of kf_elementwise.def
    uint32_t op; // KF_OP_*
    uint32_t cost; // in additions
    uint32_t inputs;
    uint32_t scalars;
    uint32_t result; // KF_EW_*
    uint32_t reserved;
    const char *name;
    const char *text[4]; // by kind: float, signed, unsigned, bool
} kf_ew_row;

/// The rows one after the other; NULL past the last.
static inline const kf_ew_row *kf_ew_row_at(uint32_t index)
{
    static const kf_ew_row rows[] = {
#define EW(op, cost, inputs, scalars, result, f, s, u, b)                                          \
    {KF_OP_##op, cost, inputs, scalars, KF_EW_##result, 0, KF_NAME_##op, {f, s, u, b}},
#include "kf_elementwise.def"
#undef EW
    };
    return index < sizeof(rows) / sizeof(rows[0]) ? &rows[index] : NULL;
}

/// The row of an operator, NULL when it is not elementwise.
static inline const kf_ew_row *kf_ew_row_of(uint32_t op)
{
    const kf_ew_row *row;
    uint32_t i;
    for (i = 0; (row = kf_ew_row_at(i)) != NULL; i++) {
        if (row->op == op) {
            return row;
        }
    }
    return NULL;
}

/// The expression of a row for an element type; NULL when there is none.
static inline const char *kf_ew_text(const kf_ew_row *row, uint32_t dtype)
{
    uint32_t kind = kf_dtype_of(dtype).kind;
    return kind == KF_KIND_FLOAT  ? row->text[0]
           : kind == KF_KIND_INT  ? row->text[1]
           : kind == KF_KIND_UINT ? row->text[2]
           : kind == KF_KIND_BOOL ? row->text[3]
                                  : NULL;
}

#ifdef __cplusplus
}
#endif
#endif
