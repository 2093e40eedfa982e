// SPDX-License-Identifier: MIT OR Apache-2.0
// Files of a bundle and their hashes. Decides what counts as damaged: a file that differs from
// HASHES, a file that HASHES does not list, and a HASHES that differs from its own last line. The
// hashes find accidents; they do not keep out who writes both.
#include "bundle_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEX = 32 };

kiln_status kilni_bundle_path(const char *path, const char *name, char out_path[BUNDLE_PATH_ROOM],
                              kiln_error *err)
{
    if (name[0] == '/' || name[0] == '\0' || strstr(name, "..") != NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "\"%.100s\" is no file of a bundle", name);
    }
    int length = snprintf(out_path, BUNDLE_PATH_ROOM, "%s/%s", path, name);
    return length > 0 && length < BUNDLE_PATH_ROOM
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT, "the path of %.100s is too long", name);
}

// ---- whole files ----

static kiln_status read_stream(const kiln_env *env, FILE *file, const char *path,
                               kiln_blob *out_bytes, kiln_error *err)
{
    long length = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (length < 0 || fseek(file, 0, SEEK_SET) != 0) {
        return kiln_fail(err, UNAVAILABLE, "%.150s: %s", path, strerror(errno));
    }
    char *bytes = kiln_alloc(env, (size_t)length + 1);
    if (bytes == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %ld bytes of %.150s", length,
                         path);
    }
    if (fread(bytes, 1, (size_t)length, file) != (size_t)length) {
        kiln_free(env, bytes);
        return kiln_fail(err, UNAVAILABLE, "%.150s cannot be read to its end", path);
    }
    *out_bytes = (kiln_blob){.data = bytes, .length = (size_t)length};
    return KILN_STATUS_OK;
}

static kiln_status cannot_open(const char *path, kiln_error *err)
{
    return errno == ENOENT ? kiln_fail(err, NOT_FOUND, "%.150s is not there", path)
                           : kiln_fail(err, UNAVAILABLE, "%.150s: %s", path, strerror(errno));
}

kiln_status kilni_bundle_read(const kiln_env *env, const char *path, kiln_blob *out_bytes,
                              kiln_error *err)
{
    *out_bytes = (kiln_blob){0};
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return cannot_open(path, err);
    }
    kiln_status status = read_stream(env, file, path, out_bytes, err);
    (void)fclose(file);
    return status;
}

static kiln_status map_file(const char *path, kiln_blob *out_bytes, kiln_error *err)
{
    struct stat info = {0};
    kiln_status status = KILN_STATUS_OK;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return cannot_open(path, err);
    }
    if (fstat(file, &info) != 0) {
        status = kiln_fail(err, UNAVAILABLE, "%.150s: %s", path, strerror(errno));
    } else if (!S_ISREG(info.st_mode) || info.st_size == 0) {
        status = kiln_fail(err, DATA_LOSS, "%.150s is damaged: no file with bytes", path);
    } else {
        size_t bytes = (size_t)info.st_size;
        void *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
        if (data != MAP_FAILED) {
            *out_bytes = (kiln_blob){.data = data, .length = bytes};
        } else {
            status = errno == ENOMEM
                         ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes of %.150s",
                                     bytes, path)
                         : kiln_fail(err, UNAVAILABLE, "%.150s: %s", path, strerror(errno));
        }
    }
    (void)close(file);
    return status;
}

void kilni_bundle_unmap(kiln_blob *bytes)
{
    if (bytes->data != NULL) {
        (void)munmap(bytes->data, bytes->length);
    }
    *bytes = (kiln_blob){0};
}

kiln_status kilni_bundle_write(const char *path, const void *bytes, size_t length, kiln_error *err)
{
    FILE *file = fopen(path, "wb");
    bool written = file != NULL && fwrite(bytes, 1, length, file) == length;
    int code = errno;
    if (file != NULL && fclose(file) != 0 && written) {
        code = errno;
        written = false;
    }
    return written
               ? KILN_STATUS_OK
               : kiln_fail(err, UNAVAILABLE, "%.150s cannot be written: %s", path, strerror(code));
}

// ---- hashes ----

static bool parse_hex(const char *text, kiln_hash128 *out_hash)
{
    uint64_t halves[2] = {0, 0};
    for (int i = 0; i < HEX; i++) {
        char c = text[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) {
            return false;
        }
        halves[i / 16] = halves[i / 16] << 4 | (uint64_t)digit;
    }
    *out_hash = (kiln_hash128){.high = halves[0], .low = halves[1]};
    return true;
}

/// The last line is the hash of those before it.
static bool parse_hashes(bundle_folder *folder, char *text, size_t length)
{
    bundle_file_hash **link = &folder->hashes;
    const char *begin = text;
    bool closed = false;
    while (text < begin + length && !closed) {
        char *line = text;
        char *end = memchr(text, '\n', length - (size_t)(text - begin));
        bundle_file_hash *made = kiln_arena_alloc(folder->arena, sizeof(*made));
        if (end == NULL || end - line < HEX + 3 || made == NULL ||
            memcmp(line + HEX, "  ", 2) != 0 || !parse_hex(line, &made->hash)) {
            return false;
        }
        *end = '\0';
        text = end + 1;
        made->name = kiln_arena_copy(folder->arena, line + HEX + 2, (size_t)(end - line) - HEX - 1);
        *end = '\n';
        closed = made->name != NULL && strcmp(made->name, "-") == 0;
        if (made->name == NULL ||
            (closed &&
             !kiln_hash_same(made->hash, kiln_hash_bytes(begin, (size_t)(line - begin))))) {
            return false;
        }
        if (!closed) {
            *link = made;
            link = &made->next;
        }
    }
    return closed && text == begin + length;
}

kiln_status kilni_bundle_folder_open(bundle_folder *folder, kiln_error *err)
{
    char path[BUNDLE_PATH_ROOM];
    kiln_blob bytes = {0};
    kiln_status status = kilni_bundle_path(folder->path, BUNDLE_HASHES, path, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_bundle_read(folder->env, path, &bytes, err);
    }
    folder->hashes = NULL;
    if (status == KILN_STATUS_OK && !parse_hashes(folder, bytes.data, bytes.length)) {
        status = kiln_fail(err, DATA_LOSS, "%.150s is damaged", path);
    }
    kiln_free(folder->env, bytes.data);
    return status;
}

static const bundle_file_hash *find_hash(const bundle_folder *folder, const char *name)
{
    const bundle_file_hash *hash = folder->hashes;
    while (hash != NULL && strcmp(hash->name, name) != 0) {
        hash = hash->next;
    }
    return hash;
}

/// The hash and the path of a listed file.
static kiln_status find_listed(const bundle_folder *folder, const char *name,
                               const bundle_file_hash **out_hash, char out_path[BUNDLE_PATH_ROOM],
                               kiln_error *err)
{
    *out_hash = find_hash(folder, name);
    kiln_status status = kilni_bundle_path(folder->path, name, out_path, err);
    return status != KILN_STATUS_OK || *out_hash != NULL
               ? status
               : kiln_fail(err, DATA_LOSS, "%.100s/" BUNDLE_HASHES " does not list %.80s",
                           folder->path, name);
}

static kiln_status check_hash(const bundle_file_hash *hash, const char *path,
                              const kiln_blob *bytes, kiln_error *err)
{
    return kiln_hash_same(hash->hash, kiln_hash_bytes(bytes->data, bytes->length))
               ? KILN_STATUS_OK
               : kiln_fail(err, DATA_LOSS, "%.150s is damaged: " BUNDLE_HASHES " has another hash",
                           path);
}

kiln_status kilni_bundle_folder_read(const bundle_folder *folder, const char *name,
                                     kiln_blob *out_bytes, kiln_error *err)
{
    char path[BUNDLE_PATH_ROOM];
    const bundle_file_hash *hash = NULL;
    *out_bytes = (kiln_blob){0};
    kiln_status status = find_listed(folder, name, &hash, path, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_bundle_read(folder->env, path, out_bytes, err);
    }
    if (status == KILN_STATUS_OK) {
        status = check_hash(hash, path, out_bytes, err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_free(folder->env, out_bytes->data);
        *out_bytes = (kiln_blob){0};
    }
    return status;
}

kiln_status kilni_bundle_folder_map(const bundle_folder *folder, const char *name,
                                    kiln_blob *out_bytes, kiln_error *err)
{
    char path[BUNDLE_PATH_ROOM];
    const bundle_file_hash *hash = NULL;
    *out_bytes = (kiln_blob){0};
    kiln_status status = find_listed(folder, name, &hash, path, err);
    if (status == KILN_STATUS_OK) {
        status = map_file(path, out_bytes, err);
    }
    if (status == KILN_STATUS_OK) {
        status = check_hash(hash, path, out_bytes, err);
    }
    if (status != KILN_STATUS_OK) {
        kilni_bundle_unmap(out_bytes);
    }
    return status;
}

kiln_status kilni_bundle_folder_check(const bundle_folder *folder, const char *but, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (const bundle_file_hash *hash = folder->hashes; hash != NULL && status == KILN_STATUS_OK;
         hash = hash->next) {
        kiln_blob bytes = {0};
        if (but != NULL && strcmp(hash->name, but) == 0) {
            continue;
        }
        status = kilni_bundle_folder_read(folder, hash->name, &bytes, err);
        kiln_free(folder->env, bytes.data);
        if (status == KILN_STATUS_NOT_FOUND) { // who needs it says so
            status = KILN_STATUS_OK;
        }
    }
    return status;
}

static void add_line(kiln_string *hashes, kiln_hash128 hash, const char *name)
{
    char hex[HEX + 1];
    kiln_hash_hex(hash, hex);
    kiln_string_printf(hashes, "%s  %s\n", hex, name);
}

kiln_status kilni_bundle_folder_write(const bundle_folder *folder, kiln_string *hashes,
                                      const char *name, const void *bytes, size_t length,
                                      kiln_error *err)
{
    char path[BUNDLE_PATH_ROOM];
    kiln_status status = kilni_bundle_path(folder->path, name, path, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_bundle_write(path, bytes, length, err);
    }
    if (status == KILN_STATUS_OK) {
        add_line(hashes, kiln_hash_bytes(bytes, length), name);
    }
    return status;
}

kiln_status kilni_bundle_folder_close(const bundle_folder *folder, kiln_string *hashes,
                                      kiln_error *err)
{
    char path[BUNDLE_PATH_ROOM];
    add_line(hashes, kiln_hash_bytes(hashes->text, hashes->length), "-");
    kiln_status status = kilni_bundle_path(folder->path, BUNDLE_HASHES, path, err);
    if (status == KILN_STATUS_OK && hashes->failed) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the list of hashes");
    }
    return status == KILN_STATUS_OK ? kilni_bundle_write(path, hashes->text, hashes->length, err)
                                    : status;
}
