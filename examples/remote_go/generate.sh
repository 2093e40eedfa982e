#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes the packages of messages from the .proto files, in this folder or in that of the first argument. protoc is
# Debian's; its plugin for Go is part of the module google.golang.org/protobuf, and is built from there.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
target=${1:-$here}
cd "$target"
if [ -d "$here/../../remote_grpc/proto" ]; then # the tree
    protos="-I$here/../../ir/proto -I$here/../../remote_grpc/proto"
else # an installation
    protos="-I$here/../../proto"
fi
go build -o protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go
# The two files of kiln.v1 are one package.
# shellcheck disable=SC2086
protoc $protos --plugin=./protoc-gen-go --go_out=. --go_opt=module=remote_go \
    --go_opt=Mkiln/v1/ir.proto=remote_go/kilnv1 --go_opt=Mkiln/v1/kiln.proto=remote_go/kilnv1 \
    --go_opt=Mkserve/inference.proto=remote_go/inference \
    kiln/v1/ir.proto kiln/v1/kiln.proto kserve/inference.proto
