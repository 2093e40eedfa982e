// SPDX-License-Identifier: MIT OR Apache-2.0
// A model's tensors, from its file and its configuration. Decides whether a model has a batch
// dimension where the configuration does not say so.

#include "serving_tensors.h"

#include <stdio.h>
#include <string.h>

static kiln_status fill_tensor(const kiln_onnx_value_info *value, const char *what,
                               kiln_model_tensor *out, kiln_error *err)
{
    if (strlen(value->name) >= sizeof(out->name)) {
        return kiln_fail(err, UNIMPLEMENTED, "%s %.40s... has a name of more than %d bytes", what,
                         value->name, KILN_MODEL_NAME - 1);
    }
    snprintf(out->name, sizeof(out->name), "%s", value->name);
    if (value->kind != KILN_ONNX_KIND_TENSOR || kiln_model_dtype_name(value->dtype) == NULL) {
        char text[96];
        kiln_onnx_value_info_text(value, text, sizeof(text));
        return kiln_fail(err, UNIMPLEMENTED, "%s %.60s is %s, which the protocol does not carry",
                         what, value->name, text);
    }
    if (!value->has_shape) {
        return kiln_fail(err, UNIMPLEMENTED, "%s %.60s has no rank in the model", what,
                         value->name);
    }
    out->dtype = value->dtype;
    out->rank = value->rank;
    for (uint32_t i = 0; i < value->rank; i++) {
        out->dims[i] = value->dims[i].length;
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_serving_tensors_fill(const kiln_onnx_value_info *values, size_t count,
                                       const char *what, kiln_model_tensor *out,
                                       uint32_t *out_count, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    if (count > KILN_MODEL_TENSORS) {
        return kiln_fail(err, UNIMPLEMENTED, "the model has %zu %ss, the most is %d", count, what,
                         KILN_MODEL_TENSORS);
    }
    for (size_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        status = fill_tensor(&values[i], what, &out[i], err);
    }
    *out_count = (uint32_t)count;
    return status;
}

/// Whether the first extents are open and one and the same.
bool kilni_serving_tensors_batched(const kiln_onnx_value_info *values, size_t count,
                                   const char **symbol)
{
    for (size_t i = 0; i < count; i++) {
        const kiln_onnx_dim *first = &values[i].dims[0];
        if (!values[i].has_shape || values[i].rank == 0 || first->length >= 0) {
            return false;
        }
        if (*symbol != NULL && first->symbol != NULL && strcmp(*symbol, first->symbol) != 0) {
            return false;
        }
        *symbol = *symbol != NULL ? *symbol : first->symbol;
    }
    return true;
}

kiln_status kilni_serving_tensors_check_batch(const kiln_model_tensor *tensors, uint32_t count,
                                              const char *what, uint32_t max_batch, kiln_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        if (tensors[i].rank == 0 || tensors[i].dims[0] >= 0) {
            return kiln_fail(
                err, INVALID_ARGUMENT,
                "max_batch_size is %u, but the first extent of %s %.60s is not open in "
                "the model: set it to 0",
                max_batch, what, tensors[i].name);
        }
    }
    return KILN_STATUS_OK;
}

kiln_model_tensor *kilni_serving_tensor_find(kiln_model_tensor *tensors, uint32_t count,
                                             const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(tensors[i].name, name) == 0) {
            return &tensors[i];
        }
    }
    return NULL;
}

/// What the configuration fixes is fixed; what it says otherwise than the model is an error.
kiln_status kilni_serving_tensor_narrow(const kilni_serving_node *node, uint32_t first,
                                        kiln_model_tensor *tensor, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    uint32_t axis = first;
    const kilni_serving_node *each = kilni_serving_node_find(node->members, "dims");
    for (; each != NULL; each = kilni_serving_node_again(each), axis++) {
        int64_t extent = -1;
        KILN_TRY(out, status, kilni_serving_node_number(each, -1, INT32_MAX, &extent, err));
        if (axis >= tensor->rank ||
            (extent >= 0 && tensor->dims[axis] >= 0 && extent != tensor->dims[axis])) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "line %u: the dims of %.60s are not those of the model", each->line,
                             tensor->name);
        }
        tensor->dims[axis] = extent >= 0 ? extent : tensor->dims[axis];
    }
    if (axis != first && axis != tensor->rank) {
        return kiln_fail(err, INVALID_ARGUMENT, "line %u: %.60s has %u dims, the model has %u%s",
                         node->line, tensor->name, axis - first, tensor->rank - first,
                         first > 0 ? " behind the batch dimension" : "");
    }
out:
    return status;
}

kiln_status kilni_serving_tensor_check_type(const kilni_serving_node *node,
                                            const kiln_model_tensor *tensor, kiln_error *err)
{
    const kilni_serving_node *type = kilni_serving_node_find(node->members, "data_type");
    const char *named = kiln_model_dtype_name(tensor->dtype);
    if (type != NULL && type->value != NULL &&
        (strncmp(type->value, "TYPE_", 5) != 0 || strcmp(type->value + 5, named) != 0)) {
        return kiln_fail(err, INVALID_ARGUMENT, "line %u: %.60s is TYPE_%s in the model",
                         type->line, tensor->name, named);
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_serving_tensors_check(const kilni_serving_node *config, const char *key,
                                        uint32_t first, kiln_model_tensor *tensors, uint32_t count,
                                        kiln_error *err)
{
    const kilni_serving_node *node = kilni_serving_node_find(config, key);
    kiln_status status = KILN_STATUS_OK;
    for (; node != NULL && status == KILN_STATUS_OK; node = kilni_serving_node_again(node)) {
        const kilni_serving_node *name = kilni_serving_node_find(node->members, "name");
        kiln_model_tensor *tensor = name != NULL && name->value != NULL
                                        ? kilni_serving_tensor_find(tensors, count, name->value)
                                        : NULL;
        if (tensor == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "line %u: the model has no %s \"%.60s\"",
                             node->line, key,
                             name != NULL && name->value != NULL ? name->value : "");
        }
        status = kilni_serving_tensor_check_type(node, tensor, err);
        if (kilni_serving_node_find(node->members, "reshape") != NULL) {
            return kiln_fail(err, UNIMPLEMENTED, "line %u: reshape is not served", node->line);
        }
        if (status == KILN_STATUS_OK) {
            status = kilni_serving_tensor_narrow(node, first, tensor, err);
        }
    }
    return status;
}
