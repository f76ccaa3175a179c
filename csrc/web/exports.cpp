// The C API (duo.h) for JavaScript: structs become arrays of numbers, and errors a sentence to ask for. Built
// by csrc/web/build, called by src/binaryduo/web/npm/index.js alone.
//
// One thread: WebAssembly's threads need headers that a static page's server rarely sends.
#include "../include/duo.h"

#define EXPORT(name) __attribute__((export_name(name)))
// What JavaScript does with a tensor that was just written; operation -1 is an input of the network.
extern "C" __attribute__((import_module("env"), import_name("watched"))) void watched(int32_t operation,
                                                                                      uint32_t tensor,
                                                                                      const void* values);

namespace {

duo_error error;

enum Which : uint32_t { kInput = 0, kOutput = 1, kAny = 2 };

}  // namespace

extern "C" {

// Null where it cannot be opened: `web_error` says why. `name` is what the sentence calls the file.
EXPORT("web_open") duo_model* web_open(const void* bytes, size_t size, const char* name) {
    duo_options options{};
    options.name = name;
    duo_model* model = nullptr;
    duo_open_memory(bytes, size, &options, &model, &error);
    return model;
}

EXPORT("web_error") const char* web_error() { return error.sentence; }

EXPORT("web_count") size_t web_count(const duo_model* model, uint32_t which) {
    return which == kInput ? duo_inputs(model) : which == kOutput ? duo_outputs(model) : duo_tensors(model);
}

// number, kind, channels, height, width, copies, bytes
EXPORT("web_tensor") void web_tensor(const duo_model* model, uint32_t which, size_t index, uint32_t* out) {
    duo_tensor t{};
    (which == kInput ? duo_input : which == kOutput ? duo_output : duo_tensor_of)(model, index, &t, nullptr);
    const uint32_t numbers[] = {t.number, uint32_t(t.kind), t.channels,       t.height,
                                t.width,  t.copies,         uint32_t(t.bytes)};
    for (uint32_t number : numbers) *out++ = number;
}

EXPORT("web_metadata") const char* web_metadata(const duo_model* model, size_t* size) {
    return duo_metadata(model, size);
}

EXPORT("web_arena_bytes") size_t web_arena_bytes(const duo_model* model) { return duo_arena_bytes(model); }

// Not 0 where it fails. With `watch`, every tensor is shown to JavaScript as soon as it is written.
EXPORT("web_run")
int web_run(const duo_model* model, size_t images, const void* const* inputs, void* const* outputs,
            void* arena, size_t arena_bytes, int watch) {
    const duo_watch show = [](void*, const duo_written* w) {
        watched(int32_t(w->operation), w->tensor, w->values);
    };
    return duo_run_watched(model, images, inputs, outputs, arena, arena_bytes, watch ? show : nullptr,
                           nullptr, &error);
}

EXPORT("web_version") const char* web_version() { return duo_version(); }

// Which sources this was built from: a test compares it with those that are there.
EXPORT("web_sources") const char* web_sources() { return BINARYDUO_SOURCES; }
}
