// SPDX-License-Identifier: MIT OR Apache-2.0
// Random numbers through the public calls: the seed, streams of threads, graphs, and that neither
// the device nor the order of execution nor fusion changes a number.

#include "runtime_fixture.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { N = 1000 };

static kiln_tensor *draw(fixture *f)
{
    const int64_t shape[1] = {N};
    kiln_tensor *out = NULL;
    FIXTURE_OK(f, kiln_random_uniform(f->device, shape, 1, KILN_DTYPE_F32, kiln_f64(-1),
                                      kiln_f64(1), &out, &f->err));
    return out;
}

static void take(fixture *f, kiln_tensor *x, float *out)
{
    FIXTURE_OK(f, kiln_read(x, out, N * sizeof(float), &f->err));
    kiln_release(x);
}

static bool same(const float *a, const float *b)
{
    return memcmp(a, b, N * sizeof(float)) == 0;
}

static float first[N];
static float second[N];
static float third[N];

static void test_seed(const char *address)
{
    fixture f;
    if (!fixture_open(&f, address)) {
        return;
    }
    FIXTURE_OK(&f, kiln_seed(f.device, 42, &f.err));
    take(&f, draw(&f), first);
    kiln_tensor *later = draw(&f);
    FIXTURE_OK(&f, kiln_seed(f.device, 42, &f.err)); // does not change what was recorded
    kiln_tensor *again = draw(&f);
    take(&f, later, second);
    take(&f, again, third);
    KILN_CHECK(same(first, third));
    KILN_CHECK(!same(first, second));
    FIXTURE_OK(&f, kiln_seed(f.device, 43, &f.err));
    take(&f, draw(&f), third);
    KILN_CHECK(!same(first, third));
    fixture_close(&f);
}

static void test_seed_reference(void)
{
    test_seed("reference");
}

static void test_seed_opencl(void)
{
    test_seed("opencl:0");
}

static void take_seven(const char *address, bool fusion, bool backwards, float *out_numbers)
{
    fixture f;
    kiln_tensor *drawn[7] = {NULL};
    if (!fixture_open(&f, address)) {
        return;
    }
    if (!fusion && (kiln_device_info_of(f.device)->features & KILN_FEATURE_PROGRAMS) != 0) {
        FIXTURE_OK(&f, kiln_device_set_fusion(f.device, false, &f.err));
    }
    FIXTURE_OK(&f, kiln_seed(f.device, -7, &f.err));
    for (int i = 0; i < 7; i++) {
        kiln_tensor *x = draw(&f);
        FIXTURE_OK(&f, kiln_mul_scalar(x, kiln_f64(0.5), &drawn[i], &f.err));
        kiln_release(x);
    }
    for (int i = 0; i < 7; i++) {
        int k = backwards ? 6 - i : i;
        take(&f, drawn[k], out_numbers + k * N);
    }
    fixture_close(&f);
}

static void test_same_everywhere(void)
{
    static float expected[7 * N];
    static float found[7 * N];
    take_seven("reference", false, false, expected);
    take_seven("reference", false, true, found);
    KILN_CHECK_MEM(found, expected, sizeof(found));
    memset(found, 0, sizeof(found));
    take_seven("opencl:0", true, true, found);
    if (found[0] == 0) {
        return; // no device, which take_seven has said
    }
    KILN_CHECK_MEM(found, expected, sizeof(found));
    take_seven("opencl:0", false, false, found);
    KILN_CHECK_MEM(found, expected, sizeof(found));
}

typedef struct job {
    fixture *f;
    int64_t number; ///< of the stream to choose, or -1
    float *out;
} job;

static void *draw_on_thread(void *argument)
{
    const job *self = argument;
    fixture local = *self->f;
    if (self->number >= 0) {
        FIXTURE_OK(&local, kiln_random_stream(local.device, (uint32_t)self->number, &local.err));
    }
    take(&local, draw(&local), self->out);
    return NULL;
}

static void run_thread(job *self)
{
    pthread_t thread;
    KILN_CHECK(pthread_create(&thread, NULL, draw_on_thread, self) == 0);
    pthread_join(thread, NULL);
}

static void test_threads(void)
{
    fixture f;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    FIXTURE_OK(&f, kiln_seed(f.device, 1, &f.err));
    take(&f, draw(&f), first);
    job other = {&f, -1, second};
    run_thread(&other);
    KILN_CHECK(!same(first, second)); // another thread, another stream
    job chosen = {&f, 0, second};
    run_thread(&chosen);
    KILN_CHECK(same(first, second));
    fixture_close(&f);
}

static void test_graph_draws_anew(void)
{
    fixture f;
    kiln_graph *graph = NULL;
    kiln_tensor *out = NULL;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    FIXTURE_OK(&f, kiln_graph_begin(f.device, NULL, 0, &f.err));
    kiln_tensor *x = draw(&f);
    FIXTURE_OK(&f, kiln_graph_end(f.device, &x, 1, &graph, &f.err));
    kiln_release(x);
    FIXTURE_OK(&f, kiln_seed(f.device, 5, &f.err));
    for (int run = 0; run < 2; run++) {
        FIXTURE_OK(&f, kiln_graph_run(graph, NULL, 0, &out, 1, &f.err));
        take(&f, out, run == 0 ? first : second);
    }
    KILN_CHECK(!same(first, second));
    FIXTURE_OK(&f, kiln_seed(f.device, 5, &f.err));
    take(&f, draw(&f), third); // as if it had been recorded
    KILN_CHECK(same(first, third));
    FIXTURE_OK(&f, kiln_graph_run(graph, NULL, 0, &out, 1, &f.err));
    take(&f, out, third);
    KILN_CHECK(same(second, third));
    kiln_graph_destroy(graph);
    fixture_close(&f);
}

/* Every float that Box and Muller can give is not tried, but a million are. */
static void test_normal_ulps(void)
{
    enum { MANY = 1 << 20 };
    static float device_numbers[MANY];
    static float host_numbers[MANY];
    const char *const addresses[2] = {"reference", "opencl:0"};
    float *const numbers[2] = {host_numbers, device_numbers};
    const int64_t shape[1] = {MANY};
    double worst = 0;
    for (int i = 0; i < 2; i++) {
        fixture f;
        kiln_tensor *x = NULL;
        if (!fixture_open(&f, addresses[i])) {
            return;
        }
        FIXTURE_OK(&f, kiln_seed(f.device, 99, &f.err));
        FIXTURE_OK(&f, kiln_random_normal(f.device, shape, 1, KILN_DTYPE_F32, 0, 1, &x, &f.err));
        FIXTURE_OK(&f, kiln_read(x, numbers[i], sizeof(host_numbers), &f.err));
        kiln_release(x);
        fixture_close(&f);
    }
    for (int i = 0; i < MANY; i++) {
        double ulp = ldexp(1, ilogbf(host_numbers[i]) - 23);
        double off = fabs((double)device_numbers[i] - (double)host_numbers[i]) / ulp;
        worst = off > worst ? off : worst;
    }
    printf("    worst of %d normal numbers: %.1f ulp\n", MANY, worst);
    KILN_CHECK(worst <= 4);
}

KILN_TEST_MAIN("unit/runtime/random", KILN_TEST(test_seed_reference), KILN_TEST(test_seed_opencl),
               KILN_TEST(test_same_everywhere), KILN_TEST(test_threads),
               KILN_TEST(test_graph_draws_anew), KILN_TEST(test_normal_ulps))
