# SPDX-License-Identifier: MIT OR Apache-2.0
"""The operators of Kiln's table, by its names: docs/ops.md. `help(kiln.ops.conv)` says what one does."""
from ._kiln import operators

globals().update(operators)
__all__ = list(operators)  # noqa: PLE0605
del operators
