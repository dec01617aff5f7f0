#include "path.h"

bool cli_is_slash(char byte) {
    return byte == '/' || byte == '\\';
}

bool cli_path_is_whole(const char *path) {
    bool disk = ((*path | 32) >= 'a' && (*path | 32) <= 'z') && path[1] == ':';
    return cli_is_slash(path[disk ? 2 : 0]);
}
