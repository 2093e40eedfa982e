// SPDX-License-Identifier: MIT OR Apache-2.0
// Rules as text: rows, words, amounts, lists. Decides nothing about calls: rpc_parties.c asks what
// the rules of an identity are.

#include "rpc_rules.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RULES = 1024 };

#define RULE_NUMBER(member)                                                                        \
    {                                                                                              \
#member, offsetof(kilni_rpc_rules, member)                                                 \
    }

static const struct {
    const char *word;
    size_t offset;
} rule_numbers[] = {RULE_NUMBER(sessions), RULE_NUMBER(memory), RULE_NUMBER(requests),
                    RULE_NUMBER(operations), RULE_NUMBER(weight)};

#undef RULE_NUMBER

static const char *const rule_lists[KILNI_RPC_THINGS] = {"devices", "models", "peers"};

/// A number from 1 with K, M or G (powers of 1024); 0 when it is none.
static uint64_t parse_amount(const char *text)
{
    char *end = NULL;
    uint64_t value = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    const char *unit = value > 0 && *end != '\0' ? strchr("KMG", *end) : NULL;
    if (unit != NULL && value < UINT64_C(1) << 32) {
        value <<= 10 * (unit - "KMG" + 1);
        end++;
    }
    return value > 0 && *end == '\0' ? value : 0;
}

/// `word` is NAME=VALUE.
static kiln_status parse_rule(char *word, size_t line, kilni_rpc_rules *row, kiln_error *err)
{
    char *value = strchr(word, '=');
    if (value == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "line %zu: \"%.60s\" is not WORD=VALUE", line,
                         word);
    }
    *value++ = '\0';
    for (size_t i = 0; i < sizeof(rule_numbers) / sizeof(rule_numbers[0]); i++) {
        if (strcmp(word, rule_numbers[i].word) == 0) {
            uint64_t amount = parse_amount(value);
            memcpy((char *)row + rule_numbers[i].offset, &amount, sizeof(amount));
            return amount > 0 ? KILN_STATUS_OK
                              : kiln_fail(err, INVALID_ARGUMENT,
                                          "line %zu: %s is \"%.60s\", which is no number from 1",
                                          line, word, value);
        }
    }
    for (size_t i = 0; i < KILNI_RPC_THINGS; i++) {
        if (strcmp(word, rule_lists[i]) == 0) {
            if (*value == '\0' || strlen(value) >= sizeof(row->lists[i])) {
                return kiln_fail(err, INVALID_ARGUMENT,
                                 "line %zu: %s has 1 to %zu bytes; - is none", line, word,
                                 sizeof(row->lists[i]) - 1);
            }
            memcpy(row->lists[i], value, strlen(value) + 1);
            return KILN_STATUS_OK;
        }
    }
    return kiln_fail(err, INVALID_ARGUMENT,
                     "line %zu: there is no \"%.60s\"; there are devices, models, peers, sessions, "
                     "memory, requests, operations and weight",
                     line, word);
}

static kiln_status parse_row(char *line_text, size_t line, kilni_rpc_rules *row, kiln_error *err)
{
    static const char blanks[] = " \t\r";
    char *rest = NULL;
    const char *name = strtok_r(line_text, blanks, &rest);
    if (strlen(name) >= sizeof(row->name) || strchr(name, '=') != NULL) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "line %zu: a line begins with a name of 1 to %zu "
                         "bytes, or with *",
                         line, sizeof(row->name) - 1);
    }
    memcpy(row->name, name, strlen(name) + 1);
    kiln_status status = KILN_STATUS_OK;
    for (char *word; status == KILN_STATUS_OK && (word = strtok_r(NULL, blanks, &rest)) != NULL;) {
        status = parse_rule(word, line, row, err);
    }
    return status;
}

static bool has_words(char *line_text)
{
    line_text[strcspn(line_text, "#")] = '\0';
    return line_text[strspn(line_text, " \t\r")] != '\0';
}

kiln_status kilni_rpc_rules_parse(const kiln_env *env, const char *text,
                                  kilni_rpc_rule_table *out_table, kiln_error *err)
{
    size_t lines = 1;
    kiln_status status = KILN_STATUS_OK;
    *out_table = (kilni_rpc_rule_table){NULL, 0};
    for (const char *at = text; *at != '\0'; at++) {
        lines += *at == '\n';
    }
    lines = lines < MOST_RULES ? lines : MOST_RULES;
    char *copy = kiln_strdup(env, text);
    out_table->rows = kiln_alloc(env, lines * sizeof(*out_table->rows));
    if (copy == NULL || out_table->rows == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu rules", lines);
    }
    size_t line = 0;
    for (char *at = copy; status == KILN_STATUS_OK && at != NULL && *at != '\0';) {
        char *end = at + strcspn(at, "\n");
        char *next = *end != '\0' ? end + 1 : end;
        *end = '\0';
        line++;
        if (has_words(at) && out_table->count == lines) {
            status = kiln_fail(err, INVALID_ARGUMENT, "more than %d rules", MOST_RULES);
        } else if (has_words(at)) {
            status = parse_row(at, line, &out_table->rows[out_table->count++], err);
        }
        at = next;
    }
    kiln_free(env, copy);
    return status;
}

void kilni_rpc_rules_fini(const kiln_env *env, kilni_rpc_rule_table *table)
{
    kiln_free(env, table->rows);
    *table = (kilni_rpc_rule_table){NULL, 0};
}

const kilni_rpc_rules *kilni_rpc_rules_find(const kilni_rpc_rule_table *table, const char *name)
{
    const kilni_rpc_rules *others = NULL;
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(name, "*") != 0 && strcmp(table->rows[i].name, name) == 0) {
            return &table->rows[i];
        }
        others = strcmp(table->rows[i].name, "*") == 0 ? &table->rows[i] : others;
    }
    return others;
}

bool kilni_rpc_rules_allow(const kilni_rpc_rules *rules, kilni_rpc_thing thing, const char *text)
{
    const char *part = rules->lists[thing];
    bool found = *part == '\0';
    while (!found && *part != '\0') {
        size_t length = strcspn(part, ",");
        bool open = length > 0 && part[length - 1] == '*';
        found = open ? strncmp(text, part, length - 1) == 0
                     : strlen(text) == length && strncmp(text, part, length) == 0;
        part += length;
        part += *part == ',';
    }
    return found;
}
