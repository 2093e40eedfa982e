// SPDX-License-Identifier: MIT OR Apache-2.0
// What is known about one device. Speeds are estimates by the type of device until they are
// measured (cl_measure.c). A driver that cannot answer now ends the opening: with half of the
// answers a device would be another one, say one without a compiler.

#include <stdio.h>
#include <string.h>

#include "cl_builtins.h"
#include "cl_capabilities.h"
#include "cl_error.h"
#include "cl_facts.h"
#include "cl_query.h"
#include "cl_state.h"

#define KILNI_CL_DEVICE_IL_VERSION 0x105B // of OpenCL 2.1 and cl_khr_il_program

static const char *device_text(kilni_cl_backend *backend, cl_device_info what)
{
    size_t length = 0;
    (void)kilni_cl_device_need(backend, what, 0, NULL, &length);
    char *text = kiln_alloc(backend->env, length + 1);
    if (text != NULL && length > 0) {
        (void)kilni_cl_device_need(backend, what, length, text, NULL);
    }
    return text;
}

static const char *platform_text(kilni_cl_backend *backend, cl_platform_info what)
{
    size_t length = 0;
    cl_int code = clGetPlatformInfo(backend->platform, what, 0, NULL, &length);
    char *text = kiln_alloc(backend->env, length + 1);
    if (text != NULL && length > 0) {
        code = clGetPlatformInfo(backend->platform, what, length, text, NULL);
    }
    backend->unanswered = backend->unanswered == CL_SUCCESS ? code : backend->unanswered;
    return text;
}

// "OpenCL 1.2 ..." gives 120.
static uint32_t parse_version(const char *text)
{
    unsigned major = 0, minor = 0;
    bool known = sscanf(text, "OpenCL %u.%u", &major, &minor) == 2 && major < 100 && minor < 10;
    return known ? 100 * major + 10 * minor : 0;
}

static uint32_t device_features(kilni_cl_backend *backend)
{
    const kiln_device_info *info = &backend->info;
    size_t il_length = 0;
    uint32_t features = KILN_FEATURE_PROGRAMS;
    features |= kilni_cl_has_extension(info->extensions, "cl_khr_fp16") ? KILN_FEATURE_FP16 : 0;
    features |= kilni_cl_has_extension(info->extensions, "cl_khr_fp64") ? KILN_FEATURE_FP64 : 0;
    features |= info->type == KILN_DEVICE_ACCELERATOR ? KILN_FEATURE_SINGLE_WORK_ITEM : 0;
    features |= kilni_cl_device_number(backend, CL_DEVICE_HOST_UNIFIED_MEMORY)
                    ? KILN_FEATURE_UNIFIED_MEMORY
                    : 0;
    (void)kilni_cl_device_ask(backend, KILNI_CL_DEVICE_IL_VERSION, 0, NULL, &il_length);
    features |= il_length > 1 ? KILN_FEATURE_IL_SPIRV : 0;
    return features;
}

enum { NV_CAPABILITY_MAJOR = 0x4000, NV_CAPABILITY_MINOR = 0x4001 }; // cl_nv_device_attribute_query

/// f32 units of a compute unit. NVIDIA's by compute capability, from the throughput table of its
/// programming guide; others have 64, or say nothing.
static uint64_t gpu_lanes(kilni_cl_backend *backend)
{
    uint64_t major = 0, minor = 0;
    if (kilni_cl_is_nvidia(backend->info.extensions)) {
        major = kilni_cl_device_number(backend, NV_CAPABILITY_MAJOR);
        minor = kilni_cl_device_number(backend, NV_CAPABILITY_MINOR);
    }
    bool half = (major == 6 && minor == 0) || major == 7 || (major == 8 && minor == 0);
    return major == 3 ? 192 : major >= 5 && !half ? 128 : 64;
}

static void estimate_speeds(kilni_cl_backend *backend)
{
    kiln_device_info *info = &backend->info;
    uint64_t hertz = kilni_cl_device_number(backend, CL_DEVICE_MAX_CLOCK_FREQUENCY) * 1000000;
    uint64_t lanes = info->vector_bytes / 4;
    switch (info->type) {
    case KILN_DEVICE_GPU:
        info->bytes_per_s = 300000000000;
        info->launch_ns = 7000;
        lanes = gpu_lanes(backend);
        break;
    case KILN_DEVICE_CPU:
        info->bytes_per_s = 12000000000;
        info->launch_ns = 2000;
        lanes *= 2; // two units that multiply and add
        break;
    default:
        info->bytes_per_s = 20000000000;
        info->launch_ns = 50000;
        break;
    }
    info->flops_f32 = info->compute_units * lanes * 2 * hertz;
}

kiln_hash128 kilni_cl_device_key(const kilni_cl_backend *backend, const char *what)
{
    struct {
        kiln_hash128 device;
        char what[16];
    } key;
    memset(&key, 0, sizeof(key));
    key.device = backend->info.fingerprint;
    snprintf(key.what, sizeof(key.what), "%s", what);
    return kiln_hash_bytes(&key, sizeof(key));
}

static void fingerprint(kilni_cl_backend *backend, const char *platform_version)
{
    kiln_device_info *info = &backend->info;
    kiln_string text;
    kiln_string_init(&text, backend->env);
    kiln_string_printf(&text, "%s\n%s\n%s\n%s", info->name, info->driver, platform_version,
                       info->extensions);
    info->fingerprint = kiln_hash_bytes(text.text != NULL ? text.text : "", text.length);
    kiln_string_fini(&text);
}

/// What a processor may count on of its last cache, which it shares: a virtual machine of two cores
/// reports all 480 MiB of its host's. Results that are written into such a cache, and not past it,
/// cost a line read for each line written (softmax 0.72 of a copy instead of 1.35).
static uint64_t cache_share(uint64_t bytes, uint32_t units)
{
    enum { OF_UNIT = 8 << 20, LEAST = 32 << 20 };
    uint64_t share = (uint64_t)units * OF_UNIT;
    share = share > LEAST ? share : LEAST;
    return bytes < share ? bytes : share;
}

/// A number that every device has.
static uint64_t needed(kilni_cl_backend *backend, cl_device_info what)
{
    uint64_t number = 0;
    return kilni_cl_device_need(backend, what, sizeof(number), &number, NULL) ? number : 0;
}

static void read_numbers(kilni_cl_backend *backend)
{
    kiln_device_info *info = &backend->info;
    info->type = kilni_cl_device_type(needed(backend, CL_DEVICE_TYPE));
    info->vendor_id = (uint32_t)kilni_cl_device_number(backend, CL_DEVICE_VENDOR_ID);
    info->compute_units = (uint32_t)needed(backend, CL_DEVICE_MAX_COMPUTE_UNITS);
    uint64_t width = kilni_cl_device_number(backend, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
    info->vector_bytes = width >= 4 ? (uint32_t)width * 4 : 16;
    info->memory_align = (uint32_t)needed(backend, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8;
    info->memory_bytes = needed(backend, CL_DEVICE_GLOBAL_MEM_SIZE);
    info->max_alloc_bytes = needed(backend, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    info->local_bytes = needed(backend, CL_DEVICE_LOCAL_MEM_SIZE);
    uint64_t cache = kilni_cl_device_number(backend, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
    info->cache_bytes =
        info->type == KILN_DEVICE_CPU ? cache_share(cache, info->compute_units) : cache;
    info->max_work_group = needed(backend, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    info->max_parameter_bytes = needed(backend, CL_DEVICE_MAX_PARAMETER_SIZE);
}

kiln_status kilni_cl_device_info_read(kilni_cl_backend *backend, kiln_error *err)
{
    kiln_device_info *info = &backend->info;
    info->name = device_text(backend, CL_DEVICE_NAME);
    info->vendor = device_text(backend, CL_DEVICE_VENDOR);
    info->driver = device_text(backend, CL_DRIVER_VERSION);
    info->extensions = device_text(backend, CL_DEVICE_EXTENSIONS);
    info->platform = platform_text(backend, CL_PLATFORM_NAME);
    const char *version = device_text(backend, CL_DEVICE_VERSION);
    const char *platform_version = platform_text(backend, CL_PLATFORM_VERSION);
    kiln_status status = KILN_STATUS_OK;
    if (info->name == NULL || info->vendor == NULL || info->driver == NULL ||
        info->extensions == NULL || info->platform == NULL || version == NULL ||
        platform_version == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a device's description");
        goto out;
    }
    info->cl_version = parse_version(version);
    read_numbers(backend);
    info->features = device_features(backend);
    fingerprint(backend, platform_version);
    estimate_speeds(backend);
    backend->pocl = strcmp(info->platform, "Portable Computing Language") == 0;
    kilni_cl_device_capabilities(backend);
    backend->compiler.declares = backend->pocl && info->type == KILN_DEVICE_CPU &&
                                 kilni_cl_builtins_known(info->driver, info->extensions);
    uint64_t single = kilni_cl_device_number(backend, CL_DEVICE_SINGLE_FP_CONFIG);
    backend->compiler.exact_options = (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0
                                          ? "-cl-fp32-correctly-rounded-divide-sqrt "
                                          : "";
    if (backend->unanswered != CL_SUCCESS) {
        status = kilni_cl_fail(NULL, err, backend->unanswered, "asking about a device");
    }
out:
    kiln_free(backend->env, (void *)(uintptr_t)version);
    kiln_free(backend->env, (void *)(uintptr_t)platform_version);
    return status;
}

void kilni_cl_device_info_free(kilni_cl_backend *backend)
{
    const char *const texts[] = {backend->info.name, backend->info.vendor, backend->info.platform,
                                 backend->info.driver, backend->info.extensions};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        kiln_free(backend->env, (void *)(uintptr_t)texts[i]);
    }
}
