/* Measures the limits of the machine, for comparison with rates: reading memory, and multiplying.
 *
 *     roofline [THREADS [FILE]]
 *
 * FILE: times a plain loop that reads the mapped file alone. For a model's weights this is about
 * the largest possible decoding rate. Reading is measured for working sets of several sizes, in
 * pages of 4 KiB and in large pages. A decoded token reads every weight once, so GB/s divided by
 * the bytes of the weights limits its rate. Multiplying is measured for the instructions that
 * kernels use, if the machine has them. Rates are of all threads together, and the best of a few
 * runs, except for FILE, which is one long run. */
#define _DEFAULT_SOURCE

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "timing.h"

enum { MAX_THREADS = 64, RUNS = 3, ROUNDS = 4000000 };
static const double short_time = 0.3, long_time = 2; /* seconds of reading */

/* The compiler splits it into the machine's registers. */
typedef uint64_t vector __attribute__((vector_size(64)));

#if defined __x86_64__
#define ISA(list) __attribute__((target(list)))
#else
#define ISA(list)
#endif

/* n a multiple of 256 bytes, p of 64. */
#define READ(p, n)                                       \
    const vector *v = (const vector *)(const void *)(p); \
    vector a = v[0], b = a, c = a, d = a;                \
    for (size_t i = 0; i < (n) / sizeof *v; i += 4) {    \
        a ^= v[i];                                       \
        b ^= v[i + 1];                                   \
        c ^= v[i + 2];                                   \
        d ^= v[i + 3];                                   \
    }                                                    \
    a ^= b ^ c ^ d;                                      \
    return a[0] ^ a[1] ^ a[2] ^ a[3] ^ a[4] ^ a[5] ^ a[6] ^ a[7]

static uint64_t read_plain(const char *p, size_t n) {
    READ(p, n);
}

#if defined __x86_64__

ISA("avx2") static uint64_t read_avx2(const char *p, size_t n) {
    READ(p, n);
}
ISA("avx512f") static uint64_t read_avx512(const char *p, size_t n) {
    READ(p, n);
}

/* Twelve independent sums, ROUNDS times. */
#define TO(sum) " %12, %13, %" #sum "\n"
#define MULTIPLY(name, isa, type, ins)                                                             \
    ISA(isa) static void name(void) {                                                              \
        type s[12] = {{0}}, x = {0};                                                               \
        for (int i = 0; i < ROUNDS; i++)                                                           \
            __asm__ volatile(ins TO(0) ins TO(1) ins TO(2) ins TO(3) ins TO(4) ins TO(5) ins TO(6) \
                                 ins TO(7) ins TO(8) ins TO(9) ins TO(10) ins TO(11)               \
                             : "+x"(s[0]), "+x"(s[1]), "+x"(s[2]), "+x"(s[3]), "+x"(s[4]),         \
                               "+x"(s[5]), "+x"(s[6]), "+x"(s[7]), "+x"(s[8]), "+x"(s[9]),         \
                               "+x"(s[10]), "+x"(s[11])                                            \
                             : "x"(x), "x"(x));                                                    \
    }

typedef float floats_32 __attribute__((vector_size(32)));
typedef float floats_64 __attribute__((vector_size(64)));

MULTIPLY(fma_ymm, "avx2,fma", floats_32, "vfmadd231ps")
MULTIPLY(fma_zmm, "avx512f", floats_64, "vfmadd231ps")
MULTIPLY(bf16_zmm, "avx512f,avx512bf16", floats_64, "vdpbf16ps")
MULTIPLY(int8_ymm, "avx512vl,avx512vnni", floats_32, "vpdpbusd")
MULTIPLY(int8_zmm, "avx512f,avx512vnni", floats_64, "vpdpbusd")

#define HAS(feature) __builtin_cpu_supports(feature)
#else
#define HAS(feature) 0
#endif

/* One thread's work: multiplying, or reading [bytes] at data. */
typedef struct work {
    void (*multiply)(void);
    uint64_t (*read)(const char *p, size_t n);
    const char *data;
    size_t bytes;
    atomic_int *waiting; /* number of threads that have not begun */
    double min;          /* seconds of reading */
    double amount;       /* rounds, or bytes read */
    double seconds;
    volatile uint64_t sink;
} work;

static void *run(void *arg) {
    work *w = arg;
    atomic_fetch_sub(w->waiting, 1);
    while (atomic_load(w->waiting) > 0) {}
    double start = seconds_of(CLOCK_MONOTONIC);
    if (w->multiply) {
        w->multiply();
        w->amount = ROUNDS;
    }
    for (; w->read && seconds_of(CLOCK_MONOTONIC) - start < w->min; w->amount += (double)w->bytes)
        w->sink = w->read(w->data, w->bytes);
    w->seconds = seconds_of(CLOCK_MONOTONIC) - start;
    return NULL;
}

/* The best rate of a few runs of all threads together, in `amount` a second. */
static double measure(int threads, int runs, const work *what) {
    double best = 0;
    for (int r = 0; r < runs; r++) {
        pthread_t ids[MAX_THREADS];
        work works[MAX_THREADS];
        atomic_int waiting = threads;
        double rate = 0;
        for (int i = 0; i < threads; i++) {
            works[i] = *what;
            works[i].bytes = what->bytes / (size_t)threads & ~(size_t)255;
            works[i].data = what->data + (size_t)i * works[i].bytes;
            works[i].waiting = &waiting;
            if (pthread_create(&ids[i], NULL, run, &works[i])) exit(1);
        }
        for (int i = 0; i < threads; i++) {
            pthread_join(ids[i], NULL);
            rate += works[i].amount / works[i].seconds;
        }
        if (rate > best) best = rate;
    }
    return best;
}

static void print_multiplying(int threads) {
#if defined __x86_64__
    const struct {
        const char *name;
        int has;
        void (*multiply)(void);
        int operations; /* operations of one instruction */
    } table[] = {
        {"f32 256 bit", HAS("avx2") && HAS("fma"), fma_ymm, 16},
        {"f32 512 bit", HAS("avx512f"), fma_zmm, 32},
        {"bf16 512 bit", HAS("avx512bf16"), bf16_zmm, 64},
        {"int8 256 bit", HAS("avx512vl") && HAS("avx512vnni"), int8_ymm, 64},
        {"int8 512 bit", HAS("avx512vnni"), int8_zmm, 128},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].has)
            printf("%7d  %-14s %8.1f Gop/s\n", threads, table[i].name,
                   12.0 * table[i].operations *
                       measure(threads, RUNS, &(work){.multiply = table[i].multiply}) * 1e-9);
#else
    (void)threads;
#endif
}

static double reading_rate(int threads, int runs, double seconds, const char *data, size_t bytes) {
    work what = {.read = read_plain, .data = data, .bytes = bytes, .min = seconds};
#if defined __x86_64__
    if (HAS("avx2")) what.read = read_avx2;
    if (HAS("avx512f")) what.read = read_avx512;
#endif
    return measure(threads, runs, &what);
}

static void print_reading(int threads, char *const data[2]) {
    static const size_t sizes[] = {1, 4, 16, 64, 256, 1024}; /* MiB */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double rates[2];
        for (int large = 0; large < 2; large++)
            rates[large] =
                1e-9 * reading_rate(threads, RUNS, short_time, data[large], sizes[i] << 20);
        printf("%7d  read %5zu MiB %8.1f GB/s, large pages %8.1f\n", threads, sizes[i], rates[0],
               rates[1]);
        fflush(stdout);
    }
}

/* The first run touches the pages, and the second one counts. */
static int print_file(int threads, const char *path) {
    struct stat about;
    int file = open(path, O_RDONLY);
    void *data = MAP_FAILED;
    if (file >= 0 && fstat(file, &about) == 0)
        data = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (file >= 0) close(file);
    if (data == MAP_FAILED) {
        perror(path);
        return 1;
    }
    size_t bytes = (size_t)about.st_size;
    reading_rate(threads, 1, short_time, data, bytes);
    double rate = reading_rate(threads, 1, long_time, data, bytes);
    printf("%d threads: %.1f GB/s, %.2f times a second\n", threads, rate * 1e-9,
           rate / (double)bytes);
    munmap(data, bytes);
    return 0;
}

int main(int argc, char **argv) {
    enum { BYTES = 1 << 30 };
    int max = argc > 1 ? atoi(argv[1]) : 2;
    char *data[2];
    if (max < 1 || max > MAX_THREADS) {
        fprintf(stderr, "usage: roofline [THREADS [FILE]], at most %d\n", MAX_THREADS);
        return 2;
    }
    if (argc > 2) return print_file(max, argv[2]);
    for (int large = 0; large < 2; large++) {
        data[large] = aligned_alloc(2 << 20, BYTES); /* whole large pages */
        if (data[large] == NULL) {
            perror("roofline: 1 GiB of memory");
            return 1;
        }
#if defined MADV_HUGEPAGE
        madvise(data[large], BYTES, large ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#endif
        memset(data[large], 1, BYTES);
    }
    printf("threads  what\n");
    for (int threads = 1; threads <= max; threads *= 2) {
        print_multiplying(threads);
        print_reading(threads, data);
    }
    free(data[0]);
    free(data[1]);
    return 0;
}
