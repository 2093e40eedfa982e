// SPDX-License-Identifier: MIT OR Apache-2.0
// Names of statuses and the writing of the caller's error record: the message is always one
// terminated line of UTF-8, whatever was formatted into it, and context goes before a cause without
// pushing the cause out. Which status a failure has is decided where it is found.
#include "base_internal.h"

#include <stdio.h>
#include <string.h>

enum { FORMAT_BYTES = 1024 };

const char *kiln_status_name(kiln_status status)
{
    switch (status) {
#define KILN_STATUS(id, code, name, help)                                                          \
    case KILN_STATUS_##id:                                                                         \
        return name;
#include "status.def"
#undef KILN_STATUS
    }
    return "unknown";
}

/// Length of the UTF-8 sequence at `text`, 0 when the bytes are none (RFC 3629: no overlong form,
/// no surrogate, nothing above U+10FFFF).
static size_t utf8_length(const unsigned char *text)
{
    unsigned char first = text[0];
    if (first < 0x80) {
        return 1;
    }
    size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (first == 0xe0 && text[1] < 0xa0) || (first == 0xf0 && text[1] < 0x90);
    bool outside = (first == 0xed && text[1] > 0x9f) || (first == 0xf4 && text[1] > 0x8f);
    return overlong || outside ? 0 : length;
}

size_t kilni_base_one_line(char *out, size_t capacity, const char *text)
{
    const unsigned char *from = (const unsigned char *)text;
    size_t used = 0;
    while (*from != 0) {
        size_t length = utf8_length(from);
        size_t step = length == 0 ? 1 : length;
        if (used + step + 1 > capacity) {
            break;
        }
        if (length == 1) {
            out[used] = (char)(*from < 0x20 || *from == 0x7f ? ' ' : *from);
        } else if (length == 0) {
            out[used] = '?';
        } else {
            memcpy(out + used, from, length);
        }
        used += step;
        from += step;
    }
    while (used > 0 && out[used - 1] == ' ') {
        used--;
    }
    out[used] = 0;
    return used;
}

static const char *base_name(const char *file)
{
    const char *slash = file == NULL ? NULL : strrchr(file, '/');
    return slash == NULL ? file : slash + 1;
}

kiln_status kiln_error_set(kiln_error *err, kiln_status code, const char *file, int line,
                           const char *format, ...)
{
    if (err == NULL) {
        return code;
    }
    // Through a buffer, so that the old message may be one of the arguments.
    char text[FORMAT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length < 0) {
        snprintf(text, sizeof(text), "%s", kiln_status_name(code));
    }
    err->struct_size = (uint32_t)sizeof(*err);
    err->code = (int32_t)code;
    err->line = (int32_t)line;
    err->reserved = 0;
    err->file = base_name(file);
    kilni_base_one_line(err->message, sizeof(err->message), text);
    return code;
}

kiln_status kiln_error_context(kiln_error *err, const char *format, ...)
{
    if (err == NULL) {
        return KILN_STATUS_UNKNOWN;
    }
    kiln_status code = (kiln_status)err->code;
    size_t cause = strlen(err->message);
    size_t room = sizeof(err->message) - 1 - cause;
    char text[FORMAT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length <= 0 || room < 4) {
        return code;
    }
    char prefix[sizeof(err->message)];
    size_t used = kilni_base_one_line(prefix, room - 1, text);
    memmove(err->message + used + 2, err->message, cause + 1);
    memcpy(err->message, prefix, used);
    memcpy(err->message + used, ": ", 2);
    return code;
}
