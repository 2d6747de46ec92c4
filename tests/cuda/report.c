/*
 * report.c - make cuda-report: registers, shared bytes and spills of every kernel of some models.
 *
 *   cuda-report [--dtype T] [--batch-size N] [--arch sm_80,sm_90,sm_100] MODEL…
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/ptxas.h"

enum { SMS = 16 };

static int read_sms(int sm[SMS], const char *list) {
    int count = 0;
    for (const char *at = list; at && count < SMS; at = strchr(at, ',')) {
        at += *at == ',';
        sm[count++] = atoi(at + strcspn(at, "0123456789"));
    }
    return count;
}

/* A row per kernel, four columns per architecture; kernels are the same for all of these. */
static void print(const ptxas_report *all, const int *sm, int sms) {
    printf("%-28s", "kernel");
    for (int s = 0; s < sms; s++)
        printf("   sm_%-3d regs shared stack spill", sm[s]);
    printf("\n");
    for (int k = 0; k < all[0].kernels; k++) {
        printf("%-28s", all[0].kernel[k].kernel);
        for (int s = 0; s < sms; s++) {
            const ptxas_kernel *kernel = &all[s].kernel[k];
            printf("%14d %6d %5d %5d", kernel->registers, kernel->shared, kernel->stack,
                   kernel->spill);
        }
        printf("\n");
    }
    printf("\n");
}

static int report(const sc_nvrtc *nvrtc, const char *model, const sc_export_options *options,
                  const int *sm, int sms, sc_error *err) {
    sc_pool *pool = sc_pool_create();
    ptxas_report all[SMS];
    int rc = pool ? SC_OK : sc_oom(err, "making a report");
    for (int s = 0; s < sms && !rc; s++)
        rc = ptxas_compile(&all[s], nvrtc, pool, model, options, sm[s], err);
    if (!rc) {
        printf("%s, %s, batch_size %lld\n", model, options->dtype, (long long)options->batch_size);
        print(all, sm, sms);
    }
    sc_pool_destroy(pool);
    return rc;
}

int main(int argc, char **argv) {
    const char *list = "sm_80,sm_90,sm_100";
    sc_export_options options = { .target = "cuda", .dtype = "bfloat16", .batch_size = 1 };
    sc_error err = { 0 };
    sc_nvrtc *nvrtc = NULL;
    int sm[SMS], i = 1;
    for (; i + 1 < argc && !strncmp(argv[i], "--", 2); i += 2)
        if (!strcmp(argv[i], "--dtype"))
            options.dtype = argv[i + 1];
        else if (!strcmp(argv[i], "--batch-size"))
            options.batch_size = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--arch"))
            list = argv[i + 1];
        else
            return fprintf(stderr, "cuda-report: %s: is an unknown option\n", argv[i]), 2;
    const int sms = read_sms(sm, list);
    sc_pool *pool = sc_pool_create();
    int rc = pool ? sc_nvrtc_open(&nvrtc, pool, &err) : sc_oom(&err, "making a report");
    for (; i < argc && !rc; i++) {
        rc = report(nvrtc, argv[i], &options, sm, sms, &err);
        if (rc == SC_EUSAGE) /* it has no kernels: the others do */
            rc = printf("%s: %s\n\n", argv[i], err.message) < 0 ? SC_EENV : SC_OK;
    }
    sc_pool_destroy(pool);
    if (rc)
        fprintf(stderr, "%s\n", err.message);
    return sc_exit_status(rc);
}
