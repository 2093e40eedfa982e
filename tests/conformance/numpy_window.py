# SPDX-License-Identifier: MIT OR Apache-2.0
"""What NumPy says of operators over windows and between elements: functions of inputs, attributes and the
result's shape. Windows are sums over the places that they see; interpolation is a matrix for each axis."""
import itertools
import math

import numpy as np


def wide(x):
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def lists(spatial, kernel=None, strides=None, padding=None, dilations=None, **_):
    """Window attributes with their defaults: axis, then kernel, stride, padding before, dilation."""
    n = len(spatial)
    return [(spatial[i], kernel[i], (strides or [1] * n)[i], (padding or [0] * 2 * n)[i],
             (dilations or [1] * n)[i]) for i in range(n)]


def planes_of(x):
    return x.reshape(x.shape[:2] + (int(np.prod(x.shape[2:])),))


def places(spatial, out, kernel, **attributes):
    """For each element of the window in row-major order: its index, and where all windows see it in the
    plane, row-major, -1 outside."""
    windows = lists(spatial, kernel, **attributes)
    for tap in np.ndindex(*kernel):
        along = [np.arange(o) * stride - before + k * dilation
                 for k, o, (_, _, stride, before, dilation) in zip(tap, out, windows)]
        grids = np.meshgrid(*along, indexing="ij")
        inside = np.ones(tuple(out), bool)
        for grid, length in zip(grids, spatial):
            inside &= (grid < length) & (grid >= 0)
        flat = np.zeros(tuple(out), np.int64)
        for grid, length in zip(grids, spatial):
            flat = flat * length + grid
        yield tap, np.where(inside, flat, -1)


def seen(x, flat, fill):
    """[n, c, windows] of the input at places."""
    return np.where(flat < 0, x.dtype.type(fill), planes_of(x)[:, :, flat])


def put(planes, flat, values):
    """Adds [n, c, windows] to [n, c, plane] at places."""
    n, c = np.ogrid[:planes.shape[0], :planes.shape[1]]
    values = planes_of(np.where(flat < 0, 0, values))
    np.add.at(planes, (n[..., None], c[..., None], np.maximum(flat, 0).reshape(1, 1, -1)), values)


def per_group(x, groups, axis=1):
    """[n, c, ...] as [n, groups, c / groups, ...]"""
    return x.reshape(x.shape[:axis] + (groups, x.shape[axis] // groups) + x.shape[axis + 1:])


def conv(inputs, shape, groups=1, **a):
    x, weight = wide(inputs[0]), wide(inputs[1])
    result = np.zeros(shape[:1] + (groups, shape[1] // groups) + shape[2:])
    parts = per_group(weight, groups, 0)
    for tap, flat in places(x.shape[2:], shape[2:], weight.shape[2:], **a):
        part = parts[(Ellipsis,) + tap]
        result += np.einsum("ngc...,goc->ngo...", per_group(seen(x, flat, 0), groups), part)
    bias = wide(inputs[2]).reshape((1, -1) + (1,) * (x.ndim - 2)) if len(inputs) == 3 else 0
    return result.reshape(shape) + bias


def conv_integer(inputs, shape, groups=1, **a):
    x, weight = inputs[0].astype(np.int64), inputs[1].astype(np.int64)
    x = x - (int(inputs[2]) if len(inputs) > 2 else 0)
    if len(inputs) > 3:
        weight = weight - inputs[3].astype(np.int64).reshape((-1,) + (1,) * (x.ndim - 1))
    return conv([x.astype(np.float64), weight.astype(np.float64)], shape, groups, **a)


def conv_turned(y, weight, shape, groups=1, bias=None, output_padding=None, **a):
    """What conv gives back to its input of this shape."""
    y, weight = wide(y), wide(weight)
    result = np.zeros(shape[:2] + (int(np.prod(shape[2:])),))
    parts = per_group(weight, groups, 0)
    for tap, flat in places(shape[2:], y.shape[2:], weight.shape[2:], **a):
        part = np.einsum("ngo...,goc->ngc...", per_group(y, groups), parts[(Ellipsis,) + tap])
        put(result, flat, part.reshape(y.shape[:1] + (shape[1],) + y.shape[2:]))
    result = result.reshape(shape)
    return result if bias is None else result + wide(bias).reshape((1, -1) + (1,) * (y.ndim - 2))


def conv_weight_backward(x, y, shape, groups=1, **a):
    x, y = wide(x), wide(y)
    result = np.zeros((groups, shape[0] // groups) + shape[1:])
    for tap, flat in places(x.shape[2:], y.shape[2:], shape[2:], **a):
        result[(Ellipsis,) + tap] = np.einsum(
            "ngcp,ngop->goc", per_group(planes_of(seen(x, flat, 0)), groups),
            per_group(planes_of(y), groups))
    return result.reshape(shape)


def max_pool(x, shape, windows):
    """Values and indices; `windows` yields where each element of the windows is."""
    best = np.full(shape, -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min, x.dtype)
    index = np.full(shape, -1, np.int64)
    for flat in windows:
        value = seen(x, flat, 0)
        better = (flat >= 0) & ((index < 0) | (value > best) | (np.isnan(value) & ~np.isnan(best)))
        best, index = np.where(better, value, best), np.where(better, flat, index)
    return best, index


def counted(spatial, out, kernel, include_pad, **a):
    """How many elements the mean of each window divides by."""
    if include_pad:
        return sum(before_end(spatial, out, tap, **a) for tap in np.ndindex(*kernel))
    return sum(np.where(flat >= 0, 1, 0) for _, flat in places(spatial, out, kernel, **a))


def before_end(spatial, out, tap, **a):
    """1 for each window whose element is not behind the padding at the end, else 0."""
    ends = (a.get("padding") or [0] * 2 * len(spatial))[len(spatial):]
    inside = np.ones(tuple(out), np.int64)
    for axis, (k, (length, _, stride, before, dilation)) in enumerate(zip(tap, lists(spatial, tap,
                                                                                     **a))):
        at = np.arange(out[axis]) * stride - before + k * dilation < length + ends[axis]
        inside *= at.reshape([-1 if i == axis else 1 for i in range(len(out))])
    return inside


def pool(name, x, shape, kernel, include_pad=0, p=2.0, ceil_mode=0, **a):
    del ceil_mode  # the shape says how many windows there are
    where = [flat for _, flat in places(x.shape[2:], shape[2:], kernel, **a)]
    if name.startswith("max_pool"):
        best, index = max_pool(x, shape, where)
        return (best, index) if name == "max_pool_with_indices" else best
    values = [seen(wide(x), flat, 0) for flat in where]
    if name == "lp_pool":
        return sum(np.abs(v) ** p for v in values) ** (1 / p)
    return sum(values) / counted(x.shape[2:], shape[2:], kernel, include_pad, **a)


def pool_backward(name, inputs, shape, kernel, include_pad=0, ceil_mode=0, **a):
    del ceil_mode
    grad = wide(inputs[0])
    out = grad.shape[2:]
    result = np.zeros(tuple(shape[:2]) + (int(np.prod(shape[2:])),))
    if name == "avg_pool_backward":
        grad = grad / counted(tuple(shape[2:]), out, kernel, include_pad, **a)
    for _, flat in places(tuple(shape[2:]), out, kernel, **a):
        put(result, flat, grad if name == "avg_pool_backward"
            else np.where(inputs[1] == flat, grad, 0))
    return result.reshape(shape)


def adaptive(spatial, size):
    """For each window: its index, and its places."""
    plane = np.arange(int(np.prod(spatial))).reshape(spatial)
    for window in np.ndindex(*size):
        yield window, plane[tuple(slice(i * n // o, -(-(i + 1) * n // o))
                                  for i, n, o in zip(window, spatial, size))].ravel()


def adaptive_pool(name, x, shape):
    planes = planes_of(x)
    values, indices = np.zeros(shape, np.float64 if name == "avg" else x.dtype), np.zeros(shape, int)
    for window, flat in adaptive(x.shape[2:], shape[2:]):
        at = (slice(None), slice(None)) + window
        if name == "avg":
            values[at] = np.mean(wide(planes[:, :, flat]), axis=2)
        else:
            values[at] = np.max(planes[:, :, flat], axis=2)
            indices[at] = flat[np.argmax(planes[:, :, flat], axis=2)]
    return values if name == "avg" else (values, indices)


def adaptive_backward(grad, shape):
    result = np.zeros(shape[:2] + (int(np.prod(shape[2:])),))
    for window, flat in adaptive(shape[2:], grad.shape[2:]):
        result[:, :, flat] += (wide(grad)[(slice(None), slice(None)) + window] / flat.size)[..., None]
    return result.reshape(shape)


def max_unpool(x, indices, shape):
    result = np.zeros(shape[:2] + (int(np.prod(shape[2:])),), x.dtype)
    for at in np.ndindex(shape[:2]):
        for value, index in zip(x[at].ravel(), indices[at].ravel()):
            if 0 <= index < result.shape[2]:
                result[at][index] = value
    return result.reshape(shape)


def im2col(x, shape, kernel, **a):
    windows = lists(x.shape[2:], kernel, **a)
    ends = (a.get("padding") or [0] * 2 * len(kernel))[len(kernel):]
    out = tuple((n + before + end - (k - 1) * dilation - 1) // stride + 1
                for (n, k, stride, before, dilation), end in zip(windows, ends))
    columns = np.stack([seen(x, flat, 0) for _, flat in places(x.shape[2:], out, kernel, **a)], 2)
    return columns.reshape(shape)


def col2im(x, shape, output_size, kernel, **a):
    windows = lists(output_size, kernel, **a)
    ends = (a.get("padding") or [0] * 2 * len(kernel))[len(kernel):]
    out = tuple((n + before + end - (k - 1) * dilation - 1) // stride + 1
                for (n, k, stride, before, dilation), end in zip(windows, ends))
    result = np.zeros(shape[:2] + (int(np.prod(shape[2:])),))
    columns = wide(x).reshape(shape[:2] + (int(np.prod(kernel)),) + out)
    for tap, (_, flat) in enumerate(places(tuple(output_size), out, kernel, **a)):
        put(result, flat, columns[:, :, tap])
    return result.reshape(shape)


def source_of(coordinates, i, n, out, scale, region):
    """Where element i of `out` lies in `n` elements (ONNX's Resize, version 19)."""
    return {
        "half_pixel": lambda: (i + 0.5) / scale - 0.5,
        "half_pixel_symmetric": lambda: n / 2 * (1 - out / (scale * n)) + (i + 0.5) / scale - 0.5,
        "pytorch_half_pixel": lambda: (i + 0.5) / scale - 0.5 if out > 1 else 0,
        "align_corners": lambda: i * (n - 1) / (n * scale - 1) if n * scale > 1 else 0,
        "asymmetric": lambda: i / scale,
        "tf_half_pixel_for_nn": lambda: (i + 0.5) / scale,
        "tf_crop_and_resize": lambda: region[0] * (n - 1) + i * (region[1] - region[0]) * (n - 1)
        / (out - 1) if out > 1 else 0.5 * sum(region) * (n - 1),
    }[coordinates]()


def filter_of(mode, a):
    def cubic(d):
        return (a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1 else \
            a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0
    return {"linear": (1, lambda d: max(0.0, 1 - d)), "cubic": (2, cubic),
            "lanczos3": (3, lambda d: np.sinc(d) * np.sinc(d / 3) if d < 3 else 0)}[mode]


def resample_row(mode, x, n, scale, a, exclude, antialias):
    """Weights of all n elements in the one that lies at x."""
    row = np.zeros(n)
    if mode.startswith("nearest"):
        place = {"nearest_floor": math.floor(x), "nearest_ceil": math.ceil(x),
                 "nearest": math.ceil(x - 0.5), "nearest_up": math.floor(x + 0.5)}[mode]
        row[min(max(place, 0), n - 1)] = 1
        return row
    support, weight = filter_of(mode, a)
    stretch = min(scale, 1) if antialias else 1
    reach = int(support / stretch) + 2
    for place in range(math.floor(x) - reach, math.floor(x) + reach + 1):
        if not exclude or 0 <= place < n:
            row[min(max(place, 0), n - 1)] += weight(abs(place - x) * stretch)
    return row / row.sum() if (exclude or stretch < 1 or mode == "lanczos3") and row.sum() else row


def resample_matrices(spatial, out, mode="linear", coordinates="half_pixel", scales=(), region=(),
                      cubic_a=-0.75, exclude_outside=0, antialias=0, **_):
    rank = len(spatial)
    for axis, (n, o) in enumerate(zip(spatial, out)):
        k = axis - rank + len(scales)
        scale = scales[k] if k >= 0 and scales and scales[k] else o / n if n else 0
        part = len(region) // 2
        k = axis - rank + part
        ends = (region[k], region[k + part]) if k >= 0 and region else (0, 1)
        if n == o and scale == 1 and not coordinates.startswith("tf"):
            yield np.eye(n)
            continue
        yield np.array([resample_row(mode, source_of(coordinates, i, n, o, scale, ends), n, scale,
                                     cubic_a, exclude_outside, antialias)
                        for i in range(o)]).reshape(o, n)


def interpolate(x, spatial, out, turned, **a):
    x = wide(x)
    for axis, matrix in enumerate(resample_matrices(spatial, out, **a)):
        x = np.moveaxis(np.tensordot(matrix.T if turned else matrix, x, (1, axis)), 0, axis)
    return x


def grid_places(g, n, mode, padding, align, a):
    """[taps] of (places, weights, inside) along one axis, in the arithmetic of the dtype."""
    kind = g.dtype.type
    clip = lambda x: np.where(x >= 0, np.minimum(x, kind(n - 1)), kind(0))

    def reflect(x):
        low, span = (kind(0), kind(n - 1)) if align else (kind(-0.5), kind(n))
        if span == 0:
            return np.zeros_like(x)
        x = np.abs(x - low)
        extra, flips = np.fmod(x, span), np.floor(x / span)
        return clip(np.where(np.fmod(flips, kind(2)) == 0, extra, span - extra) + low)

    pad_to = {"zeros": lambda x: np.where(np.isnan(x), kind(-2**24), x), "border": clip,
              "reflection": reflect}[padding]
    x = (g + kind(1)) / kind(2) * kind(n - 1) if align else \
        ((g + kind(1)) * kind(n) - kind(1)) / kind(2)
    if mode == "cubic":
        x = np.clip(np.where(np.isnan(x), -np.inf, x).astype(kind), kind(-2**24), kind(2**24))
        base = np.floor(x)
        weight = filter_of("cubic", a)[1]
        taps = [(pad_to(base + kind(k - 1)),
                 np.vectorize(weight, otypes=[float])(np.abs(wide(x - base) + 1 - k)))
                for k in range(4)]
    else:
        x = pad_to(x)
        part = wide(x - np.floor(x))
        taps = [(np.rint(x), np.ones(x.shape))] if mode == "nearest" else \
            [(np.floor(x), 1 - part), (np.floor(x) + kind(1), part)]
    for place, weight in taps:
        inside = (place >= 0) & (place < n)
        yield np.where(inside, place, 0).astype(np.int64), np.where(inside, weight, 0)


def grid_sample(x, grid, shape, mode="linear", padding_mode="zeros", align_corners=0,
                cubic_a=-0.75):
    grid = grid.astype(np.float64 if grid.dtype == np.float64 else np.float32)
    result = np.zeros(shape)
    axes = x.ndim - 2
    taps = [list(grid_places(grid[..., axes - 1 - i], x.shape[2 + i], mode, padding_mode,
                             align_corners, cubic_a)) for i in range(axes)] if x.size else []
    for n in range(shape[0]):
        for choice in itertools.product(*taps):
            weight = np.prod([w[n] for _, w in choice], axis=0)
            seen_there = wide(x)[n][(slice(None),) + tuple(p[n] for p, _ in choice)]
            result[n] += np.where(weight != 0, weight * seen_there, 0)
    return result


def roi_axis(low, high, scale, half, bins, n, ratio):
    kind = type(scale)
    start = low * scale - kind(0.5 if half else 0)
    size = high * scale - kind(0.5 if half else 0) - start
    size = size if half or size >= 1 else kind(1)
    step = size / kind(bins)
    wanted = np.ceil(step)
    return start, step, ratio or (0 if not wanted > 0 else n if wanted > n else int(wanted))


def roi_taps(start, step, samples, b, k, n):
    kind = type(start)
    at = start + kind(b) * step + (kind(k) + kind(0.5)) * step / kind(samples)
    if not at >= -1 or at > n:
        return None
    at = max(at, kind(0))
    low = min(int(at), n - 1)
    part = float(at - kind(low)) if low < n - 1 else 0.0
    return [(low, 1 - part), (min(low + 1, n - 1), part)]


def roi_align(x, boxes, batch, shape, output_size, mode="avg", coordinates="half_pixel",
              sampling_ratio=0, spatial_scale=1.0):
    kind = np.float64 if x.dtype == np.float64 else np.float32
    result = np.zeros(shape)
    for r, box in enumerate(boxes.astype(kind)):
        image = wide(x)[min(max(batch[r], 0), x.shape[0] - 1)]
        half = coordinates == "half_pixel"
        down = roi_axis(box[1], box[3], kind(spatial_scale), half, output_size[0], x.shape[2],
                        sampling_ratio)
        along = roi_axis(box[0], box[2], kind(spatial_scale), half, output_size[1], x.shape[3],
                         sampling_ratio)
        for row, column in np.ndindex(*output_size):
            terms = []
            for i, j in np.ndindex(down[2], along[2]):
                v, w = roi_taps(*down, row, i, x.shape[2]), roi_taps(*along, column, j, x.shape[3])
                terms.append([p * q * image[:, a, b] for a, p in v for b, q in w]
                             if v and w else [np.zeros(x.shape[1])] * 4)
            if terms and mode == "avg":
                result[r, :, row, column] = np.sum(terms, axis=(0, 1)) / len(terms)
            elif terms:
                result[r, :, row, column] = np.max(terms, axis=(0, 1))
    return result


def deform_points(x, offset, kernel, offset_groups=1, strides=(1, 1), padding=(0,) * 4,
                  dilations=(1, 1), **_):
    """For each point of each window, [n, groups, taps, windows]: rows and columns between elements."""
    kind = np.float64 if x.dtype == np.float64 else np.float32
    n, out = offset.shape[0], offset.shape[2:]
    taps = kernel[0] * kernel[1]
    moved = offset.astype(kind).reshape((n, offset_groups, taps, 2) + out)
    for axis in (0, 1):
        tap = np.array([k[axis] for k in np.ndindex(*kernel)]) * dilations[axis]
        window = np.arange(out[axis]) * strides[axis] - padding[axis]
        base = (tap[:, None] + window).reshape((taps,) + ((-1, 1) if axis == 0 else (1, -1)))
        yield (base.astype(kind) + moved[:, :, :, axis]).reshape(
            n, offset_groups, taps, out[0] * out[1])


def deform_matrix(x, offset, kernel, part=0, **a):
    """[n, groups, taps, windows, plane]: weights of all elements in each point; part 1 and 2: their
    derivatives by row and by column."""
    rows, columns = deform_points(x, offset, kernel, **a)
    h, w = x.shape[2:]
    result = np.zeros(rows.shape + (h, w))
    ok = (rows > -1) & (rows < h) & (columns > -1) & (columns < w)
    top, left = np.floor(np.where(ok, rows, 0)), np.floor(np.where(ok, columns, 0))
    v, u = wide(np.where(ok, rows, 0) - top), wide(np.where(ok, columns, 0) - left)
    for i, j in np.ndindex(2, 2):
        down = ((v if i else 1 - v) if part != 1 else (1 if i else -1))
        along = ((u if j else 1 - u) if part != 2 else (1 if j else -1))
        r, c = (top + i).astype(int), (left + j).astype(int)
        there = ok & (r >= 0) & (r < h) & (c >= 0) & (c < w)
        at = np.nonzero(there)
        result[at + (r[there], c[there])] += (down * along * np.ones(ok.shape))[there]
    return result.reshape(rows.shape + (h * w,))


def deform_mask(mask, rows, offset_groups):
    return 1.0 if mask is None else float(mask) if mask.ndim == 0 else wide(mask).reshape(
        mask.shape[0], offset_groups, mask.shape[1] // offset_groups, int(np.prod(mask.shape[2:])))


def deform_im2col(x, offset, mask, kernel, offset_groups=1, **a):
    """[n, groups, channels of one, taps, windows]"""
    matrix = deform_matrix(x, offset, kernel, offset_groups=offset_groups, **a)
    values = np.einsum("ngtpe,ngce->ngctp", matrix, per_group(planes_of(wide(x)), offset_groups))
    factor = deform_mask(mask, None, offset_groups)
    return values * (factor if np.ndim(factor) == 0 else factor[:, :, None])


def deform_back(x, offset, mask, columns, kernel, offset_groups=1, **a):
    """Gradients of x, offset and mask from [n, groups, channels of one, taps, windows]."""
    image = per_group(planes_of(wide(x)), offset_groups)
    factor = deform_mask(mask, None, offset_groups)
    parts = [deform_matrix(x, offset, kernel, part, offset_groups=offset_groups, **a)
             for part in (0, 1, 2)]
    grad_x = np.einsum("ngtpe,ngctp->ngce", parts[0], columns * factor[:, :, None])
    values = [np.einsum("ngtpe,ngce,ngctp->ngtp", m, image, columns) for m in parts]
    grad_offset = np.stack([values[1] * factor, values[2] * factor], 3)
    return grad_x.reshape(x.shape), grad_offset.reshape(offset.shape), values[0].reshape(mask.shape)


def deform_conv(x, offset, weight, mask=None, bias=None, groups=1, **a):
    columns = deform_im2col(x, offset, mask, weight.shape[2:], **a)
    columns = columns.reshape(x.shape[0], groups, int(np.prod(weight.shape[1:])), columns.shape[-1])
    parts = wide(weight).reshape(groups, weight.shape[0] // groups, -1)
    y = np.einsum("ngkp,gok->ngop", columns, parts)
    y = y.reshape((x.shape[0], weight.shape[0]) + offset.shape[2:])
    return y + (0 if bias is None else wide(bias).reshape(1, -1, 1, 1))


def deform_conv_backward(x, offset, weight, mask, grad, groups=1, **a):
    kernel, n = weight.shape[2:], x.shape[0]
    columns = deform_im2col(x, offset, mask, kernel, **a)
    shape = columns.shape
    depth = int(np.prod(weight.shape[1:]))
    g = wide(grad).reshape(n, groups, weight.shape[0] // groups, shape[-1])
    parts = wide(weight).reshape(groups, weight.shape[0] // groups, -1)
    column_grads = np.einsum("ngop,gok->ngkp", g, parts).reshape(shape)
    grads = deform_back(x, offset, mask, column_grads, kernel, **a)
    weight_grad = np.einsum("ngop,ngkp->gok", g, columns.reshape(n, groups, depth, shape[-1]))
    return grads[0], grads[1], weight_grad.reshape(weight.shape), grads[2], np.sum(
        wide(grad), axis=(0, 2, 3))


OPERATORS = {  # name -> function of inputs, attributes, shape of the result
    "conv": lambda i, a, s: conv(i, s, **a),
    "conv_integer": lambda i, a, s: conv_integer(i, s, **a),
    "conv_transpose": lambda i, a, s: conv_turned(i[0], i[1], s, bias=(i + [None])[2], **a),
    "conv_x_backward": lambda i, a, s: conv_turned(*i, **(a | {"shape": s})),
    "conv_weight_backward": lambda i, a, s: conv_weight_backward(*i, **(a | {"shape": s})),
    "conv_bias_backward": lambda i, a, s: np.sum(
        wide(i[0]), axis=tuple(k for k in range(i[0].ndim) if k != 1)),
    "conv_transpose_x_backward": lambda i, a, s: conv(
        i, s, **{k: v for k, v in a.items() if k != "shape"}),
    "conv_transpose_weight_backward": lambda i, a, s: conv_weight_backward(
        i[1], i[0], **(a | {"shape": s})),
    "im2col": lambda i, a, s: im2col(i[0], s, **a),
    "col2im": lambda i, a, s: col2im(i[0], s, **a),
    "max_pool": lambda i, a, s: pool("max_pool", i[0], s, **a),
    "max_pool_with_indices": lambda i, a, s: pool("max_pool_with_indices", i[0], s, **a),
    "avg_pool": lambda i, a, s: pool("avg_pool", i[0], s, **a),
    "lp_pool": lambda i, a, s: pool("lp_pool", i[0], s, **a),
    "max_pool_backward": lambda i, a, s: pool_backward("max_pool_backward", i, **a),
    "avg_pool_backward": lambda i, a, s: pool_backward("avg_pool_backward", i, **a),
    "adaptive_avg_pool": lambda i, a, s: adaptive_pool("avg", i[0], s),
    "adaptive_max_pool": lambda i, a, s: adaptive_pool("max", i[0], s),
    "adaptive_avg_pool_backward": lambda i, a, s: adaptive_backward(i[0], s),
    "interpolate": lambda i, a, s: interpolate(i[0], i[0].shape, s, False, **a),
    "interpolate_backward": lambda i, a, s: interpolate(i[0], s, i[0].shape, True, **a),
    "grid_sample": lambda i, a, s: grid_sample(*i, s, **a),
    "roi_align": lambda i, a, s: roi_align(*i, s, **a),
    "deform_im2col": lambda i, a, s: deform_im2col(*(i + [None])[:3], **a).reshape(s),
    "deform_im2col_backward": lambda i, a, s: deform_back(*i[:3], wide(i[3]).reshape(
        i[0].shape[0], a["offset_groups"], i[0].shape[1] // a["offset_groups"],
        int(np.prod(a["kernel"])), i[3].shape[2]), **a),
    "deform_conv": lambda i, a, s: deform_conv(*i, **a),
    "deform_conv_backward": lambda i, a, s: deform_conv_backward(*i, **a),
    "max_unpool": lambda i, a, s: max_unpool(i[0], i[1], s),
}
SCALED = set(OPERATORS) - {"conv_integer", "im2col", "max_pool", "max_pool_with_indices",
                           "adaptive_max_pool", "max_unpool"}  # sums: errors follow the terms
