#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes our own cases (tests/onnx_cases, with NumPy) and runs them through `kiln check-onnx --strict` on one device:
# at least MINIMUM pass, in the first run of a session and in four more, which replay segments; none fails or is
# skipped. usage: check_own_cases.sh KILN DEVICE MINIMUM
kiln=$1
device=$2
minimum=$3
. "$(dirname "$0")/check_cases.sh"
need_device
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$(dirname "$0")/../../onnx_cases/make_cases.py" "$work"
status=$?
[ $status -ne 77 ] || skip
text=$("$kiln" check-onnx --strict --again 4 --device "$device" "$work")
status=$((status + $?))
judge $status "$text" .
