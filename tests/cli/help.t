The command alone, and `help`, print the short help.

  $ mica
  mica 0.1.0 runs language models in the MLX / Hugging Face layout, in place.
  
  Usage: mica COMMAND [options] ...
  
  Talk:
    chat         talk with a model
    run          answer one prompt
    generate     continue a raw text, without a chat format
    serve        answer requests over HTTP
    ps           list the models that a server has in memory
    stop         have a server unload a model
  
  Many texts:
    batch        answer the prompts of a file
    classify     find the likeliest label of each text
    embed        turn texts to vectors (embeddings)
    rerank       sort texts by how well they answer a query
    score        print how likely a text is
    eval         measure a model's perplexity, and compare its arithmetic
  
  Models:
    pull         download a model
    list         list the models of this machine
    show         describe a model, the memory it needs, and whether that fits
    tune         train an adapter of a model
    rm           remove a model from the Hugging Face cache
    gc           remove what no model of the cache needs
    plot         draw the losses of trainings
    tokenize     turn a text to token ids, and back
    quantize     quantise a model's weights
    fuse         add an adapter to a model's weights
    convert      copy a model in another dtype or layout
  
  Networks:
    program      show and run programs: networks in one file
  
  This machine:
    bench        measure prefill and decode rates
    devices      list the devices and engines that models can run on
  
  This command:
    completions  print a shell's completion script
    man          print a manual page
    version      print the version and the build's options
    help         print this list, or the help of a command: mica help chat
  
  Examples:
    mica chat                          talk with the model that comes with mica
    mica chat ~/models/gemma-3-1b-it   talk with another model
    mica run "What is curl?"           print one answer
    mica run "Sum it up" -f letter.txt  ask about a file
    mica show ~/models/gemma-3-1b-it   describe a model, and whether it fits
  
  Options can also be set in the environment: --max-tokens as MICA_MAX_TOKENS.
  $ mica > a; mica help > b; mica --help > c; mica -h > d
  > cmp a b && cmp a c && cmp a d

Each verb explains itself, in lines of 80 columns at most.

  $ mica help chat
  mica chat: talk with a model
  
  Usage: mica chat [options] [MODEL] [MESSAGE]
  
  Answers MESSAGE, then each line that is typed, and remembers the conversation.
  Typed lines have editing and a history. Without MESSAGE, each line of a pipe is
  answered.
  
  MESSAGE, the text of --file and what is piped in are joined in this order, with
  a blank line between. Any of them is enough; - also waits for a pipe that stays
  empty. A single word that is a name, such as mistral, is MODEL, unless --model
  is given.
  
  Ctrl-C stops an answer. At the prompt it clears the line; a second one on an
  empty line ends the chat with the exit code 130. Ctrl-D ends the chat, too.
  
  A line that ends in \ continues on the next line. """ begins and ends a text of
  several lines. /help lists commands, and Tab completes them.
  
  When the context is full, the oldest turns are left out, but never the system
  prompt.
  
  A conversation at a terminal that is not saved by /save or --session is kept for
  30 days in ~/.local/state/mica/talks, where nobody else can read it; the last 20
  are kept. --resume continues the last one, /load any of them. --no-history keeps
  neither conversations nor typed lines.
  
  MODEL is a folder that holds config.json, tokenizer.json and *.safetensors, a
  GGUF file, a name that mica list shows, or ORG/NAME of a hub (mica help pull),
  as in org/name-GGUF:Q4_K_M. The default is $MICA_MODEL, else
  $MICA_MODELS/default, else the model that comes with mica.
  
  Prompt:
    -p, --prompt TEXT             the prompt; a word is then the model
    -f, --file FILE               read the prompt from FILE, without a line feed
                                  at its end; after a prompt that is given, too
  
  Conversation:
    -S, --system TEXT             the system message, which comes before the
                                  conversation
        --[no-]think              let the model think before it answers, or not,
                                  where its chat template can: sets
                                  enable_thinking; --think=low, medium or high
                                  also sets reasoning_effort
        --variable NAME=VALUE     set a variable of the chat template; VALUE is
                                  JSON or a text; may be repeated
        --[no-]history            keep typed lines, and conversations that were
                                  not saved (default: on)
  
  Keeping it:
        --session FILE            keep the conversation in FILE, and continue the
                                  one that FILE has
        --resume                  continue the last conversation that was not
                                  saved, with its model and adapter unless others
                                  are named
  
  Answer:
    -T, --temperature X           sampling temperature; 0: greedy, always the
                                  likeliest token (default: 0)
    -k, --top-k N                 top-k sampling: only the N likeliest tokens; 0:
                                  all (default: 0)
        --top-p P                 top-p (nucleus) sampling: only the fewest tokens
                                  whose probabilities reach P; 1: all (default: 1)
        --min-p P                 min-p sampling: only tokens at least P times as
                                  likely as the likeliest; 0: all (default: 0)
        --repetition-penalty X    repetition penalty: above 1, tokens in the
                                  penalty window become less likely (default: 1)
        --presence-penalty X      presence penalty: subtracted from the logit of
                                  each of the answer's tokens in the penalty
                                  window (default: 0)
        --frequency-penalty X     frequency penalty: subtracted once for each
                                  occurrence of the token there (default: 0)
        --penalty-window N        number of last tokens that the penalties apply
                                  to; 0: 20 (default: 0)
    -n, --max-tokens N            maximum number of tokens to generate; 0 or -1:
                                  until the model stops (default: 0)
        --min-tokens N            minimum number of tokens to generate before the
                                  answer may stop (default: 0)
    -s, --seed N                  random seed: the same seed gives the same
                                  answer; random: a new seed for each answer
                                  (default: random)
        --logit-bias ID=X         add X to the logit of token ID; -inf forbids the
                                  token; may be repeated
        --stop TEXT               end the answer before TEXT; may be repeated
        --ignore-eos              continue where the model would end the answer
        --truncate                drop the oldest tokens of a prompt that does not
                                  fit the context
        --eos-token TOKEN         end the answer at this token, too: its text, or
                                  its id; may be repeated
        --draft-tokens N          speculative decoding: draft up to N tokens where
                                  the text repeats itself; faster, the same
                                  answer; 0: none, with a draft model 7 (default:
                                  0)
        --draft-model FOLDER      speculative decoding: a smaller model with the
                                  same vocabulary that drafts tokens
        --logprobs N              print each token on a line, with its
                                  log-probability and the N likeliest; 0: print
                                  text (default: 0)
    -q, --quiet                   print no rates and no progress on stderr
    -v, --verbose                 also print the model, the seed, the sampling
                                  options and times on stderr
        --[no-]wrap               break lines between words when the answer is
                                  printed on a terminal (default: on)
  
  Structured output:
        --json-object             the answer is a JSON object
        --json-schema SCHEMA      the answer is a JSON document that satisfies
                                  SCHEMA
        --regex PATTERN           the whole answer matches PATTERN, a regular
                                  expression
        --grammar GRAMMAR         the answer is one of GRAMMAR, in GBNF (root ::=
                                  ...) or in Lark's notation (start: ...)
        --choice TEXT             the answer is TEXT, or another one; may be
                                  repeated
        --json-schema-file FILE   read the schema from FILE
        --grammar-file FILE       read the grammar from FILE
  
  Model:
    -m, --model MODEL             the model: a folder, a GGUF file, or a name
    -y, --yes                     download a model that is not there without
                                  asking
    -a, --adapter FOLDER          a LoRA adapter of the model, made by mlx-lm or
                                  PEFT
        --device NAME             the device that computes: cpu, cuda, mlx,
                                  mlx:gpu, mlx:cpu (mica devices lists those of
                                  this machine); the default is cpu
        --gpu-layers N            layers, the last ones, that --device computes;
                                  the CPU computes the others, whose weights and
                                  caches it keeps; -1: what is fastest with the
                                  memory that the device has (default: -1)
        --engine NAME             the engine that computes: native, or mlx_lm for
                                  Python's mlx-lm (mica devices lists them); the
                                  default is the first that knows the model
        --arithmetic fast|exact   fast: activations in int8 for quantised weights,
                                  in bf16 for bf16 weights if the machine is
                                  faster with that; exact: in floats (default:
                                  fast)
        --cache TYPE              type of cached keys and values: f32, f16, bf16
                                  or int8 (with a scale for each 32); auto: bf16
                                  in fast arithmetic, else f32 (default: auto)
        --no-mmap                 read the weights into memory instead of mapping
                                  their files
        --prefetch                read all mapped weights ahead, before the first
                                  token
        --mlock                   lock the weights in memory, so that they are
                                  never swapped
    -t, --threads N               number of threads that compute; 0: one per core
                                  (default: 0)
    -c, --context N               context length in tokens; older tokens are
                                  forgotten; 0: the model's own, and a longer
                                  prompt is an error (default: 0)
        --chat-template TEXT      a Jinja template to use instead of the model's
                                  own
        --chat-template-file FILE
                                  read the Jinja template from FILE
        --prefill-chunk N         number of the prompt's tokens computed at once;
                                  0: 512, 2048 on cuda (default: 0)
  
  Help:
    -h, --help                    print this help and exit
  
  Most options can also be set in the environment: --system as MICA_SYSTEM, a flag
  as on or off. Options of the command line win; --no-FLAG unsets a flag there.
  
  Other programs' names work, too: --temp (--temperature), --repeat-penalty
  (--repetition-penalty), --repeat-last-n (--penalty-window), --n-predict,
  --predict, --num-predict (--max-tokens), --reverse-prompt (--stop),
  --extra-eos-token (--eos-token), --num-draft-tokens, --draft-max, --draft-n,
  --draft, --spec-draft-n-max, --spec-tokens (--draft-tokens), --model-draft, -md,
  --spec-draft-model, --spec-model (--draft-model), -V (--verbose),
  --system-prompt, -sys (--system), --adapter-path, --lora-modules (--adapter),
  --ctx-size, --max-kv-size, --num-ctx, --max-model-len (--context),
  --prefill-step-size, --batch-size, -b, --ubatch-size, -ub (--prefill-chunk),
  --n-gpu-layers, -ngl (--gpu-layers), --kv-bits (--cache), --hf-path, --hf-repo,
  -hf, -hfr (--model), --reasoning, -rea, --reasoning-budget, --reasoning-effort
  (--think), -l (--logit-bias), -j (--json-schema), -jf (--json-schema-file),
  --wordwrap, --nowordwrap (--wrap). Underscores stand for dashes.
  
  Examples:
    mica chat
    mica chat "What is curl?"
    mica chat ~/models/gemma-3-1b-it --system "Answer in verse" -T 0.8
    printf 'What is curl?\nWho wrote it?\n' | mica chat --quiet
  $ mica help run
  mica run: answer one prompt
  
  Usage: mica run [options] [MODEL] [PROMPT]
  
  Puts PROMPT in the model's chat format and prints the answer. At a terminal, and
  without PROMPT, it is the same as mica chat.
  
  PROMPT, the text of --file and what is piped in are joined in this order, with a
  blank line between. Any of them is enough; - also waits for a pipe that stays
  empty. A single word that is a name, such as mistral, is MODEL, unless --model
  is given.
  
  MODEL is a folder that holds config.json, tokenizer.json and *.safetensors, a
  GGUF file, a name that mica list shows, or ORG/NAME of a hub (mica help pull),
  as in org/name-GGUF:Q4_K_M. The default is $MICA_MODEL, else
  $MICA_MODELS/default, else the model that comes with mica.
  
  Prompt:
    -p, --prompt TEXT             the prompt; a word is then the model
    -f, --file FILE               read the prompt from FILE, without a line feed
                                  at its end; after a prompt that is given, too
        --json                    print a JSON object: the text, why it ended,
                                  token counts, times
        --prefill TEXT            the answer begins with TEXT, and what comes
                                  behind it is printed
  
  Conversation:
    -S, --system TEXT             the system message, which comes before the
                                  conversation
        --[no-]think              let the model think before it answers, or not,
                                  where its chat template can: sets
                                  enable_thinking; --think=low, medium or high
                                  also sets reasoning_effort
        --variable NAME=VALUE     set a variable of the chat template; VALUE is
                                  JSON or a text; may be repeated
        --[no-]history            keep typed lines, and conversations that were
                                  not saved (default: on)
  
  Answer:
    -T, --temperature X           sampling temperature; 0: greedy, always the
                                  likeliest token (default: 0)
    -k, --top-k N                 top-k sampling: only the N likeliest tokens; 0:
                                  all (default: 0)
        --top-p P                 top-p (nucleus) sampling: only the fewest tokens
                                  whose probabilities reach P; 1: all (default: 1)
        --min-p P                 min-p sampling: only tokens at least P times as
                                  likely as the likeliest; 0: all (default: 0)
        --repetition-penalty X    repetition penalty: above 1, tokens in the
                                  penalty window become less likely (default: 1)
        --presence-penalty X      presence penalty: subtracted from the logit of
                                  each of the answer's tokens in the penalty
                                  window (default: 0)
        --frequency-penalty X     frequency penalty: subtracted once for each
                                  occurrence of the token there (default: 0)
        --penalty-window N        number of last tokens that the penalties apply
                                  to; 0: 20 (default: 0)
    -n, --max-tokens N            maximum number of tokens to generate; 0 or -1:
                                  until the model stops (default: 0)
        --min-tokens N            minimum number of tokens to generate before the
                                  answer may stop (default: 0)
    -s, --seed N                  random seed: the same seed gives the same
                                  answer; random: a new seed for each answer
                                  (default: random)
        --logit-bias ID=X         add X to the logit of token ID; -inf forbids the
                                  token; may be repeated
        --stop TEXT               end the answer before TEXT; may be repeated
        --ignore-eos              continue where the model would end the answer
        --truncate                drop the oldest tokens of a prompt that does not
                                  fit the context
        --eos-token TOKEN         end the answer at this token, too: its text, or
                                  its id; may be repeated
        --draft-tokens N          speculative decoding: draft up to N tokens where
                                  the text repeats itself; faster, the same
                                  answer; 0: none, with a draft model 7 (default:
                                  0)
        --draft-model FOLDER      speculative decoding: a smaller model with the
                                  same vocabulary that drafts tokens
        --logprobs N              print each token on a line, with its
                                  log-probability and the N likeliest; 0: print
                                  text (default: 0)
    -q, --quiet                   print no rates and no progress on stderr
    -v, --verbose                 also print the model, the seed, the sampling
                                  options and times on stderr
        --[no-]wrap               break lines between words when the answer is
                                  printed on a terminal (default: on)
        --echo                    print the prompt, too
  
  Structured output:
        --json-object             the answer is a JSON object
        --json-schema SCHEMA      the answer is a JSON document that satisfies
                                  SCHEMA
        --regex PATTERN           the whole answer matches PATTERN, a regular
                                  expression
        --grammar GRAMMAR         the answer is one of GRAMMAR, in GBNF (root ::=
                                  ...) or in Lark's notation (start: ...)
        --choice TEXT             the answer is TEXT, or another one; may be
                                  repeated
        --json-schema-file FILE   read the schema from FILE
        --grammar-file FILE       read the grammar from FILE
  
  Model:
    -m, --model MODEL             the model: a folder, a GGUF file, or a name
    -y, --yes                     download a model that is not there without
                                  asking
    -a, --adapter FOLDER          a LoRA adapter of the model, made by mlx-lm or
                                  PEFT
        --device NAME             the device that computes: cpu, cuda, mlx,
                                  mlx:gpu, mlx:cpu (mica devices lists those of
                                  this machine); the default is cpu
        --gpu-layers N            layers, the last ones, that --device computes;
                                  the CPU computes the others, whose weights and
                                  caches it keeps; -1: what is fastest with the
                                  memory that the device has (default: -1)
        --engine NAME             the engine that computes: native, or mlx_lm for
                                  Python's mlx-lm (mica devices lists them); the
                                  default is the first that knows the model
        --arithmetic fast|exact   fast: activations in int8 for quantised weights,
                                  in bf16 for bf16 weights if the machine is
                                  faster with that; exact: in floats (default:
                                  fast)
        --cache TYPE              type of cached keys and values: f32, f16, bf16
                                  or int8 (with a scale for each 32); auto: bf16
                                  in fast arithmetic, else f32 (default: auto)
        --no-mmap                 read the weights into memory instead of mapping
                                  their files
        --prefetch                read all mapped weights ahead, before the first
                                  token
        --mlock                   lock the weights in memory, so that they are
                                  never swapped
    -t, --threads N               number of threads that compute; 0: one per core
                                  (default: 0)
    -c, --context N               context length in tokens; older tokens are
                                  forgotten; 0: the model's own, and a longer
                                  prompt is an error (default: 0)
        --chat-template TEXT      a Jinja template to use instead of the model's
                                  own
        --chat-template-file FILE
                                  read the Jinja template from FILE
        --prefill-chunk N         number of the prompt's tokens computed at once;
                                  0: 512, 2048 on cuda (default: 0)
  
  Ranks:
        --tensor-parallel N       of the ranks that mpirun or srun has started,
                                  those that have a part of each matrix; 0: all
                                  that --pipeline-parallel leaves (default: 0)
        --pipeline-parallel N     parts of the layers, each of other ranks; 0:
                                  what --tensor-parallel leaves, or 1 (default: 0)
  
  Help:
    -h, --help                    print this help and exit
  
  Most options can also be set in the environment: --json as MICA_JSON, a flag as
  on or off. Options of the command line win; --no-FLAG unsets a flag there.
  
  Other programs' names work, too: --temp (--temperature), --repeat-penalty
  (--repetition-penalty), --repeat-last-n (--penalty-window), --n-predict,
  --predict, --num-predict (--max-tokens), --reverse-prompt (--stop),
  --extra-eos-token (--eos-token), --prefill-response (--prefill),
  --num-draft-tokens, --draft-max, --draft-n, --draft, --spec-draft-n-max,
  --spec-tokens (--draft-tokens), --model-draft, -md, --spec-draft-model,
  --spec-model (--draft-model), -V (--verbose), --system-prompt, -sys (--system),
  --adapter-path, --lora-modules (--adapter), --ctx-size, --max-kv-size,
  --num-ctx, --max-model-len (--context), --prefill-step-size, --batch-size, -b,
  --ubatch-size, -ub (--prefill-chunk), --n-gpu-layers, -ngl (--gpu-layers),
  --kv-bits (--cache), --hf-path, --hf-repo, -hf, -hfr (--model), --display-prompt
  (--echo), --reasoning, -rea, --reasoning-budget, --reasoning-effort (--think),
  -l (--logit-bias), -j (--json-schema), -jf (--json-schema-file), --wordwrap,
  --nowordwrap (--wrap). Underscores stand for dashes.
  
  Examples:
    mica run "What is curl?"
    mica run ~/models/gemma-3-1b-it "Write a haiku on disks" -T 0.8 --seed 7
    git diff | mica run "Describe this change"
    mica run "Summarise this letter" --file letter.txt
  $ mica help generate
  mica generate: continue a raw text, without a chat format
  
  Usage: mica generate [options] [MODEL] [PROMPT]
  
  Prints how the model continues PROMPT, a raw text.
  
  PROMPT, the text of --file and what is piped in are joined in this order, with a
  blank line between. Any of them is enough; - also waits for a pipe that stays
  empty. A single word that is a name, such as mistral, is MODEL, unless --model
  is given.
  
  MODEL is a folder that holds config.json, tokenizer.json and *.safetensors, a
  GGUF file, a name that mica list shows, or ORG/NAME of a hub (mica help pull),
  as in org/name-GGUF:Q4_K_M. The default is $MICA_MODEL, else
  $MICA_MODELS/default, else the model that comes with mica.
  
  Prompt:
    -p, --prompt TEXT             the prompt; a word is then the model
    -f, --file FILE               read the prompt from FILE, without a line feed
                                  at its end; after a prompt that is given, too
        --json                    print a JSON object: the text, why it ended,
                                  token counts, times
  
  Answer:
    -T, --temperature X           sampling temperature; 0: greedy, always the
                                  likeliest token (default: 0)
    -k, --top-k N                 top-k sampling: only the N likeliest tokens; 0:
                                  all (default: 0)
        --top-p P                 top-p (nucleus) sampling: only the fewest tokens
                                  whose probabilities reach P; 1: all (default: 1)
        --min-p P                 min-p sampling: only tokens at least P times as
                                  likely as the likeliest; 0: all (default: 0)
        --repetition-penalty X    repetition penalty: above 1, tokens in the
                                  penalty window become less likely (default: 1)
        --presence-penalty X      presence penalty: subtracted from the logit of
                                  each of the answer's tokens in the penalty
                                  window (default: 0)
        --frequency-penalty X     frequency penalty: subtracted once for each
                                  occurrence of the token there (default: 0)
        --penalty-window N        number of last tokens that the penalties apply
                                  to; 0: 20 (default: 0)
    -n, --max-tokens N            maximum number of tokens to generate; 0 or -1:
                                  until the model stops (default: 0)
        --min-tokens N            minimum number of tokens to generate before the
                                  answer may stop (default: 0)
    -s, --seed N                  random seed: the same seed gives the same
                                  answer; random: a new seed for each answer
                                  (default: random)
        --logit-bias ID=X         add X to the logit of token ID; -inf forbids the
                                  token; may be repeated
        --stop TEXT               end the answer before TEXT; may be repeated
        --ignore-eos              continue where the model would end the answer
        --truncate                drop the oldest tokens of a prompt that does not
                                  fit the context
        --eos-token TOKEN         end the answer at this token, too: its text, or
                                  its id; may be repeated
        --draft-tokens N          speculative decoding: draft up to N tokens where
                                  the text repeats itself; faster, the same
                                  answer; 0: none, with a draft model 7 (default:
                                  0)
        --draft-model FOLDER      speculative decoding: a smaller model with the
                                  same vocabulary that drafts tokens
        --logprobs N              print each token on a line, with its
                                  log-probability and the N likeliest; 0: print
                                  text (default: 0)
    -q, --quiet                   print no rates and no progress on stderr
    -v, --verbose                 also print the model, the seed, the sampling
                                  options and times on stderr
        --[no-]wrap               break lines between words when the answer is
                                  printed on a terminal (default: on)
        --echo                    print the prompt, too
  
  Structured output:
        --json-object             the answer is a JSON object
        --json-schema SCHEMA      the answer is a JSON document that satisfies
                                  SCHEMA
        --regex PATTERN           the whole answer matches PATTERN, a regular
                                  expression
        --grammar GRAMMAR         the answer is one of GRAMMAR, in GBNF (root ::=
                                  ...) or in Lark's notation (start: ...)
        --choice TEXT             the answer is TEXT, or another one; may be
                                  repeated
        --json-schema-file FILE   read the schema from FILE
        --grammar-file FILE       read the grammar from FILE
  
  Model:
    -m, --model MODEL             the model: a folder, a GGUF file, or a name
    -y, --yes                     download a model that is not there without
                                  asking
    -a, --adapter FOLDER          a LoRA adapter of the model, made by mlx-lm or
                                  PEFT
        --device NAME             the device that computes: cpu, cuda, mlx,
                                  mlx:gpu, mlx:cpu (mica devices lists those of
                                  this machine); the default is cpu
        --gpu-layers N            layers, the last ones, that --device computes;
                                  the CPU computes the others, whose weights and
                                  caches it keeps; -1: what is fastest with the
                                  memory that the device has (default: -1)
        --engine NAME             the engine that computes: native, or mlx_lm for
                                  Python's mlx-lm (mica devices lists them); the
                                  default is the first that knows the model
        --arithmetic fast|exact   fast: activations in int8 for quantised weights,
                                  in bf16 for bf16 weights if the machine is
                                  faster with that; exact: in floats (default:
                                  fast)
        --cache TYPE              type of cached keys and values: f32, f16, bf16
                                  or int8 (with a scale for each 32); auto: bf16
                                  in fast arithmetic, else f32 (default: auto)
        --no-mmap                 read the weights into memory instead of mapping
                                  their files
        --prefetch                read all mapped weights ahead, before the first
                                  token
        --mlock                   lock the weights in memory, so that they are
                                  never swapped
    -t, --threads N               number of threads that compute; 0: one per core
                                  (default: 0)
    -c, --context N               context length in tokens; older tokens are
                                  forgotten; 0: the model's own, and a longer
                                  prompt is an error (default: 0)
  
  Session:
        --prefill-chunk N         number of the prompt's tokens computed at once;
                                  0: 512, 2048 on cuda (default: 0)
  
  Ranks:
        --tensor-parallel N       of the ranks that mpirun or srun has started,
                                  those that have a part of each matrix; 0: all
                                  that --pipeline-parallel leaves (default: 0)
        --pipeline-parallel N     parts of the layers, each of other ranks; 0:
                                  what --tensor-parallel leaves, or 1 (default: 0)
  
  Help:
    -h, --help                    print this help and exit
  
  Most options can also be set in the environment: --json as MICA_JSON, a flag as
  on or off. Options of the command line win; --no-FLAG unsets a flag there.
  
  Other programs' names work, too: --temp (--temperature), --repeat-penalty
  (--repetition-penalty), --repeat-last-n (--penalty-window), --n-predict,
  --predict, --num-predict (--max-tokens), --reverse-prompt (--stop),
  --extra-eos-token (--eos-token), --num-draft-tokens, --draft-max, --draft-n,
  --draft, --spec-draft-n-max, --spec-tokens (--draft-tokens), --model-draft, -md,
  --spec-draft-model, --spec-model (--draft-model), -V (--verbose),
  --adapter-path, --lora-modules (--adapter), --ctx-size, --max-kv-size,
  --num-ctx, --max-model-len (--context), --prefill-step-size, --batch-size, -b,
  --ubatch-size, -ub (--prefill-chunk), --n-gpu-layers, -ngl (--gpu-layers),
  --kv-bits (--cache), --hf-path, --hf-repo, -hf, -hfr (--model), --display-prompt
  (--echo), -l (--logit-bias), -j (--json-schema), -jf (--json-schema-file),
  --wordwrap, --nowordwrap (--wrap). Underscores stand for dashes.
  
  Examples:
    mica generate "curl is" --max-tokens 40
  $ mica help show
  mica show: describe a model, the memory it needs, and whether that fits
  
  Usage: mica show [options] [MODEL]
  
  Prints a model's architecture, parameters, quantisation and context length, the
  memory that it needs, whether this machine has that memory, and the largest
  context that fits. With --fit the exit code is 1 if the model does not fit.
  
  MODEL is a folder that holds config.json, tokenizer.json and *.safetensors, a
  GGUF file, a name that mica list shows, or ORG/NAME of a hub (mica help pull),
  as in org/name-GGUF:Q4_K_M. The default is $MICA_MODEL, else
  $MICA_MODELS/default, else the model that comes with mica.
  
  Output:
    -c, --context N               context length, in tokens, to compute memory
                                  for; 0: the model's own (default: 0)
        --fit N                   as --context, but fail if N tokens do not fit
        --json                    print a JSON object
  
  Model:
    -m, --model MODEL             the model: a folder, a GGUF file, or a name
    -y, --yes                     download a model that is not there without
                                  asking
    -a, --adapter FOLDER          a LoRA adapter of the model, made by mlx-lm or
                                  PEFT
        --device NAME             the device that computes: cpu, cuda, mlx,
                                  mlx:gpu, mlx:cpu (mica devices lists those of
                                  this machine); the default is cpu
        --gpu-layers N            layers, the last ones, that --device computes;
                                  the CPU computes the others, whose weights and
                                  caches it keeps; -1: what is fastest with the
                                  memory that the device has (default: -1)
  
  Help:
    -h, --help                    print this help and exit
  
  Each option can also be set in the environment: --context as MICA_CONTEXT, a
  flag as on or off. Options of the command line win; --no-FLAG unsets a flag
  there.
  
  Other programs' names work, too: --adapter-path, --lora-modules (--adapter),
  --ctx-size, --max-kv-size, --num-ctx, --max-model-len (--context),
  --n-gpu-layers, -ngl (--gpu-layers), --hf-path, --hf-repo, -hf, -hfr (--model).
  Underscores stand for dashes.
  
  Examples:
    mica show ~/models/gemma-3-1b-it --context 32768
    mica show ~/models/gemma-3-1b-it --fit 8192 && echo "it fits"
  $ mica help tokenize
  mica tokenize: turn a text to token ids, and back
  
  Usage: mica tokenize [options] [MODEL] [TEXT]
  
  Prints the id and the spelling of each token of TEXT, and of the special tokens
  that the model's tokenizer puts around it, such as <bos>.
  
  TEXT is read from standard input if it is -, or if it is missing and standard
  input is not a terminal; a line feed at its end is dropped. A single word is
  TEXT, unless it is a model's folder. With --model it is always TEXT.
  
  MODEL is a folder that holds config.json, tokenizer.json and *.safetensors, a
  GGUF file, a name that mica list shows, or ORG/NAME of a hub (mica help pull),
  as in org/name-GGUF:Q4_K_M. The default is $MICA_MODEL, else
  $MICA_MODELS/default, else the model that comes with mica.
  
  Text:
    -f, --file FILE               read the text from FILE
        --ids                     print only the ids, on one line
    -d, --decode                  TEXT is a list of ids: print their text
  
  Model:
    -m, --model MODEL             the model: a folder, a GGUF file, or a name
    -y, --yes                     download a model that is not there without
                                  asking
  
  Help:
    -h, --help                    print this help and exit
  
  Most options can also be set in the environment: --ids as MICA_IDS, a flag as on
  or off. Options of the command line win; --no-FLAG unsets a flag there.
  
  Other programs' names work, too: --hf-path, --hf-repo, -hf, -hfr (--model).
  Underscores stand for dashes.
  
  Examples:
    mica tokenize "What is curl?"
    mica tokenize --ids < letter.txt | mica tokenize --decode
  $ mica help bench
  mica bench: measure prefill and decode rates
  
  Usage: mica bench [options] [MODEL]
  
  Measures the rates of prefill and decode, in tokens a second, for each number of
  threads and each length of prompt, the memory beside the weights, and what was
  read from disks meanwhile: of a model that is larger than the memory, more than
  once. The environment variable MICA_CPU limits the instruction sets: avx2 uses
  none after AVX2; an unknown name lists them all.
  
  --prefetch-distance measures with the first prompt and the first number of
  threads. The variable MICA_AHEAD gives most kernels one distance, in bytes. On a
  processor that mica was not timed on, please report the best.
  
  MODEL is a folder that holds config.json, tokenizer.json and *.safetensors, a
  GGUF file, a name that mica list shows, or ORG/NAME of a hub (mica help pull),
  as in org/name-GGUF:Q4_K_M. The default is $MICA_MODEL, else
  $MICA_MODELS/default, else the model that comes with mica.
  
  Measurement:
    -p, --prompt N,...            lengths of the prompts, in tokens (default:
                                  128,512)
    -n, --generate N              number of tokens to generate after each prompt
                                  (default: 64)
    -t, --threads N,...           numbers of threads that compute; 0: one per core
                                  (default: 0)
    -r, --repeat N                number of runs, after a warm-up; their median is
                                  printed (default: 3)
        --prefetch-distance       try how far ahead of their use weights are
                                  prefetched, and print the best
        --json                    print a JSON object
  
  Model:
    -m, --model MODEL             the model: a folder, a GGUF file, or a name
    -y, --yes                     download a model that is not there without
                                  asking
    -a, --adapter FOLDER          a LoRA adapter of the model, made by mlx-lm or
                                  PEFT
        --device NAME             the device that computes: cpu, cuda, mlx,
                                  mlx:gpu, mlx:cpu (mica devices lists those of
                                  this machine); the default is cpu
        --gpu-layers N            layers, the last ones, that --device computes;
                                  the CPU computes the others, whose weights and
                                  caches it keeps; -1: what is fastest with the
                                  memory that the device has (default: -1)
        --engine NAME             the engine that computes: native, or mlx_lm for
                                  Python's mlx-lm (mica devices lists them); the
                                  default is the first that knows the model
        --arithmetic fast|exact   fast: activations in int8 for quantised weights,
                                  in bf16 for bf16 weights if the machine is
                                  faster with that; exact: in floats (default:
                                  fast)
        --cache TYPE              type of cached keys and values: f32, f16, bf16
                                  or int8 (with a scale for each 32); auto: bf16
                                  in fast arithmetic, else f32 (default: auto)
        --no-mmap                 read the weights into memory instead of mapping
                                  their files
        --prefetch                read all mapped weights ahead, before the first
                                  token
        --mlock                   lock the weights in memory, so that they are
                                  never swapped
  
  Help:
    -h, --help                    print this help and exit
  
  Each option can also be set in the environment: --prompt as MICA_PROMPT, a flag
  as on or off. Options of the command line win; --no-FLAG unsets a flag there.
  
  Other programs' names work, too: --adapter-path, --lora-modules (--adapter),
  --n-gpu-layers, -ngl (--gpu-layers), --kv-bits (--cache), --hf-path, --hf-repo,
  -hf, -hfr (--model), --n-gen, --generation-tokens (--generate), --repetitions,
  --num-trials (--repeat). Underscores stand for dashes.
  
  Examples:
    mica bench ~/models/gemma-3-1b-it --prompt 512,4096 --threads 1,2,4
  $ mica help devices
  mica devices: list the devices and engines that models can run on
  
  Usage: mica devices [options]
  
  Lists each device, its instruction set, its threads, and the memory that mica
  may use; then each engine, which computes a model's tokens. Those that are not
  there say what they lack. --device NAME and --engine NAME make other verbs use
  one.
  
  --ops prints a table of all ops. native: the device has a kernel; decomposed: it
  computes the op by others; on cpu: the CPU does, and the operands are copied
  there and back; no work: nothing is moved. mica run --verbose counts what ran on
  the CPU.
  
  --calibrate measures how fast each device computes and moves data, prints it and
  keeps it in the folder mica of $XDG_CACHE_HOME, else of ~/.cache: programs
  choose a device by it (mica/cost.h), and the layers of a model that does not fit
  into a GPU's memory are divided by it. What was measured is listed.
  
  Output:
        --ops                     print how each device runs each op
        --calibrate               measure each device, a second or so, and print
                                  its rates
  
  Help:
    -h, --help                    print this help and exit
  
  Each option can also be set in the environment: --ops as MICA_OPS, a flag as on
  or off. Options of the command line win; --no-FLAG unsets a flag there.
  $ mica help completions
  mica completions: print a shell's completion script
  
  Usage: mica completions [options] SHELL
  
  Prints a script by which SHELL (bash, zsh or fish) completes mica's commands,
  options, files and folders. An installed mica has these scripts already.
  
  Help:
    -h, --help                    print this help and exit
  
  Examples:
    source <(mica completions bash)
    mica completions fish > ~/.config/fish/completions/mica.fish
  $ mica help man
  mica man: print a manual page
  
  Usage: mica man [options] [VERB]
  
  Prints the manual page of mica, or of one of its commands, as roff. At a
  terminal it shows its text instead, by the pager that $MANPAGER or $PAGER names,
  else by less. An installed mica has all these pages: man mica-chat.
  
  Help:
    -h, --help                    print this help and exit
  
  Examples:
    mica man chat | man -l -
  $ mica help version
  mica version: print the version and the build's options
  
  Usage: mica version [options]
  
  Prints the version, the devices and the libraries of this build.
  
  Options:
        --licences                print the licences of mica and of what is in it
  
  Help:
    -h, --help                    print this help and exit
  
  Each option can also be set in the environment: --licences as MICA_LICENCES, a
  flag as on or off. Options of the command line win; --no-FLAG unsets a flag
  there.
  $ for verb in $(mica | sed -n 's/^  \([a-z]*\)  .*/\1/p' | grep -v -e help -e mica); do
  >   mica help $verb > a && mica $verb --help > b && mica $verb -h > c || echo $verb failed
  >   cmp a b; cmp a c; awk 'length > 80' a
  > done
