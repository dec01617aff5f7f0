The README's program is examples/chat.c, and its table names every verb.

  $ sed '1{/^\/\*/d;}' $ROOT/examples/chat.c | sed '1{/^$/d;}' > a
  > sed -n '/^```c$/,/^```$/p' $ROOT/README.md | sed '1d;$d' | cmp - a
  $ mica | sed -n 's/^  \([a-z]*\)  .*/\1/p' | grep -v -e help -e mica | while read -r verb; do
  >   grep -q "\`mica $verb" $ROOT/README.md || echo "$verb is missing"
  > done
