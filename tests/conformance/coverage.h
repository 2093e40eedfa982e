// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TESTS_COVERAGE_H
#define KILN_TESTS_COVERAGE_H

/// What a run of the backend suite covered: operator by dtype, held against the table and against
/// the matrix in docs/ops.md.

#include "ir.h"

typedef struct coverage {
    unsigned samples;
    unsigned runs;
    unsigned passed; ///< runs with elements that agreed with the reference
    unsigned unimplemented;
    unsigned failures;
    char reason[160]; ///< why the first one is not implemented
} coverage;

typedef coverage coverage_table[KILN_OP_COUNT][KILN_DTYPE_LIMIT];

/// Whether the table lets the operator have data of the dtype.
bool coverage_takes(kiln_op op, kiln_dtype dtype);

/// Prints what is not implemented and fails the running case for every hole: a pair that the table
/// allows, of an operator that was tried, without a case that passed. Excused is f64 on a backend
/// that says it has no arithmetic in it. Gives the number of holes.
unsigned coverage_check(coverage_table table, uint32_t dtypes, kiln_backend *backend);

/// Holds the matrix in a file (docs/ops.md) against the run, for operators and dtypes that were
/// tried. False when it cannot be read; differences fail the running case and are counted.
bool coverage_check_matrix(coverage_table table, uint32_t dtypes, kiln_backend *backend,
                           const char *path, unsigned *out_differences);

#endif
