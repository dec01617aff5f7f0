/* What the hub calls of libcurl and OpenSSL's libcrypto: CURL_SYMBOL(name) for curl_<name>,
 * CRYPTO_SYMBOL(name) for EVP_<name>. All of it is looked up when the libraries are loaded, which
 * fails where one is missing. Include this file with both defined; they are undefined at the
 * end. */
CURL_SYMBOL(global_init)
CURL_SYMBOL(free)

/* transfers */
CURL_SYMBOL(easy_init)
CURL_SYMBOL(easy_setopt)
CURL_SYMBOL(easy_getinfo)
CURL_SYMBOL(easy_perform)
CURL_SYMBOL(easy_strerror)
CURL_SYMBOL(easy_cleanup)
CURL_SYMBOL(multi_init)
CURL_SYMBOL(multi_add_handle)
CURL_SYMBOL(multi_remove_handle)
CURL_SYMBOL(multi_perform)
CURL_SYMBOL(multi_info_read)
CURL_SYMBOL(multi_poll)
CURL_SYMBOL(multi_strerror)
CURL_SYMBOL(multi_cleanup)
CURL_SYMBOL(slist_append)
CURL_SYMBOL(slist_free_all)

/* addresses */
CURL_SYMBOL(url)
CURL_SYMBOL(url_set)
CURL_SYMBOL(url_get)
CURL_SYMBOL(url_cleanup)

/* checksums */
CRYPTO_SYMBOL(MD_CTX_new)
CRYPTO_SYMBOL(MD_CTX_free)
CRYPTO_SYMBOL(DigestInit_ex)
CRYPTO_SYMBOL(DigestUpdate)
CRYPTO_SYMBOL(DigestFinal_ex)
CRYPTO_SYMBOL(sha256)
CRYPTO_SYMBOL(sha1)

/* seals */
CRYPTO_SYMBOL(CIPHER_CTX_new)
CRYPTO_SYMBOL(CIPHER_CTX_free)
CRYPTO_SYMBOL(CIPHER_CTX_ctrl)
CRYPTO_SYMBOL(aes_256_gcm)
CRYPTO_SYMBOL(EncryptInit_ex)
CRYPTO_SYMBOL(EncryptUpdate)
CRYPTO_SYMBOL(EncryptFinal_ex)
CRYPTO_SYMBOL(DecryptInit_ex)
CRYPTO_SYMBOL(DecryptUpdate)
CRYPTO_SYMBOL(DecryptFinal_ex)
CRYPTO_SYMBOL(EncodeBlock)
CRYPTO_SYMBOL(DecodeBlock)

#undef CURL_SYMBOL
#undef CRYPTO_SYMBOL
