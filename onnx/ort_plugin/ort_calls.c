// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX Runtime's functions by name, its statuses, and lists of its objects. It decides where they
// are found, by the positions of ort_calls.def, and nothing else.
#include "ort_room.h"

#include <string.h>

bool kilni_ort_calls_find(const ort_base *base, ort_calls *out_calls)
{
    ort_table table = base->table(KILNI_ORT_VERSION);
    if (table == NULL) {
        return false;
    }
#define KILN_ORT_CALL(position, name, result, parameters)                                          \
    out_calls->name = (result(*) parameters)table[position];
#include "ort_calls.def"
    table = out_calls->ep_table();
    if (table == NULL) {
        return false;
    }
#define KILN_ORT_EP_CALL(position, name, result, parameters)                                       \
    out_calls->name = (result(*) parameters)table[position];
#include "ort_calls.def"
    return true;
}

// ---- statuses ----

kiln_status kilni_ort_take(const ort_calls *calls, ort_status *status, kiln_error *err)
{
    if (status == NULL) {
        return KILN_STATUS_OK;
    }
    (void)kiln_fail(err, INTERNAL, "ONNX Runtime: %s", calls->status_text(status));
    calls->status_release(status);
    return KILN_STATUS_INTERNAL;
}

ort_status *kilni_ort_give(const ort_calls *calls, kiln_status status, const kiln_error *err)
{
    int code = status == KILN_STATUS_INVALID_ARGUMENT ? KILNI_ORT_INVALID_ARGUMENT
               : status == KILN_STATUS_UNIMPLEMENTED  ? KILNI_ORT_NOT_IMPLEMENTED
                                                      : KILNI_ORT_FAIL;
    return status == KILN_STATUS_OK ? NULL : calls->status_create(code, err->message);
}

// ---- lists ----

kiln_status kilni_ort_nodes(const ort_calls *calls, const kiln_env *env, const ort_graph *graph,
                            ort_nodes *out_nodes, kiln_error *err)
{
    size_t count = 0;
    *out_nodes = (ort_nodes){0};
    kiln_status status = kilni_ort_take(calls, calls->graph_n_nodes(graph, &count), err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const ort_node **items = kiln_alloc_array(env, count + 1, sizeof(*items));
    if (items == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu nodes", count);
    }
    status = kilni_ort_take(calls, calls->graph_nodes(graph, items, count), err);
    if (status != KILN_STATUS_OK) {
        kiln_free(env, items);
        return status;
    }
    *out_nodes = (ort_nodes){items, count};
    return KILN_STATUS_OK;
}

/// Counts the values; with `items`, fetches them.
static ort_status *fetch(const ort_calls *calls, ort_which which, const ort_node *node,
                         const ort_value_info **items, size_t *count)
{
    switch (which) {
    case KILNI_ORT_INPUTS:
        return items == NULL ? calls->node_n_inputs(node, count)
                             : calls->node_inputs(node, items, *count);
    case KILNI_ORT_IMPLICIT:
        return items == NULL ? calls->node_n_implicit(node, count)
                             : calls->node_implicit(node, items, *count);
    case KILNI_ORT_OUTPUTS:
        return items == NULL ? calls->node_n_outputs(node, count)
                             : calls->node_outputs(node, items, *count);
    }
    return NULL;
}

kiln_status kilni_ort_infos(const ort_calls *calls, const kiln_env *env, ort_which which,
                            const ort_node *node, ort_infos *out_infos, kiln_error *err)
{
    size_t count = 0;
    *out_infos = (ort_infos){0};
    kiln_status status = kilni_ort_take(calls, fetch(calls, which, node, NULL, &count), err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const ort_value_info **items = kiln_alloc_array(env, count + 1, sizeof(*items));
    if (items == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu values", count);
    }
    status = kilni_ort_take(calls, fetch(calls, which, node, items, &count), err);
    if (status != KILN_STATUS_OK) {
        kiln_free(env, items);
        return status;
    }
    *out_infos = (ort_infos){items, count};
    return KILN_STATUS_OK;
}

kiln_status kilni_ort_name(const ort_calls *calls, const ort_value_info *info,
                           const char **out_name, kiln_error *err)
{
    *out_name = "";
    return info == NULL ? KILN_STATUS_OK
                        : kilni_ort_take(calls, calls->info_name(info, out_name), err);
}

bool kilni_ort_is_constant(const ort_calls *calls, const ort_value_info *info)
{
    bool constant = false;
    return kilni_ort_take(calls, calls->info_is_constant(info, &constant), NULL) ==
               KILN_STATUS_OK &&
           constant;
}

int kilni_ort_element(const ort_calls *calls, const ort_value_info *info)
{
    const ort_type *type = NULL;
    const ort_shape *tensor = NULL;
    int element = 0;
    if (kilni_ort_take(calls, calls->info_type(info, &type), NULL) != KILN_STATUS_OK ||
        type == NULL ||
        kilni_ort_take(calls, calls->type_tensor(type, &tensor), NULL) != KILN_STATUS_OK ||
        tensor == NULL ||
        kilni_ort_take(calls, calls->shape_type(tensor, &element), NULL) != KILN_STATUS_OK) {
        return 0;
    }
    return element;
}

kiln_dtype kilni_ort_dtype(int element)
{
    static const kiln_dtype dtypes[KILNI_ORT_TYPES + 1] = {
        [1] = KILN_DTYPE_F32,  [2] = KILN_DTYPE_U8,   [3] = KILN_DTYPE_I8,   [4] = KILN_DTYPE_U16,
        [5] = KILN_DTYPE_I16,  [6] = KILN_DTYPE_I32,  [7] = KILN_DTYPE_I64,  [9] = KILN_DTYPE_BOOL,
        [10] = KILN_DTYPE_F16, [11] = KILN_DTYPE_F64, [12] = KILN_DTYPE_U32, [13] = KILN_DTYPE_U64,
        [16] = KILN_DTYPE_BF16};
    return element < 0 || element > KILNI_ORT_TYPES ? KILN_DTYPE_NONE : dtypes[element];
}

// ---- numbers by name ----

static size_t place(const ort_names *names, const char *name)
{
    size_t at = (size_t)kiln_hash64(name, strlen(name), 0) & (names->size - 1);
    while (names->keys[at] != NULL && strcmp(names->keys[at], name) != 0) {
        at = (at + 1) & (names->size - 1);
    }
    return at;
}

static kiln_status grow(ort_names *names, kiln_error *err)
{
    ort_names more = {.env = names->env, .size = names->size == 0 ? 64 : names->size * 2};
    more.keys = kiln_alloc_array(names->env, more.size, sizeof(*more.keys));
    more.numbers = kiln_alloc_array(names->env, more.size, sizeof(*more.numbers));
    if (more.keys == NULL || more.numbers == NULL) {
        kilni_ort_names_fini(&more);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for names");
    }
    for (size_t i = 0; i < names->size; i++) {
        if (names->keys[i] != NULL) {
            size_t at = place(&more, names->keys[i]);
            more.keys[at] = names->keys[i];
            more.numbers[at] = names->numbers[i];
        }
    }
    more.count = names->count;
    kilni_ort_names_fini(names);
    *names = more;
    return KILN_STATUS_OK;
}

kiln_status kilni_ort_names_set(ort_names *names, const char *name, uint32_t number,
                                kiln_error *err)
{
    if (names->count * 2 >= names->size) {
        kiln_status status = grow(names, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    size_t at = place(names, name);
    names->count += names->keys[at] == NULL;
    names->keys[at] = name;
    names->numbers[at] = number;
    return KILN_STATUS_OK;
}

uint32_t kilni_ort_names_get(const ort_names *names, const char *name, uint32_t otherwise)
{
    if (names->size == 0) {
        return otherwise;
    }
    size_t at = place(names, name);
    return names->keys[at] == NULL ? otherwise : names->numbers[at];
}

void kilni_ort_names_fini(ort_names *names)
{
    kiln_free(names->env, names->keys);
    kiln_free(names->env, names->numbers);
}
