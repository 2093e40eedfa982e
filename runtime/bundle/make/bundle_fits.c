// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether the device that a bundle is planned for can run a kernel, when that device is not here.
// Sizes are compared with its facts. What the text uses of this device alone shows when the text is
// compiled without the names of it, so that conditions of the text count as the compiler reads
// them.

#include "bundle_maker.h"

#include "rt_device.h"
#ifdef KILN_RUNTIME_CL
#include "cl_backend.h"

#include <string.h>

// ---- sizes ----

static kiln_status too_large(const kiln_device_info *device, const char *kernel, const char *what,
                             uint64_t wanted, uint64_t has, kiln_error *err)
{
    return kiln_fail(err, UNIMPLEMENTED, "kernel %.60s wants %llu %s, %.60s has %llu", kernel,
                     (unsigned long long)wanted, what, device->name, (unsigned long long)has);
}

kiln_status kilni_bundle_launch_fits(const kiln_device_info *device, const char *kernel,
                                     const bundle_step *step, const bundle_wants *wants,
                                     kiln_error *err)
{
    const struct {
        const char *what;
        uint64_t wanted;
        uint64_t has; ///< 0: not known
    } sizes[] = {
        {"work-items in a group", wants->work_group, device->max_work_group},
        {"bytes of local memory", wants->local_bytes, device->local_bytes},
        {"bytes of arguments", wants->parameter_bytes, device->max_parameter_bytes},
        {"work-items in a group along x", step->local[0], device->max_work_items[0]},
        {"work-items in a group along y", step->local[1], device->max_work_items[1]},
        {"work-items in a group along z", step->local[2], device->max_work_items[2]},
    };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (sizes[i].has != 0 && sizes[i].wanted > sizes[i].has) {
            return too_large(device, kernel, sizes[i].what, sizes[i].wanted, sizes[i].has, err);
        }
    }
    return KILN_STATUS_OK;
}

// ---- what a text uses ----

/// Names that a text has no more. Half as a type of memory needs no extension, so the pragma and
/// the vectors tell of f16.
static const struct {
    uint32_t feature;
    const char *what;
    const char *without; ///< conditions on the feature do not hold
    const char *names[20];
} uses[] = {
    {KILN_FEATURE_FP64,
     "f64",
     "#undef cl_khr_fp64\n#undef __opencl_c_fp64\n",
     {"double", "double2", "double3", "double4", "double8", "double16"}},
    {KILN_FEATURE_FP16,
     "f16",
     "#undef cl_khr_fp16\n#pragma OPENCL EXTENSION cl_khr_fp16 : disable\n",
     {"half2", "half3", "half4", "half8", "half16"}},
    {KILN_FEATURE_SUBGROUPS,
     "subgroups",
     "#undef cl_khr_subgroups\n#undef cl_intel_subgroups\n#undef __opencl_c_subgroups\n",
     {"get_sub_group_size", "get_max_sub_group_size", "get_num_sub_groups", "get_sub_group_id",
      "get_sub_group_local_id", "sub_group_barrier", "sub_group_all", "sub_group_any",
      "sub_group_broadcast", "sub_group_reduce_add", "sub_group_reduce_min", "sub_group_reduce_max",
      "sub_group_scan_inclusive_add", "sub_group_scan_exclusive_add"}},
    {KILN_FEATURE_IMAGES,
     "images",
     "#undef __IMAGE_SUPPORT__\n#undef __opencl_c_images\n",
     {"image1d_t", "image1d_buffer_t", "image1d_array_t", "image2d_t", "image2d_array_t",
      "image3d_t", "sampler_t"}},
};

static void skip_argument(const kiln_cl_argument *argument, void *user)
{
    (void)argument;
    (void)user;
}

static kiln_status try_without(kiln_backend *backend, const bundle_program *program, size_t use,
                               const char *label, kiln_error *err)
{
    const kiln_device_info *device = backend->device->info(backend);
    kiln_string text;
    kiln_string_init(&text, backend->env);
    kiln_string_printf(&text, "%s", uses[use].without);
    for (size_t i = 0; uses[use].names[i] != NULL; i++) {
        kiln_string_printf(&text, "#define %s kiln_has_no_%s\n", uses[use].names[i],
                           uses[use].names[i]);
    }
    kiln_string_append(&text, program->text, strlen(program->text));
    kiln_status status = text.failed ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a program")
                                     : kiln_cl_arguments(backend, text.text, program->options,
                                                         program->exact, skip_argument, NULL, err);
    kiln_string_fini(&text);
    return status != KILN_STATUS_BUILD_FAILED
               ? status
               : kiln_fail(err, UNIMPLEMENTED, "program %.60s uses %s, which %.60s has not", label,
                           uses[use].what, device->name);
}

kiln_status kilni_bundle_program_fits(kiln_backend *backend, const bundle_program *program,
                                      const char *label, kiln_error *err)
{
    const uint32_t hidden = kiln_cl_hidden_features(backend);
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]) && status == KILN_STATUS_OK; i++) {
        if ((hidden & uses[i].feature) != 0) {
            status = try_without(backend, program, i, label, err);
        }
    }
    return status;
}

#endif
