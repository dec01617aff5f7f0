The models in and below folders, by name, as a table or JSON.

  $ mkdir -p found/deep empty; ln -s $ROOT/models/default found/default
  > ln -s $ROOT/tests/fixtures/models/qwen3_tied found/deep/qwen
  > mkdir found/other; echo '{"model_type": "mamba"}' > found/other/config.json
  > : > found/other/model.safetensors
  > aged 73 found/other/config.json
  > mica list found | sed "s/  */ /g; s/ [0-9][0-9]* [hmdwy][a-z]* / AGE /; s/ now / AGE /"
  name architecture quantisation weights age path
  deep/qwen qwen3 none 488.5 kB AGE found/deep/qwen
  default gemma3_text 4 bit, groups of 32 (affine) 12.8 MB AGE found/default
  other mamba none 0 bytes AGE (mica does not know this family)
  $ mica list found/deep found/other --json | sed 's/"made_at": [0-9]*/"made_at": N/'
  [
    {"name": "qwen", "path": "found/deep/qwen", "family": "qwen3", "architecture": "qwen3", "quantization": "none", "bits": 0, "group_size": 0, "weight_bytes": 488516, "weight_files": 2, "made_at": N},
    {"name": "other", "path": "found/other", "family": null, "architecture": "mamba", "quantization": "none", "bits": 0, "group_size": 0, "weight_bytes": 0, "weight_files": 1, "made_at": N}
  ]
  $ mica list empty 2>&1
  There are no models. Name folders to look in, or download one with mica pull.
  $ mica list empty --json
  []
  $ mica list nowhere 2>&1
  mica: nowhere: No such file or directory
  [1]

Without a folder, the Hugging Face cache and $MICA_MODELS.

  $ mica list 2>&1
  There are no models but the one that comes with mica. Name folders to look in, or download one with mica pull.
  $ MICA_MODELS=found mica list | wc -l
  4
  $ mkdir -p .cache/huggingface/hub/models--org--name/snapshots
  > ln -s $ROOT/models/default .cache/huggingface/hub/models--org--name/snapshots/abc
  > mica list | sed "s|$PWD|...|; s/  */ /g; s/ [0-9][0-9]* [hmdwy][a-z]* / AGE /; s/ now / AGE /"
  name architecture quantisation weights age path
  org/name gemma3_text 4 bit, groups of 32 (affine) 12.8 MB AGE .../.cache/huggingface/hub/models--org--name/snapshots/abc

Columns stand below each other whatever the names are made of: wide letters, accents, emoji of parts.

  $ for name in abc 通义 Größe 👩‍🚀x; do mkdir -p wide/$name; : > wide/$name/model.safetensors
  >   echo '{"model_type": "mamba"}' > wide/$name/config.json; aged 73 wide/$name/config.json; done
  > mica list wide | sed 's/quantisation.*//; s/mamba.*/mamba/'
  name   architecture  
  Größe  mamba
  abc    mamba
  通义   mamba
  👩‍🚀x    mamba
