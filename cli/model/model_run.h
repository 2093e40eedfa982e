// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_MODEL_RUN_H
#define KILN_MODEL_RUN_H

/// A model from a file, run from .npy files: what `kiln run`, `explain` and `tune` share.

#include "base_npy.h"
#include "cli.h"
#include "cli_json.h"
#include "model_nodes.h"
#include "onnx.h"
#include "picture.h"

#define MODEL_RUN_MAX_IO 64

typedef struct model_run_input {
    const char *name; ///< NULL: by position
    const char *path;
} model_run_input;

/// A command's MODEL, its --input and the device's options; put model_options_argp among an argp's
/// children with a model_options as its input. The texts stay the command line's.
typedef struct model_options {
    cli_device_options device;
    const char *model;
    model_run_input inputs[MODEL_RUN_MAX_IO];
    size_t n_inputs;
    bool random; ///< inputs that are not given are invented
    uint64_t seed; ///< of what is invented
    long batch; ///< their first extent, where it is open; 0: 1
    const char *shapes[MODEL_RUN_MAX_IO]; ///< "[NAME:]AxB"
    size_t n_shapes;
    picture_options picture;
    bool with_nodes; ///< the session notes which node each operation is of
    const char *trace; ///< file for a trace; NULL: none; "": traced, the caller writes the file
} model_options;

extern const struct argp model_options_argp;

/// Finds the model's output that "[NAME=]FILE" names; without a NAME it is the one at `place`.
/// `*out_path` is the file. Errors: NOT_FOUND when the model has no such output.
kiln_status model_run_find_output(const kiln_onnx_model *model, const char *text, size_t place,
                                  size_t *out_index, const char **out_path, kiln_error *err);

/// A model on a device with its inputs uploaded, and captured as a graph when it can be.
typedef struct model_session {
    kiln_context *context;
    kiln_device *device; ///< the first
    kiln_device *devices[CLI_MAX_DEVICES];
    size_t n_devices;
    kiln_onnx_model *model;
    kiln_onnx_session *session;
    kiln_onnx_input inputs[MODEL_RUN_MAX_IO];
    kiln_onnx_texts texts[MODEL_RUN_MAX_IO]; ///< of inputs that are strings
    kiln_onnx_value values[MODEL_RUN_MAX_IO];
    bool on_host; ///< strings or maps go in or out: every run records
    kiln_tensor *tensors[MODEL_RUN_MAX_IO];
    kiln_npy arrays[MODEL_RUN_MAX_IO];
    size_t n_inputs;
    size_t n_outputs;
    model_nodes nodes; ///< of the graph, with_nodes
    bool with_nodes;
    kiln_graph *graph; ///< NULL: the model asks for values while it is recorded, or runs on several
                       ///< devices; each run records then what its parts have no graphs of
} model_session;

/// Opens everything and captures. With `invent`, inputs that are not given are numbers of both
/// signs below 1, integers 0, in the model's shape, unknown lengths 1. On failure nothing is left
/// open but what model_session_close takes. `*session` is the caller's (model_session_close, also
/// after a failure). One thread at a time. Errors: of files, of the model, of the device.
kiln_status model_session_open(model_session *session, const model_options *options, bool invent,
                               kiln_error *err);
void model_session_close(model_session *session);
/// Fills arrays and inputs, without tensors; the part of model_session_open that needs no device.
kiln_status model_inputs_load(model_session *session, const model_options *options, bool invent,
                              kiln_error *err);
/// A model's inputs or outputs, in their order, as errors list them.
enum { MODEL_NAMES_ROOM = 128 };
const char *model_names(const kiln_onnx_value_info *infos, size_t count,
                        char out_text[MODEL_NAMES_ROOM]);
/// Captures the graph again, so that its plan follows what was measured since.
kiln_status model_session_recapture(model_session *session, kiln_error *err);

/// Runs once; the caller owns a reference to each out_tensors[i]. Errors: also UNIMPLEMENTED where
/// an output is no tensor.
kiln_status model_session_run(model_session *session, kiln_tensor **out_tensors, kiln_error *err);
/// The same for outputs of every kind, which the caller frees with kiln_onnx_values_free.
kiln_status model_session_run_values(model_session *session, kiln_onnx_value *out_values,
                                     kiln_error *err);
/// Runs once, waits, and releases the results.
kiln_status model_session_run_once(model_session *session, kiln_error *err);
/// Runs a model that reads values, or that several devices run, often enough that the operations
/// between two reads, or of one device, are captured as graphs.
kiln_status model_session_meet(model_session *session, kiln_error *err);

/// Calls `fn` for the model's graph, without a name, or for those of the parts of one that reads
/// values.
typedef void (*model_graph_fn)(const char *name, kiln_graph *graph, void *user);
void model_session_graphs(const model_session *session, model_graph_fn fn, void *user);

/// Where the time of model_run_execute went, in nanoseconds; together they are all of it.
typedef struct model_run_times {
    double open; ///< context, model, device, inputs
    double first; ///< capturing and running once, most of it compiling when nothing is stored
    double show; ///< in on_first
    double repeat;
    double tune; ///< tournaments; not counted in `first` and `repeat`
    double close; ///< what the next process finds is stored
} model_run_times;

typedef struct model_run_report {
    char device_name[256];
    bool remote; ///< a server plans; blocks and kernels are not known here
    bool computes; ///< false on the null device, whose results mean nothing
    double first_ns; ///< from opening the model file to the first result on the host
    double repeat_ns; ///< median
    model_run_times times;
    double build_ns; ///< of the programs that were compiled
    uint64_t built;
    uint64_t loaded; ///< programs that came from the cache
    uint32_t repeats;
    uint64_t ops;
    uint64_t ops_fused;
    uint64_t blocks;
    uint64_t kernels; ///< of one repeated run, or of the first when there is none
    uint64_t blas_calls;
    uint64_t measuring; ///< kernels and BLAS calls of all runs that compared candidates
    uint64_t peak_bytes;
    uint64_t pooled_peak_bytes; ///< held by the device, used or not
    uint64_t budget_bytes; ///< 0: no limit is known
    uint64_t pool_reuses; ///< of one repeated run: allocations that idle memory served
    uint64_t values_planned; ///< of one repeated run
    char *memory; ///< table of the graph's steps; NULL: there is none
    char *profile; ///< table of what the runs spent their time in; NULL: there is none
    json_t *profile_rows; ///< the same as JSON
    json_t *parts; ///< what runs on which device
} model_run_report;

typedef struct model_run {
    bool with_memory; ///< the report has a table of the graph's memory
    bool with_profile; ///< and one of its time: options->trace must not be NULL
    /// Called with the first results, before anything is repeated or closed; what it returns other
    /// than OK ends the run. May be NULL.
    kiln_status (*on_first)(const struct model_run *run, void *user, kiln_error *err);
    void *user;
    const char *wanted[MODEL_RUN_MAX_IO]; ///< "[NAME=]FILE": checked before anything runs
    size_t n_wanted;
    size_t wanted_index[MODEL_RUN_MAX_IO];
    const char *wanted_path[MODEL_RUN_MAX_IO];
    const char *names[MODEL_RUN_MAX_IO];
    char name_text[MODEL_RUN_MAX_IO][64];
    kiln_npy outputs[MODEL_RUN_MAX_IO];
    size_t n_outputs;
    model_run_report report;
} model_run;

/// Looks for the wanted outputs, runs once, then `repeats` times, and closes everything. What takes
/// long is told on standard error when that is a terminal. `*run` is
/// the caller's (model_run_free, also after a failure). Errors: as model_session_open and
/// model_run_find_output, and of the run.
kiln_status model_run_execute(const model_options *options, uint32_t repeats, model_run *run,
                              kiln_error *err);
void model_run_free(model_run *run);
/// Runs once and reads all results into run->outputs.
kiln_status model_run_once(model_session *session, model_run *run, kiln_error *err);

/// Writes a table of the blocks and single operations of the model's graphs by the time that they
/// took in runs under a trace, beside the device's peaks, which it measures. The caller frees
/// `*out_text` and `*out_rows`, a list. Errors: also of kiln_graph_explained.
kiln_status model_profile(const model_session *session, char **out_text, json_t **out_rows,
                          kiln_error *err);

/// Opens a model and runs it once, then as lines of standard input say, until they end: "run
/// SECONDS" or "write FILE" for the first output. Each is answered by a line; the first, "ready
/// MILLISECONDS DEVICE", comes after the first run. Errors: as model_run_execute, and of a line.
kiln_status model_turns(const model_options *options, kiln_error *err);

#endif
