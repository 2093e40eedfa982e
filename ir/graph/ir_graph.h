// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_GRAPH_H
#define KILN_IR_GRAPH_H

/// Graphs: a list of operations with inputs and outputs, in files, text and on the wire.

#include "ir_op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_ir_graph kiln_ir_graph;

/// An empty graph; operations are copied in. Ids inside a graph are the graph's own.
/// Ownership: the caller's (kiln_ir_graph_destroy). Lifetime: until destroyed; `env` must outlive
/// it. Thread: one at a time. Errors: RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_ir_graph_create(const kiln_env *env,
                                                         kiln_ir_graph **out_graph,
                                                         kiln_error *err);
KILN_API void kiln_ir_graph_destroy(kiln_ir_graph *graph);

/// Appends a copy of `record`; `kiln_ir_graph_verify` checks the whole: every operation infers to
/// its stored outputs, ids are defined once and before use, none is used after its drop, outputs
/// exist. Ownership: copied. Lifetime: n/a. Thread: one at a time. Errors: INVALID_ARGUMENT with
/// the operation's place.
KILN_NODISCARD KILN_API kiln_status kiln_ir_graph_append(kiln_ir_graph *graph,
                                                         const kiln_op_record *record,
                                                         kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_ir_graph_set_io(kiln_ir_graph *graph,
                                                         const kiln_tensor_desc *inputs,
                                                         size_t n_inputs,
                                                         const uint64_t *output_ids,
                                                         size_t n_outputs, kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_ir_graph_verify(const kiln_ir_graph *graph,
                                                         kiln_error *err);

/// Finds what the custom operations of a graph stand for, and verifies them by it: from then on the
/// reference functions can run them. Copies of a record keep what it was looked up to.
/// Ownership: what `find` gives is borrowed. Lifetime: longer than the graph's use. Thread: one at
/// a time. Errors: those of `find`, and of the verifier, with the operation's place.
typedef kiln_status (*kiln_custom_lookup_fn)(const char *name, uint32_t version,
                                             const struct kiln_custom_op **out_op, void *user,
                                             kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_ir_graph_look_up(kiln_ir_graph *graph,
                                                          kiln_custom_lookup_fn find, void *user,
                                                          kiln_error *err);
KILN_API size_t kiln_ir_graph_op_count(const kiln_ir_graph *graph);
KILN_API const kiln_op_record *kiln_ir_graph_op(const kiln_ir_graph *graph, size_t index);
KILN_API const kiln_tensor_desc *kiln_ir_graph_inputs(const kiln_ir_graph *graph,
                                                      size_t *out_count);
KILN_API const uint64_t *kiln_ir_graph_outputs(const kiln_ir_graph *graph, size_t *out_count);

/// Text form, one operation a line, such as `%2: f32[2,3] = add(%0: f32[2,3], %1: f32[3])`; the
/// parser takes what the printer writes, and `#` comments. Wire form: ir/proto/kiln/v1/ir.proto.
/// Both parsers verify (see kiln_ir_infer for custom operators). Ownership: `*out_graph` is the
/// caller's; `out` belongs to its builder. Lifetime: n/a. Thread: any. Errors: INVALID_ARGUMENT
/// with line or field; DATA_LOSS for truncated bytes; RESOURCE_EXHAUSTED.
KILN_API void kiln_ir_print_op(const kiln_op_record *record, kiln_string *out);
KILN_NODISCARD KILN_API kiln_status kiln_ir_print(const kiln_ir_graph *graph, kiln_string *out,
                                                  kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_ir_parse(const kiln_env *env, const char *text,
                                                  kiln_ir_graph **out_graph, kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_ir_encode(const kiln_env *env, const kiln_ir_graph *graph,
                                                   kiln_blob *out_bytes, kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_ir_decode(const kiln_env *env, const void *bytes,
                                                   size_t length, kiln_ir_graph **out_graph,
                                                   kiln_error *err);

/// One operation in the same wire form, for streams of operations. A decoded record is verified
/// alone: whether its ids exist is the caller's to check. Ownership: the blob is the caller's
/// (kiln_free); a decoded record points into `arena`. Lifetime: until the arena is reset. Thread:
/// any. Errors: as encode and decode of graphs.
KILN_NODISCARD KILN_API kiln_status kiln_ir_encode_op(const kiln_env *env,
                                                      const kiln_op_record *record,
                                                      kiln_blob *out_bytes, kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_ir_decode_op(kiln_arena *arena, const void *bytes,
                                                      size_t length, kiln_op_record *out_record,
                                                      kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
