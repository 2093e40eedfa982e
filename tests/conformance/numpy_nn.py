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


# ---- normalisations ----

def moments(x, axes, epsilon, centred=True):
    """Mean, variance, 1 / deviation, and x normalised."""
    mean = np.mean(x, axes, keepdims=True) if centred else 0
    variance = np.mean((x - mean)**2, axes, keepdims=True)
    factor = 1 / np.sqrt(variance + epsilon)
    return mean, variance, factor, (x - mean) * factor


def by_channel(p, x):
    return p.reshape((-1,) + (1,) * (x.ndim - 2)) if p.ndim else p


def in_groups(x, groups):
    return x.reshape(x.shape[0], groups, math.prod(x.shape[1:]) // groups)


def scaled(y, params):
    y = y * params[0] if params else y
    return y + params[1] if len(params) > 1 else y


def layer_norm(i, axis=-1, epsilon=1e-5, centred=True):
    axes = tuple(range(axis % i[0].ndim, i[0].ndim))
    return scaled(moments(i[0], axes, epsilon, centred)[3], i[1:])


def group_norm(i, groups, epsilon=1e-5):
    x = i[0]
    normal = moments(in_groups(x, groups), 2, epsilon)[3].reshape(x.shape)
    return scaled(normal, [by_channel(p, x) for p in i[1:]])


def batch_norm_train(i, epsilon=1e-5, momentum=0.9):
    x = i[0]
    axes = (0,) + tuple(range(2, x.ndim))
    mean, variance, _, normal = moments(x, axes, epsilon)
    running = [p * momentum + (1 - momentum) * q.ravel() for p, q in zip(i[3:], (mean, variance))]
    return (scaled(normal, [by_channel(p, x) for p in i[1:3]]), *running)


def backward(grad, scale, x, axes, epsilon, centred, view=lambda t: t):
    """Of x; and grad * normalised x. `view` cuts into groups."""
    _, _, factor, normal = moments(view(x), axes, epsilon, centred)
    h = view(grad * scale)
    inner = h - normal * np.mean(h * normal, axes, keepdims=True)
    inner = inner - (np.mean(h, axes, keepdims=True) if centred else 0)
    return (inner * factor).reshape(x.shape), grad * normal.reshape(x.shape)


def layer_norm_backward(i, axis=-1, epsilon=1e-5, centred=True):
    grad, x = i[:2]
    first = axis % x.ndim
    x_grad, product = backward(grad, i[2] if len(i) > 2 else 1, x, tuple(range(first, x.ndim)),
                               epsilon, centred)
    outer = tuple(range(first))
    return x_grad, np.sum(product, outer), np.sum(grad, outer)


def channel_norm_backward(i, epsilon=1e-5, groups=None, batch=False):
    grad, x = i[:2]
    scale = by_channel(i[2], x) if len(i) > 2 else 1
    outer = (0,) + tuple(range(2, x.ndim))
    if batch:
        x_grad, product = backward(grad, scale, x, outer, epsilon, True)
    else:
        groups = groups or x.shape[1]
        x_grad, product = backward(grad, scale, x, 2, epsilon, True,
                                   lambda t: in_groups(t, groups))
    return x_grad, np.sum(product, outer), np.sum(grad, outer)


def softmin(x, axis=-1):
    powers = np.exp(np.min(x, axis, keepdims=True, initial=np.inf) - x)
    return powers / np.sum(powers, axis, keepdims=True)


def softmax_backward(output, grad, axis=-1):
    return output * (grad - np.sum(grad * output, axis, keepdims=True))


def log_softmax_backward(output, grad, axis=-1):
    return grad - np.exp(output) * np.sum(grad, axis, keepdims=True)


# ---- layers ----

def linear_weight_backward(x, grad):
    return x.reshape(-1, x.shape[-1]).T @ grad.reshape(-1, grad.shape[-1]) if x.size and grad.size \
        else np.zeros((x.shape[-1], grad.shape[-1]))


def attention(inputs, scale=0, softcap=0, causal=0):
    query, key, value, mask, bias = (list(inputs) + [None] * 5)[:5]
    scores = query @ np.swapaxes(key, -1, -2) * (scale or 1 / math.sqrt(query.shape[-1]))
    scores = softcap * np.tanh(scores / softcap) if softcap else scores
    scores = scores if bias is None else scores + bias
    scores = scores if mask is None else np.where(mask, -np.inf, scores)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    powers = np.exp(scores - np.max(scores, -1, keepdims=True, initial=-np.inf))
    return powers / np.sum(powers, -1, keepdims=True) @ value


# ---- recurrent layers ----

ACTIVATIONS = {  # function of x, alpha, beta; alpha and beta when not given; None: it takes none
    "relu": (lambda x, a, b: np.maximum(x, 0), None, None),
    "tanh": (lambda x, a, b: np.tanh(x), None, None),
    "sigmoid": (lambda x, a, b: sigmoid(x), None, None),
    "affine": (lambda x, a, b: a * x + b, 1, 0),
    "leakyrelu": (lambda x, a, b: np.where(x < 0, a * x, x), 0.01, None),
    "thresholdedrelu": (lambda x, a, b: np.where(x > a, x, 0), 1, None),
    "scaledtanh": (lambda x, a, b: a * np.tanh(b * x), 1, 1),
    "hardsigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), 0.2, 0.5),
    "elu": (lambda x, a, b: np.where(x > 0, x, a * np.expm1(x)), 1, None),
    "softsign": (lambda x, a, b: x / (1 + np.abs(x)), None, None),
    "softplus": (lambda x, a, b: softplus(x), None, None),
}


def activations(names, alphas, betas, clip):
    alphas, betas, made = list(alphas), list(betas), []
    for name in names:
        function, alpha, beta = ACTIVATIONS[name.lower()]
        alpha = alphas.pop(0) if alpha is not None and alphas else alpha
        beta = betas.pop(0) if beta is not None and betas else beta
        made.append(lambda x, f=function, a=alpha, b=beta: f(
            np.clip(x, -clip, clip) if clip else x, a, b))
    return made


def lstm_cell(x, h, c, w, r, wb, rb, p, act, forget):
    f, g, out = act
    i, o, fg, cg = np.split(x @ w.T + h @ r.T + wb + rb, 4, -1)
    pi, po, pf = p
    i = f(i + pi * c)
    fg = 1 - i if forget else f(fg + pf * c)
    c = fg * c + i * g(cg)
    return f(o + po * c) * out(c), c


def gru_cell(x, h, w, r, wb, rb, act, after):
    f, g = act
    xz, xr, xh = np.split(x @ w.T + wb, 3, -1)
    rz, rr, rh = np.split(r, 3)
    bz, br, bh = np.split(rb, 3)
    z, s = f(xz + h @ rz.T + bz), f(xr + h @ rr.T + br)
    n = g(xh + (s * (h @ rh.T + bh) if after else (s * h) @ rh.T + bh))
    return (1 - z) * n + z * h


def recurrent(kind, i, direction="forward", activations_=None, alphas=(), betas=(), clip=0,
              flag=False):
    x, w, r = i[:3]
    steps, batch, n, gates = x.shape[0], x.shape[1], r.shape[2], r.shape[1] // r.shape[2]
    i = list(i) + [None] * 8
    bias, h0, c0, peep, lengths = (i[3], i[4], i[5], i[6], i[7]) if kind == "lstm" else \
        (i[3], i[4], None, None, i[5])
    usual = {"lstm": ["sigmoid", "tanh", "tanh"], "gru": ["sigmoid", "tanh"], "rnn": ["tanh"]}[kind]
    names = (activations_ or "").split(",") if activations_ else []
    directions = w.shape[0]
    act = activations(names + (usual * 2)[len(names):], alphas, betas, clip)
    spread = lambda t, shape: np.zeros(shape) if t is None else np.broadcast_to(t, shape)
    bias, peep = spread(bias, (directions, 2 * gates * n)), spread(peep, (directions, 3 * n))
    h0, c0 = (spread(t, (directions, batch, n)) for t in (h0, c0))
    y = np.zeros((steps, directions, batch, n))
    last_h, last_c = np.zeros((2, directions, batch, n))
    for d in range(directions):
        h, c = h0[d].astype(np.float64), c0[d].astype(np.float64)
        wb, rb = np.split(bias[d], 2)
        own = act[d * len(usual):(d + 1) * len(usual)]
        order = range(steps)
        for t in reversed(order) if direction == "reverse" or d == 1 else order:
            if kind == "lstm":
                new_h, new_c = lstm_cell(x[t], h, c, w[d], r[d], wb, rb, np.split(peep[d], 3), own, flag)
            elif kind == "gru":
                new_h, new_c = gru_cell(x[t], h, w[d], r[d], wb, rb, own, flag), c
            else:
                new_h, new_c = own[0](x[t] @ w[d].T + h @ r[d].T + wb + rb), c
            live = np.ones((batch, 1), bool) if lengths is None else (lengths > t)[:, None]
            y[t, d] = np.where(live, new_h, 0)
            h, c = np.where(live, new_h, h), np.where(live, new_c, c)
        last_h[d], last_c[d] = h, c
    return (y, last_h, last_c)


def recurrent_of(kind, i, a):
    a = dict(a)
    a["flag"] = a.pop({"lstm": "input_forget", "gru": "reset_after"}.get(kind, ""), False)
    a["activations_"] = a.pop("activations", None)
    return recurrent(kind, i, **a)


# ---- Fourier transforms ----

def parts(x):
    return x.real, x.imag


def fft(i, axis=-1, inverse=0):
    x = i[0] + 1j * i[1] if len(i) > 1 else i[0]
    return parts((np.fft.ifft if inverse else np.fft.fft)(x, axis=axis) if x.size else x + 0j)


def rfft(x, axis=-1, length=0):
    if x.size:
        return parts(np.fft.rfft(x, length or None, axis))
    shape = list(x.shape)
    shape[axis] = (length or x.shape[axis]) // 2 + 1
    return parts(np.zeros(shape, complex))


def irfft(re, im, shape, axis=-1, length=0):
    return np.fft.irfft(re + 1j * im, length or None, axis) if re.size else np.zeros(shape)


# ---- ctc ----

def ctc_one(lp, labels, blank):
    """Loss of one sequence, and how much each class at each step takes part in its paths."""
    states = [blank] + [s for label in labels for s in (label, blank)]
    emit = lp[:, states]
    n, steps = len(states), len(lp)
    if steps == 0:
        return (0.0 if n == 1 else np.inf), np.zeros_like(lp)
    skip = np.array([k > 1 and k % 2 == 1 and states[k] != states[k - 2] for k in range(n)])
    shift = lambda v, d: np.concatenate((np.full(d, -np.inf), v))[:n]
    ahead = lambda v, d: np.concatenate((v, np.full(d, -np.inf)))[d:]
    alpha = np.full((steps, n), -np.inf)
    alpha[0, :2] = emit[0, :2]
    for t in range(1, steps):
        a = alpha[t - 1]
        alpha[t] = emit[t] + np.logaddexp.reduce(
            [a, shift(a, 1), np.where(skip, shift(a, 2), -np.inf)])
    beta = np.full((steps, n), -np.inf)
    beta[-1, -2:] = 0
    for t in range(steps - 2, -1, -1):
        b = beta[t + 1] + emit[t + 1]
        beta[t] = np.logaddexp.reduce([b, ahead(b, 1), ahead(np.where(skip, b, -np.inf), 2)])
    whole = np.logaddexp.reduce(alpha[-1, -2:])
    share = np.zeros_like(lp)
    if whole > -np.inf:
        np.add.at(share.T, states, np.exp(alpha + beta - whole).T)
    return -whole, share


def ctc(i, blank=0, backward=False):
    lp, grad = i[0], i[1] if backward else None
    targets, lengths, counts = i[-3:]
    steps, batch, classes = lp.shape
    losses, grads = np.zeros(batch), np.zeros_like(lp)
    for n in range(batch):
        live = min(max(int(lengths[n]), 0), steps)
        labels = np.clip(targets[n, :min(max(int(counts[n]), 0), targets.shape[1])], 0, classes - 1)
        losses[n], share = ctc_one(lp[:live, n], labels.tolist(), blank)
        if backward:
            grads[:live, n] = -grad[n] * share
    return grads if backward else losses


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
    "linear": lambda i, a, s: i[0] @ i[1] + (i[2] if len(i) > 2 else 0),
    "linear_x_backward": lambda i, a, s: i[0] @ i[1].T,
    "linear_weight_backward": lambda i, a, s: linear_weight_backward(*i),
    "linear_bias_backward": lambda i, a, s: np.sum(i[0], tuple(range(i[0].ndim - 1))),
    "attention": lambda i, a, s: attention(i, **a),
    "einsum": lambda i, a, s: np.einsum(a["equation"], *i),
    "lstm": lambda i, a, s: recurrent_of("lstm", i, a),
    "gru": lambda i, a, s: recurrent_of("gru", i, a),
    "rnn": lambda i, a, s: recurrent_of("rnn", i, a),
    "fft": lambda i, a, s: fft(i, **a),
    "rfft": lambda i, a, s: rfft(i[0], **a),
    "irfft": lambda i, a, s: irfft(*i, s, **a),
    "ctc_loss": lambda i, a, s: ctc(i, **a),
    "ctc_loss_backward": lambda i, a, s: ctc(i, backward=True, **a),
    "det": lambda i, a, s: np.linalg.det(i[0]),
    "softmin": lambda i, a, s: softmin(i[0], **a),
    "softmax_backward": lambda i, a, s: softmax_backward(*i, **a),
    "log_softmax_backward": lambda i, a, s: log_softmax_backward(*i, **a),
    "layer_norm": lambda i, a, s: layer_norm(i, **a),
    "rms_norm": lambda i, a, s: layer_norm(i, centred=False, **a),
    "group_norm": lambda i, a, s: group_norm(i, **a),
    "instance_norm": lambda i, a, s: group_norm(i, i[0].shape[1], **a),
    "batch_norm_train": lambda i, a, s: batch_norm_train(i, **a),
    "layer_norm_backward": lambda i, a, s: layer_norm_backward(i, **a),
    "rms_norm_backward": lambda i, a, s: layer_norm_backward(i, centred=False, **a),
    "group_norm_backward": lambda i, a, s: channel_norm_backward(i, **a),
    "instance_norm_backward": lambda i, a, s: channel_norm_backward(i, **a),
    "batch_norm_backward": lambda i, a, s: channel_norm_backward(i, batch=True, **a),
    "hard_swish": lambda i, a, s: i[0] * np.clip(i[0] / 6 + 0.5, 0, 1),
}


def expected(name, inputs, attributes, shape):
    return OPERATORS[name]([wide(i) for i in inputs], attributes, shape)
