#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes images.npy (1797 x 64, u8, 0 to 16) and labels.npy (u8) from scikit-learn's digits, in an order
that is shuffled once and for all: the first 1437 are trained on, the others held out."""
import os

import numpy
from sklearn.datasets import load_digits

digits = load_digits()
order = numpy.random.RandomState(7).permutation(len(digits.target))
folder = os.path.dirname(os.path.abspath(__file__))
numpy.save(os.path.join(folder, "images.npy"), digits.data[order].astype(numpy.uint8))
numpy.save(os.path.join(folder, "labels.npy"), digits.target[order].astype(numpy.uint8))
