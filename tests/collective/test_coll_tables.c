// SPDX-License-Identifier: MIT OR Apache-2.0
// The tables of a rank's memory are whole: a member is refused a memory with a hole, by the name of
// the table and of the entry, and every default does what its header says.
#include <stdio.h>
#include <string.h>

#include "coll_streaming.h"
#include "collective.h"
#include "harness.h"

static const char *const memory_names[] = {"alloc",  "free",    "copy",  "convert", "reduce",
                                           "map",    "unmap",   "write", "after",   "finish",
                                           "signal", "give_up", "close"};
static const char *const stream_names[] = {"stage", "fetch", "fetched", "put", "mark", "reached"};

typedef struct scene {
    kiln_env env;
    kiln_coll_group *group;
    streaming_memory streaming;
    kiln_coll_memory_ops ops; ///< copies of its tables, to make holes in
    kiln_coll_stream_ops stream;
    kiln_coll_memory memory; ///< has the copies
} scene;

static void scene_init(scene *self)
{
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    *self = (scene){.env = {.allocator = kiln_allocator_default()}};
    options.ranks = 1;
    KILN_CHECK_INT(kiln_coll_group_create(&self->env, &options, &self->group, NULL), 0);
    streaming_init(&self->streaming, &self->env);
    self->ops = *self->streaming.base.ops;
    self->stream = *self->streaming.base.stream;
    self->memory = (kiln_coll_memory){&self->ops, &self->stream};
}

static void scene_fini(scene *self)
{
    streaming_fini(&self->streaming);
    kiln_coll_group_destroy(self->group);
}

static void check_refused(scene *self, const char *part, const char *table)
{
    kiln_coll_member *member = NULL;
    kiln_error err = KILN_ERROR_INIT;
    KILN_CHECK_INT(
        kiln_coll_member_create(self->group, 0, &self->memory, /*transport=*/NULL, &member, &err),
        KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(member == NULL);
    KILN_CHECK_CONTAINS(err.message, part);
    KILN_CHECK_CONTAINS(err.message, table);
}

/// Each entry NULL in turn, from `first` to the end of the table.
static void check_holes(scene *self, void *table, size_t first, size_t size,
                        const char *const *names, const char *table_name)
{
    void (*kept)(void) = NULL;
    void (*const hole)(void) = NULL;
    char text[64];
    for (size_t i = 0; first + i * sizeof(kept) < size; i++) {
        unsigned char *entry = (unsigned char *)table + first + i * sizeof(kept);
        memcpy(&kept, entry, sizeof(kept));
        memcpy(entry, &hole, sizeof(hole));
        snprintf(text, sizeof(text), "%s of the %s table", names[i], table_name);
        check_refused(self, text, "memory \"streaming\" is NULL");
        memcpy(entry, &kept, sizeof(kept));
    }
}

static void test_holes_are_refused(void)
{
    scene self;
    scene_init(&self);
    KILN_CHECK_INT(kiln_coll_memory_check(&self.memory, NULL), KILN_STATUS_OK);
    check_holes(&self, &self.ops, offsetof(kiln_coll_memory_ops, alloc), sizeof(self.ops),
                memory_names, "memory");
    check_holes(&self, &self.stream, offsetof(kiln_coll_stream_ops, stage), sizeof(self.stream),
                stream_names, "stream");
    KILN_CHECK_INT(kiln_coll_memory_check(&self.memory, NULL), KILN_STATUS_OK);
    scene_fini(&self);
}

static void test_other_tables_are_refused(void)
{
    scene self;
    scene_init(&self);
    self.ops.struct_size -= (uint32_t)sizeof(void (*)(void));
    check_refused(&self, "the memory table", "build it again");
    self.ops.struct_size = (uint32_t)sizeof(self.ops) + 48; // of when one table had all
    check_refused(&self, "the memory table", "build it again");
    self.ops.struct_size = (uint32_t)sizeof(self.ops);
    self.stream.struct_size -= (uint32_t)sizeof(void (*)(void));
    check_refused(&self, "the stream table", "build it again");
    self.memory.stream = NULL; // it does not stream: nothing is missing
    KILN_CHECK_INT(kiln_coll_memory_check(&self.memory, NULL), KILN_STATUS_OK);
    self.ops.name = NULL;
    check_refused(&self, "without its table or its name", "");
    self.memory.ops = NULL;
    check_refused(&self, "without its table or its name", "");
    scene_fini(&self);
}

static void count_done(kiln_status status, void *user)
{
    KILN_CHECK_INT(status, KILN_STATUS_OK);
    ++*(int *)user;
}

/// The host's memory has a default wherever there is one.
static void test_defaults(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_coll_memory *host = NULL;
    kiln_error err = KILN_ERROR_INIT;
    int event = 7;
    int done = 0;
    KILN_CHECK_INT(kiln_coll_host_memory_create(&env, &host, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_coll_memory_check(host, &err), KILN_STATUS_OK);
    KILN_CHECK(host->stream == NULL && !host->ops->is_written && !host->ops->is_left);
    const kiln_coll_area area = {(kiln_coll_buffer *)&event, 0, KILN_DTYPE_I32, 1};
    KILN_CHECK_INT(host->ops->write(host, &area, &done, &err), KILN_STATUS_UNIMPLEMENTED);
    KILN_CHECK_CONTAINS(err.message, "memory \"host\" is mapped, not written");
    KILN_CHECK_INT(host->ops->finish(host, count_done, &done, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(done, 1);
    host->ops->give_up(host, &event, &err);
    host->ops->close(host);
    KILN_CHECK_INT(event, 7);
    kiln_coll_host_memory_destroy(host);
}

KILN_TEST_MAIN("collective/tables", KILN_TEST(test_holes_are_refused),
               KILN_TEST(test_other_tables_are_refused), KILN_TEST(test_defaults))
