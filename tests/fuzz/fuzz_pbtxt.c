// SPDX-License-Identifier: MIT OR Apache-2.0
// Any text as a model's config.pbtxt: refused in words, or a tree from which versions and places of
// instances follow within their limits.
#include <string.h>

#include "fuzz_target.h"
#include "serving_policy.h"
#include "serving_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_error err = KILN_ERROR_INIT;
    kiln_arena arena;
    kilni_serving_node *tree = NULL;
    kiln_arena_init(&arena, &env);
    char *text = kiln_alloc(&env, size + 1);
    must(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    if (kilni_serving_text_read(&arena, text, &tree, &err) == KILN_STATUS_OK) {
        char file[KILN_MODEL_NAME];
        kilni_serving_choice choice;
        uint32_t devices[KILNI_SERVING_INSTANCES];
        uint32_t count = 0;
        if (kilni_serving_policy_choose(tree, "m", file, &choice, &err) == KILN_STATUS_OK) {
            must(memchr(file, 0, sizeof(file)) != NULL && strchr(file, '/') == NULL);
            must(choice.which != KILNI_SERVING_SPECIFIC || choice.count <= KILN_MODEL_VERSIONS);
        }
        if (kilni_serving_policy_place(tree, 2, devices, &count, &err) == KILN_STATUS_OK) {
            must(count >= 1 && count <= KILNI_SERVING_INSTANCES);
            for (uint32_t i = 0; i < count; i++) {
                must(devices[i] < 2);
            }
        }
    } else {
        must(err.message[0] != '\0');
    }
    kiln_free(&env, text);
    kiln_arena_fini(&arena);
    return 0;
}
