#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""PyTorch's optimisers and schedules in figures: writes torch_figures.inc, which
test_optimiser.c holds Kiln's against. Needs PyTorch, and --check compares the file
with what PyTorch gives now. Lion is not in PyTorch: it is written here as its paper
has it (Chen and others, 2023, algorithm 2), in float64 rounded at each step."""
import argparse
import math
import os
import re
import sys

try:
    import numpy as np
    import torch
except ImportError as error:
    print(f"SKIP unit/autodiff/torch_figures\n    {error}\nkiln-test: 0 passed, 0 failed, 1 skipped")
    sys.exit(0)

SHAPES = [(3, 4), (5,), (2, 3, 2)]
STEPS = 5
FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_figures.inc")


def first_values():
    return [torch.tensor([math.sin(k + 0.7 * i) for i in range(math.prod(shape))],
                         dtype=torch.float64).float().reshape(shape)
            for k, shape in enumerate(SHAPES)]


def gradients(step):
    return [torch.tensor([math.cos(0.3 * step + 0.5 * i + k) * (step + 1)
                          for i in range(math.prod(shape))], dtype=torch.float64).float().reshape(shape)
            for k, shape in enumerate(SHAPES)]


def run(make, clip=0.0, schedule=None):
    params = [torch.nn.Parameter(value) for value in first_values()]
    optimiser = make(params)
    scheduler = schedule(optimiser) if schedule else None
    for step in range(STEPS):
        for param, gradient in zip(params, gradients(step)):
            param.grad = gradient
        if clip:
            torch.nn.utils.clip_grad_norm_(params, clip)
        optimiser.step()
        if scheduler:
            scheduler.step()
    return np.concatenate([param.detach().numpy().reshape(-1) for param in params])


class Lion:
    def __init__(self, params, lr, beta1=0.9, beta2=0.99, weight_decay=0.0):
        self.params, self.lr, self.beta1, self.beta2, self.decay = params, lr, beta1, beta2, weight_decay
        self.means = [torch.zeros_like(param) for param in params]

    def step(self):
        with torch.no_grad():
            for param, mean in zip(self.params, self.means):
                update = torch.sign(mean * self.beta1 + param.grad * (1 - self.beta1))
                param.mul_(1 - self.lr * self.decay).sub_(update * self.lr)
                mean.mul_(self.beta2).add_(param.grad * (1 - self.beta2))


CASES = {
    "sgd": lambda: run(lambda p: torch.optim.SGD(p, lr=0.1)),
    "momentum": lambda: run(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01)),
    "nesterov": lambda: run(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)),
    "adam": lambda: run(lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.95), weight_decay=0.1)),
    "adamw": lambda: run(lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1)),
    "lion": lambda: run(lambda p: Lion(p, 0.01, weight_decay=0.1)),
    "clipped": lambda: run(lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1), clip=0.5),
    "cosine": lambda: run(lambda p: torch.optim.SGD(p, lr=0.1), schedule=lambda o:
                          torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=STEPS, eta_min=0.02)),
}


def rates(make, steps):
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1, momentum=0.5)
    scheduler = make(optimiser)
    found = []
    for _ in range(steps):
        found.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    return np.array(found)


def warm_cosine(optimiser):
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=15)
    warm = torch.optim.lr_scheduler.LinearLR(optimiser, start_factor=0.2, total_iters=4)
    return torch.optim.lr_scheduler.SequentialLR(optimiser, [warm, cosine], milestones=[5])


schedulers = torch.optim.lr_scheduler
RATES = {
    "linear": lambda: rates(lambda o: schedulers.LinearLR(o, start_factor=1.0, end_factor=0.1, total_iters=20), 20),
    "step": lambda: rates(lambda o: schedulers.StepLR(o, step_size=6, gamma=0.5), 20),
    "cosine": lambda: rates(lambda o: schedulers.CosineAnnealingLR(o, T_max=20, eta_min=0.01), 20),
    "one_cycle": lambda: rates(lambda o: schedulers.OneCycleLR(o, max_lr=0.1, total_steps=20,
                                                               cycle_momentum=False), 20),
    "warm_cosine": lambda: rates(warm_cosine, 20),
}


def text_of(values, form):
    words = [form.format(value) for value in values]
    lines = [", ".join(words[i:i + 5]) for i in range(0, len(words), 5)]
    return "    " + ",\n    ".join(lines)


def figures():
    made = {}
    for name, make in CASES.items():
        made[f"torch_{name}"] = ("float", make())
    for name, make in RATES.items():
        made[f"torch_rates_{name}"] = ("double", make())
    return made


def write():
    with open(FILE, "w", encoding="utf-8") as file:
        file.write("// SPDX-License-Identifier: MIT OR Apache-2.0\n"
                   "// Written by torch_figures.py: the parameters after five steps of PyTorch's optimisers, and\n"
                   "// the rates of its schedules.\n// clang-format off\n")
        for name, (kind, values) in figures().items():
            form = "{:.9g}F" if kind == "float" else "{:.17g}"
            words = re.sub(r"(?<![\d.e])(-?\d+)F", r"\1.0F", text_of(values, form))
            file.write(f"static const {kind} {name}[] = {{\n{words}}};\n")


def check():
    with open(FILE, encoding="utf-8") as file:
        text = file.read()
    bad = 0
    for name, (_, values) in figures().items():
        body = re.search(name + r"\[\] = \{([^}]*)\}", text)
        kept = np.array([float(word.strip().rstrip("F")) for word in body.group(1).split(",")]) if body else []
        if len(kept) != len(values) or not np.allclose(kept, values, rtol=2e-6, atol=1e-7):
            print(f"FAIL unit/autodiff/torch_figures {name}\n    {kept}\n    {values}")
            bad += 1
    print(f"kiln-test: {len(CASES) + len(RATES) - bad} passed, {bad} failed, 0 skipped")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare and write nothing")
    if parser.parse_args().check:
        return check()
    write()
    return 0


sys.exit(main())
