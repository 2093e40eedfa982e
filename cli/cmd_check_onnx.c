// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln check-onnx [DIR...]`: runs the test cases of ONNX. A case passes when every output has the
// expected type and shape and its numbers are close; what Kiln says it does not implement is a
// skip, counted under its reason; everything else is a failure. check_onnx.def lists what is
// expected not to pass. Decides what --strict and --counts hold.

#include "check_case.h"
#include "cli_json.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_ROOM = 4096, KEY_ROOM = 256 };

// ---- what is expected not to pass ----

typedef enum check_kind_of_skip {
    CHECK_DOMAIN = 0,
    CHECK_RANDOM = 1,
    CHECK_PICTURE = 2,
    CHECK_KINDS = 3
} check_kind_of_skip;

static const char *const kind_names[CHECK_KINDS] = {"other domains", "random values", "pictures"};

typedef struct check_listed {
    const char *name;
    check_kind_of_skip kind;
    const char *reason;
} check_listed;

static const check_listed listed_cases[] = {
#define KILN_CHECK_LISTED(name, kind, reason) {name, CHECK_##kind, reason},
#include "check_onnx.def"
};

/// 9 of another domain, 10 with random numbers, 9 pictures: a longer list is a decision.
_Static_assert(sizeof(listed_cases) / sizeof(listed_cases[0]) == 9 + 10 + 9,
               "the list of skips has another length");

typedef struct check_loose {
    const char *name;
    double relative;
    double absolute;
} check_loose;

static const check_loose loose_cases[] = {
#define KILN_CHECK_LOOSE(name, relative, absolute, reason) {name, relative, absolute},
#include "check_onnx.def"
};

typedef struct check_host_op {
    const char *name;
    const char *reason;
} check_host_op;

static const check_host_op host_only[] = {
#define KILN_CHECK_HOST(op, reason) {op, reason},
#include "check_onnx.def"
};

enum { N_HOST_ONLY = sizeof(host_only) / sizeof(host_only[0]) };

static const check_listed *find_listed(const char *name)
{
    for (size_t i = 0; i < sizeof(listed_cases) / sizeof(listed_cases[0]); i++) {
        if (strcmp(listed_cases[i].name, name) == 0) {
            return &listed_cases[i];
        }
    }
    return NULL;
}

static check_how how_to_check(const char *name, uint32_t again)
{
    const check_listed *listed = find_listed(name);
    check_how how = {.statistics = listed != NULL && listed->kind == CHECK_RANDOM,
                     .relative = CHECK_RELATIVE,
                     .absolute = CHECK_ABSOLUTE,
                     .again = again};
    for (size_t i = 0; i < sizeof(loose_cases) / sizeof(loose_cases[0]); i++) {
        if (strcmp(loose_cases[i].name, name) == 0) {
            how.relative = loose_cases[i].relative;
            how.absolute = loose_cases[i].absolute;
        }
    }
    return how;
}

static size_t find_host_only(const char *op)
{
    size_t i = 0;
    while (i < N_HOST_ONLY && strcmp(host_only[i].name, op) != 0) {
        i++;
    }
    return i;
}

// ---- state ----

typedef struct check_reason {
    char text[200];
    uint64_t count;
} check_reason;

typedef struct check_row { ///< of a file of counts
    char key[KEY_ROOM];
    unsigned long long kernels;
    unsigned long long host_nodes;
} check_row;

typedef struct check_options {
    cli_device_options device;
    cli_json_options json;
    bool verbose;
    bool summary;
    bool strict;
    uint32_t again; ///< runs after the first
    const char *counts; ///< file to hold
    const char *write_counts;
    char **folders;
    int n_folders;
} check_options;

typedef struct check_state {
    const check_options *options;
    kiln_context *context;
    kiln_device *device;
    uint64_t passed;
    uint64_t failed;
    uint64_t skipped;
    uint64_t listed[CHECK_KINDS]; ///< of the skipped
    uint64_t kernels;
    uint64_t host_nodes[N_HOST_ONLY + 1]; ///< the last: of operators on no list
    check_reason *reasons;
    size_t n_reasons;
    check_row *rows;
    size_t n_rows;
    uint64_t unheld; ///< cases without a row
    FILE *written;
    bool no_memory;
    json_t *cases; ///< with --json on standard output; NULL: they are printed
} check_state;

// ---- files of counts ----

/// Blanks and a number; goes behind it.
static bool read_count(const char **at, unsigned long long *out_count)
{
    char *end = NULL;
    const char *digits = *at + strspn(*at, " ");
    errno = 0;
    *out_count = strtoull(digits, &end, 10);
    *at = end;
    return isdigit((unsigned char)digits[0]) && errno == 0;
}

static bool read_row(const char *line, check_row *out_row)
{
    size_t length = strcspn(line, " \n");
    const char *at = line + length;
    if (length == 0 || length >= sizeof(out_row->key)) {
        return false;
    }
    memcpy(out_row->key, line, length);
    return read_count(&at, &out_row->kernels) && read_count(&at, &out_row->host_nodes) &&
           (*at == '\n' || *at == '\0');
}

static kiln_status add_row(check_state *state, const char *line, const char *path, kiln_error *err)
{
    check_row row = {.kernels = 0};
    if (line[0] == '#' || line[0] == '\n') {
        return KILN_STATUS_OK;
    }
    if (!read_row(line, &row)) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: row %zu is not \"case kernels host\"", path,
                         state->n_rows + 1);
    }
    check_row *grown = realloc(state->rows, (state->n_rows + 1) * sizeof(*grown));
    if (grown == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the rows of %s", path);
    }
    state->rows = grown;
    state->rows[state->n_rows++] = row;
    return KILN_STATUS_OK;
}

static kiln_status open_counts(check_state *state, kiln_error *err)
{
    const char *path = state->options->counts;
    char line[2 * KEY_ROOM];
    kiln_status status = KILN_STATUS_OK;
    FILE *file = path == NULL ? NULL : fopen(path, "r");
    if (path != NULL && file == NULL) {
        return kiln_fail(err, NOT_FOUND, "cannot read %s", path);
    }
    while (status == KILN_STATUS_OK && file != NULL && fgets(line, sizeof(line), file) != NULL) {
        status = add_row(state, line, path, err);
    }
    if (file != NULL) {
        fclose(file);
    }
    path = state->options->write_counts;
    state->written = path == NULL ? NULL : fopen(path, "w");
    if (path != NULL && state->written == NULL) {
        return kiln_fail(err, PERMISSION_DENIED, "cannot write %s", path);
    }
    if (state->written != NULL) {
        fprintf(state->written,
                "# SPDX-License-Identifier: MIT OR Apache-2.0\n"
                "# case, kernels launched, nodes that the host computed: written "
                "by kiln check-onnx --write-counts on %s\n",
                kiln_device_address(state->device));
    }
    return status;
}

static kiln_status hold_counts(check_state *state, const char *key, const check_counts *counts,
                               kiln_error *err)
{
    if (state->written != NULL) {
        fprintf(state->written, "%s %llu %llu\n", key, (unsigned long long)counts->kernels,
                (unsigned long long)counts->host_nodes);
    }
    for (size_t i = 0; i < state->n_rows; i++) {
        const check_row *row = &state->rows[i];
        if (strcmp(row->key, key) == 0) {
            return counts->kernels <= row->kernels && counts->host_nodes <= row->host_nodes
                       ? KILN_STATUS_OK
                       : kiln_fail(err, INTERNAL,
                                   "%llu kernels and %llu nodes on the host, %llu and %llu are "
                                   "held in %s",
                                   (unsigned long long)counts->kernels,
                                   (unsigned long long)counts->host_nodes, row->kernels,
                                   row->host_nodes, state->options->counts);
        }
    }
    state->unheld += state->options->counts != NULL;
    return KILN_STATUS_OK;
}

// ---- one case ----

/// The reason without the node that it was found at.
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

/// What a passing case must hold besides its numbers.
static kiln_status check_promises(check_state *state, const char *key, const check_listed *listed,
                                  const check_counts *counts, kiln_error *err)
{
    for (size_t i = 0; i < counts->n_host_ops; i++) {
        size_t place = find_host_only(counts->host_ops[i]);
        state->host_nodes[place]++;
        if (place == N_HOST_ONLY && state->options->strict) {
            return kiln_fail(err, INTERNAL, "the host computed operator %s", counts->host_ops[i]);
        }
    }
    state->kernels += counts->kernels;
    if (listed != NULL && listed->kind != CHECK_RANDOM) {
        return kiln_fail(err, INTERNAL, "listed as skipped (%s), but passes: take it off the list",
                         listed->reason);
    }
    return hold_counts(state, key, counts, err);
}

/// Of failures always, of others when they are asked for.
static void tell_case(const check_state *state, const char *verdict, const char *name,
                      const char *why)
{
    if (strcmp(verdict, "FAIL") != 0 && !state->options->verbose) {
        return;
    }
    if (state->cases != NULL) {
        json_array_append_new(state->cases,
                              json_pack("{s:o, s:s, s:o}", "case", cli_json_text(name), "verdict",
                                        verdict, "why", cli_json_text(why)));
    } else {
        printf("%s %s%s%s\n", verdict, name, why != NULL ? ": " : "", why != NULL ? why : "");
    }
}

static void skip_case(check_state *state, const char *name, const char *why)
{
    const check_listed *listed = find_listed(name);
    state->skipped++;
    if (listed != NULL) {
        state->listed[listed->kind]++;
    }
    count_reason(state, reason_of(why));
    tell_case(state, "skip", name, why);
}

static void judge(check_state *state, const char *key, const char *name, kiln_status status,
                  const check_counts *counts, kiln_error *err)
{
    const check_listed *listed = find_listed(name);
    bool random = listed != NULL && listed->kind == CHECK_RANDOM;
    if (status == KILN_STATUS_OK) {
        status = check_promises(state, key, listed, counts, err);
    } else if (status == KILN_STATUS_UNIMPLEMENTED &&
               ((listed != NULL && !random) || !state->options->strict)) {
        skip_case(state, name, err->message);
        return;
    }
    if (status == KILN_STATUS_OK && random) {
        skip_case(state, name, "random values: shape, dtype and statistics hold");
    } else if (status == KILN_STATUS_OK) {
        state->passed++;
        tell_case(state, "pass", name, NULL);
    } else {
        state->failed++;
        tell_case(state, "FAIL", name, err->message);
    }
}

static void check_case(check_state *state, const char *folder)
{
    kiln_error err = KILN_ERROR_INIT;
    check_counts counts;
    char path[PATH_ROOM];
    snprintf(path, sizeof(path), "%s", folder);
    for (size_t length = strlen(path); length > 1 && path[length - 1] == '/'; length--) {
        path[length - 1] = '\0';
    }
    const char *name = path;
    const char *key = path;
    for (const char *at = path; *at != '\0'; at++) {
        if (*at == '/') {
            key = name;
            name = at + 1;
        }
    }
    const check_how how = how_to_check(name, state->options->again);
    kiln_status status = check_case_run(state->context, state->device, path, how, &counts, &err);
    judge(state, key, name, status, &counts, &err);
    fflush(stdout);
}

// ---- folders ----

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

static kiln_status check_cases_in(check_state *state, const char *folder, kiln_error *err)
{
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

/// A case, or a folder of cases.
static kiln_status check_folder(check_state *state, const char *folder, kiln_error *err)
{
    uint64_t before[] = {state->passed, state->failed, state->skipped};
    kiln_status status = KILN_STATUS_OK;
    if (is_case(folder)) {
        check_case(state, folder);
    } else {
        status = check_cases_in(state, folder, err);
    }
    if (state->options->summary && status == KILN_STATUS_OK && state->cases == NULL) {
        printf("%s: %llu passed, %llu failed, %llu skipped\n", folder,
               (unsigned long long)(state->passed - before[0]),
               (unsigned long long)(state->failed - before[1]),
               (unsigned long long)(state->skipped - before[2]));
    }
    return status;
}

// ---- what is said at the end ----

static int by_count(const void *a, const void *b)
{
    const check_reason *x = a;
    const check_reason *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
                                : strcmp(x->text, y->text);
}

static void print_lists(const check_state *state)
{
    uint64_t unlisted = state->skipped;
    for (int i = 0; i < CHECK_KINDS; i++) {
        printf("listed  %5llu: %s\n", (unsigned long long)state->listed[i], kind_names[i]);
        unlisted -= state->listed[i];
    }
    printf("listed not %2llu: skipped, and on no list\n", (unsigned long long)unlisted);
    for (size_t i = 0; i < N_HOST_ONLY; i++) {
        printf("host    %5llu cases: %s, %s\n", (unsigned long long)state->host_nodes[i],
               host_only[i].name, host_only[i].reason);
    }
    printf("host    %5llu cases: operators that are on no list\n",
           (unsigned long long)state->host_nodes[N_HOST_ONLY]);
    printf("kernels %5llu launched\n", (unsigned long long)state->kernels);
}

static json_t *end_json(const check_state *state)
{
    json_t *reasons = json_array();
    for (size_t i = 0; i < state->n_reasons; i++) {
        json_array_append_new(reasons,
                              json_pack("{s:o, s:I}", "why", cli_json_text(state->reasons[i].text),
                                        "cases", (json_int_t)state->reasons[i].count));
    }
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "passed", (json_int_t)state->passed,
                     "failed", (json_int_t)state->failed, "skipped", (json_int_t)state->skipped,
                     "kernels", (json_int_t)state->kernels, "unheld", (json_int_t)state->unheld,
                     "skips", reasons, "cases",
                     state->cases != NULL ? json_incref(state->cases) : json_null());
}

static void print_end(check_state *state)
{
    if (state->n_reasons > 1) {
        qsort(state->reasons, state->n_reasons, sizeof(*state->reasons), by_count);
    }
    for (size_t i = 0; i < state->n_reasons; i++) {
        printf("skipped %4llu: %s\n", (unsigned long long)state->reasons[i].count,
               state->reasons[i].text);
    }
    if (state->options->summary && state->passed + state->failed + state->skipped > 0) {
        print_lists(state);
    }
    if (state->unheld > 0) {
        printf("%llu %s no row in %s: write it anew with --write-counts\n",
               (unsigned long long)state->unheld,
               kiln_plural(state->unheld, "case has", "cases have"), state->options->counts);
    }
    printf("%llu passed, %llu failed, %llu skipped\n", (unsigned long long)state->passed,
           (unsigned long long)state->failed, (unsigned long long)state->skipped);
}

// ---- the command ----

enum {
    KEY_SUMMARY = 0x100,
    KEY_STRICT = 0x101,
    KEY_COUNTS = 0x102,
    KEY_WRITE = 0x103,
    KEY_AGAIN = 0x104
};

/// Debian's libonnx-testdata, without the large models.
static char *default_folders[] = {"/usr/share/libonnx-testdata/data/node",
                                  "/usr/share/libonnx-testdata/data/simple",
                                  "/usr/share/libonnx-testdata/data/pytorch-operator",
                                  "/usr/share/libonnx-testdata/data/pytorch-converted"};

static bool parse_again(const char *text, uint32_t *out_again)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    *out_again = (uint32_t)value;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && value <= 1000;
}

static error_t parse_check_option(int key, char *text, struct argp_state *state)
{
    check_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->device;
        state->child_inputs[1] = &options->json;
        return 0;
    case 'v':
        options->verbose = true;
        return 0;
    case KEY_SUMMARY:
        options->summary = true;
        return 0;
    case KEY_STRICT:
        options->strict = true;
        return 0;
    case KEY_AGAIN:
        if (!parse_again(text, &options->again)) {
            argp_error(state, "--runs=%s is no number from 0 to 1000", text);
        }
        return 0;
    case KEY_COUNTS:
        options->counts = text;
        return 0;
    case KEY_WRITE:
        options->write_counts = text;
        return 0;
    case ARGP_KEY_ARGS:
        options->folders = state->argv + state->next;
        options->n_folders = state->argc - state->next;
        return 0;
    case ARGP_KEY_NO_ARGS:
        if (!options->summary) {
            argp_error(state, "name a folder of test cases");
        }
        options->folders = default_folders;
        options->n_folders = sizeof(default_folders) / sizeof(default_folders[0]);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option choices[] = {
    {"verbose", 'v', NULL, 0, "one line for every case, not for failures only", 0},
    {"summary", KEY_SUMMARY, NULL, 0,
     "counts by folder, list and operator; without DIR, Debian's libonnx-testdata", 0},
    {"strict", KEY_STRICT, NULL, 0,
     "fail what is skipped and on no list, and what the host computes and is on no list", 0},
    {"runs", KEY_AGAIN, "COUNT", 0,
     "run each case COUNT times more in its session, inputs on the device only", 0},
    {"again", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
    {"counts", KEY_COUNTS, "FILE", 0, "fail a case with more kernels or host nodes than FILE holds",
     0},
    {"write-counts", KEY_WRITE, "FILE", 0, "write kernels and host nodes of each case to FILE", 0},
    {0}};

/// What would stop the job is told before a device is opened; a folder that cannot be read does
/// when there is no other.
static kiln_status check_files(const check_options *options, kiln_error *err)
{
    if (options->counts != NULL && access(options->counts, R_OK) != 0) {
        return kiln_fail(err, NOT_FOUND, "cannot read %s", options->counts);
    }
    for (int i = 0; i < options->n_folders; i++) {
        if (access(options->folders[i], R_OK | X_OK) == 0) {
            return options->write_counts != NULL ? cli_check_output(options->write_counts, err)
                                                 : KILN_STATUS_OK;
        }
    }
    return kiln_fail(err, NOT_FOUND, "cannot read folder %s", options->folders[0]);
}

static int run_all(check_state *state)
{
    kiln_error err = KILN_ERROR_INIT;
    const check_options *options = state->options;
    kiln_status status = check_files(options, &err);
    if (status == KILN_STATUS_OK) {
        status = cli_open_context(&options->device, &state->context, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = cli_open_device(&options->device, state->context, &state->device, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = open_counts(state, &err);
    }
    int result = status == KILN_STATUS_OK ? CLI_OK : cli_fail("check-onnx", &err);
    // A folder that cannot be read fails the job; the others are still checked and counted.
    for (int i = 0; status == KILN_STATUS_OK && i < options->n_folders; i++) {
        if (check_folder(state, options->folders[i], &err) != KILN_STATUS_OK) {
            result = cli_fail("check-onnx", &err);
        }
    }
    if (state->no_memory) {
        (void)kiln_fail(&err, RESOURCE_EXHAUSTED, "no memory for the reasons of skips");
        result = cli_fail("check-onnx", &err);
    }
    if (status == KILN_STATUS_OK && state->cases == NULL) {
        print_end(state);
    }
    if (status == KILN_STATUS_OK && options->json.wanted &&
        cli_json_write(&options->json, end_json(state), &err) != KILN_STATUS_OK) {
        result = cli_fail("check-onnx", &err);
    }
    return result == CLI_OK && state->failed > 0 ? CLI_FAILED : result;
}

int cmd_check_onnx(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&cli_device_argp, 0, NULL, 0}, {&cli_json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        choices,
        parse_check_option,
        "[DIR...]",
        "Runs ONNX backend test cases: each DIR is one, or holds several. What Kiln does not "
        "implement is skipped, with the reasons counted.",
        children,
        NULL,
        NULL};
    check_options options = {.verbose = false};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    check_state state = {.options = &options,
                         .cases = cli_json_is_shown(&options.json) ? json_array() : NULL};
    int result = run_all(&state);
    if (state.written != NULL && fclose(state.written) != 0) {
        kiln_error err = KILN_ERROR_INIT;
        (void)kiln_fail(&err, UNAVAILABLE, "cannot write %s", options.write_counts);
        result = cli_fail("check-onnx", &err);
    }
    json_decref(state.cases);
    free(state.reasons);
    free(state.rows);
    kiln_device_release(state.device);
    cli_close_context(state.context);
    return result;
}
