// SPDX-License-Identifier: MIT OR Apache-2.0
// The facts of a device as the ABI shows them to fusers (`kf_device`), from what its backend says
// of it. A fact that the backend does not know is left 0, which the ABI reads as unknown.
#include <string.h>

#include "fusers.h"
#include "kiln_fuser_ops.h"
#include "translate.h"

static kf_str text_of(const char *text)
{
    return (kf_str){text, text == NULL ? 0 : strlen(text)};
}

static const struct {
    uint32_t device;
    uint64_t fuser;
} same_features[] = {
    {KILN_FEATURE_FP16, KF_FEATURE_FP16},
    {KILN_FEATURE_FP64, KF_FEATURE_FP64},
    {KILN_FEATURE_IL_SPIRV, KF_FEATURE_SPIRV},
    {KILN_FEATURE_COMPILER, KF_FEATURE_COMPILER},
    {KILN_FEATURE_PREPARED, KF_FEATURE_COMPILER | KF_FEATURE_PREPARED},
    {KILN_FEATURE_SINGLE_WORK_ITEM, KF_FEATURE_SINGLE_WORK_ITEM},
    {KILN_FEATURE_UNIFIED_MEMORY, KF_FEATURE_UNIFIED_MEMORY},
    {KILN_FEATURE_INT64_ATOMICS, KF_FEATURE_INT64_ATOMICS},
    {KILN_FEATURE_FLOAT_ATOMICS, KF_FEATURE_FLOAT_ATOMICS},
    {KILN_FEATURE_SUBGROUPS, KF_FEATURE_SUBGROUPS},
    {KILN_FEATURE_IMAGES, KF_FEATURE_IMAGES},
    {KILN_FEATURE_DENORMALS, KF_FEATURE_DENORMALS},
    {KILN_FEATURE_ROUNDED_DIVIDE_SQRT, KF_FEATURE_ROUNDED_DIVIDE_SQRT},
    {KILN_FEATURE_COMMAND_BUFFER, KF_FEATURE_COMMAND_BUFFER},
    {KILN_FEATURE_VNNI, KF_FEATURE_VNNI},
    {KILN_FEATURE_WGMMA, KF_FEATURE_WGMMA},
    {KILN_FEATURE_STRICT, KF_FEATURE_STRICT},
    {KILN_FEATURE_ROUND_TF32, KF_FEATURE_ROUND_TF32},
    {KILN_FEATURE_ROUND_BF16, KF_FEATURE_ROUND_BF16},
};

static uint64_t features_of(const kiln_device_info *device)
{
    uint64_t features = 0;
    for (size_t i = 0; i < sizeof(same_features) / sizeof(same_features[0]); i++) {
        features |= (device->features & same_features[i].device) != 0 ? same_features[i].fuser : 0;
    }
    features |= kiln_device_has_groups(device) ? KF_FEATURE_LOCAL_MEMORY : 0;
    return features;
}

/// Of a work-group along a dimension.
static uint64_t max_items(const kiln_device_info *device, uint32_t dimension)
{
    uint64_t most = device->max_work_items[dimension];
    return most != 0 && most < device->max_work_group ? most : device->max_work_group;
}

/// A backend that does not say has what every OpenCL device has: OpenCL C 1.2.
static uint32_t c_version(const kiln_device_info *device)
{
    uint32_t least = device->cl_version < 120 ? device->cl_version : 120;
    return device->cl_c_version != 0 ? device->cl_c_version : least;
}

static void set_dtypes(const kiln_device_info *device, kf_device *out)
{
    for (uint32_t i = 1; i < KILN_DTYPE_LIMIT; i++) {
        if (kiln_dtype_size((kiln_dtype)i) == 0) {
            continue;
        }
        bool missing = (i == KILN_DTYPE_F64 && (device->features & KILN_FEATURE_FP64) == 0) ||
                       (i == KILN_DTYPE_F16 && (device->features & KILN_FEATURE_FP16) == 0) ||
                       i == KILN_DTYPE_BF16;
        bool unstorable = i == KILN_DTYPE_F64 && missing;
        out->dtype_storage |= unstorable ? 0 : 1ull << i;
        out->dtype_arithmetic |= missing ? 0 : 1ull << i;
        out->dtype_accelerated |= missing ? 0 : device->accelerated_dtypes & 1ull << i;
    }
}

static uint32_t device_type(kiln_device_type type)
{
    switch (type) {
    case KILN_DEVICE_CPU:
        return KF_DEVICE_CPU;
    case KILN_DEVICE_GPU:
        return KF_DEVICE_GPU;
    case KILN_DEVICE_ACCELERATOR:
        return KF_DEVICE_ACCELERATOR;
    default:
        return KF_DEVICE_OTHER;
    }
}

void kilni_fuse_device_facts(const kiln_device_info *device, kf_device *out_facts)
{
    *out_facts = (kf_device){
        .struct_size = (uint32_t)sizeof(*out_facts),
        .device_type = device_type(device->type),
        .code_shape = kiln_device_has_groups(device) ? KF_SHAPE_NDRANGE : KF_SHAPE_BLOCK,
        .vendor_id = device->vendor_id,
        .features = features_of(device),
        .global_bytes = device->memory_bytes,
        .max_alloc_bytes = device->max_alloc_bytes,
        .local_bytes = device->local_bytes,
        .max_group_size = device->max_work_group,
        .max_group_dim = {max_items(device, 0), max_items(device, 1), max_items(device, 2)},
        .max_param_bytes = kilni_fuse_param_bytes(device),
        .compute_units = device->compute_units,
        .vector_bytes = device->vector_bytes,
        .mem_align_bytes = device->memory_align,
        .cl_version = device->cl_version,
        .subgroup_size = device->subgroup_size,
        .cl_c_version = c_version(device),
        .cache_line_bytes = device->cache_line_bytes,
        .opset = KF_OPSET_MAX,
        .cache_bytes = device->cache_bytes,
        .mem_bytes_per_s = device->bytes_per_s,
        .flops_f32 = device->flops_f32,
        .flops_f16 = device->flops_f16,
        .flops_f64 = device->flops_f64,
        .launch_ns = device->launch_ns,
        .name = text_of(device->name),
        .driver = text_of(device->driver),
        .extensions = text_of(device->extensions),
        .fingerprint = {&device->fingerprint, sizeof(device->fingerprint)},
        .subgroup_sizes = (uint32_t)device->subgroup_sizes,
    };
    set_dtypes(device, out_facts);
}
