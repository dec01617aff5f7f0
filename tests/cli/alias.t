What llama.cpp, mlx-lm and ollama call an option is taken.

  $ mica run "What is curl?" -q -n 4 > a; cat a
  > for names in "--max_tokens 4" "--n-predict 4" "--predict=4" "--num_predict 4" "-n4" "-n=4"; do
  >   mica run "What is curl?" -q $names | cmp - a
  > done
  > mica run -p "What is curl?" -q -n 4 | cmp - a
  > mica run --prompt "What is curl?" -q -n 4 model | cmp - a
  > echo "What is curl?" > prompt; mica run -f prompt -q -n 4 | cmp - a
  > mica run model --file prompt -q -n 4 --ctx-size 64 | cmp - a
  > mica run "What is curl?" -q -n 4 --max-kv-size 64 --top_k 1 --repeat-penalty 1 | cmp - a
  curl is a command
  $ ask="What language is bash written in?"; mica run "$ask" -q > a
  > mica run "$ask" -q -n -1 --temp 0 | cmp - a
  $ mica run x -q -n 8 -s 7 --temperature 2 --top-k 9 > a
  > mica run x -q -n 8 -s 7 --temp 2 --top_k 9 | cmp - a
  $ mica run x -q -n 9 --system "Be brief." > a
  > mica run x -q -n 9 --system-prompt "Be brief." | cmp - a; mica run x -q -n 9 -sys "Be brief." | cmp - a
  $ mica run x -q -n 9 --cache int8 > a; mica run x -q -n 9 --kv-bits 8 | cmp - a
  > mica run x -q -n 9 --cache bf16 > a; mica run x -q -n 9 --kv_bits=16 | cmp - a
  $ mica generate -p "curl is" -q -n 4 --num-draft-tokens 2
   a command line tool
  $ mica run x --adapter-path nowhere 2>&1 | grep -c nowhere
  1
  $ MICA_PROMPT=y MICA_FILE=nowhere mica run "What is curl?" -q -n 1
  curl

A chat's first message, and the keys of `batch`, too.

  $ mica run "What is curl?" -q -n 4 > a; mica chat -p "What is curl?" -q -n 4 < /dev/null | cmp - a
  > mica chat model --prompt "What is curl?" -q -n 4 < /dev/null | cmp - a; mica chat -p x model y 2>&1
  mica: two messages: --prompt x and y
  Try: mica help chat
  [2]
  $ echo '{"prompt": "curl is", "n_predict": 2, "temp": 0}' | mica batch -q | cut -c 1-30
  {"id": 1, "text": " a command"

bench's -p is still a number of tokens, and -v and -V are the version.

  $ mica bench model -p 4 -n 1 -r 1 -t 1 | tail -1 | awk '{ print $2 }'
  4
  $ mica version > a; mica -v | cmp - a; mica -V | cmp - a; mica --version | cmp - a
  > mica run x -q -n 1 -V 2>&1 > /dev/null | grep -c '^answer'
  1

A message calls an option as it was typed.

  $ mica run --temp hot x 2>&1
  mica: --temp: 'hot' is not a number
  Try: mica help run
  [2]
  $ mica run x -n 2>&1
  mica: -n needs a value: -n N
  Try: mica help run
  [2]
  $ mica run --kv-bits 4 x 2>&1
  mica: --kv-bits: '4' is not one of: 8 16
  Try: mica help run
  [2]
  $ mica bench --temp 1 2>&1
  mica: bench has no option --temp; mica chat, mica run, mica generate have --temperature
  Try: mica help bench
  [2]
  $ mica run --tmep 1 x 2>&1
  mica: run has no option --tmep; did you mean --temperature?
  Try: mica help run
  [2]

There is one prompt.

  $ mica run -p hi model there 2>&1
  mica: two prompts: --prompt hi and there
  Try: mica help run
  [2]
  $ mica score -f prompt model there 2>&1
  mica: two texts: --file prompt and there
  Try: mica help score
  [2]
  $ mica run -p '' 2>&1; printf '\n' > line; mica run -f line 2>&1; printf 'a\0b' > nul; mica run -f nul 2>&1
  mica: the prompt is empty: give a text as an argument, by --file, or on standard input
  mica: the prompt is empty: give a text as an argument, by --file, or on standard input
  mica: nul holds a NUL byte
  [1]

Short names that are several letters are no letter with a value.

  $ for option in -sm -cnv -fa -temp -model -nx -qn; do mica run $option x y 2>&1 | head -1; done
  mica: -sm is left out: --device says what computes layers, and --gpu-layers how many of them
  mica: run has no option -cnv; did you mean mica chat?
  mica: -fa is left out: attention is always computed without storing all scores
  mica: run has no option -temp; did you mean --temperature?
  mica: run has no option -model; did you mean --model?
  mica: run has no option -nx; put -- before a text that begins with -
  mica: run has no option -qn; put -- before a text that begins with -

What others have and mica has not says so, and what to do instead.

  $ for verb in server lora quantise; do mica $verb x 2>&1 | head -1; done
  mica: there is no command 'server'; did you mean 'serve'?
  mica: there is no command 'lora'; did you mean 'tune'?
  mica: there is no command 'quantise'; did you mean 'quantize'? With --calibrate it chooses the bits of each layer
  $ mica run --mirostat 2 x 2>&1
  mica: run has no option --mirostat; mica does not have this sampler yet: --min-p and --top-p are similar
  Try: mica help run
  [2]
  $ mica serve --grammar g 2>&1; mica score --format json x 2>&1
  mica: serve has no option --grammar; run, generate, chat and batch have --json-schema, --grammar and the like; requests to a server have response_format, or ollama's format
  Try: mica help serve
  mica: score has no option --format; run, generate, chat and batch have --json-schema, --grammar and the like; requests to a server have response_format, or ollama's format
  Try: mica help score
  [2]
  $ mica -m model -p hi 2>&1
  mica: options follow a command, such as mica run -m
  Try: mica help
  [2]

Every row of both tables does what it says: a name of another program is taken as an option of mica,
and what mica has not is told with its advice. What is listed here, run does not have, or has.

  $ sed -n 's/^ALIAS("\([^"]*\)", "\([^"]*\)".*/\1 \2/p' $ROOT/cli/alias_list.h > aliases
  > while read -r name option; do
  >   mica run $name 2>&1 < /dev/null | grep -q -e "^mica: $name needs a value" -e '^mica: the prompt is empty' || echo $name
  >   mica run --$option 2>&1 < /dev/null | grep -q "no option" && echo "--$option"
  > done < aliases; [ $(wc -l < aliases) = $(grep -c '^ALIAS(' $ROOT/cli/alias_list.h) ]
  --q-bits
  --bits
  --q-group-size
  --group-size
  --q-mode
  --mode
  --quant-predicate
  --recipe
  --mlx-path
  --output
  --save-path
  --output
  --de-quantize
  --dequantize
  --n-gen
  --generate
  --generation-tokens
  --generate
  --repetitions
  --repeat
  --num-trials
  --repeat
  --parallel
  --rows
  -np
  --rows
  --max-num-seqs
  --rows
  --decode-concurrency
  --rows
  --max-num-batched-tokens
  --step-tokens
  --alias
  --name
  --served-model-name
  --name
  --ssl-cert-file
  --tls-cert
  --ssl-certfile
  --tls-cert
  --ssl-key-file
  --tls-key
  --ssl-keyfile
  --tls-key
  --models-max
  --max-models
  $ tr -d '\n' < $ROOT/cli/elsewhere_list.h | sed 's/"  *"//g; s/ELSEWHERE(/\nREFUSED /g; s/LEFT_OUT(/\nLEFT /g' |
  >   sed -n 's/^REFUSED *"\([^"]*\)", *"\(.*\)").*/\1|; \2/p; s/^LEFT [A-Z]*, *"\([^"]*\)", *"\(.*\)").*/\1| is left out: \2/p' |
  >   sed 's/\\\(.\)/\1/g' > pairs
  > while IFS='|' read -r names advice; do
  >   name=${names%% *}
  >   case $name in -*) mica rm ${name%\*} 1 ;; *) mica $name x ;; esac 2>&1 | grep -qF -- "$advice" || echo $name
  > done < pairs; [ $(wc -l < pairs) -gt 100 ]

The options and commands of llama.cpp, mlx-lm, ollama and vLLM are listed in options/: each works, is
left out, or says what to do. A name that is near is no advice.

  $ while read -r program verbs; do
  >   for verb in $verbs; do
  >     mica $verb --zzzz 2>&1 < /dev/null | grep -q "no command '$verb'\$" && echo "$program: $verb"
  >   done
  > done < $ROOT/tests/cli/options/verbs.txt
  > list=$(cat $ROOT/cli/elsewhere_list.h); line='
  > '
  > for program in llama.cpp mlx-lm ollama vllm; do
  >   while read -r verb options; do
  >     for option in $options; do
  >       said=$(mica $verb $option 1 --zzzzzzzz 2>&1 < /dev/null)
  >       case $said in *"no option $option"*) ;; *) continue ;; esac
  >       said=${said##*"no option $option"}; said=${said%%"$line"*}
  >       case $said in
  >         "; did you mean --"*) case $list in *"${said##*; }"*) ;; *) echo "$program: $verb $option: a guess" ;; esac ;;
  >         "; put --"*) echo "$program: $verb $option" ;;
  >         "; "*) ;;
  >         *) echo "$program: $verb $option" ;;
  >       esac
  >     done
  >   done < $ROOT/tests/cli/options/$program.txt
  > done

What is left out is told, with its value, and changes nothing.

  $ mica run -p "What is curl?" -q -n 4 > a; mica run -mg 0 -fa on -p "What is curl?" -q -n 4 --no-warmup -tb 8 2>&1
  > for options in "-mg 0" --main-gpu=0 -fa "-fa off" --flash-attn --no-perf "--keep 4" --jinja --no-context-shift; do
  >   mica run $options "What is curl?" -q -n 4 2> err | cmp - a; wc -l < err
  > done | sort | uniq -c | sed 's/^ *//'; mica run "What is curl?" -mg 2>&1 | head -1
  mica: -mg is left out: --device says what computes layers, and --gpu-layers how many of them
  mica: -fa is left out: attention is always computed without storing all scores
  mica: --no-warmup is left out: there is no warm-up before the prompt
  mica: -tb is left out: --threads counts the threads of all work, and the system places them
  curl is a command
  9 1
  mica: -mg needs a value
  $ mica run "What is curl?" -q -n 4 -l 5433-100 > b; mica run "What is curl?" -q -n 4 --logit-bias 5433=-100 | cmp - b

Guesses are made only where they are close.

  $ for verb in rnu caht chatt lsit zap showing; do mica $verb 2>&1 | head -1; done
  mica: there is no command 'rnu'; did you mean 'run'?
  mica: there is no command 'caht'; did you mean 'chat'?
  mica: there is no command 'chatt'; did you mean 'chat'?
  mica: there is no command 'lsit'; did you mean 'list'?
  mica: there is no command 'zap'
  mica: there is no command 'showing'

A ~ in a file name is the home folder, where a shell leaves it too.

  $ mica show --model=~/model | head -1 | sed "s|$HOME|HOME|"
  model         HOME/model
  $ MICA_OUTPUT='~/rows' mica batch -q << 'END'
  > {"prompt": "curl is", "max_tokens": 1}
  > END
  > wc -l < rows; mica run -f '~/prompt' -q -n 1; mkdir '~'; mica run -f '~/nothing' 2>&1 | sed "s|$HOME|HOME|"
  1
  curl
  mica: cannot read HOME/nothing: No such file or directory

Help and manual page name them.

  $ mica help bench | sed -n '/^Other/,/^$/p'
  Other programs' names work, too: --adapter-path, --lora-modules (--adapter),
  --n-gpu-layers, -ngl (--gpu-layers), --kv-bits (--cache), --hf-path, --hf-repo,
  -hf, -hfr (--model), --n-gen, --generation-tokens (--generate), --repetitions,
  --num-trials (--repeat). Underscores stand for dashes.
  
  $ mica man run | sed -n '/^.SH OTHER/,/--temperature/p' | head -5; mica man run | sed -n '/n..predict/,/max/p'
  .SH OTHER NAMES
  Other programs' names work, too. Underscores stand for dashes.
  .TP
  \fB\-\-temp\fR
  \-\-temperature
  \fB\-\-n\-predict\fR, \fB\-\-predict\fR, \fB\-\-num\-predict\fR
  \-\-max\-tokens
