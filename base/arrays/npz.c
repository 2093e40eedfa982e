// SPDX-License-Identifier: MIT OR Apache-2.0
// .npz files: the arrays of a zip archive, stored or deflated. What an array is, npy.c decides;
// here is only where its bytes are. Written are stored entries. Format: PKWARE's APPNOTE.TXT.

#include "base_files.h"
#include "npy_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef KILN_WITH_ZLIB
#include <zlib.h>
#endif

enum { END_BYTES = 22, ENTRY_BYTES = 46, LOCAL_BYTES = 30, STORED = 0, DEFLATED = 8 };

/// The file is read and not mapped: one that becomes shorter meanwhile is damaged, and no more.
typedef struct archive {
    int file;
    size_t length;
    unsigned char *directory;
    size_t directory_bytes;
    size_t count; ///< entries of it
} archive;

typedef struct entry {
    size_t at; ///< its bytes
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

/// Errors: UNAVAILABLE; DATA_LOSS where the file has become shorter.
static kiln_status read_at(const archive *a, size_t at, void *out_bytes, size_t bytes,
                           kiln_error *err)
{
    if (kilni_base_read_at(a->file, at, out_bytes, bytes)) {
        return KILN_STATUS_OK;
    }
    return errno == ENODATA
               ? kiln_fail(err, DATA_LOSS, "the archive ends before byte %zu", at + bytes)
               : kiln_fail(err, UNAVAILABLE, "%s", strerror(errno));
}

/// `bytes` of the file, to be freed. Errors: also RESOURCE_EXHAUSTED.
static kiln_status read_part(const archive *a, size_t at, size_t bytes, unsigned char **out_part,
                             kiln_error *err)
{
    *out_part = malloc(bytes + 1);
    if (*out_part == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", bytes);
    }
    kiln_status status = read_at(a, at, *out_part, bytes, err);
    if (status != KILN_STATUS_OK) {
        free(*out_part);
        *out_part = NULL;
    }
    return status;
}

/// The record that ends the archive; behind it is a comment at most.
static const unsigned char *find_end(const unsigned char *last, size_t bytes)
{
    for (size_t back = END_BYTES; back <= bytes; back++) {
        if (memcmp(last + bytes - back, "PK\5\6", 4) == 0) {
            return last + bytes - back;
        }
    }
    return NULL;
}

static kiln_status read_directory(archive *a, kiln_error *err)
{
    const size_t most = END_BYTES + 65535;
    size_t bytes = a->length < most ? a->length : most;
    unsigned char *last = NULL;
    kiln_status status = read_part(a, a->length - bytes, bytes, &last, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const unsigned char *end = find_end(last, bytes);
    size_t start = end != NULL ? u32_at(end + 16) : 0;
    size_t end_at = end != NULL ? a->length - bytes + (size_t)(end - last) : 0;
    a->count = end != NULL ? u16_at(end + 10) : 0;
    free(last);
    if (end == NULL || start > end_at) {
        return kiln_fail(err, DATA_LOSS,
                         end == NULL ? "not a .npz file" : "the archive's directory is damaged");
    }
    a->directory_bytes = end_at - start;
    return read_part(a, start, a->directory_bytes, &a->directory, err);
}

/// From an entry of the directory to its bytes, which a header of its own precedes.
static kiln_status find_data(const archive *a, const unsigned char *record, entry *out_entry,
                             kiln_error *err)
{
    unsigned char head[LOCAL_BYTES];
    size_t local = u32_at(record + 42);
    *out_entry = (entry){.packed = u32_at(record + 20), .length = u32_at(record + 24)};
    out_entry->method = (unsigned)u16_at(record + 10);
    if (out_entry->packed == UINT32_MAX || out_entry->length == UINT32_MAX || local == UINT32_MAX) {
        return kiln_fail(err, UNIMPLEMENTED, "an archive with 64-bit sizes");
    }
    kiln_status status = read_at(a, local, head, LOCAL_BYTES, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (memcmp(head, "PK\3\4", 4) != 0) {
        return kiln_fail(err, DATA_LOSS, "the directory points at no entry");
    }
    out_entry->at = local + LOCAL_BYTES + u16_at(head + 26) + u16_at(head + 28);
    if (out_entry->at > a->length || out_entry->packed > a->length - out_entry->at) {
        return kiln_fail(err, DATA_LOSS, "the archive ends inside an entry");
    }
    return KILN_STATUS_OK;
}

/// The directory's record `index` of those whose names end in .npy.
static kiln_status find_entry(const archive *a, size_t index, char out_name[KILN_NPZ_NAME_ROOM],
                              entry *out_entry, kiln_error *err)
{
    size_t at = 0;
    for (size_t i = 0; i < a->count; i++) {
        const unsigned char *record = a->directory + at;
        if (a->directory_bytes - at < ENTRY_BYTES || memcmp(record, "PK\1\2", 4) != 0) {
            return kiln_fail(err, DATA_LOSS, "the archive's directory is damaged");
        }
        size_t name = u16_at(record + 28);
        at += ENTRY_BYTES + name + u16_at(record + 30) + u16_at(record + 32);
        if (at > a->directory_bytes) {
            return kiln_fail(err, DATA_LOSS, "the archive's directory is damaged");
        }
        const char *text = (const char *)record + ENTRY_BYTES;
        if (name < 5 || name - 4 >= KILN_NPZ_NAME_ROOM || memcmp(text + name - 4, ".npy", 4) != 0) {
            continue;
        }
        if (index-- == 0) {
            snprintf(out_name, KILN_NPZ_NAME_ROOM, "%.*s", (int)name - 4, text);
            return find_data(a, record, out_entry, err);
        }
    }
    return kiln_fail(err, NOT_FOUND, "no further array");
}

#ifdef KILN_WITH_ZLIB
static bool inflate_entry(const entry *e, const unsigned char *packed, unsigned char *target)
{
    z_stream stream = {.next_in = (Bytef *)packed,
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
static bool inflate_entry(const entry *e, const unsigned char *packed, unsigned char *target)
{
    (void)e;
    (void)packed;
    (void)target;
    return false; // built without zlib
}
#endif

static kiln_status unpack_entry(const archive *a, const entry *e, unsigned char **out_bytes,
                                kiln_error *err)
{
    unsigned char *packed = NULL;
    kiln_status status = read_part(a, e->at, e->packed, &packed, err);
    *out_bytes = status == KILN_STATUS_OK ? malloc(e->length + 1) : NULL;
    if (status == KILN_STATUS_OK && *out_bytes == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", e->length);
    } else if (status == KILN_STATUS_OK && !inflate_entry(e, packed, *out_bytes)) {
        status = kiln_fail(err, DATA_LOSS, "an entry cannot be inflated");
    }
    free(packed);
    return status;
}

static kiln_status read_entry(const archive *a, const entry *e, kiln_npy *out_array,
                              kiln_error *err)
{
    bool stored = e->method == STORED && e->packed == e->length;
    unsigned char *bytes = NULL;
    if (!stored && e->method != DEFLATED) {
        return kiln_fail(err, UNIMPLEMENTED, "compression method %u of zip", e->method);
    }
    // What deflate cannot reach is not asked memory for.
    if (!stored && e->length / 1100 > e->packed) {
        return kiln_fail(err, DATA_LOSS, "an entry of %zu bytes from %zu", e->length, e->packed);
    }
    kiln_status status =
        stored ? read_part(a, e->at, e->length, &bytes, err) : unpack_entry(a, e, &bytes, err);
    FILE *file =
        status == KILN_STATUS_OK && e->length > 0 ? fmemopen(bytes, e->length, "rb") : NULL;
    if (file != NULL) {
        status = kilni_npy_read_stream(file, e->length, out_array, err);
        fclose(file);
    } else if (status == KILN_STATUS_OK) {
        status = kiln_fail(err, DATA_LOSS, "an empty entry");
    }
    free(bytes);
    return status;
}

static kiln_status open_archive(const char *path, archive *out_archive, kiln_error *err)
{
    struct stat info;
    out_archive->file = open(path, O_RDONLY | O_CLOEXEC);
    if (out_archive->file < 0) {
        return kiln_fail(err, NOT_FOUND, "%s", strerror(errno));
    }
    if (fstat(out_archive->file, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) {
        return kiln_fail(err, DATA_LOSS, "not a .npz file");
    }
    out_archive->length = (size_t)info.st_size;
    return read_directory(out_archive, err);
}

kiln_status kiln_npz_read(const char *path, size_t index, char out_name[KILN_NPZ_NAME_ROOM],
                          kiln_npy *out_array, kiln_error *err)
{
    archive a = {.file = -1};
    entry e = {0};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, open_archive(path, &a, err));
    KILN_TRY(out, status, find_entry(&a, index, out_name, &e, err));
    KILN_TRY(out, status, read_entry(&a, &e, out_array, err));
out:
    if (a.file >= 0) {
        (void)close(a.file);
    }
    free(a.directory);
    if (status != KILN_STATUS_OK) {
        (void)kiln_error_context(err, "%s", path);
    }
    return status;
}

// ---- writing ----

/// CRC-32 of ISO 3309, which zip wants of each entry.
static uint32_t crc32_of(uint32_t crc, const unsigned char *data, size_t bytes)
{
    uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++) {
            table[i] = (table[i] >> 1) ^ ((table[i] & 1) != 0 ? 0xEDB88320u : 0);
        }
    }
    crc = ~crc;
    for (size_t i = 0; i < bytes; i++) {
        crc = (crc >> 8) ^ table[(crc ^ data[i]) & 255];
    }
    return ~crc;
}

typedef struct written { ///< an entry
    const char *name;
    size_t name_bytes; ///< with ".npy"
    uint32_t crc;
    size_t bytes;
    size_t at; ///< of its own header
} written;

typedef struct zip_writer {
    FILE *file;
    size_t at;
    bool good;
} zip_writer;

static void put_bytes(zip_writer *out, const void *data, size_t bytes)
{
    out->good = out->good && (bytes == 0 || fwrite(data, 1, bytes, out->file) == bytes);
    out->at += bytes;
}

static void put_number(zip_writer *out, size_t number, size_t bytes)
{
    unsigned char text[4];
    for (size_t i = 0; i < bytes; i++) {
        text[i] = (unsigned char)(number >> (8 * i));
    }
    put_bytes(out, text, bytes);
}

/// What a header and the directory say of an entry alike: version, flags, method, time, sums.
static void put_entry(zip_writer *out, const written *what)
{
    put_number(out, 20, 2);
    put_number(out, 0x800, 2); // names are UTF-8
    put_number(out, STORED, 2);
    put_number(out, 0, 2);
    put_number(out, 33, 2); // the first of January 1980: equal arrays are equal files
    put_number(out, what->crc, 4);
    put_number(out, what->bytes, 4);
    put_number(out, what->bytes, 4);
    put_number(out, what->name_bytes, 2);
    put_number(out, 0, 2);
}

static void put_name(zip_writer *out, const written *what)
{
    put_bytes(out, what->name, what->name_bytes - 4);
    put_bytes(out, ".npy", 4);
}

static kiln_status put_array(zip_writer *out, const char *name, const kiln_npy *array,
                             written *out_entry, kiln_error *err)
{
    char header[KILNI_NPY_HEADER_ROOM];
    size_t length = 0;
    size_t name_bytes = strlen(name) + 4;
    kiln_status status = kilni_npy_header(array, header, &length, err);
    if (status != KILN_STATUS_OK) {
        (void)kiln_error_context(err, "%.64s", name);
        return status;
    }
    if (name_bytes - 4 >= KILN_NPZ_NAME_ROOM) {
        return kiln_fail(err, INVALID_ARGUMENT, "%.64s...: a name of %zu bytes, the limit is %d",
                         name, name_bytes - 4, KILN_NPZ_NAME_ROOM - 1);
    }
    if (array->bytes >= UINT32_MAX - length || out->at + length + array->bytes >= UINT32_MAX / 2) {
        return kiln_fail(err, UNIMPLEMENTED, "%.64s: an archive of more than 2 GiB", name);
    }
    uint32_t crc = crc32_of(0, (const unsigned char *)header, length);
    *out_entry = (written){.name = name,
                           .name_bytes = name_bytes,
                           .crc = crc32_of(crc, array->data, array->bytes),
                           .bytes = length + array->bytes,
                           .at = out->at};
    put_bytes(out, "PK\3\4", 4);
    put_entry(out, out_entry);
    put_name(out, out_entry);
    put_bytes(out, header, length);
    put_bytes(out, array->data, array->bytes);
    return KILN_STATUS_OK;
}

static void put_directory(zip_writer *out, const written *entries, size_t count)
{
    size_t start = out->at;
    for (size_t i = 0; i < count; i++) {
        put_bytes(out, "PK\1\2", 4);
        put_number(out, 20, 2);
        put_entry(out, &entries[i]);
        put_number(out, 0, 4); // no comment, disk 0
        put_number(out, 0, 2);
        put_number(out, 0, 4);
        put_number(out, entries[i].at, 4);
        put_name(out, &entries[i]);
    }
    size_t bytes = out->at - start;
    put_bytes(out, "PK\5\6", 4);
    put_number(out, 0, 4);
    put_number(out, count, 2);
    put_number(out, count, 2);
    put_number(out, bytes, 4);
    put_number(out, start, 4);
    put_number(out, 0, 2);
}

kiln_status kiln_npz_write(const char *path, const char *const *names, const kiln_npy *arrays,
                           size_t count, kiln_error *err)
{
    char beside[4200];
    if (count > UINT16_MAX) {
        return kiln_fail(err, UNIMPLEMENTED, "%s: %zu arrays in one archive", path, count);
    }
    written *entries = malloc((count + 1) * sizeof(*entries));
    zip_writer out = {.file = kilni_base_replace_begin(path, beside, sizeof(beside)), .good = true};
    kiln_status status = KILN_STATUS_OK;
    if (entries == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu arrays", count);
    } else if (out.file == NULL) {
        status = kiln_fail(err, UNAVAILABLE, "%s: %s", path, strerror(errno));
    }
    for (size_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        status = put_array(&out, names[i], &arrays[i], &entries[i], err);
    }
    if (status == KILN_STATUS_OK) {
        put_directory(&out, entries, count);
    }
    bool keep = status == KILN_STATUS_OK && out.good;
    if (out.file != NULL && !kilni_base_replace_end(out.file, beside, path, keep) &&
        status == KILN_STATUS_OK) {
        status = kiln_fail(err, UNAVAILABLE, "%s: %s", path, strerror(errno));
    }
    free(entries);
    return status;
}
