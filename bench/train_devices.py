#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Data parallel: the transformer of train.py on several devices, each with a batch of its own, whose members share the
state of AdamW (`kiln.train.ShardedOptimiser`), beside the same on the first device alone. The two take turns in one
process; the ratio is the examples of a second to those of one device, medians of the rounds (the bar for two GPUs is
1.8). The members first learn from equal batches, by which their losses have to be those of the one device.

    train_devices.py opencl:0 opencl:1                             100 million parameters
    train_devices.py 'opencl:0#0/2' 'opencl:0#1/2' --small --base 'opencl:0#0/2'
"""
import argparse
import statistics
import sys
import time

import train

HUNDRED_MILLION = ["--layers", "14", "--width", "768", "--heads", "12", "--batch", "8", "--context", "512"]
SMALL = ["--layers", "1", "--width", "32", "--heads", "2", "--batch", "2", "--context", "16"]


class Member(train.OfKiln):
    """A device's parameters, batch and compiled gradient; the optimiser is the group's."""

    def __init__(self, kiln, options, device):
        self.kiln, self.options, self.device = kiln, options, kiln.device(device)
        self.params = kiln.train.Params(device=self.device)
        for name, values in train.start_values(options):
            self.params[name] = kiln.asarray(values, device=self.device)
        inputs, targets = train.batch_of(options)
        self.batch = [kiln.asarray(inputs.astype("int32"), device=self.device),
                      kiln.asarray(targets.astype("int32").reshape(-1, 1), device=self.device)]
        self.gradient = kiln.compile(
            kiln.value_and_grad(lambda p, x, y: self.cross_entropy(self.transformer(p, x), y)))

    def gradients(self):
        self.value, gradients = self.gradient(self.params.tree(), *self.batch)
        return gradients


class Team:
    def __init__(self, kiln, options, devices):
        self.members = [Member(kiln, options, device) for device in devices]
        rule = {"rate": 1e-3, "decay": 0.1}
        if len(devices) > 1:
            self.group = kiln.collective.Group(devices, deadline=120.0)
            self.optimiser = kiln.train.ShardedOptimiser(self.group, [one.params for one in self.members], "adamw",
                                                         **rule)
        else:
            self.optimiser = kiln.train.Optimiser(self.members[0].params, "adamw", captured=True, **rule)
        self.seconds = []

    def step(self):
        gradients = [one.gradients() for one in self.members]  # enqueued, not awaited
        self.optimiser.step(gradients if len(gradients) > 1 else gradients[0])

    def losses(self):
        return [float(one.value) for one in self.members]

    def run(self, steps):
        begin = time.perf_counter()
        for _ in range(steps):
            self.step()
        for one in self.members:
            one.device.sync()
        self.seconds.append((time.perf_counter() - begin) / steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("devices", nargs="+", metavar="DEVICE")
    parser.add_argument("--base", metavar="DEVICE", help="the one device (the first)")
    parser.add_argument("--small", action="store_true", help="a model of 20 thousand parameters")
    for name, default in (("rounds", 7), ("steps", 5), ("warm", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    ours = parser.parse_args()
    options = train.parser_of().parse_args(SMALL if ours.small else HUNDRED_MILLION)
    import kiln
    alone, team = Team(kiln, options, [ours.base or ours.devices[0]]), Team(kiln, options, ours.devices)
    worst = 0.0
    for _ in range(ours.warm):
        alone.step()
        team.step()
        wanted = alone.losses()[0]
        worst = max([worst] + [abs(loss - wanted) / abs(wanted) for loss in team.losses()])
    for _ in range(ours.rounds):
        alone.run(ours.steps)
        team.run(ours.steps)
    one, all_of_them = (statistics.median(side.seconds) for side in (alone, team))
    count = sum(int(values.size) for _, values in train.start_values(options))
    print(f"{count / 1e6:.1f} M parameters, {options.batch} x {options.context} a device: one device "
          f"{one * 1e3:.2f} ms a step, {len(ours.devices)} devices {all_of_them * 1e3:.2f} ms; "
          f"{len(ours.devices) * one / all_of_them:.2f} times the examples; losses of {ours.warm} steps differ by "
          f"{worst:.1g}")
    return 0 if worst < 1e-3 else 1


if __name__ == "__main__":
    sys.exit(main())
