// SPDX-License-Identifier: MIT OR Apache-2.0
// Trains a small language model of characters on a text, and lets it write some. Each step: a tape
// watches the forward pass, backward gives the gradients, AdamW makes the next parameters. Several
// devices, and under mpirun those of all processes, take a share of each batch. After Ctrl-C, or a
// kill, the same command goes on where it was: the losses are the same bit for bit.
#include "gpt.h"

#include <argp.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct options {
    const char *devices[GPT_MOST]; ///< addresses
    size_t n_devices;
    const char *text;
    const char *state; ///< where the training is kept
    const char *log;
    const char *picture;
    uint64_t steps;
    uint64_t save_every;
    int64_t batch;
    int64_t sample; ///< characters to write
    double temperature;
    double rate;
    kiln_dtype products; ///< in which they compute
    gpt_shape shape;
} options;

typedef struct trainer {
    options options;
    gpt_text text;
    gpt_team team;
    kiln_optimiser *optimiser; ///< of the first device, as that of all others
    FILE *log; ///< of the first process
    bool stopped; ///< before the last step
} trainer;

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/// A number of 64 random bits for each place in a training, so that nothing has to be remembered.
static uint64_t draw(uint64_t step, uint64_t i)
{
    uint64_t z = (step * 1000003 + i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// ---- a step ----

/// The member's share of a batch: pieces of the text at random places, and the same one character
/// further.
static kiln_status make_batch(const trainer *self, size_t member, uint64_t step,
                              kiln_tensor **out_tokens, kiln_tensor **out_targets, kiln_error *err)
{
    const int64_t context = self->options.shape.context;
    const int64_t rows = self->options.batch / self->team.total;
    const int64_t first = rows * (int64_t)(self->team.first + member);
    const int64_t dims[] = {rows, context};
    const int64_t column[] = {rows * context, 1};
    kiln_device *device = self->team.devices[member];
    size_t bytes = (size_t)context * sizeof(int32_t);
    int32_t *data = malloc(2 * (size_t)rows * bytes);
    if (data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a batch");
    }
    int32_t *targets = data + rows * context;
    for (int64_t row = 0; row < rows; row++) {
        size_t start = draw(step, (uint64_t)(first + row)) % (self->text.count - (size_t)context);
        memcpy(data + row * context, self->text.tokens + start, bytes);
        memcpy(targets + row * context, self->text.tokens + start + 1, bytes);
    }
    kiln_status status = kiln_tensor_create(device, KILN_DTYPE_I32, 2, dims, data, out_tokens, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_tensor_create(device, KILN_DTYPE_I32, 2, column, targets, out_targets, err);
    }
    free(data);
    return status;
}

/// The member's share: a tape that has seen how its loss came about.
static kiln_status go_forward(const trainer *self, size_t member, kiln_tape **out_tape,
                              kiln_tensor **out_loss, kiln_error *err)
{
    const gpt_team *team = &self->team;
    const kiln_params *params = team->params[member];
    kiln_tensor *tokens = NULL;
    kiln_tensor *targets = NULL;
    kiln_tensor *scores = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(
        out, status,
        make_batch(self, member, kiln_optimiser_steps(self->optimiser), &tokens, &targets, err));
    KILN_TRY(out, status, kiln_tape_create(team->devices[member], out_tape, err));
    KILN_TRY(out, status, kiln_tape_join(*out_tape, team->job, (uint32_t)member, err));
    for (size_t i = 0; i < kiln_params_count(params); i++) {
        KILN_TRY(out, status, kiln_tape_track(*out_tape, kiln_params_tensor(params, i), err));
    }
    KILN_TRY(out, status, gpt_forward(&self->options.shape, params, tokens, &scores, err));
    KILN_TRY(out, status, gpt_loss(scores, targets, out_loss, err));
out:
    kiln_release(tokens);
    kiln_release(targets);
    kiln_release(scores);
    return status;
}

/// The member's step by the gradients that all have.
static kiln_status go_on(trainer *self, size_t member, kiln_tape *tape, kiln_error *err)
{
    const kiln_params *params = self->team.params[member];
    size_t count = kiln_params_count(params);
    kiln_tensor **gradients = calloc(count, sizeof(*gradients));
    kiln_status status = KILN_STATUS_OK;
    if (gradients == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a step");
    }
    for (size_t i = 0; i < count; i++) {
        KILN_TRY(out, status,
                 kiln_gradient(tape, kiln_params_tensor(params, i), &gradients[i], err));
    }
    KILN_TRY(out, status,
             kiln_optimiser_step(self->team.optimisers[member], gradients, count, err));
out:
    for (size_t i = 0; i < count; i++) {
        kiln_release(gradients[i]);
    }
    free(gradients);
    return status;
}

/// Small gradients vanish in f16, those of a scaled loss do not.
static kiln_status scale_loss(const trainer *self, size_t member, kiln_tensor *loss,
                              kiln_tensor **out_loss, kiln_error *err)
{
    if (self->options.products != KILN_DTYPE_F16) {
        *out_loss = kiln_retain(loss);
        return KILN_STATUS_OK;
    }
    return kiln_optimiser_scale_loss(self->team.optimisers[member], loss, out_loss, err);
}

static kiln_status make_step(trainer *self, float *out_loss, bool *out_stop, kiln_error *err)
{
    gpt_team *team = &self->team;
    kiln_tape *tapes[GPT_MOST] = {NULL};
    kiln_tensor *losses[GPT_MOST] = {NULL};
    kiln_tensor *scaled[GPT_MOST] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    for (size_t m = 0; m < team->count; m++) {
        KILN_TRY(out, status, go_forward(self, m, &tapes[m], &losses[m], err));
        KILN_TRY(out, status, scale_loss(self, m, losses[m], &scaled[m], err));
    }
    KILN_TRY(out, status, gpt_team_tell(team, losses, interrupted, err));
    KILN_TRY(out, status, kiln_backward_all(tapes, scaled, team->count, err));
    for (size_t m = 0; m < team->count; m++) {
        KILN_TRY(out, status, go_on(self, m, tapes[m], err));
    }
    KILN_TRY(out, status, gpt_team_hear(team, out_loss, out_stop, err));
out:
    for (size_t m = 0; m < GPT_MOST; m++) {
        kiln_tape_destroy(tapes[m]);
        kiln_release(losses[m]);
        kiln_release(scaled[m]);
    }
    return status;
}

static void tell(const trainer *self, uint64_t step, float loss, double rate, double seconds,
                 double seconds_left)
{
    if (self->log != NULL) {
        gpt_log_step(self->log, step, (double)loss, rate, seconds);
        gpt_show(step, self->options.steps, (double)loss, seconds_left);
    }
}

/// All devices have the same: the first process writes it.
static kiln_status save(const trainer *self, kiln_error *err)
{
    return self->log != NULL ? kiln_optimiser_save(self->optimiser, self->options.state, err)
                             : KILN_STATUS_OK;
}

static kiln_status train(trainer *self, kiln_error *err)
{
    const options *o = &self->options;
    uint64_t first = kiln_optimiser_steps(self->optimiser);
    bool stop = false;
    double start = now();
    kiln_status status = KILN_STATUS_OK;
    while (kiln_optimiser_steps(self->optimiser) < o->steps && !stop) {
        float loss = 0;
        double rate = kiln_optimiser_rate(self->optimiser);
        double before = now();
        KILN_TRY(out, status, make_step(self, &loss, &stop, err));
        uint64_t step = kiln_optimiser_steps(self->optimiser);
        double each = (now() - start) / (double)(step - first);
        tell(self, step, loss, rate, now() - before, each * (double)(o->steps - step));
        if (step % o->save_every == 0) {
            KILN_TRY(out, status, save(self, err));
        }
    }
    if (kiln_optimiser_steps(self->optimiser) % o->save_every != 0) {
        KILN_TRY(out, status, save(self, err));
    }
    self->stopped = stop;
out:
    gpt_show_end();
    return status;
}

// ---- writing ----

/// One of the characters, by their scores.
static size_t choose(const float *scores, size_t count, double temperature, uint64_t random)
{
    double most = -INFINITY;
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        most = (double)scores[i] > most ? (double)scores[i] : most;
    }
    for (size_t i = 0; i < count; i++) {
        sum += exp(((double)scores[i] - most) / temperature);
    }
    double left = sum * (double)(random >> 11) * 0x1p-53;
    for (size_t i = 0; i < count; i++) {
        left -= exp(((double)scores[i] - most) / temperature);
        if (left < 0) {
            return i;
        }
    }
    return count - 1;
}

/// The next character after the last `seen` ones of `tokens`.
static kiln_status write_one(const trainer *self, const int32_t *tokens, int64_t seen,
                             float *scores_room, uint64_t random, int32_t *out_token,
                             kiln_error *err)
{
    const gpt_shape *shape = &self->options.shape;
    const int64_t dims[] = {1, shape->context};
    const int64_t starts[] = {seen - 1, 0};
    const int64_t ends[] = {seen, shape->vocabulary};
    kiln_tensor *input = NULL;
    kiln_tensor *scores = NULL;
    kiln_tensor *last = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(
        out, status,
        kiln_tensor_create(self->team.devices[0], KILN_DTYPE_I32, 2, dims, tokens, &input, err));
    KILN_TRY(out, status, gpt_forward(shape, self->team.params[0], input, &scores, err));
    KILN_TRY(out, status, kiln_slice(scores, starts, 2, ends, 2, NULL, 0, &last, err));
    KILN_TRY(out, status,
             kiln_read(last, scores_room, (size_t)shape->vocabulary * sizeof(float), err));
    *out_token =
        (int32_t)choose(scores_room, (size_t)shape->vocabulary, self->options.temperature, random);
out:
    kiln_release(input);
    kiln_release(scores);
    kiln_release(last);
    return status;
}

static kiln_status write_sample(const trainer *self, kiln_error *err)
{
    const gpt_shape *shape = &self->options.shape;
    float scores[256];
    int32_t *window = calloc((size_t)shape->context, sizeof(*window));
    int64_t seen = 1;
    kiln_status status = KILN_STATUS_OK;
    if (window == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to write");
    }
    window[0] = self->text.tokens[0];
    for (int64_t i = 0; i < self->options.sample && !interrupted; i++) {
        int32_t token = 0;
        KILN_TRY(out, status,
                 write_one(self, window, seen, scores, draw(UINT32_MAX, (uint64_t)i), &token, err));
        putchar(self->text.characters[token]);
        fflush(stdout);
        if (seen == shape->context) {
            memmove(window, window + 1, (size_t)(seen - 1) * sizeof(*window));
            seen--;
        }
        window[seen++] = token;
    }
    putchar('\n');
out:
    free(window);
    return status;
}

// ---- the program ----

static kiln_status check_text(const trainer *self, kiln_error *err)
{
    const options *o = &self->options;
    return self->text.count >= (size_t)o->shape.context + 2
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT,
                           "%s has %zu characters, too few for a context "
                           "of %lld",
                           o->text, self->text.count, (long long)o->shape.context);
}

static kiln_status open_team(trainer *self, kiln_error *err)
{
    const options *o = &self->options;
    kiln_schedule schedule = KILN_SCHEDULE_INIT;
    kiln_optimiser_options adamw = KILN_OPTIMISER_OPTIONS_INIT;
    schedule.kind = KILN_SCHEDULE_COSINE;
    schedule.steps = o->steps;
    schedule.warmup = o->steps / 20;
    schedule.least = 0.1;
    adamw.rule = KILN_OPTIMISER_ADAMW;
    adamw.rate = o->rate;
    adamw.beta2 = 0.99;
    adamw.decay = 0.1;
    adamw.clip = 1;
    adamw.schedule = &schedule;
    adamw.loss_scale = o->products == KILN_DTYPE_F16 ? 65536 : 0;
    kiln_status status =
        gpt_team_open(o->devices, o->n_devices, &o->shape, &adamw, &self->team, err);
    for (size_t m = 0; m < self->team.count && status == KILN_STATUS_OK; m++) {
        status = kiln_products_in(self->team.devices[m], o->products, NULL, err);
    }
    if (status == KILN_STATUS_OK && o->batch % self->team.total != 0) {
        status =
            kiln_fail(err, INVALID_ARGUMENT, "a batch of %lld is not shared evenly by %u devices",
                      (long long)o->batch, self->team.total);
    }
    return status;
}

static kiln_status start(trainer *self, kiln_error *err)
{
    options *o = &self->options;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, gpt_text_read(o->text, &self->text, err));
    KILN_TRY(out, status, check_text(self, err));
    o->shape.vocabulary = self->text.vocabulary;
    KILN_TRY(out, status, open_team(self, err));
    self->optimiser = self->team.optimisers[0];
    if (access(o->state, F_OK) == 0) {
        KILN_TRY(out, status, gpt_team_load(&self->team, o->state, err));
        fprintf(stderr, "going on after step %llu of %s\n",
                (unsigned long long)kiln_optimiser_steps(self->optimiser), o->state);
    }
    if (self->team.first == 0) {
        self->log = gpt_log_open(o->log, kiln_optimiser_steps(self->optimiser), err);
        status = self->log != NULL ? KILN_STATUS_OK : KILN_STATUS_UNAVAILABLE;
    }
out:
    return status;
}

/// What the first process does with the result.
static kiln_status finish(trainer *self, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    if (self->stopped) {
        fprintf(stderr, "step %llu is in %s; the same command goes on from there\n",
                (unsigned long long)kiln_optimiser_steps(self->optimiser), self->options.state);
    }
    if (self->options.picture != NULL) {
        KILN_TRY(out, status, gpt_draw(self->options.log, self->options.picture, err));
    }
    if (!self->stopped && self->options.sample > 0) {
        KILN_TRY(out, status, write_sample(self, err));
    }
out:
    return status;
}

static int run(trainer *self)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, start(self, &err));
    (void)signal(SIGINT, interrupt);
    KILN_TRY(out, status, train(self, &err));
    if (self->log != NULL) {
        KILN_TRY(out, status, finish(self, &err));
    }
out:
    if (status != KILN_STATUS_OK) {
        fprintf(stderr, "train_gpt: %s\n", err.message);
    }
    if (self->log != NULL) {
        fclose(self->log);
    }
    gpt_team_close(&self->team, status != KILN_STATUS_OK);
    free(self->text.tokens);
    return status == KILN_STATUS_OK && !self->stopped ? 0 : 1;
}

static const struct argp_option table[] = {
    {"device", 'd', "ADDRESS", 0, "where to train; may be given several times", 0},
    {"devices", 'm', "N", 0, "train on that many OpenCL devices (default: 1)", 0},
    {"text", 't', "PATH", 0, "a file, or a folder of .md files (default: docs)", 0},
    {"state", 'f', "FILE", 0, "where the training is kept (default: train_gpt.safetensors)", 0},
    {"log", 'l', "FILE", 0, "a line of JSON for each step (default: train_gpt.jsonl)", 0},
    {"picture", 'p', "FILE", 0, "where to draw the losses, as SVG", 0},
    {"steps", 'n', "N", 0, "of the whole training (default: 500)", 0},
    {"save-every", 's', "N", 0, "steps (default: 50)", 0},
    {"batch", 'b', "N", 0, "pieces of text in a step, of all devices (default: 16)", 0},
    {"context", 'c', "N", 0, "characters of a piece (default: 64)", 0},
    {"width", 'w', "N", 0, "of the model (default: 64)", 0},
    {"heads", 'a', "N", 0, "of attention (default: 4)", 0},
    {"layers", 'k', "N", 0, "of the model (default: 2)", 0},
    {"rate", 'r', "RATE", 0, "of learning (default: 0.003)", 0},
    {"products", 'q', "DTYPE", 0, "compute products in f16 or bf16 (default: f32)", 0},
    {"sample", 'x', "N", 0, "characters to write in the end (default: 200)", 0},
    {"temperature", 'e', "T", 0, "below 1: more of the likely ones (default: 0.8)", 0},
    {0},
};

static void set_count(struct argp_state *state, const char *text, int64_t least, int64_t *out)
{
    char *end = NULL;
    *out = strtoll(text, &end, 10);
    if (*text == '\0' || *end != '\0' || *out < least || *out > 1000000) {
        argp_error(state, "\"%s\" is no number from %lld to 1000000", text, (long long)least);
    }
}

static const char *const opencl[GPT_MOST] = {"opencl:0", "opencl:1", "opencl:2", "opencl:3",
                                             "opencl:4", "opencl:5", "opencl:6", "opencl:7"};

static void add_device(struct argp_state *state, options *o, const char *address)
{
    if (o->n_devices == GPT_MOST) {
        argp_error(state, "at most %d devices", GPT_MOST);
    } else {
        o->devices[o->n_devices++] = address;
    }
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    options *o = state->input;
    int64_t count = 0;
    const struct {
        int key;
        int64_t *place;
        int64_t least;
    } counts[] = {{'b', &o->batch, 1},       {'c', &o->shape.context, 1}, {'w', &o->shape.width, 1},
                  {'a', &o->shape.heads, 1}, {'k', &o->shape.layers, 1},  {'x', &o->sample, 0}};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        if (key == counts[i].key) {
            set_count(state, text, counts[i].least, counts[i].place);
            return 0;
        }
    }
    switch (key) {
    case 'd':
        add_device(state, o, text);
        break;
    case 'm':
        set_count(state, text, 1, &count);
        if (count > 1) { // PoCL's processor so many times; other platforms do not look at it
            (void)setenv("POCL_DEVICES",
                         "pthread pthread pthread pthread pthread pthread pthread pthread",
                         /*overwrite=*/0);
        }
        for (int64_t i = 0; i < count; i++) {
            add_device(state, o, i < GPT_MOST ? opencl[i] : NULL);
        }
        break;
    case 't':
        o->text = text;
        break;
    case 'f':
        o->state = text;
        break;
    case 'l':
        o->log = text;
        break;
    case 'p':
        o->picture = text;
        break;
    case 'n':
    case 's':
        set_count(state, text, 1, &count);
        *(key == 'n' ? &o->steps : &o->save_every) = (uint64_t)count;
        break;
    case 'q':
        o->products = strcmp(text, "f16") == 0    ? KILN_DTYPE_F16
                      : strcmp(text, "bf16") == 0 ? KILN_DTYPE_BF16
                                                  : KILN_DTYPE_F32;
        if (o->products == KILN_DTYPE_F32 && strcmp(text, "f32") != 0) {
            argp_error(state, "products compute in f16, bf16 or f32");
        }
        break;
    case 'r':
    case 'e':
        *(key == 'r' ? &o->rate : &o->temperature) = strtod(text, NULL);
        break;
    case ARGP_KEY_END:
        o->devices[0] = o->n_devices > 0 ? o->devices[0] : opencl[0];
        o->n_devices = o->n_devices > 0 ? o->n_devices : 1;
        if (o->shape.width % o->shape.heads != 0 || o->rate <= 0 || o->temperature <= 0) {
            argp_error(state, "heads divide the width; rate and temperature are above 0");
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
        table, parse, NULL, "Trains a small language model of characters.", NULL, NULL, NULL};
    trainer self = {.options = {.text = "docs",
                                .state = "train_gpt.safetensors",
                                .log = "train_gpt.jsonl",
                                .steps = 500,
                                .save_every = 50,
                                .batch = 16,
                                .sample = 200,
                                .temperature = 0.8,
                                .rate = 0.003,
                                .products = KILN_DTYPE_F32,
                                .shape = {.context = 64, .width = 64, .heads = 4, .layers = 2}}};
    argp_parse(&argp, argc, argv, 0, NULL, &self.options);
    return run(&self);
}
