#define _POSIX_C_SOURCE 200809L
#include "edit.h"

#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HISTORY_LINES = 1000 };

struct cli_edit {
    EditLine *line;
    History *history;
    const char *prompt, *file;
    char *text; /* the last line, without its line feed */
};

static char *give_prompt(EditLine *line) {
    void *edit = NULL;
    el_get(line, EL_CLIENTDATA, &edit);
    return (char *)(size_t)((cli_edit *)edit)->prompt;
}

cli_edit *cli_edit_open(const char *prompt, const char *file) {
    cli_edit *edit = calloc(1, sizeof *edit);
    HistEvent event;
    if (!edit) return NULL;
    /* In the C locale libedit takes no letter beyond ASCII. */
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) setlocale(LC_CTYPE, "C.UTF-8");
    edit->prompt = prompt;
    edit->file = file;
    edit->line = el_init("mica", stdin, stderr, stderr);
    edit->history = history_init();
    if (!edit->line || !edit->history) {
        cli_edit_close(&edit);
        return NULL;
    }
    el_set(edit->line, EL_CLIENTDATA, edit);
    el_set(edit->line, EL_PROMPT_ESC, give_prompt, '\1');
    el_set(edit->line, EL_EDITOR, "emacs");
    el_set(edit->line, EL_SIGNAL, 1); /* the terminal is put right before a signal acts */
    el_set(edit->line, EL_HIST, history, edit->history);
    history(edit->history, &event, H_SETSIZE, HISTORY_LINES);
    history(edit->history, &event, H_SETUNIQUE, 1);
    if (file) history(edit->history, &event, H_LOAD, file);
    el_source(edit->line, NULL); /* the user's ~/.editrc */
    return edit;
}

const char *cli_edit_read(cli_edit *edit) {
    int len = 0;
    /* Before the prompt: what is typed as soon as it shows, Ctrl-D above all, must find the
     * terminal in the editor's hands. */
    el_set(edit->line, EL_PREP_TERM, 1);
    const char *line = el_gets(edit->line, &len);
    HistEvent event;
    if (!line || len <= 0) return NULL;
    free(edit->text);
    edit->text = strdup(line);
    if (!edit->text) return NULL;
    edit->text[strcspn(edit->text, "\r\n")] = '\0';
    if (edit->text[0]) {
        history(edit->history, &event, H_ENTER, edit->text);
        if (edit->file) history(edit->history, &event, H_SAVE, edit->file);
    }
    return edit->text;
}

void cli_edit_close(cli_edit **edit) {
    cli_edit *e = *edit;
    if (!e) return;
    if (e->line) el_end(e->line);
    if (e->history) history_end(e->history);
    free(e->text);
    free(e);
    *edit = NULL;
}
