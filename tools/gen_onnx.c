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

static const reason skipped[] = {
#define KILN_CHECK_LISTED(name, kind, text) {name, NULL, text},
#include "check_onnx.def"
};

/// What was run, the test that runs it, and what was seen.
static const struct {
    const char *what;
    const char *test;
    const char *seen;
} seen[] = {
    {"node cases of onnx 1.23.2: 1,884", "unit/onnx/check_wheel",
     "1,858 pass, none fails, 26 are listed below"},
    {"node cases of Debian's libonnx-testdata 1.12: 1,072", "unit/onnx/check_onnx",
     "1,053 pass, none fails, 19 are listed below"},
    {"our own cases, which need no peer: 958", "unit/onnx/check_own", "all pass"},
    {"Cast between each type of few bits and every type: 504 casts of all values, or those around "
     "each border",
     "unit/onnx/check_casts", "bit for bit as ml_dtypes 0.6.0 and ONNX say"},
    {"BERT, GPT-2 and a convolutional model after onnxruntime.quantization (dynamic, QDQ, "
     "QOperator; 2, 4 and 8 bits), its conversion to halves and its optimiser: 35 ways",
     "unit/onnx/check_tools",
     "all run; off from the floats by at most 1.1 times what ONNX Runtime 1.32.0 is, halves by "
     "at most 0.002 more"},
    {"com.microsoft's operators", "unit/onnx/onnx_microsoft",
     "what ONNX Runtime gave, kept in a file"},
    {"estimators of scikit-learn 1.9.1 by skl2onnx 1.20.0: 48, two of them 500 trees on 10,000 "
     "rows",
     "unit/onnx/check_sklearn", "all within 1e-5, labels equal"},
    {"a Llama-like decoder of four layers by both exporters of PyTorch 2.15.0, 64 new tokens",
     "generate",
     "PyTorch's tokens; no plans after the tenth; tokens and logits are copied, nothing else"},
    {"51 architectures, most of torchvision and transformers, by PyTorch's exporters",
     "unit/onnx/check_architectures",
     "all within 1e-5 of ONNX Runtime: [each](benchmarks.md#exports-of-pytorch)"},
    {"1,250 shape operators in a model that runs again", "unit/onnx/test_onnx_settled",
     "5 us a run in all, on a device that computes nothing"},
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

static void write_reasons(const char *heading, const char *intro, const char *what,
                          const reason *reasons, size_t count)
{
    printf("\n## %s\n\n%s\n\n", heading, intro);
    printf(reasons[0].attribute == NULL ? "| %s | why |\n|---|---|\n"
                                        : "| %s | attribute | why |\n|---|---|---|\n",
           what);
    for (size_t i = 0; i < count; i++) {
        const char *name = strcmp(reasons[i].name, "_") == 0 ? "any" : reasons[i].name;
        if (reasons[i].attribute == NULL) {
            printf("| %s | %s |\n", name, reasons[i].text);
        } else {
            printf("| %s | %s | %s |\n", name, reasons[i].attribute, reasons[i].text);
        }
    }
}

static void write_seen(void)
{
    printf(
        "\n## What was run\n\n"
        "On the reference evaluator. The tests ask for the same on PoCL, of casts and of ONNX "
        "Runtime's tools for a part.\n`./dev test` runs what needs no peer, `./dev peers` what is "
        "compared with one: it makes a Python with them,\n`build/peers/bin/python`. A Python of "
        "your own does as well, named by `KILN_TEST_PYTHON`:\n"
        "`ctest --test-dir build -R check_casts`.\n\n"
        "| what | test | seen |\n|---|---|---|\n");
    for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++) {
        printf("| %s | %s | %s |\n", seen[i].what, seen[i].test, seen[i].seen);
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
                  "operator", on_host, sizeof(on_host) / sizeof(on_host[0]));
    write_reasons("Refused",
                  "By name, before anything runs. So is every operator of a domain that "
                  "the model has no function for.",
                  "operator", refused, sizeof(refused) / sizeof(refused[0]));
    write_reasons("Attributes that nobody reads", "Kiln takes and ignores them.", "operator",
                  unread, sizeof(unread) / sizeof(unread[0]));
    write_seen();
    write_reasons("Cases of ONNX that are skipped",
                  "By name; any other that does not pass fails `kiln check-onnx --strict`. Of the "
                  "random ones the shapes, types\nand statistics are checked. The two of gradients "
                  "are in Debian's cases alone, the pictures in the newer ones.",
                  "case", skipped, sizeof(skipped) / sizeof(skipped[0]));
    return 0;
}
