// SPDX-License-Identifier: MIT OR Apache-2.0
// What the user set and nobody reads: variables of the environment that are named as Kiln's but are
// none, and modules in the LOG option that say nothing. Each gets a warning; nothing fails.
#define _GNU_SOURCE // environ
#include "base_internal.h"

#include <string.h>
#include <unistd.h>

/// Of ./dev, the tests and builds that find Kiln; behind an underscore anything may follow.
static const char *const others[] = {
    "KILN_BENCH_", "KILN_CI_",           "KILN_DIR",    "KILN_HARNESS_",
    "KILN_JOBS",   "KILN_NO_INSTALL",    "KILN_ROOT",   "KILN_SANITIZE",
    "KILN_TEST_",  "KILN_UPDATE_GOLDEN", "KILN_WERROR",
};

static const char *const modules[] = {"base", "cl_backend", "fusion_host", "ir",
                                      "onnx", "remote",     "runtime"};

static bool is_option(const char *name, size_t length)
{
    for (int i = 0; i < KILN_OPTION_COUNT; i++) {
        const char *option = kiln_option_environment((kiln_option)i);
        if (strlen(option) == length && memcmp(option, name, length) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_others(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        size_t own = strlen(others[i]);
        bool open = others[i][own - 1] == '_';
        if (length >= own && memcmp(others[i], name, own) == 0 && (open || length == own)) {
            return true;
        }
    }
    return false;
}

void kiln_config_warn_environment(const kiln_env *env)
{
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        size_t length = strcspn(*at, "=");
        if (strncmp(*at, "KILN_", 5) == 0 && !is_option(*at, length) && !is_others(*at, length)) {
            kiln_log_write(env, KILN_LOG_WARN, "base",
                           "the environment's %.*s is ignored: no option has that name; `kiln "
                           "config` lists them",
                           (int)(length < 80 ? length : 80), *at);
        }
    }
}

void kiln_config_warn_log(const kiln_env *env)
{
    const char *text = kiln_config_string(env->config, KILN_OPTION_LOG);
    for (size_t length = 0; *text != '\0'; text += length + (text[length] == ',')) {
        length = strcspn(text, ",");
        const char *equals = memchr(text, '=', length);
        size_t own = equals != NULL ? (size_t)(equals - text) : 0;
        bool known = equals == NULL;
        for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
            known = known || (strlen(modules[i]) == own && memcmp(modules[i], text, own) == 0);
        }
        if (!known) {
            kiln_log_write(env, KILN_LOG_WARN, "base",
                           "log: no module is named %.*s; there are base, cl_backend, fusion_host, "
                           "ir, onnx, remote and runtime",
                           (int)(own < 80 ? own : 80), text);
        }
    }
}
