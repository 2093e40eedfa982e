// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_op.h: the operation stream as a fuser sees it: extents, tensors, attributes, operations, and
// the block that gives values on request. Part of kiln_fuser.h.
#ifndef KILN_PLUGIN_SDK_KF_OP_H
#define KILN_PLUGIN_SDK_KF_OP_H

#include "kf_base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KF_MAX_RANK 8u

// kf_dim.flags
#define KF_DIM_VALUE 1u // `value` is filled: the symbol is 0, or this builder has asked for it

/// An extent. Symbols are dense in the block, in order of first sight. Equal symbols are equal
/// extents and different symbols different ones, for every shape that the plan is used for. Symbol
/// 0 is the extent 1, so broadcasting is visible without values. An extent of zero never reaches a
/// fuser: the host answers such operations itself.
typedef struct kf_dim { // frozen
    int64_t value;
    uint32_t symbol;
    uint32_t flags;
} kf_dim;

// kf_tensor.flags: the state at this point of the stream
#define KF_TENSOR_LAST_USE 1u // nothing reads it after this operation (KF_OP_DROP says the same)
#define KF_TENSOR_UNINIT 2u // an output that this operation defines
#define KF_TENSOR_CONST 4u // same contents for ever (weights)
#define KF_TENSOR_EXTERNAL 8u // exists before the block
#define KF_TENSOR_ALIASED 16u // shares memory with another live tensor; never written in place
#define KF_TENSOR_KNOWN_FLAGS 31u

// kf_tensor.facts: what a kernel may rely on. They are part of the plan's key, so they hold in
// every later run of the program. What an operation defines that is not a view is contiguous with
// offset zero, also when it has not run yet.
#define KF_FACT_CONTIGUOUS 1u // row-major, no gaps: strides follow from the dimensions
#define KF_FACT_ZERO_OFFSET 2u // its first element is the buffer's first
#define KF_FACT_FITS_I32 4u // every element index, offset and strides included, is below 2^31
#define KF_FACT_TURNED 8u // contiguous once the last two axes are swapped: a transposed matrix
#define KF_FACT_LINES 16u // neither of both, but its last axis has stride 1
#define KF_FACT_COLUMNS 32u // none of these, but the axis before the last has stride 1
// Unknown fact bits are promises that one need not use: ignore them.

typedef struct kf_tensor {
    uint32_t struct_size;
    uint32_t id; // dense and stable in the block, in order of first sight
    uint32_t dtype; // KF_DTYPE_*
    uint32_t scheme; // quantisation scheme, 0 = a plain tensor; unknown => close
    uint32_t rank; // 0 to KF_MAX_RANK
    uint32_t flags; // KF_TENSOR_*; unknown bit => close
    uint32_t facts; // KF_FACT_*
    uint32_t align_log2; // of the first element's byte address in its buffer, at least the dtype's
    uint32_t div_by; // 1, 4 or 16: divides the innermost extent (1 for rank 0)
    uint32_t reserved;
    const kf_dim *dims;
} kf_tensor;
KF_ASSERT(sizeof(kf_tensor) == 48);

// kf_attr.type. Named KF_TYPE_ because KF_ATTR_* are the keys.
#define KF_TYPE_I64 1u
#define KF_TYPE_F64 2u
#define KF_TYPE_BOOL 3u // v.i, 0 or 1
#define KF_TYPE_DTYPE 4u // v.i, KF_DTYPE_*
#define KF_TYPE_I64S 5u // v.iv, `count` values
#define KF_TYPE_F64S 6u // v.fv, `count` values
#define KF_TYPE_STRING 7u // v.b
#define KF_TYPE_TENSOR 8u // a constant tensor, not shown to a fuser
#define KF_TYPE_SCALAR 9u // v.i is the index of a scalar of the block, `count` the KF_TYPE_ it has

// kf_attr.flags
#define KF_ATTR_FLAG_HINT 1u // may be ignored; without it an unknown attribute => close

typedef struct kf_attr { // frozen
    uint32_t key; // KF_ATTR_*
    uint32_t type; // KF_TYPE_*
    uint32_t flags;
    uint32_t count; // of a list; 1 otherwise; for KF_TYPE_SCALAR the KF_TYPE_ of its value
    union {
        int64_t i;
        double f;
        const int64_t *iv;
        const double *fv;
        const kf_blob *b;
    } v;
} kf_attr;
KF_ASSERT(sizeof(kf_attr) == 24);

// kf_op.flags: none in 1.0; unknown bit => close
#define KF_OP_KNOWN_FLAGS 0u

/// One operation, alive during the call only. The stream contains KF_OP_DROP operations, with one
/// input and no output: that tensor is dead from here on. A tensor that the block defines and drops
/// is never written and never has a buffer unless a step names it. A drop costs nothing and is
/// accepted by every fuser: of a tensor that it does not know, it is the host's to carry out.
typedef struct kf_op {
    uint32_t struct_size;
    uint32_t kind; // KF_OP_*
    uint32_t version; // since-version of the operator's row that is in force; newer => close
    uint32_t flags;
    uint32_t n_inputs;
    uint32_t n_outputs;
    uint32_t n_attrs;
    uint32_t position; // in the block, from 0, drops counted
    const kf_tensor *const *inputs;
    const kf_tensor *const *outputs;
    const kf_attr *attrs;
} kf_op;
KF_ASSERT(sizeof(kf_op) == 56);

typedef struct kf_scalar { // frozen
    uint32_t type; // KF_TYPE_I64, KF_TYPE_F64 or KF_TYPE_BOOL
    uint32_t reserved;
    union {
        int64_t i;
        double f;
    } v;
} kf_scalar;
KF_ASSERT(sizeof(kf_scalar) == 16);

/// The block that one builder is being shown, alive during builder_fuse only. Plans are kept in
/// relative form: without sizes and without scalar values. Asking for one is allowed and has a
/// price: whatever this builder finishes gets the guard "symbol (or scalar) has exactly this
/// value", so it is searched and compiled again for every other value. A clone inherits what was
/// asked; reset forgets it. A fuser that asks must let the answer into its opt_info.key.
typedef struct kf_block kf_block;
struct kf_block {
    uint32_t struct_size;
    uint32_t reserved;
    void *ctx;
    kf_status (*dim_value)(const kf_block *block, uint32_t symbol, int64_t *out); // [builder]
    kf_status (*scalar_value)(const kf_block *block, uint32_t scalar, kf_scalar *out); // [builder]
};
KF_ASSERT(sizeof(kf_block) == 32);

#ifdef __cplusplus
}
#endif
#endif
