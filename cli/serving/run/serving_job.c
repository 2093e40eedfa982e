// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks a request against the model: names, element types, extents, lengths. Behind it every
// number can be trusted.

#include "serving_job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void write_dims(const kiln_model_tensor *tensor, char text[96])
{
    size_t length = (size_t)snprintf(text, 96, "[");
    for (uint32_t i = 0; i < tensor->rank && length < 80; i++) {
        length += (size_t)snprintf(text + length, 96 - length, "%s%" PRId64, i > 0 ? "," : "",
                                   tensor->dims[i]);
    }
    snprintf(text + (length < 94 ? length : 94), 2, "]");
}

static kiln_status check_dims(const kiln_model_tensor *given, const kiln_model_tensor *expected,
                              uint32_t max_batch, kiln_error *err)
{
    bool fits = given->rank == expected->rank;
    for (uint32_t i = 0; fits && i < given->rank; i++) {
        fits =
            given->dims[i] >= 0 && (expected->dims[i] < 0 || expected->dims[i] == given->dims[i]);
    }
    if (!fits) {
        char is[96], should[96];
        write_dims(given, is);
        write_dims(expected, should);
        return kiln_fail(err, INVALID_ARGUMENT, "input %.60s has shape %s, the model takes %s",
                         given->name, is, should);
    }
    if (max_batch > 0 && (given->dims[0] < 1 || given->dims[0] > max_batch)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "input %.60s has batch size %" PRId64 ", the model takes 1 to %u",
                         given->name, given->dims[0], max_batch);
    }
    return KILN_STATUS_OK;
}

static kiln_status check_bytes(const kiln_model_tensor *tensor, kiln_error *err)
{
    uint64_t bytes = kiln_dtype_size(tensor->dtype);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        uint64_t extent = (uint64_t)tensor->dims[i];
        if (extent > 0 && bytes > UINT64_MAX / extent) {
            return kiln_fail(err, INVALID_ARGUMENT, "input %.60s is larger than any memory",
                             tensor->name);
        }
        bytes *= extent;
    }
    if (tensor->data == NULL && tensor->region[0] == '\0' && bytes > 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "input %.60s has no contents", tensor->name);
    }
    if (tensor->bytes != bytes) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "input %.60s has %zu bytes, its shape and datatype make %" PRIu64,
                         tensor->name, tensor->bytes, bytes);
    }
    return KILN_STATUS_OK;
}

static kiln_status take_input(kilni_serving_job *job, const kiln_model_info *info,
                              const kiln_model_tensor *given, kiln_error *err)
{
    for (uint32_t i = 0; i < info->n_inputs; i++) {
        const kiln_model_tensor *expected = &info->inputs[i];
        if (strcmp(given->name, expected->name) != 0) {
            continue;
        }
        if (job->inputs[i] != NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "input %.60s is given twice", given->name);
        }
        if (given->dtype != expected->dtype) {
            return kiln_fail(err, INVALID_ARGUMENT, "input %.60s is %s, the model takes %s",
                             given->name, kiln_model_dtype_name(given->dtype),
                             kiln_model_dtype_name(expected->dtype));
        }
        kiln_status status = check_dims(given, expected, info->max_batch, err);
        if (status == KILN_STATUS_OK) {
            status = check_bytes(given, err);
        }
        job->inputs[i] = given;
        job->data[i] = given->data;
        return status;
    }
    return kiln_fail(err, INVALID_ARGUMENT, "model %.60s has no input \"%.60s\"", info->name,
                     given->name);
}

static kiln_status take_inputs(kilni_serving_job *job, const kiln_model_info *info, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < job->request->n_inputs && status == KILN_STATUS_OK; i++) {
        status = take_input(job, info, &job->request->inputs[i], err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    for (uint32_t i = 0; i < info->n_inputs; i++) {
        if (job->inputs[i] == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "input %.60s of model %.60s is missing",
                             info->inputs[i].name, info->name);
        }
        if (info->max_batch > 0 && job->inputs[i]->dims[0] != job->inputs[0]->dims[0]) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "input %.60s has batch size %" PRId64 ", input %.60s has %" PRId64,
                             info->inputs[i].name, job->inputs[i]->dims[0], info->inputs[0].name,
                             job->inputs[0]->dims[0]);
        }
    }
    job->rows = info->max_batch > 0 ? (uint64_t)job->inputs[0]->dims[0] : 1;
    return KILN_STATUS_OK;
}

static kiln_status take_outputs(kilni_serving_job *job, const kiln_model_info *info,
                                kiln_error *err)
{
    const kiln_model_request *request = job->request;
    job->n_outputs = request->n_wanted > 0 ? request->n_wanted : info->n_outputs;
    for (uint32_t i = 0; i < job->n_outputs; i++) {
        uint32_t found = i;
        if (request->n_wanted > 0) {
            for (found = 0; found < info->n_outputs &&
                            strcmp(info->outputs[found].name, request->wanted[i].name) != 0;
                 found++) {
            }
        }
        if (found == info->n_outputs) {
            return kiln_fail(err, INVALID_ARGUMENT, "model %.60s has no output \"%.60s\"",
                             info->name, request->wanted[i].name);
        }
        job->outputs[i] = found;
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_serving_job_fill(kilni_serving_job *job, const kiln_model_info *info,
                                   kiln_error *err)
{
    kiln_status status = take_inputs(job, info, err);
    job->priority = job->request->priority > 0 ? job->request->priority : info->default_priority;
    if (status == KILN_STATUS_OK && job->priority > info->priority_levels &&
        info->priority_levels > 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "priority %" PRIu64 ", the model has %u levels",
                         job->priority, info->priority_levels);
    }
    job->priority = info->priority_levels > 0 ? job->priority : 0;
    return status == KILN_STATUS_OK ? take_outputs(job, info, err) : status;
}

bool kilni_serving_job_fits(const kilni_serving_job *a, const kilni_serving_job *b,
                            uint32_t n_inputs)
{
    for (uint32_t i = 0; i < n_inputs; i++) {
        for (uint32_t k = 1; k < a->inputs[i]->rank; k++) {
            if (a->inputs[i]->dims[k] != b->inputs[i]->dims[k]) {
                return false;
            }
        }
    }
    return true;
}
