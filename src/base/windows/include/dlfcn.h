/* Windows: see windows/posix.h. */
#ifndef POSIX_DLFCN_H
#define POSIX_DLFCN_H

#define RTLD_NOW 2
#define RTLD_LOCAL 0
#define RTLD_GLOBAL 0

/* Looks in the program's folder and the system's, not in the current one. */
void *dlopen(const char *path, int mode) __asm__("mc_posix_dlopen");
void *dlsym(void *library, const char *name) __asm__("mc_posix_dlsym");
int dlclose(void *library) __asm__("mc_posix_dlclose");
typedef struct {
    const char *dli_fname; /* until the same thread asks again */
} Dl_info;
int dladdr(const void *address, Dl_info *info) __asm__("mc_posix_dladdr");
char *dlerror(void) __asm__("mc_posix_dlerror");

#endif
