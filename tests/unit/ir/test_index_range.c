// SPDX-License-Identifier: MIT OR Apache-2.0
// Every index operand of the table has a range, or is named here; a value of a sample that is in
// the range gives what the reference gives, one outside does what the range says.
#include <inttypes.h>
#include <string.h>

#include "ir_support.h"
#include "reference_internal.h"
#include "samples.h"

/* Operands to which any value is fine, and why. */
static bool is_free(kiln_op op, size_t input)
{
    return (op == KILN_OP_ONE_HOT && input == 1) || // outside means no place
           (op == KILN_OP_CTC_LOSS && input == 1) || // labels behind their length
           (op == KILN_OP_CTC_LOSS_BACKWARD && input == 2) ||
           (op == KILN_OP_TREE_ENSEMBLE && (input == 3 || input == 4)); // nodes, or weights
}

typedef struct tally {
    unsigned looked;
    unsigned missing;
    unsigned compared;
} tally;

/* What the reference makes of a call, in out_data. */
static bool evaluate(const kiln_env *env, const kiln_op_record *record, const void *const *data,
                     void **out_data)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_view inputs[KILN_MAX_INPUTS], outputs[KILN_MAX_OUTPUTS];
    kiln_buffer in[KILN_MAX_INPUTS] = {{0}}, out[KILN_MAX_OUTPUTS] = {{0}};
    for (size_t i = 0; i < record->n_inputs; i++) {
        in[i].data = (unsigned char *)(uintptr_t)data[i];
        inputs[i] = kiln_view_dense(&record->inputs[i], &in[i]);
    }
    for (size_t i = 0; i < record->n_outputs; i++) {
        out_data[i] = kiln_alloc(env, (size_t)kiln_desc_bytes(&record->outputs[i]) + 1);
        out[i].data = out_data[i];
        outputs[i] = kiln_view_dense(&record->outputs[i], &out[i]);
    }
    return kiln_op_info_of(record->op)->reference(record, inputs, outputs, &err) == KILN_STATUS_OK;
}

static int64_t clamped(int64_t value, const kiln_index_range *range, size_t i)
{
    int64_t first = range->first[i % range->n], last = range->last[i % range->n];
    return value < first ? first : value > last ? last : value;
}

/* The indices with those outside moved to the nearest inside: a clamping operator's result is the
 * same. */
static void *moved_inside(const kiln_env *env, const kiln_tensor_desc *desc, const void *data,
                          const kiln_index_range *range)
{
    size_t count = (size_t)kiln_desc_count(desc), bytes = (size_t)kiln_desc_bytes(desc);
    void *out = kiln_alloc(env, bytes + 1);
    memcpy(out, data, bytes);
    for (size_t i = 0; i < count; i++) {
        if (desc->dtype == KILN_DTYPE_I32) {
            ((int32_t *)out)[i] = (int32_t)clamped(((int32_t *)out)[i], range, i);
        } else {
            ((int64_t *)out)[i] = clamped(((int64_t *)out)[i], range, i);
        }
    }
    return out;
}

static void compare(const kiln_env *env, const kiln_op_record *record, const void *const *data,
                    size_t input, const kiln_index_range *range, tally *t)
{
    const void *others[KILN_MAX_INPUTS];
    void *out[2][KILN_MAX_OUTPUTS] = {{NULL}};
    memcpy(others, data, record->n_inputs * sizeof(others[0]));
    void *inside = moved_inside(env, &record->inputs[input], data[input], range);
    others[input] = inside;
    if (memcmp(inside, data[input], (size_t)kiln_desc_bytes(&record->inputs[input])) != 0 &&
        KILN_CHECK(evaluate(env, record, data, out[0])) &&
        KILN_CHECK(evaluate(env, record, others, out[1]))) {
        for (size_t i = 0; i < record->n_outputs; i++) {
            KILN_CHECK_MEM(out[0][i], out[1][i], (size_t)kiln_desc_bytes(&record->outputs[i]));
        }
        t->compared++;
    }
    for (size_t i = 0; i < record->n_outputs; i++) {
        kiln_free(env, out[0][i]);
        kiln_free(env, out[1][i]);
    }
    kiln_free(env, inside);
}

typedef struct looking {
    const kiln_env *env;
    tally t;
} looking;

static void look(const kiln_op_record *record, const void *const *data, void *user)
{
    looking *l = user;
    const kiln_op_signature *signature = kiln_op_info_of(record->op)->signature;
    for (size_t i = 0; record->outputs != NULL && i < record->n_inputs; i++) {
        kiln_index_range range;
        if (i >= KILN_MAX_NAMED_INPUTS || (signature->index_inputs >> i & 1) == 0 ||
            kiln_desc_count(&record->inputs[i]) == 0) {
            continue;
        }
        bool has = kiln_op_index_range(record, i, &range);
        bool optional = record->inputs[i].rank == 0; // stands for none
        l->t.looked++;
        l->t.missing += !has && !optional;
        if (has) {
            KILN_CHECK(range.n > 0 && range.n <= KILN_MAX_RANK);
            if (strcmp(range.otherwise, "clamped") == 0) {
                compare(l->env, record, data, i, &range, &l->t);
            } else {
                KILN_CHECK_STR(range.otherwise, "dropped");
            }
        }
    }
}

static void test_every_index_operand_has_a_range(void)
{
    test_env env;
    tally all = {0};
    test_env_init(&env);
    for (unsigned op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        looking l = {.env = &env.env};
        bool some_free = false;
        if (info->signature == NULL || info->signature->index_inputs == 0) {
            continue;
        }
        for (size_t i = 0; i < KILN_MAX_NAMED_INPUTS; i++) {
            some_free = some_free || is_free((kiln_op)op, i);
        }
        kiln_sample_sink sink = {&env.env, look, &l};
        kiln_samples_make((kiln_op)op, KILN_DTYPE_F32, &sink);
        if (l.t.looked == 0 || (l.t.missing > 0) != some_free) {
            KILN_FAIL("%s: %u index operands, %u without a range", info->name, l.t.looked,
                      l.t.missing);
        }
        all.looked += l.t.looked;
        all.compared += l.t.compared;
    }
    KILN_CHECK(all.looked > 30);
    KILN_CHECK(all.compared > 5);
    KILN_CHECK_INT(env.live, 0);
}

static void test_others_have_none(void)
{
    kiln_tensor_desc in = {.id = 1, .dtype = KILN_DTYPE_F32, .rank = 1, .dims = {4}}, out = in;
    const kiln_op_record record = {
        .op = KILN_OP_EXP, .n_inputs = 1, .n_outputs = 1, .inputs = &in, .outputs = &out};
    kiln_index_range range;
    KILN_CHECK(!kiln_op_index_range(&record, 0, &range));
    KILN_CHECK(!kiln_op_index_range(&record, 1, &range));
    KILN_CHECK(!kiln_op_index_range(&record, KILN_MAX_NAMED_INPUTS, &range));
}

KILN_TEST_MAIN("unit/ir/index_range", KILN_TEST(test_every_index_operand_has_a_range),
               KILN_TEST(test_others_have_none))
