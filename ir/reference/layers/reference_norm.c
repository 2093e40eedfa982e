// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of the normalisations and their derivatives. Sums are kept in double, one set
// for each group of elements that share a mean, one for each parameter; every step is a walk over
// all elements of x.
#include <math.h>

#include "norm_internal.h"
#include "reference_internal.h"

typedef struct sums { ///< of the elements that share a mean
    double count;
    double mean;
    double variance;
    double factor; ///< 1 / sqrt(variance + epsilon)
    double h; ///< sum of grad * scale
    double h_normal; ///< and of that * normalised x
} sums;

typedef struct norm_job {
    kilni_norm norm;
    const kiln_op_record *call;
    const kiln_view *inputs;
    kiln_view x; ///< cut into groups, as all views below
    kiln_view grad;
    kiln_view places; ///< "element" i is sums[i]
    kiln_view params; ///< "element" i is parameter i
    sums *sums;
    double *totals; ///< two for each parameter: of grad * normalised x, of grad
} norm_job;

/// Axis 1 as two: groups, and channels of a group.
static kiln_view cut(const kilni_norm *norm, const kiln_view *view)
{
    kiln_view result = *view;
    if (norm->groups <= 0) {
        return result;
    }
    for (uint32_t i = view->rank; i > 2; i--) {
        result.dims[i] = view->dims[i - 1];
        result.strides[i] = view->strides[i - 1];
    }
    result.rank = view->rank + 1;
    result.dims[1] = view->dims[1] == 1 ? 1 : norm->groups;
    result.dims[2] = view->dims[1] == 1 ? 1 : view->dims[1] / norm->groups;
    result.strides[2] = view->strides[1];
    result.strides[1] = view->strides[1] * result.dims[2];
    return result;
}

/// A parameter of the call as a view beside x.
static kiln_view parameter_view(const norm_job *j, unsigned index)
{
    const kiln_view *given = &j->inputs[j->norm.x + index];
    kiln_view view = *given;
    if (!j->norm.by_channel || given->rank == 0) {
        return view;
    }
    view.rank = j->inputs[j->norm.x].rank;
    for (uint32_t i = 0; i < view.rank; i++) {
        view.dims[i] = i == 1 ? given->dims[0] : 1;
        view.strides[i] = i == 1 ? given->strides[0] : 0;
    }
    return cut(&j->norm, &view);
}

/// Numbers elements along the axes of `mask` row-major, and gives how many there are.
static int64_t number(const kiln_view *x, uint32_t mask, kiln_view *out_view)
{
    int64_t count = 1;
    *out_view = *x;
    for (uint32_t i = x->rank; i-- > 0;) {
        bool counted = (mask >> i & 1u) != 0;
        out_view->strides[i] = counted ? count : 0;
        count *= counted ? x->dims[i] : 1;
    }
    return count;
}

static void masks_of(const norm_job *j, uint32_t *out_shared, uint32_t *out_params)
{
    uint32_t all = (1u << j->x.rank) - 1;
    if (!j->norm.by_channel) {
        *out_shared = (1u << j->norm.first) - 1;
        *out_params = all & ~*out_shared;
    } else if (j->norm.groups > 0) {
        *out_shared = 3;
        *out_params = 6;
    } else {
        *out_shared = *out_params = 2;
    }
}

static void walk_init(const norm_job *j, kilni_ref_walk *walk, const kiln_view *second,
                      const kiln_view *third)
{
    kilni_ref_walk_init(walk, j->x.dims, j->x.rank);
    kilni_ref_walk_add(walk, &j->x);
    kilni_ref_walk_add(walk, &j->places);
    if (second != NULL) {
        kilni_ref_walk_add(walk, second);
    }
    if (third != NULL) {
        kilni_ref_walk_add(walk, third);
    }
}

static void find_moments(norm_job *j, int64_t n_sums)
{
    kilni_ref_walk walk;
    for (walk_init(j, &walk, NULL, NULL); !walk.done; kilni_ref_walk_next(&walk)) {
        j->sums[walk.at[1]].count += 1;
        j->sums[walk.at[1]].mean += kilni_ref_load(&j->x, walk.at[0]).f;
    }
    for (int64_t i = 0; i < n_sums; i++) {
        j->sums[i].mean = j->norm.centred ? j->sums[i].mean / j->sums[i].count : 0;
    }
    for (walk_init(j, &walk, NULL, NULL); !walk.done; kilni_ref_walk_next(&walk)) {
        sums *s = &j->sums[walk.at[1]];
        double centred = kilni_ref_load(&j->x, walk.at[0]).f - s->mean;
        s->variance += centred * centred;
    }
    for (int64_t i = 0; i < n_sums; i++) {
        double epsilon = kiln_op_attr_f64(j->call, KILN_KEY_EPSILON);
        j->sums[i].variance /= j->sums[i].count;
        j->sums[i].factor = 1 / sqrt(j->sums[i].variance + epsilon);
    }
}

static double normal_at(const norm_job *j, const kilni_ref_walk *walk)
{
    const sums *s = &j->sums[walk->at[1]];
    return (kilni_ref_load(&j->x, walk->at[0]).f - s->mean) * s->factor;
}

static void store_forward(const norm_job *j, const kiln_view *out)
{
    kilni_ref_walk walk;
    kilni_ref_walk params;
    const kiln_view target = cut(&j->norm, out);
    const kiln_view scale = j->norm.n_params > 0 ? parameter_view(j, 1) : *out;
    const kiln_view bias = j->norm.n_params > 1 ? parameter_view(j, 2) : scale;
    walk_init(j, &walk, &target, NULL);
    kilni_ref_walk_init(&params, j->x.dims, j->x.rank);
    kilni_ref_walk_add(&params, j->norm.n_params > 0 ? &scale : &target);
    kilni_ref_walk_add(&params, j->norm.n_params > 1 ? &bias : &target);
    for (; !walk.done; kilni_ref_walk_next(&walk), kilni_ref_walk_next(&params)) {
        double y = normal_at(j, &walk);
        y *= j->norm.n_params > 0 ? kilni_ref_load(&scale, params.at[0]).f : 1;
        y += j->norm.n_params > 1 ? kilni_ref_load(&bias, params.at[1]).f : 0;
        kilni_ref_store(&target, walk.at[2], kilni_ref_of_float(y));
    }
}

/// grad * scale, at a place of a walk over x, places, grad and scale.
static double h_at(const norm_job *j, const kilni_ref_walk *walk, const kiln_view *scale)
{
    double grad = kilni_ref_load(&j->grad, walk->at[2]).f;
    return scale == NULL ? grad : grad * kilni_ref_load(scale, walk->at[3]).f;
}

static void store_x_grad(norm_job *j, const kiln_view *out)
{
    kilni_ref_walk walk;
    const kiln_view target = cut(&j->norm, out);
    const kiln_view view = j->norm.n_params > 0 ? parameter_view(j, 1) : *out;
    const kiln_view *scale = j->norm.n_params > 0 ? &view : NULL;
    for (walk_init(j, &walk, &j->grad, scale); !walk.done; kilni_ref_walk_next(&walk)) {
        sums *s = &j->sums[walk.at[1]];
        double h = h_at(j, &walk, scale);
        s->h += h;
        s->h_normal += h * normal_at(j, &walk);
    }
    kilni_ref_walk to;
    kilni_ref_walk_init(&to, j->x.dims, j->x.rank);
    kilni_ref_walk_add(&to, &target);
    walk_init(j, &walk, &j->grad, scale);
    for (; !walk.done; kilni_ref_walk_next(&walk), kilni_ref_walk_next(&to)) {
        const sums *s = &j->sums[walk.at[1]];
        double x_grad = h_at(j, &walk, scale) - normal_at(j, &walk) * s->h_normal / s->count;
        x_grad -= j->norm.centred ? s->h / s->count : 0;
        kilni_ref_store(&target, to.at[0], kilni_ref_of_float(x_grad * s->factor));
    }
}

static void store_totals(norm_job *j, const kiln_view *outputs, int64_t n_params)
{
    kilni_ref_walk walk;
    walk_init(j, &walk, &j->grad, &j->params);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        double grad = kilni_ref_load(&j->grad, walk.at[2]).f;
        j->totals[2 * walk.at[3]] += grad * normal_at(j, &walk);
        j->totals[2 * walk.at[3] + 1] += grad;
    }
    for (unsigned i = 1; i < j->call->n_outputs; i++) {
        int64_t k = 0;
        kilni_ref_walk_init(&walk, outputs[i].dims, outputs[i].rank);
        kilni_ref_walk_add(&walk, &outputs[i]);
        for (; !walk.done && k < n_params; kilni_ref_walk_next(&walk), k++) {
            kilni_ref_store(&outputs[i], walk.at[0], kilni_ref_of_float(j->totals[2 * k + i - 1]));
        }
    }
}

static void store_running(const norm_job *j, const kiln_view *outputs, int64_t n_sums)
{
    double momentum = kiln_op_attr_f64(j->call, KILN_KEY_MOMENTUM);
    for (unsigned i = 1; i < 3; i++) {
        const kiln_view *running = &j->inputs[2 + i];
        for (int64_t k = 0; k < n_sums; k++) {
            int64_t at = running->rank == 0 ? 0 : k * running->strides[0];
            double now = i == 1 ? j->sums[k].mean : j->sums[k].variance;
            double blend = kilni_ref_load(running, at).f * momentum + now * (1 - momentum);
            kilni_ref_store(&outputs[i], k * outputs[i].strides[0], kilni_ref_of_float(blend));
        }
    }
}

static kiln_status normalise(const kiln_op_record *call, const kiln_view *inputs,
                             const kiln_view *outputs, kiln_error *err)
{
    const kiln_env env = {.allocator = kiln_allocator_default()};
    norm_job j = {.call = call, .inputs = inputs};
    uint32_t shared = 0;
    uint32_t params = 0;
    kiln_status status = kilni_ir_norm_of(call, &j.norm, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    j.x = cut(&j.norm, &inputs[j.norm.x]);
    j.grad = cut(&j.norm, &inputs[0]);
    masks_of(&j, &shared, &params);
    int64_t n_sums = number(&j.x, shared, &j.places);
    int64_t n_params = number(&j.x, params, &j.params);
    j.sums = kiln_alloc_array(&env, (size_t)n_sums + 1, sizeof(*j.sums));
    j.totals = kiln_alloc_array(&env, 2 * (size_t)n_params + 1, sizeof(*j.totals));
    if (j.sums == NULL || j.totals == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the sums of a normalisation");
    } else {
        find_moments(&j, n_sums);
        if (j.norm.backward) {
            store_x_grad(&j, &outputs[0]);
            store_totals(&j, outputs, n_params);
        } else {
            store_forward(&j, &outputs[0]);
        }
        if (call->op == KILN_OP_BATCH_NORM_TRAIN) {
            store_running(&j, outputs, n_sums);
        }
    }
    kiln_free(&env, j.sums);
    kiln_free(&env, j.totals);
    return status;
}

#define REFERENCE(name)                                                                            \
    kiln_status kiln_ref_##name(const kiln_op_record *call, const kiln_view *inputs,               \
                                const kiln_view *outputs, kiln_error *err)                         \
    {                                                                                              \
        return normalise(call, inputs, outputs, err);                                              \
    }

REFERENCE(layer_norm)
REFERENCE(rms_norm)
REFERENCE(group_norm)
REFERENCE(instance_norm)
REFERENCE(batch_norm_train)
REFERENCE(layer_norm_backward)
REFERENCE(rms_norm_backward)
REFERENCE(group_norm_backward)
REFERENCE(instance_norm_backward)
REFERENCE(batch_norm_backward)

#undef REFERENCE
