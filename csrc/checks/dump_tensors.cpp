// Runs a packed model and writes every tensor's bytes to standard output as soon as an operation has written
// it:
//     dump_tensors net.duo images.f32 > tensors
// Built and run by tests/engine/test_arm.py for machines that are only emulated here.
#include <cstdio>
#include <vector>

#include "../include/duo.h"

int main(int argc, char** argv) {
    duo_error error{};
    duo_model* model = nullptr;
    duo_tensor in, out;
    const auto fail = [&] { return std::fprintf(stderr, "%s\n", error.sentence), 1; };
    if (argc != 3 || duo_open(argv[1], nullptr, &model, &error) || duo_input(model, 0, &in, &error) ||
        duo_output(model, 0, &out, &error))
        return fail();
    std::FILE* file = std::fopen(argv[2], "rb");
    if (!file) return 1;
    std::vector<float> result(out.bytes / sizeof(float));
    std::vector<unsigned char> image(in.bytes), arena(duo_arena_bytes(model), 0xFF);
    const void* inputs[] = {image.data()};
    void* outputs[] = {result.data()};
    const duo_watch write = [](void* of, const duo_written* w) {
        duo_tensor tensor;
        if (!duo_tensor_of(static_cast<duo_model*>(of), w->tensor, &tensor, nullptr))
            std::fwrite(w->values, tensor.bytes, 1, stdout);
    };
    while (std::fread(image.data(), in.bytes, 1, file) == 1)
        if (duo_run_watched(model, 1, inputs, outputs, arena.data(), arena.size(), write, model, &error))
            return fail();
    std::fclose(file);
    duo_close(model);
    return 0;
}
