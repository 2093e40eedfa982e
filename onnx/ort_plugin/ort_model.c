// SPDX-License-Identifier: MIT OR Apache-2.0
// Nodes of ONNX Runtime as an ONNX model. Decides that a model is a file in memory, as which the
// importer maps it, and that constants begin in it where a device that shares the host's memory can
// use them. ONNX Runtime then need not keep its own copies.
#define _GNU_SOURCE // memfd_create
#include "ort_proto.h"
#include "ort_room.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNED = 128, LENGTH_BYTES = 10, NEWEST_IR = 10 };

enum { ///< fields of ONNX's messages
    MODEL_IR_VERSION = 1,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    OPSET_DOMAIN = 1,
    OPSET_VERSION = 2,
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_TYPE = 4,
    NODE_ATTR = 5,
    NODE_DOMAIN = 7,
    ATTR_NAME = 1,
    ATTR_FLOAT = 2,
    ATTR_INT = 3,
    ATTR_STRING = 4,
    ATTR_TENSOR = 5,
    ATTR_FLOATS = 7,
    ATTR_INTS = 8,
    ATTR_STRINGS = 9,
    ATTR_TYPE = 20,
    TENSOR_DIM = 1,
    TENSOR_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_BYTES = 9,
    TENSOR_COMMENT = 12,
    INFO_NAME = 1,
    INFO_TYPE = 2,
    TYPE_TENSOR = 1,
    TYPE_ELEMENT = 1
};

typedef struct writer {
    const ort_calls *calls;
    const kiln_env *env;
    int fd;
    uint64_t at; ///< bytes written
    kiln_string graph; ///< of GraphProto: all but initialisers
    ort_names known; ///< values that the nodes may read: 1
    const ort_value_info **constants;
    size_t n_constants;
    size_t room;
    kiln_error *err;
} writer;

// ---- the file ----

static kiln_status put(writer *w, const void *bytes, size_t length)
{
    const char *from = bytes;
    while (length > 0) {
        ssize_t done = write(w->fd, from, length);
        if (done < 0 && errno != EINTR) {
            return kiln_fail(w->err, RESOURCE_EXHAUSTED, "cannot write %zu bytes of a model: %s",
                             length, strerror(errno));
        }
        size_t step = done < 0 ? 0 : (size_t)done;
        from += step;
        length -= step;
        w->at += step;
    }
    return KILN_STATUS_OK;
}

static kiln_status put_text(writer *w, kiln_string *text)
{
    kiln_status status = text->failed
                             ? kiln_fail(w->err, RESOURCE_EXHAUSTED, "no memory for a model")
                             : put(w, text->text, text->length);
    kiln_string_fini(text);
    return status;
}

// ---- tensors ----

/// Bytes and facts of a tensor of ONNX Runtime.
typedef struct tensor {
    kiln_string head; ///< of TensorProto: all but the bytes
    const void *bytes;
    size_t length;
} tensor;

static kiln_status fetch_head(const writer *w, const ort_value *value, kiln_string *head)
{
    int element = 0;
    size_t rank = 0;
    int64_t dims[KILN_MAX_RANK];
    ort_shape *shape = NULL;
    kiln_status status = kilni_ort_take(w->calls, w->calls->value_shape(value, &shape), w->err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    KILN_TRY(out, status, kilni_ort_take(w->calls, w->calls->shape_type(shape, &element), w->err));
    KILN_TRY(out, status, kilni_ort_take(w->calls, w->calls->shape_rank(shape, &rank), w->err));
    if (rank > KILN_MAX_RANK) {
        status = kiln_fail(w->err, UNIMPLEMENTED, "a constant of rank %zu, the limit is %d", rank,
                           KILN_MAX_RANK);
        goto out;
    }
    KILN_TRY(out, status,
             kilni_ort_take(w->calls, w->calls->shape_dims(shape, dims, rank), w->err));
    for (size_t i = 0; i < rank; i++) {
        kilni_ort_proto_number(head, TENSOR_DIM, (uint64_t)dims[i]);
    }
    kilni_ort_proto_number(head, TENSOR_TYPE, (uint64_t)element);
out:
    w->calls->shape_release(shape);
    return status;
}

static kiln_status fetch_tensor(const writer *w, const ort_value *value, tensor *out_tensor)
{
    *out_tensor = (tensor){0};
    kiln_string_init(&out_tensor->head, w->env);
    kiln_status status = fetch_head(w, value, &out_tensor->head);
    if (status == KILN_STATUS_OK) {
        status =
            kilni_ort_take(w->calls, w->calls->value_bytes(value, &out_tensor->length), w->err);
    }
    if (status == KILN_STATUS_OK && out_tensor->length > 0) {
        status = kilni_ort_take(w->calls, w->calls->value_data(value, &out_tensor->bytes), w->err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_string_fini(&out_tensor->head);
    }
    return status;
}

static size_t head_bytes(const writer *w, uint64_t length)
{
    kiln_string text;
    kiln_string_init(&text, w->env);
    kilni_ort_proto_head(&text, 1, length); // a field below 16 takes one byte
    size_t bytes = text.length;
    kiln_string_fini(&text);
    return bytes;
}

/// Bytes of a comment that make the tensor's begin aligned; the message around it begins at `at`.
static size_t pad_of(const writer *w, uint64_t at, const tensor *t)
{
    for (size_t pad = 0; pad < ALIGNED; pad++) {
        size_t comment = head_bytes(w, pad) + pad;
        size_t inside = t->head.length + comment + head_bytes(w, t->length);
        uint64_t begin = at + head_bytes(w, inside + t->length) + inside;
        if (begin % ALIGNED == 0) {
            return pad;
        }
    }
    return 0;
}

static kiln_status put_constant(writer *w, const ort_value_info *info)
{
    static const char blanks[ALIGNED] = {0};
    const char *name = NULL;
    const ort_value *value = NULL;
    tensor t;
    kiln_status status = kilni_ort_name(w->calls, info, &name, w->err);
    if (status == KILN_STATUS_OK) {
        status = kilni_ort_take(w->calls, w->calls->info_constant(info, &value), w->err);
    }
    if (status == KILN_STATUS_OK) {
        status = fetch_tensor(w, value, &t);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_ort_proto_text(&t.head, TENSOR_NAME, name);
    kilni_ort_proto_bytes(&t.head, TENSOR_COMMENT, blanks, pad_of(w, w->at, &t));
    kilni_ort_proto_head(&t.head, TENSOR_BYTES, t.length);
    kiln_string around;
    kiln_string_init(&around, w->env);
    kilni_ort_proto_head(&around, GRAPH_INITIALIZER, t.head.length + t.length);
    around.failed = around.failed || t.head.failed;
    kiln_string_append(&around, t.head.text, t.head.length);
    kiln_string_fini(&t.head);
    status = put_text(w, &around);
    return status == KILN_STATUS_OK ? put(w, t.bytes, t.length) : status;
}

// ---- attributes ----

/// Reads an attribute's bytes; the caller frees `*out_data`.
static kiln_status read_bytes(const writer *w, const ort_attr *attr, int type, void **out_data,
                              size_t *out_bytes)
{
    size_t bytes = 0;
    ort_status *asked = w->calls->attr_read(attr, type, NULL, 0, &bytes); // says how many
    if (asked != NULL) {
        w->calls->status_release(asked);
    }
    *out_bytes = bytes;
    *out_data = kiln_alloc(w->env, bytes + 1);
    if (*out_data == NULL) {
        return kiln_fail(w->err, RESOURCE_EXHAUSTED, "no memory for an attribute");
    }
    kiln_status status =
        bytes == 0
            ? KILN_STATUS_OK
            : kilni_ort_take(w->calls, w->calls->attr_read(attr, type, *out_data, bytes, out_bytes),
                             w->err);
    if (status != KILN_STATUS_OK) {
        kiln_free(w->env, *out_data);
    }
    return status;
}

static void add_strings(kiln_string *out, const char *texts, size_t bytes)
{
    for (const char *at = texts; at < texts + bytes; at += strlen(at) + 1) {
        kilni_ort_proto_text(out, ATTR_STRINGS, at);
    }
}

/// Numbers and texts, whose bytes ONNX Runtime gives.
static kiln_status add_plain(const writer *w, const ort_attr *attr, int type, kiln_string *out)
{
    void *data = NULL;
    size_t bytes = 0;
    kiln_status status = read_bytes(w, attr, type, &data, &bytes);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const float *floats = data;
    const int64_t *ints = data;
    size_t n_floats =
        type == KILNI_ORT_ATTR_FLOAT || type == KILNI_ORT_ATTR_FLOATS ? bytes / sizeof(*floats) : 0;
    size_t n_ints =
        type == KILNI_ORT_ATTR_INT || type == KILNI_ORT_ATTR_INTS ? bytes / sizeof(*ints) : 0;
    for (size_t i = 0; i < n_floats; i++) {
        kilni_ort_proto_float(out, type == KILNI_ORT_ATTR_FLOAT ? ATTR_FLOAT : ATTR_FLOATS,
                              floats[i]);
    }
    for (size_t i = 0; i < n_ints; i++) {
        kilni_ort_proto_number(out, type == KILNI_ORT_ATTR_INT ? ATTR_INT : ATTR_INTS,
                               (uint64_t)ints[i]);
    }
    if (type == KILNI_ORT_ATTR_STRING) {
        kilni_ort_proto_bytes(out, ATTR_STRING, data, bytes);
    } else if (type == KILNI_ORT_ATTR_STRINGS) {
        add_strings(out, data, bytes);
    }
    kiln_free(w->env, data);
    return KILN_STATUS_OK;
}

static kiln_status add_tensor(const writer *w, const ort_attr *attr, kiln_string *out)
{
    ort_value *value = NULL;
    tensor t;
    kiln_status status = kilni_ort_take(w->calls, w->calls->attr_tensor(attr, &value), w->err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = fetch_tensor(w, value, &t);
    if (status == KILN_STATUS_OK) {
        kilni_ort_proto_bytes(&t.head, TENSOR_BYTES, t.bytes, t.length);
        kilni_ort_proto_message(out, ATTR_TENSOR, &t.head);
    }
    w->calls->value_release(value);
    return status;
}

/// ONNX's number of a kind of attribute; 0 for one that is left out.
static uint64_t onnx_attr_type(int type)
{
    static const uint8_t numbers[] = {
        [KILNI_ORT_ATTR_INT] = 2,    [KILNI_ORT_ATTR_INTS] = 7,   [KILNI_ORT_ATTR_FLOAT] = 1,
        [KILNI_ORT_ATTR_FLOATS] = 6, [KILNI_ORT_ATTR_STRING] = 3, [KILNI_ORT_ATTR_STRINGS] = 8,
        [KILNI_ORT_ATTR_TENSOR] = 4};
    return type < 0 || type >= (int)sizeof(numbers) ? 0 : numbers[type];
}

static kiln_status add_attr(const writer *w, const ort_attr *attr, kiln_string *node)
{
    int type = 0;
    const char *name = NULL;
    kiln_status status = kilni_ort_take(w->calls, w->calls->attr_type(attr, &type), w->err);
    if (status == KILN_STATUS_OK) {
        status = kilni_ort_take(w->calls, w->calls->attr_name(attr, &name), w->err);
    }
    if (status != KILN_STATUS_OK || onnx_attr_type(type) == 0) {
        return status;
    }
    kiln_string text;
    kiln_string_init(&text, w->env);
    kilni_ort_proto_text(&text, ATTR_NAME, name);
    kilni_ort_proto_number(&text, ATTR_TYPE, onnx_attr_type(type));
    status = type == KILNI_ORT_ATTR_TENSOR ? add_tensor(w, attr, &text)
                                           : add_plain(w, attr, type, &text);
    kilni_ort_proto_message(node, NODE_ATTR, &text);
    return status;
}

static kiln_status add_attrs(const writer *w, const ort_node *node, kiln_string *out)
{
    size_t count = 0;
    kiln_status status = kilni_ort_take(w->calls, w->calls->node_n_attrs(node, &count), w->err);
    if (status != KILN_STATUS_OK || count == 0) {
        return status;
    }
    const ort_attr **attrs = kiln_alloc_array(w->env, count, sizeof(*attrs));
    if (attrs == NULL) {
        return kiln_fail(w->err, RESOURCE_EXHAUSTED, "no memory for %zu attributes", count);
    }
    status = kilni_ort_take(w->calls, w->calls->node_attrs(node, attrs, count), w->err);
    for (size_t i = 0; status == KILN_STATUS_OK && i < count; i++) {
        status = add_attr(w, attrs[i], out);
    }
    kiln_free(w->env, attrs);
    return status;
}

// ---- values and nodes ----

static void add_info(writer *w, uint32_t field, const ort_value_info *info, const char *name)
{
    kiln_string text, type, inner;
    kiln_string_init(&text, w->env);
    kiln_string_init(&type, w->env);
    kiln_string_init(&inner, w->env);
    int element = kilni_ort_element(w->calls, info);
    kilni_ort_proto_text(&text, INFO_NAME, name);
    if (element > 0 && element <= KILNI_ORT_TYPES) { // shapes are a run's
        kilni_ort_proto_number(&inner, TYPE_ELEMENT, (uint64_t)element);
        kilni_ort_proto_message(&type, TYPE_TENSOR, &inner);
        kilni_ort_proto_message(&text, INFO_TYPE, &type);
    }
    kilni_ort_proto_message(&w->graph, field, &text);
}

static kiln_status keep_constant(writer *w, const ort_value_info *info)
{
    if (w->n_constants == w->room) {
        size_t room = w->room == 0 ? 64 : w->room * 2;
        const ort_value_info **more =
            kiln_realloc(w->env, w->constants, w->room * sizeof(*more), room * sizeof(*more));
        if (more == NULL) {
            return kiln_fail(w->err, RESOURCE_EXHAUSTED, "no memory for %zu constants", room);
        }
        w->constants = more;
        w->room = room;
    }
    w->constants[w->n_constants++] = info;
    return KILN_STATUS_OK;
}

/// A value that a node reads: new ones go in from outside.
static kiln_status meet(writer *w, const ort_value_info *info, const char *name, bool constants)
{
    if (info == NULL || name[0] == '\0' || kilni_ort_names_get(&w->known, name, 0) != 0) {
        return KILN_STATUS_OK;
    }
    kiln_status status = kilni_ort_names_set(&w->known, name, 1, w->err);
    if (status == KILN_STATUS_OK && constants && kilni_ort_is_constant(w->calls, info)) {
        return keep_constant(w, info);
    }
    add_info(w, GRAPH_INPUT, info, name);
    return status;
}

static kiln_status add_values(writer *w, const ort_node *node, ort_which which, bool constants,
                              kiln_string *out)
{
    ort_infos infos;
    kiln_status status = kilni_ort_infos(w->calls, w->env, which, node, &infos, w->err);
    for (size_t i = 0; status == KILN_STATUS_OK && i < infos.count; i++) {
        const char *name = NULL;
        status = kilni_ort_name(w->calls, infos.items[i], &name, w->err);
        if (status == KILN_STATUS_OK) {
            kilni_ort_proto_text(out, which == KILNI_ORT_OUTPUTS ? NODE_OUTPUT : NODE_INPUT, name);
            status = which == KILNI_ORT_OUTPUTS ? kilni_ort_names_set(&w->known, name, 1, w->err)
                                                : meet(w, infos.items[i], name, constants);
        }
    }
    kiln_free(w->env, infos.items);
    return status;
}

static kiln_status add_node(writer *w, const ort_node *node, bool constants)
{
    const char *name = NULL, *type = NULL, *domain = NULL;
    kiln_string text;
    kiln_string_init(&text, w->env);
    kiln_status status = kilni_ort_take(w->calls, w->calls->node_name(node, &name), w->err);
    KILN_TRY(out, status, kilni_ort_take(w->calls, w->calls->node_type(node, &type), w->err));
    KILN_TRY(out, status, kilni_ort_take(w->calls, w->calls->node_domain(node, &domain), w->err));
    KILN_TRY(out, status, add_values(w, node, KILNI_ORT_INPUTS, constants, &text));
    KILN_TRY(out, status, add_values(w, node, KILNI_ORT_OUTPUTS, constants, &text));
    kilni_ort_proto_text(&text, NODE_NAME, name);
    kilni_ort_proto_text(&text, NODE_TYPE, type);
    kilni_ort_proto_text(&text, NODE_DOMAIN, domain);
    KILN_TRY(out, status, add_attrs(w, node, &text));
    kilni_ort_proto_message(&w->graph, GRAPH_NODE, &text);
    return KILN_STATUS_OK;
out:
    kiln_string_fini(&text);
    return status;
}

// ---- the model ----

static kiln_status add_sets(const writer *w, const ort_graph *graph, kiln_string *out)
{
    enum { MAX_SETS = 64 };
    const char *domains[MAX_SETS];
    int64_t versions[MAX_SETS];
    size_t count = 0;
    kiln_status status = kilni_ort_take(w->calls, w->calls->graph_n_sets(graph, &count), w->err);
    if (status == KILN_STATUS_OK && count > MAX_SETS) {
        status = kiln_fail(w->err, UNIMPLEMENTED, "a model of %zu operator sets", count);
    }
    if (status == KILN_STATUS_OK) {
        status =
            kilni_ort_take(w->calls, w->calls->graph_sets(graph, domains, versions, count), w->err);
    }
    for (size_t i = 0; status == KILN_STATUS_OK && i < count; i++) {
        kiln_string set;
        kiln_string_init(&set, w->env);
        kilni_ort_proto_text(&set, OPSET_DOMAIN, domains[i]);
        kilni_ort_proto_number(&set, OPSET_VERSION, (uint64_t)versions[i]);
        kilni_ort_proto_message(out, MODEL_OPSET, &set);
    }
    return status;
}

static kiln_status collect(writer *w, const ort_part *part)
{
    kiln_status status = KILN_STATUS_OK;
    kilni_ort_proto_text(&w->graph, GRAPH_NAME, "part");
    for (size_t i = 0; status == KILN_STATUS_OK && i < part->nodes.count; i++) {
        status = add_node(w, part->nodes.items[i], part->with_constants);
    }
    for (size_t i = 0; status == KILN_STATUS_OK && i < part->outputs.count; i++) {
        const char *name = NULL;
        status = kilni_ort_name(w->calls, part->outputs.items[i], &name, w->err);
        if (status == KILN_STATUS_OK && name[0] != '\0') {
            add_info(w, GRAPH_OUTPUT, part->outputs.items[i], name);
        }
    }
    return status;
}

/// A length of always LENGTH_BYTES bytes, for a place that was left open.
static kiln_status close_length(const writer *w, uint64_t at)
{
    uint64_t number = w->at - at - LENGTH_BYTES;
    uint8_t bytes[LENGTH_BYTES];
    for (int i = 0; i < LENGTH_BYTES; i++) {
        bytes[i] = (uint8_t)((number & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
        number >>= 7;
    }
    if (pwrite(w->fd, bytes, sizeof(bytes), (off_t)at) != (ssize_t)sizeof(bytes)) {
        return kiln_fail(w->err, RESOURCE_EXHAUSTED, "cannot write a model: %s", strerror(errno));
    }
    return KILN_STATUS_OK;
}

static kiln_status write_model(writer *w, const ort_part *part)
{
    static const uint8_t open_length[LENGTH_BYTES] = {0};
    kiln_string text;
    kiln_string_init(&text, w->env);
    kilni_ort_proto_number(&text, MODEL_IR_VERSION, NEWEST_IR);
    kiln_status status = add_sets(w, part->graph, &text);
    kilni_ort_proto_head(&text, MODEL_GRAPH, 0);
    text.length -= 1; // the length, which is not known yet
    if (status != KILN_STATUS_OK) {
        kiln_string_fini(&text);
        return status;
    }
    KILN_TRY(out, status, put_text(w, &text));
    uint64_t length_at = w->at;
    KILN_TRY(out, status, put(w, open_length, sizeof(open_length)));
    KILN_TRY(out, status, collect(w, part));
    KILN_TRY(out, status, put_text(w, &w->graph));
    for (size_t i = 0; i < w->n_constants; i++) {
        KILN_TRY(out, status, put_constant(w, w->constants[i]));
    }
    status = close_length(w, length_at);
out:
    return status;
}

kiln_status kilni_ort_model(const ort_calls *calls, const kiln_env *env, const ort_part *part,
                            kiln_onnx_model **out_model, kiln_error *err)
{
    char path[48];
    writer w = {.calls = calls, .env = env, .err = err};
    *out_model = NULL;
    w.fd = memfd_create("kiln-onnx", MFD_CLOEXEC);
    if (w.fd < 0) {
        return kiln_fail(err, UNAVAILABLE, "no file in memory: %s", strerror(errno));
    }
    w.known.env = env;
    kiln_string_init(&w.graph, env);
    kiln_status status = write_model(&w, part);
    if (status == KILN_STATUS_OK) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", w.fd);
        status = kiln_onnx_model_open(env, path, out_model, err); // it maps the file
    }
    kiln_string_fini(&w.graph);
    kilni_ort_names_fini(&w.known);
    kiln_free(env, w.constants);
    close(w.fd);
    return status;
}
