#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs the node cases of a newer onnx than Debian's, as its own code writes them, through `kiln check-onnx --strict`
# on one device: at least MINIMUM pass, none fails, and what is skipped is on a list. KILN_TEST_PYTHON names a Python
# that has the newest onnx (pip install onnx). Also holds onnx_schemas.txt against it. Skipped where there is none.
# usage: check_wheel.sh KILN DEVICE MINIMUM
kiln=$1
device=$2
minimum=$3
python=${KILN_TEST_PYTHON:-/usr/bin/python3}
here=$(dirname "$0")
. "$here/check_cases.sh"
need_device
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
PYTHONDONTWRITEBYTECODE=1 "$python" "$here/../../onnx_cases/write_schemas.py" --check
status=$?
if [ $status -eq 0 ]; then
    PYTHONDONTWRITEBYTECODE=1 "$python" -W ignore "$here/../../onnx_cases/wheel_cases.py" "$work" 28
    status=$?
fi
[ $status -ne 77 ] || skip
text=$("$kiln" check-onnx --strict --summary --device "$device" "$work")
status=$((status + $?))
judge $status "$text" "FAIL|^skipped|^listed"
