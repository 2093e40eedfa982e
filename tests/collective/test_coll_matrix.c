// SPDX-License-Identifier: MIT OR Apache-2.0
// Every collective and algorithm over ranks, lengths, dtypes and operations, in place and not,
// against a plain loop that combines in the documented order: results must be equal bit for bit, on
// every rank.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coll_algorithms.h"
#include "coll_fixture.h"
#include "coll_streaming.h"
#include "harness.h"

/// One number of any dtype, in the arithmetic of the model.
typedef struct number {
    double f;
    int64_t i;
} number;

static bool is_float(kiln_dtype dtype)
{
    return kiln_dtype_kind_of(dtype) == KILN_KIND_FLOAT;
}

static number load(kiln_dtype dtype, const void *bytes, uint64_t index)
{
    const unsigned char *at = (const unsigned char *)bytes + index * kiln_dtype_size(dtype);
    union {
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        float f32;
        double f64;
    } v;
    memcpy(&v, at, kiln_dtype_size(dtype));
    switch (dtype) {
    case KILN_DTYPE_U8:
        return (number){.i = v.u8};
    case KILN_DTYPE_U16:
        return (number){.i = v.u16};
    case KILN_DTYPE_U32:
        return (number){.i = v.u32};
    case KILN_DTYPE_I8:
        return (number){.i = v.i8};
    case KILN_DTYPE_I16:
        return (number){.i = v.i16};
    case KILN_DTYPE_I32:
        return (number){.i = v.i32};
    case KILN_DTYPE_F16:
        return (number){.f = (double)kiln_f16_to_f32(v.u16)};
    case KILN_DTYPE_BF16:
        return (number){.f = (double)kiln_bf16_to_f32(v.u16)};
    case KILN_DTYPE_F32:
        return (number){.f = (double)v.f32};
    case KILN_DTYPE_F64:
        return (number){.f = v.f64};
    default:
        return (number){.i = v.i64};
    }
}

/// The low bytes of an integer, or the float rounded to the dtype.
static void save(kiln_dtype dtype, void *bytes, uint64_t index, number value)
{
    unsigned char *at = (unsigned char *)bytes + index * kiln_dtype_size(dtype);
    float single = (float)value.f;
    uint16_t half = 0;
    switch (dtype) {
    case KILN_DTYPE_F16:
        half = kiln_f32_to_f16(single);
        memcpy(at, &half, 2);
        break;
    case KILN_DTYPE_BF16:
        half = kiln_f32_to_bf16(single);
        memcpy(at, &half, 2);
        break;
    case KILN_DTYPE_F32:
        memcpy(at, &single, 4);
        break;
    case KILN_DTYPE_F64:
        memcpy(at, &value.f, 8);
        break;
    default:
        memcpy(at, &value.i, kiln_dtype_size(dtype)); // little endian
    }
}

/// Rounds or wraps to what the dtype, halves widened, can hold.
static number hold(kiln_dtype dtype, number value)
{
    if (is_float(dtype)) {
        return dtype == KILN_DTYPE_F64 ? value : (number){.f = (double)(float)value.f};
    }
    unsigned char bytes[8];
    save(dtype, bytes, 0, value);
    return load(dtype, bytes, 0);
}

static number combine(kiln_dtype dtype, kiln_coll_op op, number a, number b)
{
    bool first = is_float(dtype)           ? a.f < b.f
                 : dtype == KILN_DTYPE_U64 ? (uint64_t)a.i < (uint64_t)b.i
                                           : a.i < b.i;
    number sum = {a.f + b.f, (int64_t)((uint64_t)a.i + (uint64_t)b.i)};
    number product = {a.f * b.f, (int64_t)((uint64_t)a.i * (uint64_t)b.i)};
    switch (op) {
    case KILN_COLL_MIN:
        return first ? a : b;
    case KILN_COLL_MAX:
        return first ? b : a;
    case KILN_COLL_PROD:
        return hold(dtype, product);
    default:
        return hold(dtype, sum);
    }
}

// ---- inputs and expected outputs ----

/// Small values of either sign with fractions that make the order of a sum visible.
static void fill(kiln_dtype dtype, void *bytes, uint64_t count, uint32_t rank)
{
    uint64_t state = rank * 7919u + 12345u;
    for (uint64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int64_t whole = (int64_t)(state >> 33) % 40 - 12;
        number value = {.f = (double)whole * 0.37 + 0.011, .i = whole};
        save(dtype, bytes, i, value);
    }
}

/// The part that an element belongs to.
static uint32_t part_of(uint64_t count, uint32_t ranks, uint64_t index)
{
    uint32_t part = 0;
    for (;; part++) {
        kilni_coll_range range = kilni_coll_part(count, ranks, part);
        if (index < range.start + range.count) {
            return part;
        }
    }
}

/// In the order from `first` on, round the ranks.
static number chain(const kiln_coll_call *call, void *const *inputs, uint32_t ranks, uint32_t first,
                    uint64_t index)
{
    number value = load(call->dtype, inputs[first], index);
    for (uint32_t i = 1; i < ranks; i++) {
        value = combine(call->dtype, call->op, value,
                        load(call->dtype, inputs[(first + i) % ranks], index));
    }
    return value;
}

/// What the tree below the number-th rank from the root combines: its own value, then its
/// children's.
static number tree(const kiln_coll_call *call, void *const *inputs, uint32_t ranks, uint32_t arity,
                   uint32_t number_of_rank, uint64_t index)
{
    uint32_t root = call->kind == KILN_COLL_REDUCE ? call->root : 0;
    number value = load(call->dtype, inputs[(root + number_of_rank) % ranks], index);
    for (uint32_t i = 1; i <= arity; i++) {
        uint32_t child = number_of_rank * arity + i;
        if (child < ranks) {
            value = combine(call->dtype, call->op, value,
                            tree(call, inputs, ranks, arity, child, index));
        }
    }
    return value;
}

/// Neighbours first, then pairs of pairs; those past the power of two with their partner before.
static number pairs(const kiln_coll_call *call, void *const *inputs, uint32_t ranks, uint64_t index)
{
    number values[FIXTURE_RANKS];
    uint32_t power = 1;
    while (power * 2 <= ranks) {
        power *= 2;
    }
    for (uint32_t i = 0; i < power; i++) {
        values[i] = load(call->dtype, inputs[i], index);
        if (i + power < ranks) {
            values[i] = combine(call->dtype, call->op, values[i],
                                load(call->dtype, inputs[i + power], index));
        }
    }
    for (uint32_t left = power; left > 1; left /= 2) {
        for (uint32_t i = 0; i < left / 2; i++) {
            values[i] = combine(call->dtype, call->op, values[2 * i], values[2 * i + 1]);
        }
    }
    return values[0];
}

/// Each node in the order of ranks, then the nodes along the ring from the one that has the part.
static number nodes(const kiln_coll_call *call, void *const *inputs, uint32_t ranks, uint64_t index)
{
    uint32_t node = fixture_extent(ranks).node;
    uint32_t count = ranks / node;
    uint32_t first = part_of(call->count, count, index);
    number value = {0};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t leader = (first + i) % count * node;
        number sum = load(call->dtype, inputs[leader], index);
        for (uint32_t k = 1; k < node; k++) {
            sum = combine(call->dtype, call->op, sum, load(call->dtype, inputs[leader + k], index));
        }
        value = i == 0 ? sum : combine(call->dtype, call->op, value, sum);
    }
    return value;
}

static number divided(const kiln_coll_call *call, number value, uint32_t ranks)
{
    kiln_dtype dtype = call->dtype;
    kiln_coll_op op = call->op;
    if (op == KILN_COLL_MEAN && is_float(dtype)) {
        value.f =
            dtype == KILN_DTYPE_F64 ? value.f / ranks : (double)((float)value.f / (float)ranks);
    } else if (op == KILN_COLL_MEAN && dtype == KILN_DTYPE_U64) {
        value.i = (int64_t)((uint64_t)value.i / ranks);
    } else if (op == KILN_COLL_MEAN) {
        value.i /= (int64_t)ranks;
    }
    return value;
}

/// The rank whose value comes first for an element.
static uint32_t first_rank(const kiln_coll_call *call, uint32_t ranks, uint64_t index)
{
    switch ((int)call->algorithm) {
    case KILN_COLL_ALL_REDUCE_RING:
        return part_of(call->count, ranks, index);
    case KILN_COLL_REDUCE_SCATTER_RING:
        return (part_of(call->count, ranks, index) + 1) % ranks;
    case KILN_COLL_REDUCE_CENTRALISED:
        return call->root;
    default:
        return 0;
    }
}

typedef struct expected_range {
    uint64_t start; ///< element of the combined whole that the output begins with
    uint64_t count;
} expected_range;

static expected_range output_of(const kiln_coll_call *call, uint32_t ranks, uint32_t rank)
{
    kilni_coll_range part;
    switch (call->kind) {
    case KILN_COLL_REDUCE:
        return (expected_range){0, rank == call->root ? call->count : 0};
    case KILN_COLL_REDUCE_SCATTER:
        part = kilni_coll_part(call->count, ranks, rank);
        return (expected_range){part.start, part.count};
    case KILN_COLL_GATHER:
        return (expected_range){0, rank == call->root ? call->count * ranks : 0};
    case KILN_COLL_SCATTER:
        return (expected_range){call->count * rank, call->count};
    case KILN_COLL_ALL_TO_ALL:
    case KILN_COLL_ALL_GATHER:
        return (expected_range){0, call->count * ranks};
    case KILN_COLL_BARRIER:
        return (expected_range){0, 0};
    default:
        return (expected_range){0, call->count};
    }
}

static number expected_at(const kiln_coll_call *call, void *const *inputs, uint32_t ranks,
                          uint32_t rank, uint64_t index)
{
    if (call->kind == KILN_COLL_BROADCAST || call->kind == KILN_COLL_SCATTER) {
        return load(call->dtype, inputs[call->root], index);
    }
    if (call->kind == KILN_COLL_ALL_GATHER || call->kind == KILN_COLL_GATHER) {
        return load(call->dtype, inputs[index / call->count], index % call->count);
    }
    if (call->kind == KILN_COLL_ALL_TO_ALL) {
        return load(call->dtype, inputs[index / call->count],
                    call->count * rank + index % call->count);
    }
    number value;
    switch ((int)call->algorithm) {
    case KILN_COLL_ALL_REDUCE_TREE:
    case KILN_COLL_REDUCE_TREE:
        value = tree(call, inputs, ranks, 2, 0, index);
        break;
    case KILN_COLL_ALL_REDUCE_TREE4:
    case KILN_COLL_REDUCE_TREE4:
        value = tree(call, inputs, ranks, 4, 0, index);
        break;
    case KILN_COLL_ALL_REDUCE_HIERARCHICAL:
        value = nodes(call, inputs, ranks, index);
        break;
    case KILN_COLL_ALL_REDUCE_DOUBLING:
        value = pairs(call, inputs, ranks, index);
        break;
    default:
        value = chain(call, inputs, ranks, first_rank(call, ranks, index), index);
    }
    return divided(call, value, call->divisor != 0 ? call->divisor : ranks);
}

static bool check_rank(const kiln_coll_call *call, void *const *inputs, uint32_t ranks,
                       uint32_t rank, const unsigned char *output)
{
    expected_range range = output_of(call, ranks, rank);
    size_t size = kiln_dtype_size(call->dtype);
    for (uint64_t i = 0; i < range.count; i++) {
        unsigned char wanted[8];
        save(call->dtype, wanted, 0, expected_at(call, inputs, ranks, rank, range.start + i));
        if (memcmp(wanted, output + i * size, size) != 0) {
            KILN_FAIL("%s %s %s %s, %u ranks of %llu, in place %d: rank %u differs at %llu",
                      kiln_coll_kind_name(call->kind),
                      kiln_coll_algorithm_row(call->algorithm)->name, kiln_coll_op_name(call->op),
                      kiln_dtype_name(call->dtype), ranks, (unsigned long long)call->count,
                      call->input == call->output, rank, (unsigned long long)i);
            return false;
        }
    }
    return true;
}

// ---- one call on all ranks ----

enum { GUARD = 0x5a, SHIFT_BYTES = 64 };

typedef struct rank_buffers {
    unsigned char *input;
    unsigned char *output; ///< SHIFT_BYTES before it and after it are guarded
    size_t output_bytes;
} rank_buffers;

static bool guards_hold(const rank_buffers *buffers)
{
    for (size_t i = 0; i < SHIFT_BYTES; i++) {
        if (buffers->output[i] != GUARD ||
            buffers->output[SHIFT_BYTES + buffers->output_bytes + i] != GUARD) {
            return false;
        }
    }
    return true;
}

static void *must_alloc(size_t bytes)
{
    void *data = malloc(bytes);
    if (data == NULL) {
        abort();
    }
    return data;
}

/// Elements of an input and of an output, in counts.
static bool has_part_for_each(kiln_coll_kind kind, bool of_output)
{
    bool gathers = kind == KILN_COLL_ALL_GATHER || kind == KILN_COLL_GATHER;
    return kind == KILN_COLL_ALL_TO_ALL || (of_output ? gathers : kind == KILN_COLL_SCATTER);
}

static uint64_t input_elems(const kiln_coll_call *call, uint32_t ranks)
{
    return call->count * (has_part_for_each(call->kind, false) ? ranks : 1);
}

static rank_buffers make_buffers(const kiln_coll_call *call, uint32_t ranks, uint32_t rank,
                                 bool in_place)
{
    size_t size = kiln_dtype_size(call->dtype);
    uint64_t elems = input_elems(call, ranks);
    rank_buffers buffers = {0};
    buffers.output_bytes =
        (size_t)call->count * size * (has_part_for_each(call->kind, true) ? ranks : 1);
    if (in_place && buffers.output_bytes < elems * size) {
        buffers.output_bytes = elems * size;
    }
    buffers.input = must_alloc((size_t)elems * size + 1);
    buffers.output = must_alloc(buffers.output_bytes + 2 * SHIFT_BYTES);
    memset(buffers.output, GUARD, buffers.output_bytes + 2 * SHIFT_BYTES);
    fill(call->dtype, buffers.input, elems, rank);
    return buffers;
}

/// Points the call at this rank's buffers; in place, the input is first put into the output.
static void aim(kiln_coll_call *call, const rank_buffers *buffers, uint32_t ranks, uint32_t rank,
                bool in_place)
{
    bool gathers = call->kind == KILN_COLL_ALL_GATHER || call->kind == KILN_COLL_GATHER;
    uint64_t own = gathers ? rank * call->count * kiln_dtype_size(call->dtype) : 0;
    call->input = (kiln_coll_buffer *)buffers->input;
    call->output = (kiln_coll_buffer *)buffers->output;
    call->output_offset = SHIFT_BYTES;
    if (in_place) {
        size_t bytes = (size_t)input_elems(call, ranks) * kiln_dtype_size(call->dtype);
        memcpy(buffers->output + SHIFT_BYTES + own, buffers->input, bytes);
        call->input = call->output;
        call->input_offset = SHIFT_BYTES + own;
    }
}

static bool run_case(fixture *fix, kiln_coll_call call, bool in_place)
{
    rank_buffers buffers[FIXTURE_RANKS] = {0};
    kiln_coll_call calls[FIXTURE_RANKS];
    kiln_status status[FIXTURE_RANKS] = {KILN_STATUS_OK};
    void *inputs[FIXTURE_RANKS] = {NULL};
    bool ok = true;
    for (uint32_t i = 0; i < fix->ranks; i++) {
        buffers[i] = make_buffers(&call, fix->ranks, i, in_place);
        inputs[i] = buffers[i].input;
        calls[i] = call;
        aim(&calls[i], &buffers[i], fix->ranks, i, in_place);
    }
    fixture_run(fix, calls, status, NULL);
    for (uint32_t i = 0; i < fix->ranks && ok; i++) {
        ok = KILN_CHECK_INT(status[i], KILN_STATUS_OK) && buffers[i].output != NULL &&
             KILN_CHECK(guards_hold(&buffers[i])) &&
             check_rank(&calls[i], inputs, fix->ranks, i, buffers[i].output + SHIFT_BYTES);
    }
    for (uint32_t i = 0; i < fix->ranks; i++) {
        free(buffers[i].input);
        free(buffers[i].output);
    }
    return ok;
}

// ---- the matrix ----

static bool run_lengths(fixture *fix, kiln_coll_call call)
{
    const uint64_t counts[] = {0, 1, fix->ranks - 1, fix->ranks + 1, 1021};
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        for (int in_place = 0; in_place < (call.kind == KILN_COLL_ALL_TO_ALL ? 1 : 2); in_place++) {
            call.count = counts[c];
            call.root = (uint32_t)(c % fix->ranks);
            if (!run_case(fix, call, in_place != 0)) {
                return false;
            }
        }
    }
    return true;
}

static bool combines(kiln_coll_kind kind)
{
    return kind == KILN_COLL_ALL_REDUCE || kind == KILN_COLL_REDUCE ||
           kind == KILN_COLL_REDUCE_SCATTER;
}

/// Messages from the first rank to the last, two of them, around a barrier, while the others have
/// that barrier only.
static bool run_pair(fixture *fix, kiln_dtype dtype, uint64_t count)
{
    const uint32_t last = fix->ranks - 1;
    rank_buffers buffers[2];
    void *inputs[FIXTURE_RANKS] = {NULL};
    bool ok = true;
    kiln_coll_call call = KILN_COLL_CALL_INIT;
    call.dtype = dtype;
    call.count = count;
    for (uint32_t i = 0; i < 2; i++) {
        buffers[i] = make_buffers(&call, fix->ranks, i, false);
    }
    inputs[0] = buffers[0].input;
    for (int round = 0; round < 2 && ok; round++) {
        kiln_coll_request *requests[3] = {NULL};
        kiln_coll_call calls[3] = {call, call, call};
        calls[0].kind = KILN_COLL_SEND;
        calls[0].root = last;
        calls[1].kind = KILN_COLL_RECEIVE;
        aim(&calls[0], &buffers[0], fix->ranks, 0, false);
        aim(&calls[1], &buffers[1], fix->ranks, last, false);
        for (uint32_t i = 0; i < 2; i++) {
            ok = KILN_CHECK_INT(
                     kiln_coll_start(fix->members[i * last], &calls[i], &requests[i], NULL), 0) &&
                 ok;
        }
        calls[2].kind = KILN_COLL_BARRIER;
        for (uint32_t i = 0; i < fix->ranks && ok; i++) {
            ok = KILN_CHECK_INT(
                kiln_coll_start(fix->members[i], &calls[2], i == 0 ? &requests[2] : NULL, NULL), 0);
        }
        for (uint32_t i = 0; i < 3; i++) {
            ok = (requests[i] == NULL ||
                  KILN_CHECK_INT(kiln_coll_wait(requests[i], NULL), KILN_STATUS_OK)) &&
                 ok;
        }
        calls[1].algorithm = KILN_COLL_BROADCAST_TREE;
        calls[1].kind = KILN_COLL_BROADCAST; // what the receiver has is what a root sent
        ok = ok && KILN_CHECK(guards_hold(&buffers[1])) &&
             check_rank(&calls[1], inputs, fix->ranks, last, buffers[1].output + SHIFT_BYTES);
        memset(buffers[1].output, GUARD, buffers[1].output_bytes + 2 * SHIFT_BYTES);
    }
    for (uint32_t i = 0; i < fix->ranks; i++) {
        kiln_coll_member_drain(fix->members[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        free(buffers[i].input);
        free(buffers[i].output);
    }
    return ok;
}

static bool run_pairs(fixture *fix, kiln_dtype dtype)
{
    return fix->ranks == 1 ||
           (run_pair(fix, dtype, 0) && run_pair(fix, dtype, 1) && run_pair(fix, dtype, 1021));
}

/// All algorithms for one dtype and operation.
static bool run_algorithms(fixture *fix, kiln_dtype dtype, kiln_coll_op op)
{
    if (op == KILN_COLL_SUM && !run_pairs(fix, dtype)) {
        return false;
    }
    for (int a = 1; a < KILN_COLL_SEND_DIRECT; a++) {
        kiln_coll_call call = KILN_COLL_CALL_INIT;
        call.algorithm = (kiln_coll_algorithm)a;
        call.kind = kiln_coll_algorithm_row(call.algorithm)->kind;
        call.dtype = dtype;
        call.op = op;
        call.divisor = op == KILN_COLL_MEAN && a % 2 == 0 ? 3 : 0;
        bool fits = kilni_coll_fits(call.algorithm, fixture_extent(fix->ranks));
        if (fits && (op == KILN_COLL_SUM || combines(call.kind)) && !run_lengths(fix, call)) {
            return false;
        }
    }
    return true;
}

static void test_every_rank_count(void)
{
    for (uint32_t ranks = 1; ranks <= FIXTURE_RANKS; ranks++) {
        fixture fix;
        if (fixture_init(&fix, ranks, 60000, NULL)) {
            run_algorithms(&fix, KILN_DTYPE_F32, KILN_COLL_SUM);
            run_algorithms(&fix, KILN_DTYPE_BF16, KILN_COLL_MEAN);
        }
        fixture_fini(&fix);
    }
}

/// Ranks that share no memory, and messages that are late.
static void test_delays(void)
{
    static const uint32_t rank_counts[] = {2, 3, 4, 6, 9};
    for (size_t r = 0; r < sizeof(rank_counts) / sizeof(rank_counts[0]); r++) {
        fixture fix;
        if (fixture_init_delayed(&fix, rank_counts[r], 60000, /*delay_us=*/60, NULL)) {
            run_algorithms(&fix, KILN_DTYPE_F32, KILN_COLL_SUM);
            run_algorithms(&fix, KILN_DTYPE_F16, KILN_COLL_MEAN);
            run_algorithms(&fix, KILN_DTYPE_I16, KILN_COLL_PROD);
        }
        fixture_fini(&fix);
    }
}

/// Ranks whose memory streams, in pieces so small that each message has many; among them one of the
/// host's memory, which does not.
static void test_streaming(void)
{
    static const uint32_t rank_counts[] = {1, 2, 3, 4, 6, 9};
    for (size_t r = 0; r < sizeof(rank_counts) / sizeof(rank_counts[0]); r++) {
        fixture fix;
        streaming_memory memories[FIXTURE_RANKS];
        kiln_coll_memory *bases[FIXTURE_RANKS];
        kiln_env env = {.allocator = kiln_allocator_default()};
        uint32_t ranks = rank_counts[r];
        for (uint32_t i = 0; i < ranks; i++) {
            streaming_init(&memories[i], &env);
            bases[i] = i == 1 && ranks > 2 ? memories[i].host : &memories[i].base;
        }
        if (fixture_init_cut(&fix, ranks, 60000, ranks % 3 == 0 ? 60 : 0, bases,
                             /*chunk_bytes=*/100)) {
            run_algorithms(&fix, KILN_DTYPE_F32, KILN_COLL_SUM);
            run_algorithms(&fix, KILN_DTYPE_F16, KILN_COLL_MEAN);
            run_algorithms(&fix, KILN_DTYPE_I64, KILN_COLL_PROD);
        }
        KILN_CHECK(atomic_load(&memories[0].fetches) > 0 || ranks == 1); // it did stream
        fixture_fini(&fix);
        for (uint32_t i = 0; i < ranks; i++) {
            streaming_fini(&memories[i]);
        }
    }
}

static void test_every_dtype_and_op(void)
{
    static const uint32_t rank_counts[] = {1, 2, 3, 5};
    for (size_t r = 0; r < sizeof(rank_counts) / sizeof(rank_counts[0]); r++) {
        fixture fix;
        bool ok = fixture_init(&fix, rank_counts[r], 60000, NULL);
        for (int dtype = 1; dtype < KILN_DTYPE_LIMIT && ok; dtype++) {
            for (int op = 0; op < KILN_COLL_OP_COUNT && ok; op++) {
                kiln_dtype_kind kind = kiln_dtype_kind_of((kiln_dtype)dtype);
                ok = dtype == KILN_DTYPE_BOOL || kind == KILN_KIND_QUANT ||
                     kind == KILN_KIND_SMALL || // those are only moved
                     run_algorithms(&fix, (kiln_dtype)dtype, (kiln_coll_op)op);
            }
        }
        fixture_fini(&fix);
    }
}

static void test_long(void)
{
    fixture fix;
    if (fixture_init(&fix, 4, 60000, NULL)) {
        for (int a = 1; a < KILN_COLL_BARRIER_AGREEMENT; a++) { // 4 ranks suit all of them
            kiln_coll_call call = KILN_COLL_CALL_INIT;
            call.algorithm = (kiln_coll_algorithm)a;
            call.kind = kiln_coll_algorithm_row(call.algorithm)->kind;
            call.dtype = KILN_DTYPE_F32;
            call.count = 300007;
            KILN_CHECK(run_case(&fix, call, false));
        }
    }
    fixture_fini(&fix);
}

/// The same call many times: the same bits, whatever the threads do.
static void test_repeats_bit_for_bit(void)
{
    enum { COUNT = 777, RANKS = 5 };
    fixture fix;
    float inputs[RANKS][COUNT];
    float outputs[RANKS][COUNT];
    float first[COUNT] = {0};
    bool ok = fixture_init(&fix, RANKS, 60000, NULL);
    for (uint32_t i = 0; i < RANKS; i++) {
        fill(KILN_DTYPE_F32, inputs[i], COUNT, i);
    }
    for (int round = 0; round < 100 && ok; round++) {
        kiln_coll_call calls[FIXTURE_RANKS];
        kiln_status status[FIXTURE_RANKS];
        for (uint32_t i = 0; i < RANKS; i++) {
            calls[i] = (kiln_coll_call)KILN_COLL_CALL_INIT;
            calls[i].algorithm = KILN_COLL_ALL_REDUCE_RING;
            calls[i].dtype = KILN_DTYPE_F32;
            calls[i].count = COUNT;
            calls[i].input = (kiln_coll_buffer *)inputs[i];
            calls[i].output = (kiln_coll_buffer *)outputs[i];
        }
        fixture_run(&fix, calls, status, NULL);
        if (round == 0) {
            memcpy(first, outputs[0], sizeof(first));
        }
        for (uint32_t i = 0; i < RANKS && ok; i++) {
            ok = KILN_CHECK_INT(status[i], 0) && KILN_CHECK_MEM(outputs[i], first, sizeof(first));
        }
    }
    fixture_fini(&fix);
}

KILN_TEST_MAIN("collective/matrix", KILN_TEST(test_every_rank_count), KILN_TEST(test_delays),
               KILN_TEST(test_streaming), KILN_TEST(test_every_dtype_and_op), KILN_TEST(test_long),
               KILN_TEST(test_repeats_bit_for_bit))
