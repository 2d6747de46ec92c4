/* cmd_verify.c - verify and diff: are these the bytes, and which field differs. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "json.h"
#include "options.h"

enum { MANIFEST_LIMIT = 64 << 20 };

/* Prints the paths of the values that differ between two JSON trees; returns how many. */
static int compare(FILE *out, const char *path, const cJSON *a, const cJSON *b) {
    char sub[512];
    int count = 0;
    if ((cJSON_IsObject(a) && cJSON_IsObject(b)) || (cJSON_IsArray(a) && cJSON_IsArray(b))) {
        const bool object = cJSON_IsObject(a);
        int i = 0;
        const cJSON *child;
        cJSON_ArrayForEach(child, a) {
            const cJSON *file = object ? NULL : sc_json_get(child, "file");
            if (object)
                snprintf(sub, sizeof sub, "%s%s%s", path, *path ? "." : "", child->string);
            else if (cJSON_IsString(file))
                snprintf(sub, sizeof sub, "%s[%s]", path, file->valuestring);
            else
                snprintf(sub, sizeof sub, "%s[%d]", path, i);
            count += compare(out, sub, child,
                             object ? sc_json_get(b, child->string) : cJSON_GetArrayItem(b, i));
            i++;
        }
        cJSON_ArrayForEach(child, b) {
            if (object && !sc_json_get(a, child->string)) {
                fprintf(out, "manifest.json: %s%s%s: only in the second\n", path, *path ? "." : "",
                        child->string);
                count++;
            }
        }
        if (!object && cJSON_GetArraySize(b) > i) {
            fprintf(out, "manifest.json: %s: %d entries and %d\n", path, i, cJSON_GetArraySize(b));
            count++;
        }
        return count;
    }
    if (a && b && cJSON_Compare(a, b, true))
        return 0;
    char *left = a ? cJSON_PrintUnformatted(a) : NULL,
         *right = b ? cJSON_PrintUnformatted(b) : NULL;
    fprintf(out, "manifest.json: %s: %s and %s\n", path, left ? left : "nothing",
            right ? right : "nothing");
    cJSON_free(left);
    cJSON_free(right);
    return 1;
}

static int read_manifest(cJSON **json, const char *dir, sc_pool *pool, sc_error *err) {
    const char *path = sc_pool_printf(pool, "%s/manifest.json", dir);
    return path ? sc_json_read(json, path, MANIFEST_LIMIT, err)
                : sc_oom(err, "reading the manifest");
}

/* Adds what differs to *count. */
static int compare_manifests(int *count, const char *a, const char *b, sc_pool *pool, FILE *out,
                             sc_error *err) {
    cJSON *left = NULL, *right = NULL;
    int rc = read_manifest(&left, a, pool, err);
    if (!rc)
        rc = read_manifest(&right, b, pool, err);
    if (!rc)
        *count += compare(out, "", left, right);
    cJSON_Delete(left);
    cJSON_Delete(right);
    return rc;
}

int sc_cmd_diff(const sc_cli *cli, sc_pool *pool, FILE *out, sc_error *err) {
    if (cli->models != 2)
        return sc_fail(err, SC_EUSAGE, "diff: two castings are wanted");
    int count = 0;
    const int rc = compare_manifests(&count, cli->model[0], cli->model[1], pool, out, err);
    if (!rc && count)
        return sc_fail(err, SC_ECHECK, "%s and %s differ in %d values", cli->model[0],
                       cli->model[1], count);
    return rc;
}

/* Every listed file has the digest that the manifest gives. */
static int check_outputs(int *wrong, const char *dir, const cJSON *manifest, sc_pool *pool,
                         FILE *out, sc_error *err) {
    const cJSON *outputs = sc_json_get(manifest, "outputs"), *entry;
    if (!cJSON_IsArray(outputs))
        return sc_fail(err, SC_EINPUT, "%s/manifest.json: outputs: is no list (is this a casting?)",
                       dir);
    cJSON_ArrayForEach(entry, outputs) {
        const cJSON *file = sc_json_get(entry, "file"), *want = sc_json_get(entry, "sha256");
        if (!cJSON_IsString(file) || !cJSON_IsString(want) || strstr(file->valuestring, "..") ||
            file->valuestring[0] == '/')
            return sc_fail(err, SC_EINPUT,
                           "%s/manifest.json: outputs: an entry without file and sha256", dir);
        const char *path = sc_pool_printf(pool, "%s/%s", dir, file->valuestring);
        char hex[65];
        if (!path)
            return sc_oom(err, "verifying");
        sc_error missing;
        if (sc_export_digest(hex, path, &missing)) {
            fprintf(out, "%s: missing\n", file->valuestring);
            (*wrong)++;
        } else if (strcmp(hex, want->valuestring)) {
            fprintf(out, "%s: sha256 is %s, the manifest says %s\n", file->valuestring, hex,
                    want->valuestring);
            (*wrong)++;
        }
    }
    return SC_OK;
}

/* Casts MODEL again beside nothing of the user's, and compares manifests: they hold every digest.
 */
static int check_model(int *wrong, const sc_cli *cli, sc_pool *pool, FILE *out, sc_error *err) {
    const char *tmp = getenv("TMPDIR");
    char *folder = sc_pool_printf(pool, "%s/slipcast-verify.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    sc_export_options options;
    int rc = sc_export_read_options(&options, pool, cli->model[0], err);
    if (rc)
        return rc;
    if (!folder || !mkdtemp(folder))
        return sc_fail(err, SC_EENV, "verify: no temporary folder can be made (set TMPDIR)");
    const char *again = sc_pool_printf(pool, "%s/casting", folder);
    options.quiet = true;
    sc_cli export_cli = { .command = "export",
                          .model = { cli->model[1] },
                          .models = 1,
                          .output = again,
                          .export = options };
    rc = again ? sc_cmd_export(&export_cli, pool, out, err) : sc_oom(err, "verifying");
    if (!rc)
        rc = compare_manifests(wrong, cli->model[0], again, pool, out, err);
    char *command = sc_pool_printf(pool, "rm -rf '%s'", folder);
    if (!strchr(folder, '\'') && command && system(command))
        fprintf(stderr, "%s: could not be removed\n", folder);
    return rc;
}

int sc_cmd_verify(const sc_cli *cli, sc_pool *pool, FILE *out, sc_error *err) {
    cJSON *manifest = NULL;
    int wrong = 0, rc = read_manifest(&manifest, cli->model[0], pool, err);
    if (!rc)
        rc = check_outputs(&wrong, cli->model[0], manifest, pool, out, err);
    cJSON_Delete(manifest);
    if (!rc && cli->models == 2)
        rc = check_model(&wrong, cli, pool, out, err);
    if (rc)
        return rc;
    if (wrong)
        return sc_fail(err, SC_ECHECK, "%s: %d differences", cli->model[0], wrong);
    if (!cli->export.quiet)
        fprintf(out, "%s: every byte as it should be\n", cli->model[0]);
    return SC_OK;
}
