// SPDX-License-Identifier: MIT OR Apache-2.0
// Which devices run which nodes of a model, for people and as JSON. Decides what is told of a part:
// where it begins, what it reads of the file, and what moves there in each run.

#include "model_parts.h"

#include <stdio.h>

static void add_part(const kiln_onnx_part_info *info, void *user)
{
    const char *name = info->name[0] != '\0' ? info->name : info->op_type;
    json_array_append_new(user, json_pack("{s:s, s:I, s:I, s:o, s:I, s:I}", "device",
                                          kiln_device_address(info->device), "first_node",
                                          (json_int_t)info->first_node, "nodes",
                                          (json_int_t)info->n_nodes, "from", cli_json_text(name),
                                          "constant_bytes", (json_int_t)info->constant_bytes,
                                          "values_moved", (json_int_t)info->n_cut));
}

json_t *model_parts(const kiln_onnx_session *session)
{
    json_t *parts = json_array();
    kiln_onnx_session_parts(session, add_part, parts);
    return parts;
}

static long long whole(const json_t *part, const char *name)
{
    return json_integer_value(json_object_get(part, name));
}

void model_print_parts(const json_t *parts)
{
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);
        char bytes[32];
        char from[64];
        snprintf(from, sizeof(from), "%s", json_string_value(json_object_get(part, "from")));
        cli_make_shown(from);
        printf("part %zu: %s, nodes %lld to %lld, from %s on; constants %s, values that move there "
               "%lld\n",
               i + 1, json_string_value(json_object_get(part, "device")), whole(part, "first_node"),
               whole(part, "first_node") + whole(part, "nodes") - 1, from,
               cli_format_bytes(bytes, (double)whole(part, "constant_bytes")),
               whole(part, "values_moved"));
    }
}
