// SPDX-License-Identifier: MIT OR Apache-2.0
// Views: strides by hand, extents, and for every reshape that strides express the same elements.
#include <string.h>

#include "ir_support.h"

static kiln_view view_of(unsigned rank, const int64_t *dims, const int64_t *strides)
{
    kiln_view view = {.dtype = KILN_DTYPE_F32, .rank = rank, .offset_bytes = 400};
    memcpy(view.dims, dims, rank * sizeof(dims[0]));
    memcpy(view.strides, strides, rank * sizeof(strides[0]));
    return view;
}

static bool apply(kiln_op op, const kiln_view *input, const kiln_attr *attrs, kiln_view *out)
{
    kiln_tensor_desc x = {.id = 1, .dtype = input->dtype, .rank = (uint8_t)input->rank};
    kiln_tensor_desc result;
    kiln_error err = KILN_ERROR_INIT;
    memcpy(x.dims, input->dims, sizeof(x.dims));
    if (test_infer(op, &x, 1, attrs, &result, &err) != KILN_STATUS_OK) {
        KILN_FAIL("%s", err.message);
        return false;
    }
    kiln_op_record record = {.op = op,
                             .n_inputs = 1,
                             .n_outputs = 1,
                             .n_attrs = kiln_op_info_of(op)->signature->n_attrs,
                             .inputs = &x,
                             .outputs = &result,
                             .attrs = attrs};
    return kiln_view_apply(&record, input, out);
}

static void check_strides(const kiln_view *view, int64_t offset, unsigned rank,
                          const int64_t *strides)
{
    KILN_CHECK_INT(view->rank, rank);
    KILN_CHECK_INT(view->offset_bytes, offset);
    for (unsigned i = 0; i < rank; i++) {
        KILN_CHECK_INT(view->strides[i], strides[i]);
    }
}

static void test_dense(void)
{
    kiln_tensor_desc desc = test_desc(KILN_DTYPE_I16, 3, 2, 3, 4);
    kiln_view view = kiln_view_dense(&desc, NULL);
    int64_t begin = 1;
    int64_t end = 1;
    check_strides(&view, 0, 3, (const int64_t[]){12, 4, 1});
    KILN_CHECK(kiln_view_is_contiguous(&view));
    kiln_view_extent(&view, &begin, &end);
    KILN_CHECK_INT(begin, 0);
    KILN_CHECK_INT(end, 48);
    view.strides[1] = -4;
    KILN_CHECK(!kiln_view_is_contiguous(&view));
    kiln_view_extent(&view, &begin, &end);
    KILN_CHECK_INT(begin, -16);
    KILN_CHECK_INT(end, (12 + 3 + 1) * 2);
    view.dims[1] = 1;
    KILN_CHECK(!kiln_view_is_contiguous(&view));
    view.strides[0] = 4;
    KILN_CHECK(kiln_view_is_contiguous(&view));
    view.dims[2] = 0;
    kiln_view_extent(&view, &begin, &end);
    KILN_CHECK_INT(end - begin, 0);
}

static void test_turned(void)
{
    kiln_tensor_desc desc = test_desc(KILN_DTYPE_F32, 3, 2, 3, 4);
    kiln_view view = kiln_view_dense(&desc, NULL);
    KILN_CHECK(!kiln_view_is_turned(&view)); // it is dense
    view.strides[1] = 1;
    view.strides[2] = 3;
    KILN_CHECK(kiln_view_is_turned(&view));
    view.strides[0] = 13; // a gap between matrices
    KILN_CHECK(!kiln_view_is_turned(&view));
    view.dims[0] = 1;
    KILN_CHECK(kiln_view_is_turned(&view));
    view.dims[1] = 1; // one row: its other stride is the step
    KILN_CHECK(!kiln_view_is_turned(&view));
    view.rank = 1;
    KILN_CHECK(!kiln_view_is_turned(&view));
}

/* Whatever the stride of an axis of length 1, 0 and negative included. */
static void test_density_looks_at_no_singleton(void)
{
    static const int64_t any[] = {0, 1, -1, 7, INT64_MAX};
    kiln_tensor_desc desc = test_desc(KILN_DTYPE_F32, 4, 1, 3, 1, 5);
    kiln_view view = kiln_view_dense(&desc, NULL);
    for (size_t i = 0; i < sizeof(any) / sizeof(any[0]); i++) {
        view.strides[0] = any[i];
        view.strides[2] = any[sizeof(any) / sizeof(any[0]) - 1 - i];
        KILN_CHECK(kiln_view_is_contiguous(&view));
    }
    view.strides[1] = 0; // a broadcast is not dense
    KILN_CHECK(!kiln_view_is_contiguous(&view));
    view.strides[1] = 6; // nor a part
    KILN_CHECK(!kiln_view_is_contiguous(&view));
}

static void test_moves(void)
{
    kiln_view x = view_of(2, (const int64_t[]){6, 8}, (const int64_t[]){10, 1});
    kiln_view out;
    kiln_attr axes = TEST_INTS(1, 0);
    KILN_CHECK(apply(KILN_OP_PERMUTE, &x, &axes, &out));
    check_strides(&out, 400, 2, (const int64_t[]){1, 10});
    axes = TEST_INTS(1);
    KILN_CHECK(apply(KILN_OP_FLIP, &x, &axes, &out));
    check_strides(&out, 400 + 28, 2, (const int64_t[]){10, -1});
    const kiln_attr slice[3] = {TEST_INTS(1, -1), TEST_INTS(6, 0), TEST_INTS(2, -3)};
    KILN_CHECK(apply(KILN_OP_SLICE, &x, slice, &out));
    check_strides(&out, 400 + 4 * (10 + 7), 2, (const int64_t[]){20, -3});
    KILN_CHECK_INT(out.dims[0], 3);
    KILN_CHECK_INT(out.dims[1], 3);
    kiln_attr shape = TEST_INTS(3, 6, 8);
    KILN_CHECK(apply(KILN_OP_EXPAND, &x, &shape, &out));
    check_strides(&out, 400, 3, (const int64_t[]){0, 10, 1});
    kiln_op_record add = {.op = KILN_OP_ADD};
    KILN_CHECK(!kiln_view_apply(&add, &x, &out));
}

static int64_t element(const kiln_view *view, int64_t n)
{
    int64_t at = 0;
    for (unsigned i = view->rank; i-- > 0;) {
        at += n % view->dims[i] * view->strides[i];
        n /= view->dims[i];
    }
    return at;
}

/* Tries a reshape; where it is said to be a view, the n-th elements have to be the same. */
static bool reshapes(const kiln_view *x, kiln_attr shape)
{
    kiln_view out;
    int64_t count = 1;
    if (!apply(KILN_OP_RESHAPE, x, &shape, &out)) {
        return false;
    }
    for (unsigned i = 0; i < x->rank; i++) {
        count *= x->dims[i];
    }
    for (int64_t n = 0; n < count; n++) {
        if (!KILN_CHECK_INT(element(&out, n), element(x, n))) {
            break;
        }
    }
    return true;
}

static void test_reshape(void)
{
    kiln_view padded = view_of(2, (const int64_t[]){6, 8}, (const int64_t[]){10, 1});
    KILN_CHECK(reshapes(&padded, TEST_INTS(2, 3, 8)));
    KILN_CHECK(reshapes(&padded, TEST_INTS(6, 2, 1, 4)));
    KILN_CHECK(reshapes(&padded, TEST_INTS(1, 6, 8, 1)));
    KILN_CHECK(!reshapes(&padded, TEST_INTS(48)));
    KILN_CHECK(!reshapes(&padded, TEST_INTS(4, 12)));
    kiln_view turned = view_of(2, (const int64_t[]){8, 6}, (const int64_t[]){1, 8});
    KILN_CHECK(!reshapes(&turned, TEST_INTS(48)));
    KILN_CHECK(reshapes(&turned, TEST_INTS(2, 4, 3, 2)));
    kiln_view repeated = view_of(2, (const int64_t[]){4, 6}, (const int64_t[]){0, 0});
    KILN_CHECK(reshapes(&repeated, TEST_INTS(8, 3)));
    kiln_view backwards = view_of(2, (const int64_t[]){4, 6}, (const int64_t[]){-6, -1});
    KILN_CHECK(reshapes(&backwards, TEST_INTS(24)));
    KILN_CHECK(reshapes(&backwards, TEST_INTS(2, 2, 2, 3)));
    kiln_view ones = view_of(4, (const int64_t[]){1, 4, 1, 6}, (const int64_t[]){99, 6, 77, 1});
    KILN_CHECK(reshapes(&ones, TEST_INTS(24)));
    KILN_CHECK(reshapes(&ones, TEST_INTS(2, 12, 1)));
    kiln_view one = view_of(2, (const int64_t[]){1, 1}, (const int64_t[]){5, 7});
    KILN_CHECK(reshapes(&one, TEST_INTS(1, 1, 1)));
    KILN_CHECK(reshapes(&one, test_ints(0, NULL)));
    kiln_view dense = view_of(2, (const int64_t[]){4, 6}, (const int64_t[]){6, 1});
    KILN_CHECK(reshapes(&dense, TEST_INTS(3, 8)));
    kiln_view empty = view_of(2, (const int64_t[]){4, 0}, (const int64_t[]){3, 7});
    KILN_CHECK(reshapes(&empty, TEST_INTS(0, 9)));
}

KILN_TEST_MAIN("unit/ir/view", KILN_TEST(test_dense), KILN_TEST(test_turned),
               KILN_TEST(test_density_looks_at_no_singleton), KILN_TEST(test_moves),
               KILN_TEST(test_reshape))
