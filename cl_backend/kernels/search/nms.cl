// SPDX-License-Identifier: MIT OR Apache-2.0
// Boxes by falling score that no box before covers: one work-group for each batch and class takes
// the best box that is left, again and again. No division, and every step rounded, so that all
// devices decide alike.
//
//   KILN_A       element type of boxes and scores
//   KILN_CENTER  1: a box is middle x, middle y, width, height; 0: two opposite corners
//   KILN_GROUP   work-items of a group: 1 on CPUs

#include "search_args.h"

#define C K_C(KILN_A)

typedef struct kiln_box {
    C low[2];
    C high[2];
    C area;
} kiln_box;

static inline kiln_box box_at(__global const K_S(KILN_A) *p)
{
    kiln_box b;
    for (int i = 0; i < 2; i++) {
        const C v = K_LD(KILN_A, p + i);
        const C w = K_LD(KILN_A, p + 2 + i);
#if KILN_CENTER
        const C side = w * (C)0.5f;
        const C one = v - side;
        const C two = v + side;
#else
        const C one = v;
        const C two = w;
#endif
        b.low[i] = one < two ? one : two;
        b.high[i] = one < two ? two : one;
    }
    const C height = b.high[0] - b.low[0];
    const C width = b.high[1] - b.low[1];
    b.area = height * width;
    return b;
}

static inline bool covers(const kiln_box *a, const kiln_box *b, C overlap)
{
    C sides[2];
    for (int i = 0; i < 2; i++) {
        const C low = a->low[i] > b->low[i] ? a->low[i] : b->low[i];
        const C high = a->high[i] < b->high[i] ? a->high[i] : b->high[i];
        sides[i] = high - low;
    }
    const C common = sides[0] * sides[1];
    const C both = a->area + b->area;
    const C whole = both - common;
    const C needed = overlap * whole;
    return sides[0] > 0 && sides[1] > 0 && a->area > 0 && b->area > 0 && common > needed;
}

// Whether box i of score x goes before box j of score y; a box below 0 is none.
static inline bool before(C x, long i, C y, long j)
{
    return i >= 0 && (j < 0 || x > y || (x == y && i < j));
}

__kernel __attribute__((reqd_work_group_size(KILN_GROUP, 1, 1))) void
kiln_nms(kiln_nms_shape s, __global long *out, __global const K_S(KILN_A) *boxes,
         __global const K_S(KILN_A) *scores, __global uchar *left, C overlap, C least)
{
    __local C values[KILN_GROUP];
    __local long places[KILN_GROUP];
    const int lane = (int)get_local_id(0);
    const long row = (long)get_group_id(0);
    __global const K_S(KILN_A) *my_boxes = boxes + s.boxes_start + row / s.classes * s.boxes * 4;
    __global const K_S(KILN_A) *my_scores = scores + s.scores_start + row * s.boxes;
    __global uchar *my_left = left + row * s.boxes;
    for (long i = lane; i < s.boxes; i += KILN_GROUP) {
        my_left[i] = K_LD(KILN_A, my_scores + i) > least;
    }
    long taken = -1;
    long k = 0;
    for (; k < s.most; k++) {
        C best = 0;
        long place = -1;
        for (long i = lane; i < s.boxes; i += KILN_GROUP) {
            const C score = K_LD(KILN_A, my_scores + i);
            if (my_left[i] != 0 && before(score, i, best, place)) {
                best = score;
                place = i;
            }
        }
        values[lane] = best;
        places[lane] = place;
        for (int width = KILN_GROUP / 2; width > 0; width /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (lane < width &&
                before(values[lane + width], places[lane + width], values[lane], places[lane])) {
                values[lane] = values[lane + width];
                places[lane] = places[lane + width];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        taken = places[0];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (taken < 0) {
            break;
        }
        if (lane == 0) {
            out[s.out_start + row * s.most + k] = taken;
        }
        const kiln_box winner = box_at(my_boxes + taken * 4);
        for (long i = lane; i < s.boxes; i += KILN_GROUP) {
            if (my_left[i] != 0) {
                const kiln_box candidate = box_at(my_boxes + i * 4);
                my_left[i] = i != taken && !covers(&winner, &candidate, overlap);
            }
        }
    }
    for (k += lane; k < s.most; k += KILN_GROUP) {
        out[s.out_start + row * s.most + k] = -1;
    }
}
