// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes graphs in the wire form of proto/kiln/v1/ir.proto, with nanopb. Sizes
// first, then bytes, so that one allocation is enough. What the fields mean stands in the .proto
// file.
#include <pb_encode.h>
#include <string.h>

#include "graph_internal.h"
#include "kiln/v1/ir.pb.h"

typedef struct slice { ///< what a callback writes
    const void *items;
    size_t count;
    const kiln_op_info *info; ///< of attributes
} slice;

static bool write_bytes(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const slice *bytes = *arg;
    return pb_encode_tag_for_field(stream, field) &&
           pb_encode_string(stream, bytes->items, bytes->count);
}

static kiln_v1_Tensor tensor_message(const kiln_tensor_desc *desc)
{
    kiln_v1_Tensor message = kiln_v1_Tensor_init_zero;
    message.id = desc->id;
    message.dtype = (kiln_v1_Dtype)desc->dtype;
    message.dims_count = desc->rank;
    memcpy(message.dims, desc->dims, desc->rank * sizeof(desc->dims[0]));
    message.scheme = desc->scheme;
    message.constant = (desc->flags & KILN_TENSOR_CONST) != 0;
    return message;
}

static bool write_tensors(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const slice *tensors = *arg;
    const kiln_tensor_desc *descs = tensors->items;
    for (size_t i = 0; i < tensors->count; i++) {
        kiln_v1_Tensor message = tensor_message(&descs[i]);
        if (!pb_encode_tag_for_field(stream, field) ||
            !pb_encode_submessage(stream, kiln_v1_Tensor_fields, &message)) {
            return false;
        }
    }
    return true;
}

static bool write_integers(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const slice *list = *arg;
    const int64_t *values = list->items;
    pb_ostream_t sizing = PB_OSTREAM_SIZING;
    bool ok = true;
    for (size_t i = 0; ok && i < list->count; i++) {
        ok = pb_encode_svarint(&sizing, values[i]);
    }
    ok = ok && (list->count == 0 || (pb_encode_tag(stream, PB_WT_STRING, field->tag) &&
                                     pb_encode_varint(stream, sizing.bytes_written)));
    for (size_t i = 0; ok && i < list->count; i++) {
        ok = pb_encode_svarint(stream, values[i]);
    }
    return ok;
}

static bool write_reals(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const slice *list = *arg;
    const double *values = list->items;
    bool ok = list->count == 0 || (pb_encode_tag(stream, PB_WT_STRING, field->tag) &&
                                   pb_encode_varint(stream, list->count * 8));
    for (size_t i = 0; ok && i < list->count; i++) {
        ok = pb_encode_fixed64(stream, &values[i]);
    }
    return ok;
}

static bool write_ids(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const slice *list = *arg;
    const uint64_t *ids = list->items;
    bool ok = true;
    for (size_t i = 0; ok && i < list->count; i++) {
        ok = pb_encode_tag(stream, PB_WT_VARINT, field->tag) && pb_encode_varint(stream, ids[i]);
    }
    return ok;
}

/// The slices that callbacks of one attribute point to.
typedef struct attr_parts {
    slice name;
    slice list;
    slice data;
} attr_parts;

static void fill_attr(const kiln_attr *attr, kiln_v1_Attribute *message, attr_parts *parts)
{
    parts->list = (slice){.items = attr->v.ints, .count = attr->count};
    switch (attr->type) {
    case KILN_ATTR_F64:
        message->real = attr->v.f;
        break;
    case KILN_ATTR_I64_LIST:
        message->integers = (pb_callback_t){.funcs.encode = write_integers, .arg = &parts->list};
        break;
    case KILN_ATTR_F64_LIST:
        message->reals = (pb_callback_t){.funcs.encode = write_reals, .arg = &parts->list};
        break;
    case KILN_ATTR_STRING:
        message->text = (pb_callback_t){.funcs.encode = write_bytes, .arg = &parts->list};
        break;
    case KILN_ATTR_TENSOR:
        message->has_tensor = true;
        message->tensor.has_desc = true;
        message->tensor.desc = tensor_message(&attr->v.tensor->desc);
        parts->data.items = attr->v.tensor->data;
        parts->data.count = (size_t)kiln_desc_bytes(&attr->v.tensor->desc);
        message->tensor.data = (pb_callback_t){.funcs.encode = write_bytes, .arg = &parts->data};
        break;
    default:
        message->integer = attr->v.i;
        break;
    }
}

static bool write_attrs(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const slice *list = *arg;
    const kiln_attr *attrs = list->items;
    for (size_t i = 0; i < list->count; i++) {
        kiln_v1_Attribute message = kiln_v1_Attribute_init_zero;
        attr_parts parts = {{0}, {0}, {0}};
        if (attrs[i].type == KILN_ATTR_NONE) {
            continue;
        }
        const char *name = kiln_attr_name(list->info->signature->attrs[i].key);
        parts.name = (slice){.items = name, .count = strlen(name)};
        message.name = (pb_callback_t){.funcs.encode = write_bytes, .arg = &parts.name};
        message.type = (kiln_v1_AttributeType)attrs[i].type;
        fill_attr(&attrs[i], &message, &parts);
        if (!pb_encode_tag_for_field(stream, field) ||
            !pb_encode_submessage(stream, kiln_v1_Attribute_fields, &message)) {
            return false;
        }
    }
    return true;
}

/// An operation's message with the slices that it points to.
typedef struct op_message {
    kiln_v1_Operation message;
    slice name;
    slice inputs;
    slice outputs;
    slice attrs;
} op_message;

static void fill_op(const kiln_op_record *record, op_message *op)
{
    const kiln_op_info *info = kiln_op_info_of(record->op);
    op->message = (kiln_v1_Operation)kiln_v1_Operation_init_zero;
    op->name = (slice){.items = info->name, .count = strlen(info->name)};
    op->inputs = (slice){.items = record->inputs, .count = record->n_inputs};
    op->outputs = (slice){.items = record->outputs, .count = record->n_outputs};
    op->attrs = (slice){.items = record->attrs, .count = record->n_attrs, .info = info};
    op->message.name = (pb_callback_t){.funcs.encode = write_bytes, .arg = &op->name};
    op->message.since = info->since;
    op->message.inputs = (pb_callback_t){.funcs.encode = write_tensors, .arg = &op->inputs};
    op->message.outputs = (pb_callback_t){.funcs.encode = write_tensors, .arg = &op->outputs};
    op->message.has_n_attributes = true;
    for (unsigned i = 0; i < record->n_attrs; i++) {
        op->message.n_attributes += record->attrs[i].type != KILN_ATTR_NONE ? 1 : 0;
    }
    op->message.attributes = (pb_callback_t){.funcs.encode = write_attrs, .arg = &op->attrs};
}

static bool write_ops(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const slice *ops = *arg;
    const kiln_op_record *records = ops->items;
    for (size_t i = 0; i < ops->count; i++) {
        op_message op;
        fill_op(&records[i], &op);
        if (!pb_encode_tag_for_field(stream, field) ||
            !pb_encode_submessage(stream, kiln_v1_Operation_fields, &op.message)) {
            return false;
        }
    }
    return true;
}

static kiln_status encode(const kiln_env *env, const pb_msgdesc_t *fields, const void *message,
                          kiln_blob *out_bytes, kiln_error *err)
{
    size_t length = 0;
    *out_bytes = (kiln_blob){NULL, 0};
    if (!pb_get_encoded_size(&length, fields, message)) {
        return kiln_fail(err, INTERNAL, "a message has no size");
    }
    void *data = kiln_alloc(env, length > 0 ? length : 1);
    if (data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a message of %zu bytes", length);
    }
    pb_ostream_t stream = pb_ostream_from_buffer(data, length);
    if (!pb_encode(&stream, fields, message)) {
        kiln_free(env, data);
        return kiln_fail(err, INTERNAL, "a message does not encode: %s", PB_GET_ERROR(&stream));
    }
    *out_bytes = (kiln_blob){data, length};
    return KILN_STATUS_OK;
}

kiln_status kiln_ir_encode(const kiln_env *env, const kiln_ir_graph *graph, kiln_blob *out_bytes,
                           kiln_error *err)
{
    if (out_bytes == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_bytes must not be NULL");
    }
    if (env == NULL || graph == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "env and graph must not be NULL");
    }
    slice inputs = {.items = graph->inputs, .count = graph->n_inputs};
    slice outputs = {.items = graph->outputs, .count = graph->n_outputs};
    slice ops = {.items = graph->ops, .count = graph->n_ops};
    kiln_v1_Graph message = kiln_v1_Graph_init_zero;
    message.version = 1;
    message.has_n_inputs = message.has_n_outputs = message.has_n_operations = true;
    message.n_inputs = (uint32_t)graph->n_inputs;
    message.n_outputs = (uint32_t)graph->n_outputs;
    message.n_operations = (uint32_t)graph->n_ops;
    message.inputs = (pb_callback_t){.funcs.encode = write_tensors, .arg = &inputs};
    message.outputs = (pb_callback_t){.funcs.encode = write_ids, .arg = &outputs};
    message.operations = (pb_callback_t){.funcs.encode = write_ops, .arg = &ops};
    return encode(env, kiln_v1_Graph_fields, &message, out_bytes, err);
}
