// SPDX-License-Identifier: MIT OR Apache-2.0
// What a memory puts into its table where it has nothing better, and whether its tables are whole:
// who uses a memory asks for a table at most, never for an entry.
#include <string.h>

#include "collective_memory.h"

kiln_status kiln_coll_no_write(kiln_coll_memory *memory, const kiln_coll_area *area,
                               const void *data, kiln_error *err)
{
    (void)area;
    (void)data;
    return kiln_fail(err, UNIMPLEMENTED, "memory \"%s\" is mapped, not written", memory->ops->name);
}

kiln_status kiln_coll_finish_all(kiln_coll_memory *memory, kiln_coll_done_fn done, void *user,
                                 kiln_error *err)
{
    return memory->ops->after(memory, done, user, err);
}

void kiln_coll_no_give_up(kiln_coll_memory *memory, void *event, const kiln_error *result)
{
    (void)memory;
    (void)event;
    (void)result;
}

void kiln_coll_no_close(kiln_coll_memory *memory)
{
    (void)memory;
}

// ---- whether the tables are whole ----

typedef void (*any_function)(void);

typedef struct table_entry {
    const char *name;
    size_t offset;
} table_entry;

#define OF_MEMORY(name)                                                                            \
    {                                                                                              \
#name, offsetof(kiln_coll_memory_ops, name)                                                \
    }
static const table_entry memory_entries[] = {
    OF_MEMORY(alloc),  OF_MEMORY(free),    OF_MEMORY(copy),  OF_MEMORY(convert), OF_MEMORY(reduce),
    OF_MEMORY(map),    OF_MEMORY(unmap),   OF_MEMORY(write), OF_MEMORY(after),   OF_MEMORY(finish),
    OF_MEMORY(signal), OF_MEMORY(give_up), OF_MEMORY(close),
};
#undef OF_MEMORY

#define OF_STREAM(name)                                                                            \
    {                                                                                              \
#name, offsetof(kiln_coll_stream_ops, name)                                                \
    }
static const table_entry stream_entries[] = {
    OF_STREAM(stage), OF_STREAM(fetch), OF_STREAM(fetched),
    OF_STREAM(put),   OF_STREAM(mark),  OF_STREAM(reached),
};
#undef OF_STREAM

// An entry without a row here would not be looked at.
enum {
    MEMORY_ENTRIES = sizeof(memory_entries) / sizeof(memory_entries[0]),
    STREAM_ENTRIES = sizeof(stream_entries) / sizeof(stream_entries[0])
};
_Static_assert(sizeof(kiln_coll_memory_ops) ==
                   offsetof(kiln_coll_memory_ops, alloc) + MEMORY_ENTRIES * sizeof(any_function),
               "a row for each entry");
_Static_assert(sizeof(kiln_coll_stream_ops) ==
                   offsetof(kiln_coll_stream_ops, stage) + STREAM_ENTRIES * sizeof(any_function),
               "a row for each entry");

typedef struct table_rule {
    const char *name;
    size_t size;
    const table_entry *entries;
    size_t count;
} table_rule;

static const table_rule memory_rule = {"memory", sizeof(kiln_coll_memory_ops), memory_entries,
                                       MEMORY_ENTRIES};
static const table_rule stream_rule = {"stream", sizeof(kiln_coll_stream_ops), stream_entries,
                                       STREAM_ENTRIES};

static kiln_status check_table(const table_rule *rule, const void *table, uint32_t size,
                               const char *memory, kiln_error *err)
{
    if (size != rule->size) { // tables of before had more entries, in another order
        return kiln_fail(err, INVALID_ARGUMENT,
                         "the %s table of memory \"%s\" has %u bytes and not %zu: build it "
                         "again with the headers of this Kiln",
                         rule->name, memory, size, rule->size);
    }
    for (size_t i = 0; i < rule->count; i++) {
        any_function function = NULL;
        memcpy(&function, (const unsigned char *)table + rule->entries[i].offset, sizeof(function));
        if (function == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "%s of the %s table of memory \"%s\" is NULL; if it has none, name "
                             "the default of that function",
                             rule->entries[i].name, rule->name, memory);
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_coll_memory_check(const kiln_coll_memory *memory, kiln_error *err)
{
    const kiln_coll_memory_ops *ops = memory->ops;
    if (ops == NULL || ops->name == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "a memory without its table or its name");
    }
    kiln_status status = check_table(&memory_rule, ops, ops->struct_size, ops->name, err);
    if (status == KILN_STATUS_OK && memory->stream != NULL) {
        status =
            check_table(&stream_rule, memory->stream, memory->stream->struct_size, ops->name, err);
    }
    return status;
}
