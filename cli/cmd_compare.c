// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln compare MODEL`: what every node of a model makes on a device, beside the reference
// evaluator and, with --python, ONNX Runtime. Tells the first node that differs. Decides which
// nodes are shown; what differs is compare_values.c's.

#include "cli_json.h"
#include "cli_progress.h"
#include "compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct compare_options {
    model_options model;
    cli_json_options json;
    const char *against; ///< address of a device; NULL: the reference
    const char *python;
    double tolerance; ///< negative: by the type that the model is kept in
    bool verbose;
} compare_options;

static const struct argp_option compare_options_table[] = {
    {"against", 'a', "ADDRESS", 0, "the device to compare with (default reference)", 0},
    {"python", 'y', "PROGRAM", 0,
     "compare with ONNX Runtime instead, run by an interpreter that has onnx and onnxruntime", 0},
    {"tolerance", 't', "NUMBER", 0,
     "that a value may be off, times the largest of its node (default 1e-3; with --model-dtype f16 "
     "5e-3, bf16 4e-2)",
     0},
    {"verbose", 'v', NULL, 0, "a line for every node, not for the worst alone", 0},
    {0},
};

static error_t parse_compare_option(int key, char *text, struct argp_state *state)
{
    compare_options *options = state->input;
    char *end = NULL;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->model;
        state->child_inputs[1] = &options->json;
        return 0;
    case 'a':
        options->against = text;
        return 0;
    case 'y':
        options->python = text;
        return 0;
    case 't':
        options->tolerance = strtod(text, &end);
        if (*text == '\0' || *end != '\0' || !(options->tolerance >= 0)) {
            argp_error(state, "--tolerance %s: a number from 0", text);
        }
        return 0;
    case 'v':
        options->verbose = true;
        return 0;
    case ARGP_KEY_END:
        if (options->against != NULL && options->python != NULL) {
            argp_error(state, "--against or --python, not both");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// ---- pairs ----

typedef struct pair {
    const compare_value *own;
    compare_distance distance;
    size_t node; ///< in the order in which they ran
} pair;

typedef struct comparison {
    const compare_options *options;
    double tolerance;
    kiln_dtype kept_in; ///< the model, on its own side
    const char *peer;
    compare_values own;
    compare_values other;
    pair *pairs;
    size_t n_pairs;
    size_t alone; ///< values that the other side has not
    size_t differ;
    size_t first; ///< of the pairs, that differs; n_pairs: none
} comparison;

/// The other side's value: at the same place when the sides ran the same nodes, else by name. A
/// name that a loop makes again is told of by its first round.
static const compare_value *partner(const comparison *c, size_t i)
{
    const char *name = c->own.items[i].name;
    bool same = i < c->other.count && strcmp(c->other.items[i].name, name) == 0;
    return same ? &c->other.items[i] : compare_find(&c->other, name);
}

static kiln_status pair_up(comparison *c, kiln_error *err)
{
    c->pairs = calloc(c->own.count + 1, sizeof(*c->pairs));
    if (c->pairs == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to compare");
    }
    for (size_t i = 0; i < c->own.count; i++) {
        const compare_value *own = &c->own.items[i], *other = partner(c, i);
        if (own->array.data == NULL || other == NULL || other->array.data == NULL) {
            c->alone++;
            continue;
        }
        pair *made = &c->pairs[c->n_pairs++];
        *made =
            (pair){own, compare_arrays(&own->array, &other->array, c->tolerance, c->kept_in), i};
        c->differ += !made->distance.within;
    }
    while (c->first < c->n_pairs && c->pairs[c->first].distance.within) {
        c->first++;
    }
    return c->n_pairs > 0 ? KILN_STATUS_OK
                          : kiln_fail(err, FAILED_PRECONDITION, "no value is on both sides");
}

/// Of the largest value; what has none is compared as it is.
static double share_of(const compare_distance *d)
{
    return d->largest > 0 ? d->worst / d->largest : d->worst;
}

static int by_share(const void *a, const void *b)
{
    const pair *x = *(const pair *const *)a, *y = *(const pair *const *)b;
    double left = x->distance.comparable ? share_of(&x->distance) : (double)INFINITY;
    double right = y->distance.comparable ? share_of(&y->distance) : (double)INFINITY;
    return left < right ? 1 : left > right ? -1 : x->node < y->node ? -1 : 1;
}

// ---- report ----

static void print_pair(const pair *p)
{
    char name[48], shape[96];
    const kiln_npy *array = &p->own->array;
    size_t used = (size_t)snprintf(shape, sizeof(shape), "%s[", kiln_dtype_name(array->dtype));
    for (size_t i = 0; i < array->rank && used < sizeof(shape); i++) {
        used += (size_t)snprintf(shape + used, sizeof(shape) - used, "%s%lld", i == 0 ? "" : ",",
                                 (long long)array->dims[i]);
    }
    snprintf(name, sizeof(name), "%.47s", p->own->name);
    cli_make_shown(name);
    printf("%5zu  %s%-7s%s %-20.20s %-32s ", p->node,
           cli_colour_of(stdout, p->distance.within ? CLI_GREEN : CLI_RED),
           p->distance.within ? "same" : "DIFFERS", cli_colour_of(stdout, CLI_PLAIN),
           p->own->op_type, name);
    if (p->distance.comparable) {
        printf("%10.3g %10.3g %10.3g %8zu  %s]\n", p->distance.worst, share_of(&p->distance),
               p->distance.mean, p->distance.differ, shape);
    } else {
        printf("another type or shape than %s]\n", shape);
    }
}

static void print_first(const comparison *c)
{
    const pair *p = &c->pairs[c->first];
    char at[CLI_INDEX_ROOM];
    const kiln_npy *own = &p->own->array;
    printf("first that differs: ");
    if (!p->distance.comparable) {
        printf("node %zu, %s\n", p->node, p->own->op_type);
        return;
    }
    const compare_value *other = partner(c, p->node);
    cli_format_index(at, own->rank, own->dims, p->distance.at);
    printf("node %zu, %s, most at %s: %.6g, %s has %.6g\n", p->node, p->own->op_type, at,
           kiln_npy_number(own, p->distance.at), c->peer,
           kiln_npy_number(&other->array, p->distance.at));
}

static kiln_status print_comparison(const comparison *c, kiln_error *err)
{
    enum { WORST = 10 };
    const pair **order = calloc(c->n_pairs + 1, sizeof(*order));
    if (order == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a table");
    }
    for (size_t i = 0; i < c->n_pairs; i++) {
        order[i] = &c->pairs[i];
    }
    if (!c->options->verbose) {
        qsort((void *)order, c->n_pairs, sizeof(*order), by_share);
    }
    printf("%5s  %-7s %-20s %-32s %10s %10s %10s %8s  %s\n", "node", "", "operator", "value",
           "at most", "of largest", "mean", "differ", "type");
    for (size_t i = 0; i < c->n_pairs && (c->options->verbose || i < WORST); i++) {
        print_pair(order[i]);
    }
    free((void *)order);
    printf("%zu values compared with %s, %zu differ by more than %g of the largest", c->n_pairs,
           c->peer, c->differ, c->tolerance);
    printf("; %zu on the host, %zu on one side alone\n", c->own.on_host, c->alone);
    if (c->first < c->n_pairs) {
        print_first(c);
    }
    return KILN_STATUS_OK;
}

static json_t *comparison_json(const comparison *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->n_pairs; i++) {
        const pair *p = &c->pairs[i];
        const compare_distance *d = &p->distance;
        json_array_append_new(
            list,
            json_pack("{s:I, s:o, s:o, s:b, s:b, s:o, s:f, s:f, s:I, s:I}", "node",
                      (json_int_t)p->node, "operator", cli_json_text(p->own->op_type), "value",
                      cli_json_text(p->own->name), "same", d->within, "comparable", d->comparable,
                      "worst", isfinite(d->worst) ? json_real(d->worst) : json_null(), "largest",
                      d->largest, "mean", isfinite(d->mean) ? d->mean : -1.0, "differ",
                      (json_int_t)d->differ, "elements", (json_int_t)d->count));
    }
    return json_pack(
        "{s:o, s:s, s:f, s:I, s:I, s:I, s:o, s:o}", "model", cli_json_text(c->options->model.model),
        "against", c->peer, "tolerance", c->tolerance, "differ", (json_int_t)c->differ, "on_host",
        (json_int_t)c->own.on_host, "alone", (json_int_t)c->alone, "first",
        c->first < c->n_pairs ? json_integer((json_int_t)c->pairs[c->first].node) : json_null(),
        "values", list);
}

static kiln_status tell_comparison(const comparison *c, kiln_error *err)
{
    const cli_json_options *json = &c->options->json;
    kiln_status status = KILN_STATUS_OK;
    if (!cli_json_is_shown(json)) {
        status = print_comparison(c, err);
    }
    if (status == KILN_STATUS_OK && json->wanted) {
        status = cli_json_write(json, comparison_json(c), err);
    }
    if (status == KILN_STATUS_OK && c->differ > 0) {
        status = kiln_fail(err, FAILED_PRECONDITION, "%zu of %zu values differ from %s", c->differ,
                           c->n_pairs, c->peer);
    }
    return status;
}

// ---- both sides ----

static kiln_status run_peer(comparison *c, const model_session *session, kiln_error *err)
{
    const compare_options *options = c->options;
    if (options->python != NULL) {
        c->peer = "ONNX Runtime";
        return compare_run_onnxruntime(options->python, options->model.model, session, &c->other,
                                       err);
    }
    model_session peer = {0};
    model_options own = options->model;
    own.device.model_dtype = "f32"; // the model as it is
    own.device.device = c->peer = options->against != NULL ? options->against : "reference";
    kiln_status status = model_session_open(&peer, &own, /*invent=*/true, err);
    if (status == KILN_STATUS_OK) {
        status = compare_run(&peer, &c->other, err);
    }
    model_session_close(&peer);
    return status;
}

static double usual_tolerance(kiln_dtype kept_in)
{
    return kept_in == KILN_DTYPE_BF16 ? 4e-2 : kept_in == KILN_DTYPE_F16 ? 5e-3 : 1e-3;
}

static kiln_status compare_model(comparison *c, kiln_error *err)
{
    model_session session = {0};
    kiln_status status = KILN_STATUS_OK;
    cli_progress *progress = cli_progress_begin("compiling and running");
    KILN_TRY(out, status, model_session_open(&session, &c->options->model, /*invent=*/true, err));
    c->kept_in = kiln_onnx_session_dtype(session.session);
    c->tolerance = c->options->tolerance >= 0 ? c->options->tolerance : usual_tolerance(c->kept_in);
    KILN_TRY(out, status, compare_run(&session, &c->own, err));
    cli_progress_say(progress, "running what it is compared with");
    KILN_TRY(out, status, run_peer(c, &session, err));
    KILN_TRY(out, status, pair_up(c, err));
out:
    cli_progress_end(progress);
    model_session_close(&session);
    return status;
}

int cmd_compare(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&model_options_argp, 0, NULL, 0}, {&cli_json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        compare_options_table,
        parse_compare_option,
        "MODEL",
        "Compares what each node of an ONNX model makes with the reference evaluator, another "
        "device "
        "or ONNX Runtime; fails when one differs. Inputs that are not given are invented.",
        children,
        NULL,
        NULL};
    compare_options options = {.tolerance = -1};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_error err = KILN_ERROR_INIT;
    comparison c = {.options = &options};
    kiln_status status = compare_model(&c, &err);
    if (status == KILN_STATUS_OK) {
        status = tell_comparison(&c, &err);
    }
    compare_values_free(&c.own);
    compare_values_free(&c.other);
    free(c.pairs);
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("compare", &err);
}
