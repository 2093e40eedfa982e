// SPDX-License-Identifier: MIT OR Apache-2.0
// Reading and writing .safetensors. Decides what a sound file is: the format's own rules (a header
// of at most 100 MB, no name twice, offsets in order without gaps), and Kiln's limits of dtype and
// rank. What the tensors mean is the caller's.
#include "safetensors.h"

#include "base_files.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { START_BYTES = 8, MOST_HEADER_BYTES = 100000000 };
static const char notes_key[] = "__metadata__";

static const struct {
    const char *name;
    kiln_dtype dtype;
} saved_dtypes[] = {
    {"F64", KILN_DTYPE_F64},        {"F32", KILN_DTYPE_F32},
    {"F16", KILN_DTYPE_F16},        {"BF16", KILN_DTYPE_BF16},
    {"I64", KILN_DTYPE_I64},        {"I32", KILN_DTYPE_I32},
    {"I16", KILN_DTYPE_I16},        {"I8", KILN_DTYPE_I8},
    {"U64", KILN_DTYPE_U64},        {"U32", KILN_DTYPE_U32},
    {"U16", KILN_DTYPE_U16},        {"U8", KILN_DTYPE_U8},
    {"BOOL", KILN_DTYPE_BOOL},      {"F8_E4M3", KILN_DTYPE_F8E4M3FN},
    {"F8_E5M2", KILN_DTYPE_F8E5M2}, {"F8_E8M0", KILN_DTYPE_F8E8M0},
};

enum { SAVED_DTYPES = sizeof(saved_dtypes) / sizeof(saved_dtypes[0]) };

struct kilni_safetensors {
    const kiln_env *env;
    int file; ///< -1: the bytes are the caller's
    size_t start; ///< of the tensors in it
    json_t *header; ///< names and notes lie in it
    kilni_saved *tensors;
    size_t count;
};

// ---- reading ----

static kiln_status read_dtype(const json_t *row, kilni_saved *out_tensor, kiln_error *err)
{
    const char *name = json_string_value(json_object_get(row, "dtype"));
    if (name == NULL) {
        return kiln_fail(err, DATA_LOSS, "no dtype");
    }
    for (size_t i = 0; i < SAVED_DTYPES; i++) {
        if (strcmp(name, saved_dtypes[i].name) == 0) {
            out_tensor->dtype = saved_dtypes[i].dtype;
            return KILN_STATUS_OK;
        }
    }
    return kiln_fail(err, UNIMPLEMENTED, "dtype %.16s is not known", name);
}

static kiln_status read_shape(const json_t *row, kilni_saved *out_tensor, kiln_error *err)
{
    const json_t *shape = json_object_get(row, "shape");
    size_t elements = 1;
    if (!json_is_array(shape)) {
        return kiln_fail(err, DATA_LOSS, "no shape");
    }
    out_tensor->rank = json_array_size(shape);
    if (out_tensor->rank > KILN_MAX_RANK) {
        return kiln_fail(err, UNIMPLEMENTED, "rank %zu, the limit is %d", out_tensor->rank,
                         KILN_MAX_RANK);
    }
    for (size_t i = 0; i < out_tensor->rank; i++) {
        const json_t *length = json_array_get(shape, i);
        if (!json_is_integer(length) || json_integer_value(length) < 0) {
            return kiln_fail(err, DATA_LOSS, "length %zu of its shape is no count", i);
        }
        out_tensor->dims[i] = json_integer_value(length);
        if (__builtin_mul_overflow(elements, (size_t)out_tensor->dims[i], &elements)) {
            return kiln_fail(err, DATA_LOSS, "its shape has more elements than memory");
        }
    }
    if (__builtin_mul_overflow(elements, kiln_dtype_size(out_tensor->dtype), &out_tensor->bytes)) {
        return kiln_fail(err, DATA_LOSS, "its shape has more bytes than memory");
    }
    return KILN_STATUS_OK;
}

/// Where it lies in the `bytes` behind the header.
static kiln_status read_place(const json_t *row, size_t bytes, kilni_saved *out_tensor,
                              kiln_error *err)
{
    const json_t *offsets = json_object_get(row, "data_offsets");
    const json_t *first = json_array_get(offsets, 0); // NULL of what is no array
    const json_t *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last) ||
        json_integer_value(first) < 0 || json_integer_value(last) < json_integer_value(first)) {
        return kiln_fail(err, DATA_LOSS, "data_offsets are not two ascending places");
    }
    size_t start = (size_t)json_integer_value(first);
    size_t end = (size_t)json_integer_value(last);
    if (end > bytes) {
        return kiln_fail(err, DATA_LOSS, "it ends at byte %zu of %zu", end, bytes);
    }
    if (end - start != out_tensor->bytes) {
        return kiln_fail(err, DATA_LOSS, "%zu bytes, where its shape and dtype have %zu",
                         end - start, out_tensor->bytes);
    }
    out_tensor->at = start;
    return KILN_STATUS_OK;
}

static kiln_status read_tensor(const json_t *row, size_t bytes, kilni_saved *out_tensor,
                               kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, read_dtype(row, out_tensor, err));
    KILN_TRY(out, status, read_shape(row, out_tensor, err));
    KILN_TRY(out, status, read_place(row, bytes, out_tensor, err));
out:
    if (status != KILN_STATUS_OK) {
        (void)kiln_error_context(err, "tensor %.64s", out_tensor->name);
    }
    return status;
}

static kiln_status check_notes(const json_t *notes, kiln_error *err)
{
    const char *key = NULL;
    json_t *text = NULL;
    bool good = json_is_object(notes);
    json_object_foreach((json_t *)notes, key, text)
    {
        good = good && json_is_string(text);
    }
    return good ? KILN_STATUS_OK
                : kiln_fail(err, DATA_LOSS, "%s is not texts by their names", notes_key);
}

static int compare_places(const void *a, const void *b)
{
    const kilni_saved *left = a;
    const kilni_saved *right = b;
    if (left->at != right->at) {
        return left->at < right->at ? -1 : 1;
    }
    return (left->bytes > right->bytes) - (left->bytes < right->bytes); // empty ones first
}

/// No gaps, no overlaps, no rest.
static kiln_status check_places(const kilni_safetensors *file, size_t bytes, kiln_error *err)
{
    size_t at = 0;
    for (size_t i = 0; i < file->count; i++) {
        const kilni_saved *tensor = &file->tensors[i];
        if (tensor->at != at) {
            return kiln_fail(err, DATA_LOSS, "tensor %.64s %s", tensor->name,
                             tensor->at < at ? "overlaps the one before it"
                                             : "leaves a gap before it");
        }
        at += tensor->bytes;
    }
    size_t rest = bytes - at;
    return rest == 0 ? KILN_STATUS_OK
                     : kiln_fail(err, DATA_LOSS, "%zu bytes behind the last tensor", rest);
}

/// `data` are the tensors' bytes, or NULL: in the file.
static kiln_status read_header(kilni_safetensors *file, const unsigned char *data, size_t bytes,
                               kiln_error *err)
{
    const char *name = NULL;
    json_t *row = NULL;
    kiln_status status = KILN_STATUS_OK;
    file->tensors =
        kiln_alloc_array(file->env, json_object_size(file->header) + 1, sizeof(*file->tensors));
    if (file->tensors == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu tensors",
                         json_object_size(file->header));
    }
    json_object_foreach(file->header, name, row)
    {
        if (strcmp(name, notes_key) == 0) {
            status = check_notes(row, err);
        } else {
            kilni_saved *tensor = &file->tensors[file->count++];
            tensor->name = name;
            status = read_tensor(row, bytes, tensor, err);
            tensor->data = data != NULL ? data + tensor->at : NULL;
            tensor->file = data == NULL ? file : NULL;
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    qsort(file->tensors, file->count, sizeof(*file->tensors), compare_places);
    return check_places(file, bytes, err);
}

/// How long the header is, of a file of `bytes`.
static kiln_status read_start(const unsigned char start[START_BYTES], size_t bytes,
                              size_t *out_length, kiln_error *err)
{
    uint64_t length = 0;
    for (size_t i = 0; i < START_BYTES; i++) {
        length |= (uint64_t)start[i] << (8 * i);
    }
    if (length > MOST_HEADER_BYTES || length > bytes - START_BYTES) {
        return kiln_fail(err, DATA_LOSS, "a header of %llu bytes in a file of %zu",
                         (unsigned long long)length, bytes);
    }
    *out_length = (size_t)length;
    return KILN_STATUS_OK;
}

static kiln_status parse_header(kilni_safetensors *file, const char *text, size_t length,
                                kiln_error *err)
{
    json_error_t where;
    file->start = START_BYTES + length;
    file->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
    return json_is_object(file->header)
               ? KILN_STATUS_OK
               : kiln_fail(err, DATA_LOSS, "its header is no JSON object: %.100s",
                           file->header == NULL ? where.text : "something else");
}

static kiln_status make_file(const kiln_env *env, int descriptor, kilni_safetensors **out_file,
                             kiln_error *err)
{
    kilni_safetensors *file = kiln_alloc(env, sizeof(*file));
    *out_file = file;
    if (file == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a file's header");
    }
    file->env = env;
    file->file = descriptor;
    return KILN_STATUS_OK;
}

kiln_status kilni_safetensors_parse(const kiln_env *env, const void *data, size_t bytes,
                                    kilni_safetensors **out_file, kiln_error *err)
{
    const unsigned char *start = data;
    kilni_safetensors *file = NULL;
    size_t length = 0;
    kiln_status status = KILN_STATUS_OK;
    *out_file = NULL;
    if (bytes < START_BYTES) {
        return kiln_fail(err, DATA_LOSS, "a file of %zu bytes", bytes);
    }
    KILN_TRY(out, status, make_file(env, -1, &file, err));
    KILN_TRY(out, status, read_start(start, bytes, &length, err));
    KILN_TRY(out, status, parse_header(file, (const char *)start + START_BYTES, length, err));
    KILN_TRY(out, status, read_header(file, start + file->start, bytes - file->start, err));
    *out_file = file;
    file = NULL;
out:
    kilni_safetensors_close(file);
    return status;
}

/// Of an open file, whole or not at all.
static kiln_status read_at(int file, size_t at, void *out_bytes, size_t bytes, kiln_error *err)
{
    if (kilni_base_read_at(file, at, out_bytes, bytes)) {
        return KILN_STATUS_OK;
    }
    return errno == ENODATA ? kiln_fail(err, DATA_LOSS, "the file ends before byte %zu", at + bytes)
                            : kiln_fail(err, UNAVAILABLE, "%s", strerror(errno));
}

static kiln_status read_file(kilni_safetensors *file, kiln_error *err)
{
    struct stat info;
    unsigned char start[START_BYTES];
    size_t length = 0;
    kiln_status status = KILN_STATUS_OK;
    char *text = NULL;
    if (fstat(file->file, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < START_BYTES) {
        return kiln_fail(err, DATA_LOSS, "not a file of tensors");
    }
    KILN_TRY(out, status, read_at(file->file, 0, start, START_BYTES, err));
    KILN_TRY(out, status, read_start(start, (size_t)info.st_size, &length, err));
    text = kiln_alloc(file->env, length + 1);
    if (text == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a file's header");
        goto out;
    }
    KILN_TRY(out, status, read_at(file->file, START_BYTES, text, length, err));
    KILN_TRY(out, status, parse_header(file, text, length, err));
    KILN_TRY(out, status, read_header(file, NULL, (size_t)info.st_size - file->start, err));
out:
    kiln_free(file->env, text);
    return status;
}

kiln_status kilni_safetensors_open(const kiln_env *env, const char *path,
                                   kilni_safetensors **out_file, kiln_error *err)
{
    kilni_safetensors *file = NULL;
    kiln_status status = KILN_STATUS_OK;
    *out_file = NULL;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        return kiln_fail(err, NOT_FOUND, "%s: %s", path, strerror(errno));
    }
    status = make_file(env, descriptor, &file, err);
    if (status != KILN_STATUS_OK) {
        (void)close(descriptor);
        return status;
    }
    status = read_file(file, err);
    if (status != KILN_STATUS_OK) {
        kilni_safetensors_close(file);
        (void)kiln_error_context(err, "%s", path);
        return status;
    }
    *out_file = file;
    return KILN_STATUS_OK;
}

kiln_status kilni_saved_read(const kilni_saved *saved, void *out_bytes, kiln_error *err)
{
    const kilni_safetensors *file = saved->file;
    return read_at(file->file, file->start + saved->at, out_bytes, saved->bytes, err);
}

void kilni_safetensors_close(kilni_safetensors *file)
{
    if (file == NULL) {
        return;
    }
    if (file->file >= 0) {
        (void)close(file->file);
    }
    json_decref(file->header);
    kiln_free(file->env, file->tensors);
    kiln_free(file->env, file);
}

const kilni_saved *kilni_safetensors_all(const kilni_safetensors *file, size_t *out_count)
{
    *out_count = file->count;
    return file->tensors;
}

const kilni_saved *kilni_safetensors_find(const kilni_safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++) {
        if (strcmp(file->tensors[i].name, name) == 0) {
            return &file->tensors[i];
        }
    }
    return NULL;
}

const char *kilni_safetensors_note(const kilni_safetensors *file, const char *key)
{
    return json_string_value(json_object_get(json_object_get(file->header, notes_key), key));
}

// ---- writing ----

static const char *saved_dtype_name(kiln_dtype dtype)
{
    for (size_t i = 0; i < SAVED_DTYPES; i++) {
        if (saved_dtypes[i].dtype == dtype) {
            return saved_dtypes[i].name;
        }
    }
    return NULL;
}

static kiln_status describe_tensor(json_t *header, const kilni_saved *tensor, size_t at,
                                   kiln_error *err)
{
    const char *dtype = saved_dtype_name(tensor->dtype);
    if (dtype == NULL) {
        return kiln_fail(err, UNIMPLEMENTED, "tensor %.64s: safetensors has no %s", tensor->name,
                         kiln_dtype_name(tensor->dtype));
    }
    if (json_object_get(header, tensor->name) != NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "two tensors are named %.64s", tensor->name);
    }
    json_t *shape = json_array();
    for (size_t i = 0; i < tensor->rank; i++) {
        json_array_append_new(shape, json_integer((json_int_t)tensor->dims[i]));
    }
    json_t *row = json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets",
                            (json_int_t)at, (json_int_t)(at + tensor->bytes));
    return json_object_set_new(header, tensor->name, row) == 0
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT, "the name of a tensor is no UTF-8");
}

/// The header as text, which the caller frees.
static kiln_status make_header(const kiln_env *env, const kilni_saved *tensors, size_t count,
                               const kilni_saved_note *notes, size_t n_notes, char **out_text,
                               kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    size_t at = 0;
    json_t *header = json_object();
    json_t *texts = json_object();
    for (size_t i = 0; i < n_notes; i++) {
        json_object_set_new(texts, notes[i].key, json_string(notes[i].text));
    }
    if (n_notes > 0) {
        json_object_set(header, notes_key, texts);
    }
    for (size_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        status = describe_tensor(header, &tensors[i], at, err);
        at += tensors[i].bytes;
    }
    size_t bytes = json_dumpb(header, NULL, 0, JSON_COMPACT);
    *out_text = status == KILN_STATUS_OK ? kiln_alloc(env, bytes + 1) : NULL;
    if (*out_text != NULL) {
        (void)json_dumpb(header, *out_text, bytes, JSON_COMPACT);
    } else if (status == KILN_STATUS_OK) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a file's header");
    }
    json_decref(texts);
    json_decref(header);
    return status;
}

/// The data begins at a multiple of eight, by spaces behind the header.
static bool write_header(FILE *file, const char *text)
{
    unsigned char start[START_BYTES];
    size_t bytes = strlen(text);
    size_t padded = (bytes + 7) / 8 * 8;
    for (size_t i = 0; i < START_BYTES; i++) {
        start[i] = (unsigned char)((uint64_t)padded >> (8 * i));
    }
    return fwrite(start, 1, sizeof(start), file) == sizeof(start) &&
           fwrite(text, 1, bytes, file) == bytes &&
           fwrite("        ", 1, padded - bytes, file) == padded - bytes;
}

kiln_status kilni_safetensors_write(const kiln_env *env, const char *path,
                                    const kilni_saved *tensors, size_t count,
                                    const kilni_saved_note *notes, size_t n_notes, kiln_error *err)
{
    char beside[4200];
    char *text = NULL;
    kiln_status status = make_header(env, tensors, count, notes, n_notes, &text, err);
    if (status != KILN_STATUS_OK) {
        (void)kiln_error_context(err, "%s", path);
        return status;
    }
    FILE *file = kilni_base_replace_begin(path, beside, sizeof(beside));
    bool good = file != NULL && write_header(file, text);
    for (size_t i = 0; i < count && good; i++) {
        good = tensors[i].bytes == 0 ||
               fwrite(tensors[i].data, 1, tensors[i].bytes, file) == tensors[i].bytes;
    }
    good = file != NULL && kilni_base_replace_end(file, beside, path, good) && good;
    if (!good) {
        status = kiln_fail(err, UNAVAILABLE, "%s cannot be written: %s", path, strerror(errno));
    }
    kiln_free(env, text);
    return status;
}
