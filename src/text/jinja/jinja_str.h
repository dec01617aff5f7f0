/* Python's strings, and values as text. Positions are in characters; white space and case are
 * Unicode's. Case is mapped for Latin, Greek, Cyrillic and Armenian letters; other scripts with
 * cases are rare. */
#ifndef TEXT_JINJA_JINJA_STR_H
#define TEXT_JINJA_JINJA_STR_H

#include "text/jinja/jinja_value.h"

/* The length in bytes of the character at text[at]. */
size_t mc_jstr_next(mc_str text, size_t at);

/* Functions that take a run charge it for their steps. */
bool mc_jstr_starts(mc_jrun *r, mc_str text, mc_str prefix);
bool mc_jstr_ends(mc_jrun *r, mc_str text, mc_str suffix);
size_t mc_jstr_length(mc_jrun *r, mc_str text);
/* The byte at which character n begins; text.len past the end. */
size_t mc_jstr_offset(mc_jrun *r, mc_str text, size_t n);
/* The position of pattern at or after byte `from`; SIZE_MAX: none. */
size_t mc_jstr_find(mc_jrun *r, mc_str text, mc_str pattern, size_t from);
size_t mc_jstr_find_last(mc_jrun *r, mc_str text, mc_str pattern);
size_t mc_jstr_find_space(mc_jrun *r, mc_str text); /* first white space; text.len: none */

bool mc_jis_space(uint32_t codepoint); /* as str.isspace() */
uint32_t mc_jupper(uint32_t codepoint);
uint32_t mc_jlower(uint32_t codepoint);
bool mc_jis_cased(uint32_t codepoint); /* has an upper and a lower case */

typedef enum mc_jside { MC_J_LEFT = 1, MC_J_RIGHT = 2, MC_J_BOTH = 3 } mc_jside;

/* text without the white space at its ends. */
mc_str mc_jstrip_space(mc_str text, mc_jside side);
/* text without the characters of `chars` at its ends; chars.ptr NULL: without white space. */
mc_str mc_jstr_strip(mc_jrun *r, mc_str text, mc_str chars, mc_jside side);

/* str.upper(), str.lower(), str.title() and so on. */
typedef enum mc_jcase {
    MC_J_UPPER,
    MC_J_LOWER,
    MC_J_CAPITALIZE,
    MC_J_TITLE,       /* method: a word begins after each character that is not a letter */
    MC_J_TITLE_FILTER /* filter: a word begins after white space and each of -({[< */
} mc_jcase;
mc_jvalue mc_jstr_case(mc_jrun *r, mc_str text, mc_jcase how);

/* text with `old` replaced by `with`, at most `max` times (< 0: all). */
mc_jvalue mc_jstr_replace(mc_jrun *r, mc_str text, mc_str old, mc_str with, int64_t max);
mc_jlist *mc_jstr_lines(mc_jrun *r, mc_str text); /* str.splitlines() */
void mc_jput_escaped(mc_jrun *r, mc_jvalue text); /* as HTML, which it may be already */

/* str(v): added to the output (put), or as a value. */
void mc_jput_value(mc_jrun *r, mc_jvalue v);
mc_jvalue mc_jto_str(mc_jrun *r, mc_jvalue v);
void mc_jput_repr(mc_jrun *r, mc_jvalue v); /* repr(v) */

/* Parses a number of a template or a text: digits, a point, an exponent; no sign, no `_`. */
bool mc_jparse_int(mc_str digits, unsigned base, int64_t *out);
bool mc_jparse_float(mc_str digits, double *out);

typedef struct mc_jjson_format {
    bool ascii, sort;
    bool lines;          /* one item per line, indented */
    mc_str indent;       /* indentation of one level */
    mc_str comma, colon; /* separators of items, and of a key and its value */
} mc_jjson_format;
void mc_jput_json(mc_jrun *r, mc_jvalue v, const mc_jjson_format *format);

/* text % args, and text.format(*args, **named). */
mc_jvalue mc_jformat_percent(mc_jrun *r, mc_str text, mc_jvalue args);
mc_jvalue mc_jformat_braces(mc_jrun *r, mc_str text, const mc_jlist *args, const mc_jdict *named);
mc_jvalue mc_jformat_time(mc_jrun *r, mc_str format, const struct tm *time);

#endif
