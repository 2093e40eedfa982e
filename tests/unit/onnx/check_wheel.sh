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
if [ "$device" != reference:0 ] && ! "$kiln" devices | grep -q "$device"; then
    echo "SKIP there is no device $device"
    echo "kiln-test: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
PYTHONDONTWRITEBYTECODE=1 "$python" "$here/../../onnx_cases/write_schemas.py" --check
status=$?
if [ $status -eq 0 ]; then
    PYTHONDONTWRITEBYTECODE=1 "$python" -W ignore "$here/../../onnx_cases/wheel_cases.py" "$work" 28
    status=$?
fi
if [ $status -eq 77 ]; then
    echo "kiln-test: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
text=$("$kiln" check-onnx --strict --summary --device "$device" "$work")
status=$((status + $?))
echo "$text" | grep -E "FAIL|^skipped|^listed"
last=$(echo "$text" | tail -n 1)
echo "$last"
passed=${last%% passed*}
if [ $status -eq 0 ] && [ "${passed:-0}" -ge "$minimum" ]; then
    echo "kiln-test: 1 passed, 0 failed, 0 skipped"
    exit 0
fi
echo "FAIL at least $minimum cases must pass and none may fail; exit status $status"
echo "kiln-test: 0 passed, 1 failed, 0 skipped"
exit 1
