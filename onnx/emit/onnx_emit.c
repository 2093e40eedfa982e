// SPDX-License-Identifier: MIT OR Apache-2.0
// One operation of ours: recorded on the device, or computed on the host by the reference evaluator
// when all of its inputs are small constants. So shape arithmetic costs no kernel and no read, and
// no operator of ONNX has to know about it.
#include "onnx_kept.h"

#include <string.h>

// ---- on the device ----

static void check_dtype(kilni_onnx_call *call, kiln_dtype dtype)
{
    if ((kiln_device_dtype_usage(call->session->device, dtype) & KILN_USAGE_STORAGE) == 0) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "element type %s is not supported by device %s",
                        kiln_dtype_name(dtype), kiln_device_address(call->session->device));
    }
}

bool kilni_onnx_computes(const kilni_onnx_call *call, kiln_dtype dtype)
{
    return (kiln_device_dtype_usage(call->session->device, dtype) & KILN_USAGE_ARITHMETIC) != 0;
}

static bool operands_on_device(kilni_onnx_call *call, const kilni_onnx_ref *inputs,
                               uint32_t n_inputs, kiln_dtype reads_in, kiln_tensor **out_tensors)
{
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < n_inputs; i++) {
        check_dtype(call, inputs[i]->desc.dtype);
        if (kilni_onnx_ok(call) && call->session->n_bindings > 0) {
            call->status = kilni_onnx_line_to_device(call->session->device, inputs[i], call->err);
        }
        if (kilni_onnx_ok(call)) {
            kiln_dtype own = inputs[i]->desc.dtype;
            bool adapts = own == KILN_DTYPE_F32 && reads_in != KILN_DTYPE_NONE;
            call->status =
                kilni_onnx_to_device_as(call->session->device, inputs[i], adapts ? reads_in : own,
                                        &out_tensors[i], call->err);
        }
    }
    return kilni_onnx_ok(call);
}

/// Every result becomes a value; on failure none does.
static void record(kilni_onnx_call *call, const kiln_op_record *op, const kilni_onnx_ref *inputs,
                   kilni_onnx_ref *out_values)
{
    kiln_tensor *tensors[KILN_MAX_INPUTS];
    kiln_tensor *made[KILN_MAX_OUTPUTS] = {NULL};
    kilni_onnx_ref values[KILN_MAX_OUTPUTS] = {NULL};
    kiln_dtype reads_in = kilni_onnx_reads_in(call, op, inputs);
    kiln_tensor *same = kilni_onnx_cast_kept(call, op, inputs);
    if (same == NULL && !operands_on_device(call, inputs, op->n_inputs, reads_in, tensors)) {
        return;
    }
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < op->n_outputs; i++) {
        values[i] = kilni_onnx_temp(call);
    }
    if (!kilni_onnx_ok(call)) {
        return;
    }
    made[0] = kiln_retain(same);
    call->status = same != NULL ? KILN_STATUS_OK
                                : kiln_record(call->session->device, op->op, tensors, op->n_inputs,
                                              op->attrs, op->n_attrs, made, call->err);
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < op->n_outputs; i++) {
        values[i]->tensor = made[i];
        values[i]->desc.dtype = kiln_tensor_dtype(made[i]);
        values[i]->desc.rank = (uint8_t)kiln_tensor_rank(made[i]);
        memcpy(values[i]->desc.dims, kiln_tensor_dims(made[i]),
               values[i]->desc.rank * sizeof(values[i]->desc.dims[0]));
        kilni_onnx_note_result(call, op, inputs, reads_in, i, values[i]);
        out_values[i] = values[i];
    }
}

// ---- on the host ----

/// Copies inputs to the evaluator, runs, and reads the result into `value`.
static kiln_status evaluate(kiln_onnx_session *session, const kiln_op_record *op,
                            const kilni_onnx_ref *inputs, kilni_onnx_ref value, kiln_error *err)
{
    kiln_view views[KILN_MAX_INPUTS + 1];
    uint32_t made = 0;
    kiln_status status = KILN_STATUS_OK;
    for (; status == KILN_STATUS_OK && made <= op->n_inputs; made++) {
        bool is_input = made < op->n_inputs;
        const kiln_tensor_desc *desc = is_input ? &op->inputs[made] : &op->outputs[0];
        size_t bytes = (size_t)kiln_desc_bytes(desc);
        kiln_buffer *buffer = NULL;
        status = session->host->memory->alloc(session->host, bytes, &buffer, err);
        views[made] = kiln_view_dense(desc, buffer);
        if (status == KILN_STATUS_OK && is_input && bytes > 0) {
            status = session->host->transfer->upload(session->host, buffer, 0, inputs[made]->host,
                                                     bytes, err);
        }
    }
    size_t bytes = (size_t)kiln_desc_bytes(&op->outputs[0]);
    if (status == KILN_STATUS_OK) {
        status =
            session->host->device->execute(session->host, op, views, &views[op->n_inputs], err);
    }
    if (status == KILN_STATUS_OK) {
        value->owned = kiln_alloc(&session->env, bytes + 1);
        value->host = value->owned;
        status = value->owned == NULL
                     ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", bytes)
                 : bytes > 0
                     ? session->host->transfer->read(session->host, views[op->n_inputs].buffer, 0,
                                                     value->owned, bytes, err)
                     : KILN_STATUS_OK;
    }
    for (uint32_t i = 0; i < made; i++) {
        if (views[i].buffer != NULL) {
            session->host->memory->free(session->host, views[i].buffer);
        }
    }
    return status;
}

static kilni_onnx_ref fold(kilni_onnx_call *call, const kiln_op_record *op,
                           const kilni_onnx_ref *inputs)
{
    kilni_onnx_ref value = kilni_onnx_temp(call);
    if (value == NULL) {
        return NULL;
    }
    value->desc = op->outputs[0];
    value->constant = true;
    call->status = evaluate(call->session, op, inputs, value, call->err);
    return kilni_onnx_ok(call) ? value : NULL;
}

/// Random numbers whose place the device has yet to choose.
static bool is_drawn(const kiln_op_record *op)
{
    const kiln_op_signature *signature = kiln_op_info_of(op->op)->signature;
    for (uint32_t i = 0; i < signature->n_attrs; i++) {
        if (signature->attrs[i].key == KILN_KEY_POSITION) {
            return op->attrs[i].type == KILN_ATTR_NONE;
        }
    }
    return false;
}

/// Constants that nodes made, not weights of the file.
static bool is_made(const kilni_onnx_value *value)
{
    return value->constant && value->host != NULL && value->file == NULL &&
           kiln_desc_count(&value->desc) <= KILNI_ONNX_FOLD_MOST;
}

/// Whether the evaluator has a result of many elements soon.
static bool is_cheap(const kiln_op_record *op)
{
    int64_t count = kiln_desc_count(&op->outputs[0]);
    const kiln_tensor_desc *a = op->n_inputs > 0 ? &op->inputs[0] : NULL;
    int64_t terms = a != NULL && a->rank > 0 ? a->dims[a->rank - 1] : 1;
    switch (kiln_op_info_of(op->op)->cls) {
    case KILN_CLASS_ELEMENTWISE:
    case KILN_CLASS_VIEW:
    case KILN_CLASS_GATHER:
    case KILN_CLASS_REDUCE:
    case KILN_CLASS_CREATION:
        return count <= KILNI_ONNX_FOLD_MOST;
    case KILN_CLASS_CONTRACTION:
        return op->op == KILN_OP_MATMUL && count <= KILNI_ONNX_FOLD_MOST / (terms > 0 ? terms : 1);
    default:
        return op->op == KILN_OP_CUM_SUM && count <= KILNI_ONNX_FOLD_MOST;
    }
}

/// What is created without inputs stays on the device, where it fuses, unless it is for shapes, or
/// settles.
static bool folds(const kilni_onnx_call *call, const kiln_op_record *op,
                  const kilni_onnx_ref *inputs)
{
    bool many = call->session->folds_many;
    if (is_drawn(op)) {
        return false;
    }
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        if (!kilni_onnx_is_small(inputs[i]) && !(many && is_made(inputs[i]))) {
            return false;
        }
    }
    int64_t count = kiln_desc_count(&op->outputs[0]);
    if (many && is_cheap(op)) {
        return true;
    }
    bool is_float = kiln_dtype_kind_of(op->outputs[0].dtype) == KILN_KIND_FLOAT;
    return count <= (op->n_inputs == 0 && is_float ? 1 : KILNI_ONNX_FOLD_ELEMS);
}

static bool only_moves(kiln_op op)
{
    kiln_op_class cls = kiln_op_info_of(op)->cls;
    return cls == KILN_CLASS_VIEW || cls == KILN_CLASS_GATHER || op == KILN_OP_WHERE ||
           op == KILN_OP_CONTIGUOUS;
}

static bool is_stored(const kilni_onnx_value *value, kiln_op op)
{
    bool compares = op == KILN_OP_EQUAL || op == KILN_OP_NOT_EQUAL || op == KILN_OP_EQUAL_SCALAR ||
                    op == KILN_OP_NOT_EQUAL_SCALAR;
    return (kilni_onnx_is_bits(value->narrow) && op != KILN_OP_CAST) ||
           (kilni_onnx_is_text(value) && !compares);
}

/// Bits of small floats and strings are no numbers to compute with. Casts of bits are those of
/// their numbers, and equal strings have one number.
static void refuse_stored(kilni_onnx_call *call, kiln_op op, const kilni_onnx_ref *inputs,
                          uint32_t n_inputs)
{
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < n_inputs; i++) {
        if (is_stored(inputs[i], op) && !only_moves(op)) {
            KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "%s of %s, which is only stored: cast it first",
                            kiln_op_info_of(op)->name, kilni_onnx_type_name(inputs[i]->narrow));
        }
    }
}

/// What is only moved keeps its type of few bits.
static void pass_narrow(kiln_op op, const kilni_onnx_ref *inputs, uint32_t n_inputs,
                        kilni_onnx_ref out)
{
    if (out != NULL && only_moves(op) && n_inputs > 0 && out->desc.dtype == inputs[0]->desc.dtype) {
        out->narrow = inputs[0]->narrow;
    }
}

void kilni_onnx_emit_many(kilni_onnx_call *call, kiln_op op, const kilni_onnx_ref *inputs,
                          uint32_t n_inputs, const kiln_attr *attrs, uint32_t n_attrs,
                          kilni_onnx_ref *out_values)
{
    const kiln_op_info *info = kiln_op_info_of(op);
    kiln_tensor_desc descs[KILN_MAX_INPUTS];
    kiln_tensor_desc outputs[KILN_MAX_OUTPUTS] = {{0}};
    memset(out_values, 0, info->n_outputs * sizeof(kilni_onnx_ref));
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < n_inputs; i++) {
        if (inputs[i] == NULL) {
            KILNI_ONNX_FAIL(call, INTERNAL, "operand %u of %s is missing", i, info->name);
            return;
        }
        descs[i] = inputs[i]->desc;
    }
    refuse_stored(call, op, inputs, n_inputs);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    const kiln_op_record shape = {.op = op,
                                  .n_inputs = (uint16_t)n_inputs,
                                  .n_outputs = info->n_outputs,
                                  .n_attrs = (uint8_t)n_attrs,
                                  .inputs = descs,
                                  .outputs = outputs,
                                  .attrs = attrs};
    call->status = kiln_ir_infer(&shape, outputs, call->err);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    if (info->n_outputs == 1 && folds(call, &shape, inputs)) {
        out_values[0] = fold(call, &shape, inputs);
    } else {
        record(call, &shape, inputs, out_values);
    }
    pass_narrow(op, inputs, n_inputs, out_values[0]);
}

kilni_onnx_ref kilni_onnx_emit(kilni_onnx_call *call, kiln_op op, const kilni_onnx_ref *inputs,
                               uint32_t n_inputs, const kiln_attr *attrs, uint32_t n_attrs)
{
    kilni_onnx_ref values[KILN_MAX_OUTPUTS] = {NULL};
    kilni_onnx_emit_many(call, op, inputs, n_inputs, attrs, n_attrs, values);
    return values[0];
}

/// What plugins compute stays on the device, of constants too.
void kilni_onnx_emit_custom(kilni_onnx_call *call, const kiln_custom_op *op,
                            const kiln_custom_attr *attrs, size_t n_attrs,
                            const kilni_onnx_ref *inputs, uint32_t n_inputs,
                            kilni_onnx_ref *out_values)
{
    kiln_string text;
    kiln_string_init(&text, &call->session->env);
    if (kilni_onnx_ok(call)) {
        call->status = kiln_ir_custom_text(op, attrs, n_attrs, &text, call->err);
    }
    if (kilni_onnx_ok(call)) {
        const kiln_attr own[] = {
            {KILN_ATTR_STRING, (uint32_t)strlen(op->name), {.text = op->name}},
            {KILN_ATTR_I64, 1, {.i = op->version}},
            {KILN_ATTR_STRING, (uint32_t)text.length, {.text = text.length > 0 ? text.text : ""}}};
        const kiln_op_record call_of = {.op = KILN_OP_CUSTOM,
                                        .n_inputs = (uint16_t)n_inputs,
                                        .n_outputs = (uint8_t)op->n_outputs,
                                        .n_attrs = 3,
                                        .attrs = own};
        record(call, &call_of, inputs, out_values);
    }
    kiln_string_fini(&text);
}
