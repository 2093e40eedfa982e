// SPDX-License-Identifier: MIT OR Apache-2.0
// The next token from a row of logits: the likeliest, or one that is drawn. Decides that of equal
// logits the lower token comes first, so that a seed gives the same text everywhere.

#include "generate.h"

#include <math.h>
#include <stdlib.h>

/// splitmix64: Steele, Lea and Flood, 2014. From 0 to below 1.
static double draw(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static bool before(const float *logits, uint32_t a, uint32_t b)
{
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

static void sink(const float *logits, uint32_t *heap, size_t count, size_t at)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count) {
            return;
        }
        if (child + 1 < count && before(logits, heap[child + 1], heap[child])) {
            child++;
        }
        if (!before(logits, heap[child], heap[at])) {
            return;
        }
        uint32_t moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
        at = child;
    }
}

/// The likeliest of a heap leaves it, to behind its end.
static void pop(const float *logits, uint32_t *heap, size_t count)
{
    uint32_t first = heap[0];
    heap[0] = heap[count - 1];
    heap[count - 1] = first;
    sink(logits, heap, count - 1, 0);
}

static double weight_of(const float *logits, uint32_t token, float best, double temperature)
{
    return exp(((double)logits[token] - (double)best) / temperature);
}

/// Tokens in falling order stand at the end of `order`, the likeliest last. As many as are needed.
static int64_t draw_token(generate_sampling *s, const float *logits, size_t count, uint32_t *order)
{
    size_t most = s->top_k > 0 && s->top_k < count ? s->top_k : count;
    double all = 0;
    for (size_t i = count / 2; i-- > 0;) {
        sink(logits, order, count, i);
    }
    float best = logits[order[0]];
    for (size_t i = 0; most == count && i < count; i++) {
        all += weight_of(logits, order[i], best, s->temperature);
    }
    size_t taken = 0;
    if (most < count) { // the probability of these alone is shared out
        for (; taken < most; taken++) {
            pop(logits, order, count - taken);
            all += weight_of(logits, order[count - 1 - taken], best, s->temperature);
        }
    }
    double sum = 0;
    size_t n = 0;
    do {
        if (n == taken) {
            pop(logits, order, count - taken++);
        }
        sum += weight_of(logits, order[count - 1 - n], best, s->temperature);
        n++;
    } while (n < most && s->top_p < 1 && sum < s->top_p * all);
    double place = draw(&s->state) * (s->top_p < 1 ? sum : all);
    for (size_t i = 0;; i++) {
        if (i == taken) {
            pop(logits, order, count - taken++);
        }
        place -= weight_of(logits, order[count - 1 - i], best, s->temperature);
        if (place < 0 || i + 1 == (s->top_p < 1 ? n : most)) {
            return order[count - 1 - i];
        }
    }
}

kiln_status generate_next(generate_sampling *sampling, const float *logits, size_t count,
                          uint32_t *order, int64_t *out_token, kiln_error *err)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (isnan(logits[i])) {
            return kiln_fail(err, DATA_LOSS, "the model gives no number for token %u", i);
        }
        best = logits[i] > logits[best] ? i : best;
        order[i] = i;
    }
    *out_token = sampling->temperature > 0 && !isinf(logits[best])
                     ? draw_token(sampling, logits, count, order)
                     : best;
    return KILN_STATUS_OK;
}
