// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGIN_JOB_H
#define KILN_PLUGIN_JOB_H

/// A replayable file (docs/replay.md) on a device: what `kiln plugin dump`, `bench` and `reduce`
/// share. A model stands for the stream that it records.

#include "cli.h"
#include "ir_replay.h"
#include "kiln_explained.h"

typedef struct plugin_job {
    kiln_context *context;
    kiln_device *device;
    kiln_replay *replay;
    kiln_tensor **tensors; ///< of the stream's inputs
    kiln_tensor **inputs; ///< of these, what is not constant: inputs of graphs
    size_t n_tensors;
    size_t n_inputs;
} plugin_job;

/// Opens a context and a device, reads the file and uploads its inputs, invented ones where it has
/// none. A path that ends in .onnx: the model runs once on zeros and what it records is taken.
/// `*job` is the caller's (plugin_job_close, also after a failure). One thread at a time. Errors:
/// of the file, the model, the device.
kiln_status plugin_job_open(const cli_device_options *options, const char *path, plugin_job *job,
                            kiln_error *err);
/// The same for a stream that is at hand; it is the job's then, also after a failure.
kiln_status plugin_job_take(const cli_device_options *options, kiln_context *context,
                            kiln_replay *replay, plugin_job *job, kiln_error *err);
void plugin_job_close(plugin_job *job);

/// The stream as a graph. The result is the caller's (kiln_graph_destroy). One thread at a time.
/// Errors: INVALID_ARGUMENT for a stream that uses what it dropped.
kiln_status plugin_job_capture(plugin_job *job, kiln_graph **out_graph, kiln_error *err);
/// Runs the graph once and waits. Errors: of the run.
kiln_status plugin_job_run(plugin_job *job, kiln_graph *graph, uint64_t *out_ns, kiln_error *err);

/// Bytes that must move: inputs once, outputs once.
double plugin_job_bytes(const plugin_job *job);

#endif
