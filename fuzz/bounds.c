/* What a fuzzer calls: the target's function, within bounds. An input that takes more than some
 * seconds of CPU (some more where an emulator runs it), or makes the process larger by more than
 * some hundred megabytes, ends it by abort(), so that libFuzzer keeps the input and a replay fails.
 * Time on the wall says nothing on a busy machine, so it does not count. The target's file is
 * compiled with the name LLVMFuzzerTestOneInput replaced by fuzz_target. */
#define _DEFAULT_SOURCE
#define _DARWIN_C_SOURCE

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int fuzz_target(const uint8_t *data, size_t size);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { TIMES = 4 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { TIMES = 4 };
#else
enum { TIMES = 1 };
#endif
#else
enum { TIMES = 1 };
#endif

enum { MAX_SECONDS = 5 * TIMES * MICA_TEST_EMULATED_TIMES, MAX_GROWTH_MB = 256 * TIMES };

static void out_of_time(int signal) {
    static const char text[] = "fuzz: an input took more CPU time than it may\n";
    (void)signal;
    ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)written;
    abort();
}

/* 0 seconds: no bound. */
static void bound_time(time_t seconds) {
    const struct itimerval timer = {.it_value = {.tv_sec = seconds}};
    if (setitimer(ITIMER_PROF, &timer, NULL) != 0) abort();
}

/* The most memory that the process has had. Systems count it in bytes or in units of 1024, and no
 * process begins with 4 GB. */
static size_t peak_mb(void) {
    static size_t unit;
    struct rusage use;
    if (getrusage(RUSAGE_SELF, &use) != 0) abort();
    if (!unit) unit = use.ru_maxrss < 1 << 22 ? 1024 : 1;
    return (size_t)use.ru_maxrss * unit >> 20;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t before = peak_mb();
    if (signal(SIGPROF, out_of_time) == SIG_ERR) abort();
    bound_time(MAX_SECONDS);
    int result = fuzz_target(data, size);
    bound_time(0);
    size_t after = peak_mb();
    if (after - before <= MAX_GROWTH_MB) return result;
    fprintf(stderr, "fuzz: an input of %zu bytes took %zu MB, %d are allowed\n", size,
            after - before, MAX_GROWTH_MB);
    abort();
}
