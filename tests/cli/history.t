Needs libedit.

A line typed in one chat comes back in the next; letters beyond ASCII too, in any locale.

  $ printf 'wait >\nsend /set system Größe\\n\nwait >\nsend /bye\\n\n' | pty mica chat
  $ ls .local/state/mica
  history
  $ printf 'wait >\nsend \\e[A\\e[A\nwait /set system Größe\nsend \\n\nwait >\nsend /bye\\n\n' | pty mica chat
  $ XDG_STATE_HOME=$PWD/state; export XDG_STATE_HOME
  > printf 'wait >\nsend /bye\\n\n' | pty mica chat; ls state/mica
  history
