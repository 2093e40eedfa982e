#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The programs of examples/python, and those of docs/python.md with what the page says that they print."""
import contextlib
import io
import os
import re
import subprocess
import sys

import kiln_case

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))


def run(name):
    path = os.path.join(ROOT, "examples/python", name)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False, timeout=200)
    if done.returncode != 0:
        raise AssertionError(f"{name}: {done.stderr}")
    return done.stdout


class Examples(kiln_case.Case):
    def test_first(self):
        self.assertEqual(run("first.py"), "[0.0, 0.0, 3.0, 6.0]\n1 kernel for 2 operations\n")

    def test_digits(self):
        self.assertEqual(re.findall(r": (\d),", run("digits.py")), list("0123456789"))

    def test_fit(self):
        self.assertIn("y = 3.0", run("fit.py"))


class Page(kiln_case.Case):
    """Blocks of the page run one after the other; a line `# -> text` says what the line before prints."""

    def blocks(self):
        with open(os.path.join(ROOT, "docs/python.md"), encoding="utf-8") as file:
            return re.findall(r"(?ms)^```python\n(.*?)^```", file.read())

    def test_as_written(self):
        names = {"__name__": "page"}
        blocks = self.blocks()
        self.assertGreater(len(blocks), 4)
        os.chdir(ROOT)
        for block in blocks:
            said = io.StringIO()
            with self.subTest(block=block), contextlib.redirect_stdout(said):
                exec(compile(block, "docs/python.md", "exec"), names)  # noqa: S102
            wanted = re.findall(r"# -> (.*)", block)
            self.assertEqual(said.getvalue().splitlines(), wanted, block)


if __name__ == "__main__":
    kiln_case.main()
