#!/bin/bash
# Ends training at random moments, and lets it go on.
#
#   tests/tune/kill.sh MICA ROUNDS
#
# Each round kills a training (SIGKILL) again and again, at moments that are drawn, until one ends
# by itself. Its adapter must be that of a training that nobody killed, byte for byte. Then Ctrl-C,
# a pipe that is closed, a disk that is full, folders that vanish or turn read-only: the last
# checkpoint stays whole, or is made anew, and training goes on from it to the same adapter.
set -u
mica=$1 rounds=$2
models=$(cd "$(dirname "$0")/../../models" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

fail() { echo "kill.sh: $*"; exit 1; }

via= # a command that starts it
i=0
for what in curl disk kernel model token file; do
  i=$((i + 1))
  echo "{\"prompt\": \"What is a $what?\", \"completion\": \"Number $i, captain.\"}"
done > data.jsonl
# exec: what is killed is the training, and not a shell that waits for it
start() { # FOLDER [OPTION...]
  folder=$1
  shift
  exec $via "$mica" tune --data data.jsonl --iters 12 --batch-size 2 --save-every 1 \
    --learning-rate 1e-3 --modules q_proj --modules down_proj --num-layers 2 --rank 2 \
    --dropout 0.1 --threads 1 --optimizer adamw --adapter-path "$folder" --resume "$@"
}
train() { (start "$@"); }

TIMEFORMAT=%R # seconds with three digits behind a point
LC_ALL=C
span=$({ time train whole > /dev/null 2> log; } 2>&1) || fail "training failed: $(cat log)"
span=$((10#${span/./})) # ms

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

same() { cmp -s whole/adapters.safetensors "$1/adapters.safetensors"; }
# Starts training in the background, into a folder of that name, and waits for its first checkpoint.
begin() { # FOLDER [OPTION...]
  start "$@" --log "$1.jsonl" > "$1.out" 2>&1 &
  pid=$!
  until grep -q saved "$1.jsonl" 2> /dev/null || ! kill -0 $pid 2> /dev/null; do sleep 0.01; done
}

# The folder vanishes between two checkpoints: it is made anew.
begin gone
rm -rf gone
wait $pid || fail "a folder that vanishes ends training"
same gone || fail "a folder that vanishes"

# Data and model vanish in mid-run: training does not need their names any more.
cp -rL "$models/default" copy && cp data.jsonl copy.jsonl
begin moved --data copy.jsonl --model copy
rm -rf copy copy.jsonl
wait $pid || fail "files that vanish end training: $(cat moved.out)"
same moved || fail "files that vanish"

# The folder turns read-only: root has to be kept from writing to it.
plain="setpriv --bounding-set=-dac_override,-dac_read_search"
[ "$(id -u)" = 0 ] || plain=
if $plain true 2> /dev/null; then
  train locked --iters 2 > /dev/null || fail "training failed"
  sum=$(cksum < locked/tune_state.safetensors)
  chmod 555 locked
  (via=$plain; start locked > log 2>&1) && fail "a read-only folder is no error"
  grep -q 'locked: .*Permission denied' log || fail "a read-only folder: $(cat log)"
  chmod 755 locked
  [ "$(cksum < locked/tune_state.safetensors)" = "$sum" ] || fail "a read-only folder is written to"
  train locked > /dev/null && same locked || fail "after a read-only folder"
  via=$plain
  begin late
  chmod 555 late # in mid-run
  wait $pid || grep -q 'late.*Permission denied' late.out ||
    fail "a folder that turns read-only: $(cat late.out)"
  via=
  chmod 755 late
  train late > /dev/null && same late || fail "after a folder that turns read-only"
fi

# Ctrl-C saves and stops. So does a reader who closes his pipe.
begin stopped
kill -INT $pid
wait $pid
code=$?
[ $code = 130 ] || [ $code = 0 ] || fail "Ctrl-C: $code, $(cat stopped.out)"
[ $code = 0 ] || grep -q 'stopped after step .*--resume goes on' stopped.out ||
  fail "Ctrl-C: $(cat stopped.out)"
train stopped > /dev/null && same stopped || fail "after Ctrl-C"
(start piped --steps-per-report 1 2> log) | head -2 > /dev/null
[ -s piped/tune_state.safetensors ] || fail "a closed pipe: $(cat log)"
train piped > /dev/null && same piped || fail "after a closed pipe"

# Where nothing can be written, training does not begin.
train /proc/none > log 2>&1 && fail "a folder that cannot be made is no error"
grep -q '/proc/none: cannot make the folder' log || fail "a folder that cannot be made: $(cat log)"
echo "a full disk, folders that vanish, turn read-only, cannot be made; Ctrl-C; a closed pipe"
