#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a wheel holds, in a folder of its own: everything is loaded from there, and its fusers are found."""
import os
import subprocess
import sys
import tempfile

import kiln_case

BUILD, CMAKE = sys.argv[1:3]
PROGRAM = """
import os, kiln
x = kiln.asarray([1.0, -2.0])
assert (kiln.relu(x * 2) + 1).tolist() == [3.0, 1.0]
assert kiln.device().stats["blocks_fused"] == 1, kiln.device().stats
print(kiln.__file__)
print(*sorted({line.split()[-1] for line in open("/proc/self/maps") if "kiln" in os.path.basename(line.strip())
               or "/kiln/" in line}), sep="\\n")
"""


class Installed(kiln_case.Case):
    def test_stands_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([CMAKE, "--install", BUILD, "--component", "python", "--prefix",
                            os.path.join(folder, "kiln")], check=True, capture_output=True, timeout=120)
            environment = {key: value for key, value in os.environ.items() if key != "KILN_PLUGIN_PATH"}
            environment["PYTHONPATH"] = folder
            run = subprocess.run(["/usr/bin/python3", "-c", PROGRAM], env=environment, capture_output=True, text=True,
                                 check=False, timeout=120)
            self.assertEqual(run.returncode, 0, run.stderr)
            loaded = run.stdout.split()
            self.assertTrue(any(name.endswith("plugins/elementwise.so") for name in loaded), loaded)
            self.assertTrue(any("/lib/libkiln.so" in name for name in loaded), loaded)
            for name in loaded:
                if "cache" not in name:
                    self.assertTrue(name.startswith(folder), name)
            for name in ("ops.pyi", "_kiln.pyi", "py.typed", "lib/kiln/plugins/matmul.so"):
                self.assertTrue(os.path.exists(os.path.join(folder, "kiln", name)), name)


if __name__ == "__main__":
    kiln_case.main()
