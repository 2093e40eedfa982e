// SPDX-License-Identifier: MIT OR Apache-2.0
// Cuts a text in OpenCL C into tokens. Decides what is none: comments, texts in quotes, and
// directives, of which only the names that they define are told.

#include "bundle_tokens.h"

#include <string.h>

static bool is_word_char(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool kilni_bundle_is_word(const bundle_token *token)
{
    return token->length > 0 && is_word_char(token->text[0]) &&
           !(token->text[0] >= '0' && token->text[0] <= '9');
}

bool kilni_bundle_is_char(const bundle_token *token, char c)
{
    return token->length == 1 && token->text[0] == c;
}

bool kilni_bundle_is_text(const bundle_token *token, const char *text)
{
    return token->length == strlen(text) && memcmp(token->text, text, token->length) == 0;
}

static void skip_to(bundle_tokens *tokens, const char *end)
{
    const char *found = strstr(tokens->text + tokens->at, end);
    tokens->at = found != NULL ? (size_t)(found - tokens->text) + strlen(end) : tokens->length;
}

/// A line that begins with #; a backslash at its end continues it.
static void skip_directive(bundle_tokens *tokens)
{
    const char *line = tokens->text + tokens->at + 1;
    line += strspn(line, " \t");
    if (strncmp(line, "define", 6) == 0 && tokens->defined != NULL) {
        bundle_token name = {.text = line + 6 + strspn(line + 6, " \t")};
        while (is_word_char(name.text[name.length])) {
            name.length++;
        }
        tokens->defined(&name, tokens->user);
    }
    do {
        skip_to(tokens, "\n");
    } while (tokens->at >= 2 && tokens->at < tokens->length &&
             tokens->text[tokens->at - 2] == '\\');
}

static void skip_quoted(bundle_tokens *tokens, char quote)
{
    for (tokens->at++; tokens->at < tokens->length && tokens->text[tokens->at] != quote;
         tokens->at++) {
        tokens->at += tokens->text[tokens->at] == '\\';
    }
    tokens->at += tokens->at < tokens->length;
}

bundle_token kilni_bundle_token(bundle_tokens *tokens)
{
    while (tokens->at < tokens->length) {
        const char *at = tokens->text + tokens->at;
        if (strchr(" \t\r\n", *at) != NULL) {
            tokens->at++;
        } else if (strncmp(at, "//", 2) == 0) {
            skip_to(tokens, "\n");
        } else if (strncmp(at, "/*", 2) == 0) {
            skip_to(tokens, "*/");
        } else if (*at == '#') {
            skip_directive(tokens);
        } else if (*at == '"' || *at == '\'') {
            skip_quoted(tokens, *at);
        } else {
            size_t length = 1;
            while (is_word_char(*at) && is_word_char(at[length])) {
                length++;
            }
            tokens->at += length;
            return (bundle_token){at, length};
        }
    }
    return (bundle_token){0};
}
