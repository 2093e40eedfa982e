// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory of whole plans: what a run holds beside what liveness alone needs, on a transformer block
// and on random programs, fused and not; that a repeated run asks the pool for its results only;
// that sharing memory changes no value, whatever else runs meanwhile; budgets and what happens at
// their end.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory_bound.h"
#include "rt_layout.h"
#include "runtime_fixture.h"
#include "transformer.h"

enum { MAX_VALUES = 64 };

/// Calls that must succeed, with what they make let go of when the next one has it.
typedef struct builder {
    fixture *f;
    kiln_tensor *owned[256];
    size_t n_owned;
} builder;

static kiln_tensor *own(builder *b, kiln_tensor *tensor)
{
    b->owned[b->n_owned++] = tensor;
    return tensor;
}

static void drop(builder *b, kiln_tensor *tensor)
{
    for (size_t i = 0; i < b->n_owned; i++) {
        if (b->owned[i] == tensor) {
            b->owned[i] = b->owned[--b->n_owned];
            kiln_release(tensor);
            return;
        }
    }
}

static void drop_all(builder *b)
{
    while (b->n_owned > 0) {
        kiln_release(b->owned[--b->n_owned]);
    }
}

#define MAKE(b, name, call)                                                                        \
    kiln_tensor *name = NULL;                                                                      \
    {                                                                                              \
        kiln_tensor **out = &(name);                                                               \
        FIXTURE_OK((b)->f, call);                                                                  \
        own((b), name);                                                                            \
    }
#define ERR &b->f->err

static kiln_tensor *weight(fixture *f, uint64_t seed, size_t rank, const int64_t *dims, float scale)
{
    size_t count = 1;
    for (size_t i = 0; i < rank; i++) {
        count *= (size_t)dims[i];
    }
    float *data = malloc(count * sizeof(*data));
    for (size_t i = 0; data != NULL && i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        data[i] = ((float)(seed >> 40) / 16777216.0f - 0.5f) * scale;
    }
    kiln_tensor *tensor = fixture_f32(f, rank, dims, data);
    free(data);
    return tensor;
}

// ---- a transformer block ----

enum { PARTS = TRANSFORMER_PARTS };

static void make_parts(fixture *f, kiln_tensor *parts[PARTS])
{
    FIXTURE_OK(f, transformer_make(f->device, parts, &f->err));
}

static kiln_graph *capture_transformer(fixture *f, kiln_tensor *const *parts)
{
    kiln_graph *graph = NULL;
    kiln_tensor *result = NULL;
    FIXTURE_OK(f, kiln_graph_begin(f->device, parts, PARTS, &f->err));
    FIXTURE_OK(f, transformer_record(parts, &result, &f->err));
    FIXTURE_OK(f, kiln_graph_end(f->device, &result, 1, &graph, &f->err));
    kiln_release(result);
    return graph;
}

/// At most a tenth above what liveness needs.
static void check_peak(const kiln_graph *graph, const char *name, uint64_t peak, uint64_t bound)
{
    double ratio = bound > 0 ? (double)peak / (double)bound : 1;
    printf("%-28s peak %8llu bound %8llu ratio %.3f\n", name, (unsigned long long)peak,
           (unsigned long long)bound, ratio);
    if (!kiln_test_check(peak <= bound + bound / 10, __FILE__, __LINE__, name)) {
        memory_print(graph);
    }
}

static void transformer_on(const char *address, bool fusion)
{
    fixture f;
    char name[64];
    kiln_tensor *parts[PARTS] = {NULL};
    if (!fixture_open(&f, address)) {
        return;
    }
    FIXTURE_OK(&f, kiln_device_set_fusion(f.device, fusion, &f.err));
    make_parts(&f, parts);
    kiln_graph *graph = capture_transformer(&f, parts);
    snprintf(name, sizeof(name), "%s %s first run", address, fusion ? "fused" : "unfused");
    uint64_t first = memory_of_run(f.device, graph, parts, PARTS, 1, 0);
    uint64_t bound = memory_bound(graph);
    printf("%-28s peak %8llu\n", name, (unsigned long long)first);
    snprintf(name, sizeof(name), "%s %s", address, fusion ? "fused" : "unfused");
    check_peak(graph, name, memory_of_run(f.device, graph, parts, PARTS, 1, 2), bound);
    kiln_graph_destroy(graph);
    for (int i = 0; i < PARTS; i++) {
        kiln_release(parts[i]);
    }
    fixture_close(&f);
}

static void test_transformer_peak(void)
{
    transformer_on("null", true);
    transformer_on("null", false);
    transformer_on("opencl:0", true);
    transformer_on("opencl:0", false);
}

/// A repeated run takes from the pool what outlives it, and nothing else.
static void test_repeated_run_asks_for_results(void)
{
    fixture f;
    kiln_tensor *parts[PARTS] = {NULL};
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    make_parts(&f, parts);
    kiln_graph *graph = capture_transformer(&f, parts);
    kiln_device_stats before = KILN_DEVICE_STATS_INIT, after = KILN_DEVICE_STATS_INIT;
    for (int i = 0; i < 5; i++) {
        kiln_tensor *result = NULL;
        kiln_device_stats_get(f.device, &before);
        FIXTURE_OK(&f, kiln_graph_run(graph, parts, PARTS, &result, 1, &f.err));
        kiln_device_stats_get(f.device, &after);
        kiln_release(result);
    }
    KILN_CHECK_INT(after.backend.pool_reuses - before.backend.pool_reuses, 1);
    KILN_CHECK_INT(after.backend.bytes_pooled, before.backend.bytes_pooled);
    KILN_CHECK(after.values_planned > before.values_planned);
    kiln_graph_destroy(graph);
    for (int i = 0; i < PARTS; i++) {
        kiln_release(parts[i]);
    }
    fixture_close(&f);
}

// ---- random programs ----

typedef struct random_program {
    builder b;
    uint64_t state;
    kiln_tensor *values[MAX_VALUES];
    int64_t dims[MAX_VALUES][2];
    size_t n_values;
    size_t n_kept;
} random_program;

static uint32_t below(random_program *p, uint32_t limit)
{
    p->state = p->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(p->state >> 33) % limit;
}

static void add(random_program *p, kiln_tensor *tensor)
{
    const int64_t *dims = kiln_tensor_dims(tensor);
    p->values[p->n_values] = tensor;
    p->dims[p->n_values][0] = dims[0];
    p->dims[p->n_values++][1] = dims[1];
}

static size_t find_like(random_program *p, size_t value, bool inner)
{
    for (size_t i = 0; i < p->n_values; i++) {
        size_t at = (i + below(p, (uint32_t)p->n_values)) % p->n_values;
        if (inner ? p->dims[at][0] == p->dims[value][1]
                  : p->dims[at][0] == p->dims[value][0] && p->dims[at][1] == p->dims[value][1]) {
            return at;
        }
    }
    return value;
}

static void one_step(random_program *p)
{
    builder *b = &p->b;
    size_t at = below(p, (uint32_t)p->n_values);
    kiln_tensor *x = p->values[at];
    const int64_t order[] = {1, 0}, folded[] = {p->dims[at][0] * p->dims[at][1], 1}, axes[] = {1};
    const int64_t ends[] = {(p->dims[at][0] + 1) / 2, p->dims[at][1]};
    switch (below(p, 9)) {
    case 0: {
        MAKE(b, y, kiln_add(x, p->values[find_like(p, at, false)], out, ERR));
        add(p, y);
        return;
    }
    case 1: {
        MAKE(b, y, kiln_gelu(x, false, out, ERR));
        add(p, y);
        return;
    }
    case 2: {
        size_t with = find_like(p, at, true);
        if (p->dims[with][0] != p->dims[at][1] || p->dims[at][0] * p->dims[with][1] > 1 << 18) {
            return;
        }
        MAKE(b, y, kiln_matmul(x, p->values[with], false, false, out, ERR));
        add(p, y);
        return;
    }
    case 3: {
        MAKE(b, y, kiln_permute(x, order, 2, out, ERR));
        add(p, y);
        return;
    }
    case 4: {
        MAKE(b, y, kiln_reshape(x, folded, 2, out, ERR));
        add(p, y);
        return;
    }
    case 5: {
        MAKE(b, y, kiln_softmax(x, -1, out, ERR));
        add(p, y);
        return;
    }
    case 6: {
        MAKE(b, y, kiln_sum(x, axes, 1, true, out, ERR));
        add(p, y);
        return;
    }
    case 7: {
        const int64_t from[] = {0, 0};
        MAKE(b, y, kiln_slice(x, from, 2, ends, 2, NULL, 0, out, ERR));
        add(p, y);
        return;
    }
    default: {
        MAKE(b, y, kiln_mul_scalar(x, kiln_f64(0.5), out, ERR));
        add(p, y);
        return;
    }
    }
}

/// Drops values on the way, so that memory can be shared.
static void forget_some(random_program *p, size_t n_inputs)
{
    while (p->n_values > n_inputs + 3 && below(p, 3) != 0) {
        size_t at = n_inputs + below(p, (uint32_t)(p->n_values - n_inputs));
        drop(&p->b, p->values[at]);
        p->n_values--;
        p->values[at] = p->values[p->n_values];
        memcpy(p->dims[at], p->dims[p->n_values], sizeof(p->dims[at]));
    }
}

enum { INPUTS = 3 };

static kiln_graph *capture_random(fixture *f, uint64_t seed, kiln_tensor **inputs,
                                  size_t *out_results)
{
    random_program p = {.b = {.f = f}, .state = seed * 7919};
    kiln_graph *graph = NULL;
    int64_t n = 16 + below(&p, 100), m = 16 + below(&p, 100);
    const int64_t dims[INPUTS][2] = {{n, m}, {m, n}, {n, m}};
    for (int i = 0; i < INPUTS; i++) {
        inputs[i] = weight(f, seed + (uint64_t)i, 2, dims[i], 1.0f);
    }
    FIXTURE_OK(f, kiln_graph_begin(f->device, inputs, INPUTS, &f->err));
    for (int i = 0; i < INPUTS; i++) {
        add(&p, inputs[i]);
    }
    for (int i = 0; i < 30; i++) {
        one_step(&p);
        forget_some(&p, INPUTS);
    }
    *out_results = p.n_values - INPUTS;
    FIXTURE_OK(f, kiln_graph_end(f->device, &p.values[INPUTS], *out_results, &graph, &f->err));
    drop_all(&p.b);
    return graph;
}

static void random_on(const char *address, bool fusion, uint64_t first, uint64_t count)
{
    double worst = 1, sum = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        fixture f;
        size_t results = 0;
        kiln_tensor *inputs[INPUTS] = {NULL};
        if (!fixture_open(&f, address)) {
            return;
        }
        FIXTURE_OK(&f, kiln_device_set_fusion(f.device, fusion, &f.err));
        kiln_graph *graph = capture_random(&f, seed, inputs, &results);
        uint64_t peak = memory_of_run(f.device, graph, inputs, INPUTS, results, 2);
        uint64_t bound = memory_bound(graph);
        double ratio = bound > 0 ? (double)peak / (double)bound : 1;
        worst = ratio > worst ? ratio : worst;
        sum += ratio;
        // Results have buffers of their own, so what dies before them may be held beside them.
        kiln_graph_memory memory = KILN_GRAPH_MEMORY_INIT;
        FIXTURE_OK(&f, kiln_graph_memory_get(graph, &memory, &f.err));
        KILN_CHECK(memory.bound_bytes >= bound);
        if (!KILN_CHECK(peak <= bound + bound / 10 + memory.result_bytes)) {
            printf("seed %llu: peak %llu, bound %llu\n", (unsigned long long)seed,
                   (unsigned long long)peak, (unsigned long long)bound);
        }
        kiln_graph_destroy(graph);
        for (int i = 0; i < INPUTS; i++) {
            kiln_release(inputs[i]);
        }
        fixture_close(&f);
    }
    printf("%s %s: %llu programs, mean ratio %.3f, worst %.3f\n", address,
           fusion ? "fused" : "unfused", (unsigned long long)count, sum / (double)count, worst);
    KILN_CHECK(sum / (double)count <= 1.15);
}

static void test_random_peak(void)
{
    random_on("null", true, 1, 100);
    random_on("null", false, 1, 100);
    random_on("opencl:0", true, 1, 12);
}

/// A graph of very many values has a layout, too: two are alive at once.
static void test_many_values(void)
{
    enum { OPS = 9000, N = 1000 };
    static const int64_t dims[] = {N};
    static float data[N], out[N];
    fixture f;
    kiln_graph *graph = NULL;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    FIXTURE_OK(&f, kiln_device_set_fusion(f.device, false, &f.err));
    kiln_tensor *x = fixture_f32(&f, 1, dims, data), *result = NULL;
    FIXTURE_OK(&f, kiln_graph_begin(f.device, &x, 1, &f.err));
    kiln_tensor *a = kiln_retain(x);
    for (int i = 0; i < OPS; i++) {
        kiln_tensor *next = NULL;
        FIXTURE_OK(&f, i % 3 != 0 ? kiln_add_scalar(a, kiln_f64(1), &next, &f.err)
                                  : kiln_add(a, x, &next, &f.err));
        kiln_release(a);
        a = next;
    }
    FIXTURE_OK(&f, kiln_graph_end(f.device, &a, 1, &graph, &f.err));
    kiln_release(a);
    for (int run = 0; run < 2; run++) {
        FIXTURE_OK(&f, kiln_graph_run(graph, &x, 1, &result, 1, &f.err));
        FIXTURE_OK(&f, kiln_read(result, out, sizeof(out), &f.err));
        KILN_CHECK_NEAR(out[N - 1], OPS / 3 * 2, 0);
        kiln_release(result);
    }
    kiln_graph_memory memory = KILN_GRAPH_MEMORY_INIT;
    FIXTURE_OK(&f, kiln_graph_memory_get(graph, &memory, &f.err));
    KILN_CHECK_INT(memory.steps, OPS);
    KILN_CHECK(memory.arena_bytes <= 3 * 4096);
    kiln_release(x);
    kiln_graph_destroy(graph);
    fixture_close(&f);
}

// ---- values ----

enum { ROUNDS = 20, THREADS = 3 };

typedef struct worker {
    fixture *f;
    kiln_graph *graph;
    kiln_tensor *inputs[INPUTS];
    size_t n_results;
    float *expected[MAX_VALUES];
    kiln_error err;
    bool same;
} worker;

/// Values as the program computes them when it runs unfused, operation by operation.
static void expect(worker *w, uint64_t seed)
{
    kiln_tensor *results[MAX_VALUES] = {NULL};
    FIXTURE_OK(w->f, kiln_device_set_fusion(w->f->device, false, &w->f->err));
    kiln_graph *alone = capture_random(w->f, seed, w->inputs, &w->n_results);
    FIXTURE_OK(w->f, kiln_graph_run(alone, w->inputs, INPUTS, results, w->n_results, &w->f->err));
    for (size_t i = 0; i < w->n_results; i++) {
        size_t bytes = kiln_tensor_bytes(results[i]);
        w->expected[i] = malloc(bytes + 1);
        FIXTURE_OK(w->f, kiln_read(results[i], w->expected[i], bytes, &w->f->err));
        kiln_release(results[i]);
    }
    kiln_graph_destroy(alone);
    for (int i = 0; i < INPUTS; i++) {
        kiln_release(w->inputs[i]);
    }
    w->graph = capture_random(w->f, seed, w->inputs, &w->n_results);
}

static bool check_result(worker *w, kiln_tensor *result, size_t number)
{
    size_t bytes = kiln_tensor_bytes(result);
    kiln_request *request = NULL;
    float *got = malloc(bytes + 1);
    bool same = kiln_read_async(result, got, bytes, &request, &w->err) == KILN_STATUS_OK;
    kiln_release(result); // while it is read
    same = same && kiln_request_wait(request, &w->err) == KILN_STATUS_OK &&
           memcmp(got, w->expected[number], bytes) == 0;
    kiln_request_destroy(request);
    free(got);
    return same;
}

static void *work(void *user)
{
    worker *w = user;
    w->same = true;
    for (int round = 0; round < ROUNDS; round++) {
        kiln_tensor *results[MAX_VALUES] = {NULL};
        if (kiln_graph_run(w->graph, w->inputs, INPUTS, results, w->n_results, &w->err) !=
            KILN_STATUS_OK) {
            w->same = false;
            return NULL;
        }
        for (size_t i = 0; i < w->n_results; i++) {
            w->same = check_result(w, results[i], i) && w->same;
        }
    }
    return NULL;
}

/// Runs of several threads share one arena, results are read while later runs write it, and a trim
/// in between takes it away: the values are those of operations that run unfused.
static void test_shared_arena_keeps_values(void)
{
    fixture f;
    worker workers[THREADS] = {{0}};
    pthread_t threads[THREADS];
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    for (uint64_t i = 0; i < THREADS; i++) {
        workers[i].f = &f;
        expect(&workers[i], 100 + i);
    }
    for (int i = 0; i < THREADS; i++) {
        KILN_CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        kiln_device_trim(f.device);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        kiln_test_check(workers[i].same, __FILE__, __LINE__, workers[i].err.message);
        kiln_graph_destroy(workers[i].graph);
        for (int k = 0; k < INPUTS; k++) {
            kiln_release(workers[i].inputs[k]);
        }
        for (size_t k = 0; k < workers[i].n_results; k++) {
            free(workers[i].expected[k]);
        }
    }
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f.device, &stats);
    KILN_CHECK(stats.values_planned > 0);
    fixture_close(&f);
}

// ---- budgets ----

static void budget_on(const char *address)
{
    fixture f;
    const int64_t dims[] = {64 * 1024};
    kiln_tensor *held[64] = {NULL};
    kiln_tensor *one = NULL;
    size_t count = 0;
    if (!fixture_open_with(&f, address, "memory-budget", "2M")) {
        return;
    }
    kiln_status status = KILN_STATUS_OK;
    while (count < 64 && status == KILN_STATUS_OK) {
        status = kiln_tensor_create(f.device, KILN_DTYPE_F32, 1, dims, NULL, &held[count], &f.err);
        count += status == KILN_STATUS_OK;
    }
    KILN_CHECK_INT(status, KILN_STATUS_RESOURCE_EXHAUSTED);
    KILN_CHECK_INT(count, 8);
    KILN_CHECK_CONTAINS(f.err.message, "memory-budget");
    f.err = (kiln_error)KILN_ERROR_INIT;
    // What is held is whole, and there is room again for what is released.
    kiln_release(held[--count]);
    FIXTURE_OK(&f, kiln_tensor_create(f.device, KILN_DTYPE_F32, 1, dims, NULL, &one, &f.err));
    kiln_tensor *sum = NULL;
    FIXTURE_OK(&f, kiln_device_set_memory_budget(f.device, 4 << 20, &f.err));
    FIXTURE_OK(&f, kiln_add(held[0], one, &sum, &f.err));
    FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
    kiln_release(sum);
    kiln_release(one);
    while (count > 0) {
        kiln_release(held[--count]);
    }
    fixture_close(&f);
}

static void test_budget(void)
{
    budget_on("reference");
    budget_on("opencl:0");
}

/// A sum of many tensors, each let go of at once: its queue keeps them all, so it runs early.
static void test_queues_run_early(void)
{
    fixture f;
    const int64_t dims[] = {64 * 1024};
    if (!fixture_open_with(&f, "opencl:0", "memory-budget", "8M")) {
        return;
    }
    float *ones = malloc((size_t)dims[0] * sizeof(float));
    for (int64_t i = 0; i < dims[0]; i++) {
        ones[i] = 1;
    }
    kiln_tensor *sum = fixture_f32(&f, 1, dims, NULL);
    for (int i = 0; i < 200; i++) {
        kiln_tensor *next = NULL;
        kiln_tensor *x = fixture_f32(&f, 1, dims, ones);
        FIXTURE_OK(&f, kiln_add(sum, x, &next, &f.err));
        kiln_release(x);
        kiln_release(sum);
        sum = next;
    }
    float *got = malloc((size_t)dims[0] * sizeof(float));
    FIXTURE_OK(&f, kiln_read(sum, got, (size_t)dims[0] * sizeof(float), &f.err));
    KILN_CHECK(got[0] == 200 && got[dims[0] - 1] == 200);
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f.device, &stats);
    KILN_CHECK(stats.early_runs > 0);
    KILN_CHECK(stats.backend.bytes_pooled_peak <= 8 << 20);
    KILN_CHECK_INT(stats.bytes_pending, 0);
    kiln_release(sum);
    free(got);
    free(ones);
    fixture_close(&f);
}

/// A run for which there is no memory fails by name; with more the same graph runs.
static void test_run_after_exhaustion(void)
{
    fixture f;
    kiln_tensor *parts[PARTS] = {NULL};
    kiln_tensor *result = NULL;
    float few[8];
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    make_parts(&f, parts);
    kiln_graph *graph = capture_transformer(&f, parts);
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
    kiln_device_trim(f.device);
    kiln_device_stats_get(f.device, &stats);
    FIXTURE_OK(&f,
               kiln_device_set_memory_budget(f.device, stats.backend.bytes_pooled + 65536, &f.err));
    FIXTURE_OK(&f, kiln_graph_run(graph, parts, PARTS, &result, 1, &f.err));
    kiln_error err = KILN_ERROR_INIT;
    KILN_CHECK_INT(kiln_read(result, few, kiln_tensor_bytes(result), &err),
                   KILN_STATUS_RESOURCE_EXHAUSTED);
    KILN_CHECK_CONTAINS(err.message, "memory-budget");
    kiln_release(result);
    KILN_CHECK_INT(kiln_sync(f.device, &err), KILN_STATUS_RESOURCE_EXHAUSTED);
    FIXTURE_OK(&f, kiln_device_set_memory_budget(f.device, 0, &f.err));
    FIXTURE_OK(&f, kiln_graph_run(graph, parts, PARTS, &result, 1, &f.err));
    FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
    kiln_release(result);
    kiln_graph_destroy(graph);
    for (int i = 0; i < PARTS; i++) {
        kiln_release(parts[i]);
    }
    fixture_close(&f);
}

/// A tensor that two members of a launch read is no memory for the result of either.
static void test_groups_give_way(void)
{
    kiln_program_arg args[] = {
        {.kind = KILN_ARG_TENSOR, .access = KILN_ACCESS_READ, .ref = 0, .group = 1},
        {.kind = KILN_ARG_TENSOR, .access = KILN_ACCESS_READ, .ref = 1, .group = 1},
        {.kind = KILN_ARG_TENSOR, .access = KILN_ACCESS_READ, .ref = 1, .group = 2},
        {.kind = KILN_ARG_OFFSET, .ref = 0, .group = 2},
        {.kind = KILN_ARG_TENSOR, .access = KILN_ACCESS_WRITE, .ref = 2, .group = 1},
    };
    kiln_program_launch launch = {.args = args, .n_args = 5};
    KILN_CHECK(kilni_arg_gives_way(&launch, 0, 1));
    KILN_CHECK(!kilni_arg_gives_way(&launch, 0, 2));
    KILN_CHECK(!kilni_arg_gives_way(&launch, 1, 1)); // another group reads it, too
    KILN_CHECK(!kilni_arg_gives_way(&launch, 2, 2));
    KILN_CHECK(!kilni_arg_gives_way(&launch, 3, 2)); // no tensor's memory
    KILN_CHECK(!kilni_arg_gives_way(&launch, 4, 1)); // written
    args[2].group = 1;
    KILN_CHECK(kilni_arg_gives_way(&launch, 1, 1));
    args[2].access = KILN_ACCESS_READ | KILN_ACCESS_WRITE;
    KILN_CHECK(!kilni_arg_gives_way(&launch, 1, 1));
}

// ---- parts written into what is there ----

enum { STORE = 4096 };

static kiln_device_stats counted(const fixture *f)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f->device, &stats);
    return stats;
}

/// x with ones in a part; `x` is let go of when it is `last`. Bytes that this took beside x.
static uint64_t write_part(fixture *f, kiln_tensor **x, bool last)
{
    const int64_t three[] = {3};
    const int64_t start[] = {5}, end[] = {8}, step[] = {1};
    const float ones[] = {1, 1, 1};
    kiln_tensor *value = fixture_f32(f, 1, three, ones);
    kiln_tensor *y = NULL;
    FIXTURE_OK(f, kiln_sync(f->device, &f->err));
    kiln_device_reset_peaks(f->device);
    uint64_t before = counted(f).backend.bytes_peak;
    FIXTURE_OK(f, kiln_slice_assign(*x, value, start, 1, end, 1, step, 1, &y, &f->err));
    kiln_release(value);
    kiln_tensor *kept = last ? NULL : kiln_retain(*x);
    kiln_release(*x);
    FIXTURE_OK(f, kiln_sync(f->device, &f->err));
    uint64_t more = counted(f).backend.bytes_peak - before;
    *x = y;
    float data[STORE];
    FIXTURE_OK(f, kiln_read(y, data, sizeof(data), &f->err));
    KILN_CHECK_NEAR((double)(data[4] + data[8] + data[STORE - 1]), 6, 0);
    KILN_CHECK_NEAR((double)(data[5] + data[6] + data[7]), 3, 0);
    if (kept != NULL) {
        FIXTURE_OK(f, kiln_read(kept, data, sizeof(data), &f->err));
        KILN_CHECK_NEAR((double)(data[5] + data[6] + data[7]), 6, 0);
    }
    kiln_release(kept);
    return more;
}

static void parts_on(const char *address)
{
    fixture f;
    if (!fixture_open(&f, address)) {
        return;
    }
    static float twos[STORE];
    for (size_t i = 0; i < STORE; i++) {
        twos[i] = 2;
    }
    const int64_t dims[] = {STORE};
    kiln_tensor *x = fixture_f32(&f, 1, dims, twos);
    KILN_CHECK(write_part(&f, &x, false) >= sizeof(twos)); // somebody has what was there
    kiln_release(x);
    x = fixture_f32(&f, 1, dims, twos);
    KILN_CHECK(write_part(&f, &x, true) < sizeof(twos));
    kiln_tensor *view = NULL; // of all of it, which must not change
    const int64_t none[] = {0}, one[] = {1};
    FIXTURE_OK(&f, kiln_mul_scalar(x, kiln_f64(2), &view, &f.err));
    kiln_release(x);
    x = view;
    FIXTURE_OK(&f, kiln_slice(x, none, 1, dims, 1, one, 1, &view, &f.err));
    FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
    kiln_tensor *part = fixture_f32(&f, 1, one, twos);
    kiln_tensor *y = NULL;
    FIXTURE_OK(&f, kiln_slice_assign(x, part, none, 1, one, 1, one, 1, &y, &f.err));
    kiln_release(x);
    kiln_release(part);
    float data[STORE];
    FIXTURE_OK(&f, kiln_read(y, data, sizeof(data), &f.err));
    KILN_CHECK_NEAR((double)data[0], 2, 0);
    FIXTURE_OK(&f, kiln_read(view, data, sizeof(data), &f.err));
    KILN_CHECK_NEAR((double)data[0], 4, 0);
    kiln_release(view);
    kiln_release(y);
    fixture_close(&f);
}

/// A part is written where the tensor lies when nobody else has it, and only then.
static void test_parts_in_place(void)
{
    parts_on("opencl:0");
    parts_on("reference:0");
}

static void test_copied_bytes_are_counted(void)
{
    fixture f;
    if (!fixture_open(&f, "reference:0")) {
        return;
    }
    const int64_t dims[] = {6};
    float data[6] = {1, 2, 3, 4, 5, 6};
    kiln_tensor *x = fixture_f32(&f, 1, dims, data);
    kiln_tensor *zeros = NULL;
    FIXTURE_OK(&f, kiln_tensor_create(f.device, KILN_DTYPE_F32, 1, dims, NULL, &zeros, &f.err));
    KILN_CHECK_INT(counted(&f).bytes_uploaded, 24);
    KILN_CHECK_INT(counted(&f).bytes_read, 0);
    FIXTURE_OK(&f, kiln_read(x, data, sizeof(data), &f.err));
    KILN_CHECK_INT(counted(&f).bytes_uploaded, 24);
    KILN_CHECK_INT(counted(&f).bytes_read, 24);
    kiln_release(x);
    kiln_release(zeros);
    fixture_close(&f);
}

KILN_TEST_MAIN("unit/runtime/memory", KILN_TEST(test_groups_give_way),
               KILN_TEST(test_transformer_peak), KILN_TEST(test_repeated_run_asks_for_results),
               KILN_TEST(test_random_peak), KILN_TEST(test_many_values),
               KILN_TEST(test_shared_arena_keeps_values), KILN_TEST(test_budget),
               KILN_TEST(test_queues_run_early), KILN_TEST(test_run_after_exhaustion),
               KILN_TEST(test_parts_in_place), KILN_TEST(test_copied_bytes_are_counted))
