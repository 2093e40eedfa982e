// SPDX-License-Identifier: MIT OR Apache-2.0
// A model of f32 that is kept in f16 or bf16. Decides, operation by operation, in which type floats
// are read: products in the narrow one; what follows its operands in theirs, where constants adapt
// and a value of f32 becomes narrow beside a narrow one, unless it is a statistic that is spread
// over it or f16 has no room for it; all else in f32. What kiln_op_precision_of says of an operator
// is all that is known of it.
#include "onnx_kept.h"

#include <math.h>
#include <string.h>

static const double most_of_f16 = 65504;

bool kilni_onnx_is_kept(const kilni_onnx_call *call)
{
    return call->session->kept_in != KILN_DTYPE_NONE;
}

static bool is_f32(const kilni_onnx_value *value)
{
    return value->desc.dtype == KILN_DTYPE_F32;
}

/// Infinities are infinities in f16, too.
static bool is_beyond(double number)
{
    return isfinite(number) && fabs(number) > most_of_f16;
}

static bool has_large_element(const kilni_onnx_value *value)
{
    int64_t count = kiln_desc_count(&value->desc);
    for (int64_t i = 0; i < count; i++) {
        float number;
        memcpy(&number, (const uint8_t *)value->host + (size_t)i * sizeof(number), sizeof(number));
        if (is_beyond((double)number)) {
            return true;
        }
    }
    return false;
}

static bool is_large(const kilni_onnx_call *call, kilni_onnx_ref value)
{
    if (call->session->kept_in != KILN_DTYPE_F16 || !is_f32(value)) {
        return false;
    }
    if (value->large == KILNI_ONNX_UNKNOWN && value->constant && value->host != NULL) {
        value->large = has_large_element(value) ? KILNI_ONNX_YES : KILNI_ONNX_NO;
    }
    return value->large == KILNI_ONNX_YES;
}

/// Numbers of an operation that become elements.
static bool has_large_number(const kilni_onnx_call *call, const kiln_op_record *op)
{
    bool large = false;
    for (uint32_t i = 0; call->session->kept_in == KILN_DTYPE_F16 && i < op->n_attrs; i++) {
        const kiln_attr *attr = &op->attrs[i];
        large = large || (attr->type == KILN_ATTR_F64 && is_beyond(attr->v.f));
    }
    return large;
}

/// A product of one term is no sum: angles of positions are made so, and need their bits.
static bool is_outer_product(const kiln_op_record *op)
{
    if (op->op != KILN_OP_MATMUL || op->n_attrs < 1 || op->inputs[0].rank < 2) {
        return false;
    }
    const kiln_tensor_desc *a = &op->inputs[0];
    return a->dims[a->rank - (op->attrs[0].v.i != 0 ? 2u : 1u)] == 1;
}

static kiln_op_precision precision_of(const kiln_op_record *op)
{
    return is_outer_product(op) ? KILN_PRECISION_FOLLOWS : kiln_op_precision_of(op->op);
}

/// What an operation's operands of f32 are kept in, constants aside.
typedef struct operand_types {
    bool any; ///< constants, too
    bool narrow;
    bool wide;
    bool large;
    bool spread; ///< a statistic with fewer elements than the result
    bool statistics; ///< the wide ones are such
} operand_types;

static operand_types look_at(const kilni_onnx_call *call, const kiln_op_record *op,
                             const kilni_onnx_ref *inputs)
{
    operand_types t = {.large = has_large_number(call, op), .statistics = true};
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        const kilni_onnx_value *value = inputs[i];
        if (!is_f32(value)) {
            continue;
        }
        t.any = true;
        t.large = t.large || is_large(call, inputs[i]);
        if (value->constant) {
            continue;
        }
        bool narrow = kilni_onnx_kept_in(value) != KILN_DTYPE_F32;
        t.narrow = t.narrow || narrow;
        t.wide = t.wide || !narrow;
        t.statistics = t.statistics && value->statistic;
        t.spread = t.spread || (value->statistic && op->op != KILN_OP_CUSTOM &&
                                kiln_desc_count(&value->desc) < kiln_desc_count(&op->outputs[0]));
    }
    return t;
}

/// Of constants alone what is moved becomes narrow, as the rows of a table that are looked up.
static bool follows_narrow(const operand_types *t, const kiln_op_record *op)
{
    kiln_op_class cls = kiln_op_info_of(op->op)->cls;
    return t->narrow ? !t->spread
                     : !t->wide && (cls == KILN_CLASS_VIEW || cls == KILN_CLASS_GATHER);
}

kiln_dtype kilni_onnx_reads_in(const kilni_onnx_call *call, const kiln_op_record *op,
                               const kilni_onnx_ref *inputs)
{
    kiln_dtype kept_in = call->session->kept_in;
    if (kept_in == KILN_DTYPE_NONE) {
        return KILN_DTYPE_NONE;
    }
    const operand_types t = look_at(call, op, inputs);
    kiln_op_precision precision = precision_of(op);
    if (!t.any) {
        return KILN_DTYPE_NONE;
    }
    bool narrow = !call->in_f32 && !t.large &&
                  (precision == KILN_PRECISION_PRODUCT ||
                   (precision == KILN_PRECISION_FOLLOWS && follows_narrow(&t, op)));
    return narrow ? kept_in : KILN_DTYPE_F32;
}

void kilni_onnx_note_result(const kilni_onnx_call *call, const kiln_op_record *op,
                            const kilni_onnx_ref *inputs, kiln_dtype reads_in, uint32_t index,
                            kilni_onnx_ref value)
{
    kiln_op_class cls = kiln_op_info_of(op->op)->cls;
    bool was_f32 = op->op != KILN_OP_CUSTOM && op->outputs[index].dtype == KILN_DTYPE_F32;
    if (call->session->kept_in == KILN_DTYPE_NONE || !was_f32) {
        return;
    }
    value->desc.dtype = KILN_DTYPE_F32;
    if (cls == KILN_CLASS_REDUCE) {
        value->statistic = true;
    } else if (cls == KILN_CLASS_CREATION) {
        value->large = has_large_number(call, op) ? KILNI_ONNX_YES : value->large;
    } else if (reads_in == KILN_DTYPE_F32 && precision_of(op) == KILN_PRECISION_FOLLOWS &&
               cls != KILN_CLASS_ROW) {
        const operand_types t = look_at(call, op, inputs);
        value->statistic = t.wide && !t.narrow && t.statistics;
        value->large = t.large ? KILNI_ONNX_YES : value->large;
    }
}

kiln_tensor *kilni_onnx_cast_kept(kilni_onnx_call *call, const kiln_op_record *op,
                                  const kilni_onnx_ref *inputs)
{
    kiln_dtype kept_in = call->session->kept_in;
    kiln_tensor *tensor = NULL;
    if (op->op != KILN_OP_CAST || kept_in == KILN_DTYPE_NONE || !kilni_onnx_ok(call)) {
        return NULL;
    }
    kiln_dtype from = inputs[0]->desc.dtype;
    kiln_dtype to = op->outputs[0].dtype;
    bool narrows = from == KILN_DTYPE_F32 && to == kept_in;
    bool widens = from == kept_in && to == KILN_DTYPE_F32 && !inputs[0]->given;
    if (narrows || widens) {
        call->status =
            kilni_onnx_to_device_as(call->session->device, inputs[0], kept_in, &tensor, call->err);
    }
    return kilni_onnx_ok(call) ? tensor : NULL;
}
