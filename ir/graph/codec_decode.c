// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads graphs in the wire form. The bytes are hostile: every count is bounded by
// the limits of graph_internal.h before memory is taken for it, texts and lists by the bytes that
// are there, and the result passes the verifier. Damage that protobuf or the counts notice is
// DATA_LOSS; what only the verifier notices is INVALID_ARGUMENT.
#include <inttypes.h>
#include <pb_decode.h>
#include <string.h>

#include "graph_internal.h"
#include "kiln/v1/ir.pb.h"

typedef struct decoder { ///< shared by the callbacks of one message
    kiln_arena *arena;
    kiln_ir_graph *graph; ///< of a whole graph
    kiln_status status; ///< the first failure that is not nanopb's
    kiln_error *err;
} decoder;

typedef struct growing { ///< a list that doubles in the arena
    decoder *d;
    void *items;
    size_t count;
    size_t capacity;
    size_t size;
    size_t limit;
} growing;

static bool fail(decoder *d, kiln_status status)
{
    d->status = status;
    return false;
}

static void *add_item(growing *list)
{
    if (list->count == list->limit) {
        (void)fail(list->d, kiln_fail(list->d->err, INVALID_ARGUMENT,
                                      "a list has more than %zu items", list->limit));
        return NULL;
    }
    if (list->count == list->capacity) {
        size_t capacity = list->capacity > 0 ? list->capacity * 2 : 4;
        void *items = kiln_arena_alloc(list->d->arena, capacity * list->size);
        if (items == NULL) {
            (void)fail(list->d, kiln_fail(list->d->err, RESOURCE_EXHAUSTED, "no memory to decode"));
            return NULL;
        }
        if (list->count > 0) {
            memcpy(items, list->items, list->count * list->size);
        }
        list->items = items;
        list->capacity = capacity;
    }
    return (unsigned char *)list->items + list->count++ * list->size;
}

typedef struct bytes_slot { ///< a text or bytes field; the last one wins, as protobuf says
    decoder *d;
    char *data; ///< terminated
    size_t length;
    size_t limit;
} bytes_slot;

static bool read_bytes(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    bytes_slot *slot = *arg;
    size_t length = stream->bytes_left;
    (void)field;
    if (length > slot->limit) {
        return fail(slot->d, kiln_fail(slot->d->err, INVALID_ARGUMENT,
                                       "a text of %zu bytes exceeds %zu", length, slot->limit));
    }
    slot->data = kiln_arena_alloc(slot->d->arena, length + 1);
    slot->length = length;
    if (slot->data == NULL) {
        return fail(slot->d, kiln_fail(slot->d->err, RESOURCE_EXHAUSTED, "no memory to decode"));
    }
    return pb_read(stream, (pb_byte_t *)slot->data, length);
}

static bool tensor_of(decoder *d, const kiln_v1_Tensor *message, kiln_tensor_desc *out_desc)
{
    memset(out_desc, 0, sizeof(*out_desc));
    out_desc->id = message->id;
    if (message->dtype >= (uint32_t)KILN_DTYPE_LIMIT) {
        return fail(d, kiln_fail(d->err, INVALID_ARGUMENT, "%u is no dtype", message->dtype));
    }
    out_desc->dtype = (kiln_dtype)message->dtype;
    out_desc->rank = (uint8_t)message->dims_count;
    out_desc->scheme = message->scheme;
    out_desc->flags = message->constant ? KILN_TENSOR_CONST : 0;
    memcpy(out_desc->dims, message->dims, message->dims_count * sizeof(message->dims[0]));
    return true;
}

static bool decode_tensor(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    growing *list = *arg;
    kiln_v1_Tensor message = kiln_v1_Tensor_init_zero;
    (void)field;
    if (!pb_decode(stream, kiln_v1_Tensor_fields, &message)) {
        return false;
    }
    kiln_tensor_desc *desc = add_item(list);
    return desc != NULL && tensor_of(list->d, &message, desc);
}

static bool read_integer(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    growing *list = *arg;
    int64_t value = 0;
    (void)field;
    if (!pb_decode_svarint(stream, &value)) {
        return false;
    }
    int64_t *item = add_item(list);
    if (item != NULL) {
        *item = value;
    }
    return item != NULL;
}

static bool decode_id(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    growing *list = *arg;
    uint64_t value = 0;
    (void)field;
    if (!pb_decode_varint(stream, &value)) {
        return false;
    }
    uint64_t *item = add_item(list);
    if (item != NULL) {
        *item = value;
    }
    return item != NULL;
}

static bool read_real(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    growing *list = *arg;
    double value = 0;
    (void)field;
    if (!pb_decode_fixed64(stream, &value)) {
        return false;
    }
    double *item = add_item(list);
    if (item != NULL) {
        *item = value;
    }
    return item != NULL;
}

// ---- attributes ----

typedef struct wire_attr { ///< an attribute before its operator is known
    char *name;
    kiln_attr attr;
} wire_attr;

typedef struct attr_reader {
    kiln_v1_Attribute message;
    bytes_slot name;
    bytes_slot text;
    bytes_slot data;
    growing integers;
    growing reals;
} attr_reader;

static void attr_reader_init(attr_reader *r, decoder *d)
{
    memset(r, 0, sizeof(*r));
    r->name = (bytes_slot){.d = d, .limit = 64};
    r->text = (bytes_slot){.d = d, .limit = KILNI_IR_MAX_LIST};
    r->data = (bytes_slot){.d = d, .limit = KILNI_IR_MAX_CONST};
    r->integers = (growing){.d = d, .size = sizeof(int64_t), .limit = KILNI_IR_MAX_LIST};
    r->reals = (growing){.d = d, .size = sizeof(double), .limit = KILNI_IR_MAX_LIST};
    r->message.name = (pb_callback_t){.funcs.decode = read_bytes, .arg = &r->name};
    r->message.text = (pb_callback_t){.funcs.decode = read_bytes, .arg = &r->text};
    r->message.tensor.data = (pb_callback_t){.funcs.decode = read_bytes, .arg = &r->data};
    r->message.integers = (pb_callback_t){.funcs.decode = read_integer, .arg = &r->integers};
    r->message.reals = (pb_callback_t){.funcs.decode = read_real, .arg = &r->reals};
}

static bool constant_of(decoder *d, const attr_reader *r, kiln_attr *attr)
{
    kiln_tensor_const *tensor = kiln_arena_alloc(d->arena, sizeof(*tensor));
    if (tensor == NULL) {
        return fail(d, kiln_fail(d->err, RESOURCE_EXHAUSTED, "no memory to decode"));
    }
    if (!tensor_of(d, &r->message.tensor.desc, &tensor->desc)) {
        return false;
    }
    int64_t bytes = kiln_desc_bytes(&tensor->desc);
    if (bytes < 0 || (uint64_t)bytes != r->data.length) {
        return fail(d, kiln_fail(d->err, INVALID_ARGUMENT,
                                 "a constant has %zu bytes, its shape needs %" PRId64,
                                 r->data.length, bytes));
    }
    tensor->data = r->data.data != NULL ? r->data.data : (const void *)tensor;
    attr->v.tensor = tensor;
    return true;
}

static bool attr_of(decoder *d, const attr_reader *r, kiln_attr *attr)
{
    *attr = (kiln_attr){.type = (kiln_attr_type)r->message.type, .count = 1};
    switch (r->message.type) {
    case kiln_v1_AttributeType_ATTRIBUTE_TYPE_I64:
    case kiln_v1_AttributeType_ATTRIBUTE_TYPE_BOOL:
    case kiln_v1_AttributeType_ATTRIBUTE_TYPE_DTYPE:
        attr->v.i = r->message.integer;
        return true;
    case kiln_v1_AttributeType_ATTRIBUTE_TYPE_F64:
        attr->v.f = r->message.real;
        return true;
    case kiln_v1_AttributeType_ATTRIBUTE_TYPE_I64_LIST:
        attr->count = (uint32_t)r->integers.count;
        attr->v.ints = r->integers.items;
        return true;
    case kiln_v1_AttributeType_ATTRIBUTE_TYPE_F64_LIST:
        attr->count = (uint32_t)r->reals.count;
        attr->v.floats = r->reals.items;
        return true;
    case kiln_v1_AttributeType_ATTRIBUTE_TYPE_STRING:
        attr->count = (uint32_t)r->text.length;
        attr->v.text = r->text.data != NULL ? r->text.data : "";
        return true;
    case kiln_v1_AttributeType_ATTRIBUTE_TYPE_TENSOR:
        return constant_of(d, r, attr);
    default:
        return fail(d, kiln_fail(d->err, INVALID_ARGUMENT, "attribute %s has the unknown type %d",
                                 r->name.data != NULL ? r->name.data : "", (int)r->message.type));
    }
}

static bool decode_attr(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    growing *list = *arg;
    attr_reader r;
    (void)field;
    attr_reader_init(&r, list->d);
    if (!pb_decode_ex(stream, kiln_v1_Attribute_fields, &r.message, PB_DECODE_NOINIT)) {
        return false;
    }
    wire_attr *item = add_item(list);
    if (item == NULL || !attr_of(list->d, &r, &item->attr)) {
        return false;
    }
    item->name = r.name.data;
    return true;
}

// ---- operations ----

typedef struct op_reader {
    kiln_v1_Operation message;
    bytes_slot name;
    growing inputs;
    growing outputs;
    growing attrs;
} op_reader;

static void op_reader_init(op_reader *r, decoder *d)
{
    size_t desc = sizeof(kiln_tensor_desc);
    memset(r, 0, sizeof(*r));
    r->name = (bytes_slot){.d = d, .limit = 64};
    r->inputs = (growing){.d = d, .size = desc, .limit = KILN_MAX_INPUTS};
    r->outputs = (growing){.d = d, .size = desc, .limit = KILN_MAX_OUTPUTS};
    r->attrs = (growing){.d = d, .size = sizeof(wire_attr), .limit = KILN_MAX_ATTRS};
    r->message.name = (pb_callback_t){.funcs.decode = read_bytes, .arg = &r->name};
    r->message.inputs = (pb_callback_t){.funcs.decode = decode_tensor, .arg = &r->inputs};
    r->message.outputs = (pb_callback_t){.funcs.decode = decode_tensor, .arg = &r->outputs};
    r->message.attributes = (pb_callback_t){.funcs.decode = decode_attr, .arg = &r->attrs};
}

static kiln_status place_attr(const kiln_op_info *info, const wire_attr *from, kiln_attr *attrs,
                              kiln_error *err)
{
    const char *name = from->name != NULL ? from->name : "";
    for (unsigned i = 0; i < info->signature->n_attrs; i++) {
        if (strcmp(kiln_attr_name(info->signature->attrs[i].key), name) != 0) {
            continue;
        }
        if (attrs[i].type != KILN_ATTR_NONE) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s: attribute %s is given twice", info->name,
                             name);
        }
        attrs[i] = from->attr;
        return KILN_STATUS_OK;
    }
    return kiln_fail(err, INVALID_ARGUMENT, "%s has no attribute \"%s\"", info->name, name);
}

/// Everything but the attributes' pointers lives in the arena or in `attrs`.
static kiln_status record_of(const op_reader *r, kiln_attr attrs[KILN_MAX_ATTRS],
                             kiln_op_record *out_record, kiln_error *err)
{
    const char *name = r->name.data != NULL ? r->name.data : "";
    kiln_op op = kiln_op_from_name(name);
    const kiln_op_info *info = kiln_op_info_of(op);
    if (info == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "\"%s\" is no operator", name);
    }
    if (r->message.since != info->since) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s is of version %u, not %u", name,
                         r->message.since, info->since);
    }
    if (!r->message.has_n_attributes || r->message.n_attributes != r->attrs.count) {
        return kiln_fail(err, DATA_LOSS, "%s is truncated: %zu attributes", name, r->attrs.count);
    }
    const wire_attr *given = r->attrs.items;
    memset(attrs, 0, KILN_MAX_ATTRS * sizeof(attrs[0]));
    for (size_t i = 0; i < r->attrs.count; i++) {
        kiln_status status = place_attr(info, &given[i], attrs, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    *out_record = (kiln_op_record){.op = op,
                                   .n_inputs = (uint16_t)r->inputs.count,
                                   .n_outputs = (uint8_t)r->outputs.count,
                                   .n_attrs = info->signature->n_attrs,
                                   .inputs = r->inputs.items,
                                   .outputs = r->outputs.items,
                                   .attrs = attrs};
    return KILN_STATUS_OK;
}

static bool read_op(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    decoder *d = *arg;
    op_reader r;
    kiln_op_record record;
    kiln_attr attrs[KILN_MAX_ATTRS];
    (void)field;
    op_reader_init(&r, d);
    if (!pb_decode_ex(stream, kiln_v1_Operation_fields, &r.message, PB_DECODE_NOINIT)) {
        return false;
    }
    kiln_status status = record_of(&r, attrs, &record, d->err);
    if (status == KILN_STATUS_OK) {
        status = kiln_ir_graph_append(d->graph, &record, d->err);
    }
    kiln_arena_reset(d->arena);
    return status == KILN_STATUS_OK || fail(d, status);
}

static kiln_status damaged(const decoder *d, const pb_istream_t *stream, size_t length)
{
    if (d->status != KILN_STATUS_OK) {
        return d->status;
    }
    return kiln_fail(d->err, DATA_LOSS, "bytes are damaged at %zu of %zu: %s",
                     length - stream->bytes_left, length, PB_GET_ERROR(stream));
}

// ---- graphs ----

/// Lists of the graph's own level live longer than an operation's scratch.
typedef struct graph_reader {
    kiln_v1_Graph message;
    decoder ops; ///< its arena is reset after each operation
    decoder io;
    growing inputs;
    growing outputs;
} graph_reader;

static kiln_status check_counts(const graph_reader *r, kiln_error *err)
{
    const kiln_v1_Graph *m = &r->message;
    if (m->version != 1) {
        return kiln_fail(err, INVALID_ARGUMENT, "a graph of version %u, not 1", m->version);
    }
    if (!m->has_n_inputs || !m->has_n_outputs || !m->has_n_operations ||
        m->n_inputs != r->inputs.count || m->n_outputs != r->outputs.count ||
        m->n_operations != r->ops.graph->n_ops) {
        return kiln_fail(err, DATA_LOSS,
                         "a graph is truncated: %zu inputs, %zu outputs, %zu operations",
                         r->inputs.count, r->outputs.count, r->ops.graph->n_ops);
    }
    return KILN_STATUS_OK;
}

static kiln_status decode_graph(graph_reader *r, const void *bytes, size_t length, kiln_error *err)
{
    pb_istream_t stream = pb_istream_from_buffer(bytes, length);
    r->inputs = (growing){.d = &r->io, .size = sizeof(kiln_tensor_desc), .limit = KILNI_IR_MAX_IO};
    r->outputs = (growing){.d = &r->io, .size = sizeof(uint64_t), .limit = KILNI_IR_MAX_IO};
    r->message.inputs = (pb_callback_t){.funcs.decode = decode_tensor, .arg = &r->inputs};
    r->message.outputs = (pb_callback_t){.funcs.decode = decode_id, .arg = &r->outputs};
    r->message.operations = (pb_callback_t){.funcs.decode = read_op, .arg = &r->ops};
    if (!pb_decode_ex(&stream, kiln_v1_Graph_fields, &r->message, PB_DECODE_NOINIT)) {
        return damaged(r->io.status != KILN_STATUS_OK ? &r->io : &r->ops, &stream, length);
    }
    kiln_status status = check_counts(r, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_ir_graph_set_io(r->ops.graph, r->inputs.items, r->inputs.count,
                                      r->outputs.items, r->outputs.count, err);
    }
    return status == KILN_STATUS_OK ? kiln_ir_graph_verify(r->ops.graph, err) : status;
}

kiln_status kiln_ir_decode(const kiln_env *env, const void *bytes, size_t length,
                           kiln_ir_graph **out_graph, kiln_error *err)
{
    if (out_graph == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_graph must not be NULL");
    }
    *out_graph = NULL;
    if (env == NULL || (bytes == NULL && length > 0)) {
        return kiln_fail(err, INVALID_ARGUMENT, "env and bytes must not be NULL");
    }
    kiln_arena op_arena;
    kiln_arena io_arena;
    kiln_ir_graph *graph = NULL;
    kiln_status status = kiln_ir_graph_create(env, &graph, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_arena_init(&op_arena, env);
    kiln_arena_init(&io_arena, env);
    graph_reader r;
    memset(&r, 0, sizeof(r));
    r.ops = (decoder){.arena = &op_arena, .graph = graph, .err = err};
    r.io = (decoder){.arena = &io_arena, .err = err};
    status = decode_graph(&r, bytes, length, err);
    kiln_arena_fini(&op_arena);
    kiln_arena_fini(&io_arena);
    if (status != KILN_STATUS_OK) {
        kiln_ir_graph_destroy(graph);
        return status;
    }
    *out_graph = graph;
    return KILN_STATUS_OK;
}
