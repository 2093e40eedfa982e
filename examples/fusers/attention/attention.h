// SPDX-License-Identifier: MIT OR Apache-2.0
// Scaled dot-product attention as one program: what a block of it holds, and what is made of it.
//   block.c       which operations make an attention, in which order
//   kernels.c     the two kernels' text and arguments
//   items.c       what is else where work-groups share the work
//   plan.c        their sizes, temporaries and cost
//   attention.c   the plugin interface around both
#ifndef ATTENTION_H
#define ATTENTION_H

#include <kiln/kf_chain.h>

// KF_SHAPE_BLOCK or KF_SHAPE_NDRANGE: that form on any device, for tests; 0: what the device wants.
#ifndef ATTENTION_FORM
#define ATTENTION_FORM 0
#endif

enum {
    GROUP = 128, // work-items that share a block of queries, on GPUs
    MAX_HEAD = 256, // longest rows of q, k and v: they are unrolled over
    MAX_ARGS = 128,
    MAX_FORMULAS = 12
};

/// Where the next operation stands in `softmax(chain(q' k)) v`, q' = q or q times a number.
typedef enum stage { STAGE_START, STAGE_QUERY, STAGE_SCORES, STAGE_WEIGHTS, STAGE_DONE } stage;

typedef struct block { // what was accepted so far
    uint32_t stage;
    uint32_t closed;
    uint32_t len; // operations covered, drops included
    uint32_t factor; // of q, a number of the chain plus 1; 0: none
    uint32_t transposed_k; // k is [.., keys, d], not [.., d, keys]
    uint32_t transposed_v; // v is [.., columns, keys]
    uint32_t query, key, value, scaled, product, scores, weights, out; // values of the chain
    uint32_t head; // extents whose value was asked for: of q's and k's rows
    uint32_t columns; // and of v's
    kf_chain chain; // the operations on the scores; its last value is what softmax takes
} block;

typedef struct fuser_facts { // of the device; read-only
    const kf_host *host;
    kf_chain_device device;
    uint32_t items; // work-groups with local memory, as on GPUs
    uint64_t local_bytes;
} fuser_facts;

void block_init(block *b);
void block_copy(block *to, const block *from);
/// Takes an operation, or closes the block and reports why.
void block_push(block *b, const fuser_facts *facts, const kf_block *values, const kf_op *op);
uint32_t block_is_ready(const block *b);
const kf_chain_value *block_value(const block *b, uint32_t value);
/// Extent symbols of queries and keys.
uint32_t block_queries(const block *b);
uint32_t block_keys(const block *b);

typedef struct shape { // of the loops
    uint32_t width; // elements of a vector
    uint32_t vectors; // of a block of keys
    uint32_t keys; // in a block
    uint32_t rows; // queries in registers at once
    uint32_t queries; // of a work-item, or of a work-group
    uint32_t padded; // columns of a packed value
    uint32_t group; // work-items of a work-group
} shape;

shape shape_of(const block *b, const fuser_facts *facts);
/// Is value `v` an operand of the operations on the scores that lies in memory?
uint32_t is_operand(const block *b, uint32_t v);

typedef struct estimate {
    kf_estimate parts;
    kf_formula bytes; // read and written
    kf_formula work; // flops, those of idle compute units too
} estimate;

typedef struct arguments {
    kf_text text; // the kernel's parameters
    kf_karg args[MAX_ARGS];
    uint32_t n;
    uint32_t failed;
} arguments;

typedef struct plan { // all that kf_program points into
    kf_text source_text;
    kf_text name;
    arguments pack, main;
    kf_formula formulas[MAX_FORMULAS];
    uint32_t n_formulas;
    uint32_t len;
    uint64_t key[2];
    kf_source source;
    kf_launch launches[2];
    kf_temp temps[3];
    kf_step steps[2];
    const kf_source *sources[1];
    const kf_launch *launch_list[2];
} plan;

// kernels.c for items.c
/// The start of the kernel `attention`: where this matrix and the operands of the scores lie.
void begin_text(plan *p, const block *b);
/// The operation on scores that masks them last of all, or NULL.
const kf_chain_op *masked_last(const block *b);
/// The operations on one vector of scores, of the query `row` and `here` keys from `at` on; it is
/// loaded from `cell`, a pointer, and stored there.
void cell_text(kf_text *t, const block *b, const shape *s);

// items.c
extern const char items_pack_body[];
void items_text(plan *p, const block *b, const shape *s);
/// Local memory of a work-group.
uint64_t items_bytes(const block *b, const shape *s);

/// Fills in the text and the arguments.
void write_kernels(plan *p, const block *b, const fuser_facts *facts);
void make_estimate(estimate *e, const block *b, const fuser_facts *facts);
/// 0: out of memory.
uint32_t make_plan(plan *p, const block *b, const fuser_facts *facts);
void free_plan(plan *p);

#endif
