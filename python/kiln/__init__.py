# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kiln: tensor operations that are recorded, fused, and run on any OpenCL device.

    import kiln

    x = kiln.asarray([-2.0, -1.0, 1.0, 2.0])
    print(kiln.relu(x * 3))            # one kernel runs here, not two

The functions are those of the array API standard, under its names, and all operators of Kiln's own table
(``kiln.ops``). ``kiln.compile`` keeps what a function records; ``kiln.onnx.load`` runs models.
"""
import atexit as _atexit
import os as _os

from . import _kiln
from ._kiln import *  # noqa: F401,F403  the exceptions, the dtypes, Array, Device
from ._kiln import __version__, device, dtype, set_default_device, set_option
from .ops import *  # noqa: F401,F403  what the standard does not name
from ._creation import *  # noqa: F401,F403
from ._standard import *  # noqa: F401,F403
from ._info import *  # noqa: F401,F403
from . import _array  # noqa: F401  the methods of Array
from ._compile import GraphFunction, compile
from ._grad import *  # noqa: F401,F403
from ._stream import *  # noqa: F401,F403
from . import collective, onnx, ops, train

del fft, operators  # noqa: F821  the standard's name of an extension, which kiln.ops.fft is not; kiln.ops has all
_atexit.register(_kiln._close)
_os.register_at_fork(after_in_child=_kiln._forked)
