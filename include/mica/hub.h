/* Downloading models from a hub, and tidying the cache that they lie in.
 *
 *     char *folder = NULL;
 *     mica_status status = mica_pull("mlx-community/gemma-3-1b-it-4bit", NULL, &folder);
 *     if (!status) status = mica_model_open(folder, NULL, &model);
 *     mica_free(folder);
 *
 * The cache is the Hugging Face cache, which other programs use, too: what one has downloaded, all
 * have. A repository org/name is a folder models--org--name with blobs (the files, named by their
 * checksums), snapshots (a folder for each commit, with links to blobs) and refs (the commit of
 * each branch). Files that are being downloaded are locked as those programs lock them.
 *
 * A build without libcurl or OpenSSL has these functions, too: mica_pull then finds only what the
 * cache has.
 *
 * Threads: every function here may be called from any thread, also several at once on one cache;
 * confirm and progress are called in the thread of their mica_pull.
 *
 * Environment variables are those of Hugging Face's own programs: HF_ENDPOINT, HF_TOKEN,
 * HF_TOKEN_PATH, HF_HUB_DISABLE_IMPLICIT_TOKEN, HF_HUB_OFFLINE, HF_HOME, HF_HUB_CACHE,
 * HF_HUB_DOWNLOAD_TIMEOUT; also the proxies' (https_proxy, no_proxy) and the certificates' (the
 * first that is set of CURL_CA_BUNDLE, REQUESTS_CA_BUNDLE and SSL_CERT_FILE). */
#ifndef MICA_HUB_H
#define MICA_HUB_H

#include <mica/api.h>
#include <mica/model.h>
#include <mica/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

MICA_BEGIN

/** What mica_pull is about to do. Strings live until the call of mica_pull_confirm ends. */
typedef struct mica_pull_plan {
    size_t struct_bytes;     /* see mica/api.h */
    const char *name;        /* "org/name" */
    const char *commit;      /* of the revision, 40 hexadecimal digits */
    uint64_t files;          /* number of files that the folder will have */
    uint64_t bytes;          /* their size */
    uint64_t download_files; /* number of files that are not in the cache yet; those of one content
                                count once */
    uint64_t download_bytes; /* what is missing of them */
} mica_pull_plan;

/** Called once before the download. Returning false ends mica_pull with MICA_ECANCELLED. */
typedef bool (*mica_pull_confirm)(void *user, const mica_pull_plan *plan);

/** Options of mica_pull; zero means the default. Strings are borrowed. */
typedef struct mica_pull_options {
    size_t struct_bytes;        /* see mica/api.h */
    const char *revision;       /* a branch, a tag or a commit; NULL: "main" */
    const char *const *include; /* [include_count] patterns of the files to download, as
                                   fnmatch(3) takes them; `*` also matches `/` */
    size_t include_count;       /* 0: what mica reads: *.json, *.jinja and *.safetensors of the
                                   repository's first level, and of the folders of an
                                   embedder's modules (1_Pooling) */
    const char *cache;          /* folder of the cache; NULL: the Hugging Face cache, as for
                                   mica_discover */
    const char *endpoint;       /* address of the hub; NULL: $HF_ENDPOINT, else Hugging Face's */
    const char *token;          /* sent to the endpoint's own host only; NULL: $HF_TOKEN, else the
                                   one that hf auth login keeps, or none where
                                   $HF_HUB_DISABLE_IMPLICIT_TOKEN is 1; "": none */
    bool offline;               /* ask no hub: as if $HF_HUB_OFFLINE were 1 */
    int connections;            /* number of files that are downloaded at once; 0: 4 */
    int stall_seconds;          /* a connection that brings nothing for so long is ended, and the
                                   file continued by a new one; 0: $HF_HUB_DOWNLOAD_TIMEOUT, else
                                   30 */
    mica_pull_confirm confirm;  /* may be NULL */
    void *confirm_user;         /* given to confirm */
    mica_progress progress;     /* bytes of all files, those that were there counted as done; may be
                                   NULL */
    void *progress_user;        /* given to progress */
    const mica_cancel *cancel;  /* may be NULL */
    void (*notice)(void *user, const char *text); /* a line on why nothing comes: the hub has asked
                                                     to be left alone for some time (Retry-After),
                                                     of which a minute is waited at most; may be
                                                     NULL */
    void *notice_user;                            /* given to notice */
} mica_pull_options;

/** Downloads a model to the cache, unless it is there, and returns its folder.
 *
 *  Interrupted downloads are continued: a file's beginning stays in the cache. Every file is
 *  checked by its size and its checksum (SHA-256, or git's SHA-1 for small files) before it gets
 *  its name, and is on the disk by then (fsync). A connection that breaks or stalls is replaced, up
 *  to five times in a row without progress. Several processes may pull one model at once: a file is
 *  downloaded by one of them.
 *
 *  Of a repository with GGUF files one model is downloaded: "org/name-GGUF:Q4_K_M" names it by
 *  its quantisation, the last part of its file's name. Without a colon a name that ends in -GGUF
 *  means Q4_K_M.
 *
 *  name    "org/name" of a repository, or "org/name:quantisation". Borrowed.
 *  options NULL for the defaults. Borrowed.
 *  folder  receives the path of the snapshot, for mica_model_open, or that of a GGUF file, for
 *          mica_gguf_folder (mica/convert.h); freed with mica_free. NULL after an error.
 *  errors  MICA_EINVAL name, revision or an option is malformed
 *          MICA_ENOENT there is no such repository, revision or file, or it is private and there is
 *          no token for it; offline: the cache does not have it
 *          MICA_EIO the hub cannot be reached, or refuses (the text says why, and for a gated
 *          repository where to ask for access); the disk is full: nothing is downloaded that does
 *          not fit; the cache cannot be written
 *          MICA_EFORMAT the hub's answer is malformed, or a file's checksum is not what the hub
 *          said: the file is dropped
 *          MICA_EUNSUPPORTED the build has no libcurl
 *          MICA_ECANCELLED, MICA_ENOMEM */
MICA_API mica_status mica_pull(const char *name, const mica_pull_options *options, char **folder);

/** Removes a repository from the cache: its snapshots, files and refs, and what mica_gguf_folder
 *  has made of them; of "org/name:quantisation", and of other names that mica_discover gives to
 *  what it has made, that alone.
 *
 *  name    "org/name", or a name of what was made of a GGUF file. Borrowed.
 *  cache   as in mica_pull_options. Borrowed.
 *  bytes   receives the size of the files that were removed; may be NULL.
 *  errors  MICA_ENOENT the cache does not have it; MICA_EINVAL name is malformed; MICA_EBUSY it is
 *          being downloaded, or made of a GGUF file; MICA_EIO a file cannot be removed
 *          MICA_ENOMEM */
MICA_API mica_status mica_cache_remove(const char *name, const char *cache, uint64_t *bytes);

/** Removes what no model of the cache needs: snapshots that no ref names if another one is named,
 *  files that no snapshot links to, and beginnings of files that nobody is downloading; without
 *  `cache` also models that were made of GGUF files which are not there any more, or have changed,
 *  and what conversions that were killed have left. Other folders beside these models stay.
 *
 *  cache   as in mica_pull_options. Borrowed.
 *  dry_run true: only counts.
 *  bytes   receives the size of the files that were, or would be, removed; may be NULL.
 *  errors  MICA_EIO a file cannot be removed; MICA_ENOMEM */
MICA_API mica_status mica_cache_collect(const char *cache, bool dry_run, uint64_t *bytes);

MICA_END

#endif
