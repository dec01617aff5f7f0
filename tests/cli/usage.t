Usage errors exit with 2, name what is wrong, suggest the nearest, and print no result.

  $ mica cht 2>&1
  mica: there is no command 'cht'; did you mean 'chat'?
  Try: mica help
  [2]
  $ mica frobnicate 2>&1
  mica: there is no command 'frobnicate'
  Try: mica help
  [2]
  $ mica help frobnicate 2>&1
  mica: there is no command 'frobnicate'
  Try: mica help
  [2]
  $ mica run --tempratur 1 x 2>&1
  mica: run has no option --tempratur; did you mean --temperature?
  Try: mica help run
  [2]
  $ mica run --zzzzzzzz x 2>&1
  mica: run has no option --zzzzzzzz
  Try: mica help run
  [2]
  $ mica batch --parallel 257 2>&1
  mica: --parallel: 257 is more than 256
  Try: mica help batch
  [2]
  $ mica run -z x 2>&1
  mica: run has no option -z; put -- before a text that begins with -
  Try: mica help run
  [2]
  $ mica run -- -z extra words 2>&1
  mica: run takes no 'words'; put quotes around a text of several words
  Try: mica help run
  [2]
  $ mica run x --max-tokens 2>&1
  mica: --max-tokens needs a value: --max-tokens N
  Try: mica help run
  [2]
  $ mica run --max-tokens=many x 2>&1
  mica: --max-tokens: 'many' is not a whole number
  Try: mica help run
  [2]
  $ mica run --max-tokens=-2 x 2>&1
  mica: --max-tokens: -2 is less than -1
  Try: mica help run
  [2]
  $ mica run --max-tokens=99999999999999999999 x 2>&1
  mica: --max-tokens: '99999999999999999999' is not a whole number
  Try: mica help run
  [2]
  $ mica run --top-p 1.5 x 2>&1
  mica: --top-p: 1.5 is more than 1
  Try: mica help run
  [2]
  $ mica run --temperature nan x 2>&1
  mica: --temperature: 'nan' is not a number
  Try: mica help run
  [2]
  $ mica run --seed -3 x 2>&1
  mica: --seed: '-3' is neither a whole number of 0 or more nor random
  Try: mica help run
  [2]
  $ mica run --quiet=maybe x 2>&1
  mica: --quiet: 'maybe' is neither on nor off
  Try: mica help run
  [2]
  $ mica chat --model a b c 2>&1
  mica: two models: --model a and b
  Try: mica help chat
  [2]
  $ mica chat a b c 2>&1
  mica: chat takes no 'c'; put quotes around a text of several words
  Try: mica help chat
  [2]
  $ mica bench --prompt 1,,2 2>&1
  mica: --prompt: '1,,2' is not a list of whole numbers such as 1,2,4
  Try: mica help bench
  [2]
  $ mica bench --prompt 0 2>&1
  mica: --prompt: 0 is less than 1
  Try: mica help bench
  [2]
  $ mica bench --repeat 101 2>&1
  mica: --repeat: 101 is more than 100
  Try: mica help bench
  [2]
  $ mica devices now 2>&1
  mica: devices takes no 'now'
  Try: mica help devices
  [2]
  $ mica tune model lines.jsonl 2>&1
  mica: tune takes no 'lines.jsonl'; if it is the data, put --data before it
  Try: mica help tune
  [2]
  $ mica tokenize --decode x 2>&1
  mica: 'x' is not a token id
  Try: mica help tokenize
  [2]

Without a prompt at a terminal there is nothing to answer.

  $ echo 'wait generate needs a text' | pty mica generate
  [2]
