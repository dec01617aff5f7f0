#define _POSIX_C_SOURCE 200809L
#include "serve_keys.h"

#include "cli.h"
#include "report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add(cli_keys *keys, const char *text, size_t len) {
    char **more = realloc(keys->texts, (keys->count + 1) * sizeof *more);
    if (more) keys->texts = more;
    char *copy = more ? strndup(text, len) : NULL;
    if (!copy) return cli_fail("out of memory");
    keys->texts[keys->count++] = copy;
    return CLI_DONE;
}

static int read_file(const char *path, cli_keys *keys) {
    size_t before = keys->count;
    FILE *file = fopen(path, "r");
    if (!file) return cli_fail("cannot read %s: %s", path, strerror(errno));
    char *line = NULL;
    size_t room = 0;
    int code = CLI_DONE;
    for (size_t number = 1; code == CLI_DONE && getline(&line, &room, file) >= 0; number++) {
        static const char blanks[] = " \t\r\n";
        const char *text = line + strspn(line, blanks);
        size_t len = strcspn(text, blanks);
        if (len == 0 || *text == '#') continue;
        if (text[len + strspn(text + len, blanks)])
            code =
                cli_fail("%s, line %zu: want one key a line, without blanks in it", path, number);
        else
            code = add(keys, text, len);
    }
    if (code == CLI_DONE && ferror(file)) code = cli_fail("cannot read %s", path);
    free(line);
    fclose(file);
    if (code == CLI_DONE && keys->count == before) code = cli_fail("%s holds no key", path);
    return code;
}

int cli_keys_read(const char *key, const char *file, cli_keys *keys) {
    int code = key ? add(keys, key, strlen(key)) : CLI_DONE;
    if (code == CLI_DONE && file) code = read_file(file, keys);
    if (code != CLI_DONE) cli_keys_free(keys);
    return code;
}

void cli_keys_free(cli_keys *keys) {
    for (size_t i = 0; i < keys->count; i++)
        free(keys->texts[i]);
    free(keys->texts);
    *keys = (cli_keys){0};
}
