The names that `mica list` shows are models everywhere: those of the Hugging Face cache, and of
$MICA_MODELS.

  $ mkdir -p .cache/huggingface/hub/models--org--tiny-1b/snapshots models/sub
  > ln -s $ROOT/models/default .cache/huggingface/hub/models--org--tiny-1b/snapshots/abc
  > ln -s $ROOT/models/default models/sub/other; export MICA_MODELS='~/models'
  > mica list | awk '{ print $1 }'
  name
  org/tiny-1b
  sub/other
  $ export MICA_MODELS='~/models'; mica run --model model "What is curl?" -q -n 4 > a; cat a
  > for name in org/tiny-1b sub/other '~/models/sub/other'; do
  >   mica run $name "What is curl?" -q -n 4 | cmp - a
  >   mica run -m $name "What is curl?" -q -n 4 | cmp - a
  >   MICA_MODEL=$name mica run "What is curl?" -q -n 4 | cmp - a
  >   echo "What is curl?" | mica run $name -q -n 4 | cmp - a
  >   echo "What is curl?" | mica chat $name -q -n 4 | cmp - a
  >   mica run model "What is curl?" -q -n 4 --draft-model $name | cmp - a
  >   mica show $name | head -1 | sed 's|.*/||'
  >   mica tokenize $name curl --ids
  >   echo '{"prompt": "curl is", "max_tokens": 1}' | mica batch $name -q
  >   mica bench $name -p 4 -n 1 -r 1 -t 1 | tail -1 | awk '{ print $2 }'
  > done | sort | uniq -c | sed 's/^ *//'
  curl is a command
  3 2 5433
  3 4
  1 abc
  2 other
  3 {"id": 1, "text": " a", "finish": "length", "prompt_tokens": 3, "generated_tokens": 1}

A word that looks like a path or a model's name and is none is no prompt.

  $ mkdir folder; : > file.gguf
  > for word in ~/models/gemma-3-1b-it-4bit gemma3:1b org/name ./file.gguf folder/ ../nothing llama3.2; do
  >   mica run $word 2> err; echo "$word: $?"; grep mica: err
  > done 2>&1 | sed "s|$HOME|HOME|"
  HOME/models/gemma-3-1b-it-4bit: 1
  mica: there is no model HOME/models/gemma-3-1b-it-4bit: there is no such folder
  gemma3:1b: 1
  mica: there is no model gemma3:1b: there is no such folder, and the Hugging Face cache has no model of that name
  org/name: 1
  mica: there is no model org/name: there is no such folder, and the Hugging Face cache has no model of that name
  ./file.gguf: 1
  mica: there is no model ./file.gguf: that is a file
  folder/: 1
  mica: there is no model folder/: that folder has no config.json
  ../nothing: 1
  mica: there is no model ../nothing: there is no such folder
  llama3.2: 1
  mica: there is no model llama3.2: there is no such folder, and the Hugging Face cache has no model of that name
  $ mica run org/name 2>&1
  mica: there is no model org/name: there is no such folder, and the Hugging Face cache has no model of that name
  To download it: mica pull org/name
  A model is a folder that holds config.json, tokenizer.json and *.safetensors.
  If it is the prompt, put --prompt before it; if it is a file with the prompt, put --file.
  [1]
  $ mica score gemma3:1b 2>&1
  mica: there is no model gemma3:1b: there is no such folder, and the Hugging Face cache has no model of that name
  A model is a folder that holds config.json, tokenizer.json and *.safetensors.
  If it is the text, give it on standard input.
  [1]
  $ MICA_MODELS=models mica generate tiny-1c 2>&1
  mica: there is no model tiny-1c: there is no such folder, and the Hugging Face cache and models have no model of that name
  Did you mean org/tiny-1b?
  A model is a folder that holds config.json, tokenizer.json and *.safetensors.
  If it is the prompt, put --prompt before it; if it is a file with the prompt, put --file.
  [1]
  $ mica tokenize ~/nothing 2>&1 | sed "s|$HOME|HOME|" | head -1
  mica: there is no model HOME/nothing: there is no such folder
  $ mica chat gemma3:1b 2>&1; mica batch model org/name 2>&1
  mica: there is no model gemma3:1b: there is no such folder, and the Hugging Face cache has no model of that name
  A model is a folder that holds config.json, tokenizer.json and *.safetensors.
  mica: cannot read org/name: No such file or directory
  [1]

Other words are, and all are with --prompt, --model or on standard input.

  $ for word in curl utf! 24/7 3:30 https://curl.se a: '~'; do mica run "$word" -q -n 1 > a || echo "$word"; done
  > mica run -p gemma3:1b -q -n 1 > a; mica run -m model gemma3:1b -q -n 1 | cmp - a; echo gemma3:1b | mica run -q -n 1 | cmp - a
  > mica tokenize -m model mp3 --ids; echo mp3 | mica tokenize --ids
  2 1847 281
  2 1847 281
