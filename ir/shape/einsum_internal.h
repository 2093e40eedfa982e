// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_EINSUM_INTERNAL_H
#define KILN_EINSUM_INTERNAL_H

/// An einsum's equation, read against the shapes of its inputs.

#include "shape_internal.h"

enum { KILNI_EINSUM_LABELS = 64 }; ///< letters, then axes under "..." counted from the last

typedef struct kilni_einsum {
    uint32_t n_inputs;
    uint8_t labels[KILN_MAX_INPUTS][KILN_MAX_RANK]; ///< of each axis of each input
    uint32_t out_rank;
    uint8_t out_labels[KILN_MAX_RANK];
    uint64_t used; ///< labels that occur, as bits
    int64_t length[KILNI_EINSUM_LABELS];
} kilni_einsum;

/// Errors: INVALID_ARGUMENT with the place.
kiln_status kilni_ir_einsum_of(const kiln_op_record *call, kilni_einsum *out_einsum,
                               kiln_error *err);

#endif
