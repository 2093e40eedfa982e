// SPDX-License-Identifier: MIT OR Apache-2.0
// Jobs of gradient synchronisation: one for each name in a context; started, looked up, closed and
// removed from any thread. What members do inside a job is in gradsync_epoch.c.

#include "base_wait.h"
#include "gradsync_internal.h"
#include "rt_collective.h"
#include "rt_context.h"
#include "rt_device.h"

#include <stdio.h>
#include <string.h>

static const uint64_t default_bucket_bytes = 1u << 20;
static const uint64_t default_deadline_ns = 30000000000u;

// ---- life of a job ----

void kilni_sums_free(const kiln_env *env, kilni_sum *sums)
{
    while (sums != NULL) {
        kilni_sum *next = sums->next;
        kiln_release(sums->tensor);
        kiln_free(env, sums);
        sums = next;
    }
}

void kilni_epoch_free(const kiln_env *env, kilni_epoch *epoch)
{
    while (epoch->params != NULL) {
        kilni_param *param = epoch->params;
        for (uint32_t i = 0; i < KILNI_GRADSYNC_MEMBERS; i++) {
            kiln_release(param->gradients[i]);
            kiln_release(param->results[i]);
        }
        epoch->params = param->next;
        kiln_free(env, param);
    }
    while (epoch->launches != NULL) {
        kilni_launch *launch = epoch->launches;
        for (uint32_t i = 0; i < KILNI_GRADSYNC_MEMBERS; i++) {
            kiln_release(launch->outputs[i]);
        }
        epoch->launches = launch->next;
        kiln_free(env, launch);
    }
    kiln_free(env, epoch);
}

/// What the job holds of devices. No thread is inside any more.
static void drop_contents(kiln_gradsync *job)
{
    const kiln_env *env = &job->context->env;
    while (job->epochs != NULL) {
        kilni_epoch *next = job->epochs->next;
        kilni_epoch_free(env, job->epochs);
        job->epochs = next;
    }
    for (uint32_t i = 0; i < job->count; i++) {
        kilni_sums_free(env, job->members[i].sums);
        job->members[i].sums = NULL;
        kiln_device_release(job->devices[i]);
    }
}

static void free_job(kiln_gradsync *job)
{
    kiln_context *context = job->context;
    pthread_cond_destroy(&job->changed);
    pthread_mutex_destroy(&job->lock);
    kiln_free(&context->env, job->name);
    kiln_free(&context->env, job->select);
    kiln_free(&context->env, job);
    kilni_context_release(context);
}

/// Ends what is under way: cancelled, or, of a job that is sound, calls that have begun come to
/// their end or to the deadline. Who is inside sees it and leaves; whoever closes second waits for
/// the first.
static void shut(kiln_gradsync *job, bool cancels)
{
    pthread_mutex_lock(&job->lock);
    bool first = !job->closed;
    cancels = cancels || job->failure.code != KILN_STATUS_OK;
    job->closed = true;
    kilni_subset *subsets = job->subsets;
    job->subsets = NULL;
    if (first && job->failure.code == KILN_STATUS_OK) {
        (void)kiln_fail(&job->failure, CANCELLED, "job \"%.64s\" was closed", job->name);
    }
    pthread_cond_broadcast(&job->changed);
    pthread_mutex_unlock(&job->lock);
    while (subsets != NULL) { // somebody may be waiting for their calls
        kilni_subset *next = subsets->next;
        (cancels ? kilni_collective_cancel : kiln_collective_destroy)(subsets->group);
        kiln_free(&job->context->env, subsets);
        subsets = next;
    }
    pthread_mutex_lock(&job->lock);
    while (first ? job->users > 0 : !job->torn_down) {
        pthread_cond_wait(&job->changed, &job->lock);
    }
    pthread_mutex_unlock(&job->lock);
    if (first) {
        drop_contents(job);
        pthread_mutex_lock(&job->lock);
        job->torn_down = true;
        pthread_cond_broadcast(&job->changed);
        pthread_mutex_unlock(&job->lock);
    }
}

kiln_gradsync *kiln_gradsync_retain(kiln_gradsync *job)
{
    if (job != NULL) {
        atomic_fetch_add(&job->refs, 1);
    }
    return job;
}

void kiln_gradsync_release(kiln_gradsync *job)
{
    if (job != NULL && atomic_fetch_sub(&job->refs, 1) == 1) {
        shut(job, /*cancels=*/false);
        free_job(job);
    }
}

// ---- the context's jobs ----

/// The link that points to the job, or to the end. Under the context's lock.
static kiln_gradsync **find_link(kiln_context *context, const char *name)
{
    kiln_gradsync **link = &context->jobs;
    while (*link != NULL && strcmp((*link)->name, name) != 0) {
        link = &(*link)->next;
    }
    return link;
}

static bool is_closed(kiln_gradsync *job)
{
    pthread_mutex_lock(&job->lock);
    bool closed = job->closed;
    pthread_mutex_unlock(&job->lock);
    return closed;
}

static kiln_gradsync_options settle(const kiln_gradsync_options *options)
{
    kiln_gradsync_options settled = KILN_GRADSYNC_OPTIONS_INIT;
    settled = options != NULL ? *options : settled;
    settled.op = settled.op != NULL ? settled.op : "mean";
    settled.deadline_ns = settled.deadline_ns != 0 ? settled.deadline_ns : default_deadline_ns;
    settled.bucket_bytes = settled.bucket_bytes != 0 ? settled.bucket_bytes : default_bucket_bytes;
    return settled;
}

static bool is_same(const kiln_gradsync *job, kiln_device *const *devices, size_t count,
                    const kiln_gradsync_options *options)
{
    const char *select = options->select != NULL ? options->select : "";
    bool on_the_same = job->count == count;
    for (size_t i = 0; i < count && on_the_same; i++) {
        on_the_same = job->devices[i] == kilni_core(devices[i]);
    }
    return on_the_same && strcmp(job->op, options->op) == 0 &&
           job->deadline_ns == options->deadline_ns && job->bucket_bytes == options->bucket_bytes &&
           job->over_mpi == (options->over_mpi != 0) && strcmp(job->select, select) == 0;
}

static kiln_status create_job(kiln_context *context, const char *name, kiln_device *const *devices,
                              size_t count, const kiln_gradsync_options *options,
                              kiln_gradsync **out_job, kiln_error *err)
{
    const kiln_env *env = &context->env;
    kiln_gradsync *job = kiln_alloc(env, sizeof(*job));
    char *own_name = kiln_strdup(env, name);
    char *select = kiln_strdup(env, options->select != NULL ? options->select : "");
    if (job == NULL || own_name == NULL || select == NULL) {
        kiln_free(env, job);
        kiln_free(env, own_name);
        kiln_free(env, select);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a job");
    }
    kilni_context_retain(context);
    atomic_init(&job->refs, 1);
    job->context = context;
    job->name = own_name;
    job->select = select;
    job->count = (uint32_t)count;
    job->everyone = UINT64_MAX >> (KILNI_GRADSYNC_MEMBERS - count);
    for (size_t i = 0; i < count; i++) {
        job->devices[i] = kiln_device_retain(kilni_core(devices[i]));
    }
    snprintf(job->op, sizeof(job->op), "%s", options->op);
    job->deadline_ns = options->deadline_ns;
    job->bucket_bytes = options->bucket_bytes;
    job->over_mpi = options->over_mpi != 0;
    pthread_mutex_init(&job->lock, NULL);
    kiln_cond_init(&job->changed);
    *out_job = job;
    return KILN_STATUS_OK;
}

/// The open job of that name, if it is the same, or a new one. Under the context's lock. A closed
/// one that was in the list goes to `out_old`.
static kiln_status start_locked(kiln_context *context, const char *name,
                                kiln_device *const *devices, size_t count,
                                const kiln_gradsync_options *options, kiln_gradsync **out_job,
                                bool *out_made, kiln_gradsync **out_old, kiln_error *err)
{
    kiln_gradsync **link = find_link(context, name);
    kiln_gradsync *found = *link;
    if (found != NULL && !is_closed(found)) {
        if (!is_same(found, devices, count, options)) {
            return kiln_fail(err, ALREADY_EXISTS,
                             "job \"%.64s\" runs with other devices or options", name);
        }
        *out_job = kiln_gradsync_retain(found);
        return KILN_STATUS_OK;
    }
    kiln_gradsync *job = NULL;
    kiln_status status = create_job(context, name, devices, count, options, &job, err);
    if (status == KILN_STATUS_OK) {
        job->next = found != NULL ? found->next : NULL;
        *link = job;
        *out_old = found;
        *out_made = true;
        *out_job = kiln_gradsync_retain(job);
    }
    return status;
}

static kiln_status check_start(const kiln_context *context, const char *name,
                               kiln_device *const *devices, size_t count,
                               const kiln_gradsync_options *options, kiln_error *err)
{
    if (name == NULL || name[0] == '\0' || devices == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "a job needs a name and devices");
    }
    if (count == 0 || count > KILNI_GRADSYNC_MEMBERS) {
        return kiln_fail(err, INVALID_ARGUMENT, "a job of %zu members, where 1 to %d are possible",
                         count, KILNI_GRADSYNC_MEMBERS);
    }
    for (size_t i = 0; i < count; i++) {
        if (devices[i] == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "device %zu of the job is NULL", i);
        }
        if (kilni_core(devices[i])->context != context) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "device %zu of the job belongs to another context", i);
        }
    }
    if (strcmp(options->op, "sum") != 0 && strcmp(options->op, "mean") != 0) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "gradients are combined by sum or mean, not \"%.32s\"", options->op);
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_gradsync_begin(kiln_context *context, const char *name,
                                 kiln_device *const *devices, size_t count,
                                 const kiln_gradsync_options *options, kiln_gradsync **out_job,
                                 bool *out_made, kiln_error *err)
{
    *out_job = NULL;
    *out_made = false;
    if (context == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "context must not be NULL");
    }
    kiln_gradsync *old = NULL;
    if (options != NULL && options->struct_size < sizeof(*options)) {
        return kiln_fail(err, INVALID_ARGUMENT, "options of a job without their size");
    }
    const kiln_gradsync_options settled = settle(options);
    kiln_status status = check_start(context, name, devices, count, &settled, err);
    if (status == KILN_STATUS_OK) {
        pthread_mutex_lock(&context->lock);
        status =
            start_locked(context, name, devices, count, &settled, out_job, out_made, &old, err);
        pthread_mutex_unlock(&context->lock);
    }
    kiln_gradsync_release(old);
    return status;
}

void kilni_gradsync_discard(kiln_gradsync *job)
{
    kiln_context *context = job->context;
    pthread_mutex_lock(&context->lock);
    kiln_gradsync **link = find_link(context, job->name);
    bool listed = *link == job;
    *link = listed ? job->next : *link;
    pthread_mutex_unlock(&context->lock);
    shut(job, /*cancels=*/true);
    if (listed) {
        kiln_gradsync_release(job);
    }
    kiln_gradsync_release(job);
}

kiln_status kiln_gradsync_find(kiln_context *context, const char *name, kiln_gradsync **out_job,
                               kiln_error *err)
{
    if (out_job == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_job must not be NULL");
    }
    *out_job = NULL;
    if (context == NULL || name == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "context and name must not be NULL");
    }
    pthread_mutex_lock(&context->lock);
    *out_job = kiln_gradsync_retain(*find_link(context, name));
    pthread_mutex_unlock(&context->lock);
    return *out_job != NULL ? KILN_STATUS_OK
                            : kiln_fail(err, NOT_FOUND, "no job is named \"%.64s\"", name);
}

kiln_status kiln_gradsync_close(kiln_context *context, const char *name, kiln_error *err)
{
    kiln_gradsync *job = NULL;
    kiln_status status = kiln_gradsync_find(context, name, &job, err);
    if (status == KILN_STATUS_OK) {
        shut(job, /*cancels=*/true);
        kiln_gradsync_release(job);
    }
    return status;
}

kiln_status kiln_gradsync_remove(kiln_context *context, const char *name, kiln_error *err)
{
    if (context == NULL || name == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "context and name must not be NULL");
    }
    pthread_mutex_lock(&context->lock);
    kiln_gradsync **link = find_link(context, name);
    kiln_gradsync *job = *link;
    if (job != NULL) {
        *link = job->next;
    }
    pthread_mutex_unlock(&context->lock);
    if (job == NULL) {
        return kiln_fail(err, NOT_FOUND, "no job is named \"%.64s\"", name);
    }
    shut(job, /*cancels=*/true);
    kiln_gradsync_release(job);
    return KILN_STATUS_OK;
}

void kilni_gradsync_remove_all(kiln_context *context)
{
    pthread_mutex_lock(&context->lock);
    kiln_gradsync *jobs = context->jobs;
    context->jobs = NULL;
    pthread_mutex_unlock(&context->lock);
    while (jobs != NULL) {
        kiln_gradsync *next = jobs->next;
        shut(jobs, /*cancels=*/false);
        kiln_gradsync_release(jobs);
        jobs = next;
    }
}
