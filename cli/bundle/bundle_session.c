// SPDX-License-Identifier: MIT OR Apache-2.0
// A bundle on a device with inputs from files: opens, runs, times, reads. What is printed of the
// values is for who asked.

#include "bundle_cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bundle_file bundle_file_of(char *text)
{
    bool whole = access(text, F_OK) == 0; // a file whose path holds one
    char *equals = whole ? NULL : strchr(text, '=');
    if (equals == NULL) {
        return (bundle_file){.path = text};
    }
    *equals = '\0';
    return (bundle_file){.name = text, .path = equals + 1};
}

bool bundle_is_at(const char *path)
{
    char manifest[4096];
    int length = snprintf(manifest, sizeof(manifest), "%s/HASHES", path);
    return length > 0 && (size_t)length < sizeof(manifest) && access(manifest, F_OK) == 0;
}

kiln_status bundle_read(kiln_tensor *tensor, kiln_npy *out_array, kiln_error *err)
{
    *out_array = (kiln_npy){.dtype = kiln_tensor_dtype(tensor),
                            .rank = kiln_tensor_rank(tensor),
                            .bytes = kiln_tensor_bytes(tensor)};
    memcpy(out_array->dims, kiln_tensor_dims(tensor), out_array->rank * sizeof(int64_t));
    out_array->data = malloc(out_array->bytes + 1);
    return out_array->data != NULL ? kiln_read(tensor, out_array->data, out_array->bytes, err)
                                   : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an output");
}

static void release_tensors(kiln_tensor **tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        kiln_release(tensors[i]);
        tensors[i] = NULL;
    }
}

// ---- names ----

static kiln_status find_value(const kiln_bundle *bundle, bool output, const bundle_file *file,
                              size_t place, size_t *out_index, kiln_error *err)
{
    char text[128];
    cli_names names = {.text = text, .capacity = sizeof(text)};
    const char *what = output ? "output" : "input";
    const kiln_bundle_value *value = NULL;
    uint32_t count = 0;
    for (;; count++) {
        value = output ? kiln_bundle_output(bundle, 0, count) : kiln_bundle_input(bundle, 0, count);
        if (value == NULL) {
            break;
        }
        cli_names_add(&names, value->name);
        if (file->name != NULL && strcmp(value->name, file->name) == 0) {
            *out_index = count;
            return KILN_STATUS_OK;
        }
    }
    if (file->name != NULL) {
        return kiln_fail(err, NOT_FOUND, "the bundle has no %s \"%.40s\"; there are %s", what,
                         file->name, cli_names_end(&names));
    }
    *out_index = place;
    return place < count
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT, "%.60s is one %s too many; there are %s",
                           file->path, what, cli_names_end(&names));
}

// ---- inputs ----

/// What is wrong with the files is told before a device is opened.
static kiln_status read_files(const bundle_request *request, kiln_npy *arrays, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < request->n_inputs && status == KILN_STATUS_OK; i++) {
        status = kiln_npy_read(request->inputs[i].path, &arrays[i], err);
        if (status == KILN_STATUS_OK && arrays[i].texts != NULL) {
            status =
                kiln_fail(err, INVALID_ARGUMENT, "%.150s holds strings", request->inputs[i].path);
        }
    }
    for (size_t i = 0; i < request->n_outputs && status == KILN_STATUS_OK; i++) {
        status = cli_check_output(request->outputs[i].path, err);
    }
    return status;
}

static kiln_status load_input(kiln_device *device, const kiln_bundle *bundle,
                              const bundle_file *file, size_t place, const kiln_npy *array,
                              kiln_tensor **tensors, kiln_error *err)
{
    size_t index = 0;
    kiln_status status = find_value(bundle, false, file, place, &index, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_dtype wanted = kiln_bundle_input(bundle, 0, (uint32_t)index)->dtype;
    bool bits = array->dtype == KILN_DTYPE_U8 && kiln_dtype_kind_of(wanted) == KILN_KIND_SMALL;
    kiln_release(tensors[index]);
    tensors[index] = NULL;
    return kiln_tensor_create(device, bits ? wanted : array->dtype, array->rank, array->dims,
                              array->data, &tensors[index], err);
}

static kiln_status load_inputs(kiln_device *device, const kiln_bundle *bundle,
                               const bundle_request *request, const kiln_npy *arrays,
                               kiln_tensor **tensors, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < request->n_inputs && status == KILN_STATUS_OK; i++) {
        status = load_input(device, bundle, &request->inputs[i], i, &arrays[i], tensors, err);
    }
    for (uint32_t i = 0; status == KILN_STATUS_OK && kiln_bundle_input(bundle, 0, i) != NULL; i++) {
        if (tensors[i] == NULL) {
            status = kiln_fail(err, INVALID_ARGUMENT, "input \"%.80s\" is not given; use --input",
                               kiln_bundle_input(bundle, 0, i)->name);
        }
    }
    return status;
}

static kiln_status zeros_for(kiln_device *device, const kiln_bundle *bundle, uint32_t shapes,
                             kiln_tensor **tensors, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < BUNDLE_MOST_IO; i++) {
        const kiln_bundle_value *value = kiln_bundle_input(bundle, shapes, i);
        if (value == NULL) {
            break;
        }
        status = kiln_tensor_create(device, value->dtype, value->rank, value->dims, NULL,
                                    &tensors[i], err);
    }
    return status;
}

static kiln_status check_room(const kiln_bundle_info *info, kiln_error *err)
{
    return info->n_inputs <= BUNDLE_MOST_IO && info->n_outputs <= BUNDLE_MOST_IO
               ? KILN_STATUS_OK
               : kiln_fail(err, UNIMPLEMENTED, "a bundle with more than %d inputs or outputs",
                           BUNDLE_MOST_IO);
}

kiln_status bundle_try_all(kiln_device *device, kiln_bundle *bundle, kiln_error *err)
{
    kiln_tensor *inputs[BUNDLE_MOST_IO] = {NULL};
    kiln_tensor *outputs[BUNDLE_MOST_IO] = {NULL};
    kiln_bundle_info info = {.struct_size = sizeof(info)};
    kiln_bundle_info_get(bundle, &info);
    kiln_status status = check_room(&info, err);
    for (uint32_t s = 0; s < info.n_shapes && status == KILN_STATUS_OK; s++) {
        status = zeros_for(device, bundle, s, inputs, err);
        if (status == KILN_STATUS_OK) {
            status = kiln_bundle_run(bundle, inputs, info.n_inputs, outputs, info.n_outputs, err);
        }
        if (status == KILN_STATUS_OK) {
            status = kiln_sync(device, err);
        }
        release_tensors(inputs, BUNDLE_MOST_IO);
        release_tensors(outputs, BUNDLE_MOST_IO);
    }
    return status;
}

// ---- runs ----

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static kiln_status run_bundle_once(kiln_bundle *bundle, kiln_tensor **inputs, bundle_result *result,
                                   bool keep, kiln_error *err)
{
    kiln_tensor *outputs[BUNDLE_MOST_IO] = {NULL};
    const kiln_bundle_info *info = &result->info;
    kiln_status status =
        kiln_bundle_run(bundle, inputs, info->n_inputs, outputs, info->n_outputs, err);
    for (uint32_t i = 0; i < info->n_outputs && status == KILN_STATUS_OK; i++) {
        kiln_npy array = {0};
        status = bundle_read(outputs[i], keep ? &result->outputs[i] : &array, err);
        kiln_npy_free(&array);
    }
    release_tensors(outputs, BUNDLE_MOST_IO);
    return status;
}

static kiln_status repeat_runs(kiln_bundle *bundle, kiln_tensor **inputs, uint32_t repeats,
                               bundle_result *result, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    double *times = calloc(repeats + 1u, sizeof(*times));
    if (times == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for times");
    }
    for (uint32_t i = 0; i < repeats && status == KILN_STATUS_OK; i++) {
        uint64_t begin = kiln_time_ns();
        status = run_bundle_once(bundle, inputs, result, false, err);
        times[i] = (double)(kiln_time_ns() - begin);
    }
    qsort(times, repeats, sizeof(*times), compare_times);
    result->repeat_ns = times[repeats / 2];
    free(times);
    return status;
}

static kiln_status write_wanted(const kiln_bundle *bundle, const bundle_request *request,
                                const bundle_result *result, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < request->n_outputs && status == KILN_STATUS_OK; i++) {
        size_t index = 0;
        status = find_value(bundle, true, &request->outputs[i], i, &index, err);
        if (status == KILN_STATUS_OK) {
            status = kiln_npy_write(request->outputs[i].path, &result->outputs[index], err);
        }
    }
    return status;
}

static kiln_status run_opened(kiln_device *device, const bundle_request *request,
                              const kiln_npy *arrays, bundle_result *result, kiln_error *err)
{
    kiln_bundle_options options = KILN_BUNDLE_OPTIONS_INIT;
    kiln_bundle *bundle = NULL;
    kiln_tensor *inputs[BUNDLE_MOST_IO] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    uint64_t begin = kiln_time_ns();
    options.no_compile = request->no_compile;
    KILN_TRY(out, status, kiln_bundle_open(device, request->folder, &options, &bundle, err));
    result->info.struct_size = sizeof(result->info);
    kiln_bundle_info_get(bundle, &result->info);
    KILN_TRY(out, status, check_room(&result->info, err));
    KILN_TRY(out, status, load_inputs(device, bundle, request, arrays, inputs, err));
    result->n_outputs = result->info.n_outputs;
    for (uint32_t i = 0; i < result->info.n_outputs; i++) {
        snprintf(result->names[i], sizeof(result->names[i]), "%s",
                 kiln_bundle_output(bundle, 0, i)->name);
    }
    KILN_TRY(out, status, run_bundle_once(bundle, inputs, result, true, err));
    result->first_ns = (double)(kiln_time_ns() - begin);
    KILN_TRY(out, status, write_wanted(bundle, request, result, err));
    if (request->repeats > 0) {
        status = repeat_runs(bundle, inputs, request->repeats, result, err);
    }
out:
    release_tensors(inputs, BUNDLE_MOST_IO);
    kiln_bundle_close(bundle);
    return status;
}

kiln_status bundle_execute(const bundle_request *request, bundle_result *out_result,
                           kiln_error *err)
{
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_npy arrays[BUNDLE_MOST_IO] = {{0}};
    kiln_status status = KILN_STATUS_OK;
    memset(out_result, 0, sizeof(*out_result));
    KILN_TRY(out, status, read_files(request, arrays, err));
    KILN_TRY(out, status, cli_open_context(request->device, &context, err));
    KILN_TRY(out, status, cli_open_device(request->device, context, &device, err));
    snprintf(out_result->device_name, sizeof(out_result->device_name), "%s",
             kiln_device_info_of(device)->name);
    status = run_opened(device, request, arrays, out_result, err);
out:
    kiln_device_release(device);
    if (context != NULL) {
        cli_close_context(context);
    }
    for (size_t i = 0; i < BUNDLE_MOST_IO; i++) {
        kiln_npy_free(&arrays[i]);
    }
    return status;
}

void bundle_result_free(bundle_result *result)
{
    for (size_t i = 0; i < BUNDLE_MOST_IO; i++) {
        kiln_npy_free(&result->outputs[i]);
    }
}

void bundle_print_report(const bundle_result *result)
{
    char text[32];
    const kiln_bundle_info *info = &result->info;
    printf("device: %s\n", result->device_name);
    printf("programs: %u, of them %u from binaries of the bundle, %u made from its sources; a run "
           "changes the program %u %s\n",
           info->n_programs, info->loaded, info->compiled, info->reprograms,
           kiln_plural(info->reprograms, "time", "times"));
    printf("first run: %s\n", cli_format_ns(text, result->first_ns));
    if (result->repeat_ns > 0) {
        printf("repeated run: %s (median)\n", cli_format_ns(text, result->repeat_ns));
    }
    printf("constants: %s", cli_format_bytes(text, (double)info->constant_bytes));
    printf(", memory between steps: %s\n", cli_format_bytes(text, (double)info->scratch_bytes));
}

static json_t *output_facts(const char *name, const kiln_npy *array)
{
    json_t *dims = json_array();
    for (size_t i = 0; i < array->rank; i++) {
        json_array_append_new(dims, json_integer((json_int_t)array->dims[i]));
    }
    return json_pack("{s:o, s:s, s:o, s:I}", "name", cli_json_text(name), "dtype",
                     kiln_dtype_name(array->dtype), "dims", dims, "elements",
                     (json_int_t)kiln_npy_count(array));
}

json_t *bundle_report_json(const bundle_request *request, const bundle_result *result)
{
    const kiln_bundle_info *info = &result->info;
    json_t *outputs = json_array();
    for (size_t i = 0; i < result->n_outputs; i++) {
        json_array_append_new(outputs, output_facts(result->names[i], &result->outputs[i]));
    }
    json_t *programs =
        json_pack("{s:I, s:I, s:I, s:I}", "all", (json_int_t)info->n_programs, "from_binaries",
                  (json_int_t)info->loaded, "from_sources", (json_int_t)info->compiled,
                  "reprograms", (json_int_t)info->reprograms);
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:f, s:o, s:I, s:I, s:I}", "model", cli_json_text(request->folder),
        "device", cli_json_text(result->device_name), "outputs", outputs, "programs", programs,
        "first_run_ns", result->first_ns, "repeated_run_ns", cli_json_figure(result->repeat_ns),
        "runs", (json_int_t)request->repeats, "constant_bytes", (json_int_t)info->constant_bytes,
        "scratch_bytes", (json_int_t)info->scratch_bytes);
}
