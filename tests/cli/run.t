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

The rates go to standard error, without colours.

  $ mica run "How do I exit vim?" 2>&1 > /dev/null | sed 's/[0-9][0-9.]*/N/g'
  N prompt tokens at N tok/s, N generated at N tok/s
  $ mica run "What is curl?" -n 3 2>&1 | sed 's/[0-9][0-9.]* tok/N tok/g'
  curl is a
  13 prompt tokens at N tok/s, 3 generated at N tok/s, the end of --max-tokens

The same seed draws the same tokens.

  $ mica run "Tell me of vim" -T 2 -s 7 -n 20 -q > a; mica run "Tell me of vim" -T 2 -s 7 -n 20 -q > b
  > mica run "Tell me of vim" -T 2 -s 8 -n 20 -q > c; cmp a b && ! cmp -s a c

A raw text is continued without a chat format.

  $ mica generate "curl is a" -n 8 -q | grep -c .
  1
  $ mica generate "curl is a" -n 8 -q > a; echo "curl is a" | mica generate -n 8 -q - | cmp - a
