// SPDX-License-Identifier: MIT OR Apache-2.0
// Steps of optimisers, and random chains done to many tensors, through the runtime with the shipped
// fusers on and off: equal bits, whatever the dtype, the sizes (none and one among them), the order
// of recording and the memory that results take over; and few launches, with one plan for all
// steps.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "kiln.h"
#include "kiln_ops.h"

enum { MEMBERS = 30, STEPS = 4, MAX_COUNT = 9000 };

typedef struct session {
    kiln_context *context;
    kiln_device *device;
    kiln_error err;
} session;

static bool device_open(session *b)
{
    memset(b, 0, sizeof(*b));
    if (!KILN_CHECK_INT(kiln_context_create(NULL, &b->context, &b->err), KILN_STATUS_OK)) {
        return false;
    }
    if (kiln_device_open(b->context, kiln_test_address("opencl:0"), &b->device, &b->err) !=
        KILN_STATUS_OK) {
        kiln_test_skip("no OpenCL device: %s", b->err.message);
        kiln_context_destroy(b->context);
        return false;
    }
    return true;
}

static void device_close(session *b)
{
    kiln_device_release(b->device);
    kiln_context_destroy(b->context);
}

static void check_ok(session *b, kiln_status status)
{
    if (status != KILN_STATUS_OK) {
        KILN_FAIL("%s", b->err.message);
    }
}

static kiln_tensor *make(session *b, kiln_dtype dtype, int64_t count, unsigned seed)
{
    static unsigned char bytes[MAX_COUNT * 8];
    kiln_tensor *tensor = NULL;
    size_t size = kiln_dtype_size(dtype);
    for (int64_t i = 0; i < count; i++) {
        unsigned noise = ((unsigned)i * 2654435761u + seed * 40503u) >> 16;
        kiln_attr number = {.type = KILN_ATTR_F64, .count = 1, .v.f = noise / 6553.6 - 5};
        if (kiln_dtype_kind_of(dtype) != KILN_KIND_FLOAT) {
            number.type = KILN_ATTR_I64;
            number.v.i = (int64_t)(noise % 200) - 100;
        } else if (i % 61 == 5) {
            number.v.f = i % 2 == 0 ? NAN : -INFINITY;
        }
        KILN_CHECK(kiln_number_store(&number, dtype, bytes + (size_t)i * size));
    }
    check_ok(b, kiln_tensor_create(b->device, dtype, 1, &count, bytes, &tensor, &b->err));
    return tensor;
}

/// Which of two NaNs a sum gives is nobody's promise.
static bool is_nan(kiln_dtype dtype, const unsigned char *bytes)
{
    uint16_t half = 0;
    float f = 0;
    double d = 0;
    memcpy(&half, bytes, sizeof(half));
    switch (dtype) {
    case KILN_DTYPE_F16:
        return (half & 0x7fff) > 0x7c00;
    case KILN_DTYPE_BF16:
        return (half & 0x7fff) > 0x7f80;
    case KILN_DTYPE_F32:
        memcpy(&f, bytes, sizeof(f));
        return f != f;
    case KILN_DTYPE_F64:
        memcpy(&d, bytes, sizeof(d));
        return d != d;
    default:
        return false;
    }
}

static void compare(session *b, kiln_tensor *fused, kiln_tensor *plain, const char *what)
{
    static unsigned char x[MAX_COUNT * 8], y[MAX_COUNT * 8];
    size_t bytes = kiln_tensor_bytes(plain), at = 0,
           size = kiln_dtype_size(kiln_tensor_dtype(plain));
    KILN_CHECK_INT(kiln_tensor_bytes(fused), bytes);
    check_ok(b, kiln_read(fused, x, bytes, &b->err));
    check_ok(b, kiln_read(plain, y, bytes, &b->err));
    kiln_dtype dtype = kiln_tensor_dtype(plain);
    while (at < bytes && (memcmp(x + at, y + at, size) == 0 ||
                          (is_nan(dtype, x + at) && is_nan(dtype, y + at)))) {
        at += size;
    }
    if (at < bytes) {
        KILN_FAIL("%s: element %zu of %zu differs", what, at / size, bytes / size);
    }
}

// ---- optimisers ----

typedef struct parameter {
    kiln_tensor *p, *m, *v, *g;
} parameter;

static void release_all(parameter *s)
{
    kiln_release(s->p);
    kiln_release(s->m);
    kiln_release(s->v);
    kiln_release(s->g);
}

/// Compares all members, and releases them.
static void compare_members(session *b, parameter *fused, parameter *plain)
{
    for (int i = 0; i < MEMBERS; i++) {
        compare(b, fused[i].p, plain[i].p, "parameter");
        compare(b, fused[i].m, plain[i].m, "mean");
        compare(b, fused[i].v, plain[i].v, "variance");
        release_all(&fused[i]);
        release_all(&plain[i]);
    }
}

static void replace(kiln_tensor **old, kiln_tensor *by)
{
    kiln_release(*old);
    *old = by;
}

static kiln_tensor *scaled(session *b, kiln_tensor *x, double by)
{
    kiln_tensor *out = NULL;
    kiln_dtype dtype = kiln_tensor_dtype(x);
    bool is_float = kiln_dtype_kind_of(dtype) == KILN_KIND_FLOAT;
    check_ok(b, kiln_mul_scalar(x, is_float ? kiln_f64(by) : kiln_i64((int64_t)(by * 8)), &out,
                                &b->err));
    return out;
}

/// `a` op `b`, and both, or one, are no longer needed.
static kiln_tensor *
joined(session *b, kiln_status (*op)(kiln_tensor *, kiln_tensor *, kiln_tensor **, kiln_error *),
       kiln_tensor *a, bool drop_a, kiln_tensor *c, bool drop_c)
{
    kiln_tensor *out = NULL;
    check_ok(b, op(a, c, &out, &b->err));
    if (drop_a) {
        kiln_release(a);
    }
    if (drop_c) {
        kiln_release(c);
    }
    return out;
}

static void step_sgd(session *b, parameter *s, double rate)
{
    replace(&s->p, joined(b, kiln_sub, s->p, false, scaled(b, s->g, rate), true));
}

/// Momentum with Nesterov's look ahead and weight decay.
static void step_momentum(session *b, parameter *s, double rate)
{
    kiln_tensor *g = joined(b, kiln_add, s->g, false, scaled(b, s->p, 0.25), true);
    replace(&s->m, joined(b, kiln_add, scaled(b, s->m, 0.875), true, g, false));
    kiln_tensor *ahead = joined(b, kiln_add, g, true, scaled(b, s->m, 0.875), true);
    kiln_tensor *step = scaled(b, ahead, rate);
    kiln_release(ahead);
    replace(&s->p, joined(b, kiln_sub, s->p, false, step, true));
}

/// AdamW; `rate` has the corrections of the step in it.
static void step_adam(session *b, parameter *s, double rate)
{
    kiln_tensor *root = NULL, *more = NULL;
    replace(&s->m, joined(b, kiln_add, scaled(b, s->m, 0.9), true, scaled(b, s->g, 0.1), true));
    kiln_tensor *square = joined(b, kiln_mul, s->g, false, s->g, false);
    kiln_tensor *part = scaled(b, square, 0.001);
    kiln_release(square);
    replace(&s->v, joined(b, kiln_add, scaled(b, s->v, 0.999), true, part, true));
    check_ok(b, kiln_sqrt(s->v, &root, &b->err));
    check_ok(b, kiln_add_scalar(root, kiln_f64(1e-3), &more, &b->err));
    kiln_release(root);
    kiln_tensor *ratio = joined(b, kiln_div, s->m, false, more, true);
    kiln_tensor *step = scaled(b, ratio, rate);
    kiln_release(ratio);
    replace(&s->p, joined(b, kiln_sub, scaled(b, s->p, 0.99), true, step, true));
}

typedef struct optimiser {
    kiln_dtype dtype;
    void (*step)(session *b, parameter *s, double rate);
    uint32_t most_blocks; ///< of a step
} optimiser;

static int64_t count_of(int member)
{
    static const int64_t counts[] = {300, 1, 4096, 17, 8192, 5000, 64, 300, 0, 1024};
    return counts[member % 10];
}

static void run_steps(session *b, const optimiser *o, bool fused, parameter *s)
{
    kiln_device_stats before = KILN_DEVICE_STATS_INIT, after = KILN_DEVICE_STATS_INIT;
    check_ok(b, kiln_device_set_fusion(b->device, fused, &b->err));
    for (int i = 0; i < MEMBERS; i++) {
        unsigned seed = (unsigned)i * 4;
        s[i] = (parameter){
            make(b, o->dtype, count_of(i), seed), make(b, o->dtype, count_of(i), seed + 1),
            make(b, o->dtype, count_of(i), seed + 2), make(b, o->dtype, count_of(i), seed + 3)};
    }
    for (int step = 0; step < STEPS; step++) {
        check_ok(b, kiln_sync(b->device, &b->err));
        kiln_device_stats_get(b->device, &before);
        for (int i = 0; i < MEMBERS; i++) {
            o->step(b, &s[i], 0.5 / (step + 1) + 0.01 * i);
        }
        check_ok(b, kiln_sync(b->device, &b->err));
        kiln_device_stats_get(b->device, &after);
        if (fused && step > 0) { // numbers differ from step to step, the plan does not
            KILN_CHECK_INT(after.plans_searched, before.plans_searched);
            uint64_t blocks = after.blocks_fused - before.blocks_fused;
            if (blocks > o->most_blocks) {
                KILN_FAIL("%u blocks, at most %u", (unsigned)blocks, o->most_blocks);
            }
        }
    }
}

static void test_optimiser(void)
{
    const optimiser *o = kiln_test_param();
    static parameter fused[MEMBERS], plain[MEMBERS];
    session b;
    if (!device_open(&b)) {
        return;
    }
    run_steps(&b, o, true, fused);
    run_steps(&b, o, false, plain);
    compare_members(&b, fused, plain);
    device_close(&b);
}

/// The step of all members, captured: parameters and moments are carried.
static kiln_graph *capture_step(session *b, const parameter *s)
{
    static kiln_tensor *inputs[4 * MEMBERS];
    kiln_graph *graph = NULL;
    for (int i = 0; i < MEMBERS; i++) {
        kiln_tensor *const own[] = {s[i].p, s[i].m, s[i].v, s[i].g};
        memcpy((void *)&inputs[4 * i], (const void *)own, sizeof(own));
    }
    check_ok(b, kiln_graph_begin(b->device, inputs, 4 * MEMBERS, &b->err));
    for (int i = 0; i < MEMBERS; i++) {
        parameter next = {kiln_retain(s[i].p), kiln_retain(s[i].m), kiln_retain(s[i].v), s[i].g};
        step_adam(b, &next, 0.25 + 0.01 * i);
        check_ok(b, kiln_graph_carry(b->device, s[i].p, next.p, &b->err));
        check_ok(b, kiln_graph_carry(b->device, s[i].m, next.m, &b->err));
        check_ok(b, kiln_graph_carry(b->device, s[i].v, next.v, &b->err));
        kiln_release(next.p);
        kiln_release(next.m);
        kiln_release(next.v);
    }
    check_ok(b, kiln_graph_end(b->device, NULL, 0, &graph, &b->err));
    return graph;
}

static void make_parameters(session *b, parameter *s)
{
    for (int i = 0; i < MEMBERS; i++) {
        unsigned seed = (unsigned)i * 4;
        s[i] = (parameter){make(b, KILN_DTYPE_F32, count_of(i), seed),
                           make(b, KILN_DTYPE_F32, count_of(i), seed + 1),
                           make(b, KILN_DTYPE_F32, count_of(i), seed + 2),
                           make(b, KILN_DTYPE_F32, count_of(i), seed + 3)};
    }
}

/// A captured step, run in place, against the unfused operations; new results would take three
/// times the parameters' bytes.
static void test_captured(void)
{
    static parameter fused[MEMBERS], plain[MEMBERS];
    kiln_device_stats before = KILN_DEVICE_STATS_INIT, after = KILN_DEVICE_STATS_INIT;
    session b;
    if (!device_open(&b)) {
        return;
    }
    make_parameters(&b, fused);
    make_parameters(&b, plain);
    kiln_graph *graph = capture_step(&b, fused);
    check_ok(&b, kiln_device_set_fusion(b.device, false, &b.err));
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < MEMBERS; i++) {
            step_adam(&b, &plain[i], 0.25 + 0.01 * i);
        }
    }
    check_ok(&b, kiln_sync(b.device, &b.err));
    kiln_device_reset_peaks(b.device);
    kiln_device_stats_get(b.device, &before);
    for (int step = 0; step < STEPS; step++) {
        check_ok(&b,
                 kiln_graph_advance(graph, (kiln_tensor **)fused, 4 * MEMBERS, NULL, 0, &b.err));
    }
    kiln_device_stats_get(b.device, &after);
    KILN_CHECK(after.blocks_fused > before.blocks_fused);
    KILN_CHECK_INT(after.bytes_live, before.bytes_live);
    uint64_t bytes = 0;
    for (int i = 0; i < MEMBERS; i++) {
        bytes += kiln_tensor_bytes(plain[i].p);
    }
    KILN_CHECK(after.backend.bytes_peak - before.backend.bytes_used < bytes);
    compare_members(&b, fused, plain);
    kiln_graph_destroy(graph);
    device_close(&b);
}

// ---- random programs ----

enum { PROGRAMS = 24, MAX_MEMBERS = 14, MAX_OPS = 7, FORM_INPUTS = 3 };

typedef struct random_op {
    int kind;
    int a, b; ///< values: inputs, then results
    bool kept;
} random_op;

typedef struct random_program {
    int n_ops, n_members;
    bool in_turn, shares, drops_inputs;
    kiln_dtype dtype;
    int64_t counts[MAX_MEMBERS];
    random_op ops[MAX_OPS];
} random_program;

static unsigned next_random(unsigned *state, unsigned limit)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % limit;
}

static random_program draw(unsigned seed)
{
    static const kiln_dtype dtypes[] = {KILN_DTYPE_F32, KILN_DTYPE_F16, KILN_DTYPE_I32,
                                        KILN_DTYPE_F32};
    static const int64_t counts[] = {1, 5, 16, 100, 4096, 4097, 0, 8200};
    unsigned state = seed * 7919u + 1;
    random_program p = {.n_ops = 1 + (int)next_random(&state, MAX_OPS),
                        .n_members = 2 + (int)next_random(&state, MAX_MEMBERS - 1),
                        .in_turn = next_random(&state, 2) == 1,
                        .shares = next_random(&state, 3) == 0,
                        .drops_inputs = next_random(&state, 2) == 1,
                        .dtype = dtypes[next_random(&state, 4)]};
    bool one_size = next_random(&state, 3) == 0;
    for (int i = 0; i < p.n_members; i++) {
        p.counts[i] = one_size && i > 0 ? p.counts[0] : counts[next_random(&state, 8)];
    }
    for (int k = 0; k < p.n_ops; k++) {
        unsigned values = FORM_INPUTS + (unsigned)k;
        p.ops[k] = (random_op){(int)next_random(&state, 6), (int)next_random(&state, values),
                               (int)next_random(&state, values),
                               k == p.n_ops - 1 || next_random(&state, 4) == 0};
    }
    return p;
}

static kiln_tensor *record(session *b, const random_op *op, kiln_tensor *x, kiln_tensor *y,
                           double number)
{
    kiln_tensor *out = NULL;
    kiln_status status = KILN_STATUS_OK;
    switch (op->kind) {
    case 0:
        status = kiln_add(x, y, &out, &b->err);
        break;
    case 1:
        status = kiln_mul(x, y, &out, &b->err);
        break;
    case 2:
        status = kiln_maximum(x, y, &out, &b->err);
        break;
    case 3:
        status = kiln_neg(x, &out, &b->err);
        break;
    case 4:
        status = kiln_sub(x, y, &out, &b->err);
        break;
    default:
        return scaled(b, x, number);
    }
    check_ok(b, status);
    return out;
}

typedef kiln_tensor *member_values[FORM_INPUTS + MAX_OPS];

static void run_random(session *b, const random_program *p, bool fused,
                       member_values v[MAX_MEMBERS])
{
    check_ok(b, kiln_device_set_fusion(b->device, fused, &b->err));
    for (int m = 0; m < p->n_members; m++) {
        for (int i = 0; i < FORM_INPUTS; i++) {
            bool same = p->shares && m > 0 && p->counts[m] == p->counts[0] && i == 0;
            v[m][i] = same ? kiln_retain(v[0][0])
                           : make(b, p->dtype, p->counts[m], (unsigned)(m * FORM_INPUTS + i));
        }
    }
    check_ok(b, kiln_sync(b->device, &b->err));
    int outer = p->in_turn ? p->n_ops : p->n_members;
    int inner = p->in_turn ? p->n_members : p->n_ops;
    for (int o = 0; o < outer; o++) {
        for (int i = 0; i < inner; i++) {
            int k = p->in_turn ? o : i, m = p->in_turn ? i : o;
            v[m][FORM_INPUTS + k] =
                record(b, &p->ops[k], v[m][p->ops[k].a], v[m][p->ops[k].b], 0.5 + m);
        }
    }
    for (int m = 0; m < p->n_members; m++) {
        for (int k = 0; k < FORM_INPUTS + p->n_ops; k++) {
            bool goes = k < FORM_INPUTS ? p->drops_inputs : !p->ops[k - FORM_INPUTS].kept;
            if (goes) {
                kiln_release(v[m][k]);
                v[m][k] = NULL;
            }
        }
    }
    check_ok(b, kiln_sync(b->device, &b->err));
}

static void test_random(void)
{
    session b;
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    if (!device_open(&b)) {
        return;
    }
    for (unsigned seed = 0; seed < PROGRAMS; seed++) {
        random_program p = draw(seed);
        member_values fused[MAX_MEMBERS] = {{NULL}}, plain[MAX_MEMBERS] = {{NULL}};
        char what[48];
        snprintf(what, sizeof(what), "program %u", seed);
        run_random(&b, &p, true, fused);
        run_random(&b, &p, false, plain);
        for (int m = 0; m < p.n_members; m++) {
            for (int k = 0; k < FORM_INPUTS + p.n_ops; k++) {
                if (fused[m][k] != NULL) {
                    compare(&b, fused[m][k], plain[m][k], what);
                }
                kiln_release(fused[m][k]);
                kiln_release(plain[m][k]);
            }
        }
    }
    kiln_device_stats_get(b.device, &stats);
    KILN_CHECK(stats.ops_fused > 500);
    device_close(&b);
}

/// Views with gaps are done, be it alone.
static void test_strides(void)
{
    enum { ROWS = 8, COLUMNS = 12 };
    static const int64_t dims[] = {ROWS, COLUMNS}, swap[] = {1, 0};
    float host[ROWS * COLUMNS], got[ROWS * COLUMNS];
    session b;
    if (!device_open(&b)) {
        return;
    }
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        host[i] = (float)i;
    }
    kiln_tensor *out[4] = {NULL};
    for (int i = 0; i < 4; i++) {
        kiln_tensor *x = NULL, *t = NULL;
        check_ok(&b, kiln_tensor_create(b.device, KILN_DTYPE_F32, 2, dims, host, &x, &b.err));
        check_ok(&b, kiln_sync(b.device, &b.err));
        check_ok(&b, kiln_permute(x, swap, 2, &t, &b.err));
        out[i] = scaled(&b, t, 2);
        kiln_release(x);
        kiln_release(t);
    }
    for (int i = 0; i < 4; i++) {
        check_ok(&b, kiln_read(out[i], got, sizeof(got), &b.err));
        for (int k = 0; k < ROWS * COLUMNS; k++) {
            KILN_CHECK(got[k] == 2 * host[k % ROWS * COLUMNS + k / ROWS]);
        }
        kiln_release(out[i]);
    }
    device_close(&b);
}

static const optimiser sgd = {KILN_DTYPE_F32, step_sgd, 2};
static const optimiser momentum = {KILN_DTYPE_F32, step_momentum, 4};
static const optimiser adam = {KILN_DTYPE_F32, step_adam, 4};
static const optimiser adam_f16 = {KILN_DTYPE_F16, step_adam, 4};
static const optimiser adam_bf16 = {KILN_DTYPE_BF16, step_adam, 4};
static const optimiser adam_f64 = {KILN_DTYPE_F64, step_adam, 6};
static const optimiser sgd_i32 = {KILN_DTYPE_I32, step_sgd, 2};
static const optimiser momentum_i64 = {KILN_DTYPE_I64, step_momentum, 4};

KILN_TEST_MAIN("unit/plugins/fused_steps", KILN_TEST_PARAM(test_optimiser, "sgd", &sgd),
               KILN_TEST_PARAM(test_optimiser, "momentum", &momentum),
               KILN_TEST_PARAM(test_optimiser, "adam", &adam),
               KILN_TEST_PARAM(test_optimiser, "adam_f16", &adam_f16),
               KILN_TEST_PARAM(test_optimiser, "adam_bf16", &adam_bf16),
               KILN_TEST_PARAM(test_optimiser, "adam_f64", &adam_f64),
               KILN_TEST_PARAM(test_optimiser, "sgd_i32", &sgd_i32),
               KILN_TEST_PARAM(test_optimiser, "momentum_i64", &momentum_i64),
               KILN_TEST(test_captured), KILN_TEST(test_random), KILN_TEST(test_strides))
