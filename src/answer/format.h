/* What models write in their answers beside text: how they call tools, and how they mark what they
 * think. Each family has been trained on a form of its own, which its chat template shows, or its
 * vocabulary. format.c has the table of forms; docs/structured.md shows an answer of each.
 *
 * Marks. What begins and ends calls and thoughts is a token in most vocabularies. Then only this
 * token is the mark, not a text that is spelled alike. In an answer, and in the literals of the
 * table, such a token is its text behind the byte MC_MARK, which no UTF-8 has. Where a vocabulary
 * lacks the token, the mark is its text (mc_format_literal).
 *
 * Threads: formats are constants. */
#ifndef ANSWER_FORMAT_H
#define ANSWER_FORMAT_H

#include "base/buffer.h"
#include "base/str.h"

#include <mica/tokenizer.h>

#include <stdbool.h>

enum { MC_MARK = 0xFF, MC_MARKS = 64 };

typedef enum mc_call_body {
    MC_CALLS_JSON,   /* objects with the name and the arguments, or an array of such objects */
    MC_CALLS_PYTHON, /* f(a=1), in a list or one a line */
    /* Of an mc_call_syntax: */
    MC_CALLS_NAMED, /* a name, and the arguments as a JSON object */
    MC_CALLS_BARE,  /* a name, and {a:1,b:[..]} with strings between marks */
    MC_CALLS_KEYED, /* a name, and for each argument its key and its value as it is */
    MC_CALLS_NONE   /* of a block: its mark is left out of the text, and holds no calls */
} mc_call_body;

/* How a call is written of which JSON or Python are a part at most. White space stands for any, or
 * for none; and there may be some between the parts. */
typedef struct mc_call_syntax {
    const char *open;               /* before the name; "": nothing */
    const char *prefix;             /* of the name, which is left out; NULL: none */
    const char *named;              /* behind the name; "": what is no part of it */
    bool skips;                     /* other text may come between the name and `named` */
    const char *key, *assign, *end; /* KEYED: before a key, behind it, behind the value */
    const char *assign_text;        /* KEYED: behind the key of a string; NULL: as `assign` */
    const char *quote;              /* BARE: before and behind a string */
    const char *close;              /* behind the arguments; "": nothing */
} mc_call_syntax;

/* A part of an answer that may hold calls. */
typedef struct mc_call_block {
    const char *begin; /* NULL: the list of blocks ends here */
    const char *end;   /* NULL: the end of the answer, or of one call */
    mc_call_body body;
    bool first; /* only where no text comes before, and `begin` belongs to the body */
    const mc_call_syntax *syntax; /* NULL for JSON and PYTHON */
    bool or_json;                 /* it is JSON where it begins with a bracket */
} mc_call_block;

enum { MC_CALL_BLOCKS = 5 };

/* How forced calls are written. */
typedef struct mc_forced_calls {
    const char *head, *tail; /* around all calls */
    const char *before;      /* a name, or the number before it */
    const char *counted;     /* between a call's number and its name; NULL: none is before it */
    const char *number;      /* before a call's number, behind the name; NULL: it has none */
    const char *middle;      /* between the name and the arguments */
    const char *after;       /* behind these */
    const char *between;     /* two calls; NULL: there is one call only */
    mc_call_body body;       /* of the arguments: NAMED stands for JSON */
} mc_forced_calls;

enum { MC_CHANNEL_ENDS = 5 };

/* Answers as messages of several channels, each with a header. */
typedef struct mc_channels {
    const char *start, *channel, *message; /* begin a message, its channel, its content */
    const char *ends[MC_CHANNEL_ENDS];     /* what ends a content, those two among them; NULL ends
                                              the list */
    const char *thoughts;                  /* the channel of these */
    const char *recipient;                 /* before the tool that a message goes to */
} mc_channels;

typedef struct mc_call_format {
    const char *name;
    mc_call_block blocks[MC_CALL_BLOCKS];
    mc_forced_calls forced;
    /* What a call begins with where the model may also say something; a beginning of `forced`.
     * NULL: calls are the whole answer. */
    const char *mark;
    bool bare;                    /* its models come without a chat template, too */
    const mc_channels *channels;  /* NULL: there are none */
    const mc_call_syntax *syntax; /* of the content that is a call, where there are channels */
} mc_call_format;

typedef struct mc_think_format {
    const char *name;
    const char *begin, *end;
    const char *next; /* what comes between a thought and the rest; NULL: line breaks at most */
    const char *text; /* what comes before a text that is no thought; NULL: nothing */
} mc_think_format;

/* What a model is known to write. */
typedef struct mc_answer_format {
    const mc_call_format *calls;         /* never NULL */
    const char *think_begin, *think_end; /* literals; NULL: it marks no thoughts */
    const char *think_next, *text_begin; /* as of mc_think_format */
    const char *thoughts;                /* the name of that; NULL: none */
    /* Marks that are tokens, as bits, those of them that are special, and the ids of all. */
    uint64_t tokens, special;
    int32_t ids[MC_MARKS];
} mc_answer_format;

/* What a chat template shows, "" for none, or the vocabulary where that shows nothing.
 * tokenizer  NULL: marks are texts. */
mc_answer_format mc_answer_format_find(mc_str chat_template, const mica_tokenizer *tokenizer);

/* Sets which marks of any format are tokens. */
void mc_answer_format_take_tokens(mc_answer_format *format, const mica_tokenizer *tokenizer);

/* The text of the i-th mark of all formats, without MC_MARK; NULL beyond the last one. */
const char *mc_answer_mark(size_t i);

/* The id of a mark's token; -1: the vocabulary has none. tokenizer: may be NULL. */
int32_t mc_answer_mark_token(const mica_tokenizer *tokenizer, const char *mark);

/* The mark of a token, without MC_MARK; "": it is none of the format's. *special: the token is, and
 * so has no text of its own in an answer. */
mc_str mc_answer_mark_of(const mc_answer_format *format, int32_t id, bool *special);

/* Adds a literal as answers have it: MC_MARK stands only before marks that are tokens. false: no
 * memory. */
bool mc_format_literal(const mc_answer_format *format, const char *literal, mc_buffer *out);

/* Whether a prompt, decoded with its special tokens, ends within a thought, which the answer then
 * begins with. */
bool mc_answer_format_is_open(const mc_answer_format *format, mc_str prompt);

/* The same of a prompt's tokens. errors  MICA_ENOMEM */
mica_status mc_answer_format_find_open(const mc_answer_format *format,
                                       const mica_tokenizer *tokenizer, const int32_t *ids,
                                       size_t n, bool *is_open);

/* The format of that name; NULL: there is none. And that of a number; NULL beyond the last one. */
const mc_call_format *mc_call_format_find(const char *name);
const mc_call_format *mc_call_format_at(size_t i);

/* Adds a text without bytes that are MC_MARK. false: no memory. */
bool mc_call_text_add(mc_str text, mc_buffer *plain);

#endif
