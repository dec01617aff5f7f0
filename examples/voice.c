/* Voice activity in a stream: frames of 10 ms go through a network with a memory, whose state is a
 * result that feeds its parameter (mica_executable_feed). The sound is noise, then a voice, then
 * noise; its places are printed. */
#include <mica/mica.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { RATE = 16000, FRAME = 160, SECOND = RATE / FRAME, FRAMES = 3 * SECOND };

/* Numbers that look random: -1 to 1. */
static float noise(void) {
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / (1 << 23) - 1;
}

/* Frame number `at` of the sound: a voice has the harmonics of a tone. */
static void listen(int at, float frame[FRAME]) {
    for (int i = 0; i < FRAME; i++) {
        float t = (float)(at * FRAME + i) / RATE, voice = 0;
        for (int k = 1; at >= SECOND && at < 2 * SECOND && k < 12; k++)
            voice += sinf(2 * 3.14159265f * 140 * (float)k * t) / (float)k;
        frame[i] = 0.08f * noise() + 0.2f * voice;
    }
}

/* Prints where a voice begins and ends; *right: within 50 ms of where it does. */
static mica_status watch(mica_executable *exe, mica_scope *s, bool *right) {
    float frame[FRAME], probability = 0;
    bool speaks = false;
    mica_array results[2];
    mica_status status = mica_executable_fill(exe, "state", 0);
    if (!status) status = mica_executable_feed(exe, "next", "state");
    for (int at = 0; !status && at < FRAMES; at++) {
        listen(at, frame);
        const mica_input input = {.name = "frame", .data = frame, .bytes = sizeof frame};
        status = mica_executable_run(exe, &input, 1, s, results);
        if (!status) status = mica_read(results[0], &probability, sizeof probability);
        if (status || (probability > 0.5f) == speaks) continue;
        speaks = !speaks;
        printf("%.2f s: %s\n", (double)at / SECOND, speaks ? "a voice" : "no voice");
        *right = *right && abs(at - (speaks ? SECOND : 2 * SECOND)) <= SECOND / 20;
    }
    *right = *right && !speaks;
    return status;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "examples/data/voice.onnx";
    mica_device *device = NULL;
    mica_scope *s = NULL;
    mica_program *program = NULL;
    mica_executable *exe = NULL;
    bool right = true;
    mica_status status = mica_device_open("cpu", NULL, &device);
    if (!status) status = mica_scope_open(device, &s);
    if (!status) status = mica_onnx_load(device, path, NULL, &program);
    if (!status) status = mica_executable_open(program, NULL, &exe);
    if (!status) status = watch(exe, s, &right);
    if (status) fprintf(stderr, "%s\n", mica_last_error());
    mica_executable_close(&exe);
    mica_program_close(&program);
    mica_scope_close(&s);
    mica_device_close(&device);
    return status != MICA_OK || !right;
}
