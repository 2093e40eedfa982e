// SPDX-License-Identifier: MIT OR Apache-2.0
// What is made of tensors: sparse tensors (in models), sequences and optionals (in the files of
// test cases). Decides that sequences hold dense tensors only, and that an optional is a tensor, a
// sequence or nothing; what ONNX allows beyond that is refused by name.
#include "onnx.pb.h"
#include "onnx_decode.h"

#include <string.h>

// ---- sparse tensors ----

typedef struct one_tensor {
    kilni_onnx_tensor tensor;
    bool present;
} one_tensor;

static bool read_one(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    one_tensor *one = slot->target;
    one->present = true;
    return kilni_onnx_read_tensor(slot->reader, stream, &one->tensor);
}

/// Where values stand: i64, one number for each value, or one for each value and axis.
static kiln_status check_sparse(const kilni_onnx_tensor *values, const kilni_onnx_tensor *indices,
                                uint32_t rank, kiln_error *err)
{
    bool fits = values->rank == 1 && indices->dtype == KILN_DTYPE_I64 && indices->rank >= 1 &&
                indices->rank <= 2 && indices->dims[0] == values->dims[0] &&
                (indices->rank == 1 || indices->dims[1] == (int64_t)rank);
    return fits ? KILN_STATUS_OK
                : kiln_fail(err, INVALID_ARGUMENT,
                            "sparse tensor '%s': values and indices do not fit together",
                            values->name);
}

static bool finish_sparse(kilni_onnx_reader *reader, const one_tensor *values,
                          const one_tensor *indices, const kilni_onnx_list *dims,
                          kilni_onnx_tensor *out_tensor)
{
    kilni_onnx_list one = {0};
    if (!values->present || !indices->present) {
        return kilni_onnx_refuse(reader, kiln_fail(reader->err, INVALID_ARGUMENT,
                                                   "sparse tensor without values or indices"));
    }
    kiln_status status = check_sparse(&values->tensor, &indices->tensor, dims->count, reader->err);
    kilni_onnx_tensor shape = {.name = values->tensor.name};
    if (status == KILN_STATUS_OK) {
        status = kilni_onnx_set_dims(&shape, dims, reader->err);
    }
    if (status != KILN_STATUS_OK) {
        return kilni_onnx_refuse(reader, status);
    }
    kilni_onnx_tensor *kept = kilni_onnx_push(reader, &one, sizeof(*kept));
    if (kept == NULL) {
        return false;
    }
    *kept = indices->tensor;
    *out_tensor = values->tensor;
    out_tensor->rank = shape.rank;
    out_tensor->count = shape.count;
    memcpy(out_tensor->dims, shape.dims, sizeof(shape.dims));
    out_tensor->indices = kept;
    return true;
}

bool kilni_onnx_read_sparse_tensor(kilni_onnx_reader *reader, pb_istream_t *stream,
                                   kilni_onnx_tensor *out_tensor)
{
    onnx_SparseTensorProto message = onnx_SparseTensorProto_init_zero;
    one_tensor values = {.tensor = {.name = ""}};
    one_tensor indices = {.tensor = {.name = ""}};
    kilni_onnx_list dims = {0};
    kilni_onnx_slot slots[3];
    kilni_onnx_bind(&message.values, &slots[0], read_one, reader, &values);
    kilni_onnx_bind(&message.indices, &slots[1], read_one, reader, &indices);
    kilni_onnx_bind(&message.dims, &slots[2], kilni_onnx_read_ints, reader, &dims);
    return kilni_onnx_decode_message(reader, stream, onnx_SparseTensorProto_fields, &message) &&
           finish_sparse(reader, &values, &indices, &dims, out_tensor);
}

bool kilni_onnx_read_sparse_tensors(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    kilni_onnx_tensor *tensor = kilni_onnx_push(slot->reader, slot->target, sizeof(*tensor));
    if (tensor == NULL) {
        return false;
    }
    tensor->name = "";
    return kilni_onnx_read_sparse_tensor(slot->reader, stream, tensor);
}

// ---- sequences and optionals ----

typedef struct value_fields {
    kilni_onnx_list tensors;
    kiln_onnx_kind kind;
    uint32_t n_others; ///< maps, sparse tensors, and what is nested deeper than ONNX's operators go
} value_fields;

static bool decode_sequence(kilni_onnx_reader *reader, pb_istream_t *stream, value_fields *fields)
{
    onnx_SequenceProto message = onnx_SequenceProto_init_zero;
    kilni_onnx_slot slots[5];
    fields->kind = KILN_ONNX_KIND_SEQUENCE;
    kilni_onnx_bind(&message.tensor_values, &slots[0], kilni_onnx_read_tensors, reader,
                    &fields->tensors);
    kilni_onnx_bind(&message.sparse_tensor_values, &slots[1], kilni_onnx_count_field, reader,
                    &fields->n_others);
    kilni_onnx_bind(&message.sequence_values, &slots[2], kilni_onnx_count_field, reader,
                    &fields->n_others);
    kilni_onnx_bind(&message.map_values, &slots[3], kilni_onnx_count_field, reader,
                    &fields->n_others);
    kilni_onnx_bind(&message.optional_values, &slots[4], kilni_onnx_count_field, reader,
                    &fields->n_others);
    return kilni_onnx_decode_message(reader, stream, onnx_SequenceProto_fields, &message);
}

static bool read_inner_sequence(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    return decode_sequence(slot->reader, stream, slot->target);
}

static bool read_inner_tensor(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    value_fields *fields = slot->target;
    kilni_onnx_tensor *tensor = kilni_onnx_push(slot->reader, &fields->tensors, sizeof(*tensor));
    fields->kind = KILN_ONNX_KIND_TENSOR;
    return tensor != NULL && kilni_onnx_read_tensor(slot->reader, stream, tensor);
}

static bool decode_optional(kilni_onnx_reader *reader, pb_istream_t *stream, value_fields *fields)
{
    onnx_OptionalProto message = onnx_OptionalProto_init_zero;
    kilni_onnx_slot slots[5];
    fields->kind = KILN_ONNX_KIND_OPTIONAL;
    kilni_onnx_bind(&message.tensor_value, &slots[0], read_inner_tensor, reader, fields);
    kilni_onnx_bind(&message.sequence_value, &slots[1], read_inner_sequence, reader, fields);
    kilni_onnx_bind(&message.sparse_tensor_value, &slots[2], kilni_onnx_count_field, reader,
                    &fields->n_others);
    kilni_onnx_bind(&message.map_value, &slots[3], kilni_onnx_count_field, reader,
                    &fields->n_others);
    kilni_onnx_bind(&message.optional_value, &slots[4], kilni_onnx_count_field, reader,
                    &fields->n_others);
    return kilni_onnx_decode_message(reader, stream, onnx_OptionalProto_fields, &message);
}

kiln_status kilni_onnx_decode_value_file(kiln_onnx_model *model, kiln_onnx_kind kind,
                                         kiln_onnx_kind *out_kind,
                                         const kilni_onnx_tensor **out_items, uint32_t *out_count,
                                         kiln_error *err)
{
    kilni_onnx_reader reader = {.model = model, .err = err};
    pb_istream_t stream = pb_istream_from_buffer(model->file.data, model->file.bytes);
    value_fields fields = {.n_others = 0};
    bool ok = kind == KILN_ONNX_KIND_SEQUENCE ? decode_sequence(&reader, &stream, &fields)
                                              : decode_optional(&reader, &stream, &fields);
    if (!ok) {
        return kilni_onnx_stream_failure(&reader, &stream);
    }
    if (fields.n_others > 0) {
        return kiln_fail(err, UNIMPLEMENTED,
                         "a sequence or optional of something else than tensors");
    }
    if (fields.kind == KILN_ONNX_KIND_TENSOR && fields.tensors.count != 1) {
        return kiln_fail(err, INVALID_ARGUMENT, "an optional that holds %u tensors",
                         fields.tensors.count);
    }
    *out_kind = fields.kind;
    *out_items = fields.tensors.items;
    *out_count = fields.tensors.count;
    return KILN_STATUS_OK;
}

kiln_status kilni_onnx_decode_tensor_file(kiln_onnx_model *model, kilni_onnx_tensor *out_tensor,
                                          kiln_error *err)
{
    kilni_onnx_reader reader = {.model = model, .err = err};
    pb_istream_t stream = pb_istream_from_buffer(model->file.data, model->file.bytes);
    if (!kilni_onnx_read_tensor(&reader, &stream, out_tensor)) {
        return kilni_onnx_stream_failure(&reader, &stream);
    }
    return KILN_STATUS_OK;
}
