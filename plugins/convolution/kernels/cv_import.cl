// SPDX-License-Identifier: MIT OR Apache-2.0
// A dense tensor [n][channels][height][width] of IN into blocks of IB channels among zeros. A
// work-item takes `rows` rows of a block. DENSE16(p), DENSE(p): 16 elements and one as f32.

#if IB == 16

// `length` neighbouring places, at least 16, of `count` channels that lie `far` apart.
static inline void import_places(__global float *to, __global const IN *from, long far,
                                 int count, int length)
{
    for (int at = 0; at < length; at += 16) {
        const int x = min(at, length - 16); // the last places overlap those before them
        float16 v[16];
#pragma unroll
        for (int c = 0; c < 16; c++) {
            v[c] = c < count ? DENSE16(from + c * far + x) : (float16)(0);
        }
        transpose(v);
#pragma unroll
        for (int i = 0; i < 16; i++) {
            STORE(to, x + i, v[i]);
        }
    }
}

#elif IB == 3

// 16 neighbouring places of three channels.
static inline void lace(__global float *to, float16 a, float16 b, float16 c)
{
    STORE_LOOSE(to, (float16)(a.s0, b.s0, c.s0, a.s1, b.s1, c.s1, a.s2, b.s2, c.s2, a.s3, b.s3,
                              c.s3, a.s4, b.s4, c.s4, a.s5));
    STORE_LOOSE(to + 16, (float16)(b.s5, c.s5, a.s6, b.s6, c.s6, a.s7, b.s7, c.s7, a.s8, b.s8,
                                   c.s8, a.s9, b.s9, c.s9, a.sa, b.sa));
    STORE_LOOSE(to + 32, (float16)(c.sa, a.sb, b.sb, c.sb, a.sc, b.sc, c.sc, a.sd, b.sd, c.sd,
                                   a.se, b.se, c.se, a.sf, b.sf, c.sf));
}

static inline void import_places(__global float *to, __global const IN *from, long far,
                                 int count, int length)
{
    for (int at = 0; at < length; at += 16) {
        const int x = min(at, length - 16);
        lace(to + x * 3, DENSE16(from + x), DENSE16(from + far + x), DENSE16(from + 2 * far + x));
    }
}

#endif

__kernel void KERNEL(PARAMS)
{
    const int item = (int)get_global_id(0);
    const int chunk = item % chunks;
    const int block = item / chunks % blocks;
    const long n = item / chunks / blocks;
    const int begin = chunk * rows;
    const int end = min(begin + rows, height);
    const long far = (long)height * width;
    const int count = min(channels - block * IB, IB);
    __global float *result = out + n * out_batch + out_base + (long)block * out_plane;
    __global const IN *x = in + in_offset + (n * channels + block * IB) * far;
    const bool joined = out_row == width * IB; // rows follow one another without zeros between them
    const int length = joined ? (end - begin) * width : width;
    for (int y = begin; y < end; y += joined ? rows : 1) {
        __global float *line = result + (long)y * out_row;
        __global const IN *from = x + (long)y * width;
#if IB == 16 || IB == 3
        if (length >= 16) {
            import_places(line, from, far, count, length);
            continue;
        }
#endif
        for (int i = 0; i < length; i++) {
            for (int c = 0; c < IB; c++) {
                line[i * IB + c] = c < count ? DENSE(from + c * far + i) : 0.0f;
            }
        }
    }
    clear_border(result, BORDER, IB, out_row, begin, end, height, width, out_top, out_left,
                 out_bottom, out_right);
}
