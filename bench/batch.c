/* Compares rows that are decoded together with one row alone, in tokens a second of all rows.
 *
 *     batch MODEL [TOKENS [ROWS [THREADS]]]
 *
 * Prompts are short and all rows have TOKENS tokens, so decoding takes nearly all the time. ROWS 0:
 * 1, 2, 4, 8 and so on. THREADS 0: one per core.
 * $MICA_DEVICE names the device. */
#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>

enum { MAX = 16 };

/* Times a run of `rows` rows after one that is not counted: tokens a second of all rows. */
static mica_status measure(const mica_model *model, int rows, int64_t tokens, double *rate) {
    const mica_generate_options options = {.max_tokens = tokens, .ignore_eos = true};
    mica_batch_item items[MAX];
    for (int i = 0; i < rows; i++)
        items[i] = (mica_batch_item){.prompt = "The sea", .options = &options};
    for (int run = 0; run < 2; run++) {
        mica_batch_results *results = NULL;
        double seconds = 0.0;
        mica_status status = mica_batch_generate(model, items, (size_t)rows,
                                                 &(mica_batch_options){.parallel = rows}, &results);
        if (status) return status;
        for (int i = 0; i < rows; i++)
            if (results->rows[i].metrics->decode_seconds > seconds)
                seconds = results->rows[i].metrics->decode_seconds;
        *rate = (double)(tokens - 1) * rows / seconds;
        mica_batch_free(&results);
    }
    return MICA_OK;
}

int main(int argc, char **argv) {
    mica_model *model = NULL;
    double one = 0.0, rate = 0.0;
    int64_t tokens = argc > 2 ? atoi(argv[2]) : 64;
    int rows = argc > 3 ? atoi(argv[3]) : 0, last = rows > 0 ? rows : MAX;
    int threads = argc > 4 ? atoi(argv[4]) : 0;
    if (argc < 2 || tokens < 2 || last > MAX) {
        fprintf(stderr,
                "usage: %s MODEL [TOKENS [ROWS [THREADS]]], at least 2 tokens, at most %d rows\n",
                argv[0], MAX);
        return 2;
    }
    const mica_model_options options = {.threads = threads, .device_name = getenv("MICA_DEVICE")};
    mica_status status = mica_model_open(argv[1], &options, &model);
    printf("rows  tokens/s  of the first\n");
    for (rows = rows > 0 ? rows : 1; !status && rows <= last; rows *= 2) {
        status = measure(model, rows, tokens, &rate);
        if (status) break;
        if (one == 0.0) one = rate;
        printf("%4d  %8.1f  %12.2f\n", rows, rate, rate / one);
        fflush(stdout);
    }
    if (status) fprintf(stderr, "%s\n", mica_last_error());
    mica_model_close(&model);
    return status != MICA_OK;
}
