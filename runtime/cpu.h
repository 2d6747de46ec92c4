/*
 * cpu.h - can this processor run what the casting was compiled for?
 *
 * The names, each with all of the one before it:
 *     generic           whatever the compiler makes of plain C
 *     x86-64-v3         AVX2, FMA, F16C, BMI, LZCNT, MOVBE
 *     x86-64-v4         AVX-512 F, BW, CD, DQ, VL
 *     x86-64-v4-bf16    AVX-512 BF16
 */
#ifndef SC_CPU_H
#define SC_CPU_H

#include "error.h"

/* SC_EENV if this processor lacks arch, SC_EUSAGE if arch is no name from above. */
int sc_cpu_check(const char *arch, sc_error *err);

/* The best of the names that this processor can run; a constant string. */
const char *sc_cpu_native(void);

#endif
