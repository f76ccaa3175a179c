// Loaded in front of the C library (LD_PRELOAD): ends the process at a chosen call of those that decide what a crash
// leaves behind, whoever makes it: Python, safetensors or SQLite.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static long left;  // calls until the fatal one; 0: none is
static int kill_after;

void kill_at(long number, int after) {
    left = number;
    kill_after = after;
}

static void die(void) { kill(getpid(), SIGKILL); }

#define FATAL(name, parameters, arguments)                                           \
    int name parameters {                                                            \
        int(*real) parameters = (int(*) parameters)dlsym(RTLD_NEXT, #name);          \
        int fatal = left > 0 && __atomic_sub_fetch(&left, 1, __ATOMIC_SEQ_CST) == 0; \
        if (fatal && !kill_after) die();                                             \
        int result = real arguments;                                                 \
        if (fatal) die();                                                            \
        return result;                                                               \
    }

FATAL(fsync, (int file), (file))
FATAL(fdatasync, (int file), (file))
FATAL(rename, (const char* from, const char* to), (from, to))
FATAL(renameat, (int a, const char* from, int b, const char* to), (a, from, b, to))
FATAL(unlink, (const char* path), (path))
FATAL(unlinkat, (int folder, const char* path, int flags), (folder, path, flags))
FATAL(rmdir, (const char* path), (path))
FATAL(ftruncate, (int file, off_t size), (file, size))
FATAL(ftruncate64, (int file, off64_t size), (file, size))
