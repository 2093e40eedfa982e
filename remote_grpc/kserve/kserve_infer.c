// SPDX-License-Identifier: MIT OR Apache-2.0
// ModelInfer's messages. Raw contents stay where they arrived; typed contents become raw ones.
// Decides what a request may say at all (counts, lengths, names that are too long); whether the
// model takes it is for those who run it.

#include "kserve.h"

#include <kserve/inference.pb.h>

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define TAG(message, field) inference_##message##_##field##_tag
#define INPUT(field) TAG(ModelInferRequest_InferInputTensor, field)

// ---- parameters ----

typedef struct parameter {
    char key[KILN_MODEL_NAME]; ///< "" for one that is too long to be known
    uint64_t number;
    kilni_wire_piece text;
} parameter;

static void read_parameter(kilni_wire_piece entry, parameter *out)
{
    enum { KEY = 1, VALUE = 2 };
    kilni_wire_field field;
    kilni_wire_piece value = kilni_wire_get(entry, VALUE);
    *out = (parameter){.key = ""};
    if (!kilni_wire_text(kilni_wire_get(entry, KEY), out->key, sizeof(out->key))) {
        out->key[0] = '\0';
    }
    while (kilni_wire_take(&value, &field)) {
        out->number = field.value;
        out->text = field.bytes;
    }
}

static bool is_key(const parameter *p, const char *key)
{
    return strcmp(p->key, key) == 0;
}

/// Where in shared memory a tensor lies.
static kiln_status read_place(kilni_wire_piece entry, kiln_model_tensor *tensor, kiln_error *err)
{
    parameter p;
    read_parameter(entry, &p);
    if (is_key(&p, "shared_memory_region")) {
        if (!kilni_wire_text(p.text, tensor->region, sizeof(tensor->region))) {
            return kiln_fail(err, INVALID_ARGUMENT, "the region of tensor %s has too long a name",
                             tensor->name);
        }
    } else if (is_key(&p, "shared_memory_offset")) {
        tensor->region_offset = p.number;
    } else if (is_key(&p, "shared_memory_byte_size")) {
        tensor->bytes = (size_t)p.number;
    }
    return KILN_STATUS_OK;
}

/// A sequence is named by a number, 0: none, or by a text.
static kiln_status read_sequence(const parameter *p, kiln_model_request *request, kiln_error *err)
{
    size_t size = sizeof(request->sequence);
    if (p->text.length == 0) {
        request->sequence[0] = '\0';
        if (p->number != 0) {
            snprintf(request->sequence, size, "%" PRIu64, p->number);
        }
        return KILN_STATUS_OK;
    }
    return kilni_wire_text(p->text, request->sequence, size)
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT, "sequence_id is longer than %zu bytes", size - 1);
}

static kiln_status read_request_parameter(kilni_wire_piece entry, kiln_model_request *request,
                                          kiln_error *err)
{
    parameter p;
    read_parameter(entry, &p);
    if (is_key(&p, "timeout")) {
        request->timeout_us = p.number;
    } else if (is_key(&p, "priority")) {
        request->priority = p.number;
    } else if (is_key(&p, "sequence_start")) {
        request->sequence_start = p.number != 0;
    } else if (is_key(&p, "sequence_end")) {
        request->sequence_end = p.number != 0;
    } else if (is_key(&p, "sequence_id")) {
        return read_sequence(&p, request, err);
    }
    return KILN_STATUS_OK;
}

// ---- inputs ----

static kiln_status read_dtype(kilni_wire_piece text, kiln_model_tensor *tensor, kiln_error *err)
{
    char name[16] = "";
    if (!kilni_wire_text(text, name, sizeof(name))) {
        return kiln_fail(err, INVALID_ARGUMENT, "input %s has no known datatype", tensor->name);
    }
    tensor->dtype = kiln_model_dtype_of(name);
    if (strcmp(name, "BYTES") == 0) {
        return kiln_fail(err, UNIMPLEMENTED, "input %s is BYTES: texts are not served",
                         tensor->name);
    }
    return tensor->dtype != KILN_DTYPE_NONE
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT, "input %s has datatype %s, which is none",
                           tensor->name, name);
}

static kiln_status add_dim(kiln_model_tensor *tensor, uint64_t value, kiln_error *err)
{
    if (tensor->rank == KILN_MAX_RANK) {
        return kiln_fail(err, INVALID_ARGUMENT, "input %s has more than %d dimensions",
                         tensor->name, KILN_MAX_RANK);
    }
    if (value > INT64_MAX) {
        return kiln_fail(err, INVALID_ARGUMENT, "input %s has a dimension of %" PRId64,
                         tensor->name, (int64_t)value);
    }
    tensor->dims[tensor->rank++] = (int64_t)value;
    return KILN_STATUS_OK;
}

static kiln_status read_dims(const kilni_wire_field *field, kiln_model_tensor *tensor,
                             kiln_error *err)
{
    kilni_wire_piece list = field->bytes;
    uint64_t value = field->value;
    if (!field->is_bytes) {
        return add_dim(tensor, value, err);
    }
    kiln_status status = KILN_STATUS_OK;
    while (list.length > 0 && status == KILN_STATUS_OK) {
        status =
            kilni_wire_take_varint(&list, &value)
                ? add_dim(tensor, value, err)
                : kiln_fail(err, INVALID_ARGUMENT, "input %s has a damaged shape", tensor->name);
    }
    return status;
}

static uint32_t contents_of(kiln_dtype dtype)
{
    switch (dtype) {
#define KILN_MODEL_DTYPE(id, name, number, contents)                                               \
    case KILN_DTYPE_##id:                                                                          \
        return contents;
#include "remote_models_dtypes.def"
#undef KILN_MODEL_DTYPE
    default:
        return 0;
    }
}

static size_t wire_width(uint32_t contents)
{
    return contents == TAG(InferTensorContents, fp32_contents)   ? 4
           : contents == TAG(InferTensorContents, fp64_contents) ? 8
                                                                 : 0;
}

/// Elements of one field of typed contents; each takes at least a byte on the wire.
static size_t count_elements(kilni_wire_piece contents, uint32_t number)
{
    kilni_wire_field field;
    size_t width = wire_width(number);
    size_t count = 0;
    while (kilni_wire_take(&contents, &field)) {
        if (field.number != number) {
            continue;
        }
        if (!field.is_bytes) {
            count++;
        } else if (width > 0) {
            count += field.bytes.length / width;
        } else {
            for (size_t i = 0; i < field.bytes.length; i++) {
                count += field.bytes.bytes[i] < 128;
            }
        }
    }
    return count;
}

static bool take_element(kilni_wire_piece *list, size_t width, uint64_t *out_value)
{
    if (width == 0) {
        return kilni_wire_take_varint(list, out_value);
    }
    if (list->length < width) {
        return false;
    }
    *out_value = 0;
    memcpy(out_value, list->bytes, width); // little-endian on both sides
    list->bytes += width;
    list->length -= width;
    return true;
}

/// Turns typed contents into raw ones.
static kiln_status read_contents(kiln_arena *arena, kilni_wire_piece contents,
                                 kiln_model_tensor *tensor, kiln_error *err)
{
    uint32_t number = contents_of(tensor->dtype);
    size_t size = kiln_dtype_size(tensor->dtype);
    size_t count = number > 0 ? count_elements(contents, number) : 0;
    size_t made = 0;
    kilni_wire_field field;
    if (number == 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "input %s: %s travels as raw contents only",
                         tensor->name, kiln_model_dtype_name(tensor->dtype));
    }
    char *bytes = kiln_arena_alloc(arena, (count + 1) * size);
    if (bytes == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for input %s", tensor->name);
    }
    while (kilni_wire_take(&contents, &field)) {
        uint64_t value = field.value;
        if (field.number != number) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "input %s is %s, but its contents are of another datatype",
                             tensor->name, kiln_model_dtype_name(tensor->dtype));
        }
        bool more = !field.is_bytes;
        while (made < count && (more || take_element(&field.bytes, wire_width(number), &value))) {
            value = tensor->dtype == KILN_DTYPE_BOOL ? value != 0 : value;
            memcpy(bytes + made++ * size, &value, size);
            if (more) {
                break;
            }
        }
    }
    tensor->data = bytes;
    tensor->bytes = made * size;
    return KILN_STATUS_OK;
}

static kiln_status read_input(kilni_kserve_infer *infer, kilni_wire_piece message, kiln_error *err)
{
    kiln_model_request *request = &infer->request;
    kiln_status status = KILN_STATUS_OK;
    kilni_wire_field field;
    kilni_wire_piece contents = {NULL, 0};
    if (request->n_inputs == KILN_MODEL_TENSORS) {
        return kiln_fail(err, INVALID_ARGUMENT, "more than %d inputs", KILN_MODEL_TENSORS);
    }
    kiln_model_tensor *tensor = &request->inputs[request->n_inputs++];
    if (!kilni_wire_text(kilni_wire_get(message, INPUT(name)), tensor->name,
                         sizeof(tensor->name))) {
        return kiln_fail(err, INVALID_ARGUMENT, "the name of input %u is longer than %d bytes",
                         request->n_inputs - 1, KILN_MODEL_NAME - 1);
    }
    KILN_TRY(out, status, read_dtype(kilni_wire_get(message, INPUT(datatype)), tensor, err));
    while (kilni_wire_take(&message, &field)) {
        if (field.number == INPUT(shape)) {
            KILN_TRY(out, status, read_dims(&field, tensor, err));
        } else if (field.number == INPUT(parameters)) {
            KILN_TRY(out, status, read_place(field.bytes, tensor, err));
        } else if (field.number == INPUT(contents)) {
            contents = field.bytes;
        }
    }
    if (contents.length > 0) {
        KILN_TRY(out, status, read_contents(&infer->arena, contents, tensor, err));
    }
out:
    return status;
}

/// Raw contents belong to the inputs that are not in shared memory, in their order.
static kiln_status give_raw(kiln_model_request *request, kilni_wire_piece raw, uint32_t *place,
                            kiln_error *err)
{
    while (*place < request->n_inputs && request->inputs[*place].region[0] != '\0') {
        (*place)++;
    }
    if (*place == request->n_inputs) {
        return kiln_fail(err, INVALID_ARGUMENT, "there are more raw contents than inputs");
    }
    kiln_model_tensor *tensor = &request->inputs[(*place)++];
    if (tensor->data != NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "input %s has typed contents beside raw ones",
                         tensor->name);
    }
    tensor->data = raw.bytes;
    tensor->bytes = raw.length;
    return KILN_STATUS_OK;
}

static kiln_status read_wanted(kiln_model_request *request, kilni_wire_piece message,
                               kiln_error *err)
{
    kilni_wire_field field;
    kiln_status status = KILN_STATUS_OK;
    if (request->n_wanted == KILN_MODEL_TENSORS) {
        return kiln_fail(err, INVALID_ARGUMENT, "more than %d outputs", KILN_MODEL_TENSORS);
    }
    kiln_model_tensor *tensor = &request->wanted[request->n_wanted++];
    while (kilni_wire_take(&message, &field) && status == KILN_STATUS_OK) {
        if (field.number == TAG(ModelInferRequest_InferRequestedOutputTensor, name)) {
            status = kilni_wire_text(field.bytes, tensor->name, sizeof(tensor->name))
                         ? KILN_STATUS_OK
                         : kiln_fail(err, INVALID_ARGUMENT, "the name of an output is too long");
        } else if (field.number == TAG(ModelInferRequest_InferRequestedOutputTensor, parameters)) {
            parameter p;
            read_parameter(field.bytes, &p);
            status = is_key(&p, "classification")
                         ? kiln_fail(err, UNIMPLEMENTED, "classification is not served")
                         : read_place(field.bytes, tensor, err);
        }
    }
    return status;
}

static kiln_status read_field(kilni_kserve_infer *infer, const kilni_wire_field *field,
                              kiln_error *err)
{
    kiln_model_request *request = &infer->request;
    bool fits = true;
    switch (field->number) {
    case TAG(ModelInferRequest, model_name):
        fits = kilni_wire_text(field->bytes, request->model, sizeof(request->model));
        break;
    case TAG(ModelInferRequest, model_version):
        fits = kilni_wire_text(field->bytes, request->version, sizeof(request->version));
        break;
    case TAG(ModelInferRequest, id):
        infer->id = field->bytes;
        break;
    case TAG(ModelInferRequest, parameters):
        return read_request_parameter(field->bytes, request, err);
    case TAG(ModelInferRequest, inputs):
        return read_input(infer, field->bytes, err);
    case TAG(ModelInferRequest, outputs):
        return read_wanted(request, field->bytes, err);
    default:
        break;
    }
    return fits ? KILN_STATUS_OK
                : kiln_fail(err, INVALID_ARGUMENT, "the name or version of the model is too long");
}

kiln_status kilni_kserve_infer_read(const kiln_env *env, kilni_wire_piece message,
                                    kilni_kserve_infer *out_infer, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    kilni_wire_piece left = message;
    kilni_wire_field field;
    uint32_t place = 0;
    kiln_arena_init(&out_infer->arena, env);
    while (kilni_wire_take(&left, &field)) {
        KILN_TRY(out, status, read_field(out_infer, &field, err));
    }
    if (left.length > 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "a damaged ModelInferRequest");
    }
    left = message; // once more, for raw contents may stand before the inputs
    while (kilni_wire_take(&left, &field)) {
        if (field.number == TAG(ModelInferRequest, raw_input_contents)) {
            KILN_TRY(out, status, give_raw(&out_infer->request, field.bytes, &place, err));
        }
    }
out:
    return status;
}

/// Zeroes what was written only: most of a request is room for tensors that it does not have.
void kilni_kserve_infer_clear(kilni_kserve_infer *infer)
{
    kiln_model_request *request = &infer->request;
    size_t tail = offsetof(kiln_model_request, timeout_us);
    memset(request->inputs, 0, request->n_inputs * sizeof(request->inputs[0]));
    memset(request->wanted, 0, request->n_wanted * sizeof(request->wanted[0]));
    memset(request, 0, offsetof(kiln_model_request, inputs));
    memset((char *)request + tail, 0, sizeof(*request) - tail);
    if (infer->arena.env != NULL) {
        kiln_arena_fini(&infer->arena);
    }
    infer->id = (kilni_wire_piece){NULL, 0};
    infer->arena = (kiln_arena){.env = NULL};
}

// ---- the answer ----

/// {key: a parameter}
static void put_parameter(kiln_string *out, uint32_t number, const char *key, uint32_t kind,
                          uint64_t value, const char *text)
{
    kiln_string entry;
    kiln_string choice;
    kiln_string_init(&entry, out->env);
    kiln_string_init(&choice, out->env);
    kilni_wire_put_text(&entry, 1, key);
    if (text != NULL) {
        kilni_wire_put(&choice, kind, text, strlen(text));
    } else {
        kilni_wire_put_number(&choice, kind, value);
    }
    kilni_wire_put_message(&entry, 2, &choice);
    kilni_wire_put_message(out, number, &entry);
}

static void put_output(kiln_string *out, const kiln_model_tensor *tensor)
{
    enum {
        NAME = TAG(ModelInferResponse_InferOutputTensor, name),
        DATATYPE = TAG(ModelInferResponse_InferOutputTensor, datatype),
        SHAPE = TAG(ModelInferResponse_InferOutputTensor, shape),
        PARAMETERS = TAG(ModelInferResponse_InferOutputTensor, parameters)
    };
    kiln_string row;
    kiln_string_init(&row, out->env);
    kilni_wire_put_text(&row, NAME, tensor->name);
    kilni_wire_put_text(&row, DATATYPE, kiln_model_dtype_name(tensor->dtype));
    for (uint32_t i = 0; i < tensor->rank; i++) {
        kilni_wire_put_number(&row, SHAPE, (uint64_t)tensor->dims[i]);
    }
    if (tensor->region[0] != '\0') {
        put_parameter(&row, PARAMETERS, "shared_memory_region", TAG(InferParameter, string_param),
                      0, tensor->region);
        put_parameter(&row, PARAMETERS, "shared_memory_offset", TAG(InferParameter, int64_param),
                      tensor->region_offset, NULL);
        put_parameter(&row, PARAMETERS, "shared_memory_byte_size", TAG(InferParameter, int64_param),
                      tensor->bytes, NULL);
    }
    kilni_wire_put_message(out, TAG(ModelInferResponse, outputs), &row);
}

static void put_contents(kiln_string *out, const kiln_model_tensor *tensor,
                         kilni_kserve_contents *contents)
{
    if (contents == NULL) {
        kilni_wire_put(out, TAG(ModelInferResponse, raw_output_contents), tensor->data,
                       tensor->bytes);
        return;
    }
    kilni_wire_put_head(out, TAG(ModelInferResponse, raw_output_contents), tensor->bytes);
    contents->places[contents->count] = out->length;
    contents->pieces[contents->count++] = (kilni_wire_piece){tensor->data, tensor->bytes};
}

void kilni_kserve_answer_put(kiln_string *out, const kilni_kserve_infer *infer,
                             const kiln_model_answer *answer, kilni_kserve_contents *out_contents)
{
    kilni_wire_put_text(out, TAG(ModelInferResponse, model_name), infer->request.model);
    kilni_wire_put_text(out, TAG(ModelInferResponse, model_version), answer->version);
    if (infer->id.length > 0) {
        kilni_wire_put(out, TAG(ModelInferResponse, id), infer->id.bytes, infer->id.length);
    }
    if (out_contents == NULL) {
        put_parameter(out, TAG(ModelInferResponse, parameters), "triton_final_response",
                      TAG(InferParameter, bool_param), 1, NULL);
    }
    for (uint32_t i = 0; i < answer->n_outputs; i++) {
        put_output(out, &answer->outputs[i]);
    }
    for (uint32_t i = 0; i < answer->n_outputs; i++) {
        if (answer->outputs[i].region[0] == '\0') {
            put_contents(out, &answer->outputs[i], out_contents);
        }
    }
}

#undef TAG
#undef INPUT
