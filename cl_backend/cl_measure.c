// SPDX-License-Identifier: MIT OR Apache-2.0
// Measures a device: bytes per second of a copy, and the cost of one more kernel in a queue. The
// figures are kept in the store under the device's fingerprint, with how far the runs were apart; a
// figure that is in doubt or old is measured again by the next processes, and one that no device
// has is not believed. Runs beside which others had the processors do not count. A GPU is measured
// when it is opened for the first time: what its memory does cannot be guessed (0.3 to 5 TB/s), and
// choices among fusers follow from it. A processor is, when choices are to be measured anyway.

#include <string.h>
#include <time.h>

#include "cl_facts.h"
#include "cl_launch.h"
#include "cl_measure.h"
#include "cl_pool.h"
#include "cl_program.h"
#include "cl_queue.h"
#include "cl_state.h"

static const char measure_source[] =
    "__kernel void kiln_measure_copy(__global const float4 *a, __global float4 *b, uint n)\n"
    "{ uint i = get_global_id(0); if (i < n) b[i] = a[i]; }\n"
    "__kernel void kiln_measure_nothing(__global float *a)\n"
    "{ if (get_global_id(0) == 1u << 30) a[0] = 0.0f; }\n";

enum { COPY_RUNS = 5, LEAST_RUNS = 3, COPIES = 4, LAUNCH_RUNS = 5, LAUNCHES = 64, MOST_RUNS = 12 };

/// Copies from which all threads take part for long; shorter ones say how much to copy, no more.
static const size_t shared_bytes = 16 << 20;
static const uint64_t long_ns = 50000000; ///< of a few copies or launches: no more are tried then
static const uint64_t longest_ns = 200000000; ///< that a larger copy may be expected to take

// ---- figures and how sure they are ----

void kilni_cl_speeds_refuse(kilni_cl_speeds *speeds, kiln_device_type type)
{
    bool board = type != KILN_DEVICE_CPU && type != KILN_DEVICE_GPU;
    const uint64_t least_bytes_per_s = board ? 50000000 : 1000000000;
    const uint64_t most_launch_ns = board ? 10000000 : 1000000;
    if (speeds->bytes_per_s < least_bytes_per_s || speeds->launch_ns > most_launch_ns) {
        speeds->bytes_per_s = 0;
        speeds->launch_ns = 0;
    }
}

static bool is_sure(uint64_t figure, uint32_t spread)
{
    return figure > 0 && spread <= KILNI_CL_SPEEDS_SURE;
}

static bool are_sure(const kilni_cl_speeds *speeds)
{
    return is_sure(speeds->bytes_per_s, speeds->bytes_spread) &&
           is_sure(speeds->launch_ns, speeds->launch_spread);
}

/// Of a clock that was set back nothing follows.
static bool is_old(const kilni_cl_speeds *speeds)
{
    uint64_t now_s = (uint64_t)time(NULL);
    uint64_t holds_s = are_sure(speeds) ? KILNI_CL_SPEEDS_HOLD_S : KILNI_CL_SPEEDS_WAIT_S;
    return speeds->measured_s != 0 && now_s > speeds->measured_s &&
           now_s - speeds->measured_s > holds_s;
}

bool kilni_cl_speeds_doubtful(const kilni_cl_speeds *speeds)
{
    return (speeds->tries < KILNI_CL_SPEEDS_TRIES && !are_sure(speeds)) || is_old(speeds);
}

bool kilni_cl_sample_counts(kiln_device_type type, uint64_t wall_ns, uint64_t work_ns,
                            uint32_t threads)
{
    return type != KILN_DEVICE_CPU ||
           (double)wall_ns * threads * 100 <= (double)work_ns * KILNI_CL_SPEEDS_BETTER;
}

/// Whether `quick` is so much more than `slow` that it is another figure.
static bool clearly_more(uint64_t quick, uint64_t slow)
{
    return (double)quick * 100 > (double)slow * KILNI_CL_SPEEDS_BETTER;
}

kilni_cl_speeds kilni_cl_speeds_merge(const kilni_cl_speeds *before, const kilni_cl_speeds *fresh)
{
    const kilni_cl_speeds *stored = before;
    kilni_cl_speeds known = *stored;
    bool old = is_old(stored);
    known.format = KILNI_CL_SPEEDS_FORMAT;
    known.tries = old ? 1 : stored->tries + 1;
    known.measured_s = (uint64_t)time(NULL);
    if (old && are_sure(fresh)) {
        bool slower = clearly_more(stored->bytes_per_s, fresh->bytes_per_s) ||
                      clearly_more(fresh->launch_ns, stored->launch_ns);
        known.bytes_per_s = slower ? fresh->bytes_per_s : known.bytes_per_s;
        known.launch_ns = slower ? fresh->launch_ns : known.launch_ns;
        known.bytes_spread = fresh->bytes_spread;
        known.launch_spread = fresh->launch_spread;
        stored = &known;
    }
    if (clearly_more(fresh->bytes_per_s, stored->bytes_per_s)) {
        known.bytes_per_s = fresh->bytes_per_s;
        known.bytes_spread = fresh->bytes_spread;
    } else if (fresh->bytes_per_s >= stored->bytes_per_s &&
               fresh->bytes_spread < stored->bytes_spread) {
        known.bytes_spread = fresh->bytes_spread; // it was right
    }
    if (fresh->launch_ns == 0) {
        return known;
    }
    if (stored->launch_ns == 0 || clearly_more(stored->launch_ns, fresh->launch_ns)) {
        known.launch_ns = fresh->launch_ns;
        known.launch_spread = fresh->launch_spread;
    } else if (fresh->launch_ns <= stored->launch_ns &&
               fresh->launch_spread < stored->launch_spread) {
        known.launch_spread = fresh->launch_spread;
    }
    return known;
}

// ---- the store ----

/// All unknown where nothing is stored.
static kilni_cl_speeds recall(kilni_cl_backend *backend)
{
    kiln_blob entry = {0};
    kilni_cl_speeds stored = {0};
    if (backend->store == NULL ||
        kiln_store_get(backend->store, KILN_STORE_DEVICES, kilni_cl_device_key(backend, "speeds"),
                       &entry, NULL) != KILN_STATUS_OK) {
        return stored;
    }
    if (entry.length == sizeof(stored)) {
        memcpy(&stored, entry.data, sizeof(stored));
    }
    kiln_free(backend->env, entry.data);
    if (stored.format != KILNI_CL_SPEEDS_FORMAT) {
        return (kilni_cl_speeds){0};
    }
    kilni_cl_speeds_refuse(&stored, backend->info.type);
    return stored;
}

static void remember(kilni_cl_backend *backend, const kilni_cl_speeds *known)
{
    kiln_error err = KILN_ERROR_INIT;
    if (backend->store != NULL &&
        kiln_store_put(backend->store, KILN_STORE_DEVICES, kilni_cl_device_key(backend, "speeds"),
                       known, sizeof(*known), &err) != KILN_STATUS_OK) {
        kiln_log_write(backend->env, KILN_LOG_WARN, "cl_backend", "speeds not stored: %s",
                       err.message);
    }
}

/// Old from now on, so that another figure counts in both directions.
void kilni_cl_speeds_doubt(kiln_backend *base)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kilni_cl_speeds stored = recall(backend);
    if (stored.tries > 0) {
        stored.measured_s = 1;
        remember(backend, &stored);
    }
}

/// What is not known stays estimated.
static void use(kilni_cl_backend *backend, const kilni_cl_speeds *known)
{
    kiln_device_info *info = &backend->info;
    info->bytes_per_s = known->bytes_per_s > 0 ? known->bytes_per_s : info->bytes_per_s;
    info->launch_ns = known->launch_ns > 0 ? known->launch_ns : info->launch_ns;
    info->speeds_doubtful = known->tries > 0 && kilni_cl_speeds_doubtful(known);
}

// ---- when ----

/// Not where choices must not depend on measurements, and of processors only what can be kept.
static bool is_wanted(const kilni_cl_backend *backend)
{
    const kiln_config *config = backend->env->config;
    if (kiln_config_bool(config, KILN_OPTION_DETERMINISTIC) ||
        (backend->info.features & KILN_FEATURE_COMPILER) == 0) {
        return false;
    }
    return backend->info.type == KILN_DEVICE_GPU ||
           (backend->store != NULL &&
            strcmp(kiln_config_string(config, KILN_OPTION_TUNE), "off") != 0);
}

/// A device that was measured looks as one that was not.
static void leave_no_trace(kilni_cl_backend *backend)
{
    kilni_cl_pool_trim(backend);
    backend->pool.hits = backend->pool.creates = 0;
    backend->pool.peaks[0] = backend->pool.peaks[1] = 0; // else it would keep that much for long
    backend->pool.given = 0;
    backend->stats = (kiln_backend_stats){.bytes_budget = backend->pool.budget};
    backend->counters = (kiln_cl_counters){0};
}

void kilni_cl_device_calibrate(kilni_cl_backend *backend, bool may_measure)
{
    kiln_error err = KILN_ERROR_INIT;
    kilni_cl_speeds stored = recall(backend);
    use(backend, &stored);
    if (!may_measure || !kilni_cl_speeds_doubtful(&stored) || !is_wanted(backend)) {
        return;
    }
    if (kiln_cl_measure(&backend->base, &err) != KILN_STATUS_OK) {
        kiln_log_write(backend->env, KILN_LOG_INFO, "cl_backend", "%s was not measured: %s",
                       backend->info.name, err.message);
    }
    leave_no_trace(backend);
}

// ---- measuring ----

typedef struct best_runs { ///< of several that do the same
    uint64_t best_ns;
    uint64_t second_ns;
    uint32_t count; ///< that nobody disturbed
} best_runs;

static const best_runs no_runs = {UINT64_MAX, UINT64_MAX, 0};

/// What a run takes: of the clock, and of the processors for this process.
typedef struct stopwatch {
    uint64_t wall_ns;
    uint64_t work_ns;
} stopwatch;

static stopwatch read_watch(void)
{
    return (stopwatch){kiln_time_ns(), kiln_processor_ns()};
}

static stopwatch since(stopwatch begin)
{
    stopwatch now = read_watch();
    return (stopwatch){now.wall_ns - begin.wall_ns, now.work_ns - begin.work_ns};
}

static void note_run(best_runs *runs, uint64_t ns)
{
    ns = ns > 0 ? ns : 1;
    runs->count++;
    if (ns < runs->best_ns) {
        runs->second_ns = runs->best_ns;
        runs->best_ns = ns;
    } else if (ns < runs->second_ns) {
        runs->second_ns = ns;
    }
}

static uint32_t spread_of(const best_runs *runs)
{
    double percent = ((double)runs->second_ns / (double)runs->best_ns - 1) * 100;
    return percent < 1000 ? (uint32_t)percent : 1000;
}

static kiln_status time_copies(kilni_cl_backend *backend, kilni_cl_kernel *kernel, size_t bytes,
                               best_runs *out_runs, kiln_error *err)
{
    kiln_buffer *source = NULL;
    kiln_buffer *target = NULL;
    kiln_status status = KILN_STATUS_OK;
    const size_t local = 64;
    const size_t count = bytes / 16;
    *out_runs = no_runs;
    KILN_TRY(out, status, kilni_cl_alloc(backend, bytes, &source, err));
    KILN_TRY(out, status, kilni_cl_alloc(backend, bytes, &target, err));
    const uint32_t threads = bytes >= shared_bytes ? backend->info.compute_units : 0;
    // The first touches the memory and compiles.
    for (int i = 0; i < MOST_RUNS && out_runs->count < COPY_RUNS; i++) {
        stopwatch begin = read_watch();
        for (int j = 0; j < COPIES; j++) { // several, so that the wait does not count
            kilni_cl_args args = kilni_cl_args_begin(backend, kernel);
            kilni_cl_push_buffer(&args, source);
            kilni_cl_push_buffer(&args, target);
            kilni_cl_push_u32(&args, (uint32_t)count);
            KILN_TRY(out, status, kilni_cl_enqueue(&args, 1, &count, &local, err));
        }
        KILN_TRY(out, status, kilni_cl_drain(backend, err));
        stopwatch taken = since(begin);
        if (i > 0 &&
            kilni_cl_sample_counts(backend->info.type, taken.wall_ns, taken.work_ns, threads)) {
            note_run(out_runs, taken.wall_ns / COPIES);
        }
        if (i >= LEAST_RUNS && taken.wall_ns > long_ns) {
            break;
        }
    }
out:
    kilni_cl_free(backend, source);
    kilni_cl_free(backend, target);
    return status;
}

/// One run: the time for each of a few launches behind each other.
static kiln_status launch_many(kilni_cl_backend *backend, kilni_cl_kernel *kernel,
                               kiln_buffer *buffer, best_runs *runs, kiln_error *err)
{
    const size_t size = 64;
    stopwatch begin = read_watch();
    uint32_t launched = 0;
    while (launched < LAUNCHES && kiln_time_ns() - begin.wall_ns < long_ns) {
        kilni_cl_args args = kilni_cl_args_begin(backend, kernel);
        kilni_cl_push_buffer(&args, buffer);
        kiln_status status = kilni_cl_enqueue(&args, 1, &size, &size, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        launched++;
    }
    kiln_status status = kilni_cl_drain(backend, err);
    stopwatch taken = since(begin);
    if (kilni_cl_sample_counts(backend->info.type, taken.wall_ns, taken.work_ns, 1)) {
        note_run(runs, taken.wall_ns / (launched > 0 ? launched : 1));
    }
    return status;
}

static kiln_status time_launches(kilni_cl_backend *backend, kilni_cl_kernel *kernel,
                                 best_runs *out_runs, kiln_error *err)
{
    kiln_buffer *buffer = NULL;
    kiln_status status = KILN_STATUS_OK;
    const uint64_t begin = kiln_time_ns();
    *out_runs = no_runs;
    KILN_TRY(out, status, kilni_cl_alloc(backend, 256, &buffer, err));
    for (int i = 0; i < MOST_RUNS && out_runs->count < LAUNCH_RUNS; i++) {
        KILN_TRY(out, status, launch_many(backend, kernel, buffer, out_runs, err));
        if (i == 0) {
            *out_runs = no_runs; // it compiled
        }
        if (i > 1 && kiln_time_ns() - begin > long_ns) {
            break;
        }
    }
out:
    kilni_cl_free(backend, buffer);
    return status;
}

static size_t most_bytes(const kilni_cl_backend *backend)
{
    size_t bytes = backend->info.type == KILN_DEVICE_GPU ? (size_t)256 << 20 : (size_t)64 << 20;
    while (bytes > 1 << 20 &&
           (bytes > backend->info.max_alloc_bytes / 2 || bytes > backend->pool.budget / 8)) {
        bytes /= 2;
    }
    return bytes;
}

/// The rate of the largest copy that does not take long: a simulated device is slow.
static kiln_status measure_copies(kilni_cl_backend *backend, kilni_cl_kernel *kernel,
                                  kilni_cl_speeds *speeds, kiln_error *err)
{
    enum { FIRST_BYTES = 64 << 10, STEP = 32 };
    size_t most = most_bytes(backend);
    for (size_t bytes = FIRST_BYTES; bytes != 0;) {
        best_runs runs;
        kiln_status status = time_copies(backend, kernel, bytes, &runs, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        if (runs.count == 0) {
            speeds->bytes_per_s = 0; // of smaller copies it would be a cache's
            break;
        }
        speeds->bytes_per_s = (uint64_t)(2.0 * (double)bytes / ((double)runs.best_ns * 1e-9));
        speeds->bytes_spread = spread_of(&runs);
        size_t next = bytes * STEP < most ? bytes * STEP : most;
        bytes = next > bytes && runs.best_ns * (next / bytes) < longest_ns ? next : 0;
    }
    return KILN_STATUS_OK;
}

static kiln_status measure_launches(kilni_cl_backend *backend, kilni_cl_kernel *kernel,
                                    kilni_cl_speeds *speeds, kiln_error *err)
{
    best_runs runs;
    kiln_status status = time_launches(backend, kernel, &runs, err);
    if (status == KILN_STATUS_OK && runs.count > 0) {
        speeds->launch_ns = runs.best_ns;
        speeds->launch_spread = spread_of(&runs);
    }
    return status;
}

kiln_status kiln_cl_measure(kiln_backend *base, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kilni_cl_program *program = NULL;
    kilni_cl_kernel *copy;
    kilni_cl_kernel *nothing;
    kilni_cl_speeds fresh = {.format = KILNI_CL_SPEEDS_FORMAT};
    kiln_status status = KILN_STATUS_OK;
    kilni_cl_build build = {.format = KILN_SOURCE_OPENCL_C,
                            .code = measure_source,
                            .length = sizeof(measure_source) - 1,
                            .options = "-cl-std=CL1.2",
                            .label = "the measuring kernels",
                            .once = true};
    KILN_TRY(out, status, kilni_cl_program_get(backend, &build, &program, err));
    KILN_TRY(out, status,
             kilni_cl_program_kernel(backend, program, "kiln_measure_copy", &copy, err));
    KILN_TRY(out, status,
             kilni_cl_program_kernel(backend, program, "kiln_measure_nothing", &nothing, err));
    KILN_TRY(out, status, measure_launches(backend, nothing, &fresh, err));
    KILN_TRY(out, status, measure_copies(backend, copy, &fresh, err));
    kilni_cl_speeds_refuse(&fresh, backend->info.type);
    kilni_cl_speeds stored = recall(backend);
    kilni_cl_speeds known = kilni_cl_speeds_merge(&stored, &fresh);
    use(backend, &known);
    remember(backend, &known);
out:
    kilni_cl_program_release(backend, program);
    return status;
}
