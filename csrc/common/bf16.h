// bfloat16 in memory: the upper half of a float.
#pragma once
#include <cstdint>

namespace binaryduo {
enum class Bf16 : uint16_t {};
}
