// SPDX-License-Identifier: MIT OR Apache-2.0
// The elementwise fuser's answers and programs: what it takes, when it closes, that clone, reset
// and replay are exact, what its kernels write, in every layout and in both code shapes.
#define _GNU_SOURCE // memmem
#include "harness.h"
#include "mini_host.h"

#include <string.h>

static mini_host *open_fuser(uint32_t shape)
{
    mini_host *mini = mini_open("elementwise.so", shape);
    if (mini != NULL && !mini_fuser(mini)) {
        mini_close(mini);
        return NULL;
    }
    return mini;
}

static float *floats(mini_host *mini, uint32_t tensor)
{
    return mini->tensors[tensor].data;
}

static void fill(mini_host *mini, uint32_t tensor, float start, float step)
{
    size_t count = mini->tensors[tensor].bytes / sizeof(float);
    for (size_t i = 0; i < count; i++) {
        floats(mini, tensor)[i] = start + step * (float)(i % 1009);
    }
}

/// relu(a * b + 1) * 0.5 - b with all intermediates dropped. Tensors: a 0, b 1, result 6.
static void record_chain(mini_host *mini, uint32_t rank, const int64_t *extents)
{
    uint32_t t[7];
    for (uint32_t i = 0; i < 7; i++) {
        t[i] = mini_tensor_add(mini, KF_DTYPE_F32, rank, extents);
    }
    mini_binary(mini, KF_OP_MUL, t[0], t[1], t[2]);
    mini_with_scalar(mini, KF_OP_ADD_SCALAR, t[2], 1, t[3]);
    mini_drop(mini, t[2]);
    mini_unary(mini, KF_OP_RELU, t[3], t[4]);
    mini_drop(mini, t[3]);
    mini_with_scalar(mini, KF_OP_MUL_SCALAR, t[4], 0.5, t[5]);
    mini_drop(mini, t[4]);
    mini_binary(mini, KF_OP_SUB, t[5], t[1], t[6]);
    mini_drop(mini, t[5]);
}

static float chain(float a, float b)
{
    float x = a * b;
    x = x + 1.0f;
    x = x > 0.0f || x != x ? x : 0.0f;
    return x * 0.5f - b;
}

static kf_opt_info info_of(mini_host *mini, const kf_opt *opt)
{
    kf_opt_info info = {.struct_size = (uint32_t)sizeof(info)};
    KILN_CHECK_INT(mini->plugin->opt_info(opt, &info), KF_OK);
    return info;
}

static kf_program program_of(mini_host *mini, const kf_opt *opt)
{
    kf_program program = {.struct_size = (uint32_t)sizeof(program)};
    KILN_CHECK_INT(mini->plugin->opt_describe(opt, 0, &program), KF_OK);
    return program;
}

static void test_plugin_table(void)
{
    mini_host *mini = open_fuser(KF_SHAPE_BLOCK);
    kf_fuser *none = NULL;
    if (mini == NULL) {
        return;
    }
    KILN_CHECK(mini->plugin->struct_size >= KF_PLUGIN_SIZE_V1_0);
    KILN_CHECK_INT(mini->plugin->n_fusers, 1);
    KILN_CHECK_INT(mini->plugin->fuser_create(&mini->host, 1, &mini->device, &none), KF_E_INVALID);
    mini->device.features &= ~KF_FEATURE_COMPILER;
    KILN_CHECK_INT(mini->plugin->fuser_create(&mini->host, 0, &mini->device, &none), KF_DECLINED);
    KILN_CHECK_INT(mini->last_code, KF_CODE_DEVICE);
    mini_close(mini);
}

static void test_chain_is_one_kernel(void)
{
    const int64_t extents[] = {33, 31};
    mini_host *mini = open_fuser(KF_SHAPE_BLOCK);
    kf_builder *builder = NULL;
    kf_opt *opt = NULL;
    int64_t value = 0;
    if (mini == NULL) {
        return;
    }
    record_chain(mini, 2, extents);
    mini->plugin->builder_create(mini->fuser, &builder);
    kf_state state = mini_fuse(mini, builder, 0, mini->n_ops);
    KILN_CHECK_INT(state.status, KF_OPEN);
    KILN_CHECK_INT(state.ready, 1);
    KILN_CHECK_INT(state.len, mini->n_ops);
    KILN_CHECK_INT(state.launches, 1);
    KILN_CHECK(mini_eval(mini, state.est_bytes_read, &value) && value == 2 * 4 * 33 * 31);
    KILN_CHECK(mini_eval(mini, state.est_bytes_written, &value) && value == 4 * 33 * 31);
    KILN_CHECK(mini_eval(mini, state.est_flops, &value) && value == 5 * 33 * 31);
    KILN_CHECK(mini_eval(mini, state.est_ns, &value) && value >= 5000 && value < 6000);
    KILN_CHECK_INT(mini->plugin->builder_finish(builder, &opt), KF_OK);
    kf_program program = program_of(mini, opt);
    KILN_CHECK_INT(program.n_launches, 1);
    KILN_CHECK(program.flags & KF_PROGRAM_IN_PLACE_SAFE);
    uint32_t tensors = 0;
    for (uint32_t i = 0; i < program.launches[0]->n_args; i++) {
        const kf_karg *arg = &program.launches[0]->args[i];
        if (arg->kind == KF_ARG_TENSOR) {
            KILN_CHECK(arg->ref == 0 || arg->ref == 1 || arg->ref == 6);
            KILN_CHECK_INT(arg->access, arg->ref == 6 ? KF_ACCESS_WRITE : KF_ACCESS_READ);
            tensors++;
        }
    }
    KILN_CHECK_INT(tensors, 3);
    KILN_CHECK_INT(mini->values_asked, 0);
    KILN_CHECK_INT(info_of(mini, opt).len, mini->n_ops);
    mini->plugin->opt_destroy(opt);
    mini->plugin->builder_destroy(builder);
    mini_close(mini);
}

typedef struct run_case {
    uint32_t shape;
    int64_t count;
    bool in_place;
} run_case;

static void test_chain_runs(void)
{
    const run_case *c = kiln_test_param();
    const int64_t extents[] = {c->count};
    mini_host *mini = mini_has_opencl() ? open_fuser(c->shape) : NULL;
    if (mini == NULL) {
        return;
    }
    mini->device.cache_bytes = 1024; // so that the larger cases bypass the cache
    mini->plugin->fuser_destroy(mini->fuser);
    mini_fuser(mini);
    record_chain(mini, 1, extents);
    fill(mini, 0, -3.0f, 0.37f);
    fill(mini, 1, 2.0f, -0.11f);
    mini->tensors[6].same_memory_as = c->in_place ? 0 : -1;
    float *expected = malloc((size_t)c->count * sizeof(float));
    for (int64_t i = 0; i < c->count; i++) {
        expected[i] = chain(floats(mini, 0)[i], floats(mini, 1)[i]);
    }
    kf_opt *opt = mini_finish(mini);
    if (KILN_CHECK(opt != NULL) && mini_run(mini, opt)) {
        KILN_CHECK_MEM(floats(mini, 6), expected, (size_t)c->count * sizeof(float));
    }
    mini->plugin->opt_destroy(opt);
    free(expected);
    mini_close(mini);
}

/// A chain so long that a work-item of a GPU computes two vectors, over `count` elements: results
/// and, with `in_place`, memory behind them are as one by one.
static void check_long_chain(int64_t count, bool in_place)
{
    enum { STEPS = 16 };
    const int64_t extents[] = {count};
    mini_host *mini = open_fuser(KF_SHAPE_NDRANGE);
    if (mini == NULL) {
        return;
    }
    uint32_t a = mini_tensor_add(mini, KF_DTYPE_F32, 1, extents);
    uint32_t b = mini_tensor_add(mini, KF_DTYPE_F32, 1, extents), x = a;
    for (int step = 0; step < STEPS; step++) {
        uint32_t next = mini_tensor_add(mini, KF_DTYPE_F32, 1, extents);
        if (step % 2 == 0) {
            mini_binary(mini, KF_OP_ADD, x, b, next);
        } else {
            mini_with_scalar(mini, KF_OP_MUL_SCALAR, x, 0.5, next);
        }
        if (x != a) {
            mini_drop(mini, x);
        }
        x = next;
    }
    fill(mini, a, -3.0f, 0.37f);
    fill(mini, b, 2.0f, -0.11f);
    mini->tensors[x].same_memory_as = in_place ? (int)a : -1;
    float *expected = malloc((size_t)count * sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        expected[i] = floats(mini, a)[i];
        for (int step = 0; step < STEPS; step++) {
            expected[i] = step % 2 == 0 ? expected[i] + floats(mini, b)[i] : expected[i] * 0.5f;
        }
    }
    kf_opt *opt = mini_finish(mini);
    if (KILN_CHECK(opt != NULL) && mini_run(mini, opt)) {
        const kf_source *source = program_of(mini, opt).sources[0];
        bool pairs = memmem(source->code.ptr, source->code.len, "step * 2", 8) != NULL;
        KILN_CHECK_INT(pairs, count > 1);
        KILN_CHECK_MEM(floats(mini, x), expected, (size_t)count * sizeof(float));
    }
    mini->plugin->opt_destroy(opt);
    free(expected);
    mini_close(mini);
}

static void test_long_chains_of_pairs(void)
{
    const int64_t counts[] = {1, 3, 4, 509, 512, 515, 1020, 1023, 1024, 1025, 2560, 5003};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]) && mini_has_opencl(); i++) {
        check_long_chain(counts[i], i % 2 == 1);
    }
}

// ---- layouts ----

/// out = (x + row) * column - s, x strided or not: every kind of access in one kernel.
static void record_layouts(mini_host *mini, const int64_t extents[3], bool strided)
{
    const int64_t row[] = {extents[2]}, column[] = {extents[0], 1, 1}, one[] = {1};
    uint32_t x = mini_tensor_add(mini, KF_DTYPE_F32, 3, extents);
    uint32_t r = mini_tensor_add(mini, KF_DTYPE_F32, 1, row);
    uint32_t c = mini_tensor_add(mini, KF_DTYPE_F32, 3, column);
    uint32_t s = mini_tensor_add(mini, KF_DTYPE_F32, 1, one);
    uint32_t a = mini_tensor_add(mini, KF_DTYPE_F32, 3, extents);
    uint32_t b = mini_tensor_add(mini, KF_DTYPE_F32, 3, extents);
    uint32_t out = mini_tensor_add(mini, KF_DTYPE_F32, 3, extents);
    if (strided) { // transposed, backwards along the first axis, gaps between elements
        const int64_t strides[] = {-2, 2 * extents[0] * extents[2], 2 * extents[0]};
        mini_tensor_place(mini, x, strides, 5 + 2 * (extents[0] - 1),
                          (size_t)(2 * extents[0] * extents[1] * extents[2] + 5));
    }
    mini_binary(mini, KF_OP_ADD, x, r, a);
    mini_binary(mini, KF_OP_MUL, a, c, b);
    mini_drop(mini, a);
    mini_binary(mini, KF_OP_SUB, b, s, out);
    mini_drop(mini, b);
    for (uint32_t i = 0; i < 4; i++) {
        fill(mini, i, 1.0f + (float)i, 0.25f);
    }
}

static void check_layouts(mini_host *mini, const int64_t extents[3])
{
    const mini_tensor *x = &mini->tensors[0];
    const float *data = x->data;
    int64_t at = 0;
    unsigned wrong = 0;
    for (int64_t i = 0; i < extents[0]; i++) {
        for (int64_t j = 0; j < extents[1]; j++) {
            for (int64_t k = 0; k < extents[2]; k++, at++) {
                float v =
                    data[x->offset + i * x->strides[0] + j * x->strides[1] + k * x->strides[2]];
                float expected = (v + floats(mini, 1)[k]) * floats(mini, 2)[i] - floats(mini, 3)[0];
                wrong += floats(mini, 6)[at] != expected;
            }
        }
    }
    KILN_CHECK_INT(wrong, 0);
}

static void test_layouts(void)
{
    static const int64_t shapes[][3] = {{3, 5, 7}, {2, 3, 64}, {4, 1, 20}, {1, 6, 3}, {5, 2, 1}};
    const run_case *c = kiln_test_param();
    mini_host *mini = mini_has_opencl() ? open_fuser(c->shape) : NULL;
    if (mini == NULL) {
        return;
    }
    for (uint32_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        mini_clear(mini);
        record_layouts(mini, shapes[i], c->in_place);
        kf_opt *opt = mini_finish(mini);
        if (KILN_CHECK(opt != NULL) && mini_run(mini, opt)) {
            check_layouts(mini, shapes[i]);
        }
        mini->plugin->opt_destroy(opt);
    }
    mini_close(mini);
}

// ---- gathers ----

enum { TABLE = 9 };

static const int64_t hostile[] = {0, -1, TABLE - 1, TABLE, -TABLE - 1, INT64_MAX, INT64_MIN, 4};

static int64_t place(int64_t given)
{
    int64_t at = given < 0 ? given + TABLE : given;
    return at < 0 ? 0 : at >= TABLE ? TABLE - 1 : at;
}

static mini_op *along(mini_op *op, int64_t axis)
{
    op->attrs[op->view.n_attrs++] =
        (kf_attr){.key = KF_ATTR_AXIS, .type = KF_TYPE_I64, .count = 1, .v = {.i = axis}};
    return op;
}

/// (select(x, first) + select(y, last)) * gather(z, all): 0 to 2 the tables, 3 to 5 the indices,
/// along axes 0, -1 and 1; 6 to 8 what is taken, 10 the result.
static void record_gathers(mini_host *mini, const int64_t *out)
{
    const int64_t x[] = {TABLE, out[1], out[2]}, y[] = {out[0], out[1], TABLE};
    const int64_t z[] = {out[0], TABLE, out[2]};
    const int64_t *const tables[] = {x, y, z};
    for (uint32_t i = 0; i < 3; i++) {
        fill(mini, mini_tensor_add(mini, KF_DTYPE_F32, 3, tables[i]), (float)i, 0.75f);
    }
    mini_tensor_add(mini, KF_DTYPE_I64, 1, &out[0]);
    mini_tensor_add(mini, KF_DTYPE_I32, 1, &out[2]);
    mini_tensor_add(mini, KF_DTYPE_I64, 3, out);
    for (uint32_t i = 3; i < 6; i++) {
        for (int64_t k = 0; k < mini_count(mini, i); k++) {
            int64_t given = hostile[(uint64_t)(k * 5 + i) % 8];
            if (i == 4) {
                ((int32_t *)mini->tensors[i].data)[k] = given == INT64_MAX   ? INT32_MAX
                                                        : given == INT64_MIN ? INT32_MIN
                                                                             : (int32_t)given;
            } else {
                ((int64_t *)mini->tensors[i].data)[k] = given;
            }
        }
    }
    for (uint32_t i = 6; i < 11; i++) {
        mini_tensor_add(mini, KF_DTYPE_F32, 3, out);
    }
    along(mini_binary(mini, KF_OP_SELECT, 0, 3, 6), 0);
    along(mini_binary(mini, KF_OP_SELECT, 1, 4, 7), -1);
    along(mini_binary(mini, KF_OP_GATHER, 2, 5, 8), 1);
    mini_binary(mini, KF_OP_ADD, 6, 7, 9);
    mini_binary(mini, KF_OP_MUL, 9, 8, 10);
    for (uint32_t i = 6; i < 10; i++) {
        mini_drop(mini, i);
    }
}

static void check_gathers(mini_host *mini, const int64_t *out)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < out[0] * out[1] * out[2]; i++) {
        int64_t c = i % out[2], b = i / out[2] % out[1], a = i / out[2] / out[1];
        int64_t at0 = place(((int64_t *)mini->tensors[3].data)[a]);
        int64_t at2 = place(((int32_t *)mini->tensors[4].data)[c]);
        int64_t at1 = place(((int64_t *)mini->tensors[5].data)[i]);
        float x = floats(mini, 0)[(at0 * out[1] + b) * out[2] + c];
        float y = floats(mini, 1)[(a * out[1] + b) * TABLE + at2];
        float z = floats(mini, 2)[(a * TABLE + at1) * out[2] + c];
        wrong += floats(mini, 10)[i] != (x + y) * z;
    }
    KILN_CHECK_INT(wrong, 0);
}

static void test_gathers(void)
{
    static const int64_t shapes[][3] = {{3, 5, 7}, {2, 3, 64}, {4, 1, 20}, {1, 6, 3}, {5, 2, 1}};
    const run_case *c = kiln_test_param();
    mini_host *mini = mini_has_opencl() ? open_fuser(c->shape) : NULL;
    for (uint32_t i = 0; mini != NULL && i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        mini_clear(mini);
        record_gathers(mini, shapes[i]);
        kf_opt *opt = mini_finish(mini);
        if (KILN_CHECK(opt != NULL) && mini_run(mini, opt)) {
            KILN_CHECK((program_of(mini, opt).flags & KF_PROGRAM_IN_PLACE_SAFE) == 0);
            check_gathers(mini, shapes[i]);
        }
        mini->plugin->opt_destroy(opt);
    }
    if (mini != NULL) {
        mini_close(mini);
    }
}

static void test_rank_zero_and_several_results(void)
{
    mini_host *mini = mini_has_opencl() ? open_fuser(KF_SHAPE_BLOCK) : NULL;
    if (mini == NULL) {
        return;
    }
    for (uint32_t i = 0; i < 4; i++) {
        mini_tensor_add(mini, i == 3 ? KF_DTYPE_BOOL : KF_DTYPE_F32, 0, NULL);
    }
    floats(mini, 0)[0] = 3.0f;
    mini_unary(mini, KF_OP_NEG, 0, 1);
    mini_with_scalar(mini, KF_OP_MUL_SCALAR, 1, 2.5, 2);
    mini_with_scalar(mini, KF_OP_LESS_SCALAR, 2, 0, 3);
    kf_opt *opt = mini_finish(mini);
    if (KILN_CHECK(opt != NULL) && mini_run(mini, opt)) {
        KILN_CHECK(floats(mini, 1)[0] == -3.0f);
        KILN_CHECK(floats(mini, 2)[0] == -7.5f);
        KILN_CHECK_INT(((uint8_t *)mini->tensors[3].data)[0], 1);
    }
    mini->plugin->opt_destroy(opt);
    mini_close(mini);
}

// ---- relative form ----

static void key_of_chain(mini_host *mini, int64_t extent, double scalar, unsigned char key[16])
{
    mini_clear(mini);
    record_chain(mini, 1, &extent);
    mini->scalars_f[0] = scalar;
    kf_opt *opt = mini_finish(mini);
    if (KILN_CHECK(opt != NULL)) {
        kf_opt_info info = info_of(mini, opt);
        KILN_CHECK_INT(info.key.len, 16);
        memcpy(key, info.key.ptr, 16);
    }
    mini->plugin->opt_destroy(opt);
}

static void test_program_ignores_sizes_and_scalars(void)
{
    mini_host *mini = open_fuser(KF_SHAPE_BLOCK);
    unsigned char small[16], large[16], other[16];
    if (mini == NULL) {
        return;
    }
    key_of_chain(mini, 1000, 1, small);
    key_of_chain(mini, 123457, 7, large);
    KILN_CHECK_MEM(small, large, 16);
    mini_clear(mini);
    const int64_t extents[] = {10};
    record_chain(mini, 1, extents);
    mini->ops[0].view.kind = KF_OP_DIV;
    kf_opt *opt = mini_finish(mini);
    if (KILN_CHECK(opt != NULL)) {
        memcpy(other, info_of(mini, opt).key.ptr, 16);
        KILN_CHECK(memcmp(small, other, 16) != 0);
    }
    mini->plugin->opt_destroy(opt);
    mini_close(mini);
}

// ---- clone, reset, replay ----

static void check_same_result(mini_host *mini, kf_builder *a, kf_builder *b)
{
    kf_opt *x = NULL, *y = NULL;
    KILN_CHECK_INT(mini->plugin->builder_finish(a, &x), KF_OK);
    KILN_CHECK_INT(mini->plugin->builder_finish(b, &y), KF_OK);
    if (x != NULL && y != NULL) {
        KILN_CHECK_MEM(info_of(mini, x).key.ptr, info_of(mini, y).key.ptr, 16);
        kf_program p = program_of(mini, x), q = program_of(mini, y);
        KILN_CHECK_INT(p.sources[0]->code.len, q.sources[0]->code.len);
        KILN_CHECK_MEM(p.sources[0]->code.ptr, q.sources[0]->code.ptr, p.sources[0]->code.len);
    }
    mini->plugin->opt_destroy(x);
    mini->plugin->opt_destroy(y);
}

static void test_clone_reset_replay(void)
{
    const int64_t extents[] = {4, 4};
    mini_host *mini = open_fuser(KF_SHAPE_BLOCK);
    kf_builder *whole = NULL, *part = NULL, *copy = NULL;
    if (mini == NULL) {
        return;
    }
    record_chain(mini, 2, extents);
    mini->plugin->builder_create(mini->fuser, &whole);
    mini->plugin->builder_create(mini->fuser, &part);
    kf_state all = mini_fuse(mini, whole, 0, mini->n_ops);
    for (uint32_t cut = 0; cut <= mini->n_ops; cut++) {
        KILN_CHECK_INT(mini->plugin->builder_reset(part), KF_OK);
        mini_fuse(mini, part, 0, cut);
        KILN_CHECK_INT(mini->plugin->builder_clone(part, &copy), KF_OK);
        kf_state before = {.struct_size = (uint32_t)sizeof(before)};
        mini->plugin->builder_state(part, &before);
        kf_state after = mini_fuse(mini, copy, cut, mini->n_ops);
        KILN_CHECK_INT(cut == mini->n_ops ? all.len : after.len, all.len);
        kf_state still = {.struct_size = (uint32_t)sizeof(still)};
        mini->plugin->builder_state(part, &still);
        KILN_CHECK_INT(still.len, before.len);
        check_same_result(mini, whole, copy);
        mini->plugin->builder_destroy(copy);
    }
    mini->plugin->builder_destroy(part);
    mini->plugin->builder_destroy(whole);
    mini->plugin->builder_destroy(NULL);
    mini->plugin->opt_destroy(NULL);
    mini->plugin->fuser_destroy(NULL);
    mini_close(mini);
}

static void test_old_host_gets_what_it_has_room_for(void)
{
    const int64_t extents[] = {8};
    mini_host *mini = open_fuser(KF_SHAPE_BLOCK);
    kf_builder *builder = NULL;
    struct {
        kf_state state;
        unsigned char after[16];
    } room;
    if (mini == NULL) {
        return;
    }
    record_chain(mini, 1, extents);
    mini->plugin->builder_create(mini->fuser, &builder);
    mini_fuse(mini, builder, 0, 1);
    memset(&room, 0x5A, sizeof(room));
    room.state.struct_size = (uint32_t)offsetof(kf_state, est_ns);
    KILN_CHECK_INT(mini->plugin->builder_state(builder, &room.state), KF_OK);
    KILN_CHECK_INT(room.state.len, 1);
    KILN_CHECK_INT(((unsigned char *)&room.state.est_ns)[0], 0x5A);
    mini->plugin->builder_destroy(builder);
    mini_close(mini);
}

// ---- closing ----

typedef struct tail_op {
    kf_op op;
    uint64_t tail;
} tail_op;

/// Shows the chain with operation 1 changed, and expects the block to end before it, for `code`.
static void expect_close(mini_host *mini, const char *what, uint32_t code)
{
    kf_builder *builder = NULL;
    mini->plugin->builder_create(mini->fuser, &builder);
    kf_state state = mini_fuse(mini, builder, 0, mini->n_ops);
    if (state.status != KF_CLOSED || state.len != 1 || mini->last_code != code) {
        KILN_FAIL("%s: status %u, len %u, code %x (%s)", what, state.status, state.len,
                  mini->last_code, mini->last_text);
    }
    mini->plugin->builder_destroy(builder);
    const int64_t extents[] = {16};
    mini_clear(mini);
    record_chain(mini, 1, extents);
}

static void test_closes_on_what_it_does_not_know(void)
{
    const int64_t extents[] = {16}, longer[] = {4, 16};
    mini_host *mini = open_fuser(KF_SHAPE_BLOCK);
    if (mini == NULL) {
        return;
    }
    record_chain(mini, 1, extents);
    mini->ops[1].view.kind = KF_OP_MATMUL;
    expect_close(mini, "an operator of another class", KF_CODE_UNKNOWN_OP);
    mini->ops[1].view.kind = 60000;
    expect_close(mini, "an operator that nobody knows", KF_CODE_UNKNOWN_OP);
    mini->ops[1].view.version = 2;
    expect_close(mini, "a newer version", KF_CODE_NOT_UNDERSTOOD);
    mini->ops[1].view.flags = 1;
    expect_close(mini, "an operation flag", KF_CODE_NOT_UNDERSTOOD);
    mini->ops[1].attrs[1] = (kf_attr){9999, KF_TYPE_I64, 0, 1, {3}};
    mini->ops[1].view.n_attrs = 2;
    expect_close(mini, "a critical attribute", KF_CODE_NOT_UNDERSTOOD);
    mini->ops[1].attrs[0].flags = 2;
    expect_close(mini, "an attribute flag", KF_CODE_NOT_UNDERSTOOD);
    mini->ops[1].view.n_attrs = 0;
    expect_close(mini, "a missing attribute", KF_CODE_NOT_UNDERSTOOD);
    mini->tensors[3].view.flags = 1u << 20;
    expect_close(mini, "a tensor flag", KF_CODE_NOT_UNDERSTOOD);
    mini->tensors[3].view.scheme = 1;
    expect_close(mini, "a quantised tensor", KF_CODE_NOT_UNDERSTOOD);
    mini->tensors[3].view.dtype = KF_DTYPE_I32;
    expect_close(mini, "a result of another dtype", KF_CODE_DTYPE);
    mini->tensors[3].view.dtype = 63;
    expect_close(mini, "a dtype that nobody knows", KF_CODE_DTYPE);
    uint32_t wide = mini_tensor_add(mini, KF_DTYPE_F32, 2, longer);
    mini->ops[1].outputs[0] = &mini->tensors[wide].view;
    expect_close(mini, "another shape", KF_CODE_SHAPE);
    mini_close(mini);
}

static void test_closes_on_a_newer_tail_but_ignores_hints(void)
{
    const int64_t extents[] = {16};
    mini_host *mini = open_fuser(KF_SHAPE_BLOCK);
    kf_builder *builder = NULL;
    if (mini == NULL) {
        return;
    }
    record_chain(mini, 1, extents);
    tail_op longer = {mini->ops[0].view, 0};
    longer.op.struct_size = (uint32_t)sizeof(longer);
    const kf_op *shown = &longer.op;
    kf_state state = {.struct_size = (uint32_t)sizeof(state)};
    const kf_block block = {.struct_size = (uint32_t)sizeof(block)};
    mini->plugin->builder_create(mini->fuser, &builder);
    mini->plugin->builder_fuse(builder, &block, &shown, 1, &state);
    KILN_CHECK_INT(state.status, KF_OPEN); // a longer description that says nothing more
    mini->plugin->builder_reset(builder);
    longer.tail = 1;
    mini->plugin->builder_fuse(builder, &block, &shown, 1, &state);
    KILN_CHECK_INT(state.status, KF_CLOSED);
    KILN_CHECK_INT(state.ready, 0);
    mini->plugin->builder_reset(builder);
    mini->ops[1].attrs[1] = (kf_attr){9999, KF_TYPE_I64, KF_ATTR_FLAG_HINT, 1, {3}};
    mini->ops[1].view.n_attrs = 2;
    state = mini_fuse(mini, builder, 0, mini->n_ops);
    KILN_CHECK_INT(state.len, mini->n_ops);
    mini->plugin->builder_destroy(builder);
    mini_close(mini);
}

static void test_drops(void)
{
    const int64_t extents[] = {16};
    mini_host *mini = open_fuser(KF_SHAPE_BLOCK);
    kf_builder *builder = NULL;
    if (mini == NULL) {
        return;
    }
    for (uint32_t i = 0; i < 3; i++) {
        mini_tensor_add(mini, KF_DTYPE_F32, 1, extents);
    }
    mini_drop(mini, 2); // of a tensor that the block never sees
    mini_unary(mini, KF_OP_EXP, 0, 1);
    mini_drop(mini, 0);
    mini_drop(mini, 1);
    mini->plugin->builder_create(mini->fuser, &builder);
    KILN_CHECK_INT(mini_fuse(mini, builder, 0, 1).ready, 0);
    kf_state state = mini_fuse(mini, builder, 1, 3);
    KILN_CHECK_INT(state.ready, 1);
    KILN_CHECK_INT(state.len, 3);
    state = mini_fuse(mini, builder, 3, 4); // now nothing would be written
    KILN_CHECK_INT(state.ready, 0);
    KILN_CHECK_INT(state.status, KF_OPEN);
    kf_opt *opt = NULL;
    KILN_CHECK_INT(mini->plugin->builder_finish(builder, &opt), KF_E_INVALID);
    KILN_CHECK(opt == NULL);
    mini->plugin->builder_destroy(builder);
    mini_close(mini);
}

static void test_long_chains_close_at_a_limit(void)
{
    const int64_t extents[] = {16};
    mini_host *mini = open_fuser(KF_SHAPE_BLOCK);
    kf_builder *builder = NULL;
    if (mini == NULL) {
        return;
    }
    mini_tensor_add(mini, KF_DTYPE_F32, 1, extents);
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t out = mini_tensor_add(mini, KF_DTYPE_F32, 1, extents);
        mini_unary(mini, KF_OP_NEG, out - 1, out);
        mini_drop(mini, out - 1);
    }
    mini->plugin->builder_create(mini->fuser, &builder);
    kf_state state = mini_fuse(mini, builder, 0, mini->n_ops);
    KILN_CHECK_INT(state.status, KF_CLOSED);
    KILN_CHECK_INT(mini->last_code, KF_CODE_LIMIT);
    KILN_CHECK(state.len >= 100 && state.len < mini->n_ops);
    kf_opt *opt = NULL;
    KILN_CHECK_INT(mini->plugin->builder_finish(builder, &opt), KF_OK);
    mini->plugin->opt_destroy(opt);
    mini->plugin->builder_destroy(builder);
    mini_close(mini);
}

static void test_null_takes_nothing(void)
{
    const int64_t extents[] = {16};
    mini_host *mini = mini_open("../test_plugins/null.so", KF_SHAPE_BLOCK);
    kf_builder *builder = NULL, *copy = NULL;
    kf_opt *opt = NULL;
    if (mini == NULL || !mini_fuser(mini)) {
        return;
    }
    record_chain(mini, 1, extents);
    mini->plugin->builder_create(mini->fuser, &builder);
    kf_state state = mini_fuse(mini, builder, 0, mini->n_ops);
    KILN_CHECK_INT(state.status, KF_CLOSED);
    KILN_CHECK_INT(state.ready, 0);
    KILN_CHECK_INT(mini->plugin->builder_finish(builder, &opt), KF_E_INVALID);
    KILN_CHECK_INT(mini->plugin->builder_clone(builder, &copy), KF_OK);
    KILN_CHECK_INT(mini->plugin->builder_reset(copy), KF_OK);
    state.struct_size = (uint32_t)sizeof(state);
    KILN_CHECK_INT(mini->plugin->builder_state(copy, &state), KF_OK);
    KILN_CHECK_INT(state.status, KF_OPEN);
    mini->plugin->builder_destroy(copy);
    mini->plugin->builder_destroy(builder);
    mini_close(mini);
}

static const run_case small = {KF_SHAPE_BLOCK, 7, false};
static const run_case odd = {KF_SHAPE_BLOCK, 100003, false};
static const run_case in_place = {KF_SHAPE_BLOCK, 100003, true};
static const run_case items = {KF_SHAPE_NDRANGE, 100003, false};
static const run_case items_in_place = {KF_SHAPE_NDRANGE, 7, true};
static const run_case dense_rows = {KF_SHAPE_BLOCK, 0, false};
static const run_case strided_rows = {KF_SHAPE_BLOCK, 0, true};
static const run_case dense_items = {KF_SHAPE_NDRANGE, 0, false};
static const run_case strided_items = {KF_SHAPE_NDRANGE, 0, true};

KILN_TEST_MAIN("unit/plugins/elementwise", KILN_TEST(test_plugin_table),
               KILN_TEST(test_chain_is_one_kernel),
               KILN_TEST_PARAM(test_chain_runs, "small", &small),
               KILN_TEST_PARAM(test_chain_runs, "odd", &odd),
               KILN_TEST_PARAM(test_chain_runs, "in_place", &in_place),
               KILN_TEST_PARAM(test_chain_runs, "items", &items),
               KILN_TEST_PARAM(test_chain_runs, "items_in_place", &items_in_place),
               KILN_TEST(test_long_chains_of_pairs),
               KILN_TEST_PARAM(test_layouts, "dense_rows", &dense_rows),
               KILN_TEST_PARAM(test_layouts, "strided_rows", &strided_rows),
               KILN_TEST_PARAM(test_layouts, "dense_items", &dense_items),
               KILN_TEST_PARAM(test_layouts, "strided_items", &strided_items),
               KILN_TEST_PARAM(test_gathers, "gathers_rows", &dense_rows),
               KILN_TEST_PARAM(test_gathers, "gathers_items", &dense_items),
               KILN_TEST(test_rank_zero_and_several_results),
               KILN_TEST(test_program_ignores_sizes_and_scalars),
               KILN_TEST(test_clone_reset_replay),
               KILN_TEST(test_old_host_gets_what_it_has_room_for),
               KILN_TEST(test_closes_on_what_it_does_not_know),
               KILN_TEST(test_closes_on_a_newer_tail_but_ignores_hints), KILN_TEST(test_drops),
               KILN_TEST(test_long_chains_close_at_a_limit), KILN_TEST(test_null_takes_nothing))
