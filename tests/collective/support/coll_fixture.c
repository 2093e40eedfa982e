// SPDX-License-Identifier: MIT OR Apache-2.0
// Setting up and tearing down of groups for the tests of this folder.
#include "coll_fixture.h"

#include "coll_hub.h"
#include "harness.h"

kilni_coll_extent fixture_extent(uint32_t ranks)
{
    return (kilni_coll_extent){.ranks = ranks, .node = ranks % 2 == 0 ? 2 : 3};
}

bool fixture_init(fixture *fix, uint32_t ranks, uint64_t deadline_ms,
                  kiln_coll_memory *const *memories)
{
    return fixture_init_delayed(fix, ranks, deadline_ms, /*delay_us=*/0, memories);
}

bool fixture_init_delayed(fixture *fix, uint32_t ranks, uint64_t deadline_ms, uint32_t delay_us,
                          kiln_coll_memory *const *memories)
{
    return fixture_init_cut(fix, ranks, deadline_ms, delay_us, memories, /*chunk_bytes=*/0);
}

bool fixture_init_cut(fixture *fix, uint32_t ranks, uint64_t deadline_ms, uint32_t delay_us,
                      kiln_coll_memory *const *memories, uint64_t chunk_bytes)
{
    *fix = (fixture){.env = {.allocator = kiln_allocator_default()}, .ranks = ranks};
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    options.ranks = ranks;
    options.ranks_per_node = fixture_extent(ranks).node;
    options.deadline_ns = deadline_ms * 1000000;
    options.chunk_bytes = chunk_bytes;
    bool ok = KILN_CHECK_INT(kiln_coll_group_create(&fix->env, &options, &fix->group, NULL), 0);
    if (ok && delay_us > 0) {
        ok = KILN_CHECK_INT(kilni_coll_hub_create(&fix->env, ranks, &fix->hub, NULL), 0);
    }
    for (uint32_t i = 0; i < ranks && ok; i++) {
        kiln_coll_memory *memory = NULL;
        kiln_coll_transport *transport = NULL;
        if (fix->hub != NULL) {
            delayed_init(&fix->transports[i], kilni_coll_hub_end(fix->hub, i), i, delay_us);
            transport = &fix->transports[i].base;
        }
        if (memories == NULL) {
            ok = KILN_CHECK_INT(kiln_coll_host_memory_create(&fix->env, &fix->memory[i], NULL), 0);
            memory = fix->memory[i];
        } else {
            memory = memories[i];
        }
        ok = ok && KILN_CHECK_INT(kiln_coll_member_create(fix->group, i, memory, transport,
                                                          &fix->members[i], NULL),
                                  0);
    }
    return ok;
}

void fixture_fini(fixture *fix)
{
    for (uint32_t i = 0; i < fix->ranks; i++) {
        kiln_coll_member_destroy(fix->members[i]);
    }
    for (uint32_t i = 0; i < fix->ranks; i++) {
        kiln_coll_host_memory_destroy(fix->memory[i]);
    }
    kiln_coll_group_destroy(fix->group);
    kilni_coll_hub_destroy(fix->hub);
}

void fixture_run(fixture *fix, const kiln_coll_call *calls, kiln_status *out_status,
                 kiln_error *out_errors)
{
    kiln_coll_request *requests[FIXTURE_RANKS] = {NULL};
    kiln_error unused[FIXTURE_RANKS] = {0};
    kiln_error *errors = out_errors == NULL ? unused : out_errors;
    for (uint32_t i = 0; i < fix->ranks; i++) {
        out_status[i] = kiln_coll_start(fix->members[i], &calls[i], &requests[i], &errors[i]);
    }
    for (uint32_t i = 0; i < fix->ranks; i++) {
        if (requests[i] != NULL) {
            out_status[i] = kiln_coll_wait(requests[i], &errors[i]);
        }
    }
}
