// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln cache prepare --builtin`: compiles Kiln's own kernels into the cache before a program asks
// for them. Each operator that has one runs with its samples. A driver compiles one program
// at a time, so several processes share the operators out among themselves.

#include "cl_backend.h"
#include "cli.h"
#include "samples.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_JOBS = 64 };

typedef struct builtin_options {
    cli_device_options device;
    unsigned long jobs; ///< 0: one for each processor
    bool named; ///< some operators, and no others
    bool ops[KILN_OP_COUNT];
} builtin_options;

enum { OPTION_JOBS = 256 };

static const struct argp_option builtin_table[] = {
    {"jobs", OPTION_JOBS, "N", 0, "processes that compile (default: one for each processor)", 0},
    {0},
};

static error_t parse_builtin_option(int key, char *text, struct argp_state *state)
{
    builtin_options *options = state->input;
    char *end = NULL;
    switch (key) {
    case OPTION_JOBS:
        options->jobs = strtoul(text, &end, 10);
        if (end == text || *end != '\0' || options->jobs == 0 || options->jobs > MOST_JOBS) {
            argp_error(state, "say --jobs 1 to %d, not \"%s\"", MOST_JOBS, text);
        }
        return 0;
    case ARGP_KEY_ARG:
        if (kiln_op_from_name(text) == KILN_OP_COUNT) {
            argp_error(state, "there is no operator %s; `kiln ops` lists them", text);
        }
        options->named = true;
        options->ops[kiln_op_from_name(text)] = true;
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->device;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/// Of all processes.
typedef struct builtin_shared {
    atomic_uint next; ///< the next piece of work
    atomic_uint ops; ///< with a sample that ran
    atomic_ullong compiled;
    atomic_ullong stored; ///< before
    atomic_uint failed;
    kiln_error err; ///< the first failure
} builtin_shared;

static void note_failure(builtin_shared *shared, const kiln_error *err, const char *what)
{
    if (atomic_fetch_add(&shared->failed, 1) == 0) {
        shared->err = *err;
        (void)kiln_error_context(&shared->err, "%s", what);
    }
}

// ---- one operator ----

/// What is recorded most: shapes and masks are of the others. Casts are of all of them.
static const kiln_dtype builtin_dtypes[] = {KILN_DTYPE_F32, KILN_DTYPE_I64, KILN_DTYPE_BOOL,
                                            KILN_DTYPE_I32, KILN_DTYPE_U8};
enum { BUILTIN_DTYPES = sizeof(builtin_dtypes) / sizeof(builtin_dtypes[0]) };

/// Elementwise operators run in fused blocks, and there are many: only casts are prepared unnamed.
static bool is_builtin_chosen(const builtin_options *options, kiln_op op)
{
    bool common = kiln_op_info_of(op)->cls != KILN_CLASS_ELEMENTWISE || op == KILN_OP_CAST;
    return options->named ? options->ops[op] : common;
}

/// Whether the samples of this dtype are run: of the first that the operator takes, and for a cast
/// of all. Products of f32 are CLBlast's, which keeps no programs with us.
static bool is_builtin_wanted(const builtin_options *options, kiln_op op, uint32_t dtype)
{
    const kiln_op_info *info = kiln_op_info_of(op);
    uint32_t first = op == KILN_OP_MATMUL ? 1 : 0;
    bool special = info->cls == KILN_CLASS_CONTROL || info->cls == KILN_CLASS_VIEW ||
                   info->cls == KILN_CLASS_COLLECTIVE || info->cls == KILN_CLASS_CUSTOM;
    if (special || dtype < first || !is_builtin_chosen(options, op) ||
        ((unsigned)kiln_dtype_kind_of(builtin_dtypes[dtype]) & (unsigned)info->accept) == 0) {
        return false;
    }
    for (uint32_t i = first; i < dtype && op != KILN_OP_CAST; i++) {
        if (((unsigned)kiln_dtype_kind_of(builtin_dtypes[i]) & (unsigned)info->accept) != 0) {
            return false;
        }
    }
    return true;
}

typedef struct builtin_run {
    kiln_backend *backend;
    builtin_shared *shared;
    bool ran;
} builtin_run;

static kiln_status execute_sample(kiln_backend *backend, const kiln_op_record *record,
                                  const void *const *data, kiln_error *err)
{
    kiln_view views[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS] = {0};
    uint32_t total = (uint32_t)record->n_inputs + record->n_outputs;
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < total && status == KILN_STATUS_OK; i++) {
        bool is_input = i < record->n_inputs;
        const kiln_tensor_desc *desc =
            is_input ? &record->inputs[i] : &record->outputs[i - record->n_inputs];
        size_t bytes = (size_t)kiln_desc_bytes(desc);
        kiln_buffer *buffer = NULL;
        status = backend->memory->alloc(backend, bytes > 0 ? bytes : 1, &buffer, err);
        views[i] = kiln_view_dense(desc, buffer);
        if (status == KILN_STATUS_OK && is_input && bytes > 0) {
            status = backend->transfer->upload(backend, buffer, 0, data[i], bytes, err);
        }
    }
    if (status == KILN_STATUS_OK) {
        status = backend->device->execute(backend, record, views, views + record->n_inputs, err);
    }
    if (status == KILN_STATUS_OK) {
        status = backend->device->sync(backend, err);
    }
    for (uint32_t i = 0; i < total; i++) {
        if (views[i].buffer != NULL) {
            backend->memory->free(backend, views[i].buffer);
        }
    }
    return status;
}

static void take_builtin_sample(const kiln_op_record *record, const void *const *data, void *user)
{
    builtin_run *run = user;
    kiln_error err = KILN_ERROR_INIT;
    if (record->outputs == NULL || kiln_ir_is_expanded(run->backend, record)) {
        return; // the operators that it is recorded as have samples of their own
    }
    run->ran = true;
    if (execute_sample(run->backend, record, data, &err) != KILN_STATUS_OK) {
        note_failure(run->shared, &err, kiln_op_info_of(record->op)->name);
    }
}

// ---- a process ----

/// Takes operators until there are none left.
static void share_builtin(const builtin_options *options, kiln_backend *backend,
                          const kiln_env *env, builtin_shared *shared)
{
    builtin_run run = {.backend = backend, .shared = shared};
    kiln_sample_sink sink = {.env = env, .take = take_builtin_sample, .user = &run};
    for (;;) {
        uint32_t piece = atomic_fetch_add(&shared->next, 1);
        kiln_op op = (kiln_op)(piece / BUILTIN_DTYPES);
        if (piece >= (uint32_t)KILN_OP_COUNT * BUILTIN_DTYPES) {
            return;
        }
        run.ran = false;
        if (is_builtin_wanted(options, op, piece % BUILTIN_DTYPES)) {
            kiln_samples_make(op, builtin_dtypes[piece % BUILTIN_DTYPES], &sink);
        }
        atomic_fetch_add(&shared->ops, run.ran ? 1 : 0);
    }
}

static void prepare_builtin(const builtin_options *options, builtin_shared *shared)
{
    kiln_context *context = NULL;
    kiln_backend *backend = NULL;
    kiln_backend_stats stats = {0};
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = cli_open_context(&options->device, &context, &err);
    const kiln_env *env = status == KILN_STATUS_OK ? kiln_context_env(context) : NULL;
    if (status == KILN_STATUS_OK) {
        status = cli_open_opencl(&options->device, env, &backend, &err);
    }
    if (status == KILN_STATUS_OK) {
        kiln_cl_prepare_for_others(backend);
        share_builtin(options, backend, env, shared);
        backend->device->stats(backend, &stats);
        atomic_fetch_add(&shared->compiled, stats.programs_built);
        atomic_fetch_add(&shared->stored, stats.programs_loaded);
        backend->device->close(backend); // writes the programs
    } else {
        note_failure(shared, &err, "opening the device");
    }
    if (context != NULL) {
        cli_close_context(context);
    }
}

static uint32_t count_jobs(const builtin_options *options)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned long jobs = options->jobs != 0 ? options->jobs
                         : processors > 0   ? (unsigned long)processors
                                            : 1;
    return (uint32_t)(jobs < MOST_JOBS ? jobs : MOST_JOBS);
}

static kiln_status run_jobs(const builtin_options *options, uint32_t jobs, builtin_shared *shared,
                            kiln_error *err)
{
    pid_t children[MOST_JOBS];
    bool died = false;
    fflush(NULL);
    for (uint32_t i = 0; i < jobs; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            prepare_builtin(options, shared);
            _exit(0);
        }
    }
    for (uint32_t i = 0; i < jobs; i++) {
        int status = 0;
        died = died || children[i] < 0 || waitpid(children[i], &status, 0) != children[i] ||
               status != 0;
    }
    if (atomic_load(&shared->failed) > 0) {
        *err = shared->err;
        return (kiln_status)shared->err.code;
    }
    return died ? kiln_fail(err, UNAVAILABLE, "a process that compiles could not run to its end")
                : KILN_STATUS_OK;
}

int cmd_cache_builtin(int argc, char **argv)
{
    static const struct argp_child children[] = {{&cli_device_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        builtin_table,
        parse_builtin_option,
        "[OPERATOR...]",
        "Compiles Kiln's own kernels for a device, or those of some operators, and keeps them in "
        "the cache, so that no program waits for them.",
        children,
        NULL,
        NULL};
    builtin_options options = {.jobs = 0};
    kiln_error err = KILN_ERROR_INIT;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    uint32_t jobs = count_jobs(&options);
    uint64_t begin = kiln_time_ns();
    builtin_shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    kiln_status status = shared != MAP_FAILED ? run_jobs(&options, jobs, shared, &err)
                                              : kiln_fail(&err, RESOURCE_EXHAUSTED,
                                                          "no shared memory: %s", strerror(errno));
    if (status != KILN_STATUS_OK) {
        return cli_fail("cache prepare --builtin", &err);
    }
    char taken[32];
    printf("%llu programs compiled, %llu were stored; %u operators, by %u %s, in %s\n",
           (unsigned long long)shared->compiled, (unsigned long long)shared->stored, shared->ops,
           jobs, jobs == 1 ? "process" : "processes",
           cli_format_ns(taken, (double)(kiln_time_ns() - begin)));
    (void)munmap(shared, sizeof(*shared));
    return CLI_OK;
}
