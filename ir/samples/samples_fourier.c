// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of Fourier transforms: lengths that are powers of two, even, odd and prime; one
// element; signals cut and filled; every axis; real and complex.
#include "samples_internal.h"

void kiln_samples_fourier(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        kilni_sample_tensor x;
        int64_t axis;
        int64_t length; ///< of rfft and irfft
        bool flag; ///< of fft: inverse
        bool real;
    } cases[] = {
        {{.rank = 1, .dims = {8}}, 0, 0, false, false},
        {{.rank = 1, .dims = {3}}, -1, 1, true, false},
        {{.rank = 2, .dims = {3, 64}}, -1, 0, false, true},
        {{.rank = 2, .dims = {2, 7}}, 1, 12, true, false},
        {{.rank = 3, .dims = {2, 12, 3}}, 1, 9, false, false},
        {{.rank = 2, .dims = {17, 2}}, 0, 0, true, false},
        {{.rank = 2, .dims = {4, 2}}, 0, 6, false, true},
        {{.rank = 2, .dims = {0, 4}}, 1, 0, false, false},
        {{.rank = 2, .dims = {2, 130}}, 1, 256, true, true},
        {{.rank = 2, .dims = {9, 97}}, 1, 0, false, false},
        {{.rank = 2, .dims = {2, 307}}, 1, 301, true, false},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kilni_sample_tensor inputs[2] = {cases[i].x, cases[i].x};
        bool one = op == KILN_OP_RFFT || (op == KILN_OP_FFT && cases[i].real);
        const kiln_attr attrs[] = {
            cases[i].axis == -1 ? kilni_attr_none() : kilni_attr_i64(cases[i].axis),
            op == KILN_OP_FFT      ? kilni_attr_bool(cases[i].flag)
            : cases[i].length == 0 ? kilni_attr_none()
                                   : kilni_attr_i64(cases[i].length),
        };
        inputs[0].fill = inputs[1].fill = KILNI_FILL_SMALL;
        kilni_sample_emit(sink, op, dtype, inputs, one ? 1 : 2, attrs);
    }
}
