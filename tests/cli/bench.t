A row for each number of threads and size of prompt; what does not fit the context is left out.

  $ mica bench model -p 4,16,4000 -n 3 -t 1,2 -r 2 2> err | tail -5 | awk '{ print $1, $2, $4, NF }'
  threads prompt tok/s 11
  1 4 3 9
  1 16 3 9
  2 4 3 9
  2 16 3 9
  $ sort -u err
  mica: skipped: 4000 and 3 tokens do not fit the context of 2048

It prints the kernels in use, whatever was requested: `ref` has no fast kernels with bf16.

  $ ln -s $ROOT/tests/fixtures/models/qwen3_tied bf16; export MICA_CPU=ref
  > kernels() { mica bench -p 4 -n 1 -t 1 -r 1 "$@" | sed -n '/^kernels/,/^median/p' | grep -v median; }
  > kernels model; kernels model --arithmetic exact --cache int8; kernels bf16
  > mica bench bf16 -p 4 -n 1 -t 1 -r 1 --json | grep '^  "arithmetic'
  kernels fast: 4 bit, groups of 32 (affine) by int8; one row ref, many ref
          attention: caches of bf16 by f32; one row ref, many ref
  kernels exact: 4 bit, groups of 32 (affine) by f32; one row ref, many ref
          attention: caches of int8 by f32; one row ref, many ref
  kernels exact: bf16 by f32; one row ref, many ref
          attention: caches of bf16 by f32; one row ref, many ref
    "arithmetic": "exact",

The same as JSON.

  $ MICA_CPU=ref mica bench model -p 4,16 -n 3 -t 1 -r 1 --json > out
  > sed -E 's/(_rate|_bytes)": [0-9.]*/\1": N/g; s/("description"): ".*"/\1: "..."/' out
  {
    "mica": "0.1.0",
    "model": "model",
    "device": "cpu",
    "description": "...",
    "architecture": "ref",
    "arithmetic": "fast",
    "quantization": "4 bit, groups of 32 (affine)",
    "dtype": "bf16",
    "weight_bytes": N,
    "active_bytes": N,
    "kernels": [
      {"kernel_for": "weights", "matrix": "4 bit, groups of 32 (affine)", "arithmetic": "fast", "activations": "int8", "one_row": "ref", "many_rows": "ref"},
      {"kernel_for": "attention", "matrix": "bf16", "arithmetic": "exact", "activations": "f32", "one_row": "ref", "many_rows": "ref"}
    ],
    "repeat": 1,
    "results": [
      {"threads": 1, "prompt_tokens": 4, "generated_tokens": 3, "prefill_rate": N, "decode_rate": N, "peak_bytes": N, "disk_bytes": N},
      {"threads": 1, "prompt_tokens": 16, "generated_tokens": 3, "prefill_rate": N, "decode_rate": N, "peak_bytes": N, "disk_bytes": N}
    ]
  }

  $ mica bench model -p 4000 2>&1 > /dev/null
  mica: skipped: 4000 and 64 tokens do not fit the context of 2048
  mica: nothing was measured
  [1]

It tells how many bytes of the weights a token reads: of experts, those that it picks.

  $ cp -r $ROOT/tests/fixtures/families/qwen3_moe_hf moe
  > cp $ROOT/tests/fixtures/embedders/qwen3_embedding/tokenizer.json moe
  > mica bench moe -p 1 -n 1 -t 1 -r 1 2> err | sed -n '1p; /^reads/p'
  model   moe, 96,960 parameters, 193.9 kB
  reads   139.9 kB of these for a token

Distances of prefetches are tried, and the best is named. They change no answer.

  $ mica bench model -p 4 -n 3 -t 1 -r 1 --prefetch-distance > out
  > sed -n '2,9p' out | awk '{ print $1, NF }'
  own 3
  1024 3
  2048 3
  4096 3
  8192 3
  16384 3
  32768 3
  own 3
  $ sed -n '10,$p' out | sed -e "s/: the kernels' own distances$/: one/" \
  >   -e 's/:.*MICA_AHEAD=[0-9]*, [+-][0-9.]* %$/: one/'
  best prefill: one
  best decode: one
  $ mica bench model --prefetch-distance --json 2>&1 | sed -n 1p
  mica: --prefetch-distance prints a table: it does not go with --json
  $ MICA_AHEAD=1024 mica run "What is curl?" -q -n 4
  curl is a command
  $ MICA_AHEAD=far mica run "What is curl?" -q 2>&1
  mica: cpu: MICA_AHEAD is far: must be 64 to 1048576, in bytes
  [1]
  $ MICA_AHEAD=63 mica run "What is curl?" -q 2>&1
  mica: cpu: MICA_AHEAD is 63: must be 64 to 1048576, in bytes
  [1]
