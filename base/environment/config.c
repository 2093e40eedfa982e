// SPDX-License-Identifier: MIT OR Apache-2.0
// The options of config.def: default, file, environment, flag, the later one wins; each value is
// checked against its type where it enters. A value never changes: another takes its place, and it
// stays until the configuration ends, so that reading needs no lock and who read a text may keep
// it. What a value means is decided by the module that reads it.
#define _GNU_SOURCE // secure_getenv
#include "base_internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 4096 };

typedef enum option_type { TYPE_STRING, TYPE_INT, TYPE_BOOL, TYPE_WORD } option_type;

typedef struct option_row {
    const char *name;
    option_type type;
    const char *words; ///< of a WORD, with a blank between two
    const char *value;
    const char *environment;
    const char *help;
} option_row;

#define TYPE_WORDS(list) TYPE_WORD, .words = list // as a type of config.def
static const option_row options[KILN_OPTION_COUNT] = {
#define KILN_OPTION(id, row_name, row_type, default_value, env, row_help)                          \
    {.name = row_name,                                                                             \
     .type = TYPE_##row_type,                                                                      \
     .value = default_value,                                                                       \
     .environment = env,                                                                           \
     .help = row_help},
#include "config.def"
#undef KILN_OPTION
};
#undef TYPE_WORDS

typedef struct option_value {
    struct option_value *before; ///< that it took the place of
    int64_t integer;
    kiln_origin origin;
    char text[];
} option_value;

struct kiln_config {
    kiln_allocator allocator;
    _Atomic(kiln_log_level) log_most;
    _Atomic(option_value *) values[KILN_OPTION_COUNT]; ///< NULL: the default
};

const char *kilni_base_getenv(const char *name)
{
    return secure_getenv(name);
}

// ---- values ----

/// Decimal digits with K, M or G (powers of 1024) behind them, and a sign before them.
static bool parse_int(const char *text, int64_t *out_value)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || errno != 0 || text[0] == ' ') {
        return false;
    }
    int64_t unit = 1;
    switch (*end) {
    case 'k':
    case 'K':
        unit = 1024;
        break;
    case 'm':
    case 'M':
        unit = 1024 * 1024;
        break;
    case 'g':
    case 'G':
        unit = 1024 * 1024 * 1024;
        break;
    default:
        break;
    }
    end += unit > 1;
    if (*end != 0 || value > INT64_MAX / unit || value < INT64_MIN / unit) {
        return false;
    }
    *out_value = (int64_t)value * unit;
    return true;
}

static bool parse_bool(const char *text, int64_t *out_value)
{
    static const char *const words[] = {"0", "1", "false", "true", "no", "yes", "off", "on"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(text, words[i]) == 0) {
            *out_value = (int64_t)(i & 1);
            return true;
        }
    }
    return false;
}

static bool is_word(const char *words, const char *text)
{
    size_t length = strlen(text);
    for (; *words != 0; words += strspn(words, " ")) {
        size_t own = strcspn(words, " ");
        if (own == length && memcmp(words, text, length) == 0) {
            return true;
        }
        words += own;
    }
    return false;
}

/// "tune is of; off, lazy and full are known"
static kiln_status fail_word(const option_row *row, const char *text, kiln_error *err)
{
    char listed[160];
    size_t at = 0;
    const char *last = strrchr(row->words, ' ');
    for (const char *from = row->words; *from != 0 && at + 5 < sizeof(listed); from++) {
        const char *between = *from != ' ' ? "" : from == last ? " and" : ",";
        at += (size_t)snprintf(listed + at, sizeof(listed) - at, "%s%c", between, *from);
    }
    return kiln_fail(err, INVALID_ARGUMENT, "%s is %.40s; %s are known", row->name, text, listed);
}

/// Checks `text` for the option's type; `out_value` gets its number, 0 for a text.
static kiln_status parse_value(kiln_option option, const char *text, int64_t *out_value,
                               kiln_error *err)
{
    const option_row *row = &options[option];
    kiln_log_level level;
    *out_value = 0;
    if (row->type == TYPE_INT && !parse_int(text, out_value)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s: '%s' is no number; digits, with K, M or G behind them", row->name,
                         text);
    }
    if (row->type == TYPE_INT && *out_value < 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: %s is below 0", row->name, text);
    }
    if (row->type == TYPE_BOOL && !parse_bool(text, out_value)) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: '%s' is neither 0 nor 1", row->name, text);
    }
    if (row->type == TYPE_WORD && !is_word(row->words, text)) {
        return fail_word(row, text, err);
    }
    if (option == KILN_OPTION_LOG && !kilni_base_log_parse(text, &level)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s: '%s' is no level (error, warn, info, debug, trace) and no list of "
                         "module=level",
                         row->name, text);
    }
    return KILN_STATUS_OK;
}

static option_value *value_of(const kiln_config *config, kiln_option option)
{
    return config == NULL ? NULL
                          : atomic_load_explicit(&config->values[option], memory_order_acquire);
}

static kiln_status set_option(kiln_config *config, kiln_option option, const char *text,
                              kiln_origin origin, kiln_error *err)
{
    option_value *before = value_of(config, option);
    int64_t integer = 0;
    kiln_status status = parse_value(option, text, &integer, err);
    if (status != KILN_STATUS_OK || (before != NULL && origin < before->origin)) {
        return status;
    }
    size_t bytes = strlen(text) + 1;
    option_value *value =
        config->allocator.alloc(config->allocator.user, sizeof(*value) + bytes, 16);
    if (value == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the value of %s",
                         options[option].name);
    }
    *value = (option_value){.before = before, .integer = integer, .origin = origin};
    memcpy(value->text, text, bytes);
    atomic_store_explicit(&config->values[option], value, memory_order_release);
    if (option == KILN_OPTION_LOG) {
        kiln_log_level most = KILN_LOG_WARN;
        kilni_base_log_parse(text, &most);
        atomic_store(&config->log_most, most);
    }
    return KILN_STATUS_OK;
}

/// The option of that name, KILN_OPTION_COUNT when there is none.
static kiln_option find_option(const char *name)
{
    int i = 0;
    while (i < KILN_OPTION_COUNT && strcmp(options[i].name, name) != 0) {
        i++;
    }
    return (kiln_option)i;
}

kiln_status kiln_config_set(kiln_config *config, const char *name, const char *value,
                            kiln_origin origin, kiln_error *err)
{
    if (name == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "name must not be NULL");
    }
    kiln_option option = find_option(name);
    if (option == KILN_OPTION_COUNT) {
        return kiln_fail(err, NOT_FOUND, "no option is named '%s'; `kiln config` lists them", name);
    }
    return set_option(config, option, value, origin, err);
}

// ---- file and environment ----

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r\n", text[length - 1]) != NULL) {
        text[--length] = 0;
    }
    return text;
}

/// Cuts a comment: '#' at the start or behind a blank, so that a value may hold one.
static void cut_comment(char *line)
{
    for (char *at = strchr(line, '#'); at != NULL; at = strchr(at + 1, '#')) {
        if (at == line || at[-1] == ' ' || at[-1] == '\t') {
            *at = 0;
            return;
        }
    }
}

static kiln_status read_line(kiln_config *config, char *line, kiln_error *err)
{
    cut_comment(line);
    char *name = trim(line);
    if (*name == 0) {
        return KILN_STATUS_OK;
    }
    char *equals = strchr(name, '=');
    if (equals == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "'%s' is not 'name = value'", name);
    }
    *equals = 0;
    name = trim(name);
    kiln_option option = find_option(name);
    if (option == KILN_OPTION_COUNT) {
        return kiln_fail(err, INVALID_ARGUMENT, "no option is named '%s'", name);
    }
    return set_option(config, option, trim(equals + 1), KILN_ORIGIN_FILE, err);
}

static kiln_status read_file(kiln_config *config, const char *path, kiln_error *err)
{
    char line[LINE_BYTES];
    kiln_status status = KILN_STATUS_OK;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return kiln_fail(err, NOT_FOUND, "configuration %s: %s", path, strerror(errno));
    }
    for (int number = 1; status == KILN_STATUS_OK && fgets(line, sizeof(line), file); number++) {
        if (strchr(line, '\n') == NULL && !feof(file)) {
            status = kiln_fail(err, INVALID_ARGUMENT, "the line is longer than %d bytes or no text",
                               LINE_BYTES - 2);
        } else {
            status = read_line(config, line, err);
        }
        if (status != KILN_STATUS_OK) {
            kiln_error_context(err, "%s:%d", path, number);
        }
    }
    if (status == KILN_STATUS_OK && ferror(file)) {
        status = kiln_fail(err, NOT_FOUND, "configuration %s: cannot be read", path);
    }
    fclose(file);
    return status;
}

static kiln_status read_environment(kiln_config *config, kiln_error *err)
{
    for (int i = 0; i < KILN_OPTION_COUNT; i++) {
        const char *text = kilni_base_getenv(options[i].environment);
        if (text == NULL || *text == 0) {
            continue;
        }
        kiln_status status = set_option(config, (kiln_option)i, text, KILN_ORIGIN_ENVIRONMENT, err);
        if (status != KILN_STATUS_OK) {
            kiln_error_context(err, "environment %s", options[i].environment);
            return status;
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_config_create(const kiln_allocator *allocator, const char *path,
                               bool use_environment, kiln_config **out_config, kiln_error *err)
{
    if (out_config == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_config must not be NULL");
    }
    *out_config = NULL;
    if (allocator == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "allocator must not be NULL");
    }
    kiln_config *config = allocator->alloc(allocator->user, sizeof(*config), 16);
    if (config == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the configuration");
    }
    memset(config, 0, sizeof(*config));
    config->allocator = *allocator;
    kiln_status status = KILN_STATUS_OK;
    atomic_init(&config->log_most, kilni_base_config_log_most(NULL));
    if (path != NULL) {
        KILN_TRY(out, status, read_file(config, path, err));
    }
    if (use_environment) {
        KILN_TRY(out, status, read_environment(config, err));
    }
    *out_config = config;
    config = NULL;
out:
    kiln_config_destroy(config);
    return status;
}

void kiln_config_destroy(kiln_config *config)
{
    if (config == NULL) {
        return;
    }
    kiln_allocator allocator = config->allocator;
    for (int i = 0; i < KILN_OPTION_COUNT; i++) {
        for (option_value *value = value_of(config, (kiln_option)i); value != NULL;) {
            option_value *before = value->before;
            allocator.free(allocator.user, value);
            value = before;
        }
    }
    allocator.free(allocator.user, config);
}

// ---- reading ----

const char *kiln_config_string(const kiln_config *config, kiln_option option)
{
    const option_value *value = value_of(config, option);
    return value != NULL ? value->text : options[option].value;
}

int64_t kiln_config_int(const kiln_config *config, kiln_option option)
{
    const option_value *value = value_of(config, option);
    int64_t integer = 0;
    if (value != NULL) {
        return value->integer;
    }
    parse_value(option, options[option].value, &integer, NULL);
    return integer;
}

bool kiln_config_bool(const kiln_config *config, kiln_option option)
{
    return kiln_config_int(config, option) != 0;
}

kiln_origin kiln_config_origin(const kiln_config *config, kiln_option option)
{
    const option_value *value = value_of(config, option);
    return value != NULL ? value->origin : KILN_ORIGIN_DEFAULT;
}

kiln_log_level kilni_base_config_log_most(const kiln_config *config)
{
    kiln_log_level most = KILN_LOG_WARN;
    if (config == NULL) {
        kilni_base_log_parse(options[KILN_OPTION_LOG].value, &most);
        return most;
    }
    return atomic_load_explicit(&config->log_most, memory_order_relaxed);
}

const char *kiln_option_name(kiln_option option)
{
    return (unsigned)option < KILN_OPTION_COUNT ? options[option].name : NULL;
}

const char *kiln_option_help(kiln_option option)
{
    return (unsigned)option < KILN_OPTION_COUNT ? options[option].help : NULL;
}

const char *kiln_option_environment(kiln_option option)
{
    return (unsigned)option < KILN_OPTION_COUNT ? options[option].environment : NULL;
}
