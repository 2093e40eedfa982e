// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ONNX_H
#define KILN_ONNX_H

/// onnx: ONNX files as operations. A model is a decoded file; nothing of it has run. Files are
/// hostile until checked: every count, length, path and depth is bounded before it is used.
///
/// Unless a function says otherwise: any thread may call those of a model, one at a time those of a
/// session; its arguments are borrowed for the call; what it returns is borrowed and lives as long
/// as the model, session or file that it came from; it can fail with RESOURCE_EXHAUSTED. NULL where
/// a pointer is needed is INVALID_ARGUMENT; a function without a status then does nothing and gives
/// 0.

#include "kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- models ----

typedef struct kiln_onnx_model kiln_onnx_model;

typedef enum kiln_onnx_kind {
    KILN_ONNX_KIND_NONE = 0, ///< the file does not say
    KILN_ONNX_KIND_TENSOR = 1,
    KILN_ONNX_KIND_SEQUENCE = 2,
    KILN_ONNX_KIND_MAP = 3,
    KILN_ONNX_KIND_OPTIONAL = 4,
    KILN_ONNX_KIND_SPARSE = 5,
    KILN_ONNX_KIND_TEXTS = 6 ///< of a value: a tensor of strings
} kiln_onnx_kind;

typedef struct kiln_onnx_dim {
    int64_t length; ///< -1: not known before a run
    const char *symbol; ///< name of an unknown length, or NULL
} kiln_onnx_dim;

typedef struct kiln_onnx_value_info { ///< texts belong to the model
    const char *name;
    kiln_onnx_kind kind;
    kiln_dtype dtype; ///< KILN_DTYPE_NONE for a type that no tensor has, "string" among them; of
                      ///< "int4" i8, of "uint4" u8
    int32_t onnx_type; ///< ONNX's number of the element type
    const char *type_name; ///< ONNX's name of it, such as "float16"
    bool has_shape;
    uint32_t rank;
    kiln_onnx_dim dims[KILN_MAX_RANK];
} kiln_onnx_value_info;

/// Opens a model file. The file is mapped, and weights are copied from it when they are needed: it
/// must not change while the model is open, or a tensor or a graph holds one of its weights.
/// External data is looked for below the file's folder. `*out_model` is the caller's
/// (kiln_onnx_model_close); `env` must outlive it and those weights. Errors: also NOT_FOUND,
/// PERMISSION_DENIED, DATA_LOSS for a damaged file, INVALID_ARGUMENT for one that contradicts
/// itself, UNIMPLEMENTED for what Kiln cannot hold.
KILN_NODISCARD KILN_API kiln_status kiln_onnx_model_open(const kiln_env *env, const char *path,
                                                         kiln_onnx_model **out_model,
                                                         kiln_error *err);

/// Opens a model in memory, which must outlive it. External data is looked for below `folder`
/// (NULL: refused). Else as kiln_onnx_model_open.
KILN_NODISCARD KILN_API kiln_status kiln_onnx_model_open_memory(const kiln_env *env,
                                                                const void *bytes, size_t length,
                                                                const char *folder,
                                                                kiln_onnx_model **out_model,
                                                                kiln_error *err);

/// Closes a model whose sessions are gone. Takes NULL.
KILN_API void kiln_onnx_model_close(kiln_onnx_model *model);

/// What a run needs: the graph's inputs without those that have an initialiser.
KILN_API const kiln_onnx_value_info *kiln_onnx_model_inputs(const kiln_onnx_model *model,
                                                            size_t *out_count);

/// What a run gives: the graph's outputs.
KILN_API const kiln_onnx_value_info *kiln_onnx_model_outputs(const kiln_onnx_model *model,
                                                             size_t *out_count);

/// Writes what a value has to be, for people: "float32 [batch,3,224,224]", "sequence of int64". Cut
/// where `size` bytes are not enough, always terminated.
KILN_API void kiln_onnx_value_info_text(const kiln_onnx_value_info *info, char *text, size_t size);

/// Version of the operator set of `domain` ("" for the standard one) that the model uses; 0 when
/// none.
KILN_API int64_t kiln_onnx_model_opset(const kiln_onnx_model *model, const char *domain);

// ---- weights: what training changes ----

/// A weight: an initialiser of the model's graph.
typedef struct kiln_onnx_weight_info { ///< all for the call alone
    uint32_t struct_size;
    bool is_parameter; ///< of floats, more than one, and no statistics or factors of an operator
    const char *name;
    kiln_dtype dtype;
    uint32_t rank;
    int64_t dims[KILN_MAX_RANK];
    const void *data; ///< dense, little-endian, at any address
    size_t bytes;
} kiln_onnx_weight_info;

typedef kiln_status (*kiln_onnx_weight_fn)(const kiln_onnx_weight_info *info, void *user,
                                           kiln_error *err);

/// Calls `fn` for each weight in the order of the file, but for sparse ones, strings and those of
/// few bits. Errors: those of `fn`, which end it.
KILN_NODISCARD KILN_API kiln_status kiln_onnx_model_weights(const kiln_onnx_model *model,
                                                            kiln_onnx_weight_fn fn, void *user,
                                                            kiln_error *err);

struct kiln_onnx_input;

/// Writes the model's file with the contents of tensors in the place of weights of floats of the
/// same name, shape and dtype. All else is copied as it stands; weights in other files come along.
/// A file of that name, the model's own too, is replaced when the new one is whole. Waits for the
/// tensors. Errors: also INVALID_ARGUMENT, UNAVAILABLE with the reason, OUT_OF_RANGE beyond 2 GiB,
/// those of kiln_read.
KILN_NODISCARD KILN_API kiln_status kiln_onnx_model_write(const kiln_onnx_model *model,
                                                          const char *path,
                                                          const struct kiln_onnx_input *weights,
                                                          size_t n_weights, kiln_error *err);

// ---- sessions: a model on a device ----

/// A model made ready for a device. Constants are uploaded at their first use and kept.
typedef struct kiln_onnx_session kiln_onnx_session;

/// What a model takes or gives: a tensor, also of strings, a list of tensors, maps, or nothing.
typedef struct kiln_onnx_value {
    kiln_onnx_kind kind; ///< TENSOR, TEXTS, SEQUENCE, MAP, or OPTIONAL for one that holds nothing
    kiln_tensor *tensor; ///< of a TENSOR
    const void *host; ///< of a TENSOR as in kiln_onnx_input; of TEXTS kiln_onnx_texts, of a MAP
                      ///< kiln_onnx_maps
    struct kiln_onnx_value *items; ///< of a SEQUENCE: tensors
    size_t n_items;
} kiln_onnx_value;

/// A tensor of strings, on the host. A capture keeps what they said.
typedef struct kiln_onnx_texts {
    uint32_t struct_size;
    uint32_t rank;
    int64_t dims[KILN_MAX_RANK];
    const char *const *texts; ///< UTF-8, terminated, in row-major order
} kiln_onnx_texts;

/// A map, or a sequence of maps with the same keys, as ZipMap gives: a table on the host.
typedef struct kiln_onnx_maps {
    uint32_t struct_size;
    kiln_dtype dtype; ///< of the values: f32, f64 or i64
    size_t rows; ///< maps
    size_t count; ///< keys of each
    const char *const *texts; ///< the keys; NULL: they are numbers
    const int64_t *ints; ///< the keys where `texts` is NULL
    const void *values; ///< [rows, count]
} kiln_onnx_maps;

/// An input by name. `host`, when not NULL, is the tensor's contents, dense: then values that
/// decide about shapes need not be read back from the device, and a capture can use them (it keeps
/// what they said). `value`, when not NULL, stands for both, for inputs that are no tensors. The
/// name of a weight of floats gives it another value for the run: then no part of the model is
/// replayed or kept from run to run, so that what watches the recording, such as a tape
/// (kiln_grad.h), sees all of it.
typedef struct kiln_onnx_input {
    const char *name;
    kiln_tensor *tensor;
    const void *host;
    const kiln_onnx_value *value;
} kiln_onnx_input;

/// Resolves names, versions and operators of the whole model. `*out_session` is the caller's
/// (kiln_onnx_session_destroy). `model` must outlive it; it holds the device. Errors: also
/// UNIMPLEMENTED naming operator, domain, version and node; INVALID_ARGUMENT for a graph that
/// contradicts itself; RESOURCE_EXHAUSTED also for constants that the device has no room for.
KILN_NODISCARD KILN_API kiln_status kiln_onnx_session_create(const kiln_onnx_model *model,
                                                             kiln_device *device,
                                                             kiln_onnx_session **out_session,
                                                             kiln_error *err);

/// How a session is made. Zero is the default.
typedef struct kiln_onnx_session_options {
    uint32_t struct_size;
    kiln_dtype dtype; ///< F16 or BF16: what a model of f32 keeps its weights and intermediates in;
                      ///< F32: neither; NONE: as the option `model-dtype` says
} kiln_onnx_session_options;

#define KILN_ONNX_SESSION_OPTIONS_INIT                                                             \
    {                                                                                              \
        sizeof(kiln_onnx_session_options), KILN_DTYPE_NONE                                         \
    }

/// kiln_onnx_session_create_across with options, NULL for none. With a narrow `dtype` values of f32
/// are kept in it between products, which have sums of f32, and what follows these element by
/// element or row by row; reductions, statistics, losses, recurrent layers, and what f16 has no
/// room for stay in f32. Inputs and outputs have the model's types. A model with quantised parts is
/// left as it is (kiln_onnx_session_dtype tells). Errors: also INVALID_ARGUMENT for another dtype;
/// UNIMPLEMENTED for a device without it.
KILN_NODISCARD KILN_API kiln_status kiln_onnx_session_create_with(
    const kiln_onnx_model *model, kiln_device *const *devices, size_t n_devices,
    const kiln_onnx_session_options *options, kiln_onnx_session **out_session, kiln_error *err);

/// What the session keeps the model's floats of f32 in: F16, BF16, or F32.
KILN_API kiln_dtype kiln_onnx_session_dtype(const kiln_onnx_session *session);

/// The same on several devices, for a model that is larger than one. Where its constants fill more
/// than half of the first, its nodes are cut in their order into a part for each device, by the
/// memory that each may hold, where few values cross; these move by kiln_to_device in each run.
/// Inputs may lie on any of the devices, outputs lie where they are computed, and a run is in no
/// capture. Errors: also INVALID_ARGUMENT for a count that is not 1 to 16.
KILN_NODISCARD KILN_API kiln_status kiln_onnx_session_create_across(const kiln_onnx_model *model,
                                                                    kiln_device *const *devices,
                                                                    size_t n_devices,
                                                                    kiln_onnx_session **out_session,
                                                                    kiln_error *err);

/// A range of the model's nodes and the device that runs them.
typedef struct kiln_onnx_part_info { ///< texts belong to the model
    uint32_t struct_size;
    kiln_device *device; ///< borrowed
    uint32_t first_node;
    uint32_t n_nodes;
    uint32_t n_cut; ///< results of earlier parts that come over in each run
    uint64_t constant_bytes; ///< that it reads
    const char *op_type; ///< of its first node
    const char *name;
} kiln_onnx_part_info;

typedef void (*kiln_onnx_part_fn)(const kiln_onnx_part_info *info, void *user);

/// Calls `fn` for each part in order; a model on one device is one.
KILN_API void kiln_onnx_session_parts(const kiln_onnx_session *session, kiln_onnx_part_fn fn,
                                      void *user);

/// Hears whether a session would take a node of the model's graph, counted from 0; `why` is the
/// error where it would not.
typedef void (*kiln_onnx_survey_fn)(size_t node, const kiln_error *why, void *user);

/// Asks for each node of the model's graph whether kiln_onnx_session_create would take it on
/// `device`: `fn` hears of all, in their order, with `why` NULL or the reason. What depends on
/// contents or shapes is found by a run only. Errors: what is wrong with the graph as a whole.
KILN_NODISCARD KILN_API kiln_status kiln_onnx_model_survey(const kiln_onnx_model *model,
                                                           kiln_device *device,
                                                           kiln_onnx_survey_fn fn, void *user,
                                                           kiln_error *err);

/// Frees a session and gives its devices back. Takes NULL.
KILN_API void kiln_onnx_session_destroy(kiln_onnx_session *session);

/// Who computed a node: the device; the host, from constants alone (as shapes are); or the host,
/// from what a run brought.
typedef enum kiln_onnx_where {
    KILN_ONNX_ON_DEVICE = 1,
    KILN_ONNX_FOLDED = 2,
    KILN_ONNX_ON_HOST = 3
} kiln_onnx_where;

typedef struct kiln_onnx_node_output {
    const char *name; ///< as other nodes read it; "" for one that none can
    kiln_tensor *tensor; ///< borrowed; NULL: it is on the host, or no tensor. Of the type that it
                         ///< is kept in
} kiln_onnx_node_output;

typedef struct kiln_onnx_node_info { ///< texts belong to the model
    uint32_t struct_size;
    kiln_onnx_where where;
    const char *op_type;
    const char *name;
    uint32_t n_outputs; ///< the first 16 of them
    const kiln_onnx_node_output *outputs; ///< recorded, not yet computed; for the call alone
    const char *attributes; ///< "group=1, strides=[2,2]", cut where it is long; for the call alone
} kiln_onnx_node_info;

typedef void (*kiln_onnx_trace_fn)(const kiln_onnx_node_info *info, void *user);

/// From now on `fn` hears of every node that a run has gone through, those of branches and bodies
/// before the node that holds them, on the thread of the run; NULL: nobody does.
KILN_API void kiln_onnx_session_trace(kiln_onnx_session *session, kiln_onnx_trace_fn fn,
                                      void *user);

/// A part of a model that reads values, between two reads, as runs have captured it so far.
typedef struct kiln_onnx_graph_info { ///< texts belong to the model
    uint32_t struct_size;
    uint32_t first_node; ///< of its graph or function
    uint32_t n_nodes;
    uint32_t n_others; ///< nodes of that graph; what is in none of its parts is recorded each time
    const char *where; ///< name of the graph or function that it is of
    const char *op_type; ///< of its first node
    kiln_graph *graph;
} kiln_onnx_graph_info;

typedef void (*kiln_onnx_graph_fn)(const kiln_onnx_graph_info *info, void *user);

/// Calls `fn` for each of them, in the order of graphs and nodes. They live until the next run.
KILN_API void kiln_onnx_session_graphs(const kiln_onnx_session *session, kiln_onnx_graph_fn fn,
                                       void *user);

/// Records the model's operations on the device and returns: nothing is waited for, unless a value
/// that decides about a shape or about the way has to be read back. Between kiln_graph_begin and
/// kiln_graph_end it is captured like any other recording; the graph then runs with inputs of these
/// shapes only, for lengths became attributes. Of a model that reads values, what lies between the
/// reads becomes graphs when runs repeat. `out_tensors` has one place for each output of the model,
/// in its order. Inputs are borrowed, those that a graph was made with held by the session; each
/// out_tensors[i] is the caller's reference. Errors: also INVALID_ARGUMENT for missing, unknown or
/// unfitting inputs; UNIMPLEMENTED naming the node; whatever recording gives, with the node before
/// it.
KILN_NODISCARD KILN_API kiln_status kiln_onnx_session_run(kiln_onnx_session *session,
                                                          const kiln_onnx_input *inputs,
                                                          size_t n_inputs,
                                                          kiln_tensor **out_tensors,
                                                          size_t n_outputs, kiln_error *err);

/// The same for models whose outputs are sequences, strings, maps or optionals. Inputs are
/// borrowed; what out_values hold is the caller's (kiln_onnx_values_free). Errors: as
/// kiln_onnx_session_run.
KILN_NODISCARD KILN_API kiln_status kiln_onnx_session_run_values(kiln_onnx_session *session,
                                                                 const kiln_onnx_input *inputs,
                                                                 size_t n_inputs,
                                                                 kiln_onnx_value *out_values,
                                                                 size_t n_outputs, kiln_error *err);

/// Releases the tensors of values that a run gave, and frees their lists, strings and maps; the
/// array stays.
KILN_API void kiln_onnx_values_free(const kiln_env *env, kiln_onnx_value *values, size_t count);

// ---- outputs that are the next run's inputs ----

/// Makes what a run gives for `output` the value of `input` in the next run: it stays on the
/// device, and the run gives NULL in its place. The first run has to be given the input, a later
/// one may be. Where the model puts something behind the input (Concat, or the keys and values of
/// an Attention), memory for `reserve` along that axis is kept, 0: for as much again, and only what
/// is new is written. Lengths vary then (kiln_stream_vary_lengths), so that no run of such a
/// session is in a capture; after a failed run the input has to be given. Errors: also
/// INVALID_ARGUMENT for names that the model has not, what is bound already, and types that do not
/// fit.
KILN_NODISCARD KILN_API kiln_status kiln_onnx_session_bind(kiln_onnx_session *session,
                                                           const char *output, const char *input,
                                                           int64_t reserve, kiln_error *err);

/// The value that the next run has for a bound input. The caller holds `*out_tensor`; while it
/// does, a longer one is written to other memory. Errors: also INVALID_ARGUMENT when there is none.
KILN_NODISCARD KILN_API kiln_status kiln_onnx_session_bound(const kiln_onnx_session *session,
                                                            const char *input,
                                                            kiln_tensor **out_tensor,
                                                            kiln_error *err);

/// What the bound inputs of a session have between two runs, apart from the session: one session,
/// with its constants once, so serves several rows of runs in turn.
typedef struct kiln_onnx_state kiln_onnx_state;

/// Gives the session `*io_state` and puts what its bound inputs had in its place. NULL is a state
/// in which no input has a value. After bindings, and between runs; `*io_state` is the caller's
/// (kiln_onnx_state_destroy), and goes back to no other session. Errors: also INVALID_ARGUMENT for
/// a session without bindings, and a state made before the last of them.
KILN_NODISCARD KILN_API kiln_status kiln_onnx_session_exchange(kiln_onnx_session *session,
                                                               kiln_onnx_state **io_state,
                                                               kiln_error *err);

/// Lets go of a state's values. Takes NULL. The session's device is still open.
KILN_API void kiln_onnx_state_destroy(kiln_onnx_state *state);

// ---- tensors in files ----

/// A file that holds one TensorProto, as ONNX's test cases do.
typedef struct kiln_onnx_tensor_file kiln_onnx_tensor_file;

typedef struct kiln_onnx_tensor_info {
    const char *name;
    kiln_dtype dtype; ///< KILN_DTYPE_NONE for a type that no tensor has: no data, but of "string"
    const char *type_name;
    uint32_t rank;
    int64_t dims[KILN_MAX_RANK];
    const void *data; ///< dense, little-endian, at any address; of "string" `const char *` each
    size_t bytes;
} kiln_onnx_tensor_info;

/// Opens a file that holds a value of `kind`: TENSOR, SEQUENCE or OPTIONAL. `*out_kind` is TENSOR
/// (one item), SEQUENCE (its items), or OPTIONAL for an optional that holds nothing. `*out_file` is
/// the caller's (kiln_onnx_tensor_close); `*out_items` belongs to it. `env` must outlive it.
/// Errors: as kiln_onnx_model_open; UNIMPLEMENTED for maps and what is nested deeper.
KILN_NODISCARD KILN_API kiln_status kiln_onnx_value_open(const kiln_env *env, const char *path,
                                                         kiln_onnx_kind kind,
                                                         kiln_onnx_tensor_file **out_file,
                                                         kiln_onnx_kind *out_kind,
                                                         const kiln_onnx_tensor_info **out_items,
                                                         size_t *out_count, kiln_error *err);

/// Closes a file, and with it its items. Takes NULL.
KILN_API void kiln_onnx_tensor_close(kiln_onnx_tensor_file *file);

#ifdef __cplusplus
}
#endif
#endif
