/*
 * isolated.h: a test in a process of its own, because a process attaches to a server once, and may die of what is
 * tested.
 */
#ifndef TESTS_CORE_ISOLATED_H
#define TESTS_CORE_ISOLATED_H

/* Runs it, with a folder of its own in $TEST_FOLDER that is removed afterwards, for `limit` seconds at the most, in
   which time that this process is stopped does not count. Its exit status, or 128 + signal. */
int isolated(void (*test)(void), unsigned limit);
/* What it wrote to stderr and stdout goes to output, which is shown if it failed. */
int isolated_output(void (*test)(void), unsigned limit, char *output, unsigned long size);

/* In such a process cmocka's assertions have nowhere to go. */
#define CHECK(condition) ((condition) ? (void)0 : isolated_failed(#condition, __FILE__, __LINE__))
void isolated_failed(const char *what, const char *file, int line) __attribute__((noreturn));

#endif
