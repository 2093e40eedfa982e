// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TESTS_PRODUCT_PROGRAM_H
#define KILN_TESTS_PRODUCT_PROGRAM_H

/// Blocks of matrix products for tests of their fusers through the C ABI: tensors and operations,
/// and a judge that computes the same on the reference evaluator. The case's parameter is the
/// variant.

#include "mini_host.h"

typedef struct product_variant {
    uint32_t fuser;
    uint32_t shape;
    uint32_t vector_bytes;
    bool tensor; ///< on NVIDIA's tensor cores
    uint64_t features; ///< of the device, beside others
    uint32_t units; ///< of the device; 0: few
} product_variant;

extern uint64_t product_most_asked; ///< sizes that a block may ask for: a window's lengths

/// Does the fuser read its left operand as it lies?
bool product_is_plain(const product_variant *v);
/// Do tensor cores leave the block to others: vectors, f64?
bool product_is_left(const mini_host *mini);
/// The block as the fuser's program computes it, against the reference. False when it was not
/// taken.
bool product_check(mini_host *mini);
void product_store(mini_tensor *t, size_t i, double value);
void product_fill(mini_host *mini, uint32_t id);
/// A tensor, filled with numbers between -2 and 2.
uint32_t product_tensor(mini_host *mini, uint32_t dtype, uint32_t rank, const int64_t *extents);
uint32_t product_matrix(mini_host *mini, uint32_t dtype, int64_t rows, int64_t columns);
uint32_t product_like(mini_host *mini, uint32_t dtype, uint32_t x);
/// The product of two tensors; gives the result's id.
uint32_t product_of(mini_host *mini, uint32_t a, uint32_t b, bool turn_a, bool turn_b);
uint32_t product_cast(mini_host *mini, uint32_t x, uint32_t dtype);
/// An operator on x, and on y unless that is KF_NONE; x is dropped.
uint32_t product_then(mini_host *mini, uint32_t kind, uint32_t x, uint32_t y);
/// A host with the variant's fuser, and the judge; NULL: the device is not there, which is told.
mini_host *product_begin(void);
void product_end(mini_host *mini);

#endif
