/* Compares texts by embeddings. Each text becomes a vector of length 1, and the dot product of two
 * vectors is the cosine of the angle between them. */
#include <mica/mica.h>

#include <stdio.h>

enum { TEXTS = 4 };

static double product(const float *a, const float *b, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : "models/default";
    static const char *const texts[TEXTS] = {
        "vim is a text editor.",
        "emacs is a text editor.",
        "nginx is a web server.",
        "apache2 is a web server.",
    };
    const mica_embed_options options = {.normalise = true};
    float *vectors[TEXTS] = {NULL};
    size_t n = 0;
    mica_model *model = NULL;

    mica_status status = mica_model_open(folder, NULL, &model);
    for (int i = 0; !status && i < TEXTS; i++)
        status = mica_embed(model, texts[i], 0, &options, &vectors[i], &n);
    for (int i = 0; !status && i < TEXTS; i++) {
        for (int j = 0; j < TEXTS; j++)
            printf("%6.3f", product(vectors[i], vectors[j], n));
        printf("  %s\n", texts[i]);
    }
    if (status) fprintf(stderr, "%s\n", mica_last_error());
    for (int i = 0; i < TEXTS; i++)
        mica_free(vectors[i]);
    mica_model_close(&model);
    return status != MICA_OK;
}
