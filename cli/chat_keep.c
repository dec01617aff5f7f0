#define _XOPEN_SOURCE 700
#include "chat.h"
#include "info.h"

#include "report.h"
#include "ui.h"
#include "verb.h"

#include <stdlib.h>
#include <sys/stat.h>

/* An automatic file is readable by its owner only, whatever the umask. */
static bool keep_for_a_while(cli_chat *c) {
    if (!c->kept[0] && !cli_kept_new(c->kept)) return true; /* no folder to save to */
    mica_model_info info = cli_model_info(c->model);
    char *model = realpath(info.path, NULL);
    char *adapter = info.adapter ? realpath(info.adapter, NULL) : NULL;
    mode_t before = umask(S_IRWXG | S_IRWXO);
    bool saved = cli_conversation_save(&c->conversation, c->kept, model, adapter, c->unkept);
    umask(before);
    free(adapter);
    free(model);
    return saved;
}

void cli_chat_keep(cli_chat *c) {
    if (c->file) {
        c->unkept = !cli_conversation_save(&c->conversation, c->file, NULL, NULL, false);
        c->failed |= c->unkept;
    } else if (c->keeps) {
        c->unkept = !keep_for_a_while(c);
    }
}

void cli_chat_keep_saved(cli_chat *c) {
    if (c->kept[0]) remove(c->kept);
    c->kept[0] = '\0';
}

void cli_chat_keep_another(cli_chat *c) {
    c->kept[0] = '\0';
}

int cli_chat_resume(cli_chat *c) {
    if (!cli_kept_last(c->kept)) return cli_fail("there is no saved conversation to resume");
    return cli_conversation_load(&c->conversation, c->kept) ? CLI_DONE : CLI_FAILED;
}

void cli_chat_tell_kept(const cli_chat *c) {
    if (!c->kept[0] || c->unkept || c->values.quiet || !cli_stdin_is_terminal()) return;
    cli_set_style(CLI_DIM);
    fputs("mica chat --resume continues this conversation.", stderr);
    cli_set_style(CLI_PLAIN);
    fputc('\n', stderr);
}
