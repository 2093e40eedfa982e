// SPDX-License-Identifier: MIT OR Apache-2.0
// Random numbers as a function of their place: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011) of (seed, stream, position, element). Decides how
// words become numbers; every backend does the same, so the numbers are the same on all of them.
//
// Key: the seed's two halves. Counter: word 0 is the low half of the block, word 1 its next 16 bits
// below the high 16 bits of the position, word 2 the low half of the position, word 3 the stream.
// A block of four words serves four elements; of f64 and integers up to 32 bits two, of integers
// of 64 bits one.
#include <math.h>
#include <string.h>

#include "reference_internal.h"

typedef struct source { ///< what the attributes say
    uint32_t key[2];
    uint64_t position;
    uint32_t stream;
} source;

static source source_of(const kiln_op_record *call)
{
    uint64_t seed = (uint64_t)kiln_op_attr_i64(call, KILN_KEY_SEED);
    return (source){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                    .position = (uint64_t)kiln_op_attr_i64(call, KILN_KEY_POSITION),
                    .stream = (uint32_t)kiln_op_attr_i64(call, KILN_KEY_STREAM)};
}

void kilni_ref_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out_words[4])
{
    uint32_t k0 = key[0];
    uint32_t k1 = key[1];
    memcpy(out_words, counter, 4 * sizeof(uint32_t));
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)out_words[0] * 0xD2511F53u;
        uint64_t b = (uint64_t)out_words[2] * 0xCD9E8D57u;
        out_words[0] = (uint32_t)(b >> 32) ^ out_words[1] ^ k0;
        out_words[1] = (uint32_t)b;
        out_words[2] = (uint32_t)(a >> 32) ^ out_words[3] ^ k1;
        out_words[3] = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

static void block_words(const source *from, uint64_t block, uint32_t out_words[4])
{
    const uint32_t counter[4] = {
        (uint32_t)block,
        ((uint32_t)(block >> 32) & 0xFFFFu) | ((uint32_t)(from->position >> 32) << 16),
        (uint32_t)from->position,
        from->stream,
    };
    kilni_ref_philox(from->key, counter, out_words);
}

/// The four words of element i's block, turned so that the element's own come first.
static void element_words(const source *from, int64_t i, int64_t per_block, uint32_t out_words[4])
{
    uint32_t words[4];
    uint32_t first = (uint32_t)(i % per_block) * (uint32_t)(4 / per_block);
    block_words(from, (uint64_t)(i / per_block), words);
    for (uint32_t k = 0; k < 4; k++) {
        out_words[k] = words[(first + k) % 4];
    }
}

static uint64_t join(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

typedef kilni_ref_value (*draw_fn)(const source *from, int64_t i, const kiln_op_record *call,
                                   kiln_dtype dtype);

static void fill(const kiln_op_record *call, const kiln_view *output, draw_fn draw)
{
    const source from = source_of(call);
    kilni_ref_walk walk;
    int64_t i = 0;
    kilni_ref_walk_init(&walk, output->dims, output->rank);
    kilni_ref_walk_add(&walk, output);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        kilni_ref_store(output, walk.at[0], draw(&from, i++, call, output->dtype));
    }
}

// ---- uniform ----

/// In [0, 1), with as many bits as the type has digits.
static double unit(const source *from, int64_t i, kiln_dtype dtype)
{
    uint32_t w[4];
    element_words(from, i, dtype == KILN_DTYPE_F64 ? 2 : 4, w);
    switch (dtype) {
    case KILN_DTYPE_F64:
        return (double)(join(w[0], w[1]) >> 11) * 0x1p-53;
    case KILN_DTYPE_F16:
        return (double)(w[0] >> 21) * 0x1p-11;
    case KILN_DTYPE_BF16:
        return (double)(w[0] >> 24) * 0x1p-8;
    default:
        return (double)(w[0] >> 8) * 0x1p-24;
    }
}

/// min + unit * (max - min), each step rounded; what rounds up to max becomes min.
static kilni_ref_value draw_uniform(const source *from, int64_t i, const kiln_op_record *call,
                                    kiln_dtype dtype)
{
    double low = kilni_ref_scalar(call, KILN_KEY_MIN, dtype).f;
    double high = kilni_ref_scalar(call, KILN_KEY_MAX, dtype).f;
    double u = unit(from, i, dtype);
    unsigned char element[8];
    kiln_view cell = {.dtype = dtype};
    struct kiln_buffer memory = {.data = element, .bytes = sizeof(element)};
    cell.buffer = &memory;
    if (dtype == KILN_DTYPE_F64) {
        double product = u * (high - low);
        kilni_ref_store(&cell, 0, kilni_ref_of_float(low + product));
    } else {
        float width = (float)high - (float)low;
        float product = (float)u * width;
        float sum = (float)low + product;
        kilni_ref_store(&cell, 0, kilni_ref_of_float(sum));
    }
    kilni_ref_value value = kilni_ref_load(&cell, 0);
    return value.f >= high ? kilni_ref_of_float(low) : value;
}

kiln_status kiln_ref_random_uniform(const kiln_op_record *call, const kiln_view *inputs,
                                    const kiln_view *outputs, kiln_error *err)
{
    (void)inputs;
    (void)err;
    fill(call, &outputs[0], draw_uniform);
    return KILN_STATUS_OK;
}

// ---- integers ----

static uint64_t high_product(uint64_t a, uint64_t b)
{
    uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX);
    uint64_t cross = (a >> 32) * (b & UINT32_MAX) + (low >> 32);
    uint64_t other = (a & UINT32_MAX) * (b >> 32) + (cross & UINT32_MAX);
    return (a >> 32) * (b >> 32) + (cross >> 32) + (other >> 32);
}

/// The high part of (random bits) * (number of values): no value is preferred by more than 2^-32;
/// 64-bit types draw 128 bits.
static kilni_ref_value draw_int(const source *from, int64_t i, const kiln_op_record *call,
                                kiln_dtype dtype)
{
    bool wide = kiln_dtype_size(dtype) == 8;
    uint64_t low = kilni_ref_scalar(call, KILN_KEY_MIN, dtype).u;
    uint64_t last = kilni_ref_scalar(call, KILN_KEY_MAX, dtype).u - low;
    uint64_t count = last + 1; // 0: all 2^64
    uint32_t w[4];
    element_words(from, i, wide ? 1 : 2, w);
    uint64_t bits = join(w[0], w[1]);
    if (count == 0) {
        return (kilni_ref_value){.u = low + bits};
    }
    uint64_t offset = high_product(bits, count);
    if (wide) {
        uint64_t sum = bits * count + high_product(join(w[2], w[3]), count);
        offset += sum < bits * count ? 1 : 0;
    }
    return (kilni_ref_value){.u = low + offset};
}

kiln_status kiln_ref_random_int(const kiln_op_record *call, const kiln_view *inputs,
                                const kiln_view *outputs, kiln_error *err)
{
    (void)inputs;
    (void)err;
    fill(call, &outputs[0], draw_int);
    return KILN_STATUS_OK;
}

// ---- normal: Box and Muller, "A note on the generation of random normal deviates", 1958 ----

/// Cosine (or sine) of 2 pi (turn + 1/2) 2^-32 without the rounding of the angle: `turn` is a
/// signed count of 2^-bits turns.
static double wave(int64_t turn, int bits, bool sine)
{
    int64_t quarter = (int64_t)1 << (bits - 2);
    int64_t nearest = (turn + quarter / 2) >> (bits - 2);
    double rest = ldexp((double)(turn - nearest * quarter) + 0.5, 1 - bits);
    double angle = rest * 3.14159265358979323846;
    switch ((nearest + (sine ? 3 : 0)) & 3) {
    case 0:
        return cos(angle);
    case 1:
        return -sin(angle);
    case 2:
        return -cos(angle);
    default:
        return sin(angle);
    }
}

/// Elements 2k and 2k + 1 are the cosine and the sine of one pair of words.
static double standard_normal(const source *from, int64_t i, kiln_dtype dtype)
{
    uint32_t w[4];
    if (dtype == KILN_DTYPE_F64) {
        block_words(from, (uint64_t)i / 2, w);
        double u = ((double)(join(w[0], w[1]) >> 12) + 0.5) * 0x1p-52;
        int64_t turn = (int64_t)(join(w[2], w[3]) >> 12);
        return sqrt(-2 * log(u)) * wave(turn, 52, i % 2 != 0);
    }
    element_words(from, i - i % 2, 4, w);
    double u = ((double)(w[0] >> 9) + 0.5) * 0x1p-23;
    double value = sqrt(-2 * log(u)) * wave((int64_t)(w[1] >> 6), 26, i % 2 != 0);
    return (double)(float)value;
}

static kilni_ref_value draw_normal(const source *from, int64_t i, const kiln_op_record *call,
                                   kiln_dtype dtype)
{
    double mean = kiln_op_attr_f64(call, KILN_KEY_MEAN);
    double deviation = kiln_op_attr_f64(call, KILN_KEY_DEVIATION);
    double z = standard_normal(from, i, dtype);
    if (dtype == KILN_DTYPE_F64) {
        double scaled = z * deviation;
        return kilni_ref_of_float(mean + scaled);
    }
    float scaled = (float)z * (float)deviation;
    float sum = (float)mean + scaled;
    return kilni_ref_of_float(sum);
}

kiln_status kiln_ref_random_normal(const kiln_op_record *call, const kiln_view *inputs,
                                   const kiln_view *outputs, kiln_error *err)
{
    (void)inputs;
    (void)err;
    fill(call, &outputs[0], draw_normal);
    return KILN_STATUS_OK;
}

// ---- Bernoulli ----

static kilni_ref_value draw_bernoulli(const source *from, int64_t i, const kiln_op_record *call,
                                      kiln_dtype dtype)
{
    uint64_t threshold = (uint64_t)(kiln_op_attr_f64(call, KILN_KEY_PROBABILITY) * 0x1p32 + 0.5);
    uint32_t w[4];
    element_words(from, i, 4, w);
    bool hit = w[0] < threshold;
    return kilni_ref_is_float(dtype) ? kilni_ref_of_float(hit) : kilni_ref_of_bool(hit);
}

kiln_status kiln_ref_random_bernoulli(const kiln_op_record *call, const kiln_view *inputs,
                                      const kiln_view *outputs, kiln_error *err)
{
    (void)inputs;
    (void)err;
    fill(call, &outputs[0], draw_bernoulli);
    return KILN_STATUS_OK;
}

// ---- permutation ----

typedef struct sorted_order { ///< the result while it is sorted by the numbers of its elements
    const source *from;
    const kiln_view *view;
} sorted_order;

static uint64_t order_at(const sorted_order *o, int64_t i)
{
    return kilni_ref_load(o->view, i * o->view->strides[0]).u;
}

static void order_put(const sorted_order *o, int64_t i, uint64_t value)
{
    kilni_ref_store(o->view, i * o->view->strides[0], (kilni_ref_value){.u = value});
}

static bool comes_first(const sorted_order *o, uint64_t a, uint64_t b)
{
    uint32_t words[2][4];
    block_words(o->from, a, words[0]);
    block_words(o->from, b, words[1]);
    uint64_t key_a = join(words[0][0], words[0][1]);
    uint64_t key_b = join(words[1][0], words[1][1]);
    return key_a != key_b ? key_a < key_b : a < b;
}

static void sift_down(const sorted_order *o, int64_t root, int64_t count)
{
    while (2 * root + 1 < count) {
        int64_t child = 2 * root + 1;
        if (child + 1 < count && comes_first(o, order_at(o, child), order_at(o, child + 1))) {
            child++;
        }
        uint64_t above = order_at(o, root);
        uint64_t below = order_at(o, child);
        if (!comes_first(o, above, below)) {
            return;
        }
        order_put(o, root, below);
        order_put(o, child, above);
        root = child;
    }
}

/// Heapsort, in the memory of the result.
kiln_status kiln_ref_random_permutation(const kiln_op_record *call, const kiln_view *inputs,
                                        const kiln_view *outputs, kiln_error *err)
{
    const source from = source_of(call);
    const sorted_order o = {&from, &outputs[0]};
    int64_t count = outputs[0].dims[0];
    (void)inputs;
    (void)err;
    for (int64_t i = 0; i < count; i++) {
        order_put(&o, i, (uint64_t)i);
    }
    for (int64_t i = count / 2; i-- > 0;) {
        sift_down(&o, i, count);
    }
    for (int64_t i = count; i-- > 1;) {
        uint64_t largest = order_at(&o, 0);
        order_put(&o, 0, order_at(&o, i));
        order_put(&o, i, largest);
        sift_down(&o, 0, i);
    }
    return KILN_STATUS_OK;
}
