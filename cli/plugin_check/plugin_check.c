// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln plugin check FILE`: runs the checks up to a level, each in its own process with a time
// limit, and tells what came of them as lines, JSON and JUnit. What is checked is in
// plugin_check_*.c.

#include "plugin_check.h"
#include "ir_replay.h"
#include "plugin_cli.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <malloc.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CHECKS = 64, MAX_JOBS = 256, TOP_LEVEL = 8 };

typedef struct check_options {
    const char *path;
    const char *json;
    const char *junit;
    const char *only;
    const char *include; ///< patterns of names
    const char *exclude;
    uint64_t seed;
    uint32_t level;
    uint32_t timeout_s;
    uint32_t streams;
    uint32_t jobs;
    bool run_only;
    bool in_process;
    bool list;
    const char *files[CHECK_GIVEN]; ///< recorded streams
    uint32_t n_files;
    check_given *given; ///< what they hold
    uint32_t n_given;
} check_options;

static const struct argp_option options_table[] = {
    {"device", 'd', "ADDRESS", 0, "OpenCL device for the kernels; default: $KILN_DEVICE, opencl:0",
     0},
    {"level", 'l', "N", 0, "checks up to this level, 1 to 8; default 4", 0},
    {"seed", 's', "N", 0, "other random streams of operations; default 1", 0},
    {"only", 'o', "NAME", 0, "this check alone", 0},
    {"include", 'i', "REGEX", 0, "of these checks, those whose names match", 0},
    {"exclude", 'x', "REGEX", 0, "of these checks, without those whose names match", 0},
    {"in-process", 'P', NULL, 0,
     "in this process, one after the other and without time limits, for a debugger", 0},
    {"streams", 'n', "N", 0,
     "streams of operations that the rules are tried on, for each fuser; half as many of all "
     "fusers "
     "run on the device; default 24",
     0},
    {"stream", 'S', "FILE", 0,
     "a recorded stream (`kiln plugin record`) that a fuser takes, to be tried as it is and on "
     "other extents, layouts and drops; may be repeated",
     0},
    {"run-only", 'R', NULL, OPTION_HIDDEN, NULL, 0},
    {"jobs", 'J', "N", 0, "checks at a time; default: as many as there are processors", 0},
    {"json", 'j', "FILE", OPTION_ARG_OPTIONAL,
     "print the result as JSON instead of text, or write it to a FILE", 0},
    {"junit", 'u', "FILE", 0, "the results as JUnit's XML", 0},
    {"timeout", 't', "SECONDS", 0, "for each check; default 60", 0},
    {"list", 'L', NULL, 0, "the checks, without a plugin", 0},
    {0},
};

static uint64_t number(struct argp_state *state, const char *text, uint64_t most)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value > most || text[0] == '-') {
        argp_error(state, "%s: write a number of at most %llu", text, (unsigned long long)most);
    }
    return value;
}

static const char *pattern(struct argp_state *state, const char *text)
{
    regex_t compiled;
    if (regcomp(&compiled, text, REG_EXTENDED | REG_NOSUB) != 0) {
        argp_error(state, "%s: no pattern, as grep -E takes it", text);
    } else {
        regfree(&compiled);
    }
    return text;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    check_options *options = state->input;
    switch (key) {
    case 'd':
        setenv("KILN_DEVICE", text, 1); // each check is a process that inherits it
        return 0;
    case 'l':
        options->level = (uint32_t)number(state, text, TOP_LEVEL);
        return 0;
    case 's':
        options->seed = number(state, text, UINT64_MAX);
        return 0;
    case 'o':
        options->only = text;
        return 0;
    case 'n':
        options->streams = (uint32_t)number(state, text, 100000);
        if (options->streams == 0) {
            argp_error(state, "--streams 0 tries nothing");
        }
        return 0;
    case 'i':
        options->include = pattern(state, text);
        return 0;
    case 'x':
        options->exclude = pattern(state, text);
        return 0;
    case 'P':
        options->in_process = true;
        return 0;
    case 'R':
        options->run_only = true;
        return 0;
    case 'S':
        if (options->n_files == CHECK_GIVEN) {
            argp_error(state, "at most %d streams", CHECK_GIVEN);
        }
        options->files[options->n_files++] = text;
        return 0;
    case 'J':
        options->jobs = (uint32_t)number(state, text, 256);
        return 0;
    case 'j':
        options->json = text != NULL ? text : "-";
        return 0;
    case 'u':
        options->junit = text;
        return 0;
    case 't':
        options->timeout_s = (uint32_t)number(state, text, 86400);
        return 0;
    case 'L':
        options->list = true;
        return 0;
    case ARGP_KEY_ARG:
        if (options->path != NULL) {
            argp_error(state, "one FILE at a time");
        }
        options->path = text;
        return 0;
    case ARGP_KEY_END:
        if (options->path == NULL && !options->list) {
            argp_error(state, "name the plugin's file");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// ---- one check in its process ----

/// What a plugin prints goes nowhere; whether it prints is a check of its own.
static void silence(void)
{
    int null = open("/dev/null", O_WRONLY);
    if (null >= 0) {
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
}

static void tell_death(const check_options *options, check_result *result, int status, bool late)
{
    char doing[200] = "";
    if (result->step[0] != '\0') {
        snprintf(doing, sizeof(doing), " during %s", result->step);
    }
    if (late) {
        snprintf(result->text, sizeof(result->text), "not done after %u s%s", options->timeout_s,
                 doing);
    } else if (WIFSIGNALED(status)) {
        snprintf(result->text, sizeof(result->text), "the process died of signal %d (%s)%s",
                 WTERMSIG(status), strsignal(WTERMSIG(status)), doing);
    } else {
        snprintf(result->text, sizeof(result->text), "the process ended itself with status %d%s",
                 WEXITSTATUS(status), doing);
    }
    result->verdict = late ? CHECK_INCONCLUSIVE : CHECK_FAILED;
}

typedef struct running { ///< a check in its process
    pid_t child; ///< 0: none
    size_t index;
    uint64_t begin;
} running;

static check check_of(const check_options *options, check_result *result, uint64_t begin)
{
    check c = {.path = options->path,
               .seed = options->seed,
               .streams = options->streams,
               .given = options->given,
               .n_given = options->n_given,
               .run_only = options->run_only,
               .begin = begin,
               .deadline = begin + options->timeout_s * UINT64_C(1000000000),
               .result = result};
    return c;
}

static running begin_check(const check_options *options, void (*work)(check *c),
                           check_result *result)
{
    running r = {.begin = kiln_time_ns()};
    fflush(NULL);
    if (options->in_process) {
        check c = check_of(options, result, r.begin);
        work(&c);
        return r;
    }
    r.child = fork();
    if (r.child == 0) {
        check c = check_of(options, result, r.begin);
        setpgid(0, 0);
        silence();
        mallopt(M_TRIM_THRESHOLD, 256 << 20); // thousands of builders and streams come and go
        work(&c);
        result->step[0] = '\1'; // came to its end
        _exit(0);
    }
    if (r.child < 0) {
        r.child = 0;
        result->verdict = CHECK_FAILED;
        snprintf(result->text, sizeof(result->text), "no process: %s", strerror(errno));
    }
    return r;
}

/// Has it ended, or has its time? Then its verdict stands.
static bool end_check(const check_options *options, running *r, check_result *result)
{
    int status = 0;
    bool late = kiln_time_ns() >= r->begin + options->timeout_s * UINT64_C(1000000000);
    if (r->child != 0) {
        bool ended = waitpid(r->child, &status, WNOHANG) == r->child;
        if (!ended && !late) {
            return false;
        }
        late = !ended;
        if (late) {
            kill(-r->child, SIGKILL);
            waitpid(r->child, &status, 0);
        }
        if (late || result->step[0] != '\1') {
            tell_death(options, result, status, late);
        }
    }
    result->ns = kiln_time_ns() - r->begin;
    r->child = 0;
    return true;
}

static void pause_a_moment(void)
{
    const struct timespec moment = {0, 2000000};
    nanosleep(&moment, NULL);
}

static void learn(check *c)
{
    if (check_load(c)) {
        check_discover(c);
    }
}

/// Finds out what the fusers take, for all checks that follow. One that dies over it does so again
/// in the checks, which say where.
static void learn_first(const check_options *options, check_result *scratch)
{
    (void)check_corpus_open(-1);
    running r = begin_check(options, learn, scratch);
    while (!end_check(options, &r, scratch)) {
        pause_a_moment();
    }
}

// ---- reports ----

static const char *const words[CHECK_VERDICTS] = {"ok", "FAIL", "skip", "inconclusive"};

static void print_line(const check_row *row, const check_result *result)
{
    printf("%-4s  %u  %-14s %s\n", words[result->verdict], row->level, row->name, row->what);
    if (result->text[0] != '\0') {
        printf("                         %s\n", result->text);
    }
}

/// The plugin's path for JSON and XML.
static char *written_path(const check_options *options)
{
    char *path = strdup(options->path);
    if (path != NULL) {
        cli_make_utf8(path);
    }
    return path;
}

static int write_json(const check_options *options, const check_row *const *rows,
                      const check_result *results, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list,
                              json_pack("{s:s, s:i, s:s, s:s, s:s, s:f}", "check", rows[i]->name,
                                        "level", (int)rows[i]->level, "what", rows[i]->what,
                                        "verdict", words[results[i].verdict], "text",
                                        results[i].text, "seconds", (double)results[i].ns * 1e-9));
    }
    char *path = written_path(options);
    json_t *root =
        json_pack("{s:s*, s:I, s:i, s:o}", "plugin", path, "seed", (json_int_t)options->seed,
                  "level", (int)options->level, "checks", list);
    bool to_stdout = strcmp(options->json, "-") == 0;
    int failed = root == NULL ? -1
                 : to_stdout  ? json_dumpf(root, stdout, JSON_INDENT(2))
                              : json_dump_file(root, options->json, JSON_INDENT(2));
    json_decref(root);
    free(path);
    if (to_stdout) {
        printf("\n");
    }
    return failed;
}

static void xml_text(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        const char *name = c == '<'   ? "&lt;"
                           : c == '>' ? "&gt;"
                           : c == '&' ? "&amp;"
                           : c == '"' ? "&quot;"
                                      : NULL;
        if (name != NULL) {
            fputs(name, file);
        } else {
            fputc(c < 0x20 ? ' ' : c, file);
        }
    }
}

static int write_junit(const check_options *options, const check_row *const *rows,
                       const check_result *results, size_t n)
{
    size_t counts[CHECK_VERDICTS] = {0};
    FILE *file = fopen(options->junit, "w");
    if (file == NULL) {
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        counts[results[i].verdict]++;
    }
    fprintf(file, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"");
    char *path = written_path(options);
    xml_text(file, path != NULL ? path : "");
    free(path);
    fprintf(file, "\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\">\n", n,
            counts[CHECK_FAILED], counts[CHECK_INCONCLUSIVE], counts[CHECK_SKIPPED]);
    for (size_t i = 0; i < n; i++) {
        fprintf(file, "  <testcase classname=\"level%u\" name=\"%s\" time=\"%.3f\"", rows[i]->level,
                rows[i]->name, (double)results[i].ns * 1e-9);
        if (results[i].verdict == CHECK_PASSED) {
            fprintf(file, "/>\n");
            continue;
        }
        fprintf(file, "><%s message=\"",
                results[i].verdict == CHECK_FAILED         ? "failure"
                : results[i].verdict == CHECK_INCONCLUSIVE ? "error"
                                                           : "skipped");
        xml_text(file, results[i].text);
        fprintf(file, "\"/></testcase>\n");
    }
    fprintf(file, "</testsuite>\n");
    return fclose(file);
}

// ---- all of it ----

static const check_row *const tables[] = {check_static_rows,   check_corpus_rows,   check_life_rows,
                                          check_rules_rows,    check_variant_rows,  check_run_rows,
                                          check_operator_rows, check_gradient_rows, check_host_rows,
                                          check_speed_rows};
enum { N_TABLES = sizeof(tables) / sizeof(tables[0]) };

/// Is the name like the pattern, which was tried before? Without one: `otherwise`.
static bool matches(const char *pattern, const char *name, bool otherwise)
{
    regex_t compiled;
    if (pattern == NULL || regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB) != 0) {
        return otherwise;
    }
    bool good = regexec(&compiled, name, 0, NULL, 0) == 0;
    regfree(&compiled);
    return good;
}

/// `--only` names a check that is there; else says which are.
static bool knows_only(const char *only)
{
    bool known = only == NULL;
    for (size_t t = 0; t < N_TABLES && !known; t++) {
        for (const check_row *row = tables[t]; row->name != NULL && !known; row++) {
            known = strcmp(only, row->name) == 0;
        }
    }
    if (known) {
        return true;
    }
    fprintf(stderr, "kiln plugin check: there is no check \"%s\"; there are", only);
    for (size_t t = 0; t < N_TABLES; t++) {
        for (const check_row *row = tables[t]; row->name != NULL; row++) {
            fprintf(stderr, "%s %s", t == 0 && row == tables[0] ? "" : ",", row->name);
        }
    }
    fprintf(stderr, "\n");
    return false;
}

static size_t choose(const check_options *options, const check_row **out)
{
    size_t n = 0;
    for (size_t t = 0; t < N_TABLES; t++) {
        for (const check_row *row = tables[t]; row->name != NULL && n < MAX_CHECKS; row++) {
            bool wanted = options->only != NULL ? strcmp(options->only, row->name) == 0
                                                : row->level <= options->level;
            if (wanted && matches(options->include, row->name, true) &&
                !matches(options->exclude, row->name, false)) {
                out[n++] = row;
            }
        }
    }
    return n;
}

static int list_checks(const check_row *const *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        printf("%u  %-14s %s\n", rows[i]->level, rows[i]->name, rows[i]->what);
    }
    return CLI_OK;
}

/// Of time on the clock: no other check runs meanwhile.
static bool is_alone(const check_row *row)
{
    return row->level == TOP_LEVEL;
}

/// Runs the checks, several at a time, and tells of them in order.
static void run_rows(const check_options *options, const check_row *const *rows, size_t n,
                     check_result *results, bool quiet)
{
    running slots[MAX_JOBS] = {{0}};
    bool done[MAX_CHECKS] = {false};
    size_t next = 0, told = 0, busy = 0;
    bool alone = false;
    while (told < n) {
        for (size_t i = 0; i < options->jobs; i++) {
            size_t at = slots[i].index;
            if (slots[i].begin != 0 && end_check(options, &slots[i], &results[at])) {
                slots[i].begin = 0;
                done[at] = true;
                alone = alone && !is_alone(rows[at]);
                busy--;
            }
            if (slots[i].begin == 0 && next < n && !alone && (busy == 0 || !is_alone(rows[next]))) {
                slots[i] = begin_check(options, rows[next]->run, &results[next]);
                slots[i].index = next;
                alone = is_alone(rows[next++]);
                busy++;
            }
        }
        for (; told < n && done[told]; told++) {
            if (!quiet) {
                print_line(rows[told], &results[told]);
            }
        }
        if (told < n) {
            pause_a_moment();
        }
    }
}

static int run_all(const check_options *options, const check_row *const *rows, size_t n,
                   check_result *results)
{
    size_t counts[CHECK_VERDICTS] = {0};
    bool quiet = options->json != NULL && strcmp(options->json, "-") == 0;
    if (rows[n - 1]->level > 1) {
        learn_first(options, &results[n]);
    }
    run_rows(options, rows, n, results, quiet);
    for (size_t i = 0; i < n; i++) {
        counts[results[i].verdict]++;
        cli_make_utf8(results[i].text);
    }
    if (!quiet) {
        printf("%s: level %u, seed %llu: %zu passed, %zu failed, %zu skipped", options->path,
               options->level, (unsigned long long)options->seed, counts[CHECK_PASSED],
               counts[CHECK_FAILED], counts[CHECK_SKIPPED]);
        if (counts[CHECK_INCONCLUSIVE] > 0) {
            printf(", %zu inconclusive", counts[CHECK_INCONCLUSIVE]);
        }
        printf("\n");
    }
    kiln_error err = KILN_ERROR_INIT;
    if (options->json != NULL && write_json(options, rows, results, n) != 0) {
        (void)kiln_fail(&err, NOT_FOUND, "%s cannot be written", options->json);
        return cli_fail("plugin check", &err);
    }
    if (options->junit != NULL && write_junit(options, rows, results, n) != 0) {
        (void)kiln_fail(&err, NOT_FOUND, "%s cannot be written", options->junit);
        return cli_fail("plugin check", &err);
    }
    bool open = counts[CHECK_INCONCLUSIVE] > 0 || (options->run_only && counts[CHECK_PASSED] == 0);
    return counts[CHECK_FAILED] > 0 ? CLI_FAILED : open ? CLI_INCONCLUSIVE : CLI_OK;
}

// ---- streams of the author's ----

/// A stream from each operation of a recorded one on. What the checks do not try ends one.
static kiln_status give(check_options *options, uint32_t file, const kiln_replay *replay,
                        kiln_error *err)
{
    size_t count = kiln_ir_graph_op_count(replay->graph);
    check_given *more =
        realloc(options->given, (options->n_given + count + 1) * sizeof(*options->given));
    if (more == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for streams");
    }
    options->given = more;
    uint32_t before = options->n_given;
    for (size_t i = 0; i < count; i++) {
        check_given *g = &options->given[options->n_given];
        g->file = options->files[file];
        g->file_number = file;
        (void)!stream_of_replay(replay, i, &g->s, err);
        bool begins = g->s.n_ops > 0 && g->s.ops[0].op != KILN_OP_DROP;
        options->n_given += begins;
    }
    return options->n_given > before ? KILN_STATUS_OK
                                     : kiln_error_context(err, "%s", options->files[file]);
}

/// Reads what --stream names. The replays stay: the streams borrow from them.
static kiln_status read_given(check_options *options, kiln_error *err)
{
    static kiln_env env;
    kiln_status status = KILN_STATUS_OK;
    env.allocator = kiln_allocator_default();
    for (uint32_t i = 0; i < options->n_files && status == KILN_STATUS_OK; i++) {
        kiln_replay *replay = NULL;
        status = kiln_replay_read(&env, options->files[i], &replay, err);
        if (status == KILN_STATUS_OK) {
            status = give(options, i, replay, err);
        }
    }
    return status;
}

int plugin_check(int argc, char **argv)
{
    static const struct argp argp = {
        options_table,
        parse,
        "FILE",
        "Checks a fuser plugin. Level 1: the file; 2: life of its objects; 3: the rules of fusing; "
        "4: results against the unfused operations; 5: its kernels; 6: broken hosts and states; 7: "
        "threads; 8: speed and honesty of its estimates.",
        NULL,
        NULL,
        NULL};
    check_options options = {.seed = 1, .level = 4, .timeout_s = 60, .streams = 24};
    const check_row *rows[MAX_CHECKS];
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    options.level = options.list ? TOP_LEVEL : options.level;
    if (options.jobs == 0) {
        long processors = sysconf(_SC_NPROCESSORS_ONLN);
        options.jobs = processors < 1 ? 1 : processors > 16 ? 16 : (uint32_t)processors;
    }
    if (!knows_only(options.only)) {
        return CLI_USAGE;
    }
    size_t n = choose(&options, rows);
    if (n == 0) {
        return cli_usage("plugin check", "--include and --exclude leave no check of level %u",
                         (unsigned)options.level);
    }
    if (options.list) {
        return list_checks(rows, n);
    }
    kiln_error err = KILN_ERROR_INIT;
    if (read_given(&options, &err) != KILN_STATUS_OK) {
        free(options.given);
        return cli_fail("plugin check", &err);
    }
    char *path = realpath(options.path, NULL); // dlopen searches for names without a slash
    check_result *results = mmap(NULL, (n + 1) * sizeof(*results), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (path == NULL || results == MAP_FAILED) {
        (void)kiln_fail(&err, NOT_FOUND, "%s: %s", options.path, strerror(errno));
        free(path);
        free(options.given);
        return cli_fail("plugin check", &err);
    }
    options.path = path;
    int code = run_all(&options, rows, n, results);
    munmap(results, (n + 1) * sizeof(*results));
    free(path);
    free(options.given);
    return code;
}
