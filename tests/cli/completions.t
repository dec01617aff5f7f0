The scripts are what their shells can read, where these are there.

  $ for shell in bash zsh fish; do
  >   mica completions $shell > $shell
  >   if command -v $shell > /dev/null; then $shell -n $shell || echo "$shell cannot read it"; fi
  > done
  $ mica completions 2>&1
  mica: completions needs a shell: bash, zsh or fish
  Try: mica help completions
  [2]
  $ mica completions tcsh 2>&1
  mica: 'tcsh' is not one of bash, zsh and fish
  Try: mica help completions
  [2]

Every verb and every long option is in each of them.

  $ for verb in $(mica | sed -n 's/^  \([a-z]*\)  .*/\1/p' | grep -v mica); do
  >   for shell in bash zsh fish; do grep -q "\<$verb\>" $shell || echo "$verb is not in $shell"; done
  >   for option in $(mica help $verb | sed -n 's/^  .... --\([a-z-]*\).*/\1/p'); do
  >     grep -q -e "--$option\>" bash || echo "$verb --$option is not in bash"
  >     grep -q -e "--$option\>" zsh || echo "$verb --$option is not in zsh"
  >     grep -q -e "$verb' -l $option\>" fish || echo "$verb --$option is not in fish"
  >   done
  > done

bash completes verbs, options, folders, and the words that a verb takes.

  $ if command -v bash > /dev/null; then cat > ask << 'END'
  > . ./bash
  > ask() {
  >   COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  >   _mica
  >   echo "$*: ${COMPREPLY[*]}"
  > }
  > ask mica ch
  > ask mica chat --mo
  > ask mica chat --model en
  > ask mica chat --system ''
  > ask mica show mo
  > ask mica completions z
  > ask mica man b
  > ask mica help sh
  > END
  > mkdir 'en two'; bash ask
  > else cat << 'END'
  > mica ch: chat
  > mica chat --mo: --model
  > mica chat --model en: endless en two
  > mica chat --system : 
  > mica show mo: model
  > mica completions z: zsh
  > mica man b: bench
  > mica help sh: show
  > END
  > fi
  mica ch: chat
  mica chat --mo: --model
  mica chat --model en: endless en two
  mica chat --system : 
  mica show mo: model
  mica completions z: zsh
  mica man b: batch bench
  mica help sh: show
