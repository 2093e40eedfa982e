// SPDX-License-Identifier: MIT OR Apache-2.0
// A device that plans for another one, and what of it a bundle for that one may not have.

#include <string.h>

#include "bundle_maker.h"
#include "cl_backend.h"
#include "harness.h"
#include "rt_device.h"

static const kiln_device_info board = {.name = "a board",
                                       .vendor = "",
                                       .platform = "",
                                       .driver = "1",
                                       .extensions = "cl_khr_nothing",
                                       .type = KILN_DEVICE_GPU,
                                       .compute_units = 1,
                                       .vector_bytes = 16,
                                       .memory_align = 1,
                                       .cl_version = 120,
                                       .cl_c_version = 120,
                                       .memory_bytes = 1 << 20,
                                       .max_alloc_bytes = 1 << 20,
                                       .local_bytes = 1024,
                                       .flops_f16 = 9,
                                       .flops_f64 = 9,
                                       .max_work_group = 64,
                                       .max_parameter_bytes = 256,
                                       .max_work_items = {64, 32, 1}};

/// Opens the first device as another; gives the status.
static kiln_status open_as(kiln_context *context, const kiln_device_info *there,
                           kiln_device **out_device, kiln_error *err)
{
    kiln_device_options options = KILN_DEVICE_OPTIONS_INIT;
    options.plan_for = there;
    return kiln_device_open_with(context, kiln_test_address("opencl:0"), &options, out_device, err);
}

static void check_text(kiln_device *device, const char *text, const char *refused)
{
    kiln_error err = KILN_ERROR_INIT;
    uint32_t features = 0;
    const bundle_program program = {.text = text, .options = "", .exact = true};
    kiln_status status = kilni_bundle_program_fits(device->backend, &program, "p", &features, &err);
    KILN_CHECK_INT(status, refused == NULL ? KILN_STATUS_OK : KILN_STATUS_UNIMPLEMENTED);
    if (refused != NULL) {
        KILN_CHECK_CONTAINS(err.message, refused);
    }
}

static void check_texts(kiln_device *device)
{
    const uint32_t hidden = kiln_cl_hidden_features(device->backend);
    check_text(device, "__kernel void k(__global float *x) { x[0] *= 2.0f; }", NULL);
    if ((hidden & KILN_FEATURE_FP64) != 0) {
        check_text(device,
                   "__kernel void k(__global float *x) { x[0] = (float)((double)x[0] * 2); }",
                   "program p uses f64, which a board has not");
        check_text(device,
                   "#ifdef cl_khr_fp64\ntypedef double wide;\n#else\ntypedef float wide;\n#endif\n"
                   "__kernel void k(__global float *x) { x[0] = (float)((wide)x[0] * 2); }",
                   NULL);
    }
    if ((hidden & KILN_FEATURE_IMAGES) != 0) {
        check_text(device,
                   "__kernel void k(read_only image2d_t i, __global int *x) "
                   "{ x[0] = get_image_width(i); }",
                   "uses images");
    }
}

/// What texts use, found on a device that has it and plans for itself.
static void check_uses(kiln_context *context)
{
    static const struct {
        const char *text;
        const char *options;
        uint32_t features;
    } cases[] = {
        {"__kernel void k(__global float *x) { x[0] *= 2.0f; } // double image", "", 0},
        {"__kernel void k(__global float *x) { x[0] = (float)((T)x[0] * 2); }", "-DT=double",
         KILN_FEATURE_FP64},
        {"#define T(a, b) convert_##a##b\n"
         "__kernel void k(__global float *x) { x[0] = (float)(T(dou, ble)(x[0]) * 2); } // double",
         "", KILN_FEATURE_FP64},
        {"#ifdef cl_khr_fp64\ntypedef double wide;\n#else\ntypedef float wide;\n#endif\n"
         "__kernel void k(__global float *x) { x[0] = (float)((wide)x[0] * 2); }",
         "", 0},
        {"#define WIDE double\n__kernel void k(__global float *x) { x[0] *= 2.0f; }", "", 0},
        {"__kernel void k(read_only image2d_t i, __global double *x) "
         "{ x[0] = get_image_width(i); }",
         "", KILN_FEATURE_FP64 | KILN_FEATURE_IMAGES},
        {"__kernel void k(__global float *x) { x[0] /= 3.0f; }",
         "-cl-fp32-correctly-rounded-divide-sqrt", KILN_FEATURE_ROUNDED_DIVIDE_SQRT},
        {"__kernel void k(__global float *x) { x[0] = none(x[0]); } // double", "", 0},
        {"#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n"
         "__kernel void k(volatile __global ulong *x) { atom_add(x, 1ul); }",
         "", KILN_FEATURE_INT64_ATOMICS},
    };
    kiln_device *device = NULL;
    kiln_error err = KILN_ERROR_INIT;
    KILN_CHECK_INT(kiln_device_open(context, kiln_test_address("opencl:0"), &device, &err),
                   KILN_STATUS_OK);
    for (size_t i = 0; device != NULL && i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t features = 0;
        const bundle_program program = {
            .text = cases[i].text, .options = cases[i].options, .exact = false};
        KILN_CHECK_INT(kilni_bundle_program_fits(device->backend, &program, "p", &features, &err),
                       KILN_STATUS_OK);
        const uint32_t wanted = cases[i].features & kiln_device_info_of(device)->features;
        if (features != wanted) {
            KILN_FAIL("%s: uses %x, not %x", cases[i].text, features, wanted);
        }
    }
    kiln_device_release(device);
}

static void check_sizes(kiln_device *device)
{
    static const struct {
        bundle_wants wants;
        uint64_t local[3];
        const char *refused;
    } launches[] = {
        {{.work_group = 64, .local_bytes = 1024, .parameter_bytes = 256}, {64, 1, 1}, NULL},
        {{.work_group = 65}, {1, 1, 1}, "kernel k wants 65 work-items in a group, a board has 64"},
        {{.local_bytes = 1025}, {1, 1, 1}, "wants 1025 bytes of local memory"},
        {{.parameter_bytes = 257}, {1, 1, 1}, "wants 257 bytes of arguments"},
        {{.work_group = 64}, {1, 64, 1}, "wants 64 work-items in a group along y, a board has 32"},
    };
    for (size_t i = 0; i < sizeof(launches) / sizeof(launches[0]); i++) {
        kiln_error err = KILN_ERROR_INIT;
        bundle_step step = {.n_dims = 3};
        memcpy(step.local, launches[i].local, sizeof(step.local));
        kiln_status status = kilni_bundle_launch_fits(kiln_device_info_of(device), "k", &step,
                                                      &launches[i].wants, &err);
        const char *refused = launches[i].refused;
        KILN_CHECK_INT(status, refused == NULL ? KILN_STATUS_OK : KILN_STATUS_UNIMPLEMENTED);
        if (refused != NULL) {
            KILN_CHECK_CONTAINS(err.message, refused);
        }
    }
}

static void test_what_another_device_lacks(void)
{
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_device *again = NULL;
    kiln_error err = KILN_ERROR_INIT;
    KILN_CHECK_INT(kiln_context_create(NULL, &context, &err), KILN_STATUS_OK);
    kiln_status status = open_as(context, &board, &device, &err);
    if (status == KILN_STATUS_NOT_FOUND) {
        kiln_test_skip("%s", err.message);
        kiln_context_destroy(context);
        return;
    }
    KILN_CHECK_INT(status, KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK_CONTAINS(err.message, "plans for itself alone");
    KILN_CHECK_INT(kiln_context_set(context, "compiler", "record", &err), KILN_STATUS_OK);
    kiln_device_info holes = board;
    holes.vector_bytes = 8;
    KILN_CHECK_INT(open_as(context, &holes, &device, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(open_as(context, &board, &device, &err), KILN_STATUS_OK);
    if (device != NULL) {
        const kiln_device_info *info = kiln_device_info_of(device);
        KILN_CHECK_STR(info->name, "a board");
        KILN_CHECK_STR(info->extensions, "");
        KILN_CHECK_INT(info->max_work_group, 64);
        KILN_CHECK_INT(info->features & (KILN_FEATURE_FP64 | KILN_FEATURE_IMAGES), 0);
        KILN_CHECK_INT(info->flops_f16, 0); // it has none of them
        KILN_CHECK_INT(info->flops_f64, 0);
        KILN_CHECK(!kiln_device_has_groups(info));
        KILN_CHECK_INT(open_as(context, &board, &again, &err), KILN_STATUS_ALREADY_EXISTS);
        check_texts(device);
        check_sizes(device);
    }
    kiln_device_release(device);
    check_uses(context);
    kiln_context_destroy(context);
}

KILN_TEST_MAIN("unit/runtime/bundle_elsewhere", KILN_TEST(test_what_another_device_lacks))
