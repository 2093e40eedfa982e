// SPDX-License-Identifier: MIT OR Apache-2.0
// Files of an explanation: the JSON as it is, and the page around it. The page takes its data from
// a script element, so nothing in it may look like markup.

#include "explain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kiln_status open_file(const char *path, FILE **out_file, kiln_error *err)
{
    *out_file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    return *out_file != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, UNAVAILABLE, "%s cannot be written: %s", path, strerror(errno));
}

static kiln_status close_file(FILE *file, const char *path, kiln_error *err)
{
    bool good = fflush(file) == 0 && ferror(file) == 0;
    int cause = errno; // of the write that failed
    if (file != stdout && fclose(file) != 0 && good) {
        cause = errno;
        good = false;
    }
    return good ? KILN_STATUS_OK
                : kiln_fail(err, UNAVAILABLE, "%s cannot be written: %s", path, strerror(cause));
}

kiln_status explain_write(const char *path, const char *text, kiln_error *err)
{
    FILE *file = NULL;
    kiln_status status = open_file(path, &file, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    fputs(text, file);
    fputc('\n', file);
    return close_file(file, path, err);
}

/// In JSON these stand only inside strings, where they may be written as numbers.
static void put_safe(FILE *file, const char *json)
{
    for (const char *c = json; *c != '\0'; c++) {
        if (*c == '<' || *c == '>' || *c == '&') {
            fprintf(file, "\\u%04x", (unsigned)*c);
        } else {
            fputc(*c, file);
        }
    }
}

kiln_status explain_html(const char *path, const char *json, const char *beside, kiln_error *err)
{
    static const char mark[] = "@DATA@", other[] = "@BESIDE@";
    const char *place = strstr(explain_page, mark);
    const char *second = strstr(explain_page, other);
    FILE *file = NULL;
    kiln_status status = open_file(path, &file, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    fwrite(explain_page, 1, (size_t)(place - explain_page), file);
    put_safe(file, json);
    place += strlen(mark);
    fwrite(place, 1, (size_t)(second - place), file);
    put_safe(file, beside != NULL ? beside : "");
    fputs(second + strlen(other), file);
    return close_file(file, path, err);
}
