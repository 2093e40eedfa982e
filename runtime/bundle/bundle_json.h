// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_BUNDLE_JSON_H
#define KILNI_BUNDLE_JSON_H

/// JSON (RFC 8259) as bundles have it: all numbers are integers from 0 to 2^63 - 1. The small
/// library needs nothing but the C library, so this reader is its own. Files are hostile until
/// read.

#include "base.h"

typedef enum bundle_json_kind {
    BUNDLE_JSON_NULL,
    BUNDLE_JSON_BOOL,
    BUNDLE_JSON_NUMBER,
    BUNDLE_JSON_TEXT,
    BUNDLE_JSON_LIST,
    BUNDLE_JSON_OBJECT
} bundle_json_kind;

typedef struct bundle_json { ///< a value; all of a document lies in one arena
    bundle_json_kind kind;
    uint32_t count; ///< of a LIST's items or an OBJECT's members
    uint64_t number; ///< NUMBER; BOOL: 0 or 1
    const char *text; ///< TEXT: UTF-8 without a zero byte, terminated
    const char *name; ///< of a member
    const struct bundle_json *first;
    const struct bundle_json *next;
} bundle_json;

/// Reads a document. Errors: DATA_LOSS with the place, RESOURCE_EXHAUSTED.
kiln_status kilni_bundle_json_read(kiln_arena *arena, const char *text, size_t length,
                                   const bundle_json **out_value, kiln_error *err);

/// What is taken from a document; the first that is missing or of another kind sticks, and is told
/// by kilni_bundle_json_done.
typedef struct bundle_json_reader {
    char wrong[96]; ///< what; "": nothing
} bundle_json_reader;

/// A member, which must be there and of this kind; NULL: it is not.
const bundle_json *kilni_bundle_json_get(bundle_json_reader *reader, const bundle_json *object,
                                         const char *name, bundle_json_kind kind);
/// The same for a number that is at most `most`, else 0, and for a text, else "".
uint64_t kilni_bundle_json_number(bundle_json_reader *reader, const bundle_json *object,
                                  const char *name, uint64_t most);
const char *kilni_bundle_json_text(bundle_json_reader *reader, const bundle_json *object,
                                   const char *name);
/// A member that need not be there.
const bundle_json *kilni_bundle_json_find(const bundle_json *object, const char *name);
void kilni_bundle_json_wrong(bundle_json_reader *reader, const char *what);
/// Errors: DATA_LOSS, with `file` and what is wrong.
kiln_status kilni_bundle_json_done(const bundle_json_reader *reader, const char *file,
                                   kiln_error *err);

/// Appends a text in quotes.
void kilni_bundle_json_quote(kiln_string *out, const char *text);

#endif
