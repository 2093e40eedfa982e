// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs that fusers described: made ready, launched, timed. Formulas are already numbers here,
// buffers already chosen; what is checked is what the driver would not check.

#include <string.h>

#include "cl_binary.h"
#include "cl_built.h"
#include "cl_compiler.h"
#include "cl_error.h"
#include "cl_launch.h"
#include "cl_packed.h"
#include "cl_program.h"
#include "cl_queue.h"
#include "cl_state.h"

typedef struct built { ///< what a kiln_built is here
    kilni_cl_program **programs;
    uint32_t n_programs;
    kilni_cl_kernel **kernels; ///< of each launch
    kilni_cl_kernel **packed; ///< those that take the same in one argument; NULL: there is none
    uint32_t n_kernels;
} built;

static built *built_of(kiln_built *given)
{
    return (built *)(void *)given;
}

// ---- building ----

static void append_options(const kilni_cl_backend *backend, const kiln_program_source *source,
                           kiln_string *options)
{
    uint32_t version = source->cl_c_version != 0 ? source->cl_c_version : 120;
    if (source->options != NULL) {
        kiln_string_printf(options, "%s", source->options);
        if ((source->math & KILN_MATH_APPROXIMATE) == 0) {
            kiln_string_printf(options, " %s", backend->compiler.exact_options);
        }
        return;
    }
    if (source->format == KILN_SOURCE_OPENCL_C) {
        kiln_string_printf(options, "-cl-std=CL%u.%u", version / 100, version / 10 % 10);
    }
    if ((source->math & KILN_MATH_APPROXIMATE) != 0) {
        kiln_string_printf(options, " -cl-fast-relaxed-math");
    } else {
        kiln_string_printf(options, " %s", backend->compiler.exact_options);
    }
    if ((source->math & KILN_MATH_REASSOCIATE) != 0) {
        kiln_string_printf(options, " -cl-unsafe-math-optimizations");
    }
    if ((source->math & KILN_MATH_FLUSH) != 0) {
        kiln_string_printf(options, " -cl-denorms-are-zero");
    }
    if ((source->math & KILN_MATH_CONTRACT) != 0) {
        kiln_string_printf(options, " -DKILN_CONTRACT=1");
    }
    for (uint32_t i = 0; i < source->n_defines; i++) {
        kiln_string_printf(options, " -D%s", source->defines[i]);
    }
    if (source->vendor_options != NULL) {
        kiln_string_printf(options, " %s", source->vendor_options);
    }
}

static kiln_status check_source(const kilni_cl_backend *backend, const kiln_program_source *source,
                                kiln_error *err)
{
    static const kiln_hash128 any = {0, 0};
    for (uint32_t i = 0; i < source->n_defines; i++) {
        if (strpbrk(source->defines[i], " \t\n\"'\\") != NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "define %.60s holds a space or a quote",
                             source->defines[i]);
        }
    }
    if (source->format == KILN_SOURCE_BINARY &&
        memcmp(&source->fingerprint, &any, sizeof(any)) != 0 &&
        memcmp(&source->fingerprint, &backend->info.fingerprint, sizeof(any)) != 0) {
        char have[33];
        char want[33];
        kiln_hash_hex(backend->info.fingerprint, have);
        kiln_hash_hex(source->fingerprint, want);
        return kiln_fail(err, FAILED_PRECONDITION, "binary is for device %s, this one is %s", want,
                         have);
    }
    if (source->format == KILN_SOURCE_SPIRV &&
        (backend->info.features & KILN_FEATURE_IL_SPIRV) == 0) {
        return kiln_fail(err, UNIMPLEMENTED, "device %s takes no SPIR-V", backend->info.name);
    }
    return KILN_STATUS_OK;
}

// Makes the program of a text; without `out_program` only asks whether that could be done.
static kiln_status build_text(kilni_cl_backend *backend, const kilni_cl_build *build,
                              kilni_cl_program **out_program, kiln_error *err)
{
    if (out_program != NULL) {
        return kilni_cl_program_get(backend, build, out_program, err);
    }
    return backend->compiler.compiles || kilni_cl_program_known(backend, build)
               ? KILN_STATUS_OK
               : kilni_cl_compiler_missing(backend, build->label, err);
}

// With the packed kernels behind it; where these do not compile, without.
static kiln_status build_source(kilni_cl_backend *backend, const kiln_program *program,
                                uint32_t index, const char *label, kilni_cl_program **out_program,
                                kiln_error *err)
{
    const kiln_program_source *source = &program->sources[index];
    kiln_status status = check_source(backend, source, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_string options;
    kiln_string packed;
    kiln_string_init(&options, backend->env);
    kiln_string_init(&packed, backend->env);
    append_options(backend, source, &options);
    kilni_cl_packed_text(backend, program, index, &packed);
    kilni_cl_build build = {.format = source->format,
                            .code = source->code,
                            .length = source->length,
                            .options = options.text != NULL ? options.text : "",
                            .label = label};
    status = KILN_STATUS_BUILD_FAILED;
    if (options.failed || packed.failed) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for compiler options");
    } else if (packed.text != NULL) {
        kiln_string both;
        kiln_string_init(&both, backend->env);
        kiln_string_append(&both, source->code, source->length);
        kiln_string_append(&both, packed.text, packed.length);
        kilni_cl_build with = build;
        with.code = both.text;
        with.length = both.length;
        status = both.failed ? status : build_text(backend, &with, out_program, NULL);
        kiln_string_fini(&both);
    }
    if (status != KILN_STATUS_OK && !options.failed && !packed.failed) {
        status = build_text(backend, &build, out_program, err);
    }
    kiln_string_fini(&packed);
    kiln_string_fini(&options);
    return status;
}

// A program's first kernel names it for people.
static const char *label_of(const kiln_program *program, uint32_t source)
{
    for (uint32_t i = 0; i < program->n_launches; i++) {
        if (program->launches[i].source == source) {
            return program->launches[i].kernel;
        }
    }
    return "fused program";
}

static kilni_cl_kernel *find_packed(kilni_cl_backend *backend, const kiln_program *program,
                                    uint32_t launch, kilni_cl_program *made)
{
    kilni_cl_kernel *kernel = NULL;
    kiln_string name;
    kiln_string_init(&name, backend->env);
    if (kilni_cl_packed_name(backend, program, launch, &name) &&
        (kilni_cl_program_kernel(backend, made, name.text, &kernel, NULL) != KILN_STATUS_OK ||
         kernel->n_args != 1)) {
        kernel = NULL; // it did not compile
    }
    kiln_string_fini(&name);
    return kernel;
}

// Arguments of an earlier launch would silently stay in the kernel, so their number must be exact.
static kiln_status check_count(const kilni_cl_kernel *kernel, uint32_t n_args, kiln_error *err)
{
    return n_args == kernel->n_args
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT, "kernel %s takes %u arguments, not %u",
                           kernel->name, kernel->n_args, n_args);
}

static kiln_status build_all(kilni_cl_backend *backend, const kiln_program *program, built *made,
                             kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < program->n_sources; i++) {
        KILN_TRY(out, status,
                 build_source(backend, program, i, label_of(program, i), &made->programs[i], err));
        made->n_programs++;
    }
    for (uint32_t i = 0; i < program->n_launches; i++) {
        const kiln_program_launch *launch = &program->launches[i];
        if (launch->source >= program->n_sources || launch->kernel == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "launch %u names source %u of %u", i,
                             launch->source, program->n_sources);
        }
        KILN_TRY(out, status,
                 kilni_cl_program_kernel(backend, made->programs[launch->source], launch->kernel,
                                         &made->kernels[i], err));
        made->packed[i] = find_packed(backend, program, i, made->programs[launch->source]);
        made->n_kernels++;
        KILN_TRY(out, status, check_count(made->kernels[i], launch->n_args, err));
    }
out:
    return status;
}

kiln_status kilni_cl_built_ready(kiln_backend *base, const kiln_program *program, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0;
         i < program->n_sources && status == KILN_STATUS_OK && !backend->compiler.compiles; i++) {
        status = build_source(backend, program, i, label_of(program, i), NULL, err);
    }
    return status;
}

kiln_status kilni_cl_built_parts(kiln_backend *base, const kiln_program *program,
                                 kiln_program_part_fn take, void *user, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < program->n_sources && status == KILN_STATUS_OK; i++) {
        kilni_cl_program *made = NULL;
        kiln_blob binary = {0};
        kiln_string options;
        kiln_string_init(&options, backend->env);
        append_options(backend, &program->sources[i], &options);
        status = build_source(backend, program, i, label_of(program, i), &made, err);
        if (status == KILN_STATUS_OK) {
            status = kilni_cl_program_binary(backend, made, &binary, err);
        }
        if (status == KILN_STATUS_OK) {
            take(i, options.text != NULL ? options.text : "", binary.data, binary.length, user);
        }
        kiln_free(backend->env, binary.data);
        kilni_cl_program_release(backend, made);
        kiln_string_fini(&options);
    }
    return status;
}

kiln_status kilni_cl_built_create(kiln_backend *base, const kiln_program *program,
                                  kiln_built **out_built, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    *out_built = NULL;
    built *made = kiln_alloc(backend->env, sizeof(*made));
    if (made == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a program");
    }
    kiln_status status = KILN_STATUS_OK;
    made->programs =
        kiln_alloc_array(backend->env, program->n_sources + 1u, sizeof(kilni_cl_program *));
    made->kernels =
        kiln_alloc_array(backend->env, program->n_launches + 1u, sizeof(kilni_cl_kernel *));
    made->packed =
        kiln_alloc_array(backend->env, program->n_launches + 1u, sizeof(kilni_cl_kernel *));
    if (made->programs == NULL || made->kernels == NULL || made->packed == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a program");
    } else {
        status = build_all(backend, program, made, err);
    }
    if (status != KILN_STATUS_OK) {
        kilni_cl_built_free(base, (kiln_built *)(void *)made);
        return status;
    }
    *out_built = (kiln_built *)(void *)made;
    return KILN_STATUS_OK;
}

void kilni_cl_built_free(kiln_backend *base, kiln_built *given)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    built *made = built_of(given);
    if (made == NULL) {
        return;
    }
    for (uint32_t i = 0; i < made->n_programs; i++) {
        kilni_cl_program_release(backend, made->programs[i]);
    }
    kiln_free(backend->env, made->programs);
    kiln_free(backend->env, made->kernels);
    kiln_free(backend->env, made->packed);
    kiln_free(backend->env, made);
}

// ---- launching ----

static void push_value(kilni_cl_args *args, const kiln_launch_arg *arg)
{
    switch (arg->kind) {
    case KILN_VALUE_BUFFER:
        kilni_cl_push_buffer(args, arg->buffer);
        return;
    case KILN_VALUE_BYTES:
        kilni_cl_push_bytes(args, &arg->bytes, arg->length);
        return;
    case KILN_VALUE_LOCAL:
        kilni_cl_push_local(args, (size_t)arg->bytes);
        return;
    case KILN_VALUE_MEMORY:
        kilni_cl_push_bytes(args, arg->memory, arg->length);
        return;
    }
}

kiln_status kilni_cl_built_kernels(kiln_built *given, const kiln_launch *launch,
                                   kilni_cl_launch_kernels *out_kernels, kiln_error *err)
{
    const built *made = built_of(given);
    if (launch->launch >= made->n_kernels || launch->n_dims < 1 || launch->n_dims > 3) {
        return kiln_fail(err, INVALID_ARGUMENT, "launch %u of %u, over %u dimensions",
                         launch->launch, made->n_kernels, launch->n_dims);
    }
    out_kernels->plain = made->kernels[launch->launch];
    out_kernels->packed = made->packed[launch->launch];
    return check_count(out_kernels->plain, launch->n_args, err);
}

kilni_cl_args kilni_cl_built_args(kilni_cl_backend *backend, const kilni_cl_launch_kernels *kernels,
                                  const kiln_launch *launch)
{
    kilni_cl_args args;
    if (kernels->packed == NULL || !kilni_cl_packed_args(backend, kernels->packed, launch, &args)) {
        args = kilni_cl_args_begin(backend, kernels->plain);
        for (uint32_t i = 0; i < launch->n_args; i++) {
            push_value(&args, &launch->args[i]);
        }
    }
    return args;
}

const size_t *kilni_cl_built_local(const kilni_cl_launch_kernels *kernels,
                                   const kiln_launch *launch)
{
    const size_t *required = kernels->plain->required_local;
    return launch->local[0] != 0 ? launch->local : required[0] != 0 ? required : NULL;
}

kiln_status kilni_cl_built_launch(kiln_backend *base, kiln_built *given, const kiln_launch *launch,
                                  kiln_error *err)
{
    kilni_cl_launch_kernels kernels;
    kiln_status status = kilni_cl_built_kernels(given, launch, &kernels, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_args args = kilni_cl_built_args(kilni_cl_backend_of(base), &kernels, launch);
    return kilni_cl_enqueue(&args, launch->n_dims, launch->global,
                            kilni_cl_built_local(&kernels, launch), err);
}

static kiln_status timing_queue(kilni_cl_backend *backend, kiln_error *err)
{
    cl_int code = CL_SUCCESS;
    if (backend->timing_queue == NULL) {
        backend->timing_queue = clCreateCommandQueue(backend->context, backend->device,
                                                     CL_QUEUE_PROFILING_ENABLE, &code);
    }
    return code == CL_SUCCESS ? KILN_STATUS_OK
                              : kilni_cl_fail(backend, err, code, "a queue for timing");
}

static kiln_status event_time(kilni_cl_backend *backend, cl_event event, uint64_t *out_ns,
                              kiln_error *err)
{
    cl_ulong begin = 0;
    cl_ulong end = 0;
    cl_int code = kilni_cl_await(backend, event);
    if (code != CL_SUCCESS) {
        return kilni_cl_fail_wait(backend, err, code, "waiting for a timed kernel");
    }
    code = clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof(begin), &begin, NULL);
    if (code == CL_SUCCESS) {
        code = clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof(end), &end, NULL);
    }
    if (code != CL_SUCCESS) {
        return kilni_cl_fail(backend, err, code, "the time of a kernel");
    }
    *out_ns = end > begin ? end - begin : 0;
    return KILN_STATUS_OK;
}

kiln_status kilni_cl_built_time(kiln_backend *base, kiln_built *given, const kiln_launch *launch,
                                uint64_t *out_ns, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kilni_cl_launch_kernels kernels;
    kilni_cl_args args;
    cl_event event = NULL;
    kiln_status status = KILN_STATUS_OK;
    *out_ns = 0;
    for (uint32_t i = 0; i < launch->n_dims && i < 3; i++) {
        if (launch->global[i] == 0) {
            return KILN_STATUS_OK;
        }
    }
    KILN_TRY(out, status, kilni_cl_drain(backend, err));
    KILN_TRY(out, status, timing_queue(backend, err));
    KILN_TRY(out, status, kilni_cl_built_kernels(given, launch, &kernels, err));
    args = kilni_cl_built_args(backend, &kernels, launch);
    KILN_TRY(out, status,
             kilni_cl_enqueue_on(&args, backend->timing_queue, launch->n_dims, launch->global,
                                 kilni_cl_built_local(&kernels, launch), &event, err));
    KILN_TRY(out, status, event_time(backend, event, out_ns, err));
out:
    if (event != NULL) {
        clReleaseEvent(event);
    }
    return status;
}
