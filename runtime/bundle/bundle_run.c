// SPDX-License-Identifier: MIT OR Apache-2.0
// Running a bundle: the set of shapes that fits, memory for the results, the steps in their order.
// Nothing is planned and nothing waits.

#include "bundle_internal.h"

#include <stdio.h>

#include "rt_binding.h"
#include "rt_dependency.h"
#include "rt_tensor.h"

// ---- which shapes ----

static bool is_like(const kiln_bundle_value *value, const kiln_tensor *tensor)
{
    bool like =
        kiln_tensor_dtype(tensor) == value->dtype && kiln_tensor_rank(tensor) == value->rank;
    for (uint32_t i = 0; like && i < value->rank; i++) {
        like = kiln_tensor_dims(tensor)[i] == value->dims[i];
    }
    return like;
}

static void write_dims(char out[96], kiln_dtype dtype, size_t rank, const int64_t *dims)
{
    size_t length = (size_t)snprintf(out, 96, "%s [", kiln_dtype_name(dtype));
    for (size_t i = 0; i < rank && length < 70; i++) {
        length += (size_t)snprintf(out + length, 96 - length, "%s%lld", i > 0 ? "," : "",
                                   (long long)dims[i]);
    }
    (void)snprintf(out + length, 96 - length, "]");
}

static kiln_status no_shapes(const kiln_bundle *bundle, kiln_tensor *const *inputs, uint32_t worst,
                             kiln_error *err)
{
    char has[96];
    char wants[96];
    const kiln_bundle_value *value = &bundle->manifest.shapes[0].inputs[worst].shown;
    write_dims(has, kiln_tensor_dtype(inputs[worst]), kiln_tensor_rank(inputs[worst]),
               kiln_tensor_dims(inputs[worst]));
    write_dims(wants, value->dtype, value->rank, value->dims);
    return kiln_fail(err, INVALID_ARGUMENT, "input %.40s is %s; the bundle was made for %s%s",
                     value->name, has, wants,
                     bundle->manifest.n_shapes > 1 ? " and other sets of shapes" : "");
}

static kiln_status find_shapes(const kiln_bundle *bundle, kiln_tensor *const *inputs,
                               uint32_t *out_shapes, kiln_error *err)
{
    uint32_t worst = 0;
    for (uint32_t s = 0; s < bundle->manifest.n_shapes; s++) {
        uint32_t i = 0;
        while (i < bundle->manifest.n_inputs &&
               is_like(&bundle->manifest.shapes[s].inputs[i].shown, inputs[i])) {
            i++;
        }
        if (i == bundle->manifest.n_inputs) {
            *out_shapes = s;
            return KILN_STATUS_OK;
        }
        worst = s == 0 ? i : worst;
    }
    return bundle->manifest.n_shapes > 0
               ? no_shapes(bundle, inputs, worst, err)
               : kiln_fail(err, INVALID_ARGUMENT, "the bundle runs for no shapes");
}

// ---- inputs ----

/// The input's buffer, when it lies dense at its start; else a dense copy, which `held` keeps.
static kiln_status place_input(kiln_bundle *bundle, kiln_tensor *tensor, kilni_binding *held,
                               kiln_buffer **out_buffer, kiln_error *err)
{
    kiln_device *device = bundle->device;
    kilni_binding *binding = &tensor->binding;
    kiln_status status = kilni_await_futures(device, &tensor, 1, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_tensor_bind(tensor, err);
    }
    if (status != KILN_STATUS_OK || binding->storage == NULL) {
        *out_buffer = NULL;
        return status;
    }
    status = kilni_storage_settle(device, binding->storage, err);
    if (status == KILN_STATUS_OK &&
        (!kiln_view_is_contiguous(&binding->view) || binding->view.offset_bytes != 0)) {
        status = kilni_binding_dense(device, &tensor->desc, binding, held, err);
        binding = held;
    }
    *out_buffer = status == KILN_STATUS_OK ? binding->view.buffer : NULL;
    return status;
}

static kiln_status place_inputs(kiln_bundle *bundle, uint32_t s, kiln_tensor *const *inputs,
                                kilni_binding *held, kiln_error *err)
{
    const bundle_shapes *shapes = &bundle->manifest.shapes[s];
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < bundle->manifest.n_inputs && status == KILN_STATUS_OK; i++) {
        kiln_buffer *buffer = NULL;
        status = place_input(bundle, inputs[i], &held[i], &buffer, err);
        if (shapes->buffers[shapes->inputs[i].buffer].kind == BUNDLE_BUFFER_INPUT) {
            bundle->memory[s].buffers[shapes->inputs[i].buffer] = buffer;
        }
    }
    return status;
}

// ---- steps ----

static void place_arg(const bundle_memory *memory, const bundle_arg *from, kiln_launch_arg *out)
{
    switch (from->kind) {
    case BUNDLE_ARG_BUFFER:
        *out = (kiln_launch_arg){
            .kind = KILN_VALUE_BUFFER,
            .buffer = from->buffer != UINT32_MAX ? memory->buffers[from->buffer] : NULL};
        return;
    case BUNDLE_ARG_BYTES:
        *out = (kiln_launch_arg){
            .kind = KILN_VALUE_MEMORY, .length = (uint32_t)from->length, .memory = from->bytes};
        return;
    case BUNDLE_ARG_LOCAL:
        *out = (kiln_launch_arg){.kind = KILN_VALUE_LOCAL, .bytes = from->length};
        return;
    }
}

static kiln_status run_launch(kiln_bundle *bundle, const bundle_memory *memory,
                              const bundle_step *step, kiln_error *err)
{
    kiln_backend *backend = bundle->device->backend;
    kiln_launch launch = {.launch = step->kernel,
                          .n_dims = step->n_dims,
                          .args = memory->args,
                          .n_args = step->n_args};
    for (uint32_t i = 0; i < step->n_dims; i++) {
        launch.global[i] = (size_t)step->global[i];
        launch.local[i] = (size_t)step->local[i];
    }
    for (uint32_t i = 0; i < step->n_args; i++) {
        place_arg(memory, &step->args[i], &memory->args[i]);
    }
    return backend->program->launch(backend, bundle->ready[step->program].built, &launch, err);
}

static kiln_status run_steps(kiln_bundle *bundle, uint32_t s, kiln_error *err)
{
    const bundle_shapes *shapes = &bundle->manifest.shapes[s];
    const bundle_memory *memory = &bundle->memory[s];
    kiln_backend *backend = bundle->device->backend;
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < shapes->n_steps && status == KILN_STATUS_OK; i++) {
        const bundle_step *step = &shapes->steps[i];
        status = step->is_copy ? backend->transfer->copy(
                                     backend, memory->buffers[step->source],
                                     (size_t)step->source_offset, memory->buffers[step->target],
                                     (size_t)step->target_offset, (size_t)step->bytes, err)
                               : run_launch(bundle, memory, step, err);
    }
    return status;
}

// ---- outputs ----

/// Memory of an output's own: the whole of the buffer that the steps write, when it is alone there.
static kiln_status make_output(kiln_bundle *bundle, uint32_t s, uint32_t index,
                               kiln_tensor **out_tensor, kiln_error *err)
{
    kiln_backend *backend = bundle->device->backend;
    const bundle_shapes *shapes = &bundle->manifest.shapes[s];
    const bundle_value *value = &shapes->outputs[index];
    bundle_memory *memory = &bundle->memory[s];
    bool direct = memory->only[value->buffer] == index;
    uint64_t bytes =
        direct ? shapes->buffers[value->buffer].bytes : kilni_bundle_value_bytes(&value->shown);
    kiln_buffer *buffer = NULL;
    kiln_tensor_desc desc;
    kiln_status status =
        kilni_describe(value->shown.dtype, value->shown.rank, value->shown.dims, &desc, err);
    if (status == KILN_STATUS_OK && bytes > 0) {
        status = backend->memory->alloc(backend, (size_t)bytes, &buffer, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_tensor_around(bundle->device, &desc, buffer, 0, out_tensor, err);
        if (status != KILN_STATUS_OK) {
            backend->memory->free(backend, buffer);
        } else if (direct) {
            memory->buffers[value->buffer] = buffer;
        }
    }
    return status;
}

static kiln_status copy_outputs(kiln_bundle *bundle, uint32_t s, kiln_tensor **tensors,
                                kiln_error *err)
{
    kiln_backend *backend = bundle->device->backend;
    const bundle_shapes *shapes = &bundle->manifest.shapes[s];
    const bundle_memory *memory = &bundle->memory[s];
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < bundle->manifest.n_outputs && status == KILN_STATUS_OK; i++) {
        const bundle_value *value = &shapes->outputs[i];
        uint64_t bytes = kilni_bundle_value_bytes(&value->shown);
        if (memory->only[value->buffer] != i && bytes > 0) {
            status = backend->transfer->copy(backend, memory->buffers[value->buffer],
                                             (size_t)value->offset, tensors[i]->binding.view.buffer,
                                             0, (size_t)bytes, err);
        }
    }
    return status;
}

/// What a run put into the list of buffers is others'.
static void forget_buffers(kiln_bundle *bundle, uint32_t s, kiln_buffer *const *before)
{
    const bundle_shapes *shapes = &bundle->manifest.shapes[s];
    bundle_memory *memory = &bundle->memory[s];
    for (uint32_t i = 0; i < bundle->manifest.n_outputs; i++) {
        if (memory->only[shapes->outputs[i].buffer] == i) {
            memory->buffers[shapes->outputs[i].buffer] = before[i];
        }
    }
}

static kiln_status run_locked(kiln_bundle *bundle, uint32_t s, kiln_tensor *const *inputs,
                              kiln_tensor **out_tensors, kilni_binding *held, kiln_buffer **before,
                              kiln_error *err)
{
    const bundle_shapes *shapes = &bundle->manifest.shapes[s];
    kiln_status status = place_inputs(bundle, s, inputs, held, err);
    for (uint32_t i = 0; i < bundle->manifest.n_outputs; i++) {
        before[i] = bundle->memory[s].buffers[shapes->outputs[i].buffer];
    }
    for (uint32_t i = 0; i < bundle->manifest.n_outputs && status == KILN_STATUS_OK; i++) {
        status = make_output(bundle, s, i, &out_tensors[i], err);
    }
    if (status == KILN_STATUS_OK) {
        status = run_steps(bundle, s, err);
    }
    if (status == KILN_STATUS_OK) {
        status = copy_outputs(bundle, s, out_tensors, err);
    }
    forget_buffers(bundle, s, before);
    for (uint32_t i = 0; i < bundle->manifest.n_inputs; i++) {
        kilni_binding_clear(bundle->device, &held[i]);
    }
    return status;
}

static kiln_status check_call(const kiln_bundle *bundle, kiln_tensor *const *inputs,
                              size_t n_inputs, size_t n_outputs, kiln_error *err)
{
    if (n_inputs != bundle->manifest.n_inputs || n_outputs != bundle->manifest.n_outputs) {
        return kiln_fail(
            err, INVALID_ARGUMENT, "the bundle has %u inputs and %u outputs, not %zu and %zu",
            bundle->manifest.n_inputs, bundle->manifest.n_outputs, n_inputs, n_outputs);
    }
    for (size_t i = 0; i < n_inputs; i++) {
        if (inputs[i] == NULL || inputs[i]->device != bundle->device) {
            return kiln_fail(err, INVALID_ARGUMENT, "input %zu is no tensor of the bundle's device",
                             i);
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_bundle_run(kiln_bundle *bundle, kiln_tensor *const *inputs, size_t n_inputs,
                            kiln_tensor **out_tensors, size_t n_outputs, kiln_error *err)
{
    uint32_t s = 0;
    if (bundle == NULL || (inputs == NULL && n_inputs > 0) ||
        (out_tensors == NULL && n_outputs > 0)) {
        return kiln_fail(err, INVALID_ARGUMENT, "bundle, inputs and outputs must not be NULL");
    }
    for (size_t i = 0; i < n_outputs; i++) {
        out_tensors[i] = NULL;
    }
    kiln_status status = check_call(bundle, inputs, n_inputs, n_outputs, err);
    if (status == KILN_STATUS_OK) {
        status = find_shapes(bundle, inputs, &s, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_binding *held = kiln_alloc_array(bundle->env, n_inputs + 1, sizeof(*held));
    kiln_buffer **before = kiln_alloc_array(bundle->env, n_outputs + 1, sizeof(kiln_buffer *));
    status = held != NULL && before != NULL
                 ? KILN_STATUS_OK
                 : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a run");
    if (status == KILN_STATUS_OK) {
        pthread_mutex_lock(&bundle->device->lock);
        status = run_locked(bundle, s, inputs, out_tensors, held, before, err);
        pthread_mutex_unlock(&bundle->device->lock);
    }
    kiln_free(bundle->env, held);
    kiln_free(bundle->env, before);
    for (size_t i = 0; i < n_outputs && status != KILN_STATUS_OK; i++) {
        kiln_release(out_tensors[i]);
        out_tensors[i] = NULL;
    }
    return status;
}
