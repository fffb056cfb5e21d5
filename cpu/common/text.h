/*
 * text.h: which bytes of a text that a peer, a user or a program wrote must not reach a log or a terminal.
 */
#ifndef FLYT_COMMON_TEXT_H
#define FLYT_COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the well-formed UTF-8 sequence at `text`, 0 if there is none (overlong forms and surrogates included). */
static inline size_t text_utf8_length(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0x80)
        return 1;
    size_t length = at[0] >= 0xc2 && at[0] < 0xe0   ? 2
                    : (at[0] & 0xf0) == 0xe0        ? 3
                    : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                                    : 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf0 && at[1] < 0x90) ||
        (at[0] == 0xf4 && at[1] > 0x8f))
        return 0;
    return length;
}

/* Characters that a terminal shows as nothing but that change how it shows the rest, so that a text can look like
   another one: marks, embeddings, overrides and isolates of right-to-left text, separators of lines and paragraphs,
   blanks without width, and tags. Joiners (U+200C, U+200D) are letters' business and stay. */
static inline bool text_is_deceptive(unsigned long c)
{
    return c == 0x061c || c == 0x200b || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xe0000 && c <= 0xe007f);
}

/* Length of the character at `text`, which is not at its end; 0 if it must not be shown: broken UTF-8, a control
   character (C0, DEL, C1: U+0080 to U+009F) or a deceptive one. */
static inline size_t text_shown_length(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t length = text_utf8_length(text);
    if (length == 1)
        return at[0] >= 0x20 && at[0] != 0x7f;
    unsigned long c = length ? at[0] & (0x7fu >> length) : 0;
    for (size_t i = 1; i < length; i++)
        c = c << 6 | (at[i] & 0x3fu);
    return c < 0xa0 || text_is_deceptive(c) ? 0 : length;
}

#endif
