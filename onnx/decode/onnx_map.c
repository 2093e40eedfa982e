// SPDX-License-Identifier: MIT OR Apache-2.0
// Files in memory: the model itself and the files of its external data. Decides which external
// paths are followed: relative ones that stay below the model's folder, symbolic links resolved.
// What the bytes mean is the decoder's business.
#define _DEFAULT_SOURCE // madvise
#include "onnx_model.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct kilni_onnx_file {
    kiln_env env;
    atomic_uint refs;
    uint8_t *data;
    size_t bytes;
    kiln_hash128 stamp; ///< zeros: it has changed just now, and may again unseen
};

static kiln_status fail_errno(kiln_error *err, const char *path)
{
    if (errno == ENOENT || errno == ENOTDIR) {
        return kiln_fail(err, NOT_FOUND, "no such file: %s", path);
    }
    if (errno == EACCES) {
        return kiln_fail(err, PERMISSION_DENIED, "cannot read %s: permission denied", path);
    }
    return kiln_fail(err, UNAVAILABLE, "cannot read %s: %s", path, strerror(errno));
}

/// What changes with the file's contents. A clock is as coarse as a few milliseconds: a file that
/// is younger than that could be written to again without a trace.
static kiln_hash128 stamp_of(const struct stat *info)
{
    enum { SETTLED_SECONDS = 2 };
    const int64_t facts[] = {(int64_t)info->st_dev,          (int64_t)info->st_ino,
                             (int64_t)info->st_size,         (int64_t)info->st_mtim.tv_sec,
                             (int64_t)info->st_mtim.tv_nsec, (int64_t)info->st_ctim.tv_sec,
                             (int64_t)info->st_ctim.tv_nsec};
    return time(NULL) - info->st_ctim.tv_sec > SETTLED_SECONDS
               ? kiln_hash_bytes(facts, sizeof(facts))
               : (kiln_hash128){0};
}

static kiln_status map_descriptor(const kiln_env *env, int fd, const char *path,
                                  kilni_onnx_mapping *out_mapping, kiln_error *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return fail_errno(err, path);
    }
    if (!S_ISREG(info.st_mode)) {
        return kiln_fail(err, INVALID_ARGUMENT, "not a plain file: %s", path);
    }
    out_mapping->bytes = (size_t)info.st_size;
    if (info.st_size == 0) {
        return KILN_STATUS_OK;
    }
    kilni_onnx_file *file = kiln_alloc(env, sizeof(*file));
    if (file == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %s", path);
    }
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        kiln_status status = fail_errno(err, path);
        kiln_free(env, file);
        return status;
    }
    file->env = *env;
    file->data = data;
    file->bytes = out_mapping->bytes;
    file->stamp = stamp_of(&info);
    atomic_init(&file->refs, 1);
    out_mapping->data = data;
    out_mapping->file = file;
    return KILN_STATUS_OK;
}

kiln_status kilni_onnx_map(const kiln_env *env, const char *path, kilni_onnx_mapping *out_mapping,
                           kiln_error *err)
{
    *out_mapping = (kilni_onnx_mapping){0};
    // O_NONBLOCK: opening a fifo must not wait for a writer.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return fail_errno(err, path);
    }
    kiln_status status = map_descriptor(env, fd, path, out_mapping, err);
    close(fd);
    return status;
}

void kilni_onnx_unmap(kilni_onnx_mapping *mapping)
{
    kilni_onnx_file_unref(mapping->file);
    *mapping = (kilni_onnx_mapping){0};
}

// ---- constants that lie in files ----

static bool has_bytes(const kilni_onnx_mapping *mapping, const void *bytes)
{
    const uint8_t *at = bytes;
    return mapping->file != NULL && at >= mapping->data && at < mapping->data + mapping->bytes;
}

kilni_onnx_file *kilni_onnx_file_of(const kiln_onnx_model *model, const void *bytes)
{
    if (has_bytes(&model->file, bytes)) {
        return model->file.file;
    }
    for (uint32_t i = 0; i < model->n_externals; i++) {
        if (has_bytes(&model->externals[i].mapping, bytes)) {
            return model->externals[i].mapping.file;
        }
    }
    return NULL;
}

void kilni_onnx_file_ref(kilni_onnx_file *file)
{
    atomic_fetch_add(&file->refs, 1);
}

void kilni_onnx_file_unref(kilni_onnx_file *file)
{
    if (file != NULL && atomic_fetch_sub(&file->refs, 1) == 1) {
        kiln_env env = file->env;
        munmap(file->data, file->bytes);
        kiln_free(&env, file);
    }
}

kiln_hash128 kilni_onnx_file_stamp(const kilni_onnx_file *file, const void *from, size_t bytes)
{
    const uint64_t place[] = {file->stamp.low, file->stamp.high,
                              (uint64_t)((const uint8_t *)from - file->data), bytes};
    bool known = file->stamp.low != 0 || file->stamp.high != 0;
    return known ? kiln_hash_bytes(place, sizeof(place)) : file->stamp;
}

// Nobody writes to the mapping, so pages that are dropped come back as they were.
void kilni_onnx_file_rest(const kilni_onnx_file *file, const void *from, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t begin = (size_t)((const uint8_t *)from - file->data) / page * page;
    size_t end = (size_t)((const uint8_t *)from - file->data) + bytes;
    (void)madvise(file->data + begin, end - begin, MADV_DONTNEED);
}

/// A location is relative and names no parent folder.
static bool location_is_plain(const char *location)
{
    if (location[0] == '\0' || location[0] == '/' || strchr(location, '\\') != NULL) {
        return false;
    }
    for (const char *part = location; part != NULL;) {
        size_t length = strcspn(part, "/");
        if (length == 2 && part[0] == '.' && part[1] == '.') {
            return false;
        }
        part = part[length] == '/' ? part + length + 1 : NULL;
    }
    return true;
}

static bool path_is_below(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 &&
           (path[length] == '/' || (length > 0 && folder[length - 1] == '/'));
}

/// Resolves links, so that what is opened lies below the folder in truth.
static kiln_status resolve_location(const kiln_onnx_model *model, const char *location,
                                    char *out_path, kiln_error *err)
{
    char folder[PATH_MAX];
    char joined[PATH_MAX];
    if (realpath(model->folder, folder) == NULL) {
        return fail_errno(err, model->folder);
    }
    int length = snprintf(joined, sizeof(joined), "%s/%s", folder, location);
    if (length < 0 || (size_t)length >= sizeof(joined)) {
        return kiln_fail(err, INVALID_ARGUMENT, "external data path of %zu bytes is too long",
                         strlen(location));
    }
    if (realpath(joined, out_path) == NULL) {
        return fail_errno(err, joined);
    }
    if (!path_is_below(out_path, folder)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "external data '%s' lies outside the model's folder", location);
    }
    return KILN_STATUS_OK;
}

static kiln_status find_external(kiln_onnx_model *model, const char *location,
                                 const kilni_onnx_mapping **out_mapping, kiln_error *err)
{
    for (uint32_t i = 0; i < model->n_externals; i++) {
        if (strcmp(model->externals[i].location, location) == 0) {
            *out_mapping = &model->externals[i].mapping;
            return KILN_STATUS_OK;
        }
    }
    if (model->n_externals == KILNI_ONNX_MAX_FILES) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "more than %d external data files",
                         KILNI_ONNX_MAX_FILES);
    }
    char path[PATH_MAX];
    kilni_onnx_external *external = &model->externals[model->n_externals];
    kiln_status status = resolve_location(model, location, path, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_onnx_map(&model->env, path, &external->mapping, err);
    }
    if (status == KILN_STATUS_OK) {
        size_t room = SIZE_MAX - model->budget_bytes; /* of few bits, elements are unpacked */
        size_t bytes = external->mapping.bytes;
        model->budget_bytes += bytes > room / 4 ? room : 4 * bytes;
        external->location = location;
        model->n_externals++;
        *out_mapping = &external->mapping;
    }
    return status;
}

kiln_status kilni_onnx_external_bytes(kiln_onnx_model *model, const char *location, int64_t offset,
                                      int64_t length, const uint8_t **out_data, size_t *out_bytes,
                                      kiln_error *err)
{
    if (model->folder == NULL) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "external data '%s' in a model that has no folder", location);
    }
    if (!location_is_plain(location)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "external data path '%s' is not a relative path below the model",
                         location);
    }
    const kilni_onnx_mapping *mapping = NULL;
    kiln_status status = find_external(model, location, &mapping, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (offset < 0 || (uint64_t)offset > mapping->bytes) {
        return kiln_fail(err, DATA_LOSS, "external data '%s' ends at %zu, before offset %lld",
                         location, mapping->bytes, (long long)offset);
    }
    size_t rest = mapping->bytes - (size_t)offset;
    if (length >= 0 && (uint64_t)length > rest) {
        return kiln_fail(err, DATA_LOSS, "external data '%s' has %zu of %lld bytes at offset %lld",
                         location, rest, (long long)length, (long long)offset);
    }
    *out_data = mapping->data == NULL ? NULL : mapping->data + offset;
    *out_bytes = length < 0 ? rest : (size_t)length;
    return KILN_STATUS_OK;
}
