// SPDX-License-Identifier: MIT OR Apache-2.0
// A fused node: a model on a device and its runs. Decides that a run with shapes that were seen
// before replays what was captured for them, and that memory of ONNX Runtime is used where it lies
// when the device can.
#include "ort_room.h"

#include <pthread.h>
#include <string.h>

enum { MAX_GRAPHS = 16, MAX_VALUES = 1024 };

/// A captured run.
typedef struct replay {
    kiln_graph *graph; ///< NULL: such runs cannot be captured, they look at values
    int64_t *dims; ///< rank and lengths of each input
    uint64_t used; ///< number of the last run
} replay;

typedef struct program {
    ort_compute compute; ///< first: ONNX Runtime has its address
    const ort_calls *calls;
    const kiln_env *env;
    kiln_device *device;
    kiln_onnx_model *model;
    kiln_onnx_session *session;
    uint32_t *places; ///< of the model's inputs among the node's
    size_t n_inputs;
    size_t n_outputs;
    pthread_mutex_t lock; ///< one thread runs a session
    replay replays[MAX_GRAPHS];
    size_t n_replays;
    uint64_t runs;
} program;

/// What a run has in its hands.
typedef struct run {
    program *p;
    ort_kernel_context *context;
    kiln_onnx_input *inputs;
    kiln_tensor **tensors; ///< of the inputs, then of the outputs
    int64_t *dims; ///< rank and lengths of each input, one behind the other
    size_t dims_bytes;
    kiln_error *err;
} run;

// ---- inputs ----

static kiln_status shape_of(const program *p, const ort_value *value, int *element, size_t *rank,
                            int64_t *dims, kiln_error *err)
{
    ort_shape *shape = NULL;
    kiln_status status = kilni_ort_take(p->calls, p->calls->value_shape(value, &shape), err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    KILN_TRY(out, status, kilni_ort_take(p->calls, p->calls->shape_type(shape, element), err));
    KILN_TRY(out, status, kilni_ort_take(p->calls, p->calls->shape_rank(shape, rank), err));
    if (*rank > KILN_MAX_RANK) {
        status = kiln_fail(err, UNIMPLEMENTED, "an input of rank %zu, the limit is %d", *rank,
                           KILN_MAX_RANK);
        goto out;
    }
    status = kilni_ort_take(p->calls, p->calls->shape_dims(shape, dims, *rank), err);
out:
    p->calls->shape_release(shape);
    return status;
}

static kiln_status take_input(run *r, size_t index)
{
    program *p = r->p;
    const ort_value *value = NULL;
    const void *memory = NULL;
    int element = 0;
    size_t rank = 0;
    int64_t dims[KILN_MAX_RANK];
    kiln_status status = kilni_ort_take(
        p->calls, p->calls->context_input(r->context, p->places[index], &value), r->err);
    if (status == KILN_STATUS_OK && value == NULL) {
        status =
            kiln_fail(r->err, INVALID_ARGUMENT, "input '%s' is not given", r->inputs[index].name);
    }
    if (status == KILN_STATUS_OK) {
        status = shape_of(p, value, &element, &rank, dims, r->err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_ort_take(p->calls, p->calls->value_data(value, &memory), r->err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    size_t at = r->dims_bytes / sizeof(*dims);
    r->dims[at] = (int64_t)rank;
    memcpy(&r->dims[at + 1], dims, rank * sizeof(*dims));
    r->dims_bytes += (rank + 1) * sizeof(*dims);
    r->inputs[index].host = memory;
    return kiln_tensor_wrap(p->device, kilni_ort_dtype(element), rank, dims, (void *)memory, NULL,
                            NULL, &r->tensors[index], r->err);
}

static kiln_status take_inputs(run *r)
{
    size_t count = 0;
    const kiln_onnx_value_info *infos = kiln_onnx_model_inputs(r->p->model, &count);
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; status == KILN_STATUS_OK && i < count; i++) {
        r->inputs[i].name = infos[i].name;
        status = take_input(r, i);
        r->inputs[i].tensor = r->tensors[i];
    }
    return status;
}

// ---- captures ----

static kiln_status record(run *r, bool with_contents, kiln_tensor **outputs, kiln_error *err)
{
    for (size_t i = 0; !with_contents && i < r->p->n_inputs; i++) {
        r->inputs[i].host = NULL;
    }
    return kiln_onnx_session_run(r->p->session, r->inputs, r->p->n_inputs, outputs, r->p->n_outputs,
                                 err);
}

/// Captures a run. Without contents of the inputs, so that a model that looks at them is refused.
static kiln_graph *capture(run *r)
{
    program *p = r->p;
    kiln_tensor **outputs = r->tensors + p->n_inputs;
    const void *hosts[MAX_VALUES];
    kiln_graph *graph = NULL;
    for (size_t i = 0; i < p->n_inputs; i++) {
        hosts[i] = r->inputs[i].host;
    }
    if (kiln_graph_begin(p->device, r->tensors, p->n_inputs, NULL) != KILN_STATUS_OK) {
        return NULL;
    }
    if (record(r, false, outputs, NULL) != KILN_STATUS_OK) {
        kiln_graph_cancel(p->device);
    } else if (kiln_graph_end(p->device, outputs, p->n_outputs, &graph, NULL) != KILN_STATUS_OK) {
        graph = NULL;
    }
    for (size_t i = 0; i < p->n_outputs; i++) {
        kiln_release(outputs[i]);
        outputs[i] = NULL;
    }
    for (size_t i = 0; i < p->n_inputs; i++) {
        r->inputs[i].host = hosts[i];
    }
    return graph;
}

static void drop(program *p, size_t index)
{
    kiln_graph_destroy(p->replays[index].graph);
    kiln_free(p->env, p->replays[index].dims);
    p->replays[index] = p->replays[--p->n_replays];
}

/// The capture for the shapes of a run, made where there is none.
static kiln_status find_replay(run *r, kiln_graph **out_graph)
{
    program *p = r->p;
    size_t oldest = 0;
    p->runs++;
    for (size_t i = 0; i < p->n_replays; i++) {
        replay *known = &p->replays[i];
        if (memcmp(known->dims, r->dims, r->dims_bytes) == 0) {
            known->used = p->runs;
            *out_graph = known->graph;
            return KILN_STATUS_OK;
        }
        oldest = known->used < p->replays[oldest].used ? i : oldest;
    }
    if (p->n_replays == MAX_GRAPHS) {
        drop(p, oldest);
    }
    // All lists of dims have the same room, so that they can be compared.
    replay fresh = {
        .dims = kiln_alloc_array(p->env, p->n_inputs + 1, (KILN_MAX_RANK + 1) * sizeof(int64_t))};
    if (fresh.dims == NULL) {
        return kiln_fail(r->err, RESOURCE_EXHAUSTED, "no memory for a captured run");
    }
    memcpy(fresh.dims, r->dims, r->dims_bytes);
    fresh.graph = capture(r);
    fresh.used = p->runs;
    p->replays[p->n_replays++] = fresh;
    *out_graph = fresh.graph;
    return KILN_STATUS_OK;
}

// ---- outputs ----

static kiln_status give_outputs(run *r)
{
    program *p = r->p;
    kiln_tensor **outputs = r->tensors + p->n_inputs;
    void *memory[MAX_VALUES];
    size_t bytes[MAX_VALUES];
    for (size_t i = 0; i < p->n_outputs; i++) {
        ort_value *value = NULL;
        kiln_status status =
            kilni_ort_take(p->calls,
                           p->calls->context_output(r->context, i, kiln_tensor_dims(outputs[i]),
                                                    kiln_tensor_rank(outputs[i]), &value),
                           r->err);
        if (status == KILN_STATUS_OK) {
            status = kilni_ort_take(p->calls, p->calls->value_memory(value, &memory[i]), r->err);
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
        bytes[i] = kiln_tensor_bytes(outputs[i]);
    }
    return kiln_read_many(outputs, memory, bytes, p->n_outputs, r->err);
}

// ---- a run ----

static kiln_status run_once(run *r)
{
    program *p = r->p;
    kiln_graph *graph = NULL;
    kiln_tensor **outputs = r->tensors + p->n_inputs;
    kiln_status status = take_inputs(r);
    if (status == KILN_STATUS_OK) {
        status = find_replay(r, &graph);
    }
    if (status == KILN_STATUS_OK) {
        status = graph != NULL
                     ? kiln_graph_run(graph, r->tensors, p->n_inputs, outputs, p->n_outputs, r->err)
                     : record(r, true, outputs, r->err);
    }
    return status == KILN_STATUS_OK ? give_outputs(r) : status;
}

static ort_status *compute_run(ort_compute *self, void *state, ort_kernel_context *context)
{
    program *p = (program *)self;
    kiln_error err = KILN_ERROR_INIT;
    run r = {.p = p, .context = context, .err = &err};
    (void)state;
    size_t n_values = p->n_inputs + p->n_outputs;
    r.inputs = kiln_alloc_array(p->env, p->n_inputs + 1, sizeof(*r.inputs));
    r.tensors = kiln_alloc_array(p->env, n_values + 1, sizeof(kiln_tensor *));
    r.dims = kiln_alloc_array(p->env, p->n_inputs + 1, (KILN_MAX_RANK + 1) * sizeof(*r.dims));
    kiln_status status = KILN_STATUS_OK;
    if (r.inputs == NULL || r.tensors == NULL || r.dims == NULL) {
        status = kiln_fail(&err, RESOURCE_EXHAUSTED, "no memory for a run");
    } else {
        pthread_mutex_lock(&p->lock);
        status = run_once(&r);
        pthread_mutex_unlock(&p->lock);
    }
    for (size_t i = 0; r.tensors != NULL && i < n_values; i++) {
        kiln_release(r.tensors[i]);
    }
    kiln_free(p->env, r.dims);
    kiln_free(p->env, r.tensors);
    kiln_free(p->env, r.inputs);
    return kilni_ort_give(p->calls, status, &err);
}

static ort_status *compute_create(ort_compute *self, ort_compute_context *context, void **out_state)
{
    (void)context;
    *out_state = self;
    return NULL;
}

static void compute_release(ort_compute *self, void *state)
{
    (void)self;
    (void)state;
}

// ---- programs ----

/// Which inputs of the fused node the model's are.
static kiln_status find_places(program *p, const ort_node *fused, kiln_error *err)
{
    ort_infos infos;
    ort_names names = {.env = p->env};
    const kiln_onnx_value_info *inputs = kiln_onnx_model_inputs(p->model, &p->n_inputs);
    p->places = kiln_alloc_array(p->env, p->n_inputs + 1, sizeof(*p->places));
    kiln_status status =
        p->places == NULL ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for inputs")
                          : kilni_ort_infos(p->calls, p->env, KILNI_ORT_INPUTS, fused, &infos, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    for (size_t i = 0; status == KILN_STATUS_OK && i < infos.count; i++) {
        const char *name = NULL;
        status = kilni_ort_name(p->calls, infos.items[i], &name, err);
        if (status == KILN_STATUS_OK) {
            status = kilni_ort_names_set(&names, name, (uint32_t)i, err);
        }
    }
    for (size_t i = 0; status == KILN_STATUS_OK && i < p->n_inputs; i++) {
        p->places[i] = kilni_ort_names_get(&names, inputs[i].name, UINT32_MAX);
        if (p->places[i] == UINT32_MAX) {
            status = kiln_fail(err, INTERNAL, "value '%s' goes into a fused node unannounced",
                               inputs[i].name);
        }
    }
    kilni_ort_names_fini(&names);
    kiln_free(p->env, infos.items);
    return status;
}

static kiln_status open_model(program *p, const ort_graph *graph, const ort_node *fused,
                              kiln_error *err)
{
    ort_part part = {.graph = graph, .with_constants = true};
    kiln_status status = kilni_ort_nodes(p->calls, p->env, graph, &part.nodes, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_ort_infos(p->calls, p->env, KILNI_ORT_OUTPUTS, fused, &part.outputs, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_ort_model(p->calls, p->env, &part, &p->model, err);
    }
    kiln_free(p->env, part.outputs.items);
    kiln_free(p->env, part.nodes.items);
    return status;
}

static kiln_status fill(program *p, const ort_graph *graph, const ort_node *fused, kiln_error *err)
{
    kiln_status status = open_model(p, graph, fused, err);
    if (status == KILN_STATUS_OK) {
        status = find_places(p, fused, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    (void)kiln_onnx_model_outputs(p->model, &p->n_outputs);
    if (p->n_inputs > MAX_VALUES || p->n_outputs > MAX_VALUES) {
        return kiln_fail(err, UNIMPLEMENTED, "a fused node with %zu inputs and %zu outputs",
                         p->n_inputs, p->n_outputs);
    }
    return kiln_onnx_session_create(p->model, p->device, &p->session, err);
}

kiln_status kilni_ort_program_create(const ort_calls *calls, kiln_device *device,
                                     const ort_graph *graph, const ort_node *fused,
                                     ort_compute **out_compute, kiln_error *err)
{
    const kiln_env *env = kiln_context_env(kiln_device_context(device));
    program *p = kiln_alloc(env, sizeof(*p));
    if (p == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a fused node");
    }
    p->compute.version = KILNI_ORT_VERSION;
    p->compute.create = compute_create;
    p->compute.run = compute_run;
    p->compute.release = compute_release;
    p->calls = calls;
    p->env = env;
    p->device = kiln_device_retain(device);
    pthread_mutex_init(&p->lock, NULL);
    kiln_status status = fill(p, graph, fused, err);
    if (status != KILN_STATUS_OK) {
        kilni_ort_program_destroy(&p->compute);
        return status;
    }
    *out_compute = &p->compute;
    return KILN_STATUS_OK;
}

void kilni_ort_program_destroy(ort_compute *compute)
{
    program *p = (program *)compute;
    if (p == NULL) {
        return;
    }
    while (p->n_replays > 0) {
        drop(p, p->n_replays - 1);
    }
    kiln_onnx_session_destroy(p->session);
    kiln_onnx_model_close(p->model);
    kiln_free(p->env, p->places);
    pthread_mutex_destroy(&p->lock);
    kiln_device *device = p->device;
    kiln_free(p->env, p);
    kiln_device_release(device);
}
