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
static kiln_status find_entry(const archive *a, size_t index, char out_name[KILN_NPZ_NAME_ROOM],
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

static kiln_status read_entry(const entry *e, kiln_npy *out_array, kiln_error *err)
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
        status = kilni_npy_read_stream(file, e->length, out_array, err);
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

kiln_status kiln_npz_read(const char *path, size_t index, char out_name[KILN_NPZ_NAME_ROOM],
                          kiln_npy *out_array, kiln_error *err)
{
    archive a = {0};
    entry e = {0};
    kiln_status status = map_file(path, &a, err);
    if (status != KILN_STATUS_OK) {
        (void)kiln_error_context(err, "%s", path);
        return status;
    }
    status = find_entry(&a, index, out_name, &e, err);
    if (status == KILN_STATUS_OK) {
        status = read_entry(&e, out_array, err);
    }
    munmap((void *)a.bytes, a.length);
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
