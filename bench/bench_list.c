// SPDX-License-Identifier: MIT OR Apache-2.0
// The benches that `kiln bench` offers.
#include "bench.h"

static const bench_entry entries[] = {
    {"choice", "how often a block got a candidate within 5 % of the fastest", bench_choice,
     bench_fusion_case},
    {"coll", "all-reduce over 2 and 4 devices against memcpy of the same traffic", bench_coll,
     NULL},
    {"conv", "convolutions of ResNet-50 and depthwise ones of MobileNetV2 against PyTorch",
     bench_conv, bench_conv_case},
    {"elementwise", "a fused chain of five operations against a copy kernel and the unfused run",
     bench_elementwise, NULL},
    {"fusion", "softmax, norms, an optimiser step and others in primitives against a copy kernel",
     bench_fusion, bench_fusion_case},
    {"kernels", "every operator on 1 MiB, unfused, against the reference evaluator on one core",
     bench_kernels, bench_kernels_case},
    {"matmul", "f32 products of several sizes, alone and with bias and GELU, against OpenBLAS",
     bench_matmul, bench_matmul_case},
#ifdef KILN_WITH_ONNX
    {"models", "whole models against ONNX Runtime, OpenVINO, PyTorch and tinygrad", bench_models,
     bench_models_case},
#endif
    {"ops", "operators bound by memory against a copy kernel, NumPy and PyTorch", bench_ops,
     bench_ops_case},
#ifdef BENCH_WITH_TRAINING
    {"overlap", "data-parallel steps over slow links against the longer of their two halves",
     bench_overlap, bench_overlap_case},
#endif
    {"overhead", "what recording and finding a plan costs the host, over the null backend",
     bench_overhead, NULL},
    {"warm", "time to a transformer block's first result with plans and programs on disk",
     bench_warm, NULL},
    {"start", "time to the first result of a new process, with cold and warm caches", bench_start,
     NULL},
#ifdef KILN_WITH_REMOTE
    {"remote", "a device behind gRPC on loopback, beside raw sockets and a bare ping-pong",
     bench_remote, bench_remote_case},
#endif
};

const bench_entry *bench_at(size_t index)
{
    return index < sizeof(entries) / sizeof(entries[0]) ? &entries[index] : NULL;
}
