// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TESTS_SESSION_FIXTURE_H
#define KILN_TESTS_SESSION_FIXTURE_H

/// Models that tests write byte by byte, loaded and run on the reference device.

#include "harness.h"
#include "onnx_run.h"
#include "proto_writer.h"

typedef struct fixture {
    kiln_context *context;
    kiln_device *device;
} fixture;

/// A model in memory with its session. The bytes must outlive it.
typedef struct loaded {
    kiln_onnx_model *model;
    kiln_onnx_session *session;
} loaded;

#define INPUTS(...) ((const char *const[]){__VA_ARGS__, NULL})

bool open_fixture(fixture *f);
void close_fixture(fixture *f);
uint64_t live_tensors(const fixture *f);
uint64_t recorded(const fixture *f);
kiln_status load(const fixture *f, const pw *bytes, loaded *out, kiln_error *err);
void unload(loaded *l);
/// A graph with inputs x and y, f32[2], and the output z of no said shape.
pw small_graph(void);
void add_node(pw *graph, const char *op, const char *const *inputs, const char *output);
/// Runs on x = {1, -2}, y = {3, 4} and reads z as floats.
kiln_status run_small(const fixture *f, const loaded *l, float *out, size_t count, kiln_error *err);
void expect_small(pw *graph, int64_t opset, float first, float second);
void expect_error_at(pw *graph, int64_t opset, kiln_status expected, const char *text);
void expect_error(pw *graph, kiln_status expected, const char *text);

#endif
