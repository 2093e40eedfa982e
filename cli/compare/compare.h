// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COMPARE_H
#define KILN_COMPARE_H

/// The values that the nodes of a model make, on a device or by ONNX Runtime, and how far two sets
/// of them are apart.

#include "model_run.h"

/// One output of a node, in the order in which nodes ran.
typedef struct compare_value {
    char *name;
    char *op_type;
    kiln_npy array; ///< without data: it is on no device, or of no type that is compared
} compare_value;

typedef struct compare_values {
    compare_value *items;
    size_t count;
    size_t room;
    size_t on_host; ///< outputs that the host computed, which are not among the items
} compare_values;

void compare_values_free(compare_values *values);
/// The one of a name, the first of them; NULL: there is none.
const compare_value *compare_find(const compare_values *values, const char *name);
/// Appends one; takes the array. Errors: RESOURCE_EXHAUSTED.
kiln_status compare_add(compare_values *values, const char *name, const char *op_type,
                        kiln_npy *take_array, kiln_error *err);

/// Runs a model once and reads what every node made. Errors: of the run.
kiln_status compare_run(model_session *session, compare_values *out_values, kiln_error *err);
/// The same by ONNX Runtime: `python` is an interpreter that has onnx and onnxruntime; the inputs
/// are those of the session. Errors: UNAVAILABLE with what the interpreter said.
kiln_status compare_run_onnxruntime(const char *python, const char *model,
                                    const model_session *session, compare_values *out_values,
                                    kiln_error *err);

/// How far two arrays are apart. Allowed is the tolerance times the largest value of the second;
/// integers and bools must be the same.
typedef struct compare_distance {
    bool comparable; ///< same dtype and shape, or f32 beside what the first side's model is kept in
    bool within;
    double worst; ///< largest difference; infinite between a number and none
    double largest; ///< value of the second
    double mean; ///< of the differences
    size_t differ; ///< elements beyond what is allowed
    size_t count;
    size_t at; ///< the element of the largest difference
} compare_distance;

compare_distance compare_arrays(const kiln_npy *array, const kiln_npy *other, double tolerance,
                                kiln_dtype kept_in);

#endif
