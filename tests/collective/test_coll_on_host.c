// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory that the host reaches without commands: a call gives its device none, every step has the
// bits that a command would give, and what lies elsewhere is still a command, in the same order.
#include <stdlib.h>
#include <string.h>

#include "cl_buffer.h"
#include "cl_state.h"
#include "coll_memory.h"
#include "collective.h"
#include "harness.h"
#include "recorded_scene.h"

static const kiln_dtype numbers[] = {KILN_DTYPE_U8,  KILN_DTYPE_U16, KILN_DTYPE_U32, KILN_DTYPE_U64,
                                     KILN_DTYPE_I8,  KILN_DTYPE_I16, KILN_DTYPE_I32, KILN_DTYPE_I64,
                                     KILN_DTYPE_F32, KILN_DTYPE_F64};
enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]), HALVES = 1 << 16 };

static kilni_device_memory *memory_of(const scene *self)
{
    return self->group->ranks[0].memory;
}

// ---- calls ----

static uint64_t waits_of(const scene *self)
{
    uint64_t waits = 0;
    for (uint32_t rank = 0; rank < self->count; rank++) {
        waits += kilni_cl_backend_of(self->set.devices[rank]->in.backend)->counters.host_waits;
    }
    return waits;
}

/// Whether the host reaches the first device's memory, as it has to where that is no GPU, on which
/// the case is skipped.
static bool is_reached(const scene *self)
{
    const kiln_device_info *info = kiln_device_info_of(self->set.devices[0]);
    if (info->type == KILN_DEVICE_GPU) {
        kiln_test_skip("the host does not reach the memory of %s", info->name);
        return false;
    }
    return KILN_CHECK(memory_of(self)->commands != NULL);
}

/// A mapping is a wait for a queue, so a call that maps counts some.
static void test_no_commands(void)
{
    const setting *what = kiln_test_param();
    scene self;
    if (scene_init(&self, what, 30000) && is_reached(&self)) {
        kiln_tensor *sums[MOST] = {NULL};
        uint64_t before = waits_of(&self);
        KILN_CHECK_INT(kiln_collective_all_reduce(self.group, self.inputs, "sum", sums, NULL), 0);
        for (uint32_t rank = 0; rank < self.count; rank++) {
            KILN_CHECK_INT(kiln_collective_resolve(sums[rank], NULL), 0);
            holds(&self, sums[rank], 1, 0);
        }
        KILN_CHECK((waits_of(&self) > before) == what->queued);
        release_all(sums);
    }
    scene_fini(&self);
}

// ---- steps ----

/// Buffers of the first member, filled with one bit pattern after the other, every value of two
/// bytes among them.
typedef struct steps {
    scene of;
    kilni_device_memory *memory;
    kiln_coll_buffer *buffers[4];
    unsigned char *seen[2];
    bool ok;
} steps;

static const size_t buffer_bytes = HALVES * sizeof(uint64_t);

static void fill(const steps *self, int which, uint64_t seed)
{
    kiln_coll_memory *memory = &self->memory->base;
    kiln_coll_area area = {self->buffers[which], 0, KILN_DTYPE_U8, buffer_bytes};
    void *data = NULL;
    if (!KILN_CHECK_INT(memory->ops->map(memory, &area, KILN_COLL_WRITE, &data, NULL), 0)) {
        return;
    }
    for (size_t i = 0; i < buffer_bytes / 2; i++) {
        uint16_t bits = (uint16_t)(which == 0 ? i : (i * seed + (i >> 16) * 40503u) >> 3);
        memcpy((unsigned char *)data + 2 * i, &bits, 2);
    }
    KILN_CHECK_INT(memory->ops->unmap(memory, &area, KILN_COLL_WRITE, data, NULL), 0);
}

static void steps_init(steps *self)
{
    *self = (steps){.ok = false};
    if (!scene_init(&self->of, &opencl, 30000) || !is_reached(&self->of)) {
        return;
    }
    self->memory = memory_of(&self->of);
    self->ok = true;
    for (int i = 0; i < 4 && self->ok; i++) {
        kiln_coll_memory *memory = &self->memory->base;
        self->ok =
            KILN_CHECK_INT(memory->ops->alloc(memory, buffer_bytes, &self->buffers[i], NULL), 0);
    }
    for (int i = 0; i < 2 && self->ok; i++) {
        self->seen[i] = malloc(buffer_bytes);
        self->ok = KILN_CHECK(self->seen[i] != NULL);
        fill(self, i, 2654435761u + (uint64_t)i);
    }
}

static void steps_fini(steps *self)
{
    for (int i = 0; i < 4 && self->memory != NULL; i++) {
        if (self->buffers[i] != NULL) {
            self->memory->base.ops->free(&self->memory->base, self->buffers[i]);
        }
    }
    free(self->seen[0]);
    free(self->seen[1]);
    scene_fini(&self->of);
}

static kiln_coll_area area_of(const steps *self, int which, kiln_dtype dtype)
{
    return (kiln_coll_area){self->buffers[which], 0, dtype, HALVES};
}

static void look(const steps *self, const kiln_coll_area *area, int into)
{
    kiln_coll_memory *memory = &self->memory->base;
    void *data = NULL;
    if (KILN_CHECK_INT(memory->ops->map(memory, area, KILN_COLL_READ, &data, NULL), 0)) {
        memcpy(self->seen[into], data, kiln_coll_area_bytes(area));
        KILN_CHECK_INT(memory->ops->unmap(memory, area, KILN_COLL_READ, data, NULL), 0);
    }
}

static bool is_nan(const unsigned char *data, size_t i, kiln_dtype dtype)
{
    uint16_t half;
    float single;
    double wide;
    memcpy(&half, data + i * 2, sizeof(half));
    switch (dtype) {
    case KILN_DTYPE_F16:
        return (half & 0x7fffu) > 0x7c00u;
    case KILN_DTYPE_BF16:
        return (half & 0x7fffu) > 0x7f80u;
    case KILN_DTYPE_F32:
        memcpy(&single, data + i * 4, sizeof(single));
        return single != single;
    case KILN_DTYPE_F64:
        memcpy(&wide, data + i * 8, sizeof(wide));
        return wide != wide;
    default:
        return false;
    }
}

/// Which NaN it is says nothing.
static void check_same(const steps *self, kiln_dtype dtype, const char *what)
{
    size_t size = kiln_dtype_size(dtype);
    for (size_t i = 0; i < HALVES; i++) {
        if (memcmp(self->seen[0] + i * size, self->seen[1] + i * size, size) != 0 &&
            !(is_nan(self->seen[0], i, dtype) && is_nan(self->seen[1], i, dtype))) {
            KILN_FAIL("%s of %s: element %zu differs", what, kiln_dtype_name(dtype), i);
            return;
        }
    }
}

/// A step of the commands' own table was, or was not, asked for.
static void note_queued(const steps *self, bool queued)
{
    self->memory->is_queued = queued;
    self->memory->device->in.steps += queued;
}

static void test_same_sums(void)
{
    steps self;
    steps_init(&self);
    for (size_t d = 0; d < NUMBERS && self.ok; d++) {
        kiln_coll_area left = area_of(&self, 0, numbers[d]);
        kiln_coll_area right = area_of(&self, 1, numbers[d]);
        kiln_coll_area target = area_of(&self, 2, numbers[d]);
        for (int op = 0; op < KILN_COLL_OP_COUNT; op++) {
            if (op == KILN_COLL_MEAN) {
                continue;
            }
            const kiln_coll_memory_ops *tables[] = {self.memory->commands, self.memory->base.ops};
            for (int i = 0; i < 2; i++) {
                KILN_CHECK_INT(tables[i]->reduce(&self.memory->base, &target, &left, &right,
                                                 (kiln_coll_op)op, NULL),
                               0);
                note_queued(&self, i == 0);
                look(&self, &target, i);
            }
            check_same(&self, numbers[d], kiln_coll_op_name((kiln_coll_op)op));
        }
    }
    steps_fini(&self);
}

static void check_conversion(steps *self, kiln_dtype from, kiln_dtype to, uint32_t divisor)
{
    kiln_coll_area source = area_of(self, from == KILN_DTYPE_F32 ? 1 : 0, from);
    kiln_coll_area target = area_of(self, 2, to);
    const kiln_coll_memory_ops *tables[] = {self->memory->commands, self->memory->base.ops};
    for (int i = 0; i < 2; i++) {
        KILN_CHECK_INT(tables[i]->convert(&self->memory->base, &target, &source, divisor, NULL), 0);
        note_queued(self, i == 0);
        look(self, &target, i);
    }
    check_same(self, to, "a conversion");
}

static void test_same_conversions(void)
{
    steps self;
    steps_init(&self);
    for (size_t d = 0; d < NUMBERS && self.ok; d++) {
        check_conversion(&self, numbers[d], numbers[d], 3);
    }
    for (uint32_t divisor = 1; divisor <= 3 && self.ok; divisor += 2) {
        check_conversion(&self, KILN_DTYPE_F16, KILN_DTYPE_F32, divisor);
        check_conversion(&self, KILN_DTYPE_BF16, KILN_DTYPE_F32, divisor);
        check_conversion(&self, KILN_DTYPE_F32, KILN_DTYPE_F16, divisor);
        check_conversion(&self, KILN_DTYPE_F32, KILN_DTYPE_BF16, divisor);
    }
    steps_fini(&self);
}

/// Commands and steps on the spot take turns: each sees what the one before has written.
static void test_some_lie_elsewhere(void)
{
    steps self;
    steps_init(&self);
    if (self.ok) {
        kiln_coll_memory *memory = &self.memory->base;
        kiln_coll_area a[4];
        for (int i = 0; i < 4; i++) {
            a[i] = area_of(&self, i, KILN_DTYPE_U32);
        }
        kilni_cl_buffer_of((kiln_buffer *)self.buffers[3])->host = NULL;
        for (int turn = 0; turn < 50; turn++) { // a[2] = turn + 1 times a[1]
            const kiln_coll_area *sum = turn == 0 ? &a[1] : &a[2];
            if (turn > 0) {
                KILN_CHECK_INT(
                    memory->ops->reduce(memory, &a[2], &a[2], &a[1], KILN_COLL_SUM, NULL), 0);
            }
            KILN_CHECK_INT(memory->ops->copy(memory, &a[3], sum, NULL), 0); // a command
            KILN_CHECK(self.memory->is_queued);
            fill(&self, 2, 3); // over what it reads, when it has ended
            KILN_CHECK(!self.memory->is_queued);
            KILN_CHECK_INT(memory->ops->copy(memory, &a[2], &a[3], NULL), 0);
        }
        look(&self, &a[1], 0);
        look(&self, &a[2], 1);
        for (size_t i = 0; i < HALVES; i++) {
            uint32_t one, all;
            memcpy(&one, self.seen[0] + 4 * i, sizeof(one));
            memcpy(&all, self.seen[1] + 4 * i, sizeof(all));
            if (!KILN_CHECK(all == 50 * one)) {
                break;
            }
        }
    }
    steps_fini(&self);
}

/// Memory that a call left behind with commands in the queue is not touched before they end.
static void test_left_behind(void)
{
    steps self;
    steps_init(&self);
    if (self.ok) {
        kiln_coll_memory *memory = &self.memory->base;
        kiln_coll_buffer *next = NULL;
        self.memory->device->in.steps++; // another member's
        KILN_CHECK(!self.memory->is_queued);
        KILN_CHECK_INT(memory->ops->alloc(memory, buffer_bytes, &next, NULL), 0);
        KILN_CHECK(self.memory->is_queued);
        fill(&self, 2, 3);
        KILN_CHECK(!self.memory->is_queued);
        KILN_CHECK_INT(self.memory->device->in.ended, self.memory->device->in.steps);
        memory->ops->free(memory, next);
    }
    steps_fini(&self);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        KILN_TEST_PARAM(test_no_commands, "no commands", &opencl),
        KILN_TEST_PARAM(test_no_commands, "commands where they are wanted", &opencl_queued),
        KILN_TEST(test_same_sums),
        KILN_TEST(test_same_conversions),
        KILN_TEST(test_some_lie_elsewhere),
        KILN_TEST(test_left_behind),
    };
    setenv("POCL_DEVICES", "pthread pthread", 1); // read once, before the first OpenCL call
    return kiln_test_run("collective/on_host", cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
