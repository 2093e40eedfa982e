# SPDX-License-Identifier: MIT OR Apache-2.0
"""What pip calls for `pip install .` at the root of the tree: the hooks of python/pyproject.toml, in that folder."""
import os

os.chdir(os.path.dirname(os.path.abspath(__file__)))
from scikit_build_core.build import *  # noqa: E402,F401,F403
