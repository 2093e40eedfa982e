// SPDX-License-Identifier: MIT OR Apache-2.0
// Every operator has samples for every dtype that it takes; they are valid, repeatable and reach
// the corners.
#include <math.h>
#include <string.h>

#include "ir_support.h"
#include "samples.h"

typedef struct tally {
    unsigned calls;
    unsigned refused;
    unsigned empty;
    unsigned scalars;
    unsigned deep;
    uint64_t hash;
    bool nan;
    bool infinity;
    bool minus_zero;
} tally;

static void look_at_floats(tally *t, const float *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        t->nan = t->nan || isnan(data[i]);
        t->infinity = t->infinity || isinf(data[i]);
        t->minus_zero = t->minus_zero || (data[i] == 0 && signbit(data[i]));
    }
}

static void count_sample(const kiln_op_record *record, const void *const *data, void *user)
{
    tally *t = user;
    t->calls++;
    t->refused += record->outputs == NULL ? 1 : 0;
    for (unsigned i = 0; i < record->n_inputs; i++) {
        const kiln_tensor_desc *x = &record->inputs[i];
        int64_t bytes = kiln_desc_bytes(x);
        t->hash = kiln_hash64(data[i], (size_t)bytes, t->hash);
        t->empty += bytes == 0 ? 1 : 0;
        t->scalars += x->rank == 0 ? 1 : 0;
        t->deep += x->rank == 8 ? 1 : 0;
        KILN_CHECK_INT(x->id, i + 1);
        if (x->dtype == KILN_DTYPE_F32) {
            look_at_floats(t, data[i], kiln_desc_count(x));
        }
    }
}

static tally tally_of(kiln_op op, kiln_dtype dtype)
{
    test_env env;
    tally t = {0};
    test_env_init(&env);
    kiln_sample_sink sink = {&env.env, count_sample, &t};
    kiln_samples_make(op, dtype, &sink);
    KILN_CHECK_INT(env.live, 0);
    return t;
}

static void test_all(void)
{
    for (unsigned op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        for (int d = 1; d < KILN_DTYPE_LIMIT; d++) {
            if ((kiln_dtype_kind_of((kiln_dtype)d) & info->accept) == 0) {
                continue;
            }
            tally t = tally_of((kiln_op)op, (kiln_dtype)d);
            if (t.calls == 0 || t.refused > 0) {
                KILN_FAIL("%s %s: %u samples, %u refused", info->name,
                          kiln_dtype_name((kiln_dtype)d), t.calls, t.refused);
            }
            KILN_CHECK(t.hash == tally_of((kiln_op)op, (kiln_dtype)d).hash);
        }
    }
}

static void test_corners(void)
{
    tally t = tally_of(KILN_OP_ADD, KILN_DTYPE_F32);
    KILN_CHECK(t.nan && t.infinity && t.minus_zero);
    KILN_CHECK(t.empty > 0 && t.scalars > 0 && t.deep > 0);
    t = tally_of(KILN_OP_EXP, KILN_DTYPE_F32);
    KILN_CHECK(t.nan && t.infinity && t.minus_zero);
    KILN_CHECK(t.empty > 0 && t.scalars > 0 && t.deep > 0);
    t = tally_of(KILN_OP_MATMUL, KILN_DTYPE_F32);
    KILN_CHECK(!t.nan && t.empty > 0);
}

KILN_TEST_MAIN("unit/ir/samples", KILN_TEST(test_all), KILN_TEST(test_corners))
