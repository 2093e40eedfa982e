// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs in memory, the most recently used first: who has users stays, and of the others as many
// as the limits allow. What drivers hold for a program they do not tell, so it is estimated.

#include "cl_keep.h"
#include "cl_binary.h"
#include "cl_program_cache.h"
#include "cl_state.h"

enum { IDLE_LIMIT = 512 }; ///< programs without users, at most

/// PoCL's, as measured (docs/tests/soak.md): a program that it compiled, or read from its own
/// cache, keeps the compiler's form; one of a binary a part of it.
enum { POCL_COMPILED_BYTES = 1 << 20, POCL_LOADED_BYTES = 1 << 18 };

void kilni_cl_keep_init(kilni_cl_backend *backend)
{
    backend->programs.limit_bytes =
        (uint64_t)kiln_config_int(backend->env->config, KILN_OPTION_PROGRAM_LIMIT);
}

kilni_cl_program *kilni_cl_keep_find(kilni_cl_backend *backend, kiln_hash128 key)
{
    kilni_cl_program *program = backend->programs.list;
    while (program != NULL && !kiln_hash_same(program->key, key)) {
        program = program->next;
    }
    return program;
}

// ---- how much they hold ----

static void set_bytes(kilni_cl_backend *backend, kilni_cl_program *program, uint64_t bytes)
{
    backend->programs.bytes += bytes - program->bytes;
    program->bytes = bytes;
}

/// Where that costs no compiling, the driver is asked how long the binary is.
static uint64_t estimate(const kilni_cl_backend *backend, const kilni_cl_program *program)
{
    size_t binary = program->binary_bytes;
    if (backend->pocl) {
        return binary > 0 ? POCL_LOADED_BYTES + binary : POCL_COMPILED_BYTES;
    }
    return binary > 0 ? binary : kilni_cl_program_binary_bytes(program);
}

void kilni_cl_keep_weigh(kilni_cl_backend *backend, kilni_cl_program *program)
{
    set_bytes(backend, program, estimate(backend, program));
}

void kilni_cl_program_destroy(kilni_cl_backend *backend, kilni_cl_program *program)
{
    while (program->kernels != NULL) {
        kilni_cl_kernel *kernel = program->kernels;
        program->kernels = kernel->next;
        clReleaseKernel(kernel->kernel);
        kiln_free(backend->env, kernel->name);
        kiln_free(backend->env, kernel);
        backend->programs.kernels--;
    }
    if (program->program != NULL) {
        clReleaseProgram(program->program);
    }
    if (program->dirty) {
        backend->programs.dirty--;
    }
    set_bytes(backend, program, 0);
    kiln_free(backend->env, program->shapes);
    kiln_free(backend->env, program->label);
    kiln_free(backend->env, program);
}

// ---- the list ----

static void unlink_program(kilni_cl_programs *programs, kilni_cl_program *program)
{
    kilni_cl_program **link = &programs->list;
    while (*link != program) {
        link = &(*link)->next;
    }
    *link = program->next;
    programs->count--;
}

static void push_program(kilni_cl_programs *programs, kilni_cl_program *program)
{
    program->next = programs->list;
    programs->list = program;
    programs->count++;
}

static kilni_cl_program *oldest_idle(kilni_cl_programs *programs)
{
    kilni_cl_program *oldest = NULL;
    for (kilni_cl_program *each = programs->list; each != NULL; each = each->next) {
        oldest = each->users == 0 ? each : oldest;
    }
    return oldest;
}

/// By bytes only where the store gives a program back: elsewhere it would be compiled again.
static bool too_much(const kilni_cl_backend *backend)
{
    const kilni_cl_programs *programs = &backend->programs;
    bool bytes = backend->store != NULL && programs->bytes > programs->limit_bytes;
    return programs->idle > 0 && (programs->idle > IDLE_LIMIT || bytes);
}

static void evict(kilni_cl_backend *backend)
{
    kilni_cl_programs *programs = &backend->programs;
    while (too_much(backend)) {
        kilni_cl_program *oldest = oldest_idle(programs);
        kilni_cl_program_save(backend, oldest);
        unlink_program(programs, oldest);
        programs->idle--;
        kilni_cl_program_destroy(backend, oldest);
    }
}

void kilni_cl_keep_use(kilni_cl_backend *backend, kilni_cl_program *program, bool is_new)
{
    kilni_cl_programs *programs = &backend->programs;
    if (!is_new) {
        unlink_program(programs, program);
        programs->idle -= program->users == 0;
    }
    push_program(programs, program);
    program->users++;
    if (is_new) {
        evict(backend);
    }
}

void kilni_cl_keep_leave(kilni_cl_backend *backend, kilni_cl_program *program)
{
    program->users--;
    backend->programs.idle += program->users == 0;
    evict(backend);
}

void kilni_cl_keep_close(kilni_cl_backend *backend)
{
    while (backend->programs.list != NULL) {
        kilni_cl_program *program = backend->programs.list;
        backend->programs.list = program->next;
        kilni_cl_program_destroy(backend, program);
    }
    backend->programs.count = 0;
    backend->programs.idle = 0;
}
