#include "chat.h"

#include "alias.h"
#include "path.h"
#include "print.h"
#include "report.h"
#include "verb.h"

#include <string.h>

/* Settings: the numbers at the beginning of the answer's options, then these options of the answer
 * and the conversation. The system prompt is set as a message, not as an option. */
static const char *const of_answer[] = {"stop", "ignore-eos", "verbose", "quiet", "wrap"};
static const char *const of_talk[] = {"think"};
enum { SETTINGS = CLI_ANSWER_SETTABLE + CLI_COUNT(of_answer) + CLI_COUNT(of_talk) };

static const cli_option *find_option(const cli_option *table, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0) return &table[i];
    return NULL;
}

/* The i-th setting, i < SETTINGS. */
static const cli_option *setting_at(size_t i) {
    if (i < CLI_ANSWER_SETTABLE) return &cli_answer_options[i];
    i -= CLI_ANSWER_SETTABLE;
    if (i < CLI_COUNT(of_answer))
        return find_option(cli_answer_options, CLI_ANSWER_OPTIONS, of_answer[i]);
    return find_option(cli_talk_options, CLI_TALK_OPTIONS, of_talk[i - CLI_COUNT(of_answer)]);
}

/* The struct that holds a setting. */
static void *base_of(cli_chat *c, size_t i) {
    bool of_the_answer = i < CLI_ANSWER_SETTABLE + CLI_COUNT(of_answer);
    return of_the_answer ? (void *)&c->values : (void *)&c->talk;
}

const char *cli_chat_setting_name(size_t i) {
    if (i < SETTINGS) return setting_at(i)->name;
    return i == SETTINGS ? "system" : NULL;
}

static void print_settings(cli_chat *c) {
    const char *system = cli_conversation_system(&c->conversation);
    for (size_t i = 0; i < SETTINGS; i++) {
        cli_print(stderr, "%-18s  ", setting_at(i)->name);
        cli_option_print(setting_at(i), base_of(c, i), stderr);
        fputc('\n', stderr);
    }
    cli_print(stderr, "%-18s  %s\n", "system", system ? system : "");
}

static bool tell_unknown(const char *name) {
    const char *names[SETTINGS + 1];
    char room[CLI_ALIAS_OPTION];
    if (strcmp(cli_alias_option(name, room), "context") == 0) {
        cli_fail("the context is set when the model is opened: mica chat --context N");
        return false;
    }
    for (size_t i = 0; i < CLI_COUNT(names); i++)
        names[i] = cli_chat_setting_name(i);
    const char *nearest = cli_nearest(name, names, CLI_COUNT(names));
    cli_fail("there is no '%s' to set%s%s%s", name, nearest ? "; did you mean '" : "",
             nearest ? nearest : "", nearest ? "'?" : "");
    return false;
}

/* Sets an option in `base`. A flag needs no value. Texts are added to a list, and an empty text
 * empties the list. */
static bool store(const cli_option *option, const char *value, void *base) {
    char why[160];
    if (!cli_option_takes_value(option) && !*value) value = "on";
    if (option->kind == CLI_TEXTS) {
        cli_texts *texts = (cli_texts *)(void *)((char *)base + option->offset);
        if (!*value) texts->count = 0;
        if (!*value) return true;
        value = cli_path_keep(value); /* the line is overwritten */
        if (!value) return false;
    }
    bool stored = cli_option_store(option, value, base, why, sizeof why);
    if (!stored) cli_fail("%s: %s", option->name, why);
    return stored;
}

/* Index of a setting by mica's or another program's name; SETTINGS if there is none. */
static size_t place_of(const char *name) {
    char room[CLI_ALIAS_OPTION];
    const char *option = cli_alias_option(name, room);
    size_t i = 0;
    while (i < SETTINGS && strcmp(setting_at(i)->name, option) != 0)
        i++;
    return i;
}

/* Index of a flag whose name has "no" before it: nothink, no-think; SETTINGS if there is none. */
static size_t place_of_no(const char *name) {
    if (strncmp(name, "no", 2) != 0) return SETTINGS;
    size_t at = place_of(name + 2 + (name[2] == '-'));
    return at < SETTINGS && !cli_option_takes_value(setting_at(at)) ? at : SETTINGS;
}

static bool set(cli_chat *c, const char *name, const char *value) {
    const cli_answer_values answer = c->values;
    const cli_talk_values talk = c->talk;
    if (strcmp(name, "system") == 0) return cli_conversation_set_system(&c->conversation, value);
    size_t at = place_of_no(name);
    if (at < SETTINGS)
        value = "off";
    else
        at = place_of(name);
    if (at == SETTINGS) return tell_unknown(name);
    if (store(setting_at(at), value, base_of(c, at)) &&
        cli_talk_variables(&c->talk, "chat", &c->variables) == CLI_DONE)
        return true;
    c->values = answer;
    c->talk = talk;
    return false;
}

/* Splits off the first word of a text. */
static char *split(char **rest) {
    char *word = *rest, *end = word + strcspn(word, " \t\n");
    if (*end) *end++ = '\0';
    *rest = end + strspn(end, " \t\n");
    return word;
}

bool cli_chat_set(cli_chat *c, char *rest) {
    char *name = split(&rest);
    if (strcmp(name, "parameter") == 0) name = split(&rest); /* ollama's form */
    if (!*name) {
        print_settings(c);
        return true;
    }
    return set(c, name, rest);
}
