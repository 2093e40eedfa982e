// SPDX-License-Identifier: MIT OR Apache-2.0
// What abi.c, which keeps the rules of the plugin interface, wants to know of a fuser of one fixed
// run of operations. Outgrown? Everything here is yours: kiln_fuser.h allows much more.
#ifndef MY_FUSER_ABI_H
#define MY_FUSER_ABI_H

#include <kiln/kf_util.h>

#define PLUGIN_ID "org.example.my-fuser"
#define PLUGIN_VERSION "0.1.0"
#define FUSER_NAME "my-fuser"

enum { MAX_OPS = 16, MAX_INPUTS = 16, MAX_NUMBERS = 12, MAX_ATTRS = 16 };
// at most 31 operations: block.dropped

typedef struct value { // a tensor of the block
    uint32_t id;
    uint32_t rank;
    uint32_t symbols[KF_MAX_RANK]; // equal symbols are equal extents; symbol 0 is the extent 1
} value;

typedef struct kept_attr { // a copy of one of fuser_attrs; those of floats, texts are not kept
    uint32_t op; // which operation of the block
    uint32_t key;
    uint32_t type; // KF_TYPE_I64, _BOOL, _DTYPE, _I64S or _SCALAR
    uint32_t count; // of `values`
    int64_t values[KF_MAX_RANK]; // of a scalar its number in the block, for sizes.scalars
} kept_attr;

typedef struct block { // what was accepted so far; plain data, so that a clone is a copy
    uint32_t on_cpu;
    uint32_t closed;
    uint32_t len; // operations covered, drops included
    uint32_t n_ops; // without drops
    uint32_t dropped; // bit i: the result of operation i is dead
    uint32_t n_inputs;
    uint32_t n_attrs;
    kept_attr attrs[MAX_ATTRS];
    uint32_t results[MAX_OPS]; // tensor ids
    value inputs[MAX_INPUTS]; // read from memory, operand by operand
    value result;
} block;

typedef struct sizes { // of one launch
    kf_formula work_items;
    kf_formula numbers[MAX_NUMBERS]; // kernel arguments of type long
    uint32_t n_numbers;
    uint32_t
        scalars[MAX_NUMBERS]; // behind them, as float: values[0] of attributes of KF_TYPE_SCALAR
    uint32_t n_scalars;
    kf_formula flops; // of the whole launch, for the estimate; absent: memory alone counts
} sizes;

extern const uint32_t fuser_ops[];
extern const uint32_t fuser_n_ops;
extern const uint32_t fuser_attrs[];
extern const uint32_t fuser_n_attrs;
extern const char fuser_source[];
extern const char fuser_kernel[];

/// The attribute `key` of operation n; NULL: it has none, or of a type that is not kept.
const kept_attr *block_attr(const block *b, uint32_t n, uint32_t key);

uint32_t fuser_fits(const kf_host *host, const block *b, uint32_t n, const kf_op *op);
void fuser_sizes(const block *b, sizes *s);

#endif
