#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Bundles the digits model into one program of loops below the folder $1, compiles it for the OpenCL device of this machine, and
# runs it without a compiler. KILN names the command.
set -eu
folder=${1:?usage: build.sh FOLDER}
model=$(dirname "$0")/../digits
${KILN:-kiln} bundle "$model/digits.onnx" --input "$model/three.npy" --single-work-item --merge -o "$folder"
${KILN:-kiln} bundle compile "$folder"
${KILN:-kiln} run "$folder" --input "$model/three.npy" --no-compile
