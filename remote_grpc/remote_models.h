// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_REMOTE_MODELS_H
#define KILN_REMOTE_MODELS_H

/// Models that a server offers beside its devices, by the Open Inference Protocol of KServe and
/// Triton. A server knows no file and no operator: whoever creates it passes these functions, and
/// kiln_rpc_server answers with them.
///
/// Unless a function says otherwise: any thread may call it, several at a time; its arguments are
/// borrowed for the call; it can fail with INVALID_ARGUMENT, NOT_FOUND, UNAVAILABLE or
/// RESOURCE_EXHAUSTED.

#include "kiln.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KILN_MODEL_NAME = 128, ///< bytes of a name with its end
    KILN_MODEL_VERSION = 24,
    KILN_MODEL_TENSORS = 64, ///< inputs, and outputs, of a model
    KILN_MODEL_VERSIONS = 32, ///< of a model at a time
    KILN_MODEL_PREFERRED = 16,
    KILN_MODEL_CONTROLS = 8,
    KILN_MODEL_BATCHES = 64, ///< sizes that statistics tell apart
    KILN_MODEL_REASON = 256
};

/// A tensor of a request, an answer or a description. With a `region` its bytes lie in shared
/// memory that was registered under that name, and `data` is NULL.
typedef struct kiln_model_tensor {
    char name[KILN_MODEL_NAME];
    kiln_dtype dtype;
    uint32_t rank;
    int64_t dims[KILN_MAX_RANK]; ///< of a description: -1 where it is open
    const void *data; ///< dense, little-endian, at any address
    size_t bytes;
    char region[KILN_MODEL_NAME];
    uint64_t region_offset;
} kiln_model_tensor;

typedef struct kiln_model_request {
    char model[KILN_MODEL_NAME];
    char version[KILN_MODEL_VERSION]; ///< "": the newest
    uint32_t n_inputs;
    uint32_t n_wanted; ///< 0: all outputs
    kiln_model_tensor inputs[KILN_MODEL_TENSORS];
    kiln_model_tensor wanted[KILN_MODEL_TENSORS]; ///< by name; a region is where the output goes
    uint64_t timeout_us; ///< in the queue; 0: as the model says
    uint64_t priority; ///< 1 is the highest; 0: as the model says
    char sequence[KILN_MODEL_NAME]; ///< that it belongs to, of the caller's; "": none
    bool sequence_start;
    bool sequence_end;
    const char *caller; ///< whose it is: callers take turns; NULL: nobody's
} kiln_model_request;

typedef struct kiln_model_answer {
    char version[KILN_MODEL_VERSION];
    uint32_t n_outputs;
    kiln_model_tensor outputs[KILN_MODEL_TENSORS];
    void *memory; ///< that outputs lie in
} kiln_model_answer;

/// A state of a model: what a request's run gives for `output` is the value of `input` in the next
/// run of the same sequence. Neither travels.
typedef struct kiln_model_state {
    char output[KILN_MODEL_NAME];
    kiln_model_tensor input; ///< extents of the first value, zeros; a batch dimension is -1
} kiln_model_state;

typedef enum kiln_model_control_kind { ///< numbers of the protocol
    KILN_MODEL_CONTROL_START = 0, ///< of a sequence's first request
    KILN_MODEL_CONTROL_READY = 1, ///< always
    KILN_MODEL_CONTROL_END = 2,
    KILN_MODEL_CONTROL_ID = 3 ///< the sequence's number
} kiln_model_control_kind;

/// An input that says where in its sequence a request stands.
typedef struct kiln_model_control {
    kiln_model_control_kind kind;
    kiln_model_tensor input;
    double no; ///< as a number of the input's type
    double yes;
} kiln_model_control;

/// What a version of a model takes and gives, and how it is run.
typedef struct kiln_model_info {
    char name[KILN_MODEL_NAME];
    char version[KILN_MODEL_VERSION];
    char file[KILN_MODEL_NAME];
    uint64_t versions[KILN_MODEL_VERSIONS]; ///< that are ready
    uint32_t n_versions;
    uint32_t n_inputs;
    uint32_t n_outputs;
    kiln_model_tensor inputs[KILN_MODEL_TENSORS];
    kiln_model_tensor outputs[KILN_MODEL_TENSORS];
    uint32_t max_batch; ///< 0: the model has no batch dimension; else it is the first one
    bool batching; ///< requests that wait are joined
    uint32_t n_preferred;
    uint32_t preferred[KILN_MODEL_PREFERRED]; ///< sizes that are run at once
    uint64_t queue_delay_us; ///< that a request waits for others
    uint32_t max_queue; ///< requests that wait, at most
    uint64_t queue_timeout_us; ///< 0: none
    uint32_t priority_levels; ///< 0: all are equal
    uint32_t default_priority;
    uint32_t instances;
    bool sequences; ///< each request belongs to one
    bool joins; ///< requests of several are run together: states are rows of fixed extents
    uint32_t max_sequences; ///< that are held at a time
    uint64_t sequence_idle_us; ///< after which one is let go
    uint32_t n_states;
    uint32_t n_controls;
    kiln_model_state states[KILN_MODEL_TENSORS];
    kiln_model_control controls[KILN_MODEL_CONTROLS];
    kiln_dtype kept_in; ///< what floats of f32 are kept in; NONE: as the server is configured
} kiln_model_info;

typedef struct kiln_model_row { ///< texts live for the call
    const char *name;
    const char *version; ///< "": none was tried
    const char *state; ///< "READY", "UNAVAILABLE", "LOADING", "UNLOADING"
    const char *reason;
} kiln_model_row;

typedef struct kiln_model_duration {
    uint64_t count;
    uint64_t ns;
} kiln_model_duration;

typedef struct kiln_model_batch {
    uint64_t size;
    kiln_model_duration input;
    kiln_model_duration infer;
    kiln_model_duration output;
} kiln_model_batch;

typedef struct kiln_model_stats {
    char name[KILN_MODEL_NAME];
    char version[KILN_MODEL_VERSION];
    uint64_t last_ms; ///< since 1970
    uint64_t inferences; ///< rows of batches
    uint64_t executions;
    kiln_model_duration success;
    kiln_model_duration fail;
    kiln_model_duration queue;
    kiln_model_duration input;
    kiln_model_duration infer;
    kiln_model_duration output;
    uint32_t n_batches;
    kiln_model_batch batches[KILN_MODEL_BATCHES];
} kiln_model_stats;

typedef struct kiln_model_region { ///< texts live for the call
    const char *name;
    const char *key; ///< as shm_open takes it
    uint64_t offset;
    uint64_t bytes;
} kiln_model_region;

typedef void (*kiln_model_row_fn)(const kiln_model_row *row, void *to);
typedef void (*kiln_model_stats_fn)(const kiln_model_stats *stats, void *to);
typedef void (*kiln_model_region_fn)(const kiln_model_region *region, void *to);

/// Where models come from. `user` goes into each call.
typedef struct kiln_models {
    uint32_t struct_size;
    void *user;

    /// Whether requests are taken: what was to be loaded was tried, and nothing is shut down.
    bool (*ready)(void *user);

    /// Runs a model and waits for it. `*out_answer` is the caller's (answer_free), zeroed before.
    /// Errors: also DEADLINE_EXCEEDED in the queue, FAILED_PRECONDITION, INTERNAL.
    kiln_status (*infer)(void *user, const kiln_model_request *request,
                         kiln_model_answer *out_answer, kiln_error *err);
    void (*answer_free)(void *user, kiln_model_answer *answer);

    /// Describes a version that is ready, "" for the newest.
    kiln_status (*describe)(void *user, const char *name, const char *version,
                            kiln_model_info *out_info, kiln_error *err);

    /// Tells of every version of every model that there is.
    void (*index)(void *user, bool ready_only, kiln_model_row_fn fn, void *to);

    /// Reads a model's folder again; what ran goes on until the new versions are ready.
    kiln_status (*load)(void *user, const char *name, kiln_error *err);
    kiln_status (*unload)(void *user, const char *name, kiln_error *err);

    /// Tells of a version, "" for all that are ready; "" as name: of all models.
    kiln_status (*statistics)(void *user, const char *name, const char *version,
                              kiln_model_stats_fn fn, void *to, kiln_error *err);

    /// Shared memory of this machine. Errors: also PERMISSION_DENIED, ALREADY_EXISTS.
    kiln_status (*region_add)(void *user, const kiln_model_region *region, kiln_error *err);
    kiln_status (*region_remove)(void *user, const char *name, kiln_error *err); ///< "": all
    kiln_status (*region_list)(void *user, const char *name, kiln_model_region_fn fn, void *to,
                               kiln_error *err); ///< "": all
} kiln_models;

// ---- element types ----

/// Name of an element type as the protocol has it, "FP32"; NULL for one that it has not.
static inline const char *kiln_model_dtype_name(kiln_dtype dtype)
{
#define KILN_MODEL_DTYPE(id, name, number, contents)                                               \
    if (dtype == KILN_DTYPE_##id) {                                                                \
        return name;                                                                               \
    }
#include "remote_models_dtypes.def"
#undef KILN_MODEL_DTYPE
    return NULL;
}

/// The element type of a name; KILN_DTYPE_NONE for a name that is none.
static inline kiln_dtype kiln_model_dtype_of(const char *name)
{
#define KILN_MODEL_DTYPE(id, text, number, contents)                                               \
    if (strcmp(name, text) == 0) {                                                                 \
        return KILN_DTYPE_##id;                                                                    \
    }
#include "remote_models_dtypes.def"
#undef KILN_MODEL_DTYPE
    return KILN_DTYPE_NONE;
}

#ifdef __cplusplus
}
#endif
#endif
