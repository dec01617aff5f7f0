#include "tune/log.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/filemap.h"
#include "base/folder.h"
#include "base/json_write.h"
#include "tune/events.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static const char *const event_names[] = {"plan", "train", "valid", "test", "saved", "note"};

/* Writes a text, which it frees, to a file. The file is closed, and NULL, after an error. made: the
 * text is complete. */
static mica_status write_whole(FILE **file, const char *path, mc_buffer *text, bool made) {
    mica_status status = MICA_OK;
    if (!made)
        status = mc_fail_nomem(path);
    else if ((text->len && fwrite(text->data, 1, text->len, *file) != text->len) ||
             fflush(*file) != 0)
        status = mc_fail_errno(errno, "%s", path);
    mc_buffer_deinit(text);
    if (status == MICA_OK) return MICA_OK;
    fclose(*file);
    *file = NULL;
    return status;
}

/* ---- lines of JSON ---- */

static bool put_number(mc_buffer *out, const char *key, double value) {
    return mc_buffer_printf(out, ", \"%s\": ", key) && mc_json_put_number(out, value);
}

static bool put_report(mc_buffer *out, const mica_tune_report *r) {
    bool loss =
        r->event == MICA_TUNE_TRAIN || r->event == MICA_TUNE_VALID || r->event == MICA_TUNE_TEST;
    bool done = mc_buffer_printf(out, "{\"event\": \"%s\", \"iteration\": %lld",
                                 event_names[r->event], (long long)r->iteration);
    if (loss) done = done && put_number(out, "loss", r->loss);
    if (r->event == MICA_TUNE_TRAIN)
        done = done && put_number(out, "learning_rate", r->rate) &&
               put_number(out, "grad_norm", r->norm) &&
               put_number(out, "tokens_per_second", r->tokens_per_second) &&
               put_number(out, "iterations_per_second", r->iterations_per_second) &&
               put_number(out, "trained_tokens", (double)r->trained_tokens);
    if (r->memory_bytes) done = done && put_number(out, "memory_bytes", (double)r->memory_bytes);
    if (*r->text)
        done = done && mc_buffer_add_text(out, ", \"text\": ") && mc_json_put_text(out, r->text);
    return done && mc_buffer_add_text(out, "}\n");
}

/* ---- event files ---- */

static double seconds_now(void) {
    return (double)time(NULL);
}

static bool put_event(mc_buffer *out, const mica_tune_report *r) {
    static const char *const tags[] = {"", "loss/train", "loss/valid", "loss/test"};
    if (r->event < MICA_TUNE_TRAIN || r->event > MICA_TUNE_TEST) return true;
    const mc_scalar all[] = {
        {tags[r->event], r->loss},
        {"learning_rate", r->rate},
        {"grad_norm", r->norm},
        {"tokens_per_second", r->tokens_per_second},
    };
    size_t n = r->event == MICA_TUNE_TRAIN ? sizeof all / sizeof *all : 1;
    return mc_events_put_scalars(out, seconds_now(), r->iteration, all, n);
}

/* Several runs may begin within a second: a number tells them apart. */
static mica_status open_events(mc_log *log) {
    char name[96];
    MC_TRY(mc_folder_make(log->events_folder));
    for (int i = 0; i < 1000 && !log->events; i++) {
        snprintf(name, sizeof name, "events.out.tfevents.%010lld.mica.%d", (long long)time(NULL),
                 i);
        mc_free(log->events_path);
        log->events_path = mc_path_join(log->events_folder, name);
        if (!log->events_path) return mc_fail_nomem("an event file");
        log->events = fopen(log->events_path, "wbxe");
        if (!log->events && errno != EEXIST) break;
    }
    if (!log->events) return mc_fail_errno(errno, "%s", log->events_path);
    mc_buffer record = {0};
    bool done = mc_events_put_version(&record, seconds_now());
    return write_whole(&log->events, log->events_path, &record, done);
}

/* ---- both ---- */

/* A training that was killed, or a full disk, may have left a line without its end. */
static mica_status end_line(mc_log *log) {
    mc_buffer text = {0};
    FILE *f = fopen(log->lines_path, "rbe");
    bool is_cut = f && fseek(f, -1, SEEK_END) == 0 && fgetc(f) != '\n';
    if (f) fclose(f);
    if (!is_cut) return MICA_OK;
    bool done = mc_buffer_add_byte(&text, '\n');
    return write_whole(&log->lines, log->lines_path, &text, done);
}

mica_status mc_log_open(mc_log *log, const char *lines, const char *events) {
    *log = (mc_log){.lines_path = lines, .events_folder = events};
    if (lines) {
        log->lines = fopen(lines, "abe");
        if (!log->lines) return mc_fail_errno(errno, "%s", lines);
        mc_path_info info;
        if (mc_path_stat(lines, &info) && info.is_file) MC_TRY(end_line(log));
    }
    return events ? open_events(log) : MICA_OK;
}

static mica_status add(FILE **file, const char *path, const mica_tune_report *report,
                       bool (*put)(mc_buffer *out, const mica_tune_report *report)) {
    mc_buffer text = {0};
    if (!*file) return MICA_OK;
    bool done = put(&text, report);
    return write_whole(file, path, &text, done);
}

mica_status mc_log_report(mc_log *log, const mica_tune_report *report) {
    mica_status first = add(&log->lines, log->lines_path, report, put_report);
    mica_status second = add(&log->events, log->events_path, report, put_event);
    return second != MICA_OK ? second : first; /* whose text is the last one */
}

int mc_log_close(mc_log *log) {
    int error = 0;
    if (log->lines && fclose(log->lines) != 0) error = errno;
    if (log->events && fclose(log->events) != 0) error = errno;
    mc_free(log->events_path);
    *log = (mc_log){0};
    return error;
}
