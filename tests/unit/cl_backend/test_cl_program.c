// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs of fusers and built-in kernels: building, launching, timing, and everything that can be
// wrong with them.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cl_fixture.h"
#include "cl_launch.h"

static const char two_kernels[] =
    "__kernel void scale(__global float *x, float by) { x[get_global_id(0)] *= by; }\n"
    "__kernel __attribute__((reqd_work_group_size(4, 1, 1)))\n"
    "void sums(__global const float *x, __global float *out, __local float *part) {\n"
    "  uint i = get_local_id(0); part[i] = x[get_global_id(0)]; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  if (i == 0) out[get_group_id(0)] = part[0] + part[1] + part[2] + part[3]; }\n";

static const char *const two_names[] = {"scale", "sums"};

static kiln_status build(cl_fixture *f, const char *source, const char *kernel,
                         kiln_built **out_built, kiln_error *err)
{
    cl_program_text text;
    cl_program_text_init(&text, source, &kernel, 1);
    return f->base->program->build(f->base, &text.program, out_built, err);
}

static void run_scale(cl_fixture *f, kiln_built *built, kiln_buffer *x, float by)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_launch_arg args[2] = {{.kind = KILN_VALUE_BUFFER, .buffer = x},
                               {.kind = KILN_VALUE_BYTES, .length = 4}};
    memcpy(&args[1].bytes, &by, sizeof(by));
    kiln_launch launch = {.n_dims = 1, .global = {8, 1, 1}, .args = args, .n_args = 2};
    KILN_CHECK_INT(f->base->program->launch(f->base, built, &launch, &err), KILN_STATUS_OK);
}

static void test_launches(void)
{
    cl_fixture f;
    cl_program_text text;
    kiln_built *built = NULL;
    kiln_error err = KILN_ERROR_INIT;
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    float sums[2] = {0};
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    cl_program_text_init(&text, two_kernels, two_names, 2);
    KILN_CHECK_INT(f.base->program->build(f.base, &text.program, &built, &err), KILN_STATUS_OK);
    kiln_buffer *in = cl_fixture_buffer(&f, sizeof(x), x);
    kiln_buffer *out = cl_fixture_buffer(&f, sizeof(sums), NULL);
    run_scale(&f, built, in, 0.5f);
    kiln_launch_arg args[3] = {{.kind = KILN_VALUE_BUFFER, .buffer = in},
                               {.kind = KILN_VALUE_BUFFER, .buffer = out},
                               {.kind = KILN_VALUE_LOCAL, .bytes = 16}};
    // No local size: the kernel's own is used.
    kiln_launch launch = {.launch = 1, .n_dims = 1, .global = {8, 1, 1}, .args = args, .n_args = 3};
    KILN_CHECK_INT(f.base->program->launch(f.base, built, &launch, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(f.base->transfer->read(f.base, out, 0, sums, sizeof(sums), &err),
                   KILN_STATUS_OK);
    KILN_CHECK_NEAR(sums[0], 5.0, 0);
    KILN_CHECK_NEAR(sums[1], 13.0, 0);
    f.base->memory->free(f.base, in);
    f.base->memory->free(f.base, out);
    f.base->program->free(f.base, built);
    f.base->program->free(f.base, NULL);
    cl_fixture_close(&f);
}

static void test_build_failure_carries_the_log(void)
{
    cl_fixture f;
    kiln_built *built = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_backend_stats stats;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    KILN_CHECK_INT(build(&f, "__kernel void broken(__global float *x)\n{ x[0] = no_such_name; }\n",
                         "broken", &built, &err),
                   KILN_STATUS_BUILD_FAILED);
    KILN_CHECK(built == NULL);
    KILN_CHECK_CONTAINS(err.message, "broken does not compile");
    KILN_CHECK_CONTAINS(err.message, "no_such_name");
    if (f.backend->pocl) { // lines are those of the given source; NVIDIA's compiler ignores #line
        KILN_CHECK_CONTAINS(err.message, "error: 2:10: use of");
    }
    KILN_CHECK_CONTAINS(f.log, "no_such_name");
    // The next program is not disturbed.
    KILN_CHECK_INT(
        build(&f, "__kernel void fine(__global float *x) { x[0] = 1; }", "fine", &built, &err),
        KILN_STATUS_OK);
    f.base->device->stats(f.base, &stats);
    KILN_CHECK_INT(stats.programs_built, 1);
    f.base->program->free(f.base, built);
    cl_fixture_close(&f);
}

static void test_what_a_program_may_not_be(void)
{
    static const char *const defines[] = {"A=1 -DB=2"};
    cl_fixture f;
    cl_program_text text;
    kiln_built *built = NULL;
    kiln_error err = KILN_ERROR_INIT;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    KILN_CHECK_INT(build(&f, two_kernels, "nothing", &built, &err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_CONTAINS(err.message, "kernel nothing");
    cl_program_text_init(&text, two_kernels, two_names, 2);
    text.launches[1].source = 1;
    KILN_CHECK_INT(f.base->program->build(f.base, &text.program, &built, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    cl_program_text_init(&text, two_kernels, two_names, 2);
    text.source.defines = defines;
    text.source.n_defines = 1;
    KILN_CHECK_INT(f.base->program->build(f.base, &text.program, &built, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    cl_program_text_init(&text, two_kernels, two_names, 2);
    text.source.format = KILN_SOURCE_BINARY;
    text.source.fingerprint.low = 1;
    KILN_CHECK_INT(f.base->program->build(f.base, &text.program, &built, &err),
                   KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK_CONTAINS(err.message, "binary is for device");
    text.source.fingerprint.low = 0;
    KILN_CHECK(f.base->program->build(f.base, &text.program, &built, &err) != KILN_STATUS_OK);
    text.source.format = KILN_SOURCE_SPIRV;
    KILN_CHECK(f.base->program->build(f.base, &text.program, &built, &err) != KILN_STATUS_OK);
    KILN_CHECK(built == NULL);
    cl_fixture_close(&f);
}

/* A vendor's options reach the compiler: one that it does not know fails, and another program is
 * built for others. */
static void test_options_of_a_vendor(void)
{
    cl_fixture f;
    cl_program_text text;
    kiln_built *plain = NULL, *other = NULL, *none = NULL;
    kiln_backend_stats stats;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    cl_program_text_init(&text, two_kernels, two_names, 2);
    KILN_CHECK_INT(f.base->program->build(f.base, &text.program, &plain, NULL), KILN_STATUS_OK);
    text.source.vendor_options = "-cl-opt-disable";
    KILN_CHECK_INT(f.base->program->build(f.base, &text.program, &other, NULL), KILN_STATUS_OK);
    f.base->device->stats(f.base, &stats);
    KILN_CHECK_INT(stats.programs_built, 2);
    text.source.vendor_options = "-cl-nv-that-nobody-has=1";
    KILN_CHECK_INT(f.base->program->build(f.base, &text.program, &none, NULL),
                   KILN_STATUS_BUILD_FAILED);
    KILN_CHECK(none == NULL);
    f.base->program->free(f.base, plain);
    f.base->program->free(f.base, other);
    cl_fixture_close(&f);
}

static void test_what_a_launch_may_not_be(void)
{
    cl_fixture f;
    cl_program_text text;
    kiln_built *built = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_launch_arg args[3] = {{.kind = KILN_VALUE_BYTES, .length = 4},
                               {.kind = KILN_VALUE_BYTES, .length = 2}};
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    cl_program_text_init(&text, two_kernels, two_names, 2);
    KILN_CHECK_INT(f.base->program->build(f.base, &text.program, &built, &err), KILN_STATUS_OK);
    kiln_launch launch = {.n_dims = 1, .global = {8, 1, 1}, .args = args, .n_args = 1};
    KILN_CHECK_INT(f.base->program->launch(f.base, built, &launch, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "scale takes 2 arguments, not 1");
    launch.launch = 2;
    KILN_CHECK_INT(f.base->program->launch(f.base, built, &launch, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    launch.launch = 0;
    launch.n_dims = 4;
    KILN_CHECK_INT(f.base->program->launch(f.base, built, &launch, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    launch.n_dims = 1;
    launch.n_args = 2;
    KILN_CHECK_INT(f.base->program->launch(f.base, built, &launch, &err),
                   KILN_STATUS_INVALID_ARGUMENT); // of the wrong size
    f.base->program->free(f.base, built);
    cl_fixture_close(&f);
}

static void test_nothing_to_launch(void)
{
    cl_fixture f;
    kiln_built *built = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_backend_stats stats;
    kiln_launch_arg arg = {.kind = KILN_VALUE_BUFFER};
    uint64_t ns = 1;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    KILN_CHECK_INT(
        build(&f, "__kernel void fine(__global float *x) { x[0] = 1; }", "fine", &built, &err),
        KILN_STATUS_OK);
    kiln_launch launch = {.n_dims = 2, .global = {8, 0, 1}, .args = &arg, .n_args = 1};
    KILN_CHECK_INT(f.base->program->launch(f.base, built, &launch, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(f.base->program->time(f.base, built, &launch, &ns, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(ns, 0);
    f.base->device->stats(f.base, &stats);
    KILN_CHECK_INT(stats.kernels_launched, 0);
    f.base->program->free(f.base, built);
    cl_fixture_close(&f);
}

static void test_timing(void)
{
    static const char slow[] =
        "__kernel void slow(__global float *x, uint n)\n"
        "{ float s = x[0]; for (uint i = 0; i < n; i++) s = s * 0.5f + x[1];\n"
        "  x[get_global_id(0)] = s; }";
    cl_fixture f;
    kiln_built *built = NULL;
    kiln_error err = KILN_ERROR_INIT;
    float x[2] = {1, 1};
    uint64_t short_ns = 0;
    uint64_t long_ns = 0;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    KILN_CHECK_INT(build(&f, slow, "slow", &built, &err), KILN_STATUS_OK);
    kiln_buffer *buffer = cl_fixture_buffer(&f, sizeof(x), x);
    kiln_launch_arg args[2] = {{.kind = KILN_VALUE_BUFFER, .buffer = buffer},
                               {.kind = KILN_VALUE_BYTES, .length = 4, .bytes = 1000}};
    kiln_launch launch = {
        .n_dims = 1, .global = {1, 1, 1}, .local = {1, 1, 1}, .args = args, .n_args = 2};
    KILN_CHECK_INT(f.base->program->time(f.base, built, &launch, &short_ns, &err), KILN_STATUS_OK);
    args[1].bytes = 10000000;
    KILN_CHECK_INT(f.base->program->time(f.base, built, &launch, &long_ns, &err), KILN_STATUS_OK);
    KILN_CHECK(long_ns > 1000000);
    KILN_CHECK_INT(f.base->transfer->read(f.base, buffer, 0, x, sizeof(x), &err), KILN_STATUS_OK);
    KILN_CHECK_NEAR(x[0], 2.0, 1e-6);
    f.base->memory->free(f.base, buffer);
    f.base->program->free(f.base, built);
    cl_fixture_close(&f);
}

// Strict arithmetic unless asked for: a * b + c rounds twice.
static void test_contraction(void)
{
    static const char source[] =
        "__kernel void mad3(__global const float *x, __global float *out)\n"
        "{ out[0] = x[0] * x[1] + x[2]; }";
    static const char *const name[] = {"mad3"};
    cl_fixture f;
    cl_program_text text;
    kiln_built *built = NULL;
    kiln_error err = KILN_ERROR_INIT;
    const float x[3] = {1.0f + 0x1p-12f, 1.0f + 0x1p-12f, -1.0f};
    float out = 0;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    cl_program_text_init(&text, source, name, 1);
    KILN_CHECK_INT(f.base->program->build(f.base, &text.program, &built, &err), KILN_STATUS_OK);
    kiln_buffer *in = cl_fixture_buffer(&f, sizeof(x), x);
    kiln_buffer *result = cl_fixture_buffer(&f, sizeof(out), NULL);
    kiln_launch_arg args[2] = {{.kind = KILN_VALUE_BUFFER, .buffer = in},
                               {.kind = KILN_VALUE_BUFFER, .buffer = result}};
    kiln_launch launch = {
        .n_dims = 1, .global = {1, 1, 1}, .local = {1, 1, 1}, .args = args, .n_args = 2};
    KILN_CHECK_INT(f.base->program->launch(f.base, built, &launch, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(f.base->transfer->read(f.base, result, 0, &out, sizeof(out), &err),
                   KILN_STATUS_OK);
    KILN_CHECK_NEAR(out, 0x1p-11, 0); // fused it would be 0x1p-11 + 0x1p-24
    f.base->memory->free(f.base, in);
    f.base->memory->free(f.base, result);
    f.base->program->free(f.base, built);
    cl_fixture_close(&f);
}

static void test_built_in_kernels(void)
{
    static const char source[] = "__kernel void kiln_probe(__global int *x) { x[0] = VALUE; }\n";
    cl_fixture f;
    kilni_cl_kernel *kernels[40];
    kiln_error err = KILN_ERROR_INIT;
    const char *folder = kiln_test_tmpdir();
    cl_settings settings = {.kernel_dir = folder};
    if (!kiln_test_write_file(kiln_test_path(folder, "probe.cl"), source, sizeof(source) - 1) ||
        !kiln_test_write_file(kiln_test_path(folder, "prelude.cl"), "\n", 1) ||
        !cl_fixture_open(&f, &settings)) {
        return;
    }
    const size_t one = 1;
    kiln_buffer *buffer = cl_fixture_buffer(&f, 4, NULL);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 40; i++) {
            char defines[32];
            kilni_cl_kernel *kernel = NULL;
            kiln_string text;
            kiln_string_init(&text, &f.env);
            kiln_string_printf(&text, "-DVALUE=%d", i % 3);
            memcpy(defines, text.text, text.length + 1);
            kiln_string_fini(&text);
            kilni_cl_kernel_key key = {"probe.cl", defines, "kiln_probe"};
            KILN_CHECK_INT(kilni_cl_kernel_get(f.backend, &key, &kernel, &err), KILN_STATUS_OK);
            if (round == 0) {
                kernels[i] = kernel;
            }
            KILN_CHECK(kernel != NULL && kernel == kernels[i]);
            kilni_cl_args args = kilni_cl_args_begin(f.backend, kernel);
            kilni_cl_push_buffer(&args, buffer);
            KILN_CHECK_INT(kilni_cl_enqueue(&args, 1, &one, &one, &err), KILN_STATUS_OK);
            int value = -1;
            KILN_CHECK_INT(f.base->transfer->read(f.base, buffer, 0, &value, 4, &err),
                           KILN_STATUS_OK);
            KILN_CHECK_INT(value, i % 3);
        }
    }
    KILN_CHECK_INT(f.backend->stats.programs_built, 3);
    KILN_CHECK_INT(f.backend->kernels.used, 3);
    kilni_cl_kernel *kernel = NULL;
    kilni_cl_kernel_key missing = {"no_such.cl", "", "kiln_probe"};
    KILN_CHECK_INT(kilni_cl_kernel_get(f.backend, &missing, &kernel, &err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_CONTAINS(err.message, "no_such.cl");
    kilni_cl_kernel_key other = {"probe.cl", "-DVALUE=1", "kiln_other"};
    KILN_CHECK_INT(kilni_cl_kernel_get(f.backend, &other, &kernel, &err), KILN_STATUS_NOT_FOUND);
    kilni_cl_kernel_key broken = {"probe.cl", "", "kiln_probe"};
    KILN_CHECK_INT(kilni_cl_kernel_get(f.backend, &broken, &kernel, &err),
                   KILN_STATUS_BUILD_FAILED);
    KILN_CHECK_CONTAINS(err.message, "probe.cl");
    KILN_CHECK(kernel == NULL);
    f.base->memory->free(f.base, buffer);
    cl_fixture_close(&f);
}

// The same text twice is one program, also when it was released in between.
static void test_programs_are_shared(void)
{
    cl_fixture f;
    kiln_built *a = NULL;
    kiln_built *b = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_backend_stats stats;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    uint32_t held = f.backend->programs.count; // what a GPU's speed was measured with
    f.base->device->stats(f.base, &stats);
    uint64_t built = stats.programs_built;
    KILN_CHECK_INT(build(&f, two_kernels, "scale", &a, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(build(&f, two_kernels, "sums", &b, &err), KILN_STATUS_OK);
    f.base->program->free(f.base, a);
    f.base->program->free(f.base, b);
    KILN_CHECK_INT(build(&f, two_kernels, "scale", &a, &err), KILN_STATUS_OK);
    f.base->device->stats(f.base, &stats);
    KILN_CHECK_INT(stats.programs_built - built, 1);
    KILN_CHECK_INT(f.backend->programs.count - held, 1);
    f.base->program->free(f.base, a);
    cl_fixture_close(&f);
}

static kiln_backend_stats stats_of(cl_fixture *f)
{
    kiln_backend_stats stats;
    f->base->device->stats(f->base, &stats);
    return stats;
}

/// Over the limit of bytes, a program without users goes. What the store lacks of it is written
/// before, so that it is loaded when it is wanted again.
static void test_programs_go_by_bytes(void)
{
    cl_fixture f;
    kiln_built *built = NULL;
    kiln_error err = KILN_ERROR_INIT;
    cl_settings settings = {.cache = kiln_test_tmpdir(), .program_limit = "0"};
    if (!cl_fixture_open(&f, &settings)) {
        return;
    }
    kiln_buffer *x = cl_fixture_buffer(&f, 32, NULL);
    kiln_backend_stats begin = stats_of(&f);
    for (int round = 0; round < 3; round++) {
        KILN_CHECK_INT(build(&f, two_kernels, "scale", &built, &err), KILN_STATUS_OK);
        run_scale(&f, built, x, 2.0f);
        kiln_backend_stats held = stats_of(&f);
        KILN_CHECK_INT(held.programs_live - begin.programs_live, 1);
        KILN_CHECK_INT(held.programs_idle, 0);
        KILN_CHECK(held.kernels_live > begin.kernels_live);
        KILN_CHECK(held.program_bytes > begin.program_bytes);
        f.base->program->free(f.base, built);
        kiln_backend_stats end = stats_of(&f);
        KILN_CHECK_INT(end.programs_live, begin.programs_live);
        KILN_CHECK_INT(end.kernels_live, begin.kernels_live);
        KILN_CHECK_INT(end.program_bytes, begin.program_bytes);
        KILN_CHECK_INT(end.programs_built - begin.programs_built, 1);
        KILN_CHECK_INT(end.programs_loaded - begin.programs_loaded, round);
    }
    f.base->memory->free(f.base, x);
    cl_fixture_close(&f);
}

/// Without a cache, whatever they take, they stay for who wants them again, and are counted.
static void test_programs_without_users_are_counted(void)
{
    cl_fixture f;
    kiln_built *built = NULL;
    kiln_error err = KILN_ERROR_INIT;
    cl_settings settings = {.program_limit = "0"};
    if (!cl_fixture_open(&f, &settings)) {
        return;
    }
    uint64_t idle = stats_of(&f).programs_idle;
    for (int round = 0; round < 2; round++) {
        KILN_CHECK_INT(build(&f, two_kernels, "scale", &built, &err), KILN_STATUS_OK);
        KILN_CHECK_INT(stats_of(&f).programs_idle, idle);
        f.base->program->free(f.base, built);
        KILN_CHECK_INT(stats_of(&f).programs_idle - idle, 1);
        KILN_CHECK(stats_of(&f).program_bytes > 0);
    }
    cl_fixture_close(&f);
}

/// A folder like kernels/: a file of a family replaces the embedded one, and takes the family's
/// arguments from the embedded header. Lines keep their numbers.
static void test_kernel_folder_like_the_tree(void)
{
    static const char source[] = "// A probe.\n"
                                 "#include \"reduce_args.h\"\n"
                                 "#if __LINE__ != 3\n"
                                 "#error the lines are off\n"
                                 "#endif\n"
                                 "__kernel void kiln_probe(kiln_scan_shape s, __global long *x)\n"
                                 "{ x[0] = s.lines; }\n";
    const kilni_cl_kernel_key key = {"scan.cl", "", "kiln_probe"};
    cl_fixture f;
    kilni_cl_kernel *kernel = NULL;
    kiln_error err = KILN_ERROR_INIT;
    char folder[512];
    snprintf(folder, sizeof(folder), "%s", kiln_test_path(kiln_test_tmpdir(), "tree"));
    cl_settings settings = {.kernel_dir = folder};
    KILN_CHECK(mkdir(folder, 0700) == 0 && mkdir(kiln_test_path(folder, "reduce"), 0700) == 0);
    if (!kiln_test_write_file(kiln_test_path(folder, "reduce/scan.cl"), source,
                              sizeof(source) - 1) ||
        !cl_fixture_open(&f, &settings)) {
        return;
    }
    KILN_CHECK_INT(kilni_cl_kernel_get(f.backend, &key, &kernel, &err), KILN_STATUS_OK);
    KILN_CHECK_STR(err.message, "");
    cl_fixture_close(&f);
}

KILN_TEST_MAIN("unit/cl_backend/program", KILN_TEST(test_launches),
               KILN_TEST(test_build_failure_carries_the_log),
               KILN_TEST(test_what_a_program_may_not_be), KILN_TEST(test_options_of_a_vendor),
               KILN_TEST(test_what_a_launch_may_not_be), KILN_TEST(test_nothing_to_launch),
               KILN_TEST(test_timing), KILN_TEST(test_contraction),
               KILN_TEST(test_built_in_kernels), KILN_TEST(test_kernel_folder_like_the_tree),
               KILN_TEST(test_programs_are_shared), KILN_TEST(test_programs_go_by_bytes),
               KILN_TEST(test_programs_without_users_are_counted))
