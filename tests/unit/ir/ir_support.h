// SPDX-License-Identifier: MIT OR Apache-2.0
// What the tests of ir share: descriptions and attributes in one line, one operation on the
// reference backend, an allocator that fails on demand and counts what is out.
#ifndef KILN_TESTS_UNIT_IR_SUPPORT_H
#define KILN_TESTS_UNIT_IR_SUPPORT_H

#include "harness.h"
#include "ir.h"

/// An environment over a counting allocator. `fail_at`: the k-th allocation from now fails (1 is
/// the next), 0: none.
typedef struct test_env {
    kiln_env env;
    unsigned long live;
    unsigned long made;
    unsigned long fail_at;
} test_env;
void test_env_init(test_env *env);

/// Rank and lengths from the remaining arguments: desc(KILN_DTYPE_F32, 2, 3, 4). Id 1.
kiln_tensor_desc test_desc(kiln_dtype dtype, unsigned rank, ...);

kiln_attr test_i64(int64_t value);
kiln_attr test_f64(double value);
kiln_attr test_bool(bool value);
kiln_attr test_dtype(kiln_dtype value);
kiln_attr test_text(const char *text);
kiln_attr test_none(void);
kiln_attr test_ints(uint32_t count, const int64_t *values);
#define TEST_INTS(...)                                                                             \
    test_ints((uint32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                \
              (const int64_t[]){__VA_ARGS__})

/// Infers a call with one output into `out`, which is zeroed first.
kiln_status test_infer(kiln_op op, const kiln_tensor_desc *inputs, uint16_t n_inputs,
                       const kiln_attr *attrs, kiln_tensor_desc *out, kiln_error *err);

/// Whether the shape is the remaining arguments, `rank` of them; fails the case otherwise.
bool test_shape_is(const kiln_tensor_desc *desc, const char *file, int line, unsigned rank, ...);
#define CHECK_SHAPE(desc, ...) test_shape_is(&(desc), __FILE__, __LINE__, __VA_ARGS__)

/// Runs one operation on dense data with the reference backend; `out_data` has room for the result.
/// The number of result elements, or -1 after failing the case.
int64_t test_run(kiln_op op, const kiln_tensor_desc *inputs, const void *const *data,
                 uint16_t n_inputs, const kiln_attr *attrs, void *out_data, const char *file,
                 int line);
#define RUN(op, inputs, data, n, attrs, out)                                                       \
    test_run(op, inputs, data, n, attrs, out, __FILE__, __LINE__)

/// Runs and compares with `count` expected f32 values within `tolerance` of the largest.
void test_expect_f32(kiln_op op, const kiln_tensor_desc *inputs, const void *const *data,
                     uint16_t n_inputs, const kiln_attr *attrs, size_t count, const float *expected,
                     double tolerance, const char *file, int line);
#define EXPECT_F32(op, inputs, data, n, attrs, tolerance, ...)                                     \
    test_expect_f32(op, inputs, data, n, attrs,                                                    \
                    sizeof((const float[]){__VA_ARGS__}) / sizeof(float),                          \
                    (const float[]){__VA_ARGS__}, tolerance, __FILE__, __LINE__)

#endif
