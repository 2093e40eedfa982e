#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The main job: one digit with all that `kiln run` tells, then all ten drawn, each compared with PyTorch's output and
# with its true label. Fails when one differs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
kiln=${KILN:-build/bin/kiln}
model=examples/digits/digits.onnx
names=(zero one two three four five six seven eight nine)

echo "\$ kiln run $model --input examples/digits/three.npy"
"$kiln" run "$model" --input examples/digits/three.npy
echo

good=0
for i in "${!names[@]}"; do
    label=$(sed -n "s/.*\"${names[i]}\.npy\": *\([0-9]*\).*/\1/p" examples/digits/labels.json)
    if out=$("$kiln" run "$model" --input "examples/digits/${names[i]}.npy" --draw --repeat 0 \
        --expected examples/digits/expected.npy --row "$i" --tolerance 1e-4 2>&1); then
        grep -vE '^(log_probability|device|first|operations|kernels|peak)' <<<"$out"
    else
        echo "$out"
        echo "${names[i]}: FAILED"
        continue
    fi
    if grep -qx "predicted class: $label" <<<"$out"; then
        good=$((good + 1))
    else
        echo "${names[i]}: the true label is $label"
    fi
done
echo
echo "$good of ${#names[@]} digits as PyTorch and as labelled"
[[ $good -eq ${#names[@]} ]]
