// SPDX-License-Identifier: MIT OR Apache-2.0
// The error record: names, one line, cut between characters, context before the cause.
#include <string.h>

#include "base.h"
#include "harness.h"

static void test_names(void)
{
    KILN_CHECK_STR(kiln_status_name(KILN_STATUS_OK), "ok");
    KILN_CHECK_STR(kiln_status_name(KILN_STATUS_UNAUTHENTICATED), "unauthenticated");
    KILN_CHECK_STR(kiln_status_name(KILN_STATUS_DEVICE_LOST), "device lost");
    KILN_CHECK_STR(kiln_status_name((kiln_status)17), "unknown");
    KILN_CHECK_INT(KILN_STATUS_UNAVAILABLE, 14);
    KILN_CHECK_INT(sizeof(kiln_error), 256);
}

static void test_fail_fills(void)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = kiln_fail(&err, OUT_OF_RANGE, "rank %d exceeds limit %d", 7, 6);
    KILN_CHECK_INT(status, KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_INT(err.code, KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_STR(err.message, "rank 7 exceeds limit 6");
    KILN_CHECK_STR(err.file, "test_status.c");
    KILN_CHECK(err.line > 0);
    KILN_CHECK_INT(kiln_fail(NULL, NOT_FOUND, "nobody reads this"), KILN_STATUS_NOT_FOUND);
    kiln_error_set(&err, KILN_STATUS_INTERNAL, "/a/b/c.c", 3, "x");
    KILN_CHECK_STR(err.file, "c.c");
    kiln_error_set(&err, KILN_STATUS_INTERNAL, NULL, 0, "x");
    KILN_CHECK(err.file == NULL);
}

static void test_one_line(void)
{
    kiln_error err = KILN_ERROR_INIT;
    (void)kiln_fail(&err, INTERNAL, "one\ntwo\r\n\tthree\x7f\n");
    KILN_CHECK_STR(err.message, "one two   three");
    (void)kiln_fail(&err, INTERNAL, "%s",
                    "\xc3\xa4 \xff \xc0\x80 \xed\xa0\x80 \xf0\x9f\x94\xa5 \xe2\x82");
    KILN_CHECK_STR(err.message, "\xc3\xa4 ? ?? ??? \xf0\x9f\x94\xa5 ??");
    (void)kiln_fail(&err, INTERNAL, "again: %s", err.message); // its own text as an argument
    KILN_CHECK_CONTAINS(err.message, "again: \xc3\xa4");
}

static void test_cut_between_characters(void)
{
    kiln_error err = KILN_ERROR_INIT;
    char text[400];
    for (size_t lead = 0; lead < 4; lead++) {
        memset(text, 'a', sizeof(text));
        for (size_t i = lead; i + 3 < sizeof(text); i += 3) {
            memcpy(text + i, "\xe2\x82\xac", 3);
        }
        text[sizeof(text) - 1] = 0;
        (void)kiln_fail(&err, INTERNAL, "%s", text);
        size_t length = strlen(err.message);
        KILN_CHECK(length <= 231 && length >= 229);
        KILN_CHECK(strchr(err.message, '?') == NULL);
        KILN_CHECK_MEM(err.message, text, length);
    }
}

static void test_context(void)
{
    kiln_error err = KILN_ERROR_INIT;
    (void)kiln_fail(&err, DATA_LOSS, "bad magic");
    KILN_CHECK_INT(kiln_error_context(&err, "loading %s", "x.so"), KILN_STATUS_DATA_LOSS);
    KILN_CHECK_STR(err.message, "loading x.so: bad magic");
    KILN_CHECK_INT(err.code, KILN_STATUS_DATA_LOSS);
    char text[600];
    memset(text, 'c', sizeof(text));
    text[599] = 0;
    kiln_error_context(&err, "%s", text);
    KILN_CHECK_INT(strlen(err.message), 231);
    KILN_CHECK_CONTAINS(err.message, "ccc: loading x.so: bad magic");
    kiln_error_context(&err, "no room for this");
    KILN_CHECK_CONTAINS(err.message, "bad magic");
    kiln_error_context(NULL, "nobody");
}

KILN_TEST_MAIN("unit/base/status", KILN_TEST(test_names), KILN_TEST(test_fail_fills),
               KILN_TEST(test_one_line), KILN_TEST(test_cut_between_characters),
               KILN_TEST(test_context))
