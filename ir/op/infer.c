// SPDX-License-Identifier: MIT OR Apache-2.0
// The verifier of one operation: counts, element types, attribute types against the table's row,
// then the row's shape function. Every origin passes here, so nothing about `call` is trusted
// except that its arrays have the lengths it states. Shapes are decided in shape_*.c.
#include <inttypes.h>
#include <string.h>

#include "ir_op.h"
#include "tensor_internal.h"

static kiln_status check_counts(const kiln_op_record *call, const kiln_op_info *info,
                                kiln_error *err)
{
    const kiln_op_signature *signature = info->signature;
    if (call->n_inputs < signature->min_inputs || call->n_inputs > signature->max_inputs) {
        if (signature->min_inputs == signature->max_inputs) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s: %u inputs given, it takes %u", info->name,
                             call->n_inputs, signature->min_inputs);
        }
        return kiln_fail(err, INVALID_ARGUMENT, "%s: %u inputs given, it takes %u to %u",
                         info->name, call->n_inputs, signature->min_inputs, signature->max_inputs);
    }
    if (signature->foreign) {
        if (call->n_outputs < 1 || call->n_outputs > KILN_MAX_OUTPUTS) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s: %u outputs asked, not 1 to %d", info->name,
                             call->n_outputs, KILN_MAX_OUTPUTS);
        }
    } else if (call->n_outputs != info->n_outputs) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: %u outputs asked, it gives %u", info->name,
                         call->n_outputs, info->n_outputs);
    }
    if (call->n_attrs != signature->n_attrs) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: %u attributes given, it has %u", info->name,
                         call->n_attrs, signature->n_attrs);
    }
    return KILN_STATUS_OK;
}

static const char *input_name(const kiln_op_info *info, unsigned index)
{
    const char *name = index < KILN_MAX_NAMED_INPUTS ? info->signature->inputs[index] : NULL;
    return name != NULL ? name : info->signature->inputs[0];
}

static kiln_status check_desc(const kiln_op_info *info, unsigned index,
                              const kiln_tensor_desc *desc, kiln_error *err)
{
    char text[KILNI_IR_SHAPE_TEXT];
    if (kiln_dtype_kind_of(desc->dtype) == KILN_KIND_NONE) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: input %s has the unknown dtype %d", info->name,
                         input_name(info, index), (int)desc->dtype);
    }
    if (kiln_dtype_kind_of(desc->dtype) == KILN_KIND_SMALL) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s: does not take %s (input %s), which is only stored; cast it first",
                         info->name, kiln_dtype_name(desc->dtype), input_name(info, index));
    }
    if (desc->rank > KILN_MAX_RANK) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: input %s has rank %u, the limit is %d",
                         info->name, input_name(info, index), desc->rank, KILN_MAX_RANK);
    }
    for (unsigned i = 0; i < desc->rank; i++) {
        if (desc->dims[i] < 0) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s: input %s has the shape %s", info->name,
                             input_name(info, index), kilni_ir_desc_text(desc, text));
        }
    }
    if (kiln_desc_bytes(desc) < 0) {
        return kiln_fail(err, OUT_OF_RANGE, "%s: input %s of shape %s exceeds 64-bit sizes",
                         info->name, input_name(info, index), kilni_ir_desc_text(desc, text));
    }
    return KILN_STATUS_OK;
}

static bool has_bit(uint8_t bits, unsigned index)
{
    return index < 8 && (((unsigned)bits >> index) & 1u) != 0;
}

static kiln_status check_input(const kiln_op_record *call, const kiln_op_info *info, unsigned index,
                               kiln_error *err)
{
    const kiln_tensor_desc *desc = &call->inputs[index];
    const char *dtype = kiln_dtype_name(desc->dtype);
    if (kiln_dtype_kind_of(desc->dtype) == KILN_KIND_QUANT) {
        return has_bit(info->signature->quant_inputs, index)
                   ? KILN_STATUS_OK
                   : kiln_fail(
                         err, INVALID_ARGUMENT,
                         "%s: does not take quantised tensors (input %s is %s); dequantize it "
                         "first",
                         info->name, input_name(info, index), dtype);
    }
    if (has_bit(info->signature->mask_inputs, index)) {
        return desc->dtype == KILN_DTYPE_BOOL
                   ? KILN_STATUS_OK
                   : kiln_fail(err, INVALID_ARGUMENT, "%s: input %s is %s, it must be bool",
                               info->name, input_name(info, index), dtype);
    }
    if (has_bit(info->signature->index_inputs, index)) {
        return desc->dtype == KILN_DTYPE_I32 || desc->dtype == KILN_DTYPE_I64
                   ? KILN_STATUS_OK
                   : kiln_fail(err, INVALID_ARGUMENT, "%s: input %s is %s, it must be i32 or i64",
                               info->name, input_name(info, index), dtype);
    }
    if (info->signature->foreign || has_bit(info->signature->free_inputs, index)) {
        return KILN_STATUS_OK;
    }
    if (((unsigned)kiln_dtype_kind_of(desc->dtype) & (unsigned)info->accept) == 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: does not take %s (input %s)", info->name,
                         dtype, input_name(info, index));
    }
    if (desc->dtype != call->inputs[0].dtype) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: input %s is %s but input %s is %s", info->name,
                         input_name(info, index), dtype, input_name(info, 0),
                         kiln_dtype_name(call->inputs[0].dtype));
    }
    return KILN_STATUS_OK;
}

static bool attr_value_ok(const kiln_attr *attr)
{
    switch (attr->type) {
    case KILN_ATTR_BOOL:
        return attr->v.i == 0 || attr->v.i == 1;
    case KILN_ATTR_DTYPE:
        return attr->v.i > 0 && attr->v.i < KILN_DTYPE_LIMIT &&
               kiln_dtype_kind_of((kiln_dtype)attr->v.i) != KILN_KIND_NONE;
    case KILN_ATTR_I64_LIST:
        return attr->count == 0 || attr->v.ints != NULL;
    case KILN_ATTR_F64_LIST:
        return attr->count == 0 || attr->v.floats != NULL;
    case KILN_ATTR_STRING:
        return attr->v.text != NULL && attr->v.text[attr->count] == '\0';
    case KILN_ATTR_TENSOR:
        return attr->v.tensor != NULL;
    default:
        return true;
    }
}

static kiln_status check_attr(const kiln_op_record *call, const kiln_op_info *info, unsigned index,
                              kiln_error *err)
{
    const kiln_attr_spec *spec = &info->signature->attrs[index];
    const kiln_attr *attr = &call->attrs[index];
    const char *name = kiln_attr_name(spec->key);
    if (attr->type == KILN_ATTR_NONE) {
        return spec->optional ? KILN_STATUS_OK
                              : kiln_fail(err, INVALID_ARGUMENT, "%s: attribute %s is missing",
                                          info->name, name);
    }
    kiln_attr_type type = kiln_attr_type_of(spec->key);
    bool number = attr->type == KILN_ATTR_I64 || attr->type == KILN_ATTR_F64;
    if (type == KILN_ATTR_NUMBER ? !number : attr->type != type) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: attribute %s has the wrong type (%d, not %d)",
                         info->name, name, (int)attr->type, (int)type);
    }
    if (!attr_value_ok(attr)) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: attribute %s is malformed", info->name, name);
    }
    return KILN_STATUS_OK;
}

/// Numbers stand for elements of `dtype`: for integers and bool they have to be one of its values.
static kiln_status check_numbers(const kiln_op_record *call, const kiln_op_info *info,
                                 kiln_dtype dtype, kiln_error *err)
{
    for (unsigned i = 0; i < call->n_attrs; i++) {
        uint64_t element = 0;
        const kiln_attr *attr = &call->attrs[i];
        kiln_attr_key key = info->signature->attrs[i].key;
        if (attr->type == KILN_ATTR_NONE || kiln_attr_type_of(key) != KILN_ATTR_NUMBER ||
            kiln_number_store(attr, dtype, &element)) {
            continue;
        }
        if (attr->type == KILN_ATTR_I64) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s: %s %" PRId64 " is not a value of %s",
                             info->name, kiln_attr_name(key), attr->v.i, kiln_dtype_name(dtype));
        }
        return kiln_fail(err, INVALID_ARGUMENT, "%s: %s %g is not a value of %s", info->name,
                         kiln_attr_name(key), attr->v.f, kiln_dtype_name(dtype));
    }
    return KILN_STATUS_OK;
}

static kiln_status check_call(const kiln_op_record *call, const kiln_op_info *info, kiln_error *err)
{
    kiln_status status = check_counts(call, info, err);
    for (unsigned i = 0; status == KILN_STATUS_OK && i < call->n_inputs; i++) {
        status = check_desc(info, i, &call->inputs[i], err);
    }
    for (unsigned i = 0; status == KILN_STATUS_OK && i < call->n_inputs; i++) {
        status = check_input(call, info, i, err);
    }
    for (unsigned i = 0; status == KILN_STATUS_OK && i < call->n_attrs; i++) {
        status = check_attr(call, info, i, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_dtype dtype = call->n_inputs > 0 ? call->inputs[0].dtype
                                          : (kiln_dtype)kiln_op_attr_i64(call, KILN_KEY_DTYPE);
    if (call->n_inputs == 0 &&
        ((unsigned)kiln_dtype_kind_of(dtype) & (unsigned)info->accept) == 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: does not give %s", info->name,
                         kiln_dtype_name(dtype));
    }
    return check_numbers(call, info, dtype, err);
}

static kiln_dtype result_dtype(const kiln_op_record *call, const kiln_op_info *info, unsigned index)
{
    switch (info->result) {
    case KILN_RESULT_BOOL:
        return KILN_DTYPE_BOOL;
    case KILN_RESULT_INDEX:
        return KILN_DTYPE_I64;
    case KILN_RESULT_ATTR:
        return (kiln_dtype)kiln_op_attr_i64(call, KILN_KEY_DTYPE);
    case KILN_RESULT_NOTHING:
        return KILN_DTYPE_NONE;
    case KILN_RESULT_SAME_INDEX:
        return index == 0 ? call->inputs[0].dtype : KILN_DTYPE_I64;
    case KILN_RESULT_SAME:
    case KILN_RESULT_RULE:
        break;
    }
    return call->inputs[0].dtype;
}

/// Of an operator that gives the dtype that an attribute names.
static kiln_status check_result(const kiln_op_record *call, const kiln_op_info *info,
                                kiln_error *err)
{
    kiln_dtype dtype = result_dtype(call, info, 0);
    switch (kiln_dtype_kind_of(dtype)) {
    case KILN_KIND_QUANT:
        return kiln_fail(err, INVALID_ARGUMENT, "%s: does not give %s; quantize does", info->name,
                         kiln_dtype_name(dtype));
    case KILN_KIND_SMALL:
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s: does not give %s, which is only stored; cast its result", info->name,
                         kiln_dtype_name(dtype));
    default:
        return KILN_STATUS_OK;
    }
}

kiln_status kiln_ir_infer(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    const kiln_op_info *info = kiln_op_info_of(call->op);
    if (info == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "%d is no operator", (int)call->op);
    }
    kiln_status status = check_call(call, info, err);
    if (status == KILN_STATUS_OK && info->result == KILN_RESULT_ATTR) {
        status = check_result(call, info, err);
    }
    for (unsigned i = 0; status == KILN_STATUS_OK && i < call->n_outputs; i++) {
        outputs[i].dtype = result_dtype(call, info, i);
        outputs[i].rank = 0;
        outputs[i].scheme = 0;
        memset(outputs[i].dims, 0, sizeof(outputs[i].dims));
    }
    if (status == KILN_STATUS_OK) {
        status = info->shape(call, outputs, err);
    }
    for (unsigned i = 0; status == KILN_STATUS_OK && i < call->n_outputs; i++) {
        char text[KILNI_IR_SHAPE_TEXT];
        if (kiln_desc_bytes(&outputs[i]) < 0) {
            status = kiln_fail(err, OUT_OF_RANGE, "%s: a result of shape %s exceeds 64-bit sizes",
                               info->name, kilni_ir_desc_text(&outputs[i], text));
        }
    }
    return status;
}
