/*
 * words.h: messages of ONC RPC put together and taken apart word by word, for tests in which one side is not ours.
 */
#ifndef FLYT_TESTS_RPC_WORDS_H
#define FLYT_TESTS_RPC_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct words { uint32_t word[64]; size_t count; };      /* in the order of the network */

void     words_add(struct words *, uint32_t word);
uint32_t words_at(const struct words *, size_t i);

/* One record over a socket; receiving gives false at the end. */
void words_send(int fd, const struct words *);
bool words_receive(int fd, struct words *);

/* Bytes as they are. */
void words_send_bytes(int fd, const void *bytes, size_t size);
bool words_receive_bytes(int fd, void *bytes, size_t size);

/* One byte every now and then, and in several fragments, one of them empty: slow, but right. For pthread_create. */
struct words_slow { int fd; struct words words; };
void *words_trickle(void *slow);

#endif
