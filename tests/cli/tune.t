Training an adapter: options and configs of mlx_lm.lora.

  $ for i in 1 2 3; do
  >   echo "{\"prompt\": \"What is $i?\", \"completion\": \"A number, captain.\"}"
  > done > train.jsonl
  $ cat > lora.yaml <<END
  > # as mlx_lm.lora has it
  > train: true
  > data: train.jsonl
  > batch_size: 3
  > iters: 40
  > learning_rate: 1e-3
  > mask_prompt: true
  > num_layers: -1
  > seed: 1
  > lora_parameters:
  >   keys: [self_attn.q_proj, self_attn.v_proj, "mlp.down_proj"]
  >   rank: 4
  >   scale: 20.0
  >   dropout: 0.0
  > lr_schedule: {name: cosine_decay, warmup: 2, arguments: [1e-3, 100]}
  > END
  $ cat > tune <<'END'
  > mica tune "$@" 2>&1 | sed 's/  [0-9]* tokens.*//; s/loss [0-9.]*/loss N/; s/; about .*//
  >   s/rate [0-9.e-]*/rate N/'
  > END
  $ sh tune -c lora.yaml --adapter-path a --steps-per-report 20 --log log.jsonl
  102400 parameters to train, 3 examples to train with, 0 for validation, 0 for the test
  20/40  loss N  rate N
  40/40  loss N  rate N
  40/40  saved to a
  the adapter is in a: mica run --adapter a
  $ mica run -q --adapter a "What is 2?" 2>/dev/null
  A number, captain.
  $ sh tune -c lora.yaml --adapter-path a --iters 41 --resume
  102400 parameters to train, 3 examples to train with, 0 for validation, 0 for the test
  goes on after iteration 40
  41/41  loss N  rate N
  41/41  saved to a
  the adapter is in a: mica run --adapter a

What was trained is measured: the perplexity of its texts falls, and no longer is that of the model.

  $ echo "Number 1? A number, captain." > text
  > of() { sed -n 's/^perplexity *//p'; }
  > mica eval -f text | of > before; mica eval -f text --adapter a | of > after
  > awk 'NR == FNR { before = $1; next } { print ($1 < before / 2) }' before after
  1
  $ mica eval -f text --adapter a --reference model 2>&1 | grep -c '^mean KL'
  1
  $ mica fuse model fused --adapter a > /dev/null; mica run -q fused "What is 2?" 2>/dev/null
  A number, captain.

Full training is of floats; its adapter is loaded like others.

  $ mica quantize --dequantize model dense > /dev/null 2>&1
  $ mica tune dense --data train.jsonl --batch-size 3 --iters 10 --learning-rate 1e-4 --mask-prompt --fine-tune-type full --num-layers -1 --adapter-path full -q
  $ mica run -q dense --adapter full "What is 2?" 2>/dev/null
  A number, captain.
  $ mica run -q model --adapter full "What is 2?" 2>&1 | grep -c 'takes the place of a quantised matrix'
  1

What the command line gives goes before the config, 0 too: another seed is another training.

  $ sh tune -c lora.yaml --adapter-path a --iters 42 --seed 0 --resume | grep settings
  mica: a/tune_state.safetensors: is of a training with other settings: seed 1, now 0

An adapter that is there is written over by --force alone.

  $ mica tune -c lora.yaml --adapter-path a --iters 1 2>&1 | cut -d, -f 1
  mica: a: holds an adapter (adapters.safetensors)
  --force writes over it
  $ mica tune -c lora.yaml --adapter-path a --iters 1 --force -q

Data of other programs: Alpaca's JSON array, and CSV with names of its own for the columns.

  $ printf '[{"instruction": "What is 1?", "output": "A number."},\n {"instruction": "And", "input": "2?", "output": "Too."}]' > alpaca.json
  $ printf 'question,answer\nWhat is 1?,"A number, captain."\nAnd 2?,Too.\n' > qa.csv
  > echo 'prompt_feature: question
  > completion_feature: answer' > qa.yaml
  $ for data in alpaca.json "qa.csv -c qa.yaml"; do
  >   mica tune --data $data --iters 1 --batch-size 2 --average steps --adapter-path f --force 2>&1 | grep -o '[0-9]* examples to train'
  > done
  2 examples to train
  2 examples to train

Losses as a picture.

  $ mica plot log.jsonl -o plot.svg; head -c 5 plot.svg; grep -c polyline plot.svg
  <svg 1
  $ mica plot log.jsonl -o - | cmp - plot.svg; [ -e ./- ]
  [1]
  $ mica plot log.jsonl --width 40 --height 5 | tail -2
            iteration 20 to 40
            a  log.jsonl, training
  $ echo '{"event": "train", "iteration": 1e300, "loss": -1e300}' > far.jsonl
  $ mica plot far.jsonl -o far.svg --width 1 --height 1; grep -cE 'nan|inf|"-' far.svg
  0
  [1]
  $ for i in 0 7 30; do echo "{\"event\": \"train\", \"iteration\": $i, \"loss\": $i.5}"; done > three.jsonl
  > mica plot three.jsonl -o three.svg; sed -n 's/.*<text.*>\([0-9.]*\)<.*/\1/p' three.svg | xargs
  0 10 20 30 10 20 30

Each training adds to a log: all of its runs are drawn, but what a resumed one tells again goes.

  $ run() { echo "{\"event\": \"plan\", \"iteration\": 0}"
  >   for i in $1; do echo "{\"event\": \"train\", \"iteration\": $i, \"loss\": $2.$i}"; done
  >   echo "{\"event\": \"valid\", \"iteration\": $i, \"loss\": $2.5}"; }
  > { run "1 2 3" 4; run "1 2" 3; run "" 1 | head -1
  >   echo '{"event": "note", "iteration": 1, "text": "goes on after iteration 1"}'; run "2 3" 2 | tail -3
  > } > runs.jsonl
  $ mica plot runs.jsonl --width 40 --height 5 | grep -e , -e loss
       loss
            a  runs.jsonl, run 1, training
            A  runs.jsonl, run 1, validation
            b  runs.jsonl, run 2, training
            B  runs.jsonl, run 2, validation
  $ f=$(printf 'r\033<.jsonl'); cp runs.jsonl "$f"; mica plot "$f" -o runs.svg
  > grep -c polyline runs.svg; grep -c circle runs.svg; grep -o '>[a-z?][^<]*run 2, valid[^<]*' runs.svg
  > grep -o '>iteration<' runs.svg; grep -o '>loss<' runs.svg
  4
  2
  >r?&lt;.jsonl, run 2, validation
  >iteration<
  >loss<
  $ mica plot train.jsonl 2>&1
  mica: train.jsonl: no losses in it: mica tune --log writes such a file
  [1]
  $ mica plot 2>&1
  mica: there is no log: give what mica tune --log wrote
  Try: mica help plot
  [2]

A log whose last line was cut off, as by a kill.

  $ { cat log.jsonl; printf '{"event": "tr'; } > cut.jsonl
  > mica plot cut.jsonl --width 40 --height 5 2>&1 | head -1 | sed 's/(.*/(.../'
  mica: cut.jsonl: 1 broken line is left out (...

Data that is not as it should be: lines by their numbers; nothing is written.

  $ { cat train.jsonl; echo '{"prompt": "no answer"}'; echo; echo 'no JSON'; } > odd.jsonl
  > mica tune --data odd.jsonl --adapter-path n 2>&1 | sed 's/: want.*; line/: want; line/; s/6: .*/6: why/'
  mica: odd.jsonl: 2 lines are no examples: line 4: want; line 6: why
  $ mica tune --data odd.jsonl --skip-bad --iters 1 --batch-size 3 --adapter-path s | grep lines
  2 lines of the train set are no examples and were skipped
  $ echo '{"text": "one two three four five six seven eight nine ten eleven twelve"}' > long.jsonl
  > for how in cut split refuse; do
  >   mica tune --data long.jsonl --max-seq-length 8 --too-long $how --iters 1 --batch-size 1 --adapter-path l --force 2>&1
  > done | grep -oE 'has .* is 8$|1 examples.*were [a-z]*'
  1 examples of the train set are longer than max_seq_length 8 and were cut
  1 examples of the train set are longer than max_seq_length 8 and were split
  has 23 tokens, and max_seq_length is 8
  $ : > empty.jsonl; mica tune --data empty.jsonl --adapter-path n 2>&1
  mica: empty.jsonl: holds no examples
  [1]
  $ echo '{"prompt": "a", "completion": ""}' > none.jsonl
  > mica tune --data none.jsonl --adapter-path n 2>&1
  mica: none.jsonl: 1 lines are no examples: line 1: "completion" is empty
  [1]
  $ echo '{"prompt": "a", "completion": "b"}' > none.jsonl
  > mica tune --data none.jsonl --max-seq-length 8 --mask-prompt --adapter-path n 2>&1 | grep -o 'all labels are masked'
  all labels are masked
  $ mica tune --data train.jsonl --resume-adapter-file $ROOT/tests/fixtures/lora/mlx_qwen3 --adapter-path n 2>&1 | grep -o 'no tensor.*model'
  no tensor model.layers.0.mlp.down_proj.lora_a: is the adapter of this model
  $ mica tune --data train.jsonl --rank 60000 --max-memory 100 --adapter-path n 2>&1 | grep -o 'a rank of .* would fit'
  a rank of 163 would fit
  $ mica tune --data train.jsonl --batch-size 3 --max-memory 45 --adapter-path n 2>&1 | grep -o '45 MB: .* would take'
  45 MB: grad_checkpoint with a batch_size 3 would take
  $ [ ! -e n ]

What it refuses.

  $ printf '{{ bos }}\0' > nul; mica tune --data train.jsonl --chat-template-file nul 2>&1
  mica: nul holds a NUL byte
  [1]
  $ mica tune 2>&1
  mica: there is no data: give --data, a folder with train.jsonl
  Try: mica help tune
  [2]
  $ echo 'ranks: 4' > bad.yaml; mica tune -c bad.yaml 2>&1
  mica: bad.yaml: ranks: is no key that mica tune has: its keys are the names of its options, lora_parameters, lr_schedule and optimizer_config
  [1]
  $ echo '{"lora_parameters": {"r": 4}}' > bad.json; mica tune -c bad.json 2>&1
  mica: bad.json: r: is no key of lora_parameters, which has rank, scale, alpha, dropout and keys
  [1]
  $ printf '{"iters": 3,\n "rank" 4}' > bad.json; mica tune -c bad.json 2>&1
  mica: bad.json: line 2, column 9: a ':' is missing
  [1]
  $ echo 'optimizer_config: [1]' > bad.yaml; mica tune -c bad.yaml 2>&1
  mica: bad.yaml: optimizer_config: want an object for each optimizer
  [1]
  $ echo 'optimizer_config: {adam: [1]}' > bad.yaml; mica tune -c bad.yaml 2>&1
  mica: bad.yaml: adam: want keys and values
  [1]
  $ echo 'lr_schedule: {name: constant, arguments: 1}' > bad.yaml; mica tune -c bad.yaml 2>&1
  mica: bad.yaml: lr_schedule.arguments: want a list
  [1]
  $ echo 'iters: many' > bad.yaml; mica tune -c bad.yaml 2>&1
  mica: bad.yaml: iters: 'many' is not a whole number
  [1]
  $ echo 'iters: [1' > bad.yaml; mica tune -c bad.yaml 2>&1 | sed 's/line.*/line N/'
  mica: bad.yaml: line N
  $ mica tune --data train.jsonl --fine-tune-type qlora 2>&1
  mica: --fine-tune-type takes no 'qlora'; it takes one of: lora dora full
  Try: mica help tune
  [2]
  $ mica tune --data train.jsonl --modules k_prog 2>&1 | cut -c 1-60
  mica: module "k_prog" names no matrix of the layers 0..7, wh
