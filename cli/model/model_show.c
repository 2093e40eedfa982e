// SPDX-License-Identifier: MIT OR Apache-2.0
// What a run gave, as text and as JSON. Decides how much of an array is shown and what counts as
// scores of classes.

#include "model_show.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_ELEMENTS = 16, SHOWN_ROWS = 16, JSON_ELEMENTS = 4096 };

// ---- labels ----

kiln_status model_labels_read(model_labels *labels, kiln_error *err)
{
    char *text = NULL;
    size_t room = 0;
    kiln_status status = KILN_STATUS_OK;
    FILE *file = fopen(labels->path, "r");
    if (file == NULL) {
        return kiln_fail(err, NOT_FOUND, "%s: %s", labels->path, strerror(errno));
    }
    while (status == KILN_STATUS_OK && getline(&text, &room, file) > 0) {
        char **grown = realloc((void *)labels->names, (labels->count + 1) * sizeof(*grown));
        labels->names = grown != NULL ? grown : labels->names;
        text[strcspn(text, "\r\n")] = '\0';
        cli_make_shown(text);
        char *copy = grown != NULL ? strdup(text) : NULL;
        if (copy == NULL) {
            status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for labels");
        } else {
            labels->names[labels->count++] = copy;
        }
    }
    free(text);
    fclose(file);
    return status;
}

void model_labels_free(model_labels *labels)
{
    for (size_t i = 0; i < labels->count; i++) {
        free(labels->names[i]);
    }
    free((void *)labels->names);
    *labels = (model_labels){0};
}

static const char *label_of(const model_labels *labels, size_t index)
{
    return index < labels->count ? labels->names[index] : NULL;
}

// ---- classes ----

/// Scores: rows of at least two floats.
static bool find_rows(const kiln_npy *array, size_t *out_rows, size_t *out_classes)
{
    bool good = (array->rank == 1 || array->rank == 2) &&
                kiln_dtype_kind_of(array->dtype) == KILN_KIND_FLOAT;
    *out_rows = good && array->rank == 2 ? (size_t)array->dims[0] : 1;
    *out_classes = good ? (size_t)array->dims[array->rank - 1] : 0;
    return *out_classes >= 2 && *out_rows > 0;
}

/// The class behind `before` in the order of falling scores, equal ones by number; the best one for
/// SIZE_MAX, which also says that there is none left.
static size_t next_best(const kiln_npy *array, size_t line, size_t classes, size_t before)
{
    size_t best = SIZE_MAX;
    double limit = before != SIZE_MAX ? kiln_npy_number(array, line * classes + before) : 0;
    double score = 0;
    for (size_t i = 0; i < classes; i++) {
        double own = kiln_npy_number(array, line * classes + i);
        bool later =
            before == SIZE_MAX ? !isnan(own) : (own < limit || (own == limit && i > before));
        if (later && (best == SIZE_MAX || own > score)) {
            best = i;
            score = own;
        }
    }
    return best;
}

static void print_top(const kiln_npy *array, const char *name, const model_labels *labels,
                      size_t top)
{
    size_t rows, classes;
    if (!find_rows(array, &rows, &classes)) {
        return;
    }
    for (size_t line = 0; line < rows && line < SHOWN_ROWS; line++) {
        printf("best %zu of %s", top < classes ? top : classes, name);
        printf(rows > 1 ? ", row %zu:\n" : ":\n", line);
        size_t class = SIZE_MAX;
        for (size_t i = 0; i < top && i < classes; i++) {
            class = next_best(array, line, classes, class);
            if (class == SIZE_MAX) {
                break;
            }
            const char *label = label_of(labels, class);
            printf("  %6zu  %-12.6g %s\n", class, kiln_npy_number(array, line * classes + class),
                   label != NULL ? label : "");
        }
    }
}

static void print_class(const kiln_npy *array, const model_labels *labels)
{
    size_t rows, classes;
    if (find_rows(array, &rows, &classes) && rows == 1) {
        size_t class = next_best(array, 0, classes, SIZE_MAX);
        const char *label = label_of(labels, class);
        printf(label != NULL ? "predicted class: %zu (%s)\n" : "predicted class: %zu\n", class,
               label);
    }
}

static const char *type_of(const kiln_npy *array)
{
    return array->texts != NULL ? "string" : kiln_dtype_name(array->dtype);
}

static void print_element(const kiln_npy *array, size_t index)
{
    if (array->texts == NULL) {
        printf(" %.6g", kiln_npy_number(array, index));
        return;
    }
    char text[64];
    snprintf(text, sizeof(text), "%s", array->texts[index]);
    cli_make_shown(text);
    printf(" \"%s\"", text);
}

static void print_output(const char *name, const kiln_npy *array)
{
    printf("%s: %s[", name, type_of(array));
    for (size_t i = 0; i < array->rank; i++) {
        printf("%s%lld", i == 0 ? "" : ",", (long long)array->dims[i]);
    }
    printf("] =");
    size_t count = kiln_npy_count(array);
    for (size_t i = 0; i < count && i < SHOWN_ELEMENTS; i++) {
        print_element(array, i);
    }
    printf(count > SHOWN_ELEMENTS ? " ... (%zu elements)\n" : "\n", count);
}

void model_print_outputs(const model_run *run, const model_labels *labels, long top)
{
    for (size_t i = 0; i < run->n_outputs; i++) {
        print_output(run->names[i], &run->outputs[i]);
    }
    if (run->n_outputs > 0) {
        print_class(&run->outputs[0], labels);
    }
    if (run->n_outputs > 0 && top > 0) {
        print_top(&run->outputs[0], run->names[0], labels, (size_t)top);
    }
}

// ---- JSON ----

static json_t *number_json(double value)
{
    return isfinite(value) ? json_real(value)
                           : json_string(isnan(value) ? "nan"
                                         : value > 0  ? "inf"
                                                      : "-inf");
}

static json_t *output_json(const char *name, const kiln_npy *array)
{
    json_t *dims = json_array();
    json_t *values = json_array();
    size_t count = kiln_npy_count(array);
    for (size_t i = 0; i < array->rank; i++) {
        json_array_append_new(dims, json_integer((json_int_t)array->dims[i]));
    }
    for (size_t i = 0; i < count && i < JSON_ELEMENTS; i++) {
        json_array_append_new(values, array->texts != NULL
                                          ? cli_json_text(array->texts[i])
                                          : number_json(kiln_npy_number(array, i)));
    }
    return json_pack("{s:o, s:s, s:o, s:I, s:o}", "name", cli_json_text(name), "dtype",
                     type_of(array), "dims", dims, "elements", (json_int_t)count, "values", values);
}

static json_t *top_json(const kiln_npy *array, const model_labels *labels, size_t top)
{
    size_t rows, classes;
    json_t *all = json_array();
    for (size_t line = 0; find_rows(array, &rows, &classes) && line < rows; line++) {
        json_t *list = json_array();
        size_t class = SIZE_MAX;
        for (size_t i = 0; i < top && i < classes; i++) {
            class = next_best(array, line, classes, class);
            if (class == SIZE_MAX) {
                break;
            }
            json_array_append_new(
                list, json_pack("{s:I, s:o, s:o}", "class", (json_int_t) class, "label",
                                cli_json_text(label_of(labels, class)), "score",
                                number_json(kiln_npy_number(array, line * classes + class))));
        }
        json_array_append_new(all, list);
    }
    return all;
}

static json_t *times_json(const model_run_times *times)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "open_ns", times->open, "first_ns",
                     times->first, "show_ns", times->show, "repeat_ns", times->repeat, "tune_ns",
                     times->tune, "close_ns", times->close);
}

static json_t *work_json(const model_run_report *report)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I}", "operations",
                     (json_int_t)report->ops, "operations_fused", (json_int_t)report->ops_fused,
                     "blocks", (json_int_t)report->blocks, "kernels", (json_int_t)report->kernels,
                     "blas_calls", (json_int_t)report->blas_calls, "programs_built",
                     (json_int_t)report->built, "programs_loaded", (json_int_t)report->loaded,
                     "build_ns", cli_json_figure(report->build_ns), "peak_bytes",
                     (json_int_t)report->peak_bytes);
}

void model_results_json(json_t *object, const model_run *run, const model_labels *labels, long top)
{
    bool computes = run->report.computes;
    json_t *outputs = json_array();
    for (size_t i = 0; computes && i < run->n_outputs; i++) {
        json_array_append_new(outputs, output_json(run->names[i], &run->outputs[i]));
    }
    json_object_set_new(object, "outputs", outputs);
    json_object_set_new(object, "top",
                        computes && run->n_outputs > 0
                            ? top_json(&run->outputs[0], labels, top > 0 ? (size_t)top : 1)
                            : json_null());
}

json_t *model_run_json(const model_options *options, const model_run *run,
                       const model_labels *labels, long top)
{
    const model_run_report *report = &run->report;
    json_t *spent = report->profile_rows != NULL ? json_incref(report->profile_rows) : json_null();
    json_t *made = json_pack(
        "{s:o, s:o, s:O*, s:n, s:n, s:f, s:o, s:i, s:o, s:o, s:o}", "model",
        cli_json_text(options->model), "device", cli_json_text(report->device_name), "parts",
        report->parts, "outputs", "top", "first_run_ns", report->first_ns, "repeated_run_ns",
        cli_json_figure(report->repeat_ns), "runs", (int)report->repeats, "work", work_json(report),
        "times", times_json(&report->times), "profile", spent);
    model_results_json(made, run, labels, top);
    return made;
}
