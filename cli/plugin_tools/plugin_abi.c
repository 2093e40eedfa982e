// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln plugin abi`: the version and the layout of the fuser ABI that this command was built with,
// and whether it may load what was built with another list: structs only grow, at their end.

#include "cli_json.h"
#include "plugin_cli.h"

#include "kiln_fuser.h"
#include "kiln_fuser_ops.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct abi_row { ///< a struct, or a field of the one before
    const char *name;
    bool is_struct;
    uint32_t at; ///< offset of a field, alignment of a struct
    uint32_t size;
} abi_row;

static const abi_row rows[] = {
#define KF_LAYOUT_STRUCT(type) {#type, true, (uint32_t)alignof(type), (uint32_t)sizeof(type)},
#define KF_LAYOUT_FIELD(type, field)                                                               \
    {#field, false, (uint32_t)offsetof(type, field), (uint32_t)sizeof(((type *)0)->field)},
#include "kf_layout.def"
#undef KF_LAYOUT_STRUCT
#undef KF_LAYOUT_FIELD
};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

static const struct argp_option abi_options_table[] = {
    {"diff", 'd', "FILE", 0, "compare with a list that this command printed elsewhere", 0},
    {0},
};

typedef struct abi_options {
    const char *path; ///< of a list to compare with; NULL: none
    cli_json_options json;
} abi_options;

static error_t parse_abi_option(int key, char *text, struct argp_state *state)
{
    abi_options *options = state->input;
    if (key == ARGP_KEY_INIT) {
        state->child_inputs[0] = &options->json;
        return 0;
    }
    if (key == 'd') {
        options->path = text;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static void print_row(FILE *file, const abi_row *row)
{
    if (row->is_struct) {
        fprintf(file, "%s size %u align %u\n", row->name, row->size, row->at);
    } else {
        fprintf(file, "  %s offset %u size %u\n", row->name, row->at, row->size);
    }
}

/// One line of a list; false for anything else.
static bool read_row(const char *line, char name[64], abi_row *out)
{
    *out = (abi_row){.name = name};
    if (sscanf(line, "  %63s offset %u size %u", name, &out->at, &out->size) == 3 &&
        line[0] == ' ') {
        return true;
    }
    out->is_struct = true;
    return sscanf(line, "%63s size %u align %u", name, &out->size, &out->at) == 3;
}

/// This list's place of a struct, or of a field of the struct at `from`; N_ROWS: not there.
static size_t find(const abi_row *wanted, size_t from)
{
    for (size_t i = wanted->is_struct ? 0 : from + 1; i < N_ROWS; i++) {
        if (!wanted->is_struct && rows[i].is_struct) {
            break;
        }
        if (rows[i].is_struct == wanted->is_struct && strcmp(rows[i].name, wanted->name) == 0) {
            return i;
        }
    }
    return N_ROWS;
}

/// What of the other list is not as it is here; each is a line. Only a struct's size may have
/// grown.
static uint32_t compare_line(const char *line, size_t *at)
{
    char name[64];
    abi_row other;
    if (!read_row(line, name, &other)) {
        return 0; // version lines and comments
    }
    size_t here = find(&other, *at);
    if (other.is_struct) {
        *at = here;
    }
    if (here == N_ROWS) {
        printf("missing here: %s", line);
        return 1;
    }
    bool same = rows[here].at == other.at && rows[here].size == other.size;
    if (!same) {
        printf("%s: ",
               other.is_struct && rows[here].size > other.size ? "larger here" : "differs here");
        print_row(stdout, &rows[here]);
    }
    return !same && !(other.is_struct && rows[here].size > other.size && rows[here].at == other.at);
}

static kiln_status compare(const char *path, uint32_t *out_broken, kiln_error *err)
{
    char line[256];
    size_t at = N_ROWS;
    uint32_t lines = 0;
    FILE *file = fopen(path, "r");
    *out_broken = 0;
    if (file == NULL) {
        return kiln_fail(err, NOT_FOUND, "%s cannot be read", path);
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        char name[64];
        abi_row row;
        lines += read_row(line, name, &row) ? 1 : 0;
        *out_broken += compare_line(line, &at);
    }
    fclose(file);
    return lines > 0 ? KILN_STATUS_OK
                     : kiln_fail(err, INVALID_ARGUMENT, "%s is no list of `kiln plugin abi`", path);
}

static json_t *abi_json(void)
{
    json_t *structs = json_array(), *fields = NULL;
    for (size_t i = 0; i < N_ROWS; i++) {
        const abi_row *r = &rows[i];
        if (r->is_struct) {
            fields = json_array();
            json_array_append_new(structs,
                                  json_pack("{s:s, s:i, s:i, s:o}", "name", r->name, "size",
                                            (int)r->size, "align", (int)r->at, "fields", fields));
        } else {
            json_array_append_new(fields, json_pack("{s:s, s:i, s:i}", "name", r->name, "offset",
                                                    (int)r->at, "size", (int)r->size));
        }
    }
    return json_pack("{s:i, s:i, s:i, s:s, s:o}", "major", KF_ABI_MAJOR, "minor", KF_ABI_MINOR,
                     "operators", (int)KF_OPSET_MAX, "sdk", KF_SDK_VERSION, "structs", structs);
}

int plugin_abi(int argc, char **argv)
{
    static const struct argp_child children[] = {{&cli_json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        abi_options_table,
        parse_abi_option,
        NULL,
        "Prints the fuser ABI's version and the layout of its structs, or compares it with another "
        "list: a plugin built with that list loads here when nothing but sizes grew.",
        children,
        NULL,
        NULL};
    abi_options options = {0};
    kiln_error err = KILN_ERROR_INIT;
    uint32_t broken = 0;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    const char *path = options.path;
    if (path != NULL && options.json.wanted) {
        return cli_usage("plugin abi", "--json goes without --diff");
    }
    if (options.json.wanted) {
        return cli_json_write(&options.json, abi_json(), &err) == KILN_STATUS_OK
                   ? CLI_OK
                   : cli_fail("plugin abi", &err);
    }
    if (path == NULL) {
        printf("# fuser ABI %u.%u, operators up to set %u, SDK %s\n", KF_ABI_MAJOR, KF_ABI_MINOR,
               (unsigned)KF_OPSET_MAX, KF_SDK_VERSION);
        for (size_t i = 0; i < N_ROWS; i++) {
            print_row(stdout, &rows[i]);
        }
        return CLI_OK;
    }
    if (compare(path, &broken, &err) != KILN_STATUS_OK) {
        return cli_fail("plugin abi", &err);
    }
    printf("%s: %s\n", path, broken == 0 ? "compatible" : "not compatible");
    return broken == 0 ? CLI_OK : CLI_FAILED;
}
