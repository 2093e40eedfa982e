// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes sample calls: fills tensors with repeatable values and hands finished records to the sink.
// Decides which values are special for a dtype (NaN, infinities, signed zeros, denormals, ends of
// integer ranges). Which shapes and attributes an operator is tried with is in
// samples_elementwise.c and samples_others.c.
#include <float.h>
#include <math.h>
#include <string.h>

#include "ir_quant.h"
#include "samples_internal.h"

static const double special_floats[] = {
    (double)NAN,
    (double)INFINITY,
    -(double)INFINITY,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    -1.5,
    2.5,
    -2.5,
    3.0,
    -3.0,
    1e-3,
    -1e-3,
    0.1,
    7.75,
    -9.25,
    100.0,
    -88.0,
    3.140625,
    1e-5,
    65504.0,
    -40.0,
    12.0,
};
enum { N_SPECIAL_FLOATS = sizeof(special_floats) / sizeof(special_floats[0]) };

/// After the list above: the largest, smallest normal and smallest denormal of the type, both
/// signs.
static double edge_float(kiln_dtype dtype, unsigned index)
{
    static const int exponents[][3] = {
        {16, -14, -24}, {128, -126, -133}, {128, -126, -149}, {1024, -1022, -1074}};
    static const int digits[] = {11, 8, 24, 53};
    unsigned row = (unsigned)dtype - KILN_DTYPE_F16;
    double value = index / 2 == 0 ? ldexp(2 - ldexp(1, 1 - digits[row]), exponents[row][0] - 1)
                                  : ldexp(1, exponents[row][index / 2]);
    return index % 2 == 0 ? value : -value;
}
enum { N_EDGE_FLOATS = 6 };

static const int64_t special_ints[] = {0, 1, 2, 3, 7, 8, 15, 31, 33, 63, 64, 100};
static const int64_t negative_ints[] = {-1, -2, -3, -7, -64, -100};
enum {
    N_SPECIAL_INTS = sizeof(special_ints) / sizeof(special_ints[0]),
    N_NEGATIVE_INTS = sizeof(negative_ints) / sizeof(negative_ints[0]),
    N_EDGE_INTS = 4
};

int64_t kilni_special_count(kiln_dtype dtype)
{
    switch (kiln_dtype_kind_of(dtype)) {
    case KILN_KIND_FLOAT:
        return N_SPECIAL_FLOATS + N_EDGE_FLOATS;
    case KILN_KIND_INT:
        return N_SPECIAL_INTS + N_EDGE_INTS + N_NEGATIVE_INTS;
    case KILN_KIND_UINT:
        return N_SPECIAL_INTS + N_EDGE_INTS;
    default:
        return 2;
    }
}

/// The lowest, the highest, and their neighbours, as bits.
static uint64_t edge_int(kiln_dtype dtype, int64_t index)
{
    unsigned bits = (unsigned)kiln_dtype_size(dtype) * 8;
    bool is_signed = kiln_dtype_kind_of(dtype) == KILN_KIND_INT;
    uint64_t low = is_signed ? UINT64_MAX << (bits - 1) : 0;
    uint64_t high = UINT64_MAX >> (64 - bits + (is_signed ? 1 : 0));
    const uint64_t edges[N_EDGE_INTS] = {low, high, low + 1, high - 1};
    return edges[index];
}

static double special_float(kiln_dtype dtype, int64_t index)
{
    return index < N_SPECIAL_FLOATS ? special_floats[index]
                                    : edge_float(dtype, (unsigned)(index - N_SPECIAL_FLOATS));
}

static uint64_t special_int(kiln_dtype dtype, int64_t index)
{
    if (index < N_SPECIAL_INTS) {
        return (uint64_t)special_ints[index];
    }
    index -= N_SPECIAL_INTS;
    return index < N_EDGE_INTS ? edge_int(dtype, index)
                               : (uint64_t)negative_ints[index - N_EDGE_INTS];
}

/// Splitmix64 (Steele, Lea, Flood, 2014): the same values on every machine.
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static double fill_float(const kilni_sample_tensor *tensor, kiln_dtype dtype, int64_t i,
                         uint64_t *random)
{
    double unit = (double)(next_random(random) >> 11) * 0x1p-53;
    switch (tensor->fill) {
    case KILNI_FILL_SPECIAL:
        return i < kilni_special_count(dtype) ? special_float(dtype, i) : unit * 8 - 4;
    case KILNI_FILL_POSITIVE:
        return 0.5 + unit * 1.5;
    case KILNI_FILL_TIES:
        return floor(unit * 5) - 2;
    default:
        return unit * 4 - 2;
    }
}

static uint64_t fill_int(const kilni_sample_tensor *tensor, kiln_dtype dtype, int64_t i,
                         uint64_t *random)
{
    bool is_signed = kiln_dtype_kind_of(dtype) == KILN_KIND_INT;
    uint64_t r = next_random(random) >> 16;
    if (dtype == KILN_DTYPE_BOOL) {
        return tensor->fill == KILNI_FILL_SPECIAL && i < 2 ? (uint64_t)i : r & 1u;
    }
    switch (tensor->fill) {
    case KILNI_FILL_SPECIAL:
        return i < kilni_special_count(dtype) ? special_int(dtype, i)
                                              : r % 21 - (is_signed ? 10 : 0);
    case KILNI_FILL_POSITIVE:
        return 1 + r % 3;
    case KILNI_FILL_TIES:
        return r % 5 - (is_signed ? 2 : 0);
    case KILNI_FILL_INDEX:
        return r % (2 * (uint64_t)tensor->limit + 4) - (uint64_t)tensor->limit - 2;
    default:
        return r % 9 - (is_signed ? 4 : 0);
    }
}

static void store_float(double value, kiln_dtype dtype, void *out_element)
{
    kiln_attr number = kilni_attr_f64(value);
    (void)kiln_number_store(&number, dtype, out_element);
}

/// Any values; scales as ordinary numbers.
static void fill_quantised(const kiln_tensor_desc *desc, unsigned char *data)
{
    uint64_t random = desc->id * 1000 + desc->rank;
    kiln_dtype scale = kiln_scheme_scale(desc->scheme);
    kiln_quant_layout l;
    if (!kiln_quant_layout_of(desc, &l)) {
        return;
    }
    memset(data, 0, (size_t)l.bytes);
    for (int64_t i = 0; i < l.words; i++) {
        uint32_t word = (uint32_t)next_random(&random);
        memcpy(data + i * 4, &word, sizeof(word));
    }
    for (int64_t i = 0; i < l.scales; i++) {
        double value = 0.01 + (double)(next_random(&random) >> 40) * 0x1p-24;
        store_float(value, scale, data + l.scales_at + i * (int64_t)kiln_dtype_size(scale));
    }
    if (l.global_at >= 0) {
        store_float(0.75, KILN_DTYPE_F32, data + l.global_at);
    }
}

static void fill_tensor(const kilni_sample_tensor *tensor, const kiln_tensor_desc *desc,
                        unsigned char *data)
{
    uint64_t random = desc->id * 1000 + desc->rank;
    size_t size = kiln_dtype_size(desc->dtype);
    int64_t count = kiln_desc_count(desc);
    if (kiln_dtype_kind_of(desc->dtype) == KILN_KIND_QUANT) {
        fill_quantised(desc, data);
        return;
    }
    for (int64_t i = 0; i < count; i++, data += size) {
        if (kiln_dtype_kind_of(desc->dtype) == KILN_KIND_FLOAT) {
            store_float(fill_float(tensor, desc->dtype, i, &random), desc->dtype, data);
        } else {
            uint64_t bits = fill_int(tensor, desc->dtype, i, &random);
            memcpy(data, &bits, size);
        }
    }
}

kiln_attr kilni_sample_number(kiln_dtype dtype, unsigned index)
{
    static const double floats[] = {0.5, -2.0, 0.0, 3.0, (double)INFINITY, (double)NAN};
    static const int64_t ints[] = {2, 0, 1, 5, 100};
    static const int64_t signed_ints[] = {-1, -3};
    kiln_dtype_kind kind = kiln_dtype_kind_of(dtype);
    if (kind == KILN_KIND_FLOAT) {
        return index < 6 ? kilni_attr_f64(floats[index]) : kilni_attr_none();
    }
    if (kind == KILN_KIND_BOOL) {
        return index < 2 ? kilni_attr_i64(index) : kilni_attr_none();
    }
    if (index < 5) {
        return kilni_attr_i64(ints[index]);
    }
    if (kind == KILN_KIND_INT && index < 7) {
        return kilni_attr_i64(signed_ints[index - 5]);
    }
    return kilni_attr_none();
}

static bool make_input(kiln_sample_sink *sink, const kilni_sample_tensor *tensor, kiln_dtype dtype,
                       uint64_t id, kiln_tensor_desc *out_desc, void **out_data)
{
    *out_desc = (kiln_tensor_desc){
        .id = id, .dtype = dtype, .rank = tensor->rank, .scheme = tensor->scheme};
    memcpy(out_desc->dims, tensor->dims, tensor->rank * sizeof(tensor->dims[0]));
    int64_t bytes = kiln_desc_bytes(out_desc);
    *out_data = kiln_alloc(sink->env, bytes > 0 ? (size_t)bytes : 1);
    if (*out_data == NULL) {
        return false;
    }
    fill_tensor(tensor, out_desc, *out_data);
    return true;
}

void kilni_sample_emit(kiln_sample_sink *sink, kiln_op op, kiln_dtype dtype,
                       const kilni_sample_tensor *inputs, uint16_t n_inputs, const kiln_attr *attrs)
{
    const kiln_op_info *info = kiln_op_info_of(op);
    kiln_tensor_desc descs[KILN_MAX_INPUTS];
    kiln_tensor_desc outputs[KILN_MAX_OUTPUTS] = {{0}};
    void *data[KILN_MAX_INPUTS] = {NULL};
    bool ok = true;
    for (uint16_t i = 0; ok && i < n_inputs; i++) {
        kiln_dtype own = inputs[i].dtype != KILN_DTYPE_NONE ? inputs[i].dtype : dtype;
        ok = make_input(sink, &inputs[i], own, i + 1u, &descs[i], &data[i]);
    }
    kiln_op_record record = {.op = op,
                             .n_inputs = n_inputs,
                             .n_outputs = info->n_outputs,
                             .n_attrs = info->signature->n_attrs,
                             .inputs = descs,
                             .outputs = outputs,
                             .attrs = attrs};
    for (unsigned i = 0; i < info->n_outputs; i++) {
        outputs[i].id = n_inputs + i + 1u;
    }
    if (!ok || kiln_ir_infer(&record, outputs, NULL) != KILN_STATUS_OK) {
        record.outputs = NULL;
    }
    sink->take(&record, (const void *const *)data, sink->user);
    for (uint16_t i = 0; i < n_inputs; i++) {
        kiln_free(sink->env, data[i]);
    }
}
