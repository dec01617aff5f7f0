Needs libedit.

A line typed in one chat comes back in the next; letters beyond ASCII too, in any locale.

  $ printf 'wait >\nsend /set system Größe\\n\nwait >\nsend /bye\\n\n' | pty mica chat
  $ ls .local/state/mica
  history
  $ printf 'wait >\nsend \\e[A\\e[A\nwait /set system Größe\nsend \\n\nwait >\nsend /bye\\n\n' | pty mica chat
  $ XDG_STATE_HOME=$PWD/state; export XDG_STATE_HOME
  > printf 'wait >\nsend /bye\\n\n' | pty mica chat; ls state/mica
  history

What is pasted is one line, its line feeds and tabs within, until Return is typed; terminals are
told when to mark a paste, and when no longer.

  $ printf 'wait \\e[?2004h\nwait >\nsend \\e[200~/set system Grüße\\r\\nan\\x09alle\\e[201~\nsend !\\n\nwait \\e[?2004l\nwait >\nsend /set\\n\nwait system \nwait Grüße\nwait alle!\nwait >\nsend /bye\\n\n' | pty mica chat
  $ printf 'wait \\e[?2004h\nwait >\nsend \\x03\nwait \\e[?2004l\nwait \\e[?2004h\nwait >\nsend \\x03\nwait \\e[?2004l\n' | pty mica chat
  [130]

Ctrl-D within a message ends it; an open block is dropped then.

  $ printf 'wait >\nsend a\\x5c\\n\nwait ...\nsend \\x04\nwait generated\nwait >\nsend \\x04\n' | pty mica chat -n 1
  $ printf 'wait >\nsend """a\\n\nwait ...\nsend \\x04\nwait not closed\nwait >\nsend \\x04\n' | pty mica chat -n 1

Ctrl-C drops the line, wherever its cursor is, and the lines before it of the same message. It is not
in the history, and only one more in an empty line leaves.

  $ pty mica chat -n 1 << 'END'
  > wait >
  > send What is curl?\e[D\e[D\x03
  > wait >
  > send a\x5c\n
  > wait ...
  > send b\x03
  > wait >
  > send /show\n
  > wait messages      0
  > wait >
  > send \e[A\n
  > wait messages      0
  > absent Ctrl-C again
  > wait >
  > send What?\x03
  > wait >
  > send \x03
  > END
  [130]

A history that is no regular file, or too large, is neither read nor written.

  $ cd .local/state/mica; printf 'wait >\nsend /set\\n\nwait system\nwait >\nsend /bye\\n\n' > ~/typed
  > rm history; mkfifo history; pty mica chat model < ~/typed; ls -F history
  > rm history; ln -s /dev/zero history; pty mica chat model < ~/typed; ls -F history
  > rm history; sparse 3 history; (echo wait has more than 64 MB; cat ~/typed) | pty mica chat model
  > wc -c < history
  history|
  history@
  3221225472
