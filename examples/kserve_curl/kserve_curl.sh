#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# A model of `kiln serve --models` asked with curl alone: is it there, what does it take, and what does it make of a
# picture, once as numbers in JSON and once as bytes behind it.
#
#     kiln serve --models MODELS --listen 127.0.0.1:3000 --http 127.0.0.1:8000 &
#     examples/kserve_curl/kserve_curl.sh http://127.0.0.1:8000 digits examples/digits/three.npy
set -eu

if [ $# -ne 3 ]; then
    sed -n '3,8s/^# \{0,1\}//p' "$0"
    exit 2
fi
server=$1
model=$2
picture=$3 # .npy of float32: a head, whose length stands in its bytes 8 and 9, then the numbers
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# ask FILE OPTIONS..: the answer goes to FILE; a refusal is printed with its reason, and the script ends.
ask() {
    answer=$1
    shift
    curl --silent --show-error --fail-with-body --max-time 60 --output "$answer" "$@" || {
        code=$?
        cat "$answer" >&2
        exit "$code"
    }
}

ask "$folder/ready" "$server/v2/models/$model/ready"
ask "$folder/about" "$server/v2/models/$model"
echo "about: $(cat "$folder/about")"
input=$(sed -n 's/.*"inputs":\[{"name":"\([^"]*\)".*/\1/p' "$folder/about")
shape=$(sed -n 's/.*"inputs":\[{[^]]*"shape":\(\[[^]]*\]\).*/\1/p' "$folder/about" | sed 's/-1/1/g') # of one picture

head=$((10 + $(od -An -tu2 -j8 -N2 "$picture")))
tail -c +$((head + 1)) "$picture" >"$folder/data"
bytes=$(wc -c <"$folder/data")

# Numbers in JSON.
numbers=$(od -An -v -tf4 -w4 "$folder/data" | tr -s ' \n' ',' | sed 's/^,//; s/,$//')
printf '{"inputs":[{"name":"%s","datatype":"FP32","shape":%s,"data":[%s]}]}' "$input" "$shape" "$numbers" \
    >"$folder/request"
ask "$folder/reply" -H 'Content-Type: application/json' --data-binary @"$folder/request" \
    "$server/v2/models/$model/infer"
echo "answer: $(cat "$folder/reply")"

# The same as bytes: JSON, whose length a header tells, and the tensor behind it; the answer comes likewise.
printf '{"inputs":[{"name":"%s","datatype":"FP32","shape":%s,"parameters":{"binary_data_size":%s}}],%s}' \
    "$input" "$shape" "$bytes" '"parameters":{"binary_data_output":true}' >"$folder/request"
length=$(wc -c <"$folder/request")
cat "$folder/data" >>"$folder/request"
ask "$folder/reply" -H "Inference-Header-Content-Length: $length" -H 'Content-Type: application/octet-stream' \
    -D "$folder/headers" --data-binary @"$folder/request" "$server/v2/models/$model/infer"
told=$(tr -d '\r' <"$folder/headers" | sed -n 's/^[Ii]nference-[Hh]eader-[Cc]ontent-[Ll]ength: //p')
tail -c +$((told + 1)) "$folder/reply" | od -An -v -tf4 -w4 | awk '
    NR == 1 || $1 > best { best = $1; digit = NR - 1 }
    END { print "digit: " digit }'
