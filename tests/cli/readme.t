The README's program is examples/chat.c, and it has at most 120 lines.

  $ sed '1{/^\/\*/d;}' $ROOT/examples/chat.c | sed '1{/^$/d;}' > a
  > sed -n '/^```c$/,/^```$/p' $ROOT/README.md | sed '1d;$d' | cmp - a
  $ [ $(wc -l < $ROOT/README.md) -le 120 ]

The table of docs/start.md names every command, the other one every header.

  $ mica | sed -n 's/^  \([a-z]*\)  .*/\1/p' | grep -v -e help -e mica | while read -r verb; do
  >   grep -q "\`mica $verb" $ROOT/docs/start.md || echo "$verb is missing"
  > done
  $ cd $ROOT/include && ls mica/*.h* | grep -v -e api.h -e mica.h$ | while read -r header; do
  >   grep -q "^|.*.$header." $ROOT/docs/start.md || echo "$header is missing"
  > done

The models that README names for each size of memory are of families that run.

  $ sed -n 's/^| [0-9]* GB | `\(.*\)` | .*/\1/p' $ROOT/README.md | sed 's/-[0-9.]*[Bb]-.*//' | while read -r name; do
  >   grep -q "\`$name" $ROOT/docs/families.md || echo "$name is missing"
  > done

Messages that docs/troubleshooting.md quotes are the program's, but for those of others.

  $ cd $ROOT && sed -n 's/^\* \*\*"\([^"]*\)".*/\1/p' docs/troubleshooting.md | grep -v -e ^libmica -e 'command not found' -e ^Package | while read -r said; do
  >   grep -rqF "$said" src cli tools/install-deps.sh || echo "nothing says $said"
  > done
