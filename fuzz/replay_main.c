/* Runs a fuzz target over files without libFuzzer: the corpus as a plain test. */
#define _POSIX_C_SOURCE 200809L

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each input is in a block of exactly its size, so that AddressSanitizer detects a read beyond
 * it. */
static int replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) goto bad;
    if (fseek(file, 0, SEEK_END)) goto bad;
    long end = ftell(file);
    if (end < 0) goto bad;
    rewind(file);

    size_t size = (size_t)end;
    uint8_t *data = malloc(size ? size : 1);
    if (!data || fread(data, 1, size, file) != size) {
        free(data);
        goto bad;
    }
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    fclose(file);
    return 0;

bad:
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    if (file) fclose(file);
    return -1;
}

/* Runs a file, or every file of a folder. Returns the number of files, or -1. */
static int replay(const char *path) {
    DIR *dir = opendir(path);
    if (!dir) return errno == ENOTDIR ? (replay_file(path) ? -1 : 1) : -1;

    int count = 0;
    struct dirent *entry;
    while (count >= 0 && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.') continue;
        char name[4096];
        int len = snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        bool fits = len > 0 && (size_t)len < sizeof name;
        count = fits && !replay_file(name) ? count + 1 : -1;
    }
    closedir(dir);
    return count;
}

int main(int argc, char **argv) {
    int total = 0;
    for (int i = 1; i < argc; i++) {
        int count = replay(argv[i]);
        if (count < 0) {
            fprintf(stderr, "cannot replay %s\n", argv[i]);
            return 1;
        }
        total += count;
    }
    printf("%d inputs\n", total);
    return total ? 0 : 1;
}
