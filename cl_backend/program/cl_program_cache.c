// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs on disk: which launch shapes a stored binary serves, when one is loaded, and when one is
// taken and written. How an entry looks is cl_binary.c's.
//
// PoCL compiles a kernel anew for each local size (and for small grids) at its first enqueue, and
// only a binary taken after that spares the next process the work. So an entry lists the launch
// shapes that were compiled into it; a launch of a shape that it lacks makes the program dirty.
// Taking a binary costs PoCL more compiling, so dirty programs are written when the backend closes,
// and by a long-lived process one at a time once no build was near.

#include <string.h>

#include "cl_ahead.h"
#include "cl_binary.h"
#include "cl_program.h"
#include "cl_program_cache.h"
#include "cl_state.h"

static const uint64_t quiet_ns = 10000000000; ///< without a build
static const uint64_t apart_ns = 1000000000; ///< one program written, and the next

// ---- launch shapes ----

static uint64_t shape_of(cl_uint dims, const size_t *global, const size_t *local)
{
    uint64_t shape = 0;
    size_t groups = 0;
    for (cl_uint i = 0; i < dims; i++) {
        size_t length = local != NULL ? local[i] : 1;
        size_t count = length > 0 ? global[i] / length : 0;
        groups = count > groups ? count : groups;
        shape |= local != NULL ? (uint64_t)(length & 0xffff) << 16 * i : 0;
    }
    // PoCL also keeps grids below 65535 groups apart; without a local size it chooses one from the
    // grid.
    return shape | (uint64_t)(groups < 65535) << 63;
}

static bool has_shape(const kilni_cl_program *program, kilni_cl_shape shape)
{
    for (uint32_t i = 0; i < program->n_shapes; i++) {
        if (program->shapes[i].kernel == shape.kernel && program->shapes[i].shape == shape.shape) {
            return true;
        }
    }
    return false;
}

static bool add_shape(kilni_cl_backend *backend, kilni_cl_program *program, kilni_cl_shape shape)
{
    if (program->n_shapes == program->shape_capacity) {
        uint32_t capacity = program->shape_capacity * 2 + 2;
        kilni_cl_shape *grown =
            kiln_realloc(backend->env, program->shapes, program->shape_capacity * sizeof(shape),
                         capacity * sizeof(shape));
        if (grown == NULL) {
            return false;
        }
        program->shapes = grown;
        program->shape_capacity = capacity;
    }
    program->shapes[program->n_shapes++] = shape;
    return true;
}

static void set_dirty(kilni_cl_backend *backend, kilni_cl_program *program)
{
    if (backend->store == NULL || !program->storable) {
        return;
    }
    backend->programs.last_dirty_ns = kiln_time_ns();
    if (!program->dirty) {
        program->dirty = true;
        backend->programs.dirty++;
    }
}

void kilni_cl_program_compiled(kilni_cl_backend *backend, kilni_cl_program *program)
{
    if (!backend->pocl) {
        set_dirty(backend, program);
    }
}

static void new_shape(kilni_cl_backend *backend, kilni_cl_kernel *kernel, uint64_t shape)
{
    kilni_cl_program *program = kernel->program;
    if (kernel->n_shapes < KILNI_CL_SHAPES) {
        kernel->shapes[kernel->n_shapes++] = shape;
    }
    kilni_cl_shape full = {.kernel = kiln_hash64(kernel->name, strlen(kernel->name), 0),
                           .shape = shape};
    if (program->n_shapes < KILNI_CL_STORED_SHAPES && !has_shape(program, full) &&
        add_shape(backend, program, full)) {
        set_dirty(backend, program);
    }
}

void kilni_cl_program_ran(kilni_cl_backend *backend, kilni_cl_kernel *kernel, cl_uint dims,
                          const size_t *global, const size_t *local)
{
    if (!backend->pocl) {
        return;
    }
    uint64_t shape = shape_of(dims, global, local);
    for (uint32_t i = 0; i < kernel->n_shapes; i++) {
        if (kernel->shapes[i] == shape) {
            return;
        }
    }
    new_shape(backend, kernel, shape);
}

// ---- loading ----

static bool read_shapes(kilni_cl_backend *backend, const unsigned char *bytes, uint64_t count,
                        kilni_cl_program *program)
{
    for (uint64_t i = 0; i < count; i++) {
        kilni_cl_shape shape;
        memcpy(&shape, bytes + i * sizeof(shape), sizeof(shape));
        if (!add_shape(backend, program, shape)) {
            return false;
        }
    }
    return true;
}

/// Makes `program` of an entry; `made`, if any, is the driver's program of that entry and taken.
static bool use_entry(kilni_cl_backend *backend, const kilni_cl_build *build, const kiln_blob *blob,
                      cl_program made, kilni_cl_program *program)
{
    kilni_cl_entry entry;
    program->program = made;
    if (!kilni_cl_entry_parse(blob, &entry)) {
        return false;
    }
    if (made == NULL) {
        program->program =
            kilni_cl_binary_load(backend->context, backend->device, &entry.binary, build->options);
    }
    program->binary_bytes = entry.binary.length;
    return program->program != NULL && read_shapes(backend, entry.shapes, entry.n_shapes, program);
}

bool kilni_cl_program_load(kilni_cl_backend *backend, const kilni_cl_build *build,
                           kilni_cl_program *program)
{
    kiln_blob entry = {0};
    cl_program made = NULL;
    if ((build->once || !kilni_cl_ahead_take(backend, program->key, &entry, &made)) &&
        kiln_store_get(backend->store, KILN_STORE_PROGRAMS, program->key, &entry, NULL) !=
            KILN_STATUS_OK) {
        return false;
    }
    bool loaded = use_entry(backend, build, &entry, made, program);
    kiln_free(backend->env, entry.data);
    if (!loaded) {
        if (program->program != NULL) {
            clReleaseProgram(program->program);
            program->program = NULL;
        }
        program->n_shapes = 0;
        backend->counters.cache_damaged++;
        kiln_log_write(backend->env, KILN_LOG_WARN, "cl_backend",
                       "stored binary of %s is damaged or refused; it is built again",
                       build->label);
        return false;
    }
    program->storable = true;
    backend->stats.programs_loaded++;
    backend->counters.programs_ahead += made != NULL;
    return true;
}

// ---- saving ----

static void save(kilni_cl_backend *backend, kilni_cl_program *program)
{
    kiln_blob entry = {0};
    kiln_error err = KILN_ERROR_INIT;
    program->dirty = false;
    backend->programs.dirty--;
    kiln_status status = kilni_cl_entry_make(backend, program, &entry, &err);
    if (status == KILN_STATUS_UNAVAILABLE) { // some drivers give none
        return;
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_store_put(backend->store, KILN_STORE_PROGRAMS, program->key, entry.data,
                                entry.length, &err);
    }
    if (status == KILN_STATUS_OK) {
        backend->counters.cache_saved++;
    } else {
        kiln_log_write(backend->env, KILN_LOG_WARN, "cl_backend", "binary of %s not stored: %s",
                       program->label, err.message);
    }
    kiln_free(backend->env, entry.data);
}

void kilni_cl_program_save(kilni_cl_backend *backend, kilni_cl_program *program)
{
    if (program->dirty && backend->store != NULL && !backend->flight.lost) {
        save(backend, program);
    }
}

void kilni_cl_programs_save(kilni_cl_backend *backend)
{
    for (kilni_cl_program *each = backend->programs.list; each != NULL; each = each->next) {
        kilni_cl_program_save(backend, each);
    }
}

void kilni_cl_programs_quiet(kilni_cl_backend *backend)
{
    kilni_cl_program *first = backend->programs.list;
    uint64_t now = backend->programs.dirty > 0 ? kiln_time_ns() : 0;
    if (backend->programs.dirty == 0 || now - backend->programs.last_dirty_ns <= quiet_ns ||
        now - backend->programs.last_saved_ns <= apart_ns) {
        return;
    }
    while (first != NULL && !first->dirty) {
        first = first->next;
    }
    if (first != NULL) {
        save(backend, first);
    }
    backend->programs.last_saved_ns = kiln_time_ns();
}
