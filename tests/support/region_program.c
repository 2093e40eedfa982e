// SPDX-License-Identifier: MIT OR Apache-2.0
// Builds, records, runs and compares programs of images. The fuser must have taken every operation
// in one block; its numbers are within a tolerance of the largest of the tensor (docs/numerics.md:
// sums in another order, norms folded into weights), NaN and infinities stand where the others have
// them, and another run gives the same bits.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "region_program.h"

enum { JUDGED_PRODUCTS = 1 << 20 }; ///< multiplications that the reference may do

/// Of f16 and bf16 some of their steps, as a sum that rounds the other way is one step away and a
/// later operator may enlarge it.
static double tolerance_of(const program *p)
{
    return p->dtype == KILN_DTYPE_F16 ? 4e-3 : p->dtype == KILN_DTYPE_BF16 ? 3e-2 : 2e-5;
}

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

session region_fused;
kiln_error region_err;
static session plain, judge;

static int add_node(program *p, const node *made)
{
    if (!KILN_CHECK(p->count < MAX_NODES)) {
        return 0;
    }
    p->nodes[p->count] = *made;
    return p->count++;
}

int region_image(program *p, int64_t n, int64_t channels, int64_t height, int64_t width)
{
    return add_node(
        p,
        &(node){.kind = IMAGE, .rank = 4, .dims = {n, channels, height, width}, .a = -1, .b = 1});
}

int region_constant(program *p, uint32_t rank, const int64_t *dims, double low, double high)
{
    node made = {.kind = CONSTANT, .rank = rank, .a = low, .b = high};
    if (rank > 0) {
        memcpy(made.dims, dims, rank * sizeof(*dims));
    }
    return add_node(p, &made);
}

static int vector(program *p, int64_t channels, double low, double high)
{
    return region_constant(p, 1, &channels, low, high);
}

int region_per_channel(program *p, uint32_t rank, int64_t channels)
{
    const int64_t dims[] = {1, channels, 1, 1};
    return region_constant(p, rank, dims + 4 - rank, -1, 1);
}

window region_square(int64_t length, int64_t stride, int64_t padding)
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

int region_grouped(program *p, int64_t groups, int x, int64_t outputs, bool bias, window w)
{
    const node *in = &p->nodes[x];
    int64_t inputs = in->dims[1] / groups;
    const int64_t dims[] = {outputs, inputs, w.lengths[0], w.lengths[1]};
    double reach = 2 / sqrt((double)(inputs * w.lengths[0] * w.lengths[1]));
    node made = {
        .kind = CONV, .rank = 4, .window = w, .groups = groups, .dims = {in->dims[0], outputs}};
    windows_of(&made, in);
    made.inputs[made.n_inputs++] = x;
    made.inputs[made.n_inputs++] = region_constant(p, 4, dims, -reach, reach);
    if (bias) {
        made.inputs[made.n_inputs++] = vector(p, outputs, -1, 1);
    }
    p->products +=
        made.dims[0] * outputs * made.dims[2] * made.dims[3] * inputs * w.lengths[0] * w.lengths[1];
    return add_node(p, &made);
}

int region_turned(program *p, int x, int64_t outputs, bool bias, window w)
{
    const node *in = &p->nodes[x];
    const int64_t dims[] = {in->dims[1], outputs, w.lengths[0], w.lengths[1]};
    double reach = 2 / sqrt((double)(dims[0] * dims[2] * dims[3]));
    node made = {
        .kind = TURNED, .rank = 4, .window = w, .groups = 1, .dims = {in->dims[0], outputs}};
    for (int i = 0; i < 2; i++) {
        made.dims[2 + i] = (in->dims[2 + i] - 1) * w.strides[i] - w.padding[i] - w.padding[2 + i] +
                           (w.lengths[i] - 1) * w.dilations[i] + 1;
    }
    made.inputs[made.n_inputs++] = x;
    made.inputs[made.n_inputs++] = region_constant(p, 4, dims, -reach, reach);
    if (bias) {
        made.inputs[made.n_inputs++] = vector(p, outputs, -1, 1);
    }
    p->products += in->dims[0] * in->dims[2] * in->dims[3] * dims[0] * outputs * dims[2] * dims[3];
    return add_node(p, &made);
}

int region_conv(program *p, int x, int64_t outputs, bool bias, window w)
{
    return region_grouped(p, 1, x, outputs, bias, w);
}

int region_conv1(program *p, int x, int64_t outputs)
{
    return region_conv(p, x, outputs, true, region_square(1, 1, 0));
}

int region_conv3(program *p, int x, int64_t outputs)
{
    return region_conv(p, x, outputs, false, region_square(3, 1, 1));
}

int region_depthwise(program *p, int x, bool bias, window w)
{
    return region_grouped(p, p->nodes[x].dims[1], x, p->nodes[x].dims[1], bias, w);
}

int region_norm_with(program *p, int x, double epsilon)
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

int region_norm(program *p, int x)
{
    return region_norm_with(p, x, 1e-5);
}

int region_pool(program *p, node_kind kind, int x, window w, bool ceil_mode, bool include_pad)
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

int region_mean(program *p, int x)
{
    const node *in = &p->nodes[x];
    return add_node(p, &(node){.kind = MEAN,
                               .rank = 4,
                               .dims = {in->dims[0], in->dims[1], 1, 1},
                               .inputs = {x},
                               .n_inputs = 1});
}

int region_numbers(program *p, node_kind kind, int x, double a, double b)
{
    const node *in = &p->nodes[x];
    node made = {.kind = kind, .rank = 4, .inputs = {x}, .n_inputs = 1, .a = a, .b = b};
    memcpy(made.dims, in->dims, sizeof(made.dims));
    return add_node(p, &made);
}

int region_map(program *p, node_kind kind, int x)
{
    return region_numbers(p, kind, x, 0, 0);
}

static bool is_image(const node *x)
{
    return x->kind != CONSTANT;
}

int region_both(program *p, node_kind kind, int x, int y)
{
    const node *in = &p->nodes[is_image(&p->nodes[x]) ? x : y], *other = &p->nodes[y];
    node made = {.kind = kind, .rank = 4, .inputs = {x, y}, .n_inputs = 2};
    memcpy(made.dims, in->dims, sizeof(made.dims));
    for (int i = 0; i < 4 && is_image(other); i++) {
        made.dims[i] = made.dims[i] > other->dims[i] ? made.dims[i] : other->dims[i];
    }
    return add_node(p, &made);
}

int region_silu(program *p, int x)
{
    return region_both(p, MUL, x, region_map(p, SIGMOID, x));
}

int region_concat(program *p, const int *pieces, int count)
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

int region_gate(program *p, int x)
{
    int64_t channels = p->nodes[x].dims[1];
    int squeezed = region_map(p, RELU, region_conv1(p, region_mean(p, x), 8));
    return region_both(p, MUL, x, region_map(p, SIGMOID, region_conv1(p, squeezed, channels)));
}

int region_keep(program *p, int x)
{
    p->nodes[x].kept = true;
    return x;
}

static void heard(const kiln_log_record *record, void *user)
{
    session *s = user;
    if (record->level <= KILN_LOG_WARN) {
        s->complaints++;
        printf("    %s: %s\n", record->module, record->message);
    }
}

bool region_ok(kiln_status status, const program *p)
{
    if (status != KILN_STATUS_OK) {
        KILN_FAIL("%s: %s", p->name, region_err.message);
    }
    return status == KILN_STATUS_OK;
}

double region_next_number(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) / 16777216.0;
}

/// Without the axis of rows, where the program has lines; rank 3 is of [channels, 1, 1].
static uint32_t line_dims(const node *n, int64_t out[4])
{
    uint32_t rank = 0;
    for (uint32_t i = 0; i < n->rank; i++) {
        if (n->rank < 3 || i + 2 != n->rank) {
            out[rank++] = n->dims[i];
        }
    }
    return rank;
}

static bool is_narrow(const program *p)
{
    return p->dtype == KILN_DTYPE_F16 || p->dtype == KILN_DTYPE_BF16;
}

/// Elements of 16 bits in place of numbers of f32.
static void narrow(const program *p, void *data, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float x;
        memcpy(&x, (char *)data + i * sizeof(x), sizeof(x));
        uint16_t bits = p->dtype == KILN_DTYPE_F16 ? kiln_f32_to_f16(x) : kiln_f32_to_bf16(x);
        memcpy((char *)data + i * sizeof(bits), &bits, sizeof(bits));
    }
}

static void widen(const program *p, void *data, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        uint16_t bits;
        memcpy(&bits, (char *)data + i * sizeof(bits), sizeof(bits));
        float x = p->dtype == KILN_DTYPE_F16 ? kiln_f16_to_f32(bits) : kiln_bf16_to_f32(bits);
        memcpy((char *)data + i * sizeof(x), &x, sizeof(x));
    }
}

kiln_tensor *region_source(const program *p, const node *n, kiln_device *device, uint64_t seed)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, NAN};
    size_t count = 1, at;
    int64_t dims[4];
    uint32_t rank = n->rank;
    kiln_tensor *tensor = NULL;
    memcpy(dims, n->dims, sizeof(dims));
    for (uint32_t i = 0; i < rank; i++) {
        count *= (size_t)dims[i];
    }
    if (p->lines) {
        rank = line_dims(n, dims);
    }
    float *data = malloc((count + 1) * sizeof(*data));
    seed = seed * 7919 + 17;
    for (size_t i = 0; data != NULL && i < count; i++) {
        data[i] = (float)(n->a + (n->b - n->a) * region_next_number(&seed));
    }
    for (size_t i = 0; data != NULL && (n->odd || n->has_nan) && i < 4; i++) {
        at = (size_t)(region_next_number(&seed) * (double)count);
        data[at < count ? at : 0] = n->odd ? odd[i] : NAN;
    }
    if (KILN_CHECK(data != NULL)) {
        kiln_dtype dtype = is_narrow(p) ? p->dtype : KILN_DTYPE_F32;
        if (is_narrow(p)) {
            narrow(p, data, count);
        }
        (void)region_ok(kiln_tensor_create(device, dtype, rank, dims, data, &tensor, &region_err),
                        p);
    }
    free(data);
    if (tensor != NULL && n->kind == CONSTANT) {
        kiln_tensor_mark_constant(tensor);
    }
    return tensor;
}

/// A window along each axis of an image or a line.
typedef struct axes_window {
    const int64_t *lengths, *strides, *dilations;
    int64_t padding[4];
    size_t axes;
} axes_window;

static axes_window window_for(const node *n, const kiln_tensor *x)
{
    const window *w = &n->window;
    size_t axes = kiln_tensor_rank(x) - 2, skip = 2 - axes;
    axes_window out = {w->lengths + skip, w->strides + skip, w->dilations + skip, {0}, axes};
    memcpy(out.padding, w->padding + skip, axes * sizeof(out.padding[0]));
    memcpy(out.padding + axes, w->padding + 2 + skip, axes * sizeof(out.padding[0]));
    return out;
}

static kiln_status record_product(const node *n, kiln_tensor **in, kiln_tensor **out)
{
    kiln_conv_options o = KILN_CONV_OPTIONS_INIT;
    axes_window w = window_for(n, in[0]);
    o.strides = w.strides;
    o.padding = w.padding;
    o.dilations = w.dilations;
    o.n_strides = o.n_dilations = w.axes;
    o.n_padding = 2 * w.axes;
    o.groups = n->groups;
    return kiln_conv(in[0], in[1], n->n_inputs == 3 ? in[2] : NULL, &o, out, &region_err);
}

static kiln_status record_turned(const node *n, kiln_tensor **in, kiln_tensor **out)
{
    kiln_conv_transpose_options o = KILN_CONV_TRANSPOSE_OPTIONS_INIT;
    axes_window w = window_for(n, in[0]);
    o.strides = w.strides;
    o.padding = w.padding;
    o.dilations = w.dilations;
    o.n_strides = o.n_dilations = w.axes;
    o.n_padding = 2 * w.axes;
    return kiln_conv_transpose(in[0], in[1], n->n_inputs == 3 ? in[2] : NULL, &o, out, &region_err);
}

static kiln_status record_pool(const node *n, kiln_tensor *x, kiln_tensor **out)
{
    axes_window w = window_for(n, x);
    if (n->kind == MAX_POOL) {
        kiln_max_pool_options o = KILN_MAX_POOL_OPTIONS_INIT;
        o.kernel = w.lengths;
        o.strides = w.strides;
        o.padding = w.padding;
        o.dilations = w.dilations;
        o.n_kernel = o.n_strides = o.n_dilations = w.axes;
        o.n_padding = 2 * w.axes;
        o.ceil_mode = n->ceil_mode;
        return kiln_max_pool(x, &o, out, &region_err);
    }
    kiln_avg_pool_options o = KILN_AVG_POOL_OPTIONS_INIT;
    o.kernel = w.lengths;
    o.strides = w.strides;
    o.padding = w.padding;
    o.dilations = w.dilations;
    o.n_kernel = o.n_strides = o.n_dilations = w.axes;
    o.n_padding = 2 * w.axes;
    o.ceil_mode = n->ceil_mode;
    o.include_pad = n->include_pad;
    return kiln_avg_pool(x, &o, out, &region_err);
}

static kiln_status record_map(const node *n, kiln_tensor **in, kiln_tensor **out)
{
    switch (n->kind) {
    case RELU:
        return kiln_relu(in[0], out, &region_err);
    case SIGMOID:
        return kiln_sigmoid(in[0], out, &region_err);
    case TANH:
        return kiln_tanh(in[0], out, &region_err);
    case HARD_SWISH:
        return kiln_hard_swish(in[0], out, &region_err);
    case GELU:
        return kiln_gelu(in[0], false, out, &region_err);
    case ERF:
        return kiln_erf(in[0], out, &region_err);
    case CLAMP:
        return kiln_clamp(in[0], kiln_f64(n->a), kiln_f64(n->b), out, &region_err);
    case LEAKY:
        return kiln_leaky_relu(in[0], n->a, out, &region_err);
    case ADD_NUMBER:
        return kiln_add_scalar(in[0], kiln_f64(n->a), out, &region_err);
    case MUL_NUMBER:
        return kiln_mul_scalar(in[0], kiln_f64(n->a), out, &region_err);
    case ADD:
        return kiln_add(in[0], in[1], out, &region_err);
    case SUB:
        return kiln_sub(in[0], in[1], out, &region_err);
    case MUL:
        return kiln_mul(in[0], in[1], out, &region_err);
    default:
        return kiln_maximum(in[0], in[1], out, &region_err);
    }
}

kiln_status region_record(const node *n, kiln_tensor **in, kiln_tensor **out)
{
    static const int64_t axes[] = {2, 3};
    switch (n->kind) {
    case CONV:
        return record_product(n, in, out);
    case TURNED:
        return record_turned(n, in, out);
    case NORM:
        return kiln_batch_norm(in[0], in[1], in[2], in[3], in[4], n->a, out, &region_err);
    case MAX_POOL:
    case AVG_POOL:
        return record_pool(n, in[0], out);
    case CONCAT:
        return kiln_concat(in, (size_t)n->n_inputs, 1, out, &region_err);
    case MEAN:
        return kiln_mean(in[0], axes, kiln_tensor_rank(in[0]) - 2, true, out, &region_err);
    default:
        return record_map(n, in, out);
    }
}

bool region_is_read_behind(const program *p, int index, int value)
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
            values[i] = region_source(p, &p->nodes[i], device, salt * 1000 + (uint64_t)i);
        }
    }
    for (int i = 0; i < p->count; i++) {
        const node *n = &p->nodes[i];
        kiln_tensor *in[MOST_INPUTS] = {NULL};
        for (int k = 0; k < n->n_inputs; k++) {
            in[k] = values[n->inputs[k]];
        }
        if (n->kind > CONSTANT && !region_ok(region_record(n, in, &values[i]), p)) {
            return false;
        }
        for (int k = 0; k <= i; k++) {
            if (values[k] != NULL && !p->nodes[k].kept && !region_is_read_behind(p, i, k)) {
                kiln_release(values[k]);
                values[k] = NULL;
            }
        }
    }
    return true;
}

kiln_device_stats region_stats_of(kiln_device *device)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(device, &stats);
    return stats;
}

static void read_result(const program *p, kiln_tensor *tensor, int index, results *out)
{
    size_t bytes = kiln_tensor_bytes(tensor), count = bytes / (is_narrow(p) ? 2 : sizeof(float));
    float *data = malloc(count * sizeof(float));
    if (KILN_CHECK(data != NULL) && region_ok(kiln_read(tensor, data, bytes, &region_err), p)) {
        if (is_narrow(p)) {
            widen(p, data, count);
        }
        out->nodes[out->count] = index;
        out->floats[out->count] = count;
        out->data[out->count++] = data;
        return;
    }
    free(data);
}

static taken run(const program *p, session *s, uint64_t salt, results *out)
{
    kiln_tensor *values[MAX_NODES] = {NULL};
    kiln_device_stats before = region_stats_of(s->device);
    bool done =
        record_all(p, s->device, salt, values) && region_ok(kiln_sync(s->device, &region_err), p);
    kiln_device_stats after = region_stats_of(s->device);
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
        double bound = tolerance_of(p) * largest(b->data[i], b->floats[i]);
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

void region_check_salted(const program *p, uint64_t salt, uint64_t blocks)
{
    results first, again;
    uint32_t complaints = region_fused.complaints;
    taken got = run(p, &region_fused, salt, &first);
    check_taken(p, &got, blocks);
    (void)run(p, &region_fused, salt, &again);
    compare_bits(p, &first, &again);
    if (region_fused.complaints != complaints) {
        KILN_FAIL("%s: the fuser's program was not taken", p->name);
    }
    if (p->products <= JUDGED_PRODUCTS) {
        compare_with(p, &judge, salt, &first, "on the reference");
    }
    if (p->unfused || p->products > JUDGED_PRODUCTS || kiln_test_is_long()) {
        compare_with(p, &plain, salt, &first, "unfused");
    }
    free_results(&first);
    free_results(&again);
}

void region_check(const program *p)
{
    region_check_salted(p, 1, 1);
}

static bool open_one(session *s, const char *device, const char *plugins)
{
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    options.log = heard;
    options.log_user = s;
    s->complaints = 0;
    if (!KILN_CHECK_INT(kiln_context_create(&options, &s->context, &region_err), KILN_STATUS_OK)) {
        return false;
    }
    KILN_CHECK_INT(kiln_context_set(s->context, "plugins", plugins, &region_err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_context_set(s->context, "fuse-slower", "1", &region_err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_context_set(s->context, "tune", "off", &region_err), KILN_STATUS_OK);
    return kiln_device_open(s->context, kiln_test_address(device), &s->device, &region_err) ==
           KILN_STATUS_OK;
}

void region_close_all(void)
{
    session *const all[] = {&region_fused, &plain, &judge};
    for (int i = 0; i < 3; i++) {
        kiln_device_release(all[i]->device);
        kiln_context_destroy(all[i]->context);
        memset(all[i], 0, sizeof(*all[i]));
    }
}

bool region_open_all(void)
{
    bool open = open_one(&region_fused, "opencl:0", "org.kiln.convolution") &&
                open_one(&plain, "opencl:0", "off") && open_one(&judge, "reference", "off");
    if (!open) {
        kiln_test_skip("no OpenCL device: %s", region_err.message);
        region_close_all();
    } else if (kiln_device_info_of(region_fused.device)->type != KILN_DEVICE_CPU) {
        kiln_test_skip("the fuser of regions is for processors");
        region_close_all();
        open = false;
    }
    return open;
}
