#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""torch_decoder.py EXPORTER FILE COUNT ID,ID,..: a Llama-like decoder of four layers, exported by one of PyTorch's
exporters (script or dynamo) with open lengths; prints the likeliest tokens by PyTorch."""
import sys

import torch
from torch import nn

VOCABULARY, HIDDEN, HEADS, KEY_HEADS, SIZE, INNER, LAYERS = 97, 64, 4, 2, 16, 96, 4


def turned(x, cos, sin):
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-right, left], dim=-1) * sin


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(HIDDEN))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = Norm(), Norm()
        self.q = nn.Linear(HIDDEN, HEADS * SIZE, bias=False)
        self.k, self.v = (nn.Linear(HIDDEN, KEY_HEADS * SIZE, bias=False) for _ in range(2))
        self.o = nn.Linear(HEADS * SIZE, HIDDEN, bias=False)
        self.gate, self.up = (nn.Linear(HIDDEN, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, HIDDEN, bias=False)

    @staticmethod
    def heads(x, count):
        return x.view(x.shape[0], x.shape[1], count, SIZE).transpose(1, 2)

    def forward(self, x, cos, sin, mask, past_key, past_value):
        y = self.before(x)
        q, k = turned(self.heads(self.q(y), HEADS), cos, sin), turned(self.heads(self.k(y), KEY_HEADS), cos, sin)
        k = torch.cat([past_key, k], dim=2)
        v = torch.cat([past_value, self.heads(self.v(y), KEY_HEADS)], dim=2)
        wide = [t.repeat_interleave(HEADS // KEY_HEADS, dim=1) for t in (k, v)]
        scores = q @ wide[0].transpose(2, 3) * SIZE ** -0.5 + mask
        mixed = torch.softmax(scores, dim=-1) @ wide[1]
        x = x + self.o(mixed.transpose(1, 2).reshape(x.shape[0], x.shape[1], HEADS * SIZE))
        y = self.between(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y)), k, v


class Decoder(nn.Module):
    """Rotary tables and the causal mask are made in the model, of constants and lengths."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = Norm(), nn.Linear(HIDDEN, VOCABULARY, bias=False)
        self.register_buffer("rates", 1 / 10000 ** (torch.arange(0, SIZE, 2).float() / SIZE))

    def forward(self, input_ids, attention_mask, position_ids, *past):
        x = self.words(input_ids)
        angles = position_ids[..., None].float() * self.rates
        angles = torch.cat([angles, angles], dim=-1)[:, None]
        keys = torch.arange(attention_mask.shape[1])
        seen = (keys[None, None, None] <= position_ids[:, None, :, None]) & (attention_mask[:, None, None] > 0)
        mask = torch.where(seen, 0.0, torch.finfo(torch.float32).min)
        kept = []
        for i, layer in enumerate(self.layers):
            x, key, value = layer(x, angles.cos(), angles.sin(), mask, past[2 * i], past[2 * i + 1])
            kept += [key, value]
        return (self.head(self.norm(x)), *kept)


def step(ids, done, past):
    return (torch.tensor([ids]), torch.ones(1, done + len(ids), dtype=torch.int64),
            torch.arange(done, done + len(ids))[None], *past)


def greedy(model, prompt, count):
    past = [torch.zeros(1, KEY_HEADS, 0, SIZE) for _ in range(2 * LAYERS)]
    ids, done, tokens = prompt, 0, []
    for _ in range(count):
        logits, *past = model(*step(ids, done, past))
        done += len(ids)
        ids = [int(logits[0, -1].argmax())]
        tokens += ids
    return tokens


def export(model, exporter, path):
    past = [torch.randn(1, KEY_HEADS, 4, SIZE) for _ in range(2 * LAYERS)]
    names = [f"{{}}.{i}.{part}" for i in range(LAYERS) for part in ("key", "value")]
    inputs = ["input_ids", "attention_mask", "position_ids"] + [n.format("past_key_values") for n in names]
    outputs = ["logits"] + [n.format("present") for n in names]
    given = step([3, 1, 4], 4, past)
    if exporter == "script":
        rows, total = {1: "rows"}, {1: "total"}
        lengths = dict(zip(inputs, [rows, total, rows] + [{2: "past"}] * len(past)))
        torch.onnx.export(model, given, path, dynamo=False, input_names=inputs, output_names=outputs,
                          opset_version=torch.onnx._constants.ONNX_TORCHSCRIPT_EXPORTER_MAX_OPSET,
                          dynamic_axes=lengths | {n: {2: "total"} for n in outputs[1:]} | {"logits": rows})
    else:
        auto = torch.export.Dim.DYNAMIC
        torch.onnx.export(model, given, path, dynamo=True, input_names=inputs, output_names=outputs, verbose=False,
                          opset_version=torch.onnx._constants.ONNX_MAX_OPSET,
                          dynamic_shapes=({1: auto}, {1: auto}, {1: auto}, tuple({2: auto} for _ in past)))


def main():
    exporter, path, count, prompt = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    torch.manual_seed(11)
    torch.set_num_threads(2)
    model = Decoder().eval()
    with torch.no_grad():
        export(model, exporter, path)
        print(",".join(str(t) for t in greedy(model, [int(i) for i in prompt.split(",")], count)))


if __name__ == "__main__":
    main()
