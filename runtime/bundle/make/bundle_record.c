// SPDX-License-Identifier: MIT OR Apache-2.0
// What a run of a graph enqueues, as a set of shapes of a bundle. Decides what a buffer is (an
// input, a constant, or memory whose contents do not matter), and refuses what a list of launches
// cannot say. Two runs on different inputs must have enqueued the same.

#include "bundle_maker.h"

#include "rt_binding.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_tensor.h"
#ifdef KILN_RUNTIME_CL
#include "cl_backend.h"

#include <string.h>

typedef struct bundle_taking { ///< a recording on its way into a bundle
    kiln_bundle_maker *maker;
    kiln_device *device;
    const kiln_bundle_work *work;
    kiln_tensor *const *inputs; ///< of this run
    kiln_tensor **outputs;
    const kiln_cl_recording *recording;
    bundle_shapes shapes;
    uint32_t *programs; ///< number of each recorded one in the bundle; UINT32_MAX: not yet
} bundle_taking;

static kiln_status no_room(kiln_error *err)
{
    return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a bundle");
}

// ---- buffers ----

static bool is_input(const bundle_taking *taking, const kiln_buffer *buffer)
{
    for (uint32_t i = 0; i < taking->work->n_inputs; i++) {
        if (taking->inputs[i]->binding.view.buffer == buffer) {
            return true;
        }
    }
    return false;
}

static kiln_status take_constant(bundle_taking *taking, kiln_buffer *from, bundle_buffer *buffer,
                                 kiln_error *err)
{
    void *data = kiln_alloc(taking->maker->env, (size_t)buffer->bytes + 1);
    if (data == NULL) {
        return no_room(err);
    }
    kiln_status status =
        kilni_buffer_read_twice(taking->device, from, 0, data, (size_t)buffer->bytes, err);
    if (status != KILN_STATUS_OK) {
        kiln_free(taking->maker->env, data);
        return status;
    }
    buffer->kind = BUNDLE_BUFFER_CONSTANT;
    return kilni_bundle_chunk_add(taking->maker, data, buffer->bytes, &buffer->offset, err);
}

static kiln_status take_buffer(bundle_taking *taking, const kiln_cl_recorded_buffer *from,
                               kiln_error *err)
{
    bundle_buffer *buffer = &taking->shapes.buffers[taking->shapes.n_buffers++];
    *buffer =
        (bundle_buffer){.kind = BUNDLE_BUFFER_SCRATCH, .bytes = from->bytes, .first = UINT32_MAX};
    if (from->buffer != NULL && is_input(taking, from->buffer)) {
        buffer->kind = BUNDLE_BUFFER_INPUT;
        return KILN_STATUS_OK;
    }
    return from->fresh || from->buffer == NULL ? KILN_STATUS_OK
                                               : take_constant(taking, from->buffer, buffer, err);
}

/// Those of the steps, one for each thing that the host wrote, and those of inputs and outputs that
/// no step uses.
static kiln_status take_buffers(bundle_taking *taking, kiln_error *err)
{
    const kiln_cl_recording *recording = taking->recording;
    uint32_t most = recording->n_buffers + recording->n_steps + taking->work->n_inputs +
                    taking->work->n_outputs + 1;
    kiln_status status = KILN_STATUS_OK;
    taking->shapes.buffers =
        kiln_arena_alloc(&taking->maker->arena, most * sizeof(*taking->shapes.buffers));
    if (taking->shapes.buffers == NULL) {
        return no_room(err);
    }
    for (uint32_t i = 0; i < recording->n_buffers && status == KILN_STATUS_OK; i++) {
        status = take_buffer(taking, &recording->buffers[i], err);
    }
    return status;
}

// ---- inputs and outputs ----

static kiln_status take_value(bundle_taking *taking, const kiln_tensor *tensor, const char *name,
                              bundle_value *out, kiln_error *err)
{
    const kiln_cl_recording *recording = taking->recording;
    const kiln_view *view = &tensor->binding.view;
    char *copy = kiln_arena_copy(&taking->maker->arena, name, strlen(name) + 1);
    if (copy == NULL) {
        return no_room(err);
    }
    out->shown = (kiln_bundle_value){.name = copy,
                                     .dtype = kiln_tensor_dtype(tensor),
                                     .rank = (uint32_t)kiln_tensor_rank(tensor)};
    memcpy(out->shown.dims, kiln_tensor_dims(tensor), out->shown.rank * sizeof(int64_t));
    if (kiln_dtype_size(out->shown.dtype) == 0) {
        return kiln_fail(err, UNIMPLEMENTED, "%.80s is of %s, which no bundle has", name,
                         kiln_dtype_name(out->shown.dtype));
    }
    out->offset = (uint64_t)view->offset_bytes;
    out->buffer = 0;
    while (out->buffer < recording->n_buffers &&
           recording->buffers[out->buffer].buffer != view->buffer) {
        out->buffer++;
    }
    if (out->buffer < recording->n_buffers) {
        uint64_t end = out->offset + kilni_bundle_value_bytes(&out->shown);
        bundle_buffer *buffer = &taking->shapes.buffers[out->buffer];
        buffer->bytes = buffer->bytes > end ? buffer->bytes : end;
        return KILN_STATUS_OK;
    }
    // No step uses it: an input that is not needed, or an output that is a constant.
    out->buffer = taking->shapes.n_buffers;
    return take_buffer(
        taking,
        &(kiln_cl_recorded_buffer){.buffer = view->buffer,
                                   .bytes = out->offset + kilni_bundle_value_bytes(&out->shown)},
        err);
}

static kiln_status take_values(bundle_taking *taking, kiln_error *err)
{
    const kiln_bundle_work *work = taking->work;
    kiln_status status = KILN_STATUS_OK;
    taking->shapes.inputs =
        kiln_arena_alloc(&taking->maker->arena, (work->n_inputs + 1) * sizeof(bundle_value));
    taking->shapes.outputs =
        kiln_arena_alloc(&taking->maker->arena, (work->n_outputs + 1) * sizeof(bundle_value));
    if (taking->shapes.inputs == NULL || taking->shapes.outputs == NULL) {
        return no_room(err);
    }
    for (uint32_t i = 0; i < work->n_inputs && status == KILN_STATUS_OK; i++) {
        status = take_value(taking, taking->inputs[i], work->input_names[i],
                            &taking->shapes.inputs[i], err);
    }
    for (uint32_t i = 0; i < work->n_outputs && status == KILN_STATUS_OK; i++) {
        status = take_value(taking, taking->outputs[i], work->output_names[i],
                            &taking->shapes.outputs[i], err);
    }
    return status;
}

// ---- steps ----

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool take_arg(bundle_taking *taking, const kiln_cl_recorded_arg *from, uint32_t number,
                     bundle_arg *out)
{
    switch (from->kind) {
    case KILN_CL_ARG_BUFFER:
        *out = (bundle_arg){.kind = BUNDLE_ARG_BUFFER, .buffer = from->buffer};
        kilni_bundle_use(&taking->shapes, from->buffer, number);
        return true;
    case KILN_CL_ARG_LOCAL:
        *out = (bundle_arg){.kind = BUNDLE_ARG_LOCAL, .length = from->bytes};
        return true;
    case KILN_CL_ARG_BYTES:
        *out = (bundle_arg){.kind = BUNDLE_ARG_BYTES,
                            .length = from->bytes,
                            .bytes =
                                kiln_arena_copy(&taking->maker->arena,
                                                taking->recording->bytes + from->at, from->bytes)};
        return out->bytes != NULL;
    }
    return false;
}

/// Adds to `wants` what the launch has to have.
static kiln_status take_args(bundle_taking *taking, const kiln_cl_recorded_step *from,
                             uint32_t number, bundle_step *step, bundle_wants *wants,
                             kiln_error *err)
{
    uint64_t local_bytes = 0;
    step->n_args = from->n_args;
    step->args = kiln_arena_alloc(&taking->maker->arena, (from->n_args + 1) * sizeof(*step->args));
    for (uint32_t i = 0; i < from->n_args; i++) {
        const kiln_cl_recorded_arg *arg = &taking->recording->args[from->first_arg + i];
        if (step->args == NULL || !take_arg(taking, arg, number, &step->args[i])) {
            return no_room(err);
        }
        local_bytes += arg->kind == KILN_CL_ARG_LOCAL ? arg->bytes : 0;
        wants->parameter_bytes += arg->kind == KILN_CL_ARG_BUFFER  ? sizeof(void *)
                                  : arg->kind == KILN_CL_ARG_BYTES ? arg->bytes
                                                                   : 0;
    }
    wants->local_bytes = larger(from->local_bytes, local_bytes);
    return KILN_STATUS_OK;
}

static kiln_status take_program(bundle_taking *taking, uint32_t recorded, uint32_t *out_program,
                                kiln_error *err)
{
    const kiln_cl_recorded_program *from = &taking->recording->programs[recorded];
    const bundle_program program = {
        .text = from->text, .options = from->options, .exact = from->exact};
    kiln_status status = KILN_STATUS_OK;
    if (taking->programs[recorded] == UINT32_MAX) {
        uint32_t features = 0;
        status = kilni_bundle_program_fits(taking->device->backend, &program, from->label,
                                           &features, err);
        taking->maker->manifest.wants.features |= features;
        if (status == KILN_STATUS_OK) {
            status = kilni_bundle_program_add(taking->maker, &program, from->label,
                                              &taking->programs[recorded], err);
        }
    }
    *out_program = taking->programs[recorded];
    return status;
}

static void want_most(bundle_wants *most, const bundle_wants *of_launch)
{
    most->work_group = larger(most->work_group, of_launch->work_group);
    most->local_bytes = larger(most->local_bytes, of_launch->local_bytes);
    most->parameter_bytes = larger(most->parameter_bytes, of_launch->parameter_bytes);
}

static kiln_status take_launch(bundle_taking *taking, const kiln_cl_recorded_step *from,
                               uint32_t number, bundle_step *step, kiln_error *err)
{
    bundle_wants wants = {.work_group = 1};
    kiln_status status = take_program(taking, from->program, &step->program, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_bundle_kernel_add(taking->maker, step->program, from->kernel, from->n_args,
                                         &step->kernel, err);
    }
    step->n_dims = from->n_dims;
    for (uint32_t i = 0; i < from->n_dims; i++) {
        step->global[i] = from->global[i];
        step->local[i] = from->local[i];
        wants.work_group *= from->local[0] != 0 ? from->local[i] : 1;
    }
    if (status == KILN_STATUS_OK) {
        status = take_args(taking, from, number, step, &wants, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_bundle_launch_fits(kiln_device_info_of(taking->device), from->kernel, step,
                                          &wants, err);
    }
    want_most(&taking->maker->manifest.wants, &wants);
    return status;
}

/// What the host wrote is a constant, copied each time.
static kiln_status take_write(bundle_taking *taking, const kiln_cl_recorded_step *from,
                              bundle_step *step, kiln_error *err)
{
    bundle_buffer *buffer = &taking->shapes.buffers[taking->shapes.n_buffers];
    void *data = kiln_alloc(taking->maker->env, from->bytes + 1);
    if (data == NULL) {
        return no_room(err);
    }
    memcpy(data, taking->recording->bytes + from->source_offset, from->bytes);
    *buffer =
        (bundle_buffer){.kind = BUNDLE_BUFFER_CONSTANT, .bytes = from->bytes, .first = UINT32_MAX};
    step->source = taking->shapes.n_buffers++;
    step->source_offset = 0;
    return kilni_bundle_chunk_add(taking->maker, data, from->bytes, &buffer->offset, err);
}

static kiln_status take_step(bundle_taking *taking, uint32_t number, kiln_error *err)
{
    const kiln_cl_recorded_step *from = &taking->recording->steps[number];
    bundle_step *step = &taking->shapes.steps[number];
    kiln_status status = KILN_STATUS_OK;
    if (from->kind == KILN_CL_STEP_LAUNCH) {
        return take_launch(taking, from, number, step, err);
    }
    *step = (bundle_step){.is_copy = true,
                          .source = from->source,
                          .target = from->target,
                          .source_offset = from->source_offset,
                          .target_offset = from->target_offset,
                          .bytes = from->bytes};
    if (from->kind == KILN_CL_STEP_WRITE) {
        status = take_write(taking, from, step, err);
    }
    kilni_bundle_use(&taking->shapes, step->source, number);
    kilni_bundle_use(&taking->shapes, step->target, number);
    return status;
}

static void sum_wants(bundle_taking *taking)
{
    bundle_wants *wants = &taking->maker->manifest.wants;
    uint64_t all = 0;
    for (uint32_t i = 0; i < taking->shapes.n_buffers; i++) {
        all += taking->shapes.buffers[i].bytes;
        wants->buffer_bytes = larger(wants->buffer_bytes, taking->shapes.buffers[i].bytes);
    }
    wants->memory_bytes = larger(wants->memory_bytes, all);
}

static kiln_status take_recording(bundle_taking *taking, kiln_error *err)
{
    const kiln_cl_recording *recording = taking->recording;
    kiln_status status = KILN_STATUS_OK;
    if (recording->reads > 0) {
        return kiln_fail(err, UNIMPLEMENTED,
                         "the model reads values back while it runs: what it launches depends on "
                         "them, and a bundle is a fixed list");
    }
    taking->programs = kiln_arena_alloc(&taking->maker->arena,
                                        (recording->n_programs + 1) * sizeof(*taking->programs));
    taking->shapes.n_steps = recording->n_steps;
    taking->shapes.steps = kiln_arena_alloc(
        &taking->maker->arena, (recording->n_steps + 1) * sizeof(*taking->shapes.steps));
    if (taking->programs == NULL || taking->shapes.steps == NULL) {
        return no_room(err);
    }
    memset(taking->programs, 0xff, recording->n_programs * sizeof(*taking->programs));
    KILN_TRY(out, status, take_buffers(taking, err));
    KILN_TRY(out, status, take_values(taking, err));
    for (uint32_t i = 0; i < recording->n_steps; i++) {
        KILN_TRY(out, status, take_step(taking, i, err));
    }
    sum_wants(taking);
out:
    return status;
}

// ---- a run ----

static kiln_status settle_all(kiln_device *device, kiln_tensor *const *tensors, uint32_t count,
                              kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    pthread_mutex_lock(&device->lock);
    for (uint32_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        status = kilni_tensor_lie_dense(tensors[i], err);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

static kiln_status begin_recording(kiln_device *device, kiln_error *err)
{
    if (!kiln_cl_is(device->backend)) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "%s is no OpenCL device, opened with the option compiler as record",
                         device->address);
    }
    pthread_mutex_lock(&device->lock);
    kiln_status status = kiln_cl_record_begin(device->backend, err);
    pthread_mutex_unlock(&device->lock);
    return status;
}

static kiln_status end_recording(bundle_taking *taking, kiln_error *err)
{
    pthread_mutex_lock(&taking->device->lock);
    kiln_status status = kiln_cl_record_end(taking->device->backend, &taking->recording, err);
    if (status == KILN_STATUS_OK) {
        status = take_recording(taking, err);
    }
    pthread_mutex_unlock(&taking->device->lock);
    return status;
}

/// Runs the graph; with `taking`, takes what that enqueued.
static kiln_status run_graph(bundle_taking *taking, bool take, kiln_error *err)
{
    const kiln_bundle_work *work = taking->work;
    kiln_status status = KILN_STATUS_OK;
    memset(taking->outputs, 0, work->n_outputs * sizeof(*taking->outputs));
    KILN_TRY(out, status, settle_all(taking->device, taking->inputs, work->n_inputs, err));
    KILN_TRY(out, status, kiln_sync(taking->device, err));
    if (take) {
        KILN_TRY(out, status, begin_recording(taking->device, err));
    }
    status = kiln_graph_run(work->graph, taking->inputs, work->n_inputs, taking->outputs,
                            work->n_outputs, err);
    if (status == KILN_STATUS_OK) {
        status = settle_all(taking->device, taking->outputs, work->n_outputs, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_sync(taking->device, err);
    }
    if (take) {
        kiln_status ended = end_recording(taking, status == KILN_STATUS_OK ? err : NULL);
        status = status == KILN_STATUS_OK ? ended : status;
    }
out:
    for (uint32_t i = 0; i < work->n_outputs; i++) {
        kiln_release(taking->outputs[i]);
    }
    return status;
}

// ---- a set of shapes ----

static kiln_status add_shapes(kiln_bundle_maker *maker, const bundle_shapes *shapes,
                              const kiln_bundle_work *work, kiln_error *err)
{
    bundle_manifest *manifest = &maker->manifest;
    if (manifest->n_shapes == BUNDLE_SHAPES) {
        return kiln_fail(err, OUT_OF_RANGE, "a bundle for more than %d sets of shapes",
                         BUNDLE_SHAPES);
    }
    if (manifest->n_shapes > 0 &&
        (manifest->n_inputs != work->n_inputs || manifest->n_outputs != work->n_outputs)) {
        return kiln_fail(err, INVALID_ARGUMENT, "sets of shapes of different models");
    }
    manifest->n_inputs = work->n_inputs;
    manifest->n_outputs = work->n_outputs;
    manifest->shapes[manifest->n_shapes++] = *shapes;
    return KILN_STATUS_OK;
}

static kiln_status name_device(kiln_bundle_maker *maker, const kiln_device *device, kiln_error *err)
{
    const kiln_device_info *info = kiln_device_info_of(device);
    maker->manifest.device = kiln_arena_copy(&maker->arena, info->name, strlen(info->name) + 1);
    maker->manifest.driver = kiln_arena_copy(&maker->arena, info->driver, strlen(info->driver) + 1);
    return maker->manifest.device != NULL && maker->manifest.driver != NULL ? KILN_STATUS_OK
                                                                            : no_room(err);
}

kiln_status kiln_bundle_maker_add(kiln_bundle_maker *maker, const kiln_bundle_work *work,
                                  kiln_error *err)
{
    enum { SETTLING = 2 };
    if (maker == NULL || work == NULL || work->graph == NULL || work->device == NULL ||
        ((work->inputs == NULL || work->others == NULL || work->input_names == NULL) &&
         work->n_inputs > 0) ||
        (work->output_names == NULL && work->n_outputs > 0)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "maker, graph, device, inputs and names must not be NULL");
    }
    kiln_device *device = kilni_core(work->device);
    kiln_status status = kilni_bundle_stage(maker, BUNDLE_STAGE_ADD, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    bundle_taking first = {.maker = maker, .device = device, .work = work, .inputs = work->inputs};
    first.outputs = kiln_arena_alloc(&maker->arena, (work->n_outputs + 1) * sizeof(kiln_tensor *));
    bundle_taking second = first;
    second.inputs = work->others;
    if (first.outputs == NULL) {
        return no_room(err);
    }
    for (int i = 0; i < SETTLING; i++) { // what is compiled and packed once is then done
        KILN_TRY(out, status, run_graph(&first, /*take=*/false, err));
    }
    KILN_TRY(out, status, run_graph(&first, /*take=*/true, err));
    KILN_TRY(out, status, run_graph(&second, /*take=*/true, err));
    KILN_TRY(out, status,
             kilni_bundle_check_same(&maker->manifest, &first.shapes, &second.shapes, err));
    KILN_TRY(out, status, name_device(maker, device, err));
    KILN_TRY(out, status, add_shapes(maker, &first.shapes, work, err));
out:
    return status;
}

#else

kiln_status kiln_bundle_maker_add(kiln_bundle_maker *maker, const kiln_bundle_work *work,
                                  kiln_error *err)
{
    (void)maker;
    (void)work;
    return kiln_fail(err, UNIMPLEMENTED, "this build has no OpenCL backend");
}

#endif
