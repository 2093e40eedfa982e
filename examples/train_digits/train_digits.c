// SPDX-License-Identifier: MIT OR Apache-2.0
// Data-parallel training: a perceptron with one hidden layer learns handwritten digits on several
// devices at once, and under mpirun on the devices of all processes. Every device takes its share
// of each batch; a tape hands its gradients to a job that averages them while backward goes on;
// each device then makes the same step of AdamW. The losses do not depend on the number of devices,
// but for rounding.
#include <kiln/kiln_grad.h>
#include <kiln/kiln_train.h>

#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 8, PIXELS = 64, HIDDEN = 128, CLASSES = 10 };
enum { TRAINED = 1437, HELD_OUT = 360, BATCH = 96, STEPS = TRAINED / BATCH };
enum { W1, B1, W2, B2, PARAMS };

typedef struct options {
    int devices;
    int epochs;
    const char *device; ///< NULL: OpenCL devices
    const char *folder; ///< of images.npy and labels.npy
    const char *picture;
    bool quiet;
} options;

typedef struct model { ///< on one device
    kiln_device *device;
    kiln_params *params;
    kiln_optimiser *optimiser;
    kiln_tape *tape; ///< of the step that goes on
    kiln_tensor *loss;
} model;

typedef struct trainer {
    options options;
    kiln_context *context;
    kiln_gradsync *job; ///< of gradients
    kiln_gradsync *losses;
    uint32_t first; ///< of this process's devices among all
    uint32_t total;
    model models[MOST];
    unsigned char *images;
    unsigned char *labels;
    float *curve; ///< losses by epoch
} trainer;

static const char *const names[PARAMS] = {"w1", "b1", "w2", "b2"};
static const int64_t shapes[PARAMS][2] = {
    {PIXELS, HIDDEN}, {1, HIDDEN}, {HIDDEN, CLASSES}, {1, CLASSES}};

// ---- data ----

/// The elements of a .npy file of bytes.
static unsigned char *load(const char *folder, const char *name, size_t bytes, kiln_error *err)
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
    if (!ok) {
        free(data);
        data = NULL;
        (void)kiln_fail(err, NOT_FOUND, "%s is not there, or not what export_digits.py writes",
                        path);
    }
    return data;
}

static uint64_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/// Pixels in [0, 1] and rows with a one at the label, of `count` digits.
static kiln_status make_batch(const trainer *self, const model *on, const uint32_t *digits,
                              int64_t count, kiln_tensor **out_x, kiln_tensor **out_y,
                              kiln_error *err)
{
    static float x[TRAINED * PIXELS];
    static float y[TRAINED * CLASSES];
    const int64_t x_dims[] = {count, PIXELS};
    const int64_t y_dims[] = {count, CLASSES};
    memset(y, 0, (size_t)count * CLASSES * sizeof(*y));
    for (int64_t i = 0; i < count; i++) {
        for (int k = 0; k < PIXELS; k++) {
            x[i * PIXELS + k] = (float)self->images[digits[i] * PIXELS + (uint32_t)k] / 16;
        }
        y[i * CLASSES + self->labels[digits[i]]] = 1;
    }
    kiln_status status = kiln_tensor_create(on->device, KILN_DTYPE_F32, 2, x_dims, x, out_x, err);
    return status == KILN_STATUS_OK
               ? kiln_tensor_create(on->device, KILN_DTYPE_F32, 2, y_dims, y, out_y, err)
               : status;
}

// ---- the model ----

/// The same values on every device and in every process: they follow from seed and name.
static kiln_status init_model(model *on, const kiln_optimiser_options *adamw, kiln_error *err)
{
    kiln_init_options kaiming = KILN_INIT_OPTIONS_INIT;
    kiln_status status = KILN_STATUS_OK;
    kaiming.kind = KILN_INIT_KAIMING_UNIFORM;
    kaiming.gain = sqrt(2);
    KILN_TRY(out, status, kiln_params_create(on->device, /*seed=*/1, &on->params, err));
    for (int p = 0; p < PARAMS; p++) {
        KILN_TRY(out, status,
                 kiln_params_add(on->params, names[p], KILN_DTYPE_F32, 2, shapes[p],
                                 shapes[p][0] == 1 ? NULL : &kaiming, err));
    }
    KILN_TRY(out, status, kiln_optimiser_create(on->params, adamw, &on->optimiser, err));
out:
    return status;
}

static void end_pass(model *on)
{
    kiln_tape_destroy(on->tape);
    kiln_release(on->loss);
    on->tape = NULL;
    on->loss = NULL;
}

static void free_model(model *on)
{
    end_pass(on);
    kiln_optimiser_destroy(on->optimiser);
    kiln_params_destroy(on->params);
    kiln_device_release(on->device);
}

static kiln_tensor *param(const model *on, int p)
{
    return kiln_params_tensor(on->params, (size_t)p);
}

/// relu(x W1 + b1) and the logarithms of the classes' probabilities.
static kiln_status forward(const model *on, kiln_tensor *x, kiln_tensor **out_log, kiln_error *err)
{
    kiln_tensor *t[5] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_matmul(x, param(on, W1), false, false, &t[0], err));
    KILN_TRY(out, status, kiln_add(t[0], param(on, B1), &t[1], err));
    KILN_TRY(out, status, kiln_relu(t[1], &t[2], err));
    KILN_TRY(out, status, kiln_matmul(t[2], param(on, W2), false, false, &t[3], err));
    KILN_TRY(out, status, kiln_add(t[3], param(on, B2), &t[4], err));
    KILN_TRY(out, status, kiln_log_softmax(t[4], /*axis=*/1, out_log, err));
out:
    for (int i = 0; i < 5; i++) {
        kiln_release(t[i]);
    }
    return status;
}

/// The mean of -y log p over this device's share of the batch, while the tape watches.
static kiln_status find_loss(model *on, kiln_tensor *x, kiln_tensor *y, int64_t count,
                             kiln_error *err)
{
    const kiln_number share = kiln_f64(-1.0 / (double)count);
    kiln_tensor *log = NULL;
    kiln_tensor *t[2] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    for (int p = 0; p < PARAMS; p++) {
        KILN_TRY(out, status, kiln_tape_track(on->tape, param(on, p), err));
    }
    KILN_TRY(out, status, forward(on, x, &log, err));
    KILN_TRY(out, status, kiln_mul_scalar(y, share, &t[0], err));
    KILN_TRY(out, status, kiln_mul(t[0], log, &t[1], err));
    KILN_TRY(out, status, kiln_sum(t[1], NULL, 0, false, &on->loss, err));
out:
    kiln_release(log);
    kiln_release(t[0]);
    kiln_release(t[1]);
    return status;
}

// ---- training ----

static const kiln_param_id loss_id = 1;

/// All devices hear the mean of their losses.
static kiln_status share_loss(trainer *self, uint32_t member, kiln_error *err)
{
    kiln_tensor *loss = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_gradsync_register(self->losses, member, &loss_id, 1, err));
    KILN_TRY(out, status, kiln_detach(self->models[member].loss, &loss, err));
    kiln_tensor_set_param(loss, loss_id);
    KILN_TRY(out, status, kiln_gradsync_submit(self->losses, member, loss, err));
out:
    kiln_release(loss);
    return status;
}

/// A device's share of the batch. Nothing waits.
static kiln_status begin_step(trainer *self, uint32_t member, const uint32_t *batch,
                              kiln_error *err)
{
    model *on = &self->models[member];
    int64_t share = BATCH / self->total;
    const uint32_t *digits = batch + (int64_t)(self->first + member) * share;
    kiln_tensor *x = NULL;
    kiln_tensor *y = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, make_batch(self, on, digits, share, &x, &y, err));
    KILN_TRY(out, status, kiln_tape_create(on->device, &on->tape, err));
    KILN_TRY(out, status, kiln_tape_join(on->tape, self->job, member, err));
    KILN_TRY(out, status, find_loss(on, x, y, share, err));
    KILN_TRY(out, status, share_loss(self, member, err));
out:
    kiln_release(x);
    kiln_release(y);
    return status;
}

/// Gradients of all devices, averaged.
static kiln_status go_back(const trainer *self, kiln_error *err)
{
    kiln_tape *tapes[MOST];
    kiln_tensor *losses[MOST];
    for (int m = 0; m < self->options.devices; m++) {
        tapes[m] = self->models[m].tape;
        losses[m] = self->models[m].loss;
    }
    return kiln_backward_all(tapes, losses, (size_t)self->options.devices, err);
}

static kiln_status end_step(trainer *self, uint32_t member, float *out_loss, kiln_error *err)
{
    model *on = &self->models[member];
    kiln_tensor *gradients[PARAMS] = {NULL};
    kiln_tensor *loss = NULL;
    kiln_status status = KILN_STATUS_OK;
    for (int p = 0; p < PARAMS; p++) {
        KILN_TRY(out, status, kiln_gradient(on->tape, param(on, p), &gradients[p], err));
    }
    KILN_TRY(out, status, kiln_optimiser_step(on->optimiser, gradients, PARAMS, err));
    KILN_TRY(out, status, kiln_gradsync_sync(self->losses, member, err));
    KILN_TRY(out, status, kiln_gradsync_gradient(self->losses, member, loss_id, &loss, err));
    if (member == 0) {
        KILN_TRY(out, status, kiln_read(loss, out_loss, sizeof(*out_loss), err));
    }
out:
    for (int p = 0; p < PARAMS; p++) {
        kiln_release(gradients[p]);
    }
    kiln_release(loss);
    end_pass(on);
    return status;
}

static void show(const trainer *self, int epoch, float loss)
{
    enum { WIDTH = 40 };
    char bar[WIDTH + 1];
    int done = (epoch + 1) * WIDTH / self->options.epochs;
    if (self->options.quiet || self->first != 0 || !isatty(STDOUT_FILENO)) {
        return;
    }
    memset(bar, '.', WIDTH);
    memset(bar, '#', (size_t)done);
    bar[WIDTH] = '\0';
    printf("\repoch %d of %d [%s] loss %.4f", epoch + 1, self->options.epochs, bar, (double)loss);
    fflush(stdout);
}

static kiln_status train(trainer *self, kiln_error *err)
{
    uint32_t order[TRAINED];
    uint64_t state = 42;
    uint32_t members = (uint32_t)self->options.devices;
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < TRAINED; i++) {
        order[i] = i;
    }
    for (int epoch = 0; epoch < self->options.epochs; epoch++) {
        float sum = 0;
        for (uint32_t i = TRAINED - 1; i > 0; i--) { // the same order in every process
            uint32_t other = (uint32_t)(draw(&state) % (i + 1));
            uint32_t kept = order[i];
            order[i] = order[other];
            order[other] = kept;
        }
        for (int step = 0; step < STEPS; step++) {
            float loss = 0;
            for (uint32_t m = 0; m < members; m++) {
                KILN_TRY(out, status, begin_step(self, m, order + step * BATCH, err));
            }
            KILN_TRY(out, status, go_back(self, err));
            for (uint32_t m = 0; m < members; m++) {
                KILN_TRY(out, status, end_step(self, m, &loss, err));
            }
            sum += loss;
        }
        self->curve[epoch] = sum / STEPS;
        show(self, epoch, self->curve[epoch]);
    }
out:
    return status;
}

/// How many of the held-out digits the first device's model gets right.
static kiln_status test(trainer *self, int *out_right, kiln_error *err)
{
    uint32_t digits[HELD_OUT];
    int64_t guesses[HELD_OUT];
    kiln_tensor *x = NULL;
    kiln_tensor *y = NULL;
    kiln_tensor *log = NULL;
    kiln_tensor *guess = NULL;
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < HELD_OUT; i++) {
        digits[i] = TRAINED + i;
    }
    KILN_TRY(out, status, make_batch(self, &self->models[0], digits, HELD_OUT, &x, &y, err));
    KILN_TRY(out, status, forward(&self->models[0], x, &log, err));
    KILN_TRY(out, status, kiln_argmax(log, /*axis=*/1, false, false, &guess, err));
    KILN_TRY(out, status, kiln_read(guess, guesses, sizeof(guesses), err));
    *out_right = 0;
    for (int i = 0; i < HELD_OUT; i++) {
        *out_right += guesses[i] == self->labels[TRAINED + i];
    }
out:
    kiln_release(x);
    kiln_release(y);
    kiln_release(log);
    kiln_release(guess);
    return status;
}

/// The losses as a picture: SVG, a logarithmic axis from 0.001 to 10.
static kiln_status plot(const trainer *self, kiln_error *err)
{
    enum { WIDTH = 640, HEIGHT = 400, EDGE = 50 };
    FILE *file = fopen(self->options.picture, "w");
    if (file == NULL) {
        return kiln_fail(err, PERMISSION_DENIED, "%s cannot be written", self->options.picture);
    }
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            WIDTH, HEIGHT);
    for (int power = -3; power <= 1; power++) {
        double y = HEIGHT - EDGE - (power + 3) / 4.0 * (HEIGHT - 2 * EDGE);
        fprintf(file,
                "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/><text x=\"8\" y=\"%.1f\">%g</text>\n",
                EDGE, y, WIDTH - EDGE, y + 4, pow(10, power));
    }
    fprintf(file, "<text x=\"%d\" y=\"%d\">epoch, 1 to %d; loss on %u devices</text>\n", EDGE,
            HEIGHT - 16, self->options.epochs, self->total);
    fprintf(file, "<polyline fill=\"none\" stroke=\"#c33\" stroke-width=\"2\" points=\"");
    for (int i = 0; i < self->options.epochs; i++) {
        double loss = fmin(10, fmax(0.001, (double)self->curve[i]));
        fprintf(file, "%.1f,%.1f ",
                EDGE + (double)i / fmax(1, self->options.epochs - 1) * (WIDTH - 2 * EDGE),
                HEIGHT - EDGE - (log10(loss) + 3) / 4 * (HEIGHT - 2 * EDGE));
    }
    fprintf(file, "\"/>\n</svg>\n");
    return fclose(file) == 0 ? KILN_STATUS_OK
                             : kiln_fail(err, DATA_LOSS, "%s is not whole", self->options.picture);
}

// ---- set up ----

static uint32_t number_of(const char *first, const char *second)
{
    const char *text = getenv(first) != NULL ? getenv(first) : getenv(second);
    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

static bool is_under_mpi(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") != NULL || getenv("PMI_SIZE") != NULL;
}

static kiln_status open_models(trainer *self, kiln_error *err)
{
    uint32_t members = (uint32_t)self->options.devices;
    kiln_schedule schedule = KILN_SCHEDULE_INIT;
    kiln_optimiser_options adamw = KILN_OPTIMISER_OPTIONS_INIT;
    kiln_status status = kiln_context_create(NULL, &self->context, err);
    schedule.kind = KILN_SCHEDULE_LINEAR;
    schedule.steps = (uint64_t)(STEPS * self->options.epochs);
    adamw.rule = KILN_OPTIMISER_ADAMW;
    adamw.rate = 0.01;
    adamw.decay = 0.1;
    adamw.schedule = &schedule;
    self->total = members;
    if (is_under_mpi()) {
        self->total = members * number_of("OMPI_COMM_WORLD_SIZE", "PMI_SIZE");
        self->first = members * number_of("OMPI_COMM_WORLD_RANK", "PMI_RANK");
    }
    if (BATCH % self->total != 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "a batch of %d is not shared evenly by %u devices",
                         BATCH, self->total);
    }
    for (uint32_t m = 0; m < members && status == KILN_STATUS_OK; m++) {
        char address[64];
        snprintf(address, sizeof(address), "%s:%u",
                 self->options.device != NULL ? self->options.device : "opencl", m);
        status = kiln_device_open(self->context, address, &self->models[m].device, err);
        if (status == KILN_STATUS_OK) {
            status = init_model(&self->models[m], &adamw, err);
        }
    }
    return status;
}

static kiln_status start(trainer *self, kiln_error *err)
{
    kiln_device *devices[MOST] = {NULL};
    kiln_gradsync_options sync = KILN_GRADSYNC_OPTIONS_INIT;
    kiln_status status = open_models(self, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    self->curve = calloc((size_t)self->options.epochs, sizeof(*self->curve));
    self->images = load(self->options.folder, "images.npy", (TRAINED + HELD_OUT) * PIXELS, err);
    self->labels = self->images != NULL
                       ? load(self->options.folder, "labels.npy", TRAINED + HELD_OUT, err)
                       : NULL;
    if (self->labels == NULL || self->curve == NULL) {
        return KILN_STATUS_NOT_FOUND;
    }
    for (int m = 0; m < self->options.devices; m++) {
        devices[m] = self->models[m].device;
    }
    sync.over_mpi = is_under_mpi();
    status = kiln_gradsync_start(self->context, "gradients", devices, (size_t)self->options.devices,
                                 &sync, &self->job, err);
    return status == KILN_STATUS_OK
               ? kiln_gradsync_start(self->context, "losses", devices,
                                     (size_t)self->options.devices, &sync, &self->losses, err)
               : status;
}

static int run(trainer *self)
{
    kiln_error err = KILN_ERROR_INIT;
    int right = 0;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, start(self, &err));
    KILN_TRY(out, status, train(self, &err));
    KILN_TRY(out, status, test(self, &right, &err));
    if (self->options.picture != NULL && self->first == 0) {
        KILN_TRY(out, status, plot(self, &err));
    }
    if (self->first == 0) {
        kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
        kiln_device_stats_get(self->models[0].device, &stats);
        printf("%s%u devices: loss %.6f after 1 epoch, %.6f after %d; %.2f %% of %d held-out "
               "digits; %llu of %llu operations fused\n",
               self->options.quiet || !isatty(STDOUT_FILENO) ? "" : "\n", self->total,
               (double)self->curve[0], (double)self->curve[self->options.epochs - 1],
               self->options.epochs, 100.0 * right / HELD_OUT, HELD_OUT,
               (unsigned long long)stats.ops_fused, (unsigned long long)stats.ops_recorded);
    }
out:
    if (status != KILN_STATUS_OK) {
        fprintf(stderr, "train_digits: %s\n", err.message);
    }
    fflush(NULL);
    if (status != KILN_STATUS_OK && is_under_mpi()) {
        _exit(1); // MPI's own end would wait for a process that is lost
    }
    kiln_gradsync_release(self->job);
    kiln_gradsync_release(self->losses);
    for (int m = 0; m < MOST; m++) {
        free_model(&self->models[m]);
    }
    kiln_context_destroy(self->context);
    free(self->images);
    free(self->labels);
    free(self->curve);
    return status != KILN_STATUS_OK || right * 100 < 97 * HELD_OUT;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    options *self = state->input;
    switch (key) {
    case 'n':
        self->devices = (int)strtol(text, NULL, 10);
        break;
    case 'e':
        self->epochs = (int)strtol(text, NULL, 10);
        break;
    case 'd':
        self->device = text;
        break;
    case 'f':
        self->folder = text;
        break;
    case 'p':
        self->picture = text;
        break;
    case 'q':
        self->quiet = true;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    if (self->devices < 1 || self->devices > MOST || self->epochs < 1 || self->epochs > 10000) {
        argp_error(state, "1 to %d devices, 1 to 10000 epochs", MOST);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp_option table[] = {
        {"devices", 'n', "N", 0, "devices of each process (default: 2)", 0},
        {"epochs", 'e', "N", 0, "times through the training set (default: 40)", 0},
        {"device", 'd', "KIND", 0, "opencl or reference (default: opencl)", 0},
        {"data", 'f', "FOLDER", 0, "of images.npy and labels.npy", 0},
        {"picture", 'p', "FILE", 0, "where to draw the loss, as SVG", 0},
        {"quiet", 'q', NULL, 0, "no progress bar", 0},
        {0}};
    static const struct argp argp = {
        table, parse,
        NULL,  "Trains a perceptron on handwritten digits, on several devices at once.",
        NULL,  NULL,
        NULL};
    trainer self = {.options = {.devices = 2, .epochs = 40, .folder = "examples/train_digits"}};
    argp_parse(&argp, argc, argv, 0, NULL, &self.options);
    // PoCL shows as many devices as this says, and reads it once; elsewhere it means nothing.
    (void)setenv("POCL_DEVICES", "pthread pthread pthread pthread pthread pthread pthread pthread",
                 /*overwrite=*/0);
    return run(&self);
}
