What mica serve refuses before it loads a model.

  $ mica serve --host 0.0.0.0 --port 0 2>&1 | sed 's/:[0-9]* is/:PORT is/'
  mica: 0.0.0.0:PORT is reached by other machines: give a key that requests must have, or insist that none is needed (insecure)
  --api-key-file FILE gives keys; --insecure does without.
  $ mica serve --host 0.0.0.0 --api-key-file nothing 2>&1
  mica: cannot read nothing: No such file or directory
  [1]
  $ : > empty; mica serve --api-key-file empty 2>&1
  mica: empty holds no key
  [1]
  $ mica serve --host unix: 2>&1
  mica: unix:: want a path of 1 to 107 bytes
  [1]
  $ mica serve --port 0 --tls-cert cert.pem 2>&1
  mica: TLS needs both a certificate and its key
  [1]
  $ mica serve --port 0 --tls-cert cert.pem --tls-key key.pem 2>&1
  mica: cert.pem: No such file or directory
  [1]
  $ mica serve --port 65536 2>&1 | head -1
  mica: --port: 65536 is more than 65535

A model that does not load ends it.

  $ mica serve --port 0 nowhere/model 2>&1 | head -1
  mica: there is no model nowhere/model: there is no such folder, and the Hugging Face cache has no model of that name
