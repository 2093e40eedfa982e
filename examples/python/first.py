# SPDX-License-Identifier: MIT OR Apache-2.0
"""The smallest program: operations are recorded, and run as one kernel when somebody looks."""
import kiln

x = kiln.asarray([-2.0, -1.0, 1.0, 2.0])
y = kiln.relu(x * 3)  # recorded, not run
print(y.tolist())  # one kernel runs here
print(kiln.device().stats["blocks_fused"], "kernel for", kiln.device().stats["ops_recorded"], "operations")
