/* The kinds of files that are read whole. A row is FILE_KIND(name, words, max_bytes): what error
 * texts call it, and its maximum size, about ten times that of the largest known files. */
FILE_KIND(CONFIG, "a config", 16000000)              /* config.json, adapter_config.json ... */
FILE_KIND(CHAT_TEMPLATE, "a chat template", 4000000) /* chat_template.jinja, .json */
FILE_KIND(TOKENIZER_CONFIG, "a tokenizer's config", 32000000)
FILE_KIND(TOKENIZER, "a tokenizer", 256000000)
FILE_KIND(INDEX, "an index of weights", 100000000)  /* model.safetensors.index.json */
FILE_KIND(WEIGHTS, "a file of weights", SIZE_MAX)   /* no limit */
FILE_KIND(SESSION, "a session", SIZE_MAX)           /* its header limits its size */
FILE_KIND(PREFIXES, "a file of prefixes", SIZE_MAX) /* as a session */
FILE_KIND(PROGRAM, "a program", SIZE_MAX)           /* its header, too */
FILE_KIND(ONNX, "an ONNX file", INT32_MAX)          /* as protobuf limits it */
FILE_KIND(CALIBRATION, "measured rates", 1000000)
FILE_KIND(CERTIFICATE, "a certificate", 4000000) /* a chain of them, or a key, for TLS */
