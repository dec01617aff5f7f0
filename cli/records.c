#define _POSIX_C_SOURCE 200809L
#include "records.h"

#include "report.h"
#include "ui.h"
#include "verb.h"

#include <stdlib.h>
#include <string.h>

int cli_records_open(cli_records *records, const char *verb_name, const char *path) {
    if (!path && cli_stdin_is_terminal()) return cli_usage(verb_name, "%s needs a file", verb_name);
    bool from_stdin = !path || strcmp(path, "-") == 0;
    *records = (cli_records){.name = from_stdin ? "standard input" : path, .number = 1};
    if (!cli_text_read_file(&records->input, CLI_TEXT_OF_LINES, from_stdin ? "-" : path))
        return CLI_FAILED;
    const char *first = records->input.data;
    records->is_json = first[strspn(first, " \t\r\n")] == '{';
    return CLI_DONE;
}

char *cli_records_line(cli_records *records, size_t *len, size_t *line) {
    cli_text *input = &records->input;
    while (records->at < input->len) {
        char *start = input->data + records->at;
        char *feed = memchr(start, '\n', input->len - records->at);
        char *end = feed ? feed : input->data + input->len;
        records->at = (size_t)(end - input->data) + (feed != NULL);
        *line = records->number++;
        if (end > start && end[-1] == '\r') end--;
        *end = '\0';
        *len = (size_t)(end - start);
        if (*len > 0) return start;
    }
    return NULL;
}

void cli_records_complain(const cli_records *records, size_t line, const char *why) {
    cli_fail("%s, line %zu: %s", records->name, line, why);
}

char *cli_records_id(const cli_records *records, const cli_json *json, size_t line) {
    cli_text id = {0};
    char number[CLI_NUMBER];
    const cli_json_node *node = json ? cli_json_find(json, &json->nodes[0], "custom_id") : NULL;
    if (json && !node) node = cli_json_find(json, &json->nodes[0], "id");
    bool made;
    if (!node) {
        int len = snprintf(number, sizeof number, "%zu", line);
        made = cli_text_append(&id, number, (size_t)len);
    } else if (node->kind == CLI_JSON_NUMBER) {
        made = cli_text_append(&id, node->text, strlen(node->text));
    } else if (node->kind == CLI_JSON_STRING) {
        made = cli_text_append_json(&id, node->text, strlen(node->text));
    } else {
        cli_records_complain(records, line, "an id is a text or a number");
        made = false;
    }
    if (made) return id.data;
    free(id.data);
    return NULL;
}

static bool from_json(cli_records *records, const char *data, size_t len, size_t line,
                      cli_record *record) {
    cli_json json = {0};
    const char *why = "it has no \"text\"";
    const cli_json_node *text = NULL;
    if (cli_json_parse(&json, data, len, &why)) text = cli_json_find(&json, &json.nodes[0], "text");
    bool valid = text && text->kind == CLI_JSON_STRING;
    if (valid)
        record->id = cli_records_id(records, &json, line);
    else
        cli_records_complain(records, line, why);
    if (record->id) {
        record->text = strdup(text->text);
        if (!record->text) cli_fail("out of memory");
    }
    cli_json_deinit(&json);
    return record->text != NULL;
}

int cli_records_next(cli_records *records, cli_record *record) {
    size_t len, line;
    *record = (cli_record){0};
    const char *data = cli_records_line(records, &len, &line);
    if (!data) return 0;
    bool made = true;
    if (records->is_json) {
        made = from_json(records, data, len, line, record);
    } else if (strlen(data) < len) {
        cli_records_complain(records, line, "it holds a NUL byte");
        made = false;
    } else if (!cli_text_check_length(len, CLI_TEXT_OF_PROMPT, "a line")) {
        made = false;
    } else {
        record->id = cli_records_id(records, NULL, line);
        record->text = record->id ? strdup(data) : NULL;
        made = record->text != NULL;
    }
    if (made) return 1;
    cli_record_deinit(record);
    return -1;
}

void cli_record_deinit(cli_record *record) {
    free(record->text);
    free(record->id);
    *record = (cli_record){0};
}

void cli_records_close(cli_records *records) {
    free(records->input.data);
    *records = (cli_records){0};
}
