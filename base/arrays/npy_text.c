// SPDX-License-Identifier: MIT OR Apache-2.0
// Strings of .npy files, between NumPy's letters of four bytes and UTF-8. Decides that a text ends
// at its first zero, as in NumPy.

#include "npy_text.h"

#include <stdlib.h>
#include <string.h>

bool kilni_npy_text_width(const char *descr, size_t *out_width)
{
    bool letters = strncmp(descr, "<U", 2) == 0, bytes = strncmp(descr, "|S", 2) == 0;
    char *end = NULL;
    unsigned long count = letters || bytes ? strtoul(descr + 2, &end, 10) : 0;
    *out_width = (size_t)count * (letters ? 4 : 1);
    return end != NULL && end != descr + 2 && *end == '\'' && count <= 1u << 24;
}

static uint32_t letter_at(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/// Bytes of a letter in UTF-8, written where `out` is not NULL.
static size_t put_letter(uint32_t letter, char *out)
{
    static const uint32_t heads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t length = letter < 0x80 ? 1 : letter < 0x800 ? 2 : letter < 0x10000 ? 3 : 4;
    for (size_t i = length; out != NULL && i-- > 1;) {
        out[i] = (char)(0x80 | (letter & 0x3f));
        letter >>= 6;
    }
    if (out != NULL) {
        out[0] = (char)(heads[length] | letter);
    }
    return length;
}

/// The text of one element with its end: its bytes, written where `out` is not NULL. 0: no letter.
static size_t decode_one(const unsigned char *element, size_t width, bool bytes, char *out)
{
    size_t length = 0;
    for (size_t i = 0; i < width; i += bytes ? 1 : 4) {
        uint32_t letter = bytes ? element[i] : letter_at(element + i);
        if (letter == 0) {
            break;
        }
        if (letter > 0x10ffff) {
            return 0;
        }
        if (bytes && out != NULL) {
            out[length] = (char)letter;
        }
        length += bytes ? 1 : put_letter(letter, out != NULL ? out + length : NULL);
    }
    if (out != NULL) {
        out[length] = '\0';
    }
    return length + 1;
}

kiln_status kilni_npy_text_decode(kiln_npy *array, bool bytes, kiln_error *err)
{
    size_t count = kiln_npy_count(array), room = 0;
    const unsigned char *data = array->data;
    for (size_t i = 0; i < count; i++) {
        size_t length = decode_one(data + i * array->width, array->width, bytes, NULL);
        if (length == 0) {
            return kiln_fail(err, DATA_LOSS, "element %zu has what is no letter", i);
        }
        room += length;
    }
    const char **texts = malloc(count * sizeof(*texts) + room + 1);
    if (texts == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu strings", count);
    }
    char *to = (char *)(texts + count);
    for (size_t i = 0; i < count; i++) {
        texts[i] = to;
        to += decode_one(data + i * array->width, array->width, bytes, to);
    }
    free(array->data);
    array->data = NULL;
    array->bytes = 0;
    array->texts = texts;
    return KILN_STATUS_OK;
}

kiln_status kiln_npy_set_texts(kiln_npy *array, const char *const *texts, kiln_error *err)
{
    array->dtype = KILN_DTYPE_NONE;
    size_t count = kiln_npy_count(array), room = 0;
    for (size_t i = 0; i < count; i++) {
        room += strlen(texts[i]) + 1;
    }
    const char **copies = malloc(count * sizeof(*copies) + room + 1);
    if (copies == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu strings", count);
    }
    char *to = (char *)(copies + count);
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(texts[i]) + 1;
        copies[i] = memcpy(to, texts[i], length);
        to += length;
    }
    kiln_npy_free(array);
    array->texts = copies;
    return KILN_STATUS_OK;
}

/// The next letter of UTF-8; a byte that is none stands for itself.
static uint32_t next_letter(const char **text)
{
    const unsigned char *at = (const unsigned char *)*text;
    size_t many = at[0] < 0xc0 ? 0 : at[0] < 0xe0 ? 1 : at[0] < 0xf0 ? 2 : 3;
    uint32_t letter = many == 0 ? at[0] : at[0] & (0x3fu >> many);
    for (size_t i = 1; i <= many; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            (*text)++;
            return at[0];
        }
        letter = letter << 6 | (at[i] & 0x3fu);
    }
    *text += many + 1;
    return letter;
}

kiln_status kilni_npy_text_encode(const kiln_npy *array, kiln_npy *out_array, kiln_error *err)
{
    size_t count = kiln_npy_count(array), longest = 1;
    for (size_t i = 0; i < count; i++) {
        size_t letters = 0;
        for (const char *text = array->texts[i]; *text != '\0'; letters++) {
            (void)next_letter(&text);
        }
        longest = letters > longest ? letters : longest;
    }
    out_array->width = 4 * longest;
    out_array->bytes = count * out_array->width;
    unsigned char *data = calloc(out_array->bytes + 1, 1);
    out_array->data = data;
    if (data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", out_array->bytes);
    }
    for (size_t i = 0; i < count; i++) {
        unsigned char *to = data + i * out_array->width;
        for (const char *text = array->texts[i]; *text != '\0'; to += 4) {
            uint32_t letter = next_letter(&text);
            for (int byte = 0; byte < 4; byte++) {
                to[byte] = (unsigned char)(letter >> (8 * byte));
            }
        }
    }
    return KILN_STATUS_OK;
}
