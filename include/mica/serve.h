/* A server: models over HTTP, by the APIs that clients already speak.
 *
 *     mica_server *server = NULL;
 *     mica_status status = mica_server_open(&(mica_server_options){.port = 8080}, &server);
 *     if (!status) status = mica_server_add(server, "gemma", model, NULL);
 *     if (!status) status = mica_server_run(server);    // until mica_server_stop, from a handler
 *     mica_server_close(&server);
 *
 * docs/serve.md lists the endpoints and their fields. A field that an API defines is honoured, or
 * refused with a 400 that names it.
 *
 * A server answers in threads of its own from mica_server_open on: /health says 503 until it has a
 * model. It listens at the loopback address only, unless there are keys or `insecure` insists. A
 * request that it cannot serve is refused with a status; none ends the process, and each kind of
 * memory and descriptor has a limit.
 *
 * A build without libmicrohttpd has these functions, too: mica_server_open is then
 * MICA_EUNSUPPORTED.
 *
 * Threads: mica_server_add, _load, _run, _stop, _address and _under_way may run beside each other
 * on one server, each in any thread; mica_server_close beside none of them. mica_server_ask needs
 * no server and may run in any number of threads. Callbacks say in which thread they run; they must
 * not close their server. */
#ifndef MICA_SERVE_H
#define MICA_SERVE_H

#include <mica/api.h>
#include <mica/model.h>
#include <mica/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

MICA_BEGIN

/** A server and the models that it serves. */
typedef struct mica_server mica_server;

/** Takes a line about a request that has ended, without a line feed: method, path, status,
 *  milliseconds, tokens. It holds nothing of prompts, answers and keys. Called from any thread. */
typedef void (*mica_server_log)(void *user, const char *line);

/** Options of mica_server_open; zero means the default. Strings are borrowed during the call. */
typedef struct mica_server_options {
    size_t struct_bytes;          /* see mica/api.h */
    const char *host;             /* address or name to listen at, or unix:PATH for a socket of the
                                     file system; NULL: "127.0.0.1" */
    int port;                     /* 0: one that is free */
    bool insecure;                /* listen at any address without keys */
    bool downloads;               /* requests may download models to the Hugging Face cache, and
                                     remove them from it */
    bool vllm_metrics;            /* /metrics also has the names that vLLM made customary */
    const char *certificate;      /* PEM file with the chain for TLS; NULL: no TLS */
    const char *certificate_key;  /* PEM file with its private key */
    const char *const *api_keys;  /* [api_key_count] each request but /health must have one of them,
                                     as "Authorization: Bearer KEY" or "x-api-key: KEY" */
    size_t api_key_count;         /* 0: none is asked for */
    const char *const *origins;   /* [origin_count] origins whose pages may use the server (CORS);
                                     "*": all */
    size_t origin_count;          /* 0: the server's own pages only */
    const char *const *hosts;     /* [host_count] names that requests may have as their Host besides
                                     localhost, addresses and `host`. With keys every name may */
    size_t host_count;            /* number of names */
    uint64_t max_body;            /* bytes of a request's body; 0: 10 MB */
    int max_connections;          /* 0: 4096; fewer if the process may open fewer files */
    int max_connections_per_host; /* from one address; 0: half of max_connections */
    int request_seconds;          /* a connection whose next request has not come whole for so long
                                     is closed; 0: 60 */
    int comment_seconds;          /* a stream that has nothing to say for so long gets a comment, so
                                     that proxies keep it; 0: 10 */
    mica_server_log log;          /* NULL: nothing is logged */
    void *log_user;               /* given to log */
    /** an endpoint of ZeroMQ where events about the caches are published, in vLLM's format: for
     *  routers that send a prompt to where its beginning was read. They hold the tokens of prompts
     *  and answers, and are neither encrypted nor restricted to who has a key. One with an asterisk
     *  as its address listens, others connect: "tcp://router:5557"; with an @ before it any
     *  listens: "@tcp://127.0.0.1:5557". NULL: none */
    const char *kv_events;
    const char *kv_events_replay; /* where readers ask for events that they have missed; NULL:
                                     nowhere. It listens */
    const char *kv_events_topic;  /* "{model}" in it stands for a model's name; NULL: "" */
    const char *kv_events_seed;   /* of the hashes of blocks, which are vLLM's of sha256_cbor: its
                                     PYTHONHASHSEED, llm-d's hashSeed; NULL: "" */
} mica_server_options;

/** Starts a server without models.
 *
 *  options NULL for the defaults. Borrowed.
 *  server  receives the server, closed with mica_server_close; NULL after an error.
 *  errors  MICA_EINVAL an option is out of range, or the address is not of the loopback interface
 *          and there are neither keys nor `insecure`, or an endpoint is malformed; MICA_EIO an
 *          address is in use or not this machine's; MICA_ENOENT, MICA_EFORMAT of certificate and
 *          key; MICA_EUNSUPPORTED there is no libmicrohttpd, or it has no TLS, or there is no
 *          libzmq for kv_events; MICA_ENOMEM */
MICA_API mica_status mica_server_open(const mica_server_options *options, mica_server **server);

/** How a model is served; zero means the default. */
typedef struct mica_serving_options {
    size_t struct_bytes;  /* see mica/api.h */
    int rows;             /* number of answers computed together; 0: 16 */
    int64_t step_tokens;  /* tokens of prompts computed beside one step of decoding; 0: 512, fewer
                             if answers would wait for more than half a second */
    size_t queue;         /* number of requests that may wait; 0: 256 */
    uint64_t cache_bytes; /* of all caches, kept prefixes too; 0: a share of free memory */
    double max_seconds;   /* of waiting and computing, for each request; 0: no limit */
    int draft_tokens;     /* mica_generate_options.draft_tokens of all answers; 0: none */
    int max_priority;     /* that a request may ask for, up to 100000; those of a higher one are
                             computed first. 0: none above that of requests that ask for none */
    /** a folder, which is made if it is missing. What the model's caches keep of prompts and
     *  answers is saved to a file there when the model is let go and no request is under way, and
     *  found by the next server of this model. It tells much about these texts. NULL: none */
    const char *prefix_cache;
    /** takes the text of what is wrong with that file, which is then not used, or with saving it.
     *  Called from any thread */
    void (*notice)(void *user, const char *text);
    void *notice_user;  /* given to notice */
    int64_t max_tokens; /* of each answer: one that asks for more is refused; 0: no limit. A request
                           that names none ends with the context; in a model that was opened with a
                           context_length, after as many tokens as that */
} mica_serving_options;

/** Serves a model from now on.
 *
 *  name    what requests call it. Copied.
 *  model   kept open until the server is closed.
 *  options NULL for the defaults. Borrowed.
 *  errors  MICA_EINVAL the name is empty or in use, an option is out of range; MICA_ENOMEM */
MICA_API mica_status mica_server_add(mica_server *server, const char *name, const mica_model *model,
                                     const mica_serving_options *options);

/** Which models a server loads, and when; zero means the default. All is copied, but what `model`
 *  borrows beyond texts: its device is kept, and its mlx_lm must outlive the server. */
typedef struct mica_loading_options {
    size_t struct_bytes;        /* see mica/api.h */
    const char *const *names;   /* [count] what requests call the models that are loaded at once.
                                   They stay, until a request by ollama's API asks for them to be
                                   closed (keep_alive 0, mica stop); the next one for such a model
                                   loads it again. A request without a model's name means the
                                   first */
    const char *const *folders; /* [count] for mica_model_open */
    size_t count;               /* number of them */
    const char *const *places;  /* [place_count] where other models are searched when a request
                                   names one: folders as mica_discover takes them, a NULL among them
                                   for the Hugging Face cache. Requests name them as mica_discover
                                   does */
    size_t place_count;         /* 0: there are no others */
    const char *const *adapter_names;    /* [adapter_count] "BASE:NAME" is the model BASE with that
                                           adapter. Without colons */
    const char *const *adapter_folders;  /* [adapter_count] as mica_model_options.adapter */
    size_t adapter_count;                /* number of adapters */
    const mica_model_options *model;     /* how models are opened; NULL: the defaults. `adapter` and
                                           `chat_template` are for those in `names` alone;
                                           `progress` is called for these, in a thread of the
                                           server; `cancel` must be NULL */
    const mica_serving_options *serving; /* how they are served; NULL: the defaults */
    double keep_alive_seconds; /* how long one that is not in `names` stays in memory after its last
                                  request; 0: 300; negative: as long as there is room; to close it
                                  at once, a tiny number. Requests by ollama's API may say another
                                  time */
    int max_models;            /* number of models in memory; 0: as many as there is room for */
    uint64_t memory_bytes;     /* of weights, whether mapped or not, and caches of all models;
                                  0: three quarters of the device's memory. Those in `names` are
                                  loaded even if they need more */
} mica_loading_options;

/** Serves models of folders. Loads those in `names`, one after another, and returns when all are
 *  there; /health says until then that the server is loading. It loads others when a request names
 *  them: meanwhile all else is served, and requests for the model wait. Where there is no room,
 *  models without requests are closed first, the one used longest ago first. A model and the same
 *  with an adapter map the same files, but have caches of their own.
 *
 *  To be called once for a server.
 *
 *  options NULL for the defaults: nothing is loaded, and only models that are added are served.
 *          Borrowed.
 *  errors  MICA_EINVAL it was called before, a name is empty or in use, an option is out of range;
 *          those of mica_model_open for the models in `names`; MICA_ENOMEM. After an error the
 *          server should be closed */
MICA_API mica_status mica_server_load(mica_server *server, const mica_loading_options *options);

/** Follows rank 0, whose server computes models over ranks (`group` of the options' `model`): opens
 *  the models that it opens, and computes its part of each step, until that server is closed. Rank
 *  0 calls mica_server_load, and all others this, with the same options: names, folders, adapters
 *  and `model` are read, the rest is what rank 0 says. A rank listens nowhere.
 *
 *  Such a server has the models in `names` and their adapters, and no others. It answers prompts,
 *  and refuses to make vectors and scores. When a rank is gone, requests get 503, and
 *  mica_server_run returns MICA_EDEVICE.
 *
 *  options  Borrowed.
 *  errors   MICA_EINVAL this is rank 0, or no rank of a group; MICA_EDEVICE a rank is gone;
 *           MICA_EINTERNAL this rank is not in step with rank 0; MICA_ENOMEM */
MICA_API mica_status mica_server_follow(const mica_loading_options *options);

/** Where it listens: "http://127.0.0.1:8080" or "unix:PATH". Lives as long as the server; "" for
 *  NULL. */
MICA_API const char *mica_server_address(const mica_server *server);

/** Waits until mica_server_stop is called. Then it drains: requests that were accepted, whose head
 *  had come, are answered, later ones are refused with 503, and it returns when all are done.
 *  errors  MICA_ECANCELLED it was stopped again, and requests were cut off; MICA_EIO */
MICA_API mica_status mica_server_run(mica_server *server);

/** Asks mica_server_run to drain and return; a second call to end at once. May be called from any
 *  thread and from a signal handler. Does nothing for NULL. */
MICA_API void mica_server_stop(mica_server *server);

/** What is under way, and what a draining server waits for: requests that were accepted and have no
 *  whole answer yet, and batches that have not ended. Each may be NULL. May be called from any
 *  thread and from a signal handler. Zeros for NULL. */
MICA_API void mica_server_under_way(const mica_server *server, int *requests, int *batches);

/** Ends what is under way, closes *server and sets it to NULL. Does nothing for NULL. No call of
 *  mica_server_run may be under way. */
MICA_API void mica_server_close(mica_server **server);

/** How a running server is asked; zero means the default. Strings are borrowed. */
typedef struct mica_ask_options {
    size_t struct_bytes;      /* see mica/api.h */
    const char *key;          /* that it wants; NULL: none */
    const char *certificates; /* a file in PEM form: whose certificates are trusted, over TLS. NULL:
                                 the first that is set of $CURL_CA_BUNDLE, $REQUESTS_CA_BUNDLE and
                                 $SSL_CERT_FILE, else those that the system trusts */
    int any_certificate;      /* not 0: any is trusted, also one of another name */
    int silent_seconds;       /* a server that sends nothing for so long is given up; 0: 60 */
} mica_ask_options;

/** Sends one request to a server, of another process or of another machine, and reads the answer.
 *  Redirects are not followed, and proxies not used.
 *
 *  address where it listens: "http://HOST:PORT", "https://HOST:PORT" or "unix:PATH". Borrowed, as
 *          all that follows.
 *  method  "GET"
 *  path    "/api/ps"
 *  body    JSON; NULL: none.
 *  options NULL for the defaults.
 *  status  receives the answer's: 200, 404; 0 after an error.
 *  answer  receives its body, freed with mica_free. NULL after an error.
 *  errors  MICA_ENOENT nothing answers at the address; MICA_EIO the connection broke, or the
 *          certificate is not trusted; MICA_EFORMAT what answers does not speak HTTP, or sends more
 *          than 16 MiB; MICA_EINVAL the address, the path or an option is malformed;
 *          MICA_EUNSUPPORTED the build has no libcurl; MICA_ENOMEM */
MICA_API mica_status mica_server_ask(const char *address, const char *method, const char *path,
                                     const char *body, const mica_ask_options *options, int *status,
                                     char **answer);

MICA_END

#endif
