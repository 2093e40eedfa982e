// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_chain.h: a recorded run of elementwise operations, for any fuser that computes one inside its
// kernel: alone, before a reduction, behind a product. The fuser decides about shapes and about how
// memory is walked; this file knows operands, numbers, checks and the text of the computation.
//   kf_chain_admits      understood, on this device, within limits? else the reason is reported
//   kf_chain_record      takes the operation in; kf_chain_drop its drops
//   kf_chain_functions   the text of all functions that the computation calls
//   kf_chain_numbers     scalars and constants as vectors s0, s1 ... of kernel arguments a0, a1 ...
//   kf_chain_op_text     one operation: `const float8 v7 = v3 + v5;`
// Values are numbered in order of first sight; the text calls value n vN, read or computed.
#ifndef KILN_PLUGIN_SDK_KF_CHAIN_H
#define KILN_PLUGIN_SDK_KF_CHAIN_H

#include "kf_elementwise.h"

#ifdef __cplusplus
extern "C" {
#endif

// A fuser of longer chains defines these before it includes this file.
#ifndef KF_CHAIN_OPS
#define KF_CHAIN_OPS 128u
#define KF_CHAIN_VALUES 192u
#define KF_CHAIN_NUMBERS 64u
#endif
#ifndef KF_CHAIN_PARAM_BYTES
#define KF_CHAIN_PARAM_BYTES 1024u // of a kernel, also where a device takes more
#endif
#define KF_CHAIN_IDS 512u // tensor ids beyond this are not taken

typedef struct kf_chain_device { ///< what kernels depend on
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

// ---- admission ----

static inline uint32_t kf_chain_dtype_usable(const kf_chain_device *device, uint32_t dtype)
{
    return kf_dtype_of(dtype).id != 0 && ((device->dtype_storage >> dtype) & 1u) != 0 &&
           (dtype != KF_DTYPE_F64 || device->has_f64);
}

static inline uint32_t kf_chain_dtypes_fit(const kf_ew_row *row, const kf_op *op)
{
    uint32_t first = op->inputs[0]->dtype, result = op->outputs[0]->dtype;
    uint32_t masks = row->op == KF_OP_WHERE || row->op == KF_OP_MASK_FILL;
    uint32_t i;
    for (i = 1; i < row->inputs; i++) {
        uint32_t is_mask = masks && i == row->inputs - 1;
        if (op->inputs[i]->dtype != (is_mask ? (uint32_t)KF_DTYPE_BOOL : first)) {
            return 0;
        }
    }
    if (row->result == KF_EW_CAST) {
        const kf_attr *dtype = kf_op_attr(op, KF_ATTR_DTYPE);
        return dtype != NULL && dtype->type == KF_TYPE_DTYPE && dtype->v.i == (int64_t)result;
    }
    return result == (row->result == KF_EW_MASK ? (uint32_t)KF_DTYPE_BOOL : first);
}

static inline uint32_t kf_chain_numbers_fit(const kf_ew_row *row, const kf_op *op)
{
    uint32_t want = row->scalars + (row->result == KF_EW_CAST ? 1u : 0u), i;
    for (i = 0; i < op->n_attrs; i++) {
        uint32_t type = op->attrs[i].type;
        if (op->attrs[i].flags & KF_ATTR_FLAG_HINT) {
            continue;
        }
        if (want-- == 0) {
            return 0;
        }
        if (type != KF_TYPE_SCALAR && type != KF_TYPE_F64 && type != KF_TYPE_I64 &&
            type != KF_TYPE_BOOL && type != KF_TYPE_DTYPE) {
            return 0;
        }
    }
    return want == 0 || row->op == KF_OP_LEAKY_RELU;
}

/// New tensors with small numbers: is there room for one operation with all its strides?
static inline uint32_t kf_chain_has_room(const kf_chain *chain, const kf_chain_device *device,
                                         const kf_op *op)
{
    uint32_t i;
    for (i = 0; i < op->n_inputs; i++) {
        if (op->inputs[i]->id >= KF_CHAIN_IDS) {
            return 0;
        }
    }
    for (i = 0; i < op->n_outputs; i++) {
        if (op->outputs[i]->id >= KF_CHAIN_IDS ||
            kf_chain_known(chain, op->outputs[i]->id) != NULL) {
            return 0;
        }
    }
    // An operator taken apart (kf_row_parts.h), four more tensors with all their strides, two
    // numbers, and the sizes of the space.
    return chain->n_ops + 16 <= KF_CHAIN_OPS && chain->n_values + 24 <= KF_CHAIN_VALUES &&
           chain->n_numbers + 2 <= KF_CHAIN_NUMBERS &&
           chain->param_bytes + 4 * (16 + 8 * KF_MAX_RANK) + 8 * (KF_MAX_RANK + 4) <=
               device->max_param_bytes;
}

/// 1 when an elementwise operation may join, whatever its shape; otherwise the reason was reported.
static inline uint32_t kf_chain_admits(const kf_chain *chain, const kf_chain_device *device,
                                       const kf_host *host, const kf_ew_row *row, const kf_op *op)
{
    static const uint32_t keys[] = {KF_ATTR_VALUE, KF_ATTR_MIN, KF_ATTR_MAX, KF_ATTR_SLOPE,
                                    KF_ATTR_DTYPE};
    uint32_t at = op->position, i;
    if (row == NULL) {
        return kf_decline(host, KF_CODE_UNKNOWN_OP, at, "this fuser does not take this operator");
    }
    if (!kf_op_understood(op, 1, keys, sizeof(keys) / sizeof(keys[0]))) {
        return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, at,
                          "%s carries a version, flag or attribute that is newer than this fuser",
                          row->name);
    }
    if (op->n_inputs != row->inputs || op->n_outputs != 1 || !kf_chain_numbers_fit(row, op)) {
        return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, at, "%s has unexpected operands",
                          row->name);
    }
    for (i = 0; i < op->n_inputs; i++) {
        if (!kf_chain_dtype_usable(device, op->inputs[i]->dtype)) {
            return kf_decline(host, KF_CODE_DTYPE, at, "the device does not take %s",
                              kf_dtype_of(op->inputs[i]->dtype).name);
        }
    }
    if (!kf_chain_dtype_usable(device, op->outputs[0]->dtype) || !kf_chain_dtypes_fit(row, op) ||
        kf_ew_text(row, op->inputs[0]->dtype) == NULL) {
        return kf_decline(host, KF_CODE_DTYPE, at, "%s is not done for %s", row->name,
                          kf_dtype_of(op->inputs[0]->dtype).name);
    }
    if (!kf_chain_has_room(chain, device, op)) {
        return kf_decline(host, KF_CODE_LIMIT, at, "the block is as long as one kernel may be");
    }
    return 1;
}

// ---- recording ----

/// Appends an operation without operands; kf_chain_record fills in those of an elementwise one.
static inline kf_chain_op *kf_chain_push(kf_chain *chain, const kf_ew_row *row, uint32_t kind,
                                         uint32_t dtype)
{
    kf_chain_op *op = &chain->ops[chain->n_ops++];
    memset(op, 0, sizeof(*op));
    op->row = row;
    op->kind = kind;
    op->dtype = (uint16_t)dtype;
    chain->flops += row == NULL ? 1 : row->cost;
    return op;
}

static inline void kf_chain_take_input(kf_chain_op *op, uint32_t value)
{
    op->inputs[op->n_inputs++] = (uint16_t)value;
}

static inline kf_chain_op *kf_chain_record(kf_chain *chain, const kf_ew_row *row, const kf_op *op)
{
    static const uint32_t order[] = {KF_ATTR_VALUE, KF_ATTR_MIN, KF_ATTR_MAX, KF_ATTR_SLOPE};
    uint32_t dtype = op->inputs[0]->dtype, i;
    kf_chain_op *own = kf_chain_push(chain, row, 0, dtype);
    for (i = 0; i < row->inputs; i++) {
        kf_chain_take_input(own, kf_chain_add_value(chain, op->inputs[i], 0));
    }
    for (i = 0; i < 4 && row->scalars > 0; i++) {
        const kf_attr *attr = kf_op_attr(op, order[i]);
        if (attr != NULL && own->n_numbers < 2) {
            own->numbers[own->n_numbers++] = (uint16_t)kf_chain_add_number(chain, attr, dtype);
        }
    }
    if (row->scalars > 0 && own->n_numbers == 0) {
        own->numbers[own->n_numbers++] = (uint16_t)kf_chain_add_number(chain, NULL, dtype);
    }
    own->result = (uint16_t)kf_chain_add_value(chain, op->outputs[0], 1);
    return own;
}

/// Takes a drop. 0: it is of a newer kind, and the reason was reported.
static inline uint32_t kf_chain_drop(kf_chain *chain, const kf_host *host, const kf_op *op)
{
    uint32_t i;
    if (op->version > 1 || op->flags != 0 ||
        !kf_tail_is_zero(op, op->struct_size, (uint32_t)sizeof(*op))) {
        return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, op->position, "a newer kind of drop");
    }
    for (i = 0; i < op->n_inputs; i++) {
        kf_chain_value *value = kf_chain_value_of(chain, op->inputs[i]->id);
        if (value != NULL) {
            value->dropped = 1;
        }
    }
    return 1;
}

// ---- text of the computation ----

static inline void kf_chain_op_text(kf_text *text, const kf_chain *chain, const kf_chain_op *op,
                                    uint32_t width, const char *indent)
{
    char names[5][16] = {{0}, {0}, {0}, {0}, {0}};
    const char *operands[5];
    uint32_t result = chain->values[op->result].dtype, i;
    kf_dtype to = kf_dtype_of(result);
    for (i = 0; i < 5; i++) {
        operands[i] = names[i];
    }
    for (i = 0; i < op->n_inputs; i++) {
        snprintf(names[i], 16, "v%u", (unsigned)op->inputs[i]);
    }
    for (i = 0; i < op->n_numbers; i++) {
        snprintf(names[3 + i], 16, "s%u", (unsigned)op->numbers[i]);
    }
    kf_text_addf(text, "%sconst %s%u v%u = ", indent, to.compute, width, (unsigned)op->result);
    if (op->row == NULL) {
        kf_text_addf(text, "%s;\n", names[0]);
        return;
    }
    if (op->row->result == KF_EW_MASK) {
        // Narrowed as -1 or 0 first: oclgrind gives 255 for a mask of another width and 1.
        kf_text_addf(text, "as_uchar%u(convert_char%u(", width, width);
        kf_ew_template(text, kf_ew_text(op->row, op->dtype), op->dtype, width, operands);
        kf_text_addf(text, ")) & (uchar%u)(1);\n", width);
        return;
    }
    if (result == KF_DTYPE_F16 || result == KF_DTYPE_BF16) {
        kf_text_addf(text, "round_%s", to.name);
    }
    kf_text_add(text, "(");
    if (op->row->result == KF_EW_CAST) {
        kf_text_addf(text, "cast_%s_%s(%s)", kf_dtype_of(op->dtype).name, to.name, names[0]);
    } else {
        kf_ew_template(text, kf_ew_text(op->row, op->dtype), op->dtype, width, operands);
    }
    kf_text_add(text, ");\n");
}

/// How the kernel declares the argument of a number.
static inline const char *kf_chain_number_type(const kf_chain_number *number)
{
    kf_dtype dtype = kf_dtype_of(number->dtype);
    return dtype.kind == KF_KIND_FLOAT && dtype.bytes == 2 ? "ushort" : dtype.compute;
}

static inline void kf_chain_constant(kf_text *text, const kf_chain_number *number)
{
    double f = number->value.type == KF_TYPE_F64 ? number->value.v.f : (double)number->value.v.i;
    int64_t i = number->value.type == KF_TYPE_F64 ? (int64_t)number->value.v.f : number->value.v.i;
    kf_dtype dtype = kf_dtype_of(number->dtype);
    if (dtype.kind != KF_KIND_FLOAT) {
        kf_text_addf(text, "(%s)0x%llxul", dtype.compute, (unsigned long long)i);
    } else if (dtype.bytes == 8) {
        uint64_t bits;
        memcpy(&bits, &f, sizeof(bits));
        kf_text_addf(text, "as_double(0x%llxul)", (unsigned long long)bits);
    } else {
        float narrow = (float)f;
        uint32_t bits;
        memcpy(&bits, &narrow, sizeof(bits));
        kf_text_addf(text, "as_float(0x%xu)", bits);
    }
}

/// Declares s0, s1 ... from the arguments and constants.
static inline void kf_chain_numbers(kf_text *text, const kf_chain *chain, uint32_t width)
{
    uint32_t i;
    for (i = 0; i < chain->n_numbers; i++) {
        const kf_chain_number *number = &chain->numbers[i];
        kf_dtype dtype = kf_dtype_of(number->dtype);
        uint32_t narrow = dtype.kind == KF_KIND_FLOAT && dtype.bytes == 2;
        kf_text_addf(text, "    const %s%u s%u = ", dtype.compute, width, i);
        if (narrow && !number->is_scalar) {
            kf_text_addf(text, "round_%s", dtype.name);
        }
        kf_text_addf(text, "((%s%u)(", dtype.compute, width);
        if (!number->is_scalar) {
            kf_chain_constant(text, number);
        } else if (narrow) {
            kf_text_addf(text, "value_%s(a%u)", dtype.name, i);
        } else {
            kf_text_addf(text, dtype.kind == KF_KIND_BOOL ? "a%u != 0" : "a%u", i);
        }
        kf_text_add(text, "));\n");
    }
}

static inline void kf_chain_arithmetic(kf_text *text, const kf_chain *chain, uint32_t width)
{
    const kf_ew_helper *helper;
    uint32_t h, i, k;
    for (h = 0; (helper = kf_ew_helper_at(h)) != NULL; h++) {
        const char *written[16] = {NULL}; // computing types
        for (i = 0; i < chain->n_ops; i++) {
            const kf_chain_op *op = &chain->ops[i];
            const char *expression = op->row == NULL ? NULL : kf_ew_text(op->row, op->dtype);
            kf_dtype dtype = kf_dtype_of(op->dtype);
            if (expression == NULL ||
                strncmp(expression, helper->name, strlen(helper->name)) != 0 ||
                !kf_ew_helper_serves(helper, &dtype)) {
                continue;
            }
            for (k = 0; k < 15 && written[k] != NULL && strcmp(written[k], dtype.compute) != 0;) {
                k++;
            }
            if (written[k] == NULL) {
                written[k] = dtype.compute;
                kf_ew_template(text, helper->text, op->dtype, width, NULL);
            }
        }
    }
}

static inline void kf_chain_casts(kf_text *text, const kf_chain *chain, uint32_t width)
{
    uint32_t i, k;
    for (i = 0; i < chain->n_ops; i++) {
        const kf_chain_op *op = &chain->ops[i];
        uint32_t to = chain->values[op->result].dtype, again = 0;
        if (op->row == NULL || op->row->result != KF_EW_CAST) {
            continue;
        }
        for (k = 0; k < i && !again; k++) {
            const kf_chain_op *other = &chain->ops[k];
            again = other->row != NULL && other->row->result == KF_EW_CAST &&
                    other->dtype == op->dtype && chain->values[other->result].dtype == to;
        }
        if (!again) {
            kf_ew_cast(text, op->dtype, to, width);
        }
    }
}

/// Writes the start of a source: prelude, memory access for the dtypes in `read` and `written` (bit
/// KF_DTYPE_x), and the functions that the chain calls. The text uses `idx`, declared here.
static inline void kf_chain_functions(kf_text *text, const kf_chain *chain, uint32_t width,
                                      uint32_t wide, uint64_t read, uint64_t written,
                                      uint32_t stream)
{
    uint64_t used = read | written;
    uint32_t i;
    for (i = 0; i < chain->n_values; i++) {
        used |= 1ull << chain->values[i].dtype;
    }
    kf_cl_prelude(text, (uint32_t)(used >> KF_DTYPE_F64) & 1u);
    kf_text_addf(text, "typedef %s idx;\n", wide ? "long" : "int");
    if (stream) {
        kf_text_add(text, "#ifdef __has_builtin\n"
                          "#if __has_builtin(__builtin_nontemporal_store)\n"
                          "#define STREAM\n"
                          "#endif\n"
                          "#endif\n");
    }
    if ((used >> KF_DTYPE_F16) & 1u) {
        kf_ew_f16_functions(text, width);
    }
    if ((used >> KF_DTYPE_BF16) & 1u) {
        kf_ew_bf16_functions(text, width);
    }
    for (i = 1; i < 64; i++) {
        if (((read | written) >> i) & 1u) {
            kf_ew_vectors(text, i, width);
        }
        if ((read >> i) & 1u) {
            kf_ew_loads(text, i, width);
        }
        if ((written >> i) & 1u) {
            kf_ew_stores(text, i, width, stream);
        }
    }
    kf_chain_arithmetic(text, chain, width);
    kf_chain_casts(text, chain, width);
}

// ---- names and keys ----

/// "reduce(mul,sum)": the first operations, as many as a name of at most 128 bytes holds, and how
/// many there are.
static inline void kf_chain_name(kf_text *name, const char *fuser, const char *const *ops,
                                 uint32_t n_ops)
{
    uint32_t i;
    kf_text_addf(name, "%s(", fuser);
    for (i = 0; i < n_ops && i < 8 && name->len + strlen(ops[i]) < 100; i++) {
        const char *op = ops[i];
        kf_text_add(name, i == 0 ? "" : ",");
        for (; *op != '\0'; op++) {
            char c = (char)(*op >= 'A' && *op <= 'Z' ? *op - 'A' + 'a' : *op);
            kf_text_bytes(name, &c, 1);
        }
    }
    kf_text_addf(name, i < n_ops ? ",... %u)" : ")", n_ops);
}

/// FNV-1a; start with two different `hash` for a key of 16 bytes.
static inline uint64_t kf_hash(uint64_t hash, const void *bytes, uint64_t len)
{
    uint64_t i;
    for (i = 0; i < len; i++) {
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3ull;
    }
    return hash;
}

static inline uint64_t kf_hash_expr(uint64_t hash, kf_expr expr)
{
    return kf_hash(hash, expr.ins, expr.n * sizeof(kf_ins));
}

/// A launch by its sizes and bindings; with the source's text and the length, all that a key needs.
static inline uint64_t kf_hash_launch(uint64_t hash, const kf_launch *launch)
{
    uint32_t i;
    for (i = 0; i < launch->n_args; i++) {
        hash = kf_hash(hash, &launch->args[i], offsetof(kf_karg, value));
        hash = kf_hash_expr(hash, launch->args[i].value);
    }
    for (i = 0; i < launch->dims; i++) {
        hash = kf_hash_expr(hash, launch->global[i]);
        hash = kf_hash_expr(hash, launch->local[i]);
    }
    return kf_hash(hash, launch->kernel.ptr, launch->kernel.len);
}

/// The key of a program of one launch: its text, its launch and the length of its block.
static inline void kf_launch_key(uint8_t key[16], const kf_text *code, const kf_launch *launch,
                                 uint32_t len)
{
    uint64_t halves[2] = {0xcbf29ce484222325ull, 0x9e3779b97f4a7c15ull};
    uint32_t i;
    for (i = 0; i < 2; i++) {
        halves[i] = kf_hash(halves[i], code->ptr, code->len);
        halves[i] = kf_hash_launch(halves[i], launch);
        halves[i] = kf_hash(halves[i], &len, sizeof(len));
    }
    memcpy(key, halves, sizeof(halves));
}

#ifdef __cplusplus
}
#endif
#endif
