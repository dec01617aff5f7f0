What ends an answer: texts, which are not printed; a number of tokens, and not before another.

  $ mica generate "curl is" -q --stop " data" --stop "never"
   a command line tool for transferring
  $ mica generate "curl is" -q --stop "ol f"
   a command line to
  $ mica generate "curl is" -n 3 --stop " data" 2>&1 | sed 's/[0-9.]* tok\/s/N tok\/s/g'
   a command line
  3 prompt tokens at N tok/s, 3 generated at N tok/s, the end of --max-tokens
  $ mica run "What is curl?" -q > a; mica run "What is curl?" -q -n 60 --min-tokens 60 > b
  > cmp -s a b; [ $(wc -c < b) -gt $(wc -c < a) ]
  $ mica run "What is curl?" -q -n 60 --ignore-eos > b; [ $(wc -c < b) -gt $(wc -c < a) ]

Penalties, and tokens that are made more likely or forbidden.

  $ mica generate "curl is" -q -n 4 --presence-penalty 50 > a; mica generate "curl is" -q -n 4 > b; cat b
   a command line tool
  $ cmp a b
  $ mica generate "curl is" -q -n 3 --logit-bias $(mica tokenize --ids "curl is a" | cut -d ' ' -f 4)=-inf > a; cmp -s a b
  [1]
  $ mica generate "curl is" -q -n 2 --logit-bias 558=1000 --logit-bias 444=-3
  WhatWhat

A line for each token, with the likeliest at its place; the prompt too.

  $ mica generate "curl is" -q -n 1 --logprobs 2 | sed 's/-\{0,1\}[0-9]*\.[0-9]*/N/g; s/^ */ /'
   N  ▁a                ▁a N  ▁an N
  $ mica generate "curl is" -q -n 2 --logprobs 1 --echo | sed 's/-\{0,1\}[0-9]*\.[0-9]*/N/g; s/^ */ /'
   <bos>
   curl
   ▁is
   N  ▁a                ▁a N
   N  ▁command          ▁command N
  $ mica generate "curl is" -q -n 2 --echo
  curl is a command

A prompt that does not fit loses its oldest tokens where it may.

  $ yes curl | head -3000 | mica generate -q -n 2 2> err
  [1]
  $ yes curl | head -3000 | mica generate -n 2 --truncate 2>&1 > /dev/null | grep -c '([0-9]* dropped)'
  1

Variables of the chat template.

  $ mica run "What is curl?" -q -n 3 --think > a; mica run "What is curl?" -q -n 3 --no-think | cmp - a
  $ MICA_THINK=off mica run "What is curl?" -q -n 3 --variable 'a=[1]' --variable b=text | cmp - a
  $ mica run x --variable nothing 2>&1
  mica: --variable: 'nothing' is not NAME=VALUE
  Try: mica help run
  [2]
  $ mica run x --think=perhaps 2>&1
  mica: --think: 'perhaps' is not one of: on off auto low medium high
  Try: mica help run
  [2]
  $ echo '{{ enable_thinking }} {{ reasoning_effort }} {{ messages[0].content }}' > template
  > for think in true false 1 off low high auto; do
  >   mica run x -n 1 --echo -q --chat-template-file template --think=$think | cut -c 1-30
  > done; mica run x -n 1 --echo -q --chat-template-file template --reasoning-effort medium | cut -c 1-30
  > mica run x -n 1 --echo -q --chat-template-file template --reasoning-budget 0 | cut -c 1-30
  > mica run x -n 1 --echo -q --chat-template-file template --think= 2>&1 | head -1
  True  x x
  False  x-
  True  x x
  False  x-
  True low x8
  True high x6
    x x
  True medium x-
  False  x-
  mica: --think: '' is not one of: on off auto low medium high

Another chat template than the model's.

  $ mica run "What is curl?" -q -n 8 > a; mica run "What is curl?" -q -n 8 --chat-template-file model/chat_template.jinja | cmp - a
  > mica generate "curl is" -q -n 4 > b; cat b; printf '<bos>{{ messages[-1].content }}' > raw.jinja
  > mica run "curl is" -q -n 4 --chat-template "$(cat raw.jinja)" | cmp - b
  > mica run "curl is" -q -n 4 --chat_template_file '~/raw.jinja' | cmp - b
  > echo "curl is" | mica chat -q -n 4 --chat-template-file raw.jinja | cmp - b
  > echo '{"messages": [{"role": "user", "content": "curl is"}]}' | mica batch -q -n 4 --chat-template-file raw.jinja | cut -c 1-40
  > mkdir plain; cp model/*.json plain; ln -s $PWD/model/model.safetensors plain
  > mica run plain "curl is" -q -n 4 --chat-template-file raw.jinja | cmp - b
   a command line tool
  {"id": 1, "text": " a command line tool"
  $ mica run x --chat-template chatml 2>&1
  mica: --chat-template: 'chatml' is not a Jinja template; to read one from a file use --chat-template-file
  Try: mica help run
  [2]
  $ mica run x --chat-template '{% if %}' 2>&1
  mica: the given chat template, line 1: unexpected 'end of tag', expected an expression
  [1]
  $ mica run x --chat-template-file nowhere 2>&1
  mica: cannot read nowhere: No such file or directory
  [1]
  $ mica run x --chat-template '{{ x }}' --chat-template-file raw.jinja 2>&1
  mica: two templates: --chat-template and --chat-template-file raw.jinja
  Try: mica help run
  [2]

The size of the chunks that a prompt is read in changes no answer.

  $ mica generate "curl is" -q -n 4 --prefill-step-size 1 | cmp - b; mica run "What is curl?" -q -n 8 --prefill-chunk 2 -ub 3 | cmp - a

A prompt longer than --context is answered, and that it was cut is said, also with --quiet.

  $ mica run "What is curl?" -c 4 -n 1 -q 2>&1 > /dev/null
  mica: --context 4 forgets 9 of the prompt's 13 tokens
  $ mica run "What is curl?" -c 13 -n 1 -q 2>&1 > /dev/null
  $ mica generate "curl is" -c 2 -n 1 -q --json 2> err | grep -o '"forgotten_tokens": [0-9]*'; cat err
  "forgotten_tokens": 2
  mica: --context 2 forgets 1 of the prompt's 3 tokens

Values that are out of range: the options are called by their names.

  $ mica run x --logit-bias 5 2>&1
  mica: --logit-bias: '5' is not ID=VALUE, such as 42=-1.5
  Try: mica help run
  [2]
  $ mica run x --logit-bias=-5=1 2>&1
  mica: --logit-bias: '-5=1' is not ID=VALUE, such as 42=-1.5
  Try: mica help run
  [2]
  $ mica run x --logit-bias 5=inf 2>&1 | head -1; mica run x --logit-bias 5=1e39 2>&1 | head -1
  mica: --logit-bias: inf is too much for a logit
  mica: --logit-bias: 1e39 is too much for a logit
  $ mica run x --logit-bias 999999=1 -q 2>&1
  mica: --logit-bias: there is no token 999999; the model's are 0 to 8191
  [1]
  $ echo '{"prompt": "x"}' | mica batch --logit-bias 8192=1 -q 2>&1
  mica: --logit-bias: there is no token 8192; the model's are 0 to 8191
  [1]
  $ mica run x --stop '' -q 2>&1
  mica: --stop: the text is empty
  Try: mica help run
  [2]
  $ mica run x --system "$(printf 'a\377')" 2>&1
  mica: --system: the text is not UTF-8
  Try: mica help run
  [2]
  $ mica run x --min-tokens 5 -n 3 -q 2>&1
  mica: --min-tokens 5 is more than --max-tokens 3
  [1]
  $ set --; for i in $(seq 65); do set -- "$@" --stop $i; done; mica run x "$@" 2>&1
  mica: --stop: given more than 64 times
  Try: mica help run
  [2]

Guesses, looked up in the text or made by another model, change nothing but the time.

  $ mica generate "curl is" -q -n 150 --ignore-eos > a
  > mica generate "curl is" -n 150 --ignore-eos --draft-tokens 7 2> err | cmp - a
  > sed -E 's/[0-9.]+ tok/N tok/g; s/[0-9]+ of [0-9]+/N of N/' err
  3 prompt tokens at N tok/s, 150 generated at N tok/s, N of N drafts right, the end of --max-tokens
  $ mica generate "curl is" -q -n 30 -T 0.9 -s 4 > a; mica generate "curl is" -q -n 30 -T 0.9 -s 4 --draft-model model | cmp - a
  $ mica run x --draft-model "$ROOT/tests/fixtures/models/qwen3_tied" -q 2>&1
  mica: the draft model's vocabulary has 480 tokens, the model's 8192: take one of the same family
  [1]
  $ mica run x --draft-tokens 64 2>&1
  mica: --draft-tokens: 64 is more than 63
  Try: mica help run
  [2]
