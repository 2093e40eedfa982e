// SPDX-License-Identifier: MIT OR Apache-2.0
// The text: the bytes of a file, or of all pages of a folder, each as the number of its character.
#include "gpt.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/// Appends a file's bytes.
static kiln_status append(const char *path, unsigned char **bytes, size_t *count, kiln_error *err)
{
    unsigned char part[4096];
    size_t got = 0;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return kiln_fail(err, NOT_FOUND, "%s cannot be read", path);
    }
    while ((got = fread(part, 1, sizeof(part), file)) > 0) {
        unsigned char *more = realloc(*bytes, *count + got);
        if (more == NULL) {
            fclose(file);
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %s", path);
        }
        memcpy(more + *count, part, got);
        *bytes = more;
        *count += got;
    }
    fclose(file);
    return KILN_STATUS_OK;
}

static kiln_status append_folder(const char *path, unsigned char **bytes, size_t *count,
                                 kiln_error *err)
{
    char pattern[4096];
    glob_t found = {0};
    kiln_status status = KILN_STATUS_OK;
    snprintf(pattern, sizeof(pattern), "%s/*.md", path);
    (void)glob(pattern, 0, NULL, &found); // sorted
    for (size_t i = 0; i < found.gl_pathc && status == KILN_STATUS_OK; i++) {
        status = append(found.gl_pathv[i], bytes, count, err);
    }
    globfree(&found);
    return status;
}

kiln_status gpt_text_read(const char *path, gpt_text *out_text, kiln_error *err)
{
    struct stat info;
    unsigned char *bytes = NULL;
    int32_t number_of[256];
    *out_text = (gpt_text){.tokens = NULL};
    bool is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    kiln_status status = is_folder ? append_folder(path, &bytes, &out_text->count, err)
                                   : append(path, &bytes, &out_text->count, err);
    if (status == KILN_STATUS_OK && out_text->count == 0) {
        status = kiln_fail(err, NOT_FOUND, "%s has no text", path);
    }
    if (status == KILN_STATUS_OK) {
        out_text->tokens = malloc(out_text->count * sizeof(*out_text->tokens));
        if (out_text->tokens == NULL) {
            status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %s", path);
        }
    }
    for (int c = 0; c < 256 && status == KILN_STATUS_OK; c++) {
        bool is_there = memchr(bytes, c, out_text->count) != NULL;
        number_of[c] = (int32_t)out_text->vocabulary;
        out_text->characters[out_text->vocabulary & 255] = (unsigned char)c;
        out_text->vocabulary += is_there;
    }
    for (size_t i = 0; i < out_text->count && status == KILN_STATUS_OK; i++) {
        out_text->tokens[i] = number_of[bytes[i]];
    }
    free(bytes);
    return status;
}
