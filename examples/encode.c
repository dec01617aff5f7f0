/* A text encoder of an ONNX file at any length: one program, whose lengths are those of each run.
 * Texts go alone and as a batch that is filled up to the longest one; a mask says what is there, so
 * that their vectors are the same. Tokens are bytes here. */
#include <mica/mica.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TEXTS = 3, LONGEST = 80, DIM = 16 };

/* Vectors [n, DIM] of texts. */
static mica_status encode(mica_executable *exe, mica_scope *s, const char *const *texts, int n,
                          float *vectors) {
    int64_t ids[TEXTS * LONGEST] = {0}, mask[TEXTS * LONGEST] = {0}, longest = 0;
    mica_array vector;
    for (int i = 0; i < n; i++)
        if ((int64_t)strlen(texts[i]) > longest) longest = (int64_t)strlen(texts[i]);
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; texts[i][k] != '\0'; k++) {
            ids[i * longest + k] = texts[i][k];
            mask[i * longest + k] = 1;
        }
    const int64_t shape[] = {n, longest};
    const mica_input inputs[] = {
        {.name = "ids", .array = mica_from_data(s, ids, MICA_I64, shape, 2)},
        {.name = "mask", .array = mica_from_data(s, mask, MICA_I64, shape, 2)}};
    mica_status status = mica_executable_run(exe, inputs, 2, s, &vector);
    return status ? status : mica_read(vector, vectors, (size_t)n * DIM * sizeof *vectors);
}

/* Prints how near texts are; *off: how far vectors are that were computed alone. */
static mica_status compare(mica_executable *exe, mica_scope *s, float *off) {
    static const char *const texts[TEXTS] = {"a cat sat on the mat", "cats sit on mats",
                                             "0x7F, 3.14159, 6.02214e23 and 42"};
    float all[TEXTS][DIM], one[DIM];
    mica_status status = encode(exe, s, texts, TEXTS, all[0]);
    for (int i = 0; !status && i < TEXTS; i++) {
        status = encode(exe, s, &texts[i], 1, one);
        for (int k = 0; !status && k < DIM; k++)
            *off = fmaxf(*off, fabsf(one[k] - all[i][k]));
        for (int j = 0; !status && j < TEXTS; j++) {
            float product = 0;
            for (int k = 0; k < DIM; k++)
                product += all[i][k] * all[j][k];
            printf("%6.3f", (double)product);
        }
        if (!status) printf("  %s\n", texts[i]);
    }
    return status;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "examples/data/encode.onnx";
    mica_device *device = NULL;
    mica_scope *s = NULL;
    mica_program *program = NULL;
    mica_executable *exe = NULL;
    float off = 0;
    mica_status status = mica_device_open("cpu", NULL, &device);
    if (!status) status = mica_scope_open(device, &s);
    if (!status) status = mica_onnx_load(device, path, NULL, &program);
    if (!status) status = mica_executable_open(program, NULL, &exe);
    if (!status) status = compare(exe, s, &off);
    if (status) fprintf(stderr, "%s\n", mica_last_error());
    mica_executable_close(&exe);
    mica_program_close(&program);
    mica_scope_close(&s);
    mica_device_close(&device);
    return status != MICA_OK || !(off < 1e-5f);
}
