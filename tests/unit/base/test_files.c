// SPDX-License-Identifier: MIT OR Apache-2.0
// Files that several threads write at once: each write succeeds, what is read is whole, and nothing
// is left beside it.
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base_files.h"
#include "harness.h"

enum { THREADS = 4, ROUNDS = 50, LENGTH = 30000 };

typedef struct writer {
    const char *path;
    char letter;
    int failures;
} writer;

static bool replace(const char *path, char letter, size_t length, bool keep)
{
    char beside[600];
    FILE *file = kilni_base_replace_begin(path, beside, sizeof(beside));
    if (file == NULL) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        fputc(letter, file);
    }
    return kilni_base_replace_end(file, beside, path, keep);
}

static size_t read_same(const char *path)
{
    char text[LENGTH + 1] = {0};
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    size_t length = fread(text, 1, sizeof(text), file);
    (void)fclose(file);
    for (size_t i = 0; i < length; i++) {
        if (text[i] != text[0]) {
            return 0;
        }
    }
    return length;
}

static void *write_often(void *user)
{
    writer *w = user;
    for (int i = 0; i < ROUNDS; i++) {
        w->failures += !replace(w->path, w->letter, LENGTH, true);
        w->failures += read_same(w->path) != LENGTH;
    }
    return NULL;
}

static int count_files(const char *folder)
{
    int count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        count += e->d_name[0] != '.';
    }
    closedir(dir);
    return count;
}

static void test_threads_replace(void)
{
    const char *folder = kiln_test_path(kiln_test_tmpdir(), "threads");
    KILN_CHECK_INT(mkdir(folder, 0700), 0);
    const char *path = kiln_test_path(folder, "file");
    pthread_t threads[THREADS];
    writer writers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        writers[i] = (writer){.path = path, .letter = (char)('a' + i)};
        pthread_create(&threads[i], NULL, write_often, &writers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        KILN_CHECK_INT(writers[i].failures, 0);
    }
    KILN_CHECK_INT(count_files(folder), 1);
}

static void test_failures_leave_the_old(void)
{
    const char *folder = kiln_test_path(kiln_test_tmpdir(), "kept");
    KILN_CHECK_INT(mkdir(folder, 0700), 0);
    const char *path = kiln_test_path(folder, "file");
    KILN_CHECK(replace(path, 'a', 7, true));
    KILN_CHECK(!replace(path, 'b', 9, false));
    KILN_CHECK_INT(read_same(path), 7);
    KILN_CHECK_INT(count_files(folder), 1);
    char beside[600];
    KILN_CHECK(kilni_base_replace_begin("/nowhere/file", beside, sizeof(beside)) == NULL);
    KILN_CHECK_INT(errno, ENOENT);
    KILN_CHECK(kilni_base_replace_begin(path, beside, 8) == NULL);
    KILN_CHECK_INT(errno, ENAMETOOLONG);
}

KILN_TEST_MAIN("unit/base/files", KILN_TEST(test_threads_replace),
               KILN_TEST(test_failures_leave_the_old))
