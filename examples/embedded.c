/* The same on a device without a file system, threads, or a heap that a run may use: the model is a constant
 * array (binaryduo pack RUN net.duo --c-array), and all memory of a run is the array `arena`.
 *
 * Build libbinaryduo with -DBINARYDUO_THREADS=OFF -DBINARYDUO_FILES=OFF. Only duo_open_memory allocates:
 * thresholds in the form that kernels compare, and 16-bit weights as floats. */
#include <duo.h>
#include <stdio.h>

#include "net.h"

#ifndef ARENA_BYTES
#define ARENA_BYTES (1024 * 1024) /* too little is said, with the number that is needed */
#endif
static unsigned char arena[ARENA_BYTES];
static float image[3 * 32 * 32], logits[1000];

int main(void) {
    duo_options options = {0};
    options.together = 1; /* the smallest arena */
    duo_error error;
    duo_model* model;
    duo_tensor in, out;
    if (duo_open_memory(net, sizeof net, &options, &model, &error) || duo_input(model, 0, &in, &error) ||
        duo_output(model, 0, &out, &error))
        return puts(error.sentence), 1;
    if (in.bytes > sizeof image || out.bytes > sizeof logits) return puts("the model is too large"), 1;
    for (size_t i = 0; i < in.bytes / sizeof(float); ++i)
        image[i] = (float)(i % 17) / 16 - 0.5f; /* a camera's */

    const void* inputs[] = {image};
    void* outputs[] = {logits};
    if (duo_run(model, 1, inputs, outputs, arena, sizeof arena, &error)) return puts(error.sentence), 1;
    for (size_t i = 0; i < out.bytes / sizeof(float); ++i) printf("%.9g\n", logits[i]);
    duo_close(model);
    return 0;
}
