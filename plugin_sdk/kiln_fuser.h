// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kiln_fuser.h: the fuser ABI, major version 1. Header only, C99 and C++11, nothing to link.
//
// A fuser is a pure function of (operations, device facts). It watches a stream of tensor
// operations and *describes* OpenCL kernels that do the same work; the host compiles, verifies,
// times, caches, bundles and launches them. It never calls OpenCL, never sees a buffer, and never
// learns a size or a scalar unless it asks (kf_block), because every answer narrows the plan.
//
// Where the numbers come from:
//   this file             kinds, opcodes, flags, features of the ABI itself
//   kiln_fuser_ops.h      KF_OP_*, KF_ATTR_*, KF_DTYPE_*: generated from the host's tables
// Conventions:
//   fixed-width integers only; `struct_size` first; arrays of structs that may grow are arrays of
//   pointers; structs marked "frozen" never change within major 1; others grow at the end only.
//   Strings are pointer and length, UTF-8, not terminated. Zero means "default" or "absent".
//   Unknown tail of a vtable (kf_host, kf_block, kf_plugin): ignore. Unknown flag bit or non-zero
//   unknown tail of a description (op, tensor, program): refuse; kf_util.h has the check.
//   Threads: [main] once at start or shutdown; [any] re-entrant, any thread; [builder] calls on one
//   builder never overlap, different builders may run at once.
#ifndef KILN_PLUGIN_SDK_KILN_FUSER_H
#define KILN_PLUGIN_SDK_KILN_FUSER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if UINTPTR_MAX != UINT64_MAX
#error "the fuser ABI 1 is for 64-bit machines"
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the fuser ABI 1 is for little-endian machines"
#endif

#define KF_ABI_MAJOR 1u
#ifndef KF_ABI_MINOR // an author may pin an older minor, like Py_LIMITED_API
#define KF_ABI_MINOR 0u
#endif
#define KF_SDK_VERSION "1.0"

#if defined(__cplusplus)
#define KF_ASSERT(c) static_assert(c, #c)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define KF_ASSERT(c) _Static_assert(c, #c)
#else
#define KF_CAT2(a, b) a##b
#define KF_CAT(a, b) KF_CAT2(a, b)
#define KF_ASSERT(c) typedef char KF_CAT(kf_assert_, __LINE__)[(c) ? 1 : -1]
#endif
#define KF_EXPORT __attribute__((visibility("default")))

/// Does `p` carry field `f` of `T`? Is it there and set?
#define KF_HAS(p, T, f) ((p)->struct_size >= offsetof(T, f) + sizeof(((T *)0)->f))
#define KF_CAN(p, T, f) (KF_HAS(p, T, f) && (p)->f)
#define KF_NONE 0xFFFFFFFFu // "no index" in every 32-bit index of this file

// ---------------------------------------------------------------------------------------------
// Scalars
// ---------------------------------------------------------------------------------------------

typedef int32_t kf_status;
#define KF_OK 0
#define KF_DECLINED 1 // a normal answer, never logged as an error
#define KF_E_INVALID (-1) // the caller broke the contract
#define KF_E_UNSUPPORTED (-2)
#define KF_E_NOMEM (-3)
#define KF_E_VERSION (-4) // a flag or non-zero tail not understood; a stale state blob
#define KF_E_INTERNAL (-5) // a bug of the plugin: a strike
#define KF_E_CANCELLED (-6)

typedef struct kf_str { // frozen
    const char *ptr;
    uint64_t len;
} kf_str;

typedef struct kf_blob { // frozen
    const void *ptr;
    uint64_t len;
} kf_blob;

#define KF_STR_INIT(literal)                                                                       \
    {                                                                                              \
        (literal), sizeof(literal) - 1                                                             \
    }

/// Copies `src` into a caller-allocated out-struct, never past what the caller has. The caller sets
/// `struct_size` before the call and keeps it.
static inline void kf_out_(void *dst, const void *src, uint32_t dst_size, uint32_t src_size)
{
    uint32_t n = dst_size < src_size ? dst_size : src_size;
    uint32_t i;
    for (i = 4; i < n; i++) {
        ((unsigned char *)dst)[i] = ((const unsigned char *)src)[i];
    }
}
#define KF_OUT(dst, src) kf_out_((dst), (src), (dst)->struct_size, (uint32_t)sizeof(*(src)))

// ---------------------------------------------------------------------------------------------
// Host services
// ---------------------------------------------------------------------------------------------

#define KF_SEVERITY_DEBUG 0u
#define KF_SEVERITY_INFO 1u // declines; what `kiln explain` shows
#define KF_SEVERITY_WARNING 2u
#define KF_SEVERITY_ERROR 3u
#define KF_SEVERITY_PLUGIN_MISBEHAVING 4u
#define KF_SEVERITY_HOST_MISBEHAVING 5u

// Diagnostic codes. The upper 16 bits are the owner: 1 is this ABI, 0x8000 and above are free for
// plugins. Numbers are permanent: `kiln explain`, logs and tests match them.
#define KF_CODE_UNKNOWN_OP 0x00010001u // the operator is not one of this fuser's
#define KF_CODE_NOT_UNDERSTOOD 0x00010002u // a newer version, flag or critical attribute
#define KF_CODE_DTYPE 0x00010003u // dtype not handled, or not on this device
#define KF_CODE_SHAPE 0x00010004u // shapes do not fit the block
#define KF_CODE_LAYOUT 0x00010005u // strides, offset or alignment not handled
#define KF_CODE_LIMIT 0x00010006u // too many tensors, arguments, instructions
#define KF_CODE_HAZARD 0x00010007u // aliasing or ordering forbids it
#define KF_CODE_COST 0x00010008u // possible but slower
#define KF_CODE_DEVICE 0x00010009u // the device lacks something
#define KF_CODE_DATA 0x0001000Au // needs a value that is only known at run time
#define KF_CODE_NOMEM 0x0001000Bu
#define KF_CODE_INTERNAL 0x0001000Cu

typedef struct kf_diag { // borrowed for the call, the host copies
    uint32_t struct_size;
    uint32_t severity; // KF_SEVERITY_*
    uint32_t code; // KF_CODE_*
    uint32_t op_index; // position in the block, KF_NONE = the whole block
    kf_str message;
} kf_diag;
KF_ASSERT(sizeof(kf_diag) == 32);

typedef struct kf_host kf_host;
struct kf_host { // lives longer than every fuser created with it
    uint32_t struct_size;
    uint32_t abi_minor;
    void *ctx;
    kf_str name;
    kf_str version;
    void (*report)(const kf_host *host, const kf_diag *diag); // [any]
    void *(*alloc)(const kf_host *host, uint64_t size, uint64_t align); // [any] optional
    void (*free)(const kf_host *host, void *ptr); // [any]
    uint32_t (*cancelled)(const kf_host *host); // [any] in long work
    const void *(*extension)(const kf_host *host, const char *id); // [any]
};
KF_ASSERT(sizeof(kf_host) == 88);

// kf_device.device_type
#define KF_DEVICE_OTHER 0u
#define KF_DEVICE_CPU 1u
#define KF_DEVICE_GPU 2u
#define KF_DEVICE_ACCELERATOR 3u // FPGA and the like

// kf_device.code_shape: which of the two shapes runs well
#define KF_SHAPE_NDRANGE 1u // one small piece of work per work-item, thousands of work-items
#define KF_SHAPE_BLOCK 2u // one block per work-item, explicit loop or vectors, no barriers

// kf_device.features
#define KF_FEATURE_FP16 (1ull << 0) // cl_khr_fp16: half arithmetic
#define KF_FEATURE_FP64 (1ull << 1) // double arithmetic
#define KF_FEATURE_INT64_ATOMICS (1ull << 2) // cl_khr_int64_base_atomics
#define KF_FEATURE_SUBGROUPS (1ull << 3)
#define KF_FEATURE_SPIRV (1ull << 4) // accepts KF_FORMAT_SPIRV
#define KF_FEATURE_COMPILER (1ull << 5) // accepts KF_FORMAT_OPENCL_C; see KF_FEATURE_PREPARED
#define KF_FEATURE_IMAGES (1ull << 6)
#define KF_FEATURE_UNIFIED_MEMORY (1ull << 7) // device memory is host memory
#define KF_FEATURE_DENORMALS (1ull << 8) // f32 denormals kept
#define KF_FEATURE_LOCAL_MEMORY (1ull << 9) // local memory is real, not emulated in global
#define KF_FEATURE_COMMAND_BUFFER (1ull << 10)
#define KF_FEATURE_ROUNDED_DIVIDE_SQRT (1ull << 11) // f32 divide and sqrt can be rounded correctly
#define KF_FEATURE_FLOAT_ATOMICS (1ull << 12)
// No compiler: OpenCL C is taken where the host has a binary of exactly this text and these
// options, made before, or kf_source.binaries has one. Other programs are declined by the host.
#define KF_FEATURE_PREPARED (1ull << 13)
#define KF_FEATURE_SINGLE_WORK_ITEM (1ull << 14) // kf_launch.single is taken where there is one

typedef struct kf_device { // facts as data; lives during fuser_create only
    uint32_t struct_size;
    uint32_t device_type; // KF_DEVICE_*
    uint32_t code_shape; // KF_SHAPE_*
    uint32_t vendor_id;
    uint64_t features; // KF_FEATURE_*
    uint64_t dtype_storage; // bit KF_DTYPE_x: buffers of it can be read and written
    uint64_t dtype_arithmetic; // bit KF_DTYPE_x: arithmetic in that type
    uint64_t dtype_accelerated; // bit KF_DTYPE_x: faster than f32, or matrix units
    uint64_t global_bytes;
    uint64_t max_alloc_bytes;
    uint64_t local_bytes;
    uint64_t max_group_size;
    uint64_t max_group_dim[3];
    uint64_t max_param_bytes; // kernel arguments together
    uint32_t compute_units;
    uint32_t subgroup_size; // 0 = unknown
    uint32_t vector_bytes; // width of the vector unit, 0 = scalar machine (most GPUs)
    uint32_t mem_align_bytes; // of every buffer's base
    uint32_t cl_version; // 120 = 1.2
    uint32_t cl_c_version;
    uint32_t cache_line_bytes;
    uint32_t opset; // operator table of the host; see kiln_fuser_ops.h
    uint64_t cache_bytes; // last level, 0 = unknown
    uint64_t mem_bytes_per_s; // measured by the host with a copy kernel, read + written
    uint64_t flops_f32; // per second
    uint64_t flops_f16;
    uint64_t flops_f64;
    uint64_t launch_ns; // one more kernel in a queue that is not empty
    kf_str name;
    kf_str driver;
    kf_str extensions; // separated by one space
    kf_blob fingerprint; // part of every cache key; what KF_FORMAT_BINARY must match
} kf_device;
KF_ASSERT(sizeof(kf_device) == 256);

// ---------------------------------------------------------------------------------------------
// The operation stream
// ---------------------------------------------------------------------------------------------

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

// ---------------------------------------------------------------------------------------------
// Formulas
// ---------------------------------------------------------------------------------------------

/// Formulas are postfix over a stack of int64 (at most KF_MAX_EXPR instructions, KF_MAX_STACK
/// deep), with checked arithmetic: overflow, division by zero, an unknown opcode, symbol or tensor
/// refuses the launch. Comparisons give 0 or 1.
#define KF_MAX_EXPR 256u
#define KF_MAX_STACK 32u

// leaves
#define KF_INS_IMM 1u // imm
#define KF_INS_SYM 2u // extent of symbol `sym`
#define KF_INS_DEVICE 3u // device fact `arg`: KF_DEVICE_FACT_*
// two operands: a b -> r
#define KF_INS_ADD 16u
#define KF_INS_SUB 17u
#define KF_INS_MUL 18u
#define KF_INS_FLOOR_DIV 19u // b > 0
#define KF_INS_CEIL_DIV 20u // b > 0
#define KF_INS_ROUND_UP 21u // a up to a multiple of b, b > 0
#define KF_INS_MIN 22u
#define KF_INS_MAX 23u
#define KF_INS_MOD 24u // a - floor(a / b) * b, b > 0
#define KF_INS_EQ 33u
#define KF_INS_LT 34u
#define KF_INS_LE 35u
#define KF_INS_AND 36u // logical
#define KF_INS_OR 37u // logical
// three operands: c a b -> c ? a : b
#define KF_INS_SELECT 32u

#define KF_DEVICE_FACT_COMPUTE_UNITS 0u
#define KF_DEVICE_FACT_MAX_GROUP_SIZE 1u
#define KF_DEVICE_FACT_LOCAL_BYTES 2u

typedef struct kf_ins { // frozen
    uint16_t op;
    uint16_t arg;
    uint32_t sym;
    int64_t imm;
} kf_ins;
KF_ASSERT(sizeof(kf_ins) == 16);

typedef struct kf_expr { // frozen; n == 0: absent
    const kf_ins *ins;
    uint64_t n;
} kf_expr;

// ---------------------------------------------------------------------------------------------
// The builder's answer
// ---------------------------------------------------------------------------------------------

#define KF_OPEN 0u
#define KF_CLOSED 1u

#define KF_CONFIDENCE_GUESS 0u
#define KF_CONFIDENCE_MODEL 1u // roofline or better
#define KF_CONFIDENCE_MEASURED 2u // timed on a device of this fingerprint

/// Estimates are formulas, because sizes are not visible: the host evaluates them for the extents
/// at hand, so one plan is scored rightly for every batch size. They cover the first `len`
/// operations as one program. `len` may be less than what was shown: a block that was ready and
/// took an operation whose input is still wanted should go on offering what it was. The pointers
/// are views that live until the next call on the same
/// builder. An absent est_ns means "no estimate": the host then takes its own roofline of the
/// program. One that divides by zero, overflows or is negative makes the block no candidate.
typedef struct kf_state {
    uint32_t struct_size;
    uint32_t status; // KF_OPEN or KF_CLOSED
    uint32_t ready; // 1: finish() would succeed now
    uint32_t len; // leading operations, drops counted, that finish() would cover
    uint32_t confidence; // KF_CONFIDENCE_*: for people and later hosts; 1.0 goes by est_ns alone
    uint32_t launches;
    kf_expr est_ns; // of the whole program, launches included
    kf_expr est_bytes_read;
    kf_expr est_bytes_written;
    kf_expr est_flops;
    kf_expr temp_bytes; // of one run, kept temporaries not counted; told, not yet used by 1.0
} kf_state;
KF_ASSERT(sizeof(kf_state) == 104);

// ---------------------------------------------------------------------------------------------
// The program: what a fuser emits
// ---------------------------------------------------------------------------------------------

// kf_source.format
#define KF_FORMAT_OPENCL_C 1u
#define KF_FORMAT_SPIRV 2u
#define KF_FORMAT_BINARY 3u // for clCreateProgramWithBinary; `fingerprint` says for which device

// kf_source.math_flags: what the compiler may do. 0 is strict, and then the host also puts
// `#pragma OPENCL FP_CONTRACT OFF` before OpenCL C. A host may refuse flags by policy.
#define KF_MATH_CONTRACT 1ull // a*b+c may become fma
#define KF_MATH_REASSOC 2ull // sums may be reordered
#define KF_MATH_FTZ 4ull // denormals may become zero
#define KF_MATH_APPROX 8ull // native_ functions, reciprocals

/// What a compiler made of a source for one device: clGetProgramInfo's, or an offline compiler's.
typedef struct kf_binary {
    uint32_t struct_size;
    uint32_t reserved;
    kf_str device; // equal to kf_device.name
    kf_str driver; // equal to kf_device.driver; empty: any
    kf_blob code;
} kf_binary;
KF_ASSERT(sizeof(kf_binary) == 56);

typedef struct kf_source {
    uint32_t struct_size;
    uint32_t format; // KF_FORMAT_*
    kf_blob code;
    kf_blob fingerprint; // KF_FORMAT_BINARY: equal to kf_device.fingerprint of its target
    const kf_str *defines; // "NAME" or "NAME=VALUE", apart from the text so that caches see them
    uint64_t n_defines;
    uint64_t math_flags; // KF_MATH_*
    uint32_t cl_c_version; // needed at least, 120 = 1.2
    uint32_t reserved;
    // Beside KF_FORMAT_OPENCL_C, taken on devices without a compiler; the first that fits. `code`
    // may be empty then: the source is for these devices only.
    const kf_binary *const *binaries;
    uint64_t n_binaries;
} kf_source;
KF_ASSERT(sizeof(kf_source) == 88);
#define KF_SOURCE_SIZE_FIRST 72u // the host accepts any struct_size from here up

// kf_karg.kind: one kernel argument each
#define KF_ARG_TENSOR 1u // buffer of tensor `ref`; the kernel adds its offset (KF_ARG_OFFSET)
#define KF_ARG_TEMP 2u // buffer of temporary `ref`
#define KF_ARG_OFFSET 3u // offset of tensor `ref`, in elements
#define KF_ARG_STRIDE 4u // stride of tensor `ref`, axis `axis`, in elements, may be negative or 0
#define KF_ARG_DIM 5u // extent of symbol `ref`; of symbol 0: 1
#define KF_ARG_SCALAR 6u // scalar `ref` of the block, converted as the operator converts it
#define KF_ARG_VALUE 7u // the formula `value`
#define KF_ARG_LOCAL 8u // local memory, `value` bytes

// kf_karg.access, for TENSOR and TEMP
#define KF_ACCESS_READ 1u
#define KF_ACCESS_WRITE 2u
#define KF_ACCESS_READ_WRITE 3u

typedef struct kf_karg { // frozen
    uint32_t kind;
    uint32_t access;
    uint32_t ref;
    uint32_t dtype; // of what the kernel declares: OFFSET, STRIDE, DIM, VALUE are I32 or I64;
                    // SCALAR any dtype, f16 and bf16 as 16 bits, bool as 8 bits; TENSOR the
                    // tensor's; TEMP 0
    uint32_t axis; // KF_ARG_STRIDE
    uint32_t group; // KF_ARG_TENSOR of a program that is KF_PROGRAM_IN_PLACE_SAFE
    kf_expr value;
} kf_karg;
KF_ASSERT(sizeof(kf_karg) == 40);

typedef struct kf_launch {
    uint32_t struct_size;
    uint32_t source; // index
    uint32_t dims; // 1 to 3
    uint32_t n_args;
    kf_str kernel;
    kf_expr global[3]; // work-items; each at least 1
    // Absent: the driver chooses, and on a CPU may put all of a few work-items on one core: say 1
    // where each is a large piece of work. Else global is a multiple of it.
    kf_expr local[3];
    const kf_karg *args;
    uint32_t flags; // none in 1.0
    uint32_t reserved;
    // The same work by one work-item with its loops inside, a kernel and arguments of its own.
    // Taken instead on devices with KF_FEATURE_SINGLE_WORK_ITEM (FPGAs, where loops become
    // pipelines). No sizes, they are 1, and no `single`. NULL: none.
    const struct kf_launch *single;
} kf_launch;
KF_ASSERT(sizeof(kf_launch) == 152);
#define KF_LAUNCH_SIZE_FIRST 144u // the host accepts any struct_size from here up

// kf_temp.flags
// Outlives the run (weights packed once): `prepack` fills it before the first step, unless that was
// done with the same constants and the same numbers. All that it depends on is an argument of
// `prepack`. The host may drop it between runs.
#define KF_TEMP_PERSISTENT 1u

typedef struct kf_temp { // frozen
    kf_expr bytes;
    uint32_t align;
    uint32_t flags;
    uint32_t prepack; // launch that reads KF_TENSOR_CONST tensors only and writes this temporary
                      // only; it is in no step. KF_NONE without KF_TEMP_PERSISTENT
    uint32_t reserved;
} kf_temp;
KF_ASSERT(sizeof(kf_temp) == 32);

// kf_step.kind
#define KF_STEP_LAUNCH 1u // launch `index`
#define KF_STEP_HOST_OP 2u // the host runs the operation at position `index` of the block alone
typedef struct kf_step { // frozen
    uint32_t kind;
    uint32_t index;
} kf_step;

// kf_program.flags; unknown bit => the host refuses the program
#define KF_PROGRAM_DETERMINISTIC 1u // same inputs, same bits
/// In every launch, a WRITE argument may be given the same memory as one READ argument of that
/// launch and of the same kf_karg.group with the same dtype, the same dimensions, both contiguous
/// at the same offset, when the tensor read is not used afterwards, nor by an argument of another
/// group. At most one output takes the memory of one input. (So: no `restrict`, and every element
/// is read before the work-item that writes it writes it, by that work-item only.)
#define KF_PROGRAM_IN_PLACE_SAFE 2u

/// Steps run in order; each sees what the earlier ones wrote. After the last step, every tensor
/// that the covered operations define and do not drop has been written, by a launch or by a host
/// operation.
typedef struct kf_program {
    uint32_t struct_size;
    uint32_t flags; // KF_PROGRAM_*
    const kf_source *const *sources;
    uint64_t n_sources;
    const kf_launch *const *launches;
    uint64_t n_launches;
    const kf_temp *temps;
    uint64_t n_temps;
    const kf_step *steps;
    uint64_t n_steps;
    kf_expr guard; // absent: good for all shapes with these symbols and facts; else while non-zero
} kf_program;
KF_ASSERT(sizeof(kf_program) == 88);

typedef struct kf_opt_info {
    uint32_t struct_size;
    uint32_t len; // operations covered, equal to kf_state.len at finish
    uint32_t n_variants; // at least 1; opt_describe takes 0 to n_variants - 1, 0 is the default
    uint32_t reserved;
    kf_str name; // short, for traces and explain: "elementwise(mul,add,relu)"
    kf_blob key; // equal key (and device) => equal programs
} kf_opt_info;
KF_ASSERT(sizeof(kf_opt_info) == 48);

// ---------------------------------------------------------------------------------------------
// The plugin
// ---------------------------------------------------------------------------------------------

typedef struct kf_fuser kf_fuser; // one per (fuser kind, device)
typedef struct kf_builder kf_builder; // one candidate block
typedef struct kf_opt kf_opt; // a finished block, immutable

/// Lifecycle: query -> init -> fuser_create -> builder_create -> builder_fuse* -> builder_finish ->
/// opt_info, opt_describe -> destroys in any order that keeps parents last -> deinit. builder_fuse
/// after CLOSED is legal and changes nothing. fuse(a) then fuse(b) equals fuse([a, b]). A clone is
/// an independent copy. reset equals a fresh builder. finish needs `ready`, does not consume the
/// builder, and covers exactly kf_state.len operations. Destroy functions accept NULL. What opt_*
/// return as views lives until opt_destroy. Whoever creates destroys: no memory crosses.
typedef struct kf_plugin {
    uint32_t struct_size;
    uint32_t abi_minor;
    kf_str id; // reverse domain: "org.example.fast-softmax"
    kf_str version;
    kf_str vendor;
    const kf_str *fuser_ids;
    uint64_t n_fusers;
    kf_status (*init)(void); // [main] counted: may be called once per runtime in the process
    void (*deinit)(void); // [main]
    const void *(*extension)(const char *id); // [any] may be NULL
    // [any] KF_DECLINED: not for this device. KF_E_INVALID: there is no fuser of this index.
    kf_status (*fuser_create)(const kf_host *host, uint32_t index, const kf_device *device,
                              kf_fuser **out);
    void (*fuser_destroy)(kf_fuser *fuser); // [any]
    kf_status (*builder_create)(const kf_fuser *fuser, kf_builder **out); // [any]
    kf_status (*builder_clone)(const kf_builder *builder, kf_builder **out); // [builder]
    kf_status (*builder_fuse)(kf_builder *builder, const kf_block *block, const kf_op *const *ops,
                              uint64_t n, kf_state *out); // [builder]
    kf_status (*builder_state)(const kf_builder *builder, kf_state *out); // [builder]
    kf_status (*builder_reset)(kf_builder *builder); // [builder]
    kf_status (*builder_finish)(kf_builder *builder, kf_opt **out); // [builder]
    void (*builder_destroy)(kf_builder *builder); // [builder]
    kf_status (*opt_info)(const kf_opt *opt, kf_opt_info *out); // [any]
    kf_status (*opt_describe)(const kf_opt *opt, uint32_t variant, kf_program *out); // [any]
    kf_status (*opt_to_state)(const kf_opt *opt, kf_blob *out); // [any] may be NULL
    kf_status (*opt_from_state)(const kf_fuser *fuser, kf_blob state,
                                kf_opt **out); // [any] or NULL
    void (*opt_destroy)(kf_opt *opt); // [any]
} kf_plugin;
KF_ASSERT(sizeof(kf_plugin) == 208);
#define KF_PLUGIN_SIZE_V1_0 208u // the host accepts any struct_size from here up

/// The only exported symbol; the major version is in its name. Pure, may be called twice.
#define KF_QUERY_SYMBOL "kf_plugin_query_v1"
typedef const kf_plugin *(*kf_query_fn)(uint32_t host_abi_minor);
KF_EXPORT const kf_plugin *kf_plugin_query_v1(uint32_t host_abi_minor);

// ---------------------------------------------------------------------------------------------
// The manifest: an ELF note, read before dlopen
// ---------------------------------------------------------------------------------------------

#define KF_NOTE_SECTION ".note.kiln_fuser"
#define KF_NOTE_NAME "KFU"
#define KF_NOTE_TYPE 1u

// kf_manifest.sanitizer: must equal the host's
#define KF_SANITIZER_NONE 0u
#define KF_SANITIZER_ADDRESS 1u
#define KF_SANITIZER_THREAD 2u
#define KF_SANITIZER_MEMORY 3u

// kf_manifest.cpu_features: instructions that the library's own code needs
#define KF_CPU_X86_AVX (1ull << 0)
#define KF_CPU_X86_AVX2 (1ull << 1)
#define KF_CPU_X86_AVX512F (1ull << 2)
#define KF_CPU_ARM_SVE (1ull << 32)

// kf_manifest.flags
#define KF_MANIFEST_USES_THREADS 1ull
#define KF_MANIFEST_NEEDS_EXEC 2ull // wants the extension that lets a plugin enqueue by itself

typedef struct kf_manifest {
    uint32_t struct_size;
    uint32_t abi_major;
    uint32_t abi_minor;
    uint32_t min_host_minor;
    uint32_t opset_max; // newest operator table that the author has seen
    uint32_t sanitizer; // KF_SANITIZER_*
    uint64_t cpu_features;
    uint64_t flags;
    char id[64]; // NUL-terminated, equal to kf_plugin.id
    char version[32];
    char build[32];
} kf_manifest;
KF_ASSERT(sizeof(kf_manifest) == 168);
#define KF_MANIFEST_SIZE_V1_0 168u // the host accepts any struct_size from here up

typedef struct kf_note {
    uint32_t namesz;
    uint32_t descsz;
    uint32_t type;
    char name[4];
    kf_manifest desc;
} kf_note;
KF_ASSERT(sizeof(kf_note) == 184);

#if defined(__SANITIZE_ADDRESS__)
#define KF_SANITIZER_HERE KF_SANITIZER_ADDRESS
#elif defined(__SANITIZE_THREAD__)
#define KF_SANITIZER_HERE KF_SANITIZER_THREAD
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KF_SANITIZER_HERE KF_SANITIZER_ADDRESS
#elif __has_feature(thread_sanitizer)
#define KF_SANITIZER_HERE KF_SANITIZER_THREAD
#elif __has_feature(memory_sanitizer)
#define KF_SANITIZER_HERE KF_SANITIZER_MEMORY
#endif
#endif
#ifndef KF_SANITIZER_HERE
#define KF_SANITIZER_HERE KF_SANITIZER_NONE
#endif

/// Put it once at file scope of the plugin. `ID` and `VERSION` are string literals.
#define KF_MANIFEST(ID, VERSION, MIN_HOST_MINOR, OPSET_MAX, CPU_FEATURES, FLAGS)                   \
    __attribute__((section(KF_NOTE_SECTION), used, aligned(8))) static const kf_note kf_note_ = {  \
        4,                                                                                         \
        (uint32_t)sizeof(kf_manifest),                                                             \
        KF_NOTE_TYPE,                                                                              \
        {'K', 'F', 'U', 0},                                                                        \
        {(uint32_t)sizeof(kf_manifest), KF_ABI_MAJOR, KF_ABI_MINOR, (MIN_HOST_MINOR), (OPSET_MAX), \
         KF_SANITIZER_HERE, (CPU_FEATURES), (FLAGS), ID, VERSION, "sdk " KF_SDK_VERSION}}

#ifdef __cplusplus
}
#endif

#endif
