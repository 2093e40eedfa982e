// SPDX-License-Identifier: MIT OR Apache-2.0
// See program.h.

#include <stdlib.h>

#include "ir.h"
#include "program.h"

kiln_status program_step(kiln_device *on, const step *s, kiln_tensor *const *tensors,
                         kiln_tensor **out, kiln_error *err)
{
    kiln_tensor *inputs[KILN_MAX_INPUTS] = {NULL};
    kiln_attr attrs[KILN_MAX_ATTRS];
    uint32_t n_attrs = kiln_op_info_of(s->op)->signature->n_attrs;
    kiln_tensor *results[KILN_MAX_OUTPUTS] = {NULL};
    for (uint32_t i = 0; i < s->n_inputs; i++) {
        inputs[i] = tensors[s->inputs[i]];
    }
    for (uint32_t i = 0; i < n_attrs; i++) {
        attrs[i] = s->attrs[i];
        if (attrs[i].type == KILN_ATTR_I64_LIST) {
            attrs[i].v.ints = s->lists[i];
        }
    }
    kiln_status status = kiln_record(on, s->op, inputs, s->n_inputs, attrs, n_attrs, results, err);
    *out = results[0];
    return status;
}

kiln_status program_inputs(kiln_device *on, void *user, kiln_tensor **out_inputs, size_t *out_count,
                           kiln_error *err)
{
    const program *p = user;
    kiln_status status = KILN_STATUS_OK;
    *out_count = 0;
    for (uint32_t i = 0; i < p->n_sources && status == KILN_STATUS_OK; i++) {
        const value *v = &p->values[i];
        status = kiln_tensor_create(on, v->dtype, v->rank, v->dims, v->bytes,
                                    &out_inputs[*out_count], err);
        *out_count += status == KILN_STATUS_OK;
    }
    return status;
}

/// All steps; values from `first` on go after their last use, save those that are kept.
static kiln_status run_steps(const program *p, kiln_device *on, uint32_t first,
                             kiln_tensor **tensors, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < p->n_steps && status == KILN_STATUS_OK; i++) {
        const step *s = &p->steps[i];
        status = program_step(on, s, tensors, &tensors[s->output], err);
        for (uint32_t k = first; k < p->n_values; k++) {
            if (p->values[k].last_use == (int)i && !p->values[k].keep) {
                kiln_release(tensors[k]);
                tensors[k] = NULL;
            }
        }
    }
    return status;
}

kiln_status program_record(kiln_device *on, void *user, kiln_tensor *const *inputs,
                           kiln_tensor **out_results, size_t *out_count, kiln_error *err)
{
    const program *p = user;
    kiln_tensor *tensors[MAX_VALUES] = {NULL};
    for (uint32_t i = 0; i < p->n_sources; i++) {
        tensors[i] = inputs[i];
    }
    kiln_status status = run_steps(p, on, p->n_sources, tensors, err);
    *out_count = 0;
    for (uint32_t i = p->n_sources; i < p->n_values; i++) {
        if (tensors[i] != NULL && p->values[i].keep && status == KILN_STATUS_OK) {
            out_results[(*out_count)++] = tensors[i];
        } else {
            kiln_release(tensors[i]);
        }
    }
    return status;
}

kiln_status program_run(program *p, kiln_device *on, unsigned char **out, kiln_error *err)
{
    kiln_tensor *tensors[MAX_VALUES] = {NULL};
    size_t n_inputs = 0;
    kiln_status status = program_inputs(on, p, tensors, &n_inputs, err);
    if (status == KILN_STATUS_OK) {
        status = run_steps(p, on, 0, tensors, err);
    }
    for (uint32_t i = p->n_sources; i < p->n_values && status == KILN_STATUS_OK; i++) {
        if (p->values[i].keep && tensors[i] != NULL) {
            size_t bytes = kiln_tensor_bytes(tensors[i]);
            out[i] = malloc(bytes + 1);
            status = out[i] == NULL ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a value")
                                    : kiln_read(tensors[i], out[i], bytes, err);
        }
    }
    for (uint32_t i = 0; i < p->n_values; i++) {
        kiln_release(tensors[i]);
    }
    return status;
}
