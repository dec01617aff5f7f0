/* A client of HTTP over plain sockets, which can do what a well-behaved one does not. */
#ifndef SERVE_CLIENT_H
#define SERVE_CLIENT_H

#include "support/support.h"

#include <mica/mica.h>

/* How often a test asks, milliseconds apart, for what is to happen: a busy machine takes its time.
 * An answer is waited for as long as it takes to ask so often 10 milliseconds apart. */
enum { CLIENT_PATIENCE = 60000 };

/* A server in this process with the model that comes with mica. */
typedef struct served {
    mica_server *server;
    mica_model *model;
} served;

/* options NULL: a free port of 127.0.0.1. */
served served_open(const mica_server_options *options);
void served_close(served *s);

/* The server, without options, that the tests of a group share: cmocka's setup and teardown. */
extern served shared;
int served_open_shared(void **state);
int served_close_shared(void **state);

/* A connection to the server; -1: it was refused. */
int client_connect(const mica_server *server);
void client_send(int fd, const char *bytes, size_t n); /* false where the other side is gone */
void client_print(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* An answer. */
typedef struct answer {
    int status;  /* 0: there is none, the connection ended */
    char *head;  /* with its empty line */
    char *body;  /* of chunks, what they hold */
    size_t len;  /* of the body */
    bool closes; /* the connection ended after it */
} answer;

/* Reads one answer. */
answer client_read(int fd);
void answer_free(answer *a);

/* One request with a body of JSON on a connection of its own; body NULL: none. */
answer client_ask(const mica_server *server, const char *method, const char *path,
                  const char *body);

/* The same with more headers, each with its line's end. */
answer client_ask_with(const mica_server *server, const char *headers, const char *method,
                       const char *path, const char *body);

/* As client_ask, and the document of the body, for mc_json_close. Checks the status. */
mc_json_doc *client_json(const mica_server *server, const char *method, const char *path,
                         const char *body, int status);

/* Asks, and checks that the answer is an error with that status, code and param ("": null). */
void client_refused(const mica_server *server, const char *path, const char *body, int status,
                    const char *code, const char *param);

/* The value of a sample of /metrics; -1: there is none. */
double client_metric(const char *page, const char *name);
double client_metric_now(const mica_server *server, const char *name);

/* Waits until a sample of /metrics is no less than a value. */
void client_wait_metric(const mica_server *server, const char *name, double value);

/* Asks again and again, while allocation after allocation fails: each request is answered, refused
 * with 503 or dropped, and the last one, which lacks nothing, is answered. */
void client_without_memory(const mica_server *server, const char *path, const char *body);

/* Descriptors that this process has open. */
size_t client_files(void);

/* Waits until it has as few as that again. False: not within 10 seconds. */
bool client_files_back(size_t files);

#endif
