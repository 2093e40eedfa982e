// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_SAMPLES_H
#define KILN_IR_SAMPLES_H

/// Sample calls of operators, for tests and benches.

#include "ir_op.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Sample calls of an operator for one dtype, for tests and benches: shapes with zero, one and odd
/// lengths, broadcasting, special values. The sink gets each record with dense input data and the
/// ids 1, 2, ...
typedef struct kiln_sample_sink {
    const kiln_env *env;
    void (*take)(const kiln_op_record *record, const void *const *input_data, void *user);
    void *user;
} kiln_sample_sink;

#ifdef __cplusplus
}
#endif

#endif
