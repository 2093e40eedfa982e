#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes our own cases (tests/onnx_cases, with NumPy) and runs them through `kiln check-onnx --strict` on one device:
# at least MINIMUM pass, in the first run of a session and in four more, which replay segments; none fails or is
# skipped. usage: check_own_cases.sh KILN DEVICE MINIMUM
kiln=$1
device=$2
minimum=$3
if [ "$device" != reference:0 ] && ! "$kiln" devices | grep -q "$device"; then
    echo "SKIP there is no device $device"
    echo "kiln-test: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$(dirname "$0")/../../onnx_cases/make_cases.py" "$work"
status=$?
if [ $status -eq 77 ]; then
    echo "kiln-test: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
text=$("$kiln" check-onnx --strict --again 4 --device "$device" "$work")
status=$((status + $?))
echo "$text"
passed=$(echo "$text" | tail -n 1)
passed=${passed%% passed*}
if [ $status -eq 0 ] && [ "${passed:-0}" -ge "$minimum" ]; then
    echo "kiln-test: 1 passed, 0 failed, 0 skipped"
    exit 0
fi
echo "FAIL at least $minimum cases must pass and none may fail; exit status $status"
echo "kiln-test: 0 passed, 1 failed, 0 skipped"
exit 1
