// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ORT_ROOM_H
#define KILN_ORT_ROOM_H

// What the files of this folder share: ONNX Runtime's functions by name, models made from its
// graphs, and programs. Functions return Kiln's status; only the functions that ONNX Runtime calls
// turn it into one of its own (kilni_ort_give).

#include "onnx.h"
#include "ort_abi.h"

/// ONNX Runtime's functions.
typedef struct ort_calls {
#define KILN_ORT_CALL(position, name, result, parameters) result(*name) parameters;
#define KILN_ORT_EP_CALL(position, name, result, parameters) result(*name) parameters;
#include "ort_calls.def"
} ort_calls;

/// Finds the functions. False: this ONNX Runtime is older than interface 23.
bool kilni_ort_calls_find(const ort_base *base, ort_calls *out_calls);

/// Frees a status of ONNX Runtime and turns it into one of ours.
kiln_status kilni_ort_take(const ort_calls *calls, ort_status *status, kiln_error *err);

/// A status for ONNX Runtime with the record's text; NULL for OK.
ort_status *kilni_ort_give(const ort_calls *calls, kiln_status status, const kiln_error *err);

// ---- lists of ONNX Runtime's objects ----

/// An array that ONNX Runtime filled; free it with kiln_free.
typedef struct ort_nodes {
    const ort_node **items;
    size_t count;
} ort_nodes;

typedef struct ort_infos {
    const ort_value_info **items; ///< NULL items are optional values left out
    size_t count;
} ort_infos;

typedef enum ort_which {
    KILNI_ORT_INPUTS,
    KILNI_ORT_IMPLICIT, ///< read by graphs inside the node
    KILNI_ORT_OUTPUTS
} ort_which;

/// Nodes of a graph, in topological order. The caller frees `items`.
kiln_status kilni_ort_nodes(const ort_calls *calls, const kiln_env *env, const ort_graph *graph,
                            ort_nodes *out_nodes, kiln_error *err);
/// Values of a node. The caller frees `items`.
kiln_status kilni_ort_infos(const ort_calls *calls, const kiln_env *env, ort_which which,
                            const ort_node *node, ort_infos *out_infos, kiln_error *err);
/// Name of a value; "" of one left out. It lives as long as its graph.
kiln_status kilni_ort_name(const ort_calls *calls, const ort_value_info *info,
                           const char **out_name, kiln_error *err);
/// Whether the value is a constant that no caller can replace.
bool kilni_ort_is_constant(const ort_calls *calls, const ort_value_info *info);
/// ONNX's number of a tensor's element type; 0 for what is no tensor, or of few bits.
int kilni_ort_element(const ort_calls *calls, const ort_value_info *info);
/// Kiln's dtype of a number; KILN_DTYPE_NONE for one that Kiln has not.
kiln_dtype kilni_ort_dtype(int element);

/// Numbers by name. Zero it first.
typedef struct ort_names {
    const kiln_env *env;
    const char **keys; ///< borrowed
    uint32_t *numbers;
    size_t size; ///< a power of two
    size_t count;
} ort_names;

/// Sets the number of a name.
kiln_status kilni_ort_names_set(ort_names *names, const char *name, uint32_t number,
                                kiln_error *err);
/// The number of a name; `otherwise` where it has none.
uint32_t kilni_ort_names_get(const ort_names *names, const char *name, uint32_t otherwise);
void kilni_ort_names_fini(ort_names *names);

// ---- models ----

/// What becomes a model: nodes of a graph of ONNX Runtime. What they read and do not make goes in.
typedef struct ort_part {
    const ort_graph *graph;
    ort_nodes nodes; ///< in topological order
    ort_infos outputs;
    bool with_constants; ///< their bytes are copied; else they are inputs too
} ort_part;

/// Writes the part as a file in memory and opens it. The caller owns `*out_model`
/// (kiln_onnx_model_close). Graphs inside nodes are left out.
kiln_status kilni_ort_model(const ort_calls *calls, const kiln_env *env, const ort_part *part,
                            kiln_onnx_model **out_model, kiln_error *err);

// ---- which nodes ----

/// Gives to ONNX Runtime, as sets of nodes that can be one each, all nodes that Kiln serves.
kiln_status kilni_ort_capability(const ort_calls *calls, kiln_device *device,
                                 const ort_graph *graph, ort_support *support, kiln_error *err);

// ---- programs ----

/// A fused node: a model on a device, with its captured runs. `*out_compute` is given back by
/// kilni_ort_program_destroy.
kiln_status kilni_ort_program_create(const ort_calls *calls, kiln_device *device,
                                     const ort_graph *graph, const ort_node *fused,
                                     ort_compute **out_compute, kiln_error *err);
void kilni_ort_program_destroy(ort_compute *compute);

#endif
