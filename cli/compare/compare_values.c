// SPDX-License-Identifier: MIT OR Apache-2.0
// What every node of a model made. The session tells of each node while it records; the tensors are
// held until the run is over, so that blocks stay fused, and are then read one by one.

#include "compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void compare_values_free(compare_values *values)
{
    for (size_t i = 0; i < values->count; i++) {
        free(values->items[i].name);
        free(values->items[i].op_type);
        kiln_npy_free(&values->items[i].array);
    }
    free(values->items);
    *values = (compare_values){0};
}

const compare_value *compare_find(const compare_values *values, const char *name)
{
    for (size_t i = 0; i < values->count; i++) {
        if (strcmp(values->items[i].name, name) == 0) {
            return &values->items[i];
        }
    }
    return NULL;
}

kiln_status compare_add(compare_values *values, const char *name, const char *op_type,
                        kiln_npy *take_array, kiln_error *err)
{
    if (values->count == values->room) {
        size_t room = values->room * 2 + 64;
        compare_value *grown = realloc(values->items, room * sizeof(*grown));
        if (grown == NULL) {
            kiln_npy_free(take_array);
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for values");
        }
        values->items = grown;
        values->room = room;
    }
    compare_value *made = &values->items[values->count++];
    *made = (compare_value){strdup(name), strdup(op_type), *take_array};
    *take_array = (kiln_npy){0};
    return made->name != NULL && made->op_type != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for values");
}

// ---- a run of Kiln ----

typedef struct gatherer {
    compare_values *values;
    kiln_tensor **tensors; ///< of the values; held
    size_t room;
    kiln_status status;
    kiln_error *err;
} gatherer;

static void hold(gatherer *g, const kiln_onnx_node_output *output, const char *op_type)
{
    kiln_npy none = {0};
    if (g->values->count == g->room) {
        size_t room = g->room * 2 + 64;
        kiln_tensor **grown = realloc((void *)g->tensors, room * sizeof(*grown));
        if (grown == NULL) {
            g->status = kiln_fail(g->err, RESOURCE_EXHAUSTED, "no memory for values");
            return;
        }
        g->tensors = grown;
        g->room = room;
    }
    g->tensors[g->values->count] = kiln_retain(output->tensor);
    g->status = compare_add(g->values, output->name, op_type, &none, g->err);
}

static void gather(const kiln_onnx_node_info *info, void *user)
{
    gatherer *g = user;
    for (uint32_t i = 0; i < info->n_outputs && g->status == KILN_STATUS_OK; i++) {
        const kiln_onnx_node_output *output = &info->outputs[i];
        if (output->tensor == NULL) {
            g->values->on_host += output->name[0] != '\0';
        } else if (output->name[0] != '\0') {
            hold(g, output, info->op_type);
        }
    }
}

static kiln_status read_value(kiln_tensor *tensor, kiln_npy *array, kiln_error *err)
{
    if (kiln_tensor_rank(tensor) > KILN_NPY_MAX_RANK) {
        return KILN_STATUS_OK; // stays without data
    }
    array->dtype = kiln_tensor_dtype(tensor);
    array->rank = kiln_tensor_rank(tensor);
    memcpy(array->dims, kiln_tensor_dims(tensor), array->rank * sizeof(int64_t));
    array->bytes = kiln_tensor_bytes(tensor);
    array->data = malloc(array->bytes + 1);
    return array->data != NULL
               ? kiln_read(tensor, array->data, array->bytes, err)
               : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", array->bytes);
}

kiln_status compare_run(model_session *session, compare_values *out_values, kiln_error *err)
{
    kiln_tensor *outputs[MODEL_RUN_MAX_IO] = {NULL};
    gatherer g = {.values = out_values, .err = err};
    kiln_onnx_session_trace(session->session, gather, &g);
    kiln_status status = kiln_onnx_session_run(session->session, session->inputs, session->n_inputs,
                                               outputs, session->n_outputs, err);
    kiln_onnx_session_trace(session->session, NULL, NULL);
    status = status == KILN_STATUS_OK ? g.status : status;
    for (size_t i = 0; i < out_values->count; i++) {
        compare_value *value = &out_values->items[i];
        if (status == KILN_STATUS_OK) {
            status = read_value(g.tensors[i], &value->array, err);
            status = status == KILN_STATUS_OK
                         ? status
                         : kiln_error_context(err, "%s (%s)", value->name, value->op_type);
        }
        kiln_release(g.tensors[i]);
    }
    for (size_t i = 0; i < session->n_outputs; i++) {
        kiln_release(outputs[i]);
    }
    free((void *)g.tensors);
    return status;
}

// ---- distances ----

static double apart_of(double a, double b)
{
    if (a == b || (isnan(a) && isnan(b))) {
        return 0;
    }
    double apart = fabs(a - b);
    return isnan(apart) ? (double)INFINITY : apart;
}

static bool same_shape(const kiln_npy *a, const kiln_npy *b, kiln_dtype kept_in)
{
    bool narrowed = a->dtype == kept_in && b->dtype == KILN_DTYPE_F32;
    return (a->dtype == b->dtype || narrowed) && a->rank == b->rank &&
           memcmp(a->dims, b->dims, a->rank * sizeof(*a->dims)) == 0;
}

compare_distance compare_arrays(const kiln_npy *array, const kiln_npy *other, double tolerance,
                                kiln_dtype kept_in)
{
    compare_distance d = {.count = kiln_npy_count(array)};
    d.comparable = same_shape(array, other, kept_in);
    for (size_t i = 0; d.comparable && i < d.count; i++) {
        double wanted = fabs(kiln_npy_number(other, i));
        d.largest = isfinite(wanted) ? fmax(d.largest, wanted) : d.largest;
    }
    bool exact = kiln_dtype_kind_of(array->dtype) != KILN_KIND_FLOAT;
    double allowed = exact ? 0 : tolerance * d.largest;
    for (size_t i = 0; d.comparable && i < d.count; i++) {
        double apart = apart_of(kiln_npy_number(array, i), kiln_npy_number(other, i));
        d.at = apart > d.worst ? i : d.at;
        d.worst = fmax(d.worst, apart);
        d.mean += apart / (double)d.count;
        d.differ += apart > allowed;
    }
    d.within = d.comparable && d.differ == 0;
    return d;
}
