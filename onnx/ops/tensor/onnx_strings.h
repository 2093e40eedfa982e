// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ONNX_STRINGS_H
#define KILN_ONNX_STRINGS_H

// What looks into strings: letters and patterns.

#include "onnx_emit_text.h"

/// The letter that a text begins with, and past it; a byte that is no UTF-8 stands for itself.
uint32_t kilni_onnx_letter(const char **text);

/// A pattern of RE2's syntax without captures, flags and looks to the sides. Matching takes time in
/// proportion to the length of the pattern times that of the text.
typedef struct kilni_onnx_regex kilni_onnx_regex;

/// `*out_regex` is the caller's (kilni_onnx_regex_destroy). Errors: INVALID_ARGUMENT, UNIMPLEMENTED
/// for what is beyond it, RESOURCE_EXHAUSTED.
KILN_NODISCARD kiln_status kilni_onnx_regex_create(const kiln_env *env, const char *pattern,
                                                   kilni_onnx_regex **out_regex, kiln_error *err);
/// Whether the whole text is one of the pattern's. One thread at a time.
bool kilni_onnx_regex_matches(kilni_onnx_regex *regex, const char *text);
void kilni_onnx_regex_destroy(kilni_onnx_regex *regex);

#endif
