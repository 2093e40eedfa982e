#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Shows the backend suite (first argument) a pair without a case, and a matrix (made from the second) with a mark
# too many: it has to fail for both, and say so.
set -u
seen=$(mktemp)
trap 'rm -f "$seen" "$seen.md"' EXIT

fail() {
    echo "coverage_can_fail: $*"
    cat "$seen"
    exit 1
}

"$1" --cases=0 add coverage >"$seen" && fail "a pair without a case passes"
grep -q 'a hole: add u8: no case with elements' "$seen" || fail "the hole is not named"
sed 's/^\(| .add. | kernel |\)  |/\1 x |/' "$2" >"$seen.md"
cmp -s "$2" "$seen.md" && fail "the matrix has no row of add"
"$1" --matrix="$seen.md" add coverage >"$seen" && fail "a wrong matrix passes"
grep -q "the matrix says 'x' for add bool, the run ' '" "$seen" || fail "the mark is not named"
"$1" --matrix="$2" add coverage >"$seen" || fail "the right matrix does not pass"
