An adapter is loaded beside its model and changes what it says.

  $ ln -s $ROOT/tests/fixtures/models/qwen3_tied base; ln -s $ROOT/tests/fixtures/lora lora
  > mica show base --adapter lora/mlx_qwen3 | grep -e parameters
  > mica show base -a lora/peft_qwen3 --json | grep adapter
  > mica generate -m base -q -n 8 abc > a
  > mica generate -m base -a lora/mlx_qwen3 -q -n 8 abc > b
  > MICA_ADAPTER=lora/mlx_qwen3 mica generate -m base -q -n 8 abc | cmp - b
  > cmp -s a b
  parameters    99,552
  adapter       lora/mlx_qwen3, 7,936 parameters
    "adapter": "lora/peft_qwen3",
  [1]
  $ mica bench base -a lora/mlx_qwen3 -p 4 -n 2 -r 1 -t 1 | tail -1 | awk '{ print $2, $4 }'
  4 2

One of another model, and one that is not there.

  $ mica run -m model -a lora/mlx_qwen3 x 2> err
  [1]
  $ grep -c '^mica: lora/mlx_qwen3' err
  1
  $ mica run -m model -a nowhere x 2>&1
  mica: nowhere: no such folder
  [1]

Tensors that the model does not use are told.

  $ mkdir short; for file in base/*; do ln -s ../$file short; done; rm short/config.json
  > sed 's/"num_hidden_layers": *3/"num_hidden_layers": 2/' base/config.json > short/config.json
  > mica show short | grep -e layers -e note
  > mica show short --json | grep note
  layers        2
  note          nothing reads 11 of the tensors: model.layers.2.input_layernorm.weight, model.layers.2.mlp.down_proj.weight, model.layers.2.mlp.gate_proj.weight, model.layers.2.mlp.up_proj.weight, model.layers.2.post_attention_layernorm.weight, model.layers.2.self_attn.k_norm.weight, model.layers.2.self_attn.k_proj.weight, model.layers.2.self_attn.o_proj.weight ...
    "note": "nothing reads 11 of the tensors: model.layers.2.input_layernorm.weight, model.layers.2.mlp.down_proj.weight, model.layers.2.mlp.gate_proj.weight, model.layers.2.mlp.up_proj.weight, model.layers.2.post_attention_layernorm.weight, model.layers.2.self_attn.k_norm.weight, model.layers.2.self_attn.k_proj.weight, model.layers.2.self_attn.o_proj.weight ...",
