The models in and below folders, by name, as a table or JSON.

  $ mkdir -p found/deep empty; ln -s $ROOT/models/default found/default
  > ln -s $ROOT/tests/fixtures/models/qwen3_tied found/deep/qwen
  > mkdir found/other; echo '{"model_type": "mamba"}' > found/other/config.json
  > : > found/other/model.safetensors
  > mica list found
  name       architecture  quantisation                  weights   path
  deep/qwen  qwen3         none                          488.5 kB  found/deep/qwen
  default    gemma3_text   4 bit, groups of 32 (affine)  12.8 MB   found/default
  other      mamba         none                          0 bytes   (mica does not know this family)
  $ mica list found/deep found/other --json
  [
    {"name": "qwen", "path": "found/deep/qwen", "family": "qwen3", "architecture": "qwen3", "quantization": "none", "weight_bytes": 488516},
    {"name": "other", "path": "found/other", "family": null, "architecture": "mamba", "quantization": "none", "weight_bytes": 0}
  ]
  $ mica list empty 2>&1
  There are no models. Name folders to look in, or download one with hf download.
  $ mica list empty --json
  []
  $ mica list nowhere 2>&1
  mica: nowhere: No such file or directory
  [1]

Without a folder, the Hugging Face cache and $MICA_MODELS.

  $ mica list 2>&1
  There are no models. Name folders to look in, or download one with hf download.
  $ MICA_MODELS=found mica list | wc -l
  4
  $ mkdir -p .cache/huggingface/hub/models--org--name/snapshots
  > ln -s $ROOT/models/default .cache/huggingface/hub/models--org--name/snapshots/abc
  > mica list | sed "s|$PWD|...|"
  name      architecture  quantisation                  weights  path
  org/name  gemma3_text   4 bit, groups of 32 (affine)  12.8 MB  .../.cache/huggingface/hub/models--org--name/snapshots/abc
