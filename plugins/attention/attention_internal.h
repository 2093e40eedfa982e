// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGINS_ATTENTION_INTERNAL_H
#define KILN_PLUGINS_ATTENTION_INTERNAL_H

/// What the files of the attention fuser share: which operations join (attention_block.c,
/// attention_operand.c), the kernels' text (attention_emit.c for many rows of the query,
/// attention_row.c for one; of many small work-items attention_group.c, attention_tensor.c for
/// tensor cores with attention_seen.c for what positions hide, attention_parts.c for one row, by
/// bulk copies attention_stream.c;
/// attention_scores.c for the operators in all), the program and what it costs
/// (attention_program.c).

#include "kf_chain.h"

enum {
    AT_OPERANDS = 3, ///< query, keys, values
    AT_HOSTED = 4, ///< casts that the host does first
    AT_MAX_DEPTH = 256, ///< of a head
    AT_MAX_TENSORS = 10, ///< that a block reads
    AT_MAX_PARAMS = 160,
    AT_VECTORS = 2, ///< of rows of the query that a work-item has
    AT_TILE = 64, ///< keys at a time
    AT_GROUP_ITEMS = 128, ///< of a work-group on devices of many small work-items
    AT_GROUP_ROWS = 32, ///< of the query that it has
    AT_GROUP_KEYS = 4, ///< of a tile that a work-item has
    AT_GROUP_PAD = 4, ///< between the lines of turned keys, against conflicts of banks
    AT_TENSOR_ITEMS = 256, ///< of a work-group on tensor cores
    AT_TENSOR_ROWS = 128, ///< of the query that it has
    AT_TENSOR_KEYS = 128, ///< at a time
    AT_TENSOR_DEPTH = 128, ///< of a head at most
    AT_PART_ITEMS = 128, ///< of a work-group for one row
    AT_PART_KEYS = AT_PART_ITEMS, ///< that it has
    AT_STREAM_ITEMS = 256, ///< the same by bulk copies
    AT_STREAM_KEYS = 2048 ///< at most
};

typedef enum at_stage {
    AT_QUERY = 0, ///< before the first product
    AT_SCORES = 1, ///< behind it
    AT_WEIGHTS = 2, ///< behind the softmax
    AT_DONE = 3 ///< behind the second product
} at_stage;

/// A matrix that a product reads.
typedef struct at_matrix {
    uint16_t source; ///< value that is read
    uint16_t loaded; ///< the same, or what a cast of it to f32 makes
    uint16_t value; ///< what the product takes: of the query, what the operators before make of it
    uint8_t row; ///< axis of the query's rows, or of the keys
    uint8_t column; ///< axis along a head
} at_matrix;

typedef struct at_cast {
    uint16_t from; ///< value that is read
    uint16_t to;
} at_cast;

/// A cast to 16 bits of what the block gets in f32. It is an operation of the block, but the host
/// does it, and the kernel reads its result as it reads other tensors.
typedef struct at_hosted {
    uint32_t position;
    uint16_t value;
} at_hosted;

/// softmax(query x key, operators on it) x value.
typedef struct at_block {
    kf_chain chain;
    uint32_t len;
    uint32_t closed;
    uint32_t n_shown;
    const char *shown[8];
    at_stage stage;
    uint32_t product; ///< the first one's number in the chain; those before are of the query
    uint32_t softmax; ///< its number; those between are of the scores
    uint16_t scores; ///< value that the first product gives
    uint16_t last; ///< that the softmax takes
    uint16_t weights; ///< that it gives
    uint16_t result;
    at_matrix query;
    at_matrix key;
    at_matrix values;
    uint32_t element; ///< dtype of the operands of both products, as they are read
    uint32_t is_wide; ///< they are cast to f32, and the result from it
    uint32_t n_widened;
    at_cast widened[AT_OPERANDS];
    uint32_t n_hosted;
    at_hosted hosted[AT_HOSTED];
    int32_t depth; ///< of the query and the keys
    int32_t width; ///< of the values
} at_block;

void at_block_init(at_block *block);
void at_block_copy(at_block *to, const at_block *from);
/// Shows one operation. It joins, or closes the block and the reason is reported.
void at_block_push(at_block *block, const kf_chain_device *device, const kf_host *host,
                   const kf_block *values, const kf_op *op);
uint32_t at_block_is_ready(const at_block *block);
/// Axes of the scores before their rows.
uint32_t at_batch(const at_block *block);
/// Symbols of the query's rows and of the keys.
uint32_t at_rows(const at_block *block);
uint32_t at_keys(const at_block *block);
/// Axis of `value` that axis `axis` of the scores is, both from the end; -1: none, or of extent 1.
int at_axis(const at_block *block, uint32_t value, uint32_t axis);
/// Do the operators on the scores read the value?
uint32_t at_is_score_input(const at_block *block, uint32_t value);

// ---- operands ----

/// Are the operands of 16 bits? These are done on tensor cores, or of one row.
uint32_t at_is_small(const at_block *block);
/// May the tensor be an operand or result of a product? The first one decides about the others.
uint32_t at_is_operand(at_block *block, const kf_chain_device *device, const kf_tensor *t);
/// f32 for f16 and bf16.
uint32_t at_wide_dtype(uint32_t dtype);
/// Takes in an elementwise operation; gives its result, which is of f32 also where it is recorded
/// as of 16 bits.
uint16_t at_record_wide(at_block *block, const kf_ew_row *row, const kf_op *op);
/// Is this a cast to f32 of an operand that is taken as it is? at_push_widened takes it in.
uint32_t at_widens(const at_block *block, const kf_chain_device *device, const kf_op *op);
uint32_t at_is_hosted(const at_block *block, const kf_chain_device *device, const kf_op *op);
void at_push_hosted(at_block *block, const kf_op *op);
uint32_t at_narrows_weights(const at_block *block, const kf_op *op);
void at_push_narrow_weights(at_block *block, const kf_op *op);
uint32_t at_host_makes(const at_block *block, const kf_chain_value *value);
void at_push_widened(at_block *block, const kf_op *op);
/// Sets `source` of an operand whose `loaded` is set. 0: it is cast where others are not, or not
/// where they are, or is not in memory.
uint32_t at_find_source(const at_block *block, at_matrix *matrix);
/// Takes in the cast of the result back. 0: it is another operation, which is reported.
uint32_t at_push_narrowed(at_block *block, const kf_chain_device *device, const kf_host *host,
                          const kf_op *op);
/// For one row in parts: elements that a work-item reads at once, and work-items, a power of two,
/// that read one line of a head.
uint32_t at_part_once(const at_block *block);
uint32_t at_part_items(const at_block *block, int32_t length);
/// Local memory of a work-group that takes so many keys at a time.
uint32_t at_group_bytes(const at_block *block, uint32_t tile);
/// Local memory that a work-group needs at least. A device with tensor cores has enough for these.
uint32_t at_local_bytes(const at_block *block);

// ---- text ----

typedef enum at_param_kind {
    AT_PARAM_INPUT = 1,
    AT_PARAM_OUTPUT = 2,
    AT_PARAM_OFFSET = 3,
    AT_PARAM_STRIDE = 4,
    AT_PARAM_SCALAR = 5,
    AT_PARAM_EXTENT = 6, ///< of a batch axis of the scores
    AT_PARAM_ROWS = 7,
    AT_PARAM_KEYS = 8,
    AT_PARAM_PARTIAL = 9, ///< what parts have summed
    AT_PARAM_COUNTS = 10 ///< of each head, how many parts are done
} at_param_kind;

typedef struct at_param {
    at_param_kind kind;
    uint32_t index; ///< value, number or batch axis
    uint32_t axis; ///< STRIDE
} at_param;

/// A comparison of positions that hides keys from rows.
typedef struct at_seen {
    uint16_t rows; ///< value: their positions
    uint16_t keys;
    uint16_t fill; ///< number that hidden scores become
    uint16_t turned; ///< the comparison is of a key with a row, not of a row with a key
    uint32_t high; ///< the row at the highest position sees most
    const char *sign;
} at_seen;

typedef struct at_plan {
    const at_block *block;
    const kf_chain_device *device;
    uint32_t width; ///< elements of a vector
    uint32_t keys; ///< whose scores are summed at once
    uint32_t one_row; ///< the query has one row: vectors go along heads and keys
    uint32_t in_groups; ///< work-groups of small work-items; vectors go along keys
    uint32_t on_tensor; ///< in groups, by tensor cores
    uint32_t in_parts; ///< in groups that share one row
    uint32_t streams; ///< the same by bulk copies
    uint32_t tile; ///< keys at a time
    uint32_t has_seen; ///< on tensor cores: all operators on the scores are `seen`
    at_seen seen;
    uint32_t n_params;
    at_param params[AT_MAX_PARAMS];
} at_plan;

/// Work-items of a work-group.
uint32_t at_group_items(const at_plan *plan);
void at_plan_make(at_plan *plan, const at_block *block, const kf_chain_device *device);
/// Name of the stride of an axis of a value; "0" where it has none.
void at_stride_name(const at_plan *plan, uint32_t value, int axis, char name[32]);
void at_emit(kf_text *text, const at_plan *plan);
/// The kernel's body for a query of one row, from the declared indices and bases on.
void at_emit_row(kf_text *text, const at_plan *plan);
/// The same for a work-group of small work-items, and its sizes.
void at_emit_group(kf_text *text, const at_plan *plan);
void at_emit_group_sizes(kf_text *text, const at_plan *plan);
/// The same for tensor cores, and what it calls.
void at_emit_tensor(kf_text *text, const at_plan *plan);
void at_emit_tensor_functions(kf_text *text, const at_plan *plan);
/// Barriers in local memory of compute capability 9.0: waiting for one, and arriving at it.
void at_emit_barriers(kf_text *text);
/// The same for groups that share one row.
void at_emit_parts(kf_text *text, const at_plan *plan);
void at_emit_parts_functions(kf_text *text, const at_plan *plan);
/// The same by bulk copies. Does the device have them, and are lines as they need them?
uint32_t at_streams(const at_block *block, const kf_chain_device *device);
/// Keys that are copied at once.
uint32_t at_chunk(const at_block *block);
void at_emit_stream(kf_text *text, const at_plan *plan);
void at_emit_stream_functions(kf_text *text, const at_plan *plan);
/// What the operators before the product make of the vector of the query that is loaded.
void at_emit_query_operators(kf_text *text, const at_plan *plan);
/// Declares what the operators on the scores read at `row` (NULL: there is one) and `col`, `count`
/// elements of a vector that goes along rows or, for one row and in groups, along keys; and the
/// operators.
void at_emit_scores(kf_text *text, const at_plan *plan, const char *indent);

/// Are all operators on the scores one comparison of positions and what it hides?
uint32_t at_seen_make(const at_block *block, at_seen *seen);
/// Sets `tiles` to those that some of the group's rows see, and `clear` to how many of the first
/// are seen by all.
void at_emit_seen(kf_text *text, const at_plan *plan);

// ---- program and costs ----

typedef struct at_program at_program;
at_program *at_program_create(const at_block *block, const kf_chain_device *device);
void at_program_destroy(at_program *program);
void at_program_describe(const at_program *program, kf_program *out);
void at_program_info(const at_program *program, kf_opt_info *out);
/// The answer's formulas.
uint32_t at_launches(const at_block *block); ///< with casts that the host does
void at_estimate_make(kf_estimate *estimate, const at_plan *plan);

#endif
