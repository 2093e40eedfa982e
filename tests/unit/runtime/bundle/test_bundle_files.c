// SPDX-License-Identifier: MIT OR Apache-2.0
// A bundle's files in pieces: what is wrong with one is said as it is, also of one that is changed
// while it is read.
#define _DEFAULT_SOURCE // truncate
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bundle_files.h"
#include "bundle_json.h"
#include "faults.h"
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

typedef struct seen { ///< by a visit
    char bytes[64]; ///< the first ones
    uint64_t length;
    uint32_t pieces;
    const char *cut; ///< the file, to be cut short after the first piece; NULL: not
    bool refuse;
} seen;

static kiln_status see(void *user, uint64_t offset, const void *bytes, size_t length,
                       kiln_error *err)
{
    seen *s = user;
    KILN_CHECK(offset == s->length && length > 0 && length <= BUNDLE_PIECE);
    if (s->pieces++ == 0) {
        memcpy(s->bytes, bytes, length < sizeof(s->bytes) ? length : sizeof(s->bytes));
    }
    s->length += length;
    KILN_CHECK(s->cut == NULL || truncate(s->cut, (off_t)s->length) == 0);
    return s->refuse ? kiln_fail(err, UNAVAILABLE, "not now") : KILN_STATUS_OK;
}

static kiln_status visit_once(const shelf *s, kiln_error *err)
{
    seen what = {.length = 0};
    kiln_status status = kilni_bundle_folder_visit(&s->folder, "c", see, &what, err);
    KILN_CHECK(status != KILN_STATUS_OK ||
               (what.length == strlen(content) && memcmp(what.bytes, content, what.length) == 0));
    return status;
}

static void test_visits(void)
{
    shelf s;
    char path[1024];
    uint64_t length = 0;
    kiln_error err = KILN_ERROR_INIT;
    shelf_open(&s);
    file_path(&s, path);
    KILN_CHECK_INT(visit_once(&s, &err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(kilni_bundle_write(path, content, 0, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(visit_once(&s, &err), KILN_STATUS_DATA_LOSS);
    KILN_CHECK_INT(kilni_bundle_write(path, content, 3, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(visit_once(&s, &err), KILN_STATUS_DATA_LOSS);
    KILN_CHECK_INT(kilni_bundle_write(path, content, strlen(content), &err), KILN_STATUS_OK);
    KILN_CHECK_INT(visit_once(&s, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kilni_bundle_folder_length(&s.folder, "c", &length, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(length, (int64_t)strlen(content));
    seen unwilling = {.refuse = true};
    KILN_CHECK_INT(kilni_bundle_folder_visit(&s.folder, "c", see, &unwilling, &err),
                   KILN_STATUS_UNAVAILABLE);
    KILN_CHECK(unlink(path) == 0 && mkdir(path, 0777) == 0);
    KILN_CHECK_INT(visit_once(&s, &err), KILN_STATUS_DATA_LOSS);
    KILN_CHECK_CONTAINS(err.message, "is damaged");
    KILN_CHECK(rmdir(path) == 0);
}

/* Several pieces; the file is cut short while it is read. */
static void test_a_file_that_is_cut_short(void)
{
    enum { LENGTH = 2 * BUNDLE_PIECE + 100 };
    shelf s;
    char path[1024];
    kiln_error err = KILN_ERROR_INIT;
    shelf_open(&s);
    file_path(&s, path);
    char *bytes = calloc(1, LENGTH);
    KILN_CHECK(bytes != NULL);
    for (size_t i = 0; bytes != NULL && i < LENGTH; i += 4096) {
        bytes[i] = (char)(i >> 12);
    }
    s.hash.hash = kiln_hash_bytes(bytes, LENGTH);
    KILN_CHECK_INT(kilni_bundle_write(path, bytes, LENGTH, &err), KILN_STATUS_OK);
    seen whole = {.length = 0};
    KILN_CHECK_INT(kilni_bundle_folder_visit(&s.folder, "c", see, &whole, &err), KILN_STATUS_OK);
    KILN_CHECK(whole.length == LENGTH && whole.pieces == 3);
    seen cut = {.cut = path};
    KILN_CHECK_INT(kilni_bundle_folder_visit(&s.folder, "c", see, &cut, &err),
                   KILN_STATUS_DATA_LOSS);
    KILN_CHECK(cut.pieces == 1);
    KILN_CHECK_CONTAINS(err.message, "/c is damaged");
    free(bytes);
}

static void *no_alloc(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    (void)bytes;
    (void)alignment;
    return NULL;
}

/* A file for which there is no memory is not a damaged one. */
static void test_no_room_for_a_piece(void)
{
    shelf s;
    char path[1024];
    kiln_error err = KILN_ERROR_INIT;
    shelf_open(&s);
    file_path(&s, path);
    KILN_CHECK_INT(kilni_bundle_write(path, content, strlen(content), &err), KILN_STATUS_OK);
    s.env.allocator.alloc = no_alloc;
    KILN_CHECK_INT(visit_once(&s, &err), KILN_STATUS_RESOURCE_EXHAUSTED);
}

/* Nor is a document. */
static void test_no_room_for_a_document(void)
{
    enum { ITEMS = 4000 };
    static char text[2 * ITEMS + 2];
    kiln_faults faults;
    size_t failed = 0;
    kiln_faults_init(&faults);
    for (size_t i = 0; i < ITEMS; i++) {
        memcpy(text + 2 * i, i == 0 ? "[1" : ",1", 2);
    }
    text[(size_t)2 * ITEMS] = ']';
    const kiln_env env = {.allocator = faults.allocator};
    for (size_t k = 1; kiln_faults_next(&faults, k); k++) {
        const bundle_json *value = NULL;
        kiln_error err = KILN_ERROR_INIT;
        kiln_arena arena;
        kiln_arena_init(&arena, &env);
        kiln_status status = kilni_bundle_json_read(&arena, text, strlen(text), &value, &err);
        bool last = atomic_load(&faults.requests) < k;
        KILN_CHECK_INT(status, last ? KILN_STATUS_OK : KILN_STATUS_RESOURCE_EXHAUSTED);
        failed += !last;
        kiln_arena_fini(&arena);
    }
    KILN_CHECK(failed > 2);
}

/* Nor is the list of files: each allocation that it takes fails once. */
static void test_no_room_for_the_list(void)
{
    shelf s;
    kiln_faults faults;
    kiln_string hashes;
    kiln_error err = KILN_ERROR_INIT;
    size_t failed = 0;
    shelf_open(&s);
    kiln_string_init(&hashes, &s.env);
    for (int i = 0; i < 300; i++) { // more than a piece of an arena
        char name[32];
        snprintf(name, sizeof(name), "file%d", i);
        KILN_CHECK_INT(kilni_bundle_folder_write(&s.folder, &hashes, name, content, 1, &err),
                       KILN_STATUS_OK);
    }
    KILN_CHECK_INT(kilni_bundle_folder_close(&s.folder, &hashes, &err), KILN_STATUS_OK);
    kiln_string_fini(&hashes);
    kiln_faults_init(&faults);
    s.env.allocator = faults.allocator;
    for (size_t k = 1; kiln_faults_next(&faults, k); k++) {
        kiln_arena arena;
        kiln_arena_init(&arena, &s.env);
        s.folder.arena = &arena;
        kiln_status status = kilni_bundle_folder_open(&s.folder, &err);
        bool last = atomic_load(&faults.requests) < k;
        KILN_CHECK_INT(status, last ? KILN_STATUS_OK : KILN_STATUS_RESOURCE_EXHAUSTED);
        failed += !last;
        kiln_arena_fini(&arena);
    }
    KILN_CHECK(failed > 2);
}

KILN_TEST_MAIN("unit/runtime/bundle_files", KILN_TEST(test_visits),
               KILN_TEST(test_a_file_that_is_cut_short), KILN_TEST(test_no_room_for_a_piece),
               KILN_TEST(test_no_room_for_a_document), KILN_TEST(test_no_room_for_the_list))
