#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# What `kiln check-onnx` says and exits with: on a good case, a wrong number, a wrong shape, a cut model, an operator
# that is not there, on the list (of each kind) and off it, counts that are held, a folder without cases, and no
# argument.
# usage: check_onnx_tells.sh KILN
kiln=$1
cases=/usr/share/libonnx-testdata/data/node
if [ ! -d "$cases" ]; then
    echo "SKIP $cases is not there: install libonnx-testdata"
    echo "kiln-test: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# expect STATUS TEXT ARGUMENTS...: the exit status, and a text somewhere in what is printed
expect() {
    want=$1
    text=$2
    shift 2
    said=$("$kiln" check-onnx "$@" 2>&1)
    got=$?
    if [ "$got" -eq "$want" ] && echo "$said" | grep -qF -- "$text"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL check-onnx $*: exit status $got, expected $want and \"$text\":"
        echo "$said"
    fi
}

copy() {
    rm -rf "$work/all"
    mkdir -p "$work/all"
    cp -r "$cases/$1" "$work/all/$1"
}

device="--device reference:0"
copy test_add
expect 0 "1 passed, 0 failed, 0 skipped" $device "$work/all/test_add"
expect 0 "pass test_add" $device --verbose "$work/all/test_add/"
cp "$work/all/test_add/test_data_set_0/input_0.pb" "$work/all/test_add/test_data_set_0/output_0.pb"
expect 1 "FAIL test_add: output 'sum': element [0,0,0] is" $device "$work/all"
expect 1 "0 passed, 1 failed, 0 skipped" $device "$work/all"
copy test_add
cp "$cases/test_add_bcast/test_data_set_0/input_1.pb" "$work/all/test_add/test_data_set_0/output_0.pb"
expect 1 "FAIL test_add: output 'sum': rank is 3, expected 1" $device "$work/all"
cp "$cases/test_argmax_default_axis_example/test_data_set_0/output_0.pb" \
    "$work/all/test_add/test_data_set_0/output_0.pb"
expect 1 "type is f32, expected i64" $device "$work/all"
copy test_add
head -c 40 "$cases/test_add/model.onnx" > "$work/all/test_add/model.onnx"
expect 1 "not an ONNX file, or not a whole one" $device "$work/all"
copy test_add
rm -r "$work/all/test_add/test_data_set_0"
expect 1 "no folder test_data_set_0" $device "$work/all"
copy test_adam
expect 0 "skipped    1: operator Adam of domain ai.onnx.preview.training" $device "$work/all"
expect 0 "listed      1: other domains" $device --strict --summary "$work/all"
mv "$work/all/test_adam" "$work/all/test_another"
expect 0 "0 passed, 0 failed, 1 skipped" $device "$work/all"
expect 1 "FAIL test_another: " $device --strict "$work/all"
copy test_add
mv "$work/all/test_add" "$work/all/test_adam"
expect 1 "listed as skipped (ai.onnx.preview.training is no part of the standard domain), but passes" $device "$work/all"
copy test_adam
mv "$work/all/test_adam" "$work/all/test_image_decoder_decode_png_rgb"
expect 0 "listed      1: pictures" $device --strict --summary "$work/all"
copy test_shape
expect 0 "host        1 cases: Shape, " $device --strict --summary "$work/all"
expect 0 "1 passed, 0 failed, 0 skipped" $device --write-counts "$work/counts" "$work/all"
expect 0 "1 passed, 0 failed, 0 skipped" $device --counts "$work/counts" "$work/all"
sed -i 's,^all/test_shape .*,all/test_shape 0 0,' "$work/counts"
expect 1 "0 kernels and 1 nodes on the host, 0 and 0 are held" $device --counts "$work/counts" "$work/all"
sed -i '/test_shape/d' "$work/counts"
expect 0 "1 case has no row in $work/counts" $device --counts "$work/counts" "$work/all"
echo "all/test_shape one" > "$work/counts"
expect 1 "row 1 is not" $device --counts "$work/counts" "$work/all"
expect 1 "cannot read $work/none" $device --counts "$work/none" "$work/all"
mkdir "$work/empty"
expect 1 "no folder with a model.onnx in" $device "$work/empty"
expect 1 "cannot read folder" $device "$work/nowhere"
expect 2 "name a folder of test cases" $device
echo "kiln-test: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
