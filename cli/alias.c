#include "alias.h"

#include "cli.h"

#include <stdio.h>
#include <string.h>

static const cli_alias aliases[] = {
#define ALIAS(name, option, values) {name, option, values},
#include "alias_list.h"
#undef ALIAS
};

_Static_assert(CLI_COUNT(aliases) <= CLI_MAX_ALIASES, "CLI_MAX_ALIASES is too small");

static const cli_other others[] = {
#define ELSEWHERE(names, advice) {names, advice, CLI_OTHER_REFUSED},
#define LEFT_OUT(value, names, why) {names, why, CLI_OTHER_VALUE_##value},
#include "elsewhere_list.h"
#undef LEFT_OUT
#undef ELSEWHERE
};

const cli_alias *cli_alias_at(size_t i) {
    return i < CLI_COUNT(aliases) ? &aliases[i] : NULL;
}

bool cli_alias_is_last(size_t i) {
    return i + 1 == CLI_COUNT(aliases) || strcmp(aliases[i].option, aliases[i + 1].option) != 0;
}

const cli_alias *cli_alias_find(const char *name) {
    for (size_t i = 0; i < CLI_COUNT(aliases); i++)
        if (strcmp(aliases[i].name, name) == 0) return &aliases[i];
    return NULL;
}

const char *cli_alias_option(const char *name, char out[CLI_ALIAS_OPTION]) {
    snprintf(out, CLI_ALIAS_OPTION, "--%s", name);
    for (char *at = out; (at = strchr(at, '_'));)
        *at = '-';
    const cli_alias *alias = cli_alias_find(out);
    return alias ? alias->option : out + strlen("--");
}

const char *cli_alias_value(const cli_alias *alias, const char *value, char *room,
                            size_t room_bytes) {
    size_t len = strlen(value);
    const char *pair = alias->values;
    if (!pair) return value;
    while (*pair) {
        size_t pair_len = strcspn(pair, " ");
        if (pair_len > len && strncmp(pair, value, len) == 0 && pair[len] == '=') {
            snprintf(room, room_bytes, "%.*s", (int)(pair_len - len - 1), pair + len + 1);
            return room;
        }
        pair += pair_len;
        pair += strspn(pair, " ");
    }
    return NULL;
}

bool cli_alias_takes_value(const cli_alias *alias) {
    return alias && alias->values && strncmp(alias->values, "on=off", 7) != 0;
}

/* Whether a list, separated by blanks, contains a name. */
static bool lists(const char *names, const char *name) {
    size_t len = strlen(name);
    while (*names) {
        size_t here = strcspn(names, " ");
        bool begins = names[here - 1] == '*' && strncmp(names, name, here - 1) == 0;
        if (begins || (here == len && strncmp(names, name, len) == 0)) return true;
        names += here;
        names += strspn(names, " ");
    }
    return false;
}

void cli_alias_values(const cli_alias *alias, char *out, size_t out_bytes) {
    size_t n = 0;
    bool ours = false; /* between = and a blank: mica's own value */
    for (const char *at = alias->values; *at && n + 1 < out_bytes; at++) {
        ours = *at == '=' || (ours && *at != ' ');
        if (!ours) out[n++] = *at;
    }
    out[n] = '\0';
}

static const cli_other *find_other(const char *name) {
    for (size_t i = 0; i < CLI_COUNT(others); i++)
        if (lists(others[i].names, name)) return &others[i];
    return NULL;
}

const cli_other *cli_other_find(const char *name) {
    char positive[CLI_ALIAS_OPTION];
    const cli_other *other = find_other(name);
    if (other || strncmp(name, "--no-", 5) != 0) return other;
    snprintf(positive, sizeof positive, "--%s", name + 5);
    return find_other(positive);
}

bool cli_other_takes(const cli_other *other, const char *next) {
    static const char *const words[] = {"on",   "off",   "auto", "always", "never",
                                        "true", "false", "0",    "1"};
    if (other->kind != CLI_OTHER_VALUE_MAY || !next) return other->kind == CLI_OTHER_VALUE_YES;
    for (size_t i = 0; i < CLI_COUNT(words); i++)
        if (strcmp(next, words[i]) == 0) return true;
    return false;
}
