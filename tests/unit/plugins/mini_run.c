// SPDX-License-Identifier: MIT OR Apache-2.0
// The OpenCL half of the mini host: one context for the test program, a buffer per tensor with
// guard bytes behind it, arguments as the ABI describes them, one launch after the other.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness.h"
#include "ir.h"
#include "mini_host.h"

enum { GUARD_BYTES = 64, GUARD = 0xA5 };

/* oclgrind sees what lies behind a buffer by itself. */
static size_t guard_bytes(void)
{
    return getenv("KILN_TEST_OCLGRIND") != NULL ? 0 : GUARD_BYTES;
}

static cl_context context;
static cl_device_id device;
static cl_command_queue queue;
static bool closes; // at the end of the program

/// The device `index` of all platforms in their order, as Kiln's addresses count them.
static bool find_device(cl_uint index)
{
    cl_platform_id platforms[16];
    cl_device_id devices[16];
    cl_uint n_platforms = 0;
    if (clGetPlatformIDs(16, platforms, &n_platforms) != CL_SUCCESS) {
        return false;
    }
    for (cl_uint i = 0; i < n_platforms && i < 16; i++) {
        cl_uint n = 0;
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 16, devices, &n) != CL_SUCCESS) {
            continue;
        }
        n = n < 16 ? n : 16;
        if (index < n) {
            device = devices[index];
            return true;
        }
        index -= n;
    }
    return false;
}

/// At the end of the program, not of a case: PoCL takes half a second to read its library of
/// built-in functions for each context that compiles.
static void close_opencl(void)
{
    if (queue != NULL) {
        clReleaseCommandQueue(queue);
        clReleaseContext(context);
        queue = NULL;
    }
}

bool mini_has_opencl(void)
{
    const char *address = kiln_test_address("opencl:0");
    unsigned index = 0;
    cl_int code = 0;
    bool watched = getenv("KILN_TEST_OCLGRIND") != NULL;
    if (queue != NULL && !watched) {
        return true;
    }
    close_opencl(); // oclgrind watches a device for each case, and ends badly in an exit handler
    if (sscanf(address, "opencl:%u", &index) != 1) {
        index = 0;
    }
    if (!find_device(index)) {
        kiln_test_skip("no OpenCL device");
        return false;
    }
    if (!closes && !watched) {
        closes = true;
        atexit(close_opencl);
    }
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    queue = code == CL_SUCCESS ? clCreateCommandQueue(context, device, 0, &code) : NULL;
    return KILN_CHECK_INT(code, CL_SUCCESS);
}

/// Strict arithmetic, as the host asks for it.
static const char *build_options(void)
{
    cl_device_fp_config has = 0;
    clGetDeviceInfo(device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof(has), &has, NULL);
    return (has & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0
               ? "-Werror -cl-fp32-correctly-rounded-divide-sqrt"
               : "-Werror";
}

/// PTX for sm_90 as that for sm_90a, with the instructions in comments opened; there is room for
/// one more byte.
static void make_out_for_90a(char *ptx)
{
    char *target = strstr(ptx, ".target sm_90");
    if (target != NULL) {
        target += strlen(".target sm_90");
        memmove(target + 1, target, strlen(target) + 1);
        *target = 'a';
    }
    for (char *mark = strstr(ptx, "//@"); mark != NULL; mark = strstr(mark, "//@")) {
        memset(mark, ' ', 3);
    }
}

/// The program for sm_90a of one whose source asks for it.
static cl_program assemble(cl_program program, cl_int *code)
{
    size_t length = 0;
    clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(length), &length, NULL);
    unsigned char *ptx = calloc(length + 2, 1);
    clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(ptx), &ptx, NULL);
    make_out_for_90a((char *)ptx);
    const unsigned char *bytes = ptx;
    size_t size = strlen((char *)ptx) + 1;
    clReleaseProgram(program);
    program = clCreateProgramWithBinary(context, 1, &device, &size, &bytes, NULL, code);
    *code = *code == CL_SUCCESS ? clBuildProgram(program, 1, &device, "", NULL, NULL) : *code;
    free(ptx);
    return program;
}

bool mini_has_wgmma(void)
{
    enum { MAJOR_NV = 0x4000, MINOR_NV = 0x4001 }; // cl_nv_device_attribute_query
    cl_uint major = 0, minor = 0;
    clGetDeviceInfo(device, MAJOR_NV, sizeof(major), &major, NULL);
    clGetDeviceInfo(device, MINOR_NV, sizeof(minor), &minor, NULL);
    return major == 9 && minor == 0;
}

bool mini_is_processor(void)
{
    cl_device_type type = 0;
    clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof(type), &type, NULL);
    return (type & CL_DEVICE_TYPE_CPU) != 0;
}

static cl_program build(const kf_source *source)
{
    static const char opening[] = "#if defined(__clang__) && defined(__x86_64__)\n"
                                  "#pragma clang diagnostic ignored \"-Wpsabi\"\n"
                                  "#endif\n";
    static const char strict[] = "#pragma OPENCL FP_CONTRACT OFF\n";
    static const char line[] = "#line 1\n";
    cl_int code = 0;
    const char *text = source->code.ptr;
    size_t length = source->code.len;
    bool contract = (source->math_flags & KF_MATH_CONTRACT) != 0;
    const char *texts[] = {opening, contract ? "" : strict, line, text};
    const size_t lengths[] = {sizeof(opening) - 1, strlen(texts[1]), sizeof(line) - 1, length};
    cl_program program = clCreateProgramWithSource(context, 4, texts, lengths, &code);
    if (code == CL_SUCCESS) {
        code = clBuildProgram(program, 1, &device, build_options(), NULL, NULL);
    }
    if (code == CL_SUCCESS && source->n_defines > 0) {
        program = assemble(program, &code);
    }
    if (code != CL_SUCCESS) {
        static char log[1 << 16];
        log[0] = '\0';
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof(log) - 1, log, NULL);
        KILN_FAIL("build: %d\n%s\n%.*s", code, log, (int)length, text);
        clReleaseProgram(program);
        return NULL;
    }
    return program;
}

enum { MAX_TEMPS = 16 };

typedef struct run_state {
    cl_mem temps[MAX_TEMPS];
    cl_mem buffers[MINI_MAX_TENSORS];
    bool written[MINI_MAX_TENSORS];
} run_state;

static bool make_buffer(mini_host *mini, run_state *run, uint32_t id, bool write)
{
    mini_tensor *t = &mini->tensors[id];
    unsigned char guard[GUARD_BYTES];
    cl_int code = 0;
    if (!KILN_CHECK(id < mini->n_tensors)) {
        return false;
    }
    run->written[id] = run->written[id] || write;
    if (run->buffers[id] != NULL) {
        return true;
    }
    if (t->same_memory_as >= 0) {
        uint32_t other = (uint32_t)t->same_memory_as;
        if (!make_buffer(mini, run, other, false)) {
            return false;
        }
        run->buffers[id] = run->buffers[other];
        clRetainMemObject(run->buffers[id]);
        return true;
    }
    memset(guard, GUARD, sizeof(guard));
    run->buffers[id] =
        clCreateBuffer(context, CL_MEM_READ_WRITE, t->bytes + guard_bytes(), NULL, &code);
    if (code == CL_SUCCESS) {
        code = clEnqueueWriteBuffer(queue, run->buffers[id], CL_TRUE, 0, t->bytes, t->data, 0, NULL,
                                    NULL);
    }
    if (code == CL_SUCCESS && guard_bytes() > 0) {
        code = clEnqueueWriteBuffer(queue, run->buffers[id], CL_TRUE, t->bytes, GUARD_BYTES, guard,
                                    0, NULL, NULL);
    }
    return KILN_CHECK_INT(code, CL_SUCCESS);
}

static bool read_back(mini_host *mini, run_state *run, uint32_t id)
{
    mini_tensor *t = &mini->tensors[id];
    unsigned char guard[GUARD_BYTES], expected[GUARD_BYTES];
    memset(expected, GUARD, sizeof(expected));
    if (!KILN_CHECK_INT(clEnqueueReadBuffer(queue, run->buffers[id], CL_TRUE, 0, t->bytes, t->data,
                                            0, NULL, NULL),
                        CL_SUCCESS)) {
        return false;
    }
    return guard_bytes() == 0 ||
           (KILN_CHECK_INT(clEnqueueReadBuffer(queue, run->buffers[id], CL_TRUE, t->bytes,
                                               GUARD_BYTES, guard, 0, NULL, NULL),
                           CL_SUCCESS) &&
            KILN_CHECK_MEM(guard, expected, sizeof(guard)));
}

static bool set_integer(cl_kernel kernel, uint32_t n, uint32_t dtype, int64_t value)
{
    int32_t narrow = (int32_t)value;
    return KILN_CHECK_INT(dtype == KF_DTYPE_I64
                              ? clSetKernelArg(kernel, n, sizeof(value), &value)
                              : clSetKernelArg(kernel, n, sizeof(narrow), &narrow),
                          CL_SUCCESS);
}

static bool set_scalar(const mini_host *mini, cl_kernel kernel, uint32_t n, const kf_karg *arg)
{
    unsigned char element[8] = {0};
    kiln_attr number = {.type = KILN_ATTR_I64, .count = 1};
    if (!KILN_CHECK(arg->ref < mini->n_scalars)) {
        return false;
    }
    number.v.i = mini->scalars_i[arg->ref];
    if (mini->scalars_are_float[arg->ref]) {
        number.type = KILN_ATTR_F64;
        number.v.f = mini->scalars_f[arg->ref];
    }
    return KILN_CHECK(kiln_number_store(&number, (kiln_dtype)arg->dtype, element)) &&
           KILN_CHECK_INT(clSetKernelArg(kernel, n, kf_dtype_of(arg->dtype).bytes, element),
                          CL_SUCCESS);
}

static bool set_arg(mini_host *mini, run_state *run, cl_kernel kernel, uint32_t n,
                    const kf_karg *arg)
{
    int64_t value = 0;
    switch (arg->kind) {
    case KF_ARG_TENSOR:
        return make_buffer(mini, run, arg->ref, (arg->access & KF_ACCESS_WRITE) != 0) &&
               KILN_CHECK_INT(clSetKernelArg(kernel, n, sizeof(cl_mem), &run->buffers[arg->ref]),
                              CL_SUCCESS);
    case KF_ARG_OFFSET:
        return set_integer(kernel, n, arg->dtype, mini->tensors[arg->ref].offset);
    case KF_ARG_STRIDE:
        return KILN_CHECK(arg->axis < KF_MAX_RANK) &&
               set_integer(kernel, n, arg->dtype, mini->tensors[arg->ref].strides[arg->axis]);
    case KF_ARG_DIM:
        return KILN_CHECK(arg->ref < mini->n_symbols) &&
               set_integer(kernel, n, arg->dtype, mini->symbols[arg->ref]);
    case KF_ARG_SCALAR:
        return set_scalar(mini, kernel, n, arg);
    case KF_ARG_TEMP:
        return KILN_CHECK(arg->ref < MAX_TEMPS) &&
               KILN_CHECK_INT(clSetKernelArg(kernel, n, sizeof(cl_mem), &run->temps[arg->ref]),
                              CL_SUCCESS);
    case KF_ARG_LOCAL:
        return KILN_CHECK(mini_eval(mini, arg->value, &value)) && KILN_CHECK(value > 0) &&
               KILN_CHECK_INT(clSetKernelArg(kernel, n, (size_t)value, NULL), CL_SUCCESS);
    case KF_ARG_VALUE:
        return KILN_CHECK(mini_eval(mini, arg->value, &value)) &&
               set_integer(kernel, n, arg->dtype, value);
    default:
        KILN_FAIL("argument kind %u", arg->kind);
        return false;
    }
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool launch(mini_host *mini, run_state *run, cl_program program, const kf_launch *what,
                   uint32_t repeat, uint64_t *out_ns)
{
    size_t global[3] = {1, 1, 1}, local[3] = {1, 1, 1};
    char name[128];
    cl_int code = 0;
    bool ok = true, has_local = true;
    snprintf(name, sizeof(name), "%.*s", (int)what->kernel.len, what->kernel.ptr);
    cl_kernel kernel = clCreateKernel(program, name, &code);
    ok = KILN_CHECK_INT(code, CL_SUCCESS);
    for (uint32_t i = 0; ok && i < what->n_args; i++) {
        ok = set_arg(mini, run, kernel, i, &what->args[i]);
    }
    for (uint32_t i = 0; ok && i < what->dims; i++) {
        int64_t value = 0;
        ok = KILN_CHECK(mini_eval(mini, what->global[i], &value)) && KILN_CHECK(value > 0);
        global[i] = (size_t)value;
        has_local = has_local && what->local[i].n > 0;
        ok = ok && (!has_local || KILN_CHECK(mini_eval(mini, what->local[i], &value)));
        local[i] = (size_t)value;
    }
    for (uint32_t r = 0; ok && r < repeat; r++) {
        uint64_t start = now_ns();
        ok = KILN_CHECK_INT(clEnqueueNDRangeKernel(queue, kernel, what->dims, NULL, global,
                                                   has_local ? local : NULL, 0, NULL, NULL),
                            CL_SUCCESS) &&
             KILN_CHECK_INT(clFinish(queue), CL_SUCCESS);
        uint64_t taken = now_ns() - start;
        *out_ns = r == 0 || taken < *out_ns ? taken : *out_ns;
    }
    clReleaseKernel(kernel);
    return ok;
}

static bool make_temps(const mini_host *mini, run_state *run, const kf_program *view)
{
    cl_int code = CL_SUCCESS;
    bool ok = KILN_CHECK(view->n_temps <= MAX_TEMPS);
    for (uint64_t i = 0; ok && i < view->n_temps; i++) {
        int64_t bytes = 0;
        ok = KILN_CHECK(mini_eval(mini, view->temps[i].bytes, &bytes)) && KILN_CHECK(bytes > 0);
        if (ok) {
            run->temps[i] = clCreateBuffer(context, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &code);
            ok = KILN_CHECK_INT(code, CL_SUCCESS);
        }
    }
    return ok;
}

static bool run_launch(mini_host *mini, run_state *run, const kf_program *view, uint32_t index,
                       uint32_t repeat, uint64_t *out_ns)
{
    if (!KILN_CHECK(index < view->n_launches)) {
        return false;
    }
    const kf_launch *what = view->launches[index];
    cl_program program = build(view->sources[what->source]);
    bool ok = program != NULL && launch(mini, run, program, what, repeat, out_ns);
    if (program != NULL) {
        clReleaseProgram(program);
    }
    return ok;
}

bool mini_run_ns(mini_host *mini, const kf_opt *opt, uint32_t repeat, uint64_t *out_ns)
{
    kf_program view = {.struct_size = (uint32_t)sizeof(view)};
    run_state *run = calloc(1, sizeof(*run));
    bool ok = run != NULL && KILN_CHECK_INT(mini->plugin->opt_describe(opt, 0, &view), KF_OK) &&
              make_temps(mini, run, &view);
    uint64_t prepacks = 0;
    for (uint64_t i = 0; ok && i < view.n_temps; i++) {
        if ((view.temps[i].flags & KF_TEMP_PERSISTENT) != 0) {
            ok = run_launch(mini, run, &view, view.temps[i].prepack, 1, out_ns);
            prepacks++;
        }
    }
    ok = ok && KILN_CHECK_INT(view.n_steps + prepacks, view.n_launches);
    for (uint64_t i = 0; ok && i < view.n_steps; i++) {
        ok = run_launch(mini, run, &view, view.steps[i].index, repeat, out_ns);
    }
    for (uint32_t i = 0; run != NULL && i < mini->n_tensors; i++) {
        if (run->written[i]) {
            ok = ok && read_back(mini, run, i);
        }
    }
    for (uint32_t i = 0; run != NULL && i < mini->n_tensors; i++) {
        if (run->buffers[i] != NULL) {
            clReleaseMemObject(run->buffers[i]);
        }
    }
    for (uint32_t i = 0; run != NULL && i < MAX_TEMPS; i++) {
        if (run->temps[i] != NULL) {
            clReleaseMemObject(run->temps[i]);
        }
    }
    free(run);
    return ok;
}

bool mini_run(mini_host *mini, const kf_opt *opt)
{
    uint64_t ns = 0;
    return mini_run_ns(mini, opt, 1, &ns);
}
