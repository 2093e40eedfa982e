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

/// Found by an option of the program, or by names that a text has no more and does not compile
/// without. Half as a type of memory needs no extension, so the pragma and the vectors tell of f16.
/// Of the functions of 64-bit atomics those of OpenCL 1.2 have the names that 32 bits had in 1.0;
/// a text has the newer ones for these.
static const struct bundle_use {
    uint32_t feature;
    const char *option;
    const char *stem; ///< in all of the names: a text without it uses none of them
    const char *without; ///< conditions on the feature do not hold
    const char *names[24];
} uses[] = {
    {KILN_FEATURE_FP64,
     NULL,
     "double",
     "#undef cl_khr_fp64\n#undef __opencl_c_fp64\n",
     {"double", "double2", "double3", "double4", "double8", "double16", "convert_double",
      "as_double"}},
    {KILN_FEATURE_FP16,
     NULL,
     "half",
     "#undef cl_khr_fp16\n#pragma OPENCL EXTENSION cl_khr_fp16 : disable\n",
     {"half2", "half3", "half4", "half8", "half16", "convert_half", "as_half"}},
    {KILN_FEATURE_SUBGROUPS,
     NULL,
     "sub_group",
     "#undef cl_khr_subgroups\n#undef cl_intel_subgroups\n#undef __opencl_c_subgroups\n",
     {"get_sub_group_size", "get_max_sub_group_size", "get_num_sub_groups", "get_sub_group_id",
      "get_sub_group_local_id", "sub_group_barrier", "sub_group_all", "sub_group_any",
      "sub_group_broadcast", "sub_group_reduce_add", "sub_group_reduce_min", "sub_group_reduce_max",
      "sub_group_scan_inclusive_add", "sub_group_scan_exclusive_add", "intel_sub_group_shuffle",
      "intel_sub_group_shuffle_xor", "intel_sub_group_block_read", "intel_sub_group_block_write"}},
    {KILN_FEATURE_IMAGES,
     NULL,
     "image",
     "#undef __IMAGE_SUPPORT__\n#undef __opencl_c_images\n",
     {"image1d_t", "image1d_buffer_t", "image1d_array_t", "image2d_t", "image2d_array_t",
      "image3d_t"}},
    {KILN_FEATURE_INT64_ATOMICS,
     NULL,
     "atom",
     "#undef cl_khr_int64_base_atomics\n#undef cl_khr_int64_extended_atomics\n",
     {"atom_add", "atom_sub", "atom_xchg", "atom_inc", "atom_dec", "atom_cmpxchg", "atom_min",
      "atom_max", "atom_and", "atom_or", "atom_xor", "atomic_long", "atomic_ulong",
      "atomic_double"}},
    {KILN_FEATURE_FLOAT_ATOMICS,
     NULL,
     "atomic_float",
     "#undef cl_ext_float_atomics\n",
     {"atomic_float"}},
    {KILN_FEATURE_ROUNDED_DIVIDE_SQRT,
     "-cl-fp32-correctly-rounded-divide-sqrt",
     NULL,
     NULL,
     {NULL}},
    {KILN_FEATURE_WGMMA, "KILN_PTX_TARGET=sm_90a", NULL, NULL, {NULL}},
};

enum { USES = sizeof(uses) / sizeof(uses[0]) };

static void skip_argument(const kiln_cl_argument *argument, void *user)
{
    (void)argument;
    (void)user;
}

/// Whether the text compiles where none of the features are.
static kiln_status try_without(kiln_backend *backend, const bundle_program *program,
                               uint32_t features, bool *out_compiles, kiln_error *err)
{
    kiln_string text;
    kiln_string_init(&text, backend->env);
    for (size_t i = 0; i < USES; i++) {
        if ((features & uses[i].feature) == 0) {
            continue;
        }
        kiln_string_printf(&text, "%s", uses[i].without);
        for (size_t k = 0; uses[i].names[k] != NULL; k++) {
            kiln_string_printf(&text, "#define %s kiln_has_no_%s\n", uses[i].names[k],
                               uses[i].names[k]);
        }
    }
    kiln_string_append(&text, program->text, strlen(program->text));
    kiln_status status = text.failed ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a program")
                                     : kiln_cl_arguments(backend, text.text, program->options,
                                                         program->exact, skip_argument, NULL, err);
    *out_compiles = status != KILN_STATUS_BUILD_FAILED;
    kiln_string_fini(&text);
    return *out_compiles ? status : KILN_STATUS_OK;
}

/// Which of the features the text does not compile without: none of a text that this compiler does
/// not take at all.
static kiln_status ask_compiler(kiln_backend *backend, const bundle_program *program,
                                uint32_t features, uint32_t *out_features, kiln_error *err)
{
    bool compiles = true;
    bool whole = false;
    kiln_status status = KILN_STATUS_OK;
    if (features != 0) {
        KILN_TRY(out, status, try_without(backend, program, features, &compiles, err));
    }
    if (!compiles) {
        KILN_TRY(out, status, try_without(backend, program, 0, &whole, err));
    }
    if (whole && (features & (features - 1)) == 0) { // it is the only one
        *out_features |= features;
        goto out;
    }
    for (size_t i = 0; i < USES && whole; i++) {
        if ((features & uses[i].feature) != 0) {
            KILN_TRY(out, status, try_without(backend, program, uses[i].feature, &compiles, err));
            *out_features |= compiles ? 0 : uses[i].feature;
        }
    }
out:
    return status;
}

kiln_status kilni_bundle_program_fits(kiln_backend *backend, const bundle_program *program,
                                      const char *label, uint32_t *out_features, kiln_error *err)
{
    const kiln_device_info *device = backend->device->info(backend);
    const uint32_t hidden = kiln_cl_hidden_features(backend);
    uint32_t named = 0;
    *out_features = 0;
    for (size_t i = 0; i < USES; i++) {
        const uint32_t feature = uses[i].feature & (device->features | hidden);
        const char *option = uses[i].option;
        const char *stem = uses[i].stem;
        *out_features |= option != NULL && strstr(program->options, option) != NULL ? feature : 0;
        named |= stem != NULL && (strstr(program->text, stem) != NULL ||
                                  strstr(program->options, stem) != NULL)
                     ? feature
                     : 0;
    }
    kiln_status status = ask_compiler(backend, program, named, out_features, err);
    const bundle_wants wants = {.features = *out_features & hidden};
    const bundle_feature *lacks = kilni_bundle_lacks(&wants, device);
    return status != KILN_STATUS_OK || lacks == NULL
               ? status
               : kiln_fail(err, UNIMPLEMENTED, "program %.60s uses %s, which %.60s has not", label,
                           lacks->what, device->name);
}

#endif
