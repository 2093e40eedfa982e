// SPDX-License-Identifier: MIT OR Apache-2.0
// Any text as a graph: an error with a line, or a graph whose printed form parses to the same
// printed form.
#include <stdlib.h>
#include <string.h>

#include "fuzz_target.h"
#include "ir.h"

static void check_round_trip(const kiln_env *env, const kiln_ir_graph *graph)
{
    kiln_ir_graph *again = NULL;
    kiln_string texts[2];
    kiln_string_init(&texts[0], env);
    kiln_string_init(&texts[1], env);
    must(kiln_ir_print(graph, &texts[0], NULL) == KILN_STATUS_OK);
    if (texts[0].text != NULL) {
        must(kiln_ir_parse(env, texts[0].text, &again, NULL) == KILN_STATUS_OK);
        must(kiln_ir_print(again, &texts[1], NULL) == KILN_STATUS_OK);
        must(strcmp(texts[0].text, texts[1].text) == 0);
    }
    kiln_string_fini(&texts[0]);
    kiln_string_fini(&texts[1]);
    kiln_ir_graph_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_error err = KILN_ERROR_INIT;
    kiln_ir_graph *graph = NULL;
    char *text = malloc(size + 1);
    must(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    if (kiln_ir_parse(&env, text, &graph, &err) == KILN_STATUS_OK) {
        check_round_trip(&env, graph);
    } else {
        must(graph == NULL && err.message[0] != '\0');
    }
    kiln_ir_graph_destroy(graph);
    free(text);
    return 0;
}
