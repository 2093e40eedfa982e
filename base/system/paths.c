// SPDX-License-Identifier: MIT OR Apache-2.0
// Where Kiln keeps files of its own: the folders of its cache and of a user's lists, from the
// option or the XDG base directory specification. What lies in them is decided by who writes it.
#include "base_internal.h"

#include <stdio.h>
#include <string.h>

static bool is_absolute(const char *path)
{
    return path != NULL && path[0] == '/';
}

kiln_status kiln_cache_dir(const kiln_env *env, char *out_path, size_t capacity, kiln_error *err)
{
    const char *option = kiln_config_string(env->config, KILN_OPTION_CACHE_DIR);
    const char *cache = kilni_base_getenv("XDG_CACHE_HOME");
    const char *home = kilni_base_getenv("HOME");
    int length = 0;
    if (capacity > 0) {
        out_path[0] = 0;
    }
    if (strcmp(option, "off") == 0) {
        return kiln_fail(err, FAILED_PRECONDITION, "the cache is off (cache-dir)");
    } else if (option[0] != 0) {
        length = snprintf(out_path, capacity, "%s", option);
    } else if (is_absolute(cache)) {
        length = snprintf(out_path, capacity, "%s/kiln", cache);
    } else if (is_absolute(home)) {
        length = snprintf(out_path, capacity, "%s/.cache/kiln", home);
    } else {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "no folder for the cache: set KILN_CACHE_DIR, XDG_CACHE_HOME or HOME");
    }
    if (length < 0 || (size_t)length >= capacity) {
        return kiln_fail(err, FAILED_PRECONDITION, "path of the cache has %d bytes, limit %zu",
                         length, capacity);
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_config_dir(char *out_path, size_t capacity, kiln_error *err)
{
    const char *config = kilni_base_getenv("XDG_CONFIG_HOME");
    const char *home = kilni_base_getenv("HOME");
    int length = -1;
    if (is_absolute(config)) {
        length = snprintf(out_path, capacity, "%s/kiln", config);
    } else if (is_absolute(home)) {
        length = snprintf(out_path, capacity, "%s/.config/kiln", home);
    }
    if (length < 0 || (size_t)length >= capacity) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "no folder for a user's lists: set XDG_CONFIG_HOME or HOME");
    }
    return KILN_STATUS_OK;
}
