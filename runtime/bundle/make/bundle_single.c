// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs as loops in a single work-item, of which a compiler for FPGAs makes a pipeline. A kernel
// that runs in groups of one work-item becomes a function of its place in the grid, and the kernel
// a loop over the grid, with constant bounds where all launches have the same. The text stays as it
// is: macros give the function its parameters and its place. Decides which programs have that form:
// those whose launches are such, and that compile so.

#include "bundle_maker.h"
#include "bundle_place.h"

#include "rt_device.h"
#ifdef KILN_RUNTIME_CL
#include "cl_backend.h"

#include <stdio.h>
#include <string.h>

enum { SINGLE_ARGS = 128 };

typedef struct single_kernel { ///< of the text, whether or not anything launches it
    const char *name;
    const char *types[SINGLE_ARGS];
    uint32_t n_args;
    bool launched;
    bool varies; ///< its grids are not all the same
    uint32_t grid[3];
} single_kernel;

typedef struct single_text {
    kiln_bundle_maker *maker;
    uint32_t number; ///< of the program
    single_kernel *kernels;
    uint32_t n_kernels;
    bool failed; ///< no memory, or more than there is room for
} single_text;

static const char place_of[] = "#define __kernel static\n#define kernel static\n"
                               "#define reqd_work_group_size(...)\n"
                               "#define work_group_size_hint(...)\n#define barrier(flags)\n"
                               "#define get_global_id(d) "
                               "((d) == 0 ? kiln_x : (d) == 1 ? kiln_y : kiln_z)\n"
                               "#define get_global_size(d) "
                               "((d) == 0 ? kiln_nx : (d) == 1 ? kiln_ny : kiln_nz)\n"
                               "#define get_group_id(d) get_global_id(d)\n"
                               "#define get_num_groups(d) get_global_size(d)\n"
                               "#define get_local_id(d) ((size_t)0)\n"
                               "#define get_local_size(d) ((size_t)1)\n"
                               "#define get_global_offset(d) ((size_t)0)\n";

static const char no_place[] = "\n#undef __kernel\n#undef kernel\n#undef reqd_work_group_size\n"
                               "#undef work_group_size_hint\n#undef barrier\n"
                               "#undef get_global_id\n#undef get_global_size\n"
                               "#undef get_group_id\n#undef get_num_groups\n#undef get_local_id\n"
                               "#undef get_local_size\n#undef get_global_offset\n";

// ---- what the text has ----

static single_kernel *find_single(const single_text *text, const char *name)
{
    for (uint32_t i = 0; i < text->n_kernels; i++) {
        if (strcmp(text->kernels[i].name, name) == 0) {
            return &text->kernels[i];
        }
    }
    return NULL;
}

static void take_argument(const kiln_cl_argument *argument, void *user)
{
    single_text *text = user;
    kiln_arena *arena = &text->maker->arena;
    single_kernel *of = find_single(text, argument->kernel);
    if (of == NULL && text->n_kernels < BUNDLE_KERNELS) {
        of = &text->kernels[text->n_kernels++];
        *of = (single_kernel){
            .name = kiln_arena_copy(arena, argument->kernel, strlen(argument->kernel) + 1),
            .n_args = argument->count};
    }
    if (of == NULL || of->name == NULL || argument->count > SINGLE_ARGS) {
        text->failed = true;
        return;
    }
    of->types[argument->index] = kiln_arena_copy(arena, argument->type, strlen(argument->type) + 1);
    text->failed = text->failed || of->types[argument->index] == NULL;
}

static void ignore_argument(const kiln_cl_argument *argument, void *user)
{
    (void)argument;
    (void)user;
}

static bool note_launch(single_text *text, const bundle_program *program, const bundle_step *step)
{
    single_kernel *of = find_single(text, program->kernels[step->kernel].name);
    for (uint32_t i = 0; of != NULL && i < step->n_dims; i++) {
        if (step->local[i] != 1 || step->global[i] > UINT32_MAX) {
            return false;
        }
    }
    if (of == NULL || of->n_args != step->n_args) {
        return false;
    }
    uint32_t grid[3] = {1, 1, 1};
    for (uint32_t i = 0; i < step->n_dims; i++) {
        grid[i] = (uint32_t)step->global[i];
    }
    of->varies = of->varies || (of->launched && memcmp(of->grid, grid, sizeof(grid)) != 0);
    of->launched = true;
    memcpy(of->grid, grid, sizeof(grid));
    return true;
}

/// Whether all launches of the program have groups of one work-item.
static bool note_launches(single_text *text)
{
    const bundle_manifest *manifest = &text->maker->manifest;
    const bundle_program *program = &manifest->programs[text->number];
    bool all = true;
    for (uint32_t s = 0; s < manifest->n_shapes; s++) {
        for (uint32_t i = 0; i < manifest->shapes[s].n_steps && all; i++) {
            const bundle_step *step = &manifest->shapes[s].steps[i];
            all =
                step->is_copy || step->program != text->number || note_launch(text, program, step);
        }
    }
    return all;
}

// ---- the loops ----

static void write_loop(const single_kernel *of, uint32_t number, kiln_string *out)
{
    static const char axes[] = "xyz";
    kiln_string_printf(
        out, "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void\n%s__task(", of->name);
    for (uint32_t i = 0; i < of->n_args; i++) {
        kiln_string_printf(out, "%s%s a%u", i > 0 ? ", " : "", of->types[i], i);
    }
    kiln_string_printf(out, "%s)\n{\n",
                       of->varies ? ", uint kiln_nx, uint kiln_ny, uint kiln_nz" : "");
    for (uint32_t i = 3; i-- > 0;) {
        char bound[16];
        (void)snprintf(bound, sizeof(bound), of->varies ? "kiln_n%c" : "%u",
                       of->varies ? (uint32_t)axes[i] : of->grid[i]);
        kiln_string_printf(out, "    for (uint %c = 0; %c < %s; %c++)\n", axes[i], axes[i], bound,
                           axes[i]);
    }
    kiln_string_printf(out, "        %s__body%u(x, y, z", of->name, number);
    for (uint32_t i = 0; i < 3; i++) {
        if (of->varies) {
            kiln_string_printf(out, ", kiln_n%c", axes[i]);
        } else {
            kiln_string_printf(out, ", %u", of->grid[i]);
        }
    }
    for (uint32_t i = 0; i < of->n_args; i++) {
        kiln_string_printf(out, ", a%u", i);
    }
    kiln_string_printf(out, ");\n}\n");
}

static bool is_kernel(const char *name, size_t length, const void *user)
{
    const single_text *text = user;
    for (uint32_t i = 0; i < text->n_kernels; i++) {
        if (strlen(text->kernels[i].name) == length &&
            memcmp(text->kernels[i].name, name, length) == 0) {
            return true;
        }
    }
    return false;
}

static void write_single(single_text *text, const bundle_program *program, kiln_string *out)
{
    kiln_string_append(out, place_of, sizeof(place_of) - 1);
    for (uint32_t i = 0; i < text->n_kernels; i++) {
        kiln_string_printf(out,
                           "#define %s(...) %s__body%u(" BUNDLE_PLACE_PARAMS ", __VA_ARGS__)\n",
                           text->kernels[i].name, text->kernels[i].name, text->number);
    }
    text->failed = text->failed || !kilni_bundle_give_place(program->text, is_kernel, text, out);
    kiln_string_append(out, no_place, sizeof(no_place) - 1);
    for (uint32_t i = 0; i < text->n_kernels; i++) {
        kiln_string_printf(out, "#undef %s\n", text->kernels[i].name);
    }
    for (uint32_t i = 0; i < text->n_kernels; i++) {
        if (text->kernels[i].launched) {
            write_loop(&text->kernels[i], text->number, out);
        }
    }
}

// ---- in place of the program ----

static void want_parameters(bundle_wants *wants, const bundle_step *step)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < step->n_args; i++) {
        bytes += step->args[i].kind == BUNDLE_ARG_BUFFER  ? sizeof(void *)
                 : step->args[i].kind == BUNDLE_ARG_BYTES ? step->args[i].length
                                                          : 0;
    }
    wants->parameter_bytes = bytes > wants->parameter_bytes ? bytes : wants->parameter_bytes;
}

/// Grids that vary are arguments behind the kernel's own.
static bool add_grid(kiln_bundle_maker *maker, bundle_step *step)
{
    bundle_arg *args = kiln_arena_alloc(&maker->arena, (step->n_args + 3) * sizeof(*args));
    for (uint32_t i = 0; args != NULL && i < step->n_args; i++) {
        args[i] = step->args[i];
    }
    for (uint32_t i = 0; args != NULL && i < 3; i++) {
        const uint32_t count = i < step->n_dims ? (uint32_t)step->global[i] : 1;
        args[step->n_args + i] =
            (bundle_arg){.kind = BUNDLE_ARG_BYTES,
                         .length = sizeof(count),
                         .bytes = kiln_arena_copy(&maker->arena, &count, sizeof(count))};
        if (args[step->n_args + i].bytes == NULL) {
            return false;
        }
    }
    step->args = args;
    step->n_args += 3;
    if (args != NULL) {
        want_parameters(&maker->manifest.wants, step);
    }
    return args != NULL;
}

static bool replace_steps(const single_text *text, const bundle_program *program)
{
    const bundle_manifest *manifest = &text->maker->manifest;
    bool done = true;
    for (uint32_t s = 0; s < manifest->n_shapes; s++) {
        for (uint32_t i = 0; i < manifest->shapes[s].n_steps && done; i++) {
            bundle_step *step = &manifest->shapes[s].steps[i];
            if (step->is_copy || step->program != text->number) {
                continue;
            }
            if (find_single(text, program->kernels[step->kernel].name)->varies) {
                done = add_grid(text->maker, step);
            }
            step->n_dims = 1;
            step->global[0] = step->local[0] = 1;
        }
    }
    return done;
}

static bool replace_kernels(const single_text *text, bundle_program *program)
{
    bool done = true;
    for (uint32_t i = 0; i < program->n_kernels && done; i++) {
        bundle_kernel *kernel = &program->kernels[i];
        const single_kernel *of = find_single(text, kernel->name);
        kiln_string name;
        kiln_string_init(&name, text->maker->env);
        kiln_string_printf(&name, "%s__task", kernel->name);
        kernel->n_args += of->varies ? 3 : 0;
        kernel->name =
            name.failed ? NULL : kiln_arena_copy(&text->maker->arena, name.text, name.length + 1);
        done = kernel->name != NULL;
        kiln_string_fini(&name);
    }
    return done;
}

/// Leaves a program as it is that has no such form.
static kiln_status make_single(single_text *text, kiln_backend *backend, kiln_string *made,
                               bool *out_done, kiln_error *err)
{
    bundle_program *program = &text->maker->manifest.programs[text->number];
    if (kiln_cl_arguments(backend, program->text, program->options, program->exact, take_argument,
                          text, NULL) != KILN_STATUS_OK ||
        text->failed || !note_launches(text)) {
        return KILN_STATUS_OK;
    }
    write_single(text, program, made);
    if (made->failed || text->failed ||
        kiln_cl_arguments(backend, made->text, program->options, program->exact, ignore_argument,
                          NULL, NULL) != KILN_STATUS_OK) {
        return KILN_STATUS_OK;
    }
    program->text = kiln_arena_copy(&text->maker->arena, made->text, made->length + 1);
    if (program->text == NULL || !replace_steps(text, program) || !replace_kernels(text, program) ||
        (program->key = kilni_bundle_program_key(text->maker, program)) == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a program");
    }
    *out_done = true;
    return KILN_STATUS_OK;
}

kiln_status kiln_bundle_maker_single(kiln_bundle_maker *maker, kiln_device *device,
                                     uint32_t *out_left, kiln_error *err)
{
    device = kilni_core(device);
    if (maker == NULL || device == NULL || out_left == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "maker, device and out_left must not be NULL");
    }
    *out_left = 0;
    if (!kiln_cl_is(device->backend)) {
        return kiln_fail(err, UNIMPLEMENTED, "device %s is none of OpenCL", device->address);
    }
    kiln_status status = kilni_bundle_stage(maker, BUNDLE_STAGE_SINGLE, err);
    pthread_mutex_lock(&device->lock);
    for (uint32_t i = 0; i < maker->manifest.n_programs && status == KILN_STATUS_OK; i++) {
        bool done = false;
        single_text text = {.maker = maker, .number = i};
        kiln_string made;
        kiln_string_init(&made, maker->env);
        text.kernels = kiln_arena_alloc(&maker->arena, BUNDLE_KERNELS * sizeof(single_kernel));
        status = text.kernels != NULL
                     ? make_single(&text, device->backend, &made, &done, err)
                     : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a program");
        *out_left += !done;
        kiln_string_fini(&made);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

#else

kiln_status kiln_bundle_maker_single(kiln_bundle_maker *maker, kiln_device *device,
                                     uint32_t *out_left, kiln_error *err)
{
    (void)maker;
    (void)device;
    (void)out_left;
    return kiln_fail(err, UNIMPLEMENTED, "this build has no OpenCL backend");
}

#endif
