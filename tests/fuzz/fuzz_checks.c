// SPDX-License-Identifier: MIT OR Apache-2.0
// The checks of the harness where libFuzzer is main and there is no case that could fail: what the
// fixtures of other tests check is a promise here.
#include "fuzz_target.h"
#include "harness.h"

bool kiln_test_check(bool ok, const char *file, int line, const char *text)
{
    (void)file;
    (void)line;
    (void)text;
    must(ok);
    return ok;
}

bool kiln_test_check_int(int64_t actual, int64_t expected, const char *file, int line,
                         const char *text)
{
    return kiln_test_check(actual == expected, file, line, text);
}
