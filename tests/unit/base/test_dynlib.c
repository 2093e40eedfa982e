// SPDX-License-Identifier: MIT OR Apache-2.0
// Shared objects: a library of the system, a missing one, a file that is none, and no memory.
#include <string.h>

#include "base.h"
#include "faults.h"
#include "harness.h"

static void test_symbol(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    for (int keep = 0; keep < 2; keep++) {
        kiln_dynlib *library = NULL;
        KILN_CHECK_INT(kiln_dynlib_open(&env, "libm.so.6", keep != 0, &library, NULL), 0);
        KILN_CHECK(kiln_dynlib_symbol(library, "cos") != NULL);
        KILN_CHECK(kiln_dynlib_symbol(library, "no_such_symbol") == NULL);
        kiln_dynlib_close(library);
    }
    kiln_dynlib_close(NULL);
}

static void test_refused(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_dynlib *library = NULL;
    kiln_error err = KILN_ERROR_INIT;
    KILN_CHECK_INT(kiln_dynlib_open(&env, "/no/such.so", false, &library, &err),
                   KILN_STATUS_NOT_FOUND);
    KILN_CHECK_CONTAINS(err.message, "/no/such.so");
    const char *path = kiln_test_path(kiln_test_tmpdir(), "text.so");
    kiln_test_write_file(path, "not a library", 13);
    KILN_CHECK_INT(kiln_dynlib_open(&env, path, false, &library, &err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_CONTAINS(err.message, "text.so");
    KILN_CHECK(library == NULL);
}

static void test_no_memory(void)
{
    kiln_faults faults;
    kiln_faults_init(&faults);
    kiln_env env = {.allocator = faults.allocator};
    for (size_t k = 1; kiln_faults_next(&faults, k); k++) {
        kiln_dynlib *library = NULL;
        kiln_status status = kiln_dynlib_open(&env, "libm.so.6", false, &library, NULL);
        KILN_CHECK_INT(status, k == 1 ? KILN_STATUS_RESOURCE_EXHAUSTED : KILN_STATUS_OK);
        kiln_dynlib_close(library);
    }
}

KILN_TEST_MAIN("unit/base/dynlib", KILN_TEST(test_symbol), KILN_TEST(test_refused),
               KILN_TEST(test_no_memory))
