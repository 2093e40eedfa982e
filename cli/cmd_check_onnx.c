// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln check-onnx DIR...`: runs the test cases of ONNX (model.onnx with test_data_set_*/input_*.pb
// and output_*.pb). A case passes when every output has the expected type and shape and its numbers
// are close; what Kiln says it does not implement is a skip, counted under its reason; everything
// else is a failure.

#include "cli.h"
#include "onnx.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_IO = 64, PATH_ROOM = 4096 };

static const double relative_tolerance = 1e-3;
static const double absolute_tolerance = 1e-7;

typedef struct check_reason {
    char text[200];
    uint64_t count;
} check_reason;

typedef struct check_state {
    kiln_context *context;
    kiln_device *device;
    bool verbose;
    uint64_t passed;
    uint64_t failed;
    uint64_t skipped;
    check_reason *reasons;
    size_t n_reasons;
    bool no_memory;
} check_state;

/* One data set of a case: what goes in, what comes out. */
typedef struct check_set {
    kiln_onnx_tensor_file *files[MAX_IO];
    kiln_onnx_input inputs[MAX_IO];
    kiln_tensor *tensors[MAX_IO];
    kiln_tensor *outputs[MAX_IO];
    size_t n_inputs;
} check_set;

// ---- comparing --------------------------------------------------------------

static double number_at(kiln_dtype dtype, const void *data, int64_t index)
{
    const char *at = (const char *)data + (size_t)index * kiln_dtype_size(dtype);
    uint16_t half = 0;
    float single = 0;
    double value = 0;
    switch (dtype) {
    case KILN_DTYPE_F16:
    case KILN_DTYPE_BF16:
        memcpy(&half, at, sizeof(half));
        return (double)(dtype == KILN_DTYPE_F16 ? kiln_f16_to_f32(half) : kiln_bf16_to_f32(half));
    case KILN_DTYPE_F32:
        memcpy(&single, at, sizeof(single));
        return (double)single;
    default:
        memcpy(&value, at, sizeof(value));
        return value;
    }
}

static bool is_close(double actual, double expected)
{
    if (isnan(expected) || isinf(expected)) {
        return isnan(expected) ? isnan(actual) != 0 : actual == expected;
    }
    return fabs(actual - expected) <= absolute_tolerance + relative_tolerance * fabs(expected);
}

static kiln_status compare_floats(const kiln_onnx_tensor_info *expected, const void *actual,
                                  kiln_error *err)
{
    int64_t count = (int64_t)(expected->bytes / kiln_dtype_size(expected->dtype));
    for (int64_t i = 0; i < count; i++) {
        double got = number_at(expected->dtype, actual, i);
        double want = number_at(expected->dtype, expected->data, i);
        if (!is_close(got, want)) {
            return kiln_fail(err, INTERNAL, "element %lld is %.9g, expected %.9g", (long long)i,
                             got, want);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status compare_bytes(const kiln_onnx_tensor_info *expected, const void *actual,
                                 kiln_error *err)
{
    size_t size = kiln_dtype_size(expected->dtype);
    for (size_t i = 0; i < expected->bytes; i += size) {
        const char *want = (const char *)expected->data + i;
        if (memcmp((const char *)actual + i, want, size) != 0) {
            int64_t got_bits = 0;
            int64_t want_bits = 0;
            memcpy(&got_bits, (const char *)actual + i, size);
            memcpy(&want_bits, want, size);
            return kiln_fail(err, INTERNAL, "element %zu is %lld, expected %lld", i / size,
                             (long long)got_bits, (long long)want_bits);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status check_shape(const kiln_onnx_tensor_info *expected, const kiln_tensor *actual,
                               kiln_error *err)
{
    if (expected->dtype != kiln_tensor_dtype(actual)) {
        return kiln_fail(err, INTERNAL, "type is %s, expected %s",
                         kiln_dtype_name(kiln_tensor_dtype(actual)), expected->type_name);
    }
    if (expected->rank != kiln_tensor_rank(actual)) {
        return kiln_fail(err, INTERNAL, "rank is %zu, expected %u", kiln_tensor_rank(actual),
                         expected->rank);
    }
    for (uint32_t i = 0; i < expected->rank; i++) {
        int64_t length = kiln_tensor_dims(actual)[i];
        if (expected->dims[i] != length) {
            return kiln_fail(err, INTERNAL, "axis %u has length %lld, expected %lld", i,
                             (long long)length, (long long)expected->dims[i]);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status compare(const kiln_onnx_tensor_info *expected, kiln_tensor *actual,
                           kiln_error *err)
{
    kiln_status status = check_shape(expected, actual, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    void *data = malloc(expected->bytes + 1);
    if (data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", expected->bytes);
    }
    status = kiln_read(actual, data, expected->bytes, err);
    if (status == KILN_STATUS_OK) {
        bool is_float = kiln_dtype_kind_of(expected->dtype) == KILN_KIND_FLOAT;
        status =
            is_float ? compare_floats(expected, data, err) : compare_bytes(expected, data, err);
    }
    free(data);
    return status;
}

// ---- one data set -----------------------------------------------------------

static kiln_status check_kind(const kiln_onnx_value_info *info, kiln_error *err)
{
    static const char *const kinds[] = {"unknown", "tensor",   "sequence",
                                        "map",     "optional", "sparse tensor"};
    if (info->kind != KILN_ONNX_KIND_TENSOR) {
        return kiln_fail(err, UNIMPLEMENTED, "values of kind %s are not supported",
                         kinds[info->kind]);
    }
    if (info->dtype == KILN_DTYPE_NONE) {
        return kiln_fail(err, UNIMPLEMENTED, "element type %s is not supported", info->type_name);
    }
    return KILN_STATUS_OK;
}

/* NumPy has no bfloat16: the cases' files hold its upper bits, cut off and of another shape, as
 * uint16. */
static kiln_status check_bf16(const kiln_onnx_value_info *info, const kiln_onnx_tensor_info *tensor,
                              kiln_error *err)
{
    if (info->dtype == KILN_DTYPE_BF16 && tensor->dtype == KILN_DTYPE_U16) {
        return kiln_fail(err, UNIMPLEMENTED, "bfloat16 is stored as uint16 in the case's files");
    }
    return KILN_STATUS_OK;
}

static kiln_status load_input(check_state *state, check_set *set, const char *folder,
                              const kiln_onnx_value_info *info, kiln_error *err)
{
    char path[PATH_ROOM];
    size_t i = set->n_inputs;
    kiln_onnx_tensor_info tensor;
    snprintf(path, sizeof(path), "%s/input_%zu.pb", folder, i);
    kiln_status status =
        kiln_onnx_tensor_open(kiln_context_env(state->context), path, &set->files[i], &tensor, err);
    if (status == KILN_STATUS_OK) {
        status = check_bf16(info, &tensor, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = kiln_tensor_create(state->device, tensor.dtype, tensor.rank, tensor.dims, tensor.data,
                                &set->tensors[i], err);
    if (status == KILN_STATUS_UNIMPLEMENTED) {
        return kiln_fail(err, UNIMPLEMENTED, "element type %s is not supported by the device",
                         tensor.type_name);
    }
    set->inputs[i] =
        (kiln_onnx_input){.name = info->name, .tensor = set->tensors[i], .host = tensor.data};
    set->n_inputs++;
    return status;
}

/* A data set may leave out inputs at the end that have no file. */
static kiln_status load_inputs(check_state *state, check_set *set, const kiln_onnx_model *model,
                               const char *folder, kiln_error *err)
{
    size_t count = 0;
    const kiln_onnx_value_info *infos = kiln_onnx_model_inputs(model, &count);
    if (count > MAX_IO) {
        return kiln_fail(err, UNIMPLEMENTED, "more than %d inputs", MAX_IO);
    }
    for (size_t i = 0; i < count; i++) {
        kiln_status status = check_kind(&infos[i], err);
        if (status == KILN_STATUS_OK) {
            status = load_input(state, set, folder, &infos[i], err);
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status compare_outputs(check_state *state, check_set *set, size_t count,
                                   const kiln_onnx_value_info *infos, const char *folder,
                                   kiln_error *err)
{
    for (size_t i = 0; i < count; i++) {
        char path[PATH_ROOM];
        kiln_onnx_tensor_file *file = NULL;
        kiln_onnx_tensor_info expected;
        snprintf(path, sizeof(path), "%s/output_%zu.pb", folder, i);
        kiln_status status =
            kiln_onnx_tensor_open(kiln_context_env(state->context), path, &file, &expected, err);
        if (status == KILN_STATUS_OK) {
            status = check_bf16(&infos[i], &expected, err);
        }
        if (status == KILN_STATUS_OK) {
            status = compare(&expected, set->outputs[i], err);
        }
        kiln_onnx_tensor_close(file);
        if (status == KILN_STATUS_UNIMPLEMENTED) {
            return status;
        }
        if (status != KILN_STATUS_OK) {
            return kiln_error_context(err, "output '%s'", infos[i].name);
        }
    }
    return KILN_STATUS_OK;
}

static void free_set(check_set *set)
{
    for (size_t i = 0; i < MAX_IO; i++) {
        kiln_release(set->outputs[i]);
        kiln_release(set->tensors[i]);
        kiln_onnx_tensor_close(set->files[i]);
    }
}

static kiln_status run_set(check_state *state, const kiln_onnx_model *model,
                           kiln_onnx_session *session, const char *folder, kiln_error *err)
{
    check_set set = {.n_inputs = 0};
    size_t n_outputs = 0;
    const kiln_onnx_value_info *infos = kiln_onnx_model_outputs(model, &n_outputs);
    kiln_status status = load_inputs(state, &set, model, folder, err);
    if (status == KILN_STATUS_OK) {
        status =
            kiln_onnx_session_run(session, set.inputs, set.n_inputs, set.outputs, n_outputs, err);
    }
    if (status == KILN_STATUS_OK) {
        status = compare_outputs(state, &set, n_outputs, infos, folder, err);
    }
    free_set(&set);
    return status;
}

// ---- one case ---------------------------------------------------------------

static kiln_status check_io(const kiln_onnx_model *model, kiln_error *err)
{
    size_t count = 0;
    kiln_status status = KILN_STATUS_OK;
    const kiln_onnx_value_info *infos = kiln_onnx_model_inputs(model, &count);
    for (size_t i = 0; status == KILN_STATUS_OK && i < count; i++) {
        status = check_kind(&infos[i], err);
    }
    infos = kiln_onnx_model_outputs(model, &count);
    if (count > MAX_IO) {
        return kiln_fail(err, UNIMPLEMENTED, "more than %d outputs", MAX_IO);
    }
    for (size_t i = 0; status == KILN_STATUS_OK && i < count; i++) {
        status = check_kind(&infos[i], err);
    }
    return status;
}

/* Runs every data set; a case without one is a failure. */
static kiln_status run_sets(check_state *state, const kiln_onnx_model *model,
                            kiln_onnx_session *session, const char *folder, kiln_error *err)
{
    for (size_t i = 0;; i++) {
        char path[PATH_ROOM];
        snprintf(path, sizeof(path), "%s/test_data_set_%zu", folder, i);
        if (access(path, F_OK) != 0) {
            return i > 0 ? KILN_STATUS_OK : kiln_fail(err, NOT_FOUND, "no folder test_data_set_0");
        }
        kiln_status status = run_set(state, model, session, path, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
}

static kiln_status run_case(check_state *state, const char *folder, kiln_error *err)
{
    char path[PATH_ROOM];
    kiln_onnx_model *model = NULL;
    kiln_onnx_session *session = NULL;
    snprintf(path, sizeof(path), "%s/model.onnx", folder);
    kiln_status status = kiln_onnx_model_open(kiln_context_env(state->context), path, &model, err);
    if (status == KILN_STATUS_OK) {
        status = check_io(model, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_session_create(model, state->device, &session, err);
    }
    if (status == KILN_STATUS_OK) {
        status = run_sets(state, model, session, folder, err);
    }
    kiln_onnx_session_destroy(session);
    kiln_onnx_model_close(model);
    return status;
}

/* The reason without the node that it was found at. */
static const char *reason_of(const char *message)
{
    const char *reason = message;
    for (const char *at = strstr(message, "): "); at != NULL; at = strstr(at + 1, "): ")) {
        reason = at + 3;
    }
    return reason;
}

static void count_reason(check_state *state, const char *text)
{
    for (size_t i = 0; i < state->n_reasons; i++) {
        if (strcmp(state->reasons[i].text, text) == 0) {
            state->reasons[i].count++;
            return;
        }
    }
    check_reason *grown = realloc(state->reasons, (state->n_reasons + 1) * sizeof(*grown));
    if (grown == NULL) {
        state->no_memory = true;
        return;
    }
    state->reasons = grown;
    grown[state->n_reasons] = (check_reason){.count = 1};
    snprintf(grown[state->n_reasons].text, sizeof(grown->text), "%s", text);
    state->n_reasons++;
}

static void check_case(check_state *state, const char *folder)
{
    kiln_error err = KILN_ERROR_INIT;
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/') {
        length--;
    }
    const char *name = folder;
    for (size_t i = 0; i < length; i++) {
        name = folder[i] == '/' ? folder + i + 1 : name;
    }
    int width = (int)(folder + length - name);
    switch (run_case(state, folder, &err)) {
    case KILN_STATUS_OK:
        state->passed++;
        if (state->verbose) {
            printf("pass %.*s\n", width, name);
        }
        break;
    case KILN_STATUS_UNIMPLEMENTED:
        state->skipped++;
        count_reason(state, reason_of(err.message));
        if (state->verbose) {
            printf("skip %.*s: %s\n", width, name, err.message);
        }
        break;
    default:
        state->failed++;
        printf("FAIL %.*s: %s\n", width, name, err.message);
    }
    fflush(stdout);
}

// ---- folders ----------------------------------------------------------------

static bool is_case(const char *folder)
{
    char path[PATH_ROOM];
    snprintf(path, sizeof(path), "%s/model.onnx", folder);
    return access(path, F_OK) == 0;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* A case, or a folder of cases. */
static kiln_status check_folder(check_state *state, const char *folder, kiln_error *err)
{
    if (is_case(folder)) {
        check_case(state, folder);
        return KILN_STATUS_OK;
    }
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_visible, alphasort);
    if (count < 0) {
        return kiln_fail(err, NOT_FOUND, "cannot read folder %s", folder);
    }
    size_t found = 0;
    for (int i = 0; i < count; i++) {
        char path[PATH_ROOM];
        snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        if (is_case(path)) {
            found++;
            check_case(state, path);
        }
        free(entries[i]);
    }
    free(entries);
    return found > 0 ? KILN_STATUS_OK
                     : kiln_fail(err, NOT_FOUND, "no folder with a model.onnx in %s", folder);
}

static int by_count(const void *a, const void *b)
{
    const check_reason *x = a;
    const check_reason *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
                                : strcmp(x->text, y->text);
}

static void print_summary(check_state *state)
{
    if (state->n_reasons > 1) {
        qsort(state->reasons, state->n_reasons, sizeof(*state->reasons), by_count);
    }
    for (size_t i = 0; i < state->n_reasons; i++) {
        printf("skipped %4llu: %s\n", (unsigned long long)state->reasons[i].count,
               state->reasons[i].text);
    }
    printf("%llu passed, %llu failed, %llu skipped\n", (unsigned long long)state->passed,
           (unsigned long long)state->failed, (unsigned long long)state->skipped);
}

// ---- the command ------------------------------------------------------------

typedef struct check_options {
    cli_device_options device;
    bool verbose;
    char **folders;
    int n_folders;
} check_options;

static error_t parse(int key, char *text, struct argp_state *state)
{
    check_options *options = state->input;
    (void)text;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->device;
        return 0;
    case 'v':
        options->verbose = true;
        return 0;
    case ARGP_KEY_ARGS:
        options->folders = state->argv + state->next;
        options->n_folders = state->argc - state->next;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "name a folder of test cases");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int cmd_check_onnx(int argc, char **argv)
{
    static const struct argp_option choices[] = {
        {"verbose", 'v', NULL, 0, "one line for every case, not for failures only", 0}, {0}};
    static const struct argp_child children[] = {{&cli_device_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        choices,
        parse,
        "DIR...",
        "Runs ONNX backend test cases: each DIR is one, or holds several. What Kiln does not "
        "implement is skipped, with the reasons counted.",
        children,
        NULL,
        NULL};
    check_options options = {.verbose = false};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    check_state state = {.verbose = options.verbose};
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = cli_open_context(&options.device, &state.context, &err);
    if (status == KILN_STATUS_OK) {
        status = cli_open_device(&options.device, state.context, &state.device, &err);
    }
    int result = status == KILN_STATUS_OK ? CLI_OK : cli_fail("check-onnx", &err);
    /* A folder that cannot be read fails the job; the others are still checked and counted. */
    for (int i = 0; status == KILN_STATUS_OK && i < options.n_folders; i++) {
        if (check_folder(&state, options.folders[i], &err) != KILN_STATUS_OK) {
            result = cli_fail("check-onnx", &err);
        }
    }
    if (state.no_memory) {
        (void)kiln_fail(&err, RESOURCE_EXHAUSTED, "no memory for the reasons of skips");
        result = cli_fail("check-onnx", &err);
    }
    if (status == KILN_STATUS_OK) {
        print_summary(&state);
    }
    free(state.reasons);
    kiln_device_release(state.device);
    kiln_context_destroy(state.context);
    return result == CLI_OK && state.failed > 0 ? CLI_FAILED : result;
}
