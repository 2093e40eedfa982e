// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs a batch: inputs joined along the first extent, one run, results divided. Keeps a captured
// graph for each set of shapes, those used last; a model that reads values or keeps states is
// recorded each time, in a stream of the instance, whose thread ever it is.

#include "serving_instance.h"

#include "serving_carry.h"

#include <inttypes.h>
#include <string.h>

enum { CAPTURES = 16, ALIGN = 64 };

/// A captured run for one set of shapes.
typedef struct capture_entry {
    kiln_graph *graph; ///< NULL: the place is free
    int64_t dims[KILN_MODEL_TENSORS][KILN_MAX_RANK];
    uint64_t used;
} capture_entry;

struct kilni_serving_instance {
    const kiln_env *env;
    const kiln_model_info *info;
    kiln_device *device;
    kiln_onnx_session *session;
    capture_entry captures[CAPTURES];
    uint64_t turn;
    bool records; ///< the model reads values or keeps states: it cannot be captured
    kiln_stream *stream; ///< of what is recorded
    uint32_t n_results; ///< of the model, those that do not travel counted
    uint32_t places[KILN_MODEL_TENSORS]; ///< of the outputs that travel, among them
    uint32_t state_places[KILN_MODEL_TENSORS]; ///< and of those that are states
    char *staging[KILN_MODEL_TENSORS]; ///< where inputs of several jobs are joined
    size_t staging_bytes[KILN_MODEL_TENSORS];
};

/// A run: what goes in and comes out.
typedef struct instance_run {
    kiln_model_tensor inputs[KILN_MODEL_TENSORS];
    kiln_tensor *tensors[KILN_MODEL_TENSORS];
    kiln_tensor *results[KILN_MODEL_TENSORS];
    capture_entry *entry; ///< NULL: it is recorded
    const char *read[KILN_MODEL_TENSORS]; ///< the results, on the host; NULL: nobody asked
    char *room; ///< for those that are divided
    kilni_serving_carry carry; ///< of a model that keeps states
    kilni_serving_times times;
} instance_run;

/// Whom to tell that another thread may use the instance; once.
typedef struct instance_handover {
    void (*ready)(void *user);
    void *user;
} instance_handover;

static void place_outputs(kilni_serving_instance *instance, const kiln_onnx_model *model)
{
    size_t count = 0;
    const kiln_onnx_value_info *outputs = kiln_onnx_model_outputs(model, &count);
    uint32_t made = 0;
    for (size_t i = 0; i < count && made < instance->info->n_outputs; i++) {
        if (strcmp(outputs[i].name, instance->info->outputs[made].name) == 0) {
            instance->places[made++] = (uint32_t)i;
        }
    }
    for (size_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < instance->info->n_states; k++) {
            if (strcmp(outputs[i].name, instance->info->states[k].output) == 0) {
                instance->state_places[k] = (uint32_t)i;
            }
        }
    }
    instance->n_results = (uint32_t)count;
}

kiln_status kilni_serving_instance_open(const kiln_env *env, const kiln_model_info *info,
                                        const kiln_onnx_model *model, kiln_device *device,
                                        kilni_serving_instance **out_instance, kiln_error *err)
{
    kilni_serving_instance *made = kiln_alloc(env, sizeof(*made));
    *out_instance = NULL;
    if (made == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an instance");
    }
    made->env = env;
    made->info = info;
    made->device = kiln_device_retain(device);
    made->records = info->sequences;
    place_outputs(made, model);
    kiln_onnx_session_options options = KILN_ONNX_SESSION_OPTIONS_INIT;
    options.dtype = info->kept_in;
    kiln_status status = kiln_stream_create(device, &made->stream, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_session_create_with(model, &device, 1, &options, &made->session, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_serving_carry_bind(made->session, info, err);
    }
    if (status != KILN_STATUS_OK) {
        kilni_serving_instance_close(made);
        return status;
    }
    *out_instance = made;
    return KILN_STATUS_OK;
}

void kilni_serving_instance_close(kilni_serving_instance *instance)
{
    if (instance == NULL) {
        return;
    }
    for (size_t i = 0; i < CAPTURES; i++) {
        kiln_graph_destroy(instance->captures[i].graph);
    }
    for (size_t i = 0; i < KILN_MODEL_TENSORS; i++) {
        kiln_free(instance->env, instance->staging[i]);
    }
    kiln_onnx_session_destroy(instance->session);
    kiln_stream_release(instance->stream);
    kiln_device_release(instance->device);
    kiln_free(instance->env, instance);
}

// ---- inputs ----

static kiln_status reserve_staging(kilni_serving_instance *instance, uint32_t index, size_t bytes,
                                   kiln_error *err)
{
    if (instance->staging_bytes[index] >= bytes) {
        return KILN_STATUS_OK;
    }
    char *fresh = kiln_alloc(instance->env, bytes);
    if (fresh == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a batch of %zu bytes", bytes);
    }
    kiln_free(instance->env, instance->staging[index]);
    instance->staging[index] = fresh;
    instance->staging_bytes[index] = bytes;
    return KILN_STATUS_OK;
}

/// One input of all jobs, behind each other.
static kiln_status join_input(kilni_serving_instance *instance, const kilni_serving_job *jobs,
                              uint32_t index, uint64_t rows, kiln_model_tensor *out,
                              kiln_error *err)
{
    size_t bytes = 0;
    *out = *jobs->inputs[index];
    out->data = jobs->data[index];
    if (jobs->next == NULL) {
        return KILN_STATUS_OK;
    }
    for (const kilni_serving_job *each = jobs; each != NULL; each = each->next) {
        bytes += each->inputs[index]->bytes;
    }
    kiln_status status = reserve_staging(instance, index, bytes, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    char *to = instance->staging[index];
    for (const kilni_serving_job *each = jobs; each != NULL; each = each->next) {
        size_t part = each->inputs[index]->bytes;
        if (part > 0) {
            memcpy(to, each->data[index], part);
        }
        to += part;
    }
    out->data = instance->staging[index];
    out->bytes = bytes;
    out->dims[0] = (int64_t)rows;
    return KILN_STATUS_OK;
}

static kiln_status upload(kilni_serving_instance *instance, instance_run *run, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < instance->info->n_inputs && status == KILN_STATUS_OK; i++) {
        const kiln_model_tensor *input = &run->inputs[i];
        status = kiln_tensor_create(instance->device, input->dtype, input->rank, input->dims,
                                    input->data, &run->tensors[i], err);
    }
    return status;
}

// ---- running ----

static capture_entry *find_capture(kilni_serving_instance *instance, const instance_run *run)
{
    for (size_t i = 0; i < CAPTURES; i++) {
        capture_entry *entry = &instance->captures[i];
        bool same = entry->graph != NULL;
        for (uint32_t k = 0; same && k < instance->info->n_inputs; k++) {
            same = memcmp(entry->dims[k], run->inputs[k].dims,
                          run->inputs[k].rank * sizeof(entry->dims[k][0])) == 0;
        }
        if (same) {
            return entry;
        }
    }
    return NULL;
}

static void fill_inputs(const kilni_serving_instance *instance, const instance_run *run,
                        bool with_host, kiln_onnx_input *out)
{
    for (uint32_t i = 0; i < instance->info->n_inputs; i++) {
        out[i] = (kiln_onnx_input){.name = instance->info->inputs[i].name,
                                   .tensor = run->tensors[i],
                                   .host = with_host ? run->inputs[i].data : NULL};
    }
}

/// Captures into the place that was used longest ago; leaves it free for a model that cannot be
/// captured. No values go in: a capture would keep what they said.
static kiln_status capture_shapes(kilni_serving_instance *instance, instance_run *run,
                                  capture_entry **out_entry, kiln_error *err)
{
    kiln_onnx_input inputs[KILN_MODEL_TENSORS];
    kiln_tensor *outputs[KILN_MODEL_TENSORS] = {NULL};
    const kiln_model_info *info = instance->info;
    capture_entry *entry = &instance->captures[0];
    for (size_t i = 1; i < CAPTURES; i++) {
        entry = instance->captures[i].used < entry->used ? &instance->captures[i] : entry;
    }
    kiln_graph_destroy(entry->graph);
    entry->graph = NULL;
    fill_inputs(instance, run, /*with_host=*/false, inputs);
    kiln_status status = kiln_graph_begin(instance->device, run->tensors, info->n_inputs, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = kiln_onnx_session_run(instance->session, inputs, info->n_inputs, outputs,
                                   info->n_outputs, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_graph_end(instance->device, outputs, info->n_outputs, &entry->graph, err);
    } else {
        kiln_graph_cancel(instance->device);
        instance->records = status == KILN_STATUS_FAILED_PRECONDITION;
        status = instance->records ? KILN_STATUS_OK : status;
    }
    for (uint32_t i = 0; i < info->n_outputs; i++) {
        kiln_release(outputs[i]);
    }
    for (uint32_t i = 0; i < info->n_inputs; i++) {
        memcpy(entry->dims[i], run->inputs[i].dims, sizeof(entry->dims[i]));
    }
    *out_entry = entry->graph != NULL ? entry : NULL;
    return status;
}

/// Fusers whose programs failed are never asked again, so a new capture is better.
static void drop_failed(capture_entry *entry)
{
    kiln_graph_info graph = KILN_GRAPH_INFO_INIT;
    kiln_graph_info_get(entry->graph, &graph);
    if (graph.blocks_failed > 0) {
        kiln_graph_destroy(entry->graph);
        *entry = (capture_entry){0};
    }
}

/// What cannot be captured.
static kiln_status record(kilni_serving_instance *instance, instance_run *run, kiln_error *err)
{
    kiln_onnx_input inputs[KILN_MODEL_TENSORS];
    kiln_tensor *results[KILN_MODEL_TENSORS] = {NULL};
    const kiln_model_info *info = instance->info;
    fill_inputs(instance, run, /*with_host=*/true, inputs);
    kiln_status status = run->carry.n_seats > 0
                             ? kilni_serving_carry_run(&run->carry, inputs, info->n_inputs, results,
                                                       instance->n_results, err)
                             : kiln_onnx_session_run(instance->session, inputs, info->n_inputs,
                                                     results, instance->n_results, err);
    for (uint32_t i = 0; i < info->n_outputs; i++) {
        run->results[i] = results[instance->places[i]];
    }
    return status;
}

/// Begins the run; nothing is waited for.
static kiln_status begin_run(kilni_serving_instance *instance, instance_run *run, kiln_error *err)
{
    const kiln_model_info *info = instance->info;
    run->entry = instance->records ? NULL : find_capture(instance, run);
    if (run->entry == NULL && !instance->records) {
        kiln_status status = capture_shapes(instance, run, &run->entry, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    if (run->entry == NULL) {
        return record(instance, run, err);
    }
    run->entry->used = ++instance->turn;
    return kiln_graph_run(run->entry->graph, run->tensors, info->n_inputs, run->results,
                          info->n_outputs, err);
}

// ---- results ----

static kiln_status check_rows(const kiln_model_info *info, uint32_t index, kiln_tensor *result,
                              uint64_t rows, kiln_error *err)
{
    const int64_t *dims = kiln_tensor_dims(result);
    if (kiln_tensor_rank(result) == 0 || (uint64_t)dims[0] != rows) {
        return kiln_fail(err, INTERNAL,
                         "output %.60s has %" PRId64 " rows for a batch of %" PRIu64
                         ": the model keeps no batch dimension; set max_batch_size to 0",
                         info->outputs[index].name, kiln_tensor_rank(result) > 0 ? dims[0] : 0,
                         rows);
    }
    return KILN_STATUS_OK;
}

/// Bytes of a job's part of a result.
static size_t part_bytes(const kilni_serving_instance *instance, kiln_tensor *result,
                         const kilni_serving_job *job, uint64_t rows)
{
    size_t bytes = kiln_tensor_bytes(result);
    return instance->info->max_batch > 0 ? bytes / rows * job->rows : bytes;
}

/// Room for a job's outputs, in one piece; those in shared memory have theirs.
static kiln_status make_answer(kilni_serving_instance *instance, instance_run *run,
                               kilni_serving_job *job, uint64_t rows, kiln_error *err)
{
    kiln_model_answer *answer = job->answer;
    size_t offsets[KILN_MODEL_TENSORS];
    size_t bytes = 0;
    for (uint32_t i = 0; i < job->n_outputs; i++) {
        kiln_tensor *result = run->results[job->outputs[i]];
        kiln_model_tensor *output = &answer->outputs[i];
        const kiln_model_tensor *wanted =
            job->request->n_wanted > 0 ? &job->request->wanted[i] : NULL;
        memcpy(output->name, instance->info->outputs[job->outputs[i]].name, sizeof(output->name));
        output->dtype = kiln_tensor_dtype(result);
        output->rank = (uint32_t)kiln_tensor_rank(result);
        memcpy(output->dims, kiln_tensor_dims(result), output->rank * sizeof(output->dims[0]));
        if (instance->info->max_batch > 0) {
            output->dims[0] = (int64_t)job->rows;
        }
        output->bytes = part_bytes(instance, result, job, rows);
        offsets[i] = bytes;
        if (job->room[i] == NULL) {
            bytes += (output->bytes + ALIGN - 1) / ALIGN * ALIGN;
        } else if (output->bytes > wanted->bytes) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "output %.60s has %zu bytes, its shared memory %zu", output->name,
                             output->bytes, wanted->bytes);
        } else {
            memcpy(output->region, wanted->region, sizeof(output->region));
            output->region_offset = wanted->region_offset;
        }
    }
    answer->memory = kiln_alloc(instance->env, bytes + 1);
    if (answer->memory == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an answer of %zu bytes", bytes);
    }
    for (uint32_t i = 0; i < job->n_outputs; i++) {
        answer->outputs[i].data = job->room[i] != NULL ? NULL : (char *)answer->memory + offsets[i];
    }
    answer->n_outputs = job->n_outputs;
    return KILN_STATUS_OK;
}

/// Where the job wants its output `index`; `*at` is where to look for it, and goes on behind it.
/// NULL: nowhere else.
static void *find_place(const kilni_serving_job *job, uint32_t index, uint32_t *at)
{
    for (uint32_t i = *at; job->status == KILN_STATUS_OK && i < job->n_outputs; i++) {
        if (job->outputs[i] == index) {
            *at = i + 1;
            return job->room[i] != NULL ? job->room[i]
                                        : (void *)(uintptr_t)job->answer->outputs[i].data;
        }
    }
    return NULL;
}

static kiln_status make_answers(kilni_serving_instance *instance, instance_run *run,
                                kilni_serving_job *jobs, uint64_t rows, kiln_error *err)
{
    const kiln_model_info *info = instance->info;
    for (uint32_t i = 0; info->max_batch > 0 && i < info->n_outputs; i++) {
        kiln_status status = check_rows(info, i, run->results[i], rows, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    for (kilni_serving_job *job = jobs; job != NULL; job = job->next) {
        job->status = make_answer(instance, run, job, rows, &job->err);
    }
    return KILN_STATUS_OK;
}

/// Waits for the run and reads its results: of one job where they are wanted, else into room of the
/// run's own. Others may use the device: nobody waits for them.
static kiln_status read_results(kilni_serving_instance *instance, instance_run *run,
                                const kilni_serving_job *jobs, kiln_error *err)
{
    size_t offsets[KILN_MODEL_TENSORS], sizes[KILN_MODEL_TENSORS];
    void *places[KILN_MODEL_TENSORS] = {NULL};
    uint32_t count = instance->info->n_outputs;
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = 0;
        sizes[i] = kiln_tensor_bytes(run->results[i]);
        places[i] = jobs != NULL && jobs->next == NULL ? find_place(jobs, i, &at) : NULL;
        offsets[i] = bytes;
        bytes += places[i] == NULL ? (sizes[i] + ALIGN - 1) / ALIGN * ALIGN : 0;
    }
    run->room = bytes > 0 ? kiln_alloc(instance->env, bytes) : NULL;
    if (run->room == NULL && bytes > 0) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for results of %zu bytes", bytes);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (places[i] == NULL && sizes[i] > 0) {
            places[i] = run->room + offsets[i];
        }
        run->read[i] = places[i];
    }
    return kiln_read_many(run->results, places, sizes, count, err);
}

/// Gives each job its rows of the results.
static void divide_results(kilni_serving_instance *instance, instance_run *run,
                           kilni_serving_job *jobs, uint64_t rows)
{
    for (uint32_t index = 0; index < instance->info->n_outputs; index++) {
        const char *from = run->read[index];
        for (kilni_serving_job *job = jobs; job != NULL; job = job->next) {
            size_t part = part_bytes(instance, run->results[index], job, rows);
            uint32_t at = 0;
            for (void *to = find_place(job, index, &at); part > 0 && to != NULL;
                 to = find_place(job, index, &at)) {
                if (to != from) {
                    memcpy(to, from, part);
                }
            }
            from += part;
        }
    }
}

// ---- a batch ----

static uint64_t lap_ns(uint64_t *mark)
{
    uint64_t before = *mark;
    *mark = kiln_time_ns();
    return *mark - before;
}

/// A sequence that has gone on is lost when its client does not know how.
static void carry_on(instance_run *run, kilni_serving_job *jobs)
{
    kilni_serving_carry_commit(&run->carry);
    for (kilni_serving_job *job = jobs; job != NULL; job = job->next) {
        job->sequence->lost = job->status != KILN_STATUS_OK;
    }
}

/// Once: from then on the instance may be another thread's.
static void hand_over(kilni_serving_instance *instance, instance_handover *handover)
{
    if (handover->ready == NULL) {
        return;
    }
    if (instance->records) {
        (void)!kiln_stream_set(instance->device, NULL, NULL);
    }
    handover->ready(handover->user);
    handover->ready = NULL;
}

/// Up to the results on the host, in the memory of `jobs` where there are any. A sequence that runs
/// alone has gone on by then: it is lost when its client does not know how.
static kiln_status compute(kilni_serving_instance *instance, instance_run *run,
                           kilni_serving_job *jobs, uint64_t rows, kiln_error *err)
{
    kiln_status status = begin_run(instance, run, err);
    if (status == KILN_STATUS_OK) {
        status = jobs != NULL ? make_answers(instance, run, jobs, rows, err) : status;
        status = status == KILN_STATUS_OK ? read_results(instance, run, jobs, err) : status;
        if (run->carry.n_seats == 1 && status != KILN_STATUS_OK) {
            run->carry.seats[0].sequence->lost = true;
        }
    }
    if (run->entry != NULL) {
        drop_failed(run->entry);
    }
    return status;
}

static void release_run(kilni_serving_instance *instance, instance_run *run)
{
    for (uint32_t i = 0; i < KILN_MODEL_TENSORS; i++) {
        kiln_release(run->tensors[i]);
        kiln_release(run->results[i]);
    }
    kiln_free(instance->env, run->room);
}

static kiln_status run_together(kilni_serving_instance *instance, kilni_serving_job *jobs,
                                uint64_t rows, instance_run *run, instance_handover *handover,
                                kiln_error *err)
{
    const kiln_model_info *info = instance->info;
    uint64_t mark = kiln_time_ns();
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < info->n_inputs && status == KILN_STATUS_OK; i++) {
        status = join_input(instance, jobs, i, rows, &run->inputs[i], err);
    }
    status = status == KILN_STATUS_OK ? upload(instance, run, err) : status;
    run->times.input_ns = lap_ns(&mark);
    status = status == KILN_STATUS_OK ? compute(instance, run, jobs, rows, err) : status;
    run->times.infer_ns = lap_ns(&mark);
    if (status == KILN_STATUS_OK) {
        if (jobs->sequence == NULL) { // a sequence's next request needs what this one leaves
            hand_over(instance, handover);
        }
        divide_results(instance, run, jobs, rows);
    }
    run->times.output_ns = lap_ns(&mark);
    if (status == KILN_STATUS_OK && jobs->sequence != NULL) {
        carry_on(run, jobs);
    }
    release_run(instance, run);
    return status;
}

static void begin_carry(kilni_serving_instance *instance, instance_run *run,
                        kilni_serving_seat *seats, uint32_t count, uint64_t rows)
{
    run->carry = (kilni_serving_carry){.session = instance->session,
                                       .device = instance->device,
                                       .info = instance->info,
                                       .places = instance->state_places,
                                       .seats = seats,
                                       .n_seats = instance->info->sequences ? count : 0,
                                       .rows = rows};
}

static void fill_seats(kilni_serving_seat *seats, const kilni_serving_job *jobs)
{
    for (const kilni_serving_job *job = jobs; job != NULL; job = job->next) {
        *seats++ = (kilni_serving_seat){
            .sequence = job->sequence, .rows = job->rows, .ends = job->request->sequence_end};
    }
}

static kiln_status run_jobs(kilni_serving_instance *instance, kilni_serving_job *jobs,
                            uint32_t count, uint64_t rows, kilni_serving_stats *stats,
                            instance_handover *handover, kiln_error *err)
{
    instance_run *run = kiln_alloc(instance->env, sizeof(*run));
    kilni_serving_seat *seats = kiln_alloc_array(instance->env, count, sizeof(*seats));
    kiln_status status = KILN_STATUS_OK;
    if (run == NULL || seats == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a run");
        goto out;
    }
    fill_seats(seats, jobs);
    begin_carry(instance, run, seats, count, rows);
    if (instance->records) {
        KILN_TRY(out, status, kiln_stream_set(instance->device, instance->stream, err));
    }
    status = run_together(instance, jobs, rows, run, handover, err);
    if (status == KILN_STATUS_OK && stats != NULL) {
        kilni_serving_stats_ran(stats, rows, count, &run->times);
    }
    kilni_serving_carry_fini(&run->carry);
out:
    kiln_free(instance->env, seats);
    kiln_free(instance->env, run);
    return status;
}

void kilni_serving_instance_run(kilni_serving_instance *instance, kilni_serving_job *jobs,
                                uint32_t count, uint64_t rows, kilni_serving_stats *stats,
                                void (*ready)(void *user), void *user)
{
    kiln_error err = KILN_ERROR_INIT;
    instance_handover handover = {.ready = ready, .user = user};
    instance_handover later = {.ready = NULL};
    kiln_status status = run_jobs(instance, jobs, count, rows, stats, &handover, &err);
    for (kilni_serving_job *job = jobs; status != KILN_STATUS_OK && job != NULL; job = job->next) {
        kilni_serving_job *next = job->next;
        kiln_free(instance->env, job->answer->memory);
        *job->answer = (kiln_model_answer){.memory = NULL};
        job->status = status;
        job->err = err;
        if (count > 1) { // whose fault it is shows when each is alone
            job->err = (kiln_error)KILN_ERROR_INIT;
            job->next = NULL;
            kiln_status alone = run_jobs(instance, job, 1, job->rows, stats, &later, &job->err);
            job->status = alone != KILN_STATUS_OK ? alone : job->status;
            job->next = next;
        }
    }
    hand_over(instance, &handover);
}

kiln_status kilni_serving_instance_warm(kilni_serving_instance *instance, uint64_t rows,
                                        kiln_error *err)
{
    const kiln_model_info *info = instance->info;
    kiln_status status = KILN_STATUS_OK;
    instance_run *run = kiln_alloc(instance->env, sizeof(*run));
    if (run == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a run");
    }
    for (uint32_t i = 0; i < info->n_inputs && status == KILN_STATUS_OK; i++) {
        kiln_model_tensor *input = &run->inputs[i];
        *input = info->inputs[i];
        input->bytes = kiln_dtype_size(input->dtype);
        for (uint32_t k = 0; k < input->rank; k++) {
            int64_t open = k == 0 && info->max_batch > 0 ? (int64_t)rows : 1;
            input->dims[k] = input->dims[k] < 0 ? open : input->dims[k];
            input->bytes *= (size_t)input->dims[k];
        }
        status = reserve_staging(instance, i, input->bytes + 1, err);
        if (status == KILN_STATUS_OK) {
            memset(instance->staging[i], 0, input->bytes);
        }
        input->data = instance->staging[i];
    }
    kilni_serving_sequence sequence = {.id = "1"};
    kilni_serving_seat seat = {.sequence = &sequence, .rows = rows, .ends = true};
    begin_carry(instance, run, &seat, 1, rows);
    status = status == KILN_STATUS_OK ? upload(instance, run, err) : status;
    status = status == KILN_STATUS_OK ? compute(instance, run, NULL, rows, err) : status;
    release_run(instance, run);
    kilni_serving_carry_fini(&run->carry);
    kilni_serving_sequence_forget(&sequence);
    kiln_free(instance->env, run);
    return status;
}
