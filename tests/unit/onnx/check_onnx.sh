#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs ONNX's own test cases (Debian's libonnx-testdata) through `kiln check-onnx` on one device, and holds the count:
# at least MINIMUM pass and none fails. With KILN_TEST_COUNTS=1, as continuous integration sets it, no case on PoCL
# launches more kernels than check_onnx_counts.txt holds (`kiln check-onnx --summary --write-counts` writes it anew).
# usage: check_onnx.sh KILN DEVICE MINIMUM [FLAGS of check-onnx]
kiln=$1
device=$2
minimum=$3
shift 3
. "$(dirname "$0")/check_cases.sh"
cases=/usr/share/libonnx-testdata/data/node
[ -d "$cases" ] || skip "$cases is not there: install libonnx-testdata"
need_device
counts=$(dirname "$0")/check_onnx_counts.txt
if [ -n "${KILN_TEST_COUNTS:-}" ] && [ $# -eq 0 ] && [ "$device" = opencl:0 ] && "$kiln" devices | grep -q "^opencl:0 *pthread-"; then
    # kernels and host nodes of each case are held where they were counted: on PoCL, fusers by predicted scores
    text=$(KILN_DETERMINISTIC=1 "$kiln" check-onnx --strict --summary --device "$device" --counts "$counts")
else
    text=$("$kiln" check-onnx --strict --summary --device "$device" "$@")
fi
judge $? "$text"
