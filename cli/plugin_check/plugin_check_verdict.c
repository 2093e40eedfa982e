// SPDX-License-Identifier: MIT OR Apache-2.0
// The verdict of one check, in the memory that it shares with its parent. The first failure stays:
// later ones follow from it.
#include "plugin_check.h"

#include <stdarg.h>
#include <stdio.h>

bool check_fail(check *c, const char *format, ...)
{
    if (c->result->verdict != CHECK_FAILED) {
        va_list args;
        va_start(args, format);
        vsnprintf(c->result->text, sizeof(c->result->text), format, args);
        va_end(args);
        c->result->verdict = CHECK_FAILED;
    }
    return false;
}

/// What a check that was good so far comes to.
static void settle(check *c, check_verdict verdict, const char *format, va_list args)
{
    if (c->result->verdict == CHECK_PASSED) {
        vsnprintf(c->result->text, sizeof(c->result->text), format, args);
        c->result->verdict = verdict;
    }
}

void check_skip(check *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    settle(c, CHECK_SKIPPED, format, args);
    va_end(args);
}

void check_leave_open(check *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    settle(c, CHECK_INCONCLUSIVE, format, args);
    va_end(args);
}

void check_say(check *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    settle(c, CHECK_PASSED, format, args);
    va_end(args);
}

void check_step(check *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->result->step, sizeof(c->result->step), format, args);
    va_end(args);
}

bool check_good(const check *c)
{
    return c->result->verdict == CHECK_PASSED;
}
