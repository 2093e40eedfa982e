// SPDX-License-Identifier: MIT OR Apache-2.0
// How benches tell their figures: a table for people, JSON lines for programs.

#include "bench.h"

#include <ftw.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

bool bench_wanted(const bench_options *options, const char *name)
{
    bool named = options->n_names == 0;
    for (size_t i = 0; i < options->n_names && !named; i++) {
        named = strcmp(options->names[i], name) == 0;
    }
    return named && (options->only == NULL || strstr(name, options->only) != NULL);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

void bench_remove_tree(const char *path)
{
    (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void bench_header(const bench_options *options)
{
    if (!options->json) {
        printf("%-28s %12s %-8s %-26s %7s %7s %8s  %s\n", "case", "value", "unit", "against",
               "ratio", "bar", "samples", "device, peer");
    }
}

static void print_json(FILE *file, const bench_result *result)
{
    json_t *object = json_pack(
        "{s:s, s:f, s:s, s:s, s:f, s:s, s:s, s:i}", "case", result->name, "value", result->value,
        "unit", result->unit, "against", result->against, "ratio", result->ratio, "peer_version",
        result->peer_version, "device", result->device, "samples", (int)result->samples);
    if (object != NULL && result->bar > 0) {
        (void)json_object_set_new(object, "bar", json_real(result->bar));
    }
    char *text = object != NULL ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    if (text != NULL) {
        fprintf(file, "%s\n", text);
        fflush(file); // what is measured next takes minutes
    }
    free(text);
    json_decref(object);
}

void bench_report(const bench_options *options, const bench_result *result)
{
    if (options->lines != NULL) {
        print_json(options->lines, result);
    }
    if (!options->json) {
        char bar[16] = "-";
        if (result->bar > 0) {
            snprintf(bar, sizeof(bar), "%.2f%s", result->bar,
                     result->ratio >= result->bar ? "" : " !");
        }
        printf("%-28s %12.3f %-8s %-26s %7.3f %7s %8u  %s, %s\n", result->name, result->value,
               result->unit, result->against, result->ratio, bar, result->samples, result->device,
               result->peer_version);
    }
    fflush(stdout);
}
