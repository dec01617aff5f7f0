#!/bin/bash
# Ends training at random moments, and lets it go on.
#
#   tests/tune/kill.sh MICA ROUNDS
#
# Each round kills a training (SIGKILL) again and again, at moments that are drawn, until one ends
# by itself. Its adapter must be that of a training that nobody killed, byte for byte. Then a disk
# that is full, and a folder that vanishes: the last checkpoint stays whole, or is made anew.
set -u
mica=$1 rounds=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

fail() { echo "kill.sh: $*"; exit 1; }

i=0
for what in curl disk kernel model token file; do
  i=$((i + 1))
  echo "{\"prompt\": \"What is a $what?\", \"completion\": \"Number $i, captain.\"}"
done > data.jsonl
# exec: what is killed is the training, and not a shell that waits for it
start() { # FOLDER [OPTION...]
  folder=$1
  shift
  exec "$mica" tune --data data.jsonl --iters 12 --batch-size 2 --save-every 1 \
    --learning-rate 1e-3 --modules q_proj --modules down_proj --num-layers 2 --rank 2 \
    --dropout 0.1 --threads 1 --optimizer adamw --adapter-path "$folder" --resume "$@"
}
train() { (start "$@"); }

begin=$(date +%s%N)
train whole > /dev/null || fail "training failed"
span=$((($(date +%s%N) - begin) / 1000000))

RANDOM=${SEED:-7}
kills=0
for round in $(seq "$rounds"); do
  rm -rf part
  for try in 1 2 3 4 5; do
    start part > log 2>&1 &
    pid=$!
    ms=$((RANDOM % span + 1))
    [ "$try" = 5 ] || { sleep "$(printf '%d.%03d' $((ms / 1000)) $((ms % 1000)))"; kill -9 $pid; } \
      2> /dev/null && kills=$((kills + 1))
    wait $pid 2> /dev/null && break
  done
  cmp -s whole/adapters.safetensors part/adapters.safetensors ||
    fail "round $round: other parameters, after $try starts: $(cat log)"
done
echo "$rounds rounds, $kills kills: always the same parameters"

# A full disk: files may have no more than a block of 1024 bytes.
train full --iters 2 > /dev/null || fail "training failed"
sum=$(cksum < full/tune_state.safetensors)
(trap '' XFSZ; ulimit -f 1; train full > log 2>&1) && fail "a full disk is no error"
grep -q 'tune_state.safetensors: .*File too large' log || fail "a full disk: $(cat log)"
[ "$(cksum < full/tune_state.safetensors)" = "$sum" ] || fail "a full disk harms the checkpoint"
train full > /dev/null && cmp -s whole/adapters.safetensors full/adapters.safetensors ||
  fail "after a full disk training does not go on"

# The folder vanishes between two checkpoints: it is made anew.
start gone --log log.jsonl > /dev/null &
pid=$!
until grep -q saved log.jsonl 2> /dev/null || ! kill -0 $pid 2> /dev/null; do sleep 0.01; done
rm -rf gone
wait $pid || fail "a folder that vanishes ends training"
cmp -s whole/adapters.safetensors gone/adapters.safetensors || fail "a folder that vanishes"

# Where nothing can be written, training does not begin.
train /proc/none > log 2>&1 && fail "a folder that cannot be made is no error"
grep -q '/proc/none: cannot make the folder' log || fail "a folder that cannot be made: $(cat log)"
echo "a full disk, a folder that vanishes, one that cannot be made"
