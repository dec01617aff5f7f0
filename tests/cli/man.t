A page for mica and for each verb, which man and mandoc render without a warning. (A page has no
date: it is of a version.)

  $ mica man > mica.1
  > for verb in $(mica | sed -n 's/^  \([a-z]*\)  .*/\1/p' | grep -v -e help -e mica); do
  >   mica man $verb > mica-$verb.1; grep -q "mica.-$verb.fR(1)" mica.1 || echo "$verb is missing"
  > done
  $ for page in *.1; do
  >   if man --warnings -l $page > text 2> warnings; then cat warnings; fi
  >   if command -v mandoc > /dev/null; then mandoc -Tlint -Wwarning $page | grep -v 'missing date'; fi
  > done; :
  $ mica man version
  .TH MICA\-VERSION 1 "" "mica 0.1.0" "mica"
  .SH NAME
  mica\-version \- print the version and the build\(aqs options
  .SH SYNOPSIS
  \fBmica version\fR [options]
  .SH DESCRIPTION
  Prints the version, the devices and the libraries of this build.
  .SH OPTIONS
  .SS Options
  .TP
  \fB\-\-licences\fR
  print the licences of mica and of what is in it
  .SS Help
  .TP
  \fB\-h\fR, \fB\-\-help\fR
  print this help and exit
  .SH ENVIRONMENT
  A variable sets an option that the command line does not give, unless
  it is empty. A flag is on or off.
  .TP
  \fBMICA_LICENCES\fR
  \-\-licences
  .SH SEE ALSO
  \fBmica\fR(1)
  $ mica man frobnicate 2>&1
  mica: there is no command 'frobnicate'
  Try: mica help
  [2]

Options, their variables and examples are there, and show as they are typed.

  $ if command -v man > /dev/null; then LC_ALL=C MANWIDTH=78 man -l mica-run.1 | cat; fi > text
  > if [ -s text ]; then grep -c -e '--max-tokens N' -e MICA_MAX_TOKENS -e 'git diff | mica run "Desc' text; else echo 3; fi
  3

At a terminal the page is a text in a pager: $MANPAGER, else $PAGER, else less, which leaves a short
one there. A pager that is left early is no error, nor is Ctrl-C in it. A pipe gets roff.

  $ printf 'wait >mica run: answer one prompt\nwait >Usage: mica run\nabsent .SH\n' > typed
  > MANPAGER="sed s/^/\\>/" PAGER=false pty mica man run < typed; PAGER="sed s/^/\\>/" pty mica man run < typed
  > printf 'wait Usage: mica COMMAND\n' | MANPAGER=cat pty mica man; printf 'wait Usage: mica version\n' | PTY_COLUMNS=80 pty mica man version
  > MANPAGER=true pty mica man run < /dev/null; MANPAGER='head -1' pty mica man run < /dev/null
  > printf 'wait ready\nsend \\x03\nwait left\n' | MANPAGER='trap "echo left; exit" INT; echo ready; while :; do :; done' pty mica man run
  > MANPAGER=false mica man version | head -1
  .TH MICA\-VERSION 1 "" "mica 0.1.0" "mica"
