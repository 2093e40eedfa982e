#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""examples/train_gpt beside PyTorch: a transformer of four layers, from the same start on the same pieces of text. The
loss of every step is the same to 1e-4. Skipped without PyTorch."""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    from torch.nn.functional import cross_entropy, gelu, layer_norm
except ImportError as error:
    print(f"SKIP unit/autodiff/train/torch_gpt\n    {error}\nkiln-test: 0 passed, 0 failed, 1 skipped")
    sys.exit(0)

PROGRAM, TEXT, DEVICE = sys.argv[1:4]
BATCH, CONTEXT, WIDTH, HEADS, LAYERS, STEPS, RATE = 4, 32, 32, 4, 4, 200, 0.003
WORD = (1 << 64) - 1


def draw(step, i):
    """train_gpt.c's."""
    z = ((step * 1000003 + i + 1) * 0x9e3779b97f4a7c15) & WORD
    z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & WORD
    z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & WORD
    return z ^ (z >> 31)


def run_kiln(folder, name, steps, rate):
    """The losses and the parameters after the last step."""
    state, log = (os.path.join(folder, f"{name}.{end}") for end in ("safetensors", "jsonl"))
    subprocess.run([PROGRAM, "-d", DEVICE, "-t", TEXT, "-b", str(BATCH), "-c", str(CONTEXT), "-w", str(WIDTH), "-a",
                    str(HEADS), "-k", str(LAYERS), "-x", "0", "-n", str(steps), "-r", str(rate), "-f", state, "-l",
                    log], check=True, capture_output=True, timeout=280)
    with open(state, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    params = {}
    for key, row in json.loads(data[8:8 + length]).items():
        if key != "__metadata__" and not key.startswith("optimiser."):
            start, end = (8 + length + place for place in row["data_offsets"])
            values = np.frombuffer(data[start:end], np.float32).reshape(row["shape"])
            params[key] = torch.nn.Parameter(torch.tensor(values.copy()))
    with open(log, encoding="utf-8") as file:
        return [json.loads(line)["loss"] for line in file], params


def attend(query, key, value):
    """In words that PyTorch 1.13 knows, too: to itself and what stands before."""
    later = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return torch.softmax(scores.masked_fill(later, -math.inf), -1) @ value


def forward(p, tokens):
    def norm(values, name):
        return layer_norm(values, (WIDTH,), p[f"{name}.scale"], p[f"{name}.bias"], 1e-5)

    def line(values, name):
        return values @ p[f"{name}.weight"] + p[f"{name}.bias"]

    x = p["tokens"][tokens] + p["places"]
    for i in range(LAYERS):
        parts = line(norm(x, f"layer{i}.norm1"), f"layer{i}.look").split(WIDTH, 2)
        heads = [part.reshape(BATCH, CONTEXT, HEADS, WIDTH // HEADS).transpose(1, 2) for part in parts]
        seen = attend(*heads).transpose(1, 2).reshape(BATCH, CONTEXT, WIDTH)
        x = x + line(seen, f"layer{i}.join")
        wide = gelu(line(norm(x, f"layer{i}.norm2"), f"layer{i}.wide"), approximate="tanh")
        x = x + line(wide, f"layer{i}.narrow")
    return norm(x, "norm") @ p["scores"]


def rate_of(step):
    warm = STEPS // 20
    if step < warm:
        return RATE * (step + 1) / warm
    return RATE * (0.1 + 0.9 * (1 + math.cos(math.pi * (step - warm) / (STEPS - warm))) / 2)


def main():
    with open(TEXT, "rb") as file:
        text = file.read()
    numbers = {character: i for i, character in enumerate(sorted(set(text)))}
    tokens = torch.tensor([numbers[character] for character in text])
    with tempfile.TemporaryDirectory() as folder:
        losses, _ = run_kiln(folder, "whole", STEPS, RATE)
        _, params = run_kiln(folder, "start", 1, 1e-300)  # a step that changes nothing
    optimiser = torch.optim.AdamW(params.values(), lr=RATE, betas=(0.9, 0.99), weight_decay=0.1)
    worst = 0.0
    for step in range(STEPS):
        starts = [draw(step, row) % (len(tokens) - CONTEXT) for row in range(BATCH)]
        inputs = torch.stack([tokens[start:start + CONTEXT] for start in starts])
        targets = torch.stack([tokens[start + 1:start + CONTEXT + 1] for start in starts])
        loss = cross_entropy(forward(params, inputs).flatten(0, 1), targets.flatten())
        worst = max(worst, abs(loss.item() - losses[step]) / loss.item())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params.values(), 1.0)
        optimiser.param_groups[0]["lr"] = rate_of(step)
        optimiser.step()
    print(f"{STEPS} steps to a loss of {losses[-1]}: at most {worst:.2g} from PyTorch's")
    ok = worst < 1e-4 and len(losses) == STEPS
    print(f"kiln-test: {int(ok)} passed, {int(not ok)} failed, 0 skipped")
    return 0 if ok else 1


sys.exit(main())
