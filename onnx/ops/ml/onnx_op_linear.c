// SPDX-License-Identifier: MIT OR Apache-2.0
// Linear models and support vector machines of ai.onnx.ml: products of the rows with the file's
// numbers. Decides that distances to support vectors are summed as they are, and taken apart into
// products where that would be large; and that the labels of an SVM are its votes', as libsvm has
// it. What couples the probabilities of more than two classes is on the host.
#include "onnx_ml.h"

#include <math.h>
#include <string.h>

static int64_t length_of(kilni_onnx_call *call, const char *name)
{
    kilni_onnx_ref list = kilni_onnx_attr_list(call, name);
    return list == NULL || !kilni_onnx_ok(call) ? 0 : kiln_desc_count(&list->desc);
}

static kilni_onnx_ref plus_row(kilni_onnx_call *call, kilni_onnx_ref x, const char *name,
                               int64_t columns)
{
    return length_of(call, name) == 0
               ? x
               : kilni_onnx_binary(call, KILN_OP_ADD, x,
                                   kilni_onnx_ml_table(call, name, 1, columns));
}

/// rows times the coefficients of each column of the result, plus intercepts where there are any.
static kilni_onnx_ref linear(kilni_onnx_call *call, int64_t columns)
{
    kilni_onnx_ref x = kilni_onnx_ml_rows(call, 0);
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    if (columns < 1) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%lld columns of results", (long long)columns);
    }
    kilni_onnx_ref weights = kilni_onnx_ml_table(call, "coefficients", columns, x->desc.dims[1]);
    kilni_onnx_ref y = kilni_onnx_matmul(call, x, weights, false, true);
    return plus_row(call, y, "intercepts", columns);
}

void kilni_onnx_op_linear_regressor(kilni_onnx_call *call)
{
    kilni_onnx_ref y = linear(call, kilni_onnx_attr_int(call, "targets", 1));
    kilni_onnx_out(call, 0, kilni_onnx_ml_transformed(call, y, kilni_onnx_ml_transform(call)));
}

void kilni_onnx_op_linear_classifier(kilni_onnx_call *call)
{
    kilni_onnx_ref labels = kilni_onnx_ml_labels(call, "classlabels_ints");
    kilni_onnx_transform transform = kilni_onnx_ml_transform(call);
    int64_t classes = length_of(call, "intercepts");
    if (classes == 0 && labels != NULL) {
        classes = kiln_desc_count(&labels->desc);
    }
    kilni_onnx_ref scores = linear(call, classes);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    if (classes == 1 && labels != NULL && kiln_desc_count(&labels->desc) == 2) {
        bool shares = transform == KILNI_ONNX_LOGISTIC;
        scores = shares ? kilni_onnx_unary(call, KILN_OP_SIGMOID, scores) : scores;
        kilni_onnx_ml_binary(call, labels, scores, shares ? 0.5 : 0, true, transform);
        return;
    }
    kilni_onnx_ml_choose(call, labels, kilni_onnx_ml_largest(call, scores));
    kilni_onnx_out(call, 1, kilni_onnx_ml_transformed(call, scores, transform));
}

// ---- kernels ----

typedef struct svm_kernel {
    const char *type;
    double gamma, constant, degree;
} svm_kernel;

static svm_kernel read_kernel(kilni_onnx_call *call)
{
    const kilni_onnx_attr *params =
        kilni_onnx_ok(call) ? kilni_onnx_attr_find(call, "kernel_params") : NULL;
    svm_kernel k = {.type = kilni_onnx_attr_text(call, "kernel_type", "LINEAR")};
    if (params != NULL && params->type == KILNI_ONNX_ATTR_FLOATS && params->count >= 3) {
        k.gamma = (double)params->floats[0];
        k.constant = (double)params->floats[1];
        k.degree = (double)params->floats[2];
    }
    if (strcmp(k.type, "LINEAR") != 0 && strcmp(k.type, "POLY") != 0 &&
        strcmp(k.type, "RBF") != 0 && strcmp(k.type, "SIGMOID") != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "kernel_type '%s' is not LINEAR, POLY, RBF or SIGMOID", k.type);
    }
    return k;
}

static kilni_onnx_ref squares(kilni_onnx_call *call, kilni_onnx_ref x, int64_t axis, bool keepdims)
{
    return kilni_onnx_reduce(call, KILN_OP_SUM, kilni_onnx_binary(call, KILN_OP_MUL, x, x), &axis,
                             1, keepdims);
}

/// Squares of the distances of rows [n, f] to vectors [s, f].
static kilni_onnx_ref distances(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref vectors)
{
    enum { MOST_DIFFERENCES = 1 << 26 };
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    int64_t rows = x->desc.dims[0], columns = x->desc.dims[1], count = vectors->desc.dims[0];
    if (rows * columns == 0 || count <= MOST_DIFFERENCES / (rows * columns)) {
        const int64_t one[] = {rows, 1, columns}, other[] = {1, count, columns};
        kilni_onnx_ref apart =
            kilni_onnx_binary(call, KILN_OP_SUB, kilni_onnx_reshape(call, x, one, 3),
                              kilni_onnx_reshape(call, vectors, other, 3));
        return squares(call, apart, 2, false);
    }
    const int64_t flat[] = {1, count};
    kilni_onnx_ref both =
        kilni_onnx_binary(call, KILN_OP_ADD, squares(call, x, 1, true),
                          kilni_onnx_reshape(call, squares(call, vectors, 1, true), flat, 2));
    kilni_onnx_ref product = kilni_onnx_matmul(call, x, vectors, false, true);
    kilni_onnx_ref apart = kilni_onnx_binary(
        call, KILN_OP_SUB, both, kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, product, 2));
    return kilni_onnx_scalar(call, KILN_OP_CLAMP_MIN, apart, 0);
}

static kilni_onnx_ref kernel_of(kilni_onnx_call *call, const svm_kernel *k, kilni_onnx_ref x,
                                kilni_onnx_ref vectors)
{
    if (kilni_onnx_ok(call) && k->type[0] == 'R') {
        return kilni_onnx_unary(
            call, KILN_OP_EXP,
            kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, distances(call, x, vectors), -k->gamma));
    }
    kilni_onnx_ref product = kilni_onnx_matmul(call, x, vectors, false, true);
    if (!kilni_onnx_ok(call) || k->type[0] == 'L') {
        return product;
    }
    kilni_onnx_ref scaled = kilni_onnx_scalar(
        call, KILN_OP_ADD_SCALAR, kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, product, k->gamma),
        k->constant);
    return k->type[0] == 'S' ? kilni_onnx_unary(call, KILN_OP_TANH, scaled)
                             : kilni_onnx_scalar(call, KILN_OP_POW_SCALAR, scaled, k->degree);
}

void kilni_onnx_op_svm_regressor(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_ml_rows(call, 0);
    const svm_kernel k = read_kernel(call);
    int64_t supports = kilni_onnx_attr_int(call, "n_supports", 0);
    bool one_class = kilni_onnx_attr_int(call, "one_class", 0) != 0;
    if (!kilni_onnx_ok(call)) {
        return;
    }
    kilni_onnx_ref y = NULL;
    if (supports > 0) {
        kilni_onnx_ref vectors =
            kilni_onnx_ml_table(call, "support_vectors", supports, x->desc.dims[1]);
        y = kilni_onnx_matmul(call, kernel_of(call, &k, x, vectors),
                              kilni_onnx_ml_table(call, "coefficients", supports, 1), false, false);
    } else {
        const svm_kernel plain = {.type = "LINEAR"};
        y = kernel_of(call, &plain, x,
                      kilni_onnx_ml_table(call, "coefficients", 1, x->desc.dims[1]));
    }
    y = plus_row(call, y, "rho", 1);
    if (one_class) {
        kilni_onnx_ref inside = kilni_onnx_scalar(call, KILN_OP_GREATER_SCALAR, y, 0);
        y = kilni_onnx_cast(call, inside, KILN_DTYPE_F32);
        y = kilni_onnx_scalar(call, KILN_OP_SUB_SCALAR,
                              kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, y, 2), 1);
    }
    kilni_onnx_out(call, 0, kilni_onnx_ml_transformed(call, y, kilni_onnx_ml_transform(call)));
}

// ---- SVMClassifier ----

typedef struct svm_classes {
    int64_t count; ///< of classes
    int64_t pairs;
    int64_t supports;
    const int64_t *each; ///< support vectors of each class
} svm_classes;

/// [supports, pairs]: what each support vector says for a pair of classes.
static kilni_onnx_ref pair_weights(kilni_onnx_call *call, const svm_classes *c)
{
    const int64_t dims[] = {c->supports, c->pairs};
    kilni_onnx_ref list = kilni_onnx_ml_table(call, "coefficients", c->count - 1, c->supports);
    const kilni_onnx_attr *attr =
        kilni_onnx_ok(call) ? kilni_onnx_attr_find(call, "coefficients") : NULL;
    const char *key = (const char *)attr + 1;
    kilni_onnx_ref made = list == NULL || attr == NULL ? NULL : kilni_onnx_kept_of(call, key);
    if (made != NULL || list == NULL || attr == NULL) {
        return made;
    }
    made = kilni_onnx_scratch(call, KILN_DTYPE_F32, 2, dims);
    float *to = made == NULL ? NULL : made->owned;
    int64_t pair = 0, first_i = 0;
    for (int64_t i = 0; to != NULL && i < c->count; first_i += c->each[i], i++) {
        int64_t first_j = first_i + c->each[i];
        for (int64_t j = i + 1; j < c->count; first_j += c->each[j], j++, pair++) {
            for (int64_t s = 0; s < c->each[i]; s++) {
                to[(first_i + s) * c->pairs + pair] =
                    attr->floats[(j - 1) * c->supports + first_i + s];
            }
            for (int64_t s = 0; s < c->each[j]; s++) {
                to[(first_j + s) * c->pairs + pair] = attr->floats[i * c->supports + first_j + s];
            }
        }
    }
    kilni_onnx_keep_made(call, key, made);
    return made;
}

/// Places of the classes with the most votes: the first of a pair has its vote above 0.
static kilni_onnx_ref voted(kilni_onnx_call *call, const svm_classes *c, kilni_onnx_ref decisions)
{
    const int64_t dims[] = {c->pairs, c->count}, row[] = {1, c->count};
    kilni_onnx_ref ways = kilni_onnx_scratch(call, KILN_DTYPE_F32, 2, dims);
    kilni_onnx_ref lost = kilni_onnx_scratch(call, KILN_DTYPE_F32, 2, row);
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    int64_t pair = 0;
    for (int64_t i = 0; i < c->count; i++) {
        for (int64_t j = i + 1; j < c->count; j++, pair++) {
            ((float *)ways->owned)[pair * c->count + i] = 1;
            ((float *)ways->owned)[pair * c->count + j] = -1;
            ((float *)lost->owned)[j] += 1;
        }
    }
    kilni_onnx_ref won = kilni_onnx_cast(
        call, kilni_onnx_scalar(call, KILN_OP_GREATER_SCALAR, decisions, 0), KILN_DTYPE_F32);
    kilni_onnx_ref votes = kilni_onnx_matmul(call, won, ways, false, false);
    return kilni_onnx_ml_largest(call, kilni_onnx_binary(call, KILN_OP_ADD, votes, lost));
}

/// Probabilities of classes from those of pairs: method 2 of Wu, Lin and Weng, "Probability
/// estimates for multi-class classification by pairwise coupling", JMLR 5 (2004).
static void couple(int64_t k, const double *pairs, double *q, double *p, double *qp)
{
    for (int64_t t = 0; t < k; t++) {
        p[t] = 1.0 / (double)k;
        q[t * k + t] = 0;
        for (int64_t j = 0; j < k; j++) {
            if (j != t) {
                q[t * k + t] += pairs[j * k + t] * pairs[j * k + t];
                q[t * k + j] = -pairs[j * k + t] * pairs[t * k + j];
            }
        }
    }
    int64_t most = k > 100 ? k : 100;
    for (int64_t round = 0; round < most; round++) {
        double sum = 0, worst = 0;
        for (int64_t t = 0; t < k; t++) {
            qp[t] = 0;
            for (int64_t j = 0; j < k; j++) {
                qp[t] += q[t * k + j] * p[j];
            }
            sum += p[t] * qp[t];
        }
        for (int64_t t = 0; t < k; t++) {
            worst = fmax(worst, fabs(qp[t] - sum));
        }
        if (worst < 0.005 / (double)k) {
            break;
        }
        for (int64_t t = 0; t < k; t++) {
            double step = (sum - qp[t]) / q[t * k + t];
            p[t] += step;
            sum = (sum + step * (step * q[t * k + t] + 2 * qp[t])) / (1 + step) / (1 + step);
            for (int64_t j = 0; j < k; j++) {
                qp[j] = (qp[j] + step * q[t * k + j]) / (1 + step);
                p[j] /= 1 + step;
            }
        }
    }
}

/// [n, pairs] of the first of each pair, bounded away from 0 and 1.
static kilni_onnx_ref pair_shares(kilni_onnx_call *call, const svm_classes *c,
                                  kilni_onnx_ref decisions)
{
    kilni_onnx_ref scaled = kilni_onnx_binary(call, KILN_OP_MUL, decisions,
                                              kilni_onnx_ml_table(call, "prob_a", 1, c->pairs));
    scaled = plus_row(call, scaled, "prob_b", c->pairs);
    kilni_onnx_ref shares =
        kilni_onnx_unary(call, KILN_OP_SIGMOID, kilni_onnx_unary(call, KILN_OP_NEG, scaled));
    return kilni_onnx_clamp(call, shares, 1e-7, 1 - 1e-7);
}

static kilni_onnx_ref coupled(kilni_onnx_call *call, const svm_classes *c, kilni_onnx_ref shares)
{
    const float *from = kilni_onnx_host(call, shares);
    const int64_t k = c->count;
    const int64_t dims[] = {kilni_onnx_ok(call) ? shares->desc.dims[0] : 0, k};
    kilni_onnx_ref y = kilni_onnx_host_made(call, KILN_DTYPE_F32, 2, dims);
    double *room =
        kiln_alloc_array(&call->session->env, (size_t)(2 * k * k + 2 * k), sizeof(double));
    if (room == NULL) {
        KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "no memory for %lld classes", (long long)k);
    }
    for (int64_t row = 0; kilni_onnx_ok(call) && row < dims[0]; row++) {
        double *pairs = room, *q = pairs + k * k, *p = q + k * k;
        int64_t pair = 0;
        for (int64_t i = 0; i < k; i++) {
            for (int64_t j = i + 1; j < k; j++, pair++) {
                pairs[i * k + j] = (double)from[row * c->pairs + pair];
                pairs[j * k + i] = 1 - pairs[i * k + j];
            }
        }
        couple(k, pairs, q, p, p + k);
        for (int64_t t = 0; t < k; t++) {
            ((float *)y->owned)[row * k + t] = (float)p[t];
        }
    }
    kiln_free(&call->session->env, room);
    return y;
}

static bool read_svm_classes(kilni_onnx_call *call, svm_classes *c)
{
    const kilni_onnx_attr *each = kilni_onnx_attr_find(call, "vectors_per_class");
    if (each == NULL || each->type != KILNI_ONNX_ATTR_INTS || each->count == 0) {
        return false;
    }
    c->each = each->ints;
    c->count = each->count;
    c->pairs = c->count * (c->count - 1) / 2;
    for (uint32_t i = 0; i < each->count; i++) {
        if (each->ints[i] < 0 || each->ints[i] > KILNI_ONNX_MAX_LIST) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "vectors_per_class has %lld",
                            (long long)each->ints[i]);
        }
        c->supports += each->ints[i];
    }
    if (c->count < 2 || c->count > 4096) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "support vectors of %lld classes",
                        (long long)c->count);
    }
    return true;
}

static void classify_by_vectors(kilni_onnx_call *call, const svm_classes *c, kilni_onnx_ref labels)
{
    kilni_onnx_ref x = kilni_onnx_ml_rows(call, 0);
    const svm_kernel k = read_kernel(call);
    kilni_onnx_ref vectors = kilni_onnx_ok(call) ? kilni_onnx_ml_table(call, "support_vectors",
                                                                       c->supports, x->desc.dims[1])
                                                 : NULL;
    kilni_onnx_ref decisions = kilni_onnx_matmul(call, kernel_of(call, &k, x, vectors),
                                                 pair_weights(call, c), false, false);
    decisions = plus_row(call, decisions, "rho", c->pairs);
    bool likely = length_of(call, "prob_a") > 0;
    kilni_onnx_transform transform = kilni_onnx_ml_transform(call);
    kilni_onnx_ml_choose(call, labels, voted(call, c, decisions));
    kilni_onnx_ref scores = decisions;
    if (likely) {
        scores = coupled(call, c, pair_shares(call, c, decisions));
    } else if (c->count == 2) {
        const kilni_onnx_ref both[] = {decisions, kilni_onnx_unary(call, KILN_OP_NEG, decisions)};
        scores = kilni_onnx_concat(call, both, 2, 1);
    }
    kilni_onnx_out(call, 1, kilni_onnx_ml_transformed(call, scores, transform));
}

void kilni_onnx_op_svm_classifier(kilni_onnx_call *call)
{
    svm_classes c = {.count = 0};
    kilni_onnx_ref labels = kilni_onnx_ml_labels(call, "classlabels_ints");
    if (read_svm_classes(call, &c)) {
        if (kilni_onnx_ok(call)) {
            classify_by_vectors(call, &c, labels);
        }
        return;
    }
    kilni_onnx_ref x = kilni_onnx_ml_rows(call, 0);
    if (!kilni_onnx_ok(call) || labels == NULL) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "the classes have no labels");
        return;
    }
    kilni_onnx_ref scores = kilni_onnx_matmul(
        call, x,
        kilni_onnx_ml_table(call, "coefficients", kiln_desc_count(&labels->desc), x->desc.dims[1]),
        false, true);
    scores = plus_row(call, scores, "rho", length_of(call, "rho"));
    kilni_onnx_ml_choose(call, labels, kilni_onnx_ml_largest(call, scores));
    kilni_onnx_out(call, 1, kilni_onnx_ml_transformed(call, scores, kilni_onnx_ml_transform(call)));
}
