// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ONNX_MODEL_H
#define KILN_ONNX_MODEL_H

// The neutral form of an ONNX file: what the decoder makes and the importer reads. No protobuf type
// leaves onnx_decode*.c. Everything lives in the model's arena, except raw tensor data, which stays
// where it was found: in the mapped file, or in the mapping of an external data file.

#include "onnx.h"

enum {
    KILNI_ONNX_MAX_DEPTH = 64, ///< of messages inside messages
    KILNI_ONNX_MAX_FILES = 64, ///< external data files of one model
    KILNI_ONNX_MAX_NAME = 4096, ///< bytes of a name
    KILNI_ONNX_MAX_LIST = 16777216 ///< entries of one list of messages or texts
};

/// ONNX's numbers of element types that have no dtype here. Those of few bits are held in u8 and
/// i8, others are named in errors.
enum {
    KILNI_ONNX_TYPE_NONE = 0,
    KILNI_ONNX_TYPE_STRING = 8,
    KILNI_ONNX_TYPE_F8E4M3FN = 17,
    KILNI_ONNX_TYPE_F8E4M3FNUZ = 18,
    KILNI_ONNX_TYPE_F8E5M2 = 19,
    KILNI_ONNX_TYPE_F8E5M2FNUZ = 20,
    KILNI_ONNX_TYPE_UINT4 = 21,
    KILNI_ONNX_TYPE_INT4 = 22,
    KILNI_ONNX_TYPE_F4E2M1 = 23,
    KILNI_ONNX_TYPE_F8E8M0 = 24,
    KILNI_ONNX_TYPE_UINT2 = 25,
    KILNI_ONNX_TYPE_INT2 = 26,
    KILNI_ONNX_TYPE_LIMIT = 29
};

typedef enum kilni_onnx_attr_type { ///< ONNX's numbers
    KILNI_ONNX_ATTR_NONE = 0,
    KILNI_ONNX_ATTR_FLOAT = 1,
    KILNI_ONNX_ATTR_INT = 2,
    KILNI_ONNX_ATTR_STRING = 3,
    KILNI_ONNX_ATTR_TENSOR = 4,
    KILNI_ONNX_ATTR_GRAPH = 5,
    KILNI_ONNX_ATTR_FLOATS = 6,
    KILNI_ONNX_ATTR_INTS = 7,
    KILNI_ONNX_ATTR_STRINGS = 8,
    KILNI_ONNX_ATTR_TENSORS = 9,
    KILNI_ONNX_ATTR_GRAPHS = 10,
    KILNI_ONNX_ATTR_SPARSE_TENSOR = 11,
    KILNI_ONNX_ATTR_SPARSE_TENSORS = 12,
    KILNI_ONNX_ATTR_TYPE = 13,
    KILNI_ONNX_ATTR_TYPES = 14
} kilni_onnx_attr_type;

typedef struct kilni_onnx_graph kilni_onnx_graph;

/// A constant. `data` is dense and little-endian, at any address: copy or upload it, never cast it.
/// Of a sparse one `data` are the values that are there, and `indices` says where in `dims` they
/// stand.
typedef struct kilni_onnx_tensor {
    const char *name;
    int32_t onnx_type;
    kiln_dtype dtype; ///< KILN_DTYPE_NONE: a type that Kiln has not (`data` is NULL then)
    uint32_t rank;
    int64_t dims[KILN_MAX_RANK];
    int64_t count;
    const uint8_t *data;
    size_t bytes;
    const char *const *texts; ///< of strings, `count` of them
    const struct kilni_onnx_tensor *indices; ///< i64 [values] or [values, rank]; NULL: dense
} kilni_onnx_tensor;

typedef struct kilni_onnx_attr {
    const char *name;
    const char *ref_name; ///< not empty: the attribute of that name of the function's caller
    kilni_onnx_attr_type type;
    float f;
    int64_t i;
    const char *text; ///< terminated copy
    const kilni_onnx_tensor *tensor;
    const kilni_onnx_graph *graph;
    const float *floats;
    const int64_t *ints;
    const char *const *texts;
    uint32_t count; ///< of floats, ints or texts
} kilni_onnx_attr;

typedef struct kilni_onnx_node {
    const char *name;
    const char *op_type;
    const char *domain; ///< "" for the standard one, also when the file says "ai.onnx"
    const char *overload;
    const char *const *inputs; ///< "" where an optional one is left out
    const char *const *outputs;
    const kilni_onnx_attr *attrs;
    uint32_t n_inputs;
    uint32_t n_outputs;
    uint32_t n_attrs;
} kilni_onnx_node;

struct kilni_onnx_graph {
    const char *name;
    const kilni_onnx_node *nodes;
    const kilni_onnx_tensor *initializers;
    const kiln_onnx_value_info *inputs; ///< as in the file, initialisers included
    const kiln_onnx_value_info *outputs;
    uint32_t n_nodes;
    uint32_t n_initializers;
    uint32_t n_inputs;
    uint32_t n_outputs;
};

typedef struct kilni_onnx_opset {
    const char *domain;
    int64_t version;
} kilni_onnx_opset;

typedef struct kilni_onnx_function {
    const char *name;
    const char *domain;
    const char *overload;
    const char *const *inputs;
    const char *const *outputs;
    const kilni_onnx_attr *defaults;
    const kilni_onnx_node *nodes;
    const kilni_onnx_opset *opsets;
    uint32_t n_inputs;
    uint32_t n_outputs;
    uint32_t n_defaults;
    uint32_t n_nodes;
    uint32_t n_opsets;
} kilni_onnx_function;

/// A mapped file, held by its model and by constants that lie in it.
typedef struct kilni_onnx_file kilni_onnx_file;

/// A file in memory, read-only. Empty files have data == NULL.
typedef struct kilni_onnx_mapping {
    const uint8_t *data;
    size_t bytes;
    kilni_onnx_file *file; ///< NULL: empty, or borrowed from the caller
} kilni_onnx_mapping;

typedef struct kilni_onnx_external {
    const char *location;
    kilni_onnx_mapping mapping;
} kilni_onnx_external;

struct kiln_onnx_model {
    kiln_env env;
    kiln_arena arena;
    size_t budget_bytes; ///< what the arena may hold: bounded by the file's length
    kilni_onnx_mapping file;
    const char *folder; ///< of external data; NULL: none allowed
    kilni_onnx_external externals[KILNI_ONNX_MAX_FILES];
    uint32_t n_externals;
    const char *producer;
    int64_t ir_version;
    kilni_onnx_graph graph;
    const kilni_onnx_opset *opsets;
    const kilni_onnx_function *functions;
    const kiln_onnx_value_info *inputs; ///< of the graph without those that have an initialiser
    uint32_t n_opsets;
    uint32_t n_functions;
    uint32_t n_inputs;
    uint32_t n_training; ///< how often the file says how to train: not read further
};

/// Memory from the model's arena within its budget. It lives in the arena. One thread at a time.
/// Errors: RESOURCE_EXHAUSTED.
KILN_NODISCARD kiln_status kilni_onnx_alloc(struct kiln_onnx_model *model, size_t bytes,
                                            void **out_memory, kiln_error *err);

/// Maps a file, and gives it back. The result is the caller's. It lives until it is unmapped.
/// Errors: NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT for what is no plain file, UNAVAILABLE.
KILN_NODISCARD kiln_status kilni_onnx_map(const kiln_env *env, const char *path,
                                          kilni_onnx_mapping *out_mapping, kiln_error *err);
void kilni_onnx_unmap(kilni_onnx_mapping *mapping);

/// The model's file that has these bytes; NULL: none, they are in other memory.
kilni_onnx_file *kilni_onnx_file_of(const struct kiln_onnx_model *model, const void *bytes);

/// Holds on a file. The last unref unmaps it; any thread.
void kilni_onnx_file_ref(kilni_onnx_file *file);
void kilni_onnx_file_unref(kilni_onnx_file *file);

/// These bytes are not read soon: the system may have their pages, and reads them again when they
/// are looked at after all.
void kilni_onnx_file_rest(const kilni_onnx_file *file, const void *from, size_t bytes);

/// A name of bytes of the file as they are now, beyond this process; zeros: there is none.
kiln_hash128 kilni_onnx_file_stamp(const kilni_onnx_file *file, const void *from, size_t bytes);

/// Finds bytes of an external data file below the model's folder, mapping it at first use. `length`
/// below 0: up to the file's end. One thread at a time. Errors: INVALID_ARGUMENT for a path that
/// leaves the folder; DATA_LOSS when the file is too short.
KILN_NODISCARD kiln_status kilni_onnx_external_bytes(struct kiln_onnx_model *model,
                                                     const char *location, int64_t offset,
                                                     int64_t length, const uint8_t **out_data,
                                                     size_t *out_bytes, kiln_error *err);

/// Decodes model->file into the model, or a file that holds one TensorProto into `out_tensor`. It
/// lives in the model's arena. One thread at a time. Errors: DATA_LOSS for bytes that are no such
/// message; INVALID_ARGUMENT; RESOURCE_EXHAUSTED.
KILN_NODISCARD kiln_status kilni_onnx_decode_model(struct kiln_onnx_model *model, kiln_error *err);
KILN_NODISCARD kiln_status kilni_onnx_decode_tensor_file(struct kiln_onnx_model *model,
                                                         kilni_onnx_tensor *out_tensor,
                                                         kiln_error *err);

/// The same for a file that holds a SequenceProto (kind SEQUENCE) or an OptionalProto (OPTIONAL).
/// `*out_kind` is TENSOR, SEQUENCE, or OPTIONAL for one that holds nothing.
KILN_NODISCARD kiln_status kilni_onnx_decode_value_file(struct kiln_onnx_model *model,
                                                        kiln_onnx_kind kind,
                                                        kiln_onnx_kind *out_kind,
                                                        const kilni_onnx_tensor **out_items,
                                                        uint32_t *out_count, kiln_error *err);

/// Whether a tensor may stand for the initialiser; `weight` NULL: none has the name. Errors:
/// INVALID_ARGUMENT.
KILN_NODISCARD kiln_status kilni_onnx_check_weight(const kilni_onnx_tensor *weight,
                                                   const char *name, const kiln_tensor *tensor,
                                                   kiln_error *err);

/// Name of an ONNX element type ("float16"), "type 99" style names are the caller's; NULL when
/// unknown. Errors: NULL, KILN_DTYPE_NONE, 0.
const char *kilni_onnx_type_name(int32_t onnx_type);
kiln_dtype kilni_onnx_type_dtype(int32_t onnx_type);
int32_t kilni_onnx_type_of(kiln_dtype dtype);

#endif
