# SPDX-License-Identifier: MIT OR Apache-2.0
"""Floats of 8 bits and fewer by tables of all their values and a search for the nearest: nothing of Kiln's code."""
import numpy as np

# number of the dtype -> bits of the fraction, bias, numbers that are not negative, code of what is too large, NaN's
FORMATS = {20: (3, 7, 127, 0x7F, 0x7F), 21: (3, 8, 128, 0x80, 0x80), 22: (2, 15, 124, 0x7C, 0x7E),
           23: (2, 16, 128, 0x80, 0x80), 25: (1, 1, 8, 7, 0)}
E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ, E8M0, E2M1 = range(20, 26)


def value(code, fraction, bias):
    exponent, rest = code >> fraction, code & ((1 << fraction) - 1)
    return 2.0 ** (max(exponent, 1) - bias) * (rest / 2.0 ** fraction + (exponent > 0))


def table(number):
    """What each of the 256 bytes stands for."""
    if number == E8M0:
        return np.append(2.0 ** np.arange(-127, 128), np.nan)
    fraction, bias, count, above, nan = FORMATS[number]
    sign = 8 if number == E2M1 else 128
    positive = np.array([value(code, fraction, bias) if code < count else np.nan for code in range(sign)])
    if number == E5M2:
        positive[above] = np.inf
    every = np.concatenate([positive, -positive])
    if nan == 128:
        every[128] = np.nan
    return np.tile(every, 256 // len(every))


def decode(number, codes):
    return table(number)[np.asarray(codes, np.uint8)]


def encode(number, x):
    x = np.asarray(x, np.float64)
    a = np.abs(x)
    if number == E8M0:
        values = 2.0 ** np.arange(-127, 129)
        code = np.searchsorted(values[:-1] * 1.5, a, side="right")
        code = np.where(a < 2.0 ** -126, a > 2.0 ** -127, code)
        return np.where((x > 0) & (a < 1.5 * 2.0 ** 127), code, 255).astype(np.uint8)
    fraction, bias, count, above, nan = FORMATS[number]
    sign = 8 if number == E2M1 else 128
    values = np.array([value(code, fraction, bias) for code in range(count + 1)])
    middle = (values[1:] + values[:-1]) / 2
    code = np.searchsorted(middle, a)  # on a middle: below it
    code += (code < count) & (a == middle[np.minimum(code, count - 1)]) & (code % 2 == 1)
    code = np.where(np.isnan(x), nan, np.where(code >= count, above, code))
    negative = np.signbit(x) ^ (np.isnan(x) & (number == E2M1))  # ml_dtypes' choice of a zero
    if nan == 128:
        return np.where(negative & (code > 0), code | 128, code).astype(np.uint8)
    return np.where(negative, code | sign, code).astype(np.uint8)
