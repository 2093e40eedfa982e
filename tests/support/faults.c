// SPDX-License-Identifier: MIT OR Apache-2.0
// The failing allocator of the tests. It decides nothing about what a failure should look like:
// that is checked by the test that runs under it.
#include "faults.h"

#include <stdlib.h>

#include "harness.h"

static bool fails(kiln_faults *faults, size_t number)
{
    size_t at = atomic_load(&faults->fail_at);
    return at != 0 && (number == at || (number > at && atomic_load(&faults->persistent)));
}

static void *faults_alloc(void *user, size_t bytes, size_t alignment)
{
    kiln_faults *faults = user;
    size_t number = atomic_fetch_add(&faults->requests, 1) + 1;
    if (fails(faults, number)) {
        return NULL;
    }
    size_t grain = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    void *pointer = NULL;
    if (posix_memalign(&pointer, grain, bytes == 0 ? 1 : bytes) != 0) {
        return NULL;
    }
    atomic_fetch_add(&faults->live, 1);
    return pointer;
}

static void faults_free(void *user, void *pointer)
{
    kiln_faults *faults = user;
    if (pointer != NULL) {
        atomic_fetch_sub(&faults->live, 1);
        free(pointer);
    }
}

void kiln_faults_init(kiln_faults *faults)
{
    faults->allocator = (kiln_allocator){faults_alloc, faults_free, faults};
    atomic_init(&faults->requests, 0);
    atomic_init(&faults->live, 0);
    atomic_init(&faults->fail_at, 0);
    atomic_init(&faults->persistent, false);
    faults->started = false;
}

bool kiln_faults_next(kiln_faults *faults, size_t k)
{
    if (atomic_load(&faults->live) != 0) {
        KILN_FAIL("failing request %zu leaked %zu allocations", atomic_load(&faults->fail_at),
                  atomic_load(&faults->live));
        return false;
    }
    size_t at = atomic_load(&faults->fail_at);
    bool more = !faults->started || atomic_load(&faults->requests) >= at;
    faults->started = true;
    atomic_store(&faults->fail_at, k);
    atomic_store(&faults->requests, 0);
    return more;
}
