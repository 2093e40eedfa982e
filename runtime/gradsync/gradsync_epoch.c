// SPDX-License-Identifier: MIT OR Apache-2.0
// What members do in a job: register the parameters of an epoch, submit gradients, sync. Who waits
// for whom and who is late is decided here; what is reduced when is gradsync_launch.c's.

#include "gradsync_internal.h"
#include "rt_context.h"
#include "rt_device.h"
#include "rt_tensor.h"

// ---- register ----

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
    while (job->failure.code == KILN_STATUS_OK && (job->finished & kilni_member_bit(member)) != 0) {
        if (!in_time) {
            kiln_error cause = KILN_ERROR_INIT;
            (void)kiln_fail(&cause, DEADLINE_EXCEEDED,
                            "member %u did not finish its round before the deadline",
                            kilni_member_first(job->everyone & ~job->finished));
            return kilni_gradsync_fail(job, &cause, err);
        }
        in_time = kilni_gradsync_sleep(job, deadline_ns);
    }
    return kilni_gradsync_report(job, err);
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
        return kilni_gradsync_fail(job, &cause, err);
    }
    kilni_epoch *epoch = kilni_epoch_need(job, self->epoch + 1);
    for (size_t i = 0; i < count && epoch != NULL; i++) {
        kilni_param *param = kilni_param_need(job, epoch, ids[i]);
        epoch = param != NULL ? epoch : NULL;
        if (param != NULL) {
            param->wants |= kilni_member_bit(member);
        }
    }
    if (epoch == NULL) {
        (void)kiln_fail(&cause, RESOURCE_EXHAUSTED, "member %u: no memory for an epoch", member);
        return kilni_gradsync_fail(job, &cause, err);
    }
    self->epoch++;
    self->in_epoch = true;
    epoch->registered |= kilni_member_bit(member);
    kilni_epochs_drop_old(job);
    return kilni_gradsync_launch(job, epoch, /*flush=*/false, err);
}

kiln_status kiln_gradsync_register(kiln_gradsync *job, uint32_t member, const kiln_param_id *ids,
                                   size_t count, kiln_error *err)
{
    kiln_status status = check_ids(ids, count, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_gradsync_enter(job, member, err);
    }
    if (status == KILN_STATUS_OK) {
        status = register_locked(job, member, ids, count, err);
        kilni_gradsync_leave(job);
    }
    return status;
}

kiln_status kiln_gradsync_finish(kiln_gradsync *job, uint32_t member, kiln_error *err)
{
    kiln_status status = kilni_gradsync_enter(job, member, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (job->members[member].in_epoch) {
        kiln_error cause = KILN_ERROR_INIT;
        (void)kiln_fail(&cause, FAILED_PRECONDITION, "member %u finished in the middle of an epoch",
                        member);
        status = kilni_gradsync_fail(job, &cause, err);
        kilni_gradsync_leave(job);
        return status;
    }
    job->finished |= kilni_member_bit(member);
    for (kilni_epoch *epoch = job->epochs; epoch != NULL && status == KILN_STATUS_OK;
         epoch = epoch->next) {
        status = kilni_gradsync_launch(job, epoch, /*flush=*/false, err);
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
        kilni_epochs_drop_old(job);
    }
    kilni_gradsync_leave(job);
    return status;
}

// ---- submit ----

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
    if (kiln_dtype_kind_of(gradient->desc.dtype) != KILN_KIND_FLOAT) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "member %u: the gradient of parameter %llu is %s; gradients are floats",
                         member, (unsigned long long)kiln_tensor_param(gradient),
                         kiln_dtype_name(gradient->desc.dtype));
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

/// Adding broadcasts: what is accumulated must be of one shape.
static kiln_status add_to_sum(const kilni_sum *sum, uint32_t member, kiln_tensor *gradient,
                              kiln_tensor **out_total, kiln_error *err)
{
    if (sum->tensor->desc.dtype != gradient->desc.dtype ||
        !kiln_desc_same_shape(&sum->tensor->desc, &gradient->desc)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "member %u: %lld elements of %s and another shape or dtype than what was "
                         "accumulated for parameter %llu",
                         member, (long long)kiln_desc_count(&gradient->desc),
                         kiln_dtype_name(gradient->desc.dtype), (unsigned long long)sum->id);
    }
    return kiln_add(sum->tensor, gradient, out_total, err);
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
    kiln_status status = add_to_sum(sum, member, gradient, out_total, err);
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
    if (!self->in_epoch || param == NULL || (param->wants & kilni_member_bit(member)) == 0) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "member %u submitted parameter %llu, which it did not register", member,
                         id);
    }
    if ((param->has & kilni_member_bit(member)) != 0) {
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
                         kiln_dtype_name(gradient->desc.dtype), kilni_member_first(param->has));
    }
    return KILN_STATUS_OK;
}

static kiln_status submit_locked(kiln_gradsync *job, uint32_t member, kiln_tensor *gradient,
                                 kiln_error *err)
{
    kilni_epoch *epoch = kilni_epoch_find(job, job->members[member].epoch);
    kilni_param *param = kilni_param_find(epoch, gradient->param);
    kiln_error cause = KILN_ERROR_INIT;
    kiln_status status = check_submission(job, member, param, gradient, &cause);
    if (status == KILN_STATUS_OK) {
        status = take_sum(job, member, gradient, &param->gradients[member], &cause);
    }
    if (status != KILN_STATUS_OK) {
        return kilni_gradsync_fail(job, &cause, err);
    }
    param->desc = param->has == 0 ? gradient->desc : param->desc;
    param->has |= kilni_member_bit(member);
    return kilni_gradsync_launch(job, epoch, /*flush=*/false, err);
}

static kiln_status accumulate_locked(kiln_gradsync *job, uint32_t member, kiln_tensor *gradient,
                                     kiln_error *err)
{
    kilni_sum **link = find_sum(job, member, gradient->param);
    if (*link != NULL) {
        kiln_tensor *total = NULL;
        kiln_status status = add_to_sum(*link, member, gradient, &total, err);
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

typedef kiln_status (*take_fn)(kiln_gradsync *job, uint32_t member, kiln_tensor *gradient,
                               kiln_error *err);

static kiln_status give_gradient(kiln_gradsync *job, uint32_t member, kiln_tensor *gradient,
                                 take_fn take, kiln_error *err)
{
    kiln_status status = kilni_gradsync_enter(job, member, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = check_gradient(job, member, gradient, err);
    if (status == KILN_STATUS_OK) {
        status = take(job, member, gradient, err);
    }
    kilni_gradsync_leave(job);
    return status;
}

kiln_status kiln_gradsync_submit(kiln_gradsync *job, uint32_t member, kiln_tensor *gradient,
                                 kiln_error *err)
{
    return give_gradient(job, member, gradient, submit_locked, err);
}

kiln_status kiln_gradsync_accumulate(kiln_gradsync *job, uint32_t member, kiln_tensor *gradient,
                                     kiln_error *err)
{
    return give_gradient(job, member, gradient, accumulate_locked, err);
}

// ---- sync ----

/// The first parameter of the member that is not on its way, or NULL.
static const kilni_param *find_waiting(const kilni_epoch *epoch, uint32_t member)
{
    const kilni_param *param = epoch->params;
    while (param != NULL &&
           ((param->wants & kilni_member_bit(member)) == 0 || param->launch != NULL)) {
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
                        kilni_member_first(missing), number);
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
                    missing != 0 ? kilni_member_first(missing) : 0, (unsigned long long)param->id,
                    number);
}

static kiln_status await_launches(kiln_gradsync *job, uint32_t member, kilni_epoch *epoch,
                                  kiln_error *err)
{
    uint64_t deadline_ns = kiln_time_ns() + job->deadline_ns;
    bool in_time = true;
    kiln_status status = kilni_gradsync_launch(job, epoch, /*flush=*/true, err);
    while (status == KILN_STATUS_OK) {
        const kilni_param *waiting = find_waiting(epoch, member);
        if (waiting == NULL || job->failure.code != KILN_STATUS_OK) {
            return kilni_gradsync_report(job, err);
        }
        if (!in_time) {
            kiln_error cause = KILN_ERROR_INIT;
            blame(job, epoch, waiting, &cause);
            return kilni_gradsync_fail(job, &cause, err);
        }
        in_time = kilni_gradsync_sleep(job, deadline_ns);
        status = kilni_gradsync_launch(job, epoch, /*flush=*/true,
                                       err); // what became ready goes without waiting
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
    while (param != NULL && (param->wants & kilni_member_bit(member)) == 0) {
        param = param->next;
    }
    return param != NULL;
}

/// Makes the device wait for the member's reductions, without the lock: its epoch stays as long as
/// it is in it, and changes no more, since all have registered before anything of it was launched.
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
        if ((param->wants & kilni_member_bit(member)) != 0) {
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
        if ((param->wants & ~param->has & kilni_member_bit(member)) != 0) {
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
    kilni_epoch *epoch = kilni_epoch_find(job, job->members[member].epoch);
    kiln_error cause = KILN_ERROR_INIT;
    if (!job->members[member].in_epoch) { // of something else, such as a loss without parameters
        return KILN_STATUS_OK;
    }
    kiln_status status = check_sync(member, epoch, &cause);
    if (status != KILN_STATUS_OK) {
        return kilni_gradsync_fail(job, &cause, err);
    }
    status = await_launches(job, member, epoch, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = collect(job, member, epoch, &cause);
    job->members[member].in_epoch = false;
    return status == KILN_STATUS_OK ? kilni_gradsync_report(job, err)
                                    : kilni_gradsync_fail(job, &cause, err);
}

kiln_status kiln_gradsync_sync(kiln_gradsync *job, uint32_t member, kiln_error *err)
{
    kiln_status status = kilni_gradsync_enter(job, member, err);
    if (status == KILN_STATUS_OK) {
        status = sync_locked(job, member, err);
        kilni_gradsync_leave(job);
    }
    return status;
}

bool kiln_gradsync_ready(kiln_gradsync *job, uint32_t member)
{
    if (kilni_gradsync_enter(job, member, NULL) != KILN_STATUS_OK) {
        return true; // sync will say why
    }
    kilni_epoch *epoch = kilni_epoch_find(job, job->members[member].epoch);
    bool ready = !job->members[member].in_epoch ||
                 kilni_gradsync_launch(job, epoch, /*flush=*/true, NULL) != KILN_STATUS_OK ||
                 find_waiting(epoch, member) == NULL;
    kilni_gradsync_leave(job);
    return ready;
}

kiln_status kiln_gradsync_gradient(kiln_gradsync *job, uint32_t member, kiln_param_id id,
                                   kiln_tensor **out_gradient, kiln_error *err)
{
    if (out_gradient == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_gradient must not be NULL");
    }
    *out_gradient = NULL;
    kiln_status status = kilni_gradsync_enter(job, member, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const kilni_param *param =
        kilni_param_find(kilni_epoch_find(job, job->members[member].epoch), id);
    if (param != NULL && !job->members[member].in_epoch) {
        *out_gradient = kiln_retain(param->results[member]);
    }
    kilni_gradsync_leave(job);
    return *out_gradient != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, NOT_FOUND, "member %u has no synced gradient of parameter %llu",
                           member, (unsigned long long)id);
}
