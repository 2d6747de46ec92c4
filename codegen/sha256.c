/* sha256.c - see sha256.h. */
#include "sha256.h"

#include <openssl/evp.h>

/* The context of libcrypto is the digest: no wrapper to allocate. */
static EVP_MD_CTX *context(sc_sha256 *digest) { return (EVP_MD_CTX *)digest; }

static int failed(sc_error *err) {
    return sc_fail(err, SC_EENV, "libcrypto: SHA-256 failed (no memory, or no such digest in it)");
}

int sc_sha256_begin(sc_sha256 **digest, sc_error *err) {
    EVP_MD_CTX *made = EVP_MD_CTX_new();
    if (!made || EVP_DigestInit_ex(made, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(made);
        return failed(err);
    }
    *digest = (sc_sha256 *)made;
    return SC_OK;
}

int sc_sha256_update(sc_sha256 *digest, const void *bytes, size_t size, sc_error *err) {
    return EVP_DigestUpdate(context(digest), bytes, size) == 1 ? SC_OK : failed(err);
}

int sc_sha256_finish(sc_sha256 *digest, char hex[SC_SHA256_HEX], sc_error *err) {
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    const int ok = EVP_DigestFinal_ex(context(digest), sum, &length);
    sc_sha256_drop(digest);
    if (ok != 1 || length != 32)
        return failed(err);
    for (int i = 0; i < 32; i++) {
        hex[2 * i] = "0123456789abcdef"[sum[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[sum[i] & 15];
    }
    hex[64] = '\0';
    return SC_OK;
}

void sc_sha256_drop(sc_sha256 *digest) { EVP_MD_CTX_free(context(digest)); }

int sc_sha256_hex(char hex[SC_SHA256_HEX], const void *bytes, size_t size, sc_error *err) {
    sc_sha256 *digest;
    int rc = sc_sha256_begin(&digest, err);
    if (rc)
        return rc;
    rc = sc_sha256_update(digest, bytes, size, err);
    if (rc) {
        sc_sha256_drop(digest);
        return rc;
    }
    return sc_sha256_finish(digest, hex, err);
}
