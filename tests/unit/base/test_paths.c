// SPDX-License-Identifier: MIT OR Apache-2.0
// The cache folder: option, XDG_CACHE_HOME, HOME, off, and paths that do not fit.
#include <stdlib.h>

#include "base.h"
#include "harness.h"

static kiln_status cache_dir(const char *option, const char *xdg, const char *home, char *out_path,
                             size_t capacity)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    KILN_CHECK_INT(kiln_config_create(&env.allocator, NULL, false, &env.config, NULL), 0);
    KILN_CHECK_INT(kiln_config_set(env.config, "cache-dir", option, KILN_ORIGIN_FLAG, NULL), 0);
    setenv("XDG_CACHE_HOME", xdg, 1);
    setenv("HOME", home, 1);
    kiln_status status = kiln_cache_dir(&env, out_path, capacity, NULL);
    kiln_config_destroy(env.config);
    return status;
}

static void test_order(void)
{
    char path[64];
    KILN_CHECK_INT(cache_dir("/a/b", "/x", "/h", path, sizeof(path)), KILN_STATUS_OK);
    KILN_CHECK_STR(path, "/a/b");
    KILN_CHECK_INT(cache_dir("", "/x", "/h", path, sizeof(path)), KILN_STATUS_OK);
    KILN_CHECK_STR(path, "/x/kiln");
    KILN_CHECK_INT(cache_dir("", "relative", "/h", path, sizeof(path)), KILN_STATUS_OK);
    KILN_CHECK_STR(path, "/h/.cache/kiln");
    KILN_CHECK_INT(cache_dir("", "", "", path, sizeof(path)), KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK_INT(cache_dir("off", "/x", "/h", path, sizeof(path)),
                   KILN_STATUS_FAILED_PRECONDITION);
}

static void test_too_long(void)
{
    char path[7];
    KILN_CHECK_INT(cache_dir("/a/b/c", "", "", path, 7), KILN_STATUS_OK);
    KILN_CHECK_INT(cache_dir("/a/b/cd", "", "", path, 7), KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK_INT(cache_dir("/a/b/cd", "", "", path, 0), KILN_STATUS_FAILED_PRECONDITION);
}

KILN_TEST_MAIN("unit/base/paths", KILN_TEST(test_order), KILN_TEST(test_too_long))
