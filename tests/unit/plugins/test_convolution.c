// SPDX-License-Identifier: MIT OR Apache-2.0
// Regions of convolutions as the shipped fuser `convolution` takes them, through the runtime: each
// program runs with that fuser alone, on the reference and, where that needs few kernels, unfused.
// The first must have taken every operation in one block; its numbers are within TOLERANCE of the
// largest of the tensor (docs/numerics.md: sums in another order, norms folded into weights), NaN
// and infinities stand where the others have them, and another run gives the same bits.
//
// KILN_TEST_LONG adds products of all lengths, strides and dilations, more random programs, and the
// unfused run of each; KILN_TEST_REGION=name runs one case.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "kiln.h"
#include "kiln_ops.h"

enum {
    MAX_NODES = 256,
    MOST_INPUTS = 12,
    JUDGED_PRODUCTS = 1 << 20, ///< multiplications that the reference may do
    RANDOM_PROGRAMS = 40,
    RANDOM_PROGRAMS_LONG = 400
};

static const double TOLERANCE = 2e-5;

// ---- programs ----

typedef enum node_kind {
    IMAGE,
    CONSTANT,
    CONV,
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
    node nodes[MAX_NODES];
} program;

static int add_node(program *p, const node *made)
{
    if (!KILN_CHECK(p->count < MAX_NODES)) {
        return 0;
    }
    p->nodes[p->count] = *made;
    return p->count++;
}

static int image(program *p, int64_t n, int64_t channels, int64_t height, int64_t width)
{
    return add_node(
        p,
        &(node){.kind = IMAGE, .rank = 4, .dims = {n, channels, height, width}, .a = -1, .b = 1});
}

static int constant(program *p, uint32_t rank, const int64_t *dims, double low, double high)
{
    node made = {.kind = CONSTANT, .rank = rank, .a = low, .b = high};
    if (rank > 0) {
        memcpy(made.dims, dims, rank * sizeof(*dims));
    }
    return add_node(p, &made);
}

static int vector(program *p, int64_t channels, double low, double high)
{
    return constant(p, 1, &channels, low, high);
}

static int per_channel(program *p, uint32_t rank, int64_t channels)
{
    const int64_t dims[] = {1, channels, 1, 1};
    return constant(p, rank, dims + 4 - rank, -1, 1);
}

static window square(int64_t length, int64_t stride, int64_t padding)
{
    return (window){.lengths = {length, length},
                    .strides = {stride, stride},
                    .dilations = {1, 1},
                    .padding = {padding, padding, padding, padding}};
}

static void windows_of(node *made, const node *x)
{
    const window *w = &made->window;
    for (int i = 0; i < 2; i++) {
        int64_t in = x->dims[2 + i], before = w->padding[i], reach;
        reach = (w->lengths[i] - 1) * w->dilations[i] + 1;
        int64_t room = in + before + w->padding[2 + i] - reach, count = room / w->strides[i] + 1;
        if (made->ceil_mode && room % w->strides[i] != 0 &&
            count <= (in + before - 1) / w->strides[i]) {
            count++;
        }
        made->dims[2 + i] = count;
    }
}

static int grouped(program *p, int64_t groups, int x, int64_t outputs, bool bias, window w)
{
    const node *in = &p->nodes[x];
    int64_t inputs = in->dims[1] / groups;
    const int64_t dims[] = {outputs, inputs, w.lengths[0], w.lengths[1]};
    double reach = 2 / sqrt((double)(inputs * w.lengths[0] * w.lengths[1]));
    node made = {
        .kind = CONV, .rank = 4, .window = w, .groups = groups, .dims = {in->dims[0], outputs}};
    windows_of(&made, in);
    made.inputs[made.n_inputs++] = x;
    made.inputs[made.n_inputs++] = constant(p, 4, dims, -reach, reach);
    if (bias) {
        made.inputs[made.n_inputs++] = vector(p, outputs, -1, 1);
    }
    p->products +=
        made.dims[0] * outputs * made.dims[2] * made.dims[3] * inputs * w.lengths[0] * w.lengths[1];
    return add_node(p, &made);
}

static int conv(program *p, int x, int64_t outputs, bool bias, window w)
{
    return grouped(p, 1, x, outputs, bias, w);
}

static int conv1(program *p, int x, int64_t outputs)
{
    return conv(p, x, outputs, true, square(1, 1, 0));
}

static int conv3(program *p, int x, int64_t outputs)
{
    return conv(p, x, outputs, false, square(3, 1, 1));
}

static int depthwise(program *p, int x, bool bias, window w)
{
    return grouped(p, p->nodes[x].dims[1], x, p->nodes[x].dims[1], bias, w);
}

/// A batch norm with epsilon.
static int norm_with(program *p, int x, double epsilon)
{
    int64_t channels = p->nodes[x].dims[1];
    node made = p->nodes[x];
    made.kind = NORM;
    made.kept = made.odd = false;
    made.n_inputs = 5;
    made.a = epsilon;
    made.inputs[0] = x;
    made.inputs[1] = vector(p, channels, 0.5, 1.5);
    made.inputs[2] = vector(p, channels, -1, 1);
    made.inputs[3] = vector(p, channels, -0.5, 0.5);
    made.inputs[4] = vector(p, channels, 0.5, 2);
    return add_node(p, &made);
}

static int norm(program *p, int x)
{
    return norm_with(p, x, 1e-5);
}

static int pool(program *p, node_kind kind, int x, window w, bool ceil_mode, bool include_pad)
{
    const node *in = &p->nodes[x];
    node made = {.kind = kind,
                 .rank = 4,
                 .dims = {in->dims[0], in->dims[1]},
                 .inputs = {x},
                 .n_inputs = 1,
                 .window = w,
                 .ceil_mode = ceil_mode,
                 .include_pad = include_pad};
    windows_of(&made, in);
    return add_node(p, &made);
}

static int mean(program *p, int x)
{
    const node *in = &p->nodes[x];
    return add_node(p, &(node){.kind = MEAN,
                               .rank = 4,
                               .dims = {in->dims[0], in->dims[1], 1, 1},
                               .inputs = {x},
                               .n_inputs = 1});
}

static int numbers(program *p, node_kind kind, int x, double a, double b)
{
    const node *in = &p->nodes[x];
    node made = {.kind = kind, .rank = 4, .inputs = {x}, .n_inputs = 1, .a = a, .b = b};
    memcpy(made.dims, in->dims, sizeof(made.dims));
    return add_node(p, &made);
}

static int map(program *p, node_kind kind, int x)
{
    return numbers(p, kind, x, 0, 0);
}

static bool is_image(const node *x)
{
    return x->kind != CONSTANT;
}

static int both(program *p, node_kind kind, int x, int y)
{
    const node *in = &p->nodes[is_image(&p->nodes[x]) ? x : y], *other = &p->nodes[y];
    node made = {.kind = kind, .rank = 4, .inputs = {x, y}, .n_inputs = 2};
    memcpy(made.dims, in->dims, sizeof(made.dims));
    for (int i = 0; i < 4 && is_image(other); i++) {
        made.dims[i] = made.dims[i] > other->dims[i] ? made.dims[i] : other->dims[i];
    }
    return add_node(p, &made);
}

static int silu(program *p, int x)
{
    return both(p, MUL, x, map(p, SIGMOID, x));
}

static int concat(program *p, const int *pieces, int count)
{
    node made = p->nodes[pieces[0]];
    made.kind = CONCAT;
    made.kept = made.odd = false;
    made.n_inputs = count;
    made.dims[1] = 0;
    for (int i = 0; i < count; i++) {
        made.inputs[i] = pieces[i];
        made.dims[1] += p->nodes[pieces[i]].dims[1];
    }
    return add_node(p, &made);
}

/// What squeeze-and-excite does: a factor for each channel of an image from its own means.
static int gate(program *p, int x)
{
    int64_t channels = p->nodes[x].dims[1];
    int squeezed = map(p, RELU, conv1(p, mean(p, x), 8));
    return both(p, MUL, x, map(p, SIGMOID, conv1(p, squeezed, channels)));
}

static int keep(program *p, int x)
{
    p->nodes[x].kept = true;
    return x;
}

// ---- running ----

typedef struct session {
    kiln_context *context;
    kiln_device *device;
    uint32_t complaints; ///< warnings: a kernel that does not build is one, not an error
} session;

typedef struct results {
    int count;
    float *data[MAX_NODES];
    size_t floats[MAX_NODES];
    int nodes[MAX_NODES];
} results;

typedef struct taken { ///< what a run has done
    uint64_t recorded;
    uint64_t fused;
    uint64_t blocks;
} taken;

static session fused, plain, judge;
static kiln_error err;

static void heard(const kiln_log_record *record, void *user)
{
    session *s = user;
    if (record->level <= KILN_LOG_WARN) {
        s->complaints++;
        printf("    %s: %s\n", record->module, record->message);
    }
}

static bool ok(kiln_status status, const program *p)
{
    if (status != KILN_STATUS_OK) {
        KILN_FAIL("%s: %s", p->name, err.message);
    }
    return status == KILN_STATUS_OK;
}

static bool is_long(void)
{
    const char *set = getenv("KILN_TEST_LONG");
    return set != NULL && *set != '\0' && strcmp(set, "0") != 0;
}

static double next_number(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) / 16777216.0;
}

static kiln_tensor *source(const program *p, const node *n, kiln_device *device, uint64_t seed)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, NAN};
    size_t count = 1, at;
    kiln_tensor *tensor = NULL;
    for (uint32_t i = 0; i < n->rank; i++) {
        count *= (size_t)n->dims[i];
    }
    float *data = malloc((count + 1) * sizeof(*data));
    seed = seed * 7919 + 17;
    for (size_t i = 0; data != NULL && i < count; i++) {
        data[i] = (float)(n->a + (n->b - n->a) * next_number(&seed));
    }
    for (size_t i = 0; data != NULL && (n->odd || n->has_nan) && i < 4; i++) {
        at = (size_t)(next_number(&seed) * (double)count);
        data[at < count ? at : 0] = n->odd ? odd[i] : NAN;
    }
    if (KILN_CHECK(data != NULL)) {
        (void)ok(kiln_tensor_create(device, KILN_DTYPE_F32, n->rank, n->dims, data, &tensor, &err),
                 p);
    }
    free(data);
    if (tensor != NULL && n->kind == CONSTANT) {
        kiln_tensor_mark_constant(tensor);
    }
    return tensor;
}

static kiln_status record_product(const node *n, kiln_tensor **in, kiln_tensor **out)
{
    kiln_conv_options o = KILN_CONV_OPTIONS_INIT;
    o.strides = n->window.strides;
    o.padding = n->window.padding;
    o.dilations = n->window.dilations;
    o.n_strides = o.n_dilations = 2;
    o.n_padding = 4;
    o.groups = n->groups;
    return kiln_conv(in[0], in[1], n->n_inputs == 3 ? in[2] : NULL, &o, out, &err);
}

static kiln_status record_pool(const node *n, kiln_tensor *x, kiln_tensor **out)
{
    const window *w = &n->window;
    if (n->kind == MAX_POOL) {
        kiln_max_pool_options o = KILN_MAX_POOL_OPTIONS_INIT;
        o.kernel = w->lengths;
        o.strides = w->strides;
        o.padding = w->padding;
        o.dilations = w->dilations;
        o.n_kernel = o.n_strides = o.n_dilations = 2;
        o.n_padding = 4;
        o.ceil_mode = n->ceil_mode;
        return kiln_max_pool(x, &o, out, &err);
    }
    kiln_avg_pool_options o = KILN_AVG_POOL_OPTIONS_INIT;
    o.kernel = w->lengths;
    o.strides = w->strides;
    o.padding = w->padding;
    o.dilations = w->dilations;
    o.n_kernel = o.n_strides = o.n_dilations = 2;
    o.n_padding = 4;
    o.ceil_mode = n->ceil_mode;
    o.include_pad = n->include_pad;
    return kiln_avg_pool(x, &o, out, &err);
}

static kiln_status record_map(const node *n, kiln_tensor **in, kiln_tensor **out)
{
    switch (n->kind) {
    case RELU:
        return kiln_relu(in[0], out, &err);
    case SIGMOID:
        return kiln_sigmoid(in[0], out, &err);
    case TANH:
        return kiln_tanh(in[0], out, &err);
    case HARD_SWISH:
        return kiln_hard_swish(in[0], out, &err);
    case GELU:
        return kiln_gelu(in[0], false, out, &err);
    case ERF:
        return kiln_erf(in[0], out, &err);
    case CLAMP:
        return kiln_clamp(in[0], kiln_f64(n->a), kiln_f64(n->b), out, &err);
    case LEAKY:
        return kiln_leaky_relu(in[0], n->a, out, &err);
    case ADD_NUMBER:
        return kiln_add_scalar(in[0], kiln_f64(n->a), out, &err);
    case MUL_NUMBER:
        return kiln_mul_scalar(in[0], kiln_f64(n->a), out, &err);
    case ADD:
        return kiln_add(in[0], in[1], out, &err);
    case SUB:
        return kiln_sub(in[0], in[1], out, &err);
    case MUL:
        return kiln_mul(in[0], in[1], out, &err);
    default:
        return kiln_maximum(in[0], in[1], out, &err);
    }
}

static kiln_status record(const node *n, kiln_tensor **in, kiln_tensor **out)
{
    static const int64_t axes[] = {2, 3};
    switch (n->kind) {
    case CONV:
        return record_product(n, in, out);
    case NORM:
        return kiln_batch_norm(in[0], in[1], in[2], in[3], in[4], n->a, out, &err);
    case MAX_POOL:
    case AVG_POOL:
        return record_pool(n, in[0], out);
    case CONCAT:
        return kiln_concat(in, (size_t)n->n_inputs, 1, out, &err);
    case MEAN:
        return kiln_mean(in[0], axes, 2, true, out, &err);
    default:
        return record_map(n, in, out);
    }
}

static bool is_read_behind(const program *p, int index, int value)
{
    for (int i = index + 1; i < p->count; i++) {
        for (int k = 0; k < p->nodes[i].n_inputs; k++) {
            if (p->nodes[i].inputs[k] == value) {
                return true;
            }
        }
    }
    return false;
}

/// Records the program, with `salt` in all data, and releases values behind their last reader.
static bool record_all(const program *p, kiln_device *device, uint64_t salt, kiln_tensor **values)
{
    for (int i = 0; i < p->count; i++) {
        if (p->nodes[i].kind <= CONSTANT) {
            values[i] = source(p, &p->nodes[i], device, salt * 1000 + (uint64_t)i);
        }
    }
    for (int i = 0; i < p->count; i++) {
        const node *n = &p->nodes[i];
        kiln_tensor *in[MOST_INPUTS] = {NULL};
        for (int k = 0; k < n->n_inputs; k++) {
            in[k] = values[n->inputs[k]];
        }
        if (n->kind > CONSTANT && !ok(record(n, in, &values[i]), p)) {
            return false;
        }
        for (int k = 0; k <= i; k++) {
            if (values[k] != NULL && !p->nodes[k].kept && !is_read_behind(p, i, k)) {
                kiln_release(values[k]);
                values[k] = NULL;
            }
        }
    }
    return true;
}

static kiln_device_stats stats_of(kiln_device *device)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(device, &stats);
    return stats;
}

static void read_result(const program *p, kiln_tensor *tensor, int index, results *out)
{
    size_t bytes = kiln_tensor_bytes(tensor);
    float *data = malloc(bytes);
    if (KILN_CHECK(data != NULL) && ok(kiln_read(tensor, data, bytes, &err), p)) {
        out->nodes[out->count] = index;
        out->floats[out->count] = bytes / sizeof(float);
        out->data[out->count++] = data;
        return;
    }
    free(data);
}

static taken run(const program *p, session *s, uint64_t salt, results *out)
{
    kiln_tensor *values[MAX_NODES] = {NULL};
    kiln_device_stats before = stats_of(s->device);
    bool done = record_all(p, s->device, salt, values) && ok(kiln_sync(s->device, &err), p);
    kiln_device_stats after = stats_of(s->device);
    out->count = 0;
    for (int i = 0; i < p->count; i++) {
        if (done && values[i] != NULL && p->nodes[i].kept) {
            read_result(p, values[i], i, out);
        }
        kiln_release(values[i]);
    }
    return (taken){after.ops_recorded - before.ops_recorded, after.ops_fused - before.ops_fused,
                   after.blocks_fused - before.blocks_fused};
}

static void free_results(results *r)
{
    for (int i = 0; i < r->count; i++) {
        free(r->data[i]);
    }
}

// ---- comparing ----

static double largest(const float *data, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        double size = fabs((double)data[i]);
        most = isfinite(size) && size > most ? size : most;
    }
    return most;
}

static bool agree(const program *p, float a, float b, double bound)
{
    if (p->infinity_is_nan && !isfinite(b)) {
        return !isfinite(a);
    }
    if (isnan(a) || isnan(b)) {
        return isnan(a) && isnan(b);
    }
    return a == b || fabs((double)a - (double)b) <= bound;
}

static void compare(const program *p, const results *a, const results *b, const char *with)
{
    if (!KILN_CHECK_INT(a->count, b->count)) {
        return;
    }
    for (int i = 0; i < a->count; i++) {
        double bound = TOLERANCE * largest(b->data[i], b->floats[i]);
        size_t at = 0;
        while (at < b->floats[i] && agree(p, a->data[i][at], b->data[i][at], bound)) {
            at++;
        }
        if (at < b->floats[i]) {
            KILN_FAIL("%s, value %d: element %zu of %zu is %g, %s it is %g (bound %g)", p->name,
                      a->nodes[i], at, b->floats[i], (double)a->data[i][at], with,
                      (double)b->data[i][at], bound);
        }
    }
}

static void compare_bits(const program *p, const results *a, const results *b)
{
    for (int i = 0; i < a->count && i < b->count; i++) {
        if (memcmp(a->data[i], b->data[i], a->floats[i] * sizeof(float)) != 0) {
            KILN_FAIL("%s, value %d: another run has other bits", p->name, a->nodes[i]);
        }
    }
}

static void check_taken(const program *p, const taken *got, uint64_t blocks)
{
    if (got->fused + p->apart != got->recorded || got->blocks < 1 || got->blocks > blocks) {
        KILN_FAIL("%s: %d of %d operations fused, in %d blocks", p->name, (int)got->fused,
                  (int)got->recorded, (int)got->blocks);
    }
}

static void compare_with(const program *p, session *s, uint64_t salt, const results *is,
                         const char *name)
{
    results other;
    (void)run(p, s, salt, &other);
    compare(p, is, &other, name);
    free_results(&other);
}

/// Runs the program everywhere; `blocks`: into how many the fuser may cut it.
static void check_salted(const program *p, uint64_t salt, uint64_t blocks)
{
    results first, again;
    uint32_t complaints = fused.complaints;
    taken got = run(p, &fused, salt, &first);
    check_taken(p, &got, blocks);
    (void)run(p, &fused, salt, &again);
    compare_bits(p, &first, &again);
    if (fused.complaints != complaints) {
        KILN_FAIL("%s: the fuser's program was not taken", p->name);
    }
    if (p->products <= JUDGED_PRODUCTS) {
        compare_with(p, &judge, salt, &first, "on the reference");
    }
    if (p->unfused || p->products > JUDGED_PRODUCTS || is_long()) {
        compare_with(p, &plain, salt, &first, "unfused");
    }
    free_results(&first);
    free_results(&again);
}

static void check(const program *p)
{
    check_salted(p, 1, 1);
}

static bool open_one(session *s, const char *device, const char *plugins)
{
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    options.log = heard;
    options.log_user = s;
    s->complaints = 0;
    if (!KILN_CHECK_INT(kiln_context_create(&options, &s->context, &err), KILN_STATUS_OK)) {
        return false;
    }
    KILN_CHECK_INT(kiln_context_set(s->context, "plugins", plugins, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_context_set(s->context, "fuse-slower", "1", &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_context_set(s->context, "tune", "off", &err), KILN_STATUS_OK);
    return kiln_device_open(s->context, device, &s->device, &err) == KILN_STATUS_OK;
}

static void close_all(void)
{
    session *const all[] = {&fused, &plain, &judge};
    for (int i = 0; i < 3; i++) {
        kiln_device_release(all[i]->device);
        kiln_context_destroy(all[i]->context);
        memset(all[i], 0, sizeof(*all[i]));
    }
}

/// False where there is no processor with a compiler, which is what the fuser is for.
static bool open_all(void)
{
    bool open = open_one(&fused, "opencl:0", "org.kiln.convolution") &&
                open_one(&plain, "opencl:0", "off") && open_one(&judge, "reference", "off");
    if (!open) {
        kiln_test_skip("no OpenCL device: %s", err.message);
        close_all();
    }
    return open;
}

// ---- single products ----

typedef struct product_case {
    int64_t n, channels, height, width, outputs;
    window window;
    bool bias;
    bool depthwise;
} product_case;

#define W(kh, kw, sy, sx, dy, dx, t, l, b, r)                                                      \
    {                                                                                              \
        {kh, kw}, {sy, sx}, {dy, dx},                                                              \
        {                                                                                          \
            t, l, b, r                                                                             \
        }                                                                                          \
    }

static const product_case product_cases[] = {
    {1, 1, 1, 1, 1, W(1, 1, 1, 1, 1, 1, 0, 0, 0, 0), false, false},
    {2, 3, 7, 13, 5, W(1, 1, 1, 1, 1, 1, 0, 0, 0, 0), true, false},
    {1, 16, 14, 14, 16, W(1, 1, 1, 1, 1, 1, 0, 0, 0, 0), false, false},
    {3, 17, 2, 28, 40, W(1, 1, 1, 1, 1, 1, 0, 0, 0, 0), true, false},
    {1, 64, 7, 7, 64, W(1, 1, 1, 1, 1, 1, 0, 0, 0, 0), false, false},
    {1, 24, 15, 15, 24, W(1, 1, 2, 2, 1, 1, 0, 0, 0, 0), true, false},
    {2, 8, 13, 29, 17, W(2, 2, 1, 1, 1, 1, 0, 0, 0, 0), false, false},
    {1, 5, 13, 14, 24, W(2, 2, 2, 2, 1, 1, 1, 0, 0, 1), true, false},
    {1, 1, 28, 28, 8, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), true, false},
    {2, 3, 29, 15, 16, W(3, 3, 2, 2, 1, 1, 0, 0, 1, 1), false, false},
    {1, 16, 13, 13, 17, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), true, false},
    {1, 40, 14, 7, 64, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), false, false},
    {3, 17, 7, 7, 3, W(3, 3, 1, 1, 2, 2, 2, 2, 2, 2), true, false},
    {1, 8, 15, 28, 8, W(3, 3, 3, 3, 1, 1, 2, 1, 0, 2), false, false},
    {1, 24, 29, 13, 16, W(3, 3, 2, 2, 2, 2, 2, 1, 1, 2), true, false},
    {2, 16, 7, 1, 16, W(3, 1, 1, 1, 1, 1, 1, 0, 1, 0), false, false},
    {1, 17, 1, 29, 24, W(1, 3, 1, 2, 1, 1, 0, 1, 0, 1), true, false},
    {1, 5, 14, 14, 40, W(5, 5, 1, 1, 1, 1, 2, 2, 2, 2), false, false},
    {1, 16, 15, 13, 8, W(5, 5, 2, 2, 1, 1, 2, 2, 2, 2), true, false},
    {1, 3, 28, 28, 16, W(7, 7, 2, 2, 1, 1, 3, 3, 3, 3), true, false},
    {2, 1, 13, 7, 5, W(7, 7, 3, 1, 1, 1, 6, 0, 0, 6), false, false},
    {1, 8, 1, 2, 64, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), true, false},
    {1, 3, 2, 2, 5, W(5, 5, 3, 3, 1, 1, 4, 4, 4, 4), false, false},
    {1, 16, 14, 14, 16, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), false, true},
    {2, 17, 7, 13, 17, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), true, true},
    {1, 40, 15, 15, 40, W(3, 3, 2, 2, 1, 1, 1, 1, 1, 1), false, true},
    {1, 3, 28, 29, 3, W(5, 5, 1, 1, 1, 1, 2, 2, 2, 2), true, true},
    {3, 24, 13, 2, 24, W(3, 3, 1, 2, 2, 1, 2, 1, 1, 0), false, true},
    {1, 8, 1, 1, 8, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), true, true},
    {1, 64, 7, 14, 64, W(7, 1, 3, 3, 1, 1, 0, 2, 6, 1), false, true},
};

static void single(program *p, const product_case *c)
{
    p->count = 0;
    p->products = 0;
    int x = image(p, c->n, c->channels, c->height, c->width);
    int y = grouped(p, c->depthwise ? c->channels : 1, x, c->outputs, c->bias, c->window);
    keep(p, y);
}

static void test_products(void)
{
    if (!open_all()) {
        return;
    }
    for (size_t i = 0; i < sizeof(product_cases) / sizeof(product_cases[0]); i++) {
        program p = {.count = 0};
        if (i % 3 == 2 && !is_long()) {
            continue;
        }
        snprintf(p.name, sizeof(p.name), "product %zu", i);
        single(&p, &product_cases[i]);
        check(&p);
    }
    close_all();
}

typedef struct grouped_case {
    int64_t n, groups, inputs, outputs; ///< channels of a group
    int64_t height, width;
    window window;
    bool bias;
    bool odd; ///< the image has NaN and infinities
} grouped_case;

static const grouped_case grouped_cases[] = {
    {1, 8, 4, 4, 9, 13, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), true, true}, // within blocks
    {2, 5, 8, 8, 7, 15, W(3, 3, 2, 2, 1, 1, 1, 1, 1, 1), false, true},
    {1, 9, 2, 2, 5, 3, W(5, 3, 1, 2, 1, 2, 2, 1, 0, 3), true, true},
    {1, 2, 16, 16, 7, 29, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), true, true}, // whole blocks
    {2, 3, 32, 64, 7, 5, W(3, 3, 2, 1, 1, 1, 1, 1, 1, 1), false, true},
    {1, 2, 64, 16, 14, 14, W(1, 1, 1, 1, 1, 1, 0, 0, 0, 0), true, true},
    {1, 3, 24, 24, 6, 11, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), true, true}, // across blocks
    {2, 2, 20, 20, 9, 4, W(1, 1, 2, 2, 1, 1, 0, 0, 0, 0), false, true},
    {1, 10, 1, 3, 8, 9, W(3, 3, 1, 1, 2, 1, 2, 1, 2, 1), true, true},
    {1, 7, 3, 1, 8, 9, W(2, 2, 1, 1, 1, 1, 0, 1, 1, 0), true, true},
    {1, 2, 40, 5, 5, 17, W(3, 3, 3, 1, 1, 1, 2, 0, 0, 2), false, false},
    {1, 2, 8, 8, 20, 21, W(9, 9, 1, 1, 1, 1, 4, 4, 4, 4), true, false}, // sums too long to spread
};

/// With a batch norm, an activation and a residual behind it.
static void grouped_region(program *p, const grouped_case *c)
{
    int x = image(p, c->n, c->groups * c->inputs, c->height, c->width);
    p->nodes[x].odd = c->odd;
    int y = grouped(p, c->groups, x, c->groups * c->outputs, c->bias, c->window);
    int z = map(p, RELU, norm(p, y));
    const node *out = &p->nodes[z];
    int other = image(p, out->dims[0], out->dims[1], out->dims[2], out->dims[3]);
    if (c->bias) { // otherwise the norm goes into the weights
        keep(p, y);
    }
    keep(p, conv1(p, both(p, ADD, z, other), 24));
}

static void test_groups(void)
{
    if (!open_all()) {
        return;
    }
    for (size_t i = 0; i < sizeof(grouped_cases) / sizeof(grouped_cases[0]); i++) {
        program p = {.unfused = i % 3 == 0};
        snprintf(p.name, sizeof(p.name), "groups %zu", i);
        grouped_region(&p, &grouped_cases[i]);
        check(&p);
    }
    close_all();
}

typedef struct winograd_case {
    int64_t n, channels, height, width, outputs;
    int64_t padding[4];
    bool bias;
    bool odd; ///< the image has NaN and infinities; otherwise only NaN
} winograd_case;

/// Of whole and broken tiles, groups and parts of sums; with enough tiles for Winograd's form.
static const winograd_case winograd_cases[] = {
    {1, 32, 12, 12, 32, {1, 1, 1, 1}, true, false}, {2, 40, 11, 13, 20, {1, 1, 1, 1}, false, true},
    {1, 72, 15, 9, 64, {0, 0, 0, 0}, true, false},  {1, 160, 9, 16, 32, {2, 0, 1, 2}, true, true},
    {3, 33, 1, 65, 24, {1, 1, 1, 1}, false, false}, {1, 64, 14, 14, 128, {1, 1, 1, 1}, true, true},
};

/// A convolution, and one with a norm, an activation and a residual behind it.
static void winograd_region(program *p, const winograd_case *c)
{
    window w = square(3, 1, 0);
    memcpy(w.padding, c->padding, sizeof(w.padding));
    int x = image(p, c->n, c->channels, c->height, c->width);
    p->nodes[x].odd = c->odd;
    p->nodes[x].has_nan = !c->odd;
    p->infinity_is_nan = c->odd;
    keep(p, conv(p, x, c->outputs, c->bias, w));
    int other = image(p, c->n, c->channels, c->height, c->width);
    int y = norm(p, conv(p, other, c->outputs, c->bias, w));
    const node *out = &p->nodes[y];
    int residual = image(p, out->dims[0], out->dims[1], out->dims[2], out->dims[3]);
    keep(p, map(p, RELU, both(p, ADD, y, residual)));
}

static void test_winograd(void)
{
    if (!open_all()) {
        return;
    }
    for (size_t i = 0; i < sizeof(winograd_cases) / sizeof(winograd_cases[0]); i++) {
        program p = {.count = 0};
        snprintf(p.name, sizeof(p.name), "Winograd %zu", i);
        winograd_region(&p, &winograd_cases[i]);
        check(&p);
    }
    close_all();
}

/// Images of these many channels, and behind their concatenation a region's end.
static void concat_region(program *p, const int *channels, int count, int seed)
{
    int x = image(p, 1 + seed % 2, 17, 5 + seed, 7), pieces[MOST_INPUTS];
    p->nodes[x].odd = seed % 3 == 1;
    for (int i = 0; i < count; i++) {
        pieces[i] = i == 2   ? image(p, 1 + seed % 2, channels[i], 5 + seed, 7)
                    : i == 3 ? depthwise(p, x, true, square(3, 1, 1))
                             : map(p, RELU, conv1(p, x, channels[i]));
    }
    int y = concat(p, pieces, count);
    int z = seed % 2 == 0 ? map(p, RELU, norm(p, y)) : y;
    if (seed % 4 > 1) {
        keep(p, y);
    }
    keep(p, pool(p, MAX_POOL, z, square(2, 1, 0), false, false));
    keep(p, conv3(p, z, 20));
}

static void test_concats(void)
{
    static const int channels[][MOST_INPUTS] = {
        {16, 32, 0},
        {5, 3, 16, 0},
        {64, 16, 48, 17, 0},
        {16, 16, 32, 17, 16, 0},
        {7, 16, 24, 17, 3, 40, 1, 0},
        {32, 32, 32, 17, 32, 32, 32, 32, 32, 0},
        {1, 1, 5, 17, 2, 3, 1, 1, 9, 20, 0},
    };
    if (!open_all()) {
        return;
    }
    for (int i = 0; i < (int)(sizeof(channels) / sizeof(channels[0])); i++) {
        program p = {.unfused = i == 4};
        int count = 0;
        while (channels[i][count] != 0) {
            count++;
        }
        snprintf(p.name, sizeof(p.name), "concatenation %d", i);
        concat_region(&p, channels[i], count, i);
        check(&p);
    }
    close_all();
}

/// Every length, stride and dilation with every number of channels, in turns.
static void test_products_long(void)
{
    static const int64_t channels[] = {1, 3, 5, 8, 16, 17, 24, 40, 64};
    static const int64_t lengths[] = {1, 2, 3, 5, 7};
    static const int64_t sizes[] = {1, 2, 7, 13, 14, 15, 28, 29};
    uint64_t state = 5;
    if (!is_long()) {
        kiln_test_skip("long: set KILN_TEST_LONG");
        return;
    }
    if (!open_all()) {
        return;
    }
    for (int i = 0; i < 400; i++) {
        program p = {.count = 0};
        product_case c = {.n = 1 + i % 3, .channels = channels[i % 9]};
        c.depthwise = c.channels > 1 && i % 4 == 3;
        c.outputs = c.depthwise ? c.channels : channels[(int)(next_number(&state) * 9) % 9];
        c.height = sizes[(int)(next_number(&state) * 8) % 8];
        c.width = sizes[(int)(next_number(&state) * 8) % 8];
        c.bias = next_number(&state) < 0.5;
        for (int k = 0; k < 2; k++) {
            window *w = &c.window;
            int64_t size = k == 0 ? c.height : c.width;
            w->lengths[k] = lengths[(int)(next_number(&state) * 5) % 5];
            w->strides[k] = 1 + (int64_t)(next_number(&state) * 3) % 3;
            w->dilations[k] = 1 + (int64_t)(next_number(&state) * 2) % 2;
            int64_t reach = (w->lengths[k] - 1) * w->dilations[k] + 1;
            int64_t missing = reach > size ? reach - size : 0;
            w->padding[k] = (missing + 1) / 2 + (int64_t)(next_number(&state) * 3) % 3;
            w->padding[2 + k] = (missing + 1) / 2 + (int64_t)(next_number(&state) * 3) % 3;
        }
        snprintf(p.name, sizeof(p.name), "long product %d", i);
        single(&p, &c);
        check(&p);
    }
    close_all();
}

// ---- what lies behind and between ----

static int start(program *p) ///< what most programs begin with
{
    return image(p, 1, 16, 3, 2);
}

static void norm_folds(program *p)
{
    keep(p, map(p, RELU, norm(p, conv3(p, start(p), 17))));
}

static void norm_of_bias_folds(program *p)
{
    keep(p, norm(p, conv1(p, start(p), 17)));
}

static void norm_of_depthwise_folds(program *p)
{
    keep(p, norm(p, depthwise(p, start(p), true, square(3, 1, 1))));
}

static void norm_behind_relu(program *p)
{
    keep(p, norm(p, map(p, RELU, conv3(p, start(p), 17))));
}

static void norm_of_used(program *p)
{
    int c = conv3(p, start(p), 16);
    keep(p, both(p, ADD, norm(p, c), c));
}

static void norm_of_kept(program *p)
{
    keep(p, norm(p, keep(p, conv3(p, start(p), 16))));
}

static void norm_twice(program *p)
{
    keep(p, norm(p, norm(p, conv3(p, start(p), 16))));
}

static void norm_epsilons(program *p)
{
    int x = norm_with(p, conv3(p, start(p), 16), 0.25);
    keep(p, norm_with(p, map(p, RELU, x), 0.001));
}

static void norm_epsilon_whole(program *p)
{
    int x = norm_with(p, conv3(p, start(p), 16), 1);
    keep(p, norm_with(p, map(p, RELU, x), 0));
}

static void clamps(program *p)
{
    int x = numbers(p, CLAMP, conv1(p, start(p), 17), -0.25, 0.5);
    keep(p, numbers(p, CLAMP, conv1(p, x, 17), 0, 6));
}

static void silus(program *p)
{
    keep(p, silu(p, conv1(p, silu(p, conv1(p, start(p), 17)), 16)));
}

static void hard_swishes(program *p)
{
    keep(p, map(p, HARD_SWISH, conv1(p, map(p, HARD_SWISH, conv1(p, start(p), 17)), 16)));
}

static void other_maps(program *p)
{
    int x = map(p, TANH, conv1(p, start(p), 17));
    x = map(p, GELU, numbers(p, LEAKY, conv1(p, x, 16), 0.125, 0));
    x = numbers(p, ADD_NUMBER, map(p, ERF, conv1(p, x, 16)), 0.1, 0);
    keep(p, numbers(p, MUL_NUMBER, x, -1.5, 0));
}

static void residual_earlier(program *p)
{
    int a = map(p, RELU, conv3(p, start(p), 24));
    int b = norm(p, conv3(p, a, 24));
    keep(p, map(p, RELU, both(p, ADD, b, a)));
}

static void residual_later(program *p) ///< as the shortcut of a strided block
{
    int x = conv1(p, start(p), 24);
    int a = norm(p, conv(p, x, 40, false, square(3, 2, 1)));
    int b = norm(p, conv(p, x, 40, false, square(1, 2, 0)));
    keep(p, map(p, RELU, both(p, ADD, a, b)));
}

static void residual_outside(program *p)
{
    int other = image(p, 1, 17, 3, 2);
    keep(p, map(p, RELU, both(p, ADD, conv3(p, start(p), 17), other)));
}

static void residual_input(program *p)
{
    int x = image(p, 2, 5, 7, 7);
    keep(p, both(p, ADD, x, conv3(p, x, 5)));
}

static void residual_constant(program *p)
{
    const int64_t dims[] = {1, 17, 3, 2};
    keep(p, both(p, ADD, conv3(p, start(p), 17), constant(p, 4, dims, -1, 1)));
}

static void residual_itself(program *p)
{
    int x = conv3(p, start(p), 16);
    x = both(p, ADD, x, x);
    keep(p, both(p, MUL, x, x));
}

static void preactivation(program *p)
{
    int a = conv3(p, start(p), 24);
    for (int i = 0; i < 3; i++) {
        int b = conv3(p, map(p, RELU, norm(p, a)), 24);
        a = both(p, ADD, b, a);
    }
    keep(p, a);
}

static void gates(program *p)
{
    int x = gate(p, map(p, RELU, conv3(p, image(p, 2, 16, 3, 2), 17)));
    keep(p, gate(p, conv1(p, x, 24)));
}

static void gate_alone(program *p) ///< a gate is read by an image that is computed later
{
    int x = conv3(p, start(p), 16);
    int g = map(p, SIGMOID, conv1(p, mean(p, x), 16));
    int y = conv3(p, x, 16);
    keep(p, both(p, ADD, both(p, MUL, g, y), x));
}

static void gate_outside(program *p)
{
    int g = image(p, 1, 17, 1, 1);
    keep(p, both(p, MUL, conv3(p, start(p), 17), g));
}

static void gate_of_outside(program *p)
{
    int x = image(p, 1, 16, 3, 2);
    keep(p, both(p, MUL, map(p, SIGMOID, conv1(p, mean(p, conv1(p, x, 16)), 16)), x));
}

static void channel_constants(program *p)
{
    int x = both(p, MUL, conv1(p, start(p), 17), per_channel(p, 4, 17));
    x = both(p, ADD, per_channel(p, 3, 17), x);
    x = both(p, SUB, conv1(p, x, 24), per_channel(p, 1, 1));
    x = both(p, MAXIMUM, x, per_channel(p, 4, 1));
    keep(p, both(p, ADD, x, constant(p, 0, NULL, -1, 1)));
}

static void channel_constant_twice(program *p)
{
    int k = per_channel(p, 4, 16);
    int x = both(p, MUL, conv1(p, start(p), 16), k);
    keep(p, both(p, ADD, both(p, SUB, k, conv1(p, x, 16)), k));
}

static void max_pools(program *p)
{
    window w = {.lengths = {3, 2}, .strides = {2, 3}, .dilations = {2, 1}, .padding = {1, 0, 2, 1}};
    int x = pool(p, MAX_POOL, conv1(p, image(p, 1, 8, 14, 15), 17), square(3, 2, 1), false, false);
    int y = pool(p, MAX_POOL, keep(p, x), w, false, false);
    int z = pool(p, MAX_POOL, x, square(2, 3, 0), true, false);
    keep(p, map(p, RELU, conv1(p, y, 16)));
    keep(p, map(p, RELU, conv1(p, z, 16)));
}

static void average_pools(program *p)
{
    int x = conv1(p, image(p, 2, 8, 14, 15), 17);
    keep(p, pool(p, AVG_POOL, x, square(3, 2, 1), false, false));
    keep(p, pool(p, AVG_POOL, x, square(3, 2, 1), false, true));
    keep(p, pool(p, AVG_POOL, x, square(3, 2, 1), true, false));
    keep(p, pool(p, AVG_POOL, x, square(3, 2, 1), true, true));
    keep(p, norm(p, pool(p, AVG_POOL, x, square(2, 3, 0), true, true)));
}

static void empty_windows(program *p) ///< some windows lie in the padding alone
{
    int x = conv1(p, image(p, 1, 8, 3, 3), 17);
    keep(p, pool(p, AVG_POOL, x, square(2, 1, 2), false, true));
    keep(p, pool(p, MAX_POOL, x, square(2, 1, 2), false, false));
}

static void pool_among_zeros(program *p) ///< zeros around an image are for its other reader
{
    int x = conv1(p, start(p), 16);
    int m = pool(p, MAX_POOL, x, square(3, 1, 1), false, false);
    keep(p, both(p, ADD, conv(p, x, 16, true, square(5, 1, 2)), m));
}

static void means(program *p)
{
    int x = mean(p, map(p, RELU, conv3(p, image(p, 3, 3, 13, 14), 40)));
    keep(p, conv1(p, x, 10));
}

static void several_kept(program *p)
{
    int x = keep(p, conv3(p, start(p), 16));
    int y = keep(p, map(p, RELU, x));
    int z = keep(p, both(p, ADD, conv3(p, y, 16), x));
    keep(p, mean(p, z));
    keep(p, map(p, SIGMOID, z));
}

static void dead_value(program *p) ///< nobody reads it
{
    int x = conv3(p, start(p), 16);
    (void)map(p, SIGMOID, x);
    (void)conv1(p, x, 24);
    keep(p, map(p, RELU, conv3(p, x, 17)));
}

static void branches(program *p)
{
    int x = image(p, 1, 3, 14, 14);
    int a = conv(p, x, 16, true, square(3, 2, 1)), b = conv(p, x, 16, true, square(5, 2, 2));
    int c = map(p, TANH, both(p, MUL, a, b));
    keep(p, both(p, ADD, conv1(p, c, 16), both(p, SUB, a, b)));
}

static void two_images(program *p)
{
    int a = conv1(p, image(p, 2, 5, 7, 7), 16), b = conv3(p, image(p, 2, 24, 7, 7), 16);
    keep(p, map(p, RELU, both(p, MUL, a, b)));
}

static void many_behind(program *p)
{
    int x = conv1(p, start(p), 16), y = x;
    for (int i = 0; i < 30; i++) {
        x = i % 3 == 0 ? both(p, ADD, x, y) : numbers(p, MUL_NUMBER, x, 0.75 + 0.01 * i, 0);
    }
    keep(p, x);
}

static void many_images(program *p)
{
    int x = conv1(p, start(p), 16);
    for (int i = 0; i < 9; i++) {
        x = both(p, ADD, x, image(p, 1, 16, 3, 2));
    }
    keep(p, x);
}

static void many_constants(program *p)
{
    int x = conv1(p, start(p), 16);
    for (int i = 0; i < 28; i++) {
        x = both(p, i % 2 == 0 ? ADD : MUL, x, per_channel(p, 4, 16));
    }
    keep(p, x);
}

static void many_norms(program *p)
{
    int x = map(p, RELU, conv1(p, start(p), 16));
    for (int i = 0; i < 9; i++) {
        x = norm(p, x);
    }
    keep(p, x);
}

static void inverted(program *p) ///< as MobileNet's blocks
{
    int x = conv1(p, start(p), 24);
    int a = numbers(p, CLAMP, norm(p, conv1(p, x, 64)), 0, 6);
    int b = numbers(p, CLAMP, norm(p, depthwise(p, a, false, square(3, 1, 1))), 0, 6);
    keep(p, both(p, ADD, norm(p, conv1(p, b, 24)), x));
}

typedef struct region_case {
    const char *name;
    void (*build)(program *p);
} region_case;

#define CASE(function)                                                                             \
    {                                                                                              \
#function, function                                                                        \
    }

static const region_case region_cases[] = {
    CASE(norm_folds),
    CASE(norm_of_bias_folds),
    CASE(norm_of_depthwise_folds),
    CASE(norm_behind_relu),
    CASE(norm_of_used),
    CASE(norm_of_kept),
    CASE(norm_twice),
    CASE(norm_epsilons),
    CASE(norm_epsilon_whole),
    CASE(clamps),
    CASE(silus),
    CASE(hard_swishes),
    CASE(other_maps),
    CASE(residual_earlier),
    CASE(residual_later),
    CASE(residual_outside),
    CASE(residual_input),
    CASE(residual_constant),
    CASE(residual_itself),
    CASE(preactivation),
    CASE(gates),
    CASE(gate_alone),
    CASE(gate_outside),
    CASE(gate_of_outside),
    CASE(channel_constants),
    CASE(channel_constant_twice),
    CASE(max_pools),
    CASE(average_pools),
    CASE(empty_windows),
    CASE(pool_among_zeros),
    CASE(means),
    CASE(several_kept),
    CASE(dead_value),
    CASE(branches),
    CASE(two_images),
    CASE(many_behind),
    CASE(many_images),
    CASE(many_constants),
    CASE(many_norms),
    CASE(inverted),
};

static void make_region(program *p, const region_case *c)
{
    memset(p, 0, sizeof(*p));
    snprintf(p->name, sizeof(p->name), "%s", c->name);
    c->build(p);
}

static void test_regions(void)
{
    if (!open_all()) {
        return;
    }
    const char *only = getenv("KILN_TEST_REGION");
    for (size_t i = 0; i < sizeof(region_cases) / sizeof(region_cases[0]); i++) {
        program p;
        make_region(&p, &region_cases[i]);
        if (only != NULL && strcmp(only, p.name) != 0) {
            continue;
        }
        check(&p);
        for (int k = 0; k < p.count; k++) {
            p.nodes[k].odd = p.nodes[k].kind == IMAGE;
        }
        check_salted(&p, 2, 1); // the same plan with other constants, NaN and infinities
    }
    close_all();
}

// ---- one stream, several sizes ----

static void sized(program *p, int64_t n, int64_t height, int64_t width)
{
    memset(p, 0, sizeof(*p));
    snprintf(p->name, sizeof(p->name), "%d x %d x %d", (int)n, (int)height, (int)width);
    p->unfused = true;
    int x = conv3(p, image(p, n, 5, height, width), 17);
    int y = map(p, RELU, norm(p, depthwise(p, x, true, square(3, 1, 1))));
    int other = image(p, n, 17, height, width);
    keep(p, gate(p, both(p, ADD, y, other)));
    keep(p, pool(p, MAX_POOL, y, square(2, 1, 1), false, false));
}

/// Sizes that plans belong to: lengths that are equal by chance do not make one of two.
static void test_sizes(void)
{
    static const int64_t sizes[][3] = {{1, 3, 4}, {2, 3, 4},  {1, 4, 3}, {3, 3, 3},
                                       {4, 3, 4}, {5, 1, 1},  {1, 1, 1}, {3, 4, 3},
                                       {1, 3, 4}, {17, 2, 3}, {2, 3, 4}};
    if (!open_all()) {
        return;
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        program p;
        sized(&p, sizes[i][0], sizes[i][1], sizes[i][2]);
        check_salted(&p, i, 1);
    }
    close_all();
}

// ---- what ends a region ----

static void outside_pool(program *p)
{
    keep(p, map(p, RELU, conv1(p, start(p), 16)));
    keep(p, pool(p, MAX_POOL, image(p, 1, 16, 3, 3), square(2, 1, 0), false, false));
    p->apart = 1;
}

static void outside_mean(program *p)
{
    int x = map(p, RELU, conv1(p, start(p), 16));
    keep(p, both(p, MUL, mean(p, image(p, 1, 16, 3, 3)), x));
    p->apart = 1;
}

static void outside_map(program *p)
{
    int x = map(p, RELU, conv1(p, start(p), 16)), other = image(p, 1, 16, 3, 2);
    keep(p, x);
    keep(p, both(p, MUL, other, other));
    p->apart = 1;
}

static void outside_norm(program *p)
{
    keep(p, map(p, RELU, conv1(p, start(p), 16)));
    keep(p, norm(p, image(p, 1, 16, 3, 3)));
    p->apart = 1;
}

static void outside_places(program *p) ///< a number for each place, none for each channel
{
    int x = map(p, RELU, conv1(p, start(p), 16)), other = image(p, 1, 1, 3, 2);
    keep(p, both(p, MUL, x, other));
    p->apart = 1;
}

static void around(program *p) ///< what the region leaves out stands between its operations
{
    int x = map(p, RELU, conv1(p, start(p), 16));
    int y = both(p, MUL, x, image(p, 1, 1, 3, 2));
    keep(p, both(p, ADD, x, conv3(p, y, 16)));
    p->apart = 1;
}

static const region_case end_cases[] = {CASE(outside_pool), CASE(outside_mean),   CASE(outside_map),
                                        CASE(outside_norm), CASE(outside_places), CASE(around)};

static void test_ends(void)
{
    if (!open_all()) {
        return;
    }
    for (size_t i = 0; i < sizeof(end_cases) / sizeof(end_cases[0]); i++) {
        program p;
        make_region(&p, &end_cases[i]);
        p.unfused = true;
        check_salted(&p, 1, 2);
    }
    close_all();
}

// ---- limits ----

static void long_chain_held(program *p) ///< a launch for each value, and one that gives it
{
    int x = conv1(p, image(p, 1, 1, 1, 1), 1);
    for (int i = 0; i < 210; i++) {
        x = keep(p, map(p, TANH, x));
    }
}

static void twelve_norms(program *p)
{
    int x = map(p, RELU, conv1(p, start(p), 16));
    for (int i = 0; i < 12; i++) {
        x = norm(p, x);
    }
    keep(p, x);
}

static void tall(program *p) ///< rows of one work-item are more than 16 bits
{
    int x = conv1(p, image(p, 1, 1, 65536, 1), 128);
    keep(p, pool(p, MAX_POOL, x, square(1, 1, 0), false, false));
}

static const region_case limit_cases[] = {CASE(long_chain_held), CASE(twelve_norms), CASE(tall)};

static void test_limits(void)
{
    if (!open_all()) {
        return;
    }
    for (size_t i = 0; i < sizeof(limit_cases) / sizeof(limit_cases[0]); i++) {
        program p;
        make_region(&p, &limit_cases[i]);
        check(&p);
    }
    close_all();
}

// ---- random programs ----

typedef struct dice {
    program *p;
    uint64_t state;
    int images[MAX_NODES]; ///< values to choose from
    int count;
} dice;

static int roll(dice *d, int sides)
{
    return (int)(next_number(&d->state) * sides) % sides;
}

static int any(dice *d)
{
    return d->images[roll(d, d->count)];
}

static bool same_dims(const node *a, const node *b)
{
    return memcmp(a->dims, b->dims, sizeof(a->dims)) == 0;
}

/// Another value of the same size; sometimes one from outside.
static int partner(dice *d, int x)
{
    const node *like = &d->p->nodes[x];
    for (int tries = 0; tries < 8; tries++) {
        int y = any(d);
        if (same_dims(&d->p->nodes[y], like)) {
            return y;
        }
    }
    return image(d->p, like->dims[0], like->dims[1], like->dims[2], like->dims[3]);
}

static int random_window(dice *d, int x)
{
    static const int64_t channels[] = {5, 16, 17};
    const node *in = &d->p->nodes[x];
    int64_t outputs = channels[roll(d, 3)];
    bool fits = in->dims[2] > 1 && in->dims[3] > 1;
    switch (roll(d, 8)) {
    case 6:
        return in->dims[1] < 80 ? concat(d->p, (int[]){x, partner(d, x)}, 2) : conv1(d->p, x, 5);
    case 0:
        return conv3(d->p, x, outputs);
    case 1:
        return in->dims[1] == 16 ? grouped(d->p, 1 << roll(d, 5), x, 16, false, square(3, 1, 1))
               : in->dims[1] > 1 ? depthwise(d->p, x, false, square(3, 1, 1))
                                 : conv1(d->p, x, 5);
    case 2:
        return pool(d->p, MAX_POOL, x, square(3, 1, 1), false, false);
    case 3:
        return fits ? pool(d->p, AVG_POOL, x, square(2, 2, 0), roll(d, 2), false) : mean(d->p, x);
    case 4:
        return mean(d->p, x);
    default:
        return conv1(d->p, x, outputs);
    }
}

static int random_map(dice *d, int x)
{
    program *p = d->p;
    static const node_kind kinds[] = {ADD, MUL, SUB, MAXIMUM};
    switch (roll(d, 8)) {
    case 0:
        return map(p, RELU, x);
    case 1:
        return numbers(p, CLAMP, x, -0.5, 0.75);
    case 2:
        return silu(p, x);
    case 3:
        return both(p, kinds[roll(d, 4)], x, per_channel(p, 4, p->nodes[x].dims[1]));
    case 4:
        return norm(p, x);
    default:
        return both(p, kinds[roll(d, 4)], x, partner(d, x));
    }
}

/// A value that nobody reads is held, and one of six of the others.
static void keep_some(dice *d)
{
    program *p = d->p;
    for (int i = 0; i < p->count; i++) {
        if (p->nodes[i].kind > CONSTANT && (!is_read_behind(p, i, i) || roll(d, 6) == 0)) {
            keep(p, i);
        }
    }
}

static void random_program(program *p, uint64_t seed)
{
    dice d = {.p = p, .state = seed * 977 + 3};
    memset(p, 0, sizeof(*p));
    snprintf(p->name, sizeof(p->name), "random program %d", (int)seed);
    int steps = 3 + roll(&d, 7);
    int x = image(p, 1 + roll(&d, 2), roll(&d, 2) ? 16 : 3, 3, 2);
    d.images[d.count++] = conv1(p, x, 16);
    for (int i = 0; i < steps && p->count < MAX_NODES - 16; i++) {
        x = roll(&d, 3) > 0 ? d.images[d.count - 1] : any(&d);
        int y = roll(&d, 3) == 0   ? random_window(&d, x)
                : roll(&d, 8) == 0 ? gate(p, x)
                                   : random_map(&d, x);
        d.images[d.count++] = y;
    }
    keep_some(&d);
}

static void test_random_programs(void)
{
    uint64_t count = is_long() ? RANDOM_PROGRAMS_LONG : RANDOM_PROGRAMS;
    if (!open_all()) {
        return;
    }
    for (uint64_t seed = 0; seed < count; seed++) {
        program p;
        random_program(&p, seed);
        check(&p);
    }
    close_all();
}

// ---- packs ----

/// Launches of a run over constants and images that stay.
static uint64_t launches_again(const program *p, session *s, kiln_tensor **values)
{
    kiln_device_stats before = stats_of(s->device);
    for (int i = 0; i < p->count; i++) {
        const node *n = &p->nodes[i];
        kiln_tensor *in[MOST_INPUTS] = {NULL};
        for (int k = 0; k < n->n_inputs; k++) {
            in[k] = values[n->inputs[k]];
        }
        if (n->kind > CONSTANT && !ok(record(n, in, &values[i]), p)) {
            return 0;
        }
    }
    for (int i = 0; i < p->count; i++) { // only the last is wanted
        if (p->nodes[i].kind > CONSTANT && !p->nodes[i].kept) {
            kiln_release(values[i]);
        }
    }
    ok(kiln_sync(s->device, &err), p);
    for (int i = 0; i < p->count; i++) {
        if (p->nodes[i].kind > CONSTANT && p->nodes[i].kept) {
            kiln_release(values[i]);
        }
    }
    return stats_of(s->device).backend.kernels_launched - before.backend.kernels_launched;
}

/// Weights are packed once, however many constants are packed with them.
static void test_packs_stay(void)
{
    program p = {.count = 0};
    kiln_tensor *values[MAX_NODES] = {NULL};
    if (!open_all()) {
        return;
    }
    many_norms(&p);
    for (int i = 0; i < p.count; i++) {
        if (p.nodes[i].kind <= CONSTANT) {
            values[i] = source(&p, &p.nodes[i], fused.device, (uint64_t)i);
        }
    }
    uint64_t first = launches_again(&p, &fused, values);
    uint64_t second = launches_again(&p, &fused, values);
    uint64_t third = launches_again(&p, &fused, values);
    KILN_CHECK(second < first);
    KILN_CHECK_INT(third, second);
    KILN_CHECK(second <= 4); // into blocks, the product, norms that find no room with it, out
    for (int i = 0; i < p.count; i++) {
        if (p.nodes[i].kind <= CONSTANT) {
            kiln_release(values[i]);
        }
    }
    close_all();
}

KILN_TEST_MAIN("unit/plugins/convolution", KILN_TEST(test_products), KILN_TEST(test_products_long),
               KILN_TEST(test_groups), KILN_TEST(test_concats), KILN_TEST(test_winograd),
               KILN_TEST(test_regions), KILN_TEST(test_sizes), KILN_TEST(test_ends),
               KILN_TEST(test_limits), KILN_TEST(test_packs_stay), KILN_TEST(test_random_programs))
