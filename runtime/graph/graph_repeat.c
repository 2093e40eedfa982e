// SPDX-License-Identifier: MIT OR Apache-2.0
// Replays that only enqueue. When a run of a specialisation can be repeated (rt_repeat.h), the next
// one looks at its tensors in one pass, gives results their memory, and enqueues what was prepared.
// Decides which tensors allow that: those with values, dense, from the beginning of their buffers;
// what is carried has to be the caller's alone. Everything else is the business of an ordinary run.

#include "graph_parts.h"
#include "kiln_explained.h"
#include "rt_binding.h"
#include "rt_block_programs.h"
#include "rt_repeat.h"
#include "rt_tensor.h"
#include "rt_trace.h"

enum { MOST_REST_LOG2 = 10 }; ///< of the runs between two that are noted in vain

typedef struct seen_input {
    const kiln_tensor *tensor;
    uint64_t id; ///< of its value
    kiln_buffer *buffer;
} seen_input;

typedef struct seen_constant {
    const kilni_binding *binding;
    kiln_buffer *buffer;
    int64_t offset_bytes;
} seen_constant;

struct kilni_graph_repeat {
    kilni_repeat *launches; ///< NULL: what was prepared is void
    bool unused; ///< what was prepared has not been repeated yet
    uint32_t tries; ///< runs in a row that were noted in vain, as far as they count
    uint32_t rest; ///< runs until the next is noted
    seen_input *inputs; ///< of each input
    seen_constant *constants;
    uint32_t n_constants;
    kilni_binding *results; ///< of each output, while a run makes them
};

void kilni_graph_repeat_free(const kiln_graph *graph, kilni_graph_specialisation *spec)
{
    kilni_graph_repeat *repeat = spec->repeat;
    const kiln_env *env = kilni_graph_env(graph->device);
    if (repeat != NULL) {
        kilni_repeat_free(repeat->launches);
        kiln_free(env, repeat->inputs);
        kiln_free(env, repeat->constants);
        kiln_free(env, repeat->results);
        kiln_free(env, repeat);
        spec->repeat = NULL;
    }
}

// ---- noting a run ----

/// What a run sees of a tensor: a value from the beginning of a buffer, which nothing is to come
/// for.
static inline bool is_plain(const kiln_tensor *tensor)
{
    const kilni_binding *binding = &tensor->binding;
    return binding->bound && binding->fault == NULL && tensor->future == NULL &&
           !tensor->unresolved && binding->view.offset_bytes == 0 &&
           (binding->storage == NULL || binding->storage->dependencies == NULL);
}

static bool is_constant(const kiln_graph *graph, const kilni_graph_specialisation *spec,
                        const kiln_tensor *token)
{
    bool constant = !token->captured;
    for (size_t i = 0; i < graph->n_inputs && constant; i++) {
        constant = token != spec->inputs[i];
    }
    return constant;
}

static kilni_graph_repeat *make(const kiln_graph *graph, const kilni_graph_specialisation *spec)
{
    const kiln_env *env = kilni_graph_env(graph->device);
    kilni_graph_repeat *repeat = kiln_alloc(env, sizeof(*repeat));
    if (repeat == NULL) {
        return NULL;
    }
    repeat->inputs = kiln_alloc_array(env, graph->n_inputs + 1, sizeof(*repeat->inputs));
    repeat->constants = kiln_alloc_array(env, spec->n_tensors + 1u, sizeof(*repeat->constants));
    repeat->results = kiln_alloc_array(env, graph->n_outputs + 1, sizeof(*repeat->results));
    if (repeat->inputs == NULL || repeat->constants == NULL || repeat->results == NULL) {
        kiln_free(env, repeat->inputs);
        kiln_free(env, repeat->constants);
        kiln_free(env, repeat->results);
        kiln_free(env, repeat);
        return NULL;
    }
    for (uint32_t i = 0; i < spec->n_tensors; i++) {
        const kiln_tensor *token = spec->segment->tokens[i];
        if (is_constant(graph, spec, token)) {
            repeat->constants[repeat->n_constants++].binding = &token->binding;
        }
    }
    return repeat;
}

/// Is this a run as those are that can be repeated?
static bool may_repeat(const kiln_graph *graph, const kilni_graph_specialisation *spec,
                       kiln_tensor *const *inputs, bool advancing)
{
    bool may = spec->segment != NULL && spec->n_draws == 0 && advancing == (graph->n_carries > 0);
    for (uint32_t k = 0; k < graph->n_carries && may; k++) {
        may = graph->carries[k].in_place;
    }
    for (size_t i = 0; i < graph->n_inputs && may; i++) {
        may = is_plain(inputs[i]) && kiln_view_is_contiguous(&inputs[i]->binding.view);
    }
    return may;
}

static void note_in_vain(kilni_graph_repeat *repeat)
{
    repeat->unused = false;
    repeat->rest = 1u << repeat->tries;
    repeat->tries += repeat->tries < MOST_REST_LOG2;
}

kilni_repeat *kilni_graph_repeat_begin(const kiln_graph *graph, kilni_graph_specialisation *spec,
                                       kiln_tensor *const *inputs, bool advancing)
{
    if (spec->repeat == NULL && spec->segment != NULL && graph->device->backend->prepared != NULL) {
        spec->repeat = make(graph, spec);
    }
    kilni_graph_repeat *repeat = spec->repeat;
    if (repeat == NULL) {
        return NULL;
    }
    if (repeat->rest > 0) {
        repeat->rest--;
        return NULL;
    }
    if (!may_repeat(graph, spec, inputs, advancing)) {
        return NULL;
    }
    kilni_repeat_free(repeat->launches);
    repeat->launches = NULL;
    if (repeat->unused) {
        note_in_vain(repeat);
        return NULL;
    }
    repeat->launches = kilni_repeat_begin(graph->device);
    for (size_t i = 0; i < graph->n_inputs; i++) {
        repeat->inputs[i].buffer = inputs[i]->binding.view.buffer;
    }
    return repeat->launches;
}

/// An output that the run made, as opposed to one that is there before.
static bool is_made(const kiln_graph *graph, const kilni_graph_specialisation *spec, size_t output)
{
    return graph->input_of[output] >= graph->n_inputs && spec->outputs[output]->captured;
}

/// Whether a result is all that is in its buffer, dense.
static bool is_whole(const kilni_binding *result, const kiln_tensor_desc *desc)
{
    return result->fault == NULL && result->storage != NULL && !result->storage->planned &&
           result->storage->bytes == (uint64_t)kiln_desc_bytes(desc) &&
           result->view.offset_bytes == 0 && kiln_view_is_contiguous(&result->view);
}

/// Whether each carried value went on in its own memory, and each result has a buffer of its own.
static bool results_are_plain(const kiln_graph *graph, const kilni_graph_specialisation *spec,
                              kiln_tensor *const *inputs)
{
    bool plain = true;
    for (uint32_t k = 0; k < graph->n_carries && plain; k++) {
        const kilni_carry *carry = &graph->carries[k];
        const kilni_binding *next = &inputs[carry->input]->binding;
        plain = is_whole(next, &inputs[carry->input]->desc) &&
                next->view.buffer == spec->repeat->inputs[carry->input].buffer;
    }
    for (size_t i = 0; i < graph->n_outputs && plain; i++) {
        const kilni_binding *result = kilni_graph_result(graph, spec, inputs, i);
        plain = !is_made(graph, spec, i) || is_whole(result, &spec->outputs[i]->desc);
    }
    return plain;
}

static bool keep(const kiln_graph *graph, kilni_graph_specialisation *spec,
                 kiln_tensor *const *inputs)
{
    const kiln_env *env = kilni_graph_env(graph->device);
    kilni_graph_repeat *repeat = spec->repeat;
    uint32_t n_outside = (uint32_t)(graph->n_inputs + graph->n_outputs);
    kiln_buffer **buffers =
        kiln_alloc_array(env, (size_t)n_outside + repeat->n_constants + 1, sizeof(kiln_buffer *));
    bool kept = buffers != NULL && results_are_plain(graph, spec, inputs);
    for (size_t i = 0; i < graph->n_inputs && kept; i++) {
        repeat->inputs[i].tensor = inputs[i];
        repeat->inputs[i].id = inputs[i]->desc.id;
        buffers[i] = repeat->inputs[i].buffer;
    }
    for (size_t i = 0; i < graph->n_outputs && kept; i++) {
        buffers[graph->n_inputs + i] = is_made(graph, spec, i)
                                           ? kilni_graph_result(graph, spec, inputs, i)->view.buffer
                                           : NULL;
    }
    for (uint32_t i = 0; i < repeat->n_constants && kept; i++) {
        seen_constant *constant = &repeat->constants[i];
        constant->buffer = constant->binding->view.buffer;
        constant->offset_bytes = constant->binding->view.offset_bytes;
        kept = constant->binding->bound && constant->binding->fault == NULL &&
               kilni_binding_dependencies(constant->binding) == NULL;
        buffers[n_outside + i] = constant->buffer;
    }
    kept = kept && kilni_repeat_end(repeat->launches, buffers, n_outside, buffers + n_outside,
                                    repeat->n_constants);
    kiln_free(env, (void *)buffers);
    return kept;
}

void kilni_graph_repeat_end(const kiln_graph *graph, kilni_graph_specialisation *spec,
                            kiln_tensor *const *inputs)
{
    kilni_graph_repeat *repeat = spec->repeat;
    repeat->unused = keep(graph, spec, inputs);
    if (!repeat->unused) {
        kilni_repeat_free(repeat->launches);
        repeat->launches = NULL;
        note_in_vain(repeat);
    }
}

// ---- repeating one ----

/// Whether a tensor that was not there in the last run can be input `number`.
static bool can_be_input(const kilni_graph_specialisation *spec, size_t number,
                         const kiln_tensor *tensor)
{
    const kiln_tensor_desc *like = &spec->inputs[number]->desc;
    return tensor->device == spec->stream->device && !tensor->captured &&
           kiln_tensor_dtype(tensor) == kiln_tensor_dtype(spec->inputs[number]) &&
           tensor->desc.scheme == like->scheme && kiln_desc_same_shape(&tensor->desc, like) &&
           kiln_view_is_contiguous(&tensor->binding.view);
}

/// Whether a run may write over the tensor's memory: nobody but the caller has it.
static inline bool is_only_callers(const kiln_tensor *tensor)
{
    const kilni_storage *storage = tensor->binding.storage;
    return atomic_load_explicit(&tensor->refs, memory_order_relaxed) == 1 && tensor->pins == 0 &&
           storage != NULL && storage->refs == 1 && !storage->foreign;
}

/// Whether no input that is carried was given twice.
static bool are_different(const kiln_graph *graph, kiln_tensor *const *inputs)
{
    bool different = true;
    for (size_t i = 0; i < graph->n_inputs; i++) {
        inputs[i]->slot = UINT32_MAX;
    }
    for (size_t i = 0; i < graph->n_inputs; i++) {
        uint32_t first = inputs[i]->slot;
        different = different && (first == UINT32_MAX || (graph->carry_of[i] == UINT32_MAX &&
                                                          graph->carry_of[first] == UINT32_MAX));
        inputs[i]->slot = (uint32_t)i;
    }
    return different;
}

static bool inputs_allow(const kiln_graph *graph, const kilni_graph_specialisation *spec,
                         kiln_tensor *const *inputs)
{
    const seen_input *seen = spec->repeat->inputs;
    bool new_ones = false;
    for (size_t i = 0; i < graph->n_inputs; i++) {
        const kiln_tensor *tensor = inputs[i];
        if (tensor == NULL) {
            return false;
        }
        bool same = tensor == seen[i].tensor && tensor->desc.id == seen[i].id;
        if ((!same && !can_be_input(spec, i, tensor)) || !is_plain(tensor) ||
            (graph->carry_of[i] != UINT32_MAX && !is_only_callers(tensor))) {
            return false;
        }
        new_ones = new_ones || !same;
    }
    return !new_ones || are_different(graph, inputs);
}

static bool constants_stay(const kilni_graph_repeat *repeat)
{
    bool stay = true;
    for (uint32_t i = 0; i < repeat->n_constants && stay; i++) {
        const seen_constant *constant = &repeat->constants[i];
        stay = constant->binding->view.buffer == constant->buffer &&
               constant->binding->view.offset_bytes == constant->offset_bytes &&
               constant->binding->fault == NULL &&
               kilni_binding_dependencies(constant->binding) == NULL;
    }
    return stay;
}

static bool make_results(const kiln_graph *graph, const kilni_graph_specialisation *spec)
{
    kilni_binding *results = spec->repeat->results;
    for (size_t i = 0; i < graph->n_outputs; i++) {
        if (is_made(graph, spec, i) && kilni_binding_alloc(graph->device, &spec->outputs[i]->desc,
                                                           &results[i], NULL) != KILN_STATUS_OK) {
            return false;
        }
    }
    return true;
}

static void clear_results(const kiln_graph *graph, const kilni_graph_specialisation *spec)
{
    for (size_t i = 0; i < graph->n_outputs; i++) {
        kilni_binding_clear(graph->device, &spec->repeat->results[i]);
    }
}

static void place_all(const kiln_graph *graph, const kilni_graph_specialisation *spec,
                      kiln_tensor *const *inputs)
{
    kilni_graph_repeat *repeat = spec->repeat;
    for (size_t i = 0; i < graph->n_inputs; i++) {
        seen_input *seen = &repeat->inputs[i];
        kiln_buffer *buffer = inputs[i]->binding.view.buffer;
        if (buffer != seen->buffer) {
            seen->buffer = buffer;
            kilni_repeat_replace(repeat->launches, (uint32_t)i, buffer);
        }
        seen->tensor = inputs[i];
        seen->id = inputs[i]->desc.id;
    }
    for (size_t i = 0; i < graph->n_outputs; i++) {
        if (is_made(graph, spec, i)) {
            kilni_repeat_replace(repeat->launches, (uint32_t)(graph->n_inputs + i),
                                 repeat->results[i].view.buffer);
        }
    }
}

/// Outputs get what was made for them, and what is carried becomes the next value where it is.
static void give_all(const kiln_graph *graph, const kilni_graph_specialisation *spec,
                     kiln_tensor *const *inputs, kiln_tensor **out_tensors)
{
    uint64_t id = graph->n_carries > 0 ? kilni_tensor_ids(graph->n_carries) : 0;
    for (size_t i = 0; i < graph->n_outputs; i++) {
        kilni_tensor_settle(out_tensors[i], is_made(graph, spec, i)
                                                ? &spec->repeat->results[i]
                                                : kilni_graph_result(graph, spec, inputs, i));
    }
    for (uint32_t k = 0; k < graph->n_carries; k++) {
        uint32_t input = graph->carries[k].input;
        kilni_tensor_rename(inputs[input], id + k);
        spec->repeat->inputs[input].id = id + k;
    }
}

/// Some of a run was enqueued, and the rest could not be: what it writes has no value.
static void fail_all(const kiln_graph *graph, const kilni_graph_specialisation *spec,
                     kiln_tensor *const *inputs, kiln_tensor **out_tensors, const kiln_error *cause)
{
    kiln_device *device = graph->device;
    kilni_fault *fault = kilni_fault_create(device, cause);
    for (size_t i = 0; i < graph->n_outputs; i++) {
        if (is_made(graph, spec, i)) {
            kilni_binding_fail(device, &out_tensors[i]->binding, fault);
        } else {
            kilni_tensor_settle(out_tensors[i], kilni_graph_result(graph, spec, inputs, i));
        }
    }
    for (uint32_t k = 0; k < graph->n_carries; k++) {
        kilni_binding_fail(device, &inputs[graph->carries[k].input]->binding, fault);
    }
    if (device->faults.first == NULL) {
        device->faults.first = kilni_fault_create(device, cause);
    }
    kilni_fault_release(device, fault);
}

static bool repeat_one(const kiln_graph *graph, kilni_graph_specialisation *spec,
                       kiln_tensor *const *inputs, kiln_tensor **out_tensors)
{
    kilni_graph_repeat *repeat = spec->repeat;
    kiln_error err = KILN_ERROR_INIT;
    bool begun = false;
    if (!make_results(graph, spec) ||
        kilni_graph_make_outputs(graph, spec, inputs, out_tensors, NULL) != KILN_STATUS_OK ||
        !kilni_repeat_holds(repeat->launches)) { // memory may have been given back for them
        goto out;
    }
    place_all(graph, spec, inputs);
    if (kilni_repeat_run(repeat->launches, &begun, &err) == KILN_STATUS_OK) {
        give_all(graph, spec, inputs, out_tensors);
        begun = true;
        repeat->unused = false;
        repeat->tries = 0;
    } else if (begun) {
        fail_all(graph, spec, inputs, out_tensors, &err);
    }
    if (err.code != KILN_STATUS_OK) {
        kilni_repeat_free(repeat->launches);
        repeat->launches = NULL;
    }
out:
    clear_results(graph, spec);
    for (size_t i = 0; i < graph->n_outputs && !begun; i++) {
        if (out_tensors[i] != NULL) {
            kilni_tensor_release(out_tensors[i]);
            out_tensors[i] = NULL;
        }
    }
    return begun;
}

bool kilni_graph_run_again(const kiln_graph *graph, kiln_tensor *const *inputs, bool advancing,
                           kiln_tensor **out_tensors)
{
    if (advancing != (graph->n_carries > 0)) {
        return false;
    }
    for (kilni_graph_specialisation *spec = graph->specialisations; spec != NULL;
         spec = spec->next) {
        const kilni_graph_repeat *repeat = spec->repeat;
        if (repeat != NULL && repeat->launches != NULL && kilni_repeat_holds(repeat->launches) &&
            (spec->stays || !kiln_fuse_plan_outdone(spec->segment->plan)) &&
            inputs_allow(graph, spec, inputs) && constants_stay(repeat)) {
            return kilni_graph_find_capture(graph->device, kiln_thread_id()) == NULL &&
                   repeat_one(graph, spec, inputs, out_tensors);
        }
    }
    return false;
}
