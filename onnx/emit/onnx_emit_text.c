// SPDX-License-Identifier: MIT OR Apache-2.0
// Strings in the language that operators are written in: inputs of them, their numbers on the host,
// and lists that are attributes, of numbers too. What a number of a string is, onnx_text.c says.
#include "onnx_emit_text.h"

#include <string.h>

kilni_onnx_ref kilni_onnx_in_text(kilni_onnx_call *call, uint32_t index)
{
    kilni_onnx_ref value = kilni_onnx_in(call, index);
    if (kilni_onnx_ok(call) && !kilni_onnx_is_text(value)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "input %u is of %s, not of strings", index,
                        kiln_dtype_name(value->desc.dtype));
        return NULL;
    }
    return value;
}

const int32_t *kilni_onnx_text_numbers(kilni_onnx_call *call, kilni_onnx_ref value)
{
    if (kilni_onnx_ok(call) && value != NULL && !kilni_onnx_is_text(value)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "a tensor of strings is needed");
    }
    return kilni_onnx_host(call, value);
}

kilni_onnx_ref kilni_onnx_numbers(kilni_onnx_call *call, kilni_onnx_ref value)
{
    if (!kilni_onnx_ok(call) || value == NULL || !kilni_onnx_is_text(value)) {
        return value;
    }
    const kiln_attr dims = kilni_attr_ints(value->desc.dims, value->desc.rank);
    kilni_onnx_ref plain = kilni_onnx_emit(call, KILN_OP_RESHAPE, &value, 1, &dims, 1);
    if (plain != NULL) {
        plain->narrow = 0;
    }
    return plain;
}

/// Of constants alone a run makes the same texts each time.
static bool is_of_constants(const kilni_onnx_call *call)
{
    for (uint32_t i = 0; i < call->n_inputs; i++) {
        if (call->inputs[i] != NULL && !call->inputs[i]->constant) {
            return false;
        }
    }
    return true;
}

int32_t kilni_onnx_text_number(kilni_onnx_call *call, const char *text, size_t length)
{
    int32_t number = 0;
    if (kilni_onnx_ok(call)) {
        call->status = kilni_onnx_text_add(call->session, text, length, is_of_constants(call),
                                           &number, call->err);
    }
    return number;
}

kilni_onnx_ref kilni_onnx_host_made(kilni_onnx_call *call, kiln_dtype dtype, uint32_t rank,
                                    const int64_t *dims)
{
    kilni_onnx_ref value = kilni_onnx_scratch(call, dtype, rank, dims);
    if (value != NULL) {
        value->constant = is_of_constants(call);
    }
    return value;
}

kilni_onnx_ref kilni_onnx_text_made(kilni_onnx_call *call, uint32_t rank, const int64_t *dims)
{
    kilni_onnx_ref value = kilni_onnx_host_made(call, KILN_DTYPE_I32, rank, dims);
    if (value != NULL) {
        value->narrow = KILNI_ONNX_TYPE_STRING;
    }
    return value;
}

// ---- lists that are attributes ----

/// A constant of its length, kept by the attribute's address.
static kilni_onnx_ref new_list(kilni_onnx_call *call, kiln_dtype dtype, int64_t count)
{
    kilni_onnx_ref value = kilni_onnx_ok(call) ? kilni_onnx_temp(call) : NULL;
    if (value != NULL) {
        value->constant = true;
        value->desc = (kiln_tensor_desc){.dtype = dtype, .rank = 1, .dims = {count}};
    }
    return value;
}

kilni_onnx_ref kilni_onnx_attr_list(kilni_onnx_call *call, const char *name)
{
    const kilni_onnx_attr *attr = kilni_onnx_ok(call) ? kilni_onnx_attr_find(call, name) : NULL;
    kilni_onnx_ref value = attr == NULL ? NULL : kilni_onnx_kept_of(call, attr);
    if (attr == NULL || value != NULL || !kilni_onnx_ok(call)) {
        return value;
    }
    switch (attr->type) {
    case KILNI_ONNX_ATTR_FLOATS:
        value = new_list(call, KILN_DTYPE_F32, attr->count);
        if (value != NULL) {
            value->host = attr->floats;
        }
        break;
    case KILNI_ONNX_ATTR_INTS:
        value = new_list(call, KILN_DTYPE_I64, attr->count);
        if (value != NULL) {
            value->host = attr->ints;
        }
        break;
    case KILNI_ONNX_ATTR_STRINGS:
        value = new_list(call, KILN_DTYPE_I32, attr->count);
        if (value != NULL) {
            call->status =
                kilni_onnx_texts_fill(call->session, value, attr->texts, true, call->err);
        }
        break;
    case KILNI_ONNX_ATTR_TENSOR:
        return kilni_onnx_const_tensor(call, attr->tensor);
    default:
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute '%s' is %s, not a list", name,
                        kilni_onnx_attr_type_name(attr->type));
    }
    kilni_onnx_keep_made(call, attr, value);
    return value;
}
