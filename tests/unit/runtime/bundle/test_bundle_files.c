// SPDX-License-Identifier: MIT OR Apache-2.0
// A bundle's files as maps: what is wrong with one is said as it is.

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bundle_files.h"
#include "harness.h"

static const char content[] = "weights";

typedef struct shelf { ///< a folder, and what HASHES would say of a file in it
    kiln_env env;
    char path[512];
    bundle_file_hash hash;
    bundle_folder folder;
} shelf;

static void shelf_open(shelf *s)
{
    *s = (shelf){.env = {.allocator = kiln_allocator_default()}};
    snprintf(s->path, sizeof(s->path), "%s", kiln_test_tmpdir());
    s->hash = (bundle_file_hash){.hash = kiln_hash_bytes(content, strlen(content)), .name = "c"};
    s->folder = (bundle_folder){.env = &s->env, .path = s->path, .hashes = &s->hash};
}

static void file_path(const shelf *s, char out[1024])
{
    snprintf(out, 1024, "%s/c", s->path);
}

static kiln_status map_once(const shelf *s, kiln_error *err)
{
    kiln_blob bytes;
    kiln_status status = kilni_bundle_folder_map(&s->folder, "c", &bytes, err);
    KILN_CHECK(status == KILN_STATUS_OK ? bytes.length == strlen(content) &&
                                              memcmp(bytes.data, content, bytes.length) == 0
                                        : bytes.data == NULL);
    kilni_bundle_unmap(&bytes);
    return status;
}

static void test_maps(void)
{
    shelf s;
    char path[1024];
    kiln_error err = KILN_ERROR_INIT;
    shelf_open(&s);
    file_path(&s, path);
    KILN_CHECK_INT(map_once(&s, &err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(kilni_bundle_write(path, content, 0, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(map_once(&s, &err), KILN_STATUS_DATA_LOSS);
    KILN_CHECK_INT(kilni_bundle_write(path, content, 3, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(map_once(&s, &err), KILN_STATUS_DATA_LOSS);
    KILN_CHECK_INT(kilni_bundle_write(path, content, strlen(content), &err), KILN_STATUS_OK);
    KILN_CHECK_INT(map_once(&s, &err), KILN_STATUS_OK);
    KILN_CHECK(unlink(path) == 0 && mkdir(path, 0777) == 0);
    KILN_CHECK_INT(map_once(&s, &err), KILN_STATUS_DATA_LOSS);
    KILN_CHECK_CONTAINS(err.message, "is damaged");
    KILN_CHECK(rmdir(path) == 0);
}

/* A file that is too large for the process is not a damaged one. */
static void test_no_room_for_a_map(void)
{
    shelf s;
    char path[1024];
    int ended = 0;
    shelf_open(&s);
    file_path(&s, path);
    int file = open(path, O_WRONLY | O_CREAT, 0666);
    KILN_CHECK(file >= 0 && ftruncate(file, (off_t)1 << 30) == 0 && close(file) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit little = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
        kiln_error err = KILN_ERROR_INIT;
        kiln_blob bytes;
        _exit(setrlimit(RLIMIT_AS, &little) == 0
                  ? (int)kilni_bundle_folder_map(&s.folder, "c", &bytes, &err)
                  : 99);
    }
    KILN_CHECK_INT(waitpid(child, &ended, 0), child);
    KILN_CHECK(WIFEXITED(ended));
    KILN_CHECK_INT(WEXITSTATUS(ended), KILN_STATUS_RESOURCE_EXHAUSTED);
}

KILN_TEST_MAIN("unit/runtime/bundle_files", KILN_TEST(test_maps), KILN_TEST(test_no_room_for_a_map))
