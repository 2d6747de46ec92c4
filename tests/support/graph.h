/* graph.h - the graph of a config that is there as text, for tests. */
#ifndef SC_TEST_GRAPH_H
#define SC_TEST_GRAPH_H

#include "../../codegen/graph.h"

/* Both in the pool; config NULL: it is not wanted. Fails the test. */
sc_graph *graph_of(sc_pool *pool, const char *text, sc_config **config);

#endif
