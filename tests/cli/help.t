The command alone, and `help`, print the short help.

  $ mica
  mica 0.1.0 runs language models in the MLX / Hugging Face layout, as they are.
  
  Usage: mica COMMAND [options] ...
  
  Talk:
    chat         talk with a model
    run          one answer to one prompt
    generate     continue a raw text, without a chat format
  
  Many texts:
    batch        answers to a file of prompts
    classify     which of some labels fits each text
    embed        texts as vectors
    score        how likely a text is
    eval         how a model does on a long text, and in another arithmetic
  
  Models:
    list         the models of this machine
    show         what a model is, the memory it needs, and whether that fits
    tokenize     text to token ids, and back
  
  This machine:
    bench        measure prefill and decode rates
    devices      the devices that models can run on
  
  This command:
    completions  what makes a shell complete its arguments
    man          its manual pages
    version      the version, and what was compiled in
    help         this, or what one command does: mica help chat
  
  Examples:
    mica chat                          talk with the model that comes with mica
    mica chat ~/models/gemma-3-1b-it   talk with another one
    mica run "What is curl?"           one answer
    mica run - < letter.txt            the prompt is a file
    mica show ~/models/gemma-3-1b-it   what it is, and whether it fits
  
  Options can also be set in the environment: --max-tokens as MICA_MAX_TOKENS.
  $ mica > a; mica help > b; mica --help > c; mica -h > d
  > cmp a b && cmp a c && cmp a d

Each verb explains itself, in lines of 80 columns at most.

  $ mica help chat
  mica chat: talk with a model
  
  Usage: mica chat [options] [MODEL] [MESSAGE]
  
  Answers MESSAGE, then line by line, and keeps the conversation in mind. Lines
  are read from a terminal with editing and a history, or from a pipe. A single
  word without blanks is MODEL, unless --model is given.
  
  Ctrl-C stops an answer. At the prompt it drops what is typed; once more, with
  nothing typed, it ends the chat, with the exit code 130. Ctrl-D ends it too.
  
  A line that ends in \ goes on in the next, and """ begins and ends a text of
  several lines. /help lists what else can be typed, and Tab completes it.
  
  Where the context is full, the oldest turns are left out, never what --system
  says.
  
  What is said at a terminal is kept for 30 days, of 20 conversations at most, in
  ~/.local/state/mica/talks, where nobody else can read it, unless it is saved by
  /save or --session: --resume goes on with the last one, /load with any. With
  --no-history neither that is kept nor what was typed.
  
  MODEL is a folder that holds config.json, tokenizer.json and *.safetensors, or a
  name that mica list shows. Without it mica takes $MICA_MODEL,
  $MICA_MODELS/default, or the model that comes with mica.
  
  Prompt:
    -p, --prompt TEXT             the prompt; a word is the model then
  
  Conversation:
    -S, --system TEXT             what the model is told before the conversation
        --[no-]think              let the model think before it answers, or not,
                                  where its chat template can: sets
                                  enable_thinking
        --variable NAME=VALUE     a variable of the chat template; VALUE is JSON,
                                  or a text; may be repeated
        --[no-]history            keep what is typed in a chat, and what was said
                                  and not saved (default: on)
  
  Keeping it:
        --session FILE            go on with the conversation in FILE, where there
                                  is one, and keep it there
        --resume                  go on with the last conversation that was not
                                  saved, with its model and adapter where none are
                                  named
  
  Answer:
    -T, --temperature X           sampling temperature; 0: greedy, always the
                                  likeliest token (default: 0)
    -k, --top-k N                 top-k sampling: from the N likeliest tokens; 0:
                                  from all (default: 0)
        --top-p P                 top-p (nucleus) sampling: from the fewest tokens
                                  whose probabilities reach P; 1: from all
                                  (default: 1)
        --min-p P                 min-p sampling: from tokens at least P times as
                                  likely as the likeliest; 0: from all (default:
                                  0)
        --repetition-penalty X    repetition penalty: above 1, tokens of the
                                  penalty window are less likely (default: 1)
        --presence-penalty X      presence penalty: taken from the logit of each
                                  token of the penalty window (default: 0)
        --frequency-penalty X     frequency penalty: the same, for each time that
                                  it is there (default: 0)
        --penalty-window N        how many of the last tokens the penalties look
                                  at; 0: 20 (default: 0)
    -n, --max-tokens N            the most tokens to generate; 0 or -1: until the
                                  model stops (default: 0)
        --min-tokens N            the fewest tokens to generate: it does not stop
                                  before (default: 0)
    -s, --seed N                  random seed: the same one draws the same tokens;
                                  random: another one for each answer (default:
                                  random)
        --logit-bias ID=X         add X to the logit of token ID, -inf forbids it;
                                  may be repeated
        --stop TEXT               stop before TEXT; may be repeated
        --ignore-eos              go on where the model would stop
        --truncate                of a prompt that does not fit the context drop
                                  the oldest tokens
        --draft-tokens N          guess up to N tokens ahead where the text
                                  repeats itself: faster, same answer; 0: none,
                                  with a draft model 7 (default: 0)
        --draft-model FOLDER      a smaller model with the same vocabulary, which
                                  guesses too
        --logprobs N              print a line for each token, with its
                                  log-probability and the N likeliest; 0: the text
                                  (default: 0)
    -q, --quiet                   no rates and no progress on stderr
    -v, --verbose                 also print the model, the seed and other
                                  sampling options, and times, on stderr
        --[no-]wrap               break lines at words where the answer is printed
                                  on a terminal (default: on)
  
  Model:
    -m, --model MODEL             the model's folder
    -a, --adapter FOLDER          a LoRA adapter of the model, made by mlx-lm or
                                  PEFT
        --arithmetic fast|exact   fast: activations in 8 bits where weights are
                                  quantised, in bf16 where these are bf16 and the
                                  machine is faster for it; exact: in floats
                                  (default: fast)
        --cache TYPE              keys and values are kept in f32, f16, bf16 or
                                  int8 (with a scale for each 32); auto: bf16 in
                                  fast arithmetic, else f32 (default: auto)
        --no-mmap                 read the weights into memory instead of mapping
                                  their files
        --prefetch                read mapped weights ahead, before the first
                                  token
        --mlock                   keep the weights in memory, so that they are
                                  never swapped
    -t, --threads N               threads that compute; 0: one a core (default: 0)
    -c, --context N               tokens to keep in mind, the oldest are
                                  forgotten; 0: as many as the model can, and an
                                  error above (default: 0)
        --chat-template TEXT      a Jinja template, instead of the model's own
        --chat-template-file FILE
                                  the same, the text of FILE
        --prefill-chunk N         tokens of the prompt that are computed at once;
                                  0: 512 (default: 0)
  
  Help:
    -h, --help                    print this and exit
  
  Each option can also be set in the environment: --system as MICA_SYSTEM, a flag
  as on or off. The command line wins; --no-FLAG unsets a flag there.
  
  Other programs' names work too: --temp (--temperature), --repeat-penalty
  (--repetition-penalty), --repeat-last-n (--penalty-window), --n-predict,
  --predict, --num-predict (--max-tokens), --reverse-prompt (--stop),
  --num-draft-tokens, --draft-max (--draft-tokens), --model-draft, -md
  (--draft-model), -V (--verbose), --system-prompt, -sys (--system),
  --adapter-path (--adapter), --ctx-size, --max-kv-size, --num-ctx (--context),
  --prefill-step-size, --batch-size, -b, --ubatch-size, -ub (--prefill-chunk),
  --kv-bits (--cache), --wordwrap, --nowordwrap (--wrap); and underscores for
  dashes.
  
  Examples:
    mica chat
    mica chat "What is curl?"
    mica chat ~/models/gemma-3-1b-it --system "Answer in verse" -T 0.8
    printf 'What is curl?\nWho wrote it?\n' | mica chat --quiet
  $ mica help run
  mica run: one answer to one prompt
  
  Usage: mica run [options] [MODEL] [PROMPT]
  
  Puts PROMPT in the model's chat format and prints the answer. Without PROMPT it
  is mica chat, at a terminal.
  
  PROMPT is read from standard input where it is - or where there is none and
  standard input is no terminal; a line feed at its end is dropped. A single word
  is PROMPT, unless it is a model's folder; --model settles it.
  
  MODEL is a folder that holds config.json, tokenizer.json and *.safetensors, or a
  name that mica list shows. Without it mica takes $MICA_MODEL,
  $MICA_MODELS/default, or the model that comes with mica.
  
  Prompt:
    -p, --prompt TEXT             the prompt; a word is the model then
    -f, --file FILE               the prompt is the text of FILE, less a line feed
                                  at its end
        --json                    print a JSON object: the text, why it ended,
                                  counts of tokens, times
  
  Conversation:
    -S, --system TEXT             what the model is told before the conversation
        --[no-]think              let the model think before it answers, or not,
                                  where its chat template can: sets
                                  enable_thinking
        --variable NAME=VALUE     a variable of the chat template; VALUE is JSON,
                                  or a text; may be repeated
        --[no-]history            keep what is typed in a chat, and what was said
                                  and not saved (default: on)
  
  Answer:
    -T, --temperature X           sampling temperature; 0: greedy, always the
                                  likeliest token (default: 0)
    -k, --top-k N                 top-k sampling: from the N likeliest tokens; 0:
                                  from all (default: 0)
        --top-p P                 top-p (nucleus) sampling: from the fewest tokens
                                  whose probabilities reach P; 1: from all
                                  (default: 1)
        --min-p P                 min-p sampling: from tokens at least P times as
                                  likely as the likeliest; 0: from all (default:
                                  0)
        --repetition-penalty X    repetition penalty: above 1, tokens of the
                                  penalty window are less likely (default: 1)
        --presence-penalty X      presence penalty: taken from the logit of each
                                  token of the penalty window (default: 0)
        --frequency-penalty X     frequency penalty: the same, for each time that
                                  it is there (default: 0)
        --penalty-window N        how many of the last tokens the penalties look
                                  at; 0: 20 (default: 0)
    -n, --max-tokens N            the most tokens to generate; 0 or -1: until the
                                  model stops (default: 0)
        --min-tokens N            the fewest tokens to generate: it does not stop
                                  before (default: 0)
    -s, --seed N                  random seed: the same one draws the same tokens;
                                  random: another one for each answer (default:
                                  random)
        --logit-bias ID=X         add X to the logit of token ID, -inf forbids it;
                                  may be repeated
        --stop TEXT               stop before TEXT; may be repeated
        --ignore-eos              go on where the model would stop
        --truncate                of a prompt that does not fit the context drop
                                  the oldest tokens
        --draft-tokens N          guess up to N tokens ahead where the text
                                  repeats itself: faster, same answer; 0: none,
                                  with a draft model 7 (default: 0)
        --draft-model FOLDER      a smaller model with the same vocabulary, which
                                  guesses too
        --logprobs N              print a line for each token, with its
                                  log-probability and the N likeliest; 0: the text
                                  (default: 0)
    -q, --quiet                   no rates and no progress on stderr
    -v, --verbose                 also print the model, the seed and other
                                  sampling options, and times, on stderr
        --[no-]wrap               break lines at words where the answer is printed
                                  on a terminal (default: on)
        --echo                    print the prompt too
  
  Model:
    -m, --model MODEL             the model's folder
    -a, --adapter FOLDER          a LoRA adapter of the model, made by mlx-lm or
                                  PEFT
        --arithmetic fast|exact   fast: activations in 8 bits where weights are
                                  quantised, in bf16 where these are bf16 and the
                                  machine is faster for it; exact: in floats
                                  (default: fast)
        --cache TYPE              keys and values are kept in f32, f16, bf16 or
                                  int8 (with a scale for each 32); auto: bf16 in
                                  fast arithmetic, else f32 (default: auto)
        --no-mmap                 read the weights into memory instead of mapping
                                  their files
        --prefetch                read mapped weights ahead, before the first
                                  token
        --mlock                   keep the weights in memory, so that they are
                                  never swapped
    -t, --threads N               threads that compute; 0: one a core (default: 0)
    -c, --context N               tokens to keep in mind, the oldest are
                                  forgotten; 0: as many as the model can, and an
                                  error above (default: 0)
        --chat-template TEXT      a Jinja template, instead of the model's own
        --chat-template-file FILE
                                  the same, the text of FILE
        --prefill-chunk N         tokens of the prompt that are computed at once;
                                  0: 512 (default: 0)
  
  Help:
    -h, --help                    print this and exit
  
  Each option can also be set in the environment: --json as MICA_JSON, a flag as
  on or off. The command line wins; --no-FLAG unsets a flag there.
  
  Other programs' names work too: --temp (--temperature), --repeat-penalty
  (--repetition-penalty), --repeat-last-n (--penalty-window), --n-predict,
  --predict, --num-predict (--max-tokens), --reverse-prompt (--stop),
  --num-draft-tokens, --draft-max (--draft-tokens), --model-draft, -md
  (--draft-model), -V (--verbose), --system-prompt, -sys (--system),
  --adapter-path (--adapter), --ctx-size, --max-kv-size, --num-ctx (--context),
  --prefill-step-size, --batch-size, -b, --ubatch-size, -ub (--prefill-chunk),
  --kv-bits (--cache), --wordwrap, --nowordwrap (--wrap); and underscores for
  dashes.
  
  Examples:
    mica run "What is curl?"
    mica run ~/models/gemma-3-1b-it "Write a haiku on disks" -T 0.8 --seed 7
    git diff | mica run --system "Describe this change"
  $ mica help generate
  mica generate: continue a raw text, without a chat format
  
  Usage: mica generate [options] [MODEL] [PROMPT]
  
  Prints how the model continues PROMPT, which is taken as it is.
  
  PROMPT is read from standard input where it is - or where there is none and
  standard input is no terminal; a line feed at its end is dropped. A single word
  is PROMPT, unless it is a model's folder; --model settles it.
  
  MODEL is a folder that holds config.json, tokenizer.json and *.safetensors, or a
  name that mica list shows. Without it mica takes $MICA_MODEL,
  $MICA_MODELS/default, or the model that comes with mica.
  
  Prompt:
    -p, --prompt TEXT             the prompt; a word is the model then
    -f, --file FILE               the prompt is the text of FILE, less a line feed
                                  at its end
        --json                    print a JSON object: the text, why it ended,
                                  counts of tokens, times
  
  Answer:
    -T, --temperature X           sampling temperature; 0: greedy, always the
                                  likeliest token (default: 0)
    -k, --top-k N                 top-k sampling: from the N likeliest tokens; 0:
                                  from all (default: 0)
        --top-p P                 top-p (nucleus) sampling: from the fewest tokens
                                  whose probabilities reach P; 1: from all
                                  (default: 1)
        --min-p P                 min-p sampling: from tokens at least P times as
                                  likely as the likeliest; 0: from all (default:
                                  0)
        --repetition-penalty X    repetition penalty: above 1, tokens of the
                                  penalty window are less likely (default: 1)
        --presence-penalty X      presence penalty: taken from the logit of each
                                  token of the penalty window (default: 0)
        --frequency-penalty X     frequency penalty: the same, for each time that
                                  it is there (default: 0)
        --penalty-window N        how many of the last tokens the penalties look
                                  at; 0: 20 (default: 0)
    -n, --max-tokens N            the most tokens to generate; 0 or -1: until the
                                  model stops (default: 0)
        --min-tokens N            the fewest tokens to generate: it does not stop
                                  before (default: 0)
    -s, --seed N                  random seed: the same one draws the same tokens;
                                  random: another one for each answer (default:
                                  random)
        --logit-bias ID=X         add X to the logit of token ID, -inf forbids it;
                                  may be repeated
        --stop TEXT               stop before TEXT; may be repeated
        --ignore-eos              go on where the model would stop
        --truncate                of a prompt that does not fit the context drop
                                  the oldest tokens
        --draft-tokens N          guess up to N tokens ahead where the text
                                  repeats itself: faster, same answer; 0: none,
                                  with a draft model 7 (default: 0)
        --draft-model FOLDER      a smaller model with the same vocabulary, which
                                  guesses too
        --logprobs N              print a line for each token, with its
                                  log-probability and the N likeliest; 0: the text
                                  (default: 0)
    -q, --quiet                   no rates and no progress on stderr
    -v, --verbose                 also print the model, the seed and other
                                  sampling options, and times, on stderr
        --[no-]wrap               break lines at words where the answer is printed
                                  on a terminal (default: on)
        --echo                    print the prompt too
  
  Model:
    -m, --model MODEL             the model's folder
    -a, --adapter FOLDER          a LoRA adapter of the model, made by mlx-lm or
                                  PEFT
        --arithmetic fast|exact   fast: activations in 8 bits where weights are
                                  quantised, in bf16 where these are bf16 and the
                                  machine is faster for it; exact: in floats
                                  (default: fast)
        --cache TYPE              keys and values are kept in f32, f16, bf16 or
                                  int8 (with a scale for each 32); auto: bf16 in
                                  fast arithmetic, else f32 (default: auto)
        --no-mmap                 read the weights into memory instead of mapping
                                  their files
        --prefetch                read mapped weights ahead, before the first
                                  token
        --mlock                   keep the weights in memory, so that they are
                                  never swapped
    -t, --threads N               threads that compute; 0: one a core (default: 0)
    -c, --context N               tokens to keep in mind, the oldest are
                                  forgotten; 0: as many as the model can, and an
                                  error above (default: 0)
  
  Session:
        --prefill-chunk N         tokens of the prompt that are computed at once;
                                  0: 512 (default: 0)
  
  Help:
    -h, --help                    print this and exit
  
  Each option can also be set in the environment: --json as MICA_JSON, a flag as
  on or off. The command line wins; --no-FLAG unsets a flag there.
  
  Other programs' names work too: --temp (--temperature), --repeat-penalty
  (--repetition-penalty), --repeat-last-n (--penalty-window), --n-predict,
  --predict, --num-predict (--max-tokens), --reverse-prompt (--stop),
  --num-draft-tokens, --draft-max (--draft-tokens), --model-draft, -md
  (--draft-model), -V (--verbose), --adapter-path (--adapter), --ctx-size,
  --max-kv-size, --num-ctx (--context), --prefill-step-size, --batch-size, -b,
  --ubatch-size, -ub (--prefill-chunk), --kv-bits (--cache), --wordwrap,
  --nowordwrap (--wrap); and underscores for dashes.
  
  Examples:
    mica generate "curl is" --max-tokens 40
  $ mica help show
  mica show: what a model is, the memory it needs, and whether that fits
  
  Usage: mica show [options] [MODEL]
  
  Prints a model's architecture, parameters, quantisation and context, the memory
  it needs at a length of context, whether this machine has that, and the largest
  context that fits. With --fit the exit status is 1 where it does not.
  
  MODEL is a folder that holds config.json, tokenizer.json and *.safetensors, or a
  name that mica list shows. Without it mica takes $MICA_MODEL,
  $MICA_MODELS/default, or the model that comes with mica.
  
  Output:
    -c, --context N               tokens for which memory is reckoned; 0: as many
                                  as the model can (default: 0)
        --fit N                   as --context, and fail where N tokens do not fit
        --json                    print a JSON object
  
  Model:
    -m, --model MODEL             the model's folder
    -a, --adapter FOLDER          a LoRA adapter of the model, made by mlx-lm or
                                  PEFT
  
  Help:
    -h, --help                    print this and exit
  
  Each option can also be set in the environment: --context as MICA_CONTEXT, a
  flag as on or off. The command line wins; --no-FLAG unsets a flag there.
  
  Other programs' names work too: --adapter-path (--adapter), --ctx-size,
  --max-kv-size, --num-ctx (--context); and underscores for dashes.
  
  Examples:
    mica show ~/models/gemma-3-1b-it --context 32768
    mica show ~/models/gemma-3-1b-it --fit 8192 && echo "it fits"
  $ mica help tokenize
  mica tokenize: text to token ids, and back
  
  Usage: mica tokenize [options] [MODEL] [TEXT]
  
  Prints the id and the spelling of each token of TEXT, with those that the
  model's tokenizer puts around a text, such as <bos>.
  
  TEXT is read from standard input where it is - or where there is none and
  standard input is no terminal; a line feed at its end is dropped. A single word
  is TEXT, unless it is a model's folder; --model settles it.
  
  MODEL is a folder that holds config.json, tokenizer.json and *.safetensors, or a
  name that mica list shows. Without it mica takes $MICA_MODEL,
  $MICA_MODELS/default, or the model that comes with mica.
  
  Output:
        --ids                     print the ids alone, in one line
    -d, --decode                  TEXT is ids: print the text that they stand for
  
  Model:
    -m, --model MODEL             the model's folder
  
  Help:
    -h, --help                    print this and exit
  
  Each option can also be set in the environment: --ids as MICA_IDS, a flag as on
  or off. The command line wins; --no-FLAG unsets a flag there.
  
  Examples:
    mica tokenize "What is curl?"
    mica tokenize --ids < letter.txt | mica tokenize --decode
  $ mica help bench
  mica bench: measure prefill and decode rates
  
  Usage: mica bench [options] [MODEL]
  
  Measures, for each number of threads and each size of prompt, how many tokens a
  second prefill reads, and how many decode makes after that prompt. Memory is
  what it takes beside the weights. MICA_CPU=avx2 in the environment leaves out
  the instruction sets after that; another name lists them all.
  
  MODEL is a folder that holds config.json, tokenizer.json and *.safetensors, or a
  name that mica list shows. Without it mica takes $MICA_MODEL,
  $MICA_MODELS/default, or the model that comes with mica.
  
  Measurement:
    -p, --prompt N,...            tokens of the prompts (default: 128,512)
    -n, --generate N              tokens to generate after each prompt (default:
                                  64)
    -t, --threads N,...           threads that compute; 0: one a core (default: 0)
    -r, --repeat N                runs of which the median is printed, after one
                                  that is not counted (default: 3)
        --json                    print a JSON object
  
  Model:
    -m, --model MODEL             the model's folder
    -a, --adapter FOLDER          a LoRA adapter of the model, made by mlx-lm or
                                  PEFT
        --arithmetic fast|exact   fast: activations in 8 bits where weights are
                                  quantised, in bf16 where these are bf16 and the
                                  machine is faster for it; exact: in floats
                                  (default: fast)
        --cache TYPE              keys and values are kept in f32, f16, bf16 or
                                  int8 (with a scale for each 32); auto: bf16 in
                                  fast arithmetic, else f32 (default: auto)
        --no-mmap                 read the weights into memory instead of mapping
                                  their files
        --prefetch                read mapped weights ahead, before the first
                                  token
        --mlock                   keep the weights in memory, so that they are
                                  never swapped
  
  Help:
    -h, --help                    print this and exit
  
  Each option can also be set in the environment: --prompt as MICA_PROMPT, a flag
  as on or off. The command line wins; --no-FLAG unsets a flag there.
  
  Other programs' names work too: --adapter-path (--adapter), --kv-bits (--cache);
  and underscores for dashes.
  
  Examples:
    mica bench ~/models/gemma-3-1b-it --prompt 512,4096 --threads 1,2,4
  $ mica help devices
  mica devices: the devices that models can run on
  
  Usage: mica devices [options]
  
  Lists each device, its kernels and threads, and the memory mica may use.
  
  Help:
    -h, --help                    print this and exit
  $ mica help completions
  mica completions: what makes a shell complete its arguments
  
  Usage: mica completions [options] SHELL
  
  Prints a script that makes SHELL, which is bash, zsh or fish, complete commands,
  options, files and folders after mica. An installed mica has it.
  
  Help:
    -h, --help                    print this and exit
  
  Examples:
    source <(mica completions bash)
    mica completions fish > ~/.config/fish/completions/mica.fish
  $ mica help man
  mica man: its manual pages
  
  Usage: mica man [options] [VERB]
  
  Prints the manual page of mica, or of one of its verbs, as roff. An installed
  mica has them all: man mica-chat.
  
  Help:
    -h, --help                    print this and exit
  
  Examples:
    mica man chat | man -l -
  $ mica help version
  mica version: the version, and what was compiled in
  
  Usage: mica version [options]
  
  Prints the version, and what was compiled in.
  
  Help:
    -h, --help                    print this and exit
  $ for verb in $(mica | sed -n 's/^  \([a-z]*\)  .*/\1/p' | grep -v -e help -e mica); do
  >   mica help $verb > a; mica $verb --help > b; mica $verb -h > c
  >   cmp a b; cmp a c; awk 'length > 80' a
  > done
