/* The kinds of texts that are read whole, what they are called, and the most bytes that one may
 * have. A row is TEXT_KIND(name, words, bytes). */
TEXT_KIND(PROMPT, "a prompt", 64000000) /* and a line of several prompts or texts */
TEXT_KIND(LONG, "a text", 256000000)    /* that is scored or tokenized */
TEXT_KIND(CONVERSATION, "a conversation", 64000000)
TEXT_KIND(LABELS, "a list of labels", 16000000)
TEXT_KIND(LINES, "a file of prompts or texts", 1000000000)
TEXT_KIND(ANSWERS, "a file of answers", 16000000000)
TEXT_KIND(TEMPLATE, "a chat template", 4000000)
TEXT_KIND(GRAMMAR, "a schema or grammar", 4000000)
TEXT_KIND(CONFIG, "a config", 4000000)
TEXT_KIND(KEYS, "a file of keys", 1000000)
