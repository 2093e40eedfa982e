# SPDX-License-Identifier: MIT OR Apache-2.0
# What the scripts around `kiln check-onnx` begin and end with. They source it after kiln, device and minimum are set.

skip() {
    [ $# -eq 0 ] || echo "SKIP $*"
    echo "kiln-test: 0 passed, 0 failed, 1 skipped"
    exit 0
}

need_device() {
    [ "$device" = reference:0 ] || "$kiln" devices | grep -q "$device" || skip "there is no device $device"
}

# judge STATUS TEXT [PATTERN]: the lines of the pattern, the last line, and whether enough passed. Ends the script.
judge() {
    echo "$2" | sed '$d' | grep -E "${3:-FAIL}"
    last=$(echo "$2" | tail -n 1)
    echo "$last"
    passed=${last%% passed*}
    if [ "$1" -eq 0 ] && [ "${passed:-0}" -ge "$minimum" ]; then
        echo "kiln-test: 1 passed, 0 failed, 0 skipped"
        exit 0
    fi
    echo "FAIL at least $minimum cases must pass and none may fail; exit status $1"
    echo "kiln-test: 0 passed, 1 failed, 0 skipped"
    exit 1
}
