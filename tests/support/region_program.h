// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TESTS_REGION_PROGRAM_H
#define KILN_TESTS_REGION_PROGRAM_H

/// Programs of images as nodes, for tests of the fuser `convolution`: each is recorded through the
/// runtime and runs with that fuser alone, on the reference and, where that needs few kernels,
/// unfused. The results are compared.

#include "kiln.h"

enum { MAX_NODES = 256, MOST_INPUTS = 12 };

typedef enum node_kind {
    IMAGE,
    CONSTANT,
    CONV,
    TURNED, ///< a transposed convolution
    NORM,
    MAX_POOL,
    AVG_POOL,
    MEAN,
    RELU,
    SIGMOID,
    TANH,
    HARD_SWISH,
    GELU,
    ERF,
    CLAMP, ///< between a and b
    LEAKY, ///< slope a
    ADD_NUMBER,
    MUL_NUMBER,
    ADD,
    SUB,
    MUL,
    MAXIMUM,
    CONCAT ///< along channels
} node_kind;

typedef struct window {
    int64_t lengths[2];
    int64_t strides[2];
    int64_t dilations[2];
    int64_t padding[4]; ///< top, left, bottom, right
} window;

typedef struct node {
    node_kind kind;
    int inputs[MOST_INPUTS];
    int n_inputs;
    int64_t dims[4];
    uint32_t rank;
    window window;
    int64_t groups; ///< of a convolution
    double a, b;
    bool include_pad;
    bool ceil_mode;
    bool kept; ///< a result that the program holds
    bool odd; ///< IMAGE: with NaN and infinities
    bool has_nan; ///< IMAGE: with NaN
} node;

typedef struct program {
    char name[80];
    int count;
    uint64_t state; ///< of random choices
    int64_t products; ///< multiplications
    bool unfused; ///< compared with the unfused run, too
    uint64_t apart; ///< operations that the region must not take
    bool infinity_is_nan; ///< what is infinite elsewhere may be NaN
    bool lines; ///< images of one row are recorded without it: [n, channels, width]
    kiln_dtype dtype; ///< of images and constants: f16, bf16, otherwise f32
    node nodes[MAX_NODES];
} program;

typedef struct session {
    kiln_context *context;
    kiln_device *device;
    uint32_t complaints; ///< warnings: a kernel that does not build is one, not an error
} session;

/// The session that has the fuser, open between region_open_all and region_close_all, and what
/// failed last.
extern session region_fused;
extern kiln_error region_err;

int region_image(program *p, int64_t n, int64_t channels, int64_t height, int64_t width);
int region_constant(program *p, uint32_t rank, const int64_t *dims, double low, double high);
int region_per_channel(program *p, uint32_t rank, int64_t channels);
window region_square(int64_t length, int64_t stride, int64_t padding);
int region_grouped(program *p, int64_t groups, int x, int64_t outputs, bool bias, window w);
int region_conv(program *p, int x, int64_t outputs, bool bias, window w);
int region_conv1(program *p, int x, int64_t outputs);
int region_conv3(program *p, int x, int64_t outputs);
int region_turned(program *p, int x, int64_t outputs, bool bias, window w);
int region_depthwise(program *p, int x, bool bias, window w);
/// A batch norm with epsilon.
int region_norm_with(program *p, int x, double epsilon);
int region_norm(program *p, int x);
int region_pool(program *p, node_kind kind, int x, window w, bool ceil_mode, bool include_pad);
int region_mean(program *p, int x);
int region_numbers(program *p, node_kind kind, int x, double a, double b);
int region_map(program *p, node_kind kind, int x);
int region_both(program *p, node_kind kind, int x, int y);
int region_silu(program *p, int x);
int region_concat(program *p, const int *pieces, int count);
/// What squeeze-and-excite does: a factor for each channel of an image from its own means.
int region_gate(program *p, int x);
int region_keep(program *p, int x);
bool region_ok(kiln_status status, const program *p);
double region_next_number(uint64_t *state);
kiln_tensor *region_source(const program *p, const node *n, kiln_device *device, uint64_t seed);
kiln_status region_record(const node *n, kiln_tensor **in, kiln_tensor **out);
bool region_is_read_behind(const program *p, int index, int value);
kiln_device_stats region_stats_of(kiln_device *device);
/// Runs the program everywhere; `blocks`: into how many the fuser may cut it.
void region_check_salted(const program *p, uint64_t salt, uint64_t blocks);
void region_check(const program *p);
void region_close_all(void);
/// False where there is no processor with a compiler, which is what the fuser is for.
bool region_open_all(void);

#endif
