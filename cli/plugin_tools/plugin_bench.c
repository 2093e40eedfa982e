// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln plugin bench FILE`: a stream or a model whole, and each of its blocks by every fuser alone
// and by its unfused operations, in turns. Blocks are told by class and size: what operators they
// have, how many bytes must move. Equal blocks are measured once.

#include "plugin_cli.h"
#include "plugin_job.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BLOCKS = 256, MOST_FUSERS = 24, CLASSES = KILN_CLASS_CUSTOM + 1 };

typedef struct bench_options {
    cli_device_options device;
    const char *path;
    const char *json;
    unsigned repeat;
} bench_options;

typedef struct figures { ///< nanoseconds
    double least, median, most;
} figures;

typedef struct contender { ///< a fuser, or the unfused operations, with one block
    figures ns;
    double predicted_ns; ///< 0: not for the whole block
    bool ran;
} contender;

typedef struct block {
    kiln_string stream; ///< as a replayable file
    uint32_t count; ///< of such blocks
    uint32_t classes; ///< bit for each kiln_op_class
    uint32_t n_ops;
    double bytes;
    double baseline_ns; ///< predicted for the unfused operations
    const char *winner;
    contender by[MOST_FUSERS + 1]; ///< the first: unfused operations
} block;

typedef struct bench {
    const bench_options *options;
    plugin_job job; ///< of the whole
    kiln_explanation e;
    kiln_context *contexts[MOST_FUSERS + 1];
    uint32_t n_fusers;
    block blocks[MOST_BLOCKS];
    uint32_t n_blocks;
    uint32_t *places; ///< of the explanation's operations in the file; NULL: they are others
    figures whole[2]; ///< unfused operations, fused
    kiln_graph_info info;
    double bytes_per_s;
} bench;

// ---- times ----

static figures figures_of(double *ns, uint32_t n)
{
    double median = kiln_quantile(ns, n, 0.5); // and they are in order
    return (figures){ns[0], median, ns[n - 1]};
}

/// Each graph in turn; the first round compiles and does not count.
static kiln_status time_graphs(const bench *b, plugin_job *const *jobs, kiln_graph *const *graphs,
                               uint32_t n, figures *out, kiln_error *err)
{
    uint32_t rounds = b->options->repeat;
    double *ns = calloc((size_t)rounds * n + 1, sizeof(*ns));
    kiln_status status =
        ns == NULL ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for times") : KILN_STATUS_OK;
    for (uint32_t r = 0; r <= rounds && status == KILN_STATUS_OK; r++) {
        for (uint32_t i = 0; i < n && status == KILN_STATUS_OK; i++) {
            uint64_t now = 0;
            if (graphs[i] != NULL) {
                status = plugin_job_run(jobs[i], graphs[i], &now, err);
            }
            if (r > 0) {
                ns[(size_t)i * rounds + r - 1] = (double)now;
            }
        }
    }
    for (uint32_t i = 0; i < n && status == KILN_STATUS_OK; i++) {
        out[i] = figures_of(&ns[(size_t)i * rounds], rounds);
    }
    free(ns);
    return status;
}

// ---- blocks as streams of their own ----

typedef struct cutting {
    const bench *b;
    uint64_t *numbers; ///< by number in the whole stream: that in the block's; 0: not seen
    kiln_tensor_desc inputs[KILN_MAX_INPUTS];
    kiln_replay_input memory[KILN_MAX_INPUTS];
    size_t n_inputs;
    uint64_t last;
    kiln_ir_graph *graph;
    bool gone[4096];
    bool made[4096];
} cutting;

static void describe_input(cutting *c, const kiln_tensor_desc *desc, uint64_t number)
{
    size_t n = 0;
    const kiln_tensor_desc *all = kiln_ir_graph_inputs(c->b->job.replay->graph, &n);
    c->inputs[c->n_inputs] = *desc;
    c->inputs[c->n_inputs].id = number;
    c->memory[c->n_inputs] = (kiln_replay_input){0};
    for (size_t i = 0; i < n; i++) {
        if (all[i].id == desc->id) {
            c->inputs[c->n_inputs].flags = all[i].flags & KILN_TENSOR_CONST;
            c->memory[c->n_inputs].data = c->b->job.replay->inputs[i].data;
            c->memory[c->n_inputs].bytes = c->b->job.replay->inputs[i].bytes;
        }
    }
    c->n_inputs++;
}

static kiln_status cut_op(cutting *c, const kiln_op_record *given, kiln_error *err)
{
    kiln_op_record op = *given;
    kiln_tensor_desc descs[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS];
    for (uint32_t i = 0; i < (uint32_t)op.n_inputs + op.n_outputs; i++) {
        bool is_input = i < op.n_inputs;
        descs[i] = is_input ? given->inputs[i] : given->outputs[i - op.n_inputs];
        uint64_t *number = &c->numbers[descs[i].id];
        if (*number == 0 && op.op == KILN_OP_DROP) {
            return KILN_STATUS_OK;
        }
        if (*number == 0) {
            *number = ++c->last;
            if (c->last >= sizeof(c->made) || c->n_inputs == KILN_MAX_INPUTS) {
                return kiln_fail(err, UNIMPLEMENTED, "a block has too many tensors to be timed");
            }
            if (is_input) {
                describe_input(c, &descs[i], *number);
            }
            c->made[*number] = !is_input;
        }
        c->gone[*number] = c->gone[*number] || op.op == KILN_OP_DROP;
        descs[i].id = *number;
        descs[i].flags &= KILN_TENSOR_CONST;
    }
    op.inputs = descs;
    op.outputs = descs + op.n_inputs;
    return kiln_ir_graph_append(c->graph, &op, err);
}

static kiln_status finish_cut(cutting *c, kiln_string *out, kiln_error *err)
{
    static uint64_t outputs[4096];
    size_t n = 0;
    kiln_replay *replay = NULL;
    for (uint64_t i = 1; i <= c->last; i++) {
        if (c->made[i] && !c->gone[i]) {
            outputs[n++] = i;
        }
    }
    kiln_status status = kiln_ir_graph_set_io(c->graph, c->inputs, c->n_inputs, outputs, n, err);
    status = status == KILN_STATUS_OK ? kiln_ir_graph_verify(c->graph, err) : status;
    if (status != KILN_STATUS_OK) {
        kiln_ir_graph_destroy(c->graph);
        return status;
    }
    status = kiln_replay_create(kiln_context_env(c->b->job.context), c->graph, c->memory, NULL,
                                &replay, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_replay_encode(replay, out, err);
    }
    kiln_replay_destroy(replay);
    return status;
}

static kiln_status cut_block(const bench *b, const kiln_explained_block *from, kiln_string *out,
                             kiln_error *err)
{
    static cutting c;
    const kiln_env *env = kiln_context_env(b->job.context);
    memset(&c, 0, sizeof(c));
    c.b = b;
    c.numbers = calloc(1u << 20, sizeof(*c.numbers));
    kiln_status status = c.numbers != NULL
                             ? kiln_ir_graph_create(env, &c.graph, err)
                             : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a block");
    for (uint32_t i = 0; i < from->n_ops && status == KILN_STATUS_OK; i++) {
        status = cut_op(&c, kiln_ir_graph_op(b->job.replay->graph, b->places[from->ops[i]]), err);
        if (status != KILN_STATUS_OK) {
            kiln_ir_graph_destroy(c.graph);
        }
    }
    if (status == KILN_STATUS_OK) {
        status = finish_cut(&c, out, err);
    }
    free(c.numbers);
    return status;
}

static bool same_stream(const kiln_string *a, const kiln_string *b)
{
    return a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
}

/// Where the explanation's operations are in the file: a drop of an input is not recorded, and a
/// composite is recorded as simpler ones, which have no place.
static kiln_status find_places(bench *b, kiln_error *err)
{
    size_t n = 0, n_inputs = 0, count = kiln_ir_graph_op_count(b->job.replay->graph);
    const kiln_tensor_desc *inputs = kiln_ir_graph_inputs(b->job.replay->graph, &n_inputs);
    b->places = calloc(count + 1, sizeof(*b->places));
    if (b->places == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for blocks");
    }
    for (size_t i = 0; i < count; i++) {
        const kiln_op_record *op = kiln_ir_graph_op(b->job.replay->graph, i);
        bool drops_input = false;
        for (size_t k = 0; op->op == KILN_OP_DROP && k < n_inputs; k++) {
            drops_input = drops_input || inputs[k].id == op->inputs[0].id;
        }
        if (!drops_input && n < b->e.n_ops &&
            strcmp(kiln_op_info_of(op->op)->name, b->e.ops[n].name) == 0) {
            b->places[n++] = (uint32_t)i;
        }
    }
    if (n < b->e.n_ops) {
        free(b->places);
        b->places = NULL;
    }
    return KILN_STATUS_OK;
}

static kiln_status take_block(bench *b, const kiln_explained_block *from, kiln_error *err)
{
    block *made = &b->blocks[b->n_blocks];
    kiln_string_init(&made->stream, kiln_context_env(b->job.context));
    kiln_status status = cut_block(b, from, &made->stream, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    for (uint32_t i = 0; i < b->n_blocks; i++) {
        if (same_stream(&b->blocks[i].stream, &made->stream)) {
            b->blocks[i].count++;
            kiln_string_fini(&made->stream);
            return KILN_STATUS_OK;
        }
    }
    for (uint32_t i = 0; i < from->n_ops; i++) {
        kiln_op op = kiln_ir_graph_op(b->job.replay->graph, b->places[from->ops[i]])->op;
        made->classes |= op == KILN_OP_DROP ? 0 : 1u << kiln_op_info_of(op)->cls;
        made->n_ops += op != KILN_OP_DROP;
    }
    made->count = 1;
    made->winner = from->fuser;
    made->baseline_ns = from->baseline_ns;
    b->n_blocks++;
    return KILN_STATUS_OK;
}

// ---- one block ----

/// A context in which this fuser is the only one; NULL: none at all.
static kiln_status open_alone(const bench *b, const char *fuser, kiln_context **out,
                              kiln_error *err)
{
    char plugins[1200] = "plugins=off";
    cli_device_options options = b->options->device;
    if (fuser != NULL) {
        size_t id = strcspn(fuser, "/");
        size_t at = (size_t)snprintf(plugins, sizeof(plugins), "plugins=%.*s", (int)id, fuser);
        for (uint32_t i = 0; i < b->e.n_fusers && at < sizeof(plugins); i++) {
            const char *other = b->e.fusers[i];
            if (strncmp(other, fuser, id + 1) == 0 && strcmp(other, fuser) != 0) {
                at += (size_t)snprintf(plugins + at, sizeof(plugins) - at, ",-%s", other);
            }
        }
    }
    if (options.n_settings + 2 > sizeof(options.settings) / sizeof(options.settings[0])) {
        return kiln_fail(err, INVALID_ARGUMENT, "too many --set");
    }
    options.settings[options.n_settings++] = plugins;
    options.settings[options.n_settings++] = "tune=off";
    options.n_plugins = 0;
    kiln_status status = cli_open_context(&options, out, err);
    for (size_t i = 0; i < b->options->device.n_plugins && status == KILN_STATUS_OK; i++) {
        status = kiln_plugin_load(*out, b->options->device.plugins[i], err);
        status = status == KILN_STATUS_FAILED_PRECONDITION ? KILN_STATUS_OK : status; // not its own
    }
    return status;
}

static kiln_status open_contender(const bench *b, uint32_t at, block *on, plugin_job *job,
                                  kiln_graph **out_graph, kiln_error *err)
{
    kiln_replay *replay = NULL;
    kiln_graph_info info = KILN_GRAPH_INFO_INIT;
    kiln_explanation e;
    const kiln_env *env = kiln_context_env(b->contexts[at]);
    kiln_status status = kiln_replay_decode(env, on->stream.text, on->stream.length, &replay, err);
    if (status == KILN_STATUS_OK) {
        status = plugin_job_take(&b->options->device, b->contexts[at], replay, job, err);
        job->context = NULL; // the bench's
    }
    if (status == KILN_STATUS_OK) {
        status = plugin_job_capture(job, out_graph, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    on->bytes = plugin_job_bytes(job);
    kiln_graph_info_get(*out_graph, &info);
    on->by[at].ran = at == 0 || info.ops_fused > 0;
    on->by[at].predicted_ns = at == 0 ? on->baseline_ns : 0;
    if (at > 0 && info.blocks == 1 && info.ops_fused == info.ops &&
        kiln_graph_explained(*out_graph, &e, NULL) == KILN_STATUS_OK) {
        on->by[at].predicted_ns = e.n_blocks == 1 ? e.blocks[0].predicted_ns : 0;
        kiln_graph_explained_fini(&e);
    }
    return KILN_STATUS_OK;
}

static kiln_status time_block(bench *b, block *on, kiln_error *err)
{
    plugin_job jobs[MOST_FUSERS + 1] = {{0}};
    plugin_job *pointers[MOST_FUSERS + 1] = {NULL};
    kiln_graph *graphs[MOST_FUSERS + 1] = {NULL}, *running[MOST_FUSERS + 1] = {NULL};
    figures found[MOST_FUSERS + 1] = {{0}};
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i <= b->n_fusers && status == KILN_STATUS_OK; i++) {
        status = open_contender(b, i, on, &jobs[i], &graphs[i], err);
        pointers[i] = &jobs[i];
        running[i] = on->by[i].ran ? graphs[i] : NULL;
    }
    if (status == KILN_STATUS_OK) {
        status = time_graphs(b, pointers, running, b->n_fusers + 1, found, err);
    }
    for (uint32_t i = 0; i <= b->n_fusers; i++) {
        on->by[i].ns = found[i];
        kiln_graph_destroy(graphs[i]);
        plugin_job_close(&jobs[i]);
    }
    return status;
}

// ---- the whole ----

static kiln_status time_whole(bench *b, kiln_error *err)
{
    kiln_graph *graphs[2] = {NULL, NULL}; // unfused operations, fused
    plugin_job *jobs[2] = {&b->job, &b->job};
    b->info = (kiln_graph_info)KILN_GRAPH_INFO_INIT;
    kiln_status status = plugin_job_capture(&b->job, &graphs[1], err);
    if (status == KILN_STATUS_OK) {
        kiln_graph_info_get(graphs[1], &b->info);
        status = kiln_graph_explained(graphs[1], &b->e, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_device_set_fusion(b->job.device, false, err);
    }
    if (status == KILN_STATUS_OK) {
        status = plugin_job_capture(&b->job, &graphs[0], err);
    }
    if (status == KILN_STATUS_OK) {
        status = time_graphs(b, jobs, graphs, 2, b->whole, err);
    }
    if (status == KILN_STATUS_OK) {
        status = find_places(b, err);
    }
    for (uint32_t i = 0; b->places != NULL && i < b->e.n_blocks && b->n_blocks < MOST_BLOCKS &&
                         status == KILN_STATUS_OK;
         i++) {
        status = take_block(b, &b->e.blocks[i], err);
    }
    kiln_graph_destroy(graphs[0]);
    kiln_graph_destroy(graphs[1]);
    return status;
}

static kiln_status measure(bench *b, kiln_error *err)
{
    kiln_status status = time_whole(b, err);
    b->bytes_per_s = (double)kiln_device_info_of(b->job.device)->bytes_per_s;
    b->n_fusers = b->e.n_fusers < MOST_FUSERS ? b->e.n_fusers : MOST_FUSERS;
    for (uint32_t i = 0; i <= b->n_fusers && status == KILN_STATUS_OK; i++) {
        status = open_alone(b, i == 0 ? NULL : b->e.fusers[i - 1], &b->contexts[i], err);
    }
    for (uint32_t i = 0; i < b->n_blocks && status == KILN_STATUS_OK; i++) {
        status = time_block(b, &b->blocks[i], err);
    }
    return status;
}

// ---- groups ----

static const char *const size_classes[] = {"below 64 KiB", "64 KiB to 1 MiB", "1 to 16 MiB",
                                           "16 MiB and more"};

static uint32_t size_of(const block *on)
{
    return on->bytes < 65536 ? 0 : on->bytes < 1048576 ? 1 : on->bytes < 16777216 ? 2 : 3;
}

static const char *name_classes(uint32_t classes, char out[128])
{
    static const char *const names[CLASSES] = {[KILN_CLASS_ELEMENTWISE] = "elementwise",
                                               [KILN_CLASS_VIEW] = "view",
                                               [KILN_CLASS_REDUCE] = "reduce",
                                               [KILN_CLASS_CONTRACTION] = "contraction",
                                               [KILN_CLASS_GATHER] = "gather",
                                               [KILN_CLASS_WINDOW] = "window",
                                               [KILN_CLASS_ROW] = "row",
                                               [KILN_CLASS_CREATION] = "creation",
                                               [KILN_CLASS_CUSTOM] = "custom"};
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < CLASSES; i++) {
        if ((classes >> i & 1u) != 0 && names[i] != NULL) {
            at += (size_t)snprintf(out + at, 128 - at, "%s%s", at > 0 ? " + " : "", names[i]);
        }
    }
    return out;
}

typedef struct sums { ///< of one contender in one group
    figures ns;
    double bytes, unfused_ns, predicted_ns, foretold_ns;
    uint32_t blocks, won;
} sums;

/// Over the blocks that it ran, each as often as it occurs.
static sums sum_of(const bench *b, const block *like, uint32_t at)
{
    sums s = {{0, 0, 0}, 0, 0, 0, 0, 0, 0};
    for (uint32_t i = 0; i < b->n_blocks; i++) {
        const block *on = &b->blocks[i];
        const contender *by = &on->by[at];
        if (on->classes != like->classes || size_of(on) != size_of(like) || !by->ran) {
            continue;
        }
        s.blocks += on->count;
        s.won += at > 0 && strcmp(on->winner, b->e.fusers[at - 1]) == 0 ? on->count : 0;
        s.ns.least += by->ns.least * on->count;
        s.ns.median += by->ns.median * on->count;
        s.ns.most += by->ns.most * on->count;
        s.bytes += on->bytes * on->count;
        s.unfused_ns += on->by[0].ns.median * on->count;
        if (by->predicted_ns > 0) {
            s.predicted_ns += by->predicted_ns * on->count;
            s.foretold_ns += by->ns.median * on->count;
        }
    }
    return s;
}

static bool is_first(const bench *b, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++) {
        if (b->blocks[i].classes == b->blocks[index].classes &&
            size_of(&b->blocks[i]) == size_of(&b->blocks[index])) {
            return false;
        }
    }
    return true;
}

static const char *name_of(const bench *b, uint32_t at)
{
    return at == 0 ? "unfused operations" : b->e.fusers[at - 1];
}

// ---- telling ----

static void print_sums(const bench *b, uint32_t at, const sums *s)
{
    char least[32], median[32], most[32];
    double copy_ns = b->bytes_per_s > 0 ? s->bytes / b->bytes_per_s * 1e9 : 0;
    printf("  %-34s %4u %4u %9s %9s %9s %7.2f %7.2f %6.2f", name_of(b, at), s->blocks, s->won,
           cli_format_ns(least, s->ns.least), cli_format_ns(median, s->ns.median),
           cli_format_ns(most, s->ns.most), s->unfused_ns / s->ns.median, s->bytes / s->ns.median,
           copy_ns / s->ns.median);
    if (s->foretold_ns > 0) {
        printf(" %9.2f", s->predicted_ns / s->foretold_ns);
    }
    printf("\n");
}

static void print_text(const bench *b)
{
    char one[32], other[32];
    double copy = b->bytes_per_s > 0 ? plugin_job_bytes(&b->job) / b->bytes_per_s * 1e9 : 0;
    printf("operations    %s\n", cli_format_ns(one, b->whole[0].median));
    printf("fused         %s  %.2f times as fast, %llu of %llu %s in %llu %s\n",
           cli_format_ns(other, b->whole[1].median), b->whole[0].median / b->whole[1].median,
           (unsigned long long)b->info.ops_fused, (unsigned long long)b->info.ops,
           kiln_plural(b->info.ops, "operation", "operations"), (unsigned long long)b->info.blocks,
           kiln_plural(b->info.blocks, "block", "blocks"));
    printf("copy limit    %s  fused reaches %.2f of it\n", cli_format_ns(one, copy),
           copy / b->whole[1].median);
    if (b->places == NULL) {
        printf("\nThe file has operators that are recorded as simpler ones: for figures of each "
               "block take what `kiln plugin record -- kiln replay %s` writes.\n",
               b->options->path);
    }
    for (uint32_t i = 0; i < b->n_blocks; i++) {
        if (!is_first(b, i)) {
            continue;
        }
        char classes[128];
        printf("\n%s, %s\n", name_classes(b->blocks[i].classes, classes),
               size_classes[size_of(&b->blocks[i])]);
        printf("  %-34s %4s %4s %9s %9s %9s %7s %7s %6s %9s\n", "", "ran", "won", "least", "median",
               "most", "speedup", "GB/s", "copy", "predicted");
        for (uint32_t at = 0; at <= b->n_fusers; at++) {
            sums s = sum_of(b, &b->blocks[i], at);
            if (s.blocks > 0) {
                print_sums(b, at, &s);
            }
        }
    }
}

static json_t *sums_json(const bench *b, uint32_t at, const sums *s)
{
    double copy_ns = b->bytes_per_s > 0 ? s->bytes / b->bytes_per_s * 1e9 : 0;
    return json_pack(
        "{s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "by", name_of(b, at), "blocks",
        (int)s->blocks, "won", (int)s->won, "least_ns", s->ns.least, "median_ns", s->ns.median,
        "most_ns", s->ns.most, "speedup", s->unfused_ns / s->ns.median, "gb_per_s",
        s->bytes / s->ns.median, "share_of_copy", copy_ns / s->ns.median, "predicted_to_measured",
        s->foretold_ns > 0 ? json_real(s->predicted_ns / s->foretold_ns) : json_null());
}

static json_t *group_json(const bench *b, const block *like)
{
    char classes[128];
    json_t *list = json_array();
    for (uint32_t at = 0; at <= b->n_fusers; at++) {
        sums s = sum_of(b, like, at);
        if (s.blocks > 0) {
            json_array_append_new(list, sums_json(b, at, &s));
        }
    }
    return json_pack("{s:s, s:s, s:o}", "classes", name_classes(like->classes, classes), "size",
                     size_classes[size_of(like)], "contenders", list);
}

static json_t *whole_json(const bench *b, uint32_t which)
{
    return json_pack("{s:f, s:f, s:f}", "least_ns", b->whole[which].least, "median_ns",
                     b->whole[which].median, "most_ns", b->whole[which].most);
}

static kiln_status write_json(const bench *b, kiln_error *err)
{
    json_t *groups = json_array();
    for (uint32_t i = 0; i < b->n_blocks; i++) {
        if (is_first(b, i)) {
            json_array_append_new(groups, group_json(b, &b->blocks[i]));
        }
    }
    json_t *root =
        json_pack("{s:s, s:s, s:f, s:f, s:i, s:I, s:I, s:I, s:o, s:o, s:o}", "file",
                  b->options->path, "device", kiln_device_info_of(b->job.device)->name,
                  "bytes_per_s", b->bytes_per_s, "bytes", plugin_job_bytes(&b->job), "repeat",
                  (int)b->options->repeat, "ops", (json_int_t)b->info.ops, "ops_fused",
                  (json_int_t)b->info.ops_fused, "blocks", (json_int_t)b->info.blocks, "unfused",
                  whole_json(b, 0), "fused", whole_json(b, 1), "groups", groups);
    bool out = strcmp(b->options->json, "-") == 0;
    int failed = root == NULL ? -1
                 : out        ? json_dumpf(root, stdout, JSON_INDENT(2))
                              : json_dump_file(root, b->options->json, JSON_INDENT(2));
    json_decref(root);
    if (out) {
        printf("\n");
    }
    return failed == 0 ? KILN_STATUS_OK
                       : kiln_fail(err, UNAVAILABLE, "%s cannot be written", b->options->json);
}

// ---- the word ----

static const struct argp_option bench_options_table[] = {
    {"runs", 'r', "COUNT", 0, "timed runs of each (default 20)", 0},
    {"repeat", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
    {"json", 'j', "FILE", OPTION_ARG_OPTIONAL,
     "print the result as JSON instead of text, or write it to a FILE", 0},
    {0},
};

static error_t parse_bench_option(int key, char *text, struct argp_state *state)
{
    bench_options *options = state->input;
    char *end = NULL;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->device;
        return 0;
    case 'r':
        options->repeat = (unsigned)strtoul(text, &end, 10);
        if (*text < '1' || *text > '9' || *end != '\0' || options->repeat > 100000) {
            argp_error(state, "--runs %s: a number from 1 to 100000", text);
        }
        return 0;
    case 'j':
        options->json = text != NULL ? text : "-";
        return 0;
    default:
        return cli_parse_file(key, text, state, "which replayable FILE or model", &options->path);
    }
}

static void bench_close(bench *b)
{
    for (uint32_t i = 0; i < b->n_blocks; i++) {
        kiln_string_fini(&b->blocks[i].stream);
    }
    for (uint32_t i = 0; i <= MOST_FUSERS; i++) {
        cli_close_context(b->contexts[i]);
    }
    free(b->places);
    kiln_graph_explained_fini(&b->e);
    plugin_job_close(&b->job);
}

int plugin_bench(int argc, char **argv)
{
    static const struct argp_child children[] = {{&cli_device_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        bench_options_table,
        parse_bench_option,
        "FILE",
        "Times a replayable file or a model (.onnx) fused and operation by operation, and each of "
        "its blocks by every fuser alone, beside the time of a copy of the bytes that must move.",
        children,
        NULL,
        NULL};
    static bench b;
    bench_options options = {.repeat = 20};
    kiln_error err = KILN_ERROR_INIT;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    b.options = &options;
    kiln_status status = plugin_job_open(&options.device, options.path, &b.job, &err);
    if (status == KILN_STATUS_OK) {
        status = cli_check_local(b.job.device, "plugin bench", &err);
    }
    status = status == KILN_STATUS_OK ? measure(&b, &err) : status;
    if (status == KILN_STATUS_OK && (options.json == NULL || strcmp(options.json, "-") != 0)) {
        print_text(&b);
    }
    if (status == KILN_STATUS_OK && options.json != NULL) {
        status = write_json(&b, &err);
    }
    bench_close(&b);
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("plugin bench", &err);
}
