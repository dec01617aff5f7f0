#include "path.h"

bool cli_is_slash(char byte) {
    return byte == '/';
}

bool cli_path_is_whole(const char *path) {
    return *path == '/';
}
