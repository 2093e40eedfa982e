// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TESTS_IMAGE_NET_H
#define KILN_TESTS_IMAGE_NET_H

/// Nets of images of f16 or bf16 for tests of the convolution fuser through the C ABI. Numbers are
/// small and whole, so that sums are exact in any order. The case's parameter is the variant.

#include "mini_host.h"

typedef struct net_variant {
    uint32_t dtype;
    bool on_tensor; ///< on NVIDIA's tensor cores
} net_variant;

/// A net in the making. What it is in double stands beside each tensor.
typedef struct image_net {
    mini_host *mini;
    uint32_t dtype;
    uint32_t noise;
    double *exact[MINI_MAX_TENSORS];
} image_net;

typedef struct net_window {
    int64_t lengths[2];
    int64_t strides[2];
    int64_t dilations[2];
    int64_t padding[4];
} net_window;

extern const net_window net_point; ///< 1x1
extern const net_window net_near; ///< 3x3, padded

/// False: the device is not there, or has no tensor cores, which is told.
bool net_begin(image_net *n);
void net_end(image_net *n);
/// Begins the net anew.
void net_forget(image_net *n);
/// Drops all that is computed but `result`, runs the net as one block, compares, and forgets it.
/// `off`: how far a result may be off; 0: rounded once, to the last bit.
void net_check(image_net *n, uint32_t result, double off);
void net_compare(const image_net *n, uint32_t id, double off);

// What makes a tensor gives its id.

uint32_t net_image(image_net *n, int64_t count, int64_t channels, int64_t height, int64_t width);
/// Of `every` numbers about one is not 0.
uint32_t net_constant(image_net *n, uint32_t rank, const int64_t *extents, uint32_t every);
/// With weights, and with a bias or not.
uint32_t net_conv(image_net *n, uint32_t x, int64_t filters, const net_window *w, bool bias);
uint32_t net_max_pool(image_net *n, uint32_t x, const net_window *w);
uint32_t net_relu(image_net *n, uint32_t x);
/// `b` is as `a`, a vector of channels, or has one place for all.
uint32_t net_binary(image_net *n, uint32_t kind, uint32_t a, uint32_t b);
/// Over each image.
uint32_t net_mean(image_net *n, uint32_t x);

#endif
