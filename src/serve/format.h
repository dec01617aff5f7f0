/* The form that a request wants an answer to have, as a grammar. Threads: any. */
#ifndef SERVE_FORMAT_H
#define SERVE_FORMAT_H

#include "base/json.h"
#include "grammar/grammar.h"
#include "serve/failure.h"

/* Reads a format of OpenAI's responses:
 *
 *     {"type": "text"}         anything: *grammar is NULL
 *     {"type": "json_object"}  an object of JSON
 *     {"type": "json_schema", "name", "schema", "strict", "description"}
 *                              JSON that the schema (grammar/schema.h) admits, whatever strict says
 *
 *  format   an object; absent: text.
 *  name     the field's, for the failure.
 *  grammar  closed with mc_grammar_close.
 *  returns  false: *failure says why, and *grammar is NULL */
bool mc_format_read(mc_json format, const char *name, mc_grammar **grammar, mc_failure *failure);

#endif
