What is piped in is added to a prompt that is given, with a blank line between; so is a file. - asks
for standard input beside a prompt, too.

  $ echo "curl?" > text; printf 'What is\n\ncurl?' | mica run -q -n 6 > a; cat a
  curl is a command line tool
  $ echo "curl?" | mica run "What is" -q -n 6 | cmp - a
  > echo "curl?" | mica run model "What is" -q -n 6 | cmp - a
  > echo "curl?" | mica run -p "What is" -q -n 6 model | cmp - a
  > mica run "What is" -q -n 6 < text | cmp - a; mica run "What is" - -q -n 6 < text | cmp - a
  > mica run model "What is" - -q -n 6 < text | cmp - a; mica run - "What is" -q -n 6 < text | cmp - a
  > mica run "What is" -f text -q -n 6 | cmp - a; mica run model "What is" -f text -q -n 6 | cmp - a
  > mica run -p "What is" -f text -q -n 6 | cmp - a; mica run "What is" -f - -q -n 6 < text | cmp - a
  > mica chat "What is" -q -n 6 < text | cmp - a; mica chat "What is" -f text -q -n 6 < /dev/null | cmp - a
  > cat text | mica chat model "What is" -q -n 6 | cmp - a; mica chat -p "What is" -q -n 6 < text | cmp - a
  $ counts() { sed 's/.*"prompt_tokens": \([0-9]*\),.*/\1/'; }
  > printf 'What is\n\ncurl?' | mica run -q -n 1 --json | counts > a
  > echo "curl?" | mica run "What is" -q -n 1 --json | counts | cmp - a
  $ printf 'What is\n\ncurl?' | mica generate -q -n 6 > a
  > echo "curl?" | mica generate "What is" -q -n 6 | cmp - a
  $ printf 'A\n\nB\n\nC' | mica run -q -n 6 > a; echo B > file; echo C | mica run -p A -f file -q -n 6 | cmp - a
  > echo C | mica run -p A -f file - -q -n 6 | cmp - a; printf 'B\n\nC' | mica run -q -n 6 > a
  > echo C | mica run -f file -q -n 6 | cmp - a; echo B | mica run -f - - -q -n 6 > a; mica run -f file -q -n 6 | cmp - a
  $ mica run one two three - 2>&1 < text
  mica: run takes no '-'; put quotes around a text of several words
  Try: mica help run
  [2]
  $ mica score "one" - 2>&1 < text | head -1; mica score -f text - 2>&1 < text
  mica: there is no model one: there is no such folder, and the Hugging Face cache has no model of that name
  mica: two texts: --file text and -
  Try: mica help score
  [2]
  $ mica run "A word" -q --json-schema-file - 2>&1 < text | head -1
  mica: constraint: schema: not valid JSON: it has a word that is not true, false or null (line 1, column 1)

Standard input that is no terminal and has nothing changes nothing, and is not waited for: none, one
that is closed, an empty file, an ended pipe, the file that a loop reads lines of. A pipe that stays
open (`<>` is its own writer) is left in the end, and at a terminal waited for, up to Ctrl-C.

  $ mica run "What is curl?" -q -n 4 < /dev/null > a; mica run "What is curl?" -q -n 4 <&- | cmp - a
  > : > empty; mica run "What is curl?" -q -n 4 < empty | cmp - a; : | mica run "What is curl?" -q -n 4 | cmp - a
  > mica chat "What is curl?" -q -n 4 < empty | cmp - a; mica chat "What is curl?" -q -n 4 <&- | cmp - a
  > printf 'What is curl?\nWhat is nginx?\n' > lines
  > while read -r line; do mica run "$line" -q -n 4; done < lines > b; mica run "What is nginx?" -q -n 4 >> a; cmp a b
  $ mkfifo pipe; mica run "What is curl?" -q -n 4 2>&1 <> pipe
  Standard input is open, and nothing came in 10 s: it is left. As - it is waited for, and < /dev/null ends it at once.
  curl is a command
  $ pty sh -c 'exec mica run "What is curl?" -q -n 4 <> pipe' << 'END'
  > wait Waiting for standard input
  > send \x03
  > END
  [130]

A byte order mark at the beginning of a text is none of its own; UTF-16 is refused by its mark.

  $ mark=$(printf '\357\273\277'); mica run "What is curl?" -q -n 4 > a; printf "${mark}What is curl?\n" > marked
  > mica run -q -n 4 < marked | cmp - a; mica run -f marked -q -n 4 | cmp - a; mica chat -q -n 4 < marked | cmp - a
  > mica tokenize "What is curl?" > a; mica tokenize -f marked > b; mica tokenize < marked | cmp - a
  > printf "$mark"'{"prompt": "curl is", "max_tokens": 1}\n' | mica batch -q | cut -c 1-22
  > printf "$mark"'{"type": "boolean"}' > schema; mica run -p "Is it?" -q --json-schema-file schema
  > printf "${mark}A: {{ messages[0].content }}" > template; printf 'A: x' | mica generate -q -n 3 > a
  > mica run -p x -q -n 3 --chat-template-file template | cmp - a
  {"id": 1, "text": " a"
  true
  $ printf '\377\376W\0' > wide; mica run -f wide 2>&1; mica score < wide 2>&1; printf '\376\377\0W' | mica batch -q 2>&1
  mica: wide is UTF-16: save it as UTF-8
  mica: standard input is UTF-16: save it as UTF-8
  mica: standard input is UTF-16: save it as UTF-8
  [1]
