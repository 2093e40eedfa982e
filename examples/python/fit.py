# SPDX-License-Identifier: MIT OR Apache-2.0
"""A line through points by gradient descent. kiln.compile records the step once and replays it."""
import kiln

kiln.device().seed(1)
x = kiln.random_uniform([256], min=-1, max=1)
y = 3 * x - 0.5 + kiln.random_normal([256]) * 0.05


@kiln.compile
def step(slope, offset, x, y, rate):
    error = slope * x + offset - y
    return slope - rate * kiln.mean(2 * error * x), offset - rate * kiln.mean(2 * error), kiln.mean(error * error)


slope, offset = kiln.zeros(()), kiln.zeros(())
for i in range(200):
    slope, offset, loss = step(slope, offset, x, y, 0.2)
    if i % 50 == 0:
        print(f"step {i}: loss {float(loss):.4f}")
print(f"y = {float(slope):.2f} x + {float(offset):.2f}")
print("one step:", step.graphs[0])
assert abs(float(slope) - 3) < 0.05 and abs(float(offset) + 0.5) < 0.05
