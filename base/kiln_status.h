// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_STATUS_H
#define KILN_STATUS_H

/// What a call reports: a status, and the error record that the caller gives it to fill.
///
/// Unless a function says otherwise: any thread may call it; texts that it returns are in static
/// storage; it cannot fail. NULL where a pointer is needed is INVALID_ARGUMENT; a function without
/// a status then does nothing and gives 0.

#include <stdint.h>

#include "kiln_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kiln_status {
#define KILN_STATUS(id, code, name, help) KILN_STATUS_##id = code,
#include "status.def"
#undef KILN_STATUS
} kiln_status;

/// What went wrong, owned by the caller: zero-initialised or KILN_ERROR_INIT, copyable, no
/// heap. `message` is one line of UTF-8 and always terminated.
typedef struct kiln_error {
    uint32_t struct_size;
    int32_t code; ///< kiln_status
    int32_t line;
    uint32_t reserved;
    const char *file; ///< basename in static storage, or NULL
    char message[232];
} kiln_error;

#define KILN_ERROR_INIT                                                                            \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_error)                                                \
    }

/// Name of a status in lower case, "ok" for 0; "unknown" for a number that is none.
KILN_API const char *kiln_status_name(kiln_status status);

/// Writes code, place and message into `err` (which may be NULL) and returns `code`. Call it
/// through kiln_fail.
KILN_API kiln_status kiln_error_set(kiln_error *err, kiln_status code, const char *file, int line,
                                    const char *format, ...) KILN_COLD KILN_PRINTF(5, 6);

/// Puts "text: " before the message that is in `err`; the cause stays. Returns err's code.
/// `err` may be NULL.
KILN_API kiln_status kiln_error_context(kiln_error *err, const char *format, ...) KILN_COLD
    KILN_PRINTF(2, 3);

/// Fills `err` with code, place and text, and is the code: `return kiln_fail(err, NOT_FOUND, "…")`.
#ifdef __clang_analyzer__ // which cannot know that the call returns its code
#define kiln_fail(err, CODE, ...)                                                                  \
    ((void)kiln_error_set((err), KILN_STATUS_##CODE, KILN_FILE_NAME, __LINE__, __VA_ARGS__),       \
     KILN_STATUS_##CODE)
#else
#define kiln_fail(err, CODE, ...)                                                                  \
    kiln_error_set((err), KILN_STATUS_##CODE, KILN_FILE_NAME, __LINE__, __VA_ARGS__)
#endif

/// Evaluates `expr` into `st` and jumps to `label` unless it is OK.
#define KILN_TRY(label, st, expr)                                                                  \
    do {                                                                                           \
        (st) = (expr);                                                                             \
        if ((st) != KILN_STATUS_OK) {                                                              \
            goto label;                                                                            \
        }                                                                                          \
    } while (0)

#ifdef __FILE_NAME__
#define KILN_FILE_NAME __FILE_NAME__
#else
#define KILN_FILE_NAME __FILE__
#endif

#ifdef __cplusplus
}
#endif
#endif
