// SPDX-License-Identifier: MIT OR Apache-2.0
// The text of the option "log": a level ("info"), or levels by module ("warn,cl_backend=debug").
// What a message of some module and level becomes is log.c's.
#include "base_internal.h"

#include <string.h>

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

int kilni_base_log_level_of(const char *text, const char *module)
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
