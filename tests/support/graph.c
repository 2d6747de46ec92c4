/* graph.c - see graph.h. */
#include "graph.h"

#include <check.h>
#include <string.h>

#include "../../codegen/json.h"

sc_graph *graph_of(sc_pool *pool, const char *text, sc_config **config) {
    cJSON *json = NULL;
    sc_config *made = NULL;
    sc_graph *graph = NULL;
    sc_error err = { 0 };
    int rc = sc_json_parse(&json, "config.json", text, strlen(text), &err);
    if (!rc)
        rc = sc_config_make(&made, pool, "config.json", json, NULL, false, &err);
    cJSON_Delete(json);
    if (!rc)
        rc = sc_graph_make(&graph, pool, made, &err);
    ck_assert_msg(!rc, "%s", err.message);
    if (config)
        *config = made;
    return graph;
}
