A server with TLS is asked like any other; its certificate must be trusted, and name the server,
unless the user insists.

Needs openssl.

  $ openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 \
  >   -subj /CN=localhost -addext subjectAltName=DNS:localhost 2> none
  > echo sesame > keys
  > mica serve model --port 0 --tls-cert cert.pem --tls-key key.pem --api-key-file keys 2> said &
  > server=$!
  > until grep -q curl said || ! kill -0 $server; do :; done
  > sed -n '1s|.*https://127.0.0.1:||p' said > port
  > export MICA_HOST=https://localhost MICA_PORT=$(cat port)
  > mica ps --cacert cert.pem --api-key-file keys
  > mica ps --host https://127.0.0.1:$MICA_PORT --insecure --api-key sesame --json | grep -o '"name":"[^"]*"'
  > MICA_CACERT=cert.pem mica stop model --api-key sesame 2>&1
  > mica ps --cacert cert.pem 2>&1
  > mica ps --api-key sesame 2>&1 | sed '1s|:[0-9]*: .*|:PORT: (why)|'
  > mica ps --host https://127.0.0.1 --cacert cert.pem 2>&1 | sed '1s|:[0-9]*: .*|:PORT: (why)|'
  > mica ps --host 127.0.0.1 2>&1 | sed '1s|:[0-9]*: .*|:PORT: (why)|'
  > kill $server; wait $server
  > mica ps 2>&1 | sed '1s|:[0-9]*: .*|:PORT: (why)|'
  name   weights  context  until
  model  12.8 MB  2048     it is stopped
  "name":"model"
  stopped model
  mica: the request has no valid key: want Authorization: Bearer KEY
  --api-key-file FILE and MICA_API_KEY give the key.
  mica: https://localhost:PORT: (why)
  --cacert FILE trusts the certificates of FILE; --insecure trusts any.
  mica: https://127.0.0.1:PORT: (why)
  --cacert FILE trusts the certificates of FILE; --insecure trusts any.
  mica: http://127.0.0.1:PORT: (why)
  mica: no server answers at https://localhost:PORT: (why)
  mica serve starts one; --host and --port say where it is.
