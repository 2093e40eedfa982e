// SPDX-License-Identifier: MIT OR Apache-2.0
// A trace as a file of Chrome's trace event format ("Trace Event Format", Google, 2016), which
// Perfetto and chrome://tracing open: process 1 is the host with a track for each thread, each
// device is a process with a track of what it ran and one of what waited in its queue; arrows lead
// from the call that queued a step to the step, and a counter shows the memory that tensors hold.

#include "base_files.h"
#include "rt_context.h"
#include "rt_trace.h"
#include "trace_internal.h"

#include <errno.h>
#include <string.h>

enum { HOST = 1, FIRST_DEVICE = 2, QUEUE_TRACK = 1 };

static const char *const kind_names[] = {
    [KILNI_SPAN_RECORD] = "record", [KILNI_SPAN_PLAN] = "plan", [KILNI_SPAN_SEARCH] = "search",
    [KILNI_SPAN_BUILD] = "build",   [KILNI_SPAN_RUN] = "run",   [KILNI_SPAN_ENQUEUE] = "enqueue",
    [KILNI_SPAN_READ] = "read",     [KILNI_SPAN_WAIT] = "wait", [KILNI_SPAN_MEASURE] = "measure",
    [KILNI_SPAN_NOTE] = "note"};

typedef struct writer {
    const kilni_trace *trace;
    FILE *file;
    bool any;
} writer;

// ---- pieces of JSON ----

static void put_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            fprintf(file, "\\%c", *c);
        } else if ((unsigned char)*c < 0x20 || *c == '<') {
            fprintf(file, "\\u%04x", (unsigned)(unsigned char)*c);
        } else {
            fputc(*c, file);
        }
    }
    fputc('"', file);
}

static double us_of(const writer *w, uint64_t ns)
{
    return (double)(int64_t)(ns - w->trace->start_ns) / 1e3;
}

/// The head of an event, without its end: `more` members may follow.
static void begin(writer *w, const char *phase, uint32_t process, uint64_t track, const char *name,
                  const char *category, uint64_t at_ns)
{
    fputs(w->any ? ",\n" : "\n", w->file);
    w->any = true;
    fprintf(w->file, "{\"ph\":\"%s\",\"pid\":%u,\"tid\":%llu,\"name\":", phase, process,
            (unsigned long long)track);
    put_text(w->file, name);
    fprintf(w->file, ",\"cat\":\"%s\",\"ts\":%.3f", category, us_of(w, at_ns));
}

static void name_track(writer *w, const char *what, uint32_t process, uint64_t track,
                       const char *name)
{
    fputs(w->any ? ",\n" : "\n", w->file);
    w->any = true;
    fprintf(w->file,
            "{\"ph\":\"M\",\"pid\":%u,\"tid\":%llu,\"name\":\"%s\",\"args\":{\"name\":", process,
            (unsigned long long)track, what);
    put_text(w->file, name);
    fputs("}}", w->file);
}

// ---- events ----

static void put_step_args(const writer *w, const kilni_span *span)
{
    fprintf(w->file, "\"step\":%u,\"bytes\":%llu,\"shapes\":", span->step,
            (unsigned long long)span->bytes);
    put_text(w->file, span->detail);
    if (span->block != UINT32_MAX) {
        fprintf(w->file, ",\"block\":%u", span->block);
    }
}

static void put_flow(writer *w, const char *phase, uint32_t process, uint64_t track, uint64_t tag,
                     uint64_t at_ns)
{
    begin(w, phase, process, track, "runs", "flow", at_ns);
    fprintf(w->file, ",\"id\":%llu%s}", (unsigned long long)tag,
            phase[0] == 'f' ? ",\"bp\":\"e\"" : "");
}

static void put_host_span(writer *w, const kilni_span *span, bool runs_later)
{
    const char *kind = kind_names[span->kind];
    begin(w, "X", HOST, span->thread, span->name[0] != '\0' ? span->name : kind, kind,
          span->start_ns);
    fprintf(w->file, ",\"dur\":%.3f,\"args\":{\"device\":%u",
            (double)(span->end_ns - span->start_ns) / 1e3, span->device);
    if (span->kind == KILNI_SPAN_ENQUEUE) {
        fputc(',', w->file);
        put_step_args(w, span);
    } else if (span->kind == KILNI_SPAN_NOTE) {
        fputs(",\"detail\":", w->file);
        put_text(w->file, span->detail);
    }
    fputs("}}", w->file);
    if (span->kind != KILNI_SPAN_ENQUEUE) {
        return;
    }
    if (runs_later) {
        put_flow(w, "s", HOST, span->thread, span->tag, span->start_ns);
    }
    begin(w, "C", FIRST_DEVICE + span->device, 0, "memory", "memory", span->end_ns);
    fprintf(w->file, ",\"args\":{\"bytes\":%llu}}", (unsigned long long)span->memory);
}

static void put_device_span(writer *w, const kilni_ran *ran, const kilni_span *step, bool first,
                            size_t number)
{
    const kiln_device_span *span = &ran->span;
    uint32_t process = FIRST_DEVICE + ran->device;
    const char *name = step != NULL ? step->name : span->name;
    begin(w, "X", process, QUEUE_TRACK, name, step != NULL ? "step" : "command", span->start_ns);
    fprintf(w->file, ",\"dur\":%.3f,\"args\":{\"queued_us\":%.3f,\"submit_us\":%.3f,\"kernel\":",
            (double)(span->end_ns - span->start_ns) / 1e3, us_of(w, span->queued_ns),
            us_of(w, span->submit_ns));
    put_text(w->file, span->name);
    if (step != NULL) {
        fputc(',', w->file);
        put_step_args(w, step);
    }
    fputs("}}", w->file);
    if (span->queued_ns < span->start_ns) { // waits overlap: a track of their own
        begin(w, "b", process, 0, name, "queued", span->queued_ns);
        fprintf(w->file, ",\"id\":\"q%zu\"}", number);
        begin(w, "e", process, 0, name, "queued", span->start_ns);
        fprintf(w->file, ",\"id\":\"q%zu\"}", number);
    }
    if (step != NULL && first) {
        put_flow(w, "f", process, QUEUE_TRACK, span->tag, span->start_ns);
    }
}

static void put_names(writer *w)
{
    const kilni_trace *trace = w->trace;
    name_track(w, "process_name", HOST, 0, "host");
    for (size_t i = 0; i < trace->n_devices; i++) {
        name_track(w, "process_name", FIRST_DEVICE + (uint32_t)i, 0, trace->devices[i]);
        name_track(w, "thread_name", FIRST_DEVICE + (uint32_t)i, QUEUE_TRACK, "queue");
    }
    for (size_t i = 0; i < trace->n_spans; i++) {
        bool seen = false;
        for (size_t k = i > 64 ? i - 64 : 0; k < i && !seen; k++) { // threads take long turns
            seen = trace->spans[k].thread == trace->spans[i].thread;
        }
        if (!seen) {
            char name[32];
            snprintf(name, sizeof(name), "thread %llu", (unsigned long long)trace->spans[i].thread);
            name_track(w, "thread_name", HOST, trace->spans[i].thread, name);
        }
    }
}

/// A tag's step, and whether a device ran something for it.
typedef struct tagged {
    const kilni_span *step;
    bool ran;
    bool shown;
} tagged;

static bool put_events(writer *w)
{
    const kilni_trace *trace = w->trace;
    size_t tags = (size_t)atomic_load(&trace->last_tag) + 1;
    tagged *all = kiln_alloc_array(trace->env, tags, sizeof(*all));
    if (all == NULL) {
        return false;
    }
    for (size_t i = 0; i < trace->n_spans; i++) {
        if (trace->spans[i].tag > 0 && trace->spans[i].tag < tags) {
            all[trace->spans[i].tag].step = &trace->spans[i];
        }
    }
    for (size_t i = 0; i < trace->n_ran; i++) {
        if (trace->ran[i].span.tag < tags) {
            all[trace->ran[i].span.tag].ran = true;
        }
    }
    for (size_t i = 0; i < trace->n_spans; i++) {
        const kilni_span *span = &trace->spans[i];
        put_host_span(w, span, span->tag > 0 && span->tag < tags && all[span->tag].ran);
    }
    for (size_t i = 0; i < trace->n_ran; i++) {
        tagged *tag = trace->ran[i].span.tag < tags ? &all[trace->ran[i].span.tag] : &all[0];
        put_device_span(w, &trace->ran[i], tag->step, !tag->shown, i);
        tag->shown = true;
    }
    kiln_free(trace->env, all);
    return true;
}

kiln_status kilni_trace_save(kilni_trace *trace, const char *path, kiln_error *err)
{
    char beside[4200];
    writer w = {.trace = trace, .file = kilni_base_replace_begin(path, beside, sizeof(beside))};
    if (w.file == NULL) {
        return kiln_fail(err, UNAVAILABLE, "trace %s cannot be written: %s", path, strerror(errno));
    }
    pthread_mutex_lock(&trace->lock);
    fprintf(w.file,
            "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"lost\":\"%llu\"},"
            "\"traceEvents\":[",
            (unsigned long long)trace->n_lost);
    put_names(&w);
    bool whole = put_events(&w);
    fputs("\n]}\n", w.file);
    pthread_mutex_unlock(&trace->lock);
    bool written = kilni_base_replace_end(w.file, beside, path, whole);
    if (!whole) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a trace");
    }
    return written ? KILN_STATUS_OK
                   : kiln_fail(err, UNAVAILABLE, "trace %s cannot be written: %s", path,
                               strerror(errno));
}
