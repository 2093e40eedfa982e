// SPDX-License-Identifier: MIT OR Apache-2.0
// JSON to requests and back. Numbers are checked against the element type they are to become; what
// JSON cannot say (NaN, infinities, halves) travels as binary tensors.

#include "serving_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- numbers ----

/// Where the elements of a tensor go.
typedef struct element_sink {
    const kiln_model_tensor *tensor;
    char *to;
    size_t size; ///< of an element
    size_t count;
    size_t room; ///< elements
} element_sink;

static bool whole_fits(kiln_dtype dtype, int64_t value)
{
    unsigned bits = (unsigned)kiln_dtype_size(dtype) * 8;
    bool is_signed = kiln_dtype_kind_of(dtype) == KILN_KIND_INT;
    if (bits == 64) {
        return is_signed || value >= 0;
    }
    int64_t top = INT64_C(1) << (is_signed ? bits - 1 : bits);
    return value >= (is_signed ? -top : 0) && value < top;
}

static kiln_status put_element(element_sink *sink, const json_t *item, kiln_error *err)
{
    kiln_dtype dtype = sink->tensor->dtype;
    int64_t whole = json_is_boolean(item) ? json_is_true(item) : json_integer_value(item);
    char *to = sink->to + sink->count * sink->size;
    bool fits = false;
    if (sink->count == sink->room) {
        return kiln_fail(err, INVALID_ARGUMENT, "input %.60s has more data than its shape says",
                         sink->tensor->name);
    }
    if (kiln_dtype_kind_of(dtype) == KILN_KIND_FLOAT) {
        double value = json_number_value(item);
        float single = (float)value;
        fits = json_is_number(item);
        memcpy(to, dtype == KILN_DTYPE_F64 ? (const void *)&value : &single, sink->size);
    } else if (dtype == KILN_DTYPE_BOOL) {
        fits = json_is_boolean(item) || (json_is_integer(item) && (whole == 0 || whole == 1));
        *to = whole != 0;
    } else {
        fits = json_is_integer(item) && whole_fits(dtype, whole);
        memcpy(to, &whole, sink->size); // little-endian
    }
    sink->count++;
    return fits ? KILN_STATUS_OK
                : kiln_fail(err, INVALID_ARGUMENT, "element %zu of input %.60s is no %s",
                            sink->count - 1, sink->tensor->name, kiln_model_dtype_name(dtype));
}

/// Lists in lists, or one flat list; no deeper than a shape.
static kiln_status put_elements(element_sink *sink, const json_t *list, int depth, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    if (depth > KILN_MAX_RANK) {
        return kiln_fail(err, INVALID_ARGUMENT, "the data of input %.60s are lists too deep",
                         sink->tensor->name);
    }
    for (size_t i = 0; i < json_array_size(list) && status == KILN_STATUS_OK; i++) {
        const json_t *item = json_array_get(list, i);
        status = json_is_array(item) ? put_elements(sink, item, depth + 1, err)
                                     : put_element(sink, item, err);
    }
    return status;
}

static size_t count_numbers(const json_t *list, int depth)
{
    size_t count = 0;
    for (size_t i = 0; depth <= KILN_MAX_RANK && i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        count += json_is_array(item) ? count_numbers(item, depth + 1) : 1;
    }
    return count;
}

static kiln_status read_data(kiln_arena *arena, const json_t *data, kiln_model_tensor *tensor,
                             kiln_error *err)
{
    element_sink sink = {.tensor = tensor, .size = kiln_dtype_size(tensor->dtype)};
    if (tensor->dtype == KILN_DTYPE_F16 || tensor->dtype == KILN_DTYPE_BF16) {
        return kiln_fail(err, INVALID_ARGUMENT, "input %.60s: %s travels as binary data only",
                         tensor->name, kiln_model_dtype_name(tensor->dtype));
    }
    sink.room = count_numbers(data, 0);
    sink.to = kiln_arena_alloc(arena, (sink.room + 1) * sink.size);
    if (sink.to == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for input %.60s", tensor->name);
    }
    kiln_status status = put_elements(&sink, data, 0, err);
    tensor->data = sink.to;
    tensor->bytes = sink.count * sink.size;
    return status;
}

// ---- requests ----

/// What binary tensors are taken from.
typedef struct body_rest {
    const char *at;
    size_t left;
} body_rest;

static kiln_status copy_text(const json_t *object, const char *key, char *out, size_t size,
                             kiln_error *err)
{
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);
    out[0] = '\0';
    if (value == NULL) {
        return KILN_STATUS_OK;
    }
    if (text == NULL || strlen(text) >= size) {
        return kiln_fail(err, INVALID_ARGUMENT, "\"%s\" is a text of less than %zu bytes", key,
                         size);
    }
    memcpy(out, text, strlen(text) + 1);
    return KILN_STATUS_OK;
}

static uint64_t number_of(const json_t *object, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(object, key));
    return value > 0 ? (uint64_t)value : 0;
}

static kiln_status read_region(const json_t *parameters, kiln_model_tensor *tensor, kiln_error *err)
{
    if (json_object_get(parameters, "shared_memory_region") != NULL) {
        tensor->region_offset = number_of(parameters, "shared_memory_offset");
        tensor->bytes = (size_t)number_of(parameters, "shared_memory_byte_size");
    }
    return copy_text(parameters, "shared_memory_region", tensor->region, sizeof(tensor->region),
                     err);
}

static kiln_status read_shape(const json_t *shape, kiln_model_tensor *tensor, kiln_error *err)
{
    if (!json_is_array(shape) || json_array_size(shape) > KILN_MAX_RANK) {
        return kiln_fail(err, INVALID_ARGUMENT, "input %.60s has no shape of at most %d dimensions",
                         tensor->name, KILN_MAX_RANK);
    }
    tensor->rank = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        const json_t *extent = json_array_get(shape, i);
        tensor->dims[i] = json_integer_value(extent);
        if (!json_is_integer(extent) || tensor->dims[i] < 0) {
            return kiln_fail(err, INVALID_ARGUMENT, "dimension %u of input %.60s is no length", i,
                             tensor->name);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status read_binary(const json_t *parameters, body_rest *rest, kiln_model_tensor *tensor,
                               kiln_error *err)
{
    uint64_t bytes = number_of(parameters, "binary_data_size");
    if (bytes > rest->left) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "input %.60s has %" PRIu64 " bytes of binary data, %zu are left",
                         tensor->name, bytes, rest->left);
    }
    tensor->data = rest->at;
    tensor->bytes = (size_t)bytes;
    rest->at += bytes;
    rest->left -= (size_t)bytes;
    return KILN_STATUS_OK;
}

static kiln_status read_contents(kilni_json_infer *infer, const json_t *input, body_rest *rest,
                                 kiln_model_tensor *tensor, kiln_error *err)
{
    const json_t *parameters = json_object_get(input, "parameters");
    const json_t *data = json_object_get(input, "data");
    if (json_object_get(parameters, "binary_data_size") != NULL) {
        return read_binary(parameters, rest, tensor, err);
    }
    if (data != NULL && !json_is_array(data)) {
        return kiln_fail(err, INVALID_ARGUMENT, "the data of input %.60s are no list",
                         tensor->name);
    }
    return data != NULL ? read_data(&infer->arena, data, tensor, err)
                        : read_region(parameters, tensor, err);
}

static kiln_status read_input(kilni_json_infer *infer, const json_t *input, body_rest *rest,
                              kiln_error *err)
{
    char datatype[16];
    kiln_status status = KILN_STATUS_OK;
    kiln_model_tensor *tensor = &infer->request.inputs[infer->request.n_inputs++];
    KILN_TRY(out, status, copy_text(input, "name", tensor->name, sizeof(tensor->name), err));
    KILN_TRY(out, status, copy_text(input, "datatype", datatype, sizeof(datatype), err));
    tensor->dtype = kiln_model_dtype_of(datatype);
    if (strcmp(datatype, "BYTES") == 0) {
        return kiln_fail(err, UNIMPLEMENTED, "input %.60s is BYTES: texts are not served",
                         tensor->name);
    }
    if (tensor->dtype == KILN_DTYPE_NONE) {
        return kiln_fail(err, INVALID_ARGUMENT, "input %.60s has datatype \"%s\", which is none",
                         tensor->name, datatype);
    }
    KILN_TRY(out, status, read_shape(json_object_get(input, "shape"), tensor, err));
    KILN_TRY(out, status, read_contents(infer, input, rest, tensor, err));
out:
    return status;
}

static kiln_status read_output(kilni_json_infer *infer, const json_t *output, kiln_error *err)
{
    const json_t *parameters = json_object_get(output, "parameters");
    const json_t *binary = json_object_get(parameters, "binary_data");
    kiln_status status = KILN_STATUS_OK;
    uint32_t index = infer->request.n_wanted++;
    kiln_model_tensor *tensor = &infer->request.wanted[index];
    if (json_object_get(parameters, "classification") != NULL) {
        return kiln_fail(err, UNIMPLEMENTED, "classification is not served");
    }
    infer->binary[index] = binary != NULL ? json_is_true(binary) : infer->all_binary;
    KILN_TRY(out, status, copy_text(output, "name", tensor->name, sizeof(tensor->name), err));
    KILN_TRY(out, status, read_region(parameters, tensor, err));
out:
    return status;
}

/// A sequence is named by a number, 0: none, or by a text.
static kiln_status read_sequence(const json_t *parameters, kiln_model_request *request,
                                 kiln_error *err)
{
    const json_t *id = json_object_get(parameters, "sequence_id");
    request->sequence_start = json_is_true(json_object_get(parameters, "sequence_start"));
    request->sequence_end = json_is_true(json_object_get(parameters, "sequence_end"));
    if (!json_is_integer(id)) {
        return copy_text(parameters, "sequence_id", request->sequence, sizeof(request->sequence),
                         err);
    }
    if (json_integer_value(id) != 0) {
        snprintf(request->sequence, sizeof(request->sequence), "%" PRIu64,
                 (uint64_t)json_integer_value(id));
    }
    return KILN_STATUS_OK;
}

static kiln_status read_root(kilni_json_infer *infer, const json_t *root, body_rest *rest,
                             kiln_error *err)
{
    const json_t *inputs = json_object_get(root, "inputs");
    const json_t *outputs = json_object_get(root, "outputs");
    const json_t *parameters = json_object_get(root, "parameters");
    kiln_status status = KILN_STATUS_OK;
    if (json_array_size(inputs) > KILN_MODEL_TENSORS ||
        json_array_size(outputs) > KILN_MODEL_TENSORS) {
        return kiln_fail(err, INVALID_ARGUMENT, "more than %d inputs or outputs",
                         KILN_MODEL_TENSORS);
    }
    infer->all_binary = json_is_true(json_object_get(parameters, "binary_data_output"));
    infer->request.timeout_us = number_of(parameters, "timeout");
    infer->request.priority = number_of(parameters, "priority");
    KILN_TRY(out, status, read_sequence(parameters, &infer->request, err));
    KILN_TRY(out, status, copy_text(root, "id", infer->id, sizeof(infer->id), err));
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        KILN_TRY(out, status, read_input(infer, json_array_get(inputs, i), rest, err));
    }
    for (size_t i = 0; i < json_array_size(outputs); i++) {
        KILN_TRY(out, status, read_output(infer, json_array_get(outputs, i), err));
    }
    if (rest->left > 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "%zu bytes of binary data belong to no input",
                         rest->left);
    }
out:
    return status;
}

kiln_status kilni_json_infer_read(const kiln_env *env, const char *body, size_t length,
                                  size_t json_length, kilni_json_infer *out_infer, kiln_error *err)
{
    json_error_t why;
    kiln_arena_init(&out_infer->arena, env);
    if (json_length > length) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "Inference-Header-Content-Length is %zu, the body has %zu bytes",
                         json_length, length);
    }
    body_rest rest = {body + json_length, length - json_length};
    json_t *root = json_loadb(body, json_length, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(root)) {
        json_decref(root);
        return kiln_fail(err, INVALID_ARGUMENT, "the request is no JSON object: %.120s",
                         root == NULL ? why.text : "it is something else");
    }
    kiln_status status = read_root(out_infer, root, &rest, err);
    json_decref(root);
    return status;
}

void kilni_json_infer_fini(kilni_json_infer *infer)
{
    if (infer->arena.env != NULL) {
        kiln_arena_fini(&infer->arena);
    }
}

// ---- answers ----

void kilni_json_text_put(kiln_string *out, const char *text)
{
    kiln_string_append(out, "\"", 1);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            kiln_string_printf(out, "\\%c", c);
        } else if (c < 32) {
            kiln_string_printf(out, "\\u%04x", c);
        } else {
            kiln_string_append(out, text, 1);
        }
    }
    kiln_string_append(out, "\"", 1);
}

void kilni_json_dims_put(kiln_string *out, const kiln_model_tensor *tensor, uint32_t first)
{
    kiln_string_append(out, "[", 1);
    for (uint32_t i = first; i < tensor->rank; i++) {
        kiln_string_printf(out, "%s%" PRId64, i > first ? "," : "", tensor->dims[i]);
    }
    kiln_string_append(out, "]", 1);
}

static void put_whole(kiln_string *out, kiln_dtype dtype, const char *bytes)
{
    uint64_t value = 0;
    size_t size = kiln_dtype_size(dtype);
    memcpy(&value, bytes, size);
    if (kiln_dtype_kind_of(dtype) == KILN_KIND_INT) {
        unsigned shift = 64 - 8 * (unsigned)size;
        kiln_string_printf(out, "%" PRId64, (int64_t)(value << shift) >> shift);
    } else if (dtype == KILN_DTYPE_BOOL) {
        kiln_string_printf(out, "%s", value != 0 ? "true" : "false");
    } else {
        kiln_string_printf(out, "%" PRIu64, value);
    }
}

static bool put_float(kiln_string *out, kiln_dtype dtype, const char *bytes)
{
    double wide = 0;
    float single = 0;
    uint16_t half = 0;
    switch ((int)dtype) {
    case KILN_DTYPE_F64:
        memcpy(&wide, bytes, sizeof(wide));
        break;
    case KILN_DTYPE_F32:
        memcpy(&single, bytes, sizeof(single));
        wide = (double)single;
        break;
    default:
        memcpy(&half, bytes, sizeof(half));
        wide = (double)(dtype == KILN_DTYPE_F16 ? kiln_f16_to_f32(half) : kiln_bf16_to_f32(half));
        break;
    }
    kiln_string_printf(out, "%.*g", dtype == KILN_DTYPE_F64 ? 17 : 9, wide);
    return isfinite(wide);
}

static kiln_status put_numbers(kiln_string *out, const kiln_model_tensor *tensor, kiln_error *err)
{
    size_t size = kiln_dtype_size(tensor->dtype);
    const char *bytes = tensor->data;
    bool floats = kiln_dtype_kind_of(tensor->dtype) == KILN_KIND_FLOAT;
    kiln_string_printf(out, ",\"data\":[");
    for (size_t at = 0; at < tensor->bytes; at += size) {
        if (at > 0) {
            kiln_string_append(out, ",", 1);
        }
        if (!floats) {
            put_whole(out, tensor->dtype, bytes + at);
        } else if (!put_float(out, tensor->dtype, bytes + at)) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "element %zu of output %.60s is no finite number, which JSON has no "
                             "word for: ask for binary data",
                             at / size, tensor->name);
        }
    }
    kiln_string_append(out, "]", 1);
    return KILN_STATUS_OK;
}

static bool is_binary(const kilni_json_infer *infer, uint32_t index)
{
    return infer->request.n_wanted > 0 ? infer->binary[index] : infer->all_binary;
}

static kiln_status put_output(kiln_string *out, const kiln_model_tensor *tensor, bool binary,
                              kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    kiln_string_printf(out, "{\"name\":");
    kilni_json_text_put(out, tensor->name);
    kiln_string_printf(out,
                       ",\"datatype\":\"%s\",\"shape\":", kiln_model_dtype_name(tensor->dtype));
    kilni_json_dims_put(out, tensor, 0);
    if (tensor->region[0] != '\0') {
        kiln_string_printf(out, ",\"parameters\":{\"shared_memory_region\":");
        kilni_json_text_put(out, tensor->region);
        kiln_string_printf(out,
                           ",\"shared_memory_offset\":%" PRIu64 ",\"shared_memory_byte_size\":%zu}",
                           tensor->region_offset, tensor->bytes);
    } else if (binary) {
        kiln_string_printf(out, ",\"parameters\":{\"binary_data_size\":%zu}", tensor->bytes);
    } else {
        status = put_numbers(out, tensor, err);
    }
    kiln_string_append(out, "}", 1);
    return status;
}

kiln_status kilni_json_answer_put(kiln_string *out, const kilni_json_infer *infer,
                                  const kiln_model_answer *answer, size_t *out_json_length,
                                  kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    bool any = false;
    kiln_string_printf(out, "{");
    if (infer->id[0] != '\0') {
        kiln_string_printf(out, "\"id\":");
        kilni_json_text_put(out, infer->id);
        kiln_string_append(out, ",", 1);
    }
    kiln_string_printf(out, "\"model_name\":");
    kilni_json_text_put(out, infer->request.model);
    kiln_string_printf(out, ",\"model_version\":\"%s\",\"outputs\":[", answer->version);
    for (uint32_t i = 0; i < answer->n_outputs && status == KILN_STATUS_OK; i++) {
        if (i > 0) {
            kiln_string_append(out, ",", 1);
        }
        status = put_output(out, &answer->outputs[i], is_binary(infer, i), err);
    }
    kiln_string_printf(out, "]}");
    size_t json_length = out->length;
    for (uint32_t i = 0; i < answer->n_outputs && status == KILN_STATUS_OK; i++) {
        if (is_binary(infer, i) && answer->outputs[i].region[0] == '\0') {
            any = true;
            kiln_string_append(out, answer->outputs[i].data, answer->outputs[i].bytes);
        }
    }
    *out_json_length = any ? json_length : 0;
    return status;
}
