/* shows: Software GPU textures in compressed blocks: BC1 to BC7 in every mode, as another decoder reads them */
/* blocks.c: softgpu/exec/blocks.h against blocks that Pillow 9.4 (Image.frombytes(…, "bcn", …)) has decoded. Pillow
 * gives bytes, cuts half floats to 0 … 1, and rounds in its own way, so a difference of 1.3 / 255 is none. */
#include <math.h>

#include "softgpu/exec/blocks.h"
#include "softgpu/texture.h"
#include "tests/lib/unit.h"

/* Texels row by row; components of a texel behind each other. */
static const struct {
    unsigned format, components;
    const char *block, *texels;
} known[] = {
    { SG_TEXEL_BC1, 4, "21f34218a60c12d2",
      "ac460aff180810ffac460affac460afff76508ff62270dfff76508fff76508ffac460afff76508ff180810fff76508ff"
      "ac460afff76508ff180810ff62270dff" },
    { SG_TEXEL_BC1, 4, "421821f3a60c12d2",
      "87360cfff76508ff87360cff87360cff180810ff00000000180810ff180810ff87360cff180810fff76508ff180810ff"
      "87360cff180810fff76508ff00000000" },
    { SG_TEXEL_BC2, 4, "89185d950ee8813609166f6b113d178d",
      "6b6d7b9910c34a886b6d7b8810c34a116b6d7bdd4c896a554c896a5510c34a994c896aee6b6d7b006b6d7b8810c34aee"
      "6b6d7b114c896a8810c34a662ea65a33" },
    { SG_TEXEL_BC3, 4, "c811d3901ff239a1a095f20f9395650c",
      "36e6629394b600ad08ff949365ce31c808ff941108ff942b08ff942b65ce31c808ff94ad08ff944565ce312b08ff9479"
      "94b6009336e662ad94b600c894b6005f" },
    { SG_TEXEL_BC3, 4, "11c80b8edb224a6b248a1e924e8fd0ae",
      "8e43685a9142afc88c4521119441f7ff9142af119142afff8c4521008e4368008c4521358c45217e9441f7119142afa3"
      "8e43687e9142af008e4368358e43685a" },
    { SG_TEXEL_BC4_U, 1, "2e1a9492a3305f18",
      "252b2b1a1a1c2e222e1f251c222e1f2e" },
    { SG_TEXEL_BC5_U, 2, "8cb610900f9e347fae886dc6507795ec",
      "8c9894988c888ca3b69dff889c9d8ca8008d9c92949894a89c880088ffa39c8d" },
    { SG_TEXEL_BC7, 4, "755c4c3fcb2eb2c73e14934c867ee057",
      "6481a8ff9a6e77ff9a6e77ff4b8bbfff2b6679ff406da5ff216363ff366a8ffff794a5fff794a5ffad1818ffad1818ff"
      "f794a5fff794a5ffc23b40ffb7292cff" },
    { SG_TEXEL_BC7, 4, "ba72499bfa121e836b2ac15726ee7d6b",
      "cbeb0effb14858ff991c28ffa6638affbcb63fffa12b38ffb14858ffcbeb0eff991c28ff9e49a3ffb59b57ff991c28ff"
      "b95969ffb59b57ffa6638affc97689ff" },
    { SG_TEXEL_BC7, 4, "0cf6ab13c38e92cae0d15057b159987f",
      "deef7bff7b42a5ff9b7b97ffa74d3effdeef7bff7b42a5ffa24f77ffad4a08ffc6ce5aff9a4439ffa74d3effa24f77ff"
      "840029ff840029ff840029ffa74d3eff" },
    { SG_TEXEL_BC7, 4, "98cc7411d717f14579b2aa100fbbb34f",
      "6b8563ff6b8563ff23bf55ff4a7549ff6b8563ff5d5143ff369b4fff5d5143ff369b4fff4a7549ff369b4fff5d5143ff"
      "5d5143ff369b4fff4a7549ff23bf55ff" },
    { SG_TEXEL_BC7, 4, "b093feaed27248b762e3ab5805f0765a",
      "2cfd519d27f44ca221fb509f21f64da11cf44ca221fb509f27fd519d27ff529c27ff529c2cf14ba41cf84fa021f84fa0"
      "27ef4aa52cf64da11cf14ba41cfb509f" },
    { SG_TEXEL_BC7, 4, "209c1d7e0f37c44921bd3f6564eadf7f",
      "38f1e17138f1e1674cf39b5c62f5526762f5525c76f70c5c4cf39b5c76f70c5276f70c5276f70c524cf39b6762f55252"
      "62f5525238f1e15276f70c5238f1e167" },
    { SG_TEXEL_BC7, 4, "402a72668c47e223d16edd8c47b46afc",
      "a866e2e294883e5d928b2f519f7694a394883e5d94883e5d96854a669c7b7d909d788899a270afb9a270afb997835670"
      "9980627a9f7694a396854a66918d2347" },
    { SG_TEXEL_BC7, 4, "80aee261f53b26152d263ba83b037cd4",
      "51eba2495d9e8ea627477849b6cd439282dc736d0c1c6d1c0c1c6d1c51eba24942738379e7be14b6e7be14b60c1c6d1c"
      "42738379b6cd4392b6cd439227477849" },
    { SG_TEXEL_BC6_U, 3, "646566641a7ba2660f3011fc3570291c",
      "ff0005ff0005ff0006ff0006ff0006ff0006ff0006ff0006ff0006ff0006ff0006ff0006ff0006ff0006ff0006ff0006" },
    { SG_TEXEL_BC6_U, 3, "15d5a91ee863c8b6c0337ae32d6fcaa2",
      "06ff1200d200005001003f0204ffff05fff105fff1003f0204ffff05ffff06ff0105ffff05ffff05ffff07ff0005ffff" },
    { SG_TEXEL_BC6_U, 3, "428b6bd5210fe8bd5ae575a995d0e784",
      "ff10ffff10ffff10ffff10ffff10ffff10ffff10ffff10ffff10ffff10ffff10ffff10ffff0fffff10ffff11ffff11ff" },
    { SG_TEXEL_BC6_U, 3, "039c8da8f032246933849ba481a5a46a",
      "0103000403000703013d0339ff03ff690382070301c703ff0103003d03390c0303c703ff070301c703ffc703ff17030b" },
    { SG_TEXEL_BC6_U, 3, "868dc5e935486f576c408d0dd34a4a5a",
      "00ff1600ff1700ff1600ff1600ff1700ff1600ff1600ff1800ff1600ff1800ff1800ff1700ff1700ff1700ff1800ff17" },
    { SG_TEXEL_BC6_U, 3, "e753c8f12387d458a29503a80235f312",
      "0aff012f090514ff03262b040eff0209ff011f94042f09050dff0209ff0114ff030eff020eff0266000a0dff020aff01" },
    { SG_TEXEL_BC6_U, 3, "0a64054c4da13b1595f587dac027a8e4",
      "23ffff23ffff20ffff21ffff21ffff23ffff23ffff21ffff21ffff21ffff23ffff20ffff20ffff20ffff23ffff20ffff" },
    { SG_TEXEL_BC6_U, 3, "0bd3d5b7e483a06dbbb3cf8123e886c0",
      "00ff2700ff2300ff2800ff2300ff2100ff2200ff2900ff2500ff2800ff2800ff2500ff2100ff2600ff2500ff2900ff22" },
    { SG_TEXEL_BC6_U, 3, "ce19a776fd091a0179e2d13bd772ea5f",
      "2fff152eff162dff172eff172fff152dff172fff162fff162fff152dff172eff162fff1637ff0c37ff0c2eff152aff1a" },
    { SG_TEXEL_BC6_U, 3, "8f07c2e4e91071539cf9819b8333b146",
      "ff0007ff0007ff0007ff0007ff0007ff0007ff0007ff0007ff0007ff0007ff0007ff0007ff0007ff0007ff0007ff0007" },
    { SG_TEXEL_BC6_U, 3, "3256347b9ffce69cd7007ae8a758cca4",
      "ff2affff18ffff34ffff2affff8dffff18ffff20ffff2affff58ffff67ffff2dffff26ffff77ffff58ffff58ffff3cff" },
    { SG_TEXEL_BC6_U, 3, "962e434801256b885e9c9051f320b0db",
      "8dffff8dffff8dffff8dffff8dffff8dffff8dffffdeffff8dffff8dffff8dffffa7ffff8dffff8dffffdeffffdeffff" },
    { SG_TEXEL_BC6_U, 3, "1a2af6a81a326226fb25cb4dbb4c6f46",
      "07ff0d07ff1107ff0e07ff0e07ff0107ff0e08ff1a07ff0d07ff0107ff0b08ff1408ff1a0eff010aff0107ff0b07ff0d" },
    { SG_TEXEL_BC6_U, 3, "bef50c4bd184404fa3f7fbde95eda9e5",
      "ff05ff3a00e20c021cff0000ff0001ff02ffff00ffff0003ff0001ff00ff3a00e2ff000331010ecc0007ff0fff3a00e2" },
    { SG_TEXEL_BC6_S, 3, "c09aadd469d5ceb61cee4e2aa52df7b9",
      "54ffc34cffb64cffb661ffbb45ffa662ffe04cffb63cffb26affee4dffb43cffb242ffb471fffd45ffa671fffd61ffbb" },
    { SG_TEXEL_BC6_S, 3, "b1c49936856274fb68ec9c93a635eac2",
      "ffff14ffff34ff0f02ffff0cffff0cff3b04ffff0cffffffffff1fffff14ffffffffffffff0f02ffffff2bffffffffff" },
    { SG_TEXEL_BC6_S, 3, "a2b90ab16902c9004eb5b08d01ea4d65",
      "7dff0090ff009bff009bff0098ff0098ff0096ff0096ff009fff00a0ff009bff009bff009aff009fff009dff0098ff00" },
    { SG_TEXEL_BC6_S, 3, "e38dedc4f2a5fef3bdb5912d87268850",
      "03ff230a010002ff7a0a010001ffff0614010e000001ffff03fa0d05470403ff2301ffff05470405470400ffff02ff7a" },
    { SG_TEXEL_BC6_S, 3, "c6b454ed2b00a8871c8a7e8146c266c4",
      "3bffff3dffff38ffff37ffff39ffff3cffff39ffff38ffff3affff39ffff3bffff3bffff3dffff39ffff39ffff3dffff" },
    { SG_TEXEL_BC6_S, 3, "a7fba2209e2a0f9ee407b404e84f9cf2",
      "ff0affff52ffff19ffff07ffff0effff31ffff0effff07ffff1cffff52ffff60ffff0effff38ffff20ffff0affff60ff" },
    { SG_TEXEL_BC6_S, 3, "4ac2f2246bebf98045980ca1e64b13af",
      "ffd626ffd825ffd726ffd825ffd526ffd526ffd626ffd421ffd526ffd626ffd526ffde21ffd825ffd426ffdb21ffe521" },
    { SG_TEXEL_BC6_S, 3, "cba118849f26dc60204d3795c3557814",
      "00ffc700ffb600ff6f00ffa700ff8e00ffaf00ffa000ff7f00ffaf00ff7300ffa000ffa000ff8700ff8e00ffa700ffc0" },
    { SG_TEXEL_BC6_S, 3, "ee993d7bd97b5f9a7ab906143e893dab",
      "ffeefffff9fffff9ffffc1ffffcaffffb6ffffacffffccffffcaffffc6ffffb6ffffb6ffffbdffffb0ffffc2ffffc1ff" },
    { SG_TEXEL_BC6_S, 3, "6f3861770370dca160c90018f5f23a67",
      "00ff0800ff0800ff0800ff0800ff0800ff0800ff0800ff0800ff0800ff0800ff0800ff0800ff0800ff0800ff0800ff08" },
    { SG_TEXEL_BC6_S, 3, "b2061198d4b2fb6c1cd4bfe44583256d",
      "ff02ff2e12ffff0dff700fffff01ffff02ff7502ff700fff2e12ff3e02ffff01ffdc02ff700fff700fff2e12ffff02ff" },
    { SG_TEXEL_BC6_S, 3, "56a998e7d66dca4e014c7d9a04f31ce0",
      "ff7affffffffffd2ffffffffffd2ffffd2ffff1fffff07ffff34ffff0affff06ffff0affff06ffff06ffff07ffff07ff" },
    { SG_TEXEL_BC6_S, 3, "fae508953c33caa0b003092281983b93",
      "1f00ff1700ff2f00ff1700ff1b00ff1b00ff1700ff1f00ff2f00ff1b00ff4c00ff3500ff1b00ff2600ff0c00ff0c00ff" },
    { SG_TEXEL_BC6_S, 3, "9e594c16b4d029c4f02adab9c5920066",
      "e9ff0a34ff0500620003ff00ffff07ffff075dff0dffff48e9ff0ae9ff0ae9ff0a23ff1223ff12ffff055dff0dffff07" },
};

static uint8_t byte_at(const char *hex, size_t k)
{
    unsigned byte;
    assert_int_equal(sscanf(hex + 2 * k, "%2x", &byte), 1);
    return (uint8_t)byte;
}

TEST(as_another_decoder)
{
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        uint8_t block[16] = { 0 };
        for (size_t i = 0; i < strlen(known[k].block) / 2; i++)
            block[i] = byte_at(known[k].block, i);
        for (unsigned texel = 0; texel < 16; texel++) {
            float out[4];
            sg_block_texel(known[k].format, block, texel % 4, texel / 4, out);
            for (unsigned c = 0; c < known[k].components; c++) {
                const float want = byte_at(known[k].texels, texel * known[k].components + c);
                const float got = fminf(fmaxf(out[c], 0), 1) * 255;
                if (fabsf(got - want) > 1.3f)
                    fail_msg("block %zu (%s), texel %u, component %u: %f instead of %f", k, known[k].block, texel, c,
                             (double)got, (double)want);
            }
        }
    }
}

/* What the decoder above does not show: -128 is -127, and -1 and 1 are values of their own. */
TEST(signed_channels)
{
    /* ends -128 and 127: the first is not greater. Indices 0, 1, 2, 5, 6, 7 */
    const uint64_t indices = 0 | 1 << 3 | 2 << 6 | 5 << 9 | 6 << 12 | 7 << 15;
    uint8_t block[16] = { 0x80, 0x7f };
    const float want[] = { -1, 1, -0.6f, 0.6f, -1, 1 };
    memcpy(block + 2, &indices, 6);
    for (unsigned texel = 0; texel < 6; texel++) {
        float out[4];
        sg_block_texel(SG_TEXEL_BC4_S, block, texel % 4, texel / 4, out);
        assert_true(fabsf(out[0] - want[texel]) < 1e-6f);
        assert_true(out[1] == 0 && out[2] == 0 && out[3] == 1);
    }
}

/* Half floats, signed and not, of the mode with two end points of 10 bits. */
TEST(half_floats)
{
    uint8_t block[16] = { 0 };
    float out[4];
    /* mode 00011; red of the first end point 511 (signed: the largest), green 512 (signed: the smallest), blue 1 */
    const uint64_t low = 3 | (uint64_t)511 << 5 | (uint64_t)512 << 15 | (uint64_t)1 << 25;
    memcpy(block, &low, sizeof low);
    sg_block_texel(SG_TEXEL_BC6_S, block, 0, 0, out);
    assert_true(out[0] == 65504 && out[1] == -65504);
    assert_true(out[2] > 0 && out[2] < 0.001f && out[3] == 1);
    sg_block_texel(SG_TEXEL_BC6_U, block, 0, 0, out);
    assert_true(out[0] > 1 && out[0] < out[1] && out[1] < 2); /* 511 and 512 of 1023 */
    block[0] = 0x13; /* no mode: black */
    sg_block_texel(SG_TEXEL_BC6_U, block, 1, 1, out);
    assert_true(out[0] == 0 && out[1] == 0 && out[2] == 0 && out[3] == 1);
    block[0] = 0;
    sg_block_texel(SG_TEXEL_BC7, block, 1, 1, out); /* no mode: black and transparent */
    assert_true(out[0] == 0 && out[3] == 0);
}

int main(void) { return unit_run(NULL, NULL); }
