// SPDX-License-Identifier: MIT OR Apache-2.0
// A version of a model from its file to its instances. Decides when a model is too large, and which
// batches are run before the first request.

#include "serving_version.h"

#include "serving_instance.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/// An instance as what runs the batches of a queue.
typedef struct instance_worker {
    kilni_serving_runner runner; ///< first: what the queue knows
    kilni_serving_loaded *of;
    kilni_serving_queue *queue;
    kilni_serving_instance *instance;
} instance_worker;

struct kilni_serving_loaded {
    const kiln_env *env;
    kiln_model_info info;
    kiln_onnx_model *model;
    kilni_serving_queue queues[KILNI_SERVING_INSTANCES]; ///< one, or with sequences each instance's
    kilni_serving_sequences sequences;
    kilni_serving_stats stats;
    instance_worker workers[KILNI_SERVING_INSTANCES];
    uint32_t n_workers;
};

// ---- loading ----

/// Bytes of a folder's files: the model and what lies beside it.
static uint64_t folder_bytes(const char *folder)
{
    uint64_t bytes = 0;
    DIR *listing = opendir(folder);
    struct dirent *entry = NULL;
    while (listing != NULL && (entry = readdir(listing)) != NULL) {
        struct stat file;
        if (fstatat(dirfd(listing), entry->d_name, &file, 0) == 0 && S_ISREG(file.st_mode)) {
            bytes += (uint64_t)file.st_size;
        }
    }
    if (listing != NULL) {
        (void)closedir(listing);
    }
    return bytes;
}

static kiln_status check_size(const kilni_serving_source *source, kiln_device *device,
                              kiln_error *err)
{
    uint64_t needs = folder_bytes(source->folder);
    uint64_t has = kiln_device_info_of(device)->memory_bytes;
    if (has > 0 && needs > has) {
        return kiln_fail(err, RESOURCE_EXHAUSTED,
                         "the model's files have %" PRIu64 " bytes, device %.60s has %" PRIu64,
                         needs, kiln_device_address(device), has);
    }
    return KILN_STATUS_OK;
}

static void become_ready(void *pointer)
{
    instance_worker *self = pointer;
    kilni_serving_queue_ready(self->queue, &self->runner);
}

static uint64_t run_batch(kilni_serving_runner *runner, kilni_serving_job *jobs, uint32_t count,
                          uint64_t rows)
{
    instance_worker *self = (instance_worker *)runner;
    uint64_t begun = kiln_time_ns();
    kilni_serving_instance_run(self->instance, jobs, count, rows, &self->of->stats, become_ready,
                               self);
    return kiln_time_ns() - begun;
}

static bool is_open(const kiln_model_info *info)
{
    for (uint32_t i = 0; i < info->n_inputs; i++) {
        for (uint32_t k = info->max_batch > 0 ? 1 : 0; k < info->inputs[i].rank; k++) {
            if (info->inputs[i].dims[k] < 0) {
                return true;
            }
        }
    }
    return false;
}

/// A model that fails with extents that the server has made up need not fail with real ones.
static kiln_status warm_up(kilni_serving_loaded *loaded, kilni_serving_instance *instance,
                           kiln_error *err)
{
    const kiln_model_info *info = &loaded->info;
    uint64_t sizes[KILN_MODEL_PREFERRED + 2] = {1};
    uint32_t count = 1;
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < info->n_preferred; i++) {
        sizes[count++] = info->preferred[i];
    }
    if (info->max_batch > 1 && info->batching) {
        sizes[count++] = info->max_batch;
    }
    for (uint32_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        status = kilni_serving_instance_warm(instance, sizes[i], err);
    }
    if (status != KILN_STATUS_OK && status != KILN_STATUS_RESOURCE_EXHAUSTED &&
        status != KILN_STATUS_UNIMPLEMENTED && is_open(info)) {
        kiln_log_write(loaded->env, KILN_LOG_INFO, "serving", "model %s was not warmed up: %s",
                       info->name, err != NULL ? err->message : "");
        return KILN_STATUS_OK;
    }
    return status;
}

static kiln_status start_worker(kilni_serving_loaded *loaded, kiln_device *device, kiln_error *err)
{
    uint32_t index = loaded->n_workers++;
    instance_worker *worker = &loaded->workers[index];
    worker->runner.run = run_batch;
    worker->of = loaded;
    worker->queue = &loaded->queues[loaded->info.sequences ? index : 0];
    kiln_status status = kilni_serving_instance_open(loaded->env, &loaded->info, loaded->model,
                                                     device, &worker->instance, err);
    if (status == KILN_STATUS_OK) {
        status = warm_up(loaded, worker->instance, err);
    }
    if (status == KILN_STATUS_OK) {
        become_ready(worker);
    }
    return status;
}

static kiln_status fill_loaded(kilni_serving_loaded *loaded, const kilni_serving_source *source,
                               kiln_error *err)
{
    char path[4096];
    uint32_t devices[KILNI_SERVING_INSTANCES];
    kiln_model_info *info = &loaded->info;
    kiln_status status = KILN_STATUS_OK;
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", source->folder, source->file) >=
        sizeof(path)) {
        return kiln_fail(err, INVALID_ARGUMENT, "the path of the model is too long");
    }
    snprintf(info->name, sizeof(info->name), "%s", source->name);
    snprintf(info->file, sizeof(info->file), "%s", source->file);
    snprintf(info->version, sizeof(info->version), "%" PRIu64, source->number);
    KILN_TRY(out, status, kiln_onnx_model_open(source->env, path, &loaded->model, err));
    KILN_TRY(
        out, status,
        kilni_serving_policy_fill(source->config, loaded->model, &source->defaults, info, err));
    KILN_TRY(out, status,
             kilni_serving_policy_place(source->config, source->n_devices, devices,
                                        &info->instances, err));
    if (info->sequences) {
        KILN_TRY(out, status, kilni_serving_sequences_start(&loaded->sequences, err));
    }
    for (uint32_t i = 0; i < info->instances; i++) {
        KILN_TRY(out, status, check_size(source, source->devices[devices[i]], err));
        KILN_TRY(out, status, start_worker(loaded, source->devices[devices[i]], err));
    }
out:
    return status;
}

kiln_status kilni_serving_loaded_open(const kilni_serving_source *source,
                                      kilni_serving_loaded **out_loaded, kiln_error *err)
{
    kilni_serving_loaded *made = kiln_alloc(source->env, sizeof(*made));
    *out_loaded = NULL;
    if (made == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a model");
    }
    made->env = source->env;
    for (uint32_t i = 0; i < KILNI_SERVING_INSTANCES; i++) {
        kilni_serving_queue_init(&made->queues[i], &made->info);
    }
    kilni_serving_sequences_init(&made->sequences, source->env, &made->info);
    kilni_serving_stats_init(&made->stats);
    kiln_status status = fill_loaded(made, source, err);
    if (status != KILN_STATUS_OK) {
        kilni_serving_loaded_close(made);
        return status;
    }
    *out_loaded = made;
    return KILN_STATUS_OK;
}

void kilni_serving_loaded_close(kilni_serving_loaded *loaded)
{
    if (loaded == NULL) {
        return;
    }
    kilni_serving_loaded_drain(loaded);
    kilni_serving_sequences_fini(&loaded->sequences);
    for (uint32_t i = 0; i < loaded->n_workers; i++) {
        kilni_serving_instance_close(loaded->workers[i].instance);
    }
    kiln_onnx_model_close(loaded->model);
    kilni_serving_stats_fini(&loaded->stats);
    for (uint32_t i = 0; i < KILNI_SERVING_INSTANCES; i++) {
        kilni_serving_queue_fini(&loaded->queues[i]);
    }
    kiln_free(loaded->env, loaded);
}

void kilni_serving_loaded_drain(kilni_serving_loaded *loaded)
{
    for (uint32_t i = 0; i < KILNI_SERVING_INSTANCES; i++) {
        kilni_serving_queue_close(&loaded->queues[i]);
    }
}

const kiln_model_info *kilni_serving_loaded_info(const kilni_serving_loaded *loaded)
{
    return &loaded->info;
}

kilni_serving_stats *kilni_serving_loaded_stats(kilni_serving_loaded *loaded)
{
    return &loaded->stats;
}

uint32_t kilni_serving_loaded_queued(kilni_serving_loaded *loaded)
{
    uint32_t length = 0;
    for (uint32_t i = 0; i < KILNI_SERVING_INSTANCES; i++) {
        length += kilni_serving_queue_length(&loaded->queues[i]);
    }
    return length;
}

uint32_t kilni_serving_loaded_sequences(kilni_serving_loaded *loaded)
{
    return kilni_serving_sequences_count(&loaded->sequences);
}

// ---- inference ----

/// Shared memory that a request uses.
typedef struct region_list {
    kilni_serving_region *held[2 * KILN_MODEL_TENSORS];
    uint32_t count;
} region_list;

static kiln_status find_regions(kilni_serving_loaded *loaded, kilni_serving_regions *regions,
                                kilni_serving_job *job, region_list *list, kiln_error *err)
{
    const kiln_model_request *request = job->request;
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < loaded->info.n_inputs; i++) {
        void *bytes = NULL;
        if (job->inputs[i]->region[0] != '\0') {
            KILN_TRY(out, status,
                     kilni_serving_regions_hold(regions, job->inputs[i], &bytes,
                                                &list->held[list->count], err));
            list->count++;
            job->data[i] = bytes;
        }
    }
    for (uint32_t i = 0; i < request->n_wanted; i++) {
        if (request->wanted[i].region[0] != '\0') {
            KILN_TRY(out, status,
                     kilni_serving_regions_hold(regions, &request->wanted[i], &job->room[i],
                                                &list->held[list->count], err));
            list->count++;
        }
    }
out:
    return status;
}

/// A request of a sequence goes to the instance that has its state.
static kiln_status run_in_turn(kilni_serving_loaded *loaded, kilni_serving_job *job,
                               kiln_error *err)
{
    kiln_status status =
        kilni_serving_sequences_enter(&loaded->sequences, job->request, &job->sequence, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    uint32_t index = job->sequence != NULL ? job->sequence->instance : 0;
    status = kilni_serving_queue_run(&loaded->queues[index], job, err);
    kilni_serving_sequences_leave(&loaded->sequences, job->sequence,
                                  status == KILN_STATUS_OK && job->request->sequence_end);
    return status;
}

kiln_status kilni_serving_loaded_infer(kilni_serving_loaded *loaded, kilni_serving_regions *regions,
                                       const kiln_model_request *request,
                                       kiln_model_answer *out_answer, kiln_error *err)
{
    uint64_t start = kiln_time_ns();
    kilni_serving_job job = {.request = request, .answer = out_answer, .err = KILN_ERROR_INIT};
    region_list list = {.count = 0};
    kiln_status status = kilni_serving_job_fill(&job, &loaded->info, err);
    if (status == KILN_STATUS_OK) {
        status = find_regions(loaded, regions, &job, &list, err);
    }
    if (status == KILN_STATUS_OK) {
        status = run_in_turn(loaded, &job, err);
    }
    for (uint32_t i = 0; i < list.count; i++) {
        kilni_serving_regions_drop(regions, list.held[i]);
    }
    if (status == KILN_STATUS_OK) {
        memcpy(out_answer->version, loaded->info.version, sizeof(out_answer->version));
    }
    kilni_serving_stats_answered(&loaded->stats, status,
                                 job.begun_ns > 0 ? job.begun_ns - job.queued_ns : 0,
                                 kiln_time_ns() - start);
    return status;
}
