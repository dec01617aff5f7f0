What mica serve refuses before it loads a model.

  $ mica serve --host 0.0.0.0 --port 0 2>&1 | sed 's/:[0-9]* is/:PORT is/'
  mica: 0.0.0.0:PORT is reached by other machines: give a key that requests must have, or insist that none is needed (insecure)
  --api-key-file FILE or MICA_API_KEY gives keys; --insecure does without.
  $ mica serve --host 0.0.0.0 --api-key-file nothing 2>&1
  mica: cannot read nothing: No such file or directory
  [1]
  $ : > empty; mica serve --api-key-file empty 2>&1
  mica: empty holds no key
  [1]
  $ printf '# production keys\n\n' > comments; mica serve --api-key-file comments 2>&1
  mica: comments holds no key
  [1]
  $ printf 'one\n  two of them\n' > words; mica serve --api-key-file words 2>&1
  mica: words, line 2: want one key a line, without blanks in it
  [1]
  $ mica serve --host unix: 2>&1
  mica: unix:: want a path of 1 to 107 bytes
  [1]
  $ mica serve --port 0 --tls-cert cert.pem 2>&1
  mica: TLS needs both a certificate and its key
  --tls-cert FILE --tls-key FILE: both in PEM.
  [1]
  $ echo cert > a.pem; echo key > b.pem; mica serve --port 0 --tls-cert a.pem --tls-key b.pem 2>&1
  mica: a.pem and b.pem: not a certificate and its private key, in PEM without a password
  [1]
  $ mica serve --port 0 --tls-cert cert.pem --tls-key key.pem 2>&1
  mica: cert.pem: No such file or directory
  [1]
  $ : > empty.pem; for pair in 'empty.pem empty.pem' 'empty.pem b.pem' 'a.pem empty.pem' "'' ''"; do
  >   eval "set -- $pair"; mica serve --port 0 --tls-cert "$1" --tls-key "$2" 2>&1
  > done
  mica: empty.pem is empty: want a certificate in PEM
  mica: empty.pem is empty: want a certificate in PEM
  mica: empty.pem is empty: want its private key in PEM
  mica: TLS: the name of a file is empty
  [1]
  $ mkfifo fifo; for file in /dev/zero fifo .; do
  >   mica serve --port 0 --tls-cert $file --tls-key $file 2>&1 | sed 's/.*: //'
  > done
  is not a regular file
  is not a regular file
  is a folder, not a file
  $ for file in /dev/zero .; do mica serve --port 0 --api-key-file $file 2>&1; done
  mica: /dev/zero is too long: a file of keys has at most 1.0 MB
  mica: cannot read .: Is a directory
  [1]
  $ printf 'a\0b\n' > nul; mica serve --port 0 --api-key-file nul 2>&1
  mica: nul holds a NUL byte
  [1]
  $ echo sesame > fifo & mica serve --port 0 --api-key-file fifo nowhere/model 2>&1 | head -1 | cut -c 1-40
  mica: there is no model nowhere/model: t
  $ mica ps --host https://localhost --cacert /dev/zero 2>&1 | head -1
  mica: https://localhost:8080: /dev/zero: is not a regular file
  $ mica serve --port 65536 2>&1 | head -1
  mica: --port: 65536 is more than 65535

A model that does not load ends it.

  $ mica serve --port 0 nowhere/model 2>&1 | head -1
  mica: there is no model nowhere/model: there is no such folder, and the Hugging Face cache has no model of that name

Where another one listens already, and what to type when it is up: with a key if it wants one.

  $ MICA_API_KEY=k mica serve model --port 0 2> said & server=$!
  > until grep -q curl said || ! kill -0 $server; do :; done; port=$(sed -n '1s/.*://p' said)
  > sed "s/:$port/:PORT/g; s/ -d .*//" said; mica serve --port $port 2>&1 | sed "s/:$port/:PORT/"
  > MICA_API_KEY=k mica ps --port $port; kill $server; wait $server
  > mica serve model --host unix:s --api-key k 2> said2 & server=$!
  > until grep -q curl said2 || ! kill -0 $server; do :; done; sed 's/ -d .*//' said2
  > mica serve --host unix:s 2>&1; kill $server; wait $server
  mica: serving model at http://127.0.0.1:PORT
    A browser shows a page to talk on there. To ask by hand:
    curl -H "Authorization: Bearer $MICA_API_KEY" http://127.0.0.1:PORT/v1/chat/completions
  mica: cannot listen at 127.0.0.1:PORT: Address already in use
  --port N listens at another port, --port 0 at one that is free; if mica listens there, mica ps shows what it serves.
  name   weights  context  until
  model  12.8 MB  2048     it is stopped
  mica: serving model at unix:s
    curl --unix-socket s -H "Authorization: Bearer KEY" http://localhost/v1/chat/completions
  mica: cannot listen at unix:s: Address already in use
  A program listens there, or it is no socket; if that is mica, mica ps shows what it serves.

A port may stand behind the address, as in what mica ps is told by the same variable.

  $ for host in 127.0.0.1:0 http://127.0.0.1:0/ localhost:0; do
  >   mica serve --host $host --port 0 --tls-cert none --tls-key none 2>&1
  > done
  mica: none: No such file or directory
  mica: none: No such file or directory
  mica: none: No such file or directory
  [1]
  $ for host in : '' 127.0.0.1: 127.0.0.1:80x 127.0.0.1:99999 '[::1' 1.2.3.4:123456 a/b https://a; do
  >   mica serve --host "$host" --insecure 2>&1 | head -1
  > done
  mica: --host: ':' is no address
  mica: --host: '' is no address
  mica: --host: '127.0.0.1:' is no address
  mica: --host: '127.0.0.1:80x' is no address
  mica: port 99999: want 0 to 65535
  mica: --host: '[::1' is no address
  mica: --host: '1.2.3.4:123456' is no address
  mica: --host: 'a/b' is no address
  mica: --host: 'https://a' is no address
  $ mica serve model --host 127.0.0.1:0 --port 1 2> said3 & server=$!
  > until grep -q curl said3 || ! kill -0 $server; do :; done; head -1 said3 | sed 's/[0-9]*$/PORT/'
  > MICA_HOST=$(sed -n '1s/.*at //p' said3) mica ps; kill $server; wait $server
  mica: serving model at http://127.0.0.1:PORT
  name   weights  context  until
  model  12.8 MB  2048     it is stopped

SIGHUP drains it as SIGTERM does, unless it is to be ignored.

  $ for signal in HUP TERM; do
  >   rm -f said4; pty --hangup mica serve model --port 0 2> said4 & server=$!
  >   until grep -q curl said4 || ! kill -0 $server; do :; done
  >   kill -$signal $server; wait $server; echo $?
  > done; (trap '' HUP; exec mica serve model --port 0) 2> said5 & server=$!
  > until grep -q curl said5 || ! kill -0 $server; do :; done
  > kill -HUP $server; kill -HUP $server; kill -HUP $server; mica ps --port $(sed -n '1s/.*://p' said5)
  > kill $server; wait $server; echo $?
  0
  0
  name   weights  context  until
  model  12.8 MB  2048     it is stopped
  0

What other servers call an option is taken, or told where it is.

  $ for option in --ssl-certfile --ssl-cert-file; do mica serve --port 0 $option none 2>&1; done
  mica: TLS needs both a certificate and its key
  --tls-cert FILE --tls-key FILE: both in PEM.
  mica: TLS needs both a certificate and its key
  --tls-cert FILE --tls-key FILE: both in PEM.
  [1]
  $ for option in --parallel --max-num-seqs -np --alias --max-model-len; do mica serve $option 2>&1 | head -1; done
  mica: --parallel needs a value: --parallel N
  mica: --max-num-seqs needs a value: --max-num-seqs N
  mica: -np needs a value: -np N
  mica: --alias needs a value: --alias NAME
  mica: --max-model-len needs a value: --max-model-len N
  $ for option in --temp -n --top-k; do mica serve $option 1 2>&1 | head -1; done
  mica: serve has no option --temp; requests have it: "temperature"
  mica: serve has no option -n; requests have it: "max_tokens"
  mica: serve has no option --top-k; requests have it: "top_k"
  $ mica serve --uds x 2>&1
  mica: serve has no option --uds; did you mean --host unix:PATH?
  Try: mica help serve
  [2]
