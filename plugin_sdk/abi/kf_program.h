// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_program.h: the program that a fuser describes: sources, launches with arguments, temporaries,
// steps. Part of kiln_fuser.h.
#ifndef KILN_PLUGIN_SDK_KF_PROGRAM_H
#define KILN_PLUGIN_SDK_KF_PROGRAM_H

#include "kf_expr.h"

#ifdef __cplusplus
extern "C" {
#endif

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
    // Since 1.1. For the device's own compiler, behind what the members above say: words apart by
    // one space, each of the forms -cl-nv-*, -cl-intel-*, -cl-amd-*, -cl-arm-*, -cl-qcom-*, or
    // -cl-opt-disable, -cl-uniform-work-group-size, -cl-no-subgroup-ifp, -O0 to -O3, -m[no-]cumode,
    // -m[no-]wavefrontsize64. The host refuses any other, and options beside a binary. A compiler
    // that does not know an option fails, so look at kf_device.extensions first; and at
    // kf_host.abi_minor, because a host of 1.0 refuses a source with options.
    kf_str options;
} kf_source;
KF_ASSERT(sizeof(kf_source) == 104);
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
    // Since 1.1. Nanoseconds of each variant, as kf_state.est_ns is of variant 0 (variant_ns[0] is
    // not read). A variant for which there is none, or an absent one, is only chosen where it was
    // measured to be faster. Views that live until opt_destroy.
    const kf_expr *variant_ns;
    uint64_t n_variant_ns; // 0, or n_variants
} kf_opt_info;
KF_ASSERT(sizeof(kf_opt_info) == 64);

/// What the host measured of a program, on this device. Since 1.1.
typedef struct kf_measured { // borrowed for the call
    uint32_t struct_size;
    uint32_t variant;
    kf_blob key; // kf_opt_info.key of the program
    uint64_t ns; // of the whole program
    uint64_t unfused_ns; // of its operations one by one; 0: not measured
    const int64_t *extents; // of the block's symbols, in their order
    uint64_t n_extents;
} kf_measured;
KF_ASSERT(sizeof(kf_measured) == 56);

#ifdef __cplusplus
}
#endif
#endif
