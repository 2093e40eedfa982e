// SPDX-License-Identifier: MIT OR Apache-2.0
// Which messages pass, by level and module as the LOG knob says ("info" or
// "warn,cl_backend=debug"), and their way to the environment's sink. Nothing is ever printed here:
// the sink decides.
#include "base_internal.h"

#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES = 2048 };

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};

/// The level that `text` of `length` names, or -1.
static int level_from(const char *text, size_t length)
{
    for (int i = 0; i <= KILN_LOG_TRACE; i++) {
        if (strlen(level_names[i]) == length && memcmp(level_names[i], text, length) == 0) {
            return i;
        }
    }
    return -1;
}

typedef struct log_item {
    const char *module; ///< of module_length bytes; none: the level of all others
    size_t module_length;
    int level; ///< -1: no level
    const char *next;
} log_item;

static log_item next_item(const char *text)
{
    size_t length = strcspn(text, ",");
    const char *equals = memchr(text, '=', length);
    size_t module = equals == NULL ? 0 : (size_t)(equals - text);
    const char *level = equals == NULL ? text : equals + 1;
    log_item item = {.module = text, .module_length = module};
    item.level = level_from(level, length - (size_t)(level - text));
    if (equals != NULL && module == 0) {
        item.level = -1;
    }
    item.next = text[length] == ',' ? text + length + 1 : NULL;
    return item;
}

bool kilni_base_log_parse(const char *text, kiln_log_level *out_most)
{
    int most = KILN_LOG_WARN; // what a module has that no item names
    for (const char *at = text; at != NULL;) {
        log_item item = next_item(at);
        if (item.level < 0) {
            return false;
        }
        most = item.level > most ? item.level : most;
        at = item.next;
    }
    *out_most = (kiln_log_level)most;
    return true;
}

/// The level of one module: its own item, else the item without a module, else warn.
static int level_of(const char *text, const char *module)
{
    size_t length = strlen(module);
    int others = KILN_LOG_WARN;
    for (const char *at = text; at != NULL;) {
        log_item item = next_item(at);
        if (item.module_length == 0) {
            others = item.level;
        } else if (item.module_length == length && memcmp(item.module, module, length) == 0) {
            return item.level;
        }
        at = item.next;
    }
    return others;
}

bool kiln_log_enabled(const kiln_env *env, kiln_log_level level, const char *module)
{
    if (env == NULL || env->log == NULL || level > kilni_base_config_log_most(env->config)) {
        return false;
    }
    return (int)level <= level_of(kiln_config_string(env->config, KILN_KNOB_LOG), module);
}

void kiln_log_write(const kiln_env *env, kiln_log_level level, const char *module,
                    const char *format, ...)
{
    if (!kiln_log_enabled(env, level, module)) {
        return;
    }
    char text[MESSAGE_BYTES];
    char line[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length < 0) {
        return;
    }
    kilni_base_one_line(line, sizeof(line), text);
    kiln_log_record record = {
        .struct_size = (uint32_t)sizeof(record), .level = level, .module = module, .message = line};
    env->log(&record, env->log_user);
}
