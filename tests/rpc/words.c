#include "tests/rpc/words.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include "tests/lib/unit.h"

void words_add(struct words *words, uint32_t word)
{
    assert_true(words->count < sizeof words->word / sizeof words->word[0]);
    words->word[words->count++] = htonl(word);
}

void words_send_bytes(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        assert_true(sent > 0);
        at += sent;
        size -= (size_t)sent;
    }
}

bool words_receive_bytes(int fd, void *bytes, size_t size)
{
    char *at = bytes;
    while (size > 0) {
        ssize_t got = recv(fd, at, size, 0);
        if (got <= 0)
            return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}

void words_send(int fd, const struct words *words)
{
    uint32_t mark = htonl(0x80000000u | (uint32_t)(words->count * 4));
    words_send_bytes(fd, &mark, 4);
    words_send_bytes(fd, words->word, words->count * 4);
}

bool words_receive(int fd, struct words *words)
{
    uint32_t mark;
    if (!words_receive_bytes(fd, &mark, 4))
        return false;
    words->count = (ntohl(mark) & 0x7fffffff) / 4;
    assert_true(words->count <= sizeof words->word / sizeof words->word[0]);
    return words_receive_bytes(fd, words->word, words->count * 4);
}

uint32_t words_at(const struct words *words, size_t i)
{
    assert_true(i < words->count);
    return ntohl(words->word[i]);
}

void *words_trickle(void *context)
{
    struct words_slow *slow = context;
    uint8_t stream[sizeof slow->words.word + 12];
    size_t size = slow->words.count * 4, used = 0;
    uint32_t first = htonl(20), empty = htonl(0), rest = htonl(0x80000000u | (uint32_t)(size - 20));
    memcpy(stream, &first, 4);
    memcpy(stream + 4, slow->words.word, 20);
    memcpy(stream + 24, &empty, 4);
    memcpy(stream + 28, &rest, 4);
    memcpy(stream + 32, (char *)slow->words.word + 20, size - 20);
    while (used < size + 12) {
        words_send_bytes(slow->fd, stream + used++, 1);
        poll(NULL, 0, 2);
    }
    return NULL;
}
