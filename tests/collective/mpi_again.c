// SPDX-License-Identifier: MIT OR Apache-2.0
// Under mpirun: groups and jobs over MPI one after another, side by side, in two contexts, after
// one that failed, groups that are split, parts that are moved between ranks, and an optimiser
// whose state they share. coll_mpi.py runs it and looks for its last line.
#include "collective.h"
#include "kiln.h"
#ifdef TEST_WITH_GRADIENTS
#include "kiln_train.h"
#endif

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DEVICES = 2, EPOCHS = 3 };

typedef struct scene {
    kiln_context *context;
    kiln_device *devices[DEVICES];
} scene;

static kiln_status scene_open(scene *self, kiln_error *err)
{
    kiln_status status = kiln_context_create(NULL, &self->context, err);
    for (int i = 0; i < DEVICES && status == KILN_STATUS_OK; i++) {
        char address[32];
        snprintf(address, sizeof(address), "reference:%d", i);
        status = kiln_device_open(self->context, address, &self->devices[i], err);
    }
    return status;
}

static void scene_close(scene *self)
{
    for (int i = 0; i < DEVICES; i++) {
        kiln_device_release(self->devices[i]);
    }
    kiln_context_destroy(self->context);
}

static kiln_status expect(kiln_tensor *tensor, float wanted, const char *what, kiln_error *err)
{
    float got = 0;
    kiln_status status = kiln_read(tensor, &got, sizeof(got), err);
    if (status == KILN_STATUS_OK && got != wanted) {
        status =
            kiln_fail(err, DATA_LOSS, "%s: %g instead of %g", what, (double)got, (double)wanted);
    }
    return status;
}

/// The rank of each device, as a tensor of one element.
static kiln_status make_ranks(const scene *self, uint32_t first, kiln_tensor **tensors,
                              kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < DEVICES && status == KILN_STATUS_OK; i++) {
        const float rank = (float)(first + i);
        status =
            kiln_tensor_create(self->devices[i], KILN_DTYPE_F32, 0, NULL, &rank, &tensors[i], err);
    }
    return status;
}

static void release(kiln_tensor **tensors)
{
    for (int i = 0; i < DEVICES; i++) {
        kiln_release(tensors[i]);
        tensors[i] = NULL;
    }
}

/// The last rank's number comes to all.
static kiln_status broadcast(const scene *self, kiln_collective *group, kiln_error *err)
{
    kiln_tensor *inputs[DEVICES] = {NULL};
    kiln_tensor *outputs[DEVICES] = {NULL};
    uint32_t last = kiln_collective_ranks(group) - 1;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, make_ranks(self, kiln_collective_rank(group), inputs, err));
    KILN_TRY(out, status, kiln_collective_broadcast(group, inputs, last, outputs, err));
    for (int i = 0; i < DEVICES; i++) {
        KILN_TRY(out, status, kiln_collective_resolve(outputs[i], err));
        KILN_TRY(out, status, expect(outputs[i], (float)last, "broadcast", err));
    }
out:
    release(inputs);
    release(outputs);
    return status;
}

/// Who does not stay has submitted all when it returns, and reads nothing.
static kiln_status epoch(const scene *self, kiln_gradsync *job, uint32_t first, float mean,
                         bool stays, kiln_error *err)
{
    const kiln_param_id id = 7;
    kiln_tensor *gradients[DEVICES] = {NULL};
    kiln_status status = make_ranks(self, first, gradients, err);
    for (uint32_t i = 0; i < DEVICES && status == KILN_STATUS_OK; i++) {
        kiln_tensor_set_param(gradients[i], id);
        KILN_TRY(out, status, kiln_gradsync_register(job, i, &id, 1, err));
    }
    for (uint32_t i = 0; i < DEVICES && status == KILN_STATUS_OK; i++) {
        KILN_TRY(out, status, kiln_gradsync_submit(job, i, gradients[i], err));
    }
    for (uint32_t i = 0; i < DEVICES && stays && status == KILN_STATUS_OK; i++) {
        kiln_tensor *result = NULL;
        KILN_TRY(out, status, kiln_gradsync_sync(job, i, err));
        KILN_TRY(out, status, kiln_gradsync_gradient(job, i, id, &result, err));
        status = expect(result, mean, "gradient", err);
        kiln_release(result);
    }
out:
    release(gradients);
    return status;
}

static kiln_status run_job(const scene *self, kiln_collective *beside, const char *name,
                           kiln_error *err)
{
    kiln_gradsync_options options = KILN_GRADSYNC_OPTIONS_INIT;
    kiln_gradsync *job = NULL;
    float mean = (float)(kiln_collective_ranks(beside) - 1) / 2;
    options.over_mpi = 1;
    kiln_status status =
        kiln_gradsync_start(self->context, name, self->devices, DEVICES, &options, &job, err);
    for (int i = 0; i < EPOCHS && status == KILN_STATUS_OK; i++) {
        KILN_TRY(out, status, epoch(self, job, kiln_collective_rank(beside), mean, true, err));
        KILN_TRY(out, status, broadcast(self, beside, err));
    }
out:
    kiln_gradsync_release(job);
    if (status == KILN_STATUS_OK) {
        status = kiln_gradsync_remove(self->context, name, err);
    }
    return status;
}

/// Process 0 ends its context when it has submitted; the others, which come later, get their means
/// all the same. The pause only makes it likely that they do come later.
static kiln_status leave_early(kiln_collective *beside, kiln_error *err)
{
    struct timespec pause = {.tv_nsec = 200000000};
    uint32_t first = kiln_collective_rank(beside);
    kiln_gradsync_options options = KILN_GRADSYNC_OPTIONS_INIT;
    kiln_gradsync *job = NULL;
    scene own = {NULL};
    options.over_mpi = 1;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, scene_open(&own, err));
    KILN_TRY(out, status,
             kiln_gradsync_start(own.context, "early", own.devices, DEVICES, &options, &job, err));
    if (first != 0) {
        nanosleep(&pause, NULL);
    }
    float mean = (float)(kiln_collective_ranks(beside) - 1) / 2;
    status = epoch(&own, job, first, mean, /*stays=*/first != 0, err);
out:
    kiln_gradsync_release(job);
    scene_close(&own);
    return status;
}

// ---- split groups ----

static void destroy_parts(kiln_collective **parts)
{
    for (int i = 0; i < DEVICES; i++) {
        kiln_collective_destroy(parts[i]);
        parts[i] = NULL;
    }
}

/// The sum of all its members' numbers comes to each; `numbers` are of this process's.
static kiln_status sum_part(kiln_collective *part, const float *numbers, float wanted,
                            const char *what, kiln_error *err)
{
    kiln_tensor *inputs[DEVICES] = {NULL};
    kiln_tensor *outputs[DEVICES] = {NULL};
    kiln_device *device = NULL;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; (device = kiln_collective_member(part, i, NULL)) != NULL; i++) {
        KILN_TRY(out, status,
                 kiln_tensor_create(device, KILN_DTYPE_F32, 0, NULL, &numbers[i], &inputs[i], err));
    }
    KILN_TRY(out, status, kiln_collective_all_reduce(part, inputs, "sum", outputs, err));
    for (size_t i = 0; kiln_collective_member(part, i, NULL) != NULL; i++) {
        KILN_TRY(out, status, kiln_collective_resolve(outputs[i], err));
        KILN_TRY(out, status, expect(outputs[i], wanted, what, err));
    }
out:
    release(inputs);
    release(outputs);
    return status;
}

/// One part has the first device of each process, the other the second, in backward order: each
/// process is in both, and both are used at once.
static kiln_status split_across(kiln_collective *group, kiln_error *err)
{
    const uint32_t first = kiln_collective_rank(group);
    const uint32_t total = kiln_collective_ranks(group);
    const float numbers[DEVICES] = {(float)first, (float)(first + 1)};
    const int32_t colours[DEVICES] = {0, 1};
    const int32_t keys[DEVICES] = {0, -(int32_t)first};
    const float even = (float)(total / 2) * (float)(total / 2 - 1); // 0 + 2 + ..
    kiln_collective *parts[DEVICES] = {NULL};
    kiln_collective *more[DEVICES] = {NULL};
    uint32_t rank = 0;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_collective_split(group, colours, keys, parts, err));
    (void)kiln_collective_member(parts[1], 0, &rank);
    if (kiln_collective_rank(parts[0]) != first / 2 || rank != total / 2 - 1 - first / 2) {
        status = kiln_fail(err, DATA_LOSS, "ranks %u and %u of parts",
                           kiln_collective_rank(parts[0]), rank);
        goto out;
    }
    KILN_TRY(out, status, kiln_collective_split(group, colours, keys, more, err)); // beside
    KILN_TRY(out, status, sum_part(parts[0], &numbers[0], even, "even ranks", err));
    KILN_TRY(out, status,
             sum_part(more[1], &numbers[1], even + (float)(total / 2), "odd ranks", err));
    KILN_TRY(out, status,
             sum_part(parts[1], &numbers[1], even + (float)(total / 2), "odd ranks", err));
out:
    destroy_parts(more);
    destroy_parts(parts);
    return status;
}

/// The devices of each process by themselves, and in one process once more: the others do not count
/// it, and all go on together.
static kiln_status split_within(kiln_collective *group, kiln_error *err)
{
    const uint32_t first = kiln_collective_rank(group);
    const float numbers[DEVICES] = {1, 2};
    const int32_t colours[DEVICES] = {(int32_t)first, (int32_t)first};
    const int32_t again[DEVICES] = {-1, 3};
    kiln_collective *parts[DEVICES] = {NULL};
    kiln_collective *ones[DEVICES] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_collective_split(group, colours, NULL, parts, err));
    KILN_TRY(out, status, sum_part(parts[0], numbers, 3, "one process", err));
    if (first == 0) {
        KILN_TRY(out, status, kiln_collective_split(parts[0], again, NULL, ones, err));
        KILN_TRY(out, status, sum_part(ones[1], &numbers[1], 2, "one rank", err));
    }
out:
    destroy_parts(ones);
    destroy_parts(parts);
    return status;
}

/// The first rank of each process sends to the last of all, and the others make no call.
static kiln_status send_to_last(const scene *self, kiln_collective *group, kiln_error *err)
{
    const uint32_t first = kiln_collective_rank(group);
    const uint32_t last = kiln_collective_ranks(group) - 1;
    kiln_tensor *numbers[DEVICES] = {NULL};
    kiln_tensor *came = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, make_ranks(self, first, numbers, err));
    KILN_TRY(out, status, kiln_collective_send(group, numbers[0], first, last, err));
    for (uint32_t from = 0; from < last && first + DEVICES > last; from += DEVICES) {
        kiln_release(came);
        came = NULL;
        KILN_TRY(out, status,
                 kiln_collective_receive(group, numbers[DEVICES - 1], from, last, &came, err));
        KILN_TRY(out, status, kiln_collective_resolve(came, err));
        KILN_TRY(out, status, expect(came, (float)from, "a message", err));
    }
out:
    kiln_release(came);
    release(numbers);
    return status;
}

// ---- parts between ranks ----

enum { MOST_RANKS = 64, STRIDE = 100 };

/// Rank r's row has STRIDE * r, STRIDE * r + 1 and so on.
static kiln_status make_rows(const scene *self, uint32_t first, uint32_t count,
                             kiln_tensor **out_rows, kiln_error *err)
{
    const int64_t elems = count;
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < DEVICES && status == KILN_STATUS_OK; i++) {
        float data[MOST_RANKS];
        for (uint32_t k = 0; k < count; k++) {
            data[k] = (float)(STRIDE * (first + i) + k);
        }
        status = kiln_tensor_create(self->devices[i], KILN_DTYPE_F32, 1, &elems, data, &out_rows[i],
                                    err);
    }
    return status;
}

/// The tensor has `count` elements, from `start` on in steps. Without elements there is none.
static kiln_status expect_row(kiln_tensor *row, uint32_t count, uint32_t start, uint32_t step,
                              const char *what, kiln_error *err)
{
    float got[MOST_RANKS];
    kiln_status status = KILN_STATUS_OK;
    if ((row == NULL) != (count == 0) || kiln_tensor_bytes(row) != count * sizeof(got[0])) {
        return kiln_fail(err, DATA_LOSS, "%s: %zu bytes for %u elements", what,
                         kiln_tensor_bytes(row), count);
    }
    if (row != NULL) {
        KILN_TRY(out, status, kiln_collective_resolve(row, err));
        KILN_TRY(out, status, kiln_read(row, got, count * sizeof(got[0]), err));
    }
    for (uint32_t k = 0; k < count && status == KILN_STATUS_OK; k++) {
        if (got[k] != (float)(start + k * step)) {
            status = kiln_fail(err, DATA_LOSS, "%s: %g instead of %u at %u", what, (double)got[k],
                               start + k * step, k);
        }
    }
out:
    return status;
}

/// A rank of a process in the middle gets one element of each.
static kiln_status gather_rows(const scene *self, kiln_collective *group, kiln_error *err)
{
    const uint32_t first = kiln_collective_rank(group);
    const uint32_t total = kiln_collective_ranks(group);
    const uint32_t root = total / 2;
    kiln_tensor *rows[DEVICES] = {NULL};
    kiln_tensor *outputs[DEVICES] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, make_rows(self, first, 1, rows, err));
    KILN_TRY(out, status, kiln_collective_gather(group, rows, root, outputs, err));
    for (uint32_t i = 0; i < DEVICES; i++) {
        KILN_TRY(out, status,
                 expect_row(outputs[i], first + i == root ? total : 0, 0, STRIDE, "gather", err));
    }
out:
    release(rows);
    release(outputs);
    return status;
}

/// From the same rank each gets an element; then from all of them.
static kiln_status scatter_rows(const scene *self, kiln_collective *group, kiln_error *err)
{
    const uint32_t first = kiln_collective_rank(group);
    const uint32_t total = kiln_collective_ranks(group);
    const uint32_t root = total / 2;
    kiln_tensor *rows[DEVICES] = {NULL};
    kiln_tensor *parts[DEVICES] = {NULL};
    kiln_tensor *columns[DEVICES] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, make_rows(self, first, total, rows, err));
    KILN_TRY(out, status, kiln_collective_scatter(group, rows, root, parts, err));
    KILN_TRY(out, status, kiln_collective_all_to_all(group, rows, columns, err));
    for (uint32_t i = 0; i < DEVICES; i++) {
        KILN_TRY(out, status,
                 expect_row(parts[i], 1, STRIDE * root + first + i, 0, "scatter", err));
        KILN_TRY(out, status, expect_row(columns[i], total, first + i, STRIDE, "all to all", err));
    }
out:
    release(rows);
    release(parts);
    release(columns);
    return status;
}

#ifdef TEST_WITH_GRADIENTS
enum { ELEMS = 5 }; ///< no multiple of the ranks

static kiln_status step_sets(const scene *self, kiln_collective *group, kiln_params **sets,
                             kiln_error *err)
{
    kiln_optimiser_options rule = KILN_OPTIMISER_OPTIONS_INIT;
    kiln_sharded_options options = KILN_SHARDED_OPTIONS_INIT;
    const int64_t elems = ELEMS;
    kiln_sharded *sharded = NULL;
    kiln_tensor *gradients[DEVICES] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    rule.rate = 1;
    options.optimiser = &rule;
    KILN_TRY(out, status, kiln_sharded_create(group, sets, DEVICES, &options, &sharded, err));
    for (uint32_t i = 0; i < DEVICES; i++) {
        float data[ELEMS];
        for (uint32_t k = 0; k < ELEMS; k++) {
            data[k] = (float)((kiln_collective_rank(group) + i) * 2 + k);
        }
        KILN_TRY(out, status,
                 kiln_tensor_create(self->devices[i], KILN_DTYPE_F32, 1, &elems, data,
                                    &gradients[i], err));
    }
    KILN_TRY(out, status, kiln_sharded_step(sharded, gradients, DEVICES, err));
out:
    release(gradients);
    kiln_sharded_destroy(sharded);
    return status;
}

/// Zeros less the mean of the gradients 2 * rank + element.
static kiln_status share_state(const scene *self, kiln_collective *group, kiln_error *err)
{
    const int64_t elems = ELEMS;
    const float mean = (float)(kiln_collective_ranks(group) - 1);
    kiln_params *sets[DEVICES] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    for (int i = 0; i < DEVICES; i++) {
        KILN_TRY(out, status, kiln_params_create(self->devices[i], 0, &sets[i], err));
        KILN_TRY(out, status, kiln_params_add(sets[i], "w", KILN_DTYPE_F32, 1, &elems, NULL, err));
    }
    KILN_TRY(out, status, step_sets(self, group, sets, err));
    for (int i = 0; i < DEVICES; i++) {
        float got[ELEMS];
        KILN_TRY(out, status, kiln_read(kiln_params_tensor(sets[i], 0), got, sizeof(got), err));
        for (int k = 0; k < ELEMS; k++) {
            if (got[k] != -mean - (float)k) {
                status = kiln_fail(err, DATA_LOSS, "a shared step: %g at %d", (double)got[k], k);
                goto out;
            }
        }
    }
out:
    for (int i = 0; i < DEVICES; i++) {
        kiln_params_destroy(sets[i]);
    }
    return status;
}
#else
static kiln_status share_state(const scene *self, kiln_collective *group, kiln_error *err)
{
    (void)self;
    (void)group;
    (void)err;
    return KILN_STATUS_OK;
}
#endif

/// Process 0 asks for another sum than the others: the group fails everywhere.
static kiln_status disagree(const scene *self, kiln_error *err)
{
    kiln_collective *group = NULL;
    kiln_tensor *inputs[DEVICES] = {NULL};
    kiln_tensor *outputs[DEVICES] = {NULL};
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    options.deadline_ns = 5000000000u;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status,
             kiln_collective_create_mpi(self->devices, DEVICES, &options, &group, err));
    KILN_TRY(out, status, make_ranks(self, 0, inputs, err));
    const char *op = kiln_collective_rank(group) == 0 ? "sum" : "max";
    kiln_error cause = KILN_ERROR_INIT;
    kiln_status failed = kiln_collective_reduce(group, inputs, op, 0, outputs, &cause);
    failed = failed == KILN_STATUS_OK ? kiln_collective_barrier(group, &cause) : failed;
    if (failed == KILN_STATUS_OK) {
        status = kiln_fail(err, DATA_LOSS, "a group that disagreed did not fail");
    }
out:
    release(inputs);
    release(outputs);
    kiln_collective_destroy(group);
    return status;
}

static kiln_status run_groups(const scene *self, kiln_error *err)
{
    kiln_collective *group = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_collective_create_mpi(self->devices, DEVICES, NULL, &group, err));
    KILN_TRY(out, status, broadcast(self, group, err));
    KILN_TRY(out, status, run_job(self, group, "first", err));
    KILN_TRY(out, status, leave_early(group, err));
    KILN_TRY(out, status, split_within(group, err));
    KILN_TRY(out, status, split_across(group, err));
    KILN_TRY(out, status, gather_rows(self, group, err));
    KILN_TRY(out, status, scatter_rows(self, group, err));
    KILN_TRY(out, status, send_to_last(self, group, err));
    KILN_TRY(out, status, share_state(self, group, err));
    KILN_TRY(out, status, run_job(self, group, "second", err));
    KILN_TRY(out, status, broadcast(self, group, err));
out:
    kiln_collective_destroy(group);
    return status;
}

int main(int argc, char **argv)
{
    kiln_error err = KILN_ERROR_INIT;
    bool fails = argc > 1 && strcmp(argv[1], "failing") == 0;
    const int rounds = argc > 1 && strcmp(argv[1], "once") == 0 ? 1 : 2;
    kiln_status status = KILN_STATUS_OK;
    for (int round = 0; round < rounds && status == KILN_STATUS_OK; round++) {
        scene self = {NULL};
        KILN_TRY(out, status, scene_open(&self, &err));
        if (fails && round == 0) {
            KILN_TRY(out, status, disagree(&self, &err));
        }
        KILN_TRY(out, status, run_groups(&self, &err));
        scene_close(&self);
    }
out:
    printf("again: %s\n", status == KILN_STATUS_OK ? "ok" : err.message);
    fflush(stdout);
    if (fails || status != KILN_STATUS_OK) {
        _exit(status != KILN_STATUS_OK);
    }
    return 0;
}
