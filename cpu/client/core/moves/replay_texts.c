/* replay_texts.c: see replay_texts.h. */
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/wire/wire.h"
#include "replay_texts.h"

struct surplus_text {
    struct surplus_text *next;
    unsigned which; /* of JOURNAL_TEXTS */
    uint32_t size;
    uint8_t bytes[];
};

static bool keep(struct replay_texts *texts, unsigned which, const uint8_t *bytes, size_t size)
{
    if (!size)
        return true;
    struct surplus_text *s = malloc(sizeof *s + size);
    if (!s)
        return false;
    *s = (struct surplus_text){ .which = which, .size = (uint32_t)size };
    memcpy(s->bytes, bytes, size);
    if (texts->last)
        texts->last->next = s;
    else
        texts->first = s;
    texts->last = s;
    return true;
}

bool replay_texts_open(struct replay_texts *texts)
{
    texts->first = texts->last = NULL;
    return journal_text_open(texts->had);
}

bool replay_texts_take(struct replay_texts *texts, const struct journal_reply *reply)
{
    const uint8_t *at = reply->texts, *bytes;
    uint32_t size;
    bool good = true;
    for (uint32_t i = 0; i < reply->text_count && good; i++) {
        unsigned which = journal_reply_text(&at, &bytes, &size);
        uint64_t left = journal_texts()[which].size - texts->had[which].size, had = size < left ? size : left;
        journal_text_add(&texts->had[which], bytes, had);
        good = keep(texts, which, bytes + had, size - had);
    }
    return good;
}

bool replay_texts_lack(const struct replay_texts *texts)
{
    for (unsigned i = 0; i < JOURNAL_TEXTS; i++)
        if (texts->had[i].size < journal_texts()[i].size)
            return true;
    return false;
}

bool replay_texts_equal(const struct replay_texts *texts)
{
    for (unsigned i = 0; i < JOURNAL_TEXTS; i++)
        if (!journal_text_equal(&texts->had[i], &journal_texts()[i]))
            return false;
    return true;
}

void replay_texts_give(const struct replay_texts *texts)
{
    for (const struct surplus_text *s = texts->first; s; s = s->next) {
        journal_give_text(s->which, s->bytes, s->size);
        wire_queue_text(&(flyt_text){ .fd = (int)s->which + 1, .bytes = { s->size, (char *)(uintptr_t)s->bytes } });
    }
}

void replay_texts_close(struct replay_texts *texts)
{
    for (struct surplus_text *next, *s = texts->first; s; s = next) {
        next = s->next;
        free(s);
    }
    journal_text_close(texts->had);
}
