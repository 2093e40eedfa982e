#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# run.sh PROGRAMS SEEDS OUT SECONDS [NAMES]: runs fuzz targets, KILN_TEST_JOBS (1) at once. PROGRAMS has fuzz_NAME,
# SEEDS a folder of seeds for each; OUT gets corpora/, found/ and NAME.log. A line for each target; exit status 1 if one
# failed. `./dev fuzz` calls it, and so does whoever carries the programs to another machine (`./dev fuzz --carry`).
set -euo pipefail
export programs=$1 seeds=$2 out=$3 seconds=$4
shift 4

one() {
    local name=$1 log=$out/$1.log
    mkdir -p "$out/corpora/$name" "$out/found/$name"
    if "$programs/fuzz_$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$out/found/$name/" "$out/corpora/$name" "$seeds/$name" >"$log" 2>&1; then
        echo "fuzz $name: $(awk '/number_of_executed_units/ {print $2}' "$log") inputs, nothing found"
    else
        echo "fuzz $name: FAILED, see $log and $out/found/$name"
        return 1
    fi
}
export -f one

if [[ $# -eq 0 ]]; then
    mapfile -t names < <(find "$programs" -maxdepth 1 -type f -name 'fuzz_*' | sed 's/.*fuzz_//' | sort)
    set -- "${names[@]}"
fi
printf '%s\n' "$@" | xargs -P "${KILN_TEST_JOBS:-1}" -I NAME bash -c 'one NAME'
