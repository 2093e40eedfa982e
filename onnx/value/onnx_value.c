// SPDX-License-Identifier: MIT OR Apache-2.0
// Values of a run: holds on them, their way to the device and to the host. Decides when something
// is read back from the device: only when an operator asks for contents that are nowhere else.
#include "onnx_run.h"

#include <math.h>
#include <string.h>

kilni_onnx_ref kilni_onnx_value_new(const kiln_env *env)
{
    kilni_onnx_ref value = kiln_alloc(env, sizeof(*value));
    if (value != NULL) {
        value->refs = 1;
    }
    return value;
}

kilni_onnx_ref kilni_onnx_retain(kilni_onnx_ref value)
{
    if (value != NULL) {
        value->refs++;
    }
    return value;
}

void kilni_onnx_release(const kiln_env *env, kilni_onnx_ref value)
{
    if (value != NULL && --value->refs == 0) {
        for (uint32_t i = 0; i < value->n_items; i++) {
            kilni_onnx_release(env, value->items[i]);
        }
        kiln_free(env, value->items);
        kilni_onnx_release(env, value->made);
        kilni_onnx_release(env, value->made_with[0]);
        kilni_onnx_release(env, value->made_with[1]);
        kilni_onnx_release(env, value->made_with[2]);
        if (value->source != NULL) {
            kilni_onnx_release(env, value->source->x);
            kilni_onnx_release(env, value->source->scale);
            kilni_onnx_release(env, value->source->zero);
            kiln_free(env, value->source);
        }
        kiln_release(value->tensor);
        kiln_free(env, value->owned);
        kilni_onnx_file_unref(value->file);
        kiln_free(env, value);
    }
}

// ---- constants of a file ----

/// What the device is given of a file: its bytes stay there, whoever closes the model.
typedef struct file_part {
    const kiln_env *env;
    kilni_onnx_file *file; ///< held
    const uint8_t *bytes;
} file_part;

static void part_copied(void *user, size_t offset, size_t bytes)
{
    const file_part *part = user;
    kilni_onnx_file_rest(part->file, part->bytes + offset, bytes);
}

static void part_released(void *user)
{
    file_part *part = user;
    kilni_onnx_file_unref(part->file);
    kiln_free(part->env, part);
}

static kiln_status wrap_part(kiln_device *device, kilni_onnx_ref value, kiln_error *err)
{
    const kiln_env *env = kiln_context_env(kiln_device_context(device));
    const kiln_tensor_desc *desc = &value->desc;
    kiln_constant_memory memory = KILN_CONSTANT_MEMORY_INIT;
    file_part *part = kiln_alloc(env, sizeof(*part));
    if (part == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a constant");
    }
    *part = (file_part){.env = env, .file = value->file, .bytes = value->host};
    kilni_onnx_file_ref(part->file);
    memory.bytes = value->host;
    memory.copied = part_copied;
    memory.release = part_released;
    memory.user = part;
    kiln_status status = kiln_tensor_wrap_constant(device, desc->dtype, desc->rank, desc->dims,
                                                   &memory, &value->tensor, err);
    if (status != KILN_STATUS_OK) {
        part_released(part);
    }
    return status;
}

/* One element of a dense array at any address. */
static kiln_number element(kiln_dtype dtype, const void *data, int64_t index)
{
    const uint8_t *at = (const uint8_t *)data + (size_t)index * kiln_dtype_size(dtype);
    uint64_t bits = 0;
    memcpy(&bits, at, kiln_dtype_size(dtype));
    float f = 0;
    double d = 0;
    switch (dtype) {
    case KILN_DTYPE_F32:
        memcpy(&f, at, sizeof(f));
        return kiln_f64((double)f);
    case KILN_DTYPE_F64:
        memcpy(&d, at, sizeof(d));
        return kiln_f64(d);
    case KILN_DTYPE_F16:
        return kiln_f64((double)kiln_f16_to_f32((uint16_t)bits));
    case KILN_DTYPE_BF16:
        return kiln_f64((double)kiln_bf16_to_f32((uint16_t)bits));
    case KILN_DTYPE_I8:
        return kiln_i64((int8_t)bits);
    case KILN_DTYPE_I16:
        return kiln_i64((int16_t)bits);
    case KILN_DTYPE_I32:
        return kiln_i64((int32_t)bits);
    default:
        return kiln_i64((int64_t)bits);
    }
}

/* Whether all elements of a computed constant are one number: then it need not be copied. */
static bool is_uniform(const kilni_onnx_value *value)
{
    size_t size = kiln_dtype_size(value->desc.dtype);
    size_t bytes = (size_t)kiln_desc_bytes(&value->desc);
    return value->constant && value->file == NULL && value->host != NULL && size > 0 &&
           bytes > size &&
           memcmp(value->host, (const uint8_t *)value->host + size, bytes - size) == 0;
}

/* As an operation that makes it; leaves the tensor NULL for a number that no attribute holds. */
static kiln_status make_uniform(kiln_device *device, kilni_onnx_ref value, kiln_error *err)
{
    const kiln_tensor_desc *desc = &value->desc;
    kiln_number number = element(desc->dtype, value->host, 0);
    if (desc->dtype == KILN_DTYPE_U64 || (!number.is_integer && isnan(number.v.f))) {
        return KILN_STATUS_OK;
    }
    return kiln_full(device, desc->dims, desc->rank, desc->dtype, number, &value->tensor, err);
}

static kiln_status create_tensor(kiln_device *device, kilni_onnx_ref value, kiln_error *err)
{
    enum { SMALL = 256 << 10 }; // a copy of these for good costs less than the care
    const kiln_tensor_desc *desc = &value->desc;
    if (value->growth != NULL) {
        return kilni_onnx_growth_view(value->growth, desc->dims[value->growth->axis],
                                      &value->tensor, err);
    }
    if (value->file != NULL && value->constant && kiln_desc_bytes(desc) >= SMALL) {
        return wrap_part(device, value, err);
    }
    if (is_uniform(value)) {
        kiln_status made = make_uniform(device, value, err);
        if (made != KILN_STATUS_OK || value->tensor != NULL) {
            return made;
        }
    }
    kiln_status status = kiln_tensor_create(device, desc->dtype, desc->rank, desc->dims,
                                            value->host, &value->tensor, err);
    if (status == KILN_STATUS_OK && value->constant) {
        kiln_tensor_mark_constant(value->tensor);
    }
    if (status == KILN_STATUS_OK && value->file != NULL) {
        kilni_onnx_file_rest(value->file, value->host, (size_t)kiln_desc_bytes(desc));
    }
    return status;
}

kiln_status kilni_onnx_to_device(kiln_device *device, kilni_onnx_ref value,
                                 kiln_tensor **out_tensor, kiln_error *err)
{
    kiln_status status = value->tensor == NULL ? create_tensor(device, value, err) : KILN_STATUS_OK;
    if (status == KILN_STATUS_OK) {
        *out_tensor = value->tensor;
    }
    return status;
}

// ---- what a node takes and gives ----

kiln_status kilni_onnx_at_node(kiln_error *err, const kilni_onnx_node *node)
{
    const char *given = "";
    for (uint32_t i = 0; i < node->n_outputs && given[0] == '\0'; i++) {
        given = node->outputs[i];
    }
    return node->name[0] != '\0' || given[0] == '\0'
               ? kiln_error_context(err, "node '%s' (%s)", node->name, node->op_type)
               : kiln_error_context(err, "the node that gives '%s' (%s)", given, node->op_type);
}

static kilni_onnx_ref raw_input(const kilni_onnx_call *call, uint32_t index)
{
    return kilni_onnx_ok(call) && index < call->n_inputs ? call->inputs[index] : NULL;
}

static kilni_onnx_ref required(kilni_onnx_call *call, kilni_onnx_ref value, uint32_t index)
{
    if (value == NULL) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "input %u is missing", index);
    }
    return value;
}

kilni_onnx_ref kilni_onnx_in(kilni_onnx_call *call, uint32_t index)
{
    return required(call, kilni_onnx_opt(call, index), index);
}

kilni_onnx_ref kilni_onnx_opt(kilni_onnx_call *call, uint32_t index)
{
    kilni_onnx_ref value = raw_input(call, index);
    if (value != NULL && value->form != KILNI_ONNX_TENSOR) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "input %u is %s, not a tensor", index,
                        value->form == KILNI_ONNX_SEQUENCE ? "a sequence" : "an empty optional");
        return NULL;
    }
    return value;
}

kilni_onnx_ref kilni_onnx_in_any(kilni_onnx_call *call, uint32_t index)
{
    return required(call, raw_input(call, index), index);
}

kilni_onnx_ref kilni_onnx_in_sequence(kilni_onnx_call *call, uint32_t index)
{
    kilni_onnx_ref value = kilni_onnx_in_any(call, index);
    if (value != NULL && value->form != KILNI_ONNX_SEQUENCE) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "input %u is no sequence", index);
        return NULL;
    }
    return value;
}

bool kilni_onnx_wants(const kilni_onnx_call *call, uint32_t index)
{
    return index < call->n_outputs && call->node->outputs[index][0] != '\0';
}

void kilni_onnx_out(kilni_onnx_call *call, uint32_t index, kilni_onnx_ref value)
{
    if (!kilni_onnx_ok(call) || index >= call->n_outputs) {
        return;
    }
    kilni_onnx_release(&call->session->env, call->outputs[index]);
    call->outputs[index] = kilni_onnx_retain(value);
}

static const void *contents(kilni_onnx_call *call, kilni_onnx_ref value)
{
    if (!kilni_onnx_ok(call) || value == NULL || kiln_desc_count(&value->desc) == 0) {
        return NULL;
    }
    value->looked = value->looked || !value->constant;
    if (value->host == NULL) {
        kiln_tensor *tensor = NULL;
        call->session->n_reads++;
        call->status = kilni_onnx_to_device(call->session->device, value, &tensor, call->err);
        if (!kilni_onnx_ok(call)) {
            return NULL;
        }
        size_t bytes = (size_t)kiln_desc_bytes(&value->desc);
        value->owned = kiln_alloc(&call->session->env, bytes);
        if (value->owned == NULL) {
            KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "no memory for %zu bytes", bytes);
            return NULL;
        }
        call->status = kiln_read(tensor, value->owned, bytes, call->err);
        if (!kilni_onnx_ok(call)) {
            kiln_free(&call->session->env, value->owned);
            value->owned = NULL;
            return NULL;
        }
        value->host = value->owned;
    }
    return value->host;
}

const void *kilni_onnx_host(kilni_onnx_call *call, kilni_onnx_ref value)
{
    call->on_host = call->on_host || (value != NULL && !value->constant);
    return contents(call, value);
}

kilni_onnx_ints kilni_onnx_value_ints(kilni_onnx_call *call, kilni_onnx_ref value)
{
    kilni_onnx_ints ints = {.count = 0};
    const void *data = contents(call, value);
    if (!kilni_onnx_ok(call) || data == NULL) {
        return ints;
    }
    int64_t count = kiln_desc_count(&value->desc);
    if (kilni_onnx_is_float(value) || count > (int64_t)(sizeof(ints.v) / sizeof(ints.v[0]))) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%lld elements of %s where a few integers belong",
                        (long long)count, kiln_dtype_name(value->desc.dtype));
        return ints;
    }
    for (int64_t i = 0; i < count; i++) {
        ints.v[i] = element(value->desc.dtype, data, i).v.i;
    }
    ints.count = (uint32_t)count;
    return ints;
}

int64_t kilni_onnx_value_int_at(kilni_onnx_call *call, kilni_onnx_ref value, int64_t index)
{
    const void *data = contents(call, value);
    if (!kilni_onnx_ok(call) || data == NULL || kilni_onnx_is_float(value) || index < 0 ||
        index >= kiln_desc_count(&value->desc)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "integers are needed");
        return 0;
    }
    return element(value->desc.dtype, data, index).v.i;
}

kiln_number kilni_onnx_value_number(kilni_onnx_call *call, kilni_onnx_ref value)
{
    const void *data = contents(call, value);
    if (!kilni_onnx_ok(call) || data == NULL || kiln_desc_count(&value->desc) != 1) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "a single number is needed");
        return kiln_i64(0);
    }
    return element(value->desc.dtype, data, 0);
}

bool kilni_onnx_is_float(const kilni_onnx_value *value)
{
    return kiln_dtype_kind_of(value->desc.dtype) == KILN_KIND_FLOAT;
}

uint32_t kilni_onnx_axis(kilni_onnx_call *call, int64_t axis, uint32_t rank)
{
    if (axis < -(int64_t)rank || axis >= (int64_t)rank) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "axis %lld does not fit rank %u", (long long)axis,
                        rank);
        return 0;
    }
    return (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
}

int64_t kilni_onnx_span_of(const kiln_tensor_desc *desc, uint32_t first, uint32_t end)
{
    /* Unsigned: beside a zero the other lengths may be anything. */
    uint64_t product = 1;
    for (uint32_t i = first; i < end; i++) {
        product *= (uint64_t)desc->dims[i];
    }
    return (int64_t)product;
}
