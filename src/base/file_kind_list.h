/* The kinds of files that are read whole, what they are called, and the most bytes that one may
 * have: some ten times what the largest known ones have. A row is FILE_KIND(name, words, bytes). */
FILE_KIND(CONFIG, "a config", 16000000)              /* config.json, adapter_config.json ... */
FILE_KIND(CHAT_TEMPLATE, "a chat template", 4000000) /* chat_template.jinja, .json */
FILE_KIND(TOKENIZER_CONFIG, "a tokenizer's config", 32000000)
FILE_KIND(TOKENIZER, "a tokenizer", 256000000)
FILE_KIND(INDEX, "an index of weights", 100000000) /* model.safetensors.index.json */
FILE_KIND(WEIGHTS, "a file of weights", SIZE_MAX)  /* as large as they are */
FILE_KIND(SESSION, "a session", SIZE_MAX)          /* its own header says how large it may be */
