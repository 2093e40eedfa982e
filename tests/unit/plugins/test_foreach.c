// SPDX-License-Identifier: MIT OR Apache-2.0
// The foreach fuser's answers and programs through the C ABI, in both code shapes: steps of SGD and
// Adam over tensors of many sizes in one launch, recorded one after the other and in turn; which
// prefix it offers, when it is full, what may be done in place, and what it declines.
#include <math.h>

#include "harness.h"
#include "mini_host.h"

static mini_host *open_fuser(uint32_t shape)
{
    mini_host *mini = mini_open("foreach.so", shape);
    if (mini != NULL && !mini_fuser(mini)) {
        mini_close(mini);
        return NULL;
    }
    return mini;
}

static uint32_t shape_of_test(void)
{
    return *(const uint32_t *)kiln_test_param();
}

static float *floats(mini_host *mini, uint32_t tensor)
{
    return mini->tensors[tensor].data;
}

static uint32_t vector(mini_host *mini, int64_t count)
{
    uint32_t id = mini_tensor_add(mini, KF_DTYPE_F32, 1, &count);
    for (int64_t i = 0; i < count; i++) {
        floats(mini, id)[i] = 0.5f + (float)((i * 7 + id * 13) % 101) / 50.0f;
    }
    return id;
}

// ---- programs ----

enum { SGD_OPS = 2, ADAM_OPS = 9 };

typedef struct member { ///< tensors of one parameter's step
    uint32_t p, g, m, v; ///< what it reads
    uint32_t values[ADAM_OPS]; ///< results, in order
} member;

static member make_member(mini_host *mini, int64_t count)
{
    member s = {.p = vector(mini, count), .g = vector(mini, count)};
    s.m = vector(mini, count);
    s.v = vector(mini, count);
    for (uint32_t i = 0; i < ADAM_OPS; i++) {
        s.values[i] = mini_tensor_add(mini, KF_DTYPE_F32, 1, &count);
    }
    return s;
}

/// p - rate * g
static void sgd(mini_host *mini, const member *s, float rate)
{
    mini_with_scalar(mini, KF_OP_MUL_SCALAR, s->g, rate, s->values[0]);
    mini_binary(mini, KF_OP_SUB, s->p, s->values[0], s->values[1]);
    mini_drop(mini, s->values[0]);
}

static float sgd_of(float p, float g, float rate)
{
    float step = g * rate;
    return p - step;
}

/// The k-th operation of: m' = 0.9 m + g; v' = v + g g; p - rate m' / (sqrt(v') + 1e-3).
static void adam_op(mini_host *mini, const member *s, uint32_t k, float rate)
{
    const uint32_t *t = s->values;
    switch (k) {
    case 0:
        mini_with_scalar(mini, KF_OP_MUL_SCALAR, s->m, 0.9f, t[0]);
        break;
    case 1:
        mini_binary(mini, KF_OP_ADD, t[0], s->g, t[1]);
        break;
    case 2:
        mini_binary(mini, KF_OP_MUL, s->g, s->g, t[2]);
        break;
    case 3:
        mini_binary(mini, KF_OP_ADD, s->v, t[2], t[3]);
        break;
    case 4:
        mini_unary(mini, KF_OP_SQRT, t[3], t[4]);
        break;
    case 5:
        mini_with_scalar(mini, KF_OP_ADD_SCALAR, t[4], 1e-3f, t[5]);
        break;
    case 6:
        mini_binary(mini, KF_OP_DIV, t[1], t[5], t[6]);
        break;
    case 7:
        mini_with_scalar(mini, KF_OP_MUL_SCALAR, t[6], rate, t[7]);
        break;
    default:
        mini_binary(mini, KF_OP_SUB, s->p, t[7], t[8]);
        break;
    }
}

static const uint32_t adam_inner[] = {0, 2, 4, 5, 6, 7};
enum { ADAM_INNER = sizeof(adam_inner) / sizeof(adam_inner[0]) };

static void adam(mini_host *mini, const member *s, float rate)
{
    for (uint32_t k = 0; k < ADAM_OPS; k++) {
        adam_op(mini, s, k, rate);
    }
    for (uint32_t i = 0; i < ADAM_INNER; i++) {
        mini_drop(mini, s->values[adam_inner[i]]);
    }
}

typedef struct adam_state {
    float p, m, v;
} adam_state;

static adam_state adam_of(float p, float g, float m, float v, float rate)
{
    adam_state out;
    float kept = m * 0.9f, square = g * g;
    out.m = kept + g;
    out.v = v + square;
    float root = sqrtf(out.v);
    root = root + 1e-3f;
    float step = out.m / root;
    step = step * rate;
    out.p = p - step;
    return out;
}

/// The inputs as they were: results may have taken their memory.
typedef struct before {
    float *p, *g, *m, *v;
} before;

static float *copy_of(mini_host *mini, uint32_t id)
{
    float *copy = malloc(mini->tensors[id].bytes);
    if (copy != NULL) {
        memcpy(copy, mini->tensors[id].data, mini->tensors[id].bytes);
    }
    return copy;
}

static before keep(mini_host *mini, const member *s)
{
    return (before){copy_of(mini, s->p), copy_of(mini, s->g), copy_of(mini, s->m),
                    copy_of(mini, s->v)};
}

static void forget(before *b)
{
    free(b->p);
    free(b->g);
    free(b->m);
    free(b->v);
}

static bool same(float a, float b)
{
    return (a != a && b != b) || memcmp(&a, &b, sizeof(a)) == 0;
}

static void check_adam(mini_host *mini, const member *s, const before *b, float rate)
{
    for (int64_t i = 0; i < mini_count(mini, s->p); i++) {
        adam_state want = adam_of(b->p[i], b->g[i], b->m[i], b->v[i], rate);
        if (!same(floats(mini, s->values[8])[i], want.p) ||
            !same(floats(mini, s->values[1])[i], want.m) ||
            !same(floats(mini, s->values[3])[i], want.v)) {
            KILN_FAIL("tensor %u of %lld: element %lld is %g, not %g", s->p,
                      (long long)mini_count(mini, s->p), (long long)i,
                      (double)floats(mini, s->values[8])[i], (double)want.p);
            return;
        }
    }
}

// ---- results ----

enum { MEMBERS = 9 };

// One and many, odd, equal ones apart from each other, and several work-groups.
static const int64_t sizes[MEMBERS] = {7, 4096, 1, 5000, 7, 12289, 64, 4096, 1};

static void run_adam(bool in_turn, bool in_place)
{
    mini_host *mini = mini_has_opencl() ? open_fuser(shape_of_test()) : NULL;
    member s[MEMBERS];
    before b[MEMBERS];
    if (mini == NULL) {
        return;
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        s[i] = make_member(mini, sizes[i]);
        floats(mini, s[i].g)[0] = i % 3 == 0 ? NAN : i % 3 == 1 ? -0.0f : INFINITY;
        b[i] = keep(mini, &s[i]);
        if (in_place) {
            mini->tensors[s[i].values[8]].same_memory_as = (int)s[i].p;
            mini->tensors[s[i].values[1]].same_memory_as = (int)s[i].m;
            mini->tensors[s[i].values[3]].same_memory_as = (int)s[i].v;
        }
    }
    for (uint32_t k = 0; k < ADAM_OPS && in_turn; k++) {
        for (uint32_t i = 0; i < MEMBERS; i++) {
            adam_op(mini, &s[i], k, 0.25f * (float)(i + 1));
        }
    }
    for (uint32_t i = 0; i < MEMBERS && in_turn; i++) {
        for (uint32_t k = 0; k < ADAM_INNER; k++) {
            mini_drop(mini, s[i].values[adam_inner[k]]);
        }
    }
    for (uint32_t i = 0; i < MEMBERS && !in_turn; i++) {
        adam(mini, &s[i], 0.25f * (float)(i + 1));
    }
    kf_opt *opt = mini_finish(mini);
    if (KILN_CHECK(opt != NULL)) {
        kf_opt_info info = {.struct_size = (uint32_t)sizeof(info)};
        KILN_CHECK_INT(mini->plugin->opt_info(opt, &info), KF_OK);
        KILN_CHECK_INT(info.len, mini->n_ops);
        KILN_CHECK(mini_run(mini, opt));
        for (uint32_t i = 0; i < MEMBERS; i++) {
            check_adam(mini, &s[i], &b[i], 0.25f * (float)(i + 1));
        }
        KILN_CHECK_INT(mini->values_asked, 0);
        mini->plugin->opt_destroy(opt);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        forget(&b[i]);
    }
    mini_close(mini);
}

static void test_adam(void)
{
    run_adam(/*in_turn=*/false, /*in_place=*/false);
}

static void test_adam_in_turn(void)
{
    run_adam(/*in_turn=*/true, /*in_place=*/false);
}

static void test_adam_in_place(void)
{
    run_adam(/*in_turn=*/false, /*in_place=*/true);
}

/// A rate that is a tensor of one element, the same for all, and views that begin late.
static void test_common_and_offsets(void)
{
    mini_host *mini = mini_has_opencl() ? open_fuser(shape_of_test()) : NULL;
    static const int64_t counts[] = {1, 33, 6000}, dense[] = {1};
    if (mini == NULL) {
        return;
    }
    uint32_t rate = vector(mini, 1), p[3], g[3], step[3], next[3];
    for (uint32_t i = 0; i < 3; i++) {
        p[i] = vector(mini, counts[i]);
        g[i] = vector(mini, counts[i]);
        step[i] = mini_tensor_add(mini, KF_DTYPE_F32, 1, &counts[i]);
        next[i] = mini_tensor_add(mini, KF_DTYPE_F32, 1, &counts[i]);
        if (i > 0) { // the first begins its buffer
            mini_tensor_place(mini, g[i], dense, 3, (size_t)counts[i] + 3);
            mini->tensors[g[i]].view.facts |= KF_FACT_CONTIGUOUS | KF_FACT_FITS_I32;
            for (int64_t k = 0; k < counts[i] + 3; k++) {
                floats(mini, g[i])[k] = (float)(k % 97) * 0.25f;
            }
        }
        mini_binary(mini, KF_OP_MUL, g[i], rate, step[i]);
        mini_binary(mini, KF_OP_SUB, p[i], step[i], next[i]);
        mini_drop(mini, step[i]);
    }
    kf_opt *opt = mini_finish(mini);
    if (KILN_CHECK(opt != NULL) && KILN_CHECK(mini_run(mini, opt))) {
        for (uint32_t i = 0; i < 3; i++) {
            for (int64_t k = 0; k < counts[i]; k++) {
                float want = sgd_of(floats(mini, p[i])[k], floats(mini, g[i])[k + (i > 0 ? 3 : 0)],
                                    floats(mini, rate)[0]);
                KILN_CHECK(same(floats(mini, next[i])[k], want));
            }
        }
    }
    if (opt != NULL) {
        mini->plugin->opt_destroy(opt);
    }
    mini_close(mini);
}

// ---- answers ----

static kf_state shown(mini_host *mini, kf_builder **out_builder, uint32_t to)
{
    KILN_CHECK_INT(mini->plugin->builder_create(mini->fuser, out_builder), KF_OK);
    return mini_fuse(mini, *out_builder, 0, to);
}

/// What it offers ends where all members are equal, in drops too.
static void test_prefix(void)
{
    mini_host *mini = open_fuser(shape_of_test());
    kf_builder *builder = NULL, *clone = NULL;
    if (mini == NULL) {
        return;
    }
    member s[3] = {make_member(mini, 10), make_member(mini, 20), make_member(mini, 30)};
    for (uint32_t i = 0; i < 3; i++) {
        sgd(mini, &s[i], 0.5f); // three operations each
    }
    mini_unary(mini, KF_OP_NEG, s[0].values[1], s[0].values[2]); // one member goes on alone
    kf_state state = shown(mini, &builder, 3);
    KILN_CHECK_INT(state.ready, 0);
    state = mini_fuse(mini, builder, 3, 5);
    KILN_CHECK_INT(state.ready, 0); // the second's product is not dropped yet
    state = mini_fuse(mini, builder, 5, 6);
    KILN_CHECK(state.ready == 1 && state.len == 6 && state.status == KF_OPEN);
    KILN_CHECK_INT(mini->plugin->builder_clone(builder, &clone), KF_OK);
    state = mini_fuse(mini, builder, 6, 8);
    KILN_CHECK(state.ready == 1 && state.len == 6);
    state = mini_fuse(mini, builder, 8, 10);
    KILN_CHECK(state.ready == 1 && state.len == 9);
    KILN_CHECK_INT(state.launches, 1);
    int64_t value = 0;
    KILN_CHECK(mini_eval(mini, state.est_bytes_read, &value) && value == 60 * 2 * 4);
    KILN_CHECK(mini_eval(mini, state.est_bytes_written, &value) && value == 60 * 4);
    KILN_CHECK(mini_eval(mini, state.est_ns, &value) && value >= 5000);
    KILN_CHECK_INT(mini->plugin->builder_state(clone, &state), KF_OK);
    KILN_CHECK(state.ready == 1 && state.len == 6);
    KILN_CHECK_INT(mini->plugin->builder_reset(clone), KF_OK);
    state = mini_fuse(mini, clone, 0, 3);
    KILN_CHECK_INT(state.ready, 0);
    mini->plugin->builder_destroy(clone);
    mini->plugin->builder_destroy(builder);
    mini_close(mini);
}

typedef struct launch_size {
    uint32_t args;
    uint32_t tensors; ///< among them
    uint64_t bytes;
} launch_size;

static launch_size size_of_launch(mini_host *mini, const kf_opt *opt, uint32_t shared)
{
    launch_size size = {0};
    kf_program program = {.struct_size = (uint32_t)sizeof(program)};
    KILN_CHECK_INT(mini->plugin->opt_describe(opt, 0, &program), KF_OK);
    size.args = program.launches[0]->n_args;
    for (uint32_t i = 0; i < size.args; i++) {
        const kf_karg *arg = &program.launches[0]->args[i];
        size.tensors += arg->kind == KF_ARG_TENSOR;
        size.bytes += arg->kind == KF_ARG_TENSOR ? 8 : kf_dtype_of(arg->dtype).bytes;
        if (arg->kind == KF_ARG_TENSOR && arg->ref == shared) {
            KILN_CHECK_INT(arg->group, 0); // all read it: nobody's to write to
        } else if (arg->kind == KF_ARG_TENSOR) {
            KILN_CHECK(arg->group > 0);
        }
    }
    return size;
}

/// Steps of SGD with one gradient, on a device that takes so many bytes of arguments, until the
/// fuser is full, which it is with the last member's drops inside. Gives what the launch takes.
static launch_size fill(uint64_t param_bytes)
{
    enum { MANY = 300 };
    mini_host *mini = mini_open("foreach.so", shape_of_test());
    kf_builder *builder = NULL;
    kf_opt *opt = NULL;
    launch_size size = {0};
    const int64_t count = 16;
    if (mini == NULL) {
        return size;
    }
    mini->device.max_param_bytes = param_bytes;
    if (!mini_fuser(mini)) {
        mini_close(mini);
        return size;
    }
    uint32_t g = vector(mini, count);
    uint32_t at = 0;
    kf_state state = {0};
    KILN_CHECK_INT(mini->plugin->builder_create(mini->fuser, &builder), KF_OK);
    for (uint32_t i = 0; i < MANY && state.status == KF_OPEN; i++) {
        uint32_t p = vector(mini, count), step = vector(mini, count), next = vector(mini, count);
        mini_with_scalar(mini, KF_OP_MUL_SCALAR, g, 0.5, step);
        mini_binary(mini, KF_OP_SUB, p, step, next);
        mini_drop(mini, step);
        state = mini_fuse(mini, builder, at, mini->n_ops);
        at = mini->n_ops;
    }
    KILN_CHECK_INT(state.status, KF_CLOSED);
    KILN_CHECK_INT(state.len, mini->n_ops);
    KILN_CHECK_INT(mini->plugin->builder_finish(builder, &opt), KF_OK);
    size = size_of_launch(mini, opt, g);
    KILN_CHECK_INT(size.tensors, 1 + 2 * (mini->n_ops / 3)); // all of them
    mini->plugin->opt_destroy(opt);
    mini->plugin->builder_destroy(builder);
    mini_close(mini);
    return size;
}

static void test_full(void)
{
    launch_size promised = fill(1024), unknown = fill(0), small = fill(256);
    KILN_CHECK(promised.bytes <= 1024 && promised.bytes > 900);
    KILN_CHECK_INT(unknown.bytes, promised.bytes);
    KILN_CHECK(small.bytes <= 256 && small.bytes > 200);
}

/// A device that takes more gets larger launches, up to what the fuser itself has room for.
static void test_roomy_device(void)
{
    launch_size promised = fill(1024), some = fill(2048), nvidia = fill(4352), any = fill(1 << 30);
    KILN_CHECK(some.bytes <= 2048 && some.bytes > 1900);
    KILN_CHECK(nvidia.bytes <= 4096 && nvidia.tensors > 2 * 100);
    KILN_CHECK(nvidia.tensors > 2 * promised.tensors && nvidia.args <= 1024);
    KILN_CHECK(any.bytes > nvidia.bytes && any.args <= 3072);
}

enum { ADAM_MEMBERS = 200 };

/// How many steps of Adam a launch does on a device that takes so many bytes of arguments.
static uint32_t adam_members(uint64_t param_bytes)
{
    mini_host *mini = mini_open("foreach.so", shape_of_test());
    kf_builder *builder = NULL;
    kf_opt *opt = NULL;
    kf_state state = {0};
    if (mini == NULL) {
        return 0;
    }
    mini->device.max_param_bytes = param_bytes;
    if (!mini_fuser(mini)) {
        mini_close(mini);
        return 0;
    }
    KILN_CHECK_INT(mini->plugin->builder_create(mini->fuser, &builder), KF_OK);
    for (uint32_t i = 0, at = 0; i < ADAM_MEMBERS && state.status == KF_OPEN; i++) {
        member s = make_member(mini, 16);
        adam(mini, &s, 0.01f * (float)(i + 1));
        state = mini_fuse(mini, builder, at, mini->n_ops);
        at = mini->n_ops;
    }
    KILN_CHECK_INT(mini->plugin->builder_finish(builder, &opt), KF_OK);
    launch_size size = size_of_launch(mini, opt, UINT32_MAX);
    KILN_CHECK(size.bytes <= param_bytes);
    mini->plugin->opt_destroy(opt);
    mini->plugin->builder_destroy(builder);
    mini_close(mini);
    return size.tensors / 7;
}

/// With what newer drivers name, arguments are not what ends a launch of Adam.
static void test_large_launches(void)
{
    uint32_t few = adam_members(4352), some = adam_members(8192);
    KILN_CHECK(few > 50 && few < 64);
    KILN_CHECK(some > 100 && some < 128);
    KILN_CHECK_INT(adam_members(32764), ADAM_MEMBERS); // all that were recorded
}

/// Members that differ are no members: another operator, constant, dtype, or a longer chain.
static void test_unequal(void)
{
    mini_host *mini = open_fuser(shape_of_test());
    kf_builder *builder = NULL;
    if (mini == NULL) {
        return;
    }
    member s[2] = {make_member(mini, 10), make_member(mini, 20)};
    mini_unary(mini, KF_OP_NEG, s[0].p, s[0].values[0]);
    mini_unary(mini, KF_OP_ABS, s[1].p, s[1].values[0]);
    kf_state state = shown(mini, &builder, 2);
    KILN_CHECK(state.ready == 0 && state.status == KF_OPEN);
    mini->plugin->builder_destroy(builder);
    mini_op *first = mini_unary(mini, KF_OP_MUL_SCALAR, s[0].g, s[0].values[1]);
    mini_op *second = mini_unary(mini, KF_OP_MUL_SCALAR, s[1].g, s[1].values[1]);
    first->attrs[0] = second->attrs[0] =
        (kf_attr){.key = KF_ATTR_VALUE, .type = KF_TYPE_F64, .count = 1, .v.f = 2};
    first->view.n_attrs = second->view.n_attrs = 1;
    KILN_CHECK_INT(mini->plugin->builder_create(mini->fuser, &builder), KF_OK);
    state = mini_fuse(mini, builder, 2, 4);
    KILN_CHECK_INT(state.ready, 1); // equal constants are part of the form
    mini->plugin->builder_destroy(builder);
    second->attrs[0].v.f = 3;
    KILN_CHECK_INT(mini->plugin->builder_create(mini->fuser, &builder), KF_OK);
    state = mini_fuse(mini, builder, 2, 4);
    KILN_CHECK_INT(state.ready, 0);
    mini->plugin->builder_destroy(builder);
    mini_close(mini);
}

static void test_declines(void)
{
    mini_host *mini = open_fuser(shape_of_test());
    kf_builder *builder = NULL;
    static const int64_t matrix[] = {4, 8}, row[] = {8}, turned[] = {1, 4};
    if (mini == NULL) {
        return;
    }
    uint32_t x = mini_tensor_add(mini, KF_DTYPE_F32, 2, matrix);
    uint32_t y = mini_tensor_add(mini, KF_DTYPE_F32, 2, matrix);
    uint32_t w = mini_tensor_add(mini, KF_DTYPE_F32, 1, row);
    uint32_t t = mini_tensor_add(mini, KF_DTYPE_F32, 2, matrix);
    mini_tensor_place(mini, t, turned, 0, 32);
    mini_binary(mini, KF_OP_ADD, x, w, y);
    kf_state state = shown(mini, &builder, 1);
    KILN_CHECK_INT(state.status, KF_CLOSED);
    KILN_CHECK_INT(mini->last_code, KF_CODE_SHAPE);
    mini->plugin->builder_destroy(builder);
    mini->n_ops = 0;
    mini_unary(mini, KF_OP_NEG, t, y);
    state = shown(mini, &builder, 1);
    KILN_CHECK_INT(state.status, KF_CLOSED);
    KILN_CHECK_INT(mini->last_code, KF_CODE_LAYOUT);
    mini->plugin->builder_destroy(builder);
    mini->n_ops = 0;
    mini_unary(mini, KF_OP_NEG, x, y)->view.version = 99;
    state = shown(mini, &builder, 1);
    KILN_CHECK_INT(state.status, KF_CLOSED);
    KILN_CHECK_INT(mini->last_code, KF_CODE_NOT_UNDERSTOOD);
    mini->plugin->builder_destroy(builder);
    mini_close(mini);
}

static const uint32_t block_shape = KF_SHAPE_BLOCK, item_shape = KF_SHAPE_NDRANGE;

#define BOTH(test, name)                                                                           \
    KILN_TEST_PARAM(test, name "_block", &block_shape),                                            \
        KILN_TEST_PARAM(test, name "_items", &item_shape)

KILN_TEST_MAIN("unit/plugins/foreach", BOTH(test_adam, "adam"), BOTH(test_adam_in_turn, "turns"),
               BOTH(test_adam_in_place, "in_place"), BOTH(test_common_and_offsets, "common"),
               BOTH(test_prefix, "prefix"), BOTH(test_full, "full"),
               BOTH(test_roomy_device, "roomy"), BOTH(test_large_launches, "large"),
               BOTH(test_unequal, "unequal"), BOTH(test_declines, "declines"))
