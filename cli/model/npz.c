// SPDX-License-Identifier: MIT OR Apache-2.0
// .npz files: the arrays of a zip archive, stored or deflated. What an array is, npy.c decides;
// here is only where its bytes are. Format: PKWARE's APPNOTE.TXT.

#include "npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef KILN_WITH_ZLIB
#include <zlib.h>
#endif

enum { END_BYTES = 22, ENTRY_BYTES = 46, LOCAL_BYTES = 30, STORED = 0, DEFLATED = 8 };

typedef struct archive {
    const unsigned char *bytes;
    size_t length;
} archive;

typedef struct entry {
    const unsigned char *data;
    size_t packed;
    size_t length;
    unsigned method;
} entry;

static size_t u16_at(const unsigned char *at)
{
    return (size_t)at[0] | (size_t)at[1] << 8;
}

static size_t u32_at(const unsigned char *at)
{
    return u16_at(at) | u16_at(at + 2) << 16;
}

/// The record that ends the archive; behind it is a comment at most.
static const unsigned char *find_end(const archive *a)
{
    for (size_t back = END_BYTES; back <= a->length && back <= END_BYTES + 65535; back++) {
        const unsigned char *at = a->bytes + a->length - back;
        if (memcmp(at, "PK\5\6", 4) == 0) {
            return at;
        }
    }
    return NULL;
}

/// From an entry of the directory to its bytes, which a header of its own precedes.
static kiln_status find_data(const archive *a, const unsigned char *record, entry *out_entry,
                             kiln_error *err)
{
    size_t local = u32_at(record + 42);
    *out_entry = (entry){.packed = u32_at(record + 20), .length = u32_at(record + 24)};
    out_entry->method = (unsigned)u16_at(record + 10);
    if (out_entry->packed == UINT32_MAX || out_entry->length == UINT32_MAX || local == UINT32_MAX) {
        return kiln_fail(err, UNIMPLEMENTED, "an archive with 64-bit sizes");
    }
    if (a->length < LOCAL_BYTES || local > a->length - LOCAL_BYTES ||
        memcmp(a->bytes + local, "PK\3\4", 4) != 0) {
        return kiln_fail(err, DATA_LOSS, "the directory points at no entry");
    }
    const unsigned char *head = a->bytes + local;
    size_t start = local + LOCAL_BYTES + u16_at(head + 26) + u16_at(head + 28);
    if (start > a->length || out_entry->packed > a->length - start) {
        return kiln_fail(err, DATA_LOSS, "the archive ends inside an entry");
    }
    out_entry->data = a->bytes + start;
    return KILN_STATUS_OK;
}

/// The directory's record `index` of those whose names end in .npy.
static kiln_status find_entry(const archive *a, size_t index, char out_name[NPZ_NAME_ROOM],
                              entry *out_entry, kiln_error *err)
{
    const unsigned char *end = find_end(a);
    if (end == NULL) {
        return kiln_fail(err, DATA_LOSS, "not a .npz file");
    }
    size_t at = u32_at(end + 16), count = u16_at(end + 10);
    for (size_t i = 0; i < count; i++) {
        if (a->length < ENTRY_BYTES || at > a->length - ENTRY_BYTES ||
            memcmp(a->bytes + at, "PK\1\2", 4) != 0) {
            return kiln_fail(err, DATA_LOSS, "the archive's directory is damaged");
        }
        const unsigned char *record = a->bytes + at;
        size_t name = u16_at(record + 28);
        at += ENTRY_BYTES + name + u16_at(record + 30) + u16_at(record + 32);
        if (at > a->length) {
            return kiln_fail(err, DATA_LOSS, "the archive's directory is damaged");
        }
        const char *text = (const char *)record + ENTRY_BYTES;
        if (name < 5 || name - 4 >= NPZ_NAME_ROOM || memcmp(text + name - 4, ".npy", 4) != 0) {
            continue;
        }
        if (index-- == 0) {
            snprintf(out_name, NPZ_NAME_ROOM, "%.*s", (int)name - 4, text);
            return find_data(a, record, out_entry, err);
        }
    }
    return kiln_fail(err, NOT_FOUND, "no further array");
}

#ifdef KILN_WITH_ZLIB
static bool inflate_entry(const entry *e, unsigned char *target)
{
    z_stream stream = {.next_in = (Bytef *)e->data,
                       .avail_in = (uInt)e->packed,
                       .next_out = target,
                       .avail_out = (uInt)e->length};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) { // without zlib's own header
        return false;
    }
    int result = inflate(&stream, Z_FINISH);
    bool whole = result == Z_STREAM_END && stream.total_out == e->length;
    return inflateEnd(&stream) == Z_OK && whole;
}
#else
static bool inflate_entry(const entry *e, unsigned char *target)
{
    (void)e;
    (void)target;
    return false; // built without zlib
}
#endif

static kiln_status read_entry(const entry *e, npy_array *out_array, kiln_error *err)
{
    bool stored = e->method == STORED && e->packed == e->length;
    if (!stored && e->method != DEFLATED) {
        return kiln_fail(err, UNIMPLEMENTED, "compression method %u of zip", e->method);
    }
    // What deflate cannot reach is not asked memory for.
    if (!stored && e->length / 1100 > e->packed) {
        return kiln_fail(err, DATA_LOSS, "an entry of %zu bytes from %zu", e->length, e->packed);
    }
    unsigned char *bytes = malloc(e->length + 1);
    if (bytes == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", e->length);
    }
    if (stored) {
        memcpy(bytes, e->data, e->length);
    }
    kiln_status status = stored || inflate_entry(e, bytes)
                             ? KILN_STATUS_OK
                             : kiln_fail(err, DATA_LOSS, "an entry cannot be inflated");
    FILE *file =
        status == KILN_STATUS_OK && e->length > 0 ? fmemopen(bytes, e->length, "rb") : NULL;
    if (file != NULL) {
        status = npy_read_stream(file, e->length, out_array, err);
        fclose(file);
    } else if (status == KILN_STATUS_OK) {
        status = kiln_fail(err, DATA_LOSS, "an empty entry");
    }
    free(bytes);
    return status;
}

static kiln_status map_file(const char *path, archive *out_archive, kiln_error *err)
{
    struct stat info;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return kiln_fail(err, NOT_FOUND, "%s", strerror(errno));
    }
    bool good = fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0;
    void *bytes =
        good ? mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    close(file);
    if (bytes == MAP_FAILED) {
        return kiln_fail(err, DATA_LOSS, "not a .npz file");
    }
    *out_archive = (archive){bytes, (size_t)info.st_size};
    return KILN_STATUS_OK;
}

kiln_status npz_read(const char *path, size_t index, char out_name[NPZ_NAME_ROOM],
                     npy_array *out_array, kiln_error *err)
{
    archive a = {0};
    entry e = {0};
    kiln_status status = map_file(path, &a, err);
    if (status != KILN_STATUS_OK) {
        return kiln_error_context(err, "%s", path);
    }
    status = find_entry(&a, index, out_name, &e, err);
    if (status == KILN_STATUS_OK) {
        status = read_entry(&e, out_array, err);
    }
    munmap((void *)a.bytes, a.length);
    return status == KILN_STATUS_OK ? status : kiln_error_context(err, "%s", path);
}
