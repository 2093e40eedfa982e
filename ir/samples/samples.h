// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SAMPLES_H
#define KILN_SAMPLES_H

/// Sample calls of an operator for one dtype, for tests and `kiln ops`: shapes with zero, one and
/// odd lengths, broadcasting, special values.

#include "ir_op.h"

/// Gets each record with dense input data and the ids 1, 2, ...
typedef struct kiln_sample_sink {
    const kiln_env *env;
    void (*take)(const kiln_op_record *record, const void *const *input_data, void *user);
    void *user;
} kiln_sample_sink;

/// Hands every sample call of `op` with data of `dtype` to `sink`.
void kiln_samples_make(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink);

#endif
