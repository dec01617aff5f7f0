A model is quantised, dequantised, and measured against what it was made of.

  $ M=$ROOT/tests/fixtures/models; mica quantize $M/qwen3_tied small --mode nvfp4
  > ls small; mica show small --json | grep -E 'quantization|"parameters'
  small: 99,552 parameters, 56.7 kB, 4.555 bits per parameter, 22 matrices quantised
  config.json
  golden.json
  model.safetensors
  model.safetensors.index.json
  tokenizer.json
    "quantization": "4 bit, groups of 16 (nvfp4)",
    "parameters": 99552,
  $ mica quantize -d small -o dense; mica show dense --json | grep -E 'quantization|"dtype'
  dense: 99,552 parameters, 199.1 kB, 16.000 bits per parameter
    "quantization": "none",
    "dtype": "bf16",
  $ cp $ROOT/LICENSE text
  > mica eval dense --reference small -f text --arithmetic exact | sed 's/[0-9][0-9.]*$/N/'
  > mica eval dense --reference dense -f text --json | grep -c '"reference": "dense", .*"mean_kl": 0,'
  tokens          N
  arithmetic      exact
  perplexity      N
  compared with   small, exact, default caches
  its perplexity  N
  mean KL         N
  largest KL      N
  same top token  100.00 %
  1

A model is copied in another dtype and in smaller files, an adapter is fused; names of mlx-lm's
options work.

  $ M=$ROOT/tests/fixtures/models; mica convert --hf-path $M/gemma2_f32 --mlx-path half --dtype float16
  > mica fuse $M/qwen3_tied --save-path fused --adapter-path $ROOT/tests/fixtures/lora/peft_qwen3
  > mica quantize $M/gemma2_f32 mixed --quant-predicate mixed_3_6 --q-group-size 32
  > ls mixed
  half: 61,668 parameters, 123.3 kB, 16.000 bits per parameter
  fused: 99,552 parameters, 199.1 kB, 16.000 bits per parameter, 12 fused
  mixed: 61,668 parameters, 186.2 kB, 24.154 bits per parameter, 8 matrices quantised
  config.json
  golden.json
  model.safetensors
  model.safetensors.index.json

convert quantises as quantize does, with mlx_lm.convert's options; what says how without -q is refused.

  $ M=$ROOT/tests/fixtures/models; mica quantize $M/qwen3_tied four -q --bits 4 --group-size 32 | sed 's/^four//' > a
  > mica convert --hf-path $M/qwen3_tied --mlx-path four.c -q --q-bits 4 --q-group-size 32 | sed 's/^four.c//' | cmp - a
  > cmp four/model.safetensors four.c/model.safetensors; cmp four/config.json four.c/config.json
  > mica quantize $M/qwen3_tied mx --mode mxfp4 > a; mica convert $M/qwen3_tied mx.c -q --q-mode mxfp4 > a
  > mica convert $M/gemma2_f32 mixed.c -q --quant-predicate mixed_3_6 --q-group-size 32 > a; cmp mixed/model.safetensors mixed.c/model.safetensors
  > cmp mx/model.safetensors mx.c/model.safetensors; mica convert mx wide -d > a; mica convert mx wide.c --dequantize > a
  > cmp wide/model.safetensors wide.c/model.safetensors; rm -r four four.c mx mx.c mixed.c wide wide.c a
  $ mica convert model x --q-bits 4 2>&1; mica convert model x -q -d 2>&1 | head -1; mica convert n.onnx n.mica -q 2>&1 | head -1
  mica: --bits, --group-size, --mode and --recipe need --quantize
  Try: mica help convert
  mica: --quantize and --dequantize are two conversions
  mica: --quantize and --dequantize are not for ONNX files
  $ mica convert model x --upload-repo me/x 2>&1 | head -1; mica convert model x --quiet=maybe 2>&1 | head -1
  mica: convert has no option --upload-repo; mica uploads nothing: the command hf of huggingface_hub does
  mica: --quiet: 'maybe' is neither on nor off

Nothing is overwritten, and nothing is left after an error.

  $ M=$ROOT/tests/fixtures/models; mica quantize $M/gemma2_f32 model 2>&1
  mica: model exists: name a new folder, or remove this one
  [1]
  $ mica quantize model smaller 2>&1 | sed 's/(.*)/(...)/'
  mica: the model is quantised already (...): dequantise it first, or take the model that it was made of
  $ M=$ROOT/tests/fixtures/models; mica quantize $M/gemma2_f32 x --bits 7 2>&1
  mica: affine has no 7 bits in groups of 64; there are affine (2 3 4 5 6 8 bits, groups of 32 64 128), mxfp4 (4 bits, 32), mxfp8 (8, 32), nvfp4 (4, 16)
  [1]
  $ mica quantize model 2>&1
  mica: name the folder to make, or a file.gguf
  Try: mica help quantize
  [2]
  $ mica fuse model x 2>&1
  mica: name the adapter's folder: --adapter FOLDER
  Try: mica help fuse
  [2]
  $ mica fuse model x -a none 2>&1
  mica: none: no such folder
  [1]
  $ mica convert model x y 2>&1
  mica: convert takes no 'y'; put quotes around a text of several words
  Try: mica help convert
  [2]
  $ mica convert none x 2>&1 | head -1
  mica: there is no model none: there is no such folder, and the Hugging Face cache has no model of that name
  $ ls -A
  dense
  endless
  fused
  half
  mixed
  model
  small
  text

A GGUF file becomes a folder: its blocks are kept, its tokenizer is found again.

  $ mica convert $ROOT/tests/fixtures/gguf/qwen3/model.gguf from_gguf
  > ls from_gguf; mica show from_gguf --json | grep -E '"(family|quantization)'
  from_gguf: 80,256 parameters, 61.4 kB, 6.124 bits per parameter, 15 matrices quantised
  config.json
  generation_config.json
  model.safetensors
  model.safetensors.index.json
  tokenizer.json
  tokenizer_config.json
    "family": "qwen3",
    "quantization": "5 bit, groups of 32 (affine)",
  $ mica convert none.gguf x 2>&1
  mica: none.gguf: No such file or directory
  [1]
  $ cp $ROOT/tests/fixtures/gguf/types.gguf .
  $ mica convert types.gguf x 2>&1
  mica: types.gguf: general.architecture is 'none'; mica converts llama, mistral3, qwen2, qwen3, qwen3moe, qwen35, qwen35moe, qwen3next, gemma2, gemma3, gemma4, gemma-embedding, gemma3n, bert, nomic-bert, modern-bert, gpt-oss, olmo2, olmoe, phi3, smollm3, granite, granitemoe, granite_swa, granitehybrid, nemotron_h_moe, nemotron_h, deepseek2, lfm2, lfm2moe
  [1]

A folder becomes a GGUF file, if its name says so. What GGUF has no blocks for is dequantised, and
told.

  $ mica convert from_gguf back.gguf; cmp -s back.gguf $ROOT/tests/fixtures/gguf/qwen3/model.gguf
  back.gguf: 80,256 parameters, 61.4 kB, 6.124 bits per parameter, 15 matrices quantised
  [1]
  $ M=$ROOT/tests/fixtures/models; mica convert $M/qmixed_qwen3 mixed.gguf
  mixed.gguf: 131,616 parameters, 140.4 kB, 8.535 bits per parameter, 16 matrices quantised, 6 dequantised, for which GGUF has no blocks
  $ mica convert from_gguf back.gguf 2>&1
  mica: back.gguf exists: name a new file, or remove this one
  [1]
  $ mica convert back.gguf other.gguf 2>&1
  mica: back.gguf is a GGUF file: convert it to a folder first, then that to other.gguf
  [1]
  $ mica quantize dense x.gguf --bits 6 -g 32 2>&1
  mica: GGUF has no blocks that hold affine of 6 bits in groups of 32 as MLX has them; it has some for affine of 2, 3, 4 and 5 bits, and for mxfp4
  [1]

The bits of each layer are chosen by what they cost; the size is that which was asked for.

  $ mica quantize --dequantize $ROOT/tests/fixtures/gguf/llama/model.gguf wide -q > /dev/null
  > mica quantize wide chosen --calibrate text --target-bits 4.5 --group-size 32 -q |
  > sed 's/, [0-9.]* kB.*KL [0-9.]*$/ ... KL N/'
  > [ $(grep -o '"bits": [0-9]' chosen/config.json | sort -u | wc -l) -gt 1 ]
  chosen: 106,816 parameters ... KL N
  $ mica quantize wide x --calibrate text --bits 4 2>&1
  mica: a calibration chooses the bits of affine quantising: it goes with no recipe, number of bits, or other mode
  [1]
  $ mica quantize wide x --target-bits 4 2>&1
  mica: target bits are for a calibration, which is not asked for
  [1]
