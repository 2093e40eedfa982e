# SPDX-License-Identifier: MIT OR Apache-2.0
"""What NumPy says of neural-network operators: functions of inputs, attributes and the result's shape."""
import math

import numpy as np

ERF = np.vectorize(math.erf, otypes=[np.float64])


def wide(x):
    return x.astype(np.float64) if x.dtype.kind == "f" else x


# ---- activations ----

def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(x, 0)


def gelu_backward(x, grad, approximate=0):
    c = np.clip(x, -30, 30)
    if approximate:
        k = math.sqrt(2 / math.pi)
        tanh = np.tanh(k * (c + 0.044715 * c**3))
        slope = 0.5 * (1 + tanh) + 0.5 * c * (1 - tanh**2) * k * (1 + 3 * 0.044715 * c**2)
    else:
        slope = 0.5 * (1 + ERF(c / math.sqrt(2))) + c * np.exp(-c * c / 2) / math.sqrt(2 * math.pi)
    return grad * slope


OPERATORS = {
    "prelu": lambda i, a, s: np.where(i[0] < 0, i[0] * i[1], i[0]),
    "hard_sigmoid": lambda i, a, s: np.clip(a.get("alpha", 0.2) * i[0] + a.get("beta", 0.5), 0, 1),
    "log_sigmoid": lambda i, a, s: -softplus(-i[0]),
    "relu_backward": lambda i, a, s: np.where(i[0] <= 0, 0, i[1]),
    "gelu_backward": lambda i, a, s: gelu_backward(*i, **a),
    "sigmoid_backward": lambda i, a, s: i[1] * (i[0] * (1 - i[0])),
    "log_sigmoid_backward": lambda i, a, s: i[1] * sigmoid(-i[0]),
    "silu": lambda i, a, s: i[0] * sigmoid(i[0]),
    "softplus": lambda i, a, s: softplus(i[0]),
    "elu": lambda i, a, s: np.where(i[0] > 0, i[0], a.get("alpha", 1) * np.expm1(i[0])),
    "mish": lambda i, a, s: i[0] * np.tanh(softplus(i[0])),
    "hard_swish": lambda i, a, s: i[0] * np.clip(i[0] / 6 + 0.5, 0, 1),
}


def expected(name, inputs, attributes, shape):
    return OPERATORS[name]([wide(i) for i in inputs], attributes, shape)
