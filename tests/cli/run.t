The default model answers as golden.json beside it records, wherever its name comes from.

  $ answer() { sed -n '/What is curl/,/"text"/s/^ *"text": "\(.*\)",$/\1/p' model/golden.json; }
  > answer
  > mica run "What is curl?" -q > a; answer | cmp - a
  > mica run "What is curl?" -q --arithmetic exact > a; answer | cmp - a
  > MICA_ARITHMETIC=roman mica run "What is curl?" 2> /dev/null || echo $?
  > mica run "What is curl?" -q -n 4 > a
  > mica run model "What is curl?" -q -n 4 | cmp - a
  > mica run --model model "What is curl?" -q -n 4 | cmp - a
  > MICA_MODEL=model mica run "What is curl?" -q -n 4 | cmp - a
  > mkdir models; ln -s ../model models/default
  > MICA_MODELS=models mica run "What is curl?" -q -n 4 | cmp - a
  curl is a command line tool for transferring data with URLs. It supports HTTP, HTTPS, FTP, SFTP, SCP, SMTP and many other protocols, with uploads, cookies, proxies, authentication and resumed transfers.
  2

However the weights get into memory, the answer is the same. Whoever may lock none is told so in one
line: the sanitizers' mlock does nothing, and root is held to a limit by setpriv alone.

  $ mica run "What is curl?" -q -n 4 > a
  > mica run "What is curl?" -q -n 4 --no-mmap | cmp - a
  > mica run "What is curl?" -q -n 4 --prefetch | cmp - a
  > MICA_NO_MMAP=on mica run "What is curl?" -q -n 4 --prefetch | cmp - a
  > less="setpriv --bounding-set -ipc_lock"; $less true 2> /dev/null || less=
  > ulimit -l 4; $less mica run "What is curl?" -q -n 4 --mlock > b 2> error && diff a b ||
  > sed '/^mica: .*: its [0-9]* bytes cannot be locked in memory: /d' error

The prompt from standard input, as `-` and without a word; a model's folder alone is the model.

  $ mica run "What is curl?" -q -n 4 > a
  > echo "What is curl?" | mica run -q -n 4 - | cmp - a
  > echo "What is curl?" | mica run -q -n 4 | cmp - a
  > echo "What is curl?" | mica run -q -n 4 model | cmp - a
  > mica run --model model -q -n 4 model > b; test -s b; cmp -s a b
  [1]

An answer that is begun goes on, and what was begun is not printed again. It needs a prompt to
answer, and a model's chat format.

  $ mica run "What is curl?" -q -n 6 --prefill "curl is a"; mica run "What is curl?" -q -n 6 --prefill-response Curl
  > mica run "What is curl?" -q -n 4 > a; mica run "What is curl?" -q -n 4 --prefill "" | cmp - a
   command line tool for transferring data
   is a tool to simplify transferring
  $ printf 'wait Try\n' | pty mica run --prefill x; echo $?
  2
  $ mica run x --prefill " " 2>&1; mica generate x --prefill y 2>&1 | head -1
  mica: to continue the last message it must have a content, or thoughts and no calls
  mica: generate has no option --prefill; mica run has --prefill
  $ echo '{{ messages[-1].content | upper }}' > upper; mica run x --chat-template-file upper --prefill y 2>&1
  mica: the chat template changes the last message's content, so that it cannot be continued
  [1]

More tokens that end an answer, by their text or their id, also where the model's own do not.

  $ mica run "What is curl?" -q --eos-token ▁tool; mica run "What is curl?" -q --extra-eos-token 561
  > mica generate "curl is" -q --ignore-eos --eos-token 7 --eos-token ▁for --json | cut -d , -f 2-3
  curl is a command line
  curl is a command line
   "text": " a command line tool", "finish": "stop"
  $ for token in tool\  99999999999999999999 -1 ''; do mica run x -q --eos-token "$token" 2>&1 | head -1; done
  mica: --eos-token: 'tool ' is no token of the model
  mica: --eos-token: '99999999999999999999' is no token of the model
  mica: --eos-token: '-1' is no token of the model
  mica: --eos-token: the text is empty

The rates go to standard error, without colours.

  $ mica run "How do I exit vim?" 2>&1 > /dev/null | sed 's/[0-9][0-9.]*/N/g'
  N prompt tokens at N tok/s, N generated at N tok/s
  $ mica run "What is curl?" -n 3 2>&1 | sed 's/[0-9][0-9.]* tok/N tok/g'
  curl is a
  13 prompt tokens at N tok/s, 3 generated at N tok/s, the end of --max-tokens

The same seed draws the same tokens. Without one each answer has its own, which --verbose tells.

  $ mica run "Tell me of vim" -T 2 -s 7 -n 20 -q > a; mica run "Tell me of vim" -T 2 -s 7 -n 20 -q > b
  > mica run "Tell me of vim" -T 2 -s 8 -n 20 -q > c; cmp a b && ! cmp -s a c

  $ mica run model "Tell me of vim" -T 50 -n 30 --ignore-eos -v > a 2> err; mica run "Tell me of vim" -T 50 -n 30 --ignore-eos -q > b
  > cmp -s a b || mica run "Tell me of vim" -T 50 -n 30 --ignore-eos -q -s $(sed -n 's/^answer .*, seed \([0-9]*\)$/\1/p' err) | cmp - a
  > mica run "Tell me of vim" -T 50 -n 30 --ignore-eos -q -s -1 > b; MICA_SEED=random mica run "Tell me of vim" -T 50 -n 30 --ignore-eos -q > c
  > cmp -s a b || cmp -s b c || echo different
  different
  $ sed -E 's/[0-9][0-9.]* (tok|s |.B of)/N \1/g; s/seed .*/seed N/; s/; .* threads/; .../
  > s/.B of/MB of/' err
  model   model, gemma3_text, 4 bit, groups of 32 (affine), 12.8 MB; ...
  answer  temperature 50, top-k 0, top-p 1, min-p 0, repetition-penalty 1, presence-penalty 0, frequency-penalty 0, penalty-window 0, max-tokens 30, min-tokens 0, seed N
  13 prompt tokens at N tok/s, 30 generated at N tok/s, the end of --max-tokens
  N s prefill, N s decode, N MB of memory beside the weights
  $ mica run x -s 1.5 2>&1
  mica: -s: '1.5' is neither a whole number of 0 or more nor random
  Try: mica help run
  [2]
  $ mica run x -v -n 1 2>&1 > /dev/null | grep -c seed
  0
  [1]

An answer as one JSON object: text, why it ended, counts of tokens, times.

  $ json() { mica "$@" --json -q 2>&1 | sed -E 's/(_seconds|_rate|logprob)": [-0-9.]*/\1": N/g; s/"seed": [0-9]+/"seed": N/'; }
  > json run model "What is curl?" -n 4; json generate model "curl is" -n 2 --stop " command" -T 0.01 | cut -d , -f 1-4
  > json generate model "curl is" -n 1 --logprobs 2 --echo | sed 's/.*"logprobs"/"logprobs"/'
  {"model": "model", "text": "curl is a command", "finish": "length", "prompt_tokens": 13, "truncated_tokens": 0, "forgotten_tokens": 0, "generated_tokens": 4, "total_seconds": N, "prefill_seconds": N, "decode_seconds": N, "prefill_rate": N, "decode_rate": N}
  {"model": "model", "text": " a", "finish": "stop", "seed": N
  "logprobs": [{"id": 2, "token": "<bos>", "top": []}, {"id": 5433, "token": "curl", "top": []}, {"id": 444, "token": "▁is", "top": []}, {"id": 422, "token": "▁a", "logprob": N, "top": [{"id": 422, "token": "▁a", "logprob": N}, {"id": 443, "token": "▁an", "logprob": N}]}]}
  $ mica generate model "" --json 2>&1; mica run model x --stop '' -q --json 2> err || cat err
  mica: the prompt is empty: give a text as an argument, by --file, or on standard input
  mica: --stop: the text is empty
  Try: mica help run
  $ MICA_JSON=on mica run model "What is curl?" -n 1 2>&1 | grep -c '"text": "curl"'
  1

A raw text is continued without a chat format.

  $ mica generate "curl is a" -n 8 -q | grep -c .
  1
  $ mica generate "curl is a" -n 8 -q > a; echo "curl is a" | mica generate -n 8 -q - | cmp - a
