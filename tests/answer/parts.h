/* Answers of tests, in the parts that a splitter makes of them. */
#ifndef TEST_ANSWER_PARTS_H
#define TEST_ANSWER_PARTS_H

#include "answer/splitter.h"
#include "base/buffer.h"

#include <stdbool.h>

/* The tools f, get_weather and add; a group's setup and teardown. */
extern mc_tools answer_tools;
int answer_tools_open(void **state);
int answer_tools_close(void **state);

/* Parts as text: "thought:...", "text:...", "name:arguments" with bars between them, behind a call
 * that is broken "!". */
typedef struct parts {
    mc_buffer text;
    int kind;           /* of the last part; -1 before the first */
    size_t call, sound; /* where the last call begins in the text, and the first that is broken */
} parts;

/* The mc_take_piece of a parts. Checks that calls begin and end. */
mica_status parts_take(void *user, const mc_piece *piece);

/* How an answer is read. */
typedef struct way {
    mc_answer_format format;
    const mc_tools *tools;
    bool is_open, streams;
    bool tokens; /* marks are tokens, which end a piece */
    bool one_call;
    size_t first, step; /* bytes of the first piece, and of the others */
} way;

mc_splitter *way_open(const way *w, parts *p);
/* The number of the longest mark that a text begins with; MC_MARKS: none. */
size_t way_mark(const way *w, const char *text);
void way_push(mc_splitter *s, const way *w, const char *answer);
void way_read(const way *w, const char *answer, parts *p);
char *way_split(const way *w, const char *answer); /* freed by the caller */

/* What must come out of an answer: in pieces of first and step, or of every length up to nine bytes
 * and cut in two at every place. */
void expect_one(const way *w, const char *answer, const char *want);
void expect_way(way w, const char *answer, const char *want);

#endif
