// SPDX-License-Identifier: MIT OR Apache-2.0
// A graph on its tensors: a run gives the tensors of a specialisation bindings and hands its
// segment to the executor, with no recording and no search. Other shapes get a specialisation of
// their own: the operations recorded again on placeholders of those shapes. Decides which bindings
// a run uses; planning and running are elsewhere.

#include "graph_parts.h"
#include "rt_binding.h"
#include "rt_block_programs.h"
#include "rt_device.h"
#include "rt_execute.h"
#include "rt_random.h"
#include "rt_record.h"
#include "rt_run.h"
#include "rt_streams.h"
#include "rt_tensor.h"
#include "rt_trace.h"

/// Bindings kept of a graph: the captured one and those for the shapes seen last.
enum { MAX_BINDINGS = 16 };

// ---- specialisations ----

void kilni_graph_specialisation_free(kiln_graph *graph, kilni_graph_specialisation *spec)
{
    if (spec == NULL) {
        return;
    }
    kiln_device *device = graph->device;
    pthread_mutex_lock(&device->lock);
    kilni_graph_repeat_free(graph, spec);
    if (spec->segment != NULL) {
        kilni_segment_unpin(spec->segment);
        kiln_fuse_stream_done(spec->stream->queue, spec->segment);
    }
    kilni_stream_destroy(spec->stream);
    pthread_mutex_unlock(&device->lock);
    kilni_graph_release_all(device, spec->inputs, graph->n_inputs);
    kilni_graph_release_all(device, spec->outputs, kilni_graph_results(graph));
    kiln_free(kilni_graph_env(device), spec->locals);
    kiln_free(kilni_graph_env(device), spec->bindings);
    kiln_free(kilni_graph_env(device), spec->draws);
    kiln_free(kilni_graph_env(device), spec);
}

/// Random operations without a place of their own.
static kiln_status list_draws(kilni_graph_specialisation *spec, kiln_error *err)
{
    const kiln_fuse_segment *segment = spec->segment;
    const kiln_env *env = kilni_graph_env(spec->stream->device);
    for (uint32_t pass = 0; pass < 2; pass++) {
        spec->n_draws = 0;
        for (uint32_t op = 0; op < segment->plan->n_ops; op++) {
            uint32_t first = 0;
            const kiln_op_record *record = &segment->ops[op];
            if (kilni_random_draws(kiln_op_info_of(record->op), &first) &&
                record->attrs[first].type == KILN_ATTR_NONE &&
                record->attrs[first + 2].type == KILN_ATTR_NONE) {
                if (pass == 1) {
                    spec->draws[spec->n_draws] = op;
                }
                spec->n_draws++;
            }
        }
        if (pass == 0 && spec->n_draws > 0) {
            spec->draws = kiln_alloc_array(env, spec->n_draws, sizeof(*spec->draws));
        }
        if (spec->n_draws > 0 && spec->draws == NULL) {
            spec->n_draws = 0;
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a graph");
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_graph_specialisation_create(kiln_device *device, kilni_stream *stream,
                                              kilni_graph_specialisation **out_spec,
                                              kiln_error *err)
{
    kilni_graph_specialisation *spec = kiln_alloc(kilni_graph_env(device), sizeof(*spec));
    if (spec == NULL) {
        kilni_stream_destroy(stream);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a graph");
    }
    *out_spec = spec;
    spec->stream = stream;
    kiln_status status = kilni_stream_next(stream, /*drain=*/true, &spec->segment, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    stream->capturing = false;
    stream->replaying = true;
    if (spec->segment == NULL) {
        return KILN_STATUS_OK;
    }
    spec->n_tensors = spec->segment->plan->n_tensors;
    for (uint32_t i = 0; i < spec->n_tensors; i++) {
        kiln_tensor *tensor = spec->segment->tokens[i];
        if (tensor->captured) {
            tensor->stream = 0;
        }
    }
    spec->locals =
        kiln_alloc_array(kilni_graph_env(device), spec->n_tensors, sizeof(*spec->locals));
    spec->bindings =
        kiln_alloc_array(kilni_graph_env(device), spec->n_tensors, sizeof(*spec->bindings));
    if (spec->locals == NULL || spec->bindings == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a graph of %u tensors",
                         spec->n_tensors);
    }
    return list_draws(spec, err);
}

// ---- other shapes ----

/// A tensor that stands for a dense input; it has facts but no memory.
static kiln_tensor *make_placeholder(const kiln_tensor *like)
{
    kiln_tensor *tensor = kilni_tensor_new(like->handle, &like->desc);
    if (tensor != NULL) {
        tensor->binding.view = kiln_view_dense(&tensor->desc, NULL);
        tensor->binding.bound = true;
    }
    return tensor;
}

/// The segment's tensor `number` is the placeholder from here on.
static void rename_tensor(const kilni_graph_specialisation *spec, uint32_t number,
                          kiln_tensor *placeholder)
{
    kiln_tensor *before = spec->segment->tokens[number];
    uint32_t count = kiln_fuse_stream_rename(spec->stream->queue, number, placeholder);
    for (uint32_t i = 0; i < count; i++) {
        kilni_tensor_pin(placeholder, spec->stream);
        kilni_tensor_unpin(before);
    }
}

kiln_status kilni_graph_stand_in(kiln_graph *graph, kiln_tensor *const *inputs, kiln_error *err)
{
    kilni_graph_specialisation *spec = graph->specialisations;
    const kiln_env *env = kilni_graph_env(graph->device);
    spec->inputs = kiln_alloc_array(env, graph->n_inputs + 1, sizeof(*spec->inputs));
    for (size_t i = 0; i < graph->n_inputs; i++) {
        inputs[i]->slot = UINT32_MAX;
    }
    for (uint32_t i = 0; i < spec->n_tensors; i++) {
        ((kiln_tensor *)spec->segment->tokens[i])->slot = i;
    }
    for (size_t i = 0; i < graph->n_inputs; i++) {
        kiln_tensor *placeholder = spec->inputs != NULL ? make_placeholder(inputs[i]) : NULL;
        if (placeholder == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a graph's inputs");
        }
        spec->inputs[i] = placeholder;
        if (inputs[i]->slot != UINT32_MAX) {
            rename_tensor(spec, inputs[i]->slot, placeholder);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status record_again(const kilni_graph_specialisation *base, kilni_stream *stream,
                                kiln_tensor **map, kiln_error *err)
{
    const kiln_fuse_segment *segment = base->segment;
    for (uint32_t op = 0; op < segment->plan->n_ops; op++) {
        const kiln_op_record *record = &segment->ops[op];
        kiln_tensor *inputs[KILN_MAX_INPUTS] = {NULL};
        kiln_tensor *outputs[KILN_MAX_OUTPUTS] = {NULL};
        for (size_t i = 0; i < record->n_inputs; i++) {
            inputs[i] = map[((const kiln_tensor *)segment->operands[op][i])->slot];
        }
        kiln_status status = KILN_STATUS_OK;
        if (record->op == KILN_OP_DROP) {
            status = kilni_tensor_drop(inputs[0], stream, err);
        } else {
            const kilni_op_call call = {.op = record->op,
                                        .inputs = inputs,
                                        .n_inputs = record->n_inputs,
                                        .attrs = record->attrs,
                                        .n_attrs = record->n_attrs};
            status = kilni_stream_record(stream, &call, outputs, err);
        }
        if (status != KILN_STATUS_OK) {
            return kiln_error_context(err, "specialisation the graph to other shapes, operation %u",
                                      op);
        }
        for (size_t i = 0; i < record->n_outputs; i++) {
            const kiln_tensor *first = segment->operands[op][record->n_inputs + i];
            outputs[i]->handle = first->handle;
            map[first->slot] = outputs[i];
        }
    }
    return KILN_STATUS_OK;
}

/// Fills `map` for what comes from outside: placeholders for inputs, constants as they are.
static kiln_status map_outside(kiln_graph *graph, const kilni_graph_specialisation *base,
                               kiln_tensor *const *inputs, kilni_graph_specialisation *fresh,
                               kiln_tensor **map, kiln_error *err)
{
    for (size_t i = 0; i < graph->n_inputs; i++) {
        base->inputs[i]->slot = UINT32_MAX;
    }
    for (uint32_t i = 0; i < base->n_tensors; i++) {
        kiln_tensor *tensor = base->segment->tokens[i];
        tensor->slot = i;
        map[i] = tensor->captured ? NULL : tensor;
    }
    for (size_t i = 0; i < graph->n_inputs; i++) {
        fresh->inputs[i] = make_placeholder(inputs[i]);
        if (fresh->inputs[i] == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a graph's inputs");
        }
        if (base->inputs[i]->slot != UINT32_MAX) {
            map[base->inputs[i]->slot] = fresh->inputs[i];
        }
    }
    return KILN_STATUS_OK;
}

/// The recorder gave each result a hold; only outputs keep theirs.
static void drop_holds(const kilni_graph_specialisation *base, kiln_tensor **map)
{
    for (uint32_t i = 0; i < base->n_tensors; i++) {
        const kiln_tensor *original = base->segment->tokens[i];
        if (original->captured && map[i] != NULL) {
            kiln_device *device = map[i]->device;
            if (atomic_fetch_sub(&map[i]->refs, 1) == 1) {
                kilni_tensor_disown(map[i]);
                kilni_tensor_unhold(device); // the graph holds the device
            }
        }
    }
}

static kiln_status rebind(kiln_graph *graph, kiln_tensor *const *inputs,
                          kilni_graph_specialisation **out_spec, kiln_error *err)
{
    const kilni_graph_specialisation *base = graph->specialisations;
    kiln_device *device = graph->device;
    kilni_graph_specialisation scratch = {0};
    kilni_stream *stream = NULL;
    kiln_tensor **map =
        kiln_alloc_array(kilni_graph_env(device), base->n_tensors + 1u, sizeof(*map));
    scratch.inputs = kiln_alloc_array(kilni_graph_env(device), graph->n_inputs + 1, sizeof(*map));
    scratch.outputs =
        kiln_alloc_array(kilni_graph_env(device), kilni_graph_results(graph) + 1, sizeof(*map));
    kiln_status status = KILN_STATUS_OK;
    if (map == NULL || scratch.inputs == NULL || scratch.outputs == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to bind a graph");
        goto out;
    }
    KILN_TRY(out, status, map_outside(graph, base, inputs, &scratch, map, err));
    KILN_TRY(out, status, kilni_stream_create(device, /*whole=*/true, &stream, err));
    status = record_again(base, stream, map, err);
    for (size_t i = 0; i < kilni_graph_results(graph) && status == KILN_STATUS_OK; i++) {
        kiln_tensor *output = base->outputs[i];
        size_t input = kilni_graph_input_of(graph, i);
        scratch.outputs[i] = kiln_retain(input < graph->n_inputs ? scratch.inputs[input]
                                         : output->captured      ? map[output->slot]
                                                                 : output);
    }
    drop_holds(base, map);
    if (status != KILN_STATUS_OK) {
        kilni_stream_destroy(stream);
        goto out;
    }
    status = kilni_graph_specialisation_create(device, stream, out_spec, err);
    if (*out_spec != NULL) {
        (*out_spec)->inputs = scratch.inputs;
        (*out_spec)->outputs = scratch.outputs;
        scratch.inputs = NULL;
        scratch.outputs = NULL;
    }
out:
    kiln_free(kilni_graph_env(device), map);
    // What is left in scratch holds at most placeholders that nothing mentions: they go with the
    // lock released.
    graph->leftover_inputs = scratch.inputs;
    graph->leftover_outputs = scratch.outputs;
    return status;
}

// ---- run ----

static bool fits(const kiln_graph *graph, const kilni_graph_specialisation *spec,
                 kiln_tensor *const *inputs)
{
    for (size_t i = 0; i < graph->n_inputs; i++) {
        if (!kiln_desc_same_shape(&spec->inputs[i]->desc, &inputs[i]->desc)) {
            return false;
        }
    }
    return true;
}

static kiln_status refuse_shapes(const kiln_graph *graph, kiln_tensor *const *inputs,
                                 kiln_error *err)
{
    for (size_t i = 0; i < graph->n_inputs; i++) {
        const kiln_tensor_desc *captured = &graph->specialisations->inputs[i]->desc;
        const kiln_tensor_desc *given = &inputs[i]->desc;
        if (!kiln_desc_same_shape(captured, given)) {
            uint32_t axis = 0;
            while (axis < captured->rank && captured->dims[axis] == given->dims[axis]) {
                axis++;
            }
            return kiln_fail(err, INVALID_ARGUMENT,
                             "input %zu has rank %u and length %lld at axis %u, the graph was "
                             "captured for rank %u and %lld: capture it anew",
                             i, given->rank, (long long)given->dims[axis % KILN_MAX_RANK],
                             axis % KILN_MAX_RANK, captured->rank,
                             (long long)captured->dims[axis % KILN_MAX_RANK]);
        }
    }
    return KILN_STATUS_OK;
}

/// The specialisation for the shapes of `inputs`; `*out_evicted` is to be freed without the lock.
static kiln_status find_specialisation(kiln_graph *graph, kiln_tensor *const *inputs,
                                       kilni_graph_specialisation **out_spec,
                                       kilni_graph_specialisation **out_evicted, kiln_error *err)
{
    size_t count = 0;
    kilni_graph_specialisation *last = NULL;
    for (kilni_graph_specialisation *spec = graph->specialisations; spec != NULL;
         spec = spec->next) {
        if (fits(graph, spec, inputs)) {
            *out_spec = spec;
            return KILN_STATUS_OK;
        }
        last = spec;
        count++;
    }
    if (last == NULL) {
        return kiln_fail(err, INTERNAL, "a graph without a specialisation");
    }
    if (graph->fixed) {
        return refuse_shapes(graph, inputs, err);
    }
    if (graph->specialisations->segment == NULL) {
        *out_spec = graph->specialisations;
        return KILN_STATUS_OK;
    }
    kilni_graph_specialisation *fresh = NULL;
    kiln_status status = rebind(graph, inputs, &fresh, err);
    if (status != KILN_STATUS_OK) {
        *out_evicted = fresh;
        return status;
    }
    if (count >= MAX_BINDINGS) {
        for (kilni_graph_specialisation *spec = graph->specialisations; spec != NULL;
             spec = spec->next) {
            if (spec->next == last) {
                spec->next = NULL;
            }
        }
        *out_evicted = last;
    }
    fresh->next = graph->specialisations->next;
    graph->specialisations->next = fresh;
    *out_spec = fresh;
    return KILN_STATUS_OK;
}

static void share(kiln_device *device, kilni_binding *target, const kilni_binding *source)
{
    if (source->fault != NULL) {
        kilni_binding_fail(device, target, source->fault);
    } else {
        kilni_binding_share(target, source, &source->view);
    }
}

/// An input that is not dense, or not at its buffer's start, is copied: the plan was made for
/// those.
static kiln_status take_input(kiln_graph *graph, kiln_tensor *input, kilni_binding *local,
                              kilni_binding **out_binding, kiln_error *err)
{
    kiln_device *device = graph->device;
    const kiln_view *view = &input->binding.view;
    bool as_planned = kiln_view_is_contiguous(view) && view->offset_bytes == 0;
    if (input->binding.fault != NULL || as_planned) {
        *out_binding = &input->binding;
        return KILN_STATUS_OK;
    }
    *out_binding = local;
    return kilni_binding_dense(device, &input->desc, &input->binding, local, err);
}

static kiln_status fill_bindings(kiln_graph *graph, kilni_graph_specialisation *spec,
                                 kiln_tensor *const *inputs, kiln_error *err)
{
    for (size_t i = 0; i < graph->n_inputs; i++) {
        spec->inputs[i]->slot = UINT32_MAX;
    }
    for (uint32_t i = 0; i < spec->n_tensors; i++) {
        kiln_tensor *tensor = spec->segment->tokens[i];
        tensor->slot = i;
        spec->bindings[i] = tensor->captured ? &spec->locals[i] : &tensor->binding;
    }
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < graph->n_inputs && status == KILN_STATUS_OK; i++) {
        uint32_t slot = spec->inputs[i]->slot;
        if (slot == UINT32_MAX) {
            continue;
        }
        status = take_input(graph, inputs[i], &spec->locals[slot], &spec->bindings[slot], err);
        if (graph->carry_of[i] != UINT32_MAX && spec->bindings[slot] == &inputs[i]->binding) {
            // The plan drops it: that may not reach the caller's tensor.
            share(graph->device, &spec->locals[slot], &inputs[i]->binding);
            spec->bindings[slot] = &spec->locals[slot];
        }
    }
    return status;
}

static void give_results(kiln_graph *graph, const kilni_graph_specialisation *spec,
                         kiln_tensor *const *inputs, kiln_tensor **advancing,
                         kiln_tensor **out_tensors)
{
    for (size_t i = 0; i < graph->n_outputs; i++) {
        kilni_tensor_settle(out_tensors[i], kilni_graph_result(graph, spec, inputs, i));
    }
    for (uint32_t k = 0; advancing != NULL && k < graph->n_carries; k++) {
        const kilni_binding *binding =
            kilni_graph_result(graph, spec, inputs, graph->n_outputs + k);
        kilni_carry_give(graph, k, binding, advancing);
    }
}

/// Gives each random operation of a run its place in the device's numbers. Without `on` they are
/// open again, so that a specialisation to other shapes finds them as they were captured.
static kiln_status set_draws(const kilni_graph_specialisation *spec, bool on, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < spec->n_draws && status == KILN_STATUS_OK; i++) {
        kiln_attr draw[3] = {{0}};
        uint32_t first = 0;
        uint32_t op = spec->draws[i];
        (void)kilni_random_draws(kiln_op_info_of(spec->segment->ops[op].op), &first);
        status = on ? kilni_random_next(spec->stream->device, draw, err) : KILN_STATUS_OK;
        for (uint32_t k = 0; k < 3 && status == KILN_STATUS_OK; k++) {
            kiln_fuse_stream_set_scalar(spec->stream->queue, op, first + k, &draw[k]);
        }
    }
    return status;
}

/// A graph goes on with what a tournament found: recorded again for the same shapes. The old
/// specialisation is to be freed without the lock.
static void take_better_plan(kiln_graph *graph, kilni_graph_specialisation *spec,
                             kiln_tensor *const *inputs, kilni_graph_specialisation **out_old)
{
    kiln_error err = KILN_ERROR_INIT;
    kilni_graph_specialisation *fresh = NULL;
    if (spec->segment == NULL || spec->stays || !kiln_fuse_plan_outdone(spec->segment->plan) ||
        *out_old != NULL || graph->leftover_inputs != NULL || graph->leftover_outputs != NULL) {
        return;
    }
    if (rebind(graph, inputs, &fresh, &err) != KILN_STATUS_OK) {
        spec->stays = true;
        *out_old = fresh;
        kiln_log_write(kilni_graph_env(graph->device), KILN_LOG_INFO, "runtime",
                       "a graph keeps a slower plan: %s", err.message);
        return;
    }
    kilni_graph_specialisation **link = &graph->specialisations;
    while (*link != spec) {
        link = &(*link)->next;
    }
    fresh->next = spec->next;
    *link = fresh;
    *out_old = spec;
}

/// `advancing`: NULL, or the inputs, where the next values of those that are carried go.
static kiln_status run_locked(kiln_graph *graph, kiln_tensor *const *inputs,
                              kiln_tensor **advancing, kiln_tensor **out_tensors,
                              kilni_graph_specialisation **out_evicted, kiln_error *err)
{
    kiln_device *device = graph->device;
    kilni_graph_specialisation *spec = NULL;
    if (kilni_graph_find_capture(device, kiln_thread_id()) != NULL) {
        return kiln_fail(err, FAILED_PRECONDITION, "a graph cannot be run inside a capture");
    }
    kiln_status status = kilni_graph_place_inputs(device, inputs, graph->n_inputs, err);
    if (status == KILN_STATUS_OK) {
        status = find_specialisation(graph, inputs, &spec, out_evicted, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = kilni_graph_make_outputs(graph, spec, inputs, out_tensors, err);
    if (status == KILN_STATUS_OK && advancing != NULL) {
        status = kilni_carry_prepare(graph, spec, inputs, err);
    }
    if (status == KILN_STATUS_OK) {
        status = fill_bindings(graph, spec, inputs, err);
    }
    if (status == KILN_STATUS_OK) {
        status = set_draws(spec, /*on=*/true, err);
    }
    kilni_repeat *repeat = status == KILN_STATUS_OK
                               ? kilni_graph_repeat_begin(graph, spec, inputs, advancing != NULL)
                               : NULL;
    if (status == KILN_STATUS_OK && advancing != NULL) {
        kilni_carry_take(graph, inputs);
    }
    if (status == KILN_STATUS_OK && spec->segment != NULL) {
        kilni_run run = {.device = device,
                         .engine = spec->stream->engine,
                         .segment = spec->segment,
                         .bindings = spec->bindings,
                         .repeat = repeat};
        uint64_t start_ns = kilni_trace_now(device);
        kilni_plan_run(&run);
        kilni_trace_span(device, KILNI_SPAN_RUN, "graph", start_ns);
    }
    if (status == KILN_STATUS_OK) {
        give_results(graph, spec, inputs, advancing, out_tensors);
    }
    if (repeat != NULL) {
        kilni_graph_repeat_end(graph, spec, inputs);
    }
    (void)set_draws(spec, /*on=*/false, NULL);
    for (uint32_t i = 0; i < spec->n_tensors; i++) {
        kilni_binding_clear(device, &spec->locals[i]);
    }
    if (status == KILN_STATUS_OK) {
        take_better_plan(graph, spec, inputs, out_evicted);
        kilni_block_programs_relieve(device);
    }
    return status;
}

static kiln_status check_inputs(const kiln_graph *graph, kiln_tensor *const *inputs,
                                size_t n_inputs, size_t n_outputs, kiln_error *err)
{
    if (n_inputs != graph->n_inputs || n_outputs != graph->n_outputs) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "the graph has %zu inputs and %zu outputs, not %zu and %zu",
                         graph->n_inputs, graph->n_outputs, n_inputs, n_outputs);
    }
    for (size_t i = 0; i < n_inputs; i++) {
        kiln_dtype wanted = kiln_tensor_dtype(graph->specialisations->inputs[i]);
        if (inputs[i] != NULL && kiln_tensor_dtype(inputs[i]) != wanted) {
            return kiln_fail(err, INVALID_ARGUMENT, "input %zu is %s; the graph wants %s", i,
                             kiln_dtype_name(kiln_tensor_dtype(inputs[i])),
                             kiln_dtype_name(wanted));
        }
        if (inputs[i] != NULL &&
            inputs[i]->desc.scheme != graph->specialisations->inputs[i]->desc.scheme) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "input %zu is quantised by another scheme than the graph wants", i);
        }
    }
    return kilni_graph_check_tensors(graph->device, inputs, n_inputs, "input", err);
}

static kiln_status run(kiln_graph *graph, kiln_tensor *const *inputs, size_t n_inputs,
                       kiln_tensor **advancing, kiln_tensor **out_tensors, size_t n_outputs,
                       kiln_error *err)
{
    if (out_tensors == NULL && n_outputs > 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_tensors must not be NULL");
    }
    for (size_t i = 0; i < n_outputs; i++) {
        out_tensors[i] = NULL;
    }
    if (graph == NULL || (inputs == NULL && n_inputs > 0)) {
        return kiln_fail(err, INVALID_ARGUMENT, "graph and inputs must not be NULL");
    }
    kilni_graph_specialisation *evicted = NULL;
    pthread_mutex_lock(&graph->device->lock);
    if (n_inputs == graph->n_inputs && n_outputs == graph->n_outputs &&
        kilni_graph_run_again(graph, inputs, advancing != NULL, out_tensors)) {
        pthread_mutex_unlock(&graph->device->lock);
        return KILN_STATUS_OK;
    }
    kiln_status status = check_inputs(graph, inputs, n_inputs, n_outputs, err);
    if (status == KILN_STATUS_OK) {
        status = run_locked(graph, inputs, advancing, out_tensors, &evicted, err);
    }
    kiln_tensor **leftover_inputs = graph->leftover_inputs;
    kiln_tensor **leftover_outputs = graph->leftover_outputs;
    graph->leftover_inputs = NULL;
    graph->leftover_outputs = NULL;
    pthread_mutex_unlock(&graph->device->lock);
    kilni_graph_release_all(graph->device, leftover_inputs, graph->n_inputs);
    kilni_graph_release_all(graph->device, leftover_outputs, kilni_graph_results(graph));
    kilni_graph_specialisation_free(graph, evicted);
    kilni_carry_release(graph);
    for (size_t i = 0; status != KILN_STATUS_OK && i < n_outputs; i++) {
        kiln_release(out_tensors[i]);
        out_tensors[i] = NULL;
    }
    return status;
}

kiln_status kiln_graph_run(kiln_graph *graph, kiln_tensor *const *inputs, size_t n_inputs,
                           kiln_tensor **out_tensors, size_t n_outputs, kiln_error *err)
{
    return run(graph, inputs, n_inputs, /*advancing=*/NULL, out_tensors, n_outputs, err);
}

kiln_status kiln_graph_advance(kiln_graph *graph, kiln_tensor **tensors, size_t n_tensors,
                               kiln_tensor **out_tensors, size_t n_outputs, kiln_error *err)
{
    return run(graph, tensors, n_tensors, tensors, out_tensors, n_outputs, err);
}
