/* ollama's endpoints. */
#include "serve/http/endpoint.h"
#include "serve/ollama/answer.h"
#include "serve/ollama/ollama.h"

static const mc_endpoint endpoints[] = {
    MC_ENDPOINT("POST", "/api/chat", mc_ollama_chat, .api = MC_API_OLLAMA,
                .tables = {{mc_ollama_chat_fields, MC_OLLAMA_CHAT_FIELDS, 0},
                           {mc_ollama_answer_fields, MC_OLLAMA_ANSWER_FIELDS, 0}},
                .help = "an answer to a conversation, as lines of JSON"),
    MC_ENDPOINT("POST", "/api/generate", mc_ollama_generate, .api = MC_API_OLLAMA,
                .tables = {{mc_ollama_generate_fields, MC_OLLAMA_GENERATE_FIELDS, 0},
                           {mc_ollama_answer_fields, MC_OLLAMA_ANSWER_FIELDS, 0}},
                .help = "an answer to a prompt, as lines of JSON"),
    MC_ENDPOINT("GET", "/api/tags", mc_ollama_tags, .api = MC_API_OLLAMA,
                .help =
                    "the models that requests may name. Their digest is empty: a folder has none"),
    MC_ENDPOINT("POST", "/api/show", mc_ollama_show, .api = MC_API_OLLAMA,
                .tables = {{mc_ollama_show_fields, MC_OLLAMA_SHOW_FIELDS, 0}},
                .help = "what a model is"),
    MC_ENDPOINT("GET", "/api/ps", mc_ollama_ps, .api = MC_API_OLLAMA,
                .help = "the models in memory, and until when"),
    MC_ENDPOINT("GET", "/api/version", mc_ollama_version, .api = MC_API_OLLAMA,
                .flags = MC_ENDPOINT_AT_ONCE, .help = "mica's version"),
    MC_ENDPOINT("POST", "/api/embed", mc_ollama_embed, .api = MC_API_OLLAMA,
                .tables = {{mc_ollama_embed_fields, MC_OLLAMA_EMBED_FIELDS, 0}},
                .help = "texts as vectors of length 1"),
    MC_ENDPOINT("POST", "/api/embeddings", mc_ollama_embeddings, .api = MC_API_OLLAMA,
                .tables = {{mc_ollama_embeddings_fields, MC_OLLAMA_EMBEDDINGS_FIELDS, 0}},
                .help = "a text as a vector that is not normalised, as older clients ask for it"),
    MC_ENDPOINT("POST", "/api/create", mc_ollama_create, .api = MC_API_OLLAMA,
                .tables = {{mc_ollama_create_fields, MC_OLLAMA_CREATE_FIELDS, 0}},
                .help = "another name for a model, with a system prompt and options. It is kept "
                        "until the server ends, for the requests of its key"),
    MC_ENDPOINT("POST", "/api/copy", mc_ollama_copy, .api = MC_API_OLLAMA,
                .tables = {{mc_ollama_copy_fields, MC_OLLAMA_COPY_FIELDS, 0}},
                .help = "another name for a model, as /api/create keeps it"),
    MC_ENDPOINT("POST", "/api/pull", mc_ollama_pull, .api = MC_API_OLLAMA,
                .tables = {{mc_ollama_pull_fields, MC_OLLAMA_PULL_FIELDS, 0}},
                .help = "download a model to the cache; requests may then name it. 403 "
                        "unless the server allows downloads"),
    MC_ENDPOINT("DELETE", "/api/delete", mc_ollama_delete, .api = MC_API_OLLAMA,
                .tables = {{mc_ollama_delete_fields, MC_OLLAMA_DELETE_FIELDS, 0}},
                .help = "remove a model, which has no requests under way, from the cache. 403 "
                        "unless the server allows downloads; a name that /api/create or /api/copy "
                        "made needs nothing"),
};

const mc_endpoint_list mc_endpoints_ollama = {"ollama", endpoints,
                                              sizeof endpoints / sizeof *endpoints};
