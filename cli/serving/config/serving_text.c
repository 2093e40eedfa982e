// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads protobuf's text format into a tree. Depth is bounded, for the reader calls itself; what the
// keys mean is serving_policy.c's.

#include "serving_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 16 };

typedef struct text_reader {
    kiln_arena *arena;
    const char *at;
    uint32_t line;
} text_reader;

static kiln_status read_members(text_reader *r, int depth, char end,
                                kilni_serving_node **out_members, kiln_error *err);

static void skip_space(text_reader *r)
{
    for (;; r->at++) {
        if (*r->at == '#') {
            r->at += strcspn(r->at, "\n");
        }
        if (*r->at == '\0' || strchr(" \t\r\n,;", *r->at) == NULL) {
            return;
        }
        r->line += *r->at == '\n';
    }
}

static bool is_word(char c)
{
    return c != '\0' && strchr(" \t\r\n,;:{}[]<>#\"'", c) == NULL;
}

static kiln_status copy_part(text_reader *r, const char *from, size_t length, const char **out_text,
                             kiln_error *err)
{
    char *copy = kiln_arena_alloc(r->arena, length + 1);
    if (copy == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a configuration");
    }
    memcpy(copy, from, length);
    *out_text = copy;
    return KILN_STATUS_OK;
}

/// A text in quotes. What stands behind a backslash stands for itself.
static kiln_status read_quoted(text_reader *r, const char **out_text, kiln_error *err)
{
    char quote = *r->at++;
    size_t length = strcspn(r->at, "\n");
    char *copy = kiln_arena_alloc(r->arena, length + 1);
    size_t made = 0;
    if (copy == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a configuration");
    }
    for (; *r->at != quote; r->at++) {
        r->at += *r->at == '\\';
        if (*r->at == '\0' || *r->at == '\n') {
            return kiln_fail(err, INVALID_ARGUMENT, "line %u: a text without its last %c", r->line,
                             quote);
        }
        copy[made++] = *r->at;
    }
    r->at++;
    *out_text = copy;
    return KILN_STATUS_OK;
}

static kiln_status read_scalar(text_reader *r, const char **out_text, kiln_error *err)
{
    size_t length = 0;
    if (*r->at == '"' || *r->at == '\'') {
        return read_quoted(r, out_text, err);
    }
    while (is_word(r->at[length])) {
        length++;
    }
    if (length == 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "line %u: a value is missing", r->line);
    }
    kiln_status status = copy_part(r, r->at, length, out_text, err);
    r->at += length;
    return status;
}

static kiln_status add_node(text_reader *r, const char *key, kilni_serving_node ***end,
                            kilni_serving_node **out_node, kiln_error *err)
{
    kilni_serving_node *node = kiln_arena_alloc(r->arena, sizeof(*node));
    if (node == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a configuration");
    }
    node->key = key;
    node->line = r->line;
    **end = node;
    *end = &node->next;
    *out_node = node;
    return KILN_STATUS_OK;
}

/// A scalar or a message.
static kiln_status read_item(text_reader *r, int depth, const char *key, kilni_serving_node ***end,
                             kiln_error *err)
{
    kilni_serving_node *node = NULL;
    kiln_status status = add_node(r, key, end, &node, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (*r->at == '{' || *r->at == '<') {
        char close = *r->at++ == '{' ? '}' : '>';
        return read_members(r, depth + 1, close, &node->members, err);
    }
    return read_scalar(r, &node->value, err);
}

static kiln_status read_list(text_reader *r, int depth, const char *key, kilni_serving_node ***end,
                             kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    uint32_t line = r->line;
    r->at++;
    skip_space(r);
    while (*r->at != ']' && status == KILN_STATUS_OK) {
        if (*r->at == '\0') {
            return kiln_fail(err, INVALID_ARGUMENT, "line %u: a list without its ]", line);
        }
        status = read_item(r, depth, key, end, err);
        skip_space(r);
    }
    r->at += *r->at == ']';
    return status;
}

static kiln_status read_member(text_reader *r, int depth, kilni_serving_node ***end,
                               kiln_error *err)
{
    const char *key = NULL;
    size_t length = 0;
    while (is_word(r->at[length])) {
        length++;
    }
    if (length == 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "line %u: a key is missing before %c", r->line,
                         *r->at);
    }
    kiln_status status = copy_part(r, r->at, length, &key, err);
    r->at += length;
    skip_space(r);
    bool colon = *r->at == ':';
    if (colon) {
        r->at++;
        skip_space(r);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (!colon && *r->at != '{' && *r->at != '<' && *r->at != '[') {
        return kiln_fail(err, INVALID_ARGUMENT, "line %u: %.60s has neither : nor {", r->line, key);
    }
    return *r->at == '[' ? read_list(r, depth, key, end, err) : read_item(r, depth, key, end, err);
}

/// Up to `end`, which is taken too; '\0' for the end of the file.
static kiln_status read_members(text_reader *r, int depth, char end,
                                kilni_serving_node **out_members, kiln_error *err)
{
    kilni_serving_node **last = out_members;
    kiln_status status = KILN_STATUS_OK;
    uint32_t line = r->line;
    if (depth > DEEPEST) {
        return kiln_fail(err, INVALID_ARGUMENT, "line %u: more than %d messages in each other",
                         r->line, DEEPEST);
    }
    skip_space(r);
    while (*r->at != end && status == KILN_STATUS_OK) {
        if (*r->at == '\0') {
            return kiln_fail(err, INVALID_ARGUMENT, "line %u: a message without its %c", line, end);
        }
        status = read_member(r, depth, &last, err);
        skip_space(r);
    }
    r->at += *r->at != '\0';
    return status;
}

kiln_status kilni_serving_text_read(kiln_arena *arena, const char *text,
                                    kilni_serving_node **out_members, kiln_error *err)
{
    text_reader r = {.arena = arena, .at = text, .line = 1};
    *out_members = NULL;
    return read_members(&r, 0, '\0', out_members, err);
}

const kilni_serving_node *kilni_serving_node_find(const kilni_serving_node *members,
                                                  const char *key)
{
    while (members != NULL && strcmp(members->key, key) != 0) {
        members = members->next;
    }
    return members;
}

const kilni_serving_node *kilni_serving_node_again(const kilni_serving_node *after)
{
    return kilni_serving_node_find(after->next, after->key);
}

kiln_status kilni_serving_node_number(const kilni_serving_node *node, int64_t least, int64_t most,
                                      int64_t *out_number, kiln_error *err)
{
    char *end = NULL;
    errno = 0;
    long long value = node->value != NULL ? strtoll(node->value, &end, 0) : 0;
    if (node->value == NULL || end == node->value || *end != '\0' || errno != 0 || value < least ||
        value > most) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "line %u: %.40s is a number from %" PRId64 " to %" PRId64, node->line,
                         node->key, least, most);
    }
    *out_number = value;
    return KILN_STATUS_OK;
}
