// The pool of threads of the C API. A build with BINARYDUO_NO_THREADS has none.
#include "../include/duo.h"
#include "status.h"

static void work_alone(size_t items, duo_task task, void* work) {
    for (size_t item = 0; item < items; ++item) task(work, item, 0);
}

#ifdef BINARYDUO_NO_THREADS

duo_status duo_pool_open(size_t, duo_pool** pool, duo_error* error) {
    if (pool) *pool = nullptr;
    return binaryduo::set_status(DUO_NO_THREADS, error, "this library was built without threads");
}
void duo_pool_share(void*, size_t, size_t items, duo_task task, void* work) { work_alone(items, task, work); }
void duo_pool_close(duo_pool*) {}

#else
#include "../common/pool.h"

struct duo_pool {
    binaryduo::Pool pool;
};

duo_status duo_pool_open(size_t threads, duo_pool** pool, duo_error* error) {
    using binaryduo::set_status;
    if (!pool) return set_status(DUO_BAD_ARGUMENT, error, "duo_pool_open was given a null pointer");
    *pool = nullptr;
    if (!threads || threads > 256)
        return set_status(DUO_BAD_ARGUMENT, error, "a pool has 1 to 256 threads, not %zu", threads);
    return binaryduo::guarded(error, "the pool", [&] {
        duo_pool* made = new duo_pool;
        if (const size_t started = made->pool.start(threads); started < threads) {
            delete made;
            return set_status(DUO_NO_THREADS, error, "the system starts only %zu of %zu threads", started,
                              threads);
        }
        *pool = made;
        return DUO_OK;
    });
}

void duo_pool_share(void* pool, size_t threads, size_t items, duo_task task, void* work) {
    if (!pool) return work_alone(items, task, work);
    static_cast<duo_pool*>(pool)->pool.run(threads, items, {task, work});
}

void duo_pool_close(duo_pool* pool) { delete pool; }
#endif
