// SPDX-License-Identifier: MIT OR Apache-2.0
// Fuzz target: facts of a device that is elsewhere, from any bytes. What passes can be planned for.
#include "fuzz_target.h"
#include "kiln_bundle.h"

#include <string.h>

static void check_power(uint32_t number)
{
    must(number > 0 && (number & (number - 1)) == 0);
}

static void check_facts(const kiln_device_info *facts, size_t size)
{
    must(facts->type == KILN_DEVICE_CPU || facts->type == KILN_DEVICE_GPU ||
         facts->type == KILN_DEVICE_ACCELERATOR);
    check_power(facts->vector_bytes);
    check_power(facts->memory_align);
    must(facts->vector_bytes >= 16 && facts->compute_units > 0 && facts->max_work_group > 0);
    must(facts->memory_bytes > 0 && facts->max_alloc_bytes > 0 && facts->local_bytes > 0);
    must(facts->memory_bytes < INT64_MAX / 2 && facts->max_alloc_bytes < INT64_MAX / 2);
    const char *const texts[] = {facts->name, facts->vendor, facts->driver, facts->platform,
                                 facts->extensions};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        must(texts[i] != NULL && strlen(texts[i]) < size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_arena arena;
    kiln_device_info facts;
    kiln_error err = KILN_ERROR_INIT;
    kiln_arena_init(&arena, &env);
    if (kiln_bundle_facts_read(&env, fuzz_file(data, size), &arena, &facts, &err) ==
        KILN_STATUS_OK) {
        check_facts(&facts, size);
    } else {
        must(err.message[0] != '\0');
    }
    kiln_arena_fini(&arena);
    return 0;
}
