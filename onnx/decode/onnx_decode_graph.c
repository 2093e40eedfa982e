// SPDX-License-Identifier: MIT OR Apache-2.0
// ModelProto, GraphProto, NodeProto, AttributeProto and FunctionProto to the neutral model. Decides
// what a missing field means and refuses attributes whose type and value disagree; names are
// resolved by the importer.
#include "onnx.pb.h"
#include "onnx_decode.h"

#include <string.h>

static bool read_nodes(pb_istream_t *stream, const pb_field_t *field, void **arg);
static bool decode_graph(kilni_onnx_reader *reader, pb_istream_t *stream, kilni_onnx_graph *graph);

/// "ai.onnx" is an older way to name the standard domain.
static const char *plain_domain(const char *domain)
{
    return strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

static bool read_attr_tensor(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    kilni_onnx_list one = {0};
    kilni_onnx_tensor *tensor = kilni_onnx_push(slot->reader, &one, sizeof(*tensor));
    if (tensor == NULL || !kilni_onnx_read_tensor(slot->reader, stream, tensor)) {
        return false;
    }
    ((kilni_onnx_attr *)slot->target)->tensor = tensor;
    return true;
}

static bool read_attr_sparse(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    kilni_onnx_list one = {0};
    kilni_onnx_tensor *tensor = kilni_onnx_push(slot->reader, &one, sizeof(*tensor));
    if (tensor == NULL || !kilni_onnx_read_sparse_tensor(slot->reader, stream, tensor)) {
        return false;
    }
    ((kilni_onnx_attr *)slot->target)->tensor = tensor;
    return true;
}

static bool read_attr_graph(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    kilni_onnx_list one = {0};
    kilni_onnx_graph *graph = kilni_onnx_push(slot->reader, &one, sizeof(*graph));
    if (graph == NULL || !decode_graph(slot->reader, stream, graph)) {
        return false;
    }
    ((kilni_onnx_attr *)slot->target)->graph = graph;
    return true;
}

typedef struct attr_lists {
    kilni_onnx_list floats;
    kilni_onnx_list ints;
    kilni_onnx_list texts;
} attr_lists;

/// Files of IR version 1 leave the type out: then the value that is there says it.
static kilni_onnx_attr_type guess_type(const onnx_AttributeProto *message, const attr_lists *lists,
                                       const kilni_onnx_attr *attr)
{
    if (message->has_type && message->type != 0) {
        return (kilni_onnx_attr_type)message->type;
    }
    return message->has_i            ? KILNI_ONNX_ATTR_INT
           : message->has_f          ? KILNI_ONNX_ATTR_FLOAT
           : attr->tensor != NULL    ? KILNI_ONNX_ATTR_TENSOR
           : attr->graph != NULL     ? KILNI_ONNX_ATTR_GRAPH
           : lists->ints.count > 0   ? KILNI_ONNX_ATTR_INTS
           : lists->floats.count > 0 ? KILNI_ONNX_ATTR_FLOATS
           : lists->texts.count > 0  ? KILNI_ONNX_ATTR_STRINGS
           : attr->text != NULL      ? KILNI_ONNX_ATTR_STRING
                                     : KILNI_ONNX_ATTR_INTS;
}

static bool finish_attr(kilni_onnx_reader *reader, const attr_lists *lists, kilni_onnx_attr *attr)
{
    attr->floats = lists->floats.items;
    attr->ints = lists->ints.items;
    attr->texts = lists->texts.items;
    attr->count = attr->type == KILNI_ONNX_ATTR_FLOATS    ? lists->floats.count
                  : attr->type == KILNI_ONNX_ATTR_INTS    ? lists->ints.count
                  : attr->type == KILNI_ONNX_ATTR_STRINGS ? lists->texts.count
                                                          : 0;
    attr->text = attr->text == NULL ? "" : attr->text;
    bool lacks_value = attr->ref_name[0] == '\0' &&
                       ((attr->type == KILNI_ONNX_ATTR_TENSOR && attr->tensor == NULL) ||
                        (attr->type == KILNI_ONNX_ATTR_SPARSE_TENSOR && attr->tensor == NULL) ||
                        (attr->type == KILNI_ONNX_ATTR_GRAPH && attr->graph == NULL));
    if (lacks_value) {
        return kilni_onnx_refuse(reader,
                                 kiln_fail(reader->err, INVALID_ARGUMENT,
                                           "attribute '%s' has no value of its type", attr->name));
    }
    return true;
}

static bool read_attrs(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    kilni_onnx_reader *reader = slot->reader;
    kilni_onnx_attr *attr = kilni_onnx_push(reader, slot->target, sizeof(*attr));
    if (attr == NULL) {
        return false;
    }
    *attr = (kilni_onnx_attr){.name = "", .ref_name = ""};
    onnx_AttributeProto message = onnx_AttributeProto_init_zero;
    attr_lists lists = {0};
    kilni_onnx_slot slots[9];
    kilni_onnx_bind(&message.name, &slots[0], kilni_onnx_read_text, reader, &attr->name);
    kilni_onnx_bind(&message.ref_attr_name, &slots[1], kilni_onnx_read_text, reader,
                    &attr->ref_name);
    kilni_onnx_bind(&message.s, &slots[2], kilni_onnx_read_text, reader, &attr->text);
    kilni_onnx_bind(&message.t, &slots[3], read_attr_tensor, reader, attr);
    kilni_onnx_bind(&message.g, &slots[4], read_attr_graph, reader, attr);
    kilni_onnx_bind(&message.floats, &slots[5], kilni_onnx_read_floats, reader, &lists.floats);
    kilni_onnx_bind(&message.ints, &slots[6], kilni_onnx_read_ints, reader, &lists.ints);
    kilni_onnx_bind(&message.strings, &slots[7], kilni_onnx_read_texts, reader, &lists.texts);
    kilni_onnx_bind(&message.sparse_tensor, &slots[8], read_attr_sparse, reader, attr);
    if (!kilni_onnx_decode_message(reader, stream, onnx_AttributeProto_fields, &message)) {
        return false;
    }
    attr->f = message.f;
    attr->i = message.i;
    attr->type = guess_type(&message, &lists, attr);
    return finish_attr(reader, &lists, attr);
}

static bool read_nodes(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    kilni_onnx_reader *reader = slot->reader;
    kilni_onnx_node *node = kilni_onnx_push(reader, slot->target, sizeof(*node));
    if (node == NULL) {
        return false;
    }
    *node = (kilni_onnx_node){.name = "", .op_type = "", .domain = "", .overload = ""};
    onnx_NodeProto message = onnx_NodeProto_init_zero;
    kilni_onnx_list inputs = {0};
    kilni_onnx_list outputs = {0};
    kilni_onnx_list attrs = {0};
    kilni_onnx_slot slots[7];
    kilni_onnx_bind(&message.input, &slots[0], kilni_onnx_read_texts, reader, &inputs);
    kilni_onnx_bind(&message.output, &slots[1], kilni_onnx_read_texts, reader, &outputs);
    kilni_onnx_bind(&message.name, &slots[2], kilni_onnx_read_text, reader, &node->name);
    kilni_onnx_bind(&message.op_type, &slots[3], kilni_onnx_read_text, reader, &node->op_type);
    kilni_onnx_bind(&message.attribute, &slots[4], read_attrs, reader, &attrs);
    kilni_onnx_bind(&message.domain, &slots[5], kilni_onnx_read_text, reader, &node->domain);
    kilni_onnx_bind(&message.overload, &slots[6], kilni_onnx_read_text, reader, &node->overload);
    if (!kilni_onnx_decode_message(reader, stream, onnx_NodeProto_fields, &message)) {
        return false;
    }
    node->domain = plain_domain(node->domain);
    node->inputs = inputs.items;
    node->n_inputs = inputs.count;
    node->outputs = outputs.items;
    node->n_outputs = outputs.count;
    node->attrs = attrs.items;
    node->n_attrs = attrs.count;
    return true;
}

static bool decode_graph(kilni_onnx_reader *reader, pb_istream_t *stream, kilni_onnx_graph *graph)
{
    onnx_GraphProto message = onnx_GraphProto_init_zero;
    kilni_onnx_list nodes = {0};
    kilni_onnx_list initializers = {0};
    kilni_onnx_list inputs = {0};
    kilni_onnx_list outputs = {0};
    kilni_onnx_slot slots[6];
    *graph = (kilni_onnx_graph){.name = ""};
    kilni_onnx_bind(&message.node, &slots[0], read_nodes, reader, &nodes);
    kilni_onnx_bind(&message.name, &slots[1], kilni_onnx_read_text, reader, &graph->name);
    kilni_onnx_bind(&message.initializer, &slots[2], kilni_onnx_read_tensors, reader,
                    &initializers);
    kilni_onnx_bind(&message.input, &slots[3], kilni_onnx_read_value_infos, reader, &inputs);
    kilni_onnx_bind(&message.output, &slots[4], kilni_onnx_read_value_infos, reader, &outputs);
    kilni_onnx_bind(&message.sparse_initializer, &slots[5], kilni_onnx_read_sparse_tensors, reader,
                    &initializers);
    if (!kilni_onnx_decode_message(reader, stream, onnx_GraphProto_fields, &message)) {
        return false;
    }
    graph->nodes = nodes.items;
    graph->n_nodes = nodes.count;
    graph->initializers = initializers.items;
    graph->n_initializers = initializers.count;
    graph->inputs = inputs.items;
    graph->n_inputs = inputs.count;
    graph->outputs = outputs.items;
    graph->n_outputs = outputs.count;
    return true;
}

static bool read_graph(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    return decode_graph(slot->reader, stream, slot->target);
}

static bool read_opsets(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    kilni_onnx_opset *opset = kilni_onnx_push(slot->reader, slot->target, sizeof(*opset));
    if (opset == NULL) {
        return false;
    }
    opset->domain = "";
    onnx_OperatorSetIdProto message = onnx_OperatorSetIdProto_init_zero;
    kilni_onnx_slot domain;
    kilni_onnx_bind(&message.domain, &domain, kilni_onnx_read_text, slot->reader, &opset->domain);
    if (!kilni_onnx_decode_message(slot->reader, stream, onnx_OperatorSetIdProto_fields,
                                   &message)) {
        return false;
    }
    opset->domain = plain_domain(opset->domain);
    opset->version = message.version;
    return true;
}

static bool read_functions(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    kilni_onnx_reader *reader = slot->reader;
    kilni_onnx_function *function = kilni_onnx_push(reader, slot->target, sizeof(*function));
    if (function == NULL) {
        return false;
    }
    *function = (kilni_onnx_function){.name = "", .domain = "", .overload = ""};
    onnx_FunctionProto message = onnx_FunctionProto_init_zero;
    kilni_onnx_list inputs = {0};
    kilni_onnx_list outputs = {0};
    kilni_onnx_list defaults = {0};
    kilni_onnx_list nodes = {0};
    kilni_onnx_list opsets = {0};
    kilni_onnx_slot slots[8];
    kilni_onnx_bind(&message.name, &slots[0], kilni_onnx_read_text, reader, &function->name);
    kilni_onnx_bind(&message.domain, &slots[1], kilni_onnx_read_text, reader, &function->domain);
    kilni_onnx_bind(&message.overload, &slots[2], kilni_onnx_read_text, reader,
                    &function->overload);
    kilni_onnx_bind(&message.input, &slots[3], kilni_onnx_read_texts, reader, &inputs);
    kilni_onnx_bind(&message.output, &slots[4], kilni_onnx_read_texts, reader, &outputs);
    kilni_onnx_bind(&message.attribute_proto, &slots[5], read_attrs, reader, &defaults);
    kilni_onnx_bind(&message.node, &slots[6], read_nodes, reader, &nodes);
    kilni_onnx_bind(&message.opset_import, &slots[7], read_opsets, reader, &opsets);
    if (!kilni_onnx_decode_message(reader, stream, onnx_FunctionProto_fields, &message)) {
        return false;
    }
    function->domain = plain_domain(function->domain);
    function->inputs = inputs.items;
    function->n_inputs = inputs.count;
    function->outputs = outputs.items;
    function->n_outputs = outputs.count;
    function->defaults = defaults.items;
    function->n_defaults = defaults.count;
    function->nodes = nodes.items;
    function->n_nodes = nodes.count;
    function->opsets = opsets.items;
    function->n_opsets = opsets.count;
    return true;
}

kiln_status kilni_onnx_decode_model(kiln_onnx_model *model, kiln_error *err)
{
    kilni_onnx_reader reader = {.model = model, .err = err};
    pb_istream_t stream = pb_istream_from_buffer(model->file.data, model->file.bytes);
    onnx_ModelProto message = onnx_ModelProto_init_zero;
    kilni_onnx_list opsets = {0};
    kilni_onnx_list functions = {0};
    kilni_onnx_slot slots[5];
    model->producer = "";
    model->graph.name = "";
    kilni_onnx_bind(&message.graph, &slots[0], read_graph, &reader, &model->graph);
    kilni_onnx_bind(&message.opset_import, &slots[1], read_opsets, &reader, &opsets);
    kilni_onnx_bind(&message.functions, &slots[2], read_functions, &reader, &functions);
    kilni_onnx_bind(&message.producer_name, &slots[3], kilni_onnx_read_text, &reader,
                    &model->producer);
    kilni_onnx_bind(&message.training_info, &slots[4], kilni_onnx_count_field, &reader,
                    &model->n_training);
    if (!kilni_onnx_decode_message(&reader, &stream, onnx_ModelProto_fields, &message)) {
        return kilni_onnx_stream_failure(&reader, &stream);
    }
    model->ir_version = message.ir_version;
    model->opsets = opsets.items;
    model->n_opsets = opsets.count;
    model->functions = functions.items;
    model->n_functions = functions.count;
    return KILN_STATUS_OK;
}
