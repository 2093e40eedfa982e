// SPDX-License-Identifier: MIT OR Apache-2.0
// The form of a program that a device gets: which of a launch's two, text or which binary, from
// plugins of before there were forms, and what is refused of them.
#include <string.h>

#include "harness.h"
#include "translate.h"

static const kiln_device_info compiling = {
    .name = "board", .driver = "2.1", .features = KILN_FEATURE_COMPILER, .fingerprint = {1, 2}};
static const kiln_device_info prepared = {
    .name = "board", .driver = "2.1", .features = KILN_FEATURE_PREPARED, .fingerprint = {1, 2}};
static const kiln_device_info board = {.name = "board",
                                       .driver = "2.1",
                                       .features =
                                           KILN_FEATURE_PREPARED | KILN_FEATURE_SINGLE_WORK_ITEM,
                                       .fingerprint = {1, 2}};
static const kf_ins seven = {.op = KF_INS_IMM, .imm = 7};

// ---- sources ----

static kf_binary binary_for(const char *device, const char *driver, const char *code)
{
    return (kf_binary){.struct_size = (uint32_t)sizeof(kf_binary),
                       .device = {device, strlen(device)},
                       .driver = {driver, strlen(driver)},
                       .code = {code, strlen(code)}};
}

static kf_source source_with(const char *text, const kf_binary *const *binaries, uint64_t count)
{
    return (kf_source){.struct_size = (uint32_t)sizeof(kf_source),
                       .format = KF_FORMAT_OPENCL_C,
                       .code = {text, strlen(text)},
                       .cl_c_version = 120,
                       .binaries = binaries,
                       .n_binaries = count};
}

/* The code that a device gets; "" when the source is refused, with `status`. */
static const char *code_for(const kiln_device_info *device, const kf_source *source,
                            uint32_t *out_format, kiln_status *out_status)
{
    static char code[64];
    kf_source form;
    kiln_error err = KILN_ERROR_INIT;
    *out_status = kilni_fuse_source_form(device, source, 0, &form, &err);
    *out_format = *out_status == KILN_STATUS_OK ? form.format : 0;
    size_t length =
        *out_status == KILN_STATUS_OK && form.code.len < sizeof(code) ? form.code.len : 0;
    memcpy(code, length > 0 ? form.code.ptr : "", length);
    code[length] = '\0';
    return code;
}

static void check_code(const kiln_device_info *device, const kf_source *source, const char *code,
                       uint32_t format)
{
    uint32_t got = 0;
    kiln_status status = KILN_STATUS_OK;
    KILN_CHECK_STR(code_for(device, source, &got, &status), code);
    KILN_CHECK_INT(status, KILN_STATUS_OK);
    KILN_CHECK_INT(got, format);
}

static void check_refused(const kiln_device_info *device, const kf_source *source,
                          kiln_status expected)
{
    uint32_t got = 0;
    kiln_status status = KILN_STATUS_OK;
    (void)code_for(device, source, &got, &status);
    KILN_CHECK_INT(status, expected);
}

static void test_binary_of_the_device(void)
{
    const kf_binary other = binary_for("board2", "2.1", "other");
    const kf_binary old = binary_for("board", "2.0", "old");
    const kf_binary right = binary_for("board", "2.1", "right");
    const kf_binary any = binary_for("board", "", "any");
    const kf_binary *const all[] = {&other, &old, &right, &any};
    const kf_binary *const rest[] = {&other, &old, &any};
    kf_source source = source_with("text", all, 4);
    check_code(&compiling, &source, "text", KF_FORMAT_OPENCL_C);
    check_code(&prepared, &source, "right", KF_FORMAT_BINARY);
    source = source_with("text", rest, 3);
    check_code(&prepared, &source, "any", KF_FORMAT_BINARY);
    source = source_with("text", rest, 2);
    check_code(&prepared, &source, "text", KF_FORMAT_OPENCL_C); // it may be stored
    source = source_with("", all, 4);
    check_code(&compiling, &source, "right", KF_FORMAT_BINARY);
    source = source_with("", all, 2);
    check_refused(&compiling, &source, KILN_STATUS_UNIMPLEMENTED);
    check_refused(&prepared, &source, KILN_STATUS_UNIMPLEMENTED);
}

static void test_binary_has_the_devices_fingerprint(void)
{
    const kf_binary right = binary_for("board", "2.1", "right");
    const kf_binary *const all[] = {&right};
    kf_source source = source_with("text", all, 1);
    kf_source form;
    KILN_CHECK_INT(kilni_fuse_source_form(&prepared, &source, 0, &form, NULL), KILN_STATUS_OK);
    KILN_CHECK_INT(form.fingerprint.len, sizeof(prepared.fingerprint));
    KILN_CHECK(memcmp(form.fingerprint.ptr, &prepared.fingerprint, form.fingerprint.len) == 0);
}

static void test_bad_binaries(void)
{
    kf_binary bad = binary_for("board", "2.1", "right");
    const kf_binary *const all[] = {&bad};
    const kf_binary *const none[] = {NULL};
    kf_source source = source_with("text", all, 1);
    bad.struct_size = 8;
    check_refused(&prepared, &source, KILN_STATUS_INVALID_ARGUMENT);
    bad.struct_size = 1 << 20;
    check_refused(&prepared, &source, KILN_STATUS_INVALID_ARGUMENT);
    source = source_with("text", none, 1);
    check_refused(&prepared, &source, KILN_STATUS_INVALID_ARGUMENT);
    source = source_with("text", NULL, 1);
    check_refused(&prepared, &source, KILN_STATUS_INVALID_ARGUMENT);
    source = source_with("text", all, UINT64_MAX);
    check_refused(&prepared, &source, KILN_STATUS_INVALID_ARGUMENT);
    bad = binary_for("board", "2.1", "right");
    source = source_with("text", all, 1);
    source.format = KF_FORMAT_SPIRV;
    check_refused(&prepared, &source, KILN_STATUS_INVALID_ARGUMENT);
    bad.device = (kf_str){NULL, 5}; // no text: not this device's
    source = source_with("text", all, 1);
    check_code(&prepared, &source, "text", KF_FORMAT_OPENCL_C);
}

// ---- launches ----

static kf_launch launch_of(const char *kernel)
{
    return (kf_launch){.struct_size = (uint32_t)sizeof(kf_launch),
                       .dims = 2,
                       .kernel = {kernel, strlen(kernel)},
                       .global = {{&seven, 1}, {&seven, 1}}};
}

static void test_single_work_item_where_it_is_wanted(void)
{
    kf_launch wide = launch_of("wide");
    kf_launch task = {.struct_size = (uint32_t)sizeof(kf_launch), .kernel = KF_STR_INIT("task")};
    kf_launch form;
    task.source = 3;
    wide.single = &task;
    KILN_CHECK_INT(kilni_fuse_launch_form(&prepared, &wide, 0, &form, NULL), KILN_STATUS_OK);
    KILN_CHECK_INT(form.dims, 2);
    KILN_CHECK(form.kernel.ptr == wide.kernel.ptr);
    KILN_CHECK_INT(kilni_fuse_launch_form(&board, &wide, 0, &form, NULL), KILN_STATUS_OK);
    KILN_CHECK_INT(form.source, 3);
    KILN_CHECK(form.kernel.ptr == task.kernel.ptr);
    KILN_CHECK_INT(form.dims, 1);
    KILN_CHECK_INT(form.global[0].n, 1);
    KILN_CHECK_INT(form.global[0].ins[0].imm, 1);
    KILN_CHECK_INT(form.local[0].ins[0].imm, 1);
    wide.single = NULL;
    KILN_CHECK_INT(kilni_fuse_launch_form(&board, &wide, 0, &form, NULL), KILN_STATUS_OK);
    KILN_CHECK(form.kernel.ptr == wide.kernel.ptr);
}

static void test_bad_single_work_item_forms(void)
{
    kf_launch wide = launch_of("wide");
    kf_launch sized = launch_of("task");
    kf_launch nested = {.struct_size = (uint32_t)sizeof(kf_launch), .single = &wide};
    kf_launch form;
    wide.single = &sized;
    KILN_CHECK_INT(kilni_fuse_launch_form(&board, &wide, 0, &form, NULL),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kilni_fuse_launch_form(&prepared, &wide, 0, &form, NULL), KILN_STATUS_OK);
    wide.single = &nested;
    KILN_CHECK_INT(kilni_fuse_launch_form(&board, &wide, 0, &form, NULL),
                   KILN_STATUS_INVALID_ARGUMENT);
    nested.struct_size = 16;
    KILN_CHECK_INT(kilni_fuse_launch_form(&board, &wide, 0, &form, NULL),
                   KILN_STATUS_INVALID_ARGUMENT);
}

/* Structs as they were before forms; what lies behind them is not theirs. */
static void test_structs_of_before(void)
{
    kf_launch launch = launch_of("wide");
    kf_launch form;
    kf_source text = source_with("text", (const kf_binary *const *)(uintptr_t)16, 1 << 20);
    launch.struct_size = KF_LAUNCH_SIZE_FIRST;
    launch.single = (const kf_launch *)(uintptr_t)16;
    KILN_CHECK_INT(kilni_fuse_launch_form(&board, &launch, 0, &form, NULL), KILN_STATUS_OK);
    KILN_CHECK(form.single == NULL);
    KILN_CHECK(form.kernel.ptr == launch.kernel.ptr);
    text.struct_size = KF_SOURCE_SIZE_FIRST;
    check_code(&prepared, &text, "text", KF_FORMAT_OPENCL_C);
    launch.struct_size = KF_LAUNCH_SIZE_FIRST - 1;
    KILN_CHECK_INT(kilni_fuse_launch_form(&board, &launch, 0, &form, NULL),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kilni_fuse_launch_form(&board, NULL, 0, &form, NULL),
                   KILN_STATUS_INVALID_ARGUMENT);
}

KILN_TEST_MAIN("unit/fusion_host/forms", KILN_TEST(test_binary_of_the_device),
               KILN_TEST(test_binary_has_the_devices_fingerprint), KILN_TEST(test_bad_binaries),
               KILN_TEST(test_single_work_item_where_it_is_wanted),
               KILN_TEST(test_bad_single_work_item_forms), KILN_TEST(test_structs_of_before))
