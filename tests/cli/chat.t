Lines of a pipe are answered one by one, without prompts; empty lines are nothing; /bye ends it.

  $ mica run "What is curl?" -q -n 4 > a; mica run "What is nginx?" -q -n 4 > b
  > printf 'What is curl?\n\n  \n/bye\nWhat is nginx?\n' | mica chat -q -n 4 2>&1 | cmp - a

Two turns answer as golden.json records, the last line without its line feed, and the second turn
does not compute the first again.

  $ printf 'What is tar?\nAnd gzip?' | mica chat -q 2>&1
  tar is the GNU program for packing files into one archive and unpacking them. It can also compress the archive, for example with gzip (.tar.gz) or xz (.tar.xz).
  gzip is the GNU compression utility. It compresses files with the DEFLATE algorithm; compressed files end in .gz, and gunzip restores them.
  $ printf 'What is tar?\nAnd gzip?' | mica chat -n 4 2>&1 > /dev/null | sed 1d | grep -c 'prompt tokens (and [1-9][0-9]* known)'
  1

A first message is answered before any line is read.

  $ mica chat "What is tar?" -q < /dev/null
  > echo 'And gzip?' | mica chat model "What is tar?" -q | tail -1
  > echo 'And gzip?' | mica chat --model model "What is tar?" -q | tail -1
  tar is the GNU program for packing files into one archive and unpacking them. It can also compress the archive, for example with gzip (.tar.gz) or xz (.tar.xz).
  gzip is the GNU compression utility. It compresses files with the DEFLATE algorithm; compressed files end in .gz, and gunzip restores them.
  gzip is the GNU compression utility. It compresses files with the DEFLATE algorithm; compressed files end in .gz, and gunzip restores them.

/clear forgets: what follows is answered as at first.

  $ printf 'What is curl?\n/clear\nWhat is nginx?\n' | mica chat -q -n 4 2>&1 | sed 1d | cmp - b

The commands.

  $ echo /help | mica chat -q 2>&1
  /set [NAME VALUE]     change a setting; alone: list all settings
  /show                 describe the model, and how full its context is
  /history              print the conversation
  /regenerate           answer the last message again
  /save FILE            save the conversation in FILE, its caches in FILE.cache
  /load FILE            continue a saved conversation
  /clear, /reset        begin a new conversation
  /help, /?             this
  /bye, /exit, /quit    end the chat, as Ctrl-D does
  
  Ctrl-C stops an answer, or clears the line; twice on an empty line it ends the chat.
  Tab completes commands. A line that ends in \ continues on the next. """ begins and
  ends a text of several lines, // a text that begins with a slash.
  $ printf '/set temperature 0.5\n/set system  Be brief.\n/set\n' | mica chat -q --seed 3 2>&1
  temperature         0.5
  top-k               0
  top-p               1
  min-p               0
  repetition-penalty  1
  presence-penalty    0
  frequency-penalty   0
  penalty-window      0
  max-tokens          0
  min-tokens          0
  seed                3
  stop                
  ignore-eos          off
  verbose             off
  quiet               on
  wrap                on
  think               
  system              Be brief.
  $ printf '/set temp 1\n/set top-p 7\n/set seed\n/sett\n' | mica chat -q 2>&1
  mica: top-p: 7 is more than 1
  mica: seed: '' is neither a whole number of 0 or more nor random
  mica: there is no command /sett; did you mean /set?
  /help lists the commands; // begins a text that begins with a slash.
  [1]
  $ printf '/set max-tokens 3\nWhat is curl?\n' | mica chat 2>&1 | sed 's/[0-9][0-9.]* tok/N tok/g'
  curl is a
  13 prompt tokens at N tok/s, 3 generated at N tok/s, the end of --max-tokens
  $ printf '/show\n/set max-tokens 3\nWhat is curl?\n/show\n/clear\n/show\n' | mica chat -q model 2>&1
  model         model, gemma3_text
  quantisation  4 bit, groups of 32 (affine)
  context       0 of 2,048 tokens
  messages      0
  curl is a
  model         model, gemma3_text
  quantisation  4 bit, groups of 32 (affine)
  context       16 of 2,048 tokens
  messages      2
  model         model, gemma3_text
  quantisation  4 bit, groups of 32 (affine)
  context       0 of 2,048 tokens
  messages      0

What users of other programs type: other names of commands and settings; "parameter" in between;
flags without a value, or with "no" before their name. A text of --stop is one of several; without
one there are none.

  $ printf '/set temp 0.7\n/set parameter top_k 40\n/set parameter num_predict 9\n/set repeat_penalty 1.5\n' > typed
  > printf '/set parameter repeat_last_n 64\n/set verbose\n/set nothink\n/set stop nginx.\n/set stop END NOW\n' >> typed
  > (cat typed; printf '/set\n/set noverbose\n/set no-think\n/set stop\n/set\n') | mica chat -q 2>&1 |
  >   grep -E '^(t|max|pen|rep|stop|verb)'
  temperature         0.7
  top-k               40
  top-p               1
  repetition-penalty  1.5
  penalty-window      64
  max-tokens          9
  stop                "nginx." "END NOW"
  verbose             on
  think               off
  temperature         0.7
  top-k               40
  top-p               1
  repetition-penalty  1.5
  penalty-window      64
  max-tokens          9
  stop                
  verbose             off
  think               off
  $ printf '/set parameter\n' | mica chat -q 2>&1 | head -1
  > printf '/set num_ctx 4096\n/set wordy on\n/set verbos\n' | mica chat -q 2>&1
  temperature         0
  mica: the context is set when the model is opened: mica chat --context N
  mica: there is no 'wordy' to set
  mica: there is no 'verbos' to set; did you mean 'verbose'?
  [1]
  $ printf '/quit\nWhat is curl?\n' | mica chat -q
  > printf '/exit\nWhat is curl?\n' | mica chat -q
  > printf 'What is curl?\n/reset\n/show \n' | mica chat -q -n 2 2>&1 | tail -1
  > printf '/?\n' | mica chat -q 2> a; printf '/help\n' | mica chat -q 2>&1 | cmp - a
  messages      0

/history tells what was said; a text that begins with a slash is typed with two.

  $ printf '/history\n/set system Be brief.\nWhat is curl?\n//help\n/history\n' | mica chat -q -n 3 2>&1 > /dev/null |
  >   sed 's/^>/user:/'
  system: Be brief.
  user: What is curl?
  curl is a
  user: /help
  I can answer

/regenerate answers anew, in place of the last answer: drawn, it is another one also with a seed, and
the same again in another chat with that seed. What was said before stays.

  $ printf 'What is vim?\nTell me more\n/regenerate\n/history\n' | mica chat -q -n 5 -T 1.5 --seed 1 2> said > a
  > printf 'What is vim?\nTell me more\n/regenerate\n' | mica chat -q -n 5 -T 1.5 --seed 1 | cmp - a
  > grep -c '^>' said; wc -l < said; sed -n 2p a > b; sed -n 3p a > c; ! cmp -s b c; tail -1 said | cmp - c
  2
  4
  $ printf '/regenerate\nWhat is curl?\n/regenerate\n/show\n' | mica chat -q -n 4 --session again 2>&1 |
  >   grep -vE '^(model|quant)'
  > wc -l < again
  mica: there is no answer to repeat yet
  curl is a command
  At temperature 0 an answer is always the same: try /set temperature 0.8
  curl is a command
  context       17 of 2,048 tokens
  messages      2
  2

A message of several lines: a backslash at the end of a line, or quotes around it.

  $ printf 'What is\ncurl?' | mica run -q -n 8 > a
  > printf 'What is\\\ncurl?\n' | mica chat -q -n 8 | cmp - a
  > printf '"""What is\ncurl?"""\n' | mica chat -q -n 8 | cmp - a
  > printf '  """\nWhat is\ncurl?\n"""\n' | mica chat -q -n 8 | cmp - a
  > printf 'What is\\\ncurl?\\' | mica chat -q -n 8 | cmp - a
  > printf 'What is\n\ncurl?' | mica run -q -n 8 > b
  > printf '"""\nWhat is\n\ncurl?"""\n' | mica chat -q -n 8 | cmp - b
  $ printf '"""/help"""\n/set system """\n""""""\n"""\n"""\n/show\n' | mica chat -q -n 2 2>&1 | grep messages
  messages      3
  $ printf '"""\nWhat is\n' | mica chat -q 2>&1
  mica: a block is not closed: """ is missing
  [1]
  $ printf '/set system a\\\nb\n/set\n' | mica chat -q 2>&1 | tail -2
  system              a
  b

A conversation is kept in a file, by /save and /load or with --session, and goes on as if it had not
been interrupted.

  $ printf 'What is tar?\nAnd gzip?\n' | mica chat -q -n 8 | tail -1 > a
  > printf 'What is tar?\n/save kept\n' | mica chat -q -n 8 && cat kept
  > printf '/load kept\nAnd gzip?\n' | mica chat -q -n 8 2>&1 | cmp - a
  > echo 'What is tar?' | mica chat -q -n 8 --session other > /dev/null && cmp kept other
  > echo 'And gzip?' | mica chat -q -n 8 --session other 2>&1 | cmp - a
  > printf '/load kept\nAnd gzip?\n' | mica chat -n 8 2>&1 > /dev/null | grep -c '(and [1-9][0-9]* known)'
  > MICA_ADAPTER=$ROOT/nowhere mica chat --session kept < /dev/null 2> err; echo $?
  > wc -l < other; ! [ -e other.new ]
  tar is the GNU program for packing
  {"role": "user", "content": "What is tar?"}
  {"role": "assistant", "content": "tar is the GNU program for packing"}
  1
  1
  4

What is beside the file stays as it is; a file that cannot be written is told once.

  $ echo mine > tidy.new; echo 'What is tar?' | mica chat -q -n 1 --session tidy; cat tidy.new; wc -l < tidy; ls tidy*
  tar
  mine
  2
  tidy
  tidy.cache
  tidy.new
  $ echo 'What is tar?' | mica chat -q -n 1 --session no/folder/x 2>&1
  tar
  mica: cannot write no/folder/x: No such file or directory
  [1]

A link to a conversation stays one, as does the file's mode. A device is written to and keeps
nothing; a FIFO is refused, at once.

  $ mkdir real; ln -s real/kept linked; echo 'What is tar?' | mica chat -q -n 1 --session linked
  > chmod 640 real/kept; echo 'And gzip?' | mica chat -q -n 1 --session linked | wc -l
  > ls -F real; ls -dF linked; wc -l < linked; find real/kept -perm 640
  tar
  1
  kept
  linked@
  4
  real/kept
  $ ln -s /dev/null null; printf 'What is tar?\n/save null\n' | mica chat -q -n 1 --session null
  > ls -F | grep '^null'
  tar
  null@
  $ mkfifo pipe; echo 'What is tar?' | mica chat -q -n 1 --session pipe 2>&1
  mica: cannot read pipe: it is not a regular file
  [1]
  $ printf 'What is tar?\n/save pipe\n/load pipe\n' | mica chat -q -n 1 2>&1; ls -F | grep '^pipe'
  tar
  mica: cannot write pipe: it is neither a file nor a character device
  mica: cannot read pipe: it is not a regular file
  pipe|

Nor does what is open already, which is not opened anew: the answer before it stays.

  $ printf 'What is tar?\n/save /dev/fd/1\n' | mica chat -q -n 1 > out 2>&1; cat out
  > printf 'What is tar?\n' | mica chat -q -n 1 --session /dev/stdout | sort -u
  tar
  {"role": "user", "content": "What is tar?"}
  {"role": "assistant", "content": "tar"}
  tar
  {"role": "assistant", "content": "tar"}
  {"role": "user", "content": "What is tar?"}

What killed saves left beside a file is in nobody's way.

  $ mkdir full-of; for i in '' $(seq 99); do : > full-of/kept.new$i; done
  > printf 'What is tar?\n/save full-of/kept\n' | mica chat -q -n 1; wc -l < full-of/kept
  tar
  2

Where it can be written later on, it is.

  $ mkfifo told; (echo 'What is tar?'; head -n 1 told > told.txt; mkdir later; echo /bye) |
  >   mica chat -q -n 1 --session later/x 2> told
  tar
  [1]
  $ cat told.txt; wc -l < later/x
  mica: cannot write later/x: No such file or directory
  2

A ~ in a file's name is the home folder.

  $ mkdir -p deep; cd deep; echo 'What is tar?' > typed
  > (cat typed; echo '/save ~/of home') | mica chat -q -n 4; ls ~ | grep 'of home'
  > printf '/load ~/of home\n/history\n' | mica chat -q -n 4 2>&1 | sed 's/^>/user:/'
  tar is the GNU
  of home
  of home.cache
  user: What is tar?
  tar is the GNU

What is wrong with a file is said.

  $ printf '/save\n/load nowhere\n/save no/folder/x\n' | mica chat -q 2>&1
  mica: /save needs the name of a file
  mica: cannot read nowhere: No such file or directory
  mica: cannot write no/folder/x: No such file or directory
  [1]
  $ echo '{"role": "user"}' > bad; printf '/load bad\n/show\n' | mica chat -q model 2>&1
  mica: bad, line 1: it is not a message: {"role": ..., "content": ...}
  model         model, gemma3_text
  quantisation  4 bit, groups of 32 (affine)
  context       0 of 2,048 tokens
  messages      0
  [1]
  $ printf '{"role": "user", "content": "a"}\n\n{"role": 1}\n' > bad; echo /bye | mica chat -q --session bad 2>&1
  mica: bad, line 3: it is not a message: {"role": ..., "content": ...}
  [1]
  $ printf '{"role": "user", "content": "a\n' > bad; echo /bye | mica chat -q --session bad 2>&1
  mica: bad, line 1: a string does not end
  [1]
  $ printf '\377\0' > bad; echo /bye | mica chat -q --session bad 2>&1
  mica: bad, line 1: it holds a NUL byte
  [1]
  $ (cat kept; printf '\0\0\n'; cat kept) > bad; cp bad same
  > echo 'What is tar?' | mica chat -q -n 1 --session bad 2>&1; cmp bad same
  mica: bad, line 3: it holds a NUL byte
  $ (cat kept; printf '{"role": "user", "con\0tent": "a"}\n') > bad; cp bad same
  > echo 'What is tar?' | mica chat -q -n 1 --session bad 2>&1; cmp bad same
  mica: bad, line 3: it holds a NUL byte

Caches of another model, or no caches at all, are not used: the conversation is read again.

  $ printf '/load kept\n' | mica chat $ROOT/tests/fixtures/models/qwen3_tied -q 2>&1
  mica: kept.cache: saved from another model or adapter: open the one it was saved from
  The messages are computed again instead.
  $ rm -f other.cache; echo 'And gzip?' | mica chat -n 8 --session other 2>&1 | grep -c known
  0
  [1]
  $ mica chat -q --session kept -n 8 < /dev/null; head -c 1000 kept.cache > cut; mv cut kept.cache
  > echo 'And gzip?' | mica chat -q -n 8 --session kept 2>&1
  mica: kept.cache: the session file was cut short or altered
  The messages are computed again instead.
  gzip is the GNU compression utility.
