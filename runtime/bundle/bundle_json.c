// SPDX-License-Identifier: MIT OR Apache-2.0
// JSON of bundles: from text to a tree, and texts in quotes. Decides what is refused: anything that
// a bundle does not have, such as fractions. What members mean is for others.

#include "bundle_json.h"

#include <stdio.h>
#include <string.h>

enum { DEEPEST = 16 };

typedef struct json_text {
    kiln_arena *arena;
    const char *at;
    const char *begin;
    const char *end;
    uint32_t depth;
    const char *wrong; ///< NULL: nothing
    bool no_memory;
} json_text;

static bool json_value(json_text *text, bundle_json *out);

static bool refuse(json_text *text, const char *what)
{
    text->wrong = text->wrong != NULL ? text->wrong : what;
    return false;
}

static bool starve(json_text *text)
{
    text->no_memory = true;
    return refuse(text, "no memory");
}

static void skip_space(json_text *text)
{
    while (text->at < text->end && strchr(" \t\r\n", *text->at) != NULL && *text->at != '\0') {
        text->at++;
    }
}

static bool take_char(json_text *text, char c)
{
    skip_space(text);
    if (text->at == text->end || *text->at != c) {
        return false;
    }
    text->at++;
    return true;
}

static bool take_word(json_text *text, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(text->end - text->at) < length || memcmp(text->at, word, length) != 0) {
        return false;
    }
    text->at += length;
    return true;
}

// ---- texts ----

/// The character behind a backslash, of those that are one byte. Writers of bundles need no others.
static bool take_escape(json_text *text, char *out)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    const char *found = text->at < text->end && *text->at != '\0' ? strchr(from, *text->at) : NULL;
    if (found != NULL) {
        *out = to[found - from];
        text->at++;
        return true;
    }
    unsigned code = 0;
    char digits[5] = "";
    if (text->end - text->at < 5 || *text->at != 'u') {
        return false;
    }
    memcpy(digits, text->at + 1, 4);
    text->at += 5;
    bool hex = strspn(digits, "0123456789abcdefABCDEF") == 4 && sscanf(digits, "%x", &code) == 1;
    *out = (char)code;
    return hex && code > 0 && code < 128;
}

static const char *json_string(json_text *text)
{
    const char *end = text->at;
    while (end < text->end && *end != '"') {
        end += *end == '\\' && end + 1 < text->end ? 2 : 1;
    }
    if (end >= text->end) {
        (void)refuse(text, "a text without its end");
        return NULL;
    }
    char *copy = kiln_arena_alloc(text->arena, (size_t)(end - text->at) + 1);
    if (copy == NULL) {
        (void)starve(text);
        return NULL;
    }
    size_t length = 0;
    while (text->at < end) {
        char c = *text->at++;
        if ((unsigned char)c < 32 || (c == '\\' && !take_escape(text, &c))) {
            (void)refuse(text, "a character that no text has");
            return NULL;
        }
        copy[length++] = c;
    }
    text->at = end + 1;
    return copy;
}

// ---- values ----

static bool json_number(json_text *text, bundle_json *out)
{
    out->kind = BUNDLE_JSON_NUMBER;
    const char *first = text->at;
    for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++) {
        uint64_t digit = (uint64_t)(*text->at - '0');
        if (out->number > ((uint64_t)INT64_MAX - digit) / 10) {
            return refuse(text, "a number that is too large");
        }
        out->number = out->number * 10 + digit;
    }
    if (text->at == first || (text->at < text->end && strchr(".eE", *text->at) != NULL)) {
        return refuse(text, "something that is no number from 0");
    }
    return true;
}

/// Items of a list, or members of an object, up to `close`.
static bool json_items(json_text *text, char close, bundle_json *out)
{
    bundle_json *last = NULL;
    if (++text->depth > DEEPEST) {
        return refuse(text, "a value in too many others");
    }
    if (take_char(text, close)) {
        text->depth--;
        return true;
    }
    do {
        bundle_json *item = kiln_arena_alloc(text->arena, sizeof(*item));
        if (item == NULL) {
            return starve(text);
        }
        if (out->kind == BUNDLE_JSON_OBJECT) {
            item->name = take_char(text, '"') ? json_string(text) : NULL;
            if (item->name == NULL || !take_char(text, ':')) {
                return refuse(text, "a member without a name");
            }
        }
        if (!json_value(text, item)) {
            return false;
        }
        *(last != NULL ? &last->next : &out->first) = item;
        last = item;
        out->count++;
    } while (take_char(text, ','));
    text->depth--;
    return take_char(text, close) || refuse(text, "a list or object without its end");
}

static bool json_value(json_text *text, bundle_json *out)
{
    skip_space(text);
    if (take_char(text, '"')) {
        out->kind = BUNDLE_JSON_TEXT;
        out->text = json_string(text);
        return out->text != NULL;
    }
    if (take_char(text, '[')) {
        out->kind = BUNDLE_JSON_LIST;
        return json_items(text, ']', out);
    }
    if (take_char(text, '{')) {
        out->kind = BUNDLE_JSON_OBJECT;
        return json_items(text, '}', out);
    }
    if (take_word(text, "null")) {
        return true;
    }
    out->number = take_word(text, "true");
    if (out->number != 0 || take_word(text, "false")) {
        out->kind = BUNDLE_JSON_BOOL;
        return true;
    }
    return json_number(text, out);
}

kiln_status kilni_bundle_json_read(kiln_arena *arena, const char *text, size_t length,
                                   const bundle_json **out_value, kiln_error *err)
{
    json_text state = {.arena = arena, .at = text, .begin = text, .end = text + length};
    bundle_json *value = kiln_arena_alloc(arena, sizeof(*value));
    *out_value = NULL;
    if (value == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a document");
    }
    bool read = json_value(&state, value);
    skip_space(&state);
    if (read && state.at != state.end) {
        read = refuse(&state, "something behind the end");
    }
    if (state.no_memory) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a document of %zu bytes", length);
    }
    if (!read) {
        return kiln_fail(err, DATA_LOSS, "no JSON of a bundle: %s at byte %zu", state.wrong,
                         (size_t)(state.at - state.begin));
    }
    *out_value = value;
    return KILN_STATUS_OK;
}

// ---- members ----

void kilni_bundle_json_wrong(bundle_json_reader *reader, const char *what)
{
    if (reader->wrong[0] == '\0') {
        snprintf(reader->wrong, sizeof(reader->wrong), "%s", what);
    }
}

const bundle_json *kilni_bundle_json_find(const bundle_json *object, const char *name)
{
    const bundle_json *member =
        object != NULL && object->kind == BUNDLE_JSON_OBJECT ? object->first : NULL;
    while (member != NULL && strcmp(member->name, name) != 0) {
        member = member->next;
    }
    return member;
}

const bundle_json *kilni_bundle_json_get(bundle_json_reader *reader, const bundle_json *object,
                                         const char *name, bundle_json_kind kind)
{
    const bundle_json *member = kilni_bundle_json_find(object, name);
    if (member == NULL || member->kind != kind) {
        char what[64];
        snprintf(what, sizeof(what), "%.40s is missing or of another kind", name);
        kilni_bundle_json_wrong(reader, what);
        return NULL;
    }
    return member;
}

uint64_t kilni_bundle_json_number(bundle_json_reader *reader, const bundle_json *object,
                                  const char *name, uint64_t most)
{
    const bundle_json *member = kilni_bundle_json_get(reader, object, name, BUNDLE_JSON_NUMBER);
    if (member != NULL && member->number > most) {
        char what[64];
        snprintf(what, sizeof(what), "%.40s is too large", name);
        kilni_bundle_json_wrong(reader, what);
        return 0;
    }
    return member != NULL ? member->number : 0;
}

const char *kilni_bundle_json_text(bundle_json_reader *reader, const bundle_json *object,
                                   const char *name)
{
    const bundle_json *member = kilni_bundle_json_get(reader, object, name, BUNDLE_JSON_TEXT);
    return member != NULL ? member->text : "";
}

kiln_status kilni_bundle_json_done(const bundle_json_reader *reader, const char *file,
                                   kiln_error *err)
{
    return reader->wrong[0] == '\0' ? KILN_STATUS_OK
                                    : kiln_fail(err, DATA_LOSS, "%.80s: %s", file, reader->wrong);
}

// ---- writing ----

void kilni_bundle_json_quote(kiln_string *out, const char *text)
{
    kiln_string_append(out, "\"", 1);
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\') {
            kiln_string_printf(out, "\\%c", *at);
        } else if ((unsigned char)*at < 32) {
            kiln_string_printf(out, "\\u%04x", (unsigned)(unsigned char)*at);
        } else {
            kiln_string_append(out, at, 1);
        }
    }
    kiln_string_append(out, "\"", 1);
}
