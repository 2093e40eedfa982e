// SPDX-License-Identifier: MIT OR Apache-2.0
// When and how parameters are reduced: each over the members that registered it, as soon as all
// members have registered for the epoch and those have submitted it; small ones travel together,
// with an algorithm whose order does not depend on who travels with whom. Everything is issued
// under the job's lock, so in one order for all devices.

#include "gradsync_internal.h"
#include "rt_context.h"

#include <stdio.h>
#include <string.h>

// ---- launching ----

static bool is_ready(const kilni_param *param)
{
    return param->launch == NULL && param->has == param->wants;
}

static bool is_small(const kiln_gradsync *job, const kilni_param *param)
{
    return (uint64_t)kiln_desc_bytes(&param->desc) < job->bucket_bytes;
}

static kiln_status make_group(const kiln_gradsync *job, kiln_device *const *devices, size_t count,
                              kiln_collective **out_group, kiln_error *err)
{
    const kiln_env *env = &job->context->env;
    size_t bytes = strlen(job->select) + 64;
    char *select = kiln_alloc(env, bytes);
    if (select == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a group");
    }
    // A bucket has less than twice its limit: so far the order must not depend on the position.
    snprintf(select, bytes, "all_reduce:0-%llu:doubling%s%s",
             (unsigned long long)job->bucket_bytes * 2, job->select[0] != '\0' ? "," : "",
             job->select);
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    options.deadline_ns = job->deadline_ns;
    options.select = select;
    kiln_status status = job->over_mpi
                             ? kiln_collective_create_mpi(devices, count, &options, out_group, err)
                             : kiln_collective_create(devices, count, &options, out_group, err);
    kiln_free(env, select);
    return status;
}

/// The group of some members, made when first needed.
static kiln_status need_group(kiln_gradsync *job, uint64_t mask, kiln_collective **out_group,
                              kiln_error *err)
{
    kiln_device *devices[KILNI_GRADSYNC_MEMBERS];
    size_t count = 0;
    kilni_subset *subset = job->subsets;
    while (subset != NULL && subset->mask != mask) {
        subset = subset->next;
    }
    if (subset != NULL) {
        *out_group = subset->group;
        return KILN_STATUS_OK;
    }
    for (uint32_t i = 0; i < job->count; i++) {
        devices[count] = job->devices[i];
        count += (mask & kilni_member_bit(i)) != 0;
    }
    subset = kiln_alloc(&job->context->env, sizeof(*subset));
    if (subset == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a group");
    }
    kiln_status status = make_group(job, devices, count, &subset->group, err);
    if (status != KILN_STATUS_OK) {
        kiln_free(&job->context->env, subset);
        return status;
    }
    subset->mask = mask;
    subset->next = job->subsets;
    job->subsets = subset;
    *out_group = subset->group;
    return KILN_STATUS_OK;
}

static kiln_status open_whole_group(kiln_gradsync *job, kiln_error *err)
{
    kiln_collective *group = NULL;
    kiln_status status = kilni_gradsync_enter(job, /*member=*/0, err);
    if (status == KILN_STATUS_OK) {
        status = need_group(job, job->everyone, &group, err);
        kilni_gradsync_leave(job);
    }
    return status;
}

/// Over MPI the group is made at once, so that start says when there cannot be one. The job goes
/// again then.
kiln_status kiln_gradsync_start(kiln_context *context, const char *name,
                                kiln_device *const *devices, size_t count,
                                const kiln_gradsync_options *options, kiln_gradsync **out_job,
                                kiln_error *err)
{
    if (out_job == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_job must not be NULL");
    }
    bool made = false; // an open job of the name has its group, or had its failure
    kiln_status status =
        kilni_gradsync_begin(context, name, devices, count, options, out_job, &made, err);
    if (status == KILN_STATUS_OK && made && (*out_job)->over_mpi) {
        status = open_whole_group(*out_job, err);
    }
    if (status != KILN_STATUS_OK && *out_job != NULL) {
        kilni_gradsync_discard(*out_job);
        *out_job = NULL;
    }
    return status;
}

/// The gradients of one member one after another, flat.
static kiln_status join(kilni_param *const *params, size_t count, uint32_t member,
                        kiln_tensor **out_tensor, kiln_error *err)
{
    kiln_tensor *flats[KILNI_GRADSYNC_BUCKET] = {NULL};
    const int64_t all = -1;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        status = kiln_reshape(params[i]->gradients[member], &all, 1, &flats[i], err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_concat(flats, count, /*axis=*/0, out_tensor, err);
    }
    for (size_t i = 0; i < count; i++) {
        kiln_release(flats[i]);
    }
    return status;
}

/// Starts one call for the parameters, which have the same members and dtype.
static kiln_status reduce(kiln_gradsync *job, kilni_param *const *params, size_t count,
                          kilni_launch *launch, kiln_error *err)
{
    kiln_tensor *inputs[KILNI_GRADSYNC_MEMBERS] = {NULL};
    kiln_tensor *outputs[KILNI_GRADSYNC_MEMBERS] = {NULL};
    uint64_t mask = params[0]->wants;
    kiln_collective *group = NULL;
    size_t n = 0;
    kiln_status status = need_group(job, mask, &group, err);
    for (uint32_t i = 0; i < job->count && status == KILN_STATUS_OK; i++) {
        if ((mask & kilni_member_bit(i)) != 0) {
            status = count > 1 ? join(params, count, i, &inputs[n], err) : KILN_STATUS_OK;
            inputs[n] = count > 1 ? inputs[n] : kiln_retain(params[0]->gradients[i]);
            n++;
        }
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_collective_all_reduce(group, inputs, job->op, outputs, err);
    }
    n = 0;
    for (uint32_t i = 0; i < job->count; i++) {
        if ((mask & kilni_member_bit(i)) != 0) {
            kiln_release(inputs[n]);
            launch->outputs[i] = outputs[n++];
        }
    }
    return status;
}

static kiln_status launch_params(kiln_gradsync *job, kilni_epoch *epoch, kilni_param *const *params,
                                 size_t count, kiln_error *err)
{
    uint64_t mask = params[0]->wants;
    int64_t offset = 0;
    kilni_launch *launch = kiln_alloc(&job->context->env, sizeof(*launch));
    if (launch == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to reduce a parameter");
    }
    launch->is_bucket = count > 1;
    launch->next = epoch->launches;
    epoch->launches = launch;
    kiln_status status = KILN_STATUS_OK;
    if ((mask & (mask - 1)) != 0 || job->over_mpi) {
        status = reduce(job, params, count, launch, err);
    } else { // of one member: it is its own sum and mean
        launch->is_bucket = false;
        uint32_t member = kilni_member_first(mask);
        launch->outputs[member] = kiln_retain(params[0]->gradients[member]);
    }
    for (size_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        params[i]->launch = launch;
        params[i]->offset = offset;
        offset += kiln_desc_count(&params[i]->desc);
        for (uint32_t k = 0; k < job->count; k++) {
            kiln_release(params[i]->gradients[k]);
            params[i]->gradients[k] = NULL;
        }
    }
    return status;
}

/// Collects what can travel with `first`. True when it should go now.
static bool fill_bucket(const kiln_gradsync *job, kilni_param *first, bool flush,
                        kilni_param **out_params, size_t *out_count)
{
    uint64_t bytes = 0;
    bool single = (first->wants & (first->wants - 1)) == 0 && !job->over_mpi;
    bool full = !is_small(job, first) || single;
    *out_count = 0;
    for (kilni_param *param = first; param != NULL; param = param->next) {
        bool fits = is_ready(param) && param->wants == first->wants &&
                    param->desc.dtype == first->desc.dtype && is_small(job, param);
        if (param == first || (fits && !full)) {
            out_params[(*out_count)++] = param;
            bytes += (uint64_t)kiln_desc_bytes(&param->desc);
            full = full || bytes >= job->bucket_bytes || *out_count == KILNI_GRADSYNC_BUCKET;
        } else if (job->over_mpi) { // other processes must come to the same: in order, no gaps
            full = full || is_ready(param);
            break;
        }
    }
    return full || flush;
}

/// Launches what can be. All members have registered; over MPI strictly in the order of
/// registration.
static kiln_status launch_ready(kiln_gradsync *job, kilni_epoch *epoch, bool flush, kiln_error *err)
{
    kilni_param *params[KILNI_GRADSYNC_BUCKET];
    size_t count = 0;
    bool complete = true;
    kiln_status status = KILN_STATUS_OK;
    if (((epoch->registered | job->finished) & job->everyone) != job->everyone) {
        return KILN_STATUS_OK;
    }
    for (const kilni_param *param = epoch->params; param != NULL; param = param->next) {
        complete = complete && param->has == param->wants;
    }
    flush = complete || (flush && !job->over_mpi);
    for (kilni_param *param = epoch->params; param != NULL && status == KILN_STATUS_OK;
         param = param->next) {
        if (is_ready(param) && fill_bucket(job, param, flush, params, &count)) {
            status = launch_params(job, epoch, params, count, err);
        } else if (job->over_mpi && param->launch == NULL) {
            break;
        }
    }
    pthread_cond_broadcast(&job->changed);
    return status;
}

/// As launch_ready; what goes wrong is the job's failure.
kiln_status kilni_gradsync_launch(kiln_gradsync *job, kilni_epoch *epoch, bool flush,
                                  kiln_error *err)
{
    kiln_error cause = KILN_ERROR_INIT;
    if (job->failure.code != KILN_STATUS_OK) { // nothing begins any more
        return kilni_gradsync_report(job, err);
    }
    kiln_status status = launch_ready(job, epoch, flush, &cause);
    return status == KILN_STATUS_OK ? status : kilni_gradsync_fail(job, &cause, err);
}
