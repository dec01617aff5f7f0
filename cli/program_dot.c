/* A program's text as a graph for Graphviz.
 *
 * The text has a line a node, "%7 = add f32[2,3] %5 %6 ...", four blanks deeper for those of a
 * subgraph, which begins with "body_graph: %0 f32[2] -> %3". Numbers of a subgraph are its own, so
 * a node is called after its graph and its number. */
#define _POSIX_C_SOURCE 200809L
#include "program.h"

#include "dot.h"
#include "print.h"
#include "report.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INDENT = 4, MAX_DEPTH = 40 };

typedef struct graph {
    int id;
    size_t indent;      /* of its own line; its nodes are deeper */
    const char *before; /* the number of the node that it belongs to */
    int before_len;
    const char *ports, *end; /* what follows its name */
} graph;

typedef struct dot {
    FILE *out;
    graph graphs[MAX_DEPTH]; /* those that are open; the first is the program */
    int depth, count;
    const char *node; /* the number of the last node, its digits */
    int node_len;
} dot;

/* ---- texts ---- */

/* Text within quotes. */
static void put_label(FILE *out, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"' || text[i] == '\\') putc('\\', out);
        putc((unsigned char)text[i] < ' ' ? ' ' : text[i], out);
    }
}

/* The digits behind "%"; at receives what follows them. */
static int number(const char **at, const char *end, const char **digits) {
    const char *p = *at;
    *digits = p;
    while (p < end && isdigit((unsigned char)*p))
        p++;
    *at = p;
    return (int)(p - *digits);
}

static void put_node(const dot *d, const graph *g, const char *digits, int n) {
    cli_print(d->out, "g%d_%.*s", g->id, n, digits);
}

/* ---- lines ---- */

/* "param %0 x" and "result %7 y": at the "%". */
static void put_port(dot *d, const char *line, const char *end, bool is_result) {
    const char *digits, *p = line + 1;
    const graph *g = &d->graphs[0];
    int n = number(&p, end, &digits);
    if (p < end) p++; /* the blank */
    cli_print(d->out, "  %s_%.*s_%d [shape=ellipse, style=filled, label=\"",
              is_result ? "result" : "param", n, digits, d->count);
    put_label(d->out, p, (size_t)(end - p));
    fputs("\"];\n  ", d->out);
    if (is_result) {
        put_node(d, g, digits, n);
        cli_print(d->out, " -> result_%.*s_%d;\n", n, digits, d->count++);
    } else {
        cli_print(d->out, "param_%.*s_%d -> ", n, digits, d->count++);
        put_node(d, g, digits, n);
        fputs(";\n", d->out);
    }
}

/* The edges from the operands: all " %N" of a line. */
static void put_edges(dot *d, const graph *g, const char *line, const char *end, const char *to,
                      int to_len) {
    for (const char *p = line; p < end; p++) {
        const char *digits;
        if (*p != '%') continue;
        p++;
        int n = number(&p, end, &digits);
        fputs("  ", d->out);
        put_node(d, g, digits, n);
        fputs(" -> ", d->out);
        put_node(d, g, to, to_len);
        fputs(";\n", d->out);
    }
}

/* "%7 = add f32[2,3] %5 %6 axis=1": the label has all but the operands. */
static void put_line(dot *d, const char *line, const char *end) {
    const char *digits, *p = line + 1;
    const graph *g = &d->graphs[d->depth];
    int n = number(&p, end, &digits);
    const char *words = p + strlen(" = ");
    if (words > end) return;
    fputs("  ", d->out);
    put_node(d, g, digits, n);
    fputs(" [label=\"", d->out);
    for (const char *q = words; q < end;) {
        const char *stop = memchr(q, ' ', (size_t)(end - q));
        if (!stop) stop = end;
        bool operand = *q == '%' || (*q == '-' && stop == q + 1);
        if (!operand && q > words)
            cli_print(d->out, "%s", q == words + strcspn(words, " ") + 1 ? "\\n" : " ");
        if (!operand) put_label(d->out, q, (size_t)(stop - q));
        q = stop < end ? stop + 1 : end;
    }
    fputs("\"];\n", d->out);
    put_edges(d, g, words, end, digits, n);
    d->node = digits;
    d->node_len = n;
}

/* "body_graph: %0 f32[2] -> %3": its parameters are nodes. */
static void open_graph(dot *d, const char *line, const char *end, size_t indent) {
    const char *colon = memchr(line, ':', (size_t)(end - line));
    if (!colon || d->depth + 1 == MAX_DEPTH) return;
    graph *g = &d->graphs[++d->depth];
    *g = (graph){++d->count, indent, d->node, d->node_len, colon, end};
    fprintf(d->out, "  subgraph cluster_%d {\n  label=\"", g->id);
    put_label(d->out, line, (size_t)(colon - line));
    cli_print(d->out, " of %%%.*s\";\n", g->before_len, g->before);
    for (const char *p = colon + 1; p < end && *p != '>'; p++) {
        const char *digits;
        if (*p != '%') continue;
        p++;
        int n = number(&p, end, &digits);
        fputs("  ", d->out);
        put_node(d, g, digits, n);
        cli_print(d->out, " [style=filled, label=\"%%%.*s\"];\n", n, digits);
    }
}

/* Its results go to its node: not within it, where that node would become one of its own. */
static void close_graph(dot *d) {
    const graph *g = &d->graphs[d->depth--], *around = &d->graphs[d->depth];
    const char *digits, *p = g->ports;
    d->node = g->before;
    d->node_len = g->before_len;
    fputs("  }\n", d->out);
    while (p < g->end && *p != '>')
        p++;
    for (; p < g->end; p++) {
        if (*p != '%') continue;
        p++;
        int n = number(&p, g->end, &digits);
        fputs("  ", d->out);
        put_node(d, g, digits, n);
        fputs(" -> ", d->out);
        put_node(d, around, g->before, g->before_len);
        fputs(" [style=dashed];\n", d->out);
    }
}

void cli_program_dot(const char *text, FILE *out) {
    dot d = {.out = out};
    fputs("digraph program {\n  node [shape=box, fontname=\"sans-serif\", fontsize=10];\n", out);
    for (const char *line = text; *line;) {
        const char *end = strchr(line, '\n'), *p = line;
        if (!end) end = line + strlen(line);
        while (p < end && *p == ' ')
            p++;
        size_t indent = (size_t)(p - line);
        while (d.depth > 0 && indent <= d.graphs[d.depth].indent)
            close_graph(&d);
        if (*p == '%')
            put_line(&d, p, end);
        else if (indent == 0 && strncmp(p, "param %", 7) == 0)
            put_port(&d, p + 6, end, false);
        else if (indent == 0 && strncmp(p, "result %", 8) == 0)
            put_port(&d, p + 7, end, true);
        else
            open_graph(&d, p, end, indent);
        line = *end ? end + 1 : end;
    }
    fputs("}\n", out);
}

/* ---- pictures ---- */

/* Has dot draw what is in one file into the other. */
static int run_dot(const char *path, FILE *from, FILE *picture) {
    char kind[8];
    bool drawn;
    snprintf(kind, sizeof kind, "-T%.4s", strrchr(path, '.') + 1);
    int error = cli_dot_run(kind, from, picture, &drawn);
    if (error != 0)
        return cli_fail("%s: pictures are drawn by Graphviz's dot, which cannot be started: %s; "
                        "--dot prints the graph for it",
                        path, strerror(error));
    return drawn ? CLI_DONE : cli_fail("%s: Graphviz's dot failed", path);
}

/* Saves what a file without a name holds, whole or not at all. */
static int save_file(const char *path, FILE *file) {
    char block[1 << 12];
    cli_text whole = {.len = 0};
    bool read = true;
    rewind(file);
    for (size_t n; read && (n = fread(block, 1, sizeof block, file)) > 0;)
        read = cli_text_append(&whole, block, n);
    int code = read ? CLI_DONE : CLI_FAILED;
    if (read && ferror(file)) code = cli_fail("%s: a temporary file cannot be read", path);
    mica_status status =
        code == CLI_DONE ? mica_file_save(cli_output_path(path), whole.data, whole.len) : MICA_OK;
    if (status != MICA_OK) code = cli_fail_status(status);
    free(whole.data);
    return code;
}

int cli_program_save_dot(const char *text, const char *path) {
    FILE *file = tmpfile();
    if (file) cli_program_dot(text, file);
    int code = !file || fflush(file) != 0 || ferror(file)
                   ? cli_fail("%s: no temporary file can be written", path)
                   : save_file(path, file);
    if (file) fclose(file);
    return code;
}

int cli_program_draw(const char *text, const char *path) {
    FILE *from = tmpfile(), *picture = from ? tmpfile() : NULL;
    int code = CLI_DONE;
    if (picture) cli_program_dot(text, from);
    if (!picture || fflush(from) != 0 || ferror(from) || lseek(fileno(from), 0, SEEK_SET) != 0)
        code = cli_fail("%s: no temporary file can be written", path);
    if (code == CLI_DONE) code = run_dot(path, from, picture);
    if (code == CLI_DONE) code = save_file(path, picture);
    if (from) fclose(from);
    if (picture) fclose(picture);
    return code;
}
