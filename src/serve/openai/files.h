/* Files as OpenAI's API has them. Threads: any. */
#ifndef SERVE_OPENAI_FILES_H
#define SERVE_OPENAI_FILES_H

#include "serve/common/failure.h"
#include "serve/common/file_store.h"
#include "serve/common/put.h"

/* What is known of a file, as an object. */
void mc_openai_put_file(mc_put *put, const mc_stored_file *file);

/* A file that cannot be written; paths are not told. Returns false. */
bool mc_openai_fail_file(mc_failure *failure, mica_status status);

#endif
