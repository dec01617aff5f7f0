Ctrl-C at the prompt, and Ctrl-D.

  $ printf 'wait >\nsend \\x03\n' | pty mica chat
  [130]
  $ printf 'wait >\nsend \\x04\n' | pty mica chat

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
