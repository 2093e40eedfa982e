// SPDX-License-Identifier: MIT OR Apache-2.0
// A driver whose k-th read delivers other bytes than the device has: a bit is changed, or what was
// there before stays. A plain read gives what the driver gave, and the next one is right. What is
// kept or judged is read twice: checked mode blames no fuser and changes no tensor, no binary of a
// program and no bundle with a wrong byte is written. Tournaments and facts of a device come from
// times alone: they read nothing.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl_faults.h"
#include "kiln_bundle.h"
#include "runtime_fixture.h"

enum { N = 4096, MOST_READS = 400 };

typedef struct fault {
    cl_faults_kind kind;
    bool on; ///< and each after it
} fault;

static const fault every_fault[] = {{CL_FAULTS_FLIP, false},
                                    {CL_FAULTS_FLIP, true},
                                    {CL_FAULTS_STALE, false},
                                    {CL_FAULTS_STALE, true}};
enum { FAULTS = sizeof(every_fault) / sizeof(every_fault[0]) };

static const int64_t dims[] = {N};
static cl_faults *faults;
static float data[N], expected[N];
static char seen[1 << 16]; ///< what the log said

/// The k-th read from now on is wrong; none with 0, and they are counted.
static void arm(fault wrong, uint64_t k)
{
    atomic_store(&faults->seen, 0);
    atomic_store(&faults->persistent, wrong.on);
    atomic_store(&faults->fail_at, k);
    atomic_store(&faults->kind, wrong.kind);
}

static uint64_t disarm(void)
{
    atomic_store(&faults->fail_at, 0);
    return atomic_load(&faults->seen);
}

static void keep_log(const kiln_log_record *record, void *user)
{
    size_t at = strlen(seen);
    (void)user;
    snprintf(seen + at, sizeof(seen) - at, "%s\n", record->message);
}

/// With a cache in `folder` and an option. False: skipped.
static bool open_in(fixture *f, const char *folder, const char *option, const char *value)
{
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    options.log = keep_log;
    *f = (fixture){.err = KILN_ERROR_INIT};
    seen[0] = '\0';
    FIXTURE_OK(f, kiln_context_create(&options, &f->context, &f->err));
    FIXTURE_OK(f, kiln_context_set(f->context, "cache-dir", folder, &f->err));
    FIXTURE_OK(f, kiln_context_set(f->context, option, value, &f->err));
    if (kiln_device_open(f->context, kiln_test_address("opencl:0"), &f->device, &f->err) ==
        KILN_STATUS_OK) {
        return true;
    }
    kiln_test_skip("no OpenCL device: %s", f->err.message);
    kiln_context_destroy(f->context);
    return false;
}

static const char *new_folder(void)
{
    static char path[512];
    static unsigned count;
    snprintf(path, sizeof(path), "%s/%u", kiln_test_tmpdir(), count++);
    return path;
}

/// Two blocks with an operation between them that runs alone, computed but not read.
static kiln_tensor *compute(fixture *f, kiln_tensor *x)
{
    kiln_tensor *t[4] = {NULL};
    kiln_tensor *y = NULL;
    FIXTURE_OK(f, kiln_add_scalar(x, kiln_f64(2), &t[0], &f->err));
    FIXTURE_OK(f, kiln_neg(t[0], &t[1], &f->err));
    FIXTURE_OK(f, kiln_cum_sum(t[1], 0, false, false, &t[2], &f->err));
    FIXTURE_OK(f, kiln_abs(t[2], &t[3], &f->err));
    FIXTURE_OK(f, kiln_mul_scalar(t[3], kiln_f64(0.5), &y, &f->err));
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        kiln_release(t[i]);
    }
    FIXTURE_OK(f, kiln_sync(f->device, &f->err));
    return y;
}

static void fill(void)
{
    float sum = 0;
    for (int i = 0; i < N; i++) {
        data[i] = (float)(i % 7) / 4;
        sum -= data[i] + 2; // quarters: exact in any order
        expected[i] = (sum < 0 ? -sum : sum) / 2;
    }
}

static size_t count_wrong(const void *got, const void *want)
{
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof(data); i++) {
        wrong += ((const unsigned char *)got)[i] != ((const unsigned char *)want)[i];
    }
    return wrong;
}

static void check_values(fixture *f, kiln_tensor *tensor, const float *want, const char *what)
{
    static float out[N];
    FIXTURE_OK(f, kiln_read(tensor, out, sizeof(out), &f->err));
    if (count_wrong(out, want) != 0) {
        KILN_FAIL("%s, %s at read %llu: %s is wrong", kiln_test_name(), faults->name,
                  (unsigned long long)atomic_load(&faults->seen), what);
    }
}

// ---- what nothing can notice ----

/// The user's own read and map: what the driver gives, and the device still has the right bytes.
static void test_plain_reads(void)
{
    fixture f;
    static float out[N];
    const void *mapped = NULL;
    kiln_mapping *mapping = NULL;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 1, dims, data);
    for (size_t i = 0; i < FAULTS; i++) {
        const bool flips = every_fault[i].kind == CL_FAULTS_FLIP;
        memset(out, 0x11, sizeof(out));
        arm(every_fault[i], 1);
        FIXTURE_OK(&f, kiln_read(x, out, sizeof(out), &f.err));
        KILN_CHECK(disarm() >= 1);
        KILN_CHECK(flips ? count_wrong(out, data) == 1 : count_wrong(out, data) > N);
        check_values(&f, x, data, "the next read");
        arm(every_fault[i], 1);
        FIXTURE_OK(&f, kiln_tensor_map(x, &mapped, &mapping, &f.err));
        KILN_CHECK(disarm() >= 1);
        KILN_CHECK(flips ? count_wrong(mapped, data) == 1 : count_wrong(mapped, data) > N);
        kiln_mapping_release(mapping);
        check_values(&f, x, data, "a read after a map");
    }
    kiln_release(x);
    fixture_close(&f);
}

/// A count that the device gives becomes a shape only where it can be one.
static void test_counts(void)
{
    fixture f;
    int refused = 0;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 1, dims, data);
    for (uint64_t byte = 0; byte < 2 * sizeof(int64_t); byte++) {
        const bool flips = byte < sizeof(int64_t);
        kiln_tensor *places = NULL;
        atomic_store(&faults->flip_at, byte);
        arm(every_fault[flips ? 0 : 2], 1);
        kiln_status status = kiln_nonzero(x, &places, &f.err);
        KILN_CHECK_INT(disarm(), 1);
        KILN_CHECK(status == KILN_STATUS_OK || status == KILN_STATUS_DATA_LOSS);
        KILN_CHECK((status == KILN_STATUS_OK) == (places != NULL));
        KILN_CHECK(places == NULL || kiln_tensor_dims(places)[0] <= N);
        refused += status == KILN_STATUS_DATA_LOSS;
        kiln_release(places);
    }
    KILN_CHECK(refused >= 6); // all but what can be a count of 4096
    atomic_store(&faults->flip_at, 0);
    kiln_release(x);
    fixture_close(&f);
}

// ---- what notices it ----

/// The log names no fuser and no result.
static void check_nobody_is_blamed(uint64_t k)
{
    if (strstr(seen, "is wrong") != NULL || strstr(seen, "writes into") != NULL ||
        strstr(seen, "outside") != NULL) {
        KILN_FAIL("read %llu, %s: %s", (unsigned long long)k, faults->name, seen);
    }
}

/// One run in checked mode whose k-th read is wrong; true: it has that many.
static bool check_once(fixture *f, kiln_tensor *x, fault wrong, uint64_t k, uint32_t *untold)
{
    seen[0] = '\0';
    arm(wrong, k);
    kiln_tensor *y = compute(f, x);
    bool reached = disarm() >= k;
    check_values(f, y, expected, "the result");
    check_values(f, x, data, "an input");
    check_nobody_is_blamed(k);
    *untold += reached && strstr(seen, "is not checked") == NULL;
    kiln_release(y);
    return reached;
}

static void test_checked_mode(void)
{
    fixture f;
    uint64_t reads = 0, tries = 0;
    uint32_t untold = 0;
    if (!open_in(&f, new_folder(), "check", "always")) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 1, dims, data);
    for (size_t i = 0; i < FAULTS; i++) {
        for (uint64_t k = 1; k < MOST_READS && check_once(&f, x, every_fault[i], k, &untold); k++) {
            reads = k > reads ? k : reads;
            tries++;
        }
    }
    kiln_device_stats before = KILN_DEVICE_STATS_INIT, after = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f.device, &before);
    seen[0] = '\0';
    kiln_release(compute(&f, x));
    kiln_device_stats_get(f.device, &after);
    KILN_CHECK_STR(seen, "");
    KILN_CHECK(after.blocks_fused >= before.blocks_fused + 2); // no block was given up
    printf("    %llu reads of a checked run, %llu faults, of which %u told nothing: guard words\n",
           (unsigned long long)reads, (unsigned long long)tries, untold);
    KILN_CHECK(reads >= 8);
    KILN_CHECK(untold < tries / 2);
    kiln_release(x);
    fixture_close(&f);
}

/// The first run is not checked, so the second is, also where that is asked of first runs only.
static void test_first_check_comes_later(void)
{
    fixture f;
    uint32_t untold = 0;
    if (!open_in(&f, new_folder(), "check", "first")) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 1, dims, data);
    (void)check_once(&f, x, every_fault[1], 1, &untold);
    KILN_CHECK_INT(untold, 0);
    arm(every_fault[0], 0);
    kiln_release(compute(&f, x));
    KILN_CHECK(disarm() > 0); // it looks at the results
    arm(every_fault[0], 0);
    kiln_release(compute(&f, x));
    KILN_CHECK_INT(disarm(), 0);
    kiln_release(x);
    fixture_close(&f);
}

/// Opens a device with a cache, computes, closes it while the k-th binary is wrong.
static bool store_binaries(const char *folder, fault wrong, uint64_t k, uint64_t *out_reads,
                           kiln_device_stats *out_stats)
{
    fixture f;
    if (!open_in(&f, folder, "check", "off")) {
        return false;
    }
    kiln_tensor *x = fixture_f32(&f, 1, dims, data);
    kiln_tensor *y = compute(&f, x);
    check_values(&f, y, expected, "the result");
    kiln_release(x);
    kiln_release(y);
    *out_stats = (kiln_device_stats)KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f.device, out_stats);
    arm(wrong, k);
    fixture_close(&f);
    *out_reads = disarm();
    return true;
}

static void test_binaries(void)
{
    uint64_t reads = 0, again = 0;
    kiln_device_stats stats;
    if (!store_binaries(new_folder(), every_fault[0], 0, &reads, &stats)) {
        return;
    }
    uint64_t programs = stats.backend.programs_built;
    KILN_CHECK(programs > 0);
    KILN_CHECK_INT(reads, 2 * programs);
    for (size_t i = 0; i < FAULTS; i++) {
        for (uint64_t k = 1; k <= reads; k += kiln_test_is_long() ? 1 : reads / 2) {
            char folder[512];
            snprintf(folder, sizeof(folder), "%s", new_folder());
            KILN_CHECK(store_binaries(folder, every_fault[i], k, &again, &stats));
            KILN_CHECK_CONTAINS(seen, "the driver gives two binaries of");
            // What is in the store runs, and what is not is built again.
            KILN_CHECK(store_binaries(folder, every_fault[i], 0, &again, &stats));
            KILN_CHECK(strstr(seen, "damaged") == NULL);
            KILN_CHECK(stats.backend.programs_built >= 1);
            KILN_CHECK_INT(stats.backend.programs_built + stats.backend.programs_loaded, programs);
        }
    }
}

/// Times alone: nothing of a tournament, nor of opening a device, comes from a read.
static void test_tournaments_read_nothing(void)
{
    fixture f;
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    arm(every_fault[1], 1);
    if (!open_in(&f, new_folder(), "tune", "full")) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 1, dims, data);
    kiln_tensor *y = compute(&f, x);
    KILN_CHECK_INT(disarm(), 0);
    kiln_device_stats_get(f.device, &stats);
    KILN_CHECK(stats.blocks_measured > 0);
    check_values(&f, y, expected, "the result");
    kiln_release(x);
    kiln_release(y);
    fixture_close(&f);
}

// ---- bundles ----

/// x + w with a constant w.
static kiln_graph *capture_sum(fixture *f, kiln_tensor *x)
{
    kiln_graph *graph = NULL;
    kiln_tensor *w = fixture_f32(f, 1, dims, expected);
    kiln_tensor *y = NULL;
    FIXTURE_OK(f, kiln_graph_begin(f->device, &x, 1, &f->err));
    FIXTURE_OK(f, kiln_add(x, w, &y, &f->err));
    FIXTURE_OK(f, kiln_graph_end(f->device, &y, 1, &graph, &f->err));
    kiln_release(w);
    kiln_release(y);
    return graph;
}

/// Makes a bundle while the k-th read is wrong.
static kiln_status make_bundle(const char *folder, fault wrong, uint64_t k, uint64_t *out_reads)
{
    static const char *const in[] = {"x"};
    static const char *const out[] = {"y"};
    fixture f;
    kiln_bundle_maker *maker = NULL;
    if (!fixture_open_with(&f, "opencl:0", "compiler", "record")) {
        return KILN_STATUS_UNAVAILABLE;
    }
    kiln_tensor *inputs[2] = {fixture_f32(&f, 1, dims, data), fixture_f32(&f, 1, dims, expected)};
    kiln_graph *graph = capture_sum(&f, inputs[0]);
    const kiln_bundle_work work = {.struct_size = sizeof(work),
                                   .n_inputs = 1,
                                   .n_outputs = 1,
                                   .graph = graph,
                                   .device = f.device,
                                   .inputs = &inputs[0],
                                   .others = &inputs[1],
                                   .input_names = in,
                                   .output_names = out};
    FIXTURE_OK(&f, kiln_bundle_maker_create(kiln_context_env(f.context), &maker, &f.err));
    arm(wrong, k);
    kiln_status status = kiln_bundle_maker_add(maker, &work, &f.err);
    if (status == KILN_STATUS_OK) {
        status = kiln_bundle_maker_write(maker, folder, &f.err);
    }
    *out_reads = disarm();
    kiln_bundle_maker_destroy(maker);
    kiln_release(inputs[0]);
    kiln_release(inputs[1]);
    kiln_graph_destroy(graph);
    fixture_close(&f);
    return status;
}

/// Runs a bundle, whose sums are right, and keeps its binaries while the k-th is wrong.
static kiln_status keep_binaries(const char *folder, fault wrong, uint64_t k, uint64_t *out_reads)
{
    fixture f;
    kiln_bundle *bundle = NULL;
    kiln_tensor *y = NULL;
    static float sums[N];
    if (!KILN_CHECK(fixture_open(&f, "opencl:0"))) {
        return KILN_STATUS_UNAVAILABLE;
    }
    FIXTURE_OK(&f, kiln_bundle_open(f.device, folder, NULL, &bundle, &f.err));
    kiln_tensor *x = fixture_f32(&f, 1, dims, data);
    FIXTURE_OK(&f, kiln_bundle_run(bundle, &x, 1, &y, 1, &f.err));
    for (int i = 0; i < N; i++) {
        sums[i] = data[i] + expected[i];
    }
    check_values(&f, y, sums, "a bundle's result");
    kiln_release(x);
    kiln_release(y);
    arm(wrong, k);
    kiln_status status = kiln_bundle_keep(bundle, &f.err);
    *out_reads = disarm();
    kiln_bundle_close(bundle);
    fixture_close(&f);
    return status;
}

static void test_bundles(void)
{
    uint64_t reads = 0, again = 0;
    char folder[512];
    snprintf(folder, sizeof(folder), "%s", new_folder());
    if (make_bundle(folder, every_fault[0], 0, &reads) == KILN_STATUS_UNAVAILABLE) {
        return;
    }
    KILN_CHECK(reads >= 2);
    for (size_t i = 0; i < FAULTS; i++) {
        for (uint64_t k = 1; k <= reads; k++) {
            KILN_CHECK_INT(make_bundle(new_folder(), every_fault[i], k, &again),
                           KILN_STATUS_DATA_LOSS);
        }
    }
    KILN_CHECK_INT(keep_binaries(folder, every_fault[0], 1, &again), KILN_STATUS_DATA_LOSS);
    KILN_CHECK_INT(keep_binaries(folder, every_fault[2], 2, &again), KILN_STATUS_DATA_LOSS);
    KILN_CHECK_INT(keep_binaries(folder, every_fault[0], 0, &again), KILN_STATUS_OK);
    KILN_CHECK(again >= 2);
    KILN_CHECK_INT(keep_binaries(folder, every_fault[0], 0, &again), KILN_STATUS_OK);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        KILN_TEST(test_plain_reads),  KILN_TEST(test_counts),
        KILN_TEST(test_checked_mode), KILN_TEST(test_first_check_comes_later),
        KILN_TEST(test_binaries),     KILN_TEST(test_tournaments_read_nothing),
        KILN_TEST(test_bundles),
    };
    fill();
    faults = cl_faults_share();
    if (faults == NULL) {
        fprintf(stderr, "no memory to share with the layer\n");
        return 2;
    }
    return kiln_test_run("faults/cl_reads", cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
