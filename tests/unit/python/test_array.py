#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Arrays: operators, dtypes, indexing, functions of the standard, against NumPy."""
import copy
import inspect
import operator
import os
import pickle
import re

import kiln
import kiln_case
import numpy as np

RANDOM = np.random.default_rng(7)


def numbers(*shape, dtype=np.float32):
    if np.issubdtype(dtype, np.floating):
        return RANDOM.standard_normal(shape).astype(dtype)
    return RANDOM.integers(1 if np.issubdtype(dtype, np.unsignedinteger) else -9, 9, shape).astype(dtype)


class Operators(kiln_case.Case):
    def test_arithmetic(self):
        for dtype in (np.float32, np.int32, np.int64, np.uint8):
            a, b = numbers(3, 4, dtype=dtype), numbers(4, dtype=dtype)
            b[b == 0] = 1
            for op in (operator.add, operator.sub, operator.mul, operator.mod, operator.floordiv):
                self.same(op(kiln.asarray(a), kiln.asarray(b)), op(a, b), 1e-5)
            self.same(-kiln.asarray(a), -a)
            self.same(abs(kiln.asarray(a)), abs(a))

    def test_numbers_on_either_side(self):
        a = numbers(5)
        for op in (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow):
            self.same(op(kiln.asarray(abs(a)), 2), op(abs(a), np.float32(2)), 1e-5)
            self.same(op(2.5, kiln.asarray(abs(a))), op(np.float32(2.5), abs(a)), 1e-5)

    def test_a_number_does_not_widen(self):
        self.assertEqual((kiln.ones(3, dtype="float16") + 1.5).dtype, kiln.float16)
        self.assertEqual((kiln.ones(3, dtype="uint8") * 2).dtype, kiln.uint8)
        self.assertEqual((kiln.ones(3, dtype="int32") + 0.5).dtype, kiln.float32)
        self.assertEqual((kiln.ones(3, dtype="bool") + 1).dtype, kiln.int64)
        with self.assertRaises(kiln.InvalidArgumentError):
            kiln.ones(3, dtype="uint8") + 300

    def test_division_is_true(self):
        self.same(kiln.asarray([1, 2]) / kiln.asarray([2, 4]), np.float32([0.5, 0.5]))
        self.same(1 / kiln.asarray([2, 4]), np.float32([0.5, 0.25]))
        self.same(kiln.asarray([7.0, -7.0]) // 2, np.float32([3, -4]))
        self.same(7 // kiln.asarray([2, -2]), np.int64([3, -4]))

    def test_comparisons(self):
        a, b = numbers(6, dtype=np.int32), numbers(6, dtype=np.int32)
        for op in (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge):
            self.same(op(kiln.asarray(a), kiln.asarray(b)), op(a, b))
            self.same(op(kiln.asarray(a), 3), op(a, 3))
            self.same(op(3, kiln.asarray(a)), op(3, a))
        self.same(kiln.asarray([True, False]) < kiln.asarray([True, True]), [False, True])
        self.assertIs(kiln.asarray([1]) == "text", False)

    def test_bits(self):
        a, b = numbers(6, dtype=np.int32), abs(numbers(6, dtype=np.int32))
        for op in (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift):
            self.same(op(kiln.asarray(a), kiln.asarray(b)), op(a, b))
        x, y = np.array([True, True, False]), np.array([True, False, False])
        for op in (operator.and_, operator.or_, operator.xor):
            self.same(op(kiln.asarray(x), kiln.asarray(y)), op(x, y))
        self.same(~kiln.asarray(x), ~x)
        self.same(~kiln.asarray(a), ~a)

    def test_products(self):
        for left, right in (((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,))):
            a, b = numbers(*left), numbers(*right)
            self.same(kiln.asarray(a) @ kiln.asarray(b), a @ b, 1e-5)
        with self.assertRaises(TypeError):
            kiln.ones((2, 2)) @ 2

    def test_numpy_on_either_side(self):
        a = numbers(2, 3)
        for made in (a + kiln.asarray(a), kiln.asarray(a) + a):
            self.assertIsInstance(made, kiln.Array)
            self.same(made, a + a)
        self.same(np.sqrt(kiln.asarray(abs(a))), np.sqrt(abs(a)))

    def test_augmented(self):
        x = y = kiln.ones(2)
        x += 1
        self.same(x, np.float32([2, 2]))
        self.same(y, np.float32([1, 1]))

    def test_what_is_no_operand(self):
        for other in (None, "2", [1, 2], object()):
            with self.assertRaises(TypeError):
                kiln.ones(2) + other
        with self.assertRaises(TypeError):
            hash(kiln.ones(2))
        with self.assertRaises(TypeError):
            pow(kiln.ones(2), 2, 3)


    def test_large_numbers(self):
        a = np.uint64([1, 2 ** 64 - 1])
        x = kiln.asarray(a)
        self.same(x - 2 ** 63 - 2 ** 63, a)
        self.same(2 ** 64 - 1 - x, np.uint64([2 ** 64 - 2, 0]))
        self.same(x == 2 ** 64 - 1, [False, True])
        self.same(kiln.full(2, 2 ** 64 - 1, dtype="uint64"), np.full(2, 2 ** 64 - 1, np.uint64))
        self.same(kiln.asarray([1.5]) * 2 ** 70, np.float32([1.5 * 2 ** 70]))
        for dtype, number in (("uint64", 2 ** 64), ("int64", 2 ** 63), ("uint8", 2 ** 70)):
            with self.assertRaisesRegex(OverflowError, f"{number} is not a value of {dtype}"):
                kiln.zeros(2, dtype=dtype) + number
        for number in (-1, -2):
            with self.assertRaises(ValueError):
                x + number
        halves = [70000.0, 65519.0, 65520.0, -1e9]
        self.same(kiln.asarray(halves, dtype="float16"), np.float16([np.inf, 65504, np.inf, -np.inf]))


class Promotion(kiln_case.Case):
    def test_as_numpy_within_a_kind(self):
        names = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float16", "float32", "float64")
        for a in names:
            for b in names:
                kinds = {np.dtype(a).kind, np.dtype(b).kind}
                if "f" in kinds and kinds & set("iu"):
                    continue
                wanted = np.promote_types(a, b)
                self.assertEqual(kiln.result_type(kiln.dtype(a), kiln.dtype(b)), wanted.name, (a, b))
                made = kiln.equal(kiln.ones(1, dtype=a), kiln.ones(1, dtype=b))
                self.same(made, [True])

    def test_of_kinds_and_halves(self):
        self.assertEqual(kiln.result_type(kiln.int64, kiln.float16), kiln.float16)
        self.assertEqual(kiln.result_type(kiln.bfloat16, kiln.float16), kiln.float32)
        self.assertEqual((kiln.ones(1, dtype="int32") + kiln.ones(1)).dtype, kiln.float32)
        with self.assertRaisesRegex(TypeError, "uint64"):
            kiln.ones(1, dtype="int8") + kiln.ones(1, dtype="uint64")

    def test_functions_take_what_they_need(self):
        self.same(kiln.exp(kiln.asarray([0, 1])), np.exp(np.float32([0, 1])), 1e-6)
        self.same(kiln.logical_and(kiln.asarray([0, 2]), kiln.asarray([1, 1])), [False, True])
        self.same(kiln.maximum(kiln.asarray([1, 5]), 3), np.int64([3, 5]))
        self.same(kiln.where(kiln.asarray([True, False]), 1.0, kiln.asarray([2, 3])), np.float32([1, 3]))

    def test_dtypes(self):
        self.assertEqual(kiln.float32, "float32")
        self.assertEqual(kiln.float32, np.dtype("float32"))
        self.assertNotEqual(kiln.float32, kiln.float64)
        self.assertEqual({kiln.float32: 1}[kiln.dtype("f32")], 1)
        self.assertIs(kiln.dtype(np.float32), kiln.float32)
        self.assertIs(kiln.dtype(float), kiln.float32)
        self.assertIs(pickle.loads(pickle.dumps(kiln.int8)), kiln.int8)
        self.assertEqual(repr(kiln.int8), "kiln.int8")
        with self.assertRaises(TypeError):
            kiln.dtype("complex64")

    def test_limits(self):
        for name in ("float16", "float32", "float64"):
            ours, theirs = kiln.finfo(kiln.dtype(name)), np.finfo(name)
            for fact in ("bits", "eps", "max", "min", "smallest_normal"):
                self.assertEqual(getattr(ours, fact), getattr(theirs, fact), (name, fact))
        for name in ("int8", "uint8", "int64", "uint64"):
            ours, theirs = kiln.iinfo(kiln.dtype(name)), np.iinfo(name)
            self.assertEqual((ours.min, ours.max, ours.bits), (theirs.min, theirs.max, theirs.bits))
        self.assertTrue(kiln.isdtype(kiln.int8, ("bool", "integral")))
        self.assertFalse(kiln.isdtype(kiln.int8, "real floating"))
        self.assertTrue(kiln.can_cast(kiln.int8, kiln.int16))
        self.assertFalse(kiln.can_cast(kiln.int16, kiln.int8))


class Indexing(kiln_case.Case):
    KEYS = (0, -1, (1, 2), (1, 2, 3), ..., (..., 1), (0, ..., 1), slice(1, None), slice(None, None, -1),
            (slice(None), slice(2, 0, -1)), (slice(0, 0),), (slice(-2, 99),), (slice(None, None, 2), 1, slice(3, None, -2)),
            None, (None, 1), (slice(None), None, 0), (0, None, ..., None), (),
            ([0, 1, 1],), (slice(None), [0, 2]), (..., [3, 0]), ([[0, 1], [1, 0]],), (0, [1, 2]), ([1, 0], [2, 1]),
            (slice(None), [0, -1], [1, 3]), ([1, 0], slice(None), [2, 1]), (0, slice(None), [1, 2]), ([0], None, [1]),
            (slice(None), [[0], [2]], [1, 3]), (np.int64(1), np.array([0, 2])), np.array([True, False]),
            (slice(None), np.array([True, False, True])), (1, np.array([True, False, True]), slice(1, 3)))

    def test_as_numpy(self):
        a = numbers(2, 3, 4)
        x = kiln.asarray(a)
        for key in self.KEYS:
            with self.subTest(key=key):
                self.same(x[key], a[key])

    def test_masks(self):
        a = numbers(3, 4)
        x = kiln.asarray(a)
        self.same(x[x > 0], a[a > 0])
        self.same(x[x > 99], a[a > 99])
        self.same(x[kiln.asarray(a[:, 0] > 0)], a[a[:, 0] > 0])

    def test_assignment_as_numpy(self):
        for key in self.KEYS:
            with self.subTest(key=key):
                a = numbers(2, 3, 4)
                x = kiln.asarray(a)
                old = x[...]
                values = numbers(*a[key].shape)
                before, a_before = old + 0, a.copy()
                x[key] = values
                a[key] = values
                self.same(x, a)
                self.same(before, a_before)
                x[key] = 7
                a[key] = 7
                self.same(x, a)

    def test_slices_that_go_down_from_before_the_first(self):
        a = numbers(2, 3)
        x = kiln.asarray(a)
        for key in (slice(-3, None, -1), slice(-9, -5, -2), (slice(None), slice(-4, None, -1)), slice(-3, -9, -1)):
            with self.subTest(key=key):
                self.same(x[key], a[key])
                x[key] = 7
                self.same(x, a)

    def test_an_empty_list_takes_nothing(self):
        a = numbers(2, 3)
        self.same(kiln.asarray(a)[[]], a[[]])
        self.same(kiln.asarray(a)[:, []], a[:, []])

    def test_assigned_numbers_keep_their_digits(self):
        """They go to the array's dtype, not by way of the default one."""
        x = kiln.zeros(3, dtype="float64")
        x[0] = 0.1
        x[1:] = [0.2, x[0]]
        self.same(x, np.float64([0.1, 0.2, 0.1]))
        y = kiln.zeros(2, dtype="uint64")
        y[0] = 2 ** 64 - 1
        self.same(y, np.uint64([2 ** 64 - 1, 0]))
        with self.assertRaisesRegex(OverflowError, "int8"):
            kiln.zeros(2, dtype="int8")[0] = 300
        y[:] = range(2)
        self.same(y, np.uint64([0, 1]))

    def test_a_bool_is_a_mask(self):
        a = numbers(2, 3)
        x = kiln.asarray(a)
        for key in (True, False):
            self.same(x[key], a[key])
            self.same(x[kiln.asarray(key)], a[key])
            self.same(x[np.bool_(key)], a[key])
            self.same(x[(key,)], a[key])
            self.same(x[0, 0][kiln.asarray(key)], a[0, 0][np.bool_(key)])
        x[False] = 5
        self.same(x, a)
        x[True] = 5
        self.same(x, np.full((2, 3), np.float32(5)))

    def test_assignment_by_masks(self):
        a = numbers(3, 4)
        x = kiln.asarray(a)
        x[x > 0] = 0
        a[a > 0] = 0
        self.same(x, a)
        x[x < 0] = np.arange((a < 0).sum(), dtype=np.float32)
        a[a < 0] = np.arange((a < 0).sum(), dtype=np.float32)
        self.same(x, a)

    def test_a_part_is_a_value(self):
        x = kiln.asarray([1, 2, 3])
        part = x[1:]
        x[1] = 9
        self.same(part, np.int64([2, 3]))
        self.same(x, np.int64([1, 9, 3]))

    def test_what_is_no_index(self):
        x = kiln.ones((2, 3))
        for key in (2, -3, (0, 3), (0, 0, 0), "0", 1.0, (..., ...), kiln.asarray([0.5]), kiln.asarray([True] * 3)):
            with self.subTest(key=key), self.assertRaises(IndexError):
                x[key]

    def test_elements_one_by_one(self):
        self.assertEqual([float(v) for v in kiln.asarray([1.0, 2.0])], [1.0, 2.0])
        self.assertEqual(len(kiln.ones((4, 2))), 4)
        self.assertEqual([10, 20, 30][kiln.asarray(1)], 20)


class Functions(kiln_case.Case):
    def test_reductions(self):
        a = numbers(2, 3, 4)
        for name in ("sum", "prod", "mean", "max", "min", "var", "std"):
            for axis in (None, 0, -1, (0, 2)):
                for keepdims in (False, True):
                    ours = getattr(kiln, name)(kiln.asarray(a), axis=axis, keepdims=keepdims)
                    self.same(ours, getattr(np, name)(a, axis=axis, keepdims=keepdims), 1e-5)
        self.same(kiln.var(kiln.asarray(a), axis=1, correction=1), a.var(axis=1, ddof=1), 1e-5)
        self.same(kiln.sum(kiln.asarray(a), axis=()), a)

    def test_reductions_of_integers(self):
        a = numbers(3, 4, dtype=np.int8)
        self.same(kiln.sum(kiln.asarray(a)), a.sum())
        self.same(kiln.sum(kiln.ones(3, dtype="uint8")), np.uint64(3))
        self.same(kiln.sum(kiln.asarray(a), dtype=kiln.float32), a.sum(dtype=np.float32))
        self.same(kiln.max(kiln.asarray(a), axis=0), a.max(axis=0))
        self.same(kiln.sum(kiln.asarray(a > 0)), (a > 0).sum())
        self.close(kiln.mean(kiln.asarray(a)), a.mean(), 1e-6)

    def test_logic_and_places(self):
        a = numbers(3, 4, dtype=np.int32)
        for name in ("any", "all", "argmax", "argmin"):
            for axis in (None, 0, 1):
                self.same(getattr(kiln, name)(kiln.asarray(a), axis=axis), getattr(np, name)(a, axis=axis))
        self.same(kiln.count_nonzero(kiln.asarray(a), axis=1), np.count_nonzero(a, axis=1))
        for ours, theirs in zip(kiln.nonzero(kiln.asarray(a)), np.nonzero(a)):
            self.same(ours, theirs)

    def test_shapes(self):
        a = numbers(2, 3, 4)
        x = kiln.asarray(a)
        self.same(kiln.reshape(x, (4, -1)), a.reshape(4, -1))
        self.same(x.reshape(6, 4), a.reshape(6, 4))
        self.same(kiln.permute_dims(x, (2, 0, 1)), a.transpose(2, 0, 1))
        self.same(kiln.moveaxis(x, 0, -1), np.moveaxis(a, 0, -1))
        self.same(x.mT, a.swapaxes(-1, -2))
        self.same(x[0].T, a[0].T)
        self.same(kiln.expand_dims(x, axis=1), np.expand_dims(a, 1))
        self.same(kiln.squeeze(x[:1], axis=0), a[0])
        self.same(kiln.flip(x, axis=1), np.flip(a, 1))
        self.same(kiln.flip(x), np.flip(a))
        self.same(kiln.roll(x, 2), np.roll(a, 2))
        self.same(kiln.roll(x, (1, -1), axis=(0, 2)), np.roll(a, (1, -1), (0, 2)))
        self.same(kiln.concat([x, x], axis=1), np.concatenate([a, a], 1))
        self.same(kiln.concat([x, x], axis=None), np.concatenate([a, a], None))
        self.same(kiln.concat([x[0]] * 70), np.concatenate([a[0]] * 70))
        self.same(kiln.stack([x, x], axis=-1), np.stack([a, a], -1))
        self.same(kiln.unstack(x, axis=1)[2], a[:, 2])
        self.same(kiln.tile(x, (2, 1, 3)), np.tile(a, (2, 1, 3)))
        self.same(kiln.repeat(x, 2, axis=1), np.repeat(a, 2, 1))
        self.same(kiln.repeat(x, kiln.asarray([1, 0, 2]), axis=1), np.repeat(a, [1, 0, 2], 1))
        self.same(kiln.broadcast_to(x[0], (2, 3, 4)), np.broadcast_to(a[0], (2, 3, 4)))
        self.same(kiln.diff(x, axis=1), np.diff(a, axis=1))

    def test_order(self):
        a = numbers(3, 5)
        x = kiln.asarray(a)
        self.same(kiln.sort(x), np.sort(a))
        self.same(kiln.sort(x, axis=0, descending=True), -np.sort(-a, axis=0))
        self.same(kiln.argsort(x), np.argsort(a))
        self.same(kiln.cumulative_sum(x, axis=1), np.cumsum(a, 1), 1e-5)
        self.same(kiln.cumulative_sum(kiln.asarray([1, 2]), include_initial=True), np.int64([0, 1, 3]))
        self.same(kiln.take(x, kiln.asarray([2, 0]), axis=1), np.take(a, [2, 0], 1))
        order = np.argsort(a)
        self.same(kiln.take_along_axis(x, kiln.asarray(order)), np.take_along_axis(a, order, -1))
        ordered = np.sort(a[0])
        for side in ("left", "right"):
            self.same(kiln.searchsorted(kiln.asarray(ordered), x, side=side),
                      np.searchsorted(ordered, a, side))

    def test_unique(self):
        a = numbers(4, 5, dtype=np.int32)
        ours = kiln.unique_all(kiln.asarray(a))
        values, first, inverse, counts = np.unique(a, return_index=True, return_inverse=True, return_counts=True)
        self.same(ours.values, values)
        self.same(ours.indices, first)
        self.same(ours.inverse_indices, inverse.reshape(a.shape))
        self.same(ours.counts, counts)
        self.same(kiln.unique_values(kiln.asarray(a)), values)

    def test_products(self):
        a, b = numbers(2, 3, 4), numbers(4, 3, 5)
        self.same(kiln.tensordot(kiln.asarray(a), kiln.asarray(b), axes=((1, 2), (1, 0))),
                  np.tensordot(a, b, ((1, 2), (1, 0))), 1e-5)
        self.same(kiln.tensordot(kiln.asarray(a), kiln.asarray(b), axes=0), np.tensordot(a, b, 0), 1e-5)
        self.same(kiln.vecdot(kiln.asarray(a), kiln.asarray(a)), (a * a).sum(-1), 1e-5)
        self.same(kiln.einsum("ijk,kjl->il", kiln.asarray(a), kiln.asarray(b)), np.einsum("ijk,kjl->il", a, b), 1e-5)
        self.same(kiln.einsum("ij", kiln.asarray(a[0])), a[0])

    def test_elementwise(self):
        a, b = numbers(50), numbers(50)
        x, y = kiln.asarray(a), kiln.asarray(b)
        for name in ("exp", "sin", "cos", "tanh", "floor", "ceil", "trunc", "round", "sign", "square", "isfinite", "signbit"):
            theirs = getattr(np, name)(a)
            self.same(getattr(kiln, name)(x), theirs, 1e-5)
        for name in ("log2", "log10", "sqrt", "log1p"):
            self.same(getattr(kiln, name)(abs(x)), getattr(np, name)(abs(a)), 1e-5)
        for name in ("logaddexp", "copysign", "hypot", "maximum"):
            self.same(getattr(kiln, name)(x, y), getattr(np, name)(a, b), 1e-5)
        self.same(kiln.clip(x, -0.5, 0.5), np.clip(a, np.float32(-0.5), np.float32(0.5)))
        self.same(kiln.floor(kiln.asarray([3])), np.int64([3]))
        self.same(kiln.isfinite(kiln.asarray([1.0, kiln.inf, kiln.nan])), [True, False, False])
        self.same(kiln.floor_divide(kiln.asarray([1.0, kiln.inf]), 0.1), np.float32([9, np.inf]))
        self.same(kiln.bitwise_and(kiln.asarray([3, 4], dtype="uint8"), 6), np.uint8([2, 4]))
        self.same(kiln.bitwise_xor(True, kiln.asarray([True, False])), [False, True])
        for dtype in (np.int8, np.int32, np.int64):
            ends = np.array([np.iinfo(dtype).min, np.iinfo(dtype).min + 1, -7, 7, np.iinfo(dtype).max], dtype)
            for divisor in (3, -3, 100, -100):
                self.same(kiln.asarray(ends) // divisor, ends // dtype(divisor))
            self.same(7 // kiln.asarray(ends), dtype(7) // ends)
        self.same(kiln.copysign(kiln.asarray(a.astype(np.float16)), y), np.copysign(a.astype(np.float16), b))
        self.assertEqual(kiln.copysign(kiln.ones(1, dtype="float16"), -1.0).dtype, kiln.float16)
        self.same(1 / kiln.sign(kiln.asarray([-0.0])), np.float32([np.inf]))
        self.same(1 / kiln.floor_divide(kiln.asarray([-0.0]), -2), np.float32([np.inf]))

    def test_bools_stay_bools(self):
        a = np.array([[True, False, True], [False, False, False]])
        for name in ("max", "min", "sort"):
            self.same(getattr(kiln, name)(kiln.asarray(a), axis=1), getattr(np, name)(a, axis=1))
        self.same(kiln.sort(kiln.asarray(a), descending=True), np.sort(a)[:, ::-1])

    def test_of_what_is_no_array_yet(self):
        """Functions take NumPy's arrays and lists, as operators do."""
        a = np.float32([[1.5, -2.5], [np.inf, 0.5]])
        for name in ("sum", "prod", "max", "min", "mean", "any", "all", "argmax", "isfinite", "isinf", "signbit", "ceil",
                     "floor", "sign", "square", "sort", "argsort", "flip", "squeeze", "nonzero", "zeros_like"):
            with self.subTest(name=name):
                made, wanted = getattr(kiln, name)(a), getattr(np, name)(a)
                for one, other in zip(made, wanted) if name == "nonzero" else [(made, wanted)]:
                    self.assertIs(type(one), kiln.Array)
                    self.same(one, other)
        self.same(kiln.sum([1.5, 2]), np.float32(3.5))
        self.same(kiln.stack([[1, 2], [3, 4]]), np.int64([[1, 2], [3, 4]]))
        self.same(kiln.floor_divide(np.int32([5, -5]), 2), np.int32([2, -3]))
        self.same(kiln.asarray(range(1, 4)), np.int64([1, 2, 3]))
        self.same(kiln.asarray(np.float64(0.1)), np.float64(0.1))
        endless = []
        endless.append(endless)
        with self.assertRaisesRegex(ValueError, "too deeply"):
            kiln.asarray(endless)
        self.assertTrue(kiln.isdtype(np.dtype("float32"), "real floating"))

    def test_integers_of_numpy(self):
        """They are axes, lengths and counts."""
        a, one = numbers(2, 3), np.int64(1)
        x = kiln.asarray(a)
        self.same(kiln.zeros(np.int64(3)), np.zeros(3, np.float32))
        self.same(kiln.sum(x, axis=one), a.sum(1), 1e-6)
        self.same(kiln.roll(x, one, axis=one), np.roll(a, 1, 1))
        self.same(kiln.tile(x, np.int64(2)), np.tile(a, 2))
        self.same(kiln.repeat(x, np.int64(2), axis=one), np.repeat(a, 2, 1))
        self.same(kiln.tensordot(x, x.T, axes=one), np.tensordot(a, a.T, 1), 1e-5)
        for wrong in (lambda: kiln.zeros(3.5), lambda: kiln.zeros("ab"), lambda: kiln.sum(x, axis=1.0)):
            with self.assertRaisesRegex(TypeError, "int or a sequence of ints, not"):
                wrong()
        for wrong in (-1, [1, -2]):
            with self.assertRaisesRegex(ValueError, "not repeated"):
                kiln.repeat(x, wrong, axis=0)
        with self.assertRaisesRegex(ValueError, "stack"):
            kiln.stack([])

    def test_creation(self):
        self.same(kiln.zeros((2, 3)), np.zeros((2, 3), np.float32))
        self.same(kiln.ones(2, dtype="int8"), np.ones(2, np.int8))
        self.same(kiln.full(2, 7), np.full(2, 7))
        self.same(kiln.full_like(kiln.ones(2), 7), np.full(2, 7, np.float32))
        for args in ((5,), (2, 5), (5, 2, -1), (0, 10, 3), (3, 3), (5, 2)):
            self.same(kiln.arange(*args), np.arange(*args))
        self.assertEqual(kiln.arange(0, 3.0, 1).dtype, kiln.float32)
        self.same(kiln.arange(0, 1, 0.25), np.arange(0, 1, 0.25, dtype=np.float32))
        self.same(kiln.linspace(0, 1, 5), np.linspace(0, 1, 5, dtype=np.float32))
        self.same(kiln.linspace(0, 1, 5, endpoint=False), np.linspace(0, 1, 5, endpoint=False, dtype=np.float32))
        self.same(kiln.eye(3, 4, k=1), np.eye(3, 4, 1, dtype=np.float32))
        self.same(kiln.tril(kiln.ones((3, 3)), k=-1), np.tril(np.ones((3, 3), np.float32), -1))
        for ours, theirs in zip(kiln.meshgrid(kiln.arange(2), kiln.arange(3)), np.meshgrid(range(2), range(3))):
            self.same(ours, theirs)

    def test_random_numbers(self):
        kiln.device().seed(5)
        a = kiln.random_uniform([1000], min=0, max=1)
        kiln.device().seed(5)
        b = kiln.random_uniform([1000], min=0, max=1)
        self.same(a, b)
        self.assertTrue(0.4 < float(kiln.mean(a)) < 0.6)


class Table(kiln_case.Case):
    """Functions of the operator table."""

    def test_every_operator_has_a_function(self):
        with open(os.path.join(os.path.dirname(__file__), "../../../docs/ops.md"), encoding="utf-8") as file:
            rows = set(re.findall(r"(?m)^\| `(\w+)` \| \d+ \| .*\|$", file.read().split("## Attributes")[0]))
        without = {"drop", "custom", "all_reduce", "collective_sync"}  # not called by name
        self.assertGreater(len(rows), 150)
        self.assertEqual(set(kiln.ops.__all__), rows - without)
        for name in kiln.ops.__all__:
            function = getattr(kiln.ops, name)
            self.assertTrue(function.__doc__, name)
            inspect.signature(function)
            self.assertEqual(hasattr(kiln, name), name != "fft", name)  # fft: an extension of the standard

    def test_stubs_name_each(self):
        with open(kiln.ops.__file__.replace("ops.py", "ops.pyi"), encoding="utf-8") as file:
            text = file.read()
        for name in kiln.ops.__all__:
            self.assertIn(f"def {name}(", text)
        compile(text, "ops.pyi", "exec")

    def test_arguments(self):
        x = kiln.asarray(numbers(1, 2, 5, 5))
        weight = kiln.asarray(numbers(3, 2, 3, 3))
        by_name = kiln.ops.conv(x=x, weight=weight, padding=[1, 1, 1, 1])
        self.assertEqual(by_name.shape, (1, 3, 5, 5))
        self.same(by_name, kiln.ops.conv(x, weight, None, None, [1, 1, 1, 1]))
        values, indices = kiln.top_k(kiln.asarray([1.0, 3.0, 2.0]), 2)
        self.same(values, np.float32([3, 2]))
        self.same(indices, np.int64([1, 2]))
        for call in (lambda: kiln.ops.conv(x), lambda: kiln.ops.conv(x, weight, width=3),
                     lambda: kiln.ops.relu(x, 2), lambda: kiln.ops.conv(x, x=x, weight=weight),
                     lambda: kiln.ops.cast(x, "no dtype"), lambda: kiln.ops.concat(None),
                     lambda: kiln.ops.leaky_relu(x, "0.1")):
            with self.assertRaises(TypeError):
                call()

    def test_absent_inputs_in_between(self):
        x, weight, recurrence = numbers(4, 2, 3), numbers(1, 8, 3), numbers(1, 8, 2)
        plain = kiln.ops.lstm(x, weight, recurrence)
        skipped = kiln.ops.lstm(x, weight, recurrence, lengths=[4, 4])
        self.same(skipped[0], plain[0], 1e-6)


class Errors(kiln_case.Case):
    def test_classes(self):
        with self.assertRaises(kiln.InvalidArgumentError) as caught:
            kiln.ones((2, 3)) + kiln.ones((2, 4))
        self.assertIsInstance(caught.exception, kiln.Error)
        self.assertIsInstance(caught.exception, ValueError)
        self.assertEqual(caught.exception.status, 3)
        self.assertEqual(caught.exception.reason, "invalid argument")
        self.assertIn("add", str(caught.exception))
        with self.assertRaises(LookupError):
            kiln.device("opencl:99")
        with self.assertRaises(kiln.NotFoundError):
            kiln.set_option("no-such-option", "1")
        self.assertTrue(issubclass(kiln.ResourceExhaustedError, MemoryError))

    def test_truth(self):
        self.assertTrue(kiln.ones(()))
        with self.assertRaisesRegex(ValueError, "any"):
            bool(kiln.ones(2))
        with self.assertRaises(ValueError):
            kiln.ones(2).item()

    def test_no_instances_by_hand(self):
        for kind in (kiln.Array, kiln.Device, kiln.DType):
            with self.assertRaises(TypeError):
                kind()


class Text(kiln_case.Case):
    def test_values_are_shown(self):
        self.assertEqual(repr(kiln.asarray([1.0, -2.5])),
                         f"kiln.Array([  1., -2.5], dtype=float32, device='{kiln.device()}')")
        self.assertEqual(str(kiln.asarray([[1, 2], [3, 4]])), "[[1, 2],\n [3, 4]]")
        self.assertEqual(str(kiln.asarray([])), "[]")
        self.assertEqual(str(kiln.asarray([True])), "[True]")
        self.assertEqual(f"{kiln.asarray(0.125):.2f}", "0.12")

    def test_long_ones_are_cut(self):
        text = str(kiln.arange(5000))
        self.assertIn("...", text)
        self.assertIn("4999", text)
        self.assertLess(len(text), 100)
        self.assertLess(len(str(kiln.ones((100, 100, 3)))), 2000)


class Objects(kiln_case.Case):
    def test_copies(self):
        x = kiln.asarray([1.0, 2.0])
        for made in (copy.copy(x), pickle.loads(pickle.dumps(x)), kiln.asarray(x, copy=True)):
            made[0] = 9
            self.same(x, np.float32([1, 2]))
        half = kiln.ones(2, dtype="bfloat16")
        self.assertEqual(pickle.loads(pickle.dumps(half)).dtype, kiln.bfloat16)

    def test_a_cast_is_a_copy(self):
        x = kiln.ones(3)
        self.same(x.__array__(np.dtype(np.float32), copy=False), np.ones(3, np.float32))
        with self.assertRaisesRegex(ValueError, "needs a copy"):
            x.__array__(np.dtype(np.float64), copy=False)

    def test_namespace(self):
        self.assertIs(kiln.ones(1).__array_namespace__(api_version="2024.12"), kiln)
        with self.assertRaises(ValueError):
            kiln.ones(1).__array_namespace__(api_version="1999.01")
        info = kiln.__array_namespace_info__()
        self.assertEqual(info.default_dtypes()["real floating"], kiln.float32)
        self.assertIn("int8", info.dtypes(kind="integral"))
        self.assertNotIn("float32", info.dtypes(kind="integral"))


if __name__ == "__main__":
    kiln_case.main()
