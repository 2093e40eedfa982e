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
#include "cl_keep.h"
#include "cl_program.h"
#include "cl_program_cache.h"
#include "cl_state.h"

static const uint64_t quiet_ns = 10000000000; ///< without a build, or another program written

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
    kilni_cl_keep_weigh(backend, program, entry.binary.length);
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

/// What the driver's program was built with; the caller's (kiln_free). NULL: not known.
static char *options_of(const kilni_cl_backend *backend, cl_program program)
{
    size_t length = 0;
    if (clGetProgramBuildInfo(program, backend->device, CL_PROGRAM_BUILD_OPTIONS, 0, NULL,
                              &length) != CL_SUCCESS) {
        return NULL;
    }
    char *options = kiln_alloc(backend->env, length + 1);
    if (options != NULL && clGetProgramBuildInfo(program, backend->device, CL_PROGRAM_BUILD_OPTIONS,
                                                 length, options, NULL) != CL_SUCCESS) {
        kiln_free(backend->env, options);
        return NULL;
    }
    return options;
}

static bool make_again(const kilni_cl_program *program, cl_program made, cl_kernel *out_kernels)
{
    cl_int code = CL_SUCCESS;
    size_t count = 0;
    for (kilni_cl_kernel *each = program->kernels; each != NULL; each = each->next) {
        out_kernels[count] = clCreateKernel(made, each->name, &code);
        if (code != CL_SUCCESS) {
            while (count > 0) {
                clReleaseKernel(out_kernels[--count]);
            }
            return false;
        }
        count++;
    }
    return true;
}

/// Puts `take_made`, the same program made once more, in the place of the driver's program, and its
/// kernels in the place of the kernels; whoever holds a kilni_cl_kernel notices nothing. False:
/// without memory nothing changed.
static bool replace_program(kilni_cl_backend *backend, kilni_cl_program *program,
                            cl_program take_made)
{
    size_t count = 0;
    for (kilni_cl_kernel *each = program->kernels; each != NULL; each = each->next) {
        count++;
    }
    cl_kernel *kernels = kiln_alloc_array(backend->env, count + 1, sizeof(cl_kernel));
    bool good = kernels != NULL && make_again(program, take_made, kernels);
    if (good) {
        count = 0;
        for (kilni_cl_kernel *each = program->kernels; each != NULL; each = each->next) {
            clReleaseKernel(each->kernel);
            each->kernel = kernels[count++];
        }
    }
    clReleaseProgram(good ? program->program : take_made);
    program->program = good ? take_made : program->program;
    kiln_free(backend->env, kernels);
    return good;
}

/// A program that PoCL has compiled holds the compiler's form of it, 1 MiB, until its end; one that
/// comes from a binary needs a third.
static void use_binary(kilni_cl_backend *backend, kilni_cl_program *program, const kiln_blob *blob)
{
    kilni_cl_entry entry;
    char *options = options_of(backend, program->program);
    cl_program made = NULL;
    if (options != NULL && kilni_cl_entry_parse(blob, &entry)) {
        made = kilni_cl_binary_load(backend->context, backend->device, &entry.binary, options);
    }
    if (made != NULL && replace_program(backend, program, made)) {
        kilni_cl_keep_weigh(backend, program, entry.binary.length);
    }
    kiln_free(backend->env, options);
}

static void save(kilni_cl_backend *backend, kilni_cl_program *program, bool stays)
{
    kiln_blob entry = {0};
    kiln_error err = KILN_ERROR_INIT;
    program->dirty = false;
    backend->programs.dirty--;
    if (!kilni_cl_entry_make(backend, program, &entry)) {
        return;
    }
    kiln_status status = kiln_store_put(backend->store, KILN_STORE_PROGRAMS, program->key,
                                        entry.data, entry.length, &err);
    if (status == KILN_STATUS_OK) {
        backend->counters.cache_saved++;
    } else {
        kiln_log_write(backend->env, KILN_LOG_WARN, "cl_backend", "binary of %s not stored: %s",
                       program->label, err.message);
    }
    if (stays && backend->pocl) {
        use_binary(backend, program, &entry);
    }
    kiln_free(backend->env, entry.data);
}

void kilni_cl_program_save(kilni_cl_backend *backend, kilni_cl_program *program)
{
    if (program->dirty && backend->store != NULL && !backend->flight.lost) {
        save(backend, program, /*stays=*/false);
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
    if (backend->programs.dirty == 0 ||
        kiln_time_ns() - backend->programs.last_dirty_ns <= quiet_ns) {
        return;
    }
    while (first != NULL && !first->dirty) {
        first = first->next;
    }
    if (first != NULL) {
        save(backend, first, /*stays=*/true);
    }
    backend->programs.last_dirty_ns = kiln_time_ns();
}
