// SPDX-License-Identifier: MIT OR Apache-2.0
// A small graph for the tests of graph, verify, print, parse and codec.
#ifndef KILN_TESTS_UNIT_IR_GRAPH_SUPPORT_H
#define KILN_TESTS_UNIT_IR_GRAPH_SUPPORT_H

#include "ir_support.h"

static const char small_graph[] = "input %1: f32[2,3]\n"
                                  "input %2: f32[3] const\n"
                                  "%3: f32[2,3] = add(%1: f32[2,3], %2: f32[3])\n"
                                  "%4: f32[2,3] = mul_scalar(%3: f32[2,3], value=0.5)\n"
                                  "drop(%3: f32[2,3])\n"
                                  "%5: f32[4,3] = pad(%4: f32[2,3], padding=[1,0,1,0], "
                                  "mode=\"edge\")\n"
                                  "%6: i32[4,3] = cast(%5: f32[4,3], dtype=i32)\n"
                                  "%7: i32[] = sum(%6: i32[4,3])\n"
                                  "%8: i32[1,1] = sum(%6: i32[4,3], axes=[0,1], keepdims=true)\n"
                                  "output %7\n"
                                  "output %8\n";

static inline kiln_ir_graph *parse_graph(const kiln_env *env, const char *text)
{
    kiln_ir_graph *graph = NULL;
    kiln_error err = KILN_ERROR_INIT;
    if (kiln_ir_parse(env, text, &graph, &err) != KILN_STATUS_OK) {
        KILN_FAIL("%s", err.message);
    }
    return graph;
}

/* The text of a graph, to be freed with kiln_string_fini. */
static inline kiln_string text_of(const kiln_env *env, const kiln_ir_graph *graph)
{
    kiln_string text;
    kiln_error err = KILN_ERROR_INIT;
    kiln_string_init(&text, env);
    if (kiln_ir_print(graph, &text, &err) != KILN_STATUS_OK) {
        KILN_FAIL("%s", err.message);
    }
    return text;
}

#endif
