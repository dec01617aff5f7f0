/* mica plot: loss curves of training logs, as SVG or on the terminal. */
#include "clean.h"
#include "json.h"
#include "print.h"
#include "report.h"
#include "text.h"
#include "ui.h"
#include "verb.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LOGS = 16, MAX_RUNS = 64, KINDS = 2 };

enum { LABEL_BYTES = 512 };

#define MAX_NUMBER 1e300 /* of a log: differences are finite */

typedef struct plot_values {
    const char *output;
    bool train, valid;
    int64_t width, height;
} plot_values;

typedef struct point {
    double x, y;
} point;

typedef struct curve {
    const char *path;
    int run;    /* of the log, from 1; 0: it has only one */
    bool valid; /* of the validation set */
    point *points;
    size_t count, room;
} curve;

typedef struct plot {
    curve curves[MAX_RUNS * KINDS]; /* of a run: that of the training set, then the other */
    size_t count;
    double x0, x1, y0, y1;
} plot;

/* ---- logs ---- */

static bool add_point(curve *c, double x, double y) {
    if (c->count == c->room) {
        size_t room = c->room ? 2 * c->room : 64;
        point *points = realloc(c->points, room * sizeof *points);
        if (!points) return false;
        c->points = points;
        c->room = room;
    }
    c->points[c->count++] = (point){x, y};
    return true;
}

static bool get_number(const cli_json *json, const char *key, double *value) {
    const cli_json_node *v = cli_json_find(json, json->nodes, key);
    if (!v || v->kind != CLI_JSON_NUMBER) return false;
    *value = strtod(v->text, NULL);
    return fabs(*value) <= MAX_NUMBER;
}

/* A log that is read: each training adds to it. */
typedef struct log_reader {
    plot *p;
    const char *path;
    curve *run;  /* [KINDS] the last run's curves */
    int runs;    /* of this log */
    bool begins; /* a training has begun, of which there are no losses yet */
} log_reader;

static bool add_run(log_reader *r) {
    plot *p = r->p;
    if (p->count == MAX_RUNS * KINDS) return false;
    r->run = &p->curves[p->count];
    r->runs++;
    for (int k = 0; k < KINDS; k++)
        p->curves[p->count++] = (curve){.path = r->path, .run = r->runs, .valid = k == 1};
    return true;
}

static bool has_points(const curve *run) {
    return run[0].count || run[1].count;
}

/* A training goes on after an iteration: what the run told of later ones goes. */
static void go_on(log_reader *r, double iteration) {
    for (int k = 0; k < KINDS; k++)
        while (r->run[k].count && r->run[k].points[r->run[k].count - 1].x > iteration)
            r->run[k].count--;
    r->begins = false;
}

/* Adds what a line of a log says. A training that goes on from a checkpoint says so, and tells
 * steps again: those that it replaces go. Another one is a new run.
 * returns  NULL, or what is too much */
static const char *read_line(const cli_json *json, log_reader *r) {
    static const char goes_on[] = "goes on after iteration";
    const cli_json_node *event = cli_json_find(json, json->nodes, "event");
    const cli_json_node *text = cli_json_find(json, json->nodes, "text");
    double x, y;
    if (!event) return NULL;
    if (strcmp(event->text, "plan") == 0) r->begins = true;
    if (!get_number(json, "iteration", &x)) return NULL;
    if (text && strncmp(text->text, goes_on, sizeof goes_on - 1) == 0) go_on(r, x);
    if (!get_number(json, "loss", &y)) return NULL;
    int kind = strcmp(event->text, "train") == 0 ? 0 : strcmp(event->text, "valid") == 0 ? 1 : -1;
    if (kind < 0) return NULL;
    if (r->begins && has_points(r->run) && !add_run(r)) return "the logs have too many runs";
    r->begins = false;
    curve *c = &r->run[kind];
    while (c->count && c->points[c->count - 1].x >= x)
        c->count--;
    return add_point(c, x, y) ? NULL : "out of memory";
}

static int read_lines(log_reader *r, const cli_text *text) {
    cli_json json = {0};
    char broken[160] = "";
    size_t number = 0, skipped = 0;
    const char *fault = NULL;
    for (char *at = text->data, *end; at && *at && !fault; at = end) {
        const char *why;
        size_t len = strcspn(at, "\n");
        end = at + len + (at[len] == '\n');
        number++;
        if (len == strspn(at, " \t\r")) continue;
        if (cli_json_parse(&json, at, len, &why))
            fault = read_line(&json, r);
        else if (!skipped++)
            snprintf(broken, sizeof broken, "line %zu: %s", number, why);
    }
    cli_json_deinit(&json);
    if (fault) return cli_fail("%s: %s", r->path, fault);
    /* A training that was killed leaves such a line. */
    if (skipped)
        cli_print(stderr, "mica: %s: %zu broken line%s left out (%s)\n", r->path, skipped,
                  skipped == 1 ? " is" : "s are", broken);
    return CLI_DONE;
}

static int read_log(plot *p, const char *path) {
    log_reader r = {.p = p, .path = path};
    cli_text text = {0};
    if (!add_run(&r)) return cli_fail("%s: the logs have too many runs", path);
    if (!cli_text_read_file(&text, CLI_TEXT_OF_LINES, path)) return CLI_FAILED;
    int code = read_lines(&r, &text);
    free(text.data);
    if (r.runs == 1) r.run[0].run = r.run[1].run = 0;
    if (code == CLI_DONE && r.runs == 1 && !has_points(r.run))
        code = cli_fail("%s: no losses in it: mica tune --log writes such a file", path);
    return code;
}

static int read_logs(plot *p, char **paths, int n, const plot_values *values) {
    for (int i = 0; i < n; i++) {
        int code = read_log(p, paths[i]);
        if (code != CLI_DONE) return code;
    }
    for (size_t i = 0; i < p->count; i++)
        if (p->curves[i].valid ? values->train && !values->valid : values->valid && !values->train)
            p->curves[i].count = 0;
    return CLI_DONE;
}

/* "log.jsonl, run 2, training" */
static const char *label_of(const curve *c, char label[LABEL_BYTES]) {
    char run[32] = "";
    if (c->run) snprintf(run, sizeof run, ", run %d", c->run);
    snprintf(label, LABEL_BYTES, "%.*s%s, %s", LABEL_BYTES - 64, c->path, run,
             c->valid ? "validation" : "training");
    return label;
}

static bool measure(plot *p) {
    bool any = false;
    for (size_t i = 0; i < p->count; i++)
        for (size_t k = 0; k < p->curves[i].count; k++) {
            point q = p->curves[i].points[k];
            p->x0 = any ? fmin(p->x0, q.x) : q.x;
            p->x1 = any ? fmax(p->x1, q.x) : q.x;
            p->y0 = any ? fmin(p->y0, q.y) : q.y;
            p->y1 = any ? fmax(p->y1, q.y) : q.y;
            any = true;
        }
    if (p->x1 == p->x0) p->x1 = p->x0 + fmax(1.0, fabs(p->x0));
    if (p->y1 == p->y0) p->y1 = p->y0 + fmax(1.0, fabs(p->y0));
    return any;
}

static double across(const plot *p, double x) {
    return (x - p->x0) / (p->x1 - p->x0);
}

static double down(const plot *p, double y) {
    return (p->y1 - y) / (p->y1 - p->y0);
}

/* ---- SVG ---- */

enum { LEFT = 60, RIGHT = 20, TOP = 20, BOTTOM = 40, TICKS = 5, ROW = 16, MIN_SIZE = 100 };

static const char *const colours[] = {"#1f6fb4", "#d1495b", "#2e8b57", "#b8860b",
                                      "#6a4c93", "#008b8b", "#8b4513", "#555555"};

/* A text as XML has it, without the characters that it has not. */
static bool put_escaped(cli_text *out, const char *text) {
    size_t len = strlen(text);
    bool done = true;
    for (size_t at = 0, skip; at < len && done; at += skip) {
        size_t n = cli_clean_len(text + at, len - at, &skip);
        char c = n > 0 ? text[at] : '?';
        const char *code = c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : NULL;
        if (code)
            done = cli_text_append(out, code, strlen(code));
        else
            done = cli_text_append(out, n > 0 ? text + at : &c, n > 0 ? n : 1);
    }
    return done;
}

/* The distance of labels: 1, 2 or 5 times a power of ten, up to TICKS of them in a range. */
static double tick_step(double range) {
    double least = range / TICKS, power = pow(10.0, floor(log10(least))), part = least / power;
    return power * (part <= 1.0 ? 1.0 : part <= 2.0 ? 2.0 : part <= 5.0 ? 5.0 : 10.0);
}

static bool put_axes(cli_text *out, const plot *p, int w, int h) {
    bool done = cli_text_printf(out,
                                "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" "
                                "stroke=\"#999\"/>\n",
                                LEFT, TOP, w, h);
    double step = tick_step(p->x1 - p->x0), first = ceil(p->x0 / step);
    for (int i = 0; i <= TICKS && (first + i) * step <= p->x1 && done; i++) {
        double x = (first + i) * step;
        done =
            cli_text_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.6g</text>\n",
                            LEFT + across(p, x) * w, TOP + h + 18, x);
    }
    step = tick_step(p->y1 - p->y0);
    first = ceil(p->y0 / step);
    for (int i = 0; i <= TICKS && (first + i) * step <= p->y1 && done; i++) {
        double y = (first + i) * step;
        done = cli_text_printf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n",
                               LEFT - 6, TOP + down(p, y) * h + 4, y);
    }
    return done &&
           cli_text_printf(out,
                           "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">iteration</text>\n"
                           "<text transform=\"translate(14,%d) rotate(270)\" "
                           "text-anchor=\"middle\">loss</text>\n",
                           LEFT + w / 2, TOP + h + 36, TOP + h / 2);
}

/* A circle at each loss of the validation set: there may be few, or one. */
static bool put_marks(cli_text *out, const plot *p, const curve *c, const char *colour, int w,
                      int h) {
    bool done = true;
    for (size_t k = 0; k < c->count && done; k++)
        done = cli_text_printf(out, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"3\" fill=\"%s\"/>\n",
                               LEFT + across(p, c->points[k].x) * w,
                               TOP + down(p, c->points[k].y) * h, colour);
    return done;
}

static bool put_curve(cli_text *out, const plot *p, size_t i, int row, int w, int h) {
    const curve *c = &p->curves[i];
    const char *colour = colours[i / KINDS % CLI_COUNT(colours)];
    const char *dashes = c->valid ? " stroke-dasharray=\"6 3\"" : "";
    char label[LABEL_BYTES];
    bool done = cli_text_printf(
        out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\"%s points=\"", colour,
        dashes);
    for (size_t k = 0; k < c->count && done; k++)
        done = cli_text_printf(out, k ? " %.2f,%.2f" : "%.2f,%.2f",
                               LEFT + across(p, c->points[k].x) * w,
                               TOP + down(p, c->points[k].y) * h);
    done = done && cli_text_printf(out, "\"/>\n") &&
           (!c->valid || put_marks(out, p, c, colour, w, h)) &&
           cli_text_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" fill=\"%s\">",
                           LEFT + w - 8, TOP + ROW * (row + 1), colour);
    return done && put_escaped(out, label_of(c, label)) && cli_text_printf(out, "</text>\n");
}

static int write_svg(const plot *p, const plot_values *values) {
    int width = values->width ? (int)values->width : 800;
    int height = values->height ? (int)values->height : 480, row = 0;
    width = width < MIN_SIZE ? MIN_SIZE : width;
    height = height < MIN_SIZE ? MIN_SIZE : height;
    int w = width - LEFT - RIGHT, h = height - TOP - BOTTOM;
    cli_text out = {0};
    bool done = cli_text_printf(&out,
                                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
                                "height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n"
                                "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                                width, height);
    done = done && put_axes(&out, p, w, h);
    for (size_t i = 0; i < p->count && done; i++)
        if (p->curves[i].count) done = put_curve(&out, p, i, row++, w, h);
    done = done && cli_text_printf(&out, "</svg>\n");
    int code = CLI_FAILED;
    if (done) {
        mica_status status = mica_file_save(cli_output_path(values->output), out.data, out.len);
        code = status == MICA_OK ? CLI_DONE : cli_fail_status(status);
    }
    free(out.data);
    return code;
}

/* ---- the terminal ---- */

enum { MARGIN = 10, MAX_COLUMNS = 240, MAX_ROWS = 100 };

static char mark_of(size_t i) {
    return (char)((i % KINDS ? 'A' : 'a') + (int)(i / KINDS % 26));
}

static void draw_curve(const plot *p, size_t i, int columns, int rows, char (*cells)[MAX_COLUMNS]) {
    const curve *c = &p->curves[i];
    for (size_t k = 0; k < c->count; k++) {
        point from = c->points[k ? k - 1 : 0], to = c->points[k];
        for (int step = 0; step <= columns; step++) { /* a line to the point before it */
            double part = (double)step / columns;
            double x = across(p, from.x + part * (to.x - from.x));
            double y = down(p, from.y + part * (to.y - from.y));
            cells[(int)lround(y * (rows - 1))][(int)lround(x * (columns - 1))] = mark_of(i);
        }
    }
}

static void print_terminal(const plot *p, const plot_values *values) {
    static char cells[MAX_ROWS][MAX_COLUMNS];
    int columns = (values->width ? (int)values->width : cli_columns(stdout)) - MARGIN - 1;
    int rows = values->height ? (int)values->height : 20;
    columns = columns < 10 ? 10 : columns > MAX_COLUMNS ? MAX_COLUMNS : columns;
    rows = rows < 4 ? 4 : rows > MAX_ROWS ? MAX_ROWS : rows;
    char label[LABEL_BYTES];
    memset(cells, ' ', sizeof cells);
    cli_print(stdout, "%*s\n", MARGIN - 1, "loss");
    for (size_t i = 0; i < p->count; i++)
        draw_curve(p, i, columns, rows, cells);
    for (int r = 0; r < rows; r++) {
        int end = columns;
        while (end > 0 && cells[r][end - 1] == ' ')
            end--;
        bool labelled = r % 4 == 0 || r == rows - 1;
        if (labelled)
            printf("%*.4g |", MARGIN - 1, p->y1 - (double)r / (rows - 1) * (p->y1 - p->y0));
        else
            cli_print(stdout, "%*s |", MARGIN - 1, "");
        cli_print(stdout, "%.*s\n", end, cells[r]);
    }
    cli_print(stdout, "%*s iteration %g to %g\n", MARGIN - 1, "", p->x0, p->x1);
    for (size_t i = 0; i < p->count; i++)
        if (p->curves[i].count)
            cli_print(stdout, "%*s %c  %s\n", MARGIN - 1, "", mark_of(i),
                      label_of(&p->curves[i], label));
}

/* ---- the verb ---- */

static int run(const void *verb_values, char **args, int count) {
    const plot_values *values = verb_values;
    static plot p;
    if (count < 1) return cli_usage("plot", "there is no log: give what mica tune --log wrote");
    if (count > MAX_LOGS) return cli_usage("plot", "at most %d logs fit a plot", MAX_LOGS);
    int code = read_logs(&p, args, count, values);
    if (code == CLI_DONE && !measure(&p)) code = cli_fail("there are no such losses in the logs");
    if (code == CLI_DONE && values->output)
        code = write_svg(&p, values);
    else if (code == CLI_DONE)
        print_terminal(&p, values);
    for (size_t i = 0; i < p.count; i++)
        free(p.curves[i].points);
    return code;
}

static const cli_option plot_options[] = {
    CLI_OPTION(FILE, "output", plot_values, output, .letter = 'o', .placeholder = "FILE",
               .no_variable = true,
               .help = "write an SVG picture instead of printing; - is standard output"),
    CLI_OPTION(FLAG, "train", plot_values, train, .no_variable = true,
               .help = "only losses of the training set"),
    CLI_OPTION(FLAG, "valid", plot_values, valid, .no_variable = true,
               .help = "only losses of the validation set"),
    CLI_OPTION(INT, "width", plot_values, width, .letter = 'w', .placeholder = "N", .max = 10000,
               .no_variable = true, .help = "columns of the terminal, or pixels of the picture"),
    CLI_OPTION(INT, "height", plot_values, height, .placeholder = "N", .max = 10000,
               .no_variable = true, .help = "rows, or pixels"),
};

const cli_verb cli_verb_plot = {
    .synopsis = "LOG...",
    .details = "Draws the losses of one or several runs over their steps: on the terminal, or as\n"
               "a picture in SVG. LOG is what mica tune --log writes: it adds each run to the\n"
               "file. Losses of the validation set are dashed, with circles, or capitals.\n",
    .examples = "  mica plot log.jsonl\n"
                "  mica plot rank-8.jsonl rank-16.jsonl --valid -o losses.svg\n",
    .max_args = -1,
    .words = CLI_WORDS_FILES,
    .values_bytes = sizeof(plot_values),
    .groups = {{"Plot", plot_options, CLI_COUNT(plot_options), 0}},
    .run = run,
};
