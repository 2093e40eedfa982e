// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs: found by key, loaded from the store, or compiled; their kernels. A compiler's log
// becomes an error here. Which stay in memory is decided in cl_keep.c, what lies in the store in
// cl_program_cache.c.

#include <stdio.h>
#include <string.h>

#include "cl_ahead.h"
#include "cl_binary.h"
#include "cl_builtins.h"
#include "cl_compiler.h"
#include "cl_error.h"
#include "cl_keep.h"
#include "cl_program.h"
#include "cl_program_cache.h"
#include "cl_ptx.h"
#include "cl_queue.h"
#include "cl_record.h"
#include "cl_state.h"

// Strict arithmetic unless the options say otherwise; optional types are switched on where the
// device has them. clang for x86 warns of functions with vectors that are wider than the registers,
// and counts the warnings on standard error; no such function is called from another program.
static const char opening[] = "#ifndef KILN_CONTRACT\n"
                              "#pragma OPENCL FP_CONTRACT OFF\n"
                              "#endif\n"
                              "#ifdef cl_khr_fp64\n"
                              "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
                              "#endif\n"
                              "#ifdef cl_khr_fp16\n"
                              "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
                              "#endif\n"
                              "#if defined(__clang__) && defined(__x86_64__)\n"
                              "#pragma clang diagnostic ignored \"-Wpsabi\"\n"
                              "#endif\n"
                              "#line 1\n";

// ---- the compiler's log ----

static void log_lines(const kilni_cl_backend *backend, char *text)
{
    for (char *line = text; line != NULL;) {
        char *end = strchr(line, '\n');
        if (end != NULL) {
            *end = '\0';
        }
        if (line[0] != '\0') {
            kiln_log_write(backend->env, KILN_LOG_ERROR, "cl_backend", "compiler: %s", line);
        }
        if (end != NULL) {
            *end = '\n';
        }
        line = end != NULL ? end + 1 : NULL;
    }
}

// The first lines from the first error on, as one line. What clang says about its scratch space is
// left out, and so is the path of the file that a driver wrote the source to for its compiler.
static void summarize(const char *text, char *out, size_t capacity)
{
    static const char spelling[] = "<Spelling=";
    const char *error = strstr(text, "error:");
    while (error != NULL && error > text && error[-1] != '\n') {
        error--;
    }
    size_t length = 0;
    for (const char *from = error != NULL ? error : text; *from != '\0'; from++) {
        if (strncmp(from, spelling, sizeof(spelling) - 1) == 0 && strstr(from, ">: ") != NULL) {
            from = strstr(from, ">: ");
            continue;
        }
        if (*from == '/' && (from == text || from[-1] == ' ' || from[-1] == '\n')) {
            size_t path = strcspn(from, ": \n");
            from += from[path] == ':' && from[path + 1] != '\0' ? path + 1 : 0;
        }
        bool space = *from == '\n' || *from == ' ' || *from == '\t';
        if (space && (length == 0 || out[length - 1] == ' ')) {
            continue;
        }
        if (length + 1 == capacity) {
            break;
        }
        out[length++] = space ? ' ' : *from;
    }
    out[length] = '\0';
}

static kiln_status build_failed(kilni_cl_backend *backend, cl_program program, cl_int code,
                                const kilni_cl_build *build, kiln_error *err)
{
    size_t length = 0;
    clGetProgramBuildInfo(program, backend->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &length);
    char *text = kiln_alloc(backend->env, length + 1);
    char summary[150] = "";
    if (text != NULL && length > 0) {
        clGetProgramBuildInfo(program, backend->device, CL_PROGRAM_BUILD_LOG, length, text, NULL);
        log_lines(backend, text);
        summarize(text, summary, sizeof(summary));
    }
    kiln_free(backend->env, text);
    return kiln_fail(err, BUILD_FAILED, "%.64s does not compile (%s): %s", build->label,
                     kilni_cl_code_name(code), summary[0] != '\0' ? summary : "no log");
}

// ---- making a program ----

typedef cl_program(CL_API_CALL *create_with_il_fn)(cl_context, const void *, size_t, cl_int *);

static create_with_il_fn find_create_with_il(const kilni_cl_backend *backend)
{
    union { // ISO C has no conversion from an object pointer to a function pointer
        void *object;
        create_with_il_fn function;
    } entry = {.object = clGetExtensionFunctionAddressForPlatform(backend->platform,
                                                                  "clCreateProgramWithILKHR")};
    return entry.function;
}

static cl_program source_program(kilni_cl_backend *backend, const kilni_cl_build *build,
                                 const kiln_string *declared, cl_int *out_code)
{
    const char *texts[3] = {opening, declared != NULL ? declared->text : "", build->code};
    size_t lengths[3] = {sizeof(opening) - 1, declared != NULL ? declared->length : 0,
                         build->length};
    return clCreateProgramWithSource(backend->context, 3, texts, lengths, out_code);
}

static cl_program create_program(kilni_cl_backend *backend, const kilni_cl_build *build,
                                 cl_int *out_code)
{
    if (build->format == KILN_SOURCE_BINARY) {
        const unsigned char *bytes = build->code;
        cl_int refused = CL_SUCCESS;
        cl_program program = clCreateProgramWithBinary(backend->context, 1, &backend->device,
                                                       &build->length, &bytes, &refused, out_code);
        if (*out_code == CL_SUCCESS && refused != CL_SUCCESS) {
            *out_code = refused;
        }
        return program;
    }
    if (build->format == KILN_SOURCE_SPIRV) {
        create_with_il_fn create = find_create_with_il(backend);
        *out_code = CL_INVALID_OPERATION;
        return create != NULL ? create(backend->context, build->code, build->length, out_code)
                              : NULL;
    }
    return source_program(backend, build, NULL, out_code);
}

/// With declarations of what its text names, where the driver would read all there are: the program
/// as it is with those. NULL: it is for the driver's.
static cl_program build_declared(kilni_cl_backend *backend, const kilni_cl_build *build)
{
    cl_program program = NULL;
    cl_int code = CL_SUCCESS;
    kiln_string declared;
    kiln_string options;
    kiln_string_init(&declared, backend->env);
    kiln_string_init(&options, backend->env);
    kiln_string_printf(&options, "%s " KILNI_CL_BUILTINS_OPTION, build->options);
    if (backend->compiler.declares && build->format == KILN_SOURCE_OPENCL_C && !options.failed &&
        kilni_cl_builtins_declare(build->code, build->length, build->options, &declared)) {
        program = source_program(backend, build, &declared, &code);
        if (code == CL_SUCCESS) {
            code = clBuildProgram(program, 1, &backend->device, options.text, NULL, NULL);
        }
        if (code != CL_SUCCESS && program != NULL) {
            kiln_log_write(backend->env, KILN_LOG_DEBUG, "cl_backend",
                           "%s is compiled with the driver's header", build->label);
            clReleaseProgram(program);
            program = NULL;
        }
    }
    backend->counters.programs_declared += program != NULL;
    kiln_string_fini(&declared);
    kiln_string_fini(&options);
    return program;
}

cl_program kilni_cl_program_build(kilni_cl_backend *backend, const kilni_cl_build *build,
                                  cl_int *out_code)
{
    cl_program program = build_declared(backend, build);
    *out_code = CL_SUCCESS;
    if (program != NULL) {
        return program;
    }
    program = create_program(backend, build, out_code);
    if (*out_code == CL_SUCCESS) {
        *out_code = clBuildProgram(program, 1, &backend->device, build->options, NULL, NULL);
    } else if (program != NULL) {
        clReleaseProgram(program);
        program = NULL;
    }
    return program;
}

/// The first program for another target waits for the trial; what the store has was made after one.
static kiln_status try_ptx(kilni_cl_backend *backend, const kilni_cl_build *build, kiln_error *err)
{
    if (backend->compiler.ptx == KILNI_CL_PTX_UNTRIED) {
        backend->compiler.ptx =
            kilni_cl_ptx_trial(backend) ? KILNI_CL_PTX_RIGHT : KILNI_CL_PTX_WRONG;
    }
    return backend->compiler.ptx == KILNI_CL_PTX_RIGHT
               ? KILN_STATUS_OK
               : kiln_fail(err, UNIMPLEMENTED,
                           "%.64s is for %.16s, whose trial fails on device %.60s, driver %.30s",
                           build->label, kilni_cl_ptx_target(build->options), backend->info.name,
                           backend->info.driver);
}

static kiln_status compile(kilni_cl_backend *backend, const kilni_cl_build *build,
                           kilni_cl_program *program, kiln_error *err)
{
    if (build->format != KILN_SOURCE_BINARY && !backend->compiler.compiles) {
        return kilni_cl_compiler_missing(backend, build->label, err);
    }
    kiln_log_write(backend->env, KILN_LOG_INFO, "cl_backend", "compiling %s", build->label);
    uint64_t begin = kiln_time_ns();
    cl_int code = CL_SUCCESS;
    program->program = kilni_cl_program_build(backend, build, &code);
    bool created = program->program != NULL;
    if (created && code == CL_SUCCESS && build->format == KILN_SOURCE_OPENCL_C &&
        kilni_cl_ptx_target(build->options) != NULL) {
        kiln_status status = try_ptx(backend, build, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        code = kilni_cl_ptx_assemble(backend, build->options, &program->program);
    }
    backend->stats.build_ns += kiln_time_ns() - begin;
    if (kilni_cl_compiler_refuses(code)) {
        kilni_cl_compiler_gone(backend);
        return kilni_cl_compiler_missing(backend, build->label, err);
    }
    backend->compiler.compiled = backend->compiler.compiled || build->format != KILN_SOURCE_BINARY;
    if (!created) {
        return kilni_cl_fail(backend, err, code, "creating %s", build->label);
    }
    if (code != CL_SUCCESS) {
        return build_failed(backend, program->program, code, build, err);
    }
    if (build->format != KILN_SOURCE_BINARY) {
        backend->stats.programs_built++;
        program->storable = true;
    }
    return KILN_STATUS_OK;
}

// ---- from memory, the store or the compiler ----

static void record_source(kilni_cl_backend *backend, const kilni_cl_build *build,
                          const kilni_cl_program *program)
{
    const char *const parts[2] = {opening, build->code};
    const size_t lengths[2] = {sizeof(opening) - 1, build->length};
    bool has_source = build->format == KILN_SOURCE_OPENCL_C;
    kilni_cl_record_program(backend, program, has_source ? parts : NULL, lengths, build->options,
                            build->label);
}

static kiln_status program_make(kilni_cl_backend *backend, const kilni_cl_build *build,
                                kiln_hash128 key, kilni_cl_program **out_program, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    kilni_cl_program *program = kiln_alloc(backend->env, sizeof(*program));
    char *label = kiln_strdup(backend->env, build->label);
    if (program == NULL || label == NULL) {
        kiln_free(backend->env, program);
        kiln_free(backend->env, label);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a program");
    }
    program->key = key;
    program->label = label;
    bool stored = backend->store != NULL && build->format != KILN_SOURCE_BINARY;
    if (!stored || !kilni_cl_program_load(backend, build, program)) {
        backend->counters.cache_misses += stored;
        KILN_TRY(out, status, compile(backend, build, program, err));
        program->binary_bytes = build->format == KILN_SOURCE_BINARY ? build->length : 0;
        kilni_cl_program_compiled(backend, program);
    }
    kilni_cl_keep_weigh(backend, program);
    if (stored && !build->once) {
        kilni_cl_ahead_wish(backend, key, build->options);
    }
    record_source(backend, build, program);
    *out_program = program;
    program = NULL;
out:
    if (program != NULL) {
        kilni_cl_program_destroy(backend, program);
    }
    return status;
}

kiln_status kilni_cl_program_get(kilni_cl_backend *backend, const kilni_cl_build *build,
                                 kilni_cl_program **out_program, kiln_error *err)
{
    kiln_hash128 key = kilni_cl_build_key(backend, build);
    kilni_cl_program *program = kilni_cl_keep_find(backend, key);
    bool is_new = program == NULL;
    *out_program = NULL;
    kiln_status status = kilni_cl_usable(backend, err);
    if (status == KILN_STATUS_OK && is_new) {
        status = program_make(backend, build, key, &program, err);
    }
    if (status == KILN_STATUS_OK) {
        kilni_cl_keep_use(backend, program, is_new);
        *out_program = program;
    }
    return status;
}

bool kilni_cl_program_known(kilni_cl_backend *backend, const kilni_cl_build *build)
{
    kiln_hash128 key = kilni_cl_build_key(backend, build);
    kiln_blob entry = {0};
    if (build->format == KILN_SOURCE_BINARY || kilni_cl_keep_find(backend, key) != NULL) {
        return true;
    }
    bool stored = backend->store != NULL && kiln_store_get(backend->store, KILN_STORE_PROGRAMS, key,
                                                           &entry, NULL) == KILN_STATUS_OK;
    kiln_free(backend->env, entry.data);
    return stored;
}

void kilni_cl_program_release(kilni_cl_backend *backend, kilni_cl_program *program)
{
    if (program != NULL) {
        kilni_cl_keep_leave(backend, program);
    }
}

// ---- kernels ----

/// What launches need to know. Not knowing it would look like a fuser's fault.
static cl_int ask_kernel(kilni_cl_backend *backend, kilni_cl_kernel *kernel)
{
    cl_int code =
        clGetKernelWorkGroupInfo(kernel->kernel, backend->device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                                 sizeof(kernel->required_local), kernel->required_local, NULL);
    return code != CL_SUCCESS ? code
                              : clGetKernelInfo(kernel->kernel, CL_KERNEL_NUM_ARGS,
                                                sizeof(kernel->n_args), &kernel->n_args, NULL);
}

static kiln_status kernel_make(kilni_cl_backend *backend, kilni_cl_program *program,
                               const char *name, kilni_cl_kernel **out_kernel, kiln_error *err)
{
    kilni_cl_kernel *kernel = kiln_alloc(backend->env, sizeof(*kernel));
    char *copy = kiln_strdup(backend->env, name);
    cl_int code = CL_OUT_OF_HOST_MEMORY;
    if (kernel != NULL && copy != NULL) {
        kernel->kernel = clCreateKernel(program->program, name, &code);
    }
    if (code == CL_SUCCESS) {
        code = ask_kernel(backend, kernel);
    }
    if (code != CL_SUCCESS) {
        if (kernel != NULL && kernel->kernel != NULL) {
            clReleaseKernel(kernel->kernel);
        }
        kiln_free(backend->env, kernel);
        kiln_free(backend->env, copy);
        return kilni_cl_fail(backend, err, code, "kernel %s of %s", name, program->label);
    }
    kernel->program = program;
    kernel->name = copy;
    kernel->next = program->kernels;
    program->kernels = kernel;
    backend->programs.kernels++;
    *out_kernel = kernel;
    return KILN_STATUS_OK;
}

kiln_status kilni_cl_program_kernel(kilni_cl_backend *backend, kilni_cl_program *program,
                                    const char *name, kilni_cl_kernel **out_kernel, kiln_error *err)
{
    for (kilni_cl_kernel *kernel = program->kernels; kernel != NULL; kernel = kernel->next) {
        if (strcmp(kernel->name, name) == 0) {
            *out_kernel = kernel;
            return KILN_STATUS_OK;
        }
    }
    *out_kernel = NULL;
    return kernel_make(backend, program, name, out_kernel, err);
}
