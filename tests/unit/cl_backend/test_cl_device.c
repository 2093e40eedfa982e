// SPDX-License-Identifier: MIT OR Apache-2.0
// Addresses, the list of devices, what is known about one, and opening again and again.

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cl_device.h"
#include "cl_facts.h"
#include "cl_fixture.h"
#include "cl_measure.h"

static kiln_status open_only(cl_fixture *f, const char *address, kiln_error *err)
{
    const kiln_backend_provider *provider = kiln_cl_provider();
    kiln_backend *base = NULL;
    kiln_status status = provider->open(&f->env, address, &base, err, provider->user);
    KILN_CHECK((status == KILN_STATUS_OK) == (base != NULL));
    if (base != NULL) {
        KILN_CHECK(kiln_cl_is(base));
        base->device->close(base);
    }
    return status;
}

static bool any_device(cl_fixture *f)
{
    static const cl_settings none;
    char address[64];
    char line[192];
    kiln_error err = KILN_ERROR_INIT;
    if (!cl_fixture_env(f, &none)) {
        return false;
    }
    if (kilni_cl_device_describe(&f->env, 0, address, line, &err, NULL) != KILN_STATUS_OK) {
        kiln_test_skip("%s", err.message);
        cl_fixture_env_fini(f);
        return false;
    }
    KILN_CHECK_STR(address, "opencl:0");
    KILN_CHECK_CONTAINS(line, "compute units");
    return true;
}

static void test_addresses_that_open(void)
{
    static const char *const good[] = {"opencl:0", "opencl:", "opencl", "opencl:0/0", "0"};
    cl_fixture f;
    if (!any_device(&f)) {
        return;
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        kiln_error err = KILN_ERROR_INIT;
        if (open_only(&f, good[i], &err) != KILN_STATUS_OK) {
            KILN_FAIL("%s: %s", good[i], err.message);
        }
    }
    cl_fixture_env_fini(&f);
}

static void test_address_by_name(void)
{
    cl_fixture f;
    cl_fixture named;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    char address[64] = "opencl:name=";
    strncat(address, f.base->device->info(f.base)->name, 5);
    address[12] ^= 0x20; // the other case
    cl_settings settings = {.address = address};
    if (cl_fixture_open(&named, &settings)) {
        KILN_CHECK_STR(named.base->device->info(named.base)->name,
                       f.base->device->info(f.base)->name);
        cl_fixture_close(&named);
    }
    cl_fixture_close(&f);
}

static void test_index_out_of_range_says_how_many(void)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    if (!any_device(&f)) {
        return;
    }
    KILN_CHECK_INT(open_only(&f, "opencl:999", &err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_CONTAINS(err.message, "no OpenCL device 999: there ");
    KILN_CHECK_CONTAINS(err.message, "counted from 0");
    KILN_CHECK_INT(open_only(&f, "opencl:0/999", &err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_CONTAINS(err.message, "platform 0 has");
    KILN_CHECK_INT(open_only(&f, "opencl:99/0", &err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_CONTAINS(err.message, "no OpenCL platform 99");
    KILN_CHECK_INT(open_only(&f, "opencl:99999999999999999999", &err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(open_only(&f, "opencl:name=no such device", &err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_CONTAINS(err.message, "no such device");
    cl_fixture_env_fini(&f);
}

/// A device in as many parts as it has compute units; they are devices of their own.
static void test_parts(void)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    char address[64];
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    const kiln_device_info *info = f.base->device->info(f.base);
    uint32_t units = info->compute_units;
    bool is_cpu = info->type == KILN_DEVICE_CPU;
    cl_fixture_close(&f);
    if (!is_cpu) {
        kiln_test_skip("this kind of device has no parts");
        return;
    }
    snprintf(address, sizeof(address), "opencl:0#%u/%u", units - 1, units);
    cl_settings settings = {.address = address};
    if (cl_fixture_open(&f, &settings)) {
        KILN_CHECK_INT(f.base->device->info(f.base)->compute_units, 1);
        cl_fixture_close(&f);
    }
    if (!any_device(&f)) {
        return;
    }
    snprintf(address, sizeof(address), "opencl:0#0/%u", units + 1);
    KILN_CHECK_INT(open_only(&f, address, &err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_CONTAINS(err.message, "compute units");
    static const char *const wrong[] = {"opencl:0#", "opencl:0#1", "opencl:0#1/1", "opencl:0#0/2x"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        KILN_CHECK_INT(open_only(&f, wrong[i], &err), KILN_STATUS_INVALID_ARGUMENT);
    }
    cl_fixture_env_fini(&f);
}

static void test_malformed_addresses(void)
{
    static const char *const bad[] = {"opencl:x", "opencl:-1",    "opencl:0/", "opencl:0x",
                                      "cuda:0",   "opencl:0/0/0", "opencl: 0"};
    cl_fixture f;
    if (!any_device(&f)) {
        return;
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        kiln_error err = KILN_ERROR_INIT;
        if (open_only(&f, bad[i], &err) != KILN_STATUS_INVALID_ARGUMENT) {
            KILN_FAIL("%s gives %d: %s", bad[i], err.code, err.message);
        }
    }
    cl_fixture_env_fini(&f);
}

static void test_description_ends(void)
{
    cl_fixture f;
    char address[64];
    char line[192];
    kiln_error err = KILN_ERROR_INIT;
    size_t count = 0;
    if (!any_device(&f)) {
        return;
    }
    while (kilni_cl_device_describe(&f.env, count, address, line, &err, NULL) == KILN_STATUS_OK) {
        count++;
    }
    KILN_CHECK(count >= 1);
    KILN_CHECK_INT(err.code, KILN_STATUS_NOT_FOUND);
    KILN_CHECK_CONTAINS(err.message, "OpenCL devices");
    cl_fixture_env_fini(&f);
}

static void test_facts(void)
{
    cl_fixture f;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    const kiln_device_info *info = f.base->device->info(f.base);
    KILN_CHECK(info->name[0] != '\0' && info->driver[0] != '\0' && info->platform[0] != '\0');
    KILN_CHECK(info->compute_units >= 1);
    KILN_CHECK(info->memory_align >= 4);
    KILN_CHECK(info->cl_version >= 120);
    KILN_CHECK(info->memory_bytes > 0 && info->max_alloc_bytes > 0);
    KILN_CHECK(info->bytes_per_s > 0 && info->launch_ns > 0 && info->flops_f32 > 0);
    size_t parameters = 0;
    KILN_CHECK_INT(clGetDeviceInfo(f.backend->device, CL_DEVICE_MAX_PARAMETER_SIZE,
                                   sizeof(parameters), &parameters, NULL),
                   CL_SUCCESS);
    KILN_CHECK(parameters >= 256); // of the embedded profile
    KILN_CHECK_INT(info->max_parameter_bytes, parameters);
    cl_ulong cache = 0; // a processor has a share of it
    KILN_CHECK_INT(clGetDeviceInfo(f.backend->device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE,
                                   sizeof(cache), &cache, NULL),
                   CL_SUCCESS);
    KILN_CHECK(info->cache_bytes <= cache && (info->cache_bytes > 0) == (cache > 0));
    KILN_CHECK(info->type != KILN_DEVICE_CPU || info->cache_bytes <= 32u << 20 ||
               info->cache_bytes <= (uint64_t)info->compute_units << 23);
    KILN_CHECK((info->features & KILN_FEATURE_PROGRAMS) != 0);
    KILN_CHECK(info->fingerprint.low != 0 || info->fingerprint.high != 0);
    uint32_t blas = (info->features & KILN_FEATURE_COMPILER) != 0 ? KILN_USAGE_ACCELERATED : 0;
    KILN_CHECK_INT(f.base->device->dtype_usage(f.base, KILN_DTYPE_F32),
                   KILN_USAGE_STORAGE | KILN_USAGE_ARITHMETIC | blas);
    KILN_CHECK_INT(f.base->device->dtype_usage(f.base, KILN_DTYPE_BF16), KILN_USAGE_STORAGE);
    KILN_CHECK_INT(f.base->device->dtype_usage(f.base, KILN_DTYPE_NONE), 0);
    cl_fixture_close(&f);
}

static void test_two_backends_on_one_device(void)
{
    cl_fixture a;
    cl_fixture b;
    if (!cl_fixture_open(&a, NULL)) {
        return;
    }
    if (cl_fixture_open(&b, NULL)) {
        KILN_CHECK(a.backend->context != b.backend->context);
        cl_fixture_close(&b);
    }
    cl_fixture_close(&a);
}

static unsigned open_files(void)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder != NULL && readdir(folder) != NULL) {
        count++;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return count;
}

static void test_opening_again_leaves_nothing(void)
{
    cl_fixture f;
    cl_settings settings = {.cache = kiln_test_tmpdir()};
    unsigned before = 0;
    for (int i = 0; i < 20; i++) {
        if (!cl_fixture_open(&f, &settings)) {
            return;
        }
        bool pocl = f.backend->pocl;
        cl_context context = f.backend->context;
        clRetainContext(context);
        f.base->memory->free(f.base, cl_fixture_buffer(&f, sizeof(i), &i));
        cl_fixture_close(&f);
        if (pocl) { // other drivers count as they like
            KILN_CHECK_INT(cl_fixture_references(context), 0);
        }
        clReleaseContext(context);
        before = i == 1 ? open_files() : before;
    }
    KILN_CHECK_INT(open_files(), before);
}

// Each allocation of an opening fails once; what was made before it goes back.
static void test_no_memory_at_open(void)
{
    cl_fixture f;
    kiln_config *config = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_allocator plain = kiln_allocator_default();
    if (!any_device(&f)) {
        return;
    }
    kiln_config_destroy(f.env.config);
    kiln_faults_init(&f.faults);
    KILN_CHECK_INT(kiln_config_create(&plain, NULL, false, &config, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_config_set(config, "cache-dir", kiln_test_tmpdir(), KILN_ORIGIN_FLAG, &err),
                   KILN_STATUS_OK);
    f.env.config = config;
    size_t k = 1;
    for (; kiln_faults_next(&f.faults, k); k++) {
        kiln_status status = open_only(&f, "opencl:0", &err);
        if (status != KILN_STATUS_OK && status != KILN_STATUS_RESOURCE_EXHAUSTED) {
            KILN_FAIL("allocation %zu: %s", k, err.message);
        }
    }
    KILN_CHECK(k > 5);
    kiln_config_destroy(config);
}

static void test_measure_is_remembered(void)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    cl_settings settings = {.cache = kiln_test_tmpdir()};
    if (!cl_fixture_open(&f, &settings)) {
        return;
    }
    KILN_CHECK_INT(kiln_cl_measure(f.base, &err), KILN_STATUS_OK);
    uint64_t bytes_per_s = f.base->device->info(f.base)->bytes_per_s;
    uint64_t launch_ns = f.base->device->info(f.base)->launch_ns;
    KILN_CHECK(bytes_per_s > 100000000 && launch_ns > 10);
    cl_fixture_close(&f);
    if (cl_fixture_open(&f, &settings)) {
        KILN_CHECK_INT(f.base->device->info(f.base)->bytes_per_s, bytes_per_s);
        KILN_CHECK_INT(f.base->device->info(f.base)->launch_ns, launch_ns);
        cl_fixture_close(&f);
    }
}

/// The device's info after opening with these settings.
static kiln_device_info opened(const cl_settings *settings)
{
    cl_fixture f;
    kiln_device_info info = {0};
    if (cl_fixture_open(&f, settings)) {
        kiln_backend_stats stats;
        info = *f.base->device->info(f.base);
        f.base->device->stats(f.base, &stats);
        KILN_CHECK_INT(stats.bytes_pooled + stats.bytes_peak + stats.kernels_launched, 0);
        cl_fixture_close(&f);
    }
    return info;
}

/// A processor is measured when choices are to be measured and the figures can be kept, once.
static void test_opening_measures_where_it_is_wanted(void)
{
    cl_settings settings = {.cache = kiln_test_path(kiln_test_tmpdir(), "opened")};
    kiln_device_info guess = opened(&settings);
    if (guess.type != KILN_DEVICE_CPU) {
        kiln_test_skip("the first device is no processor");
        return;
    }
    settings.tune = "lazy";
    settings.deterministic = "1";
    kiln_device_info fixed = opened(&settings);
    KILN_CHECK(fixed.bytes_per_s == guess.bytes_per_s && fixed.launch_ns == guess.launch_ns);
    settings.deterministic = NULL;
    cl_settings nowhere = {.tune = "lazy"};
    kiln_device_info unkept = opened(&nowhere);
    KILN_CHECK(unkept.bytes_per_s == guess.bytes_per_s && unkept.launch_ns == guess.launch_ns);
    kiln_device_info measured = opened(&settings);
    if (!measured.speeds_doubtful) { // on a busy machine nothing is found that counts
        KILN_CHECK(measured.bytes_per_s != guess.bytes_per_s && measured.bytes_per_s > 100000000);
        KILN_CHECK(measured.launch_ns != guess.launch_ns);
    }
    settings.tune = "off";
    kiln_device_info recalled = opened(&settings);
    KILN_CHECK_INT(recalled.bytes_per_s, measured.bytes_per_s);
    KILN_CHECK_INT(recalled.launch_ns, measured.launch_ns);
}

static const kilni_cl_speeds none = {.format = KILNI_CL_SPEEDS_FORMAT};

static void test_impossible_speeds_are_refused(void)
{
    kilni_cl_speeds busy = {.bytes_per_s = 122000000, .launch_ns = 20000};
    kilni_cl_speeds stuck = {.bytes_per_s = 9000000000, .launch_ns = 684000000};
    kilni_cl_speeds good = {.bytes_per_s = 9000000000, .launch_ns = 20000};
    kilni_cl_speeds board = {.bytes_per_s = 122000000, .launch_ns = 2000000};
    kilni_cl_speeds_refuse(&busy, KILN_DEVICE_CPU);
    kilni_cl_speeds_refuse(&stuck, KILN_DEVICE_GPU);
    kilni_cl_speeds_refuse(&good, KILN_DEVICE_CPU);
    kilni_cl_speeds_refuse(&board, KILN_DEVICE_ACCELERATOR);
    KILN_CHECK(busy.bytes_per_s == 0 && busy.launch_ns == 0);
    KILN_CHECK(stuck.bytes_per_s == 0 && stuck.launch_ns == 0);
    KILN_CHECK(good.bytes_per_s == 9000000000 && good.launch_ns == 20000);
    KILN_CHECK(board.bytes_per_s == 122000000 && board.launch_ns == 2000000);
}

static void test_speeds_change_only_for_clearly_better_ones(void)
{
    const kilni_cl_speeds stored = {KILNI_CL_SPEEDS_FORMAT, 1, 10000000000, 9000, 40, 40, 0};
    const kilni_cl_speeds near = {KILNI_CL_SPEEDS_FORMAT, 0, 14000000000, 7000, 3, 3, 0};
    const kilni_cl_speeds slower = {KILNI_CL_SPEEDS_FORMAT, 0, 2000000000, 90000, 3, 3, 0};
    const kilni_cl_speeds quicker = {KILNI_CL_SPEEDS_FORMAT, 0, 16000000000, 5000, 20, 3, 0};
    kilni_cl_speeds known = kilni_cl_speeds_merge(&stored, &near);
    KILN_CHECK(known.bytes_per_s == 10000000000 && known.launch_ns == 9000);
    KILN_CHECK(known.tries == 2 && !kilni_cl_speeds_doubtful(&known)); // what agrees makes sure
    known = kilni_cl_speeds_merge(&stored, &slower);
    KILN_CHECK(known.bytes_per_s == 10000000000 && known.launch_ns == 9000);
    KILN_CHECK(kilni_cl_speeds_doubtful(&known));
    known = kilni_cl_speeds_merge(&stored, &quicker);
    KILN_CHECK(known.bytes_per_s == 16000000000 && known.launch_ns == 5000);
    KILN_CHECK(kilni_cl_speeds_doubtful(&known)); // the runs of its copies were 20 percent apart
    known = kilni_cl_speeds_merge(&stored, &none);
    KILN_CHECK(known.bytes_per_s == 10000000000 && known.launch_ns == 9000);
    known = kilni_cl_speeds_merge(&none, &quicker);
    KILN_CHECK(known.bytes_per_s == 16000000000 && known.launch_ns == 5000);
    for (int i = 0; i < KILNI_CL_SPEEDS_TRIES; i++) {
        known = kilni_cl_speeds_merge(i == 0 ? &none : &known, &none);
        KILN_CHECK_INT(kilni_cl_speeds_doubtful(&known), i + 1 < KILNI_CL_SPEEDS_TRIES);
    }
}

/// What others did on the processors shows in how much less this process worked than it could.
static void test_disturbed_samples_do_not_count(void)
{
    const kiln_device_type cpu = KILN_DEVICE_CPU;
    KILN_CHECK(kilni_cl_sample_counts(cpu, 10000, 20000, 2)); // both worked all the time
    KILN_CHECK(kilni_cl_sample_counts(cpu, 10000, 15000, 2));
    KILN_CHECK(!kilni_cl_sample_counts(cpu, 10000, 10000, 2)); // one was kept off
    KILN_CHECK(!kilni_cl_sample_counts(cpu, 684000000, 3200, 1));
    KILN_CHECK(kilni_cl_sample_counts(cpu, 3200, 3000, 1));
    KILN_CHECK(kilni_cl_sample_counts(KILN_DEVICE_GPU, 10000, 10, 2)); // the host may sleep
}

static void test_old_speeds_are_measured_again(void)
{
    const uint64_t now_s = (uint64_t)time(NULL), day_s = 86400;
    const kilni_cl_speeds slower = {KILNI_CL_SPEEDS_FORMAT, 0, 2000000000, 90000, 3, 3, 0};
    const kilni_cl_speeds unsure = {KILNI_CL_SPEEDS_FORMAT, 0, 2000000000, 90000, 80, 80, 0};
    kilni_cl_speeds sure = {KILNI_CL_SPEEDS_FORMAT, 1, 10000000000, 9000, 3, 3, now_s};
    kilni_cl_speeds tried = {
        KILNI_CL_SPEEDS_FORMAT, KILNI_CL_SPEEDS_TRIES, 10000000000, 9000, 80, 80, now_s};
    KILN_CHECK(!kilni_cl_speeds_doubtful(&sure) && !kilni_cl_speeds_doubtful(&tried));
    sure.measured_s = tried.measured_s = now_s - day_s / 24;
    KILN_CHECK(!kilni_cl_speeds_doubtful(&sure) && kilni_cl_speeds_doubtful(&tried));
    sure.measured_s = now_s - 40 * day_s;
    KILN_CHECK(kilni_cl_speeds_doubtful(&sure));
    kilni_cl_speeds known = kilni_cl_speeds_merge(&sure, &slower);
    KILN_CHECK(known.bytes_per_s == 2000000000 && known.launch_ns == 90000); // it has become so
    KILN_CHECK(known.tries == 1 && !kilni_cl_speeds_doubtful(&known));
    known = kilni_cl_speeds_merge(&sure, &unsure);
    KILN_CHECK(known.bytes_per_s == 10000000000 && known.launch_ns == 9000);
    KILN_CHECK(!kilni_cl_speeds_doubtful(&known));
    sure.measured_s = now_s + 40 * day_s; // the clock was set back
    KILN_CHECK(!kilni_cl_speeds_doubtful(&sure));
}

/// The device's info when it is opened and the store says this of it.
static kiln_device_info opened_knowing(cl_settings *settings, const void *speeds, size_t bytes)
{
    cl_fixture f;
    settings->deterministic = "1"; // no measurement of its own
    if (cl_fixture_open(&f, settings)) {
        KILN_CHECK_INT(kiln_store_put(f.backend->store, KILN_STORE_DEVICES,
                                      kilni_cl_device_key(f.backend, "speeds"), speeds, bytes,
                                      NULL),
                       KILN_STATUS_OK);
        cl_fixture_close(&f);
    }
    settings->deterministic = NULL;
    return opened(settings);
}

static kilni_cl_speeds stored_speeds(cl_settings *settings)
{
    cl_fixture f;
    kiln_blob entry = {0};
    kilni_cl_speeds speeds = {0};
    settings->deterministic = "1";
    if (cl_fixture_open(&f, settings)) {
        KILN_CHECK_INT(kiln_store_get(f.backend->store, KILN_STORE_DEVICES,
                                      kilni_cl_device_key(f.backend, "speeds"), &entry, NULL),
                       KILN_STATUS_OK);
        KILN_CHECK_INT(entry.length, sizeof(speeds));
        if (entry.length == sizeof(speeds)) {
            memcpy(&speeds, entry.data, sizeof(speeds));
        }
        kiln_free(&f.env, entry.data);
        cl_fixture_close(&f);
    }
    settings->deterministic = NULL;
    return speeds;
}

static void test_doubtful_speeds_are_measured_again(void)
{
    cl_settings settings = {.cache = kiln_test_path(kiln_test_tmpdir(), "doubt"), .tune = "lazy"};
    const struct { // as processes before this form of the entry stored them
        uint32_t format;
        uint32_t reserved;
        uint64_t bytes_per_s;
        uint64_t launch_ns;
    } old = {1, 0, 122000000, 684000000};
    kilni_cl_speeds wrong = {KILNI_CL_SPEEDS_FORMAT, 1, 1000000001, 999999, 80, 80, 0};
    kilni_cl_speeds sure = {KILNI_CL_SPEEDS_FORMAT, 1, 1000000001, 999999, 2, 2, 0};
    kilni_cl_speeds tried = {
        KILNI_CL_SPEEDS_FORMAT, KILNI_CL_SPEEDS_TRIES, 1000000001, 999999, 80, 80, 0};
    kiln_device_info info = opened_knowing(&settings, &old, sizeof(old));
    if (info.type != KILN_DEVICE_CPU) {
        kiln_test_skip("the first device is no processor");
        return;
    }
    KILN_CHECK(info.bytes_per_s > 1000000000 && info.launch_ns < 1000000);
    info = opened_knowing(&settings, &wrong, sizeof(wrong));
    kilni_cl_speeds after = stored_speeds(&settings);
    KILN_CHECK_INT(after.tries, 2);
    KILN_CHECK(info.bytes_per_s == after.bytes_per_s && info.launch_ns == after.launch_ns);
    KILN_CHECK(info.bytes_per_s == wrong.bytes_per_s || info.bytes_per_s > 1500000000);
    KILN_CHECK(info.launch_ns == wrong.launch_ns || info.launch_ns < 666667);
    info = opened_knowing(&settings, &sure, sizeof(sure));
    KILN_CHECK(info.bytes_per_s == 1000000001 && info.launch_ns == 999999);
    info = opened_knowing(&settings, &tried, sizeof(tried));
    KILN_CHECK(info.bytes_per_s == 1000000001 && info.launch_ns == 999999);
}

/// What tournaments found wrong is measured again, though it seemed sure.
static void test_doubted_speeds_are_measured_again(void)
{
    cl_settings settings = {.cache = kiln_test_path(kiln_test_tmpdir(), "doubted"), .tune = "lazy"};
    const kilni_cl_speeds sure = {KILNI_CL_SPEEDS_FORMAT, 1, 1000000001, 999999, 2, 2, 0};
    kiln_device_info info = opened_knowing(&settings, &sure, sizeof(sure));
    KILN_CHECK(!info.speeds_doubtful);
    cl_fixture f;
    settings.deterministic = "1";
    if (!cl_fixture_open(&f, &settings)) {
        return;
    }
    f.base->device->doubt_speeds(f.base);
    cl_fixture_close(&f);
    settings.deterministic = NULL;
    (void)opened(&settings);
    kilni_cl_speeds after = stored_speeds(&settings);
    KILN_CHECK(after.measured_s > 1 && after.tries == 1);
}

KILN_TEST_MAIN("unit/cl_backend/device", KILN_TEST(test_addresses_that_open),
               KILN_TEST(test_address_by_name), KILN_TEST(test_index_out_of_range_says_how_many),
               KILN_TEST(test_parts), KILN_TEST(test_malformed_addresses),
               KILN_TEST(test_description_ends), KILN_TEST(test_facts),
               KILN_TEST(test_two_backends_on_one_device),
               KILN_TEST(test_opening_again_leaves_nothing), KILN_TEST(test_no_memory_at_open),
               KILN_TEST(test_measure_is_remembered),
               KILN_TEST(test_opening_measures_where_it_is_wanted),
               KILN_TEST(test_impossible_speeds_are_refused),
               KILN_TEST(test_disturbed_samples_do_not_count),
               KILN_TEST(test_old_speeds_are_measured_again),
               KILN_TEST(test_speeds_change_only_for_clearly_better_ones),
               KILN_TEST(test_doubtful_speeds_are_measured_again),
               KILN_TEST(test_doubted_speeds_are_measured_again))
