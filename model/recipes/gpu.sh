#!/usr/bin/env bash
# gpu.sh: train zh-en and en-zh on one GPU by the clock, measure them, and pack the checkpoints in pieces that travel.
#
# For a machine with one H100-class GPU, Python 3.12 and torch 2.11 for CUDA 13, without a network. It has run from end
# to end on a CPU only, with tiny sizes (`TINY=1`). On an H200 it prepared both directions in 150 seconds and trained
# them for 40, at 477,000 and 301,000 target tokens/s, when the machine was taken back.
#
#   model/recipes/gpu.sh train corpora.tar.xz OUT MINUTES [DIRECTION...]   # MINUTES of training for each direction
#   model/recipes/gpu.sh join OUT CHECKPOINTS                              # elsewhere: check the pieces, join and unpack
#
# corpora.tar.xz is what pack.py writes. The directions (default: both) are prepared and trained at the same time, so
# that one uses the GPU while the other waits for its CPU. OUT gets pieces of at most
# 16 MB, their SHA-256 sums and report.txt: for two directions of the small preset six files and 59 MB. Nothing is
# installed: packages that are missing (pydantic and what it needs, usually) are taken from PYTHONPATH.
#
# PYTHON=python3       the interpreter
# INIT_zh_en=FOLDER    checkpoint to go on from, and INIT_en_zh; otherwise training begins with random weights
# TRAIN_OPTIONS=...    more flags of `xuanzang train`, such as --compile
# SENTENCES=1000       of each test set, translated by beam search in torch; 0 measures nothing
# TINY=1               the rehearsal: a tiny model and small batches
set -euo pipefail

repository=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3}
piece_bytes=16000000

main() {
    case ${1:-} in
        train) shift && train_all "$@" ;;
        join) shift && join "$@" ;;
        *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
    esac
}

model() {
    PYTHONPATH=$repository/model/src:$repository/client/src${PYTHONPATH:+:$PYTHONPATH} "$python" -m xuanzang.model "$@"
}

train_all() {
    local corpora=$1 out=$2 direction
    minutes=$3
    shift 3
    local directions=("$@")
    [ $# -gt 0 ] || directions=(zh-en en-zh)
    mkdir -p "$out"
    work=$(mktemp -d)
    trap "rm -rf '$work'" EXIT
    tar -xJf "$corpora" -C "$work"
    together prepare "${directions[@]}"
    together train "${directions[@]}"
    # What was trained is safe before it is measured.
    pack "$out"
    for direction in "${directions[@]}"; do
        measure "$direction"
    done > "$out/report.txt"
    cat "$out/report.txt"
}

# Run a step for each direction at once; print the log of one that fails.
together() {
    local step=$1 started=() i
    shift
    for i in "$@"; do
        "$step" "$i" > "$work/$i.$step.log" 2>&1 &
        started+=($!)
    done
    for i in "${!started[@]}"; do
        wait "${started[$i]}" || { shift "$i" && cat "$work/$1.$step.log" >&2 && exit 1; }
    done
}

prepare() {
    local direction=$1 test keep_out=()
    for test in "$work"/tests/*.tsv; do keep_out+=(--keep-out "$test"); done
    # The tokenisers that were packed fold traditional characters already, if they are the default model's.
    model prepare --recipe "$work/$direction.toml" --train "$work/pairs" --output "$work/$direction.data" \
        --tokenizers-from "$work/tokenizers" --no-fold-traditional \
        --valid-share 0.02 --valid-maximum "${VALID_MAXIMUM:-50}" "${keep_out[@]}"
}

train() {
    local direction=$1 options=()
    local init=INIT_${direction//-/_}
    [ -z "${!init:-}" ] || options+=(--init-from "${!init}")
    [ -z "${TINY:-}" ] || options+=(--preset tiny --encoder-layers 2 --batch-tokens 1000 --threads 1)
    # shellcheck disable=SC2206 - flags, separated by spaces
    options+=(${TRAIN_OPTIONS:-})
    model train --recipe "$work/$direction.toml" --data "$work/$direction.data" --output "$work/$direction.run" \
        --max-minutes "$minutes" "${options[@]}"
    model shrink "$work/$direction.run/best" "$work/checkpoints/$direction"
    cp "$work/$direction.run/validations.jsonl" "$work/checkpoints/$direction.validations.jsonl"
}

measure() {
    local direction=$1 test
    [ "${SENTENCES:-1000}" != 0 ] || return 0
    for test in "$work"/tests/*.tsv; do
        # The sets are zh<TAB>en<TAB>group.
        [ "$direction" = zh-en ] && cp "$test" "$work/test.tsv" ||
            awk -F'\t' -v OFS='\t' '{print $2, $1, $3}' "$test" > "$work/test.tsv"
        echo "== $direction, $(basename "$test" .tsv), ${SENTENCES:-1000} sentences, torch, bfloat16 weights"
        model evaluate "$work/checkpoints/$direction" "$work/test.tsv" --limit "${SENTENCES:-1000}" --length-penalty 1.5 |
            grep -v ' pairs  BLEU' || true
    done
}

pack() {
    local out=$1
    rm -f "$out"/checkpoints.tar.*
    # Bfloat16 weights hardly shrink by compression.
    tar -C "$work/checkpoints" -c . | split -b "$piece_bytes" -d - "$out/checkpoints.tar."
    (cd "$out" && sha256sum checkpoints.tar.* > SHA256SUMS)
}

join() {
    local out=$1 checkpoints=$2 folder
    (cd "$out" && sha256sum --check --quiet SHA256SUMS)
    mkdir -p "$checkpoints"
    cat "$out"/checkpoints.tar.* | tar -x -C "$checkpoints"
    for folder in "$checkpoints"/*/; do
        # A checkpoint that cannot be used fails here.
        model try "$folder" "OK" > /dev/null
        echo "$folder"
    done
}

main "$@"
