// SPDX-License-Identifier: MIT OR Apache-2.0
// .npy files. The header is a Python literal of three keys; it is read by looking for the keys,
// with every length bounded by the file. Decides nothing else: what the array means is the
// caller's.

#include "base_files.h"
#include "npy_internal.h"
#include "npy_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_HEADER = 65536, MOST_WITHOUT_BYTES = 1 << 24 };

static const struct {
    const char *descr;
    kiln_dtype dtype;
} types[] = {
    {"|b1", KILN_DTYPE_BOOL}, {"|u1", KILN_DTYPE_U8},  {"|i1", KILN_DTYPE_I8},
    {"<u2", KILN_DTYPE_U16},  {"<u4", KILN_DTYPE_U32}, {"<u8", KILN_DTYPE_U64},
    {"<i2", KILN_DTYPE_I16},  {"<i4", KILN_DTYPE_I32}, {"<i8", KILN_DTYPE_I64},
    {"<f2", KILN_DTYPE_F16},  {"<f4", KILN_DTYPE_F32}, {"<f8", KILN_DTYPE_F64},
};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

// ---- header ----

/// The text after 'key': in the header, or NULL.
static const char *find_value(const char *header, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof(quoted), "'%s'", key);
    const char *at = strstr(header, quoted);
    at = at != NULL ? strchr(at + strlen(quoted), ':') : NULL;
    if (at == NULL) {
        return NULL;
    }
    at++;
    while (*at == ' ') {
        at++;
    }
    return at;
}

static kiln_status parse_type(const char *header, kiln_npy *array, kiln_error *err)
{
    const char *value = find_value(header, "descr");
    if (value == NULL || *value != '\'') {
        return kiln_fail(err, UNIMPLEMENTED, "structured arrays are not supported");
    }
    for (size_t i = 0; i < TYPES; i++) {
        size_t length = strlen(types[i].descr);
        if (strncmp(value + 1, types[i].descr, length) == 0 && value[1 + length] == '\'') {
            array->dtype = types[i].dtype;
            return KILN_STATUS_OK;
        }
    }
    if (kilni_npy_text_width(value + 1, &array->width)) {
        return KILN_STATUS_OK;
    }
    return kiln_fail(err, UNIMPLEMENTED, "element type %.*s is not supported",
                     (int)strcspn(value + 1, "'"), value + 1);
}

static kiln_status parse_shape(const char *header, kiln_npy *array, kiln_error *err)
{
    const char *at = find_value(header, "shape");
    if (at == NULL || *at != '(') {
        return kiln_fail(err, DATA_LOSS, "the header has no shape");
    }
    at++;
    array->rank = 0;
    for (;;) {
        while (*at == ' ' || *at == ',') {
            at++;
        }
        if (*at == ')') {
            return KILN_STATUS_OK;
        }
        char *end = NULL;
        errno = 0;
        long long length = strtoll(at, &end, 10);
        if (!isdigit((unsigned char)*at) || errno != 0) {
            return kiln_fail(err, DATA_LOSS, "the header's shape is damaged");
        }
        if (array->rank == KILN_NPY_MAX_RANK) {
            return kiln_fail(err, UNIMPLEMENTED, "more than %d dimensions", KILN_NPY_MAX_RANK);
        }
        array->dims[array->rank++] = length;
        at = end;
    }
}

static size_t element_bytes(const kiln_npy *array)
{
    return array->dtype == KILN_DTYPE_NONE ? array->width : kiln_dtype_size(array->dtype);
}

/// Strings without letters have no bytes in the file, which then bounds no shape.
static kiln_status count_bytes(kiln_npy *array, kiln_error *err)
{
    size_t size = element_bytes(array);
    int64_t count = size > 0 ? (int64_t)size : 1;
    for (size_t i = 0; i < array->rank; i++) {
        if (__builtin_mul_overflow(count, array->dims[i], &count)) {
            return kiln_fail(err, DATA_LOSS, "the shape has more bytes than an int64 can say");
        }
    }
    if (size == 0 && count > MOST_WITHOUT_BYTES) {
        return kiln_fail(err, DATA_LOSS, "%lld strings without letters", (long long)count);
    }
    array->bytes = size > 0 ? (size_t)count : 0;
    return KILN_STATUS_OK;
}

static kiln_status parse_header(const char *header, kiln_npy *array, bool *out_fortran,
                                kiln_error *err)
{
    kiln_status status = parse_type(header, array, err);
    const char *order = find_value(header, "fortran_order");
    if (status == KILN_STATUS_OK && order == NULL) {
        status = kiln_fail(err, DATA_LOSS, "the header has no fortran_order");
    }
    if (status == KILN_STATUS_OK) {
        *out_fortran = strncmp(order, "True", 4) == 0;
        status = parse_shape(header, array, err);
    }
    return status == KILN_STATUS_OK ? count_bytes(array, err) : status;
}

// ---- reading ----

static kiln_status read_header(FILE *file, char *header, kiln_error *err)
{
    unsigned char start[12];
    if (fread(start, 1, 10, file) != 10 || memcmp(start, "\x93NUMPY", 6) != 0) {
        return kiln_fail(err, DATA_LOSS, "not a .npy file");
    }
    size_t length = (size_t)start[8] | (size_t)start[9] << 8;
    if (start[6] < 1 || start[6] > 3) {
        return kiln_fail(err, UNIMPLEMENTED, "version %d of .npy is not supported", start[6]);
    }
    if (start[6] > 1) {
        if (fread(start + 10, 1, 2, file) != 2) {
            return kiln_fail(err, DATA_LOSS, "the file ends inside its header");
        }
        length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    }
    if (length >= MAX_HEADER) {
        return kiln_fail(err, DATA_LOSS, "a header of %zu bytes", length);
    }
    if (fread(header, 1, length, file) != length) {
        return kiln_fail(err, DATA_LOSS, "the file ends inside its header");
    }
    header[length] = '\0';
    return KILN_STATUS_OK;
}

/// Column-major to row-major.
static kiln_status reorder(kiln_npy *array, kiln_error *err)
{
    size_t size = element_bytes(array);
    char *target = malloc(array->bytes > 0 ? array->bytes : 1);
    if (target == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", array->bytes);
    }
    int64_t index[KILN_NPY_MAX_RANK] = {0};
    for (size_t at = 0; size > 0 && at < array->bytes; at += size) {
        int64_t from = 0;
        for (size_t axis = array->rank; axis-- > 0;) {
            from = from * array->dims[axis] + index[axis];
        }
        memcpy(target + at, (char *)array->data + (size_t)from * size, size);
        for (size_t axis = array->rank; axis-- > 0 && ++index[axis] == array->dims[axis];) {
            index[axis] = 0;
        }
    }
    free(array->data);
    array->data = target;
    return KILN_STATUS_OK;
}

/// `length` is that of the whole file.
static kiln_status read_data(FILE *file, size_t length, kiln_npy *array, kiln_error *err)
{
    long at = ftell(file);
    if (at < 0 || (size_t)at > length) {
        return kiln_fail(err, UNAVAILABLE, "not a regular file");
    }
    size_t left = length - (size_t)at;
    if (array->bytes > left) {
        return kiln_fail(err, DATA_LOSS, "the file ends %zu bytes early", array->bytes - left);
    }
    if (array->bytes < left) {
        return kiln_fail(err, DATA_LOSS, "the file goes on for %zu bytes behind its array",
                         left - array->bytes);
    }
    array->data = malloc(array->bytes > 0 ? array->bytes : 1);
    if (array->data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", array->bytes);
    }
    if (fread(array->data, 1, array->bytes, file) != array->bytes) {
        return kiln_fail(err, DATA_LOSS, "the file cannot be read to its end");
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_npy_read_stream(FILE *file, size_t length, kiln_npy *out_array, kiln_error *err)
{
    kiln_npy array = {0};
    bool fortran = false;
    char *header = malloc(MAX_HEADER);
    kiln_status status = header != NULL ? read_header(file, header, err)
                                        : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory");
    if (status == KILN_STATUS_OK) {
        status = parse_header(header, &array, &fortran, err);
    }
    if (status == KILN_STATUS_OK) {
        status = read_data(file, length, &array, err);
    }
    if (status == KILN_STATUS_OK && fortran && array.rank > 1) {
        status = reorder(&array, err);
    }
    if (status == KILN_STATUS_OK && array.dtype == KILN_DTYPE_NONE) {
        status = kilni_npy_text_decode(&array, strstr(header, "'|S") != NULL, err);
    }
    free(header);
    if (status != KILN_STATUS_OK) {
        kiln_npy_free(&array);
        return status;
    }
    *out_array = array;
    return KILN_STATUS_OK;
}

kiln_status kiln_npy_read(const char *path, kiln_npy *out_array, kiln_error *err)
{
    struct stat info;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return kiln_fail(err, NOT_FOUND, "%s: %s", path, strerror(errno));
    }
    bool regular = fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode);
    kiln_status status =
        kilni_npy_read_stream(file, regular ? (size_t)info.st_size : 0, out_array, err);
    fclose(file);
    if (status != KILN_STATUS_OK) {
        (void)kiln_error_context(err, "%s", path);
    }
    return status;
}

// ---- writing ----

/// NumPy has no small floats: their bits are its bytes.
static const char *descr_of(kiln_dtype dtype)
{
    dtype = kiln_dtype_kind_of(dtype) == KILN_KIND_SMALL ? KILN_DTYPE_U8 : dtype;
    for (size_t i = 0; i < TYPES; i++) {
        if (types[i].dtype == dtype) {
            return types[i].descr;
        }
    }
    return NULL;
}

/// What stands before the data of an array of this type.
static size_t make_header(const kiln_npy *array, const char *descr,
                          char out_header[KILNI_NPY_HEADER_ROOM])
{
    char shape[KILN_NPY_MAX_RANK * 24] = "";
    size_t used = 0;
    for (size_t i = 0; i < array->rank; i++) {
        used += (size_t)snprintf(shape + used, sizeof(shape) - used, "%lld, ",
                                 (long long)array->dims[i]);
    }
    char header[512];
    int length = snprintf(header, sizeof(header),
                          "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
    // Magic, version and length are 10 bytes; data starts at a multiple of 64.
    size_t padded = ((size_t)length + 1 + 10 + 63) / 64 * 64 - 10;
    const char start[10] = {(char)0x93,         'N', 'U', 'M', 'P', 'Y', 1, 0, (char)(padded & 255),
                            (char)(padded >> 8)};
    memcpy(out_header, start, sizeof(start));
    snprintf(out_header + 10, KILNI_NPY_HEADER_ROOM - 10, "%-*s\n", (int)padded - 1, header);
    return 10 + padded;
}

kiln_status kilni_npy_header(const kiln_npy *array, char out_header[KILNI_NPY_HEADER_ROOM],
                             size_t *out_length, kiln_error *err)
{
    const char *descr = descr_of(array->dtype);
    if (descr == NULL) {
        const char *name = kiln_dtype_name(array->dtype);
        return kiln_fail(err, UNIMPLEMENTED, "NumPy has no %s", name != NULL ? name : "such type");
    }
    *out_length = make_header(array, descr, out_header);
    return KILN_STATUS_OK;
}

static kiln_status write_array(const char *path, const kiln_npy *array, const char *descr,
                               kiln_error *err)
{
    char header[KILNI_NPY_HEADER_ROOM];
    size_t length = make_header(array, descr, header);
    char beside[4200];
    FILE *file = kilni_base_replace_begin(path, beside, sizeof(beside));
    if (file == NULL) {
        return kiln_fail(err, UNAVAILABLE, "%s: %s", path, strerror(errno));
    }
    bool good = fwrite(header, 1, length, file) == length;
    good = good && fwrite(array->data, 1, array->bytes, file) == array->bytes;
    good = kilni_base_replace_end(file, beside, path, good);
    return good ? KILN_STATUS_OK
                : kiln_fail(err, UNAVAILABLE, "%s: cannot be written: %s", path, strerror(errno));
}

/// Strings are written as NumPy has them: letters of four bytes, as many as the longest has.
static kiln_status write_texts(const char *path, const kiln_npy *array, kiln_error *err)
{
    kiln_npy letters = *array;
    kiln_status status = kilni_npy_text_encode(array, &letters, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    char descr[32];
    snprintf(descr, sizeof(descr), "<U%zu", letters.width / 4);
    status = write_array(path, &letters, descr, err);
    free(letters.data);
    return status;
}

kiln_status kiln_npy_write(const char *path, const kiln_npy *array, kiln_error *err)
{
    const char *descr = descr_of(array->dtype);
    if (array->texts != NULL) {
        return write_texts(path, array, err);
    }
    if (descr == NULL) {
        return kiln_fail(err, UNIMPLEMENTED, "NumPy has no %s", kiln_dtype_name(array->dtype));
    }
    return write_array(path, array, descr, err);
}
