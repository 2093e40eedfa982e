// SPDX-License-Identifier: MIT OR Apache-2.0
// TfIdfVectorizer over numbers, or strings by theirs: how often each n-gram of a pool occurs in
// each row. Written as comparisons of shifted views of the rows with the pool and sums of the hits,
// in blocks of the pool, so that nothing large is held. Decides that n-grams of one column add up,
// and that single items count once however many skips there are.
#include "onnx_emit_text.h"

#include <string.h>

enum { MOST_HITS = 1 << 22 }; ///< elements of one block of comparisons

typedef struct vectorizer {
    const int64_t *pool;
    int64_t pool_count;
    const kilni_onnx_attr *starts; ///< of the n-grams of each length in the pool
    const kilni_onnx_attr *columns;
    const kilni_onnx_attr *weights; ///< NULL: 1
    int64_t shortest;
    int64_t longest;
    int64_t skips;
    bool binary;
    bool weighs;
    int64_t rows;
    int64_t length;
    int64_t width; ///< columns of the result
} vectorizer;

static const kilni_onnx_attr *list_attr(kilni_onnx_call *call, const char *name,
                                        kilni_onnx_attr_type type)
{
    const kilni_onnx_attr *attr = kilni_onnx_ok(call) ? kilni_onnx_attr_find(call, name) : NULL;
    if (kilni_onnx_ok(call) && (attr == NULL || attr->type != type)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute '%s' is missing", name);
    }
    return attr;
}

/// n-grams of length n begin here in the pool; past the last length: its end.
static int64_t pool_start(const vectorizer *v, int64_t n)
{
    return n - 1 < (int64_t)v->starts->count ? v->starts->ints[n - 1] : v->pool_count;
}

static void check_pool(kilni_onnx_call *call, const vectorizer *v)
{
    int64_t grams = 0;
    for (int64_t n = 1; n <= (int64_t)v->starts->count; n++) {
        int64_t items = pool_start(v, n + 1) - pool_start(v, n);
        if (pool_start(v, n) < 0 || items < 0 || items % n != 0 ||
            pool_start(v, n + 1) > v->pool_count) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%lld-grams do not fit the pool", (long long)n);
            return;
        }
        grams += items / n;
    }
    if (grams != (int64_t)v->columns->count ||
        (v->weights != NULL && v->weights->count != v->columns->count)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%lld n-grams, %u columns for them",
                        (long long)grams, v->columns->count);
    }
    for (uint32_t i = 0; i < v->columns->count; i++) {
        if (v->columns->ints[i] < 0 || v->columns->ints[i] > KILNI_ONNX_MAX_LIST) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "column %lld", (long long)v->columns->ints[i]);
        }
    }
}

static void read_mode(kilni_onnx_call *call, vectorizer *v)
{
    const char *mode = kilni_onnx_attr_text(call, "mode", "");
    v->binary = strcmp(mode, "IDF") == 0;
    v->weighs = v->binary || strcmp(mode, "TFIDF") == 0;
    if (!v->weighs && strcmp(mode, "TF") != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "mode '%s' is not TF, IDF or TFIDF", mode);
    }
}

/// The pool's items, strings as their numbers.
static void take_pool(kilni_onnx_call *call, vectorizer *v, bool of_text)
{
    const kilni_onnx_attr *attr = of_text ? list_attr(call, "pool_strings", KILNI_ONNX_ATTR_STRINGS)
                                          : list_attr(call, "pool_int64s", KILNI_ONNX_ATTR_INTS);
    v->pool_count = attr == NULL ? 0 : attr->count;
    if (attr == NULL || !of_text) {
        v->pool = attr == NULL ? NULL : attr->ints;
        return;
    }
    const int32_t *numbers =
        kilni_onnx_text_numbers(call, kilni_onnx_attr_list(call, "pool_strings"));
    kilni_onnx_ref wide = kilni_onnx_scratch(call, KILN_DTYPE_I64, 1, &v->pool_count);
    for (int64_t i = 0; kilni_onnx_ok(call) && i < v->pool_count; i++) {
        ((int64_t *)wide->owned)[i] = numbers[i];
    }
    v->pool = wide == NULL ? NULL : wide->owned;
}

static vectorizer begin_vectorizer(kilni_onnx_call *call, bool of_text)
{
    vectorizer v = {.shortest = kilni_onnx_attr_int(call, "min_gram_length", 1),
                    .longest = kilni_onnx_attr_int(call, "max_gram_length", 1),
                    .skips = kilni_onnx_attr_int(call, "max_skip_count", 0)};
    read_mode(call, &v);
    take_pool(call, &v, of_text);
    v.starts = list_attr(call, "ngram_counts", KILNI_ONNX_ATTR_INTS);
    v.columns = list_attr(call, "ngram_indexes", KILNI_ONNX_ATTR_INTS);
    bool given = kilni_onnx_ok(call) && kilni_onnx_attr_find(call, "weights") != NULL;
    v.weights = given ? list_attr(call, "weights", KILNI_ONNX_ATTR_FLOATS) : NULL;
    if (v.shortest < 1 || v.longest < v.shortest || v.skips < 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "n-grams of %lld to %lld items with %lld skips",
                        (long long)v.shortest, (long long)v.longest, (long long)v.skips);
    }
    if (kilni_onnx_ok(call)) {
        check_pool(call, &v);
    }
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < v.columns->count; i++) {
        v.width = v.columns->ints[i] >= v.width ? v.columns->ints[i] + 1 : v.width;
    }
    return v;
}

/// Item `i` of n-grams [first, first + count) of length n, to be compared with all rows.
static kilni_onnx_ref pool_items(kilni_onnx_call *call, const vectorizer *v, const int64_t gram[3],
                                 int64_t i)
{
    const int64_t dims[] = {1, 1, gram[2]};
    kilni_onnx_ref items = kilni_onnx_scratch(call, KILN_DTYPE_I64, 3, dims);
    int64_t *values = items == NULL ? NULL : items->owned;
    for (int64_t k = 0; values != NULL && k < gram[2]; k++) {
        values[k] = v->pool[pool_start(v, gram[0]) + (gram[1] + k) * gram[0] + i];
    }
    return items;
}

/// Whether each place of each row begins one of the n-grams, its items `apart` from each other.
static kilni_onnx_ref hits(kilni_onnx_call *call, const vectorizer *v, kilni_onnx_ref x,
                           const int64_t gram[3], int64_t apart)
{
    const int64_t places[] = {v->rows, v->length - (gram[0] - 1) * apart, 1};
    kilni_onnx_ref all = NULL;
    for (int64_t i = 0; kilni_onnx_ok(call) && i < gram[0]; i++) {
        kilni_onnx_ref part =
            kilni_onnx_slice_axis(call, x, 1, i * apart, i * apart + places[1], 1);
        kilni_onnx_ref same =
            kilni_onnx_binary(call, KILN_OP_EQUAL, kilni_onnx_reshape(call, part, places, 3),
                              pool_items(call, v, gram, i));
        all = i == 0 ? same : kilni_onnx_binary(call, KILN_OP_LOGICAL_AND, all, same);
    }
    return all;
}

/// [rows, count] of a block of n-grams: gram is {length, first, count}.
static kilni_onnx_ref count_block(kilni_onnx_call *call, const vectorizer *v, kilni_onnx_ref x,
                                  const int64_t gram[3])
{
    static const int64_t places = 1;
    const int64_t dims[] = {v->rows, gram[2]};
    kilni_onnx_ref total = NULL;
    int64_t most = gram[0] == 1 ? 0 : v->skips;
    for (int64_t skip = 0; kilni_onnx_ok(call) && skip <= most; skip++) {
        if (gram[0] > 1 && skip + 1 > (v->length - 1) / (gram[0] - 1)) {
            break;
        }
        kilni_onnx_ref found =
            kilni_onnx_cast(call, hits(call, v, x, gram, skip + 1), KILN_DTYPE_F32);
        kilni_onnx_ref sum = kilni_onnx_reduce(call, KILN_OP_SUM, found, &places, 1, false);
        total = total == NULL ? sum : kilni_onnx_binary(call, KILN_OP_ADD, total, sum);
    }
    return total != NULL ? total : kilni_onnx_full(call, KILN_DTYPE_F32, dims, 2, kiln_f64(0));
}

/// [rows, n-grams + 1] in the pool's order; the last column is 0, for what is not in the pool.
static kilni_onnx_ref count_all(kilni_onnx_call *call, const vectorizer *v, kilni_onnx_ref x)
{
    const int64_t last[] = {v->rows, 1};
    kilni_onnx_ref counts = NULL;
    int64_t room = v->rows * v->length > 0 ? MOST_HITS / (v->rows * v->length) + 1 : MOST_HITS;
    for (int64_t n = 1; n <= (int64_t)v->starts->count; n++) {
        int64_t grams = (pool_start(v, n + 1) - pool_start(v, n)) / n;
        for (int64_t first = 0; kilni_onnx_ok(call) && first < grams; first += room) {
            const int64_t gram[] = {n, first, grams - first < room ? grams - first : room};
            const int64_t dims[] = {v->rows, gram[2]};
            bool counted = n >= v->shortest && n <= v->longest;
            const kilni_onnx_ref both[] = {
                counts, counted ? count_block(call, v, x, gram)
                                : kilni_onnx_full(call, KILN_DTYPE_F32, dims, 2, kiln_f64(0))};
            counts = counts == NULL ? both[1] : kilni_onnx_concat(call, both, 2, 1);
        }
    }
    const kilni_onnx_ref both[] = {counts,
                                   kilni_onnx_full(call, KILN_DTYPE_F32, last, 2, kiln_f64(0))};
    return counts == NULL ? both[1] : kilni_onnx_concat(call, both, 2, 1);
}

static kilni_onnx_ref weighed(kilni_onnx_call *call, const vectorizer *v, kilni_onnx_ref counts)
{
    const int64_t dims[] = {1, (int64_t)v->columns->count + 1};
    if (v->binary) {
        counts = kilni_onnx_cast(call, kilni_onnx_scalar(call, KILN_OP_GREATER_SCALAR, counts, 0),
                                 KILN_DTYPE_F32);
    }
    if (!v->weighs || v->weights == NULL) {
        return counts;
    }
    kilni_onnx_ref weights = kilni_onnx_scratch(call, KILN_DTYPE_F32, 2, dims);
    if (weights != NULL) {
        memcpy(weights->owned, v->weights->floats, v->weights->count * sizeof(float));
    }
    return kilni_onnx_binary(call, KILN_OP_MUL, counts, weights);
}

/// Columns of the result from those of the pool: usually one each; what is left over is added.
static kilni_onnx_ref arranged(kilni_onnx_call *call, const vectorizer *v, kilni_onnx_ref counts)
{
    const int64_t dims[] = {v->width};
    uint32_t done = 0;
    kilni_onnx_ref total = NULL;
    while (kilni_onnx_ok(call) && (total == NULL || done < v->columns->count)) {
        kilni_onnx_ref from = kilni_onnx_scratch(call, KILN_DTYPE_I64, 1, dims);
        int64_t *places = from == NULL ? NULL : from->owned;
        for (int64_t i = 0; places != NULL && i < v->width; i++) {
            places[i] = v->columns->count;
        }
        for (; places != NULL && done < v->columns->count; done++) {
            int64_t *place = &places[v->columns->ints[done]];
            if (*place != (int64_t)v->columns->count) {
                break;
            }
            *place = done;
        }
        kilni_onnx_ref part = kilni_onnx_indexed(call, KILN_OP_SELECT, counts, from, 1);
        total = total == NULL ? part : kilni_onnx_binary(call, KILN_OP_ADD, total, part);
    }
    return total;
}

void kilni_onnx_op_tf_idf_vectorizer(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    vectorizer v = begin_vectorizer(call, kilni_onnx_ok(call) && kilni_onnx_is_text(x));
    x = kilni_onnx_numbers(call, x);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    if (x->desc.rank != 1 && x->desc.rank != 2) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "rows of rank %u", x->desc.rank);
        return;
    }
    bool one = x->desc.rank == 1;
    v.rows = one ? 1 : x->desc.dims[0];
    v.length = x->desc.dims[one ? 0 : 1];
    const int64_t table[] = {v.rows, v.length};
    x = kilni_onnx_cast(call, kilni_onnx_reshape(call, x, table, 2), KILN_DTYPE_I64);
    kilni_onnx_ref result = arranged(call, &v, weighed(call, &v, count_all(call, &v, x)));
    kilni_onnx_out(call, 0, one ? kilni_onnx_reshape(call, result, &v.width, 1) : result);
}
