/* Which variables are secrets. Masking one too many costs a question, one too few a password. */
#include "proc/spec.h"

#include <string.h>
#include <strings.h>

/* A part of the name that gives a secret away, unless what it begins is another word. */
static const struct {
    const char *part;
    const char *unless[3];
} secret_parts[] = {
    {"TOKEN", {0}},
    {"SECRET", {0}},
    {"PASSWORD", {0}},
    {"PASSWD", {0}},
    {"PASSPHRASE", {0}},
    {"API_KEY", {0}},
    {"_PAT", {"_PATH", "_PATTERN", "_PATCH"}},
    {"APIKEY", {0}},
    {"_KEY", {"_KEYBOARD", "_KEYMAP"}},
    {"CREDENTIAL", {0}},
    {"AUTH", {"AUTHOR"}},
    {"COOKIE", {0}},
    {"PRIVATE", {0}},
    {"AUTHORI", {0}},
    {"_PASS", {"_PASSIVE", "_PASSED"}},
    {"_PWD", {0}},
};

static bool begins_with(const char *text, const char *with)
{
    return strncasecmp(text, with, strlen(with)) == 0;
}

static bool name_is_secret(const char *name)
{
    for (const char *at = name; *at; at++)
        for (size_t i = 0; i < sizeof secret_parts / sizeof secret_parts[0]; i++) {
            bool is_found = begins_with(at, secret_parts[i].part);
            for (size_t j = 0; is_found && j < 3 && secret_parts[i].unless[j]; j++)
                is_found = !begins_with(at, secret_parts[i].unless[j]);
            if (is_found)
                return true;
        }
    return false;
}

/* user:password@ after a ://, up to the end of the authority. */
static bool value_is_secret(const char *value)
{
    for (const char *at = value; (at = strstr(at, "://"));) {
        at += 3;
        size_t len = strcspn(at, "/?# \t\n");
        const char *host = memrchr(at, '@', len), *colon = memchr(at, ':', len);
        if (host && colon && colon + 1 < host)
            return true;
    }
    return strstr(value, "-----BEGIN ") && strstr(value, "PRIVATE KEY-----");
}

bool proc_env_is_secret(const char *name, const char *value)
{
    return value[0] && (name_is_secret(name) || value_is_secret(value));
}

json_t *proc_env_masked(const json_t *env)
{
    json_t *masked = json_object();
    json_each_pair (env, name, value) {
        const char *text = json_string_value(value);
        bool is_secret = text && proc_env_is_secret(name, text);
        json_object_set_new(masked, name, is_secret ? json_string("***") : json_deep_copy(value));
    }
    return masked;
}
