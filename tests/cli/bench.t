A row for each number of threads and size of prompt; what does not fit the context is left out.

  $ mica bench model -p 4,16,4000 -n 3 -t 1,2 -r 2 2> err | tail -5 | awk '{ print $1, $2, $4, NF }'
  threads prompt tok/s 9
  1 4 3 7
  1 16 3 7
  2 4 3 7
  2 16 3 7
  $ sort -u err
  mica: left out: 4000 and 3 tokens do not fit the context of 2048

It says what the weights' products are computed with.

  $ mica bench model -p 4 -n 1 -t 1 -r 1 | sed -n '/^kernels/s/ [a-z0-9]*:/ ISA:/p'
  > mica bench model -p 4 -n 1 -t 1 -r 1 --arithmetic exact | sed -n '/^kernels/s/ [a-z0-9]*:/ ISA:/p'
  kernels fast ISA: 4 bit, groups of 32 (affine)
  kernels exact ISA: 4 bit, groups of 32 (affine)

The same as JSON.

  $ mica bench model -p 4,16 -n 3 -t 1 -r 1 --json > out
  > sed -E 's/(_rate|_bytes)": [0-9.]*/\1": N/g; s/("description"|"isa"): ".*"/\1: "..."/' out
  {
    "mica": "0.1.0",
    "model": "model",
    "device": "cpu",
    "description": "...",
    "isa": "...",
    "arithmetic": "fast",
    "quantization": "4 bit, groups of 32 (affine)",
    "dtype": "bf16",
    "repeat": 1,
    "results": [
      {"threads": 1, "prompt_tokens": 4, "generated_tokens": 3, "prefill_rate": N, "decode_rate": N, "peak_bytes": N},
      {"threads": 1, "prompt_tokens": 16, "generated_tokens": 3, "prefill_rate": N, "decode_rate": N, "peak_bytes": N}
    ]
  }
  $ mica bench model -p 4000 2>&1 > /dev/null
  mica: left out: 4000 and 64 tokens do not fit the context of 2048
  mica: nothing was measured
  [1]
