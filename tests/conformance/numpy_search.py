# SPDX-License-Identifier: MIT OR Apache-2.0
"""What NumPy says of operators that search: functions of inputs, attributes and the result's shape."""
import math

import numpy as np

import numpy_bf16


def argwhere(mask, count):
    found = np.argwhere(mask)[:count] if mask.ndim else np.zeros((min(count, int(mask)), 0), np.int64)
    return np.concatenate((found, np.zeros((count - len(found), mask.ndim), np.int64)))


def corners(boxes, center):
    half = boxes[:, 2:] * boxes.dtype.type(0.5)
    one, two = (boxes[:, :2] - half, boxes[:, :2] + half) if center else (boxes[:, :2], boxes[:, 2:])
    swapped = ~(one < two)
    return np.where(swapped, two, one), np.where(swapped, one, two)


def nms(boxes, scores, count, overlap=0, least=-math.inf, center=0):
    """Greedy, in the precision that devices compute in: f16 in f32, and no division."""
    overlap, least = numpy_bf16.like(boxes, overlap), numpy_bf16.like(boxes, least)
    kind = np.promote_types(boxes.dtype, np.float32)
    boxes, scores = boxes.astype(kind), scores.astype(kind)
    overlap, least = kind.type(overlap), kind.type(least)
    result = np.full(scores.shape[:2] + (min(count, boxes.shape[1]),), -1, np.int64)
    for b, c in np.ndindex(*scores.shape[:2]):
        low, high = corners(boxes[b], center)
        area = np.prod(high - low, axis=1, dtype=kind)
        left = scores[b, c] > least
        for k in range(result.shape[2]):
            if not left.any():
                break
            best = int(np.argmax(np.where(left, scores[b, c], -np.inf)))
            best = best if left[best] else int(np.argmax(left))
            result[b, c, k] = best
            top = np.where(low > low[best], low, low[best])
            bottom = np.where(high < high[best], high, high[best])
            sides = bottom - top
            common = sides[:, 0] * sides[:, 1]
            covered = (sides > 0).all(axis=1) & (area > 0) & (area[best] > 0)
            left &= ~(covered & (common > overlap * (area + area[best] - common)))
            left[best] = False
    return result


def tree_ensemble(x, thresholds, weights, features, others, roots, targets, count, mode="sum"):
    """Row by row and node by node."""
    nodes, columns = len(features), x.shape[1]
    result = np.zeros((len(x), count), np.float64)
    for row in range(len(x)):
        found = [[] for _ in range(count)]
        for node in roots:
            while 0 <= node < nodes and features[node] >= 0:
                if columns == 0:
                    node = -1
                    break
                value = x[row, min(features[node] // 2, columns - 1)]
                on = bool(features[node] % 2) if np.isnan(value) else value <= thresholds[node]
                following = node + 1 if on else others[node]
                node = following if following > node else -1
            if 0 <= node < nodes:
                for k in range(others[node], others[node] - 1 - features[node]):
                    if 0 <= k < len(weights) and 0 <= targets[k] < count:
                        found[targets[k]].append(float(weights[k]))
        result[row] = [{"sum": sum, "min": min, "max": max}[mode](f) if f else 0 for f in found]
    return result.astype(x.dtype)


OPERATORS = {
    "argwhere": lambda i, a, s: argwhere(i[0], **a),
    "nms": lambda i, a, s: nms(*i, **a),
    "tree_ensemble": lambda i, a, s: tree_ensemble(*i, **a),
}
