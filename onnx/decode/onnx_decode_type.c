// SPDX-License-Identifier: MIT OR Apache-2.0
// ValueInfoProto and TypeProto to value infos: name, kind, element type and lengths, symbols kept.
// Of a sequence or optional only the kind and the innermost element type are kept.
#include "onnx.pb.h"
#include "onnx_decode.h"

#include <stdio.h>

static bool read_dim(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    kiln_onnx_value_info *info = slot->target;
    if (info->rank == KILN_MAX_RANK) {
        return kilni_onnx_refuse(slot->reader,
                                 kiln_fail(slot->reader->err, UNIMPLEMENTED,
                                           "value of a rank above limit %d", KILN_MAX_RANK));
    }
    kiln_onnx_dim *dim = &info->dims[info->rank++];
    onnx_TensorShapeProto_Dimension message = onnx_TensorShapeProto_Dimension_init_zero;
    kilni_onnx_slot name;
    kilni_onnx_bind(&message.dim_param, &name, kilni_onnx_read_text, slot->reader, &dim->symbol);
    if (!kilni_onnx_decode_message(slot->reader, stream, onnx_TensorShapeProto_Dimension_fields,
                                   &message)) {
        return false;
    }
    dim->length = message.has_dim_value && message.dim_value >= 0 ? message.dim_value : -1;
    return true;
}

static bool read_shape(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    kiln_onnx_value_info *info = slot->target;
    info->has_shape = true;
    info->rank = 0;
    onnx_TensorShapeProto message = onnx_TensorShapeProto_init_zero;
    kilni_onnx_slot dims;
    kilni_onnx_bind(&message.dim, &dims, read_dim, slot->reader, info);
    return kilni_onnx_decode_message(slot->reader, stream, onnx_TensorShapeProto_fields, &message);
}

/// Called after the inner types are read, so the outermost kind stays.
static void set_kind(kiln_onnx_value_info *info, kiln_onnx_kind kind)
{
    info->kind = kind;
}

static bool read_dense(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    kiln_onnx_value_info *info = slot->target;
    onnx_TypeProto_Tensor message = onnx_TypeProto_Tensor_init_zero;
    kilni_onnx_slot shape;
    kilni_onnx_bind(&message.shape, &shape, read_shape, slot->reader, info);
    if (!kilni_onnx_decode_message(slot->reader, stream, onnx_TypeProto_Tensor_fields, &message)) {
        return false;
    }
    set_kind(info, KILN_ONNX_KIND_TENSOR);
    const char *name = kilni_onnx_type_name(message.elem_type);
    info->type_name = name == NULL ? "unknown" : name;
    info->dtype = kilni_onnx_type_dtype(message.elem_type);
    info->onnx_type = message.elem_type;
    return true;
}

static bool read_sparse(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    kilni_onnx_slot *slot = *arg;
    bool ok = read_dense(stream, field, arg);
    set_kind(slot->target, KILN_ONNX_KIND_SPARSE);
    return ok;
}

static bool read_type(pb_istream_t *stream, const pb_field_t *field, void **arg);

static bool read_sequence(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    onnx_TypeProto_Sequence message = onnx_TypeProto_Sequence_init_zero;
    kilni_onnx_slot inner;
    kilni_onnx_bind(&message.elem_type, &inner, read_type, slot->reader, slot->target);
    bool ok =
        kilni_onnx_decode_message(slot->reader, stream, onnx_TypeProto_Sequence_fields, &message);
    set_kind(slot->target, KILN_ONNX_KIND_SEQUENCE);
    return ok;
}

static bool read_optional(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    onnx_TypeProto_Optional message = onnx_TypeProto_Optional_init_zero;
    kilni_onnx_slot inner;
    kilni_onnx_bind(&message.elem_type, &inner, read_type, slot->reader, slot->target);
    bool ok =
        kilni_onnx_decode_message(slot->reader, stream, onnx_TypeProto_Optional_fields, &message);
    set_kind(slot->target, KILN_ONNX_KIND_OPTIONAL);
    return ok;
}

static bool read_map(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    onnx_TypeProto_Map message = onnx_TypeProto_Map_init_zero;
    kilni_onnx_slot inner;
    kilni_onnx_bind(&message.value_type, &inner, read_type, slot->reader, slot->target);
    bool ok = kilni_onnx_decode_message(slot->reader, stream, onnx_TypeProto_Map_fields, &message);
    set_kind(slot->target, KILN_ONNX_KIND_MAP);
    return ok;
}

static bool read_type(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    onnx_TypeProto message = onnx_TypeProto_init_zero;
    kilni_onnx_slot slots[5];
    kilni_onnx_bind(&message.tensor_type, &slots[0], read_dense, slot->reader, slot->target);
    kilni_onnx_bind(&message.sequence_type, &slots[1], read_sequence, slot->reader, slot->target);
    kilni_onnx_bind(&message.map_type, &slots[2], read_map, slot->reader, slot->target);
    kilni_onnx_bind(&message.sparse_tensor_type, &slots[3], read_sparse, slot->reader,
                    slot->target);
    kilni_onnx_bind(&message.optional_type, &slots[4], read_optional, slot->reader, slot->target);
    return kilni_onnx_decode_message(slot->reader, stream, onnx_TypeProto_fields, &message);
}

bool kilni_onnx_read_value_infos(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    kiln_onnx_value_info *info = kilni_onnx_push(slot->reader, slot->target, sizeof(*info));
    if (info == NULL) {
        return false;
    }
    *info = (kiln_onnx_value_info){.name = "", .type_name = "unknown"};
    onnx_ValueInfoProto message = onnx_ValueInfoProto_init_zero;
    kilni_onnx_slot slots[2];
    kilni_onnx_bind(&message.name, &slots[0], kilni_onnx_read_text, slot->reader, &info->name);
    kilni_onnx_bind(&message.type, &slots[1], read_type, slot->reader, info);
    return kilni_onnx_decode_message(slot->reader, stream, onnx_ValueInfoProto_fields, &message);
}

// ---- for people ----

typedef struct text_end {
    char *text;
    size_t size;
    size_t length;
} text_end;

static void append(text_end *end, const char *text)
{
    for (; *text != '\0' && end->length + 1 < end->size; text++) {
        end->text[end->length++] = *text;
    }
}

static void append_dims(text_end *end, const kiln_onnx_value_info *info)
{
    append(end, " [");
    for (uint32_t i = 0; i < info->rank; i++) {
        char number[24];
        const kiln_onnx_dim *dim = &info->dims[i];
        snprintf(number, sizeof(number), "%lld", (long long)dim->length);
        append(end, i > 0 ? "," : "");
        append(end, dim->length >= 0 ? number : dim->symbol != NULL ? dim->symbol : "?");
    }
    append(end, "]");
}

void kiln_onnx_value_info_text(const kiln_onnx_value_info *info, char *text, size_t size)
{
    if (info == NULL || text == NULL) {
        return;
    }
    static const char *const kinds[] = {[KILN_ONNX_KIND_NONE] = "",
                                        [KILN_ONNX_KIND_TENSOR] = "",
                                        [KILN_ONNX_KIND_SEQUENCE] = "sequence of ",
                                        [KILN_ONNX_KIND_MAP] = "map of ",
                                        [KILN_ONNX_KIND_OPTIONAL] = "optional ",
                                        [KILN_ONNX_KIND_SPARSE] = "sparse "};
    text_end end = {.text = text, .size = size};
    if (size == 0) {
        return;
    }
    append(&end, kinds[info->kind]);
    append(&end, info->type_name);
    if (info->has_shape) {
        append_dims(&end, info);
    }
    text[end.length] = '\0';
}
