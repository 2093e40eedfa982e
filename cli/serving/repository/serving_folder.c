// SPDX-License-Identifier: MIT OR Apache-2.0
// Looks at folders: names, versions, times of files, configurations. Decides which names and sizes
// are taken at all.

#include "serving_folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_CONFIG = 1 << 20, DEEPEST_FOLDER = 4 };

bool kilni_serving_folder_is_name(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    size_t length = strlen(name);
    return length > 0 && length < KILN_MODEL_NAME && name[0] != '.' &&
           strspn(name, allowed) == length;
}

static bool is_folder(DIR *listing, const char *name)
{
    struct stat entry;
    return fstatat(dirfd(listing), name, &entry, 0) == 0 && S_ISDIR(entry.st_mode);
}

void kilni_serving_folder_models(const char *path, void (*fn)(const char *name, void *to), void *to)
{
    DIR *listing = opendir(path);
    struct dirent *entry = NULL;
    while (listing != NULL && (entry = readdir(listing)) != NULL) {
        if (kilni_serving_folder_is_name(entry->d_name) && is_folder(listing, entry->d_name)) {
            fn(entry->d_name, to);
        }
    }
    if (listing != NULL) {
        (void)closedir(listing);
    }
}

// ---- versions ----

/// 0 for what is no version.
static uint64_t version_of(const char *name)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(name, &end, 10);
    return name[0] > '0' && name[0] <= '9' && *end == '\0' && errno == 0 && number <= INT64_MAX
               ? number
               : 0;
}

static bool is_chosen(const kilni_serving_choice *choice, uint64_t number)
{
    for (uint32_t i = 0; choice->which == KILNI_SERVING_SPECIFIC && i < choice->count; i++) {
        if (choice->versions[i] == number) {
            return true;
        }
    }
    return choice->which != KILNI_SERVING_SPECIFIC;
}

/// Into its place in a list, largest first; the smallest falls out of a full one.
static uint32_t insert_number(uint64_t *numbers, uint32_t count, uint32_t most, uint64_t number)
{
    uint32_t at = 0;
    while (at < count && numbers[at] > number) {
        at++;
    }
    if (at == most) {
        return count;
    }
    count = count < most ? count + 1 : most;
    memmove(&numbers[at + 1], &numbers[at], (count - at - 1) * sizeof(*numbers));
    numbers[at] = number;
    return count;
}

uint32_t kilni_serving_folder_versions(const char *path, const kilni_serving_choice *choice,
                                       uint64_t out_numbers[KILN_MODEL_VERSIONS])
{
    uint32_t most =
        choice->which == KILNI_SERVING_LATEST ? choice->count : (uint32_t)KILN_MODEL_VERSIONS;
    uint32_t count = 0;
    DIR *listing = opendir(path);
    struct dirent *entry = NULL;
    while (listing != NULL && (entry = readdir(listing)) != NULL) {
        uint64_t number = version_of(entry->d_name);
        if (number > 0 && is_chosen(choice, number) && is_folder(listing, entry->d_name)) {
            count = insert_number(out_numbers, count, most, number);
        }
    }
    if (listing != NULL) {
        (void)closedir(listing);
    }
    return count;
}

/// Times and sizes, in whatever order the folder has them.
static uint64_t look_at_folder(const char *path, int depth)
{
    uint64_t seen = 1;
    DIR *listing = depth < DEEPEST_FOLDER ? opendir(path) : NULL;
    struct dirent *entry = NULL;
    while (listing != NULL && (entry = readdir(listing)) != NULL) {
        struct stat now;
        char below[4096];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(dirfd(listing), entry->d_name, &now, 0) != 0) {
            continue;
        }
        const int64_t facts[] = {(int64_t)now.st_ino, S_ISDIR(now.st_mode) ? 0 : now.st_size,
                                 now.st_mtim.tv_sec, now.st_mtim.tv_nsec};
        seen += kiln_hash64(facts, sizeof(facts),
                            kiln_hash64(entry->d_name, strlen(entry->d_name), (uint64_t)depth));
        if (S_ISDIR(now.st_mode) &&
            (size_t)snprintf(below, sizeof(below), "%s/%s", path, entry->d_name) < sizeof(below)) {
            seen += look_at_folder(below, depth + 1);
        }
    }
    if (listing != NULL) {
        (void)closedir(listing);
    }
    return seen;
}

uint64_t kilni_serving_folder_signature(const char *path)
{
    return look_at_folder(path, 0);
}

// ---- configuration ----

static kiln_status read_all(kiln_arena *arena, FILE *file, char **out_text, kiln_error *err)
{
    char *text = kiln_arena_alloc(arena, MOST_CONFIG + 1);
    if (text == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a configuration");
    }
    size_t length = fread(text, 1, MOST_CONFIG + 1, file);
    if (ferror(file) != 0 || length > MOST_CONFIG || memchr(text, 0, length) != NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "it is no text of at most %d bytes", MOST_CONFIG);
    }
    text[length] = '\0';
    *out_text = text;
    return KILN_STATUS_OK;
}

kiln_status kilni_serving_folder_config(kiln_arena *arena, const char *path,
                                        kilni_serving_node **out_config, kiln_error *err)
{
    char name[4096];
    char *text = NULL;
    *out_config = NULL;
    if ((size_t)snprintf(name, sizeof(name), "%s/config.pbtxt", path) >= sizeof(name)) {
        return kiln_fail(err, INVALID_ARGUMENT, "the path of a configuration is too long");
    }
    FILE *file = fopen(name, "re");
    if (file == NULL) {
        return errno == ENOENT
                   ? KILN_STATUS_OK
                   : kiln_fail(err, INVALID_ARGUMENT, "config.pbtxt: %s", strerror(errno));
    }
    kiln_status status = read_all(arena, file, &text, err);
    (void)fclose(file);
    if (status == KILN_STATUS_OK) {
        status = kilni_serving_text_read(arena, text, out_config, err);
    }
    return status == KILN_STATUS_OK ? status : kiln_error_context(err, "config.pbtxt");
}
