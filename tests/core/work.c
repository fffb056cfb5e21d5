#include "work.h"

#include "tests/lib/unit.h"

uint64_t random_next(void)
{
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return x;
}

core_function *kernel(const char *name)
{
    static core_image *image;
    core_function *f;
    if (!image)
        CHECK(core_image_add("// a module\n.version 9.0\n", &image) == 0);
    CHECK(core_function_add(image, name, &f) == 0);
    return f;
}

int launch(const char *name, core_stream stream, void **arguments)
{
    return core_launch(on(0), &(struct core_launch){ .function = kernel(name),
                                                     .stream = stream,
                                                     .grid = { 1, 1, 1 },
                                                     .block = { 1, 1, 1 },
                                                     .arguments = arguments });
}

int fill(core_stream stream, uint64_t address, uint32_t count, uint32_t value)
{
    return launch("fill", stream, (void *[]){ &address, &count, &value });
}

uint64_t allocate(size_t size)
{
    uint64_t address = 0;
    CHECK(core_memory_allocate(on(0), size, &address) == 0);
    return address;
}

void run_all(void (*const bodies[])(void))
{
    for (; *bodies; bodies++)
        assert_int_equal(isolated(*bodies, 60), 0);
}
