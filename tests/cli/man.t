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
  .TP
  \fB\-h\fR, \fB\-\-help\fR
  print this help and exit
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
