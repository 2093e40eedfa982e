// SPDX-License-Identifier: MIT OR Apache-2.0
// Which devices there are, and which one an address means. A platform that does not say is passed
// over where others have devices. What is known about one is cl_facts.c's.

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl_device.h"
#include "cl_error.h"
#include "cl_query.h"
#include "cl_workers.h"

enum { MAX_PLATFORMS = 32, MAX_DEVICES = 64, PLATFORM_NOT_FOUND = -1001 /* of cl_khr_icd */ };

typedef struct device_list { ///< all devices in the loader's order
    cl_uint n_platforms;
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint n_devices;
    cl_device_id devices[MAX_DEVICES];
    cl_uint platform_of[MAX_DEVICES];
    cl_uint within[MAX_DEVICES]; ///< number inside its platform
} device_list;

// ---- enumeration ----

/// Gives why a platform has none, where that is more than that.
static cl_int list_platform(device_list *list, cl_uint platform)
{
    cl_device_id found[MAX_DEVICES];
    cl_uint count = 0;
    cl_int code =
        clGetDeviceIDs(list->platforms[platform], CL_DEVICE_TYPE_ALL, MAX_DEVICES, found, &count);
    if (code != CL_SUCCESS) {
        return code != CL_DEVICE_NOT_FOUND ? code : CL_SUCCESS;
    }
    for (cl_uint i = 0; i < count && i < MAX_DEVICES && list->n_devices < MAX_DEVICES; i++) {
        list->devices[list->n_devices] = found[i];
        list->platform_of[list->n_devices] = platform;
        list->within[list->n_devices] = i;
        list->n_devices++;
    }
    return CL_SUCCESS;
}

static kiln_status list_devices(device_list *list, kiln_error *err)
{
    memset(list, 0, sizeof(*list));
    kilni_cl_bind_workers();
    cl_int code = clGetPlatformIDs(MAX_PLATFORMS, list->platforms, &list->n_platforms);
    if (code != CL_SUCCESS && code != PLATFORM_NOT_FOUND) {
        return kilni_cl_fail(NULL, err, code, "asking for platforms");
    }
    if (list->n_platforms == 0) {
        return kiln_fail(err, NOT_FOUND,
                         "no OpenCL platform is installed; Debian has one in pocl-opencl-icd");
    }
    list->n_platforms = list->n_platforms < MAX_PLATFORMS ? list->n_platforms : MAX_PLATFORMS;
    for (cl_uint i = 0; i < list->n_platforms; i++) {
        cl_int why = list_platform(list, i); // the others may do without it
        code = code == CL_SUCCESS ? why : code;
    }
    if (list->n_devices == 0 && code != CL_SUCCESS) {
        return kilni_cl_fail(NULL, err, code, "asking %u OpenCL platforms for devices",
                             list->n_platforms);
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
    cl_int code =
        clGetDeviceInfo(*device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL);
    if (code != CL_SUCCESS) {
        return kilni_cl_fail(NULL, err, code, "how many compute units a device has");
    }
    const cl_device_partition_property how[] = {CL_DEVICE_PARTITION_EQUALLY,
                                                (cl_device_partition_property)(units / count), 0};
    if (units < count || units / (units / count) > MAX_DEVICES) { // there are at least `count`
        return kiln_fail(err, NOT_FOUND, "%u parts of a device with %u compute units", count,
                         units);
    }
    code = clCreateSubDevices(*device, how, MAX_DEVICES, parts, &made);
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
        cl_device_type type = 0;
        cl_int code =
            clGetDeviceInfo(list.devices[index], CL_DEVICE_TYPE, sizeof(type), &type, NULL);
        status = code == CL_SUCCESS ? KILN_STATUS_OK
                                    : kilni_cl_fail(NULL, err, code, "the type of a device");
        *out_type = kilni_cl_device_type(type);
    }
    return status;
}
