// SPDX-License-Identifier: MIT OR Apache-2.0
// See cl_trial.h.

#include <stdlib.h>
#include <string.h>

#include "cl_trial.h"
#include "ir.h"
#include "samples.h"

const kiln_device_type cl_trial_forms[CL_TRIAL_FORMS] = {KILN_DEVICE_CPU, KILN_DEVICE_GPU};

bool cl_trial_open(cl_trial *t, kiln_device_type form)
{
    const kiln_backend_provider *reference = kiln_ir_reference_provider();
    const cl_settings settings = {.deterministic = "1"}; // no measuring: 2 s under oclgrind
    memset(t, 0, sizeof(*t));
    if (!cl_fixture_open(&t->f, &settings)) {
        return false;
    }
    t->f.backend->info.type = form;
    t->f.backend->pool.exact = true;
    return KILN_CHECK_INT(
        reference->open(&t->f.env, "reference:", &t->judge, NULL, reference->user), KILN_STATUS_OK);
}

void cl_trial_close(cl_trial *t)
{
    kiln_backend_stats stats;
    kiln_cl_counters counters;
    t->f.base->device->stats(t->f.base, &stats);
    kiln_cl_counters_get(t->f.base, &counters);
    // No kernel of Kiln's own is left to the driver's header of built-in functions.
    if (t->f.backend->compiler.declares) {
        KILN_CHECK_INT(counters.programs_declared, stats.programs_built);
    }
    t->judge->device->close(t->judge);
    cl_fixture_close(&t->f);
}

kiln_status cl_trial_run(kiln_backend *backend, const kiln_op_record *record,
                         const void *const *data, void **out_results, kiln_error *err)
{
    kiln_view views[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS] = {0};
    unsigned total = (unsigned)record->n_inputs + record->n_outputs;
    kiln_status status = KILN_STATUS_OK;
    for (unsigned i = 0; i < total; i++) {
        bool is_input = i < record->n_inputs;
        const kiln_tensor_desc *desc =
            is_input ? &record->inputs[i] : &record->outputs[i - record->n_inputs];
        size_t bytes = (size_t)kiln_desc_bytes(desc);
        kiln_buffer *buffer = NULL;
        status = status == KILN_STATUS_OK
                     ? backend->memory->alloc(backend, bytes > 0 ? bytes : 1, &buffer, err)
                     : status;
        if (status == KILN_STATUS_OK && is_input && bytes > 0) {
            status = backend->transfer->upload(backend, buffer, 0, data[i], bytes, err);
        }
        views[i] = kiln_view_dense(desc, buffer);
    }
    if (status == KILN_STATUS_OK) {
        status = backend->device->execute(backend, record, views, views + record->n_inputs, err);
    }
    for (unsigned i = 0; i < total; i++) {
        if (i >= record->n_inputs) {
            unsigned k = i - record->n_inputs;
            size_t bytes = (size_t)kiln_desc_bytes(&record->outputs[k]);
            out_results[k] = calloc(1, bytes + 1);
            if (status == KILN_STATUS_OK && bytes > 0) {
                status = backend->transfer->read(backend, views[i].buffer, 0, out_results[k], bytes,
                                                 err);
            }
        }
        backend->memory->free(backend, views[i].buffer);
    }
    return status;
}

void cl_trial_take(const kiln_op_record *record, const void *const *data, void *user)
{
    cl_trial *t = user;
    kiln_error err = KILN_ERROR_INIT;
    const char *name = kiln_op_info_of(record->op)->name;
    void *actual[KILN_MAX_OUTPUTS] = {NULL};
    void *expected[KILN_MAX_OUTPUTS] = {NULL};
    t->count++;
    bool ran = cl_trial_run(t->f.base, record, data, actual, &err) == KILN_STATUS_OK &&
               cl_trial_run(t->judge, record, data, expected, &err) == KILN_STATUS_OK;
    if (!ran) {
        KILN_FAIL("%s: %s", name, err.message);
    }
    for (unsigned i = 0; i < record->n_outputs; i++) {
        const kiln_tensor_desc *out = &record->outputs[i];
        char text[300];
        if (ran &&
            !kiln_tolerance_judge(record, i, data, actual[i], expected[i], text, sizeof(text))) {
            KILN_FAIL("%s of %s, result %u: %s", name, kiln_dtype_name(out->dtype), i, text);
        }
        free(actual[i]);
        free(expected[i]);
    }
}

void cl_trial_samples(cl_trial *t, kiln_op op, kiln_dtype dtype)
{
    kiln_sample_sink sink = {.env = &t->f.env, .take = cl_trial_take, .user = t};
    kiln_samples_make(op, dtype, &sink);
}
