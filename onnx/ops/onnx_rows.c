// SPDX-License-Identifier: MIT OR Apache-2.0
// Which operator a node is: the row of onnx_ops.def for its type and version, or the operator of a
// plugin. The only place that lists the handlers of onnx_op_*.c.
#include "onnx_run.h"

#include <string.h>

static const kilni_onnx_row rows[] = {
#define KILN_ONNX_OP(type, first, last, least, most, handler, op)                                  \
    {#type, first, last, least, most, kilni_onnx_op_##handler, KILN_OP_##op, NULL},
#include "onnx_ops.def"
#undef KILN_ONNX_OP
};

/// Nodes of foreign domains that a plugin serves.
static const kilni_onnx_row custom_row = {
    "custom", 1, INT32_MAX, 0, UINT32_MAX, kilni_onnx_op_custom, KILN_OP_COUNT, NULL};

/// Served although in no standard, where no plugin brings it.
static const struct {
    const char *domain;
    kilni_onnx_row row;
} contributed[] = {
#define KILN_ONNX_CONTRIB(domain, type, last, least, most, handler, attributes)                    \
    {domain,                                                                                       \
     {#type, 1, last, least, most, kilni_onnx_op_##handler, KILN_OP_COUNT, " " attributes " "}},
#include "onnx_contrib.def"
#undef KILN_ONNX_CONTRIB
};

static const kilni_onnx_row *find_contributed(const kilni_onnx_node *node, int64_t version,
                                              bool *out_known)
{
    for (size_t i = 0; i < sizeof(contributed) / sizeof(contributed[0]); i++) {
        const kilni_onnx_row *row = &contributed[i].row;
        if (strcmp(node->domain, contributed[i].domain) == 0 &&
            strcmp(node->op_type, row->op_type) == 0) {
            *out_known = true;
            return version <= row->last ? row : NULL;
        }
    }
    return NULL;
}

/// Standard operators that are not served, and why.
static const struct {
    const char *op_type;
    const char *reason;
} refused[] = {
#define KILN_ONNX_OP(type, first, last, least, most, handler, op)
#define KILN_ONNX_REFUSED(type, reason) {#type, reason},
#include "onnx_ops.def"
#undef KILN_ONNX_OP
};

/// The attributes of the newest set's operators, between blanks.
static const struct {
    const char *op_type;
    const char *names;
} attributes[] = {
#define KILN_ONNX_ATTRS(type, names) {#type, " " names " "},
#include "onnx_attrs.def"
#undef KILN_ONNX_ATTRS
};

static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = strstr(words, word); at != NULL && length > 0;
         at = strstr(at + 1, word)) {
        if (at[-1] == ' ' && at[length] == ' ') {
            return true;
        }
    }
    return false;
}

static const char *unknown_attr(const kilni_onnx_node *node, const kilni_onnx_row *row)
{
    const char *names = row->attrs != NULL ? row->attrs : " ";
    for (size_t i = 0; row->attrs == NULL && i < sizeof(attributes) / sizeof(attributes[0]); i++) {
        if (strcmp(attributes[i].op_type, node->op_type) == 0) {
            names = attributes[i].names;
        }
    }
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        if (!has_word(names, node->attrs[i].name)) {
            return node->attrs[i].name;
        }
    }
    return NULL;
}

/// A set that is newer than all rows is served by the newest row.
static const kilni_onnx_row *find_standard(const char *op_type, int64_t version, bool *out_known)
{
    version = version > KILNI_ONNX_NEWEST_OPSET ? KILNI_ONNX_NEWEST_OPSET : version;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i].op_type, op_type) == 0) {
            *out_known = true;
            if (version >= rows[i].first && version <= rows[i].last) {
                return &rows[i];
            }
        }
    }
    return NULL;
}

static const kilni_onnx_row *find(kiln_device *device, const kilni_onnx_node *node, int64_t version,
                                  bool *out_known)
{
    const kiln_custom_op *op = NULL;
    *out_known = false;
    if (node->domain[0] == '\0') {
        const kilni_onnx_row *row = find_standard(node->op_type, version, out_known);
        return *out_known ? row : find_contributed(node, version, out_known);
    }
    kiln_status status = kilni_onnx_find_custom(device, node, version, &op, NULL);
    return status == KILN_STATUS_OK ? &custom_row : find_contributed(node, version, out_known);
}

static const char *refusal(const char *op_type)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (strcmp(refused[i].op_type, op_type) == 0) {
            return refused[i].reason;
        }
    }
    return NULL;
}

const kilni_onnx_operators kilni_onnx_all_operators = {
    .find = find, .refusal = refusal, .unknown_attr = unknown_attr};
