// SPDX-License-Identifier: MIT OR Apache-2.0
// Nodes as a session tells of them while it records; what the device's count of operations grew by
// since the node before is its own.

#include "model_nodes.h"

#include <stdlib.h>
#include <string.h>

static uint64_t count_recorded(kiln_device *device)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(device, &stats);
    return stats.ops_recorded;
}

static bool make_node_room(model_nodes *nodes)
{
    if (nodes->count == nodes->room) {
        size_t wanted = nodes->room * 2 + 64;
        model_node *grown = realloc(nodes->items, wanted * sizeof(*grown));
        if (grown == NULL) {
            return false;
        }
        nodes->items = grown;
        nodes->room = wanted;
    }
    return true;
}

static void add_node(const kiln_onnx_node_info *info, void *user)
{
    model_nodes *nodes = user;
    uint64_t now = count_recorded(nodes->device);
    if (!make_node_room(nodes)) {
        nodes->failed = true;
        return;
    }
    nodes->items[nodes->count++] = (model_node){.name = strdup(info->name),
                                                .op_type = strdup(info->op_type),
                                                .attributes = strdup(info->attributes),
                                                .n_ops = now - nodes->recorded};
    nodes->recorded = now;
}

void model_nodes_begin(model_nodes *nodes, kiln_onnx_session *session, kiln_device *device)
{
    model_nodes_free(nodes);
    nodes->device = device;
    nodes->recorded = count_recorded(device);
    kiln_onnx_session_trace(session, add_node, nodes);
}

void model_nodes_end(model_nodes *nodes, kiln_onnx_session *session)
{
    (void)nodes;
    kiln_onnx_session_trace(session, NULL, NULL);
}

void model_nodes_free(model_nodes *nodes)
{
    for (size_t i = 0; i < nodes->count; i++) {
        free(nodes->items[i].name);
        free(nodes->items[i].op_type);
        free(nodes->items[i].attributes);
    }
    free(nodes->items);
    *nodes = (model_nodes){0};
}
