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
  mica: ./file.gguf: is a GGUF file: make a model folder of it: mica convert FILE FOLDER
  folder/: 1
  mica: folder/: is an empty folder: a model's has config.json, tokenizer.json and *.safetensors; mica pull ORG/NAME downloads one
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
  mica list shows the models that are here; mica pull ORG/NAME downloads one.
  A model is a folder that holds config.json, tokenizer.json and *.safetensors.
  If it is the text, give it on standard input; if it is a file with the text, put --file.
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
  mica list shows the models that are here; mica pull ORG/NAME downloads one.
  A model is a folder that holds config.json, tokenizer.json and *.safetensors.
  If it is the message, put --prompt before it; if it is a file with the message, put --file.
  mica: cannot read org/name: No such file or directory
  [1]

So is a name alone: nobody who asks for mistral wants an answer to that word.

  $ mica run mistral 2>&1; echo hello | mica generate mistral 2>&1 | head -1; mica chat hello < /dev/null 2>&1 | tail -1
  mica: there is no model mistral: there is no such folder, and the Hugging Face cache has no model of that name
  mica list shows the models that are here; mica pull ORG/NAME downloads one.
  A model is a folder that holds config.json, tokenizer.json and *.safetensors.
  If it is the prompt, put --prompt before it; if it is a file with the prompt, put --file.
  mica: there is no model mistral: there is no such folder, and the Hugging Face cache has no model of that name
  If it is the message, put --prompt before it; if it is a file with the message, put --file.
  $ mica run -f prompt mistral 2>&1 | head -1; printf 'wait no model mistral:\n' | pty mica run mistral
  mica: there is no model mistral: there is no such folder, and the Hugging Face cache has no model of that name
  [1]
  $ mica run mistral hello 2>&1 | head -1
  mica: there is no model mistral: there is no such folder, and the Hugging Face cache has no model of that name

Other words are, and all are with --prompt, --model or on standard input.

  $ for word in utf! 24/7 3:30 https://curl.se a: x '~'; do mica run "$word" -q -n 1 > a || echo "$word"; done
  > mica run -p gemma3:1b -q -n 1 > a; mica run -m model gemma3:1b -q -n 1 | cmp - a; echo gemma3:1b | mica run -q -n 1 | cmp - a
  > mica run -p mistral -q -n 1 > a; mica run -m model mistral -q -n 1 | cmp - a; echo mistral | mica run -q -n 1 | cmp - a
  > mica tokenize -m model mp3 --ids; echo mp3 | mica tokenize --ids
  2 1847 281
  2 1847 281

A word that is a file is no text either: it is asked about at a terminal, and refused elsewhere.

  $ echo "What is curl?" > letter.txt; mica run -f letter.txt -q -n 4 > a; cat a
  curl is a command
  $ mica run letter.txt 2>&1; mica run model letter.txt 2>&1 | head -1; mica run -m model letter.txt 2>&1 | head -1
  mica: letter.txt is a file, and not read as the prompt
  If it is the prompt, put --prompt before it; if it is a file with the prompt, put --file.
  mica: letter.txt is a file, and not read as the prompt
  mica: letter.txt is a file, and not read as the prompt
  $ mica chat model letter.txt < /dev/null 2>&1; mica generate ./letter.txt 2>&1 | head -1
  mica: letter.txt is a file, and not read as the message
  If it is the message, put --prompt before it; if it is a file with the message, put --file.
  mica: ./letter.txt is a file, and not read as the prompt
  $ for verb in score eval tokenize; do mica $verb model letter.txt 2>&1; done
  mica: letter.txt is a file, and not read as the text
  If it is the text, give it on standard input; if it is a file with the text, put --file.
  mica: letter.txt is a file, and not read as the text
  If it is the text, give it on standard input; if it is a file with the text, put --file.
  mica: letter.txt is a file, and not read as the text
  If it is the text, give it on standard input; if it is a file with the text, put --file.
  [1]
  $ printf 'wait letter.txt is a file. Read the prompt from it? [Y/n]\nsend \\n\nwait curl is a command\n' > yes
  > pty mica run letter.txt -q -n 4 < yes; pty mica run model letter.txt -q -n 4 < yes
  > sed 's/the prompt/the message/' yes > yes2; printf 'send /bye\\n\n' >> yes2; pty mica chat model letter.txt -q -n 4 < yes2
  $ printf 'wait [Y/n]\nsend n\\n\nabsent curl is\n' | pty mica run model letter.txt -q -n 4
  $ printf curl > word; for verb in score tokenize; do mica $verb -f word > a; mica $verb < word | cmp - a; done

A folder of models without a default model leaves that which comes with mica.

  $ mica run "What is curl?" -q -n 4 > a; mkdir none
  > MICA_MODELS=none mica run "What is curl?" -q -n 4 | cmp - a; MICA_MODELS=nowhere mica run "What is curl?" -q -n 4 | cmp - a
  > mkdir none/default; MICA_MODELS=none mica run "What is curl?" -q -n 4 2>&1
  mica: none/default: is an empty folder: a model's has config.json, tokenizer.json and *.safetensors; mica pull ORG/NAME downloads one
  A model is a folder that holds config.json, tokenizer.json and *.safetensors.
  [1]
