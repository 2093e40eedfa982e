// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs a table of cases under CUnit and reports failures, skips and counts.
// Decides: the output format that tools/test_summary.py parses, the environment that tests share,
// temporary folders. CUnit keeps the registry and the assertion records; what a module needs for
// its own tests (tensors, devices, reference values) belongs to that module's tests.
#include "harness.h"

#include <CUnit/CUnit.h>
#include <CUnit/TestDB.h>
#include <CUnit/TestRun.h>
#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_TMPDIRS = 256, MESSAGE_BYTES = 1024 };

static const char *suite_name;
static const kiln_test_case *current;
static char skip_reason[MESSAGE_BYTES];
static unsigned passed_count;
static unsigned failed_count;
static unsigned skipped_count;
static char *tmpdirs[MAX_TMPDIRS];
static size_t tmpdir_count;

const void *kiln_test_param(void)
{
    return current->param;
}

const char *kiln_test_name(void)
{
    return current->name;
}

bool kiln_test_is_long(void)
{
    const char *set = getenv("KILN_TEST_LONG");
    return set != NULL && *set != '\0' && strcmp(set, "0") != 0;
}

const char *kiln_test_address(const char *address)
{
    const char *chosen = getenv("KILN_DEVICE");
    bool first = strcmp(address, "opencl:0") == 0 || strcmp(address, "opencl:") == 0;
    return first && chosen != NULL && strncmp(chosen, "opencl:", 7) == 0 ? chosen : address;
}

bool kiln_test_takes(size_t number, size_t share)
{
    return kiln_test_is_long() || number % share == 0;
}

void kiln_test_skip(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(skip_reason, sizeof(skip_reason), format, args);
    va_end(args);
}

void kiln_test_fail(const char *file, int line, const char *format, ...)
{
    char text[MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    CU_assertImplementation(CU_FALSE, (unsigned)line, text, file, "", CU_FALSE);
}

bool kiln_test_check(bool ok, const char *file, int line, const char *text)
{
    return CU_assertImplementation(ok ? CU_TRUE : CU_FALSE, (unsigned)line, text, file, "",
                                   CU_FALSE) == CU_TRUE;
}

bool kiln_test_check_int(int64_t actual, int64_t expected, const char *file, int line,
                         const char *text)
{
    if (actual == expected) {
        return kiln_test_check(true, file, line, text);
    }
    kiln_test_fail(file, line, "%s is %lld, expected %lld", text, (long long)actual,
                   (long long)expected);
    return false;
}

bool kiln_test_check_str(const char *actual, const char *expected, const char *file, int line,
                         const char *text)
{
    if (actual != NULL && expected != NULL && strcmp(actual, expected) == 0) {
        return kiln_test_check(true, file, line, text);
    }
    kiln_test_fail(file, line, "%s is \"%s\", expected \"%s\"", text,
                   actual != NULL ? actual : "(null)", expected != NULL ? expected : "(null)");
    return false;
}

bool kiln_test_check_contains(const char *text, const char *part, const char *file, int line)
{
    if (text != NULL && strstr(text, part) != NULL) {
        return kiln_test_check(true, file, line, part);
    }
    kiln_test_fail(file, line, "\"%s\" does not contain \"%s\"", text != NULL ? text : "(null)",
                   part);
    return false;
}

bool kiln_test_check_near(double actual, double expected, double tolerance, const char *file,
                          int line, const char *text)
{
    bool same = actual == expected || (isnan(actual) && isnan(expected));
    if (same || fabs(actual - expected) <= tolerance) {
        return kiln_test_check(true, file, line, text);
    }
    kiln_test_fail(file, line, "%s is %.9g, expected %.9g within %.3g", text, actual, expected,
                   tolerance);
    return false;
}

bool kiln_test_check_mem(const void *actual, const void *expected, size_t size_bytes,
                         const char *file, int line, const char *text)
{
    const unsigned char *a = actual;
    const unsigned char *b = expected;
    for (size_t i = 0; i < size_bytes; i++) {
        if (a[i] != b[i]) {
            kiln_test_fail(file, line, "%s differs at byte %zu of %zu: %02x, expected %02x", text,
                           i, size_bytes, (unsigned)a[i], (unsigned)b[i]);
            return false;
        }
    }
    return kiln_test_check(true, file, line, text);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static void remove_tmpdirs(void)
{
    for (size_t i = 0; i < tmpdir_count; i++) {
        nftw(tmpdirs[i], remove_entry, 16, FTW_DEPTH | FTW_PHYS);
        free(tmpdirs[i]);
    }
    tmpdir_count = 0;
}

/* Strings handed to tests live in the same list as the folders: freed once, at the end. */
static char *keep_string(const char *folder, const char *name)
{
    static char *kept[MAX_TMPDIRS * 16];
    static size_t kept_count;
    if (folder == NULL) {
        while (kept_count > 0) {
            free(kept[--kept_count]);
        }
        return NULL;
    }
    size_t size = strlen(folder) + strlen(name) + 2;
    char *text = malloc(size);
    if (text == NULL || kept_count == sizeof(kept) / sizeof(kept[0])) {
        fprintf(stderr, "harness: no room for another path\n");
        exit(3);
    }
    snprintf(text, size, "%s/%s", folder, name);
    kept[kept_count++] = text;
    return text;
}

const char *kiln_test_tmpdir(void)
{
    const char *base = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof(path), "%s/kiln-test-XXXXXX", base != NULL ? base : "/tmp");
    if (tmpdir_count == MAX_TMPDIRS || mkdtemp(path) == NULL) {
        fprintf(stderr, "harness: cannot make a folder like %s: %s\n", path, strerror(errno));
        exit(3);
    }
    tmpdirs[tmpdir_count] = strdup(path);
    return tmpdirs[tmpdir_count++];
}

const char *kiln_test_path(const char *folder, const char *name)
{
    return keep_string(folder, name);
}

bool kiln_test_write_file(const char *path, const void *data, size_t size_bytes)
{
    FILE *file = fopen(path, "wb");
    bool ok = file != NULL && (size_bytes == 0 || fwrite(data, 1, size_bytes, file) == size_bytes);
    if (file != NULL && fclose(file) != 0) {
        ok = false;
    }
    if (!ok) {
        kiln_test_fail(__FILE__, __LINE__, "cannot write %s: %s", path, strerror(errno));
    }
    return ok;
}

uint64_t kiln_test_resident(const char *part)
{
    char line[4200];
    bool is_it = false;
    uint64_t bytes = 0;
    FILE *file = fopen("/proc/self/smaps", "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        bool is_header = strstr(line, " kB") == NULL && strstr(line, "VmFlags") == NULL;
        is_it = is_header ? strstr(line, part) != NULL : is_it;
        bytes += is_it && strncmp(line, "Rss:", 4) == 0 ? strtoull(line + 4, NULL, 10) * 1024 : 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return bytes;
}

char *kiln_test_read_file(const char *path, size_t *out_size_bytes)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    char *data = NULL;
    size_t size = 0;
    size_t got = 0;
    do {
        char *grown = realloc(data, size + 65537);
        if (grown == NULL) {
            free(data);
            fclose(file);
            return NULL;
        }
        data = grown;
        got = fread(data + size, 1, 65536, file);
        size += got;
    } while (got > 0);
    fclose(file);
    data[size] = '\0';
    if (out_size_bytes != NULL) {
        *out_size_bytes = size;
    }
    return data;
}

char *kiln_test_need_file(const char *path, size_t *out_size_bytes)
{
    char *bytes = kiln_test_read_file(path, out_size_bytes);
    if (bytes == NULL) {
        printf("FAIL %s cannot be read: this test needs Kiln's tree\n", path);
        fflush(NULL);
        _exit(1);
    }
    return bytes;
}

static void run_current(void)
{
    skip_reason[0] = '\0';
    current->run();
}

static void print_result(const CU_pFailureRecord failures)
{
    if (failures != NULL) {
        failed_count++;
        printf("FAIL %s %s\n", suite_name, current->name);
        for (CU_pFailureRecord f = failures; f != NULL; f = f->pNext) {
            printf("    %s:%u: %s\n", f->strFileName, f->uiLineNumber, f->strCondition);
        }
    } else if (skip_reason[0] != '\0') {
        skipped_count++;
        printf("SKIP %s %s: %s\n", suite_name, current->name, skip_reason);
    } else {
        passed_count++;
    }
    fflush(stdout);
}

static void on_test_complete(const CU_pTest test, const CU_pSuite suite,
                             const CU_pFailureRecord failures)
{
    (void)test;
    (void)suite;
    print_result(failures);
}

static bool matches(const char *name, int argc, char **argv)
{
    if (argc < 2) {
        return true;
    }
    for (int i = 1; i < argc; i++) {
        bool whole = argv[i][0] == '=';
        if (whole ? strcmp(name, argv[i] + 1) == 0 : strstr(name, argv[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static void set_environment(void)
{
    setenv("POCL_CACHE_DIR", KILN_TEST_POCL_CACHE, 0);
    setenv("KILN_CACHE_DIR", "off", 0);
    setenv("KILN_PLUGIN_PATH", KILN_TEST_BUILD_DIR "/lib/kiln/plugins", 0);
    setenv("KILN_PLUGIN_MODE", "developer", 0);
    mkdir(KILN_TEST_POCL_CACHE, 0700);
}

/* CUnit runs tests without arguments, so each case runs as its own CUnit test with `current` set.
 */
static unsigned run_matching(const kiln_test_case *cases, size_t count, int argc, char **argv)
{
    unsigned run_count = 0;
    CU_pSuite suite = CU_add_suite(suite_name, NULL, NULL);
    CU_set_test_complete_handler(on_test_complete);
    for (size_t i = 0; i < count; i++) {
        if (!matches(cases[i].name, argc, argv)) {
            continue;
        }
        current = &cases[i];
        CU_pTest test = CU_add_test(suite, cases[i].name, run_current);
        if (test == NULL || CU_run_test(suite, test) == CUE_NOTEST) {
            printf("FAIL %s %s\n    harness: %s\n", suite_name, cases[i].name, CU_get_error_msg());
            failed_count++;
        }
        run_count++;
    }
    return run_count;
}

int kiln_test_run(const char *suite, const kiln_test_case *cases, size_t count, int argc,
                  char **argv)
{
    suite_name = suite;
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < count; i++) {
            printf("%s\n", cases[i].name);
        }
        return 0;
    }
    set_environment();
    if (CU_initialize_registry() != CUE_SUCCESS) {
        fprintf(stderr, "harness: %s\n", CU_get_error_msg());
        return 3;
    }
    unsigned run_count = run_matching(cases, count, argc, argv);
    CU_cleanup_registry();
    remove_tmpdirs();
    keep_string(NULL, NULL);
    printf("kiln-test: %u passed, %u failed, %u skipped\n", passed_count, failed_count,
           skipped_count);
    if (run_count == 0) {
        fprintf(stderr, "harness: no case matches\n");
        return 2;
    }
    return failed_count != 0 ? 1 : 0;
}
