// SPDX-License-Identifier: MIT OR Apache-2.0
// What members do in a job: register the parameters of an epoch, submit gradients, sync. A
// parameter is reduced over the members that registered it as soon as all members have registered
// for the epoch and those have submitted it; small ones travel together, with an algorithm whose
// order does not depend on who travels with whom. Everything is issued under the job's lock, so in
// one order for all devices. The first thing that goes wrong becomes the job's failure, which all
// members get.

#include "gradsync_internal.h"

#include <stdio.h>
#include <time.h>

// ---- entering and leaving
// ------------------------------------------------------------------------

static kiln_status report(const kiln_gradsync *job, kiln_error *err)
{
    if (err != NULL && job->failure.code != KILN_STATUS_OK) {
        *err = job->failure;
    }
    return (kiln_status)job->failure.code;
}

/// Locks the job, and keeps it from being taken apart.
static kiln_status enter(kiln_gradsync *job, uint32_t member, kiln_error *err)
{
    if (job == NULL) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "there is no job; call kiln_gradsync_start first");
    }
    if (member >= job->count) {
        return kiln_fail(err, INVALID_ARGUMENT, "member %u of a job of %u", member, job->count);
    }
    pthread_mutex_lock(&job->lock);
    kiln_status status =
        job->closed ? kiln_fail(err, FAILED_PRECONDITION, "job \"%.64s\" is closed", job->name)
                    : report(job, err);
    if (status != KILN_STATUS_OK) {
        pthread_mutex_unlock(&job->lock);
        return status;
    }
    job->users++;
    return KILN_STATUS_OK;
}

static void leave(kiln_gradsync *job)
{
    job->users--;
    pthread_cond_broadcast(&job->changed);
    pthread_mutex_unlock(&job->lock);
}

/// Keeps the first failure, and wakes everybody.
static kiln_status fail_job(kiln_gradsync *job, const kiln_error *cause, kiln_error *err)
{
    if (job->failure.code == KILN_STATUS_OK) {
        job->failure = *cause;
        pthread_cond_broadcast(&job->changed);
    }
    return report(job, err);
}

static uint64_t bit_of(uint32_t member)
{
    return UINT64_C(1) << member;
}

static uint32_t first_of(uint64_t mask)
{
    uint32_t member = 0;
    while ((mask & bit_of(member)) == 0) {
        member++;
    }
    return member;
}

/// Sleeps until something changes. False when the deadline has passed.
static bool sleep_until(kiln_gradsync *job, uint64_t deadline_ns)
{
    struct timespec when = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                            .tv_nsec = (long)(deadline_ns % 1000000000u)};
    return pthread_cond_timedwait(&job->changed, &job->lock, &when) == 0 ||
           kiln_time_ns() < deadline_ns;
}

// ---- epochs
// --------------------------------------------------------------------------------------

static kilni_epoch *find_epoch(const kiln_gradsync *job, uint64_t number)
{
    kilni_epoch *epoch = job->epochs;
    while (epoch != NULL && epoch->number != number) {
        epoch = epoch->next;
    }
    return epoch;
}

static kilni_param *find_param(const kilni_epoch *epoch, kiln_param_id id)
{
    kilni_param *param = epoch != NULL ? epoch->params : NULL;
    while (param != NULL && param->id != id) {
        param = param->next;
    }
    return param;
}

/// Epochs that all members have left behind go.
static void drop_old_epochs(kiln_gradsync *job)
{
    uint64_t oldest = UINT64_MAX;
    for (uint32_t i = 0; i < job->count; i++) {
        if ((job->finished & bit_of(i)) == 0 && job->members[i].epoch < oldest) {
            oldest = job->members[i].epoch;
        }
    }
    while (job->epochs != NULL && job->epochs->number < oldest) {
        kilni_epoch *next = job->epochs->next;
        kilni_epoch_free(&job->context->env, job->epochs);
        job->epochs = next;
    }
}

static kilni_epoch *need_epoch(kiln_gradsync *job, uint64_t number)
{
    kilni_epoch **link = &job->epochs;
    while (*link != NULL && (*link)->number < number) {
        link = &(*link)->next;
    }
    if (*link != NULL && (*link)->number == number) {
        return *link;
    }
    kilni_epoch *epoch = kiln_alloc(&job->context->env, sizeof(*epoch));
    if (epoch != NULL) {
        epoch->number = number;
        epoch->next = *link;
        *link = epoch;
    }
    return epoch;
}

static kilni_param *need_param(kiln_gradsync *job, kilni_epoch *epoch, kiln_param_id id)
{
    kilni_param **link = &epoch->params;
    while (*link != NULL && (*link)->id != id) {
        link = &(*link)->next;
    }
    if (*link == NULL) {
        *link = kiln_alloc(&job->context->env, sizeof(**link));
        if (*link != NULL) {
            (*link)->id = id;
        }
    }
    return *link;
}

// ---- launching
// -----------------------------------------------------------------------------------

static bool is_ready(const kilni_param *param)
{
    return param->launch == NULL && param->has == param->wants;
}

static bool is_small(const kiln_gradsync *job, const kilni_param *param)
{
    return (uint64_t)kiln_desc_bytes(&param->desc) < job->bucket_bytes;
}

/// The group of some members, made when first needed.
static kiln_status need_group(kiln_gradsync *job, uint64_t mask, kiln_collective **out_group,
                              kiln_error *err)
{
    kiln_device *devices[KILNI_GRADSYNC_MEMBERS];
    char select[256];
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
        count += (mask & bit_of(i)) != 0;
    }
    subset = kiln_alloc(&job->context->env, sizeof(*subset));
    if (subset == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a group");
    }
    // A bucket has less than twice its limit: so far the order must not depend on the position.
    snprintf(select, sizeof(select), "all_reduce:0-%llu:doubling%s%.160s",
             (unsigned long long)job->bucket_bytes * 2, job->select[0] != '\0' ? "," : "",
             job->select);
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    options.deadline_ns = job->deadline_ns;
    options.select = select;
    kiln_status status =
        job->over_mpi ? kiln_collective_create_mpi(devices, count, &options, &subset->group, err)
                      : kiln_collective_create(devices, count, &options, &subset->group, err);
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
        if ((mask & bit_of(i)) != 0) {
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
        if ((mask & bit_of(i)) != 0) {
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
        uint32_t member = first_of(mask);
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
static kiln_status launch(kiln_gradsync *job, kilni_epoch *epoch, bool flush, kiln_error *err)
{
    kiln_error cause = KILN_ERROR_INIT;
    if (job->failure.code != KILN_STATUS_OK) { // nothing begins any more
        return report(job, err);
    }
    kiln_status status = launch_ready(job, epoch, flush, &cause);
    return status == KILN_STATUS_OK ? status : fail_job(job, &cause, err);
}

// ---- register
// ------------------------------------------------------------------------------------

static kiln_status check_ids(const kiln_param_id *ids, size_t count, kiln_error *err)
{
    if (ids == NULL && count > 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "ids must not be NULL");
    }
    for (size_t i = 0; i < count; i++) {
        if (ids[i] == 0) {
            return kiln_fail(err, INVALID_ARGUMENT, "0 is no parameter");
        }
        for (size_t k = 0; k < i; k++) {
            if (ids[k] == ids[i]) {
                return kiln_fail(err, INVALID_ARGUMENT, "parameter %llu is registered twice",
                                 (unsigned long long)ids[i]);
            }
        }
    }
    return KILN_STATUS_OK;
}

/// A member that has finished its round waits for the others to do so.
static kiln_status await_round(kiln_gradsync *job, uint32_t member, kiln_error *err)
{
    uint64_t deadline_ns = kiln_time_ns() + job->deadline_ns;
    bool in_time = true;
    while (job->failure.code == KILN_STATUS_OK && (job->finished & bit_of(member)) != 0) {
        if (!in_time) {
            kiln_error cause = KILN_ERROR_INIT;
            (void)kiln_fail(&cause, DEADLINE_EXCEEDED,
                            "member %u did not finish its round before the deadline",
                            first_of(job->everyone & ~job->finished));
            return fail_job(job, &cause, err);
        }
        in_time = sleep_until(job, deadline_ns);
    }
    return report(job, err);
}

static kiln_status register_locked(kiln_gradsync *job, uint32_t member, const kiln_param_id *ids,
                                   size_t count, kiln_error *err)
{
    kilni_job_member *self = &job->members[member];
    kiln_error cause = KILN_ERROR_INIT;
    kiln_status status = await_round(job, member, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (self->in_epoch) {
        (void)kiln_fail(&cause, FAILED_PRECONDITION,
                        "member %u registered again before it synced epoch %llu", member,
                        (unsigned long long)self->epoch);
        return fail_job(job, &cause, err);
    }
    kilni_epoch *epoch = need_epoch(job, self->epoch + 1);
    for (size_t i = 0; i < count && epoch != NULL; i++) {
        kilni_param *param = need_param(job, epoch, ids[i]);
        epoch = param != NULL ? epoch : NULL;
        if (param != NULL) {
            param->wants |= bit_of(member);
        }
    }
    if (epoch == NULL) {
        (void)kiln_fail(&cause, RESOURCE_EXHAUSTED, "member %u: no memory for an epoch", member);
        return fail_job(job, &cause, err);
    }
    self->epoch++;
    self->in_epoch = true;
    epoch->registered |= bit_of(member);
    drop_old_epochs(job);
    return launch(job, epoch, /*flush=*/false, err);
}

kiln_status kiln_gradsync_register(kiln_gradsync *job, uint32_t member, const kiln_param_id *ids,
                                   size_t count, kiln_error *err)
{
    kiln_status status = check_ids(ids, count, err);
    if (status == KILN_STATUS_OK) {
        status = enter(job, member, err);
    }
    if (status == KILN_STATUS_OK) {
        status = register_locked(job, member, ids, count, err);
        leave(job);
    }
    return status;
}

kiln_status kiln_gradsync_finish(kiln_gradsync *job, uint32_t member, kiln_error *err)
{
    kiln_status status = enter(job, member, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (job->members[member].in_epoch) {
        kiln_error cause = KILN_ERROR_INIT;
        (void)kiln_fail(&cause, FAILED_PRECONDITION, "member %u finished in the middle of an epoch",
                        member);
        status = fail_job(job, &cause, err);
        leave(job);
        return status;
    }
    job->finished |= bit_of(member);
    for (kilni_epoch *epoch = job->epochs; epoch != NULL && status == KILN_STATUS_OK;
         epoch = epoch->next) {
        status = launch(job, epoch, /*flush=*/false, err);
    }
    if (job->finished == job->everyone) { // a new round: all begin at one number again
        uint64_t last = 0;
        for (uint32_t i = 0; i < job->count; i++) {
            last = job->members[i].epoch > last ? job->members[i].epoch : last;
        }
        for (uint32_t i = 0; i < job->count; i++) {
            job->members[i].epoch = last;
        }
        job->finished = 0;
        drop_old_epochs(job);
    }
    leave(job);
    return status;
}

// ---- submit
// --------------------------------------------------------------------------------------

static kiln_status check_gradient(const kiln_gradsync *job, uint32_t member,
                                  const kiln_tensor *gradient, kiln_error *err)
{
    if (gradient == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "a gradient must not be NULL");
    }
    if (job != NULL && member < job->count && gradient->device != job->devices[member]) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "member %u: the gradient is on %s, the member on %s", member,
                         gradient->device->address, job->devices[member]->address);
    }
    if (!kiln_tensor_is_distributed(gradient)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "the gradient names no parameter; call kiln_tensor_set_param first");
    }
    return KILN_STATUS_OK;
}

static kilni_sum **find_sum(kiln_gradsync *job, uint32_t member, kiln_param_id id)
{
    kilni_sum **link = &job->members[member].sums;
    while (*link != NULL && (*link)->id != id) {
        link = &(*link)->next;
    }
    return link;
}

/// Adds what the member has accumulated for the parameter; it is used up.
static kiln_status take_sum(kiln_gradsync *job, uint32_t member, kiln_tensor *gradient,
                            kiln_tensor **out_total, kiln_error *err)
{
    kilni_sum **link = find_sum(job, member, gradient->param);
    kilni_sum *sum = *link;
    if (sum == NULL) {
        *out_total = kiln_retain(gradient);
        return KILN_STATUS_OK;
    }
    kiln_status status = kiln_add(sum->tensor, gradient, out_total, err);
    if (status == KILN_STATUS_OK) {
        *link = sum->next;
        sum->next = NULL;
        kilni_sums_free(&job->context->env, sum);
    }
    return status;
}

static kiln_status check_submission(const kiln_gradsync *job, uint32_t member,
                                    const kilni_param *param, const kiln_tensor *gradient,
                                    kiln_error *err)
{
    unsigned long long id = (unsigned long long)gradient->param;
    const kilni_job_member *self = &job->members[member];
    if (!self->in_epoch || param == NULL || (param->wants & bit_of(member)) == 0) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "member %u submitted parameter %llu, which it did not register", member,
                         id);
    }
    if ((param->has & bit_of(member)) != 0) {
        return kiln_fail(err, ALREADY_EXISTS,
                         "member %u submitted parameter %llu twice in epoch %llu", member, id,
                         (unsigned long long)self->epoch);
    }
    if (param->has != 0 && (param->desc.dtype != gradient->desc.dtype ||
                            !kiln_desc_same_shape(&param->desc, &gradient->desc))) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "member %u submitted parameter %llu with %lld elements of %s and another "
                         "shape or dtype than member %u",
                         member, id, (long long)kiln_desc_count(&gradient->desc),
                         kiln_dtype_name(gradient->desc.dtype), first_of(param->has));
    }
    return KILN_STATUS_OK;
}

static kiln_status submit_locked(kiln_gradsync *job, uint32_t member, kiln_tensor *gradient,
                                 kiln_error *err)
{
    kilni_epoch *epoch = find_epoch(job, job->members[member].epoch);
    kilni_param *param = find_param(epoch, gradient->param);
    kiln_error cause = KILN_ERROR_INIT;
    kiln_status status = check_submission(job, member, param, gradient, &cause);
    if (status == KILN_STATUS_OK) {
        status = take_sum(job, member, gradient, &param->gradients[member], &cause);
    }
    if (status != KILN_STATUS_OK) {
        return fail_job(job, &cause, err);
    }
    param->desc = param->has == 0 ? gradient->desc : param->desc;
    param->has |= bit_of(member);
    return launch(job, epoch, /*flush=*/false, err);
}

kiln_status kiln_gradsync_submit(kiln_gradsync *job, uint32_t member, kiln_tensor *gradient,
                                 kiln_error *err)
{
    kiln_status status = enter(job, member, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = check_gradient(job, member, gradient, err);
    if (status == KILN_STATUS_OK) {
        status = submit_locked(job, member, gradient, err);
    }
    leave(job);
    return status;
}

static kiln_status accumulate_locked(kiln_gradsync *job, uint32_t member, kiln_tensor *gradient,
                                     kiln_error *err)
{
    kilni_sum **link = find_sum(job, member, gradient->param);
    if (*link != NULL) {
        kiln_tensor *total = NULL;
        kiln_status status = kiln_add((*link)->tensor, gradient, &total, err);
        if (status == KILN_STATUS_OK) {
            kiln_release((*link)->tensor);
            (*link)->tensor = total;
        }
        return status;
    }
    kilni_sum *sum = kiln_alloc(&job->context->env, sizeof(*sum));
    if (sum == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to accumulate a gradient");
    }
    *sum = (kilni_sum){.id = gradient->param, .tensor = kiln_retain(gradient)};
    *link = sum;
    return KILN_STATUS_OK;
}

kiln_status kiln_gradsync_accumulate(kiln_gradsync *job, uint32_t member, kiln_tensor *gradient,
                                     kiln_error *err)
{
    kiln_status status = enter(job, member, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = check_gradient(job, member, gradient, err);
    if (status == KILN_STATUS_OK) {
        status = accumulate_locked(job, member, gradient, err);
    }
    leave(job);
    return status;
}

// ---- sync
// ----------------------------------------------------------------------------------------

/// The first parameter of the member that is not on its way, or NULL.
static const kilni_param *find_waiting(const kilni_epoch *epoch, uint32_t member)
{
    const kilni_param *param = epoch->params;
    while (param != NULL && ((param->wants & bit_of(member)) == 0 || param->launch != NULL)) {
        param = param->next;
    }
    return param;
}

/// Who keeps the member waiting.
static void blame(const kiln_gradsync *job, const kilni_epoch *epoch, const kilni_param *param,
                  kiln_error *out_cause)
{
    unsigned long long number = (unsigned long long)epoch->number;
    uint64_t missing = job->everyone & ~(epoch->registered | job->finished);
    if (missing != 0) {
        (void)kiln_fail(out_cause, DEADLINE_EXCEEDED,
                        "member %u did not register for epoch %llu before the deadline",
                        first_of(missing), number);
        return;
    }
    missing = param->wants & ~param->has;
    for (const kilni_param *other = epoch->params; other != NULL && missing == 0;
         other = other->next) { // over MPI an earlier one may be what is missing
        missing = other->wants & ~other->has;
        param = missing != 0 ? other : param;
    }
    (void)kiln_fail(out_cause, DEADLINE_EXCEEDED,
                    "member %u did not submit parameter %llu of epoch %llu before the deadline",
                    missing != 0 ? first_of(missing) : 0, (unsigned long long)param->id, number);
}

static kiln_status await_launches(kiln_gradsync *job, uint32_t member, kilni_epoch *epoch,
                                  kiln_error *err)
{
    uint64_t deadline_ns = kiln_time_ns() + job->deadline_ns;
    bool in_time = true;
    kiln_status status = launch(job, epoch, /*flush=*/true, err);
    while (status == KILN_STATUS_OK) {
        const kilni_param *waiting = find_waiting(epoch, member);
        if (waiting == NULL || job->failure.code != KILN_STATUS_OK) {
            return report(job, err);
        }
        if (!in_time) {
            kiln_error cause = KILN_ERROR_INIT;
            blame(job, epoch, waiting, &cause);
            return fail_job(job, &cause, err);
        }
        in_time = sleep_until(job, deadline_ns);
        status = launch(job, epoch, /*flush=*/true, err); // what became ready goes without waiting
    }
    return status;
}

/// The parameter's part of what a launch gave the member.
static kiln_status cut_out(const kilni_param *param, kiln_tensor *whole, kiln_tensor **out_part,
                           kiln_error *err)
{
    const int64_t start = param->offset;
    const int64_t end = start + kiln_desc_count(&param->desc);
    kiln_tensor *flat = NULL;
    if (!param->launch->is_bucket) {
        *out_part = kiln_retain(whole);
        return KILN_STATUS_OK;
    }
    kiln_status status = kiln_slice(whole, &start, 1, &end, 1, NULL, 0, &flat, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_reshape(flat, param->desc.dims, param->desc.rank, out_part, err);
    }
    kiln_release(flat);
    return status;
}

static bool has_params(const kilni_epoch *epoch, uint32_t member)
{
    const kilni_param *param = epoch->params;
    while (param != NULL && (param->wants & bit_of(member)) == 0) {
        param = param->next;
    }
    return param != NULL;
}

/// Waits for the member's reductions, without the lock: its epoch stays as long as it is in it, and
/// changes no more, since all have registered before anything of it was launched.
static kiln_status collect(kiln_gradsync *job, uint32_t member, kilni_epoch *epoch,
                           kiln_error *out_cause)
{
    kiln_status status = KILN_STATUS_OK;
    if (!has_params(epoch, member)) {
        return status;
    }
    pthread_mutex_unlock(&job->lock);
    for (kilni_param *param = epoch->params; param != NULL && status == KILN_STATUS_OK;
         param = param->next) {
        if ((param->wants & bit_of(member)) != 0) {
            kiln_tensor *whole = param->launch->outputs[member];
            KILN_TRY(out, status, kiln_collective_resolve(whole, out_cause));
            KILN_TRY(out, status, cut_out(param, whole, &param->results[member], out_cause));
            kiln_tensor_set_param(param->results[member], param->id);
        }
    }
out:
    pthread_mutex_lock(&job->lock);
    return status;
}

static kiln_status check_sync(uint32_t member, const kilni_epoch *epoch, kiln_error *err)
{
    for (const kilni_param *param = epoch->params; param != NULL; param = param->next) {
        if ((param->wants & ~param->has & bit_of(member)) != 0) {
            return kiln_fail(err, FAILED_PRECONDITION,
                             "member %u synced epoch %llu without parameter %llu, which it "
                             "registered",
                             member, (unsigned long long)epoch->number,
                             (unsigned long long)param->id);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status sync_locked(kiln_gradsync *job, uint32_t member, kiln_error *err)
{
    kilni_epoch *epoch = find_epoch(job, job->members[member].epoch);
    kiln_error cause = KILN_ERROR_INIT;
    if (!job->members[member].in_epoch) { // of something else, such as a loss without parameters
        return KILN_STATUS_OK;
    }
    kiln_status status = check_sync(member, epoch, &cause);
    if (status != KILN_STATUS_OK) {
        return fail_job(job, &cause, err);
    }
    status = await_launches(job, member, epoch, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = collect(job, member, epoch, &cause);
    job->members[member].in_epoch = false;
    return status == KILN_STATUS_OK ? report(job, err) : fail_job(job, &cause, err);
}

kiln_status kiln_gradsync_sync(kiln_gradsync *job, uint32_t member, kiln_error *err)
{
    kiln_status status = enter(job, member, err);
    if (status == KILN_STATUS_OK) {
        status = sync_locked(job, member, err);
        leave(job);
    }
    return status;
}

bool kiln_gradsync_ready(kiln_gradsync *job, uint32_t member)
{
    if (enter(job, member, NULL) != KILN_STATUS_OK) {
        return true; // sync will say why
    }
    kilni_epoch *epoch = find_epoch(job, job->members[member].epoch);
    bool ready = !job->members[member].in_epoch ||
                 launch(job, epoch, /*flush=*/true, NULL) != KILN_STATUS_OK ||
                 find_waiting(epoch, member) == NULL;
    leave(job);
    return ready;
}

kiln_status kiln_gradsync_gradient(kiln_gradsync *job, uint32_t member, kiln_param_id id,
                                   kiln_tensor **out_gradient, kiln_error *err)
{
    *out_gradient = NULL;
    kiln_status status = enter(job, member, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const kilni_param *param = find_param(find_epoch(job, job->members[member].epoch), id);
    if (param != NULL && !job->members[member].in_epoch) {
        *out_gradient = kiln_retain(param->results[member]);
    }
    leave(job);
    return *out_gradient != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, NOT_FOUND, "member %u has no synced gradient of parameter %llu",
                           member, (unsigned long long)id);
}
