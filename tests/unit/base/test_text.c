// SPDX-License-Identifier: MIT OR Apache-2.0
// The growing text, and that no memory is remembered until its end.
#include <string.h>

#include "base.h"
#include "faults.h"
#include "harness.h"

static void build(kiln_string *string)
{
    for (int i = 0; i < 200; i++) {
        kiln_string_printf(string, "%d,", i);
        kiln_string_append(string, "xyz", 2);
    }
}

static void test_build(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_string string;
    kiln_string_init(&string, &env);
    KILN_CHECK(string.text == NULL);
    kiln_string_append(&string, "", 0);
    KILN_CHECK_STR(string.text, "");
    build(&string);
    KILN_CHECK(!string.failed);
    KILN_CHECK_INT(strlen(string.text), string.length);
    KILN_CHECK_INT(string.length, 10 * 2 + 90 * 3 + 100 * 4 + 200 * 2);
    KILN_CHECK_CONTAINS(string.text, "98,xy99,xy100,xy");
    kiln_string_fini(&string);
    KILN_CHECK(string.text == NULL);
    kiln_string_printf(&string, "%s", "again");
    KILN_CHECK_STR(string.text, "again");
    kiln_string_fini(&string);
}

static void test_no_memory(void)
{
    kiln_faults faults;
    kiln_faults_init(&faults);
    kiln_env env = {.allocator = faults.allocator};
    for (size_t k = 1; kiln_faults_next(&faults, k); k++) {
        kiln_string string;
        kiln_string_init(&string, &env);
        build(&string);
        KILN_CHECK_INT(string.failed, atomic_load(&faults.requests) >= k);
        KILN_CHECK(string.text == NULL || strlen(string.text) == string.length);
        kiln_string_fini(&string);
    }
}

static void test_plural(void)
{
    KILN_CHECK_STR(kiln_plural(0, "launch", "launches"), "launches");
    KILN_CHECK_STR(kiln_plural(1, "launch", "launches"), "launch");
    KILN_CHECK_STR(kiln_plural(2, "launch", "launches"), "launches");
}

KILN_TEST_MAIN("unit/base/text", KILN_TEST(test_build), KILN_TEST(test_plural),
               KILN_TEST(test_no_memory))
