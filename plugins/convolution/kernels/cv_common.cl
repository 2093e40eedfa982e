// SPDX-License-Identifier: MIT OR Apache-2.0
// What every kernel of a region begins with. An image lies in blocks of 16 channels: [n][block][row]
// [column][16], among as many rows and columns of zeros as its readers reach beyond it. The program
// defines KERNEL and PARAMS, and FINISH(v, n, block, y, x): what becomes of the 16 channels `v` of
// one place of the step's result, by the elementwise operators behind it, as memory holds them. It
// also defines IN and OUT, the elements of the image that is read and of the one that results (float;
// of 8 bits uchar, to which 128 is added where they are signed), OUT16, LOAD_IN(p, i), the i-th 16
// of IN at p as the kernel computes with them, and BORDER: what stands around the result.

// The i-th 16 numbers at p. Blocks and packs begin where 64 divides the address.
#define LOAD(p, i) (((__global const float16 *)(p))[i])
#define STORE(p, i, v) (((__global OUT16 *)(p))[i] = (v))

// 16 numbers that begin anywhere. (vload16 and vstore16 are four instructions each on PoCL.)
typedef float16 __attribute__((aligned(4))) loose16;
#define LOAD_LOOSE(p) (*(__global const loose16 *)(p))
#define STORE_LOOSE(p, v) (*(__global loose16 *)(p) = (v))

// Of a work-item that makes rows [begin, end) of one block of an image: where the block lies in the
// image that is read, and in the one that results.
#define ROWS_OF_BLOCK                                                                              \
    const int item = (int)get_global_id(0);                                                        \
    const int chunk = item % chunks;                                                               \
    const int block = item / chunks % blocks;                                                      \
    const long n = item / chunks / blocks;                                                         \
    const int begin = chunk * rows;                                                                \
    const int end = min(begin + rows, height);                                                     \
    __global const IN *plane = in + n * in_batch + in_base + (long)block * in_plane;               \
    __global OUT *result = out + n * out_batch + out_base + (long)block * out_plane;

// BORDER around rows [first, last) of a block of the result; `top` and `bottom` rows of it are
// written by whom the first and the last row belong to. `plane` is where row 0, column 0 lies; a
// place has `lanes` numbers.
static inline void clear_border(__global OUT *plane, OUT border, int lanes, int row, int first,
                                int last, int height, int width, int top, int left, int bottom, int right)
{
    if (top + left + bottom + right == 0) {
        return;
    }
    const int begin = first == 0 ? -top : first;
    const int end = last == height ? height + bottom : last;
    for (int y = begin; y < end; y++) {
        __global OUT *line = plane + (long)y * row;
        const bool inside = y >= 0 && y < height;
        const int stop = inside ? 0 : width;
        for (int i = -left * lanes; i < stop * lanes; i++) {
            line[i] = border;
        }
        for (int i = width * lanes; i < (width + right) * lanes; i++) {
            line[i] = border;
        }
    }
}

// 16 rows of 16 numbers become columns: four times, the first half is laced with the second.
static inline void transpose(float16 v[16])
{
#pragma unroll
    for (int round = 0; round < 4; round++) {
        float16 laced[16];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            laced[2 * i].even = v[i].lo;
            laced[2 * i].odd = v[i + 8].lo;
            laced[2 * i + 1].even = v[i].hi;
            laced[2 * i + 1].odd = v[i + 8].hi;
        }
#pragma unroll
        for (int i = 0; i < 16; i++) {
            v[i] = laced[i];
        }
    }
}

// Lanes of a block that are channels; the others are kept 0.
static inline float16 only_channels(float16 v, int left)
{
    const int16 lanes = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return select(v, (float16)(0), lanes >= (int16)(left));
}

// rint, by what is added to a number of up to 23 bits and then taken off. PoCL's has 20 instructions.
static inline float16 rounded(float16 v)
{
    const float16 size = fabs(v);
    return select(v, copysign((size + 8388608.0f) - 8388608.0f, v), size < 8388608.0f);
}

// As the operator casts to 8 bits: to the nearest that they hold, NaN to 0.
static inline int16 to_whole(float16 v, float low, float high)
{
    if (low < 0) { // else the next line does it
        v = select(v, (float16)(0), v != v);
    }
    v = select((float16)(low), v, v > low);
    v = select((float16)(high), v, v < high);
    return convert_int16(v);
}
