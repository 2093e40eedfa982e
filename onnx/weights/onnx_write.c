// SPDX-License-Identifier: MIT OR Apache-2.0
// A model's file with other values of its weights. Everything that is no such value is copied as it
// stands, what Kiln does not know with it; so only the messages around the weights are taken apart:
// the model, its graph, and the tensors there. Lengths are found by writing to nowhere first.
#include "base_files.h"
#include "onnx_model.h"

#include <errno.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <string.h>

/// Numbers of fields, as onnx.proto has them.
enum { MODEL_GRAPH = 7, GRAPH_INITIALIZER = 5, TENSOR_NAME = 8, TENSOR_RAW = 9 };

/// Protocol buffers have no longer messages.
static const size_t most_bytes = 0x7fffffff;

typedef struct span {
    const uint8_t *data;
    size_t bytes;
} span;

typedef struct field {
    uint32_t number;
    bool has_body;
    span whole; ///< with its tag
    span body;
} field;

typedef struct rewrite {
    const kiln_onnx_model *model;
    const kiln_onnx_input *weights;
    size_t n_weights;
    kiln_status status;
    kiln_error *err;
} rewrite;

static bool give_up(rewrite *self, kiln_status status)
{
    self->status = self->status == KILN_STATUS_OK ? status : self->status;
    return false;
}

// ---- fields ----

/// Takes the next field off. False at the end, or with `self` failed.
static bool next_field(rewrite *self, span *rest, field *out)
{
    pb_istream_t stream = pb_istream_from_buffer(rest->data, rest->bytes);
    pb_wire_type_t wire = PB_WT_VARINT;
    bool end = false;
    uint32_t length = 0;
    *out = (field){0};
    if (rest->bytes == 0) {
        return false;
    }
    bool ok = pb_decode_tag(&stream, &wire, &out->number, &end);
    if (ok && wire == PB_WT_STRING) {
        ok = pb_decode_varint32(&stream, &length) && length <= stream.bytes_left;
        out->has_body = true;
        out->body = (span){rest->data + (rest->bytes - stream.bytes_left), length};
        ok = ok && pb_read(&stream, NULL, length);
    } else if (ok) {
        ok = pb_skip_field(&stream, wire);
    }
    if (!ok) {
        return give_up(self, kiln_fail(self->err, DATA_LOSS, "the model's file is damaged"));
    }
    size_t taken = rest->bytes - stream.bytes_left;
    out->whole = (span){rest->data, taken};
    *rest = (span){rest->data + taken, stream.bytes_left};
    return true;
}

static bool not_written(rewrite *self)
{
    return give_up(self,
                   kiln_fail(self->err, UNAVAILABLE, "it cannot be written: %s", strerror(errno)));
}

static bool put(rewrite *self, pb_ostream_t *out, const void *data, size_t bytes)
{
    return pb_write(out, data, bytes) || not_written(self);
}

static bool put_head(rewrite *self, pb_ostream_t *out, uint32_t number, size_t bytes)
{
    return (pb_encode_tag(out, PB_WT_STRING, number) && pb_encode_varint(out, bytes)) ||
           not_written(self);
}

// ---- weights ----

static bool is_named(span name, const char *text)
{
    return strlen(text) == name.bytes && memcmp(name.data, text, name.bytes) == 0;
}

static const kilni_onnx_tensor *find_tensor(const rewrite *self, span name)
{
    const kilni_onnx_graph *graph = &self->model->graph;
    for (uint32_t i = 0; i < graph->n_initializers; i++) {
        if (is_named(name, graph->initializers[i].name) && graph->initializers[i].indices == NULL) {
            return &graph->initializers[i];
        }
    }
    return NULL;
}

/// The contents that the tensor of this name is to have, on the host or the device.
static bool find_contents(rewrite *self, span name, const kilni_onnx_tensor **out_tensor,
                          kiln_tensor **out_given)
{
    *out_given = NULL;
    *out_tensor = find_tensor(self, name);
    for (size_t i = 0; i < self->n_weights && *out_tensor != NULL; i++) {
        if (is_named(name, self->weights[i].name)) {
            *out_given = self->weights[i].tensor;
        }
    }
    return *out_given != NULL;
}

static bool is_data(uint32_t number)
{
    return (number >= 4 && number <= 7) || (number >= TENSOR_RAW && number <= 11) || number == 13 ||
           number == 14;
}

static bool put_given(rewrite *self, pb_ostream_t *out, kiln_tensor *given, size_t bytes)
{
    const kiln_env *env = &self->model->env;
    if (out->callback == NULL) {
        return put(self, out, NULL, bytes);
    }
    void *data = kiln_alloc(env, bytes + 1);
    kiln_status status =
        data == NULL ? kiln_fail(self->err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", bytes)
                     : kiln_read(given, data, bytes, self->err);
    bool ok = status == KILN_STATUS_OK ? put(self, out, data, bytes) : give_up(self, status);
    kiln_free(env, data);
    return ok;
}

/// The tensor without its data, and the data as bytes.
static bool put_tensor(rewrite *self, pb_ostream_t *out, span rest, const kilni_onnx_tensor *tensor,
                       kiln_tensor *given)
{
    field f;
    bool ok = true;
    while (ok && next_field(self, &rest, &f)) {
        ok = is_data(f.number) || put(self, out, f.whole.data, f.whole.bytes);
    }
    ok = ok && self->status == KILN_STATUS_OK && put_head(self, out, TENSOR_RAW, tensor->bytes);
    if (ok && given != NULL) {
        return put_given(self, out, given, tensor->bytes);
    }
    return ok && put(self, out, tensor->data, tensor->bytes);
}

/// What the writer has to know of a tensor's message.
static bool look(rewrite *self, span rest, span *out_name, bool *out_external)
{
    field f;
    *out_name = (span){(const uint8_t *)"", 0};
    *out_external = false;
    while (next_field(self, &rest, &f)) {
        *out_name = f.number == TENSOR_NAME && f.has_body ? f.body : *out_name;
        *out_external = *out_external || f.number == 13;
    }
    return self->status == KILN_STATUS_OK;
}

/// Data in another file comes along: the new file may lie elsewhere.
static bool put_initializer(rewrite *self, pb_ostream_t *out, const field *f)
{
    span name;
    bool external = false;
    const kilni_onnx_tensor *tensor = NULL;
    kiln_tensor *given = NULL;
    if (!look(self, f->body, &name, &external)) {
        return false;
    }
    bool changes = find_contents(self, name, &tensor, &given) ||
                   (external && tensor != NULL && tensor->data != NULL);
    if (!changes) {
        return put(self, out, f->whole.data, f->whole.bytes);
    }
    pb_ostream_t sizing = PB_OSTREAM_SIZING;
    return put_tensor(self, &sizing, f->body, tensor, given) &&
           put_head(self, out, GRAPH_INITIALIZER, sizing.bytes_written) &&
           put_tensor(self, out, f->body, tensor, given);
}

// ---- the file ----

static bool put_graph(rewrite *self, pb_ostream_t *out, span rest)
{
    field f;
    bool ok = true;
    while (ok && next_field(self, &rest, &f)) {
        ok = f.number == GRAPH_INITIALIZER && f.has_body
                 ? put_initializer(self, out, &f)
                 : put(self, out, f.whole.data, f.whole.bytes);
    }
    return ok && self->status == KILN_STATUS_OK;
}

static bool put_model(rewrite *self, pb_ostream_t *out)
{
    span rest = {self->model->file.data, self->model->file.bytes};
    field f;
    bool ok = true;
    while (ok && next_field(self, &rest, &f)) {
        if (f.number != MODEL_GRAPH || !f.has_body) {
            ok = put(self, out, f.whole.data, f.whole.bytes);
            continue;
        }
        pb_ostream_t sizing = PB_OSTREAM_SIZING;
        ok = put_graph(self, &sizing, f.body);
        if (ok && sizing.bytes_written > most_bytes) {
            ok = give_up(self, kiln_fail(self->err, OUT_OF_RANGE,
                                         "a file of %zu bytes: beyond 2 GiB there can be none",
                                         sizing.bytes_written));
        }
        ok = ok && put_head(self, out, MODEL_GRAPH, sizing.bytes_written) &&
             put_graph(self, out, f.body);
    }
    return ok && self->status == KILN_STATUS_OK;
}

static kiln_status check_weights(const rewrite *self)
{
    for (size_t i = 0; i < self->n_weights; i++) {
        const kiln_onnx_input *given = &self->weights[i];
        if (given->name == NULL || given->tensor == NULL) {
            return kiln_fail(self->err, INVALID_ARGUMENT, "a weight needs a name and a tensor");
        }
        const span name = {(const uint8_t *)given->name, strlen(given->name)};
        kiln_status status =
            kilni_onnx_check_weight(find_tensor(self, name), given->name, given->tensor, self->err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return KILN_STATUS_OK;
}

static bool to_file(pb_ostream_t *stream, const uint8_t *data, size_t count)
{
    return fwrite(data, 1, count, stream->state) == count;
}

kiln_status kiln_onnx_model_write(const kiln_onnx_model *model, const char *path,
                                  const kiln_onnx_input *weights, size_t n_weights, kiln_error *err)
{
    char beside[4200];
    if (model == NULL || path == NULL || (weights == NULL && n_weights > 0)) {
        return kiln_fail(err, INVALID_ARGUMENT, "model, path and weights must not be NULL");
    }
    rewrite self = {.model = model, .weights = weights, .n_weights = n_weights, .err = err};
    kiln_status status = check_weights(&self);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    FILE *file = kilni_base_replace_begin(path, beside, sizeof(beside));
    if (file == NULL) {
        return kiln_fail(err, UNAVAILABLE, "%s cannot be written: %s", path, strerror(errno));
    }
    pb_ostream_t out = {.callback = to_file, .state = file, .max_size = SIZE_MAX};
    bool good = put_model(&self, &out);
    if (!kilni_base_replace_end(file, beside, path, good) && good) {
        return kiln_fail(err, UNAVAILABLE, "%s cannot be written: %s", path, strerror(errno));
    }
    return good ? KILN_STATUS_OK : kiln_error_context(err, "%s", path);
}
