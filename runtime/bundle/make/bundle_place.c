// SPDX-License-Identifier: MIT OR Apache-2.0
// Gives the place in the grid to functions that ask for it, and to those that call them. Decides by
// tokens which these are: a macro's text is not looked into, so what is missed there does not
// compile.

#include "bundle_place.h"
#include "bundle_tokens.h"

#include <string.h>

enum { PLACED_MOST = 64 };

typedef struct placed_list { ///< names of functions
    bundle_token names[PLACED_MOST];
    uint32_t count;
    bool full;
} placed_list;

typedef struct place_reader { ///< where in the text
    bundle_tokens tokens;
    bundle_token token;
    bundle_token after;
    bundle_token function; ///< whose parameters or body these are
    uint32_t braces;
    uint32_t parens;
} place_reader;

static void read_token(place_reader *reader)
{
    const bundle_token *token = &reader->token;
    if (kilni_bundle_is_char(token, '{')) {
        reader->braces++;
    } else if (kilni_bundle_is_char(token, '}')) {
        reader->braces -= reader->braces > 0;
    } else if (kilni_bundle_is_char(token, '(')) {
        reader->parens++;
    } else if (kilni_bundle_is_char(token, ')')) {
        reader->parens -= reader->parens > 0;
    }
    reader->token = reader->after;
    reader->after = kilni_bundle_token(&reader->tokens);
    if (reader->braces == 0 && reader->parens == 0 && kilni_bundle_is_word(&reader->token) &&
        kilni_bundle_is_char(&reader->after, '(')) {
        reader->function = reader->token;
    }
}

static place_reader begin_reading(const char *text)
{
    place_reader reader = {.tokens = {.text = text, .length = strlen(text)}};
    reader.after = kilni_bundle_token(&reader.tokens);
    read_token(&reader);
    return reader;
}

static bool is_placed(const placed_list *list, const bundle_token *name)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->names[i].length == name->length &&
            memcmp(list->names[i].text, name->text, name->length) == 0) {
            return true;
        }
    }
    return false;
}

static bool asks(const bundle_token *token)
{
    static const char *const words[] = {"get_global_id", "get_global_size", "get_group_id",
                                        "get_num_groups"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (kilni_bundle_is_text(token, words[i])) {
            return true;
        }
    }
    return false;
}

static void compare_macro(const bundle_token *name, void *user)
{
    bundle_token *wanted = user;
    if (name->length == wanted->length && memcmp(name->text, wanted->text, name->length) == 0) {
        *wanted = (bundle_token){0};
    }
}

/// A name that the text defines may be a kernel's (`__kernel void KERNEL(PARAMS)`).
static bool is_macro(const char *text, bundle_token name)
{
    bundle_tokens tokens = {
        .text = text, .length = strlen(text), .defined = compare_macro, .user = &name};
    while (kilni_bundle_token(&tokens).length > 0) {
    }
    return name.length == 0;
}

/// Adds the functions that ask, or call one that was found before; how many it added.
static uint32_t find_placed(const char *text, bundle_kernel_fn is_kernel, const void *user,
                            placed_list *list)
{
    uint32_t before = list->count;
    for (place_reader reader = begin_reading(text); reader.token.length > 0; read_token(&reader)) {
        const bundle_token *function = &reader.function;
        if (reader.braces == 0 || function->length == 0 || is_placed(list, function) ||
            is_kernel(function->text, function->length, user) ||
            !(asks(&reader.token) || is_placed(list, &reader.token)) || is_macro(text, *function)) {
            continue;
        }
        if (list->count == PLACED_MOST) {
            list->full = true;
            break;
        }
        list->names[list->count++] = *function;
    }
    return list->count - before;
}

bool kilni_bundle_give_place(const char *text, bundle_kernel_fn is_kernel, const void *user,
                             kiln_string *out)
{
    placed_list list = {.count = 0};
    while (!list.full && find_placed(text, is_kernel, user, &list) > 0) {
    }
    const char *from = text;
    for (place_reader reader = begin_reading(text); reader.token.length > 0; read_token(&reader)) {
        if (!is_placed(&list, &reader.token) || !kilni_bundle_is_char(&reader.after, '(')) {
            continue;
        }
        const char *behind = reader.after.text + 1;
        bool none = behind[strspn(behind, " \t\r\n")] == ')';
        kiln_string_append(out, from, (size_t)(behind - from));
        kiln_string_printf(out, "%s%s",
                           reader.braces == 0 ? BUNDLE_PLACE_PARAMS : BUNDLE_PLACE_VALUES,
                           none ? "" : ", ");
        from = behind;
    }
    kiln_string_append(out, from, strlen(from));
    return !list.full && !out->failed;
}
