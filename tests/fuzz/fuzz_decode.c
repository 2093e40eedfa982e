// SPDX-License-Identifier: MIT OR Apache-2.0
// Any bytes as a graph in wire form: an error, or a graph that verifies, prints, and encodes to a
// graph with the same text.
#include <stdlib.h>
#include <string.h>

#include "fuzz_target.h"
#include "ir.h"

static void check_round_trip(const kiln_env *env, const kiln_ir_graph *graph)
{
    kiln_blob bytes = {NULL, 0};
    kiln_ir_graph *again = NULL;
    kiln_string texts[2];
    must(kiln_ir_graph_verify(graph, NULL) == KILN_STATUS_OK);
    must(kiln_ir_encode(env, graph, &bytes, NULL) == KILN_STATUS_OK);
    must(kiln_ir_decode(env, bytes.data, bytes.length, &again, NULL) == KILN_STATUS_OK);
    kiln_string_init(&texts[0], env);
    kiln_string_init(&texts[1], env);
    must(kiln_ir_print(graph, &texts[0], NULL) == KILN_STATUS_OK);
    must(kiln_ir_print(again, &texts[1], NULL) == KILN_STATUS_OK);
    must(texts[0].length == texts[1].length &&
         (texts[0].length == 0 || memcmp(texts[0].text, texts[1].text, texts[0].length) == 0));
    kiln_string_fini(&texts[0]);
    kiln_string_fini(&texts[1]);
    kiln_ir_graph_destroy(again);
    kiln_free(env, bytes.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_error err = KILN_ERROR_INIT;
    kiln_ir_graph *graph = NULL;
    if (kiln_ir_decode(&env, data, size, &graph, &err) == KILN_STATUS_OK) {
        check_round_trip(&env, graph);
    } else {
        must(graph == NULL && err.message[0] != '\0');
    }
    kiln_ir_graph_destroy(graph);
    return 0;
}
