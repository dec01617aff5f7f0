/* The file of a schedule's prefixes: read before its thread begins, written after it has ended. */
#include "base/alloc.h"
#include "base/buffer.h"
#include "base/folder.h"
#include "schedule/state.h"
#include "session/prefix_file.h"
#include "session/session_file.h"

#include <inttypes.h>
#include <stdio.h>

/* Says what has failed, which ends nothing. */
static void tell(const mc_schedule *s, const char *what) {
    char text[1200];
    snprintf(text, sizeof text, "%s: %s", what, mica_last_error());
    if (s->options.notice) s->options.notice(s->options.notice_user, text);
}

/* Names the model's file in the folder. errors  MICA_ENOMEM; those of mc_session_fingerprint */
static mica_status name_file(mc_schedule *s, const char *folder) {
    mc_buffer path = {0};
    uint64_t fingerprint;
    MC_TRY(mc_session_fingerprint(&s->rows.model, &fingerprint));
    if (mc_buffer_printf(&path, "%s/%016" PRIx64 ".prefixes", folder, fingerprint))
        s->prefix_file = mc_buffer_take(&path);
    mc_buffer_deinit(&path);
    return s->prefix_file ? MICA_OK : mc_fail_nomem("the name of a file of prefixes");
}

mica_status mc_prefixes_open(mc_schedule *s, const char *folder) {
    int64_t tokens;
    if (!folder || !s->local || !s->rows.model.pool->keeps) return MICA_OK;
    if (s->options.lead) {
        (void)mc_fail(MICA_EUNSUPPORTED, "the model is over several ranks");
        tell(s, "prompts are not kept");
        return MICA_OK;
    }
    if (mc_folder_make_private(folder) != MICA_OK) {
        tell(s, "prompts are not kept");
        return MICA_OK;
    }
    MC_TRY(name_file(s, folder));
    mica_status status = mc_prefix_file_load(&s->rows.model, s->prefix_file, &tokens);
    if (status != MICA_OK && status != MICA_ENOENT) tell(s, "kept prompts are not used");
    mc_schedule_count_cache(s, 0, mc_kv_pool_kept_bytes(s->rows.model.pool), 0, 0);
    return MICA_OK;
}

void mc_prefixes_close(mc_schedule *s, bool save) {
    if (s->prefix_file && save && mc_prefix_file_save(&s->rows.model, s->prefix_file) != MICA_OK)
        tell(s, "prompts are not kept");
    mc_free(s->prefix_file);
    s->prefix_file = NULL;
}
