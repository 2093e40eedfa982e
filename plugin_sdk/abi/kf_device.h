// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_device.h: the facts of a device. Part of kiln_fuser.h.
#ifndef KILN_PLUGIN_SDK_KF_DEVICE_H
#define KILN_PLUGIN_SDK_KF_DEVICE_H

#include "kf_base.h"

#ifdef __cplusplus
extern "C" {
#endif

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
#define KF_FEATURE_VNNI (1ull << 15) // AVX-512 VNNI, known to the compiler or not; see kf_dot.h
// NVIDIA's compute capability 9.0. A source with the define KILN_PTX_TARGET=sm_90a is made out for
// sm_90a, and what inline assembly has in comments that begin `//@` are instructions then.
#define KF_FEATURE_WGMMA (1ull << 16)
// What the user allows products and convolutions of f32 (option `precision`); none of these: as
// exact as multiply-adds of f32, in any way.
#define KF_FEATURE_STRICT (1ull << 17) // by multiply-adds of f32 alone
#define KF_FEATURE_ROUND_TF32 (1ull << 18) // operands may be rounded to tf32, sums are of f32
#define KF_FEATURE_ROUND_BF16 (1ull << 19) // likewise to bf16

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
    // Since 1.1. Bit n: a kernel with __attribute__((intel_reqd_sub_group_size(1 << n))) gets
    // subgroups of 1 << n work-items. 0: no kernel may ask for a size; where there are subgroups,
    // they are of subgroup_size then.
    uint32_t subgroup_sizes;
    uint32_t reserved;
} kf_device;
KF_ASSERT(sizeof(kf_device) == 264);

#ifdef __cplusplus
}
#endif
#endif
