// SPDX-License-Identifier: MIT OR Apache-2.0
// Expansions of composites with several results, of which some are not wanted: those that are
// wanted are computed by the same operations on the same values, the others by none that only they
// need, and nothing is left undropped.
#include <string.h>

#include "ir_support.h"
#include "samples.h"

enum { MAX_VALUES = 4096 };

typedef struct stream { ///< what the sink got
    uint64_t meaning[MAX_VALUES]; ///< of value i + 1: hash of how it is computed
    bool dropped[MAX_VALUES];
    size_t n_values;
    size_t n_ops;
    size_t mismatches;
} stream;

static uint64_t meaning_of_attr(const kiln_attr *attr, uint64_t hash)
{
    const uint64_t head[] = {attr->type, attr->count};
    hash = kiln_hash64(head, sizeof(head), hash);
    switch (attr->type) {
    case KILN_ATTR_NONE:
        return hash;
    case KILN_ATTR_I64_LIST:
        return kiln_hash64(attr->v.ints, attr->count * sizeof(int64_t), hash);
    case KILN_ATTR_F64:
        return kiln_hash64(&attr->v.f, sizeof(attr->v.f), hash);
    case KILN_ATTR_I64:
    case KILN_ATTR_BOOL:
    case KILN_ATTR_DTYPE:
        return kiln_hash64(&attr->v.i, sizeof(attr->v.i), hash);
    default:
        KILN_FAIL("an attribute of type %d", (int)attr->type);
        return hash;
    }
}

static kiln_status take(const kiln_op_record *record, void *user, kiln_error *err)
{
    stream *s = user;
    uint64_t hash = (uint64_t)record->op;
    for (size_t i = 0; i < record->n_inputs; i++) {
        size_t index = (size_t)record->inputs[i].id - 1;
        bool lives = index < s->n_values && !s->dropped[index];
        s->mismatches += !lives;
        hash = lives ? kiln_hash64(&s->meaning[index], sizeof(hash), hash) : 0;
    }
    if (record->op == KILN_OP_DROP) {
        s->dropped[record->inputs[0].id - 1] = true;
        return KILN_STATUS_OK;
    }
    for (size_t i = 0; i < record->n_attrs; i++) {
        hash = meaning_of_attr(&record->attrs[i], hash);
    }
    s->n_ops++;
    for (uint64_t i = 0; i < record->n_outputs; i++) {
        if (s->n_values == MAX_VALUES) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "a long expansion");
        }
        s->mismatches += record->outputs[i].id != s->n_values + 1;
        s->meaning[s->n_values++] = kiln_hash64(&i, sizeof(i), hash);
    }
    return KILN_STATUS_OK;
}

static bool expand(const kiln_env *env, const kiln_op_record *call, uint32_t unused, stream *s,
                   uint64_t ids[KILN_MAX_OUTPUTS])
{
    const kiln_expansion_sink sink = {.emit = take, .user = s, .unused = unused};
    kiln_error err = KILN_ERROR_INIT;
    memset(s, 0, sizeof(*s));
    for (uint64_t i = 0; i < call->n_inputs; i++) {
        s->meaning[s->n_values++] = kiln_hash64(&i, sizeof(i), 1);
    }
    if (kiln_ir_expand(env, call, &sink, ids, &err) != KILN_STATUS_OK) {
        KILN_FAIL("%s", err.message);
        return false;
    }
    return true;
}

typedef struct sweep {
    const kiln_env *env;
    unsigned calls;
    unsigned shorter; ///< expansions that an unused result made so
    unsigned longer;
} sweep;

static void check_results(const kiln_op_record *call, uint32_t unused, const stream *s,
                          const uint64_t *ids, const stream *whole, const uint64_t *whole_ids)
{
    bool is_result[MAX_VALUES] = {false};
    KILN_CHECK_INT(s->mismatches, 0);
    for (unsigned i = 0; i < call->n_outputs; i++) {
        if ((unused >> i & 1) != 0) {
            KILN_CHECK_INT(ids[i], 0);
            continue;
        }
        if (KILN_CHECK(ids[i] > call->n_inputs && ids[i] <= s->n_values)) {
            KILN_CHECK(!s->dropped[ids[i] - 1]);
            KILN_CHECK(s->meaning[ids[i] - 1] == whole->meaning[whole_ids[i] - 1]);
            is_result[ids[i] - 1] = true;
        }
    }
    for (size_t i = call->n_inputs; i < s->n_values; i++) {
        KILN_CHECK(s->dropped[i] != is_result[i]);
    }
}

static void check_sample(const kiln_op_record *record, const void *const *data, void *user)
{
    static stream whole, part;
    uint64_t whole_ids[KILN_MAX_OUTPUTS] = {0}, ids[KILN_MAX_OUTPUTS] = {0};
    sweep *self = user;
    (void)data;
    if (record->outputs == NULL || !expand(self->env, record, 0, &whole, whole_ids)) {
        return;
    }
    self->calls++;
    check_results(record, 0, &whole, whole_ids, &whole, whole_ids);
    for (uint32_t unused = 1; unused < 1u << record->n_outputs; unused++) {
        if (expand(self->env, record, unused, &part, ids)) {
            check_results(record, unused, &part, ids, &whole, whole_ids);
            self->shorter += part.n_ops < whole.n_ops;
            self->longer += part.n_ops > whole.n_ops;
        }
    }
}

static sweep sweep_of(kiln_op op)
{
    test_env env;
    test_env_init(&env);
    sweep self = {.env = &env.env};
    kiln_sample_sink sink = {&env.env, check_sample, &self};
    kiln_samples_make(op, KILN_DTYPE_F32, &sink);
    KILN_CHECK_INT(env.live, 0);
    return self;
}

static void test_unused_results(void)
{
    unsigned operators = 0;
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        if (info->decompose == NULL || info->n_outputs < 2) {
            continue;
        }
        sweep self = sweep_of((kiln_op)op);
        if (self.calls == 0 || self.longer > 0) {
            KILN_FAIL("%s: %u calls, %u longer", info->name, self.calls, self.longer);
        }
        operators++;
    }
    KILN_CHECK(operators >= 12);
}

static void test_what_it_spares(void)
{
    static const kiln_op backwards[] = {KILN_OP_LAYER_NORM_BACKWARD, KILN_OP_RMS_NORM_BACKWARD,
                                        KILN_OP_GROUP_NORM_BACKWARD, KILN_OP_BATCH_NORM_BACKWARD,
                                        KILN_OP_BATCH_NORM_TRAIN,    KILN_OP_INSTANCE_NORM_BACKWARD,
                                        KILN_OP_MAX_WITH_INDICES,    KILN_OP_DEFORM_CONV_BACKWARD};
    for (size_t i = 0; i < sizeof(backwards) / sizeof(backwards[0]); i++) {
        sweep self = sweep_of(backwards[i]);
        if (self.shorter == 0) {
            KILN_FAIL("%s: nothing is left out", kiln_op_info_of(backwards[i])->name);
        }
    }
}

KILN_TEST_MAIN("unit/ir/expand", KILN_TEST(test_unused_results), KILN_TEST(test_what_it_spares))
