// SPDX-License-Identifier: MIT OR Apache-2.0
// The weights of a model: the initialisers of its graph. Decides which of them are parameters, from
// their dtype and from what reads them.
#include "onnx_model.h"

#include <string.h>

/// Inputs of floats that say how to compute, or what was counted, and are not learnt.
static const struct {
    const char *op_type;
    uint32_t first;
    uint32_t last;
} settings[] = {
    {"BatchNormalization", 3, 4}, // mean and variance
    {"Resize", 1, 2},
    {"Upsample", 1, 1},
    {"QuantizeLinear", 1, 1},
    {"DequantizeLinear", 1, 1},
};

static bool is_setting(const kilni_onnx_node *node, const char *name)
{
    for (size_t k = 0; k < sizeof(settings) / sizeof(settings[0]); k++) {
        if (node->domain[0] != '\0' || strcmp(node->op_type, settings[k].op_type) != 0) {
            continue;
        }
        for (uint32_t i = settings[k].first; i <= settings[k].last && i < node->n_inputs; i++) {
            if (strcmp(node->inputs[i], name) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool is_read(const kilni_onnx_node *node, const char *name)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (strcmp(node->inputs[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_parameter(const kilni_onnx_graph *graph, const kilni_onnx_tensor *tensor)
{
    bool read = false;
    if (kiln_dtype_kind_of(tensor->dtype) != KILN_KIND_FLOAT || tensor->count < 2) {
        return false;
    }
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        if (is_setting(&graph->nodes[i], tensor->name)) {
            return false;
        }
        read = read || is_read(&graph->nodes[i], tensor->name);
    }
    return read;
}

/// Whether elements lie in memory as those of a tensor of the dtype.
static bool is_plain(const kilni_onnx_tensor *tensor)
{
    return tensor->dtype != KILN_DTYPE_NONE && tensor->indices == NULL &&
           tensor->onnx_type == kilni_onnx_type_of(tensor->dtype);
}

kiln_status kilni_onnx_check_weight(const kilni_onnx_tensor *weight, const char *name,
                                    const kiln_tensor *tensor, kiln_error *err)
{
    if (weight == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "the model has no weight '%.64s'", name);
    }
    if (!is_plain(weight) || kiln_dtype_kind_of(weight->dtype) != KILN_KIND_FLOAT) {
        return kiln_fail(err, INVALID_ARGUMENT, "weight '%.64s' is not of floats: it stays", name);
    }
    bool same =
        kiln_tensor_dtype(tensor) == weight->dtype && kiln_tensor_rank(tensor) == weight->rank &&
        memcmp(kiln_tensor_dims(tensor), weight->dims, weight->rank * sizeof(weight->dims[0])) == 0;
    return same ? KILN_STATUS_OK
                : kiln_fail(err, INVALID_ARGUMENT,
                            "weight '%.64s' is %s of %lld elements, what is given %s of %lld, or "
                            "the shapes differ",
                            name, kiln_dtype_name(weight->dtype), (long long)weight->count,
                            kiln_dtype_name(kiln_tensor_dtype(tensor)),
                            (long long)kiln_tensor_count(tensor));
}

kiln_status kiln_onnx_model_weights(const kiln_onnx_model *model, kiln_onnx_weight_fn fn,
                                    void *user, kiln_error *err)
{
    if (model == NULL || fn == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "model and fn must not be NULL");
    }
    const kilni_onnx_graph *graph = &model->graph;
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < graph->n_initializers && status == KILN_STATUS_OK; i++) {
        const kilni_onnx_tensor *tensor = &graph->initializers[i];
        kiln_onnx_weight_info info = {.struct_size = (uint32_t)sizeof(info),
                                      .is_parameter = is_parameter(graph, tensor),
                                      .name = tensor->name,
                                      .dtype = tensor->dtype,
                                      .rank = tensor->rank,
                                      .data = tensor->data,
                                      .bytes = tensor->bytes};
        memcpy(info.dims, tensor->dims, sizeof(tensor->dims));
        if (is_plain(tensor)) {
            status = fn(&info, user, err);
        }
    }
    return status;
}
