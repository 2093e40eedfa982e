// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TESTS_PRODUCT_CASES_H
#define KILN_TESTS_PRODUCT_CASES_H

/// Cases of matrix products for fusers of every form. The case's parameter is the variant.

#include <stdbool.h>
#include <stddef.h>

/// Whether the variant takes the case of this number, of which it takes one in `share`.
bool product_takes(size_t i, size_t share);

void product_test_sizes(void);
void product_test_dtypes(void);
void product_test_turned(void);
void product_test_batches(void);
void product_test_strides(void);
void product_test_epilogue(void);
void product_test_prologue(void);
void product_test_constants(void);
void product_test_special_values(void);
void product_test_repeats(void);
void product_test_several(void);
void product_test_several_plan(void);
void product_test_declines(void);
void product_test_claims(void);

#endif
