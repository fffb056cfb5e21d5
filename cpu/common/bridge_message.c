/* bridge_message.c: see bridge_message.h. */
#include "cpu/common/bridge_message.h"

#include "cpu/common/little_endian.h"

enum { QUESTION_MAGIC = 0x51424C46, ANSWER_MAGIC = 0x41424C46 };

void bridge_question_put(const struct bridge_question *question, uint8_t out[BRIDGE_QUESTION_SIZE])
{
    out = little_put(out, QUESTION_MAGIC, 4);
    out = little_put(out, question->kind, 4);
    out = little_put(out, question->number, 8);
    out = little_put(out, question->name, 8);
    out = little_put(out, question->address, 8);
    little_put(out, question->size, 8);
}

void bridge_answer_put(const struct bridge_answer *answer, uint8_t out[BRIDGE_ANSWER_SIZE])
{
    out = little_put(out, ANSWER_MAGIC, 4);
    out = little_put(out, answer->status, 4);
    out = little_put(out, answer->number, 8);
    out = little_put(out, answer->count, 4);
    out = little_put(out, 0, 4);
    for (unsigned i = 0; i < BRIDGE_PARTS; i++)
        out = little_put(out, i < answer->count ? answer->size[i] : 0, 8);
}

bool bridge_question_get(const uint8_t *at, size_t size, struct bridge_question *question)
{
    if (size != BRIDGE_QUESTION_SIZE || little_get(&at, 4) != QUESTION_MAGIC)
        return false;
    *question = (struct bridge_question){ .kind = (uint32_t)little_get(&at, 4) };
    question->number = little_get(&at, 8);
    question->name = little_get(&at, 8);
    question->address = little_get(&at, 8);
    question->size = little_get(&at, 8);
    return question->kind == BRIDGE_PIECES || question->kind == BRIDGE_HANDLE;
}

bool bridge_answer_get(const uint8_t *at, size_t size, struct bridge_answer *answer)
{
    uint64_t sum = 0;
    if (size != BRIDGE_ANSWER_SIZE || little_get(&at, 4) != ANSWER_MAGIC)
        return false;
    *answer = (struct bridge_answer){ .status = (uint32_t)little_get(&at, 4) };
    answer->number = little_get(&at, 8);
    answer->count = (uint32_t)little_get(&at, 4);
    if (little_get(&at, 4) != 0 || answer->count > BRIDGE_PARTS || (answer->status == 0) != (answer->count != 0))
        return false;
    for (unsigned i = 0; i < answer->count; i++) {
        answer->size[i] = little_get(&at, 8);
        if (!answer->size[i] || answer->size[i] > UINT64_MAX - sum)
            return false;
        sum += answer->size[i];
    }
    return true;
}
