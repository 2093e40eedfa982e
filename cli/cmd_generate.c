// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln generate MODEL`: tokens from a language model, told as they come. Decides what the options
// mean and what is printed; the runs are generate/'s.

#include "cli_json.h"
#include "generate.h"
#include "model_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ENDS = 16, MOST_TOKENS = 1 << 20 };

typedef struct generate_command {
    cli_device_options device;
    const char *model;
    generate_options what;
    int64_t *prompt;
    int64_t ends[MOST_ENDS];
    bool sampling; ///< --top-k, --top-p or --temperature was given
    cli_json_options json;
    json_t *steps; ///< of --json; NULL: no memory for them
    json_t *parts; ///< which devices run what
    generate_step first; ///< took the prompt
    double rest_ns; ///< of the tokens after it
    uint64_t rest;
} generate_command;

static const struct argp_option generate_options_table[] = {
    {"prompt-ids", 'p', "ID,ID,..", 0, "tokens to begin with", 0},
    {"max-new", 'n', "COUNT", 0, "tokens at most (default 64)", 0},
    {"eos", 'e', "ID,..", 0, "tokens that end the text", 0},
    {"temperature", 'T', "NUMBER", 0,
     "draw tokens, by logits divided by this (default: 1 with --top-k or --top-p, else 0, the "
     "likeliest token)",
     0},
    {"top-k", 'k', "COUNT", 0, "draw from so many likeliest tokens", 0},
    {"top-p", 'P', "NUMBER", 0, "draw from the likeliest tokens that have this probability", 0},
    {"seed", 's', "NUMBER", 0, "of what is drawn (default 0)", 0},
    {0},
};

/// Reads "ID,ID,..". Gives how many there are, or ends the command.
static size_t parse_ids(struct argp_state *state, const char *option, const char *text, size_t most,
                        int64_t *out_ids)
{
    size_t count = 0;
    for (const char *at = text;; at++) {
        char *end = NULL;
        long long id = strtoll(at, &end, 10);
        if (end == at || id < 0 || count == most || (*end != ',' && *end != '\0')) {
            argp_error(state, "--%s %s: tokens from 0 with commas between them, at most %zu",
                       option, text, most);
        }
        out_ids[count++] = id;
        at = end;
        if (*end == '\0') {
            return count;
        }
    }
}

static double parse_positive(struct argp_state *state, const char *option, const char *text,
                             double most)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !(value > 0 && value <= most)) {
        argp_error(state, "--%s %s: a number above 0%s", option, text,
                   isinf(most) ? "" : ", 1 at most");
    }
    return value;
}

static unsigned long long parse_whole(struct argp_state *state, const char *option,
                                      const char *text, unsigned long long most)
{
    char *end = NULL;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text == '\0' || *text == '-' || *end != '\0' || value > most) {
        argp_error(state, "--%s %s: a number from 0 to %llu", option, text, most);
    }
    return value;
}

static error_t parse_generate_option(int key, char *text, struct argp_state *state)
{
    generate_command *c = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &c->device;
        state->child_inputs[1] = &c->json;
        return 0;
    case 'p':
        c->prompt = realloc(c->prompt, (strlen(text) + 1) * sizeof(*c->prompt));
        if (c->prompt == NULL) {
            argp_failure(state, CLI_FAILED, 0, "no memory for the prompt");
        }
        c->what.n_prompt = parse_ids(state, "prompt-ids", text, MOST_TOKENS, c->prompt);
        c->what.prompt = c->prompt;
        return 0;
    case 'n':
        c->what.max_new = parse_whole(state, "max-new", text, MOST_TOKENS);
        return 0;
    case 'e':
        c->what.n_ends = parse_ids(state, "eos", text, MOST_ENDS, c->ends);
        return 0;
    case 'T':
        c->what.sampling.temperature =
            strcmp(text, "0") == 0 ? 0 : parse_positive(state, "temperature", text, INFINITY);
        c->sampling = true;
        return 0;
    case 'k':
        c->what.sampling.top_k = parse_whole(state, "top-k", text, MOST_TOKENS);
        return 0;
    case 'P':
        c->what.sampling.top_p = parse_positive(state, "top-p", text, 1);
        return 0;
    case 's':
        c->what.sampling.state = parse_whole(state, "seed", text, UINT64_MAX);
        return 0;
    case ARGP_KEY_END:
        if (c->what.n_prompt == 0) {
            argp_error(state, "--prompt-ids is missing");
        }
        return cli_parse_file(key, text, state, "which model", &c->model);
    default:
        return cli_parse_file(key, text, state, "which model", &c->model);
    }
}

static void tell_session(const kiln_onnx_session *session, void *user)
{
    generate_command *c = user;
    c->parts = model_parts(session);
}

static void tell_token(const generate_step *step, void *user)
{
    generate_command *c = user;
    bool is_first = c->first.ns == 0;
    if (is_first) {
        c->first = *step;
    } else {
        c->rest_ns += step->ns;
        c->rest++;
    }
    if (c->json.wanted && c->steps != NULL) {
        json_array_append_new(c->steps,
                              json_pack("{s:I, s:f, s:I, s:I, s:I}", "id", (json_int_t)step->token,
                                        "ms", step->ns / 1e6, "plans", (json_int_t)step->plans,
                                        "bytes_uploaded", (json_int_t)step->bytes_uploaded,
                                        "bytes_read", (json_int_t)step->bytes_read));
    }
    if (!cli_json_is_shown(&c->json)) {
        printf("%s%lld", is_first ? "" : " ", (long long)step->token);
        fflush(stdout);
    }
}

static double tokens_a_second(const generate_command *c)
{
    return c->rest > 0 ? (double)c->rest / (c->rest_ns / 1e9) : 0;
}

static void print_rate(const generate_command *c, bool ended)
{
    char first[32];
    printf("\nfirst token: %s", cli_format_ns(first, c->first.ns));
    if (c->rest > 0) {
        printf(", then %.1f tokens a second", tokens_a_second(c));
    }
    printf("%s\n", ended ? "; ended by --eos" : "");
    if (json_array_size(c->parts) > 1) {
        model_print_parts(c->parts);
    }
}

static json_t *as_json(generate_command *c, const kiln_device *device, bool ended)
{
    json_t *steps = c->steps;
    c->steps = NULL;
    return json_pack("{s:s, s:O*, s:o, s:b, s:f, s:o}", "device", kiln_device_address(device),
                     "parts", c->parts, "tokens", steps, "ended", ended, "first_ms",
                     c->first.ns / 1e6, "tokens_per_second", cli_json_figure(tokens_a_second(c)));
}

static kiln_status generate(generate_command *c, kiln_error *err)
{
    kiln_context *context = NULL;
    kiln_device *devices[CLI_MAX_DEVICES] = {NULL};
    size_t n_devices = 0;
    kiln_onnx_model *model = NULL;
    bool ended = false;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, cli_open_context(&c->device, &context, err));
    KILN_TRY(out, status, kiln_onnx_model_open(kiln_context_env(context), c->model, &model, err));
    KILN_TRY(out, status, cli_open_devices(&c->device, context, devices, &n_devices, err));
    c->steps = json_array();
    KILN_TRY(out, status, generate_run(model, devices, n_devices, &c->what, &ended, err));
    if (!cli_json_is_shown(&c->json)) {
        print_rate(c, ended);
    }
    if (c->json.wanted) {
        KILN_TRY(out, status, cli_json_write(&c->json, as_json(c, devices[0], ended), err));
    }
out:
    json_decref(c->steps);
    json_decref(c->parts);
    kiln_onnx_model_close(model);
    for (size_t i = 0; i < n_devices; i++) {
        kiln_device_release(devices[i]);
    }
    cli_close_context(context);
    return status;
}

int cmd_generate(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&cli_device_argp, 0, NULL, 0}, {&cli_json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {generate_options_table,
                                     parse_generate_option,
                                     "MODEL",
                                     "Generates tokens with a language model in an ONNX file: the "
                                     "prompt's next token, and so on. What its layers keep stays "
                                     "on the device.",
                                     children,
                                     NULL,
                                     NULL};
    generate_command c = {.device.several = true,
                          .what = {.max_new = 64, .sampling = {.temperature = -1, .top_p = 1}}};
    kiln_error err = KILN_ERROR_INIT;
    argp_parse(&argp, argc, argv, 0, NULL, &c);
    generate_sampling *sampling = &c.what.sampling;
    if (!c.sampling) {
        sampling->temperature = sampling->top_k > 0 || sampling->top_p < 1 ? 1 : 0;
    }
    c.what.ends = c.ends;
    c.what.on_step = tell_token;
    c.what.on_session = tell_session;
    c.what.user = &c;
    kiln_status status = generate(&c, &err);
    free(c.prompt);
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("generate", &err);
}
