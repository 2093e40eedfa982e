// SPDX-License-Identifier: MIT OR Apache-2.0
// Prefix sums along rows: Blelloch, "Prefix sums and their applications" (1990). Long rows in three
// phases, sums of blocks first, as Merrill and Garland's reduce-then-scan (2016): the elements are
// read twice and written once. kernel.rs writes what stands before this text (T, TV, S, SV, LANES,
// TO_SUM, FROM_SUM, EARLIER, LAST, TURN, FORM ...) and fills in the lines that begin with @.
//
// S is the type of sums: that of the elements, but unsigned for integers, whose sums wrap.
// A lane past the end reads as 1, which every operator takes, and counts as 0 in sums.

static inline TV load(__global const T *p, long at, int n)
{
#if LANES == 1
    return n > 0 ? p[at] : (T)(1);
#else
    if (n == LANES) {
        return VLOAD(0, p + at);
    }
    T part[LANES];
    for (int k = 0; k < LANES; k++) {
        part[k] = k < n ? p[at + k] : (T)(1);
    }
    return VLOAD(0, part);
#endif
}

static inline void store(__global T *p, long at, int n, TV v)
{
#if LANES == 1
    if (n > 0) {
        p[at] = v;
    }
#else
    if (n == LANES) {
        VSTORE(v, 0, p + at);
        return;
    }
    T part[LANES];
    VSTORE(v, 0, part);
    for (int k = 0; k < n; k++) {
        p[at + k] = part[k];
    }
#endif
}

static inline SV load_sums(__global const T *p, long at, int n)
{
    return TO_SUM(load(p, at, n));
}

/// The part of a vector that is there, zeros elsewhere.
static inline SV counted(TV v, int n)
{
#if LANES == 1
    return n > 0 ? TO_SUM(v) : (S)(0);
#else
    S part[LANES];
    SVSTORE(TO_SUM(v), 0, part);
    for (int k = n; k < LANES; k++) {
        part[k] = (S)(0);
    }
    return SVLOAD(0, part);
#endif
}

#if FORM == FORM_LANES
// A row, or a block of one, in each work-item: LANES neighbours are summed in a vector.
#define BEGIN                                                                                      \
    long segment = get_global_id(0);                                                               \
    long row = segment / blocks, first = segment % blocks * block;                                 \
    long end = min(first + block, length);                                                         \
    long base = row * length;
#define FOR_EACH                                                                                   \
    for (long i = first; i < end; i += LANES) {                                                    \
        int n = (int)min((long)LANES, end - i);                                                    \
        long at = base + (REVERSE ? length - i - n : i);
#define ELEMENTS(v) (n == LANES ? IN_ORDER(TO_SUM(v)) : IN_ORDER(counted(v, n)))
#define SUM_OF_BLOCK(sums) sums[segment] = as_T(total(acc))
#define CARRY_IN(sums) (SV)(TO_SUM1(sums[segment]))
static inline S total(SV acc)
{
    S part[LANES], sum = (S)(0);
    SVSTORE(acc, 0, part);
    for (int k = 0; k < LANES; k++) {
        sum += part[k];
    }
    return sum;
}
#define SCAN                                                                                       \
    SV inclusive = x;                                                                              \
    WITHIN(inclusive)                                                                              \
    SV sum = carry + (EXCLUSIVE ? EARLIER(inclusive) : inclusive);                                 \
    carry += (SV)(LAST(inclusive));                                                                \
    sum = IN_ORDER(sum);
#elif FORM == FORM_COLUMNS
// Elements along the row are far apart: a work-item takes LANES rows that lie side by side.
#define BEGIN                                                                                      \
    long strips = (inner + LANES - 1) / LANES;                                                     \
    long column = get_global_id(0) % strips * LANES, segment = get_global_id(0) / strips;          \
    long row = segment / blocks, first = segment % blocks * block;                                 \
    long end = min(first + block, length);                                                         \
    int n = (int)min((long)LANES, inner - column);
#define FOR_EACH                                                                                   \
    for (long i = first; i < end; i++) {                                                           \
        long at = (row * length + (REVERSE ? length - 1 - i : i)) * inner + column;
#define ELEMENTS(v) TO_SUM(v)
#define SUM_OF_BLOCK(sums) store(sums, segment * inner + column, n, FROM_SUM(acc))
#define CARRY_IN(sums) load_sums(sums, segment * inner + column, n)
#define SCAN                                                                                       \
    SV sum = EXCLUSIVE ? carry : carry + x;                                                        \
    carry += x;
#else
// A work-group takes a row, or a block of one, GROUP elements at a time.
#define BEGIN                                                                                      \
    __local S part[2][GROUP];                                                                      \
    int lane = get_local_id(0);                                                                    \
    long segment = get_group_id(0);                                                                \
    long row = segment / blocks, first = segment % blocks * block;                                 \
    long end = min(first + block, length);                                                         \
    long base = row * length;
#define FOR_EACH                                                                                   \
    for (long start = first; start < end; start += GROUP) {                                        \
        long i = start + lane;                                                                     \
        int n = i < end;                                                                           \
        long at = base + (REVERSE ? length - 1 - i : i);
#define ELEMENTS(v) counted(v, n)
#define WITHIN_GROUP(value)                                                                        \
    int from = 0;                                                                                  \
    part[0][lane] = value;                                                                         \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                  \
    for (int d = 1; d < GROUP; d *= 2) {                                                           \
        part[1 - from][lane] = lane >= d ? part[from][lane] + part[from][lane - d]                 \
                                         : part[from][lane];                                       \
        from = 1 - from;                                                                           \
        barrier(CLK_LOCAL_MEM_FENCE);                                                              \
    }
#define SUM_OF_BLOCK(sums)                                                                         \
    WITHIN_GROUP(acc)                                                                              \
    if (lane == 0) {                                                                               \
        sums[segment] = FROM_SUM(part[from][GROUP - 1]);                                           \
    }
#define CARRY_IN(sums) TO_SUM(sums[segment])
#define SCAN                                                                                       \
    WITHIN_GROUP(x)                                                                                \
    SV sum = carry + (!EXCLUSIVE ? part[from][lane] : lane > 0 ? part[from][lane - 1] : (S)(0));   \
    carry += part[from][GROUP - 1];                                                                \
    barrier(CLK_LOCAL_MEM_FENCE);
#endif

#if BLOCKS
/// Phase 1: the sum of each block.
GROUP_SIZE __kernel void sums_of_blocks(@summands long length, long inner, long block, long blocks,
                                        __global T *sums)
{
    @numbers_of_summands
    BEGIN
    SV acc = (SV)(0);
    FOR_EACH
        @before_sums
        acc += ELEMENTS(@scanned);
    }
    SUM_OF_BLOCK(sums);
}

/// Phase 2: what stands before each block of a row.
__kernel void scan_of_sums(long inner, long blocks, __global T *sums)
{
    long row = get_global_id(0) / inner, column = get_global_id(0) % inner;
    S before = (S)(0);
    for (long i = 0; i < blocks; i++) {
        long at = (row * blocks + i) * inner + column;
        S here = TO_SUM1(sums[at]);
        sums[at] = as_T(before);
        before += here;
    }
}
#endif

/// Phase 3, or all of it: the sums, and what is computed from them.
GROUP_SIZE __kernel void scan(@inputs @outputs long length, long inner, long block, long blocks
#if BLOCKS
                              , __global const T *sums
#endif
)
{
    @numbers
    BEGIN
#if BLOCKS
    SV carry = CARRY_IN(sums);
#else
    SV carry = (SV)(0);
#endif
    FOR_EACH
        @before_scan
        SV x = ELEMENTS(@scanned);
        SCAN
        const TV @sum = FROM_SUM(sum);
        @behind_scan
        @stores
    }
}
