// SPDX-License-Identifier: MIT OR Apache-2.0
// The log: levels by module, one line, silence without a sink.
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "harness.h"

typedef struct heard {
    int count;
    kiln_log_level level;
    char module[32];
    char message[2100];
} heard;

static void hear(const kiln_log_record *record, void *user)
{
    heard *ear = user;
    ear->count++;
    ear->level = record->level;
    strncpy(ear->module, record->module, sizeof(ear->module) - 1);
    strncpy(ear->message, record->message, sizeof(ear->message) - 1);
}

static kiln_env env_with(const char *levels, heard *ear)
{
    kiln_env env = {.allocator = kiln_allocator_default(), .log = hear, .log_user = ear};
    KILN_CHECK_INT(kiln_config_create(&env.allocator, NULL, false, &env.config, NULL), 0);
    KILN_CHECK_INT(kiln_config_set(env.config, "log", levels, KILN_ORIGIN_FLAG, NULL), 0);
    return env;
}

static void check_levels(const char *levels, kiln_log_level ir, kiln_log_level other)
{
    heard ear = {0};
    kiln_env env = env_with(levels, &ear);
    for (int level = 0; level <= KILN_LOG_TRACE; level++) {
        KILN_CHECK_INT(kiln_log_enabled(&env, (kiln_log_level)level, "ir"), level <= (int)ir);
        KILN_CHECK_INT(kiln_log_enabled(&env, (kiln_log_level)level, "irx"), level <= (int)other);
        KILN_CHECK_INT(kiln_log_enabled(&env, (kiln_log_level)level, "i"), level <= (int)other);
    }
    kiln_config_destroy(env.config);
}

static void test_levels(void)
{
    check_levels("warn", KILN_LOG_WARN, KILN_LOG_WARN);
    check_levels("error", KILN_LOG_ERROR, KILN_LOG_ERROR);
    check_levels("trace", KILN_LOG_TRACE, KILN_LOG_TRACE);
    check_levels("ir=debug", KILN_LOG_DEBUG, KILN_LOG_WARN);
    check_levels("ir=error", KILN_LOG_ERROR, KILN_LOG_WARN);
    check_levels("info,ir=error", KILN_LOG_ERROR, KILN_LOG_INFO);
    check_levels("ir=trace,error", KILN_LOG_TRACE, KILN_LOG_ERROR);
}

static void check_modules(const char *levels, const char *unknown)
{
    heard ear = {0};
    kiln_env env = env_with(levels, &ear);
    kiln_config_warn_log(&env);
    KILN_CHECK_INT(ear.count, unknown != NULL);
    if (unknown != NULL) {
        KILN_CHECK_CONTAINS(ear.message, unknown);
    }
    kiln_config_destroy(env.config);
}

static void test_unknown_modules(void)
{
    check_modules("debug", NULL);
    check_modules("runtime=debug,cl_backend=warn,warn", NULL);
    check_modules("fusion=debug", "no module is named fusion;");
    check_modules("warn,runtim=debug", "no module is named runtim;");
}

static void check_variable(const char *name, bool unknown)
{
    heard ear = {0};
    kiln_env env = env_with("warn", &ear);
    kiln_config_warn_environment(&env);
    int before = ear.count;
    setenv(name, "1", 1);
    kiln_config_warn_environment(&env);
    KILN_CHECK_INT(ear.count, 2 * before + unknown);
    unsetenv(name);
    kiln_config_destroy(env.config);
}

static void test_unknown_variables(void)
{
    check_variable("KILN_CHECKK", true);
    check_variable("KILN_PLUGIN_MOD", true);
    check_variable("KILN_", true);
    check_variable("KILN_CHECK", false);
    check_variable("KILN_TEST_ANYTHING", false);
    check_variable("KILN_JOBS", false);
    check_variable("KILN_JOBSS", true);
    check_variable("KILNS_CHECK", false);
}

static void test_record(void)
{
    heard ear = {0};
    kiln_env env = env_with("info", &ear);
    kiln_log_write(&env, KILN_LOG_DEBUG, "ir", "not heard");
    KILN_CHECK_INT(ear.count, 0);
    kiln_log_write(&env, KILN_LOG_INFO, "ir", "two\nlines %d", 5);
    KILN_CHECK_INT(ear.count, 1);
    KILN_CHECK_INT(ear.level, KILN_LOG_INFO);
    KILN_CHECK_STR(ear.module, "ir");
    KILN_CHECK_STR(ear.message, "two lines 5");
    char text[5000];
    memset(text, 'z', sizeof(text));
    text[sizeof(text) - 1] = 0;
    kiln_log_write(&env, KILN_LOG_ERROR, "ir", "%s", text);
    KILN_CHECK(strlen(ear.message) < 2048);
    kiln_config_destroy(env.config);
}

static void test_silence(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    KILN_CHECK(!kiln_log_enabled(&env, KILN_LOG_ERROR, "ir"));
    kiln_log_write(&env, KILN_LOG_ERROR, "ir", "to nobody");
    kiln_log_write(NULL, KILN_LOG_ERROR, "ir", "to nobody");
    heard ear = {0};
    env.log = hear;
    env.log_user = &ear;
    kiln_log_write(&env, KILN_LOG_WARN, "ir", "without a configuration the defaults hold");
    kiln_log_write(&env, KILN_LOG_INFO, "ir", "not heard");
    KILN_CHECK_INT(ear.count, 1);
}

KILN_TEST_MAIN("unit/base/log", KILN_TEST(test_levels), KILN_TEST(test_unknown_modules),
               KILN_TEST(test_unknown_variables), KILN_TEST(test_record), KILN_TEST(test_silence))
