// SPDX-License-Identifier: MIT OR Apache-2.0
// The text form of records and graphs. Decides nothing about operators: names, attributes and their
// order come from the table. Floats are written so that reading gives the same value; parse.c reads
// what is written here.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph_internal.h"

static void print_desc(const kiln_tensor_desc *desc, kiln_string *out)
{
    const char *dtype = kiln_dtype_name(desc->dtype);
    kiln_string_printf(out, "%s[", dtype != NULL ? dtype : "?");
    for (unsigned i = 0; i < desc->rank; i++) {
        kiln_string_printf(out, "%s%" PRId64, i > 0 ? "," : "", desc->dims[i]);
    }
    kiln_string_append(out, "]", 1);
    if (desc->scheme != 0) {
        kiln_string_printf(out, "{%" PRIx64 "}", desc->scheme);
    }
}

static void print_tensor(const kiln_tensor_desc *desc, kiln_string *out)
{
    kiln_string_printf(out, "%%%" PRIu64 ": ", desc->id);
    print_desc(desc, out);
}

/// Always with a point, an exponent or a word, so that it is no integer.
static void print_float(double value, kiln_string *out)
{
    char text[40];
    if (isnan(value) || isinf(value)) {
        kiln_string_printf(out, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    snprintf(text, sizeof(text), "%.17g", value);
    bool plain = strpbrk(text, ".e") == NULL;
    kiln_string_printf(out, "%s%s", text, plain ? ".0" : "");
}

static void print_text(const char *text, uint32_t length, kiln_string *out)
{
    kiln_string_append(out, "\"", 1);
    for (uint32_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\') {
            kiln_string_printf(out, "\\%c", c);
        } else if (c < 0x20 || c >= 0x7f) {
            kiln_string_printf(out, "\\x%02x", c);
        } else {
            kiln_string_append(out, &text[i], 1);
        }
    }
    kiln_string_append(out, "\"", 1);
}

static void print_constant(const kiln_tensor_const *tensor, kiln_string *out)
{
    const unsigned char *bytes = tensor->data;
    int64_t count = kiln_desc_bytes(&tensor->desc);
    print_desc(&tensor->desc, out);
    kiln_string_append(out, "{", 1);
    for (int64_t i = 0; i < count; i++) {
        kiln_string_printf(out, "%02x", bytes[i]);
    }
    kiln_string_append(out, "}", 1);
}

static void print_list(const kiln_attr *attr, kiln_string *out)
{
    kiln_string_append(out, "[", 1);
    for (uint32_t i = 0; i < attr->count; i++) {
        kiln_string_append(out, ",", i > 0 ? 1 : 0);
        if (attr->type == KILN_ATTR_I64_LIST) {
            kiln_string_printf(out, "%" PRId64, attr->v.ints[i]);
        } else {
            print_float(attr->v.floats[i], out);
        }
    }
    kiln_string_append(out, "]", 1);
}

void kilni_ir_print_attr(const kiln_attr *attr, kiln_string *out)
{
    switch (attr->type) {
    case KILN_ATTR_I64:
        kiln_string_printf(out, "%" PRId64, attr->v.i);
        break;
    case KILN_ATTR_F64:
        print_float(attr->v.f, out);
        break;
    case KILN_ATTR_BOOL:
        kiln_string_printf(out, "%s", attr->v.i != 0 ? "true" : "false");
        break;
    case KILN_ATTR_DTYPE: {
        const char *name = kiln_dtype_name((kiln_dtype)attr->v.i);
        kiln_string_printf(out, "%s", name != NULL ? name : "?");
        break;
    }
    case KILN_ATTR_I64_LIST:
    case KILN_ATTR_F64_LIST:
        print_list(attr, out);
        break;
    case KILN_ATTR_STRING:
        print_text(attr->v.text, attr->count, out);
        break;
    case KILN_ATTR_TENSOR:
        print_constant(attr->v.tensor, out);
        break;
    default:
        kiln_string_append(out, "?", 1);
        break;
    }
}

void kiln_ir_print_op(const kiln_op_record *record, kiln_string *out)
{
    if (record == NULL || out == NULL) {
        return;
    }
    const kiln_op_info *info = kiln_op_info_of(record->op);
    const char *comma = "";
    for (unsigned i = 0; i < record->n_outputs; i++) {
        kiln_string_printf(out, "%s", i > 0 ? ", " : "");
        print_tensor(&record->outputs[i], out);
    }
    kiln_string_printf(out, "%s%s(", record->n_outputs > 0 ? " = " : "", kilni_ir_op_name(record));
    for (unsigned i = 0; i < record->n_inputs; i++, comma = ", ") {
        kiln_string_printf(out, "%s", comma);
        print_tensor(&record->inputs[i], out);
    }
    for (unsigned i = 0; info != NULL && i < record->n_attrs; i++) {
        if (record->attrs[i].type != KILN_ATTR_NONE) {
            kiln_string_printf(out, "%s%s=", comma, kiln_attr_name(info->signature->attrs[i].key));
            kilni_ir_print_attr(&record->attrs[i], out);
            comma = ", ";
        }
    }
    kiln_string_append(out, ")", 1);
}

kiln_status kiln_ir_print(const kiln_ir_graph *graph, kiln_string *out, kiln_error *err)
{
    if (graph == NULL || out == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "graph and out must not be NULL");
    }
    for (size_t i = 0; i < graph->n_inputs; i++) {
        kiln_string_printf(out, "input ");
        print_tensor(&graph->inputs[i], out);
        kiln_string_printf(out, "%s\n",
                           (graph->inputs[i].flags & KILN_TENSOR_CONST) != 0 ? " const" : "");
    }
    for (size_t i = 0; i < graph->n_ops; i++) {
        kiln_ir_print_op(&graph->ops[i], out);
        kiln_string_append(out, "\n", 1);
    }
    for (size_t i = 0; i < graph->n_outputs; i++) {
        kiln_string_printf(out, "output %%%" PRIu64 "\n", graph->outputs[i]);
    }
    return out->failed ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a graph's text")
                       : KILN_STATUS_OK;
}
