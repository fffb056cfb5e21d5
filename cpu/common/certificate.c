/* certificate.c: see certificate.h. */
#include "cpu/common/certificate.h"

#include <stdio.h>
#include <string.h>

#include <openssl/bn.h>
#include <openssl/x509_vfy.h>

void certificate_number(const X509 *certificate, char out[CERTIFICATE_NUMBER_SIZE])
{
    BIGNUM *number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), NULL);
    char *text = number ? BN_bn2hex(number) : NULL;
    /* RFC 5280 allows 20 bytes. A longer one is none of ours. */
    snprintf(out, CERTIFICATE_NUMBER_SIZE, "%s", text && strlen(text) < CERTIFICATE_NUMBER_SIZE ? text : "");
    OPENSSL_free(text);
    BN_free(number);
}

void certificate_line(const X509 *certificate, char out[CERTIFICATE_NUMBER_SIZE])
{
    char text[CERTIFICATE_NUMBER_SIZE + 1] = "";
    int length = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_serialNumber, text, sizeof text);
    if (length > 0 && length < CERTIFICATE_NUMBER_SIZE && strspn(text, "0123456789ABCDEF") == (size_t)length)
        snprintf(out, CERTIFICATE_NUMBER_SIZE, "%.*s", CERTIFICATE_NUMBER_SIZE - 1, text);
    else
        certificate_number(certificate, out);
}

void certificate_numbers(const STACK_OF(X509) * chain, char out[CERTIFICATE_NUMBERS_SIZE])
{
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; chain && i < sk_X509_num(chain); i++) {
        char number[CERTIFICATE_NUMBER_SIZE], line[CERTIFICATE_NUMBER_SIZE];
        certificate_number(sk_X509_value(chain, i), number);
        certificate_line(sk_X509_value(chain, i), line);
        bool renewed = strcmp(number, line) != 0;
        if (at + 2 * CERTIFICATE_NUMBER_SIZE > CERTIFICATE_NUMBERS_SIZE)
            return;
        at += (size_t)snprintf(out + at, CERTIFICATE_NUMBERS_SIZE - at, "%s%s%s%s", at ? " " : "", number,
                               renewed ? " " : "", renewed ? line : "");
    }
}

static bool listed(X509_CRL *list, const char *text)
{
    BIGNUM *number = NULL;
    ASN1_INTEGER *wanted = *text && BN_hex2bn(&number, text) ? BN_to_ASN1_INTEGER(number, NULL) : NULL;
    X509_REVOKED *entry;
    bool found = wanted && X509_CRL_get0_by_serial(list, &entry, wanted) == 1;
    ASN1_INTEGER_free(wanted);
    BN_free(number);
    return found;
}

bool certificate_numbers_listed(X509_CRL *list, const char *numbers)
{
    char all[CERTIFICATE_NUMBERS_SIZE], *rest;
    snprintf(all, sizeof all, "%s", numbers);
    for (char *one = strtok_r(all, " ", &rest); one; one = strtok_r(NULL, " ", &rest))
        if (listed(list, one))
            return true;
    return false;
}

bool certificate_revoked(X509_STORE *store, const X509 *certificate)
{
    const STACK_OF(X509_OBJECT) *objects = X509_STORE_get0_objects(store);
    char number[CERTIFICATE_NUMBER_SIZE], line[CERTIFICATE_NUMBER_SIZE];
    certificate_number(certificate, number);
    certificate_line(certificate, line);
    for (int i = 0; i < sk_X509_OBJECT_num(objects); i++) {
        X509_CRL *list = X509_OBJECT_get0_X509_CRL(sk_X509_OBJECT_value(objects, i));
        if (list && (listed(list, number) || listed(list, line)))
            return true;
    }
    return false;
}

int certificate_verify(int good, X509_STORE_CTX *context)
{
    X509 *certificate = X509_STORE_CTX_get_current_cert(context);
    if (!good || !certificate || !certificate_revoked(X509_STORE_CTX_get0_store(context), certificate))
        return good;
    X509_STORE_CTX_set_error(context, X509_V_ERR_CERT_REVOKED);
    return 0;
}
