// SPDX-License-Identifier: MIT OR Apache-2.0
// What the generated program of null_arguments.py hands to functions in place of the pointers that
// are not NULL: one object of each kind that Kiln makes, on the reference device, which has no
// threads; and a loop that calls one function after another in a child that may die.
#ifndef KILN_TESTS_NULL_VALUES_H
#define KILN_TESTS_NULL_VALUES_H

#include <kiln/base.h>
#include <kiln/collective.h>
#include <kiln/ir.h>
#include <kiln/ir_expand.h>
#include <kiln/ir_index_range.h>
#include <kiln/ir_resample.h>
#include <kiln/kiln.h>
#include <kiln/kiln_custom.h>
#include <kiln/kiln_grad.h>
#include <kiln/kiln_opencl.h>
#include <kiln/kiln_train.h>
#include <kiln/onnx.h>
#include <kiln/remote_grpc.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOM = 1 << 16, MOST_ARGUMENTS = 16, LIMIT_S = 30 };

static kiln_error err = KILN_ERROR_INIT;
static _Alignas(64) char room[MOST_ARGUMENTS][ROOM]; ///< what other pointers point to, zeroed
static int64_t ones[64];
static kiln_env env;
static kiln_context *context;
static kiln_device *device;
static kiln_tensor *tensor;
static kiln_tensor *tensors[64];
static kiln_device *devices[2];
static kiln_stream *stream;
static kiln_event *event;
static kiln_request *request;
static kiln_handle *handle;
static kiln_mapping *mapping;
static kiln_graph *graph;
static kiln_config *config;
static kiln_store *store;
static kiln_dynlib *library;
static kiln_arena arena;
static kiln_string string;
static kiln_ir_graph *ir_graph;
static kiln_replay *replay;
static kiln_judge *judge;
static kiln_tape *tape;
static kiln_params *params;
static kiln_params *param_sets[2];
static kiln_optimiser *optimiser;
static kiln_collective *collective;
static kiln_gradsync *job;
static kiln_coll_group *group;
static kiln_coll_member *member;
static kiln_coll_memory *memory;
static kiln_backend *backend;
static kiln_bundle *bundle; ///< NULL: bundles are of OpenCL devices
static kiln_bundle_maker *maker;
static kiln_onnx_model *model;
static kiln_onnx_session *session;
static kiln_rpc_server *server;
static kiln_op_record record;
static kiln_tensor_desc descs[3];
static kiln_view view;

static void need(kiln_status status, const char *what)
{
    if (status != KILN_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", what, err.message);
        exit(3);
    }
}

#define NEED(call) need(call, #call)

static void make_ir(void)
{
    const char *text = "input %1: f32[1]\n%2: f32[1] = neg(%1: f32[1])\noutput %2\n";
    NEED(kiln_ir_parse(&env, text, &ir_graph, &err));
    record = *kiln_ir_graph_op(ir_graph, 0);
    static const float zero[1];
    static const void *const inputs[] = {zero};
    NEED(kiln_judge_create(&env, ir_graph, inputs, &judge, &err));
    kiln_ir_graph *taken = NULL;
    NEED(kiln_ir_parse(&env, text, &taken, &err));
    NEED(kiln_replay_create(&env, taken, NULL, NULL, &replay, &err));
    view = kiln_view_dense(&record.inputs[0], NULL);
}

static void make_groups(void)
{
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    options.ranks = 1;
    NEED(kiln_coll_group_create(&env, &options, &group, &err));
    NEED(kiln_coll_host_memory_create(&env, &memory, &err));
    NEED(kiln_coll_member_create(group, 0, memory, NULL, &member, &err));
    NEED(kiln_collective_create(devices, 1, NULL, &collective, &err));
    NEED(kiln_gradsync_start(context, "job", devices, 1, NULL, &job, &err));
}

static void make_tensors(void)
{
    static float data[1];
    kiln_tensor *y = NULL;
    NEED(kiln_tensor_create(device, KILN_DTYPE_F32, 1, ones, data, &tensor, &err));
    NEED(kiln_graph_begin(device, &tensor, 1, &err));
    NEED(kiln_neg(tensor, &y, &err));
    NEED(kiln_graph_end(device, &y, 1, &graph, &err));
    kiln_release(y);
    for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++) {
        tensors[i] = tensor;
    }
    NEED(kiln_stream_create(device, &stream, &err));
    NEED(kiln_event_record(device, &event, &err));
    NEED(kiln_read_async(tensor, data, sizeof(data), &request, &err));
    NEED(kiln_tensor_to_handle(tensor, KILN_HANDLE_FLOAT, &handle, &err));
    const void *seen = NULL;
    NEED(kiln_tensor_map(tensor, &seen, &mapping, &err));
    NEED(kiln_tape_create(device, &tape, &err));
    NEED(kiln_params_create(device, 1, &params, &err));
    NEED(kiln_params_add_tensor(params, "w", tensor, &err));
    param_sets[0] = param_sets[1] = params;
    NEED(kiln_bundle_maker_create(&env, &maker, &err));
    NEED(kiln_optimiser_create(params, NULL, &optimiser, &err));
}

/// `argv`: the program, a folder for files, a model.
static void make_values(char **argv)
{
    for (size_t i = 0; i < sizeof(ones) / sizeof(ones[0]); i++) {
        ones[i] = 1;
    }
    env.allocator = kiln_allocator_default();
    NEED(kiln_config_create(&env.allocator, NULL, false, &config, &err));
    NEED(kiln_store_open(&env, argv[1], &store, &err));
    NEED(kiln_dynlib_open(&env, "libc.so.6", false, &library, &err));
    kiln_arena_init(&arena, &env);
    kiln_string_init(&string, &env);
    NEED(kiln_backend_open(kiln_ir_reference_provider(), &env, "reference", &backend, &err));
    NEED(kiln_context_create(NULL, &context, &err));
    NEED(kiln_device_open(context, "reference", &device, &err));
    devices[0] = devices[1] = device;
    make_tensors();
    make_ir();
    make_groups();
    NEED(kiln_onnx_model_open(&env, argv[2], &model, &err));
    NEED(kiln_onnx_session_create(model, device, &session, &err));
    NEED(kiln_rpc_server_create(devices, 1, NULL, &server, &err));
}

/// For functions that take their graph over.
static kiln_ir_graph *fresh_graph(void)
{
    kiln_ir_graph *made = NULL;
    NEED(kiln_ir_graph_create(&env, &made, &err));
    return made;
}

/// A callback: takes what it gets and wants nothing.
static int stub(void)
{
    return 0;
}

typedef struct null_case {
    const char *name;
    int (*call)(void); ///< gives the status, -1 where the function has none
    bool all; ///< every pointer is NULL
} null_case;

typedef struct progress {
    volatile size_t at;
    volatile int finished;
} progress;

/// A function that is given nothing has nothing to do, and it is the caller's mistake.
static bool keeps_the_rule(const null_case *tried, int status)
{
    return !tried->all || status == -1 || status == KILN_STATUS_INVALID_ARGUMENT;
}

static void run_from(const null_case *cases, size_t count, progress *p, char **argv)
{
    make_values(argv);
    for (; p->at < count; p->at++) {
        memset(room, 0, sizeof(room));
        err = (kiln_error)KILN_ERROR_INIT;
        alarm(LIMIT_S);
        int status = cases[p->at].call();
        if (!keeps_the_rule(&cases[p->at], status)) {
            printf("STATUS %s: %s\n", cases[p->at].name, kiln_status_name((kiln_status)status));
        }
    }
    p->finished = 1;
    fflush(stdout);
    _exit(0);
}

/// Prints a line for each call that ends its process, and goes on behind it.
static int run_cases(const null_case *cases, size_t count, char **argv)
{
    progress *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int bad = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (!p->finished && p->at < count && bad < 1000) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            run_from(cases, count, p, argv);
        }
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 3) {
            return 3;
        }
        if (!p->finished) {
            printf("DIED %s: %s\n", cases[p->at].name,
                   WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "ended the process");
            p->at++;
            bad++;
        }
    }
    printf("CALLS %zu\n", count);
    return 0;
}

#endif
