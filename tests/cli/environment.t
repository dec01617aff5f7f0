Every option is also a variable, named after it; the command line wins.

  $ printf '/set\n' | MICA_TOP_P=0.5 MICA_SYSTEM='Be brief.' MICA_MAX_TOKENS=3 MICA_SEED= mica chat -q -n 4 2>&1
  temperature         0
  top-k               0
  top-p               0.5
  min-p               0
  repetition-penalty  1
  presence-penalty    0
  frequency-penalty   0
  penalty-window      0
  max-tokens          4
  min-tokens          0
  seed                random
  stop                
  ignore-eos          off
  verbose             off
  quiet               on
  wrap                on
  think               
  system              Be brief.
  $ MICA_MAX_TOKENS=3 MICA_QUIET=on mica run "What is curl?" 2>&1
  curl is a
  $ MICA_MAX_TOKENS=3 MICA_QUIET=yes mica run "What is curl?" --no-quiet 2>&1 | wc -l
  2
  $ MICA_MAX_TOKENS=3 MICA_QUIET=0 mica run "What is curl?" 2>&1 | wc -l
  2
  $ MICA_PROMPT=4,8 MICA_GENERATE=2 MICA_REPEAT=1 MICA_THREADS=1 mica bench model | tail -2 | awk '{ print $1, $2, $4 }'
  1 4 2
  1 8 2

A bad value is a usage error that names the variable; where the command line wins it is not looked
at, nor where a verb has no such option.

  $ MICA_TOP_P=7 mica run x 2>&1
  mica: MICA_TOP_P: 7 is more than 1
  Try: mica help run
  [2]
  $ MICA_MAX_TOKENS=many mica chat 2>&1
  mica: MICA_MAX_TOKENS: 'many' is not a whole number
  Try: mica help chat
  [2]
  $ MICA_QUIET=perhaps mica run x 2>&1
  mica: MICA_QUIET: 'perhaps' is neither on nor off
  Try: mica help run
  [2]
  $ MICA_THREADS=1,2 mica chat 2>&1
  mica: MICA_THREADS: '1,2' is not a whole number
  Try: mica help chat
  [2]
  $ MICA_JSON=1,2 mica bench 2>&1
  mica: MICA_JSON: '1,2' is neither on nor off
  Try: mica help bench
  [2]
  $ MICA_MAX_TOKENS=many mica run -n 3 -q "What is curl?" 2>&1
  curl is a
  $ MICA_TOP_P=7 mica version | head -1
  mica 0.1.0
  $ mica run x --no-seed 2>&1
  mica: run has no option --no-seed
  Try: mica help run
  [2]
  $ mica run x --no-quiet=1 2>&1
  mica: run has no option --no-quiet
  Try: mica help run
  [2]
  $ mica run x --no-help 2>&1
  mica: run has no option --no-help
  Try: mica help run
  [2]

MICA_MODEL is the default model, and not a second one beside a word or --model.

  $ MICA_MODEL=nowhere mica show model | head -1
  model         model
  $ MICA_MODEL=nowhere mica show --model model | head -1
  model         model
  $ MICA_MODEL=model mica show | head -1
  model         model
