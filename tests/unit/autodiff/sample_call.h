// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TESTS_SAMPLE_CALL_H
#define KILN_TESTS_SAMPLE_CALL_H

/// A sample call of an operator with its data, for tests of gradients: the data may be made smooth,
/// the call evaluated by the reference, and its gradients taken on a device.

#include "ir.h"
#include "runtime_fixture.h"

typedef struct sample_call {
    const kiln_op_record *record;
    void *data[KILN_MAX_INPUTS]; ///< copies
} sample_call;

/// Copies the data. `smooth`: floats are made anew, where the operator has a gradient, so that no
/// two are equal; else only what is no finite number of moderate size.
sample_call sample_call_make(const kiln_op_record *record, const void *const *data, bool smooth);
void sample_call_fini(sample_call *self);

/// The results by the reference, each as doubles. False: it refused.
bool sample_call_evaluate(const sample_call *self, double *out_results[KILN_MAX_OUTPUTS]);
void sample_results_free(double *results[KILN_MAX_OUTPUTS]);

double sample_load(kiln_dtype dtype, const void *data, int64_t index);
void sample_store(kiln_dtype dtype, void *data, int64_t index, double value);
bool sample_is_float(const kiln_tensor_desc *desc);

/// A weight for each element of result `output`, 0 where the result is not finite.
double sample_weight(int64_t index, double result);

/// Gradients of the weighted sum of result `output`, by a tape: out_gradients[i] of each float
/// input as doubles, NULL for others. The status of the first call that failed.
kiln_status sample_call_gradients(const sample_call *self, kiln_device *device, unsigned output,
                                  const double *results, double *out_gradients[KILN_MAX_INPUTS],
                                  kiln_error *err);
/// The weighted sum of the gradients of that, and its own gradients where `out_seconds` is not
/// NULL.
kiln_status sample_call_seconds(const sample_call *self, kiln_device *device, unsigned output,
                                const double *results, double *out_sum,
                                double *out_seconds[KILN_MAX_INPUTS], kiln_error *err);
void sample_gradients_free(double *gradients[KILN_MAX_INPUTS]);

#endif
