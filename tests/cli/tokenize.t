Ids and pieces, with what the tokenizer puts around a text.

  $ mica tokenize "What is curl?"
  $ mica tokenize --ids "What is curl?"
  $ printf 'a\tb\n\nc\n' | mica tokenize model
  $ mica tokenize --ids ''

And back.

  $ mica tokenize --decode "5433 444, 422 689"
  $ printf 'Grüße, 世界 🙂\n' | mica tokenize --ids | mica tokenize --decode -
  $ mica tokenize --ids model "What is curl?" | mica tokenize -d model
