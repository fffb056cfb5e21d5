/*
 * unit.h: what a unit test in C begins with: cmocka, the headers that cmocka wants before it, and tests that register
 * themselves.
 *
 *     TEST(a_ring_has_one_page) { assert_int_equal(…); }
 *     TEST_WITH(files_are_kept, set_up, tear_down) { … *state is what set_up put there … }
 *     TEST_ON(calls_are_answered, "unix", "tcp") { … *state is "unix", then "tcp" … }
 *     int main(void) { return unit_run(NULL, NULL); }
 *
 * The tests run in the order of the source, which must be one file. FLYT_TEST_ONLY=PATTERN runs some of them.
 */
#ifndef FLYT_TESTS_LIB_UNIT_H
#define FLYT_TESTS_LIB_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { UNIT_MOST = 200 };
static struct { int line; struct CMUnitTest test; } unit_tests[UNIT_MOST];
static size_t unit_count;

/* Compilers may call constructors in any order: the line says which test comes first. */
static inline void unit_add(int line, struct CMUnitTest test)
{
    size_t at = unit_count++;
    if (at >= UNIT_MOST)
        abort();
    for (; at && unit_tests[at - 1].line > line; at--)
        unit_tests[at] = unit_tests[at - 1];
    unit_tests[at].line = line;
    unit_tests[at].test = test;
}

static inline void unit_add_each(int line, struct CMUnitTest test, const char *const *texts)
{
    const char *name = test.name;
    static char names[UNIT_MOST][96];
    for (; *texts; texts++) {
        char *full = names[unit_count % UNIT_MOST];
        snprintf(full, sizeof *names, "%s: %s", name, *texts);
        test.name = full;
        test.initial_state = (void *)(uintptr_t)*texts;
        unit_add(line, test);
    }
}

#define TEST(name) TEST_WITH(name, NULL, NULL)
/* set_up and tear_down run before and after this test; NULL: nothing does. */
#define TEST_WITH(name, set_up, tear_down)                                                   \
    static void name(void **state);                                                          \
    __attribute__((constructor)) static void unit_add_##name(void)                           \
    {                                                                                        \
        unit_add(__LINE__, (struct CMUnitTest){ #name, name, set_up, tear_down, NULL });     \
    }                                                                                        \
    static void name(__attribute__((unused)) void **state)
/* A test that runs once for each of the texts, up to the first NULL: *state is one of them, for set_up or, without one,
   for the test. */
#define TEST_ON(name, ...) TEST_ON_WITH(name, NULL, NULL, __VA_ARGS__)
#define TEST_ON_WITH(name, set_up, tear_down, ...)                                           \
    static void name(void **state);                                                          \
    __attribute__((constructor)) static void unit_add_##name(void)                           \
    {                                                                                        \
        unit_add_each(__LINE__, (struct CMUnitTest){ #name, name, set_up, tear_down, NULL }, \
                      (const char *const[]){ __VA_ARGS__, NULL });                           \
    }                                                                                        \
    static void name(__attribute__((unused)) void **state)

/* Runs all tests between set_up and tear_down of the whole program, and prints TAP. How many failed. */
static inline int unit_run(CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
    struct CMUnitTest tests[UNIT_MOST];
    for (size_t i = 0; i < unit_count; i++)
        tests[i] = unit_tests[i].test;
    setvbuf(stdout, NULL, _IOLBF, 0);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    if (getenv("FLYT_TEST_ONLY"))
        cmocka_set_test_filter(getenv("FLYT_TEST_ONLY"));
    return _cmocka_run_group_tests("tests", tests, unit_count, set_up, tear_down);
}

#endif
