#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Holds microsoft_expected.npz and onnx_contrib.def against an installed ONNX Runtime. KILN_TEST_PYTHON names a Python
# that has it (pip install onnxruntime); skipped where there is none.
# usage: check_microsoft.sh
python=${KILN_TEST_PYTHON:-/usr/bin/python3}
PYTHONDONTWRITEBYTECODE=1 "$python" "$(dirname "$0")/../../onnx_cases/write_microsoft.py" --check
status=$?
if [ $status -eq 77 ]; then
    echo "kiln-test: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
exit $status
