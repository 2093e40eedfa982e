// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_GRAPH_H
#define KILN_IR_GRAPH_H

/// Graphs: a list of operations with inputs and outputs, in files, text and on the wire. Ids inside
/// a graph are the graph's own. Text has one operation a line, such as `%2: f32[2,3] = add(%0:
/// f32[2,3], %1: f32[3])`; the parser takes what the printer writes, and `#` comments. The wire
/// form is proto/kiln/v1/ir.proto.
///
/// Unless a function says otherwise: one thread at a time uses a graph; what is given is copied;
/// what is returned is borrowed and lives as long as the graph. Errors: INVALID_ARGUMENT, which
/// names the operation, line or field; RESOURCE_EXHAUSTED. NULL where a pointer is needed is
/// INVALID_ARGUMENT; a function without a status then does nothing and gives 0.

#include "ir_op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_ir_graph kiln_ir_graph;

/// Makes an empty graph. The caller owns `*out_graph` (kiln_ir_graph_destroy); `env` must outlive
/// it.
KILN_NODISCARD KILN_API kiln_status kiln_ir_graph_create(const kiln_env *env,
                                                         kiln_ir_graph **out_graph,
                                                         kiln_error *err);

/// Frees the graph. Takes NULL.
KILN_API void kiln_ir_graph_destroy(kiln_ir_graph *graph);

/// Appends a copy of `record`.
KILN_NODISCARD KILN_API kiln_status kiln_ir_graph_append(kiln_ir_graph *graph,
                                                         const kiln_op_record *record,
                                                         kiln_error *err);

/// Sets the inputs and the ids of the outputs.
KILN_NODISCARD KILN_API kiln_status kiln_ir_graph_set_io(kiln_ir_graph *graph,
                                                         const kiln_tensor_desc *inputs,
                                                         size_t n_inputs,
                                                         const uint64_t *output_ids,
                                                         size_t n_outputs, kiln_error *err);

/// Checks the whole graph: every operation infers to its stored outputs, ids are defined once and
/// before use, none is used after its drop, outputs exist.
KILN_NODISCARD KILN_API kiln_status kiln_ir_graph_verify(const kiln_ir_graph *graph,
                                                         kiln_error *err);

/// Finds a custom operator. What it gives is borrowed and must outlive the use of the graph.
typedef kiln_status (*kiln_custom_lookup_fn)(const char *name, uint32_t version,
                                             const struct kiln_custom_op **out_op, void *user,
                                             kiln_error *err);

/// Finds what the custom operations of a graph stand for, and verifies them by it. From then on the
/// reference functions can run them. Copies of a record keep what it was looked up to. Errors: also
/// those of `find`.
KILN_NODISCARD KILN_API kiln_status kiln_ir_graph_look_up(kiln_ir_graph *graph,
                                                          kiln_custom_lookup_fn find, void *user,
                                                          kiln_error *err);

/// Number of operations, drops included.
KILN_API size_t kiln_ir_graph_op_count(const kiln_ir_graph *graph);

/// The operation at a place, counted from 0.
KILN_API const kiln_op_record *kiln_ir_graph_op(const kiln_ir_graph *graph, size_t index);

/// Descriptions of the inputs.
KILN_API const kiln_tensor_desc *kiln_ir_graph_inputs(const kiln_ir_graph *graph,
                                                      size_t *out_count);

/// Ids of the outputs.
KILN_API const uint64_t *kiln_ir_graph_outputs(const kiln_ir_graph *graph, size_t *out_count);

/// Appends one operation in text form.
KILN_API void kiln_ir_print_op(const kiln_op_record *record, kiln_string *out);

/// Appends a graph in text form.
KILN_NODISCARD KILN_API kiln_status kiln_ir_print(const kiln_ir_graph *graph, kiln_string *out,
                                                  kiln_error *err);

/// Parses and verifies a graph in text form; custom operators by their form only (kiln_ir_infer).
/// The caller owns `*out_graph`.
KILN_NODISCARD KILN_API kiln_status kiln_ir_parse(const kiln_env *env, const char *text,
                                                  kiln_ir_graph **out_graph, kiln_error *err);

/// Encodes a graph in wire form. The caller frees the blob's data with kiln_free.
KILN_NODISCARD KILN_API kiln_status kiln_ir_encode(const kiln_env *env, const kiln_ir_graph *graph,
                                                   kiln_blob *out_bytes, kiln_error *err);

/// Decodes and verifies a graph in wire form; custom operators by their form only. The caller owns
/// `*out_graph`. Errors: also DATA_LOSS for truncated bytes.
KILN_NODISCARD KILN_API kiln_status kiln_ir_decode(const kiln_env *env, const void *bytes,
                                                   size_t length, kiln_ir_graph **out_graph,
                                                   kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
