// SPDX-License-Identifier: MIT OR Apache-2.0
// Fine-tunes an ONNX model: its weights become parameters, a run of it under a tape gives their
// gradients, AdamW changes them, and the model's file is written with what they have become. The
// digits model learns bright digits here, those whose pixels are turned from x to 16 - x, from a
// few images.
#include <kiln/kiln_grad.h>
#include <kiln/kiln_train.h>
#include <kiln/onnx.h>

#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IMAGES = 1797, HELD_OUT = 360, LEARNT = IMAGES - HELD_OUT, SIDE = 8, PIXELS = SIDE * SIDE };
enum { CLASSES = 10, MOST_ONLY = 16 };

typedef struct options {
    const char *model;
    const char *tuned;
    const char *device;
    const char *folder; ///< of images.npy and labels.npy
    const char *log; ///< NULL: none
    const char *only[MOST_ONLY]; ///< names of weights begin so; none: all parameters
    int n_only;
    int steps;
    int batch;
    int images; ///< that are learnt from
    double rate;
} options;

typedef struct trainer {
    options options;
    kiln_context *context;
    kiln_device *device;
    kiln_onnx_model *model;
    kiln_onnx_session *session;
    kiln_params *params;
    kiln_optimiser *optimiser;
    kiln_onnx_input *inputs; ///< the image, then the parameters
    unsigned char *pixels;
    unsigned char *labels;
    FILE *log;
} trainer;

// ---- data ----

/// The elements of a .npy file of bytes; the caller frees them.
static kiln_status load(const char *folder, const char *name, size_t bytes,
                        unsigned char **out_data, kiln_error *err)
{
    char path[1024];
    unsigned char head[10];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    unsigned char *data = malloc(bytes);
    bool ok = file != NULL && data != NULL && fread(head, 1, 10, file) == 10 &&
              memcmp(head, "\x93NUMPY", 6) == 0 &&
              fseek(file, 10 + head[8] + 256 * head[9], SEEK_SET) == 0 &&
              fread(data, 1, bytes, file) == bytes;
    if (file != NULL) {
        fclose(file);
    }
    *out_data = data;
    return ok ? KILN_STATUS_OK
              : kiln_fail(err, NOT_FOUND, "%s is not there, or not as in examples/train_digits",
                          path);
}

/// Bright digits: `count` images from `first` on; after number `end` comes 0 again.
static kiln_status make_batch(const trainer *self, int first, int end, int count,
                              kiln_tensor **out_x, kiln_tensor **out_y, kiln_error *err)
{
    const int64_t x_dims[] = {count, 1, SIDE, SIDE};
    const int64_t y_dims[] = {count, 1};
    float *x = malloc((size_t)count * PIXELS * sizeof(*x));
    int32_t *y = malloc((size_t)count * sizeof(*y));
    kiln_status status = KILN_STATUS_RESOURCE_EXHAUSTED;
    for (int i = 0; i < count && x != NULL && y != NULL; i++) {
        int image = (first + i) % end;
        for (int k = 0; k < PIXELS; k++) {
            x[i * PIXELS + k] = (float)(16 - self->pixels[image * PIXELS + k]);
        }
        y[i] = self->labels[image];
        status = KILN_STATUS_OK;
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_tensor_create(self->device, KILN_DTYPE_F32, 4, x_dims, x, out_x, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_tensor_create(self->device, KILN_DTYPE_I32, 2, y_dims, y, out_y, err);
    }
    free(x);
    free(y);
    return status;
}

// ---- the model ----

static bool is_wanted(const options *o, const char *name)
{
    for (int i = 0; i < o->n_only; i++) {
        if (strncmp(name, o->only[i], strlen(o->only[i])) == 0) {
            return true;
        }
    }
    return o->n_only == 0;
}

/// A weight that is to be trained becomes a parameter of its name.
static kiln_status add_weight(const kiln_onnx_weight_info *info, void *user, kiln_error *err)
{
    const trainer *self = user;
    kiln_tensor *tensor = NULL;
    if (!info->is_parameter || !is_wanted(&self->options, info->name)) {
        return KILN_STATUS_OK;
    }
    kiln_status status = kiln_tensor_create(self->device, info->dtype, info->rank, info->dims,
                                            info->data, &tensor, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_params_add_tensor(self->params, info->name, tensor, err);
    }
    kiln_release(tensor);
    return status;
}

/// Logarithms of the classes' probabilities, by the parameters as they are.
static kiln_status run_model(trainer *self, kiln_tensor *x, kiln_tensor **out_log, kiln_error *err)
{
    size_t count = kiln_params_count(self->params);
    size_t n_inputs = 0;
    self->inputs[0] = (kiln_onnx_input){
        .name = kiln_onnx_model_inputs(self->model, &n_inputs)->name, .tensor = x};
    for (size_t i = 0; i < count; i++) {
        self->inputs[i + 1] = (kiln_onnx_input){.name = kiln_params_name(self->params, i),
                                                .tensor = kiln_params_tensor(self->params, i)};
    }
    return kiln_onnx_session_run(self->session, self->inputs, count + 1, out_log, 1, err);
}

/// The mean of -log p of the right class.
static kiln_status find_loss(kiln_tensor *log, kiln_tensor *y, kiln_tensor **out_loss,
                             kiln_error *err)
{
    kiln_tensor *right = NULL;
    kiln_tensor *mean = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_gather(log, y, /*axis=*/1, &right, err));
    KILN_TRY(out, status, kiln_mean(right, NULL, 0, false, &mean, err));
    KILN_TRY(out, status, kiln_neg(mean, out_loss, err));
out:
    kiln_release(right);
    kiln_release(mean);
    return status;
}

// ---- training ----

static kiln_status make_gradients(trainer *self, int step, kiln_tensor **out_loss,
                                  kiln_tensor **out_gradients, kiln_error *err)
{
    const options *o = &self->options;
    size_t count = kiln_params_count(self->params);
    kiln_tape *tape = NULL;
    kiln_tensor *t[3] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status,
             make_batch(self, step * o->batch % o->images, o->images, o->batch, &t[0], &t[1], err));
    KILN_TRY(out, status, kiln_tape_create(self->device, &tape, err));
    for (size_t i = 0; i < count; i++) {
        KILN_TRY(out, status, kiln_tape_track(tape, kiln_params_tensor(self->params, i), err));
    }
    KILN_TRY(out, status, run_model(self, t[0], &t[2], err));
    KILN_TRY(out, status, find_loss(t[2], t[1], out_loss, err));
    KILN_TRY(out, status, kiln_backward(tape, *out_loss, NULL, err));
    for (size_t i = 0; i < count; i++) {
        KILN_TRY(out, status,
                 kiln_gradient(tape, kiln_params_tensor(self->params, i), &out_gradients[i], err));
    }
out:
    kiln_tape_destroy(tape);
    for (int i = 0; i < 3; i++) {
        kiln_release(t[i]);
    }
    return status;
}

static kiln_status make_step(trainer *self, int step, float *out_loss, kiln_error *err)
{
    size_t count = kiln_params_count(self->params);
    kiln_tensor *loss = NULL;
    kiln_tensor **gradients = calloc(count + 1, sizeof(*gradients));
    kiln_status status = KILN_STATUS_OK;
    if (gradients == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a step");
    }
    KILN_TRY(out, status, make_gradients(self, step, &loss, gradients, err));
    KILN_TRY(out, status, kiln_optimiser_step(self->optimiser, gradients, count, err));
    KILN_TRY(out, status, kiln_read(loss, out_loss, sizeof(*out_loss), err));
out:
    for (size_t i = 0; i < count; i++) {
        kiln_release(gradients[i]);
    }
    free(gradients);
    kiln_release(loss);
    return status;
}

static void show(const trainer *self, int step, float loss)
{
    enum { WIDTH = 40 };
    char bar[WIDTH + 1];
    memset(bar, '.', WIDTH);
    memset(bar, '#', (size_t)(step * WIDTH / self->options.steps));
    bar[WIDTH] = '\0';
    if (self->log != NULL) {
        char text[32] = "null"; // JSON has no infinities
        if (isfinite(loss)) {
            snprintf(text, sizeof(text), "%.9g", (double)loss);
        }
        fprintf(self->log, "{\"step\": %d, \"loss\": %s}\n", step, text);
    }
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\rstep %d of %d [%s] loss %.4f%s", step, self->options.steps, bar,
                (double)loss, step == self->options.steps ? "\n" : "");
    }
}

static kiln_status train(trainer *self, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (int step = 0; step < self->options.steps && status == KILN_STATUS_OK; step++) {
        float loss = 0;
        status = make_step(self, step, &loss, err);
        if (status == KILN_STATUS_OK) {
            show(self, step + 1, loss);
        }
    }
    return status;
}

/// How many of the held-out digits the model gets right, when they are bright.
static kiln_status test(trainer *self, int *out_right, kiln_error *err)
{
    int64_t guesses[HELD_OUT];
    kiln_tensor *t[4] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    *out_right = 0;
    KILN_TRY(out, status, make_batch(self, LEARNT, IMAGES, HELD_OUT, &t[0], &t[1], err));
    KILN_TRY(out, status, run_model(self, t[0], &t[2], err));
    KILN_TRY(out, status, kiln_argmax(t[2], /*axis=*/1, false, false, &t[3], err));
    KILN_TRY(out, status, kiln_read(t[3], guesses, sizeof(guesses), err));
    for (int i = 0; i < HELD_OUT; i++) {
        *out_right += guesses[i] == self->labels[LEARNT + i];
    }
out:
    for (int i = 0; i < 4; i++) {
        kiln_release(t[i]);
    }
    return status;
}

// ---- the program ----

static kiln_status open_model(trainer *self, kiln_error *err)
{
    const options *o = &self->options;
    kiln_optimiser_options adamw = KILN_OPTIMISER_OPTIONS_INIT;
    kiln_status status = KILN_STATUS_OK;
    adamw.rule = KILN_OPTIMISER_ADAMW;
    adamw.rate = o->rate;
    KILN_TRY(out, status, kiln_context_create(NULL, &self->context, err));
    KILN_TRY(out, status, kiln_device_open(self->context, o->device, &self->device, err));
    KILN_TRY(out, status,
             kiln_onnx_model_open(kiln_context_env(self->context), o->model, &self->model, err));
    KILN_TRY(out, status, kiln_onnx_session_create(self->model, self->device, &self->session, err));
    KILN_TRY(out, status, kiln_params_create(self->device, /*seed=*/1, &self->params, err));
    KILN_TRY(out, status, kiln_onnx_model_weights(self->model, add_weight, self, err));
    KILN_TRY(out, status, kiln_optimiser_create(self->params, &adamw, &self->optimiser, err));
    self->inputs = calloc(kiln_params_count(self->params) + 1, sizeof(*self->inputs));
    status = self->inputs != NULL ? status : KILN_STATUS_RESOURCE_EXHAUSTED;
out:
    return status;
}

static kiln_status start(trainer *self, kiln_error *err)
{
    const options *o = &self->options;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status,
             load(o->folder, "images.npy", (size_t)IMAGES * PIXELS, &self->pixels, err));
    KILN_TRY(out, status, load(o->folder, "labels.npy", IMAGES, &self->labels, err));
    KILN_TRY(out, status, open_model(self, err));
    self->log = o->log != NULL ? fopen(o->log, "w") : NULL;
    if (o->log != NULL && self->log == NULL) {
        status = kiln_fail(err, UNAVAILABLE, "%s cannot be written", o->log);
    }
out:
    return status;
}

static int run(trainer *self)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    int before = 0;
    int after = 0;
    KILN_TRY(out, status, start(self, &err));
    KILN_TRY(out, status, test(self, &before, &err));
    KILN_TRY(out, status, train(self, &err));
    KILN_TRY(out, status, test(self, &after, &err));
    KILN_TRY(out, status,
             kiln_onnx_model_write(self->model, self->options.tuned, self->inputs + 1,
                                   kiln_params_count(self->params), &err));
    printf("%zu weights trained; of %d held-out digits %d were right before, %d after; written to "
           "%s\n",
           kiln_params_count(self->params), HELD_OUT, before, after, self->options.tuned);
out:
    if (status != KILN_STATUS_OK) {
        fprintf(stderr, "finetune_onnx: %s\n", err.message);
    }
    if (self->log != NULL) {
        fclose(self->log);
    }
    kiln_optimiser_destroy(self->optimiser);
    kiln_params_destroy(self->params);
    kiln_onnx_session_destroy(self->session);
    kiln_device_release(self->device);
    kiln_onnx_model_close(self->model);
    kiln_context_destroy(self->context);
    free(self->inputs);
    free(self->pixels);
    free(self->labels);
    return status == KILN_STATUS_OK ? 0 : 1;
}

static const struct argp_option table[] = {
    {"device", 'd', "ADDRESS", 0, "where to train (default: the first OpenCL device)", 0},
    {"data", 'f', "FOLDER", 0, "of images.npy and labels.npy", 0},
    {"only", 'o', "PREFIX", 0, "train weights whose names begin so; may be repeated", 0},
    {"steps", 'n', "N", 0, "of the training (default: 100)", 0},
    {"batch", 'b', "N", 0, "images in a step (default: 64)", 0},
    {"images", 'i', "N", 0, "to learn from, at most 1437 (default: 512)", 0},
    {"rate", 'r', "RATE", 0, "of learning (default: 0.002)", 0},
    {"log", 'l', "FILE", 0, "a line of JSON for each step", 0},
    {0},
};

static int count_of(struct argp_state *state, const char *text, int most)
{
    char *end = NULL;
    long count = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || count < 1 || count > most) {
        argp_error(state, "\"%s\" is no number from 1 to %d", text, most);
    }
    return (int)count;
}

static void take_name(struct argp_state *state, options *o, const char *text)
{
    if (o->tuned != NULL) {
        argp_error(state, "two files are taken: the model, and the one to write");
    }
    *(o->model == NULL ? &o->model : &o->tuned) = text;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    options *o = state->input;
    switch (key) {
    case 'd':
        o->device = text;
        break;
    case 'f':
        o->folder = text;
        break;
    case 'l':
        o->log = text;
        break;
    case 'o':
        if (o->n_only == MOST_ONLY) {
            argp_error(state, "at most %d prefixes", MOST_ONLY);
        }
        o->only[o->n_only++] = text;
        break;
    case 'n':
        o->steps = count_of(state, text, 100000);
        break;
    case 'b':
        o->batch = count_of(state, text, 10000);
        break;
    case 'i':
        o->images = count_of(state, text, LEARNT);
        break;
    case 'r':
        o->rate = strtod(text, NULL);
        break;
    case ARGP_KEY_ARG:
        take_name(state, o, text);
        break;
    case ARGP_KEY_END:
        if (o->tuned == NULL || o->rate <= 0) {
            argp_error(state, "two files, and a rate above 0");
        }
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        table, parse, "MODEL TUNED", "Fine-tunes the digits model to bright digits.",
        NULL,  NULL,  NULL};
    trainer self = {.options = {.folder = "examples/train_digits",
                                .steps = 100,
                                .batch = 64,
                                .images = 512,
                                .rate = 0.002}};
    argp_parse(&argp, argc, argv, 0, NULL, &self.options);
    return run(&self);
}
