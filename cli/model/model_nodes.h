// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_MODEL_NODES_H
#define KILN_MODEL_NODES_H

/// Which node of an ONNX model each recorded operation comes from.

#include "onnx.h"

typedef struct model_node {
    char *name;
    char *op_type;
    char *attributes; ///< "group=1, strides=[2,2]"
    uint64_t n_ops; ///< that it recorded, drops not counted
} model_node;

typedef struct model_nodes {
    kiln_device *device;
    model_node *items; ///< in the order in which they ran
    size_t count;
    size_t room;
    uint64_t recorded; ///< operations of the device so far
    bool failed; ///< there was no memory: the list is short
} model_nodes;

/// From now on the session's runs on the device add their nodes, until model_nodes_end.
void model_nodes_begin(model_nodes *nodes, kiln_onnx_session *session, kiln_device *device);
void model_nodes_end(model_nodes *nodes, kiln_onnx_session *session);
void model_nodes_free(model_nodes *nodes);

#endif
