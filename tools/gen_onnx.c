// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes docs/onnx.md from onnx_ops.def, onnx_contrib.def and check_onnx.def: which operators of
// ONNX and of other domains are served, which the host may compute, which are refused and why. The
// file is committed; a test compares it with what this tool writes.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEWEST = 28 };

typedef struct row {
    const char *op_type;
    int first;
    int last;
} row;

static row rows[] = {
#define KILN_ONNX_OP(type, first, last, least, most, handler, op) {#type, first, last},
#include "onnx_ops.def"
#undef KILN_ONNX_OP
};

typedef struct reason {
    const char *name;
    const char *attribute; ///< NULL where it is about the operator
    const char *text;
} reason;

static const reason refused[] = {
#define KILN_ONNX_OP(type, first, last, least, most, handler, op)
#define KILN_ONNX_REFUSED(type, text) {#type, NULL, text},
#include "onnx_ops.def"
#undef KILN_ONNX_OP
};

static const reason unread[] = {
#define KILN_ONNX_OP(type, first, last, least, most, handler, op)
#define KILN_ONNX_UNREAD(type, attribute, text) {#type, #attribute, text},
#include "onnx_ops.def"
#undef KILN_ONNX_OP
#define KILN_ONNX_CONTRIB(domain, type, last, least, most, handler, attributes)
#define KILN_ONNX_UNREAD(type, attribute, text) {#type, #attribute, text},
#include "onnx_contrib.def"
#undef KILN_ONNX_CONTRIB
};

static const reason on_host[] = {
#define KILN_CHECK_HOST(op, text) {op, NULL, text},
#include "check_onnx.def"
};

static const struct {
    const char *domain;
    const char *op_type;
    const char *attributes;
} contributed[] = {
#define KILN_ONNX_CONTRIB(domain, type, last, least, most, handler, attributes)                    \
    {domain, #type, attributes},
#include "onnx_contrib.def"
#undef KILN_ONNX_CONTRIB
};

static int by_name(const void *a, const void *b)
{
    const row *x = a;
    const row *y = b;
    int order = strcmp(x->op_type, y->op_type);
    return order != 0 ? order : x->first - y->first;
}

/// One line for an operator: its rows follow each other without a gap.
static void write_served(void)
{
    size_t count = sizeof(rows) / sizeof(rows[0]);
    qsort(rows, count, sizeof(rows[0]), by_name);
    printf("| operator | operator sets |\n|---|---|\n");
    for (size_t i = 0; i < count; i++) {
        int first = rows[i].first;
        while (i + 1 < count && strcmp(rows[i].op_type, rows[i + 1].op_type) == 0 &&
               rows[i + 1].first == rows[i].last + 1) {
            i++;
        }
        printf("| %s | %d to %d%s |\n", rows[i].op_type, first, rows[i].last,
               rows[i].last < NEWEST ? ", where ONNX ended it" : "");
    }
}

static void write_contributed(void)
{
    printf(
        "\n## Of other domains\n\n"
        "What ONNX Runtime's tools write (quantisation, its optimiser of transformers, exporters "
        "of generators), where no\nplugin brings the operator. A node with another attribute is "
        "refused, and so is a form that an operator's message\nnames, such as quantised "
        "caches, packed batches and weights of few bits that are no constants.\n\n"
        "| domain | operator | attributes |\n|---|---|---|\n");
    for (size_t i = 0; i < sizeof(contributed) / sizeof(contributed[0]); i++) {
        const char *domain = contributed[i].domain;
        printf("| %s | %s | %s |\n", domain[0] == '\0' ? "ai.onnx" : domain, contributed[i].op_type,
               contributed[i].attributes);
    }
}

static void write_reasons(const char *heading, const char *intro, const reason *reasons,
                          size_t count)
{
    printf("\n## %s\n\n%s\n\n", heading, intro);
    printf(reasons[0].attribute == NULL ? "| operator | why |\n|---|---|\n"
                                        : "| operator | attribute | why |\n|---|---|---|\n");
    for (size_t i = 0; i < count; i++) {
        const char *name = strcmp(reasons[i].name, "_") == 0 ? "any" : reasons[i].name;
        if (reasons[i].attribute == NULL) {
            printf("| %s | %s |\n", name, reasons[i].text);
        } else {
            printf("| %s | %s | %s |\n", name, reasons[i].attribute, reasons[i].text);
        }
    }
}

int main(void)
{
    printf("# ONNX\n\n"
           "<!-- SPDX-License-Identifier: MIT OR Apache-2.0 -->\n"
           "<!-- Written by tools/gen_onnx from onnx_ops.def, onnx_contrib.def and check_onnx.def. "
           "-->\n\n"
           "Kiln runs models of ONNX's standard domain, operator sets 1 to %d, and the functions "
           "that a model brings. A model of\na newer set or IR version runs where it says nothing "
           "new: an operator, an attribute, an input or an element type\nthat set %d has not is "
           "refused by name. What is served is held against ONNX's own schemas by\n"
           "`tests/onnx_cases/coverage.py`, and tried by `kiln check-onnx`. A node of another "
           "domain is the operator\n`domain::op_type` of a plugin, see "
           "[writing an operator](fusers/writing-an-operator.md), or one of "
           "[those below](#of-other-domains).\nArchitectures that were exported and tried: "
           "[what was measured](benchmarks.md#exports-of-pytorch).\n\n",
           NEWEST, NEWEST);
    printf("Element types: the floats of 16, 32 and 64 bits with bfloat16, all integers, bool. "
           "Those of few bits take a byte for\neach element: int4, uint4, int2 and uint2 are i8 "
           "and u8 outside; float8 of every kind and float4 are f8e4m3fn,\nf8e4m3fnuz, f8e5m2, "
           "f8e5m2fnuz, f8e8m0 and f4e2m1, which are cast, moved, quantised to and from, and not "
           "computed with.\nStrings are moved, compared and looked up on the device, and looked "
           "into on the "
           "host. Complex numbers and floats of 6\nbits are refused by name. Tensors have at "
           "most 8 axes.\n\n"
           "## Served\n\nFrom 1 means from the set in which ONNX brought it.\n\n");
    write_served();
    write_contributed();
    write_reasons("On the host",
                  "A run computes these on the host when what they need is there: it is about "
                  "lengths or a few numbers.\n`kiln check-onnx --strict` fails for any other "
                  "operator that the host computes from a run's inputs.",
                  on_host, sizeof(on_host) / sizeof(on_host[0]));
    write_reasons("Refused",
                  "By name, before anything runs. So is every operator of a domain that "
                  "the model has no function for.",
                  refused, sizeof(refused) / sizeof(refused[0]));
    write_reasons("Attributes that nobody reads", "Kiln takes and ignores them.", unread,
                  sizeof(unread) / sizeof(unread[0]));
    return 0;
}
