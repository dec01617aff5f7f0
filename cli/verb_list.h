/* VERB(name, summary): the verbs in the order `mica help` lists them. Each is a file, <name>.c,
 * which defines cli_verb_<name> (verb.h). */
VERB(chat, "talk with a model")
VERB(run, "one answer to one prompt")
VERB(generate, "continue a raw text, without a chat format")
VERB(show, "what a model is, the memory it needs, and whether that fits")
VERB(tokenize, "text to token ids, and back")
VERB(bench, "measure prefill and decode rates")
VERB(devices, "the devices that models can run on")
VERB(version, "the version, and what was compiled in")
