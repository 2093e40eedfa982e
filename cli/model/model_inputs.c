// SPDX-License-Identifier: MIT OR Apache-2.0
// The inputs of a model: arrays and pictures from files, matched by name or position, and numbers
// for those that nobody gives. Nothing here needs a device.

#include "model_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_RANDOM = 512, KEY_LAYOUT, KEY_MEAN, KEY_SCALE, KEY_RESIZE, KEY_BGR, KEY_SHAPE };

static const struct argp_option options_table[] = {
    {"input", 'i', "[NAME=]FILE", 0,
     "an input from a .npy, .png or .jpg file, in the model's order when it has no name, or inputs "
     "by name from a .npz file; an unknown name gets the list of them",
     0},
    {"random", KEY_RANDOM, "SEED", OPTION_ARG_OPTIONAL,
     "inputs that are not given: floats of both signs below 1, integers 0", 0},
    {"shape", KEY_SHAPE, "[NAME:]AxBx..", 0,
     "extents of an input that is not given, or of a picture", 0},
    {"batch", 'b', "COUNT", 0,
     "first extent of inputs that are not given, where the model leaves it open", 0},
    {"layout", KEY_LAYOUT, "LAYOUT", 0, "of pictures: nchw (the default) or nhwc", 0},
    {"mean", KEY_MEAN, "A[,B,C]", 0, "taken from each channel of a picture, 0 to 255 (default 0)",
     0},
    {"scale", KEY_SCALE, "A[,B,C]", 0,
     "each channel of a picture is divided by it (default 255 for floats, 1 for integers)", 0},
    {"resize", KEY_RESIZE, "HOW", 0, "of pictures: stretch (the default), crop or pad", 0},
    {"bgr", KEY_BGR, NULL, 0, "channels of pictures as blue, green, red", 0},
    {0},
};

/// "[NAME=]FILE", or a FILE that is there; `text` is cut in place.
static void add_option(model_options *options, char *text, struct argp_state *state)
{
    if (options->n_inputs == MODEL_RUN_MAX_IO) {
        argp_error(state, "more than %d inputs", MODEL_RUN_MAX_IO);
    }
    bool whole = access(text, F_OK) == 0; // a file whose path holds one
    char *equals = whole ? NULL : strchr(text, '=');
    model_run_input input = {.path = equals != NULL ? equals + 1 : text};
    if (equals != NULL) {
        *equals = '\0';
        input.name = text;
    }
    options->inputs[options->n_inputs++] = input;
}

/// "A" for all channels, or "A,B,C".
static void parse_channels(const char *name, const char *text, float values[4],
                           struct argp_state *state)
{
    size_t count = 0;
    for (const char *at = text; count < 4; count++) {
        char *end = NULL;
        values[count] = strtof(at, &end);
        if (end == at || (*end != '\0' && *end != ',')) {
            argp_error(state, "--%s %s: a number, or one for each channel between commas", name,
                       text);
        }
        if (*end == '\0') {
            count++;
            break;
        }
        at = end + 1;
    }
    for (size_t i = count; i < 4; i++) {
        values[i] = count == 1 ? values[0] : 0;
    }
}

/// The place of a word among those that an option knows.
static int parse_word(const char *name, const char *text, const char *const *words,
                      struct argp_state *state)
{
    char all[80];
    cli_names names = {.text = all, .capacity = sizeof(all)};
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], text) == 0) {
            return i;
        }
        cli_names_add(&names, words[i]);
    }
    argp_error(state, "--%s %s: there are %s", name, text, cli_names_end(&names));
    return 0;
}

static error_t parse_picture(int key, char *text, struct argp_state *state,
                             picture_options *picture)
{
    static const char *const layouts[] = {"nchw", "nhwc", NULL};
    static const char *const ways[] = {"stretch", "crop", "pad", NULL};
    switch (key) {
    case KEY_LAYOUT:
        picture->nhwc = parse_word("layout", text, layouts, state) == 1;
        return 0;
    case KEY_RESIZE:
        picture->resize = (picture_resize)parse_word("resize", text, ways, state);
        return 0;
    case KEY_MEAN:
        parse_channels("mean", text, picture->mean, state);
        return 0;
    case KEY_SCALE:
        parse_channels("scale", text, picture->scale, state);
        return 0;
    case KEY_BGR:
        picture->bgr = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_inputs(int key, char *text, struct argp_state *state)
{
    model_options *options = state->input;
    char *end = NULL;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->device;
        return 0;
    case 'i':
        add_option(options, text, state);
        return 0;
    case 'b':
        options->batch = strtol(text, &end, 10);
        if (*text == '\0' || *end != '\0' || options->batch < 1) {
            argp_error(state, "--batch %s: a count from 1", text);
        }
        return 0;
    case KEY_RANDOM:
        options->random = true;
        options->seed = text != NULL ? strtoull(text, &end, 10) : 0;
        if (text != NULL && (*text == '\0' || *end != '\0')) {
            argp_error(state, "--random=%s: a number from 0", text);
        }
        return 0;
    case KEY_SHAPE:
        if (options->n_shapes == MODEL_RUN_MAX_IO) {
            argp_error(state, "more than %d shapes", MODEL_RUN_MAX_IO);
        }
        options->shapes[options->n_shapes++] = text;
        return 0;
    case ARGP_KEY_ARG:
        if (options->model != NULL) {
            argp_error(state, "one model at a time; inputs are given with --input");
        }
        options->model = text;
        return 0;
    case ARGP_KEY_END:
        if (options->model == NULL) {
            argp_error(state, "say which model");
        }
        return 0;
    default:
        return parse_picture(key, text, state, &options->picture);
    }
}

static const struct argp_child children[] = {{&cli_device_argp, 0, NULL, 0}, {0}};
const struct argp model_options_argp = {options_table, parse_inputs, NULL, NULL,
                                        children,      NULL,         NULL};

const char *model_names(const kiln_onnx_value_info *infos, size_t count,
                        char out_text[MODEL_NAMES_ROOM])
{
    cli_names names = {.text = out_text, .capacity = MODEL_NAMES_ROOM};
    for (size_t i = 0; i < count; i++) {
        cli_names_add(&names, infos[i].name);
    }
    return cli_names_end(&names);
}

// ---- matching ----

static kiln_status find_input(const model_session *self, const model_run_input *input, size_t place,
                              const char **out_name, kiln_error *err)
{
    size_t count = 0;
    char names[MODEL_NAMES_ROOM];
    const kiln_onnx_value_info *infos = kiln_onnx_model_inputs(self->model, &count);
    if (input->name == NULL) {
        if (place >= count) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "the model's inputs are %s; %.60s is one too many",
                             model_names(infos, count, names), input->path);
        }
        *out_name = infos[place].name;
        return KILN_STATUS_OK;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(infos[i].name, input->name) == 0) {
            *out_name = infos[i].name;
            return KILN_STATUS_OK;
        }
    }
    return kiln_fail(err, NOT_FOUND, "the model has no input \"%.40s\"; its inputs are %s",
                     input->name, model_names(infos, count, names));
}

static const kiln_onnx_value_info *info_of(const model_session *self, const char *name)
{
    size_t count = 0;
    const kiln_onnx_value_info *infos = kiln_onnx_model_inputs(self->model, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(infos[i].name, name) == 0) {
            return &infos[i];
        }
    }
    return NULL;
}

static bool has_input(const model_session *self, const char *name)
{
    for (size_t i = 0; i < self->n_inputs; i++) {
        if (strcmp(self->inputs[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/// arrays[n_inputs] is the input `name`.
static void add_input(model_session *self, const char *name)
{
    size_t place = self->n_inputs++;
    self->inputs[place] = (kiln_onnx_input){.name = name, .host = self->arrays[place].data};
}

// ---- shapes ----

/// The text of --shape for an input: with its name, or without any name for the first.
static const char *shape_text(const model_options *options, const char *name, bool first)
{
    const char *plain = NULL;
    for (size_t i = 0; i < options->n_shapes; i++) {
        const char *colon = strrchr(options->shapes[i], ':');
        size_t length = colon != NULL ? (size_t)(colon - options->shapes[i]) : 0;
        if (colon == NULL && first) {
            plain = options->shapes[i];
        } else if (colon != NULL && strlen(name) == length &&
                   strncmp(options->shapes[i], name, length) == 0) {
            return colon + 1;
        }
    }
    return plain;
}

static kiln_status parse_dims(const char *text, const kiln_onnx_value_info *info, kiln_npy *array,
                              kiln_error *err)
{
    const char *at = text;
    for (uint32_t i = 0; i < info->rank; i++) {
        char *end = NULL;
        array->dims[i] = strtoll(at, &end, 10);
        bool last = i + 1 == info->rank;
        if (end == at || array->dims[i] < 0 || *end != (last ? '\0' : 'x')) {
            return kiln_fail(
                err, INVALID_ARGUMENT,
                "--shape %.80s: write %u lengths with x between them, for input \"%s\"", text,
                info->rank, info->name);
        }
        if (info->dims[i].length >= 0 && info->dims[i].length != array->dims[i]) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "--shape %.80s: axis %u of input \"%s\" is always %lld", text, i,
                             info->name, (long long)info->dims[i].length);
        }
        at = end + 1;
    }
    return KILN_STATUS_OK;
}

/// What the model and the options say of an input's shape; -1 for lengths that neither says.
static kiln_status find_shape(const model_session *self, const model_options *options,
                              const kiln_onnx_value_info *info, kiln_npy *out_array,
                              kiln_error *err)
{
    size_t count = 0;
    const char *text =
        shape_text(options, info->name, info == kiln_onnx_model_inputs(self->model, &count));
    if (kiln_dtype_size(info->dtype) == 0 || info->rank > KILN_NPY_MAX_RANK) {
        return kiln_fail(err, UNIMPLEMENTED, "input \"%s\" of type %s; give it with --input",
                         info->name, info->type_name);
    }
    out_array->dtype = info->dtype;
    out_array->rank = info->rank;
    for (uint32_t i = 0; i < info->rank; i++) {
        out_array->dims[i] = info->dims[i].length;
    }
    if (info->rank > 0 && info->dims[0].length < 0 && options->batch > 0) {
        out_array->dims[0] = options->batch;
    }
    return text != NULL ? parse_dims(text, info, out_array, err) : KILN_STATUS_OK;
}

// ---- inventing ----

/// Floats of both signs below 1, the same in every run, so that a wrong kernel shows; integers may
/// be indices and stay 0.
static void fill_floats(kiln_npy *array, uint64_t seed)
{
    size_t size = kiln_dtype_size(array->dtype);
    bool floats = kiln_dtype_kind_of(array->dtype) == KILN_KIND_FLOAT;
    for (uint64_t i = 0; floats && i < array->bytes / size; i++) {
        const kiln_attr value = {.type = KILN_ATTR_F64,
                                 .count = 1,
                                 .v.f = (double)(kiln_hash64(&i, sizeof(i), seed) % 511) / 256 -
                                        255.0 / 256};
        (void)kiln_number_store(&value, array->dtype, (char *)array->data + i * size);
    }
}

/// An array of the model's shape; lengths that nobody says are 1.
static kiln_status make_array(const model_session *self, const model_options *options,
                              const kiln_onnx_value_info *info, kiln_npy *out_array,
                              kiln_error *err)
{
    kiln_status status = find_shape(self, options, info, out_array, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    size_t size = kiln_dtype_size(info->dtype);
    for (uint32_t i = 0; i < info->rank; i++) {
        out_array->dims[i] = out_array->dims[i] >= 0 ? out_array->dims[i] : 1;
        if (__builtin_mul_overflow(size, (size_t)out_array->dims[i], &size)) {
            return kiln_fail(err, OUT_OF_RANGE, "input \"%s\" is too large", info->name);
        }
    }
    out_array->bytes = size;
    out_array->data = calloc(1, size > 0 ? size : 1);
    if (out_array->data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", size);
    }
    fill_floats(out_array, options->seed);
    return KILN_STATUS_OK;
}

// ---- loading ----

static kiln_status missing_input(const kiln_onnx_value_info *info, kiln_error *err)
{
    char wanted[96];
    kiln_onnx_value_info_text(info, wanted, sizeof(wanted));
    if (info->kind != KILN_ONNX_KIND_TENSOR) {
        return kiln_fail(err, UNIMPLEMENTED,
                         "the model's input \"%s\" is %s: a .npy file holds no such thing, the C "
                         "interface takes it",
                         info->name, wanted);
    }
    if (info->dtype == KILN_DTYPE_NONE && strcmp(info->type_name, "string") != 0) {
        return kiln_fail(err, UNIMPLEMENTED,
                         "the model's input \"%s\" is %s: element type %s is not supported",
                         info->name, wanted, info->type_name);
    }
    return kiln_fail(err, INVALID_ARGUMENT,
                     "the model's input \"%s\", %s, is missing; add --input %s=FILE.npy",
                     info->name, wanted, info->name);
}

static bool is_archive(const char *path)
{
    size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, ".npz") == 0;
}

/// Each array of an archive is the input of its name.
static kiln_status load_archive(model_session *self, const char *path, kiln_error *err)
{
    char name[KILN_NPZ_NAME_ROOM];
    for (size_t i = 0;; i++) {
        kiln_npy array = {0};
        kiln_status status = kiln_npz_read(path, i, name, &array, err);
        if (status == KILN_STATUS_NOT_FOUND && i > 0) {
            return KILN_STATUS_OK;
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
        const char *own = NULL;
        const model_run_input input = {.name = name, .path = path};
        status = find_input(self, &input, 0, &own, err);
        if (status == KILN_STATUS_OK && has_input(self, own)) {
            status = kiln_fail(err, INVALID_ARGUMENT, "input \"%s\" is given twice", own);
        }
        if (status != KILN_STATUS_OK) {
            kiln_npy_free(&array);
            return kiln_error_context(err, "%s", path);
        }
        self->arrays[self->n_inputs] = array;
        add_input(self, own);
    }
}

/// `place` is that of inputs without a name, in the model's order.
static kiln_status load_input(model_session *self, const model_options *options,
                              const model_run_input *input, size_t place, kiln_error *err)
{
    const char *name = NULL;
    kiln_npy *array = &self->arrays[self->n_inputs];
    if (input->name == NULL && is_archive(input->path)) {
        return load_archive(self, input->path, err);
    }
    kiln_status status = find_input(self, input, place, &name, err);
    if (status == KILN_STATUS_OK && has_input(self, name)) {
        status = kiln_fail(err, INVALID_ARGUMENT, "input \"%s\" is given twice", name);
    }
    if (status == KILN_STATUS_OK && picture_is_one(input->path)) {
        kiln_npy wanted = {0};
        status = find_shape(self, options, info_of(self, name), &wanted, err);
        if (status == KILN_STATUS_OK) {
            status = picture_read(input->path, &options->picture, &wanted, array, err);
        }
    } else if (status == KILN_STATUS_OK && is_archive(input->path)) {
        char unused[KILN_NPZ_NAME_ROOM];
        status = kiln_npz_read(input->path, 0, unused, array, err);
    } else if (status == KILN_STATUS_OK) {
        status = kiln_npy_read(input->path, array, err);
    }
    if (status == KILN_STATUS_OK) {
        add_input(self, name);
    }
    return status;
}

kiln_status model_inputs_load(model_session *self, const model_options *options, bool invent,
                              kiln_error *err)
{
    size_t wanted = 0;
    const kiln_onnx_value_info *infos = kiln_onnx_model_inputs(self->model, &wanted);
    for (size_t i = 0; i < options->n_inputs; i++) {
        kiln_status status = load_input(self, options, &options->inputs[i], i, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    for (size_t i = 0; i < wanted; i++) {
        if (has_input(self, infos[i].name)) {
            continue;
        }
        if (!invent) {
            return missing_input(&infos[i], err);
        }
        if (self->n_inputs == MODEL_RUN_MAX_IO) {
            return kiln_fail(err, UNIMPLEMENTED, "more than %d inputs", MODEL_RUN_MAX_IO);
        }
        kiln_status status =
            make_array(self, options, &infos[i], &self->arrays[self->n_inputs], err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        add_input(self, infos[i].name);
    }
    return KILN_STATUS_OK;
}
