// SPDX-License-Identifier: MIT OR Apache-2.0
// Ways in and out: one call opens context and device, one ends all that was made there; who ends
// each object alone may do so in any order; and a process that is forked leaves its parent alone.
#define _GNU_SOURCE // fork, waitpid
#include "faults.h"
#include "harness.h"
#include "kiln.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const float DATA[4] = {-2, -1, 1, 2};
static const int64_t DIMS[1] = {4};

static uint64_t live(kiln_device *device)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(device, &stats);
    return stats.tensors_live;
}

static void test_one_chain(void)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_device *device = NULL;
    kiln_tensor *x, *t, *y;
    float v[4] = {0};
    bool failed = kiln_open("reference", &device, &err) ||
                  kiln_tensor_create(device, KILN_DTYPE_F32, 1, DIMS, DATA, &x, &err) ||
                  kiln_mul_scalar(x, kiln_f64(3), &t, &err) || kiln_relu(t, &y, &err) ||
                  kiln_read(y, v, sizeof(v), &err);
    KILN_CHECK(!failed);
    const float want[4] = {0, 0, 3, 6};
    KILN_CHECK_MEM(v, want, sizeof(want));
    KILN_CHECK_INT((int)live(device), 3);
    kiln_close(device);
}

static void test_first_failure_is_told(void)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_device *device = NULL;
    kiln_tensor *x, *t, *y;
    const int64_t other[1] = {3};
    float v[4];
    bool failed = kiln_open("reference", &device, &err) ||
                  kiln_tensor_create(device, KILN_DTYPE_F32, 1, DIMS, DATA, &x, &err) ||
                  kiln_tensor_create(device, KILN_DTYPE_F32, 1, other, DATA, &t, &err) ||
                  kiln_add(x, t, &y, &err) || kiln_read(y, v, sizeof(v), &err);
    KILN_CHECK(failed);
    KILN_CHECK_CONTAINS(err.message, "[4]");
    KILN_CHECK_INT((int)live(device), 2);
    kiln_close(device);
    KILN_CHECK_INT(kiln_open("nothing:0", &device, &err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK(device == NULL);
    kiln_close(device);
    kiln_close(NULL);
}

static void test_released_before(void)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_device *device = NULL;
    kiln_tensor *x[5] = {NULL};
    KILN_CHECK_INT(kiln_open("reference", &device, &err), KILN_STATUS_OK);
    for (size_t i = 0; i < 5; i++) {
        KILN_CHECK_INT(kiln_tensor_create(device, KILN_DTYPE_F32, 1, DIMS, DATA, &x[i], &err),
                       KILN_STATUS_OK);
    }
    kiln_release(x[0]); // the oldest, one between, the newest
    kiln_release(x[2]);
    kiln_release(x[4]);
    KILN_CHECK_INT((int)live(device), 2);
    (void)kiln_retain(x[1]); // a second hold ends, too
    for (int i = 0; i < 1000; i++) {
        kiln_tensor *sum = NULL;
        KILN_CHECK_INT(kiln_add(x[1], x[3], &sum, &err), KILN_STATUS_OK);
        if (i % 2 == 0) {
            kiln_release(sum);
        }
    }
    kiln_close(device);
}

/// Whoever holds the context sees that the device has gone with its tensors.
static void test_device_ends(void)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_device *device = NULL;
    kiln_tensor *x = NULL;
    KILN_CHECK_INT(kiln_open("reference", &device, &err), KILN_STATUS_OK);
    kiln_device *again = NULL;
    KILN_CHECK_INT(kiln_device_open(kiln_device_context(device), "reference", &again, &err),
                   KILN_STATUS_OK);
    KILN_CHECK(again == device);
    KILN_CHECK_INT(kiln_tensor_create(device, KILN_DTYPE_F32, 1, DIMS, DATA, &x, &err),
                   KILN_STATUS_OK);
    kiln_close(device);
    KILN_CHECK_INT((int)live(again), 0);
    kiln_device_release(again);
}

static void test_device_of_the_environment(void)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_device *device = NULL;
    KILN_CHECK_INT(setenv("KILN_DEVICE", "reference:0", 1), 0);
    KILN_CHECK_INT(kiln_open(NULL, &device, &err), KILN_STATUS_OK);
    KILN_CHECK_STR(kiln_device_address(device), "reference:0");
    kiln_close(device);
    unsetenv("KILN_DEVICE");
}

// ---- objects that end one by one ----

enum { ENDED_CONTEXT, ENDED_DEVICE, ENDED_STREAM, ENDED_INPUT, ENDED_PENDING, ENDED_GRAPH, ENDS };

typedef struct objects {
    kiln_context *context;
    kiln_device *device;
    kiln_stream *stream;
    kiln_tensor *input;
    kiln_tensor *pending; ///< recorded, and not run when the first object ends
    kiln_graph *graph;
} objects;

static bool make_objects(const kiln_allocator *allocator, const char *address, objects *all)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    kiln_tensor *inside = NULL;
    options.allocator = allocator;
    bool failed =
        kiln_context_create(&options, &all->context, &err) ||
        kiln_device_open(all->context, address, &all->device, &err) ||
        kiln_stream_create(all->device, &all->stream, &err) ||
        kiln_tensor_create(all->device, KILN_DTYPE_F32, 1, DIMS, DATA, &all->input, &err) ||
        kiln_graph_begin(all->device, &all->input, 1, &err) ||
        kiln_neg(all->input, &inside, &err) ||
        kiln_graph_end(all->device, &inside, 1, &all->graph, &err);
    kiln_release(inside);
    failed = failed || kiln_stream_set(all->device, all->stream, &err) ||
             kiln_relu(all->input, &all->pending, &err);
    if (failed) {
        KILN_FAIL("%s", err.message);
    }
    return !failed;
}

static void end_object(objects *all, int which)
{
    switch (which) {
    case ENDED_CONTEXT:
        kiln_context_destroy(all->context);
        break;
    case ENDED_DEVICE:
        kiln_device_release(all->device);
        break;
    case ENDED_STREAM:
        kiln_stream_release(all->stream);
        break;
    case ENDED_INPUT:
        kiln_release(all->input);
        break;
    case ENDED_PENDING:
        kiln_release(all->pending);
        break;
    default:
        kiln_graph_destroy(all->graph);
        break;
    }
}

/// The objects in the order of that number, of all 720.
static void end_in_order(objects *all, int number)
{
    int left[ENDS] = {0, 1, 2, 3, 4, 5};
    for (int n = ENDS; n > 0; n--) {
        int at = number % n;
        number /= n;
        end_object(all, left[at]);
        left[at] = left[n - 1];
    }
}

static void end_in_orders(const char *address, int step)
{
    kiln_faults counted;
    kiln_faults_init(&counted);
    for (int number = 0; number < 720; number += step) {
        objects all = {0};
        if (!make_objects(&counted.allocator, address, &all)) {
            return;
        }
        end_in_order(&all, number);
        if (!KILN_CHECK_INT((int)atomic_load(&counted.live), 0)) {
            KILN_FAIL("%s, order %d", address, number);
            return;
        }
    }
}

/// Under a sanitizer every seventh, in which any four of the objects come in each of their orders.
static void test_ends_in_every_order(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    end_in_orders("reference", 7);
#else
    end_in_orders("reference", 1);
#endif
}

static void test_ends_of_opencl(void)
{
    kiln_device *device = NULL;
    if (kiln_open("opencl:0", &device, NULL) != KILN_STATUS_OK) {
        kiln_test_skip("no OpenCL device");
        return;
    }
    kiln_close(device);
    end_in_orders("opencl:0", 47);
}

/// A tensor holds its device, and that its context: both ended, it is used as before.
static void use_after_the_end(const char *address)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_tensor *x = NULL;
    kiln_tensor *sum = NULL;
    float v[4] = {0};
    KILN_CHECK_INT(kiln_context_create(NULL, &context, &err), KILN_STATUS_OK);
    if (kiln_device_open(context, address, &device, &err) != KILN_STATUS_OK) {
        kiln_context_destroy(context);
        return;
    }
    KILN_CHECK_INT(kiln_tensor_create(device, KILN_DTYPE_F32, 1, DIMS, DATA, &x, &err),
                   KILN_STATUS_OK);
    kiln_context_destroy(context);
    kiln_device_release(device);
    KILN_CHECK_INT(kiln_add(x, x, &sum, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_read(sum, v, sizeof(v), &err), KILN_STATUS_OK);
    const float want[4] = {-4, -2, 2, 4};
    KILN_CHECK_MEM(v, want, sizeof(want));
    kiln_release(x);
    kiln_release(sum);
}

static void test_used_after_the_end(void)
{
    use_after_the_end("reference");
    use_after_the_end("opencl:0");
}

static void count_warning(const kiln_log_record *record, void *user)
{
    *(int *)user += strstr(record->message, "released more often") != NULL;
}

/// Once too often, while the handle is no other tensor: a line, and nothing else changes.
static void test_released_twice(void)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_tensor *x = NULL, *y = NULL, *again = NULL;
    float v[4] = {0};
    int warnings = 0;
    options.log = count_warning;
    options.log_user = &warnings;
    KILN_CHECK_INT(kiln_context_create(&options, &context, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_device_open(context, "reference", &device, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_tensor_create(device, KILN_DTYPE_F32, 1, DIMS, DATA, &x, &err),
                   KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_neg(x, &y, &err), KILN_STATUS_OK);
    kiln_release(x); // still an operand of what is queued
    kiln_release(x);
    KILN_CHECK_INT(warnings, 1);
    KILN_CHECK_INT(kiln_read(y, v, sizeof(v), &err), KILN_STATUS_OK);
    kiln_release(x);
    KILN_CHECK_INT(warnings, 2);
    KILN_CHECK_INT(kiln_neg(y, &again, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_read(again, v, sizeof(v), &err), KILN_STATUS_OK);
    KILN_CHECK_MEM(v, DATA, sizeof(DATA));
    KILN_CHECK_INT((int)live(device), 2);
    kiln_release(again);
    kiln_release(y);
    kiln_device_release(device);
    kiln_context_destroy(context);
}

/// As kiln_context.h asks: a forked process calls nothing of Kiln and leaves by _exit or exec.
static void leave_forked(const char *address)
{
    kiln_device *device = NULL;
    kiln_tensor *x = NULL;
    kiln_tensor *y = NULL;
    float v[4] = {0};
    kiln_error err = KILN_ERROR_INIT;
    if (kiln_open(address, &device, &err) != KILN_STATUS_OK) {
        return;
    }
    bool failed = kiln_tensor_create(device, KILN_DTYPE_F32, 1, DIMS, DATA, &x, &err) ||
                  kiln_neg(x, &y, &err); // queued when the process is forked
    KILN_CHECK(!failed);
    for (int way = 0; way < 2; way++) {
        int status = 1;
        pid_t child = fork();
        if (child == 0 && way == 0) {
            _exit(0);
        } else if (child == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(127);
        }
        KILN_CHECK(child > 0 && waitpid(child, &status, 0) == child);
        KILN_CHECK_INT(status, 0);
    }
    KILN_CHECK_INT(kiln_read(y, v, sizeof(v), &err), KILN_STATUS_OK);
    const float want[4] = {2, 1, -1, -2};
    KILN_CHECK_MEM(v, want, sizeof(want));
    kiln_close(device);
}

static void test_forked(void)
{
    leave_forked("reference");
    leave_forked("opencl:0");
}

KILN_TEST_MAIN("unit/runtime/open", KILN_TEST(test_one_chain),
               KILN_TEST(test_first_failure_is_told), KILN_TEST(test_released_before),
               KILN_TEST(test_device_ends), KILN_TEST(test_device_of_the_environment),
               KILN_TEST(test_ends_in_every_order), KILN_TEST(test_ends_of_opencl),
               KILN_TEST(test_used_after_the_end), KILN_TEST(test_released_twice),
               KILN_TEST(test_forked))
