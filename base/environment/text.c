// SPDX-License-Identifier: MIT OR Apache-2.0
// A text that grows. Decides how a failure to grow is remembered, so that a printer checks once, at
// its end; what is printed is for the callers.
#include "base.h"

#include <stdio.h>
#include <string.h>

enum { FIRST_TEXT_BYTES = 64 };

void kiln_string_init(kiln_string *string, const kiln_env *env)
{
    *string = (kiln_string){.env = env};
}

/// Room for `more` bytes and the terminator.
static bool reserve(kiln_string *string, size_t more)
{
    if (string->failed || more >= PTRDIFF_MAX - string->length) {
        string->failed = true;
        return false;
    }
    size_t need = string->length + more + 1;
    if (need <= string->capacity) {
        return true;
    }
    size_t capacity = string->capacity < FIRST_TEXT_BYTES ? FIRST_TEXT_BYTES : string->capacity * 2;
    capacity = capacity < need ? need : capacity;
    size_t kept = string->text == NULL ? 0 : string->length + 1;
    char *text = kiln_realloc(string->env, string->text, kept, capacity);
    if (text == NULL) {
        string->failed = true;
        return false;
    }
    string->text = text;
    string->capacity = capacity;
    return true;
}

void kiln_string_append(kiln_string *string, const char *text, size_t length)
{
    if (!reserve(string, length)) {
        return;
    }
    if (length > 0) {
        memcpy(string->text + string->length, text, length);
    }
    string->length += length;
    string->text[string->length] = 0;
}

void kiln_string_printf(kiln_string *string, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) {
        string->failed = true;
        return;
    }
    if (!reserve(string, (size_t)length)) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(string->text + string->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    string->length += (size_t)length;
}

void kiln_string_fini(kiln_string *string)
{
    kiln_free(string->env, string->text);
    *string = (kiln_string){.env = string->env};
}
