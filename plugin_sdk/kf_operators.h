// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_operators.h: the extension "kiln.operators/1", by which a plugin brings operators of its own.
// Header only, C99 and C++11. `kf_plugin.extension(KF_EXT_OPERATORS)` gives a kf_operators, which
// like the operators in it is constant and lives as long as the library. A plugin may bring
// operators and fusers, or operators alone: then n_fusers is 0, fuser_ids NULL, and of the
// functions only init, deinit and extension are needed.
//
// An operator is its name, "domain::name" (the domain is yours: a company, a project), and the
// version of its meaning, which rises when the meaning changes; several versions may be brought.
// All its functions are pure: the same arguments give the same answer, at any time, in any process.
// They may run on several threads at once. To a fuser a call of it is KF_OP_CUSTOM with attributes
// KF_ATTR_NAME, KF_ATTR_VERSION, and KF_PARAM_KEY(i) for parameter i.
#ifndef KILN_PLUGIN_SDK_KF_OPERATORS_H
#define KILN_PLUGIN_SDK_KF_OPERATORS_H

#include "kiln_fuser.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KF_EXT_OPERATORS "kiln.operators/1"

#define KF_MAX_PARAMS 16u
#define KF_MAX_OPERATORS 256u // of one plugin
#define KF_MAX_OPERATOR_INPUTS 64u
#define KF_MAX_OPERATOR_OUTPUTS 6u

/// Key of parameter `i` of a custom operator, in kf_attr.key.
#define KF_PARAM_KEY(i) (0x10000u + (i))

// kf_param.flags
#define KF_PARAM_REQUIRED 1u

typedef struct kf_param { // frozen
    kf_str name; // a C identifier
    uint32_t flags; // KF_PARAM_*
    uint32_t reserved;
    kf_attr fallback; // `type` is the parameter's: KF_TYPE_I64 to KF_TYPE_STRING; the value is what
                      // holds when it is left out, and is not looked at when it is REQUIRED
} kf_param;
KF_ASSERT(sizeof(kf_param) == 48);

typedef struct kf_shape { // what is known of a tensor before it has memory
    uint32_t struct_size;
    uint32_t dtype; // KF_DTYPE_*, never a quantised one
    uint32_t rank; // 0 to KF_MAX_RANK
    uint32_t reserved;
    int64_t dims[KF_MAX_RANK];
} kf_shape;
KF_ASSERT(sizeof(kf_shape) == 80);

typedef struct kf_memory { // a tensor on the host
    uint32_t struct_size;
    uint32_t dtype;
    uint32_t rank;
    uint32_t reserved;
    void *data; // of its first element; NULL when it has none. Aligned to its element
    int64_t dims[KF_MAX_RANK];
    int64_t strides[KF_MAX_RANK]; // in elements; 0 repeats, negative runs backwards
} kf_memory;
KF_ASSERT(sizeof(kf_memory) == 152);

typedef struct kf_call { // lives during the call only
    uint32_t struct_size;
    uint32_t n_inputs;
    uint32_t n_outputs;
    uint32_t n_attrs; // one for each parameter, in their order: defaults are filled in
    const kf_attr *attrs;
    const kf_host *host; // for report: why it refuses. KF_CODE_DTYPE, KF_CODE_SHAPE ...
} kf_call;
KF_ASSERT(sizeof(kf_call) == 32);

typedef struct kf_kernel kf_kernel; // a described program of one call, immutable

typedef struct kf_operator {
    uint32_t struct_size;
    uint32_t version; // at least 1
    kf_str name; // "domain::name": letters, digits, '_', '.', '-'
    kf_str doc; // one line
    const kf_param *params;
    uint64_t n_params;
    uint32_t min_inputs; // at least 1
    uint32_t max_inputs;
    uint32_t n_outputs;
    uint32_t flags; // none in revision 1
    /// Shapes and dtypes: fills dtype, rank and dims of the outputs. KF_DECLINED: these inputs or
    /// attributes are not for it, and the reason went to `report`. Extents may be 0. [any]
    kf_status (*infer)(const kf_call *call, const kf_shape *const *inputs,
                       kf_shape *const *outputs);
    /// Evaluates on the host, with any strides. This is what the operator means: its kernel, and
    /// what fusers make of it, are judged by it. Outputs share no memory with inputs. [any]
    kf_status (*reference)(const kf_call *call, const kf_memory *const *inputs,
                           const kf_memory *const *outputs);
    /// Optional, all three: a program for one call, with the rules of a fuser's. Tensors of `op`
    /// are numbered 0, 1, ... : inputs in order of first sight, then outputs. KF_DECLINED: not for
    /// this device, dtype or layout; the host then evaluates the reference. [any]
    kf_status (*kernel_create)(const kf_host *host, const kf_device *device, const kf_block *block,
                               const kf_op *op, kf_kernel **out);
    kf_status (*kernel_describe)(const kf_kernel *kernel, kf_program *out);
    void (*kernel_destroy)(kf_kernel *kernel);
    // Members from here on are absent where struct_size ends before them.
    /// Optional: the name of the operator of this plugin, of the same version and parameters, that
    /// is this one's gradient. Its inputs are the inputs of the call, then its outputs, then the
    /// gradients of those outputs that are floats; its outputs are the gradients of those inputs
    /// that are floats, each like its input.
    kf_str gradient;
} kf_operator;
KF_ASSERT(sizeof(kf_operator) == 128);
#define KF_OPERATOR_SIZE_V1 112u // without `gradient`

typedef struct kf_operators {
    uint32_t struct_size;
    uint32_t reserved;
    const kf_operator *const *operators;
    uint64_t n_operators;
} kf_operators;
KF_ASSERT(sizeof(kf_operators) == 24);

// ---- helpers ----

/// Elements of a tensor on the host.
static inline int64_t kf_memory_count(const kf_memory *memory)
{
    int64_t count = 1;
    uint32_t i;
    for (i = 0; i < memory->rank; i++) {
        count *= memory->dims[i];
    }
    return count;
}

/// Where element `index` (row-major) lies, in elements from `data`.
static inline int64_t kf_memory_at(const kf_memory *memory, int64_t index)
{
    int64_t at = 0;
    uint32_t i;
    for (i = memory->rank; i-- > 0;) {
        at += index % memory->dims[i] * memory->strides[i];
        index /= memory->dims[i];
    }
    return at;
}

/// Copies dtype and extents.
static inline void kf_shape_copy(kf_shape *to, const kf_shape *from)
{
    uint32_t i;
    to->dtype = from->dtype;
    to->rank = from->rank;
    for (i = 0; i < from->rank; i++) {
        to->dims[i] = from->dims[i];
    }
}

#ifdef __cplusplus
}
#endif

#endif
