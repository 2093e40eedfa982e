// SPDX-License-Identifier: MIT OR Apache-2.0
// PoCL's workers are bound to processors, one to each, unless the environment or the processors of
// this process say otherwise. Each case is a process, since PoCL reads its environment once.

#define _GNU_SOURCE // sched_getaffinity, CPU_COUNT

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cl_fixture.h"

enum { TWO_SHARE = 199, NO_POCL = 200, NO_DEVICE = 201 };

/// Threads of this process that may run on one processor only; TWO_SHARE when two share one.
static int bound_threads(void)
{
    cpu_set_t taken, own, shared;
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CPU_ZERO(&taken);
    for (struct dirent *e = tasks == NULL ? NULL : readdir(tasks); e != NULL; e = readdir(tasks)) {
        pid_t thread = (pid_t)strtol(e->d_name, NULL, 10);
        if (thread == 0 || sched_getscheduler(thread) == SCHED_IDLE || // no worker: base's awake.c
            sched_getaffinity(thread, sizeof(own), &own) != 0 || CPU_COUNT(&own) != 1) {
            continue;
        }
        CPU_AND(&shared, &own, &taken);
        if (CPU_COUNT(&shared) != 0) {
            count = TWO_SHARE;
            break;
        }
        CPU_OR(&taken, &taken, &own);
        count++;
    }
    if (tasks != NULL) {
        closedir(tasks);
    }
    return count;
}

static int open_and_count(void)
{
    cl_fixture f;
    if (!cl_fixture_open(&f, NULL)) {
        return NO_DEVICE;
    }
    bool pocl = strstr(f.base->device->info(f.base)->name, "pthread") != NULL;
    int count = bound_threads();
    cl_fixture_close(&f);
    return pocl ? count : NO_POCL;
}

/// Bound threads of a process that opens the device with `name` set to `value` (NULL: neither is
/// set), on `processors` of this process's (0: all).
static int count_in_child(const char *name, const char *value, size_t processors)
{
    int state = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        cpu_set_t set;
        unsetenv("POCL_AFFINITY");
        unsetenv("POCL_MAX_PTHREAD_COUNT");
        if (name != NULL) {
            setenv(name, value, 1);
        }
        CPU_ZERO(&set);
        for (size_t i = 0; i < processors; i++) {
            CPU_SET(i, &set);
        }
        if (processors > 0 && sched_setaffinity(0, sizeof(set), &set) != 0) {
            _exit(NO_DEVICE);
        }
        _exit(open_and_count());
    }
    KILN_CHECK(child > 0 && waitpid(child, &state, 0) == child && WIFEXITED(state));
    return WEXITSTATUS(state);
}

static bool is_whole_machine(void)
{
    cpu_set_t mine;
    CPU_ZERO(&mine);
    return sched_getaffinity(0, sizeof(mine), &mine) == 0 && CPU_COUNT(&mine) > 1 &&
           CPU_COUNT(&mine) == sysconf(_SC_NPROCESSORS_CONF);
}

static void test_each_worker_has_a_processor(void)
{
    if (!is_whole_machine()) {
        kiln_test_skip("this process may not use several processors, all that there are");
        return;
    }
    int count = count_in_child(NULL, NULL, 0);
    if (count == NO_DEVICE || count == NO_POCL) {
        kiln_test_skip("the first device is not PoCL's");
        return;
    }
    KILN_CHECK_INT(count, sysconf(_SC_NPROCESSORS_CONF));
}

static void test_where_none_is_bound(void)
{
    if (!is_whole_machine()) {
        kiln_test_skip("this process may not use several processors, all that there are");
        return;
    }
    int count = count_in_child("POCL_AFFINITY", "0", 0);
    if (count == NO_DEVICE || count == NO_POCL) {
        kiln_test_skip("the first device is not PoCL's");
        return;
    }
    KILN_CHECK_INT(count, 0);
    KILN_CHECK_INT(count_in_child("POCL_MAX_PTHREAD_COUNT", "2", 0), 0);
    if (sysconf(_SC_NPROCESSORS_CONF) > 2) {
        KILN_CHECK_INT(count_in_child(NULL, NULL, 2), 0);
    }
}

KILN_TEST_MAIN("unit/cl_backend/quirks/workers", KILN_TEST(test_each_worker_has_a_processor),
               KILN_TEST(test_where_none_is_bound))
