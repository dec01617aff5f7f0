A running server says which models it has in memory, and unloads them. It finds models where
mica list does, and listens and is found where MICA_HOST says.

  $ mkdir models; ln -s $ROOT/tests/fixtures/models/qwen3_tied models/tiny
  > export MICA_MODELS=$PWD/models MICA_HOST=unix:$PWD/s
  > mica serve model tiny --adapter lora=$ROOT/tests/fixtures/lora/mlx_qwen3 2> said & server=$!
  > until grep -q curl said || ! kill -0 $server; do :; done; head -1 said | sed "s|$PWD|...|"
  > mica ps
  > mica ps --json | grep -o '"name":"[^"]*"'
  > mica stop tiny tiny:lora 2>&1
  > mica ps
  > mica stop --quiet model && mica ps 2>&1
  > mica stop nothing 2>&1 | sed 's|; .v1.models .*||'
  > kill $server; wait $server
  > mica ps 2>&1 | sed "s|$PWD|...|; s|: No such.*|: ...|"
  mica: serving model, tiny at unix:.../s
  name   weights   context  until
  model  12.8 MB   2048     it is stopped
  tiny   199.1 kB  40960    it is stopped
  "name":"model"
  "name":"tiny"
  stopped tiny
  stopped tiny:lora
  name   weights  context  until
  model  12.8 MB  2048     it is stopped
  The server has no model in memory.
  mica: there is no model nothing
  mica: no server answers at unix:.../s: ...
  mica serve starts one; --host and --port say where it is.

What is no server, and no address.

  $ mica ps --host ftp://example.org 2>&1
  mica: --host: 'ftp://example.org' has no port behind its colon
  [1]
  $ mica ps --host 127.0.0.1:http 2>&1
  mica: --host: '127.0.0.1:http' has no port behind its colon
  [1]
  $ mica ps --host '' 2>&1
  mica: --host: '' is no address
  [1]
  $ mica ps --host 127.0.0.1:1 --api-key-file nothing 2>&1
  mica: cannot read nothing: No such file or directory
  [1]
  $ mica stop 2>&1
  mica: which model? Give a name that mica ps shows
  Try: mica help stop
  [2]

Models and adapters that a server cannot be started with.

  $ mica serve model nowhere/model --port 0 2>&1 | head -1
  mica: there is no model nowhere/model: there is no such folder, and the Hugging Face cache has no model of that name
  $ mica serve model model --port 0 2>&1 | head -1
  mica: a model called model is served already
  $ mica serve model endless --name x --port 0 2>&1 | head -1
  mica: --name x is for one model
  $ mica serve model -a one -a two --port 0 2>&1 | head -1
  mica: two adapters for all models: one and two; give them names, NAME=FOLDER
  $ mica serve model -a x=one -a x=two --port 0 2>&1 | head -1
  mica: two adapters are called x
