#!/usr/bin/env bash
# gpu.sh: train zh-en and en-zh on one GPU by the clock, measure them, and pack the checkpoints in pieces that travel.
#
# For a machine with one H100-class GPU, Python 3.12 and torch 2.11 for CUDA 13, without a network. It has run from
# end to end on a CPU, with tiny sizes (`TINY=1`), and never on a GPU.
#
#   model/recipes/gpu.sh train corpora.tar.xz OUT MINUTES [DIRECTION...]   # MINUTES of training for each direction
#   model/recipes/gpu.sh join OUT CHECKPOINTS                              # elsewhere: check the pieces, join and unpack
#
# corpora.tar.xz is what pack.py writes. Both directions (the default) with 8 minutes each are to take 20 to 25 minutes;
# where commands end sooner, give one direction at a time, each with an OUT of its own. At 700,000 target tokens/s eight
# minutes are 340 million tokens. OUT gets pieces of at most 16 MB, their SHA-256 sums and report.txt: for two directions
# of the small preset six files and 59 MB. Nothing is installed: packages that are missing (pydantic and what it needs,
# usually) are taken from PYTHONPATH.
#
# PYTHON=python3       the interpreter
# INIT_zh_en=FOLDER    checkpoint to go on from, and INIT_en_zh; otherwise training begins with random weights
# TRAIN_OPTIONS=...    more flags of `xuanzang train`, such as --compile
# SENTENCES=1000       of each test set, translated by beam search in torch
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
    local corpora=$1 out=$2 minutes=$3 work
    shift 3
    local directions=("$@")
    [ $# -gt 0 ] || directions=(zh-en en-zh)
    mkdir -p "$out"
    work=$(mktemp -d)
    trap "rm -rf '$work'" EXIT
    tar -xJf "$corpora" -C "$work"
    # Preparing takes one core and a minute or two each: all at once, beside nothing else.
    local preparing=() direction
    for direction in "${directions[@]}"; do
        prepare "$direction" "$work" > "$work/$direction.prepare.log" 2>&1 &
        preparing+=($!)
    done
    local i
    for i in "${!preparing[@]}"; do
        wait "${preparing[$i]}" || { cat "$work/${directions[$i]}.prepare.log" >&2 && exit 1; }
    done
    : > "$out/report.txt"
    for direction in "${directions[@]}"; do
        train "$direction" "$work" "$minutes"
        measure "$direction" "$work" >> "$out/report.txt"
        # After each direction, so that what is done is safe when time runs out.
        pack "$work" "$out"
    done
    cat "$out/report.txt"
}

prepare() {
    local direction=$1 work=$2 test keep_out=()
    for test in "$work"/tests/*.tsv; do keep_out+=(--keep-out "$test"); done
    # The tokenisers that were packed fold traditional characters already, if they are the default model's.
    model prepare --recipe "$work/$direction.toml" --train "$work/pairs" --output "$work/$direction.data" \
        --tokenizers-from "$work/tokenizers" --no-fold-traditional \
        --valid-share 0.02 --valid-maximum "${VALID_MAXIMUM:-50}" "${keep_out[@]}"
}

train() {
    local direction=$1 work=$2 minutes=$3 options=()
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
    local direction=$1 work=$2 test
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
    local work=$1 out=$2
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
