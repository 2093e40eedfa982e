// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TESTS_CL_TRIAL_H
#define KILN_TESTS_CL_TRIAL_H

/// A device whose kernels take the form of any device type, beside the reference evaluator as its
/// judge.

#include "cl_fixture.h"

typedef struct cl_trial {
    cl_fixture f;
    kiln_backend *judge;
    unsigned count; ///< samples taken
} cl_trial;

/// The device types whose kernels differ: block and GPU form.
enum { CL_TRIAL_FORMS = 2 };
extern const kiln_device_type cl_trial_forms[CL_TRIAL_FORMS];

/// Opens both; skips the case when there is no device, and gives false.
bool cl_trial_open(cl_trial *t, kiln_device_type form);
void cl_trial_close(cl_trial *t);

/// Runs `record` on dense inputs; each result is the caller's to free, also after a failure.
kiln_status cl_trial_run(kiln_backend *backend, const kiln_op_record *record,
                         const void *const *data, void **out_results, kiln_error *err);

/// Runs a sample on both and compares; `user` is the trial.
void cl_trial_take(const kiln_op_record *record, const void *const *data, void *user);

/// Takes all samples of an operator for one dtype.
void cl_trial_samples(cl_trial *t, kiln_op op, kiln_dtype dtype);

#endif
