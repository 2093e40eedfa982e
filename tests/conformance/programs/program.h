// SPDX-License-Identifier: MIT OR Apache-2.0
// A random program: operators drawn from the table, shapes and values from a seed, with the
// reference's values of everything in it and how far a device may be from them.

#ifndef PROGRAM_H
#define PROGRAM_H

#include "kiln.h"

enum { MAX_VALUES = 48, MAX_STEPS = 28, MAX_ELEMENTS = 60000, MAX_LIST = 8 };

typedef struct value {
    kiln_dtype dtype;
    uint32_t rank;
    int64_t dims[KILN_MAX_RANK];
    int64_t count;
    unsigned char *bytes; ///< of the reference
    double bound; ///< how far a device may be from it
    double most; ///< largest magnitude
    double least; ///< smallest magnitude
    bool finite;
    bool elementwise; ///< nothing but elementwise operators and views made it
    bool moved; ///< no arithmetic did: signs and places only, so that NaNs are those of the sources
    bool keep; ///< read at the end, or else dropped after its last use
    int last_use;
} value;

typedef struct step {
    kiln_op op;
    uint32_t n_inputs;
    uint32_t inputs[KILN_MAX_INPUTS];
    kiln_attr attrs[KILN_MAX_ATTRS];
    int64_t lists[KILN_MAX_ATTRS][MAX_LIST];
    uint32_t output;
} step;

typedef struct program {
    uint64_t seed;
    uint64_t state;
    value values[MAX_VALUES];
    uint32_t n_values;
    uint32_t n_sources;
    step steps[MAX_STEPS];
    uint32_t n_steps;
    int64_t base[4]; ///< extents that shapes are made of
    bool moves; ///< only operators that move bits, of floats with many NaNs
} program;

/// Makes the program of `p->seed`, with the values that `judge` gives. Counts operators in `uses`.
/// `program_fini` frees what it holds. Errors: test failures.
void program_make(program *p, kiln_device *judge, uint32_t *uses);
void program_fini(program *p);

/// To stderr, a line a value.
void program_print(const program *p);

// ---- running (program_run.c) ----

/// One step on a device: `tensors` by value.
kiln_status program_step(kiln_device *on, const step *s, kiln_tensor *const *tensors,
                         kiln_tensor **out, kiln_error *err);

/// The sources as tensors, and all steps: the values that are kept, in order. What is in the lists
/// after an error is the caller's, too. `user` is the program.
kiln_status program_inputs(kiln_device *on, void *user, kiln_tensor **out_inputs, size_t *out_count,
                           kiln_error *err);
kiln_status program_record(kiln_device *on, void *user, kiln_tensor *const *inputs,
                           kiln_tensor **out_results, size_t *out_count, kiln_error *err);

/// Runs it; `out` gets the bytes of the values that are kept, to be freed.
kiln_status program_run(program *p, kiln_device *on, unsigned char **out, kiln_error *err);

// ---- values and bounds (program_bound.c) ----

bool value_is_float(const value *v);
double value_element(const value *v, int64_t i);

/// Fills magnitudes from the bytes.
void value_look(value *v);

/// How far a device's result may be from the reference's: for what its operands may be off (of
/// which there are `n`; a negative number: nothing useful follows), and for what the operator
/// itself adds.
double value_carried_bound(kiln_op op, const value *const *in, uint32_t n, const value *out);
double value_own_bound(kiln_op op, const value *const *in, const value *out);

#endif
