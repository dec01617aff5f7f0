An answer keeps to a schema, to a regular expression, to a grammar or to one of some texts, which are
read here by other programs.

  $ cat > schema << 'END'
  > {"type": "object", "properties": {"tool": {"enum": ["curl", "vim"]}, "year": {"type": "integer",
  >  "minimum": 1900, "maximum": 2100}}, "required": ["tool", "year"]}
  > END
  > good='^\{[[:space:]]*"tool":[[:space:]]*"(curl|vim)",[[:space:]]*"year":[[:space:]]*(19[0-9][0-9]|20[0-9][0-9]|2100)[[:space:]]*\}$'
  > flat() { tr -s ' \n' ' ' | sed 's/ $//'; echo; }
  > mica run "What is curl?" -q --json-schema-file schema | flat | grep -cE "$good"
  > for seed in 1 2 3; do mica run "What is curl?" -q --json-schema "$(cat schema)" -T 2 -s $seed | flat | grep -cE "$good"; done
  > mica run "What is curl?" -q --json-object -n 40 > a; head -1 a | cut -c 1
  1
  1
  1
  1
  {
  $ mica generate "curl is" -q --regex '[A-Z]{2}-[0-9]{3}' -T 2 | grep -cxE '[A-Z]{2}-[0-9]{3}'
  > mica run "Is vim an editor?" -q -T 2 --choice yes --choice "I think so" | grep -cxF -e yes -e "I think so"
  > mica run -p Count -q -T 2 --grammar 'root ::= ("1" | "2"){3}' | grep -cxE '[12]{3}'
  > printf 'start: D ~ 2..4\nD: "3".."5"\n' > grammar
  > mica run -p Count -q -T 2 --grammar-file grammar | grep -cxE '[3-5]{2,4}'
  > printf 'Count\nAgain\n' | mica chat -q --choice one
  1
  1
  1
  1
  one
  one

What is wrong with one is told, with its place, before anything is computed.

  $ mica run x --json-schema '{"properties": {"a": {"$dynamicRef": "#"}}}' 2>&1
  > mica run x --regex '(' 2>&1; mica run x --grammar 'root ::= a' 2>&1
  > mica run x --json-schema '{"type": ' 2>&1 | sed 's/\(constraint: schema:\).*/\1 .../'
  > mica run x --grammar-file nowhere 2>&1; printf 'root ::= "a"\0' > nul
  > mica run x --grammar-file nul 2>&1; mica chat --regex a --choice b < /dev/null 2>&1
  mica: constraint: schema/properties/a/$dynamicRef: not supported
  mica: constraint: a group without its ) at byte 1
  mica: constraint: grammar, line 1: a is not defined
  mica: constraint: schema: ...
  mica: cannot read nowhere: No such file or directory
  mica: nul holds a NUL byte
  mica: two constraints: --regex and --choice
  Try: mica help chat
  [2]

Standard input has a schema or a grammar, or the prompts.

  $ echo '{"const": false}' | mica run x -q --json-schema-file -
  > echo '{"prompt": "a"}' > in; mica batch -q in --grammar-file - < grammar | grep -cE '"[3-5]{2,4}"'
  > mica batch --json-schema-file - < in 2>&1; mica batch - --grammar-file - < in 2>&1
  > mica run --json-schema-file - < schema 2>&1; mica generate -f - --grammar-file - < grammar 2>&1
  > mica chat --json-schema-file - < schema 2>&1
  false
  1
  mica: standard input has the prompts, not the file of --json-schema-file
  Try: mica help batch
  mica: standard input has the prompts, not the file of --grammar-file
  Try: mica help batch
  mica: standard input has the prompt, not the file of --json-schema-file
  Try: mica help run
  mica: standard input has the prompt, not the file of --grammar-file
  Try: mica help generate
  mica: standard input has the messages, not the file of --json-schema-file
  Try: mica help chat
  [2]

The lines of a batch have constraints of their own, instead of that of the command line; a schema may be
JSON within the line, or its text.

  $ cat > in << 'END'
  > {"prompt": "a", "json_schema": {"anyOf": [{"const": "a \" b", "title": null}, {"enum": [-1.5e0], "required": []}, false]}}
  > {"prompt": "a", "json_schema": "{\"const\": false}"}
  > {"prompt": "a", "json_schema": false}
  > {"prompt": "a", "choice": "one"}
  > {"prompt": "a", "choice": ["two"]}
  > {"prompt": "a", "json_object": false}
  > {"prompt": "a", "regex": "b{3}", "stop": ["c"]}
  > {"prompt": "a", "grammar": "root ::= \"g\""}
  > {"prompt": "a", "regex": "a", "grammar": "root ::= \"g\""}
  > {"prompt": "a", "regex": "("}
  > {"prompt": "a", "regex": ["a"]}
  > {"prompt": "a", "json_schema_file": "schema"}
  > END
  > mica batch -q in --choice all 2> /dev/null | sort | cut -d , -f 1-4
  {"id": 1, "text": "-1.5", "finish": "stop", "prompt_tokens": 2
  {"id": 10, "error": "constraint: a group without its ) at byte 1"}
  {"id": 11, "error": "\"regex\" has a value of another kind"}
  {"id": 12, "error": "there is no option \"json_schema_file\""}
  {"id": 2, "text": "false", "finish": "stop", "prompt_tokens": 2
  {"id": 3, "error": "constraint: nothing satisfies it, or nothing that nests less than 128 deep"}
  {"id": 4, "text": "one", "finish": "stop", "prompt_tokens": 2
  {"id": 5, "text": "two", "finish": "stop", "prompt_tokens": 2
  {"id": 6, "text": "all", "finish": "stop", "prompt_tokens": 2
  {"id": 7, "text": "bbb", "finish": "stop", "prompt_tokens": 2
  {"id": 8, "text": "g", "finish": "stop", "prompt_tokens": 2
  {"id": 9, "error": "two constraints: regex and grammar"}

Texts to choose from are up to 256 in a line, and 64 on the command line. None is no choice, where a
stop of none is none.

  $ list() { seq -f '"%g"' $1 $2 | paste -sd , -; }
  > for values in "$(list 100 355)" "$(list 100 356)" '' '""' 'true'; do
  >   echo "{\"prompt\": \"a\", \"choice\": [$values], \"stop\": []}"
  > done > in; echo '{"prompt": "a", "choice": {}}' >> in
  > mica batch -q in --choice all 2> /dev/null | sort | cut -d , -f 1-2 | sed 's/[1-3][0-9][0-9]"/N"/'
  > mica generate x $(seq -f '--choice %g' 65) 2>&1
  {"id": 1, "text": "N"
  {"id": 2, "error": "constraint: choice: want an array of 1 to 256 texts"}
  {"id": 3, "error": "constraint: choice: want an array of 1 to 256 texts"}
  {"id": 4, "error": "constraint: choice: want texts that are not empty"}
  {"id": 5, "error": "constraint: choice: want texts that are not empty"}
  {"id": 6, "error": "constraint: choice: want an array of 1 to 256 texts"}
  mica: --choice: given more than 64 times
  Try: mica help generate
  [2]
