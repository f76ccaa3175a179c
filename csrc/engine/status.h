// How the C API reports: a code, and one sentence in the caller's memory.
#pragma once
#include <cstdarg>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <system_error>

#include "../include/duo.h"

namespace binaryduo {

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
inline duo_status set_status(duo_status status, duo_error* error, const char* format, ...) {
    if (!error) return status;
    va_list values;
    va_start(values, format);
    std::vsnprintf(error->sentence, sizeof error->sentence, format, values);
    va_end(values);
    return status;
}

// Calls `work`, which returns a status; what it throws becomes one. `what` is the thing that it works on.
template <typename Work>
duo_status guarded(duo_error* error, const char* what, Work work) noexcept {
    if (error) error->sentence[0] = 0;
    try {
        return work();
    } catch (const std::invalid_argument& e) {
        return set_status(DUO_BAD_FORMAT, error, "%.160s%s%s", what,
                          *what ? " is not a packed model that can be used: " : "", e.what());
    } catch (const std::system_error& e) {
        return set_status(DUO_UNREADABLE, error, "%.160s cannot be read: %s", what,
                          e.code().message().c_str());
    } catch (const std::bad_alloc&) {
        return set_status(DUO_NO_MEMORY, error, "%.160s needs more memory than there is", what);
    } catch (const std::exception& e) {
        return set_status(DUO_NO_MEMORY, error, "%.160s cannot be used: %s", what, e.what());
    }
}

}  // namespace binaryduo
