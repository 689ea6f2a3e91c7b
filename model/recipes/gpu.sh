#!/usr/bin/env bash
# gpu.sh: train one direction on a borrowed GPU by the clock. Prepared data travel there, the checkpoint comes back in pieces.
#
#   model/recipes/gpu.sh pack DATA ARCHIVE.tar.xz RECIPE [CHECKPOINT]  # here: DATA is what `xuanzang prepare` wrote
#   model/recipes/gpu.sh train ARCHIVE.tar.xz OUT MINUTES              # there
#   model/recipes/gpu.sh join OUT ARCHIVE CHECKPOINTS                  # here: check the pieces, join and unpack
#
# The machine needs a GPU of the H100's class, Python 3.12 and torch 2.11 for CUDA 13, but no network. Nothing is installed:
# packages that are missing (pydantic and what it needs, usually) are taken from PYTHONPATH. Two directions may train at
# the same time: each uses the GPU while the other waits for its CPU. With CHECKPOINT training goes on from its weights.
# OUT gets pieces of at most 16 MB, their SHA-256 sums and the log: for the small preset two pieces, 29 MB.
#
# PYTHON=python3       the interpreter
# TRAIN_OPTIONS=...    more flags of `xuanzang train`, such as --compile
# TINY=1               the rehearsal: a tiny model and small batches
set -euo pipefail

repository=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3}
piece_bytes=16000000

main() {
    case ${1:-} in
        pack | train | join) "$@" ;;
        *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
    esac
}

model() {
    PYTHONPATH=$repository/model/src:$repository/client/src${PYTHONPATH:+:$PYTHONPATH} "$python" -m xuanzang.model "$@"
}

pack() {
    local data=$1 archive=$2 recipe=$3 checkpoint=${4:-} folder
    folder=$(mktemp -d)
    trap "rm -rf '$folder'" EXIT
    cp -r "$data" "$folder/data"
    cp "$recipe" "$folder/recipe.toml"
    [ -z "$checkpoint" ] || cp -r "$checkpoint" "$folder/checkpoint"
    tar -C "$folder" -c . | xz -6 -T0 > "$archive"
    ls -l "$archive"
}

train() {
    local archive=$1 out=$2 minutes=$3 options=() work name
    name=$(basename "$archive" .tar.xz)
    work=$(mktemp -d)
    trap "rm -rf '$work'" EXIT
    mkdir -p "$out"
    tar -C "$work" -xJf "$archive"
    [ ! -d "$work/checkpoint" ] || options+=(--init-from "$work/checkpoint")
    [ -z "${TINY:-}" ] || options+=(--preset tiny --encoder-layers 2 --batch-tokens 1000 --threads 1)
    # shellcheck disable=SC2206 - flags, separated by spaces
    options+=(${TRAIN_OPTIONS:-})
    model train --recipe "$work/recipe.toml" --data "$work/data" --output "$work/run" --max-minutes "$minutes" \
        "${options[@]}" 2> "$out/$name.log" || { tail -n 20 "$out/$name.log" >&2 && exit 1; }
    model shrink "$work/run/best" "$work/trained/$name"
    cp "$work/run/validations.jsonl" "$work/trained/$name/"
    # Bfloat16 weights hardly shrink by compression.
    tar -C "$work/trained" -c "$name" | split -b "$piece_bytes" -d - "$out/$name.tar."
    (cd "$out" && sha256sum "$name".tar.* > "$name.sha256")
}

join() {
    local out=$1 name=$2 checkpoints=$3
    (cd "$out" && sha256sum --check --quiet "$name.sha256")
    mkdir -p "$checkpoints"
    cat "$out/$name".tar.* | tar -x -C "$checkpoints"
    # A checkpoint that cannot be used fails here.
    model try "$checkpoints/$name" "OK" > /dev/null
    echo "$checkpoints/$name"
}

main "$@"
