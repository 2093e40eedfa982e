// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads attributes of a record by key. Decides how an absent attribute gets the fallback of its
// schema and how a number becomes an integer, a float or one element of a dtype. What attributes an
// operator has is ops.def; whether their types are right is infer.c.
#include <math.h>
#include <string.h>

#include "op_internal.h"

static const kiln_attr no_attr = {.type = KILN_ATTR_NONE};

static const kiln_attr_spec *find_spec(const kiln_op_record *record, kiln_attr_key key,
                                       unsigned *out_index)
{
    const kiln_op_info *info = kiln_op_info_of(record->op);
    for (unsigned i = 0; info != NULL && i < info->signature->n_attrs; i++) {
        if (info->signature->attrs[i].key == key) {
            *out_index = i;
            return &info->signature->attrs[i];
        }
    }
    return NULL;
}

const kiln_attr *kiln_op_attr(const kiln_op_record *record, kiln_attr_key key)
{
    unsigned index = 0;
    if (find_spec(record, key, &index) == NULL || index >= record->n_attrs) {
        return &no_attr;
    }
    return &record->attrs[index];
}

static double fallback_of(const kiln_op_record *record, kiln_attr_key key)
{
    unsigned index = 0;
    const kiln_attr_spec *spec = find_spec(record, key, &index);
    return spec != NULL ? spec->fallback : 0;
}

static int64_t saturate(double value)
{
    if (isnan(value)) {
        return 0;
    }
    if (value >= 9223372036854775808.0) {
        return INT64_MAX;
    }
    return value < -9223372036854775808.0 ? INT64_MIN : (int64_t)value;
}

int64_t kiln_op_attr_i64(const kiln_op_record *record, kiln_attr_key key)
{
    const kiln_attr *attr = kiln_op_attr(record, key);
    switch (attr->type) {
    case KILN_ATTR_NONE:
        return saturate(fallback_of(record, key));
    case KILN_ATTR_F64:
        return saturate(attr->v.f);
    default:
        return attr->v.i;
    }
}

double kiln_op_attr_f64(const kiln_op_record *record, kiln_attr_key key)
{
    const kiln_attr *attr = kiln_op_attr(record, key);
    switch (attr->type) {
    case KILN_ATTR_NONE:
        return fallback_of(record, key);
    case KILN_ATTR_F64:
        return attr->v.f;
    default:
        return (double)attr->v.i;
    }
}

const int64_t *kilni_ir_ints(const kiln_op_record *call, kiln_attr_key key, uint32_t *out_count)
{
    const kiln_attr *attr = kiln_op_attr(call, key);
    *out_count = attr->type == KILN_ATTR_I64_LIST ? attr->count : 0;
    return *out_count > 0 ? attr->v.ints : NULL;
}

const char *kilni_ir_text(const kiln_op_record *call, kiln_attr_key key)
{
    const kiln_attr *attr = kiln_op_attr(call, key);
    unsigned index = 0;
    const kiln_attr_spec *spec = find_spec(call, key, &index);
    if (attr->type == KILN_ATTR_STRING) {
        return attr->v.text;
    }
    return spec != NULL && spec->fallback_text != NULL ? spec->fallback_text : "";
}

typedef struct int_range {
    double low; ///< smallest value
    double above; ///< largest value plus one: exact in double for every dtype
    int64_t min;
    uint64_t max;
} int_range;

static int_range range_of(kiln_dtype dtype)
{
    if (dtype == KILN_DTYPE_BOOL) {
        return (int_range){0, 2, 0, 1};
    }
    int bits = (int)kiln_dtype_size(dtype) * 8;
    if (kiln_dtype_kind_of(dtype) == KILN_KIND_UINT) {
        return (int_range){0, ldexp(1, bits), 0, bits == 64 ? UINT64_MAX : (1ull << bits) - 1};
    }
    double half = ldexp(1, bits - 1);
    uint64_t max = (1ull << (bits - 1)) - 1;
    return (int_range){-half, half, -(int64_t)max - 1, max};
}

static bool integer_of(const kiln_attr *number, kiln_dtype dtype, uint64_t *out_bits)
{
    int_range range = range_of(dtype);
    if (number->type == KILN_ATTR_I64) {
        *out_bits = (uint64_t)number->v.i;
        return number->v.i >= range.min && (number->v.i < 0 || *out_bits <= range.max);
    }
    double value = number->v.f;
    if (isinf(value)) {
        *out_bits = value > 0 ? range.max : (uint64_t)range.min;
        return true;
    }
    if (isnan(value) || value != floor(value) || value < range.low || value >= range.above) {
        return false;
    }
    *out_bits = value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
    return true;
}

/// The float nearest to `value` whose last bit also says that something was cut off ("round to
/// odd"), so that rounding it again to a type of at most 22 bits equals rounding `value` once.
static float sticky_float(double value)
{
    float narrow = (float)value;
    uint32_t bits = 0;
    if (isnan(value) || isinf(narrow) || (double)narrow == value) {
        return narrow;
    }
    if (fabs((double)narrow) > fabs(value)) {
        narrow = nextafterf(narrow, 0);
    }
    memcpy(&bits, &narrow, sizeof(bits));
    bits |= 1u;
    memcpy(&narrow, &bits, sizeof(bits));
    return narrow;
}

void kilni_ir_store_float(double value, kiln_dtype dtype, void *out_element)
{
    float narrow = (float)value;
    uint16_t half = 0;
    switch (dtype) {
    case KILN_DTYPE_F64:
        memcpy(out_element, &value, sizeof(value));
        break;
    case KILN_DTYPE_F32:
        memcpy(out_element, &narrow, sizeof(narrow));
        break;
    default:
        narrow = sticky_float(value);
        half = dtype == KILN_DTYPE_F16 ? kiln_f32_to_f16(narrow) : kiln_f32_to_bf16(narrow);
        memcpy(out_element, &half, sizeof(half));
        break;
    }
}

bool kiln_number_store(const kiln_attr *number, kiln_dtype dtype, void *out_element)
{
    if (number->type != KILN_ATTR_I64 && number->type != KILN_ATTR_F64) {
        return false;
    }
    if (kiln_dtype_kind_of(dtype) == KILN_KIND_FLOAT) {
        double value = number->type == KILN_ATTR_F64 ? number->v.f : (double)number->v.i;
        kilni_ir_store_float(value, dtype, out_element);
        return true;
    }
    uint64_t bits = 0;
    if (kiln_dtype_size(dtype) == 0 || !integer_of(number, dtype, &bits)) {
        return false;
    }
    uint8_t u8 = (uint8_t)bits;
    uint16_t u16 = (uint16_t)bits;
    uint32_t u32 = (uint32_t)bits;
    switch (kiln_dtype_size(dtype)) {
    case 1:
        memcpy(out_element, &u8, 1);
        break;
    case 2:
        memcpy(out_element, &u16, 2);
        break;
    case 4:
        memcpy(out_element, &u32, 4);
        break;
    default:
        memcpy(out_element, &bits, 8);
        break;
    }
    return true;
}
