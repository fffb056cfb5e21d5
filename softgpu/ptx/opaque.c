/*
 * opaque.c: initialisers of .texref, .samplerref and .surfref variables: { member = value, … }. The variable's init
 * holds a struct ptx_opaque. Members that what is bound decides (the width, say) are read and not kept.
 * Follows: PTX ISA, "Texture Sampler and Surface Types".
 */
#include <string.h>

#include "softgpu/ptx/reader.h"

_Static_assert(sizeof(struct ptx_opaque) == 8, "an opaque variable has the size of a handle");

enum { OF_TEXTURE = 1, OF_SAMPLER = 2, OF_SURFACE = 4 };

static const struct member {
    const char *name;
    uint8_t of, given;
} members[] = {
    { "width", OF_TEXTURE | OF_SURFACE, 0 },
    { "height", OF_TEXTURE | OF_SURFACE, 0 },
    { "depth", OF_TEXTURE | OF_SURFACE, 0 },
    { "channel_data_type", OF_TEXTURE | OF_SURFACE, 0 },
    { "channel_order", OF_TEXTURE | OF_SURFACE, 0 },
    { "array_size", OF_TEXTURE | OF_SURFACE, 0 },
    { "memory_layout", OF_TEXTURE | OF_SURFACE, 0 },
    { "num_mipmap_levels", OF_TEXTURE, 0 },
    { "num_samples", OF_TEXTURE, 0 },
    { "normalized_coords", OF_TEXTURE, PTX_GIVEN_NORMALIZED },
    { "force_unnormalized_coords", OF_SAMPLER, PTX_GIVEN_UNNORMALIZED },
    { "filter_mode", OF_TEXTURE | OF_SAMPLER, PTX_GIVEN_FILTER },
    { "addr_mode_0", OF_TEXTURE | OF_SAMPLER, PTX_GIVEN_ADDRESS_0 },
    { "addr_mode_1", OF_TEXTURE | OF_SAMPLER, PTX_GIVEN_ADDRESS_0 << 1 },
    { "addr_mode_2", OF_TEXTURE | OF_SAMPLER, PTX_GIVEN_ADDRESS_0 << 2 },
};

static const char *const filters[] = { "nearest", "linear", NULL };
static const char *const addresses[] = { [PTX_ADDRESS_WRAP] = "wrap",
                                         [PTX_ADDRESS_MIRROR] = "mirror",
                                         [PTX_ADDRESS_CLAMP_OGL] = "clamp_ogl",
                                         [PTX_ADDRESS_CLAMP_TO_EDGE] = "clamp_to_edge",
                                         [PTX_ADDRESS_CLAMP_TO_BORDER] = "clamp_to_border",
                                         NULL };

/* One of the words, or a number that stands for one. words NULL: any number. */
static bool read_value(struct ptx_reader *reader, const char *const *words, uint8_t *out)
{
    const uint32_t line = reader->token.line;
    struct reader_value value;
    if (words && reader->token.kind == TOKEN_IDENTIFIER) {
        for (uint8_t i = 0; words[i]; i++)
            if (lexer_accept_word(reader, words[i])) {
                *out = i;
                return true;
            }
        return reader_error(reader, line, "unknown value '%s' in the initialiser", reader->token.name->text);
    }
    if (!expression_read_integer(reader, &value))
        return false;
    uint64_t count = 0;
    while (words && words[count])
        count++;
    if (words && value.bits >= count)
        return reader_error(reader, line, "unknown value %llu in the initialiser", (unsigned long long)value.bits);
    *out = words ? (uint8_t)value.bits : value.bits != 0;
    return true;
}

static bool read_member(struct ptx_reader *reader, const struct ptx_variable *variable, struct ptx_opaque *opaque)
{
    const uint8_t of = variable->type == PTX_TEXREF       ? OF_TEXTURE
                       : variable->type == PTX_SAMPLERREF ? OF_SAMPLER
                                                          : OF_SURFACE;
    const struct member *m = members, *end = members + sizeof members / sizeof *members;
    const uint32_t line = reader->token.line;
    const char *name = reader->token.kind == TOKEN_IDENTIFIER ? reader->token.name->text : "";
    while (m < end && (strcmp(m->name, name) != 0 || !(m->of & of)))
        m++;
    if (!lexer_expect(reader, TOKEN_IDENTIFIER, "in the initialiser"))
        return false;
    if (m == end)
        return reader_error(reader, line, "variables of type .%s have no member '%s'", ptx_type_name(variable->type),
                            name);
    if (!lexer_expect(reader, '=', "behind the member's name"))
        return false;
    uint8_t ignored, *to = &ignored;
    const char *const *words = NULL;
    switch (m->given) {
    case 0: break;
    case PTX_GIVEN_NORMALIZED: to = &opaque->normalized; break;
    case PTX_GIVEN_UNNORMALIZED: to = &opaque->unnormalized; break;
    case PTX_GIVEN_FILTER:
        to = &opaque->linear;
        words = filters;
        break;
    default: to = &opaque->address[m->name[strlen("addr_mode_")] - '0']; words = addresses;
    }
    opaque->given |= m->given;
    return read_value(reader, words, to);
}

bool opaque_read(struct ptx_reader *reader, struct ptx_variable *variable)
{
    struct ptx_opaque *opaque = reader_alloc(reader, 1, sizeof *opaque);
    if (!opaque)
        return false;
    if (variable->is_array)
        return reader_error(reader, reader->token.line, "'%s': arrays of opaque variables have no initialisers",
                            variable->name);
    if (!lexer_expect(reader, '{', "in front of the members"))
        return false;
    while (reader->token.kind != '}')
        if (!read_member(reader, variable, opaque) || (!lexer_accept(reader, ',') && reader->token.kind != '}'))
            return lexer_expect(reader, '}', "behind the members");
    variable->init = (const uint8_t *)opaque;
    return lexer_expect(reader, '}', "behind the members");
}
