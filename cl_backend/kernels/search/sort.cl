// SPDX-License-Identifier: MIT OR Apache-2.0
// Sorting of dense lines. Elements become keys whose order as unsigned numbers is the wanted one:
// NaN above everything, -0 as 0 where the place counts, all bits turned for descending order. With
// its place in the line below (KILN_INDEXED) no two keys are equal, so that every way of sorting is
// stable. A key of all ones fills up what is not there.
//
//   kiln_sort_tiles   one work-group for a tile: bitonic (Batcher, 1968) in local memory
//   kiln_sort_runs    one work-item for a run, or `each` lines: merges from the bottom up
//   kiln_sort_merge   `each` places of two runs that become one, found by their diagonal ("merge
//                     path": Green, McColl, Bader, 2012)
//   kiln_sort_select  one work-item for the first `keep` keys of a run
//   kiln_sort_decode  keys to elements and places
//
//   KILN_BYTES    of a key: 4, 8, 16
//   KILN_FROM     1: tiles, runs and select begin with elements of type KILN_A; 0: with keys
//   KILN_INDEXED, KILN_DESCENDING
//   KILN_RAW      the unsigned type of KILN_A's size, for values that only move

#include "search_args.h"

#if KILN_BYTES == 4
#define E uint
#define LESS(a, b) ((a) < (b))
#define LAST UINT_MAX
#elif KILN_BYTES == 8
#define E ulong
#define LESS(a, b) ((a) < (b))
#define LAST ULONG_MAX
#else
#define E ulong2
#define LESS(a, b) ((a).x < (b).x || ((a).x == (b).x && (a).y < (b).y))
#define LAST ((ulong2)(ULONG_MAX, ULONG_MAX))
#endif

// ---- keys ----

#ifdef KILN_A
#define C K_C(KILN_A)
#if K_WIDTH(KILN_A) == 64
#define U ulong
#define TOP 0x8000000000000000ul
#define AS_U(x) as_ulong(x)
#else
#define U uint
#define TOP 0x80000000u
#define AS_U(x) as_uint(x)
#endif

static inline U ordered(C x)
{
#if K_KIND(KILN_A) == 8
    U u = AS_U(x);
#if KILN_INDEXED
    u = x == 0 ? 0 : u;
#endif
    u = x != x ? ~TOP : u;
    u ^= u & TOP ? ~(U)0 : TOP;
#elif K_KIND(KILN_A) == 4
    U u = (U)x ^ TOP;
#else
    U u = (U)x;
#endif
    return KILN_DESCENDING ? ~u : u;
}

static inline C element_of(U u)
{
    u = KILN_DESCENDING ? ~u : u;
#if K_KIND(KILN_A) == 8
    u ^= u & TOP ? TOP : ~(U)0;
    return K_CAT(as_, C)(u);
#elif K_KIND(KILN_A) == 4
    return (C)(u ^ TOP);
#else
    return (C)u;
#endif
}

static inline E key_of(C x, long place)
{
#if KILN_BYTES == 16
    return (ulong2)(ordered(x), (ulong)place);
#elif KILN_INDEXED
    return (ulong)ordered(x) << 32 | (ulong)place;
#else
    return ordered(x);
#endif
}
#endif

#if KILN_FROM
#define INPUT __global const K_S(KILN_A)
#define KEY(in, line, i) key_of(K_LD(KILN_A, (in) + s.start + (line)*s.length + (i)), i)
#else
#define INPUT __global const E
#define KEY(in, line, i) ((in)[(line)*s.length + (i)])
#endif

// ---- tiles in local memory ----

#if KILN_GROUP

static inline void order_pair(__local E *tile, int low, int width, bool down)
{
    const E a = tile[low];
    const E b = tile[low + width];
    if (down ? LESS(a, b) : LESS(b, a)) {
        tile[low] = b;
        tile[low + width] = a;
    }
}

__kernel __attribute__((reqd_work_group_size(KILN_GROUP, 1, 1))) void
kiln_sort_tiles(kiln_sort_shape s, __global E *keys, INPUT *in)
{
    __local E tile[KILN_TILE];
    const int lane = (int)get_local_id(0);
    const long group = (long)get_group_id(0);
    const int padded = (int)s.padded;
    const long lines_each = KILN_TILE / padded;
    const long first_line = group / s.tiles * lines_each;
    const long number = group % s.tiles;
    for (int at = lane; at < KILN_TILE; at += KILN_GROUP) {
        const long line = first_line + at / padded;
        const long i = number * s.tile + at % padded;
        tile[at] = line < s.lines && i < s.length ? KEY(in, line, i) : LAST;
    }
    // a selection sorts no more than it keeps, then throws away half of what is left each time
#if KILN_SELECT
    const int sorted = (int)s.each;
#else
    const int sorted = padded;
#endif
    for (int size = 2; size <= sorted; size *= 2) {
        for (int width = size / 2; width > 0; width /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int pair = lane; pair < KILN_TILE / 2; pair += KILN_GROUP) {
                const int low = 2 * width * (pair / width) + pair % width;
                order_pair(tile, low, width, (low & (sorted - 1) & size) != 0);
            }
        }
    }
#if KILN_SELECT
    for (int left = padded / sorted / 2 * sorted; left >= sorted; left /= 2) {
        // the least of two sorted parts: each of one against the other backwards, which leaves a
        // bitonic part
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int at = lane; at < left * (int)lines_each; at += KILN_GROUP) {
            const int i = at % left;
            const int low = at / left * padded + i;
            const int high = low - i % sorted + left + sorted - 1 - i % sorted;
            const E a = tile[low];
            const E b = tile[high];
            tile[low] = LESS(b, a) ? b : a;
        }
        for (int width = sorted / 2; width > 0; width /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int at = lane; at < left / 2 * (int)lines_each; at += KILN_GROUP) {
                const int pair = at % (left / 2);
                const int low = at / (left / 2) * padded + 2 * width * (pair / width) + pair % width;
                order_pair(tile, low, width, false);
            }
        }
    }
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    // a whole sort writes what is there; a selection writes `keep` keys of each tile
    const long row = s.keep < s.tile ? s.keep * s.tiles : s.length;
    for (int at = lane; at < KILN_TILE; at += KILN_GROUP) {
        const long line = first_line + at / padded;
        const long i = at % padded;
        if (line < s.lines && i < s.keep && number * s.keep + i < row) {
            keys[line * row + number * s.keep + i] = tile[at];
        }
    }
}

#else

// ---- runs, one work-item each ----

enum { INSERTED = 8 };

static inline void merge(__global E *to, __global const E *a, long na, __global const E *b, long nb,
                         long count)
{
    long i = 0;
    long j = 0;
    long k = 0;
    while (i < na && j < nb && k < count) {
        const E x = a[i];
        const E y = b[j];
        const int right = LESS(y, x);
        to[k++] = right ? y : x;
        j += right;
        i += 1 - right;
    }
    for (; i < na && k < count; i++) {
        to[k++] = a[i];
    }
    for (; j < nb && k < count; j++) {
        to[k++] = b[j];
    }
}

static inline void insert_sorted(__global E *a, long count)
{
    for (long i = 1; i < count; i++) {
        const E x = a[i];
        long j = i;
        for (; j > 0 && LESS(x, a[j - 1]); j--) {
            a[j] = a[j - 1];
        }
        a[j] = x;
    }
}

static inline void sort_run(__global E *a, __global E *aside, long count)
{
    __global E *from = a;
    __global E *to = aside;
    for (long at = 0; at < count; at += INSERTED) {
        insert_sorted(a + at, min((long)INSERTED, count - at));
    }
    for (long width = INSERTED; width < count; width *= 2) {
        for (long at = 0; at < count; at += 2 * width) {
            const long na = min(width, count - at);
            const long nb = min(width, count - at - na);
            merge(to + at, from + at, na, from + at + na, nb, na + nb);
        }
        __global E *swapped = from;
        from = to;
        to = swapped;
    }
    for (long i = 0; from != a && i < count; i++) {
        a[i] = from[i];
    }
}

__kernel void kiln_sort_runs(kiln_sort_shape s, __global E *keys, __global E *aside, INPUT *in)
{
    const long number = (long)get_global_id(0) % s.tiles;
    const long first = (long)get_global_id(0) / s.tiles * s.each;
    const long last = min(first + s.each, s.lines);
    const long begin = number * s.tile;
    const long count = min(s.tile, s.length - begin);
    for (long line = first; line < last; line++) {
        __global E *a = keys + line * s.length + begin;
        for (long i = 0; i < count; i++) {
            a[i] = KEY(in, line, begin + i);
        }
        sort_run(a, aside + line * s.length + begin, count);
    }
}

#if KILN_FROM || KILN_SELECT

__kernel void kiln_sort_select(kiln_sort_shape s, __global E *keys, INPUT *in)
{
    const long number = (long)get_global_id(0) % s.tiles;
    const long first = (long)get_global_id(0) / s.tiles * s.each;
    const long last = min(first + s.each, s.lines);
    const long begin = number * s.tile;
    const long end = min(begin + s.tile, s.length);
    for (long line = first; line < last; line++) {
        __global E *best = keys + (line * s.tiles + number) * s.keep;
        const long head = min(s.keep, end - begin);
        for (long i = 0; i < s.keep; i++) {
            best[i] = i < head ? KEY(in, line, begin + i) : LAST;
        }
        insert_sorted(best, head);
        E bar = best[s.keep - 1];
        for (long i = begin + head; i < end; i++) {
            const E x = KEY(in, line, i);
            if (LESS(x, bar)) {
                long j = s.keep - 1;
                for (; j > 0 && LESS(x, best[j - 1]); j--) {
                    best[j] = best[j - 1];
                }
                best[j] = x;
                bar = best[s.keep - 1];
            }
        }
    }
}

#endif

#endif

// ---- merging ----

__kernel void kiln_sort_merge(kiln_sort_shape s, __global E *to, __global const E *from)
{
    const long pieces = (s.length + s.each - 1) / s.each;
    const long line = (long)get_global_id(0) / pieces;
    const long begin = ((long)get_global_id(0) - line * pieces) * s.each;
    if (line >= s.lines) {
        return;
    }
    const long base = begin / (2 * s.tile) * (2 * s.tile);
    const long na = min(s.tile, s.length - base);
    const long nb = min(s.tile, s.length - base - na);
    __global const E *a = from + line * s.length + base;
    __global const E *b = a + na;
    const long diagonal = begin - base;
    long low = max(0l, diagonal - nb);
    long high = min(diagonal, na);
    while (low < high) {
        const long middle = (low + high) / 2;
        if (LESS(b[diagonal - 1 - middle], a[middle])) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    const long count = min(s.each, s.length - begin);
    long i = low;
    long j = diagonal - low;
    __global E *out = to + line * s.length + begin;
#if KILN_GROUP
    E x = i < na ? a[i] : LAST;
    E y = j < nb ? b[j] : LAST;
    for (long k = 0; k < count; k++) {
        const bool right = i >= na || (j < nb && LESS(y, x));
        out[k] = right ? y : x;
        if (right) {
            j++;
            y = j < nb ? b[j] : LAST;
        } else {
            i++;
            x = i < na ? a[i] : LAST;
        }
    }
#else
    merge(out, a + i, na - i, b + j, nb - j, count);
#endif
}

// ---- results ----

#ifdef KILN_A

// `row` keys of each line are there, of which the first `keep` are wanted.
__kernel void kiln_sort_decode(kiln_sort_shape s, __global const E *keys, long row,
                               __global K_S(KILN_A) *values, long values_start,
                               __global long *indices, long indices_start,
                               __global const K_S(KILN_A) *in)
{
    const long begin = (long)get_global_id(0) * s.each;
    const long end = min(begin + s.each, s.lines * s.keep);
    for (long at = begin; at < end; at++) {
        const long line = at / s.keep;
        const E key = keys[line * row + at - line * s.keep];
#if KILN_INDEXED
#if KILN_BYTES == 16
        const long place = (long)key.y;
#else
        const long place = (long)(key & 0xfffffffful);
#endif
#if KILN_VALUES
        ((__global K_S(KILN_RAW) *)values)[values_start + at] =
            ((__global const K_S(KILN_RAW) *)in)[s.start + line * s.length + place];
#endif
        indices[indices_start + at] = place;
#else
        K_ST(KILN_A, values + values_start + at, element_of((U)key));
#endif
    }
}

#endif
