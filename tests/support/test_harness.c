// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests the harness itself: that a failing check fails the program, that a skip is counted and
// named, and that parameters, folders and files work. Children of this program run the failing
// cases.
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const int answer = 42;

static void test_param(void)
{
    const int *value = kiln_test_param();
    KILN_CHECK_INT(*value, 42);
    KILN_CHECK_STR(kiln_test_name(), "param_case");
}

static void test_files(void)
{
    const char *path = kiln_test_path(kiln_test_tmpdir(), "a.bin");
    KILN_CHECK(kiln_test_write_file(path, "abc", 3));
    size_t size = 0;
    char *data = kiln_test_read_file(path, &size);
    if (!KILN_CHECK(data != NULL)) {
        return;
    }
    KILN_CHECK_INT(size, 3);
    KILN_CHECK_MEM(data, "abc", 4);
    free(data);
}

static void test_address(void)
{
    KILN_CHECK_INT(setenv("KILN_DEVICE", "opencl:3", 1), 0);
    KILN_CHECK_STR(kiln_test_address("opencl:0"), "opencl:3");
    KILN_CHECK_STR(kiln_test_address("opencl:0#0/2"), "opencl:0#0/2");
    KILN_CHECK_STR(kiln_test_address("reference:0"), "reference:0");
    KILN_CHECK_INT(setenv("KILN_DEVICE", "reference", 1), 0);
    KILN_CHECK_STR(kiln_test_address("opencl:0"), "opencl:0");
    unsetenv("KILN_DEVICE");
    KILN_CHECK_STR(kiln_test_address("opencl:0"), "opencl:0");
}

static void bad_case(void)
{
    KILN_CHECK_INT(1, 2);
}

static void skipping_case(void)
{
    kiln_test_skip("no %s here", "device");
}

/* Runs one case in a child and returns its exit status and what it printed. */
static int run_child(void (*run)(void), char *text, size_t size_bytes)
{
    int fds[2];
    if (pipe(fds) != 0) {
        return -1;
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        char command[2048];
        snprintf(command, sizeof(command), "/proc/%ld/exe", (long)getppid());
        setenv("KILN_HARNESS_CHILD", run == bad_case ? "fail" : "skip", 1);
        execl(command, "test_harness", (char *)NULL);
        _exit(99);
    }
    close(fds[1]);
    size_t used = 0;
    ssize_t got = 0;
    while (used + 1 < size_bytes && (got = read(fds[0], text + used, size_bytes - used - 1)) > 0) {
        used += (size_t)got;
    }
    text[used] = '\0';
    close(fds[0]);
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_failure_is_counted(void)
{
    char text[4096];
    KILN_CHECK_INT(run_child(bad_case, text, sizeof(text)), 1);
    KILN_CHECK_CONTAINS(text, "FAIL unit/support child");
    KILN_CHECK_CONTAINS(text, "1 is 1, expected 2");
    KILN_CHECK_CONTAINS(text, "kiln-test: 0 passed, 1 failed, 0 skipped");
}

static void test_skip_is_named(void)
{
    char text[4096];
    KILN_CHECK_INT(run_child(skipping_case, text, sizeof(text)), 0);
    KILN_CHECK_CONTAINS(text, "SKIP unit/support child: no device here");
    KILN_CHECK_CONTAINS(text, "kiln-test: 0 passed, 0 failed, 1 skipped");
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        KILN_TEST_PARAM(test_param, "param_case", &answer),
        KILN_TEST(test_files),
        KILN_TEST(test_address),
        KILN_TEST(test_failure_is_counted),
        KILN_TEST(test_skip_is_named),
    };
    static const kiln_test_case failing[] = {{"child", bad_case, NULL}};
    static const kiln_test_case skipping[] = {{"child", skipping_case, NULL}};
    const char *child = getenv("KILN_HARNESS_CHILD");
    if (child != NULL) {
        return kiln_test_run("unit/support", strcmp(child, "fail") == 0 ? failing : skipping, 1,
                             argc, argv);
    }
    return kiln_test_run("unit/support", cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
