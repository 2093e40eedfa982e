// SPDX-License-Identifier: MIT OR Apache-2.0
// What runs while something fails: scenes, each a way to use Kiln from its context on, and the
// world that one of them runs in. fault_sweep.h has the faults.
#ifndef KILN_TESTS_FAULT_SCENES_H
#define KILN_TESTS_FAULT_SCENES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kiln.h"

enum { FAULT_N = 4096, FAULT_PARTS = 2, FAULT_MOST_RESULTS = 2 * FAULT_N };

typedef struct world {
    const char *name;
    kiln_context *context;
    kiln_device *devices[FAULT_PARTS];
    size_t n_devices;
    kiln_tensor *before; ///< computed before any fault
    kiln_graph *graph;
    kiln_collective *group;
    struct kiln_onnx_model *model;
    struct kiln_onnx_session *session;
    struct kiln_bundle *bundle;
    kiln_error err;
} world;

typedef struct scene {
    const char *name;
    bool fuses; ///< its first device runs blocks of fusers
    size_t n_devices;
    const char *const *addresses; ///< NULL: "opencl:0"
    /// Options and providers, before a device is opened; may be NULL.
    kiln_status (*configure)(kiln_context *context, kiln_error *err);
    bool (*ready)(kiln_error *err); ///< once, before any fault: files that it needs; may be NULL
    bool (*prepare)(world *w); ///< once for a device; may be NULL
    kiln_status (*run)(world *w, float out[FAULT_MOST_RESULTS], size_t *out_count);
    void (*done)(void); ///< once, at the end; may be NULL
} scene;

extern const scene scene_chain, scene_graph, scene_collective, scene_session; // fault_scenes.c
// fault_scenes_kept.c: what a folder keeps, and what is measured
extern const scene scene_cached, scene_stored, scene_measured, scene_bundle;
extern const scene scene_remote; // fault_scenes_remote.c

/// What all scenes compute with, FAULT_N numbers.
const float *fault_data(void);
/// A tensor of them.
kiln_status world_tensor(world *w, size_t device, kiln_tensor **out_tensor);
/// The chain of operations, which other scenes run too.
kiln_status world_run_chain(world *w, float out[FAULT_MOST_RESULTS], size_t *out_count);

/// False where a call failed: `w->err` says which. world_close is due all the same. `allocator`:
/// the context's; NULL: the usual one.
bool world_open(world *w, const scene *s, const kiln_allocator *allocator);
/// Fails the case where tensors or memory are left, naming the fault.
void world_close(world *w, const char *fault);
bool world_is_lost(const world *w);

#endif
