/* The Runtime API against a core without a server: the tests of one version in one program. */
#include "tests/runtime/api.h"

#include "cpu/client/runtime/runtime.h"

int runtime_begin(void **state)
{
    (void)state;
    fake_core_reset();
    memset(&runtime_thread, 0, sizeof runtime_thread);
    return 0;
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return device_tests() + stream_tests() + graph_tests() + memory_tests() + code_tests() ? 1 : 0;
}
