// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs loaded before they are asked for: a second opening finds them ready, in whatever order
// they are asked for; another beginning ends it; a list or an entry that is wrong costs nothing but
// the head start. Each opening stands for a process: the list is found by the process's arguments.

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cl_fixture.h"
#include "cl_rest.h"
#include "cl_touch.h"

enum { MOST = 20, WAIT_STEPS = 3000 };

typedef struct outcome {
    uint64_t built;
    uint64_t loaded;
    uint64_t ahead;
    uint64_t damaged;
} outcome;

static void pause_ms(long ms)
{
    struct timespec pause = {.tv_nsec = ms * 1000000};
    nanosleep(&pause, NULL);
}

/// Waits until `count` programs are ready; slow machines get half a minute.
static uint32_t wait_ready(cl_fixture *f, uint32_t count)
{
    for (int i = 0; i < WAIT_STEPS && kilni_cl_ahead_ready(f->backend) < count; i++) {
        pause_ms(10);
    }
    return kilni_cl_ahead_ready(f->backend);
}

/// Program `number` writes its number.
static void run_program(cl_fixture *f, int number)
{
    static const char *const name = "number";
    char source[160];
    cl_program_text text;
    kiln_built *built = NULL;
    kiln_error err = KILN_ERROR_INIT;
    int got = -1;
    snprintf(source, sizeof(source), "__kernel void number(__global int *x) { x[0] = %d; }\n",
             number);
    cl_program_text_init(&text, source, &name, 1);
    if (!KILN_CHECK_INT(f->base->program->build(f->base, &text.program, &built, &err),
                        KILN_STATUS_OK)) {
        return;
    }
    kiln_buffer *buffer = cl_fixture_buffer(f, sizeof(int), NULL);
    kiln_launch_arg arg = {.kind = KILN_VALUE_BUFFER, .buffer = buffer};
    kiln_launch launch = {
        .n_dims = 1, .global = {1, 1, 1}, .local = {1, 1, 1}, .args = &arg, .n_args = 1};
    KILN_CHECK_INT(f->base->program->launch(f->base, built, &launch, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(f->base->transfer->read(f->base, buffer, 0, &got, sizeof(got), &err),
                   KILN_STATUS_OK);
    KILN_CHECK_INT(got, number);
    f->base->memory->free(f->base, buffer);
    f->base->program->free(f->base, built);
}

static outcome counts(cl_fixture *f)
{
    kiln_backend_stats stats;
    kiln_cl_counters counters;
    f->base->device->stats(f->base, &stats);
    kiln_cl_counters_get(f->base, &counters);
    return (outcome){.built = stats.programs_built,
                     .loaded = stats.programs_loaded,
                     .ahead = counters.programs_ahead,
                     .damaged = counters.cache_damaged};
}

/// One opening that waits for `ready` programs, then asks for `programs`, ended by -1.
static bool live_with(const cl_settings *settings, uint32_t ready, const int *programs,
                      outcome *out)
{
    cl_fixture f;
    if (!cl_fixture_open(&f, settings)) {
        return false;
    }
    KILN_CHECK(wait_ready(&f, ready) >= ready);
    for (; *programs >= 0; programs++) {
        run_program(&f, *programs);
    }
    *out = counts(&f);
    cl_fixture_close(&f);
    return true;
}

static bool live(const char *folder, uint32_t ready, const int *programs, outcome *out)
{
    cl_settings settings = {.cache = folder};
    return live_with(&settings, ready, programs, out);
}

static const int three[] = {1, 2, 3, -1};

static void test_second_opening(void)
{
    static const int other_order[] = {3, 1, 2, 4, -1};
    outcome out = {0};
    const char *folder = kiln_test_tmpdir();
    if (!live(folder, 0, three, &out)) {
        return;
    }
    KILN_CHECK_INT(out.built, 3);
    KILN_CHECK_INT(out.ahead, 0);
    KILN_CHECK(live(folder, 3, three, &out));
    KILN_CHECK_INT(out.built, 0);
    KILN_CHECK_INT(out.loaded, 3);
    KILN_CHECK_INT(out.ahead, 3);
    KILN_CHECK(live(folder, 3, other_order, &out));
    KILN_CHECK_INT(out.built, 1);
    KILN_CHECK_INT(out.ahead, 3);
    KILN_CHECK(live(folder, 4, other_order, &out)); // the new beginning was remembered
    KILN_CHECK_INT(out.built, 0);
    KILN_CHECK_INT(out.ahead, 4);
}

// Without waiting, whoever comes first loads a program; never both, never nobody.
static void test_race(void)
{
    outcome out = {0};
    const char *folder = kiln_test_tmpdir();
    if (!live(folder, 0, three, &out)) {
        return;
    }
    for (int i = 0; i < 10; i++) {
        KILN_CHECK(live(folder, 0, three, &out));
        KILN_CHECK_INT(out.built, 0);
        KILN_CHECK_INT(out.loaded, 3);
    }
}

// Who asks for less leaves the list as it is, who asks for nothing too.
static void test_shorter_beginning(void)
{
    static const int one[] = {1, -1}, none[] = {-1};
    outcome out = {0};
    const char *folder = kiln_test_tmpdir();
    if (!live(folder, 0, three, &out)) {
        return;
    }
    KILN_CHECK(live(folder, 3, one, &out));
    KILN_CHECK_INT(out.ahead, 1);
    KILN_CHECK(live(folder, 3, none, &out));
    KILN_CHECK(live(folder, 3, three, &out));
    KILN_CHECK_INT(out.ahead, 3);
}

// The first opening measures the device, by a program that no later one asks for.
static void test_measured_device(void)
{
    static const int one[] = {1, -1};
    outcome out = {0};
    cl_settings settings = {.cache = kiln_test_tmpdir(), .tune = "lazy"};
    if (!live_with(&settings, 0, three, &out)) {
        return;
    }
    KILN_CHECK(live_with(&settings, 3, one, &out));
    KILN_CHECK(live_with(&settings, 3, three, &out));
    KILN_CHECK_INT(out.ahead, 3);
}

// A question that the list does not answer: what is ready stays, and nothing more is loaded ahead.
static void test_stays_near_and_stops(void)
{
    enum { NEAR = 16 };
    int all[MOST + 1];
    outcome out = {0};
    cl_fixture f;
    cl_settings settings = {.cache = kiln_test_tmpdir()};
    for (int i = 0; i < MOST; i++) {
        all[i] = i;
    }
    all[MOST] = -1;
    if (!live(settings.cache, 0, all, &out) || !cl_fixture_open(&f, &settings)) {
        return;
    }
    KILN_CHECK_INT(wait_ready(&f, NEAR), NEAR);
    pause_ms(100);
    KILN_CHECK_INT(kilni_cl_ahead_ready(f.backend), NEAR);
    run_program(&f, 0);
    KILN_CHECK_INT(wait_ready(&f, NEAR), NEAR); // one more for the one that was taken
    run_program(&f, MOST); // in no list
    run_program(&f, 1);
    pause_ms(100);
    KILN_CHECK_INT(kilni_cl_ahead_ready(f.backend), NEAR - 1);
    out = counts(&f);
    KILN_CHECK_INT(out.built, 1);
    KILN_CHECK_INT(out.ahead, 2);
    cl_fixture_close(&f);
}

// ---- what is wrong in the store ----

typedef enum wrong { CUT, LONGER, HUGE_COUNT, LONG_OPTIONS, OTHER_DEVICE, EMPTY, WRONGS } wrong;

/// Bytes of the list: magic and format 8, fingerprint 16, count 8; for each its key 16, length 4.
static size_t spoil(wrong how, unsigned char *bytes, size_t length)
{
    switch (how) {
    case CUT:
        return length - 1;
    case LONGER:
        return length + 1;
    case HUGE_COUNT:
        memset(bytes + 24, 0xff, 8);
        return length;
    case LONG_OPTIONS:
        memset(bytes + 48, 0xff, 4);
        return length;
    case OTHER_DEVICE:
        bytes[8] ^= 1;
        return length;
    default:
        return 0;
    }
}

static bool spoil_lists(const char *folder, wrong how)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    kiln_hash128 keys[KILNI_CL_AHEAD_KEYS];
    cl_settings settings = {.cache = folder};
    bool done = cl_fixture_open(&f, &settings);
    kilni_cl_ahead_keys(kiln_test_address("opencl:0"), keys);
    for (size_t i = 0; i < KILNI_CL_AHEAD_KEYS && done; i++) {
        kiln_blob blob = {0};
        unsigned char bytes[4096] = {0};
        done = KILN_CHECK_INT(
            kiln_store_get(f.backend->store, KILN_STORE_STARTS, keys[i], &blob, &err),
            KILN_STATUS_OK);
        if (done && KILN_CHECK(blob.length > 56 && blob.length < sizeof(bytes))) {
            memcpy(bytes, blob.data, blob.length);
            KILN_CHECK_INT(kiln_store_put(f.backend->store, KILN_STORE_STARTS, keys[i], bytes,
                                          spoil(how, bytes, blob.length), &err),
                           KILN_STATUS_OK);
        }
        kiln_free(&f.env, blob.data);
    }
    if (done) {
        cl_fixture_close(&f);
    }
    return done;
}

static void test_wrong_lists(void)
{
    outcome out = {0};
    const char *folder = kiln_test_tmpdir();
    if (!live(folder, 0, three, &out)) {
        return;
    }
    for (wrong how = 0; how < WRONGS; how++) {
        if (!spoil_lists(folder, how)) {
            return;
        }
        KILN_CHECK(live(folder, 0, three, &out));
        KILN_CHECK_INT(out.built, 0);
        KILN_CHECK_INT(out.loaded, 3);
        KILN_CHECK_INT(out.ahead, 0);
        KILN_CHECK(live(folder, 3, three, &out)); // and was written anew
        KILN_CHECK_INT(out.ahead, 3);
    }
}

static void test_damaged_entry(void)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    outcome out = {0};
    cl_settings settings = {.cache = kiln_test_tmpdir()};
    if (!live(settings.cache, 0, three, &out) || !cl_fixture_open(&f, &settings)) {
        return;
    }
    run_program(&f, 1);
    KILN_CHECK_INT(f.backend->start.n_wishes, 1);
    KILN_CHECK_INT(kiln_store_put(f.backend->store, KILN_STORE_PROGRAMS,
                                  f.backend->start.wishes[0].key, "no program", 10, &err),
                   KILN_STATUS_OK);
    cl_fixture_close(&f);
    KILN_CHECK(live(settings.cache, 2, three, &out));
    KILN_CHECK_INT(out.damaged, 1);
    KILN_CHECK_INT(out.built, 1);
    KILN_CHECK_INT(out.ahead, 2);
}

static void test_entries_are_gone(void)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    outcome out = {0};
    kiln_hash128 keys[KILNI_CL_AHEAD_KEYS];
    kiln_blob list = {0};
    cl_settings settings = {.cache = kiln_test_tmpdir()};
    if (!live(settings.cache, 0, three, &out) || !cl_fixture_open(&f, &settings)) {
        return;
    }
    kilni_cl_ahead_keys(kiln_test_address("opencl:0"), keys);
    KILN_CHECK_INT(kiln_store_get(f.backend->store, KILN_STORE_STARTS, keys[0], &list, &err),
                   KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_store_clear(f.backend->store, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(
        kiln_store_put(f.backend->store, KILN_STORE_STARTS, keys[0], list.data, list.length, &err),
        KILN_STATUS_OK);
    kiln_free(&f.env, list.data);
    cl_fixture_close(&f);
    KILN_CHECK(live(settings.cache, 0, three, &out));
    KILN_CHECK_INT(out.built, 3);
    KILN_CHECK_INT(out.damaged, 0);
}

// Closing does not wait for the rest, and leaves nothing: the fixture counts.
static void test_close_at_once(void)
{
    static const int none[] = {-1};
    outcome out = {0};
    const char *folder = kiln_test_tmpdir();
    if (!live(folder, 0, three, &out)) {
        return;
    }
    for (int i = 0; i < 20; i++) {
        KILN_CHECK(live(folder, 0, none, &out));
        KILN_CHECK_INT(out.loaded, 0);
    }
}

static void test_without_a_cache(void)
{
    outcome out = {0};
    for (int i = 0; i < 2; i++) {
        if (!live("off", 0, three, &out)) {
            return;
        }
        KILN_CHECK_INT(out.built, 3);
    }
}

// The store cannot be opened: everything works, and the log says why.
static void test_no_store(void)
{
    outcome out = {0};
    char path[4200];
    snprintf(path, sizeof(path), "%s/file", kiln_test_tmpdir());
    kiln_test_write_file(path, "x", 1);
    if (live(path, 0, three, &out)) {
        KILN_CHECK_INT(out.built, 3);
        KILN_CHECK_INT(out.ahead, 0);
    }
}

// An address that does not open ends the thread, with the store in its hands.
static void test_wrong_address(void)
{
    cl_fixture f;
    cl_settings settings = {.cache = kiln_test_tmpdir()};
    kiln_error err = KILN_ERROR_INIT;
    const kiln_backend_provider *provider = kiln_cl_provider();
    if (!cl_fixture_env(&f, &settings)) {
        return;
    }
    for (int i = 0; i < 5; i++) {
        KILN_CHECK(provider->open(&f.env, "opencl:name=no such device", &f.base, &err,
                                  provider->user) != KILN_STATUS_OK);
        KILN_CHECK(f.base == NULL);
    }
    cl_fixture_env_fini(&f);
}

// Libraries are touched once, when no more of them come; what is closed already is left alone.
static void test_touches_new_libraries(void)
{
    kilni_cl_touch touch = {.least_bytes = SIZE_MAX};
    kilni_cl_touch_libraries(&touch);
    size_t before = touch.libraries;
    touch.least_bytes = 1;
    kilni_cl_touch_libraries(&touch);
    KILN_CHECK_INT(touch.n_parts, 0);
    KILN_CHECK_INT(touch.bytes, 0);
    const char *carried = getenv("KILN_TEST_BUILD_DIR"); // on another machine
    const char *file = kiln_test_path(carried != NULL ? carried : KILN_TEST_BUILD_DIR,
                                      "lib/kiln/plugins/elementwise.so");
    void *library = dlopen(file, RTLD_NOW);
    if (!KILN_CHECK(library != NULL)) {
        return;
    }
    kilni_cl_touch_libraries(&touch);
    KILN_CHECK_INT(touch.libraries, before + 1);
    KILN_CHECK_INT(touch.n_parts, 1);
    KILN_CHECK_INT(touch.bytes, 0);
    size_t bytes = touch.parts[0].bytes;
    for (int i = 0; i < 2; i++) {
        kilni_cl_touch_libraries(&touch);
        KILN_CHECK_INT(touch.n_parts, 0);
        KILN_CHECK_INT(touch.bytes, bytes);
    }
    KILN_CHECK(dlsym(library, "kf_plugin_query_v1") != NULL);
    dlclose(library);
}

// What loading the driver and compiling brought of the compiler's code goes with the next opening,
// and comes back for what is compiled then.
static void test_compiler_rests(void)
{
    enum { LEAST = 16 << 20 };
    cl_fixture f;
    cl_settings settings = {.cache = kiln_test_tmpdir()};
    if (!cl_fixture_open(&f, &settings)) {
        return;
    }
    run_program(&f, 101);
    cl_fixture_close(&f);
    uint64_t before = kiln_test_resident("/libLLVM");
    if (before < LEAST) {
        kiln_test_skip("the driver does not compile by LLVM here");
        return;
    }
    KILN_CHECK(kilni_cl_rest_compiler() >= before);
    KILN_CHECK(kiln_test_resident("/libLLVM") < before / 4);
    if (!cl_fixture_open(&f, &settings)) {
        return;
    }
    run_program(&f, 102);
    cl_fixture_close(&f);
    KILN_CHECK(kiln_test_resident("/libLLVM") > before / 4);
    settings.cache = kiln_test_tmpdir();
    if (cl_fixture_open(&f, &settings)) {
        KILN_CHECK(kiln_test_resident("/libLLVM") < before / 2);
        cl_fixture_close(&f);
    }
}

KILN_TEST_MAIN("unit/cl_backend/ahead", KILN_TEST(test_second_opening), KILN_TEST(test_race),
               KILN_TEST(test_shorter_beginning), KILN_TEST(test_measured_device),
               KILN_TEST(test_stays_near_and_stops), KILN_TEST(test_wrong_lists),
               KILN_TEST(test_damaged_entry), KILN_TEST(test_entries_are_gone),
               KILN_TEST(test_close_at_once), KILN_TEST(test_without_a_cache),
               KILN_TEST(test_no_store), KILN_TEST(test_wrong_address),
               KILN_TEST(test_touches_new_libraries), KILN_TEST(test_compiler_rests))
