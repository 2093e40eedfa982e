// SPDX-License-Identifier: MIT OR Apache-2.0
// Which device opens when none is named: the configured one, else the first that any kind lists.
// Also which providers and backends are not taken. The process sees no OpenCL driver, so that the
// first kind has nothing to offer.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "rt_device.h"

static kiln_status open_null(const kiln_env *env, const char *address, kiln_backend **out_backend,
                             kiln_error *err, void *user)
{
    const kiln_backend_provider *null = kiln_ir_null_provider();
    (void)address;
    (void)user;
    return null->open(env, "null", out_backend, err, null->user);
}

static kiln_status list_one(const kiln_env *env, size_t index, char out_address[64],
                            char out_line[192], kiln_error *err, void *user)
{
    (void)env;
    (void)user;
    if (index > 0) {
        return kiln_fail(err, NOT_FOUND, "there is one");
    }
    snprintf(out_address, 64, "listed:7");
    snprintf(out_line, 192, "a device");
    return KILN_STATUS_OK;
}

static const kiln_backend_provider listed = {.struct_size = sizeof(kiln_backend_provider),
                                             .scheme = "listed",
                                             .open = open_null,
                                             .describe = list_one,
                                             .interface = KILN_BACKEND_INTERFACE};

/// The address of what opens in a context with these; "" when nothing does, with the message.
static void opens(const kiln_backend_provider *provider, const char *configured, char out_text[256])
{
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_error err = KILN_ERROR_INIT;
    out_text[0] = '\0';
    KILN_CHECK_INT(kiln_context_create(NULL, &context, &err), KILN_STATUS_OK);
    if (provider != NULL) {
        KILN_CHECK_INT(kiln_context_add_provider(context, provider, &err), KILN_STATUS_OK);
    }
    if (configured != NULL) {
        KILN_CHECK_INT(kiln_context_set(context, "device", configured, &err), KILN_STATUS_OK);
    }
    kiln_status status = kiln_device_open(context, NULL, &device, &err);
    if (status == KILN_STATUS_OK) {
        snprintf(out_text, 256, "%s", kiln_device_address(device));
    } else {
        KILN_CHECK(device == NULL);
        snprintf(out_text, 256, "%d: %s", (int)status, err.message);
    }
    kiln_device_release(device);
    kiln_context_destroy(context);
}

/// As `listed`, of backends with a hole.
static kiln_status open_holed(const kiln_env *env, const char *address, kiln_backend **out_backend,
                              kiln_error *err, void *user)
{
    static kiln_backend_transfer_ops holed;
    kiln_status status = open_null(env, address, out_backend, err, user);
    if (status == KILN_STATUS_OK) {
        holed = *(*out_backend)->transfer;
        holed.read_poll = NULL;
        (*out_backend)->transfer = &holed;
    }
    return status;
}

static void test_holes_are_refused(void)
{
    char text[256];
    kiln_backend_provider holed = listed;
    holed.open = open_holed;
    opens(&holed, NULL, text);
    KILN_CHECK(strstr(text, "function 5 of the transfer table of backend null is NULL") != NULL);
}

/// What a library of before gives has no member that says which tables its backends have.
static void test_providers_of_before_are_refused(void)
{
    kiln_backend_provider before[2] = {listed, listed};
    before[0].struct_size = offsetof(kiln_backend_provider, interface);
    before[1].interface = KILN_BACKEND_INTERFACE - 1;
    const uint32_t said[2] = {1, KILN_BACKEND_INTERFACE - 1};
    for (size_t i = 0; i < 2; i++) {
        char expected[160];
        kiln_context *context = NULL;
        kiln_error err = KILN_ERROR_INIT;
        KILN_CHECK_INT(kiln_context_create(NULL, &context, &err), KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_context_add_provider(context, &before[i], &err),
                       KILN_STATUS_FAILED_PRECONDITION);
        snprintf(expected, sizeof(expected),
                 "provider \"listed\" has backends of interface %u, and %d is needed: build it "
                 "again with the headers of this Kiln",
                 said[i], KILN_BACKEND_INTERFACE);
        KILN_CHECK_STR(err.message, expected);
        kiln_context_destroy(context);
    }
}

static void test_nothing_is_there(void)
{
    char text[256];
    opens(NULL, NULL, text);
    KILN_CHECK_STR(text, "5: there are 0 devices; number 0 does not exist");
}

static void test_first_that_is_listed(void)
{
    char text[256];
    opens(&listed, NULL, text);
    KILN_CHECK_STR(text, "listed:7");
}

static void test_configured(void)
{
    char text[256];
    opens(&listed, "reference", text);
    KILN_CHECK_STR(text, "reference");
    opens(&listed, "listed:9", text);
    KILN_CHECK_STR(text, "listed:9");
    opens(&listed, "nobody", text);
    KILN_CHECK(strstr(text, "no kind of device answers to \"nobody\"") != NULL);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        KILN_TEST(test_nothing_is_there), KILN_TEST(test_first_that_is_listed),
        KILN_TEST(test_configured), KILN_TEST(test_holes_are_refused),
        KILN_TEST(test_providers_of_before_are_refused)};
    setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
    unsetenv("KILN_DEVICE");
    return kiln_test_run("unit/runtime/default", cases, sizeof(cases) / sizeof(cases[0]), argc,
                         argv);
}
