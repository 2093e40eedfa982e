// SPDX-License-Identifier: MIT OR Apache-2.0
// Values on devices: how a constant comes to one, by a copy, from where it lies in its file, or as
// an operation that makes it, and how a value comes from one device to another.
#include "onnx_run.h"

#include <math.h>
#include <string.h>

// ---- constants of a file ----

/// What the device is given of a file: its bytes stay there, whoever closes the model.
typedef struct file_part {
    const kiln_env *env;
    kilni_onnx_file *file; ///< held
    const uint8_t *bytes;
    kiln_dtype dtype; ///< that floats of f32 become as they are copied; NONE: they stay
} file_part;

static void part_copied(void *user, size_t offset, size_t bytes)
{
    const file_part *part = user;
    size_t times = part->dtype == KILN_DTYPE_NONE ? 1 : sizeof(float) / sizeof(uint16_t);
    kilni_onnx_file_rest(part->file, part->bytes + offset * times, bytes * times);
}

/// f32 at any address to f16 or bf16.
static void round_floats(kiln_dtype dtype, const uint8_t *from, size_t count, uint8_t *to)
{
    for (size_t i = 0; i < count; i++) {
        float number;
        memcpy(&number, from + i * sizeof(number), sizeof(number));
        uint16_t bits =
            dtype == KILN_DTYPE_F16 ? kiln_f32_to_f16(number) : kiln_f32_to_bf16(number);
        memcpy(to + i * sizeof(bits), &bits, sizeof(bits));
    }
}

static void part_read(void *user, size_t offset, size_t bytes, void *out)
{
    enum { NARROW = sizeof(uint16_t) };
    const file_part *part = user;
    size_t first = offset / NARROW;
    size_t end = (offset + bytes + NARROW - 1) / NARROW;
    const uint8_t *from = part->bytes + first * sizeof(float);
    if (offset % NARROW == 0 && bytes % NARROW == 0) {
        round_floats(part->dtype, from, bytes / NARROW, out);
        return;
    }
    for (uint8_t *to = out; first < end; first++, from += sizeof(float)) { // begins inside one
        uint8_t pair[NARROW];
        round_floats(part->dtype, from, 1, pair);
        for (size_t k = 0; k < NARROW; k++) {
            size_t at = first * NARROW + k;
            if (at >= offset && at < offset + bytes) {
                to[at - offset] = pair[k];
            }
        }
    }
}

static void part_released(void *user)
{
    file_part *part = user;
    kilni_onnx_file_unref(part->file);
    kiln_free(part->env, part);
}

static kiln_status wrap_part(kiln_device *device, kilni_onnx_ref value, kiln_dtype dtype,
                             kiln_tensor **out_tensor, kiln_error *err)
{
    const bool rounds = dtype != value->desc.dtype;
    const kiln_env *env = kiln_context_env(kiln_device_context(device));
    const kiln_tensor_desc *desc = &value->desc;
    kiln_constant_memory memory = KILN_CONSTANT_MEMORY_INIT;
    file_part *part = kiln_alloc(env, sizeof(*part));
    if (part == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a constant");
    }
    *part = (file_part){.env = env,
                        .file = value->file,
                        .bytes = value->host,
                        .dtype = rounds ? dtype : KILN_DTYPE_NONE};
    kilni_onnx_file_ref(part->file);
    memory.bytes = value->host;
    memory.copied = part_copied;
    memory.release = part_released;
    memory.user = part;
    memory.read = rounds ? part_read : NULL;
    memory.stamp = kilni_onnx_file_stamp(part->file, value->host, (size_t)kiln_desc_bytes(desc));
    kiln_status status =
        kiln_tensor_wrap_constant(device, dtype, desc->rank, desc->dims, &memory, out_tensor, err);
    if (status != KILN_STATUS_OK) {
        part_released(part);
    }
    return status;
}

/// Whether all elements of a computed constant are one number: then it need not be copied.
static bool is_uniform(kilni_onnx_ref value)
{
    size_t size = kiln_dtype_size(value->desc.dtype);
    size_t bytes = (size_t)kiln_desc_bytes(&value->desc);
    if (value->uniform == KILNI_ONNX_UNKNOWN) {
        bool same = value->constant && value->file == NULL && value->host != NULL && size > 0 &&
                    bytes > size &&
                    memcmp(value->host, (const uint8_t *)value->host + size, bytes - size) == 0;
        value->uniform = same ? KILNI_ONNX_YES : KILNI_ONNX_NO;
    }
    return value->uniform == KILNI_ONNX_YES;
}

void kilni_onnx_rest(kilni_onnx_ref value)
{
    if (value != NULL && (value->tensor != NULL || value->other != NULL) && is_uniform(value)) {
        kiln_release(value->tensor);
        kiln_release(value->other);
        value->tensor = value->other = NULL;
    }
}

/// As an operation that makes it; leaves the tensor NULL for a number that no attribute holds.
static kiln_status make_uniform(kiln_device *device, kilni_onnx_ref value, kiln_dtype dtype,
                                kiln_tensor **out_tensor, kiln_error *err)
{
    const kiln_tensor_desc *desc = &value->desc;
    kiln_number number = kilni_onnx_element(desc->dtype, value->host, 0);
    if (desc->dtype == KILN_DTYPE_U64 || (!number.is_integer && isnan(number.v.f))) {
        return KILN_STATUS_OK;
    }
    return kiln_full(device, desc->dims, desc->rank, dtype, number, out_tensor, err);
}

/// From the integer before; far ones may wrap.
static int64_t distance(const kilni_onnx_value *value, int64_t index)
{
    kiln_dtype dtype = value->desc.dtype;
    uint64_t here = (uint64_t)kilni_onnx_element(dtype, value->host, index).v.i;
    return (int64_t)(here - (uint64_t)kilni_onnx_element(dtype, value->host, index - 1).v.i);
}

/// Whether the elements of a computed constant are integers at equal distances.
static bool is_line(const kilni_onnx_value *value, kiln_number *out_start, kiln_number *out_step)
{
    kiln_dtype dtype = value->desc.dtype;
    int64_t count = kiln_desc_count(&value->desc);
    bool can_be = value->constant && value->file == NULL && value->host != NULL && count > 1 &&
                  (dtype == KILN_DTYPE_I64 || dtype == KILN_DTYPE_I32);
    if (!can_be) {
        return false;
    }
    *out_start = kilni_onnx_element(dtype, value->host, 0);
    *out_step = kiln_i64(distance(value, 1));
    for (int64_t i = 2; can_be && i < count; i++) {
        can_be = distance(value, i) == out_step->v.i;
    }
    return can_be;
}

kiln_status kilni_onnx_line_to_device(kiln_device *device, kilni_onnx_ref value, kiln_error *err)
{
    const kiln_tensor_desc *desc = &value->desc;
    kiln_number start, step;
    kiln_tensor *line = NULL;
    if (value->tensor != NULL || !is_line(value, &start, &step)) {
        return KILN_STATUS_OK;
    }
    kiln_status status =
        kiln_arange(device, kiln_desc_count(desc), desc->dtype, start, step, &line, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_reshape(line, desc->dims, desc->rank, &value->tensor, err);
    }
    kiln_release(line);
    return status;
}

static kiln_status copy_to_device(kiln_device *device, kilni_onnx_ref value, kiln_dtype dtype,
                                  kiln_tensor **out_tensor, kiln_error *err)
{
    const kiln_env *env = kiln_context_env(kiln_device_context(device));
    const kiln_tensor_desc *desc = &value->desc;
    const void *bytes = value->host;
    uint8_t *rounded = NULL;
    if (dtype != desc->dtype) {
        size_t count = (size_t)kiln_desc_count(desc);
        rounded = kiln_alloc_array(env, count + 1, sizeof(uint16_t));
        if (rounded == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu elements", count);
        }
        round_floats(dtype, value->host, count, rounded);
        bytes = rounded;
    }
    kiln_status status =
        kiln_tensor_create(device, dtype, desc->rank, desc->dims, bytes, out_tensor, err);
    kiln_free(env, rounded);
    return status;
}

/// In its own type, or in f16 or bf16 a constant of f32.
static kiln_status create_tensor(kiln_device *device, kilni_onnx_ref value, kiln_dtype dtype,
                                 kiln_tensor **out_tensor, kiln_error *err)
{
    enum { SMALL = 256 << 10 }; // a copy of these for good costs less than the care
    enum { SMALL_REMOTE = 4 << 10 }; // but a server may have them already
    const kiln_tensor_desc *desc = &value->desc;
    int64_t small = kiln_device_info_of(device)->type == KILN_DEVICE_REMOTE ? SMALL_REMOTE : SMALL;
    if (value->growth != NULL) {
        return kilni_onnx_growth_view(value->growth, desc->dims[value->growth->axis], out_tensor,
                                      err);
    }
    if (value->file != NULL && value->constant && kiln_desc_bytes(desc) >= small) {
        return wrap_part(device, value, dtype, out_tensor, err);
    }
    if (is_uniform(value)) {
        kiln_status made = make_uniform(device, value, dtype, out_tensor, err);
        if (made != KILN_STATUS_OK || *out_tensor != NULL) {
            return made;
        }
    }
    kiln_status status = copy_to_device(device, value, dtype, out_tensor, err);
    if (status == KILN_STATUS_OK && value->constant) {
        kiln_tensor_mark_constant(*out_tensor);
    }
    if (status == KILN_STATUS_OK && value->file != NULL) {
        kilni_onnx_file_rest(value->file, value->host, (size_t)kiln_desc_bytes(desc));
    }
    return status;
}

kiln_dtype kilni_onnx_kept_in(const kilni_onnx_value *value)
{
    return value->tensor != NULL ? kiln_tensor_dtype(value->tensor) : value->desc.dtype;
}

/// The tensor in a type that the value is not there in.
static kiln_status make_other(kiln_device *device, kilni_onnx_ref value, kiln_dtype dtype,
                              kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    kiln_release(value->other);
    value->other = NULL;
    if (value->constant && value->host != NULL) {
        return create_tensor(device, value, dtype, &value->other, err);
    }
    if (value->tensor == NULL) {
        status = create_tensor(device, value, value->desc.dtype, &value->tensor, err);
    }
    return status == KILN_STATUS_OK ? kiln_cast(value->tensor, dtype, &value->other, err) : status;
}

kiln_status kilni_onnx_to_device_as(kiln_device *device, kilni_onnx_ref value, kiln_dtype dtype,
                                    kiln_tensor **out_tensor, kiln_error *err)
{
    bool has_other = value->other != NULL && kiln_tensor_dtype(value->other) == dtype;
    bool is_other = kilni_onnx_kept_in(value) != dtype;
    kiln_status status = KILN_STATUS_OK;
    if (is_other && !has_other) {
        status = make_other(device, value, dtype, err);
    } else if (!is_other && value->tensor == NULL) {
        status = create_tensor(device, value, dtype, &value->tensor, err);
    }
    if (status == KILN_STATUS_OK) {
        *out_tensor = is_other ? value->other : value->tensor;
    }
    return status;
}

kiln_status kilni_onnx_to_device(kiln_device *device, kilni_onnx_ref value,
                                 kiln_tensor **out_tensor, kiln_error *err)
{
    return kilni_onnx_to_device_as(device, value, value->desc.dtype, out_tensor, err);
}

// ---- on another device ----

static bool is_at(const kilni_onnx_value *value, const kiln_device *device)
{
    const kiln_tensor *tensor = value->tensor != NULL ? value->tensor : value->other;
    return tensor == NULL || kiln_tensor_device(tensor) == device;
}

static kiln_status copy_constant(const kiln_env *env, const kilni_onnx_value *value,
                                 kilni_onnx_ref *out_value, kiln_error *err)
{
    size_t bytes = (size_t)kiln_desc_bytes(&value->desc);
    kilni_onnx_ref copy = kilni_onnx_value_new(env);
    void *contents = copy != NULL ? kiln_alloc(env, bytes + 1) : NULL;
    if (contents == NULL) {
        kiln_free(env, copy);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a constant of %zu bytes", bytes);
    }
    if (bytes > 0) {
        memcpy(contents, value->host, bytes);
    }
    copy->constant = true;
    copy->desc = value->desc;
    copy->narrow = value->narrow;
    copy->host = copy->owned = contents;
    *out_value = copy;
    return KILN_STATUS_OK;
}

static kiln_status constant_on(const kiln_env *env, const kiln_device *device, kilni_onnx_ref value,
                               kilni_onnx_ref *out_value, kiln_error *err)
{
    kilni_onnx_ref copy = value->elsewhere;
    if (copy == NULL || !is_at(copy, device)) {
        kiln_status status = copy_constant(env, value, &copy, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        kilni_onnx_release(env, value->elsewhere);
        value->elsewhere = copy;
    }
    *out_value = copy;
    return KILN_STATUS_OK;
}

static kiln_status items_on(const kiln_env *env, kiln_device *device, kilni_onnx_ref sequence,
                            kiln_error *err)
{
    for (uint32_t i = 0; i < sequence->n_items; i++) {
        kilni_onnx_ref item = NULL;
        kiln_status status = kilni_onnx_value_on(env, device, sequence->items[i], &item, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        item = kilni_onnx_retain(item);
        kilni_onnx_release(env, sequence->items[i]);
        sequence->items[i] = item;
    }
    return KILN_STATUS_OK;
}

static kiln_status tensor_on(const kiln_env *env, kiln_device *device, kilni_onnx_ref value,
                             kiln_error *err)
{
    kiln_tensor *here = NULL;
    kiln_tensor *there = NULL;
    kiln_device *store =
        value->growth != NULL && value->tensor == NULL && value->growth->store != NULL
            ? kiln_tensor_device(value->growth->store)
            : device;
    if (store == device && is_at(value, device)) {
        return KILN_STATUS_OK;
    }
    kiln_status status =
        kilni_onnx_to_device_as(store, value, kilni_onnx_kept_in(value), &here, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_to_device(here, device, &there, err);
    }
    if (status == KILN_STATUS_OK) {
        kiln_release(value->tensor);
        kiln_release(value->other);
        value->tensor = there;
        value->other = NULL;
        kilni_onnx_release(env, value->turned); // which stays where it is
        value->turned = NULL;
    }
    return status;
}

kiln_status kilni_onnx_value_on(const kiln_env *env, kiln_device *device, kilni_onnx_ref value,
                                kilni_onnx_ref *out_value, kiln_error *err)
{
    *out_value = value;
    if (value->form != KILNI_ONNX_TENSOR) {
        return items_on(env, device, value, err);
    }
    if (value->constant && value->host != NULL) {
        return constant_on(env, device, value, out_value, err);
    }
    return tensor_on(env, device, value, err);
}
