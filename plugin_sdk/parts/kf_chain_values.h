// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_chain_values.h: the objects of a chain: its device, values, numbers and operations. Part of
// kf_chain.h.
#ifndef KILN_PLUGIN_SDK_KF_CHAIN_VALUES_H
#define KILN_PLUGIN_SDK_KF_CHAIN_VALUES_H

#include "kf_elementwise.h"

#ifdef __cplusplus
extern "C" {
#endif

// A fuser of longer chains defines these before it includes kf_chain.h.
#ifndef KF_CHAIN_OPS
#define KF_CHAIN_OPS 128u
#define KF_CHAIN_VALUES 192u
#define KF_CHAIN_NUMBERS 64u
#endif
#ifndef KF_CHAIN_PARAM_BYTES
#define KF_CHAIN_PARAM_BYTES 1024u // of a kernel, also where a device takes more
#endif
#ifndef KF_CHAIN_IDS
#define KF_CHAIN_IDS 512u // tensor ids beyond this are not taken
#endif

typedef struct kf_chain_device { ///< what kernels depend on
    uint64_t features; // KF_FEATURE_*
    uint64_t dtype_storage;
    uint64_t cache_bytes;
    uint64_t local_bytes;
    kf_cost cost;
    uint32_t block_shape; // 1: a loop per work-item (CPU, FPGA); 0: many small work-items
    uint32_t is_cpu;
    uint32_t vector_bytes;
    uint32_t max_group;
    uint32_t max_param_bytes;
    uint32_t has_f64;
    uint32_t mem_align; // bytes, of every buffer
    uint32_t compute_units;
} kf_chain_device;

typedef struct kf_chain_value {
    uint32_t id; // of the block's tensor; KF_NONE: of the fuser's own
    uint16_t dtype;
    uint8_t rank;
    uint8_t computed; // 1: by an operation of this chain; 0: read from memory
    uint8_t dropped;
    uint8_t contiguous;
    uint8_t turned; ///< contiguous once the last two axes are swapped
    uint8_t lines; ///< neither, but the last axis has stride 1
    uint8_t columns; ///< none of these, but the axis before the last has
    uint8_t zero_offset;
    uint8_t fits_i32;
    uint16_t div_by;
    uint16_t align_log2;
    uint32_t symbols[KF_MAX_RANK];
} kf_chain_value;

typedef struct kf_chain_number { ///< a scalar of the block, or a constant
    uint32_t is_scalar;
    uint32_t index; // is_scalar: of the block's scalars
    uint32_t dtype;
    kf_scalar value; // not is_scalar
} kf_chain_number;

typedef struct kf_chain_op {
    const kf_ew_row *row; // NULL: `kind` is the fuser's own, or KF_CHAIN_ALIAS
    uint32_t kind;
    uint16_t dtype; // of input 0
    uint16_t result; // value
    uint16_t inputs[3];
    uint16_t n_inputs;
    uint16_t numbers[2];
    uint16_t n_numbers;
} kf_chain_op;
#define KF_CHAIN_ALIAS 0u // the result is input 0

typedef struct kf_chain {
    uint32_t n_ops;
    uint32_t n_values;
    uint32_t n_numbers;
    uint32_t flops; // per element
    uint32_t param_bytes; // about what the kernel's arguments need
    uint16_t by_id[KF_CHAIN_IDS]; // value of a tensor id, plus 1
    kf_chain_op ops[KF_CHAIN_OPS];
    kf_chain_value values[KF_CHAIN_VALUES];
    kf_chain_number numbers[KF_CHAIN_NUMBERS];
} kf_chain;

static inline void kf_chain_device_init(kf_chain_device *to, const kf_device *device)
{
    memset(to, 0, sizeof(*to));
    to->features = device->features;
    to->dtype_storage = device->dtype_storage;
    to->cache_bytes = device->cache_bytes == 0 ? 32ull << 20 : device->cache_bytes;
    to->local_bytes = device->local_bytes;
    to->cost = kf_cost_of(device);
    to->block_shape = device->code_shape == KF_SHAPE_BLOCK;
    to->is_cpu = device->device_type == KF_DEVICE_CPU;
    to->vector_bytes = device->vector_bytes;
    to->max_group = (uint32_t)(device->max_group_size > 4096 ? 4096 : device->max_group_size);
    to->max_param_bytes = KF_CHAIN_PARAM_BYTES;
    if (device->max_param_bytes < KF_CHAIN_PARAM_BYTES) {
        to->max_param_bytes =
            device->max_param_bytes != 0 ? (uint32_t)device->max_param_bytes : 1024u;
    }
    to->has_f64 = (device->features & KF_FEATURE_FP64) != 0;
    to->mem_align = device->mem_align_bytes;
    to->compute_units = device->compute_units;
}

static inline void kf_chain_init(kf_chain *chain)
{
    memset(chain, 0, offsetof(kf_chain, ops));
}

static inline void kf_chain_copy(kf_chain *to, const kf_chain *from)
{
    memcpy(to, from, offsetof(kf_chain, ops));
    memcpy(to->ops, from->ops, from->n_ops * sizeof(from->ops[0]));
    memcpy(to->values, from->values, from->n_values * sizeof(from->values[0]));
    memcpy(to->numbers, from->numbers, from->n_numbers * sizeof(from->numbers[0]));
}

/// Elements of a vector on this device: on a CPU never below 8, where PoCL's built-in functions
/// give other bits than at 8 and 16.
static inline uint32_t kf_chain_width(const kf_chain_device *device)
{
    uint32_t width = kf_vector_width(device->vector_bytes, 4);
    return !device->block_shape ? 4 : width < 8 ? 8 : width;
}

// ---- values and numbers ----

static inline kf_chain_value *kf_chain_value_of(kf_chain *chain, uint32_t id)
{
    return id < KF_CHAIN_IDS && chain->by_id[id] != 0 ? &chain->values[chain->by_id[id] - 1] : NULL;
}

static inline const kf_chain_value *kf_chain_known(const kf_chain *chain, uint32_t id)
{
    return id < KF_CHAIN_IDS && chain->by_id[id] != 0 ? &chain->values[chain->by_id[id] - 1] : NULL;
}

/// Values that the program has to write: computed and not dropped.
static inline uint32_t kf_chain_is_output(const kf_chain_value *value)
{
    return value->computed && !value->dropped;
}

/// The number of a tensor's value, made when it is new.
static inline uint32_t kf_chain_add_value(kf_chain *chain, const kf_tensor *tensor,
                                          uint32_t computed)
{
    const kf_chain_value *known = kf_chain_known(chain, tensor->id);
    kf_chain_value *value = &chain->values[chain->n_values];
    uint32_t i;
    if (known != NULL) {
        return (uint32_t)(known - chain->values);
    }
    memset(value, 0, sizeof(*value));
    value->id = tensor->id;
    value->dtype = (uint16_t)tensor->dtype;
    value->rank = (uint8_t)tensor->rank;
    value->computed = (uint8_t)computed;
    value->contiguous = computed || (tensor->facts & KF_FACT_CONTIGUOUS) != 0;
    value->turned = !computed && (tensor->facts & KF_FACT_TURNED) != 0;
    value->lines = !computed && (tensor->facts & KF_FACT_LINES) != 0;
    value->columns = !computed && (tensor->facts & KF_FACT_COLUMNS) != 0;
    value->zero_offset = computed || (tensor->facts & KF_FACT_ZERO_OFFSET) != 0;
    value->fits_i32 = (tensor->facts & KF_FACT_FITS_I32) != 0;
    value->div_by = (uint16_t)(tensor->div_by == 0 ? 1 : tensor->div_by);
    value->align_log2 = (uint16_t)tensor->align_log2;
    for (i = 0; i < tensor->rank; i++) {
        value->symbols[i] = tensor->dims[i].symbol;
    }
    chain->param_bytes += 8;
    if (!computed) {
        chain->param_bytes += value->zero_offset ? 0 : 8;
        chain->param_bytes += value->contiguous ? 0 : 8 * tensor->rank;
    }
    chain->by_id[tensor->id] = (uint16_t)(chain->n_values + 1);
    return chain->n_values++;
}

/// A value of the fuser's own, shaped like `like`; never in memory.
static inline uint32_t kf_chain_add_inner(kf_chain *chain, uint32_t like, uint32_t dtype)
{
    kf_chain_value *value = &chain->values[chain->n_values];
    *value = chain->values[like];
    value->id = KF_NONE;
    value->dtype = (uint16_t)dtype;
    value->computed = value->dropped = value->contiguous = value->zero_offset = 1;
    value->fits_i32 = 1;
    return chain->n_values++;
}

/// Same number for the same dtype; constants by their bits, so that NaN and -0 are themselves.
static inline uint32_t kf_chain_same_number(const kf_chain_number *a, const kf_chain_number *b)
{
    return a->is_scalar == b->is_scalar && a->index == b->index && a->dtype == b->dtype &&
           a->value.type == b->value.type && a->value.v.i == b->value.v.i;
}

/// `attr` NULL: leaky_relu's slope, the only number that may be absent.
static inline uint32_t kf_chain_add_number(kf_chain *chain, const kf_attr *attr, uint32_t dtype)
{
    kf_chain_number number;
    uint32_t i;
    memset(&number, 0, sizeof(number));
    number.dtype = dtype;
    if (attr != NULL && attr->type == KF_TYPE_SCALAR) {
        number.is_scalar = 1;
        number.index = (uint32_t)attr->v.i;
    } else {
        number.value.type = attr == NULL || attr->type == KF_TYPE_F64 ? KF_TYPE_F64 : KF_TYPE_I64;
        number.value.v.f = 0.01;
        if (attr != NULL && attr->type == KF_TYPE_F64) {
            number.value.v.f = attr->v.f;
        } else if (attr != NULL) {
            number.value.v.i = attr->v.i;
        }
    }
    for (i = 0; i < chain->n_numbers; i++) {
        if (kf_chain_same_number(&chain->numbers[i], &number)) {
            return i;
        }
    }
    chain->numbers[chain->n_numbers] = number;
    chain->param_bytes += 8;
    return chain->n_numbers++;
}

// ---- arguments of kernels ----

/// The buffer of a value that lies in memory. `access`: KF_ACCESS_*.
static inline void kf_chain_bind_tensor(kf_karg *arg, const kf_chain_value *value, uint32_t access)
{
    arg->kind = KF_ARG_TENSOR;
    arg->access = access;
    arg->ref = value->id;
    arg->dtype = value->dtype;
}

/// Where it lies. `kind`: KF_ARG_OFFSET or KF_ARG_STRIDE, along `axis`. The dtype is the caller's.
static inline void kf_chain_bind_place(kf_karg *arg, const kf_chain_value *value, uint32_t kind,
                                       uint32_t axis)
{
    arg->kind = kind;
    arg->ref = value->id;
    arg->axis = axis;
}

/// A scalar of the block.
static inline void kf_chain_bind_number(kf_karg *arg, const kf_chain_number *number)
{
    arg->kind = KF_ARG_SCALAR;
    arg->ref = number->index;
    arg->dtype = number->dtype;
}

#ifdef __cplusplus
}
#endif
#endif
