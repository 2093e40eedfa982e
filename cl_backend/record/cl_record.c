// SPDX-License-Identifier: MIT OR Apache-2.0
// Recordings: programs with their sources since the device was opened, and what was enqueued
// between begin and end. Decides nothing about what becomes of it.

#include <stdio.h>
#include <string.h>

#include "cl_record.h"
#include "cl_state.h"

static const uint32_t no_program = UINT32_MAX;

typedef struct kept_program { ///< the texts of programs[i], and who uses it
    const void *handle; ///< of the program in memory; an address may come again
    uint32_t number; ///< in the list of those that a recording shows; no_program: has no source
} kept_program;

typedef struct live_buffer { ///< which number a buffer has now
    const kiln_buffer *buffer;
    uint32_t number; ///< UINT32_MAX: given out, and in no step yet
} live_buffer;

typedef struct list { ///< a growing array
    void *items;
    uint32_t count;
    uint32_t capacity;
} list;

struct kilni_cl_recorder {
    const kiln_env *env;
    kiln_arena texts; ///< of programs and kernels
    list handles; ///< kept_program
    list programs; ///< kiln_cl_recorded_program
    bool on;
    bool no_memory;
    char refused[160]; ///< why there can be no recording; "": nothing
    list live; ///< live_buffer
    list buffers; ///< kiln_cl_recorded_buffer
    list steps; ///< kiln_cl_recorded_step
    list args; ///< kiln_cl_recorded_arg
    list bytes; ///< unsigned char
    uint32_t first_arg; ///< of the launch that is being put together
    uint32_t reads;
    kiln_cl_recording shown;
};

// ---- lists ----

static void *add_items(kilni_cl_recorder *recorder, list *into, size_t each, uint32_t count)
{
    if (count > UINT32_MAX / 4 || into->count > UINT32_MAX / 4) {
        recorder->no_memory = true;
        return NULL;
    }
    if (into->count + count > into->capacity) {
        uint32_t capacity = (into->count + count) * 2;
        void *grown =
            kiln_realloc(recorder->env, into->items, into->capacity * each, capacity * each);
        if (grown == NULL) {
            recorder->no_memory = true;
            return NULL;
        }
        into->items = grown;
        into->capacity = capacity;
    }
    into->count += count;
    return (unsigned char *)into->items + (size_t)(into->count - count) * each;
}

static void free_list(kilni_cl_recorder *recorder, list *of)
{
    kiln_free(recorder->env, of->items);
}

static char *keep_text(kilni_cl_recorder *recorder, const char *text, size_t length)
{
    char *copy = kiln_arena_alloc(&recorder->texts, length + 1);
    if (copy == NULL) {
        recorder->no_memory = true;
        return NULL;
    }
    memcpy(copy, text, length);
    return copy;
}

static size_t keep_bytes(kilni_cl_recorder *recorder, const void *value, size_t bytes)
{
    size_t at = recorder->bytes.count;
    void *place =
        bytes <= UINT32_MAX ? add_items(recorder, &recorder->bytes, 1, (uint32_t)bytes) : NULL;
    recorder->no_memory = recorder->no_memory || place == NULL;
    if (place != NULL && bytes > 0) {
        memcpy(place, value, bytes);
    }
    return at;
}

// ---- opening ----

kiln_status kilni_cl_recorder_open(kilni_cl_backend *backend, kiln_error *err)
{
    const char *mode = kiln_config_string(backend->env->config, KILN_OPTION_COMPILER);
    if (strcmp(mode, "record") != 0) {
        return KILN_STATUS_OK;
    }
    backend->recorder = kiln_alloc(backend->env, sizeof(*backend->recorder));
    if (backend->recorder == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a recorder");
    }
    backend->recorder->env = backend->env;
    kiln_arena_init(&backend->recorder->texts, backend->env);
    return KILN_STATUS_OK;
}

void kilni_cl_recorder_close(kilni_cl_backend *backend)
{
    kilni_cl_recorder *recorder = backend->recorder;
    if (recorder == NULL) {
        return;
    }
    kiln_arena_fini(&recorder->texts);
    free_list(recorder, &recorder->handles);
    free_list(recorder, &recorder->programs);
    free_list(recorder, &recorder->live);
    free_list(recorder, &recorder->buffers);
    free_list(recorder, &recorder->steps);
    free_list(recorder, &recorder->args);
    free_list(recorder, &recorder->bytes);
    kiln_free(backend->env, recorder);
    backend->recorder = NULL;
}

// ---- programs ----

/// Copies options without those that say how exact arithmetic is on this device.
static char *keep_options(kilni_cl_backend *backend, const char *options, bool *out_exact)
{
    kilni_cl_recorder *recorder = backend->recorder;
    const char *exact = backend->compiler.exact_options;
    const char *at = exact[0] != '\0' ? strstr(options, exact) : NULL;
    *out_exact = strstr(options, "-cl-fast-relaxed-math") == NULL;
    char *copy = keep_text(recorder, options, strlen(options));
    if (copy != NULL && at != NULL) {
        size_t before = (size_t)(at - options);
        memmove(copy + before, copy + before + strlen(exact),
                strlen(options) - before - strlen(exact) + 1);
    }
    for (size_t i = copy != NULL ? strlen(copy) : 0; i > 0 && copy[i - 1] == ' '; i--) {
        copy[i - 1] = '\0';
    }
    return copy;
}

void kilni_cl_record_program(kilni_cl_backend *backend, const void *program,
                             const char *const parts[2], const size_t lengths[2],
                             const char *options, const char *label)
{
    kilni_cl_recorder *recorder = backend->recorder;
    if (recorder == NULL) {
        return;
    }
    kept_program *kept = add_items(recorder, &recorder->handles, sizeof(*kept), 1);
    if (kept == NULL) {
        return;
    }
    *kept = (kept_program){.handle = program, .number = no_program};
    if (parts == NULL) {
        return;
    }
    char *text = kiln_arena_alloc(&recorder->texts, lengths[0] + lengths[1] + 1);
    kiln_cl_recorded_program *shown = add_items(recorder, &recorder->programs, sizeof(*shown), 1);
    if (text == NULL || shown == NULL) {
        recorder->no_memory = true;
        return;
    }
    memcpy(text, parts[0], lengths[0]);
    memcpy(text + lengths[0], parts[1], lengths[1]);
    *shown = (kiln_cl_recorded_program){.text = text, .length = strlen(text)};
    shown->options = keep_options(backend, options, &shown->exact);
    shown->label = keep_text(recorder, label, strlen(label));
    kept->number = recorder->programs.count - 1;
}

static uint32_t number_of_program(const kilni_cl_recorder *recorder, const void *program)
{
    const kept_program *kept = recorder->handles.items;
    for (uint32_t i = recorder->handles.count; i-- > 0;) {
        if (kept[i].handle == program) {
            return kept[i].number;
        }
    }
    return no_program;
}

// ---- buffers ----

static kilni_cl_recorder *running(kilni_cl_backend *backend)
{
    return backend->recorder != NULL && backend->recorder->on ? backend->recorder : NULL;
}

static live_buffer *find_live(const kilni_cl_recorder *recorder, const kiln_buffer *buffer)
{
    live_buffer *live = recorder->live.items;
    for (uint32_t i = recorder->live.count; i-- > 0;) {
        if (live[i].buffer == buffer) {
            return &live[i];
        }
    }
    return NULL;
}

static live_buffer *make_live(kilni_cl_recorder *recorder, const kiln_buffer *buffer,
                              uint32_t number)
{
    live_buffer *live = add_items(recorder, &recorder->live, sizeof(*live), 1);
    if (live != NULL) {
        *live = (live_buffer){.buffer = buffer, .number = number};
    }
    return live;
}

static uint32_t number_of_buffer(kilni_cl_recorder *recorder, kiln_buffer *buffer, uint64_t bytes)
{
    live_buffer *live = find_live(recorder, buffer);
    bool fresh = live != NULL && live->number == UINT32_MAX;
    kiln_cl_recorded_buffer *shown = recorder->buffers.items;
    if (live != NULL && !fresh) {
        if (shown[live->number].bytes < bytes) { // given out again, larger
            shown[live->number].bytes = bytes;
        }
        return live->number;
    }
    live = live != NULL ? live : make_live(recorder, buffer, UINT32_MAX);
    shown = add_items(recorder, &recorder->buffers, sizeof(*shown), 1);
    if (live == NULL || shown == NULL) {
        return UINT32_MAX;
    }
    *shown = (kiln_cl_recorded_buffer){.buffer = buffer, .bytes = bytes, .fresh = fresh};
    live->number = recorder->buffers.count - 1;
    return live->number;
}

void kilni_cl_record_given(kilni_cl_backend *backend, kiln_buffer *buffer)
{
    kilni_cl_recorder *recorder = running(backend);
    if (recorder != NULL && find_live(recorder, buffer) == NULL) {
        (void)make_live(recorder, buffer, UINT32_MAX);
    }
}

void kilni_cl_record_gone(kilni_cl_backend *backend, const kiln_buffer *buffer)
{
    kilni_cl_recorder *recorder = running(backend);
    live_buffer *live = recorder != NULL ? find_live(recorder, buffer) : NULL;
    if (live != NULL) {
        kiln_cl_recorded_buffer *shown = recorder->buffers.items;
        if (live->number != UINT32_MAX) {
            shown[live->number].buffer = NULL;
        }
        live->buffer = NULL;
    }
}

// ---- steps ----

static kiln_cl_recorded_step *add_step(kilni_cl_recorder *recorder)
{
    kiln_cl_recorded_step *step = add_items(recorder, &recorder->steps, sizeof(*step), 1);
    if (step != NULL) {
        memset(step, 0, sizeof(*step));
    }
    return step;
}

static kiln_cl_recorded_arg *add_arg(kilni_cl_recorder *recorder)
{
    return add_items(recorder, &recorder->args, sizeof(kiln_cl_recorded_arg), 1);
}

void kilni_cl_record_args(kilni_cl_backend *backend)
{
    kilni_cl_recorder *recorder = running(backend);
    if (recorder != NULL) {
        recorder->args.count = recorder->first_arg; // of a kernel that was not launched
    }
}

void kilni_cl_record_buffer(kilni_cl_backend *backend, kiln_buffer *buffer, uint64_t bytes)
{
    kilni_cl_recorder *recorder = running(backend);
    kiln_cl_recorded_arg *arg = recorder != NULL ? add_arg(recorder) : NULL;
    if (arg != NULL) {
        *arg = (kiln_cl_recorded_arg){.kind = KILN_CL_ARG_BUFFER, .buffer = UINT32_MAX};
        if (buffer != NULL) {
            arg->buffer = number_of_buffer(recorder, buffer, bytes);
        }
    }
}

void kilni_cl_record_bytes(kilni_cl_backend *backend, const void *value, size_t bytes)
{
    kilni_cl_recorder *recorder = running(backend);
    kiln_cl_recorded_arg *arg = recorder != NULL ? add_arg(recorder) : NULL;
    if (arg != NULL) {
        *arg = (kiln_cl_recorded_arg){.kind = value != NULL ? KILN_CL_ARG_BYTES : KILN_CL_ARG_LOCAL,
                                      .bytes = bytes};
        arg->at = value != NULL ? keep_bytes(recorder, value, bytes) : 0;
    }
}

void kilni_cl_record_launch(kilni_cl_backend *backend, const kilni_cl_kernel *kernel, cl_uint dims,
                            const size_t *global, const size_t *local)
{
    kilni_cl_recorder *recorder = running(backend);
    kiln_cl_recorded_step *step = recorder != NULL ? add_step(recorder) : NULL;
    if (step == NULL) {
        return;
    }
    step->kind = KILN_CL_STEP_LAUNCH;
    step->program = number_of_program(recorder, kernel->program);
    step->kernel = keep_text(recorder, kernel->name, strlen(kernel->name));
    step->n_dims = dims;
    for (cl_uint i = 0; i < dims && i < 3; i++) {
        step->global[i] = global[i];
        step->local[i] = local != NULL ? local[i] : 0;
    }
    cl_ulong local_bytes = 0;
    (void)clGetKernelWorkGroupInfo(kernel->kernel, backend->device, CL_KERNEL_LOCAL_MEM_SIZE,
                                   sizeof(local_bytes), &local_bytes, NULL);
    step->local_bytes = local_bytes;
    step->first_arg = recorder->first_arg;
    step->n_args = recorder->args.count - recorder->first_arg;
    recorder->first_arg = recorder->args.count;
    if (step->program == no_program) {
        snprintf(recorder->refused, sizeof(recorder->refused),
                 "kernel %.80s comes as a binary, without its source", kernel->name);
    }
    if (step->n_args != kernel->n_args) {
        snprintf(recorder->refused, sizeof(recorder->refused),
                 "kernel %.80s was launched with arguments of an earlier launch", kernel->name);
    }
}

void kilni_cl_record_copy(kilni_cl_backend *backend, const kiln_cl_recorded_buffer *source,
                          size_t source_offset, const kiln_cl_recorded_buffer *target,
                          size_t target_offset, size_t bytes)
{
    kilni_cl_recorder *recorder = running(backend);
    kiln_cl_recorded_step *step = recorder != NULL ? add_step(recorder) : NULL;
    if (step != NULL) {
        *step = (kiln_cl_recorded_step){
            .kind = KILN_CL_STEP_COPY,
            .source = number_of_buffer(recorder, source->buffer, source->bytes),
            .target = number_of_buffer(recorder, target->buffer, target->bytes),
            .source_offset = source_offset,
            .target_offset = target_offset,
            .bytes = bytes};
    }
}

void kilni_cl_record_write(kilni_cl_backend *backend, const kiln_cl_recorded_buffer *target,
                           size_t offset, const void *source, size_t bytes)
{
    kilni_cl_recorder *recorder = running(backend);
    kiln_cl_recorded_step *step = recorder != NULL ? add_step(recorder) : NULL;
    if (step != NULL) {
        *step = (kiln_cl_recorded_step){
            .kind = KILN_CL_STEP_WRITE,
            .target = number_of_buffer(recorder, target->buffer, target->bytes),
            .source_offset = keep_bytes(recorder, source, bytes),
            .target_offset = offset,
            .bytes = bytes};
    }
}

void kilni_cl_record_read(kilni_cl_backend *backend)
{
    kilni_cl_recorder *recorder = running(backend);
    if (recorder != NULL) {
        recorder->reads++;
    }
}

// ---- begin and end ----

kiln_status kiln_cl_record_begin(kiln_backend *base, kiln_error *err)
{
    kilni_cl_recorder *recorder = kilni_cl_backend_of(base)->recorder;
    if (recorder == NULL) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "the device was not opened with the option compiler as record");
    }
    recorder->live.count = 0;
    recorder->buffers.count = 0;
    recorder->steps.count = 0;
    recorder->args.count = 0;
    recorder->bytes.count = 0;
    recorder->first_arg = 0;
    recorder->reads = 0;
    recorder->refused[0] = '\0';
    recorder->on = true;
    return KILN_STATUS_OK;
}

kiln_status kiln_cl_record_end(kiln_backend *base, const kiln_cl_recording **out_recording,
                               kiln_error *err)
{
    kilni_cl_recorder *recorder = kilni_cl_backend_of(base)->recorder;
    *out_recording = NULL;
    if (recorder == NULL || !recorder->on) {
        return kiln_fail(err, FAILED_PRECONDITION, "nothing is being recorded");
    }
    recorder->on = false;
    if (recorder->no_memory) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a recording");
    }
    if (recorder->refused[0] != '\0') {
        return kiln_fail(err, UNIMPLEMENTED, "%s", recorder->refused);
    }
    recorder->shown = (kiln_cl_recording){.programs = recorder->programs.items,
                                          .n_programs = recorder->programs.count,
                                          .buffers = recorder->buffers.items,
                                          .n_buffers = recorder->buffers.count,
                                          .steps = recorder->steps.items,
                                          .n_steps = recorder->steps.count,
                                          .args = recorder->args.items,
                                          .n_args = recorder->first_arg,
                                          .bytes = recorder->bytes.items,
                                          .n_bytes = recorder->bytes.count,
                                          .reads = recorder->reads};
    *out_recording = &recorder->shown;
    return KILN_STATUS_OK;
}
