#!/bin/sh
# Ranks with a GPU each, by NCCL: bits first, then rates of one GPU and of N. On one host with N
# GPUs and NCCL, in about 8 minutes; no MPI is needed, for ranks start over TCP.
#
#   bench/ranks_cuda.sh N BUILD OUT     from the project's root; N: 2, 4
#
# BUILD is a build with kernels (MICA_CUDA=ON), of which mica and bench/random_model are needed,
# with the shared libraries that `ldd` names (in BUILD/lib, if the machine lacks them); of the
# project models/default. NCCL is what MICA_NCCL_LIBRARY names, that of PyTorch, or libnccl.so.2 of
# the system. OUT receives a log each; lines of results come as they are there, those that matter
# most first, and each part has a limit. 21 GB of models go to $MODELS (default: a new folder of
# /tmp).
#
# Marks: bf16, decode at 1.5 (2 GPUs) and 2.2 (4) times one GPU's rate, prompts of 2,048 at 1.7 and
# 3.0; 4 bit, 64 sequences at 1.5 and 2.3. NVLink multicast stays off.
set -u
count=$1
build=$2
out=$3
models=${MODELS:-$(mktemp -d)}
mica=$build/mica
port=29500
mkdir -p "$out" "$models"
export NCCL_NVLS_ENABLE=0 NCCL_DEBUG="${NCCL_DEBUG:-WARN}"
export LD_LIBRARY_PATH="$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
if [ -z "${MICA_NCCL_LIBRARY:-}" ]; then
  found=$(python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])' 2> /dev/null)
  [ ! -e "$found/lib/libnccl.so.2" ] || export MICA_NCCL_LIBRARY="$found/lib/libnccl.so.2"
fi

# ranks SECONDS COMMAND...: as `count` ranks; what rank 0 prints is this one's. Each rank has ended
# when it returns; $out/rank-R has what the others wrote.
ranks() {
  seconds=$1 port=$((port + 1)) r=1
  shift
  export WORLD_SIZE="$count" MASTER_ADDR=127.0.0.1 MASTER_PORT="$port"
  while [ $r -lt "$count" ]; do
    RANK=$r LOCAL_RANK=$r timeout -k 5 "$seconds" "$mica" "$@" --device cuda < /dev/null \
      > "$out/rank-$r" 2>&1 &
    r=$((r + 1))
  done
  RANK=0 LOCAL_RANK=0 timeout -k 5 "$seconds" "$mica" "$@" --device cuda < /dev/null
  status=$?
  unset WORLD_SIZE MASTER_ADDR MASTER_PORT
  return $status
}
one() { # SECONDS COMMAND...
  seconds=$1
  shift
  timeout -k 5 "$seconds" "$mica" "$@" --device cuda < /dev/null
}

# The models are written meanwhile, by processes that are waited for before their rates.
"$build"/bench/random_model llama3.1-8b models/default "$models/4bit" 4bit > "$out/4bit.log" 2>&1 &
made_4bit=$!
"$build"/bench/random_model llama3.1-8b models/default "$models/bf16" bf16 > "$out/bf16.log" 2>&1 &
made_bf16=$!

nvidia-smi topo -m > "$out/topology" 2>&1
echo "== NCCL is used: ${MICA_NCCL_LIBRARY:-libnccl.so.2}; nothing is said about the host"
ranks 60 score models/default "curl is a" > "$out/score" 2> "$out/errors"
echo "status $?"
cat "$out/errors"

echo "== the same tokens and logits as one GPU, by matrices and by layers"
same() { # NAME COMMAND...
  name=$1
  shift
  one 60 "$@" > "$out/$name-one" 2> "$out/$name-one.errors"
  for layout in --tensor-parallel --pipeline-parallel; do
    ranks 60 "$@" $layout "$count" > "$out/$name$layout" 2> "$out/$name$layout.errors"
    cmp "$out/$name-one" "$out/$name$layout" && echo "$name $layout $count: same"
  done
}
same generate generate models/default "curl is" --max-tokens 64 -T 0
same score score models/default "curl is a command line tool" --tokens

echo "== 4 bit and bf16: tokens a second of one sequence, and of a prompt of 2,048"
prompt=$(i=0; while [ $i -lt 2000 ]; do printf 'curl '; i=$((i + 1)); done)
rate() { # NAME COMMAND...: what it says of its rates
  name=$1
  shift
  "$@" > /dev/null 2> "$out/$name"
  echo "$name: status $?, $(grep -h 'tok/s' "$out/$name" | tail -n 1)"
}
rates() { # FORMAT
  model=$models/$1
  short="generate $model curl --max-tokens 256 --ignore-eos -T 0"
  rate "$1-one-decode" one 60 $short
  rate "$1-tensor-decode" ranks 60 $short --tensor-parallel "$count"
  rate "$1-one-prompt" one 60 generate "$model" "$prompt" --max-tokens 2 --ignore-eos -T 0
  rate "$1-tensor-prompt" ranks 60 generate "$model" "$prompt" --max-tokens 2 --ignore-eos -T 0
  rate "$1-pipeline-decode" ranks 60 $short --pipeline-parallel "$count"
  rate "$1-pipeline-prompt" ranks 60 generate "$model" "$prompt" --max-tokens 2 --ignore-eos \
    -T 0 --pipeline-parallel "$count"
}

# 64 answers of 128 tokens at once, the second time.
cat > "$out/many.py" <<'END'
import json, sys, threading, time, urllib.request
address, tokens, n = sys.argv[1], 128, 64
until = time.time() + 60
while True:
    try:
        urllib.request.urlopen(address + "/health", timeout=5)
        break
    except OSError:
        if time.time() > until:
            raise
        time.sleep(0.2)
def ask(i, found):
    body = {"prompt": f"{i} curl is", "max_tokens": tokens, "ignore_eos": True, "temperature": 0}
    with urllib.request.urlopen(urllib.request.Request(
            address + "/v1/completions", json.dumps(body).encode(),
            {"Content-Type": "application/json"}), timeout=60) as answer:
        found.append(json.load(answer)["usage"]["completion_tokens"])
for turn in range(2):
    found, begun = [], time.time()
    threads = [threading.Thread(target=ask, args=(i, found)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.time() - begun
print(f"{len(found)} answers, {sum(found)} tokens, {sum(found) / took:.0f} tokens a second")
END
many() { # one|ranks FORMAT
  at=$((18080 + port % 1000))
  "$1" 90 serve "$models/$2" --port $at --rows 64 > "$out/serve-$1-$2" 2>&1 &
  echo "$2, 64 sequences, $1: $(timeout 80 python3 "$out/many.py" "http://127.0.0.1:$at" 2>&1 |
    tail -n 1)"
  pkill -INT -P $! timeout 2> /dev/null || kill -INT $! # timeout gives it to mica
  wait $!
  port=$((port + 1))
}

wait $made_4bit
rates 4bit
many one 4bit
many ranks 4bit
wait $made_bf16
rates bf16

echo "== a rank that stands still: a status with its number within 30 s"
export WORLD_SIZE="$count" MASTER_ADDR=127.0.0.1 MASTER_PORT=$((port + 100)) r=$((count - 1))
while [ $r -ge 0 ]; do
  RANK=$r LOCAL_RANK=$r "$mica" generate "$models/4bit" "curl is" --max-tokens 100000 --ignore-eos \
    --device cuda < /dev/null > "$out/gone-$r.out" 2> "$out/gone-$r" &
  pids="${pids:-} $!"
  r=$((r - 1))
done
stopped=${pids# }
stopped=${stopped%% *}
first=${pids##* }
sleep 20
kill -STOP "$stopped"
start=$(date +%s)
wait "$first"
echo "status $?, after $(($(date +%s) - start)) s: $(grep -m 1 'no sign of life' "$out/gone-0")"
kill -KILL $pids 2> /dev/null
