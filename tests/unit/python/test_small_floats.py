#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Floats of 8 bits and fewer: all values both ways against ml_dtypes where it is installed, and in Python's terms."""
import pickle
import unittest

import kiln
import kiln_case
import numpy as np

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

NAMES = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn")
CODES = np.arange(256, dtype=np.uint8)


def codes_of(name):
    return CODES[:16] if name == "float4_e2m1fn" else CODES


class SmallFloats(kiln_case.Case):
    def test_numbers_and_bits(self):
        x = kiln.asarray([0.3, -2, 1e9], dtype="float8_e5m2")
        self.assertEqual(x.dtype, kiln.float8_e5m2)
        self.assertEqual((x.dtype.itemsize, x.dtype.kind), (1, "small floating"))
        self.assertEqual(x.tolist(), [0.3125, -2.0, float("inf")])
        self.assertEqual(x.bits_as("uint8").tolist(), [0x35, 0xC0, 0x7C])
        self.assertEqual(kiln.asarray([6], dtype="uint8").bits_as("float4_e2m1fn").tolist(), [4.0])
        self.assertEqual(x[1].item(), -2.0)
        self.assertIn("0.3125", repr(x))

    def test_moved(self):
        x = kiln.asarray([[1.0, 2], [3, 4]], dtype="float8_e4m3fn")
        for moved, want in ((x.T, [[1, 3], [2, 4]]), (kiln.concat([x, x]), [[1, 2], [3, 4]] * 2),
                            (x[:, ::-1], [[2, 1], [4, 3]]), (x.reshape(4), [1, 2, 3, 4])):
            self.assertEqual(moved.dtype, x.dtype)
            self.assertEqual(moved.tolist(), want)
        self.assertEqual(pickle.loads(pickle.dumps(x)).tolist(), x.tolist())
        self.assertEqual(pickle.loads(pickle.dumps(x)).dtype, x.dtype)

    def test_refused(self):
        x = kiln.asarray([1.0], dtype="float8_e4m3fn")
        with self.assertRaisesRegex(kiln.InvalidArgumentError, "add does not take f8e4m3fn .* cast it first"):
            x + x
        with self.assertRaisesRegex(kiln.InvalidArgumentError, "exp does not take f8e4m3fn"):
            kiln.exp(x)
        with self.assertRaises(TypeError):
            kiln.result_type(kiln.float8_e5m2, kiln.float32)

    def test_compiled(self):
        @kiln.compile
        def halved(x):
            return kiln.astype(kiln.astype(x, "float32") / 2, "float8_e5m2")
        for count in (3, 3, 5):
            made = halved(kiln.asarray([4.0] * count, dtype="float8_e4m3fn"))
            self.assertEqual((made.dtype, made.tolist()), (kiln.float8_e5m2, [2.0] * count))

    @unittest.skipIf(ml_dtypes is None, "ml_dtypes is not installed")
    def test_arrays_of_ml_dtypes(self):
        for name in NAMES:
            a = codes_of(name).view(getattr(ml_dtypes, name))
            x = kiln.asarray(a)
            self.assertEqual((x.dtype.name, x.dtype), (name, a.dtype))
            back = np.asarray(x)
            self.assertEqual(back.dtype, a.dtype)
            np.testing.assert_array_equal(back.view(np.uint8), a.view(np.uint8))
            np.testing.assert_array_equal(np.asarray(x.astype("float32")), a.astype(np.float32))

    @unittest.skipIf(ml_dtypes is None, "ml_dtypes is not installed")
    def test_casts_of_ml_dtypes(self):
        random = np.random.default_rng(3)
        halves = np.arange(65536, dtype=np.uint32)
        numbers = np.concatenate([halves << 16, (halves << 16) + 1, (halves << 16) - 1,
                                  random.integers(0, 2**32, 100000, np.uint64)]).astype(np.uint32).view(np.float32)
        sources = [numbers, halves.astype(np.uint16).view(np.float16), np.arange(-3000, 3000, dtype=np.int32),
                   CODES, CODES.view(np.int8), np.array([False, True])]
        with np.errstate(all="ignore"):
            for name in NAMES:
                to = getattr(ml_dtypes, name)
                for source in sources:
                    want = source.astype(to).view(np.uint8)
                    got = np.asarray(kiln.asarray(source).astype(name).bits_as("uint8"))
                    wrong = np.flatnonzero(got != want)
                    self.assertEqual(wrong.size, 0, f"{source.dtype} to {name}: {source[wrong[:5]]} gives "
                                                    f"{got[wrong[:5]]}, not {want[wrong[:5]]}")


if __name__ == "__main__":
    kiln_case.main()
