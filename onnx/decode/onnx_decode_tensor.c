// SPDX-License-Identifier: MIT OR Apache-2.0
// TensorProto to a dense little-endian constant. Raw and external data stay where they are; typed
// fields are packed into the arena, and elements of four bits get a byte each. Every count is
// checked against the dimensions before anybody uses it. What a type means for the importer is not
// decided here: a type without a dtype is kept without data.
#include "onnx.pb.h"
#include "onnx_decode.h"

#include <string.h>

/// ONNX number, name, dtype, field of typed data (I: int32, L: int64, U: uint64, F: float, D:
/// double).
static const struct {
    const char *name;
    kiln_dtype dtype;
    char field;
} types[KILNI_ONNX_TYPE_LIMIT] = {
    [1] = {"float32", KILN_DTYPE_F32, 'F'},
    [2] = {"uint8", KILN_DTYPE_U8, 'I'},
    [3] = {"int8", KILN_DTYPE_I8, 'I'},
    [4] = {"uint16", KILN_DTYPE_U16, 'I'},
    [5] = {"int16", KILN_DTYPE_I16, 'I'},
    [6] = {"int32", KILN_DTYPE_I32, 'I'},
    [7] = {"int64", KILN_DTYPE_I64, 'L'},
    [8] = {"string", KILN_DTYPE_NONE, 0},
    [9] = {"bool", KILN_DTYPE_BOOL, 'I'},
    [10] = {"float16", KILN_DTYPE_F16, 'I'},
    [11] = {"float64", KILN_DTYPE_F64, 'D'},
    [12] = {"uint32", KILN_DTYPE_U32, 'U'},
    [13] = {"uint64", KILN_DTYPE_U64, 'U'},
    [14] = {"complex64", KILN_DTYPE_NONE, 0},
    [15] = {"complex128", KILN_DTYPE_NONE, 0},
    [16] = {"bfloat16", KILN_DTYPE_BF16, 'I'},
    [17] = {"float8e4m3fn", KILN_DTYPE_F8E4M3FN, 'I'},
    [18] = {"float8e4m3fnuz", KILN_DTYPE_F8E4M3FNUZ, 'I'},
    [19] = {"float8e5m2", KILN_DTYPE_F8E5M2, 'I'},
    [20] = {"float8e5m2fnuz", KILN_DTYPE_F8E5M2FNUZ, 'I'},
    [21] = {"uint4", KILN_DTYPE_U8, 'I'},
    [22] = {"int4", KILN_DTYPE_I8, 'I'},
    [23] = {"float4e2m1", KILN_DTYPE_F4E2M1, 'I'},
    [24] = {"float8e8m0", KILN_DTYPE_F8E8M0, 'I'},
    [25] = {"uint2", KILN_DTYPE_U8, 'I'},
    [26] = {"int2", KILN_DTYPE_I8, 'I'},
    [27] = {"float6e2m3", KILN_DTYPE_NONE, 0},
    [28] = {"float6e3m2", KILN_DTYPE_NONE, 0},
};

typedef struct tensor_fields {
    kilni_onnx_list dims;
    kilni_onnx_list floats;
    kilni_onnx_list int32s;
    kilni_onnx_list int64s;
    kilni_onnx_list uint64s;
    kilni_onnx_list doubles;
    kilni_onnx_list externals;
    kilni_onnx_span raw;
    kilni_onnx_list texts;
    int32_t location;
} tensor_fields;

typedef struct entry {
    const char *key;
    const char *value;
} entry;

const char *kilni_onnx_type_name(int32_t onnx_type)
{
    return onnx_type > 0 && onnx_type < KILNI_ONNX_TYPE_LIMIT ? types[onnx_type].name : NULL;
}

kiln_dtype kilni_onnx_type_dtype(int32_t onnx_type)
{
    return onnx_type > 0 && onnx_type < KILNI_ONNX_TYPE_LIMIT ? types[onnx_type].dtype
                                                              : KILN_DTYPE_NONE;
}

int32_t kilni_onnx_type_of(kiln_dtype dtype)
{
    for (int32_t i = 1; i < KILNI_ONNX_TYPE_LIMIT; i++) {
        if (types[i].dtype == dtype && dtype != KILN_DTYPE_NONE) {
            return i;
        }
    }
    return 0;
}

static bool read_entries(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    entry *item = kilni_onnx_push(slot->reader, slot->target, sizeof(*item));
    if (item == NULL) {
        return false;
    }
    *item = (entry){.key = "", .value = ""};
    onnx_StringStringEntryProto message = onnx_StringStringEntryProto_init_zero;
    kilni_onnx_slot slots[2];
    kilni_onnx_bind(&message.key, &slots[0], kilni_onnx_read_text, slot->reader, &item->key);
    kilni_onnx_bind(&message.value, &slots[1], kilni_onnx_read_text, slot->reader, &item->value);
    return kilni_onnx_decode_message(slot->reader, stream, onnx_StringStringEntryProto_fields,
                                     &message);
}

kiln_status kilni_onnx_set_dims(kilni_onnx_tensor *tensor, const kilni_onnx_list *dims,
                                kiln_error *err)
{
    if (dims->count > KILN_MAX_RANK) {
        return kiln_fail(err, UNIMPLEMENTED, "rank %u exceeds limit %d", dims->count,
                         KILN_MAX_RANK);
    }
    const int64_t *values = dims->items;
    tensor->rank = dims->count;
    tensor->count = 1;
    bool empty = false;
    for (uint32_t i = 0; i < dims->count; i++) {
        if (values[i] < 0) {
            return kiln_fail(err, INVALID_ARGUMENT, "negative length %lld of axis %u",
                             (long long)values[i], i);
        }
        tensor->dims[i] = values[i];
        empty = empty || values[i] == 0;
        if (values[i] != 0 && tensor->count > INT64_MAX / 16 / values[i]) {
            return kiln_fail(err, OUT_OF_RANGE, "dimensions beyond 2^59 elements");
        }
        tensor->count *= values[i] == 0 ? 1 : values[i];
    }
    tensor->count = empty ? 0 : tensor->count;
    return KILN_STATUS_OK;
}

static kiln_status parse_number(const char *text, int64_t *out_value, kiln_error *err)
{
    int64_t value = 0;
    const char *digit = text;
    for (; *digit >= '0' && *digit <= '9' && value <= (INT64_MAX - 9) / 10; digit++) {
        value = value * 10 + (*digit - '0');
    }
    if (*digit != '\0' || digit == text) {
        return kiln_fail(err, INVALID_ARGUMENT, "external data says '%s' where a number belongs",
                         text);
    }
    *out_value = value;
    return KILN_STATUS_OK;
}

static kiln_status take_external(kiln_onnx_model *model, const tensor_fields *fields,
                                 kilni_onnx_tensor *tensor, kiln_error *err)
{
    const entry *entries = fields->externals.items;
    const char *location = NULL;
    int64_t offset = 0;
    int64_t length = (int64_t)tensor->bytes;
    for (uint32_t i = 0; i < fields->externals.count; i++) {
        kiln_status status = KILN_STATUS_OK;
        if (strcmp(entries[i].key, "location") == 0) {
            location = entries[i].value;
        } else if (strcmp(entries[i].key, "offset") == 0) {
            status = parse_number(entries[i].value, &offset, err);
        } else if (strcmp(entries[i].key, "length") == 0) {
            status = parse_number(entries[i].value, &length, err);
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    if (location == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "external data without a location");
    }
    if ((uint64_t)length != tensor->bytes) {
        return kiln_fail(err, INVALID_ARGUMENT, "external data of %lld bytes where %zu are needed",
                         (long long)length, tensor->bytes);
    }
    size_t bytes = 0;
    return kilni_onnx_external_bytes(model, location, offset, length, &tensor->data, &bytes, err);
}

/// Bits of an element in a file, where several stand in one byte; 0: they do not.
static uint32_t packed_bits(const kilni_onnx_tensor *tensor)
{
    switch (tensor->onnx_type) {
    case KILNI_ONNX_TYPE_UINT4:
    case KILNI_ONNX_TYPE_INT4:
    case KILNI_ONNX_TYPE_F4E2M1:
        return 4;
    case KILNI_ONNX_TYPE_UINT2:
    case KILNI_ONNX_TYPE_INT2:
        return 2;
    default:
        return 0;
    }
}

static size_t stored_bytes(const kilni_onnx_tensor *tensor)
{
    size_t count = (size_t)tensor->count;
    uint32_t bits = packed_bits(tensor);
    size_t per_byte = bits == 0 ? 1 : 8 / bits;
    return bits == 0 ? count * kiln_dtype_size(tensor->dtype)
                     : count / per_byte + (count % per_byte != 0);
}

/// A few bits to a byte each, from the low bits up.
static kiln_status unpack(kiln_onnx_model *model, kilni_onnx_tensor *tensor, kiln_error *err)
{
    void *memory = NULL;
    kiln_status status = kilni_onnx_alloc(model, (size_t)tensor->count, &memory, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    uint8_t *target = memory;
    uint32_t bits = packed_bits(tensor), per_byte = 8 / bits;
    uint8_t sign = (uint8_t)(tensor->dtype == KILN_DTYPE_I8 ? 1u << (bits - 1) : 0);
    for (size_t i = 0; i < (size_t)tensor->count; i++) {
        uint32_t byte = tensor->data[i / per_byte];
        uint8_t value = (uint8_t)(byte >> (i % per_byte * bits) & ((1u << bits) - 1));
        target[i] = (uint8_t)((value ^ sign) - sign);
    }
    tensor->data = target;
    tensor->bytes = (size_t)tensor->count;
    return KILN_STATUS_OK;
}

/// Packs the low bytes of 64-bit numbers; ONNX stores short types in wide fields.
static kiln_status pack_ints(kiln_onnx_model *model, const kilni_onnx_list *numbers,
                             kilni_onnx_tensor *tensor, kiln_error *err)
{
    size_t size = kiln_dtype_size(tensor->dtype); /* of few bits: a byte holds several */
    const int64_t *values = numbers->items;
    if (size == sizeof(int64_t)) {
        tensor->data = numbers->items;
        return KILN_STATUS_OK;
    }
    void *memory = NULL;
    kiln_status status = kilni_onnx_alloc(model, tensor->bytes, &memory, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    uint8_t *target = memory;
    for (uint32_t i = 0; i < numbers->count; i++) {
        for (size_t byte = 0; byte < size; byte++) {
            target[i * size + byte] = (uint8_t)((uint64_t)values[i] >> (8 * byte));
        }
    }
    tensor->data = target;
    return KILN_STATUS_OK;
}

static kiln_status take_typed(kiln_onnx_model *model, const tensor_fields *fields,
                              kilni_onnx_tensor *tensor, kiln_error *err)
{
    char field = types[tensor->onnx_type].field;
    const kilni_onnx_list *list = field == 'F'   ? &fields->floats
                                  : field == 'D' ? &fields->doubles
                                  : field == 'L' ? &fields->int64s
                                  : field == 'U' ? &fields->uint64s
                                                 : &fields->int32s;
    int64_t needed = packed_bits(tensor) != 0 ? (int64_t)tensor->bytes : tensor->count;
    if ((int64_t)list->count != needed) {
        return kiln_fail(err, INVALID_ARGUMENT, "%u elements of data where the shape needs %lld",
                         list->count, (long long)needed);
    }
    if (field == 'F' || field == 'D') {
        tensor->data = list->items;
        return KILN_STATUS_OK;
    }
    return pack_ints(model, list, tensor, err);
}

static kiln_status take_stored(kiln_onnx_model *model, const tensor_fields *fields,
                               kilni_onnx_tensor *tensor, kiln_error *err)
{
    tensor->bytes = stored_bytes(tensor);
    if (fields->location == 1) {
        return take_external(model, fields, tensor, err);
    }
    if (!fields->raw.present) {
        return take_typed(model, fields, tensor, err);
    }
    if (fields->raw.bytes != tensor->bytes) {
        return kiln_fail(err, INVALID_ARGUMENT, "%zu bytes of data where the shape needs %zu",
                         fields->raw.bytes, tensor->bytes);
    }
    tensor->data = fields->raw.data;
    return KILN_STATUS_OK;
}

static kiln_status take_texts(const tensor_fields *fields, kilni_onnx_tensor *tensor,
                              kiln_error *err)
{
    if ((int64_t)fields->texts.count != tensor->count) {
        return kiln_fail(err, INVALID_ARGUMENT, "%u strings where the shape needs %lld",
                         fields->texts.count, (long long)tensor->count);
    }
    tensor->texts = fields->texts.items;
    return KILN_STATUS_OK;
}

static kiln_status take_data(kiln_onnx_model *model, const tensor_fields *fields,
                             kilni_onnx_tensor *tensor, kiln_error *err)
{
    if (tensor->onnx_type == KILNI_ONNX_TYPE_STRING) {
        return take_texts(fields, tensor, err);
    }
    if (tensor->dtype == KILN_DTYPE_NONE) {
        return KILN_STATUS_OK;
    }
    kiln_status status = take_stored(model, fields, tensor, err);
    return status == KILN_STATUS_OK && packed_bits(tensor) != 0 ? unpack(model, tensor, err)
                                                                : status;
}

static bool finish_tensor(kilni_onnx_reader *reader, const tensor_fields *fields,
                          kilni_onnx_tensor *tensor)
{
    tensor->dtype = kilni_onnx_type_dtype(tensor->onnx_type);
    kiln_status status = kilni_onnx_set_dims(tensor, &fields->dims, reader->err);
    if (status == KILN_STATUS_OK) {
        status = take_data(reader->model, fields, tensor, reader->err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_error_context(reader->err, "tensor '%s'", tensor->name);
        return kilni_onnx_refuse(reader, status);
    }
    return true;
}

bool kilni_onnx_read_tensor(kilni_onnx_reader *reader, pb_istream_t *stream,
                            kilni_onnx_tensor *out_tensor)
{
    onnx_TensorProto message = onnx_TensorProto_init_zero;
    tensor_fields fields = {0};
    kilni_onnx_slot slots[10];
    *out_tensor = (kilni_onnx_tensor){.name = ""};
    kilni_onnx_bind(&message.dims, &slots[0], kilni_onnx_read_ints, reader, &fields.dims);
    kilni_onnx_bind(&message.float_data, &slots[1], kilni_onnx_read_floats, reader, &fields.floats);
    kilni_onnx_bind(&message.int32_data, &slots[2], kilni_onnx_read_ints, reader, &fields.int32s);
    kilni_onnx_bind(&message.string_data, &slots[3], kilni_onnx_read_texts, reader, &fields.texts);
    kilni_onnx_bind(&message.int64_data, &slots[4], kilni_onnx_read_ints, reader, &fields.int64s);
    kilni_onnx_bind(&message.name, &slots[5], kilni_onnx_read_text, reader, &out_tensor->name);
    kilni_onnx_bind(&message.raw_data, &slots[6], kilni_onnx_read_span, reader, &fields.raw);
    kilni_onnx_bind(&message.double_data, &slots[7], kilni_onnx_read_doubles, reader,
                    &fields.doubles);
    kilni_onnx_bind(&message.uint64_data, &slots[8], kilni_onnx_read_ints, reader, &fields.uint64s);
    kilni_onnx_bind(&message.external_data, &slots[9], read_entries, reader, &fields.externals);
    if (!kilni_onnx_decode_message(reader, stream, onnx_TensorProto_fields, &message)) {
        return false;
    }
    out_tensor->onnx_type = message.data_type;
    fields.location = message.data_location;
    return finish_tensor(reader, &fields, out_tensor);
}

bool kilni_onnx_read_tensors(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    kilni_onnx_tensor *tensor = kilni_onnx_push(slot->reader, slot->target, sizeof(*tensor));
    return tensor != NULL && kilni_onnx_read_tensor(slot->reader, stream, tensor);
}
