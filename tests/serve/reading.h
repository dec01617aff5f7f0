/* Reading answers, and the model's own golden.json, which transformers made. */
#ifndef SERVE_READING_H
#define SERVE_READING_H

#include "client.h"

/* The i-th element of an array. The test fails where there is none. */
mc_json element(mc_json array, size_t i);

/* A value by a path of members and indices with points between them: "content.0.text"; no value
 * where there is none. The others fail where it is of another type. */
mc_json at(mc_json value, const char *path);
mc_str text_at(mc_json value, const char *path);
int64_t int_at(mc_json value, const char *path);
double real_at(mc_json value, const char *path);
void check_text(mc_json value, const char *path, mc_str want);
void check_null(mc_json value, const char *path); /* it is there, and null */

/* A text as it stands in JSON, freed with free. */
char *quoted(const char *text);

/* The data of the event at *at, which is moved behind it; NULL: there is none. Checks that its name
 * is its type. */
mc_json_doc *read_event(const char **at);

/* The i-th golden of the default model: messages, prompt_ids, greedy_ids (with the stop id), text.
 */
mc_json golden(int i);
void goldens_close(void);

#endif
