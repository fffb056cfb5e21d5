/* keys.h: the file of keys with which a GPU server checks tickets. */
#ifndef FLYT_TESTS_LIB_KEYS_H
#define FLYT_TESTS_LIB_KEYS_H

#include "cpu/common/ticket.h"
#include "tests/lib/unit.h"

static inline void keys_write(const char *path, const struct ticket_signer *signer)
{
    uint8_t key[TICKET_KEY_SIZE];
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    ticket_signer_key(signer, key);
    for (size_t i = 0; i < sizeof key; i++)
        fprintf(file, "%02x", key[i]);
    fputc('\n', file);
    fclose(file);
}

#endif
