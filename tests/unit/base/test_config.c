// SPDX-License-Identifier: MIT OR Apache-2.0
// Options: precedence, types, the file's grammar, and every allocation failing once.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "faults.h"
#include "harness.h"

static const char *file_with(const char *text)
{
    const char *path = kiln_test_path(kiln_test_tmpdir(), "kiln.conf");
    kiln_test_write_file(path, text, strlen(text));
    return path;
}

static kiln_status create(const char *path, bool environment, kiln_config **out_config,
                          kiln_error *err)
{
    kiln_allocator allocator = kiln_allocator_default();
    return kiln_config_create(&allocator, path, environment, out_config, err);
}

static void clear_environment(void)
{
    for (int i = 0; i < KILN_OPTION_COUNT; i++) {
        unsetenv(kiln_option_environment((kiln_option)i));
    }
}

static void test_defaults(void)
{
    kiln_config *config = NULL;
    clear_environment();
    KILN_CHECK_INT(create(NULL, true, &config, NULL), KILN_STATUS_OK);
    for (int i = 0; i < 2; i++) {
        const kiln_config *read = i == 0 ? config : NULL;
        KILN_CHECK_STR(kiln_config_string(read, KILN_OPTION_LOG), "warn");
        KILN_CHECK_INT(kiln_config_int(read, KILN_OPTION_CACHE_LIMIT), 1 << 30);
        KILN_CHECK(!kiln_config_bool(read, KILN_OPTION_DETERMINISTIC));
        KILN_CHECK_INT(kiln_config_origin(read, KILN_OPTION_LOG), KILN_ORIGIN_DEFAULT);
    }
    KILN_CHECK(kiln_option_name(KILN_OPTION_COUNT) == NULL);
    KILN_CHECK_STR(kiln_option_name(KILN_OPTION_PLUGINS), "plugins");
    KILN_CHECK(kiln_option_help(KILN_OPTION_PLUGINS) != NULL);
    kiln_config_destroy(config);
    kiln_config_destroy(NULL);
}

static void test_precedence(void)
{
    kiln_config *config = NULL;
    clear_environment();
    setenv("KILN_PLUGINS", "lazy", 1);
    setenv("KILN_CACHE_LIMIT", "", 1); // empty is unset
    const char *path = file_with("plugins = off\ncache-limit = 5\ndevice=opencl:1\n");
    KILN_CHECK_INT(create(path, true, &config, NULL), KILN_STATUS_OK);
    KILN_CHECK_STR(kiln_config_string(config, KILN_OPTION_PLUGINS), "lazy");
    KILN_CHECK_INT(kiln_config_origin(config, KILN_OPTION_PLUGINS), KILN_ORIGIN_ENVIRONMENT);
    KILN_CHECK_INT(kiln_config_int(config, KILN_OPTION_CACHE_LIMIT), 5);
    KILN_CHECK_INT(kiln_config_origin(config, KILN_OPTION_CACHE_LIMIT), KILN_ORIGIN_FILE);
    KILN_CHECK_INT(kiln_config_set(config, "plugins", "off", KILN_ORIGIN_FLAG, NULL),
                   KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_config_set(config, "plugins", "lazy", KILN_ORIGIN_FILE, NULL),
                   KILN_STATUS_OK);
    KILN_CHECK_STR(kiln_config_string(config, KILN_OPTION_PLUGINS), "off");
    KILN_CHECK_INT(kiln_config_origin(config, KILN_OPTION_PLUGINS), KILN_ORIGIN_FLAG);
    kiln_config_destroy(config);
    KILN_CHECK_INT(create(path, false, &config, NULL), KILN_STATUS_OK);
    KILN_CHECK_STR(kiln_config_string(config, KILN_OPTION_PLUGINS), "off");
    kiln_config_destroy(config);
    clear_environment();
}

static void test_types(void)
{
    static const struct {
        const char *name, *value;
        int64_t expected;
        kiln_status status;
    } cases[] = {
        {"cache-limit", "12", 12, KILN_STATUS_OK},
        {"cache-limit", "3K", 3072, KILN_STATUS_OK},
        {"cache-limit", "5m", 5 << 20, KILN_STATUS_OK},
        {"cache-limit", "-1", 0, KILN_STATUS_INVALID_ARGUMENT},
        {"cache-limit", "8589934591G", (int64_t)8589934591 << 30, KILN_STATUS_OK},
        {"cache-limit", "8589934592G", 0, KILN_STATUS_INVALID_ARGUMENT},
        {"cache-limit", "99999999999999999999", 0, KILN_STATUS_INVALID_ARGUMENT},
        {"cache-limit", "", 0, KILN_STATUS_INVALID_ARGUMENT},
        {"cache-limit", "K", 0, KILN_STATUS_INVALID_ARGUMENT},
        {"cache-limit", "1KB", 0, KILN_STATUS_INVALID_ARGUMENT},
        {"cache-limit", " 1", 0, KILN_STATUS_INVALID_ARGUMENT},
        {"deterministic", "on", 1, KILN_STATUS_OK},
        {"deterministic", "no", 0, KILN_STATUS_OK},
        {"deterministic", "true", 1, KILN_STATUS_OK},
        {"deterministic", "2", 0, KILN_STATUS_INVALID_ARGUMENT},
        {"log", "warn,cl_backend=debug", 0, KILN_STATUS_OK},
        {"log", "loud", 0, KILN_STATUS_INVALID_ARGUMENT},
        {"log", "=debug", 0, KILN_STATUS_INVALID_ARGUMENT},
        {"log", "", 0, KILN_STATUS_INVALID_ARGUMENT},
        {"tune", "lazy", 0, KILN_STATUS_OK},
        {"tune", "of", 0, KILN_STATUS_INVALID_ARGUMENT},
        {"tune", "offer", 0, KILN_STATUS_INVALID_ARGUMENT},
        {"tune", "off lazy", 0, KILN_STATUS_INVALID_ARGUMENT},
        {"tune", "Off", 0, KILN_STATUS_INVALID_ARGUMENT},
        {"tune", "", 0, KILN_STATUS_INVALID_ARGUMENT},
        {"check", "always", 0, KILN_STATUS_OK},
        {"check", "sometimes", 0, KILN_STATUS_INVALID_ARGUMENT},
        {"compiler", "prepare", 0, KILN_STATUS_OK},
        {"compiler", "maybe", 0, KILN_STATUS_INVALID_ARGUMENT},
        {"plugin-mode", "signed", 0, KILN_STATUS_OK},
        {"plugin-mode", "lenient", 0, KILN_STATUS_INVALID_ARGUMENT},
        {"no-such-option", "1", 0, KILN_STATUS_NOT_FOUND},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kiln_config *config = NULL;
        kiln_error err = KILN_ERROR_INIT;
        KILN_CHECK_INT(create(NULL, false, &config, NULL), KILN_STATUS_OK);
        kiln_status status =
            kiln_config_set(config, cases[i].name, cases[i].value, KILN_ORIGIN_FLAG, &err);
        KILN_CHECK_INT(status, cases[i].status);
        KILN_CHECK(status == KILN_STATUS_OK || strstr(err.message, cases[i].name) != NULL);
        for (int option = 0; status == KILN_STATUS_OK && option < KILN_OPTION_COUNT; option++) {
            if (strcmp(kiln_option_name((kiln_option)option), cases[i].name) == 0) {
                KILN_CHECK_INT(kiln_config_int(config, (kiln_option)option), cases[i].expected);
            }
        }
        kiln_config_destroy(config);
    }
}

/// A value that is none of an option's words is refused wherever it comes from, with the words.
static void test_words(void)
{
    static const char *const told = "tune is of; off, lazy and full are known";
    kiln_config *config = NULL;
    kiln_error err = KILN_ERROR_INIT;
    clear_environment();
    KILN_CHECK_INT(create(NULL, true, &config, NULL), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_config_set(config, "tune", "full", KILN_ORIGIN_FLAG, NULL), 0);
    KILN_CHECK_INT(kiln_config_set(config, "tune", "of", KILN_ORIGIN_FLAG, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message, told);
    KILN_CHECK_STR(kiln_config_string(config, KILN_OPTION_TUNE), "full");
    kiln_config_destroy(config);
    KILN_CHECK_INT(create(file_with("tune = of\n"), true, &config, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "kiln.conf:1: ");
    KILN_CHECK_CONTAINS(err.message, told);
    setenv("KILN_TUNE", "of", 1);
    KILN_CHECK_INT(create(NULL, true, &config, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "environment KILN_TUNE: ");
    KILN_CHECK_CONTAINS(err.message, told);
    clear_environment();
}

static void test_defaults_are_allowed(void)
{
    kiln_config *config = NULL;
    KILN_CHECK_INT(create(NULL, false, &config, NULL), KILN_STATUS_OK);
    for (int i = 0; i < KILN_OPTION_COUNT; i++) {
        KILN_CHECK_INT(kiln_config_set(config, kiln_option_name((kiln_option)i),
                                       kiln_config_string(NULL, (kiln_option)i), KILN_ORIGIN_FLAG,
                                       NULL),
                       KILN_STATUS_OK);
    }
    kiln_config_destroy(config);
}

static void test_file_grammar(void)
{
    kiln_config *config = NULL;
    const char *path = file_with("# a comment\n\n  plugins =  a, b   # trailing\r\n"
                                 "kernel-dir=/tmp/x#y\ncache-limit\t=\t2K");
    KILN_CHECK_INT(create(path, false, &config, NULL), KILN_STATUS_OK);
    KILN_CHECK_STR(kiln_config_string(config, KILN_OPTION_PLUGINS), "a, b");
    KILN_CHECK_STR(kiln_config_string(config, KILN_OPTION_KERNEL_DIR), "/tmp/x#y");
    KILN_CHECK_INT(kiln_config_int(config, KILN_OPTION_CACHE_LIMIT), 2048);
    kiln_config_destroy(config);
}

static void check_bad_file(const char *text, const char *part)
{
    kiln_config *config = NULL;
    kiln_error err = KILN_ERROR_INIT;
    KILN_CHECK_INT(create(file_with(text), false, &config, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(config == NULL);
    KILN_CHECK_CONTAINS(err.message, part);
}

static void test_bad_files(void)
{
    kiln_config *config = NULL;
    kiln_error err = KILN_ERROR_INIT;
    check_bad_file("plugins = off\nnonsense\n", "kiln.conf:2");
    check_bad_file("x = 1\n", "kiln.conf:1: no option is named 'x'");
    check_bad_file("\n\ncache-limit = lots\n", "kiln.conf:3");
    char *line = malloc(6000);
    memset(line, 'a', 5999);
    line[5999] = 0;
    check_bad_file(line, "kiln.conf:1");
    free(line);
    KILN_CHECK_INT(create("/no/such/file", false, &config, &err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_CONTAINS(err.message, "/no/such/file");
    setenv("KILN_DETERMINISTIC", "perhaps", 1);
    KILN_CHECK_INT(create(NULL, true, &config, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "KILN_DETERMINISTIC");
    clear_environment();
}

typedef struct setter {
    kiln_config *config;
    atomic_bool done;
} setter;

static void *set_often(void *user)
{
    setter *self = user;
    for (int i = 0; i < 2000; i++) {
        KILN_CHECK_INT(kiln_config_set(self->config, "plugins", i % 2 == 0 ? "off" : "a,b",
                                       KILN_ORIGIN_FLAG, NULL),
                       KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_config_set(self->config, "watchdog", i % 2 == 0 ? "2" : "1",
                                       KILN_ORIGIN_FLAG, NULL),
                       KILN_STATUS_OK);
    }
    atomic_store(&self->done, true);
    return NULL;
}

/// What was read stays as it was, and others may read while one sets.
static void test_read_while_set(void)
{
    pthread_t thread;
    setter self = {0};
    clear_environment();
    KILN_CHECK_INT(create(NULL, false, &self.config, NULL), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_config_set(self.config, "plugins", "a,b", KILN_ORIGIN_FLAG, NULL),
                   KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_config_set(self.config, "watchdog", "1", KILN_ORIGIN_FLAG, NULL),
                   KILN_STATUS_OK);
    const char *before = kiln_config_string(self.config, KILN_OPTION_PLUGINS);
    KILN_CHECK_INT(pthread_create(&thread, NULL, set_often, &self), 0);
    bool sound = true;
    while (!atomic_load(&self.done)) {
        const char *text = kiln_config_string(self.config, KILN_OPTION_PLUGINS);
        int64_t number = kiln_config_int(self.config, KILN_OPTION_WATCHDOG);
        sound = sound && (strcmp(text, "off") == 0 || strcmp(text, "a,b") == 0) &&
                (number == 1 || number == 2);
    }
    pthread_join(thread, NULL);
    KILN_CHECK(sound);
    KILN_CHECK_STR(before, "a,b");
    kiln_config_destroy(self.config);
}

static void test_no_memory(void)
{
    kiln_faults faults;
    kiln_faults_init(&faults);
    const char *path = file_with("plugins = lazy\nplugins = off\nlog = info\n");
    for (size_t k = 1; kiln_faults_next(&faults, k); k++) {
        kiln_config *config = NULL;
        kiln_error err = KILN_ERROR_INIT;
        kiln_status status = kiln_config_create(&faults.allocator, path, false, &config, &err);
        bool failed = atomic_load(&faults.requests) >= k;
        KILN_CHECK_INT(status, failed ? KILN_STATUS_RESOURCE_EXHAUSTED : KILN_STATUS_OK);
        KILN_CHECK((config == NULL) == failed);
        kiln_config_destroy(config);
    }
}

KILN_TEST_MAIN("unit/base/config", KILN_TEST(test_defaults), KILN_TEST(test_precedence),
               KILN_TEST(test_types), KILN_TEST(test_words), KILN_TEST(test_defaults_are_allowed),
               KILN_TEST(test_file_grammar), KILN_TEST(test_bad_files),
               KILN_TEST(test_read_while_set), KILN_TEST(test_no_memory))
