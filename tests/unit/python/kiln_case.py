# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the tests of the Python package share: NumPy as the judge, and the count line."""
import sys
import unittest

import numpy as np


class Case(unittest.TestCase):
    def same(self, made, wanted, within=0.0):
        """The array has NumPy's shape, dtype and values; `within` is relative."""
        made, wanted = np.asarray(made), np.asarray(wanted)
        self.assertEqual(made.dtype, wanted.dtype)
        self.close(made, wanted, within)

    def close(self, made, wanted, within=0.0):
        """As `same`, of whatever dtype."""
        made, wanted = np.asarray(made), np.asarray(wanted)
        self.assertEqual(made.shape, wanted.shape)
        np.testing.assert_allclose(made, wanted, rtol=within, atol=within, equal_nan=True)


def main():
    """Runs the cases and prints the harness's line of counts."""
    program = unittest.main(module="__main__", exit=False, argv=sys.argv[:1], verbosity=1)
    result = program.result
    failed, skipped = len(result.failures) + len(result.errors), len(result.skipped)
    for case, reason in result.skipped:
        print(f"SKIP {case}: {reason}")
    print(f"kiln-test: {result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or not result.testsRun else 0)
