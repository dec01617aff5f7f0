/* Detection: a network that finds light squares, of which those that overlap a better one are left
 * out (NonMaxSuppression). One program for images of any size; how many boxes there are depends on
 * the image, and the arrays are as long. */
#include <mica/mica.h>

#include <stdio.h>

enum { SQUARE = 8, SQUARES = 3, MAX_PIXELS = 160 * 160 };

/* A dark image [height, width] with light squares at pixels (x, y). */
static void draw(float *image, int64_t height, int64_t width, const int at[SQUARES][2]) {
    for (int64_t i = 0; i < height * width; i++)
        image[i] = 0.1f;
    for (int k = 0; k < SQUARES; k++)
        for (int y = 0; y < SQUARE; y++)
            for (int x = 0; x < SQUARE; x++)
                image[(at[k][1] + y) * width + at[k][0] + x] = 1;
}

/* Prints the boxes that are found; *right: they are those of the squares. */
static mica_status detect(mica_executable *exe, mica_scope *s, int64_t height, int64_t width,
                          const int at[SQUARES][2], bool *right) {
    static float image[MAX_PIXELS];
    float boxes[SQUARES][4], scores[SQUARES];
    mica_array found[3]; /* boxes, scores, and how many there are */
    const int64_t shape[] = {1, 1, height, width};
    draw(image, height, width, at);
    const mica_input input = {.name = "image",
                              .array = mica_from_data(s, image, MICA_F32, shape, 4)};
    mica_status status = mica_executable_run(exe, &input, 1, s, found);
    if (status) return status;
    int64_t count = mica_array_dim(found[0], 0);
    printf("%lld squares in %lld by %lld pixels\n", (long long)count, (long long)width,
           (long long)height);
    *right = *right && count == SQUARES;
    if (count != SQUARES) return MICA_OK;
    status = mica_read(found[0], boxes, sizeof boxes);
    if (!status) status = mica_read(found[1], scores, sizeof scores);
    for (int i = 0; !status && i < SQUARES; i++) {
        bool drawn = false;
        for (int k = 0; k < SQUARES; k++)
            drawn = drawn || (boxes[i][0] == (float)at[k][0] && boxes[i][1] == (float)at[k][1]);
        *right = *right && drawn;
        printf("  %g,%g to %g,%g: %.3f\n", (double)boxes[i][0], (double)boxes[i][1],
               (double)boxes[i][2], (double)boxes[i][3], (double)scores[i]);
    }
    return status;
}

int main(int argc, char **argv) {
    static const int at[SQUARES][2] = {{6, 4}, {40, 20}, {10, 30}};
    const char *path = argc > 1 ? argv[1] : "examples/data/detect.onnx";
    mica_device *device = NULL;
    mica_scope *s = NULL;
    mica_program *program = NULL;
    mica_executable *exe = NULL;
    bool right = true;
    mica_status status = mica_device_open("cpu", NULL, &device);
    if (!status) status = mica_scope_open(device, &s);
    if (!status) status = mica_onnx_load(device, path, NULL, &program);
    if (!status) status = mica_executable_open(program, NULL, &exe);
    if (!status) status = detect(exe, s, 48, 64, at, &right);
    if (!status) status = detect(exe, s, 90, 132, at, &right);
    if (status) fprintf(stderr, "%s\n", mica_last_error());
    mica_executable_close(&exe);
    mica_program_close(&program);
    mica_scope_close(&s);
    mica_device_close(&device);
    return status != MICA_OK || !right;
}
