/* Reading answers: what a model thought, what it says, and the tools that it calls, each in the
 * form that its family writes.
 *
 *     mica_model_render(model, messages, count, &options, NULL, NULL, &ids, &n);
 *     mica_generate_ids(session, ids, n, &options, &stream);
 *     mica_answer_open(model, &(mica_answer_options){.tools = tools, .prompt = ids,
 *                                                    .prompt_count = n}, &answer);
 *     for (mica_token t; mica_stream_next(stream, &t);)
 *         mica_answer_push_token(answer, &t);
 *     mica_answer_end(answer);
 *     for (size_t i = 0; i < mica_answer_call_count(answer); i++) ...   // run the tool
 *     mica_answer_get_message(answer, &messages[count++]);              // what was said, and
 *     messages[count++] = (mica_message){.role = "tool", ...};          // what came of it
 *
 * Text comes out as soon as it is known to be neither a thought nor a call. A call that is not
 * whole, or of none of the tools, is text. docs/structured.md lists the forms.
 *
 * Threads: an answer belongs to one thread at a time. */
#ifndef MICA_ANSWER_H
#define MICA_ANSWER_H

#include <mica/api.h>
#include <mica/model.h>
#include <mica/status.h>

#include <stddef.h>
#include <stdint.h>

MICA_BEGIN

/** An answer that is read. */
typedef struct mica_answer mica_answer;

/** Options of mica_answer_open; zero means the default. */
typedef struct mica_answer_options {
    size_t struct_bytes; /* see mica/api.h */
    const char *tools;   /* as of mica_generate_options; NULL: no calls are looked for. Borrowed */
    const int32_t *prompt; /* [prompt_count] the prompt's tokens, as mica_model_render gives them:
                              they tell whether the answer begins within a thought. NULL: it does
                              not. Borrowed */
    size_t prompt_count;   /* number of tokens */
} mica_answer_options;

/** Opens an empty answer of a model, which need not stay open.
 *
 *  options  NULL for the defaults. Borrowed for the call.
 *  answer   receives it, owned by the caller; NULL after an error.
 *  errors   MICA_EINVAL a NULL argument; MICA_EFORMAT, MICA_EUNSUPPORTED the tools, with the place;
 *           MICA_ENOMEM */
MICA_API mica_status mica_answer_open(const mica_model *model, const mica_answer_options *options,
                                      mica_answer **answer);

/** Closes *answer and sets it to NULL. Does nothing for NULL. */
MICA_API void mica_answer_close(mica_answer **answer);

/** Takes the next token of the answer, as mica_stream_next gives it. What begins and ends calls and
 *  thoughts is a token in most vocabularies, often a special one, which has no text: a text that is
 *  spelled alike is none then.
 *
 *  token   its id and text are read. Borrowed for the call.
 *  errors  MICA_EINVAL a NULL argument, the answer has ended; MICA_ENOMEM */
MICA_API mica_status mica_answer_push_token(mica_answer *answer, const mica_token *token);

/** Takes the next bytes of an answer of which there is the text alone, any number of them: marks
 *  are texts, special tokens among them. What was pushed first, tokens or texts, decides for the
 *  answer.
 *  errors  MICA_EINVAL a NULL argument, the answer has ended; MICA_ENOMEM */
MICA_API mica_status mica_answer_push(mica_answer *answer, const char *text, size_t len);

/** Ends the answer: what was held back comes out. errors  as of mica_answer_push */
MICA_API mica_status mica_answer_end(mica_answer *answer);

/** What the model has said so far, and what it has thought; "" for nothing.
 *
 *  len      receives the bytes; may be NULL.
 *  returns  NUL-terminated; valid until the next call that takes more. "" for NULL */
MICA_API const char *mica_answer_text(const mica_answer *answer, size_t *len);
MICA_API const char *mica_answer_thoughts(const mica_answer *answer, size_t *len);

/** The number of calls so far. */
MICA_API size_t mica_answer_call_count(const mica_answer *answer);

/** The i-th call: its name, its arguments, and an id, "call_0" and so on. Texts live as long as the
 *  answer. errors  MICA_EINVAL there is none */
MICA_API mica_status mica_answer_get_call(const mica_answer *answer, size_t i,
                                          mica_tool_call *call);

/** Fills in the assistant's message that the answer is, for the next prompt: content, thoughts and
 *  calls, as far as they have come. It points into the answer, which must be open while the message
 *  is used, and take no more.
 *
 *  message  a whole one, with all members of version 0.1. Its struct_bytes is kept: of an array set
 *           that of each element alike.
 *  errors   MICA_EINVAL a NULL argument, struct_bytes is neither 0 nor that of a whole message */
MICA_API mica_status mica_answer_get_message(const mica_answer *answer, mica_message *message);

MICA_END

#endif
