/* Classifies images with a packed model: classify net.duo images.f32
 *
 * images.f32 holds float32 numbers, N x C x H x W, prepared as in training. One line is printed for each
 * image: its class and the class's logit. cc classify.c $(pkg-config --cflags --libs binaryduo) -o classify
 */
#include <duo.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char* sentence) {
    fprintf(stderr, "%s\n", sentence);
    return 1;
}

int main(int count, char** words) {
    if (count != 3) return fail("usage: classify net.duo images.f32");
    duo_error error;
    duo_model* model;
    duo_tensor in, out;
    if (duo_open(words[1], NULL, &model, &error)) return fail(error.sentence);
    if (duo_input(model, 0, &in, &error) || duo_output(model, 0, &out, &error)) return fail(error.sentence);

    size_t arena_bytes = duo_arena_bytes(model), classes = out.bytes / sizeof(float);
    void* arena = malloc(arena_bytes);
    float *image = malloc(in.bytes), *logits = malloc(out.bytes);
    FILE* file = fopen(words[2], "rb");
    if (!arena || !image || !logits) return fail("there is not enough memory");
    if (!file) return fail("the images cannot be read");

    const void* inputs[] = {image};
    void* outputs[] = {logits};
    while (fread(image, in.bytes, 1, file) == 1) {
        if (duo_run(model, 1, inputs, outputs, arena, arena_bytes, &error)) return fail(error.sentence);
        size_t best = 0;
        for (size_t i = 1; i < classes; ++i)
            if (logits[i] > logits[best]) best = i;
        printf("%zu %.9g\n", best, logits[best]);
    }
    fclose(file);
    free(image), free(logits), free(arena);
    duo_close(model);
    return 0;
}
