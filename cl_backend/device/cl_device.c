// SPDX-License-Identifier: MIT OR Apache-2.0
// Which devices there are, which one an address means, and what is known about one. Speeds are
// estimates by the type of device until they are measured (cl_measure.c).

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl_builtins.h"
#include "cl_capabilities.h"
#include "cl_device.h"
#include "cl_error.h"
#include "cl_query.h"
#include "cl_state.h"
#include "cl_workers.h"

enum { MAX_PLATFORMS = 32, MAX_DEVICES = 64 };

#define KILNI_CL_DEVICE_IL_VERSION 0x105B // of OpenCL 2.1 and cl_khr_il_program

typedef struct device_list { ///< all devices in the loader's order
    cl_uint n_platforms;
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint n_devices;
    cl_device_id devices[MAX_DEVICES];
    cl_uint platform_of[MAX_DEVICES];
    cl_uint within[MAX_DEVICES]; ///< number inside its platform
} device_list;

// ---- enumeration ----

static void list_platform(device_list *list, cl_uint platform)
{
    cl_device_id found[MAX_DEVICES];
    cl_uint count = 0;
    cl_int code =
        clGetDeviceIDs(list->platforms[platform], CL_DEVICE_TYPE_ALL, MAX_DEVICES, found, &count);
    if (code != CL_SUCCESS) {
        return; // a platform without devices
    }
    for (cl_uint i = 0; i < count && i < MAX_DEVICES && list->n_devices < MAX_DEVICES; i++) {
        list->devices[list->n_devices] = found[i];
        list->platform_of[list->n_devices] = platform;
        list->within[list->n_devices] = i;
        list->n_devices++;
    }
}

static kiln_status list_devices(device_list *list, kiln_error *err)
{
    memset(list, 0, sizeof(*list));
    kilni_cl_bind_workers();
    cl_int code = clGetPlatformIDs(MAX_PLATFORMS, list->platforms, &list->n_platforms);
    if (code != CL_SUCCESS || list->n_platforms == 0) {
        return kiln_fail(err, NOT_FOUND,
                         "no OpenCL platform is installed; Debian has one in pocl-opencl-icd");
    }
    list->n_platforms = list->n_platforms < MAX_PLATFORMS ? list->n_platforms : MAX_PLATFORMS;
    for (cl_uint i = 0; i < list->n_platforms; i++) {
        list_platform(list, i);
    }
    if (list->n_devices == 0) {
        return kiln_fail(err, NOT_FOUND, "%u OpenCL platforms, but none has a device",
                         list->n_platforms);
    }
    return KILN_STATUS_OK;
}

// ---- addresses ----

static bool contains_ignoring_case(const char *text, const char *part)
{
    size_t length = strlen(part);
    for (; *text != '\0'; text++) {
        size_t i = 0;
        while (i < length && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i])) {
            i++;
        }
        if (i == length) {
            return true;
        }
    }
    return length == 0;
}

static bool parse_number(const char **text, cl_uint *out_number)
{
    char *end = NULL;
    if (!isdigit((unsigned char)**text)) {
        return false;
    }
    unsigned long number = strtoul(*text, &end, 10);
    *out_number = number < 1000000 ? (cl_uint)number : 1000000;
    *text = end;
    return true;
}

static kiln_status find_by_name(const device_list *list, const char *part, cl_uint *out_index,
                                kiln_error *err)
{
    for (cl_uint i = 0; i < list->n_devices; i++) {
        char name[256] = "";
        clGetDeviceInfo(list->devices[i], CL_DEVICE_NAME, sizeof(name) - 1, name, NULL);
        if (contains_ignoring_case(name, part)) {
            *out_index = i;
            return KILN_STATUS_OK;
        }
    }
    return kiln_fail(err, NOT_FOUND, "none of the %u OpenCL devices has \"%.80s\" in its name",
                     list->n_devices, part);
}

static kiln_status find_in_platform(const device_list *list, cl_uint platform, cl_uint device,
                                    cl_uint *out_index, kiln_error *err)
{
    cl_uint count = 0;
    for (cl_uint i = 0; i < list->n_devices; i++) {
        if (list->platform_of[i] != platform) {
            continue;
        }
        if (list->within[i] == device) {
            *out_index = i;
            return KILN_STATUS_OK;
        }
        count++;
    }
    if (platform >= list->n_platforms) {
        return kiln_fail(err, NOT_FOUND, "no OpenCL platform %u: there are %u, counted from 0",
                         platform, list->n_platforms);
    }
    return kiln_fail(err, NOT_FOUND, "no OpenCL device %u/%u: platform %u has %u, counted from 0",
                     platform, device, platform, count);
}

/// "#I/N" at the end of an address: part I of N equal ones. No parts: `out_count` is 0.
static bool parse_part(const char *text, cl_uint *out_part, cl_uint *out_count)
{
    *out_part = 0;
    *out_count = 0;
    if (*text == '\0') {
        return true;
    }
    text++; // '#'
    if (!parse_number(&text, out_part) || *text != '/') {
        return false;
    }
    text++;
    return parse_number(&text, out_count) && *text == '\0' && *out_part < *out_count;
}

/// Puts a part of `device` in its place; it is released with the backend.
static kiln_status take_part(cl_device_id *device, const char *address, kiln_error *err)
{
    cl_device_id parts[MAX_DEVICES];
    cl_uint part = 0;
    cl_uint count = 0;
    cl_uint units = 0;
    cl_uint made = 0;
    const char *mark = strchr(address, '#');
    if (!parse_part(mark == NULL ? "" : mark, &part, &count)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "address \"%.60s\": a part of a device is #I/N with I below N", address);
    }
    if (count == 0) {
        return KILN_STATUS_OK;
    }
    clGetDeviceInfo(*device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL);
    const cl_device_partition_property how[] = {CL_DEVICE_PARTITION_EQUALLY,
                                                (cl_device_partition_property)(units / count), 0};
    if (units < count || units / (units / count) > MAX_DEVICES) { // there are at least `count`
        return kiln_fail(err, NOT_FOUND, "%u parts of a device with %u compute units", count,
                         units);
    }
    cl_int code = clCreateSubDevices(*device, how, MAX_DEVICES, parts, &made);
    if (code != CL_SUCCESS) {
        return kilni_cl_fail(NULL, err, code, "part %u of %u of a device", part, count);
    }
    for (cl_uint i = 0; i < made; i++) {
        if (i != part) {
            clReleaseDevice(parts[i]);
        }
    }
    *device = parts[part];
    return KILN_STATUS_OK;
}

static kiln_status find_index(const device_list *list, const char *address, cl_uint *out_index,
                              kiln_error *err)
{
    static const char scheme[] = "opencl";
    char whole[256]; // without the part
    cl_uint first = 0;
    cl_uint second = 0;
    snprintf(whole, sizeof(whole), "%s", address);
    whole[strcspn(whole, "#")] = '\0';
    const char *text = whole;
    if (strncmp(text, scheme, sizeof(scheme) - 1) == 0) {
        text += sizeof(scheme) - 1;
        text += *text == ':';
    }
    if (*text == '\0') {
        *out_index = 0;
        return KILN_STATUS_OK;
    }
    if (strncmp(text, "name=", 5) == 0) {
        return find_by_name(list, text + 5, out_index, err);
    }
    bool valid = parse_number(&text, &first);
    bool pair = valid && *text == '/';
    if (pair) {
        text++;
        valid = parse_number(&text, &second);
    }
    if (!valid || *text != '\0') {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "address \"%.60s\" is none of opencl:N, opencl:PLATFORM/DEVICE and "
                         "opencl:name=TEXT",
                         address);
    }
    if (pair) {
        return find_in_platform(list, first, second, out_index, err);
    }
    if (first >= list->n_devices) {
        return kiln_fail(err, NOT_FOUND, "no OpenCL device %u: there %s %u, counted from 0", first,
                         kiln_plural(list->n_devices, "is", "are"), list->n_devices);
    }
    *out_index = first;
    return KILN_STATUS_OK;
}

kiln_status kilni_cl_device_find(const kiln_env *env, const char *address,
                                 cl_platform_id *out_platform, cl_device_id *out_device,
                                 kiln_error *err)
{
    (void)env;
    device_list list;
    cl_uint index = 0;
    kiln_status status = list_devices(&list, err);
    if (status == KILN_STATUS_OK) {
        status = find_index(&list, address, &index, err);
    }
    if (status == KILN_STATUS_OK) {
        *out_platform = list.platforms[list.platform_of[index]];
        *out_device = list.devices[index];
        status = take_part(out_device, address, err);
    }
    return status;
}

kiln_status kilni_cl_device_describe(const kiln_env *env, size_t index, char out_address[64],
                                     char out_line[192], kiln_error *err, void *user)
{
    (void)env;
    (void)user;
    device_list list;
    kiln_status status = list_devices(&list, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (index >= list.n_devices) {
        return kiln_fail(err, NOT_FOUND, "there are %u OpenCL devices", list.n_devices);
    }
    char name[256] = "";
    char platform[256] = "";
    char version[256] = "";
    cl_uint units = 0;
    cl_ulong bytes = 0;
    cl_device_id device = list.devices[index];
    // A text that is longer than its array is left empty by the driver.
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof(name) - 1, name, NULL);
    clGetDeviceInfo(device, CL_DEVICE_VERSION, sizeof(version) - 1, version, NULL);
    clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL);
    clGetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(bytes), &bytes, NULL);
    clGetPlatformInfo(list.platforms[list.platform_of[index]], CL_PLATFORM_NAME,
                      sizeof(platform) - 1, platform, NULL);
    snprintf(out_address, 64, "opencl:%zu", index);
    snprintf(out_line, 192, "%.72s, %u compute units, %.1f GiB, %.30s (%.50s)", name, units,
             (double)bytes / 1073741824.0, version, platform);
    return KILN_STATUS_OK;
}

static kiln_device_type device_type(cl_device_id device)
{
    cl_device_type type = 0;
    clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof(type), &type, NULL);
    if ((type & CL_DEVICE_TYPE_GPU) != 0) {
        return KILN_DEVICE_GPU;
    }
    return (type & CL_DEVICE_TYPE_CPU) != 0 ? KILN_DEVICE_CPU : KILN_DEVICE_ACCELERATOR;
}

kiln_status kilni_cl_device_type_of(const kiln_env *env, size_t index, kiln_device_type *out_type,
                                    kiln_error *err, void *user)
{
    (void)env;
    (void)user;
    device_list list;
    kiln_status status = list_devices(&list, err);
    if (status == KILN_STATUS_OK && index >= list.n_devices) {
        status = kiln_fail(err, NOT_FOUND, "there are %u OpenCL devices", list.n_devices);
    }
    if (status == KILN_STATUS_OK) {
        *out_type = device_type(list.devices[index]);
    }
    return status;
}

// ---- facts about one device ----

static const char *device_text(kilni_cl_backend *backend, cl_device_info what)
{
    size_t length = 0;
    clGetDeviceInfo(backend->device, what, 0, NULL, &length);
    char *text = kiln_alloc(backend->env, length + 1);
    if (text != NULL && length > 0) {
        clGetDeviceInfo(backend->device, what, length, text, NULL);
    }
    return text;
}

static const char *platform_text(kilni_cl_backend *backend, cl_platform_info what)
{
    size_t length = 0;
    clGetPlatformInfo(backend->platform, what, 0, NULL, &length);
    char *text = kiln_alloc(backend->env, length + 1);
    if (text != NULL && length > 0) {
        clGetPlatformInfo(backend->platform, what, length, text, NULL);
    }
    return text;
}

// "OpenCL 1.2 ..." gives 120.
static uint32_t parse_version(const char *text)
{
    static const char start[] = "OpenCL ";
    cl_uint major = 0;
    cl_uint minor = 0;
    if (strncmp(text, start, sizeof(start) - 1) != 0) {
        return 0;
    }
    text += sizeof(start) - 1;
    if (!parse_number(&text, &major) || *text != '.') {
        return 0;
    }
    text++;
    return parse_number(&text, &minor) ? 100 * major + 10 * minor : 0;
}

static uint32_t device_features(const kilni_cl_backend *backend)
{
    const kiln_device_info *info = &backend->info;
    size_t il_length = 0;
    uint32_t features = KILN_FEATURE_PROGRAMS;
    features |= kilni_cl_has_extension(info->extensions, "cl_khr_fp16") ? KILN_FEATURE_FP16 : 0;
    features |= kilni_cl_has_extension(info->extensions, "cl_khr_fp64") ? KILN_FEATURE_FP64 : 0;
    features |= info->type == KILN_DEVICE_ACCELERATOR ? KILN_FEATURE_SINGLE_WORK_ITEM : 0;
    features |= kilni_cl_device_number(backend->device, CL_DEVICE_HOST_UNIFIED_MEMORY)
                    ? KILN_FEATURE_UNIFIED_MEMORY
                    : 0;
    clGetDeviceInfo(backend->device, KILNI_CL_DEVICE_IL_VERSION, 0, NULL, &il_length);
    features |= il_length > 1 ? KILN_FEATURE_IL_SPIRV : 0;
    return features;
}

enum { NV_CAPABILITY_MAJOR = 0x4000, NV_CAPABILITY_MINOR = 0x4001 }; // cl_nv_device_attribute_query

/// f32 units of a compute unit. NVIDIA's by compute capability, from the throughput table of its
/// programming guide; others have 64, or say nothing.
static uint64_t gpu_lanes(const kilni_cl_backend *backend)
{
    uint64_t major = 0, minor = 0;
    if (kilni_cl_is_nvidia(backend->info.extensions)) {
        major = kilni_cl_device_number(backend->device, NV_CAPABILITY_MAJOR);
        minor = kilni_cl_device_number(backend->device, NV_CAPABILITY_MINOR);
    }
    bool half = (major == 6 && minor == 0) || major == 7 || (major == 8 && minor == 0);
    return major == 3 ? 192 : major >= 5 && !half ? 128 : 64;
}

static void estimate_speeds(kilni_cl_backend *backend)
{
    kiln_device_info *info = &backend->info;
    uint64_t hertz =
        kilni_cl_device_number(backend->device, CL_DEVICE_MAX_CLOCK_FREQUENCY) * 1000000;
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

static void read_numbers(kilni_cl_backend *backend)
{
    kiln_device_info *info = &backend->info;
    info->type = device_type(backend->device);
    info->vendor_id = (uint32_t)kilni_cl_device_number(backend->device, CL_DEVICE_VENDOR_ID);
    info->compute_units =
        (uint32_t)kilni_cl_device_number(backend->device, CL_DEVICE_MAX_COMPUTE_UNITS);
    uint64_t width = kilni_cl_device_number(backend->device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
    info->vector_bytes = width >= 4 ? (uint32_t)width * 4 : 16;
    info->memory_align =
        (uint32_t)kilni_cl_device_number(backend->device, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8;
    info->memory_bytes = kilni_cl_device_number(backend->device, CL_DEVICE_GLOBAL_MEM_SIZE);
    info->max_alloc_bytes = kilni_cl_device_number(backend->device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    info->local_bytes = kilni_cl_device_number(backend->device, CL_DEVICE_LOCAL_MEM_SIZE);
    uint64_t cache = kilni_cl_device_number(backend->device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
    info->cache_bytes =
        info->type == KILN_DEVICE_CPU ? cache_share(cache, info->compute_units) : cache;
    info->max_work_group = kilni_cl_device_number(backend->device, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    info->max_parameter_bytes =
        kilni_cl_device_number(backend->device, CL_DEVICE_MAX_PARAMETER_SIZE);
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
    uint64_t single = kilni_cl_device_number(backend->device, CL_DEVICE_SINGLE_FP_CONFIG);
    backend->compiler.exact_options = (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0
                                          ? "-cl-fp32-correctly-rounded-divide-sqrt "
                                          : "";
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
