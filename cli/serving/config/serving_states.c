// SPDX-License-Identifier: MIT OR Apache-2.0
// Models whose requests belong to sequences. Decides which inputs and outputs do not travel:
// states, which stay between the requests of a sequence, and controls, which say where in it a
// request stands.

#include "serving_states.h"

#include "serving_tensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_SEQUENCES = 128, MOST_SEQUENCES = 65536, USUAL_IDLE_US = 1000000 };

static const char *text_of(const kilni_serving_node *members, const char *key)
{
    const kilni_serving_node *node = kilni_serving_node_find(members, key);
    return node != NULL && node->value != NULL ? node->value : "";
}

static uint32_t first_axis(const kiln_model_info *info)
{
    return info->max_batch > 0 ? 1 : 0;
}

/// Finds the tensor that a node names behind `key` and takes it out of the list.
static kiln_status take_tensor(const kilni_serving_node *node, const char *key, const char *what,
                               kiln_model_tensor *tensors, uint32_t *count, kiln_model_tensor *out,
                               kiln_error *err)
{
    const char *name = text_of(node->members, key);
    kiln_model_tensor *found = kilni_serving_tensor_find(tensors, *count, name);
    if (found == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "line %u: the model has no %s \"%.60s\", or it is named twice", node->line,
                         what, name);
    }
    *out = *found;
    memmove(found, found + 1, (size_t)(&tensors[*count] - found - 1) * sizeof(*found));
    (*count)--;
    return KILN_STATUS_OK;
}

// ---- states ----

/// What lies in `output` of the configuration travels.
static kiln_status check_unlisted(const kilni_serving_node *config, const char *key,
                                  const char *name, kiln_error *err)
{
    const kilni_serving_node *node = kilni_serving_node_find(config, key);
    for (; node != NULL; node = kilni_serving_node_again(node)) {
        if (strcmp(text_of(node->members, "name"), name) == 0) {
            return kiln_fail(err, UNIMPLEMENTED,
                             "line %u: %.60s is kept between requests and does not travel",
                             node->line, name);
        }
    }
    return KILN_STATUS_OK;
}

/// The first value is zeros, of extents that must be known.
static kiln_status fill_first_value(const kilni_serving_node *state, uint32_t first,
                                    kiln_model_tensor *input, kiln_error *err)
{
    const kilni_serving_node *node = kilni_serving_node_find(state->members, "initial_state");
    kiln_status status = KILN_STATUS_OK;
    if (node != NULL && kilni_serving_node_find(node->members, "data_file") != NULL) {
        return kiln_fail(err, UNIMPLEMENTED, "line %u: data_file is not served; states begin as 0",
                         node->line);
    }
    if (node != NULL) {
        status = kilni_serving_tensor_narrow(node, first, input, err);
    }
    for (uint32_t i = first; status == KILN_STATUS_OK && i < input->rank; i++) {
        if (input->dims[i] < 0) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "line %u: extent %u of state %.60s is open: initial_state { dims .. } "
                             "says what it begins with",
                             state->line, i, input->name);
        }
    }
    return status;
}

/// A state that does not grow: rows of several sequences fit into one tensor.
static bool keeps_extents(const kiln_model_tensor *input, const kiln_model_tensor *output,
                          uint32_t first)
{
    bool keeps = input->rank == output->rank;
    for (uint32_t i = first; keeps && i < input->rank; i++) {
        keeps = input->dims[i] >= 0 && (output->dims[i] < 0 || output->dims[i] == input->dims[i]);
    }
    return keeps;
}

static kiln_status fill_state(const kilni_serving_node *config, const kilni_serving_node *node,
                              kiln_model_info *info, kiln_error *err)
{
    kiln_model_state *state = &info->states[info->n_states];
    kiln_model_tensor *input = &state->input;
    kiln_model_tensor output;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status,
             take_tensor(node, "input_name", "input", info->inputs, &info->n_inputs, input, err));
    KILN_TRY(
        out, status,
        take_tensor(node, "output_name", "output", info->outputs, &info->n_outputs, &output, err));
    memcpy(state->output, output.name, sizeof(state->output));
    KILN_TRY(out, status, check_unlisted(config, "input", input->name, err));
    KILN_TRY(out, status, check_unlisted(config, "output", output.name, err));
    KILN_TRY(out, status, kilni_serving_tensor_check_type(node, input, err));
    KILN_TRY(out, status, kilni_serving_tensor_check_type(node, &output, err));
    KILN_TRY(out, status, kilni_serving_tensor_narrow(node, first_axis(info), input, err));
    info->joins = info->joins && keeps_extents(input, &output, first_axis(info));
    KILN_TRY(out, status, fill_first_value(node, first_axis(info), input, err));
    info->n_states++;
out:
    return status;
}

// ---- controls ----

static const struct {
    const char *name;
    kiln_model_control_kind kind;
} control_kinds[] = {
    {"CONTROL_SEQUENCE_START", KILN_MODEL_CONTROL_START},
    {"CONTROL_SEQUENCE_END", KILN_MODEL_CONTROL_END},
    {"CONTROL_SEQUENCE_READY", KILN_MODEL_CONTROL_READY},
    {"CONTROL_SEQUENCE_CORRID", KILN_MODEL_CONTROL_ID},
};

static bool read_value(const kilni_serving_node *node, double *out_value)
{
    char *end = NULL;
    if (node == NULL || node->value == NULL || node->value[0] == '\0') {
        return false;
    }
    if (strcmp(node->value, "true") == 0 || strcmp(node->value, "false") == 0) {
        *out_value = node->value[0] == 't';
        return true;
    }
    *out_value = strtod(node->value, &end);
    return *end == '\0';
}

/// The pair of numbers that the input's type goes by.
static kiln_status fill_values(const kilni_serving_node *node, kiln_model_control *control,
                               kiln_error *err)
{
    const char *key = control->input.dtype == KILN_DTYPE_F32   ? "fp32_false_true"
                      : control->input.dtype == KILN_DTYPE_I32 ? "int32_false_true"
                                                               : "bool_false_true";
    const kilni_serving_node *no = kilni_serving_node_find(node->members, key);
    const kilni_serving_node *yes = no != NULL ? kilni_serving_node_again(no) : NULL;
    if (!read_value(no, &control->no) || !read_value(yes, &control->yes) ||
        kilni_serving_node_again(yes) != NULL) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "line %u: input %.60s is TYPE_%s: it takes %s: "
                         "[ no, yes ]",
                         node->line, control->input.name,
                         kiln_model_dtype_name(control->input.dtype), key);
    }
    return KILN_STATUS_OK;
}

/// A control is one number for each row.
static kiln_status check_control(const kilni_serving_node *node, const kiln_model_control *control,
                                 uint32_t first, kiln_error *err)
{
    kiln_dtype dtype = control->input.dtype;
    bool whole = dtype == KILN_DTYPE_I32 || dtype == KILN_DTYPE_U32 || dtype == KILN_DTYPE_I64 ||
                 dtype == KILN_DTYPE_U64;
    bool flag = dtype == KILN_DTYPE_F32 || dtype == KILN_DTYPE_I32 || dtype == KILN_DTYPE_BOOL;
    bool fits = control->kind == KILN_MODEL_CONTROL_ID ? whole : flag;
    for (uint32_t i = first; i < control->input.rank; i++) {
        fits = fits && control->input.dims[i] <= 1 && control->input.dims[i] != 0;
    }
    return fits ? KILN_STATUS_OK
                : kiln_fail(err, INVALID_ARGUMENT,
                            "line %u: input %.60s, TYPE_%s of rank %u, is no place for %.40s",
                            node->line, control->input.name, kiln_model_dtype_name(dtype),
                            control->input.rank, text_of(node->members, "kind"));
}

static kiln_status fill_control(const kilni_serving_node *input, kiln_model_info *info,
                                kiln_error *err)
{
    kiln_model_control *control = &info->controls[info->n_controls];
    const kilni_serving_node *node = kilni_serving_node_find(input->members, "control");
    kiln_status status = KILN_STATUS_OK;
    size_t found = 0;
    size_t count = sizeof(control_kinds) / sizeof(control_kinds[0]);
    if (node == NULL || kilni_serving_node_again(node) != NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "line %u: a control_input has one control",
                         input->line);
    }
    while (found < count &&
           strcmp(control_kinds[found].name, text_of(node->members, "kind")) != 0) {
        found++;
    }
    if (found == count || info->n_controls == KILN_MODEL_CONTROLS) {
        return kiln_fail(err, INVALID_ARGUMENT, "line %u: %s \"%.40s\"", node->line,
                         found == count ? "there is no control" : "there are too many controls at",
                         text_of(node->members, "kind"));
    }
    control->kind = control_kinds[found].kind;
    KILN_TRY(
        out, status,
        take_tensor(input, "name", "input", info->inputs, &info->n_inputs, &control->input, err));
    KILN_TRY(out, status, kilni_serving_tensor_check_type(node, &control->input, err));
    KILN_TRY(out, status, check_control(node, control, first_axis(info), err));
    if (control->kind != KILN_MODEL_CONTROL_ID) {
        KILN_TRY(out, status, fill_values(node, control, err));
    }
    info->n_controls++;
out:
    return status;
}

// ---- sequences ----

static kiln_status read_number(const kilni_serving_node *node, int64_t usual, int64_t most,
                               int64_t *out_number, kiln_error *err)
{
    *out_number = usual;
    kiln_status status =
        node != NULL ? kilni_serving_node_number(node, 0, most, out_number, err) : KILN_STATUS_OK;
    *out_number = *out_number > 0 ? *out_number : usual;
    return status;
}

const kilni_serving_node *kilni_serving_states_strategy(const kilni_serving_node *config)
{
    const kilni_serving_node *sequences = kilni_serving_node_find(config, "sequence_batching");
    const kilni_serving_node *members = sequences != NULL ? sequences->members : NULL;
    const kilni_serving_node *oldest = kilni_serving_node_find(members, "oldest");
    return oldest != NULL ? oldest : kilni_serving_node_find(members, "direct");
}

static kiln_status fill_bounds(const kilni_serving_node *members,
                               const kilni_serving_node *strategy, kiln_model_info *info,
                               kiln_error *err)
{
    const kilni_serving_node *most =
        strategy != NULL ? kilni_serving_node_find(strategy->members, "max_candidate_sequences")
                         : NULL;
    int64_t number = 0;
    kiln_status status =
        read_number(kilni_serving_node_find(members, "max_sequence_idle_microseconds"),
                    USUAL_IDLE_US, INT64_MAX / 1000, &number, err);
    info->sequence_idle_us = (uint64_t)number;
    if (status == KILN_STATUS_OK) {
        status = read_number(most, USUAL_SEQUENCES, MOST_SEQUENCES, &number, err);
    }
    info->max_sequences = (uint32_t)number;
    return status;
}

static kiln_status check_sequences(const kilni_serving_node *config,
                                   const kilni_serving_node *sequences, kiln_error *err)
{
    static const char *const refused[] = {"iterative_sequence", "generative_sequence"};
    if (kilni_serving_node_find(config, "dynamic_batching") != NULL) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "line %u: sequence_batching and dynamic_batching exclude each other",
                         sequences->line);
    }
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        const kilni_serving_node *node = kilni_serving_node_find(sequences->members, refused[i]);
        if (node != NULL) {
            return kiln_fail(err, UNIMPLEMENTED, "line %u: %s is not served", node->line,
                             refused[i]);
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_serving_states_fill(const kilni_serving_node *config, kiln_model_info *info,
                                      kiln_error *err)
{
    const kilni_serving_node *sequences = kilni_serving_node_find(config, "sequence_batching");
    kiln_status status = KILN_STATUS_OK;
    if (sequences == NULL) {
        return KILN_STATUS_OK;
    }
    const kilni_serving_node *each = kilni_serving_node_find(sequences->members, "state");
    info->sequences = true;
    KILN_TRY(out, status, check_sequences(config, sequences, err));
    KILN_TRY(out, status,
             fill_bounds(sequences->members, kilni_serving_states_strategy(config), info, err));
    info->joins = info->max_batch > 1;
    for (; each != NULL; each = kilni_serving_node_again(each)) {
        KILN_TRY(out, status, fill_state(config, each, info, err));
    }
    each = kilni_serving_node_find(sequences->members, "control_input");
    for (; each != NULL; each = kilni_serving_node_again(each)) {
        KILN_TRY(out, status, fill_control(each, info, err));
    }
out:
    return status;
}
