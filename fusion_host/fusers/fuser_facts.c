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

static uint64_t features_of(const kiln_device_info *device)
{
    uint64_t features = 0;
    features |= (device->features & KILN_FEATURE_FP16) != 0 ? KF_FEATURE_FP16 : 0;
    features |= (device->features & KILN_FEATURE_FP64) != 0 ? KF_FEATURE_FP64 : 0;
    features |= (device->features & KILN_FEATURE_IL_SPIRV) != 0 ? KF_FEATURE_SPIRV : 0;
    bool prepared = (device->features & KILN_FEATURE_PREPARED) != 0;
    bool compiler = (device->features & KILN_FEATURE_COMPILER) != 0;
    bool single = (device->features & KILN_FEATURE_SINGLE_WORK_ITEM) != 0;
    features |= compiler || prepared ? KF_FEATURE_COMPILER : 0;
    features |= prepared ? KF_FEATURE_PREPARED : 0;
    features |= single ? KF_FEATURE_SINGLE_WORK_ITEM : 0;
    features |=
        (device->features & KILN_FEATURE_UNIFIED_MEMORY) != 0 ? KF_FEATURE_UNIFIED_MEMORY : 0;
    features |= device->type == KILN_DEVICE_GPU ? KF_FEATURE_LOCAL_MEMORY : 0;
    return features;
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
        .code_shape = device->type == KILN_DEVICE_GPU ? KF_SHAPE_NDRANGE : KF_SHAPE_BLOCK,
        .vendor_id = device->vendor_id,
        .features = features_of(device),
        .global_bytes = device->memory_bytes,
        .max_alloc_bytes = device->max_alloc_bytes,
        .local_bytes = device->local_bytes,
        .max_group_size = device->max_work_group,
        .max_group_dim = {device->max_work_group, device->max_work_group, device->max_work_group},
        .max_param_bytes = kilni_fuse_param_bytes(device),
        .compute_units = device->compute_units,
        .vector_bytes = device->vector_bytes,
        .mem_align_bytes = device->memory_align,
        .cl_version = device->cl_version,
        .cl_c_version = device->cl_version,
        .opset = KF_OPSET_MAX,
        .cache_bytes = device->cache_bytes,
        .mem_bytes_per_s = device->bytes_per_s,
        .flops_f32 = device->flops_f32,
        .launch_ns = device->launch_ns,
        .name = text_of(device->name),
        .driver = text_of(device->driver),
        .extensions = text_of(device->extensions),
        .fingerprint = {&device->fingerprint, sizeof(device->fingerprint)},
    };
    set_dtypes(device, out_facts);
}
