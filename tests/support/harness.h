// SPDX-License-Identifier: MIT OR Apache-2.0
// The test harness: a table of functions run by CUnit, one parseable line of counts at the end.
//
//     static void test_add(void) { KILN_CHECK_INT(1 + 1, 2); }
//     KILN_TEST_MAIN("unit/arith", KILN_TEST(test_add))
//
// A program takes words as filters (a test runs when its name contains one of them, or
// is what follows a =) and --list.
#ifndef KILN_TESTS_SUPPORT_HARNESS_H
#define KILN_TESTS_SUPPORT_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kiln_test_case {
    const char *name;
    void (*run)(void);
    const void *param; /* kiln_test_param() inside the test; several cases can share one function */
} kiln_test_case;

#define KILN_TEST(function)                                                                        \
    {                                                                                              \
#function, function, NULL                                                                  \
    }
#define KILN_TEST_PARAM(function, case_name, pointer)                                              \
    {                                                                                              \
        case_name, function, pointer                                                               \
    }

#define KILN_TEST_MAIN(suite, ...)                                                                 \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        static const kiln_test_case kiln_test_table[] = {__VA_ARGS__};                             \
        return kiln_test_run(suite, kiln_test_table,                                               \
                             sizeof(kiln_test_table) / sizeof(kiln_test_table[0]), argc, argv);    \
    }

/// Runs the cases and prints `kiln-test: N passed, N failed, N skipped` last. Returns the exit
/// status: 0 when nothing failed, 1 when a check failed, 2 for a filter that matches nothing.
int kiln_test_run(const char *suite, const kiln_test_case *cases, size_t count, int argc,
                  char **argv);

/// The running case's parameter, name and suite.
const void *kiln_test_param(void);
const char *kiln_test_name(void);

/// Whether KILN_TEST_LONG asks for the long form.
bool kiln_test_is_long(void);

/// The OpenCL device to test is `opencl:N` of KILN_DEVICE, where that names one: tests that write
/// "opencl:0" mean it. Other addresses are given back as they are.
const char *kiln_test_address(const char *address);

/// Compiling is what takes long in tests of several variants: each takes one in `share` of the
/// cases, and all of them in the long form. A variant adds a number of its own to the case's, so
/// that neighbours take others.
bool kiln_test_takes(size_t number, size_t share);

/// Marks the running case as skipped, with a reason that is printed; the caller returns after it.
/// A case that skips and fails counts as failed.
void kiln_test_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

/// Marks the running case as failed, with a message. `kiln_test_check` does so when `ok` is false
/// and returns `ok`, so that a test can stop: if (!KILN_CHECK(p != NULL)) { return; }
void kiln_test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool kiln_test_check(bool ok, const char *file, int line, const char *text);
bool kiln_test_check_int(int64_t actual, int64_t expected, const char *file, int line,
                         const char *text);
bool kiln_test_check_str(const char *actual, const char *expected, const char *file, int line,
                         const char *text);
bool kiln_test_check_contains(const char *text, const char *part, const char *file, int line);
bool kiln_test_check_near(double actual, double expected, double tolerance, const char *file,
                          int line, const char *text);
bool kiln_test_check_mem(const void *actual, const void *expected, size_t size_bytes,
                         const char *file, int line, const char *text);

#define KILN_CHECK(condition) kiln_test_check((condition), __FILE__, __LINE__, #condition)
#define KILN_CHECK_INT(actual, expected)                                                           \
    kiln_test_check_int((int64_t)(actual), (int64_t)(expected), __FILE__, __LINE__, #actual)
#define KILN_CHECK_STR(actual, expected)                                                           \
    kiln_test_check_str((actual), (expected), __FILE__, __LINE__, #actual)
#define KILN_CHECK_CONTAINS(text, part) kiln_test_check_contains((text), (part), __FILE__, __LINE__)
#define KILN_CHECK_NEAR(actual, expected, tolerance)                                               \
    kiln_test_check_near((actual), (expected), (tolerance), __FILE__, __LINE__, #actual)
#define KILN_CHECK_MEM(actual, expected, size_bytes)                                               \
    kiln_test_check_mem((actual), (expected), (size_bytes), __FILE__, __LINE__, #actual)
#define KILN_FAIL(...) kiln_test_fail(__FILE__, __LINE__, __VA_ARGS__)

/// A new empty folder, removed when the program ends. The string stays valid until then.
const char *kiln_test_tmpdir(void);
/// `folder/name` in a string that stays valid until the program ends.
const char *kiln_test_path(const char *folder, const char *name);
/// Writes a file whole; fails the case and returns false when it cannot.
bool kiln_test_write_file(const char *path, const void *data, size_t size_bytes);
/// Bytes that this process has in memory of mapped files whose path has `part` in it.
uint64_t kiln_test_resident(const char *part);
/// Reads a file whole into memory that the caller frees; NULL when it cannot. Adds a final zero
/// byte.
char *kiln_test_read_file(const char *path, size_t *out_size_bytes);
/// As kiln_test_read_file, of a file that the cases cannot do without: where there is none, this
/// says so and the program has failed.
char *kiln_test_need_file(const char *path, size_t *out_size_bytes);

#endif
