// SPDX-License-Identifier: MIT OR Apache-2.0
// A model file on a device: opens, matches inputs by name or position, captures, runs once. What
// is counted and told of runs is model_run.c's.

#include "model_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct argp_option options_table[] = {
    {"input", 'i', "[NAME=]FILE", 0,
     "an input from a .npy file, in the model's order when it has no name; an unknown name gets "
     "the "
     "list of them",
     0},
    {0},
};

/// "[NAME=]FILE", or a FILE that is there; `text` is cut in place.
static void add_option(model_options *options, char *text, struct argp_state *state)
{
    if (options->n_inputs == MODEL_RUN_MAX_IO) {
        argp_error(state, "more than %d inputs", MODEL_RUN_MAX_IO);
    }
    bool whole = access(text, F_OK) == 0; // a file whose path holds one
    char *equals = whole ? NULL : strchr(text, '=');
    model_run_input input = {.path = equals != NULL ? equals + 1 : text};
    if (equals != NULL) {
        *equals = '\0';
        input.name = text;
    }
    options->inputs[options->n_inputs++] = input;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    model_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->device;
        return 0;
    case 'i':
        add_option(options, text, state);
        return 0;
    case ARGP_KEY_ARG:
        if (options->model != NULL) {
            argp_error(state, "one model at a time; inputs are given with --input");
        }
        options->model = text;
        return 0;
    case ARGP_KEY_END:
        if (options->model == NULL) {
            argp_error(state, "say which model");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&cli_device_argp, 0, NULL, 0}, {0}};
const struct argp model_options_argp = {options_table, parse, NULL, NULL, children, NULL, NULL};

/// Of a model's inputs or outputs, in their order, as its errors list them.
enum { NAMES_ROOM = 128 };
static const char *list_names(const kiln_onnx_value_info *infos, size_t count,
                              char out_text[NAMES_ROOM])
{
    cli_names names = {.text = out_text, .capacity = NAMES_ROOM};
    for (size_t i = 0; i < count; i++) {
        cli_names_add(&names, infos[i].name);
    }
    return cli_names_end(&names);
}

static kiln_status find_input(const model_session *self, const model_run_input *input, size_t place,
                              const char **out_name, kiln_error *err)
{
    size_t count = 0;
    char names[NAMES_ROOM];
    const kiln_onnx_value_info *infos = kiln_onnx_model_inputs(self->model, &count);
    if (input->name == NULL) {
        if (place >= count) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "the model's inputs are %s; %.60s is one too many",
                             list_names(infos, count, names), input->path);
        }
        *out_name = infos[place].name;
        return KILN_STATUS_OK;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(infos[i].name, input->name) == 0) {
            *out_name = infos[i].name;
            return KILN_STATUS_OK;
        }
    }
    return kiln_fail(err, NOT_FOUND, "the model has no input \"%.40s\"; its inputs are %s",
                     input->name, list_names(infos, count, names));
}

kiln_status model_run_find_output(const kiln_onnx_model *model, const char *text, size_t place,
                                  size_t *out_index, const char **out_path, kiln_error *err)
{
    size_t count = 0;
    char names[NAMES_ROOM];
    const kiln_onnx_value_info *infos = kiln_onnx_model_outputs(model, &count);
    const char *equals = strchr(text, '=');
    for (size_t i = 0; equals != NULL && i < count; i++) {
        size_t length = (size_t)(equals - text);
        if (strlen(infos[i].name) == length && strncmp(infos[i].name, text, length) == 0) {
            *out_index = i;
            *out_path = equals + 1;
            return KILN_STATUS_OK;
        }
    }
    if (equals != NULL) {
        return kiln_fail(err, NOT_FOUND, "the model has no output \"%.*s\"; its outputs are %s",
                         (int)(equals - text < 40 ? equals - text : 40), text,
                         list_names(infos, count, names));
    }
    if (place >= count) {
        return kiln_fail(err, NOT_FOUND,
                         "the model's outputs are %s; --output %.60s is one too many",
                         list_names(infos, count, names), text);
    }
    *out_index = place;
    *out_path = text;
    return KILN_STATUS_OK;
}

/// Floats of both signs below 1, the same in every run, so that a wrong kernel shows; integers may
/// be indices and stay 0.
static void fill_floats(npy_array *array)
{
    size_t size = kiln_dtype_size(array->dtype);
    bool floats = kiln_dtype_kind_of(array->dtype) == KILN_KIND_FLOAT;
    for (uint64_t i = 0; floats && i < array->bytes / size; i++) {
        const kiln_attr value = {.type = KILN_ATTR_F64,
                                 .count = 1,
                                 .v.f = (double)(kiln_hash64(&i, sizeof(i), 0) % 511) / 256 -
                                        255.0 / 256};
        (void)kiln_number_store(&value, array->dtype, (char *)array->data + i * size);
    }
}

/// An array of the model's shape; lengths that it leaves open are 1.
static kiln_status make_array(const kiln_onnx_value_info *info, npy_array *out_array,
                              kiln_error *err)
{
    size_t size = kiln_dtype_size(info->dtype);
    if (size == 0 || info->rank > NPY_MAX_RANK) {
        return kiln_fail(err, UNIMPLEMENTED, "input \"%s\" of type %s; give it with --input",
                         info->name, info->type_name);
    }
    out_array->dtype = info->dtype;
    out_array->rank = info->rank;
    for (uint32_t i = 0; i < info->rank; i++) {
        out_array->dims[i] = info->dims[i].length >= 0 ? info->dims[i].length : 1;
        if (__builtin_mul_overflow(size, (size_t)out_array->dims[i], &size)) {
            return kiln_fail(err, OUT_OF_RANGE, "input \"%s\" is too large", info->name);
        }
    }
    out_array->bytes = size;
    out_array->data = calloc(1, size > 0 ? size : 1);
    if (out_array->data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", size);
    }
    fill_floats(out_array);
    return KILN_STATUS_OK;
}

static bool has_input(const model_session *self, const char *name)
{
    for (size_t i = 0; i < self->n_inputs; i++) {
        if (strcmp(self->inputs[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/// NumPy has no small floats: bytes are the bits of one where the model takes such.
static kiln_dtype input_dtype(const model_session *self, const char *name, kiln_dtype dtype)
{
    size_t count = 0;
    const kiln_onnx_value_info *infos = kiln_onnx_model_inputs(self->model, &count);
    for (size_t i = 0; dtype == KILN_DTYPE_U8 && i < count; i++) {
        if (strcmp(infos[i].name, name) == 0 &&
            kiln_dtype_kind_of(infos[i].dtype) == KILN_KIND_SMALL) {
            return infos[i].dtype;
        }
    }
    return dtype;
}

/// Uploads arrays[n_inputs] as the input `name`.
static kiln_status add_input(model_session *self, const char *name, kiln_error *err)
{
    size_t place = self->n_inputs;
    const npy_array *array = &self->arrays[place];
    kiln_status status =
        kiln_tensor_create(self->device, input_dtype(self, name, array->dtype), array->rank,
                           array->dims, array->data, &self->tensors[place], err);
    if (status == KILN_STATUS_OK) {
        self->inputs[place] =
            (kiln_onnx_input){.name = name, .tensor = self->tensors[place], .host = array->data};
        self->n_inputs++;
    }
    return status;
}

static kiln_status missing_input(const kiln_onnx_value_info *info, kiln_error *err)
{
    char wanted[96];
    kiln_onnx_value_info_text(info, wanted, sizeof(wanted));
    if (info->kind != KILN_ONNX_KIND_TENSOR) {
        return kiln_fail(err, UNIMPLEMENTED,
                         "the model's input \"%s\" is %s: a .npy file holds no such thing, the C "
                         "interface takes it",
                         info->name, wanted);
    }
    if (info->dtype == KILN_DTYPE_NONE) {
        return kiln_fail(err, UNIMPLEMENTED,
                         "the model's input \"%s\" is %s: element type %s is not supported",
                         info->name, wanted, info->type_name);
    }
    return kiln_fail(err, INVALID_ARGUMENT,
                     "the model's input \"%s\", %s, is missing; add --input %s=FILE.npy",
                     info->name, wanted, info->name);
}

static kiln_status load_inputs(model_session *self, const model_run_input *inputs, size_t n_inputs,
                               bool invent, kiln_error *err)
{
    size_t wanted = 0;
    const kiln_onnx_value_info *infos = kiln_onnx_model_inputs(self->model, &wanted);
    for (size_t i = 0; i < n_inputs; i++) {
        const char *name = NULL;
        kiln_status status = find_input(self, &inputs[i], i, &name, err);
        if (status == KILN_STATUS_OK && has_input(self, name)) {
            status = kiln_fail(err, INVALID_ARGUMENT, "input \"%s\" is given twice", name);
        }
        if (status == KILN_STATUS_OK) {
            status = npy_read(inputs[i].path, &self->arrays[i], err);
        }
        if (status == KILN_STATUS_OK) {
            status = add_input(self, name, err);
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    for (size_t i = 0; i < wanted; i++) {
        if (has_input(self, infos[i].name)) {
            continue;
        }
        if (!invent) {
            return missing_input(&infos[i], err);
        }
        if (self->n_inputs == MODEL_RUN_MAX_IO) {
            return kiln_fail(err, UNIMPLEMENTED, "more than %d inputs", MODEL_RUN_MAX_IO);
        }
        kiln_status status = make_array(&infos[i], &self->arrays[self->n_inputs], err);
        if (status == KILN_STATUS_OK) {
            status = add_input(self, infos[i].name, err);
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return KILN_STATUS_OK;
}

/// Leaves `graph` NULL for a model that cannot be captured.
static kiln_status capture(model_session *self, kiln_error *err)
{
    kiln_tensor *outputs[MODEL_RUN_MAX_IO] = {NULL};
    kiln_status status = kiln_graph_begin(self->device, self->tensors, self->n_inputs, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = kiln_onnx_session_run(self->session, self->inputs, self->n_inputs, outputs,
                                   self->n_outputs, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_graph_end(self->device, outputs, self->n_outputs, &self->graph, err);
    } else {
        kiln_graph_cancel(self->device);
        if (status == KILN_STATUS_FAILED_PRECONDITION) {
            status = KILN_STATUS_OK; // it reads values while recording: every run records
        }
    }
    for (size_t i = 0; i < self->n_outputs; i++) {
        kiln_release(outputs[i]);
    }
    return status;
}

kiln_status model_session_open(model_session *self, const model_options *options, bool invent,
                               kiln_error *err)
{
    memset(self, 0, sizeof(*self));
    kiln_status status = cli_open_context(&options->device, &self->context, err);
    if (status == KILN_STATUS_OK && options->trace != NULL) {
        status = kiln_trace_start(self->context, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_model_open(kiln_context_env(self->context), options->model, &self->model,
                                      err);
    }
    if (status == KILN_STATUS_OK) {
        (void)kiln_onnx_model_outputs(self->model, &self->n_outputs);
        if (self->n_outputs > MODEL_RUN_MAX_IO) {
            status = kiln_fail(err, UNIMPLEMENTED, "a model with %zu outputs", self->n_outputs);
        }
    }
    if (status == KILN_STATUS_OK) {
        status = cli_open_device(&options->device, self->context, &self->device, err);
    }
    if (status == KILN_STATUS_OK) {
        status = load_inputs(self, options->inputs, options->n_inputs, invent, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_session_create(self->model, self->device, &self->session, err);
    }
    if (status == KILN_STATUS_OK) {
        status = capture(self, err);
    }
    return status;
}

kiln_status model_session_recapture(model_session *self, kiln_error *err)
{
    kiln_graph_destroy(self->graph);
    self->graph = NULL;
    return capture(self, err);
}

kiln_status model_session_run(model_session *self, kiln_tensor **out_tensors, kiln_error *err)
{
    if (self->graph != NULL) {
        return kiln_graph_run(self->graph, self->tensors, self->n_inputs, out_tensors,
                              self->n_outputs, err);
    }
    return kiln_onnx_session_run(self->session, self->inputs, self->n_inputs, out_tensors,
                                 self->n_outputs, err);
}

kiln_status model_session_run_once(model_session *self, kiln_error *err)
{
    kiln_tensor *outputs[MODEL_RUN_MAX_IO] = {NULL};
    kiln_status status = model_session_run(self, outputs, err);
    if (status == KILN_STATUS_OK) { // while the results are held, so that they are computed
        status = kiln_sync(self->device, err);
    }
    for (size_t i = 0; i < MODEL_RUN_MAX_IO; i++) {
        kiln_release(outputs[i]);
    }
    return status;
}

kiln_status model_session_meet(model_session *self, kiln_error *err)
{
    enum { MEETING_RUNS = 3 };
    kiln_status status = KILN_STATUS_OK;
    for (int i = 0; self->graph == NULL && i < MEETING_RUNS && status == KILN_STATUS_OK; i++) {
        status = model_session_run_once(self, err);
    }
    return status;
}

typedef struct naming {
    model_graph_fn fn;
    void *user;
} naming;

static void name_part(const kiln_onnx_graph_info *info, void *user)
{
    const naming *n = user;
    char name[160];
    snprintf(name, sizeof(name), "%.60s, nodes %u to %u of %u, from %.40s on",
             info->where[0] != '\0' ? info->where : "graph", info->first_node,
             info->first_node + info->n_nodes - 1, info->n_others, info->op_type);
    n->fn(name, info->graph, n->user);
}

void model_session_graphs(const model_session *self, model_graph_fn fn, void *user)
{
    naming n = {fn, user};
    if (self->graph != NULL) {
        fn("", self->graph, user);
    } else {
        kiln_onnx_session_graphs(self->session, name_part, &n);
    }
}

void model_session_close(model_session *self)
{
    kiln_graph_destroy(self->graph);
    kiln_onnx_session_destroy(self->session);
    for (size_t i = 0; i < MODEL_RUN_MAX_IO; i++) {
        kiln_release(self->tensors[i]);
        npy_free(&self->arrays[i]);
    }
    kiln_onnx_model_close(self->model);
    kiln_device_release(self->device);
    cli_close_context(self->context);
    memset(self, 0, sizeof(*self));
}
