// SPDX-License-Identifier: MIT OR Apache-2.0
// What a graph means, and how far from it a result may be. The values come from the reference
// functions. What the errors of earlier operations may do to a result is measured, not derived: the
// graph runs again with every inexact value moved at random by what the table allows, as stochastic
// arithmetic does (Vignes, "A stochastic arithmetic for reliable scientific computation", 1993).
// The table itself is tolerance.c.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph_internal.h"
#include "judge_internal.h"
#include "reference_internal.h"

enum {
    ROUNDS = 8,
    SPREAD = 8 ///< times what the rounds showed may a result be away
};

typedef struct judged { ///< a tensor of the graph
    uint64_t id;
    const kiln_tensor_desc *desc;
    const void *given; ///< an input's elements
    unsigned char *value; ///< of the reference; NULL of an input
    unsigned char *moved; ///< of the round that runs
    double *spread; ///< of an output: per element, how far the rounds were from `value`
    size_t producer; ///< operation; SIZE_MAX: an input
    unsigned output; ///< of the producer
    bool *open; ///< per element: the order of its terms decides, so any value is right; NULL: none
    bool open_known;
    bool exact; ///< no operation before it is inexact, its own apart
} judged;

struct kiln_judge {
    const kiln_env *env;
    const kiln_ir_graph *graph;
    kiln_arena arena;
    judged *tensors; ///< sorted by id
    size_t n_tensors;
    bool spread_known;
};

static judged *find(const kiln_judge *judge, uint64_t id)
{
    size_t low = 0, high = judge->n_tensors;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (judge->tensors[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < judge->n_tensors && judge->tensors[low].id == id ? &judge->tensors[low] : NULL;
}

static void sift(judged *t, size_t root, size_t count)
{
    for (size_t child = 2 * root + 1; child < count; root = child, child = 2 * root + 1) {
        child += child + 1 < count && t[child].id < t[child + 1].id;
        if (t[root].id >= t[child].id) {
            return;
        }
        judged swap = t[root];
        t[root] = t[child];
        t[child] = swap;
    }
}

static void sort_by_id(judged *t, size_t count)
{
    for (size_t i = count / 2; i-- > 0;) {
        sift(t, i, count);
    }
    for (size_t last = count; last-- > 1;) {
        judged swap = t[0];
        t[0] = t[last];
        t[last] = swap;
        sift(t, 0, last);
    }
}

static bool list_tensors(kiln_judge *judge, const void *const *inputs)
{
    const kiln_ir_graph *graph = judge->graph;
    size_t count = graph->n_inputs;
    for (size_t i = 0; i < graph->n_ops; i++) {
        count += graph->ops[i].n_outputs;
    }
    judge->tensors = kiln_arena_alloc(&judge->arena, (count + 1) * sizeof(*judge->tensors));
    if (judge->tensors == NULL) {
        return false;
    }
    for (size_t i = 0; i < graph->n_inputs; i++) {
        judge->tensors[judge->n_tensors++] = (judged){.id = graph->inputs[i].id,
                                                      .desc = &graph->inputs[i],
                                                      .given = inputs[i],
                                                      .producer = SIZE_MAX,
                                                      .exact = true};
    }
    for (size_t i = 0; i < graph->n_ops; i++) {
        for (unsigned k = 0; k < graph->ops[i].n_outputs; k++) {
            const kiln_tensor_desc *desc = &graph->ops[i].outputs[k];
            judge->tensors[judge->n_tensors++] =
                (judged){.id = desc->id, .desc = desc, .producer = i, .output = k};
        }
    }
    sort_by_id(judge->tensors, judge->n_tensors);
    return true;
}

// ---- running the reference ----

/// The same numbers in every process: an error of either sign, of half of what is allowed at least,
/// so that no element looks as if nothing could happen to it.
static double error_at(uint64_t round, uint64_t id, int64_t i)
{
    const uint64_t seed[] = {round, id, (uint64_t)i};
    double random = (double)(int64_t)kiln_hash64(seed, sizeof(seed), 77) * 0x1p-64;
    return random < 0 ? random - 0.5 : random + 0.5;
}

static bool is_inexact(const kiln_op_record *record, unsigned output)
{
    kiln_tolerance t = kiln_tolerance_of(record->op, record->outputs[output].dtype);
    return kiln_dtype_kind_of(record->outputs[output].dtype) == KILN_KIND_FLOAT &&
           (t.ulps > 0 || t.scaled > 0);
}

/// The elements of an input of an operation, as the round that runs has them.
static const void *data_of(const kiln_judge *judge, uint64_t id, bool moved)
{
    const judged *t = find(judge, id);
    return t->given != NULL ? t->given : moved ? t->moved : t->value;
}

static kiln_tolerance tolerance_at(const kiln_judge *judge, const judged *t)
{
    const kiln_op_record *record = &judge->graph->ops[t->producer];
    const void *data[KILN_MAX_INPUTS];
    for (unsigned i = 0; i < record->n_inputs; i++) {
        data[i] = data_of(judge, record->inputs[i].id, false);
    }
    return kiln_tolerance_for(record, t->output, data);
}

/// NULL where there is no such element, and where there is no memory to find out.
static const bool *open_elements(kiln_judge *judge, judged *t)
{
    if (t->open_known || t->producer == SIZE_MAX) {
        return t->open;
    }
    const kiln_op_record *record = &judge->graph->ops[t->producer];
    t->open_known = true;
    if (record->n_inputs == 1) {
        const void *data = data_of(judge, record->inputs[0].id, false);
        struct kiln_buffer buffers[2] = {{.data = (unsigned char *)(uintptr_t)data},
                                         {.data = t->value}};
        const kiln_view input = kiln_view_dense(&record->inputs[0], &buffers[0]);
        const kiln_view output = kiln_view_dense(t->desc, &buffers[1]);
        (void)kilni_judge_open_results(record, &input, &output, &judge->arena, &t->open, NULL);
    }
    return t->open;
}

/// What an open element may be, one in each round.
static double any_value(uint64_t round)
{
    const double values[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, 0};
    return values[round % (sizeof(values) / sizeof(values[0]))];
}

/// Moves every finite element of an inexact result by up to what the table allows.
static void move(kiln_judge *judge, judged *t, uint64_t round)
{
    const bool *open = open_elements(judge, t);
    struct kiln_buffer buffer = {.data = t->moved};
    kiln_view view = kiln_view_dense(t->desc, &buffer);
    int64_t count = kiln_desc_count(t->desc);
    kiln_tolerance tolerance = tolerance_at(judge, t);
    double scale = kilni_tolerance_scale(tolerance, t->desc->dtype, count, t->value);
    for (int64_t i = 0; i < count; i++) {
        kilni_ref_value x = kilni_ref_load(&view, i);
        if (open != NULL && open[i]) {
            kilni_ref_store(&view, i, (kilni_ref_value){.f = any_value(round)});
        } else if (isfinite(x.f)) {
            x.f += error_at(round, t->id, i) *
                   kilni_tolerance_allowed(tolerance, t->desc->dtype, scale, x.f);
            kilni_ref_store(&view, i, x);
        }
    }
}

static kiln_status run_op(kiln_judge *judge, size_t op, uint64_t round, kiln_error *err)
{
    const kiln_op_record *record = &judge->graph->ops[op];
    const kiln_op_info *info = kiln_op_info_of(record->op);
    struct kiln_buffer buffers[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS];
    kiln_view views[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS];
    judged *made[KILN_MAX_OUTPUTS] = {NULL};
    for (unsigned i = 0; i < record->n_inputs; i++) {
        const void *data = data_of(judge, record->inputs[i].id, round > 0);
        buffers[i] = (struct kiln_buffer){.data = (unsigned char *)(uintptr_t)data,
                                          .bytes = (size_t)kiln_desc_bytes(&record->inputs[i])};
        views[i] = kiln_view_dense(&record->inputs[i], &buffers[i]);
    }
    for (unsigned i = 0; i < record->n_outputs; i++) {
        struct kiln_buffer *buffer = &buffers[record->n_inputs + i];
        size_t bytes = (size_t)kiln_desc_bytes(&record->outputs[i]);
        made[i] = find(judge, record->outputs[i].id);
        unsigned char **data = round > 0 ? &made[i]->moved : &made[i]->value;
        *data = *data != NULL ? *data : kiln_arena_alloc(&judge->arena, bytes + 1);
        if (*data == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a reference value");
        }
        *buffer = (struct kiln_buffer){.data = *data, .bytes = bytes};
        views[record->n_inputs + i] = kiln_view_dense(&record->outputs[i], buffer);
    }
    kiln_status status = info->cls == KILN_CLASS_CONTROL
                             ? KILN_STATUS_OK
                             : info->reference(record, views, views + record->n_inputs, err);
    for (unsigned i = 0; status == KILN_STATUS_OK && round > 0 && i < record->n_outputs; i++) {
        if (is_inexact(record, i)) {
            move(judge, made[i], round);
        }
    }
    return status;
}

static void note_exact(kiln_judge *judge, size_t op)
{
    const kiln_op_record *record = &judge->graph->ops[op];
    bool exact = true;
    for (unsigned i = 0; i < record->n_inputs; i++) {
        const judged *t = find(judge, record->inputs[i].id);
        const kiln_op_record *by = t->producer == SIZE_MAX ? NULL : &judge->graph->ops[t->producer];
        exact = exact && t->exact && (by == NULL || !is_inexact(by, t->output));
    }
    for (unsigned i = 0; i < record->n_outputs; i++) {
        find(judge, record->outputs[i].id)->exact = exact;
    }
}

kiln_status kiln_judge_create(const kiln_env *env, const kiln_ir_graph *graph,
                              const void *const *inputs, kiln_judge **out_judge, kiln_error *err)
{
    *out_judge = NULL;
    kiln_judge *judge = kiln_alloc(env, sizeof(*judge));
    if (judge == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a judge");
    }
    *judge = (kiln_judge){.env = env, .graph = graph};
    kiln_arena_init(&judge->arena, env);
    kiln_status status = list_tensors(judge, inputs)
                             ? KILN_STATUS_OK
                             : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a judge");
    for (size_t i = 0; status == KILN_STATUS_OK && i < graph->n_ops; i++) {
        status = run_op(judge, i, /*round=*/0, err);
        note_exact(judge, i);
    }
    if (status != KILN_STATUS_OK) {
        kiln_judge_destroy(judge);
        return status;
    }
    *out_judge = judge;
    return status;
}

void kiln_judge_destroy(kiln_judge *judge)
{
    if (judge != NULL) {
        kiln_arena_fini(&judge->arena);
        kiln_free(judge->env, judge);
    }
}

const void *kiln_judge_value(const kiln_judge *judge, uint64_t id)
{
    const judged *t = find(judge, id);
    return t == NULL ? NULL : t->given != NULL ? t->given : t->value;
}

// ---- how far errors carry ----

static double number_at(const kiln_tensor_desc *desc, const void *data, int64_t i)
{
    struct kiln_buffer buffer = {.data = (unsigned char *)(uintptr_t)data};
    kiln_view view = kiln_view_dense(desc, &buffer);
    kilni_ref_value x = kilni_ref_load(&view, i);
    return kilni_ref_is_float(desc->dtype)    ? x.f
           : kilni_ref_is_signed(desc->dtype) ? (double)x.i
                                              : (double)x.u;
}

static double distance(double a, double b)
{
    if (a == b || (isnan(a) && isnan(b))) {
        return 0;
    }
    return isfinite(a) && isfinite(b) ? fabs(a - b) : (double)INFINITY;
}

static void widen(judged *t)
{
    int64_t count = kiln_desc_count(t->desc);
    for (int64_t i = 0; i < count; i++) {
        double far = distance(number_at(t->desc, t->moved, i), number_at(t->desc, t->value, i));
        t->spread[i] = far > t->spread[i] ? far : t->spread[i];
    }
}

static bool wants_spread(const judged *t)
{
    return t != NULL && t->producer != SIZE_MAX && !t->exact &&
           kiln_dtype_kind_of(t->desc->dtype) != KILN_KIND_QUANT;
}

/// False: there is no memory, and a result is held to the table alone.
static bool learn_spread(kiln_judge *judge)
{
    const kiln_ir_graph *graph = judge->graph;
    for (size_t i = 0; i < graph->n_outputs; i++) {
        judged *t = find(judge, graph->outputs[i]);
        if (wants_spread(t) && t->spread == NULL) {
            size_t count = (size_t)kiln_desc_count(t->desc);
            t->spread = kiln_arena_alloc(&judge->arena, (count + 1) * sizeof(double));
            if (t->spread == NULL) {
                return false;
            }
        }
    }
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (size_t i = 0; i < graph->n_ops; i++) {
            if (run_op(judge, i, round, NULL) != KILN_STATUS_OK) {
                return false;
            }
        }
        for (size_t i = 0; i < graph->n_outputs; i++) {
            judged *t = find(judge, graph->outputs[i]);
            if (wants_spread(t)) {
                widen(t);
            }
        }
    }
    return true;
}

// ---- the verdict ----

/// Elements of integers may be others where errors decide between them: an index of a largest.
static bool near_enough(const judged *t, kiln_tolerance tolerance, double scale, double factor,
                        int64_t i, double a, double e)
{
    bool is_float = kilni_ref_is_float(t->desc->dtype);
    double spread = t->spread != NULL ? t->spread[i] : 0;
    if (a == e) {
        return a != 0 || !is_float || tolerance.any_zero || signbit(a) == signbit(e) || spread > 0;
    }
    if ((isnan(a) && isnan(e)) || isinf(spread) || (!is_float && spread > 0)) {
        return true;
    }
    double own = is_float ? kilni_tolerance_allowed(tolerance, t->desc->dtype, scale, e) : 0;
    return distance(a, e) <= factor * (own + SPREAD * spread);
}

static int64_t first_difference(kiln_judge *judge, judged *t, const void *actual,
                                const void *expected, bool both)
{
    int64_t count = kiln_desc_count(t->desc);
    bool is_float = kilni_ref_is_float(t->desc->dtype);
    kiln_tolerance tolerance =
        t->producer == SIZE_MAX ? (kiln_tolerance){0} : tolerance_at(judge, t);
    double scale = is_float ? kilni_tolerance_scale(tolerance, t->desc->dtype, count, expected) : 0;
    size_t size = kiln_dtype_size(t->desc->dtype);
    for (int64_t i = 0; i < count; i++) {
        size_t at = (size_t)i * size;
        if (memcmp((const char *)actual + at, (const char *)expected + at, size) == 0) {
            continue; // also where a double cannot tell integers apart
        }
        double a = number_at(t->desc, actual, i), e = number_at(t->desc, expected, i);
        if ((!is_float && a == e) || !near_enough(t, tolerance, scale, both ? 2 : 1, i, a, e)) {
            const bool *open = open_elements(judge, t);
            if (open == NULL || !open[i]) {
                return i;
            }
        }
    }
    return -1;
}

static bool judge_quantised(const kiln_judge *judge, const judged *t, const void *actual,
                            const void *expected, char *out_text, size_t capacity)
{
    if (t->producer == SIZE_MAX) {
        return kiln_quant_compare(t->desc, true, actual, expected, out_text, capacity);
    }
    const kiln_op_record *record = &judge->graph->ops[t->producer];
    bool exact = t->exact && record->op == KILN_OP_QUANTIZE;
    return kiln_quant_compare(t->desc, exact, actual, expected, out_text, capacity);
}

bool kiln_judge_output(kiln_judge *judge, size_t output, const void *actual, const void *against,
                       char *out_text, size_t capacity)
{
    judged *t = find(judge, judge->graph->outputs[output]);
    const void *expected = against != NULL ? against : kiln_judge_value(judge, t->id);
    if (kiln_dtype_kind_of(t->desc->dtype) == KILN_KIND_QUANT) {
        return judge_quantised(judge, t, actual, expected, out_text, capacity);
    }
    int64_t i = first_difference(judge, t, actual, expected, against != NULL);
    if (i >= 0 && wants_spread(t) && !judge->spread_known) {
        judge->spread_known = true;
        i = learn_spread(judge) ? first_difference(judge, t, actual, expected, against != NULL) : i;
    }
    if (i < 0) {
        return true;
    }
    int digits = t->desc->dtype == KILN_DTYPE_F32 ? 9 : 17;
    double a = number_at(t->desc, actual, i), e = number_at(t->desc, expected, i);
    snprintf(out_text, capacity, "element %" PRId64 " of %" PRId64 " is %.*g, expected %.*g", i,
             kiln_desc_count(t->desc), digits, isnan(a) ? (double)NAN : a, digits,
             isnan(e) ? (double)NAN : e);
    return false;
}
