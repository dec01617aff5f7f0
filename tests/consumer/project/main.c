/* What any user of the library does first: takes a version, opens something, reads an error. */
#include <mica/status.h>
#include <mica/tokenizer.h>
#include <mica/version.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc != 2 || strcmp(mica_version(), MICA_VERSION)) return 2;

    mica_tokenizer *tok;
    if (mica_tokenizer_open("/nowhere", &tok) == MICA_OK || !*mica_last_error()) return 3;
    if (mica_tokenizer_open(argv[1], &tok) != MICA_OK) {
        fprintf(stderr, "%s\n", mica_last_error());
        return 4;
    }
    printf("mica %s, %zu tokens\n", mica_version(), mica_tokenizer_vocab_size(tok));
    mica_tokenizer_close(&tok);
    return 0;
}
