// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_DEVICE_H
#define KILN_IR_DEVICE_H

/// What a device is, and what it has counted. Any thread may call what is here. No pointer is NULL
/// unless a function takes it.

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kiln_device_type {
    KILN_DEVICE_CPU = 1,
    KILN_DEVICE_GPU = 2,
    KILN_DEVICE_ACCELERATOR = 3,
    KILN_DEVICE_HOST = 4, ///< no device: reference and null backends
    KILN_DEVICE_REMOTE = 5
} kiln_device_type;

enum { ///< of a dtype on a device
    KILN_USAGE_STORAGE = 1u, ///< tensors of it may lie there; what is not computed in it is in f32
    KILN_USAGE_ARITHMETIC = 2u, ///< the device computes in it
    KILN_USAGE_ACCELERATED = 4u ///< matrix products are a tuned library's, or of units made for it
};

enum { ///< kiln_device_info.features
    KILN_FEATURE_FP16 = 1u,
    KILN_FEATURE_FP64 = 2u,
    KILN_FEATURE_IL_SPIRV = 4u,
    KILN_FEATURE_COMPILER = 8u,
    KILN_FEATURE_UNIFIED_MEMORY = 16u,
    KILN_FEATURE_PROGRAMS = 32u, ///< build and launch are there: fusers make sense
    KILN_FEATURE_OWN_VIEWS = 64u, ///< runs operators of class VIEW itself and gets only dense views
    KILN_FEATURE_PREPARED = 128u, ///< no compiler: takes source of which it has a binary
    KILN_FEATURE_SINGLE_WORK_ITEM = 256u, ///< a kernel runs best as one work-item: FPGA
    KILN_FEATURE_INT64_ATOMICS = 512u,
    KILN_FEATURE_FLOAT_ATOMICS = 1024u,
    KILN_FEATURE_SUBGROUPS = 2048u, ///< their built-in functions
    KILN_FEATURE_IMAGES = 4096u,
    KILN_FEATURE_DENORMALS = 8192u, ///< f32 denormals are kept
    KILN_FEATURE_ROUNDED_DIVIDE_SQRT = 16384u, ///< of f32, where a program asks for it
    KILN_FEATURE_COMMAND_BUFFER = 32768u,
    KILN_FEATURE_VNNI = 65536u, ///< AVX-512 VNNI in inline assembly, whatever the compiler aims at
    KILN_FEATURE_WGMMA = 131072u, ///< NVIDIA's sm_90a: programs built with KILN_PTX_TARGET=sm_90a
    KILN_FEATURE_STRICT = 262144u, ///< products of f32 are wanted by multiply-adds of f32 alone
    KILN_FEATURE_ROUND_TF32 = 524288u, ///< their operands may be rounded to tf32
    KILN_FEATURE_ROUND_BF16 = 1048576u ///< and to bf16
};

typedef struct kiln_device_info { ///< texts belong to the backend
    const char *name;
    const char *vendor;
    const char *platform;
    const char *driver;
    const char *extensions;
    kiln_device_type type;
    uint32_t vendor_id;
    uint32_t features;
    uint32_t compute_units;
    uint32_t vector_bytes; ///< preferred width of explicit vectors
    uint32_t memory_align; ///< bytes at which a buffer starts at least
    uint32_t cl_version; ///< 100 * major + 10 * minor; 0 when not OpenCL
    uint64_t memory_bytes;
    uint64_t max_alloc_bytes;
    uint64_t local_bytes;
    uint64_t cache_bytes; ///< of the last level, a processor's share of it; 0: not known
    uint64_t max_work_group;
    uint64_t max_parameter_bytes; ///< a kernel's arguments together; 0: not known
    uint64_t bytes_per_s; ///< measured copy, read plus written
    uint64_t flops_f32; ///< estimate
    uint64_t launch_ns; ///< measured cost of one more kernel in a queue
    kiln_hash128 fingerprint; ///< name, driver, platform version, extensions
    uint64_t max_work_items[3]; ///< of a work-group along each dimension; 0: not known
    uint64_t flops_f16; ///< estimate; 0: not known
    uint64_t flops_f64; ///< likewise
    uint64_t accelerated_dtypes; ///< bit KILN_DTYPE_x: computed faster than f32
    uint32_t cl_c_version; ///< newest OpenCL C that it takes; 0: not known
    uint32_t subgroup_size; ///< 0: not known
    uint32_t cache_line_bytes; ///< 0: not known
    uint32_t speeds_doubtful; ///< 1: a later process measures speeds again
    const uint8_t *op_launches; ///< of each kiln_op on dense operands, at least; NULL: one each
    uint64_t subgroup_sizes; ///< bit n: a kernel may ask for subgroups of 1 << n work-items
} kiln_device_info;

/// Whether kernels for this device work in groups that share local memory, as on GPUs. Elsewhere a
/// work-item computes a block by itself: on processors, and on devices whose groups or local memory
/// are smaller than Kiln's kernels of groups take. False for NULL.
KILN_API bool kiln_device_has_groups(const kiln_device_info *info);

typedef struct kiln_backend_stats {
    uint64_t ops_executed; ///< calls of execute
    uint64_t kernels_launched;
    uint64_t blas_calls; ///< matmuls that a BLAS library ran
    uint64_t programs_built; ///< from source
    uint64_t programs_loaded; ///< from the cache
    uint64_t build_ns; ///< in the compiler; loading from the cache is not among it
    uint64_t bytes_used; ///< held by tensors now
    uint64_t bytes_peak;
    uint64_t bytes_pooled; ///< held by the pool, used or not
    uint64_t buffers_live;
    uint64_t bytes_pooled_peak;
    uint64_t bytes_budget; ///< what the device may hold; 0: no limit is known
    uint64_t pool_reuses; ///< allocations that an idle buffer served
    uint64_t programs_live; ///< that the driver holds now
    uint64_t programs_idle; ///< of them: those that nobody holds
    uint64_t program_bytes; ///< of the host that they take, estimated
    uint64_t kernels_live;
} kiln_backend_stats;

#ifdef __cplusplus
}
#endif

#endif
