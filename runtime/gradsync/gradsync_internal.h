// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_GRADSYNC_INTERNAL_H
#define KILN_RUNTIME_GRADSYNC_INTERNAL_H

/// What gradsync.c (jobs), gradsync_state.c, gradsync_launch.c and gradsync_epoch.c (what members
/// do in them) share. A job's lock is the
/// outermost: calls on devices and groups are made under it, which is what gives all devices one
/// order of issue.

#include "collective.h"
#include "gradsync_internal.h"
#include "rt_tensor.h"

enum { KILNI_GRADSYNC_MEMBERS = 64, KILNI_GRADSYNC_BUCKET = 32 };

/// One parameter in one epoch.
typedef struct kilni_param {
    kiln_param_id id;
    uint64_t wants; ///< members that registered it
    uint64_t has; ///< and those that submitted it
    kiln_tensor_desc desc; ///< of the first gradient
    struct kilni_launch *launch; ///< NULL: not on its way
    int64_t offset; ///< in the launch's tensors
    kiln_tensor *gradients[KILNI_GRADSYNC_MEMBERS]; ///< from submit to launch
    kiln_tensor *results[KILNI_GRADSYNC_MEMBERS]; ///< from sync to the member's next epoch
    struct kilni_param *next; ///< in the order of registration
} kilni_param;

/// One collective call: a parameter, or several small ones one after another.
typedef struct kilni_launch {
    bool is_bucket;
    kiln_tensor *outputs[KILNI_GRADSYNC_MEMBERS]; ///< by member
    struct kilni_launch *next;
} kilni_launch;

typedef struct kilni_epoch {
    uint64_t number;
    uint64_t registered; ///< members
    kilni_param *params;
    kilni_launch *launches;
    struct kilni_epoch *next;
} kilni_epoch;

typedef struct kilni_sum { ///< what a member has accumulated and not submitted
    kiln_param_id id;
    kiln_tensor *tensor;
    struct kilni_sum *next;
} kilni_sum;

typedef struct kilni_job_member {
    uint64_t epoch; ///< the one it is in, or was in last; 0: none
    bool in_epoch; ///< registered and not synced
    kilni_sum *sums;
} kilni_job_member;

typedef struct kilni_subset { ///< the group of the members of a parameter
    uint64_t mask;
    kiln_collective *group;
    struct kilni_subset *next;
} kilni_subset;

struct kiln_gradsync {
    atomic_uint refs;
    kiln_context *context; ///< held
    char *name;
    struct kiln_gradsync *next; ///< the context's lock
    // Never change:
    uint32_t count;
    uint64_t everyone;
    kiln_device *devices[KILNI_GRADSYNC_MEMBERS]; ///< held until closed
    char op[8];
    uint64_t deadline_ns;
    uint64_t bucket_bytes;
    bool over_mpi;
    char *select;
    pthread_mutex_t lock; ///< guards what follows
    pthread_cond_t changed;
    bool closed;
    bool torn_down;
    uint32_t users; ///< threads inside
    kiln_error failure; ///< code 0: none
    uint64_t finished; ///< members that have no more batches in this round
    kilni_job_member members[KILNI_GRADSYNC_MEMBERS];
    kilni_epoch *epochs; ///< in the order of their numbers
    kilni_subset *subsets;
};

/// Locks the job, and keeps it from being taken apart; not when it is closed or has failed.
kiln_status kilni_gradsync_enter(kiln_gradsync *job, uint32_t member, kiln_error *err);
void kilni_gradsync_leave(kiln_gradsync *job);
/// The job's failure, or OK. `fail` keeps the first one, and wakes everybody.
kiln_status kilni_gradsync_report(const kiln_gradsync *job, kiln_error *err);
kiln_status kilni_gradsync_fail(kiln_gradsync *job, const kiln_error *cause, kiln_error *err);
/// Sleeps until something changes. False when the deadline has passed.
bool kilni_gradsync_sleep(kiln_gradsync *job, uint64_t deadline_ns);

uint64_t kilni_member_bit(uint32_t member);
uint32_t kilni_member_first(uint64_t mask); ///< of a mask that is not empty

/// NULL: there is none, or, of `need`, no memory.
kilni_epoch *kilni_epoch_find(const kiln_gradsync *job, uint64_t number);
kilni_epoch *kilni_epoch_need(kiln_gradsync *job, uint64_t number);
kilni_param *kilni_param_find(const kilni_epoch *epoch, kiln_param_id id);
kilni_param *kilni_param_need(kiln_gradsync *job, kilni_epoch *epoch, kiln_param_id id);
void kilni_epochs_drop_old(kiln_gradsync *job);

/// kiln_gradsync_start without the group, and whether the job is new; and the end of a new job that
/// cannot have a group.
kiln_status kilni_gradsync_begin(kiln_context *context, const char *name,
                                 kiln_device *const *devices, size_t count,
                                 const kiln_gradsync_options *options, kiln_gradsync **out_job,
                                 bool *out_made, kiln_error *err);
void kilni_gradsync_discard(kiln_gradsync *job);

/// Starts the reductions of an epoch that can be; with `flush` also of small parameters that would
/// wait for company. What goes wrong is the job's failure.
kiln_status kilni_gradsync_launch(kiln_gradsync *job, kilni_epoch *epoch, bool flush,
                                  kiln_error *err);

/// Drops what an epoch holds.
void kilni_epoch_free(const kiln_env *env, kilni_epoch *epoch);
void kilni_sums_free(const kiln_env *env, kilni_sum *sums);

void kilni_gradsync_remove_all(kiln_context *context);

#endif
