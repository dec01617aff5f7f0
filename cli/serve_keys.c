#define _POSIX_C_SOURCE 200809L
#include "serve_keys.h"

#include "cli.h"
#include "report.h"
#include "text.h"

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

/* Takes the keys of a text, one a line. */
static int add_lines(const char *path, const char *text, cli_keys *keys) {
    static const char blanks[] = " \t\r\n";
    for (size_t number = 1; *text; number++) {
        size_t line_len = strcspn(text, "\n");
        const char *next = text + line_len + (text[line_len] != '\0');
        text += strspn(text, " \t\r");
        size_t len = strcspn(text, blanks);
        const char *rest = text + len + strspn(text + len, " \t\r");
        bool key = len > 0 && *text != '#';
        if (key && *rest && *rest != '\n')
            return cli_fail("%s, line %zu: want one key a line, without blanks in it", path,
                            number);
        if (key && add(keys, text, len) != CLI_DONE) return CLI_FAILED;
        text = next;
    }
    return CLI_DONE;
}

static int read_file(const char *path, cli_keys *keys) {
    size_t before = keys->count;
    cli_text text = {0};
    int code = CLI_FAILED;
    if (cli_text_read_file(&text, CLI_TEXT_OF_KEYS, path) && cli_text_check(&text, path))
        code = add_lines(path, text.data, keys);
    free(text.data);
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
