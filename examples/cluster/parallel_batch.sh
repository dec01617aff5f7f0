#!/bin/sh
# Answers a file of prompts by GNU parallel, on the machines of a list that see the same files.
#
#   parallel_batch.sh MODEL PROMPTS ANSWERS [PARTS [OPTION...]]
#
#   ANSWERS   a folder: cat ANSWERS/*.jsonl
#   PARTS     8
#   OPTION    of parallel: -S machines, --jobs 2
#
# A part whose mica ends before all is answered is tried again, and goes on.
set -eu
model=$1 prompts=$2 answers=$3 parts=${4:-8}
shift 3
[ $# = 0 ] || shift
mkdir -p "$answers"
seq "$parts" | parallel --retries 20 "$@" \
  mica batch --quiet --shard "{}/$parts" --output "$answers/{}.jsonl" "$model" "$prompts"
