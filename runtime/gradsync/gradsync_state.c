// SPDX-License-Identifier: MIT OR Apache-2.0
// The state of a job: who is inside, its first failure, which all members get, and its epochs with
// their parameters. All under the job's lock. What moves it on is in gradsync_launch.c and
// gradsync_epoch.c.

#include "base_wait.h"
#include "gradsync_internal.h"
#include "rt_context.h"

// ---- entering and leaving ----

kiln_status kilni_gradsync_report(const kiln_gradsync *job, kiln_error *err)
{
    if (err != NULL && job->failure.code != KILN_STATUS_OK) {
        *err = job->failure;
    }
    return (kiln_status)job->failure.code;
}

/// A call that was under way may have failed since: that is the job's failure too.
static void adopt_failure(kiln_gradsync *job)
{
    for (const kilni_subset *subset = job->subsets;
         subset != NULL && job->failure.code == KILN_STATUS_OK; subset = subset->next) {
        kiln_error cause = KILN_ERROR_INIT;
        if (kiln_collective_status(subset->group, NULL, &cause) != KILN_STATUS_OK) {
            job->failure = cause;
            pthread_cond_broadcast(&job->changed);
        }
    }
}

kiln_status kilni_gradsync_enter(kiln_gradsync *job, uint32_t member, kiln_error *err)
{
    if (job == NULL) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "there is no job; call kiln_gradsync_start first");
    }
    if (member >= job->count) {
        return kiln_fail(err, INVALID_ARGUMENT, "member %u of a job of %u", member, job->count);
    }
    pthread_mutex_lock(&job->lock);
    adopt_failure(job);
    kiln_status status =
        job->closed ? kiln_fail(err, FAILED_PRECONDITION, "job \"%.64s\" is closed", job->name)
                    : kilni_gradsync_report(job, err);
    if (status != KILN_STATUS_OK) {
        pthread_mutex_unlock(&job->lock);
        return status;
    }
    job->users++;
    return KILN_STATUS_OK;
}

void kilni_gradsync_leave(kiln_gradsync *job)
{
    job->users--;
    pthread_cond_broadcast(&job->changed);
    pthread_mutex_unlock(&job->lock);
}

kiln_status kilni_gradsync_fail(kiln_gradsync *job, const kiln_error *cause, kiln_error *err)
{
    if (job->failure.code == KILN_STATUS_OK) {
        job->failure = *cause;
        pthread_cond_broadcast(&job->changed);
    }
    return kilni_gradsync_report(job, err);
}

uint64_t kilni_member_bit(uint32_t member)
{
    return UINT64_C(1) << member;
}

uint32_t kilni_member_first(uint64_t mask)
{
    uint32_t member = 0;
    while ((mask & kilni_member_bit(member)) == 0) {
        member++;
    }
    return member;
}

bool kilni_gradsync_sleep(kiln_gradsync *job, uint64_t deadline_ns)
{
    return kiln_cond_wait_until(&job->changed, &job->lock, deadline_ns) ||
           kiln_time_ns() < deadline_ns;
}

// ---- epochs ----

kilni_epoch *kilni_epoch_find(const kiln_gradsync *job, uint64_t number)
{
    kilni_epoch *epoch = job->epochs;
    while (epoch != NULL && epoch->number != number) {
        epoch = epoch->next;
    }
    return epoch;
}

kilni_param *kilni_param_find(const kilni_epoch *epoch, kiln_param_id id)
{
    kilni_param *param = epoch != NULL ? epoch->params : NULL;
    while (param != NULL && param->id != id) {
        param = param->next;
    }
    return param;
}

/// Epochs that all members have left behind go.
void kilni_epochs_drop_old(kiln_gradsync *job)
{
    uint64_t oldest = UINT64_MAX;
    for (uint32_t i = 0; i < job->count; i++) {
        if ((job->finished & kilni_member_bit(i)) == 0 && job->members[i].epoch < oldest) {
            oldest = job->members[i].epoch;
        }
    }
    while (job->epochs != NULL && job->epochs->number < oldest) {
        kilni_epoch *next = job->epochs->next;
        kilni_epoch_free(&job->context->env, job->epochs);
        job->epochs = next;
    }
}

kilni_epoch *kilni_epoch_need(kiln_gradsync *job, uint64_t number)
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

kilni_param *kilni_param_need(kiln_gradsync *job, kilni_epoch *epoch, kiln_param_id id)
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
