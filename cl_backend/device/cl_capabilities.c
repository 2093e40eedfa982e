// SPDX-License-Identifier: MIT OR Apache-2.0
// What a device can do beside what the backend itself needs: the OpenCL C that it takes, the shape
// of its work-groups, optional features, and how fast it computes in f16 and f64. Fusers are told
// it. What the driver does not say is left 0: unknown.

#include "cl_capabilities.h"
#include "cl_query.h"

#include <stdio.h>
#include <string.h>

enum { ///< of OpenCL 2.1, 3.0 and vendors' extensions
    MAX_NUM_SUB_GROUPS = 0x105C,
    OPENCL_C_ALL_VERSIONS = 0x1066,
    WARP_SIZE_NV = 0x4003,
    CAPABILITY_MAJOR_NV = 0x4000,
    CAPABILITY_MINOR_NV = 0x4001,
    WAVEFRONT_WIDTH_AMD = 0x4043,
    SUB_GROUP_SIZES_INTEL = 0x4108,
    MAX_VERSIONS = 32
};

typedef struct name_version { ///< cl_name_version of OpenCL 3.0
    cl_uint version; ///< major in the upper 10 bits, minor in the 10 after them
    char name[64];
} name_version;

/// The newest OpenCL C. Devices of OpenCL 3.0 list what they take; others name one.
static uint32_t c_version(kilni_cl_backend *backend)
{
    name_version all[MAX_VERSIONS];
    char text[256] = "";
    size_t bytes = 0;
    unsigned major = 0, minor = 0;
    uint32_t newest = 0;
    if (backend->info.cl_version >= 300 &&
        kilni_cl_device_ask(backend, OPENCL_C_ALL_VERSIONS, sizeof(all), all, &bytes)) {
        for (size_t i = 0; i < bytes / sizeof(all[0]); i++) {
            uint32_t version = 100 * (all[i].version >> 22) + 10 * (all[i].version >> 12 & 0x3ff);
            newest = version > newest ? version : newest;
        }
    }
    if (newest == 0 &&
        kilni_cl_device_ask(backend, CL_DEVICE_OPENCL_C_VERSION, sizeof(text) - 1, text, NULL) &&
        sscanf(text, "OpenCL C %u.%u", &major, &minor) == 2) {
        newest = 100 * major + 10 * minor;
    }
    return newest;
}

/// Bit n: a kernel may ask for subgroups of 1 << n work-items.
static uint64_t subgroup_sizes(kilni_cl_backend *backend)
{
    size_t sizes[16] = {0};
    size_t bytes = 0;
    uint64_t all = 0;
    if (!kilni_cl_has_extension(backend->info.extensions, "cl_intel_required_subgroup_size") ||
        !kilni_cl_device_ask(backend, SUB_GROUP_SIZES_INTEL, sizeof(sizes), sizes, &bytes)) {
        return 0;
    }
    for (size_t i = 0; i < bytes / sizeof(sizes[0]); i++) {
        for (uint32_t n = 0; n < 32; n++) {
            all |= sizes[i] == (size_t)1 << n ? 1ull << n : 0;
        }
    }
    return all;
}

/// The largest, since a kernel that asks for no size is compiled for it or for one that divides it.
static uint32_t subgroup_size(kilni_cl_backend *backend)
{
    uint64_t sizes = backend->info.subgroup_sizes;
    uint32_t largest = 0;
    if (kilni_cl_is_nvidia(backend->info.extensions)) {
        return (uint32_t)kilni_cl_device_number(backend, WARP_SIZE_NV);
    }
    if (kilni_cl_has_extension(backend->info.extensions, "cl_amd_device_attribute_query")) {
        return (uint32_t)kilni_cl_device_number(backend, WAVEFRONT_WIDTH_AMD);
    }
    for (uint32_t n = 0; n < 32; n++) {
        largest = (sizes & 1ull << n) != 0 ? 1u << n : largest;
    }
    return largest;
}

/// PoCL's processors are the one that this process runs on (another machine's is no "pthread" nor
/// "cpu"), and its compiler takes inline assembly. For which processor it compiles is another
/// matter: Debian's knows those up to Skylake.
static bool has_vnni(const kilni_cl_backend *backend)
{
    const kiln_device_info *info = &backend->info;
    bool here = strncmp(info->name, "pthread", 7) == 0 || strncmp(info->name, "cpu", 3) == 0;
    return backend->pocl && here && info->type == KILN_DEVICE_CPU && info->vector_bytes >= 64 &&
           kiln_processor_has_vnni();
}

/// sm_90a is one generation's: neither those before nor those after it have its instructions.
static bool has_wgmma(kilni_cl_backend *backend)
{
    return kilni_cl_is_nvidia(backend->info.extensions) &&
           kilni_cl_device_number(backend, CAPABILITY_MAJOR_NV) == 9 &&
           kilni_cl_device_number(backend, CAPABILITY_MINOR_NV) == 0;
}

/// What the user allows products of f32.
static uint32_t precision(const kilni_cl_backend *backend)
{
    static const struct {
        const char *word;
        uint32_t feature;
    } words[] = {{"strict", KILN_FEATURE_STRICT},
                 {"tf32", KILN_FEATURE_ROUND_TF32},
                 {"bf16", KILN_FEATURE_ROUND_BF16}};
    const char *word = kiln_config_string(backend->env->config, KILN_OPTION_PRECISION);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(word, words[i].word) == 0) {
            return words[i].feature;
        }
    }
    return 0;
}

static uint32_t features(kilni_cl_backend *backend)
{
    uint64_t single = kilni_cl_device_number(backend, CL_DEVICE_SINGLE_FP_CONFIG);
    bool groups = kilni_cl_has_extension(backend->info.extensions, "cl_khr_subgroups") ||
                  kilni_cl_has_extension(backend->info.extensions, "cl_intel_subgroups") ||
                  (backend->info.cl_version >= 210 &&
                   kilni_cl_device_number(backend, MAX_NUM_SUB_GROUPS) > 0);
    uint32_t all = 0;
    all |= kilni_cl_has_extension(backend->info.extensions, "cl_khr_int64_base_atomics")
               ? KILN_FEATURE_INT64_ATOMICS
               : 0;
    all |= kilni_cl_has_extension(backend->info.extensions, "cl_ext_float_atomics")
               ? KILN_FEATURE_FLOAT_ATOMICS
               : 0;
    all |= kilni_cl_has_extension(backend->info.extensions, "cl_khr_command_buffer")
               ? KILN_FEATURE_COMMAND_BUFFER
               : 0;
    all |= groups ? KILN_FEATURE_SUBGROUPS : 0;
    all |= has_vnni(backend) ? KILN_FEATURE_VNNI : 0;
    all |= has_wgmma(backend) ? KILN_FEATURE_WGMMA | precision(backend) : 0;
    all |= kilni_cl_device_number(backend, CL_DEVICE_IMAGE_SUPPORT) != 0 ? KILN_FEATURE_IMAGES : 0;
    all |= (single & CL_FP_DENORM) != 0 ? KILN_FEATURE_DENORMALS : 0;
    all |=
        (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0 ? KILN_FEATURE_ROUNDED_DIVIDE_SQRT : 0;
    return all;
}

/// f32 operations to one of f64 on NVIDIA's compute capabilities: the throughput table of its
/// programming guide.
static uint64_t nvidia_f64_share(uint64_t major, uint64_t minor)
{
    bool server = (major == 6 && minor == 0) || (major == 7 && minor == 0) ||
                  (major == 8 && minor == 0) || (major == 9 && minor == 0);
    return server ? 2 : major == 3 ? 24 : major == 8 || major >= 10 ? 64 : 32;
}

/// Of a processor by the width of its vectors; of a GPU where its vendor's table says so.
static void set_rates(kilni_cl_backend *backend)
{
    kiln_device_info *info = &backend->info;
    uint64_t f32 = kilni_cl_device_number(backend, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
    uint64_t f16 = kilni_cl_device_number(backend, CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF);
    uint64_t f64 = kilni_cl_device_number(backend, CL_DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE);
    bool nvidia = kilni_cl_is_nvidia(backend->info.extensions);
    bool processor = info->type == KILN_DEVICE_CPU && f32 != 0;
    if ((info->features & KILN_FEATURE_FP64) != 0 && nvidia) {
        info->flops_f64 = info->flops_f32 /
                          nvidia_f64_share(kilni_cl_device_number(backend, CAPABILITY_MAJOR_NV),
                                           kilni_cl_device_number(backend, CAPABILITY_MINOR_NV));
    } else if ((info->features & KILN_FEATURE_FP64) != 0 && processor) {
        info->flops_f64 = info->flops_f32 * f64 / f32;
    }
    if ((info->features & KILN_FEATURE_FP16) != 0) { // at least as f32, where no width is told
        info->flops_f16 = f16 != 0 && f32 != 0 ? info->flops_f32 * f16 / f32 : info->flops_f32;
    }
    info->accelerated_dtypes = info->flops_f16 > info->flops_f32 ? 1ull << KILN_DTYPE_F16 : 0;
}

void kilni_cl_device_capabilities(kilni_cl_backend *backend)
{
    kiln_device_info *info = &backend->info;
    size_t items[8] = {0};
    info->features |= features(backend);
    info->cl_c_version = c_version(backend);
    info->subgroup_sizes = subgroup_sizes(backend);
    info->subgroup_size = subgroup_size(backend);
    info->cache_line_bytes =
        (uint32_t)kilni_cl_device_number(backend, CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE);
    if (kilni_cl_device_ask(backend, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof(items), items, NULL)) {
        for (int i = 0; i < 3; i++) {
            info->max_work_items[i] = items[i];
        }
    }
    set_rates(backend);
}
