// SPDX-License-Identifier: MIT OR Apache-2.0
// Traces: what the host did and when, noted while one is on, and when the devices ran what. Decides
// what is noted and how long; the file's form is trace_write.c's. A device without a trace has a
// NULL where this begins, and pays for a branch.

#include "rt_context.h"
#include "rt_device.h"
#include "rt_run.h"
#include "rt_trace.h"
#include "trace_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SPANS = 1 << 21 }; // a forgotten trace ends somewhere

// ---- keeping ----

static bool grow(kilni_trace *trace, void *array_address, size_t *capacity, size_t need,
                 size_t bytes_each)
{
    void **array = array_address;
    if (need <= *capacity) {
        return true;
    }
    size_t more = *capacity == 0 ? 1024 : 2 * *capacity;
    void *grown = kiln_realloc(trace->env, *array, *capacity * bytes_each, more * bytes_each);
    if (grown == NULL) {
        return false;
    }
    *array = grown;
    *capacity = more;
    return true;
}

static const char *keep_text(kilni_trace *trace, const char *text)
{
    size_t length = text != NULL ? strlen(text) : 0;
    const char *copy = length > 0 ? kiln_arena_copy(&trace->arena, text, length + 1) : NULL;
    return copy != NULL ? copy : "";
}

static void add_span(kilni_trace *trace, const kilni_span *span, const char *name,
                     const char *detail)
{
    pthread_mutex_lock(&trace->lock);
    if (trace->n_spans < MAX_SPANS && grow(trace, &trace->spans, &trace->spans_capacity,
                                           trace->n_spans + 1, sizeof(*trace->spans))) {
        kilni_span *kept = &trace->spans[trace->n_spans++];
        *kept = *span;
        kept->name = keep_text(trace, name);
        kept->detail = keep_text(trace, detail);
    } else {
        trace->n_lost++;
    }
    pthread_mutex_unlock(&trace->lock);
}

void kilni_trace_note_span(kiln_device *device, kilni_span_kind kind, const char *name,
                           uint64_t start_ns)
{
    kilni_trace *trace = kilni_trace_of(device);
    if (trace == NULL) {
        return;
    }
    kilni_span span = {.kind = kind,
                       .device = device->trace_number,
                       .thread = kiln_thread_id(),
                       .start_ns = start_ns,
                       .end_ns = kiln_time_ns()};
    add_span(trace, &span, name, NULL);
}

void kiln_trace_note(kiln_device *handle, const char *name, const char *detail, uint64_t start_ns)
{
    kiln_device *device = kilni_core(handle);
    kilni_trace *trace = device != NULL ? kilni_trace_of(device) : NULL;
    if (trace != NULL) {
        kilni_span span = {.kind = KILNI_SPAN_NOTE,
                           .device = device->trace_number,
                           .thread = kiln_thread_id(),
                           .start_ns = start_ns,
                           .end_ns = kiln_time_ns()};
        add_span(trace, &span, name, detail);
    }
}

// ---- steps of a plan ----

static void name_step(const kiln_fuse_segment *segment, const kiln_plan_step *step,
                      kiln_string *out)
{
    if (step->kind == KILN_STEP_HOST_OP) {
        kiln_string_printf(out, "%s", kiln_op_info_of(segment->ops[step->index].op)->name);
        return;
    }
    const kiln_plan_block *block = &segment->plan->blocks[step->block];
    const char *slash = strrchr(block->fuser, '/');
    kiln_string_printf(out, "%s:", slash != NULL ? slash + 1 : block->fuser);
    for (uint32_t i = 0; i < block->n_ops && out->length < 72; i++) {
        kiln_op op = segment->ops[block->ops[i]].op;
        if (op != KILN_OP_DROP) {
            kiln_string_printf(out, " %s", kiln_op_info_of(op)->name);
        }
    }
}

static uint64_t bytes_of(const kiln_tensor_desc *desc)
{
    int64_t bytes = kiln_desc_bytes(desc);
    return bytes > 0 ? (uint64_t)bytes : 0;
}

static void add_shape(kiln_string *out, const kiln_tensor_desc *desc, bool written)
{
    kiln_string_printf(out, "%s%s[",
                       out->length == 0 ? ""
                       : written        ? " -> "
                                        : " ",
                       kiln_dtype_name(desc->dtype));
    for (uint32_t i = 0; i < desc->rank; i++) {
        kiln_string_printf(out, i == 0 ? "%lld" : ",%lld", (long long)desc->dims[i]);
    }
    kiln_string_append(out, "]", 1);
}

/// Shapes of what a step reads and writes, temporaries by their bytes; and the bytes of all.
static uint64_t describe_step(const kilni_run *run, const kiln_plan_step *step, kiln_string *out)
{
    const kiln_fuse_segment *segment = run->segment;
    uint64_t bytes = 0;
    if (step->kind == KILN_STEP_HOST_OP) {
        const kiln_op_record *record = &segment->ops[step->index];
        for (uint32_t i = 0; i < (uint32_t)record->n_inputs + record->n_outputs; i++) {
            bool written = i >= record->n_inputs;
            const kiln_tensor_desc *desc =
                written ? &record->outputs[i - record->n_inputs] : &record->inputs[i];
            add_shape(out, desc, written);
            bytes += bytes_of(desc);
        }
        return bytes;
    }
    const kiln_plan_block *block = &segment->plan->blocks[step->block];
    const kiln_program_launch *launch = &block->program->launches[step->index];
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (arg->kind == KILN_ARG_TENSOR) {
            const kiln_tensor_desc *desc = &segment->tensors[block->tensors[arg->ref]];
            add_shape(out, desc, (arg->access & KILN_ACCESS_WRITE) != 0);
            bytes += bytes_of(desc);
        } else if (arg->kind == KILN_ARG_TEMP) {
            uint64_t temp = kiln_fuse_temp_bytes(&run->device->context->env, run->device->facts,
                                                 segment, block, arg->ref);
            kiln_string_printf(out, "%stemp[%llu bytes]", out->length == 0 ? "" : " ",
                               (unsigned long long)temp);
            bytes += temp;
        }
    }
    return bytes;
}

kilni_step_mark kilni_trace_step_begin(const kilni_run *run)
{
    kiln_device *device = run->device;
    kilni_trace *trace = kilni_trace_of(device);
    kilni_step_mark mark = {0};
    if (trace == NULL) {
        return mark;
    }
    // Samples of a tournament are nobody's step.
    mark.tag = device->samples.measuring ? 0 : atomic_fetch_add(&trace->last_tag, 1) + 1;
    mark.start_ns = device->samples.measuring ? 0 : kiln_time_ns();
    kilni_trace_tag(device, mark.tag);
    return mark;
}

void kilni_trace_step_end(const kilni_run *run, uint32_t index, kilni_step_mark mark)
{
    kiln_device *device = run->device;
    kilni_trace *trace = kilni_trace_of(device);
    if (trace == NULL || mark.start_ns == 0) {
        return;
    }
    const kiln_plan_step *step = &run->segment->plan->steps[index];
    if (step->kind == KILN_STEP_HOST_OP && run->segment->ops[step->index].op == KILN_OP_DROP) {
        return;
    }
    kiln_backend_stats stats = {0};
    device->backend->device->stats(device->backend, &stats);
    kiln_string name, detail;
    kiln_string_init(&name, trace->env);
    kiln_string_init(&detail, trace->env);
    name_step(run->segment, step, &name);
    kilni_span span = {.kind = KILNI_SPAN_ENQUEUE,
                       .device = device->trace_number,
                       .thread = kiln_thread_id(),
                       .start_ns = mark.start_ns,
                       .end_ns = kiln_time_ns(),
                       .tag = mark.tag,
                       .plan = run->segment->plan,
                       .step = index,
                       .block = step->block,
                       .bytes = describe_step(run, step, &detail),
                       .memory = stats.bytes_used};
    add_span(trace, &span, name.text, detail.text);
    kiln_string_fini(&name);
    kiln_string_fini(&detail);
    kilni_trace_tag(device, 0);
}

// ---- devices ----

static void take_span(const kiln_device_span *given, void *user)
{
    const kiln_device *device = user;
    kilni_trace *trace = kilni_trace_of(device);
    if (trace->n_ran < MAX_SPANS &&
        grow(trace, &trace->ran, &trace->ran_capacity, trace->n_ran + 1, sizeof(*trace->ran))) {
        trace->ran[trace->n_ran++] = (kilni_ran){*given, device->trace_number};
    } else {
        trace->n_lost++;
    }
}

/// Fetches when the device ran what it was given. Under the device's lock.
static void take_all(kiln_device *device)
{
    kilni_trace *trace = kilni_trace_of(device);
    kiln_error err = KILN_ERROR_INIT;
    uint64_t lost = 0;
    pthread_mutex_lock(&trace->lock);
    if (device->backend->trace->take(device->backend, take_span, device, &lost, &err) !=
        KILN_STATUS_OK) {
        kiln_log_write(trace->env, KILN_LOG_WARN, "runtime", "trace: %s", err.message);
    }
    trace->n_lost += lost;
    pthread_mutex_unlock(&trace->lock);
}

void kilni_trace_join(kiln_device *device, kilni_trace *trace)
{
    kiln_error err = KILN_ERROR_INIT;
    const char *name = device->backend->device->info(device->backend)->name;
    if (trace == NULL || kilni_trace_of(device) != NULL) {
        return;
    }
    if (device->backend->trace->set(device->backend, true, &err) != KILN_STATUS_OK) {
        kiln_log_write(trace->env, KILN_LOG_WARN, "runtime", "trace without device times: %s",
                       err.message);
    }
    char text[KILNI_ADDRESS_BYTES + 128];
    snprintf(text, sizeof(text), "%s %.100s", device->address, name != NULL ? name : "");
    pthread_mutex_lock(&trace->lock);
    if (grow(trace, &trace->devices, &trace->devices_capacity, trace->n_devices + 1,
             sizeof(*trace->devices))) {
        device->trace_number = (uint32_t)trace->n_devices;
        trace->devices[trace->n_devices++] = keep_text(trace, text);
        atomic_store(&device->trace, trace);
    }
    pthread_mutex_unlock(&trace->lock);
}

void kilni_trace_leave(kiln_device *device)
{
    kiln_error err = KILN_ERROR_INIT;
    if (device->backend == NULL || kilni_trace_of(device) == NULL) {
        return;
    }
    take_all(device);
    atomic_store(&device->trace, NULL);
    if (device->backend->trace->set(device->backend, false, &err) != KILN_STATUS_OK) {
        kiln_log_write(&device->context->env, KILN_LOG_WARN, "runtime", "trace: %s", err.message);
    }
}

// ---- times of a plan's steps ----

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/// The median of what the runs of one step took, and when the last one was.
static void time_step(const kilni_trace *trace, const kilni_ran *const *ran_of,
                      const kiln_plan *plan, uint32_t step, kilni_step_time *out_time)
{
    enum { MOST = 64 };
    uint64_t times[MOST];
    size_t count = 0;
    for (size_t i = trace->n_spans; i-- > 0 && count < MOST;) {
        const kilni_span *span = &trace->spans[i];
        if (span->kind != KILNI_SPAN_ENQUEUE || span->plan != plan || span->step != step) {
            continue;
        }
        uint64_t start = span->start_ns, ns = span->end_ns - span->start_ns;
        const kilni_ran *ran = ran_of[span->tag];
        for (bool first = true;
             ran != NULL && ran < trace->ran + trace->n_ran && ran->span.tag == span->tag;
             ran++, first = false) {
            start = first ? ran->span.start_ns : start;
            ns = (first ? 0 : ns) + (ran->span.end_ns - ran->span.start_ns);
        }
        if (count == 0) {
            out_time->start_ns = start;
            out_time->last_ns = ns;
        }
        times[count++] = ns;
    }
    qsort(times, count, sizeof(times[0]), by_time);
    out_time->median_ns = count > 0 ? times[count / 2] : 0;
    out_time->runs = (uint32_t)count;
}

bool kilni_trace_times(kiln_device *device, const kiln_plan *plan, kilni_step_time *out_times)
{
    kilni_trace *trace = kilni_trace_of(device);
    if (trace == NULL) {
        return false;
    }
    take_all(device);
    pthread_mutex_lock(&trace->lock);
    size_t tags = (size_t)atomic_load(&trace->last_tag) + 1;
    const kilni_ran **ran_of = kiln_alloc_array(trace->env, tags, sizeof(*ran_of));
    for (size_t i = trace->n_ran; ran_of != NULL && i-- > 0;) {
        if (trace->ran[i].span.tag < tags) {
            ran_of[trace->ran[i].span.tag] = &trace->ran[i];
        }
    }
    for (uint32_t i = 0; ran_of != NULL && i < plan->n_steps; i++) {
        time_step(trace, ran_of, plan, i, &out_times[i]);
    }
    pthread_mutex_unlock(&trace->lock);
    kiln_free(trace->env, (void *)ran_of);
    return ran_of != NULL;
}

// ---- of a context ----

static kilni_trace *create(kiln_context *context)
{
    kilni_trace *trace = kiln_alloc(&context->env, sizeof(*trace));
    if (trace != NULL) {
        trace->env = &context->env;
        trace->start_ns = kiln_time_ns();
        kiln_arena_init(&trace->arena, &context->env);
        pthread_mutex_init(&trace->lock, NULL);
    }
    return trace;
}

void kilni_trace_destroy(kilni_trace *trace)
{
    if (trace == NULL) {
        return;
    }
    const kiln_env *env = trace->env;
    kiln_free(env, trace->spans);
    kiln_free(env, trace->ran);
    kiln_free(env, (void *)trace->devices);
    kiln_arena_fini(&trace->arena);
    pthread_mutex_destroy(&trace->lock);
    kiln_free(env, trace);
}

/// A file that cannot be written is told before the program runs, not when it has ended.
static kiln_status check_file(const char *path, kiln_error *err)
{
    FILE *file = fopen(path, "a");
    if (file == NULL) {
        return kiln_fail(err, UNAVAILABLE, "option trace: %s cannot be written: %s", path,
                         strerror(errno));
    }
    fclose(file);
    return KILN_STATUS_OK;
}

kiln_status kilni_context_trace(kiln_context *context, kilni_trace **out_trace, kiln_error *err)
{
    const char *path = kiln_config_string(context->env.config, KILN_OPTION_TRACE);
    kiln_status status = KILN_STATUS_OK;
    pthread_mutex_lock(&context->lock);
    if (context->trace == NULL && path != NULL && path[0] != '\0') {
        status = check_file(path, err);
        context->trace = status == KILN_STATUS_OK ? create(context) : NULL;
        if (status == KILN_STATUS_OK && context->trace == NULL) {
            status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a trace");
        }
    }
    *out_trace = context->trace;
    pthread_mutex_unlock(&context->lock);
    return status;
}

kiln_status kiln_trace_start(kiln_context *context, kiln_error *err)
{
    if (context == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "context must not be NULL");
    }
    pthread_mutex_lock(&context->lock);
    if (context->trace == NULL) {
        context->trace = create(context);
    }
    kilni_trace *trace = context->trace;
    for (kiln_device *device = context->devices; trace != NULL && device != NULL;
         device = device->next) {
        pthread_mutex_lock(&device->lock);
        kilni_trace_join(device, trace);
        pthread_mutex_unlock(&device->lock);
    }
    pthread_mutex_unlock(&context->lock);
    return trace != NULL ? KILN_STATUS_OK
                         : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a trace");
}

kiln_status kiln_trace_write(kiln_context *context, const char *path, kiln_error *err)
{
    if (context == NULL || path == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "context and path must not be NULL");
    }
    pthread_mutex_lock(&context->lock);
    kilni_trace *trace = context->trace;
    for (kiln_device *device = context->devices; trace != NULL && device != NULL;
         device = device->next) {
        pthread_mutex_lock(&device->lock);
        if (kilni_trace_of(device) != NULL) {
            take_all(device);
        }
        pthread_mutex_unlock(&device->lock);
    }
    pthread_mutex_unlock(&context->lock);
    return trace != NULL ? kilni_trace_save(trace, path, err)
                         : kiln_fail(err, FAILED_PRECONDITION, "no trace was started");
}

void kilni_trace_end(kiln_context *context)
{
    const char *path = kiln_config_string(context->env.config, KILN_OPTION_TRACE);
    kiln_error err = KILN_ERROR_INIT;
    if (context->trace != NULL && path != NULL && path[0] != '\0' &&
        kilni_trace_save(context->trace, path, &err) != KILN_STATUS_OK) {
        kiln_log_write(&context->env, KILN_LOG_ERROR, "runtime", "%s", err.message);
    }
    kilni_trace_destroy(context->trace);
    context->trace = NULL;
}
