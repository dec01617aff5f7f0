/* GGUF files as models: the folder that is made of one, and kept. */
#ifndef CLI_GGUF_H
#define CLI_GGUF_H

#include <stdbool.h>

/** Whether a path is a GGUF file, or a folder that holds some and is no model's. */
bool cli_is_gguf(const char *path);

/** The model folder of a GGUF file, made if it is not there, with a line and a progress bar.
 *
 *  path     a GGUF file, or a folder that holds one model. Borrowed.
 *  name     what lists call it; NULL: after the file. Borrowed.
 *  returns  its folder, which lives until the program ends; NULL after it reported an error, whose
 *           exit code is in *code */
const char *cli_gguf_folder(const char *path, const char *name, int *code);

#endif
