// SPDX-License-Identifier: MIT OR Apache-2.0
// Which messages pass, by level and module as the option "log" says, and their way to the
// environment's sink. Nothing is ever printed here: the sink decides.
#include "base_internal.h"

#include <stdio.h>

enum { MESSAGE_BYTES = 2048 };

bool kiln_log_enabled(const kiln_env *env, kiln_log_level level, const char *module)
{
    if (env == NULL || env->log == NULL || level > kilni_base_config_log_most(env->config)) {
        return false;
    }
    return (int)level <=
           kilni_base_log_level_of(kiln_config_string(env->config, KILN_OPTION_LOG), module);
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
