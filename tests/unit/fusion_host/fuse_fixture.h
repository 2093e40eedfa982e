// SPDX-License-Identifier: MIT OR Apache-2.0
// A recording program without a runtime: an environment, an invented device, an engine with chosen
// plugins, tensors whose tokens are their ids, and operations in one call.
#ifndef KILN_TESTS_FUSE_FIXTURE_H
#define KILN_TESTS_FUSE_FIXTURE_H

#include "fuse_plan.h"
#include "fuse_stream.h"
#include "harness.h"
#include "plugin_load.h"
#include "plugin_operators.h"
#include "plugin_record.h"
#include "plugin_trust.h"
#include "tournament.h"
#include "translate.h"

typedef struct fuse_fixture {
    kiln_env env;
    kiln_device_info device;
    kiln_fuse_registry *registry;
    kiln_fuse_engine *engine;
    kiln_fuse_stream *stream;
    uint64_t next_id;
    uint64_t allocations; // calls of the allocator so far
    int64_t live; // blocks that are not freed
    uint64_t fail_at; // this call of the allocator gives nothing; 0: none
} fuse_fixture;

/// Opens with the plugins of tests/plugins named in `plugins` (NULL-terminated), in that order;
/// names with a slash are below lib/kiln of the build.
bool fixture_open(fuse_fixture *f, const char *const *plugins);
bool fixture_open_with(fuse_fixture *f, const char *const *plugins,
                       const kiln_fuse_engine_options *options, bool whole);
/// The environment and the device only.
void fixture_prepare(fuse_fixture *f);
void fixture_release(fuse_fixture *f);
/// Releases, and checks that everything was freed.
void fixture_close(fuse_fixture *f);
const char *fixture_plugin_path(const char *name);

/// A dense f32 tensor that is there already.
kiln_tensor_desc fixture_input(fuse_fixture *f, uint32_t rank, const int64_t *dims);
kiln_tensor_desc fixture_vector(fuse_fixture *f, int64_t length);
/// Records an operation; its result is inferred.
kiln_tensor_desc fixture_op(fuse_fixture *f, kiln_op op, const kiln_tensor_desc *a,
                            const kiln_tensor_desc *b);
kiln_tensor_desc fixture_scalar_op(fuse_fixture *f, kiln_op op, const kiln_tensor_desc *a,
                                   double value);
kiln_tensor_desc fixture_record(fuse_fixture *f, kiln_op op, const kiln_tensor_desc *inputs,
                                uint16_t n_inputs, const kiln_attr *attrs, uint8_t n_attrs);
void fixture_drop(fuse_fixture *f, const kiln_tensor_desc *t);
/// The next segment or NULL; a failure fails the test.
const kiln_fuse_segment *fixture_next(fuse_fixture *f, bool drain);
void fixture_done(fuse_fixture *f, const kiln_fuse_segment *segment);
/// Runs what is ready, or all; gives a line for each step: "b0.0" for launches, operator names,
/// "-3" for what dies.
const char *fixture_run(fuse_fixture *f, bool drain);
kiln_fuse_stats fixture_stats(const fuse_fixture *f);
/// relu(a * b + 1) * 0.5 - b, each intermediate let go as soon as it was used.
kiln_tensor_desc fixture_chain(fuse_fixture *f, const kiln_tensor_desc *a,
                               const kiln_tensor_desc *b);

#endif
