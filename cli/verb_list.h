/* VERB(name, group, summary): the verbs in the order `mica help` lists them, those of a group under
 * its heading. Each is a file, <name>.c, which defines cli_verb_<name> (verb.h). */
VERB(chat, "Talk", "talk with a model")
VERB(run, "Talk", "one answer to one prompt")
VERB(generate, "Talk", "continue a raw text, without a chat format")
VERB(list, "Models", "the models of this machine")
VERB(show, "Models", "what a model is, the memory it needs, and whether that fits")
VERB(tokenize, "Models", "text to token ids, and back")
VERB(bench, "This machine", "measure prefill and decode rates")
VERB(devices, "This machine", "the devices that models can run on")
VERB(completions, "This command", "what makes a shell complete its arguments")
VERB(man, "This command", "its manual pages")
VERB(version, "This command", "the version, and what was compiled in")
