What the default model is. How much memory there is depends on the machine.

  $ mica show model | sed 's/ of [0-9.]* [kMGT]B$/ of .../'
  model         model
  architecture  gemma3_text, run as gemma3 by native
  parameters    20,460,928
  quantisation  4 bit, groups of 32 (affine)
  other dtypes  bf16
  layers        8, 6 with a window of 128 tokens
  hidden        384, MLP 1,536
  heads         6 of 64, 2 for keys and values
  vocabulary    8,192
  context       2,048 tokens
  calls         gemma
  memory        12.8 MB weights and 4.5 MB cache at 2,048 tokens
  fits          yes: needs 17.3 MB of ...
  largest       2,048 tokens
  $ mica show | sed 1d > a; mica show model | sed 1d | cmp - a
  $ mica show model --context 100 | grep '^memory'
  memory        12.8 MB weights and 1.0 MB cache at 100 tokens
  $ mica show model --context 1000000000 | grep '^fits' | sed 's/ of .*//'
  fits          no: needs 1.0 TB

--fit says whether a context fits both memory and model, and the largest one that does.

  $ mica show model --fit 2048 | tail -2 | sed 's/ of [0-9.]* [kMGT]B$/ of .../'
  fits          yes: needs 17.3 MB of ...
  largest       2,048 tokens
  $ mica show model --fit 2049 > a
  [1]
  $ tail -2 a | sed 's/ of [0-9.]* [kMGT]B,/ of ...,/'
  fits          no: the model's context is 2,048 tokens
  largest       2,048 tokens
  $ mkdir long; ln -s ../model/tokenizer.json ../model/model.safetensors long
  > tr -d '\n' < model/config.json \
  >   | sed 's/"max_position_embeddings": *[0-9]*/"max_position_embeddings": 999999999/' > long/config.json
  > largest=$(mica show long | sed -n 's/,//g; s/^largest *\([0-9]*\) tokens/\1/p')
  > mica show long --fit $largest | grep -c '^fits *yes'
  > mica show long --fit $(($largest + 64)) > a
  1
  [1]
  $ grep -c '^fits *no' a
  1
  $ mica show --fit 0 2>&1
  mica: --fit: 0 is less than 1
  Try: mica help show
  [2]
  $ mica show model --fit 100000000 --json | tail -3
    "largest_context": 2048,
    "fits": false
  }

The same as JSON.

  $ mica show model --json | sed 's/\(memory_bytes": \)[0-9]*/\1N/'
  {
    "path": "model",
    "engine": "native",
    "family": "gemma3",
    "architecture": "gemma3_text",
    "quantization": "4 bit, groups of 32 (affine)",
    "dtype": "bf16",
    "call_format": "gemma",
    "parameters": 20460928,
    "active_parameters": 20460928,
    "bits": 4,
    "group_size": 32,
    "layers": 8,
    "hidden_size": 384,
    "intermediate_size": 1536,
    "experts": 0,
    "experts_per_token": 0,
    "expert_size": 0,
    "heads": 6,
    "kv_heads": 2,
    "head_dim": 64,
    "vocab_size": 8192,
    "context_length": 2048,
    "sliding_window": 128,
    "sliding_layers": 6,
    "at_context": 2048,
    "weight_bytes": 12806912,
    "cache_bytes": 4456448,
    "memory_bytes": N,
    "largest_context": 2048,
    "fits": true
  }
