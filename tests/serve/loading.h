/* A server that loads models when they are asked for, and what its tests ask. */
#ifndef SERVE_LOADING_H
#define SERVE_LOADING_H

#include "reading.h"

#define GENERATE "/api/generate"
/* Fields by which an answer is "curl is" gone on with as the golden does. */
#define GREEDY \
    "\"raw\": true, \"stream\": false, \"options\": {\"temperature\": 0, \"num_predict\": 2}"
#define ASK(model) "{\"model\": \"" model "\", \"prompt\": \"curl is\", " GREEDY "}"

/* A server that serves "default" and may load "a", "b", "c", the same in other folders, and
 * "broken", whose weights are none. options.model NULL: `exact`. */
typedef struct fixture {
    char *root; /* of the folders */
    mica_server *server;
} fixture;

extern const mica_model_options exact; /* how its models are opened */

fixture open_fixture(mica_loading_options options);
void close_fixture(fixture *f);

/* A folder below `root` with links to the files of another one. */
void link_model(const char *root, const char *name, const char *from);

/* Asks, and returns whether the answer is the golden's. It must be one. */
bool answers(const mica_server *server, const char *body);
bool is_golden(mc_json root);

/* Asks GENERATE, whose answer must have that status and that text in it. */
void check_says(const mica_server *server, const char *body, int status, const char *text);

/* A number of /metrics without labels. */
long metric(const mica_server *server, const char *name);

/* The names of the models in memory, with a comma behind each; *expires receives when the last one
 * is closed. */
void running(const mica_server *server, char *out, size_t bytes, char expires[64]);
bool runs(const mica_server *server, const char *names);
void wait_until_runs(const mica_server *server, const char *names);

/* Waits until a list of installed models is no longer believed. */
void wait_for_list(void);

#endif
