Ids and pieces, with what the tokenizer puts around a text.

  $ mica tokenize "What is curl?"
        2  <bos>
      558  What
      444  ▁is
     5127  ▁curl
      293  ?
  $ mica tokenize --ids "What is curl?"
  2 558 444 5127 293
  $ printf 'a\tb\n\nc\n' | mica tokenize model
        2  <bos>
      326  a
       15  <0x09>
      327  b
      494  \n\n
      328  c
  $ mica tokenize --ids ''
  2

And back. An id of no token is an error.

  $ mica tokenize --decode "5433 444, 422 689"
  curl is a command
  $ printf 'Grüße, 世界 🙂\n' | mica tokenize --ids | mica tokenize --decode -
  <bos>Grüße, 世界 🙂
  $ mica tokenize --ids model "What is curl?" | mica tokenize -d model
  <bos>What is curl?
  $ mica tokenize -d 99999999 2>&1
  mica: there is no token 99999999; the model's are 0 to 8191
  [1]
  $ mica tokenize -d "558 8192" 2>&1; mica tokenize -d "8191" > a
  mica: there is no token 8192; the model's are 0 to 8191
  $ mica tokenize -d "558 -1" 2>&1
  mica: '-1' is not a token id
  Try: mica help tokenize
  [2]
