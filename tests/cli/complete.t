Needs libedit.

Tab completes commands, what can be set, and file names; where there are several, it lists them.

  $ pty mica chat << 'END'
  > wait >
  > send /hi\x09\n
  > wait story
  > wait >
  > send /s\x09
  > wait /save  /set  /show
  > wait /s
  > send \x09
  > wait /save  /set  /show
  > send et temp\x09
  > wait erature 
  > send 0.5\n
  > wait >
  > send /set parameter top_\x7f-\x09\x09
  > wait top-k  top-p
  > send k 7\n
  > wait >
  > send /set re\x09\x7f\x7f\x7f\x7f\x7f\n
  > wait >
  > send /set\n
  > wait temperature         0.5
  > wait top-k               7
  > wait >
  > send /bye\n
  > END

  $ mkdir -p talks/with "talks/on work"; touch .hidden talks/one "talks/what's new" "talks/$(printf 'a\033[31m')"
  > printf '{"role": "user", "content": "a"}\n' > talks/Größe; cp talks/Größe .hidden
  $ pty mica chat << 'END'
  > wait >
  > send /load ta\x09
  > wait lks/
  > send \x09\x09
  > wait Größe  on work/  one  what's new  with/
  > wait talks/
  > absent \e[31mm
  > send Gr\x09\n
  > wait >
  > send /show\n
  > wait messages      1
  > wait >
  > send /clear\n
  > wait >
  > send /load ~\x09.h\x09
  > wait idden
  > send \n
  > wait >
  > send /show\n
  > wait messages      1
  > wait >
  > send /load nowhere/x\x09\n
  > wait cannot read nowhere/x
  > wait >
  > send /bye\n
  > END

In a text for the model it is a letter like others.

  $ pty mica chat -n 1 << 'END'
  > wait >
  > send //a\x09b\n
  > wait generated
  > wait >
  > send /save said\n
  > wait >
  > send /bye\n
  > END
  $ head -1 said
  {"role": "user", "content": "/a\u0009b"}
