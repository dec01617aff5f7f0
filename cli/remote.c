#include "remote.h"

#include "report.h"
#include "serve_keys.h"

#include <mica/mica.h>

#include <stdlib.h>
#include <string.h>

const cli_option cli_remote_options[CLI_REMOTE_OPTIONS] = {
    CLI_OPTION(TEXT, "host", cli_remote_values, host, .placeholder = "ADDRESS",
               .initial = "127.0.0.1",
               .help = "where the server is: an address or a name, also as http://ADDRESS:PORT or "
                       "https://ADDRESS:PORT, or unix:PATH"),
    CLI_OPTION(INT, "port", cli_remote_values, port, .letter = 'p', .placeholder = "N",
               .initial = "8080", .min = 1, .max = 65535,
               .help = "its port, where the address has none"),
    CLI_OPTION(TEXT, "api-key", cli_remote_values, api_key, .placeholder = "KEY",
               .help = "the key that it wants; others see a command line: better in the "
                       "environment, or in a file"),
    CLI_OPTION(FILE, "api-key-file", cli_remote_values, api_key_file, .placeholder = "FILE",
               .help = "the first key of FILE"),
    CLI_OPTION(FILE, "cacert", cli_remote_values, certificates, .placeholder = "FILE",
               .help = "trust the certificates of FILE, in PEM form, instead of the system's"),
    CLI_OPTION(FLAG, "insecure", cli_remote_values, insecure,
               .help = "trust any certificate: somebody else may answer in the server's place"),
};

/* ---- the address ---- */

enum { MAX_HOST = 256, MAX_ADDRESS = MAX_HOST + 64 };

/* The port behind an address, or the option's; NULL: it is none. */
static const char *find_port(const char *end, int64_t port, char out[16]) {
    snprintf(out, 16, "%d", (int)port);
    if (*end != ':') return out;
    size_t digits = strspn(end + 1, "0123456789");
    if (digits == 0 || digits > 5 || (end[1 + digits] && end[1 + digits] != '/')) return NULL;
    snprintf(out, 16, "%.*s", (int)digits, end + 1);
    return out;
}

/* Writes what the options say as mica_server_ask takes it. */
static int find_address(const cli_remote_values *values, char out[MAX_ADDRESS]) {
    const char *text = values->host, *scheme = "http://";
    char port[16];
    if (strncmp(text, "unix:", 5) == 0) {
        if (!text[5] || strlen(text) >= MAX_ADDRESS)
            return cli_fail("--host: '%s' is no address", text);
        strcpy(out, text);
        return CLI_DONE;
    }
    if (strncmp(text, "https://", 8) == 0) scheme = "https://";
    if (strncmp(text, scheme, strlen(scheme)) == 0) text += strlen(scheme);
    bool bracket = text[0] == '[';
    size_t len = strcspn(text + bracket, bracket ? "]" : ":/");
    const char *host = text + bracket, *end = host + len + (bracket && host[len] == ']');
    bool bare = !bracket && strchr(end + (*end != 0), ':'); /* ::1 */
    if (bare) end = text + (len = strlen(text));
    if (len == 0 || len >= MAX_HOST || strpbrk(text, " @?#"))
        return cli_fail("--host: '%s' is no address", text);
    if (!find_port(end, values->port, port))
        return cli_fail("--host: '%s' has no port behind its colon", text);
    char name[MAX_HOST];
    snprintf(name, sizeof name, "%.*s", (int)len, host);
    /* what a server listens at that listens everywhere */
    if (strcmp(name, "0.0.0.0") == 0) strcpy(name, "127.0.0.1");
    if (strcmp(name, "::") == 0) strcpy(name, "::1");
    bool numbers = strchr(name, ':') != NULL; /* of IPv6 */
    snprintf(out, MAX_ADDRESS, "%s%s%s%s:%s", scheme, numbers ? "[" : "", name, numbers ? "]" : "",
             port);
    return CLI_DONE;
}

/* ---- the request ---- */

/* Reports why the server cannot be asked. */
static int explain(mica_status status, const char *address, const cli_remote_values *values) {
    const char *why = mica_last_error();
    if (status == MICA_ENOENT) {
        cli_fail("no server answers at %s: %s", address, why);
        cli_hint("mica serve starts one; --host and --port say where it is.");
    } else if (status == MICA_EFORMAT) {
        cli_fail("what answers there is no mica serve: %s", why);
    } else if (strncmp(address, "https://", 8) == 0 && !values->insecure) {
        cli_fail("%s: %s", address, why);
        cli_hint("--cacert FILE trusts the certificates of FILE; --insecure trusts any.");
    } else {
        cli_fail("%s: %s", address, why);
    }
    return CLI_FAILED;
}

/* Reports what the server said is wrong. */
static int report(int status, const cli_json *json) {
    const cli_json_node *error = json->count ? cli_json_find(json, json->nodes, "error") : NULL;
    const cli_json_node *message = error ? cli_json_find(json, error, "message") : NULL;
    if (message) error = message;
    if (!error || error->kind != CLI_JSON_STRING)
        return cli_fail("the server refuses: status %d", status);
    cli_fail("%s", error->text);
    if (status == 401) cli_hint("--api-key-file FILE and MICA_API_KEY give the key.");
    return CLI_FAILED;
}

int cli_remote_ask(const cli_remote_values *values, const char *method, const char *path,
                   const char *body, char **answer, cli_json *json) {
    cli_keys keys = {0};
    char address[MAX_ADDRESS];
    const char *why;
    int status = 0, code = find_address(values, address);
    if (code == CLI_DONE) code = cli_keys_read(values->api_key, values->api_key_file, &keys);
    if (code != CLI_DONE) return code;
    const mica_ask_options options = {.struct_bytes = sizeof options,
                                      .key = keys.count ? keys.texts[0] : NULL,
                                      .certificates = values->certificates,
                                      .any_certificate = values->insecure};
    mica_status asked = mica_server_ask(address, method, path, body, &options, &status, answer);
    if (asked != MICA_OK)
        code = explain(asked, address, values);
    else if (!cli_json_parse(json, *answer, strlen(*answer), &why))
        code = cli_fail("what answers there is no mica serve: %s", why);
    else if (status != 200)
        code = report(status, json);
    cli_keys_free(&keys);
    return code;
}
