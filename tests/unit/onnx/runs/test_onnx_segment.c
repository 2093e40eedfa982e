// SPDX-License-Identifier: MIT OR Apache-2.0
// Segments on the reference device: what lies between two reads is recorded at first, captured when
// it is met again, and replayed then; the numbers are right all along, whatever changes between the
// runs. Every case of ONNX and of our own goes the same way with `kiln check-onnx --again`.
#include "faults.h"
#include "harness.h"
#include "onnx.h"
#include "proto_writer.h"

#include <math.h>
#include <string.h>

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

enum { MOST = 8 };

typedef struct fixture {
    kiln_context *context;
    kiln_device *device;
    kiln_onnx_model *model;
    kiln_onnx_session *session;
    kiln_error err;
} fixture;

static bool open_fixture(fixture *f, const kiln_env *env, const pw *bytes)
{
    *f = (fixture){.err = KILN_ERROR_INIT};
    return KILN_CHECK(kiln_context_create(NULL, &f->context, &f->err) == KILN_STATUS_OK) &&
           KILN_CHECK(kiln_device_open(f->context, "reference:0", &f->device, &f->err) ==
                      KILN_STATUS_OK) &&
           kiln_onnx_model_open_memory(env != NULL ? env : kiln_context_env(f->context),
                                       bytes->bytes, bytes->length, NULL, &f->model,
                                       &f->err) == KILN_STATUS_OK &&
           kiln_onnx_session_create(f->model, f->device, &f->session, &f->err) == KILN_STATUS_OK;
}

static void close_fixture(fixture *f)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_onnx_session_destroy(f->session);
    kiln_onnx_model_close(f->model);
    KILN_CHECK(kiln_sync(f->device, &f->err) == KILN_STATUS_OK);
    kiln_device_stats_get(f->device, &stats);
    KILN_CHECK_INT((int64_t)stats.tensors_live, 0);
    kiln_device_release(f->device);
    kiln_context_destroy(f->context);
}

static uint64_t recorded(const fixture *f)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f->device, &stats);
    return stats.ops_recorded;
}

static void add_node(pw *graph, const char *op, const char *const *inputs, const char *output)
{
    pw node = pw_node(op, inputs, NAMES(output));
    pw_message(graph, 1, &node);
}

static void add_flat(pw *graph, const char *op, const char *const *inputs, const char *output)
{
    pw node = pw_node(op, inputs, NAMES(output));
    pw_attr_int(&node, "keepdims", 0);
    pw_message(graph, 1, &node);
}

static void add_untyped(pw *graph, uint32_t field, const char *name)
{
    pw info = {0};
    pw_text(&info, 1, name);
    pw_message(graph, field, &info);
}

static void add_typed(pw *graph, const char *name, int32_t type)
{
    pw shapeless = {0};
    pw tensor = {0};
    pw kind = {0};
    pw_int(&kind, 1, type);
    pw_message(&tensor, 1, &kind);
    pw_text(&shapeless, 1, name);
    pw_message(&shapeless, 2, &tensor);
    pw_message(graph, 11, &shapeless);
}

/* Runs on x, and on s where the model has it; `host` gives s's contents besides. Reads z. */
typedef struct run {
    const float *x;
    int64_t length;
    const int64_t *s;
    bool host;
    float z[MOST];
    size_t count;
} run;

static kiln_status go(fixture *f, run *r)
{
    const int64_t two[] = {2};
    kiln_onnx_input inputs[] = {{.name = "x"}, {.name = "s"}};
    kiln_tensor *z = NULL;
    kiln_status status = kiln_tensor_create(f->device, KILN_DTYPE_F32, 1, &r->length, r->x,
                                            &inputs[0].tensor, &f->err);
    if (status == KILN_STATUS_OK && r->s != NULL) {
        inputs[1].host = r->host ? r->s : NULL;
        status =
            kiln_tensor_create(f->device, KILN_DTYPE_I64, 1, two, r->s, &inputs[1].tensor, &f->err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_session_run(f->session, inputs, r->s != NULL ? 2 : 1, &z, 1, &f->err);
    }
    if (status == KILN_STATUS_OK) {
        r->count = kiln_tensor_bytes(z) / sizeof(float);
        status = KILN_CHECK(r->count <= MOST)
                     ? kiln_read(z, r->z, r->count * sizeof(float), &f->err)
                     : KILN_STATUS_INTERNAL;
    }
    kiln_release(z);
    kiln_release(inputs[0].tensor);
    kiln_release(inputs[1].tensor);
    return status;
}

static void expect(fixture *f, run *r, const double *wanted, size_t count)
{
    f->err = (kiln_error)KILN_ERROR_INIT;
    kiln_status status = go(f, r);
    KILN_CHECK_STR(status == KILN_STATUS_OK ? "" : f->err.message, "");
    KILN_CHECK_INT((int64_t)r->count, (int64_t)count);
    for (size_t i = 0; status == KILN_STATUS_OK && i < count && i < r->count; i++) {
        KILN_CHECK_NEAR((double)r->z[i], wanted[i], 1e-4);
    }
}

// ---- a count that the device knows ----

/* Twice the positive ones, picked by NonZero, squared and summed. */
static pw picking_model(void)
{
    pw graph = {0};
    add_typed(&graph, "x", 1);
    add_node(&graph, "Abs", NAMES("x"), "a");
    add_node(&graph, "Add", NAMES("a", "x"), "b");
    add_node(&graph, "NonZero", NAMES("b"), "nz");
    add_node(&graph, "Transpose", NAMES("nz"), "t");
    add_node(&graph, "GatherND", NAMES("b", "t"), "g");
    add_node(&graph, "Mul", NAMES("g", "g"), "e");
    add_flat(&graph, "ReduceSum", NAMES("e"), "z");
    add_untyped(&graph, 12, "z");
    return pw_model(&graph, 13);
}

/* Numbers of which `positive` are above 0, other ones in each round, and what the model gives. */
static double pick(float *x, int64_t length, int positive, int round)
{
    double sum = 0;
    for (int64_t i = 0; i < length; i++) {
        int turned = (int)((i + round) % length);
        x[i] = (turned < positive ? 1.0f : -1.0f) * (float)(1 + (i * 7 + round) % 5);
        sum += x[i] > 0 ? 4.0 * (double)x[i] * (double)x[i] : 0;
    }
    return sum;
}

static void test_replayed_between_reads(void)
{
    fixture f;
    float x[6];
    uint64_t deltas[10] = {0};
    pw bytes = picking_model();
    if (KILN_CHECK(open_fixture(&f, NULL, &bytes))) {
        for (int round = 0; round < 10; round++) {
            const double wanted = pick(x, 6, 3, round);
            uint64_t before = recorded(&f);
            expect(&f, &(run){.x = x, .length = 6}, &wanted, 1);
            deltas[round] = recorded(&f) - before;
        }
        /* In the end the importer records what finds the count, and nothing else. */
        KILN_CHECK(deltas[0] > 4);
        KILN_CHECK(deltas[9] + 4 <= deltas[0]);
        KILN_CHECK_INT((int64_t)deltas[9], (int64_t)deltas[8]);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

static void test_other_counts_and_lengths(void)
{
    fixture f;
    float x[MOST];
    pw bytes = picking_model();
    if (KILN_CHECK(open_fixture(&f, NULL, &bytes))) {
        for (int round = 0; round < 40; round++) {
            int64_t length = round % 3 == 0 ? 4 : 7;
            const double wanted = pick(x, length, round / 2 % 4, round);
            expect(&f, &(run){.x = x, .length = length}, &wanted, 1);
        }
    }
    close_fixture(&f);
    pw_free(&bytes);
}

// ---- numbers that decide about shapes ----

/* x as [s0, s1], its rows' largest, plus the sum of all places of NonZero. */
static pw shaping_model(bool reads)
{
    pw graph = {0};
    add_typed(&graph, "x", 1);
    add_typed(&graph, "s", 7);
    add_node(&graph, "Reshape", NAMES("x", "s"), "r");
    add_node(&graph, "Neg", NAMES("r"), "n");
    const int64_t last[] = {1};
    pw node = pw_node("ReduceMax", NAMES("n"), NAMES("m"));
    pw_attr_ints(&node, "axes", last, 1);
    pw_attr_int(&node, "keepdims", 0);
    pw_message(&graph, 1, &node);
    if (reads) {
        add_node(&graph, "NonZero", NAMES("n"), "nz");
        pw cast = pw_node("Cast", NAMES("nz"), NAMES("c"));
        pw_attr_int(&cast, "to", 1);
        pw_message(&graph, 1, &cast);
        add_flat(&graph, "ReduceSum", NAMES("c"), "q");
    } else {
        add_flat(&graph, "ReduceSum", NAMES("n"), "q");
    }
    add_node(&graph, "Add", NAMES("m", "q"), "z");
    add_untyped(&graph, 12, "z");
    return pw_model(&graph, 13);
}

static void shaped(const float *x, const int64_t *s, bool reads, double *wanted)
{
    double sum = 0;
    for (int64_t i = 0; i < s[0]; i++) {
        wanted[i] = -HUGE_VAL;
        for (int64_t k = 0; k < s[1]; k++) {
            wanted[i] = fmax(wanted[i], -(double)x[i * s[1] + k]);
            sum += reads ? (double)(i + k) : -(double)x[i * s[1] + k];
        }
    }
    for (int64_t i = 0; i < s[0]; i++) {
        wanted[i] += sum;
    }
}

static void check_shapes(bool reads, bool host)
{
    static const int64_t shapes[][2] = {{2, 3}, {3, 2}, {1, 6}, {6, 1}};
    fixture f;
    float x[6];
    double wanted[MOST];
    pw bytes = shaping_model(reads);
    if (KILN_CHECK(open_fixture(&f, NULL, &bytes))) {
        for (int round = 0; round < 24; round++) {
            const int64_t *s = shapes[round < 8 ? 0 : round % 4];
            (void)pick(x, 6, 4, round);
            shaped(x, s, reads, wanted);
            expect(&f, &(run){.x = x, .length = 6, .s = s, .host = host}, wanted, (size_t)s[0]);
        }
    }
    close_fixture(&f);
    pw_free(&bytes);
}

static void test_shapes_from_contents(void)
{
    check_shapes(/*reads=*/true, /*host=*/true);
    check_shapes(/*reads=*/true, /*host=*/false);
    check_shapes(/*reads=*/false, /*host=*/false);
}

/* A caller's capture takes the nodes themselves, also when the session replays segments by then. */
static void test_inside_a_capture(void)
{
    static const int64_t s[] = {2, 3};
    const int64_t six[] = {6};
    const int64_t two[] = {2};
    fixture f;
    float x[6];
    double wanted[MOST];
    float z[2] = {0};
    kiln_onnx_input inputs[] = {{.name = "x"}, {.name = "s", .host = s}};
    kiln_tensor *out = NULL;
    kiln_graph *graph = NULL;
    pw bytes = shaping_model(false);
    if (KILN_CHECK(open_fixture(&f, NULL, &bytes))) {
        for (int round = 0; round < 5; round++) {
            (void)pick(x, 6, 4, round);
            shaped(x, s, false, wanted);
            expect(&f, &(run){.x = x, .length = 6, .s = s}, wanted, 2);
        }
        KILN_CHECK(kiln_tensor_create(f.device, KILN_DTYPE_F32, 1, six, x, &inputs[0].tensor,
                                      &f.err) == KILN_STATUS_OK);
        KILN_CHECK(kiln_tensor_create(f.device, KILN_DTYPE_I64, 1, two, s, &inputs[1].tensor,
                                      &f.err) == KILN_STATUS_OK);
        KILN_CHECK(kiln_graph_begin(f.device, &inputs[0].tensor, 1, &f.err) == KILN_STATUS_OK);
        kiln_status status = kiln_onnx_session_run(f.session, inputs, 2, &out, 1, &f.err);
        KILN_CHECK_STR(status == KILN_STATUS_OK ? "" : f.err.message, "");
        KILN_CHECK(kiln_graph_end(f.device, &out, 1, &graph, &f.err) == KILN_STATUS_OK);
        kiln_release(out);
        out = NULL;
        KILN_CHECK(kiln_graph_run(graph, &inputs[0].tensor, 1, &out, 1, &f.err) == KILN_STATUS_OK);
        KILN_CHECK(kiln_read(out, z, sizeof(z), &f.err) == KILN_STATUS_OK);
        KILN_CHECK_NEAR((double)z[0], wanted[0], 1e-4);
        KILN_CHECK_NEAR((double)z[1], wanted[1], 1e-4);
        kiln_release(out);
        kiln_release(inputs[0].tensor);
        kiln_release(inputs[1].tensor);
        kiln_graph_destroy(graph);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

// ---- loops ----

/* Doubles x until its sum reaches 100; with `counts` the number of the round is added. */
static pw doubling_model(bool counts)
{
    static const float bound = 100;
    const uint8_t yes = 1;
    pw body = {0};
    add_untyped(&body, 11, "i");
    add_untyped(&body, 11, "c");
    add_untyped(&body, 11, "v");
    add_node(&body, "Add", NAMES("v", "v"), "d");
    if (counts) {
        add_node(&body, "CastLike", NAMES("i", "v"), "fi");
        add_node(&body, "Add", NAMES("d", "fi"), "w");
    } else {
        add_node(&body, "Abs", NAMES("d"), "w");
    }
    add_flat(&body, "ReduceSum", NAMES("w"), "t");
    add_node(&body, "Less", NAMES("t", "bound"), "c2");
    add_untyped(&body, 12, "c2");
    add_untyped(&body, 12, "w");
    pw attr = {0};
    pw_text(&attr, 1, "body");
    pw_int(&attr, 20, 5);
    pw_message(&attr, 6, &body);
    pw loop = pw_node("Loop", NAMES("", "go", "x"), NAMES("z"));
    pw_message(&loop, 5, &attr);
    pw graph = {0};
    add_typed(&graph, "x", 1);
    pw limit = pw_tensor("bound", 1, NULL, 0, &bound, sizeof(bound));
    pw go_on = pw_tensor("go", 9, NULL, 0, &yes, 1);
    pw_message(&graph, 5, &limit);
    pw_message(&graph, 5, &go_on);
    pw_message(&graph, 1, &loop);
    add_untyped(&graph, 12, "z");
    return pw_model(&graph, 16);
}

static void doubled(const float *x, size_t count, bool counts, double *wanted)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        wanted[i] = (double)x[i];
    }
    for (int round = 0; sum < 100; round++) {
        sum = 0;
        for (size_t i = 0; i < count; i++) {
            wanted[i] = 2 * wanted[i] + (counts ? round : 0);
            sum += wanted[i];
        }
    }
}

static void check_loop(bool counts)
{
    fixture f;
    float x[2];
    double wanted[2];
    pw bytes = doubling_model(counts);
    if (KILN_CHECK(open_fixture(&f, NULL, &bytes))) {
        uint64_t first = 0;
        uint64_t last = 0;
        for (int round = 0; round < 8; round++) {
            x[0] = 1 + (float)(round % 3);
            x[1] = 2;
            doubled(x, 2, counts, wanted);
            uint64_t before = recorded(&f);
            expect(&f, &(run){.x = x, .length = 2}, wanted, 2);
            last = recorded(&f) - before;
            first = round == 0 ? last : first;
        }
        /* A body that takes the number of its round is another one each time. */
        KILN_CHECK(counts ? last > 0 : last < first / 2);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

static void test_rounds_of_a_loop(void)
{
    check_loop(/*counts=*/false);
    check_loop(/*counts=*/true);
}

// ---- without memory ----

/* An allocation that fails says so, or costs no more than the replay. */
static void test_each_allocation_fails(void)
{
    kiln_faults faults;
    pw bytes = picking_model();
    kiln_faults_init(&faults);
    const kiln_env env = {.allocator = faults.allocator};
    for (size_t k = 1; kiln_faults_next(&faults, k); k++) {
        fixture f;
        kiln_status status = open_fixture(&f, &env, &bytes) ? KILN_STATUS_OK : f.err.code;
        for (int round = 0; status == KILN_STATUS_OK && round < 6; round++) {
            float x[6];
            const double wanted = pick(x, 6, 3, round);
            run r = {.x = x, .length = 6};
            status = go(&f, &r);
            if (status == KILN_STATUS_OK) {
                KILN_CHECK_NEAR((double)r.z[0], wanted, 1e-4);
            }
        }
        KILN_CHECK(status == KILN_STATUS_OK || status == KILN_STATUS_RESOURCE_EXHAUSTED);
        close_fixture(&f);
    }
    pw_free(&bytes);
}

KILN_TEST_MAIN("unit/onnx/test_onnx_segment", KILN_TEST(test_replayed_between_reads),
               KILN_TEST(test_other_counts_and_lengths), KILN_TEST(test_shapes_from_contents),
               KILN_TEST(test_inside_a_capture), KILN_TEST(test_rounds_of_a_loop),
               KILN_TEST(test_each_allocation_fails))
