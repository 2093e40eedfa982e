// SPDX-License-Identifier: MIT OR Apache-2.0
// Composites as simpler operations: the values of one expansion, the first failure, and the records
// that the sink gets. Decides when values are dropped and that every result is a value of its own.
// What each composite means is in decompose_*.c.
#include <string.h>

#include "expand_internal.h"
#include "ir_backend.h"
#include "ir_expand.h"

typedef struct slot {
    kiln_tensor_desc desc;
    bool dropped;
} slot;

struct kiln_expander {
    const kiln_env *env;
    const kiln_op_record *call;
    const kiln_expansion_sink *sink;
    slot *values; ///< values[i] has number i + 1
    size_t n_values;
    size_t capacity;
    kilni_value outputs[KILN_MAX_OUTPUTS];
    kiln_status status;
    kiln_error *err;
};

static slot *slot_of(const kiln_expander *x, kilni_value number)
{
    return number > 0 && number <= x->n_values ? &x->values[number - 1] : NULL;
}

static kilni_value add_value(kiln_expander *x, const kiln_tensor_desc *desc)
{
    if (x->n_values == x->capacity) {
        size_t capacity = x->capacity < 32 ? 64 : x->capacity * 2;
        slot *grown = kiln_alloc_array(x->env, capacity, sizeof(*grown));
        if (grown == NULL) {
            x->status = kiln_fail(x->err, RESOURCE_EXHAUSTED, "no memory for an expansion");
            return 0;
        }
        if (x->n_values > 0) {
            memcpy(grown, x->values, x->n_values * sizeof(*grown));
        }
        kiln_free(x->env, x->values);
        x->values = grown;
        x->capacity = capacity;
    }
    slot *added = &x->values[x->n_values++];
    *added = (slot){.desc = *desc};
    added->desc.id = x->n_values;
    added->desc.flags = 0;
    return x->n_values;
}

// ---- what decompositions call ----

const kiln_op_record *kilni_expand_call(const kiln_expander *expander)
{
    return expander->call;
}

kilni_value kilni_expand_input(const kiln_expander *expander, unsigned index)
{
    return index < expander->call->n_inputs ? index + 1 : 0;
}

kiln_tensor_desc kilni_expand_desc(const kiln_expander *expander, kilni_value number)
{
    const slot *found = slot_of(expander, number);
    return found != NULL ? found->desc : (kiln_tensor_desc){.dtype = KILN_DTYPE_F32, .rank = 1};
}

void kilni_expand_fail(kiln_expander *expander, kiln_status status, const char *text)
{
    if (expander->status == KILN_STATUS_OK) {
        expander->status = kiln_error_set(expander->err, status, __FILE__, __LINE__, "%s: %s",
                                          kilni_ir_op_name(expander->call), text);
    }
}

/// Room for the results first, so that a failure leaves nothing half done with the sink.
static void write_record(kiln_expander *x, kiln_op_record *record, kiln_tensor_desc *outputs,
                         kilni_value *out_values)
{
    for (unsigned i = 0; i < record->n_outputs && x->status == KILN_STATUS_OK; i++) {
        out_values[i] = add_value(x, &outputs[i]);
        outputs[i].id = out_values[i];
    }
    if (x->status == KILN_STATUS_OK) {
        record->outputs = outputs;
        x->status = x->sink->emit(record, x->sink->user, x->err);
    }
}

void kilni_expand_op(kiln_expander *expander, kiln_op op, const kilni_value *inputs,
                     size_t n_inputs, const kiln_attr *attrs, size_t n_attrs,
                     kilni_value *out_values)
{
    kiln_tensor_desc descs[KILN_MAX_INPUTS];
    kiln_tensor_desc outputs[KILN_MAX_OUTPUTS] = {{0}};
    const kiln_op_info *info = kiln_op_info_of(op);
    memset(out_values, 0, info->n_outputs * sizeof(*out_values));
    for (size_t i = 0; i < n_inputs && expander->status == KILN_STATUS_OK; i++) {
        const slot *used = i < KILN_MAX_INPUTS ? slot_of(expander, inputs[i]) : NULL;
        if (used == NULL || used->dropped) {
            kilni_expand_fail(expander, KILN_STATUS_INTERNAL, "its decomposition uses no value");
            return;
        }
        descs[i] = used->desc;
    }
    if (expander->status != KILN_STATUS_OK) {
        return;
    }
    kiln_op_record record = {.op = op,
                             .n_inputs = (uint16_t)n_inputs,
                             .n_outputs = info->n_outputs,
                             .n_attrs = (uint8_t)n_attrs,
                             .inputs = descs,
                             .attrs = attrs};
    expander->status = kiln_ir_infer(&record, outputs, expander->err);
    if (expander->status == KILN_STATUS_OK) {
        write_record(expander, &record, outputs, out_values);
    }
}

kilni_value kilni_expand_1(kiln_expander *expander, kiln_op op, kilni_value x)
{
    kilni_value result = 0;
    kilni_expand_op(expander, op, &x, 1, NULL, 0, &result);
    return result;
}

kilni_value kilni_expand_2(kiln_expander *expander, kiln_op op, kilni_value a, kilni_value b)
{
    const kilni_value inputs[] = {a, b};
    kilni_value result = 0;
    kilni_expand_op(expander, op, inputs, 2, NULL, 0, &result);
    return result;
}

kilni_value kilni_expand_3(kiln_expander *expander, kiln_op op, kilni_value a, kilni_value b,
                           kilni_value c)
{
    const kilni_value inputs[] = {a, b, c};
    kilni_value result = 0;
    kilni_expand_op(expander, op, inputs, 3, NULL, 0, &result);
    return result;
}

static kilni_value with_attrs(kiln_expander *expander, kiln_op op, kilni_value x,
                              const kiln_attr *attrs, size_t n_attrs)
{
    kilni_value result = 0;
    kilni_expand_op(expander, op, &x, 1, attrs, n_attrs, &result);
    return result;
}

kilni_value kilni_expand_scalar(kiln_expander *expander, kiln_op op, kilni_value x, double value)
{
    const kiln_attr attr = {.type = KILN_ATTR_F64, .count = 1, .v.f = value};
    return with_attrs(expander, op, x, &attr, 1);
}

kilni_value kilni_expand_cast(kiln_expander *expander, kilni_value x, kiln_dtype dtype)
{
    const kiln_attr attr = {.type = KILN_ATTR_DTYPE, .count = 1, .v.i = (int64_t)dtype};
    return with_attrs(expander, KILN_OP_CAST, x, &attr, 1);
}

kilni_value kilni_expand_wide(kiln_expander *expander, kilni_value x)
{
    kiln_dtype dtype = kilni_expand_desc(expander, x).dtype;
    bool narrow = dtype == KILN_DTYPE_F16 || dtype == KILN_DTYPE_BF16;
    return narrow ? kilni_expand_cast(expander, x, KILN_DTYPE_F32) : x;
}

kilni_value kilni_expand_reshape(kiln_expander *expander, kilni_value x, const int64_t *dims,
                                 uint32_t rank)
{
    const kiln_attr attr = kilni_attr_ints(dims, rank);
    return with_attrs(expander, KILN_OP_RESHAPE, x, &attr, 1);
}

kilni_value kilni_expand_permute(kiln_expander *expander, kilni_value x, const int64_t *axes,
                                 uint32_t rank)
{
    const kiln_attr attr = kilni_attr_ints(axes, rank);
    return with_attrs(expander, KILN_OP_PERMUTE, x, &attr, 1);
}

kilni_value kilni_expand_slice(kiln_expander *expander, kilni_value x, uint32_t axis, int64_t start,
                               int64_t end)
{
    int64_t starts[KILN_MAX_RANK] = {0};
    int64_t ends[KILN_MAX_RANK] = {0};
    const kiln_tensor_desc desc = kilni_expand_desc(expander, x);
    memcpy(ends, desc.dims, sizeof(ends));
    starts[axis] = start;
    ends[axis] = end;
    const kiln_attr attrs[] = {kilni_attr_ints(starts, desc.rank),
                               kilni_attr_ints(ends, desc.rank),
                               {.type = KILN_ATTR_NONE}};
    return with_attrs(expander, KILN_OP_SLICE, x, attrs, 3);
}

kilni_value kilni_expand_reduce(kiln_expander *expander, kiln_op op, kilni_value x,
                                const int64_t *axes, uint32_t n_axes, bool keepdims)
{
    const kiln_attr attrs[] = {kilni_attr_ints(axes, n_axes), kilni_attr_bool(keepdims)};
    return with_attrs(expander, op, x, attrs, 2);
}

kilni_value kilni_expand_matmul(kiln_expander *expander, kilni_value a, kilni_value b,
                                bool transpose_a, bool transpose_b)
{
    const kilni_value inputs[] = {a, b};
    const kiln_attr attrs[] = {kilni_attr_bool(transpose_a), kilni_attr_bool(transpose_b)};
    kilni_value result = 0;
    kilni_expand_op(expander, KILN_OP_MATMUL, inputs, 2, attrs, 2, &result);
    return result;
}

kilni_value kilni_expand_full(kiln_expander *expander, const int64_t *dims, uint32_t rank,
                              kiln_dtype dtype, double value)
{
    const kiln_attr attrs[] = {
        kilni_attr_ints(dims, rank),
        {.type = KILN_ATTR_DTYPE, .count = 1, .v.i = (int64_t)dtype},
        {.type = KILN_ATTR_F64, .count = 1, .v.f = value},
    };
    kilni_value result = 0;
    kilni_expand_op(expander, KILN_OP_FULL, NULL, 0, attrs, 3, &result);
    return result;
}

void kilni_expand_drop(kiln_expander *expander, kilni_value number)
{
    slot *dropped = slot_of(expander, number);
    if (expander->status != KILN_STATUS_OK || dropped == NULL || dropped->dropped ||
        number <= expander->call->n_inputs) {
        return;
    }
    const kiln_tensor_desc desc = dropped->desc;
    const kiln_op_record record = {.op = KILN_OP_DROP, .n_inputs = 1, .inputs = &desc};
    dropped->dropped = true;
    expander->status = expander->sink->emit(&record, expander->sink->user, expander->err);
}

bool kilni_expand_wants(const kiln_expander *expander, unsigned index)
{
    return (expander->sink->unused >> index & 1) == 0;
}

void kilni_expand_output(kiln_expander *expander, unsigned index, kilni_value number)
{
    if (!kilni_expand_wants(expander, index)) {
        return;
    }
    kiln_dtype dtype = expander->call->outputs[index].dtype;
    bool other = number != 0 && kilni_expand_desc(expander, number).dtype != dtype;
    expander->outputs[index] = other ? kilni_expand_cast(expander, number, dtype) : number;
}

// ---- the whole ----

/// A result that is an input, or stands for two results, becomes a copy.
static void own_outputs(kiln_expander *x)
{
    for (unsigned i = 0; i < x->call->n_outputs && x->status == KILN_STATUS_OK; i++) {
        if (!kilni_expand_wants(x, i)) {
            continue;
        }
        bool taken = x->outputs[i] <= x->call->n_inputs;
        for (unsigned k = 0; k < i; k++) {
            taken |= x->outputs[k] == x->outputs[i];
        }
        x->outputs[i] =
            taken ? kilni_expand_1(x, KILN_OP_CONTIGUOUS, x->outputs[i]) : x->outputs[i];
    }
}

static void check_outputs(kiln_expander *x)
{
    for (unsigned i = 0; i < x->call->n_outputs && x->status == KILN_STATUS_OK; i++) {
        const kiln_tensor_desc desc = kilni_expand_desc(x, x->outputs[i]);
        if (!kilni_expand_wants(x, i)) {
            continue;
        }
        if (desc.dtype != x->call->outputs[i].dtype ||
            !kiln_desc_same_shape(&desc, &x->call->outputs[i])) {
            kilni_expand_fail(x, KILN_STATUS_INTERNAL, "its decomposition gives another shape");
        }
    }
}

static bool is_output(const kiln_expander *x, kilni_value number)
{
    for (unsigned i = 0; i < x->call->n_outputs; i++) {
        if (x->outputs[i] == number) {
            return true;
        }
    }
    return false;
}

kiln_status kiln_ir_expand(const kiln_env *env, const kiln_op_record *call,
                           const kiln_expansion_sink *sink, uint64_t *out_ids, kiln_error *err)
{
    const kiln_op_info *info = kiln_op_info_of(call->op);
    if (info == NULL || info->decompose == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s has no decomposition", kilni_ir_op_name(call));
    }
    kiln_expander x = {.env = env, .call = call, .sink = sink, .err = err};
    for (unsigned i = 0; i < call->n_inputs && x.status == KILN_STATUS_OK; i++) {
        (void)add_value(&x, &call->inputs[i]);
    }
    if (x.status == KILN_STATUS_OK) {
        info->decompose(&x);
    }
    own_outputs(&x);
    check_outputs(&x);
    for (size_t i = call->n_inputs; i < x.n_values; i++) {
        if (!is_output(&x, i + 1)) {
            kilni_expand_drop(&x, i + 1);
        }
    }
    for (unsigned i = 0; i < call->n_outputs; i++) {
        out_ids[i] = x.outputs[i];
    }
    kiln_free(env, x.values);
    return x.status;
}

bool kiln_ir_is_expanded(kiln_backend *backend, const kiln_op_record *record)
{
    const kiln_op_info *info = kiln_op_info_of(record->op);
    if (info->decompose == NULL ||
        (backend->device->info(backend)->features & KILN_FEATURE_OWN_VIEWS) != 0) {
        return false; // a remote device expands on its own side
    }
    return info->cls == KILN_CLASS_ELEMENTWISE || !backend->device->runs(backend, record);
}
