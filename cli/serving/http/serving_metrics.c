// SPDX-License-Identifier: MIT OR Apache-2.0
// Metrics for Prometheus: what versions of models have done, and what devices hold. All of it is
// counted elsewhere.

#include "serving_routes.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

/// Versions' counts at one moment.
typedef struct metrics_row {
    struct metrics_row *next;
    char labels[KILN_MODEL_NAME + 64];
    uint32_t queued;
    uint32_t sequences;
    kilni_serving_stats stats;
} metrics_row;

static metrics_row *collect_rows(kiln_serving *serving)
{
    metrics_row *first = NULL;
    metrics_row **link = &first;
    kilni_serving_version *each = NULL;
    while ((each = kilni_serving_next(serving, each)) != NULL) {
        metrics_row *row = kiln_alloc(serving->env, sizeof(*row));
        if (row == NULL) {
            kilni_serving_drop(serving, each);
            break;
        }
        const kiln_model_info *info = kilni_serving_loaded_info(each->loaded);
        snprintf(row->labels, sizeof(row->labels), "model=\"%s\",version=\"%s\"", info->name,
                 info->version); // a folder's name has no quotes
        row->queued = kilni_serving_loaded_queued(each->loaded);
        row->sequences = kilni_serving_loaded_sequences(each->loaded);
        kilni_serving_stats_copy(kilni_serving_loaded_stats(each->loaded), &row->stats);
        *link = row;
        link = &row->next;
    }
    return first;
}

static void put_head(kiln_string *out, const char *name, const char *type, const char *help)
{
    kiln_string_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_failures(kiln_string *out, const metrics_row *rows)
{
    put_head(out, "kiln_request_failures_total", "counter", "Requests that failed, by cause.");
    for (const metrics_row *row = rows; row != NULL; row = row->next) {
        for (int code = 1; code < KILNI_SERVING_CODES; code++) {
            if (row->stats.failures[code] > 0) {
                const char *cause =
                    code < KILNI_SERVING_CODES - 1 ? kiln_status_name((kiln_status)code) : "other";
                kiln_string_printf(out,
                                   "kiln_request_failures_total{%s,cause=\"%s\"} %" PRIu64 "\n",
                                   row->labels, cause, row->stats.failures[code]);
            }
        }
    }
}

static void put_histogram(kiln_string *out, const char *name, const char *labels,
                          const kilni_serving_histogram *histogram, bool batch)
{
    uint64_t below = 0;
    for (uint32_t i = 0; i < KILNI_SERVING_BUCKETS - 1; i++) {
        below += histogram->counts[i];
        kiln_string_printf(out, "%s_bucket{%s,le=\"%g\"} %" PRIu64 "\n", name, labels,
                           kilni_serving_bound(i, batch), below);
    }
    kiln_string_printf(out, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n%s_sum{%s} %.9g\n", name,
                       labels, histogram->count, name, labels, histogram->sum);
    kiln_string_printf(out, "%s_count{%s} %" PRIu64 "\n", name, labels, histogram->count);
}

static void put_models(kiln_string *out, const metrics_row *rows)
{
    put_head(out, "kiln_requests_total", "counter", "Requests that were answered.");
    for (const metrics_row *row = rows; row != NULL; row = row->next) {
        kiln_string_printf(out, "kiln_requests_total{%s} %" PRIu64 "\n", row->labels,
                           row->stats.sums.success.count);
    }
    put_failures(out, rows);
    put_head(out, "kiln_inferences_total", "counter", "Rows of batches that were run.");
    for (const metrics_row *row = rows; row != NULL; row = row->next) {
        kiln_string_printf(out, "kiln_inferences_total{%s} %" PRIu64 "\n", row->labels,
                           row->stats.sums.inferences);
    }
    put_head(out, "kiln_requests_queued", "gauge", "Requests that wait.");
    for (const metrics_row *row = rows; row != NULL; row = row->next) {
        kiln_string_printf(out, "kiln_requests_queued{%s} %u\n", row->labels, row->queued);
    }
    put_head(out, "kiln_sequences", "gauge", "Sequences whose states are held.");
    for (const metrics_row *row = rows; row != NULL; row = row->next) {
        kiln_string_printf(out, "kiln_sequences{%s} %u\n", row->labels, row->sequences);
    }
    put_head(out, "kiln_queue_seconds", "histogram", "Time of requests in the queue.");
    for (const metrics_row *row = rows; row != NULL; row = row->next) {
        put_histogram(out, "kiln_queue_seconds", row->labels, &row->stats.queue, false);
    }
    put_head(out, "kiln_compute_seconds", "histogram", "Time of runs, transfers included.");
    for (const metrics_row *row = rows; row != NULL; row = row->next) {
        put_histogram(out, "kiln_compute_seconds", row->labels, &row->stats.compute, false);
    }
    put_head(out, "kiln_batch_rows", "histogram", "Rows of a run.");
    for (const metrics_row *row = rows; row != NULL; row = row->next) {
        put_histogram(out, "kiln_batch_rows", row->labels, &row->stats.batch, true);
    }
}

static void put_device(kiln_string *out, kiln_device *device, const char *name, uint64_t value)
{
    kiln_string_printf(out, "%s{device=\"%s\"} %" PRIu64 "\n", name, kiln_device_address(device),
                       value);
}

static void put_devices(kiln_string *out, const kiln_serving *serving)
{
    static const struct {
        const char *name;
        const char *type;
        const char *help;
    } rows[] = {
        {"kiln_device_bytes", "gauge", "Memory of a device that tensors hold."},
        {"kiln_device_operations_total", "counter", "Operations recorded on a device."},
        {"kiln_device_fused_blocks_total", "counter", "Fused blocks that ran on a device."},
        {"kiln_device_plans_searched_total", "counter", "Segments that fusers were asked about."},
        {"kiln_device_plans", "gauge", "Plans that a device keeps."},
        {"kiln_device_programs", "gauge", "Programs that the driver of a device holds."},
        {"kiln_device_programs_idle", "gauge", "Of them: those that nobody holds."},
        {"kiln_device_program_bytes", "gauge", "Host memory of the driver's programs, estimated."},
        {"kiln_device_kernels", "gauge", "Kernels that the driver of a device holds."},
    };
    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
        put_head(out, rows[k].name, rows[k].type, rows[k].help);
        for (uint32_t i = 0; i < serving->n_devices; i++) {
            kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
            kiln_device_stats_peek(serving->devices[i], &stats);
            const uint64_t values[] = {stats.bytes_live,
                                       stats.ops_recorded,
                                       stats.blocks_fused,
                                       stats.plans_searched,
                                       stats.plans_kept,
                                       stats.backend.programs_live,
                                       stats.backend.programs_idle,
                                       stats.backend.program_bytes,
                                       stats.backend.kernels_live};
            put_device(out, serving->devices[i], rows[k].name, values[k]);
        }
    }
}

/// Memory of this process from malloc, in use and free; it may be resident or not.
static void put_heap(kiln_string *out)
{
#if defined(__GLIBC__)
    struct mallinfo2 heap = mallinfo2();
    put_head(out, "kiln_heap_used_bytes", "gauge", "Bytes from malloc that are in use.");
    kiln_string_printf(out, "kiln_heap_used_bytes %zu\n", heap.uordblks + heap.hblkhd);
    put_head(out, "kiln_heap_free_bytes", "gauge", "Bytes that malloc keeps for later.");
    kiln_string_printf(out, "kiln_heap_free_bytes %zu\n", heap.fordblks);
#else
    (void)out;
#endif
}

/// What the server over gRPC, which knows all callers, has counted.
static void put_server(kiln_string *out, const kiln_serving_door *door)
{
    kiln_rpc_server_stats stats = {.struct_size = sizeof(stats)};
    door->stats(door->user, &stats);
    const struct {
        const char *name;
        const char *type;
        const char *help;
        uint64_t value;
    } rows[] = {
        {"kiln_sessions", "gauge", "Sessions, those without a connection too.", stats.sessions},
        {"kiln_sessions_detached", "gauge", "Sessions without a connection.", stats.detached},
        {"kiln_sessions_opened_total", "counter", "Sessions that were opened.", stats.opened},
        {"kiln_sessions_resumed_total", "counter", "Sessions taken up again.", stats.resumed},
        {"kiln_calls_running", "gauge", "Calls over gRPC that are being answered.", stats.calls},
        {"kiln_calls_total", "counter", "Calls over gRPC that were answered.", stats.served},
        {"kiln_calls_refused_total", "counter", "Calls over gRPC that were refused.",
         stats.refused},
        {"kiln_session_bytes", "gauge", "Bytes that sessions hold.", stats.held_bytes},
        {"kiln_raw_bytes", "gauge", "Of them: bytes that no operation has used yet.",
         stats.raw_bytes},
        {"kiln_session_operations_total", "counter", "Operations of sessions.", stats.operations},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        put_head(out, rows[i].name, rows[i].type, rows[i].help);
        kiln_string_printf(out, "%s %" PRIu64 "\n", rows[i].name, rows[i].value);
    }
}

typedef struct state_count {
    uint64_t ready;
    uint64_t others;
} state_count;

static void count_state(const kiln_model_row *row, void *to)
{
    state_count *count = to;
    if (strcmp(row->state, "READY") == 0) {
        count->ready++;
    } else {
        count->others++;
    }
}

void kilni_http_metrics_put(kiln_string *out, kiln_serving *serving, const kiln_serving_door *door)
{
    state_count count = {0, 0};
    metrics_row *rows = collect_rows(serving);
    kilni_serving_index(serving, false, count_state, &count);
    put_head(out, "kiln_model_versions", "gauge", "Versions of models, by state.");
    kiln_string_printf(out,
                       "kiln_model_versions{state=\"ready\"} %" PRIu64
                       "\nkiln_model_versions{state=\"unavailable\"} %" PRIu64 "\n",
                       count.ready, count.others);
    put_models(out, rows);
    put_devices(out, serving);
    put_heap(out);
    put_server(out, door);
    while (rows != NULL) {
        metrics_row *next = rows->next;
        kiln_free(serving->env, rows);
        rows = next;
    }
}
