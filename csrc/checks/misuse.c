/* duo.h as a careless or hostile C program calls it: misuse net.duo
 *
 * Null pointers, numbers that no memory holds, floats at odd addresses, every shorter length of the file,
 * arenas that are just large enough at every address, several threads on one model. Each call must be refused
 * with a sentence or give the same floats as the first run. Built with sanitizers and run by
 * tests/engine/test_misuse.py, so that an access outside of the caller's memory or a race ends it. */
#include <duo.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 3, ROUNDS = 20, THREADS = 4 };

static duo_error error;
static int refusals, runs;

static void expect(int right, const char* what) {
    if (right) return;
    fprintf(stderr, "%s (the last sentence was: %s)\n", what, error.sentence);
    exit(1);
}

/* A call that must be refused with this status, in a sentence that holds these words. */
static void refused(duo_status found, duo_status wanted, const char* words) {
    expect(found == wanted, words);
    expect(strstr(error.sentence, words) != NULL, words);
    error.sentence[0] = 0;
    ++refusals;
}

static void* take(size_t bytes) {
    void* memory = malloc(bytes);
    expect(memory != NULL, "there is not enough memory");
    return memory;
}

typedef struct work {
    const duo_model* model;
    const float *images, *wanted;
    size_t output_bytes;
} work;

/* Runs all images in an arena of exactly the stated size, `offset` bytes after an address of malloc's. */
static void run_at(const work* w, size_t offset) {
    const size_t bytes = duo_arena_bytes(w->model);
    char* arena = take(offset + bytes);
    float* result = take(w->output_bytes);
    const void* inputs[] = {w->images};
    void* outputs[] = {result};
    memset(arena, 0xFF, offset + bytes);
    if (duo_run(w->model, IMAGES, inputs, outputs, arena + offset, bytes, NULL) ||
        memcmp(result, w->wanted, w->output_bytes)) {
        fputs("a run failed or gave other floats\n", stderr);
        exit(1);
    }
    free(arena), free(result);
}

static void* run_often(void* argument) {
    for (size_t i = 0; i < ROUNDS; ++i) run_at(argument, i);
    return NULL;
}

static void run_together(work* w) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; ++i) expect(!pthread_create(&threads[i], NULL, run_often, w), "no thread");
    for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
    runs += THREADS * ROUNDS;
}

static void null_pointers(const duo_model* model, const void* bytes, size_t size) {
    duo_model* other = NULL;
    duo_tensor tensor;
    duo_pool* pool;
    size_t length = 1;
    refused(duo_open(NULL, NULL, &other, &error), DUO_BAD_ARGUMENT, "null pointer");
    refused(duo_open("net.duo", NULL, NULL, &error), DUO_BAD_ARGUMENT, "null pointer");
    refused(duo_open_memory(NULL, size, NULL, &other, &error), DUO_BAD_ARGUMENT, "null pointer");
    refused(duo_open_memory(bytes, size, NULL, NULL, &error), DUO_BAD_ARGUMENT, "null pointer");
    refused(duo_input(NULL, 0, &tensor, &error), DUO_BAD_ARGUMENT, "duo_input was given a null pointer");
    refused(duo_output(NULL, 0, &tensor, &error), DUO_BAD_ARGUMENT, "duo_output was given a null pointer");
    refused(duo_tensor_of(NULL, 0, &tensor, &error), DUO_BAD_ARGUMENT,
            "duo_tensor_of was given a null pointer");
    refused(duo_input(model, 0, NULL, &error), DUO_BAD_ARGUMENT, "null pointer");
    refused(duo_output(model, 0, NULL, &error), DUO_BAD_ARGUMENT, "null pointer");
    refused(duo_tensor_of(model, 0, NULL, &error), DUO_BAD_ARGUMENT, "null pointer");
    refused(duo_input(model, 1, &tensor, &error), DUO_BAD_ARGUMENT, "there is no input 1: the model has 1");
    refused(duo_output(model, SIZE_MAX, &tensor, &error), DUO_BAD_ARGUMENT, "there is no output");
    refused(duo_tensor_of(model, SIZE_MAX, &tensor, &error), DUO_BAD_ARGUMENT, "there is no tensor");
    refused(duo_pool_open(0, &pool, &error), DUO_BAD_ARGUMENT, "1 to 256 threads");
    refused(duo_pool_open(SIZE_MAX, &pool, &error), DUO_BAD_ARGUMENT, "1 to 256 threads");
    refused(duo_pool_open(1, NULL, &error), DUO_BAD_ARGUMENT, "null pointer");
    expect(!duo_inputs(NULL) && !duo_outputs(NULL) && !duo_tensors(NULL), "what no model has");
    expect(!duo_operations(NULL) && !duo_arena_bytes(NULL), "what no model has");
    expect(!*duo_instruction_set(NULL) && !*duo_kernel(NULL, 0), "what no model has");
    expect(!*duo_kernel(model, SIZE_MAX), "the kernel of no operation");
    expect(duo_metadata(NULL, &length) && !length, "the metadata of no model");
    expect(duo_metadata(model, NULL) != NULL, "metadata without a length");
    duo_close(NULL), duo_pool_close(NULL);
}

static void bad_runs(const work* w) {
    const size_t bytes = duo_arena_bytes(w->model);
    char *arena = take(bytes), *odd = take(w->output_bytes + 1);
    const void *inputs[] = {w->images}, *no_inputs[] = {NULL}, *odd_inputs[] = {(const char*)w->images + 1};
    void *outputs[] = {odd}, *no_outputs[] = {NULL}, *odd_outputs[] = {odd + 1};
    const duo_status bad = DUO_BAD_ARGUMENT;
    const duo_model* m = w->model;
    refused(duo_run(NULL, 1, inputs, outputs, arena, bytes, &error), bad, "null pointer");
    refused(duo_run(m, 1, NULL, outputs, arena, bytes, &error), bad, "null pointer");
    refused(duo_run(m, 1, inputs, NULL, arena, bytes, &error), bad, "null pointer");
    refused(duo_run(m, 1, inputs, outputs, NULL, bytes, &error), bad, "null pointer");
    refused(duo_run(m, 1, no_inputs, outputs, arena, bytes, &error), bad, "input 0 is a null pointer");
    refused(duo_run(m, 1, inputs, no_outputs, arena, bytes, &error), bad, "output 0 is a null pointer");
    refused(duo_run(m, 1, odd_inputs, outputs, arena, bytes, &error), bad,
            "input 0 must lie at a multiple of 4");
    refused(duo_run(m, 1, inputs, odd_outputs, arena, bytes, &error), bad,
            "output 0 must lie at a multiple of 4");
    refused(duo_run(m, 1, inputs, outputs, arena, bytes - 1, &error), bad, "the arena has");
    refused(duo_run(m, 1, inputs, outputs, arena, 0, &error), bad, "the arena has 0 bytes and must have");
    refused(duo_run(m, SIZE_MAX, inputs, outputs, arena, bytes, &error), bad, "more than memory can hold");
    refused(duo_run(m, SIZE_MAX / 8, inputs, outputs, arena, bytes, &error), bad,
            "more than memory can hold");
    expect(duo_run(m, 1, inputs, outputs, arena, 0, NULL) == bad, "a refusal without room for a sentence");
    expect(!duo_run(m, 0, no_inputs, no_outputs, arena, bytes, &error), "no images at all");
    free(arena), free(odd);
}

static void bad_options(const char* path, const void* bytes, size_t size) {
    duo_model* model;
    for (int shift = 4; shift < 64; shift += 4) {
        duo_options options = {0};
        options.together = (size_t)1 << shift;
        duo_status status = duo_open_memory(bytes, size, &options, &model, &error);
        expect(status == DUO_OK || status == DUO_NO_MEMORY, "many images together");
        if (!status) expect(duo_arena_bytes(model) > options.together, "an arena smaller than its images");
        duo_close(model);
        options.together = 1, options.threads = (size_t)1 << shift, options.share = duo_pool_share;
        status = duo_open_memory(bytes, size, &options, &model, &error);
        expect(status == DUO_OK || status == DUO_NO_MEMORY, "many threads");
        if (!status) expect(duo_arena_bytes(model) > options.threads, "an arena smaller than its threads");
        duo_close(model);
    }
    duo_options options = {0};
    options.threads = 2;
    refused(duo_open(path, &options, &model, &error), DUO_BAD_ARGUMENT, "options ask for 2 threads");
    expect(model == NULL, "a model after a refusal");
    refused(duo_open("/", NULL, &model, &error), DUO_UNREADABLE, "cannot be read");
    refused(duo_open("", NULL, &model, &error), DUO_UNREADABLE, "cannot be read");
    char* odd = take(size + 1);
    memcpy(odd + 1, bytes, size);
    refused(duo_open_memory(odd + 1, size, NULL, &model, &error), DUO_BAD_ARGUMENT, "multiple of 4");
    free(odd);
    for (size_t shorter = 0; shorter < size;
         shorter += shorter < 4096 ? 1 : 997) { /* exactly so much memory */
        char* part = take(shorter ? shorter : 1);
        memcpy(part, bytes, shorter);
        refused(duo_open_memory(part, shorter, NULL, &model, &error), DUO_BAD_FORMAT, "not a packed model");
        free(part);
    }
}

int main(int count, char** words) {
    expect(count == 2, "usage: misuse net.duo");
    FILE* file = fopen(words[1], "rb");
    expect(file && !fseek(file, 0, SEEK_END), "the file cannot be read");
    const size_t size = (size_t)ftell(file);
    char* bytes = take(size);
    rewind(file);
    expect(fread(bytes, size, 1, file) == 1, "the file cannot be read");
    fclose(file);

    duo_model *model, *from_memory, *threaded, *alone;
    duo_tensor in, out;
    duo_pool* pool;
    expect(!duo_open(words[1], NULL, &model, &error), "open");
    expect(!duo_input(model, 0, &in, &error) && !duo_output(model, 0, &out, &error), "describe");
    float *images = take(IMAGES * in.bytes), *wanted = take(IMAGES * out.bytes);
    for (size_t i = 0; i < IMAGES * in.bytes / sizeof *images; ++i) images[i] = (float)(i % 23) / 11 - 1;
    const void* inputs[] = {images};
    void *outputs[] = {wanted}, *arena = take(duo_arena_bytes(model));
    expect(!duo_run(model, IMAGES, inputs, outputs, arena, duo_arena_bytes(model), &error), "run");
    free(arena);

    work w = {model, images, wanted, IMAGES * out.bytes};
    null_pointers(model, bytes, size);
    bad_runs(&w);
    bad_options(words[1], bytes, size);
    for (size_t offset = 0; offset < 64; ++offset, ++runs) run_at(&w, offset);
    run_together(&w);

    duo_options options = {0};
    options.threads = 3, options.share = duo_pool_share;
    expect(!duo_open_memory(bytes, size, &options, &alone, &error), "share without a pool");
    w.model = alone;
    run_together(&w); /* works alone */
    expect(!duo_pool_open(3, &pool, &error), "a pool");
    options.pool = pool, options.together = 1;
    expect(!duo_open(words[1], &options, &threaded, &error), "open with threads");
    w.model = threaded;
    run_together(&w); /* one at a time has the pool, the others work alone */
    duo_close(threaded), duo_close(alone), duo_pool_close(pool);
    options.together = 2, options.threads = 1;
    expect(!duo_open_memory(bytes, size, &options, &from_memory, &error), "open from memory");
    duo_close(model); /* the other model keeps what it needs */
    w.model = from_memory;
    run_together(&w);
    duo_close(from_memory);
    free(bytes), free(images), free(wanted);
    printf("%d calls were refused, %d runs agree\n", refusals, runs);
    return 0;
}
