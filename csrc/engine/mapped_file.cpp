#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "file.h"

#ifndef BINARYDUO_NO_FILES
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace binaryduo {

#ifdef BINARYDUO_NO_FILES
MappedFile::MappedFile(const char*) { throw std::system_error(ENOSYS, std::generic_category()); }
MappedFile::~MappedFile() = default;
#else
MappedFile::MappedFile(const char* path) {
    const int file = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe would be waited for
    if (file < 0) throw std::system_error(errno, std::generic_category());
    struct stat status;
    void* mapped = MAP_FAILED;
    if (::fstat(file, &status)) {
    } else if (!S_ISREG(status.st_mode)) {
        errno = S_ISDIR(status.st_mode) ? EISDIR : ENODEV;
    } else if (status.st_size <= 0 || uint64_t(status.st_size) > SIZE_MAX) {
        errno = status.st_size > 0 ? EFBIG : 0;
    } else {
        mapped = ::mmap(nullptr, size_t(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    }
    const int problem = errno;
    ::close(file);
    if (mapped != MAP_FAILED) {
        data_ = static_cast<const uint8_t*>(mapped);
        size_ = size_t(status.st_size);
    } else if (problem) {
        throw std::system_error(problem, std::generic_category());
    } else {
        throw std::invalid_argument("it is empty");
    }
}

MappedFile::~MappedFile() {
    if (data_) ::munmap(const_cast<uint8_t*>(data_), size_);
}
#endif

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

}  // namespace binaryduo
