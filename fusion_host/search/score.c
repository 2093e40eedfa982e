// SPDX-License-Identifier: MIT OR Apache-2.0
// The unit of a choice: nanoseconds saved against the same operations run unfused. Costs come from
// the device's measured figures by operator class; a claim below the roofline (launches, and bytes
// that must move) is lifted to it. The order of candidates is total and knows nothing of load
// order.
#include <math.h>
#include <string.h>

#include "blocks.h"
#include "kf_formula.h"
#include "translate.h"

enum { CUSTOM_WAIT_NS = 100000, CUSTOM_BYTE_NS = 5 };

/// What the backend's products reach of the device's rate, CLBlast's included, as `kiln bench
/// matmul` measured: 0.25 to 0.6 on PoCL, in tiles of at least these rows and columns, 0.2 for each
/// of a batch, which it copies into tiles (192 to 384 rows; an AMD EPYC). On a GPU (an H200) 0.48
/// when there are many results; few leave units idle, as if each unit had GPU_FILL more to do:
/// 0.09, 0.20, 0.38 and 0.47 for products of 512 to 4096. Many small products at once reach 0.035.
/// Its convolutions reach 0.11, and one that has few results takes 0.18 us for each term of a sum,
/// which a work-item adds up alone.
static const double cpu_share = 0.4;
static const double cpu_batch_share = 0.2;
static const double gpu_share = 0.48;
static const double gpu_conv_share = 0.11;
static const double gpu_batch_share = 0.035;
enum { PRODUCT_TILE = 32, GPU_FILL = 8192, SMALL_RESULT = 512 * 512, GPU_TERM_NS = 180 };

/// Kiln's own kernel, which does batches on processors: a core's time for a piece of a result, and
/// for each term of a vector of it that is not whole (PoCL on an AMD EPYC, within a half for
/// products of 1 to 128 rows, columns and terms).
enum { PIECE_ROWS = 4, PIECE_COLUMNS = 16, PIECE_NS = 65, RAGGED_COLUMNS = 8, RAGGED_TERM_NS = 10 };

/// What a call of CLBlast costs the host beside a launch: 7 us for one product, on PoCL.
enum { PRODUCT_CALL_NS = 7000 };

/// What a core takes for the windows of a pool: for each element of a window, each result and each
/// row of results; within a third of six pools on PoCL (an AMD EPYC of 2.5 GHz).
enum { POOL_TERM_NS = 1, POOL_RESULT_NS = 5, POOL_ROW_NS = 10 };

/// A guess that is wrong by less than this is a good one.
static const double guess_doubt = 1.25;

static double bytes_of(const kiln_tensor_desc *desc)
{
    int64_t bytes = kiln_desc_bytes(desc);
    return bytes > 0 ? (double)bytes : 0;
}

static double elements_of(const kiln_tensor_desc *desc)
{
    int64_t count = kiln_desc_count(desc);
    return count > 0 ? (double)count : 0;
}

static double launch_ns(const kiln_device_info *device)
{
    return device->launch_ns > 0 ? (double)device->launch_ns : KF_UNKNOWN_LAUNCH_NS;
}

static double launches_ns(const kiln_device_info *device, kiln_op op)
{
    return (device->op_launches != NULL ? device->op_launches[op] : 1) * launch_ns(device);
}

static double move_ns(const kiln_device_info *device, double bytes)
{
    double rate =
        device->bytes_per_s > 0 ? (double)device->bytes_per_s : (double)KF_UNKNOWN_BYTES_PER_S;
    return bytes / rate * 1e9;
}

static double flops_ns(const kiln_device_info *device, double flops)
{
    double rate = device->flops_f32 > 0 ? (double)device->flops_f32 : (double)KF_UNKNOWN_FLOPS_F32;
    return flops / rate * 1e9;
}

/// An indexed operator touches as much of its data as its result is long.
static double input_bytes(const kiln_op_record *record, uint32_t input)
{
    double all = bytes_of(&record->inputs[input]);
    if (input > 0 || (record->op != KILN_OP_GATHER && record->op != KILN_OP_SELECT)) {
        return all;
    }
    return fmin(all, bytes_of(&record->outputs[0]));
}

static double moved_bytes(const kiln_op_record *record)
{
    double bytes = 0;
    for (uint32_t i = 0; i < record->n_inputs; i++) {
        bytes += input_bytes(record, i);
    }
    for (uint32_t i = 0; i < record->n_outputs; i++) {
        bytes += bytes_of(&record->outputs[i]);
    }
    return bytes;
}

/// How many more rows or columns whole tiles have.
static double padding(double extent)
{
    return extent > 0 ? ceil(extent / PRODUCT_TILE) * PRODUCT_TILE / extent : 1;
}

/// Multiplications and additions of a contraction: two for each element of the result and each term
/// of its sum.
static double contraction_flops(const kiln_device_info *device, const kiln_op_record *record)
{
    double results = elements_of(&record->outputs[0]);
    const kiln_tensor_desc *weight = &record->inputs[1];
    if (record->op == KILN_OP_CONV && weight->rank > 0 && weight->dims[0] > 0) {
        return 2 * results * elements_of(weight) / (double)weight->dims[0];
    }
    kiln_product p = kiln_ir_product_of(record);
    if (record->op == KILN_OP_MATMUL) {
        results = device->type == KILN_DEVICE_GPU
                      ? results + (double)device->compute_units * GPU_FILL
                      : results * padding(p.rows) * padding(p.columns);
    }
    return 2 * results * p.terms;
}

/// Small products in a batch, which a GPU's library does one by one.
static bool is_one_by_one(const kiln_op_record *record)
{
    const kiln_tensor_desc *out = &record->outputs[0];
    if (record->op != KILN_OP_MATMUL || out->rank < 3) {
        return false;
    }
    double each = (double)out->dims[out->rank - 1] * (double)out->dims[out->rank - 2];
    return elements_of(out) > each && each < SMALL_RESULT;
}

/// Of a batch on a processor: pieces of PIECE_ROWS by PIECE_COLUMNS results.
static double own_batch_ns(const kiln_device_info *device, const kiln_product *p)
{
    double whole = floor(p->columns / PIECE_COLUMNS), rest = p->columns - whole * PIECE_COLUMNS;
    double ragged = ceil(rest / RAGGED_COLUMNS) * p->terms;
    double cores = device->compute_units > 0 ? device->compute_units : 1;
    double strips = p->batch * ceil(p->rows / PIECE_ROWS);
    double own = (whole + (rest > 0)) * PIECE_NS + ragged * RAGGED_TERM_NS;
    double flops = 2 * strips * PIECE_ROWS * whole * PIECE_COLUMNS * p->terms;
    return strips * own / cores + flops_ns(device, flops) / cpu_share;
}

/// What a GPU needs at least, however little there is to do.
static double gpu_least_ns(const kiln_op_record *record)
{
    const kiln_tensor_desc *weight = &record->inputs[1];
    return record->op == KILN_OP_CONV && weight->rank > 0 && weight->dims[0] > 0
               ? elements_of(weight) / (double)weight->dims[0] * GPU_TERM_NS
               : 0;
}

static double gpu_share_of(const kiln_op_record *record)
{
    return record->op == KILN_OP_CONV ? gpu_conv_share
           : is_one_by_one(record)    ? gpu_batch_share
                                      : gpu_share;
}

static double cpu_contraction_ns(const kiln_device_info *device, const kiln_op_record *record)
{
    if (record->op != KILN_OP_MATMUL) {
        return flops_ns(device, contraction_flops(device, record)) / cpu_share;
    }
    kiln_product p = kiln_ir_product_of(record);
    if (kiln_ir_is_small_batch(device, record)) {
        return own_batch_ns(device, &p);
    }
    bool copied = p.rights > 1 && p.rows * p.columns < SMALL_RESULT;
    return flops_ns(device, contraction_flops(device, record)) /
           (copied ? cpu_batch_share : cpu_share);
}

static double gpu_contraction_ns(const kiln_device_info *device, const kiln_op_record *record)
{
    double ns = flops_ns(device, contraction_flops(device, record)) / gpu_share_of(record);
    return fmax(ns, gpu_least_ns(record));
}

static double contraction_ns(const kiln_device_info *device, const kiln_op_record *record)
{
    return fmax(move_ns(device, moved_bytes(record)), device->type == KILN_DEVICE_GPU
                                                          ? gpu_contraction_ns(device, record)
                                                          : cpu_contraction_ns(device, record));
}

static bool is_pool(kiln_op op)
{
    return op == KILN_OP_MAX_POOL || op == KILN_OP_AVG_POOL || op == KILN_OP_LP_POOL ||
           op == KILN_OP_MAX_POOL_WITH_INDICES;
}

/// Of a processor, whose caches hold what windows share: the work counts, not the bytes alone.
static double window_ns(const kiln_device_info *device, const kiln_op_record *record)
{
    const kiln_attr *kernel = kiln_op_attr(record, KILN_KEY_KERNEL);
    const kiln_tensor_desc *out = &record->outputs[0];
    double moved = move_ns(device, moved_bytes(record)), terms = 1;
    if (device->type != KILN_DEVICE_CPU || !is_pool(record->op) || out->rank == 0 ||
        out->dims[out->rank - 1] <= 0) {
        return moved;
    }
    for (uint32_t i = 0; i < kernel->count; i++) {
        terms *= (double)kernel->v.ints[i];
    }
    double row = POOL_ROW_NS / (double)out->dims[out->rank - 1];
    double each = terms * POOL_TERM_NS + POOL_RESULT_NS + row;
    uint32_t cores = device->compute_units > 0 ? device->compute_units : 1;
    return fmax(moved, elements_of(out) * each / cores);
}

double kilni_fuse_score_baseline(const kiln_device_info *device,
                                 const kilni_fuse_recorded *recorded, uint32_t op)
{
    const kiln_op_record *record = &recorded->ops[op];
    switch (kiln_op_info_of(record->op)->cls) {
    case KILN_CLASS_CONTROL:
    case KILN_CLASS_VIEW:
        return 0;
    case KILN_CLASS_CONTRACTION:
        return launches_ns(device, record->op) +
               (record->op == KILN_OP_MATMUL ? PRODUCT_CALL_NS : 0) +
               contraction_ns(device, record);
    case KILN_CLASS_ROW: // reads its rows twice: once for the maximum or the mean, once for the
                         // result
        return launches_ns(device, record->op) +
               move_ns(device, moved_bytes(record) + input_bytes(record, 0));
    case KILN_CLASS_WINDOW:
        return launches_ns(device, record->op) + window_ns(device, record);
    case KILN_CLASS_CUSTOM: // by its reference: a wait, a copy both ways, and a slow loop
        return CUSTOM_WAIT_NS + CUSTOM_BYTE_NS * moved_bytes(record);
    default:
        return launches_ns(device, record->op) + move_ns(device, moved_bytes(record));
    }
}

static bool lives_on(const kilni_fuse_block_view *view, uint32_t tensor, uint32_t len)
{
    return view->dropped[tensor] == KILNI_FUSE_NONE || view->dropped[tensor] >= len;
}

static bool is_repeated(const uint32_t *refs, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++) {
        if (refs[i] == refs[index]) {
            return true;
        }
    }
    return false;
}

double kilni_fuse_score_floor(const kilni_fuse_translation *input, uint32_t launches)
{
    const kilni_fuse_block_view *view = input->view;
    double bytes = 0;
    for (uint32_t op = 0; op < input->len; op++) {
        const kiln_op_record *record = &view->recorded->ops[view->ops[op]];
        const uint32_t *refs = view->recorded->marks[view->ops[op]].refs;
        for (uint32_t i = 0; i < record->n_inputs && record->op != KILN_OP_DROP; i++) {
            uint32_t tensor = kilni_fuse_block_tensor(view, refs[i]);
            bool first_sight =
                tensor >= (op == 0 ? 0 : view->marks[op - 1].n_tensors) && !is_repeated(refs, i);
            if (view->defined[tensor] == KILNI_FUSE_NONE && first_sight) {
                bytes += input_bytes(record, i);
            }
        }
        for (uint32_t i = 0; i < record->n_outputs; i++) {
            uint32_t tensor = kilni_fuse_block_tensor(view, refs[record->n_inputs + i]);
            bytes += lives_on(view, tensor, input->len) ? bytes_of(&record->outputs[i]) : 0;
        }
    }
    return launches * launch_ns(input->device) + move_ns(input->device, bytes);
}

uint32_t kilni_fuse_confidence(const kilni_fuse_plugin *plugin, const kf_state *state)
{
    return plugin->table.abi_minor == 0 || state->confidence > KF_CONFIDENCE_MEASURED
               ? KF_CONFIDENCE_MODEL
               : state->confidence;
}

double kilni_fuse_doubt(uint32_t confidence)
{
    return confidence == KF_CONFIDENCE_GUESS ? guess_doubt : 1;
}

void kilni_fuse_score_close(kilni_fuse_score *score)
{
    double claimed = fmax(score->claimed_ns, score->floor_ns);
    double believed = fmax(score->claimed_ns * (score->trust > 1 ? score->trust : 1), claimed);
    // What was wrong with other blocks decides between fusers. Against the operations unfused only
    // this block's own samples decide: a noisy one would turn a good fuser off for good.
    score->adjusted_ns =
        claimed < score->baseline_ns ? fmin(believed, score->baseline_ns) : believed;
    score->benefit_ns = score->baseline_ns - score->adjusted_ns;
}

bool kilni_fuse_candidate_before(const kilni_fuse_candidate *a, const kilni_fuse_candidate *b)
{
    if (a->score.benefit_ns != b->score.benefit_ns) {
        return a->score.benefit_ns > b->score.benefit_ns;
    }
    if (a->confidence != b->confidence) {
        return a->confidence > b->confidence;
    }
    if (a->score.launches != b->score.launches) {
        return a->score.launches < b->score.launches;
    }
    if (a->score.len != b->score.len) {
        return a->score.len > b->score.len;
    }
    if (a->ships != b->ships) { // known to hold what it claims
        return a->ships;
    }
    int order = strcmp(a->plugin_id, b->plugin_id);
    return order != 0 ? order < 0 : strcmp(a->fuser_id, b->fuser_id) < 0;
}
