// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ORT_ABI_H
#define KILN_ORT_ABI_H

// What this plugin knows of ONNX Runtime's C interface, version 23 (ONNX Runtime 1.23), written
// from its documentation: opaque objects, numbers that are stored in models, and the tables of
// functions that an execution provider fills. ONNX Runtime reads no member behind the version that
// a table names, and its own tables only grow at their end; so newer versions work as well.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KILNI_ORT_VERSION = 23 };

enum { ///< error codes, as ort_status has them
    KILNI_ORT_FAIL = 1,
    KILNI_ORT_INVALID_ARGUMENT = 2,
    KILNI_ORT_NOT_IMPLEMENTED = 9
};

enum { ///< kinds of attributes
    KILNI_ORT_ATTR_INT = 1,
    KILNI_ORT_ATTR_INTS = 2,
    KILNI_ORT_ATTR_FLOAT = 3,
    KILNI_ORT_ATTR_FLOATS = 4,
    KILNI_ORT_ATTR_STRING = 5,
    KILNI_ORT_ATTR_STRINGS = 6,
    KILNI_ORT_ATTR_TENSOR = 8
};

enum { KILNI_ORT_HARDWARE_CPU = 0, KILNI_ORT_HARDWARE_GPU = 1 };

/// Element types up to this one are served. They have ONNX's numbers.
enum { KILNI_ORT_TYPES = 16 };

// ONNX Runtime's objects.
typedef struct ort_status ort_status;
typedef struct ort_value ort_value;
typedef struct ort_type ort_type;
typedef struct ort_shape ort_shape;
typedef struct ort_kernel_context ort_kernel_context;
typedef struct ort_session_options ort_session_options;
typedef struct ort_logger ort_logger;
typedef struct ort_attr ort_attr;
typedef struct ort_value_info ort_value_info;
typedef struct ort_pairs ort_pairs;
typedef struct ort_hardware ort_hardware;
typedef struct ort_graph ort_graph;
typedef struct ort_node ort_node;
typedef struct ort_device ort_device;
typedef struct ort_support ort_support;
typedef struct ort_compute_context ort_compute_context;

/// A table of functions, each to be called as its documentation says.
typedef void (*const *ort_table)(void);

/// What a plugin is given when it is loaded.
typedef struct ort_base {
    ort_table (*table)(uint32_t version); ///< NULL: a version that this ONNX Runtime does not know
    const char *(*version)(void);
} ort_base;

/// How nodes are taken.
typedef struct ort_fusion_options {
    uint32_t version;
    bool drop_constants; ///< the provider keeps them: they are no inputs of the fused node
} ort_fusion_options;

/// One fused node, as the provider made it.
typedef struct ort_compute {
    uint32_t version;
    ort_status *(*create)(struct ort_compute *self, ort_compute_context *context, void **out_state);
    ort_status *(*run)(struct ort_compute *self, void *state, ort_kernel_context *context);
    void (*release)(struct ort_compute *self, void *state);
} ort_compute;

/// Members that stay NULL are optional; their types do not matter here.
typedef void (*ort_unused)(void);

/// An execution provider: one for each session.
typedef struct ort_provider {
    uint32_t version;
    const char *(*name)(const struct ort_provider *self);
    ort_status *(*capability)(struct ort_provider *self, const ort_graph *graph,
                              ort_support *support);
    ort_status *(*compile)(struct ort_provider *self, const ort_graph **graphs,
                           const ort_node **fused, size_t count, ort_compute **out_computes,
                           ort_node **out_context_nodes);
    void (*release_computes)(struct ort_provider *self, ort_compute **computes, size_t count);
    ort_unused preferred_layout;
    ort_unused should_convert_layout;
    ort_unused set_dynamic_options;
    ort_unused run_start;
    ort_unused run_end;
    ort_unused create_allocator;
    ort_unused create_stream;
    ort_unused compatibility_info;
} ort_provider;

/// Makes providers: one for each library that is loaded.
typedef struct ort_factory {
    uint32_t version;
    const char *(*name)(const struct ort_factory *self);
    const char *(*vendor)(const struct ort_factory *self);
    ort_status *(*devices)(struct ort_factory *self, const ort_hardware *const *hardware,
                           size_t n_hardware, ort_device **out_devices, size_t room,
                           size_t *out_count);
    ort_status *(*create)(struct ort_factory *self, const ort_hardware *const *hardware,
                          const ort_pairs *const *facts, size_t count,
                          const ort_session_options *options, const ort_logger *logger,
                          ort_provider **out_provider);
    void (*release)(struct ort_factory *self, ort_provider *provider);
    uint32_t (*vendor_id)(const struct ort_factory *self);
    const char *(*own_version)(const struct ort_factory *self);
    ort_unused validate_compatibility;
    ort_unused create_allocator;
    ort_unused release_allocator;
    ort_status *(*create_transfer)(struct ort_factory *self, void **out_transfer);
    bool (*is_stream_aware)(const struct ort_factory *self);
    ort_unused create_stream;
} ort_factory;

#endif
