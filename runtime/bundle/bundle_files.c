// SPDX-License-Identifier: MIT OR Apache-2.0
// Files of a bundle and their hashes. Decides what counts as damaged: a file that differs from
// HASHES, a file that HASHES does not list, and a HASHES that differs from its own last line. The
// hashes find accidents; they do not keep out who writes both.
#include "bundle_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
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

typedef struct hash_line {
    kiln_hash128 hash;
    const char *name;
    size_t length; ///< of the name
    const char *next; ///< the line behind it
} hash_line;

static bool parse_line(const char *text, const char *end, hash_line *out)
{
    const char *eol = memchr(text, '\n', (size_t)(end - text));
    if (eol == NULL || eol - text < HEX + 3 || memcmp(text + HEX, "  ", 2) != 0) {
        return false;
    }
    out->name = text + HEX + 2;
    out->length = (size_t)(eol - out->name);
    out->next = eol + 1;
    return parse_hex(text, &out->hash);
}

/// NULL: no memory.
static bundle_file_hash *keep_hash(bundle_folder *folder, const hash_line *line)
{
    bundle_file_hash *made = kiln_arena_alloc(folder->arena, sizeof(*made));
    char *name = kiln_arena_alloc(folder->arena, line->length + 1);
    if (made == NULL || name == NULL) {
        return NULL;
    }
    memcpy(name, line->name, line->length);
    made->hash = line->hash;
    made->name = name;
    return made;
}

/// The last line is the hash of those before it. OK, DATA_LOSS or RESOURCE_EXHAUSTED.
static kiln_status parse_hashes(bundle_folder *folder, const char *text, size_t length)
{
    bundle_file_hash **link = &folder->hashes;
    const char *end = text + length;
    hash_line line;
    for (const char *at = text; at < end; at = line.next) {
        if (!parse_line(at, end, &line)) {
            return KILN_STATUS_DATA_LOSS;
        }
        if (line.length == 1 && line.name[0] == '-') {
            bool whole = line.next == end &&
                         kiln_hash_same(line.hash, kiln_hash_bytes(text, (size_t)(at - text)));
            return whole ? KILN_STATUS_OK : KILN_STATUS_DATA_LOSS;
        }
        *link = keep_hash(folder, &line);
        if (*link == NULL) {
            return KILN_STATUS_RESOURCE_EXHAUSTED;
        }
        link = &(*link)->next;
    }
    return KILN_STATUS_DATA_LOSS;
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
    if (status == KILN_STATUS_OK) {
        status = parse_hashes(folder, bytes.data, bytes.length);
        if (status == KILN_STATUS_DATA_LOSS) {
            status = kiln_fail(err, DATA_LOSS, "%.150s is damaged", path);
        } else if (status != KILN_STATUS_OK) {
            status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the list in %.150s", path);
        }
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

static kiln_status check_hash(const bundle_file_hash *hash, const char *path, kiln_hash128 found,
                              kiln_error *err)
{
    return kiln_hash_same(hash->hash, found)
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
        status = check_hash(hash, path, kiln_hash_bytes(out_bytes->data, out_bytes->length), err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_free(folder->env, out_bytes->data);
        *out_bytes = (kiln_blob){0};
    }
    return status;
}

// ---- files in pieces ----

typedef struct bundle_open_file {
    int fd; ///< -1: none
    uint64_t length;
    const bundle_file_hash *hash;
    char path[BUNDLE_PATH_ROOM];
} bundle_open_file;

static kiln_status open_listed(const bundle_folder *folder, const char *name, bundle_open_file *out,
                               kiln_error *err)
{
    struct stat info = {0};
    *out = (bundle_open_file){.fd = -1};
    kiln_status status = find_listed(folder, name, &out->hash, out->path, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    out->fd = open(out->path, O_RDONLY | O_CLOEXEC);
    if (out->fd < 0) {
        return cannot_open(out->path, err);
    }
    if (fstat(out->fd, &info) != 0) {
        return kiln_fail(err, UNAVAILABLE, "%.150s: %s", out->path, strerror(errno));
    }
    out->length = (uint64_t)info.st_size;
    return S_ISREG(info.st_mode) && info.st_size > 0
               ? KILN_STATUS_OK
               : kiln_fail(err, DATA_LOSS, "%.150s is damaged: no file with bytes", out->path);
}

static void close_listed(bundle_open_file *file)
{
    if (file->fd >= 0) {
        (void)close(file->fd);
    }
}

kiln_status kilni_bundle_folder_length(const bundle_folder *folder, const char *name,
                                       uint64_t *out_length, kiln_error *err)
{
    bundle_open_file file;
    kiln_status status = open_listed(folder, name, &file, err);
    close_listed(&file);
    *out_length = file.length;
    return status;
}

typedef struct visit {
    bundle_open_file file;
    unsigned char *room; ///< for a piece
    uint64_t at;
    bundle_piece_fn piece;
    void *user;
    kiln_error *err;
    kiln_status status;
} visit;

/// The bytes read; 0 at the end and where reading fails.
static size_t read_piece(visit *v)
{
    ssize_t got = pread(v->file.fd, v->room, BUNDLE_PIECE, (off_t)v->at);
    while (got < 0 && errno == EINTR) {
        got = pread(v->file.fd, v->room, BUNDLE_PIECE, (off_t)v->at);
    }
    if (got < 0) {
        v->status = kiln_fail(v->err, UNAVAILABLE, "%.150s: %s", v->file.path, strerror(errno));
    }
    return got > 0 ? (size_t)got : 0;
}

static size_t next_piece(void *user, const void **out_bytes)
{
    visit *v = user;
    size_t length = read_piece(v);
    if (length > 0) {
        v->status = v->piece(v->user, v->at, v->room, length, v->err);
    }
    *out_bytes = v->room;
    v->at += length;
    return v->status == KILN_STATUS_OK ? length : 0;
}

kiln_status kilni_bundle_folder_visit(const bundle_folder *folder, const char *name,
                                      bundle_piece_fn piece, void *user, kiln_error *err)
{
    visit v = {.piece = piece, .user = user, .err = err};
    kiln_status status = open_listed(folder, name, &v.file, err);
    v.room = status == KILN_STATUS_OK ? kiln_alloc(folder->env, BUNDLE_PIECE) : NULL;
    if (v.room != NULL) {
        kiln_hash128 found = kiln_hash_pieces(next_piece, &v);
        status = v.status == KILN_STATUS_OK ? check_hash(v.file.hash, v.file.path, found, err)
                                            : v.status;
    } else if (status == KILN_STATUS_OK) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a piece of %.150s", v.file.path);
    }
    kiln_free(folder->env, v.room);
    close_listed(&v.file);
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
