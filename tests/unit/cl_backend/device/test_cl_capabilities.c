// SPDX-License-Identifier: MIT OR Apache-2.0
// What a device can do, as fusers are told it, against what its driver says when it is asked here.

#include <stdio.h>
#include <string.h>

#include "cl_fixture.h"

static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = strstr(words, word); at != NULL; at = strstr(at + 1, word)) {
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

/// The newest OpenCL C of the list that devices of OpenCL 3.0 have; of others, the one they name.
static void check_c_version(const kiln_device_info *info, cl_device_id device)
{
    struct {
        cl_uint version;
        char name[64];
    } all[32];
    char text[256] = "";
    size_t bytes = 0;
    unsigned major = 0;
    unsigned minor = 0;
    unsigned newest = 0;
    if (info->cl_version >= 300) {
        KILN_CHECK_INT(clGetDeviceInfo(device, 0x1066 /* CL_DEVICE_OPENCL_C_ALL_VERSIONS */,
                                       sizeof(all), all, &bytes),
                       CL_SUCCESS);
        KILN_CHECK(bytes >= sizeof(all[0]));
        for (size_t i = 0; i < bytes / sizeof(all[0]); i++) {
            unsigned version = 100 * (all[i].version >> 22) + 10 * (all[i].version >> 12 & 0x3ff);
            newest = version > newest ? version : newest;
        }
    } else {
        clGetDeviceInfo(device, CL_DEVICE_OPENCL_C_VERSION, sizeof(text) - 1, text, NULL);
        KILN_CHECK_INT(sscanf(text, "OpenCL C %u.%u", &major, &minor), 2);
        newest = 100 * major + 10 * minor;
    }
    KILN_CHECK_INT(info->cl_c_version, newest);
}

static void check_subgroups(const kiln_device_info *info, cl_device_id device)
{
    cl_uint most = 0;
    if (info->cl_version >= 210 &&
        clGetDeviceInfo(device, 0x105C /* CL_DEVICE_MAX_NUM_SUB_GROUPS */, sizeof(most), &most,
                        NULL) != CL_SUCCESS) {
        most = 0;
    }
    bool has = has_word(info->extensions, "cl_khr_subgroups") ||
               has_word(info->extensions, "cl_intel_subgroups") || most > 0;
    bool sized = has_word(info->extensions, "cl_intel_required_subgroup_size");
    bool vendor = has_word(info->extensions, "cl_nv_device_attribute_query") ||
                  has_word(info->extensions, "cl_amd_device_attribute_query");
    KILN_CHECK_INT((info->features & KILN_FEATURE_SUBGROUPS) != 0, has);
    KILN_CHECK_INT(info->subgroup_sizes != 0, sized);
    KILN_CHECK_INT(info->subgroup_size != 0, sized || vendor);
    if (sized && !vendor) { // the largest of them
        KILN_CHECK_INT(info->subgroup_sizes & info->subgroup_size, info->subgroup_size);
        KILN_CHECK(info->subgroup_sizes < 2ull * info->subgroup_size);
    }
}

static void check_optional(const kiln_device_info *info)
{
    static const struct {
        uint32_t feature;
        const char *extension;
    } features[] = {{KILN_FEATURE_INT64_ATOMICS, "cl_khr_int64_base_atomics"},
                    {KILN_FEATURE_FLOAT_ATOMICS, "cl_ext_float_atomics"},
                    {KILN_FEATURE_FP16, "cl_khr_fp16"},
                    {KILN_FEATURE_FP64, "cl_khr_fp64"},
                    {KILN_FEATURE_COMMAND_BUFFER, "cl_khr_command_buffer"}};
    for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
        if (((info->features & features[i].feature) != 0) !=
            has_word(info->extensions, features[i].extension)) {
            KILN_FAIL("%s and feature %x differ", features[i].extension, features[i].feature);
        }
    }
    KILN_CHECK_INT(info->flops_f16 > 0, (info->features & KILN_FEATURE_FP16) != 0);
    KILN_CHECK((info->features & KILN_FEATURE_FP64) == 0 || info->flops_f64 <= info->flops_f32);
    KILN_CHECK((info->features & KILN_FEATURE_FP64) != 0 || info->flops_f64 == 0);
}

/* What fusers are told of the device is what its driver says. */
static void test_capabilities(void)
{
    cl_fixture f;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    const kiln_device_info *info = f.base->device->info(f.base);
    cl_device_id device = f.backend->device;
    size_t items[8] = {0};
    cl_uint line = 0;
    cl_device_fp_config single = 0;
    cl_bool images = CL_FALSE;
    clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof(items), items, NULL);
    clGetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE, sizeof(line), &line, NULL);
    clGetDeviceInfo(device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof(single), &single, NULL);
    clGetDeviceInfo(device, CL_DEVICE_IMAGE_SUPPORT, sizeof(images), &images, NULL);
    for (int i = 0; i < 3; i++) {
        KILN_CHECK(info->max_work_items[i] > 0);
        KILN_CHECK_INT(info->max_work_items[i], items[i]);
    }
    KILN_CHECK_INT(info->cache_line_bytes, line);
    KILN_CHECK(info->cl_c_version >= 120);
    KILN_CHECK(info->cl_c_version <= info->cl_version);
    check_c_version(info, device);
    check_subgroups(info, device);
    check_optional(info);
    KILN_CHECK_INT((info->features & KILN_FEATURE_DENORMALS) != 0, (single & CL_FP_DENORM) != 0);
    KILN_CHECK_INT((info->features & KILN_FEATURE_ROUNDED_DIVIDE_SQRT) != 0,
                   (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0);
    KILN_CHECK_INT((info->features & KILN_FEATURE_IMAGES) != 0, images != CL_FALSE);
    cl_fixture_close(&f);
}

KILN_TEST_MAIN("unit/cl_backend/capabilities", KILN_TEST(test_capabilities))
