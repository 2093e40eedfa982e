// SPDX-License-Identifier: MIT OR Apache-2.0
// How benches tell their figures: a table for people, JSON lines for programs. Also the list of
// benches.

#define _XOPEN_SOURCE 700
#include "bench.h"

#include <ftw.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const bench_entry entries[] = {
    {"choice", "how often a block got a candidate within 5 % of the fastest", bench_choice,
     bench_fusion_case},
    {"coll", "all-reduce over 2 and 4 devices against memcpy of the same traffic", bench_coll,
     NULL},
    {"elementwise", "a fused chain of five operations against a copy kernel and the unfused run",
     bench_elementwise, NULL},
    {"fusion", "softmax, norms, an optimiser step and others in primitives against a copy kernel",
     bench_fusion, bench_fusion_case},
    {"kernels", "every operator on 1 MiB, unfused, against the reference evaluator on one core",
     bench_kernels, bench_kernels_case},
    {"matmul", "f32 products of several sizes, alone and with bias and GELU, against OpenBLAS",
     bench_matmul, bench_matmul_case},
    {"ops", "operators bound by memory against a copy kernel, NumPy and PyTorch", bench_ops,
     bench_ops_case},
    {"overhead", "what recording and finding a plan costs the host, over the null backend",
     bench_overhead, NULL},
    {"warm", "time to a transformer block's first result with plans and programs on disk",
     bench_warm, NULL},
    {"start", "time to the first result of a new process, with cold and warm caches", bench_start,
     NULL},
#ifdef KILN_WITH_REMOTE
    {"remote", "a device behind gRPC on loopback, beside raw sockets and a bare ping-pong",
     bench_remote, NULL},
#endif
};

const bench_entry *bench_at(size_t index)
{
    return index < sizeof(entries) / sizeof(entries[0]) ? &entries[index] : NULL;
}

bool bench_wanted(const bench_options *options, const char *name)
{
    return options->only == NULL || strstr(name, options->only) != NULL;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

void bench_remove_tree(const char *path)
{
    (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void bench_header(const bench_options *options)
{
    if (!options->json) {
        printf("%-28s %12s %-8s %-26s %7s %7s %8s  %s\n", "case", "value", "unit", "against",
               "ratio", "bar", "samples", "device, peer");
    }
}

static void print_json(const bench_result *result)
{
    json_t *object = json_pack(
        "{s:s, s:f, s:s, s:s, s:f, s:s, s:s, s:i}", "case", result->name, "value", result->value,
        "unit", result->unit, "against", result->against, "ratio", result->ratio, "peer_version",
        result->peer_version, "device", result->device, "samples", (int)result->samples);
    if (object != NULL && result->bar > 0) {
        (void)json_object_set_new(object, "bar", json_real(result->bar));
    }
    char *text = object != NULL ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    if (text != NULL) {
        puts(text);
    }
    free(text);
    json_decref(object);
}

void bench_report(const bench_options *options, const bench_result *result)
{
    if (options->json) {
        print_json(result);
    } else {
        char bar[16] = "-";
        if (result->bar > 0) {
            snprintf(bar, sizeof(bar), "%.2f%s", result->bar,
                     result->ratio >= result->bar ? "" : " !");
        }
        printf("%-28s %12.3f %-8s %-26s %7.3f %7s %8u  %s, %s\n", result->name, result->value,
               result->unit, result->against, result->ratio, bar, result->samples, result->device,
               result->peer_version);
    }
    fflush(stdout);
}
