// SPDX-License-Identifier: MIT OR Apache-2.0
// What a folder keeps from an earlier run: programs in a cache, which a device loads instead of
// building them, and a bundle with its binaries.
#include "fault_scenes.h"

#include <stdio.h>

#include "harness.h"
#include "kiln_bundle.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if (status == KILN_STATUS_OK) {                                                            \
            status = (call);                                                                       \
        }                                                                                          \
    } while (0)

static const char *parent; ///< of folders; of a bundle's a new one

static const char *folder(const char *name)
{
    static char path[512];
    parent = parent != NULL ? parent : kiln_test_tmpdir();
    snprintf(path, sizeof(path), "%s/%s", parent, name);
    return path;
}

// ---- programs in a cache ----

/// What earlier faults made of a fuser is not held against it.
static kiln_status use_cache(kiln_context *context, kiln_error *err)
{
    uint32_t count = 0;
    kiln_status status = kiln_context_set(context, "cache-dir", folder("cache"), err);
    TRY(kiln_plugin_reset(context, NULL, &count, err));
    return status;
}

/// A run of its own, and what it made.
static kiln_status run_once(const scene *s, kiln_device_stats *out_stats, kiln_error *err)
{
    static float out[FAULT_MOST_RESULTS];
    size_t count = 0;
    world w;
    bool opened = world_open(&w, s, NULL);
    kiln_status status = opened ? s->run(&w, out, &count) : (kiln_status)w.err.code;
    *err = w.err;
    *out_stats = (kiln_device_stats)KILN_DEVICE_STATS_INIT;
    if (opened) {
        kiln_device_stats_get(w.devices[0], out_stats);
    }
    world_close(&w, "no fault");
    return status;
}

/// Programs are written when a device is closed: the second run loads them all.
static bool fill_cache(kiln_error *err)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_status status = run_once(&scene_cached, &stats, err);
    TRY(run_once(&scene_cached, &stats, err));
    if (status == KILN_STATUS_OK) {
        KILN_CHECK_INT(stats.backend.programs_built, 0);
        KILN_CHECK(stats.backend.programs_loaded >= 2);
    }
    return status == KILN_STATUS_OK;
}

const scene scene_cached = {.name = "cached",
                            .fuses = true,
                            .n_devices = 1,
                            .configure = use_cache,
                            .ready = fill_cache,
                            .run = world_run_chain};

/// A cache that is empty, so that its programs are stored.
static kiln_status use_new_cache(kiln_context *context, kiln_error *err)
{
    static unsigned count;
    char name[32];
    snprintf(name, sizeof(name), "new-%u", count++);
    return kiln_context_set(context, "cache-dir", folder(name), err);
}

const scene scene_stored = {.name = "stored",
                            .fuses = true,
                            .n_devices = 1,
                            .configure = use_new_cache,
                            .run = world_run_chain};

// ---- tournaments ----

static kiln_status tune(kiln_context *context, kiln_error *err)
{
    return kiln_context_set(context, "tune", "full", err);
}

const scene scene_measured = {
    .name = "measured", .fuses = true, .n_devices = 1, .configure = tune, .run = world_run_chain};

// ---- a bundle ----

/// Running sums of x + c with a constant c.
static kiln_status capture(world *w, kiln_tensor *x)
{
    kiln_tensor *c = NULL, *sum = NULL, *y = NULL;
    kiln_status status = world_tensor(w, 0, &c);
    TRY(kiln_graph_begin(w->devices[0], &x, 1, &w->err));
    TRY(kiln_add(x, c, &sum, &w->err));
    TRY(kiln_cum_sum(sum, 0, false, false, &y, &w->err));
    TRY(kiln_graph_end(w->devices[0], &y, 1, &w->graph, &w->err));
    kiln_release(c);
    kiln_release(sum);
    kiln_release(y);
    return status;
}

static kiln_status write_bundle(world *w, kiln_tensor *x)
{
    static const char *const in[] = {"x"};
    static const char *const out[] = {"y"};
    kiln_bundle_maker *maker = NULL;
    kiln_tensor *inputs[2] = {x, w->before};
    const kiln_bundle_work work = {.struct_size = sizeof(work),
                                   .n_inputs = 1,
                                   .n_outputs = 1,
                                   .graph = w->graph,
                                   .device = w->devices[0],
                                   .inputs = &inputs[0],
                                   .others = &inputs[1],
                                   .input_names = in,
                                   .output_names = out};
    kiln_status status = kiln_bundle_maker_create(kiln_context_env(w->context), &maker, &w->err);
    TRY(kiln_bundle_maker_add(maker, &work, &w->err));
    TRY(kiln_bundle_maker_write(maker, folder("bundle"), &w->err));
    kiln_bundle_maker_destroy(maker);
    return status;
}

static bool prepare_bundle(world *w)
{
    return kiln_bundle_open(w->devices[0], folder("bundle"), NULL, &w->bundle, &w->err) ==
           KILN_STATUS_OK;
}

static kiln_status run_bundle(world *w, float out[FAULT_MOST_RESULTS], size_t *out_count)
{
    kiln_tensor *x = NULL, *y = NULL;
    kiln_status status = world_tensor(w, 0, &x);
    TRY(kiln_bundle_run(w->bundle, &x, 1, &y, 1, &w->err));
    TRY(kiln_read(y, out, FAULT_N * sizeof(float), &w->err));
    kiln_release(x);
    kiln_release(y);
    *out_count = FAULT_N;
    return status;
}

static kiln_status record(kiln_context *context, kiln_error *err)
{
    return kiln_context_set(context, "compiler", "record", err);
}

/// A bundle is made on a device that compiles nothing, and keeps binaries of the device that ran
/// it.
static bool make_bundle(kiln_error *err)
{
    static const scene makes = {.name = "making a bundle", .n_devices = 1, .configure = record};
    static float out[FAULT_MOST_RESULTS];
    size_t count = 0;
    kiln_tensor *x = NULL;
    world w;
    parent = kiln_test_tmpdir();
    kiln_status status = world_open(&w, &makes, NULL) ? KILN_STATUS_OK : (kiln_status)w.err.code;
    TRY(world_tensor(&w, 0, &x));
    TRY(capture(&w, x));
    TRY(write_bundle(&w, x));
    kiln_release(x);
    *err = w.err;
    world_close(&w, "no fault");
    if (status == KILN_STATUS_OK && world_open(&w, &scene_bundle, NULL)) {
        TRY(run_bundle(&w, out, &count));
        TRY(kiln_bundle_keep(w.bundle, &w.err));
        *err = w.err;
        world_close(&w, "no fault");
    }
    return status == KILN_STATUS_OK;
}

const scene scene_bundle = {.name = "bundle",
                            .n_devices = 1,
                            .ready = make_bundle,
                            .prepare = prepare_bundle,
                            .run = run_bundle};
