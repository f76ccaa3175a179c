/* Packed binary networks in any program: open a .duo file, give it images, take the results.
 *
 *     duo_error error;
 *     duo_model *model;
 *     if (duo_open("net.duo", NULL, &model, &error)) return puts(error.sentence);
 *     void *arena = malloc(duo_arena_bytes(model));
 *     const void *inputs[] = {image};                  N x C x H x W numbers for each input, floats or bytes:
 *                                                      see duo_input
 *     void *outputs[] = {logits};                      N x C x H x W floats for each output
 *     duo_run(model, 1, inputs, outputs, arena, duo_arena_bytes(model), &error);
 *
 * A model is constant once it is open: any number of threads may run it at the same time, each with an arena
 * of its own. A run allocates nothing. There is no global state, and nothing is ever thrown: every function
 * that can fail returns a duo_status and writes one sentence into `error`, which may be NULL.
 *
 * docs/c_api.md explains it, docs/format.md is the file format. */
#ifndef BINARYDUO_DUO_H
#define BINARYDUO_DUO_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define DUO_API
#else
#define DUO_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum duo_status {
    DUO_OK = 0,
    DUO_BAD_ARGUMENT = 1, /* a null pointer, a number out of range, an arena that is too small */
    DUO_UNREADABLE = 2,   /* the file cannot be read */
    DUO_BAD_FORMAT = 3,   /* it is not a packed model, or has been altered */
    DUO_NO_MEMORY = 4,    /* more memory is needed than there is */
    DUO_NO_THREADS = 5    /* the system starts no more threads, or this build has none */
} duo_status;

/* What went wrong, in one sentence that ends with a zero byte. It means nothing after a success. */
typedef struct duo_error {
    char sentence[384];
} duo_error;

typedef struct duo_model duo_model;

/* ---- Opening ---- */

/* Calls task(work, item, thread) for each item from 0 to items - 1, on at most `threads` threads, and returns
 * when all are done. `thread` is below `threads`, and no two calls at the same time have the same. */
typedef void (*duo_task)(void* work, size_t item, size_t thread);
typedef void (*duo_share)(void* pool, size_t threads, size_t items, duo_task task, void* work);

/* Zero where you have no wish. */
typedef struct duo_options {
    size_t threads;   /* that share the work of a run; 0 means 1. More than 1 needs `share` */
    duo_share share;  /* duo_pool_share, or a function that puts work on threads of your own */
    void* pool;       /* its first argument */
    size_t together;  /* images that go through the network together: more are faster and need a larger arena;
                         0 means as many as fit into about 4 MiB */
    const char* name; /* what sentences call the model; NULL: its path, or "the memory". Empty: not at all */
} duo_options;

/* Maps the file. Every checksum is verified and every length and number checked before anything is used. Do
 * not overwrite a file in place while it is open: replace it. */
DUO_API duo_status duo_open(const char* path, const duo_options* options, duo_model** model,
                            duo_error* error);

/* The same for a file's bytes in memory, at a multiple of 4. They are neither copied nor changed and must
 * stay until duo_close. */
DUO_API duo_status duo_open_memory(const void* bytes, size_t size, const duo_options* options,
                                   duo_model** model, duo_error* error);

/* Once for each model, when no run uses it any more. NULL is allowed. */
DUO_API void duo_close(duo_model* model);

/* ---- Describing ---- */

typedef enum duo_kind {
    DUO_FLOAT32 = 0,
    DUO_BITS = 1, /* inside a network only, see duo_tensor */
    DUO_UINT8 = 2 /* an input alone: pixels from 0 to 255, which the network normalises by itself */
} duo_kind;

/* Inputs and outputs are N x C x H x W in the caller's memory; a flat one is N x C x 1 x 1.
 *
 * Inside the network a tensor lies pixel by pixel, H x W x C. In one of bits each copy of the channels starts
 * on a byte, and channel c of a copy is bit c % 8 of its byte c / 8. */
typedef struct duo_tensor {
    uint32_t number; /* among the tensors of the file; the list "tensors" of duo_metadata names them */
    duo_kind kind;
    uint32_t channels, height, width;
    uint32_t copies; /* a divisor of the channels */
    size_t bytes;    /* of one image */
} duo_tensor;

/* Of a model that is NULL, numbers here are 0 and strings empty. */
DUO_API size_t duo_inputs(const duo_model* model);
DUO_API size_t duo_outputs(const duo_model* model);
DUO_API duo_status duo_input(const duo_model* model, size_t index, duo_tensor* tensor, duo_error* error);
DUO_API duo_status duo_output(const duo_model* model, size_t index, duo_tensor* tensor, duo_error* error);

/* All tensors and operations of the network, in the file's order. */
DUO_API size_t duo_tensors(const duo_model* model);
DUO_API size_t duo_operations(const duo_model* model);
DUO_API duo_status duo_tensor_of(const duo_model* model, size_t number, duo_tensor* tensor, duo_error* error);

/* The file's JSON: names of tensors and operations, and where they are known classes, mean and std. It is not
 * ended by a zero byte and not checked. */
DUO_API const char* duo_metadata(const duo_model* model, size_t* size);

/* The instruction set that runs: "scalar", "avx2", "neon" and so on. The environment variable BINARYDUO_ISA
 * forces one. */
DUO_API const char* duo_instruction_set(const duo_model* model);
/* How a layer adds up what the bits of its input select, in a word; empty where it unpacks them or reads
 * none. */
DUO_API const char* duo_kernel(const duo_model* model, size_t operation);
/* All instruction sets that this build and this CPU can run, best first, separated by spaces. */
DUO_API const char* duo_instruction_sets(void);
/* The library's version, as "0.1.0". */
DUO_API const char* duo_version(void);

/* ---- Running ---- */

/* Bytes of memory that a run needs beside the caller's inputs and outputs. */
DUO_API size_t duo_arena_bytes(const duo_model* model);

/* Runs any number of images. inputs[i] and outputs[i] belong to duo_input(i) and duo_output(i); floats are at
 * a multiple of 4. The arena may lie anywhere, holds nothing between two runs, and must not be used by two of
 * them at the same time. */
DUO_API duo_status duo_run(const duo_model* model, size_t images, const void* const* inputs,
                           void* const* outputs, void* arena, size_t arena_bytes, duo_error* error);

/* A tensor that an operation has just written. */
typedef struct duo_written {
    size_t operation; /* DUO_INPUTS: an input of the network */
    uint32_t tensor;
    size_t first_image, images; /* those that go through the network together */
    const void* values;         /* `images` times `bytes` of its duo_tensor; gone when the call returns */
} duo_written;
#define DUO_INPUTS ((size_t)-1)
typedef void (*duo_watch)(void* watcher, const duo_written* written);

/* Runs like duo_run and calls `watch` for every tensor as soon as it is written, in the order of the
 * operations: for looking inside, and for timing. */
DUO_API duo_status duo_run_watched(const duo_model* model, size_t images, const void* const* inputs,
                                   void* const* outputs, void* arena, size_t arena_bytes, duo_watch watch,
                                   void* watcher, duo_error* error);

/* ---- Threads, for those who have none ---- */

/* Threads that any number of models share. A pool serves one run at a time; another run meanwhile works
 * alone, as every run does without a pool (NULL). It does not survive fork(). */
typedef struct duo_pool duo_pool;
DUO_API duo_status duo_pool_open(size_t threads, duo_pool** pool, duo_error* error);
DUO_API void duo_pool_share(void* pool, size_t threads, size_t items, duo_task task, void* work);
/* When no run uses it any more; NULL is allowed. */
DUO_API void duo_pool_close(duo_pool* pool);

#ifdef __cplusplus
}
#endif
#endif
