#!/usr/bin/env bash
# gpu.sh: run the tests of the graphs, and a table of loads on a machine with a GPU.
#
#   benchmarks/gpu.sh MODELS TEXTS OUT    # MODELS: float16 bundles of one zh-en model; TEXTS: Chinese sentences, one a line
#
# A line of the table also has the processor time of the server in a second and the utilisation of the GPU, which say what
# it waits for. It needs onnxruntime-gpu, the rooms server, client, export and model, and pytest; nothing is installed.
#
# PYTHON=python3          the interpreter
# PROVIDER=cuda           cpu rehearses
# SECONDS_EACH=6          of each load
# BATCHES="32 128 512"    values of --max-batch-sentences
# LOADS="1:1 64:1 256:1 64:32"    callers:texts in a call
# TESTS=tests/contract    paths for pytest; empty runs none
set -euo pipefail

[ $# = 3 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
models=$1 texts=$2 out=$3
python=${PYTHON:-python3} provider=${PROVIDER:-cuda} tests=${TESTS-tests/contract}
address=127.0.0.1:50161
# Packages that were unpacked into a folder of PYTHONPATH have no command on PATH.
command='import sys; from importlib.metadata import entry_points
sys.exit([*entry_points(group="console_scripts", name="xuanzang")][0].load()())'
mkdir -p "$out"

xuanzang() {
    "$python" -c "$command" "$@"
}

serve() {
    "$python" -c "$command" serve --models "$models" --address "$address" --metrics-address 127.0.0.1:0 --provider "$provider" "$@" \
        > "$out/serve.log" 2>&1 &
    server=$!
    trap 'kill "$server" 2> /dev/null || true' EXIT
    head -n 64 "$texts" | xuanzang translate --address "$address" --wait --source zh --target en > "$out/answers.txt"
}

stop() {
    kill "$server" && wait "$server" || true
}

processor_seconds() {
    awk -v ticks="$(getconf CLK_TCK)" '{print ($14 + $15) / ticks}' "/proc/$server/stat"
}

watch_gpu() {
    : > "$out/gpu.txt"
    command -v nvidia-smi > /dev/null || return 0
    timeout "${SECONDS_EACH:-6}" nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits -l 1 > "$out/gpu.txt" &
}

gpu_share() {
    awk '{sum += $1} END {if (NR) printf "%.0f%%", sum / NR; else print "unknown"}' "$out/gpu.txt"
}

table() {
    local batch load
    for batch in ${BATCHES:-32 128 512}; do
        serve --max-batch-sentences "$batch"
        for load in ${LOADS:-1:1 64:1 256:1 64:32}; do
            watch_gpu
            before=$(processor_seconds)
            xuanzang loadtest --address "$address" "$texts" --source zh --target en --callers "${load%:*}" --connections 8 \
                --texts-per-request "${load#*:}" --seconds "${SECONDS_EACH:-6}" --warm-up 2 --json "$out/load.json" > "$out/load.txt"
            "$python" - "$batch" "$load" "$out/load.json" "$before" "$(processor_seconds)" "$(gpu_share)" "${SECONDS_EACH:-6}" <<'END'
import json, sys
[found] = json.load(open(sys.argv[3]))
times = {name: round(found["latency_ms"][name]) for name in ("p50", "p95", "p99")}
print(f"batch {sys.argv[1]}, callers:texts {sys.argv[2]}: {found['texts_per_second']:.0f} texts/s, {times} ms, {found['codes']}, "
      f"{(float(sys.argv[5]) - float(sys.argv[4])) / float(sys.argv[7]):.1f} cores, GPU {sys.argv[6]}")
END
        done
        stop
    done
}

[ -z "$tests" ] || "$python" -m pytest $tests -q -rfE --provider "$provider" -p no:cacheprovider > "$out/tests.txt" 2>&1 || true
[ -z "$tests" ] || tail -n 30 "$out/tests.txt"
table
