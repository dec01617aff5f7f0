#!/bin/sh
# What to run on a machine with a GPU: what the emulated driver cannot show, in calls of less than
# ten minutes each.
#
#   bench/cuda_machine.sh BUILD OUT speed|many|tests|sanitize|long [ROOT]    from the project's root
#
# speed     loads all kernels, checks a few ops, then the rates of answers and prompts, and where a
#           step's time goes, for models with random weights (bench/random_model)
# many      batches, clients of a schedule, long prompts and training, likewise
# tests     goldens of ops, models, families, adapters, sessions, sampling and gradients, streams,
#           batches, and layers on two devices
# sanitize  compute-sanitizer over tests of ops and sessions, four tools
# long      a million tokens and a hundred opens and closes, with the memory of host and GPU
#
# What it is to show, by the name of the line that tells:
#
#   load                           every kernel loads, with the shared memory it is started with
#   op-*                           one row times bf16, 8 bits, mxfp4 and experts is right
#   bench-*                        rates; of bf16: -bf16, of 8 experts: -a3b, of mxfp4: gpt-oss
#   profile-*                      where a step's time goes
#   the lines of `tests`           goldens of all rooms
#   session-stream                 an endless answer is flat
#   stream-no-graphs               whether what is not is the driver's graphs
#   task-batch, session-places     batches, and places of a pool
#   memcheck-* ... synccheck-*     no invalid or racing access, nothing read that was not written
#   tokens-1, tokens-2             a million tokens are flat
#   opens                          a hundred opens and closes are flat
#   MiB first and last of `long`   nothing is left on the GPU
#   layers                         layers on two devices, and their rate
#
# BUILD is a build with kernels (MICA_CUDA=ON), or what bench/cuda_pack.sh has taken of one. ROOT is
# where the project lay when BUILD was made: tests look for fixtures there, and it becomes a link to
# this folder where there is none. OUT receives a log each. A line tells how each part ended, and
# how long it took. With MICA_DRY set, all models are the default one, and runs are short: for the
# emulated driver.
set -u
build=$1
out=$2
call=$3
work=$(mktemp -d)
mkdir -p "$out"
trap 'rm -rf "$work"' EXIT
export MICA_TEST_DEVICE=cuda MICA_TEST_BRIEF=1
export LD_LIBRARY_PATH="$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
PATH="$build/sanitizer/bin:$PATH"
if [ "${4:-}" ] && [ ! -e "$4" ]; then
  mkdir -p "$(dirname "$4")"
  ln -s "$PWD" "$4"
fi

# A call ends within ten minutes: what would begin later is left out.
started=$(date +%s)
room_for() {
  left=$((570 - $(date +%s) + started))
  [ $left -gt 5 ]
}

# part NAME SECONDS COMMAND...
part() {
  part_name=$1 part_seconds=$2
  shift 2
  room_for || {
    echo "$part_name: left out, for want of time"
    return
  }
  [ "$part_seconds" -lt $left ] || part_seconds=$left
  part_began=$(date +%s)
  timeout "$part_seconds" "$@" > "$out/$part_name.log" 2>&1
  part_status=$?
  echo "$part_name: status $part_status, $(($(date +%s) - part_began)) s"
  [ $part_status = 0 ] || grep -aE 'ERROR|FAILED|rror:' "$out/$part_name.log" | head -5
}

# tests ROOM SECONDS NAME...: tests of a room, one after the other
tests() {
  room=$1 seconds=$2
  shift 2
  for name; do
    part "$room-$name" "$seconds" "$build/tests/test_$room" "$name"
  done
}

# model NAME SHAPE [FORMAT]
model() {
  if [ "${MICA_DRY:-}" ]; then
    cp -r models/default "$work/$1"
  else
    "$build/bench/random_model" "$2" models/default "$work/$1" ${3:+"$3"} \
      > "$out/model-$1.log" 2>&1
  fi
  : > "$work/$1.made"
}

# await NAME: a model that another process makes
await() {
  tries=0
  while [ ! -e "$work/$1.made" ] && [ $tries -lt 120 ]; do
    sleep 1
    tries=$((tries + 1))
  done
}

# rates NAME SECONDS OPTION...: of a model, which is removed then
rates() {
  rates_name=$1 rates_seconds=$2
  shift 2
  await "$rates_name"
  [ -z "${MICA_DRY:-}" ] || set -- -p 8 -n 4 -r 1
  part "bench-$rates_name" "$rates_seconds" \
    "$build/mica" bench "$work/$rates_name" --device cuda "$@"
  tail -n 3 "$out/bench-$rates_name.log"
  part "profile-$rates_name" 40 env MICA_CUDA_PROFILE="$out/profile-$rates_name.txt" \
    "$build/mica" bench "$work/$rates_name" --device cuda -p 8 -n "${MICA_DRY:-64}" -r 1
  rm -rf "${work:?}/$rates_name"
}

gpu_memory() {
  command -v nvidia-smi > /dev/null && nvidia-smi --query-gpu=memory.used --format=csv,noheader
}

# The largest are made first and last, in turn: a disk of 64 GB has room for all but one of them.
speed() {
  part load 60 "$build/tests/test_op" make
  model qwen3-0.6b qwen3-0.6b &
  model llama3.2-1b llama3.2-1b &
  model gemma3-1b gemma3-1b &
  model llama3.1-8b llama3.1-8b &
  model qwen3-30b-a3b qwen3-30b-a3b &
  model gpt-oss-20b gpt-oss-20b mxfp4 &
  tests op 40 norm matmul gather_mm quant attention recurrence
  rates qwen3-0.6b 40 -p 128,2048 -n 128 -r 5
  model llama3.1-8b-bf16 llama3.1-8b bf16 &
  rates llama3.1-8b 60 -p 128,2048 -n 128 -r 5
  rates llama3.2-1b 40 -p 128,2048 -n 128 -r 5
  rates gemma3-1b 40 -p 128,2048 -n 128 -r 5
  rates llama3.1-8b-bf16 90 -p 128,2048 -n 128 -r 3
  rates qwen3-30b-a3b 90 -p 128,2048 -n 128 -r 3
  rates gpt-oss-20b 90 -p 128,2048 -n 128 -r 3
}

# clients NAME CLIENTS PROMPT ANSWER: that ask once, each
clients() {
  part "clients-$1-$2-$3" 90 env MICA_DEVICE=cuda \
    "$build/bench/schedule" "$work/$1" "$2" "$3" "$4" 0 1
  tail -n 1 "$out/clients-$1-$2-$3.log"
}

many() {
  model llama3.1-8b llama3.1-8b &
  model qwen3-0.6b qwen3-0.6b
  short=128 long=2048 answer=128
  [ -z "${MICA_DRY:-}" ] || short=8 long=16 answer=4
  clients qwen3-0.6b 64 16 $answer
  await llama3.1-8b
  clients llama3.1-8b 8 16 $answer
  clients llama3.1-8b 8 $long $answer
  clients llama3.1-8b 64 $((4 * short)) $answer
  clients llama3.1-8b 64 $long $((answer / 2))
  part train 90 env MICA_DEVICE=cuda "$build/bench/train_step" "$work/llama3.1-8b" $long 4
  tail -n 4 "$out/train.log"
  part train-profile 60 env MICA_DEVICE=cuda MICA_CUDA_PROFILE="$out/train-profile.txt" \
    "$build/bench/train_step" "$work/llama3.1-8b" $long 2
  rates llama3.1-8b 90 -p $((4 * short)),$((8 * long)) -n 4 -r 3
}

# Four at a time: each waits for the GPU most of the time.
goldens() {
  part load 60 "$build/tests/test_op" make
  (tests op 120 golden contract arrange binary convert index loss make matmul norm quant reduce rope
    tests op 120 scan select shape sort unary attention attention_gradient gather_mm layer nn
    tests op 120 rows attention_wide paged recurrence window random custom conv fft) &
  (tests model 200 families gradient adapter mla hybrids
    tests model 120 lm arithmetic experts packing published) &
  (tests session 200 session_golden sampler session_file places prefix swap
    tests session 120 session tokens pool logits follow constraint draft device_draw) &
  (tests session 200 stream
    tests task 120 batch encode embed score
    tests grad 120 ops control function checkpoint mixed
    tests schedule 120 schedule families states drafts) &
  wait
  # where the driver's graphs are what a heap grows by, it does not grow without them
  part stream-no-graphs 60 env MICA_CUDA_GRAPHS=off "$build/tests/test_session" stream
}

# tool NAME: over tests of ops and sessions
tool() {
  for name in norm matmul gather_mm quant rope loss rows attention_wide; do
    part "$1-$name" 60 compute-sanitizer --tool "$1" --error-exitcode 9 \
      "$build/tests/test_op" $name
  done
  part "$1-session" 90 compute-sanitizer --tool "$1" --error-exitcode 9 \
    "$build/tests/test_session" session_golden
}

# All at a time: one after the other, the last would have no time.
sanitize() {
  command -v compute-sanitizer > /dev/null || {
    echo "sanitize: there is no compute-sanitizer"
    return
  }
  for name in memcheck racecheck initcheck synccheck; do
    tool $name &
  done
  wait
}

# Two processes, which wait for the GPU in turn, have half a million tokens each.
long() {
  each=500000 opens=100
  [ -z "${MICA_DRY:-}" ] || { each=20 opens=3; }
  gpu_memory
  for i in 1 2; do
    part "tokens-$i" 400 "$build/bench/memory" models/default 1 $each cuda &
  done
  wait
  tail -n 12 "$out/tokens-1.log" "$out/tokens-2.log"
  part opens 100 "$build/bench/memory" models/default 0 20 cuda $opens
  tail -n 4 "$out/opens.log"
  gpu_memory
  part layers 40 "$build/mica" bench models/default --device cuda --gpu-layers 2 -p 128 -n 32 -r 1
  tail -n 2 "$out/layers.log"
}

"$build/mica" devices > "$out/devices.log" 2>&1
head -5 "$out/devices.log"
case $call in
  speed) speed ;;
  many) many ;;
  tests) goldens ;;
  sanitize) sanitize ;;
  long) long ;;
  *)
    echo "cuda_machine.sh: no call $call" >&2
    exit 2
    ;;
esac
wait
