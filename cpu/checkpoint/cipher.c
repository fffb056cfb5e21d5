/* cipher.c: AES-256-GCM of OpenSSL: cipher.h. */
#include "cpu/checkpoint/cipher.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

/* A program may end while another thread of it writes: OpenSSL must not tidy up at exit. */
static void *begin(void)
{
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
    return EVP_CIPHER_CTX_new();
}
static void end(void *begun) { EVP_CIPHER_CTX_free(begun); }

static bool work(void *begun, const struct cipher_work *w)
{
    EVP_CIPHER_CTX *c = begun;
    uint8_t rest[EVP_MAX_BLOCK_LENGTH];
    int done;
    bool good = EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, w->key, w->nonce, w->closes) == 1;
    for (unsigned i = 0; i < w->count && good; i++)
        good = !w->also[i].size || EVP_CipherUpdate(c, NULL, &done, w->also[i].data, (int)w->also[i].size) == 1;
    if (good && w->in.size)
        good = EVP_CipherUpdate(c, w->out, &done, w->in.data, (int)w->in.size) == 1;
    if (good && !w->closes)
        good = EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, CIPHER_TAG, w->tag) == 1;
    good = good && EVP_CipherFinal_ex(c, rest, &done) == 1;
    if (good && w->closes)
        good = EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, CIPHER_TAG, w->tag) == 1;
    return good;
}

const struct checkpoint_cipher checkpoint_cipher = { begin, work, end };
