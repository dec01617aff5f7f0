/* The items of a response's input: kept with the response, listed, and referred to by later
 * requests.
 *
 * Each item has an id, the client's or one that is made of the response's own, so that whoever has
 * the id of an item finds the response that it is of. Threads: any. */
#ifndef SERVE_OPENAI_RESPONSE_INPUT_H
#define SERVE_OPENAI_RESPONSE_INPUT_H

#include "serve/common/chance.h"
#include "serve/http/exchange.h"

/* Makes the id of a response's number-th item of input or output: "msg_...". response: its id. */
void mc_response_item_name(const char *kind, const char *response, bool input, size_t number,
                           char name[MC_NAME_BYTES]);

/* Adds an input as clients get it back: elements of JSON with commas between them.
 * returns  false: no memory */
bool mc_response_input_keep(mc_json input, const char *response, mc_buffer *items);

/* Puts items that the server remembers in the places of references to them.
 *
 *  input    an array or a text.
 *  max      bytes that it may have then.
 *  doc      receives the input with them, to be closed; NULL: there are no references in it.
 *  returns  false: http->failure says why */
bool mc_response_input_resolve(mc_exchange *http, mc_json input, uint64_t max, mc_json_doc **doc);

/* Answers with a page of the items of a response, which the query of `after`, `limit` and `order`
 * says, in this order. false: http->failure says why */
bool mc_response_input_list(mc_exchange *http, mc_str id);

#endif
