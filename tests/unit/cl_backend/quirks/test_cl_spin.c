// SPDX-License-Identifier: MIT OR Apache-2.0
// Workers of PoCL that look for work before they sleep: only while somebody waits and shortly
// after, never for long without work, and what they use up is not counted as this process's work.

#include <time.h>

#include "cl_fixture.h"

enum { ROUNDS = 300 };

static const uint64_t ms = 1000000;

static void nap(uint64_t ns)
{
    const struct timespec time = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    nanosleep(&time, NULL);
}

static uint64_t all_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/// A device whose workers look, without threads that keep processors awake. Skips where none do.
static kilni_cl_spin *open_spin(cl_fixture *f)
{
    if (!cl_fixture_open(f, NULL)) {
        return NULL;
    }
    bool found = f->backend->flight.spin != NULL;
    kilni_cl_queue_leave(f->backend); // its own and those threads are at rest
    kilni_cl_spin *spin = found
                              ? kilni_cl_spin_open(&f->env, f->backend->context, f->backend->device,
                                                   f->backend->info.compute_units)
                              : NULL;
    if (spin == NULL) {
        kiln_test_skip("not a device of PoCL's with two to four workers");
        cl_fixture_close(f);
    }
    return spin;
}

static void do_nothing(kilni_cl_spin *spin)
{
    (void)spin;
}

/// The least processor time that 50 ms take behind `rouse`, and the most of it that is not this
/// process's work, of as many tries as it takes on a busy machine to see both.
static void watch(kilni_cl_spin *spin, void (*rouse)(kilni_cl_spin *spin),
                  void (*rest)(kilni_cl_spin *spin), uint64_t *out_least_ns, uint64_t *out_most_ns)
{
    enum { MOST_TRIES = 60 };
    *out_least_ns = UINT64_MAX;
    *out_most_ns = 0;
    for (int i = 0; i < MOST_TRIES && (*out_least_ns > 2 * ms || *out_most_ns < ms / 100); i++) {
        uint64_t own = kiln_processor_ns(), all = all_ns();
        rouse(spin);
        nap(50 * ms);
        all = all_ns() - all;
        own = kiln_processor_ns() - own;
        rest(spin);
        *out_least_ns = all < *out_least_ns ? all : *out_least_ns;
        *out_most_ns = all > own && all - own > *out_most_ns ? all - own : *out_most_ns;
    }
}

static void test_only_for_a_while(void)
{
    cl_fixture f;
    uint64_t least, most;
    kilni_cl_spin *spin = open_spin(&f);
    if (spin == NULL) {
        return;
    }
    // Somebody waits, and there is nothing to do: workers rest after 0.3 ms.
    watch(spin, kilni_cl_spin_begin, kilni_cl_spin_end, &least, &most);
    KILN_CHECK(least < 2 * ms); // a worker that never rested would use 50
    KILN_CHECK(most > ms / 100); // it did look, and that is not this process's work
    // A command, and nobody waits: 0.1 ms.
    watch(spin, kilni_cl_spin_queued, do_nothing, &least, &most);
    KILN_CHECK(least < 2 * ms);
    KILN_CHECK(most > ms / 100);
    kilni_cl_spin_close(spin);
    cl_fixture_close(&f);
}

static void test_life(void)
{
    cl_fixture f;
    kilni_cl_spin *spin = open_spin(&f);
    if (spin == NULL) {
        return;
    }
    kilni_cl_spin_close(spin);
    for (int i = 0; i < ROUNDS; i++) { // closed while workers turn, linger, and are on their way
        spin = kilni_cl_spin_open(&f.env, f.backend->context, f.backend->device,
                                  f.backend->info.compute_units);
        KILN_CHECK(spin != NULL);
        kilni_cl_spin_queued(spin);
        nap(i % 3 == 0 ? 50000 : 1);
        kilni_cl_spin_begin(spin);
        nap(i % 5 == 0 ? 20000 : 1);
        if (i % 2 == 0) {
            kilni_cl_spin_end(spin);
        }
        kilni_cl_spin_close(spin);
    }
    kilni_cl_spin_queued(NULL);
    kilni_cl_spin_begin(NULL);
    kilni_cl_spin_end(NULL);
    kilni_cl_spin_stop(NULL);
    kilni_cl_spin_close(NULL);
    cl_fixture_close(&f);
}

static void test_one_worker_needs_none(void)
{
    cl_fixture f;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    for (uint32_t workers = 0; workers < 2; workers++) {
        KILN_CHECK(kilni_cl_spin_open(&f.env, f.backend->context, f.backend->device, workers) ==
                   NULL);
    }
    KILN_CHECK(kilni_cl_spin_open(&f.env, f.backend->context, f.backend->device, 64) == NULL);
    cl_fixture_close(&f);
}

KILN_TEST_MAIN("unit/cl_backend/quirks/spin", KILN_TEST(test_only_for_a_while),
               KILN_TEST(test_life), KILN_TEST(test_one_worker_needs_none))
