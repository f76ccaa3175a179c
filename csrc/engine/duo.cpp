// The C API (duo.h) on the engine. Nothing is thrown across it.
#include "../include/duo.h"

#include <algorithm>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "file.h"
#include "model.h"
#include "status.h"

#ifndef BINARYDUO_VERSION  // CMake reads it from the Python package
#define BINARYDUO_VERSION "unknown"
#endif

using binaryduo::guarded;
using binaryduo::Kind;
using binaryduo::MappedFile;
using binaryduo::Model;
using binaryduo::Program;
using binaryduo::Section;
using binaryduo::Sections;
using binaryduo::set_status;
using binaryduo::Tensor;

struct duo_model {
    MappedFile file;
    Section meta;
    Model model;
};

namespace {

bool aligned(const void* numbers) { return reinterpret_cast<uintptr_t>(numbers) % sizeof(float) == 0; }

duo_status open_content(MappedFile file, const uint8_t* bytes, size_t size, const duo_options* wanted,
                        duo_model** model, duo_error* error) {
    duo_options options = wanted ? *wanted : duo_options{};
    if (!options.threads) options.threads = 1;
    if (options.threads > 1 && !options.share)
        return set_status(
            DUO_BAD_ARGUMENT, error,
            "options ask for %zu threads: give duo_pool_share, or a function of your own, as share",
            options.threads);
    if (!aligned(bytes))
        return set_status(DUO_BAD_ARGUMENT, error, "the model's bytes must lie at a multiple of 4");
    try {
        binaryduo::choose_kernels();
    } catch (const std::invalid_argument& e) {  // the environment's wish, not the file
        return set_status(DUO_BAD_ARGUMENT, error, "%s", e.what());
    }
    const Sections s = binaryduo::read_sections(bytes, size);
    Program program = binaryduo::read_program(s.tensors.data, s.tensors.bytes, s.ops.data, s.ops.bytes,
                                              s.data.data, s.data.bytes);
    *model = new duo_model{std::move(file), s.meta, Model(std::move(program), options)};
    return DUO_OK;
}

duo_status null_pointer(const char* function, duo_error* error) {
    return set_status(DUO_BAD_ARGUMENT, error, "%s was given a null pointer", function);
}

// Describes the tensor that `number_of` returns for one of `count` things that a sentence calls `what`.
template <typename NumberOf>
duo_status describe(const duo_model* model, const char* what, size_t index, size_t count, duo_tensor* tensor,
                    duo_error* error, NumberOf number_of) {
    if (index >= count)
        return set_status(DUO_BAD_ARGUMENT, error, "there is no %s %zu: the model has %zu", what, index,
                          count);
    const size_t number = size_t(number_of(model->model.program()));
    const Tensor& t = model->model.program().tensors[number];
    *tensor = {uint32_t(number), duo_kind(uint32_t(t.kind)), t.channels, t.height, t.width, t.copies,
               t.image_bytes()};
    return DUO_OK;
}

}  // namespace

duo_status duo_open_memory(const void* bytes, size_t size, const duo_options* options, duo_model** model,
                           duo_error* error) {
    if (!model || !bytes) return null_pointer("duo_open_memory", error);
    *model = nullptr;
    const char* name = options && options->name ? options->name : "the memory";
    return guarded(error, name, [&] {
        return open_content({}, static_cast<const uint8_t*>(bytes), size, options, model, error);
    });
}

duo_status duo_open(const char* path, const duo_options* options, duo_model** model, duo_error* error) {
    if (!model || !path) return null_pointer("duo_open", error);
    *model = nullptr;
    return guarded(error, options && options->name ? options->name : path, [&] {
        MappedFile file(path);
        const uint8_t* bytes = file.data();
        const size_t size = file.size();
        return open_content(std::move(file), bytes, size, options, model, error);
    });
}

void duo_close(duo_model* model) { delete model; }

size_t duo_inputs(const duo_model* model) { return model ? 1 : 0; }
size_t duo_outputs(const duo_model* model) { return model ? model->model.program().outputs.size() : 0; }
size_t duo_tensors(const duo_model* model) { return model ? model->model.program().tensors.size() : 0; }
size_t duo_operations(const duo_model* model) { return model ? model->model.program().ops.size() : 0; }

duo_status duo_input(const duo_model* model, size_t index, duo_tensor* tensor, duo_error* error) {
    if (!model || !tensor) return null_pointer("duo_input", error);
    return describe(model, "input", index, duo_inputs(model), tensor, error,
                    [](const Program& p) { return p.input; });
}

duo_status duo_output(const duo_model* model, size_t index, duo_tensor* tensor, duo_error* error) {
    if (!model || !tensor) return null_pointer("duo_output", error);
    return describe(model, "output", index, duo_outputs(model), tensor, error,
                    [&](const Program& p) { return p.outputs[index]; });
}

duo_status duo_tensor_of(const duo_model* model, size_t number, duo_tensor* tensor, duo_error* error) {
    if (!model || !tensor) return null_pointer("duo_tensor_of", error);
    return describe(model, "tensor", number, duo_tensors(model), tensor, error,
                    [&](const Program&) { return number; });
}

const char* duo_metadata(const duo_model* model, size_t* size) {
    if (size) *size = model ? model->meta.bytes : 0;
    return model ? reinterpret_cast<const char*>(model->meta.data) : "";
}

const char* duo_instruction_set(const duo_model* model) { return model ? model->model.kernels().name : ""; }

const char* duo_kernel(const duo_model* model, size_t operation) {
    return operation < duo_operations(model) ? model->model.bit_kernel(operation) : "";
}

const char* duo_instruction_sets(void) { return binaryduo::available_kernels(); }
const char* duo_version(void) { return BINARYDUO_VERSION; }

size_t duo_arena_bytes(const duo_model* model) { return model ? model->model.arena_bytes() : 0; }

duo_status duo_run_watched(const duo_model* model, size_t images, const void* const* inputs,
                           void* const* outputs, void* arena, size_t arena_bytes, duo_watch watch,
                           void* watcher, duo_error* error) {
    if (!model || !inputs || !outputs || !arena) return null_pointer("duo_run", error);
    const Program& program = model->model.program();
    const Tensor& input = program.tensors[program.input];
    size_t largest = input.image_bytes();
    if (images && !inputs[0]) return set_status(DUO_BAD_ARGUMENT, error, "input 0 is a null pointer");
    if (images && input.kind == Kind::kFloat && !aligned(inputs[0]))
        return set_status(DUO_BAD_ARGUMENT, error, "the floats of input 0 must lie at a multiple of 4");
    for (size_t i = 0; images && i < duo_outputs(model); ++i) {
        if (!outputs[i]) return set_status(DUO_BAD_ARGUMENT, error, "output %zu is a null pointer", i);
        if (!aligned(outputs[i]))
            return set_status(DUO_BAD_ARGUMENT, error, "the floats of output %zu must lie at a multiple of 4",
                              i);
        largest = std::max(largest, program.tensors[program.outputs[i]].image_bytes());
    }
    if (images > SIZE_MAX / 2 / largest)
        return set_status(DUO_BAD_ARGUMENT, error, "%zu images are more than memory can hold", images);
    if (arena_bytes < duo_arena_bytes(model))
        return set_status(DUO_BAD_ARGUMENT, error, "the arena has %zu bytes and must have %zu", arena_bytes,
                          duo_arena_bytes(model));
    return guarded(error, "the model", [&] {
        model->model.run(inputs[0], images, outputs, arena, watch, watcher);
        return DUO_OK;
    });
}

duo_status duo_run(const duo_model* model, size_t images, const void* const* inputs, void* const* outputs,
                   void* arena, size_t arena_bytes, duo_error* error) {
    return duo_run_watched(model, images, inputs, outputs, arena, arena_bytes, nullptr, nullptr, error);
}
