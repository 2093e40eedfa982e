// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_BUNDLE_TOKENS_H
#define KILNI_BUNDLE_TOKENS_H

/// Tokens of a text in OpenCL C, as far as those need them who write programs into a bundle: words,
/// and single characters. Comments, literals of text and directives are none.

#include <stdbool.h>
#include <stddef.h>

typedef struct bundle_token { ///< length 0: the end
    const char *text;
    size_t length;
} bundle_token;

typedef struct bundle_tokens {
    const char *text; ///< terminated
    size_t length;
    size_t at; ///< behind the last token
    /// Hears of each name that the text defines; NULL: nobody.
    void (*defined)(const bundle_token *name, void *user);
    void *user;
} bundle_tokens;

/// The next token.
bundle_token kilni_bundle_token(bundle_tokens *tokens);

bool kilni_bundle_is_word(const bundle_token *token); ///< no number
bool kilni_bundle_is_char(const bundle_token *token, char c);
bool kilni_bundle_is_text(const bundle_token *token, const char *text);

#endif
