// SPDX-License-Identifier: MIT OR Apache-2.0
// Whole models, written by models/write_models.py, beside ONNX Runtime, OpenVINO, PyTorch and
// tinygrad where an interpreter has them (bench_models_peers.py). Each side is a process of its own
// that runs when it is told, `kiln run --turns` for Kiln: the sides take turns, and before each the
// others must have gone to sleep. All have as many threads as the device has units. Kiln has two
// lives: in the first it finds its caches as they are and may compare candidates; all figures but
// one are of the second.

#include "bench.h"
#include "model_side.h"

#include <stdlib.h>
#include <string.h>

enum { MODEL_ROUNDS = 9, MAX_MODEL_ROUNDS = 51, MOST_PEERS = 4, SETTLING_TURNS = 40 };

static const double allowed = 1e-3, allowed_quantized = 0.1; // of the largest value of the result

typedef struct model_case {
    const char *name;
    bool small; ///< measured when nobody says which
    double bar; ///< to ONNX Runtime
    double bar_memory;
} model_case;

static const model_case model_cases[] = {
    {"resnet18", true, 0.85, 0},
    {"resnet18_b8", false, 0.85, 0},
    {"resnet18_bn", false, 0.85, 0},
    {"resnet18_qdq", true, 0.6, 0},
    {"resnet50", false, 0.85, 1},
    {"resnet50_b8", false, 0.85, 0},
    {"resnext50", false, 0, 0},
    {"mobilenet_v2", true, 0.8, 0},
    {"mobilenet_v2_b8", false, 0, 0},
    {"mobilenet_v3_large", false, 0.8, 0},
    {"efficientnet_b0", false, 0.8, 0},
    {"bert_base", true, 0.9, 1},
    {"bert_base_b8", false, 0.9, 0},
    {"vit_b_16", false, 0.9, 0},
    {"gpt2_prefill", false, 0.9, 0},
    {"gpt2_decode", false, 0.9, 0},
    {"lstm", true, 0.7, 0},
    {"lstm_b8", false, 0, 0},
    {"gru", true, 0.7, 0},
};
enum { MODEL_CASES = sizeof(model_cases) / sizeof(model_cases[0]) };

const char *bench_models_case(size_t index)
{
    return index < MODEL_CASES ? model_cases[index].name : NULL;
}

typedef struct timed_side {
    model_side side;
    double median_ms[MAX_MODEL_ROUNDS];
    double least_ms[MAX_MODEL_ROUNDS];
} timed_side;

typedef struct measured_model { ///< one model
    const bench_options *options;
    const model_case *model;
    char folder[MODEL_PATH_ROOM];
    char device[160];
    uint32_t threads; ///< 0: the device is not this processor, without peers
    uint32_t rounds;
    double first_life_ms; ///< Kiln's first result in its first life
    double launches, operations; ///< of one run
    timed_side kiln;
    timed_side peers[MODEL_PEERS];
    size_t n_peers;
} measured_model;

// ---- turns ----

/// Until two turns in a row compared no candidates.
static kiln_status settle(measured_model *run, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    int quiet = 0;
    for (int i = 0; i < SETTLING_TURNS && quiet < 2 && status == KILN_STATUS_OK; i++) {
        double answer[MODEL_NUMBERS] = {0};
        status = model_side_turn(&run->kiln.side, answer, err);
        quiet = answer[MODEL_MEASURING] > 0 ? 0 : quiet + 1;
        run->launches = answer[MODEL_LAUNCHES];
        run->operations = answer[MODEL_OPERATIONS];
    }
    if (status == KILN_STATUS_OK && quiet < 2) {
        fprintf(stderr, "%s: candidates are still compared after %d turns\n", run->model->name,
                SETTLING_TURNS);
    }
    return status;
}

static kiln_status take_rounds(measured_model *run, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t round = 0; round < run->rounds; round++) {
        for (size_t i = 0; i <= run->n_peers; i++) {
            timed_side *s = i == 0 ? &run->kiln : &run->peers[i - 1];
            double answer[MODEL_NUMBERS] = {0};
            bench_speaker_rest(&run->kiln.side.speaker);
            for (size_t k = 0; k < run->n_peers; k++) {
                bench_speaker_rest(&run->peers[k].side.speaker);
            }
            KILN_TRY(out, status, model_side_turn(&s->side, answer, err));
            s->median_ms[round] = answer[MODEL_MEDIAN_MS];
            s->least_ms[round] = answer[MODEL_LEAST_MS];
        }
    }
out:
    return status;
}

// ---- how far results are apart ----

typedef struct model_results { ///< files in a temporary folder
    char root[32];
    char ours[64];
    char theirs[64];
    char exact[64]; ///< PyTorch's, in 64 bits
    double error; ///< of ours to that; 0: PyTorch is not there
} model_results;

static kiln_status write_own(measured_model *run, model_results *r, kiln_error *err)
{
    snprintf(r->root, sizeof(r->root), "/tmp/kiln-bench-XXXXXX");
    if (mkdtemp(r->root) == NULL) {
        r->root[0] = '\0';
        return kiln_fail(err, UNAVAILABLE, "no temporary folder");
    }
    snprintf(r->ours, sizeof(r->ours), "%s/kiln.npy", r->root);
    snprintf(r->theirs, sizeof(r->theirs), "%s/peer.npy", r->root);
    snprintf(r->exact, sizeof(r->exact), "%s/exact.npy", r->root);
    kiln_status status = model_side_write(&run->kiln.side, r->ours, err);
    if (status == KILN_STATUS_OK && run->n_peers > 0) {
        (void)model_script_ask(run->options, "exact", run->folder, r->exact);
        r->error = model_script_ask(run->options, "apart", r->ours, r->exact);
    }
    return status;
}

/// Fails when Kiln's result is not the peer's. `*out_error` is the peer's error; 0: not known.
static kiln_status compare_sides(const measured_model *run, model_side *peer,
                                 const model_results *r, double *out_error, kiln_error *err)
{
    bool quantized = strstr(run->model->name, "qdq") != NULL;
    kiln_status status = model_side_write(peer, r->theirs, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    double apart = model_script_ask(run->options, "apart", r->ours, r->theirs);
    if (!(apart <= (quantized ? allowed_quantized : allowed))) {
        return kiln_fail(err, INTERNAL, "%s: the result differs from %s's by %g of its largest",
                         run->model->name, peer->peer->name, apart);
    }
    *out_error = r->error > 0 ? model_script_ask(run->options, "apart", r->theirs, r->exact) : 0;
    return KILN_STATUS_OK;
}

// ---- telling ----

typedef struct figure {
    const char *what; ///< "" for the repeated run
    const char *unit;
    const char *against;
    const char *version;
    double value;
    double ratio;
    double bar;
} figure;

static void tell(const measured_model *run, const figure *f)
{
    char name[96];
    snprintf(name, sizeof(name), "%.40s%s%.40s", run->model->name, f->what[0] != '\0' ? " " : "",
             f->what);
    bench_report(run->options, &(bench_result){.name = name,
                                               .value = f->value,
                                               .unit = f->unit,
                                               .against = f->against,
                                               .ratio = f->ratio,
                                               .bar = f->bar,
                                               .peer_version = f->version,
                                               .device = run->device,
                                               .samples = run->rounds});
}

/// Leaves the rounds in their order, for others are paired with them.
static double quantile_of(const double *rounds, uint32_t count, double share)
{
    double sorted[MAX_MODEL_ROUNDS];
    memcpy(sorted, rounds, count * sizeof(*rounds));
    return kiln_quantile(sorted, count, share);
}

/// Kiln's own figures, and beside them those of a peer, or of none.
static void report_side(measured_model *run, timed_side *peer)
{
    enum { MIB = 1 << 20 };
    timed_side *ours = &run->kiln;
    double ratios[MAX_MODEL_ROUNDS];
    bool runtime = peer != NULL && peer->side.peer == model_peer_at(0);
    const char *name = peer != NULL ? peer->side.peer->name : "no peer";
    const char *version = peer != NULL ? peer->side.version : "-";
    double memory = (double)bench_speaker_peak(&ours->side.speaker);
    double least = quantile_of(ours->least_ms, run->rounds, 0);
    for (uint32_t i = 0; i < run->rounds; i++) {
        ratios[i] = peer != NULL ? peer->median_ms[i] / ours->median_ms[i] : 0;
    }
    const figure figures[] = {
        {"", "ms", name, version, quantile_of(ours->median_ms, run->rounds, 0.5),
         quantile_of(ratios, run->rounds, 0.5), runtime ? run->model->bar : 0},
        {"least", "ms", name, version, least,
         peer != NULL ? quantile_of(peer->least_ms, run->rounds, 0) / least : 0, 0},
        {"first", "ms", name, version, ours->side.first_ms,
         peer != NULL ? peer->side.first_ms / ours->side.first_ms : 0, 0},
        {"memory", "MiB", name, version, memory / MIB,
         peer != NULL ? (double)bench_speaker_peak(&peer->side.speaker) / memory : 0,
         runtime ? run->model->bar_memory : 0},
    };
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        tell(run, &figures[i]);
    }
}

static kiln_status report_errors(measured_model *run, kiln_error *err)
{
    model_results r = {.error = 0};
    kiln_status status = write_own(run, &r, err);
    for (size_t i = 0; i < run->n_peers && status == KILN_STATUS_OK; i++) {
        double theirs = 0;
        status = compare_sides(run, &run->peers[i].side, &r, &theirs, err);
        if (status == KILN_STATUS_OK && theirs > 0) {
            const model_peer *peer = run->peers[i].side.peer;
            bool runtime = peer == model_peer_at(0);
            tell(run, &(figure){"error", "1e-6", peer->name,
                                "of the largest value, to PyTorch in 64 bits", r.error * 1e6,
                                theirs / r.error, runtime ? 0.5 : 0});
        }
    }
    if (r.root[0] != '\0') {
        bench_remove_tree(r.root);
    }
    return status;
}

static kiln_status report_model(measured_model *run, kiln_error *err)
{
    for (size_t i = 0; i < run->n_peers || i == 0; i++) {
        report_side(run, run->n_peers > 0 ? &run->peers[i] : NULL);
    }
    tell(run, &(figure){"first, first life", "ms", "its second life", "-", run->first_life_ms,
                        run->kiln.side.first_ms / run->first_life_ms, 0});
    tell(run, &(figure){"launches", "a run", "operations", "-", run->launches,
                        run->operations / (run->launches > 0 ? run->launches : 1), 0});
    return report_errors(run, err);
}

// ---- one model, all models ----

static void open_peers(measured_model *run)
{
    const model_peer *peer = NULL;
    for (size_t i = 0; run->threads > 0 && (peer = model_peer_at(i)) != NULL; i++) {
        bench_speaker_rest(&run->kiln.side.speaker);
        if (model_side_open_peer(run->options, run->folder, peer, run->threads,
                                 &run->peers[run->n_peers].side)) {
            run->n_peers++;
        } else {
            fprintf(stderr, "%s: %s is not there, or refuses the model: left out\n",
                    run->model->name, peer->name);
        }
    }
}

static kiln_status measure_model(measured_model *run, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, model_side_open_kiln(run->options, run->folder, &run->kiln.side, err));
    run->first_life_ms = run->kiln.side.first_ms;
    KILN_TRY(out, status, settle(run, err));
    model_side_close(&run->kiln.side);
    KILN_TRY(out, status, model_side_open_kiln(run->options, run->folder, &run->kiln.side, err));
    KILN_TRY(out, status, settle(run, err));
    open_peers(run);
    KILN_TRY(out, status, take_rounds(run, err));
    KILN_TRY(out, status, report_model(run, err));
out:
    model_side_close(&run->kiln.side);
    for (size_t i = 0; i < run->n_peers; i++) {
        model_side_close(&run->peers[i].side);
    }
    return status;
}

/// Name and threads of the device; the folder of models when nobody named one.
static kiln_status look_around(const bench_options *options, measured_model *out_run,
                               kiln_error *err)
{
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_status status = KILN_STATUS_OK;
    char cache[MODEL_PATH_ROOM - 16];
    KILN_TRY(out, status, kiln_context_create(NULL, &context, err));
    KILN_TRY(out, status, kiln_device_open(context, options->device, &device, err));
    const kiln_device_info *info = kiln_device_info_of(device);
    snprintf(out_run->device, sizeof(out_run->device), "%.150s", info->name);
    out_run->threads = info->type == KILN_DEVICE_CPU ? info->compute_units : 0;
    if (options->folder != NULL) {
        snprintf(out_run->folder, sizeof(out_run->folder), "%.1000s", options->folder);
    } else {
        KILN_TRY(out, status, kiln_cache_dir(kiln_context_env(context), cache, sizeof(cache), err));
        snprintf(out_run->folder, sizeof(out_run->folder), "%.1000s/models", cache);
    }
out:
    kiln_device_release(device);
    kiln_context_destroy(context);
    return status;
}

static kiln_status bench_model(const measured_model *around, const model_case *model,
                               kiln_error *err)
{
    kiln_status status = model_script_write(around->options, around->folder, model->name, err);
    measured_model *run = status == KILN_STATUS_OK ? calloc(1, sizeof(*run)) : NULL;
    if (status == KILN_STATUS_OK && run == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a benchmark");
    }
    if (status == KILN_STATUS_OK) {
        *run = *around;
        run->model = model;
        snprintf(run->folder, sizeof(run->folder), "%.1500s/%.60s", around->folder, model->name);
        status = measure_model(run, err);
    }
    free(run);
    return status;
}

kiln_status bench_models(const bench_options *options, kiln_error *err)
{
    uint32_t samples = options->samples > 0 ? options->samples : MODEL_ROUNDS;
    bool chosen = options->n_names > 0 || options->only != NULL;
    measured_model *around = calloc(1, sizeof(*around));
    kiln_status status = KILN_STATUS_OK;
    if (around == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a benchmark");
    }
    around->options = options;
    around->rounds = samples > MAX_MODEL_ROUNDS ? MAX_MODEL_ROUNDS : samples;
    KILN_TRY(out, status, look_around(options, around, err));
    if (around->threads == 0) {
        fprintf(stderr, "peers run on other cores than this device: left out\n");
    }
    bench_header(options);
    for (size_t i = 0; i < MODEL_CASES; i++) {
        if (chosen ? bench_wanted(options, model_cases[i].name) : model_cases[i].small) {
            KILN_TRY(out, status, bench_model(around, &model_cases[i], err));
        }
    }
out:
    free(around);
    return status;
}
