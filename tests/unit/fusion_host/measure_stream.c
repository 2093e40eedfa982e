// SPDX-License-Identifier: MIT OR Apache-2.0
// What fusion_host alone costs for an operation of a repeated program: recording it and finding its
// plan, drops counted with their operations. Prints median and 90th percentile; not a test. With
// `alone`, no fuser takes part.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuse_fixture.h"

enum { OPS = 16, STEPS = 256, SAMPLES = 301 };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct prepared {
    kiln_op_record record;
    kiln_tensor_desc inputs[2];
    kiln_tensor_desc output;
    kiln_attr attr;
    void *tokens[3];
} prepared;

static void prepare(fuse_fixture *f, prepared *ops)
{
    const int64_t dims[] = {64, 64};
    kiln_tensor_desc x = fixture_input(f, 2, dims);
    kiln_tensor_desc b = fixture_input(f, 2, dims);
    static const kiln_op kinds[] = {KILN_OP_MUL, KILN_OP_ADD_SCALAR, KILN_OP_RELU, KILN_OP_SUB};
    for (uint32_t i = 0; i < OPS; i++) {
        prepared *p = &ops[2 * i];
        bool binary = i % 4 == 0 || i % 4 == 3;
        *p = (prepared){.inputs = {x, b}, .output = x};
        p->output.id = f->next_id++;
        p->output.flags = 0;
        p->attr = (kiln_attr){.type = KILN_ATTR_F64, .count = 1, .v = {.f = 1.5}};
        p->record = (kiln_op_record){.op = kinds[i % 4],
                                     .n_inputs = binary ? 2 : 1,
                                     .n_outputs = 1,
                                     .n_attrs = i % 4 == 1,
                                     .inputs = p->inputs,
                                     .outputs = &p->output,
                                     .attrs = &p->attr};
        prepared *drop = &ops[2 * i + 1];
        *drop = (prepared){.inputs = {x}};
        drop->record = (kiln_op_record){.op = KILN_OP_DROP, .n_inputs = 1, .inputs = drop->inputs};
        x = p->output;
    }
}

static void step(fuse_fixture *f, const prepared *ops)
{
    for (uint32_t i = 0; i < 2 * OPS; i++) {
        const kiln_fuse_segment *s = NULL;
        if (kiln_fuse_stream_push(f->stream, &ops[i].record, ops[i].tokens, NULL) != 0 ||
            kiln_fuse_stream_next(f->stream, false, &s, NULL) != 0) {
            abort();
        }
        kiln_fuse_stream_done(f->stream, s);
    }
    for (const kiln_fuse_segment *s = fixture_next(f, true); s != NULL; s = fixture_next(f, true)) {
        kiln_fuse_stream_done(f->stream, s);
    }
}

int main(int argc, char **argv)
{
    static prepared ops[2 * OPS];
    static double samples[SAMPLES];
    static const char *const plugins[] = {"chain", NULL};
    bool unfused = argc > 1 && strcmp(argv[1], "alone") == 0;
    fuse_fixture f;
    if (!fixture_open(&f, unfused ? NULL : plugins)) {
        return 1;
    }
    prepare(&f, ops);
    step(&f, ops);
    for (int i = 0; i < SAMPLES; i++) {
        uint64_t begin = kiln_time_ns();
        for (int k = 0; k < STEPS; k++) {
            step(&f, ops);
        }
        samples[i] = (double)(kiln_time_ns() - begin) / STEPS / OPS;
    }
    qsort(samples, SAMPLES, sizeof(samples[0]), compare);
    kiln_fuse_stats stats = fixture_stats(&f);
    printf(
        "%.0f ns median, %.0f ns 90th percentile an operation; %llu plans searched, %llu found\n",
        samples[SAMPLES / 2], samples[SAMPLES * 9 / 10], (unsigned long long)stats.plans_searched,
        (unsigned long long)stats.plans_found);
    fixture_release(&f);
    return 0;
}
