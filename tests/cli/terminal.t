Ctrl-C at the prompt, once to be told and once more to leave, and Ctrl-D.

  $ printf 'wait >\nsend \\x03\nwait Ctrl-C again\nwait >\nsend \\x03\n' | pty mica chat
  [130]
  $ printf 'wait >\nsend \\x04\n' | pty mica chat

Whatever is typed in between, Ctrl-C is a first one again.

  $ pty mica chat << 'END'
  > wait >
  > send \x03
  > wait Ctrl-C again
  > wait >
  > send /show\n
  > wait messages
  > wait >
  > send \x03
  > wait Ctrl-C again
  > wait >
  > send /bye\n
  > END

A conversation that is left so is kept where --session says, with its caches.

  $ pty mica chat -n 2 --session left << 'END'
  > wait >
  > send What is curl?\n
  > wait generated
  > wait >
  > send \x03
  > wait Ctrl-C again
  > wait >
  > send \x03
  > END
  [130]
  $ wc -l < left; ls left.cache
  2
  left.cache

Without an editor the terminal drops the line, and Ctrl-C twice in a row leaves. The message that a
line was to go on with is dropped too, and Ctrl-D within a message ends that.

  $ cat > plain << 'END'
  > trap '' INT
  > { mica chat -q -n 2 2>&1; echo "code $?"; } | cat
  > END
  > pty sh plain << 'END'
  > wait >
  > send What is \x03
  > wait Ctrl-C again
  > wait >
  > send a\x5c\n
  > wait ...
  > send b\x03
  > wait >
  > send /show\n
  > wait messages      0
  > wait >
  > send What is \x5c\n
  > wait ...
  > send \x04
  > wait >
  > send /show\n
  > wait messages      2
  > wait >
  > send \x03
  > wait Ctrl-C again
  > wait >
  > send \x03
  > wait code 130
  > END

Ctrl-C stops an answer; the conversation goes on. A second one ends the program.

  $ pty mica chat endless << 'END'
  > wait >
  > send What is curl?\n
  > wait curl is
  > send \x03
  > wait interrupted
  > wait >
  > send /bye\n
  > END
  $ pty mica chat endless << 'END'
  > wait >
  > send What is curl?\n
  > wait curl is
  > send \x03
  > wait interrupted
  > wait >
  > send \x03
  > wait Ctrl-C again
  > wait >
  > send \x03
  > END
  [130]
  $ pty mica run --model endless "What is curl?" << 'END'
  > wait curl is
  > send \x03
  > wait interrupted
  > END
  [130]

Without a prompt `run` is a chat there, with the options of both.

  $ printf 'wait Ctrl-D ends.\nwait >\nsend What is curl?\\n\nwait curl is\nwait 3 generated\nwait >\nsend \\x04\n' > typed
  > pty mica run -n 3 < typed; pty mica run model -n 3 < typed; pty mica run --model model -n 3 < typed
  $ pty mica run -q --system "Be brief." --no-think << 'END'
  > wait >
  > send /set\n
  > wait quiet               on
  > wait think               off
  > wait Be brief.
  > wait >
  > send /bye\n
  > END
  $ echo 'wait generate needs a text' | pty mica generate
  [2]

A chat's first message may be a word of the command.

  $ printf 'wait curl is a\nwait generated\nwait >\nsend /bye\\n\n' > typed
  > pty mica chat "What is curl?" -n 3 < typed; pty mica chat model "What is curl?" -n 3 < typed

Colours on a terminal, but not under NO_COLOR or on a dumb one.

  $ printf 'wait \\e[1m>\nsend /bye\\n\n' | pty mica chat
  $ printf 'wait >\nabsent \\e[1m\nabsent \\e[2m\nsend /bye\\n\n' | NO_COLOR=1 pty mica chat
  $ printf 'wait >\nabsent \\e[\nsend /bye\\n\n' | TERM=dumb pty mica chat
  $ printf 'wait \\e[31mmica:\n' | pty mica frobnicate
  [2]
  $ printf 'wait mica:\nabsent \\e\n' | NO_COLOR=1 pty mica frobnicate
  [2]

Help is as wide as the terminal, but not above 100 columns, and wraps at words.

  $ cat > narrow << 'END'
  > wait Prints how the model continues PROMPT, a\r\nraw text.\r\n\r\n
  > wait       --top-p P\r\n        top-p (nucleus) sampling: only\r\n        the fewest tokens
  > END
  > PTY_COLUMNS=40 pty mica help generate < narrow
  $ cat > wide << 'END'
  > wait       --top-p P                 top-p (nucleus) sampling: only the fewest tokens whose probabilities\r\n
  > wait                                 reach P
  > END
  > PTY_COLUMNS=100 pty mica help generate < wide; pty mica help generate < wide
  $ cat > verbs << 'END'
  > wait   eval         measure a model's\r\n               perplexity, and\r\n
  > END
  > PTY_COLUMNS=36 pty mica < verbs

`bench` shows how far it is.

  $ printf 'wait threads 1, prompt 64\nwait %%\nsend \\x03\n' | pty mica bench model -p 64 -n 1000 -r 100 -t 1
  [130]

Answers are broken between words at the width that the terminal has then, where they are printed on
one; not with --no-wrap, as other programs call it too.

  $ cat > narrow << 'END'
  > size 20
  > wait curl is a command\r\nline tool for\r\ntransferring data\r\nwith URLs.
  > END
  > pty mica run "What is curl?" -q -n 20 < narrow
  $ printf 'size 9\nwait curl is a\\r\\ncommand\\r\\nline tool\\r\\nfor\\r\\ntransferring data\\r\\nwith\n' > tiny
  > pty mica run "What is curl?" -q -n 20 < tiny
  > printf 'size 1\nwait curl\\r\\nis\\r\\na\\r\\ncommand\n' | pty mica run "What is curl?" -q -n 20
  > for option in --no-wrap --nowordwrap; do
  >   printf 'size 20\nwait curl is a command line tool\n' | pty mica run "What is curl?" -q -n 20 $option
  > done
  $ pty mica chat -n 9 << 'END'
  > size 20
  > wait >
  > send What is curl?\n
  > wait curl is a command\r\nline tool for\r\ntransferring data
  > wait generated
  > wait >
  > size 30
  > send /regenerate\n
  > wait curl is a command line tool\r\nfor transferring data\r\n
  > wait >
  > send /history\n
  > wait curl is a command line tool\r\nfor transferring data\r\n
  > wait >
  > send /set nowordwrap\n
  > wait >
  > send /regenerate\n
  > wait curl is a command line tool for transferring data\r\n
  > wait >
  > send /bye\n
  > END
  $ printf 'wait there is no command\\r\\n\x27frobnicate\x27\n' | PTY_COLUMNS=30 pty mica frobnicate
  [2]
  $ printf 'size 30\nwait model, gemma3_text, 12.8 MB.\\r\\n/help lists commands, Ctrl-D\\r\\nends.\\r\\n\nwait >\nsend /a\\n\nwait /help lists the commands; //\\r\\nbegins a text that begins with\\r\\na slash.\\r\\n\nwait >\nsend /bye\\n\n' | pty mica chat model
  $ mica run "What is curl?" -q -n 20 > a; printf 'size 20\n' | pty sh -c 'mica run "What is curl?" -q -n 20 > b; cmp a b'

A window may change its size at any time, also while the prompt is drawn.

  $ i=0; while [ $i -lt 300 ]; do
  >   i=$((i + 1)); printf 'wait [?2004h\nwait >\nsize %d\nsend /set seed 1\\n\n' $((20 + i * 37 % 150))
  > done > typed; printf 'wait [?2004h\nwait >\nsend /bye\\n\n' >> typed
  > pty mica chat < typed

A line that is being typed is drawn again where the window changes, and goes on.

  $ pty mica chat -q -n 4 << 'END'
  > size 60
  > wait >
  > send What is the meaning of curl and of nginx, and what of vim?
  > wait what of vim?
  > size 30
  > wait What is the meaning of curl
  > wait what of vim?
  > size 70
  > wait What is the meaning of curl and of nginx, and what of vim?
  > send \x01\x0bWhat is curl?\n
  > wait curl is a command
  > wait >
  > send /bye\n
  > END
