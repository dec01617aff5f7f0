/* Prints the endpoints and their fields as Markdown, from the tables that the server reads requests
 * by: the part of docs/serve.md that tools/check_serve_docs compares. */
#include "serve/http/endpoint.h"

#include <stdio.h>
#include <string.h>

enum { COLUMNS = 100 };

/* Prints a paragraph, broken between words; further lines begin with two blanks. */
static void print_wrapped(const char *text) {
    size_t column = 0;
    while (*text) {
        size_t len = strcspn(text, " ");
        if (column > 0 && column + 1 + len > COLUMNS) {
            printf("\n ");
            column = 1;
        }
        column += (size_t)printf("%s%.*s", column ? " " : "", (int)len, text);
        text += len + strspn(text + len, " ");
    }
    printf("\n");
}

/* ", X by default"; nothing where a field has no default. */
static void format_initial(const mc_field *field, char *out, size_t bytes) {
    size_t index = 0;
    out[0] = '\0';
    switch (field->kind) {
    case MC_FIELD_BOOL:
        snprintf(out, bytes, ", %s by default", field->initial != 0 ? "true" : "false");
        break;
    case MC_FIELD_INT:
    case MC_FIELD_REAL: /* what no request may say stands for a field that is not given */
        if (field->initial >= field->min && field->initial < 1e9)
            snprintf(out, bytes, ", %g by default", field->initial);
        break;
    case MC_FIELD_CHOICE:
        for (const char *at = field->choices; *at; index++) {
            size_t len = strcspn(at, " ");
            if (index == (size_t)field->initial)
                snprintf(out, bytes, ", %.*s by default", (int)len, at);
            at += len + strspn(at + len, " ");
        }
        break;
    default:
        break;
    }
}

static void print_fields(const mc_field *fields, size_t count, const char *prefix) {
    for (size_t i = 0; i < count; i++) {
        const mc_field *at = &fields[i];
        char type[160], initial[80], inner[160], text[2048];
        mc_field_type(at, type, sizeof type);
        format_initial(at, initial, sizeof initial);
        const char *help = at->help;
        snprintf(text, sizeof text, "* `%s%s` (%s%s%s)%s%s", prefix, at->name, type,
                 at->required ? ", required" : "", initial, help ? ": " : "", help ? help : "");
        print_wrapped(text);
        snprintf(inner, sizeof inner, "%s%s.", prefix, at->name);
        if (at->kind == MC_FIELD_OBJECT) print_fields(at->fields, at->count, inner);
    }
}

static void print_list(const mc_endpoint_list *list) {
    char text[2048];
    printf("\n### %s\n", list->title);
    for (size_t i = 0; i < list->count; i++) {
        const mc_endpoint *at = &list->endpoints[i];
        snprintf(text, sizeof text, "**%s %s**: %s.", at->method, at->path, at->help);
        printf("\n");
        print_wrapped(text);
        if (at->tables[0].fields) printf("\n");
        for (size_t t = 0; t < MC_FIELD_TABLES && at->tables[t].fields; t++)
            print_fields(at->tables[t].fields, at->tables[t].count, "");
    }
}

int main(void) {
    const mc_endpoint_list *list;
    for (size_t i = 0; (list = mc_endpoint_list_at(i)); i++)
        print_list(list);
    return 0;
}
