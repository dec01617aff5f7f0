/* The tools of a request, as OpenAI's API carries them:
 *
 *     [{"type": "function", "function": {"name", "description", "parameters", "strict"}}]
 *
 * Threads: read ones never change. */
#ifndef ANSWER_TOOLS_H
#define ANSWER_TOOLS_H

#include "base/buffer.h"
#include "base/json.h"
#include "base/status.h"

typedef struct mc_tool {
    mc_str name;
    mc_json parameters; /* a schema; NONE: any object */
    bool strict;        /* calls keep to the schema, or the request is refused */
} mc_tool;

typedef struct mc_tools { /* zero is none */
    mc_json_doc *doc;
    mc_buffer list; /* mc_tool */
} mc_tools;

/* Reads an array of tools. After an error it must be freed, too.
 * errors  MICA_EFORMAT, MICA_EUNSUPPORTED with the place, "tools[1].function.name"; MICA_ENOMEM */
mica_status mc_tools_read(const char *text, size_t len, mc_tools *tools);
void mc_tools_deinit(mc_tools *tools);

/* The tool of that name; NULL: there is none. */
const mc_tool *mc_tools_find(const mc_tools *tools, mc_str name);

#endif
